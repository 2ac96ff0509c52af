"""Exercise: small digits from another source, brought into MNIST's form."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checking import Exercise, Mistake, Slip


def my_enlarge(images, size):
    """(n, 8, 8), 0 to 16 -> (n, 1, 28, 28), uint8: the digit enlarged to size x size, in the
    middle, black around."""
    grey = images[:, None] / 16
    large = F.interpolate(grey, size=(size, size), mode="bicubic")
    large = (255 * large.clamp(0, 1)).round().to(torch.uint8)
    border = (28 - size) // 2
    return F.pad(large, (border, border, border, border))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    generator = torch.Generator().manual_seed(86)
    images = torch.randint(0, 17, (3, 8, 8), generator=generator).float()
    images[0, 2:6, 2:6] = (
        16.0  # beside such an edge bicubic interpolation goes above white, and below black
    )
    images[1, :, :4] = 0.0
    for size in (20, 24, 28, 8):
        found = answer(images.clone(), size)
        if (
            isinstance(found, Tensor)
            and found.shape == (3, 1, 28, 28)
            and found.dtype != torch.uint8
        ):
            raise Mistake(
                "MNIST's pixels are uint8, whole numbers from 0 to 255, and these are"
                f" {found.dtype}.",
                "clamp, round, and .to(torch.uint8) at the end.",
            )
        if isinstance(found, Tensor) and found.dtype == torch.uint8:
            found = found.float()
        yield f"pictures enlarged to {size}", found
    # 16 in place of 255 / 16 is a difference of one grey level, and so is a number that is not
    # rounded: less than another way to round
    for grey in (15, 1):
        found = answer(torch.full((1, 8, 8), float(grey)), 28)
        yield f"the grey of an even picture of {grey} of 16", int(found.max())


def notice(answer: Any) -> Mistake | None:
    """Where the digit lies, and what becomes of black and white."""
    white, half = answer(torch.full((1, 8, 8), 16.0), 20), answer(torch.full((1, 8, 8), 8.0), 20)
    if isinstance(white, Tensor) and white.shape == (1, 28, 28):
        return Mistake(
            "The axis of the one channel is missing.",
            "MNIST's pictures are (n, 1, 28, 28): unsqueeze(1), or [:, None].",
        )
    bright = (white.flatten(0, -3).amax(dim=0) > 127).nonzero()
    if white.shape[-2:] == (28, 28) and len(bright):
        (top, left), (bottom, right) = bright.amin(dim=0).tolist(), bright.amax(dim=0).tolist()
        if (top, left, bottom, right) != (4, 4, 23, 23):
            return Mistake(
                f"With size 20, a digit that is white everywhere fills rows {top} to {bottom} and"
                f" columns {left} to {right} in yours.",
                "In the middle of 28 it should fill rows and columns 4 to 23.",
            )
    if white.shape[-2:] != (28, 28) and len(bright):
        return _noticed_rows(white)
    if white.dim() == 4 and white.shape[1] != 1:
        return Mistake(
            f"Your pictures have {white.shape[1]} channels.",
            "MNIST's have one: (n, 1, 28, 28).",
        )
    for given, made, right, told in ((16, white, 255, "255"), (8, half, 127.5, "127 or 128")):
        found = float(made.flatten(0, -3)[0, 14, 14])
        if abs(found - right) > 1:
            return Mistake(
                f"In the middle of a digit that is {given} everywhere you get {found:g}.",
                f"It should be {told}, {given} / 16 of 255: 16 is white in every batch.",
            )
    return _noticed_swing(answer)


def _noticed_rows(white: Tensor) -> Mistake:
    """How many rows and columns of a white digit of size 20 are black or bright."""
    bright = (white.flatten(0, -3).amax(dim=0) > 127).nonzero()
    said = []
    for axis, (name, before, behind) in enumerate(
        (("rows", "above", "below"), ("columns", "on its left", "on its right"))
    ):
        length = white.shape[axis - 2]
        first, last = int(bright[:, axis].min()), int(bright[:, axis].max())
        said.append(
            f"{length} {name}: {first} black ones {before}, {last - first + 1} of the digit,"
            f" {length - 1 - last} {behind}"
        )
    return Mistake(
        f"With size 20, a digit that is white everywhere makes a picture of {'; '.join(said)}.",
        "It is 4, 20 and 4, in rows and in columns: 28 in all.",
    )


def _noticed_swing(answer: Any) -> Mistake | None:
    """What becomes of a curve that swings too far beside an edge."""
    digit = torch.zeros(1, 8, 8)
    digit[:, 2:6, 2:6] = 16
    made = answer(digit.clone(), 28).float().flatten(0, -3)[0]
    curve = 255 * F.interpolate(digit[:, None] / 16, size=(28, 28), mode="bicubic")[0, 0]
    if made.shape != curve.shape:
        return None
    begins_anew = (made - curve % 256).abs() <= 2
    told = []
    if bool(begins_anew[curve < -2].all()):
        told.append("below 0 are bright in yours")
    if bool(begins_anew[curve > 257].all()):
        told.append("above 255 are dark in yours")
    if not told:
        return None
    return Mistake(
        f"Beside an edge between black and white, bicubic numbers {', and those '.join(told)}.",
        "Beyond an end, uint8 begins anew at the other one: clamp at both before the change.",
    )


GREY, LARGE = (
    "grey = images[:, None] / 16",
    'large = F.interpolate(grey, size=(size, size), mode="bicubic")',
)
WHITE, PAD = (
    "(255 * large.clamp(0, 1)).round().to(torch.uint8)",
    "F.pad(large, (border, border, border, border))",
)

SLIPS = (
    Slip(
        {"large.clamp(0, 1)": "large"},
        "leave out the clamp, or clamp before the interpolation or after the change to uint8",
        (
            "Bicubic interpolation goes a little below black and above white, and uint8 turns −1"
            " into 255 and 256 into 0: clamp between the two"
        ),
    ),
    Slip(
        {"large.clamp(0, 1)": "large.abs().clamp(max=1)"},
        "take the absolute value of what is below 0",
        "Below black there is nothing: clamp makes it 0",
    ),
    *(
        Slip(
            {GREY: f"grey = (images[:, None].to(torch.uint8) * 255 {divide} 16) / 255"},
            "multiply by 255 in uint8, in which 16 · 255 is 240",
            "Begin with floats, images.float(): uint8 holds 0 to 255, and begins anew then",
        )
        for divide in ("/", "//")
    ),
    Slip(
        {
            "size=(size, size)": "scale_factor=size // 8",
            "border = (28 - size) // 2": "border = (28 - large.shape[-1]) // 2",
        },
        "enlarge by whole steps, size // 8 times",
        "The digit is to be size × size pixels large: size=(size, size) takes every size",
    ),
    Slip(
        {GREY: "grey = images[:, None] / 15"},
        "divide by 15",
        "The numbers go from 0 to 16, and 16 is white",
    ),
    Slip(
        {WHITE: "(16 * images.new_tensor(16) * large.clamp(0, 1)).round().to(torch.uint8)"},
        "multiply by 256 in all",
        "White becomes 256, which uint8 turns into 0. White is 255",
    ),
    Slip(
        {".round()": ""},
        "do not round: .to(torch.uint8) cuts off what is behind the point",
        "1 of 16 is 15.94, and 16 when it is rounded: .round() before .to(torch.uint8)",
    ),
    Slip({"255 * ": ""}, "leave out the factor 255", "MNIST's white is 255, and 1 is nearly black"),
    Slip(
        {
            "images[:, None] / 16": "images[:, None]",
            "(255 * large.clamp(0, 1))": "(16 * large).clamp(0, 255)",
        },
        "multiply by 16 and cut off what is above 255, or round up, as ceil() does",
        "16 means 255, so 15 means 15 · 255 / 16, which is 239.06, and 239 when it is rounded to"
        " the nearest whole number",
    ),
    Slip({"255 * ": "16 * "}, "keep the numbers from 0 to 16", "MNIST's white is 255"),
    Slip(
        {'mode="bicubic"': 'mode="bilinear"'}, "interpolate linearly", 'mode="bicubic" is asked for'
    ),
    Slip(
        {'mode="bicubic"': 'mode="nearest"'},
        'repeat pixels, as mode="nearest" does',
        'mode="bicubic" is asked for',
    ),
    Slip(
        {PAD: "F.pad(large, (0, 2 * border, 0, 2 * border))"},
        "put the digit into the upper left corner",
        "It belongs in the middle",
    ),
    Slip(
        {PAD: "F.pad(large, (4, 4, 4, 4))"},
        "put four pixels around it, whatever the size",
        "That makes 28 of a size of 20 only. In general (28 - size) // 2",
    ),
    Slip(
        {PAD: "F.pad(large, (border, border))"},
        "pad the columns alone",
        "F.pad takes left, right, top, bottom",
    ),
    Slip(
        {"255 * large": "255 - 255 * large"}, "turn black and white round", "Ink is bright in both"
    ),
    Slip(
        {GREY: "grey = images.transpose(1, 2)[:, None] / 16"},
        "exchange rows and columns",
        "The digit keeps its orientation, (n, height, width)",
    ),
    Slip({PAD: "large"}, "leave out the border", "The picture must be 28 × 28 whatever size is"),
    Slip(
        {PAD: "F.pad(large, (border, border, border, border))[:, 0]"},
        "leave out the channel",
        "(n, 1, 28, 28)",
    ),
    Slip(
        {GREY: "grey = images[:, None]"},
        "multiply by 255 and do not divide by 16",
        "16 is white, and becomes 255: times 255 / 16",
    ),
    Slip(
        {PAD: "F.pad(large, (border, border, border, border), value=255)"},
        "make the border white",
        "Ink is bright and the paper is black: 0",
    ),
    Slip(
        {"size=(size, size)": "size=(20, 20)", "border = (28 - size) // 2": "border = 4"},
        "enlarge to 20 pixels whatever size is",
        "The digit is to be size × size pixels large",
    ),
    Slip(
        {"size=(size, size)": "size=(28, 28)", PAD: "large"},
        "enlarge the digit to the whole picture",
        "The digit is to be size × size pixels large, with black around it",
    ),
    Slip(
        {'mode="bicubic"': 'mode="bicubic", align_corners=True'},
        "interpolate with align_corners=True",
        "Then the middles of the corner pixels stay in the corners. Leave that argument out",
    ),
    Slip(
        {GREY: "grey = images[:, None] / images.amax(dim=(1, 2))[:, None, None, None]"},
        "divide by the brightest pixel that occurs, in the digit or in the batch",
        "16 is white in all of them: divide by 16",
    ),
    Slip(
        {GREY: "grey = (images[:, None] * 255 / 16).to(torch.uint8)", WHITE: "large"},
        "change to uint8 before the interpolation",
        "Interpolate floats, and round at the end: clamp, round, to(torch.uint8)",
    ),
    Slip(
        {'mode="bicubic"': 'mode="bicubic", antialias=True'},
        "interpolate with antialias=True, as torchvision's resize does by itself",
        "Then another curve is drawn. Leave that argument out",
    ),
    Slip(
        {GREY: "grey = images / 16"},
        "leave out the axis for the channel",
        "F.interpolate wants (n, channels, height, width): images[:, None]",
    ),
)

EXERCISE = Exercise(
    answer=my_enlarge,
    compare=compare,
    stars=2,
    many=True,
    tolerance=0.005,  # of 255: rounded otherwise, a pixel differs by 1
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Three things differ: how many pixels, where white lies (16 or 255), and what is around"
            " the digit. F.interpolate wants (n, channels, h, w). What does interpolation do beside"
            " a sharp edge?"
        ),
        (
            'images[:, None] / 16, F.interpolate(…, size=(size, size), mode="bicubic"), clamp(0,'
            " 1), times 255, round, to(torch.uint8), and F.pad with (28 - size) // 2 on all four"
            " sides."
        ),
    ),
    same=(
        {
            GREY: "grey = images.unsqueeze(1) * 255 / 16",
            WHITE: "large.clamp(0, 255).round().to(torch.uint8)",
        },
        {
            PAD: (
                "torch.zeros(len(images), 1, 28, 28,"
                " dtype=torch.uint8).index_put_((torch.arange(len(images))[:, None, None],"
                " torch.zeros(1, 1, 1, dtype=torch.int64), torch.arange(border, border + size)[:,"
                " None], torch.arange(border, border + size)[None]), large[:, 0])"
            )
        },
    ),
)
