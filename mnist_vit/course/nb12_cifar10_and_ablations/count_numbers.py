"""Exercise: how many numbers a Vision Transformer learns, by formula."""

from collections.abc import Iterator
from typing import Any

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
    for case in sizes:
        yield f"the numbers of a model of {case}", answer(*case)


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
    for place, name in enumerate(NAMES):
        changed = (*start[:place], other[place], *start[place + 1 :])
        if answer(*changed) == answer(*start):
            return Mistake(
                f"The number stays the same when {name} changes.",
                "Each of the seven sizes changes the number of learned numbers: print the names and"
                " shapes of two small models that differ in this one.",
            )

    def off(layers: int) -> float:
        sizes = (*start[:2], layers, *start[3:])
        return float(answer(*sizes)) - my_count_numbers(*sizes)

    outside, each = off(0), off(2) - off(1)
    if off(1) - outside != each:
        return None
    told = "hidden_dim 12, mlp_dim 40, 36 patches of 4 × 4, 5 classes and 3 channels"
    for what, many in (("in each block", each), ("outside the blocks", outside)):
        if many:
            more, ask = ("too many", "counted too often") if many > 0 else ("too few", "left out")
            return Mistake(
                f"With {told}, you count {abs(many):g} numbers {more} {what}"
                f"{', and outside all is right' if many == each and not outside else ''}.",
                f"What is {ask}? Print the names and shapes of such a model.",
            )
    return None


SLIPS = (
    Slip(
        {"** 2 + 1": "** 2"},
        "leave out d numbers once: the class token, its position, or the bias of conv_proj",
        "All three are learned; print the names and shapes of a small model",
    ),
    Slip(
        {"3 * d * d + 3 * d + d * d + d": "3 * d * d + 3 * d"},
        "leave out the output projection of attention",
        "out_proj has d · d + d numbers",
    ),
    Slip(
        {"3 * d * d + 3 * d + d * d + d": "4 * d * d"},
        "leave out 4 · d numbers in each block: the biases of attention, or both norms",
        "Queries, keys, values and output have d biases each, and a norm has 2 · d numbers",
    ),
    Slip(
        {"d * mlp_dim + mlp_dim + mlp_dim * d + d": "2 * d * mlp_dim"},
        "leave out the biases of the MLP",
        "The first layer has mlp_dim, the second d",
    ),
    Slip(
        {"block = attention + mlp + 2 * norm": "block = attention + mlp + norm"},
        "count one norm in a block",
        "There is one before attention and one before the MLP",
    ),
    Slip(
        {"num_layers * block + norm": "num_layers * block"},
        "leave out the encoder's last norm",
        "It has 2 · d numbers",
    ),
    Slip(
        {"norm = 2 * d": "norm = d"},
        "count the weight of a norm and not its bias",
        "A norm has d of each",
    ),
    Slip(
        {"in_channels * patch_size**2 * d": "patch_size**2 * d"},
        "forget the channels",
        "A patch of a colour picture has three numbers for each pixel",
    ),
    Slip(
        {"d * num_classes + num_classes": "d * num_classes"},
        "leave out the bias of the class head",
        "It has one for each class",
    ),
    Slip(
        {"num_layers * block": "block"},
        "count one block only",
        "Each layer has a block of its own",
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
