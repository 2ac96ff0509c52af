"""Whether an answer is code of the learner's own, and not ours or a library's by another name."""

import inspect
import sys
from types import CodeType, FrameType
from typing import Any

from torch import nn

from mnist_vit import model

from ..observing.calls import Call
from ..observing.tracing import is_theirs
from .exercise import Exercise

OURS = "this is our solution at work. The code should be your own."
LIBRARIES = ("mnist_vit", "torchvision", "timm", "transformers")


def borrowed(exercise: Exercise, answer: Any, calls: list[Call]) -> str | None:
    """A sentence if the answer is, makes, or inherits from a class of ours or of a library."""
    if answer is exercise.answer or _has_our_code(exercise, answer):
        return OURS
    if not isinstance(exercise.answer, type):
        return None
    if exercise.answer.__base__.__module__.startswith("mnist_vit."):
        return None  # it changes a piece, and ours may stand in for that
    kinds = {type(call.module) for call in calls if call.module is not None}
    kinds.discard(exercise.answer)  # the check itself compares with it
    for kind in [*kinds, answer] if isinstance(answer, type) else kinds:
        for base in kind.__mro__:
            if base is nn.MultiheadAttention:
                return "nn.MultiheadAttention does the work. The code should be your own."
            if is_library(base):
                return f"{_name(base)} does the work. The code should be your own."
    return None


def _has_our_code(exercise: Exercise, answer: Any) -> bool:
    """Whether our functions stand in an answer: in a partial, a class, an object, or copied."""
    ours = set(map(id, _our_codes(exercise)))
    parts = [answer, getattr(answer, "func", None), vars(type(answer)).get("__call__")]
    if isinstance(answer, type):
        parts += vars(answer).values()
    codes = [getattr(inspect.unwrap(part), "__code__", None) for part in parts]
    return any(id(code) in ours for code in codes)


def _our_codes(exercise: Exercise) -> list[CodeType]:
    name = exercise.answer.__name__.removeprefix("My")
    return [*_codes(exercise.answer), *_codes(getattr(model, name, None))]


def is_library(kind: type) -> bool:
    """Whether a class is one that a library offers; an edited copy of it is none."""
    home = sys.modules.get(kind.__module__)
    is_there = getattr(home, kind.__qualname__, None) is kind
    return is_there and kind.__module__.partition(".")[0] in LIBRARIES


def _name(kind: type) -> str:
    library = kind.__module__.partition(".")[0]
    return f"{kind.__name__} of ours" if library == "mnist_vit" else f"{library}'s {kind.__name__}"


class Watch:
    """``with Watch(exercise) as watch: …``; ``watch.problem`` if theirs calls our solution."""

    def __init__(self, exercise: Exercise) -> None:
        self.codes = set(map(id, _our_codes(exercise)))  # equal code may be the learner's own
        self.problem: str | None = None

    def __enter__(self) -> "Watch":
        self.before = sys.getprofile()
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(self.before)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        is_ours = event == "call" and id(frame.f_code) in self.codes
        if is_ours and self.problem is None and _is_asked_by_theirs(frame):
            self.problem = OURS


def _codes(value: Any) -> list[CodeType]:
    parts = vars(value).values() if isinstance(value, type) else [value]
    return [part.__code__ for part in parts if inspect.isfunction(part)]


def _is_asked_by_theirs(frame: FrameType | None) -> bool:
    """Whether a call comes from the learner's code, and not from the check itself."""
    while frame is not None and not frame.f_code.co_filename.startswith(
        __file__.rpartition("/")[0]
    ):
        if is_theirs(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
