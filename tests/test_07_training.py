"""The checks of notebook 07 accept right answers in other styles; and the stored rivals are those of the script."""

import json
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, ROOT, from_file, judged, reject
from torch import Tensor, nn

from mnist_vit.course.nb07_training.diagnose import HIDDEN
from mnist_vit.training import schedule


def entropy_by_loop(logits: Tensor, labels: Tensor) -> Tensor:
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        total = total + torch.logsumexp(row, dim=0) - row[label]
    return total / len(labels)


def entropy_naive(logits: Tensor, labels: Tensor) -> Tensor:
    e = torch.exp(logits)
    p = e / e.sum(dim=1, keepdim=True)
    return torch.mean(-torch.log(p[range(len(p)), labels]))


def schedule_by_numpy(t: int, total: int, w: int) -> float:
    return np.interp(t, [-1, w - 1], [0, 1]) if t < w else np.cos(np.pi / 2 * (t - w) / (total - w)) ** 2


def schedule_of_the_package(step: int, steps: int, warmup: int) -> float:
    return schedule(step, steps, warmup / steps)


def average_by_powers(weights: Tensor, average: float) -> Tensor:
    age = torch.arange(len(weights) - 1, -1, -1, dtype=weights.dtype)
    shares = (1 - average) * average**age
    shares[0] = average ** (len(weights) - 1)
    return torch.einsum("s...,s->...", weights, shares)


class Diagnosis(nn.Module):
    def forward(self) -> dict[str, str]:
        return {letter: HIDDEN[letter] for letter in "DCBA"} | {"healthy": "nothing"}


def entropy_in_place(logits: Tensor, labels: Tensor) -> Tensor:
    with torch.no_grad():
        logits -= logits.amax(dim=1, keepdim=True)  # so that exp cannot overflow
    return entropy_naive(logits, labels)


RIGHT: list[tuple[str, Any]] = [
    ("cross_entropy", entropy_by_loop),
    ("cross_entropy", entropy_naive),
    ("cross_entropy", nn.CrossEntropyLoss()),
    ("cosine_schedule", schedule_by_numpy),
    ("cosine_schedule", schedule_of_the_package),
    ("weight_average", average_by_powers),
    ("diagnose", dict(HIDDEN)),
    ("diagnose", Diagnosis()),
]
WRONG: list[tuple[str, Any, str]] = [
    ("cross_entropy", lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1), "loss of 5 pictures"),
    ("cross_entropy", lambda z, y: F.cross_entropy(z.detach(), y), "none flows"),
    ("cross_entropy", entropy_in_place, "changes its input"),
    ("cosine_schedule", lambda t, n, w: 0.9 * schedule_of_the_package(t, n, w), "differs most at [3]"),
    ("cosine_schedule", lambda t, n, w: str(schedule_of_the_package(t, n, w)), "step 0: a number is needed"),
    ("weight_average", lambda w, a: w.median(dim=0).values, "average after 6 steps"),
    ("weight_average", lambda w, a: average_by_powers(w, a) + 0 * w.zero_()[0], "changes its input"),
    ("diagnose", dict(HIDDEN) | {"B": "a cold"}, "curve B has a name that is none of the four: no zero_grad"),
    ("diagnose", {"A": HIDDEN["A"]}, "curve B has no name yet"),
    ("diagnose", list(HIDDEN.values()), "a dict from letters to names is needed"),
]
test_answers = judged(RIGHT, WRONG)


def test_of_several_wrong_names_the_first_is_answered_by_what_it_would_look_like() -> None:
    swapped = HIDDEN | {"A": HIDDEN["D"], "D": HIDDEN["A"]}
    reject("diagnose", swapped, 'when you call curve A "no eval". Without eval dropout goes on', named=True)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_stored_rivals_are_those_of_the_script_and_as_large_as_the_model(name: str) -> None:
    script = from_file(ROOT / "benchmarks" / "baselines.py")
    about = json.loads((NOTEBOOKS / "results" / f"{name}.json").read_text(encoding="utf-8"))
    shipped = json.loads((ROOT / "weights" / "vit_mnist.json").read_text(encoding="utf-8"))
    parameters = sum(parameter.numel() for parameter in script.MODELS[name]().parameters())
    assert parameters == about["parameters"] == pytest.approx(shipped["parameters"], rel=0.02)
    assert about["data"] == shipped["data"]["name"]
    for key in script.RECIPE:
        assert about["recipe"][key] == shipped["recipe"][key] == script.DEFAULTS[key], key
    assert len(about["history"]) == about["recipe"]["epochs"]
    assert about["history"][-1]["validation_accuracy"] == about["metrics"]["validation"]["accuracy"]
