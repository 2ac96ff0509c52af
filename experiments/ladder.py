"""What each piece of a Vision Transformer buys: small models with it and without it.

    python -m experiments ladder                  # the rungs, and what is stored
    python -m experiments ladder block --seed 3   # train one seed, print it beside the stored ones
    python -m experiments ladder block --store    # choose the rate, train five seeds, store them

Models, tasks and the training loop are the course's, in ``mnist_vit/course/ladder``. They train on
4,000 digits. The learning rate of every model is chosen on digits (or patches) split from the
4,000, never on the 1,000 that give the accuracy.
"""

import math

import torch
from torch import nn

from mnist_vit.course.ladder import RUNGS, Rung, digits, looked_at, stored
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.ladder.rung import BATCH, accuracy

FILE = RESULTS / "ladder.json"
NAMES = list(RUNGS)
RATES = (1e-3, 3e-3, 1e-2)
SEEDS = range(5)


def run(name: str, seed: int | None = None) -> dict:
    """Train a rung: five seeds, or the one given, with the stored learning rate."""
    rung = RUNGS[name]
    if seed is not None:
        return one_seed(rung, stored(name)["learning_rate"], seed)
    found, models = measure(rung)
    if name == "relation":
        found["looks_at"] = [looked_at(model) for model in models]
    if name == "positions":
        found["positions_zeroed"] = [without_positions(model) for model in models]
    return found


def one_seed(rung: Rung, rate: float, seed: int) -> dict:
    """Return the accuracy of one seed, in percent, and its CPU seconds."""
    _, reached, seconds = rung.train(rate, seed)
    return {"accuracy": [reached], "cpu_seconds": round(seconds, 1)}


def measure(rung: Rung, rates: tuple[float, ...] = RATES) -> tuple[dict, list[nn.Module]]:
    """Choose the learning rate, then train five seeds; return what is stored, and the models."""
    rate, tried = choose(rung, rates)
    runs = [rung.train(rate, seed) for seed in SEEDS]
    models = [model for model, _, _ in runs]
    seconds = [one for _, _, one in runs]
    steps = rung.epochs * math.ceil(len(digits("train")[0]) / BATCH)
    found = {
        "twin": rung.twin,
        "accuracy": [reached for _, reached, _ in runs],
        "learning_rate": rate,
        "tried": tried,
        "epochs": None if rung.steps else rung.epochs,
        "steps": rung.steps or steps,
        "parameters": sum(p.numel() for p in models[0].parameters() if p.requires_grad),
        "cpu_seconds": round(sum(seconds) / len(seconds), 1),
    }
    return found, models


def choose(rung: Rung, rates: tuple[float, ...] = RATES) -> tuple[float, dict[str, float]]:
    """Return the best learning rate, and the accuracy of each.

    The accuracy is that on digits (or patches) split from the training data. Two seeds choose for
    the relational task: there a rate may work for one seed and leave the next at chance.
    """
    seeds = (0, 1) if rung.steps else (0,)
    tried = {}
    for rate in rates:
        reached = [rung.train(rate, seed, "fit", "choose")[1] for seed in seeds]
        tried[rate] = sum(reached) / len(seeds)
    best = max(rates, key=tried.__getitem__)
    return best, {f"{rate:g}": round(reached, 1) for rate, reached in tried.items()}


@torch.no_grad()
def without_positions(model: nn.Module) -> float:
    """Return the accuracy in percent of a model whose trained positions are set to zero."""
    nn.init.zeros_(model.positions)
    return accuracy(model, *digits("validation"))
