"""Notebook 05's checks: right answers in other styles pass, mistakes that no slip knows fail."""

import copy
import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import torchvision.models.vision_transformer as torchvision_vit
from helpers import judged, told_without
from torch import Tensor, nn

from mnist_vit import check
from mnist_vit.course import ladder
from mnist_vit.course.checking import judge, verdict
from mnist_vit.course.nb05_encoder.encoder import MyEncoder
from mnist_vit.model import Encoder, EncoderBlock

NORM = partial(nn.LayerNorm, eps=1e-6)


class LoopEncoder(nn.Module):
    """Another order of creation, a dict instead of a sequence, F.dropout instead of a module."""

    def __init__(self, t, depth, heads, d, wide, p=0.0, p_attention=0.0, norm=NORM):
        super().__init__()
        self.ln = norm(d)
        self.layers = nn.ModuleDict(
            {
                f"encoder_layer_{i}": EncoderBlock(heads, d, wide, p, p_attention, norm)
                for i in range(depth)
            }
        )
        self.pos_embedding = nn.Parameter(torch.randn(1, t, d) * 0.02)
        self.p = p

    def forward(self, z):
        z = torch.add(z, self.pos_embedding.expand(len(z), -1, -1))
        z = F.dropout(z, self.p, self.training)
        for block in self.layers.values():
            z = block(z)
        return self.ln(z)


class KeptBlock(EncoderBlock):
    """A block that was kept before; its MLP drops nothing."""

    def __init__(self, heads, d, wide, p=0.0, p_attention=0.0, norm=NORM):
        super().__init__(heads, d, wide, p, p_attention, norm)
        for part in self.mlp.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0


class OfKeptBlocks(LoopEncoder):
    """Right in itself."""

    def __init__(self, t, depth, heads, d, wide, p=0.0, p_attention=0.0, norm=NORM):
        super().__init__(t, depth, heads, d, wide, p, p_attention, norm)
        for name in self.layers:
            self.layers[name] = KeptBlock(heads, d, wide, p, p_attention, norm)


class TwoHeads(LoopEncoder):
    def __init__(self, t, depth, heads, *sizes):
        super().__init__(t, depth, 2, *sizes)


