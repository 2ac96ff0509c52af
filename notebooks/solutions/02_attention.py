"""Solutions of notebook 02, made from the sources of its checks by `python -m tools solutions`."""

import math

import torch
from torch import Tensor, nn


# exercise: attention
def my_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """(…, queries, d), (…, keys, d), (…, keys, d_v) -> output, weights.

    The output is (…, queries, d_v), the weights are (…, queries, keys).
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


# exercise: find_bug
def my_find_bug(head: nn.Module, x: Tensor) -> str:
    """The name of the bug of a head; x are tokens, (n, seq_length, hidden_dim)."""
    output, weights = head(x)
    q, k = head.w_q(x), head.w_k(x)
    scores = q @ k.transpose(-2, -1)
    twice = q @ q.transpose(-2, -1)
    root = math.sqrt(q.shape[-1])
    if torch.allclose(weights, scores.softmax(dim=-1), atol=1e-5):
        return "no root"
    if torch.allclose(weights, (scores / root).softmax(dim=-2), atol=1e-5):
        return "softmax over queries"
    if torch.allclose(weights, (twice / root).softmax(dim=-1), atol=1e-5):
        return "w_q twice"
    if torch.allclose(output, weights @ k, atol=1e-5):
        return "keys gathered"
    return "no bug"


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
        return my_attention(q, k, v)


# exercise: look_left
def my_look_left(side: int) -> tuple[Tensor, Tensor]:
    """W_Q and W_K, both (side², side²), for a picture of side x side patches."""
    patches = side * side
    w_q = 100 * torch.eye(patches)  # patch i asks for place i
    w_k = torch.eye(patches).roll(1, dims=1)  # patch i is found by place i + 1
    return w_q, w_k


# exercise: softmax_rows
def my_softmax_rows(scores: Tensor) -> Tensor:
    """(…, queries, keys) -> the same shape, rows sum to 1; scores may be large."""
    largest = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - largest)  # the largest exponent of a row is 0
    total = e.sum(dim=-1, keepdim=True)
    return e / total
