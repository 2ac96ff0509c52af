"""Exercise: positions that go along with a picture that is shifted by whole patches."""

from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, random


def my_move_positions(position, rows, columns, down, right):
    # (1, 1 + rows * columns, d) -> the same, for pictures that were shifted by whole patches
    class_token, patches = position[:, :1], position[:, 1:]
    grid = patches.unflatten(1, (rows, columns))
    moved = grid.roll((down, right), dims=(1, 2))
    return torch.cat([class_token, moved.flatten(1, 2)], dim=1)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    position = random(1, 16, 4)
    yield "3 rows, 5 columns, 1 down and 2 right", answer(position, 3, 5, 1, 2)
    yield "3 rows, 5 columns, 0 down and 1 left", answer(position, 3, 5, 0, -1)
    yield "4 rows, 3 columns, 1 up and 0 right", answer(random(1, 13, 2, seed=1), 4, 3, -1, 0)
    yield "3 rows, 5 columns, 4 down and 6 left", answer(position, 3, 5, 4, -6)


def notice(answer: Any) -> Mistake | None:
    """Where the numbers of a class token and of 3 rows of 4 patches go: up and down differ."""
    for (down, right), shift in SHIFTS.items():
        made = answer(torch.arange(13.0)[None, :, None], 3, 4, down, right)
        if made.shape != (1, 13, 1):
            return Mistake(
                f"Of a position embedding (1, 13, 1) you make {tuple(made.shape)}.",
                "It must stay (1, 13, 1): a position for the class token, and one for each patch.",
            )
        wanted = my_move_positions(torch.arange(13.0)[None, :, None], 3, 4, down, right)
        if not torch.equal(made, wanted):
            return Mistake(
                f"For a shift by {shift}, the class token's 0 and the rows 1, 2, 3, 4; 5, 6, 7, 8;"
                f" 9, 10, 11, 12 become {_numbers(made)}.",
                f"They should become {_numbers(wanted)}: each position goes where its patch goes,"
                " and what leaves at one side comes in at the other. The class token has no place"
                " and stays.",
            )
    return None


SHIFTS = {
    (1, 1): "1 down and 1 to the right",
    (0, -1): "0 down and -1 to the right, which is 1 to the left",
    (-1, 0): "-1 down, which is 1 up, and 0 to the right",
    (4, 0): "4 down, once round the 3 rows and 1 further, and 0 to the right",
}


def _numbers(position: torch.Tensor) -> str:
    return ", ".join(f"{value:g}" for value in position.flatten().tolist())


GRID = "patches.unflatten(1, (rows, columns))"
ROLL = "grid.roll((down, right), dims=(1, 2))"

SLIPS = (
    Slip(
        {ROLL: "grid.roll((-down, -right), dims=(1, 2))"},
        "move them the other way",
        (
            "A position goes where its patch goes: from row r to row (r + down) % rows, from"
            " column c to column (c + right) % columns"
        ),
    ),
    Slip(
        {ROLL: "grid.roll((right, down), dims=(1, 2))"},
        "swap down and right",
        "Rows are moved by down, columns by right",
    ),
    Slip(
        {GRID: "patches.unflatten(1, (columns, rows))"},
        "swap the two sizes of the grid, (columns, rows)",
        "It has the shape (rows, columns)",
    ),
    Slip(
        {
            GRID: "patches",
            ROLL: "grid.roll(down * columns + right, dims=1)",
            "moved.flatten(1, 2)": "moved",
        },
        "move the patches along one line",
        (
            "What leaves a row at one end comes in at the other end of the same row, not in the"
            " next row"
        ),
    ),
    Slip(
        {
            "class_token, patches = position[:, :1], position[:, 1:]": (
                "class_token, patches = position[:, -1:], position[:, :-1]"
            )
        },
        "take the last position for the class token's",
        "The class token is token 0",
    ),
    Slip(
        {"[class_token, moved.flatten(1, 2)]": "[moved.flatten(1, 2)]"},
        "lose the class token's position",
        "It lies in no place of the picture, and stays what it is",
    ),
    Slip(
        {ROLL: "grid.roll(down, dims=1)"},
        "move the rows only",
        "Move the columns by right as well",
    ),
    Slip(
        {ROLL: "grid.roll(right, dims=2)"},
        "move the columns only",
        "Move the rows by down as well",
    ),
    Slip(
        {ROLL: "grid.roll((down, right), dims=(2, 3))"},
        "move the columns by down, and the numbers of each position by right",
        "The axes of the grid are (1, rows, columns, d): rows are axis 1, and columns axis 2",
    ),
    Slip(
        {ROLL: "grid.roll((down, right), dims=(0, 1))"},
        "move the rows by right, and the columns not at all",
        "The axes of the grid are (1, rows, columns, d): rows are axis 1, and columns axis 2",
    ),
    Slip({ROLL: "grid"}, "move nothing", "The positions go with their patches"),
)

EXERCISE = Exercise(
    answer=my_move_positions,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Which token holds the pixels of the old patch (r, c) after the shift? That token must"
            " get the position that (r, c) had."
        ),
        (
            "torch.roll moves along several axes at once and brings in at one end what leaves at"
            " the other. Give the patches their rows and columns first; the class token stays out."
        ),
    ),
    same=({ROLL: "grid.roll(down, dims=1).roll(right, dims=2)"},),
)
