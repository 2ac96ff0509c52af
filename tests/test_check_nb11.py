"""Notebook 11's checks accept right answers in other styles, and reject mistakes that they have no name for."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
from mnist_vit.model import EncoderBlock, VisionTransformer


def count_built(image_size: int, patch_size: int, channels: int, hidden_dim: int) -> int:
    """Build the smallest model that has these parts, and leave out the rest."""
    model = VisionTransformer(image_size, patch_size, 1, 1, hidden_dim, 1, num_classes=1, in_channels=channels)
    kept = ("conv_proj", "class_token", "encoder.pos_embedding")
    return sum(p.numel() for name, p in model.named_parameters() if name.startswith(kept))


def count_shapes(size: int, side: int, channels: int, width: int) -> int:
    across = size // side
    shapes = [(width, channels, side, side), (width,), (1, 1, width), (1, 1 + across * across, width)]
    return sum(torch.Size(shape).numel() for shape in shapes)


def with_new_parameter(model: VisionTransformer) -> VisionTransformer:
    zeros = torch.zeros_like(model.encoder.pos_embedding)
    model.encoder.pos_embedding = nn.Parameter(zeros, requires_grad=False)
    return model


def with_buffer(model: VisionTransformer) -> None:
    shape = model.encoder.pos_embedding.shape
    del model.encoder.pos_embedding
    model.encoder.register_buffer("pos_embedding", torch.zeros(shape))


def by_name(model: VisionTransformer) -> None:
    for name, parameter in model.named_parameters():
        if "pos_embedding" in name:
            parameter.requires_grad = False
            parameter.mul_(0)


def by_data(model: VisionTransformer) -> None:
    position = model.encoder.pos_embedding
    position.data = torch.zeros(position.shape)
    position.requires_grad = False


def with_statistics(base: Sequence[float], variant: Sequence[float]) -> str:
    gap = statistics.mean(variant) - statistics.mean(base)
    limit = max(max(base) - min(base), max(variant) - min(variant))
    return "better" if gap > limit else "worse" if gap < -limit else "unclear"


def with_numpy(a: Sequence[float], b: Sequence[float]) -> str:
    both = np.array([a, b])
    low, high = both.mean(axis=1)
    chance = np.ptp(both, axis=1).max()
    return str(np.select([high - low > chance, low - high > chance], ["better", "worse"], "unclear"))


def with_torch(base: Sequence[float], variant: Sequence[float]) -> str:
    both = torch.tensor([base, variant], dtype=torch.float64)
    spread = (both.amax(dim=1) - both.amin(dim=1)).max()
    gap = both.mean(dim=1).diff()
    if gap.abs() <= spread:
        return "unclear"
    return ["worse", "better"][int(gap > 0)]


def with_sorted(base: Sequence[float], variant: Sequence[float]) -> str:
    widest = 0.0
    for runs in (sorted(base), sorted(variant)):
        widest = max(widest, runs[-1] - runs[0])
    difference = sum(variant) / 3 - sum(base) / 3
    verdicts = {True: "better", False: "worse"}
    return verdicts[difference > 0] if abs(difference) > widest else "unclear"


def in_a_loop(block: EncoderBlock, z: Tensor) -> Tensor:
    branches = ((lambda x: block.self_attention(x, x, x)[0], block.ln_1), (block.mlp, block.ln_2))
    for branch, norm in branches:
        z = norm(z + branch(z))
    return z


def functional(block: EncoderBlock, z: Tensor) -> Tensor:
    size = z.shape[-1:]
    z = F.layer_norm(
        z + block.dropout(block.self_attention(z, z, z)[0]), size, block.ln_1.weight, block.ln_1.bias, 1e-6
    )
    wide = F.gelu(F.linear(z, block.mlp[0].weight, block.mlp[0].bias))
    return F.layer_norm(
        z + F.linear(wide, block.mlp[3].weight, block.mlp[3].bias), size, block.ln_2.weight, block.ln_2.bias, 1e-6
    )


def by_class(block: EncoderBlock, z: Tensor) -> Tensor:
    """As the script does it: the same object, with another forward."""

    class PostNorm(EncoderBlock):
        def forward(self, input: Tensor) -> Tensor:
            x = self.ln_1(input + self.dropout(self.self_attention(input, input, input, need_weights=False)[0]))
            return self.ln_2(self.mlp(x) + x)

    block.__class__ = PostNorm
    return block(z)


STYLES: dict[str, list[Any]] = {
    "count_input": [
        count_built,
        count_shapes,
        lambda s, p, c, d: d * (c * p * p + 3 + (s // p) ** 2),
        lambda image_size, patch_size, channels, hidden_dim: torch.tensor(
            count_shapes(image_size, patch_size, channels, hidden_dim)
        ),
    ],
    "remove_positions": [with_new_parameter, with_buffer, torch.no_grad()(by_name), by_data],
    "compare_runs": [with_statistics, with_numpy, with_torch, with_sorted],
    "post_norm": [in_a_loop, functional, by_class],
}

UNKNOWN: list[tuple[str, Any]] = [
    ("count_input", lambda s, p, c, d: count_built(s, p, c, d) + 1),
    ("count_input", lambda s, p, c, d: count_built(s, p, c, d) / 2),
    ("remove_positions", lambda model: nn.init.ones_(model.encoder.pos_embedding).requires_grad_(False) and None),
    ("remove_positions", lambda model: nn.init.zeros_(model.conv_proj.weight) and None),
    ("remove_positions", lambda model: delattr(model.encoder, "pos_embedding")),
    ("compare_runs", lambda base, variant: "better"),
    ("compare_runs", lambda base, variant: True),
    ("post_norm", lambda block, z: block.ln_2(block(z))),
    ("post_norm", lambda block, z: block.ln_1(z)),
]


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, some in STYLES.items() for answer in some])
def test_other_styles_are_right(name: str, answer: Callable[..., Any]) -> None:
    right, said = verdict(EXERCISES[name], answer)
    assert right, said


@pytest.mark.parametrize(("name", "answer"), UNKNOWN)
def test_unknown_mistakes_fail_without_a_name(name: str, answer: Callable[..., Any]) -> None:
    right, said = verdict(EXERCISES[name], answer)
    assert not right
    assert "You get exactly this" not in said
    assert said.startswith(f"{name}: ")
