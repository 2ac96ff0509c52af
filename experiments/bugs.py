"""Seven silent bugs: Vision Transformers that are wrong, and all train. Which does accuracy find?

    python -m experiments bugs                             # the stored table
    python -m experiments bugs right not_divided --seed 3  # train them, print the accuracy beside
    the stored range python -m experiments bugs right not_divided --store   # choose the rates, train
    five seeds, write the JSON

Each bug is an edit of ``mnist_vit/model.py``; the table of them belongs to notebook 06. The right
model has the sizes of ``vit_mnist(patch_size=7)`` and the attention from scratch in its blocks. All
are trained by the recipe of ``experiments/ladder.py``, each with the better of two learning rates,
and differ in nothing else: from one seed they start with the same weights.
"""

import argparse
from functools import partial

import torch
from ladder import measure, store

from mnist_vit.course.ladder import Rung, row, stored, table
from mnist_vit.course.nb06_vision_transformer.bugs import BUGS, broken

RATES = (3e-3, 1e-2)


def rung(name: str) -> Rung:
    """The model with that bug, trained like a rung of the ladder: no layer before the head, the
    mean pooled."""
    model = partial(broken, name, 28, 7, 2, 2, 64, 256, num_classes=10, in_channels=1, pool="mean")
    return Rung(name, model, twin=None if name == "right" else "right", epochs=20)


def main(arguments: list[str] | None = None) -> None:
    """Train models beside their stored ranges, or measure and store them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "bugs", nargs="*", metavar="bug", help=f"of {', '.join(BUGS)}; left out: the stored table"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--store",
        action="store_true",
        help="choose the rate, train five seeds, store the accuracies",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if unknown := [name for name in options.bugs if name not in BUGS]:
        parser.error(f"no bug is called {', '.join(unknown)}. Choose from: {', '.join(BUGS)}")
    for name in options.bugs:
        if options.store:
            about, _ = measure(rung(name), f"python -m experiments bugs {name}", RATES)
            store(name, about | {"edit": BUGS[name]}, list(BUGS), "bugs")
        else:
            about = stored(name, "bugs")
            _, reached, seconds = rung(name).train(about["learning_rate"], options.seed)
            print(f"{name}: {row(name, reached, 'bugs')}, {seconds:.0f} CPU seconds", flush=True)
    if not options.bugs:
        print(table(*BUGS, results="bugs"))


if __name__ == "__main__":
    main()
