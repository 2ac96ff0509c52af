"""What pretraining without labels is worth: notebook 13's tables, with several draws of labels.

    python -m experiments without_labels                      # names, and what is stored
    python -m experiments without_labels scratch_50 --seed 2  # one draw, beside the stored one
    python -m experiments without_labels --store              # what is missing in the file

Digits: vit_mnist(4), the 4,000 embedded training digits; a draw of labels is the same number of
each digit, chosen by the seed; accuracy on the 1,000 embedded validation digits. Photographs: the
model of vit_cifar10, CIFAR-10's 45,000 training images; accuracy on its 5,000 validation images.

``choose_…`` tries the rates of ``RATES`` with 10 labels of each digit, drawn from 3,200 of the
4,000, and judges them on the other 800; photographs take the rates of the digits. What is chosen
holds for all rows. ``SCRATCH`` steps take the CPU time of pretraining and fine-tuning together. The
pretrained encoder, one for all draws, is kept in a folder, and made anew if it is not there.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from mnist_vit import vit_mnist
from mnist_vit.building import build_model
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb13_without_labels.autoencoder import (
    DIGITS,
    PHOTOS,
    MaskedAutoencoder,
    features,
    hidden_error,
    pretrain,
    train_with_labels,
)
from mnist_vit.course.nb13_without_labels.hidden_loss import my_hidden_loss
from mnist_vit.course.nb13_without_labels.mask import my_mask
from mnist_vit.course.nb13_without_labels.put_back import my_put_back
from mnist_vit.data import ImageData, load_cifar10, load_embedded
from mnist_vit.recipe import MODELS
from tools.runner import read

FILE = RESULTS / "without_labels.json"
KEY = "name"
SEEDS = range(5)
RATES = (0.003, 0.01, 0.03)
KEPT = Path(tempfile.gettempdir()) / "without_labels"


@dataclass(frozen=True)
class Task:
    """Pictures, a model for them, and how long it is trained."""

    name: str
    build: Callable[[], nn.Module]
    load: Callable[[str], ImageData]
    changes: dict[str, Any]
    keep: int  # visible patches of a picture
    pretraining: int  # steps with 100 pictures
    tuning: int  # steps with 50 pictures
    scratch: int  # as many as take the CPU time of both


TASKS = {
    "digits": Task("digits", partial(vit_mnist, 4), load_embedded, DIGITS, 12, 1500, 300, 1860),
    "photos": Task(
        "photos",
        lambda: build_model(MODELS["vit_cifar10"]),
        load_cifar10,
        PHOTOS,
        16,
        1500,
        300,
        1545,
    ),
}
SHORT = 150  # steps of the unfair rows, without augmentation
BROKEN = 300  # steps of pretraining with a broken piece


def about() -> dict[str, Any]:
    """What all rows have in common."""
    steps = {
        name: {
            "visible patches": task.keep,
            "pretraining steps": task.pretraining,
            "fine-tuning steps": task.tuning,
            "steps from scratch": task.scratch,
        }
        for name, task in TASKS.items()
    }
    return {"rates tried": list(RATES), "short steps": SHORT, "broken steps": BROKEN} | steps


def run(name: str, seed: int = 0) -> dict[str, Any]:
    """Measure one row with one draw: the accuracy in percent, and CPU seconds."""
    return MEASUREMENTS[name](seed)


def timed(train: Callable[[], None]) -> float:
    """The CPU seconds of a training."""
    start = time.process_time()
    train()
    return round(time.process_time() - start, 1)


@cache
def load(task: str, split: str) -> ImageData:
    """The pictures of a split; "fit" and "choose" are 3,200 and 800 of the 4,000 digits."""
    if split not in ("fit", "choose"):
        return TASKS[task].load(split)
    data = TASKS[task].load("train")
    late = torch.arange(len(data)) % 400 >= 320
    return data.select(late if split == "choose" else ~late, split)


def draw(data: ImageData, count: int, seed: int) -> ImageData:
    """Pictures with labels: the same number of each class."""
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for label in range(10):
        places = (data.labels == label).nonzero()[:, 0]
        chosen.append(places[torch.randperm(len(places), generator=generator)[: count // 10]])
    return data.select(torch.cat(chosen), f"{count} labelled")


@torch.no_grad()
def accuracy(model: nn.Module, data: ImageData) -> float:
    """Percent."""
    found = [model.eval()(data.normalise(some)).argmax(dim=1) for some in data.images.split(500)]
    return round(100 * (torch.cat(found) == data.labels).float().mean().item(), 2)


def chosen(what: str) -> float:
    """The learning rate that was chosen for pretraining, tuning or scratch."""
    rows = read(FILE)["runs"]
    return next(row["learning_rate"] for row in rows if row["name"] == f"choose_{what}")


# ---- pretraining ----


def pretrained(task: str, rate: float | None = None) -> tuple[nn.Module, float]:
    """The model after pretraining, and the CPU seconds that it took."""
    about = TASKS[task]
    rate = chosen("pretraining") if rate is None else rate
    kept = KEPT / f"{task} {about.pretraining} {rate:g}.pth"
    torch.manual_seed(0)
    model = about.build()
    if not kept.is_file():
        data = load(task, "train")
        autoencoder = MaskedAutoencoder(model, about.keep, my_mask, my_put_back)
        seconds = timed(
            lambda: pretrain(
                autoencoder,
                data,
                my_hidden_loss,
                about.pretraining,
                learning_rate=rate,
                changes=about.changes,
            )
        )
        KEPT.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "seconds": seconds}, kept)
    found = torch.load(kept)
    model.load_state_dict(found["model"])
    return model, found["seconds"]


def pretraining(task: str, seed: int) -> dict[str, Any]:
    return {"cpu_seconds": pretrained(task)[1]}


def all_patches(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    """A loss that counts the visible patches, too."""
    return (predicted - patches).square().mean()


def not_put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    """The tokens as they come, the visible ones first."""
    hidden = mask_token.expand(len(visible), order.shape[1] - visible.shape[1], -1)
    return torch.cat([visible, hidden], dim=1)


def broken(put_back: Callable[..., Tensor], loss: Callable[..., Tensor], seed: int) -> dict:
    """Pretrain shortly with these pieces: the last loss, and the error on hidden patches."""
    torch.manual_seed(seed)
    autoencoder = MaskedAutoencoder(vit_mnist(4), TASKS["digits"].keep, my_mask, put_back)
    losses = []
    pretrain(
        autoencoder,
        load("digits", "train"),
        loss,
        BROKEN,
        learning_rate=chosen("pretraining"),
        seed=seed,
        after=lambda step, loss: losses.append(loss),
    )
    judge = load("digits", "validation")
    error = hidden_error(autoencoder, judge.normalise(judge.images), seed)
    return {"loss": round(sum(losses[-50:]) / 50, 3), "error": round(error, 3)}


# ---- choosing ----


def best(tried: dict[float, float]) -> dict[str, Any]:
    rate = max(tried, key=tried.__getitem__)
    return {"learning_rate": rate, "tried": {f"{one:g}": found for one, found in tried.items()}}


def choose_pretraining(seed: int) -> dict[str, Any]:
    few, judge = draw(load("digits", "fit"), 100, 100), load("digits", "choose")
    return best({rate: probe(pretrained("digits", rate)[0], few, judge) for rate in RATES})


def choose_tuning(seed: int) -> dict[str, Any]:
    few, judge = draw(load("digits", "fit"), 100, 100), load("digits", "choose")
    tried = {}
    for rate in RATES:
        model, _ = pretrained("digits")
        train_with_labels(model, few, TASKS["digits"].tuning, learning_rate=rate)
        tried[rate] = accuracy(model, judge)
    return best(tried)


def choose_scratch(seed: int) -> dict[str, Any]:
    few, judge = draw(load("digits", "fit"), 100, 100), load("digits", "choose")
    tried = {}
    for rate in RATES:
        model = start("digits", 0)
        train_with_labels(model, few, TASKS["digits"].scratch, learning_rate=rate)
        tried[rate] = accuracy(model, judge)
    return best(tried)


# ---- models ----


def start(task: str, seed: int) -> nn.Module:
    """A model from start values, with the same start of its positions as the pretrained one."""
    torch.manual_seed(seed)
    model = TASKS[task].build()
    MaskedAutoencoder(model, 1, my_mask, my_put_back)  # sets the positions
    return model


def trained(task: str, count: int, from_pretrained: bool, fair: bool, seed: int) -> dict[str, Any]:
    """Train with some labels; ``fair``: with augmentation, and equal CPU time in total."""
    about = TASKS[task]
    steps = SHORT
    if fair:
        steps = about.tuning if from_pretrained else about.scratch
    model = pretrained(task)[0] if from_pretrained else start(task, seed)
    few = draw(load(task, "train"), count, seed)
    rate = chosen("tuning" if from_pretrained else "scratch")
    changes = about.changes if fair else {}
    seconds = timed(
        lambda: train_with_labels(model, few, steps, learning_rate=rate, seed=seed, changes=changes)
    )
    return {"accuracy": accuracy(model, load(task, "validation")), "cpu_seconds": seconds}


def all_labels(seed: int) -> dict[str, Any]:
    """The upper row: pretrained with all 4,000 labels."""
    return trained("digits", 4000, False, True, seed)


# ---- probes ----


def logistic(x: Tensor, labels: Tensor, others: Tensor, truth: Tensor) -> float:
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000))
    classifier.fit(x.numpy(), labels)
    return round(100 * classifier.score(others.numpy(), truth), 2)


def probe(vit: nn.Module, few: ImageData, judge: ImageData) -> float:
    """Logistic regression on what the encoder makes of a picture."""
    x = features(vit, few.normalise(few.images))
    others = features(vit, judge.normalise(judge.images))
    return logistic(x, few.labels, others, judge.labels)


def probed(task: str, count: int, kind: str, seed: int) -> dict[str, Any]:
    few, judge = draw(load(task, "train"), count, seed), load(task, "validation")
    if kind == "probe":
        return {"accuracy": probe(pretrained(task)[0], few, judge)}
    if kind == "random_probe":
        return {"accuracy": probe(start(task, seed), few, judge)}
    x = few.normalise(few.images).flatten(1)
    others = judge.normalise(judge.images).flatten(1)
    if kind == "pixels":
        return {"accuracy": logistic(x, few.labels, others, judge.labels)}
    return {"accuracy": nearest(task, x, few.labels, others, judge.labels)}


def nearest(task: str, x: Tensor, labels: Tensor, others: Tensor, truth: Tensor) -> float:
    """The nearest neighbour in 40 principal components, found without labels."""
    components = principal(task)
    classifier = KNeighborsClassifier(1)
    classifier.fit(components.transform(x.numpy()), labels)
    return round(100 * classifier.score(components.transform(others.numpy()), truth), 2)


@cache
def principal(task: str) -> PCA:
    """Of all training pictures; of the photographs, of every tenth."""
    data = load(task, "train")
    images = data.images[:: 10 if task == "photos" else 1]
    return PCA(40, random_state=0).fit(data.normalise(images).flatten(1).numpy())


MEASUREMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "choose_pretraining": choose_pretraining,
    "choose_tuning": choose_tuning,
    "choose_scratch": choose_scratch,
    "pretraining": partial(pretraining, "digits"),
    "all_labels": all_labels,
    "whole": partial(broken, my_put_back, my_hidden_loss),
    "all_patches": partial(broken, my_put_back, all_patches),
    "not_put_back": partial(broken, not_put_back, my_hidden_loss),
}
for labels in (50, 100, 400):
    MEASUREMENTS |= {
        f"tuned_{labels}": partial(trained, "digits", labels, True, True),
        f"scratch_{labels}": partial(trained, "digits", labels, False, True),
        f"short_tuned_{labels}": partial(trained, "digits", labels, True, False),
        f"short_scratch_{labels}": partial(trained, "digits", labels, False, False),
    }
    for kind in ("probe", "random_probe", "pixels", "neighbour"):
        MEASUREMENTS[f"{kind}_{labels}"] = partial(probed, "digits", labels, kind)
MEASUREMENTS["photos_pretraining"] = partial(pretraining, "photos")
for labels in (100, 1000):
    MEASUREMENTS |= {
        f"photos_tuned_{labels}": partial(trained, "photos", labels, True, True),
        f"photos_scratch_{labels}": partial(trained, "photos", labels, False, True),
        f"photos_short_tuned_{labels}": partial(trained, "photos", labels, True, False),
        f"photos_short_scratch_{labels}": partial(trained, "photos", labels, False, False),
    }
    for kind in ("probe", "random_probe", "pixels", "neighbour"):
        MEASUREMENTS[f"photos_{kind}_{labels}"] = partial(probed, "photos", labels, kind)
NAMES = list(MEASUREMENTS)
