"""Figures of notebook 00: the map of the course, digits with what the model reads, one attention map."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from ..drawing import BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW, figure, picture

LATER = (
    "07 training", "08 evaluation", "09 attention\nmaps", "10 testing\nthe maps", "11 a pretrained\nmodel",
    "12 colour\npictures",
)  # fmt: skip


def course_map(model: nn.Module) -> Figure:
    """Which notebook builds which part: names and numbers of parameters are read off the model."""
    encoder, block = model.encoder, model.encoder.layers[0]
    repeats = len(encoder.layers)
    drawn, (axes,) = figure(width=10.5, height=5.6)
    _part(axes, 0, 1.7, 12.4, 5.2, "06", model, "0.6")
    _part(axes, 0.3, 2.2, 1.7, 3.6, "06", model.conv_proj, ORANGE, "patches\nto tokens")
    _part(axes, 2.4, 2.0, 7.7, 4.0, "05", encoder, SKY)
    _box(axes, 2.7, 2.5, 1.3, 2.4, f"05\nposition\nembedding\n{encoder.pos_embedding.numel():,}", GREEN)
    for k in range(repeats - 1, 0, -1):  # the blocks behind the first one
        _box(axes, 4.4 + 0.14 * k, 2.35 + 0.14 * k, 4.3, 2.6, "", BLUE)
    _part(axes, 4.4, 2.35, 4.3, 2.6, "04", block, BLUE, f"{repeats} of them, one after the other")
    _part(axes, 4.6, 2.55, 2.1, 1.3, "02, 03", block.self_attention, PINK)
    _part(axes, 6.95, 2.55, 1.55, 1.3, "01", block.mlp, YELLOW)
    _box(axes, 9.1, 2.5, 0.75, 2.4, f"04\nnorm\n{_count(encoder.ln)}", GREEN)
    _box(
        axes,
        10.5,
        2.2,
        1.6,
        3.6,
        f"06\nheads\n{_count(model.heads)}\n\nclass token\nto {model.num_classes}\nnumbers",
        ORANGE,
    )
    for start, end in ((2.06, 2.34), (4.06, 4.34), (8.9, 9.05), (10.16, 10.44)):
        axes.annotate("", (end, 3.6), (start, 3.6), arrowprops={"arrowstyle": "->"})
    for i, name in enumerate(LATER):
        _box(axes, 2.09 * i, 0.0, 1.95, 0.9, name, "white", 1.0, "--")
        if i:
            axes.annotate("", (2.09 * i - 0.01, 0.45), (2.09 * i - 0.15, 0.45), arrowprops={"arrowstyle": "->"})
    axes.text(0, 1.25, "after that:", va="center")
    axes.set_xlim(-0.15, 12.55)
    axes.set_ylim(-0.15, 7.05)
    axes.set_axis_off()
    return drawn


def readings(images: Tensor, truth: Tensor, probabilities: Tensor) -> Figure:
    """Pictures, uint8 (n, 1, h, w), each with the class the model finds likeliest and its probability."""
    columns = 5
    rows = math.ceil(len(images) / columns)
    drawn, panels = figure(rows, columns, width=8, height=1.95 * rows)
    for axes in panels:
        axes.set_axis_off()
    for axes, image, label, values in zip(panels, images, truth.tolist(), probabilities, strict=False):
        best = int(values.argmax())
        mark = "" if best == label else f", but is {label}"
        picture(axes, image, f"read as {best}{mark}\nprobability {values[best]:.2f}")
        axes.title.set_color("black" if best == label else RED)
    return drawn


def attention_beside(image: Tensor, weights: Tensor) -> Figure:
    """A picture, uint8 (1, h, w), beside one attention map, (n_h, n_w), with the patches as squares."""
    drawn, (left, right) = figure(columns=2, width=7.4, height=3.5)
    picture(left, image, f"the digit, in {weights.shape[0]} × {weights.shape[1]} patches")
    step = image.shape[-1] / weights.shape[-1]
    for k in range(weights.shape[-1] + 1):
        left.axhline(k * step - 0.5, color=ORANGE, lw=0.4)
        left.axvline(k * step - 0.5, color=ORANGE, lw=0.4)
    shown = right.imshow(weights.detach().cpu(), cmap="viridis", vmin=0, interpolation="nearest")
    right.set_title("where the class token looks")
    right.set_axis_off()
    drawn.colorbar(shown, ax=right, label="attention weight", shrink=0.85)
    return drawn


def _count(module: nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in module.parameters()):,}"


def _part(
    axes: Axes, x: float, y: float, w: float, h: float, number: str, module: nn.Module, colour: str, note: str = ""
) -> None:
    """A box with the notebook's number, the class's name and its parameters on top, a note below that."""
    _box(axes, x, y, w, h, "", colour)
    text = f"{number}  {type(module).__name__}" if w > 3 else f"{number}\n{type(module).__name__}"
    separator = ": " if w > 3 else "\n"
    lines = f"{text}{separator}{_count(module)}" + (" parameters" if w > 5 else "")
    axes.text(x + w / 2, y + h - 0.12, lines, ha="center", va="top", fontsize=10)
    if note:
        axes.text(x + w / 2, y + h - (0.5 if w > 3 else 1.75), note, ha="center", va="top", fontsize=9)


def _box(
    axes: Axes, x: float, y: float, w: float, h: float, text: str, colour: str, alpha: float = 0.3, line: str = "-"
) -> None:
    style = "round,pad=0.0,rounding_size=0.1"
    for face, strength in (("white", 1.0), (colour, alpha)):  # on white, so that colours do not mix
        axes.add_patch(FancyBboxPatch((x, y), w, h, boxstyle=style, facecolor=face, alpha=strength, edgecolor="none"))
    axes.add_patch(FancyBboxPatch((x, y), w, h, boxstyle=style, fill=False, linestyle=line, edgecolor="0.25"))
    axes.text(x + w / 2, y + h / 2, text, ha="center", va="center", fontsize=9)
