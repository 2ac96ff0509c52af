"""Figures of notebook 11: two kinds of digits, maps of a trained and of a new model, the five
likeliest classes."""

from collections.abc import Sequence

import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from ..drawing import BLUE, figure, heat, picture


def two_hands(rows: dict[str, Tensor]) -> Figure:
    """A row of pictures, (n, 1, h, w), under each title."""
    count = max(len(images) for images in rows.values())
    drawn, axes = figure(len(rows), count, width=0.95 * count, height=1.25 * len(rows))
    for i, (title, images) in enumerate(rows.items()):
        for j, image in enumerate(images):
            picture(axes[i * count + j], image)
        axes[i * count].set_title(title, loc="left", fontsize=10)
    return drawn


def trained_and_new(images: Tensor, models: dict[str, Tensor]) -> Figure:
    """Pictures, (n, c, h, w), above their maps, for each model (n, maps, n_h, n_w), one colour
    scale a model.

    A weight is given as a multiple of an even one: 1 is what each patch gets if attention is spread
    evenly.
    """
    heads = next(iter(models.values())).shape[1]
    rows, columns = 1 + heads * len(models), len(images)
    drawn, axes = figure(rows, columns, width=1.35 * columns + 1.6, height=1.35 * rows)
    for here, image in zip(axes, images, strict=False):
        picture(here, image)
    for number, (name, maps) in enumerate(models.items()):
        maps = maps / maps.mean(dim=(-1, -2), keepdim=True)
        first = (1 + number * heads) * columns
        here = axes[first : first + heads * columns]
        for i, one in enumerate(maps.transpose(0, 1).flatten(0, 1)):
            heat(here[i], one, low=0, high=float(maps.max()))
        for head in range(heads):
            here[head * columns].set_ylabel(f"head {head}")
        drawn.colorbar(here[0].images[0], ax=here, label=f"{name}\nweight, 1 is even", shrink=0.85)
    return drawn


def top_five(rows: Sequence[tuple[Tensor, Tensor, Sequence[str], str]]) -> Figure:
    """A row for each (picture, probabilities, names of the classes, title): the picture and its
    five likeliest."""
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


def over_pictures(
    pictures: Sequence[Tensor],
    maps: Sequence[Tensor],
    titles: Sequence[str],
    columns: int,
    note: str = "",
) -> Figure:
    """Each map, (n_h, n_w), laid over its picture, 0 to 1 (c, h, w): what gets little is dark.

    A patch is as bright as its weight is, compared with the largest of its map. So an even map
    leaves the picture as it is. The patches' squares are kept, for nothing finer was computed.
    """
    rows = -(-len(maps) // columns)
    size = 2.4 if columns < 4 else 1.75  # inches; photographs make large files
    drawn, axes = figure(
        rows, columns, width=size * columns, height=(size + 0.25) * rows + (0.5 if note else 0)
    )
    if note:
        drawn.suptitle(note)
    for here in axes:
        here.set_axis_off()
    for here, image, one, title in zip(axes, pictures, maps, titles, strict=False):
        light = F.interpolate((one / one.max())[None, None], size=image.shape[-2:], mode="nearest")[
            0
        ]
        picture(here, image.expand(3, -1, -1) * (0.1 + 0.9 * light), title)
    return drawn
