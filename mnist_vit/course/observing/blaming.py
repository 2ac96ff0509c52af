"""Which expression of an answer is to blame: proved by putting our numbers in its place.

An expression is blamed only if the result is right with ours in the place of what it gives, and
does not become right with ours in the place of what it is given: otherwise something else should go
into it.
"""

import linecache
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .calls import Call, alike, given_again, names_told
from .looking import simply
from .tracing import Step, Swap, Trace, fingerprint, quoted, same

ENOUGH = 4  # numbers of a result, from which a factor is read
TRIES = 60  # values of ours that are put into an answer, at most
SECONDS = 0.3  # for all of them; and an answer that takes longer is not looked at
ALL_OURS = (
    "Every tensor that your code computes holds the numbers of one of ours, in whatever order: look"
    " at arguments, at the order of axes, and at steps that are missing or too many."
)
ORDER = (
    "Your lines compute the right numbers, and only their order goes wrong: look at the order of"
    " axes, at each reshape, and at indices."
)

IN_TRAIN_MODE = (
    "In eval mode yours gives the same as ours here: look at dropout, at where it stands, and at"
    " which numbers it is given."
)


def blame(our: Call, their: Call, value: Any, find_known: Callable[[], list[Step]]) -> str:
    """A sentence that says where the numbers of an answer leave ours.

    Args:
        our, their: the first calls whose results differ.
        value: the wrong value that is reported.
        find_known: gives the steps of right solutions in this call, with their values. It may
            take long, so it is asked only where there is something to say.

    Returns:
        The sentence; "" where there is nothing to say. Of an answer of one statement it says only
        where nan or infinity comes up.
    """
    if their.seconds > SECONDS or not _are_tensors(our) or not _are_tensors(their):
        return ""
    if len(our.output) != len(their.output) or not _is_settled(our) or not _is_settled(their):
        return ""
    if _differ_in_train_mode_alone(our, their):
        return IN_TRAIN_MODE
    try:
        with Trace(keep=True) as trace:
            their.again()
    except RuntimeError:  # it takes too long while it is followed
        return ""
    steps = trace.steps
    own = [step for step in steps if step.place is not None and step.place.expression]
    is_short = len({step.place.statement for step in own if step.place is not None}) < 2
    if is_short and all(map(_is_all_finite, their.output)):
        return ""
    known = find_known()
    _recognise(steps, known)
    pairs = zip(their.output, our.output, strict=True)
    different = [own for own, right in pairs if not alike(own, right)]
    asked = _leading_to(different, steps)
    bursting = _bursting(steps, asked, known)
    if is_short:
        return bursting
    number = _reported(value, their)
    wrong = torch.empty(0) if number is None else their.output[number]
    if number is not None and _is_varied(wrong):
        if any(_holds(step, wrong) for step in steps if step.place is None):
            return ""  # it is told by itself
        if any(_holds(step, wrong) for step in known):
            many = len(our.output)
            what = "What comes back" if many == 1 else f"Result {number + 1} of {many}"
            return (
                f"{what} is a value that ours has on its way: a step is missing behind"
                " it, or another value should come back."
            )
    if not trace.leaves and _are_all_ours(steps, known) and _is_followed(their, steps):
        return ALL_OURS if number is None else _of_numbers_of_ours(wrong, our.output[number])
    if bursting:
        return bursting
    first = _first_unknown(steps, asked)
    return "" if first is None else _about(steps, first, known, our, their)


def _differ_in_train_mode_alone(our: Call, their: Call) -> bool:
    """Whether two calls differ while dropout is at work, and are alike in eval mode."""
    if our.module is None or their.module is None or not (our.training and their.training):
        return False
    layers = [part for part in our.module.modules() if isinstance(part, nn.Dropout)]
    if not any(layer.p > 0 for layer in layers):
        return False
    outputs = []
    for call in (our, their):
        assert call.module is not None
        call.module.eval()
        try:
            outputs.append(call.made_with(list(map(given_again, call.before))))
        except RuntimeError:
            return False
        finally:
            call.module.train()
    return alike(*outputs)


