"""Notebook 08's checks: right answers in other styles pass, unknown mistakes fail, some are told why."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch.nn.functional as F
from helpers import judged
from torch import Tensor

from mnist_vit.course.nb08_evaluation.find_transposed import my_find_transposed
from mnist_vit.course.nb08_evaluation.wilson import my_wilson
from mnist_vit.evaluation import confusion_matrix, wilson_interval


def wilson_roots(correct: int, total: int, z: float = 1.96) -> list[float]:
    """The two shares that lie exactly z standard deviations from what was seen: a quadratic equation."""
    p, e = correct / total, z * z / total
    return sorted(np.roots([1 + e, -2 * p - e, p * p]).real)


def transposed_by_columns(matrices: Tensor, images: Tensor) -> int:
    rows, columns = matrices.sum(2), matrices.sum(1)
    return int(((columns == images).all(1) & ~(rows == images).all(1)).nonzero())


def no_row_adds_up(matrices: Tensor, images: Tensor) -> int | None:
    return next((i for i, matrix in enumerate(matrices) if (matrix.sum(dim=1) != images).all()), None)


def better(decide: Callable[[int, int], bool]) -> Callable[[Tensor, Tensor, Tensor], str]:
    """An answer from the rule that says when the two counts are too far apart for chance."""

    def answer(labels: Tensor, first: Tensor, second: Tensor) -> str:
        a, b = first == labels, second == labels
        one, other = int((a & ~b).sum()), int((b & ~a).sum())
        if not decide(one, other):
            return "cannot tell"
        return "first" if one > other else "second"

    return answer


def exact_coin(b: int, c: int) -> bool:
    return 2 * sum(math.comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c) < 0.05


RIGHT: list[tuple[str, Any]] = [
    ("confusion", confusion_matrix),
    ("confusion", lambda labels, predictions, k: F.one_hot(labels, k).T @ F.one_hot(predictions, k)),
    ("wilson", wilson_interval),
    ("wilson", wilson_roots),
    ("wilson", lambda *args: np.array(my_wilson(*args))),
    ("find_transposed", transposed_by_columns),
    ("find_transposed", lambda matrices, images: np.int64(my_find_transposed(matrices, images))),
    ("better_model", better(exact_coin)),
    ("better_model", better(lambda b, c: b + c > 0 and (b - c) ** 2 / (b + c) >= 3.841)),
    ("better_model", better(lambda b, c: abs(b - c) - 1 > 1.96 * (b + c) ** 0.5)),  # with continuity correction
]
WRONG: list[tuple[str, Any, str]] = [
    ("confusion", lambda labels, predictions, k: confusion_matrix(labels[1:], predictions[1:], k), ""),
    ("wilson", lambda correct, total, z=1.96: wilson_interval(correct + 1, total + 2, z), ""),
    ("wilson", lambda *args: (my_wilson(*args)[0], np.float64(0.49)), "number 2 of 2, is not 0.49."),
    ("find_transposed", lambda matrices, images: 2, ""),
    ("find_transposed", lambda *given: 1.5, "find_transposed: the answer must be a place"),
    ("find_transposed", no_row_adds_up, "One row that does not add up is enough"),
    ("better_model", better(lambda b, c: b > 25), ""),
    ("better_model", lambda *given: 1.5, "better_model: the answer must be one of the texts"),
]


def factor(z: float) -> Any:
    return better(lambda b, c: abs(b - c) > z * math.sqrt(b + c))


NAMED: list[tuple[str, Any, str]] = [
    *(("better_model", factor(z), "a little too near, with 1.645 for 1.96, say") for z in (1.5, 1.9)),
    ("better_model", factor(2.1), "a little too far out"),
]
test_answers = judged(RIGHT, WRONG, NAMED)
