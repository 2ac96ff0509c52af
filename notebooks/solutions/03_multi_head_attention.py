"""Solutions of notebook 03, made from the sources of its checks by `python -m tools solutions`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.model import MultiHeadAttention as MyMultiHeadAttention


# exercise: head_contribution
def my_head_contribution(
    weights: Tensor,
    values: Tensor,
    out_proj: nn.Linear,
    head: int,
) -> Tensor:
    """What one head adds to the layer output: (n, seq_length, hidden_dim).

    weights: of all heads, (n, num_heads, seq_length, seq_length)
    values: of all heads, (n, num_heads, seq_length, head_dim)
    """
    head_dim = values.shape[-1]
    start = head * head_dim
    # nn.Linear computes x Wᵀ, so the numbers that come in meet the columns of its weight.
    columns = out_proj.weight[:, start : start + head_dim]
    head_output = weights[:, head] @ values[:, head]
    return head_output @ columns.T


# exercise: left_minus_above
def my_left_minus_above(layer: nn.Module, grid: int) -> None:
    """Fill the layer in place: each token gets its left neighbour minus the upper one.

    A token is its content, grid**2 numbers, then its place, one-hot, grid**2 numbers.
    Places are counted row by row. The layer has 2 heads, so head_dim is grid**2, too.
    In the output the first half is the difference of the contents, the rest is zero.
    At the edges, where a token has no such neighbour, it takes itself instead.
    """
    places = grid * grid
    place = torch.arange(places)
    left = torch.where(place % grid > 0, place - 1, place)
    above = torch.where(place >= grid, place - grid, place)
    one = torch.eye(places)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        w_q, w_k, w_v = layer.in_proj_weight.chunk(
            3
        )  # views: what is written here is written there
        for head, (wanted, sign) in enumerate([(left, 1), (above, -1)]):
            rows = slice(head * places, (head + 1) * places)
            w_k[rows, places:] = one  # "I stand here"
            w_q[rows, places:] = (
                1000 * F.one_hot(wanted, places).T.float()
            )  # "I look for whoever stands there"
            w_v[rows, :places] = one  # the content, as it is
            layer.out_proj.weight[:places, rows] = sign * one


# exercise: masked_attention
class MyMaskedAttention(MyMultiHeadAttention):
    """Multi-head attention with a mask.

    mask: booleans, (queries, keys), True where a query may look; None: everywhere.
    A query that may look nowhere gathers nothing: its weights are 0.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)
        q = F.linear(query, w_q, b_q)
        k = F.linear(key, w_k, b_k)
        v = F.linear(value, w_v, b_v)
        # There may be fewer queries than keys: nothing here says how many tokens there are.
        q, k, v = (x.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            # The softmax of a row of nothing but -inf is nan.
            weights = weights.masked_fill(~mask, 0)
        weights = F.dropout(weights, self.dropout, self.training)
        x = weights @ v
        output = self.out_proj(x.transpose(1, 2).flatten(2))
        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average_attn_weights else weights


# exercise: multi_head_attention
class MyMultiHeadAttention(nn.Module):
    """Multi-head attention: query, key and value are (n, seq_length, embed_dim) each.

    Returns the layer output, (n, seq_length, embed_dim), and the weights: None if
    need_weights is False; else their mean over the heads, (n, seq_length, seq_length),
    or with average_attn_weights=False each head's own,
    (n, num_heads, seq_length, seq_length).
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        # The rows of W_Q of all heads, then of W_K, then of W_V.
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        n, seq_length, _ = query.shape
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)
        q = F.linear(query, w_q, b_q)
        k = F.linear(key, w_k, b_k)
        v = F.linear(value, w_v, b_v)
        # 3 times (n, seq_length, embed_dim) -> (n, num_heads, seq_length, head_dim)
        shape = (n, seq_length, self.num_heads, self.head_dim)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.head_dim**0.5
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        x = weights @ v
        # Splitting backwards: heads and tokens change places again, then the heads
        # stand side by side in each token.
        x = x.transpose(1, 2).reshape(n, seq_length, self.embed_dim)
        output = self.out_proj(x)
        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average_attn_weights else weights


# exercise: split_heads
def my_split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(n, seq_length, hidden_dim) -> (n, num_heads, seq_length, head_dim)."""
    n, seq_length, hidden_dim = x.shape
    head_dim = hidden_dim // num_heads
    # Cut only the last dimension, so that no number leaves its token; then let heads and tokens
    # change places.
    x = x.reshape(n, seq_length, num_heads, head_dim)
    return x.transpose(1, 2)


# exercise: swap_heads
def my_swap_heads(layer: nn.Module, order: list[int]) -> None:
    """Change the layer in place: its new head i is its old head order[i].

    The layer output stays what it was.
    """
    # Which of a third's rows comes where: head_dim rows that stand side by side move together.
    rows = torch.arange(layer.embed_dim).reshape(layer.num_heads, -1)[order].flatten()
    thirds = torch.cat([rows + third * layer.embed_dim for third in range(3)])
    with torch.no_grad():
        layer.in_proj_weight.copy_(layer.in_proj_weight[thirds])
        layer.in_proj_bias.copy_(layer.in_proj_bias[thirds])
        # What comes out of the heads is in another order now: so are the columns that take it.
        layer.out_proj.weight.copy_(layer.out_proj.weight[:, rows])
