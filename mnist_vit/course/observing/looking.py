"""What a wrong value shows by itself, beside the right one.

Each function looks for one thing, and returns a sentence, or "" if it sees nothing.
"""

import itertools
import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from .calls import TOLERANCE, Call, alike

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
            return (
                f"Rows should sum to 1, and here the numbers along axis {axis} do: sum along the"
                " last axis, dim=-1."
            )
    return f"Rows should sum to 1, and sum to {float(sums.min()):.3g} … {float(sums.max()):.3g}."


def transformed(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Ours times or plus something that has a name, or a function of ours."""
    if expected.shape != got.shape:
        return ""
    for look in (_constant, _nearly, _times, _plus_number, _plus_known, _plus_vector, _function):
        said = look(expected, got, pair)
        if said:
            return said
    return ""


def _constant(expected: Tensor, got: Tensor, pair: Pair) -> str:
    for value, said in ((0.0, "zero everywhere"), (1.0, "one everywhere")):
        if alike(got, torch.full_like(got, value)):
            return f"The result is {said}."
    return ""


def _nearly(expected: Tensor, got: Tensor, pair: Pair) -> str:
    off = float((got - expected).abs().max())
    if 0 < off < 1e-3 * float(expected.abs().max()) and expected.is_floating_point():
        return (
            f"It is nearly ours, off by at most {off:.2g}: a small constant such as eps, or the"
            " precision, is another."
        )
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
        return (
            "The result is ours plus the same vector at every place: a bias is missing, or there is"
            " one too many."
        )
    return ""


def _function(expected: Tensor, got: Tensor, pair: Pair) -> str:
    for said, function in FUNCTIONS.items():
        if alike(function(expected), got):
            return f"The result is {said}."
        if alike(function(got), expected):
            return f"Ours is {said.replace('ours', 'yours')}."
    return ""


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
    """The right numbers, with an axis too many."""
    has_more = got.dim() > expected.dim() and got.numel() == expected.numel()
    if has_more and alike(got.reshape(expected.shape), expected):
        shape = tuple(got.shape)
        return f"The numbers are right, but there is an axis of length 1 too many: {shape}."
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
    wrong = (expected - got).abs() > TOLERANCE * expected.abs().max().clamp_min(1)
    for axis in range(expected.dim()):
        bad = wrong.movedim(axis, 0).flatten(1).any(dim=1) if wrong.dim() > 1 else wrong
        right = (~bad).nonzero()[:, 0].tolist()
        ill = bad.nonzero()[:, 0].tolist()
        if ill and right:
            if len(right) <= len(ill):
                return f"Along axis {axis} it is right at {_places(right)} only."
            return f"Along axis {axis} it is wrong at {_places(ill)} only."
    if wrong.double().mean() < 0.5:
        return f"{int(wrong.sum())} of {wrong.numel()} numbers are wrong, the others are right."
    return ""


def factor(value: float, pair: Pair) -> str:
    """A factor, and the size that explains it."""
    plain = {"−1": -1.0, "2": 2.0, "1/2": 0.5, "√2": 2**0.5, "1/√2": 0.5**0.5, "ln 2": math.log(2)}
    roots: dict[str, float] = {}
    others: dict[str, float] = {}
    for name, size in pair[0].sizes.items() if pair else ():
        if size > 1:
            roots[f"√{name}"] = size**0.5
            roots[f"1/√{name}"] = size**-0.5
            others[name] = float(size)
            others[f"1/{name}"] = 1 / size
            others[f"n/(n − 1), n = {name}"] = size / (size - 1)
            others[f"(n − 1)/n, n = {name}"] = (size - 1) / size
    for name, known in (roots | plain | others).items():
        if abs(known - value) < 1e-4 * abs(value):
            return f"{value:.4g} (= {name})"
    return f"{value:.4g}"


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
