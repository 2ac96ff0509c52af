"""A template for an exercise: copy its parts to the places that docs/teaching.md names. It is tested as it stands.

The example asks for what a patch embedding does to a picture before anything is learned: cut it into squares.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from mnist_vit.check.core import Exercise, Mutant, gradients, random

# Part 1, for the notebook, in a cell with the tag ``exercise:cut_patches``: the stub. The docstring gives the shapes.
STUB = '''\
def my_patches(image: Tensor, p: int) -> Tensor:
    """(h, w), patch size p -> (patches, p * p), row by row of patches, and row by row within a patch."""
    raise NotImplementedError
'''

# Part 2, for the notebook, in the next cell, with the tag ``check:cut_patches``.
CHECK = "check.cut_patches(my_patches)"


# Part 3, for notebooks/solutions/<the notebook>.py, below the line ``# exercise: cut_patches``.
def my_patches(image: Tensor, p: int) -> Tensor:
    """(h, w), patch size p -> (patches, p * p), row by row of patches, and row by row within a patch."""
    h, w = image.shape
    return image.view(h // p, p, w // p, p).transpose(1, 2).reshape(-1, p * p)


# Part 4, for mnist_vit/check/nb<number>_<topic>.py: the reference, a way to run an answer, and likely mistakes.
def _run(answer: Callable[[Tensor, int], Tensor]) -> Iterator[tuple[str, Any]]:
    """Yields what is compared, in its order. No side is as long as another, so that no mistake is right by chance."""
    image = random(4, 6, seed=1).requires_grad_()
    patches = answer(image, 2)
    yield "matrix of 6 patches of 4 pixels", patches
    yield from gradients(patches, image=image)


def _columns_first(image: Tensor, p: int) -> Tensor:
    return my_patches(image.T, p).reshape(-1, p, p).transpose(1, 2).reshape(-1, p * p)


CUT_PATCHES = Exercise(
    name="cut_patches",
    answer="my_patches",
    stars=1,
    reference=my_patches,
    run=_run,
    mutants=(  # right shape, wrong numbers: what people really write, each with what they did
        Mutant(
            lambda image, p: image.reshape(-1, p * p),
            "reshape the picture at once. A patch is then p * p neighbours of one row, and no square: make four axes "
            "of the two, and bring the two that belong to a patch side by side",
        ),
        Mutant(
            _columns_first,
            "go down the columns of patches. The next patch is the one to the right",
        ),
        Mutant(
            lambda image, p: my_patches(image, p).reshape(-1, p, p).transpose(1, 2).reshape(-1, p * p),
            "read each patch column by column. Its pixels go row by row",
        ),
    ),
    hints=(  # a nudge, the way, nearly the solution
        "Which two axes would you need beside the two of the picture, to point at a patch and at a pixel within it?",
        "Split rows into (rows of patches, rows in a patch), columns alike; exchange the two axes in the middle.",
        "return image.view(h // p, p, w // p, p).transpose(1, 2).reshape(-1, p * p), with h, w = image.shape",
    ),
)

# Part 5: add it to EXERCISES at the end of that file. ``check.cut_patches`` and ``check.hint`` then exist.
EXERCISES = (CUT_PATCHES,)

if __name__ == "__main__":
    from mnist_vit.check.core import verdict

    torch.manual_seed(0)
    print(verdict(CUT_PATCHES, my_patches)[1])
    for mutant in CUT_PATCHES.mutants:
        print(verdict(CUT_PATCHES, mutant.answer)[1])
