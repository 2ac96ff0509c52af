"""Figures of notebook 08: confusion matrix, mistakes, reliability, intervals, false alarms, digits
of other sources."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image, ImageDraw
from torch import Tensor

from mnist_vit.evaluation import wilson_interval

from ..drawing import BLUE, ORANGE, RED, SKY, figure, picture


def confusion(matrix: Tensor, classes: Sequence[str], title: str = "") -> Figure:
    """A confusion matrix, (k, k), rows the truth: numbers in the cells, colours on a log scale,
    empty cells white."""
    drawn, (axes,) = figure(width=7.4, height=6.2)
    shown = _cells(axes, matrix, classes, size=10)
    bar = drawn.colorbar(shown, ax=axes, shrink=0.8, label="images (log scale)")
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if tick <= matrix.max()]
    bar.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    bar.minorticks_off()
    axes.set_title(title)
    return drawn


def mistakes(
    images: Tensor, labels: Tensor, probabilities: Tensor, classes: Sequence[str]
) -> Figure:
    """Pictures, uint8 (n, 1, h, w), under each the probabilities of what it was taken for and of
    the truth."""
    columns = 6
    rows = math.ceil(len(images) / columns)
    drawn, panels = figure(2 * rows, columns, width=11, height=2.75 * rows)
    for axes in panels:
        axes.set_axis_off()
    grid = panels[0].get_gridspec()
    grid.set_height_ratios([3.2, 1] * rows)
    for number, (image, label, values) in enumerate(
        zip(images, labels.tolist(), probabilities, strict=True)
    ):
        row, column = divmod(number, columns)
        top, below = panels[2 * row * columns + column], panels[(2 * row + 1) * columns + column]
        named = int(values.argmax())
        picture(top, image, f"a {classes[label]}, taken for {classes[named]}")
        below.set_xlim(0, 1.75)
        below.set_ylim(1.6, -0.6)
        for line, (chosen, colour, hatch) in enumerate(((named, RED, "//"), (label, BLUE, ""))):
            below.barh(line, 1, left=0.25, height=0.75, color="0.93")
            length = float(values[chosen])
            below.barh(
                line, length, left=0.25, height=0.75, color=colour, hatch=hatch, edgecolor="white"
            )
            below.text(0.15, line, classes[chosen], ha="center", va="center", fontsize=9)
            below.text(1.32, line, f"{values[chosen]:.3f}", va="center", fontsize=9)
    return drawn


def intervals(rows: dict[str, tuple[float, float, float]], title: str = "") -> Figure:
    """Shares with their intervals, (share, low, high) by name, one below the other."""
    drawn, (axes,) = figure(width=9, height=0.55 + 0.42 * len(rows))
    for place, (share, low, high) in enumerate(rows.values()):
        colour, mark = ((BLUE, "o"), (ORANGE, "s"))[place % 2]
        axes.plot(
            [100 * low, 100 * high],
            [place, place],
            color=colour,
            lw=4,
            alpha=0.5,
            solid_capstyle="butt",
        )
        axes.plot(100 * share, place, mark, color=colour, ms=7)
        axes.text(100 * high + 0.02, place, f"{low:.2%} to {high:.2%}", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    low, high = min(row[1] for row in rows.values()), max(row[2] for row in rows.values())
    axes.set_xlim(100 * low - 0.05, 100 * high + 0.35 * 100 * (high - low))
    axes.set_xlabel("accuracy in %")
    axes.set_title(title)
    return drawn


def reliability(bins: Sequence[tuple[int, float, float]]) -> Figure:
    """Share right against mean confidence, (answers, confidence, share) a bin; bars are 95 %
    intervals."""
    drawn, (axes,) = figure(width=5.6, height=4.4)
    axes.plot([0, 100], [0, 100], color="0.6", lw=1, ls="--", label="an honest model")
    filled = [one for one in bins if one[0]]
    for number, confidence, right in filled:
        low, high = wilson_interval(round(number * right), number)
        axes.plot(
            [100 * confidence] * 2, [100 * low, 100 * high], color=SKY, lw=4, solid_capstyle="butt"
        )
    axes.plot(
        [100 * one[1] for one in filled],
        [100 * one[2] for one in filled],
        "o",
        color=BLUE,
        label="the course's weights",
    )
    for number, confidence, right in filled:
        axes.annotate(
            f"{number:,}",
            (100 * confidence, 100 * right),
            (6, -10),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set(xlabel="mean confidence in %", ylabel="right in %", xlim=(30, 104), ylim=(0, 104))
    axes.set_title("how many answers stands beside each dot", fontsize=10)
    axes.legend(frameon=False, loc="lower right")
    return drawn


def false_alarms(tosses: Sequence[int], alarms: dict[str, Sequence[float]]) -> Figure:
    """How often a rule calls a fair coin unfair, in percent, by the number of tosses."""
    drawn, (axes,) = figure(width=8.5, height=3)
    for (name, percent), colour, mark in zip(alarms.items(), (ORANGE, BLUE), "so", strict=True):
        axes.plot(tosses, percent, mark, ls="-", color=colour, ms=3, lw=0.8, label=name)
    axes.axhline(5, color="black", lw=0.8, ls="--")
    axes.set(
        xlabel="images on which exactly one model is right",
        ylabel="false alarms in %",
        ylim=(0, 14),
    )
    axes.legend(frameon=False)
    return drawn


def sizes(sets: dict[str, Tensor], mnist: Tensor) -> Figure:
    """A digit of MNIST, (1, 1, 28, 28), and the same digit of another source in several sizes, (n,
    1, 28, 28)."""
    drawn, axes = figure(1, len(sets) + 1, width=2.3 * (len(sets) + 1), height=2.6)
    picture(axes[0], mnist[0], "MNIST")
    for part, (name, images) in zip(axes[1:], sets.items(), strict=True):
        picture(part, images[5], name)
    return drawn


def photo() -> Image.Image:
    """A drawn "photo" of a 5: grey paper, darker at the top, and a thick dark stroke; 900 x 700
    pixels."""
    stroke = [
        (735, 95),
        (545, 110),
        (515, 265),
        (560, 243),
        (610, 235),
        (665, 250),
        (710, 285),
        (735, 345),
    ]
    stroke += [(728, 400), (700, 445), (655, 478), (605, 490), (550, 480), (500, 455)]
    paper = Image.linear_gradient("L").resize((900, 700)).point(lambda grey: 185 + grey // 5)
    draw = ImageDraw.Draw(paper)
    draw.line(stroke, fill=45, width=36, joint="curve")
    for x, y in (stroke[0], stroke[-1]):  # round ends
        draw.ellipse((x - 18, y - 18, x + 18, y + 18), fill=45)
    return paper


def steps(pictures: dict[str, Image.Image | Tensor]) -> Figure:
    """Grey pictures by name, from 0, black, to 255, white, from left to right."""
    drawn, axes = figure(1, len(pictures), width=2.7 * len(pictures), height=2.8)
    for part, (name, image) in zip(axes, pictures.items(), strict=True):
        grey = np.asarray(image).squeeze()
        part.imshow(grey, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        part.set_title(f"{name}\n{grey.shape[1]} × {grey.shape[0]}", fontsize=10)
        part.set_xticks([])
        part.set_yticks([])
        for spine in part.spines.values():
            spine.set_visible(True)
    return drawn


def _cells(axes: Axes, matrix: Tensor, classes: Sequence[str], size: int = 9) -> AxesImage:
    """The cells of a confusion matrix with their numbers and named axes; a log scale shows the few
    beside the many."""
    most = max(2.0, float(matrix.max()))
    values = matrix.double().where(matrix > 0, torch.nan)
    shown = axes.imshow(values, cmap="YlGnBu", norm=LogNorm(0.5, most), interpolation="nearest")
    for row, counts in enumerate(matrix.tolist()):
        for column, count in enumerate(counts):
            if count > 0:
                dark = math.log(count / 0.5) > 0.55 * math.log(most / 0.5)
                colour = "white" if dark else "black"
                axes.text(
                    column,
                    row,
                    f"{count:.0f}",
                    ha="center",
                    va="center",
                    fontsize=size,
                    color=colour,
                )
    axes.set_xticks(range(len(classes)), classes)
    axes.set_yticks(range(len(classes)), classes)
    axes.set_xlabel("prediction")
    axes.set_ylabel("truth")
    for spine in axes.spines.values():
        spine.set_visible(True)
    return shown
