"""What pretraining without labels is worth: notebook 13's tables, with several draws of labels.

    python -m experiments without_labels                      # names, and what is stored
    python -m experiments without_labels scratch_50 --seed 2  # one draw, beside the stored one
    python -m experiments without_labels scratch_50 --store   # five draws, stored

The model is vit_mnist(4), the pictures are the 4,000 embedded training digits. A draw of labels is
the same number of each digit, chosen by the seed; the accuracy is that on the 1,000 embedded
validation digits.

``choose_…`` (with ``--seed 0``) tries the learning rates ``RATES`` once, with 10 labels of each
digit, drawn from 3,200 of the 4,000, and judges them on the other 800; what is chosen holds for all
rows. ``SCRATCH`` steps take the CPU time of pretraining and fine-tuning together (measured before,
on one thread). The pretrained encoder, one for all draws, is kept in a folder, and made anew if it
is not there.
"""

import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from mnist_vit import vit_mnist
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb13_without_labels.autoencoder import (
    DIGITS,
    MaskedAutoencoder,
    pretrain,
    train_with_labels,
)
from mnist_vit.course.nb13_without_labels.hidden_loss import my_hidden_loss
from mnist_vit.course.nb13_without_labels.mask import my_mask
from mnist_vit.course.nb13_without_labels.probes import logistic, probe
from mnist_vit.course.nb13_without_labels.put_back import my_put_back
from mnist_vit.data import ImageData, load_embedded
from tools.runner import read

FILE = RESULTS / "without_labels.json"
KEY = "name"
SEEDS = range(5)
RATES = (0.003, 0.01, 0.03)
KEPT = Path(tempfile.gettempdir()) / "without_labels"

KEEP = 12  # visible patches of the 49
PRETRAINING = 1500  # steps with 100 pictures
TUNING = 300  # steps with 50 pictures
SCRATCH = 1860  # steps with 50 pictures: as many as take the CPU time of both
SHORT = 150  # steps with 50 pictures, of the unfair rows


def about() -> dict[str, Any]:
    """What all rows have in common."""
    return {
        "rates tried": list(RATES),
        "visible patches": KEEP,
        "pretraining steps": PRETRAINING,
        "fine-tuning steps": TUNING,
        "steps from scratch": SCRATCH,
        "short steps": SHORT,
    }


def run(name: str, seed: int = 0) -> dict[str, Any]:
    """Measure one row with one draw: the accuracy in percent, and CPU seconds."""
    return MEASUREMENTS[name](seed)


def timed(train: Callable[[], None]) -> float:
    """The CPU seconds of a training."""
    start = time.process_time()
    train()
    return round(time.process_time() - start, 1)


@cache
def load(split: str) -> ImageData:
    """The digits of a split; "fit" and "choose" are 3,200 and 800 of the 4,000 in "train"."""
    if split not in ("fit", "choose"):
        return load_embedded(split)
    data = load_embedded("train")
    late = torch.arange(len(data)) % 400 >= 320
    return data.select(late if split == "choose" else ~late, split)


