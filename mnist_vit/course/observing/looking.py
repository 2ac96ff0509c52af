"""What a wrong value shows by itself, beside the right one.

Each function looks for one thing, and returns a sentence, or "" if it sees nothing.
"""

import itertools
import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from .calls import SMALL, TOLERANCE, Call, alike

# the first calls of the solution and of the answer whose results differ
Pair = tuple[Call, Call] | None

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "the root of ours": torch.sqrt,
    "the square of ours": torch.square,
    "exp of ours": torch.exp,
    "the logarithm of ours": torch.log,
    "one minus ours": lambda x: 1 - x,
    "one divided by ours": torch.reciprocal,
    "ours without its sign": torch.abs,
    "ours, rounded": torch.round,
    "ours, rounded to 2 decimals": lambda x: x.round(decimals=2),
    "ours, rounded to 3 decimals": lambda x: x.round(decimals=3),
    "the softmax of ours": lambda x: x.softmax(dim=-1),
    "GELU of ours": nn.functional.gelu,
    "ReLU of ours": torch.relu,
    "tanh of ours": torch.tanh,
    "the sigmoid of ours": torch.sigmoid,
    "ours with each row divided by its sum": lambda x: x / x.sum(dim=-1, keepdim=True),
    "ours less the mean of each row": lambda x: x - x.mean(dim=-1, keepdim=True),
}


