"""Whether two values are equal, and the sentence for the difference."""

import numbers
import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .tools import Figures, describe, shortened

NAMED = 3  # values that are named in the praise
NOTHING = ("nothing", "none")  # what is expected where an answer should leave nothing behind


def compare(what: str, got: Any, expected: Any, tolerance: float) -> str | None:
    """None if equal, else a sentence: kind, shape, kind of number, device, nan, then values."""
    if not isinstance(expected, Tensor):
        return _compare_plain(what, got, expected, tolerance)
    if got is None and what.startswith("gradient"):
        return f"{what}: none flows."
    if not isinstance(got, Tensor):
        return f"{what} must be a tensor of shape {tuple(expected.shape)}, but is {describe(got)}."
    if got.shape != expected.shape:
        return f"{what} must have shape {tuple(expected.shape)}, but has {tuple(got.shape)}."
    if got.dtype != expected.dtype:
        return f"{what} must be {expected.dtype}, but is {got.dtype}."
    if got.device != expected.device:
        return (
            f"{what} must be on the device of the input, {expected.device}, but is on {got.device}."
        )
    return _compare_numbers(what, got.detach(), expected.detach(), tolerance)


def _compare_numbers(what: str, got: Tensor, expected: Tensor, tolerance: float) -> str | None:
    """Compare tensors of one shape and one kind of number."""
    if not expected.is_floating_point():
        wrong = (got.double() - expected.double()).abs()
        return (
            None if torch.equal(got, expected) else _largest_difference(what, got, expected, wrong)
        )
    finite = got.isfinite()
    # only a mutant is ever expected to give nan, or infinity of one sign
    alike = (got == expected) | (got.isnan() & expected.isnan())
    if not torch.equal(finite, expected.isfinite()) or not (finite | alike).all():
        count = int((~finite).sum())
        are = "is" if count == 1 else "are"
        kind = "nan or infinite"
        if got.isinf().sum() == 0:
            kind = "nan"
        elif not got.isnan().any():
            kind = "infinite"
        if got.numel() == 1:
            return f"{what} is {kind}."
        return f"{what}: {count} of {got.numel()} numbers {are} {kind}."
    got = got.where(finite, 0)
    expected = expected.where(finite, 0)
    wrong = (got - expected).abs()
    if wrong.numel() == 0 or wrong.max() <= tolerance * max(1.0, float(expected.abs().max())):
        return None
    return _largest_difference(what, got, expected, wrong)


def _largest_difference(what: str, got: Tensor, expected: Tensor, wrong: Tensor) -> str:
    largest = torch.unravel_index(wrong.to(torch.float64).argmax(), wrong.shape)
    place = tuple(map(int, largest))
    where = f" at {list(place)}" if place else ""
    right, found = _told_apart(expected[place].item(), got[place].item())
    if got.numel() == 1:
        return f"wrong number: {what}: expected {right}, found {found}."
    return (
        f"right shape, wrong numbers: {what} {_differs(what)} most{where}: expected {right}, found"
        f" {found}."
    )


SUBJECT_ENDS = re.compile(
    r",| \(| (?:after|afterwards|at|enlarged|for|in|of|on|that|where|while|with|without)\b"
)


def _differs(what: str) -> str:
    """ "differs", or "differ" where what differs is named in the plural."""
    subject = SUBJECT_ENDS.split(what.rpartition(": ")[2])[0]
    is_plural = subject.endswith("s") and not subject.endswith(("bias", "loss"))
    return "differ" if is_plural and "+" not in subject else "differs"


def _told_apart(right: float, found: float) -> tuple[str, str]:
    """Two numbers in as many digits, four or more, as show that they are different."""
    for digits in range(4, 18):
        told = f"{right + 0:.{digits}g}", f"{found + 0:.{digits}g}"  # -0.0 + 0 is 0
        if told[0] != told[1]:
            break
    return told


def _compare_plain(what: str, got: Any, expected: Any, tolerance: float) -> str | None:
    """Compare numbers, texts, and lists and dicts of them."""
    if isinstance(got, Tensor) and got.requires_grad and _is_number(expected):
        return f"{what} must be a number, but is a tensor that still holds its graph."
    if isinstance(got, Tensor | np.generic) and got.ndim == 0:
        got = got.item()
    if isinstance(expected, dict):
        return _compare_cases(what, got, expected)
    if isinstance(expected, list | tuple):
        return _compare_lists(what, got, expected, tolerance)
    if _is_number(expected):
        if not _is_number(got):
            return f"{what} must be a number, but is {describe(got)}."
        equal = _is_near(got, expected, tolerance)
    else:
        equal = type(got) is type(expected) and got == expected
    if equal:
        return None
    if isinstance(got, bool) and isinstance(expected, bool):
        return f"{what} should be {expected}, and is {got}."
    if isinstance(got, str) and expected in NOTHING:
        return f"{what}: {shortened(got)}. It should be {expected}."
    return f"{what} should not be {describe(got)}."


def _compare_cases(what: str, got: Any, expected: dict[str, Any]) -> str | None:
    """Compare what is said of several cases, which have names; both words are told."""
    if not isinstance(got, dict) or got.keys() != expected.keys():
        return f"{what} must be given for {len(expected)} cases."
    for case, right in expected.items():
        own = got[case]
        if type(own) is not type(right) or own != right:
            return f"{what} should be {describe(right)}, and is {describe(own)}, for {case}."
    return None


def _compare_lists(what: str, got: Any, expected: list | tuple, tolerance: float) -> str | None:
    if not isinstance(got, list | tuple) or len(got) != len(expected):
        return f"{what} must be {len(expected)} values, but is {describe(got)}."
    for number, (own, right) in enumerate(zip(got, expected, strict=True), start=1):
        place = "" if isinstance(got, Figures) else f", number {number} of {len(expected)},"
        problem = _compare_plain(what + place, own, right, tolerance)
        if problem is not None:
            return problem
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


def _is_near(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether two numbers are equal: whole ones exactly, others within the tolerance."""
    allowed = 0.0 if isinstance(expected, int) else tolerance * max(1.0, abs(expected))
    try:
        return bool(abs(got - expected) <= allowed)
    except OverflowError:  # a whole number that no float holds
        return False


def compared(names: list[str]) -> str:
    """What was found equal: at most three values by name, and how many gradients."""
    values = [name for name in names if not name.startswith("gradient")]
    parts = values[:NAMED]
    if len(values) > NAMED:
        parts.append(f"{len(values) - NAMED} more")
    gradients = len(names) - len(values)
    if gradients:
        plural = "s" if gradients > 1 else ""
        parts.append(f"{gradients} gradient{plural}")
    return ", ".join(parts)


def ended(error: BaseException | None) -> tuple[type, list[str]]:
    """The kind of exception and its words, in any order: a + b and b + a end alike."""
    return type(error), sorted(str(error).split())
