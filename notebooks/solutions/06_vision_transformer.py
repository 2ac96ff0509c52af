"""Solutions of notebook 06, made from the sources of its checks by notebooks/refresh.py."""

import math
from collections import OrderedDict

import torch
from torch import nn

from mnist_vit.model import Encoder


# exercise: class_head_start
def my_class_head_start(in_features, num_classes):
    head = nn.Linear(in_features, num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    loss = math.log(num_classes)  # -ln(1 / num_classes)
    return head, loss


# exercise: count_tokens
def my_count_tokens(image_size, patch_size):
    side = image_size // patch_size
    patches = side * side
    return patches + 1  # the class token


# exercise: patchify
def my_patchify(images, p):
    """(n, c, h, w) -> (n, h // p * (w // p), c * p * p)."""
    n, c, h, w = images.shape
    # every side in two axes: (n, c, patch row, row inside, patch column, column inside)
    x = images.reshape(n, c, h // p, p, w // p, p)
    # -> (n, patch row, patch column, c, row inside, column inside)
    x = x.permute(0, 2, 4, 1, 3, 5)
    return x.reshape(n, (h // p) * (w // p), c * p * p)


# exercise: vision_transformer
class MyVisionTransformer(nn.Module):
    def __init__(
        self,
        image_size,
        patch_size,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        num_classes,
        in_channels,
    ):
        super().__init__()
        self.conv_proj = nn.Conv2d(in_channels, hidden_dim, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        seq_length = 1 + (image_size // patch_size) ** 2
        self.encoder = Encoder(seq_length, num_layers, num_heads, hidden_dim, mlp_dim, 0.0, 0.0)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))

    def forward(self, x):
        """(n, in_channels, image_size, image_size) -> (n, num_classes)."""
        # (n, in_channels, image_size, image_size) -> (n, hidden_dim, n_h, n_w)
        x = self.conv_proj(x)
        # (n, hidden_dim, n_h, n_w) -> (n, hidden_dim, n_h * n_w) -> (n, n_h * n_w, hidden_dim)
        x = x.flatten(2)
        x = x.transpose(1, 2)
        # the class token in front: (n, 1 + n_h * n_w, hidden_dim)
        token = self.class_token.expand(x.shape[0], -1, -1)
        x = torch.cat([token, x], dim=1)
        x = self.encoder(x)
        # the class token alone: (n, hidden_dim) -> (n, num_classes)
        x = x[:, 0]
        return self.heads(x)
