"""Exercise: a function that tells what is wrong with a head that it cannot look into."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Evidence, Exercise, Mistake, Slip, random, randomise
from ..ladder.models import BrokenHead


def my_find_bug(head: nn.Module, x: Tensor) -> str:
    """The name of the bug of a head; x are tokens, (n, seq_length, hidden_dim)."""
    output, weights = head(x)
    q, k = head.w_q(x), head.w_k(x)
    scores = q @ k.transpose(-2, -1)
    twice = q @ q.transpose(-2, -1)
    root = math.sqrt(q.shape[-1])
    if torch.allclose(weights, scores.softmax(dim=-1), atol=1e-5):
        return "no root"
    if torch.allclose(weights, (scores / root).softmax(dim=-2), atol=1e-5):
        return "softmax over queries"
    if torch.allclose(weights, (twice / root).softmax(dim=-1), atol=1e-5):
        return "w_q twice"
    if torch.allclose(output, weights @ k, atol=1e-5):
        return "keys gathered"
    return "no bug"


TELLS = {
    "no bug": (
        "The weights of a head without a bug are softmax(q kᵀ / √d), d = q.shape[-1], and its"
        " output is weights @ v: compare with atol=1e-5"
    ),
    "no root": "The weights of such a head are softmax(q kᵀ), with nothing to divide by",
    "softmax over queries": "In such a head columns of weights sum to 1, and rows do not",
    "w_q twice": "The weights of such a head are softmax(q qᵀ / √d)",
    "keys gathered": "The weights of such a head are right, and its output is weights @ k",
}


def tell(evidence: Evidence) -> tuple[str, str]:
    """How a head with the right name is told."""
    is_name = evidence.value in BrokenHead.BUGS and evidence.expected in TELLS
    return "", f"{TELLS[evidence.expected]}." if is_name else ""


def three_heads() -> dict[str, nn.Module]:
    """Three heads to be looked into from outside; which bug each one has, the notebook does not
    say."""
    bugs = ("softmax over queries", "no root", "w_q twice")
    return {
        name: randomise(BrokenHead(bug, 49, 32), seed=70 + i)
        for i, (name, bug) in enumerate(zip("ABC", bugs, strict=True))
    }


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends at the first wrong name: what the later heads are called may be another mistake's."""
    for number, (bug, size) in enumerate(
        [(bug, size) for size in (8, 5) for bug in BrokenHead.BUGS]
    ):
        head = randomise(BrokenHead(bug, 6, size), seed=number)
        with torch.no_grad():
            head.w_q.weight.mul_(2)
            head.w_k.weight.mul_(2)
        named = answer(head, random(2, 4, 6, seed=50 + number))
        if isinstance(named, str) and named not in BrokenHead.BUGS:
            raise Mistake(f"{named!r:.60} is none of the five: {', '.join(BrokenHead.BUGS)}.")
        yield f'the name of a head with "{bug}"', named
        if named != bug:
            return


NO_ROOT = "if torch.allclose(weights, scores.softmax(dim=-1), atol=1e-5)"
COLUMNS = "if torch.allclose(weights, (scores / root).softmax(dim=-2), atol=1e-5)"
OVER_QUERIES = "if not torch.allclose(weights.sum(dim=-2), torch.ones(()), atol=1e-4)"
ROWS = (
    "sum the weights over the queries, dim=-2",
    "It is the rows of a right head that sum to 1: dim=-1",
)

SLIPS = (
    Slip(
        {'return "no bug"': 'return "no root"'},
        'say "no root" where none of the others fits, or compare too coarsely',
        "Its weights are the softmax of the scores divided by √d. Compare with that of the scores"
        " as they stand, closely, atol=1e-5; and what fits none of the bugs has none",
    ),
    Slip(
        {"weights @ k,": "weights @ head.w_v(x),"},
        'say "keys gathered" where the values are gathered',
        "Compare the output with weights @ k",
    ),
    Slip(
        {f"{NO_ROOT}": f"{OVER_QUERIES}:\n        return 'softmax over queries'\n    {NO_ROOT}"},
        *ROWS,
    ),
    Slip({COLUMNS: OVER_QUERIES, NO_ROOT: "if False"}, *ROWS),
    Slip(
        {NO_ROOT: "if False"},
        "never compare with a softmax of the scores as they stand",
        "The weights of such a head are the softmax of the scores as they stand, which you compute"
        " from head.w_q(x) and head.w_k(x)",
    ),
    Slip(
        {COLUMNS: "if False"},
        "never compare with a softmax over the queries of the divided scores",
        "A head has one bug at a time: its scores are divided by √d, d = q.shape[-1], and then"
        " columns sum to 1, not rows",
    ),
    *(
        Slip(
            {'return "softmax over queries"': f'return "{name}"'},
            f'say "{name}" of weights whose rows do not sum to 1',
            "In a head with a softmax over the queries columns of weights sum to 1 instead",
        )
        for name in ("w_q twice", "no root", "keys gathered")
    ),
    Slip(
        {"if torch.allclose(weights, (twice / root)": "if torch.allclose(weights, (twice)"},
        "compare with a softmax of q qᵀ that is not divided by √d",
        "A head has one bug at a time: its weights are the softmax of q qᵀ / √d, d = q.shape[-1]",
    ),
    *(
        Slip(
            {'return "w_q twice"': f'return "{name}"'},
            f'say "{name}" of weights in which w_k plays no part',
            "If w_q stands twice, they are the softmax of q qᵀ / √d",
        )
        for name in ("no root", "keys gathered")
    ),
    Slip(
        {'return "keys gathered"': 'return "no bug"'},
        "look at the weights alone, and not at the output",
        "The weights of such a head are right, and its output is weights @ k",
    ),
)

EXERCISE = Exercise(
    answer=my_find_bug,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "You know what a head should give: head.w_q(x), head.w_k(x) and head.w_v(x) are yours"
            " to call. What would its weights be with each of the bugs?"
        ),
        (
            "Compute the weights as each bug would make them, and compare with torch.allclose(…,"
            " atol=1e-5): the first that agrees names the bug. Only keys gathered leaves the"
            " weights right: compare the output with weights @ k."
        ),
    ),
    same=({COLUMNS: "if not torch.allclose(weights.sum(dim=-1), torch.ones(()), atol=1e-4)"},),
)
