"""The one call that compares a learner's piece with torchvision's: what it prints for right and for
wrong pieces."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from helpers import assert_says
from torch import Tensor, nn
from torchvision.models import vision_transformer as torchvisions

from mnist_vit import model
from mnist_vit.course import equality
from mnist_vit.course.checking.edits import edited_model

BLOCK = {"num_heads": 2, "hidden_dim": 8, "mlp_dim": 12, "dropout": 0.2, "attention_dropout": 0.2}
VIT = BLOCK | {
    "image_size": 8,
    "patch_size": 4,
    "num_layers": 2,
    "num_classes": 5,
    "representation_size": 6,
}
Z, GREY = torch.randn(3, 5, 8, generator=torch.manual_seed(0)), torch.rand(3, 1, 8, 8)
PIECES = {  # class: sizes, input, number of tensors
    "MLPBlock": ({"in_dim": 8, "mlp_dim": 12, "dropout": 0.2}, Z, 4),
    "EncoderBlock": (BLOCK, Z, 12),
    "Encoder": (BLOCK | {"seq_length": 5, "num_layers": 2}, Z, 27),
    "VisionTransformer": (VIT, GREY, 34),
}
# Our classes as a learner has them: with the attention from scratch, which adds in another order.
OWN = SimpleNamespace(**edited_model().forward.__globals__)


def shown(capsys: pytest.CaptureFixture, *given: object, **sizes: object) -> list[str]:
    before = torch.random.get_rng_state()
    equality.show(*given, **sizes)
    assert torch.equal(before, torch.random.get_rng_state())
    return capsys.readouterr().out.splitlines()


def equal(lines: list[str], what: str) -> bool:
    """Whether a line says that outputs, or gradients, are torchvision's within rounding."""
    return any(line.startswith(what) and "below 1e-05" in line for line in lines)


@pytest.mark.parametrize("home", [model, OWN], ids=["torch's attention", "own attention"])
@pytest.mark.parametrize("name", PIECES)
def test_it_prints_the_same_whosever_attention_is_in_the_piece(
    name: str, home: object, capsys: pytest.CaptureFixture
) -> None:
    sizes, given, tensors = PIECES[name]
    first, *lines = shown(capsys, getattr(home, name), getattr(torchvisions, name), given, **sizes)
    assert_says(first, f"torchvision's {name} {tensors}")
    assert f"{tensors} of {tensors} " in lines[0], "start values"
    assert equal(lines, "outputs")
    assert equal(lines, f"gradients of {tensors} ")
    assert "last bit" in lines[-1], "with torch's attention in its place"


def test_an_attention_layer_is_called_with_three_tensors_and_gives_two(
    capsys: pytest.CaptureFixture,
) -> None:
    for given in ([Z], [Z, Z + 1, Z - 1]):
        sizes = {"embed_dim": 8, "num_heads": 2, "dropout": 0.2}
        lines = shown(capsys, model.MultiHeadAttention, nn.MultiheadAttention, *given, **sizes)
        assert_says(lines[0], "PyTorch's MultiheadAttention 4 288")
        assert "4 of 4 " in lines[1]
        assert equal(lines, "outputs")
        assert equal(lines, "gradients of 4 ")


class PostNorm(OWN.EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input + self.self_attention(input, input, input, need_weights=False)[0])
        return self.ln_2(x + self.mlp(x))


class NoBias(OWN.EncoderBlock):  # of the MLP, which starts within 1e-5 of zero
    def forward(self, input: Tensor) -> Tensor:
        x = (
            self.dropout(self.self_attention(*[self.ln_1(input)] * 3, need_weights=False)[0])
            + input
        )
        hidden = self.mlp[2](self.mlp[1](self.mlp[0](self.ln_2(x)) - self.mlp[0].bias))
        return x + self.mlp[4](self.mlp[3](hidden))


class NoDropout(OWN.EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.self_attention(*[self.ln_1(input)] * 3, need_weights=False)[0] + input
        return x + self.mlp(self.ln_2(x))


class Detached(OWN.EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = (
            self.dropout(self.self_attention(*[self.ln_1(input)] * 3, need_weights=False)[0])
            + input
        )
        return x + self.mlp(self.ln_2(x.detach()))


class NewNames(OWN.EncoderBlock):
    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.norm = self.ln_2
        del self.ln_2


class OtherStart(OWN.EncoderBlock):
    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        nn.init.zeros_(self.mlp[3].weight)


class Breaks(OWN.EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        raise ValueError("not yet")


WRONG = [  # piece, words that are needed, whether outputs and gradients are as they should be
    (PostNorm, "eval", False, False),
    (NoBias, "mode", False, False),
    (NoDropout, "train", False, False),
    (Detached, "gradients", True, False),
    (partial(OWN.EncoderBlock, norm_layer=nn.LayerNorm), "mode", False, False),  # eps 1e-5
    (NewNames, "ln_2.weight ln_2.bias norm.weight norm.bias", False, False),
    (OtherStart, "11 12 mlp.3.weight", True, True),
    (Breaks, "ValueError not yet", False, False),
    (
        lambda **sizes: model.EncoderBlock(**sizes | {"mlp_dim": 9}),
        "mlp.0.weight 9 12",
        False,
        False,
    ),
    (lambda size: None, "num_heads=2 mlp_dim=12 dropout=0.2", False, False),
]


@pytest.mark.parametrize(("mine", "words", "outputs", "gradients"), WRONG)
def test_a_difference_is_told(
    mine: object, words: str, outputs: bool, gradients: bool, capsys: pytest.CaptureFixture
) -> None:
    lines = shown(capsys, mine, torchvisions.EncoderBlock, Z / 10, **BLOCK)
    assert_says("\n".join(lines), words)
    assert equal(lines, "outputs") == outputs
    assert equal(lines, "gradients") == gradients
