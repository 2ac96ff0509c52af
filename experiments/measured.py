"""Numbers that notebooks 03 and 04 show beside their live ones, and that no rung of the ladder
stores.

    python -m experiments measured                          # names, and what is stored
    python -m experiments measured six_at_0.01 --seed 2     # measure one seed, print it beside the
    stored one python -m experiments measured six_at_0.01 --store      # measure all its seeds, write
    the JSON

All numbers are percent, measured with one thread; null is a model that ended in nan.
"""

import argparse
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import nbformat
import torch
import torch.nn.functional as F
from ladder import store
from torch import Tensor, nn

from mnist_vit.course.ladder import RUNGS, digits, stored
from mnist_vit.course.ladder.rungs import BATCH, accuracy, fit
from mnist_vit.course.ladder.tasks import digit_batches
from mnist_vit.files import shipped
from mnist_vit.model import MultiHeadAttention


def drawing(num_heads: int, seed: int) -> float:
    """Notebook 03: the share of the pixels' variance that the trained model explains, by its cells'
    code."""
    shown: dict[str, Any] = {}
    for cell in nbformat.read(
        shipped("notebooks") / "03_multi_head_attention.ipynb", as_version=4
    ).cells:
        if (
            cell.cell_type == "code"
            and "setup" not in cell.metadata.get("tags", [])
            and "train_to_draw" not in shown
        ):
            exec(cell.source, shown)
    attention = (
        MultiHeadAttention if num_heads > 1 else partial(nn.MultiheadAttention, batch_first=True)
    )
    return round(shown["explained"](shown["train_to_draw"](attention, num_heads, seed)), 1)


def without_care(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], steps: int, learning_rate: float
) -> None:
    """The ladder's ``fit``, but gradients are not clipped, and the learning rate is not warmed
    up."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    for step, (x, y) in enumerate(batches):
        optimizer.param_groups[0]["lr"] = (
            learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        )
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stack(
    rung: str, learning_rate: float, seed: int, pixels: int = 1, fit: Callable[..., None] = fit
) -> float | None:
    """Notebook 04: the accuracy of six blocks with pixels so many times as large; None if they end
    in nan."""
    torch.manual_seed(seed)
    model, generator = RUNGS[rung].build(), torch.Generator().manual_seed(seed)
    model.register_forward_pre_hook(lambda _, inputs: (pixels * inputs[0],))
    epochs = RUNGS[rung].epochs
    steps = epochs * math.ceil(len(digits("train")[0]) / BATCH)
    fit(model, digit_batches("train", epochs, BATCH, generator), steps, learning_rate)
    return (
        accuracy(model, *digits("validation"))
        if model(digits("validation")[0]).isfinite().all()
        else None
    )


MEASUREMENTS: dict[
    str, tuple[Callable[..., float | None], int]
] = {  # how, called with seed=, and how many seeds
    "draw_one_head": (partial(drawing, 1), 5),
    "draw_two_heads": (partial(drawing, 2), 5),
    "six_at_0.001": (partial(stack, "six", 0.001), 3),
    "six_at_0.003": (partial(stack, "six", 0.003), 3),
    "six_at_0.01": (partial(stack, "six", 0.01), 3),
    "six_no_norm_at_0.001": (partial(stack, "six_no_norm", 0.001), 3),
    "six_no_norm_at_0.003": (partial(stack, "six_no_norm", 0.003), 3),
    "six_no_norm_at_0.01": (partial(stack, "six_no_norm", 0.01), 3),
    "six_pixels_times_20": (partial(stack, "six", 0.003, pixels=20), 3),
    "six_no_norm_pixels_times_20": (partial(stack, "six_no_norm", 0.003, pixels=20), 3),
    "six_without_care": (partial(stack, "six", 0.01, fit=without_care), 3),
    "six_no_norm_without_care": (partial(stack, "six_no_norm", 0.01, fit=without_care), 3),
}


def main(arguments: list[str] | None = None) -> None:
    """Measure one seed beside what is stored, or all seeds, and store them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"of {', '.join(MEASUREMENTS)}; left out: all stored",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", action="store_true", help="measure all seeds, write the JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if unknown := [name for name in options.names if name not in MEASUREMENTS]:
        parser.error(
            f"nothing is called {', '.join(unknown)}. Choose from: {', '.join(MEASUREMENTS)}"
        )
    for name in options.names or MEASUREMENTS:
        if options.names and options.store:
            measure, seeds = MEASUREMENTS[name]
            about = {
                "percent": [measure(seed=seed) for seed in range(seeds)],
                "made": "every seed by the command",
            }
            command = {"command": f"python -m experiments measured {name} --store"}
            store(name, about | command, list(MEASUREMENTS), "measured")
        else:
            live = (
                f"seed {options.seed} now {MEASUREMENTS[name][0](seed=options.seed)}, "
                if options.names
                else ""
            )
            print(f"{name}: {live}stored {stored(name, 'measured')['percent']}", flush=True)


if __name__ == "__main__":
    main()
