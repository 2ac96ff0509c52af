"""Notebook 03's checks: right answers in other styles pass, and mistakes that no slip knows fail."""

from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn

from mnist_vit.course.nb03_multi_head_attention.multi_head_attention import MyMultiHeadAttention


class SumOfHeads(MyMultiHeadAttention):
    """No merge at all: each head through its own columns of the projection; keys scaled in place of queries."""

    def forward(self, x: Tensor) -> Tensor:
        w_v, w_k, w_q = reversed(self.in_proj_weight.chunk(3))
        b_q, b_k, b_v = self.in_proj_bias.split(self.embed_dim)
        total = self.out_proj.bias
        for q, k, v, columns in zip(
            *(F.linear(x, w, b).split(self.head_dim, -1) for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v))),
            self.out_proj.weight.split(self.head_dim, 1),
            strict=True,
        ):
            scores = q @ (k / self.head_dim**0.5).transpose(1, 2)
            weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
            total = total + F.linear(weights @ v, columns)
        return total


def torchs(embed_dim: int, num_heads: int) -> nn.Module:
    """A function that makes the module."""

    class Torchs(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
            return super().forward(x, x, x)

    return Torchs(embed_dim, num_heads, batch_first=True)


def split_by_list(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def contribution_by_einsum(a: Tensor, v: Tensor, linear: nn.Linear, h: int) -> Tensor:
    blocks = linear.weight.unflatten(1, (v.shape[1], -1))
    return torch.einsum("nqk,nkd,cd->nqc", a[:, h], v[:, h], blocks[:, h])


class OneBigHead(MyMultiHeadAttention):
    """No split at all, the divisor as the stub's attribute has it."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        return self.out_proj((q @ k.mT / self.head_dim**0.5).softmax(-1) @ v)


RIGHT: list[tuple[str, Any]] = [
    ("split_heads", split_by_list),
    ("multi_head_attention", SumOfHeads),
    ("multi_head_attention", torchs),
    ("head_contribution", contribution_by_einsum),
]
WRONG: list[tuple[str, Any, str]] = [
    ("split_heads", lambda x, num_heads: split_by_list(x.flip(-1), num_heads), ""),
    ("split_heads", lambda x, num_heads: split_by_list(x, num_heads).detach(), "gradient"),
    ("head_contribution", lambda a, v, linear, h: contribution_by_einsum(a.mT, v, linear, h), ""),
    ("head_contribution", lambda a, v, linear, h: contribution_by_einsum(a.detach(), v, linear, h), "gradient"),
]
NAMED: list[tuple[str, Any, str]] = [
    ("multi_head_attention", OneBigHead, "use one head as wide as the token, and divide by √head_dim"),
    ("head_contribution", lambda a, v, out, h: contribution_by_einsum(a, v, out, h - 1), "count the heads from 1"),
]
test_answers = judged(RIGHT, WRONG, NAMED)
