"""Figures of notebook 07: one step, curves, a weight and its average, singular values, runs that
are ill."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from ..drawing import BLACK, BLUE, GREEN, ORANGE, RED, SKY, YELLOW, figure

Row = dict[str, Any]


def one_step(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """What happens in one step of training, as a ring of boxes; sizes are read off as the step is
    run.

    The model's parameters stay as they are; their gradients are put back to None.
    """
    logits = model(images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    numbers = sum(parameter.numel() for parameter in model.parameters())
    slopes = sum(
        parameter.grad.numel() for parameter in model.parameters() if parameter.grad is not None
    )
    model.zero_grad()
    places = [  # (column, row, name, what is written under it, colour)
        (0, 1, "batch", str(tuple(images.shape)), SKY),
        (1, 1, "model", f"{numbers:,} parameters", ORANGE),
        (2, 1, "logits", str(tuple(logits.shape)), SKY),
        (3, 1, "loss", "1 number" if loss.dim() == 0 else str(tuple(loss.shape)), YELLOW),
        (3, 0, "gradients", f"{slopes:,} numbers", GREEN),
        (2, 0, "optimizer", "one step", GREEN),
        (1, 0, "new parameters", f"{numbers:,}", ORANGE),
        (0, 0, "average", f"{numbers:,}", SKY),
    ]
    _, (axes,) = figure(width=9.5, height=3.4)
    for column, row, name, note, colour in places:
        x, y = 2.3 * column, 1.5 * row
        axes.add_patch(
            FancyBboxPatch(
                (x, y), 1.4, 0.55, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45
            )
        )
        axes.text(x + 0.7, y + 0.275, name, ha="center", va="center")
        axes.text(x + 0.7, y - 0.26, note, ha="center", va="center", fontsize=9, family="monospace")
    for (column, row, *_), (to, to_row, *_) in pairwise(places):
        if row == to_row:
            side = 1 if to > column else -1
            start, end = 2.3 * column + 0.7 + 0.8 * side, 2.3 * to + 0.7 - 0.8 * side
            _arrow(axes, (start, 1.5 * row + 0.275), (end, 1.5 * row + 0.275))
        else:  # from the loss down
            _arrow(axes, (2.3 * column + 0.7, 1.1), (2.3 * column + 0.7, 0.65))
    _arrow(axes, (3.0, 0.65), (3.0, 1.1))  # and the new parameters are those of the model
    axes.text(7.75, 0.9, "backward()", fontsize=9, ha="left", va="center")
    axes.text(3.1, 0.9, "next batch", fontsize=9, ha="left", va="center")
    axes.set_xlim(-0.2, 9.1)
    axes.set_ylim(-0.5, 2.2)
    axes.set_axis_off()


def curves(runs: dict[str, Sequence[Row]]) -> None:
    """Loss and mistakes by epoch; dotted on the training digits as they pass, solid on other
    digits.

    Pale thin lines: the runs are made anew on every machine and come out a little different.
    """
    _, (losses, mistakes) = figure(1, 2, width=10, height=3.3)
    for (name, history), colour in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        epoch = [row["epoch"] for row in history]
        losses.plot(epoch, [row["loss"] for row in history], ":", color=colour, lw=1.2, alpha=0.8)
        losses.plot(
            epoch, [row["validation_loss"] for row in history], color=colour, lw=1.2, alpha=0.8
        )
        wrong = [100 * (1 - row["validation_accuracy"]) for row in history]
        mistakes.plot(epoch, wrong, color=colour, label=name, lw=1.2, alpha=0.8)
    losses.set(title="loss in nats", ylim=(0, 2.5))
    losses.plot([], [], ":", color=BLACK, label="training digits")
    losses.plot([], [], "-", color=BLACK, label="other digits")
    mistakes.set(title="other digits: mistakes in percent, log scale", yscale="log", ylim=(1, 100))
    mistakes.set_yticks([1, 2, 5, 10, 20, 50, 100], labels=["1", "2", "5", "10", "20", "50", "100"])
    mistakes.minorticks_off()
    for axes in (losses, mistakes):
        axes.set_xlim(0.8, max(len(history) for history in runs.values()) + 0.2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.grid(color="0.92")
        axes.legend(frameon=False)


def followed(weight: Sequence[float], average: Sequence[float]) -> None:
    """One weight after each step, and its average."""
    _, (axes,) = figure(width=8, height=2.8)
    axes.plot(weight, color=SKY, lw=1.2, label="the weight")
    axes.plot(average, color=RED, lw=1.6, label="its average")
    axes.set(xlabel="step", ylabel="value")
    axes.legend(frameon=False)


def singular_values(values: dict[str, Tensor]) -> None:
    """Singular values by name, largest first, each set drawn as shares of its largest, on a log
    scale."""
    _, (axes,) = figure(width=8, height=3.2)
    for (name, sizes), colour, mark in zip(
        values.items(), (BLACK, SKY, BLUE, ORANGE), "ovsD", strict=True
    ):
        shares = (sizes / sizes.max()).tolist()
        axes.plot(range(1, len(shares) + 1), shares, mark, color=colour, ms=3.5, label=name)
    axes.set(
        xlabel="direction, the strongest first",
        ylabel="size (strongest = 1)",
        yscale="log",
        ylim=(1e-4, 1.5),
    )
    axes.grid(color="0.92")
    axes.legend(frameon=False)


def shares(values: Sequence[float], warmup: int) -> None:
    """The share of the largest learning rate at each step, with the end of the warm-up marked."""
    _, (axes,) = figure(width=7, height=2.8)
    axes.plot(range(len(values)), values, "o-", color=BLUE, markersize=4)
    axes.axvline(warmup - 0.5, color=RED, linestyle="--")
    axes.text(warmup - 0.1, 0.06, "end of the warm-up", color=RED)
    axes.set(xlabel="step", ylabel="share of the largest", ylim=(0, 1.05))


def unnamed(runs: dict[str, Sequence[Row]]) -> None:
    """Loss and accuracy of small runs, one column each; the dots are measurements on digits not
    trained on.

    Args:
        runs: for each letter the rows of its epochs: loss and accuracy on the training digits, and
            ``measured``, the accuracies that were measured one after the other.
    """
    drawn, axes = figure(2, len(runs), width=2.5 * len(runs), height=5.4)
    for column, (name, rows) in enumerate(runs.items()):
        above, below = axes[column], axes[column + len(runs)]
        epoch = range(1, len(rows) + 1)
        above.plot(epoch, [row["loss"] for row in rows], color=BLUE, linewidth=1.1, alpha=0.8)
        chance = above.axhline(
            torch.tensor(10.0).log().item(), color=BLACK, linestyle=":", linewidth=0.8
        )
        above.set(title=name, ylim=(0, 3))
        (line,) = below.plot(
            epoch, [100 * row["accuracy"] for row in rows], color=BLUE, linewidth=1.1, alpha=0.8
        )
        for mark in range(len(rows[0]["measured"])):
            dots = [100 * row["measured"][mark] for row in rows]
            (dot,) = below.plot(epoch, dots, ".", color=ORANGE, markersize=4, alpha=0.6)
        below.set(xlabel="epoch", ylim=(0, 100))
        for part in (above, below):
            part.set_xlim(0, len(rows) + 1)
            part.grid(color="0.92")
            if column:
                part.set_yticklabels([])
    axes[0].set_ylabel("training loss")
    axes[len(runs)].set_ylabel("accuracy in percent")
    names = {
        line: "training digits",
        dot: "other digits, measured three times",
        chance: "loss of a guess, ln 10",
    }
    drawn.legend(
        list(names), list(names.values()), loc="outside lower center", ncols=3, frameon=False
    )


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->"})
