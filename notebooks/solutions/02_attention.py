"""Solutions of notebook 02, made from the sources of its checks by notebooks/refresh.py."""

import math

import torch
from torch import Tensor, nn


# exercise: attention
def my_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """(n, queries, d), (n, keys, d), (n, keys, d_v) -> output, weights.

    The output is (n, queries, d_v), the weights are (n, queries, keys).
    """
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


# exercise: entropy
def my_entropy(weights: Tensor) -> Tensor:
    """(n, queries, keys), rows sum to 1 -> (n, queries), natural logarithm."""
    # where a weight is 0, the logarithm is any finite number: it is multiplied by 0
    logarithms = weights.clamp_min(1e-9).log()
    terms = weights * logarithms
    return -terms.sum(dim=-1)


# exercise: head
class MyHead(nn.Module):
    """(n, seq_length, hidden_dim) -> output, weights.

    The output is (n, seq_length, head_dim), the weights are (n, seq_length, seq_length).
    """

    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(hidden_dim, head_dim)
        self.w_k = nn.Linear(hidden_dim, head_dim)
        self.w_v = nn.Linear(hidden_dim, head_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = self.w_q(x)
        k = self.w_k(x)
        v = self.w_v(x)
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        output = weights @ v
        return output, weights


# exercise: softmax_rows
def my_softmax_rows(scores: Tensor) -> Tensor:
    """(..., queries, keys) -> the same shape, rows sum to 1; scores of 1000 are no trouble."""
    largest = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - largest)  # the largest exponent of a row is 0
    total = e.sum(dim=-1, keepdim=True)
    return e / total
