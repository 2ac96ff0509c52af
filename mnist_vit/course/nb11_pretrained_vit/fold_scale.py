"""Exercise: a linear layer with a scale behind it is a linear layer."""

from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, random


def my_fold_scale(weight, bias, scale):
    # weight and bias of a linear layer, scale (out,) -> weight and bias of one that needs no scale
    return scale[:, None] * weight, scale * bias


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for size in ((4, 4), (3, 5)):
        parts = {
            "weight": random(*size),
            "bias": random(size[0], seed=1),
            "scale": random(size[0], seed=2),
        }
        made = answer(*parts.values())
        if made is None:
            yield "the new weight and bias", None
            return
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise Mistake(
                "two things must come back, the new weight and the new bias: return weight, bias."
            )
        weight, bias = made
        yield f"weight {size}", weight
        yield f"bias ({size[0]},)", bias


def notice(answer: Any) -> Mistake | None:
    """What becomes of two rows of numbers; of a square weight, where it raises for another one."""
    weight, bias = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.tensor([7.0, 8.0])
    scale = torch.tensor([10.0, 100.0])
    try:
        made, moved = answer(weight.clone(), bias.clone(), scale.clone())
    except Exception:  # the learner's code may raise anything
        return _noticed_square(answer(weight[:, :2].clone(), bias.clone(), scale.clone())[0])
    if made.dim() != 2:
        return None
    if moved.dim() != 1:
        said = f"Of a layer that makes 2 numbers your new bias has the shape {tuple(moved.shape)}."
        if moved.shape == (2, 2) and torch.equal(moved, scale[:, None] * bias):
            said += " It holds each scale times each number of the bias, as of a column and a row."
        return Mistake(
            said,
            "It should be (2,), as the one that was given: scale[i] multiplies number i of it.",
        )
    rows = "; ".join(", ".join(f"{value:g}" for value in row) for row in made.tolist())
    biases = ", ".join(f"{value:g}" for value in moved.tolist())
    if torch.equal(made, torch.tensor([[10.0, 20.0, 30.0], [400.0, 500.0, 600.0]])):
        if torch.equal(moved, torch.tensor([70.0, 800.0])):
            return None
        return Mistake(
            f"With biases 7 and 8 and scales 10 and 100 your new biases are {biases}.",
            "They should be 70 and 800: scale × (weight × x + bias) multiplies the bias, too.",
        )
    return Mistake(
        "With the rows 1, 2, 3 and 4, 5, 6, and scales 10 and 100, your new weight has the rows"
        f" {rows}.",
        "They should be 10, 20, 30 and 400, 500, 600: scale[i] multiplies number i of the result,"
        " which row i makes.",
    )


def _noticed_square(made: torch.Tensor) -> Mistake | None:
    """What becomes of the rows 1, 2 and 4, 5."""
    rows = "; ".join(", ".join(f"{value:g}" for value in row) for row in made.tolist())
    if rows == "10, 20; 400, 500":
        return None
    return Mistake(
        f"With the rows 1, 2 and 4, 5, and scales 10 and 100, your new weight has the rows {rows}.",
        "They should be 10, 20 and 400, 500: scale[i] multiplies number i of the result, which row"
        " i makes.",
    )


WEIGHT, BIAS = "scale[:, None] * weight", "scale * bias"

SLIPS = (
    Slip(
        {BIAS: "bias"},
        "leave the bias as it is",
        "The scale multiplies what the layer gives, its bias too",
    ),
    Slip(
        {WEIGHT: "weight"},
        "leave the weight as it is",
        "Row i of the weight makes number i, so it is multiplied by scale i",
    ),
    Slip(
        {WEIGHT: "(1 + scale)[:, None] * weight", BIAS: "(1 + scale) * bias"},
        "multiply by 1 + scale",
        "The scale multiplies what the layer gives. The residual connection, which adds the token"
        " itself, is no part of this layer",
    ),
    Slip(
        {WEIGHT: "weight @ torch.diag(scale)"},
        "multiply the columns of the weight, by a diagonal matrix on its right",
        "Row i of the weight makes number i, so it is multiplied by scale i: the diagonal matrix"
        " stands on the left",
    ),
    Slip(
        {WEIGHT: "scale[:, None] + weight", BIAS: "scale + bias"},
        "add the scale",
        "It multiplies",
    ),
    Slip(
        {WEIGHT: "weight * scale"},
        "multiply the columns of the weight",
        "Row i of the weight makes number i, so it is multiplied by scale i",
    ),
    Slip(
        {WEIGHT: "scale * weight"},
        "multiply the columns of the weight",
        "Row i of the weight makes number i, so it is multiplied by scale i",
    ),
    Slip(
        {WEIGHT: "weight / scale[:, None]", BIAS: "bias / scale"},
        "divide",
        "The new layer must give what the old one and the scale give together",
    ),
    Slip(
        {WEIGHT: "scale[:, None] * weight.abs()"},
        "lose the signs of the weights",
        "A scale multiplies a weight, whatever its sign",
    ),
    Slip(
        {WEIGHT: "scale.mean() * weight", BIAS: "scale.mean() * bias"},
        "take one number for all",
        "Each of the numbers that the layer gives has a scale of its own",
    ),
    Slip(
        {WEIGHT: "scale[:, None] ** 2 * weight", BIAS: "scale**2 * bias"},
        "scale twice",
        "The new layer must give what the old one and the scale give together",
    ),
    Slip(
        {BIAS: "bias + scale"},
        "add the scale to the bias",
        "What the layer gives is multiplied, its bias too",
    ),
    Slip(
        {f"{WEIGHT}, {BIAS}": f"{BIAS}, {WEIGHT}"},
        "return the bias first",
        "The weight comes first: return weight, bias",
    ),
    Slip(
        {WEIGHT: "(scale[:, None] * weight).T"},
        "return the weight transposed",
        "PyTorch keeps it as (out, in), as it was given",
    ),
)

EXERCISE = Exercise(
    answer=my_fold_scale,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Write one number of the result: scale[i] · (Σ_j weight[i, j] · x[j] + bias[i]). Which"
            " numbers does scale[i] meet?"
        ),
        (
            "Row i of the weight makes number i, so all of row i is multiplied by scale[i]:"
            " scale[:, None] has the shape (out, 1). And the bias?"
        ),
    ),
    same=(
        {WEIGHT: "(weight.T * scale).T"},
        {WEIGHT: "scale.diag() @ weight"},
    ),
)
