"""Is a model that learnt from blurred images worse on sharp ones? Blur, border and strength apart.

    git archive 00abdd6 weights | tar -x -C runs  # the weights trained with bilinear augmentation
    python benchmarks/sharpness.py evaluation     # these weights on changed validation images
    python benchmarks/sharpness.py continuation   # these weights, trained on
    python benchmarks/sharpness.py scratch        # short trainings from the start
    python benchmarks/sharpness.py predictions    # for shifted images, as the notebooks use them
    python benchmarks/sharpness.py picture        # a digit and a photograph, by each kernel

Needs MNIST and CIFAR-10 (MNIST_VIT_DATA, or data/). One thread. The test images are not used.
Results go to benchmarks/results/sharpness.json and sharpness.md after every run, so it can be
stopped; what is stored is skipped.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import measure
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.augmentation import change_colour, resample, sampling_grid
from mnist_vit.data import ImageData, Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.files import CHECKOUT
from mnist_vit.recipes import MODELS
from mnist_vit.tokens import sincos_positions
from mnist_vit.training import fit
from mnist_vit.weights import load_model

RESULTS = measure.RESULTS / "sharpness.json"
PARTS = ("evaluation", "continuation", "scratch", "predictions", "picture")
OLD = Path("runs/weights")
BORDERS = {"black": "zeros", "edge": "border", "mirrored": "reflection"}
KERNELS = {"bilinear": "bilinear", "bicubic": "bicubic", "whole pixels": "nearest"}
STRENGTHS = {"full": 1.0, "half": 0.5, "none": 0.0}
COLOUR = {"degrees": 15.0, "scale": 0.15, "shift": 4.0, "flip": True, "shear": 0.2, "colour": 0.4}
DIGITS = {"degrees": 10.0, "scale": 0.1, "shift": 1.0, "elastic": 0.7}
CONTROLS = [
    "shift 0.3, bilinear, edge border, mean of two diagonals",
    "shift 0.3, bicubic, black border, mean of two diagonals",
    "shift 0.3, bicubic, edge border, mean of two diagonals",
    "shift 1, sharp, black border, mean of two diagonals",
    "shift 1, sharp, edge border, mean of two diagonals",
    "blurred in place as by a shift of 0.3, edge border",
    "black frame of 1, else sharp",
]
DRAWN = {"mnist": 1500, "cifar10": 3}  # indices of validation images
TENTHS = [number / 10 for number in range(11)]


def data_of(name: str) -> str:
    """The data set that a model was trained on."""
    return "cifar10" if name == "vit_cifar10" else "mnist"


# ---- changed images


def moved(
    images: Tensor, dx: float, dy: float, kernel: str = "bilinear", border: str = "black"
) -> Tensor:
    """Images, 0 to 1, shifted to the left by ``dx`` and up by ``dy`` pixels."""
    grid = sampling_grid(images, torch.Generator())
    height, width = images.shape[2:]
    offset = torch.tensor([2 * dx / width, 2 * dy / height])
    return resample(images, grid + offset, KERNELS[kernel], BORDERS[border])


def blurred(images: Tensor, shift: float, border: str) -> list[Tensor]:
    """Images blurred in place as much as a bilinear shift by ``shift`` along both axes does.

    The shift averages two neighbours with the weights 1 - shift and shift. Three neighbours with
    the weights v / 2, 1 - v and v / 2, where v = shift (1 - shift), have the same variance.
    """
    share = shift * (1 - shift)
    row = torch.tensor([share / 2, 1 - share, share / 2])
    channels = images.shape[1]
    kernel = torch.outer(row, row).expand(channels, 1, 3, 3)
    mode = {"black": "constant", "edge": "replicate"}[border]
    return [F.conv2d(F.pad(images, (1, 1, 1, 1), mode), kernel, groups=channels)]


def framed(images: Tensor, width: int) -> list[Tensor]:
    """Images with a black frame, else unchanged."""
    changed = torch.zeros_like(images)
    inside = slice(width, -width)
    changed[..., inside, inside] = images[..., inside, inside]
    return [changed]


def changes() -> dict[str, Callable[[Tensor], list[Tensor]]]:
    """What is done to validation images, by name; where the way matters, two ways are tried."""
    found: dict[str, Callable[[Tensor], list[Tensor]]] = {"as they are": lambda images: [images]}
    for shift in TENTHS[1:]:
        name = f"shift {shift} right and down, bilinear, black border"
        found[name] = partial(both_ways, shift=shift, kernel="bilinear", border="black", ways=1)
    for border in BORDERS:
        for kernel in ("bilinear", "bicubic"):
            name = f"shift 0.3, {kernel}, {border} border, mean of two diagonals"
            found[name] = partial(both_ways, shift=0.3, kernel=kernel, border=border)
        for pixels in (1, 2):
            name = f"shift {pixels}, sharp, {border} border, mean of two diagonals"
            found[name] = partial(both_ways, shift=pixels, kernel="whole pixels", border=border)
    for shift in (0.1, 0.3, 0.5):
        for border in ("edge", "black"):
            name = f"blurred in place as by a shift of {shift}, {border} border"
            found[name] = partial(blurred, shift=shift, border=border)
    for width in (1, 2):
        found[f"black frame of {width}, else sharp"] = partial(framed, width=width)
    return found


def both_ways(
    images: Tensor, shift: float, kernel: str, border: str, ways: int = 2
) -> list[Tensor]:
    """Images shifted right and down; and the same shifted left and down."""
    return [moved(images, way * shift, -shift, kernel, border) for way in (-1, 1)[:ways]]


@torch.no_grad()
def predictions(model: nn.Module, data: ImageData, images: Tensor) -> Tensor:
    """The predicted classes of images from 0 to 1, (n,)."""
    model.eval()
    batches = data.normalise(images.clone()).split(250)
    return torch.cat([model(batch).argmax(dim=1) for batch in batches])


def evaluate(name: str, change: str, folder: Path) -> dict[str, Any]:
    """Errors of old weights on changed validation images, compared with unchanged ones."""
    data = load_data(data_of(name), "validation")
    images = data.images.float() / 255
    model = speed_up(load_model(folder / f"{name}.pth"))
    right = predictions(model, data, images) == data.labels
    versions = changes()[change](images)
    after = [predictions(model, data, version) == data.labels for version in versions]
    return compared(right, after)


def compared(right: Tensor, after: list[Tensor]) -> dict[str, Any]:
    """Errors, and how many fewer than before, with a 95 % interval over the images."""
    errors = [int((~some).sum()) for some in after]
    gains = torch.stack([some.float() - right.float() for some in after]).mean(dim=0)
    half = 1.96 * float(gains.std()) * math.sqrt(len(gains))
    gain = float(gains.sum())
    return {
        "errors": errors,
        "of": len(right),
        "fewer": round(gain, 1),
        "interval": [round(gain - half, 1), round(gain + half, 1)],
    }


def store_predictions(folder: Path, path: Path) -> None:
    """Write what the old weights predict for changed validation images, one row for each change.

    The file holds, for each model, its labels, (n,), and its predictions, (changes, n), both uint8;
    and the names of the changes. The first eleven are bilinear shifts by 0 to 1 pixel, right and
    down; each of the others varies one thing.
    """
    arrays: dict[str, Any] = {}
    for name in ("vit_mnist", "vit_cifar10"):
        data = load_data(data_of(name), "validation")
        images = data.images.float() / 255
        model = speed_up(load_model(folder / f"{name}.pth"))
        shifts = [
            change
            for change in changes()
            if "bilinear, black border" in change and "mean" not in change
        ]
        names = ["as they are", *shifts, *CONTROLS]
        made = [changes()[change](images)[0] for change in names]
        rows = [predictions(model, data, version) for version in made]
        arrays[f"{name}_predictions"] = torch.stack(rows).byte().numpy()
        arrays[f"{name}_labels"] = data.labels.byte().numpy()
        for change, row in zip(names, rows, strict=True):
            print(name, change, int((row != data.labels).sum()), flush=True)
    arrays["changes"] = np.array([name.removesuffix(", mean of two diagonals") for name in names])
    np.savez_compressed(path, **arrays)
    print(f"written to {path}, {path.stat().st_size:,} bytes")


def draw(path: Path) -> None:
    """Draw a digit and a photograph as they are, and shifted by the old and the new kernel."""
    kinds = {
        "as it is": None,
        "shifted by 0.3 pixel,\nbilinear, black outside (before)": ("bilinear", "black"),
        "shifted by 0.3 pixel,\nbicubic, mirrored (now)": ("bicubic", "mirrored"),
    }
    figure, axes = plt.subplots(4, 3, figsize=(9, 12), layout="constrained")
    for first, (name, index) in enumerate(DRAWN.items()):
        images = load_data(name, "validation").images[index : index + 1].float() / 255
        for column, (title, how) in enumerate(kinds.items()):
            version = images if how is None else moved(images, -0.3, -0.3, *how)
            shown = version[0].permute(1, 2, 0).squeeze(-1)
            axes[2 * first, column].imshow(shown, cmap="gray", vmin=0, vmax=1)
            axes[2 * first, column].set_title(title)
            corner = shown[:12, :12] if name == "cifar10" else shown[8:20, 8:20]
            axes[2 * first + 1, column].imshow(corner, cmap="gray", vmin=0, vmax=1)
            axes[2 * first + 1, column].set_title("12 x 12 pixels of it", fontsize=9)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(path, dpi=80)
    print(f"written to {path}")


# ---- training


class Varied(Loader):
    """A loader whose augmentation resamples by another kernel, with another border.

    ``share`` of each batch is moved by whole pixels only, "whole pixels" moves all images so.
    """

    def __init__(self, *args: Any, kernel: str, border: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kernel = kernel
        self.border = border

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        changes = dict(self.augmentation or {})
        strength = changes.pop("colour", 0.0)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.data), generator=generator)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            batch = order[start : start + self.batch_size]
            images = self.data.images[batch].float() / 255
            grid = sampling_grid(images, generator, **changes)  # type: ignore[arg-type]
            images = resample(images, grid, KERNELS[self.kernel], BORDERS[self.border])
            if strength:
                images = change_colour(images, generator, strength)
            yield self.data.normalise(images), self.data.labels[batch]


@dataclass(frozen=True)
class Run:
    """A short training.

    Attributes:
        model: a name in ``recipes.MODELS``.
        kernel, border, strength: keys of ``KERNELS``, ``BORDERS``, ``STRENGTHS``; the strength is
            that of rotation, scaling, shear and elastic distortion.
        start: "old", trained on from the weights that were shipped, or "new".
        images, epochs: how much of the training images, how often.
        options: of ``training.fit``.
        keep_patches, full_epochs: see ``recipes.train``.
    """

    model: str
    kernel: str
    border: str
    strength: str
    start: str
    images: int
    epochs: int
    options: dict[str, Any] = field(default_factory=dict)
    keep_patches: int | None = None
    full_epochs: int = 0

    @property
    def name(self) -> str:
        parts = [self.model, self.start, self.kernel, self.border, self.strength]
        smoothing = self.options["label_smoothing"]
        return ", ".join([*parts, f"{self.epochs} x {self.images}", f"smoothing {smoothing}"])


LAST = {"optimizer": "muon", "learning_rate": 1e-3, "warmup": 0.0, "average": 0.9}
FIRST = {"optimizer": "muon", "learning_rate": 6e-3, "average": 0.99, "weight_decay": 0.05}


def continuations() -> list[Run]:
    """CIFAR-10: each kernel with each border and strength. MNIST: some of these."""
    smooth = {"label_smoothing": 0.05}
    photographs = [
        Run(
            "vit_cifar10",
            kernel,
            border,
            strength,
            "old",
            16_000,
            1,
            LAST | smooth | {"weight_decay": 0.05},
        )
        for strength in ("full", "none", "half")
        for kernel in KERNELS
        for border in ("mirrored", "black", "edge")
        if kernel != "whole pixels" or strength == "none"
    ]
    digits = [
        Run(
            "vit_mnist",
            kernel,
            border,
            strength,
            "old",
            8_000,
            1,
            LAST | smooth | {"weight_decay": 0.1},
        )
        for kernel, border, strength in (
            ("bilinear", "black", "full"),
            ("bicubic", "black", "full"),
            ("bicubic", "mirrored", "full"),
            ("bicubic", "black", "half"),
            ("whole pixels", "black", "none"),
        )
    ]
    return photographs + digits


def scratch() -> list[Run]:
    """Short trainings of vit_cifar10 from the start."""
    variants = [
        ("bilinear", "black", "full", 0.05),
        ("bicubic", "mirrored", "full", 0.05),
        ("bicubic", "mirrored", "half", 0.05),
        ("bicubic", "mirrored", "half", 0.0),
        ("bicubic", "black", "half", 0.05),
    ]
    return [
        Run(
            "vit_cifar10", kernel, border, strength, "new", 15_000, 12,
            FIRST | {"label_smoothing": smoothing}, keep_patches=32, full_epochs=2,
        )
        for kernel, border, strength, smoothing in variants
    ]  # fmt: skip


def train(run: Run, seed: int, folder: Path) -> dict[str, Any]:
    """Train, and count the errors on validation images as they are."""
    train_data = load_data(data_of(run.model), "train")
    validation = load_data(data_of(run.model), "validation")
    chosen = torch.randperm(len(train_data), generator=torch.Generator().manual_seed(seed))
    some = train_data.select(chosen[: run.images], f"{run.images:,} of {train_data.name}")
    torch.manual_seed(seed)
    if run.start == "old":
        model = load_model(folder / f"{run.model}.pth")
    else:
        model = MODELS[run.model]()
        sincos_positions(model)
    before = predictions(speed_up(model), validation, validation.images.float() / 255)
    fast = speed_up(model, run.keep_patches)

    def before_epoch(epoch: int) -> None:
        full = epoch >= run.epochs - run.full_epochs
        fast.keep_patches = None if full else run.keep_patches

    usual = COLOUR if run.model == "vit_cifar10" else DIGITS
    strong = ("degrees", "scale", "shear", "elastic")
    factor = STRENGTHS[run.strength]
    changes = {key: value * factor if key in strong else value for key, value in usual.items()}
    where = {"kernel": run.kernel, "border": run.border}
    loader = Varied(some, 64, shuffle=True, augmentation=changes, seed=seed, **where)
    start = time.process_time()
    history = fit(
        fast,
        loader,
        Loader(validation, 250),
        epochs=run.epochs,
        seed=seed,
        before_epoch=before_epoch,
        **run.options,
    )
    seconds = time.process_time() - start
    after = predictions(speed_up(model), validation, validation.images.float() / 255)
    result = compared(before == validation.labels, [after == validation.labels])
    if run.start == "new":
        result = {"errors": result["errors"], "of": result["of"]}
    last = history[-1]
    result |= {"validation_loss": round(last["validation_loss"], 4)}
    return result | {
        "training_accuracy": round(last["accuracy"], 4),
        "cpu_seconds": round(seconds, 1),
    }


# ---- files


def page(results: dict[str, Any]) -> str:
    """The results as tables."""
    text = results["about"] + "\n"
    heads = ["what", "errors of 5,000", "fewer than as they are", "95 % interval"]
    for model in dict.fromkeys(row["model"] for row in results.get("evaluation", [])):
        rows = [
            (row["change"], _list(row["errors"]), f"{row['fewer']:g}", _interval(row))
            for row in results["evaluation"]
            if row["model"] == model
        ]
        text += f"\n## {model}, evaluated on changed images\n\n{measure.table(heads, rows)}"
    for part in ("continuation", "scratch"):
        names = dict.fromkeys(row["name"] for row in results.get(part, []))
        rows = [_trained(name, [r for r in results[part] if r["name"] == name]) for name in names]
        if rows:
            heads = [
                "model, start, kernel, border, strength",
                "errors of 5,000, each seed",
                "mean",
                "CPU s",
            ]
            text += f"\n## {part}\n\n{measure.table(heads, rows)}"
    return text


def _trained(name: str, rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    errors = [row["errors"][0] for row in rows]
    seconds = [row["cpu_seconds"] for row in rows]
    return (
        name,
        _list(errors),
        f"{sum(errors) / len(errors):g}",
        f"{sum(seconds) / len(seconds):.0f}",
    )


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _interval(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{low:g} to {high:g}"


def store(path: Path, part: str, row: dict[str, Any]) -> None:
    """Add a row to the results; other parts may have been written meanwhile."""
    results = measure.read(path)
    results["about"] = (
        "Validation images (5,000 of each data set), one thread. Old weights: trained with "
        "bilinear resampling and a black border; trained on with a learning rate from 1e-3 to 0. "
        "Strength: of rotation, scaling, shear and elastic distortion. Intervals: 95 %, over the "
        "images."
    )
    results["machine"] = measure.machine()
    results.setdefault(part, []).append(row)
    measure.write(path, results, page(results))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing of a part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument(
        "--weights", type=Path, default=OLD, help=f"folder of the old weights (default {OLD})"
    )
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="file of results (default benchmarks/results)"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.part == "predictions":
        store_predictions(options.weights, CHECKOUT / "notebooks" / "results" / "blurred.npz")
        return
    if options.part == "picture":
        draw(options.out.with_suffix(".png"))
        return
    stored = measure.read(options.out).get(options.part, [])
    if options.part == "evaluation":
        for model in MODELS:
            for change in changes():
                done = any((row["model"], row["change"]) == (model, change) for row in stored)
                if not done and options.only in model:
                    row = {"model": model, "change": change} | evaluate(
                        model, change, options.weights
                    )
                    print(row, flush=True)
                    store(options.out, "evaluation", row)
        return
    runs = continuations() if options.part == "continuation" else scratch()
    for run in runs:
        for seed in options.seeds:
            done = any((row["name"], row["seed"]) == (run.name, seed) for row in stored)
            if not done and options.only in run.name:
                row = {"name": run.name, "seed": seed} | train(run, seed, options.weights)
                print(row, flush=True)
                store(options.out, options.part, row)


if __name__ == "__main__":
    main()
