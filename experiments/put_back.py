"""Notebook 13's tokens that are not put back: errors on hidden and visible patches, three seeds.

    python -m experiments put_back                        # names, and what is stored
    python -m experiments put_back not_put_back --seed 1  # one again, beside the stored one
    python -m experiments put_back --store                # every run that is not stored yet

The masked autoencoder, the 4,000 digits and the learning rate of 0.01 are the notebook's. Two
lengths of training, each with a schedule of its own; the errors are those on the 1,000 other
digits. ``all_not_put_back`` is trained with the loss on all patches, the others with that on hidden
ones.
"""

from typing import Any

import torch
from torch import Tensor

from mnist_vit import vit_mnist
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb13_without_labels.autoencoder import (
    MaskedAutoencoder,
    hidden_error,
    pretrain,
    visible_error,
)
from mnist_vit.course.nb13_without_labels.hidden_loss import my_hidden_loss
from mnist_vit.course.nb13_without_labels.mask import my_mask
from mnist_vit.course.nb13_without_labels.put_back import my_put_back
from mnist_vit.data import load_embedded

FILE = RESULTS / "put_back.json"
KEY = "name"
SEEDS = range(3)
STEPS = (300, 1000)
KEEP = 12
RATE = 0.01


def not_put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    """Leave the visible tokens in front, in the order of ``mask``."""
    hidden = mask_token.expand(len(visible), order.shape[1] - visible.shape[1], -1)
    return torch.cat([visible, hidden], dim=1)


def all_patches(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    """Count visible patches, too."""
    return (predicted - patches).square().mean()


PARTS = {
    "whole": (my_put_back, my_hidden_loss),
    "not_put_back": (not_put_back, my_hidden_loss),
    "all_not_put_back": (not_put_back, all_patches),
}
NAMES = list(PARTS)


def run(name: str, seed: int) -> dict[str, Any]:
    """Train from one seed; the errors on hidden and visible patches, one for each length."""
    put_back, loss = PARTS[name]
    digits, others = load_embedded("train"), load_embedded("validation")
    x = others.normalise(others.images)
    found: dict[str, Any] = {"hidden": [], "visible": []}
    for steps in STEPS:
        torch.manual_seed(seed)
        model = MaskedAutoencoder(vit_mnist(4), KEEP, my_mask, put_back)
        pretrain(model, digits, loss, steps, learning_rate=RATE, seed=seed)
        found["hidden"].append(round(hidden_error(model, x), 3))
        found["visible"].append(round(visible_error(model, x), 3))
    return found


def about() -> dict[str, Any]:
    """Return what all runs of the file have in common."""
    return {"steps": list(STEPS), "learning rate": RATE, "visible patches": KEEP}
