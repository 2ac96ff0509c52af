"""The verdict on an answer: run it on the exercise's inputs, compare all values, say what is wrong.

On a difference it says, in this order: the name of the mistake if a known slip gives all the same
values; else what can be observed (``observing``); else the first wrong number. What the answer does
and what to do instead are kept apart: the second is told when the answer fails again.
"""

import contextlib
import difflib
import functools
import io
import traceback
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..observing.blaming import blame
from ..observing.calls import Call, calls_of
from ..observing.observers import (
    Evidence,
    Finding,
    not_filled,
    observe,
    unsteady,
    unused,
)
from ..observing.tracing import Step, Trace, cut, fingerprint, is_theirs, quoted, same
from ..observing.undisturbed import undisturbed
from .cells import cell_that_sets
from .comparing import compare, compared, ended
from .elsewhere import elsewhere, kept, written_over
from .exercise import Exercise, Mistake, Slip
from .lines import their_frame
from .own_code import Watch, borrowed
from .raised import advice, told, words_of, writes_into_leaf, writes_into_parameter
from .tools import NEW_TENSOR, describe

SLOW = 1.0  # seconds; an answer whose calls take longer is not traced
RETURN = describe(None)
CASES = 4  # numbers of an answer that are counted, if there are so many
SURELY = "You get exactly this when you"
CUTS = (
    "detach(), .data, numpy(), item(), tolist(), torch.tensor(…) and torch.no_grad() cut a"
    " gradient's way back."
)
UNUSED = "No line of yours uses {}. To call a layer is to use its weight and its bias."
PERHAPS = "This happens, for instance, when you"


@dataclass
class Outcome:
    """The result of running an answer.

    Attributes:
        values: (what, value) pairs, the values as they were when they came.
        problems: for each value, how it differs from the expected one; None if it does not.
        holds_graph: for each value, whether it came as a tensor that still holds its graph.
        called: for each value, how many calls there were before it.
        error: the exception that ended the run.
        calls: the calls of the answer.
    """

    values: list[tuple[str, Any]] = field(default_factory=list)
    problems: list[str | None] = field(default_factory=list)
    holds_graph: list[bool] = field(default_factory=list)
    called: list[int] = field(default_factory=list)
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
    def seconds(self) -> float:
        """How long all calls of the answer computed."""
        return sum(call.seconds for call in self.calls)

    @property
    def end(self) -> tuple[type, list[str]]:
        """How the run ended, as ``ended`` says it."""
        return ended(self.error)


@dataclass(frozen=True)
class Judgement:
    """What is said of an answer.

    Attributes:
        passed: whether it is right.
        said: one sentence or more: what is right, or what the answer does.
        instead: what to do instead; "" if that is not known.
        begun: False while the answer is the stub.
    """

    passed: bool
    said: str
    instead: str = ""
    begun: bool = True

    @property
    def all(self) -> str:
        """Both parts."""
        return f"{self.said} {self.instead}".rstrip()


class Unsolved(Finding):
    """What is said of a stub."""


def verdict(exercise: Exercise, answer: Any, own: bool = False) -> tuple[bool, str]:
    """Whether the answer is right, and all that can be said of it, as ``judge`` does."""
    judgement = judge(exercise, answer, own)
    return judgement.passed, judgement.all


def judge(exercise: Exercise, answer: Any, own: bool = False) -> Judgement:
    """Whether the answer is right, and what to say.

    Raises nothing, whatever the answer does. With ``own`` it must be the learner's own code, too.
    """
    with undisturbed():
        try:
            finding = _finding(exercise, answer, own)
        except Exception as error:  # the result is sparse, on meta, or has a broken __str__
            finding = Finding(f"what came back cannot be compared ({type(error).__name__}).")
    if finding is not None:
        said = f"{exercise.name}: {finding.said}".replace("?.", "?")
        instead = finding.instead.replace("?.", "?")
        return Judgement(False, said, instead, begun=not isinstance(finding, Unsolved))
    names = [what for what, _ in solution(exercise).values]
    return Judgement(True, f"{exercise.name}: correct (tested: {compared(names)})")


def nearest_exercise(name: str, known: Collection[str]) -> str:
    """A sentence for an unknown name."""
    said = f'there is no exercise "{name}"'
    close = difflib.get_close_matches(name, known, 1, 0.4)
    if close:
        return f'{said}; did you mean "{close[0]}"?'
    return f"{said}: {', '.join(known)}"


# --------------------------------------------------------------------------------- running answers


