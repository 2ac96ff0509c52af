"""Exercise: keep a few patches of each picture, chosen by random numbers."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, describe, gradients, random


def my_mask(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    # tokens: (n, num_patches, hidden_dim), noise: (n, num_patches)
    # -> visible: (n, keep, hidden_dim), order: (n, num_patches)
    order = noise.argsort(dim=1)
    first = order[:, :keep, None].expand(-1, -1, tokens.shape[2])
    return tokens.gather(1, first), order


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for n, num_patches, hidden_dim, keep in (
        (3, 8, 4, 2),
        (2, 9, 5, 9),
        (5, 5, 1, 3),
        (1, 6, 3, 4),
    ):
        # as those of a model, whose flatten(2).transpose(1, 2) moves no number in memory
        tokens = random(n, hidden_dim, num_patches, seed=131).transpose(1, 2).requires_grad_()
        noise = random(n, num_patches, seed=132)
        made = answer(tokens, noise, keep)
        if made is None:
            yield "visible", None
            return
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise Mistake(f"visible and order are needed, and this is {describe(made)}.")
        visible, order = made
        yield f"order of {num_patches} patches", order
        yield f"visible, {keep} of {num_patches} patches", visible
        if num_patches == 8:
            yield from gradients(visible, tokens=tokens)


def notice(answer: Any) -> Mistake | None:
    """On what the order depends; then what comes of four patches."""
    return _noticed_other_order(answer) or _noticed_patches(answer)


def _noticed_other_order(answer: Any) -> Mistake | None:
    """Whether the order of the same noise is another one for other tokens."""
    tokens, noise = random(2, 6, 3, seed=11), random(2, 6, seed=12)
    first = answer(tokens, noise, 3)[1]
    if first.shape != noise.shape:
        return None
    if not torch.equal(first, answer(random(2, 6, 3, seed=13), noise, 3)[1]):
        return Mistake(
            "With the same noise and other tokens you return another order.",
            "order follows from noise alone: which patch has the smallest number, which the next?",
        )
    return None


def _noticed_patches(answer: Any) -> Mistake | None:
    """Which order and which tokens come of four patches, alone and behind another picture."""
    tokens = torch.tensor([[[50.0], [51.0], [52.0], [53.0]], [[10.0], [11.0], [12.0], [13.0]]])
    noise = torch.tensor([[0.4, 0.3, 0.1, 0.2], [0.3, 0.1, 0.4, 0.2]])
    visible, order = answer(tokens[1:], noise[1:], 2)
    told = _wrong(visible, order)
    if told:
        return Mistake(
            "Of one picture with the tokens 10, 11, 12, 13, the noise 0.3, 0.1, 0.4, 0.2 and keep=2"
            f" you make {told}.",
            "Patch 1 has the smallest number, then come 3, 0 and 2: the order should be 1, 3, 0, 2,"
            " and the visible tokens 11 and 13.",
        )
    visible, order = answer(tokens, noise, 2)
    if visible.shape == (4, 1) and _listed(order[1]) == "1, 3, 0, 2":
        return Mistake(
            "The order is right. But of two pictures with two visible tokens each you return the"
            f" tokens {_listed(visible)} in one list, (4, 1): the axis of the pictures is lost.",
            "visible is (n, keep, hidden_dim). tokens.gather(1, …) keeps that axis, and takes each"
            " picture's tokens as its row of order says; a boolean index does neither.",
        )
    told = _wrong(visible[1], order[1])
    if told:
        return Mistake(
            "Alone, a picture with the noise 0.3, 0.1, 0.4, 0.2 gets the right order, 1, 3, 0, 2,"
            f" and the right tokens, 11 and 13. Behind another picture it gets {told}.",
            "Each picture has an order of its own, that of its row of noise, and its own tokens.",
        )
    return None


def _wrong(visible: Tensor, order: Tensor) -> str:
    """What is made of the picture, if it is wrong; of two parts, one that is right is called so."""
    tokens, places = _listed(visible), _listed(order)
    right = tokens == "11, 13", places == "1, 3, 0, 2"
    if all(right):
        return ""
    first = "the right visible tokens" if right[0] else f"the visible tokens {tokens}"
    second = "the right order" if right[1] else f"the order {places}"
    return f"{first} and {second}"


def _listed(numbers: Tensor) -> str:
    return ", ".join(f"{value:g}" for value in numbers.flatten().tolist())


ORDER = "order = noise.argsort(dim=1)"
FIRST = "order[:, :keep, None]"
END = "return tokens.gather(1, first), order"

SLIPS = (
    Slip(
        {ORDER: "order = noise.argsort(dim=1, descending=True)"},
        "sort from the largest number to the smallest",
        "The patches with the smallest numbers stay, and come first in order",
    ),
    Slip(
        {ORDER: "order = noise[:1].argsort(dim=1).expand(len(noise), -1)"},
        "keep the same patches in every picture",
        "Each row of noise belongs to a picture of its own",
    ),
    Slip(
        {ORDER: "order = noise.argsort(dim=1).argsort(dim=1)"},
        "take the rank of each patch for order, and choose the tokens by it",
        "order lists the numbers of the patches: that of the smallest noise first. One argsort"
        " gives it",
    ),
    Slip(
        {END: "return order, tokens.gather(1, first)"},
        "return order first, and the visible tokens second",
        "The visible tokens come first: return visible, order",
    ),
    Slip(
        {END: "return tokens.gather(1, first), order.argsort(dim=1)"},
        "return the rank of each patch (ids_restore) in the place of order",
        "Return the order by which tokens are taken, the one argsort of the noise",
    ),
    Slip(
        {ORDER: "order = noise.argsort(dim=0) % noise.shape[1]"},
        "sort over the pictures",
        "Axis 0 is that of the pictures; patches are sorted within a picture, dim=1",
    ),
    Slip(
        {END: "return tokens.detach().gather(1, first), order"},
        "cut the visible tokens off from the tokens that came in, by no_grad(), detach() or .data",
        "What makes the tokens learns through those that stay: take them from tokens itself",
    ),
    Slip(
        {FIRST: "order[:, :keep].sort(dim=1).values[:, :, None]"},
        "put the visible tokens into reading order",
        (
            "They must stand as order says: token i of visible is patch order[i]; put_back relies"
            " on that"
        ),
    ),
    Slip(
        {
            ORDER: (
                f"{ORDER}\n"
                "    both = [order[:, :keep].sort(dim=1).values, order[:, keep:]]\n"
                "    order = torch.cat(both, dim=1)"
            )
        },
        "put the visible patches into reading order, in order, too",
        "order is sorted by the noise alone: the patch with the smallest number comes first",
    ),
    Slip(
        {FIRST: "order[:, -keep:, None]"},
        "take the last of order",
        "The first keep patches of order are visible, the rest is hidden",
    ),
    Slip(
        {END: "return tokens[:, :keep], order"},
        "keep the first patches in reading order, whatever noise says",
        "Which patches stay is said by order[:, :keep]",
    ),
    Slip(
        {END: "return tokens[:, order[:, :keep]], order"},
        "index with the whole table, tokens[:, order[:, :keep]]",
        "That takes the places of every picture from every picture, (n, n, keep, hidden_dim)."
        " tokens.gather(1, …) takes a list for each picture",
    ),
    Slip(
        {END: "return tokens[order[:, :keep]], order"},
        "index axis 0, which counts the pictures, with the numbers of patches",
        "The patches are axis 1, and other ones in each picture: tokens.gather(1, …), or"
        " tokens[torch.arange(n)[:, None], order[:, :keep]]",
    ),
    Slip(
        {".expand(-1, -1, tokens.shape[2])": ""},
        "give gather an index whose last axis has length 1: one number of each token is left",
        "gather takes one number for each number of the index: expand it along the last axis,"
        " expand(-1, -1, hidden_dim)",
    ),
    Slip(
        {END: "return tokens[:, order[0, :keep]], order"},
        "take from every picture the patches of the first",
        "Indexing with one list takes the same places everywhere; tokens.gather(1, …) takes a list"
        " for each picture",
    ),
    Slip(
        {
            ORDER: f"{ORDER}\n    late = noise.argsort(dim=1).argsort(dim=1) >= keep",
            END: "return tokens.masked_fill(late[:, :, None], 0.0), order",
        },
        "set hidden tokens to zero",
        (
            "They are still tokens that the encoder computes with. Leave them out: visible is (n,"
            " keep, hidden_dim), in the order of order"
        ),
    ),
    Slip(
        {FIRST: "noise.topk(keep, dim=1).indices[:, :, None]"},
        "keep the patches with the largest numbers",
        "Those with the smallest stay: the first of order",
    ),
    Slip(
        {FIRST: "order[:, keep:, None]"},
        "return the hidden patches",
        "The first keep patches of order are visible, the rest is hidden",
    ),
    Slip(
        {FIRST: "order[:, :, None]"},
        "sort all patches and leave none out",
        "Only the first keep of order stay",
    ),
    Slip(
        {FIRST: "order.argsort(dim=1)[:, :keep, None]"},
        "take tokens by the rank of the first patches",
        "order itself lists the patches: the first keep of it are the places to take",
    ),
    Slip(
        {END: "return tokens.gather(1, first).squeeze(0), order"},
        "take away the axis of the pictures where there is one picture",
        "squeeze() takes axes of length 1 away, also that of the pictures: leave all three axes",
    ),
    Slip(
        {END: "return tokens.gather(1, first), order[:, :keep]"},
        "return the order of the visible patches only",
        "order has all patches: the hidden ones follow behind the visible",
    ),
    Slip(
        {
            ORDER: (
                f"{ORDER}\n"
                "    both = [order[:, :keep], order[:, keep:]]\n"
                "    order = torch.cat([part.sort(dim=1).values for part in both], dim=1)"
            )
        },
        "put the visible and the hidden patches into reading order, each by themselves",
        "order is sorted by the noise alone",
    ),
)

EXERCISE = Exercise(
    answer=my_mask,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "A random order of the patches, another one for each picture, comes from sorting random"
            " numbers: which method tells where the smallest number of a row stands, where the next"
            " one, and so on? And which takes other places of each row?"
        ),
        (
            "order = noise.argsort(dim=1). The first keep of each row are visible: index ="
            " order[:, :keep, None].expand(-1, -1, hidden_dim), then tokens.gather(1, index)."
        ),
    ),
    same=(
        {END: "return torch.stack([one[o[:keep]] for one, o in zip(tokens, order)]), order"},
        {END: "return torch.take_along_dim(tokens, order[:, :keep, None], 1), order"},
    ),
)
