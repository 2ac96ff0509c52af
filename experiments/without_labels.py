"""What pretraining without labels is worth on digits: notebook 13's tables, five draws of labels.

    python -m experiments without_labels                      # names, and what is stored
    python -m experiments without_labels scratch_50 --seed 2  # one draw, beside the stored one
    python -m experiments without_labels scratch_50 --seed 2 --store  # one draw, stored

The model is vit_mnist(4), the pictures are the 4,000 embedded training digits, and the accuracy is
that on the 1,000 embedded validation digits. Learning rates are chosen with 10 labels of each
digit, drawn from 3,200 of the 4,000, and judged on the other 800. The steps from scratch take the
CPU time of pretraining and fine-tuning together (measured before, on one thread).
``few_labels`` has the rows. ``short_scratch_at_0.01_…`` are the short trainings from scratch at
the rate that was chosen for fine-tuning; ``short_scratch_…`` have the one chosen for 1,860 steps.
"""

from functools import cache, partial
from typing import Any

import torch

from mnist_vit import vit_mnist
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb13_without_labels.autoencoder import DIGITS
from mnist_vit.data import ImageData, load_embedded

from .few_labels import FewLabels

FILE = RESULTS / "without_labels.json"
KEY = "name"
SEEDS = range(5)


@cache
def load(split: str) -> ImageData:
    """The digits of a split; "fit" and "choose" are 3,200 and 800 of the 4,000 in "train"."""
    if split not in ("fit", "choose"):
        return load_embedded(split)
    data = load_embedded("train")
    late = torch.arange(len(data)) % 400 >= 320
    return data.select(late if split == "choose" else ~late, split)


ROWS = FewLabels(
    name="digits",
    file=FILE,
    load=load,
    new_vit=partial(vit_mnist, 4),
    counts=(50, 100, 400),
    choosing=100,
    keep=12,
    changes=DIGITS,
    rates=(0.003, 0.01, 0.03),
    pretraining=1500,
    tuning=300,
    scratch=1860,
    short=150,
    encoders=1,
)
MEASUREMENTS = ROWS.measurements()
for count in ROWS.counts:
    MEASUREMENTS[f"short_scratch_at_0.01_{count}"] = partial(
        ROWS.trained, count, False, False, rate=0.01
    )
NAMES = list(MEASUREMENTS)


def about() -> dict[str, Any]:
    return ROWS.about()


def run(name: str, seed: int = 0) -> dict[str, Any]:
    """Measure one row with one draw: the accuracy in percent, and CPU seconds."""
    return MEASUREMENTS[name](seed)
