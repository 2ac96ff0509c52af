"""Notebook 03's checks: right answers in other styles pass, mistakes that no mutant knows fail without a name."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
from mnist_vit.model import MultiHeadAttention


class Stub(nn.Module):
    """What the notebook's stub gives."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)


class Einsum(Stub):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.in_proj_weight.view(3, self.num_heads, self.head_dim, self.embed_dim)
        bias = self.in_proj_bias.view(3, 1, self.num_heads, 1, self.head_dim)
        q, k, v = torch.einsum("nsc,phdc->pnhsd", x, weight) + bias
        weights = torch.einsum("nhqd,nhkd->nhqk", q, k).div(self.head_dim**0.5).softmax(3)
        heads = torch.einsum("nhqk,nhkd->nhqd", weights, v)
        out = self.out_proj.weight.view(self.embed_dim, self.num_heads, self.head_dim)
        return torch.einsum("nhqd,chd->nqc", heads, out) + self.out_proj.bias


class ListOfHeads(Stub):
    def forward(self, tokens: Tensor) -> Tensor:
        found = []
        for i in range(self.num_heads):
            mine = [
                slice(p * self.embed_dim + i * self.head_dim, p * self.embed_dim + (i + 1) * self.head_dim)
                for p in range(3)
            ]
            q, k, v = (tokens @ self.in_proj_weight[rows].T + self.in_proj_bias[rows] for rows in mine)
            found.append(torch.softmax(q @ k.mT * self.head_dim**-0.5, dim=2) @ v)
        return self.out_proj(torch.cat(found, dim=-1))


