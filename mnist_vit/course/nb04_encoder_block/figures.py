"""Figures of notebook 04: the two branches of a block, LayerNorm step by step, and what breaks without them."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from ..drawing import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW, figure, heat


def diagram(part: nn.Module, tokens: Tensor) -> None:
    """An encoder block as it is: the stream below, the two branches above; shapes are read while the tokens pass."""
    shapes: dict[str, tuple[int, ...]] = {}
    handles = []
    for name, child in part.named_children():

        def keep(module: nn.Module, args: tuple, output: Tensor | tuple, name: str = name) -> None:
            shapes[name] = tuple((output[0] if isinstance(output, tuple) else output).shape)

        handles.append(child.register_forward_hook(keep))
    mode = part.training
    try:
        with torch.no_grad():
            shapes["end"] = tuple(part.eval()(tokens).shape)
    finally:
        part.train(mode)
        for handle in handles:
            handle.remove()

    _, (axes,) = figure(width=11, height=3.5)
    colours = {"ln_1": YELLOW, "self_attention": SKY, "dropout": "lightgrey", "ln_2": YELLOW, "mlp": ORANGE}
    places = {"ln_1": 2.0, "self_attention": 4.3, "dropout": 6.6, "ln_2": 10.2, "mlp": 12.5}
    for name, middle in places.items():
        child = getattr(part, name)
        box = FancyBboxPatch((middle - 0.85, 1.4), 1.7, 0.7, boxstyle="round,pad=0.06", facecolor=colours[name])
        axes.add_patch(box)
        axes.text(middle, 1.75, name, ha="center", va="center")
        axes.text(middle, 1.17, str(shapes[name]), ha="center", va="center", fontsize=9, family="monospace")
        count = sum(parameter.numel() for parameter in child.parameters())
        note = f"{count:,} parameters" if count else "no parameters"
        axes.text(middle, 2.32, note, ha="center", va="center", fontsize=8.5)
    for names, start, plus in ((("ln_1", "self_attention", "dropout"), 0.6, 8.1), (("ln_2", "mlp"), 8.8, 14.0)):
        _arrow(axes, (start, 0), (start, 1.75), head=False)
        _arrow(axes, (start, 1.75), (places[names[0]] - 0.92, 1.75))
        for left, right in pairwise(names):
            _arrow(axes, (places[left] + 0.92, 1.75), (places[right] - 0.92, 1.75))
        _arrow(axes, (places[names[-1]] + 0.92, 1.75), (plus, 1.75), head=False)
        _arrow(axes, (plus, 1.75), (plus, 0.24))
        axes.plot(plus, 0, "o", markersize=17, markerfacecolor="white", markeredgecolor=BLUE, zorder=4)
        axes.text(plus, -0.02, "+", ha="center", va="center", fontsize=14, zorder=5)
        axes.plot(start, 0, "o", markersize=6, color=BLUE, zorder=4)
    axes.plot([-0.5, 15.2], [0, 0], color=BLUE, linewidth=3)
    _arrow(axes, (15.1, 0), (15.7, 0), colour=BLUE, width=3)
    for x, name, shape in (
        (-0.5, "z", tuple(tokens.shape)),
        (8.45, "z'", shapes["dropout"]),
        (15.3, "new z", shapes["end"]),
    ):
        side = "left" if x < 0 else "right" if x > 15 else "center"
        axes.text(x, -0.5, f"{name}\n{shape}", ha=side, va="center", fontsize=9, family="monospace")
    axes.text(4.3, 2.8, "branch 1: tokens talk to each other", ha="center", fontsize=10, weight="bold")
    axes.text(11.4, 2.8, "branch 2: each token thinks for itself", ha="center", fontsize=10, weight="bold")
    axes.text(4.3, 0.17, "residual connection", ha="center", color=BLUE, fontsize=9)
    axes.text(11.4, 0.17, "residual connection", ha="center", color=BLUE, fontsize=9)
    axes.set_xlim(-0.7, 15.9)
    axes.set_ylim(-0.85, 3.1)
    axes.set_axis_off()


def norm_steps(token: Tensor, centred: Tensor, normalised: Tensor) -> None:
    """One token before LayerNorm, after subtracting its mean, and after dividing by its spread."""
    _, panels = figure(1, 3, width=9, height=2.6)
    steps = (
        ("as it came", token, SKY),
        ("minus its mean", centred, YELLOW),
        ("divided by its spread", normalised, GREEN),
    )
    for axes, (title, values, colour) in zip(panels, steps, strict=True):
        places = range(len(values))
        axes.bar(places, values.tolist(), color=colour, edgecolor=BLACK)
        for place, value in zip(places, values.tolist(), strict=True):
            place_of_text = {"y": value + 0.3, "va": "bottom"} if value >= 0 else {"y": value - 0.3, "va": "top"}
            paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            axes.text(place, s=f"{value:.1f}", ha="center", fontsize=9, bbox=paper, zorder=3, **place_of_text)
        axes.axhline(0, color=BLACK, linewidth=0.8)
        axes.axhline(values.mean().item(), color=RED, linestyle="--", linewidth=1.5)
        axes.set_ylim(-4.5, 8.5)
        axes.set_xticks(list(places))
        axes.set_xlabel("place in the token")
        axes.set_title(f"{title}\nmean {values.mean():.1f}, variance {values.var(correction=0):.1f}", fontsize=10)
    panels[0].text(4.5, -3.2, "dashed: the mean", ha="right", color=RED, fontsize=9)


def shrinking(variances: Tensor, eps: float, wrong_eps: float) -> None:
    """How much smaller LayerNorm's numbers become with the wrong eps, token by token; token 0 is the class token."""
    _, (axes,) = figure(width=7.5, height=3.2)
    line = torch.logspace(-6, 1, 200, dtype=torch.float64)

    def share(variance: Tensor) -> Tensor:
        return 100 * (1 - ((variance + eps) / (variance + wrong_eps)).sqrt())

    axes.loglog(line, share(line), color=BLACK, linewidth=1, label="what the formula says")
    axes.loglog(variances[1:], share(variances[1:]), "o", color=BLUE, label="patch tokens")
    axes.loglog(variances[:1], share(variances[:1]), "D", color=RED, markersize=9, label="class token")
    axes.axvline(wrong_eps, color=BLACK, linestyle=":", linewidth=1)
    axes.text(wrong_eps * 1.2, 2e-5, f"variance = {wrong_eps:g}", fontsize=9)
    axes.set_xlabel("variance of the token")
    axes.set_ylabel("smaller by, in percent")
    axes.set_ylim(1e-5, 2e2)
    axes.legend(frameon=False)


