"""What every figure shares: style, heat maps, pictures, and a diagram of boxes and arrows.

Importing it makes figures of a notebook crisp: twice as many pixels, shown at the same size.
"""

import sys
from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

# Okabe and Ito's colours: told apart by colour-blind readers, and of different lightness in grey.
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, RED, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#F0E442",
    "#56B4E9",
    "#D55E00",
    "#000000",
)

STYLE = {  # white paper under every figure, so that it reads the same in light and dark themes
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.dpi": 80,
    "font.size": 10,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, PINK, SKY, RED, BLACK]),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
}


def _crisp() -> None:
    """What ``%config InlineBackend.figure_formats = ["retina"]`` does, unless another format was
    chosen."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and hasattr(shell, "kernel"):  # a notebook's kernel, not a terminal
        from matplotlib_inline.config import InlineBackend

        backend = InlineBackend.instance(parent=shell)
        if backend.figure_formats == {"png"}:
            backend.shell = shell
            backend.figure_formats = {"retina"}


_crisp()


def figure(
    rows: int = 1, columns: int = 1, width: float = 8, height: float = 3
) -> tuple[Figure, list[Axes]]:
    """A figure in the course's style, and its axes row by row; sizes in inches."""
    with plt.rc_context(STYLE):
        drawn, axes = plt.subplots(
            rows, columns, figsize=(width, height), layout="constrained", squeeze=False
        )
    return drawn, list(axes.flat)


def picture(axes: Axes, image: Tensor, title: str = "") -> None:
    """A picture, uint8 or 0 to 1, (c, h, w) or (h, w), every pixel a square."""
    image = image.detach().cpu()
    image = (
        image[0]
        if image.dim() == 3 and len(image) == 1
        else image.permute(1, 2, 0)
        if image.dim() == 3
        else image
    )
    axes.imshow(image.numpy(), cmap="gray", interpolation="nearest")
    axes.set_title(title)
    axes.set_axis_off()


def heat(
    axes: Axes,
    values: Tensor,
    title: str = "",
    low: float | None = None,
    high: float | None = None,
    digits: int = -1,
) -> None:
    """A matrix in colours, every entry a square; ``digits`` of 0 or more also writes the numbers
    in."""
    values = values.detach().cpu().float()
    drawn = axes.imshow(
        values.numpy(), cmap="viridis", vmin=low, vmax=high, interpolation="nearest"
    )
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    if digits >= 0:
        middle = sum(drawn.get_clim()) / 2
        for (row, column), value in (
            (tuple(i.tolist()), values[tuple(i)].item()) for i in torch.ones_like(values).nonzero()
        ):
            colour = "black" if value > middle else "white"
            axes.text(
                column,
                row,
                f"{value:.{digits}f}",
                ha="center",
                va="center",
                color=colour,
                fontsize=8,
            )


def blocks(stages: Sequence[tuple[str, str]], colours: Sequence[str] | None = None) -> Figure:
    """Boxes from left to right with arrows between them: (name, what is written under it, such as a
    shape)."""
    drawn, (axes,) = figure(width=1.9 * len(stages), height=1.6)
    for i, (name, note) in enumerate(stages):
        colour = colours[i] if colours else SKY
        box = FancyBboxPatch(
            (i * 1.5, 0), 1.1, 0.6, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45
        )
        axes.add_patch(box)
        axes.text(i * 1.5 + 0.55, 0.3, name, ha="center", va="center", fontsize=10)
        axes.text(
            i * 1.5 + 0.55, -0.28, note, ha="center", va="center", fontsize=9, family="monospace"
        )
        if i:
            axes.annotate(
                "", (i * 1.5 - 0.07, 0.3), (i * 1.5 - 0.33, 0.3), arrowprops={"arrowstyle": "->"}
            )
    axes.set_xlim(-0.2, 1.5 * len(stages) - 0.2)
    axes.set_ylim(-0.55, 0.8)
    axes.set_axis_off()
    return drawn
