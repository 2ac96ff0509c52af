"""Exercise: how many tokens a picture becomes."""

from collections.abc import Iterator
from typing import Any

from ..checking import Exercise


def my_count_tokens(image_size, patch_size):
    side = image_size // patch_size
    patches = side * side
    return patches + 1  # the class token


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for image_size, patch_size in ((28, 2), (28, 7), (224, 16), (512, 16), (32, 32)):
        yield f"{image_size} pixels in patches of {patch_size}", answer(image_size, patch_size)


SIDE, PATCHES, END = "image_size // patch_size", "side * side", "return patches + 1"

SLIPS = (
    ({END: "return patches"}, "leave out the class token. It is one more token: add 1"),
    ({PATCHES: "side"},
     "count the patches along one side only. There are as many rows of patches as columns: square it"),
    ({PATCHES: "(side + 1) * (side + 1)", END: "return patches"},
     "add the class token before squaring. First count the patches, then add 1"),
    ({SIDE: "patch_size"},
     "count the pixels inside one patch. Count the patches: image_size // patch_size along each side"),
    ({PATCHES: "image_size * image_size // patch_size"},
     "divide the number of pixels by patch_size. A patch covers patch_size * patch_size pixels"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_count_tokens,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "How many patches lie side by side along one edge of the picture? And how many such rows are there?",
        "image_size // patch_size patches lie along each edge, so the square of that in the picture. One more token "
        "comes in front of them.",
    ),
    same=({PATCHES: "image_size**2 // patch_size**2"},),
)
