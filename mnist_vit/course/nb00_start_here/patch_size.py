"""Exercise: the smallest patches that a budget of attention scores allows."""

from collections.abc import Iterator
from typing import Any

from ..checking import Evidence, Exercise, Mistake, Slip


def my_patch_size(image_size: int, budget: int) -> int:
    for size in range(1, image_size + 1):  # the smallest first
        if image_size % size == 0:
            side = image_size // size
            tokens = side * side + 1
            if tokens * tokens <= budget:
                return size
    return image_size


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    as_float = ""
    for image_size, budget in (
        (28, 40_000),
        (28, 38_809),
        (28, 39_000),
        (28, 38_700),
        (28, 38_416),
        (28, 38_500),
        (28, 1_000),
        (28, 200),
        (28, 18),
        (28, 5),
        (224, 40_000),
        (224, 1_000_000),
        (32, 100),
        (28, 700_000),
    ):
        size = answer(image_size, budget)
        yield f"the patch size for {image_size} pixels and {budget:,} scores", size
        if isinstance(size, float):
            as_float = f"{size} for {image_size} pixels"
    if as_float:
        raise Mistake(
            f"the sizes are right, and come back as floats: {as_float}.",
            "A patch has a whole number of pixels. / gives a float even where nothing is left over;"
            " // gives a whole number.",
        )


DIVIDES, TOKENS, FITS = "image_size % size == 0", "side * side + 1", "tokens * tokens <= budget"
ORDER, END = "range(1, image_size + 1)", "return size\n    return image_size"


def tell(evidence: Evidence) -> tuple[str, str]:
    """What patches of this size cost, or that they do not cut the picture evenly."""
    size, right = evidence.value, evidence.expected
    if evidence.pair is None or type(size) is not int:
        return "", ""
    if size < 1:
        return f"There are no patches of {size} pixels.", "The smallest has one."
    image_size, budget = evidence.pair[0].before
    if image_size % size:
        return f"{image_size} is not divisible by {size}.", "The patches must cut it evenly."
    if size < right:
        return f"{_cost(image_size, size)}, more than {budget:,}.", "Take larger patches."
    return (
        f"A smaller size that divides {image_size} fits the budget, too.",
        f"{_cost(image_size, right)}.",
    )


