"""Solutions of notebook 01, made from the sources of its checks by notebooks/refresh.py."""

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# exercise: gelu
def my_gelu(x: Tensor) -> Tensor:
    inside = x / math.sqrt(2)
    phi = 0.5 * (1 + torch.erf(inside))  # Φ(x), the share of a bell curve that lies below x
    return x * phi


# exercise: mlp_block
class MyMLPBlock(nn.ModuleDict):
    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__({"0": nn.Linear(in_dim, mlp_dim), "3": nn.Linear(mlp_dim, in_dim)})
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self["0"](x)
        x = F.gelu(x)
        x = self.dropout(x)
        x = self["3"](x)
        return self.dropout(x)


# exercise: mlp_parameters
def my_mlp_parameters(in_channels: int, hidden_channels: list[int]) -> int:
    widths = [in_channels, *hidden_channels]
    total = 0
    for a, b in pairwise(widths):  # a layer from a to b numbers
        weights = a * b
        biases = b
        total += weights + biases
    return total


# exercise: xavier
def my_xavier(linear: nn.Linear) -> None:
    fan_in = linear.in_features
    fan_out = linear.out_features
    bound = math.sqrt(6 / (fan_in + fan_out))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)
