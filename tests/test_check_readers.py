"""Answers that careful readers tried on the checks: those that are right must pass, the others are told why not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
from mnist_vit.check.nb08_evaluation import _find_transposed, _wilson
from mnist_vit.check.nb09_maps import _ask, _layers
from mnist_vit.model import VisionTransformer


def by_tensors(base: list[float], variant: list[float]) -> str:
    difference = torch.tensor(variant).mean() - torch.tensor(base).mean()
    if difference.abs() <= max(np.ptp(base), np.ptp(variant)):
        return "unclear"
    return "better" if difference > 0 else "worse"


def nothing_to_add(model: VisionTransformer) -> None:
    model.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 1, 8), requires_grad=False)


def one_zero(model: VisionTransformer) -> None:
    model.encoder.pos_embedding = nn.Parameter(torch.zeros(1), requires_grad=False)


RIGHT: list[tuple[str, Callable[..., Any]]] = [
    ("compare_runs", by_tensors),
    ("remove_positions", nothing_to_add),
    ("remove_positions", one_zero),
    ("find_transposed", lambda matrices, images: np.int64(_find_transposed(matrices, images))),
    ("wilson", lambda *args: np.array(_wilson(*args))),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_right_ones_pass(name: str, answer: Callable[..., Any]) -> None:
    right, told = verdict(EXERCISES[name], answer)
    assert right, told


def recorder(layers: Callable[[nn.Module], list[nn.Module]], again: bool = False) -> Callable[[nn.Module], Any]:
    """Hooks some layers; with ``again`` the list that is filled is another one than the one that is yielded."""

    @contextmanager
    def record(model: nn.Module) -> Iterator[list[Tensor]]:
        kept: list[Tensor] = []
        filled: list[Tensor] = [] if again else kept
        handles = []
        for layer in layers(model):
            handles.append(layer.register_forward_pre_hook(_ask, with_kwargs=True))
            handles.append(layer.register_forward_hook(lambda module, args, output: filled.append(output[1])))
        try:
            yield kept
        finally:
            for handle in handles:
                handle.remove()

    return record


def another_forward(model: VisionTransformer) -> None:
    encoder = model.encoder
    encoder.forward = lambda tokens: encoder.ln(encoder.layers(encoder.dropout(tokens)))


def no_row_adds_up(matrices: Tensor, images: Tensor) -> int | None:
    return next((i for i, matrix in enumerate(matrices) if (matrix.sum(dim=1) != images).all()), None)


def shuffle_in_place(tokens: Tensor, order: Tensor) -> Tensor:
    tokens[:, 1:] = tokens[:, 1:][:, order]
    return tokens


def swapped_head(in_features: int, num_classes: int) -> tuple[nn.Linear, float]:
    head = nn.Linear(num_classes, in_features)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head, 2.3


class Untransposed(VisionTransformer):
    def __init__(self, *sizes: int) -> None:
        image_size, patch_size, layers, heads, width, mlp, classes, channels = sizes
        super().__init__(image_size, patch_size, layers, heads, width, mlp, num_classes=classes, in_channels=channels)

    def forward(self, images: Tensor) -> Tensor:
        x = self.conv_proj(images).flatten(2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


TOLD: list[tuple[str, Any, str]] = [
    ("record", recorder(lambda model: []), "the list is empty after a forward pass: no hook ran, or"),
    ("record", recorder(_layers, again=True), "the list is empty after a forward pass"),
    ("record", recorder(lambda model: [b.self_attention for b in model.encoder.layers]), "has no attribute 'encoder'"),
    ("remove_positions", another_forward, "the positions are gone round and not gone"),
    ("find_transposed", no_row_adds_up, "One row that does not add up is enough"),
    ("class_head_start", swapped_head, "here from 32 to 10, and goes from 10 to 32."),
    ("vision_transformer", Untransposed, "transpose(1, 2) makes them the last one"),
    (
        "compare_runs",
        lambda base, variant: "better",
        "a right verdict is not 'better for base 89, 90, 91 and variant 84, ",
    ),
    ("wilson", lambda *args: (_wilson(*args)[0], np.float64(0.49)), "number 2 of 2, is not 0.49."),
    ("shuffle_patches", shuffle_in_place, "x.clone() before you write into it"),
]


@pytest.mark.parametrize(("name", "answer", "words"), TOLD)
def test_wrong_ones_are_told_why(name: str, answer: Any, words: str) -> None:
    right, told = verdict(EXERCISES[name], answer)
    assert not right
    assert words in told
    assert "np.float64" not in told
