"""What every figure shares: style, heat maps, pictures, and a diagram of boxes and arrows.

Importing it makes figures of a notebook crisp: twice as many pixels, shown at the same size.
"""

import sys
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

# Okabe and Ito's colours: told apart by colour-blind readers, and of different lightness in grey.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
PINK = "#CC79A7"
YELLOW = "#F0E442"
SKY = "#56B4E9"
RED = "#D55E00"
BLACK = "#000000"

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
    """Set ``InlineBackend.figure_formats`` to "retina", unless another format was chosen."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if not hasattr(shell, "kernel"):  # a terminal, or no IPython at all
        return
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
    if image.dim() == 3:
        image = image.permute(1, 2, 0)
        if image.shape[-1] == 1:
            image = image[..., 0]
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
    """A matrix in colours, every entry a square; ``digits`` of 0 or more writes the numbers in."""
    values = values.detach().cpu().float()
    drawn = axes.imshow(
        values.numpy(), cmap="viridis", vmin=low, vmax=high, interpolation="nearest"
    )
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    if digits >= 0:
        middle = sum(drawn.get_clim()) / 2
        for row, numbers in enumerate(values.tolist()):
            for column, value in enumerate(numbers):
                colour = "black" if value > middle else "white"
                text = f"{value:.{digits}f}"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)


def blocks(stages: Sequence[tuple[str, str]], colours: Sequence[str] | None = None) -> Figure:
    """Boxes from left to right with arrows between them.

    Args:
        stages: for each box its name, and what is written under it, such as a shape.
        colours: of the boxes.
    """
    drawn, (axes,) = figure(width=1.9 * len(stages), height=1.6)
    centred = {"ha": "center", "va": "center"}
    for i, (name, note) in enumerate(stages):
        left = i * 1.5
        middle = left + 0.55
        colour = colours[i] if colours else SKY
        box = FancyBboxPatch(
            (left, 0), 1.1, 0.6, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45
        )
        axes.add_patch(box)
        axes.text(middle, 0.3, name, fontsize=10, **centred)
        axes.text(middle, -0.28, note, fontsize=9, family="monospace", **centred)
        if i:
            arrow = {"arrowstyle": "->"}
            axes.annotate("", (left - 0.07, 0.3), (left - 0.33, 0.3), arrowprops=arrow)
    axes.set_xlim(-0.2, 1.5 * len(stages) - 0.2)
    axes.set_ylim(-0.55, 0.8)
    axes.set_axis_off()
    return drawn
