"""Exercise: a linear layer that reads a patch and its place side by side, turned into one layer and
an addition."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Exercise, Mistake, Slip, describe, random, randomise
from ..checking.tools import changed_in, state_of


def my_add_instead(joined, seq_length):
    """A layer on [patch, place] -> a layer on the patch alone, and what to add to its output at
    each place."""
    patch_dim = joined.in_features - seq_length
    linear = nn.Linear(patch_dim, joined.out_features)
    with torch.no_grad():
        linear.weight.copy_(joined.weight[:, :patch_dim])
        linear.bias.copy_(joined.bias)
    # a one-hot place picks one column of the weight, whatever the patch is
    positions = joined.weight[:, patch_dim:].T.detach()
    return linear, positions


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """The sum alone is compared: a bias may stand in the layer or in every position."""
    for patch_dim, seq_length, hidden_dim in ((6, 4, 5), (3, 3, 6)):
        joined = randomise(nn.Linear(patch_dim + seq_length, hidden_dim), seed=patch_dim)
        before = state_of(joined)
        pair = answer(joined, seq_length)
        if pair is None or pair is ...:
            yield "the pair", None
            return
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or not isinstance(pair[0], nn.Module)
        ):
            raise Mistake(
                f"a pair is needed, a linear layer and a tensor, and {_came(pair)}.",
                "The first must be a module, such as nn.Linear, which holds parameters and can be"
                " trained: return linear, positions.",
            )
        linear, positions = pair
        takes = _taken(linear)
        if takes not in (None, patch_dim):
            raise Mistake(
                f"the layer must take a patch alone, {patch_dim} numbers, and takes {takes}.",
                f"joined takes the {patch_dim} numbers of a patch and then {seq_length} of its"
                " place: patch_dim is joined.in_features - seq_length.",
            )
        if not isinstance(positions, Tensor):
            raise Mistake(
                f"positions must be a tensor of shape {(seq_length, hidden_dim)}, but what came"
                f" back is {describe(positions)}.",
                "They are the places' columns of joined.weight, transposed.",
            )
        shape = tuple(positions.shape)
        if shape not in ((seq_length, hidden_dim), (1, seq_length, hidden_dim)):
            raise Mistake(
                f"positions must have shape {(seq_length, hidden_dim)}, but have {shape}.",
                _places(shape, patch_dim, seq_length, hidden_dim),
            )
        total = linear(random(2, seq_length, patch_dim)) + positions
        yield (
            f"linear(patches) + positions for {seq_length} patches of {patch_dim} numbers",
            total.detach(),
        )
        yield "weight of the joined layer afterwards", joined.weight.detach()
        if (changed := changed_in(joined, before)) != "nothing":
            raise Mistake(
                f"right so far, but joined is another one afterwards. Changed: {changed}.",
                "Whoever gave it to you still needs it: make a new layer.",
            )


def _taken(linear: nn.Module) -> int | None:
    """How many numbers a layer takes, as its weight says; None if it has none with two axes."""
    weight = getattr(linear, "weight", None)
    return weight.shape[1] if isinstance(weight, Tensor) and weight.dim() == 2 else None


def _came(pair: Any) -> str:
    """What came back in the place of a pair of a module and a tensor."""
    if isinstance(pair, tuple | list) and len(pair) == 2:
        first, second = (_kind(one) for one in pair)
        return f"yours is {first} and {second}"
    return f"what came back is {describe(pair).rstrip('?')}"


def _kind(value: Any) -> str:
    """What a part of the pair is, in words."""
    if isinstance(value, nn.Module):
        return f"a module, {type(value).__name__}"
    if isinstance(value, Tensor):
        return "a tensor"
    return "a function" if callable(value) else describe(value).rstrip("?")


def notice(answer: Any) -> Mistake | None:
    """Which column of the joined layer a row of positions, or a column of the layer, is."""
    patch_dim, seq_length, hidden_dim = 6, 4, 5
    joined = randomise(nn.Linear(patch_dim + seq_length, hidden_dim), seed=11)
    columns = joined.weight.detach().clone().T
    linear, positions = answer(joined, seq_length)
    for place, row in enumerate(positions.detach().reshape(seq_length, hidden_dim)):
        number = _column(columns, row)
        if number is not None and number != patch_dim + place:
            return Mistake(
                f"Row {place} of your positions is column {number} of joined.weight, where a patch"
                f" has {patch_dim} numbers and there are {seq_length} places.",
                f"It should be column {patch_dim + place}: place i stands behind the patch_dim"
                " numbers of the patch, in column patch_dim + i.",
            )
    for place, column in enumerate(linear.weight.detach().T):
        number = _column(columns, column)
        if number is not None and number != place:
            return Mistake(
                f"Column {place} of your layer's weight is column {number} of joined.weight.",
                "It should be the same column: the patch comes first in [patch, place].",
            )
    is_joined = torch.equal(linear.weight.detach().T, columns[:patch_dim])
    is_no_column = _column(columns, positions.detach().reshape(seq_length, hidden_dim)[0]) is None
    if is_no_column and is_joined and torch.equal(linear.bias.detach(), joined.bias.detach()):
        return Mistake(
            "Your layer has the right weight and the right bias, and row 0 of your positions is no"
            " column of joined.weight.",
            "Row i should be column patch_dim + i, as it is.",
        )
    return None


def _column(columns: Tensor, found: Tensor) -> int | None:
    """The number of the column that this one is; None if it is none."""
    same = (columns - found).abs().amax(dim=1) < 1e-6
    return int(same.nonzero()[0]) if same.any() else None


def _places(shape: tuple[int, ...], patch_dim: int, seq_length: int, hidden_dim: int) -> str:
    """What other numbers have this shape, and which are asked for."""
    if shape == (hidden_dim, seq_length):
        return "Transpose them."
    if sorted(shape) == sorted((hidden_dim, patch_dim)):
        return (
            f"The first {patch_dim} columns of joined.weight belong to the patch. A row of"
            f" positions is one of the other {seq_length}."
        )
    return f"There is a row for each of the {seq_length} places: a column of joined.weight."


LINEAR = "nn.Linear(patch_dim, joined.out_features)"
WEIGHT = "linear.weight.copy_(joined.weight[:, :patch_dim])"
PATCH = "joined.weight[:, :patch_dim]"
PLACE, BIAS = "joined.weight[:, patch_dim:].T.detach()", "linear.bias.copy_(joined.bias)"

SLIPS = (
    Slip(
        {BIAS: "pass"},
        "leave the new layer its own random bias",
        "Copy that of the joined layer into it, too",
    ),
    Slip(
        {BIAS: "linear.bias.zero_()"},
        "lose the bias",
        "It is added once, at every place, so give it to the layer",
    ),
    Slip(
        {
            BIAS: "linear.bias.zero_()",
            PLACE: "(joined.weight[:, patch_dim:].T + joined.bias / seq_length).detach()",
        },
        "share the bias out among the places",
        "The joined layer adds it whole, whatever the place is: give it to the layer, as it is",
    ),
    *(
        Slip(
            {PLACE: f"joined.weight[:, patch_dim:].T{made}.detach()"},
            f"give all places the same positions, {what}",
            "A one-hot place picks one column: place i has a row of its own, column patch_dim + i"
            " of joined.weight",
        )
        for made, what in (
            (".mean(dim=0, keepdim=True).expand(seq_length, -1)", "the mean of all"),
            (".sum(dim=0, keepdim=True).expand(seq_length, -1)", "the sum of all"),
            ("[:1].expand(seq_length, -1)", "those of place 0"),
        )
    ),
    Slip(
        {PLACE: "(joined.weight[:, patch_dim:].T + joined.bias).detach()"},
        "add the bias twice",
        "It is in the layer already, so leave it out of the positions",
    ),
    Slip(
        {PATCH: "joined.weight[:, seq_length:]", PLACE: "joined.weight[:, :seq_length].T.detach()"},
        "take the first columns for the places",
        "The patch comes first in [patch, place], so the places' columns are the last",
    ),
    Slip(
        {PLACE: "joined.weight[:, patch_dim:].reshape(seq_length, -1).detach()"},
        "reshape the places' columns",
        "Column i belongs to place i, so transpose them",
    ),
    Slip(
        {PLACE: "joined.weight[:, patch_dim:].T.flip(0).detach()"},
        "count the places from the end",
        "Place 0 belongs to the first of the places' columns",
    ),
    Slip(
        {PLACE: "-joined.weight[:, patch_dim:].T.detach()"},
        "return the positions with the opposite sign",
        "They are added, as the joined layer adds them",
    ),
    Slip(
        {PLACE: "joined.weight[:, patch_dim:].T.detach() * 0"},
        "return zeros for positions",
        "A one-hot place picks something out of the weight",
    ),
    Slip(
        {WEIGHT: "pass"},
        "leave the new layer its own random weight",
        "Copy the patch's columns into it: linear.weight.copy_(joined.weight[:, :patch_dim])",
    ),
    Slip(
        {WEIGHT: "pass", BIAS: "pass"},
        "leave the new layer its own random weight and bias",
        "Copy the patch's columns and the bias of the joined layer into it",
    ),
    Slip(
        {PATCH: "joined.weight[:, -patch_dim:]"},
        "take the last patch_dim columns for the patch",
        "The patch comes first in [patch, place], so its columns are the first",
    ),
    Slip(
        {
            LINEAR: f"{LINEAR[:-1]}, bias=False)",
            WEIGHT: "pass",
            BIAS: "pass",
            PLACE: "(joined.weight[:, patch_dim:].T + joined.bias).detach()",
        },
        "leave the new layer its own random weight",
        "Copy the patch's columns into it: linear.weight.copy_(joined.weight[:, :patch_dim])",
    ),
)

EXERCISE = Exercise(
    answer=my_add_instead,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Write out one number of the output: a weighted sum of the patch_dim numbers of the"
            " patch and of the seq_length numbers of the place, of which one is 1 and the others"
            " are 0. What is left of the second sum?"
        ),
        (
            "weight is (hidden_dim, patch_dim + seq_length). Its first patch_dim columns meet the"
            " patch; of the others place i picks column i. Copy the first into a new nn.Linear,"
            " with the bias, and transpose the rest."
        ),
    ),
    same=(
        {
            BIAS: "linear.bias.zero_()",
            PLACE: "(joined.weight[:, patch_dim:].T + joined.bias).detach()",
        },
        {
            PLACE: (
                "joined(torch.cat([torch.zeros(seq_length, patch_dim), torch.eye(seq_length)],"
                " dim=1)).detach() - joined.bias.detach()"
            )
        },
    ),
)
