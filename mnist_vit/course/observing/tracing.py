"""The operations of an answer, one after the other, with the learner's expressions.

Every operation on tensors inside the answer is seen by a ``TorchFunctionMode``. A result is
recognised by its numbers, in whatever order they stand, so that another axis order or a reshape is
no difference. The same mode can put another value in the place of a result (``Swap``).
"""

import ast
import functools
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .calls import Call

COURSE = str(Path(__file__).resolve().parent.parent)
ENGINE = (COURSE + os.sep + "checking", COURSE + os.sep + "observing")
PACKAGE = str(Path(__file__).resolve().parent.parent.parent)
COMPILED = "mnist_vit/course/"  # how bytecode without its source names its file
CLOSE = 1e-4  # two sums are the same within this share
OUTSIDE = ("item", "tolist", "numpy")  # their results are no tensors
PARTS = ("__iter__", "unbind", "split", "chunk")  # together they are what they were made from
IN_PLACE = re.compile(r"[a-z]_$|^__(iadd|isub|imul|itruediv|setitem)__$")  # names of functions
COMPOUND = re.compile(r"(for|while|with|if)\b")


@dataclass(frozen=True)
class Place:
    """Where in a learner's source an operation is asked for.

    Attributes:
        expression: its text; "" if it is the course's own.
        statement: the file and the first line of the statement that it stands in.
        inside: the function that the expression called and that made the operation; None if the
            expression is the operation.
    """

    expression: str
    statement: tuple[str, int] = ("", 0)
    inside: FrameType | None = None


@dataclass
class Step:
    """One result.

    Attributes:
        print: its fingerprint.
        shape: its shape.
        parents: the numbers of the steps that it was made from.
        place: what made it; None for what came in.
        call: the number of the answer's call that was running; None outside of any.
        value: the result as it was; None where it is not kept.
        known: whether a right solution has it, too, or it came in.
        cuts: whether something that it was made from asks for a gradient, and it does not.
        is_part: whether it is one of the parts that a tensor was taken apart into, or a single
            number: it is as right as what it was made from.
        writes: whether it was written into a view of another tensor, which is not followed.
        unfollowed: whether it was made from whole numbers or booleans, which are not followed.
    """

    print: tuple[float, ...]
    shape: torch.Size
    parents: list[int]
    place: Place | None = None
    call: int | None = None
    value: Tensor | None = None
    known: bool = False
    cuts: bool = False
    is_part: bool = False
    writes: bool = False
    unfollowed: bool = False


@dataclass(frozen=True)
class Swap:
    """Another value in the place of one result, or of one input of one operation or several.

    Attributes:
        value: what is put there.
        step: the number of the result, or of the input.
        users: the numbers of the results that are made from it instead; empty for a result.
    """

    value: Tensor
    step: int
    users: tuple[int, ...] = ()


