"""Which images weights misclassify, as what: kept before weights are replaced, because lessons
compare old and new.

    python -m experiments mistakes --out notebooks/results/old_weights.json

Evaluates the shipped weights on the validation and the test images that their .json was evaluated
on (MNIST: 10,000 test images; CIFAR-10: the 1,000 in the data folder), and stores the position,
label and prediction of each mistake, beside what the .json says of the weights. Nothing is chosen
by it. About a CPU minute.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from mnist_vit.data import Loader, load_data
from mnist_vit.evaluation import evaluate_model
from mnist_vit.fast import speed_up
from mnist_vit.files import write_json
from mnist_vit.jobs import MODELS
from mnist_vit.weights import load_model, read_json

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


def mistakes(name: str) -> dict[str, Any]:
    """Metrics and mistakes of shipped weights, and how they were made."""
    model, about = load_model(name), read_json(name)
    parts = {}
    for split in ("validation", "test"):
        images = load_data("cifar10" if name == "vit_cifar10" else "mnist", split)
        result = evaluate_model(speed_up(model), Loader(images, 250), images.classes, images.name)
        wrong = (result.predictions != result.labels).nonzero()[:, 0]
        rows = torch.stack([wrong, result.labels[wrong], result.predictions[wrong]], dim=1)
        parts[split] = {
            "on": images.name,
            "accuracy": result.accuracy,
            "correct": result.correct,
            "total": result.total,
            "interval": [round(bound, 6) for bound in result.interval],
            "mistakes": " ".join("/".join(map(str, row)) for row in rows.tolist()),
        }
    return {key: about[key] for key in KEPT if key in about} | parts


def main(arguments: list[str] | None = None) -> None:
    """Store the mistakes of all shipped weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results = {
        "what": (
            "position/label/prediction of each misclassified image; positions count from 0 in each"
            " split"
        ),
        "command": f"python -m experiments mistakes --out {options.out}",
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__.split("+")[0],
        "weights": {name: mistakes(name) for name in MODELS},
    }
    for name, row in results["weights"].items():
        print(
            f"{name}: validation {row['validation']['accuracy']:.2%}, test"
            f" {row['test']['accuracy']:.2%}"
        )
    print(f"written to {write_json(options.out, results)}")


if __name__ == "__main__":
    main()
