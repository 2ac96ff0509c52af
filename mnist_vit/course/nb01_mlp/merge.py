"""Exercise: two linear layers in a row as one."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401 (an edit uses it)
from torch import Tensor, nn

from ..checking import Evidence, Exercise, Mistake, Slip, random

WIDE = 130


def my_merge(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
    W = W_2 @ W_1
    b = W_2 @ b_1 + b_2
    return W, b


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # First every layer is 4 wide: a wrong product has the right shape, and its mistake can be
    # named. Then all differ, and at last a token has more numbers than most batches have tokens.
    for inside, middle, outside in ((4, 4, 4), (5, 7, 3), (WIDE, 2, 3)):
        first = (random(middle, inside, seed=1), random(middle, seed=2))
        layers = (*first, random(outside, middle, seed=3), random(outside, seed=4))
        merged = answer(*layers)
        what = f"of {inside} → {middle} → {outside} as one layer"
        if isinstance(merged, nn.Module):
            raise Mistake(
                f"a layer came back, {type(merged).__name__}.",
                "Return its matrix and its bias, two tensors: return W, b.",
            )
        if not isinstance(merged, tuple | list):
            yield f"the matrix {what}", merged
            raise Mistake("two things must come back, the matrix and the bias: return W, b.")
        if len(merged) != 2:
            raise Mistake("two things must come back, the matrix and the bias: return W, b.")
        yield f"the matrix {what}", merged[0]
        yield f"the bias {what}", merged[1]


def _of_unit_biases(evidence: Evidence) -> tuple[str, str]:
    """What a wrong bias is where b_1 and b_2 are 0 but for one number, and what it should be."""
    if not evidence.what.startswith("the bias") or evidence.pair is None:
        return "", ""
    _, b_1, W_2, b_2 = evidence.pair[0].before
    if evidence.value.shape != b_2.shape or not evidence.can_call_again:
        return "", ""
    for place in range(len(b_1)):
        unit = torch.zeros_like(b_1)
        unit[place] = 1
        bias = evidence.pair[1].again_with({1: unit, 3: torch.zeros_like(b_2)})[1]
        right = W_2[:, place]
        if bias.shape == b_2.shape and not torch.allclose(bias, right, atol=1e-4):
            return (
                f"Where b_2 is 0 and b_1 is 0 but for a 1 at place {place}, your bias is"
                f" {_row(bias)}.",
                f"It should be column {place} of W_2, {_row(right)}: what the second layer makes of"
                " that b_1.",
            )
    return "", ""


def _row(numbers: Tensor) -> str:
    return f"({', '.join(f'{number + 0.0:.3g}' for number in numbers.tolist())})"


def tell(evidence: Evidence) -> tuple[str, str]:
    """That it is right for small layers, where it is wrong for a wide one alone."""
    if f"of {WIDE} →" not in evidence.what:
        return _of_unit_biases(evidence)
    return (
        f"It is right for the smaller layers, and not for one that takes in {WIDE} numbers.",
        "No size is fixed. A layer that is fitted to tokens needs more of them than a token has"
        " numbers; W_2 @ W_1 and W_2 @ b_1 + b_2 need none.",
    )


W, B = "W = W_2 @ W_1", "b = W_2 @ b_1 + b_2"

SENT = "F.linear(F.linear(torch.eye(W_1.shape[1]), W_1, b_1), W_2, b_2)"
TURNED = "F.linear multiplies by the turned matrices: x W_1ᵀ W_2ᵀ = x (W_2 W_1)ᵀ"
SPREAD = (
    "PyTorch spreads a column and a vector out to a matrix. Multiply W_2 by the vector b_1 itself,"
    " W_2 @ b_1, which gives a vector"
)

SLIPS = (
    Slip(
        {W: "W = W_1 @ W_2", B: "b = W_1 @ b_1 + b_2"},
        "multiply in the order in which the layers stand",
        f"{TURNED}, and the first bias is multiplied by W_2, W_2 @ b_1",
    ),
    Slip(
        {W: "W = W_1 @ W_2"},
        "multiply the matrices in the order in which the layers stand",
        TURNED,
    ),
    Slip(
        {W: "W = W_1 @ W_2", B: "b = b_1 + b_2"},
        "multiply the matrices in the order in which the layers stand, and add the biases",
        f"{TURNED}; and the first bias is multiplied by W_2: b = W_2 @ b_1 + b_2",
    ),
    Slip(
        {W: "W = W_1 @ W_2", B: "b = b_1 @ W_2 + b_2"},
        "multiply as for x W_1 W_2, where matrices stand the other way round",
        f"{TURNED}, and the first bias is multiplied by W_2, W_2 @ b_1",
    ),
    Slip(
        {W: "W = (W_1 @ W_2).T"},
        "multiply W_1 @ W_2 and turn the product round",
        TURNED,
    ),
    Slip(
        {W: "W = (W_1 @ W_2).T", B: "b = b_1 @ W_2 + b_2"},
        "multiply W_1 @ W_2 and turn the product round, and multiply the bias from the left",
        f"{TURNED}, and the first bias is multiplied by W_2, W_2 @ b_1",
    ),
    Slip(
        {B: "b = b_1 + b_2"},
        "add the two biases",
        "The first one is multiplied by W_2 before: b = W_2 @ b_1 + b_2",
    ),
    Slip(
        {B: "b = b_2"},
        "forget the first bias",
        "It is multiplied by W_2, and the product is added to b_2",
    ),
    Slip(
        {B: "b = W_2 @ F.gelu(b_1) + b_2"},
        "send the first bias through GELU",
        "Nothing stands between the two layers here",
    ),
    Slip({B: "b = W_2 @ b_1"}, "forget the second bias", "b_2 is added at the end, as it stands"),
    Slip(
        {B: "b = W_1 @ b_1 + b_2"},
        "multiply the first bias by W_1",
        "It is added after W_1, so W_2 alone multiplies it: W_2 @ b_1",
    ),
    Slip(
        {B: "b = b_1.mean() + b_2"},
        "add the mean of the first bias",
        "Each of its numbers is multiplied by W_2: W_2 @ b_1",
    ),
    *(
        Slip(
            {B: f"b = (W_2 @ b_1).{less}() + b_2"},
            f"add the {less} of W_2 @ b_1, one number, to all of b_2",
            "Each number of W_2 @ b_1 is added to the number of b_2 at its place",
        )
        for less in ("sum", "mean")
    ),
    Slip(
        {B: "b = (W_2 * b_1).mean(dim=1) + b_2"},
        "take the mean of W_2 * b_1 over the hidden numbers",
        "Each number of W_2 @ b_1 is their sum: sum(dim=1)",
    ),
    Slip(
        {B: "b = (W_2 * b_1).sum(dim=0) + b_2"},
        "sum W_2 * b_1 over axis 0, the rows of W_2",
        "Sum over the hidden numbers, dim=1, as W_2 @ b_1 does",
    ),
    Slip(
        {B: "b = W @ b_1 + b_2"},
        "multiply the first bias by both matrices",
        "It is added after W_1, so W_2 alone multiplies it: W_2 @ b_1",
    ),
    Slip(
        {B: "b = W_2 @ (b_1 + b_2)"},
        "multiply both biases by W_2",
        "b_2 is added after it, as it stands",
    ),
    Slip(
        {B: "b = W_2.T @ b_1 + b_2"},
        "turn W_2 round for the bias",
        "W_2 has one row for each number that comes out, so it stands as it is: W_2 @ b_1",
    ),
    Slip(
        {B: "b = b_1 @ W_2 + b_2"},
        "multiply b_1 from the left, b_1 @ W_2, which is W_2.T @ b_1",
        "W_2 has one row for each number that comes out, so it stands as it is, on the left: W_2 @"
        " b_1",
    ),
    Slip(
        {W: "W = (W_2 @ W_1).T"},
        "transpose the product",
        "It has one row for each number that comes out, as W_1 and W_2 have",
    ),
    Slip(
        {W: "W = W_1.T @ W_2.T"},
        "transpose the product",
        "It has one row for each number that comes out, as W_1 and W_2 have",
    ),
    *(
        Slip(
            {W: f"W = F.linear(F.linear(torch.eye(W_1.shape[1]), {first}), {second}).T"},
            f"send unit tokens through the layers with {biases}: every column of the matrix then"
            " has a bias added",
            "Leave b_1 and b_2 out for the matrix, F.linear(unit, W_1) and so on; or subtract what"
            " comes out for a token of zeros",
        )
        for first, second, biases in (
            ("W_1, b_1", "W_2, b_2", "their biases"),
            ("W_1, b_1", "W_2", "b_1"),
            ("W_1", "W_2, b_2", "b_2"),
        )
    ),
    Slip(
        {W: f"W = {SENT}.T - (W_2 @ b_1 + b_2)"},
        "send unit tokens through the layers, transpose, and subtract the bias along the wrong"
        " axis: a vector is subtracted from each row",
        "Subtract it before you transpose, where each row is a token's output",
    ),
    Slip(
        {W: "W = W_2 * W_1"}, "multiply number by number", "Layers in a row are a matrix product, @"
    ),
    Slip({W: "W = W_2 + W_1"}, "add the matrices", "Layers in a row are a matrix product"),
    Slip(
        {B: "b = W_2 @ b_1[:, None] + b_2"},
        "add b_2, a vector, to W_2 times b_1 as a column",
        SPREAD,
    ),
    Slip(
        {B: "b = W_2 @ b_1 + b_2[:, None]"},
        "add b_2 as a column to W_2 times b_1, a vector",
        "PyTorch spreads a column and a vector out to a matrix. Leave b_2 as it is",
    ),
    Slip({"return W, b": "return b, W"}, "return the bias first", "The matrix comes first"),
    *(
        Slip(
            {W: f"W = {product}"},
            f"turn {which} round in the product",
            "Both stand as they are: W_2 @ W_1",
        )
        for product, which in (("W_2 @ W_1.T", "W_1"), ("W_2.T @ W_1", "W_2"))
    ),
    Slip(
        {B: "b = W_2 @ b_1 + W_1 @ b_2"},
        "multiply the second bias by W_1",
        "It is added at the end, as it stands",
    ),
    Slip(
        {B: "b = b_1 + W_1 @ b_2"},
        "multiply the second bias by W_1, and not the first by W_2",
        "The first goes through W_2, and the second is added as it stands: W_2 @ b_1 + b_2",
    ),
    Slip(
        {B: "b = b_2 - W_2 @ b_1"},
        "subtract W_2 times the first bias",
        "It is added: W_2 @ b_1 + b_2",
    ),
    Slip(
        {B: "b = W_2 @ b_1 - b_2"},
        "subtract the second bias",
        "It is added: W_2 @ b_1 + b_2",
    ),
    Slip(
        {B: "b = W_2 @ b_1 * b_2"},
        "multiply by the second bias",
        "It is added at the end: W_2 @ b_1 + b_2",
    ),
    Slip(
        {B: "b = W_2 @ (W_1 @ torch.ones(W_1.shape[1]) + b_1) + b_2"},
        "send a token of ones through the layers for the bias",
        "The bias is what comes out for a token of zeros",
    ),
    Slip(
        {W: "W = W_2 @ F.gelu(W_1)"},
        "send the first matrix through GELU",
        "Nothing stands between the two layers here",
    ),
    Slip(
        {B: "b = b_1[None] @ W_2 + b_2"},
        "multiply b_1 as a row by W_2 as it stands",
        "A row is multiplied by W_2.T; simpler is the vector, W_2 @ b_1",
    ),
    Slip(
        {"return W, b": "return torch.cat([W_1, W_2]), torch.cat([b_1, b_2])"},
        "put the two matrices, and the two biases, below each other",
        "One after the other the layers are a product: W_2 @ W_1",
    ),
    Slip(
        {B: "b = b_1"},
        "take the first bias alone",
        "It is multiplied by W_2, and b_2 is added: W_2 @ b_1 + b_2",
    ),
)

EXERCISE = Exercise(
    answer=my_merge,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Write the first layer down, h = W_1 x + b_1, with x as a column. Put that into the"
            " second, and multiply out."
        ),
        (
            "W_2 (W_1 x + b_1) + b_2. What stands before x is the matrix; what does not hang on x"
            " is the bias."
        ),
    ),
    same=(
        {B: "b = b_1 @ W_2.T + b_2"},
        {W: "W = (W_1.T @ W_2.T).T"},
        {B: "b = (W_2 @ b_1[:, None] + b_2[:, None])[:, 0]"},
    ),
    tolerance=1e-5,
)
