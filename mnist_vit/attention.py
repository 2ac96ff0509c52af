"""Attention weights of an unmodified Vision Transformer, and maps of them.

The model is ours or another library's. Four different things are called attention; here they keep
their names:

- score: q kᵀ / √d
- weight: the softmax of the scores; rows sum to 1
- head output: A_h V_h, before the output projection
- layer output: after the output projection. A slice of it belongs to no head.

Which token is which: ``tokens``.
"""

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

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

REMEDIES = (
    "FastVisionTransformer: give the plain model. timm: set fused_attn = True in the attention"
    ' layers. Hugging Face: load with attn_implementation="sdpa". A layer of your own: call'
    " F.scaled_dot_product_attention, or take need_weights like nn.MultiheadAttention. Convolutions"
    " have no attention weights, and attention in windows (Swin) does not cover the whole picture"
)
# Attributes that make keys in attention layers of other libraries
_KEYS = {"in_proj_weight", "qkv", "key", "k_proj", "to_k", "to_qkv", "kv", "c_attn"}


@contextmanager
def record_attention(
    model: nn.Module, layers: Sequence[int] | None = None, query: int | None = None
) -> Iterator[list[Tensor]]:
    """Keep the attention weights of every forward pass in the ``with`` block, made by this thread.

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
    asked = attention_layers(model)
    record = _Record(type(model).__name__, len(asked), layers, query)
    others = [part for part in model.modules() if part not in asked and _makes_keys(part)]
    with ExitStack() as stack:
        stack.enter_context(_hooks(model, asked, record))
        # Not without need: a mode turns the fast path of nn.MultiheadAttention off.
        if others or not asked:
            stack.enter_context(_FusedCalls(record))
        yield record.weights


def _makes_keys(part: nn.Module) -> bool:
    return bool(_KEYS.intersection(dir(part)))


class _Record:
    """The weights that are kept, and which layers the current forward pass has passed."""

    def __init__(
        self, name: str, least: int, layers: Sequence[int] | None, query: int | None
    ) -> None:
        if layers is not None:
            _check_layers(layers)
        self.name = name
        self.least = max(1, least)  # layers that a forward pass must pass
        self.layers = layers
        self.query = query
        self.weights: list[Tensor] = []
        self.start()

    def start(self, *_: Any) -> None:
        """A forward pass of the model begins."""
        self.inside_asked_layer = False
        self.shapes: list[tuple[int, ...]] = []  # of the weights of all layers passed

    def finish(self, *_: Any) -> None:
        """A forward pass has ended; ValueError if it passed fewer layers than the model has."""
        passed = len(self.shapes)
        if passed < self.least:
            raise ValueError(
                f"{self.name} was called, and only {passed} attention layers could be"
                f" recorded; expected at least {self.least}. {REMEDIES}"
            )
        if self.layers is not None and max(self.layers) >= passed:
            raise IndexError(f"layers must be 0 to {passed - 1}, got {max(self.layers)}")

    def rows_to_keep(self, *shape: int) -> slice | None:
        """Count a layer with weights of this shape; None if none of its rows is asked for."""
        queries, s = shape[-2:]
        is_pooling = queries == 1 < s
        if is_pooling:
            return None
        self.shapes.append(shape)
        if queries != s or len(shape) != 4 or shape[1:] != self.shapes[0][1:]:
            raise ValueError(
                f"{self.name} has attention weights {shape}: all layers must have the same shape, "
                f"(n, num_heads, s, s). {REMEDIES}"
            )
        if self.query is not None and not -s <= self.query < s:
            raise IndexError(f"query must be 0 to {s - 1}, got {self.query}")
        layer = len(self.shapes) - 1
        if self.layers is not None and layer not in self.layers:
            return None
        if self.query is None:
            return slice(None)
        token = self.query % s
        return slice(token, token + 1)

    def keep(self, weights: Tensor) -> None:
        """Keep rows of weights, (n, num_heads, rows, s)."""
        weights = weights.detach()
        if self.query is not None:
            # A copy, so that the memory of the other rows can be freed
            weights = weights[:, :, 0].clone()
        self.weights.append(weights)


def _check_layers(layers: Sequence[int]) -> None:
    if not isinstance(layers, Sequence) or not layers or min(layers) < 0:
        raise ValueError(
            f"layers must be a list of layers, counted from 0, such as [0, 11], got {layers!r}"
        )


# --- layers that are asked for their weights ---


@contextmanager
def _hooks(model: nn.Module, layers: list[nn.Module], record: _Record) -> Iterator[None]:
    """Hooks that begin and end a record, and ask these layers for weights; removed at the end."""
    asked = _AskedLayers(record)
    handles: list[RemovableHandle] = []
    handles.append(model.register_forward_pre_hook(_in_this_thread(record.start)))
    for layer in layers:
        ask, take = _in_this_thread(asked.ask), _in_this_thread(asked.take)
        handles.append(layer.register_forward_pre_hook(ask, with_kwargs=True))
        handles.append(layer.register_forward_hook(take))
    handles.append(model.register_forward_hook(_in_this_thread(record.finish)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, for calls of this thread only; a module calls its hooks in every thread."""
    thread = threading.get_ident()

    def called(*given: Any) -> Any:
        if threading.get_ident() == thread:
            return hook(*given)
        return None

    return called


