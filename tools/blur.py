"""Draw docs/blur.png: a digit and a photograph, shifted by the old and the new augmentation.

The photograph needs CIFAR-10 (MNIST_VIT_DATA, or data/).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from mnist_vit.augmentation import resample, sampling_grid
from mnist_vit.data import load_data, load_embedded

from . import ROOT

TARGET = ROOT / "docs" / "blur.png"
SHIFT = 0.3  # pixels, to the right and down
DIGIT = 1500  # positions in the data sets
PHOTOGRAPH = 3
KINDS = {
    "as it is": None,
    f"{SHIFT} pixel, bilinear, black outside (before)": ("bilinear", "zeros"),
    f"{SHIFT} pixel, bicubic, mirrored (now)": ("bicubic", "reflection"),
}


def draw(target: Path = TARGET) -> None:
    """Draw each image whole, and a part of it, as it is and shifted."""
    digit = load_embedded().images[DIGIT : DIGIT + 1].float() / 255
    photograph = load_data("cifar10", "validation").images[PHOTOGRAPH : PHOTOGRAPH + 1]
    parts = [(digit, slice(8, 20)), (photograph.float() / 255, slice(0, 12))]
    figure, axes = plt.subplots(4, 3, figsize=(9, 12), layout="constrained")
    for column, (title, how) in enumerate(KINDS.items()):
        axes[0, column].set_title(title.replace(", ", "\n", 1), fontsize=10)
        for number, (image, part) in enumerate(parts):
            pixels = shifted(image, how)[0].permute(1, 2, 0).squeeze(-1)
            show(axes[2 * number, column], pixels)
            show(axes[2 * number + 1, column], pixels[part, part])
    for number, (_, part) in enumerate(parts):
        axes[2 * number + 1, 0].set_ylabel(f"pixels {part.start} to {part.stop - 1} of it")
    figure.savefig(target, dpi=80)


def shifted(image: Tensor, how: tuple[str, str] | None) -> Tensor:
    """The image, resampled with a kernel and a border; None leaves it as it is."""
    if how is None:
        return image
    grid = sampling_grid(image, torch.Generator())
    return resample(image, grid - 2 * SHIFT / image.shape[-1], *how)


def show(axis: Axes, pixels: Tensor) -> None:
    """Draw pixels from 0 to 1 without ticks."""
    axis.imshow(pixels, cmap="gray", vmin=0, vmax=1)
    axis.set_xticks([])
    axis.set_yticks([])


def main(words: list[str]) -> None:
    """Draw the picture."""
    draw()
