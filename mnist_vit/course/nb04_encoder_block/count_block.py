"""Exercise: how many parameters an encoder block has."""

from collections.abc import Iterator
from typing import Any

from ..checking import Exercise


def my_count_block(hidden_dim, mlp_dim):
    norms = 2 * (hidden_dim + hidden_dim)  # weight and bias
    attention = 4 * (hidden_dim * hidden_dim + hidden_dim)  # query, key, value, output
    widen = hidden_dim * mlp_dim + mlp_dim
    narrow = mlp_dim * hidden_dim + hidden_dim
    return norms + attention + widen + narrow


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for hidden_dim, mlp_dim in ((64, 256), (6, 10), (768, 3072)):
        yield f"the count for hidden_dim {hidden_dim} and mlp_dim {mlp_dim}", answer(hidden_dim, mlp_dim)


NORMS, ATTENTION = "2 * (hidden_dim + hidden_dim)", "4 * (hidden_dim * hidden_dim + hidden_dim)"
WIDEN, NARROW = "hidden_dim * mlp_dim + mlp_dim", "mlp_dim * hidden_dim + hidden_dim"
NO_BIASES = {ATTENTION: "4 * hidden_dim * hidden_dim", WIDEN: "hidden_dim * mlp_dim", NARROW: "mlp_dim * hidden_dim"}

SLIPS = (
    ({NORMS: "0", **NO_BIASES},
     "count the matrices only: every linear layer has a bias, every norm a weight and a bias"),
    (NO_BIASES, "count the matrices and the norms: every linear layer has a bias too"),
    ({NORMS: "0"},
     "leave out 4 * hidden_dim numbers: the two norms have a weight and a bias each (or, just as many, the biases "
     "of the attention)"),
    ({NORMS: "2 * hidden_dim"},
     "leave out 2 * hidden_dim numbers: there are two norms, and each has a weight and a bias"),
    ({ATTENTION: "3 * (hidden_dim * hidden_dim + hidden_dim)"},
     "forget the output projection: hidden_dim * hidden_dim weights and hidden_dim biases"),
    ({ATTENTION: "2 * (hidden_dim * hidden_dim + hidden_dim)"},
     "count one matrix for query, key and value together: each of the three has its own"),
    ({WIDEN: "hidden_dim * mlp_dim", NARROW: "mlp_dim * hidden_dim"},
     "forget the biases of the MLP: mlp_dim after the first layer, hidden_dim after the second"),
    ({NARROW: "0"}, "count one linear layer of the MLP: there are two, one that widens and one that narrows"),
    ({NARROW: "mlp_dim * hidden_dim + mlp_dim"},
     "count mlp_dim biases in both layers of the MLP: a bias has as many numbers as come out of its layer"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_count_block,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "Go through __init__ line by line: ln_1, self_attention, ln_2, mlp. Dropout has no parameters.",
        "A linear layer from a to b numbers has a * b weights and b biases; a norm of a numbers has a weights and a "
        "biases. The attention holds four linear layers from hidden_dim to hidden_dim.",
    ),
)