def rows(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Weights: rows sum to 1 in ours, and not in theirs."""
    if expected.shape != got.shape or expected.dim() < 2:
        return ""
    if not _ones(expected.sum(dim=-1)) or expected.min() < 0:
        return ""
    sums = got.sum(dim=-1)
    if _ones(sums) or not got.isfinite().all():
        return ""
    for axis in range(got.dim() - 1):
        if _ones(got.sum(dim=axis)):
            return f"Rows should sum to 1, and here the numbers along axis {axis} do."
    least = f"{float(sums.min()):.5g}"
    most = f"{float(sums.max()):.5g}"
    between = least if least == most else f"{least} … {most}"
    return f"Rows should sum to 1, and yours sum to {between}."


def transformed(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Ours times or plus something that has a name, or a function of ours."""
    if expected.shape != got.shape or alike(expected, got):
        return ""  # other numbers, not another kind of numbers
    for look in (_constant, _nearly, _times, _plus_number, _plus_known, _plus_vector, _function):
        said = look(expected, got, pair)
        if said:
            return said
    return ""


def _constant(expected: Tensor, got: Tensor, pair: Pair) -> str:
    for value, said in ((0.0, "zero everywhere"), (1.0, "one everywhere")):
        if torch.equal(got, torch.full_like(got, value)):
            return f"The result is {said}."
    return ""


def _nearly(expected: Tensor, got: Tensor, pair: Pair) -> str:
    off = float((got - expected).abs().max())
    if 0 < off < 1e-3 * float(expected.abs().max()) and expected.is_floating_point():
        return f"It is nearly ours, off by at most {off:.2g}."
    return ""


def _times(expected: Tensor, got: Tensor, pair: Pair) -> str:
    large = expected.abs() > 1e-3 * expected.abs().max()
    ratio = (got / expected)[large]
    if ratio.numel() > 1 and alike(expected * ratio.mean(), got):
        return f"The result is ours times {factor(float(ratio.mean()), pair)}, everywhere."
    return ""


def _plus_number(expected: Tensor, got: Tensor, pair: Pair) -> str:
    difference = got - expected
    spread = (difference - difference.mean()).abs()
    if difference.numel() > 1 and spread.max() < 1e-5 * _scale(expected):
        return f"The result is ours {signed(float(difference.mean()))}, everywhere."
    return ""


def _plus_known(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Ours plus or minus an input or a parameter."""
    for name, tensor in _known(pair):
        for sign, word in ((1, "plus"), (-1, "minus")):
            with suppress(RuntimeError):
                shifted = expected + sign * tensor.double()
                if shifted.shape == got.shape and alike(shifted, got):
                    return f"The result is ours {word} {name}."
    return ""


def _plus_vector(expected: Tensor, got: Tensor, pair: Pair) -> str:
    difference = got - expected
    vectors = difference.flatten(0, -2) if difference.dim() > 1 else difference[None]
    spread = (vectors - vectors[0]).abs()
    if len(vectors) > 1 and spread.max() < 1e-5 * _scale(expected):
        return "The result is ours plus the same vector at every place."
    return ""


def _function(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """A function of ours, or the other way round, if one alone fits.

    On some numbers two are the same: for large ones GELU is ReLU.
    """
    found = []
    for said, function in FUNCTIONS.items():
        if alike(function(expected), got):
            found.append(f"The result is {said}.")
        elif alike(function(got), expected):
            found.append(f"Ours is {said.replace('ours', 'yours')}.")
    return found[0] if len(found) == 1 else ""


def moved(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """The right numbers in other places, in an order that has a name."""
    if not scattered(expected, got, pair):
        return ""
    return _exchanged(expected, got) or _shifted(expected, got)


def _exchanged(expected: Tensor, got: Tensor) -> str:
    for first, second in itertools.combinations(range(expected.dim()), 2):
        turned = expected.transpose(first, second)
        if turned.shape == got.shape and alike(turned, got):
            return f"The numbers are right, but axes {first} and {second} are exchanged."
        if alike(turned.reshape(got.shape), got):
            return (
                f"The numbers are right, but stand as if axes {first} and {second} were exchanged"
                " before a reshape."
            )
    return ""


def _shifted(expected: Tensor, got: Tensor) -> str:
    if expected.shape != got.shape:
        return ""
    for axis in range(expected.dim()):
        if alike(expected.flip(axis), got):
            return f"The numbers are right, but axis {axis} runs backwards."
        for by in range(1, expected.shape[axis]):
            if alike(expected.roll(by, axis), got):
                return f"The numbers are right, but moved by {by} along axis {axis}."
    return ""


def axes(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """The right numbers in another shape, or with an axis too many."""
    if got.shape == expected.shape:
        return ""
    if got.numel() == expected.numel() and alike(got.reshape(expected.shape), expected):
        more = got.dim() - expected.dim()
        if more > 0 and got.squeeze().shape == expected.squeeze().shape:
            return f"The numbers are right. Axes of length 1 that are too many: {more}."
        return "The numbers are right, and in the right order: only their shape is not."
    if got.dim() != expected.dim() + 1:
        return ""
    for axis in range(got.dim()):
        reduced = {
            "mean": got.mean(dim=axis),
            "sum": got.sum(dim=axis),
            "first": got.select(axis, 0),
        }
        for name, less in reduced.items():
            if alike(less, expected):
                return f"There is an axis too many: ours is the {name} of yours along axis {axis}."
    return ""


def scattered(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """The right numbers in other places."""
    if expected.numel() != got.numel() or got.numel() < 4:
        return ""
    if alike(expected.flatten().sort().values, got.flatten().sort().values):
        return "The numbers are right, but stand in other places."
    return ""


def partly(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Right in one part only."""
    if expected.shape != got.shape or expected.numel() < 3:
        return ""
    wrong = (expected - got).abs() > TOLERANCE * expected.abs().max().clamp_min(SMALL)
    for axis in range(expected.dim()):
        bad = wrong.movedim(axis, 0).flatten(1).any(dim=1) if wrong.dim() > 1 else wrong
        right = (~bad).nonzero()[:, 0].tolist()
        ill = bad.nonzero()[:, 0].tolist()
        if ill and right:
            if len(right) <= len(ill):
                return f"Along axis {axis} it is right at {_places(right)} only."
            return f"Along axis {axis} it is wrong at {_places(ill)} only."
    return few(expected, got, pair)


def few(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Right in most numbers."""
    if expected.shape != got.shape or expected.numel() < 3:
        return ""
    wrong = (expected - got).abs() > TOLERANCE * expected.abs().max().clamp_min(SMALL)
    count = int(wrong.sum())
    if not 0 < count < 0.5 * wrong.numel():
        return ""
    return f"{count} of {wrong.numel()} numbers are wrong, the others are right."


def factor(value: float, pair: Pair) -> str:
    """A factor, and the size that explains it, if one alone does."""
    known = {"−1": -1.0, "2": 2.0, "1/2": 0.5, "√2": 2**0.5, "1/√2": 0.5**0.5, "ln 2": math.log(2)}
    for name, size in pair[0].sizes.items() if pair else ():
        if size > 1:
            known[f"√{name}"] = size**0.5
            known[f"1/√{name}"] = size**-0.5
            known[name] = float(size)
            known[f"1/{name}"] = 1 / size
            known[f"n/(n − 1), n = {name}"] = size / (size - 1)
            known[f"(n − 1)/n, n = {name}"] = (size - 1) / size
    fitting = [name for name, other in known.items() if abs(other - value) < 1e-4 * abs(value)]
    # "2 (= 2)" says nothing, and of two names one is wrong
    is_named = len(fitting) == 1 and fitting[0] not in ("−1", "2")
    return f"{value:.4g} (= {fitting[0]})" if is_named else f"{value:.4g}"


def signed(value: float) -> str:
    """A number to add, in words."""
    return f"plus {value:.4g}" if value > 0 else f"minus {-value:.4g}"


def _scale(expected: Tensor) -> Tensor:
    return expected.abs().max().clamp_min(1e-9)


def _known(pair: Pair) -> list[tuple[str, Tensor]]:
    """Inputs and parameters of the solution's call, by name."""
    if pair is None:
        return []
    call = pair[0]
    known = []
    for name, value in zip(call.names, call.before, strict=False):
        if isinstance(value, Tensor):
            known.append((name, value))
    if call.module is not None:
        for name, parameter in call.module.named_parameters():
            known.append((f"self.{name}", parameter.detach()))
    return known


def _ones(sums: Tensor) -> bool:
    return bool((sums - 1).abs().max() < 1e-4)


def _places(places: list[int]) -> str:
    if len(places) > 4 and places == list(range(places[0], places[-1] + 1)):
        return f"{places[0]} to {places[-1]}"
    more = " …" if len(places) > 6 else ""
    return ", ".join(map(str, places[:6])) + more
