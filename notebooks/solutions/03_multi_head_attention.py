"""Solutions of notebook 03, made from the sources of its checks by notebooks/refresh.py."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# exercise: head_contribution
def my_head_contribution(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    """What one head adds to the layer output: (n, seq_length, hidden_dim).

    weights: (n, num_heads, seq_length, seq_length), values: (n, num_heads, seq_length, head_dim).
    """
    head_dim = values.shape[-1]
    start = head * head_dim
    # nn.Linear computes x Wᵀ, so the numbers that come in meet the columns of its weight.
    columns = out_proj.weight[:, start : start + head_dim]
    head_output = weights[:, head] @ values[:, head]
    return head_output @ columns.T


# exercise: multi_head_attention
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


# exercise: split_heads
def my_split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(n, seq_length, hidden_dim) -> (n, num_heads, seq_length, head_dim)."""
    n, seq_length, hidden_dim = x.shape
    head_dim = hidden_dim // num_heads
    # Cut only the last dimension, so that no number leaves its token; then let heads and tokens change places.
    x = x.reshape(n, seq_length, num_heads, head_dim)
    return x.transpose(1, 2)
