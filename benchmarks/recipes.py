"""What does each part of a recipe bring? Short runs that differ in one thing.

    python -m benchmarks recipes --store                  # every run that is not stored yet
    python -m benchmarks recipes p7_muon_elastic --seed 1

They are compared on validation images; the test images are not used. Needs MNIST and CIFAR-10
(MNIST_VIT_DATA, or data/). One thread; CPU seconds include the validation after each epoch. Runs of
a few epochs favour what learns fast; what only helps against overfitting shows in longer ones.
Every run is stored when it has ended, so all of it can be stopped.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mnist_vit.building import build_model
from mnist_vit.data import ImageData, Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.jobs import MODELS
from mnist_vit.training import fit, sincos_positions
from tools import ROOT
from tools.runner import table

FILE = ROOT / "benchmarks" / "results" / "recipes.json"
KEY = "name"
SEEDS = (0,)
ABOUT = (
    "Short runs on one thread; each row differs from the first of its model and epochs in what it"
    " says. Those of vit_cifar10 use 15,000 of the 45,000 training images. Sampling noise of 5,000"
    " images: about ±0.15 points at 98.5 %, ±0.7 at 55 to 70 %."
)
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
    """A loader that covers a square of every second image.

    "cutout" covers it with grey, "cutmix" with another image. The square's place is random; at
    cutout its side is half of the image's. At cutmix the area is random too, and the label becomes
    the other image's with the covered share as its probability, which gives the mean gradient of
    mixed labels. Sources: DeVries & Taylor 2017, https://arxiv.org/abs/1708.04552; Yun et al. 2019,
    https://arxiv.org/abs/1905.04899.
    """

    def __init__(self, kind: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch + 500_000)
        for images, labels in super().__iter__():
            covered = self.squares(images, random)
            if self.kind == "cutout":
                yield images.masked_fill(covered, 0), labels  # 0: the mean colour
                continue
            share = covered.float().mean(dim=(1, 2, 3))
            other = torch.rand(len(images), generator=random) < share
            mixed = torch.where(covered, images.flip(0), images)
            yield mixed, torch.where(other, labels.flip(0), labels)

    def squares(self, images: Tensor, random: torch.Generator) -> Tensor:
        """Return which pixels are covered, (n, 1, height, width)."""
        n, _, height, width = images.shape
        area = torch.full((n,), 0.25)
        if self.kind == "cutmix":
            area = torch.rand(n, generator=random)
        chosen = torch.rand(n, generator=random) < 0.5
        half_side = (area * chosen).sqrt()[:, None] / 2
        row, column = torch.rand(2, n, 1, generator=random)
        rows = ((torch.arange(height) + 0.5) / height - row).abs() < half_side
        columns = ((torch.arange(width) + 0.5) / width - column).abs() < half_side
        return rows[:, None, :, None] & columns[:, None, None, :]


COLOUR = {"scale": 0.1, "shift": 3.0, "flip": True}
CIFAR = {"changes": COLOUR, "images": 15_000}
DECAY = {"weight_decay": 0.05}
# Long enough to overfit 15,000 images, which augmentation is against.
LONG: dict[str, Any] = {
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


NAMES = list(RUNS)


def run(name: str, seed: int) -> dict[str, Any]:
    """Train from one seed and measure on the validation images."""
    plan = RUNS[name]
    train, validation = images_of(plan)
    torch.manual_seed(seed)
    model = build_model(MODELS[plan.model])
    sincos_positions(model)
    fast = speed_up(model, plan.keep_patches)

    def before_epoch(epoch: int) -> None:
        if epoch >= plan.epochs - plan.full_epochs:
            fast.keep_patches = None  # type: ignore[assignment]

    kind = partial(Boxes, plan.boxes) if plan.boxes else Loader
    loader = kind(train, 64, shuffle=True, augmentation=plan.changes, seed=seed)
    options = {"average": 0.99, "weight_decay": 0.1} | plan.options
    start = time.process_time()
    history = fit(
        fast,
        loader,
        Loader(validation, 250),
        epochs=plan.epochs,
        seed=seed,
        before_epoch=before_epoch,
        **options,
    )
    last = history[-1]
    return {
        **asdict(plan),
        "errors": round((1 - last["validation_accuracy"]) * len(validation)),
        "of": len(validation),
        "loss": round(last["validation_loss"], 4),
        "training_accuracy": round(last["accuracy"], 4),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def images_of(plan: Run) -> tuple[ImageData, ImageData]:
    """Return the images to train on, and those to validate on."""
    data = "cifar10" if plan.model == "vit_cifar10" else "mnist"
    train, validation = load_data(data, "train"), load_data(data, "validation")
    if plan.images is None:
        return train, validation
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    part = train.select(order[: plan.images], f"{plan.images:,} of {train.name}")
    return part, validation


def about() -> dict[str, str]:
    """Return what the file says of all its runs."""
    return {"about": ABOUT}


def page(results: dict[str, Any]) -> str:
    """Return the results as a page."""
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
    title = "# What each part of a recipe brings"
    return f"{title}\n\n{results['about']}\n\n{table(heads, map(row, results['runs']))}"


def row(run: dict[str, Any]) -> list[Any]:
    return [
        run["model"],
        run["what"],
        run["epochs"],
        run["seed"],
        run["errors"],
        f"{run['loss']:.4f}",
        f"{run['training_accuracy']:.1%}",
        f"{run['cpu_seconds']:.0f}",
    ]
