"""Solutions of notebook 01, made from the sources of its checks by `python -m tools solutions`."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# exercise: absolute
def my_absolute() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    W_1 = torch.tensor([[100.0], [-100.0]])  # GELU is nearly ReLU where the numbers are large
    b_1 = torch.tensor([0.0, 0.0])
    W_2 = torch.tensor([[0.01, 0.01]])
    b_2 = torch.tensor([0.0])
    return W_1, b_1, W_2, b_2


# exercise: examine
def my_examine(block: nn.Module, x: Tensor) -> str:
    block.eval()
    with torch.no_grad():
        y = block(x)
        if not torch.equal(y, block(x)):
            return "drops in eval mode"
        other = x.clone()
        other[:, 0] += 1.0
        if (block(other) - y)[:, 1:].abs().max() > 1e-4:
            return "tokens mix"
        bend = block(x) + block(-x) - 2 * block(0 * x)
        if bend.abs().max() < 1e-4:
            return "no GELU"
        zeros = (block.train()(x) == 0).sum()
        if zeros == 0:
            return "no second dropout"
    return "right"


# exercise: gelu
def my_gelu(x: Tensor) -> Tensor:
    inside = x / math.sqrt(2)
    phi = 0.5 * (1 + torch.erf(inside))  # Φ(x), the share of a bell curve that lies below x
    return x * phi


# exercise: merge
def my_merge(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
    W = W_2 @ W_1
    b = W_2 @ b_1 + b_2
    return W, b


# exercise: mlp_block
class MyMLPBlock(nn.ModuleDict):
    def __init__(self, in_dim: int, mlp_dim: int, dropout: float = 0.0) -> None:
        widen, narrow = nn.Linear(in_dim, mlp_dim), nn.Linear(mlp_dim, in_dim)
        super().__init__({"0": widen, "3": narrow})
        for linear in (widen, narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.normal_(linear.bias, std=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self["0"](x)
        x = F.gelu(x)
        x = self.dropout(x)
        x = self["3"](x)
        return self.dropout(x)


# exercise: xavier
def my_xavier(linear: nn.Linear) -> None:
    fan_in = linear.in_features
    fan_out = linear.out_features
    bound = math.sqrt(6 / (fan_in + fan_out))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)
