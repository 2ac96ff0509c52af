"""The first step of an answer that no right solution makes, with the learner's line.

Every operation on tensors inside the answer is seen by a ``TorchFunctionMode``. A result is
recognised by its numbers, in whatever order they stand, so that another axis order or a reshape is
no difference.
"""

import linecache
import os
import sys
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
    """One result: its fingerprint, the steps that it was made from, and the line that made it."""

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
        result = function(*args, **(kwargs or {}))
        given = _tensors(args) + _tensors(tuple((kwargs or {}).values()))
        line = _line() if given else None
        if line is None:
            return result
        for part in given:
            if (
                id(part) not in self.made_by
                and part.is_floating_point()
                and part.layout == torch.strided
            ):
                self.made_by[id(part)] = len(self.steps)  # what came in counts as known
                self.kept.append(part)
                self.steps.append(Step(fingerprint(part), [], "", known=True))
        for tensor in _tensors((result,)):
            if tensor.is_floating_point() and tensor.layout == torch.strided and tensor.numel() > 1:
                parents = [self.made_by[id(part)] for part in given if id(part) in self.made_by]
                self.made_by[id(tensor)] = len(self.steps)
                self.kept.append(tensor)
                self.steps.append(Step(fingerprint(tensor), parents, line))
        return result


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
    scale = (a[2], a[2], a[3], max(a[3] ** 1.5, abs(a[4])))
    return all(
        abs(x - y) <= CLOSE * max(s, 1e-6) for x, y, s in zip(a[1:], b[1:], scale, strict=True)
    )


def first_unknown(theirs: list[Step], known: list[Step], source: str) -> str:
    """A sentence with the learner's line where the results begin to be none of ours; "" where it
    tells nothing.

    A step counts only if nothing that is made from it is recognised again: what is, was right in
    another way. A line
    that stands in our source, too, is not quoted: what it is given is wrong, or comes too early or
    too late.
    """
    prints = [step.print for step in (*known, *(step for step in theirs if step.known))]
    for step in theirs:
        step.known = step.known or any(same(step.print, other) for other in prints)
    leads = [step.known for step in theirs]  # whether something known follows from the step
    for number in range(len(theirs) - 1, -1, -1):
        if leads[number]:
            for parent in theirs[number].parents:
                leads[parent] = True
    followed = [lead for step, lead in zip(theirs, leads, strict=True) if step.line]
    if all(leads) and followed:
        return (
            "Every step of yours that we can follow is one of ours, too: look at the arguments, and"
            " at steps that are missing or too many."
        )
    lines = {"", *map(str.strip, source.replace(UNSEEN, "").splitlines())}
    for number, step in enumerate(theirs):
        if step.line.replace(UNSEEN, "") in lines:
            continue
        if (
            not step.known
            and not leads[number]
            and all(theirs[p].known or leads[p] for p in step.parents)
        ):
            return f"This line is in none of our solutions; look there first: `{step.line[:120]}`."
    return ""


def _tensors(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    return (
        [t for part in values for t in _tensors(part)] if isinstance(values, tuple | list) else []
    )


def is_theirs(file: str) -> bool:
    """Whether a file is the learner's: none of the package, of a library or of Python itself."""
    return (
        not file.startswith((PACKAGE + os.sep, os.path.dirname(os.__file__) + os.sep))
        and "-packages" not in file
    )


def _line() -> str | None:
    """The learner's line that is running; "" if it is the course's; None for what the comparison
    itself does.

    Of a piece in ``my_vit.py``, which passed its check, the line that calls it.
    """
    frame = sys._getframe(2)
    inside: str | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(ENGINE) or (
            file.startswith(COURSE) and frame.f_code.co_name == "compare"
        ):
            break
        if is_theirs(file) and (line := linecache.getline(file, frame.f_lineno).strip()):
            inside = "" if "super().__init__" in line else line
            if not file.endswith("my_vit.py"):
                return inside
        elif file.startswith(COURSE):
            inside = inside or ""
        frame = frame.f_back  # type: ignore[assignment]
    return inside
