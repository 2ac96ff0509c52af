"""Whether an answer that is right for the check's inputs is right for others, and beside them."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..observing.calls import Call, alike, results
from ..observing.observers import EARLIER, SLOW, Finding, on_inputs_alone
from ..observing.steadiness import for_other_numbers
from .comparing import compare
from .exercise import Exercise
from .tools import random

MANY = 1030  # no multiple of 4, and more than anybody's batch
TIMES = 10
ALONE = 1e-3  # rounding of one picture, computed otherwise than many
ROUNDING = 0.02  # of the largest number: one grey level of 255 is less
LARGE = f"for numbers {TIMES} times as large"
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}


INFINITE = (
    "exp of a large number is infinite, and inf / inf is nan. In a softmax by hand, subtract the"
    " largest number of each row before exp: this changes no weight, and softmax(dim=-1) does so"
    " itself."
)


class ExpWatch(TorchFunctionMode):
    """Sees whether exp of finite numbers is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in (torch.exp, Tensor.exp) and args and args[0].isfinite().all():
            self.seen = self.seen or not bool(result.isfinite().all())
        return result


def elsewhere(exercise: Exercise, ours: list[Call], theirs: list[Call]) -> str | None:
    """How an answer's output differs from ours for other inputs, as a sentence; None if not.

    The first call of a module is made again: with one input, with many, with large numbers, and
    without gradients. The calls of a function are made again with inputs that lie otherwise in
    memory, with the first picture alone, and with other numbers of the same shapes.
    """
    if not isinstance(exercise.answer, type):
        return (
            _in_other_memory(ours, theirs)
            or _alone(ours, theirs)
            or _with_other_numbers(ours, theirs)
        )
    of_ours = [call for call in ours if isinstance(call.module, exercise.answer)]
    of_theirs = [call for call in theirs if call.module is not None]
    if not of_ours or not of_theirs:
        return None
    return _differs(of_ours[0], of_theirs[0])


def _differs(our: Call, their: Call) -> str | None:
    for where, given, grad in _inputs(our):
        with torch.set_grad_enabled(grad):
            expected = _outputs(our.module, given)
            try:
                with ExpWatch() as watch:
                    got = _outputs(their.module, given)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if where == LARGE:  # they may insist on another kind of numbers
                    continue
                return f"right so far, but {where} your code raises {type(error).__name__}: {error}"
        if len(got) != len(expected):
            return f"right so far, but {where} {len(got)} values come back, not {len(expected)}."
        for value, right in zip(got, expected, strict=True):
            tolerance = TOLERANCE.get(getattr(right, "dtype", torch.float32), 1e-5)
            problem = compare("the output", value, right, tolerance)
            if problem is not None:
                reason = INFINITE if watch.seen else _squeezed(value, right)
                return f"right so far, but {where} not: {problem} {reason}".strip()
    return None


def _in_other_memory(ours: list[Call], theirs: list[Call]) -> str | None:
    """How a function's result differs where its inputs are the same, and lie otherwise in memory.

    An answer that raises there is let pass: ``view`` does, and moves no number to a wrong place.
    """
    for our, their in zip(ours, theirs, strict=False):
        turned = _all_turned(our)
        if not turned or len(ours) != len(theirs) or our.seconds + their.seconds > SLOW:
            return None
        try:
            is_usual = _is_same_in_other_memory(our) and their.repeats
            got = their.again_with(_all_turned(their)) if is_usual else their.output
        except RuntimeError:
            continue
        if _far_apart(got, their.output):
            named = " and ".join(their.names[place] for place in turned)
            return (
                f"right so far, but not where the numbers of {named} lie in another order in"
                " memory, as after a transpose: then other numbers come back. reshape, permute and"
                " indexing find each number wherever it lies; as_strided does not."
            )
    return None


def _alone(ours: list[Call], theirs: list[Call]) -> str | None:
    """How a function differs for the first picture alone, if it treats each picture by itself."""
    for our, their in zip(ours, theirs, strict=False):
        first = _first_alone(our)
        if not first or len(ours) != len(theirs) or our.seconds + their.seconds > SLOW:
            return None
        if not _treats_each_alone(our) or not their.repeats:
            continue
        if not _same_shapes(our.output, their.output):  # another form, which the check accepts
            continue
        right = [value[:1] for value in their.output]
        named = " and ".join(f"{their.names[place]}[:1]" for place in first)
        where = f"right so far, but not with one alone, {named}"
        try:
            got = their.again_with(_first_alone(their))
        except RuntimeError as error:
            cause = error.__cause__
            return f"{where}: then your code raises {type(cause).__name__}: {cause}"
        for value, expected in zip(got, right, strict=False):
            problem = compare("the result", value, expected, ALONE)
            if problem is not None:
                return f"{where}: {problem} {_squeezed(value, expected)}".strip()
    return None


def _with_other_numbers(ours: list[Call], theirs: list[Call]) -> str | None:
    """How a function differs in a later call with other numbers of the same shapes.

    Such a call shows what was kept of an earlier one.
    """
    if len(ours) != len(theirs):
        return None
    for our, their in zip(ours, theirs, strict=True):
        if our.seconds + their.seconds > SLOW:
            return None
        results = for_other_numbers(our, their)
        if results is None:
            continue
        for right, got in zip(*results, strict=False):
            problem = compare("the result", got, right, ALONE)
            if problem is not None:
                return (
                    "right so far, but not with other numbers of the same shapes, in a later call:"
                    f" {problem} {EARLIER}"
                )
    return None


