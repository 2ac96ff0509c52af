"""Figures of notebook 09: attention maps over a digit. Every map has a scale; what is compared
shares one."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, figure, heat, picture

COLOURS = (BLUE, ORANGE, GREEN, PINK)  # layer 0, 1, 2, 3
EDGE = [withStroke(linewidth=3.5, foreground="black")]


def row_to_map(image: Tensor, weights: Tensor) -> Figure:
    """From the digit to the weights of one head, and from the class token's row to a map.

    Args:
        image: uint8, (1, h, w).
        weights: (seq_length, seq_length).
    """
    grid = round((len(weights) - 1) ** 0.5)
    drawn, (digit, matrix, row_map) = figure(1, 3, width=11, height=3.5)
    picture(digit, image, f"the digit, {grid} × {grid} patches")
    for place in range(image.shape[-1] // grid, image.shape[-1], image.shape[-1] // grid):
        digit.axhline(place - 0.5, color=SKY, linewidth=0.4)
        digit.axvline(place - 0.5, color=SKY, linewidth=0.4)
    heat(matrix, weights, f"weights of one head, {len(weights)} × {len(weights)}")
    # So that small ones can be seen too.
    matrix.images[0].set_norm(PowerNorm(0.5, 0, float(weights.max())))
    scale(matrix)
    matrix.set_ylabel("query: who looks")
    matrix.set_xlabel("key: what is looked at")
    matrix.add_patch(
        Rectangle(
            (-2, -2),
            len(weights) + 3,
            5,
            fill=False,
            edgecolor=RED,
            linewidth=2.5,
            clip_on=False,
            zorder=5,
        )
    )
    heat(row_map, weights[0, 1:].unflatten(0, (grid, grid)), "the class token's map", 0)
    over(row_map, image, grid)
    scale(row_map)
    link = ConnectionPatch(
        (len(weights), -2),
        (grid * 0.2, -0.5),
        "data",
        "data",
        axesA=matrix,
        axesB=row_map,
        arrowstyle="->",
        color=RED,
        linewidth=1.5,
        mutation_scale=14,
        shrinkA=0,
        shrinkB=0,
        connectionstyle="arc3,rad=-0.35",
    )
    link.set_annotation_clip(False)  # both ends lie outside their axes
    drawn.add_artist(link)
    return drawn


def layers_and_heads(images: Tensor, maps: Tensor) -> Figure:
    """The class token's map of every layer and head over each digit; the heads of a layer share one
    scale.

    Args:
        images: uint8, (n, 1, h, w).
        maps: (n, num_layers, num_heads, n_h, n_w).
    """
    n, layers, heads, grid, _ = maps.shape
    across = 1 + layers * heads
    drawn, axes = figure(n, across, width=2.2 * across + 0.8, height=2.1 * n + 0.2)
    for i in range(n):
        row = axes[i * across : (i + 1) * across]
        picture(row[0], images[i], "the digit" if i == 0 else "")
        for layer in range(layers):
            here = row[1 + layer * heads : 1 + (layer + 1) * heads]
            for head, one in enumerate(here):
                title = f"layer {layer}, head {head}" if i == 0 else ""
                heat(one, maps[i, layer, head], title, 0, float(maps[i, layer].max()))
                over(one, images[i], grid)
            scale(*here)
    return drawn


def queries(image: Tensor, maps: Tensor, places: Sequence[tuple[int, int]]) -> Figure:
    """Where some patches look: a column for each, a row of maps for each layer and head, with one
    scale.

    Args:
        image: uint8, (1, h, w).
        maps: (num_layers, num_heads, queries, n_h, n_w).
        places: row and column of each query patch.
    """
    layers, heads, count, grid, _ = maps.shape
    patch = image.shape[-1] // grid
    drawn, axes = figure(
        1 + layers * heads, count, width=2.1 * count + 0.9, height=2.0 * (1 + layers * heads) + 0.3
    )
    for column, (letter, place) in enumerate(zip("ABCDEFG", places, strict=False)):
        picture(axes[column], image, f"{letter}: row {place[0]}, column {place[1]}")
        _frame(axes[column], place, patch)
    for i in range(layers * heads):
        row = axes[(1 + i) * count : (2 + i) * count]
        values = maps[i // heads, i % heads]
        for one, value, place in zip(row, values, places, strict=True):
            heat(one, value, "", 0, float(values.max()))
            over(one, image, grid)
            _frame(one, place, 1)
        row[0].set_ylabel(f"layer {i // heads}, head {i % heads}")
        scale(*row)
    return drawn


def rolled_out(image: Tensor, maps: Tensor, total: Tensor) -> Figure:
    """All heads of all layers, those of a layer on one scale, then rollout's one map on its own.

    Args:
        image: uint8, (1, h, w).
        maps: (num_layers, num_heads, n_h, n_w).
        total: (n_h, n_w).
    """
    layers, heads, grid, _ = maps.shape
    drawn, axes = figure(1, layers * heads + 2, width=2.1 * (layers * heads + 2) + 0.8, height=2.3)
    picture(axes[0], image, "the digit")
    for layer in range(layers):
        here = axes[1 + layer * heads : 1 + (layer + 1) * heads]
        for head, one in enumerate(here):
            heat(one, maps[layer, head], f"layer {layer}, head {head}", 0, float(maps[layer].max()))
            over(one, image, grid)
        scale(*here)
    heat(axes[-1], total, "rollout", 0)
    over(axes[-1], image, grid)
    scale(axes[-1])
    return drawn


def two_facts(distance: Tensor, even: float, share: Tensor, chance: float) -> Figure:
    """A bar for each head in two panels, and a dashed line for what heads without any preference
    would give.

    Args:
        distance: mean attention distance in pixels, (num_layers, num_heads).
        even: the same with even weights.
        share: of the class token's attention on ink, (num_layers, num_heads).
        chance: share of patches with ink.
    """
    drawn, axes = figure(1, 2, width=10, height=3.2)
    panels = (
        (distance, "{:.1f}", "mean attention distance in pixels", even, "even weights"),
        (
            share,
            "{:.2f}",
            "share of the class token's attention on ink",
            chance,
            "share of patches with ink",
        ),
    )
    for here, (values, form, title, line, name) in zip(axes, panels, strict=True):
        layers, heads = values.shape
        for i, value in enumerate(values.flatten().tolist()):
            here.bar(i, value, color=COLOURS[i // heads % len(COLOURS)], alpha=0.75, width=0.7)
            foot = 0.02 * float(values.max())
            here.text(i, foot, form.format(value), ha="center", va="bottom")
        here.set_xticks(
            range(layers * heads),
            [f"layer {i // heads}\nhead {i % heads}" for i in range(layers * heads)],
        )
        here.set_title(title)
        here.axhline(
            line, color=BLACK, linestyle="--", linewidth=1.2, label=f"{name}: {form.format(line)}"
        )
        here.legend(loc="upper left", fontsize=9, framealpha=0.9)
        here.set_ylim(0, 1.35 * max(float(values.max()), line))
    return drawn


def side_by_side(image: Tensor, maps: dict[str, Tensor], shared: bool = False) -> Figure:
    """The digit and some maps of it by name, on one scale if they are ``shared``; else each on its
    own."""
    drawn, axes = figure(1, 1 + len(maps), width=2.5 * (1 + len(maps)), height=2.5)
    picture(axes[0], image, "the digit")
    low, high = (
        min(0.0, *(float(m.min()) for m in maps.values())),
        max(float(m.max()) for m in maps.values()),
    )
    for here, (title, values) in zip(axes[1:], maps.items(), strict=True):
        heat(
            here, values, title, *((low, high) if shared else (min(0.0, float(values.min())), None))
        )
        over(here, image, values.shape[-1])
    for group in [axes[1:]] if shared else [[one] for one in axes[1:]]:
        scale(*group)
    return drawn


def scale(*axes: Axes) -> None:
    """One bar of colours for maps that share a scale."""
    bar = axes[0].figure.colorbar(
        axes[-1].images[0], ax=list(axes), shrink=0.85, aspect=14, pad=0.02
    )
    bar.ax.tick_params(labelsize=8)
    bar.ax.locator_params(nbins=4)
    bar.outline.set_visible(False)


def over(axes: Axes, image: Tensor, grid: int) -> None:
    """The outline of the digit over a map of grid × grid patches."""
    pixels = image[0].float()
    middle = (torch.arange(pixels.shape[-1]) + 0.5) * grid / pixels.shape[-1] - 0.5
    axes.contour(middle, middle, pixels, levels=[110], colors="white", linewidths=0.9)


def _frame(axes: Axes, place: tuple[int, int], size: int) -> None:
    """A white frame on a black edge around one patch of ``size`` pixels."""
    corner = (place[1] * size - 0.5, place[0] * size - 0.5)
    axes.add_patch(
        Rectangle(
            corner,
            size,
            size,
            fill=False,
            edgecolor="white",
            linewidth=1.8,
            path_effects=EDGE,
            zorder=5,
        )
    )