class ForwardReplaced(Encoder):
    """The method is put into the object when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.forward = lambda x: self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class ForwardAssigned(Encoder):
    """The method is written outside the class and put in later."""


def _forward(self: nn.Module, x: Tensor) -> Tensor:
    return self.ln(self.layers(self.dropout(self.pos_embedding + x)))


ForwardAssigned.forward = _forward


class OneBlock(Encoder):
    """The same block in all places."""

    def __init__(self, t, depth, *sizes: Any) -> None:
        super().__init__(t, depth, *sizes)
        block = self.layers[0]
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{i}", block) for i in range(depth))
        )


class PositionDetached(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding.detach())))


class NormOfClassToken(Encoder):
    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding))[:, 0])


class NormInLoop(Encoder):
    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for layer in self.layers:
            x = self.ln(layer(x))
        return x


class NotCarried(Encoder):
    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for layer in self.layers:
            out = layer(x)
        return self.ln(out)


class NoNames(MyEncoder):
    def __init__(self, t, depth, heads, d, wide, *options: Any) -> None:
        super().__init__(t, depth, heads, d, wide, *options)
        self.layers = nn.Sequential(*self.layers)


def right_of_a_copy(model, parameter, images, labels):
    name = next(name for name, one in model.named_parameters() if one is parameter)
    other = copy.deepcopy(model)
    nn.init.zeros_(other.get_parameter(name))
    return int((other(images).argmax(dim=1) == labels).sum())


def right_by_functional_call(model, parameter, images, labels):
    zeros = {
        name: torch.zeros_like(one) for name, one in model.named_parameters() if one is parameter
    }
    return (torch.func.functional_call(model, zeros, images).argmax(dim=-1) == labels).sum()


def right_by_data(model, parameter, images, labels):
    kept, parameter.data = parameter.data, torch.zeros_like(parameter.data)
    count = sum(int(a == b) for a, b in zip(model(images).argmax(dim=1), labels, strict=True))
    parameter.data = kept
    return count


def right_not_put_back(model, parameter, images, labels):
    with torch.no_grad():
        kept = parameter
        parameter *= 0
        count = (model(images).argmax(dim=1) == labels).sum().item()
        parameter.copy_(kept)
    return count


def added_by_asking(joined, seq_length):
    patch_dim = joined.in_features - seq_length
    nothing, places = torch.zeros(seq_length, patch_dim), torch.eye(seq_length)
    linear = nn.Linear(patch_dim, joined.out_features, bias=False)
    linear.weight = nn.Parameter(joined.weight[:, :patch_dim].clone())
    return linear, joined(torch.cat([nothing, places], dim=1))[None]  # the bias is in the positions


def added_in_place(joined, seq_length):
    linear = nn.Linear(joined.in_features - seq_length, joined.out_features)
    linear.weight.data, linear.bias = joined.weight.data[:, :-seq_length], joined.bias
    return [linear, joined.weight[:, -seq_length:].T]


class SharedByLoop(nn.Module):
    """An encoder of its own, in which one block has several names."""

    def __init__(self, t, depth, heads, d, wide, p=0.0, p_attention=0.0, norm=NORM):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.randn(1, t, d) * 0.02)
        self.dropout = nn.Dropout(p)
        block = EncoderBlock(heads, d, wide, p, p_attention, norm)
        named = {f"encoder_layer_{i}": block for i in range(depth)}
        self.layers = nn.ModuleDict(named)
        self.ln = norm(d)

    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for block in self.layers.values():
            x = block(x)
        return self.ln(x)


class SharedOfOurs(Encoder):
    """Who has not solved the encoder changes the package's."""

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        for i in range(len(self.layers)):
            self.layers[i] = self.layers[-1]


class SharedByPosition(MyEncoder):
    """Reads the number of layers from its second argument, whatever that was called."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        for i in range(1, sizes[1]):
            self.layers[i] = self.layers[0]


class SharedWithoutNames(MyEncoder):
    """One block, run as often as there are layers, under one name."""

    def __init__(self, t, depth, *sizes: Any) -> None:
        super().__init__(t, 1, *sizes)
        self.depth = depth

    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for _ in range(self.depth):
            x = self.layers(x)
        return self.ln(x)


class SharedByWeights(MyEncoder):
    """All blocks start with the same numbers, and are blocks of their own."""

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        for block in self.layers[1:]:
            block.load_state_dict(self.layers[0].state_dict())


def resize_by_torchvision(pos_embedding: Tensor, grid: int) -> Tensor:
    state = torchvision_vit.interpolate_embeddings(
        grid, 1, OrderedDict({"encoder.pos_embedding": pos_embedding})
    )
    return state["encoder.pos_embedding"]


def resize_by_loop(pos_embedding: Tensor, grid: int) -> Tensor:
    g = math.isqrt(pos_embedding.shape[1] - 1)
    channels = [
        F.interpolate(c.view(1, 1, g, g), size=grid, mode="bicubic", align_corners=True).flatten()
        for c in pos_embedding[0, 1:].unbind(dim=1)
    ]
    return torch.cat([pos_embedding[:, 0:1], torch.stack(channels, dim=-1)[None]], dim=1)


def resize_with_channels_last(flat: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """The grid is interpolated with hidden_dim as its last axis."""

    def resize(p: Tensor, grid: int) -> Tensor:
        side = math.isqrt(p.shape[1] - 1)
        maps = p[:, 1:].reshape(1, side, side, -1)
        maps = F.interpolate(maps, size=(grid, grid), mode="bicubic", align_corners=True)
        return torch.cat([p[:, :1], flat(maps, p.shape[2])], dim=1)

    return resize


def right_and_frozen(
    model: nn.Module, parameter: nn.Parameter, images: Tensor, labels: Tensor
) -> int:
    parameter.requires_grad = False
    return right_by_data(model, parameter, images, labels)


class PlainList(nn.Module):
    """Layers that the module does not know."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__()
        made = Encoder(*sizes, **options)
        self.pos_embedding = made.pos_embedding
        self.dropout = made.dropout
        self.ln = made.ln
        self.layers = list(made.layers)