def _first_alone(call: Call) -> dict[int, Tensor]:
    """The first picture of the inputs, by place; nothing where they differ in their number."""
    tensors = {
        place: value
        for place, value in enumerate(call.before)
        if isinstance(value, Tensor) and value.dim() > 0
    }
    counts = set(map(len, tensors.values()))
    if len(counts) > 1 or counts & {0, 1}:
        return {}
    return {place: value.detach().clone()[:1] for place, value in tensors.items()}


@functools.cache
def _is_same_in_other_memory(our: Call) -> bool:
    """Whether a call of ours gives the same, wherever its numbers lie."""
    return our.repeats and alike(our.again_with(_all_turned(our)), our.output)


@functools.cache
def _treats_each_alone(call: Call) -> bool:
    """Whether the results for the first picture are the first ones of those for all."""
    try:
        alone = call.again_with(_first_alone(call))
    except RuntimeError:
        return False
    pairs = list(zip(alone, call.output, strict=False))
    return len(alone) == len(call.output) and all(
        isinstance(both, Tensor) and both.dim() > 0 and alike(one, both[:1]) for one, both in pairs
    )


def _same_shapes(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether the same number of results have the same shapes."""
    shapes = [getattr(value, "shape", None) for value in ours]
    return shapes == [getattr(value, "shape", None) for value in theirs]


def _far_apart(a: Any, b: Any) -> bool:
    """Whether two results differ by more than rounding, which the order in memory may change."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return any(map(_far_apart, a, b))
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a.shape != b.shape:
        return not alike(a, b)
    if a.numel() == 0:
        return False
    a, b = a.detach().double(), b.detach().double()
    bound = ROUNDING * float(b.nan_to_num(posinf=0, neginf=0).abs().max())
    return not torch.allclose(a, b, rtol=0, atol=bound, equal_nan=True)


def _all_turned(call: Call) -> dict[int, Tensor]:
    """The inputs with two axes or more, by place, with the last two turned round in memory.

    Made anew for each answer, since an answer may write into them.
    """
    turned = {}
    for place, value in enumerate(call.before):
        if isinstance(value, Tensor) and value.dim() > 1 and value.layout == torch.strided:
            other = value.detach().mT.contiguous().mT
            turned[place] = other.requires_grad_(value.requires_grad)
    return turned


def _squeezed(value: object, right: object) -> str:
    """What is said where all axes of length 1 are gone, and nothing else."""
    if not isinstance(value, Tensor) or not isinstance(right, Tensor):
        return ""
    if value.shape == right.shape or value.shape != right.squeeze().shape:
        return ""
    return (
        "Every axis of length 1 is gone: squeeze() takes all of them away, unless it is given the"
        " one that is meant."
    )


def _outputs(module: nn.Module | None, given: list[Tensor]) -> list:
    if module is None:
        return []
    usual = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    try:
        return results(module.eval().to(given[0].dtype)(*[x.clone() for x in given]))
    finally:
        module.to(usual)


def _inputs(call: Call) -> Iterator[tuple[str, list[Tensor], bool]]:
    """Other inputs of the same kind, each with its words, and whether gradients are wanted."""
    given = [value for value in call.before if isinstance(value, Tensor)]
    if len(given) != len(call.before) or not all(x.is_floating_point() for x in given):
        return
    many: list[Tensor] = []
    for number, x in enumerate(given):
        other = random(MANY, *x.shape[1:], seed=70 + number, dtype=x.dtype)
        for before, earlier in zip(given, many, strict=False):
            if torch.equal(x, before):  # what is one tensor stays one
                other = earlier
        many.append(other)
    yield "without gradients, under torch.no_grad(),", given, False
    yield "for other numbers of the same shape", [-x for x in given], True
    yield "for 1 input alone", [x[:1] for x in given], True
    yield f"for {MANY} at once", many, True
    # hand-written softmax overflows early in float32
    yield LARGE, [TIMES * x.double() for x in given], True


def kept(ours: list[Call], theirs: list[Call]) -> Finding | None:
    """That the first call, made again with the same inputs, gives something else than before.

    Only calls of functions with tensors, numbers and texts: what else is given may have changed.
    """
    if not ours or not theirs or theirs[0].module is not None or theirs[0].seconds > SLOW:
        return None
    our, their = ours[0], theirs[0]
    if not all(isinstance(value, Tensor | int | float | str) for value in their.before):
        return None
    if not alike(our.output, their.output) or not our.repeats:
        return None
    with contextlib.suppress(RuntimeError):
        if not alike(their.again(), their.output):
            return Finding(
                "right the first time, but given the same inputs once more your code returns"
                " something else.",
                on_inputs_alone(their),
            )
    return None


def written_over(ours: list[Call], theirs: list[Call]) -> Finding | None:
    """Tensors and lists that the answer was given and has changed, and the solution has not."""
    ours_written: set[int] = set()
    for call in ours:
        ours_written |= call.changed
    for call in theirs:
        for place in sorted(call.changed - ours_written):
            if isinstance(call.before[place], Tensor | list):
                copying = "clone()" if isinstance(call.before[place], Tensor) else "list(…)"
                return Finding(
                    f"what comes back is right, but your code changes {call.names[place]}, which it"
                    " was given, in place.",
                    f"Whoever called it may still need it: work on a copy, {copying} makes one.",
                )
    return None
