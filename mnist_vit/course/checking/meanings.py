"""What an exception means, in words that are true wherever it is raised, and what can be done.

The text of an exception says what happened, and rarely why. So the meaning explains its words, and
the advice names no cause that this answer may not have: it says what to compare, or what is true
of PyTorch and Python in any case.
"""

import re

from .exceptions import BOTH, MEANINGS

FEWEST_TOKENS = 9  # from which one token more is told from another patch size
FEWER_AXES = (
    "Print its shape. Axes count from 0, and -1 is the last. x[:, 0] takes an axis away, squeeze()"
    " all of length 1, and a table of booleans, x[is_right], puts all that it chooses into one row."
)
FIT = "The shapes do not fit together"
SHAPES = re.compile(
    r"must match the size of tensor|must match the existing size|didn't match"
    r"|shapes cannot be multiplied|Expected size for|does not match"
    r"|Sizes of tensors must match|inconsistent tensor size|mat1 and mat2"
    r"|equal size|the same as input size|different to the input size|must match exactly"
    r"|same number of columns|gradient of size|should match other\.size"
)
PRODUCT = re.compile(r"cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
BATCHES = re.compile(r"batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]")
OF_NUMPY = re.compile(r"mismatch in its core dimension 0.*size (\d+) is different from (\d+)")
VECTOR = re.compile(r"mat \(\d+x(\d+)\), vec \((\d+)\)")
LINED_UP = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton"
)
EXPANDED = re.compile(
    r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)"
    r".*Target sizes: \[(.*?)\]. *Tensor sizes: \[(.*?)\]"
)
ARRAYS = re.compile(r"broadcast together with shapes (\(.*?\)) (\(.*?\))")
WRITTEN = re.compile(
    r"value tensor of shape \[(.*?)\] cannot be broadcast to indexing result of shape \[(.*?)\]"
)
COUNTS = re.compile(r"shape '\[([\d, -]+)\]' is invalid for input of size (\d+)")
ARRAY_COUNTS = re.compile(r"cannot reshape array of size (\d+) into shape \(([\d, -]+)\)")
AXES = re.compile(r"Dimension out of range \(expected to be in range of \[-(\d+), .*got (-?\d+)\)")
ARRAY_AXES = re.compile(r"axis (-?\d+) is out of bounds for array of dimension (\d+)")
NORMALISED = re.compile(r"normalized_shape=\[(.*?)\], expected input .*input of size ?\[(.*?)\]")
PARTS = re.compile(r"sum exactly to (\d+) .*split_sizes=\[([\d, ]+)\]")
SUBSCRIPTS = re.compile(
    r"subscripts in the equation \((\d+)\) does not match the number of dimensions \((\d+)\)"
    r" for operand (\d+)"
)
LETTER = re.compile(
    r"subscript (\w) has size (\d+) for operand (\d+) which does not broadcast with previously"
    r" seen size (\d+)"
)


def meaning_of(text: str) -> tuple[str, str]:
    """What the words of an exception mean, and what can be done; ("", "") if that is not known."""
    for of_sizes in (_of_products, _of_shapes, _of_axes):
        counted = of_sizes(text)
        if counted != ("", ""):
            return counted
    for words, meaning, instead in MEANINGS:
        if re.search(words, text):
            return meaning, instead
    return (f"{FIT}.", BOTH) if SHAPES.search(text) else ("", "")


def _of_products(text: str) -> tuple[str, str]:
    """Of a matrix product: the two sizes that should be equal; ("", "") if it is none."""
    if found := PRODUCT.search(text):
        return _product(found[2], found[3]), BOTH
    if found := OF_NUMPY.search(text):
        return _product(found[2], found[1]), BOTH
    if found := BATCHES.search(text):
        if found[1] == found[3]:
            return _product(found[2], found[4]), BOTH
        return (
            f"{FIT}: there are {found[1]} matrices on the left and {found[3]} on the right.",
            BOTH,
        )
    if found := VECTOR.search(text):
        return (
            f"{FIT}: a matrix product wants as many columns on the left, here {found[1]}, as the"
            f" vector has places, here {found[2]}.",
            BOTH,
        )
    return "", ""