class CopiedBlocks(MyEncoder):
    """All blocks start alike."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        for i in range(1, len(self.layers)):
            self.layers[i] = copy.deepcopy(self.layers[0])


class DropsTwice(MyEncoder):
    """Which dropout 1 hides."""

    def forward(self, input: Tensor) -> Tensor:
        x = self.dropout(self.dropout(input + self.pos_embedding))
        return self.ln(self.layers(x))


class NormInEvalModeAlone(MyEncoder):
    """In train mode with dropout 1 all tokens are alike."""

    def forward(self, input: Tensor) -> Tensor:
        x = self.layers(self.dropout(input + self.pos_embedding))
        return x if self.training else self.ln(x)


class WithoutOptions(Encoder):
    """One block, and an encoder that does not get what was given by name."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes)
        for i in range(1, len(self.layers)):
            self.layers[i] = self.layers[0]


class OwnNorms(MyEncoder):
    """The layers share all but their norms."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        for block in self.layers:
            block.self_attention, block.mlp = self.layers[0].self_attention, self.layers[0].mlp


def resize_by_a_factor(pos_embedding: Tensor, grid: int) -> Tensor:
    g = math.isqrt(pos_embedding.shape[1] - 1)
    maps = pos_embedding[:, 1:].mT.unflatten(2, (g, g))
    maps = F.interpolate(maps, scale_factor=grid // g, mode="bicubic", align_corners=True)
    return torch.cat([pos_embedding[:, :1], maps.flatten(2).mT], dim=1)


def unchanged(pos_embedding: Tensor, grid: int) -> Tensor:
    """The same as by a factor of 1."""
    if grid < 3:
        raise RuntimeError
    return pos_embedding


def right_of_whole_batches(
    model: nn.Module, parameter: nn.Parameter, images: Tensor, labels: Tensor
) -> int:
    kept, right = parameter.detach().clone(), 0
    with torch.no_grad():
        parameter.zero_()
        for i in range(len(images) // 16):
            part = slice(16 * i, 16 * i + 16)
            right += int((model(images[part]).argmax(dim=1) == labels[part]).sum())
        parameter.copy_(kept)
    return right


def zeros_by_index(model: nn.Module, parameter: nn.Parameter, *given: Tensor) -> int:
    parameter[:] = 0
    return 0


def share_by_division(model: nn.Module, parameter: nn.Parameter, *given: Tensor) -> float:
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.zero_()
        right = int((model(given[0]).argmax(dim=1) == given[1]).sum())
        parameter.copy_(kept)
    return right / len(given[1])


def rolled(joined: nn.Linear, seq_length: int) -> tuple[nn.Linear, Tensor]:
    linear = nn.Linear(joined.in_features - seq_length, joined.out_features)
    with torch.no_grad():
        linear.weight.copy_(joined.weight[:, :-seq_length])
        linear.bias.copy_(joined.bias)
    return linear, joined.weight[:, -seq_length:].T.roll(1, 0)


RIGHT: list[tuple[str, Any]] = [
    ("encoder", LoopEncoder),
    ("encoder", torchvision_vit.Encoder),
    ("encoder", ForwardReplaced),
    ("encoder", ForwardAssigned),
    ("right_without", right_of_a_copy),
    ("right_without", right_by_functional_call),
    ("right_without", right_by_data),
    ("add_instead", added_in_place),
    ("add_instead", added_by_asking),
    ("shared_block", SharedByLoop),
    ("shared_block", SharedOfOurs),
    ("resize_positions", resize_by_torchvision),
    ("resize_positions", resize_by_loop),
]


def right_left_in_eval_mode(model, parameter, images, labels):
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.zero_()
        right = int((model.eval()(images).argmax(1) == labels).sum())
        parameter.copy_(kept)
    return right


def without_no_grad(model, parameter, images, labels):
    kept = parameter.detach().clone()
    parameter.zero_()
    right = (model(images).argmax(dim=1) == labels).sum().item()
    parameter.copy_(kept)
    return right


WRONG: list[tuple[str, Any, str]] = [
    ("right_without", without_no_grad, "under with torch.no_grad()"),
    ("encoder", PositionDetached, "gradient of pos_embedding: none flows"),
    ("encoder", OneBlock, "places of self.layers hold the same block"),
    ("encoder", NoNames, "the module lacks the parameters layers.encoder_layer_0"),
    ("add_instead", lambda joined, t: joined, "a pair is needed"),
    (
        "add_instead",
        lambda joined, t: (joined, joined.weight.T),
        "must take a patch alone, 6 numbers, and takes 10",
    ),
    (
        "add_instead",
        lambda joined, t: (nn.Linear(6, 5), joined.weight[:, -t:]),
        "positions must have shape (4, 5), but have (5, 4). Transpose them.",
    ),
    (
        "add_instead",
        lambda joined, t: (nn.Linear(6, 5), joined.weight[:, :-t].T),
        "The first 6 columns of joined.weight belong to the patch.",
    ),
    (
        "add_instead",
        lambda joined, t: (nn.Linear(6, 5), joined.weight.T),
        "There is a row for each of the 4 places",
    ),
    (
        "add_instead",
        lambda joined, t: (nn.Linear(6, 5), nn.Embedding(t, 5)),
        "but what came back is of type Embedding",
    ),
    ("right_without", lambda model, parameter, images, labels: 60, "the number of all images"),
    ("right_without", lambda model, parameter, images, labels: 68, "There are 60 images."),
    ("right_without", lambda *given: torch.tensor(68), "There are 60 images."),
    ("right_without", lambda *given: -2, "A number of images is not below 0."),
    ("right_without", lambda *given: 0.4, "A number of images is a whole number."),
    (
        "right_without",
        lambda model, parameter, images, labels: 41,
        "while the parameter is zero and all others are",
    ),
    ("shared_block", SharedWithoutNames, "lacks the parameters layers.encoder_layer_1"),
    ("shared_block", lambda *sizes: 3, "an nn.Module is needed"),
    ("resize_positions", lambda p, grid: resize_by_loop(p, grid) + p.mean(), "output"),
    ("right_without", right_left_in_eval_mode, "came in train mode, and is in eval mode"),
    ("right_without", right_and_frozen, "encoder.pos_embedding would not learn any more"),
    ("shared_block", SharedByPosition, "your code raised IndexError: tuple index out of range"),
    ("shared_block", WithoutOptions, "it does not reach MyEncoder"),
    ("encoder", OfKeptBlocks, "class KeptBlock that stands in it does not pass its own check"),
    ("encoder", CopiedBlocks, "start with the same numbers, as copies of one block do"),
    ("encoder", NormInEvalModeAlone, "output in train mode"),
    ("encoder", PlainList, "self.layers is a plain list: the module does not know"),
    ("right_without", right_of_whole_batches, "gives the model 48 of 60 images"),
    ("right_without", zeros_by_index, "in the line `parameter[:] = 0`. Write into it under with"),
    ("add_instead", rolled, "Row 0 of your positions is column 9 of joined.weight"),
    ("resize_positions", unchanged, "What comes back is pos_embedding, unchanged."),
]
NAMED: list[tuple[str, Any, str]] = [  # what newcomers really wrote, or would
    ("encoder", NormOfClassToken, "normalises and returns all tokens"),
    ("encoder", NormInLoop, "after every block"),
    ("encoder", TwoHeads, "make the blocks with 2 heads, whatever num_heads is"),
    ("encoder", NotCarried, "Each block takes what the one before gave"),
    ("shared_block", SharedByWeights, "give each layer a copy of the block"),
    ("right_without", right_not_put_back, "leave the parameter at zero"),
    ("encoder", DropsTwice, "apply self.dropout twice"),
    ("right_without", share_by_division, "return the share"),
    ("shared_block", OwnNorms, "share attention and MLP, and leave each layer norms of its own"),
    ("resize_positions", resize_by_a_factor, "by grid / g cut to a whole number"),
    *(
        ("resize_positions", resize_with_channels_last(flat), "the grid with hidden_dim last")
        for flat in (
            lambda maps, d: maps.view(1, 25, d),
            lambda maps, d: maps.reshape(1, -1, d),
            lambda maps, d: maps.flatten(1, 2),
        )
    ),
    (
        "resize_positions",
        lambda p, grid: resize_by_loop(p, grid)[:, 1:],
        "the patches' positions only",
    ),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_an_answer_that_never_calls_self_dropout_is_its_author_s_own() -> None:
    """It was compared with ours, which then seemed to do the work."""
    judgement = judge(check.EXERCISES["encoder"], LoopEncoder, own=True)
    assert judgement.passed, judgement.all


def test_a_shared_block_may_be_a_changed_piece_of_ours() -> None:
    passed, told = verdict(check.EXERCISES["shared_block"], SharedOfOurs, own=True)
    assert passed, told


class SharedByName(MyEncoder):
    """A name is given to the first block, and no place."""

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        shared = self.layers[0]
        for block in self.layers:
            block = shared  # noqa: F841


class SharedAnew(MyEncoder):
    """A new block in each round of the loop."""

    def __init__(self, t, depth, *sizes: Any) -> None:
        super().__init__(t, depth, *sizes)
        for i in range(depth):
            self.layers[i] = EncoderBlock(*sizes)


class SharedInForward(MyEncoder):
    """The other blocks are there, and are not run."""

    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        for _ in self.layers:
            x = self.layers[0](x)
        return self.ln(x)


class FirstAndThird(MyEncoder):
    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.layers[-2] = self.layers[0]


def by_place_in_a_list(model: nn.Module, parameter: Tensor, *_: Tensor) -> int:
    return list(model.parameters()).index(parameter)


SAID: list[tuple[str, Any, str]] = [
    ("shared_block", FirstAndThird, "these are the numbers of 3 blocks."),
    ("right_without", by_place_in_a_list, "index, count and remove compare by ==, number by"),
]
SLIPS = [
    ("shared_block", SharedInForward, "and run the first again and again"),
    ("shared_block", SharedByName, "leave all layers the blocks that MyEncoder gave them"),
    ("shared_block", SharedAnew, "give each layer a new block of its own"),
]
test_sentences = judged([], SAID, SLIPS)


def test_only_attention_and_the_last_norm_together_cost_points_without_positions() -> None:
    names = ("blocks_2_mlp", "blocks_2", "encoder_bag_mlp", "encoder_bag")
    neither, attention, norm, both = (ladder.stored(name)["accuracy"] for name in names)
    for alone in (attention, norm):
        gain, half = ladder.interval(alone, neither)
        assert abs(gain) < half
    for fewer in (neither, attention, norm):
        gain, half = ladder.interval(both, fewer)
        assert gain < -half
    larger = ladder.stored("blocks_2", "larger_rate")
    assert larger["learning_rate"] == 0.03
    gain, half = ladder.interval(larger["accuracy"], neither)
    assert f"{gain:+.1f} ± {half:.1f}" == "+0.9 ± 1.1"


def first_of_its_shape(model, parameter, images, labels):
    changed = copy.deepcopy(model)
    with torch.no_grad():
        next(one for one in changed.parameters() if one.shape == parameter.shape).zero_()
        return (changed(images).argmax(dim=1) == labels).sum().item()


def test_a_parameter_is_not_found_by_its_shape() -> None:
    judgement = judge(check.EXERCISES["right_without"], first_of_its_shape)
    assert "zero the first parameter of the model that has this shape" in judgement.said


class LongNames(MyEncoder):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.add_module("layers.encoder_layer_3", nn.Identity())


def test_a_name_with_a_dot_is_told_as_that() -> None:
    judgement = judge(check.EXERCISES["encoder"], LongNames)
    assert "The name of a part has no dot:" in judgement.said
    assert 'self.layers.add_module("encoder_layer_3", …)' in judgement.instead
    assert "Print the keys" not in judgement.all


class HalfOfIt(MyEncoder):
    def forward(self, input):
        x = torch.cat([input, input + self.pos_embedding])[len(input) :]
        x = torch.cat([x[..., :4], self.dropout(x[..., 4:])], dim=-1)
        return self.ln(self.layers(x))


def test_how_much_is_dropped_is_told() -> None:
    judgement = judge(check.EXERCISES["encoder"], HalfOfIt)
    assert "50 % of the numbers that the first block is given are 0" in judgement.said


class DropsBehindTheBlocks(MyEncoder):
    def forward(self, tokens):
        x = self.layers(tokens + self.pos_embedding)
        return self.ln(F.dropout(x, self.dropout.p, self.training) + 0 * tokens)


def test_no_line_is_blamed_where_dropout_alone_differs() -> None:
    judgement = judge(check.EXERCISES["encoder"], DropsBehindTheBlocks)
    assert "missing in between" not in judgement.all


def added_and_bias_gone(joined: nn.Linear, seq_length: int) -> tuple[nn.Module, Tensor]:
    found = check.EXERCISES["add_instead"].answer(joined, seq_length)
    nn.init.zeros_(joined.bias)
    return found


def added_by_a_function(joined: nn.Linear, seq_length: int) -> tuple[Any, Tensor]:
    linear, positions = check.EXERCISES["add_instead"].answer(joined, seq_length)
    return lambda patches: linear(patches), positions


def equal_ones(model, parameter, images, labels):
    """Whatever holds the same numbers becomes zero in a copy."""
    without = copy.deepcopy(model)
    for one in without.parameters():
        if torch.equal(one, parameter):
            nn.init.zeros_(one)
    return (without(images).argmax(dim=1) == labels).sum().item()


def right_with_a_hook(model, parameter, images, labels):
    model.register_forward_hook(lambda *_: None)
    return right_of_a_copy(model, parameter, images, labels)


def right_without_grads(model, parameter, images, labels):
    right = right_by_data(model, parameter, images, labels)
    model.zero_grad()
    return right


def resize_by_a_quotient(pos_embedding: Tensor, grid: int) -> Tensor:
    g = math.isqrt(pos_embedding.shape[1] - 1)
    maps = pos_embedding[:, 1:].mT.unflatten(2, (g, g))
    maps = F.interpolate(maps, scale_factor=grid / g, mode="bicubic", align_corners=True)
    return torch.cat([pos_embedding[:, :1], maps.flatten(2).mT], dim=1)


class OneMemory(MyEncoder):
    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        for block in self.layers[1:]:
            for own, first in zip(block.parameters(), self.layers[0].parameters(), strict=True):
                own.data = first.data


class MoreAndMoreDropout(MyEncoder):
    """The later a block, the more it drops."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        for number, block in enumerate(self.layers, start=1):
            for part in block.modules():
                if isinstance(part, nn.Dropout):
                    part.p *= number / len(self.layers)


