"""Which expression of an answer is to blame: proved by putting our numbers in its place.

An expression is blamed only if the result is right with ours in the place of what it gives, and
does not become right with ours in the place of what it is given: otherwise a step before it may be
missing.
"""

import time
from collections.abc import Callable, Iterator

from torch import Tensor, nn

from .calls import Call, alike
from .looking import simply
from .tracing import Step, Swap, Trace, fingerprint, quoted, same

ENOUGH = 4  # numbers of a result, from which a factor is read
TRIES = 60  # values of ours that are put into an answer, at most
SECONDS = 0.3  # for all of them; and an answer that takes longer is not looked at


def blame(our: Call, their: Call, find_known: Callable[[], list[Step]]) -> str:
    """A sentence that says where the numbers of an answer leave ours.

    Args:
        our, their: the first calls whose results differ.
        find_known: gives the steps of right solutions in this call, with their values. It may
            take long, so it is asked only where there is something to say.

    Returns:
        The sentence; "" for an answer of one statement, and where there is nothing to say.
    """
    if their.seconds > SECONDS or not _is_settled(our) or not _is_settled(their):
        return ""
    with Trace(keep=True) as trace:
        their.again()
    steps = trace.steps
    own = [step for step in steps if step.place is not None and step.place.expression]
    if len({step.place.statement for step in own if step.place is not None}) < 2:
        return ""
    known = find_known()
    _recognise(steps, known)
    if not trace.leaves and _are_all_ours(steps, known) and _is_followed(their, steps):
        return (
            "All numbers on your way are ones of ours, too, in whatever order they stand: look at"
            " the order of axes, at arguments, and at steps that are missing or too many."
        )
    first = _first_unknown(steps)
    if first is None:
        return ""
    place = steps[first].place
    expression = quoted(place.expression if place is not None else "")
    if _is_to_blame(steps, first, known, our, their):
        made = ", or in how that layer is made" if _calls_module(steps[first]) else ""
        return (
            f"With our numbers in the place of what {expression} gives, your result is right: the"
            f" mistake is there{made}."
        )
    came_in = [step for step in steps if step.place is None]
    related = _related(steps[_same_expression(steps, first)[-1]], known + came_in)
    if related:
        return f"What {expression} gives is {related}: if that is meant, the mistake is behind it."
    given = _inputs(steps, _same_expression(steps, first))
    if all(_is_ours(steps[parent], known) for parent in given):
        return (
            f"What goes into {expression} are numbers of ours, too: the mistake is there or behind"
            " it, or a step is missing before it."
        )
    return ""  # it may be right in another way, and what it is given may be wrong


def _related(step: Step, known: list[Step]) -> str:
    """How a result is made of one of ours, such as "a number of ours times 0.1"; "" if unknown."""
    if step.value is None or not step.value.is_floating_point():
        return ""
    value = step.value.detach().double()
    if value.numel() < ENOUGH or not value.isfinite().all() or not value.any():
        return ""
    for other in known:
        if other.value is None or other.value.shape != value.shape:
            continue
        if not other.value.is_floating_point() or not other.value.isfinite().all():
            continue
        said = simply(other.value.detach().double(), value)
        if said:
            return said
    return ""


def _calls_module(step: Step) -> bool:
    """Whether the expression that made a step calls a layer, which was made elsewhere."""
    inside = step.place.inside if step.place is not None else None
    return inside is not None and inside.f_code.co_name == nn.Module.__call__.__name__


def _is_ours(step: Step, known: list[Step]) -> bool:
    """Whether a step came in, or its result is one of ours, in the same order."""
    if step.place is None:
        return True
    return step.value is not None and any(alike(step.value, other.value) for other in known)


def _is_settled(call: Call) -> bool:
    """Whether a call gives the same again, whatever random numbers are drawn."""
    return call.repeats() and alike(call.again(seed=False), call.output)


def _are_all_ours(steps: list[Step], known: list[Step]) -> bool:
    """Whether each result holds the numbers of one of ours, in whatever order."""
    if not all(step.known for step in steps):
        return False
    came_in = [step for step in steps if step.place is None]
    ours = [_in_order(step.value) for step in known + came_in if step.value is not None]
    for step in steps:
        if step.value is not None and step.place is not None:
            own = _in_order(step.value)
            if not any(alike(own, right) for right in ours):
                return False
    return True


