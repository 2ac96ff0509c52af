"""Attention weights of an unmodified Vision Transformer, and maps of them.

The model is ours or another library's. Four different things are called attention; here they keep
their names:

- score: q kᵀ / √d
- weight: the softmax of the scores; rows sum to 1
- head output: A_h V_h, before the output projection
- layer output: after the output projection. A slice of it belongs to no head.

Which token is which: ``tokens``.
"""

import threading
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .devices import place
from .errors import check_sizes
from .forward import check_images, eval_mode
from .recording import Recorder, attention_layers, record_attention, recording

__all__ = [
    "attention_weights",
    "head_contributions",
    "ink_share",
    "mean_attention_distance",
    "record_attention",
    "rollout",
    "to_maps",
]


@torch.no_grad()
def attention_weights(
    model: nn.Module,
    images: Tensor,
    query: int | None = None,
    batch_size: int | None = None,
    layers: Sequence[int] | None = None,
) -> Tensor:
    """The attention weights of all layers and heads, in one forward pass, in eval mode.

    Each module's mode is put back. A model that may reorder its images gets each image by itself,
    too: the weights must be the same.

    Args:
        images: (n, c, h, w), normalised as the model wants them; converted to its device and dtype.
        query, layers: keep this token's row, these layers only: see ``record_attention``. This
            saves memory of the result, not time: layers that are asked compute all rows.
        batch_size: images per forward pass, so that many images fit in memory; None takes all at
            once.

    Returns (n, num_layers, num_heads, seq_length, seq_length); without the last but one dimension
    for one ``query``.
    """
    check_images(images)
    asked = attention_layers(model)
    where = place(asked[0] if asked else model)
    if batch_size is None:
        batch_size = len(images)
    check_sizes(batch_size=batch_size)
    result = torch.empty(0)
    with eval_mode(model):
        for start in range(0, len(images), batch_size):
            end = start + batch_size
            record = _record_batch(model, images[start:end].to(**where), layers, query)
            if start == 0:  # one place for the whole result, so that nothing is held twice
                result = record[0].new_empty(len(images), len(record), *record[0].shape[1:])
            for layer in reversed(range(len(record))):
                result[start:end, layer] = record.pop()
    if layers is None:
        return result
    recorded = sorted(set(layers))
    return result[:, [recorded.index(layer) for layer in layers]]


def _record_batch(
    model: nn.Module, batch: Tensor, layers: Sequence[int] | None, query: int | None
) -> list[Tensor]:
    """The weights of each layer for one batch; ValueError if they are NaN or of other images."""
    recorder = Recorder(model, layers, query)
    with recording(recorder):
        model(batch)
    record = recorder.record
    if record[0].is_meta:
        return record
    # a softmax with a NaN in it is NaN in the whole row
    if any(weights[..., 0].isnan().any() for weights in record):
        raise ValueError(
            f"the attention weights of {type(model).__name__} are NaN: its parameters are (training"
            " probably diverged), or a mask leaves a token nothing"
        )
    if recorder.may_mix and len(batch) > 1:
        for number in range(len(batch)):
            _check_alone(model, batch, number, record, layers, query)
    return record


def _check_alone(
    model: nn.Module,
    batch: Tensor,
    number: int,
    record: list[Tensor],
    layers: Sequence[int] | None,
    query: int | None,
) -> None:
    """ValueError unless an image of a batch has the same weights by itself.

    It has others if the model reorders its images or mixes them, or if another axis, which is as
    long as the batch, was taken for the images'.
    """
    with record_attention(model, layers, query) as alone:
        model(batch[number : number + 1])
    for together, single in zip(record, alone, strict=True):
        tolerance = max(1e-3, 16 * torch.finfo(single.dtype).eps)
        if (together[number : number + 1] - single).abs().max() > tolerance:
            raise ValueError(
                f"{type(model).__name__} gives an image other attention weights in a batch than by"
                " itself: it reorders or mixes its images, or draws random numbers in eval mode."
                " Give images one by one, or batch_size=1"
            )


