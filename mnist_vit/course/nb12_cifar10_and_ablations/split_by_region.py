"""Exercise: crops of a photograph are split by region, so that no held-out crop overlaps one that
is trained on."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, describe


def my_split_by_region(left, size, cut):
    # (n,), whole numbers -> training, held out: booleans, (n,) each
    return left + size <= cut, left >= cut


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for size, cut in ((4, 10), (3, 7)):
        left = torch.tensor([9, 0, 6, 7, 5, 10, 14, 4, 8, 11, 3])
        made = answer(left.clone(), size, cut)
        if made is None:
            yield "the two", None
            return
        is_stacked = isinstance(made, Tensor) and made.shape == (2, len(left))
        if not is_stacked and (not isinstance(made, tuple | list) or len(made) != 2):
            raise Mistake(f"two lists of booleans are needed, and this is {describe(made)}.")
        right = my_split_by_region(left, size, cut)
        crops = [f"columns {first} to {first + size - 1}" for first in left.tolist()]
        for what, found, ours in zip(("training", "held out"), made, right, strict=True):
            flags = torch.as_tensor(found)
            if flags.shape != left.shape or flags.dtype != torch.bool:
                if flags.shape == left.shape and not isinstance(found, Tensor):
                    raise Mistake(
                        f"{what} must hold booleans, but holds numbers, such as {found[0]}.",
                        "A comparison gives booleans, True or False for each crop.",
                    )
                raise _other_kind(what, flags, left, ours)
            verdicts = dict(zip(crops, flags.tolist(), strict=True))
            yield f'"{what}" with the line at {cut}', verdicts


def _other_kind(what: str, flags: Tensor, left: Tensor, ours: Tensor) -> Mistake:
    """What is said of anything but a boolean for each crop."""
    if flags.shape == left.shape:
        return Mistake(
            f"{what} must be booleans, but is {flags.dtype}.",
            "A comparison gives them, True or False for each crop.",
        )
    said = (
        f"for {len(left)} crops, {what} has, as a tensor, the shape {tuple(flags.shape)}, and its"
        f" numbers are {flags.dtype}."
    )
    if flags.shape[:1] == (int(ours.sum()),):
        if torch.equal(flags.flatten(), ours.nonzero().flatten()):
            said += " Its numbers are the places of the crops that belong there."
        elif torch.equal(flags, left[ours]):
            said += " Its numbers are the left edges of the crops that belong there."
    return Mistake(
        said,
        f"It must have the shape ({len(left)},): True or False for each crop, whether it is chosen"
        " or not. A comparison of the tensor left with a number gives that.",
    )


def tell(evidence: Evidence) -> tuple[str, str]:
    """Where the regions end."""
    return "", (
        "The training region ends at column cut - 1, and the other one begins at column cut. A crop"
        " belongs to a region only if all its columns do."
    )


def notice(answer: Any) -> Mistake | None:
    """Whether size, or cut, has no effect."""
    left = torch.arange(120)
    for name, cases in (
        ("size", ((3, 60), (8, 60), (1, 60))),
        ("cut", ((4, 50), (4, 60), (4, 70))),
    ):
        found = []
        for case in cases:
            found.append([torch.as_tensor(one).tolist() for one in answer(left.clone(), *case)])
        if found[0] == found[1] == found[2]:
            return Mistake(
                f"What you return is the same for three values of {name}.",
                f"Which crops lie in a region depends on the argument {name}: use it, and no number"
                " or name from elsewhere for it.",
            )
    return None


def more(answer: Any) -> list:
    """What is said of all crops of several sizes, with the line at several places."""
    left = torch.arange(20)
    seen = []
    for size in (1, 2, 3, 5, 8):
        for cut in (1, 6, 11, 15):
            seen.append([torch.as_tensor(one).tolist() for one in answer(left.clone(), size, cut)])
    return seen


LINE = "return left + size <= cut, left >= cut"

SLIPS = (
    Slip(
        {LINE: "return left < cut, left >= cut"},
        "put crops that lie in both regions into the training",
        (
            "A crop covers columns left to left + size - 1. For training all of them must be left"
            " of the line"
        ),
    ),
    Slip(
        {LINE: "return left + size <= cut, left + size > cut"},
        "hold out crops that lie in both regions",
        "A held-out crop begins at the line or right of it",
    ),
    Slip(
        {LINE: "return left + size < cut, left >= cut"},
        "leave out a crop that ends just before the line",
        "Its last column is left + size - 1, which may be cut - 1",
    ),
    Slip(
        {LINE: "return left + size <= cut, left > cut"},
        "leave out a crop that begins at the line",
        "Column cut belongs to the held-out region",
    ),
    Slip(
        {LINE: "return left >= cut, left + size <= cut"},
        "swap the two",
        "Training crops lie left of the line, and come first",
    ),
)

EXERCISE = Exercise(
    answer=my_split_by_region,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    more=more,
    hints=(
        "Which columns does a crop cover? The first one is left. And the last one?",
        "A crop covers left to left + size - 1. For training the last one is at most cut - 1.",
    ),
    same=({LINE: "return [x + size <= cut for x in left], [x >= cut for x in left]"},),
)
