"""What does each part of a recipe bring? Short runs that differ in one thing, compared on
validation images.

    python -m benchmarks recipes                         # every run that is not in the results yet
    python -m benchmarks recipes p7_muon_elastic --seed 1

Needs MNIST and CIFAR-10 (MNIST_VIT_DATA, or data/). One thread; CPU seconds include the validation
after each epoch. Runs of a few epochs favour what learns fast; what only helps against overfitting
shows in longer ones. The test images are not used. Results go to benchmarks/results/recipes.json
and recipes.md after every run, so it can be stopped.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch
from torch import Tensor

from mnist_vit.data import Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.jobs import MODELS
from mnist_vit.tokens import sincos_positions
from mnist_vit.training import fit

RESULTS = measure.RESULTS / "recipes.json"
DIGITS = {"degrees": 10.0, "scale": 0.1, "shift": 1.0}
MUON = {"optimizer": "muon", "learning_rate": 6e-3}


@dataclass(frozen=True)
class Run:
    """A short training run.

    Attributes:
        what: the one thing that differs from the others of its group, in words.
        model: a name in ``jobs.MODELS``.
        epochs: passes over the training images.
        options: of ``training.fit``, beside those that all runs share.
        changes: of ``augment``.
        keep_patches: while training; None keeps all.
        full_epochs: how many of the last epochs use all patches.
        boxes: "cutout" or "cutmix", see ``Boxes``.
        images: how many of the training images, drawn once; None uses all.
    """

    what: str
    model: str
    epochs: int
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=lambda: DIGITS)
    keep_patches: int | None = None
    full_epochs: int = 0
    images: int | None = None
    boxes: str | None = None


class Boxes(Loader):
    """A loader that covers a square of every second image: with grey ("cutout") or another image
    ("cutmix").

    The square's place is random; at cutout its side is half of the image's. At cutmix the area is
    random too, and the label becomes the other image's with the covered share as its probability,
    which gives the mean gradient of mixed labels. Sources: DeVries & Taylor 2017,
    https://arxiv.org/abs/1708.04552; Yun et al. 2019, https://arxiv.org/abs/1905.04899.
    """

    def __init__(self, kind: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch + 500_000)
        for images, labels in super().__iter__():
            n, _, height, width = images.shape
            area = (
                torch.full((n,), 0.25) if self.kind == "cutout" else torch.rand(n, generator=random)
            )
            half = (area * (torch.rand(n, generator=random) < 0.5)).sqrt()[
                :, None
            ] / 2  # of the side; 0: no square
            row, column = torch.rand(2, n, 1, generator=random)
            rows = ((torch.arange(height) + 0.5) / height - row).abs() < half
            columns = ((torch.arange(width) + 0.5) / width - column).abs() < half
            covered = rows[:, None, :, None] & columns[:, None, None, :]
            if self.kind == "cutout":
                yield images.masked_fill(covered, 0), labels  # 0: the mean colour
            else:
                other = torch.rand(n, generator=random) < covered.float().mean(dim=(1, 2, 3))
                yield (
                    torch.where(covered, images.flip(0), images),
                    torch.where(other, labels.flip(0), labels),
                )


COLOUR = {"scale": 0.1, "shift": 3.0, "flip": True}
CIFAR = {"changes": COLOUR, "images": 15_000}
DECAY = {"weight_decay": 0.05}
LONG: dict[str, Any] = {  # long enough to overfit 15,000 images, which augmentation is against
    "model": "vit_cifar10",
    "epochs": 24,
    "options": MUON | DECAY,
    "changes": COLOUR,
    "keep_patches": 32,
    "full_epochs": 4,
    "images": 15_000,
}
RUNS: dict[str, Run] = {
    "p7_adamw": Run("AdamW", "vit_mnist_p7", 6),
    "p7_muon": Run("Muon", "vit_mnist_p7", 6, MUON),
    "p7_muon_elastic": Run("Muon, elastic 0.7", "vit_mnist_p7", 6, MUON, DIGITS | {"elastic": 0.7}),
    "p7_muon_smooth": Run(
        "Muon, label smoothing 0.05", "vit_mnist_p7", 6, MUON | {"label_smoothing": 0.05}
    ),
    "p7_muon_shear": Run("Muon, shear 0.2", "vit_mnist_p7", 6, MUON, DIGITS | {"shear": 0.2}),
    "cifar_adamw": Run("AdamW", "vit_cifar10", 4, DECAY, **CIFAR),
    "cifar_muon": Run("Muon", "vit_cifar10", 4, MUON | DECAY, **CIFAR),
    "cifar_muon_32": Run(
        "Muon, 32 patches, at last all", "vit_cifar10", 6, MUON | DECAY, COLOUR, 32, 1, 15_000
    ),
    "cifar_long": Run("Muon, 32 patches, at last all", **LONG),
    "cifar_long_shear": Run("the same, shear 0.2", **LONG | {"changes": COLOUR | {"shear": 0.2}}),
    "cifar_long_colour": Run(
        "the same, colour 0.4", **LONG | {"changes": COLOUR | {"colour": 0.4}}
    ),
    "cifar_long_cutout": Run("the same, cutout of half the images", **LONG, boxes="cutout"),
    "cifar_long_cutmix": Run("the same, cutmix of half the images", **LONG, boxes="cutmix"),
}


def run(name: str, seed: int) -> dict[str, Any]:
    """Train from one seed and measure on the validation images."""
    plan = RUNS[name]
    data = "cifar10" if plan.model == "vit_cifar10" else "mnist"
    train, validation = load_data(data, "train"), load_data(data, "validation")
    if plan.images is not None:
        chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[
            : plan.images
        ]
        train = train.select(chosen, f"{plan.images:,} of {train.name}")
    torch.manual_seed(seed)
    model = MODELS[plan.model]()
    sincos_positions(model)
    fast = speed_up(model, plan.keep_patches)

    def before_epoch(epoch: int) -> None:
        # type: ignore[assignment]
        fast.keep_patches = plan.keep_patches if epoch < plan.epochs - plan.full_epochs else None

    kind = partial(Boxes, plan.boxes) if plan.boxes else Loader
    loader = kind(train, 64, shuffle=True, augmentation=plan.changes, seed=seed)
    start = time.process_time()
    history = fit(
        fast,
        loader,
        Loader(validation, 250),
        epochs=plan.epochs,
        seed=seed,
        before_epoch=before_epoch,
        **({"average": 0.99, "weight_decay": 0.1} | plan.options),
    )
    last = history[-1]
    return {
        "errors": round((1 - last["validation_accuracy"]) * len(validation)),
        "of": len(validation),
        "loss": round(last["validation_loss"], 4),
        "training_accuracy": round(last["accuracy"], 4),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def page(results: dict[str, Any]) -> str:
    """The results as a table."""
    rows = [
        (
            r["model"],
            r["what"],
            r["epochs"],
            r["seed"],
            r["errors"],
            f"{r['loss']:.4f}",
            f"{r['training_accuracy']:.1%}",
            f"{r['cpu_seconds']:.0f}",
        )
        for r in results["runs"]
    ]
    heads = (
        "model",
        "recipe",
        "epochs",
        "seed",
        "errors of 5,000",
        "validation loss",
        "training accuracy",
        "CPU s",
    )
    return f"# Recipes\n\n{results['about']}\n\n{measure.table(heads, rows)}"


def main(arguments: list[str] | None = None) -> None:
    """Run what is asked for, and write it beside the other results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name", nargs="?", choices=RUNS, help="run this one (again); left out: all still missing"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="file of results (default benchmarks/results)"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    stored = {(row["name"], row["seed"]): row for row in measure.read(options.out).get("runs", [])}
    for name in [options.name] if options.name else RUNS:
        if options.name is None and (name, options.seed) in stored:
            continue
        row = run(name, options.seed)
        print(f"{name}, seed {options.seed}: {row}", flush=True)
        command = f"python -m benchmarks recipes {name} --seed {options.seed}"
        about = {"name": name, "seed": options.seed, **asdict(RUNS[name])}
        stored[name, options.seed] = about | row | {"command": command}
        order = sorted(stored, key=lambda key: (list(RUNS).index(key[0]), key[1]))
        results = {
            "about": (
                "Short runs on one thread; each row differs from the first of its model and epochs"
                " in what it says. Those of vit_cifar10 use 15,000 of the 45,000 training images."
                " Sampling noise of 5,000 images: about ±0.15 points at 98.5 %, ±0.7 at 55 to 70 %."
            ),
            "machine": measure.machine(),
            "runs": [stored[key] for key in order],
        }
        measure.write(options.out, results, page(results))


if __name__ == "__main__":
    main()
