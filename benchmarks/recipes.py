"""What does each part of a recipe bring? Short runs that differ in one thing, compared on validation images.

    python benchmarks/recipes.py                         # every run that is not in the results yet
    python benchmarks/recipes.py p7_muon_elastic --seed 1

Needs MNIST and CIFAR-10 (MNIST_VIT_DATA, or data/). One thread; CPU seconds include the validation after each epoch.
Runs of a few epochs favour what learns fast; what only helps against overfitting shows in longer ones. The test images
are not used. Results go to benchmarks/results/recipes.json and recipes.md after every run, so it can be stopped.
"""

import argparse
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure
import torch

from mnist_vit.data import Loader, load_data
from mnist_vit.fast import speed_up
from mnist_vit.recipes import MODELS
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
        model: a name in ``recipes.MODELS``.
        epochs: passes over the training images.
        options: of ``training.fit``, beside those that all runs share.
        changes: of ``augment``.
        keep_patches: while training; None keeps all.
        full_epochs: how many of the last epochs use all patches.
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


COLOUR = {"scale": 0.1, "shift": 3.0, "flip": True}
CIFAR = {"changes": COLOUR, "images": 15_000}
DECAY = {"weight_decay": 0.05}
RUNS: dict[str, Run] = {
    "p7_adamw": Run("AdamW", "vit_mnist_p7", 6),
    "p7_muon": Run("Muon", "vit_mnist_p7", 6, MUON),
    "p7_muon_elastic": Run("Muon, elastic 0.7", "vit_mnist_p7", 6, MUON, DIGITS | {"elastic": 0.7}),
    "p7_muon_smooth": Run("Muon, label smoothing 0.05", "vit_mnist_p7", 6, MUON | {"label_smoothing": 0.05}),
    "p7_muon_shear": Run("Muon, shear 0.2", "vit_mnist_p7", 6, MUON, DIGITS | {"shear": 0.2}),
    "p2_muon": Run("Muon, 64 patches", "vit_mnist", 4, MUON, keep_patches=64),
    "p2_15k": Run("15,000 images, 64 patches", "vit_mnist", 8, MUON, keep_patches=64, images=15_000),
    "p2_15k_full": Run("the same, all in the last", "vit_mnist", 6, MUON, DIGITS, 64, full_epochs=1, images=15_000),
    "p2_15k_48": Run("15,000 images, 48 patches", "vit_mnist", 8, MUON, keep_patches=48, images=15_000),
    "cifar_adamw": Run("AdamW", "vit_cifar10", 4, DECAY, **CIFAR),
    "cifar_muon": Run("Muon", "vit_cifar10", 4, MUON | DECAY, **CIFAR),
    "cifar_muon_32": Run("Muon, 32 patches, at last all", "vit_cifar10", 6, MUON | DECAY, COLOUR, 32, 1, 15_000),
}


def run(name: str, seed: int) -> dict[str, Any]:
    """Train from one seed and measure on the validation images."""
    plan = RUNS[name]
    data = "cifar10" if plan.model == "vit_cifar10" else "mnist"
    train, validation = load_data(data, "train"), load_data(data, "validation")
    if plan.images is not None:
        chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[: plan.images]
        train = train.select(chosen, f"{plan.images:,} of {train.name}")
    torch.manual_seed(seed)
    model = MODELS[plan.model]()
    sincos_positions(model)
    fast = speed_up(model, plan.keep_patches)

    def before_epoch(epoch: int) -> None:
        fast.keep_patches = plan.keep_patches if epoch < plan.epochs - plan.full_epochs else None  # type: ignore[assignment]

    start = time.process_time()
    history = fit(
        fast,
        Loader(train, 64, shuffle=True, augmentation=plan.changes, seed=seed),
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
        (r["model"], r["what"], r["epochs"], r["seed"], r["errors"], f"{r['loss']:.4f}", f"{r['cpu_seconds']:.0f}")
        for r in results["runs"]
    ]
    heads = ("model", "recipe", "epochs", "seed", "errors of 5,000", "validation loss", "CPU s")
    return f"{results['about']}\n\n{measure.table(heads, rows)}"


def main(arguments: list[str] | None = None) -> None:
    """Run what is asked for, and write it beside the other results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=RUNS, help="run this one (again); left out: all still missing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results (default benchmarks/results)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    stored = {(row["name"], row["seed"]): row for row in measure.read(options.out).get("runs", [])}
    for name in [options.name] if options.name else RUNS:
        if options.name is None and (name, options.seed) in stored:
            continue
        row = run(name, options.seed)
        print(f"{name}, seed {options.seed}: {row}", flush=True)
        command = f"python benchmarks/recipes.py {name} --seed {options.seed}"
        about = {"name": name, "seed": options.seed, **asdict(RUNS[name])}
        stored[name, options.seed] = about | row | {"command": command}
        order = sorted(stored, key=lambda key: (list(RUNS).index(key[0]), key[1]))
        results = {
            "about": "Short runs on one thread; each row differs from the first of its model in what it says. Sampling "
            "noise of 5,000 images: about ±0.15 points at 98.5 %, ±0.7 at 55 %.",
            "machine": measure.machine(),
            "runs": [stored[key] for key in order],
        }
        measure.write(options.out, results, page(results))


if __name__ == "__main__":
    main()
