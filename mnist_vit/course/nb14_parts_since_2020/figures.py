"""Figures of notebook 14: lengths of tokens, scores by place, digits on a canvas, ten seeds."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from ..drawing import BLACK, BLUE, GREEN, ORANGE, SKY, figure, heat, picture


def norm_maps(image: Tensor, maps: dict[str, Tensor]) -> Figure:
    """A digit and, for each model, the norms of its patches over their median, on one scale.

    Args:
        image: uint8, (1, h, w).
        maps: by name, (n_h, n_w).
    """
    drawn, axes = figure(1, 1 + len(maps), width=2.5 * (1 + len(maps)) + 0.6, height=2.6)
    picture(axes[0], image, "the picture")
    highest = max(values.max().item() for values in maps.values())
    for here, (name, values) in zip(axes[1:], maps.items(), strict=True):
        heat(here, values, f"{name}\nlongest: {values.max():.1f} × median", 0, highest)
    drawn.colorbar(axes[-1].images[0], ax=axes[1:], label="norm / median", shrink=0.8)
    return drawn


def score_maps(maps: dict[str, Tensor]) -> Figure:
    """Scores of one query with the same key at every place; a name and (n_h, n_w) each."""
    drawn, axes = figure(1, len(maps), width=2.6 * len(maps) + 0.6, height=2.7)
    low = min(values.min().item() for values in maps.values())
    high = max(values.max().item() for values in maps.values())
    for here, (name, values) in zip(axes, maps.items(), strict=True):
        heat(here, values, name, low, high)
    drawn.colorbar(axes[-1].images[0], ax=axes, label="score", shrink=0.8)
    return drawn


def canvases(images: dict[str, Tensor], patch: int) -> Figure:
    """The same digit in several sizes, each pixel as large as in the others, with its patches.

    Args:
        images: by name, (h, w).
        patch: width of a patch, in pixels.
    """
    largest = max(image.shape[-1] for image in images.values())
    drawn, axes = figure(1, len(images), width=2.4 * len(images), height=2.6)
    for here, (name, image) in zip(axes, images.items(), strict=True):
        picture(here, image, name)
        side = image.shape[-1]
        for line in range(0, side + 1, patch):
            here.plot([-0.5, side - 0.5], [line - 0.5, line - 0.5], color=SKY, lw=0.6)
            here.plot([line - 0.5, line - 0.5], [-0.5, side - 0.5], color=SKY, lw=0.6)
        here.set_xlim(-1, largest)
        here.set_ylim(largest, -1)
    return drawn


def seeds(groups: dict[str, dict[str, Sequence[float]]]) -> Figure:
    """Accuracies of all seeds: a panel for each group, a row for each way, a bar at its mean.

    Args:
        groups: by panel, then by row, accuracies in percent; all panels have one scale.
    """
    tallest = max(map(len, groups.values()))
    drawn, axes = figure(len(groups), 1, width=8, height=0.45 * tallest * len(groups) + 1.2)
    for here, (name, rows) in zip(axes, groups.items(), strict=True):
        for place, (row, runs) in enumerate(rows.items()):
            colour = GREEN if row.startswith("rotary") else BLUE
            if row.startswith("registers"):
                colour = ORANGE
            here.plot(runs, [place] * len(runs), "o", color=colour, ms=5, alpha=0.6, mew=0)
            mean = sum(runs) / len(runs)
            here.plot([mean, mean], [place - 0.3, place + 0.3], color=BLACK, lw=1.5)
        here.set_yticks(range(len(rows)), list(rows))
        here.set_ylim(len(rows) - 0.5, -0.5)
        here.set_xlim(0, 101)
        here.set_title(name, loc="left", fontsize=10)
        here.grid(axis="x", color="0.9")
        here.set_axisbelow(True)
    axes[-1].set_xlabel("accuracy in %")
    return drawn
