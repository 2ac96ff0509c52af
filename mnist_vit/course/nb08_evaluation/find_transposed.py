"""Exercise: which of three confusion matrices is transposed?"""
# ruff: noqa: B007, place is the answer

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake


def my_find_transposed(matrices: Tensor, images: Tensor) -> int:
    """(3, k, k) counts and (k,) images of each class -> which of the matrices is transposed: 0, 1 or 2."""
    for place, matrix in enumerate(matrices):
        rows = matrix.sum(dim=1)  # a row holds all images of its class
        if not torch.equal(rows, images):
            break
    return place


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    places: list[int] = []
    for matrices, images in _trios():
        place = answer(matrices, images)
        if places and place is None:
            raise Mistake(
                "nothing came back for some of the trios: there none of the three was found. One row that does not add "
                "up is enough; some rows of a transposed matrix may be right."
            )
        if place is None or place is ...:
            yield "place", place
            return
        if isinstance(place, Tensor) and place.numel() == 1 and not place.is_floating_point():
            place = place.item()
        if isinstance(place, bool) or not isinstance(place, Integral) or abs(int(place)) > 99:
            raise Mistake("the answer must be a place, 0, 1 or 2, as an int.")
        places.append(int(place))
    yield f"places found in {len(places)} trios of matrices", torch.tensor(places)


def _trios() -> Iterator[tuple[Tensor, Tensor]]:
    """Three matrices each, one of them transposed, and how many images each class has.

    In the last four as many images come into one class as leave it, so that one row of the transposed matrix is right.
    """
    generator = torch.Generator().manual_seed(82)
    for number, place in enumerate((1, 0, 2, 2, 1, 0, 2, 1, 1, 1, 1)):
        images = torch.tensor([30, 41, 25, 36]) + torch.randint(10, (4,), generator=generator)
        labels = torch.arange(4).repeat_interleave(images)
        matrices = []
        for i in range(3):
            slip = torch.rand(len(labels), generator=generator) < 0.1 + 0.2 * torch.rand(1, generator=generator)
            step = torch.randint(1, 3, (len(labels),), generator=generator)
            named = torch.where(slip, (labels + step) % 4, labels)
            matrices.append(torch.bincount(4 * labels + named, minlength=16).view(4, 4))
            if i == place:
                matrices[i] = matrices[i].T.contiguous()
        if number >= 2 and place > 0:  # as many come into each class as leave it: the columns add up here, too
            wrong = torch.tensor([[0, 3, 0, 0], [0, 0, 2, 1], [2, 0, 0, 0], [1, 0, 0, 0]])
            matrices[0] = wrong + (images - wrong.sum(dim=1)).diag()
        if number >= 7:
            wrong = torch.tensor([[0, 3, 0, 0], [3, 0, 2, 0], [0, 0, 0, 1], [0, 0, 0, 0]]).roll(
                (number, number), (0, 1)
            )
            matrices[place] = (wrong + (images - wrong.sum(dim=1)).diag()).T.contiguous()
        yield torch.stack(matrices), images


LOOP = """for place, matrix in enumerate(matrices):
        rows = matrix.sum(dim=1)  # a row holds all images of its class
        if not torch.equal(rows, images):
            break
    return place"""
FITS, END = "not torch.equal(rows, images)", "return place"

SLIPS = (
    ({"sum(dim=1)": "sum(dim=0)"},
     "look for columns that do not add up. A column holds all that was called so, and that may be any number; each "
     "row must add up to the images of its class: matrix.sum(dim=1)"),
    *(({FITS: f"rows[{row}] != images[{row}]"},
       f"look at row {row} alone: it may be right by chance. Compare all rows") for row in range(4)),
    ({FITS: "(rows != images).all()"},
     "look for a matrix in which no row adds up: some rows of a transposed matrix may be right. One that does not "
     "add up is enough"),
    ({FITS: "torch.equal(rows, images)"},
     "name the first matrix whose rows add up. That one is right: name the one whose rows do not"),
    ({"sum(dim=1)": "sum(dim=0)", FITS: "torch.equal(rows, images)"},
     "look for columns that add up to the images. They do in the transposed matrix, and sometimes in a right one, "
     "when as many come into each class as leave it. Look for rows that do not add up"),
    ({END: "return place + 1"}, "count from 1. The first matrix is number 0"),
    ({LOOP: "return int((matrices.diagonal(dim1=1, dim2=2).sum(dim=1) / matrices.sum(dim=(1, 2))).argmin())"},
     "name the matrix of the least accurate model. Transposing leaves the diagonal, and so the accuracy, as it was: "
     "compare row sums"),
    ({LOOP: "return int((matrices - matrices.transpose(1, 2)).abs().sum(dim=(1, 2)).argmax())"},
     "name the matrix that is least symmetric. A matrix and its transposed are equally so: compare row sums"),
    ({LOOP: "return int((matrices.sum(dim=1) - images).abs().sum(dim=1).argmax())"},
     "name the matrix whose columns are farthest from the number of images. With three axes dim=1 runs down the "
     "columns; the rows are added up by dim=2"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_find_transposed,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "Transposing changes neither the sum of the matrix nor its diagonal. What of it is known without any model? "
        "How many images each class has.",
        "In a right matrix row i adds up to images[i]. Go through the three matrices with enumerate, and compare "
        "matrix.sum(dim=1) with images: torch.equal says whether all numbers are the same.",
    ),
    same=(
        {LOOP: "rows = matrices.sum(dim=2)\n    return int((rows != images).any(dim=1).int().argmax())"},
        {LOOP: "return int((matrices.sum(dim=2) - images).abs().sum(dim=1).argmax())"},
    ),
)