def run(
    exercise: Exercise,
    answer: Any,
    expected: list[tuple[str, Any]] | None = None,
    trace: Trace | None = None,
) -> Outcome:
    """Run an answer to its end, or to an exception, and compare each value as it comes."""
    outcome = Outcome()
    torch.default_generator.manual_seed(0)  # the same values each time, whatever ran before
    with calls_of(answer) as (answer, outcome.calls):
        if trace is not None:
            trace.calls = outcome.calls
        try:
            for number, (what, value) in enumerate(exercise.compare(answer)):
                if expected is not None:
                    if number == len(expected):
                        break
                    _, right = expected[number]
                    problem = compare(what, value, right, exercise.tolerance)
                    # nothing came back is told by itself; what is None here has another cause
                    outcome.problems.append(problem and problem.replace(RETURN, "None"))
                outcome.values.append((what, _snapshot(value)))
                outcome.holds_graph.append(isinstance(value, Tensor) and value.requires_grad)
                outcome.called.append(len(outcome.calls))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a learner's exit() must not end the notebook
            # a generator, such as compare, turns this exception into another one
            stopped = isinstance(error.__cause__, StopIteration)
            outcome.error = error.__cause__ if stopped else error
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


def _finding(exercise: Exercise, answer: Any, own: bool) -> Finding | None:
    """What is wrong with the answer; None if nothing is."""
    unsolved = Unsolved(
        f'not solved yet. Replace the stub\'s last line; check.hint("{exercise.name}", 1) helps.'
    )
    if answer is None or answer is ...:
        return unsolved
    expected = solution(exercise).values
    with Watch(exercise) as watch:
        got = run(exercise, answer, expected)
    with contextlib.redirect_stdout(io.StringIO()):  # what it prints was seen once
        return _judged(exercise, answer, got, watch if own else None, unsolved)


def _judged(
    exercise: Exercise, answer: Any, got: Outcome, watch: Watch | None, unsolved: Unsolved
) -> Finding | None:
    """What is wrong with what came back; to find it, parts of the answer run again."""
    expected = solution(exercise).values
    if _is_stub(got.error):
        return _other_stub(answer, got.error) or unsolved
    if got.values and (got.values[0][1] is None or got.values[0][1] is ...):
        return Finding(
            "nothing came back.",
            f"Is the return line missing? If you have not begun: {unsolved.said}",
        )
    if got.first is not None:
        return _told(got.problems[got.first] or "", _explanation(exercise, answer, got))
    if isinstance(got.error, Mistake):
        return Finding(got.error.said, got.error.instead)
    if got.error is not None:
        told_error = _told_error(exercise, got, got.error)
        return _told(told_error.said, _explanation(exercise, answer, got), told_error.instead)
    if len(got.values) < len(expected):
        return Finding(f"the check ended before {expected[len(got.values)][0]}.")
    return _beside(exercise, answer, got, watch)


def _told(problem: str, explanation: Finding | None, instead: str = "") -> Finding:
    """A problem with what explains it."""
    if explanation is None:
        return Finding(problem, instead)
    said = f"{problem} {explanation.said}".rstrip()
    return Finding(said, explanation.instead or instead)


def _beside(exercise: Exercise, answer: Any, got: Outcome, watch: Watch | None) -> Finding | None:
    """What is wrong with an answer whose values are all right."""
    if (chance := not_filled(got.calls)) is not None:
        return _told("right this time, by chance.", chance)
    problem = None
    if watch is not None:
        problem = watch.problem or borrowed(exercise, answer, got.calls)
    problem = problem or elsewhere(exercise, solution(exercise).calls, got.calls)
    if problem is not None:
        return Finding(problem)
    ours = solution(exercise).calls
    return written_over(ours, got.calls) or kept(ours, got.calls)


def _other_stub(answer: Any, error: BaseException | None) -> Finding | None:
    """What is said where the stub that was met is not the answer, but one that it calls."""
    own = getattr(answer, "__qualname__", "")
    met = []
    for frame, _ in traceback.walk_tb(error.__traceback__ if error is not None else None):
        if is_theirs(frame.f_code.co_filename):
            met.append(frame.f_code.co_qualname)
    if not met or not own or met[-1].startswith(own):
        return None
    if not any(name.startswith(own) for name in met):
        return None
    other = met[-1].rpartition("<locals>.")[2].partition(".")[0]
    return Finding(f"{other}, which your code calls, is not solved yet.")


