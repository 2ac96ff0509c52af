"""Notebook 01: right answers in other styles pass, and unknown mistakes fail without a wrong name."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict


def gelu_by_erfc(values: Tensor) -> Tensor:
    return values * torch.special.erfc(-values / 2**0.5) / 2


def gelu_by_a_distribution(t: Tensor) -> Tensor:
    return t * torch.distributions.Normal(0.0, 1.0).cdf(t)


def gelu_by_loops(x: Tensor) -> Tensor:
    return torch.stack([v * 0.5 + v * 0.5 * torch.erf(v * math.sqrt(0.5)) for v in x.flatten()]).reshape(x.shape)


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
    """Dropout by hand, so other random numbers than the reference's."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__({"0": nn.Linear(in_dim, mlp_dim), "3": nn.Linear(mlp_dim, in_dim)})
        self.keep = 1 - dropout

    def drop(self, x: Tensor) -> Tensor:
        return x * (torch.rand(x.shape) < self.keep) / self.keep if self.training else x

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self["3"](self.drop(F.gelu(self["0"](x)))))


class TokenByToken(Positional):
    def forward(self, x: Tensor) -> Tensor:
        run = super().forward
        return torch.stack([run(token) for token in x.unbind(1)], dim=1)


def count_by_building(in_channels: int, hidden_channels: list[int]) -> int:
    widths, total = [in_channels, *hidden_channels], 0
    for i in range(len(hidden_channels)):
        layer = nn.Linear(widths[i], widths[i + 1], device="meta")
        total += sum(p.numel() for p in layer.parameters())
    return total


def count_by_popping(width: int, widths: list[int]) -> int:
    total = 0
    while widths:
        total, width = total + (width + 1) * widths[0], widths.pop(0)
    return total


def count_as_a_tensor(c: int, widths: list[int]) -> Tensor:
    ends = torch.tensor([c, *widths])
    return (ends[:-1] * ends[1:]).sum() + ends[1:].sum()


def xavier_by_torch(linear: nn.Linear) -> nn.Linear:
    nn.init.normal_(linear.bias, 0, 1e-6)  # the biases first: other random numbers
    nn.init.xavier_uniform_(linear.weight)
    return linear


@torch.no_grad()
def xavier_in_place(layer: nn.Linear) -> None:
    fan_out, fan_in = layer.weight.shape
    layer.weight.uniform_(-1, 1).mul_(math.sqrt(6) / math.sqrt(fan_in + fan_out))
    layer.bias.normal_().mul_(1e-6)


def xavier_by_new_parameters(layer: nn.Linear) -> None:
    generator = torch.Generator().manual_seed(7)
    a = (6 / sum(layer.weight.shape)) ** 0.5
    layer.weight = nn.Parameter(a * (2 * torch.rand(layer.weight.shape, generator=generator) - 1))
    layer.bias = nn.Parameter(1e-6 * torch.randn(layer.bias.shape, generator=generator))


RIGHT: dict[str, list[Any]] = {
    "gelu": [nn.GELU(), gelu_by_erfc, gelu_by_a_distribution, gelu_by_loops],
    "mlp_block": [Positional, Functional, OwnDropout, TokenByToken],
    "mlp_parameters": [count_by_building, count_by_popping, count_as_a_tensor],
    "xavier": [xavier_by_torch, xavier_in_place, xavier_by_new_parameters],
}


class LeakyBlock(Positional):
    def __init__(self, d: int, m: int, p: float) -> None:
        super().__init__(d, m, p)
        self[1] = nn.LeakyReLU()


class HalfTheRate(Positional):
    def __init__(self, d: int, m: int, p: float) -> None:
        super().__init__(d, m, p)
        self[2], self[4] = nn.Dropout(p / 2), nn.Dropout(p / 2)


class Detached(Positional):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())


class AlwaysDropping(Positional):
    """The dropouts as functions that are told nothing of the mode."""

    rate = 0.1

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(F.gelu(self[0](x)), self.rate)
        return F.dropout(self[3](x), self.rate)


class DroppingOnce(Positional):
    def forward(self, x: Tensor) -> Tensor:
        return self[3](self[2](F.dropout(F.gelu(self[0](x)), 0.3)))


def triangular(linear: nn.Linear) -> None:
    a = math.sqrt(6 / (linear.in_features + linear.out_features))
    with torch.no_grad():
        linear.weight.copy_(a * (torch.rand_like(linear.weight) - torch.rand_like(linear.weight)))
        linear.bias.normal_(std=1e-6)


UNKNOWN: list[tuple[str, Callable[..., Any]]] = [
    ("gelu", F.mish),
    ("gelu", lambda x: F.gelu(x.detach()) + 0 * x),
    ("gelu", lambda x: F.gelu(x.float())),
    ("mlp_block", LeakyBlock),
    ("mlp_block", HalfTheRate),
    ("mlp_block", Detached),
    ("mlp_parameters", lambda c, widths: 2 * c * sum(widths)),
    ("mlp_parameters", lambda c, widths: float(c * widths[0])),
    ("xavier", triangular),
    ("xavier", lambda linear: linear.requires_grad_(False) and xavier_by_torch(linear) and None),
]


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_other_right_styles_pass(name: str, answer: Any) -> None:
    passed, told = verdict(EXERCISES[name], answer)
    assert passed, told


@pytest.mark.parametrize(("name", "answer"), UNKNOWN)
def test_unknown_mistakes_fail_without_a_name(name: str, answer: Any) -> None:
    passed, told = verdict(EXERCISES[name], answer)
    assert not passed
    assert "You get exactly this" not in told, told


@pytest.mark.parametrize("exercise", ["gelu", "mlp_block", "mlp_parameters", "xavier"])
def test_mutants_are_told_apart(exercise: str) -> None:
    for mutant in EXERCISES[exercise].mutants:
        passed, told = verdict(EXERCISES[exercise], mutant.answer)
        assert not passed
        assert told.endswith(f"You get exactly this when you {mutant.does}.")


def test_an_object_in_place_of_the_class_is_told() -> None:
    assert "the class itself" in verdict(EXERCISES["mlp_block"], Positional(3, 7, 0.5))[1]


@pytest.mark.parametrize("answer", [AlwaysDropping, DroppingOnce])
def test_dropping_in_eval_mode_is_named_whatever_the_probability(answer: Any) -> None:
    assert "You get exactly this when you drop in eval mode too" in verdict(EXERCISES["mlp_block"], answer)[1]


def test_figures_of_random_numbers_are_told_one_at_a_time() -> None:
    told = verdict(EXERCISES["mlp_block"], lambda d, m, p: Positional(d, m, 0.0))[1]
    assert "the variance of the outputs (as a share of the right one) is not 0.0." in told
    told = verdict(EXERCISES["xavier"], lambda linear: None)[1]
    assert "the share of weights beyond the bound is not " in told
    assert "[" not in told


def test_a_formula_for_two_layers_is_named() -> None:
    def formula(in_channels: int, hidden_channels: list[int]) -> int:
        D, M = in_channels, hidden_channels[0]
        return D * M + M + M * D + D

    told = verdict(EXERCISES["mlp_parameters"], formula)[1]
    assert "the count for 2 → 3 is not 17. You get exactly this when you use the formula" in told


def test_filling_a_leaf_without_no_grad_is_told_in_a_sentence() -> None:
    told = verdict(EXERCISES["xavier"], lambda linear: linear.weight.uniform_(-1, 1))[1]
    assert "no_grad()" in told
