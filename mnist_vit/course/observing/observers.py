"""What can be observed where no known slip fits: small and general, an observation, not a verdict.

Some observers call the learner's code again with something changed, and compare how the solution
reacts; others (``looking``) look at the first wrong value. The first one that sees something
speaks.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .calls import Call, alike, names_told
from .counting import count
from .formulas import formula
from .instead_of import instead_of
from .looking import (
    axes,
    edges,
    few,
    moved,
    nearly,
    origin,
    partly,
    repeated,
    row_sums,
    rows,
    scattered,
    sharpness,
    transformed,
    where,
)
from .reacting import depends, listed, mixes, returns_input, scales, slices
from .steadiness import DRAWN, FILL, for_other_numbers, keeps, unfilled, varies

SLOW = 0.2  # seconds; a call that takes longer is not made again
PAIRS = 8  # calls that are looked at for what they depend on


@dataclass
class Evidence:
    """What an observer may look at.

    Attributes:
        ours, theirs: the calls of the solution and of the learner's answer, in order.
        what: the name of the first wrong value; "" where the answer raised before.
        value, expected: the first wrong value and what it should be; None where there is none.
        before: how many calls of ours and theirs came before that value; None for all.
        pair: the first calls of ours and theirs whose results differ.
    """

    ours: list[Call]
    theirs: list[Call]
    what: str
    value: Any
    expected: Any
    before: tuple[int | None, int | None] = (None, None)
    pair: tuple[Call, Call] | None = field(init=False)

    def __post_init__(self) -> None:
        if _are_numbers(self.value) and _are_numbers(self.expected):
            self.value = torch.tensor(list(map(float, self.value)))
            self.expected = torch.tensor(list(map(float, self.expected)))
        self.pair = self._first_different_pair()

    def _first_different_pair(self) -> tuple[Call, Call] | None:
        our_count, their_count = self.before
        pairs = zip(self.ours[:our_count], self.theirs[:their_count], strict=False)
        for our, their in pairs:
            if alike(our.output, their.output):
                continue
            if our.module is None or our.repeats:  # else its weights were others in this call
                return our, their
        return None

    @property
    def has_tensors(self) -> bool:
        """Whether the first wrong value can be looked at."""
        return isinstance(self.value, Tensor) and isinstance(self.expected, Tensor)

    @property
    def is_finite(self) -> bool:
        """Whether it is a tensor without nan and infinity."""
        return self.has_tensors and bool(self.value.isfinite().all())

    @property
    def can_call_again(self) -> bool:
        """Whether the first call whose result differs can be experimented with.

        It has to be fast, to give finite numbers, and to give the same when it is made again.
        """
        if self.pair is None:
            return False
        our, their = self.pair
        return _can_be_tried(their) and our.repeats


@dataclass(frozen=True)
class Finding:
    """What can be said of a wrong answer.

    Attributes:
        said: what it does, as sentences.
        instead: what to look at, or to do instead; "" if that cannot be said.
        says_why: False if ``said`` only says where something is wrong.
    """

    said: str
    instead: str = ""
    says_why: bool = True


Observer = Callable[[Evidence], str]

GIVEN_BACK = "What was given comes back as it was"
NOT_WRITTEN = (
    "Was it done to a copy, or did a line such as weight = … or state[name] = … only give a name to"
    " another tensor? zero_(), copy_() and weight[…] = … write into the one that is there."
)
NEW_ONE = (
    "What is given should stay as it was, and another one should come back: make a copy, work on"
    " the copy, and return the copy."
)

# what is said after the first words of some observations, when the answer fails again
INSTEAD = {
    "Rows of the weights should sum to 1, and here": (
        "A row runs along the last axis: look at what you sum over, and for a transpose."
    ),
    "Rows should sum to 1, and here": (
        "A row runs along the last axis: look at what you sum over, and for a transpose."
    ),
    "The numbers are right, and in the right order": "A reshape at the very end is enough.",
    "It is nearly ours": (
        "Look at small constants, such as eps, at approximations, and at numbers that were kept in"
        " fewer digits for a while, as in float16."
    ),
    "The result is ours plus the same vector": (
        "Look at what is added alike at every place, such as a bias."
    ),
    "Your code changes its input": (
        "Write into a copy, such as clone() of a tensor or list(…) of a list, and read from what"
        " came in."
    ),
    "Your code changes": (
        "Whoever called it may still need it: write into a new module, such as copy.deepcopy(…) of"
        " it, or into a clone() of its tensors."
    ),
    "Nothing came back": NOT_WRITTEN,
    "The numbers are right. Axes of length 1 that are missing": (
        "What takes them away: an index such as [0], or squeeze(), which takes every axis of length"
        " 1 unless it is given one?"
    ),
}
VARIES = "The same input gives another result each time"
OF_MODULES = (
    "A layer that is made anew at each call has other random weights: make all of them in __init__."
    " Dropout must do nothing in eval mode."
)
OF_FUNCTIONS = (
    "What comes back must not depend on random numbers, whatever draws them: F.dropout does, unless"
    " it is given training=False, and so does a layer that is made anew."
)
INPUTS_ALONE = "What comes back must depend on the inputs alone."
ONE_IN_ALL = (
    "Your code changes something that is still there in the next call: a list, a dict or a tensor"
    " that stands outside of the function, or as a default such as table={}, is one and the same in"
    " all calls."
)
EARLIER = (
    f"{INPUTS_ALONE} Does your code keep something of an earlier call, such as a result by the"
    " shape of an input?"
)
UNSEEN = (
    "No gradient sees it: under torch.no_grad(), through .data or .detach() an operation is not"
    " recorded. Make a new tensor, x = x / …, outside of them."
)


def unused(evidence: Evidence) -> Finding | None:
    """What is said before anything else: an input was changed, or nothing was done at all."""
    for look in (_changed_input, _did_nothing):
        said = look(evidence)
        if said:
            is_gradient = _has_wrong_gradient(evidence) and look is _changed_input
            return Finding(said, UNSEEN if is_gradient else _instead(said, evidence))
    return None


def not_filled(calls: list[Call]) -> Finding | None:
    """What is said where a result depends on numbers of ``torch.empty`` that nobody has set."""
    with torch.no_grad(), suppress(Exception):  # a call that cannot be made again tells nothing
        for call in calls[:PAIRS]:
            said = "" if call.seconds > SLOW else unfilled(call)
            if said:
                return Finding(said, FILL)
    return None


def unsteady(evidence: Evidence) -> Finding | None:
    """What is said where the learner's results differ from call to call, and ours do not."""
    if evidence.pair is None or evidence.pair[1].seconds > SLOW:
        return None
    with torch.no_grad(), suppress(Exception):  # a call that cannot be made again tells nothing
        said = varies(*evidence.pair)
        return Finding(said, _instead(said, evidence)) if said else None
    return None


