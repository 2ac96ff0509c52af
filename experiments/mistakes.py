"""Which images weights misclassify, as what: kept before weights are replaced.

    python -m experiments mistakes --store

Lessons compare old and new weights. Evaluates the shipped weights on the validation and the test
images that their .json was evaluated on (MNIST: 10,000 test images; CIFAR-10: the 1,000 in the data
folder), and stores the position, label and prediction of each mistake, beside what the .json says
of the weights. Nothing is chosen by it. About a CPU minute.
"""

import time
from typing import Any

import torch

from mnist_vit.data import Loader, load_data
from mnist_vit.evaluation import evaluate_model
from mnist_vit.fast import speed_up
from mnist_vit.files import shipped
from mnist_vit.jobs import MODELS
from mnist_vit.weights import load_model, read_json

FILE = shipped("notebooks") / "results" / "old_weights.json"
WHAT = "position/label/prediction of each misclassified image; positions count from 0 in each split"
KEPT = (
    "parameters",
    "recipe",
    "command",
    "seconds",
    "threads",
    "date",
    "versions",
    "sha256",
    "seeds",
)


def run() -> dict[str, Any]:
    """Evaluate all shipped weights."""
    return {
        "what": WHAT,
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__.split("+")[0],
        "weights": {name: mistakes(name) for name in MODELS},
    }


def mistakes(name: str) -> dict[str, Any]:
    """Return metrics and mistakes of shipped weights, and how they were made."""
    about = read_json(name)
    found = {key: about[key] for key in KEPT if key in about}
    model = speed_up(load_model(name))
    for split in ("validation", "test"):
        images = load_data("cifar10" if name == "vit_cifar10" else "mnist", split)
        result = evaluate_model(model, Loader(images, 250), images.classes, images.name)
        wrong = (result.predictions != result.labels).nonzero()[:, 0]
        rows = torch.stack([wrong, result.labels[wrong], result.predictions[wrong]], dim=1)
        found[split] = {
            "on": images.name,
            "accuracy": result.accuracy,
            "correct": result.correct,
            "total": result.total,
            "interval": [round(bound, 6) for bound in result.interval],
            "mistakes": " ".join(slashed(row) for row in rows.tolist()),
        }
    return found


def slashed(row: list[int]) -> str:
    return "/".join(str(number) for number in row)