def _is_stub(error: BaseException | None) -> bool:
    """Whether the answer raised what a stub raises; torch gives it a text, a stub does not."""
    return isinstance(error, NotImplementedError) and not error.args


def _explanation(exercise: Exercise, answer: Any, got: Outcome) -> Finding | None:
    """What is told, the first that is known.

    Numbers that nobody has set; a slip with these numbers; an input that is not used; that calls
    differ; a slip with these words; what the exercise notices; an observation that says why; what
    the exercise tells of the value; a slip so far; the rest.
    """
    is_sure = _has_wrong_numbers(got)
    if got.first is not None and (chance := not_filled(got.calls)) is not None:
        return chance  # then all numbers may be others in the next call
    if is_sure:
        named = _named_by_its_numbers(exercise, answer, got)
        if named is not None:
            return named
    if got.first is not None and (changing := unsteady(_evidence(exercise, got))) is not None:
        return changing  # what is noticed of one call would not be true of the next
    noticed = _noticed(exercise, answer, got)
    if not is_sure:
        for mutant, alike in _slips(exercise, got):
            is_noticed = _noticed(exercise, mutant, got) == noticed
            if is_noticed and _is_alike_further_on(exercise, mutant, answer):
                return _named(PERHAPS, alike)  # else it is another mistake
    if noticed is not None:
        return noticed
    observation = _observation(exercise, got)
    own = _told_by_the_exercise(exercise, got)
    is_free = exercise.many and own is not None  # ours is one of many, so it is no measure
    if observation is not None and observation.says_why and not is_free:
        return _with_place(exercise, answer, got, _both(observation, own))
    if own is not None:
        return Finding(f"{own.said} {_cases(exercise, got)}".strip(), own.instead)
    slip = _slip_so_far(exercise, got)
    if slip is not None:
        return _named("At first your wrong numbers are exactly those that you get when you", slip)
    observation = observation or Finding(_cases(exercise, got))
    return _with_place(exercise, answer, got, observation)


def _named_by_its_numbers(exercise: Exercise, answer: Any, got: Outcome) -> Finding | None:
    """A slip with all the same numbers, or an input that is not used."""
    for mutant, slip in _slips(exercise, got):
        if _is_alike_further_on(exercise, mutant, answer):
            return _named(SURELY, slip)
    so_far = _slip_until_refused(exercise, got)
    if so_far is not None:
        return _named(SURELY, so_far)
    return unused(_evidence(exercise, got))


def _both(observation: Finding, own: Finding | None) -> Finding:
    """What was observed, and what the exercise itself says of the value."""
    if own is None:
        return observation
    said = f"{observation.said} {own.said}".rstrip()
    return Finding(said, observation.instead or own.instead)


def _named(certainty: str, slip: Slip) -> Finding:
    """What a slip did, and what to do instead."""
    return Finding(f"{certainty} {slip.did}.", f"{slip.instead}." if slip.instead else "")


def _noticed(exercise: Exercise, answer: Any, got: Outcome) -> Finding | None:
    """What the exercise itself sees in a wrong answer that gave a value."""
    if exercise.notice is None or got.first is None:
        return None
    torch.default_generator.manual_seed(0)
    with contextlib.suppress(Exception):  # an answer that raises here has shown nothing
        seen = exercise.notice(answer)
        return None if seen is None else Finding(seen.said, seen.instead)
    return None


def _is_alike_further_on(exercise: Exercise, mutant: Any, answer: Any) -> bool:
    """Whether a wrong answer and the learner's give the same on the exercise's further inputs."""
    return bool(_more(exercise, mutant) == _more(exercise, answer))


def _more(exercise: Exercise, answer: Any) -> Any:
    """What an answer gives on the further inputs, or the kind of exception that it raises."""
    if exercise.more is None:
        return None
    torch.default_generator.manual_seed(0)
    try:
        return exercise.more(answer)
    except Exception as error:  # the learner's code may raise anything
        return type(error)


def _with_place(exercise: Exercise, answer: Any, got: Outcome, finding: Finding) -> Finding:
    """What was observed; where nothing says what to do, the place in the learner's code."""
    if finding.instead or got.seconds > SLOW:
        return finding
    return Finding(finding.said, _place(exercise, answer, got))


def _slips(exercise: Exercise, got: Outcome) -> list[tuple[Any, Slip]]:
    """The known slips that give all the same values, and end alike, with their wrong answers."""
    found = []
    for (outcome, slip), (mutant, _) in zip(outcomes(exercise), exercise.mutants, strict=True):
        if _same_values(exercise, outcome, got) and outcome.end == got.end:
            found.append((mutant, slip))
    return found


