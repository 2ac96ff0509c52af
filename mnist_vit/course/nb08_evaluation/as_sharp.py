"""Exercise: a test of augmentation: are the changed images as sharp as the others?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...augmentation import resample, sampling_grid
from ..checking import Exercise, Mistake, Slip, random


def my_as_sharp(changed, images):
    # two batches, (n, c, h, w), 0 to 1 -> whether changed has 3/4 to 5/4 of the detail of images
    def detail(batch):
        inside = batch[..., 4:-4, 4:-4]
        across, down = inside.diff(dim=-1), inside.diff(dim=-2)
        return across.square().mean() + down.square().mean()

    share = detail(changed) / detail(images)
    return bool(0.75 < share < 1.25)


def moved(images: Tensor, pixels: float) -> Tensor:
    """Images shifted by a bilinear kernel, with black outside."""
    offset = torch.tensor([2 * pixels / images.shape[3], 2 * pixels / images.shape[2]])
    grid = sampling_grid(images, torch.Generator())
    return resample(images, grid - offset.to(images), "bilinear", "zeros")


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    images = random(40, 1, 20, 22).sigmoid()
    columns, rows = random(40, 1, 1, 22, seed=1), random(40, 1, 20, 1, seed=2)
    ramp = torch.linspace(-20, 20, 22)
    framed = images.clone()
    framed[..., :3, :] = framed[..., -3:, :] = framed[..., :3] = framed[..., -3:] = 0
    cases = {
        "the images themselves": (images, images),
        "a shift by whole pixels": (images.roll((1, 2), dims=(2, 3)), images),
        "a shift by half a pixel, which blurs": (moved(images, 0.5), images),
        "a black frame of three pixels, else as sharp": (framed, images),
        "a tenth of the detail along the columns": (columns + 0.1 * rows, columns + rows),
        "a tenth of the detail along the rows": (0.1 * columns + rows, columns + rows),
        "a bright side and a dark side, and a third of the noise": (
            ramp + images,
            ramp + 3 * images,
        ),
        "0.78 of the detail": (0.78**0.5 * images, images),
        "1.3 times the detail": (1.3**0.5 * images, images),
        "0.8 of the contrast, which leaves 0.64 of the detail": (0.8 * images, images),
        "0.9 of the contrast, which leaves 0.81 of the detail": (0.9 * images, images),
        "half as much contrast again": (1.5 * images, images),
        "a tenth more contrast": (1.1 * images, images),
    }
    found = []
    for what, (changed, others) in cases.items():
        verdict = answer(changed.clone(), others.clone())
        if verdict is None:
            yield "the verdict", None
            return
        if isinstance(verdict, Tensor) and verdict.numel() == 1:
            verdict = bool(verdict)
        if not isinstance(verdict, bool):
            raise Mistake(f"True or False is needed, and this is {type(verdict).__name__}.")
        found.append(f"{what}: {verdict}")
    yield "the verdicts", found


INSIDE = "inside = batch[..., 4:-4, 4:-4]"
SUM = "across.square().mean() + down.square().mean()"
RANGE = "0.75 < share < 1.25"

SLIPS = (
    Slip(
        {INSIDE: "inside = batch"},
        "take the border in",
        "A black frame is an edge, and edges are detail. Leave out four pixels on each side",
    ),
    Slip(
        {SUM: "across.square().mean()"},
        "look at neighbours in a row only",
        "Differences of neighbours in a column count, too",
    ),
    Slip(
        {SUM: "down.square().mean()"},
        "look at neighbours in a column only",
        "Differences of neighbours in a row count, too",
    ),
    Slip(
        {SUM: "across.abs().mean() + down.abs().mean()"},
        "take absolute differences",
        "Square them: the limits are meant for squares",
    ),
    Slip(
        {SUM: "inside.var()"},
        "measure contrast, the spread of all pixels",
        "A blurred picture can have as much of it. Take differences of neighbours",
    ),
    Slip(
        {RANGE: "share > 0.75"},
        "have a lower limit only",
        "Images that are sharper than those that are evaluated are a mismatch, too",
    ),
    Slip(
        {"detail(changed) / detail(images)": "detail(images) / detail(changed)"},
        "divide the other way round",
        "The share is that of the changed images, divided by that of the others",
    ),
)

EXERCISE = Exercise(
    answer=my_as_sharp,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "tensor.diff(dim=-1) gives the differences of neighbours in a row.",
        (
            "A function of one batch: cut four pixels from each side; the mean of the squared"
            " differences along dim -1, plus that along dim -2. Then the quotient of the two"
            " batches, between 0.75 and 1.25."
        ),
    ),
    same=({SUM: "(across**2).mean() + (down**2).mean()"},),
)
