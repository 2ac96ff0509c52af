"""What do blur, border and strength of the augmentation cost? Trainings that differ in one thing.

    python -m benchmarks sharpness --store                       # what is missing, 2 seeds each
    python -m benchmarks sharpness bicubic_mirrored --seed 0
    git archive 00abdd6 weights | tar -x -C runs                 # first: the old vit_cifar10

The old weights of vit_cifar10 were trained with images that a bilinear kernel had blurred, and with
a black border. Each run trains them on for one epoch of 16,000 images, with all patches. Errors are
those on the 5,000 validation images as they are. Needs CIFAR-10 (MNIST_VIT_DATA, or data/). One
thread. The test images are not used.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.augmentation import change_colour, resample, sampling_grid
from mnist_vit.data import Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.training import fit
from mnist_vit.weights import load_model
from tools import ROOT
from tools.runner import table

FILE = ROOT / "benchmarks" / "results" / "sharpness.json"
KEY = "name"
SEEDS = (0, 1)
COUNT = 16_000
OLD = Path("runs/weights/vit_cifar10.pth")
BORDERS = {"black": "zeros", "edge": "border", "mirrored": "reflection"}
KERNELS = {"bilinear": "bilinear", "bicubic": "bicubic", "whole pixels": "nearest"}
STRENGTHS = {"full": 1.0, "half": 0.5, "none": 0.0}
SHARED: dict[str, Any] = {"optimizer": "muon", "weight_decay": 0.05, "label_smoothing": 0.05}
CHANGES = {"degrees": 15.0, "scale": 0.15, "shear": 0.2}
ABOUT = (
    "vit_cifar10; errors of the 5,000 validation images as they are. The old weights, trained with"
    " a bilinear kernel and a black border, make 932. Each run trains them on for one epoch of"
    " 16,000 images. Strength is that of rotation, scaling and"
    " shear; shifts of up to 4 pixels, flips and colour stay. Sampling noise is about 28 errors;"
    " runs of one seed have the same images in the same order."
)


@dataclass(frozen=True)
class Run:
    """A short training.

    Attributes:
        kernel, border, strength: keys of ``KERNELS``, ``BORDERS``, ``STRENGTHS``.
    """

    kernel: str
    border: str
    strength: str = "full"


def all_runs() -> dict[str, Run]:
    """Each kernel with each border; and the chosen ones with less distortion."""
    runs = {}
    for kernel in ("bilinear", "bicubic"):
        for border in BORDERS:
            runs[f"{kernel}_{border}"] = Run(kernel, border)
    for strength in ("half", "none"):
        name = f"bicubic_mirrored_{strength}"
        runs[name] = Run("bicubic", "mirrored", strength)
    runs["whole_mirrored"] = Run("whole pixels", "mirrored", "none")
    runs["whole_black"] = Run("whole pixels", "black", "none")
    return runs


RUNS = all_runs()
NAMES = list(RUNS)


class Varied(Loader):
    """A loader whose augmentation resamples by a kernel, with a border."""

    def __init__(self, plan: Run, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kernel = KERNELS[plan.kernel]
        self.border = BORDERS[plan.border]
        factor = STRENGTHS[plan.strength]
        self.changes = {key: value * factor for key, value in CHANGES.items()}

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.data), generator=generator)
        for batch in order[: len(self) * self.batch_size].split(self.batch_size):
            images = self.data.images[batch].float() / 255
            grid = sampling_grid(images, generator, shift=4.0, flip=True, **self.changes)
            images = resample(images, grid, self.kernel, self.border)
            images = change_colour(images, generator, 0.4)
            yield self.data.normalise(images), self.data.labels[batch]


def run(name: str, seed: int, weights: Path = OLD) -> dict[str, Any]:
    """Train from one seed and count the errors on validation images."""
    plan = RUNS[name]
    validation = Loader(load_data("cifar10", "validation"), 250)
    train = load_data("cifar10", "train")
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:COUNT]
    some = train.select(chosen, f"{COUNT:,} of {train.name}")
    loader = Varied(plan, some, 64, shuffle=True, seed=seed)
    start = time.process_time()
    last = train_on(load_model(weights), loader, validation, seed)[-1]
    return {
        **asdict(plan),
        "errors": round((1 - last["validation_accuracy"]) * 5000),
        "of": 5000,
        "loss": round(last["validation_loss"], 4),
        "training_accuracy": round(last["accuracy"], 4),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def train_on(model: nn.Module, loader: Loader, validation: Loader, seed: int) -> list[dict]:
    """One epoch with all patches, the learning rate at most 1e-3."""
    torch.manual_seed(seed)
    return fit(
        speed_up(model),
        loader,
        validation,
        epochs=1,
        seed=seed,
        learning_rate=1e-3,
        average=0.9,
        **SHARED,
    )


def about(weights: Path) -> dict[str, str]:
    """What the file says of all its runs, whatever folder the old weights are in."""
    return {"about": ABOUT}


def page(results: dict[str, Any]) -> str:
    """The results as a page."""
    heads = ["kernel", "border", "strength", "errors, each seed", "mean", "CPU s"]
    names = dict.fromkeys(run["name"] for run in results["runs"])
    lines = []
    for name in names:
        lines.append(row([run for run in results["runs"] if run["name"] == name]))
    title = "# What blur, border and strength of the augmentation cost"
    picture = (
        "![A digit and a photograph, shifted by the old and the new kernel](../../docs/blur.png)"
    )
    return f"{title}\n\n{results['about']}\n\n{table(heads, lines)}\n{picture}\n"


def row(runs: list[dict[str, Any]]) -> list[Any]:
    """The seeds of one training, as a row of the table."""
    first = runs[0]
    errors = [run["errors"] for run in runs]
    seconds = [run["cpu_seconds"] for run in runs]
    return [
        first["kernel"],
        first["border"],
        first["strength"],
        ", ".join(map(str, errors)),
        f"{sum(errors) / len(errors):g}",
        f"{sum(seconds) / len(seconds):.0f}",
    ]
