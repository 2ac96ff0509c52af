"""Figures of notebook 12: two models side by side, curves of a run, maps beside their mean, dots of all ablations."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from ..drawing import BLACK, BLUE, GREEN, ORANGE, RED, SKY, STYLE, YELLOW, figure, heat, picture
from ..nb08_evaluation import figures as evaluation


def two_models(models: dict[str, nn.Module]) -> Figure:
    """A row of boxes for each model, by name: the same parts, each over the shape that it gave for one image."""
    drawn, (axes,) = figure(width=12, height=0.3 + 1.3 * len(models))
    for row, (name, model) in enumerate(models.items()):
        bottom = -1.25 * row
        axes.text(-0.1, bottom + 0.78, name, fontsize=10, weight="bold")
        for column, (part, shape) in enumerate(_stages(model)):
            left, colour = 1.9 * column, (YELLOW, SKY, SKY, GREEN, GREEN, ORANGE)[column]
            box = FancyBboxPatch((left, bottom), 1.4, 0.5, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45)
            axes.add_patch(box)
            axes.text(left + 0.7, bottom + 0.35, part, ha="center", va="center", fontsize=9.5)
            axes.text(left + 0.7, bottom + 0.12, shape, ha="center", va="center", fontsize=9, family="monospace")
            if column:
                line = ((left - 0.07, bottom + 0.25), (left - 0.43, bottom + 0.25))
                axes.annotate("", *line, arrowprops={"arrowstyle": "->"})
    axes.set_xlim(-0.2, 11.1)
    axes.set_ylim(1.1 - 1.25 * len(models), 1.0)
    axes.set_axis_off()
    return drawn


def _stages(model: nn.Module) -> list[tuple[str, str]]:
    """(part, shape) of what one blank image becomes on its way through the model, recorded as it runs."""
    image = torch.zeros(1, model.in_channels, model.image_size, model.image_size)
    seen = [("image", image.shape)]
    parts = {
        "patches": model.conv_proj,
        "tokens": model.encoder.dropout,
        f"{len(model.encoder.layers)} blocks": model.encoder.layers,
        "last norm": model.encoder.ln,
        "logits": model.heads,
    }
    handles = [
        part.register_forward_hook(lambda module, args, output, name=name: seen.append((name, output.shape)))
        for name, part in parts.items()
    ]
    with torch.no_grad():
        model(image)
    for handle in handles:
        handle.remove()
    return [(name, str(list(shape))) for name, shape in seen]


def curves(history: Sequence[dict[str, float]]) -> Figure:
    """Loss, accuracy and learning rate after each epoch of a stored run."""
    drawn, (loss, accuracy, rate) = figure(1, 3, width=12, height=3.2)
    epochs = [row["epoch"] for row in history]
    for axes, name, factor in ((loss, "loss", 1), (accuracy, "accuracy", 100)):
        for prefix, style, colour, label in (
            ("", "-", BLUE, "training, as it passed"),
            ("validation_", "--", RED, "validation"),
        ):
            axes.plot(epochs, [factor * row[prefix + name] for row in history], style, color=colour, label=label)
        axes.legend(frameon=False)
    loss.set_title("loss")
    accuracy.set_title("accuracy in %")
    rate.plot(epochs, [row["learning_rate"] for row in history], color=GREEN)
    rate.set_title("learning rate")
    for axes in (loss, accuracy, rate):
        axes.set_xlabel("epoch")
    return drawn


def confusion(matrix: Tensor, classes: Sequence[str], title: str) -> Figure:
    """A confusion matrix whose classes have long names."""
    drawn = evaluation.confusion(matrix, classes, title)
    drawn.axes[0].set_xticks(range(len(classes)), classes, rotation=40, ha="right", rotation_mode="anchor")
    return drawn


def heads_and_mean(image: Tensor, maps: Tensor) -> Figure:
    """An image, the mean of all its maps, and each map, layer by layer; each map has its own colours.

    Args:
        image: uint8, (c, h, w).
        maps: (num_layers, num_heads, n_h, n_w).
    """
    layers, heads = maps.shape[:2]
    with plt.rc_context(STYLE):
        drawn = plt.figure(figsize=(1.55 * (heads + 2.4), 1.65 * layers), layout="constrained")
    grid = drawn.add_gridspec(layers, heads + 2)
    middle = layers // 2
    picture(drawn.add_subplot(grid[:middle, :2]), image, "the image")
    heat(drawn.add_subplot(grid[middle:, :2]), maps.mean(dim=(0, 1)), f"mean of all {layers * heads} maps")
    for layer in range(layers):
        for head in range(heads):
            axes = drawn.add_subplot(grid[layer, 2 + head])
            heat(axes, maps[layer, head])
            axes.set_title(f"layer {layer}, head {head}", fontsize=8.5)
    return drawn


def some_images(images: Tensor, names: Sequence[str], called: Sequence[str]) -> Figure:
    """Colour images, uint8 (n, 3, h, w), each under its class and what it was taken for."""
    drawn, axes = figure(1, len(images), width=1.45 * len(images), height=2.0)
    for part, image, name, said in zip(axes, images, names, called, strict=True):
        picture(part, image)
        mark = "✓" if said == name else "✗"
        part.set_title(f"{name}\n{mark} {said}", fontsize=9, color=BLACK if said == name else RED)
    return drawn


def judge(base: Sequence[float], runs: Sequence[float]) -> str:
    """better or worse if the means differ by more than the larger spread (largest minus smallest run), else unclear."""
    difference = sum(runs) / len(runs) - sum(base) / len(base)
    spread = max(max(values) - min(values) for values in (base, runs))
    return "unclear" if abs(difference) <= spread else "better" if difference > 0 else "worse"


def dots(accuracy: dict[str, Sequence[float]], words: dict[str, str]) -> Figure:
    """A row for each variant: its runs as small dots, their mean as a mark; the base as a line, its spread as a band.

    Args:
        accuracy: accuracies of the runs by variant, in percent; the first one is the base.
        words: what each variant is, to write beside its row.
    """
    base = next(iter(accuracy.values()))
    drawn, (axes,) = figure(width=10, height=1.2 + 0.31 * len(accuracy))
    axes.axvspan(min(base), max(base), color=SKY, alpha=0.3, lw=0)
    axes.axvline(sum(base) / len(base), color=BLACK, lw=1)
    looks = {"better": (GREEN, "^"), "worse": (RED, "v"), "unclear": (BLUE, "D")}
    for place, runs in enumerate(accuracy.values()):
        colour, mark = looks[judge(base, runs)]
        axes.plot(sum(runs) / len(runs), place, mark, color=colour, ms=9, alpha=0.75)
        axes.plot(runs, [place] * len(runs), "o", color=BLACK, ms=3.5, mew=0)
    for verdict, (colour, mark) in looks.items():
        label = "the base, or too close to tell" if verdict == "unclear" else verdict
        axes.plot([], [], mark, color=colour, ms=8, label=label)
    axes.plot([], [], "o", color=BLACK, ms=3.5, label="one run")
    axes.set_yticks(range(len(accuracy)), [words[name] for name in accuracy])
    axes.set_ylim(len(accuracy) - 0.4, -0.6)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("accuracy on the 5,000 validation digits, in %")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=4, fontsize=9)
    return drawn
