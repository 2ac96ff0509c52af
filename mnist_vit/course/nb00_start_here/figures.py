"""Figures of notebook 00: the map of the course, classified digits, attention maps, templates,
shuffled pixels, a digit in patches, average patches."""

import json
import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from ...files import shipped
from ..drawing import BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW, figure, picture

LATER = (
    "07 training",
    "08 evaluation",
    "09 attention\nmaps",
    "10 testing\nthe maps",
    "11 a pretrained\nmodel",
    "12 colour\npictures",
)


def course_map(model: nn.Module) -> Figure:
    """Which notebook builds which part: names and numbers of parameters are read off the model."""
    encoder, block = model.encoder, model.encoder.layers[0]
    repeats = len(encoder.layers)
    drawn, (axes,) = figure(width=10.5, height=5.6)
    _part(axes, 0, 1.7, 12.4, 5.2, "06", model, "0.6")
    tokens = (
        f"06\n{type(model.conv_proj).__name__}\n{_count(model.conv_proj)}\n\npatches\nto tokens"
    )
    _box(axes, 0.3, 3.6, 1.7, 2.2, tokens, ORANGE)
    _box(axes, 0.3, 2.2, 1.7, 1.2, f"06\nclass token\n{model.class_token.numel():,}", ORANGE)
    _part(axes, 2.4, 2.0, 7.7, 4.0, "05", encoder, SKY)
    _box(
        axes,
        2.7,
        2.5,
        1.3,
        2.4,
        f"05\nposition\nembedding\n{encoder.pos_embedding.numel():,}",
        GREEN,
    )
    for k in range(repeats - 1, 0, -1):  # the blocks behind the first one
        _box(axes, 4.4 + 0.14 * k, 2.35 + 0.14 * k, 4.3, 2.6, "", BLUE)
    _part(axes, 4.4, 2.35, 4.3, 2.6, "04", block, BLUE, f"{repeats} of them, one after the other")
    _box(axes, 4.5, 2.55, 0.6, 1.3, f"04\nnorm\n{_count(block.ln_1)}", GREEN)
    _part(axes, 5.2, 2.55, 1.7, 1.3, "02, 03", block.self_attention, PINK)
    _box(axes, 7.0, 2.55, 0.6, 1.3, f"04\nnorm\n{_count(block.ln_2)}", GREEN)
    _part(axes, 7.7, 2.55, 0.9, 1.3, "01", block.mlp, YELLOW)
    _box(axes, 9.25, 2.5, 0.7, 2.4, f"04\nnorm\n{_count(encoder.ln)}", GREEN)
    _box(
        axes,
        10.5,
        2.2,
        1.6,
        3.6,
        f"06\nclass head\n{_count(model.heads)}\n\nclass token\nto {model.num_classes}\nnumbers",
        ORANGE,
    )
    for start, end in ((2.06, 2.34), (4.06, 4.34), (8.88, 9.21), (10.16, 10.44)):
        axes.annotate("", (end, 3.6), (start, 3.6), arrowprops={"arrowstyle": "->"})
    for i, name in enumerate(LATER):
        _box(axes, 2.09 * i, 0.0, 1.95, 0.9, name, "white", 1.0, "--")
        if i:
            axes.annotate(
                "",
                (2.09 * i - 0.01, 0.45),
                (2.09 * i - 0.15, 0.45),
                arrowprops={"arrowstyle": "->"},
            )
    axes.text(0, 1.25, "after that:", va="center")
    axes.set_xlim(-0.15, 12.55)
    axes.set_ylim(-0.15, 7.05)
    axes.set_axis_off()
    return drawn


def readings(images: Tensor, truth: Tensor, probabilities: Tensor) -> Figure:
    """Pictures, uint8 (n, 1, h, w), each with the class the model finds likeliest and its
    probability."""
    columns = 5
    rows = math.ceil(len(images) / columns)
    drawn, panels = figure(rows, columns, width=8, height=1.95 * rows)
    for axes in panels:
        axes.set_axis_off()
    for axes, image, label, values in zip(
        panels, images, truth.tolist(), probabilities, strict=False
    ):
        best = int(values.argmax())
        mark = "" if best == label else f", but is {label}"
        picture(axes, image, f"classified as {best}{mark}\nprobability {values[best]:.2f}")
        axes.title.set_color("black" if best == label else RED)
    return drawn


def attention_beside(images: Tensor, maps: Tensor) -> Figure:
    """Pictures, uint8 (n, 1, h, w), each beside an attention map, (n, n_h, n_w), with the patches
    as squares."""
    drawn, panels = figure(columns=2 * len(images), width=4.6 * len(images), height=2.7)
    for i, (image, weights) in enumerate(zip(images, maps, strict=True)):
        left, right = panels[2 * i : 2 * i + 2]
        picture(left, image, "in patches")
        step = image.shape[-1] / weights.shape[-1]
        for k in range(weights.shape[-1] + 1):
            left.axhline(k * step - 0.5, color=ORANGE, lw=0.4)
            left.axvline(k * step - 0.5, color=ORANGE, lw=0.4)
        top = float(maps.max())  # one scale for all
        shown = right.imshow(
            weights.detach().cpu(), cmap="viridis", vmin=0, vmax=top, interpolation="nearest"
        )
        right.set_title("attention")
        right.set_axis_off()
    drawn.colorbar(shown, ax=right, label="attention weight", shrink=0.85)
    return drawn


