"""Records the attention weights of an unmodified Vision Transformer in its forward pass.

A forward pass is followed through every operation that torch dispatches: which tensors come of the
images, and how many attention layers lie between. A layer takes what the one before it made. So
calls side by side, such as one for each head or each part of the batch, are not taken for layers,
and a layer that makes its weights in a way that cannot be recorded is not left out unnoticed.
"""

import inspect
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from types import FunctionType, MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .tokens import find_blocks, refuse_compiled

__all__ = ["attention_layers", "record_attention"]

REMEDIES = (
    "FastVisionTransformer: give the plain model. timm: set fused_attn = True in the attention"
    ' layers. Hugging Face: load with attn_implementation="sdpa". A layer of your own: call'
    " F.scaled_dot_product_attention, or take need_weights like nn.MultiheadAttention. Convolutions"
    " have no attention weights, and attention in windows (Swin) does not cover the whole picture"
)


@contextmanager
def record_attention(
    model: nn.Module, layers: Sequence[int] | None = None, query: int | None = None
) -> Iterator[list[Tensor]]:
    """Keep the attention weights of every forward pass of ``model`` inside the ``with`` block.

    The model computes what it always computes. Layers such as nn.MultiheadAttention (torchvision,
    this course) are asked for their weights by hooks. Where a model calls
    F.scaled_dot_product_attention (timm, Hugging Face), the call is intercepted, and the weights
    are computed too. In train mode, layers that are asked give their weights after attention
    dropout: rows do not sum to 1, and a warning says so.

    Args:
        layers: keep these layers only, counted from 0; None keeps all.
        query: keep the row of this token only (0: what the class token looks at); None keeps all
            rows.

    Yields a list. When a forward pass of this model ends that this thread or task has called, the
    list grows by one tensor for each layer of self-attention, (n, num_heads, seq_length,
    seq_length); without the last but one dimension for one ``query``. Pooling with a single query
    token is not recorded. ValueError: a layer cannot be recorded, the first axis of its weights is
    not that of the images, or the model was not called (what cannot be seen: docs/recording.md).
    """
    recorder = Recorder(model, layers, query)
    with recording(recorder):
        yield recorder.record


@contextmanager
def recording(recorder: "Recorder") -> Iterator[None]:
    """Fill a recorder with what the model computes in the ``with`` block."""
    try:
        _HERE.set({**_HERE.get(), recorder: None})
        recorder.register_hooks()
        yield
        if recorder.passes == 0:
            raise ValueError(
                f"{recorder.name} was not called in the with block, so that nothing was recorded."
                " Call model(images) there, or record the part that is called"
            )
    except Exception as error:
        if recorder.problem:  # a layer that cannot be recorded may fail when it is followed
            raise ValueError(recorder.problem) from error
        raise
    finally:
        try:
            recorder.leave()
        finally:  # again, if Ctrl-C came during the first time
            recorder.leave()


