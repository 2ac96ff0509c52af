"""Exercise: the smallest patches that a budget of attention scores allows."""

from collections.abc import Iterator
from typing import Any

from ..checking import Exercise


def my_patch_size(image_size: int, budget: int) -> int:
    for size in range(1, image_size + 1):  # the smallest first
        if image_size % size == 0:
            side = image_size // size
            tokens = side * side + 1
            if tokens * tokens <= budget:
                return size
    return image_size


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for image_size, budget in (
        (28, 40_000), (28, 38_809), (28, 38_700), (28, 38_500), (28, 1_000), (28, 200), (28, 18), (28, 5),
        (224, 40_000), (224, 1_000_000), (32, 100), (28, 700_000),
    ):  # fmt: skip
        yield f"the patch size for {image_size} pixels and {budget:,} scores", answer(image_size, budget)


DIVIDES, TOKENS, FITS = "image_size % size == 0", "side * side + 1", "tokens * tokens <= budget"
ORDER, END = "range(1, image_size + 1)", "return size\n    return image_size"

SLIPS = (
    ({TOKENS: "side * side"}, "forget the class token: it looks at all patches, and they look at it"),
    ({FITS: "tokens <= budget"}, "count the tokens: each of them has a score for each, itself included"),
    ({TOKENS: "side + 1"}, "count the patches along one side only: there are as many rows as columns"),
    ({TOKENS: "(side + 1) * (side + 1)"}, "add the class token before squaring: it is one token, not a row of them"),
    ({DIVIDES: "True"}, "take patches that leave pixels over at the edge: the size must divide that of the picture"),
    ({FITS: "tokens * tokens < budget"}, "refuse what uses the budget up: at most so many scores are allowed"),
    ({ORDER: "range(image_size, 0, -1)"}, "take the largest patches that fit: the smallest show the most detail"),
    ({FITS: "tokens * (tokens - 1) // 2 <= budget"},
     "count every pair once: how much token 3 takes from token 5 is another score than how much 5 takes from 3"),
    ({FITS: "tokens * (tokens - 1) <= budget"}, "leave out the scores of tokens with themselves: a token may look at "
     "itself too"),
    ({END: "return side\n    return 1"}, "return how many patches stand side by side: the answer is the size of one"),
    ({END: "return tokens\n    return 2"}, "return the number of tokens: the answer is the size of a patch"),
    ({FITS: "tokens ^ 2 <= budget"}, "write tokens ^ 2 for the square: in Python ^ is exclusive or, and the square is "
     "tokens ** 2"),
    ({FITS: "tokens * 2 <= budget"}, "double the number of tokens: each has a score for each, so it is squared"),
    ({FITS: "tokens * tokens >= budget"}, "look for at least so many scores: the budget is the most that is allowed"),
    ({FITS: "size * size <= budget"}, "compare the pixels of a patch with the budget: it is for scores"),
    ({ORDER: "(1, 2, 4, 7, 14, 28)"}, "try the divisors of 28 only: the size must divide image_size, whatever it is"),
    ({ORDER: "(1, 2, 4, 7, 14, 28)", END: "return size\n    return None"},
     "try the divisors of 28 only: the size must divide image_size, whatever it is"),
    ({FITS: "tokens * tokens >= budget", END: "return size\n    return None"},
     "look for at least so many scores: the budget is the most that is allowed"),
    ({ORDER: "range(2, image_size + 1)"}, "begin at 2: a patch may be a single pixel"),
    ({ORDER: "range(1, image_size)", END: "return size\n    return None"},
     "stop before image_size itself: the whole picture may be one patch"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_patch_size,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "Try the sizes one after the other, the smallest first: 1 pixel, 2 pixels … Which ones cut the picture evenly, "
        "and what do they cost?",
        "A size is possible if image_size % size == 0. Then there are (image_size // size)² patches and one more "
        "token; every token has a score for every token.",
    ),
    same=(
        {FITS: "budget >= (1 + (image_size // size) ** 2) ** 2"},
        {"tokens * tokens": "tokens**2"},
    ),
)
