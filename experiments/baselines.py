"""What else 115 thousand parameters can do: an MLP and a small CNN.

    python -m experiments baselines mlp --store
    python -m experiments baselines cnn --store

Each is trained with the recipe of ``vit_mnist``, on the same 55,000 MNIST digits
(``MNIST_VIT_DATA``, or ``data/``), validated on the same 5,000, and stored in
notebooks/results/<name>.json for notebook 07. Epochs, batches, weight decay, average, label
smoothing and augmentation are those stored in weights/vit_mnist.json. What only a Vision
Transformer can use is left out: Muon (which is used for the matrices of the encoder; here it is
AdamW, with the default learning rate), the choice of patches, the start of the position embedding.
"""

import time
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import nn

from mnist_vit.data import Loader, load_mnist
from mnist_vit.files import shipped
from mnist_vit.recipe import Augmentation, Recipe
from mnist_vit.training import fit
from mnist_vit.weights import read_json

FILE = shipped("notebooks") / "results" / "{name}.json"
OPTIONS = ("epochs", "batch_size", "weight_decay", "average", "label_smoothing")


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 128),
        nn.GELU(),
        nn.Linear(128, 108),
        nn.GELU(),
        nn.Linear(108, 10),
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, stride=2, padding=2),  # (n, 1, 28, 28) -> (n, 32, 14, 14)
        nn.GELU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),  # -> (n, 64, 7, 7)
        nn.GELU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),  # -> (n, 128, 4, 4)
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(128 * 4 * 4, 10),
    )


MODELS = {"mlp": mlp, "cnn": cnn}
NAMES = list(MODELS)


def run(name: str, seed: int = 0) -> dict[str, Any]:
    """Train one of the two, and measure it on the validation digits."""
    recipe, augmentation = recipe_of_vit_mnist()
    torch.manual_seed(seed)
    model = MODELS[name]()
    training, validation = load_mnist("train"), load_mnist("validation")
    batch_size = recipe["batch_size"]
    start = time.process_time()
    history = fit(
        model,
        Loader(training, batch_size, shuffle=True, augmentation=augmentation, seed=seed),
        Loader(validation, 250),
        seed=seed,
        **{key: value for key, value in recipe.items() if key != "batch_size"},
    )
    seconds = time.process_time() - start
    accuracy = round(history[-1]["validation_accuracy"], 5)
    return {
        "name": name,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "data": training.name,
        "recipe": recipe | augmentation,
        "seed": seed,
        "metrics": {"validation": {"on": validation.name, "accuracy": accuracy}},
        "cpu_seconds": round(seconds),
        "threads": torch.get_num_threads(),
        "history": [rounded(row) for row in history],
        "versions": {"torch": torch.__version__.split("+")[0]},
    }


def recipe_of_vit_mnist() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the baselines share with the shipped weights: options and augmentation."""
    defaults = asdict(Recipe())
    shipped_recipe = defaults | read_json("vit_mnist")["recipe"]
    recipe = {name: shipped_recipe[name] for name in OPTIONS}
    recipe["learning_rate"] = defaults["learning_rate"]
    return recipe, {field.name: shipped_recipe[field.name] for field in fields(Augmentation)}


def rounded(row: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 5) for key, value in row.items()}