def templates(weight: Tensor) -> Figure:
    """The weights of a linear layer on all pixels, (classes, h * w): one picture a class, for and
    against it."""
    drawn, panels = figure(2, 5, width=8, height=3.6)
    side, top = math.isqrt(weight.shape[1]), float(weight.abs().max())
    for label, (axes, values) in enumerate(zip(panels, weight.detach().cpu(), strict=True)):
        shown = axes.imshow(
            values.reshape(side, side), cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest"
        )
        axes.set_title(f"for {label}")
        axes.set_axis_off()
    drawn.colorbar(shown, ax=panels, label="weight", shrink=0.8)
    return drawn


def pairs(images: Tensor, changed: Tensor) -> Figure:
    """Pictures, uint8 (n, 1, h, w), each beside what became of it."""
    drawn, panels = figure(columns=2 * len(images), width=2 * len(images) * 1.9, height=2.1)
    for i, (image, other) in enumerate(zip(images, changed, strict=True)):
        picture(panels[2 * i], image, "a digit")
        picture(panels[2 * i + 1], other, "its pixels shuffled")
    return drawn


def cut(image: Tensor, patches: Tensor, rows: Tensor) -> Figure:
    """A picture, (h, w), cut by lines; its patches, (n, pixels), apart; and what should be them."""
    drawn, panels = figure(columns=3, width=8.4, height=3)
    across = math.isqrt(len(patches))
    step = image.shape[-1] // across
    picture(panels[0], image, "the picture")
    for k in range(1, across):
        panels[0].axhline(k * step - 0.5, color=ORANGE, lw=1)
        panels[0].axvline(k * step - 0.5, color=ORANGE, lw=1)
    picture(panels[1], _apart(patches), "16 slices")
    picture(panels[2], _apart(rows), "reshape(16, 49)")
    for axes in panels[1:]:
        axes.set_facecolor(SKY)
        axes.set_axis_on()
        axes.set_xticks([])
        axes.set_yticks([])
    return drawn


def _apart(patches: Tensor) -> Tensor:
    """Patches, (n, pixels), as the squares of one picture, with gaps that are not drawn."""
    across = math.isqrt(len(patches))
    size = math.isqrt(patches.shape[1])
    side = across * (size + 1) + 1
    tiled = torch.full((side, side), torch.nan)
    for number, patch in enumerate(patches.float()):
        top = number // across * (size + 1) + 1
        left = number % across * (size + 1) + 1
        tiled[top : top + size, left : left + size] = patch.reshape(size, size)
    return tiled


def averages(images: Tensor, patches: Tensor) -> Figure:
    """Pictures, uint8 (n, 1, h, w), and below each a patch, (n, pixels), on a scale for all."""
    drawn, panels = figure(2, len(images), width=8.4, height=2)
    size = math.isqrt(patches.shape[1])
    for number, (image, patch) in enumerate(zip(images, patches, strict=True)):
        picture(panels[number], image)
        below = panels[len(images) + number]
        below.imshow(
            patch.reshape(size, size),
            cmap="gray",
            vmin=float(patches.min()),
            vmax=float(patches.max()),
            interpolation="nearest",
        )
        below.set_axis_off()
    return drawn


def trained_on_all() -> dict[str, float]:
    """Accuracy, in percent, on the 5,000 held-out digits of three models of one size, by name:
    stored, not drawn."""
    files = {
        "larger MLP on all pixels": shipped("notebooks") / "results" / "mlp.json",
        "Vision Transformer, patches of 2": shipped("weights") / "vit_mnist.json",
        "convolutional network": shipped("notebooks") / "results" / "cnn.json",
    }
    read = {
        name: json.loads(path.read_text(encoding="utf-8"))["metrics"]
        for name, path in files.items()
    }
    return {name: 100 * metrics["validation"]["accuracy"] for name, metrics in read.items()}


def minus(percent: float, other: float, pictures: int = 5000) -> str:
    """The difference of two accuracies in points, with the 95 % interval of so many pictures.

    The two count as measured on other pictures each. Another seed's difference is not in it.
    """
    variances = [one * (100 - one) / pictures for one in (percent, other)]
    half = 1.96 * math.sqrt(sum(variances))
    return f"{percent - other:+.2f} ± {half:.2f} points"


def _count(module: nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in module.parameters()):,}"


def _part(
    axes: Axes,
    x: float,
    y: float,
    w: float,
    h: float,
    number: str,
    module: nn.Module,
    colour: str,
    note: str = "",
) -> None:
    """A box with the notebook's number, the class's name and its parameters on top, a note below
    that."""
    _box(axes, x, y, w, h, "", colour)
    text = f"{number}  {type(module).__name__}" if w > 3 else f"{number}\n{type(module).__name__}"
    separator = ": " if w > 3 else "\n"
    lines = f"{text}{separator}{_count(module)}" + (" parameters" if w > 5 else "")
    axes.text(x + w / 2, y + h - 0.12, lines, ha="center", va="top", fontsize=10 if w > 3 else 8.5)
    if note:
        axes.text(x + w / 2, y + h - 0.5, note, ha="center", va="top", fontsize=9)


def _box(
    axes: Axes,
    x: float,
    y: float,
    w: float,
    h: float,
    text: str,
    colour: str,
    alpha: float = 0.3,
    line: str = "-",
) -> None:
    style = "round,pad=0.0,rounding_size=0.1"
    for face, strength in (("white", 1.0), (colour, alpha)):  # on white, so that colours do not mix
        axes.add_patch(
            FancyBboxPatch(
                (x, y), w, h, boxstyle=style, facecolor=face, alpha=strength, edgecolor="none"
            )
        )
    axes.add_patch(
        FancyBboxPatch((x, y), w, h, boxstyle=style, fill=False, linestyle=line, edgecolor="0.25")
    )
    axes.text(x + w / 2, y + h / 2, text, ha="center", va="center", fontsize=9)
