"""Exercise: design W_Q and W_K so that every patch looks at its left neighbour. Many answers are
right."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, describe
from .attention import my_attention


def my_look_left(side: int) -> tuple[Tensor, Tensor]:
    """W_Q and W_K, both (side², side²), for a picture of side x side patches."""
    patches = side * side
    w_q = 100 * torch.eye(patches)  # patch i asks for place i
    w_k = torch.eye(patches).roll(1, dims=1)  # patch i is found by place i + 1
    return w_q, w_k


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for side in (4, 3):
        tokens = torch.eye(side * side)
        made = answer(side)
        if made is None or made is ...:
            yield "what came back", made
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise Mistake("two matrices must come back: return w_q, w_k.")
        for name, matrix in zip(("W_Q", "W_K"), made, strict=True):
            shape = tuple(tokens.shape)
            if not isinstance(matrix, Tensor) or matrix.shape != shape:
                raise Mistake(
                    f"{name} must be a tensor of shape {shape}, but is {describe(matrix)}.",
                    _rows(tuple(getattr(matrix, "shape", ())), side),
                )
            if matrix.dtype != tokens.dtype:
                raise Mistake(
                    f"{name} must hold numbers of torch.float32, but holds {matrix.dtype}.",
                    f"{name}.float() holds them.",
                )
            if not matrix.isfinite().all():
                raise Mistake(
                    f"{name} holds numbers that are nan or infinite, and so would the scores.",
                    "Finite numbers are enough: 100 makes large scores.",
                )
        w_q, w_k = (matrix.detach().to_dense() for matrix in made)
        _, weights = my_attention(tokens @ w_q, tokens @ w_k, tokens)
        if not weights.isfinite().all():
            raise Mistake(
                "the scores are too large for a float32, and their softmax is nan: W_Q goes up to"
                f" {w_q.abs().max():.3g}, and W_K up to {w_k.abs().max():.3g}.",
                "100 in one of the two matrices, and 1 in the other, is large enough.",
            )
        # All but the first column, whose patches may look anywhere: 0 stands for them.
        asked = torch.arange(side * side).reshape(side, side)[:, 1:].flatten()
        most = torch.zeros(side * side, dtype=torch.int64)
        most[asked] = weights[asked].argmax(dim=-1)
        yield f"the patch that each patch looks at most, of {side} x {side}", most
        alike = torch.ones(side * side, dtype=torch.int64)
        alike[asked] = _largest((tokens @ w_q) @ (tokens @ w_k).T)[asked].sum(dim=-1)
        yield f"how many patches get the largest weight of each, of {side} x {side}", alike
        above = int((weights[asked, asked - 1] > 0.9).sum())
        yield f"how many of {len(asked)} give more than 0.9 to their left neighbour", above


def _largest(scores: Tensor) -> Tensor:
    """Where the largest score of a row stands; equal ones count, but for rounding."""
    largest = scores.amax(dim=-1, keepdim=True)
    return scores >= largest - 1e-6 * largest.abs()


def _rows(shape: tuple[int, ...], side: int) -> str:
    """How many rows and columns are needed, and what makes other ones."""
    patches = side * side
    said = f"There are {patches} patches, {side} x {side}: it needs a row and a column for each."
    if len(shape) == 2 and shape[0] == shape[1] and 0 < abs(shape[0] - patches) < 3:
        said += " torch.diag(values, k) makes |k| rows and columns more than there are values."
    return said


def tell(evidence: Evidence) -> tuple[str, str]:
    """Where one of the patches looks that should look left, or that it does so too little."""
    if not evidence.has_tensors:
        return _too_little(evidence)
    side = 4 if "4 x 4" in evidence.what else 3
    count = side * (side - 1)
    wrong = (evidence.value != evidence.expected).nonzero()[:, 0]
    first, left = int(wrong[0]), int(wrong[0]) - 1
    w_q, w_k = evidence.theirs[(evidence.before[1] or 0) - 1].output
    scores = w_q.detach().to_dense() @ w_k.detach().to_dense().T
    is_most = _largest(scores)
    asked = torch.arange(side * side).reshape(side, side)[:, 1:].flatten()
    looks_left = is_most[asked, asked - 1] & (is_most[asked].sum(dim=-1) == 1)
    others = count - int(looks_left.sum())
    alike = is_most[first].nonzero()[:, 0].tolist()
    most = f"most to patch {alike[0]}"
    instead = f"Row {first} of W_Q is its query: with which row of W_K, a key, is the product"
    instead += " largest?"
    if len(alike) > 1:
        most = f"the same weight, its largest, to {len(alike)} patches"
        if len(alike) < 4:
            most += f" ({', '.join(map(str, alike))})"
        instead = (
            f"Row {first} of W_Q, its query, must have one largest product with the rows of W_K:"
            f" that with row {left}. Larger numbers leave equal ones equal."
        )
    return (
        f"Of {count} patches with a left neighbour {others} do not look most at it alone:"
        f" patch {first} gives {most}, and its left neighbour is {left}.",
        instead,
    )


def _too_little(evidence: Evidence) -> tuple[str, str]:
    """Where all look most at the left neighbour: how many give it too little."""
    if type(evidence.value) is not int:
        return "", ""
    return (
        "Each gives its left neighbour more than any other patch, but"
        f" {evidence.expected - evidence.value} of {evidence.expected} give it 0.9 or less.",
        "A score that is 5 above that of every other patch, after the division by √d, is enough.",
    )


ROLL = "roll(1, dims=1)"

SLIPS = (
    Slip(
        {ROLL: "roll(-1, dims=1)"},
        "look one patch to the right",
        "The query of patch i must have its largest score with the key of patch i − 1, and not"
        " with that of patch i + 1. With q = x @ W_Q, row i of W_Q is the query of patch i",
    ),
    Slip(
        {ROLL: "roll(side, dims=1)"},
        "look one patch up",
        "Patches count row by row: the left neighbour of patch i is patch i − 1",
    ),
    Slip(
        {ROLL: "roll(-side, dims=1)"},
        "look one patch down",
        "Patches count row by row: the left neighbour of patch i is patch i − 1",
    ),
    Slip(
        {ROLL: "clone()"},
        "let every patch look at itself",
        "The query of patch i must have its largest score with the key of patch i − 1. With the"
        " identity as W_Q, the 1 in row i of W_K must stand at place i + 1",
    ),
    Slip(
        {"100 * ": "-100 * "},
        "look away from the left neighbour",
        (
            "It gets the lowest score of all, and must get the highest: turn the sign of W_Q or"
            " of W_K, not of both"
        ),
    ),
    *(
        Slip(
            {"100 * ": few},
            "give the left neighbour the largest weight of all, but not more than 0.9",
            (
                "A score that is 5 above that of every other patch, after the division by √d, is"
                " enough: multiply W_Q or W_K by a larger number"
            ),
        )
        for few in ("", "15 * ")
    ),
    Slip(
        {ROLL: "roll(-1, dims=1).tril()"},
        "look one patch to the right",
        "The query of patch i must have its largest score with the key of patch i − 1, and not"
        " with that of patch i + 1. With q = x @ W_Q, row i of W_Q is the query of patch i",
    ),
    Slip(
        {ROLL: "roll(side, dims=1).triu()"},
        "look one patch up",
        "Patches count row by row: the left neighbour of patch i is patch i − 1",
    ),
    Slip(
        {ROLL: "roll(-side, dims=1).tril()"},
        "look one patch down",
        "Patches count row by row: the left neighbour of patch i is patch i − 1",
    ),
    Slip(
        {
            "w_q = 100 * torch.eye(patches)": (
                "w_q = 100 * torch.eye(patches).roll(1, 1)\n    w_q[side - 1 :: side] = 0"
            ),
            ROLL: "clone()",
        },
        "look one patch to the right",
        (
            "The query of patch i must have its largest score with the key of patch i − 1, and"
            " not with that of patch i + 1. With q = x @ W_Q, row i of W_Q is the query of patch i"
        ),
    ),
)

EXERCISE = Exercise(
    answer=my_look_left,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Row i of W_Q is the query of patch i, and row j of W_K the key of patch j. Which"
            " single score of query i must be large? Try W_Q = torch.eye(16) first: then query i"
            " has its 1 at place i."
        ),
        (
            "With W_Q the identity, the score of query i with key j is entry i of row j of W_K"
            " (over √d). So row j of W_K needs its large number at place j + 1. How large? Softmax"
            " over 16 keys gives e^s / (e^s + 15)."
        ),
    ),
    same=(
        {
            "w_q = 100 * torch.eye(patches)": "w_q = 100 * torch.eye(patches).roll(-1, dims=1)",
            ROLL: "clone()",
        },
        {"100 * ": "30 * "},
    ),
    many=True,
)