def _about(steps: list[Step], first: int, known: list[Step], our: Call, their: Call) -> str:
    """What is said of the first expression from which nothing is recognised."""
    expression = _expression(steps, steps[first])
    came_in = [step for step in steps if step.place is None]
    repairs = _repairs(steps, first, known, our, their)
    before = [(swap, name) for swap, name in repairs if swap.users]
    if before:
        swap, name = before[0]
        parent = steps[swap.step]
        other = Step((), swap.value.shape, [], value=swap.value)
        is_related = _related(parent, [other]) != ""
        return _into(expression, _expression(steps, parent), name, is_related)
    if repairs:
        return (
            f"With our numbers in the place of what {expression} gives, your result is right: the"
            f" mistake is there, in one of its arguments{_elsewhere(steps[first])} or right behind"
            " it."
        )
    group = _same_expression(steps, first)
    if not _leads_to(steps, first, group[-1]):
        return ""  # several results of one expression, of which the last says nothing of the first
    related = _related(steps[group[-1]], came_in + known)
    if related:
        return (
            f"What {expression} gives is {related}. If it should be, the mistake comes behind it;"
            " if not, it is there or before it."
        )
    given = _inputs(steps, group)
    if _is_selected(steps, first):
        return ""  # it may be a right piece, of which others are missing
    if _is_of_optimizer(steps[first]):
        return ""  # it takes gradients, which are not followed
    if any(steps[number].unfollowed for number in group):
        return ""  # a mask or a place may be wrong that it was given
    if all(_is_ours(steps, parent, known) for parent in given):
        is_turned = any(steps[parent].is_part for parent in given)
        order = ", or the same in another order of axes," if is_turned else ","
        return (
            f"{expression} is given only values that ours has, too, and gives one that ours never"
            f" has: another value should go in{order} or the mistake is"
            f" there{_elsewhere(steps[first])} or behind it."
        )
    return ""  # it may be right in another way, and what it is given may be wrong


def _leads_to(steps: list[Step], first: int, last: int) -> bool:
    """Whether a result was made from another one, or is the same."""
    waiting = [last]
    while waiting:
        number = waiting.pop()
        if number == first:
            return True
        waiting += [parent for parent in steps[number].parents if parent >= first]
    return False


def _is_selected(steps: list[Step], number: int) -> bool:
    """Whether a result holds fewer numbers than one that it was made from, and all from there."""
    value = steps[number].value
    if value is None:
        return False
    parents = list(steps[number].parents)
    for parent in steps[number].parents:
        if steps[parent].is_part:  # one of several, as in a loop over a tensor
            parents += steps[parent].parents
    for parent in parents:
        whole = steps[parent].value
        if whole is not None and value.numel() < whole.numel() and torch.isin(value, whole).all():
            return True
    return False


def _is_of_optimizer(step: Step) -> bool:
    inside = step.place.inside if step.place is not None else None
    return (
        inside is not None
        and "step" in inside.f_code.co_name
        and "optim" in str(inside.f_globals.get("__name__"))
    )


def _is_all_finite(value: Any) -> bool:
    return not isinstance(value, Tensor) or bool(value.isfinite().all())


def _of_numbers_of_ours(wrong: Tensor, right: Tensor) -> str:
    """What is said where each result of theirs holds the numbers of one of ours."""
    if wrong.min() == wrong.max():
        return ""
    if alike(_in_order(right), _in_order(wrong)):
        return "" if alike(right.flatten(), wrong.flatten()) else ORDER
    return ALL_OURS


def _reported(value: Any, their: Call) -> int | None:
    """The place of a value among what came back; None if it is not there as it is."""
    for number, part in enumerate(their.output):
        if alike(part, value):
            return number
    return None


