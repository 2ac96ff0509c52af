"""The checks of notebook 02 accept right answers in other styles, and catch mistakes that no mutant knows."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict


def attention_einsum(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.einsum("nqd,nkd->nqk", q, k).div(q.size(2) ** 0.5).softmax(2)
    return torch.einsum("nqk,nkd->nqd", weights, v), weights


def attention_bmm(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    scaled = query * query.shape[-1] ** -0.5  # divided before the product
    a = F.softmax(torch.bmm(scaled, key.permute(0, 2, 1)), dim=2)
    return [torch.bmm(a, value), a]


def attention_fourth_root(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    root = q.shape[-1] ** 0.25
    weights = torch.softmax((q / root) @ (k / root).mT, -1)
    return weights @ v, weights


def attention_loops(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    outputs, rows = [], []
    for i in range(q.shape[0]):
        for j in range(q.shape[1]):
            e = torch.stack([((q[i, j] * key).sum() / math.sqrt(q.shape[2])).exp() for key in k[i]])
            rows.append(e / e.sum())
            outputs.append(sum(a * value for a, value in zip(rows[-1], v[i], strict=True)))
    return (
        torch.stack(outputs).view(q.shape[0], q.shape[1], v.shape[2]),
        torch.stack(rows).view(q.shape[0], q.shape[1], k.shape[1]),
    )


def attention_from_columns(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    columns = (k @ q.transpose(1, 2) / math.sqrt(k.shape[2])).softmax(dim=1)  # keys are rows here
    return columns.transpose(1, 2) @ v, columns.transpose(1, 2)


def attention_torch(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    identity = torch.eye(k.shape[1]).expand(len(k), -1, -1)  # the mean of the rows of the identity is the weights
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


class AttentionModule(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.cdist(q, k).square() / -2 + k.square().sum(-1).unsqueeze(1) / 2  # q kᵀ, but for a row constant
        weights = torch.exp(torch.log_softmax(logits / q.shape[-1] ** 0.5, -1))
        return weights.matmul(v), weights


class HeadBase(nn.Module):
    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(hidden_dim, head_dim)
        self.w_k = nn.Linear(hidden_dim, head_dim)
        self.w_v = nn.Linear(hidden_dim, head_dim)


class HeadTorch(HeadBase):
    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return attention_torch(self.w_q(tokens), self.w_k(tokens), self.w_v(tokens))


class HeadOtherOrder(nn.Module):
    """The layers made in another order, and the products written out."""

    def __init__(self, width: int, d: int) -> None:
        super().__init__()
        self.w_v, self.w_k, self.w_q = (nn.Linear(width, d) for _ in range(3))
        self.d = d

    def forward(self, inp: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (inp @ w.weight.T + w.bias for w in (self.w_q, self.w_k, self.w_v))
        a = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(self.d)
        a = a.softmax(-1)
        return torch.einsum("bij,bjd->bid", a, v), a


class HeadPacked(HeadBase):
    """One product for queries, keys and values; the values weighted before their linear layer."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = torch.cat([self.w_q.weight, self.w_k.weight])
        q, k = F.linear(x, weight, torch.cat([self.w_q.bias, self.w_k.bias])).chunk(2, dim=-1)
        weights = F.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        return self.w_v(weights @ x), weights  # rows sum to 1, so the bias comes through as it is


def make_head(hidden_dim: int, head_dim: int) -> nn.Module:
    return HeadTorch(hidden_dim, head_dim)


def softmax_loops(scores: Tensor) -> Tensor:
    rows = []
    for row in scores.reshape(-1, scores.shape[-1]):
        e = torch.exp(row - max(row.tolist()))
        rows.append(e / e.sum())
    return torch.stack(rows).view(scores.shape)


def entropy_where(weights: Tensor) -> Tensor:
    safe = torch.where(weights > 0, weights, torch.ones_like(weights))
    return -torch.einsum("...k,...k->...", weights, safe.log())


def entropy_loops(weights: Tensor) -> Tensor:
    n, queries, _ = weights.shape
    rows = [[sum(-a * math.log(a) for a in row if a > 0) for row in image] for image in weights.tolist()]
    return torch.tensor(rows).view(n, queries)


RIGHT: dict[str, list[Any]] = {
    "attention": [
        attention_einsum,
        attention_bmm,
        attention_fourth_root,
        attention_loops,
        attention_from_columns,
        attention_torch,
        AttentionModule(),
        AttentionModule,
    ],
    "head_forward": [HeadTorch, HeadOtherOrder, HeadPacked, make_head, HeadOtherOrder(6, 4)],
    "softmax_rows": [
        softmax_loops,
        nn.Softmax(dim=-1),
        lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(),
        lambda s: 1 / torch.exp(s.unsqueeze(-2) - s.unsqueeze(-1)).sum(-1),
        lambda s: s.transpose(-1, -2).softmax(-2).transpose(-1, -2),
    ],
    "entropy": [
        entropy_where,
        entropy_loops,
        lambda w: -(w * (w + 1e-8).log()).sum(2),
        lambda w: -torch.xlogy(w, w).sum(-1),
        lambda w: -(w * w.log()).nan_to_num(0.0).sum(-1),
        lambda w: torch.distributions.Categorical(probs=w).entropy(),
    ],
}


class HeadReluValues(HeadBase):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return attention_einsum(self.w_q(x), self.w_k(x), self.w_v(x).relu())


UNKNOWN: dict[str, Any] = {
    "attention": lambda q, k, v: attention_einsum(q.tanh(), k, v),
    "head_forward": HeadReluValues,
    "softmax_rows": lambda s: (2 * s).softmax(-1),
    "entropy": lambda w: (w * (1 - w)).sum(-1),
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_right_answers_in_other_styles_pass(name: str, answer: Any) -> None:
    passed, told = verdict(EXERCISES[name], answer)
    assert passed, told


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_mistakes_fail_and_get_no_name(name: str) -> None:
    passed, told = verdict(EXERCISES[name], UNKNOWN[name])
    assert not passed
    assert "right shape, wrong numbers" in told
    assert "You get exactly this" not in told


def test_an_output_without_its_weights_is_told_in_a_sentence() -> None:
    passed, told = verdict(EXERCISES["attention"], F.scaled_dot_product_attention)
    assert not passed
    assert "return output, weights" in told


def test_softmax_that_cuts_nan_off_is_not_right() -> None:
    passed, told = verdict(EXERCISES["softmax_rows"], lambda s: (s.exp() / s.exp().sum(-1, True)).nan_to_num(1.0))
    assert not passed
    assert "scores near 1000" in told


@pytest.mark.parametrize("what", ["mean", "minimum"])
def test_softmax_needs_the_maximum_of_each_row(what: str) -> None:
    def softmax(scores: Tensor) -> Tensor:
        shift = scores.mean(-1, True) if what == "mean" else scores.min(-1, True).values
        e = (scores - shift).exp()
        return e / e.sum(-1, True)

    assert softmax(torch.tensor([0.0, 1000.0])).isnan().any()
    passed, told = verdict(EXERCISES["softmax_rows"], softmax)
    assert not passed
    assert f"You get exactly this when you subtract each row's {what}" in told


def test_nan_is_told_kindly() -> None:
    for name, answer in (
        ("softmax_rows", lambda s: s.exp() / s.exp().sum(-1, True)),
        ("entropy", lambda w: -(w * w.log()).sum(-1)),
    ):
        told = verdict(EXERCISES[name], answer)[1]
        assert "numbers are nan or infinite" in told
        assert "'nan'" not in told
