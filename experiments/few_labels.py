"""What pretraining without labels is worth: the rows of notebook 13's tables, for any data set.

``without_labels`` and ``without_labels_cifar10`` say which data, which model and how many steps.
A draw of labels is the same number of each class, chosen by the seed; the accuracy is that on
the split "validation". The seed of a draw is also that of the start values from scratch, and
chooses one of the pretrained encoders.

``choose_…`` (with ``--seed 0``) tries the learning rates ``rates`` once, with labels drawn from the
split "fit", and judges them on "choose"; both are parts of "train". What is chosen holds for all
rows. ``choose_components`` does the same with numbers of principal components. Pretrained encoders
are kept in a folder, and made anew if they are not there.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from mnist_vit.course.nb13_without_labels.autoencoder import (
    MaskedAutoencoder,
    pretrain,
    train_with_labels,
)
from mnist_vit.course.nb13_without_labels.hidden_loss import my_hidden_loss
from mnist_vit.course.nb13_without_labels.mask import my_mask
from mnist_vit.course.nb13_without_labels.probes import logistic, probe
from mnist_vit.course.nb13_without_labels.put_back import my_put_back
from mnist_vit.data import ImageData
from tools.runner import read

KEPT = Path(tempfile.gettempdir()) / "without_labels"
COMPONENTS = 40
"""Of the nearest neighbour."""
NUMBERS = (10, 20, 40, 80, 160)
"""Of components that are tried."""

Measurement = Callable[[int], dict[str, Any]]


@dataclass(frozen=True)
class FewLabels:
    """Data, model and lengths of the trainings, and a method for each kind of row."""

    name: str
    """Of the files of its pretrained encoders."""
    file: Path
    """Where its rows are stored."""
    load: Callable[[str], ImageData]
    """The pictures of "train", "validation", "fit" or "choose"."""
    new_vit: Callable[[], nn.Module]
    counts: tuple[int, ...]
    """Numbers of labels, of all classes together."""
    choosing: int
    """Number of labels with which learning rates are chosen."""
    keep: int
    """Visible patches."""
    changes: dict[str, Any]
    """Keywords of ``augment``."""
    rates: tuple[float, ...]
    pretraining: int
    """Steps with 100 pictures."""
    tuning: int
    """Steps with 50 pictures."""
    scratch: int
    """Steps with 50 pictures: as many as take the CPU time of pretraining and tuning."""
    short: int
    """Steps with 50 pictures, of the unfair rows."""
    encoders: int
    """Number of pretrained encoders; the draws take turns with them."""

    def about(self) -> dict[str, Any]:
        """What all rows have in common."""
        return {
            "rates tried": list(self.rates),
            "visible patches": self.keep,
            "pretraining steps": self.pretraining,
            "fine-tuning steps": self.tuning,
            "steps from scratch": self.scratch,
            "short steps": self.short,
            "pretrained encoders": self.encoders,
        }

    def measurements(self) -> dict[str, Measurement]:
        """Each row by name: a function of the seed."""
        found: dict[str, Measurement] = {
            "choose_pretraining": partial(self.choose, self.by_pretraining),
            "choose_tuning": partial(self.choose, self.by_tuning),
            "choose_scratch": partial(self.choose, self.by_scratch),
            "choose_components": self.choose_components,
            "pretraining": self.pretraining_time,
            "all_labels": self.all_labels,
        }
        for count in self.counts:
            found |= {
                f"tuned_{count}": partial(self.trained, count, True, True),
                f"scratch_{count}": partial(self.trained, count, False, True),
                f"short_tuned_{count}": partial(self.trained, count, True, False),
                f"short_scratch_{count}": partial(self.trained, count, False, False),
            }
            for kind in ("probe", "random_probe", "pixels", "neighbour", "components"):
                found[f"{kind}_{count}"] = partial(self.probed, count, kind)
        return found

    def chosen(self, what: str) -> float:
        """The learning rate that was chosen for pretraining, tuning or scratch."""
        rows = read(self.file)["runs"]
        return next(row["learning_rate"] for row in rows if row["name"] == f"choose_{what}")

    # ---- models ----

    def start(self, seed: int) -> nn.Module:
        """A model from start values, with the same start of its positions as the pretrained one."""
        torch.manual_seed(seed)
        model = self.new_vit()
        MaskedAutoencoder(model, self.keep, my_mask, my_put_back)  # sets the positions
        return model

    def pretrained(self, seed: int, rate: float | None = None) -> tuple[nn.Module, float]:
        """The model after pretraining for a draw, and the CPU seconds that it took."""
        seed %= self.encoders
        rate = self.chosen("pretraining") if rate is None else rate

        def teach(model: nn.Module) -> None:
            autoencoder = MaskedAutoencoder(model, self.keep, my_mask, my_put_back)
            pretrain(
                autoencoder,
                self.load("train"),
                my_hidden_loss,
                self.pretraining,
                learning_rate=rate,
                seed=seed,
                changes=self.changes,
            )

        return self.kept(f"pretrained {self.pretraining} {rate:g} {seed}", seed, teach)

    def labelled(self, seed: int) -> tuple[nn.Module, float]:
        """The model trained with all labels, from scratch, and the CPU seconds that it took."""
        rate = self.chosen("scratch")

        def teach(model: nn.Module) -> None:
            MaskedAutoencoder(model, self.keep, my_mask, my_put_back)  # sets the positions
            train_with_labels(
                model,
                self.load("train"),
                self.scratch,
                learning_rate=rate,
                seed=seed,
                changes=self.changes,
            )

        return self.kept(f"labelled {self.scratch} {rate:g} {seed}", seed, teach)

    def kept(
        self, title: str, seed: int, teach: Callable[[nn.Module], None]
    ) -> tuple[nn.Module, float]:
        """A new model after ``teach``, from the folder if it is there."""
        file = KEPT / f"{self.name} {title}.pth"
        torch.manual_seed(seed)
        model = self.new_vit()
        if not file.is_file():
            seconds = timed(partial(teach, model))
            KEPT.mkdir(parents=True, exist_ok=True)
            torch.save({"model": model.state_dict(), "seconds": seconds}, file)
        found = torch.load(file)
        model.load_state_dict(found["model"])
        return model.eval(), found["seconds"]

    # ---- choosing ----

    def choose(
        self, measure: Callable[[float, ImageData, ImageData], float], seed: int
    ) -> dict[str, Any]:
        """Try each rate with labels of "fit", and judge it by "choose"."""
        few, judge = draw(self.load("fit"), self.choosing, 100), self.load("choose")
        tried = {rate: measure(rate, few, judge) for rate in self.rates}
        best = max(tried, key=tried.__getitem__)
        told = {f"{rate:g}": found for rate, found in tried.items()}
        return {"learning_rate": best, "tried": told}

    def by_pretraining(self, rate: float, few: ImageData, judge: ImageData) -> float:
        return probe(self.pretrained(0, rate)[0], few, judge)

    def by_tuning(self, rate: float, few: ImageData, judge: ImageData) -> float:
        model, _ = self.pretrained(0)
        train_with_labels(model, few, self.tuning, learning_rate=rate, changes=self.changes)
        return accuracy(model, judge)

    def by_scratch(self, rate: float, few: ImageData, judge: ImageData) -> float:
        model = self.start(0)
        train_with_labels(model, few, self.scratch, learning_rate=rate, changes=self.changes)
        return accuracy(model, judge)

    def choose_components(self, seed: int) -> dict[str, Any]:
        """Try each number of components, with logistic regression and the nearest neighbour."""
        few, judge = draw(self.load("fit"), self.choosing, 100), self.load("choose")
        tried = {number: self.by_components(number, few, judge) for number in NUMBERS}
        return {
            "components": max(tried, key=tried.__getitem__),
            "tried": tried,
            "tried by nearest neighbour": {
                number: self.nearest(number, few, judge) for number in NUMBERS
            },
        }

    # ---- rows ----

    def pretraining_time(self, seed: int) -> dict[str, Any]:
        return {"cpu_seconds": self.pretrained(seed)[1]}

    def all_labels(self, seed: int) -> dict[str, Any]:
        """The upper row: trained from scratch with all labels."""
        model, seconds = self.labelled(seed)
        return {"accuracy": accuracy(model, self.load("validation")), "cpu_seconds": seconds}

    def trained(
        self, count: int, from_pretrained: bool, fair: bool, seed: int, rate: float | None = None
    ) -> dict[str, Any]:
        """Train with some labels; ``fair``: with augmentation, and equal CPU time in total.

        ``rate`` takes the place of the chosen learning rate.
        """
        steps = self.short
        if fair:
            steps = self.tuning if from_pretrained else self.scratch
        model = self.pretrained(seed)[0] if from_pretrained else self.start(seed)
        few = draw(self.load("train"), count, seed)
        if rate is None:
            rate = self.chosen("tuning" if from_pretrained else "scratch")
        changes = self.changes if fair else {}
        teach = partial(train_with_labels, model, few, steps)
        seconds = timed(partial(teach, learning_rate=rate, seed=seed, changes=changes))
        return {"accuracy": accuracy(model, self.load("validation")), "cpu_seconds": seconds}

    def probed(self, count: int, kind: str, seed: int) -> dict[str, Any]:
        """What can be read off tokens or pixels; nothing but a simple classifier learns."""
        few, judge = draw(self.load("train"), count, seed), self.load("validation")
        if kind == "probe":
            return {"accuracy": probe(self.pretrained(seed)[0], few, judge)}
        if kind == "random_probe":
            return {"accuracy": probe(self.start(seed), few, judge)}
        if kind == "neighbour":
            return {"accuracy": self.nearest(COMPONENTS, few, judge)}
        if kind == "components":
            rows = read(self.file)["runs"]
            number = next(row["components"] for row in rows if row["name"] == "choose_components")
            return {"accuracy": self.by_components(number, few, judge)}
        return {"accuracy": logistic(pixels(few), few.labels, pixels(judge), judge.labels)}

    def by_components(self, number: int, few: ImageData, judge: ImageData) -> float:
        """Logistic regression on principal components, which were found without labels.

        They are divided by the standard deviation of the first one. (With each divided by its own,
        the last ones, mostly noise, are as large as the first.)
        """
        deviation = self.principal(number).explained_variance_[0] ** 0.5
        x, others = (self.reduced(number, data) / deviation for data in (few, judge))
        classifier = LogisticRegression(max_iter=3000).fit(x.numpy(), few.labels)
        return round(100 * classifier.score(others.numpy(), judge.labels), 2)

    def nearest(self, number: int, few: ImageData, judge: ImageData) -> float:
        """The nearest neighbour in principal components, which were found without labels."""
        classifier = KNeighborsClassifier(1).fit(self.reduced(number, few).numpy(), few.labels)
        score = classifier.score(self.reduced(number, judge).numpy(), judge.labels)
        return round(100 * score, 2)

    def reduced(self, number: int, data: ImageData) -> Tensor:
        """Each picture as this many numbers."""
        return torch.from_numpy(self.principal(number).transform(pixels(data).numpy()))

    def principal(self, number: int) -> PCA:
        """The first principal components of all pictures of "train"."""
        if number not in self.found:
            x = pixels(self.load("train")).numpy()
            self.found[number] = PCA(number, random_state=0).fit(x)
        return self.found[number]

    @cached_property
    def found(self) -> dict[int, PCA]:
        """Principal components by their number, as far as they are asked for."""
        return {}


def pixels(data: ImageData) -> Tensor:
    """All normalised pixels of each picture, (n, numbers)."""
    return data.normalise(data.images).flatten(1)


def timed(train: Callable[[], None]) -> float:
    """The CPU seconds of a training."""
    start = time.process_time()
    train()
    return round(time.process_time() - start, 1)


def draw(data: ImageData, count: int, seed: int) -> ImageData:
    """Pictures with labels: the same number of each class."""
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
