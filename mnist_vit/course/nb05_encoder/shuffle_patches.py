"""Exercise: put the patches of a picture in another order, and leave the class token where it is."""

from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, gradients, random


def my_shuffle_patches(tokens, order):
    """tokens (n, 1 + N, hidden_dim), order (N,) -> (n, 1 + N, hidden_dim)."""
    class_token, patches = tokens[:, :1], tokens[:, 1:]
    patches = patches[:, order]  # patch order[i] comes to place i
    return torch.cat([class_token, patches], dim=1)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    tokens = random(3, 7, 4).requires_grad_()
    # one round through all six, so that the order and its inverse differ at every place
    shuffled = answer(tokens, torch.tensor([2, 0, 3, 5, 1, 4]))
    yield "output", shuffled
    yield from gradients(shuffled, tokens=tokens)
    yield "output for four patches", answer(random(1, 5, 3, seed=1), torch.tensor([3, 1, 0, 2]))


CUT, PUT = "tokens[:, :1], tokens[:, 1:]", "patches[:, order]"
PARTS, JOIN = "[class_token, patches]", "torch.cat([class_token, patches], dim=1)"

SLIPS = (
    ({PUT: "tokens[:, order]"}, "count the class token as patch 0: take tokens[:, 1:] first, then put that in order"),
    ({CUT: "tokens[:, -1:], tokens[:, :-1]", PARTS: "[patches, class_token]"},
     "set the last token apart instead of the first: the class token is tokens[:, :1]"),
    ({PUT: "patches[:, order.argsort()]"},
     "send patch i to place order[i]: place i gets patch order[i], as indexing with [order] does"),
    ({PUT: "tokens[:, order]", JOIN: "patches"},
     "index all the tokens with order and lose the class token: order counts patches only, from 0, so put tokens[:, "
     "1:] in order and join tokens[:, :1] in front of it"),
    ({JOIN: "patches"},
     "lose the class token: the patches are in the right order, now join tokens[:, :1] in front of them"),
    ({PARTS: "[patches, class_token]"}, "put the class token at the end: it stays at the front"),
    ({PUT: "patches"}, "return the tokens as they came: index the patches with order"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_shuffle_patches,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        "Take the class token and the patches apart, put the patches in order, and join the two again.",
        "A tensor of whole numbers can be an index: x[:, order] picks x[:, order[0]], x[:, order[1]] and so on. "
        "torch.cat joins along dimension 1; tokens[:, :1] keeps the class token's dimension, which tokens[:, 0] loses.",
    ),
    same=(
        {
            PUT: "torch.cat([torch.zeros(1, dtype=order.dtype), order + 1])",
            JOIN: "tokens[:, patches]",
        },
    ),
)
