"""Figures of notebook 02: one attention head as a diagram, tokens that look at each other, heat maps of weights."""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor, nn

from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW, figure, heat, picture


def one_head(tokens: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> Figure:
    """A head as boxes and arrows; every shape is that of the tensor that the step really gave."""
    q, k, v = w_q(tokens), w_k(tokens), w_v(tokens)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v

    drawn, (axes,) = figure(width=10.5, height=4.1)
    boxes: tuple[tuple[str, str, Tensor, float, float, str], ...] = (
        ("x", "tokens", tokens, 0, 1, YELLOW),
        ("q", "queries: w_q(x)", q, 2, 2, SKY),
        ("k", "keys: w_k(x)", k, 2, 1, SKY),
        ("v", "values: w_v(x)", v, 2, 0, GREEN),
        ("scores", "scores: q kᵀ / √d", scores, 4, 1.5, ORANGE),
        ("weights", "weights: softmax", weights, 6, 1.5, PINK),
        ("output", "output: weights @ v", output, 8, 0.75, GREEN),
    )
    middle = {name: (x + 0.75, y + 0.25) for name, _, _, x, y, _ in boxes}
    for _, label, tensor, x, y, colour in boxes:
        box = FancyBboxPatch((x, y), 1.5, 0.5, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.45)
        axes.add_patch(box)
        axes.text(x + 0.75, y + 0.36, label, ha="center", va="center", fontsize=10)
        axes.text(x + 0.75, y + 0.11, str(list(tensor.shape)), ha="center", va="center", fontsize=9, family="monospace")
    for start, end in (
        ("x", "q"), ("x", "k"), ("x", "v"), ("q", "scores"), ("k", "scores"), ("scores", "weights"),
        ("weights", "output"), ("v", "output"),
    ):  # fmt: skip
        (x0, y0), (x1, y1) = middle[start], middle[end]
        axes.annotate("", (x1 - 0.82, y1), (x0 + 0.82, y0), arrowprops={"arrowstyle": "->", "lw": 1.3})
    axes.set_xlim(-0.15, 9.65)
    axes.set_ylim(-0.15, 2.65)
    axes.set_axis_off()
    return drawn


def chosen_tokens(image: Tensor, patch_size: int, chosen: list[int]) -> Figure:
    """A picture, uint8 (h, w), cut into patches, the chosen ones framed and counted; each of them large beside it."""
    drawn, axes = figure(1, 1 + len(chosen), width=2.3 * (1 + len(chosen)), height=2.6)
    picture(axes[0], image, "the digit, and our tokens")
    _grid(axes[0], image.shape[-1], patch_size)
    across = image.shape[-1] // patch_size
    for number, patch in enumerate(chosen):
        row, column = divmod(patch, across)
        top, left = row * patch_size, column * patch_size
        cut = image[top : top + patch_size, left : left + patch_size].float() / 255
        frame = Rectangle((left - 0.1, top - 0.1), patch_size - 0.8, patch_size - 0.8, fill=False, ec=ORANGE, lw=2.5)
        axes[0].add_patch(frame)
        # the number stands in the darker half, so that it hides no ink
        half = patch_size // 2
        right = cut[:, half:].sum() < cut[:, :half].sum()
        axes[0].text(
            left + (patch_size - 1 if right else 0), top + 0.1, str(number), ha="right" if right else "left", va="top",
            fontsize=9, weight="bold", color=BLACK, bbox={"facecolor": ORANGE, "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        _patch(axes[1 + number], cut, f"token {number}")
    return drawn


def mixed_tokens(tokens: Tensor, weights: Tensor, output: Tensor) -> Figure:
    """Weights of a few tokens that are patches: who looks (rows), at whom (columns), and the mean that comes out.

    Args:
        tokens, output: (tokens, pixels), pixels of a square patch from 0 to 1.
        weights: (tokens, tokens), rows sum to 1.
    """
    count, size = len(tokens), math.isqrt(tokens.shape[-1])
    drawn, axes = figure(count + 1, count + 2, width=1.3 * (count + 2), height=1.25 * (count + 1))
    for cell in axes:
        cell.set_axis_off()

    def at(row: int, column: int) -> Axes:
        return axes[row * (count + 2) + column]

    at(0, 0).text(1, 0, "looks at →", ha="right", va="bottom", fontsize=10, transform=at(0, 0).transAxes)
    at(0, count + 1).text(0.5, 0.05, "output", ha="center", fontsize=11, transform=at(0, count + 1).transAxes)
    for i in range(count):
        _patch(at(0, i + 1), tokens[i].reshape(size, size), f"token {i}")
        _patch(at(i + 1, 0), tokens[i].reshape(size, size), f"token {i}")
        _patch(at(i + 1, count + 1), output[i].reshape(size, size))
        for j in range(count):
            cell, weight = at(i + 1, j + 1), weights[i, j].item()
            heat(cell, weights[i : i + 1, j : j + 1], low=0, high=1)
            colour = "black" if weight > 0.5 else "white"
            cell.text(0, 0, f"{weight:.2f}", ha="center", va="center", color=colour, fontsize=12)
    return drawn


def why_root_d(
    sizes: list[int],
    variances: list[list[float]],
    entropies: list[list[float]],
    rows: list[Tensor],
    largest: float,
    names: tuple[str, str],
) -> Figure:
    """How scores spread and rows of weights sharpen as d grows, plain (solid, circles) and divided (dashed, squares).

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
        for name, line, (colour, style) in zip(names, zip(*values, strict=True), looks, strict=True):
            part.plot(sizes, line, style, color=colour, label=name)
        part.set_xscale("log", base=2)
        part.set_xticks(sizes, [str(size) for size in sizes])
        part.set_xlabel("d, numbers in a query")
        part.set_title(title)
    axes[0].set_yscale("log", base=2)
    axes[0].set_yticks(sizes, [str(size) for size in sizes])
    axes[0].legend(frameon=False)
    axes[1].axhline(largest, color=BLACK, linestyle=":", lw=1)
    axes[1].text(sizes[0], largest, "all weights equal", va="bottom", fontsize=9)
    axes[1].set_ylim(0, 1.15 * largest)
    for name, row, (colour, _), shift, hatch in zip(names, rows, looks, (-0.2, 0.2), ("", "//"), strict=True):
        places = [i + shift for i in range(len(row))]
        axes[2].bar(places, row, width=0.4, color=colour, hatch=hatch, edgecolor="white", label=name)
    axes[2].set_ylim(0, 1.05)
    axes[2].set_xticks([])
    axes[2].set_xlabel(f"{len(rows[0])} keys")
    axes[2].set_title(f"one row of weights, d = {sizes[-1]}")
    axes[2].legend(frameon=False)
    return drawn


def shuffled(image: Tensor, patch_size: int, order: Tensor, weights: Tensor, weights_shuffled: Tensor) -> Figure:
    """A picture, (h, w), and the same with its patches in another order, each beside a head's weights for it."""
    across = image.shape[-1] // patch_size
    # (h, w) -> (n_h, p, n_w, p) -> (n_h, n_w, p, p) -> (patches, p, p)
    patches = image.reshape(across, patch_size, across, patch_size).transpose(1, 2).reshape(-1, patch_size, patch_size)
    mixed = patches[order].reshape(across, across, patch_size, patch_size).transpose(1, 2).reshape(image.shape)
    drawn, axes = figure(1, 4, width=11.5, height=3.2)
    high = weights.max().item()
    for left, shown, values, name in ((0, image, weights, "in order"), (2, mixed, weights_shuffled, "shuffled")):
        picture(axes[left], shown, f"patches {name}")
        _grid(axes[left], image.shape[-1], patch_size)
        heat(axes[left + 1], values, f"weights, {name}", low=0, high=high)
        axes[left + 1].set_xlabel("keys")
        axes[left + 1].set_ylabel("queries")
    return drawn


def weight_maps(maps: dict[str, Tensor]) -> Figure:
    """Square matrices of weights side by side on one colour scale, the sum of each row to the right of it."""
    drawn, axes = figure(1, len(maps), width=3 * len(maps), height=3.3)
    for part, (name, values) in zip(axes, maps.items(), strict=True):
        heat(part, values, name, low=0, high=1, digits=2)
        part.set_xlabel("keys")
        for row, total in enumerate(values.sum(dim=-1).tolist()):
            part.text(len(values) - 0.4, row, f"Σ {total:.2f}", va="center", fontsize=9)
    axes[0].set_ylabel("queries")
    return drawn


def _grid(axes: Axes, side: int, patch_size: int) -> None:
    for line in torch.arange(patch_size, side, patch_size).tolist():
        axes.axhline(line - 0.5, color=SKY, lw=1)
        axes.axvline(line - 0.5, color=SKY, lw=1)


def _patch(axes: Axes, patch: Tensor, title: str = "") -> None:
    """A patch on the scale 0 to 1, framed, so that a black one has an edge."""
    axes.imshow(patch.detach(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()
    axes.add_patch(Rectangle((-0.5, -0.5), *patch.shape, fill=False, edgecolor=SKY, lw=2))
