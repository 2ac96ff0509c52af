"""Figures of notebook 01: the MLP block's layers, GELU, a changed token, curves, start values."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from ..drawing import BLACK, BLUE, ORANGE, RED, SKY, figure, heat, picture


def layers(block: nn.Sequential, tokens: Tensor) -> None:
    """The layers of an MLP block from left to right: a box is as high as a token is wide after that
    layer.

    Args:
        block: its layers are run one by one, and the shapes written down are those of what comes
            out.
        tokens: (..., in_dim), what goes in.
    """
    stages, x = [("tokens", tokens)], tokens
    with torch.no_grad():
        for place, layer in enumerate(block):
            x = layer(x)
            stages.append((f"[{place}] {type(layer).__name__}", x))
    _, (axes,) = figure(width=10.5, height=3.2)
    highest = max(x.shape[-1] for _, x in stages)
    for i, (name, x) in enumerate(stages):
        height = x.shape[-1] / highest
        learns = name.endswith("Linear")
        box = FancyBboxPatch(
            (i, -height / 2),
            0.5,
            height,
            boxstyle="round,pad=0.02",
            facecolor=ORANGE if learns else SKY,
            alpha=0.5,
        )
        axes.add_patch(box)
        if learns:  # not by colour alone
            box.set_hatch("//")
        axes.text(i + 0.25, 0.62, name, ha="center", va="bottom")
        axes.text(
            i + 0.25,
            -0.62,
            str(tuple(x.shape)),
            ha="center",
            va="top",
            fontsize=9,
            family="monospace",
        )
        if i:
            axes.annotate("", (i - 0.05, 0), (i - 0.45, 0), arrowprops={"arrowstyle": "->"})
    axes.set_xlim(-0.25, len(stages) - 0.25)
    axes.set_ylim(-0.85, 0.85)
    axes.set_axis_off()


def activations(
    exact: Callable[[Tensor], Tensor], approximation: Callable[[Tensor], Tensor]
) -> None:
    """Two activations that look alike, ReLU beside them, and the difference of the two enlarged."""
    x = torch.linspace(-5, 5, 2001)
    _, (left, right) = figure(1, 2, width=9, height=3.2)
    left.plot(x, x.relu(), color=BLACK, linestyle=":", label="ReLU")
    left.plot(x, exact(x), color=SKY, linewidth=5, label="GELU, exact")
    left.plot(x, approximation(x), color=RED, linestyle="--", label="GELU, tanh approximation")
    left.set_ylim(-0.6, 3)
    left.set_xlim(-4, 4)
    left.set_title("GELU, its approximation, and ReLU")
    left.legend(frameon=False, loc="upper left")
    right.axhline(0, color=BLACK, linewidth=0.8)
    right.plot(x, 1e4 * (approximation(x) - exact(x)), color=BLUE)
    right.set_title("approximation minus exact, in ten-thousandths")
    for axes in (left, right):
        axes.set_xlabel("x")


def one_token(before: Tensor, after: Tensor, difference: Tensor, tokens: int) -> None:
    """Two digits that differ in one square, and where the outputs of the MLP differ.

    Args:
        before, after: (1, h, w).
        difference: (tokens, numbers), the size of the difference of the outputs.
        tokens: how many squares there are.
    """
    _, (one, two, three) = figure(1, 3, width=10.5, height=3.2)
    _numbered(one, before, tokens, "before")
    _numbered(two, after, tokens, "after: one square has changed")
    heat(three, difference, "size of the difference in the output")
    _tokens_by_numbers(three, difference, "number in the output")


def start_values(linears: Sequence[nn.Linear]) -> None:
    """The start weights of linear layers, with Xavier's bound and the one nn.Linear would have
    taken."""
    _, all_axes = figure(1, len(linears), width=9, height=3)
    for axes, layer in zip(all_axes, linears, strict=True):
        out_dim, in_dim = layer.weight.shape
        xavier, default = (6 / (in_dim + out_dim)) ** 0.5, in_dim**-0.5
        values = layer.weight.detach().flatten()
        axes.hist(values, bins=40, range=(-xavier, xavier), color=SKY)
        for sign in (-1, 1):
            axes.axvline(sign * xavier, color=BLUE, label="Xavier's bound" if sign > 0 else None)
            axes.axvline(
                sign * default,
                color=RED,
                linestyle="--",
                label="bound of nn.Linear" if sign > 0 else None,
            )
        axes.set_title(f"weights of a layer {in_dim} → {out_dim}")
        axes.set_xlabel("start value")
        axes.set_ylabel("how many weights")
        axes.legend(framealpha=1, loc="lower center", fontsize=9)


def curves(x: Tensor, **lines: Tensor) -> None:
    """Several functions of the same numbers in one plot: the first wide, the others dashed on top
    of it."""
    _, (axes,) = figure(width=5.6, height=3.1)
    styles: tuple[dict[str, Any], ...] = (
        {"color": SKY, "linewidth": 6},
        {"color": RED, "linestyle": "--"},
        {"color": BLACK, "linestyle": ":"},
    )
    for (name, y), style in zip(lines.items(), styles, strict=False):
        axes.plot(x.flatten(), y.detach().flatten(), label=name.replace("_", " "), **style)
    axes.set_xlabel("x")
    axes.legend(frameon=False, loc="upper center")


def _numbered(axes, image: Tensor, tokens: int, title: str) -> None:
    """A picture, the borders of its squares, and the number of each."""
    picture(axes, image, title)
    grid = round(tokens**0.5)
    size = image.shape[-1] // grid
    for i in range(grid + 1):
        axes.axvline(i * size - 0.5, color=ORANGE, linewidth=1)
        axes.axhline(i * size - 0.5, color=ORANGE, linewidth=1)
    label = {
        "facecolor": BLACK,
        "edgecolor": "none",
        "alpha": 0.65,
        "pad": 1,
    }  # readable on ink too
    for i in range(tokens):
        row, column = divmod(i, grid)
        axes.text(
            column * size - 0.1,
            row * size - 0.1,
            str(i),
            color="white",
            ha="left",
            va="top",
            fontsize=8,
            bbox=label,
        )


def _tokens_by_numbers(axes, values: Tensor, label: str) -> None:
    """Names for the axes of a heat map with a row for each token."""
    axes.set_aspect("auto")
    axes.set_yticks(range(0, len(values), 5))
    axes.set_ylabel("token")
    axes.set_xlabel(f"{label} (0 to {values.shape[1] - 1})")
