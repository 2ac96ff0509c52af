"""Exercise: multi-head attention, section 3.2.2 of Vaswani et al. 2017."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checking import Exercise, Mistake, copy_weights, gradients, make, parameter_gradients, random, randomise


class MyMultiHeadAttention(nn.Module):
    """Multi-head self-attention: (n, seq_length, embed_dim) -> (n, seq_length, embed_dim)."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        # The rows of W_q, then W_k, then W_v.
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, x: Tensor) -> Tensor:
        n, seq_length, _ = x.shape
        packed = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        parts = packed.chunk(3, dim=-1)
        # 3 times (n, seq_length, embed_dim) -> (n, num_heads, seq_length, head_dim)
        q, k, v = (part.reshape(n, seq_length, self.num_heads, self.head_dim).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.head_dim**0.5
        weights = scores.softmax(dim=-1)
        x = weights @ v
        # Splitting backwards: heads and tokens change places again, then the heads stand side by side in each token.
        x = x.transpose(1, 2).reshape(n, seq_length, self.embed_dim)
        return self.out_proj(x)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(answer, nn.Module):
        raise Mistake(
            "give the class itself, without making an object of it: the check makes its own, of its own size."
        )
    module = make(answer, 12, 3)
    copy_weights(randomise(MyMultiHeadAttention(12, 3), seed=3), module)
    x = random(2, 5, 12, seed=4).requires_grad_()
    out = _output(module(x))
    yield "output", out
    yield from gradients(out, x=x)
    yield from parameter_gradients(out, module)

    module = make(answer, 8, 2)
    copy_weights(randomise(MyMultiHeadAttention(8, 2), seed=5), module)
    yield "output at another size", _output(module(random(1, 7, 8, seed=6)))


def _output(found: Any) -> Any:
    """The output of a layer that may also give its weights, as ``nn.MultiheadAttention`` does."""
    return found[0] if isinstance(found, tuple) and found else found


PACK, PARTS = "packed = F.linear(x, self.in_proj_weight, self.in_proj_bias)", "packed.chunk(3, dim=-1)"
SPLIT = "part.reshape(n, seq_length, self.num_heads, self.head_dim).transpose(1, 2)"
SCORES, SCALE, SOFTMAX = "scores = q @ k.transpose(-2, -1)", "scores / self.head_dim**0.5", "scores.softmax(dim=-1)"
MERGE, END = "x.transpose(1, 2).reshape(n, seq_length, self.embed_dim)", "return self.out_proj(x)"
WRONG_ORDERS = ("q, v, k", "k, q, v", "v, q, k", "k, v, q", "v, k, q")

SLIPS = (
    ({SCALE: "scores / self.embed_dim**0.5"},
     "divide by √hidden_dim instead of √head_dim: a score is a sum of head_dim products, since each head has only "
     "head_dim numbers of a token"),
    ({SCALE: "scores"}, "do not divide the scores at all: divide them by √head_dim before the softmax"),
    ({SCALE: "scores / self.head_dim"}, "divide by head_dim instead of its square root"),
    ({SPLIT: "part.reshape(n, self.num_heads, seq_length, self.head_dim)"},
     "use `view` or `reshape` in place of `transpose` when you split into heads: cut the last dimension first, then "
     "swap dimensions 1 and 2"),
    ({MERGE: "x.reshape(n, seq_length, self.embed_dim)"},
     "use `view` or `reshape` in place of `transpose` when you merge the heads: swap heads and tokens back before "
     "the reshape"),
    ({SOFTMAX: "scores.softmax(dim=-2)"},
     "take the softmax over the queries (dim=-2): each row, one query, must sum to 1 over its keys, so dim=-1"),
    ({SOFTMAX: "scores.softmax(dim=1)"},
     "take the softmax over the heads (dim=1): the heads know nothing of each other, so dim=-1, over the keys"),
    ({SOFTMAX: "scores"}, "use the scores as weights, without a softmax over the keys"),
    *(({"q, k, v = ": f"{order} = "},
       f"take the three parts of in_proj_weight as {order}: the rows of W_q come first, then W_k, then W_v")
      for order in WRONG_ORDERS),
    ({PARTS: "packed.reshape(n, seq_length, self.num_heads, 3, self.head_dim).unbind(3)"},
     "cut the rows of in_proj_weight by head first and by q, k, v second: it holds W_q of all heads, then W_k of "
     "all heads, then W_v of all heads"),
    ({PACK: "packed = F.linear(x, self.in_proj_weight)"}, "leave out in_proj_bias"),
    ({END: "return x"}, "leave out out_proj at the end: without it no head's numbers ever meet another's"),
    ({END: "return F.linear(x, self.out_proj.weight)"},
     "leave out the bias of out_proj: call `self.out_proj(x)`, which multiplies and adds it"),
    ({END: "return x @ self.out_proj.weight + self.out_proj.bias"},
     "multiply by out_proj.weight without transposing it: call `self.out_proj(x)`"),
    ({SPLIT: "part[:, None]", SCALE: "scores / self.embed_dim**0.5"},
     "use one head as wide as the token: split into num_heads heads first"),
    ({SPLIT: "part[:, None]"},
     "use one head as wide as the token, and divide by √head_dim: split into num_heads heads first"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=MyMultiHeadAttention,
    compare=compare,
    stars=3,
    slips=SLIPS,
    hints=(
        "Four steps: one linear map makes q, k and v; split each into heads; notebook 02's attention in every head at "
        "once; merge the heads and project.",
        "`F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)` gives q, k and v. After the split they "
        "are (n, num_heads, seq_length, head_dim), and `@` works on the last two dimensions for every head. Divide the "
        "scores by self.head_dim**0.5. Merging is splitting backwards.",
    ),
    same=(
        {SCORES: "scores = (q / self.head_dim**0.5) @ k.transpose(-2, -1)", SCALE: "scores"},
        {SCORES: "scores = q @ (k / self.head_dim**0.5).transpose(-2, -1)", SCALE: "scores"},
        {
            PACK: "rows = zip(self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3))",
            PARTS: "[F.linear(x, weight, bias) for weight, bias in rows]",
        },
        {END: "return F.linear(x, self.out_proj.weight) + self.out_proj.bias"},
    ),
    tolerance=1e-5,
)
