"""Notebook 05's checks: right answers in other styles pass, mistakes that no slip knows fail."""

import math
from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F
import torchvision.models.vision_transformer as torchvision_vit
from helpers import judged
from torch import Tensor, nn

from mnist_vit.model import Encoder, EncoderBlock


class LoopEncoder(nn.Module):
    """Another order of creation, a dict instead of a sequence, F.dropout instead of a module."""

    def __init__(self, t, depth, heads, d, wide, p, p_attention):
        super().__init__()
        self.ln = nn.LayerNorm(d, eps=1e-6)
        self.layers = nn.ModuleDict(
            {f"encoder_layer_{i}": EncoderBlock(heads, d, wide, p, p_attention) for i in range(depth)}
        )
        self.pos_embedding = nn.Parameter(torch.zeros(1, t, d))
        self.p = p

    def forward(self, z):
        z = torch.add(z, self.pos_embedding.expand(len(z), -1, -1))
        z = F.dropout(z, self.p, self.training)
        for block in self.layers.values():
            z = block(z)
        return self.ln(z)


def shuffle_by_loop(x: Tensor, order: Tensor) -> Tensor:
    return torch.stack([x[:, 0]] + [x[:, 1 + int(i)] for i in order], dim=1)


def resize_by_torchvision(pos_embedding: Tensor, grid: int) -> Tensor:
    state = torchvision_vit.interpolate_embeddings(grid, 1, OrderedDict({"encoder.pos_embedding": pos_embedding}))
    return state["encoder.pos_embedding"]


def resize_by_loop(pos_embedding: Tensor, grid: int) -> Tensor:
    g = math.isqrt(pos_embedding.shape[1] - 1)
    channels = [
        F.interpolate(c.view(1, 1, g, g), size=grid, mode="bicubic", align_corners=True).flatten()
        for c in pos_embedding[0, 1:].unbind(dim=1)
    ]
    return torch.cat([pos_embedding[:, 0:1], torch.stack(channels, dim=-1)[None]], dim=1)


class PositionDetached(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding.detach())))


class NormOfClassToken(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding))[:, 0])


class NormInLoop(Encoder):
    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for layer in self.layers:
            x = self.ln(layer(x))
        return x


def shuffle_in_place(tokens: Tensor, order: Tensor) -> Tensor:
    tokens[:, 1:] = tokens[:, 1:][:, order]
    return tokens


RIGHT: list[tuple[str, Any]] = [
    ("encoder", LoopEncoder),
    ("encoder", torchvision_vit.Encoder),
    ("shuffle_patches", shuffle_by_loop),
    ("resize_positions", resize_by_torchvision),
    ("resize_positions", resize_by_loop),
]
WRONG: list[tuple[str, Any, str]] = [
    ("encoder", PositionDetached, "gradient of pos_embedding: none flows"),
    ("shuffle_patches", lambda x, order: torch.cat([x[:, :1], x[:, 1:].flip(1)], dim=1), "output"),
    ("shuffle_patches", lambda x, order: shuffle_by_loop(x, order)[:, 2:], "must have shape"),
    ("shuffle_patches", shuffle_in_place, "x.clone() before you write into it"),
    ("resize_positions", lambda p, grid: resize_by_loop(p, grid) + p.mean(), "output"),
]
NAMED: list[tuple[str, Any, str]] = [  # what newcomers really wrote
    ("encoder", NormOfClassToken, "the encoder returns all tokens"),
    ("encoder", NormInLoop, "after every block"),
    ("shuffle_patches", lambda x, order: x[:, order], "lose the class token"),
    ("shuffle_patches", lambda x, order: x[:, order + 1], "lose the class token: the patches are in the right order"),
    ("resize_positions", lambda p, grid: resize_by_loop(p, grid)[:, 1:], "the patches' positions only"),
]
test_answers = judged(RIGHT, WRONG, NAMED)
