"""Solutions of notebook 05, made from the sources of its checks by notebooks/refresh.py."""

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.model import EncoderBlock


# exercise: encoder
class MyEncoder(nn.Module):
    """(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)."""

    def __init__(
        self,
        seq_length,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout,
        attention_dropout,
    ):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        sizes = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout)
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{i}", EncoderBlock(*sizes)) for i in range(num_layers))
        )
        self.ln = nn.LayerNorm(hidden_dim, eps=1e-6)

    def forward(self, input):
        x = input + self.pos_embedding  # equation 1
        x = self.dropout(x)
        x = self.layers(x)  # equations 2 and 3, once for each block
        return self.ln(x)  # equation 4, for every token


# exercise: resize_positions
def my_resize_positions(pos_embedding, grid):
    """(1, 1 + g * g, hidden_dim) -> (1, 1 + grid * grid, hidden_dim)."""
    class_token, patches = pos_embedding[:, :1], pos_embedding[:, 1:]
    d, g = patches.shape[2], math.isqrt(patches.shape[1])
    # (1, g * g, d) -> (1, d, g * g) -> (1, d, g, g)
    maps = patches.permute(0, 2, 1).reshape(1, d, g, g)
    maps = F.interpolate(maps, size=(grid, grid), mode="bicubic", align_corners=True)
    # (1, d, grid, grid) -> (1, d, grid * grid) -> (1, grid * grid, d)
    patches = maps.flatten(2).permute(0, 2, 1)
    return torch.cat([class_token, patches], dim=1)


# exercise: shuffle_patches
def my_shuffle_patches(tokens, order):
    """tokens (n, 1 + N, hidden_dim), order (N,) -> (n, 1 + N, hidden_dim)."""
    class_token, patches = tokens[:, :1], tokens[:, 1:]
    patches = patches[:, order]  # patch order[i] comes to place i
    return torch.cat([class_token, patches], dim=1)
