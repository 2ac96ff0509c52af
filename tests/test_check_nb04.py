"""Notebook 04's checks accept right answers in other styles, and reject mistakes that they have no name for."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.vision_transformer import EncoderBlock as TorchvisionBlock

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
from mnist_vit.model import EncoderBlock, MLPBlock, MultiHeadAttention


class Short(EncoderBlock):
    def forward(self, z: Tensor) -> Tensor:
        normed = self.ln_1(z)
        middle = z + self.dropout(self.self_attention(normed, normed, normed)[0])
        return middle + self.mlp(self.ln_2(middle))


class Branches(EncoderBlock):
    """A list of branches, each added in a loop."""

    def attend(self, x: Tensor) -> Tensor:
        return self.self_attention(x, x, x, need_weights=True, average_attn_weights=False)[0]

    def forward(self, stream: Tensor) -> Tensor:
        for norm, parts in ((self.ln_1, (self.attend, self.dropout)), (self.ln_2, (self.mlp,))):
            branch = norm(stream)
            for part in parts:
                branch = part(branch)
            stream = torch.add(stream, branch)
        return stream


class Functional(EncoderBlock):
    """Every part by its formula, in place where that is allowed."""

    def forward(self, input: Tensor) -> Tensor:
        x = F.layer_norm(input, input.shape[-1:], self.ln_1.weight, self.ln_1.bias, 1e-6)
        x = self.self_attention(query=x, key=x, value=x)[0]
        x = F.dropout(x, self.dropout.p, self.training)
        x += input
        y = F.layer_norm(x, input.shape[-1:], self.ln_2.weight, self.ln_2.bias, 1e-6)
        y = F.gelu(F.linear(y, self.mlp[0].weight, self.mlp[0].bias))
        return F.linear(y, self.mlp[3].weight, self.mlp[3].bias) + x


class FromScratch(nn.Module):
    """Own attention, and an MLP that is a plain Sequential."""

    def __init__(self, heads: int, width: int, wide: int, p: float, attention_p: float) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, wide), nn.GELU(), nn.Dropout(p), nn.Linear(wide, width), nn.Dropout(p)
        )
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = MultiHeadAttention(width, heads, attention_p)
        self.dropout = nn.Dropout(p)

    def forward(self, a: Tensor) -> Tensor:
        b = self.ln_1(a)
        c, _ = self.self_attention(b, b, b)
        d = a + self.dropout(c)
        return d + self.mlp(self.ln_2(d))


def with_mean_of_squares(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean = x.mean(2, keepdim=True)
    variance = (x * x).mean(2, keepdim=True) - mean * mean
    return weight * (x - mean) * torch.rsqrt(variance + eps) + bias


def with_var_mean(tokens: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    variance, mean = torch.var_mean(tokens, dim=-1, unbiased=False)
    return torch.addcmul(beta, (tokens - mean[..., None]) / torch.sqrt(variance[..., None] + epsilon), gamma)


def with_loops(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    pictures = []
    for picture in x:
        tokens = []
        for token in picture:
            mean = sum(token) / len(token)
            variance = sum((number - mean) ** 2 for number in token) / len(token)
            tokens.append((token - mean) / (variance + eps) ** 0.5 * weight + bias)
        pictures.append(torch.stack(tokens))
    return torch.stack(pictures)


def with_einsum(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    size = x.shape[-1]
    centred = x - torch.einsum("nsd->ns", x).unsqueeze(-1) / size
    scale = (torch.einsum("nsd,nsd->ns", centred, centred) / size + eps).pow(-0.5)
    return torch.einsum("nsd,ns,d->nsd", centred, scale, weight) + bias


def by_init(part: nn.Module) -> None:
    for tensor in (*part.self_attention.out_proj.parameters(), part.mlp[3].weight, part.mlp[3].bias):
        nn.init.zeros_(tensor)


def by_name(part: nn.Module) -> None:
    for name, parameter in part.named_parameters():
        if "out_proj" in name or "mlp.3" in name:
            parameter.data = parameter.data * 0


def by_state_dict(part: nn.Module) -> None:
    state = part.state_dict()
    quiet = {name: torch.zeros_like(state[name]) for name in state if name.startswith(("mlp.3", "self_attention.out"))}
    part.load_state_dict(state | quiet)


def by_copy(part: nn.Module) -> nn.Module:
    part = copy.deepcopy(part)
    part.mlp[3].weight = nn.Parameter(torch.zeros(6, 10))
    part.mlp[3].bias = nn.Parameter(torch.zeros(6))
    part.self_attention.out_proj.weight = nn.Parameter(torch.zeros(6, 6))
    part.self_attention.out_proj.bias = nn.Parameter(torch.zeros(6))
    return part


def count_built(hidden_dim: int, mlp_dim: int) -> int:
    return sum(p.numel() for p in EncoderBlock(1, hidden_dim, mlp_dim, 0.0, 0.0).parameters())


def count_listed(a: int, b: int) -> int:
    layers = [(a, a)] * 4 + [(a, b), (b, a)]
    return sum(width_in * width_out + width_out for width_in, width_out in layers) + sum([a] * 4)


STYLES: dict[str, list[Any]] = {
    "encoder_block": [Short, Branches, Functional, FromScratch, TorchvisionBlock, lambda *sizes: Short(*sizes)],
    "layer_norm": [
        with_mean_of_squares,
        with_var_mean,
        with_loops,
        with_einsum,
        lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps),
    ],
    "count_block": [
        count_built,
        count_listed,
        lambda h, m: h * (4 * h + 2 * m + 9) + m,
        lambda hidden_dim, mlp_dim: torch.tensor(count_listed(hidden_dim, mlp_dim)),
    ],
    "silence": [by_init, by_name, by_state_dict, by_copy],
}


class Doubled(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + input


class AnotherActivation(EncoderBlock):
    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        self.mlp = MLPBlock(sizes[1], sizes[2], sizes[3])
        self.mlp[1] = nn.GELU(approximate="tanh")


def one_bias(part: nn.Module) -> None:
    nn.init.zeros_(part.ln_1.bias)


UNKNOWN: list[tuple[str, Any]] = [
    ("encoder_block", Doubled),
    ("encoder_block", AnotherActivation),
    ("layer_norm", lambda x, w, b, eps: (x - x.mean(-1, True)) / ((x - x.mean(-1, True)).abs().mean(-1, True) + eps)),
    ("layer_norm", lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, 2 * eps)),
    ("count_block", lambda h, m: count_built(h, m) + 1),
    ("silence", one_bias),
    ("silence", lambda part: None),
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


EARLY = ("self_attention.in_proj", "mlp.0")  # silent early layers: then the last ones still add their biases


@pytest.mark.parametrize(
    ("count", "beginnings"),
    [
        (12, ("",)),
        (8, ("self_attention", "mlp")),
        (6, (*EARLY, "self_attention.out_proj.bias", "mlp.3.bias")),
        (5, ("self_attention.out_proj", "mlp.3", "ln_1.bias")),
    ],
)
def test_silence_wants_the_fewest_tensors(count: int, beginnings: tuple[str, ...]) -> None:
    right, said = verdict(EXERCISES["silence"], zeroing(*beginnings))
    assert not right
    assert f"{count} tensors changed; four are enough: weight and bias of the *last* layer of each branch" in said


def test_silent_early_layers_are_led_on_to_the_last_ones() -> None:
    right, said = verdict(EXERCISES["silence"], zeroing(*EARLY))
    assert not right
    assert "the last layer's weight and bias must both be zero" in said


def zeroing(*beginnings: str) -> Callable[[nn.Module], None]:
    def silence(part: nn.Module) -> None:
        for name, parameter in part.named_parameters():
            if name.startswith(beginnings):
                nn.init.zeros_(parameter)

    return silence


class PairIntoDropout(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class PairAdded(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = input + self.self_attention(x, x, x)
        return x + self.mlp(self.ln_2(x))


class PairAddedFirst(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(x, x, x) + input
        return x + self.mlp(self.ln_2(x))


class PairAsked(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        return self.self_attention(x, x, x).add(input)


@pytest.mark.parametrize("answer", [PairIntoDropout, PairAdded, PairAddedFirst, PairAsked])
def test_a_pair_in_a_tensors_place_is_told_so(answer: type[nn.Module]) -> None:
    right, said = verdict(EXERCISES["encoder_block"], answer)
    assert not right
    assert "returns a pair" in said
    assert "x, _ = " in said
