"""Every rung: the model, the pieces it takes, and its twin, the rung without the new piece."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...model import MLPBlock, VisionTransformer
from .models import BrokenHead, LinearInTheMiddle, OneHead, PatchModel, on_pixels
from .tasks import digit_batches, digits, inked, relation, relation_batches

BATCH = 50
NINE: dict[str, Any] = {"length": 9, "classes": 2, "pool": "first"}


def fit(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], steps: int, learning_rate: float
) -> None:
    """The training loop of all rungs: AdamW, a warm-up over a tenth of the steps, a cosine."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    for step, (x, y) in enumerate(batches):
        warm = min(1.0, (step + 1) / (0.1 * steps))
        rate = learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Percent."""
    return round(100 * (model.eval()(x).argmax(dim=1) == y).float().mean().item(), 1)


@dataclass(frozen=True)
class Rung:
    """A model, and how it is trained.

    Attributes:
        title: what it is called in tables.
        build: makes the model; it is called with the pieces that the rung takes.
        takes: the kinds of pieces.
        twin: the rung without its piece.
        epochs: on the digits.
        steps: of the relational task; 0 for digits.
    """

    title: str
    build: Callable[..., nn.Module]
    takes: tuple[str, ...] = ()
    twin: str | None = None
    epochs: int = 12
    steps: int = 0

    def train(
        self,
        learning_rate: float,
        seed: int,
        split: str = "train",
        judge: str = "validation",
        **pieces,
    ):
        """Train once: the model, its accuracy in percent, and CPU seconds."""
        torch.manual_seed(seed)
        model = self.build(**pieces)
        generator = torch.Generator().manual_seed(seed)
        steps = self.steps or self.epochs * math.ceil(len(digits(split)[0]) / BATCH)
        for name in (split, judge):
            inked(name)  # makes the data now, so that it is not part of the time
        start = time.process_time()
        if self.steps:
            fit(model, relation_batches(split, steps, generator), steps, learning_rate)
            x, y, _ = relation(judge, 4000, torch.Generator().manual_seed(0))
        else:
            fit(model, digit_batches(split, self.epochs, BATCH, generator), steps, learning_rate)
            x, y = digits(judge)
        return model, accuracy(model, x, y), time.process_time() - start


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
