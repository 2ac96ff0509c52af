"""Exercises of notebook 01: GELU, the MLP block, the parameter count, the start values."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import MLPBlock
from .core import Exercise, Mistake, Mutant, copy_weights, gradients, parameter_gradients, random, randomise

# gelu: the exact one, by hand


def _run_gelu(answer: Any) -> Iterator[tuple[str, Any]]:
    # float64, so that the tanh approximation, 5e-4 away at most, is far outside the tolerance
    x = torch.cat([2 * random(4, 5, dtype=torch.float64), torch.tensor([[-6.0, -1.0, 0.0, 0.5, 6.0]]).double()])
    x.requires_grad_()
    output = answer(x)
    yield "output", output
    yield from gradients(output, x=x)


def _phi(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


GELU = Exercise(
    name="gelu",
    answer="my_gelu",
    stars=1,
    reference=F.gelu,
    run=_run_gelu,
    mutants=(
        Mutant(
            lambda x: F.gelu(x, approximate="tanh"),
            "use the tanh approximation: the exact GELU, and torchvision's, needs torch.erf",
        ),
        Mutant(
            lambda x: 0.5 * x * (1 + torch.erf(x)),
            "give erf the x itself: divide it by the square root of 2 first",
        ),
        Mutant(lambda x: x * (1 + torch.erf(x / math.sqrt(2))), "leave out the factor 1/2"),
        Mutant(_phi, "return Φ(x) alone: multiply it by x"),
        Mutant(lambda x: 0.5 * x * torch.erf(x / math.sqrt(2)), "leave out the 1 + before erf"),
        Mutant(
            lambda x: 0.5 * x * (1 + torch.erf(x / 2)),
            "divide x by 2 inside erf: it must be the square root of 2",
        ),
        Mutant(
            lambda x: x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi),
            "use the height of the bell curve at x: Φ(x) is the area to the left of x",
        ),
        Mutant(
            lambda x: x * torch.sigmoid(1.702 * x),
            "use the sigmoid approximation, x sigmoid(1.702 x): the exact GELU needs torch.erf",
        ),
        Mutant(F.silu, "use SiLU, x sigmoid(x), which is another activation: take Φ in place of the sigmoid"),
        Mutant(F.relu, "use ReLU: GELU lets a little of the negative numbers through"),
    ),
    hints=(
        "GELU(x) = x Φ(x). You need Φ for every number of the tensor at once: torch.erf works number by number.",
        "Φ(x) = (1 + erf(x / √2)) / 2. The root of a plain number is math.sqrt(2).",
        "return x * 0.5 * (1 + torch.erf(… / math.sqrt(2)))",
    ),
)


# mlp_block: linear, GELU, dropout, linear, dropout


def _block(answer: Any, dropout: float) -> tuple[MLPBlock, Any]:
    """The reference and the learner's block with the same random weights."""
    if isinstance(answer, nn.Module):
        raise Mistake("hand over the class itself, without brackets, not an object made from it.")
    reference = MLPBlock(3, 7, dropout)
    randomise(reference)
    block = answer(3, 7, dropout)
    copy_weights(reference, block)
    return reference, block


def _run_mlp_block(answer: Any) -> Iterator[tuple[str, Any]]:
    reference, block = _block(answer, 0.5)
    block.eval()
    x = (2 * random(2, 5, 3, seed=1)).requires_grad_()
    torch.manual_seed(0)  # only matters to an answer that drops where nothing should be dropped
    output = block(x)
    if output is None or output is ...:
        yield "output in eval mode", output
    # First, since an answer that drops here gives numbers that are nobody else's, at whatever probability.
    yield "the number of different outputs of two runs in eval mode", 2 if _differ(output, block(x)) else 1
    yield "output in eval mode", output
    yield from gradients(output, input=x)
    yield from parameter_gradients(output, block)

    # Train mode: other right answers may draw other random numbers, so 200,000 runs of one token are summed up.
    dropped = 0.3  # torch takes 0.5 where nothing is said
    reference, block = _block(answer, dropped)
    token = torch.tensor([[[0.5, -1.0, 1.5]]])
    torch.manual_seed(0)
    with torch.no_grad():
        many = block.train()(token.expand(40_000, 5, 3).clone()).double()
        hidden = F.gelu(reference[0](token)).double()
        clean = reference.eval()(token).double()[0, 0]
        # Two dropouts of p give a variance that can be worked out: (clean² + Σ (w h)² p / (1-p)) / (1-p) - clean²
        first = F.linear(hidden.square(), reference[3].weight.double().square())[0, 0] * dropped / (1 - dropped)
        variance = (clean.square() + first) / (1 - dropped) - clean.square()
    mean = (many.mean((0, 1)) * clean).sum() / clean.square().sum()
    spread = many.var((0, 1)).sum() / variance.sum()
    zeros = (many == 0).double().mean()
    yield _figures(
        f"with dropout {dropped} in train mode",
        ("the mean of the outputs (as a share of the right one)", _rounded(mean, 1), 1.0),
        ("the variance of the outputs (as a share of the right one)", _rounded(spread, 1), 1.0),
        ("the share of zeros", _rounded(zeros, 1), dropped),
    )


