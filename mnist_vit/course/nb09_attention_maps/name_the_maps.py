"""Exercise: five functions that all promise the class token's maps, and what each of them really
gives."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.attention import attention_weights, to_maps
from mnist_vit.tokens import patch_grid

from ..checking import Exercise, Mistake, Slip, sentence_numbers


def my_name_the_maps():
    return {"a": 5, "b": 2, "c": 1, "d": 8, "e": 4}


def _looked_at(model: nn.Module, images: Tensor) -> Tensor:
    weights = attention_weights(model, images)[:, 0]
    return to_maps(weights.transpose(-2, -1)[:, :, 0], patch_grid(model, images))


def _nowhere(model: nn.Module, images: Tensor) -> Tensor:
    model = copy.deepcopy(model)
    nn.init.zeros_(model.encoder.pos_embedding)
    return to_maps(attention_weights(model, images, query=0)[:, 0], patch_grid(model, images))


def _right(model: nn.Module, images: Tensor) -> Tensor:
    return to_maps(attention_weights(model, images, query=0)[:, 0], patch_grid(model, images))


def _over_queries(model: nn.Module, images: Tensor) -> Tensor:
    q, k, _ = _first_layer(model, images)[0]
    return to_maps(
        (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-2)[:, :, 0],
        patch_grid(model, images),
    )


def _slices(model: nn.Module, images: Tensor) -> Tensor:
    heads, output = _first_layer(model, images)[1:]
    return to_maps(
        output.unflatten(-1, (heads, -1)).mean(dim=-1).transpose(1, 2), patch_grid(model, images)
    )


@torch.no_grad()
def _first_layer(model: nn.Module, images: Tensor) -> tuple[list[Tensor], int, Tensor]:
    """Queries, keys and values of the heads of layer 0, (n, num_heads, seq_length, head_dim); the
    layer's output."""
    layer, kept = model.encoder.layers[0].self_attention, []
    handle = layer.register_forward_hook(
        lambda module, args, kwargs, output: kept.extend(
            [args[0] if args else kwargs["query"], output[0]]
        ),
        with_kwargs=True,
    )
    try:
        model(images)
    finally:
        handle.remove()
    parts = F.linear(kept[0], layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    return (
        [x.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2) for x in parts],
        layer.num_heads,
        kept[1],
    )


MAPS = {"a": _looked_at, "b": _nowhere, "c": _right, "d": _over_queries, "e": _slices}


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    found = answer() if callable(answer) else answer
    if not isinstance(found, dict):
        raise Mistake('a dictionary is needed: a number for each of "a", "b", "c", "d" and "e".')
    for key, value in found.items():
        if isinstance(value, str) and value in MAPS:
            raise Mistake(
                "the letters are values of your dictionary.",
                "Turn it round: the letter is the key, and the number of its sentence the value."
                f' Your {key!r}: "{value}" becomes "{value}": {key!r}.',
            )
    for letter in MAPS:
        if letter not in found:
            raise Mistake(f'"{letter}" is missing: return a number for each of the five functions.')
    numbers = sentence_numbers({letter: found[letter] for letter in MAPS}, CONSEQUENCES)
    for letter in MAPS:
        # as a text: one number is no nearer to the right one than another
        yield f"the sentence about function {letter}", f"number {numbers[letter]}"


# what would be true of a function if a sentence were true of it
CONSEQUENCES = {
    1: "its numbers would be those of row 0 of your own recording of layer 0",
    2: "two blank patches in different places would have the very same weight",
    3: "the maps of both heads would be the same",
    4: "some numbers would be below zero",
    5: "its numbers would be a column of your own recording of layer 0",
    6: "its numbers would be row 0 of the other layer in your own recording",
    7: "its numbers would be row 0 of your recording, with rows and columns exchanged",
    8: "its numbers would be those of a softmax over the queries of scores that you compute again",
}


def notice(answer: Any) -> Mistake | None:
    """How many are right, and what the first wrong sentence would mean."""
    found, right = (answer() if callable(answer) else answer), my_name_the_maps()
    wrong = [letter for letter in MAPS if found[letter] != right[letter]]
    letter = wrong[0]
    count = len(MAPS) - len(wrong)
    said = f"{count} of your 5 sentences {'is' if count == 1 else 'are'} right."
    if len({found[one] for one in MAPS}) == 1:
        said += " You give the same sentence to all five: a test that every function passes is"
        said += " too lenient."
    return Mistake(
        f'{said} If sentence {found[letter]} were true of function "{letter}",'
        f" {CONSEQUENCES[found[letter]]}.",
        "Test that, in a cell of your own.",
    )


A, B, C, D, E = '"a": 5', '"b": 2', '"c": 1', '"d": 8', '"e": 4'

SLIPS = (
    Slip(
        {A: '"a": 1'},
        "say that function a is right",
        "Compare it with your own recording, number by number. What do its maps sum to?",
    ),
    Slip(
        {B: '"b": 1'},
        "say that function b is right",
        "Compare two blank patches of one of its maps. Can a model that knows where they lie give"
        " them the very same weight?",
    ),
    Slip(
        {A: '"a": 8'},
        "say that function a takes the softmax over the queries",
        "Then the weights of one key, over all queries, would sum to 1. Take a column of your own"
        " recording and compare",
    ),
    Slip(
        {D: '"d": 5'},
        "say that function d takes a column",
        "Take that column of your own recording and compare the numbers",
    ),
    Slip(
        {D: '"d": 6'},
        "say that function d takes the other layer",
        "Take the class token's row of that layer from your own recording and compare the numbers",
    ),
    Slip(
        {D: '"d": 3'},
        "say that function d averages the heads",
        "Then the maps of both heads would be the same",
    ),
    Slip(
        {E: '"e": 3'},
        "say that function e averages the heads",
        "Then the maps of both heads would be the same. Can a weight be negative?",
    ),
    Slip(
        {E: '"e": 8'},
        "say that function e takes the softmax over the queries",
        "A softmax gives no negative numbers",
    ),
)

EXERCISE = Exercise(
    answer=my_name_the_maps,
    compare=compare,
    stars=3,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "You have your own recording of layer 0, and it is right. Which of the five gives the"
            " same numbers as its row 0? For the others: what must be true of weights in one row?"
            " What can be read off the recording besides?"
        ),
        (
            "Weights are never negative. A row sums to 1 with its number 0. Heads that are averaged"
            " are all the same. The column, kept[0][:, :, 1:, 0], and the other layer are in the"
            " recording. Two blank patches get different weights if the model knows where they are."
            " For the softmax over the queries compute the scores again, as weights_of does."
        ),
    ),
)
