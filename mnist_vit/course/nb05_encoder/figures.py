"""Figures of notebook 05: shuffled patches, the stream by depth, and position embeddings."""

import json
import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from ...files import shipped
from ..drawing import BLUE, GREEN, RED, SKY, STYLE, figure, heat, picture


def shuffle(images: Tensor, order: Tensor, patch_size: int) -> Tensor:
    """Pictures, (n, 1, h, w), with their patches in another order: place i gets patch
    ``order[i]``."""
    # (n, pixels of a patch, patches).
    patches = F.unfold(images.float(), patch_size, stride=patch_size)
    return F.fold(patches[..., order], images.shape[-2:], patch_size, stride=patch_size).to(
        images.dtype
    )


def shuffled(image: Tensor, order: Tensor, patch_size: int) -> None:
    """A picture, (1, h, w), and the same with its patches in another order."""
    _, axes = figure(1, 2, width=6, height=3)
    mixed = shuffle(image[None], order, patch_size)[0]
    for axis, shown, title in zip(
        axes, (image, mixed), ("as it is", "patches shuffled"), strict=True
    ):
        picture(axis, shown, title)
        # Thin lines between the patches.
        for edge in range(patch_size, image.shape[-1], patch_size):
            axis.axhline(edge - 0.5, color=SKY, linewidth=0.5)
            axis.axvline(edge - 0.5, color=SKY, linewidth=0.5)