def _differ(first: Any, second: Any) -> bool:
    """Whether two outputs have other numbers; what is no such output is left to the comparison with the right one."""
    tensors = isinstance(first, Tensor) and isinstance(second, Tensor) and first.shape == second.shape
    if not tensors or first.layout != torch.strided or first.is_meta:
        return False
    return not torch.equal(first.detach().nan_to_num(), second.detach().nan_to_num())


def _figures(where: str, *figures: tuple[str, float, float]) -> tuple[str, list[float]]:
    """(what, figure, right) made one value, so that a mistake is named only if all fit; called by the first wrong."""
    wrong = [what for what, figure, right in figures if figure != right]
    return ", ".join([where, *wrong[:1]]), [figure for _, figure, _ in figures]


def _rounded(value: Tensor, digits: int) -> float:
    """So coarse that it is the same for any random numbers: a large value keeps its first digit only."""
    number = value.item()
    return float(f"{number:.0e}") if abs(number) >= 5 else round(number, digits)


def _changed(change: Callable[[MLPBlock], Any]) -> Callable[[int, int, float], MLPBlock]:
    """Makes an MLPBlock with something changed in it."""

    def build(in_dim: int, mlp_dim: int, dropout: float) -> MLPBlock:
        block = MLPBlock(in_dim, mlp_dim, dropout)
        change(block)
        return block

    return build


def _put(**places: Callable[[], nn.Module]) -> Callable[[int, int, float], MLPBlock]:
    """Makes an MLPBlock with other modules at some places: ``_put(_1=nn.ReLU)``."""

    def change(block: MLPBlock) -> None:
        for place, make in places.items():
            block[int(place[1:])] = make()

    return _changed(change)


class _AlwaysDrops(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1)


