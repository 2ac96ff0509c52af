"""Exercise: weights by hand, so that linear, GELU, linear gives the absolute value."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, describe


def my_absolute() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    W_1 = torch.tensor([[100.0], [-100.0]])  # GELU is nearly ReLU where the numbers are large
    b_1 = torch.tensor([0.0, 0.0])
    W_2 = torch.tensor([[0.01, 0.01]])
    b_2 = torch.tensor([0.0])
    return W_1, b_1, W_2, b_2


NAMES = ("W_1", "b_1", "W_2", "b_2")
SHAPES = {"W_1": "(2, 1)", "b_1": "(2,)", "W_2": "(1, 2)", "b_2": "(1,)"}  # of two hidden numbers


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    what = "y for x from -5 to 5"
    layers = answer() if callable(answer) else answer
    if layers is None or layers is ...:
        yield what, layers
    if not isinstance(layers, tuple | list) or len(layers) != 4:
        raise Mistake("four tensors must come back: return W_1, b_1, W_2, b_2.")
    for name, tensor in zip(NAMES, layers, strict=True):
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.float32:
            is_tensor = isinstance(tensor, Tensor)
            raise Mistake(
                f"{name} must be a tensor of torch.float32, but is"
                f" {tensor.dtype if is_tensor else describe(tensor)}.",
                _made_float(name, tensor),
            )
    hidden = len(layers[1]) if layers[1].dim() == 1 else 0
    for tensor, shape in zip(layers, ((hidden, 1), (hidden,), (1, hidden), (1,)), strict=True):
        if tuple(tensor.shape) != shape or not hidden:
            found = [str(tuple(one.shape)) for one in layers]
            raise Mistake(
                f"W_1, b_1, W_2 and b_2 have the shapes {', '.join(found[:3])} and {found[3]}.",
                "With m hidden numbers they must be (m, 1), (m,), (1, m) and (1,).",
            )
    W_1, b_1, W_2, b_2 = (tensor.detach() for tensor in layers)
    # the worst place is near 0, between two of 201 numbers
    for where, x in (
        (what, torch.linspace(-5, 5, 201)),
        ("y for x near 0", torch.linspace(-0.25, 0.25, 501)),
    ):
        y = F.linear(F.gelu(F.linear(x[:, None], W_1, b_1)), W_2, b_2)
        right = x[:, None].abs()
        # Any weights that come so near are right.
        yield (
            where,
            right.where((y - right).abs() <= 0.01, y),
        )


def _made_float(name: str, value: Any) -> str:
    """How a tensor of float32 is made, of what came in its place."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return f"{name}.float() is one."
    if isinstance(value, Tensor | list | tuple):
        return "torch.tensor makes one of a list in which a number is written with a point: 1.0."
    return (
        f"With two hidden numbers {name} has the shape {SHAPES[name]}; torch.tensor makes it of a"
        " list."
    )


