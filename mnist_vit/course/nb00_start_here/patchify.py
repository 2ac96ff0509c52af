"""Exercise: cut pictures into patches, in the order in which the convolution's weight wants their
pixels."""

from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ..checking import Exercise, Mistake, Slip, gradients, random


def my_patchify(images, p):
    """(n, c, h, w) -> (n, h // p * (w // p), c * p * p)."""
    n, c, h, w = images.shape
    # every side in two axes: (n, c, patch row, row inside, patch column, column inside)
    x = images.reshape(n, c, h // p, p, w // p, p)
    # -> (n, patch row, patch column, c, row inside, column inside)
    x = x.permute(0, 2, 4, 1, 3, 5)
    return x.reshape(n, (h // p) * (w // p), c * p * p)


class NoUnfold(TorchFunctionMode):
    """Refuses the function that does the whole exercise, however it was imported."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.unfold:
            raise Mistake(
                "F.unfold and nn.Unfold are the exercise in one call.",
                "Write it with reshape and permute.",
            )
        return function(*args, **(kwargs or {}))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Two colours, more rows than columns: an axis taken for another one shows."""
    for n, c, h, w, p, seed in ((2, 3, 12, 8, 4, 6), (1, 1, 6, 9, 3, 6), (2, 3, 12, 8, 4, 7)):
        images = random(n, c, h, w, seed=seed).requires_grad_(c > 1)
        with NoUnfold():
            patches = answer(images, p)
        size = f"{c} channel{'s' * (c > 1)} of {h}x{w}"
        if seed > 6:  # what is kept from the first call does not fit
            yield f"output for other pictures, {size}", patches
            return
        yield f"output for patches of {p}x{p} from {size}", patches
        if c > 1:
            yield from gradients(patches, images=images)
        else:  # an input that may be changed in place: torch forbids it where gradients are wanted
            yield "images after the call", images


SIZES, SPLIT = "n, c, h, w = images.shape", "x = images.reshape(n, c, h // p, p, w // p, p)"
ORDER, END = (
    "x = x.permute(0, 2, 4, 1, 3, 5)",
    "return x.reshape(n, (h // p) * (w // p), c * p * p)",
)

SLIPS = (
    Slip(
        {ORDER: ""},
        "reshape without permute",
        (
            "Each row then holds the next c * p * p pixels as they lie in memory. Split h and w"
            " into two axes each, and permute before the last reshape"
        ),
    ),
    Slip(
        {SIZES: "n, c, w, h = images.shape"},
        "swap height and width",
        "Pictures are (n, c, h, w), height before width, so rows before columns",
    ),
    Slip(
        {ORDER: "x = x.permute(0, 2, 3, 1, 4, 5)"},
        "permute to (n, patch row, row inside, c, patch column, column inside)",
        "The two axes that say which patch come first, patch row and patch column; then the three"
        " that say where in it: c, row inside, column inside",
    ),
    Slip(
        {ORDER: "x = x.permute(0, 4, 2, 1, 3, 5)"},
        "count the patches down the columns",
        "Patch 1 is then below patch 0. Put the axis of patch rows before the axis of patch"
        " columns, so that patch 1 is to the right of patch 0",
    ),
    Slip(
        {ORDER: "x = x.permute(0, 2, 4, 3, 5, 1)"},
        "put the channels last inside a patch",
        (
            "In a patch the channels come one after the other: all pixels of the first, then all"
            " of the second"
        ),
    ),
    Slip(
        {ORDER: "x = x.permute(0, 2, 4, 1, 5, 3)"},
        "transpose the pixels inside each patch, columns before rows",
        "Inside a patch the row comes first, then the column",
    ),
    Slip(
        {ORDER: "x = x.permute(0, 1, 2, 4, 3, 5)"},
        "leave the channel axis in front of the patch axes",
        (
            "A row then holds pieces of several places, and not all channels of one place. Put"
            " the channel after the patch row and the patch column"
        ),
    ),
    Slip(
        {END: "return x.reshape(n, (h // p) * (h // p), c * p * p)"},
        "count the patches as if the picture were square",
        "There are h // p rows of patches and w // p columns",
    ),
    Slip(
        {SPLIT: "x = images.reshape(n, c, h // p, p, h // p, p)"},
        "split w as if the picture were square",
        "w has w // p pieces, and h has h // p",
    ),
    *(
        Slip(
            {SPLIT: f"x = images.reshape(n, c, {split})", ORDER: f"x = x.permute({order})"},
            f"split {split_wrongly}",
            "Neighbouring pixels belong to one patch: the axis inside the patch, p, comes second,"
            " as in (h // p, p)",
        )
        for split, order, split_wrongly in (
            (
                "p, h // p, p, w // p",
                "0, 3, 5, 1, 2, 4",
                "h into (p, h // p), w likewise",
            ),
            ("p, h // p, w // p, p", "0, 3, 4, 1, 2, 5", "h into (p, h // p)"),
            ("h // p, p, p, w // p", "0, 2, 5, 1, 3, 4", "w into (p, w // p)"),
        )
    ),
    *(
        Slip(
            {SPLIT: f"x = images.reshape(n, c, {split})"},
            f"split {split_wrongly}, and permute as if it were split the other way round",
            "Neighbouring pixels belong to one patch: the axis inside the patch, p, comes second,"
            " as in (h // p, p)",
        )
        for split, split_wrongly in (
            ("p, h // p, p, w // p", "h into (p, h // p), w likewise"),
            ("p, h // p, w // p, p", "h into (p, h // p)"),
            ("h // p, p, p, w // p", "w into (p, w // p)"),
        )
    ),
    *(
        Slip(
            {
                SPLIT: f"x = images.reshape(n, c, {split})",
                END: f"return x.reshape(n, {patches}, -1)",
            },
            f"take {what} for the number of patches along a side, and make patches of other sizes",
            "A patch has p rows and p columns; there are h // p rows and w // p columns of patches",
        )
        for split, patches, what in (
            ("p, h // p, p, w // p", "p * p", "p"),
            ("p, h // p, w // p, p", "p * (w // p)", "p"),
            ("h // p, p, p, w // p", "(h // p) * p", "p"),
        )
    ),
    Slip(
        {ORDER: "x = x.permute(2, 4, 0, 1, 3, 5)"},
        "put the axis of the pictures behind the two that count the patches",
        "Pictures then share rows of the result. n stays the first axis: permute(0, 2, 4, 1, 3, 5)",
    ),
    Slip(
        {
            SPLIT: "x = images.unfold(2, p, 1).unfold(3, p, 1)",
            ORDER: "x = x.permute(0, 2, 3, 1, 4, 5)",
            END: "return x.reshape(n, -1, c * p * p)",
        },
        "move by one pixel from patch to patch, so that patches overlap",
        "The next patch begins p pixels further on",
    ),
    Slip(
        {
            SPLIT: "x = images[:, :1].reshape(n, 1, h // p, p, w // p, p)",
            END: "return x.reshape(n, -1, p * p)",
        },
        "cut the first channel alone",
        "A row holds the pixels of all channels, one after the other: c * p * p numbers",
    ),
    *(
        Slip(
            {SPLIT: f"x = images.mean(dim=1, keepdim=True){kept}", END: f"return x.reshape({end})"},
            f"take the mean of the channels{also}",
            "A row holds the pixels of all channels, one after the other: c * p * p numbers",
        )
        for kept, end, also in (
            (
                ".expand_as(images).reshape(n, c, h // p, p, w // p, p)",
                "n, (h // p) * (w // p), c * p * p",
                ", for each of them",
            ),
            (".reshape(n, 1, h // p, p, w // p, p)", "n, -1, p * p", ""),
        )
    ),
    Slip(
        {END: "return x.view(n, (h // p) * (w // p), c * p * p)"},
        "use view after permute",
        "The numbers no longer lie in the order in which they are read, and view moves none."
        " reshape does",
    ),
    *(
        Slip(
            {**order, END: "return x.reshape(n, -1, p * p)"},
            "make a patch of each channel by itself",
            "A patch joins what all channels have at its place: one row of c * p * p numbers",
        )
        for order in ({}, {ORDER: "x = x.permute(0, 1, 2, 4, 3, 5)"})
    ),
    *(
        Slip(
            {ORDER: f"{ORDER}[{kept}]", END: "return x.reshape(n, -1, c * p * p)"},
            f"leave out the last {what} of patches",
            "range(0, h, p) begins a patch at each multiple of p below h; range(0, h - p, p) ends"
            " one too early. Likewise for w",
        )
        for kept, what in (
            (":, :-1, :-1", "row and the last column"),
            (":, :-1", "row"),
            (":, :, :-1", "column"),
        )
    ),
    Slip(
        {END: "return x.reshape(n, h // p, w // p, c * p * p)"},
        "keep rows and columns of patches in two axes",
        "The patches of a picture stand in one row, one after the other: (h // p) * (w // p)",
    ),
    Slip(
        {END: "return x.reshape(-1, c * p * p)"},
        "put the patches of all pictures into one row",
        "Each picture keeps its own: the first axis of the result is n",
    ),
    *(
        Slip(
            {ORDER: f"x = x.permute(0, 2, 4, {order})"},
            f"order the numbers of a patch by {words}",
            "The channel comes first, then the row inside the patch, then the column",
        )
        for order, words in (
            ("3, 1, 5", "row inside, channel, column inside"),
            ("5, 3, 1", "column inside, row inside, channel"),
            ("5, 1, 3", "column inside, channel, row inside"),
        )
    ),
)

EXERCISE = Exercise(
    answer=my_patchify,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        (
            "A patch is p rows and p columns, so split h into (h // p, p) and w into (w // p, p)."
            " How many axes are there then, and which of them say which patch, which say where in"
            " the patch?"
        ),
        (
            "After images.reshape(n, c, h // p, p, w // p, p) the axes are: image, channel, patch"
            " row, row in the patch, patch column, column in the patch. Permute them to: image,"
            " patch row, patch column, channel, row, column. Then one more reshape."
        ),
    ),
    same=(
        {
            SPLIT: "x = images.unfold(2, p, p).unfold(3, p, p)",
            ORDER: "x = x.permute(0, 2, 3, 1, 4, 5)",
        },
        {
            SPLIT: "x = images.permute(0, 2, 3, 1).reshape(n, h // p, p, w // p, p, c)",
            ORDER: "x = x.permute(0, 1, 3, 5, 2, 4)",
        },
    ),
)