def _slip_until_refused(exercise: Exercise, got: Outcome) -> Slip | None:
    """The known slip that gives all values of an answer, up to where the check refused the rest.

    Something else is missing there, such as what the answer prints; it is told later.
    """
    if not isinstance(got.error, Mistake):
        return None
    for outcome, slip in outcomes(exercise):
        before = replace(outcome, values=outcome.values[: len(got.values)])
        if _same_values(exercise, before, got) and _same_mistakes(exercise, before, got) > 1:
            return slip
    return None


def _told_by_the_exercise(exercise: Exercise, got: Outcome) -> Finding | None:
    """What the exercise itself says of the first wrong value."""
    if exercise.tell is None or got.first is None:
        return None
    said = instead = ""
    with contextlib.suppress(Exception):  # the value may be of any kind
        said, instead = exercise.tell(_evidence(exercise, got))
    return Finding(said, instead) if said or instead else None


def _slip_so_far(exercise: Exercise, got: Outcome) -> Slip | None:
    """The first known slip that gives several of the wrong tensors, before something else does."""
    for outcome, slip in outcomes(exercise):
        if _same_mistakes(exercise, outcome, got) > 1:
            return slip
    return None


def _cases(exercise: Exercise, got: Outcome) -> str:
    """Of an answer that gives a single number in several cases: in how many it is wrong."""
    rights = [value for _, value in solution(exercise).values]
    differences = []
    for (_, value), right in zip(got.values, rights, strict=False):
        if not isinstance(value, int | float) or not isinstance(right, int | float):
            return ""
        # numbers that no float holds are compared, and not subtracted
        differences.append((value > right) - (value < right))
    wrong = []
    for difference, problem in zip(differences, got.problems, strict=True):
        if problem is not None:
            wrong.append(difference)
    if len(rights) < CASES or len(got.values) < len(rights):
        return ""
    said = f"It is wrong in {len(wrong)} of {len(rights)} cases"
    if len(wrong) > 1 and min(wrong) > 0:
        said += ", and too large in each of these"
    if len(wrong) > 1 and max(wrong) < 0:
        said += ", and too small in each of these"
    return f"{said}."


def _evidence(exercise: Exercise, got: Outcome) -> Evidence:
    ours = solution(exercise)
    if got.first is None:
        return Evidence(ours.calls, got.calls, "", None, None)
    what, value = got.values[got.first]
    expected = ours.values[got.first][1]
    before = ours.called[got.first], got.called[got.first]
    return Evidence(ours.calls, got.calls, what, value, expected, before)


def _observation(exercise: Exercise, got: Outcome) -> Finding | None:
    """What can be observed of the first wrong value."""
    return observe(_evidence(exercise, got))


def _place(exercise: Exercise, answer: Any, got: Outcome) -> str:
    """Where in the learner's code the numbers, or the gradient, leave ours; "" if unknown."""
    if got.first is None:
        return ""
    evidence = _evidence(exercise, got)
    if evidence.pair is None:
        ours = [step for step in _solutions_steps(exercise) if step.cuts]
        name = evidence.what.removeprefix("gradient of ")
        given = _inputs(evidence, name)
        steps = _traced(exercise, answer, keep=False)
        cutting = cut(steps, ours, name, given)
        if not evidence.what.startswith("gradient"):
            return ""
        if not cutting and evidence.value is None:
            return UNUSED.format(name) if _is_unused(name, got, steps) else CUTS
        if not cutting:
            return ""
        said = f"No gradient flows through {quoted(cutting)}"
        if evidence.value is None:
            return f"{said}: .detach(), .item(), torch.no_grad() and new tensors stop it."
        return f"{said}. Should it end there?"
    our, their = evidence.pair
    number = evidence.theirs.index(their)

    def known() -> list[Step]:
        return [step for step in _known_steps(exercise) if step.call == number]

    with torch.no_grad():
        return blame(our, their, evidence.value, known)


def _inputs(evidence: Evidence, name: str) -> list[Tensor]:
    """The tensors of a name that the calls were given."""
    found = []
    for call in evidence.ours:
        for own, value in zip(call.names, call.before, strict=False):
            if own == name and isinstance(value, Tensor) and value.is_floating_point():
                found.append(value)
    return found


