"""Figures of notebook 10: hidden patches, maps for and against a class, and their contests."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mnist_vit.hiding import interval

from ..drawing import BLUE, GREEN, ORANGE, PINK, SKY, figure, picture

Intervals = dict[str, tuple[float, float]]  # by name: a mean, and half of its 95 % interval


def hidden_patches(image: Tensor, hidden: dict[str, Tensor]) -> Figure:
    """A digit several times, with hatched squares on the patches that each map hides.

    Args:
        image: uint8, (1, h, w).
        hidden: by name, (patches,) of booleans.
    """
    drawn, axes = figure(1, len(hidden), width=2 * len(hidden), height=2.3)
    for here, (name, mask) in zip(axes, hidden.items(), strict=True):
        _hatch(here, image, mask)
        here.set_title(name)
    return drawn


def _hatch(axes: Axes, image: Tensor, mask: Tensor) -> None:
    grid = round(len(mask) ** 0.5)
    patch = image.shape[-1] // grid
    picture(axes, image)
    for place in mask.nonzero().flatten().tolist():
        corner = (place % grid * patch - 0.5, place // grid * patch - 0.5)
        axes.add_patch(
            Rectangle(
                corner, patch, patch, facecolor=SKY, edgecolor=BLUE, hatch="///", linewidth=0.8
            )
        )


def signed_maps(images: Tensor, maps: dict[str, Tensor]) -> Figure:
    """Pictures and maps of them: red above zero, blue below; each map has a scale of its own.

    Args:
        images: uint8, (n, c, h, w).
        maps: by name, (n, n_h, n_w).
    """
    rows, across = len(images), 1 + len(maps)
    drawn, axes = figure(rows, across, width=2.5 * across, height=2.3 * rows + 0.2)
    for row in range(rows):
        picture(axes[row * across], images[row], "the picture" if row == 0 else "")
        for column, (name, values) in enumerate(maps.items()):
            here = axes[row * across + column + 1]
            _signed(here, values[row], images[row])
            here.set_title(name if row == 0 else "")
    return drawn


def _signed(axes: Axes, values: Tensor, image: Tensor) -> None:
    """A map from blue to red, with the outlines of a digit, and its scale."""
    most = float(values.abs().max())
    drawn = axes.imshow(values.tolist(), cmap="RdBu_r", vmin=-most, vmax=most)
    axes.set_xticks([])
    axes.set_yticks([])
    grid, size = values.shape[-1], image.shape[-1]
    if len(image) == 1:
        middle = (torch.arange(size) + 0.5) * grid / size - 0.5
        axes.contour(middle, middle, image[0].float(), levels=[110], colors="black", linewidths=0.9)
    bar = axes.figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.03)
    bar.ax.tick_params(labelsize=8)
    bar.ax.locator_params(nbins=4)
    bar.outline.set_visible(False)


def two_contests(
    one: dict[str, Tensor], other: dict[str, Tensor], names: tuple[str, str]
) -> Figure:
    """Two bars with 95 % intervals for each map of ``other``, one for each way of hiding.

    Args:
        one, other: by map, what is left of the right digit, (n,).
        names: of the two ways.
    """
    drawn, (axes,) = figure(width=8, height=0.5 + 0.42 * len(other))
    for shift, colour, name, found in ((-0.2, BLUE, names[0], one), (0.2, ORANGE, names[1], other)):
        for number, rule in enumerate(other):
            mean, half = map(float, interval(found[rule]))
            label = name if number == 0 else None
            axes.barh(number + shift, mean, height=0.38, xerr=half, color=colour, label=label)
    axes.set_yticks(range(len(other)), list(other))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("left of the right digit")
    axes.legend(frameon=False)
    return drawn


def restored(shares: dict[str, Intervals]) -> Figure:
    """How much of the right answer comes back with a part of the clean run, a panel for each model.

    Args:
        shares: by model and by part.
    """
    names = list(next(iter(shares.values())))
    width, height = 4.2 * len(shares), 0.8 + 0.3 * len(names)
    drawn, axes = figure(1, len(shares), width=width, height=height)
    colours = [BLUE, BLUE, GREEN, GREEN, ORANGE, ORANGE, PINK, PINK]
    for number, (here, (model, found)) in enumerate(zip(axes, shares.items(), strict=True)):
        means = [mean for mean, _ in found.values()]
        halves = [half for _, half in found.values()]
        here.barh(range(len(found)), means, xerr=halves, color=colours)
        here.set_yticks(range(len(found)), names if number == 0 else [""] * len(names))
        here.invert_yaxis()
        here.set_xlim(-0.1, 1.05)
        here.axvline(0, color="black", linewidth=0.8)
        here.set_title(model)
        here.set_xlabel("share restored")
    return drawn


def without_them(images: Tensor, hidden: Tensor, titles: list[str]) -> Figure:
    """Pictures above, the same with their hidden patches below.

    Args:
        images: uint8, (n, 1, h, w).
        hidden: booleans, (n, patches).
        titles: of each picture, and then of each without its patches.
    """
    n = len(images)
    drawn, axes = figure(2, n, width=1.7 * n, height=4.2)
    for number, (image, mask) in enumerate(zip(images, hidden, strict=True)):
        picture(axes[number], image, titles[number])
        _hatch(axes[n + number], image, mask)
        axes[n + number].set_title(titles[n + number])
    return drawn
