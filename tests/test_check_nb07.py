"""The checks of notebook 07 accept right answers in other styles; and the stored rivals are those of the script."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, ROOT, from_file
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
from mnist_vit.check.nb07_training import HIDDEN
from mnist_vit.training import schedule


def entropy_by_loop(logits: Tensor, labels: Tensor) -> Tensor:
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        total = total + torch.logsumexp(row, dim=0) - row[label]
    return total / len(labels)


def entropy_by_einsum(z: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("nk,nk->", F.one_hot(y, z.shape[1]).to(z), -z.log_softmax(-1)) / len(z)


def entropy_naive(logits: Tensor, labels: Tensor) -> Tensor:
    e = torch.exp(logits)
    p = e / e.sum(dim=1, keepdim=True)
    return torch.mean(-torch.log(p[range(len(p)), labels]))


def schedule_by_numpy(t: int, total: int, w: int) -> float:
    return np.interp(t, [-1, w - 1], [0, 1]) if t < w else np.cos(np.pi / 2 * (t - w) / (total - w)) ** 2


def schedule_by_torch(step: int, steps: int, warmup: int) -> Tensor:
    fall = (1 + torch.cos(torch.tensor(math.pi * (step - warmup) / (steps - warmup), dtype=torch.float64))) / 2
    return fall if step >= warmup else torch.tensor((step + 1) / warmup, dtype=torch.float64)


def schedule_of_the_package(step: int, steps: int, warmup: int) -> float:
    return schedule(step, steps, warmup / steps)


def average_by_powers(weights: Tensor, average: float) -> Tensor:
    age = torch.arange(len(weights) - 1, -1, -1, dtype=weights.dtype)
    shares = (1 - average) * average**age
    shares[0] = average ** (len(weights) - 1)
    return torch.einsum("s...,s->...", weights, shares)


def average_by_lerp(weights: Tensor, average: float) -> Tensor:
    kept = weights[0].clone()
    for i in range(1, len(weights)):
        kept.lerp_(weights[i], 1 - average)
    return kept


def average_by_torch(weights: Tensor, average: float) -> Tensor:
    model = nn.ParameterList([nn.Parameter(weights[0].clone())])
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(average))
    for row in weights:
        model[0].data.copy_(row)
        averaged.update_parameters(model)
    return averaged.module[0].data


def diagnosis_backwards() -> dict[str, str]:
    return {letter: HIDDEN[letter] for letter in "DCBA"} | {"healthy": "nothing"}


class Diagnosis(nn.Module):
    def forward(self) -> dict[str, str]:
        return dict(zip(HIDDEN, HIDDEN.values(), strict=True))


RIGHT = [
    ("cross_entropy", entropy_by_loop),
    ("cross_entropy", entropy_by_einsum),
    ("cross_entropy", entropy_naive),
    ("cross_entropy", nn.CrossEntropyLoss()),
    ("cosine_schedule", schedule_by_numpy),
    ("cosine_schedule", schedule_by_torch),
    ("cosine_schedule", schedule_of_the_package),
    ("weight_average", average_by_powers),
    ("weight_average", average_by_lerp),
    ("weight_average", average_by_torch),
    ("diagnose", dict(HIDDEN)),
    ("diagnose", diagnosis_backwards),
    ("diagnose", Diagnosis()),
]
UNKNOWN = [
    ("cross_entropy", lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1), "loss of 5 pictures"),
    ("cross_entropy", lambda z, y: F.cross_entropy(z.detach(), y), "none flows"),
    ("cosine_schedule", lambda t, n, w: 0.9 * schedule_of_the_package(t, n, w), "differs most at [3]"),
    ("cosine_schedule", lambda t, n, w: str(schedule_of_the_package(t, n, w)), "step 0: a number is needed"),
    ("weight_average", lambda w, a: w.median(dim=0).values, "average after 6 steps"),
    ("weight_average", lambda w, a: average_by_lerp(w, a).float(), "must be torch.float64"),
    ("diagnose", dict(HIDDEN) | {"B": "a cold"}, "curve B has a name that is none of the four: no zero_grad"),
    ("diagnose", {"A": HIDDEN["A"]}, "curve B has no name yet"),
    ("diagnose", list(HIDDEN.values()), "a dict from letters to names is needed"),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_other_styles_pass(name: str, answer: Any) -> None:
    passed, sentence = verdict(EXERCISES[name], answer)
    assert passed, sentence


@pytest.mark.parametrize(("name", "answer", "told"), UNKNOWN)
def test_unknown_mistakes_fail_without_a_name(name: str, answer: Any, told: str) -> None:
    passed, sentence = verdict(EXERCISES[name], answer)
    assert not passed
    assert told in sentence
    assert "You get exactly this" not in sentence


def test_a_wrong_name_is_answered_by_what_it_would_look_like() -> None:
    swapped = HIDDEN | {"A": HIDDEN["D"], "D": HIDDEN["A"]}
    passed, sentence = verdict(EXERCISES["diagnose"], swapped)
    assert not passed
    assert 'when you call curve A "no eval". Without eval dropout goes on' in sentence


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_stored_rivals_are_those_of_the_script_and_as_large_as_the_model(name: str) -> None:
    script = from_file(ROOT / "benchmarks" / "baselines.py")
    about = json.loads((NOTEBOOKS / "results" / f"{name}.json").read_text(encoding="utf-8"))
    shipped = json.loads((ROOT / "weights" / "vit_mnist.json").read_text(encoding="utf-8"))
    model = script.MODELS[name]()
    assert sum(parameter.numel() for parameter in model.parameters()) == about["parameters"]
    assert abs(about["parameters"] / shipped["parameters"] - 1) < 0.02
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert about["data"] == shipped["data"]["name"]
    for key in script.RECIPE:
        assert about["recipe"][key] == shipped["recipe"][key] == script.DEFAULTS[key], key
    assert [row["epoch"] for row in about["history"]] == list(range(1, about["recipe"]["epochs"] + 1))
    assert about["history"][-1]["validation_accuracy"] == about["metrics"]["validation"]["accuracy"]
