"""Notebook 09's checks: right answers in other styles pass, mistakes that no mutant knows fail without a name."""

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.attention import mean_attention_distance, record_attention, rollout, to_maps
from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict


def asked(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    return args, {**kwargs, "need_weights": True, "average_attn_weights": False}


class RecordAsClass:
    """__enter__ and __exit__ in place of a generator."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = [module for module in model.modules() if type(module).__name__ == "MultiheadAttention"]

    def __enter__(self) -> list[Tensor]:
        self.weights, self.handles = [], []
        for layer in self.layers:
            self.handles += [
                layer.register_forward_pre_hook(asked, with_kwargs=True),
                layer.register_forward_hook(
                    lambda module, args, output: self.weights.append(output[1].detach().clone())
                ),
            ]
        return self.weights

    def __exit__(self, *error: object) -> None:
        while self.handles:
            self.handles.pop().remove()


@contextmanager
def record_by_stack(model: nn.Module) -> Iterator[list[Tensor]]:
    found: list[Tensor] = []
    with ExitStack() as stack:
        for layer in filter(lambda module: hasattr(module, "in_proj_weight"), model.modules()):
            before = layer.register_forward_pre_hook(asked, with_kwargs=True)
            after = layer.register_forward_hook(lambda m, a, output: found.append(output[1]))
            stack.callback(before.remove)
            stack.callback(after.remove)
        yield found


@contextmanager
def record_by_calling_again(net: nn.Module) -> Iterator[list[Tensor]]:
    """One hook: it asks the layer once more, past its own hooks."""
    kept: list[Tensor] = []

    def again(module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        with torch.no_grad():
            kept.append(module.forward(*args, **kwargs | {"need_weights": True, "average_attn_weights": False})[1])

    handles = [
        m.register_forward_hook(again, with_kwargs=True) for m in net.modules() if isinstance(m, nn.MultiheadAttention)
    ]
    try:
        yield kept
    finally:
        [handle.remove() for handle in handles]


@contextmanager
def record_by_patching(model: nn.Module) -> Iterator[list[Tensor]]:
    """No hooks: another forward for as long as the block lasts."""
    kept: list[Tensor] = []

    def asking(forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def asked(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs | {"need_weights": True, "average_attn_weights": False})
            kept.append(output[1])
            return output

        return asked

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.MultiheadAttention):
                stack.enter_context(mock.patch.object(module, "forward", asking(module.forward)))
        yield kept


def map_by_loops(weights: Tensor) -> Tensor:
    n, heads, s, _ = weights.shape
    grid = int((s - 1) ** 0.5)
    out = torch.zeros(n, heads, grid, grid)
    for r in range(grid):
        for c in range(grid):
            out[:, :, r, c] = weights[:, :, 0, 1 + r * grid + c]
    return out


def map_by_view(a: Tensor) -> Tensor:
    side = round(math.sqrt(a.size(-1) - 1))
    return a.select(2, 0).narrow(2, 1, side * side).reshape(*a.shape[:2], side, side)


def map_by_fold(weights: Tensor) -> Tensor:
    grid = math.isqrt(weights.shape[-1])
    return F.fold(weights[:, :, 0, 1:], (grid, grid), 1)


def rollout_half(weights: Tensor) -> Tensor:
    """As the paper writes it, half and half."""
    half = 0.5 * weights.mean(2) + 0.5 * torch.eye(weights.shape[-1])
    return functools.reduce(lambda total, layer: layer @ total, half.unbind(1))


def rollout_at_the_end(weights: Tensor) -> Tensor:
    """The rows are made to sum to 1 once, at the end: the same, since each layer doubles all of them."""
    total = None
    for layer in range(weights.shape[1]):
        mixed = sum(weights[:, layer, head] for head in range(weights.shape[2])) / weights.shape[2]
        mixed = mixed + torch.diag_embed(torch.ones(mixed.shape[:2]))
        total = mixed if total is None else torch.einsum("nij,njk->nik", mixed, total)
    return F.normalize(total, p=1, dim=-1)


def rollout_backwards(weights: Tensor) -> Tensor:
    """From the last layer to the first, so each is multiplied from the right."""
    found = []
    for picture in weights:
        total = torch.eye(picture.shape[-1])
        for layer in reversed(picture.mean(dim=1)):
            mixed = layer + torch.eye(len(layer))
            total = total @ (mixed / mixed.sum(1)[:, None])
        found.append(total)
    return torch.stack(found)


def distance_by_loops(weights: Tensor, patch_size: int) -> Tensor:
    n, layers, heads, s, _ = weights.shape
    grid = math.isqrt(s - 1)
    out = torch.zeros(layers, heads)
    for i in range(s - 1):
        row = weights[:, :, :, 1 + i, 1:]
        row = row / row.sum(-1, keepdim=True)
        for j in range(s - 1):
            pixels = patch_size * math.dist(divmod(i, grid), divmod(j, grid))
            out += pixels * row[..., j].sum(0) / (n * (s - 1))
    return out


def distance_without_class_token_by_mask(weights: Tensor, patch_size: int) -> Tensor:
    """The class token lies nowhere: its weights are set to zero, and its row is left out of the mean."""
    number = torch.arange(weights.shape[-1] - 1)
    grid = math.isqrt(len(number))
    row, column = number // grid, number % grid
    d = torch.hypot((row[:, None] - row).float(), (column[:, None] - column).float())
    d = F.pad(d, (1, 0, 1, 0))
    looked = (weights * d).sum(-1) / (1 - weights[..., 0])
    return patch_size * looked[..., 1:].mean(-1).mean(0)


def distance_by_einsum(a: Tensor, p: int) -> Tensor:
    g = math.isqrt(a.shape[-1])
    y, x = torch.meshgrid(torch.arange(g) * p, torch.arange(g) * p, indexing="ij")
    z = torch.complex(y.flatten().float(), x.flatten().float())
    rest = F.normalize(a[..., 1:, 1:], p=1, dim=-1)
    return torch.einsum("nlhij,ij->lh", rest, (z[:, None] - z).abs()) / (len(a) * g * g)


RIGHT = [
    ("record", record_attention),
    ("record", RecordAsClass),
    ("record", record_by_stack),
    ("record", record_by_calling_again),
    ("record", record_by_patching),
    ("class_token_map", lambda weights: to_maps(weights[:, :, 0])),
    ("class_token_map", map_by_loops),
    ("class_token_map", map_by_view),
    ("class_token_map", map_by_fold),
    ("rollout", rollout),
    ("rollout", rollout_half),
    ("rollout", rollout_at_the_end),
    ("rollout", rollout_backwards),
    ("attention_distance", mean_attention_distance),
    ("attention_distance", distance_by_loops),
    ("attention_distance", distance_without_class_token_by_mask),
    ("attention_distance", distance_by_einsum),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_other_styles_pass(name: str, answer: Any) -> None:
    right, message = verdict(EXERCISES[name], answer)
    assert right, message


@contextmanager
def record_scores(model: nn.Module) -> Iterator[list[Tensor]]:
    """The logarithm of the weights: nothing that a mutant gives."""
    with record_attention(model) as kept:
        yield kept
        kept[:] = [weights.log() for weights in kept]


@contextmanager
def record_with_other_weights(model: nn.Module) -> Iterator[list[Tensor]]:
    """A hook that changes what the layers return."""
    with record_attention(model) as kept:
        handles = [
            m.register_forward_hook(lambda *a: (2 * a[2][0], a[2][1]))
            for m in model.modules()
            if "Multi" in str(type(m))
        ]
        yield kept
        for handle in handles:
            handle.remove()


UNKNOWN = [
    ("record", record_scores),
    ("record", record_with_other_weights),
    ("class_token_map", lambda weights: to_maps(weights[:, :, 0]).flip(-1)),
    ("class_token_map", lambda weights: to_maps(weights[:, :, 0]).sqrt()),
    ("rollout", lambda weights: rollout(weights[:, :, :1])),
    ("rollout", lambda weights: rollout(weights.transpose(-1, -2))),
    ("attention_distance", lambda weights, patch_size: mean_attention_distance(weights, patch_size).flip(0)),
    ("attention_distance", lambda weights, patch_size: mean_attention_distance(weights[:1], patch_size)),
]


@pytest.mark.parametrize(("name", "answer"), UNKNOWN)
def test_unknown_mistakes_fail_without_a_name(name: str, answer: Any) -> None:
    right, message = verdict(EXERCISES[name], answer)
    assert not right
    assert "You get exactly this" not in message


SHARED: list[Tensor] = []


@contextmanager
def record_into_a_global(model: nn.Module) -> Iterator[list[Tensor]]:
    with record_attention(model) as kept:
        yield SHARED
    SHARED.extend(kept)


@contextmanager
def record_a_tuple(model: nn.Module) -> Iterator[tuple]:
    yield ()


def record_at_once(model: nn.Module) -> list[Tensor]:
    return []


def record_without_yield(model: nn.Module) -> Iterator[list[Tensor]]:
    yield []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (record_into_a_global, "the list is not empty when the block begins"),
        (record_a_tuple, "must be the list that the weights are put into, not a tuple"),
        (record_at_once, "is no context manager. Put @contextmanager above a function that yields"),
        (record_without_yield, "is no context manager. Put @contextmanager above a function that yields"),
        (42, "give the function itself"),
    ],
)
def test_a_recorder_of_another_kind_is_told_so(answer: Any, said: str) -> None:
    SHARED[:] = [torch.zeros(1)]
    right, message = verdict(EXERCISES["record"], answer)
    assert not right
    assert said in message
