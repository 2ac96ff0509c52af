"""The models of notebook 12's project, five seeds each: three epochs of 4,000 digits.

    python -m experiments project                    # names, and what is stored
    python -m experiments project cnn --seed 2       # train one seed, print it beside the stored
    range python -m experiments project cnn --store        # train five seeds, write the JSON

For vit, cnn and mlp the learning rate is chosen out of three, on digits split from the 4,000; all
changes of the vit take its rate. The three seeds that the notebook trains are the first three of
the five.
"""

import argparse

import torch
from ladder import choose, store

from mnist_vit.course.ladder import Rung, stored
from mnist_vit.course.ladder.rows import RESULTS, span
from mnist_vit.course.nb12_cifar10_and_ablations.project import EPOCHS, MODELS, RATE, train

SEEDS = range(5)
CHOSEN = ("vit", "cnn", "mlp")


def measure(name: str) -> dict:
    """Choose the learning rate where it is to be chosen, and train five seeds."""
    rate, tried = choose(Rung("", MODELS[name], epochs=EPOCHS)) if name in CHOSEN else (RATE, {})
    return {
        "accuracy": [train(MODELS[name], seed, rate) for seed in SEEDS],
        "learning_rate": rate,
        "tried": tried,
        "parameters": sum(p.numel() for p in MODELS[name]().parameters() if p.requires_grad),
        "command": f"python -m experiments project {name} --store",
    }


def main(arguments: list[str] | None = None) -> None:
    """Train one seed beside what is stored, or all five, and store them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(MODELS)}; left out: all stored"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", action="store_true", help="train five seeds, write the JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if unknown := [name for name in options.names if name not in MODELS]:
        parser.error(f"nothing is called {', '.join(unknown)}. Choose from: {', '.join(MODELS)}")
    for name in options.names:
        if options.store:
            store(name, measure(name), list(MODELS), "project")
        else:
            about = stored(name, "project")
            live = train(MODELS[name], options.seed, about["learning_rate"])
            print(f"{name}: {span(live, about['accuracy'])}", flush=True)
    if not options.names and (RESULTS / "project.json").exists():
        for name, about in stored(results="project").items():
            print(f"{name}: {about['accuracy']}")


if __name__ == "__main__":
    main()
