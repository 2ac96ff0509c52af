"""Figures of notebook 08: an answer and its cell, the confusion matrix, rates, mistakes, intervals, a drawn digit."""

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from torch import Tensor

from ..drawing import BLUE, GREEN, ORANGE, RED, SKY, figure, picture


def one_answer(image: Tensor, probabilities: Tensor, label: int, classes: Sequence[str]) -> Figure:
    """A picture, uint8 (1, h, w), the probability of each class, and the cell of the matrix in which it is counted."""
    drawn, (left, middle, right) = figure(1, 3, width=10.5, height=3.4)
    named = int(probabilities.argmax())
    picture(left, image, f"the truth: {classes[label]}")
    bars = middle.bar(range(len(classes)), probabilities.tolist(), color=SKY)
    bars[named].set(facecolor=ORANGE, edgecolor="white", hatch="//")
    middle.set_xticks(range(len(classes)), classes)
    middle.set_ylim(0, 1.1)
    middle.set_ylabel("probability")
    middle.set_title(f"the prediction: {classes[named]}, the largest of {len(classes)}")
    cells = torch.zeros(len(classes), len(classes))
    _cells(right, cells, classes)
    for line in range(len(classes) + 1):
        right.axhline(line - 0.5, color="0.8", lw=0.7)
        right.axvline(line - 0.5, color="0.8", lw=0.7)
    right.add_patch(Rectangle((named - 0.5, label - 0.5), 1, 1, facecolor=ORANGE, edgecolor="black", zorder=3))
    right.text(named, label, "+1", ha="center", va="center", fontsize=8, zorder=4)
    right.set_title("counted here")
    return drawn


def confusion(matrix: Tensor, classes: Sequence[str], title: str = "") -> Figure:
    """A confusion matrix, (k, k), rows the truth: numbers in the cells, colours on a log scale, empty cells white."""
    drawn, (axes,) = figure(width=7.4, height=6.2)
    shown = _cells(axes, matrix, classes, size=10)
    bar = drawn.colorbar(shown, ax=axes, shrink=0.8, label="images (log scale)")
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if tick <= matrix.max()]
    bar.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    bar.minorticks_off()
    axes.set_title(title)
    return drawn


def rates(recall: Tensor, precision: Tensor, classes: Sequence[str]) -> Figure:
    """Recall and precision of each class, as bars that hang from 100 %: as long as what is missing."""
    drawn, axes = figure(1, 2, width=12, height=3.4)
    lowest = 100 * min(float(recall.nan_to_num(1).min()), float(precision.nan_to_num(1).min()))
    for part, values, name, note, colour in (
        (axes[0], recall, "recall", "row: of the true ones, read right", BLUE),
        (axes[1], precision, "precision", "column: of those called so, called right", ORANGE),
    ):
        percent = 100 * values.double()
        part.bar(range(len(classes)), percent - 100, bottom=100, color=colour, width=0.6)
        for place, value in enumerate(percent.tolist()):
            part.text(place, value - 0.03 * (101 - lowest), f"{value:.1f}", ha="center", va="top", fontsize=9)
        part.axhline(100, color="black", lw=1)
        part.set_ylim(lowest - 0.2 * (101 - lowest), 100.05)
        part.set_xticks(range(len(classes)), classes)
        part.set_ylabel(f"{name} in %")
        part.set_xlabel("digit")
        part.set_title(f"{name} ({note})", fontsize=10)
        part.spines["bottom"].set_visible(False)
    return drawn


def mistakes(images: Tensor, labels: Tensor, probabilities: Tensor, classes: Sequence[str]) -> Figure:
    """Pictures, uint8 (n, 1, h, w), under each the probabilities of what it was taken for and of the truth."""
    columns = 6
    rows = math.ceil(len(images) / columns)
    drawn, panels = figure(2 * rows, columns, width=11, height=2.75 * rows)
    for axes in panels:
        axes.set_axis_off()
    grid = panels[0].get_gridspec()
    grid.set_height_ratios([3.2, 1] * rows)
    for number, (image, label, values) in enumerate(zip(images, labels.tolist(), probabilities, strict=True)):
        row, column = divmod(number, columns)
        top, below = panels[2 * row * columns + column], panels[(2 * row + 1) * columns + column]
        named = int(values.argmax())
        picture(top, image, f"{classes[label]} read as {classes[named]}")
        below.set_xlim(0, 1.75)
        below.set_ylim(1.6, -0.6)
        for line, (chosen, colour, hatch) in enumerate(((named, RED, "//"), (label, BLUE, ""))):
            below.barh(line, 1, left=0.25, height=0.75, color="0.93")
            length = float(values[chosen])
            below.barh(line, length, left=0.25, height=0.75, color=colour, hatch=hatch, edgecolor="white")
            below.text(0.15, line, classes[chosen], ha="center", va="center", fontsize=9)
            below.text(1.32, line, f"{values[chosen]:.3f}", va="center", fontsize=9)
    return drawn


