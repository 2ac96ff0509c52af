"""Figures of notebook 11: pictures in patches, the five likeliest classes, maps of all heads, maps over photographs."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ..drawing import BLUE, YELLOW, figure, picture


def in_patches(pictures: Sequence[Tensor], titles: Sequence[str], patch_sizes: Sequence[int]) -> Figure:
    """Pictures, 0 to 1 or uint8 (c, h, w), with the borders of their patches drawn on them."""
    drawn, axes = figure(1, len(pictures), width=3 * len(pictures), height=3.3)
    for here, image, title, patch_size in zip(axes, pictures, titles, patch_sizes, strict=True):
        picture(here, image, title)
        for line in range(patch_size, image.shape[-1], patch_size):
            here.axhline(line - 0.5, color=YELLOW, lw=0.5)
            here.axvline(line - 0.5, color=YELLOW, lw=0.5)
    return drawn


def top_five(rows: Sequence[tuple[Tensor, Tensor, Sequence[str], str]]) -> Figure:
    """A row for each (picture, probabilities, names of the classes, title): the picture and its five likeliest."""
    drawn, axes = figure(len(rows), 2, width=9, height=2.5 * len(rows))
    for i, (image, probabilities, names, title) in enumerate(rows):
        best = probabilities.topk(5)
        picture(axes[2 * i], image)
        axes[2 * i].set_anchor("E")
        bars = axes[2 * i + 1]
        written = bars.barh(range(5), best.values.tolist(), color=BLUE)
        bars.bar_label(written, [f"{value:.3f}" for value in best.values.tolist()], padding=3)
        bars.set_yticks(range(5), [names[number] for number in best.indices.tolist()])
        bars.invert_yaxis()
        bars.set_xlim(0, 1.15)
        bars.set_xticks([0, 0.5, 1])
        bars.set_title(title, fontsize=10)
    axes[-1].set_xlabel("probability")
    return drawn


def layers_and_heads(maps: Sequence[Tensor], titles: Sequence[str]) -> Figure:
    """All maps of each model, (num_layers, num_heads, n_h, n_w), a row for each layer; black is 0.

    One colour scale within a layer: the brightest square of a row is the layer's largest weight.
    """
    drawn, axes = figure(1, len(maps), width=6.3 * len(maps), height=6.6)
    for here, one, title in zip(axes, maps, titles, strict=True):
        layers, heads, n_h, n_w = one.shape
        shown = here.imshow(
            _tiles(one / one.amax(dim=(1, 2, 3), keepdim=True)), cmap="viridis", vmin=0, vmax=1, interpolation="nearest"
        )
        here.set_title(title)
        here.set_yticks([(n_h + 1) * i + n_h / 2 for i in range(layers)], [str(i) for i in range(layers)])
        here.set_xticks([(n_w + 1) * i + n_w / 2 for i in range(heads)], [str(i) for i in range(heads)])
        here.set_ylabel("layer")
        here.set_xlabel("head")
        _bare(here)
    drawn.colorbar(shown, ax=axes, label="attention weight / the layer's largest", shrink=0.7)
    return drawn


def over_pictures(
    pictures: Sequence[Tensor], maps: Sequence[Tensor], titles: Sequence[str], columns: int, note: str = ""
) -> Figure:
    """Each map, (n_h, n_w), laid over its picture, 0 to 1 (c, h, w): what gets little is dark.

    A patch is as bright as its weight is, compared with the largest of its map. So an even map leaves the picture as
    it is. The patches' squares are kept, for nothing finer was computed.
    """
    rows = -(-len(maps) // columns)
    size = 2.4 if columns < 4 else 1.75  # inches; photographs make large files
    drawn, axes = figure(rows, columns, width=size * columns, height=(size + 0.25) * rows + (0.5 if note else 0))
    if note:
        drawn.suptitle(note)
    for here in axes:
        here.set_axis_off()
    for here, image, one, title in zip(axes, pictures, maps, titles, strict=False):
        light = F.interpolate((one / one.max())[None, None], size=image.shape[-2:], mode="nearest")[0]
        picture(here, image.expand(3, -1, -1) * (0.1 + 0.9 * light), title)
    return drawn


def position_similarity(similarities: Sequence[Tensor], titles: Sequence[str]) -> Figure:
    """For each place of the grid a map of its similarity to all places: each (n_h, n_w, n_h, n_w), -1 to 1."""
    drawn, axes = figure(1, len(similarities), width=6.3 * len(similarities), height=6.2)
    for here, one, title in zip(axes, similarities, titles, strict=True):
        shown = here.imshow(_tiles(one), cmap="viridis", vmin=-1, vmax=1, interpolation="nearest")
        here.set_title(title)
        n_h, n_w = one.shape[:2]
        here.set_yticks([(n_h + 1) * i + n_h / 2 for i in range(n_h)], [str(i) for i in range(n_h)])
        here.set_xticks([(n_w + 1) * i + n_w / 2 for i in range(n_w)], [str(i) for i in range(n_w)])
        here.set_ylabel("row of the patch")
        here.set_xlabel("column of the patch")
        _bare(here)
    drawn.colorbar(shown, ax=axes, label="cosine similarity", shrink=0.7)
    return drawn


def _tiles(values: Tensor) -> Tensor:
    """(rows, columns, h, w) -> one sheet, (rows * (h + 1), columns * (w + 1)), with gaps of nan between the tiles."""
    rows, columns, h, w = values.shape
    gaps = F.pad(values.detach().cpu().float(), (0, 1, 0, 1), value=torch.nan)
    return gaps.transpose(1, 2).reshape(rows * (h + 1), columns * (w + 1))[:-1, :-1]


def _bare(axes: Axes) -> None:
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
