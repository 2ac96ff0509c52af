"""Solutions of notebook 08, made from the sources of its checks by notebooks/refresh.py."""

import math

import torch
from torch import Tensor


# exercise: better_model
def my_better_model(labels: Tensor, first: Tensor, second: Tensor) -> str:
    """Truth and the predictions of two models, (n,) each -> "first", "second" or "cannot tell"."""
    b = int(((first == labels) & (second != labels)).sum())  # only the first is right
    c = int(((first != labels) & (second == labels)).sum())  # only the second is right
    border = 1.96 * math.sqrt(b + c)
    if abs(b - c) <= border:
        return "cannot tell"
    return "first" if b > c else "second"


# exercise: confusion
def my_confusion(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    """(n,), (n,) -> counts, int64, (num_classes, num_classes); row = truth, column = prediction."""
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for truth, named in zip(labels.tolist(), predictions.tolist(), strict=True):
        matrix[truth, named] += 1
    return matrix


# exercise: find_transposed
def my_find_transposed(matrices: Tensor, images: Tensor) -> int:
    """(3, k, k) counts and (k,) images of each class -> which of the matrices is transposed: 0, 1 or 2."""
    for place, matrix in enumerate(matrices):
        rows = matrix.sum(dim=1)  # a row holds all images of its class
        if not torch.equal(rows, images):
            break
    return place


# exercise: wilson
def my_wilson(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Both ends of the interval, as shares from 0 to 1, the lower one first."""
    share = correct / total
    below = 1 + z * z / total
    shift = z * z / (2 * total)
    variance = share * (1 - share) / total + z * z / (4 * total * total)
    middle = (share + shift) / below
    reach = z * math.sqrt(variance) / below
    return middle - reach, middle + reach