def to_maps(rows: Tensor, grid: tuple[int, int]) -> Tensor:
    """Rows of weights, such as ``weights[..., 0, :]``, as maps: the patches in their places.

    ``grid``: numbers of rows and columns of patches, which are the last tokens, see
    ``tokens.patch_grid``. Shape: (..., seq_length) -> (..., n_h, n_w).
    """
    n_h, n_w = sides(grid)
    _check_grid(n_h, n_w, rows.shape[-1])
    return rows[..., -n_h * n_w :].unflatten(-1, (n_h, n_w))


def sides(grid: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a grid that a user gives; ValueError if these are not two whole numbers.

    Those of numpy are whole numbers, too.
    """
    is_pair = hasattr(grid, "__len__") and not isinstance(grid, str) and len(grid) == 2
    if not is_pair or not all(isinstance(side, Integral) for side in grid):
        raise ValueError(f"grid must be two whole numbers, (rows, columns), got {grid!r}")
    return int(grid[0]), int(grid[1])


def _check_grid(n_h: int, n_w: int, tokens: int) -> None:
    check_sizes(rows=n_h, columns=n_w)
    if n_h * n_w > tokens:
        raise ValueError(
            f"a grid of {n_h} × {n_w} patches needs {n_h * n_w} tokens, got {tokens}: give the grid"
            " of this model, see tokens.patch_grid"
        )


def rollout(weights: Tensor) -> Tensor:
    """How much of each input token is in each output token, by attention and residuals alone.

    Heads are averaged, the identity is added for the residual connection, rows are made to sum to 1
    again, and the layers are multiplied. MLPs and values are left out, so this is a summary, not a
    proof.

    Shape: (n, num_layers, num_heads, seq_length, seq_length) -> (n, seq_length, seq_length); rows
    sum to 1.
    Source: Abnar & Zuidema 2020, https://arxiv.org/abs/2005.00928.
    """
    _check_weights(weights)
    identity = torch.eye(weights.shape[-1], device=weights.device, dtype=weights.dtype)
    total = identity.expand(weights.shape[0], -1, -1)
    for layer in weights.mean(dim=2).unbind(dim=1):
        mixed = layer + identity
        total = (mixed / mixed.sum(dim=-1, keepdim=True)) @ total
    return total


def mean_attention_distance(weights: Tensor, patch_size: int, grid: tuple[int, int]) -> Tensor:
    """How far a head looks: the distance in pixels from a patch to those it attends to.

    Distances are weighted by attention. The class token is left out, and the rest of each row is
    made to sum to 1. The result is the mean over images and query patches. ``patch_size``: pixels
    from one patch to the next; ``grid``: see ``to_maps``.

    Shape: (n, num_layers, num_heads, seq_length, seq_length) -> (num_layers, num_heads).
    Source: Dosovitskiy et al. 2020, section 4.5 and figure 7.
    """
    _check_weights(weights)
    check_sizes(patch_size=patch_size)
    n_h, n_w = sides(grid)
    _check_grid(n_h, n_w, weights.shape[-1])
    place = torch.cartesian_prod(torch.arange(n_h), torch.arange(n_w)).to(weights)
    distance = torch.cdist(place, place) * patch_size
    patches = weights[..., -n_h * n_w :, -n_h * n_w :]
    patches = patches / patches.sum(dim=-1, keepdim=True)
    return (patches * distance).sum(dim=-1).mean(dim=(0, -1))


def ink_share(maps: Tensor, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """The share of the attention on patches with ink, and the share of patches with ink.

    The second is what chance would give. A patch holds ink where its largest pixel is above the
    picture's smallest. Each map is made to sum to 1.

    Shape: maps (n, ..., n_h, n_w), see ``to_maps``, and pictures (n, c, h, w) -> (n, ...) and (n,).
    """
    if maps.dim() < 3 or pictures.dim() != 4 or len(maps) != len(pictures):
        raise ValueError(
            "maps must be (n, ..., n_h, n_w) and pictures (n, c, h, w) of the same n images, got "
            f"{tuple(maps.shape)} and {tuple(pictures.shape)}"
        )
    grid = maps.shape[-2:]
    pictures = pictures.float()
    lowest = pictures.amin(dim=(1, 2, 3), keepdim=True)
    # (n, c, h, w) -> (n, 1, h, w) -> (n, 1, n_h, n_w)
    above = (pictures - lowest).amax(dim=1, keepdim=True)
    ink = F.adaptive_max_pool2d(above, grid) > 0
    ink = ink.to(maps).view(len(maps), *[1] * (maps.dim() - 3), *grid)
    share = (maps * ink).sum(dim=(-1, -2)) / maps.sum(dim=(-1, -2)).clamp(min=1e-12)
    return share, ink.mean(dim=(-1, -2)).flatten()


@torch.no_grad()
def head_contributions(model: nn.Module, images: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """What each head adds to the output of an attention layer, in eval mode; and the layer's bias.

    The output projection is linear, so it can be applied to each head alone: A_h V_h times the
    columns of the projection that belong to head h. Returns (n, num_heads, seq_length, hidden_dim)
    and the bias, (hidden_dim,). The first, summed over the heads, plus the bias is the layer's
    output. ValueError: layers of the model do not return their weights, as nn.MultiheadAttention
    does.
    """
    layers = attention_layers(model)
    if not layers:
        raise ValueError(f"{type(model).__name__} has no layers like nn.MultiheadAttention")
    if isinstance(layer, Integral) and not 0 <= layer < len(layers):
        raise IndexError(f"layer must be 0 to {len(layers) - 1}, got {layer}")
    calls: list[tuple[nn.Module, Tensor]] = []  # each layer and its values, in their order
    thread = threading.get_ident()  # a module calls its hooks in every thread

    def keep(module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        if kwargs is not None and threading.get_ident() == thread:
            calls.append((module, _value_of(args, kwargs)))

    handles = [one.register_forward_pre_hook(keep, with_kwargs=True) for one in layers]
    try:
        weights = attention_weights(model, images, layers=[layer])[:, 0]
        before = len(calls)
        with eval_mode(model), record_attention(model, query=0) as record:
            model(images[:1].to(**place(layers[0])))
    finally:
        for handle in handles:
            handle.remove()
    if len(calls) - before < len(record):
        raise ValueError(
            f"{type(model).__name__} has layers of attention that are not like"
            " nn.MultiheadAttention: what their heads add cannot be told"
        )
    attention, x = calls[layer]
    if not getattr(attention, "batch_first", True):
        x = x.transpose(0, 1)

    heads, width = attention.num_heads, attention.embed_dim
    # (n, seq_length, hidden_dim) -> (n, num_heads, seq_length, head_dim)
    qkv = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    values = qkv[..., 2 * width :].unflatten(-1, (heads, width // heads)).transpose(1, 2)
    # (hidden_dim, hidden_dim) -> (num_heads, head_dim, hidden_dim)
    projection = attention.out_proj.weight.T.unflatten(0, (heads, width // heads))
    bias = attention.out_proj.bias
    if bias is None:
        bias = x.new_zeros(width)
    return weights @ values @ projection, bias


def _value_of(args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """The values that attention was called with; a single argument is query, key and value."""
    if "value" in kwargs:
        return kwargs["value"]
    if len(args) > 2:
        return args[2]
    return args[0]


def _check_weights(weights: Tensor) -> None:
    if weights.dim() != 5 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(
            "weights must be (n, num_layers, num_heads, seq_length, seq_length), all rows of all"
            f" layers, as attention_weights(model, images) gives them, got {tuple(weights.shape)}"
        )