@dataclass
class Trace(TorchFunctionMode):
    """The operations of a block, in order.

    Attributes:
        calls: the calls of the answer, the running one last.
        keep: whether values are kept.
        swap: a value that is put in the place of another one.
        leaves: whether numbers were taken out of tensors, where they are not followed.
    """

    calls: list[Call] = field(default_factory=list)
    keep: bool = False
    swap: Swap | None = None
    leaves: bool = False
    steps: list[Step] = field(default_factory=list)
    made_by: dict[int, int] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)  # so that no address is used twice

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        given = _tensors(args) + _tensors(tuple(options.values()))
        name = getattr(function, "__name__", "")
        # what nobody has filled yet has no numbers, only what lay there before
        is_unfilled = name.startswith(("empty", "new_empty"))
        place = asked_for(name == "__setitem__") if given and not is_unfilled else None
        if place is None:
            return function(*args, **options)
        for tensor in given:
            if id(tensor) not in self.made_by and _has_fingerprint(tensor):
                came = Step(self._print(tensor), tensor.shape, [], known=True)
                came.value = self._kept(tensor)
                self._add(tensor, came)
        if self.swap is not None and len(self.steps) in self.swap.users:
            args = self._exchanged(args)
            options = self._exchanged(options)
        result = function(*args, **options)
        parents = [self.made_by[id(part)] for part in given if id(part) in self.made_by]
        asks = any(part.requires_grad for part in given)
        if name in OUTSIDE:
            self.leaves = True
            self._add(given[0], self._step(given[0], parents, place, cuts=asks))
        for tensor in args[:1] if name == "__setitem__" else _tensors(result):
            if _has_fingerprint(tensor) and tensor.numel() > 0:
                cuts = asks and not tensor.requires_grad and not _is_in_own_derivative()
                result = self._put_in(result, tensor, args)
                step = self._step(tensor, parents, place, cuts)
                step.is_part = name in PARTS or tensor.numel() == 1
                step.unfollowed = any(not _has_fingerprint(part) for part in given)
                step.writes = IN_PLACE.search(name) is not None and tensor._base is not None
                self._add(tensor, step)
        return result

    def _print(self, tensor: Tensor) -> tuple[float, ...]:
        """The fingerprint; nobody asks for it where a value is swapped."""
        return () if self.swap is not None else fingerprint(tensor)

    def _kept(self, tensor: Tensor) -> Tensor | None:
        with torch._C.DisableTorchFunction():
            return tensor.detach().clone() if self.keep else None

    def _step(self, tensor: Tensor, parents: list[int], place: Place, cuts: bool) -> Step:
        number = len(self.calls) - 1
        is_running = bool(self.calls) and self.calls[-1].is_running
        value = self._kept(tensor)
        call = number if is_running else None
        return Step(self._print(tensor), tensor.shape, parents, place, call, value, cuts=cuts)

    def _add(self, tensor: Tensor, step: Step) -> None:
        self.made_by[id(tensor)] = len(self.steps)
        self.alive.append(tensor)
        self.steps.append(step)

    def _put_in(self, result: Any, tensor: Tensor, args: tuple) -> Any:
        """The result with the swapped value in it, if this is its step.

        What was written in place is written over, so that all who hold it see the value.
        """
        if self.swap is None or self.swap.users or self.swap.step != len(self.steps):
            return result
        value = self.swap.value.clone()
        if result is None or (args and tensor is args[0]):
            with torch.no_grad():
                tensor.copy_(value)
            return result
        self.made_by[id(value)] = len(self.steps)
        self.alive.append(value)
        return _with(result, tensor, value)

    def _exchanged(self, values: Any) -> Any:
        """Inputs of an operation, the swapped one replaced."""
        if self.swap is None:
            return values
        for key, number in list(self.made_by.items()):
            if number == self.swap.step:
                values = _with(values, key, self.swap.value.clone())
        return values


def _with(values: Any, old: Any, new: Tensor) -> Any:
    """Values with one tensor, or the one at an address, replaced."""
    if isinstance(values, Tensor):
        is_it = values is old or id(values) == old
        return new if is_it else values
    if isinstance(values, tuple | list):
        return type(values)([_with(value, old, new) for value in values])
    if isinstance(values, dict):
        return {name: _with(value, old, new) for name, value in values.items()}
    return values


def _is_in_own_derivative() -> bool:
    """Whether the running code is that of a ``torch.autograd.Function``, which has a backward."""
    for frame, _ in traceback.walk_stack(sys._getframe()):
        if frame.f_code.co_name == "forward" and frame.f_code.co_varnames[:1] == ("ctx",):
            return True
    return False


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


def cut(
    steps: list[Step], ours: list[Step], name: str = "", given: list[Tensor] | None = None
) -> str:
    """The learner's first expression through which no gradient flows; "" if there is none.

    Args:
        steps: the operations of an answer.
        ours: the results of the solution through which no gradient is to flow: they are right.
        name: of whose gradient is asked; an expression with this name in it comes before others.
        given: the inputs of this name, if there are any: what was not made from them cuts nothing.
    """
    made = _made_from(steps, given) if given else set(range(len(steps)))
    cutting = []
    for number, step in enumerate(steps):
        if not step.cuts or step.place is None or not step.place.expression:
            continue
        if number not in made:
            continue
        if not any(same(step.print, other.print) for other in ours):
            cutting.append(step.place.expression)
    named = [text for text in cutting if name and re.search(rf"\b{re.escape(name)}\b", text)]
    return (named or cutting or [""])[0]


