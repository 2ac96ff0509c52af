"""The verdict on an answer: run it on the exercise's inputs, compare all values, say what is wrong.

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

from ...errors import printable
from ..observing.calls import Call, calls_of
from ..observing.observers import Evidence, observe
from ..observing.tracing import Step, Trace, first_unknown, is_theirs
from ..observing.undisturbed import undisturbed
from .comparing import compare, compared
from .elsewhere import elsewhere
from .exercise import Exercise, Mistake, Slip
from .own_code import Watch, borrowed

SLOW = 1.0  # seconds; an answer whose calls take longer is not traced
SURELY = "You get exactly this when you"
PERHAPS = "This happens, for instance, when you"


@dataclass
class Outcome:
    """The result of running an answer.

    Attributes:
        values: (what, value) pairs, the values as they were when they came.
        problems: for each value, how it differs from the expected one; None if it does not.
        error: the exception that ended the run.
        calls: the calls of the answer.
    """

    values: list[tuple[str, Any]] = field(default_factory=list)
    problems: list[str | None] = field(default_factory=list)
    error: BaseException | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def first(self) -> int | None:
        """The place of the first wrong value; None if there is none."""
        for place, problem in enumerate(self.problems):
            if problem is not None:
                return place
        return None

    @property
    def end(self) -> tuple[type, str]:
        """How the run ended: the kind of exception, and its words where nothing came before it."""
        return type(self.error), "" if self.values else str(self.error)


def verdict(exercise: Exercise, answer: Any, own: bool = False) -> tuple[bool, str]:
    """Whether the answer is right, and the sentence to show.

    Raises nothing, whatever the answer does. With ``own`` it must be the learner's own code, too.
    """
    with undisturbed():
        try:
            problem = _problem(exercise, answer, own)
        except Exception as error:  # the result is sparse, on meta, or has a broken __str__
            problem = f"what came back cannot be compared ({type(error).__name__})."
    if problem is not None:
        return False, f"{exercise.name}: {problem}".replace("?.", "?")
    names = [what for what, _ in solution(exercise).values]
    return True, f"{exercise.name}: correct (tested: {compared(names)})"


def nearest_exercise(name: str, known: Collection[str]) -> str:
    """A sentence for an unknown name."""
    said = f'there is no exercise "{name}"'
    close = difflib.get_close_matches(name, known, 1, 0.4)
    if close:
        return f'{said}; did you mean "{close[0]}"?'
    return f"{said}: {', '.join(known)}"


# --------------------------------------------------------------------------------- running answers


def run(exercise: Exercise, answer: Any, expected: list[tuple[str, Any]] | None = None) -> Outcome:
    """Run an answer to its end, or to an exception, and compare each value as it comes."""
    outcome = Outcome()
    torch.default_generator.manual_seed(0)  # the same values each time, whatever ran before
    with calls_of(answer) as (answer, outcome.calls):
        try:
            for number, (what, value) in enumerate(exercise.compare(answer)):
                if expected is not None:
                    if number == len(expected):
                        break
                    _, right = expected[number]
                    outcome.problems.append(compare(what, value, right, exercise.tolerance))
                outcome.values.append((what, _snapshot(value)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a learner's exit() must not end the notebook
            outcome.error = error
    return outcome


def _snapshot(value: Any) -> Any:
    """A tensor as it is now: what is written over later is compared as it was."""
    if isinstance(value, Tensor) and value.layout == torch.strided:
        return value.detach().clone()
    return value


@functools.cache
def solution(exercise: Exercise) -> Outcome:
    """The outcome of the exercise's own solution; it is the same each time."""
    outcome = run(exercise, exercise.answer)
    if outcome.error is not None:
        raise outcome.error
    return outcome


@functools.cache
def outcomes(exercise: Exercise) -> list[tuple[Outcome, Slip]]:
    """The outcome of each known slip."""
    return [(run(exercise, mutant), slip) for mutant, slip in exercise.mutants]


# --------------------------------------------------------------------------------- what is wrong


def _problem(exercise: Exercise, answer: Any, own: bool) -> str | None:
    """What is wrong with the answer, as a sentence or two; None if nothing is."""
    unsolved = (
        f'not solved yet. Replace the stub\'s last line; check.hint("{exercise.name}", 1) helps.'
    )
    if answer is None or answer is ...:
        return unsolved
    expected = solution(exercise).values
    with Watch(exercise) as watch:
        got = run(exercise, answer, expected)
    if _is_stub(got.error):
        return unsolved
    if got.values and (got.values[0][1] is None or got.values[0][1] is ...):
        return f"nothing came back. Is the return line missing? If you have not begun: {unsolved}"
    if got.first is not None:
        return f"{got.problems[got.first]}{_explanation(exercise, answer, got)}"
    if isinstance(got.error, Mistake):
        return str(got.error)
    if got.error is not None:
        return f"{told(got.error)}{_explanation(exercise, answer, got)}"
    if len(got.values) < len(expected):
        return f"the check ended before {expected[len(got.values)][0]}."
    problem = None
    if own:
        problem = watch.problem or borrowed(exercise, answer, got.calls)
    return problem or elsewhere(exercise, solution(exercise).calls, got.calls)


