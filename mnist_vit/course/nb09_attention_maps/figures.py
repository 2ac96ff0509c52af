"""Figures of notebook 09: attention maps over a digit, and what they are made from."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, figure, heat, picture

COLOURS = (BLUE, ORANGE, GREEN, PINK)  # head 0, 1, 2, 3
EDGE = [withStroke(linewidth=3.5, foreground="black")]


def row_to_map(image: Tensor, weights: Tensor) -> Figure:
    """From the digit to the weights of one head, and from its first row to a map.

    Args:
        image: uint8, (1, h, w).
        weights: (seq_length, seq_length).
    """
    grid = round((len(weights) - 1) ** 0.5)
    drawn, (digit, matrix, row_map) = figure(1, 3, width=10, height=3.6)
    picture(digit, image, f"the digit, {grid} × {grid} patches")
    _lines(digit, image.shape[-1], image.shape[-1] // grid)
    heat(matrix, weights**0.5, f"weights of one head, {len(weights)} × {len(weights)}")
    matrix.set_ylabel("query: who looks")
    matrix.set_xlabel("key: what is looked at")
    matrix.add_patch(
        Rectangle((-2, -2), len(weights) + 3, 5, fill=False, edgecolor=RED, linewidth=2.5, clip_on=False, zorder=5)
    )
    heat(row_map, weights[0, 1:].unflatten(0, (grid, grid)), "row 0 without its first number, folded")
    over(row_map, image, grid)
    link = ConnectionPatch(
        (len(weights) + 2, 1), (-0.7, grid / 2), "data", "data", axesA=matrix, axesB=row_map,
        arrowstyle="->", color=RED, linewidth=1.5, mutation_scale=14, shrinkA=0, shrinkB=0,
    )  # fmt: skip
    link.set_annotation_clip(False)  # both ends lie outside their axes
    drawn.add_artist(link)
    drawn.get_layout_engine().set(wspace=0.08)  # room for the arrow
    return drawn


def layers_and_heads(images: Tensor, maps: Tensor) -> Figure:
    """The class token's map of every layer and head over each digit; colours are shared by the heads of a layer.

    Args:
        images: uint8, (n, 1, h, w).
        maps: (n, num_layers, num_heads, n_h, n_w).
    """
    n, layers, heads, grid, _ = maps.shape
    drawn, axes = figure(n, 1 + layers * heads, width=2.2 * (1 + layers * heads), height=2.35 * n + 0.2)
    for i in range(n):
        row = axes[i * (1 + layers * heads) :]
        picture(row[0], images[i], "the digit" if i == 0 else "")
        for layer in range(layers):
            high = float(maps[i, layer].max())
            for head in range(heads):
                here = row[1 + layer * heads + head]
                heat(here, maps[i, layer, head], f"layer {layer}, head {head}" if i == 0 else "", 0, high)
                over(here, images[i], grid)
                here.set_xlabel(f"0 to {high:.3f}")
    return drawn


def queries(image: Tensor, maps: Tensor, places: Sequence[tuple[int, int]], names: Sequence[str]) -> Figure:
    """Where some patches look: a column for each, a row of maps for each layer and head.

    Args:
        image: uint8, (1, h, w).
        maps: (rows, queries, n_h, n_w).
        places: row and column of each query patch.
        names: what to call each row.
    """
    grid = maps.shape[-1]
    patch = image.shape[-1] // grid
    drawn, axes = figure(1 + len(maps), len(places), width=2.3 * len(places) + 0.4, height=2.2 * (1 + len(maps)) + 0.3)
    for column, (letter, place) in enumerate(zip("ABCDEFG", places, strict=False)):
        picture(axes[column], image, f"query {letter}: row {place[0]}, column {place[1]}")
        _frame(axes[column], place, patch)
        for row, name in enumerate(names):
            here = axes[(1 + row) * len(places) + column]
            heat(here, maps[row, column], "", 0, float(maps[row].max()))
            over(here, image, grid)
            _frame(here, place, 1)
            here.set_ylabel(name if column == 0 else "")
    return drawn


def rolled_out(image: Tensor, maps: Tensor, total: Tensor) -> Figure:
    """All heads of all layers as they are, then rollout's one map, each in its own colours.

    Args:
        image: uint8, (1, h, w).
        maps: (num_layers, num_heads, n_h, n_w).
        total: (n_h, n_w).
    """
    layers, heads, grid, _ = maps.shape
    drawn, axes = figure(1, layers * heads + 2, width=2.15 * (layers * heads + 2), height=2.5)
    picture(axes[0], image, "the digit")
    for i, one in enumerate(maps.flatten(0, 1)):
        heat(axes[1 + i], one, f"layer {i // heads}, head {i % heads}", 0)
        over(axes[1 + i], image, grid)
    heat(axes[-1], total, "rollout", 0)
    over(axes[-1], image, grid)
    return drawn


def learned_input(similarity: Tensor, filters: Tensor) -> Figure:
    """Left: how alike the positions are, a small map for each; right: the patch filters as little pictures.

    Args:
        similarity: (n_h * n_w, n_h * n_w), cosines.
        filters: (count, p, p).
    """
    grid = round(len(similarity) ** 0.5)
    gap = 1  # white lines between the little pictures
    drawn, (left, right) = figure(1, 2, width=11, height=5.4)
    shown = left.imshow(
        _mosaic(similarity.unflatten(-1, (grid, grid)), grid, gap), cmap="viridis", vmin=-1, vmax=1, aspect="equal"
    )
    left.set_title(f"position similarity: {grid} × {grid} maps, one for each place")
    bar = drawn.colorbar(shown, ax=left, shrink=0.7)
    bar.set_label("cosine")
    across = round(len(filters) ** 0.5)
    limit = float(filters.abs().max())
    right.imshow(_mosaic(filters, across, gap), cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="equal")
    right.set_title(
        f"{len(filters)} patch filters, {filters.shape[-1]} × {filters.shape[-1]} pixels each, strongest first"
    )
    for axes in (left, right):
        axes.set_axis_off()
    return drawn


def four_facts(distance: Tensor, even: float, share: Tensor, chance: float, sizes: Tensor, lost: Tensor) -> Figure:
    """A bar for each head in four panels; a dashed line where there is something to compare with.

    Args:
        distance: mean attention distance in pixels, (num_layers, num_heads).
        even: the same with even weights.
        share: of the class token's attention on ink, (num_layers, num_heads).
        chance: share of patches with ink.
        sizes: mean length of what the head adds to the class token, (num_layers, num_heads).
        lost: percentage points of accuracy without the head, (num_layers, num_heads).
    """
    drawn, axes = figure(2, 2, width=11, height=5.8)
    panels = (
        (distance, "{:.1f}", "mean attention distance in pixels", even, "even weights"),
        (share, "{:.2f}", "share of the class token's attention on ink", chance, "share of patches with ink"),
        (sizes, "{:.1f}", "mean length of what the head adds to the class token", None, ""),
        (lost, "{:.1f}", "percentage points of accuracy lost without the head", None, ""),
    )
    for here, (values, form, title, line, name) in zip(axes, panels, strict=True):
        _head_bars(here, values, form, below=line is not None)
        here.set_title(title)
        if line is not None:
            here.axhline(line, color=BLACK, linestyle="--", linewidth=1.2, label=f"{name}: {form.format(line)}")
            here.legend(loc="upper left", fontsize=9, ncols=2, framealpha=0.9)
        here.set_ylim(0, 1.35 * max(float(values.max()), line or 0.0))
    return drawn


def side_by_side(image: Tensor, maps: dict[str, Tensor]) -> Figure:
    """The digit and some maps of it by name, each in its own colours."""
    drawn, axes = figure(1, 1 + len(maps), width=2.4 * (1 + len(maps)), height=2.7)
    picture(axes[0], image, "the digit")
    for here, (title, values) in zip(axes[1:], maps.items(), strict=True):
        heat(here, values, title)
        over(here, image, values.shape[-1])
    return drawn


def files(folder: Path) -> Figure:
    """The PNG files of a folder, read from the disk, each under its name."""
    found = sorted(folder.glob("*.png"))
    drawn, axes = figure(1, len(found), width=2.2 * len(found), height=2.5)
    for here, path in zip(axes, found, strict=True):
        here.imshow(plt.imread(path), cmap="gray", interpolation="nearest")
        here.set_title(path.name, fontsize=9)
        here.set_axis_off()
    return drawn


def over(axes: Axes, image: Tensor, grid: int) -> None:
    """The outline of the digit over a map of grid × grid patches."""
    pixels = image[0].float()
    middle = (torch.arange(pixels.shape[-1]) + 0.5) * grid / pixels.shape[-1] - 0.5
    axes.contour(middle, middle, pixels, levels=[110], colors="white", linewidths=0.9)


def _head_bars(axes: Axes, values: Tensor, form: str, below: bool) -> None:
    """A bar for each head, layer after layer, with its number above it or at its foot."""
    layers, heads = values.shape
    for i, value in enumerate(values.flatten().tolist()):
        axes.bar(i, value, color=COLOURS[i // heads % len(COLOURS)], alpha=0.75, width=0.7)
        axes.text(i, 0.02 * float(values.max()) if below else value, form.format(value), ha="center", va="bottom")
    axes.set_xticks(range(layers * heads), [f"layer {i // heads}\nhead {i % heads}" for i in range(layers * heads)])


def _mosaic(tiles: Tensor, across: int, gap: int) -> Tensor:
    """(count, h, w) -> one picture, row by row, with nan between the tiles."""
    padded = F.pad(tiles.detach().float(), (0, gap, 0, gap), value=float("nan"))
    rows = [torch.cat(list(row), dim=1) for row in padded.split(across)]
    widest = max(row.shape[1] for row in rows)
    return torch.cat([F.pad(row, (0, widest - row.shape[1]), value=float("nan")) for row in rows])


def _lines(axes: Axes, size: int, patch: int) -> None:
    """Thin lines between the patches."""
    for place in range(patch, size, patch):
        axes.axhline(place - 0.5, color=SKY, linewidth=0.4)
        axes.axvline(place - 0.5, color=SKY, linewidth=0.4)


def _frame(axes: Axes, place: tuple[int, int], size: int) -> None:
    """A white frame on a black edge around one patch of ``size`` pixels."""
    corner = (place[1] * size - 0.5, place[0] * size - 0.5)
    axes.add_patch(
        Rectangle(corner, size, size, fill=False, edgecolor="white", linewidth=1.8, path_effects=EDGE, zorder=5)
    )
