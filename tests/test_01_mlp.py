"""Notebook 01: right answers in other styles pass, mistakes that no slip tells fail without a wrong name."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn


class Positional(nn.Sequential):
    """Written as torchvision does it."""

    def __init__(self, d: int, m: int, p: float) -> None:
        super().__init__(nn.Linear(d, m), nn.GELU(), nn.Dropout(p), nn.Linear(m, d), nn.Dropout(p))


class Functional(nn.Module):
    """Bare parameters made in another order, einsum, F.dropout."""

    def __init__(self, width: int, hidden: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        for name, a, b in (("3", hidden, width), ("0", width, hidden)):
            layer = nn.Module()
            layer.bias = nn.Parameter(torch.zeros(b))
            layer.weight = nn.Parameter(torch.zeros(b, a))
            self.add_module(name, layer)

    def forward(self, tokens: Tensor) -> Tensor:
        first, second = self.get_submodule("0"), self.get_submodule("3")
        h = torch.einsum("...d,md->...m", tokens, first.weight) + first.bias
        h = F.dropout(h * 0.5 * torch.erfc(-h / math.sqrt(2)), self.rate, self.training)
        return F.dropout(h @ second.weight.T + second.bias, self.rate, self.training)


class OwnDropout(nn.ModuleDict):
    """Dropout by hand, so other random numbers than the solution's."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__({"0": nn.Linear(in_dim, mlp_dim), "3": nn.Linear(mlp_dim, in_dim)})
        self.keep = 1 - dropout

    def drop(self, x: Tensor) -> Tensor:
        return x * (torch.rand(x.shape) < self.keep) / self.keep if self.training else x

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self["3"](self.drop(F.gelu(self["0"](x)))))


def count_by_popping(width: int, widths: list[int]) -> int:
    total = 0
    while widths:
        total, width = total + (width + 1) * widths[0], widths.pop(0)
    return total


def xavier_by_torch(linear: nn.Linear) -> nn.Linear:
    nn.init.normal_(linear.bias, 0, 1e-6)  # the biases first: other random numbers
    nn.init.xavier_uniform_(linear.weight)
    return linear


def xavier_by_new_parameters(layer: nn.Linear) -> None:
    generator = torch.Generator().manual_seed(7)
    a = (6 / sum(layer.weight.shape)) ** 0.5
    layer.weight = nn.Parameter(a * (2 * torch.rand(layer.weight.shape, generator=generator) - 1))
    layer.bias = nn.Parameter(1e-6 * torch.randn(layer.bias.shape, generator=generator))


def changing_its_input(x: Tensor) -> Tensor:
    y = F.gelu(x.clone())
    x.data = x.data.relu_()
    return y


class DroppingOnce(Positional):
    """In eval mode too, with another probability than the slip's."""

    def forward(self, x: Tensor) -> Tensor:
        return self[3](self[2](F.dropout(F.gelu(self[0](x)), 0.3)))


class WithoutDropout(Positional):
    """And with a GELU too many: the mistake that the eval mode shows is the one that is named."""

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self[3](F.gelu(self[0](x))))


def xavier_without_biases(linear: nn.Linear) -> None:
    nn.init.uniform_(linear.weight, 0, math.sqrt(6 / (linear.in_features + linear.out_features)))


RIGHT: list[tuple[str, Any]] = [
    ("gelu", nn.GELU()),
    ("gelu", lambda t: t * torch.distributions.Normal(0.0, 1.0).cdf(t)),
    ("mlp_block", Positional),
    ("mlp_block", Functional),
    ("mlp_block", OwnDropout),
    ("xavier", xavier_by_torch),
]
WRONG: list[tuple[str, Any, str]] = [
    ("xavier", xavier_by_new_parameters, "fill them in place"),
    ("gelu", F.mish, ""),
    ("gelu", lambda x: F.gelu(x.detach()) + 0 * x, "gradient"),
    ("gelu", changing_its_input, "changed"),
    ("mlp_block", lambda d, m, p: Positional(d, m, p / 2), "variance"),
    ("mlp_block", Positional(3, 7, 0.5), "the class itself"),
    ("mlp_parameters", lambda c, widths: 2 * c * sum(widths), ""),
    ("mlp_parameters", count_by_popping, "work on a copy"),
    ("xavier", lambda linear: linear.requires_grad_(False) and xavier_by_torch(linear) and None, ""),
    ("xavier", lambda linear: linear.weight.uniform_(-1, 1), "no_grad()"),
]
NAMED: list[tuple[str, Any, str]] = [  # the first of two mistakes, whatever random numbers follow
    ("mlp_block", lambda d, m, p: Positional(d, m, 0.0), "the variance of the outputs (as a share of the right one)"),
    ("mlp_block", DroppingOnce, "drop in eval mode too"),
    ("mlp_block", WithoutDropout, "apply GELU after the second linear layer too"),
    ("xavier", lambda linear: None, "the share of weights beyond the bound is not "),
    ("xavier", xavier_without_biases, "draw from 0 to the bound"),
]
test_answers = judged(RIGHT, WRONG, NAMED)