def tell(evidence: Evidence) -> tuple[str, str]:
    """For which x the result is wrong."""
    if not evidence.is_finite:
        return _too_large(evidence.theirs[-1].output)
    widest = 5 if "5" in evidence.what else 0.25
    x = torch.linspace(-widest, widest, len(evidence.value))
    far = (evidence.value - evidence.expected)[:, 0].abs()
    wrong = x[far > 0.01]
    said = f"y is off by more than 0.01 for {len(wrong)} of {len(x)} numbers x,"
    said += f" which lie between {wrong.min():.3g} and {wrong.max():.3g}."
    places = [0, len(x) // 2, len(x) - 1]
    given = ", ".join(f"{round(y, 3) + 0.0:.3g}" for y in evidence.value[places, 0].tolist())
    said += f" For x = {-widest:g}, 0 and {widest:g} y is {given}."
    for step, between in ((20, "at all whole numbers"), (10, "at all multiples of 1/2")):
        if wrong.abs().max() > 1 and far[::step].max() <= 0.01:
            said = f"y is within 0.01 of |x| {between}, and between them off by up to"
            said += f" {far.max():.2g}."
            return said, (
                "What is fitted at some x is left free between them. |x| is straight but for one"
                " bend, at x = 0: two hidden numbers are enough, of which one sees x and one sees"
                " -x, and both far from 0."
            )
    change = _one_change(evidence.theirs[-1].output)
    if change:
        return said, f"y would be near enough {change}, and all the rest as it is."
    worst = round(x[far.argmax()].item(), 3) + 0.0
    return said, f"Follow x = {worst:g} through the hidden numbers by hand."


def _too_large(layers: Any) -> tuple[str, str]:
    """What is said where finite weights give numbers that are not."""
    sizes = [tensor.detach().abs().max() for tensor in layers]
    largest = max(sizes).item()
    if math.isnan(largest):
        return "Your tensors hold nan already.", ""
    if math.isinf(largest):
        return "Your tensors hold infinite numbers already.", "100 in W_1 is large enough."
    return (
        f"The largest number in your tensors is {largest:.3g}, and a float32 ends at 3.4e+38.",
        "100 in W_1 is large enough.",
    )


def _one_change(layers: Any) -> str:
    """Which change of one of the four tensors makes it right; "" if none of those tried does."""
    W_1, b_1, W_2, b_2 = (tensor.detach() for tensor in layers)
    x = torch.cat([torch.linspace(-5, 5, 201), torch.linspace(-0.25, 0.25, 501)])[:, None]
    rest = F.linear(F.gelu(F.linear(x, W_1, b_1)), W_2)
    near = W_1.abs().max() < 100
    changes = {
        "with zeros in b_1": (W_1, 0 * b_1, W_2, b_2),
        "with a zero in b_2": (W_1, b_1, W_2, 0 * b_2),
        "with zeros in b_1 and b_2": (W_1, 0 * b_1, W_2, 0 * b_2),
        "with the other sign before W_2": (W_1, b_1, -W_2, b_2),
        "with no number in W_2 below 0": (W_1, b_1, W_2.abs(), b_2),
    }
    if rest[200] > 0:  # x is 5 there
        factor = (5 / rest[200]).item()
        changes[f"with W_2 times {factor:.3g}"] = (W_1, b_1, factor * W_2, b_2)
    if near:
        large = "with W_1 times 10 and W_2 divided by 10"
        changes[large] = (10 * W_1, b_1, W_2 / 10, b_2)
        changes[f"{large}, and zeros in b_1 and b_2"] = (10 * W_1, 0 * b_1, W_2 / 10, 0 * b_2)
    if len(b_1) == 2 and W_1[0] > 0 > W_1[1]:
        halves = 1 / W_1.abs().T
        changes["with each number of W_2 one over the size of its number in W_1"] = (
            W_1,
            b_1,
            halves,
            b_2,
        )
    for change, (W_1, b_1, W_2, b_2) in changes.items():
        y = F.linear(F.gelu(F.linear(x, W_1, b_1)), W_2, b_2)
        if (y - x.abs()).abs().max() <= 0.01:
            return change
    return ""


FIRST, SECOND, BIASES = "[[100.0], [-100.0]]", "[[0.01, 0.01]]", "torch.tensor([0.0, 0.0])"

SLIPS = (
    Slip(
        {FIRST: "[[1.0], [-1.0]]", SECOND: "[[1.0, 1.0]]"},
        "add GELU(x) and GELU(-x) as they are",
        (
            "For small numbers GELU is not yet ReLU. Multiply x by a large number before it, and"
            " divide by the same number after it"
        ),
    ),
    Slip(
        {FIRST: "[[10.0], [-10.0]]", SECOND: "[[0.1, 0.1]]"},
        "make x 10 times as large before GELU",
        "That is the way, and not yet far enough",
    ),
    Slip(
        {SECOND: "[[1.0, 1.0]]"},
        "make x large before GELU, and do not make it small again after it",
        "What was multiplied before GELU is divided by the same number after it",
    ),
    Slip(
        {SECOND: "[[0.01, -0.01]]"},
        "subtract the two halves",
        "That gives x again, and they must be added",
    ),
    Slip(
        {FIRST: "[[1.0], [-1.0]]", SECOND: "[[1.0, -1.0]]"},
        "subtract the two halves",
        "That gives x again, and they must be added",
    ),
    Slip(
        {FIRST: "[[100.0], [100.0]]"},
        "use the positive half twice",
        "The second hidden number must see -x",
    ),
    Slip(
        {FIRST: "[[1.0], [1.0]]", SECOND: "[[1.0, 1.0]]"},
        "use the positive half twice",
        "The second hidden number must see -x",
    ),
    Slip(
        {SECOND: "[[0.01, 0.0]]"},
        "have the positive half only",
        "Where x is negative, y must be -x",
    ),
    Slip(
        {FIRST: "[[1.0], [-1.0]]", SECOND: "[[1.0, 0.0]]"},
        "have the positive half only",
        "Where x is negative, y must be -x",
    ),
    Slip({SECOND: "[[-0.01, -0.01]]"}, "turn the sign", "y must not be negative"),
    Slip({SECOND: "[[0.005, 0.005]]"}, "take the mean of the two halves", "They must be added"),
    Slip(
        {FIRST: "[[30.0], [-30.0]]", SECOND: "[[1 / 30, 1 / 30]]"},
        "make x 30 times as large before GELU",
        "That is the way, and not quite far enough, as you see very near 0",
    ),
    Slip(
        {BIASES: "torch.tensor([1.0, 1.0])"},
        "leave ones in b_1",
        "They move the two bends away from x = 0",
    ),
)

EXERCISE = Exercise(
    answer=my_absolute,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Think of ReLU first: relu(x) is |x| on the right and 0 on the left. What does relu(-x)"
            " give? Two hidden numbers are enough."
        ),
        (
            "GELU(x) + GELU(-x) sags near 0. Far from 0 GELU is ReLU: so multiply x by something"
            " large before it, and divide by the same afterwards."
        ),
    ),
    same=(
        {FIRST: "[[1000.0], [-1000.0]]", SECOND: "[[0.001, 0.001]]"},
        {FIRST: "[[100.0], [-50.0]]", SECOND: "[[0.01, 0.02]]"},
    ),
    tolerance=1e-4,
)
