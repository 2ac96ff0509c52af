"""Checks of the exercises: ``check.<exercise>(answer)`` says "correct" or names the mistake;
``check.hint`` helps.

A right answer that is a piece of the Vision Transformer is kept in ``my_vit.py``;
``check.my_vit()`` gives the module, ``check.progress()`` says what is solved,
``check.earlier("mlp_block")`` finds what was accepted before, ``check.restore()`` brings
back what ``my_vit.py`` lacks, ``check.solved(answer, "gelu")``
gives ours where the answer is missing, ``check.download()`` saves the file from Colab.
``check.my_weights()`` loads the model that notebook 07 has trained.
``check.vit(AnyClass)`` compares anybody's Vision Transformer with torchvision's, part by part;
``check.vit_file("FILE.py")`` one in a file;
``check.page("page.py")`` judges a model and its tests that were written on a blank page.

This is the only module outside ``course``, the folder of the exercises, that imports from it.
"""

from collections.abc import Callable
from typing import Any

from .course.asking import EXERCISES, check_of, hint, solved
from .course.keeping import colab, download, earlier, my_vit, progress, restore
from .course.nb06_vision_transformer.page import page
from .course.own_weights import my_weights
from .course.whole_vit import vit, vit_file

__all__ = [
    "EXERCISES",
    "colab",
    "download",
    "earlier",
    "hint",
    "my_vit",
    "my_weights",
    "page",
    "progress",
    "restore",
    "solved",
    "vit",
    "vit_file",
    *EXERCISES,
]


def __getattr__(name: str) -> Callable[[Any], None]:
    return check_of(name)


def __dir__() -> list[str]:
    return __all__
