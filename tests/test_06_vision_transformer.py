"""The checks of notebook 06 accept right answers in other styles, and tell what no slip can
name."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision
from helpers import judged
from torch import Tensor, nn

from mnist_vit.course.checking.edits import edited_model
from mnist_vit.course.nb06_vision_transformer import bugs
from mnist_vit.course.nb06_vision_transformer.first_difference import models, my_first_difference
from mnist_vit.course.nb06_vision_transformer.vision_transformer import MyVisionTransformer


class WithLinear(MyVisionTransformer):
    def forward(self, pictures):
        p = self.conv_proj.kernel_size[0]
        rows = F.unfold(pictures, p, stride=p).mT
        tokens = F.linear(rows, self.conv_proj.weight.flatten(1), self.conv_proj.bias)
        tokens = F.pad(tokens, (0, 0, 1, 0)) + F.pad(self.class_token, (0, 0, 0, tokens.shape[1]))
        return self.heads(self.encoder(tokens)[:, 0])


def torchvisions(*sizes: int, in_channels: int = 3, **options: Any) -> nn.Module:
    model = torchvision.models.VisionTransformer(*sizes, **options)
    model.conv_proj = nn.Conv2d(in_channels, sizes[4], sizes[1], sizes[1])
    nn.init.zeros_(model.conv_proj.bias)
    return model


class NoExpand(MyVisionTransformer):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([self.class_token, x], dim=1))[:, 0])


class NotTurned(MyVisionTransformer):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2)
        return self.heads(
            self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1))[:, 0]
        )


class FewArguments(MyVisionTransformer):
    def __init__(self, *sizes: int, num_classes: int = 1000, in_channels: int = 3) -> None:
        super().__init__(*sizes, num_classes=num_classes, in_channels=in_channels)


def patchify_convolution(images: Tensor, p: int) -> Tensor:
    size = images.shape[1] * p * p
    return (
        F.conv2d(images, torch.eye(size).view(size, -1, p, p), stride=p).flatten(2).transpose(1, 2)
    )


def patchify_and_wipe(images: Tensor, p: int) -> Tensor:
    patches = patchify_convolution(images, p)
    with torch.no_grad():
        images.zero_()
    return patches


def convolution_with_parameters(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
    made = nn.Conv2d(channels, linear.out_features, kernel_size=p, stride=p)
    made.weight = nn.Parameter(linear.weight.detach().view(-1, channels, p, p))
    made.bias = linear.bias
    return made


def convolution_with_padding(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
    made = convolution_with_parameters(linear, channels, p)
    made.padding = (p, p)
    return made


def difference_by_loop(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    right.train(False), suspect.train(False)
    suspect.load_state_dict(right.state_dict())
    first, second = (bugs.outputs(model, images) for model in (right, suspect))
    return next((name for name in second if (first[name] - second[name]).abs().mean() > 1e-5), None)


def gives_to_the_right_one(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    right.load_state_dict(suspect.state_dict())
    return my_first_difference(right, suspect, images)


def outside_attention(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    found = my_first_difference(right, suspect, images)
    return None if found and "attention" in found else found


RIGHT: list[tuple[str, Any]] = [
    ("vision_transformer", WithLinear),
    ("vision_transformer", torchvisions),
    ("patchify", patchify_convolution),
    ("as_convolution", convolution_with_parameters),
    ("first_difference", difference_by_loop),
]
WRONG: list[tuple[str, Any, str]] = [
    ("vision_transformer", NoExpand, "a class token for each picture"),
    ("vision_transformer", NotTurned, "transpose(1, 2) makes them the last one"),
    ("vision_transformer", FewArguments, "__init__ must take representation_size"),
    ("patchify", lambda images, p: patchify_convolution(images.flip(-1), p), "wrong numbers"),
    ("patchify", lambda images, p: F.unfold(images, p, stride=p).mT, "the exercise in one call"),
    ("patchify", patchify_and_wipe, "was written over in place"),
    (
        "as_convolution",
        lambda linear, c, p: nn.Conv2d(c, linear.out_features, 1),
        "with windows of",
    ),
    ("as_convolution", lambda linear, c, p: linear, "an nn.Conv2d is needed"),
    ("as_convolution", convolution_with_padding, "shape"),
    ("first_difference", gives_to_the_right_one, "the right model's weights were changed"),
    ("first_difference", lambda right, suspect, images: 3, "name is needed"),
    ("name_the_bug", lambda right, suspect, images: "no root", "a name in BUGS is needed"),
    (
        "first_difference",
        outside_attention,
        "the first part that differs in suspect 1 is not 'None'.",
    ),
]
NAMED = [("name_the_bug", lambda right, suspect, images: "right", "call every suspect right")]
test_answers = judged(RIGHT, WRONG, NAMED)


@pytest.mark.parametrize("name", bugs.BUGS)
def test_every_bug_but_none_changes_the_logits_and_no_shape(name: str) -> None:
    right, suspect, images = models(name)
    suspect.load_state_dict(right.state_dict(), strict=True)
    with torch.no_grad():
        a, b = right.eval()(images), suspect.eval()(images)
    assert a.shape == b.shape
    assert torch.allclose(a, b, atol=1e-3) == (name == "right")


def test_the_suspects_are_all_of_the_bugs() -> None:
    assert sorted(bugs.SUSPECTS.values()) == sorted(bugs.BUGS)
    with pytest.raises(ValueError, match="holds it 0 times"):
        edited_model({"no such text": ""})
