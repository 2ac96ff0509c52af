"""The checks of notebook 08 accept right answers in other styles, and catch mistakes that no mutant knows."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.check.core import verdict
from mnist_vit.evaluation import confusion_matrix, wilson_interval


def confusion_one_hot(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return F.one_hot(labels, k).T @ F.one_hot(predictions, k)


def confusion_add_at(y: Tensor, y_hat: Tensor, k: int) -> Tensor:
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (y.numpy(), y_hat.numpy()), 1)
    return torch.from_numpy(counts)


def confusion_counter(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    counted = Counter(zip(labels.tolist(), predictions.tolist(), strict=True))
    return torch.tensor([[counted[row, column] for column in range(num_classes)] for row in range(num_classes)])


def confusion_masks(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    rows = [[((labels == i) & (predictions == j)).sum() for j in range(num_classes)] for i in range(num_classes)]
    return torch.stack([torch.stack(row) for row in rows])


class ConfusionModule(nn.Module):
    def forward(self, labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
        ones = torch.ones_like(labels)
        return torch.zeros(num_classes, num_classes).long().index_put((labels, predictions), ones, accumulate=True)


def confusion_sklearn(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    from sklearn import metrics

    return torch.from_numpy(metrics.confusion_matrix(labels, predictions, labels=range(num_classes)))


def wilson_in_counts(correct: int, total: int, z: float = 1.96) -> list[float]:
    """The formula times n, as some books have it."""
    wrong = total - correct
    root = z * math.sqrt(correct * wrong / total + z**2 / 4)
    return [(correct + z**2 / 2 + sign * root) / (total + z**2) for sign in (-1, 1)]


def wilson_tensor(k: int, n: int, z: float = 1.96) -> Tensor:
    p = torch.tensor(k / n, dtype=torch.float64)
    reach = z * (p * (1 - p) / n + z**2 / (4 * n**2)).sqrt()
    return torch.stack([p + z**2 / (2 * n) - reach, p + z**2 / (2 * n) + reach]) / (1 + z**2 / n)


def wilson_roots(correct: int, total: int, z: float = 1.96) -> tuple[float, ...]:
    """The two shares that lie exactly z standard deviations from what was seen: a quadratic equation."""
    p, e = correct / total, z * z / total
    return tuple(np.sort(np.roots([1 + e, -2 * p - e, p * p])).real)


def transposed_by_columns(matrices: Tensor, images: Tensor) -> int:
    rows, columns = matrices.sum(2), matrices.sum(1)
    return int(((columns == images).all(1) & ~(rows == images).all(1)).nonzero())


def transposed_by_lists(matrices: Tensor, images: Tensor) -> int:
    found = [[sum(row) for row in matrix] != images.tolist() for matrix in matrices.tolist()]
    return found.index(True)


def counts(labels: Tensor, first: Tensor, second: Tensor) -> tuple[int, int]:
    a, b = first == labels, second == labels
    return int((a & ~b).sum()), int((b & ~a).sum())


def better_by_exact_coin(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = counts(labels, first, second)
    tails = sum(math.comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)
    return "cannot tell" if 2 * tails >= 0.05 else ("second", "first")[b > c]


def better_by_chi_square(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = counts(labels, first, second)
    if b + c == 0 or (b - c) ** 2 / (b + c) < 3.841:
        return "cannot tell"
    return "first" if b > c else "second"


def better_with_continuity(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = counts(labels, first, second)
    if abs(b - c) - 1 <= 1.96 * (b + c) ** 0.5:
        return "cannot tell"
    return "first" if b > c else "second"


def better_by_interval(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = counts(labels, first, second)
    low, high = wilson_interval(b, b + c) if b + c else (0.0, 1.0)
    return "first" if low > 0.5 else "second" if high < 0.5 else "cannot tell"


RIGHT: dict[str, list[Any]] = {
    "confusion": [
        confusion_matrix,
        confusion_one_hot,
        confusion_add_at,
        confusion_counter,
        confusion_masks,
        ConfusionModule(),
        confusion_sklearn,
    ],
    "wilson": [wilson_interval, wilson_in_counts, wilson_tensor, wilson_roots],
    "find_transposed": [
        transposed_by_columns,
        transposed_by_lists,
        lambda matrices, images: (matrices.sum(dim=-1) != images).any(dim=-1).int().argmax(),
        lambda m, n: int((torch.einsum("mij->mi", m) - n).abs().sum(1).argmax()),
    ],
    "better_model": [better_by_exact_coin, better_by_chi_square, better_with_continuity, better_by_interval],
}

UNKNOWN: dict[str, Any] = {
    "confusion": lambda labels, predictions, k: confusion_matrix(labels[1:], predictions[1:], k),
    "wilson": lambda correct, total, z=1.96: wilson_interval(correct + 1, total + 2, z),
    "find_transposed": lambda matrices, images: 2,
    "better_model": lambda labels, first, second: "first" if counts(labels, first, second)[0] > 25 else "second",
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_right_answers_in_other_styles_pass(name: str, answer: Any) -> None:
    passed, told = verdict(EXERCISES[name], answer)
    assert passed, told


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_mistakes_fail_and_get_no_name(name: str) -> None:
    passed, told = verdict(EXERCISES[name], UNKNOWN[name])
    assert not passed
    assert "wrong numbers" in told or "is not" in told
    assert "You get exactly this" not in told


@pytest.mark.parametrize("name", ["find_transposed", "better_model"])
def test_an_answer_of_another_kind_is_told_in_a_sentence(name: str) -> None:
    passed, told = verdict(EXERCISES[name], lambda *given: 1.5)
    assert not passed
    assert told.startswith(f"{name}: the answer must be ")
