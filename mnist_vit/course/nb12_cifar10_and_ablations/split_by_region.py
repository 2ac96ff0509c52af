"""Exercise: crops of a photograph are split by region, so that no held-out crop overlaps one that
is trained on."""

from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, describe


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
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise Mistake(f"two lists of booleans are needed, and this is {describe(made)}.")
        for what, found in zip(("training", "held out"), made, strict=True):
            flags = torch.as_tensor(found)
            if flags.shape == left.shape and flags.dtype != torch.bool:
                raise Mistake(
                    f"{what} must be booleans, but is {flags.dtype}.",
                    "A comparison gives them, True or False for each crop.",
                )
            yield f"which crops are {what}, size {size}, line at {cut}", flags.tolist()


def notice(answer: Any) -> Mistake | None:
    """What is said of single crops, by the columns that they cover."""
    made = answer(torch.tensor([0, 3, 4, 6, 7, 8]), 4, 7)
    flags = [torch.as_tensor(one).tolist() for one in made]
    if any(len(one) != 6 for one in flags):
        return Mistake(
            f"For six crops your two have {len(flags[0])} and {len(flags[1])} entries.",
            "Each has one boolean for each crop.",
        )
    right = [one.tolist() for one in my_split_by_region(torch.tensor([0, 3, 4, 6, 7, 8]), 4, 7)]
    for place, left in enumerate((0, 3, 4, 6, 7, 8)):
        for what, own, ours in zip(("for training", "held out"), flags, right, strict=True):
            if bool(own[place]) != ours[place]:
                said = "is" if own[place] else "is not"
                return Mistake(
                    f"With the line at 7, a crop of columns {left} to {left + 3} {said} {what} in"
                    " yours.",
                    "Columns up to 6 are the training region, 7 and more the other. A crop belongs"
                    " to a region if all its columns do.",
                )
    return None


LINE = "return left + size <= cut, left >= cut"

SLIPS = (
    Slip(
        {LINE: "return left < cut, left >= cut"},
        "put crops that lie in both regions into the training",
        "A crop covers columns left to left + size - 1. All of them must be left of the line",
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
    notice=notice,
    hints=(
        "Which columns does a crop cover? The first one is left. And the last one?",
        "A crop covers left to left + size - 1. For training the last one is at most cut - 1.",
    ),
    same=({LINE: "return [x + size <= cut for x in left], [x >= cut for x in left]"},),
)
