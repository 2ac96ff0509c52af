"""Notebook 02: right answers in other styles pass, mistakes that no slip tells fail without a wrong name."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn


def attention_einsum(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.einsum("nqd,nkd->nqk", q, k).div(q.size(2) ** 0.5).softmax(2)
    return torch.einsum("nqk,nkd->nqd", weights, v), weights


def attention_torch(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    identity = torch.eye(k.shape[1]).expand(len(k), -1, -1)  # the mean of the rows of the identity is the weights
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


class AttentionModule(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.cdist(q, k).square() / -2 + k.square().sum(-1).unsqueeze(1) / 2  # q kᵀ, but for a row constant
        weights = torch.exp(torch.log_softmax(logits / q.shape[-1] ** 0.5, -1))
        return weights.matmul(v), weights


class HeadTorch(nn.Module):
    """The layers made in another order, and torch's own attention."""

    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_v, self.w_k, self.w_q = (nn.Linear(hidden_dim, head_dim) for _ in range(3))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return attention_torch(self.w_q(tokens), self.w_k(tokens), self.w_v(tokens))


def plain(dim: int | tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Softmax of the formula, with nothing subtracted."""
    return lambda s: s.exp() / s.exp().sum(dim, keepdim=True)


RIGHT: list[tuple[str, Any]] = [
    ("attention", attention_einsum),
    ("attention", attention_torch),
    ("attention", AttentionModule()),
    ("attention", AttentionModule),
    ("head", HeadTorch),
    ("head", lambda width, d: HeadTorch(width, d)),
    ("head", HeadTorch(6, 4)),
    ("softmax_rows", nn.Softmax(dim=-1)),
    ("softmax_rows", lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()),
    ("softmax_rows", lambda s: 1 / torch.exp(s.unsqueeze(-2) - s.unsqueeze(-1)).sum(-1)),
    ("entropy", lambda w: -(w * (w + 1e-8).log()).sum(2)),
    ("entropy", lambda w: torch.distributions.Categorical(probs=w).entropy()),
]
WRONG: list[tuple[str, Any, str]] = [
    ("attention", lambda q, k, v: attention_einsum(q.tanh(), k, v), "right shape, wrong numbers"),
    ("attention", F.scaled_dot_product_attention, "return output, weights"),
    ("softmax_rows", lambda s: (2 * s).softmax(-1), "right shape, wrong numbers"),
    ("softmax_rows", lambda s: plain(-1)(s).nan_to_num(1.0), "scores near 1000"),
    ("entropy", lambda w: (w * (1 - w)).sum(-1), "right shape, wrong numbers"),
]
NAMED: list[tuple[str, Any, str]] = [  # with and without care for large scores and zeros
    ("softmax_rows", plain(-2), "sum over the wrong axis"),
    ("softmax_rows", lambda s: s.flatten(1).softmax(1).view_as(s), "sum over the whole matrix"),
    ("softmax_rows", lambda s: s.softmax(2), "sum over axis 2"),
    ("softmax_rows", plain(2), "sum over axis 2"),
    ("entropy", lambda w: (w * w.log()).sum(-1), "leave out the minus sign"),
    ("entropy", lambda w: -w.clamp_min(1e-6).log().sum(-1), "sum the logarithms alone"),
]
test_answers = judged(RIGHT, WRONG, NAMED)
