"""The verdict on an answer: run it on the exercise's inputs, compare all values, and say what is
wrong.

On a difference the sentence says, in this order: the name of the mistake if a known slip gives all
the same values; else what can be observed (``observing``); else the first wrong number.
"""

import difflib
import functools
import linecache
import traceback
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..observing.calls import Call, calls_of
from ..observing.observers import observe
from ..observing.tracing import Trace, first_unknown, is_theirs
from ..observing.undisturbed import undisturbed
from .comparing import compare, compared
from .exercise import Exercise, Mistake, Slip


@dataclass
class Outcome:
    """What came of running an answer: the values, as they were when they came, and what ended it
    early."""

    values: list[tuple[str, Any]] = field(default_factory=list)
    problems: list[str | None] = field(
        default_factory=list
    )  # for each value, how it differs from the expected one
    error: BaseException | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def first(self) -> int | None:
        """The place of the first wrong value; None if there is none."""
        return next((i for i, problem in enumerate(self.problems) if problem is not None), None)


def verdict(exercise: Exercise, answer: Any) -> tuple[bool, str]:
    """Whether the answer is right, and the sentence to show. Raises nothing, whatever the answer
    does."""
    with undisturbed():
        try:
            problem = _problem(exercise, answer)
        except (
            Exception
        ) as error:  # what came back cannot even be looked at: sparse, meta, a broken __str__
            problem = f"what came back cannot be compared ({type(error).__name__})."
    if problem is not None:
        return False, f"{exercise.name}: {problem}".replace("?.", "?")
    return (
        True,
        (
            f"{exercise.name}: correct (tested:"
            f" {compared([what for what, _ in _solution(exercise).values])})"
        ),
    )


def nearest_exercise(name: str, known: Collection[str]) -> str:
    """A sentence for an unknown name."""
    close = difflib.get_close_matches(name, known, 1, 0.4)
    return f'there is no exercise "{name}"' + (
        f'; did you mean "{close[0]}"?' if close else f": {', '.join(known)}"
    )


def run(exercise: Exercise, answer: Any, expected: list[tuple[str, Any]] | None = None) -> Outcome:
    """Run an answer to its end, or to an exception, and compare each value as it comes."""
    outcome = Outcome()
    torch.default_generator.manual_seed(
        0
    )  # the same answer gets the same values, whatever ran before
    with calls_of(answer) as (answer, outcome.calls):
        try:
            for number, (what, value) in enumerate(exercise.compare(answer)):
                if expected is not None and number == len(expected):
                    break
                if expected is not None:
                    outcome.problems.append(
                        compare(what, value, expected[number][1], exercise.tolerance)
                    )
                if isinstance(value, Tensor) and value.layout == torch.strided:
                    value = (
                        value.detach().clone()
                    )  # what is written over later is compared as it was
                outcome.values.append((what, value))
        except KeyboardInterrupt:
            raise
        except (
            BaseException
        ) as error:  # SystemExit too: a learner's exit() must not end the notebook
            outcome.error = error
    return outcome


@functools.cache
def _solution(exercise: Exercise) -> Outcome:
    """What the solution gives; it is the same each time."""
    outcome = run(exercise, exercise.answer)
    if outcome.error is not None:
        raise outcome.error
    return outcome


@functools.cache
def _slips(exercise: Exercise) -> list[tuple[Outcome, Slip]]:
    """What each slip gives."""
    return [(run(exercise, mutant), slip) for mutant, slip in exercise.mutants]


def _problem(exercise: Exercise, answer: Any) -> str | None:
    """What is wrong with the answer, as a sentence or two; None if nothing is."""
    unsolved = (
        f'not solved yet. Replace the stub\'s last line; check.hint("{exercise.name}", 1) helps.'
    )
    if answer is None or answer is ...:
        return unsolved
    expected = _solution(exercise).values
    got = run(exercise, answer, expected)
    # A stub raises it bare; torch raises it with a text, for instance for whole numbers.
    if isinstance(got.error, NotImplementedError) and not got.error.args:
        return unsolved
    if got.values and (got.values[0][1] is None or got.values[0][1] is ...):
        return f"nothing came back. Is the return line missing? If you have not begun: {unsolved}"
    if got.first is not None:
        problem = got.problems[got.first]
    elif isinstance(got.error, Mistake):
        return str(got.error)
    elif got.error is not None:
        problem = told(got.error)
    elif len(got.values) < len(expected):
        return f"the check ended before {expected[len(got.values)][0]}."
    else:
        return None
    return f"{problem}{_explanation(exercise, answer, got)}"


