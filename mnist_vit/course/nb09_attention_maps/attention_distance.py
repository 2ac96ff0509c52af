"""Exercise: mean attention distance (Dosovitskiy et al. 2020, figure 7), how far each head
looks."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Exercise, Mistake, Slip, random


def my_attention_distance(weights: Tensor, patch_size: int) -> Tensor:
    # (n, num_layers, num_heads, seq_length, seq_length) -> (num_layers, num_heads)
    grid = math.isqrt(weights.shape[-1] - 1)
    number = torch.arange(grid)
    place = torch.cartesian_prod(number, number).float()
    pixels = torch.cdist(place, place) * patch_size  # from each patch to each other
    patches = weights[..., 1:, 1:]  # the class token has no place
    patches = patches / patches.sum(dim=-1, keepdim=True)
    looked = (patches * pixels).sum(dim=-1)
    return looked.mean(dim=(0, -1))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    weights = (2 * random(3, 2, 4, 10, 10, seed=97)).softmax(dim=-1)
    yield "distance with 3 × 3 patches of 7 pixels", answer(weights, 7)
    weights = (2 * random(2, 3, 2, 17, 17, seed=98)).softmax(dim=-1)
    yield "distance with 4 × 4 patches of 2 pixels", answer(weights, 2)
    weights = (2 * random(1, 1, 1, 5, 5, seed=99)).softmax(dim=-1)
    yield (
        "distance of one picture, one layer and one head, with 2 × 2 patches of 3 pixels",
        answer(weights, 3),
    )


def notice(answer: Any) -> Mistake | None:
    """What comes of rows that put all their weight on one place: 9 patches of 10 pixels."""
    found = torch.as_tensor(answer(torch.full((2, 3, 4, 10, 10), 0.1), 10))
    if found.shape != (3, 4):
        return Mistake(
            f"Of 2 pictures, 3 layers and 4 heads you make the shape {tuple(found.shape)}.",
            "It should be (3, 4): the mean over pictures and over the patches that ask, for each"
            " layer and each head by itself.",
        )
    single = torch.as_tensor(answer(torch.full((1, 1, 1, 10, 10), 0.1), 10))
    if single.shape != (1, 1):
        return Mistake(
            "Of 2 pictures, 3 layers and 4 heads you make the shape (3, 4), as it should be; of"
            f" one picture, one layer and one head {tuple(single.shape)}.",
            "It should be (1, 1): the two axes stay where their length is 1. squeeze() without an"
            " axis takes them away.",
        )
    itself, corner = torch.eye(10), torch.zeros(10, 10)
    corner[:, 1] = 1
    both = corner / 2
    both[:, 9] += 0.5
    aside = itself / 2
    aside[:, 0] += 0.5
    cases = {
        "every patch looks at itself alone": (itself, 0.0, ITSELF),
        "every patch looks at itself, and as much at the class token": (aside, 0.0, ITSELF + SUM),
        "every patch looks at the patch in the upper left corner alone": (
            corner,
            16.3498,
            CORNER + " Rows are the patches that ask.",
        ),
        "every patch looks at the two patches in the upper left and the lower right corner, with"
        " one half each": (
            both,
            16.3498,
            "It should be 16.35 there: for each patch, half of its distance to the one corner and"
            " half of its distance to the other; then the mean over the patches.",
        ),
        "every patch looks at the patch in the upper left corner with one tenth, and at the class"
        " token with nine": (
            0.1 * corner + 0.9 * nn.functional.pad(torch.ones(10, 1), (0, 9)),
            16.3498,
            CORNER + SUM,
        ),
    }
    for what, (rows, right, instead) in cases.items():
        pixels = float(torch.as_tensor(answer(rows.expand(2, 1, 1, 10, 10), 10)).flatten()[0])
        if abs(pixels - right) > 0.01:
            return Mistake(
                f"With 3 × 3 patches of 10 pixels, where {what}, you give {pixels:.2f} pixels.",
                instead,
            )
    return None


ITSELF = "It should be 0 there: a patch is 0 pixels away from itself."
CORNER = (
    "It should be 16.35 there: the mean of 0, two times 10, 14.14, two times 20, two times 22.36,"
    " and 28.28."
)
SUM = " Without the class token, make each row sum to 1 again."

PIXELS, PATCHES = "torch.cdist(place, place) * patch_size", "weights[..., 1:, 1:]"
NORM = "patches = patches / patches.sum(dim=-1, keepdim=True)"
LOOKED, END = "(patches * pixels).sum(dim=-1)", "return looked.mean(dim=(0, -1))"

SLIPS = (
    Slip(
        {NORM: ""},
        (
            "let the weight on the class token count as distance 0, whether you keep its column"
            " or drop it and leave the rows as they are"
        ),
        (
            "The distance comes out too short. Leave the class token's column out, and divide"
            " each row by the sum of what is left"
        ),
    ),
    Slip(
        {PIXELS: f"nn.functional.pad({PIXELS}, (1, 0, 1, 0))", PATCHES: "weights", NORM: ""},
        "keep the class token, at distance 0 from everything",
        "It has no place in the picture. Leave out its row and its column, and make the rest of"
        " each row sum to 1",
    ),
    *(
        Slip(
            {NORM: f"patches = patches / patches.sum(dim={axis}, keepdim=True)"},
            f"divide by the sum over {what} (dim={axis})",
            "Each row is divided by its own sum, dim=-1",
        )
        for axis, what in (
            (0, "the pictures"),
            (1, "the layers"),
            (2, "the heads"),
        )
    ),
    Slip(
        {PATCHES: "weights[..., :-1, :-1]"},
        "leave out the last token in place of the class token",
        "The class token is the first: keep weights[..., 1:, 1:]",
    ),
    Slip(
        {PATCHES: "weights[..., :-1, :-1]", NORM: ""},
        "leave out the last token in place of the class token, and leave the rows as they are",
        "The class token is the first; without it, divide each row by its sum",
    ),
    Slip(
        {
            NORM: "patches = patches / patches.sum(dim=-2, keepdim=True)",
            LOOKED: "(patches * pixels).sum(dim=-2)",
        },
        "mix up who looks and what is looked at",
        (
            "Patches that ask stand along dim=-2, and those that are looked at along dim=-1: divide"
            " by sum(dim=-1), and add up along this axis, too"
        ),
    ),
    Slip(
        {PIXELS: "torch.cdist(place, place)"},
        "count in patches",
        "One patch to the next is patch_size pixels",
    ),
    Slip(
        {PIXELS: "torch.cdist(place, place) ** 2 * patch_size"},
        "take the square of the distance in patches, times patch_size",
        "The straight line is the root of the sum of squares",
    ),
    Slip(
        {PIXELS: "(torch.cdist(place, place) * patch_size) ** 2"},
        "take the square of the distance, so that the result is in square pixels",
        "The straight line is the root of the sum of squares",
    ),
    Slip(
        {PIXELS: "torch.cdist(place, place, p=1) * patch_size"},
        "add the steps down and the steps across",
        "The straight line is the root of the sum of squares",
    ),
    Slip(
        {
            "torch.cartesian_prod(number, number).float()": "torch.arange(grid * grid)",
            PIXELS: "(place[:, None] - place).abs() * patch_size",
        },
        "take how far apart the patches' numbers are",
        "Patch 3 may lie right below patch 0. Use row and column",
    ),
    Slip(
        {END: "return looked[..., 0].mean(dim=0)"},
        "take one row alone, that of the first patch",
        "The mean is over all patches that ask",
    ),
    Slip(
        {PATCHES: "weights[..., :1, 1:]"},
        "take the class token's row for all patches",
        "It has no place to measure from. The rows of the patches are weights[..., 1:, 1:]",
    ),
    Slip(
        {NORM: "", END: "return looked.sum(dim=(0, -1)) / patches.sum(dim=(0, -2, -1))"},
        "divide once, by the sum of all weights",
        "Then a patch that looks much at the class token counts less. Make each row sum to 1 by"
        " itself, and take the mean of the rows",
    ),
    *(
        Slip(
            {"grid = math.isqrt(weights.shape[-1] - 1)": f"grid = {grid}"},
            f"count on {grid} × {grid} patches",
            "The grid is math.isqrt(seq_length - 1) patches wide",
        )
        for grid in (4, 7, 14)
    ),
    Slip(
        {
            "grid = math.isqrt(weights.shape[-1] - 1)": "grid = 28 // patch_size",
            "number = torch.arange(grid)": "number = torch.arange(weights.shape[-1] - 1)",
            "place = torch.cartesian_prod(number, number).float()": (
                "place = torch.stack([number // grid, number % grid], dim=1).float()"
            ),
        },
        "take the pictures to be 28 pixels wide",
        "Pictures of other sizes have other grids, math.isqrt(seq_length - 1) patches wide",
    ),
    Slip(
        {NORM: "patches = patches.softmax(dim=-1)"},
        "take a softmax to make the rows sum to 1",
        "It makes the weights nearly even: divide each row by its sum",
    ),
    Slip(
        {
            NORM: (
                "patches = patches * (1 - torch.eye(grid * grid))\n"
                "    patches = patches / patches.sum(dim=-1, keepdim=True)"
            )
        },
        "leave out the weight that a patch gives itself",
        "A patch may look at itself, at distance 0. Only the class token is left out",
    ),
    Slip(
        {PIXELS: "(torch.cdist(place, place) ** 2 * patch_size).sqrt()"},
        "multiply the squares of the distances by patch_size, and take the root of both",
        "Multiply the distance itself by patch_size, behind the root",
    ),
    Slip(
        {"torch.cartesian_prod(number, number).float()": "torch.cartesian_prod(number, number)"},
        "give torch.cdist whole numbers",
        ".float() makes floats of them",
    ),
    Slip(
        {PATCHES: "weights[..., 1:]"},
        "leave out the class token among those looked at, and not among those that ask",
        "Its row goes, too: weights[..., 1:, 1:]",
    ),
    Slip(
        {NORM: "patches = patches / patches.sum(dim=-1)"},
        "leave out keepdim=True",
        "The sum of a row stands along its keys: sum(dim=-1, keepdim=True)",
    ),
    Slip(
        {PIXELS: 'torch.cdist(place, place, p=float("inf")) * patch_size'},
        "take the larger of the steps down and the steps across",
        "The straight line is the root of the sum of squares",
    ),
    *(
        Slip(
            {PIXELS: f"torch.cdist(place, place) * {size}"},
            f"count {size} pixels from one patch to the next, whatever patch_size is",
            "Use the argument patch_size",
        )
        for size in (2, 4, 7)
    ),
    Slip(
        {
            "torch.cartesian_prod(number, number).float()": (
                "torch.stack([(torch.arange(grid * grid) + 1) // grid,"
                " (torch.arange(grid * grid) + 1) % grid], dim=1).float()"
            )
        },
        "number the patches from 1 when you compute their rows and columns",
        "Without the class token, the first patch has the number 0",
    ),
    Slip(
        {LOOKED: "(patches @ place - place).norm(dim=-1) * patch_size"},
        "take the distance to the mean of the places that a patch looks at",
        "A patch that looks as far to the left as to the right would get 0. Take the mean of the"
        " distances",
    ),
    Slip(
        {LOOKED: "(patches * pixels**2).sum(dim=-1).sqrt()"},
        "take the root of each row's mean square distance",
        "The mean of the distances themselves is asked for, with the attention weights",
    ),
    Slip(
        {LOOKED: "(patches * pixels**2).sum(dim=-1)", END: f"{END}.sqrt()"},
        "take the root of the mean square distance",
        "The mean of the distances themselves is asked for",
    ),
    Slip(
        {LOOKED: "(patches * pixels).mean(dim=-1)"},
        "average over the keys",
        "The weights are the average already, so sum over the last dimension",
    ),
    Slip(
        {END: "return looked.sum(dim=-1).mean(dim=0)"},
        "add up the distances of all query patches",
        "Take their mean",
    ),
    Slip(
        {
            NORM: "patches = patches / patches.sum(dim=(-1, -2), keepdim=True)",
            END: ("return looked.sum(dim=-1).mean(dim=0)"),
        },
        "divide by the sum of all rows together",
        (
            "Each row is made to sum to 1 by itself, sum(dim=-1, keepdim=True), and at the end"
            " the mean of the rows is taken, not their sum"
        ),
    ),
    Slip(
        {
            PIXELS: f"torch.cat([({PIXELS})[:1], {PIXELS}])",
            PATCHES: "weights[..., 1:]",
        },
        "let the class token ask, too, as if it lay at the first patch",
        "It has no place in the picture, so its row is left out: weights[..., 1:, 1:]",
    ),
    Slip(
        {LOOKED: "pixels[torch.arange(len(pixels)), patches.argmax(dim=-1)]"},
        "take the distance to the patch with the largest weight alone",
        "It is averaged with all weights of the row",
    ),
    Slip(
        {END: "return looked.mean(dim=-1)"},
        "leave out the mean over the pictures",
        "One number for each layer and head is asked for",
    ),
)

EXERCISE = Exercise(
    answer=my_attention_distance,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "First a table of distances: how many pixels lie between patch i and patch j? Each"
            " patch has a row and a column (torch.cartesian_prod gives them all), and torch.cdist"
            " measures from each place to each other."
        ),
        (
            "Drop row 0 and column 0, divide each row by its sum, multiply with the table, sum over"
            " the last dimension: one distance for each query patch. Then the mean over pictures"
            " and query patches."
        ),
    ),
    same=(
        {
            "cartesian_prod(number, number).float()": (
                "cartesian_prod(number, number).float() * patch_size"
            ),
            PIXELS: "(place[:, None] - place).pow(2).sum(dim=-1).sqrt()",
        },
        {NORM: "", LOOKED: "(patches * pixels).sum(dim=-1) / patches.sum(dim=-1)"},
        {
            LOOKED: 'torch.einsum("nlhij,ij->nlhi", patches, pixels)',
            END: "return looked.mean(dim=-1).mean(dim=0)",
        },
    ),
    tolerance=1e-5,
)
