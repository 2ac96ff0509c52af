"""A second softmax inside attention, in training too: accuracy, and how even the weights are.

    python -m experiments twice                 # what is stored
    python -m experiments twice twice --seed 3  # train one seed, beside the stored ones
    python -m experiments twice all --store     # choose the rates, train five seeds each, store

The models and the recipe are those of ``experiments/bugs.py``. ``from_even`` is for each seed what
share of a row's weight would have to go to other tokens to make the row even, in percent: the mean
over 1,000 digits, layers, heads and rows. Notebook 09 shows both.
"""

from functools import partial

import torch
from torch import nn

from experiments.bugs import RATES
from experiments.growing import measure, one_seed
from mnist_vit import attention_weights
from mnist_vit.course.checking.edits import edited_model
from mnist_vit.course.ladder import Row, digits, stored
from mnist_vit.course.ladder.rows import RESULTS

FILE = RESULTS / "twice.json"
NAMES = ["once", "twice"]
ONCE = "scores.softmax(dim=-1)"
EDITS = {"once": {}, "twice": {ONCE: f"{ONCE}.softmax(dim=-1)"}}


def run(name: str, seed: int | None = None) -> dict:
    """Train the model with one softmax or two: five seeds, or the one given."""
    if seed is not None:
        return one_seed(row(name), stored(name, "twice")["learning_rate"], seed)
    found, models = measure(row(name), RATES)
    return found | {"from_even": [from_even(model) for model in models]}


def row(name: str) -> Row:
    """Return the model as a row of the ladder; its head gets the mean token."""
    build = edited_model(EDITS[name])
    model = partial(build, 28, 7, 2, 2, 64, 256, num_classes=10, in_channels=1, pool="mean")
    return Row(name, model, twin=None if name == "once" else "once", epochs=20)


@torch.no_grad()
def from_even(model: nn.Module) -> float:
    """The share of a row's weight that would have to move to make the row even, in percent."""
    weights = attention_weights(model, digits("validation")[0])
    share = 0.5 * (weights - 1 / weights.shape[-1]).abs().sum(dim=-1)
    return round(100 * share.mean().item(), 1)
