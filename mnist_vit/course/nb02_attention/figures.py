"""Figures of notebook 02: nine patches and the question, one query by hand, a head as a diagram,
trained maps."""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor, nn

from ...datasets import MNIST_MEAN, MNIST_STD
from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW, figure, heat, picture
from ..ladder import PATCH, interval, stored


def one_head(tokens: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> Figure:
    """A head as boxes and arrows; every shape is that of the tensor that the step really gave."""
    q, k, v = w_q(tokens), w_k(tokens), w_v(tokens)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v

    drawn, (axes,) = figure(width=10.5, height=4.1)
    boxes: tuple[tuple[str, str, Tensor, float, float, str], ...] = (
        ("x", "tokens x", tokens, 0, 1, YELLOW),
        ("q", "queries q", q, 2, 2, SKY),
        ("k", "keys k", k, 2, 1, SKY),
        ("v", "values v", v, 2, 0, GREEN),
        ("scores", "scores", scores, 4, 1.5, ORANGE),
        ("weights", "weights", weights, 6, 1.5, PINK),
        ("output", "output", output, 8, 0.75, GREEN),
    )
    middle = {name: (x + 0.75, y + 0.25) for name, _, _, x, y, _ in boxes}
    for _, label, tensor, x, y, colour in boxes:
        box = FancyBboxPatch(
            (x, y), 1.5, 0.5, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45
        )
        axes.add_patch(box)
        axes.text(x + 0.75, y + 0.36, label, ha="center", va="center", fontsize=10)
        axes.text(
            x + 0.75,
            y + 0.11,
            str(list(tensor.shape)),
            ha="center",
            va="center",
            fontsize=9,
            family="monospace",
        )
    for start, end in (
        ("x", "q"),
        ("x", "k"),
        ("x", "v"),
        ("q", "scores"),
        ("k", "scores"),
        ("scores", "weights"),
        ("weights", "output"),
        ("v", "output"),
    ):
        (x0, y0), (x1, y1) = middle[start], middle[end]
        axes.annotate(
            "", (x1 - 0.82, y1), (x0 + 0.82, y0), arrowprops={"arrowstyle": "->", "lw": 1.3}
        )
    axes.set_xlim(-0.15, 9.65)
    axes.set_ylim(-0.15, 2.65)
    axes.set_axis_off()
    return drawn


def question(images: Tensor, again: Tensor) -> Figure:
    """Pictures of nine patches, normalised, (n, 1, 21, 21), the first patch framed, the right
    answer as title."""
    drawn, axes = figure(1, len(images), width=2.3 * len(images), height=2.6)
    for part, image, yes in zip(axes, images, again.tolist(), strict=True):
        _nine(part, image, "yes" if yes else "no")
    return drawn


def one_query(
    patches: Tensor, scores: Tensor, weights: Tensor, output: Tensor | None = None
) -> Figure:
    """Nine patches, (9, 49), from 0 to 1, each with the score and the weight that the first one
    gives it.

    ``output``, (49,), is drawn at the right end: the weighted mean of the patches.
    """
    count = len(patches)
    drawn, axes = figure(
        1, count + (output is not None), width=1.15 * (count + (output is not None)), height=1.9
    )
    best = int(weights.argmax())
    for i, part in enumerate(axes[:count]):
        _patch(
            part,
            patches[i],
            f"patch {i}" + (", query" if i == 0 else ""),
            ORANGE if i == 0 else SKY,
        )
        told = f"score {scores[i]:.1f}\n{100 * weights[i]:.0f} %"
        part.text(
            3,
            7.1,
            told,
            ha="center",
            va="top",
            fontsize=10,
            weight="bold" if i == best else "normal",
        )
    if output is not None:
        _patch(axes[-1], output, "output", GREEN)
    return drawn


def moved(image: Tensor, output: Tensor) -> Figure:
    """A picture (h, w) cut into patches, and what a head gathered for each of its patches,
    (patches, pixels)."""
    size = math.isqrt(output.shape[-1])
    across = image.shape[-1] // size
    # (patches, p * p) -> (n_h, n_w, p, p) -> (n_h, p, n_w, p) -> (h, w)
    gathered = output.reshape(across, across, size, size).transpose(1, 2).reshape(image.shape)
    drawn, axes = figure(1, 2, width=5.4, height=2.9)
    for part, shown, title in (
        (axes[0], image, "the patches"),
        (axes[1], gathered.detach(), "what each one gathers"),
    ):
        picture(part, shown, title)
        _grid(part, image.shape[-1], size)
    return drawn


def looks(images: Tensor, weights: Tensor, again: Tensor) -> Figure:
    """Where the first patch looks: pictures of nine patches above, the weights of the first one,
    (n, 9), below."""
    drawn, axes = figure(2, len(images), width=2.3 * len(images), height=5.2)
    for i, (image, row) in enumerate(zip(images, weights, strict=True)):
        _nine(axes[i], image, "it is there again" if again[i] else "it is not")
        below = axes[len(images) + i]
        heat(below, 100 * row.reshape(3, 3), "weights in %", low=0, high=100, digits=0)
        below.add_patch(Rectangle((-0.47, -0.47), 0.94, 0.94, fill=False, edgecolor=ORANGE, lw=3))
    return drawn


def why_root_d(
    sizes: list[int],
    variances: list[list[float]],
    entropies: list[list[float]],
    rows: list[Tensor],
    largest: float,
    names: tuple[str, str],
) -> Figure:
    """How scores spread and rows of weights sharpen as d grows, plain (solid, circles) and divided
    (dashed, squares).

    Args:
        sizes: the values of d.
        variances, entropies: for each d a pair, plain and divided.
        rows: (keys,) each: one row of weights at the largest d, plain and divided.
        largest: the entropy of a row that is the same everywhere.
        names: what the two are called.
    """
    drawn, axes = figure(1, 3, width=11.5, height=3.3)
    looks = ((RED, "o-"), (BLUE, "s--"))
    for part, values, title in (
        (axes[0], variances, "variance of the scores"),
        (axes[1], entropies, "entropy of a row"),
    ):
        for name, line, (colour, style) in zip(
            names, zip(*values, strict=True), looks, strict=True
        ):
            part.plot(sizes, line, style, color=colour, label=name)
        part.set_xscale("log", base=2)
        part.set_xticks(sizes, [str(size) for size in sizes])
        part.set_xlabel("d, numbers in a query")
        part.set_title(title)
    axes[0].set_yscale("log", base=2)
    axes[0].set_yticks(sizes, [str(size) for size in sizes])
    axes[0].legend(frameon=False)
    axes[1].axhline(largest, color=BLACK, linestyle=":", lw=1)
    above = {"xytext": (0, 3), "textcoords": "offset points"}
    axes[1].annotate("all weights equal", (sizes[0], largest), **above, va="bottom", fontsize=9)
    axes[1].set_ylim(0, 1.15 * largest)
    for name, row, (colour, _), shift, hatch in zip(
        names, rows, looks, (-0.2, 0.2), ("", "//"), strict=True
    ):
        places = [i + shift for i in range(len(row))]
        axes[2].bar(
            places, row, width=0.4, color=colour, hatch=hatch, edgecolor="white", label=name
        )
    axes[2].set_ylim(0, 1.05)
    axes[2].set_xticks([])
    axes[2].set_xlabel(f"{len(rows[0])} keys")
    axes[2].set_title(f"one row of weights, d = {sizes[-1]}")
    axes[2].legend(frameon=False)
    return drawn


def _nine(axes: Axes, image: Tensor, title: str) -> None:
    """A picture of nine patches, normalised, with gaps between them; the frame of the first one
    lies in the gaps."""
    step = PATCH + 1
    side = 3 * step + 1
    apart = torch.full((side, side), torch.nan)  # not drawn
    for row in range(3):
        for column in range(3):
            patch = image[0, row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
            apart[row * step + 1 : (row + 1) * step, column * step + 1 : (column + 1) * step] = (
                patch
            )
    axes.add_patch(Rectangle((-0.5, -0.5), side, side, facecolor=SKY, zorder=-1))
    picture(axes, apart * MNIST_STD + MNIST_MEAN, title)
    axes.add_patch(Rectangle((0, 0), step, step, fill=False, edgecolor=ORANGE, lw=3))


def _grid(axes: Axes, side: int, patch_size: int) -> None:
    for line in torch.arange(patch_size, side, patch_size).tolist():
        axes.axhline(line - 0.5, color=SKY, lw=1)
        axes.axvline(line - 0.5, color=SKY, lw=1)


def _patch(axes: Axes, patch: Tensor, title: str = "", colour: str = SKY) -> None:
    """A patch, (pixels,), on the scale 0 to 1, framed, so that a black one has an edge."""
    side = math.isqrt(len(patch))
    axes.imshow(
        patch.detach().reshape(side, side), cmap="gray", vmin=0, vmax=1, interpolation="nearest"
    )
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()
    axes.add_patch(Rectangle((-0.5, -0.5), side, side, fill=False, edgecolor=colour, lw=2))


def other_rates() -> str:
    """The head with and without the root at two learning rates: stored, not drawn."""
    lines = []
    for shown, rate in (("1e-2", "0.01"), ("3e-4", "0.0003")):
        right = stored(f"same_head_at_{rate}", "measured")["percent"]
        without = stored(f"same_no_root_at_{rate}", "measured")["percent"]
        gain, half = interval(without, right)
        seeds = f"{_span(without)} without √d, {_span(right)} with it"
        difference = f"without minus with: {gain:+.1f} ± {half:.1f}"
        lines.append(f"learning rate {shown}: {seeds}; {difference}")
    return "\n".join(lines)


def _span(percent: list[float]) -> str:
    return f"{min(percent):.0f} to {max(percent):.0f} %"