def _is_unused(name: str, got: Outcome, steps: list[Step]) -> bool:
    """Whether a parameter of this name is given to no operation of an answer, and others are."""
    given: set[tuple[float, ...]] = set()
    for step in steps:
        if step.place is not None and step.place.expression:
            given.update(steps[parent].print for parent in step.parents)
    for call in got.calls:
        parameters = dict(call.module.named_parameters()) if call.module is not None else {}
        if name in parameters:
            used = set()
            for other, parameter in parameters.items():
                own = fingerprint(parameter)
                if any(same(own, one) for one in given):
                    used.add(other)
            return bool(used) and name not in used
    return False


@functools.cache
def _known_steps(exercise: Exercise) -> list[Step]:
    """The operations of all right answers that the exercise knows, with their results."""
    known = list(_solutions_steps(exercise))
    for right in exercise.others[1:]:
        known += _traced(exercise, right, keep=True)
    return known


@functools.cache
def _solutions_steps(exercise: Exercise) -> list[Step]:
    """The same of the solution alone."""
    return _traced(exercise, exercise.answer, keep=True)


def _traced(exercise: Exercise, answer: Any, keep: bool) -> list[Step]:
    """The operations of an answer on the exercise's inputs."""
    with torch.enable_grad(), Trace(keep=keep) as trace:  # an answer may ask for gradients itself
        run(exercise, answer, trace=trace)
    return trace.steps


# ---------------------------------------------------------------------------- comparing outcomes


def _same_values(exercise: Exercise, mutant: Outcome, got: Outcome) -> bool:
    """Whether a mutant gives the same values as the answer, and no more."""
    if len(mutant.values) != len(got.values):
        return False
    places = range(len(got.values))
    return all(_is_same_value(exercise, mutant, got, place) for place in places)


def _is_same_value(exercise: Exercise, mutant: Outcome, got: Outcome, place: int) -> bool:
    """Whether a mutant gives the same value at a place.

    A number is another value than a tensor that holds it and its graph: what makes the number does
    not say why it is a tensor.
    """
    what, theirs = got.values[place]
    value = mutant.values[place][1]
    if got.holds_graph[place] and not isinstance(value, Tensor):
        return False
    return compare(what, theirs, value, exercise.tolerance) is None


def _same_mistakes(exercise: Exercise, mutant: Outcome, got: Outcome) -> int:
    """How many wrong tensors, counted from the first value on, are those of the mutant.

    Single numbers and words do not count.
    """
    same = 0
    for place in range(min(len(got.values), len(mutant.values), len(got.problems))):
        if not _is_same_value(exercise, mutant, got, place):
            break
        theirs = got.values[place][1]
        is_large = isinstance(theirs, Tensor) and theirs.numel() > 3
        if got.problems[place] is not None and is_large:
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


def _told_error(exercise: Exercise, got: Outcome, error: BaseException) -> Finding:
    """An exception: of the learner's code, of a module that it made, or of the check itself."""
    own = Finding(told(error, set_by=cell_that_sets(error, exercise.room)), _instead(exercise, got))
    is_theirs_own = their_frame(error) is not None or isinstance(exercise.answer, type)
    if is_theirs_own or not got.calls or got.calls[-1].raised:
        return own
    if got.calls[-1].module is not None and not got.calls[-1].output:
        name = type(got.calls[-1].module).__name__
        return Finding(told(error, f"the check called {name}, which raised"), own.instead)
    words = f"{type(error).__name__}: {words_of(error)}".rstrip(" .:")
    came = [call.came for call in got.calls if call.module is None]
    if not came or came[-1] is None:
        return Finding(f"after your code the check cannot go on ({words}).")
    return Finding(
        f"what came back is {describe(came[-1])}, and the check cannot work with it ({words}).",
        "Compare its kind and its shape with what the exercise asks for.",
    )


def _instead(exercise: Exercise, got: Outcome) -> str:
    """What to do instead of what raised an exception, where that is known."""
    if got.error is None or not writes_into_leaf(got.error):
        return "" if got.error is None else advice(got.error)
    ours = solution(exercise).calls
    changes_given = not ours[0].output and not ours[0].idle  # as our answer does
    for call in ours:
        changes_given |= bool(call.written)  # even if that was put back
    given = got.calls[-1].before if got.calls else []  # else it raised in __init__
    asks = any(isinstance(value, Tensor) and value.requires_grad for value in given)
    # a leaf that nobody gave is a parameter
    if changes_given or not asks or writes_into_parameter(got.error):
        return "Write into it under with torch.no_grad()."
    return NEW_TENSOR
