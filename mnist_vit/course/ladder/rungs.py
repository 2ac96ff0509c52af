"""Every rung: the model, the pieces it takes, and its twin, the rung without the new piece."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from ...model import MLPBlock, VisionTransformer
from .models import BrokenHead, LinearInTheMiddle, OneHead, PatchModel, on_pixels
from .rung import Rung

NINE: dict[str, Any] = {"length": 9, "classes": 2, "pool": "first"}


def broken(bug: str) -> nn.Module:
    """The model of "relation" with a single head that has this bug."""
    head = partial(BrokenHead, bug)

    def attention(width: int, num_heads: int) -> nn.Module:
        return OneHead(head, width)

    return PatchModel(1, attention=attention, **NINE)


def whole(model: Callable[..., nn.Module] = VisionTransformer) -> nn.Module:
    """The whole Vision Transformer, of the sizes of ``vit_mnist(patch_size=7)``."""
    return model(28, 7, 2, 2, 64, 256, num_classes=10, in_channels=1)


def wide(mlp_dim: int) -> Callable[..., nn.Module]:
    """An MLP block of this width, whatever it is asked for."""
    return lambda in_dim, _, dropout: MLPBlock(in_dim, mlp_dim, dropout)


MLP_ALONE = partial(PatchModel, 1, attention=None, positions=False)
MLP = ("mlp",)
BLOCK = ("attention", "mlp", "block")
ENCODER = (*BLOCK, "encoder")

RUNGS = {  # in the order of the course
    "linear": Rung("linear layer on all pixels", lambda: on_pixels(784, 10)),
    "mlp": Rung("MLP on all pixels", lambda: on_pixels(784, 128, 10), twin="linear"),
    "patches": Rung("linear patches, averaged", partial(PatchModel, 0, positions=False)),
    "block_no_gelu": Rung(
        "one block without attention, without GELU",
        partial(PatchModel, 1, attention=None, positions=False, mlp=LinearInTheMiddle),
        twin="patches",
    ),
    "block_mlp": Rung(
        "one block without attention",
        partial(PatchModel, 1, attention=None, positions=False),
        MLP,
        "block_no_gelu",
    ),
    "mlp_16": Rung(
        "one block, MLP 16 wide, not 256", partial(MLP_ALONE, mlp=wide(16)), twin="block_mlp"
    ),
    "mlp_64": Rung(
        "one block, MLP 64 wide, not 256", partial(MLP_ALONE, mlp=wide(64)), twin="block_mlp"
    ),
    "mlp_512": Rung(
        "one block, MLP 512 wide, not 256", partial(MLP_ALONE, mlp=wide(512)), twin="block_mlp"
    ),
    "block": Rung("one block", partial(PatchModel, 1, positions=False), BLOCK, "block_mlp"),
    "two_mlp": Rung(
        "two blocks without attention",
        partial(PatchModel, 2, attention=None, positions=False),
        MLP,
        "block_mlp",
    ),
    "two": Rung("two blocks", partial(PatchModel, 2, positions=False), BLOCK, "two_mlp"),
    "positions_mlp": Rung(
        "two blocks without attention, positions",
        partial(PatchModel, 2, attention=None),
        MLP,
        "two_mlp",
    ),
    "positions_one": Rung("one block, positions", partial(PatchModel, 1), ENCODER, "block"),
    "positions": Rung("two blocks, positions", partial(PatchModel, 2), ENCODER, "two"),
    "token_mlp": Rung(  # the token sees no patch
        "two blocks without attention, class token",
        partial(PatchModel, 2, attention=None, pool="token"),
        MLP,
        epochs=1,
    ),
    "token_one": Rung(
        "one block, positions, class token", partial(PatchModel, 1, pool="token"), ENCODER
    ),
    "token": Rung(
        "two blocks, positions, class token",
        partial(PatchModel, 2, pool="token"),
        ENCODER,
        "token_mlp",
    ),
    "vit": Rung("the whole Vision Transformer", whole, ("model",), "token_mlp"),
    "six_bare": Rung(
        "six blocks without norm and residual",
        partial(PatchModel, 6, norm=False, residual=False),
        BLOCK,
        epochs=4,
    ),
    "six_no_residual": Rung(
        "six blocks without residual", partial(PatchModel, 6, residual=False), BLOCK, "six_bare", 4
    ),
    "six_no_norm": Rung(
        "six blocks without norm", partial(PatchModel, 6, norm=False), BLOCK, "six_bare", 4
    ),
    "six": Rung("six blocks", partial(PatchModel, 6), ENCODER, "six_bare", 4),
    "relation_mlp": Rung(
        "same patch? one block without attention",
        partial(PatchModel, 1, attention=None, **NINE),
        MLP,
        steps=600,
    ),
    "relation_pixels": Rung(  # as many CPU seconds as "relation"
        "same patch? MLP on all pixels", lambda: on_pixels(441, 192, 64, 2), steps=3000
    ),
    "relation_mean": Rung(
        "same patch? one block, mean of the tokens",
        partial(PatchModel, 1, **NINE | {"pool": "mean"}),
        ENCODER,
        "relation_mlp",
        steps=600,
    ),
    "relation": Rung(
        "same patch? one block, first token",
        partial(PatchModel, 1, **NINE),
        ENCODER,
        "relation_mlp",
        steps=600,
    ),
    "relation_no_root": Rung(
        "same patch? head without √d", partial(broken, "no root"), twin="relation", steps=600
    ),
    "relation_columns": Rung(
        "same patch? softmax over queries",
        partial(broken, "softmax over queries"),
        twin="relation",
        steps=600,
    ),
    "relation_one_matrix": Rung(
        "same patch? head with w_q twice", partial(broken, "w_q twice"), twin="relation", steps=600
    ),
}
