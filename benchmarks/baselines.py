"""What else 115 thousand parameters can do: an MLP and a small CNN, trained with the recipe of the shipped weights.

    python benchmarks/baselines.py mlp --epochs 10
    python benchmarks/baselines.py cnn --epochs 10

Each reads MNIST (``MNIST_VIT_DATA``, or ``data/``), learns from the 55,000 digits that the Vision Transformers learn
from, is measured on the same 5,000, and writes notebooks/results/<name>.json for notebook 07.
"""

import argparse
import inspect
import time

import torch
from torch import nn

from mnist_vit.data import Loader, load_mnist
from mnist_vit.files import shipped, write_json
from mnist_vit.recipes import train
from mnist_vit.training import fit

MODELS = {
    "mlp": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 128),
        nn.GELU(),
        nn.Linear(128, 108),
        nn.GELU(),
        nn.Linear(108, 10),
    ),
    "cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 32, 5, stride=2, padding=2),  # (n, 1, 28, 28) -> (n, 32, 14, 14)
        nn.GELU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),  # -> (n, 64, 7, 7)
        nn.GELU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),  # -> (n, 128, 4, 4)
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(128 * 4 * 4, 10),
    ),
}

# The recipe is that of ``mnist_vit.train``, whose defaults are written there and nowhere else.
DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(train).parameters.items()}
AUGMENTATION = ("degrees", "scale", "shift", "flip")
RECIPE = ("batch_size", "learning_rate", "weight_decay", "average", *AUGMENTATION)


def main() -> None:
    """Train one of the two and write down what came out."""
    parser = argparse.ArgumentParser(description="Train an MLP or a small CNN with the course's recipe.")
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    recipe = {name: DEFAULTS[name] for name in RECIPE}

    torch.manual_seed(given.seed)
    model = MODELS[given.model]()
    training, validation = load_mnist("train"), load_mnist("validation")
    augmentation = {name: recipe[name] for name in AUGMENTATION}
    start = time.perf_counter()
    history = fit(
        model,
        Loader(training, recipe["batch_size"], shuffle=True, augmentation=augmentation, seed=given.seed),
        Loader(validation, 250),
        epochs=given.epochs,
        learning_rate=recipe["learning_rate"],
        weight_decay=recipe["weight_decay"],
        average=recipe["average"],
        seed=given.seed,
    )
    about = {
        "name": given.model,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "data": training.name,
        "recipe": {"epochs": given.epochs, **recipe},
        "seed": given.seed,
        "metrics": {"validation": {"on": validation.name, "accuracy": round(history[-1]["validation_accuracy"], 5)}},
        "seconds": round(time.perf_counter() - start),
        "threads": torch.get_num_threads(),
        "command": f"python benchmarks/baselines.py {given.model} --epochs {given.epochs}"
        + (f" --seed {given.seed}" if given.seed else ""),
        "history": [{key: round(value, 5) for key, value in row.items()} for row in history],
        "versions": {"torch": torch.__version__.split("+")[0]},
    }
    print(f"written to {write_json(shipped('notebooks') / 'results' / f'{given.model}.json', about)}")


if __name__ == "__main__":
    main()
