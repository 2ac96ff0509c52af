"""Figures of notebook 13: hidden patches, pictures that grow, accuracy against labels."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, figure, picture

MARKS = "osD^vXP"
COLOURS = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK)


def masked(images: Tensor, order: Tensor, keep: int, whole: bool = False) -> Figure:
    """Pictures whose hidden patches are covered, and, if asked for, the whole ones below them.

    Args:
        images: uint8 or 0 to 1, (n, c, h, w).
        order: of the patches, (n, num_patches), the visible ones first.
        keep: number of visible patches.
        whole: whether the whole pictures are shown, too.
    """
    n = len(images)
    rows = ["visible", "the whole"] if whole else ["visible"]
    drawn, axes = figure(len(rows), n, width=1.1 * n + 0.8, height=1.15 * len(rows) + 0.1)
    for row, name in enumerate(rows):
        for column, image in enumerate(images):
            here = axes[row * n + column]
            picture(here, image)
            if row == 0:
                _cover(here, image.shape[-1], order[column, keep:].tolist(), order.shape[1])
        _name_row(axes[row * n], name)
    return drawn


def _name_row(first: Axes, name: str) -> None:
    """Write a name to the left of a row's first picture."""
    first.text(-0.15, 0.5, name, transform=first.transAxes, ha="right", va="center", fontsize=10)


def _cover(axes: Axes, size: int, hidden: Sequence[int], num_patches: int) -> None:
    grid = round(num_patches**0.5)
    patch = size // grid
    for place in hidden:
        corner = (place % grid * patch - 0.5, place // grid * patch - 0.5)
        axes.add_patch(Rectangle(corner, patch, patch, facecolor=SKY, linewidth=0))


def growing(
    images: Tensor, order: Tensor, keep: int, rows: dict[str, Tensor], title: str = ""
) -> Figure:
    """What is shown, the predictions in rows below it, and the whole pictures at the bottom.

    Args:
        images: 0 to 1, (n, c, h, w).
        order: of the patches, (n, num_patches), the visible ones first.
        keep: number of visible patches.
        rows: by name, pictures from 0 to 1, (n, c, h, w).
        title: of the figure.
    """
    n = len(images)
    every = {"shown": images, **rows, "the whole": images}
    drawn, axes = figure(len(every), n, width=1.1 * n + 1.2, height=1.12 * len(every) + 0.3)
    for row, (name, some) in enumerate(every.items()):
        for column, image in enumerate(some):
            here = axes[row * n + column]
            picture(here, image)
            if row == 0:
                _cover(here, image.shape[-1], order[column, keep:].tolist(), order.shape[1])
        _name_row(axes[row * n], name)
    drawn.suptitle(title)
    return drawn


def against_labels(rows: dict[str, dict[int, tuple[float, float]]], top: float | None) -> Figure:
    """Accuracy against the number of labels, a line for each row, with 95 % intervals.

    Args:
        rows: by name and number of labels: mean and half of the interval, in percent.
        top: accuracy with all labels, a dashed line.
    """
    drawn, (axes,) = figure(width=7, height=3.6)
    for number, (name, found) in enumerate(rows.items()):
        shift = 1.03 ** (number - len(rows) / 2)  # so that intervals do not cover each other
        counts = [count * shift for count in found]
        means = [mean for mean, _ in found.values()]
        halves = [half for _, half in found.values()]
        axes.errorbar(
            counts,
            means,
            yerr=halves,
            color=COLOURS[number],
            marker=MARKS[number],
            capsize=3,
            label=name,
        )
    if top is not None:
        axes.axhline(top, color=BLACK, linestyle="--", linewidth=1, label="all labels")
    counts = list(next(iter(rows.values())))
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("labelled pictures")
    axes.set_ylabel("accuracy in %")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn
