"""Figures of notebook 06: the whole model on one picture, its windows, and the suspects' runs."""

import math
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor, nn

from ..drawing import BLACK, BLUE, GREEN, ORANGE, SKY, figure

COLOURS = "RdBu_r"  # of numbers with a sign: red above zero, blue below


@torch.no_grad()
def whole_model(model: nn.Module, image: Tensor) -> Figure:
    """One grey picture, normalised, (1, 1, h, w), on its way through the model.

    Every number drawn is the model's own. Shapes are read off the tensors as they pass, by hooks
    that are taken away again.
    """
    (tokens, encoded), (read, logits) = _passed(model, image)
    drawn, (axes,) = figure(width=10.5, height=7.6)
    left = [4.0 + 0.62 * i for i in range(tokens.shape[1])]  # where each token's column begins
    right = left[-1] + 0.5
    _draw_patches(axes, image, model.patch_size, left)
    _draw_encoder(axes, tokens, encoded, len(model.encoder.layers), left)
    _draw_heads(axes, read, logits, left[0])
    axes.set_xlim(-0.2, right + 0.3)
    axes.set_ylim(-0.4, 10.6)
    axes.set_axis_off()
    return drawn


def _passed(model: nn.Module, image: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What the encoder and the heads are given, and what they give."""
    seen: list[tuple[Tensor, Tensor]] = []

    def keep(module: nn.Module, args: Any, output: Tensor) -> None:
        seen.append((args[0], output))

    handles = [part.register_forward_hook(keep) for part in (model.encoder, model.heads)]
    try:
        model(image)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _draw_patches(axes: Axes, image: Tensor, p: int, left: list[float]) -> None:
    """The picture, and its patches in a row behind the class token."""
    paper = (float(image.min()), float(image.max()))
    _place(axes, image[0, 0], 0, 7.6, 2.8, 2.8, paper)
    steps = image.shape[-1] // p
    for k in range(steps + 1):
        axes.plot([2.8 * k / steps] * 2, [7.6, 10.4], color=ORANGE, lw=0.8)
        axes.plot([0, 2.8], [7.6 + 2.8 * k / steps] * 2, color=ORANGE, lw=0.8)
    axes.text(1.4, 7.35, f"the picture\n{tuple(image.shape)}", ha="center", va="top")
    patches = nn.functional.unfold(image, p, stride=p)[0].T
    for i, x in enumerate(left):
        if i:
            _place(axes, patches[i - 1].view(p, p), x, 8.9, 0.5, 0.5, paper)
        axes.text(x + 0.25, 9.55, str(i), ha="center", fontsize=9)
    axes.add_patch(Rectangle((left[0], 8.9), 0.5, 0.5, facecolor=ORANGE, edgecolor="black"))
    axes.text(left[0] + 0.25, 9.15, "class", ha="center", va="center", fontsize=7)
    title = f"{len(left)} tokens: the class token, then {len(left) - 1} patches"
    axes.text(left[0], 10.1, title, fontsize=10)
    _arrow(axes, (2.95, 9.15), (3.8, 9.15))


def _draw_encoder(
    axes: Axes, tokens: Tensor, encoded: Tensor, blocks: int, left: list[float]
) -> None:
    """The tokens as numbers, the encoder, the tokens after it."""
    right = left[-1] + 0.5
    middle = (left[1] + right) / 2  # of the patches
    for y, values, name in ((5.6, tokens, "encoder input"), (1.9, encoded, "encoder output")):
        spread = float(values.abs().max())
        for i, x in enumerate(left):
            _place(axes, values[0, i][:, None], x, y, 0.5, 1.6, (-spread, spread), "viridis")
        axes.text(3.75, y + 0.8, f"{name}\n{tuple(values.shape)}", ha="right", va="center")
        axes.add_patch(Rectangle((left[0], y), 0.5, 1.6, fill=False, edgecolor=ORANGE, lw=2))
    layer = "conv_proj: the same linear layer for all patches"
    axes.text(middle, 7.95, layer, ha="center", va="center")
    for x in (left[0], left[1], left[-1]):
        _arrow(axes, (x + 0.25, 8.75), (x + 0.25, 7.3))
    parts = f"encoder: + position embedding, {blocks} blocks, norm"
    _box(axes, left[0], 4.1, right - left[0], 0.9, parts, SKY)
    begin = (left[1] - 0.06, 1.82)
    width = right - left[1] + 0.12
    axes.add_patch(Rectangle(begin, width, 1.76, color="white", alpha=0.65, zorder=3))
    unused = "not used by the class head"
    label = {"facecolor": "white", "edgecolor": "none"}
    axes.text(middle, 2.7, unused, ha="center", va="center", zorder=4, bbox=label)
    for x in (left[0] + 0.25, right - 0.25):
        _arrow(axes, (x, 5.5), (x, 5.1))
        _arrow(axes, (x, 4.0), (x, 3.6))


def _draw_heads(axes: Axes, read: Tensor, logits: Tensor, left: float) -> None:
    """The class token alone goes through the heads; the logits as bars."""
    _arrow(axes, (left + 0.25, 1.8), (left + 0.25, 1.25))
    axes.text(3.75, 0.75, f"class token, x[:, 0]\n{tuple(read.shape)}", ha="right", va="center")
    _box(axes, left, 0.3, 2.2, 0.85, "heads", GREEN)
    _arrow(axes, (left + 2.35, 0.72), (left + 3.1, 0.72))
    low = min(0.0, float(logits.min()))
    span = max(max(0.0, float(logits.max())) - low, 1e-9)
    # Positive logits stand on this line, negative ones hang below it.
    zero = 0.2 - 1.15 * low / span
    axes.plot([left + 3.3, left + 7.6], [zero, zero], color="black", lw=0.8)
    axes.text(left + 3.25, zero, "0", ha="right", va="center", fontsize=9)
    for i, value in enumerate(logits[0].tolist()):
        x = left + 3.4 + 0.42 * i
        height = 1.15 * value / span
        best = i == int(logits.argmax())
        colour = BLUE if best else "0.75"
        weight = "bold" if best else "normal"
        axes.add_patch(
            Rectangle((x, zero), 0.32, height, facecolor=colour, edgecolor="black", lw=0.5)
        )
        axes.text(x + 0.16, -0.2, str(i), ha="center", fontweight=weight, fontsize=9)
    axes.text(left + 7.9, 0.72, f"logits\n{tuple(logits.shape)}", va="center")


def filters(weight: Tensor) -> Figure:
    """The windows of a convolution, (windows, 1, p, p): each on a scale of its own, zero in the
    middle."""
    drawn, (axes,) = figure(width=8.6, height=2.5)
    for i, window in enumerate(weight[:, 0]):
        row, column = divmod(i, 22)
        spread = float(window.abs().max())
        _place(axes, window, 1.12 * column, -1.12 * row, 1, 1, (-spread, spread), COLOURS)
    axes.set_xlim(-0.1, 1.12 * 22)
    axes.set_ylim(-1.12 * (math.ceil(len(weight) / 22) - 1) - 0.1, 1.1)
    axes.set_aspect("equal")
    axes.set_axis_off()
    bar = drawn.colorbar(ScalarMappable(Normalize(-1, 1), COLOURS), ax=axes, shrink=0.55, pad=0.01)
    bar.set_ticks([-1, 0, 1], labels=["−largest", "0", "largest"])
    bar.outline.set_visible(False)
    return drawn


def seeds(runs: dict[str, list[float]]) -> Figure:
    """Accuracies in percent of several runs of several models, a row of dots each, with the mean as
    a line."""
    drawn, (axes,) = figure(width=7.5, height=0.34 * len(runs) + 0.9)
    for i, accuracies in enumerate(runs.values()):
        axes.plot(accuracies, [i] * len(accuracies), "o", color=BLUE, alpha=0.6)
        axes.plot([sum(accuracies) / len(accuracies)] * 2, [i - 0.3, i + 0.3], color=BLACK, lw=2)
    axes.set_yticks(range(len(runs)), list(runs))
    axes.invert_yaxis()
    axes.set_xlabel("% of 1,000 digits right; a dot is a training run, the line their mean")
    axes.grid(axis="x", color="0.9")
    return drawn


def _place(
    axes: Axes,
    values: Tensor,
    x: float,
    y: float,
    w: float,
    h: float,
    limits: tuple[float, float],
    cmap: str = "gray",
) -> None:
    """A matrix as a little picture with its lower left corner at (x, y)."""
    low, high = limits
    extent = (x, x + w, y, y + h)
    axes.imshow(
        values.detach().cpu(),
        cmap=cmap,
        vmin=low,
        vmax=high,
        extent=extent,
        interpolation="nearest",
        aspect="auto",
    )


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->"})


def _box(axes: Axes, x: float, y: float, w: float, h: float, text: str, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch((x, y), w, h, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45)
    )
    axes.text(x + w / 2, y + h / 2, text, ha="center", va="center")
