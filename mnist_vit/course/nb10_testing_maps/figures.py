"""Figures of notebook 10: what each rule hides of a digit, and what hiding does to the answer."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, STYLE, picture


def hidden_patches(
    image: Tensor, hidden: dict[str, Tensor], curves: dict[str, list[float]], counts: list[int]
) -> Figure:
    """One digit with the patches that each rule hides, and the mean probability of the truth as
    more are hidden.

    Args:
        image: uint8, (1, h, w).
        hidden: by rule, (n_h * n_w,) of booleans.
        curves: by rule, the mean probability for each count, 0 hidden patches first.
        counts: how many patches are hidden.
    """
    with plt.rc_context(STYLE):
        drawn = plt.figure(figsize=(11, 3.9), layout="constrained")
        rows = 2
        across = -(-len(hidden) // rows)
        places = drawn.add_gridspec(rows, across + 2, width_ratios=[1] * across + [1.6, 1.6])
        for i, (rule, mask) in enumerate(hidden.items()):
            here = drawn.add_subplot(places[i // across, i % across])
            _hide(here, image, mask)
            here.set_title(rule, fontsize=9)
        here = drawn.add_subplot(places[:, across:])
        for (rule, curve), mark, colour in zip(
            curves.items(), "osD^vP", (RED, BLUE, BLACK, GREEN, ORANGE, PINK), strict=False
        ):
            here.plot(counts, curve, marker=mark, color=colour, label=rule)
        here.set_xticks(counts)
        here.set_ylim(0, 1.03)
        here.set_xlabel("hidden patches")
        here.set_title("mean probability of the right digit")
        here.legend(loc="lower left", frameon=False, fontsize=9)
    return drawn


def _hide(axes: Axes, image: Tensor, mask: Tensor) -> None:
    """The digit with hatched squares on the patches that are hidden."""
    grid = round(len(mask) ** 0.5)
    patch = image.shape[-1] // grid
    picture(axes, image)
    for place in mask.nonzero().flatten().tolist():
        corner = (place % grid * patch - 0.5, place // grid * patch - 0.5)
        axes.add_patch(
            Rectangle(
                corner, patch, patch, facecolor=SKY, edgecolor=BLUE, hatch="///", linewidth=0.8
            )
        )
