"""The one call that compares a learner's piece with torchvision's: what it prints for right and for
wrong pieces."""

import inspect
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torchvision.models import vision_transformer as torchvisions

from mnist_vit import model
from mnist_vit.course import equality

BLOCK = {"num_heads": 2, "hidden_dim": 8, "mlp_dim": 12, "dropout": 0.2, "attention_dropout": 0.2}
VIT = BLOCK | {
    "image_size": 8,
    "patch_size": 4,
    "num_layers": 2,
    "num_classes": 5,
    "representation_size": 6,
}
Z, GREY = torch.randn(3, 5, 8, generator=torch.manual_seed(0)), torch.rand(3, 1, 8, 8)
START = "start values from one seed: {0} of {0} tensors equal"
OUTPUTS = "outputs in eval and train mode: largest difference below 1e-05 of the largest number"
GRADIENTS = (
    "gradients of {0} tensors and of the input: largest difference below 1e-05 of the largest"
    " number"
)
BITS = "with nn.MultiheadAttention in its place: equal to the last bit"
PIECES = {  # class: sizes, input, number of tensors, last line
    "MLPBlock": (
        {"in_dim": 8, "mlp_dim": 12, "dropout": 0.2},
        Z,
        4,
        "outputs and gradients: equal to the last bit",
    ),
    "EncoderBlock": (BLOCK, Z, 12, BITS),
    "Encoder": (BLOCK | {"seq_length": 5, "num_layers": 2}, Z, 27, BITS),
    "VisionTransformer": (VIT, GREY, 34, BITS),
}


def own_attention() -> SimpleNamespace:
    """Our classes as a learner has them: with the attention from scratch, which adds in another
    order."""
    source = inspect.getsource(model)
    for old, new in {
        "nn.MultiheadAttention(\n"
        "            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True\n"
        "        )": ("MultiHeadAttention(hidden_dim, num_heads, attention_dropout)"),
        "from .": "from mnist_vit.",
    }.items():
        assert old in source
        source = source.replace(old, new)
    names: dict = {"__name__": "own"}
    exec(source, names)
    return SimpleNamespace(**names)


OWN = own_attention()


def shown(capsys: pytest.CaptureFixture, *given: object, **sizes: object) -> list[str]:
    before = torch.random.get_rng_state()
    equality.show(*given, **sizes)
    assert torch.equal(before, torch.random.get_rng_state())
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("home", [model, OWN], ids=["torch's attention", "own attention"])
@pytest.mark.parametrize("name", PIECES)
def test_it_prints_the_same_whosever_attention_is_in_the_piece(
    name: str, home: object, capsys: pytest.CaptureFixture
) -> None:
    sizes, given, tensors, last = PIECES[name]
    first, *lines = shown(capsys, getattr(home, name), getattr(torchvisions, name), given, **sizes)
    assert first.startswith(f"compared with torchvision's {name}: {tensors} tensors, ")
    assert lines == [START.format(tensors), OUTPUTS, GRADIENTS.format(tensors), last]


def test_an_attention_layer_is_called_with_three_tensors_and_gives_two(
    capsys: pytest.CaptureFixture,
) -> None:
    for given in ([Z], [Z, Z + 1, Z - 1]):
        sizes = {"embed_dim": 8, "num_heads": 2, "dropout": 0.2}
        lines = shown(capsys, model.MultiHeadAttention, nn.MultiheadAttention, *given, **sizes)
        assert lines[0] == "compared with PyTorch's MultiheadAttention: 4 tensors, 288 numbers"
        assert lines[1:] == [START.format(4), OUTPUTS, GRADIENTS.format(4)]


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


DIFFERENT = "outputs in eval and train mode: largest difference "
WRONG = [  # piece, words of what is told, whether the outputs are as they should be
    (PostNorm, "(eval mode)", False),
    (NoBias, " mode)", False),
    (NoDropout, "(train mode)", False),
    (Detached, "gradients of 12 tensors and of the input: largest difference ", True),
    (partial(OWN.EncoderBlock, norm_layer=nn.LayerNorm), " mode)", False),  # eps 1e-5
    (
        NewNames,
        (
            "yours lacks ln_2.weight, ln_2.bias and has norm.weight, norm.bias besides: weights fit"
            " only"
        ),
        False,
    ),
    (OtherStart, "11 of 12 tensors equal (different: mlp.3.weight)", True),
    (Breaks, "yours could not be called: ValueError: not yet", False),
    (
        lambda **sizes: model.EncoderBlock(**sizes | {"mlp_dim": 9}),
        "mlp.0.weight is (9, 8) in yours, and (12",
        False,
    ),
    (
        lambda size: None,
        "yours could not be built with num_heads=2, hidden_dim=8, mlp_dim=12, dropout=0.2,",
        False,
    ),
]


@pytest.mark.parametrize(("mine", "words", "outputs"), WRONG)
def test_a_difference_is_told(
    mine: object, words: str, outputs: bool, capsys: pytest.CaptureFixture
) -> None:
    lines = shown(capsys, mine, torchvisions.EncoderBlock, Z / 10, **BLOCK)
    assert words in "\n".join(lines)
    assert (OUTPUTS in lines) == outputs
