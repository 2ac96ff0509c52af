"""What models that were trained on blurred images predict for sharp, shifted and blurred ones.

    python -m experiments blurred all --store     # writes notebooks/results/blurred.json
    git archive 00abdd6 weights | tar -x -C runs  # first: the old weights of vit_cifar10

Until commit 00abdd6, augmentation resampled bilinearly, with black outside. vit_mnist and
vit_cifar10 as they were then are given the 5,000 validation images as they are; shifted right and
down by 0.1 to 1 pixel; and changed in ways that vary blur and border one at a time. Every predicted
class is stored. Needs MNIST and CIFAR-10 (MNIST_VIT_DATA, or data/). The test images are not used.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.augmentation import resample, sampling_grid
from mnist_vit.data import ImageData, load_data
from mnist_vit.fast import speed_up
from mnist_vit.weights import load_model
from tools import ROOT

FILE = ROOT / "notebooks" / "results" / "blurred.json"
NAMES = ["vit_mnist", "vit_cifar10"]
OLD = Path("runs/weights/vit_cifar10.pth")
TENTHS = [number / 10 for number in range(1, 11)]
Change = Callable[[Tensor], Tensor]


def run(name: str, weights: Path = OLD) -> dict[str, Any]:
    """Predict with one model; ``weights`` are the old ones of vit_cifar10.

    Those of vit_mnist are shipped as vit_mnist_blurred.
    """
    if name == "vit_mnist":
        model = load_model("vit_mnist_blurred")
        data = load_data("mnist", "validation")
    else:
        model = load_model(weights)
        data = load_data("cifar10", "validation")
    fast = speed_up(model).eval()
    images = data.images.float() / 255
    found = {}
    for told, change in changes().items():
        classes = predicted(fast, data, change(images))
        errors = int((classes != data.labels).sum())
        found[told] = {"errors": errors, "predictions": as_digits(classes)}
    return {"images": len(data), "labels": as_digits(data.labels), "changes": found}


@torch.no_grad()
def predicted(model: nn.Module, data: ImageData, images: Tensor) -> Tensor:
    """The predicted classes, (n,), of images from 0 to 1."""
    batches = data.normalise(images.clone()).split(250)
    return torch.cat([model(batch).argmax(dim=1) for batch in batches])


def as_digits(classes: Tensor) -> str:
    """Classes from 0 to 9 as a string with one digit each."""
    return "".join(map(str, classes.tolist()))


# ---- changed images ----


def changes() -> dict[str, Change]:
    """What is done to the images, by name."""
    found: dict[str, Change] = {"as they are": torch.clone}
    for pixels in TENTHS:
        change = partial(shifted, pixels=pixels, kernel="bilinear", border="zeros")
        found[f"shift {pixels:g}, bilinear, black border"] = change
    for kernel, border, told in (
        ("bilinear", "border", "bilinear, edge border"),
        ("bicubic", "zeros", "bicubic, black border"),
        ("bicubic", "border", "bicubic, edge border"),
    ):
        found[f"shift 0.3, {told}"] = partial(shifted, pixels=0.3, kernel=kernel, border=border)
    found["shift 1, sharp, edge border"] = partial(
        shifted, pixels=1, kernel="nearest", border="border"
    )
    found["blurred in place as by a shift of 0.3, edge border"] = blurred
    found["black frame of 1 pixel, else sharp"] = framed
    return found


def shifted(images: Tensor, pixels: float, kernel: str, border: str) -> Tensor:
    """Images shifted to the right and down."""
    height, width = images.shape[2:]
    grid = sampling_grid(images, torch.Generator())
    offset = torch.tensor([2 * pixels / width, 2 * pixels / height])
    return resample(images, grid - offset, kernel, border)


def blurred(images: Tensor, shift: float = 0.3) -> Tensor:
    """Images blurred in place as much as a bilinear shift along both axes blurs them.

    The shift averages two neighbours with the weights 1 - shift and shift. Three neighbours with
    the weights v / 2, 1 - v and v / 2, where v = shift (1 - shift), have the same variance.
    """
    variance = shift * (1 - shift)
    row = torch.tensor([variance / 2, 1 - variance, variance / 2])
    channels = images.shape[1]
    kernel = torch.outer(row, row).expand(channels, 1, 3, 3)
    return F.conv2d(F.pad(images, (1, 1, 1, 1), "replicate"), kernel, groups=channels)


def framed(images: Tensor) -> Tensor:
    """Images with a black frame of one pixel."""
    changed = torch.zeros_like(images)
    changed[..., 1:-1, 1:-1] = images[..., 1:-1, 1:-1]
    return changed
