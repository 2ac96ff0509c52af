"""Notebook 05's checks: right answers in other styles pass, mistakes without a name fail all the same."""

import math
from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
import torchvision.models.vision_transformer as torchvision_vit
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
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


class NormByHandEncoder(Encoder):
    """Token by token addition, and the norm written out."""

    def forward(self, input):
        x = torch.stack([input[:, i] + self.pos_embedding[0, i] for i in range(input.shape[1])], dim=1)
        for block in [self.dropout, *self.layers]:
            x = block(x)
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) / (variance + 1e-6).sqrt() * self.ln.weight + self.ln.bias


class OwnDropoutEncoder(nn.Module):
    """Blocks of torchvision, and a dropout of another name."""

    def __init__(self, *sizes):
        super().__init__()
        seq_length, num_layers, *others, dropout, attention_dropout = sizes
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, others[1]).normal_(std=0.02))
        names = [f"encoder_layer_{i}" for i in range(num_layers)]
        blocks = [torchvision_vit.EncoderBlock(*others, dropout, attention_dropout) for _ in names]
        self.layers = nn.Sequential(OrderedDict(zip(names, blocks, strict=True)))
        self.ln = nn.LayerNorm(others[1], eps=1e-6)
        self.drop = nn.Dropout(dropout)

    def forward(self, input):
        return nn.Sequential(self.drop, self.layers, self.ln)(self.pos_embedding + input)


def shuffle_by_gather(x: Tensor, order: Tensor) -> Tensor:
    places = torch.cat([torch.zeros(1, dtype=torch.long), order + 1])
    return x.gather(1, places[None, :, None].expand_as(x))


def shuffle_by_loop(x: Tensor, order: Tensor) -> Tensor:
    return torch.stack([x[:, 0]] + [x[:, 1 + int(i)] for i in order], dim=1)


def shuffle_by_matrix(x: Tensor, order: Tensor) -> Tensor:
    matrix = torch.block_diag(torch.ones(1, 1), F.one_hot(order, len(order)).float())
    return torch.einsum("ij,njd->nid", matrix, x)


class ShuffleModule(nn.Module):
    def forward(self, tokens: Tensor, order: Tensor) -> Tensor:
        first, rest = tokens.split([1, tokens.shape[1] - 1], dim=1)
        return torch.hstack([first, rest.index_select(1, order)])


def resize_by_torchvision(pos_embedding: Tensor, grid: int) -> Tensor:
    state = torchvision_vit.interpolate_embeddings(grid, 1, OrderedDict({"encoder.pos_embedding": pos_embedding}))
    return state["encoder.pos_embedding"]


def resize_by_matrix(pos_embedding: Tensor, grid: int) -> Tensor:
    """Rows, then columns, each by a matrix: bicubic interpolation is the same along both."""
    g = math.isqrt(pos_embedding.shape[1] - 1)
    unit = torch.eye(g, dtype=pos_embedding.dtype).view(1, g, g, 1).expand(1, g, g, g)
    matrix = F.interpolate(unit, size=(grid, g), mode="bicubic", align_corners=True)[0, :, :, 0].T
    patches = pos_embedding[0, 1:].view(g, g, -1)
    patches = torch.einsum("ar,bc,rcd->abd", matrix, matrix, patches)
    return torch.cat([pos_embedding[0, :1], patches.flatten(0, 1)])[None]


def resize_by_loop(pos_embedding: Tensor, grid: int) -> Tensor:
    g = math.isqrt(pos_embedding.shape[1] - 1)
    channels = [
        F.interpolate(c.view(1, 1, g, g), size=grid, mode="bicubic", align_corners=True).flatten()
        for c in pos_embedding[0, 1:].unbind(dim=1)
    ]
    return torch.cat([pos_embedding[:, 0:1], torch.stack(channels, dim=-1)[None]], dim=1)


RIGHT = [
    ("encoder", LoopEncoder),
    ("encoder", NormByHandEncoder),
    ("encoder", OwnDropoutEncoder),
    ("encoder", torchvision_vit.Encoder),
    ("shuffle_patches", shuffle_by_gather),
    ("shuffle_patches", shuffle_by_loop),
    ("shuffle_patches", shuffle_by_matrix),
    ("shuffle_patches", ShuffleModule()),
    ("resize_positions", resize_by_torchvision),
    ("resize_positions", resize_by_matrix),
    ("resize_positions", resize_by_loop),
]


class PositionTwice(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + 2 * self.pos_embedding)))


class NormTwice(Encoder):
    def forward(self, input):
        return self.ln(super().forward(input))


class PositionDetached(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding.detach())))


UNKNOWN = [
    ("encoder", PositionTwice, "output in eval mode"),
    ("encoder", NormTwice, "output in eval mode"),
    ("encoder", PositionDetached, "gradient of pos_embedding: none flows"),
    ("shuffle_patches", lambda x, order: torch.cat([x[:, :1], x[:, 1:].flip(1)], dim=1), "output"),
    ("shuffle_patches", lambda x, order: torch.cat([x[:, :1], x[:, 1:][order]], 1), "raised"),
    ("resize_positions", lambda p, grid: resize_by_loop(p, grid) + p.mean(), "output"),
    ("resize_positions", lambda p, grid: resize_by_loop(p, grid)[:, 2:], "must have shape"),
    ("shuffle_patches", lambda x, order: shuffle_by_loop(x, order)[:, 2:], "must have shape"),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_other_styles_pass(name: str, answer: object) -> None:
    passed, sentence = verdict(EXERCISES[name], answer)
    assert passed, sentence


@pytest.mark.parametrize(("name", "answer", "told"), UNKNOWN)
def test_unknown_mistakes_fail_without_a_name(name: str, answer: object, told: str) -> None:
    passed, sentence = verdict(EXERCISES[name], answer)
    assert not passed
    assert told in sentence
    assert "You get exactly this" not in sentence


class NormOfClassToken(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding))[:, 0])


class NormInLoop(Encoder):
    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for layer in self.layers:
            x = self.ln(layer(x))
        return x


NAMED = [  # what newcomers really wrote
    ("encoder", NormOfClassToken, "the encoder returns all tokens"),
    ("encoder", NormInLoop, "after every block"),
    ("shuffle_patches", lambda x, order: x[:, order], "lose the class token"),
    ("shuffle_patches", lambda x, order: x[:, order + 1], "lose the class token: the patches are in the right order"),
    ("resize_positions", lambda p, grid: resize_by_loop(p, grid)[:, 1:], "the patches' positions only"),
]


@pytest.mark.parametrize(("name", "answer", "told"), NAMED)
def test_likely_mistakes_are_named(name: str, answer: object, told: str) -> None:
    passed, sentence = verdict(EXERCISES[name], answer)
    assert not passed
    assert "You get exactly this when you" in sentence
    assert told in sentence


@pytest.mark.parametrize("name", ["encoder", "shuffle_patches", "resize_positions"])
def test_each_mutant_is_told_by_its_own_sentence(name: str) -> None:
    for mutant in EXERCISES[name].mutants:
        passed, sentence = verdict(EXERCISES[name], mutant.answer)
        assert not passed
        assert sentence.endswith(f"when you {mutant.does}."), sentence
