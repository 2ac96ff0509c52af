"""How much help a check gives: what it says at the first failure and at the next, and which hints.

A class can turn off what to do instead, and hint 3, the solution: ``MNIST_VIT_HINTS=2``, or a file
``hints.txt`` beside ``my_vit.py`` that holds the number 2.
"""

import os
from contextlib import suppress

from ..files import out_dir, read_text
from .checking import Judgement

FILE = "hints.txt"
VARIABLE = "MNIST_VIT_HINTS"
ALL = 3  # the number of the last hint, the solution

_failed: set[str] = set()  # exercises whose last answer in this process was wrong


def most_help() -> int:
    """The number of the last hint that is given, 0 to 3; below 3 no check says what to do instead.

    It is what ``MNIST_VIT_HINTS`` says, else ``hints.txt``, else 3. What is no such number counts
    as 2, since somebody wanted less than everything.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        with suppress(OSError, UnicodeDecodeError):
            text = read_text(out_dir(FILE)).strip()
    if not text:
        return ALL
    return int(text) if text in ("0", "1", "2", "3") else 2


def sentence(name: str, judgement: Judgement) -> str:
    """What a check prints: what the answer does, and from the second failure on what to do instead.

    A right answer begins anew. The unsolved stub is no failure.
    """
    failed_before = name in _failed
    if judgement.passed:
        _failed.discard(name)
    elif judgement.begun:
        _failed.add(name)
    return judgement.all if failed_before and most_help() == ALL else judgement.said
