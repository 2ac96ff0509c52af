"""Figures of notebook 03: two neighbours drawn, tokens cut into heads, the four things called
attention, maps."""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor, nn

from ...recording import record_attention
from ..drawing import BLUE, GREEN, ORANGE, PINK, STYLE, figure, heat, picture
from ..ladder.tasks import inked

COLOURS = (BLUE, ORANGE, GREEN, PINK)  # head 0, 1, 2, 3


def draw_two(patches: Tensor, drawn: Tensor, weights: Tensor) -> Figure:
    """What the middle one of nine patches was asked to draw, what it drew, and where its heads
    look.

    Args:
        patches: (n, 9, 49), a picture of 3 × 3 patches in each row of the figure.
        drawn: (n, 2, 49), its left and its upper neighbour.
        weights: (n, num_heads, 9), the row of the middle token in each head.
    """
    names = ["left:\nwanted", "drawn", "above:\nwanted", "drawn"]
    names += [f"weights of\nhead {head}" for head in range(weights.shape[1])]
    rows, columns = len(patches), 1 + len(names)
    shown, axes = figure(rows, columns, width=1.45 * columns, height=1.45 * rows + 0.4)
    low, high = float(patches.min()), float(patches.max())
    for row in range(rows):
        nine = patches[row].reshape(3, 3, 7, 7).transpose(1, 2).reshape(21, 21)
        four = [patches[row, 3], drawn[row, 0], patches[row, 1], drawn[row, 1]]
        here = axes[row * columns : (row + 1) * columns]
        for where, pixels in zip(
            here, [nine, *(part.reshape(7, 7) for part in four)], strict=False
        ):
            where.imshow(pixels, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
            where.set_axis_off()
        for x, y, colour in ((0, 7, GREEN), (7, 0, PINK)):
            here[0].add_patch(
                Rectangle((x - 0.5, y - 0.5), 7, 7, fill=False, edgecolor=colour, linewidth=2.5)
            )
        here[0].add_patch(
            Rectangle((6.5, 6.5), 7, 7, fill=False, edgecolor="white", linestyle="--")
        )
        for head in range(weights.shape[1]):
            heat(here[5 + head], weights[row, head].reshape(3, 3), "", 0, 1, digits=1)
        for where, name in zip(here, ["nine patches", *names], strict=True):
            colour = {"left:": GREEN, "above": PINK}.get(name[:5], "black")
            where.set_title(name if row == 0 else "", fontsize=9, color=colour)
    return shown


def flow(attention: nn.Module, seq_length: int) -> Figure:
    """The layer from left to right for one picture: shapes and bands are read off the layer."""
    heads, width = attention.num_heads, attention.embed_dim
    part, rows = width // heads, attention.in_proj_weight.shape[0]
    drawn, (axes,) = figure(width=12, height=4.6)

    def box(x: float, y: float, w: float, h: float, text: str, colour: str = "white") -> None:
        axes.add_patch(Rectangle((x, y), w, h, facecolor=colour, alpha=0.4))
        axes.add_patch(Rectangle((x, y), w, h, facecolor="none", edgecolor="black", linewidth=0.8))
        axes.text(x + w / 2, y + h / 2, text, ha="center", va="center", fontsize=9)

    def arrow(x_from: float, y_from: float, x_to: float, y_to: float) -> None:
        axes.annotate("", (x_to, y_to), (x_from, y_from), arrowprops={"arrowstyle": "->"})

    def label(x: float, name: str, shape: tuple[int, ...]) -> None:
        axes.text(x, 6.95, name, ha="center", va="bottom", fontsize=10)
        axes.text(
            x, -0.15, str(tuple(shape)), ha="center", va="top", fontsize=9, family="monospace"
        )

    box(0, 1.5, 1.1, 3.6, "every\ntoken\nwhole")
    label(0.55, "input", (1, seq_length, width))
    arrow(1.15, 3.3, 1.75, 3.3)

    band = 6.6 / (3 * heads)  # bands from top to bottom, as the rows of the matrix are
    for i in range(3 * heads):
        which, head = divmod(i, heads)
        box(
            1.8,
            6.6 - (i + 1) * band,
            1.6,
            band,
            f"$W_{'QKV'[which]}$, head {head}",
            COLOURS[head % 4],
        )
    label(2.6, "in_proj_weight", (rows, width))

    lane = 6.6 / heads
    for head in range(heads):
        y, colour = 6.6 - (head + 1) * lane + 0.15, COLOURS[head % 4]
        middle = y + (lane - 0.3) / 2
        arrow(3.45, middle, 3.95, middle)
        for x, w, text in (
            (4.0, 1.5, f"q, k, v\nof head {head}"),
            (6.0, 1.5, f"weights $A_{head}$\nrows sum to 1"),
            (8.0, 1.5, f"head output\n$A_{head} V_{head}$"),
        ):
            box(x, y, w, lane - 0.3, text, colour)
        arrow(5.55, middle, 5.95, middle)
        arrow(7.55, middle, 7.95, middle)
        arrow(9.55, middle, 9.95, middle)
    label(4.75, "split", (1, heads, seq_length, part))
    label(6.75, "weight", (1, heads, seq_length, seq_length))
    label(8.75, "head output", (1, heads, seq_length, part))

    strip = 1.8 / heads
    for head in range(heads):
        box(10.0 + head * strip, 1.5, strip, 3.6, f"for\nhead {head}", COLOURS[head % 4])
    label(10.9, "out_proj.weight", attention.out_proj.weight.shape)
    arrow(11.85, 3.3, 12.35, 3.3)
    box(12.4, 1.5, 1.3, 3.6, "all heads\nmixed in\nevery\nnumber")
    label(13.05, "layer output", (1, seq_length, width))

    axes.set_xlim(-0.4, 14.1)
    axes.set_ylim(-0.8, 7.6)
    axes.set_axis_off()
    return drawn


def origins(right: Tensor, wrong: Tensor) -> Figure:
    """Which token each number of each head came from; (num_heads, seq_length, head_dim) of token
    numbers both."""
    heads = right.shape[0]
    drawn, axes = figure(1, 2 * heads, width=2.6 * 2 * heads, height=3.2)
    for i, (name, cut) in enumerate((("cut and swap", right), ("one reshape", wrong))):
        for head in range(heads):
            here = axes[i * heads + head]
            heat(here, cut[head], f"{name}: head {head}", 0, float(right.max()), digits=0)
            here.set_xlabel("numbers of the head")
            here.set_ylabel("row of the head" if i + head == 0 else "")
    return drawn


def four_things(
    image: Tensor, scores: Tensor, weights: Tensor, head_outputs: Tensor, layer_output: Tensor
) -> Figure:
    """Score, weight, head output and layer output of one picture, a row for each head.

    Args:
        image: uint8, (1, h, w).
        scores, weights: the class token's row without its own column, as maps, (num_heads, n_h,
            n_w).
        head_outputs: (num_heads, seq_length, head_dim).
        layer_output: (seq_length, hidden_dim).
    """
    heads = len(scores)
    with plt.rc_context(STYLE):
        drawn = plt.figure(figsize=(12, 2.7 * heads + 0.3), layout="constrained")
        grid = drawn.add_gridspec(heads, 5, width_ratios=(1, 1.25, 1.25, 0.8, 1.2))
        picture(drawn.add_subplot(grid[:, 0]), image, "the digit")
        limit = float(head_outputs.abs().max())
        for head in range(heads):
            for column, (maps, name, low) in enumerate(
                ((scores, "1 score", None), (weights, "2 weight", 0)), 1
            ):
                here = drawn.add_subplot(grid[head, column])
                heat(here, maps[head], f"{name}, head {head}", low)
                drawn.colorbar(here.images[0], ax=here, shrink=0.75)
            here = drawn.add_subplot(grid[head, 3])
            _signed(here, head_outputs[head], f"3 head output {head}", limit)
            here.set_ylabel("token")
            here.set_xlabel(f"{head_outputs.shape[-1]} numbers")
        here = drawn.add_subplot(grid[:, 4])
        _signed(here, layer_output, "4 layer output", float(layer_output.abs().max()))
        here.set_xlabel(f"{layer_output.shape[-1]} numbers, all heads in each")
    return drawn


def contributions(parts: Tensor, bias: Tensor, output: Tensor) -> Figure:
    """One token's layer output as a sum of strips: (num_heads, hidden_dim), (hidden_dim,) and
    (hidden_dim,)."""
    rows = [(f"head {i}", part) for i, part in enumerate(parts)] + [
        ("bias", bias),
        ("sum =\nlayer output", output),
    ]
    drawn, axes = figure(len(rows), 1, width=9, height=0.62 * len(rows) + 0.6)
    limit = float(torch.cat([row for _, row in rows]).abs().max())
    for here, (name, row) in zip(axes, rows, strict=True):
        _signed(here, row[None], "", limit)
        here.set_ylabel(name, rotation=0, ha="right", va="center")
    axes[-1].set_xlabel(
        f"the {len(bias)} numbers of the class token: red is positive, blue negative, white zero"
    )
    return drawn


def wrong_and_right(
    image: Tensor, wrong: Tensor, right: Tensor, blank: list[tuple[int, int]]
) -> Figure:
    """The wrong picture of each head above the right one; two blank patches are framed, A and B.

    Args:
        image: uint8, (1, h, w).
        wrong, right: (num_heads, n_h, n_w).
        blank: (row, column) of two patches.
    """
    heads, patch = len(wrong), image.shape[-1] // wrong.shape[-1]
    with plt.rc_context(STYLE):
        drawn = plt.figure(figsize=(3 * (heads + 1), 6.2), layout="constrained")
        grid = drawn.add_gridspec(2, heads + 1)
        here = drawn.add_subplot(grid[:, 0])
        picture(here, image, "the digit")
        _frame(here, blank, patch)
        for head in range(heads):
            for row, (title, maps) in enumerate(
                ((f'WRONG: "head {head}"', wrong), (f"right: head {head}", right))
            ):
                here = drawn.add_subplot(grid[row, head + 1])
                heat(here, maps[head], title)
                _frame(here, blank, 1)
    return drawn


def left_minus_above(image: Tensor, weights: Tensor, difference: Tensor) -> Figure:
    """A digit, where the patch in its middle looks, and what each patch gets: left minus above.

    Args:
        image: (28, 28).
        weights: (2, 49), the row of the token in the middle of the 7 × 7 patches, for each head.
        difference: (49, 16), of patches of 4 × 4 pixels.
    """
    shown, axes = figure(1, 4, width=12, height=3.1)
    picture(axes[0], image, "the digit")
    for head in range(2):
        heat(axes[1 + head], weights[head].reshape(7, 7), f"weights of head {head}", 0, 1)
        axes[1 + head].add_patch(
            Rectangle((2.5, 2.5), 1, 1, fill=False, edgecolor="white", linestyle="--")
        )
    pixels = difference.reshape(7, 7, 4, 4).transpose(1, 2).reshape(28, 28)
    _signed(axes[3], pixels, "left minus above", float(pixels.abs().max()))
    axes[3].set_aspect("equal")
    return shown


def deal(split: str, n: int, generator: torch.Generator) -> Tensor:
    """Nine patches with ink in them for each of n pictures, dealt at random: (n, 9, 49)."""
    pool = inked(split)
    return pool[torch.randint(len(pool), (n, 9), generator=generator)]


@torch.no_grad()
def explained(model: nn.Module) -> float:
    """The share of the pixels' variance that the drawings explain, in percent."""
    nine = deal("validation", 2000, torch.Generator().manual_seed(9))
    return share(model(nine), nine)


@torch.no_grad()
def by_mean_row(model: nn.Module) -> float:
    """The same where the middle token's weights in a head are their mean over all pictures."""
    nine = deal("validation", 2000, torch.Generator().manual_seed(9))
    with record_attention(model) as record:
        model(nine)
    layer = model.look
    row = record[0][:, :, 4].mean(dim=0)  # (num_heads, 9)
    x = model.to_tokens(nine) + model.places
    values = F.linear(x, *(part.chunk(3)[2] for part in (layer.in_proj_weight, layer.in_proj_bias)))
    heads = values.unflatten(2, (layer.num_heads, -1))  # (n, 9, num_heads, head_dim)
    gathered = torch.einsum("hk,nkhd->nhd", row, heads).flatten(1)
    return share(model.draw(layer.out_proj(gathered)).unflatten(1, (2, 49)), nine)


def share(drawn: Tensor, nine: Tensor) -> float:
    """The share of the variance of the two wanted patches that drawings explain, in percent."""
    wanted = nine[:, [3, 1]]
    wrong = (drawn - wanted).square().mean()
    return 100 * (1 - wrong / (wanted - wanted.mean(dim=0)).square().mean()).item()


@torch.no_grad()
def entering(layer: nn.Module, model: nn.Module, images: Tensor) -> Tensor:
    """The tokens that enter a layer of the model, for these pictures."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(images)
    finally:
        handle.remove()
    return seen[0]


def broken_layers() -> dict[str, type[nn.Module]]:
    """Three layers with a bug in each: the sealed ones of "Three bugs"."""
    from .multi_head_attention import EXERCISE

    return {
        "A": EXERCISE.mutant("merged_by_reshape"),
        "B": EXERCISE.mutant("divided_by_d_model"),
        "C": EXERCISE.mutant("split_by_reshape"),
    }


def _signed(axes: Axes, values: Tensor, title: str, limit: float) -> None:
    """A matrix with signs: blue negative, white zero, red positive, told apart by colour-blind
    readers."""
    axes.imshow(
        values.detach().cpu().float(),
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)


def _frame(axes: Axes, places: list[tuple[int, int]], size: int) -> None:
    """A frame and a letter, white on a black edge, around patches of ``size`` pixels."""
    edge = [withStroke(linewidth=4, foreground="black")]
    for letter, (row, column) in zip("AB", places, strict=True):
        corner = (column * size - 0.5, row * size - 0.5)
        axes.add_patch(
            Rectangle(
                corner, size, size, fill=False, edgecolor="white", linewidth=2, path_effects=edge
            )
        )
        beside = (column + (-0.7 if column > 1 else 1.7)) * size - 0.5
        axes.text(
            beside,
            (row + 0.5) * size - 0.5,
            letter,
            color="white",
            path_effects=edge,
            fontsize=13,
            fontweight="bold",
            ha="center",
            va="center",
        )