def _is_stub(error: BaseException | None) -> bool:
    """Whether the answer raised what a stub raises; torch gives it a text, a stub does not."""
    return isinstance(error, NotImplementedError) and not error.args


def _explanation(exercise: Exercise, answer: Any, got: Outcome) -> str:
    """The order of what is told: a slip, an observation that says why, a slip so far, the rest."""
    slip = _named_slip(exercise, got)
    if slip is not None:
        certainty = SURELY if _has_wrong_numbers(got) else PERHAPS
        return f" {certainty} {slip.sentence}."
    observation, says_why = _observation(exercise, got)
    if says_why:
        return f" {observation}"
    slip = _slip_so_far(exercise, got)
    if slip is not None:
        return (
            f" So far this is what you get when you {slip.did}; what comes later differs from that,"
            " too."
        )
    explanation = ""
    for sentence in (observation, _first_unknown_step(exercise, answer, got)):
        if sentence:
            explanation += f" {sentence}"
    return explanation


def _named_slip(exercise: Exercise, got: Outcome) -> Slip | None:
    """The first known slip that gives all the same values, and ends alike."""
    for outcome, slip in outcomes(exercise):
        if _same_values(exercise, outcome, got) and outcome.end == got.end:
            return slip
    return None


def _slip_so_far(exercise: Exercise, got: Outcome) -> Slip | None:
    """The first known slip that gives several of the wrong tensors, before something else does."""
    for outcome, slip in outcomes(exercise):
        if _same_mistakes(exercise, outcome, got) > 1:
            return slip
    return None


def _observation(exercise: Exercise, got: Outcome) -> tuple[str, bool]:
    """What can be observed of the first wrong value, and whether it says why."""
    ours = solution(exercise)
    if got.first is None:
        return observe(Evidence(ours.calls, got.calls, "", None, None))
    what, value = got.values[got.first]
    expected = ours.values[got.first][1]
    return observe(Evidence(ours.calls, got.calls, what, value, expected))


def _first_unknown_step(exercise: Exercise, answer: Any, got: Outcome) -> str:
    """The learner's line whose result is no intermediate value of several right solutions."""
    if got.first is None or sum(call.seconds for call in got.calls) > SLOW:
        return ""
    _, value = got.values[got.first]
    _, expected = solution(exercise).values[got.first]
    if not isinstance(value, Tensor) or not isinstance(expected, Tensor):
        return ""
    steps = _traced(exercise, answer)
    return first_unknown(steps, _known_steps(exercise), exercise.source)


@functools.cache
def _known_steps(exercise: Exercise) -> list[Step]:
    """The operations of all right answers that the exercise knows."""
    known = []
    for right in exercise.others:
        known += _traced(exercise, right)
    return known


def _traced(exercise: Exercise, answer: Any) -> list[Step]:
    """The operations of an answer on the exercise's inputs."""
    with Trace() as trace:
        run(exercise, answer)
    return trace.steps


# ---------------------------------------------------------------------------- comparing outcomes


def _same_values(exercise: Exercise, mutant: Outcome, got: Outcome) -> bool:
    """Whether a mutant gives the same values as the answer, and no more."""
    if len(mutant.values) != len(got.values):
        return False
    for (what, theirs), (_, value) in zip(got.values, mutant.values, strict=True):
        if compare(what, theirs, value, exercise.tolerance) is not None:
            return False
    return True


def _same_mistakes(exercise: Exercise, mutant: Outcome, got: Outcome) -> int:
    """How many wrong tensors, counted from the first value on, are those of the mutant.

    Single numbers and words do not count.
    """
    same = 0
    rows = zip(got.values, mutant.values, got.problems, strict=False)
    for (what, theirs), (_, value), problem in rows:
        if compare(what, theirs, value, exercise.tolerance) is not None:
            break
        is_large = isinstance(theirs, Tensor) and theirs.numel() > 3
        if problem is not None and is_large:
            same += 1
    return same


def _has_wrong_numbers(got: Outcome) -> bool:
    """Whether a wrong value holds numbers.

    Many ways lead to the same wrong word or exception, but few to the same wrong numbers.
    """
    for (_, value), problem in zip(got.values, got.problems, strict=True):
        if problem is not None and _holds_numbers(value):
            return True
    return False


def _holds_numbers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_numbers, value))
    return isinstance(value, Tensor | int | float) and not isinstance(value, bool)


# --------------------------------------------------------------------------------------- exceptions


def told(error: BaseException) -> str:
    """A learner's exception in one sentence, with the line of theirs that raised it."""
    line = _line_of(error)
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else ""
    if "leaf" in first and "in-place" in first:
        return (
            f"a parameter or an input is changed in place{line}. Where you compute with it, make a"
            " new tensor: x = x + … and not x += …, or x.clone() before you write into it. Where"
            " it is the parameter that is to change, write into it under with torch.no_grad()."
        )
    said = f"your code raised {type(error).__name__}{line}"
    if first:
        said = f"{said}: {printable(first[:200])}"
    return said if first and said.endswith((".", "!", "?")) else f"{said}."


def _line_of(error: BaseException) -> str:
    """The learner's line nearest to the error, as the end of a sentence."""
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            code = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
            line = f" in the line `{code}`" if code else ""
    return line