def observe(evidence: Evidence) -> Finding | None:
    """What can be said of the first wrong value, or of the first call whose output differs."""
    finding = unused(evidence)
    if finding is not None:
        return finding
    if _has_wrong_gradient(evidence):
        return _about_gradient(evidence)
    with torch.no_grad():
        for says_why, observer in _observers(evidence):
            with suppress(Exception):  # code that raises on changed inputs tells nothing
                said = observer(evidence)
                if said:
                    return Finding(said, _instead(said, evidence), says_why)
    return None


def _about_gradient(evidence: Evidence) -> Finding:
    """What is said of the first wrong gradient; an answer may be right for these numbers alone."""
    said = "All values before it are right, and this gradient is not."
    for our, their in zip(evidence.ours, evidence.theirs, strict=False):
        is_fast = our.seconds + their.seconds < SLOW
        if is_fast and for_other_numbers(our, their) is not None:
            more = "With other numbers of the same shapes, in a later call, the values are wrong."
            return Finding(f"{said} {more}", EARLIER)
    return Finding(said)


def on_inputs_alone(their: Call) -> str:
    """What is said of a call that gives another result the next time; why, if that is seen."""
    with torch.no_grad(), suppress(Exception):  # a call that cannot be made again tells nothing
        if keeps(their):
            return f"{INPUTS_ALONE} {ONE_IN_ALL}"
    return INPUTS_ALONE


