"""Attention weights of an unmodified Vision Transformer, ours or another library's, and maps of
them.

Four different things are called attention; here they keep their names:
score: q kᵀ / √d;  weight: the softmax of the scores, rows sum to 1;  head output: A_h V_h, before
the output projection;  layer output: after it. A slice of the layer output belongs to no head.
Which token is which: ``tokens``.
"""

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .errors import check_sizes
from .forward import eval_mode
from .tokens import patch_grid

__all__ = [
    "attention_weights",
    "head_contributions",
    "ink_share",
    "mean_attention_distance",
    "record_attention",
    "rollout",
    "to_maps",
]


@contextmanager
def record_attention(
    model: nn.Module, layers: Sequence[int] | None = None, query: int | None = None
) -> Iterator[list[Tensor]]:
    """Keep the attention weights of every forward pass that this thread makes inside the ``with``
    block.

    The model computes what it always computes. Layers such as nn.MultiheadAttention (torchvision,
    this course) are asked for their weights by hooks. Where a model calls
    F.scaled_dot_product_attention (timm, Hugging Face), the call is intercepted, and the weights
    are computed too. In train mode, layers that are asked give their weights after attention
    dropout: rows do not sum to 1, and a warning says so.

    Args:
        layers: keep these layers only, counted from 0; None keeps all.
        query: keep the row of this token only (0: what the class token looks at); None keeps all
            rows.

    Yields a list that grows by one tensor, (n, num_heads, seq_length, seq_length), for each layer
    of self-attention passed; without the last but one dimension for one ``query``. Pooling with a
    single query token is not recorded. ValueError: a layer of self-attention was found that cannot
    be recorded (what cannot be found: docs/recording.md).
    """
    to_ask, thread = attention_layers(model), threading.get_ident()
    recorder = _Recorder(type(model).__name__, len(to_ask), layers, query)

    def mine(
        hook: Callable[..., Any],
    ) -> Callable[..., Any]:  # hooks are called for all threads, a mode for its own
        return lambda *given: hook(*given) if threading.get_ident() == thread else None

    handles = [model.register_forward_pre_hook(mine(recorder.start))]
    for module in to_ask:
        handles.append(module.register_forward_pre_hook(mine(recorder.ask), with_kwargs=True))
        handles.append(module.register_forward_hook(mine(recorder.take)))
    handles.append(model.register_forward_hook(mine(recorder.finish)))
    others = [
        part for part in model.modules() if part not in to_ask and _KEYS.intersection(dir(part))
    ]
    try:  # not without need: a mode turns the fast path of nn.MultiheadAttention off
        with recorder if others or not to_ask else nullcontext():
            yield recorder.record
    finally:
        for handle in handles:
            handle.remove()


