"""Exercise: three changes of images, each with one of the effects of a shift by part of a pixel."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

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


OUTERMOST = 28  # pixels at the border of a picture (7, 9)
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
            raise Mistake(
                f"a dict is needed, and this is {describe(made)}.",
                'Return {"blur": …, "shift": …, "border": …}.',
            )
        if missing := [name for name in NAMES if name not in made]:
            raise Mistake(f'the dict has no entry "{missing[0]}".')
        for name in NAMES:
            yield (
                f"{name}, {channels} channel{'s' * (channels > 1)}, {height} by {width} pixels",
                made[name],
            )
        yield "whether images are as they were", bool(torch.equal(images, before))


def notice(answer: Any) -> Mistake | None:
    """What each control makes of an even picture, and of a single bright pixel."""
    even, point = torch.full((1, 1, 7, 9), 0.5), torch.zeros(1, 1, 7, 9)
    point[..., 3, 4] = 1
    flat, made = answer(even.clone()), answer(point.clone())
    if seen := _noticed_alike(made):
        return seen
    green = torch.zeros(1, 3, 7, 9)
    green[:, 1] = 0.5
    for name, one in answer(green.clone()).items():
        if one.shape == green.shape and bool(one[:, 0].any()):
            return Mistake(
                f'Your "{name}" of a picture that is green and nothing else has red in it.',
                "Each channel must be changed by itself, in a convolution with"
                " groups=images.shape[1].",
            )
    if seen := _noticed_blur(flat, made) or _noticed_shift(answer, flat, made):
        return seen
    if not torch.allclose(made["border"][..., 1:-1, 1:-1], point[..., 1:-1, 1:-1], atol=1e-5):
        return Mistake(
            "Of a picture with a single bright pixel at row 3, column 4 your border control"
            " makes another picture inside.",
            "All but the outermost rows and columns should be as it was in images.",
        )
    inside = flat["border"][..., 1:-1, 1:-1]
    if not torch.allclose(inside, even[..., 1:-1, 1:-1]):
        return Mistake(
            "Your border control changes pixels that are not in the outermost rows and columns.",
            "All but those must stay as it was.",
        )
    border = flat["border"][0, 0].clone()
    border[1:-1, 1:-1] = 0
    left = int((border != 0).sum())
    corners = border[[0, 0, -1, -1], [0, -1, 0, -1]]
    zeros = OUTERMOST - left
    if zeros and zeros == int((corners == 0).sum()):
        return Mistake(
            f"Of the {OUTERMOST} outermost pixels of a picture (7, 9) your border control sets"
            f" {zeros} to 0, none but in the corners.",
            "Two lists as indices, x[..., [0, -1], [0, -1]], choose pairs, (0, 0) and (-1, -1), and"
            " no whole row or column. One axis after the other: x[..., [0, -1], :] and"
            " x[..., [0, -1]].",
        )
    if left:
        sides = {
            "the first row": border[0],
            "the last row": border[-1],
            "the first column": border[:, 0],
            "the last column": border[:, -1],
        }
        told = ", ".join(name for name, side in sides.items() if bool(side[1:-1].all()))
        return Mistake(
            "Your border control leaves some of the outermost pixels other than 0"
            f"{f', all of these: {told}' if told else ''}.",
            "The first and the last row and the first and the last column must become 0.",
        )
    return None


def _noticed_alike(made: dict) -> Mistake | None:
    """Whether two of the controls are one tensor."""
    for one, other in itertools.combinations(NAMES, 2):
        if made[one].shape == made[other].shape and made[one].data_ptr() == made[other].data_ptr():
            return Mistake(
                f'Your "{one}" and your "{other}" are one tensor: what is written into it stands in'
                " both.",
                "Each control needs a tensor of its own: clone() makes a copy.",
            )
    return None


def _noticed_blur(flat: dict, made: dict) -> Mistake | None:
    for name in NAMES:
        shape = tuple(flat[name].shape)
        if shape != (1, 1, 7, 9):
            more = ""
            if len(shape) == 4 and (shape[2] < 7 or shape[3] < 9):
                more = " What a convolution or a slice takes away must be put around first."
            elif len(shape) == 4:
                more = " What is put around a picture must go again, at all four sides."
            return Mistake(
                f'Of pictures (1, 1, 7, 9) your "{name}" makes {shape}.',
                f"Each must be as large as images.{more}",
            )
    inside, spot = flat["blur"][0, 0, 1:-1, 1:-1], made["blur"][0, 0, 2:5, 3:6]
    if abs(float(inside[2, 3]) - 0.5) > 1e-5:
        return Mistake(
            f"Your blur makes {float(inside[2, 3]):.4g} of a picture that is 0.5 everywhere: its"
            f" weights sum to {2 * float(inside[2, 3]):.4g}.",
            "Blur along one axis, 0.79 + 0.105 + 0.105, and blur the result along the other: then"
            " the weights sum to 1.",
        )
    if not torch.allclose(flat["blur"], torch.full_like(flat["blur"], 0.5), atol=1e-5):
        off = (flat["blur"][0, 0] - 0.5).abs()
        down, right = divmod(int(off.argmax()), 9)
        edge = float(flat["blur"][0, 0, down, right])
        return Mistake(
            f"Of a picture (7, 9) that is 0.5 everywhere your blur makes {edge:.4g} at row {down},"
            f" column {right}.",
            "What lies outside of the picture must be its outermost pixels, repeated, as"
            ' F.pad(…, mode="replicate") does.',
        )
    row = torch.tensor([0.105, 0.79, 0.105])
    if moved := _moved_blur(made["blur"][0, 0], torch.outer(row, row)):
        return moved
    if not torch.allclose(spot, torch.outer(row, row).to(spot), atol=1e-5):
        numbers = "; ".join(", ".join(f"{value:.4g}" for value in line) for line in spot.tolist())
        return Mistake(
            f"Around a single bright pixel your blur gives {numbers}.{_shape_of(spot)}"
            f"{_trail(made['blur'][0, 0])}",
            "Blur along one axis, 0.105, 0.79, 0.105, then blur the result along the other: 0.79 ·"
            " 0.79 in the middle, 0.105 · 0.79 beside it, 0.105 · 0.105 in the corners.",
        )
    return None


def _shape_of(spot: Tensor) -> str:
    """What is seen in the nine numbers that a blur makes of one bright pixel."""
    if torch.allclose(spot, spot[0, 0].expand_as(spot), atol=1e-5):
        return " All nine pixels have the same weight."
    for line, axis in ((spot[1], "row"), (spot[:, 1], "column")):
        if abs(float(line.sum() - spot.sum())) < 1e-5:
            return f" Only the pixels of its {axis} get something: one axis is not blurred."
    if not torch.allclose(spot, spot.flip(0, 1), atol=1e-5):
        return " The two sides differ."
    if not spot[::2, ::2].any():
        return " The four corners get nothing."
    return ""


def _trail(blurred: Tensor) -> str:
    """Whether a bright pixel at row 3, column 4 is seen further off than in its neighbours."""
    around = blurred.clone()
    around[2:5, 3:6] = 0
    if not bool((around.abs() > 1e-6).any()):
        return ""
    return (
        " Pixels further off get something, too. Are pixels read that were blurred already, as in a"
        " loop that writes into the picture that it reads?"
    )


def _moved_blur(blurred: Tensor, kernel: Tensor) -> Mistake | None:
    """Whether a bright pixel at row 3, column 4 is blurred as it should be, but elsewhere."""
    right = torch.zeros(7, 9)
    right[2:5, 3:6] = kernel
    for down, across in itertools.product((-1, 0, 1), repeat=2):
        is_moved = (down, across) != (0, 0)
        if is_moved and torch.allclose(blurred, right.roll((down, across), (0, 1)), atol=1e-5):
            return Mistake(
                "A single bright pixel at row 3, column 4 is blurred as it should be, but around"
                f" row {3 + down}, column {4 + across}: your blur moves the picture.",
                "A blur moves nothing: each pixel gets something of both its neighbours.",
            )
    return None


def _noticed_edge(shifted: Tensor, given: Tensor) -> Mistake | None:
    """Whether the first row or column of a shifted picture is where it was."""
    stays = []
    if torch.allclose(shifted[0, 1:], given[0, 1:]):
        stays.append("row 0")
    if torch.allclose(shifted[1:, 0], given[1:, 0]):
        stays.append("column 0")
    if not stays:
        return None
    return Mistake(
        f"In your shift {' and '.join(stays)} of the picture {'is' if len(stays) == 1 else 'are'}"
        " as before: only what lies inside moves.",
        "What comes in is the outermost row and column once more, moved as well: row 0 should be"
        " row 0 of the picture, one pixel to the right, and column 0 its column 0, one pixel down.",
    )


def _noticed_shift(answer: Any, flat: dict, made: dict) -> Mistake | None:
    bright = (made["shift"][0, 0].abs() > 1e-5).nonzero().tolist()
    if len(bright) == 1:
        row, column = bright[0]
        if (row, column) != (4, 5):
            moved = f"moves a pixel from row 3, column 4 to row {row}, column {column}"
            stays = "leaves the pixel in row 3, column 4 where it is"
            return Mistake(
                f"Your shift {stays if (row, column) == (3, 4) else moved}.",
                "One to the right and one down is row 4, column 5.",
            )
        if abs(float(made["shift"].sum()) - 1) > 1e-4:
            return Mistake(
                "Of a picture with a single bright pixel, 1, your shift makes"
                f" {float(made['shift'].sum()):.4g} of it.",
                "It should be 1 again, at row 4, column 5: nothing is blurred.",
            )
    else:
        many = f"{len(bright)} pixels that are not 0" if bright else "0 everywhere"
        return Mistake(
            f"Of a picture with a single bright pixel, 1 at row 3, column 4, your shift makes"
            f" {many}.",
            "It should be one pixel again, 1 at row 4, column 5: each pixel is that of the picture"
            " as it came in, one row higher and one column to the left.",
        )
    sloping = torch.arange(63.0).reshape(1, 1, 7, 9) / 63
    if seen := _noticed_edge(answer(sloping.clone())["shift"][0, 0], sloping[0, 0]):
        return seen
    if not torch.allclose(flat["shift"], torch.full_like(flat["shift"], 0.5)):
        off = (flat["shift"][0, 0] - 0.5).abs() > 1e-6
        down, right = off.nonzero()[0].tolist()
        count = int(off.sum())
        places = f"row {down}, column {right}"
        if count > 1:
            places = f"{count} places, the first of them {places}"
        return Mistake(
            "Your shift changes a picture (7, 9) that is 0.5 everywhere: what comes in is"
            f" {float(flat['shift'][0, 0, down, right]):.4g} at {places}.",
            "Let the outermost row and column come in once more, and with them the pixel in their"
            " corner.",
        )
    return None


PAD, ROW = (
    'F.pad(images, (1, 1, 1, 1), mode="replicate")',
    "torch.tensor([0.105, 0.79, 0.105], dtype=images.dtype)",
)
SHIFT, BORDER = "shift = wide[..., :-2, :-2]", "border = torch.zeros_like(images)"

SLIPS = (
    Slip(
        {PAD: "F.pad(images, (1, 1, 1, 1))"},
        "let black come in when you blur and when you shift",
        (
            "That brings in a border, and each control changes one thing. Repeat the outermost"
            ' pixels first: F.pad(images, (1, 1, 1, 1), mode="replicate")'
        ),
    ),
    Slip(
        {"F.conv2d(wide,": "F.conv2d(F.pad(images, (1, 1, 1, 1)),"},
        "let black come in when you blur",
        (
            "That brings in a border. Repeat the outermost pixels first: F.pad(images, (1, 1, 1,"
            ' 1), mode="replicate"), and no padding in the convolution'
        ),
    ),
    Slip(
        {"wide[..., :-2, :-2]": "F.pad(images, (1, 0, 1, 0))[..., :-1, :-1]"},
        "let black come in when you shift",
        "That brings in a border. The outermost row and column come in once more",
    ),
    Slip(
        {PAD: 'F.pad(images, (1, 1, 1, 1), mode="reflect")'},
        "mirror the image at its border",
        'Repeat the outermost pixels: mode="replicate"',
    ),
    Slip(
        {"F.conv2d(wide,": 'F.conv2d(F.pad(images, (1, 1, 1, 1), mode="reflect"),'},
        "mirror the image at its border when you blur",
        'Repeat the outermost pixels: mode="replicate"',
    ),
    Slip(
        {"wide[..., :-2, :-2]": 'F.pad(images, (1, 0, 1, 0), mode="reflect")[..., :-1, :-1]'},
        "mirror the image at its border when you shift",
        "The outermost row and column come in once more",
    ),
    Slip(
        {"F.conv2d(wide,": 'F.conv2d(F.pad(images, (1, 1, 1, 1), mode="circular"),'},
        "let the pixels of one side count as neighbours of the other when you blur",
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
        {".expand(images.shape[1], 1, 3, 3)": ""},
        "give the convolution a kernel of two axes",
        "It wants (channels, 1, 3, 3): kernel.expand(images.shape[1], 1, 3, 3)",
    ),
    Slip(
        {PAD: 'F.pad(images, (1, 1), mode="replicate")'},
        "pad two of the four sides",
        "F.pad takes left, right, top, bottom: (1, 1, 1, 1)",
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
    notice=notice,
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