def _made_from(steps: list[Step], given: list[Tensor]) -> set[int]:
    """The numbers of the steps that inputs lead to."""
    prints = [fingerprint(tensor) for tensor in given]
    made: set[int] = set()
    for number, step in enumerate(steps):
        is_given = step.place is None and any(same(step.print, one) for one in prints)
        if is_given or not made.isdisjoint(step.parents):
            made.add(number)
    return made


def _tensors(values: Any) -> list[Tensor]:
    """All tensors in lists and tuples of values."""
    if isinstance(values, Tensor):
        return [values]
    found: list[Tensor] = []
    if isinstance(values, tuple | list):
        for part in values:
            found += _tensors(part)
    return found


# ----------------------------------------------------------------------------- the learner's source


def is_theirs(file: str) -> bool:
    """Whether a file is the learner's: none of the package, of a library or of Python itself."""
    library = os.path.dirname(os.__file__)
    is_installed = file.startswith((PACKAGE + os.sep, library + os.sep, COMPILED))
    is_frozen = file.startswith("<frozen ")  # a module of Python that has no file
    return not is_installed and not is_frozen and "-packages" not in file


def is_of_models(file: str) -> bool:
    """Whether a file is one of the models that an answer may be given: ours or torchvision's."""
    ours = file.startswith(PACKAGE + os.sep) and os.path.dirname(file) == PACKAGE
    return ours or os.path.join("torchvision", "models") in file


def quoted(text: str, most: int = 120) -> str:
    """Source on one line, in backticks; a long one ends at a word, with an ellipsis."""
    line = " ".join(text.split())
    if len(line) > most:
        line = f"{line[:most].rpartition(' ')[0] or line[:most]} …"
    return f"`{line}`"


def asked_for(is_statement: bool = False) -> Place | None:
    """Where the running operation was asked for; with the whole statement as its expression.

    In a piece of ``my_vit.py``, which passed its check, that is the expression that calls it. None
    for what the comparison itself does.
    """
    found: Place | None = None
    inside: FrameType | None = None
    for frame, number in traceback.walk_stack(sys._getframe(2)):
        file = frame.f_code.co_filename
        is_compare = file.startswith((COURSE, COMPILED)) and frame.f_code.co_name.startswith(
            "compare"
        )
        if is_compare or file.startswith(ENGINE):
            break
        line = linecache.getline(file, number).strip() if is_theirs(file) else ""
        if line:
            found = _place_of(frame, inside, is_statement)
            if not file.endswith("my_vit.py"):
                return found
        elif file.startswith((COURSE, COMPILED)):
            found = found or Place("")
        inside = frame
    return found


def _place_of(frame: FrameType, inside: FrameType | None, is_statement: bool) -> Place:
    line = frame.f_lineno or 0
    expression, first = source_of(frame.f_code, frame.f_lasti, line)
    if "super().__init__" in expression:
        return Place("")
    if is_statement:
        expression = linecache.getline(frame.f_code.co_filename, line).strip()
    return Place(expression, (frame.f_code.co_filename, first), inside)


@functools.lru_cache(1024)
def source_of(code: CodeType, instruction: int, line: int) -> tuple[str, int]:
    """The text of the expression that an instruction belongs to, and its statement's first line."""
    lines = linecache.getlines(code.co_filename)
    if len(lines) < line:  # code whose text is not known, as that of python -c
        return "", line
    first = _statement("".join(lines), line)
    begin, end, left, right = list(code.co_positions())[instruction // 2]
    if not lines:
        return "", first
    if begin is None or end is None or left is None or right is None:
        return lines[line - 1].strip(), first
    part = [one.encode() for one in lines[begin - 1 : end]]
    part[-1] = part[-1][:right]
    part[0] = part[0][left:]
    text = b"".join(part).decode(errors="replace")
    if "\n" in text and COMPOUND.match(text):  # the head of a loop alone
        text = lines[begin - 1].strip()
    return text, first


def _statement(text: str, line: int) -> int:
    """The first line of the innermost statement that a line belongs to."""
    around = [(last - first, first) for first, last in _statements(text) if first <= line <= last]
    if not around:
        return line
    _, first = min(around)
    return first


@functools.lru_cache(16)
def _statements(text: str) -> list[tuple[int, int]]:
    """The first and the last line of each statement; a long text is read once."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell with a magic
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            found.append((node.lineno, node.end_lineno or node.lineno))
    return found
