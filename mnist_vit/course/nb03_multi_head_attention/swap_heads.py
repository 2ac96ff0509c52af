"""Exercise: put the heads of a layer in another order, so that nobody outside notices."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mnist_vit.model import MultiHeadAttention

from ..checking import Exercise, Mistake, Slip, random, randomise


def my_swap_heads(layer: nn.Module, order: list[int]) -> None:
    """Change the layer in place: its new head i is its old head order[i].

    The layer output stays what it was.
    """
    # Which of a third's rows comes where: head_dim rows that stand side by side move together.
    rows = torch.arange(layer.embed_dim).reshape(layer.num_heads, -1)[order].flatten()
    thirds = torch.cat([rows + third * layer.embed_dim for third in range(3)])
    with torch.no_grad():
        layer.in_proj_weight.copy_(layer.in_proj_weight[thirds])
        layer.in_proj_bias.copy_(layer.in_proj_bias[thirds])
        # What comes out of the heads is in another order now: so are the columns that take it.
        layer.out_proj.weight.copy_(layer.out_proj.weight[:, rows])


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # An order of four whose way back is another one; a swap of two would not tell them apart.
    for order, width, what in (([2, 0, 3, 1], 12, ""), ([1, 2, 0], 6, " of three heads")):
        layer = randomise(MultiHeadAttention(width, len(order)), seed=3)
        given = list(order)
        returned = answer(layer, given)
        if given != order:
            raise Mistake(
                f"your code changes order, the list that it was given: {order} has become {given}.",
                "Whoever called it may still need it, and sorted or emptied it says no more where a"
                " head goes: list(order) makes a copy.",
            )
        if isinstance(returned, nn.Module) and returned is not layer:
            raise Mistake(
                "a new layer came back, and the one that was given is to be changed.",
                "Change the given one in place; nothing has to be returned.",
            )
        frozen = [name for name, one in layer.named_parameters() if not one.requires_grad]
        if frozen:
            raise Mistake(
                f"{frozen[0]} would not learn any more: requires_grad is False now.",
                "Leave requires_grad as it was; torch.no_grad() is enough for writing into it.",
            )
        x = random(2, 5, width, seed=4)
        output, weights = layer(x, x, x, average_attn_weights=False)
        yield f"weights{what}", weights.detach()
        yield f"layer output{what}", output.detach()
        yield f"in_proj_bias{what}", layer.in_proj_bias.detach().clone()


def notice(answer: Any) -> Mistake | None:
    """Which old row, or column of the projection, stands in a place where another one belongs."""
    layer = randomise(MultiHeadAttention(12, 4), seed=5)
    order = [1, 3, 0, 2]
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    answer(layer, list(order))
    after = layer.state_dict()
    rows = torch.arange(12).reshape(4, -1)[order].flatten()
    thirds = torch.cat([rows, rows + 12, rows + 24]).tolist()
    for name, what, places in (
        ("in_proj_weight", "Row", thirds),
        ("in_proj_bias", "Number", thirds),
        ("out_proj.weight", "Column", rows.tolist()),
        ("out_proj.bias", "Number", list(range(12))),
    ):
        turned = what == "Column"
        old, new = (one[name].T if turned else one[name] for one in (before, after))
        for place, right in enumerate(places):
            if torch.equal(new[place], old[right]):
                continue
            same = (new[place] == old).reshape(len(old), -1).all(dim=1).nonzero().flatten()
            is_ = f"the old number {int(same[0])}" if len(same) else "none of the old ones"
            belongs = "belongs" if right != place else "still belongs"
            return Mistake(
                "In a layer of 4 heads of 3 numbers, given the order [1, 3, 0, 2]:"
                f" {what.lower()} {place} of {name} is {is_} afterwards, and number {right}"
                f" {belongs} there.",
                "Of head h these numbers belong to it: the rows 3 h to 3 h + 2 of W_Q, of W_K and"
                " of W_V, with their biases, and the same columns of out_proj.weight.",
            )
    return None


ROWS = "torch.arange(layer.embed_dim).reshape(layer.num_heads, -1)[order].flatten()"
THIRDS = "[rows + third * layer.embed_dim for third in range(3)]"
WEIGHT = "layer.in_proj_weight.copy_(layer.in_proj_weight[thirds])"
BIAS = "layer.in_proj_bias.copy_(layer.in_proj_bias[thirds])"
OUT = "layer.out_proj.weight.copy_(layer.out_proj.weight[:, rows])"

SLIPS = (
    Slip(
        {WEIGHT: "pass", BIAS: "pass", OUT: "pass"},
        "leave all numbers of the layer as they are",
        "A line such as w = … gives a name to another tensor: write into the layer's own, with"
        " copy_ under torch.no_grad()",
    ),
    Slip(
        {OUT: "pass"},
        "leave out_proj as it is",
        (
            "Its columns still stand in the old order of the heads: move them as the rows of"
            " in_proj_weight"
        ),
    ),
    Slip(
        {OUT: "layer.out_proj.weight.copy_(layer.out_proj.weight[rows])"},
        "move rows of out_proj.weight in place of columns",
        "Its rows make the numbers of the layer output, which belong to no head",
    ),
    Slip(
        {
            OUT: (
                "layer.out_proj.weight.copy_(layer.out_proj.weight[rows])\n"
                "        layer.out_proj.bias.copy_(layer.out_proj.bias[rows])"
            )
        },
        "move rows and bias of out_proj in place of columns",
        "They make the numbers of the layer output, which belong to no head",
    ),
    Slip(
        {OUT: f"{OUT}\n        layer.out_proj.bias.copy_(layer.out_proj.bias[rows])"},
        "move the bias of out_proj, too",
        "It is added after the heads are mixed, and belongs to none",
    ),
    Slip(
        {OUT: "layer.out_proj.weight.copy_(layer.out_proj.weight[:, rows.argsort()])"},
        "move the columns of out_proj.weight the other way round",
        "The columns of new head i are those of old head order[i], just as its rows are",
    ),
    Slip(
        {ROWS: f"{ROWS}.argsort()"},
        "move the heads the other way round",
        "New head i must be old head order[i], and yours puts old head i in the place order[i]",
    ),
    Slip(
        {BIAS: "pass"},
        "forget in_proj_bias",
        "Each of its numbers belongs to a row of in_proj_weight",
    ),
    Slip(
        {
            BIAS: (
                "for part in (0, 2):\n"
                "            layer.in_proj_bias.chunk(3)[part].copy_("
                "layer.in_proj_bias.chunk(3)[part][rows])"
            )
        },
        "leave the bias of W_K in its old order",
        "The weights do not show it, since this bias adds the same to all scores of a query; but"
        " each of its numbers belongs to a row of W_K, and must move with that row",
    ),
    Slip(
        {
            THIRDS: (
                "[rows, rows + layer.embed_dim, torch.arange(2 * layer.embed_dim, 3 *"
                " layer.embed_dim)]"
            )
        },
        (
            "move the rows of W_Q and W_K and the columns of out_proj, and leave the rows of W_V"
            " where they are"
        ),
        "A head has rows in W_V, too, and their numbers in in_proj_bias",
    ),
    *(
        Slip(
            {THIRDS: "[rows, torch.arange(layer.embed_dim, 3 * layer.embed_dim)]", **edit},
            f"move of {what} the part of W_Q alone, and the columns of out_proj{words}",
            "A head has rows in W_K and W_V, too, each with its number in in_proj_bias",
        )
        for edit, what, words in (
            ({}, "in_proj_weight and in_proj_bias", ""),
            ({BIAS: "pass"}, "in_proj_weight", ", but no bias"),
        )
    ),
    Slip(
        {
            WEIGHT: (
                "for i, old in enumerate(thirds):\n            layer.in_proj_weight[i] ="
                " layer.in_proj_weight[old]"
            ),
            BIAS: (
                "for i, old in enumerate(thirds):\n            layer.in_proj_bias[i] ="
                " layer.in_proj_bias[old]"
            ),
            OUT: (
                "for i, old in enumerate(rows):\n            layer.out_proj.weight[:, i] ="
                " layer.out_proj.weight[:, old]"
            ),
        },
        "write over heads that are still to be read",
        "Take a copy of everything first, with clone()",
    ),
    Slip(
        {ROWS: "torch.arange(layer.embed_dim).reshape(-1, layer.num_heads)[:, order].flatten()"},
        "take every num_heads-th row for a head",
        "The head_dim rows of a head stand side by side",
    ),
    Slip(
        {WEIGHT: "pass", BIAS: "pass"},
        "move the columns of out_proj alone",
        "The heads themselves have not moved",
    ),
    Slip(
        {
            THIRDS: "[torch.tensor(order), torch.arange(layer.num_heads, 3 * layer.embed_dim)]",
            BIAS: "pass",
            OUT: "pass",
        },
        "move only the first num_heads rows of in_proj_weight",
        (
            "A head owns head_dim rows in each third of in_proj_weight, their numbers in"
            " in_proj_bias, and head_dim columns of out_proj.weight"
        ),
    ),
    Slip(
        {
            THIRDS: (
                "[torch.arange(3 * layer.embed_dim).reshape(layer.num_heads, -1)[order].flatten()]"
            )
        },
        "cut in_proj_weight into num_heads blocks",
        "It holds W_Q of all heads, then W_K, then W_V, and a head owns rows in each of the three",
    ),
)

EXERCISE = Exercise(
    answer=my_swap_heads,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Where in the layer are numbers that belong to one head alone? Go along the coloured"
            " lanes of the figure above: there are two matrices and one bias."
        ),
        (
            "Make a list of row numbers: those of head order[0], then of head order[1] and so on."
            " Indexing a matrix with such a list makes a copy in the new order. In in_proj_weight"
            " and in_proj_bias do it within each third; out_proj.weight takes the heads with its"
            " columns. Write with .copy_ under torch.no_grad()."
        ),
    ),
    same=(
        {
            ROWS: (
                "torch.cat([torch.arange(layer.embed_dim).chunk(layer.num_heads)[head] for head in"
                " order])"
            ),
            OUT: "layer.out_proj.weight.data = layer.out_proj.weight.data[:, rows]",
        },
    ),
    tolerance=1e-5,
)
