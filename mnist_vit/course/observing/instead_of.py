"""Whether a wrong result is ours for another input: exchanged, in another's place, zeros."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .calls import Call, alike, names_told

ENOUGH = 4  # numbers of a result that are hardly equal by chance
CASES = 3  # calls with single numbers for which it must hold
MOST = 60  # results of ours that are looked at, for one call

Change = tuple[dict[int, Any], str]  # other inputs by their places, and what is said of them


def instead_of(pairs: list[tuple[Call, Call]]) -> str:
    """A change of an input, or of a parameter, with which ours gives what theirs does.

    Args:
        pairs: calls of ours and theirs that can be made again, in order.
    """
    wrong = [pair for pair in pairs if not alike(pair[0].output, pair[1].output)]
    if not wrong or not _can_tell(wrong):
        return ""
    our, their = wrong[0]
    for number, (changed, said) in enumerate(_changes(our, names_told(our, their))):
        if number == MOST:
            break
        if _fits(our, their, changed) and all(_fits_also(pair, said) for pair in wrong[1:]):
            right = [pair for pair in pairs if pair not in wrong]
            here = "" if all(_fits_also(pair, said) for pair in right) else "Here "
            return f"{here}You get exactly what ours gives {said}.".replace("Here You", "Here you")
    return _with_a_parameter(our, their)


def _can_tell(wrong: list[tuple[Call, Call]]) -> bool:
    """Whether equal results mean something; one word for all inputs does not."""
    part = wrong[0][1].output[0] if wrong[0][1].output else None
    if isinstance(part, Tensor):
        return part.is_floating_point() and part.numel() >= ENOUGH
    given = [their.output for _, their in wrong]
    return len(wrong) >= CASES and not all(alike(one, given[0]) for one in given)


def _fits(our: Call, their: Call, changed: dict[int, Any]) -> bool:
    try:
        return alike(our.again_with(changed), their.output)
    except RuntimeError:  # ours does not take such an input
        return False


def _fits_also(pair: tuple[Call, Call], said: str) -> bool:
    """Whether the change of these words fits another pair of calls."""
    our, their = pair
    changes = _changes(our, names_told(our, their))
    return any(_fits(our, their, changed) for changed, other in changes if other == said)


def _changes(call: Call, names: list[str]) -> Iterator[Change]:
    places = range(len(call.before))
    for first, second in itertools.combinations(places, 2):
        one, other = call.before[first], call.before[second]
        if type(one) is not type(other) or isinstance(one, nn.Module | bool | str):
            continue
        here, there = names[first], names[second]
        yield {first: other, second: one}, f"where {here} and {there} are exchanged"
        yield {first: other}, f"where {there} stands for {here}, too"
        yield {second: one}, f"where {here} stands for {there}, too"
    for place in places:
        for value, said in _others(call.before[place]):
            yield {place: value}, f"where {names[place]} {said}"


def _others(value: Any) -> Iterator[tuple[Any, str]]:
    """Other values of one input, each with what is said of it."""
    if isinstance(value, bool):
        yield not value, f"is {not value}"
    elif isinstance(value, int):
        yield value + 1, "is larger by 1"
        yield value - 1, "is smaller by 1"
    elif isinstance(value, Tensor) and value.is_floating_point():
        yield torch.zeros_like(value), "is all zeros"
        yield torch.ones_like(value), "is all ones"
        yield -value.detach(), "has the other sign"
        if value.dim() > 1:
            yield value.detach().transpose(-2, -1), "has its last two axes exchanged"
        for axis in range(value.dim()):
            if value.shape[axis] > 1:
                yield value.detach().flip(axis), f"runs backwards along axis {axis}"


def _with_a_parameter(our: Call, their: Call) -> str:
    """The same for one parameter of ours at zero, or at one."""
    if our.module is None:
        return ""
    for name, parameter in our.module.named_parameters():
        old = parameter.detach().clone()
        try:
            for number, said in ((0.0, "zeros"), (1.0, "ones")):
                parameter.fill_(number)
                if _fits(our, their, {}):
                    return f"You get exactly what ours gives where {name} is all {said}."
        finally:
            parameter.copy_(old)
    return ""
