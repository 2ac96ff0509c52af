"""Exercise: where one patch looks, laid out as a picture."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_query_map(weights: Tensor, row: int, column: int) -> Tensor:
    # (n, num_heads, seq_length, seq_length) -> (n, num_heads, n_h, n_w)
    grid = math.isqrt(weights.shape[-1] - 1)
    query = 1 + row * grid + column  # token 0 is the class token
    looked_at = weights[:, :, query, 1:]
    return looked_at.unflatten(-1, (grid, grid))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    weights = (3 * random(2, 3, 17, 17, seed=93)).softmax(dim=-1)
    yield "maps of 3 heads, 4 × 4 patches, query in row 1, column 2", answer(weights, 1, 2)
    yield "query in row 3, column 3", answer(weights, 3, 3)
    yield (
        "3 × 3 patches, query in row 0, column 0",
        answer((3 * random(1, 1, 10, 10, seed=94)).softmax(dim=-1), 0, 0),
    )


def notice(answer: Any) -> Mistake | None:
    """Which query and which keys the map is made of: each weight tells its own."""
    weights = (100.0 * torch.arange(10)[:, None] + torch.arange(10)).expand(1, 2, 10, 10)
    found = answer(weights.clone(), 1, 2)
    if found.shape != (1, 2, 3, 3):
        return Mistake(
            "Of one picture, 2 heads and 3 × 3 patches you make a map of shape"
            f" {tuple(found.shape)}.",
            "It should be (1, 2, 3, 3): a square for each head.",
        )
    wanted = torch.arange(601.0, 610.0).reshape(1, 1, 3, 3).expand(1, 2, 3, 3)
    if torch.equal(found, wanted):
        return None
    told = "; ".join(", ".join(f"{value:g}" for value in row) for row in found[0, 0].tolist())
    if not torch.isin(found, weights).all():
        return Mistake(
            "Where each weight is 100 · query + key, you make of 3 × 3 patches, row 1 and column 2,"
            f" the map {told}. Not all of these are weights.",
            "It should be 601, 602, 603; 604, 605, 606; 607, 608, 609: the weights themselves, as"
            " they are, with nothing calculated. Token 6 asks, and keys 1 to 9 are the patches.",
        )
    return Mistake(
        "Where each weight is 100 · query + key, you make of 3 × 3 patches, row 1 and column 2, the"
        f" map {told}.",
        "It should be 601, 602, 603; 604, 605, 606; 607, 608, 609: token 6 asks, and keys 1 to 9"
        " are the patches, row by row.",
    )


QUERY, ROW, FOLD = (
    "1 + row * grid + column",
    "weights[:, :, query, 1:]",
    "return looked_at.unflatten(-1, (grid, grid))",
)

SLIPS = (
    Slip(
        {ROW: "weights[:, :, 1:, query]"},
        "take a column in place of a row",
        "That is who looks at this patch. A row belongs to the token that asks",
    ),
    Slip(
        {QUERY: "row * grid + column"},
        "take token row · grid + column for the query, although token 0 is the class token",
        "Every patch has a number one higher than its place in the picture",
    ),
    Slip(
        {QUERY: "1 + column * grid + row"},
        "number the patches by columns",
        "They are numbered row by row",
    ),
    Slip(
        {ROW: "weights[:, :, query, :-1]"},
        "keep the weight on the class token and leave out the last patch",
        "Every patch lands one place too far. Leave out number 0",
    ),
    Slip(
        {QUERY: "row * grid + column", ROW: "weights[:, :, query, :-1]"},
        "treat token 0 as the first patch, as query and as key",
        "Token 0 is the class token",
    ),
    Slip(
        {QUERY: "row * grid + column", ROW: "weights[:, :, 1:, 1:][:, :, query - 1]"},
        "take the class token out of the rows, and take 1 off the patch's number besides",
        "Among the rows of the patches alone, patch (row, column) has number row · grid + column",
    ),
    Slip(
        {FOLD: "return looked_at.unflatten(-1, (grid, grid)).transpose(-2, -1)"},
        "fold the patches by columns",
        "They were numbered row by row, so no transpose is needed",
    ),
    Slip(
        {ROW: "weights[:, :, 0, 1:]"},
        "take the class token's row, whatever patch was asked for",
        "The row of patch i is row i + 1",
    ),
    Slip(
        {
            FOLD: (
                "return (looked_at / looked_at.sum(dim=-1, keepdim=True)).unflatten(-1, (grid,"
                " grid))"
            )
        },
        "make the map sum to 1 again",
        "Leave the weights as the model had them; what is missing from 1 is the weight on the class"
        " token",
    ),
    Slip(
        {
            FOLD: (
                "return (looked_at / looked_at.amax(dim=-1, keepdim=True)).unflatten(-1, (grid,"
                " grid))"
            )
        },
        "divide each map by its largest weight",
        "Leave the weights as the model had them",
    ),
    Slip(
        {ROW: "weights.mean(dim=1)[:, query, 1:]"},
        "average over the heads",
        "Each head looks elsewhere, so keep them apart",
    ),
    Slip(
        {FOLD: "return looked_at"},
        "stop before the row is folded",
        "Put the patches back into their square",
    ),
    Slip(
        {FOLD: "return looked_at.unflatten(-1, (grid, grid)).squeeze()"},
        "call squeeze(), which takes away every axis of length 1",
        "Where there is one picture, or one head, its axis stays: (n, num_heads, n_h, n_w)",
    ),
    Slip(
        {ROW: "weights[0, :, query, 1:]"},
        "take the first picture alone",
        "All pictures are asked for: (n, num_heads, n_h, n_w)",
    ),
    Slip(
        {ROW: "weights[:, :, query, 1:].softmax(dim=-1)"},
        "take a softmax of the weights",
        "They come out of one: leave them as they are",
    ),
    Slip(
        {QUERY: "1 + (row - 1) * grid + column - 1"},
        "count rows and columns from 1",
        "The first row and the first column are 0",
    ),
    Slip(
        {QUERY: "1 + row * 14 + column", FOLD: "return looked_at.unflatten(-1, (14, 14))"},
        "count on 14 patches a side",
        "The grid is math.isqrt(seq_length - 1) patches wide",
    ),
    Slip(
        {QUERY: "1 + row * 7 + column", FOLD: "return looked_at.unflatten(-1, (7, 7))"},
        "count on 7 patches a side",
        "The grid is math.isqrt(seq_length - 1) patches wide",
    ),
)

EXERCISE = Exercise(
    answer=my_query_map,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "weights[n, head, query, key]: which token is the patch in that row and column, if"
            " token 0 is the class token? And which of the numbers in its row is no patch?"
        ),
        (
            "The grid has math.isqrt(weights.shape[-1] - 1) patches on a side, so the query is"
            " token 1 + row · grid + column. Of its row drop number 0, and fold the rest into a"
            " square with unflatten or reshape."
        ),
    ),
    same=(
        {
            ROW: "weights[..., 1:][:, :, query]",
            FOLD: "return looked_at.reshape(*looked_at.shape[:2], grid, grid)",
        },
        {QUERY: "row * grid + column", ROW: "weights[:, :, 1:, 1:][:, :, query]"},
    ),
)
