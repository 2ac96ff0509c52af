"""What each piece of a Vision Transformer buys: small models trained with it and without it, on
4,000 digits.

    python -m experiments ladder                     # the rungs: names, stored accuracy
    python -m experiments ladder block --seed 3      # train it, print the accuracy beside the stored
    range python -m experiments ladder block mlp --store   # choose the learning rates, train five
    seeds, write the JSON

Models, tasks and the training loop are the course's, in ``mnist_vit/course/ladder``. The learning
rate of every model is chosen on digits (or patches) split from the 4,000, never on the 1,000 that
give the accuracy.
"""

import argparse
import math

import torch
from torch import nn

from mnist_vit.course.ladder import RUNGS, Rung, digits, looked_at, row, stored, table
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.ladder.rungs import BATCH, accuracy
from mnist_vit.files import write_json

RATES = (1e-3, 3e-3, 1e-2)
SEEDS = range(5)


@torch.no_grad()
def without_positions(model: nn.Module) -> float:
    """The accuracy in percent of a model trained with positions, once they are set to zero."""
    nn.init.zeros_(model.positions)
    return accuracy(model, *digits("validation"))


def choose(rung: Rung, rates: tuple[float, ...] = RATES) -> tuple[float, dict[str, float]]:
    """The best learning rate, and the accuracy of each on digits (or patches) split from the
    training data.

    Two seeds choose for the relational task: there a rate may work for one seed and leave the next
    at chance.
    """
    seeds = (0, 1) if rung.steps else (0,)
    tried = {
        rate: sum(rung.train(rate, seed, "fit", "choose")[1] for seed in seeds) / len(seeds)
        for rate in rates
    }
    return max(rates, key=tried.__getitem__), {
        f"{rate:g}": round(reached, 1) for rate, reached in tried.items()
    }


def measure(
    rung: Rung, command: str, rates: tuple[float, ...] = RATES
) -> tuple[dict, list[nn.Module]]:
    """Choose the learning rate, then train five seeds: what is stored, and the models."""
    rate, tried = choose(rung, rates)
    runs = [rung.train(rate, seed) for seed in SEEDS]
    models = [model for model, *_ in runs]
    return {
        "twin": rung.twin,
        "accuracy": [reached for _, reached, _ in runs],
        "learning_rate": rate,
        "tried": tried,
        "epochs": None if rung.steps else rung.epochs,
        "steps": rung.steps or rung.epochs * math.ceil(len(digits("train")[0]) / BATCH),
        "parameters": sum(p.numel() for p in models[0].parameters()),
        "cpu_seconds": round(sum(seconds for *_, seconds in runs) / len(runs), 1),
        "command": command,
    }, models


def store(name: str, about: dict, order: list[str], results: str) -> None:
    """Write one rung into the JSON, in the order of the rungs."""
    path = RESULTS / f"{results}.json"
    rungs = (stored(results=results) if path.exists() else {}) | {name: about}
    write_json(path, {rung: rungs[rung] for rung in order if rung in rungs})
    print(name, about, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Train rungs beside their stored ranges, or measure and store them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rungs",
        nargs="*",
        metavar="rung",
        help=f"of {', '.join(RUNGS)}; left out: the stored table",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--store",
        action="store_true",
        help="choose the learning rate, train five seeds, store both",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if unknown := [name for name in options.rungs if name not in RUNGS]:
        parser.error(f"no rung is called {', '.join(unknown)}. Choose from: {', '.join(RUNGS)}")
    for name in options.rungs:
        if options.store:
            about, models = measure(RUNGS[name], f"python -m experiments ladder {name}")
            if name == "relation":
                about["looks_at"] = [looked_at(model) for model in models]
            if name == "positions":
                about["positions_zeroed"] = [without_positions(model) for model in models]
            store(name, about, list(RUNGS), "ladder")
        else:
            _, reached, seconds = RUNGS[name].train(stored(name)["learning_rate"], options.seed)
            print(f"{name}: {row(name, reached)}, {seconds:.0f} CPU seconds", flush=True)
    if not options.rungs:
        print(table(*RUNGS))


if __name__ == "__main__":
    main()
