"""Hiding patches: what a model answers without them, and how faithful a map is to that.

There are two ways. A patch is *taken out*: its token is there for no layer, and the others keep
their places. Or it is *painted*: its pixels are those of a reference picture, such as black, the
mean colour or another picture. A map and its test must ask the same question: ``relevance`` and
``leave_one_out`` without a reference ask about absence, ``integrated_gradients`` and
``leave_one_out`` with one about that reference.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import check_range, check_sizes
from .forward import eval_mode, logits_of
from .tokens import at_tokens, patch_grid

__all__ = ["faithfulness", "hide", "interval", "leave_one_out"]


@torch.no_grad()
def hide(
    model: nn.Module,
    images: Tensor,
    hidden: Tensor,
    reference: Tensor | None = None,
    grid: tuple[int, int] | None = None,
) -> Tensor:
    """The model's logits without some patches, (n, k), in eval mode.

    Args:
        images: (n, c, h, w), normalised as the model wants them; converted to its device and dtype.
        hidden: which patches, booleans, (n, patches), row by row.
        reference: None takes them out, which needs the same number in each picture; else pictures,
            normalised as ``images`` and broadcast to them, whose pixels are painted there.
        grid: rows and columns of patches, for painting, if the model does not tell them.

    ValueError: the model's blocks cannot do without a token, as with rotary positions; then paint.
    """
    images = images.to(next(model.parameters()))
    hidden = hidden.to(images.device)
    with eval_mode(model):
        if reference is None:
            return _without(model, images, hidden)
        rows, columns = grid or patch_grid(model, images)
        mask = hidden.view(-1, 1, rows, columns).to(images)
        mask = F.interpolate(mask, images.shape[-2:], mode="nearest-exact")
        return logits_of(model, torch.where(mask > 0, reference.to(images), images))


def _without(model: nn.Module, images: Tensor, hidden: Tensor) -> Tensor:
    """The logits with these patches taken out in front of the first block."""
    counts = hidden.sum(dim=1)
    if len(counts) != len(images) or (counts != counts[0]).any():
        raise ValueError(
            "hidden must be booleans (n, patches); where patches are taken out, the same number in"
            f" each picture, got {counts.tolist()} for {len(images)} images"
        )

    def take_out(tokens: Tensor) -> Tensor:
        before = hidden.new_ones(len(tokens), tokens.shape[1] - hidden.shape[1])
        stays = torch.cat([before, ~hidden], dim=1)
        return tokens[stays].unflatten(0, (len(tokens), -1))

    try:
        with at_tokens(model, take_out):
            return logits_of(model, images)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"{type(model).__name__} cannot do without a token, as with rotary positions: give a"
            " reference, to paint patches"
        ) from error


@torch.no_grad()
def leave_one_out(
    model: nn.Module,
    images: Tensor,
    classes: Tensor | int | None = None,
    reference: Tensor | None = None,
    grid: tuple[int, int] | None = None,
) -> Tensor:
    """How far the probability of a class falls without each single patch, (n, patches).

    One pass forward for each patch. ``classes``: one class, or one for each image; None takes the
    predicted ones; ``reference`` and ``grid`` as in ``hide``.
    """
    grid = grid or patch_grid(model, images)
    patches = grid[0] * grid[1]
    nothing = torch.zeros(len(images), patches, dtype=torch.bool)
    classes, whole = _probability(hide(model, images, nothing, reference, grid), classes)
    found = []
    for patch in range(patches):
        hidden = nothing.clone()
        hidden[:, patch] = True
        logits = hide(model, images, hidden, reference, grid)
        found.append(whole - _probability(logits, classes)[1])
    return torch.stack(found, dim=1)


@torch.no_grad()
def faithfulness(
    model: nn.Module,
    images: Tensor,
    maps: Tensor,
    counts: Sequence[int],
    classes: Tensor | int | None = None,
    reference: Tensor | None = None,
    keep: bool = False,
    grid: tuple[int, int] | None = None,
) -> Tensor:
    """The probability of a class without the patches that a map calls most important.

    A faithful map leaves little of it. With ``keep``, the others are hidden and these alone are
    kept: then it leaves much. Compare it with a random map, which hides as many.

    Args:
        maps: (n, patches), larger for what is hidden first; -inf for what may not be.
        counts: how many patches are hidden, or kept; each is a point of the curve.
        classes: one class, or one for each image; None takes the predicted ones.
        reference, grid: how patches are hidden, see ``hide``.

    Returns (n, len(counts)); ``interval`` of it, or of the difference of two maps' results.
    """
    grid = grid or patch_grid(model, images)
    if maps.shape != (len(images), grid[0] * grid[1]):
        raise ValueError(
            f"maps must be (n, patches), ({len(images)}, {grid[0] * grid[1]}), got"
            f" {tuple(maps.shape)}"
        )
    if classes is None:
        nothing = torch.zeros_like(maps, dtype=torch.bool)
        classes, _ = _probability(hide(model, images, nothing, reference, grid), None)
    order = maps.argsort(dim=1, descending=True, stable=True)
    found = []
    for count in counts:
        check_range(0, maps.shape[1], count=count)
        best = torch.zeros_like(maps, dtype=torch.bool).scatter(1, order[:, :count], True)
        logits = hide(model, images, ~best if keep else best, reference, grid)
        found.append(_probability(logits, classes)[1])
    return torch.stack(found, dim=1)


def interval(values: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over pictures, and half of its 95 % interval: (n, ...) -> (...), twice."""
    check_sizes(pictures=len(values) - 1)
    return values.mean(dim=0), 1.96 * values.std(dim=0) / len(values) ** 0.5


def _probability(logits: Tensor, classes: Tensor | int | None) -> tuple[Tensor, Tensor]:
    """The classes, by default the predicted ones, and their probabilities, (n,) both."""
    if classes is None:
        classes = logits.argmax(dim=1)
    chosen = torch.as_tensor(classes, device=logits.device).expand(len(logits))
    return chosen, logits.softmax(dim=1).gather(1, chosen[:, None])[:, 0]