class _Residual(MLPBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class _NoBias(MLPBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self[4](F.linear(self[2](F.gelu(F.linear(x, self[0].weight))), self[3].weight))


class _ActivationFirst(MLPBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self[4](self[3](self[2](self[0](F.gelu(x)))))


class _ActivationLast(MLPBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self[4](F.gelu(self[3](self[2](self[0](x)))))


class _DropoutBeforeActivation(MLPBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self[4](self[3](F.gelu(self[2](self[0](x)))))


MLP_BLOCK = Exercise(
    name="mlp_block",
    answer="MyMLPBlock",
    stars=2,
    reference=MLPBlock,
    run=_run_mlp_block,
    mutants=(
        Mutant(
            _put(_1=lambda: nn.GELU(approximate="tanh")),
            "use the tanh approximation of GELU: torchvision uses the exact one, F.gelu(x)",
        ),
        Mutant(_put(_1=nn.ReLU), "use ReLU: the paper's first Transformer did, a Vision Transformer uses GELU"),
        Mutant(_put(_1=nn.Identity), "leave out the activation: two linear layers in a row are only one linear layer"),
        Mutant(
            _changed(lambda block: block.append(nn.GELU())),
            "apply GELU after the second linear layer too: it stands between the two only",
        ),
        Mutant(_ActivationLast, "apply GELU after the second linear layer: it stands between the two"),
        Mutant(_ActivationFirst, "apply GELU before the first linear layer: it stands between the two"),
        Mutant(_Residual, "add the input to the output: that is done outside, by the encoder block of notebook 04"),
        Mutant(_NoBias, "leave out both biases: a linear layer is x Wᵀ + b"),
        Mutant(
            _put(_2=_AlwaysDrops, _4=_AlwaysDrops),
            "drop in eval mode too: F.dropout needs training=self.training; self.dropout knows by itself",
        ),
        Mutant(
            _put(_2=lambda: nn.Dropout(0.5), _4=lambda: nn.Dropout(0.5)),
            "drop one half, whatever dropout is: F.dropout does so if p is not given; self.dropout knows its own",
        ),
        Mutant(_put(_4=nn.Identity), "leave out the second dropout: the output is dropped too"),
        Mutant(_put(_2=nn.Identity), "leave out the first dropout: the hidden numbers are dropped too"),
        Mutant(_put(_2=nn.Identity, _4=nn.Identity), "leave out both dropouts: one follows each linear layer"),
        Mutant(_DropoutBeforeActivation, "drop before GELU: the first dropout comes after it"),
    ),
    hints=(
        "Five steps in a row: linear, GELU, dropout, linear, dropout. Each takes what the one before it gave.",
        'self["0"](x) is the first linear layer. F.gelu(x) is the exact GELU. self.dropout(x) is used twice.',
        'x = self.dropout(F.gelu(self["0"](x))), then the same with self["3"] and without GELU; return x.',
    ),
)


# mlp_parameters: weights and biases of every layer


def _run_mlp_parameters(answer: Any) -> Iterator[tuple[str, Any]]:
    # A width that comes back, as 64 in 64 -> 256 -> 64, hides a bias counted at the wrong end: so other widths too.
    for in_channels, hidden_channels in ((64, [256, 64]), (2, [3]), (5, [7, 3]), (3, [4, 6, 2]), (768, [3072, 768])):
        count = answer(in_channels, list(hidden_channels))
        if isinstance(count, float):
            raise Mistake(f"a count is a whole number, an int, and this is {count!r}.")
        yield f"the count for {' → '.join(map(str, [in_channels, *hidden_channels]))}", count


def _count(in_channels: int, hidden_channels: list[int]) -> int:
    return sum((a + 1) * b for a, b in pairwise([in_channels, *hidden_channels]))


MLP_PARAMETERS = Exercise(
    name="mlp_parameters",
    answer="my_count",
    stars=1,
    reference=_count,
    run=_run_mlp_parameters,
    mutants=(
        Mutant(
            lambda c, widths: sum(a * b for a, b in pairwise([c, *widths])),
            "leave out the biases: each layer has one for every number it gives",
        ),
        Mutant(
            lambda c, widths: sum(a * (b + 1) for a, b in pairwise([c, *widths])),
            "count a bias for every number a layer takes: it has one for every number it gives",
        ),
        Mutant(
            lambda c, widths: sum(a * b + 1 for a, b in pairwise([c, *widths])),
            "count one bias a layer: it has one for every number it gives",
        ),
        Mutant(
            lambda c, widths: sum((a + 1) * b for a, b in pairwise(widths)),
            "leave out the first layer: it goes from in_channels to hidden_channels[0]",
        ),
        Mutant(
            lambda c, widths: (c + 1) * widths[0],
            "stop after the first layer: there is one layer for every number in hidden_channels",
        ),
        Mutant(
            lambda c, widths: (c + 1) * sum(widths),
            "let every layer take in_channels numbers: a layer takes what the one before it gave",
        ),
        Mutant(
            lambda c, widths: sum(a * b for a, b in pairwise([c, *widths])) + sum(widths[:-1]),
            "leave out the biases of the last layer: it has them too",
        ),
        Mutant(
            lambda c, widths: sum(a * b for a, b in pairwise([c, *widths])) + widths[-1],
            "count the biases of the last layer only: every layer has them",
        ),
        Mutant(
            lambda c, widths: c * widths[0] + widths[0] + widths[0] * c + c,
            "use the formula D M + M + M D + D for every list: it holds for two layers that end as wide as they began; "
            "add a * b + b for each layer",
        ),
    ),
    hints=(
        "Take one layer first, from a numbers to b numbers. How many entries has its matrix? How many biases has it?",
        "A layer has a * b weights and b biases. The first layer goes from in_channels to hidden_channels[0].",
        "widths = [in_channels, *hidden_channels]; then add a * b + b for a, b in pairwise(widths).",
    ),
)


# xavier: start values, looked at as a whole, since every right answer may draw other random numbers


def _run_xavier(answer: Any) -> Iterator[tuple[str, Any]]:
    torch.manual_seed(0)
    linear = nn.Linear(20, 20_000)  # many, so that the rounded figures below are the same for any right answer
    answer(linear)
    if not isinstance(linear.weight, nn.Parameter) or not isinstance(linear.bias, nn.Parameter):
        raise Mistake("linear.weight and linear.bias must stay what they are: parameters. Fill them in place.")
    yield "shape of the weight", list(linear.weight.shape)
    yield "shape of the bias", list(linear.bias.shape)
    yield "kind of number", str(linear.weight.dtype)
    bound = math.sqrt(6 / (20 + 20_000))
    weight, bias = linear.weight.detach().double() / bound, linear.bias.detach().double() * 1e6
    # a number drawn evenly within ±a has the standard deviation a/√3
    beyond = [_rounded((weight.abs() > share).double().mean(), 2) for share in (1.0001, 0.6)]
    yield _figures(
        "of the start values",
        ("the share of weights beyond the bound", beyond[0], 0.0),
        ("the share of weights beyond 0.6 of the bound", beyond[1], 0.4),
        ("the spread of the weights (as a share of the right one)", _rounded(weight.std() * math.sqrt(3), 2), 1.0),
    )
    yield "the mean of the weights (the bound is 1)", _rounded(weight.mean(), 2)
    yield "the spread of the biases (in millionths)", _rounded(bias.std(), 1)
    yield "the mean of the biases (in millionths)", _rounded(bias.mean(), 1)
    yield "the share of biases further than a millionth from 0", _rounded((bias.abs() > 1).double().mean(), 1)
    yield "asking for a gradient", linear.weight.requires_grad and linear.bias.requires_grad

    linear = nn.Linear(20_000, 20)  # in the layer above fan_out alone is nearly the sum, in this one fan_in
    answer(linear)
    spread = linear.weight.detach().double().std() / bound
    yield (
        "the spread of the weights from 20,000 to 20 (as a share of the right one)",
        _rounded(spread * math.sqrt(3), 2),
    )


def _start(
    bound: Callable[[int, int], float] = lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out)),
    low: float = -1,
    bias: Callable[[Tensor], Any] = lambda bias: nn.init.normal_(bias, std=1e-6),
) -> Callable[[nn.Linear], None]:
    """Fills a layer: weights from low * bound to bound, and the biases."""

    def fill(linear: nn.Linear) -> None:
        a = bound(linear.in_features, linear.out_features)
        nn.init.uniform_(linear.weight, low * a, a)
        bias(linear.bias)

    return fill


def _xavier_normal(linear: nn.Linear) -> None:
    nn.init.xavier_normal_(linear.weight)
    nn.init.normal_(linear.bias, std=1e-6)


XAVIER = Exercise(
    name="xavier",
    answer="my_start",
    stars=2,
    reference=_start(),
    run=_run_xavier,
    mutants=(
        Mutant(lambda linear: None, "leave the start values of nn.Linear as they are: its bound is 1/√fan_in"),
        Mutant(
            _start(lambda fan_in, fan_out: math.sqrt(6 / fan_in)),
            "divide by fan_in alone: the bound is √(6 / (fan_in + fan_out))",
        ),
        Mutant(
            _start(lambda fan_in, fan_out: math.sqrt(6 / fan_out)),
            "divide by fan_out alone: the bound is √(6 / (fan_in + fan_out))",
        ),
        Mutant(_xavier_normal, "draw from the normal distribution: Xavier's here is the uniform one, within ±bound"),
        Mutant(
            _start(lambda fan_in, fan_out: math.sqrt(6) / (fan_in + fan_out)),
            "take the root of 6 alone: the root goes over 6 / (fan_in + fan_out)",
        ),
        Mutant(
            _start(lambda fan_in, fan_out: 6 / (fan_in + fan_out)),
            "forget the root: the bound is √(6 / (fan_in + fan_out))",
        ),
        Mutant(
            _start(lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out))),
            "take √(2 / (fan_in + fan_out)) for the bound: that is the spread, and the bound is √3 times as large",
        ),
        Mutant(
            _start(lambda fan_in, fan_out: math.sqrt(3 / (fan_in + fan_out))),
            "take √(3 / (fan_in + fan_out)) for the bound: it has a 6 in it",
        ),
        Mutant(_start(low=0), "draw from 0 to the bound: half of the weights are below zero"),
        Mutant(_start(bias=lambda bias: None), "leave the biases of nn.Linear as they are: theirs have spread 1e-6"),
        Mutant(_start(bias=nn.init.zeros_), "set the biases to zero: torchvision gives them the spread 1e-6"),
        Mutant(
            _start(bias=lambda bias: nn.init.normal_(bias, std=1e-3)),
            "take 1e-6 for the variance of the biases: it is their standard deviation",
        ),
        Mutant(
            _start(bias=lambda bias: nn.init.uniform_(bias, -1e-6, 1e-6)),
            "draw the biases evenly within ±1e-6: they are normal, with standard deviation 1e-6",
        ),
        Mutant(_start(bias=nn.init.normal_), "give the biases the spread 1: torchvision's is 1e-6"),
    ),
    hints=(
        "Two lines after the bound: one fills linear.weight, one linear.bias. torch.nn.init has a function for each.",
        "bound = math.sqrt(6 / (linear.in_features + linear.out_features)); nn.init.uniform_ takes two ends.",
        "nn.init.uniform_(linear.weight, -bound, bound), then nn.init.normal_(linear.bias, std=…).",
    ),
)

EXERCISES: tuple[Exercise, ...] = (GELU, MLP_BLOCK, MLP_PARAMETERS, XAVIER)
