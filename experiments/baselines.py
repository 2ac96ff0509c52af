"""What else 115 thousand parameters can do: an MLP and a small CNN, trained with the recipe of
``vit_mnist``.

    python -m experiments baselines mlp
    python -m experiments baselines cnn

Each is trained on the same 55,000 MNIST digits (``MNIST_VIT_DATA``, or ``data/``), validated on the
same 5,000, and writes notebooks/results/<name>.json for notebook 07. Epochs, batches, weight decay,
average, label smoothing and augmentation are those stored in weights/vit_mnist.json. What only a
Vision Transformer can use is left out: Muon (which is used for the matrices of the encoder; here it
is AdamW, with the default learning rate), the choice of patches, the start of the position
embedding.
"""

import argparse
import inspect
import time

import torch
from torch import nn

from mnist_vit.data import Loader, augment, load_mnist
from mnist_vit.files import shipped, write_json
from mnist_vit.jobs import train
from mnist_vit.training import fit
from mnist_vit.weights import read_json

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

OPTIONS = ("epochs", "batch_size", "weight_decay", "average", "label_smoothing")
DEFAULTS = {
    name: parameter.default for name, parameter in inspect.signature(train).parameters.items()
}


def main() -> None:
    """Train one of the two and write down what came out."""
    parser = argparse.ArgumentParser(
        description="Train an MLP or a small CNN with the course's recipe."
    )
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    shipped_recipe = DEFAULTS | read_json("vit_mnist")["recipe"]
    augmentation = {
        name: shipped_recipe[name]
        for name in inspect.signature(augment).parameters
        if name in DEFAULTS
    }
    recipe = {name: shipped_recipe[name] for name in OPTIONS} | {
        "learning_rate": DEFAULTS["learning_rate"]
    }

    torch.manual_seed(given.seed)
    model = MODELS[given.model]()
    training, validation = load_mnist("train"), load_mnist("validation")
    start = time.process_time()
    history = fit(
        model,
        Loader(
            training, recipe["batch_size"], shuffle=True, augmentation=augmentation, seed=given.seed
        ),
        Loader(validation, 250),
        seed=given.seed,
        **{name: value for name, value in recipe.items() if name != "batch_size"},
    )
    about = {
        "name": given.model,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "data": training.name,
        "recipe": recipe | augmentation,
        "seed": given.seed,
        "metrics": {
            "validation": {
                "on": validation.name,
                "accuracy": round(history[-1]["validation_accuracy"], 5),
            }
        },
        "cpu_seconds": round(time.process_time() - start),
        "threads": torch.get_num_threads(),
        "command": (
            f"python -m experiments baselines {given.model}"
            + (f" --seed {given.seed}" if given.seed else "")
        ),
        "history": [{key: round(value, 5) for key, value in row.items()} for row in history],
        "versions": {"torch": torch.__version__.split("+")[0]},
    }
    print(
        f"written to {write_json(shipped('notebooks') / 'results' / f'{given.model}.json', about)}"
    )


if __name__ == "__main__":
    main()