def likeness(
    first: Tensor, second: Tensor, names: tuple[str, str], by_depth: tuple[Sequence[float], Sequence[float]]
) -> None:
    """How alike the tokens are after the last block, for two stacks, and the mean of it after every block."""
    drawn, panels = figure(1, 3, width=11, height=3.4)
    for axes, values, name in zip(panels, (first, second), names, strict=False):
        heat(axes, values, name, low=-1.0, high=1.0)
        axes.set_xlabel("token")
        axes.set_ylabel("token")
    drawn.colorbar(panels[1].images[0], ax=panels[:2], label="cosine of the angle", shrink=0.8)
    axes = panels[2]
    for means, name, marker, colour in zip(by_depth, names, "os", (BLUE, RED), strict=True):
        axes.plot(range(len(means)), means, marker=marker, color=colour, label=name)
    axes.set_xlabel("blocks passed")
    axes.set_ylabel("mean over all pairs")
    axes.set_ylim(-0.05, 1.1)
    axes.legend(frameon=False, loc="center right")


def gradients_by_depth(sizes: dict[str, Sequence[float]]) -> None:
    """Size of the gradient that each block's parameters get, on a log scale; one line for each kind of block.

    On the right the lines that stay near the top once more, on a plain scale: over many powers of ten they are one.
    """
    _, (axes, upper) = figure(1, 2, width=11, height=3.8)
    top = max(max(values) for values in sizes.values())
    looks = zip(sizes.items(), (BLUE, ORANGE, RED, GREEN), ("o", "s", "^", "D"), ("-", "--", ":", "-."), strict=False)
    for (name, values), colour, marker, line in looks:
        look = {"marker": marker, "linestyle": line, "color": colour, "label": name}
        axes.semilogy(range(len(values)), values, **look)
        if min(values) > top / 100:
            upper.plot(range(len(values)), values, **look)
    for panel, title in ((axes, "powers of ten"), (upper, "the upper lines again, on a plain scale")):
        panel.set_title(title)
        panel.set_xticks(range(max(len(values) for values in sizes.values())))
        panel.set_xlabel("block (0 is next to the picture)")
        panel.legend(frameon=False, loc="lower right" if panel is axes else "upper right")
    axes.set_ylabel("size of the gradient")
    upper.set_ylim(0, None)


def last_block(depths: Sequence[int], sizes: dict[str, Sequence[float]]) -> None:
    """Size of the last block's gradient against the number of blocks, both on log scales."""
    _, (axes,) = figure(width=6.5, height=3.2)
    looks = zip(sizes.items(), (BLUE, ORANGE, PINK), ("o", "s", "^"), ("-", "--", ":"), strict=False)
    for (name, values), colour, marker, line in looks:
        axes.loglog(depths, values, marker=marker, linestyle=line, color=colour, label=name)
    axes.set_xticks(list(depths), [str(depth) for depth in depths])
    axes.minorticks_off()
    ticks = (50, 100, 200)
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("blocks in the stack")
    axes.set_ylabel("gradient of the last block")
    axes.legend(frameon=False)


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    head: bool = True,
    colour: str = BLACK,
    width: float = 1.2,
) -> None:
    style = {"arrowstyle": "->" if head else "-", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style)
