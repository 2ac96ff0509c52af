"""Notebook 04's checks accept right answers in other styles, and reject mistakes that no slip knows."""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged, reject
from torch import Tensor, nn
from torchvision.models.vision_transformer import EncoderBlock as TorchvisionBlock

from mnist_vit.model import EncoderBlock, MultiHeadAttention


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


def with_var_mean(tokens: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    variance, mean = torch.var_mean(tokens, dim=-1, unbiased=False)
    return torch.addcmul(beta, (tokens - mean[..., None]) / torch.sqrt(variance[..., None] + epsilon), gamma)


def by_copy(part: nn.Module) -> nn.Module:
    part = copy.deepcopy(part)
    part.mlp[3].weight = nn.Parameter(torch.zeros(6, 10))
    part.mlp[3].bias = nn.Parameter(torch.zeros(6))
    part.self_attention.out_proj.weight = nn.Parameter(torch.zeros(6, 6))
    part.self_attention.out_proj.bias = nn.Parameter(torch.zeros(6))
    return part


def count_built(hidden_dim: int, mlp_dim: int) -> int:
    return sum(p.numel() for p in EncoderBlock(1, hidden_dim, mlp_dim, 0.0, 0.0).parameters())


class PairAddedFirst(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(x, x, x) + input
        return x + self.mlp(self.ln_2(x))


def zeroing(*beginnings: str) -> Callable[[nn.Module], None]:
    def silence(part: nn.Module) -> None:
        for name, parameter in part.named_parameters():
            if name.startswith(beginnings):
                nn.init.zeros_(parameter)

    return silence


RIGHT: list[tuple[str, Any]] = [
    ("encoder_block", Functional),
    ("encoder_block", FromScratch),
    ("encoder_block", TorchvisionBlock),
    ("layer_norm", with_var_mean),
    ("layer_norm", lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps)),
    ("count_block", count_built),
    ("count_block", lambda hidden_dim, mlp_dim: torch.tensor(count_built(hidden_dim, mlp_dim))),
    ("silence", by_copy),
]
EARLY = ("self_attention.in_proj", "mlp.0")  # silent early layers: then the last ones still add their biases
FEWEST = " tensors changed; four are enough: weight and bias of the *last* layer of each branch"
WRONG: list[tuple[str, Any, str]] = [
    ("encoder_block", PairAddedFirst, "returns a pair"),
    ("layer_norm", lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, 2 * eps), ""),
    ("count_block", lambda h, m: count_built(h, m) - 4 * h + m, ""),  # no norms, a bias too many: right for 64, 256
    ("silence", lambda part: None, ""),
    ("silence", zeroing(""), "12" + FEWEST),
    ("silence", zeroing(*EARLY, "self_attention.out_proj.bias", "mlp.3.bias"), "6" + FEWEST),
]
test_answers = judged(RIGHT, WRONG)


def test_silent_early_layers_are_led_on_to_the_last_ones() -> None:
    reject("silence", zeroing(*EARLY), "the last layer's weight and bias must both be zero", named=True)