class ScaledDotProduct(Stub):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            (x @ self.in_proj_weight.T + self.in_proj_bias)
            .unflatten(-1, (3, self.num_heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Baddbmm(Stub):
    """Tokens first and heads folded into the batch, as torch itself does it."""

    def forward(self, x: Tensor) -> Tensor:
        n, s, c = x.shape
        packed = F.linear(x.transpose(0, 1), self.in_proj_weight, self.in_proj_bias)
        q, k, v = (
            p.contiguous().view(s, n * self.num_heads, self.head_dim).transpose(0, 1) for p in packed.chunk(3, -1)
        )
        nothing = torch.zeros(n * self.num_heads, s, s)
        weights = torch.baddbmm(nothing, q / self.head_dim**0.5, k.transpose(1, 2)).softmax(-1)
        merged = torch.bmm(weights, v).transpose(0, 1).contiguous().view(s, n, c)
        return self.out_proj(merged).transpose(0, 1)


class SumOfHeads(Stub):
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


class Pair(Stub):
    """The weights come back too, as ``nn.MultiheadAttention`` does it."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.transpose(0, 1)
        projections = self.in_proj_weight, self.in_proj_bias, None, None, False, 0.0, self.out_proj.weight
        pair = F.multi_head_attention_forward(x, x, x, self.embed_dim, self.num_heads, *projections, self.out_proj.bias)
        return pair[0].transpose(0, 1), pair[1]


class Ours(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x, x, x, need_weights=False)[0]


def torchs(embed_dim: int, num_heads: int) -> nn.Module:
    """A function that makes the module."""

    class Torchs(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
            return super().forward(x, x, x)

    return Torchs(embed_dim, num_heads, batch_first=True)


def split_by_list(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_by_loop(tensor: Tensor, heads: int) -> Tensor:
    d = tensor.shape[2] // heads
    parts = [tensor[:, :, i * d : i * d + d].unsqueeze(1) for i in range(heads)]
    return torch.cat(parts, 1)


def split_by_unflatten(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(2, (num_heads, -1)).permute(0, 2, 1, 3).contiguous()


def split_by_einsum(x: Tensor, num_heads: int) -> Tensor:
    return torch.einsum("nshd->nhsd", x.view(*x.shape[:2], num_heads, -1))


def split_through_the_batch(x: Tensor, h: int) -> Tensor:
    n, s, c = x.shape
    return x.transpose(0, 1).reshape(s, n * h, c // h).transpose(0, 1).reshape(n, h, s, c // h)


def contribution_by_zeros(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    """All other heads set to zero, then the whole projection without its bias."""
    alone = torch.zeros_like(values)
    alone[:, head] = values[:, head]
    return F.linear((weights @ alone).transpose(1, 2).flatten(2), out_proj.weight)


def contribution_by_difference(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    """The layer with all heads, less the layer without this one; the bias goes away."""
    keep = torch.ones(values.shape[1]).view(1, -1, 1, 1)
    keep[:, head] = 0
    with_all, without = (out_proj((weights @ v).transpose(1, 2).flatten(2)) for v in (values, values * keep))
    return with_all - without


def contribution_by_einsum(a: Tensor, v: Tensor, linear: nn.Linear, h: int) -> Tensor:
    blocks = linear.weight.unflatten(1, (v.shape[1], -1))
    return torch.einsum("nqk,nkd,cd->nqc", a[:, h], v[:, h], blocks[:, h])


def contribution_values_first(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    projection = out_proj.weight.T.split(values.shape[-1])[head]
    return weights[:, head] @ (values[:, head] @ projection)


RIGHT = [
    ("split_heads", split_by_list),
    ("split_heads", split_by_loop),
    ("split_heads", split_by_unflatten),
    ("split_heads", split_by_einsum),
    ("split_heads", split_through_the_batch),
    ("multi_head_attention", Einsum),
    ("multi_head_attention", ListOfHeads),
    ("multi_head_attention", ScaledDotProduct),
    ("multi_head_attention", Baddbmm),
    ("multi_head_attention", SumOfHeads),
    ("multi_head_attention", Pair),
    ("multi_head_attention", Ours),
    ("multi_head_attention", torchs),
    ("head_contribution", contribution_by_zeros),
    ("head_contribution", contribution_by_difference),
    ("head_contribution", contribution_by_einsum),
    ("head_contribution", contribution_values_first),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=lambda value: getattr(value, "__name__", value))
def test_other_styles_pass(name: str, answer: Any) -> None:
    right, message = verdict(EXERCISES[name], answer)
    assert right, message


class ValuesAsKeys(Stub):
    """Scores of queries with values: a mistake that no mutant is."""

    def forward(self, x: Tensor) -> Tensor:
        q, _, v = (
            (x @ self.in_proj_weight.T + self.in_proj_bias)
            .unflatten(-1, (3, self.num_heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        return self.out_proj(F.scaled_dot_product_attention(q, v, v).transpose(1, 2).flatten(2))


class DetachedWeights(Stub):
    """Right values, and no gradient through the weights."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            (x @ self.in_proj_weight.T + self.in_proj_bias)
            .unflatten(-1, (3, self.num_heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        weights = (q @ k.mT / self.head_dim**0.5).softmax(-1).detach()
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


UNKNOWN = [
    ("split_heads", lambda x, num_heads: split_by_list(x.flip(-1), num_heads)),
    ("split_heads", lambda x, num_heads: split_by_list(x, num_heads).detach()),
    ("multi_head_attention", ValuesAsKeys),
    ("multi_head_attention", DetachedWeights),
    ("head_contribution", lambda a, v, linear, h: contribution_by_einsum(a.mT, v, linear, h)),
    ("head_contribution", lambda a, v, linear, h: contribution_by_einsum(a.detach(), v, linear, h)),
]


@pytest.mark.parametrize(("name", "answer"), UNKNOWN)
def test_unknown_mistakes_fail_without_a_name(name: str, answer: Any) -> None:
    right, message = verdict(EXERCISES[name], answer)
    assert not right
    assert "You get exactly this" not in message


class OneBigHead(Stub):
    """No split at all, the divisor as the stub's attribute has it."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        return self.out_proj((q @ k.mT / self.head_dim**0.5).softmax(-1) @ v)


class NoOutputBias(Stub):
    def forward(self, x: Tensor) -> Tensor:
        return SumOfHeads.forward(self, x) - self.out_proj.bias


NAMED = [
    ("multi_head_attention", OneBigHead, "use one head as wide as the token, and divide by √head_dim"),
    ("multi_head_attention", NoOutputBias, "leave out the bias of out_proj"),
    ("head_contribution", lambda a, v, linear, h: contribution_by_einsum(a, v, linear, 0), "always take head 0"),
    (
        "head_contribution",
        lambda a, v, linear, h: contribution_by_einsum(a, v, linear, h - 1),
        "count the heads from 1",
    ),
]


@pytest.mark.parametrize(("name", "answer", "words"), NAMED)
def test_likely_mistakes_are_named_in_any_style(name: str, answer: Any, words: str) -> None:
    right, message = verdict(EXERCISES[name], answer)
    assert not right
    assert f"You get exactly this when you {words}" in message


def test_an_object_in_place_of_the_class_is_told_so() -> None:
    right, message = verdict(EXERCISES["multi_head_attention"], Einsum(12, 3))
    assert not right
    assert "the class itself" in message