def _explanation(exercise: Exercise, answer: Any, got: Outcome) -> str:
    """A known slip that gives all the same values; else what can be observed; else a slip that fits
    so far."""
    so_far = ""
    for theirs, slip in _slips(exercise):
        if _same(exercise, theirs, got, len(got.values)) and _end(theirs) == _end(got):
            return f" {_surely(got)} {slip.sentence}."
        if _same_mistakes(exercise, theirs, got) > 1:
            so_far = (
                so_far
                or f" So far this is what you get when you {slip.did}; what comes later differs"
                " from that, too."
            )
    what, value, expected = "", None, None
    if got.first is not None:
        (what, value), expected = got.values[got.first], _solution(exercise).values[got.first][1]
    said, why = observe(_solution(exercise).calls, got.calls, what, value, expected)
    if not why and so_far:
        return so_far
    slow = sum(call.seconds for call in got.calls) > 1
    if not why and not slow and isinstance(value, Tensor) and isinstance(expected, Tensor):
        said += " " + _first_unknown_step(exercise, answer)
    return f" {said.strip()}".rstrip()


def _first_unknown_step(exercise: Exercise, answer: Any) -> str:
    """The learner's line whose result is none of the intermediate values of several right
    solutions, in a sentence."""
    traces = []
    for one in (*exercise.others, answer):
        with Trace() as trace:
            run(exercise, one)
        traces.append(trace.steps)
    return first_unknown(
        traces[-1], [step for steps in traces[:-1] for step in steps], exercise.source
    )


def _same(exercise: Exercise, mutant: Outcome, got: Outcome, count: int) -> bool:
    """Whether a mutant gives the same first values as the answer; all of them if there are no
    more."""
    if len(mutant.values) < count or (count == len(got.values) and len(mutant.values) > count):
        return False
    pairs = zip(got.values[:count], mutant.values[:count], strict=True)
    return all(
        compare(what, mine, theirs, exercise.tolerance) is None
        for (what, mine), (_, theirs) in pairs
    )


def _surely(got: Outcome) -> str:
    """How a slip is named: many ways lead to the same wrong word or exception, but few to the same
    wrong numbers."""
    wrong = [
        value
        for (_, value), problem in zip(got.values, got.problems, strict=True)
        if problem is not None
    ]
    numbers = any(map(_holds_numbers, wrong))
    return "You get exactly this when you" if numbers else "This happens, for instance, when you"


def _holds_numbers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_numbers, value))
    return isinstance(value, Tensor | int | float) and not isinstance(value, bool)


def _end(outcome: Outcome) -> tuple[type, str]:
    """How a run ended: without an exception, or with which; the words count only where nothing came
    before it."""
    return type(outcome.error), "" if outcome.values else str(outcome.error)


def _same_mistakes(exercise: Exercise, mutant: Outcome, got: Outcome) -> int:
    """How many wrong values, counted from the first on, are those of the mutant, and no single
    number or word."""
    same = 0
    for (what, mine), (_, theirs), problem in zip(
        got.values, mutant.values, got.problems, strict=False
    ):
        if compare(what, mine, theirs, exercise.tolerance) is not None:
            break
        same += problem is not None and isinstance(mine, Tensor) and mine.numel() > 3
    return same


def told(error: BaseException) -> str:
    """A learner's exception in one sentence, with the line of theirs that raised it."""
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            code = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
            line = f" in the line `{code}`" if code else ""
    first = (str(error).strip().splitlines() or [""])[0]
    if "leaf" in first and "in-place" in first:
        return (
            f"a parameter or an input is changed in place{line}. Where you compute with it, make a"
            " new tensor: x = x + … and not x += …, or x.clone() before you write into it. Where"
            " it is the parameter that is to change, write into it under with torch.no_grad()."
        )
    said = f": {first[:200]}" if first else ""
    return (
        "your code raised"
        f" {type(error).__name__}{line}{said}{'' if said.endswith(('.', '!', '?')) else '.'}"
    )
