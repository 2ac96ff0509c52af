"""Ablations: what is each part of the model worth? Take it away or change it, and train again.

    python -m experiments ablations                        # names, and what is stored
    python -m experiments ablations --store                # every run that is not stored yet
    python -m experiments ablations no_position --seed 0   # one again, beside the stored result

Needs MNIST (MNIST_VIT_DATA, or data/). Each run trains on the same 10,000 digits with the same
short recipe, and is judged on the 5,000 validation digits. So this says what helps a model that
learns for a minute, not what is best in the end. The position embedding starts as sines and
cosines, as it does for the shipped weights, and as large as the tokens are.

Every run is stored when it has ended, so that all of it can be stopped and goes on. On one thread
the base takes about a CPU minute, and all runs together take about 100.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.building import build_model, model_config
from mnist_vit.data import ImageData, Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.files import shipped
from mnist_vit.model import EncoderBlock, VisionTransformer, vit_mnist
from mnist_vit.training import accuracy_and_loss, fit, sincos_positions

FILE = shipped("notebooks") / "results" / "ablations.json"
KEY = "variant"
SEEDS = (0, 1, 2)
BASE = model_config(vit_mnist(4))
RECIPE = {
    "epochs": 12,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "weight_decay": 0.1,
    "average": 0.99,
    "position_start": "sincos",
    "position_size": 2.0,
}


class PostNormBlock(EncoderBlock):
    """The block of 2017: normalise after adding; the parameters are the same."""

    def forward(self, input: Tensor) -> Tensor:
        x, _ = self.self_attention(input, input, input, need_weights=False)
        x = self.ln_1(input + self.dropout(x))
        return self.ln_2(x + self.mlp(x))


class Nothing(nn.Module):
    """Adds nothing to the residual connection."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def random_position(model: VisionTransformer) -> None:
    nn.init.normal_(model.encoder.pos_embedding, std=0.02)


def no_position(model: VisionTransformer) -> None:
    nn.init.zeros_(model.encoder.pos_embedding).requires_grad_(False)


def no_mlp(model: VisionTransformer) -> None:
    for block in model.encoder.layers:
        block.ln_2, block.mlp = nn.Identity(), Nothing()


def post_norm(model: VisionTransformer) -> None:
    for block in model.encoder.layers:
        block.__class__ = PostNormBlock


@dataclass(frozen=True)
class Variant:
    """What is done to the base.

    Attributes:
        what: the same as a sentence, for the table.
        arguments: of the model, that differ from the base's.
        change: what is done to the built model.
        data_share: with 0.5, half of the digits, each twice as often: as many steps as the base.
        training: keywords of ``fit`` that differ.
        augmentation: keywords of ``augment``; the base has none.
    """

    what: str
    arguments: dict[str, Any] = field(default_factory=dict)
    change: Callable[[VisionTransformer], None] = lambda model: None
    data_share: float = 1.0
    training: dict[str, Any] = field(default_factory=dict)
    augmentation: dict[str, float] | None = None


MOVED = {"degrees": 10.0, "scale": 0.1, "shift": 1.0}

VARIANTS: dict[str, Variant] = {
    "base": Variant("patches of 4, 2 layers, 2 heads, class token"),
    "random_position": Variant("position embedding starts as small noise", change=random_position),
    "no_position": Variant("no position embedding", change=no_position),
    "mean_pooling": Variant("mean over patches, not class token", {"pool": "mean"}),
    "heads_1": Variant("1 head", {"num_heads": 1}),
    "heads_4": Variant("4 heads", {"num_heads": 4}),
    "heads_8": Variant("8 heads", {"num_heads": 8}),
    "layers_1": Variant("1 layer", {"num_layers": 1}),
    "layers_4": Variant("4 layers", {"num_layers": 4}),
    "layers_6": Variant("6 layers", {"num_layers": 6}),
    "patches_2": Variant("patches of 2", {"patch_size": 2}),
    "patches_7": Variant("patches of 7", {"patch_size": 7}),
    "patches_14": Variant("patches of 14", {"patch_size": 14}),
    "post_norm": Variant("norm after adding", change=post_norm),
    "no_mlp": Variant("no MLP", change=no_mlp),
    "half_data": Variant("half the digits, each twice as often", data_share=0.5),
    # Today's loop draws other random numbers than the one of the runs above.
    "again": Variant("the base, once more"),
    "muon": Variant("Muon, not AdamW", training={"optimizer": "muon", "learning_rate": 6e-3}),
    "moved": Variant("images moved, turned and scaled", augmentation=MOVED),
    "elastic": Variant("the same, and bent", augmentation=MOVED | {"elastic": 0.7}),
}


NAMES = list(VARIANTS)


def run(
    name: str,
    seed: int,
    data: str = "mnist",
    digits: int = 10_000,
    epochs: int = RECIPE["epochs"],
) -> dict[str, Any]:
    """Train and judge one variant from one seed.

    ``data`` is mnist or embedded; ``digits`` is how many images to train on.
    """
    variant = VARIANTS[name]
    training, validation = images(data, digits)
    start = time.process_time()
    model = train(variant, seed, epochs, training, validation)
    accuracy, _ = accuracy_and_loss(model, Loader(validation, 250))
    return {
        "what": variant.what,
        "accuracy": accuracy,
        "correct": round(accuracy * len(validation)),
        "total": len(validation),
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "seconds": round(time.process_time() - start, 1),
    }


def about(data: str, digits: int, epochs: int) -> dict[str, Any]:
    """Return what all runs of a file have in common."""
    training, validation = images(data, digits)
    return {
        "base": BASE,
        "recipe": RECIPE | {"epochs": epochs},
        "data": {"train": training.name, "validation": validation.name},
    }


@functools.cache
def images(data: str, digits: int) -> tuple[ImageData, ImageData]:
    """Return the images to train on, always the same ones, and those to judge on."""
    everything = load_data(data, "train")
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(0))
    chosen = order[:digits]
    part = everything.select(chosen, f"{len(chosen):,} of {everything.name}")
    return part, load_data(data, "validation")


def train(
    variant: Variant, seed: int, epochs: int, training: ImageData, validation: ImageData
) -> nn.Module:
    """Return the trained model, in the fast path where that knows its blocks."""
    model = speed_up(build(variant, seed))
    first = torch.arange(round(variant.data_share * len(training)))
    part = training.select(first, training.name)
    every_tenth = validation.select(torch.arange(0, len(validation), 10), "every tenth")
    options = {key: RECIPE[key] for key in ("learning_rate", "weight_decay", "average")}
    fit(
        model,
        Loader(
            part, RECIPE["batch_size"], shuffle=True, augmentation=variant.augmentation, seed=seed
        ),
        Loader(every_tenth, 250),  # for the line after each epoch
        epochs=round(epochs / variant.data_share),
        seed=seed,
        **options | variant.training,
    )
    return model


def build(variant: Variant, seed: int) -> VisionTransformer:
    """Return the base with the variant's arguments, start of the positions and change."""
    torch.manual_seed(seed)
    model = build_model(BASE, **variant.arguments)
    sincos_positions(model, RECIPE["position_size"])
    variant.change(model)
    return model