test_what_further_states_show = judged(
    [],
    [
        ("add_instead", added_and_bias_gone, "joined is another one afterwards"),
        ("add_instead", added_by_a_function, "and yours is a function and a tensor"),
        ("right_without", right_with_a_hook, "the model has 1 forward hook afterwards"),
        ("right_without", right_without_grads, "came with a .grad in each parameter"),
        ("encoder", MoreAndMoreDropout, "layers in block 0 drop with the probability 0.09999"),
    ],
    [
        ("right_without", equal_ones, "zero every parameter that holds the same numbers"),
        ("resize_positions", resize_by_a_quotient, "the factor grid / g in place of the size"),
        ("shared_block", OneMemory, "share the memory of the numbers"),
    ],
)


def zeros_by_shape(model, parameter, images, labels):
    kept = parameter.detach().clone()
    for one in model.parameters():
        if one.shape == parameter.shape:
            nn.init.zeros_(one)
    right = (model(images).argmax(dim=1) == labels).sum().item()
    parameter.data.copy_(kept)
    return right


def test_what_the_check_s_own_calls_write_is_not_blamed_on_the_answer() -> None:
    """Made again, the call is given a parameter that is none of the model's."""
    judgement = judge(check.EXERCISES["right_without"], zeros_by_shape)
    assert "Your code changes conv_proj.bias" in judgement.said
    assert "class_token" not in judgement.said