def _bursting(steps: list[Step], asked: set[int], known: list[Step]) -> str:
    """Which expression first gives nan or infinity; "" if none does."""
    burst = _first_not_finite(steps, asked, known)
    if burst is None:
        return ""
    return f"{_expression(steps, steps[burst])} gives the first numbers that are nan or infinite."


def _first_not_finite(steps: list[Step], asked: set[int], known: list[Step]) -> int | None:
    """The step that first gives nan or infinity, where ours never does."""
    if not all(_is_finite(step) for step in known):
        return None
    for number, step in enumerate(steps):
        if number not in asked or _is_finite(step):
            continue
        if step.value is not None and _is_hidden(step.value):
            continue
        is_first = all(_is_finite(steps[parent]) for parent in step.parents)
        is_quotable = step.place is not None and bool(step.place.expression)
        return number if is_first and is_quotable else None
    return None


def _is_hidden(value: Tensor) -> bool:
    """Whether what is not finite is minus infinity, as a mask puts it in front of a softmax."""
    return bool((value.isfinite() | value.isneginf()).all() and value.isfinite().any())


def _is_finite(step: Step) -> bool:
    return step.value is None or bool(step.value.isfinite().all())


def _expression(steps: list[Step], step: Step) -> str:
    """The quoted expression of a step, with its line where it stands in several; "" if unknown."""
    place = step.place
    if place is None or not place.expression:
        return ""
    said = quoted(place.expression)
    asked = [other.place for other in steps if other.place is not None]
    lines = {other.statement for other in asked if other.expression == place.expression}
    if len(lines) > 1:
        said += f", in the line {quoted(linecache.getline(*place.statement))},"
    return said


def _is_varied(value: Tensor) -> bool:
    """Whether a value can hardly be equal to another one by chance."""
    return value.numel() >= ENOUGH and bool(value.min() < value.max())


def _holds(step: Step, value: Tensor) -> bool:
    return step.value is not None and alike(step.value, value)


def _are_tensors(call: Call) -> bool:
    """Whether tensors came back, and nothing else."""
    return bool(call.output) and all(isinstance(part, Tensor) for part in call.output)


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


def _into(expression: str, given: str, name: str, is_related: bool) -> str:
    """What is said where another input of an expression makes the result right.

    Args:
        expression: the quoted expression.
        given: the quoted expression that gives what goes into it now; "" if it came in.
        name: what the other input is called; "" if it is a value of ours.
        is_related: whether that value is a multiple of what goes in now, or a number more.
    """
    instead, between = "one value that goes in now", "before it"
    if given:
        instead = f"what {given} gives"
        between = "in between"
    said = f"goes into {expression} in place of {instead}"
    if name:
        return f"Your result is right if {name} {said}."
    reason = f"perhaps another value belongs there, or a step is missing {between}"
    if is_related:  # then the expression may be the one that should be another
        reason = "the mistake is there or before it"
    return f"Your result is right if a value of ours {said}: {reason}."


def _elsewhere(step: Step) -> str:
    """Where else the mistake can be, where an expression calls a layer: it was made elsewhere."""
    inside = step.place.inside if step.place is not None else None
    if inside is None or inside.f_code.co_name != nn.Module.__call__.__name__:
        return ""
    file = step.place.statement[0] if step.place is not None else ""
    has_hooks = any("register_forward" in line for line in linecache.getlines(file))
    hook = ", in a hook" if has_hooks else ""
    return f"{hook}, in how that layer is made,"


def _is_ours(steps: list[Step], number: int, known: list[Step]) -> bool:
    """Whether a step came in, or its result is one of ours, in the same order, or a part of one."""
    step = steps[number]
    if step.place is None:
        return True
    if step.is_part:
        return all(_is_ours(steps, parent, known) for parent in step.parents)
    return step.value is not None and any(alike(step.value, other.value) for other in known)


