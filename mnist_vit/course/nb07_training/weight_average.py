"""Exercise: the average of the weights, which gives newer ones a fixed small share."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, random


def my_weight_average(weights: Tensor, average: float) -> Tensor:
    """(steps, ...) -> (...), the weight average after the last step."""
    kept = weights[0]
    for new in weights[1:]:
        kept = average * kept + (1 - average) * new
    return kept


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    weights = random(6, 4, seed=72, dtype=torch.float64)
    yield "average after 6 steps", answer(weights, 0.8)
    yield "average after 30 steps", answer(random(30, 2, 3, seed=73), 0.97)
    yield "average after 1 step", answer(random(1, 3, seed=74), 0.9)
    yield "weights after the call", weights


START, LOOP = "kept = weights[0]", "for new in weights[1:]:"
MIX, END = "kept = average * kept + (1 - average) * new", "return kept"
FROM_ZERO = {START: "kept = torch.zeros_like(weights[0])", LOOP: "for new in weights:"}

SLIPS = (
    ({MIX: "kept = (1 - average) * kept + average * new"},
     "swap the two shares: the old average keeps the large one, the new weights get 1 - average"),
    (FROM_ZERO, "start from zeros: the average starts as the weights after the first step"),
    ({**FROM_ZERO, END: "return kept / (1 - average ** len(weights))"},
     "start from zeros and divide by 1 - average ** steps, as Adam does: here the first weights are the start"),
    ({MIX: "kept = new"}, "return the last weights: mix them into what is kept of the older ones"),
    ({END: "return weights.mean(dim=0)"}, "take the plain mean: here older weights count less and less"),
    ({START: "weights = weights[:-1]\n    kept = weights[0]"}, "leave out the last step: it is mixed in, too"),
    ({LOOP: "for new in weights[1:-1]:"}, "end the loop one step too early: the last step is mixed in, too"),
    ({START: "weights = weights[1:]\n    kept = weights[0]"},
     "leave out the first weights: they are the start of the average"),
    ({START: "kept = weights[-1]", LOOP: "for new in weights.flip(0)[1:]:"},
     "go from the last step to the first: the newest weights come last"),
    ({END: "return average * weights[-2] + (1 - average) * weights[-1]"},
     "mix the last weights with those before them: mix them with the average so far"),
    ({START: "kept = weights[0]\n    every = [kept]", MIX: f"{MIX}\n        every.append(kept)",
      END: "return torch.stack(every)"},
     "return the average after every step: only the last one is wanted"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_weight_average,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        "Keep one tensor. After the first step it is those weights; what becomes of it with each new row?",
        "for new in weights[1:]: the kept tensor becomes average · kept + (1 − average) · new. Make a new "
        "tensor each time: weights[0] is a part of weights, and += or mul_ would change it there.",
    ),
    same=(
        {MIX: "kept = kept + (1 - average) * (new - kept)"},
        {MIX: "kept = torch.lerp(new, kept, average)"},
        {LOOP: "for new in weights:"},  # mixing the start with itself changes nothing
    ),
)