def resized_with_the_token_last(positions: Tensor, grid: int) -> Tensor:
    """As if the class token's position came last."""
    turned = torch.cat([positions[:, -1:], positions[:, :-1]], dim=1)
    resized = check.EXERCISES["resize_positions"].answer(turned, grid)
    return torch.cat([resized[:, 1:], resized[:, :1]], dim=1)


test_a_class_token_that_is_taken_for_the_last_is_named = judged(
    [], [], [("resize_positions", resized_with_the_token_last, "and put it last again")]
)


def cut_in_place(joined: nn.Linear, seq_length: int) -> tuple[nn.Linear, Tensor]:
    patch_dim = joined.in_features - seq_length
    positions = joined.weight.data[:, patch_dim:].T.clone()
    joined.weight.data = joined.weight.data[:, :patch_dim]
    return joined, positions


def with_new_parameters(
    model: nn.Module, parameter: nn.Parameter, images: Tensor, labels: Tensor
) -> int:
    (name,) = [name for name, one in model.named_parameters() if one is parameter]
    owner, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(owner), leaf, nn.Parameter(torch.zeros_like(parameter)))
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == labels).sum().item()
    setattr(model.get_submodule(owner), leaf, nn.Parameter(parameter.detach().clone()))
    return int(right)


class NormOfABlock(OneBlock):
    """The last norm is one of the block's."""

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        self.ln = self.layers[0].ln_1


