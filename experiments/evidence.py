"""Hiding what speaks against the right class, and what speaks for a wrong answer.

    python -m experiments evidence vit_mnist_p7  # one model, beside what is stored
    python -m experiments evidence all --store   # all, to notebooks/results/evidence.json

By relevance, on validation images that no model was trained on; patches are taken out. ``against``:
250 images, every twentieth; the patches that speak most against the right class are hidden.
``mistakes``: the first 200 images that are classified wrongly, or all; hidden are the patches that
speak most for the wrong class, or for it rather than the right one. Notebook 10 shows it.
"""

from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit import load_model
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.data import load_data, load_embedded
from mnist_vit.hiding import faithfulness, hide, interval
from mnist_vit.relevance import relevance

FILE = RESULTS / "evidence.json"
AGAINST = {"vit_mnist_p7": 3, "vit_mnist_p4": 8, "vit_cifar10": 16}  # hidden patches
MISTAKES = {"vit_mnist_p7": 1, "vit_mnist_p4": 4, "vit_cifar10": 8}
NAMES = list(AGAINST)
MOST = 200  # mistakes


def run(name: str) -> dict[str, Any]:
    """Measure both with one model."""
    model = load_model(name)
    data = load_data("cifar10", "validation") if name == "vit_cifar10" else load_embedded()
    x, y = data.normalise(data.images[::20]), data.labels[::20]
    predicted = []
    for start in range(0, len(data.images), 250):
        with torch.no_grad():
            logits = model(data.normalise(data.images[start : start + 250]))
        predicted.append(logits.argmax(dim=1))
    wrong = (torch.cat(predicted) != data.labels).nonzero()[:MOST, 0]
    return {
        "tensors": model.about["tensors"],
        "of": model.num_patches,
        "against": against(model, x, y, AGAINST[name]),
        "mistakes": mistakes(
            model,
            data.normalise(data.images[wrong]),
            data.labels[wrong],
            torch.cat(predicted)[wrong],
            MISTAKES[name],
        ),
    }


def against(model: nn.Module, x: Tensor, y: Tensor, count: int) -> dict[str, Any]:
    """Means of the probability of the right class, with half of their 95 % intervals."""
    maps = relevance(model, x, y)
    noise = torch.rand(maps.shape, generator=torch.Generator().manual_seed(0))
    before = faithfulness(model, x, maps, [0], y)[:, 0]
    found: dict[str, Any] = {"hidden": count, "nothing hidden": pair(before)}
    for rule, score in {"most against it": -maps, "random": noise}.items():
        after = faithfulness(model, x, score, [count], y)[:, 0]
        found[rule] = pair(after)
        found[f"{rule}, difference"] = pair(after - before)
    return found


def mistakes(model: nn.Module, x: Tensor, y: Tensor, wrong: Tensor, count: int) -> dict[str, Any]:
    """How often the answer is right without some patches, with half of 95 % intervals."""
    found: dict[str, Any] = {"hidden": count, "images": len(x)}
    for rule, score in {
        "for the wrong class": relevance(model, x, wrong),
        "for it rather than the right one": relevance(model, x, wrong, against=y),
        "random": torch.rand(len(x), model.num_patches, generator=torch.Generator().manual_seed(0)),
    }.items():
        places = score.topk(count, dim=1).indices
        hidden = torch.zeros_like(score, dtype=torch.bool).scatter(1, places, True)
        found[rule] = pair((hide(model, x, hidden).argmax(dim=1) == y).float())
    return found


def pair(values: Tensor) -> list[float]:
    mean, half = interval(values)
    return [round(mean.item(), 3), round(half.item(), 3)]
