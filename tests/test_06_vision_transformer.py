"""The checks of notebook 06 accept right answers in other styles, and tell what no slip can
name."""

import copy
import inspect
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision
from helpers import judged, told_without
from torch import Tensor, nn

from mnist_vit import check
from mnist_vit.check import EXERCISES
from mnist_vit.course.checking import verdict
from mnist_vit.course.checking.edits import edited_model
from mnist_vit.course.nb06_vision_transformer import bugs
from mnist_vit.course.nb06_vision_transformer.first_difference import models, my_first_difference
from mnist_vit.course.nb06_vision_transformer.name_the_bug import my_name_the_bug
from mnist_vit.course.nb06_vision_transformer.rectangular import MyRectangular
from mnist_vit.course.nb06_vision_transformer.registers import MyRegisters
from mnist_vit.course.nb06_vision_transformer.vision_transformer import (
    LABELS,
    MyVisionTransformer,
)
from mnist_vit.model import Encoder


class WithLinear(MyVisionTransformer):
    """It takes no print_shapes, as what was kept before that was asked for."""

    def __init__(self, *sizes: int, in_channels: int = 3, **options: Any) -> None:
        super().__init__(*sizes, in_channels=in_channels, **options)

    def forward(self, pictures):
        p = self.conv_proj.kernel_size[0]
        rows = F.unfold(pictures, p, stride=p).mT
        tokens = F.linear(rows, self.conv_proj.weight.flatten(1), self.conv_proj.bias)
        tokens = F.pad(tokens, (0, 0, 1, 0)) + F.pad(self.class_token, (0, 0, 0, tokens.shape[1]))
        return self.heads(self.encoder(tokens)[:, 0])


def torchvisions(*sizes: int, in_channels: int = 3, **options: Any) -> nn.Module:
    model = torchvision.models.VisionTransformer(*sizes, **options)
    model.conv_proj = nn.Conv2d(in_channels, sizes[4], sizes[1], sizes[1])
    nn.init.trunc_normal_(model.conv_proj.weight, std=(in_channels * sizes[1] ** 2) ** -0.5)
    nn.init.zeros_(model.conv_proj.bias)
    return model


class PrintsNothing(MyVisionTransformer):
    def tell(self, label: str, shape: Any) -> None:
        pass


class MeanAndPrintsNothing(PrintsNothing):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x).mean(dim=1))


class PrintsTuples(MyVisionTransformer):
    def tell(self, label: str, shape: Any) -> None:
        super().tell(label, tuple(shape) if isinstance(shape, torch.Size) else shape)


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


