"""Exercise: cut every token's numbers into heads."""

from collections.abc import Iterator
from typing import Any

import torch  # noqa: F401 (an edit uses it)
from torch import Tensor

from ..checking import Evidence, Exercise, Slip, gradients, random


def my_split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(n, seq_length, hidden_dim) -> (n, num_heads, seq_length, head_dim)."""
    n, seq_length, hidden_dim = x.shape
    head_dim = hidden_dim // num_heads
    # Cut only the last dimension, so that no number leaves its token; then let heads and tokens
    # change places.
    x = x.reshape(n, seq_length, num_heads, head_dim)
    return x.transpose(1, 2)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    x = random(2, 5, 12, seed=3).requires_grad_()
    out = answer(x, 3)
    yield "output", out
    yield from gradients(out, x=x)
    yield "output at another size", answer(random(1, 7, 10, seed=4), 2)


def tell(evidence: Evidence) -> tuple[str, str]:
    """What parts are, that came back in place of one tensor."""
    parts = evidence.value
    if not isinstance(parts, tuple | list) or not isinstance(parts[0], Tensor):
        return "", ""
    n, num_heads, seq_length, head_dim = evidence.expected.shape
    shape = (n, seq_length, head_dim)
    if len(parts) != num_heads or any(part.shape != shape for part in parts):
        return "The parts must be one tensor.", ""
    return (
        f"Each part has the shape {shape}, as a head should, but they must be one tensor.",
        "torch.stack(parts, dim=1) makes one of them, in which axis 1 says which head.",
    )


CUT, SWAP = "x.reshape(n, seq_length, num_heads, head_dim)", "return x.transpose(1, 2)"

SLIPS = (
    Slip(
        {CUT: "x.reshape(n, num_heads, seq_length, head_dim)", SWAP: "return x"},
        "go to (n, num_heads, seq_length, head_dim) in one `view` or `reshape`",
        (
            "A head then gets numbers of some tokens only. Cut the last dimension first, then"
            " swap dimensions 1 and 2 with transpose"
        ),
    ),
    Slip(
        {SWAP: "return x"},
        "cut the last dimension and stop there",
        "The heads must come before the tokens, so swap dimensions 1 and 2",
    ),
    Slip(
        {SWAP: "return x.transpose(2, 3)"},
        "swap dimensions 2 and 3, heads and numbers",
        "The heads must come before the tokens, so swap dimensions 1 and 2",
    ),
    Slip(
        {SWAP: "return x.transpose(1, 2).reshape(n, seq_length, hidden_dim)"},
        "reshape once more at the end",
        "Heads stay apart, (n, num_heads, seq_length, head_dim)",
    ),
    Slip(
        {
            CUT: "x.reshape(n, seq_length, head_dim, num_heads)",
            SWAP: "return x.permute(0, 3, 1, 2)",
        },
        "deal the numbers out one by one, every num_heads-th to the same head",
        (
            "A head owns head_dim numbers that stand side by side, those of head 0 first: cut the"
            " last dimension into (num_heads, head_dim)"
        ),
    ),
    Slip(
        {CUT: "x.reshape(n, seq_length, head_dim, num_heads)"},
        "make head_dim heads of num_heads numbers",
        "There are num_heads heads, and each has head_dim numbers of a token",
    ),
    Slip(
        {CUT: "x.transpose(1, 2).reshape(n, num_heads, seq_length, head_dim)", SWAP: "return x"},
        "swap tokens and numbers before the cut",
        "Cut the last dimension first, then swap dimensions 1 and 2",
    ),
    *(
        Slip(
            {CUT: f"x.{cut}, dim=1)", SWAP: "return torch.stack(x, dim=1)"},
            "cut along axis 1, so that each part has some of the tokens",
            "A head has head_dim numbers of every token: cut the last axis, dim=-1",
        )
        for cut in (
            "chunk(num_heads",
            "split(seq_length // num_heads",
            "split(head_dim",
        )
    ),
    *(
        Slip(
            {CUT: f"x.reshape(n, seq_length, num_heads, {number})"},
            "write the size of a head as a number",
            "It is another one at other sizes: hidden_dim // num_heads",
        )
        for number in (4, 32)
    ),
    Slip(
        {SWAP: "return x.transpose(1, 2)[:, :1].expand(-1, num_heads, -1, -1)"},
        "give every head the first head_dim numbers",
        "Head h owns the numbers h * head_dim to (h + 1) * head_dim - 1 of each token",
    ),
)

EXERCISE = Exercise(
    answer=my_split_heads,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Which numbers of a token belong to head 0? Cut the last dimension in two, so that an"
            " index can say it."
        ),
        (
            "Two steps: `reshape` to (n, seq_length, num_heads, head_dim), where head_dim is"
            " hidden_dim // num_heads; then let heads and tokens change places."
        ),
    ),
    same=({CUT: "x.split(head_dim, dim=-1)", SWAP: "return torch.stack(x, dim=1)"},),
)
