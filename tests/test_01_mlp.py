"""Notebook 01: right answers in other styles pass, mistakes that no slip tells fail without a wrong
name."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn

from mnist_vit.course.asking import EXERCISES
from mnist_vit.course.checking import verdict


def started(weight: Tensor, bias: Tensor) -> None:
    """Biases first: other random numbers than the solution's."""
    nn.init.normal_(bias, 0, 1e-6)
    nn.init.xavier_uniform_(weight)


class Positional(nn.Sequential):
    """Written as torchvision does it."""

    def __init__(self, d: int, m: int, p: float = 0.0) -> None:
        super().__init__(nn.Linear(d, m), nn.GELU(), nn.Dropout(p), nn.Linear(m, d), nn.Dropout(p))
        for linear in (self[3], self[0]):
            started(linear.weight, linear.bias)


class Functional(nn.Module):
    """Bare parameters made in another order, einsum, F.dropout."""

    def __init__(self, width: int, hidden: int, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        for name, a, b in (("3", hidden, width), ("0", width, hidden)):
            layer = nn.Module()
            layer.bias = nn.Parameter(torch.zeros(b))
            layer.weight = nn.Parameter(torch.zeros(b, a))
            started(layer.weight, layer.bias)
            self.add_module(name, layer)

    def forward(self, tokens: Tensor) -> Tensor:
        first, second = self.get_submodule("0"), self.get_submodule("3")
        h = torch.einsum("...d,md->...m", tokens, first.weight) + first.bias
        h = F.dropout(h * 0.5 * torch.erfc(-h / math.sqrt(2)), self.rate, self.training)
        return F.dropout(h @ second.weight.T + second.bias, self.rate, self.training)


class OwnDropout(nn.ModuleDict):
    """Dropout by hand, so other random numbers than the solution's."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float = 0.0) -> None:
        super().__init__({"0": nn.Linear(in_dim, mlp_dim), "3": nn.Linear(mlp_dim, in_dim)})
        for linear in list(self.values()):
            started(linear.weight, linear.bias)
        self.keep = 1 - dropout

    def drop(self, x: Tensor) -> Tensor:
        if not self.training or self.keep == 1:
            return x
        kept = x * (torch.rand(x.shape) < self.keep)
        return kept / self.keep if self.keep else kept

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self["3"](self.drop(F.gelu(self["0"](x)))))


class NothingByNothing(OwnDropout):
    """0 / 0 where all is dropped."""

    def drop(self, x: Tensor) -> Tensor:
        return x * (torch.rand(x.shape) < self.keep) / self.keep if self.training else x


class OneByNothing(OwnDropout):
    """1 / 0, by Python, where all is dropped."""

    def drop(self, x: Tensor) -> Tensor:
        kept = x * (torch.rand(x.shape) < self.keep)
        return kept * (1 / self.keep) if self.training else x


def xavier_by_torch(linear: nn.Linear) -> nn.Linear:
    nn.init.normal_(linear.bias, 0, 1e-6)  # the biases first: other random numbers
    nn.init.xavier_uniform_(linear.weight)
    return linear


def of_one_size(linear: nn.Linear) -> None:
    """Right only where fan_in and fan_out are those of the layer that was tried."""
    bound = math.sqrt(6 / 20_020)
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)


def of_the_larger(linear: nn.Linear) -> None:
    bound = math.sqrt(6 / max(linear.weight.shape))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)


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


def started_otherwise(widely: float, std: float) -> Callable[..., nn.Module]:
    """Blocks whose start weights, and start biases, spread otherwise."""

    def made(in_dim: int, mlp_dim: int, dropout: float = 0.0) -> nn.Module:
        block = OwnDropout(in_dim, mlp_dim, dropout)
        for linear in block.values():
            nn.init.xavier_uniform_(linear.weight, gain=widely)
            nn.init.normal_(linear.bias, std=std)
        return block

    return made


def biases_too_wide(linear: nn.Linear) -> None:
    nn.init.xavier_uniform_(linear.weight)
    nn.init.normal_(linear.bias, std=1e-5)


class Unstarted(OwnDropout):
    """With the start values of nn.Linear."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float = 0.0) -> None:
        super().__init__(in_dim, mlp_dim, dropout)
        for linear in self.values():
            linear.reset_parameters()


def by_rand(linear: nn.Linear, shift: float = 1.0) -> None:
    bound = math.sqrt(6 / (linear.in_features + linear.out_features))
    with torch.no_grad():
        linear.weight.copy_(torch.rand(linear.weight.shape) * bound - shift * bound)
        linear.bias.normal_(std=1e-6)


def merged_by_three_points(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> list[Tensor]:
    """What comes out for 0 is the bias; what comes out for each unit vector, less that, a column of
    the matrix."""

    def both(x: Tensor) -> Tensor:
        return F.linear(F.linear(x, W_1, b_1), W_2, b_2)

    b = both(torch.zeros(W_1.shape[1]))
    return [(both(torch.eye(W_1.shape[1])) - b).T, b]


def merged_of_units(
    first: bool = True, second: bool = True
) -> Callable[..., tuple[Tensor, Tensor]]:
    """A matrix of what comes out for unit tokens, with one bias or both still in it."""

    def merge(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
        hidden = W_1 + first * b_1[:, None]
        return W_2 @ hidden + second * b_2[:, None], W_2 @ b_1 + b_2

    return merge


def hinges(scale: float, parts: int) -> tuple[Tensor, ...]:
    """The absolute value, from more hidden numbers than are needed."""
    signs = torch.tensor([1.0, -1.0]).repeat(parts)
    return (
        scale * signs[:, None],
        torch.zeros(2 * parts),
        signs.abs()[None] / scale / parts,
        torch.zeros(1),
    )


def shifted() -> tuple[Tensor, ...]:
    """x, and twice its negative half taken away."""
    W_1 = torch.tensor([[1.0], [-1000.0]])
    return W_1, torch.tensor([100.0, 0.0]), torch.tensor([[1.0, 0.002]]), torch.tensor([-100.0])


def patient(block: nn.Module, x: Tensor) -> str:
    """Other experiments than the solution's: one token alone, three points of a line, dropped
    outputs counted."""
    with torch.no_grad():
        block.eval()
        runs = torch.stack([block(x) for _ in range(3)])
        if (runs - runs[0]).abs().amax() > 0:
            return "drops in eval mode"
        if not torch.allclose(block(x[:, 2:3]), runs[0][:, 2:3], atol=1e-4):
            return "tokens mix"
        middle = block((x + 2 * x.flip(0)) / 3)
        if torch.allclose(middle, (runs[0] + 2 * runs[0].flip(0)) / 3, atol=1e-4):
            return "no GELU"
        block.train()
        dropped = sum((block(x) == 0).double().mean() for _ in range(20)) / 20
        return "right" if dropped > 0.25 else "no second dropout"


def patient_for_one_token(block: nn.Module, x: Tensor) -> str:
    """Finds all but the tokens that mix."""
    said = patient(block, x[:, 2:3])
    return "right" if said == "tokens mix" else said


def examining(
    doubled: bool = False,
    training: bool = False,
    axis: int = 1,
    shuffled: bool = False,
    at_least: float = 1e-4,
    counted: bool = True,
    share: float = 0.2,
) -> Callable[[nn.Module, Tensor], str]:
    """An examiner with at most one mistake."""

    def is_mixing(block: nn.Module, x: Tensor) -> bool:
        order = torch.arange(x.shape[1]).roll(2) if shuffled else torch.arange(x.shape[1])
        other = x[:, order].clone()
        if not shuffled:
            other.select(axis, 0).add_(1)
        far = (block(other) - block(x)[:, order]).abs()
        return bool((far if shuffled else far.narrow(axis, 1, 1)).max() > at_least)

    def is_linear(block: nn.Module, x: Tensor) -> bool:
        zero = 0 if doubled else block(0 * x)
        return bool((block(2 * x) - 2 * block(x) + zero).abs().max() < 1e-4)

    def is_dropping(block: nn.Module, x: Tensor) -> bool:
        if counted:
            return bool((block(x) == 0).double().mean() > share)
        return not torch.equal(block(x), block(x))

    @torch.no_grad()
    def answer(block: nn.Module, x: Tensor) -> str:
        block.train(training)
        linear = is_linear(block, x)
        block.eval()
        if not torch.equal(block(x), block(x)):
            return "drops in eval mode"
        if linear:
            return "no GELU"
        if is_mixing(block, x):
            return "tokens mix"
        return "right" if is_dropping(block.train(), x) else "no second dropout"

    return answer


def changing_its_tokens(block: nn.Module, x: Tensor) -> str:
    """Before and after are the same tensor."""
    other = x.detach()
    other[:, 0] += 1
    said = patient(block, x)
    return "right" if said == "tokens mix" else said


def missing_means_no_zeros(block: nn.Module, x: Tensor) -> str:
    """The last question the wrong way round."""
    said = patient(block, x)
    return {"right": "no second dropout", "no second dropout": "right"}.get(said, said)


def xavier_without_biases(linear: nn.Linear) -> None:
    nn.init.uniform_(linear.weight, 0, math.sqrt(6 / (linear.in_features + linear.out_features)))


def biases_forgotten(linear: nn.Linear) -> None:
    nn.init.xavier_uniform_(linear.weight)


def from_one_to_two(linear: nn.Linear) -> None:
    nn.init.uniform_(linear.weight, 1, 2)
    nn.init.normal_(linear.bias, std=1e-6)


def by_one_end(linear: nn.Linear) -> None:
    nn.init.uniform_(linear.weight, math.sqrt(6 / (linear.in_features + linear.out_features)))
    nn.init.normal_(linear.bias, std=1e-6)


def column_and_vector(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
    return W_2.mm(W_1), W_2.mm(b_1.unsqueeze(1)) + b_2


@torch.no_grad()
def alone(block: nn.Module, x: Tensor) -> str:
    """Compares exactly; each token alone is rounded otherwise, on every machine."""
    block.eval()
    precise = copy.deepcopy(block).double()
    rows = [precise(row[None, None].double())[0].float() for row in x[0]]
    is_same = torch.equal(block(x), block(x))
    if is_same and not torch.equal(block(x)[0], torch.cat(rows)):
        return "tokens mix"
    return patient(block, x)


def dropping_with(hidden: Callable[[Tensor], Tensor], out: Callable[[Tensor], Tensor]) -> type:
    """A block whose masks have the shape of a part of what they drop."""

    class Dropping(Positional):
        def forward(self, x: Tensor) -> Tensor:
            h = F.gelu(self[0](x))
            y = self[3](h * self[2](torch.ones_like(hidden(h))))
            return y * self[4](torch.ones_like(out(y)))

    return Dropping


def whole(x: Tensor) -> Tensor:
    return x


RIGHT: list[tuple[str, Any]] = [
    ("mlp_block", dropping_with(whole, whole)),
    ("gelu", lambda t: t * (torch.erfc(-t / 2**0.5) / 2)),
    ("gelu", lambda t: t * torch.distributions.Normal(0.0, 1.0).cdf(t)),
    ("mlp_block", Positional),
    ("mlp_block", Functional),
    ("mlp_block", OwnDropout),
    ("xavier", xavier_by_torch),
    ("merge", merged_by_three_points),
    ("absolute", lambda: hinges(100.0, 1)),
    ("absolute", lambda: hinges(5000.0, 7)),
    ("absolute", shifted),
    ("absolute", hinges(300.0, 2)),
    ("examine", patient),
    ("examine", examining()),
]
WRONG: list[tuple[str, Any, str]] = [
    ("xavier", xavier_by_new_parameters, "linear.weight is not the parameter any more"),
    ("gelu", F.mish, ""),
    ("gelu", lambda x: F.gelu(x.detach()) + 0 * x, "gradient"),
    ("gelu", changing_its_input, "changed"),
    ("mlp_block", lambda d, m, p: Positional(d, m, p / 2), "variance"),
    ("mlp_block", Positional(3, 7, 0.5), "the class itself"),
    ("gelu", nn.GELU(), "but torch's GELU is what you are to write"),
    ("gelu", F.gelu, "but torch's GELU is what you are to write"),
    ("merge", lambda *layers: layers[2] @ layers[0], "two things must come back"),
    ("merge", lambda *layers: (layers[2] @ layers[0], layers[1] * 0 + layers[3]), ""),
    ("absolute", lambda: hinges(20.0, 1), ""),
    (
        "absolute",
        lambda: tuple(part.double() for part in hinges(100.0, 1)),
        "must be a tensor of torch.float32, but is torch.float64. W_1.float() is one.",
    ),
    ("absolute", lambda: (torch.ones(1, 2), *hinges(100.0, 1)[1:]), "numbers they must be (m, 1)"),
    ("absolute", lambda: (*hinges(100.0, 1)[:3], [1]), "of a list in which a number"),
    ("absolute", lambda: (*hinges(100.0, 1)[:3], 1), "b_2 has the shape (1,)"),
    ("absolute", lambda: hinges(100.0, 1)[:3], "four tensors must come back"),
    ("examine", lambda block, x: "broken", "none of the five names"),
    ("examine", lambda block, x: block(x[0]) and "right", "(n, tokens, numbers)"),
    (
        "xavier",
        lambda linear: linear.requires_grad_(False) and xavier_by_torch(linear) and None,
        "",
    ),
    ("xavier", lambda linear: linear.weight.uniform_(-1, 1), "no_grad()"),
    ("xavier", of_one_size, "from 600 to 700 numbers the standard deviation of your weights is"),
    ("xavier", lambda linear: None, "linear.weight still holds the numbers"),
    ("xavier", biases_forgotten, "linear.bias still holds the numbers"),
    ("xavier", from_one_to_two, "between 1 and 2, and none is negative"),
    ("xavier", biases_too_wide, "of your biases is 1e-05"),
    ("mlp_block", started_otherwise(2.0, 1e-6), "0.weight starts with 2 times the spread"),
    ("mlp_block", started_otherwise(1.0, 2e-6), "0.bias starts with a spread of 2e-06"),
    ("examine", changing_its_tokens, "so x and what was changed are one and the same tensor"),
    ("examine", examining(doubled=True), "not where they are other numbers"),
    ("examine", examining(training=True), "Test for linearity in eval mode"),
    ("examine", examining(axis=0), "It finds blocks in which pictures mix"),
    ("examine", examining(shuffled=True), "The mean is the same in whatever order"),
    ("examine", examining(at_least=0.5), "not those in which they mix a little"),
    ("examine", examining(counted=False), "Only the second makes exact zeros"),
    ("examine", examining(share=0.499), "whose last dropout is 0.5, and not of one where"),
    ("examine", alone, "not of one that computes without rounding"),
    ("examine", examining(share=0.6), "whose last dropout is 0.5, and not of one where"),
]
NAMED: list[tuple[str, Any, str]] = [  # the first of two mistakes, whatever random numbers follow
    (
        "gelu",
        lambda x: x * 0.5 * (1 + torch.erf(x.abs() / 2**0.5)),
        "take the absolute value of x for erf",
    ),
    (
        "merge",
        lambda *layers: (layers[2] @ layers[0], layers[3] - layers[2] @ layers[1]),
        "subtract W_2 times the first bias",
    ),
    (
        "mlp_block",
        lambda d, m, p: Positional(d, m, 0.0),
        "the variance of the outputs (as a share of the right one)",
    ),
    ("mlp_block", DroppingOnce, "use new random numbers in eval mode too"),
    ("mlp_block", WithoutDropout, "apply GELU after the second linear layer too"),
    ("xavier", xavier_without_biases, "draw from 0 to the bound"),
    ("xavier", of_the_larger, "divide by the larger of fan_in and fan_out"),
    ("xavier", by_rand, "as rand * bound - bound does"),
    ("xavier", lambda linear: by_rand(linear, 0.5), "as (rand - 0.5) * bound does"),
    ("mlp_block", Unstarted, "leave the start values of nn.Linear as they are"),
    ("gelu", lambda x: x * 0.5 * (1 - torch.erf(x / 2**0.5)), "take 0.5 * (1 - erf)"),
    ("gelu", lambda x: x * 0.5 * (1 + torch.erf(x * 2**0.5)), "multiply x by √2 inside erf"),
    ("gelu", lambda x: x * torch.erf(x / 2**0.5), "take erf(x / √2) for the share"),
    ("gelu", nn.GELU("tanh"), "the tanh approximation"),
    ("examine", patient_for_one_token, "look at no other token's row"),
    ("examine", missing_means_no_zeros, "take exact zeros for a sign that"),
    ("merge", lambda a, b, c, d: (c @ a, c.mv(b).sub(d)), "subtract the second bias"),
    ("merge", merged_of_units(), "with their biases: every column of the matrix"),
    ("merge", merged_of_units(second=False), "with b_1: every column of the matrix"),
    ("merge", merged_of_units(first=False), "with b_2: every column of the matrix"),
    (
        "merge",
        lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, W_2 @ b_1 / len(b_1) + b_2),
        "take the mean of W_2 * b_1",
    ),
    (
        "merge",
        lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, (W_2 * b_1).sum(0) + b_2),
        "sum W_2 * b_1 over axis 0",
    ),
    ("merge", column_and_vector, "add b_2, a vector, to W_2 times b_1 as a column"),
    ("xavier", by_one_end, "draw from the bound to 1"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


class Undivided(OwnDropout):
    """What is left keeps its size."""

    def drop(self, x: Tensor) -> Tensor:
        return super().drop(x) * self.keep if self.training else x


class OtherDropoutInside(OwnDropout):
    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(F.gelu(self["0"](x)), 0.2, self.training)
        return self.drop(self["3"](hidden))


class OtherDropoutAtTheEnd(OwnDropout):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(F.gelu(self["0"](x)))
        return F.dropout(self["3"](hidden), 0.12, self.training)


def in_steps(linear: nn.Linear) -> None:
    """As wide as it should be, and all near 0.58 of the bound, on both sides of 0."""
    xavier_by_torch(linear)
    bound = math.sqrt(6 / (linear.in_features + linear.out_features))
    with torch.no_grad():
        linear.weight.mul_(1e-3 / bound).add_(linear.weight.sign())
        linear.weight.mul_(bound / math.sqrt(3))


def in_two_steps(linear: nn.Linear) -> None:
    xavier_by_torch(linear)
    with torch.no_grad():
        linear.weight.copy_(0.01 * linear.weight.sign())


def one_for_each_row(linear: nn.Linear) -> None:
    xavier_by_torch(linear)
    with torch.no_grad():
        linear.weight.copy_(linear.weight[:, :1].expand_as(linear.weight))


def one_for_all_biases(linear: nn.Linear) -> None:
    xavier_by_torch(linear)
    nn.init.constant_(linear.bias, 1.2e-6)


def frozen(linear: nn.Linear) -> None:
    xavier_by_torch(linear.requires_grad_(False))


class TurnedRound(EXERCISES["mlp_block"].answer):  # type: ignore[misc]
    """Hands F.linear its weights transposed."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(F.linear(x, self["0"].weight.T, self["0"].bias))
        return F.linear(hidden, self["3"].weight.T, self["3"].bias)


class Overwriting(EXERCISES["mlp_block"].answer):  # type: ignore[misc]
    def forward(self, x: Tensor) -> Tensor:
        output = super().forward(x)
        x.data.zero_()
        return output


def nothing_left(linear: nn.Linear) -> None:
    bound = math.sqrt(6 // (linear.in_features + linear.out_features))
    nn.init.uniform_(linear.weight, -bound, bound)


def another_layer(linear: nn.Linear) -> nn.Linear:
    other = nn.Linear(linear.in_features, linear.out_features)
    xavier_by_torch(other)
    return other


def row_by_row(x: Tensor) -> Tensor:
    """Right for at least one axis."""
    return torch.stack([row * 0.5 * (1 + torch.erf(row / 2**0.5)) for row in x])


def merge_to_fifty_tokens(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> list[Tensor]:
    """Right where a token has fewer than 50 numbers."""
    x = torch.cos(torch.arange(50.0 * W_1.shape[1]).square()).reshape(50, -1).double()
    y = F.linear(F.linear(x, W_1.double(), b_1.double()), W_2.double(), b_2.double())
    found = torch.linalg.lstsq(F.pad(x, (0, 1), value=1.0), y, driver="gelsd").solution.float()
    return [found[:-1].T, found[-1]]


def ones_near_two(x: Tensor) -> Tensor:
    return torch.where((x - 2).abs() < 0.8, x, x * 0.5 * (1 + torch.erf(x / 2**0.5)))


def to_the_last_bit(block: nn.Module, x: Tensor) -> str:
    """Asks whether a block is linear with torch.equal."""
    said = patient(block, x)
    block.eval()
    zero = block(0 * x)
    a, b = torch.randn_like(x), torch.randn_like(x)
    is_linear = torch.equal(block(a + b) - zero, (block(a) - zero) + (block(b) - zero))
    return "right" if said == "no GELU" and not is_linear else said


def fitted_to_too_few(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
    """From as many tokens as a token has numbers, one less than the unknowns."""
    size = W_1.shape[1]
    x = torch.randn(size, size)
    y = F.linear(F.linear(x, W_1, b_1), W_2, b_2)
    found = torch.linalg.lstsq(torch.cat([x, torch.ones(size, 1)], dim=1), y).solution
    return found[:-1].T, found[-1]


def fitted_at_whole_numbers() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x = torch.linspace(-5, 5, 11)[:, None]
    W_1, b_1 = torch.ones(11, 1), -torch.linspace(-6, 4, 11)
    hidden = F.gelu(F.linear(x, W_1, b_1))
    W_2 = torch.linalg.solve(hidden.double(), x.abs().double()).float().T
    return W_1, b_1, W_2, torch.zeros(1)


def by_python(x: Tensor) -> Tensor:
    values = [v * 0.5 * (1 + math.erf(v / 2**0.5)) for v in x.flatten().tolist()]
    return torch.tensor(values).reshape(x.shape)


def mixing_in_train_mode(block: nn.Module, x: Tensor) -> str:
    """Compares within rounding, but where dropout is at work."""
    block.train()
    if not torch.allclose(block(x[:, :1]), block(x)[:, :1], atol=1e-4):
        return "tokens mix"
    return patient(block, x)


def of_the_mean_bound(linear: nn.Linear) -> None:
    bound = (math.sqrt(3 / linear.in_features) + math.sqrt(3 / linear.out_features)) / 2
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)


@torch.no_grad()
def in_train_mode_alone(block: nn.Module, x: Tensor) -> str:
    block.train()
    if not (block(x) == 0).any():
        return "no second dropout"
    return "drops in eval mode" if (block(x) != block(x)).any() else "right"


SAID: list[tuple[str, Any, str]] = [
    ("examine", in_train_mode_alone, "of a block that it ran in train mode alone. Call block.eval"),
    ("absolute", lambda: hinges(3.0, 1), "which lie between -0.8 and 0.8."),
    ("absolute", lambda: hinges(3.0, 1), "Follow x = "),
    (
        "absolute",
        lambda: (hinges(100.0, 1)[0], torch.zeros(1), *hinges(100.0, 1)[2:]),
        "W_1, b_1, W_2 and b_2 have the shapes (2, 1), (1,), (1, 2) and (1,). With m",
    ),
    ("gelu", lambda x: x * torch.sigmoid(2 * x), "For x = -1 and 0.5 your"),
    ("gelu", lambda x: torch.exp(torch.log(x)), "`torch.log(x)` gives the first numbers that"),
    (
        "gelu",
        lambda x: x.detach() * 0.5 * (1 + torch.erf(x / 2**0.5)),
        "The part of the gradient is missing that comes from the x before",
    ),
    (
        "mlp_block",
        dropping_with(whole, lambda y: y[..., :1]),
        "In train mode all outputs of a token are 0, or none is.",
    ),
    (
        "mlp_block",
        dropping_with(whole, lambda y: y[:, :1]),
        "an output is 0 for all tokens of a picture, or for none.",
    ),
    (
        "mlp_block",
        dropping_with(lambda h: h[:, :1], whole),
        "they lose the same hidden numbers.",
    ),
    (
        "mlp_block",
        dropping_with(lambda h: h[..., :1], whole),
        "as if the hidden numbers of a token were dropped all together.",
    ),
    (
        "mlp_block",
        dropping_with(lambda h: h[0, 0], whole),
        "all tokens of all pictures lose the same hidden numbers",
    ),
    ("merge", lambda *layers: nn.Linear(4, 4), "a layer came back, Linear."),
    ("absolute", lambda: hinges(20.0, 1), "near enough with W_1 times 10 and W_2 divided by 10"),
    ("absolute", lambda: hinges(1e38, 1), "The largest number in your tensors is 1e+38"),
    ("gelu", lambda x: x * (torch.erfc(-x / 2**0.5) / 2) + 0.3 * (x == 0), "For x = 0 your result"),
    ("gelu", ones_near_two, "For x = 1.35 your result is x times 1. Φ(x), the share of"),
    ("mlp_block", NothingByNothing, "are nan. With dropout 1 everything is dropped"),
    ("mlp_block", OneByNothing, "with dropout 1 in train mode your code raised ZeroDivisionError"),
    ("mlp_block", Undivided, "but the mean of all is another. What is left must be divided"),
    ("mlp_block", OtherDropoutInside, "the mean of all is right: look at what is dropped before"),
    ("mlp_block", OtherDropoutAtTheEnd, "about 10 % of the outputs are 0"),
    (
        "examine",
        to_the_last_bit,
        "nothing is rounded, and not in a block whose numbers are rounded. torch.equal and == ask",
    ),
    ("merge", fitted_to_too_few, "draws random numbers. What comes back must not depend on random"),
    ("absolute", fitted_at_whole_numbers, "y is within 0.01 of |x| at all whole numbers, and"),
    ("xavier", in_two_steps, "linear.weight holds 2 different numbers at 20,000 places."),
    ("xavier", one_for_each_row, "each row of linear.weight holds one number, the same at all"),
    ("xavier", one_for_all_biases, "linear.bias holds the same number, 1.2e-06, everywhere."),
    ("xavier", frozen, "linear.weight and linear.bias do not ask for a gradient any more"),
    ("absolute", lambda: hinges(math.inf, 1), "Your tensors hold infinite numbers already."),
    ("gelu", by_python, "torch.tensor(…) of Python's numbers make float32 of it."),
    ("examine", mixing_in_train_mode, "and not of one with dropout 0. Change a token in eval mode"),
    ("mlp_block", Overwriting, "the tokens that came in are changed."),
    ("xavier", nothing_left, "linear.weight is 0 everywhere. Look at the number within which"),
    ("xavier", another_layer, "what you return is not looked at."),
    (
        "merge",
        lambda W, b, V, c: (V @ W, V.mean(1) * b.sum() + c),
        "Where b_2 is 0 and b_1 is 0 but for a 1 at place 0, your bias is",
    ),
    ("merge", merge_to_fifty_tokens, "It is right for the smaller layers, and not for one that"),
    ("examine", lambda block, x: "right", 'It says "right" of a block of each of the five kinds.'),
    ("xavier", in_steps, "0 % lie beyond it, 0 % beyond 0.6 of it. It should be 0 % and 40 %."),
]
SLIPS: list[tuple[str, Any, str]] = [
    ("merge", lambda W, b, V, c: (V @ W, b @ V + c), "from the left, b_1 @ W_2, which is W_2.T"),
    ("gelu", row_by_row, "x is a single number here, without axes"),
    ("mlp_block", TurnedRound, "F.linear with W.T, which transposes it once more"),
    ("xavier", of_the_mean_bound, "take the mean of the two bounds √(3 / fan_in)"),
]
test_sentences = judged([], SAID, SLIPS)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("mlp_block", Undivided),
        ("xavier", lambda linear: nn.init.xavier_normal_(linear.weight)),
    ],
)
def test_a_figure_is_told_by_its_words_and_not_by_a_number(name: str, answer: Any) -> None:
    passed, told = verdict(EXERCISES[name], answer)
    assert not passed
    assert "should not be" in told
    assert "number " not in told.partition("should not be")[0]