def convolution_with_parameters(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
    made = nn.Conv2d(channels, linear.out_features, kernel_size=p, stride=p)
    made.weight = nn.Parameter(linear.weight.detach().view(-1, channels, p, p))
    made.bias = linear.bias
    return made


def convolution_with_padding(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
    made = convolution_with_parameters(linear, channels, p)
    made.padding = (p, p)
    return made


def convolution_with_a_state_dict(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
    made = nn.Conv2d(channels, linear.out_features, kernel_size=p, stride=p)
    made.load_state_dict(linear.state_dict())
    return made


class RegistersByParts(nn.Module):
    """A model that is held, and not derived from."""

    def __init__(self, *sizes: int, registers: int, **options: Any) -> None:
        super().__init__()
        model = MyVisionTransformer(*sizes, **options)
        for name in ("conv_proj", "encoder", "heads"):
            setattr(self, name, getattr(model, name))
        self.class_token = model.class_token
        self.register_tokens = nn.Parameter(torch.empty(registers, sizes[4])[None])
        nn.init.normal_(self.register_tokens, std=0.02)

    def forward(self, x):
        places = self.encoder.pos_embedding
        patches = self.conv_proj(x).flatten(2).mT + places[:, 1:]
        n = len(x)
        first = (self.class_token + places[:, :1]).repeat(n, 1, 1)
        first, patches = self.encoder.dropout(first), self.encoder.dropout(patches)
        tokens = torch.cat((first, self.register_tokens.repeat(n, 1, 1), patches), dim=1)
        tokens = self.encoder.ln(self.encoder.layers(tokens))
        return self.heads(tokens[:, 0])


class RegistersDropped(MyRegisters):
    """The encoder's dropout comes after the registers have joined."""

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.encoder.pos_embedding
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = self.encoder.dropout(torch.cat([x[:, :1], registers, x[:, 1:]], dim=1))
        return self.heads(self.encoder.ln(self.encoder.layers(x))[:, 0])


class RegistersWithPlaces(MyVisionTransformer):
    """The registers are part of the sequence from the beginning."""

    def __init__(self, *sizes: int, registers: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        length = self.encoder.pos_embedding.shape[1] + registers
        self.encoder.pos_embedding = nn.Parameter(torch.randn(1, length, sizes[4]))
        self.register_tokens = nn.Parameter(torch.randn(1, registers, sizes[4]))


class RegistersByAnotherName(MyVisionTransformer):
    def __init__(self, *sizes: int, registers: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.registers = nn.Parameter(torch.randn(1, registers, sizes[4]))


class RegistersTooLarge(MyRegisters):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        nn.init.normal_(self.register_tokens)


class WideByItsOwnForward(MyVisionTransformer):
    """A forward that asks for no size need not be written again."""

    def __init__(self, image_size: tuple[int, int], p: int, *sizes: int, **options: Any) -> None:
        super().__init__(p, p, *sizes, **options)
        many = math.prod(side // p for side in image_size)
        places = torch.empty(1, many + 1, sizes[2]).normal_(std=0.02)
        self.encoder.pos_embedding = nn.Parameter(places)


class PairForTheParent(MyVisionTransformer):
    """The parent cannot take the pair apart."""

    def __init__(self, image_size: tuple[int, int], *sizes: int, **options: Any) -> None:
        super().__init__(image_size, *sizes, **options)  # type: ignore[arg-type]


class WideWithoutItsToken(MyRectangular):
    """As many positions as patches."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        places = self.encoder.pos_embedding.detach()
        self.encoder.pos_embedding = nn.Parameter(places[:, 1:].clone())


def difference_by_loop(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    right.train(False), suspect.train(False)
    suspect.load_state_dict(right.state_dict())
    first, second = (bugs.outputs(model, images) for model in (right, suspect))
    return next((name for name in second if (first[name] - second[name]).abs().mean() > 1e-5), None)


def gives_to_the_right_one(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    right.load_state_dict(suspect.state_dict())
    return my_first_difference(right, suspect, images)


def last_name(right: nn.Module, suspect: nn.Module, images: Tensor) -> str:
    return my_first_difference(right, suspect, images) or "heads"


def outside_attention(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    found = my_first_difference(right, suspect, images)
    return None if found and "attention" in found else found


def first_name(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    """Names in the order of the alphabet."""
    suspect.load_state_dict(right.state_dict())
    first, second = (bugs.outputs(model.eval(), images) for model in (right, suspect))
    return next((name for name in sorted(first) if not first[name].allclose(second[name])), None)


def with_tolerance(tolerance: float, mode: bool = True) -> Any:
    """Answers that forgive more or less; without the mode, the suspect goes on training."""

    def answer(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
        suspect.load_state_dict(right.state_dict())
        if mode:
            suspect.eval()
        first, second = bugs.outputs(right.eval(), images), bugs.outputs(suspect, images)
        for name, output in first.items():
            if not torch.allclose(output, second[name], atol=tolerance):
                return name
        return None

    return answer


in_one_mode = with_tolerance(1e-8, mode=False)


def one_name_for_three(right: nn.Module, suspect: nn.Module, images: Tensor) -> str:
    """Whatever is left over has one name."""
    found = my_name_the_bug(right, suspect, images)
    left_over = ("not_divided", "heads_split_by_reshape")
    return "divided_by_d_model" if found in left_over else found


class Reshaped(MyVisionTransformer):
    """The wrong order of the numbers, with the right shapes on the way."""

    def forward(self, x):
        self.tell("Input", x.shape)
        x = self.conv_proj(x)
        self.tell("After Projection", x.shape)
        self.tell("After Reshape", x.flatten(2).shape)
        x = x.reshape(len(x), -1, x.shape[1])
        self.tell("After Permute", x.shape)
        self.tell("Batch Size", len(x))
        token = self.class_token.expand(len(x), -1, -1)
        self.tell("Batch Class Token", token.shape)
        x = torch.cat([token, x], dim=1)
        self.tell("Encoder Input", x.shape)
        x = self.encoder(x)
        self.tell("Encoder Output", x.shape)
        self.tell("Only Batch Class Token", x[:, 0].shape)
        x = self.heads(x[:, 0])
        self.tell("Output", x.shape)
        return x


class MeanAndPrintsTuples(MeanAndPrintsNothing):
    """The lines are right but for the way in which shapes are written."""

    def forward(self, x):
        x = super().forward(x)
        if self.print_shapes:
            for label in LABELS:
                print(f"{label}: (3, 5)")
        return x


def convolution_with(**changes: Tensor) -> Any:
    """An answer that puts other numbers into weight or bias, or both."""

    def answer(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
        made = convolution_with_parameters(linear, channels, p)
        for name, factor in changes.items():
            tensor = getattr(made, name)
            setattr(made, name, nn.Parameter(tensor.detach() * factor))
        return made

    return answer


class OtherSizes(MyVisionTransformer):
    """Hidden_dim and mlp_dim exchanged for the encoder; or another stride; or another kernel."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 10, 16))


class OtherStride(MyVisionTransformer):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.conv_proj.stride = (1, 1)


class OtherWindows(MyVisionTransformer):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.conv_proj = nn.Conv2d(2, 8, 2, stride=4)


class OtherLabel(MyVisionTransformer):
    def tell(self, label, shape):
        if self.print_shapes:
            print(f"{shape}: {label}")


def layers_for_heads(
    image_size: int, patch_size: int, layers: int, heads: int, *rest: Any, **options: Any
) -> nn.Module:
    return MyVisionTransformer(image_size, patch_size, heads, layers, *rest, **options)


class WideInPixels(MyRectangular):
    """As many numbers a position as the picture has columns of pixels."""

    def __init__(self, image_size: Any, *sizes: int, **options: Any) -> None:
        super().__init__(image_size, *sizes, **options)
        places = self.encoder.pos_embedding.shape[1]
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, places, image_size[1]))


class PlainRegisters(MyRegisters):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        noise = self.register_tokens.detach()
        del self.register_tokens
        self.register_tokens = noise


class KeptEncoder(Encoder):
    """An encoder that was kept before; its blocks' MLPs drop nothing."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        for name, part in self.named_modules():
            if isinstance(part, nn.Dropout) and ".mlp." in name:
                part.p = 0.0


class OfAKeptEncoder(MyVisionTransformer):
    """Right in itself."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        given = inspect.signature(MyVisionTransformer).bind(*sizes, **options)
        given.apply_defaults()
        names = "num_layers", "num_heads", "hidden_dim", "mlp_dim", "dropout", "attention_dropout"
        sizes = [given.arguments[name] for name in (*names, "norm_layer")]
        self.encoder = KeptEncoder(self.encoder.pos_embedding.shape[1], *sizes)


class WideByTheEncodersSteps(MyRectangular):
    """Without the encoder's dropout."""

    def forward(self, pictures):
        x = self.conv_proj(pictures).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.encoder.layers(x + self.encoder.pos_embedding)
        return self.heads(self.encoder.ln(x)[:, 0])


class FourHeads(MyVisionTransformer):
    def __init__(self, image_size, patch_size, num_layers, num_heads, *sizes, **options):
        super().__init__(image_size, patch_size, num_layers, 4, *sizes, **options)


class TwoLayers(MyVisionTransformer):
    def __init__(self, image_size, patch_size, num_layers, *sizes, **options):
        super().__init__(image_size, patch_size, 2, *sizes, **options)


RIGHT: list[tuple[str, Any]] = [
    ("vision_transformer", WithLinear),
    ("vision_transformer", torchvisions),
    ("as_convolution", convolution_with_parameters),
    ("first_difference", difference_by_loop),
    ("registers", RegistersByParts),
    ("rectangular", WideByItsOwnForward),
]
WRONG: list[tuple[str, Any, str]] = [
    ("vision_transformer", PrintsNothing, "0 lines are printed, which are not the ten needed"),
    ("vision_transformer", PrintsTuples, "one line is 'Input: (3, 2, 12, 12)'. It must be"),
    ("vision_transformer", OfAKeptEncoder, "The class KeptEncoder that stands in it does not"),
    ("vision_transformer", TwoLayers, "encoder_layer_1"),
    ("registers", RegistersWithPlaces, "all other tensors must keep their shapes"),
    (
        "registers",
        RegistersByAnotherName,
        "has no parameter register_tokens and has registers, which",
    ),
    ("registers", RegistersTooLarge, "start value of register_tokens: its spread"),
    ("registers", lambda *sizes, **options: 3, "an nn.Module is needed"),
    ("rectangular", PairForTheParent, "takes one whole number as image_size, and gets the pair"),
    ("rectangular", WideWithoutItsToken, "10 positions for pictures of 8 × 20 pixels"),
    ("vision_transformer", NoExpand, "a class token for each picture"),
    ("vision_transformer", NotTurned, "transpose(1, 2) makes them the last one"),
    ("vision_transformer", FewArguments, "__init__ must take representation_size"),
    (
        "as_convolution",
        lambda linear, c, p: nn.Conv2d(c, linear.out_features, 1),
        "with windows of",
    ),
    ("as_convolution", lambda linear, c, p: linear, "an nn.Conv2d is needed"),
    (
        "as_convolution",
        convolution_with(weight=2),
        "bias is right, and its weight is not: it",
    ),
    ("as_convolution", convolution_with(bias=2), "weight is right, and its bias is not: it"),
    ("as_convolution", convolution_with(weight=3, bias=2), "Neither the convolution's weight nor"),
    ("vision_transformer", OtherSizes, "each position of your encoder has 16 numbers. It is"),
    ("vision_transformer", OtherStride, "your conv_proj has the stride (1, 1), and"),
    ("vision_transformer", OtherWindows, "goes from 2 to 8 channels, with windows of (2, 2). It"),
    ("vision_transformer", OtherLabel, "It must be 'Input': label, colon, and then"),
    ("vision_transformer", layers_for_heads, "encoder.layers.encoder_layer_2"),
    ("rectangular", WideInPixels, "each position of your model has 20 numbers, for pictures of 8"),
    ("registers", PlainRegisters, "register_tokens is a plain tensor, which no optimizer is given"),
    ("as_convolution", convolution_with_padding, "(3, 3) pixels apart, with a padding of (3, 3)."),
    ("first_difference", gives_to_the_right_one, "the right model's weights were changed"),
    ("first_difference", lambda right, suspect, images: 3, "name is needed"),
    ("first_difference", with_tolerance(0.3), "encoder.dropout, by up to 0.044"),
    ("first_difference", in_one_mode, "In training mode it is random. Both models must be in eval"),
    ("first_difference", last_name, "It is the last part."),
    ("first_difference", first_name, "before it differs, too, by up to 0.71"),
    ("name_the_bug", lambda right, suspect, images: "no root", "a name in BUGS is needed"),
    (
        "name_the_bug",
        one_name_for_three,
        'says "divided_by_d_model" of 3 of eight models: those with "not_divided", "divided',
    ),
    (
        "first_difference",
        outside_attention,
        "the first part that differs in suspect 1 should not be 'None'.",
    ),
]
NAMED = [
    ("rectangular", WideByTheEncodersSteps, "do the encoder's steps yourself, without its"),
    ("vision_transformer", FourHeads, "make the encoder with 4 heads, whatever num_heads is"),
    ("vision_transformer", MeanAndPrintsNothing, "take the mean over all tokens"),
    (
        "first_difference",
        lambda right, suspect, images: "conv_proj",
        "when you find a difference in the first part of every model",
    ),
    ("vision_transformer", Reshaped, "reshape to (n, patches, hidden_dim) in place of a permute"),
    ("vision_transformer", MeanAndPrintsTuples, "take the mean over all tokens"),
    (
        "as_convolution",
        convolution_with_a_state_dict,
        "load the linear layer's weight into the convolution in the shape that it has there",
    ),
    ("name_the_bug", lambda right, suspect, images: "right", "call every suspect right"),
    ("registers", RegistersDropped, "apply the encoder's dropout to the registers, too"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def difference_in(part: Any) -> Any:
    """Compares a part of each output alone."""

    def find(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
        suspect.load_state_dict(right.state_dict())
        a, b = bugs.outputs(right.eval(), images), bugs.outputs(suspect.eval(), images)
        for name in a:
            if not torch.allclose(part(a[name]), part(b[name]), atol=1e-4):
                return name
        return None

    return find


class PrintsOnce(MyVisionTransformer):
    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        self.print_shapes = False
        return x


class PrintsAlways(MyVisionTransformer):
    def __init__(self, *sizes: Any, print_shapes: bool = False, **options: Any) -> None:
        super().__init__(*sizes, print_shapes=True, **options)


def registers_started_with(start: Any) -> Any:
    class Started(MyRegisters):
        def __init__(self, *sizes: Any, **options: Any) -> None:
            super().__init__(*sizes, **options)
            self.register_tokens.data = start(self.register_tokens.data)

    return Started


class ClassTokenWithoutPlace(MyRectangular):
    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_proj(x).flatten(2).mT + self.encoder.pos_embedding[:, 1:]
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.encoder.layers(self.encoder.dropout(x))
        return self.heads(self.encoder.ln(x)[:, 0])


def convolution_of(change: Any) -> Any:
    """The right convolution with another weight."""

    def make(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
        made = check.EXERCISES["as_convolution"].answer(linear, channels, p)
        made.weight.data = change(made.weight.data)
        return made

    return make


def by_other_tokens(right: nn.Module, suspect: nn.Module, images: Tensor) -> str:
    first = my_first_difference(right, suspect, images)
    if first is None or "attention" not in first:
        return my_name_the_bug(right, suspect, images)
    weights = []
    for model in (right, suspect):
        layer = model.get_submodule("encoder.layers.encoder_layer_0.self_attention")
        x = torch.randn(1, 5, layer.embed_dim)
        weights.append(layer(x, x, x, average_attn_weights=False)[1])
    if (weights[1].sum(dim=-1) - 1).abs().max() > 1e-3:
        return "softmax_over_queries"
    return "heads_split_by_reshape" if not torch.allclose(*weights) else "right"


def by_layers_behind_the_first(right: nn.Module, suspect: nn.Module, images: Tensor) -> str:
    name = my_name_the_bug(right, suspect, images)
    return name.replace("heads_merged", "heads_split")


test_what_no_input_told_apart = judged(
    [],
    [
        ("vision_transformer", PrintsOnce, "in the second 0 lines come, not the same ten"),
        ("vision_transformer", PrintsAlways, "without print_shapes=True your model prints 'Input:"),
        (
            "registers",
            registers_started_with(lambda start: start[:, :1].expand_as(start).clone()),
            "start value of register_tokens: all its rows are the same",
        ),
        (
            "registers",
            registers_started_with(lambda start: 1.66 * start.abs()),
            "and ours are drawn around 0",
        ),
        ("rectangular", ClassTokenWithoutPlace, "all but the class token is right. Each token"),
        ("as_convolution", convolution_of(lambda w: w.flip(1)), "the channels in the opposite"),
        ("as_convolution", convolution_of(lambda w: w.flip(0)), "in another order, "),
        (
            "as_convolution",
            convolution_of(
                lambda w: w.flatten(1).reshape(-1, *w.shape[2:], w.shape[1]).permute(0, 3, 2, 1)
            ),
            "in the order column, row, channel, the last one changing fastest",
        ),
        (
            "as_convolution",
            convolution_of(lambda w: w + torch.rand_like(w)),
            "Made twice from one linear layer, the convolution's weight is not the same: 90 of 90",
        ),
        (
            "as_convolution",
            convolution_of(lambda w: w / w.flatten(1).norm(dim=1)[:, None, None, None]),
            "each window is the right one times a number of its own",
        ),
        ("name_the_bug", by_other_tokens, "The tokens that your function gives an attention layer"),
    ],
    [
        ("first_difference", difference_in(lambda x: x[0]), "compare picture 0 of each output"),
        ("first_difference", difference_in(lambda x: x[-1]), "compare the last picture of each"),
        ("first_difference", difference_in(lambda x: x[:, 0]), "such as token 0, of each output"),
        ("name_the_bug", by_layers_behind_the_first, "on the same tokens its weights are right"),
    ],
)


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


def the_one_before(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    found = my_first_difference(right, suspect, images)
    names = list(bugs.outputs(right, images))
    return names[names.index(found) - 1] if found in names[1:] else found


class JoinedBeside(MyVisionTransformer):
    """The class token is joined along the wrong axis."""

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([x, self.class_token.expand(len(x), -1, -1)], dim=2)
        return self.heads(self.encoder(x)[:, 0])


class RegistersWithMore(MyRegisters):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.places = nn.Parameter(torch.zeros(1))


SAID = [
    ("first_difference", the_one_before, "That part gives the same in both"),
    ("registers", RegistersWithMore, "your model has places, which should not be there."),
    ("vision_transformer", JoinedBeside, "Print both shapes, and say of each axis"),
]
test_sentences = judged([], SAID)


def test_a_name_before_the_first_difference_may_be_a_dropout_in_eval_mode() -> None:
    _, told = verdict(check.EXERCISES["first_difference"], the_one_before)
    assert "eval mode while you compare" not in told


def convolution_that_takes_over(linear: nn.Linear, channels: int, p: int) -> nn.Conv2d:
    """The linear layer's own parameter gets the convolution's shape."""
    made = nn.Conv2d(channels, linear.out_features, p, p)
    made.weight, made.bias = linear.weight, linear.bias
    made.weight.data = made.weight.data.view(-1, channels, p, p)
    return made


class OwnEncoder(MyRectangular):
    """Its new encoder is given no options."""

    def __init__(self, image_size: Any, patch_size: int, *sizes: Any, **options: Any) -> None:
        own = {name: options[name] for name in options if "dropout" not in name}
        super().__init__(image_size, patch_size, *sizes, **own)


class FreshRegisters(MyRegisters):
    """Each block gets registers of its own."""

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.encoder.dropout(x + self.encoder.pos_embedding)
        registers = self.register_tokens.expand(len(x), -1, -1)
        for block in self.encoder.layers:
            x = block(torch.cat([x[:, :1], registers, x[:, 1:]], dim=1))
            x = torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)
        return self.heads(self.encoder.ln(x)[:, 0])


class InTheClassToken(MyRegisters):
    """The registers' mean is added to the class token."""

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token + self.register_tokens.mean(dim=1, keepdim=True)
        x = torch.cat([token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


class Backwards(MyVisionTransformer):
    """The last patch comes first."""

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).flip(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


class TwiceEncoded(MyVisionTransformer):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(self.encoder(x))[:, 0])


class BentPatches(MyVisionTransformer):
    def forward(self, x):
        x = F.gelu(self.conv_proj(x)).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


class BentToken(MyVisionTransformer):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0].sin())


def of_large_models(right: nn.Module, suspect: nn.Module, images: Tensor) -> str:
    """Sizes of the notebook's models stand in it."""
    found = my_name_the_bug(right, suspect, images)
    is_large = right.class_token.shape[-1] == 64
    return found if is_large or found != "not_divided" else "heads_split_by_reshape"


def by_ratios(right: nn.Module, suspect: nn.Module, images: Tensor) -> str:
    """It forgets the logarithm: the weights of each head are asked for, and not their mean."""
    found = my_name_the_bug(right, suspect, images)
    layers = [model.encoder.layers[0].self_attention for model in (right, suspect)]
    x = torch.randn(1, 5, layers[0].embed_dim)
    for layer in layers:
        layer(x, x, x, average_attn_weights=False)
    return "heads_split_by_reshape" if "divided" in found else found


def largest_difference(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    suspect.load_state_dict(right.state_dict())
    first, second = (bugs.outputs(model.eval(), images) for model in (right, suspect))
    far = {name: (first[name] - second[name]).abs().max().item() for name in first}
    worst = max(far, key=far.__getitem__)
    return worst if far[worst] > 1e-4 else None


MENDED: list[tuple[str, Any, str]] = [
    (
        "as_convolution",
        convolution_that_takes_over,
        "weight had the shape (5, 18), and has the",
    ),
    ("as_convolution", convolution_with(weight=-1), "it is the right one times -1"),
    ("name_the_bug", of_large_models, 'it names 7 of eight; one with "not_divided" it calls'),
    ("name_the_bug", by_ratios, 'of 3 of eight models: those with "not_divided"'),
    ("first_difference", largest_difference, "Of all parts yours differs most, by up to"),
    (
        "registers",
        InTheClassToken,
        "first block is given (3, 10, 8), and should be given (3, 13",
    ),
    ("vision_transformer", Backwards, "in another order: the class token, 9, 8, 7"),
    ("vision_transformer", TwiceEncoded, "Your encoder is called 2 times for one batch"),
    ("vision_transformer", BentPatches, "Token 0 of what your encoder is given is the class token"),
    ("vision_transformer", BentToken, "What your encoder is given is right. What self.heads"),
]
MENDED_SLIPS: list[tuple[str, Any, str]] = [
    ("rectangular", OwnEncoder, "hand neither dropout nor attention_dropout of the options on"),
    ("registers", FreshRegisters, "give each block register_tokens anew"),
]
test_what_was_misleading_or_only_located = judged([], MENDED, MENDED_SLIPS)


def told(name: str, answer: Any) -> str:
    """What is said of a wrong answer."""
    passed, said = verdict(check.EXERCISES[name], answer)
    assert not passed
    return said


class TakesTheEncoderApart(MyRectangular):
    """Without the encoder's dropout, or with it behind the blocks, too."""

    is_late = False

    def forward(self, pictures):
        x = self.conv_proj(pictures).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.encoder.layers(x + self.encoder.pos_embedding)
        if self.is_late:
            x = self.encoder.dropout(x)
        return self.heads(self.encoder.ln(x)[:, 0])


class DropsLate(TakesTheEncoderApart):
    is_late = True


class DropsLateBehindRegisters(MyRegisters):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.encoder.dropout(x + self.encoder.pos_embedding)
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = self.encoder.layers(torch.cat([x[:, :1], registers, x[:, 1:]], dim=1))
        return self.heads(self.encoder.ln(self.encoder.dropout(x))[:, 0])


def test_the_encoders_dropout_stands_before_the_blocks_and_nowhere_else() -> None:
    said = told("rectangular", TakesTheEncoderApart)
    assert "do the encoder's steps yourself, without its dropout." in said
    assert "missing in between" not in said
    assert "with its dropout behind the blocks." in told("rectangular", DropsLate)
    assert "dropout 1 in the encoder alone" in told("registers", DropsLateBehindRegisters)


class OnTheirSide(MyRectangular):
    def forward(self, pictures):
        is_high = pictures.shape[2] > pictures.shape[3]
        return super().forward(pictures.mT if is_high else pictures)


def test_an_input_is_called_as_the_answer_calls_it() -> None:
    assert "where pictures has its last two axes exchanged" in told("rectangular", OnTheirSide)


class TanhOfTheToken(MyVisionTransformer):
    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        if hasattr(self.heads, "act"):
            self.heads.act = nn.Identity()

    def forward(self, x):
        hook = self.heads.register_forward_pre_hook(lambda _, given: (torch.tanh(given[0]),))
        try:
            return super().forward(x)
        finally:
            hook.remove()


def test_a_tanh_before_the_heads_is_named() -> None:
    assert "apply tanh to the class token" in told("vision_transformer", TanhOfTheToken)


class DropsInEvalModeToo(MyRectangular):
    def forward(self, x):
        x = self.conv_proj(x).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = F.dropout(x + self.encoder.pos_embedding, self.encoder.dropout.p)
        return self.heads(self.encoder.ln(self.encoder.layers(x))[:, 0])


def test_dropout_in_eval_mode_is_refused() -> None:
    assert "which drops in eval mode, too" in told("rectangular", DropsInEvalModeToo)


class SquareOfTheSameArea(MyVisionTransformer):
    def __init__(self, image_size, patch_size, *sizes, **options):
        height, width = image_size
        super().__init__(math.isqrt(height * width), patch_size, *sizes, **options)


class WithoutTheTokensPosition(MyRectangular):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.encoder.pos_embedding = nn.Parameter(self.encoder.pos_embedding[:, 1:].detach())


def test_as_many_positions_as_patches_by_chance_are_not_one_for_each() -> None:
    square = told("rectangular", SquareOfTheSameArea)
    assert "as many as a square of 3 × 3 patches needs." in square
    assert "none for the class token" not in square
    assert "none for the class token" in told("rectangular", WithoutTheTokensPosition)


class FrozenRegisters(MyRegisters):
    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.register_tokens.requires_grad_(False)


class BufferedRegisters(MyRegisters):
    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        noise = self.register_tokens.data
        del self.register_tokens
        self.register_buffer("register_tokens", noise)


class FrozenPositions(MyRectangular):
    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.encoder.pos_embedding.requires_grad_(False)


def with_the_suspects_weights(right: nn.Module, suspect: nn.Module, images: Tensor) -> str | None:
    copied = copy.deepcopy(right)
    copied.load_state_dict(suspect.state_dict())
    return EXERCISES["first_difference"].answer(copied, suspect, images)


RETURN_CONVOLUTION = "    return convolution"
LEAVE_LINEAR = "and should leave linear as it is"
test_nothing_false_is_told = told_without(
    [
        (
            "as_convolution",
            {RETURN_CONVOLUTION: f"    linear.weight.data.zero_()\n{RETURN_CONVOLUTION}"},
            LEAVE_LINEAR,
            "random numbers",
        ),
        (
            "as_convolution",
            {RETURN_CONVOLUTION: f"    linear.bias.data += 1\n{RETURN_CONVOLUTION}"},
            LEAVE_LINEAR,
            "random numbers",
        ),
        (
            "as_convolution",
            {RETURN_CONVOLUTION: f"{RETURN_CONVOLUTION}.double()"},
            "the check called Conv2d, which raised RuntimeError",
            "it raised",
        ),
        ("name_the_bug", lambda right, suspect, images: ["right"], "a list of 1", "it raised"),
        (
            "name_the_bug",
            {
                "torch.allclose(right(images), suspect(images), atol=1e-4)": (
                    "torch.equal(right(images), suspect(images))"
                )
            },
            "the same within rounding, as torch.allclose asks",
            "",
        ),
        (
            "as_convolution",
            {"nn.Conv2d(channels": "nn.Conv2d(1"},
            "Compare the two shapes",
            "x + …",
        ),
        ("registers", FrozenRegisters, "register_tokens does not ask", "nn.Parameter(…) makes"),
        ("registers", BufferedRegisters, "register_tokens does not ask", "requires_grad=False"),
        ("registers", {"self.heads(": "self.heads.head("}, "the class head has two layers", ""),
        ("rectangular", FrozenPositions, "encoder.pos_embedding does not ask", "makes one that"),
        (
            "first_difference",
            with_the_suspects_weights,
            "load the suspect's weights into a copy of `right`",
            "after every number",
        ),
    ]
)
