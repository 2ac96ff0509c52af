"""Exercises of notebook 03: splitting into heads, multi-head attention, and what one head adds."""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .core import Exercise, Mistake, Mutant, copy_weights, gradients, make, parameter_gradients, random, randomise

# --- split_heads -----------------------------------------------------------------------------------------------


def _split_heads(x: Tensor, num_heads: int) -> Tensor:
    n, seq_length, hidden_dim = x.shape
    return x.reshape(n, seq_length, num_heads, hidden_dim // num_heads).transpose(1, 2)


def _run_split_heads(answer: Any) -> Iterator[tuple[str, Any]]:
    x = random(2, 5, 12, seed=3).requires_grad_()
    out = answer(x, 3)
    yield "output", out
    yield from gradients(out, x=x)
    yield "output at another size", answer(random(1, 7, 8, seed=4), 2)


def _view_split(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(x.shape[0], num_heads, x.shape[1], -1)


def _no_transpose(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], num_heads, -1)


def _dealt_split(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], -1, num_heads).permute(0, 3, 1, 2)


def _early_transpose(x: Tensor, num_heads: int) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], num_heads, x.shape[1], -1)


def _same_part(x: Tensor, num_heads: int) -> Tensor:
    return _split_heads(x, num_heads)[:, :1].expand(-1, num_heads, -1, -1)


SPLIT_HEADS = Exercise(
    name="split_heads",
    answer="split_heads",
    stars=1,
    reference=_split_heads,
    run=_run_split_heads,
    mutants=(
        Mutant(
            _view_split,
            "go to (n, num_heads, seq_length, head_dim) in one `view` or `reshape`: a head then gets all numbers of a "
            "few tokens. Cut the last dimension first, then swap two dimensions with `transpose`",
        ),
        Mutant(
            _no_transpose,
            "cut the last dimension and stop there: the heads must come before the tokens, so swap dimensions 1 and 2",
        ),
        Mutant(
            _dealt_split,
            "deal the numbers out one by one, every num_heads-th to the same head: a head owns head_dim numbers that "
            "stand side by side, so cut into (num_heads, head_dim), not (head_dim, num_heads)",
        ),
        Mutant(
            _early_transpose,
            "swap tokens and numbers before the cut: cut the last dimension first, then swap dimensions 1 and 2",
        ),
        Mutant(
            _same_part, "give every head the first head_dim numbers: head h owns h * head_dim to (h + 1) * head_dim"
        ),
    ),
    hints=(
        "Which numbers of a token belong to head 0? Cut the last dimension in two, so that an index can say it.",
        "Two steps: `reshape` to (n, seq_length, num_heads, head_dim), then let heads and tokens change places.",
        "x.reshape(n, seq_length, num_heads, hidden_dim // num_heads).transpose(1, 2)",
    ),
)

# --- multi_head_attention --------------------------------------------------------------------------------------