class _Recorder(TorchFunctionMode):
    """Keeps weights: its hooks make layers return them; as a mode, it sees every call of a torch
    function."""

    def __init__(
        self, name: str, least: int, layers: Sequence[int] | None, query: int | None
    ) -> None:
        if layers is not None and not (
            isinstance(layers, Sequence) and layers and min(layers) >= 0
        ):
            raise ValueError(
                f"layers must be a list of layers, counted from 0, such as [0, 11], got {layers!r}"
            )
        self.name, self.least, self.layers, self.query = name, max(1, least), layers, query
        self.record: list[Tensor] = []
        self.start()

    def start(self, *_: Any) -> None:  # the model is called
        self.asking, self.shapes = False, list[tuple[int, ...]]()  # of all layers passed

    def finish(self, *_: Any) -> None:  # the model has answered
        if len(self.shapes) < self.least:
            raise ValueError(
                f"{self.name} was called, and only {len(self.shapes)} attention layers could be"
                f" recorded; expected at least {self.least}. {REMEDIES}"
            )
        if self.layers is not None and max(self.layers) >= len(self.shapes):
            raise IndexError(f"layers must be 0 to {len(self.shapes) - 1}, got {max(self.layers)}")

    def ask(self, module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        if kwargs is not None:  # None: removed while another thread is in the call
            self.asking = True
            return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def take(self, module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) == 2 else None
        if not isinstance(weights, Tensor) or weights.dim() != 4:
            raise ValueError(
                f"{type(module).__name__} gave no weights per head: called with need_weights=True,"
                " its forward must return (output, weights of shape (n, num_heads, s, s))"
            )
        if module.training and getattr(module, "dropout", False):
            warnings.warn(
                "recorded in train mode, after attention dropout: rows do not sum to 1. Call"
                " model.eval() before, or use attention_weights",
                stacklevel=2,
            )
        self.asking = False
        if (rows := self.wanted(*weights.shape)) is not None:
            self.keep(weights[:, :, rows])

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result, name = function(*args, **(kwargs or {})), getattr(function, "__name__", "")
        square = (
            name.endswith("softmax")
            and result.dim() > 2
            and result.shape[-2] == result.shape[-1] > 1
        )
        if self.asking:  # what a layer does to answer
            return result
        if name == "scaled_dot_product_attention":
            with (
                torch.no_grad(),
                torch._C.DisableTorchFunction(),
            ):  # no other mode sees what is computed here
                self.see(*args, **(kwargs or {}))
        elif square or name == "multi_head_attention_forward":
            raise ValueError(
                f"{self.name} makes weights by a {name} of its own, which cannot be recorded."
                f" {REMEDIES}"
            )
        return result

    def see(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> None:
        """F.scaled_dot_product_attention was called. With the identity as values, its output is the
        weights."""
        s = key.shape[-2]
        if (rows := self.wanted(*query.shape[:-1], s)) is None:
            return
        if is_causal:  # no token looks at a later one
            attn_mask = query.new_ones(s, s, dtype=torch.bool).tril()
        if attn_mask is not None:
            attn_mask = attn_mask.expand(*attn_mask.shape[:-2], s, s)[..., rows, :]
        identity = torch.eye(s, dtype=query.dtype, device=query.device).expand(*key.shape[:-1], s)
        self.keep(
            F.scaled_dot_product_attention(query[..., rows, :], key, identity, attn_mask, **options)
        )

    def wanted(self, *shape: int) -> slice | None:
        """The rows to keep of a layer that has weights of this shape; None: none of them."""
        s = shape[-1]
        if shape[-2] == 1 < s:  # pooling
            return None
        self.shapes.append(shape)
        if shape[-2] != s or len(shape) != 4 or shape[1:] != self.shapes[0][1:]:
            raise ValueError(
                f"{self.name} has attention weights {shape}: all layers must have the same shape, "
                f"(n, num_heads, s, s). {REMEDIES}"
            )
        if self.query is not None and not -s <= self.query < s:
            raise IndexError(f"query must be 0 to {s - 1}, got {self.query}")
        if self.layers is not None and len(self.shapes) - 1 not in self.layers:
            return None
        return slice(None) if self.query is None else slice(self.query % s, self.query % s + 1)

    def keep(self, weights: Tensor) -> None:  # a row is copied, so that the others can go
        self.record.append(
            weights.detach() if self.query is None else weights[:, :, 0].detach().clone()
        )


@torch.no_grad()
def attention_weights(
    model: nn.Module,
    images: Tensor,
    query: int | None = None,
    batch_size: int | None = None,
    layers: Sequence[int] | None = None,
) -> Tensor:
    """The attention weights of all layers and heads, in one forward pass, in eval mode; the modes
    are put back.

    Args:
        images: (n, c, h, w), normalised as the model wants them; converted to its device and dtype.
        query, layers: keep this token's row, these layers only: see ``record_attention``. The rest
            is not kept.
        batch_size: images per forward pass, so that many images fit in memory; None takes all at
            once.

    Returns (n, num_layers, num_heads, seq_length, seq_length); without the last but one dimension
    for one ``query``.
    """
    if (
        not isinstance(images, Tensor)
        or images.dim() != 4
        or len(images) == 0
        or not images.is_floating_point()
    ):
        got = (
            f"{images.dtype} {tuple(images.shape)}"
            if isinstance(images, Tensor)
            else type(images).__name__
        )
        raise ValueError(
            "images must be floats (n, c, h, w), n at least 1, normalised as the model wants them "
            f"(data.normalise), got {got}; for one image: images[None]"
        )
    if not images.isfinite().all():
        raise ValueError(
            "images hold nan or infinite numbers: look for a division by zero where they were made"
        )
    parameter = next((attention_layers(model) or [model])[0].parameters(), images)
    check_sizes(batch_size=len(images) if batch_size is None else batch_size)
    result, size = torch.empty(0), batch_size or len(images)
    with eval_mode(model):
        for start in range(0, len(images), size):
            with record_attention(model, layers, query) as record:
                model(images[start : start + size].to(parameter))
            if start == 0:  # one place for the whole result, so that nothing is held twice
                result = record[0].new_empty(len(images), len(record), *record[0].shape[1:])
            for layer in reversed(range(len(record))):
                result[start : start + size, layer] = record.pop()
    return (
        result
        if layers is None
        else result[:, [sorted(set(layers)).index(layer) for layer in layers]]
    )


def to_maps(rows: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
    """Rows of weights, such as ``weights[..., 0, :]``, as little images: the patches in their
    places, nothing else.

    ``grid``: numbers of rows and columns of patches, see ``tokens.patch_grid``; patches come last.
    None: a square grid after the class token. Shape: (..., seq_length) -> (..., n_h, n_w).
    """
    n_h, n_w = grid or patch_grid(rows.shape[-1])
    return rows[..., -n_h * n_w :].unflatten(-1, (n_h, n_w))


def rollout(weights: Tensor) -> Tensor:
    """How much of each input token is in each output token, if attention and the residual were all
    there is.

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


def mean_attention_distance(
    weights: Tensor, patch_size: int, grid: tuple[int, int] | None = None
) -> Tensor:
    """How far a head looks: distance in pixels between a patch and those it attends to, weighted by
    attention.

    The class token is left out, and the rest of each row is made to sum to 1. The result is the
    mean over images and query patches. ``patch_size``: pixels from one patch to the next; ``grid``:
    see ``to_maps``.

    Shape: (n, num_layers, num_heads, seq_length, seq_length) -> (num_layers, num_heads).
    Source: Dosovitskiy et al. 2020, section 4.5 and figure 7.
    """
    _check_weights(weights)
    check_sizes(patch_size=patch_size)
    n_h, n_w = grid or patch_grid(weights.shape[-1])
    place = torch.cartesian_prod(torch.arange(n_h), torch.arange(n_w)).to(weights)
    distance = torch.cdist(place, place) * patch_size
    patches = weights[..., -n_h * n_w :, -n_h * n_w :]
    patches = patches / patches.sum(dim=-1, keepdim=True)
    return (patches * distance).sum(dim=-1).mean(dim=(0, -1))


def ink_share(maps: Tensor, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Share of the attention on patches that hold ink, and the share of patches that do (what
    chance would give).

    A patch holds ink where its largest pixel is above the picture's smallest. Each map is made to
    sum to 1.

    Shape: maps (n, ..., n_h, n_w), see ``to_maps``, and pictures (n, c, h, w) -> (n, ...) and (n,).
    """
    if maps.dim() < 3 or pictures.dim() != 4 or len(maps) != len(pictures):
        raise ValueError(
            "maps must be (n, ..., n_h, n_w) and pictures (n, c, h, w) of the same n images, got "
            f"{tuple(maps.shape)} and {tuple(pictures.shape)}"
        )
    grid = maps.shape[-2:]
    lowest = pictures.float().amin(dim=(1, 2, 3), keepdim=True)
    ink = (
        nn.functional.adaptive_max_pool2d(
            (pictures.float() - lowest).amax(dim=1, keepdim=True), grid
        )
        > 0
    )
    ink = ink.to(maps).view(len(maps), *[1] * (maps.dim() - 3), *grid)
    share = (maps * ink).sum(dim=(-1, -2)) / maps.sum(dim=(-1, -2)).clamp(min=1e-12)
    return share, ink.mean(dim=(-1, -2)).flatten()


@torch.no_grad()
def head_contributions(model: nn.Module, images: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """What each head adds to the output of an attention layer, exactly, in eval mode; and the
    layer's bias.

    The output projection is linear, so it can be applied to each head alone: A_h V_h times the
    columns of the projection that belong to head h. Returns (n, num_heads, seq_length, hidden_dim)
    and the bias, (hidden_dim,). The first, summed over the heads, plus the bias is the layer's
    output.
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
        weights = attention_weights(model, images, layers=[layer])[:, 0]
    finally:
        handle.remove()
    heads, width = attention.num_heads, attention.embed_dim
    x = inputs[0] if getattr(attention, "batch_first", True) else inputs[0].transpose(0, 1)
    # (n, seq_length, hidden_dim) -> (n, num_heads, seq_length, head_dim)
    values = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)[
        ..., 2 * width :
    ]
    values = values.unflatten(-1, (heads, width // heads)).transpose(1, 2)
    # (hidden_dim, hidden_dim) -> (num_heads, head_dim, hidden_dim)
    projection = attention.out_proj.weight.T.unflatten(0, (heads, width // heads))
    bias = attention.out_proj.bias
    return weights @ values @ projection, x.new_zeros(width) if bias is None else bias


def _check_weights(weights: Tensor) -> None:
    if weights.dim() != 5 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(
            "weights must be (n, num_layers, num_heads, seq_length, seq_length), all rows of all"
            f" layers, as attention_weights(model, images) gives them, got {tuple(weights.shape)}"
        )


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that can return their weights, in order: nn.MultiheadAttention, or layers with the
    same interface."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a model (nn.Module), got {type(model).__name__}: load_model(name)"
            " makes one"
        )
    parts = list(model.modules())
    if any(
        hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) for part in parts
    ):
        raise ValueError(
            f"{type(model).__name__} was compiled, and torch.compile leaves out the hooks that"
            " record. Give the model it was made from (model._orig_mod)"
        )
    alike = [
        part
        for part in parts
        if getattr(part, "in_proj_weight", None) is not None and hasattr(part, "num_heads")
    ]
    taken = {part: inspect.signature(part.forward).parameters for part in alike}
    return [
        part
        for part in alike
        if "need_weights" in taken[part] or _KWARGS in {p.kind for p in taken[part].values()}
    ]


REMEDIES = (
    "FastVisionTransformer: give the plain model. timm: set fused_attn = True in the attention"
    ' layers. Hugging Face: load with attn_implementation="sdpa". A layer of your own: call'
    " F.scaled_dot_product_attention, or take need_weights like nn.MultiheadAttention. Convolutions"
    " have no attention weights, and attention in windows (Swin) does not cover the whole picture"
)
_KWARGS = inspect.Parameter.VAR_KEYWORD
_KEYS = {
    "in_proj_weight",
    "qkv",
    "key",
    "k_proj",
    "to_k",
    "to_qkv",
    "kv",
    "c_attn",
}  # what makes keys in other layers