def draw(data: ImageData, count: int, seed: int) -> ImageData:
    """Digits with labels: the same number of each class."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for label in range(10):
        places = (data.labels == label).nonzero()[:, 0]
        found.append(places[torch.randperm(len(places), generator=generator)[: count // 10]])
    return data.select(torch.cat(found), f"{count} labelled")


@torch.no_grad()
def accuracy(model: nn.Module, data: ImageData) -> float:
    """Percent."""
    found = [model.eval()(data.normalise(some)).argmax(dim=1) for some in data.images.split(500)]
    return round(100 * (torch.cat(found) == data.labels).float().mean().item(), 2)


def chosen(what: str) -> float:
    """The learning rate that was chosen for pretraining, tuning or scratch."""
    rows = read(FILE)["runs"]
    return next(row["learning_rate"] for row in rows if row["name"] == f"choose_{what}")


# ---- models ----


def start(seed: int) -> nn.Module:
    """A model from start values, with the same start of its positions as the pretrained one."""
    torch.manual_seed(seed)
    model = vit_mnist(4)
    MaskedAutoencoder(model, KEEP, my_mask, my_put_back)  # sets the positions
    return model


def pretrained(rate: float | None = None) -> tuple[nn.Module, float]:
    """The model after pretraining, and the CPU seconds that it took."""
    rate = chosen("pretraining") if rate is None else rate
    kept = KEPT / f"digits {PRETRAINING} {rate:g}.pth"
    torch.manual_seed(0)
    model = vit_mnist(4)
    if not kept.is_file():
        autoencoder = MaskedAutoencoder(model, KEEP, my_mask, my_put_back)
        teach = partial(pretrain, autoencoder, load("train"), my_hidden_loss, PRETRAINING)
        seconds = timed(partial(teach, learning_rate=rate))
        KEPT.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "seconds": seconds}, kept)
    found = torch.load(kept)
    model.load_state_dict(found["model"])
    return model, found["seconds"]


def pretraining(seed: int) -> dict[str, Any]:
    return {"cpu_seconds": pretrained()[1]}


def trained(count: int, from_pretrained: bool, fair: bool, seed: int) -> dict[str, Any]:
    """Train with some labels; ``fair``: with augmentation, and equal CPU time in total."""
    steps = SHORT
    if fair:
        steps = TUNING if from_pretrained else SCRATCH
    model = pretrained()[0] if from_pretrained else start(seed)
    few = draw(load("train"), count, seed)
    rate = chosen("tuning" if from_pretrained else "scratch")
    changes = DIGITS if fair else {}
    teach = partial(train_with_labels, model, few, steps)
    seconds = timed(partial(teach, learning_rate=rate, seed=seed, changes=changes))
    return {"accuracy": accuracy(model, load("validation")), "cpu_seconds": seconds}


def all_labels(seed: int) -> dict[str, Any]:
    """The upper row: trained with the labels of all 4,000."""
    return trained(4000, False, True, seed)


# ---- choosing ----


def choose(measure: Callable[[float, ImageData, ImageData], float], seed: int) -> dict[str, Any]:
    """Try each rate with 100 labels of "fit", and judge it by "choose"."""
    few, judge = draw(load("fit"), 100, 100), load("choose")
    tried = {rate: measure(rate, few, judge) for rate in RATES}
    best = max(tried, key=tried.__getitem__)
    return {"learning_rate": best, "tried": {f"{rate:g}": found for rate, found in tried.items()}}


def by_pretraining(rate: float, few: ImageData, judge: ImageData) -> float:
    return probe(pretrained(rate)[0], few, judge)


def by_tuning(rate: float, few: ImageData, judge: ImageData) -> float:
    model, _ = pretrained()
    train_with_labels(model, few, TUNING, learning_rate=rate)
    return accuracy(model, judge)


def by_scratch(rate: float, few: ImageData, judge: ImageData) -> float:
    model = start(0)
    train_with_labels(model, few, SCRATCH, learning_rate=rate)
    return accuracy(model, judge)


# ---- probes ----


def probed(count: int, kind: str, seed: int) -> dict[str, Any]:
    few, judge = draw(load("train"), count, seed), load("validation")
    if kind == "probe":
        return {"accuracy": probe(pretrained()[0], few, judge)}
    if kind == "random_probe":
        return {"accuracy": probe(start(seed), few, judge)}
    x = few.normalise(few.images).flatten(1)
    others = judge.normalise(judge.images).flatten(1)
    if kind == "pixels":
        return {"accuracy": logistic(x, few.labels, others, judge.labels)}
    return {"accuracy": nearest(x, few.labels, others, judge.labels)}


def nearest(x: Tensor, labels: Tensor, others: Tensor, truth: Tensor) -> float:
    """The nearest neighbour in 40 principal components, found without labels."""
    components = principal()
    classifier = KNeighborsClassifier(1)
    classifier.fit(components.transform(x.numpy()), labels)
    return round(100 * classifier.score(components.transform(others.numpy()), truth), 2)


@cache
def principal() -> PCA:
    """Of the 4,000 digits."""
    data = load("train")
    return PCA(40, random_state=0).fit(data.normalise(data.images).flatten(1).numpy())


MEASUREMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "choose_pretraining": partial(choose, by_pretraining),
    "choose_tuning": partial(choose, by_tuning),
    "choose_scratch": partial(choose, by_scratch),
    "pretraining": pretraining,
    "all_labels": all_labels,
}
for labels in (50, 100, 400):
    MEASUREMENTS |= {
        f"tuned_{labels}": partial(trained, labels, True, True),
        f"scratch_{labels}": partial(trained, labels, False, True),
        f"short_tuned_{labels}": partial(trained, labels, True, False),
        f"short_scratch_{labels}": partial(trained, labels, False, False),
    }
    for kind in ("probe", "random_probe", "pixels", "neighbour"):
        MEASUREMENTS[f"{kind}_{labels}"] = partial(probed, labels, kind)
NAMES = list(MEASUREMENTS)
