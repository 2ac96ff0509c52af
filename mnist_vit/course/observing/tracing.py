"""The first step of an answer that no right solution makes, with the learner's line.

Every operation on tensors inside the answer is seen by a ``TorchFunctionMode``. A result is
recognised by its numbers, in whatever order they stand, so that another axis order or a reshape is
no difference.
"""

import linecache
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

COURSE = str(Path(__file__).resolve().parent.parent)
ENGINE = (COURSE + os.sep + "checking", COURSE + os.sep + "observing")
PACKAGE = str(Path(__file__).resolve().parent.parent.parent)
UNSEEN = ", need_weights=False"  # makes no difference to the tokens
CLOSE = 1e-4  # two sums are the same within this share


@dataclass
class Step:
    """One result.

    Attributes:
        print: its fingerprint.
        parents: the numbers of the steps that it was made from.
        line: the learner's line that made it.
        known: whether a right solution has it, too, or it came in.
    """

    print: tuple[float, ...]
    parents: list[int]
    line: str
    known: bool = False


@dataclass
class Trace(TorchFunctionMode):
    """The operations of a block, in order."""

    steps: list[Step] = field(default_factory=list)
    made_by: dict[int, int] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # so that no address is used twice

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        result = function(*args, **options)
        given = _tensors(args) + _tensors(tuple(options.values()))
        line = _line() if given else None
        if line is None:
            return result
        for tensor in given:
            if id(tensor) not in self.made_by and _has_fingerprint(tensor):
                # What came in counts as known.
                self._keep(tensor, Step(fingerprint(tensor), [], "", known=True))
        for tensor in _tensors(result):
            if _has_fingerprint(tensor) and tensor.numel() > 1:
                parents = [self.made_by[id(part)] for part in given if id(part) in self.made_by]
                self._keep(tensor, Step(fingerprint(tensor), parents, line))
        return result

    def _keep(self, tensor: Tensor, step: Step) -> None:
        self.made_by[id(tensor)] = len(self.steps)
        self.kept.append(tensor)
        self.steps.append(step)


def _has_fingerprint(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.layout == torch.strided


def fingerprint(tensor: Tensor) -> tuple[float, ...]:
    """Number of finite values, and four sums that do not depend on their order."""
    with torch._C.DisableTorchFunction():
        x = tensor.detach().double().flatten()
        x = x[x.isfinite()]
        return (
            float(len(x)),
            float(x.sum()),
            float(x.abs().sum()),
            float(x.square().sum()),
            float((x**3).sum()),
        )


def same(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Whether two fingerprints are those of the same numbers."""
    if a[0] != b[0] or a[0] == 0:
        return False
    scales = (a[2], a[2], a[3], max(a[3] ** 1.5, abs(a[4])))
    for x, y, scale in zip(a[1:], b[1:], scales, strict=True):
        if not abs(x - y) <= CLOSE * max(scale, 1e-6):  # nan is not near anything
            return False
    return True


def first_unknown(theirs: list[Step], known: list[Step], source: str) -> str:
    """A sentence with the learner's line where the results begin to be none of ours.

    A step counts only if nothing that is made from it is recognised again: what is, was right in
    another way. A line that stands in our source, too, is not quoted: what it is given is wrong, or
    comes too early or too late.

    Returns:
        The sentence; "" where there is no such line.
    """
    _recognise(theirs, known)
    leads = _lead_to_known(theirs)
    if all(leads) and any(step.line for step in theirs):
        return (
            "Every step of yours that we can follow is one of ours, too: look at the arguments, and"
            " at steps that are missing or too many."
        )
    lines = {"", *map(str.strip, source.replace(UNSEEN, "").splitlines())}
    for step, leads_on in zip(theirs, leads, strict=True):
        is_ours = step.line.replace(UNSEEN, "") in lines
        if not is_ours and not leads_on and all(leads[parent] for parent in step.parents):
            return f"This line is in none of our solutions; look there first: `{step.line[:120]}`."
    return ""


def _recognise(theirs: list[Step], known: list[Step]) -> None:
    """Mark the steps whose numbers are those of a known step, or came in."""
    right = known + [step for step in theirs if step.known]
    for step in theirs:
        if not step.known:
            step.known = any(same(step.print, other.print) for other in right)


def _lead_to_known(steps: list[Step]) -> list[bool]:
    """For each step whether it is known, or a known one is made from it."""
    leads = [step.known for step in steps]
    for number in range(len(steps) - 1, -1, -1):
        if leads[number]:
            for parent in steps[number].parents:
                leads[parent] = True
    return leads


def _tensors(values: Any) -> list[Tensor]:
    """All tensors in lists and tuples of values."""
    if isinstance(values, Tensor):
        return [values]
    found: list[Tensor] = []
    if isinstance(values, tuple | list):
        for part in values:
            found += _tensors(part)
    return found


def is_theirs(file: str) -> bool:
    """Whether a file is the learner's: none of the package, of a library or of Python itself."""
    library = os.path.dirname(os.__file__)
    is_installed = file.startswith((PACKAGE + os.sep, library + os.sep))
    return not is_installed and "-packages" not in file


def _line() -> str | None:
    """The learner's line that is running.

    Of a piece in ``my_vit.py``, which passed its check, the line that calls it. "" if the line is
    the course's; None for what the comparison itself does.
    """
    inside: str | None = None
    for frame, number in traceback.walk_stack(sys._getframe(2)):
        file = frame.f_code.co_filename
        is_compare = file.startswith(COURSE) and frame.f_code.co_name.startswith("compare")
        if is_compare or file.startswith(ENGINE):
            break
        line = ""
        if is_theirs(file):
            line = linecache.getline(file, number).strip()
        if line:
            inside = "" if "super().__init__" in line else line
            if not file.endswith("my_vit.py"):
                return inside
        elif file.startswith(COURSE):
            inside = inside or ""
    return inside
