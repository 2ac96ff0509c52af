"""Two known slips in one answer, as whoever makes one often does."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .comparing import compare, ended
from .exercise import Exercise, Slip

SECONDS = 1.0  # of computing, for the whole search
# what is done beside nothing else, or has a consequence by itself, does not fit a second slip
LONELY = (" alone", "only ", " and so ")


def two_slips(
    exercise: Exercise,
    values: list[tuple[str, Any]],
    end: tuple[type, list[str]],
    spoilt: Callable[[Slip], set[int]],
) -> tuple[Any, tuple[Slip, Slip]] | None:
    """The wrong answer that two slips make together, and the two, if it gives all the same values.

    None if no two do, or if none is found in time.

    Args:
        exercise: whose slips are tried.
        values: what the answer gave.
        end: how its run ended, as ``Outcome.end`` says it.
        spoilt: which of the answer's right values a slip alone makes wrong. Two slips that spoil
            the same one are not named: whoever made both would not have it right.
    """
    end_of_search = time.thread_time() + SECONDS
    for mutant, slips in _pairs(exercise):
        if spoilt(slips[0]) & spoilt(slips[1]):
            continue
        if _gives(exercise, mutant, values, end):
            return mutant, slips
        if time.thread_time() > end_of_search:
            return None
    return None


def _pairs(exercise: Exercise) -> Iterator[tuple[Any, tuple[Slip, Slip]]]:
    """The solution with both edits, for each two slips that edit different places.

    A slip that edits several places moves a step, as a rule; its words are not true of the rest of
    an answer in which another step is wrong, too.
    """
    edits = []
    for slip in exercise.slips:
        is_lonely = any(word in slip.did for word in LONELY) and not slip.did.startswith("return")
        if isinstance(slip.edit, dict) and len(slip.edit) == 1 and not is_lonely:
            edits.append(slip)
    for first, second in itertools.combinations(edits, 2):
        if first.edit.keys() & second.edit.keys():
            continue
        try:
            mutant = exercise.edited({**first.edit, **second.edit})
        except (ValueError, SyntaxError):  # one edit removes what the other one changes
            continue
        yield mutant, (first, second)


def _gives(
    exercise: Exercise, mutant: Any, values: list[tuple[str, Any]], end: tuple[type, list[str]]
) -> bool:
    """Whether a wrong answer gives these values, and no more. It ends at the first other one."""
    torch.default_generator.manual_seed(0)
    number = 0
    try:
        for what, value in exercise.compare(mutant):
            if number == len(values):
                return False
            if compare(what, values[number][1], value, exercise.tolerance) is not None:
                return False
            number += 1
    except Exception as error:
        return number == len(values) and ended(error) == end
    return number == len(values) and end == ended(None)
