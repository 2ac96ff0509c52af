"""Exercise: a Vision Transformer for pictures that are not square."""

import math
import traceback
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer as MyVisionTransformer

from ..checking import (
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    make,
    random,
    randomise,
    start_values,
)
from .vision_transformer import (
    dropout_slips,
    drops_before_the_blocks,
    noticed_before_the_blocks,
    noticed_dropout,
    noticed_on_the_way,
)


class MyRectangular(MyVisionTransformer):
    """MyVisionTransformer for pictures of image_size = (height, width) pixels."""

    def __init__(self, image_size, patch_size, *sizes, **options):
        height, width = image_size
        super().__init__(height, patch_size, *sizes, **options)  # as if it were square
        seq_length = 1 + (height // patch_size) * (width // patch_size)
        noise = torch.randn(1, seq_length, self.class_token.shape[2])
        self.encoder.pos_embedding = nn.Parameter(0.02 * noise)

    def forward(self, x):
        # as in MyVisionTransformer: nothing in it asks for height or width
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(len(x), -1, -1)
        x = self.encoder(torch.cat([token, x], dim=1))
        return self.heads(x[:, 0])


PICTURES = ((8, 20), (16, 8), (12, 12))
SIZES = (4, 2, 2, 8, 16)  # without image_size
OPTIONS: dict[str, Any] = {"num_classes": 5, "in_channels": 2}


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Wide, high and square pictures; rows and columns of the patches differ in number."""
    for size in PICTURES:
        options = {**OPTIONS, "representation_size": 7} if size == (12, 12) else OPTIONS
        weights = randomise(MyRectangular(size, *SIZES, **options), seed=6)
        module = _made(answer, size, options)
        _positions(answer, module, size)
        copy_weights(weights, module)
        images = random(3, 2, *size, seed=7).requires_grad_()
        logits = module.eval()(images)
        head = " with representation_size=7" if options is not OPTIONS else ""
        yield f"output for {size[0]} × {size[1]} pixels{head}", logits
        if size == (8, 20):
            learned = {"encoder.pos_embedding": module.encoder.pos_embedding}
            yield from gradients(logits, images=images, **learned)
    yield from _options_handed_on(answer)
    large = ((64, 128), 8, 1, 2, 64, 64)
    reference = MyRectangular(*large, **OPTIONS)
    yield start_values(make(answer, *large, **OPTIONS), reference)


def _options_handed_on(answer: Any) -> Iterator[tuple[str, Any]]:
    """What dropout, attention_dropout and norm_layer do; with probability 1 it is no chance."""
    size = (8, 20)
    weights = randomise(MyRectangular(size, *SIZES, **OPTIONS), seed=8)
    for name, value in (
        ("dropout", 1.0),
        ("attention_dropout", 1.0),
        ("norm_layer", partial(nn.LayerNorm, eps=0.5)),
    ):
        module = _made(answer, size, {**OPTIONS, name: value})
        copy_weights(weights, module)
        if name == "dropout":
            images = random(3, 2, *size, seed=9)
            yield "output with dropout 1, in eval mode", module.eval()(images)
            yield drops_before_the_blocks(module, images)
        shown = "another norm_layer" if name == "norm_layer" else f"{name} 1, in train mode"
        yield f"output with {shown}", module.train()(random(3, 2, *size, seed=9))


def _made(answer: Any, size: tuple[int, int], options: dict[str, Any]) -> Any:
    """The learner's module. Raise Mistake where its parent is given the pair."""
    try:
        return make(answer, size, *SIZES, **options)
    except (TypeError, ValueError) as error:
        own = getattr(getattr(answer, "__init__", None), "__code__", None)
        for frame, _ in traceback.walk_tb(error.__traceback__):
            is_parents = frame.f_code.co_name == "__init__" and frame.f_code is not own
            if is_parents and frame.f_locals.get("image_size") == size:
                raise Mistake(
                    f"the parent's __init__ takes one whole number as image_size, and gets the pair"
                    f" {size}.",
                    "Take the pair apart, give the parent one of its two numbers, and then give"
                    " self.encoder.pos_embedding the shape that the other pictures need.",
                ) from error
        raise


def _patches(size: tuple[int, int]) -> int:
    return (size[0] // SIZES[0]) * (size[1] // SIZES[0])


def _has_patches_alone(answer: Any) -> bool:
    """Whether there are as many positions as patches, whatever the size of the pictures is."""
    for size in PICTURES:
        try:
            found = answer(size, *SIZES, **OPTIONS).encoder.pos_embedding.shape[1]
        except Exception:  # the learner's code may raise anything
            return False
        if found != _patches(size):
            return False
    return True


def _positions(answer: Any, module: Any, size: tuple[int, int]) -> None:
    """Raise Mistake where there is not one position for each patch and the class token."""
    found = getattr(getattr(module, "encoder", None), "pos_embedding", None)
    rows, columns = size[0] // SIZES[0], size[1] // SIZES[0]
    needed = 1 + _patches(size)
    if isinstance(found, Tensor) and found.dim() == 3 and found.shape[1] != needed:
        side = math.isqrt(max(0, found.shape[1] - 1))
        like = ""
        if found.shape[1] == _patches(size) and _has_patches_alone(answer):
            like = ", one for each patch and none for the class token"
        elif 1 + side**2 == found.shape[1]:
            like = f", as many as a square of {side} × {side} patches needs"
        raise Mistake(
            f"your model has {found.shape[1]} positions for pictures of {size[0]} × {size[1]}"
            f" pixels in patches of {SIZES[0]}{like}.",
            f"There are {rows} rows of {columns} patches, and the class token: {needed}.",
        )
    width = SIZES[3]
    if isinstance(found, Tensor) and found.dim() == 3 and found.shape[2] != width:
        raise Mistake(
            f"with hidden_dim={width} each position of your model has {found.shape[2]} numbers, for"
            f" pictures of {size[0]} × {size[1]} pixels.",
            "It is added to a token, and so it has hidden_dim numbers, as many as the class token:"
            " (1, 1 + rows · columns, hidden_dim).",
        )


def notice(answer: Any) -> Mistake | None:
    """What the encoder is given, and what of its tokens goes to the heads."""
    size = (8, 20)
    module = make(answer, size, *SIZES, **OPTIONS).eval()
    right = randomise(MyRectangular(size, *SIZES, **OPTIONS), seed=6)
    copy_weights(right, module)
    images = random(3, 2, *size, seed=7)
    seen = noticed_on_the_way(module, images) or noticed_before_the_blocks(module, right, images)
    if seen is not None:
        return seen
    weights = randomise(MyRectangular(size, *SIZES, **OPTIONS, dropout=1.0), seed=6)
    module = make(answer, size, *SIZES, **OPTIONS, dropout=1.0)
    copy_weights(weights, module)
    return noticed_dropout(module, weights, images)


CUT = "self.conv_proj(x).flatten(2)"
ENCODE = "x = self.encoder(torch.cat([token, x], dim=1))"
END = "self.heads(x[:, 0])"

PARENT = "super().__init__(height, patch_size, *sizes, **options)"

SLIPS = (
    *(
        Slip(
            {
                PARENT: (
                    f'own = {{k: v for k, v in options.items() if k not in ("{names}",)}}\n'
                    "        super().__init__(height, patch_size, *sizes, **own)"
                )
            },
            f"{did} of the options on to the encoder",
            "It takes dropout, attention_dropout and norm_layer. super().__init__(…, **options)"
            " hands them on; an encoder that you make yourself needs them, too",
        )
        for names, did in (
            ("dropout", "do not hand dropout"),
            ("attention_dropout", "do not hand attention_dropout"),
            ("norm_layer", "do not hand norm_layer"),
            ('dropout", "attention_dropout', "hand neither dropout nor attention_dropout"),
            (
                'dropout", "attention_dropout", "norm_layer',
                "hand none of dropout, attention_dropout and norm_layer",
            ),
        )
    ),
    *dropout_slips("torch.cat([token, x], dim=1)", ENCODE),
    Slip(
        {CUT: "self.conv_proj(x).transpose(2, 3).flatten(2)"},
        "count the patches down the columns",
        "They come row by row, as in my_patchify",
    ),
    Slip(
        {f"{CUT}.transpose(1, 2)": f"{CUT}.reshape(len(x), -1, self.class_token.shape[2])"},
        "reshape to (n, patches, hidden_dim) in the place of transpose",
        "A token must hold all numbers of one patch: flatten(2).transpose(1, 2)",
    ),
    Slip(
        {CUT: "self.conv_proj(x.transpose(2, 3)).flatten(2)"},
        "exchange height and width of the pictures",
        "x is (n, channels, height, width)",
    ),
    Slip(
        {ENCODE: "x = self.encoder(torch.cat([x, token], dim=1))"},
        "put the class token last",
        "It comes first, and has the first position",
    ),
    Slip(
        {END: "self.heads(x[:, 1:].mean(dim=1))"},
        "take the mean over the patches, before or after the heads",
        "Give the heads the class token alone, as in MyVisionTransformer: x[:, 0]",
    ),
    Slip(
        {END: "self.heads(x.mean(dim=1))"},
        "take the mean over all tokens, before or after the heads",
        "Give the heads the class token alone, as in MyVisionTransformer: x[:, 0]",
    ),
    Slip(
        {END: "self.heads.head(x[:, 0])"},
        "call the last layer of the class head alone",
        "With representation_size the class head has two layers, and tanh between them: call"
        " self.heads",
    ),
    Slip(
        {ENCODE: ("x = self.encoder(torch.cat([token, x], dim=1) + self.encoder.pos_embedding)")},
        "add the positions before you call the encoder, which adds them as well",
        "The encoder takes the tokens without them",
    ),
)

EXERCISE = Exercise(
    answer=MyRectangular,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Which parameter knows how many patches there are? Let MyVisionTransformer make a"
            " square model, and then give that one parameter another shape."
        ),
        (
            "super().__init__(height, patch_size, …), then self.encoder.pos_embedding ="
            " nn.Parameter(…) of shape (1, 1 + rows · columns, hidden_dim), standard deviation"
            " 0.02. forward needs no change unless yours asks for image_size."
        ),
    ),
    same=({CUT: "self.conv_proj(x).reshape(len(x), self.class_token.shape[2], -1)"},),
    tolerance=1e-5,
)