def intervals(rows: dict[str, tuple[float, float, float]], title: str = "") -> Figure:
    """Shares with their intervals, (share, low, high) by name, one below the other."""
    drawn, (axes,) = figure(width=9, height=0.55 + 0.42 * len(rows))
    for place, (share, low, high) in enumerate(rows.values()):
        colour, mark = ((BLUE, "o"), (ORANGE, "s"))[place % 2]
        axes.plot([100 * low, 100 * high], [place, place], color=colour, lw=4, alpha=0.5, solid_capstyle="butt")
        axes.plot(100 * share, place, mark, color=colour, ms=7)
        axes.text(100 * high + 0.02, place, f"{low:.2%} to {high:.2%}", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    low, high = min(row[1] for row in rows.values()), max(row[2] for row in rows.values())
    axes.set_xlim(100 * low - 0.05, 100 * high + 0.35 * 100 * (high - low))
    axes.set_xlabel("accuracy in %")
    axes.set_title(title)
    return drawn


def coin(b: int, c: int, names: tuple[str, str]) -> Figure:
    """How often a fair coin, tossed b + c times, shows each number of heads; what happened, and all that is as rare."""
    n = b + c
    chances = [math.comb(n, k) / 2**n for k in range(n + 1)]
    drawn, (axes,) = figure(width=9, height=3)
    for far, colour, hatch, label in (
        (False, SKY, "", "nearer to half"),
        (True, RED, "//", f"as uneven as {b} to {c}, or more"),
    ):
        places = [k for k in range(n + 1) if (abs(2 * k - n) >= abs(b - c)) == far]
        axes.bar(places, [chances[k] for k in places], color=colour, hatch=hatch, edgecolor="white", label=label)
    axes.annotate(f"what happened: {b}", (b, chances[b]), (b, 0.62 * max(chances)), arrowprops={"arrowstyle": "->"})
    axes.set_xlim(max(0, n / 2 - 2.5 * math.sqrt(n)) - 0.5, min(n, n / 2 + 2.5 * math.sqrt(n)) + 0.5)
    axes.set_xlabel(
        f"of {n} images that only one model reads right, those that {names[0]} reads (the rest: {names[1]})"
    )
    axes.set_ylabel("chance, with a fair coin")
    axes.legend(frameon=False, loc="upper left")
    return drawn


def softmaxes(rows: dict[str, Tensor], classes: Sequence[str]) -> Figure:
    """The probabilities of one image in several versions, (k,) each by name."""
    drawn, axes = figure(1, len(rows), width=3.6 * len(rows), height=2.9)
    for part, (name, values), colour in zip(axes, rows.items(), (BLUE, ORANGE, GREEN), strict=False):
        part.bar(range(len(classes)), values.tolist(), color=colour)
        part.set_xticks(range(len(classes)), classes)
        part.set_ylim(0, 1.1)
        part.set_title(f"{name}\nsum {float(values.sum()):.2f}", fontsize=10)
    axes[0].set_ylabel("“probability”")
    return drawn


def trio(matrices: Tensor, classes: Sequence[str]) -> Figure:
    """Three confusion matrices, (3, k, k), with the sum of each row at its right."""
    drawn, axes = figure(1, len(matrices), width=13.5, height=4.9)
    for number, (part, matrix) in enumerate(zip(axes, matrices, strict=True)):
        _cells(part, matrix, classes, size=8)
        part.set_title(f"matrix {number}")
        for row, total in enumerate(matrix.sum(dim=1).tolist()):
            part.text(len(classes) - 0.35, row, f"Σ {total}", va="center", fontsize=8)
    return drawn


def steps(pictures: dict[str, Tensor]) -> Figure:
    """Pictures, (1, h, w), by name, from left to right; values from 0, black, to the largest, white."""
    drawn, axes = figure(1, len(pictures), width=2.45 * len(pictures), height=2.9)
    for part, (name, image) in zip(axes, pictures.items(), strict=True):
        high = 255 if image.dtype == torch.uint8 else 1
        part.imshow(image[0], cmap="gray", vmin=0, vmax=high, interpolation="nearest")
        part.set_title(f"{name}\n{image.shape[2]} × {image.shape[1]}", fontsize=10)
        part.set_xticks([])
        part.set_yticks([])
        for spine in part.spines.values():
            spine.set_visible(True)
    return drawn


def _cells(axes: Axes, matrix: Tensor, classes: Sequence[str], size: int = 9) -> AxesImage:
    """The cells of a confusion matrix with their numbers and named axes; a log scale shows the few beside the many."""
    most = max(2.0, float(matrix.max()))
    values = matrix.double().where(matrix > 0, torch.nan)
    shown = axes.imshow(values, cmap="YlGnBu", norm=LogNorm(0.5, most), interpolation="nearest")
    for row, counts in enumerate(matrix.tolist()):
        for column, count in enumerate(counts):
            if count > 0:
                dark = math.log(count / 0.5) > 0.55 * math.log(most / 0.5)
                colour = "white" if dark else "black"
                axes.text(column, row, f"{count:.0f}", ha="center", va="center", fontsize=size, color=colour)
    axes.set_xticks(range(len(classes)), classes)
    axes.set_yticks(range(len(classes)), classes)
    axes.set_xlabel("prediction")
    axes.set_ylabel("truth")
    for spine in axes.spines.values():
        spine.set_visible(True)
    return shown