def _instead(said: str, evidence: Evidence) -> str:
    if said.startswith(VARIES) and evidence.pair is not None:
        their = evidence.pair[1]
        if DRAWN not in said:
            return on_inputs_alone(their)
        return OF_FUNCTIONS if their.module is None else OF_MODULES
    if said.startswith(GIVEN_BACK):
        ours_writes = any(call.touched for call in evidence.ours)
        return NOT_WRITTEN if ours_writes else NEW_ONE
    for begin, instead in INSTEAD.items():
        if said.startswith(begin):
            return instead
    return ""


def _observers(evidence: Evidence) -> Iterator[tuple[bool, Observer]]:
    """The observers that have something to look at, in order, and whether each says why."""
    yield True, _several
    if evidence.has_tensors:
        for look in (rows, moved, repeated, axes, origin):
            yield True, _looking(look)
    if evidence.pair is not None:
        yield True, _calling(row_sums)
        yield True, _calling(_random_or_input)
        yield True, _calling(formula)
        yield True, _dependence
        for again in (mixes, count, scales):
            yield True, _calling_often(again)
    if evidence.is_finite:
        if evidence.value.dtype == evidence.expected.dtype:
            yield True, _looking(nearly)
        yield True, _looking(transformed)
    if evidence.pair is not None:
        yield True, _other_input
        yield True, _calling(sharpness)
    if evidence.is_finite:
        for look in (scattered, edges, where):
            yield True, _looking(look)
        if evidence.pair is not None:
            yield True, _calling_often(slices)
    yield True, _held
    if evidence.is_finite:
        yield False, _looking(partly if _has_places(evidence) else few)


def _several(evidence: Evidence) -> str:
    """A list of tensors, or of numbers, that is right but for being a list."""
    if not isinstance(evidence.expected, Tensor) or not isinstance(evidence.value, list | tuple):
        return ""
    expected = evidence.expected
    if all(isinstance(part, Tensor) for part in evidence.value):
        for axis in range(expected.dim()):
            for name, join in (("stack", torch.stack), ("cat", torch.cat)):
                with suppress(RuntimeError):
                    if alike(join(list(evidence.value), dim=axis), expected):
                        return f"The numbers are right: torch.{name}(…, dim={axis}) joins them."
        return ""
    if alike(torch.tensor(evidence.value, dtype=expected.dtype), expected):
        return "The numbers are right: torch.tensor(…) makes a tensor of them."
    return ""


def _looking(look: Callable) -> Observer:
    """An observer of the first wrong value."""

    def observer(evidence: Evidence) -> str:
        expected = evidence.expected.detach().double()
        return look(expected, evidence.value.detach().double(), evidence.pair)

    return observer


def _calling(again: Callable[[Call, Call], str]) -> Observer:
    """An observer of the first call whose result differs."""

    def observer(evidence: Evidence) -> str:
        return again(*evidence.pair) if evidence.pair else ""

    return observer


def _calling_often(again: Callable[[Call, Call], str]) -> Observer:
    """The same for one that calls often: only where a call is fast and gives finite numbers."""

    def observer(evidence: Evidence) -> str:
        return again(*evidence.pair) if evidence.pair and evidence.can_call_again else ""

    return observer


def _random_or_input(our: Call, their: Call) -> str:
    """Random results are told first; a call that cannot be made again is told neither way."""
    return varies(our, their) or returns_input(our, their)


def _changed_input(evidence: Evidence) -> str:
    """An input that is another afterwards, and that no call of the solution writes into."""
    written: set[int] = set()
    for our in evidence.ours:
        written |= our.written
    for call in evidence.theirs:
        for place in sorted(call.changed - written):
            return f"Your code changes its input {call.names[place]} in place."
    return _altered_module(evidence)


def _altered_module(evidence: Evidence) -> str:
    """A module that was given and holds other numbers afterwards, where ours changes none."""
    ours: set[int] = set()
    for our in evidence.ours:
        ours |= our.altered.keys()
    for call in evidence.theirs:
        for place in sorted(call.altered.keys() - ours):
            name = call.names[place]
            parts = listed(call.altered[place])
            return f"Your code changes {parts} of {name}, and should leave {name} as it is."
    return ""


