"""Exercise: attention rollout (Abnar and Zuidema 2020), the attention of all layers multiplied."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_rollout(weights: Tensor) -> Tensor:
    # (n, num_layers, num_heads, seq_length, seq_length) -> (n, seq_length, seq_length)
    identity = torch.eye(weights.shape[-1])
    total = identity.expand(len(weights), -1, -1)
    for layer in weights.mean(dim=2).unbind(dim=1):
        mixed = layer + identity  # the residual connection: each token also keeps itself
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        total = mixed @ total  # the later layer stands on the left
    return total


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "rollout of 3 layers", answer((2 * random(2, 3, 2, 5, 5, seed=95)).softmax(dim=-1))
    yield "rollout of 2 layers", answer((2 * random(1, 2, 4, 5, 5, seed=96)).softmax(dim=-1))
    yield "rollout of a single layer", answer((2 * random(2, 1, 2, 5, 5, seed=97)).softmax(dim=-1))
    yield (
        "rollout of 4 layers with one head, 3 tokens",
        answer((2 * random(1, 4, 1, 3, 3, seed=98)).softmax(dim=-1)),
    )


def notice(answer: Any) -> Mistake | None:
    """With how many layers and heads the result is right, and what it is for one layer."""
    found = answer((2 * random(2, 3, 1, 5, 5, seed=99)).softmax(dim=-1))
    if found.shape == (2, 4, 4):
        return Mistake(
            "Of 2 pictures with 5 tokens you make the shape (2, 4, 4), and so leave out a token.",
            "Rollout is of all tokens, the class token too: (2, 5, 5).",
        )
    if found.shape != (2, 5, 5):
        return Mistake(
            "Of 2 pictures, with 3 layers of one head and 5 tokens, you make the shape"
            f" {tuple(found.shape)}.",
            "It should be (2, 5, 5), one matrix for each picture: axis 1 of the weights are the"
            " layers, axis 2 the heads.",
        )
    right = {}
    for layers, heads in ((1, 1), (1, 2), (2, 1), (2, 2)):
        weights = (2 * random(2, layers, heads, 5, 5, seed=99)).softmax(dim=-1)
        found = answer(weights.clone())
        right[layers, heads] = torch.allclose(found, my_rollout(weights), atol=1e-5)
    if not right[1, 1]:
        two = torch.tensor([[0.5, 0.5], [0.75, 0.25]])
        found = answer(two.expand(1, 1, 1, 2, 2).clone())[0]
        if torch.allclose(found, torch.tensor([[0.75, 0.25], [0.375, 0.625]]), atol=1e-5):
            return Mistake(
                "With one picture, one layer and one head yours is right; with two pictures and 5"
                " tokens it is wrong.",
                "Each picture by itself, with any number of tokens: only the two last axes are"
                " rows and columns of a matrix.",
            )
        rows = " and ".join(", ".join(f"{value:.4g}" for value in row) for row in found.tolist())
        return Mistake(
            "With a single layer that has a single head yours is wrong. Where token 0 looks at"
            " tokens 0 and 1 with 0.5 and 0.5, and token 1 with 0.75 and 0.25, your rows are"
            f" {rows}.",
            "They should be 0.75, 0.25 and 0.375, 0.625: half of the token itself, and half of"
            " where it looks.",
        )
    if not right[1, 2]:
        return Mistake(
            "With a single layer yours is right if the layer has one head, and wrong if it has"
            " two.",
            "All heads count the same: take their mean.",
        )
    if not right[2, 1]:
        return Mistake(
            "With a single layer yours is right. With two layers of one head each it is wrong.",
            "First each layer by itself must become half itself and half the identity. Then"
            " multiply them, layer 1 @ layer 0: what layer 1 mixes was mixed by layer 0.",
        )
    if not right[2, 2]:
        return Mistake(
            "With two layers yours is right if each has one head, and wrong if each has two.",
            "Take the mean of the heads in each layer, before the layers are multiplied.",
        )
    return None


START, HEADS, LAYERS = (
    "identity.expand(len(weights), -1, -1)",
    "mean(dim=2)",
    "weights.mean(dim=2).unbind(dim=1)",
)
ADD, NORM = "mixed = layer + identity", "mixed = mixed / mixed.sum(dim=-1, keepdim=True)"
MULTIPLY, END = "mixed @ total", "return total"

SLIPS = (
    Slip(
        {ADD: "mixed = layer"},
        "leave out the identity",
        "The residual connection hands every token on as it is. Before the product each layer is"
        " half its weights and half the identity, 0.5 * torch.eye, so that its rows sum to 1",
    ),
    Slip(
        {NORM: ""},
        "add the identity and do not make the rows sum to 1 again",
        "They sum to 2 then, and to 4 after two layers. Divide each row by its sum",
    ),
    Slip(
        {NORM: "mixed = mixed / mixed.sum(dim=-2, keepdim=True)"},
        "make the columns sum to 1 in place of the rows",
        "A row is what one token is made of, so sum over dim=-1",
    ),
    Slip(
        {MULTIPLY: "total @ mixed"},
        "multiply the layers in the wrong order",
        "The first layer works first, so it stands on the right, and each later one is multiplied"
        " from the left",
    ),
    Slip(
        {LAYERS: "[weights.mean(dim=(1, 2))]"},
        "take the mean over the layers",
        "What layer 1 looks at was already mixed by layer 0, so multiply them",
    ),
    Slip(
        {MULTIPLY: "mixed"},
        "give the last layer alone",
        "Multiply it with what the layers before it gave",
    ),
    Slip(
        {START: "torch.ones(1)", MULTIPLY: "mixed * total"},
        "multiply the layers number by number",
        "A chain of mixtures is a matrix product, @",
    ),
    Slip(
        {MULTIPLY: "mixed * total"},
        "multiply number by number, beginning with the identity, so that only the diagonal is left",
        "A chain of mixtures is a matrix product, @",
    ),
    Slip(
        {HEADS: "sum(dim=2)"},
        "sum over the heads in place of their mean",
        "The identity then weighs less than the residual connection does. Use mean",
    ),
    Slip(
        {LAYERS: "weights.unbind(dim=1)", START: "identity", END: "return total.mean(dim=1)"},
        "roll out each head by itself and take the mean at the end",
        "A token mixes the heads in every layer, so take the mean before the layers are multiplied",
    ),
    Slip(
        {HEADS: "amax(dim=2)"},
        "take the largest head at each place",
        "Rollout as in the paper takes the mean over the heads",
    ),
    Slip(
        {END: "return total.transpose(-2, -1)"},
        "give the result transposed",
        "Rows are output tokens, columns are input tokens",
    ),
    Slip(
        {LAYERS: f"{LAYERS}[1:]"},
        "leave out the first layer",
        "Begin with the identity, and multiply every layer to it, layer 0 too",
    ),
    Slip(
        {LAYERS: "weights.mean(dim=1).unbind(dim=1)"},
        "take the mean over axis 1, the layers, and multiply the heads",
        "The heads are axis 2: mean(dim=2), and then the layers are multiplied",
    ),
    Slip(
        {ADD: "mixed = layer + 1"},
        "add 1 everywhere, as torch.ones does, in place of the identity",
        "A token keeps itself alone: torch.eye, 1 on the diagonal",
    ),
    Slip(
        {LAYERS: f"{LAYERS}[:2]"},
        "multiply the first two layers, however many there are",
        "Begin with the identity, and multiply every layer to it",
    ),
    Slip(
        {LAYERS: f"{LAYERS}[-2:]"},
        "multiply the last two layers, however many there are",
        "Begin with the identity, and multiply every layer to it",
    ),
    Slip(
        {LAYERS: f"{LAYERS}[:-1]"},
        "leave out the last layer",
        "Begin with the identity, and multiply every layer to it, the last one too",
    ),
    Slip(
        {ADD: "mixed = layer", NORM: "", END: "return 0.5 * total + 0.5 * identity"},
        "add the residual connection once, at the end",
        "Every layer has its own: half the layer and half the identity, before the product",
    ),
    Slip(
        {HEADS: "sum(dim=2)", NORM: "mixed = mixed / 2"},
        "sum over the heads in place of their mean, and halve",
        (
            "All heads count the same, and together they count as much as the identity: take"
            " their mean"
        ),
    ),
    Slip(
        {HEADS: "amax(dim=2)", NORM: "mixed = mixed / 2"},
        "take the largest head at each place, and halve",
        "All heads count the same: take their mean",
    ),
    Slip(
        {
            LAYERS: "weights.mean(dim=2).transpose(-2, -1).unbind(dim=1)",
            NORM: "mixed = mixed / 2",
        },
        "exchange queries and keys, or multiply in the wrong order and transpose the result",
        (
            "Row i of the weights says what token i gathers: nothing is transposed, and each"
            " later layer stands on the left, layer @ total"
        ),
    ),
    Slip(
        {END: "return total[:, 0]"},
        "return the class token's row alone",
        "All rows are asked for, one for each output token",
    ),
)

EXERCISE = Exercise(
    answer=my_rollout,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "One layer first: average its heads. What does the residual connection add to that"
            " matrix, so that a token also keeps itself? And what must each row then sum to?"
        ),
        (
            "For each layer, weights.mean(dim=2).unbind(dim=1): plus the identity (torch.eye), each"
            " row divided by its sum. Begin with the identity as total and multiply each layer to"
            " it with @ from the left, first layer first."
        ),
    ),
    same=(
        {ADD: "mixed = 0.5 * layer + 0.5 * identity", NORM: ""},
        {NORM: "", END: "return total / total.sum(dim=-1, keepdim=True)"},
        {LAYERS: "reversed(weights.mean(dim=2).unbind(dim=1))", MULTIPLY: "total @ mixed"},
    ),
)
