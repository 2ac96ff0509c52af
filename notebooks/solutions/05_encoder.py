"""Solutions of notebook 05, made from the sources of its checks by `python -m tools solutions`."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.model import EncoderBlock as MyEncoderBlock


# exercise: add_instead
def my_add_instead(joined, seq_length):
    """A layer on [patch, place] -> a layer on the patch alone, and what to add to its output at
    each place."""
    patch_dim = joined.in_features - seq_length
    linear = nn.Linear(patch_dim, joined.out_features)
    with torch.no_grad():
        linear.weight.copy_(joined.weight[:, :patch_dim])
        linear.bias.copy_(joined.bias)
    # a one-hot place picks one column of the weight, whatever the patch is
    positions = joined.weight[:, patch_dim:].T.detach()
    return linear, positions


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
        dropout=0.0,
        attention_dropout=0.0,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    ):
        super().__init__()
        noise = torch.empty(1, seq_length, hidden_dim).normal_(std=0.02)
        self.pos_embedding = nn.Parameter(noise)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential()
        options = dropout, attention_dropout, norm_layer
        for i in range(num_layers):
            block = MyEncoderBlock(num_heads, hidden_dim, mlp_dim, *options)
            self.layers.add_module(f"encoder_layer_{i}", block)
        self.ln = norm_layer(hidden_dim)

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


# exercise: right_without
def my_right_without(model, parameter, images, labels):
    """How many images the model classifies correctly while the parameter is zero."""
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.zero_()
        right = (model(images).argmax(dim=1) == labels).sum().item()
        parameter.copy_(kept)
    return right


# exercise: shared_block
class MySharedBlock(MyEncoder):
    """MyEncoder with one block in the places of all its layers."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        for i in range(1, len(self.layers)):
            self.layers[i] = self.layers[0]  # the name of the place stays