class _Attention(nn.Module):
    """The reference, in pieces, so that each mutant is the one piece it gets wrong."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        return F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)

    def split(self, x: Tensor) -> Tensor:
        return _split_heads(x, self.num_heads)

    def divisor(self) -> float:
        return self.head_dim**0.5

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def project_out(self, x: Tensor) -> Tensor:
        return self.out_proj(x)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(part) for part in self.project(x))
        weights = self.weigh(q @ k.transpose(-2, -1) / self.divisor())
        return self.project_out(self.merge(weights @ v))


def _mutant(does: str, **pieces: Callable[..., Any]) -> Mutant:
    return Mutant(type("_Mutant", (_Attention,), pieces), does)


def _orders() -> Iterator[Mutant]:
    """The five wrong orders in which the three parts of in_proj_weight can be taken."""
    for order in permutations(range(3)):
        if order != (0, 1, 2):
            names = ", ".join("qkv"[order.index(i)] for i in range(3))
            yield _mutant(
                f"take the three parts of in_proj_weight as {names}: the rows of W_q come first, then W_k, then W_v",
                project=lambda self, x, order=order: [_Attention.project(self, x)[i] for i in order],
            )


def _per_head_packing(self: _Attention, x: Tensor) -> list[Tensor]:
    packed = F.linear(x, self.in_proj_weight, self.in_proj_bias)
    packed = packed.reshape(*x.shape[:2], self.num_heads, 3, self.head_dim)
    return [packed[:, :, :, i].flatten(2) for i in range(3)]


def _run_multi_head_attention(answer: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(answer, nn.Module):
        raise Mistake(
            "give the class itself, without making an object of it: the check makes its own, of its own size."
        )
    module = make(answer, 12, 3)
    copy_weights(randomise(_Attention(12, 3), seed=3), module)
    x = random(2, 5, 12, seed=4).requires_grad_()
    out = _output(module(x))
    yield "output", out
    yield from gradients(out, x=x)
    yield from parameter_gradients(out, module)

    module = make(answer, 8, 2)
    copy_weights(randomise(_Attention(8, 2), seed=5), module)
    yield "output at another size", _output(module(random(1, 7, 8, seed=6)))


def _output(found: Any) -> Any:
    """The output of a layer that may also give its weights, as ``nn.MultiheadAttention`` does."""
    return found[0] if isinstance(found, tuple) and found else found


MULTI_HEAD_ATTENTION = Exercise(
    name="multi_head_attention",
    answer="MyMultiHeadAttention",
    stars=3,
    reference=_Attention,
    run=_run_multi_head_attention,
    mutants=(
        _mutant(
            "divide by √hidden_dim instead of √head_dim: a score is a sum of head_dim products, since each head has "
            "only head_dim numbers of a token",
            divisor=lambda self: self.embed_dim**0.5,
        ),
        _mutant(
            "do not divide the scores at all: divide them by √head_dim before the softmax", divisor=lambda self: 1.0
        ),
        _mutant(
            "divide by head_dim instead of its square root",
            divisor=lambda self: float(self.head_dim),
        ),
        _mutant(
            "use `view` or `reshape` in place of `transpose` when you split into heads: cut the last dimension first, "
            "then swap dimensions 1 and 2",
            split=lambda self, x: _view_split(x, self.num_heads),
        ),
        _mutant(
            "use `view` or `reshape` in place of `transpose` when you merge the heads: swap heads and tokens back "
            "before the reshape",
            merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1),
        ),
        _mutant(
            "take the softmax over the queries (dim=-2): each row, one query, must sum to 1 over its keys, so dim=-1",
            weigh=lambda self, scores: scores.softmax(dim=-2),
        ),
        _mutant(
            "take the softmax over the heads (dim=1): the heads know nothing of each other, so dim=-1, over the keys",
            weigh=lambda self, scores: scores.softmax(dim=1),
        ),
        _mutant(
            "use the scores as weights, without a softmax over the keys",
            weigh=lambda self, scores: scores,
        ),
        *_orders(),
        _mutant(
            "cut the rows of in_proj_weight by head first and by q, k, v second: it holds W_q of all heads, then W_k "
            "of all heads, then W_v of all heads",
            project=_per_head_packing,
        ),
        _mutant(
            "leave out in_proj_bias",
            project=lambda self, x: F.linear(x, self.in_proj_weight).chunk(3, dim=-1),
        ),
        _mutant(
            "leave out out_proj at the end: without it no head's numbers ever meet another's",
            project_out=lambda self, x: x,
        ),
        _mutant(
            "leave out the bias of out_proj: call `self.out_proj(x)`, which multiplies and adds it",
            project_out=lambda self, x: F.linear(x, self.out_proj.weight),
        ),
        _mutant(
            "multiply by out_proj.weight without transposing it: call `self.out_proj(x)`",
            project_out=lambda self, x: x @ self.out_proj.weight + self.out_proj.bias,
        ),
        _mutant(
            "use one head as wide as the token: split into num_heads heads first",
            split=lambda self, x: x[:, None],
            divisor=lambda self: self.embed_dim**0.5,
        ),
        _mutant(
            "use one head as wide as the token, and divide by √head_dim: split into num_heads heads first",
            split=lambda self, x: x[:, None],
        ),
    ),
    hints=(
        "Four steps: one linear map makes q, k and v; split each into heads; notebook 02's attention in every head at "
        "once; merge the heads and project.",
        "`F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)` gives q, k and v. After the split they "
        "are (n, num_heads, seq_length, head_dim), and `@` works on the last two dimensions for every head. Merging is "
        "splitting backwards.",
        "weights = (q @ k.transpose(-2, -1) / self.head_dim**0.5).softmax(dim=-1); "
        "x = (weights @ v).transpose(1, 2).reshape(n, seq_length, self.embed_dim); return self.out_proj(x)",
    ),
    tolerance=1e-5,
)

# --- head_contribution -----------------------------------------------------------------------------------------


def _columns(values: Tensor, head: int) -> slice:
    head_dim = values.shape[-1]
    return slice(head * head_dim, (head + 1) * head_dim)


def _head_contribution(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return weights[:, head] @ values[:, head] @ out_proj.weight[:, _columns(values, head)].T


def _layer_output(weights: Tensor, values: Tensor, out_proj: nn.Linear) -> Tensor:
    return out_proj((weights @ values).transpose(1, 2).flatten(2))


def _run_head_contribution(answer: Any) -> Iterator[tuple[str, Any]]:
    # Head 2 of 4: neither the first, nor the last, nor the one beside the first.
    for head, num_heads, what in ((2, 4, "contribution"), (0, 2, "contribution at another size")):
        weights = random(2, num_heads, 5, 5, seed=5).softmax(dim=-1).requires_grad_()
        values = random(2, num_heads, 5, 3, seed=6).requires_grad_()
        out_proj = randomise(nn.Linear(3 * num_heads, 3 * num_heads), seed=7)
        out = answer(weights, values, out_proj, head)
        yield what, out
        if num_heads == 4:
            yield from gradients(out, weights=weights, values=values, projection=out_proj.weight)


def _rows(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return weights[:, head] @ values[:, head] @ out_proj.weight[_columns(values, head)]


def _with_bias(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return _head_contribution(weights, values, out_proj, head) + out_proj.bias


def _bias_share(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return _head_contribution(weights, values, out_proj, head) + out_proj.bias / weights.shape[1]


def _slice_of_output(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return _layer_output(weights, values, out_proj)[..., _columns(values, head)]


def _masked_output(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    out = _layer_output(weights, values, out_proj)
    mask = torch.zeros(out.shape[-1])
    mask[_columns(values, head)] = 1
    return out * mask


def _equal_share(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return _layer_output(weights, values, out_proj) / weights.shape[1]


def _counted_from_one(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return _head_contribution(weights, values, out_proj, head - 1 if head else weights.shape[1] - 1)


def _always_first(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return _head_contribution(weights, values, out_proj, 0)


def _first_columns(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return weights[:, head] @ values[:, head] @ out_proj.weight[:, : values.shape[-1]].T


def _unprojected(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    return weights[:, head] @ values[:, head]


HEAD_CONTRIBUTION = Exercise(
    name="head_contribution",
    answer="head_contribution",
    stars=2,
    reference=_head_contribution,
    run=_run_head_contribution,
    mutants=(
        Mutant(
            _slice_of_output,
            "cut a slice out of the layer output: after the output projection every number is a mixture of all heads. "
            "Project this head's output alone",
        ),
        Mutant(
            _masked_output,
            "keep a slice of the layer output and set the rest to zero: after the output projection every number is a "
            "mixture of all heads. Project this head's output alone",
        ),
        Mutant(
            _rows,
            "take rows of out_proj.weight in place of columns: a linear layer computes x Wᵀ, so its columns belong to "
            "the numbers that come in",
        ),
        Mutant(
            _with_bias,
            "add the bias too: it is added once for the whole layer and belongs to no head",
        ),
        Mutant(
            _bias_share,
            "give each head a share of the bias: it belongs to no head",
        ),
        Mutant(
            _equal_share,
            "divide the layer output by the number of heads: heads do not add equal shares",
        ),
        Mutant(_counted_from_one, "count the heads from 1: head 0 is the first"),
        Mutant(_always_first, "always take head 0: take the head whose number is given, `head`"),
        Mutant(
            _first_columns,
            "use the first head_dim columns of the projection for every head: head h owns the columns from h * "
            "head_dim on",
        ),
        Mutant(
            _unprojected,
            "stop at the head output: it must still go through this head's columns of the output projection",
        ),
    ),
    hints=(
        "Write the output projection as a sum: the merged tensor is the heads side by side, so the matrix can be cut "
        "into one block of columns for each head.",
        "The head output is weights[:, head] @ values[:, head], (n, seq_length, head_dim). Its block is "
        "out_proj.weight[:, head * head_dim : (head + 1) * head_dim], (hidden_dim, head_dim). Leave out the bias.",
        "head_dim = values.shape[-1]; columns = out_proj.weight[:, head * head_dim : (head + 1) * head_dim]; "
        "return weights[:, head] @ values[:, head] @ columns.T",
    ),
)

EXERCISES: tuple[Exercise, ...] = (SPLIT_HEADS, MULTI_HEAD_ATTENTION, HEAD_CONTRIBUTION)
