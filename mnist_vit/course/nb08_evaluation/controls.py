"""Exercise: three changes of images, each with one of the effects of a shift by part of a pixel."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from ..checking import Exercise, Mistake, Slip, describe, random


def my_controls(images):
    # (n, c, h, w), 0 to 1 -> {"blur": …, "shift": …, "border": …}, each as large as images
    wide = F.pad(images, (1, 1, 1, 1), mode="replicate")
    row = torch.tensor([0.105, 0.79, 0.105], dtype=images.dtype)
    kernel = torch.outer(row, row).expand(images.shape[1], 1, 3, 3)
    blur = F.conv2d(wide, kernel, groups=images.shape[1])
    shift = wide[..., :-2, :-2]
    border = torch.zeros_like(images)
    border[..., 1:-1, 1:-1] = images[..., 1:-1, 1:-1]
    return {"blur": blur, "shift": shift, "border": border}


NAMES = ("blur", "shift", "border")


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for channels, height, width in ((1, 5, 6), (3, 6, 4)):
        images = random(2, channels, height, width).sigmoid()
        before = images.clone()
        made = answer(images)
        if made is None:
            yield "the dict", None
            return
        if not isinstance(made, dict):
            raise Mistake(f"a dict is needed, and this is {describe(made)}.")
        if missing := [name for name in NAMES if name not in made]:
            raise Mistake(f'the dict has no entry "{missing[0]}".')
        for name in NAMES:
            yield f"{name}, {channels} channels, {height} by {width} pixels", made[name]
        yield "whether images are as they were", bool(torch.equal(images, before))


PAD, ROW = (
    'F.pad(images, (1, 1, 1, 1), mode="replicate")',
    "torch.tensor([0.105, 0.79, 0.105], dtype=images.dtype)",
)
SHIFT, BORDER = "shift = wide[..., :-2, :-2]", "border = torch.zeros_like(images)"

SLIPS = (
    Slip(
        {PAD: "F.pad(images, (1, 1, 1, 1))"},
        "put black around the image before you blur and shift it",
        "That brings in a border, and each control changes one thing. Repeat the outermost pixels:"
        ' mode="replicate"',
    ),
    Slip(
        {PAD: 'F.pad(images, (1, 1, 1, 1), mode="reflect")'},
        "mirror the image at its border",
        'Repeat the outermost pixels: mode="replicate"',
    ),
    Slip(
        {ROW: "torch.tensor([0.21, 0.58, 0.21], dtype=images.dtype)"},
        "give each neighbour the weight 0.21",
        "Both together have 0.21, so each has 0.105",
    ),
    Slip(
        {ROW: "torch.tensor([0.3, 0.7, 0.0], dtype=images.dtype)"},
        "blur by a shift of 0.3 pixels",
        "Then the image is blurred and moved. The two neighbours have the same weight",
    ),
    Slip(
        {"torch.outer(row, row)": "torch.diag(row)"},
        "blur along a diagonal",
        "Blur along the rows, and then along the columns: the nine weights are products",
    ),
    Slip(
        {SHIFT: "shift = wide[..., 2:, 2:]"},
        "shift to the left and up",
        "The image moves to the right and down",
    ),
    Slip(
        {SHIFT: "shift = images.roll((1, 1), dims=(-2, -1))"},
        "let what leaves on one side come in on the other",
        "What comes in is the outermost row or column once more",
    ),
    Slip(
        {SHIFT: "shift = wide[..., 1:-1, :-2]"},
        "shift to the right only",
        "It moves by a pixel along both axes",
    ),
    Slip(
        {BORDER: "border = images.clone()"},
        "leave the border as it is",
        "The outermost rows and columns become 0",
    ),
)

EXERCISE = Exercise(
    answer=my_controls,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        (
            "Begin with the image made larger by one pixel on each side, with its outermost pixels"
            ' repeated: F.pad(…, mode="replicate"). The shift is a slice of it. Which?'
        ),
        (
            "The blur: nine weights, torch.outer(row, row) with row = [0.105, 0.79, 0.105], and"
            " F.conv2d on the larger image, each channel by itself (groups=). Or add up slices of"
            " the larger image, first along one axis, then along the other. The border: zeros, into"
            " which you copy the image without its outermost pixels."
        ),
    ),
    same=(
        {
            "torch.outer(row, row)": "(row[:, None] * row)",
            BORDER: "border = 0 * images",
        },
    ),
    tolerance=1e-5,
)