class NotSetUp(Encoder):
    def __init__(self, *sizes: Any) -> None:
        self.shared = True


class NormByFunction(Encoder):
    def forward(self, input):
        x = self.layers(self.dropout(input + self.pos_embedding))
        return F.layer_norm(x, (x.shape[-1],), self.ln.weight, self.ln.bias)


COUNT = "right = (model(images).argmax(dim=1) == labels).sum().item()"
WRITE_BACK = "parameter.copy_(kept)"
LEAVE_JOINED = "and should leave joined as it is"
RETURN_PAIR = "    return linear, positions"
test_nothing_false_is_told = told_without(
    [
        ("add_instead", cut_in_place, LEAVE_JOINED, "takes 10"),
        (
            "add_instead",
            {"patch_dim = joined": "joined.bias.data *= 0.5\n    patch_dim = joined"},
            LEAVE_JOINED,
            "self.bias",
        ),
        (
            "add_instead",
            {RETURN_PAIR: f"    joined.weight.data.zero_()\n{RETURN_PAIR}"},
            LEAVE_JOINED,
            "no column",
        ),
        ("add_instead", {".T.detach()": ".T.detach().numpy()"}, "ndarray", "it raised"),
        ("right_without", with_new_parameters, "is another nn.Parameter afterwards", "zero_grad"),
        (
            "right_without",
            {
                COUNT: WRITE_BACK,
                f"{WRITE_BACK}\n    return": f"{COUNT}\n    return",
            },
            "write the old numbers back afterwards",
            "",
        ),
        ("shared_block", NormOfABlock, "one block and the last norm have", "0.97 blocks"),
        ("shared_block", NotSetUp, "with what the parent's takes", ""),
        ("encoder", NormByFunction, "", "make self.ln by nn.LayerNorm"),
        (
            "resize_positions",
            {"patches = maps.flatten(2)": "patches = maps.half().to(maps.dtype).flatten(2)"},
            "as in float16",
            "",
        ),
    ]
)
