"""Right answers in other styles pass the checks of notebook 06; unknown mistakes fail without a mutant's name."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from mnist_vit import Encoder
from mnist_vit.check.core import verdict
from mnist_vit.check.nb06_vit import EXERCISES

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}


class Parts(nn.Module):
    """The stub's parts."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, num_classes, in_channels):
        super().__init__()
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))  # another order of creation
        seq_length = 1 + (image_size // patch_size) ** 2
        self.encoder = Encoder(seq_length, num_layers, num_heads, hidden_dim, mlp_dim, 0.0, 0.0)
        self.class_token = nn.Parameter(torch.ones(1, 1, hidden_dim))
        self.conv_proj = nn.Conv2d(in_channels, hidden_dim, kernel_size=patch_size, stride=patch_size)


class WithRepeat(Parts):
    def forward(self, pictures):
        n = pictures.size(0)
        tokens = self.conv_proj(pictures).permute(0, 2, 3, 1).reshape(n, -1, self.class_token.size(-1))
        sequence = torch.hstack((self.class_token.repeat(n, 1, 1), tokens))
        return self.heads.head(self.encoder(sequence).select(1, 0))


class WithLinear(Parts):
    def forward(self, x):
        p = self.conv_proj.kernel_size[0]
        rows = F.unfold(x, p, stride=p).mT
        tokens = F.linear(rows, self.conv_proj.weight.flatten(1), self.conv_proj.bias)
        tokens = F.pad(tokens, (0, 0, 1, 0)) + F.pad(self.class_token, (0, 0, 0, tokens.shape[1]))
        out = self.encoder(tokens)
        return torch.einsum("nd,kd->nk", out[:, 0], self.heads.head.weight) + self.heads.head.bias


class OneByOne(Parts):
    def forward(self, x):
        logits = []
        for picture in x:
            features = self.conv_proj(picture[None])
            tokens = [self.class_token[0, 0]]
            tokens += [features[0, :, i, j] for i in range(features.shape[2]) for j in range(features.shape[3])]
            logits.append(self.heads(self.encoder(torch.stack(tokens)[None])[0, 0]))
        return torch.stack(logits)


class EncoderUnrolled(Parts):
    def forward(self, x):
        x = torch.flatten(self.conv_proj(x), start_dim=2).swapaxes(1, 2)
        z = torch.cat((torch.zeros_like(x[:, :1]) + self.class_token, x), 1) + self.encoder.pos_embedding
        for block in self.encoder.layers:
            z = block(z)
        return self.heads(self.encoder.ln(z[:, 0]))  # the norm works on each token alone


def torchvisions(
    image_size: int, patch_size: int, layers: int, heads: int, width: int, mlp_dim: int, classes: int, channels: int
) -> nn.Module:
    model = torchvision.models.VisionTransformer(
        image_size, patch_size, layers, heads, width, mlp_dim, num_classes=classes
    )
    model.conv_proj = nn.Conv2d(channels, width, patch_size, patch_size)
    return model


def patchify_loops(images: Tensor, p: int) -> Tensor:
    found = []
    for i in range(images.shape[2] // p):
        for j in range(images.shape[3] // p):
            found.append(images[:, :, i * p : i * p + p, j * p : j * p + p].flatten(1))
    return torch.stack(found, dim=1)


def patchify_convolution(images: Tensor, p: int) -> Tensor:
    size = images.shape[1] * p * p
    return F.conv2d(images, torch.eye(size).view(size, -1, p, p), stride=p).flatten(2).transpose(1, 2)


def patchify_windows(x: Tensor, p: int) -> Tensor:
    return x.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def head_with_no_grad(width: int, k: int) -> Any:
    layer = nn.Linear(width, k)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    return layer, -math.log(1 / k)


def head_with_new_parameters(a: int, b: int) -> Any:
    layer = nn.Linear(a, b)
    layer.weight, layer.bias = nn.Parameter(torch.zeros(b, a)), nn.Parameter(torch.zeros(b))
    return [layer, F.cross_entropy(torch.zeros(1, b), torch.tensor([0]))]


def head_with_data(i: int, o: int) -> Any:
    layer = nn.Linear(i, o)
    layer.weight.data *= 0
    layer.bias.data.fill_(0.0)
    return layer, torch.tensor(float(o)).log().item()


RIGHT: dict[str, list[Any]] = {
    "vision_transformer": [WithRepeat, WithLinear, OneByOne, EncoderUnrolled, torchvisions],
    "count_tokens": [
        lambda image_size, patch_size: 1 + image_size**2 // patch_size**2,
        lambda h, p: len([(i, j) for i in range(0, h, p) for j in range(0, h, p)]) + 1,
        lambda size, p: torch.zeros(1, 1, size, size).unfold(2, p, p).unfold(3, p, p)[0, 0, :, :, 0, 0].numel() + 1,
    ],
    "class_head_start": [head_with_no_grad, head_with_new_parameters, head_with_data],
    "patchify": [
        patchify_loops,
        patchify_convolution,
        patchify_windows,
        lambda pictures, size: F.unfold(pictures, size, stride=size).transpose(1, 2),
    ],
}


class HeadTwice(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1))
        return 2 * self.heads(x[:, 0])


class OnlyInTraining(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1))
        return self.heads(F.dropout(x[:, 0], 0.5, self.training))


class NoGradient(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = self.encoder(torch.cat([self.class_token.detach().expand(len(x), -1, -1), x], dim=1))
        return self.heads(x[:, 0])


UNKNOWN: dict[str, list[Callable[..., Any]]] = {
    "vision_transformer": [HeadTwice, OnlyInTraining, NoGradient],
    "count_tokens": [lambda size, p: (size // p) ** 2 + 2],
    "class_head_start": [lambda i, k: (head_with_no_grad(i, k)[0], 0.0)],
    "patchify": [lambda images, p: patchify_loops(images.flip(-1), p), lambda images, p: patchify_loops(images, p) + 1],
}


class NoExpand(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([self.class_token, x], dim=1))[:, 0])


class NoExpandLast(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([x, self.class_token], dim=1))[:, -1])


class AllTokens(Parts):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)))