def _cost(image_size: int, size: int) -> str:
    patches = (image_size // size) ** 2
    tokens = patches + 1
    return (
        f"With patches of {size} × {size} pixel{'s' if size > 1 else ''} there are {patches:,} of"
        f" them, so {tokens:,} tokens and {tokens**2:,} scores"
    )


ALL = "Every size from 1 to image_size that divides it is possible, as 7 and 14 for 28 pixels"

SLIPS = (
    Slip(
        {TOKENS: "side * side"},
        "forget the class token",
        "It looks at all patches, and they look at it",
    ),
    Slip(
        {TOKENS: "side * side", FITS: "tokens * tokens + 1 <= budget"},
        "count one more score in place of one more token",
        "The class token has a score for each token, and each has one for it",
    ),
    Slip(
        {TOKENS: "side * side + 2"},
        "count two tokens more than there are patches",
        "The class token is one token: side * side + 1",
    ),
    Slip(
        {FITS: "tokens <= budget"},
        "compare the number of tokens, or of patches, with the budget",
        "The budget is one of scores: each token has a score for each, itself included",
    ),
    Slip(
        {TOKENS: "side + 1"},
        "count the patches along one side only",
        "There are as many rows as columns",
    ),
    Slip(
        {TOKENS: "(side + 1) * (side + 1)"},
        "count (side + 1) * (side + 1) tokens",
        "The class token is one token, not a row and a column of them: side * side + 1",
    ),
    Slip(
        {DIVIDES: "True"},
        "take patches that leave pixels over at the edge",
        "The size must divide that of the picture",
    ),
    Slip(
        {FITS: "tokens * tokens < budget"},
        "refuse what uses the budget up",
        "At most so many scores are allowed",
    ),
    Slip(
        {ORDER: "range(image_size, 0, -1)"},
        "return the whole picture as one patch, the largest that fits",
        (
            "Go through the sizes from 1 up, and return the first that divides image_size,"
            " image_size % size == 0, and fits the budget"
        ),
    ),
    Slip(
        {FITS: "tokens * (tokens - 1) // 2 <= budget"},
        "count every pair once",
        (
            "Token 3 with token 5 is another score than 5 with 3, and each token has one with"
            " itself: tokens * tokens"
        ),
    ),
    Slip(
        {FITS: "tokens * (tokens - 1) <= budget"},
        "leave out the scores of tokens with themselves",
        "A token may look at itself too",
    ),
    Slip(
        {END: "return side\n    return 1"},
        "return how many patches stand side by side",
        "The answer is the size of one",
    ),
    Slip(
        {END: "return tokens\n    return 2"},
        "return the number of tokens",
        "The answer is the size of a patch",
    ),
    Slip(
        {FITS: "tokens ^ 2 <= budget"},
        "write tokens ^ 2 for the square",
        "In Python ^ is exclusive or, and the square is tokens ** 2",
    ),
    Slip(
        {FITS: "tokens * 2 <= budget"},
        "double the number of tokens",
        "Each has a score for each, so it is squared",
    ),
    Slip(
        {FITS: "tokens * tokens >= budget"},
        "look for at least so many scores",
        "The budget is the most that is allowed",
    ),
    Slip(
        {FITS: "size * size <= budget"},
        "return 1 always, as if the budget did not count, or counted the pixels of a patch",
        (
            "Compare the number of scores with the budget: tokens * tokens, with tokens ="
            " (image_size // size) ** 2 + 1"
        ),
    ),
    Slip(
        {ORDER: "(1, 2, 4, 7, 14, 28)"},
        "try the divisors of 28 only",
        "The size must divide image_size, whatever it is",
    ),
    Slip(
        {ORDER: "(1, 2, 4, 7, 14, 28)", END: "return size\n    return None"},
        "try the divisors of 28 only",
        "The size must divide image_size, whatever it is",
    ),
    Slip(
        {FITS: "tokens * tokens >= budget", END: "return size\n    return None"},
        "look for at least so many scores",
        "The budget is the most that is allowed",
    ),
    Slip({ORDER: "range(2, image_size + 1)"}, "begin at 2", "A patch may be a single pixel"),
    Slip(
        {ORDER: "range(image_size + 1)"},
        "begin at size 0",
        "The smallest patch is a single pixel: range(1, image_size + 1)",
    ),
    *(
        Slip({ORDER: sizes}, f"try no size above {end}, but for the whole picture", ALL)
        for sizes, end in (
            ("range(1, int(image_size**0.5) + 1)", "the root of image_size"),
            ("range(1, image_size // 2)", "image_size // 2 - 1"),
        )
    ),
    Slip(
        {ORDER: "[2**power for power in range(image_size.bit_length())]"},
        "try powers of two only, and the whole picture",
        ALL,
    ),
    Slip(
        {ORDER: "range(1, image_size)", END: "return size\n    return None"},
        "stop before image_size itself",
        "The whole picture may be one patch",
    ),
    *(
        Slip(
            {ORDER: "range(1, image_size)", END: f"return size\n    {nothing}"},
            "stop before image_size itself, so that for a small budget no size is left",
            "The whole picture may be one patch: range(1, image_size + 1)",
        )
        for nothing in ("[][0]", "min([])", "min(())", "next(iter(()))")
    ),
)

EXERCISE = Exercise(
    answer=my_patch_size,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Try the sizes one after the other, the smallest first: 1 pixel, 2 pixels … Which ones"
            " cut the picture evenly, and what do they cost?"
        ),
        (
            "A size is possible if image_size % size == 0. Then there are (image_size // size)²"
            " patches and one more token; every token has a score for every token."
        ),
    ),
    same=(
        {FITS: "budget >= (1 + (image_size // size) ** 2) ** 2"},
        {"tokens * tokens": "tokens**2"},
    ),
)
