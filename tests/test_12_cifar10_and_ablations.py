"""Notebook 12's checks accept right answers in other styles, and reject mistakes that they have no name for."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn

from mnist_vit.model import EncoderBlock, VisionTransformer


def count_built(image_size: int, patch_size: int, channels: int, hidden_dim: int) -> int:
    """Build the smallest model that has these parts, and leave out the rest."""
    model = VisionTransformer(image_size, patch_size, 1, 1, hidden_dim, 1, num_classes=1, in_channels=channels)
    kept = ("conv_proj", "class_token", "encoder.pos_embedding")
    return sum(p.numel() for name, p in model.named_parameters() if name.startswith(kept))


def with_new_parameter(model: VisionTransformer) -> VisionTransformer:
    zeros = torch.zeros_like(model.encoder.pos_embedding)
    model.encoder.pos_embedding = nn.Parameter(zeros, requires_grad=False)
    return model


def with_buffer(model: VisionTransformer) -> None:
    shape = model.encoder.pos_embedding.shape
    del model.encoder.pos_embedding
    model.encoder.register_buffer("pos_embedding", torch.zeros(shape))


def with_statistics(base: Sequence[float], variant: Sequence[float]) -> str:
    gap = statistics.mean(variant) - statistics.mean(base)
    limit = max(max(base) - min(base), max(variant) - min(variant))
    return "better" if gap > limit else "worse" if gap < -limit else "unclear"


def functional(block: EncoderBlock, z: Tensor) -> Tensor:
    size = z.shape[-1:]
    z = F.layer_norm(
        z + block.dropout(block.self_attention(z, z, z)[0]), size, block.ln_1.weight, block.ln_1.bias, 1e-6
    )
    wide = F.gelu(F.linear(z, block.mlp[0].weight, block.mlp[0].bias))
    return F.layer_norm(
        z + F.linear(wide, block.mlp[3].weight, block.mlp[3].bias), size, block.ln_2.weight, block.ln_2.bias, 1e-6
    )


def another_forward(model: VisionTransformer) -> None:
    encoder = model.encoder
    encoder.forward = lambda tokens: encoder.ln(encoder.layers(encoder.dropout(tokens)))


RIGHT: list[tuple[str, Any]] = [
    ("count_input", count_built),
    ("count_input", lambda s, p, c, d: torch.tensor(d * (c * p * p + 3 + (s // p) ** 2))),
    ("remove_positions", with_new_parameter),
    ("remove_positions", with_buffer),
    ("compare_runs", with_statistics),
    ("post_norm", functional),
]
WRONG: list[tuple[str, Any, str]] = [
    ("count_input", lambda s, p, c, d: count_built(s, p, c, d) + 1, ""),
    ("remove_positions", lambda model: nn.init.ones_(model.encoder.pos_embedding).requires_grad_(False) and None, ""),
    ("remove_positions", lambda model: nn.init.zeros_(model.conv_proj.weight) and None, ""),
    ("remove_positions", lambda model: delattr(model.encoder, "pos_embedding"), ""),
    ("remove_positions", another_forward, "the positions are gone round and not gone"),
    ("compare_runs", lambda base, variant: True, ""),
    ("compare_runs", lambda *runs: "better", "is not 'better for base "),
    ("post_norm", lambda block, z: block.ln_2(block(z)), ""),
]
test_answers = judged(RIGHT, WRONG)
