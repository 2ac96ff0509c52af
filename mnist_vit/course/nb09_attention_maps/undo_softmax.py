"""Exercise: get weights back from which somebody took the softmax a second time."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_undo_softmax(twice: Tensor) -> Tensor:
    # (..., keys): softmax of weights -> the weights, (..., keys)
    logs = twice.log()  # the weights, less one number for each row
    missing = 1 / twice.shape[-1] - logs.mean(dim=-1, keepdim=True)  # weights have the mean 1 / N
    return logs + missing


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    weights = (2 * random(2, 3, 4, 6)).softmax(dim=-1)
    yield "weights (2, 3, 4, 6)", answer(weights.softmax(dim=-1))
    yield "weights (5, 3)", answer(random(5, 3, seed=1).softmax(dim=-1).softmax(dim=-1))
    yield "a single row of 7 weights", answer(random(7, seed=2).softmax(dim=-1).softmax(dim=-1))


def notice(answer: Any) -> Mistake | None:
    """What is added to the logarithm, in one row and in all of them."""
    twice = (2 * random(3, 4, seed=7)).softmax(dim=-1).softmax(dim=-1)
    found = answer(twice.clone())
    added = found - twice.log()
    spread = (added - added.mean(dim=-1, keepdim=True)).abs().max()
    sums = found.sum(dim=-1)
    if spread < 1e-5 and (sums - 1).abs().max() < 1e-4:
        return Mistake(
            "For weights of 3 rows and 4 keys, a tensor of two axes, your rows are right.",
            "Other axes may stand in front, such as those of pictures and heads. A row runs along"
            " the last one, dim=-1.",
        )
    if spread < 1e-5:
        least, most = f"{float(sums.min()):.4g}", f"{float(sums.max()):.4g}"
        return Mistake(
            "Each of your rows is the logarithm plus one number, and that is a wrong one: for"
            " weights of 3 rows and 4 keys that we tried, your rows sum to"
            f" {least if least == most else f'{least} … {most}'}.",
            "They should be weights, and each row of weights sums to 1: add (1 − the sum of the"
            " row's logarithms) / how many keys there are.",
        )
    return Mistake(
        "Within a row, yours is not the logarithm plus one number for the whole row.",
        "A softmax divides a row by one number. For the logarithms that is a number subtracted, so"
        " nothing is multiplied or divided.",
    )


MISSING = "1 / twice.shape[-1] - logs.mean(dim=-1, keepdim=True)"

SLIPS = (
    Slip(
        {MISSING: "0"},
        "take the logarithm only",
        "Each row then lacks a number, the same for all its keys. What must a row sum to?",
    ),
    Slip(
        {MISSING: "-logs.mean(dim=-1, keepdim=True)"},
        "make each row sum to 0",
        "Weights of a row sum to 1, so their mean is 1 / twice.shape[-1]",
    ),
    Slip(
        {MISSING: "1 - logs.mean(dim=-1, keepdim=True)"},
        "give each row a mean of 1",
        "Weights of a row sum to 1, so their mean is 1 / twice.shape[-1]",
    ),
    Slip(
        {"return logs + missing": "return logs.softmax(dim=-1)"},
        "give back what was given (the softmax of its logarithm is that, too)",
        "Take the logarithm, and add to each row the one number that makes it sum to 1",
    ),
    Slip(
        {"return logs + missing": "return logs / logs.sum(dim=-1, keepdim=True)"},
        "divide the logarithms by their sum",
        "A logarithm turns a factor into a summand, so a number is missing, and no factor",
    ),
    Slip(
        {
            "return logs + missing": (
                "logs = logs - logs.amin(dim=-1, keepdim=True)\n"
                "    return logs / logs.sum(dim=-1, keepdim=True)"
            )
        },
        "subtract each row's smallest logarithm and divide by the sum",
        "A division stretches the differences between the keys, which were right. Add a number",
    ),
    Slip(
        {MISSING: "1 / 50 - logs.mean(dim=-1, keepdim=True)"},
        "count on 50 keys",
        "How many there are is twice.shape[-1]",
    ),
    Slip(
        {"return logs + missing": "return twice.softmax(dim=-1)"},
        "take a third softmax",
        "The softmax is an exponential and a division: take the logarithm to undo it",
    ),
    Slip(
        {
            MISSING: "1 / twice.shape[-2] - logs.mean(dim=-2, keepdim=True)",
        },
        "take the mean over the queries",
        "A row, which sums to 1, runs over the keys: the last axis",
    ),
    Slip(
        {MISSING: "1 / twice.shape[-2] - logs.mean(dim=-1, keepdim=True)"},
        "take 1 / the number of queries, twice.shape[-2], for the mean of a row",
        "A row holds a weight for each key: its mean is 1 / twice.shape[-1]",
    ),
    *(
        Slip(
            {"twice.log()": f"twice.{name}()"},
            f"take {what}",
            "The softmax takes e to the power of a weight: the natural logarithm, log(), undoes it",
        )
        for name, what in (
            ("log2", "the logarithm to the base 2"),
            ("log10", "the logarithm to the base 10"),
            ("exp", "e to the power of what is given"),
            ("logit", "the logit, log(p / (1 - p))"),
        )
    ),
    Slip(
        {MISSING: "1 / twice.shape[-1] - logs.mean(dim=-1)"},
        "leave out keepdim=True",
        "A number for each row stands along its keys: mean(dim=-1, keepdim=True)",
    ),
    Slip(
        {MISSING: "-logs.amin(dim=-1, keepdim=True)"},
        "make the smallest weight of each row 0",
        "It need not be. What is known of a row is its sum, 1",
    ),
    Slip(
        {MISSING: "-logs.amax(dim=-1, keepdim=True)"},
        "make the largest weight of each row 0",
        "It is not. What is known of a row is its sum, 1",
    ),
    Slip(
        {MISSING: "1 - logs.sum(dim=-1, keepdim=True)"},
        "add all that is missing from the sum to every key",
        "The keys share it: divide by how many there are, twice.shape[-1]",
    ),
    Slip(
        {MISSING: "1 / twice.shape[-1] - logs.mean()"},
        "add one number to all rows",
        "Each row was divided by a sum of its own: dim=-1, keepdim=True",
    ),
)

EXERCISE = Exercise(
    answer=my_undo_softmax,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Write one number of the softmax of a row w: exp(w[j]) / S, with S the same for the"
            " whole row. What is its logarithm?"
        ),
        (
            "The logarithm is w[j] − ln S. You do not know S, but you know the sum of the w[j] of a"
            " row: they are weights."
        ),
    ),
    same=(
        {MISSING: "(1 - logs.sum(dim=-1, keepdim=True)) / twice.shape[-1]"},
        {"twice.log()": "(7 * twice).log()"},
    ),
    tolerance=1e-5,
)
