"""Solutions of notebook 01: the MLP block, GELU, the parameter count, the start values."""

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# exercise: mlp_block
class MyMLPBlock(nn.ModuleDict):
    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__({"0": nn.Linear(in_dim, mlp_dim), "3": nn.Linear(mlp_dim, in_dim)})
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(F.gelu(self["0"](x)))
        return self.dropout(self["3"](x))


# exercise: gelu
def my_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


# exercise: mlp_parameters
def my_count(in_channels: int, hidden_channels: list[int]) -> int:
    return sum(a * b + b for a, b in pairwise([in_channels, *hidden_channels]))


# exercise: xavier
def my_start(linear: nn.Linear) -> None:
    bound = math.sqrt(6 / (linear.in_features + linear.out_features))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)
