"""Exercise: position embeddings of a library that counts its tokens in another order."""

from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, random


def my_token_order(position, rows, columns):
    # (1, rows * columns + 1, d): patches column by column, class token last -> in your order
    patches, class_token = position[:, :-1], position[:, -1:]
    grid = patches.unflatten(1, (columns, rows)).transpose(1, 2)  # (1, rows, columns, d)
    return torch.cat([class_token, grid.flatten(1, 2)], dim=1)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "positions of 2 rows and 3 columns", answer(random(1, 7, 4), 2, 3)
    yield "positions of 4 rows and 3 columns", answer(random(1, 13, 2, seed=1), 4, 3)


def notice(answer: Any) -> Mistake | None:
    """Whether the numbers of a position stay together, and where seven positions go."""
    pairs = answer(torch.arange(7.0)[None, :, None].repeat(1, 1, 2), 2, 3)
    if pairs.shape == (1, 7, 2) and not torch.equal(pairs[..., 0], pairs[..., 1]):
        return Mistake(
            "A row of what you return holds numbers of several positions.",
            "A position is a row of d numbers, which stay together. Of (1, columns, rows, d) the"
            " axes 1 and 2 change places, and the last one stays.",
        )
    made = answer(torch.arange(7.0)[None, :, None], 2, 3)
    if made.shape != (1, 7, 1):
        return Mistake(
            f"Of a position embedding (1, 7, 1) you make {tuple(made.shape)}.",
            "It must stay (1, 7, 1): one position for the class token, and one for each patch.",
        )
    numbers = ", ".join(f"{value:g}" for value in made.flatten().tolist())
    if numbers == "6, 0, 2, 4, 1, 3, 5":
        return None
    return Mistake(
        f"With 2 rows and 3 columns you make {numbers} of 0, 1, 2, 3, 4, 5, 6.",
        "They should become 6, 0, 2, 4, 1, 3, 5: the class token, 6, comes first; then row 0, since"
        " the columns begin with 0, 2 and 4; then row 1.",
    )


CUT = "patches, class_token = position[:, :-1], position[:, -1:]"
GRID = "patches.unflatten(1, (columns, rows)).transpose(1, 2)"
PARTS = "[class_token, grid.flatten(1, 2)]"

SLIPS = (
    Slip(
        {GRID: "patches.unflatten(1, (rows, columns))"},
        "only move the class token",
        "Their patches are counted column by column, yours row by row",
    ),
    Slip(
        {GRID: "patches.unflatten(1, (rows, columns)).transpose(1, 2)"},
        "cut their sequence into rows, and swap rows and columns then",
        "Theirs has a column after a column, so cut it into (columns, rows) first",
    ),
    Slip(
        {PARTS: "[grid.flatten(1, 2), class_token]"},
        "leave the class token at the end",
        "In your model's order it is token 0",
    ),
    Slip(
        {CUT: "patches, class_token = position[:, 1:], position[:, :1]"},
        "take their first token for the class token",
        "Theirs is the last",
    ),
    Slip({PARTS: "[grid.flatten(1, 2)]"}, "lose the class token", "It has a position, too"),
    Slip(
        {GRID: "patches.flip(1).unflatten(1, (rows, columns))"},
        "turn the order of their patches round",
        (
            "Their first patch is yours, too, at the top left, but theirs go on column by column:"
            " cut them into (columns, rows), and swap these two axes"
        ),
    ),
    Slip(
        {
            CUT: "position = position.roll(1)\n"
            "    patches, class_token = position[:, 1:], position[:, :1]"
        },
        "roll the whole tensor by one number, and not by one token",
        "roll without dims moves number by number: roll(1, dims=1) moves whole tokens",
    ),
    Slip(
        {
            CUT: "patches, class_token = position[:, 1:], position[:, :1]",
            GRID: "patches.unflatten(1, (rows, columns)).transpose(1, 2)",
            PARTS: "[grid.flatten(1, 2), class_token]",
        },
        "convert the other way round, from your order into theirs",
        "What is given is in theirs: a column after a column, and the class token last",
    ),
    Slip(
        {GRID: f"{GRID}.flip(2)"},
        "count the columns from the right",
        "Both count columns from the left",
    ),
)

EXERCISE = Exercise(
    answer=my_token_order,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Draw a grid of 2 rows and 3 columns, and write into each place the number that the"
            " patch has in their order. Then read the numbers in yours."
        ),
        (
            "Set the last token apart. The rest is a column after a column: unflatten(1, (columns,"
            " rows)). Swap these two axes, flatten, and put the class token in front."
        ),
    ),
    same=({GRID: "patches.reshape(1, columns, rows, -1).permute(0, 2, 1, 3)"},),
)
