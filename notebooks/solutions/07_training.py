"""Solutions of notebook 07, made from the sources of its checks by notebooks/refresh.py."""

import math

import torch
from torch import Tensor


# exercise: cosine_schedule
def my_cosine_schedule(step: int, steps: int, warmup: int) -> float:
    """The share of the largest learning rate at a step: warmup steps of rise, the rest half a cosine."""
    if step < warmup:
        return (step + 1) / warmup
    behind = (step - warmup) / (steps - warmup)  # 0 at the end of the warm-up, 1 at the very end
    return 0.5 * (1 + math.cos(math.pi * behind))


# exercise: cross_entropy
def my_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """(n, classes) and n whole numbers -> one number, in nats."""
    log_probabilities = logits.log_softmax(dim=-1)
    rows = torch.arange(len(labels))
    picked = log_probabilities[rows, labels]  # row i, column labels[i]
    return -picked.mean()


# exercise: diagnose
def my_diagnose() -> dict[str, str]:
    """The illness of each curve, by its letter."""
    return {
        "A": "other normalisation",  # the training is healthy, what is measured is wrong, always in the same way
        "B": "shuffled labels",  # learns a little by heart, and nothing that helps elsewhere
        "C": "no zero_grad",  # learns, and then runs along old gradients
        "D": "no eval",  # the same weights give three answers
    }


# exercise: weight_average
def my_weight_average(weights: Tensor, average: float) -> Tensor:
    """(steps, ...) -> (...), the weight average after the last step."""
    kept = weights[0]
    for new in weights[1:]:
        kept = average * kept + (1 - average) * new
    return kept
