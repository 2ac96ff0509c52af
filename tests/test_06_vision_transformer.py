"""The checks of notebook 06 accept right answers in other styles, and tell what no slip can name."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torchvision
from helpers import judged
from torch import Tensor, nn

from mnist_vit import Encoder


class Parts(nn.Module):
    """The stub's parts, in another order."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, num_classes, in_channels):
        super().__init__()
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))
        seq_length = 1 + (image_size // patch_size) ** 2
        self.encoder = Encoder(seq_length, num_layers, num_heads, hidden_dim, mlp_dim, 0.0, 0.0)
        self.class_token = nn.Parameter(torch.ones(1, 1, hidden_dim))
        self.conv_proj = nn.Conv2d(in_channels, hidden_dim, kernel_size=patch_size, stride=patch_size)


class WithLinear(Parts):
    def forward(self, pictures):
        p = self.conv_proj.kernel_size[0]
        rows = F.unfold(pictures, p, stride=p).mT
        tokens = F.linear(rows, self.conv_proj.weight.flatten(1), self.conv_proj.bias)
        tokens = F.pad(tokens, (0, 0, 1, 0)) + F.pad(self.class_token, (0, 0, 0, tokens.shape[1]))
        out = self.encoder(tokens)
        return torch.einsum("nd,kd->nk", out[:, 0], self.heads.head.weight) + self.heads.head.bias


def torchvisions(*sizes: int) -> nn.Module:
    *sizes, classes, channels = sizes
    model = torchvision.models.VisionTransformer(*sizes, num_classes=classes)
    model.conv_proj = nn.Conv2d(channels, sizes[4], sizes[1], sizes[1])
    return model


def patchify_convolution(images: Tensor, p: int) -> Tensor:
    size = images.shape[1] * p * p
    return F.conv2d(images, torch.eye(size).view(size, -1, p, p), stride=p).flatten(2).transpose(1, 2)


def head_with_new_parameters(a: int, b: int) -> Any:
    layer = nn.Linear(a, b)
    layer.weight, layer.bias = nn.Parameter(torch.zeros(b, a)), nn.Parameter(torch.zeros(b))
    return [layer, F.cross_entropy(torch.zeros(1, b), torch.tensor([0]))]


def head_of(*zeros: str, bias: bool = True) -> Callable[[int, int], Any]:
    def answer(i: int, o: int) -> Any:
        layer = nn.Linear(i, o, bias=bias)
        torch.rand(3)  # more random numbers than the check knows of
        for name in zeros:
            nn.init.zeros_(getattr(layer, name))
        return layer, math.log(o)

    return answer


class NoExpand(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([self.class_token, x], dim=1))[:, 0])


class NotTurned(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2)
        return self.heads(self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1))[:, 0])


def patchify_and_wipe(images: Tensor, p: int) -> Tensor:
    patches = patchify_convolution(images, p)
    with torch.no_grad():
        images.zero_()
    return patches


def swapped_head(in_features: int, num_classes: int) -> tuple[nn.Linear, float]:
    head = nn.Linear(num_classes, in_features)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head, 2.3


RIGHT: list[tuple[str, Any]] = [
    ("vision_transformer", WithLinear),
    ("vision_transformer", torchvisions),
    ("count_tokens", lambda h, p: len([(i, j) for i in range(0, h, p) for j in range(0, h, p)]) + 1),
    ("class_head_start", head_with_new_parameters),
    ("patchify", patchify_convolution),
]
WRONG: list[tuple[str, Any, str]] = [
    ("vision_transformer", NoExpand, "a class token for each picture"),
    ("vision_transformer", NotTurned, "transpose(1, 2) makes them the last one"),
    ("count_tokens", lambda size, p: (size // p) ** 2 + 2, "is not 198"),
    ("class_head_start", lambda i, k: (head_of("weight", "bias")(i, k)[0], 0.0), "first loss with 10 classes"),
    ("class_head_start", head_of(), "neither weight nor bias"),
    ("class_head_start", head_of("weight"), "its bias still has random start values"),
    ("class_head_start", head_of("bias"), "its weight still has random start values"),
    ("class_head_start", head_of("weight", bias=False), "the head has no bias"),
    ("class_head_start", swapped_head, "here from 32 to 10, and goes from 10 to 32."),
    ("patchify", lambda images, p: patchify_convolution(images.flip(-1), p), "wrong numbers"),
    ("patchify", patchify_and_wipe, "changes its input"),
]
test_answers = judged(RIGHT, WRONG)
