"""Exercise: a token for each patch again, in reading order."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, gradients, random


def my_put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    # visible: (n, keep, width), mask_token: (1, 1, width), order: (n, num_patches)
    # -> (n, num_patches, width)
    n, keep, width = visible.shape
    hidden = mask_token.expand(n, order.shape[1] - keep, -1)
    shuffled = torch.cat([visible, hidden], dim=1)
    place = order.argsort(dim=1)
    return shuffled.gather(1, place[:, :, None].expand(-1, -1, width))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for n, num_patches, width, keep in ((3, 8, 4, 3), (2, 5, 2, 5), (5, 5, 3, 1)):
        visible = random(n, keep, width, seed=133).requires_grad_()
        mask_token = random(1, 1, width, seed=134).requires_grad_()
        order = random(n, num_patches, seed=135).argsort(dim=1)
        made = answer(visible, mask_token, order)
        yield f"the tokens of {num_patches} patches, {keep} of them visible", made
        if made is None:
            return
        if keep < num_patches:
            yield from gradients(made, visible=visible, mask_token=mask_token)
    order = torch.tensor([[4, 1, 3, 5, 0, 2]])
    mask_token = random(1, 1, 4, seed=136)
    yield "the tokens of one picture alone, with zeros in them", answer(ODD, mask_token, order)


# zeros in a token, nothing but zeros, a sum of 0, and nothing but -1
ODD = torch.tensor([[[0.0, 1, 0, 2], [0, 0, 0, 0], [1, -1, 2, -2], [-1, -1, -1, -1]]])


def notice(answer: Any) -> Mistake | None:
    """What becomes of a token that looks empty; where two visible tokens and two mask tokens go."""
    return _noticed_places(answer) or _noticed_empty(answer)


def _noticed_empty(answer: Any) -> Mistake | None:
    """What becomes of visible tokens with zeros in them, where others come to their places."""
    mask_token, order = torch.full((1, 1, 4), 5.0), torch.tensor([[0, 1, 2, 3, 4]])
    made = answer(ODD, mask_token, order)
    if made.shape != (1, 5, 4):
        return None
    for own, right in zip(made[0].tolist(), ODD[0].tolist(), strict=False):
        if own != right:
            return Mistake(
                f"A visible token with the numbers {_listed(right)} becomes {_listed(own)} where"
                " every number of the mask token is 5.",
                "It should stay as it is: which places are hidden is said by order, and not by the"
                " numbers in the tokens. The encoder may give any number, 0 too.",
            )
    return None


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{one:.4g}" for one in numbers)


def _noticed_places(answer: Any) -> Mistake | None:
    """Where two visible tokens and two mask tokens go."""
    visible, mask_token = torch.tensor([[[10.0], [20.0]]]), torch.full((1, 1, 1), 5.0)
    for order, right in (([3, 0, 1, 2], [20, 5, 5, 10]), ([2, 0, 3, 1], [20, 5, 10, 5])):
        found = answer(visible, mask_token, torch.tensor([order])).flatten().tolist()
        if found != right:
            return Mistake(
                "Of the visible tokens 10, 20, the mask token 5 and the order"
                f" {', '.join(map(str, order))} you make {_listed(found)}.",
                f"It should be {_listed(right)}: the first visible token, 10, belongs to patch"
                f" {order[0]}, and the second to patch {order[1]}; patches"
                f" {min(order[2:])} and {max(order[2:])} are hidden.",
            )
    return _noticed_second(answer, mask_token)


def _noticed_second(answer: Any, mask_token: Tensor) -> Mistake | None:
    """Where the tokens of a picture go that stands behind another one."""
    visible = torch.tensor([[[50.0], [60.0]], [[10.0], [20.0]]])
    made = answer(visible, mask_token, torch.tensor([[1, 2, 0, 3], [3, 0, 1, 2]]))
    found = made[1].flatten().tolist()
    if found == [20, 5, 5, 10]:
        return None
    return Mistake(
        "Alone, a picture with the visible tokens 10, 20, the mask token 5 and the order 3, 0, 1, 2"
        " is right in yours. Behind another picture it becomes"
        f" {_listed(found)}.",
        "It should be 20, 5, 5, 10 there, too: each picture has its own row of order, and its own"
        " tokens.",
    )


CAT = "torch.cat([visible, hidden], dim=1)"
PLACE = "place = order.argsort(dim=1)"
END = "return shuffled.gather(1, place[:, :, None].expand(-1, -1, width))"

SLIPS = (
    Slip(
        {END: "return shuffled"},
        "leave the tokens as they come, the visible ones first",
        "Each must stand at its patch's place again: token i of visible is patch order[i]",
    ),
    Slip(
        {PLACE: "place = order"},
        (
            "take order where its inverse is needed (gather), or the inverse where order is"
            " needed (scatter)"
        ),
        (
            "Token i goes to patch order[i]: scatter and assignments take order, gather takes its"
            " inverse, order.argsort(dim=1)"
        ),
    ),
    Slip(
        {
            PLACE: "among = order[:, :keep].argsort(dim=1)[:, :, None].expand(-1, -1, width)",
            END: "return torch.cat([visible.gather(1, among), hidden], dim=1)",
        },
        "sort the visible tokens among themselves and put the mask tokens behind them",
        "A mask token stands at each hidden patch's place, which may be before a visible one",
    ),
    Slip(
        {END: "return shuffled.gather(1, place[:, :, None])"},
        "give gather an index whose last axis has length 1: one number of each token is left",
        "gather takes one number for each number of the index: expand it along the last axis,"
        " expand(-1, -1, width)",
    ),
    Slip(
        {END: "return shuffled[:, place]"},
        "index all pictures with the whole table of places",
        (
            "That takes the places of every picture from every picture, (n, n, num_patches,"
            " width). gather(1, …) takes a list for each picture"
        ),
    ),
    Slip(
        {CAT: "torch.cat([hidden, visible], dim=1)"},
        (
            "give the visible tokens the last places of order, as when the mask tokens stand"
            " before them"
        ),
        "The visible patches are the first keep of order",
    ),
    Slip(
        {PLACE: "place = order[:1].argsort(dim=1).expand(n, -1)"},
        "put every picture back in the order of the first",
        "Each row of order belongs to a picture of its own",
    ),
    Slip(
        {CAT: "torch.cat([visible, mask_token], dim=1)"},
        "put a single mask token behind the visible tokens of all pictures",
        "Each picture needs one for each of its hidden patches: mask_token.expand(n,"
        " order.shape[1] - keep, -1)",
    ),
    Slip(
        {"mask_token.expand(n, ": "torch.zeros_like(mask_token).expand(n, "},
        "fill with zeros",
        "A hidden patch gets mask_token, which is learned",
    ),
    Slip(
        {"mask_token.expand(n, ": "mask_token.detach().expand(n, "},
        "cut the mask token off from its gradient",
        "It has to learn: use mask_token itself, without .detach(), .data or torch.tensor(…)",
    ),
    Slip(
        {CAT: "torch.cat([visible + mask_token, hidden], dim=1)"},
        "add the mask token to the visible tokens, too",
        "A visible token stays as it is",
    ),
    Slip(
        {"mask_token.expand(n, ": "visible.mean(dim=1, keepdim=True).expand(-1, "},
        "fill with the mean of the visible tokens",
        "A hidden patch gets mask_token, the same one everywhere",
    ),
    Slip(
        {PLACE: "place = order.argsort(dim=1, descending=True)"},
        "sort order from the largest number to the smallest",
        "Patch 0 comes first: order.argsort(dim=1)",
    ),
    Slip(
        {
            PLACE: (
                "first = order[:, :keep].sort(dim=1).values\n"
                "    place = torch.cat([first, order[:, keep:]], dim=1).argsort(dim=1)"
            )
        },
        (
            "fill the visible places one after the other, in reading order, with the visible"
            " tokens as they come"
        ),
        "They stand as order says: token i of visible belongs to patch order[i]",
    ),
    Slip(
        {
            "order.shape[1] - keep": "49 - keep",
            END: (
                "found = mask_token.repeat(n, 49, 1)\n"
                "    at = order[:, :keep, None].expand(-1, -1, width)\n"
                "    return found.scatter(1, at, visible)"
            ),
        },
        "make 49 tokens, however many patches there are",
        "As many are needed as each row of order has: order.shape[1]",
    ),
    Slip(
        {
            END: (
                f"made = {END.removeprefix('return ')}\n"
                "    return torch.where(made == 0, mask_token, made)"
            )
        },
        "put the mask token's numbers wherever a number is 0, in visible tokens, too",
        "A visible token may have zeros: which places are hidden is said by order[:, keep:]",
    ),
    Slip(
        {END: f"{END}.squeeze(0)"},
        "take away the axis of the pictures where there is one picture",
        "squeeze() takes axes of length 1 away, also that of the pictures: leave all three axes",
    ),
    Slip(
        {"mask_token.expand(n, ": "torch.ones_like(mask_token).expand(n, "},
        "fill with ones",
        "A hidden patch gets mask_token, which is learned",
    ),
)

EXERCISE = Exercise(
    answer=my_put_back,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Put the mask tokens behind the visible ones: then the tokens stand as order says. To"
            " put them into reading order you need, for each patch, the place in order at which it"
            " stands."
        ),
        (
            "mask_token.expand(n, order.shape[1] - keep, -1) are the hidden ones; cat them behind"
            " visible. place = order.argsort(dim=1) is the inverse of order; gather along axis 1"
            " with place[:, :, None].expand(-1, -1, width)."
        ),
    ),
    same=(
        {
            PLACE: "place = order",
            END: (
                "return torch.zeros_like(shuffled).scatter("
                "1, place[:, :, None].expand(-1, -1, width), shuffled)"
            ),
        },
        {END: "return shuffled[torch.arange(n)[:, None], place]"},
    ),
)