def patchify_swapped(images: Tensor, p: int) -> Tensor:
    n, c, w, h = images.shape
    return images.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def head_of(*zeros: str, bias: bool = True) -> Callable[[int, int], Any]:
    def answer(i: int, o: int) -> Any:
        layer = nn.Linear(i, o, bias=bias)
        torch.rand(3)  # more random numbers than the check knows of
        for name in zeros:
            nn.init.zeros_(getattr(layer, name))
        return layer, math.log(o)

    return answer


NAMED = [  # what newcomers really wrote
    ("vision_transformer", NoExpand, "a class token for each picture"),
    ("vision_transformer", NoExpandLast, "a class token for each picture"),
    ("vision_transformer", AllTokens, "exactly this when you send all tokens to the heads"),
    ("patchify", patchify_swapped, "exactly this when you swap height and width"),
    ("class_head_start", head_of(), "neither weight nor bias"),
    ("class_head_start", head_of("weight"), "its bias still has random start values"),
    ("class_head_start", head_of("bias"), "its weight still has random start values"),
    ("class_head_start", head_of("weight", bias=False), "the head has no bias"),
]


@pytest.mark.parametrize(("name", "answer", "told"), NAMED)
def test_likely_mistakes_are_named(name: str, answer: Any, told: str) -> None:
    passed, sentence = verdict(BY_NAME[name], answer)
    assert not passed
    assert told in sentence


def cases(bank: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(name, answer, id=f"{name}-{i}") for name in bank for i, answer in enumerate(bank[name])]


@pytest.mark.parametrize(("name", "answer"), cases(RIGHT))
def test_right_answers_in_other_styles_pass(name: str, answer: Any) -> None:
    passed, told = verdict(BY_NAME[name], answer)
    assert passed, told


@pytest.mark.parametrize(("name", "answer"), cases(UNKNOWN))
def test_an_unknown_mistake_is_told_without_a_wrong_name(name: str, answer: Any) -> None:
    passed, told = verdict(BY_NAME[name], answer)
    assert not passed
    assert "exactly this when" not in told


def test_every_exercise_has_other_right_styles() -> None:
    assert set(RIGHT) == set(UNKNOWN) == set(BY_NAME)
    assert all(len(answers) >= 3 for answers in RIGHT.values())
