"""Record the attention weights of an unmodified Vision Transformer, ours or another library's.

A forward pass is followed through every operation that torch dispatches: which tensors come of the
images, and how many attention layers lie between. Each layer must take what the one before it
made, so that calls side by side (one for each head, for each part of the batch) are no layers.
"""

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["attention_layers", "record_attention"]


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

    Yields a list. When a forward pass of this model ends, which was called in this thread or task,
    the list grows by one tensor for each layer of self-attention, (n, num_heads, seq_length,
    seq_length); without the last but one dimension for one ``query``. Pooling with a single query
    token is not recorded. ValueError: a layer cannot be recorded, the first axis of its weights is
    not that of the images, or the model was not called (what cannot be seen: docs/recording.md).
    """
    recorder = _Recorder(model, layers, query)
    try:
        _HERE.set({**_HERE.get(), recorder: None})
        recorder.hook()
        yield recorder.record
        if not recorder.calls:
            raise ValueError(
                f"{recorder.name} was not called in the with block, so that nothing was recorded."
                " Call model(images) there, or record the part that is called"
            )
    except Exception as error:
        if recorder.problem:  # a layer that cannot be recorded may fail while it is looked at
            raise ValueError(recorder.problem) from error
        raise
    finally:
        recorder.leave()


class _Recorder:
    """What is to be kept, the record, and the hooks on the model that fill it."""

    def __init__(self, model: nn.Module, layers: Sequence[int] | None, query: int | None) -> None:
        if layers is not None and not (
            isinstance(layers, Sequence) and layers and min(layers) >= 0
        ):
            raise ValueError(
                f"layers must be a list of layers, counted from 0, such as [0, 11], got {layers!r}"
            )
        self.model, self.name = model, type(model).__name__
        self.asked = attention_layers(model)
        self.modules = list(model.modules())
        self.blocks = _blocks(model)
        self.layers, self.query = layers, query
        self.record: list[Tensor] = []
        self.calls = 0
        self.problem = ""  # of a forward pass that failed

    def hook(self) -> None:
        """Register the hooks; those after a forward pass run in reverse, also after an error."""
        after = {"prepend": True, "always_call": True}
        self.model.register_forward_pre_hook(self.start, with_kwargs=True)
        self.model.register_forward_hook(self.finish, **after)
        for module in self.asked:
            module.register_forward_pre_hook(self.ask, with_kwargs=True)
            module.register_forward_hook(self.take, **after)

    def leave(self) -> None:
        """Remove every hook, and what an interrupted forward pass has left."""
        running = self.running()
        if running is not None:
            running.close()
        _HERE.set({other: run for other, run in _HERE.get().items() if other is not self})
        for module in self.modules:
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                for key, hook in list(hooks.items()):
                    if getattr(hook, "__self__", None) is self:
                        del hooks[key]
                        for kind in _KINDS_OF_HOOKS:
                            getattr(module, kind).pop(key, None)

    def running(self) -> "_Forward | None":
        """The forward pass that is under way in this context."""
        return _HERE.get().get(self)

    # Hooks. Torch calls them for every thread and task; kwargs are missing if a hook is removed
    # while another thread is in the call.

    def start(self, module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        if self not in _HERE.get():
            return
        if self.running() is not None:
            raise ValueError(
                f"{self.name} calls itself, or an earlier call was interrupted. Record a model"
                " that passes its layers once, in a new with block"
            )
        forward = _Forward(self, _tensors((args, kwargs)))
        _HERE.set({**_HERE.get(), self: forward})
        forward.open()

    def finish(self, module: nn.Module, args: tuple, output: Any) -> None:
        forward = self.running()
        if forward is None:
            return
        forward.close()
        _HERE.set({**_HERE.get(), self: None})
        if output is None:  # the forward pass failed
            self.problem = forward.problem
        else:
            forward.check()
            self.record.extend(forward.kept)
            self.calls += 1

    def ask(self, module: nn.Module, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        if kwargs is None or self not in _HERE.get():
            return None
        forward = self.running()
        if forward is not None:
            forward.enter_layer(module, args, kwargs)
        # also outside: a block that is computed again for its gradient must compute the same
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def take(self, module: nn.Module, args: tuple, output: Any) -> None:
        forward = self.running()
        if forward is not None:
            forward.leave_layer(module, output)


_HERE: ContextVar[Mapping[_Recorder, "_Forward | None"]] = ContextVar(
    "recorders", default=MappingProxyType({})
)
_BUSY: ContextVar[bool] = ContextVar("busy", default=False)  # in a layer that is recorded whole
_KINDS_OF_HOOKS = (
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)


@contextmanager
def _busy() -> Iterator[None]:
    token = _BUSY.set(True)
    try:
        yield
    finally:
        _BUSY.reset(token)


@dataclass
class _Tag:
    """What is known of the memory of a tensor that comes of the images."""

    memory: StorageWeakRef  # held, so that its address is not used again
    passed: int  # attention layers between the images and it
    tokens: Tensor | None = None  # what it was projected from, since the last layer


class _Forward(TorchDispatchMode):
    """One forward pass: follows what comes of the images, and keeps the weights of each layer."""

    supports_higher_order_operators = True  # such as flex_attention

    def __init__(self, recorder: _Recorder, given: list[Tensor]) -> None:
        super().__init__()
        self.recorder, self.name = recorder, recorder.name
        self.images = given[0].shape[0] if given and given[0].dim() else 0
        self.tags: dict[int, _Tag] = {}
        self.attended = 0  # calls of attention, pooling among them
        self.count = 0  # layers of self-attention
        self.shape: tuple[int, ...] = ()  # of a layer's weights, without the images
        self.kept: list[Tensor] = []
        self.executed: set[nn.Module] = set()
        self.layer: nn.Module | None = None  # the one that is asked for its weights
        self.problem = ""
        self.products: list[tuple[str, bool]] = []
        self.opened, self.in_layer = ExitStack(), ExitStack()
        self.mark(given, 0)

    def open(self) -> None:
        self.opened.enter_context(_Calls(self))
        self.opened.enter_context(self)

    def close(self) -> None:
        self.in_layer.close()
        self.opened.close()

    # what comes of the images

    def tag(self, tensor: Tensor) -> _Tag | None:
        return self.tags.get(tensor.untyped_storage()._cdata) if _stored(tensor) else None

    def passed(self, *given: Any) -> int:
        """Attention layers between the images and these; -1 if none of them comes of the images."""
        tags = [self.tag(tensor) for tensor in _tensors(given)]
        return max((tag.passed for tag in tags if tag), default=-1)

    def mark(self, made: Any, passed: int, tokens: Tensor | None = None) -> None:
        for tensor in filter(_stored, _tensors(made)):
            memory = tensor.untyped_storage()
            self.tags[memory._cdata] = _Tag(StorageWeakRef(memory), passed, tokens)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if _BUSY.get():
            return result
        known = [given for given in _tensors((args, kwargs)) if self.tag(given)]
        if known:
            self.look(function.name().rpartition("::")[2].partition(".")[0], known, result)
        return result

    def look(self, name: str, known: list[Tensor], result: Any) -> None:
        """An operation on tensors that come of the images."""
        tokens = next((t.tokens for t in map(self.tag, known) if t.tokens is not None), None)
        if any(part in name for part in _FUSED):
            self.fail(f"makes weights by {name}, which cannot be recorded")
        elif name.strip("_") in _SOFTMAX and _is_square(result):
            self.fail(f"makes weights by a {name.strip('_')} of its own, which cannot be recorded")
        elif name.strip("_") in _PRODUCTS and len(known) > 1:
            self.products.append((name, _is_row(result)))
        elif name.strip("_") in _PRODUCTS:
            tokens = known[0]
        self.mark(result, self.passed(known), tokens)

    def fail(self, problem: str) -> None:
        """The first problem is told when the forward pass ends, and nothing is kept any more."""
        self.problem = self.problem or f"{self.name} {problem}. {REMEDIES}"
        self.kept.clear()

    # layers

    def enter_layer(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        self.executed.add(module)
        if self.layer is not None:  # part of a layer that is asked
            return
        self.layer = module
        given = [*args, *(kwargs[name] for name in ("query", "key") if name in kwargs)][:2]
        self.before = self.passed(args, kwargs), len(given) < 2 or _same(*given)
        self.in_layer.enter_context(_busy())
        # a mode would turn the fast path of nn.MultiheadAttention off
        self.in_layer.enter_context(torch._C.DisableTorchFunction())

    def leave_layer(self, module: nn.Module, output: Any) -> None:
        if module is not self.layer:
            return
        self.in_layer.close()
        self.layer = None
        if output is None:
            return
        weights = output[1] if isinstance(output, tuple) and len(output) == 2 else None
        if not isinstance(weights, Tensor) or weights.dim() != 4:
            return self.fail(
                f"has a layer {type(module).__name__} that gave no weights per head: called with"
                " need_weights=True, its forward must return (output, weights of shape (n,"
                " num_heads, s, s))"
            )
        if module.training and getattr(module, "dropout", False):
            warnings.warn(
                "recorded in train mode, after attention dropout: rows do not sum to 1. Call"
                " model.eval() before, or use attention_weights",
                stacklevel=2,
            )
        passed, itself = self.before
        rows = self.rows(weights.shape, passed, itself)
        if rows is not None:
            self.keep(weights[:, :, rows])
        self.mark(output, self.attended)

    def fused(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """F.scaled_dot_product_attention was called."""
        with _busy():
            result = function(*args, **kwargs)
        with _busy(), torch.no_grad(), torch._C.DisableTorchFunction():
            self.see(*args, **kwargs)
        self.mark(result, self.attended)
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
        """Compute the weights: with the identity as values, they are the output of the call."""
        s, asking, asked = key.shape[-2], self.tag(query), self.tag(key)
        itself = asking is asked or (
            asking is not None
            and asked is not None
            and asking.passed == asked.passed
            and _same(asking.tokens, asked.tokens)
        )
        rows = self.rows((*query.shape[:-1], s), self.passed(key), itself)
        if rows is None:
            return
        if is_causal:  # no token looks at a later one
            attn_mask = query.new_ones(s, s, dtype=torch.bool).tril()
        if attn_mask is not None:
            attn_mask = attn_mask.expand(*attn_mask.shape[:-2], s, s)[..., rows, :]
        identity = torch.eye(s, dtype=query.dtype, device=query.device).expand(*key.shape[:-1], s)
        self.keep(
            F.scaled_dot_product_attention(query[..., rows, :], key, identity, attn_mask, **options)
        )

    def rows(self, shape: Sequence[int], passed: int, itself: bool) -> slice | None:
        """Count a layer with weights of this shape; the rows of it to keep, if any."""
        shape, s = tuple(shape), shape[-1]
        before, self.attended = self.attended, self.attended + 1
        for tag in self.tags.values():
            tag.tokens = None
        if passed < before:
            self.fail(
                "has attention side by side: one call for each head, for each part of the batch,"
                " or in two branches. Each layer must take what the one before it made"
            )
        elif shape[-2] == 1 < s:  # pooling is no self-attention
            return None
        elif not itself:
            self.fail("has cross attention: queries and keys come from different tokens")
        elif len(shape) != 4 or shape[-2] != s or shape[1:] != (self.shape or shape[1:]):
            self.fail(
                f"has attention weights {shape}: all layers must have the same shape,"
                " (n, num_heads, s, s)"
            )
        elif shape[0] != self.images:
            self.fail(
                f"has attention weights {shape} for {self.images} images: the first axis must be"
                " the images', so this is attention in windows, or of a part of the batch"
            )
        if self.problem:
            return None
        self.shape, self.count = shape[1:], self.count + 1
        query, layers = self.recorder.query, self.recorder.layers
        if query is not None and not -s <= query < s:
            raise IndexError(f"query must be 0 to {s - 1}, got {query}")
        if layers is not None and self.count - 1 not in layers:
            return None
        return slice(None) if query is None else slice(query % s, query % s + 1)

    def keep(self, weights: Tensor) -> None:  # a row is copied, so that the others can go
        whole = self.recorder.query is None
        self.kept.append(weights.detach() if whole else weights[:, :, 0].detach().clone())

    def check(self) -> None:
        """Raise an error unless each attention layer has been recorded."""
        layers, asked = self.recorder.layers, self.recorder.asked
        if self.problem:
            raise ValueError(self.problem)
        expected = max(1, self.recorder.blocks)
        if set(asked) - self.executed:
            expected = max(expected, len(asked), self.count + 1)
        if self.count < expected:
            raise ValueError(
                f"{self.name} was called, and only {self.count} attention layers could be"
                f" recorded; expected at least {expected}. {REMEDIES}"
            )
        if self.product():
            raise ValueError(
                f"{self.name} makes weights by a {self.product()} of its own, which cannot be"
                f" recorded. {REMEDIES}"
            )
        if layers is not None and max(layers) >= self.count:
            raise IndexError(f"layers must be 0 to {self.count - 1}, got {max(layers)}")

    def product(self) -> str:
        """The name of a product of two tensors that come of the images; pooling has two products,
        each with one row."""
        rows = [name for name, row in self.products if row]
        others = [name for name, row in self.products if not row]
        return (others or rows[2:] or [""])[0]


class _Calls(TorchFunctionMode):
    """Sees the calls of F.scaled_dot_product_attention, before they become other operations."""

    def __init__(self, forward: _Forward) -> None:
        self.forward = forward

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") == "scaled_dot_product_attention":
            return self.forward.fused(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


_FUSED = ("attention", "attn", "multi_head", "encoder_layer")
_SOFTMAX = {"softmax", "safe_softmax", "log_softmax", "exp"}
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "dot", "matmul", "linear", "einsum"}
_PRODUCTS |= {"inner", "tensordot", "cdist", "cdist_forward", "convolution", "conv1d", "conv2d"}


def _tensors(given: Any) -> list[Tensor]:
    """All tensors in arguments or results of a function."""
    if isinstance(given, Tensor):
        return [given]
    parts: Iterable[Any] = ()
    if isinstance(given, dict):
        parts = given.values()
    elif isinstance(given, list | tuple):
        parts = given
    return [tensor for part in parts for tensor in _tensors(part)]


def _stored(tensor: Tensor) -> bool:
    return torch._C._has_storage(tensor)


def _is_row(result: Any) -> bool:
    return result.dim() < 2 or result.shape[-2] == 1


def _is_square(result: Any) -> bool:
    return result.dim() > 2 and result.shape[-2] == result.shape[-1] > 1


def _same(first: Any, second: Any) -> bool:
    """Whether two tensors hold the same numbers; those of the meta device hold none."""
    if first is second:
        return True
    if first is None or second is None or first.shape != second.shape:
        return False
    return first.is_meta or torch.equal(first, second)


def _blocks(model: nn.Module) -> int:
    """The length of the longest row of blocks of one class, the outermost ones."""
    kinds = {type(child) for child in model.children()}
    matrices = [sum(p.dim() == 2 for p in child.parameters()) for child in model.children()]
    if isinstance(model, nn.ModuleList | nn.Sequential) and len(kinds) == 1 and min(matrices) > 2:
        return len(matrices)
    return max(map(_blocks, model.children()), default=0)


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


REMEDIES = (
    "FastVisionTransformer: give the plain model. timm: set fused_attn = True in the attention"
    ' layers. Hugging Face: load with attn_implementation="sdpa". A layer of your own: call'
    " F.scaled_dot_product_attention, or take need_weights like nn.MultiheadAttention. Convolutions"
    " have no attention weights, and attention in windows (Swin) does not cover the whole picture"
)
