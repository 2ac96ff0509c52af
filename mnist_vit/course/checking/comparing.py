"""Whether two values are equal, and the sentence for the difference."""

import numbers
from typing import Any

import torch
from torch import Tensor

from .tools import describe


def compare(what: str, got: Any, expected: Any, tolerance: float) -> str | None:
    """None if equal, else a sentence: kind, shape, kind of number, device, nan, then values."""
    if not isinstance(expected, Tensor):
        return _compare_plain(what, got, expected, tolerance)
    if got is None and what.startswith("gradient"):
        return (
            f"{what}: none flows. Was .detach(), .item(), torch.no_grad() or a new tensor used on"
            " the way?"
        )
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
    got, expected = got.detach(), expected.detach()
    if not expected.is_floating_point():
        wrong = got != expected
        if not wrong.any():
            return None
    else:
        finite = got.isfinite()
        if not torch.equal(
            finite, expected.isfinite()
        ):  # only a mutant is ever expected to give nan
            return f"{what}: {int((~finite).sum())} of {got.numel()} numbers are nan or infinite."
        got, expected = got.where(finite, 0), expected.where(finite, 0)
        wrong = (got - expected).abs()
        if wrong.numel() == 0 or wrong.max() <= tolerance * max(1.0, float(expected.abs().max())):
            return None
    place = tuple(
        int(i) for i in torch.unravel_index(wrong.to(torch.float64).argmax(), wrong.shape)
    )
    where = f" at {list(place)}" if place else ""
    return (
        f"right shape, wrong numbers: {what} differs most{where}: "
        f"expected {expected[place].item():.4g}, found {got[place].item():.4g}."
    )


def _compare_plain(what: str, got: Any, expected: Any, tolerance: float) -> str | None:
    """Compare numbers, texts and lists of them."""
    if isinstance(got, Tensor) and got.dim() == 0:
        got = got.item()
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return f"{what} must be a list of {len(expected)}, but is {describe(got)}."
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            place = f", number {i + 1} of {len(expected)}," if isinstance(expected, tuple) else ""
            if (problem := _compare_plain(what + place, a, b, tolerance)) is not None:
                return problem
        return None
    if isinstance(expected, bool) or not isinstance(expected, numbers.Number):
        return (
            None
            if type(got) is type(expected) and got == expected
            else f"{what} is not {describe(got)}."
        )
    if isinstance(got, bool) or not isinstance(got, numbers.Number):
        return f"{what} must be a number, but is {describe(got)}."
    if abs(got - expected) <= (
        0 if isinstance(expected, int) else tolerance * max(1.0, abs(expected))
    ):  # type: ignore[operator, arg-type]
        return None
    return f"{what} is not {describe(got)}."


def compared(names: list[str]) -> str:
    """What was found equal, in a few words: at most three values by name, and how many
    gradients."""
    values = [name for name in names if not name.startswith("gradient")]
    more = [f"{len(values) - 3} more"] if len(values) > 3 else []
    count = len(names) - len(values)
    gradients = [f"{count} gradient{'s' if count > 1 else ''}"] if count else []
    return ", ".join([*values[:3], *more, *gradients])
