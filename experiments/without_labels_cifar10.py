"""What pretraining without labels is worth on CIFAR-10: notebook 13's tables.

    python -m experiments without_labels_cifar10                       # names, what is stored
    python -m experiments without_labels_cifar10 scratch_100 --seed 2  # one draw
    python -m experiments without_labels_cifar10 scratch_100 --seed 2 --store  # one draw, stored

The model has the size of vit_cifar10, the pictures are CIFAR-10's 45,000 training images
(``MNIST_VIT_DATA``, or data/), and the accuracy is that on the 5,000 validation images. Learning
rates are chosen with 100 labels of each class, drawn from 40,000 of the 45,000, and judged on the
other 5,000. The steps from scratch take the CPU time of pretraining and fine-tuning together
(measured before, on one thread). ``few_labels`` has the rows. The test images are not used.

Stored are three draws of each row, which share one pretrained encoder; ``all_labels`` has one run.
"""

from functools import cache
from typing import Any

import torch

from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.data import ImageData, load_cifar10
from mnist_vit.model import VisionTransformer
from mnist_vit.recipe import MODELS

from .few_labels import FewLabels

FILE = RESULTS / "without_labels_cifar10.json"
KEY = "name"
SEEDS = range(3)
PHOTOGRAPHS = {
    "degrees": 15.0,
    "scale": 0.15,
    "shift": 4.0,
    "flip": True,
    "shear": 0.2,
    "colour": 0.4,
}  # the augmentation of vit_cifar10


@cache
def load(split: str) -> ImageData:
    """The images of a split; "fit" and "choose" are 40,000 and 5,000 of those in "train"."""
    if split not in ("fit", "choose"):
        return load_cifar10(split)
    data = load("train")
    late = torch.zeros(len(data), dtype=torch.bool)
    for label in range(10):
        late[(data.labels == label).nonzero()[-500:, 0]] = True
    return data.select(late if split == "choose" else ~late, split)


def new_vit() -> VisionTransformer:
    return VisionTransformer(**MODELS["vit_cifar10"])


ROWS = FewLabels(
    name="cifar10",
    file=FILE,
    load=load,
    new_vit=new_vit,
    counts=(100, 1000, 10000),
    choosing=1000,
    keep=16,
    changes=PHOTOGRAPHS,
    rates=(0.002, 0.006, 0.02),
    pretraining=1500,
    tuning=300,
    scratch=1750,
    short=150,
    encoders=1,
)
MEASUREMENTS = ROWS.measurements()
NAMES = list(MEASUREMENTS)


def about() -> dict[str, Any]:
    return ROWS.about()


def run(name: str, seed: int = 0) -> dict[str, Any]:
    """Measure one row with one draw: the accuracy in percent, and CPU seconds."""
    return MEASUREMENTS[name](seed)
