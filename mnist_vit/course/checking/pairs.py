"""Two mistakes at once: what two slips give together, where no single one explains an answer."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from .exercise import Exercise, Slip

SECONDS = 1.0  # that may be spent on it
MOST = 0.1  # seconds that a run may take, so that many can be tried


def two_slips(
    exercise: Exercise, is_same: Callable[[Any], bool], seconds: float
) -> tuple[Slip, Slip] | None:
    """The two slips that give together what the answer gave; None if none are found in time.

    Args:
        exercise: the exercise.
        is_same: whether a wrong answer gives the very values of the one that is judged.
        seconds: how long the solution runs.
    """
    if seconds > MOST:
        return None
    end = time.thread_time() + SECONDS
    for mutant, first, second in _pairs(exercise):
        if is_same(mutant):
            return first, second
        if time.thread_time() > end:
            break
    return None


def _pairs(exercise: Exercise) -> Iterator[tuple[Any, Slip, Slip]]:
    """Answers with two mistakes; edits that exclude each other are left out."""
    for first, second in itertools.combinations(exercise.slips, 2):
        if not isinstance(first.edit, dict) or not isinstance(second.edit, dict):
            continue
        if first.edit.keys() & second.edit.keys():
            continue
        for edit in (first.edit | second.edit, second.edit | first.edit):
            try:
                mutant = exercise.edited(edit)
            except (ValueError, SyntaxError):
                continue  # one edit takes away the text of the other
            yield mutant, first, second
            break
