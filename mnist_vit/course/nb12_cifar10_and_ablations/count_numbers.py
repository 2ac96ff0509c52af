"""Exercise: how many numbers a Vision Transformer learns, by formula."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from ..checking import Exercise, Mistake, Slip


def my_count_numbers(
    image_size, patch_size, num_layers, hidden_dim, mlp_dim, num_classes, in_channels
):
    d = hidden_dim
    tokens = (image_size // patch_size) ** 2 + 1
    projection = in_channels * patch_size**2 * d + d
    places = tokens * d
    class_token = d
    attention = 3 * d * d + 3 * d + d * d + d
    mlp = d * mlp_dim + mlp_dim + mlp_dim * d + d
    norm = 2 * d
    head = d * num_classes + num_classes
    block = attention + mlp + 2 * norm
    return projection + class_token + places + num_layers * block + norm + head


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    sizes = ((32, 4, 4, 48, 192, 10, 3), (28, 7, 2, 64, 250, 11, 1), (224, 16, 12, 768, 3072, 5, 3))
    counts: list[Any] = []
    for case in sizes:
        count = answer(*case)
        yield f"the numbers of a model of {case}", count
        counts.append(count)
    for count in counts:
        is_float = count.is_floating_point() if isinstance(count, Tensor) else False
        if is_float or isinstance(count, float | np.floating):
            raise Mistake(
                f"the numbers are right, and come back as floats: {float(counts[0])}.",
                "A count is a whole number. / gives a float even where nothing is left over; //"
                " gives a whole number.",
            )


NAMES = (
    "image_size",
    "patch_size",
    "num_layers",
    "hidden_dim",
    "mlp_dim",
    "num_classes",
    "in_channels",
)


def notice(answer: Any) -> Mistake | None:
    """On which sizes the count depends, and how much is missing in each block and outside."""
    start, other = (24, 4, 2, 12, 40, 5, 3), (36, 6, 3, 16, 56, 7, 1)
    third = (48, 12, 5, 20, 28, 9, 4)
    for place, name in enumerate(NAMES):
        counts = {answer(*start)}
        for sizes in (other, third):  # two sizes may by chance give one number
            counts.add(answer(*start[:place], sizes[place], *start[place + 1 :]))
        if len(counts) == 1:
            return Mistake(
                f"The number stays the same when {name} changes.",
                "Each of the seven sizes changes the number of learned numbers: print the names and"
                " shapes of two small models that differ in this one.",
            )

    return _noticed_terms(answer)


CASES = (  # sizes without the number of layers
    (24, 4, 12, 40, 5, 3),
    (36, 6, 16, 56, 7, 1),
    (40, 8, 11, 23, 3, 2),
    (35, 5, 17, 19, 13, 4),
    (33, 11, 29, 31, 4, 5),
)
MOST = 4  # times that one term is counted too often, or too seldom


def _noticed_terms(answer: Any) -> Mistake | None:
    """What is missing, or too much, in each block and outside: as a formula, if it is short."""
    each, outside = [], []
    for case in CASES:
        off = []
        for layers in (0, 1, 2):
            sizes = (*case[:2], layers, *case[2:])
            off.append(float(answer(*sizes)) - my_count_numbers(*sizes))
        if off[2] - off[1] != off[1] - off[0]:
            return None
        each.append(off[1] - off[0])
        outside.append(off[0])
    blocks = []
    for case in CASES:
        blocks.append(
            my_count_numbers(*case[:2], 1, *case[2:]) - my_count_numbers(*case[:2], 0, *case[2:])
        )
    if not any(each):
        for times, said in ((-1, "one block too few"), (1, "one block too many")):
            if outside == [times * block for block in blocks]:
                return Mistake(f"You count {said}.", "There are num_layers blocks.")
    if some := _noticed_some(answer, each, outside):
        return some
    told, parts = [], []
    for where, many, right in (
        ("In each block", each, BLOCK),
        ("Outside the blocks", outside, OUTSIDE),
    ):
        if any(many):
            told.append(f"{where} you count {_formula(many) or _in_numbers(many)}.")
            parts.append(f"{right}.")
        else:
            told.append(f"{where} all is right.")
    return Mistake(" ".join(told), " ".join(parts)) if parts else None


def _noticed_some(answer: Any, each: list[float], outside: list[float]) -> Mistake | None:
    """Whether it is right for some sizes, in blocks and outside, and no formula says why."""
    if not any(each) or not any(outside):
        return None  # it is told where the mistake is
    has_formula = bool(_formula(each) and _formula(outside))
    is_right = [not off and not rest for off, rest in zip(each, outside, strict=True)]
    if has_formula or not any(is_right):
        return None
    right, wrong = CASES[is_right.index(True)], CASES[is_right.index(False)]
    sizes = (*wrong[:2], 2, *wrong[2:])
    return Mistake(
        f"With 2 blocks and {_sizes(*right)} your number is right. With {_sizes(*wrong)} it is"
        f" {float(answer(*sizes)):.10g}, and should be {my_count_numbers(*sizes)}.",
        "The same formula holds whatever the sizes are.",
    )


def _sizes(
    image_size: int, patch_size: int, d: int, mlp_dim: int, num_classes: int, in_channels: int
) -> str:
    """The sizes of a case in words."""
    patches = (image_size // patch_size) ** 2
    channels = "1 channel" if in_channels == 1 else f"{in_channels} channels"
    return (
        f"hidden_dim {d}, mlp_dim {mlp_dim}, {patches} patches of {patch_size} × {patch_size},"
        f" {num_classes} classes and {channels}"
    )


def _in_numbers(many: list[float]) -> str:
    """The difference in the first case that has one."""
    place = [one != 0 for one in many].index(True)
    more = "too many" if many[place] > 0 else "too few"
    return f"{abs(many[place]):g} numbers {more} (with {_sizes(*CASES[place])})"


def _formula(many: list[float]) -> str:
    """The difference as one product of sizes, or as two; "" if it is none, in all cases."""
    columns = [_terms(*case) for case in CASES]
    names = list(columns[0])
    for name in names:
        times = many[0] / columns[0][name]
        if times != round(times) or abs(times) > MOST:
            continue
        if all(column[name] * times == one for column, one in zip(columns, many, strict=True)):
            return _said(times, name)
    for first, second in itertools.combinations(names, 2):
        for times in [*range(-MOST, 0), *range(1, MOST + 1)]:
            left = [one - times * column[first] for column, one in zip(columns, many, strict=True)]
            other = left[0] / columns[0][second]
            if other != round(other) or not 0 < abs(other) <= MOST:
                continue
            if all(
                column[second] * other == one for column, one in zip(columns, left, strict=True)
            ):
                return f"{_said(times, first)} and {_said(other, second)}"
    return ""


def _said(times: float, name: str) -> str:
    """How often a term is counted too often, or left out."""
    factor = "" if abs(times) == 1 else f"{abs(times):g} · "
    return f"{factor}{name} numbers too {'many' if times > 0 else 'few'}"


def _terms(
    image_size: int, patch_size: int, d: int, mlp_dim: int, num_classes: int, in_channels: int
) -> dict[str, int]:
    """Products of sizes, by name."""
    side = image_size // patch_size
    return {
        "hidden_dim": d,
        "mlp_dim": mlp_dim,
        "num_classes": num_classes,
        "hidden_dim · hidden_dim": d * d,
        "hidden_dim · mlp_dim": d * mlp_dim,
        "mlp_dim · mlp_dim": mlp_dim * mlp_dim,
        "hidden_dim · num_classes": d * num_classes,
        "num_patches · hidden_dim": side * side * d,
        "(patches in a row) · hidden_dim": side * d,
        "in_channels · patch_size² · hidden_dim": in_channels * patch_size**2 * d,
        "in_channels · patch_size · hidden_dim": in_channels * patch_size * d,
        "in_channels · hidden_dim": in_channels * d,
        "patch_size² · hidden_dim": patch_size**2 * d,
        "in_channels · patch_size²": in_channels * patch_size**2,
        "image_size² · hidden_dim": image_size**2 * d,
        "(image_size // patch_size²) · hidden_dim": image_size // patch_size**2 * d,
        "in_channels² · patch_size² · hidden_dim": in_channels**2 * patch_size**2 * d,
        "(image_size² // patch_size) · hidden_dim": image_size**2 // patch_size * d,
        "num_patches": side * side,
        "num_patches · num_patches": side**4,
        "in_channels": in_channels,
    }


BLOCK = (
    "A block has two norms with 2 · hidden_dim numbers each; queries, keys, values and output, each"
    " with hidden_dim · hidden_dim + hidden_dim; and the two layers of the MLP, each with"
    " hidden_dim · mlp_dim weights, the first with mlp_dim biases and the second with hidden_dim"
)
OUTSIDE = (
    "Outside the blocks are conv_proj, with in_channels · patch_size² · hidden_dim weights and"
    " hidden_dim biases; the class token, hidden_dim; the positions, hidden_dim for each patch and"
    " for the class token; the last norm, 2 · hidden_dim; and the head, with hidden_dim ·"
    " num_classes weights and num_classes biases"
)

SLIPS = (
    Slip(
        {"** 2 + 1": "** 2"},
        (
            "count hidden_dim numbers too few outside the blocks, as many as the class token, its"
            " position, or the bias of a layer or norm there may have"
        ),
        "All that is learned counts; print the names and shapes of a small model",
    ),
    Slip(
        {"3 * d * d + 3 * d + d * d + d": "3 * d * d + 3 * d"},
        (
            "count hidden_dim · hidden_dim + hidden_dim numbers too few in each block, as many as"
            " one of queries, keys, values and output has"
        ),
        BLOCK,
    ),
    Slip(
        {"3 * d * d + 3 * d + d * d + d": "4 * d * d"},
        (
            "count 4 · hidden_dim numbers too few in each block, as many as the biases of"
            " attention, or both norms, have"
        ),
        BLOCK,
    ),
    Slip(
        {"d * mlp_dim + mlp_dim + mlp_dim * d + d": "2 * d * mlp_dim"},
        (
            "count mlp_dim + hidden_dim numbers too few in each block, as many as the biases of"
            " the MLP"
        ),
        BLOCK,
    ),
    Slip(
        {"block = attention + mlp + 2 * norm": "block = attention + mlp + norm"},
        "count 2 · hidden_dim numbers too few in each block, as many as one norm has",
        BLOCK,
    ),
    Slip(
        {"num_layers * block + norm": "num_layers * block"},
        "count 2 · hidden_dim numbers too few outside the blocks, as many as the last norm has",
        OUTSIDE,
    ),
    Slip(
        {"norm = 2 * d": "norm = d"},
        (
            "count 2 · hidden_dim numbers too few in each block and hidden_dim outside, as many"
            " as the biases of all norms"
        ),
        (
            "A norm has hidden_dim weights and hidden_dim biases; every block has two norms, and"
            " one stands at the end"
        ),
    ),
    Slip(
        {"in_channels * patch_size**2 * d": "patch_size**2 * d"},
        "forget the channels in conv_proj",
        "A patch has in_channels numbers for each pixel: multiply by in_channels",
    ),
    Slip(
        {"d * num_classes + num_classes": "d * num_classes"},
        "leave out num_classes numbers, as many as the head has biases",
        OUTSIDE,
    ),
    Slip(
        {"num_layers * block": "block"},
        "count one block only",
        "There are num_layers blocks, each with its own numbers",
    ),
)

EXERCISE = Exercise(
    answer=my_count_numbers,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Print the shapes of a small model of yours, name by name; a tensor has the product of"
            " its shape. Which sizes stand in which names?"
        ),
        (
            "conv_proj, class_token, pos_embedding; in each block in_proj (3 d outputs), out_proj,"
            " two linear layers and two norms, all with biases; the last norm; the head."
        ),
    ),
    same=(
        {"3 * d * d + 3 * d + d * d + d": "4 * (d * d + d)"},
        {"d * mlp_dim + mlp_dim + mlp_dim * d + d": "(2 * d + 1) * mlp_dim + d"},
    ),
)