def _did_nothing(evidence: Evidence) -> str:
    """Calls that all changed nothing and returned nothing new, where ours does one of the two."""
    ours = [call for call in evidence.ours if call.held]
    theirs = [call for call in evidence.theirs[: evidence.before[1]] if call.held]
    if not evidence.what or not ours or not theirs:
        return ""
    if ours[0].idle or ours[0].output or not all(call.idle for call in theirs):
        return ""
    if theirs[0].returned:
        return f"{GIVEN_BACK}: no number in it was changed."
    return "Nothing came back, and nothing was changed in what was given."


def _held(evidence: Evidence) -> str:
    """Which parameters of a module that was given hold other numbers than after our solution."""
    if not evidence.what:
        return ""  # it raised, and has not come to its end
    our_count, their_count = evidence.before
    for our, their in zip(evidence.ours[:our_count], evidence.theirs[:their_count], strict=False):
        if not their.touched:  # what was changed is a copy
            continue
        names = names_told(our, their)
        for place in sorted(our.held.keys() & their.held.keys()):
            said = _differing(names[place], our.held[place], their.held[place])
            if said and not _draws(our):
                return said
    return ""


def _draws(call: Call) -> bool:
    """Whether a call fills the modules that it is given with random numbers."""
    found = []
    for seed in (0, 1):
        torch.default_generator.manual_seed(seed)
        given = copy.deepcopy(call.before)
        call.made_with(given)
        tensors: list[Tensor] = []
        for value in given:
            if isinstance(value, nn.Module):
                tensors += value.state_dict().values()
        found.append(tensors)
    return not alike(*found)


def _differing(name: str, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> str:
    """Which numbers differ."""
    same: list[str] = []
    other: list[str] = []
    for key, value in ours.items():
        if key in theirs:
            (same if alike(value, theirs[key]) else other).append(key)
    if not same or not other or len(same) + len(other) < len(ours):
        return ""
    return (
        f"Afterwards these of {name} hold other numbers than in ours: {listed(other)}. Equal are"
        f" {listed(same)}."
    )


def _has_wrong_gradient(evidence: Evidence) -> bool:
    """Whether all calls gave what ours gave, and a gradient is another."""
    ours, theirs = evidence.before
    is_gradient = evidence.what.startswith("gradient")
    return evidence.pair is None and is_gradient and ours == theirs


def _dependence(evidence: Evidence) -> str:
    """What the results of all calls of the same kind depend on, among those fast enough."""
    fast = _fast_pairs(evidence)
    return depends(fast) if fast else ""


def _other_input(evidence: Evidence) -> str:
    """Ours for another input gives the same as theirs, in all calls of the same kind."""
    fast = _fast_pairs(evidence)
    return instead_of(fast) if fast else ""


def _fast_pairs(evidence: Evidence) -> list[tuple[Call, Call]]:
    """The calls of the same kind as the first wrong one that can be made again quickly."""
    if evidence.pair is None:
        return []
    names = evidence.pair[0].names
    similar = []
    for our, their in zip(evidence.ours, evidence.theirs, strict=False):
        if our.names == names:
            similar.append((our, their))
    fast = []
    for our, their in similar[:PAIRS]:
        if _can_be_tried(their) and our.repeats:
            fast.append((our, their))
    return fast


def _has_places(evidence: Evidence) -> bool:
    """Whether the places of a value mean something; in numbers that the check made they do not."""
    if evidence.expected.dim() != 1:
        return True
    for our in evidence.ours:
        for part in our.output:
            if alike(part, evidence.expected):
                return True
    return False


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, int | float) for v in value)


def _can_be_tried(call: Call) -> bool:
    return call.seconds < SLOW and _is_finite(call) and call.repeats


def _is_finite(call: Call) -> bool:
    tensors = [part for part in call.output if isinstance(part, Tensor)]
    return all(bool(part.isfinite().all()) for part in tensors)