def _product(columns: str, rows: str) -> str:
    return (
        f"{FIT}: a matrix product wants as many columns on the left, here {columns}, as rows on the"
        f" right, here {rows}."
    )


def _of_shapes(text: str) -> tuple[str, str]:
    """Of shapes that are lined up, written or counted; ("", "") if there are none in the text."""
    if found := LINED_UP.search(text):
        return f"{FIT}: {lined_up(found[1], found[2])}", BOTH
    if found := ARRAYS.search(text):
        return f"{FIT}: {found[1]} and {found[2]}, lined up from the last axis.", BOTH
    if found := EXPANDED.search(text):
        return (
            f"{FIT}: ({found[4]}) cannot be expanded to ({found[3]}), where an axis of {found[2]}"
            f" would become one of {found[1]}. Only an axis of length 1 is repeated.",
            BOTH,
        )
    if found := WRITTEN.search(text):
        return (
            f"{FIT}: what is written has the shape ({found[1]}), and the places that it is written"
            f" to have ({found[2]}).",
            BOTH,
        )
    if found := COUNTS.search(text):
        return _of_counts([int(size) for size in found[1].split(",")], int(found[2]))
    if found := ARRAY_COUNTS.search(text):
        sizes = [int(size) for size in found[2].split(",") if size.strip()]
        return _of_counts(sizes, int(found[1]))
    if found := PARTS.search(text):
        total = sum(int(size) for size in found[2].split(",") if size.strip())
        return (
            f"The parts asked for have {total} places in all, and the axis has {found[1]}.",
            "split takes the length of each part, chunk how many parts there should be.",
        )
    if found := NORMALISED.search(text):
        return (
            f"The norm goes over ({found[1]}), and the shape of what it is given, ({found[2]}),"
            " does not end so.",
            "It is always over the last axes. Print the shape.",
        )
    return "", ""


def lined_up(places: str, others: str, one: str = "one", other: str = "the other") -> str:
    """That two lengths are not equal, and whose they are, where that is known."""
    return f"lined up from the last axis, {one} has {places} places where {other} has {others}."


def _of_axes(text: str) -> tuple[str, str]:
    """Of axes that are not there, or have another length; ("", "") if the text names none."""
    if found := AXES.search(text):
        last = int(found[1]) - 1
        return f"Here axes go from {-last - 1} to {last}: there is no axis {found[2]}.", FEWER_AXES
    if found := ARRAY_AXES.search(text):
        return f"The array has {found[2]} axes, and so no axis {found[1]}.", FEWER_AXES
    if found := SUBSCRIPTS.search(text):
        return (
            f"The equation names {found[1]} axes of tensor {found[3]}, counted from 0, and it has"
            f" {found[2]}.",
            "... stands for any number of axes in front, as in ...d,wd->...w.",
        )
    if found := LETTER.search(text):
        return (
            f"The letter {found[1]} stands for an axis of {found[2]} in tensor {found[3]}, counted"
            f" from 0, and for one of {found[4]} before it.",
            "A letter is one length. What is not to be summed over needs another letter.",
        )
    return "", ""


def _of_counts(sizes: list[int], numbers: int) -> tuple[str, str]:
    """Of a reshape: how many numbers the sizes would make, and how many there are."""
    product = 1
    for size in sizes:
        product *= size if size > 0 else 1
    instead = "Print the shape before it, and multiply both out."
    if -1 in sizes:
        said = f"The sizes asked for multiply to {product}, which does not divide {numbers}"
    else:
        said = f"The sizes asked for make {product} numbers, and there are {numbers}"
        apart = abs(product - numbers)
        if product % apart == 0 and min(product, numbers) >= FEWEST_TOKENS * apart:
            instead += " Is the class token counted in one of the two only?"
    return f"{said}.", instead