class Recorder:
    """What is to be kept, the record, and the hooks on the model that fill it.

    Torch calls hooks in every thread and task. They do nothing where the ``with`` block was not
    opened; ``kwargs`` are missing if the hook is removed while another thread is in the call.
    """

    def __init__(self, model: nn.Module, layers: Sequence[int] | None, query: int | None) -> None:
        if layers is not None:
            _check_layers(layers)
        if query is not None and not _is_whole(query):
            raise ValueError(f"query must be a token, counted from 0, got {query!r}")
        self.model = model
        self.name = type(model).__name__
        self.asked = attention_layers(model)
        self.blocks = len(find_blocks(model))
        self.modules = list(model.modules())
        self.layers = layers
        self.query = query
        self.record: list[Tensor] = []
        # by thread and layer, for each call that is under way: what the model asks for itself
        self.wanted: dict[tuple[int, nn.Module], list[dict[str, bool]]] = {}
        self.passes = 0  # forward passes that ended well
        self.may_mix = False  # whether a pass may have mixed or reordered its images
        self.problem = ""  # of one that failed

    def register_hooks(self) -> None:
        """Register them; those after a call run in reverse, and after an error, too."""
        after = {"prepend": True, "always_call": True}
        self.model.register_forward_pre_hook(self.start, with_kwargs=True)
        self.model.register_forward_hook(self.stop, **after)
        self.model.register_forward_hook(self.finish, prepend=True)
        for layer in self.asked:
            layer.register_forward_pre_hook(self.ask, with_kwargs=True)
            layer.register_forward_hook(self.take, **after)

    def leave(self) -> None:
        """Remove the hooks, and the modes that an interrupted forward pass has left.

        Hooks are found by whose they are: an interrupt may come before a handle is kept.
        """
        running = self.running
        if running is not None:
            running.close()
        _HERE.set({other: run for other, run in _HERE.get().items() if other is not self})
        for module in self.modules:
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                for key, hook in list(hooks.items()):
                    if getattr(hook, "__self__", None) is self:
                        _remove_hook(module, key)

    @property
    def running(self) -> "_Forward | None":
        """The forward pass that is under way in this context."""
        return _HERE.get().get(self)

    def start(self, module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        """Before a forward pass of the model."""
        if self not in _HERE.get():
            return
        if self.running is not None:
            raise ValueError(
                f"{self.name} calls itself, or an earlier call was interrupted. Record a model"
                " that passes its layers once, in a new with block"
            )
        given = _tensors((args, kwargs))
        if not all(map(torch._C._has_storage, given)):
            raise ValueError(
                f"{self.name} was given tensors that hold no numbers of their own (torch.vmap,"
                " torch.func, sparse): call the model with plain images"
            )
        forward = _Forward(self, given)
        _HERE.set({**_HERE.get(), self: forward})
        forward.open()

    def finish(self, module: nn.Module, args: tuple, output: Any) -> None:
        """After a forward pass of the model that ended well."""
        forward = self._leave_forward()
        if forward is not None:
            forward.check()
            self.record.extend(forward.kept)
            self.may_mix |= forward.may_mix
            self.passes += 1

    def stop(self, module: nn.Module, args: tuple, output: Any) -> None:
        """After a forward pass of the model; where it failed, ``finish`` is not called."""
        forward = self._leave_forward()
        if forward is not None:
            self.problem = forward.problem

    def _leave_forward(self) -> "_Forward | None":
        forward = self.running
        if forward is not None:
            forward.close()
            _HERE.set({**_HERE.get(), self: None})
        return forward

    def ask(self, layer: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        """Before a layer that is asked: it is called with ``need_weights``.

        Outside of a forward pass, too: a checkpointed block must compute the same again.
        """
        if kwargs is None or self not in _HERE.get():
            return None
        args, kwargs = _by_name(layer, args, kwargs)
        self.wanted.setdefault((threading.get_ident(), layer), []).append(_wanted(layer, kwargs))
        if self.running is not None:
            self.running.enter_layer(layer, args, kwargs)
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def take(self, layer: nn.Module, args: tuple, output: Any) -> Any:
        """After a layer that is asked: its second output is the weights.

        The model gets what it has asked for itself, so that it computes what it always computes.
        """
        if self.running is not None:
            self.running.leave_layer(layer, output)
        calls = self.wanted.get((threading.get_ident(), layer))
        if not calls:
            return None
        wanted = calls.pop()
        if not wanted or not _is_pair(output):
            return None
        if not wanted[NEEDED]:
            return output[0], None
        if wanted[AVERAGED]:
            return output[0], output[1].mean(dim=1)
        return output[0], output[1].clone()  # it may be written into, and the other one is kept


# The recorders whose with block is open in this context, and their forward pass, if one is under
# way; and whether an operation belongs to a layer that is recorded as a whole.
_HERE: ContextVar[Mapping[Recorder, "_Forward | None"]] = ContextVar(
    "recorders", default=MappingProxyType({})
)
_BUSY: ContextVar[bool] = ContextVar("busy", default=False)


@contextmanager
def _busy() -> Iterator[None]:
    token = _BUSY.set(True)
    try:
        yield
    finally:
        _BUSY.reset(token)


NEEDED, AVERAGED = "need_weights", "average_attn_weights"


def _by_name(layer: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with ``need_weights`` and all behind it by name."""
    names = list(_parameters_of(layer))
    if NEEDED not in names[: len(args)]:
        return args, kwargs
    place = names.index(NEEDED)
    return args[:place], dict(zip(names[place:], args[place:], strict=False)) | kwargs


def _wanted(layer: nn.Module, kwargs: dict[str, Any]) -> dict[str, bool]:
    """What a call asks a layer for; empty if its signature does not tell."""
    parameters = _parameters_of(layer)
    if NEEDED not in parameters:
        return {}
    found = {NEEDED: False, AVERAGED: False}
    for name in found:
        if name in parameters:
            found[name] = bool(kwargs.get(name, parameters[name].default))
    return found


_SIGNATURES: WeakKeyDictionary[FunctionType, Mapping[str, inspect.Parameter]] = WeakKeyDictionary()


def _parameters_of(layer: nn.Module) -> Mapping[str, inspect.Parameter]:
    """The parameters of a layer's forward; of a class's method they are found once."""
    function = getattr(layer.forward, "__func__", None)
    if not isinstance(function, FunctionType):
        return inspect.signature(layer.forward).parameters
    if function not in _SIGNATURES:
        _SIGNATURES[function] = inspect.signature(layer.forward).parameters
    return _SIGNATURES[function]


def _is_pair(output: Any) -> bool:
    """Whether a layer gave its output and the weights of each head."""
    is_pair = isinstance(output, tuple) and len(output) == 2
    return is_pair and isinstance(output[1], Tensor) and output[1].dim() == 4


def _remove_hook(module: nn.Module, key: int) -> None:
    """Remove a hook of either kind, as its handle would; last from where it is looked for."""
    for kind in (
        module._forward_pre_hooks_with_kwargs,
        module._forward_hooks_with_kwargs,
        module._forward_hooks_always_called,
        module._forward_pre_hooks,
        module._forward_hooks,
    ):
        kind.pop(key, None)


@dataclass
class _Origin:
    """What is known of the memory of a tensor that comes of the images."""

    memory: StorageWeakRef  # kept, so that its address is not used again
    passed: int  # attention layers between the images and it
    tokens: Tensor | None = None  # what it was projected from, since the last of these layers


class _Forward(TorchDispatchMode):
    """One forward pass: follows what comes of the images, and keeps the weights of each layer."""

    supports_higher_order_operators = True  # such as flex_attention

    def __init__(self, recorder: Recorder, given: list[Tensor]) -> None:
        super().__init__()
        self.recorder = recorder
        self.images = _batch_size(given)
        self.given = set(map(_address, given))
        self.origins: dict[int, _Origin] = {}  # by the address of the memory
        self.attended = 0  # calls of attention, pooling among them
        self.passed = 0  # layers of self-attention
        self.shape: tuple[int, ...] = ()  # of a layer's weights, without the images
        self.kept: list[Tensor] = []
        self.executed: set[nn.Module] = set()  # layers that were asked
        self.layer: nn.Module | None = None  # the one that is executed now
        self.products: list[tuple[str, bool]] = []  # name, and whether the result is a single row
        self.may_mix = False
        self.problem = ""
        self.modes = ExitStack()
        self.in_layer = ExitStack()
        self._mark(given, 0)

    def open(self) -> None:
        """Follow what this thread computes from now on."""
        self.modes.enter_context(_FusedCalls(self))
        self.modes.enter_context(self)

    def close(self) -> None:
        """Follow no more."""
        self.in_layer.close()
        self.modes.close()

    # --- operations

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if _BUSY.get():
            return result
        known: list[Tensor] = []
        origins: list[_Origin] = []
        for given in _tensors((args, kwargs)):
            origin = self._origin(given)
            if origin is not None:
                known.append(given)
                origins.append(origin)
        if known:
            owner, _, name = function.name().rpartition("::")
            if owner not in TORCHS and len(known) > 1:
                self.fail(f"calls {owner}::{name}, which is not torch's and cannot be followed")
            self._follow(name.partition(".")[0].strip("_"), known, origins, result)
            self.may_mix |= _may_mix(name, args)
        return result

    def _follow(self, name: str, known: list[Tensor], origins: list[_Origin], result: Any) -> None:
        """An operation on tensors that come of the images: its result does, too."""
        projected = [origin.tokens for origin in origins]
        tokens = next((one for one in projected if one is not None), None)
        if _is_fused(name):
            self.fail(f"makes weights by {name}, which cannot be recorded")
        elif name in _SOFTMAX and _is_square(result):
            self.fail(f"makes weights by a {name} of its own, which cannot be recorded")
        elif name in _OUTER and len(known) > 1 and _is_outer(known, result):
            self.products.append((name, False))
        elif name in _PRODUCTS or "linear" in name:
            if len(known) > 1:
                self.products.append((name, _is_row(result)))
            else:
                tokens = known[0]
        elif name in _PACKED and not _are_same(projected):
            tokens = MIXED
        self._mark(result, max(origin.passed for origin in origins), tokens)

    def _origin(self, tensor: Any) -> _Origin | None:
        if not torch._C._has_storage(tensor):
            return None
        return self.origins.get(_address(tensor))

    def _depth(self, *given: Any) -> int:
        """Attention layers between the images and these; -1 if none of them comes of the images."""
        origins = [self._origin(tensor) for tensor in _tensors(given)]
        return max((one.passed for one in origins if one), default=-1)

    def _mark(self, made: Any, passed: int, tokens: Tensor | None = None) -> None:
        """These come of the images."""
        for tensor in _tensors(made):
            if torch._C._has_storage(tensor):
                memory = StorageWeakRef(tensor.untyped_storage())
                self.origins[_address(tensor)] = _Origin(memory, passed, tokens)

    # --- layers that are asked for their weights

    def enter_layer(self, layer: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """What happens in it is its own affair, also if it is made of such a layer."""
        self.executed.add(layer)
        if self.layer is not None:
            return
        self.layer = layer
        named = [kwargs[name] for name in ("query", "key") if name in kwargs]
        query, key = (*args, *named, None, None)[:2]
        self.depth = self._depth(args, kwargs)
        self.is_self = key is None or _same(query, key)
        self.in_layer.enter_context(_busy())
        # a mode would turn the fast path of nn.MultiheadAttention off
        self.in_layer.enter_context(torch._C.DisableTorchFunction())

    def leave_layer(self, layer: nn.Module, output: Any) -> None:
        """Keep its weights; ``output`` is None if it failed."""
        if layer is not self.layer:
            return
        self.in_layer.close()
        self.layer = None
        if output is None:
            return
        if not _is_pair(output):
            self.fail(
                f"has a layer {type(layer).__name__} that gave no weights per head: called with"
                " need_weights=True, its forward must return (output, weights of shape (n,"
                " num_heads, s, s))"
            )
            return
        if layer.training and getattr(layer, "dropout", False):
            warnings.warn(
                "recorded in train mode, after attention dropout: rows do not sum to 1. Call"
                " model.eval() before, or use attention_weights",
                stacklevel=2,
            )
        weights = output[1]
        if self.depth < 0:
            self.fail(
                "has attention to tokens that do not come of the images, as far as torch can see"
                " (learned tokens, a text, numpy)"
            )
        rows = self._count(tuple(weights.shape), self.depth, self.is_self)
        if rows is not None:
            self._keep(weights[:, :, rows])
        self._mark(output, self.attended)

    # --- layers that call F.scaled_dot_product_attention

    def fused(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """The result of a call; its weights are computed beside it."""
        with _busy():
            result = function(*args, **kwargs)
            # no other mode for functions sees what is computed here
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self._see(*args, **kwargs)
        self._mark(result, self.attended)
        return result

    def _see(
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
        rows = self._count((*query.shape[:-1], s), self._depth(key), self._is_self(query, key))
        if rows is None:
            return
        if is_causal:  # no token looks at a later one
            attn_mask = query.new_ones(s, s, dtype=torch.bool).tril()
        if attn_mask is not None:
            attn_mask = attn_mask.expand(*attn_mask.shape[:-2], s, s)[..., rows, :]
        identity = torch.eye(s, dtype=query.dtype, device=query.device).expand(*key.shape[:-1], s)
        query = query[..., rows, :]
        self._keep(F.scaled_dot_product_attention(query, key, identity, attn_mask, **options))

    def _is_self(self, query: Tensor, key: Tensor) -> bool:
        """Whether queries and keys are projections of the same tokens, one of each."""
        asking, asked = self._origin(query), self._origin(key)
        if asking is None or asked is None or asking.passed != asked.passed:
            return False
        if asking.tokens is None and asked.tokens is None:  # no linear layer has made them
            are_given = {_address(query), _address(key)} <= self.given
            return are_given or _same(query, key)
        if asking.tokens is None or asked.tokens is None:
            return False
        is_of_tokens = _count_tokens(asking.tokens) == query.shape[0] * query.shape[-2]
        return is_of_tokens and _same(asking.tokens, asked.tokens)

    # --- all layers

    def _count(self, shape: tuple[int, ...], depth: int, is_self: bool) -> slice | None:
        """Count a call of attention with weights of this shape; the rows to keep, if any."""
        before = self.attended
        self.attended += 1
        for origin in self.origins.values():
            origin.tokens = None
        queries, s = shape[-2:]
        if 0 <= depth < before:
            self.fail(
                "has attention side by side: one call for each head, for each part of the batch,"
                " or in two branches. Each layer must take what the one before it made"
            )
        elif queries == 1 < s:  # pooling
            return None
        else:
            self._check_layer(shape, is_self)
        if self.problem:
            return None
        self.shape = shape[1:]
        self.may_mix |= self.images in self.shape  # another axis may be taken for the images'
        self.passed += 1
        return self._rows(s)

    def _check_layer(self, shape: tuple[int, ...], is_self: bool) -> None:
        if len(shape) != 4 or shape[-2] != shape[-1] or shape[1:] != (self.shape or shape[1:]):
            self.fail(
                f"has attention weights {shape}: all layers must have the same shape,"
                " (n, num_heads, s, s)"
            )
        elif shape[0] != self.images:
            self.fail(
                f"has attention weights {shape} for {self.images} images: the first axis must be"
                " the images', so this is attention in windows, or of a part of the batch (or the"
                " model takes tokens, and their first axis is not the images')"
            )
        elif not is_self:
            self.fail(
                "has cross attention, attention between channels, or several projections one after"
                " the other: queries and keys must be made of the same tokens, each by one linear"
                " layer or convolution"
            )

    def _rows(self, s: int) -> slice | None:
        """The rows of the last layer that are asked for."""
        layers, query = self.recorder.layers, self.recorder.query
        if query is not None and not -s <= query < s:
            raise IndexError(f"query must be 0 to {s - 1}, got {query}")
        if layers is not None and self.passed - 1 not in layers:
            return None
        if query is None:
            return slice(None)
        return slice(query % s, query % s + 1)

    def _keep(self, weights: Tensor) -> None:
        """Keep rows of weights, (n, num_heads, rows, s)."""
        weights = weights.detach()
        if self.recorder.query is not None:
            # a copy, so that the memory of the other rows can be freed
            weights = weights[:, :, 0].clone()
        self.kept.append(weights)

    def fail(self, problem: str) -> None:
        """Nothing is kept any more; the first problem is told when the forward pass ends."""
        self.problem = self.problem or f"{self.recorder.name} {problem}. {REMEDIES}"
        self.kept.clear()

    def check(self) -> None:
        """Raise an error unless each attention layer of the forward pass has been recorded."""
        asked, layers = self.recorder.asked, self.recorder.layers
        expected = max(1, self.recorder.blocks)
        if not self.executed.issuperset(asked):
            expected = max(expected, len(asked), self.passed + 1)
        if self.passed < expected:
            self.fail(
                f"was called, and only {self.passed} attention layers could be recorded; expected"
                f" at least {expected}"
            )
        product = self._own_product()
        if product:
            self.fail(f"makes weights by a {product} of its own, which cannot be recorded")
        if self.problem:
            raise ValueError(self.problem)
        if layers is not None and max(layers) >= self.passed:
            raise IndexError(f"layers must be 0 to {self.passed - 1}, got {max(layers)}")

    def _own_product(self) -> str:
        """The name of a product of two tensors that come of the images; empty if there is none.

        Pooling by hand has two such products, each with a single row.
        """
        rows = [name for name, is_row in self.products if is_row]
        others = [name for name, is_row in self.products if not is_row]
        found = others or rows[2:]
        return found[0] if found else ""


class _FusedCalls(TorchFunctionMode):
    """Sees the calls of F.scaled_dot_product_attention, before they become other operations."""

    def __init__(self, forward: _Forward) -> None:
        super().__init__()
        self.forward = forward

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") == "scaled_dot_product_attention":
            return self.forward.fused(function, args, kwargs)
        return function(*args, **kwargs)


# --- what is looked for among the operations


_FUSED = ("attention", "attn", "multi_head", "encoder_layer")  # parts of names
_SOFTMAX = {"softmax", "safe_softmax", "log_softmax", "exp"}
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "dot", "matmul", "linear", "einsum"}
_PRODUCTS |= {"inner", "tensordot", "cdist", "cdist_forward", "convolution", "conv1d", "conv2d"}


# Operations that can give an image the numbers of another one
_REORDERING = {"flip", "roll", "sort", "index", "index_select", "gather", "take", "unsafe_index"}
_REORDERING |= {"scatter", "index_put", "index_copy"}
_PACKED = {"cat", "stack"}
MIXED = torch.empty(0, 1)  # in place of tokens: parts of a tensor were projected from others
TORCHS = ("aten", "prims", "quantized", "higher_order", "profiler", "")
_OUTER = {"mul", "add", "sub", "div", "rsub", "addcmul", "atan2", "maximum", "minimum"}


def _batch_size(given: list[Tensor]) -> int:
    """The number of images that a model was given: the first four-dimensional tensor, or any."""
    for tensor in given:
        if tensor.dim() == 4:
            return tensor.shape[0]
    if given and given[0].dim():
        return given[0].shape[0]
    return 0


@cache
def _is_fused(name: str) -> bool:
    """Whether an operation computes attention as a whole."""
    return any(part in name for part in _FUSED)


def _count_tokens(tokens: Tensor) -> int:
    """Tokens of all images: (..., channels), or (n, channels, h, w) before a convolution."""
    if tokens.dim() == 4:
        return tokens.numel() // tokens.shape[1]
    return tokens.numel() // tokens.shape[-1]


def _may_mix(name: str, args: tuple) -> bool:
    """Whether an operation may put an image in the place of another one."""
    if name in ("cat", "stack"):
        dim = args[1:]
        return dim in ((), (0,))
    return name in _REORDERING


def _are_same(projected: list[Tensor | None]) -> bool:
    """Whether all were projected from the same tokens, or from none."""
    return all(_same(one, projected[0]) for one in projected)


def _is_outer(known: list[Tensor], result: Any) -> bool:
    """Whether an elementwise operation takes each row of one tensor with each row of another."""
    if not isinstance(result, Tensor) or result.dim() < 3:
        return False
    return result.numel() > max(map(_count_numbers, known))


def _count_numbers(tensor: Tensor) -> int:
    """How many numbers a tensor has, without those that ``expand`` repeats."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride:
            count *= size
    return count


def _is_square(result: Any) -> bool:
    return result.dim() > 2 and result.shape[-2] == result.shape[-1] > 1


def _is_row(result: Any) -> bool:
    return result.dim() < 2 or result.shape[-2] == 1


def _tensors(given: Any) -> list[Tensor]:
    """All tensors in arguments or results of a function."""
    if isinstance(given, Tensor):
        return [given]
    parts: Iterable[Any] = ()
    if isinstance(given, dict):
        parts = given.values()
    elif isinstance(given, list | tuple):
        parts = given
    found: list[Tensor] = []
    for part in parts:
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, list | tuple | dict):
            found += _tensors(part)
    return found


def _address(tensor: Tensor) -> int:
    """The address of its memory, which views share."""
    return tensor.untyped_storage()._cdata


def _same(first: Any, second: Any) -> bool:
    """Whether two tensors hold the same numbers; those of the meta device hold none."""
    if first is second:
        return True
    if first is None or second is None or first.shape != second.shape:
        return False
    return first.is_meta or torch.equal(first, second)


# --- what the model tells of its layers


def _check_layers(layers: Sequence[int]) -> None:
    is_list = isinstance(layers, Sequence) and all(map(_is_whole, layers))
    if not is_list or not layers or min(layers) < 0:
        raise ValueError(
            f"layers must be a list of layers, counted from 0, such as [0, 11], got {layers!r}"
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that can return their weights, in order: those like nn.MultiheadAttention."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a model (nn.Module), got {type(model).__name__}: load_model(name)"
            " makes one"
        )
    refuse_compiled(model)
    return [part for part in model.modules() if _can_be_asked(part)]


def _can_be_asked(part: nn.Module) -> bool:
    """Whether this is attention with a packed projection whose forward takes ``need_weights``."""
    if getattr(part, "in_proj_weight", None) is None or not hasattr(part, "num_heads"):
        return False
    parameters = _parameters_of(part)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return "need_weights" in parameters or takes_any
