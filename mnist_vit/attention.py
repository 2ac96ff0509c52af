"""Attention weights of a Vision Transformer, ours or an unmodified torchvision one, and pictures of them.

Four different things are called attention; here they keep their names:
score: q kᵀ / √d;  weight: the softmax of the scores, rows sum to 1;  head output: A_h V_h, before the output
projection;  layer output: after it. A slice of the layer output belongs to no head.
Which token is which: ``tokens``.
"""

import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .errors import check_sizes
from .modes import eval_mode
from .tokens import PATCHES

__all__ = ["attention_weights", "head_contributions", "ink_share", "mean_attention_distance", "record_attention",
           "rollout", "to_maps"]  # fmt: skip


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Tensor]]:
    """Keep the attention weights of every forward pass that this thread makes inside the ``with`` block.

    The model computes what it always computes; hooks, which go when the block ends, only ask each attention layer for
    its weights. In train mode, torch's layers give them after attention dropout: rows do not sum to 1, and a warning
    says so.

    Yields a list that grows by one tensor, (n, num_heads, seq_length, seq_length), for each attention layer passed.
    ValueError: a layer cannot be asked, gives no weights, or was not called when the model was.
    """
    record: list[Tensor] = []
    called: set[nn.Module] = set()
    thread = threading.get_ident()  # hooks are called for all of them

    def ask(module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        if kwargs is not None and threading.get_ident() == thread:  # None: removed while another thread is in the call
            return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def keep(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
        if threading.get_ident() != thread:
            return
        weights = output[1] if isinstance(output, tuple) and len(output) == 2 else None
        if not isinstance(weights, Tensor) or weights.dim() != 4:
            raise ValueError(f"{type(module).__name__} gave no weights of each head: asked with need_weights=True, its "
                             "forward must return (output, weights of shape (n, num_heads, s, s))")  # fmt: skip
        if module.training and getattr(module, "dropout", False):
            warnings.warn("recorded in train mode, after attention dropout: rows do not sum to 1. Call model.eval() "
                          "before, or use attention_weights", stacklevel=2)  # fmt: skip
        called.add(module)
        record.append(weights.detach())

    layers = attention_layers(model)
    handles = [model.register_forward_hook(lambda *_: called.update([model] * (threading.get_ident() == thread)))]
    for module in layers:
        handles += module.register_forward_pre_hook(ask, with_kwargs=True), module.register_forward_hook(keep)
    try:
        yield record
    finally:
        for handle in handles:
            handle.remove()
    seen = len(called.intersection(layers))
    if model in called and seen < len(layers):
        raise ValueError(f"{type(model).__name__} was called, but only {seen} of its {len(layers)} attention layers: "
                         "FastVisionTransformer, for one, computes without them; give the plain model")  # fmt: skip


@torch.no_grad()
def attention_weights(
    model: nn.Module, images: Tensor, query: int | None = None, batch_size: int | None = None
) -> Tensor:
    """The attention weights of all layers and heads, in one forward pass, in eval mode; the modes are put back.

    Args:
        images: (n, c, h, w), normalised as the model wants them; moved to its device and kind of number.
        query: keep the row of this token only (0: what the class token looks at); None keeps all rows.
        batch_size: images per forward pass, so that many images fit in memory; None takes all at once.

    Returns (n, num_layers, num_heads, seq_length, seq_length); without the last but one dimension for one ``query``.
    """
    if not isinstance(images, Tensor) or images.dim() != 4 or len(images) == 0 or not images.is_floating_point():
        got = f"{images.dtype} {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError("images must be floats (n, c, h, w), n at least 1, normalised as the model wants them "
                         f"(data.normalise), got {got}; for one image: images[None]")  # fmt: skip
    if not images.isfinite().all():
        raise ValueError("images hold nan or infinite numbers: look for a division by zero where they were made")
    parameter = next(attention_layers(model)[0].parameters())
    check_sizes(batch_size=len(images) if batch_size is None else batch_size)
    result, done = torch.empty(0), 0
    with eval_mode(model):
        for batch in images.split(batch_size or len(images)):
            with record_attention(model) as record:
                model(batch.to(parameter))
            if query is not None and not -record[0].shape[-2] <= query < record[0].shape[-2]:
                raise IndexError(f"query must be 0 to {record[0].shape[-2] - 1}, got {query}")
            rows = record if query is None else [weights[:, :, query] for weights in record]
            if done == 0:  # one place for the whole result, so that nothing is held twice
                result = rows[0].new_empty(len(images), len(rows), *rows[0].shape[1:])
            torch.stack(rows, dim=1, out=result[done : done + len(batch)])
            done += len(batch)
            del record, rows
    return result


def to_maps(rows: Tensor) -> Tensor:
    """Rows of weights, such as ``weights[..., 0, :]``, as little images: the patches in their places, no class token.

    Shape: (..., seq_length) -> (..., n_h, n_w) of a square grid of patches.
    """
    grid = math.isqrt(rows.shape[-1] - 1)
    if grid * grid != rows.shape[-1] - 1:
        raise ValueError(f"need 1 + a square number of tokens, got {rows.shape[-1]}")
    return rows[..., PATCHES].unflatten(-1, (grid, grid))


def rollout(weights: Tensor) -> Tensor:
    """How much of each input token is in each output token, if attention and the residual were all there is.

    Heads are averaged, the identity is added for the residual connection, rows are made to sum to 1 again, and the
    layers are multiplied. MLPs and values are left out, so this is a summary, not a proof.

    Shape: (n, num_layers, num_heads, seq_length, seq_length) -> (n, seq_length, seq_length); rows sum to 1.
    Source: Abnar & Zuidema 2020, https://arxiv.org/abs/2005.00928.
    """
    _check_weights(weights)
    identity = torch.eye(weights.shape[-1], device=weights.device, dtype=weights.dtype)
    total = identity.expand(weights.shape[0], -1, -1)
    for layer in weights.mean(dim=2).unbind(dim=1):
        mixed = layer + identity
        total = (mixed / mixed.sum(dim=-1, keepdim=True)) @ total
    return total


def mean_attention_distance(weights: Tensor, patch_size: int) -> Tensor:
    """How far a head looks: distance in pixels between a patch and those it attends to, weighted by attention.

    The class token is left out, and the rest of each row is made to sum to 1. The result is the mean over images and
    query patches. ``patch_size``: pixels from one patch to the next.

    Shape: (n, num_layers, num_heads, seq_length, seq_length) -> (num_layers, num_heads).
    Source: Dosovitskiy et al. 2020, section 4.5 and figure 7.
    """
    _check_weights(weights)
    check_sizes(patch_size=patch_size)
    grid = math.isqrt(weights.shape[-1] - 1)
    place = torch.cartesian_prod(torch.arange(grid), torch.arange(grid)).to(weights)
    distance = torch.cdist(place, place) * patch_size
    patches = weights[..., PATCHES, PATCHES]
    patches = patches / patches.sum(dim=-1, keepdim=True)
    return (patches * distance).sum(dim=-1).mean(dim=(0, -1))


def ink_share(maps: Tensor, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Share of the attention on patches that hold ink, and the share of patches that do (what chance would give).

    A patch holds ink where its largest pixel is above the picture's smallest. Each map is made to sum to 1.

    Shape: maps (n, ..., n_h, n_w), see ``to_maps``, and pictures (n, c, h, w) -> (n, ...) and (n,).
    """
    if maps.dim() < 3 or pictures.dim() != 4 or len(maps) != len(pictures):
        raise ValueError("maps must be (n, ..., n_h, n_w) and pictures (n, c, h, w) of the same n images, got "
                         f"{tuple(maps.shape)} and {tuple(pictures.shape)}")  # fmt: skip
    grid = maps.shape[-1]
    lowest = pictures.float().amin(dim=(1, 2, 3), keepdim=True)
    ink = nn.functional.adaptive_max_pool2d((pictures.float() - lowest).amax(dim=1, keepdim=True), grid) > 0
    ink = ink.to(maps).view(len(maps), *[1] * (maps.dim() - 3), grid, grid)
    share = (maps * ink).sum(dim=(-1, -2)) / maps.sum(dim=(-1, -2)).clamp(min=1e-12)
    return share, ink.mean(dim=(-1, -2)).flatten()


@torch.no_grad()
def head_contributions(model: nn.Module, images: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """What each head adds to the output of an attention layer, exactly, in eval mode; and the layer's bias.

    The output projection is linear, so it can be applied to each head alone: A_h V_h times the columns of the
    projection that belong to head h. (n, num_heads, seq_length, hidden_dim), summed over heads, plus the bias,
    (hidden_dim,), is the layer's output.
    """
    layers = attention_layers(model)
    if not 0 <= layer < len(layers):
        raise IndexError(f"layer must be 0 to {len(layers) - 1}, got {layer}")
    attention, thread = layers[layer], threading.get_ident()
    inputs: list[Tensor] = []

    def keep(module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        if kwargs is not None and threading.get_ident() == thread:
            inputs.append(kwargs["value"] if "value" in kwargs else (args[2:3] or args)[0])

    handle = attention.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        weights = attention_weights(model, images)[:, layer]
    finally:
        handle.remove()
    heads, width = attention.num_heads, attention.embed_dim
    x = inputs[0] if getattr(attention, "batch_first", True) else inputs[0].transpose(0, 1)
    # (n, seq_length, hidden_dim) -> (n, num_heads, seq_length, head_dim)
    values = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)[..., 2 * width :]
    values = values.unflatten(-1, (heads, width // heads)).transpose(1, 2)
    # (hidden_dim, hidden_dim) -> (num_heads, head_dim, hidden_dim)
    projection = attention.out_proj.weight.T.unflatten(0, (heads, width // heads))
    bias = attention.out_proj.bias
    return weights @ values @ projection, x.new_zeros(width) if bias is None else bias


def _check_weights(weights: Tensor) -> None:
    if weights.dim() != 5 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError("weights must be (n, num_layers, num_heads, seq_length, seq_length), all rows of all layers, "
                         f"as attention_weights(model, images) gives them, got {tuple(weights.shape)}")  # fmt: skip


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The self-attention layers in order: nn.MultiheadAttention, or one from scratch with its parameters' names."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a model (nn.Module), got {type(model).__name__}: load_model(name) makes one")
    parts = list(model.modules())
    if any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) for part in parts):
        raise ValueError(f"{type(model).__name__} was compiled, and torch.compile leaves out the hooks that record. "
                         "Give the model it was made from (model._orig_mod)")  # fmt: skip
    layers = [m for m in parts if getattr(m, "in_proj_weight", None) is not None and hasattr(m, "num_heads")]
    others = [m for m in parts if any(isinstance(getattr(m, name, None), nn.Module) for name in _KEYS)]
    if layers and not others:
        return layers
    problem = "has no nn.MultiheadAttention to ask for its weights"
    if layers:
        problem = (f"has {len(others)} attention layers of another kind ({type(others[0]).__name__}) beside the "
                   f"{len(layers)} that can be asked for weights")  # fmt: skip
    raise ValueError(f"{type(model).__name__} {problem}. {OTHERS}")


OTHERS = (
    "torchvision's vit_* and this course's models can be asked. Hugging Face: load with "
    'attn_implementation="eager" and call with output_attentions=True. timm: set fused_attn = False in the attention '
    "layers and hook attn_drop, whose input they are. Convolutions have none, windows (Swin) none over all the picture"
)
_KEYS = ("qkv", "key", "k_proj", "to_k", "to_qkv", "kv", "c_attn")  # what others call the layer that makes keys