def depth(spread: Sequence[float], after_norm: float) -> None:
    """How large the numbers of the tokens are before the blocks, after each block, and after the
    last norm."""
    last = len(spread) - 1
    _, (axes,) = figure(width=7, height=3)
    axes.plot(range(last + 1), spread, "o-", color=BLUE)
    axes.plot([last, last + 1], [spread[-1], after_norm], "--", color=GREEN)
    axes.plot(last + 1, after_norm, "s", color=GREEN, markersize=8)
    axes.annotate(
        "the last norm",
        (last + 1, after_norm),
        (last - 0.1, after_norm - 0.33),
        color=GREEN,
        ha="center",
    )
    axes.text(last * 0.45, spread[last // 2] + 0.22, "after each block", color=BLUE, ha="right")
    axes.set_xticks(range(last + 2), ["start", *(str(i) for i in range(1, last + 1)), "ln"])
    axes.set_ylim(0, max(spread) * 1.15)
    axes.set_xlabel("block")
    axes.set_ylabel("standard deviation")


def stored_runs(variants: dict[str, str]) -> str:
    """What the trainings of notebook 12 reached: a line for each of these, the range of its three
    seeds in percent."""
    found = json.loads(
        (shipped("notebooks") / "results" / "ablations.json").read_text(encoding="utf-8")
    )["runs"]
    lines = []
    for name, title in variants.items():
        reached = [100 * run["accuracy"] for run in found if run["variant"] == name]
        lines.append(f"{title:<42}stored: {min(reached):.0f} to {max(reached):.0f} %")
    return "\n".join(lines)


def likeness(similarities: dict[str, Tensor], grid: int) -> str:
    """A table of mean cosine similarities: of neighbours, and of patches 3 apart.

    Args:
        similarities: (grid * grid, grid * grid) each, by name.
        grid: patches a side.
    """
    # Row and column of each, and how far apart they are, in patches.
    place = torch.cartesian_prod(torch.arange(grid), torch.arange(grid)).float()
    distance = torch.cdist(place, place)
    lines = ["mean cosine      neighbours  3 apart"]
    for name, values in similarities.items():
        near = values[distance == 1].mean()
        far = values[distance == 3].mean()
        lines.append(f"{name:<15}  {near:z10.2f}  {far:z7.2f}")
    return "\n".join(lines)


def position_maps(similarity: Tensor) -> None:
    """One little map for each patch, laid out as the patches are: how much its position is like all
    the others.

    Args:
        similarity: (patches, patches), cosine similarities, of a square grid.
    """
    grid = math.isqrt(len(similarity))
    gap = 1
    step = grid + gap
    canvas = torch.full((grid * step - gap, grid * step - gap), torch.nan)
    for place, one in enumerate(similarity.detach().unflatten(-1, (grid, grid))):
        row, column = divmod(place, grid)
        canvas[row * step : row * step + grid, column * step : column * step + grid] = one
    drawn, (axes,) = figure(width=6.6, height=5.6)
    image = axes.imshow(
        canvas, cmap="viridis", vmin=float(similarity.min()), vmax=1, interpolation="nearest"
    )
    middles = [place * step + (grid - 1) / 2 for place in range(grid)]
    axes.set_xticks(middles, [str(place) for place in range(grid)])
    axes.set_yticks(middles, [str(place) for place in range(grid)])
    axes.set_xlabel("column of the patch")
    axes.set_ylabel("row of the patch")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    drawn.colorbar(image, ax=axes, shrink=0.8, label="cosine similarity")


def resized(before: Tensor, after: Tensor, channel: int) -> None:
    """One number of every patch's position, before and after it was brought to another grid.

    Args:
        before, after: position embeddings, (1, 1 + grid * grid, hidden_dim).
        channel: which of the hidden_dim numbers.
    """
    maps = [_to_grid(embedding[0, 1:, channel]) for embedding in (before, after)]
    low, high = (float(f(m.min() if f is min else m.max() for m in maps)) for f in (min, max))
    drawn, axes = figure(1, 2, width=7, height=3.3)
    for axis, values in zip(axes, maps, strict=True):
        rows, columns = values.shape
        heat(axis, values, f"{rows} × {columns} patches", low, high)
    drawn.colorbar(
        axes[1].images[0], ax=axes, shrink=0.8, label=f"number {channel} of the position"
    )


def blank_maps(image: Tensor, maps: Sequence[tuple[str, Tensor]], queries: Sequence[int]) -> None:
    """Where some patches look, one row of maps for each model, beside the picture with those
    patches framed.

    Args:
        image: (1, h, w).
        maps: (name, (queries, grid, grid)) for each model.
        queries: positions of the patches, counted from 0 without the class token.
    """
    grid = maps[0][1].shape[-1]
    drawn, axes = figure(
        len(maps), 1 + len(queries), width=2.7 * (1 + len(queries)), height=2.6 * len(maps)
    )
    for row, (name, values) in enumerate(maps):
        first, *others = axes[row * (1 + len(queries)) : (row + 1) * (1 + len(queries))]
        picture(first, image, name)
        for query in queries:
            _frame(first, query, grid, image.shape[-1] / grid)
        for axis, query, one in zip(others, queries, values, strict=True):
            place = divmod(query, grid)
            heat(
                axis,
                one,
                f"from row {place[0]}, column {place[1]}",
                0,
                max(float(v.max()) for _, v in maps),
            )
            _frame(axis, query, grid, 1)
    drawn.colorbar(axes[-1].images[0], ax=axes, shrink=0.6, label="attention weight")


def _to_grid(values: Tensor) -> Tensor:
    grid = math.isqrt(len(values))
    return values.detach().unflatten(0, (grid, grid))


def _frame(axes: Axes, place: int, grid: int, size: float) -> None:
    row, column = divmod(place, grid)
    with plt.rc_context(STYLE):
        corner = (column * size - 0.5, row * size - 0.5)
        axes.add_patch(
            Rectangle(corner, size, size, fill=False, edgecolor=RED, linewidth=2.5, clip_on=False)
        )


def without_corners(position: Tensor, grid: int) -> Tensor:
    """Positions interpolated in their grid as ``align_corners=False`` does it.

    Shape: (1, 1 + g * g, hidden_dim) -> (1, 1 + grid * grid, hidden_dim).
    """
    class_token, patches = position[:, :1], position[:, 1:]
    side = math.isqrt(patches.shape[1])
    planes = patches.transpose(1, 2).unflatten(2, (side, side))
    resized = F.interpolate(planes, size=grid, mode="bicubic", align_corners=False)
    return torch.cat([class_token, resized.flatten(2).transpose(1, 2)], dim=1)


def in_squares(in_line: Tensor) -> Tensor:
    """Positions interpolated along the line, four for each old one, laid out 2 x 2 for each.

    Shape: (1, 1 + 4 * g * g, hidden_dim), the same after it.
    """
    class_token, patches = in_line[:, :1], in_line[:, 1:]
    side = math.isqrt(patches.shape[1] // 4)
    squares = patches.unflatten(1, (side, side, 2, 2)).transpose(2, 3)
    return torch.cat([class_token, squares.flatten(1, 4)], dim=1)