def _in_order(value: Tensor) -> Tensor:
    return value.flatten().sort().values


def _is_followed(call: Call, steps: list[Step]) -> bool:
    """Whether all that came back is a result of one of the steps."""
    for part in call.output:
        if not isinstance(part, Tensor):
            return False
        if not any(same(fingerprint(part), step.print) for step in steps):
            return False
    return True


def _recognise(theirs: list[Step], known: list[Step]) -> None:
    """Mark the steps whose numbers are those of a known step, or came in."""
    right = known + [step for step in theirs if step.known]
    for step in theirs:
        if not step.known:
            step.known = any(same(step.print, other.print) for other in right)


def _first_unknown(steps: list[Step]) -> int | None:
    """The first step of the learner's from which, and not before which, nothing is recognised.

    What leads to something recognised is right in another way.
    """
    leads = _lead_to_known(steps)
    for number, step in enumerate(steps):
        is_quotable = step.place is not None and bool(step.place.expression)
        if is_quotable and not leads[number] and all(leads[parent] for parent in step.parents):
            return number
    return None


def _lead_to_known(steps: list[Step]) -> list[bool]:
    """For each step whether it is known, or a known one is made from it."""
    leads = [step.known for step in steps]
    for number in range(len(steps) - 1, -1, -1):
        if leads[number]:
            for parent in steps[number].parents:
                leads[parent] = True
    return leads


def _is_to_blame(steps: list[Step], first: int, known: list[Step], our: Call, their: Call) -> bool:
    """Whether our numbers repair the answer behind an expression, and not before it."""
    group = _same_expression(steps, first)
    end = time.thread_time() + SECONDS
    is_repaired = False
    for parent in _inputs(steps, group):
        if not _is_ours(steps[parent], known) and not _values(known, steps[parent]):
            return False  # nothing of ours can be put in its place
    swaps = [*_as_result(steps, group[-1], known), *_as_inputs(steps, group, known)]
    if len(swaps) > TRIES:
        return False
    for swap in swaps:
        if time.thread_time() > end:
            return False
        if _is_right(their, swap, our):
            if swap.users:
                return False
            is_repaired = True
    return is_repaired


def _same_expression(steps: list[Step], first: int) -> list[int]:
    """The steps that one evaluation of an expression made: several, where it calls a function."""
    place = steps[first].place
    if place is None or place.inside is None:
        return [first]
    found = []
    for number, step in enumerate(steps):
        if step.place is not None and step.place.inside is place.inside:
            found.append(number)
    return found


def _as_result(steps: list[Step], number: int, known: list[Step]) -> Iterator[Swap]:
    """Each of our values of its shape in the place of a result."""
    for value in _values(known, steps[number]):
        yield Swap(value, number)


def _as_inputs(steps: list[Step], group: list[int], known: list[Step]) -> Iterator[Swap]:
    """Each of our values of its shape in the place of each input of an expression."""
    for parent in _inputs(steps, group):
        for value in _values(known, steps[parent]):
            yield Swap(value, parent, tuple(group))


def _inputs(steps: list[Step], group: list[int]) -> list[int]:
    """The numbers of the steps that an expression is given, each once."""
    parents: list[int] = []
    for number in group:
        parents += [parent for parent in steps[number].parents if parent not in group]
    return list(dict.fromkeys(parents))


def _values(known: list[Step], step: Step) -> list[Tensor]:
    """Our values of a step's shape, each once."""
    values: list[Tensor] = []
    for other in known:
        value = other.value
        if value is None or value.shape != step.shape:
            continue
        if not any(alike(value, before) for before in values):
            values.append(value)
    return values


def _is_right(their: Call, swap: Swap, our: Call) -> bool:
    """Whether an answer gives what ours does with a value put into it."""
    try:
        with Trace(swap=swap):
            return alike(their.again(), our.output)
    except RuntimeError:  # a value of another shape
        return False
