"""The model that grows from notebook 00 to 06: every row with and without its piece, five seeds.

    python -m experiments growing                     # the rows, and what is stored
    python -m experiments growing with_mlp --seed 3   # train one seed, beside the stored ones
    python -m experiments growing with_mlp --store    # choose the rate, train five seeds, store

The models are those that the notebooks show, made of the package's classes
(``mnist_vit/course/ladder/growing.py``). All train in the ladder's loop on 4,000 digits, or on the
relational task. The learning rate of every model is chosen on digits (or patches) split from the
4,000, never on the 1,000 that give the accuracy.
"""

import math

from torch import nn

from mnist_vit.course.ladder import ROWS, Row, digits, looked_at, stored
from mnist_vit.course.ladder.loop import BATCH
from mnist_vit.course.ladder.rows import RESULTS

FILE = RESULTS / "growing.json"
NAMES = list(ROWS)
RATES = (1e-3, 3e-3, 1e-2)
SEEDS = range(5)


def run(name: str, seed: int | None = None) -> dict:
    """Train the model of a row: five seeds, or the one given, with the stored learning rate."""
    row = ROWS[name]
    if seed is not None:
        return one_seed(row, stored(name)["learning_rate"], seed)
    found, models = measure(row)
    if name == "same_head":
        found["looks_at"] = [looked_at(model) for model in models]
    return found


def one_seed(row: Row, rate: float, seed: int) -> dict:
    """Return the accuracy of one seed, in percent, and its CPU seconds."""
    _, reached, seconds = row.train(rate, seed)
    return {"accuracy": [reached], "cpu_seconds": round(seconds, 1)}


def measure(row: Row, rates: tuple[float, ...] = RATES) -> tuple[dict, list[nn.Module]]:
    """Choose the learning rate, then train five seeds; return what is stored, and the models."""
    rate, tried = choose(row, rates)
    runs = [row.train(rate, seed) for seed in SEEDS]
    models = [model for model, _, _ in runs]
    seconds = [one for _, _, one in runs]
    steps = row.epochs * math.ceil(len(digits("train")[0]) / BATCH)
    found = {
        "twin": row.twin,
        "accuracy": [reached for _, reached, _ in runs],
        "learning_rate": rate,
        "tried": tried,
        "epochs": None if row.steps else row.epochs,
        "steps": row.steps or steps,
        "parameters": sum(p.numel() for p in models[0].parameters() if p.requires_grad),
        "cpu_seconds": round(sum(seconds) / len(seconds), 1),
    }
    return found, models


def choose(row: Row, rates: tuple[float, ...] = RATES) -> tuple[float, dict[str, float]]:
    """Return the best learning rate, and the accuracy of each.

    The accuracy is that on digits (or patches) split from the training data. Two seeds choose for
    the relational task: there a rate may work for one seed and leave the next at chance.
    """
    seeds = (0, 1) if row.steps else (0,)
    tried = {}
    for rate in rates:
        reached = [row.train(rate, seed, "fit", "choose")[1] for seed in seeds]
        tried[rate] = sum(reached) / len(seeds)
    best = max(rates, key=tried.__getitem__)
    return best, {f"{rate:g}": round(reached, 1) for rate, reached in tried.items()}
