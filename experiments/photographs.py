"""Notebook 12's crops of three photographs: two starts at two learning rates, five seeds each.

    python -m experiments photographs                    # names, and what is stored
    python -m experiments photographs new_fast --seed 2  # one seed, beside the stored ones
    python -m experiments photographs --store            # five seeds of each, stored

A training begins with start values ("new"), or with the weights of vit_cifar10 ("pretrained").
Each of them is trained at the rate that ``train`` takes for the first (0.006, "fast") and at the
one that it takes for the second (0.001, "slow"). All else is what ``train`` takes where nothing is
given: of position embeddings, only those that are new start as sines and cosines. The crops are
always the notebook's; a seed is that of the training. Nothing was chosen by these numbers.
"""

import tempfile
from pathlib import Path

import torch

from mnist_vit import train
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb12_cifar10_and_ablations.photographs import (
    SIZE,
    photographs,
    random_places,
    write_crops,
)
from mnist_vit.course.nb12_cifar10_and_ablations.split_by_region import my_split_by_region
from mnist_vit.data import Loader, load_for
from mnist_vit.evaluation import evaluate_model
from mnist_vit.model import VisionTransformer

FILE = RESULTS / "photographs.json"
SEEDS = range(5)
EPOCHS = 10
WEIGHTS = {"new": None, "pretrained": "vit_cifar10"}
RATES = {"fast": 0.006, "slow": 0.001}
NAMES = ["new_fast", "new_slow", "pretrained_fast", "pretrained_slow"]


def run(name: str, seed: int | None = None) -> dict:
    """Train with five seeds, or with the one given; accuracies in percent of the held-out crops."""
    start, _, pace = name.partition("_")
    seeds = SEEDS if seed is None else [seed]
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder))
        accuracy = [one_run(Path(folder), WEIGHTS[start], RATES[pace], one) for one in seeds]
    return {"accuracy": accuracy, "weights": WEIGHTS[start], "learning_rate": RATES[pace]}


def write_folder(folder: Path) -> None:
    """Write the crops of notebook 12: training crops left of a line, held-out ones right of it."""
    for name, photograph in photographs().items():
        places = torch.from_numpy(random_places(photograph, 150))
        cut = round(0.7 * photograph.width)
        training, held_out = my_split_by_region(places[:, 0], SIZE, cut)
        write_crops(photograph, places[training], folder / "train" / name)
        write_crops(photograph, places[held_out], folder / "validation" / name)


def one_run(folder: Path, weights: str | None, learning_rate: float, seed: int) -> float:
    """Return the accuracy after ten epochs."""
    torch.manual_seed(seed)
    model = VisionTransformer(32, 4, 4, 4, 48, 192, num_classes=3, in_channels=3)
    with tempfile.TemporaryDirectory() as run_dir:
        train(
            model,
            data=folder,
            weights=weights,
            learning_rate=learning_rate,
            seed=seed,
            epochs=EPOCHS,
            run_dir=run_dir,
        )
    held = load_for(model.eval(), model.about, folder, "validation")
    found = evaluate_model(model, Loader(held, 250), held.classes, held.name)
    return round(100 * found.accuracy, 1)
