"""Exercise: the whole Vision Transformer, figure 1 of Dosovitskiy et al. 2020."""

import inspect
import io
import math
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import Encoder as MyEncoder
from mnist_vit.model import VisionTransformer

from ..checking import (
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    joined,
    make,
    random,
    randomise,
    refused_part,
    start_values,
)
from ..nb05_encoder import encoder


class MyVisionTransformer(nn.Module):
    """(n, in_channels, image_size, image_size) -> (n, num_classes)."""

    def __init__(
        self,
        image_size,
        patch_size,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout=0.0,
        attention_dropout=0.0,
        num_classes=1000,
        representation_size=None,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        in_channels=3,
        print_shapes=False,
    ):
        super().__init__()
        self.print_shapes = print_shapes
        p = patch_size
        self.conv_proj = nn.Conv2d(in_channels, hidden_dim, kernel_size=p, stride=p)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        seq_length = (image_size // p) ** 2 + 1
        sizes = (seq_length, num_layers, num_heads, hidden_dim, mlp_dim)
        self.encoder = MyEncoder(*sizes, dropout, attention_dropout, norm_layer)
        heads = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(heads)

        # torchvision's start values: the class head begins at zero
        std = math.sqrt(1 / (in_channels * p * p))
        nn.init.trunc_normal_(self.conv_proj.weight, std=std)
        nn.init.zeros_(self.conv_proj.bias)
        if representation_size is not None:
            std = math.sqrt(1 / hidden_dim)
            nn.init.trunc_normal_(heads["pre_logits"].weight, std=std)
            nn.init.zeros_(heads["pre_logits"].bias)
        nn.init.zeros_(heads["head"].weight)
        nn.init.zeros_(heads["head"].bias)

    def forward(self, x):
        self.tell("Input", x.shape)
        # (n, in_channels, image_size, image_size) -> (n, hidden_dim, n_h, n_w)
        x = self.conv_proj(x)
        self.tell("After Projection", x.shape)
        # (n, hidden_dim, n_h, n_w) -> (n, hidden_dim, n_h * n_w)
        x = x.flatten(2)
        self.tell("After Reshape", x.shape)
        # (n, hidden_dim, n_h * n_w) -> (n, n_h * n_w, hidden_dim)
        x = x.transpose(1, 2)
        self.tell("After Permute", x.shape)
        self.tell("Batch Size", x.shape[0])
        token = self.class_token.expand(x.shape[0], -1, -1)
        self.tell("Batch Class Token", token.shape)
        # the class token in front: (n, 1 + n_h * n_w, hidden_dim)
        x = torch.cat([token, x], dim=1)
        self.tell("Encoder Input", x.shape)
        x = self.encoder(x)
        self.tell("Encoder Output", x.shape)
        # the class token alone: (n, hidden_dim)
        x = x[:, 0]
        self.tell("Only Batch Class Token", x.shape)
        x = self.heads(x)
        self.tell("Output", x.shape)
        return x

    def tell(self, label, shape):
        if self.print_shapes:
            print(f"{label}: {shape}")


LABELS = (
    "Input",
    "After Projection",
    "After Reshape",
    "After Permute",
    "Batch Size",
    "Batch Class Token",
    "Encoder Input",
    "Encoder Output",
    "Only Batch Class Token",
    "Output",
)

WHEN = (  # what each line is about
    "the pictures that are given",
    "what conv_proj gives",
    "the two axes of the patches made one",
    "the numbers of a token as the last axis",
    "how many pictures there are",
    "the class token, once for each picture",
    "the class token and the patches, one behind the other",
    "what the encoder gives",
    "token 0 of what the encoder gives",
    "what the heads give",
)

LINES = (  # for the pictures that the check gives
    "Input: torch.Size([3, 2, 12, 12])",
    "After Projection: torch.Size([3, 8, 3, 3])",
    "After Reshape: torch.Size([3, 8, 9])",
    "After Permute: torch.Size([3, 9, 8])",
    "Batch Size: 3",
    "Batch Class Token: torch.Size([3, 1, 8])",
    "Encoder Input: torch.Size([3, 10, 8])",
    "Encoder Output: torch.Size([3, 10, 8])",
    "Only Batch Class Token: torch.Size([3, 8])",
    "Output: torch.Size([3, 5])",
)


# other numbers of blocks and of heads: none can be taken for the other
SIZES = (12, 4, 2, 4, 8, 16)
OTHER_SIZES = (8, 2, 1, 2, 8, 16)
OTHER_OPTIONS: dict[str, Any] = {"num_classes": 3, "representation_size": 4, "in_channels": 1}


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """9 patches but 8 numbers a token, 3 images, 2 channels: no size can be taken for another."""
    for representation_size in (None, 6):
        options: dict[str, Any] = {
            "num_classes": 5,
            "representation_size": representation_size,
            "in_channels": 2,
        }
        weights = randomise(VisionTransformer(*SIZES, **options), seed=6)
        module = _built(answer, options)
        _positions(module)
        _projection(module)
        copy_weights(weights, module)
        for mode in ("eval", "train"):
            module.train(mode == "train")
            images = random(3, 2, 12, 12, seed=7).requires_grad_()
            logits = _logits(module, images)
            yield f"output in {mode} mode", logits
            if mode == "eval":
                yield from gradients(logits, images=images)
                for part in ("conv_proj", "class_token", "encoder", "heads"):
                    yield _part_gradient(logits, module, part)
    yield from _arguments_handed_on(answer, options, weights)
    other = _built(answer, OTHER_OPTIONS, OTHER_SIZES)
    copy_weights(randomise(VisionTransformer(*OTHER_SIZES, **OTHER_OPTIONS), seed=8), other)
    images = random(2, 1, 8, 8, seed=9)
    yield "output of a model of other sizes", _logits(other.eval(), images)
    yield "lines that print_shapes prints", _printed(answer, options)
    options["representation_size"] = 80
    sizes = (64, 8, 1, 2, 64, 128)
    yield start_values(_built(answer, options, sizes), VisionTransformer(*sizes, **options))


def _arguments_handed_on(
    answer: Any, options: dict[str, Any], weights: nn.Module
) -> Iterator[tuple[str, Any]]:
    """What dropout, attention_dropout and norm_layer do; with probability 1 it is no chance."""
    images = random(3, 2, 12, 12, seed=7)
    for name, value in (
        ("dropout", 1.0),
        ("attention_dropout", 1.0),
        ("norm_layer", partial(nn.LayerNorm, eps=0.5)),
    ):
        module = _built(answer, options | {name: value})
        copy_weights(weights, module)
        if name == "dropout":
            yield "output with dropout 1, in eval mode", module.eval()(images)
            yield drops_before_the_blocks(module, images)
        shown = "another norm_layer" if name == "norm_layer" else f"{name} 1, in train mode"
        yield f"output with {shown}", _logits(module.train(), images)


def _printed(answer: Any, options: dict[str, Any]) -> str:
    """The lines of a call with ``print_shapes``.

    Models that were kept before it was asked for do not take it, and are not asked.
    """
    if "print_shapes" not in inspect.signature(answer).parameters:
        answer = MyVisionTransformer
    images, out, silent = random(3, 2, 12, 12, seed=7), io.StringIO(), io.StringIO()
    with redirect_stdout(silent):
        _built(answer, options)(images)
    if lines := silent.getvalue().splitlines():
        raise Mistake(
            f"without print_shapes=True your model prints {lines[0]!r:.80}.",
            "It prints only where print_shapes is true: the default is False.",
        )
    module = _built(answer, options | {"print_shapes": True})
    with redirect_stdout(out):
        module(images)
    lines = out.getvalue().splitlines()
    told = [line.partition(":")[0] for line in lines]
    for number, (own, label) in enumerate(zip(told, LABELS, strict=False), start=1):
        if own != label and len(told) == len(LABELS):
            raise Mistake(
                f"with print_shapes=True line {number} has the label {own!r:.60}.",
                f"It must be {label!r}: label, colon, and then what it tells of.",
            )
    if told != list(LABELS):
        raise Mistake(
            f"with print_shapes=True {len(lines)} lines are printed, which are not the ten needed.",
            f"Each has a label, a colon and the shape. The labels: {', '.join(LABELS)}.",
        )
    for own, right, when in zip(lines, LINES, WHEN, strict=True):
        if own != right:
            raise Mistake(
                f"with print_shapes=True one line is {own!r:.80}.",
                f"It must be {right!r} here: {when}.",
            )
    again = io.StringIO()
    with redirect_stdout(again):
        module(images)
    if again.getvalue() != out.getvalue():
        count = len(again.getvalue().splitlines())
        raise Mistake(
            "with print_shapes=True the ten lines are right in the first call, and in the second"
            f" {count} lines come, not the same ten.",
            "They are printed for each call: forward changes nothing in self.",
        )
    return out.getvalue()


def _built(answer: Any, options: dict[str, Any], sizes: tuple[int, ...] = SIZES) -> Any:
    """The learner's model; what its ``__init__`` cannot take is told."""
    try:
        return make(answer, *sizes, **options)
    except TypeError as error:
        for name in options:
            if f"unexpected keyword argument '{name}'" in str(error):
                raise Mistake(
                    f"__init__ must take {name}, as the stub's does: keep the arguments of the"
                    " stub."
                ) from error
        raise


def _logits(module: nn.Module, images: Tensor) -> Any:
    try:
        return module(images)
    except RuntimeError as error:
        first = str(error)
        stride = getattr(getattr(module, "conv_proj", None), "stride", (4, 4))
        if "must match" in first and stride != (4, 4):
            raise Mistake(
                f"with patch_size=4 your conv_proj has the stride {stride}, and the shapes of what"
                " follows do not fit together.",
                "Patches do not overlap: stride=patch_size.",
            ) from error
        if "Sizes of tensors must match" in first and (
            "size 1 but got size 3" in first or "size 3 but got size 1 " in first
        ):
            raise Mistake(
                "torch.cat needs a class token for each picture, and there is one for all of them.",
                "self.class_token.expand(x.shape[0], -1, -1) makes n of it.",
            ) from error
        if "Sizes of tensors must match" in first and (
            "size 8 but got size 9" in first or "size 9 but got size 8" in first
        ):
            raise Mistake(
                "the class token has 8 numbers, and the tokens beside it have 9, which is the "
                "number of patches.",
                "After flatten(2) the numbers of a token are axis 1: transpose(1, 2) makes them "
                "the last one.",
            ) from error
        raise


def _part_gradient(logits: Tensor, module: nn.Module, part: str) -> tuple[str, Tensor | None]:
    """The gradients of all parameters of a part, one after the other by name."""
    named = {name: p for name, p in sorted(module.named_parameters()) if name.split(".")[0] == part}
    return joined(part, *gradients(logits, **named))


def _positions(module: nn.Module) -> None:
    """Raise Mistake where there is not one position for each patch and the class token."""
    found = getattr(getattr(module, "encoder", None), "pos_embedding", None)
    if isinstance(found, Tensor) and found.dim() == 3 and found.shape[1] != 10:
        raise Mistake(
            f"for pictures of 12 × 12 pixels in patches of 4 your encoder has {found.shape[1]}"
            " positions.",
            "There are 3 × 3 patches, and the class token: 10.",
        )
    if isinstance(found, Tensor) and found.dim() == 3 and found.shape[2] != 8:
        raise Mistake(
            f"with hidden_dim=8 each position of your encoder has {found.shape[2]} numbers.",
            "It is added to a token, and so it has hidden_dim numbers. The encoder takes"
            " seq_length, num_layers, num_heads, hidden_dim, mlp_dim, in this order.",
        )


def _projection(module: nn.Module) -> None:
    """Raise Mistake where the convolution does not make a token of each patch."""
    found = getattr(module, "conv_proj", None)
    if not isinstance(found, nn.Conv2d):
        return
    sizes = (found.in_channels, found.out_channels, found.kernel_size)
    if sizes != (2, 8, (4, 4)):
        raise Mistake(
            f"with in_channels=2, hidden_dim=8 and patch_size=4 your conv_proj goes from {sizes[0]}"
            f" to {sizes[1]} channels, with windows of {sizes[2]}.",
            "It goes from in_channels to hidden_dim channels; kernel_size and stride are"
            " patch_size.",
        )


def notice(answer: Any) -> Mistake | None:
    """What the encoder is given, and what of its tokens goes to the heads."""
    options: dict[str, Any] = {"num_classes": 5, "in_channels": 2}
    module = make(answer, *SIZES, **options).eval()
    copy_weights(randomise(VisionTransformer(*SIZES, **options), seed=6), module)
    on_the_way = noticed_on_the_way(module, random(3, 2, 12, 12, seed=7))
    return on_the_way or refused_part(module.encoder, encoder.EXERCISE)


def drops_before_the_blocks(module: Any, images: Tensor) -> tuple[str, Any]:
    """The output where only the encoder itself is in train mode; its blocks drop nothing."""
    module.train()
    if isinstance(layers := getattr(module.encoder, "layers", None), nn.Module):
        layers.eval()
    return "output with dropout 1 in the encoder alone, not in its blocks", module(images)


def _given_to_the_first_block(model: Any, images: Tensor) -> Tensor | None:
    """The tokens that the first block is given; None if it is not called."""
    given: list[Tensor] = []
    block = next(iter(model.encoder.layers.children()))
    with block.register_forward_pre_hook(lambda _, args: given.append(args[0])):
        model(images)
    return given[0] if given else None


@torch.no_grad()
def noticed_before_the_blocks(module: Any, ours: Any, images: Tensor) -> Mistake | None:
    """Which tokens the first block is given in eval mode, where they are not the right ones.

    Args:
        module, ours: the answer's model and ours, with the same weights.
    """
    own, right = (_given_to_the_first_block(model.eval(), images) for model in (module, ours))
    if own is None or right is None:
        return None
    if own.shape != right.shape:
        return None
    are_right = [torch.allclose(own[:, k], right[:, k], atol=1e-5) for k in range(own.shape[1])]
    if all(are_right):
        return None
    instead = (
        "Each token, the class token too, has its position added once: tokens +"
        " self.encoder.pos_embedding, as self.encoder(x) does."
    )
    if all(are_right[1:]):
        return Mistake(
            "Of what the first block is given, all but the class token is right.", instead
        )
    if are_right[0]:
        return Mistake("Of what the first block is given, the class token alone is right.", instead)
    return Mistake("What the first block is given is not right, the class token neither.", instead)


@torch.no_grad()
def noticed_dropout(module: Any, ours: Any, images: Tensor) -> Mistake | None:
    """What the first block is given with dropout 1, in train mode, where the rest is right.

    Args:
        module, ours: the answer's model and ours, with the same weights.
    """
    own, right = (_given_to_the_first_block(model.train(), images) for model in (module, ours))
    if own is None or right is None:
        return None
    if own.shape != right.shape or torch.allclose(own, right, atol=1e-5):
        return None
    return Mistake(
        "With dropout 1, in train mode, every number that the first block is given should be 0, and"
        " yours are not.",
        "self.encoder.dropout comes once, between the positions and the first block:"
        " self.encoder(x) does it, with the probability that the encoder was made with.",
    )


def dropout_slips(tokens: str, encode: str) -> Iterator[Slip]:
    """Slips of those who take the encoder apart, and lose its dropout, or put it elsewhere.

    Args:
        tokens: the text of what the encoder is given.
        encode: the line that calls it, ``x = …``.
    """
    placed = f"{tokens} + self.encoder.pos_embedding"
    instead = (
        "The encoder does four steps: positions, its dropout, blocks, norm. Call it, or do all four"
        " in this order"
    )
    for given, end, did in (
        (placed, "self.encoder.ln(self.encoder.layers(x))", "without its dropout"),
        (
            placed,
            "self.encoder.ln(self.encoder.dropout(self.encoder.layers(x)))",
            "with its dropout behind the blocks",
        ),
        (
            placed,
            "self.encoder.dropout(self.encoder.ln(self.encoder.layers(x)))",
            "with its dropout behind the last norm",
        ),
        (
            f"self.encoder.dropout({tokens}) + self.encoder.pos_embedding",
            "self.encoder.ln(self.encoder.layers(x))",
            "with its dropout before the positions",
        ),
        (
            f"nn.functional.dropout({placed}, self.encoder.dropout.p)",
            "self.encoder.ln(self.encoder.layers(x))",
            "with F.dropout, which drops in eval mode, too",
        ),
    ):
        yield Slip(
            {encode: f"x = {given}\n        x = {end}"},
            f"do the encoder's steps yourself, {did}",
            instead,
        )


@torch.no_grad()
def noticed_on_the_way(module: Any, images: Tensor) -> Mistake | None:
    """What its convolution, its encoder and its heads are given, the first that is not right."""
    seen: dict[str, list[Tensor]] = {"pictures": [], "tokens": [], "encoded": [], "read": []}
    module.conv_proj.register_forward_pre_hook(lambda _, given: seen["pictures"].append(given[0]))
    module.encoder.register_forward_pre_hook(lambda _, given: seen["tokens"].append(given[0]))
    module.encoder.register_forward_hook(lambda _, given, output: seen["encoded"].append(output))
    module.heads.register_forward_pre_hook(lambda _, given: seen["read"].append(given[0]))
    module(images)
    pictures, read = seen["pictures"], seen["read"]
    if len(pictures) == 1 and pictures[0].shape == images.shape and pictures[0].ne(images).any():
        return Mistake(
            "What conv_proj is given are not the pictures as they came.",
            "Nothing changes them before it: self.conv_proj(x).",
        )
    if len(seen["tokens"]) > 1:
        return Mistake(
            f"Your encoder is called {len(seen['tokens'])} times for one batch.",
            "Once is enough: it holds all blocks, and its call applies them one after the other.",
        )
    patches = module.conv_proj(images).flatten(2).mT
    right = torch.cat([module.class_token.expand(len(images), -1, -1), patches], dim=1)
    if not seen["tokens"] or seen["tokens"][0].shape != right.shape:
        return None  # whoever calls the encoder's parts, or has another number of tokens
    if not torch.allclose(seen["tokens"][0], right, atol=1e-5):
        return _noticed_tokens(seen["tokens"][0], right)
    token = seen["encoded"][0][:, 0]
    is_one = len(read) == 1 and read[0].shape == token.shape
    if is_one and not torch.allclose(read[0], token, atol=1e-5):
        return Mistake(
            "What your encoder is given is right. What self.heads is given is not token 0 of what"
            " the encoder gives.",
            "It is that token as it is, x[:, 0]: no norm, no activation, nothing added.",
        )
    return None


def _noticed_tokens(given: Tensor, right: Tensor) -> Mistake:
    """What can be said of tokens that are not the right ones."""
    order = []
    for place in range(given.shape[1]):
        distances = (right - given[:, place : place + 1]).abs().amax(dim=(0, 2))
        if distances.min() < 1e-5:
            order.append(int(distances.argmin()))
    if sorted(order) == list(range(given.shape[1])):
        told = ", ".join(str(token) if token else "the class token" for token in order)
        return Mistake(
            f"Your encoder is given the right tokens in another order: {told}, where the numbers"
            " count the patches row by row, from 1.",
            "The class token comes first, then patch 1, 2, 3 and so on: flatten(2), which goes row"
            " by row, then transpose(1, 2).",
        )
    rows = "Between conv_proj and the encoder nothing changes a number: flatten(2), transpose(1, 2)"
    rows += ", and self.class_token in front."
    if torch.allclose(given[:, 0], right[:, 0], atol=1e-5):
        return Mistake(
            "Token 0 of what your encoder is given is the class token, as it should be. The others"
            " are not the tokens that conv_proj makes of the patches, row by row.",
            rows,
        )
    if torch.allclose(given[:, 1:], right[:, 1:], atol=1e-5):
        return Mistake(
            "The patches' tokens that your encoder is given are right. Token 0 is not"
            " self.class_token.",
            rows,
        )
    return Mistake(
        "Your encoder is given as many tokens as it should be. Neither token 0 nor the others are"
        " right.",
        rows,
    )


FLAT, SWAP = "x = x.flatten(2)", "x = x.transpose(1, 2)"
TOKEN, JOIN = (
    "token = self.class_token.expand(x.shape[0], -1, -1)",
    "x = torch.cat([token, x], dim=1)",
)
ENCODE, READ, END = "x = self.encoder(x)", "x = x[:, 0]", "x = self.heads(x)"
LAST = {JOIN: "x = torch.cat([x, token], dim=1)"}

SLIPS = (
    Slip(
        {'            heads["act"] = nn.Tanh()\n': ""},
        "leave out the tanh between pre_logits and head",
        "Two linear layers with nothing between them are one",
    ),
    Slip(
        {"dropout, attention_dropout, norm_layer)": "dropout, attention_dropout)"},
        "do not hand norm_layer on to the encoder",
        "It makes the norms of the blocks and the last one",
    ),
    Slip(
        {"dropout, attention_dropout, norm_layer)": "0.0, 0.0)"},
        "hand none of dropout, attention_dropout and norm_layer on to the encoder",
        "The encoder takes all three, in this order: …, dropout, attention_dropout, norm_layer",
    ),
    *(
        Slip(
            {"dropout, attention_dropout, norm_layer)": f"{given}, norm_layer)"},
            did,
            "The encoder takes both, in this order: …, dropout, attention_dropout, norm_layer",
        )
        for given, did in (
            ("dropout, 0.0", "do not hand attention_dropout on to the encoder"),
            ("0.0, attention_dropout", "do not hand dropout on to the encoder"),
            ("0.0, 0.0", "hand neither dropout nor attention_dropout on to the encoder"),
            ("attention_dropout, dropout", "exchange dropout and attention_dropout"),
        )
    ),
    Slip(
        {"nn.Tanh()": "nn.GELU()"},
        "put a GELU between pre_logits and head",
        "It is tanh",
    ),
    Slip(
        {"nn.Tanh()": "nn.Sigmoid()"},
        "put a sigmoid between pre_logits and head",
        "It is tanh",
    ),
    Slip(
        {"nn.Tanh()": "nn.ReLU()"},
        "put a ReLU between pre_logits and head",
        "It is tanh",
    ),
    Slip(
        {**LAST, READ: "x = x[:, -1]"},
        "put the class token last and take it from there",
        (
            "Each token then gets another token's position embedding. Put the class token,"
            " expanded to the n pictures, first: torch.cat([token, x], dim=1)"
        ),
    ),
    Slip(
        LAST,
        "put the class token last and take token 0, which is then a patch",
        "Put the class token first",
    ),
    Slip({READ: "x = x[:, -1]"}, "take the last token", "The class token comes first: x[:, 0]"),
    Slip(
        {READ: "x = x[:, 1]"},
        "take token 1, the first patch",
        "The class token is token 0: x[:, 0]",
    ),
    Slip(
        {READ: ""},
        "send all tokens to the heads, which gives logits for each token",
        "Only the class token goes there: x[:, 0]",
    ),
    Slip(
        {READ: "x = x.mean(dim=1)"},
        "take the mean over all tokens",
        "Only the class token goes to the heads: x[:, 0]",
    ),
    Slip(
        {READ: "x = x[:, 1:].mean(dim=1)"},
        "take the mean over the patches",
        "Only the class token goes to the heads: x[:, 0]",
    ),
    Slip(
        {FLAT: "x = x.reshape(x.shape[0], -1, x.shape[1])", SWAP: ""},
        "reshape to (n, patches, hidden_dim) without permute",
        "A token must hold all numbers of one patch. Flatten the last two axes first, then swap"
        " the last two: flatten(2).transpose(1, 2)",
    ),
    Slip(
        {SWAP: "x = x.reshape(x.shape[0], -1, x.shape[1])"},
        "reshape to (n, patches, hidden_dim) in place of a permute",
        "A token must hold all numbers of one patch. Swap the two axes: transpose(1, 2)",
    ),
    Slip(
        {FLAT: "x = x.transpose(2, 3).flatten(2)"},
        "count the patches down the columns",
        "Keep the order (row, column) when you flatten the patch axes",
    ),
    Slip(
        {TOKEN: "token = torch.zeros(x.shape[0], 1, x.shape[2])"},
        "put zeros in front and not self.class_token",
        "It starts at zero, but it is a parameter: it is learned",
    ),
    Slip(
        {ENCODE: "x = self.encoder.ln(self.encoder.layers(x))"},
        (
            "apply the encoder's blocks and its norm yourself, without the position embedding and"
            " the encoder's dropout"
        ),
        "Call self.encoder(x): it does all four",
    ),
    *dropout_slips("x", ENCODE),
    Slip(
        {ENCODE: "x = self.encoder(x + self.encoder.pos_embedding)"},
        "add the position embedding before you call the encoder",
        "The encoder adds it itself, so it is there twice",
    ),
    Slip(
        {ENCODE: "x = self.encoder.layers(x + self.encoder.pos_embedding)"},
        (
            "add the positions and apply the blocks yourself, without the encoder's dropout and"
            " last norm"
        ),
        "Call self.encoder(x): it does all of its steps",
    ),
    Slip(
        {ENCODE: "x = self.encoder.layers(x)"},
        "apply only the encoder's blocks, without position embedding and last norm",
        "Call self.encoder(x)",
    ),
    Slip(
        {ENCODE: "x = self.encoder.ln(self.encoder(x))"},
        "normalise once more after the encoder",
        "The encoder ends with its norm already",
    ),
    *(
        Slip(
            {READ: f"x = nn.functional.layer_norm(x[:, 0], x.shape[-1:], eps={eps})"},
            "normalise once more after the encoder, without weight and bias of a norm",
            "The encoder ends with its norm, that of equation 4: take x[:, 0] as it is",
        )
        for eps in ("1e-6", "1e-5")
    ),
    Slip(
        {END: "x = self.heads(x).softmax(dim=-1)"},
        "apply softmax at the end",
        "The model gives logits; the loss makes probabilities of them",
    ),
    Slip(
        {END: "x = self.heads(x).log_softmax(dim=-1)"},
        "apply log_softmax at the end",
        "The model gives logits; the loss makes probabilities of them",
    ),
    Slip(
        {JOIN: ""},
        "leave out the class token",
        "The encoder has a position for it, one more than there are patches",
    ),
    Slip(
        {END: "x = self.heads.head(x)"},
        "call the last layer of the heads alone",
        "With a representation_size the linear layer pre_logits and tanh come before it",
    ),
    Slip(
        {READ: "x = x[0]"},
        "take picture 0",
        "Axis 0 counts the pictures, axis 1 the tokens. The class token is x[:, 0]",
    ),
    *(
        Slip(
            {"num_layers, num_heads, hidden_dim,": f"num_layers, {number}, hidden_dim,"},
            f"make the encoder with {number} heads, whatever num_heads is",
            "Hand num_heads on to it",
        )
        for number in (2, 4)
    ),
    *(
        Slip(
            {"nn.Tanh()": "nn.Identity()", READ: f"x = {act}(x[:, 0])"},
            f"apply {name} to the class token, before the linear layers",
            "What the encoder gives goes to the heads as it is. A tanh comes behind pre_logits, and"
            " only where there is a representation_size",
        )
        for act, name in (
            ("torch.tanh", "tanh"),
            ("nn.functional.gelu", "GELU"),
            ("torch.relu", "ReLU"),
        )
    ),
    Slip(
        {READ: "x = torch.tanh(x[:, 0])"},
        "apply tanh to the class token, too, before the linear layers",
        "tanh comes once, behind pre_logits, and only where there is a representation_size",
    ),
    Slip(
        {END: "x = torch.tanh(self.heads(x))"},
        "apply tanh to the logits",
        "tanh comes behind pre_logits, before the last layer; the logits stay as they are",
    ),
    Slip(
        {"nn.Tanh()": "nn.Identity()", END: "x = torch.tanh(self.heads(x))"},
        "apply tanh to the logits, and none behind pre_logits",
        "tanh comes behind pre_logits, before the last layer; the logits stay as they are",
    ),
    Slip(
        {END: "x = self.heads(x).argmax(dim=-1)"},
        "give the class with the largest logit, by argmax",
        "The model gives the logits themselves: the loss needs them",
    ),
)

EXERCISE = Exercise(
    answer=MyVisionTransformer,
    compare=compare,
    stars=3,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Five steps: conv_proj, make a sequence of it, the class token in front, encoder, heads"
            " on the class token. Write down the shape after each; conv_proj gives (n, hidden_dim,"
            " n_h, n_w), the encoder wants (n, seq_length, hidden_dim)."
        ),
        (
            "From (n, hidden_dim, n_h, n_w) to a sequence: flatten the last two axes, then swap the"
            " last two. The class token is (1, 1, hidden_dim): expand it to the n images, then"
            " torch.cat along dim=1, class token first. The encoder adds the position embedding"
            " itself. The heads take token 0 of what it gives."
        ),
    ),
    same=(
        {
            FLAT: "x = x.reshape(x.shape[0], x.shape[1], -1)",
            SWAP: "x = x.permute(0, 2, 1)",
            TOKEN: "token = self.class_token.repeat(len(x), 1, 1)",
        },
        {
            ENCODE: (
                "x = self.encoder.dropout(x + self.encoder.pos_embedding)\n"
                "        x = self.encoder.ln(self.encoder.layers(x))"
            ),
        },
        {END: "x = self.heads.forward(x)"},
    ),
    tolerance=1e-5,  # the encoder may hold attention from scratch
)