class _AskedLayers:
    """Records layers like nn.MultiheadAttention: they return their weights when asked."""

    def __init__(self, record: _Record) -> None:
        self.record = record

    def ask(self, layer: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        """A keyword pre-hook: the layer is called with ``need_weights``."""
        if kwargs is None:  # the hook was removed while another thread is in the call
            return None
        self.record.inside_asked_layer = True
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def take(self, layer: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
        """A forward hook: keeps the second output."""
        is_pair = isinstance(output, tuple) and len(output) == 2
        weights = output[1] if is_pair else None
        if not isinstance(weights, Tensor) or weights.dim() != 4:
            raise ValueError(
                f"{type(layer).__name__} gave no weights per head: called with need_weights=True,"
                " its forward must return (output, weights of shape (n, num_heads, s, s))"
            )
        if layer.training and getattr(layer, "dropout", False):
            warnings.warn(
                "recorded in train mode, after attention dropout: rows do not sum to 1. Call"
                " model.eval() before, or use attention_weights",
                stacklevel=2,
            )
        self.record.inside_asked_layer = False
        rows = self.record.rows_to_keep(*weights.shape)
        if rows is not None:
            self.record.keep(weights[:, :, rows])


# --- layers that call F.scaled_dot_product_attention ---


class _FusedCalls(TorchFunctionMode):
    """Records calls of F.scaled_dot_product_attention: it computes the weights beside each call.

    As a mode, it sees every call of a torch function. ValueError if a layer makes weights in
    another way, which could not be recorded.
    """

    def __init__(self, record: _Record) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if self.record.inside_asked_layer:
            return result
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            # No other mode sees what is computed here.
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self.see(*args, **kwargs)
        elif name == "multi_head_attention_forward" or _is_softmax_of_scores(name, result):
            raise ValueError(
                f"{self.record.name} makes weights by a {name} of its own, which cannot be"
                f" recorded. {REMEDIES}"
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
        """Keep the weights of a call. With the identity as values, its output is the weights."""
        s = key.shape[-2]
        rows = self.record.rows_to_keep(*query.shape[:-1], s)
        if rows is None:
            return
        if is_causal:  # no token looks at a later one
            attn_mask = query.new_ones(s, s, dtype=torch.bool).tril()
        if attn_mask is not None:
            attn_mask = attn_mask.expand(*attn_mask.shape[:-2], s, s)[..., rows, :]
        identity = torch.eye(s, dtype=query.dtype, device=query.device).expand(*key.shape[:-1], s)
        query = query[..., rows, :]
        weights = F.scaled_dot_product_attention(query, key, identity, attn_mask, **options)
        self.record.keep(weights)


def _is_softmax_of_scores(name: str, result: Any) -> bool:
    if not name.endswith("softmax") or result.dim() <= 2:
        return False
    return result.shape[-2] == result.shape[-1] > 1


@torch.no_grad()
def attention_weights(
    model: nn.Module,
    images: Tensor,
    query: int | None = None,
    batch_size: int | None = None,
    layers: Sequence[int] | None = None,
) -> Tensor:
    """The attention weights of all layers and heads, in one forward pass, in eval mode.

    Each module's mode is put back.

    Args:
        images: (n, c, h, w), normalised as the model wants them; converted to its device and dtype.
        query, layers: keep this token's row, these layers only: see ``record_attention``. This
            saves memory of the result, not time: layers that are asked compute all rows.
        batch_size: images per forward pass, so that many images fit in memory; None takes all at
            once.

    Returns (n, num_layers, num_heads, seq_length, seq_length); without the last but one dimension
    for one ``query``.
    """
    _check_images(images)
    asked = attention_layers(model)
    parameter = next((asked[0] if asked else model).parameters(), images)
    if batch_size is None:
        batch_size = len(images)
    check_sizes(batch_size=batch_size)
    result = torch.empty(0)
    with eval_mode(model):
        for start in range(0, len(images), batch_size):
            end = start + batch_size
            with record_attention(model, layers, query) as record:
                model(images[start:end].to(parameter))
            if start == 0:  # one place for the whole result, so that nothing is held twice
                result = record[0].new_empty(len(images), len(record), *record[0].shape[1:])
            for layer in reversed(range(len(record))):
                result[start:end, layer] = record.pop()
    if layers is None:
        return result
    recorded = sorted(set(layers))
    return result[:, [recorded.index(layer) for layer in layers]]


def _check_images(images: Tensor) -> None:
    needed = (
        "images must be floats (n, c, h, w), n at least 1, normalised as the model wants them "
        "(data.normalise)"
    )
    if not isinstance(images, Tensor):
        raise ValueError(f"{needed}, got {type(images).__name__}; for one image: images[None]")
    if images.dim() != 4 or len(images) == 0 or not images.is_floating_point():
        got = f"{images.dtype} {tuple(images.shape)}"
        raise ValueError(f"{needed}, got {got}; for one image: images[None]")
    if not images.isfinite().all():
        raise ValueError(
            "images hold nan or infinite numbers: look for a division by zero where they were made"
        )


def to_maps(rows: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
    """Rows of weights, such as ``weights[..., 0, :]``, as maps: the patches in their places.

    ``grid``: numbers of rows and columns of patches, see ``tokens.patch_grid``; patches come last.
    None: a square grid after the class token. Shape: (..., seq_length) -> (..., n_h, n_w).
    """
    n_h, n_w = grid or patch_grid(rows.shape[-1])
    return rows[..., -n_h * n_w :].unflatten(-1, (n_h, n_w))


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


def mean_attention_distance(
    weights: Tensor, patch_size: int, grid: tuple[int, int] | None = None
) -> Tensor:
    """How far a head looks: the distance in pixels from a patch to those it attends to.

    Distances are weighted by attention. The class token is left out, and the rest of each row is
    made to sum to 1. The result is the mean over images and query patches. ``patch_size``: pixels
    from one patch to the next; ``grid``: see ``to_maps``.

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
    output.
    """
    layers = attention_layers(model)
    if not 0 <= layer < len(layers):
        raise IndexError(f"layer must be 0 to {len(layers) - 1}, got {layer}")
    attention = layers[layer]
    inputs: list[Tensor] = []

    def keep(module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        if kwargs is not None:
            inputs.append(_value_of(args, kwargs))

    handle = attention.register_forward_pre_hook(_in_this_thread(keep), with_kwargs=True)
    try:
        weights = attention_weights(model, images, layers=[layer])[:, 0]
    finally:
        handle.remove()
    x = inputs[0]
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


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that can return their weights, in order: those like nn.MultiheadAttention."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a model (nn.Module), got {type(model).__name__}: load_model(name)"
            " makes one"
        )
    parts = list(model.modules())
    if any(_is_compiled(part) for part in parts):
        raise ValueError(
            f"{type(model).__name__} was compiled, and torch.compile leaves out the hooks that"
            " record. Give the model it was made from (model._orig_mod)"
        )
    return [part for part in parts if _can_be_asked(part)]


def _is_compiled(part: nn.Module) -> bool:
    return hasattr(part, "_orig_mod") or bool(getattr(part, "_compiled_call_impl", None))


def _can_be_asked(part: nn.Module) -> bool:
    """Whether this is attention with a packed projection whose forward takes ``need_weights``."""
    if getattr(part, "in_proj_weight", None) is None or not hasattr(part, "num_heads"):
        return False
    parameters = inspect.signature(part.forward).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return "need_weights" in parameters or takes_any
