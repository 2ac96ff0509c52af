"""Ablations: what is each part of the model worth? Take it away or change it, train again, compare.

    python -m experiments ablations                       # every run that is not in the results yet
    python -m experiments ablations no_position --seed 0  # this one again, beside the stored result

Needs MNIST (MNIST_VIT_DATA, or data/). Each run trains on the same 10,000 digits with the same
short recipe, and is judged on the 5,000 validation digits. So this says what helps a model that
learns for a minute, not what is best in the end. The position embedding starts as sines and
cosines, as it does for the shipped weights, and as large as the tokens are.

Results go to notebooks/results/ablations.json after every run, so that all of it can be stopped and
goes on. On one thread the base takes about a CPU minute, and all runs together take about 100.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.data import ImageData, Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.files import shipped, write_json
from mnist_vit.model import EncoderBlock, VisionTransformer, vit_mnist
from mnist_vit.tokens import sincos_positions
from mnist_vit.training import accuracy_and_loss, fit
from mnist_vit.weights import build_model, model_config

RESULTS = shipped("notebooks") / "results" / "ablations.json"
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
    """The block of 2017: normalise after adding. The parameters are those of the block it is made
    from."""

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
    """What is done to the base: other arguments, a change of the built model or of its training, or
    less data.

    ``training`` holds keywords of ``fit``, ``augmentation`` those of ``augment``; the base has no
    augmentation. With ``data_share`` 0.5 every digit is seen twice as often, so that the number of
    steps stays the same.
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
    "again": Variant(
        "the base, once more"
    ),  # today's loop draws other random numbers than the one of the runs above
    "muon": Variant("Muon, not AdamW", training={"optimizer": "muon", "learning_rate": 6e-3}),
    "moved": Variant("images moved, turned and scaled", augmentation=MOVED),
    "elastic": Variant("the same, and bent", augmentation=MOVED | {"elastic": 0.7}),
}


def build(variant: Variant, seed: int) -> VisionTransformer:
    """The base with the variant's arguments, then the recipe's start of the position embedding,
    then the change."""
    torch.manual_seed(seed)
    model = build_model(BASE, **variant.arguments)
    sincos_positions(model, RECIPE["position_size"])
    variant.change(model)
    return model


def run(
    variant: Variant, seed: int, epochs: int, digits: ImageData, validation: ImageData
) -> dict[str, Any]:
    """Train and judge one variant from one seed."""
    start = time.process_time()
    model = build(variant, seed)
    runner = speed_up(
        model
    )  # the plain model where a block is no longer the one that the fast path knows
    part = digits.select(torch.arange(round(variant.data_share * len(digits))), digits.name)
    some = validation.select(
        torch.arange(0, len(validation), 10), "every tenth"
    )  # for the line after each epoch
    fit(
        runner,
        Loader(
            part, RECIPE["batch_size"], shuffle=True, augmentation=variant.augmentation, seed=seed
        ),
        Loader(some, 250),
        epochs=round(epochs / variant.data_share),
        seed=seed,
        **(
            {key: RECIPE[key] for key in ("learning_rate", "weight_decay", "average")}
            | variant.training
        ),
    )
    accuracy, _ = accuracy_and_loss(runner, Loader(validation, 250))
    return {
        "accuracy": accuracy,
        "correct": round(accuracy * len(validation)),
        "total": len(validation),
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "seconds": round(time.process_time() - start, 1),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run what is asked for; a run that is not in the file of results yet is written to it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "variant",
        nargs="?",
        choices=VARIANTS,
        help="run this one again; left out: all still missing",
    )
    parser.add_argument("--seed", type=int, help=f"left out: {', '.join(map(str, SEEDS))}")
    parser.add_argument("--data", default="mnist", help="mnist or embedded (default mnist)")
    parser.add_argument(
        "--digits", type=int, default=10_000, help="how many digits to train on (default 10000)"
    )
    parser.add_argument(
        "--epochs", type=int, default=RECIPE["epochs"], help=f"default {RECIPE['epochs']}"
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="file of results (default the notebook's)"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # the same sums on every machine, and seconds that can be compared

    train = load_data(options.data, "train")
    validation = load_data(options.data, "validation")
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[
        : options.digits
    ]
    digits = train.select(chosen, f"{len(chosen):,} of {train.name}")
    about = {
        "base": BASE,
        "recipe": RECIPE | {"epochs": options.epochs},
        "data": {"train": digits.name, "validation": validation.name},
    }
    stored = json.loads(options.out.read_text()) if options.out.is_file() else about | {"runs": []}
    if {key: stored[key] for key in about} != about:
        parser.error(
            f"{options.out} holds runs of another recipe or of other digits: name another file with"
            " --out"
        )
    others = "".join(
        f" --{key} {value}"
        for key, value in vars(options).items()
        if key in ("data", "digits", "epochs") and value != parser.get_default(key)
    )
    done = {(row["variant"], row["seed"]): row for row in stored["runs"]}

    for seed in SEEDS if options.seed is None else [options.seed]:
        for name in VARIANTS if options.variant is None else [options.variant]:
            if options.variant is None and (name, seed) in done:
                continue
            command = f"python -m experiments ablations {name} --seed {seed}{others}"
            print(f"\n{command}: {VARIANTS[name].what}", flush=True)
            row = run(VARIANTS[name], seed, options.epochs, digits, validation)
            print(
                f"{name}, seed {seed}: {row['accuracy']:.2%} ({row['correct']} of {row['total']}), "
                f"{row['seconds']:.0f} CPU seconds",
                flush=True,
            )
            if (name, seed) in done:
                print(f"stored: {done[name, seed]['accuracy']:.2%}")
                continue
            what = {"variant": name, "what": VARIANTS[name].what, "seed": seed}
            done[name, seed] = what | row | {"command": command}
            order = sorted(done, key=lambda key: (list(VARIANTS).index(key[0]), key[1]))
            write_json(options.out, about | {"runs": [done[key] for key in order]})


if __name__ == "__main__":
    main()
