"""Exercise: how many parameters an MLP has, the weights and biases of every layer."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ..checking import Exercise, Mistake


def my_mlp_parameters(in_channels: int, hidden_channels: list[int]) -> int:
    widths = [in_channels, *hidden_channels]
    total = 0
    for a, b in pairwise(widths):  # a layer from a to b numbers
        weights = a * b
        biases = b
        total += weights + biases
    return total


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # A width that comes back, as 64 in 64 -> 256 -> 64, hides a bias counted at the wrong end: so other widths too.
    for in_channels, hidden_channels in (
        (64, [256, 64]), (2, [3]), (5, [7, 3]), (3, [4, 6, 2]), (5, [5, 5]), (768, [3072, 768]),
    ):  # fmt: skip
        given = list(hidden_channels)
        count = answer(in_channels, given)
        if given != hidden_channels:
            raise Mistake("your code changes the list it is given: work on a copy, [in_channels, *hidden_channels].")
        if isinstance(count, float):
            raise Mistake(f"a count is a whole number, an int, and this is {count!r}.")
        yield f"the count for {' → '.join(map(str, [in_channels, *hidden_channels]))}", count


WEIGHTS, BIASES, END = "weights = a * b", "biases = b", "return total"

SLIPS = (
    ({BIASES: "biases = 0"}, "leave out the biases: each layer has one for every number it gives"),
    ({BIASES: "biases = a"}, "count a bias for every number a layer takes: it has one for every number it gives"),
    ({BIASES: "biases = 1"}, "count one bias a layer: it has one for every number it gives"),
    ({"[in_channels, *hidden_channels]": "hidden_channels"},
     "leave out the first layer: it goes from in_channels to hidden_channels[0]"),
    ({"pairwise(widths)": "pairwise(widths[:2])"},
     "stop after the first layer: there is one layer for every number in hidden_channels"),
    ({WEIGHTS: "weights = in_channels * b"},
     "let every layer take in_channels numbers: a layer takes what the one before it gave"),
    ({END: "return total - widths[-1]"}, "leave out the biases of the last layer: it has them too"),
    ({BIASES: "biases = 0", END: "return total + widths[-1]"},
     "count the biases of the last layer only: every layer has them"),
    ({END: "D, M = in_channels, hidden_channels[0]\n    return D * M + M + M * D + D"},
     "use the formula D M + M + M D + D for every list: it holds for two layers that end as wide as they began; add "
     "a * b + b for each layer"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_mlp_parameters,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "Take one layer first, from a numbers to b numbers. How many entries has its matrix? How many biases has it?",
        "A layer has a * b weights and b biases. The first layer goes from in_channels to hidden_channels[0], the next "
        "from there to hidden_channels[1]; pairwise gives such pairs of a list that begins with in_channels.",
    ),
    same=({"total += weights + biases": "total += (a + 1) * b"},),
)
