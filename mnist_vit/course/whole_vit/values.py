"""What a Vision Transformer computes on the way, by names that fit anybody's model."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .passing import tensors_of
from .running import logits_in

# What a model computes on the way, by name, in the order of its calls; the logits last.
Values = dict[str, Tensor]

LOGITS = "the output of the model"
SOFTMAX = "the softmax of the scores"
SUM = "the sum of tokens and positions"
FIRST_TOKENS = "the input of block 0's ln_1"
SECOND_NORM = "the output of block 0's ln_1, call 2"
FIRST_MLP = "the input of block 0's mlp.0"
FIRST_ATTENTION = "the input of block 0's self_attention"
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}  # relative to the largest number of a tensor


@dataclass(frozen=True)
class Part:
    """The parts of ours whose input and whose output a module has; "" if ours has none such.

    Attributes:
        first: the part that takes what the module takes.
        last: the part that gives what it gives.
    """

    first: str
    last: str


def part_of(name: str) -> str:
    """The part of our model that a parameter belongs to, in words."""
    module = name.rpartition(".")[0]
    return re.sub(r"encoder\.layers\.encoder_layer_(\d+)\.", r"block \1's ", module)


def values_of(
    model: nn.Module,
    names: dict[str, str],
    pictures: Tensor,
    put_in: Values | None = None,
    parts: Mapping[str, Part] | None = None,
) -> Values:
    """What the parts of a model take and give, in the order of their calls.

    Args:
        model: theirs or ours.
        names: the names of its parameters, and of ours that correspond to them.
        pictures: what the model is given.
        put_in: numbers that take the place of values of these labels, from where on the model goes
            on with them.
        parts: the parts of ours that modules stand for, by their paths, where no names tell.
    """
    parts = parts or {}
    recorder = _Recorder(pictures.shape[1:], put_in or {})
    handles = []
    for path, module in model.named_modules():
        own = _part_of_module(path, module, names)
        part = parts.get(path, Part(own, own))
        if part.first:
            handles.append(module.register_forward_pre_hook(recorder.before(part.first)))
        if part.last:
            handles.append(module.register_forward_hook(recorder.after(part.last)))
    try:
        with _Functions(recorder, _positions(model, names)):
            output, _ = logits_in(model(pictures))
    finally:
        for handle in handles:
            handle.remove()
    recorder.keep(LOGITS, output)
    return recorder.values


def tokens_of(model: nn.Module, names: Collection[str], pictures: Tensor) -> Tensor | None:
    """What a block is given first; None if that is not seen.

    Args:
        model: theirs.
        names: of the block's parameters.
        pictures: what the model is given.
    """
    given: list[Tensor] = []

    def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        for value in [*args, *kwargs.values()]:
            if isinstance(value, Tensor) and value.dim() == 3:
                given.append(value.detach().clone())
                return

    handles = []
    for path, module in model.named_modules():
        own = [f"{path}.{name}" for name, _ in module.named_parameters(remove_duplicate=False)]
        if own and all(name in names for name in own):
            handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
    try:
        model(pictures)
    finally:
        for handle in handles:
            handle.remove()
    return given[0] if given else None


def _part_of_module(path: str, module: nn.Module, names: dict[str, str]) -> str:
    """The part of ours that a module corresponds to; "" if it does not correspond to just one."""
    parts = set()
    for name, _ in module.named_parameters(recurse=False):
        own = f"{path}.{name}"
        if own not in names:
            return ""
        parts.add(part_of(names[own]))
    if len(parts) != 1:
        return ""
    part = parts.pop()
    is_projection = isinstance(module, nn.Linear) and "self_att" in part
    return "" if part == "encoder" or is_projection else part


def _positions(model: nn.Module, names: dict[str, str]) -> Tensor | None:
    """Their position embedding, if they have one."""
    for own, name in names.items():
        if name == "encoder.pos_embedding":
            return tensors_of(model)[own]
    return None


class _Recorder:
    """Keeps values by their labels; a later value of the same label is told by its number.

    Attributes:
        values: what was kept.
        put_in: what is written into values before they are kept, by their labels.
    """

    def __init__(self, picture: torch.Size, put_in: Values) -> None:
        self.picture = picture
        self.put_in = put_in
        self.values: Values = {}

    def keep(self, label: str, value: Any) -> None:
        """Keep a tensor, or the first one of several."""
        if isinstance(value, tuple | list) and value:
            value = value[0]
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return
        if "input of conv" in label and value.shape[1:] != self.picture:
            return  # patches that were cut out before
        times = sum(known == label or known.startswith(f"{label},") for known in self.values)
        if times:
            label = f"{label}, call {times + 1}"
        with torch.no_grad():
            if label in self.put_in:
                value.copy_(self.put_in[label])  # in place: a residual connection takes it, too
            self.values[label] = value.clone()

    def before(self, part: str) -> Callable[..., None]:
        """A forward pre-hook that keeps the input of a part."""

        def hook(module: nn.Module, args: Any) -> None:
            self.keep(f"the input of {part}", args)

        return hook

    def after(self, part: str) -> Callable[..., None]:
        """A forward hook that keeps the output of a part."""

        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if part == "conv_proj" and isinstance(output, Tensor) and output.dim() == 4:
                is_last = not isinstance(module, nn.Conv2d)  # numbers of a patch stand last
                output = output.flatten(1, 2) if is_last else output.flatten(2).mT
            self.keep(f"the output of {part}", output)

        return hook


class _Functions(TorchFunctionMode):
    """Keeps what no module gives: attention weights, and the sum of tokens and positions."""

    def __init__(self, recorder: _Recorder, positions: Tensor | None) -> None:
        super().__init__()
        self.recorder = recorder
        self.positions = positions

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "").strip("_")
        if name == "softmax" and result.dim() > 2 and result.shape[-1] == result.shape[-2]:
            self.recorder.keep(SOFTMAX, result)
        if name in ("add", "iadd", "radd") and any(map(self._is_positions, args)):
            self.recorder.keep(SUM, result)
        return result

    def _is_positions(self, value: Any) -> bool:
        """Whether a value is the position embedding, or a view of it."""
        if not isinstance(value, Tensor):
            return False
        base = value if value._base is None else value._base
        return base is self.positions


def alignments(got: Tensor, expected: Tensor) -> list[Tensor]:
    """What to compare ``got`` with.

    That is ``expected`` in the layout of ``got``, or one token of it each, or nothing.
    """
    if got.shape == expected.shape:
        return [expected]
    if got.dim() == expected.dim() == 3 and got.shape == expected.transpose(0, 1).shape:
        return [expected.transpose(0, 1)]
    if expected.dim() == 3 and got.shape in (expected[:, 0].shape, expected[:, :1].shape):
        return [token.reshape(got.shape) for token in expected.unbind(1)]
    return [expected.reshape(got.shape)] if got.numel() == expected.numel() else []


def stand_in(got: Tensor, expected: Tensor) -> Tensor | None:
    """The numbers of ``got`` in the layout of ``expected``; None if they do not correspond.

    One token takes the place of the first.
    """
    if got.shape == expected.shape:
        return got
    if got.dim() == expected.dim() == 3 and got.shape == expected.transpose(0, 1).shape:
        return got.transpose(0, 1)
    if expected.dim() == 3 and got.shape in (expected[:, 0].shape, expected[:, :1].shape):
        return torch.cat([got.reshape(expected[:, :1].shape), expected[:, 1:]], dim=1)
    return got.reshape(expected.shape) if got.numel() == expected.numel() else None


def close(got: Tensor, expected: Tensor) -> bool:
    """Whether two tensors of one shape are equal within TOLERANCE of the largest number."""
    if torch.equal(got, expected):
        return True
    largest = expected.abs().max()
    return bool((got - expected).abs().max() <= TOLERANCE[expected.dtype] * largest)


def differs(label: str, theirs: Values, ours: Values) -> bool:
    """Whether a value that both models have differs; shapes that do not correspond do not count."""
    if label == LOGITS:
        got = theirs.get(label)
        expected = ours[label]
        return got is None or got.shape != expected.shape or not close(got, expected)
    if label not in theirs or label not in ours:
        return False
    found = alignments(theirs[label], ours[label])
    if not found:
        return False
    return not any(close(theirs[label], one) for one in found)


def comparable(theirs: Values, ours: Values) -> list[str]:
    """The labels of values on the way that both models have, in shapes that correspond."""
    shared = [label for label in ours if label != LOGITS and label in theirs]
    return [label for label in shared if alignments(theirs[label], ours[label])]


def first_difference(theirs: Values, ours: Values) -> str | None:
    """The first value of ours, in the order of the calls, that theirs does not share."""
    for label in ours:
        if differs(label, theirs, ours):
            return label
    return None
