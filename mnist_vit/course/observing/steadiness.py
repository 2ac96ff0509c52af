"""Whether a call gives the same when it is made again, and if not, why; a cause is told if proved.

Causes are numbers that nobody has set, random numbers, and what is kept from call to call.
"""

import functools
import inspect
import random
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .calls import SMALL, Call, alike, copied, equal
from .tracing import asked_for, quoted

DRAWN = ": your code draws random numbers."
UNFILLED = "What comes back depends on what lay in memory"
FILL = (
    "Write to every place of it, or begin with torch.zeros, torch.ones or torch.full, whose numbers"
    " are known."
)
ROUNDING = 1e-3  # of the largest number
DEPTH = 6  # lists in lists, and functions that call functions


# ------------------------------------------------------------------------------- nobody has set it


class Filled(TorchFunctionMode):
    """Fills what ``torch.empty`` and its like return with a number.

    Attributes:
        number: the number.
        asked: where they were called, as quoted expressions.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.asked: list[str] = []

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "").startswith(("empty", "new_empty")):
            place = asked_for()
            self.asked.append(quoted(place.expression) if place and place.expression else "")
            with torch.no_grad():
                result.fill_(self.number)
        return result


def unfilled(their: Call) -> str:
    """What is said where numbers of ``torch.empty`` that nobody has set come into the result."""
    if _is_given_modules(their):
        return ""
    made = []
    for number in (0, 1, 0):
        with Filled(number) as filled:
            made.append(their.again())
        if not filled.asked:
            return ""
    if alike(made[0], made[1]) or not alike(made[0], made[2]):
        return ""
    asked = set(filled.asked)
    what = asked.pop() if len(asked) == 1 else ""
    return (
        f"{UNFILLED}: {what or 'torch.empty'} makes a tensor and sets none of its numbers, and your"
        " code does not write to all of its places before it uses them."
    )


# ---------------------------------------------------------------------------------- random numbers


def varies(our: Call, their: Call) -> str:
    """The learner's results differ from call to call, and ours do not.

    A call that is given a module is left out: the module may be another one the next time.
    """
    if _is_given_modules(their):
        return ""
    if not alike(our.again(seed=False), our.again(seed=False)):
        return ""
    first = _seeded(their)
    if alike(first, their.again(seed=False)):
        return ""
    said = "The same input gives another result each time"
    if not alike(first, _seeded(their)):
        return f"{said}, even after torch.manual_seed(0)."
    return f"{said}{DRAWN}" if _draws(their) else f"{said}."


def _is_given_modules(call: Call) -> bool:
    return any(isinstance(value, nn.Module) for value in call.before)


def _seeded(call: Call) -> list[Any]:
    """The results of the call made again, with the seed of every generator set."""
    random.seed(0)
    np.random.seed(0)
    return call.again()


def _draws(call: Call) -> bool:
    """Whether a call draws numbers from a generator of torch, NumPy or Python."""
    before = _generators()
    call.again(seed=False)
    return _generators() != before


def _generators() -> list[Any]:
    of_torch = torch.default_generator.get_state().tolist()
    return [of_torch, random.getstate(), repr(np.random.get_state(legacy=False))]


# ------------------------------------------------------------------------------------ kept outside


def keeps(call: Call) -> bool:
    """Whether a call changes what stands outside of the function, so that the next call finds it.

    These are default values, and what the function takes from the module or the function around it.
    """
    before = _outside(call.function, DEPTH)
    call.again()
    return not equal(before, _outside(call.function, DEPTH))


def _outside(function: Any, depth: int) -> Any:
    """What a function, or an object that is called, holds beside its arguments, as it is now."""
    if not isinstance(function, FunctionType):
        return _picture(getattr(function, "__dict__", {}), "", depth)
    taken = inspect.getclosurevars(function)
    held = [
        taken.nonlocals,
        taken.globals,
        function.__defaults__,
        function.__kwdefaults__,
        vars(function),
    ]
    return _picture(held, function.__module__, depth)


def _picture(value: Any, module: str, depth: int) -> Any:
    """A value as it is now: lists of tensors, numbers and texts.

    Of functions and classes only those of the same module are followed.
    """
    if depth == 0:
        return ""
    if isinstance(value, Tensor):
        return copied(value)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return [_picture(list(part), module, depth) for part in (value, value.values())]
    if isinstance(value, list | tuple | set):
        return [_picture(part, module, depth - 1) for part in value]
    is_near = getattr(value, "__module__", None) == module
    if isinstance(value, FunctionType):
        return _outside(value, depth - 1) if is_near else ""
    if is_near:
        return _picture(dict(vars(value)), module, depth - 1) if hasattr(value, "__dict__") else ""
    return value if isinstance(value, int | float | str | None) else ""


# ------------------------------------------------------------------------------------ other numbers


def for_other_numbers(our: Call, their: Call) -> tuple[list[Any], list[Any]] | None:
    """Ours and theirs for other numbers of the same shapes, where those are no longer equal.

    Only calls are looked at in which both are equal, and of which both give the same again.
    """
    try:
        if not alike(our.output, their.output) or not our.repeats or not their.repeats:
            return None
        right = _for_moved_on(our)
        got = their.again_with(_moved_on(their))
    except RuntimeError:
        return None
    is_usable = all(map(_is_finite, right))
    return (right, got) if is_usable and _are_apart(right, got) else None


@functools.cache
def _for_moved_on(our: Call) -> list[Any]:
    """The results of a call of ours, which stay the same, for other numbers."""
    return our.again_with(_moved_on(our))


def _is_finite(value: Any) -> bool:
    return not isinstance(value, Tensor) or bool(value.isfinite().all())


def _are_apart(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether two results differ by more than rounding, which may be another in each way."""
    if len(ours) != len(theirs):
        return True
    for right, got in zip(ours, theirs, strict=True):
        is_real = isinstance(right, Tensor) and right.is_floating_point() and right.numel() > 0
        if not is_real or not isinstance(got, Tensor) or got.shape != right.shape:
            if not alike(right, got):
                return True
        elif not (right - got).abs().max() <= ROUNDING * right.abs().max().clamp_min(SMALL):
            return True
    return False


def _moved_on(call: Call) -> dict[int, Tensor]:
    """The tensors of a call, by place, each rolled along its first axis longer than 1.

    An order stays an order, and weights that sum to 1 in each row still do. Made anew for each
    answer, since an answer may write into them.
    """
    moved = {}
    for place, value in enumerate(call.before):
        if not isinstance(value, Tensor) or value.layout != torch.strided:
            continue
        long = [axis for axis, length in enumerate(value.shape) if length > 1]
        if long:
            rolled = value.detach().roll(1, long[0])
            moved[place] = rolled.requires_grad_(value.requires_grad)
    return moved