def _is_settled(call: Call) -> bool:
    """Whether a call gives the same again, whatever random numbers are drawn."""
    return call.repeats and alike(call.again(seed=False), call.output)


def _are_all_ours(steps: list[Step], known: list[Step]) -> bool:
    """Whether each result holds the numbers of one of ours, in whatever order."""
    if not all(step.known for step in steps):
        return False
    came_in = [step for step in steps if step.place is None]
    ours = [_in_order(step.value) for step in known + came_in if step.value is not None]
    for step in steps:
        if step.is_part and step.shape.numel() > 1:
            continue
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
        if not step.known and step.is_part:
            step.known = all(theirs[parent].known for parent in step.parents)
        if not step.known and step.shape.numel() > 1:
            step.known = any(same(step.print, other.print) for other in right)


def _leading_to(values: list[Tensor], steps: list[Step]) -> set[int]:
    """The numbers of the steps that results were made from; of all where that is not known."""
    everything = set(range(len(steps)))
    waiting = []
    for value in values:
        ends = [number for number in everything if _holds(steps[number], value)]
        if not ends or any(step.writes for step in steps):
            return everything
        waiting.append(max(ends))
    found: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += steps[number].parents
    return found


def _first_unknown(steps: list[Step], asked: set[int]) -> int | None:
    """The first step of the learner's from which, and not before which, nothing is recognised.

    What leads to something recognised is right in another way. Only ``asked`` ones are looked at.
    """
    leads = _lead_to_known(steps)
    for number, step in enumerate(steps):
        if number not in asked:
            continue
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


def _repairs(
    steps: list[Step], first: int, known: list[Step], our: Call, their: Call
) -> list[tuple[Swap, str]]:
    """What repairs the answer: our numbers behind an expression, or one in the place of an input.

    Of inputs the first is enough. Where it is one of the call's, its name comes with it. Empty if
    nothing does, or if not all can be tried.
    """
    group = _same_expression(steps, first)
    end = time.thread_time() + SECONDS
    for parent in _inputs(steps, group):
        if not _is_ours(steps, parent, known) and not _values(known, steps[parent]):
            return []  # nothing of ours can be put in its place
    swaps = [(swap, "") for swap in _as_result(steps, group[-1], known)]
    swaps += _given_as_inputs(steps, group, our, names_told(our, their))
    swaps += [(swap, "") for swap in _as_inputs(steps, group, known)]
    if len(swaps) > TRIES:
        return []
    found = []
    for swap, name in swaps:
        if time.thread_time() > end:
            return []
        if _is_right(their, swap, our) and not _is_chance(their, swap, our):
            found.append((swap, name))
            if swap.users:
                break
    return found


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


def _given_as_inputs(
    steps: list[Step], group: list[int], our: Call, names: list[str]
) -> Iterator[tuple[Swap, str]]:
    """Each tensor that the call was given, of any shape, in the same places, and its name."""
    for parent in _inputs(steps, group):
        for name, value in zip(names, our.before, strict=False):
            is_tensor = isinstance(value, Tensor) and value.is_floating_point()
            if is_tensor and not _holds(steps[parent], value):
                yield Swap(value.detach(), parent, tuple(group)), name


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


def _is_chance(their: Call, swap: Swap, our: Call) -> bool:
    """Whether the value in the place of an input is right whatever the order of its numbers is.

    So it is where each row of ours has the same sum, and only the sum counts.
    """
    if not swap.users or swap.value.dim() == 0:
        return False
    turned = swap.value.flip(-1)
    if alike(turned, swap.value):
        return False
    return _is_right(their, Swap(turned, swap.step, swap.users), our)


def _is_right(their: Call, swap: Swap, our: Call) -> bool:
    """Whether an answer gives what ours does with a value put into it."""
    try:
        with Trace(swap=swap):
            return alike(their.again(), our.output)
    except RuntimeError:  # a value of another shape
        return False
