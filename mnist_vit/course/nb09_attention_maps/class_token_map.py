"""Exercise: what the class token looks at, laid out as a picture."""

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ..checking import Exercise, random


def my_class_token_map(weights: Tensor) -> Tensor:
    """(n, num_heads, seq_length, seq_length) -> (n, num_heads, n_h, n_w), of a square grid of patches."""
    grid = math.isqrt(weights.shape[-1] - 1)
    # Row 0 is what the class token looks at; its first number is what it keeps for itself, and no patch.
    row = weights[:, :, 0, 1:]
    return row.unflatten(-1, (grid, grid))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "maps of 3 heads, 4 × 4 patches", answer((3 * random(2, 3, 17, 17, seed=93)).softmax(dim=-1))
    yield "map of one head, 3 × 3 patches", answer((3 * random(1, 1, 10, 10, seed=94)).softmax(dim=-1))


ROW, FOLD = "weights[:, :, 0, 1:]", "return row.unflatten(-1, (grid, grid))"

SLIPS = (
    ({ROW: "weights[:, :, 1:, 0]"},
     "take the column of the class token in place of its row: that is who looks at the class token. A row belongs "
     "to the one that asks"),
    ({ROW: "weights[:, :, 0, :-1]"},
     "keep the class token's own weight and leave out the last patch: every patch lands one place too far. Leave "
     "out number 0"),
    ({FOLD: "return row.unflatten(-1, (grid, grid)).transpose(-2, -1)"},
     "fold the patches by columns: they were numbered row by row, so no transpose is needed"),
    ({ROW: "weights[:, :, -1, 1:]"}, "take the last token's row: the class token is the first"),
    ({ROW: "weights[:, :, 1, 1:]"}, "take the row of token 1, the first patch: the class token is token 0"),
    ({ROW: "weights[:, :, 1:, 1:].mean(dim=-2)"},
     "average over the rows of all patches: one row is asked for, that of the class token"),
    ({FOLD: "return (row / row.sum(dim=-1, keepdim=True)).unflatten(-1, (grid, grid))"},
     "make the map sum to 1 again: leave the weights as the model had them; what is missing from 1 is what the "
     "class token keeps for itself"),
    ({ROW: "weights.mean(dim=1)[:, 0, 1:]"}, "average over the heads: each head looks elsewhere, so keep them apart"),
    ({FOLD: "return row"}, "stop before the row is folded: put the patches back into their square"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_class_token_map,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "weights[n, head, query, key]: the query is the one who looks. Which row is the class token's, and which of "
        "its numbers is no patch?",
        "Take row 0, drop number 0 of it, and fold what is left into a square, with unflatten or reshape: its side is "
        "the root of seq_length - 1, math.isqrt(weights.shape[-1] - 1).",
    ),
    same=(
        {ROW: "weights[..., 1:][:, :, 0]", FOLD: "return row.reshape(*row.shape[:2], grid, grid)"},
        {ROW: "weights[:, :, 0]", FOLD: "return row[..., 1:].unflatten(-1, (grid, grid))"},
    ),
)
