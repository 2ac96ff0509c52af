"""Notebook 09's checks: right answers in other styles pass, mistakes that no slip knows fail without a name."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn

from mnist_vit.attention import mean_attention_distance, record_attention, rollout, to_maps


def asked(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    return args, {**kwargs, "need_weights": True, "average_attn_weights": False}


def attention_layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]


class RecordAsClass:
    """__enter__ and __exit__ in place of a generator."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = attention_layers(model)

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


def rollout_at_the_end(weights: Tensor) -> Tensor:
    """The rows are made to sum to 1 once, at the end: the same, since each layer doubles all of them."""
    total = None
    for layer in range(weights.shape[1]):
        mixed = sum(weights[:, layer, head] for head in range(weights.shape[2])) / weights.shape[2]
        mixed = mixed + torch.diag_embed(torch.ones(mixed.shape[:2]))
        total = mixed if total is None else torch.einsum("nij,njk->nik", mixed, total)
    return F.normalize(total, p=1, dim=-1)


@contextmanager
def record_with_other_weights(model: nn.Module) -> Iterator[list[Tensor]]:
    """A hook that changes what the layers return."""
    with record_attention(model) as kept, ExitStack() as stack:
        for layer in attention_layers(model):
            handle = layer.register_forward_hook(lambda module, args, output: (2 * output[0], output[1]))
            stack.callback(handle.remove)
        yield kept


@contextmanager
def record_a_tuple(model: nn.Module) -> Iterator[tuple]:
    yield ()


def record_without_yield(model: nn.Module) -> Iterator[list[Tensor]]:
    yield []


@contextmanager
def record_another_list(model: nn.Module) -> Iterator[list[Tensor]]:
    """What is filled is not what is yielded."""
    with record_attention(model):
        yield []


def record_ours_only(model: nn.Module) -> Any:
    assert model.encoder.layers[0].self_attention
    return record_attention(model)


RIGHT: list[tuple[str, Any]] = [
    ("record", record_attention),
    ("record", RecordAsClass),
    ("class_token_map", lambda weights: to_maps(weights[:, :, 0])),
    ("rollout", rollout),
    ("rollout", rollout_at_the_end),
    ("attention_distance", mean_attention_distance),
]
WRONG: list[tuple[str, Any, str]] = [
    ("record", record_with_other_weights, ""),
    ("record", record_a_tuple, "must be the list that the weights are put into, not a tuple"),
    ("record", record_without_yield, "is no context manager. Put @contextmanager above a function that yields"),
    ("record", record_another_list, "the list is empty after a forward pass: no hook ran, or"),
    ("record", record_ours_only, "has no attribute 'encoder'"),
    ("record", 42, "give the function itself"),
    ("class_token_map", lambda weights: to_maps(weights[:, :, 0]).sqrt(), ""),
    ("rollout", lambda weights: rollout(weights[:, :, :1]), ""),
    ("rollout", lambda weights: rollout(weights.transpose(-1, -2)), ""),
    ("attention_distance", lambda weights, patch_size: mean_attention_distance(weights, patch_size).flip(0), ""),
    ("attention_distance", lambda weights, patch_size: mean_attention_distance(weights[:1], patch_size), ""),
]
test_answers = judged(RIGHT, WRONG)
