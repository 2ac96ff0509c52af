"""What can be observed where no known slip fits: general, small, and said as an observation, not as
a verdict.

The observers here call the learner's code again with something changed, and compare how the
solution reacts; those of ``looking`` look at the first wrong value. The first one that sees
something speaks.
"""

import itertools
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .calls import Call, alike, variants
from .looking import axes, factor, moved, partly, rows, scattered, signed, transformed

SLOW = 0.2  # seconds; a call that takes longer is not made again


def observe(
    ours: list[Call], theirs: list[Call], what: str, value: Any, expected: Any
) -> tuple[str, bool]:
    """What can be said of the first wrong value, or of the first call whose output differs; "" if
    nothing can.

    Args:
        ours, theirs: the calls of the solution and of the learner's answer, in order.
        what: the name of the first wrong value.
        value, expected: the first wrong value and what it should be; None where the answer raised
            before.

    Returns:
        The sentence, and whether it says why; False if it only says where.
    """
    for call in theirs:
        for place in sorted(call.changed.difference(*(our.written for our in ours))):
            return (
                f"Your code changes its input {call.names[place]} in place: work on a copy.",
                True,
            )
        if call.idle and what and ours and not (ours[0].idle or ours[0].output):
            return (
                (
                    "Nothing came back, and nothing was changed in what was given. Was it done to a"
                    " copy?"
                ),
                True,
            )
    pair = next(
        ((a, b) for a, b in zip(ours, theirs, strict=False) if not alike(a.output, b.output)), None
    )
    if pair is None and what.startswith("gradient") and len(ours) == len(theirs):
        return (
            (
                "All values are right and this gradient is not: a part of the way is cut off from"
                " it, by .detach(), .item(), torch.no_grad() or a new tensor."
            ),
            True,
        )
    if isinstance(value, list | tuple) and all(
        isinstance(part, int | float) for part in (*value, *expected)
    ):
        value, expected = (
            torch.tensor(list(map(float, value))),
            torch.tensor(list(map(float, expected))),
        )
    tensors = isinstance(value, Tensor) and isinstance(expected, Tensor)
    with torch.no_grad():
        for look in (rows, moved, axes) if tensors else ():
            with suppress(Exception):
                if said := look(expected.detach().double(), value.detach().double(), pair):
                    return said, True
        with suppress(Exception):
            if pair and (said := _random(*pair) or _returns_input(*pair)):
                return said, True
        with suppress(Exception):  # code that raises on changed inputs tells nothing
            if pair and (
                said := _independent(
                    [
                        (a, b)
                        for a, b in zip(ours, theirs, strict=False)
                        if a.names == pair[0].names
                    ][:8]
                )
            ):
                return said, True
        for observer in (_mixes, _count, _scaled):
            with suppress(Exception):
                if (
                    pair
                    and pair[1].seconds < SLOW
                    and _finite(pair[1].output)
                    and (said := observer(*pair))
                ):
                    return said, True
        looks = [transformed, scattered, partly] if tensors and bool(value.isfinite().all()) else []
        if (
            looks
            and expected.dim() == 1
            and not any(alike(part, expected) for our in ours for part in our.output)
        ):
            looks.remove(partly)  # numbers that the check has made, and no places in what came back
        for look in looks:
            with suppress(Exception):
                if said := look(expected.detach().double(), value.detach().double(), pair):
                    return said, look is not partly
    return "", False


def _finite(output: list[Any]) -> bool:
    return all(bool(part.isfinite().all()) for part in output if isinstance(part, Tensor))


def _random(our: Call, their: Call) -> str:
    if alike(our.again(seed=False), our.again(seed=False)) and not alike(
        their.again(), their.again(seed=False)
    ):
        return "The same input gives another result each time: something in it is drawn at random."
    return ""


def _returns_input(our: Call, their: Call) -> str:
    for name, value in zip(their.names, their.before, strict=False):
        if isinstance(value, Tensor) and their.output and alike(value, their.output[0]):
            return f"What comes back is {name}, unchanged."
    return ""


def _independent(pairs: list[tuple[Call, Call]]) -> str:
    """Inputs and parameters that the right results depend on and these do not; or the other way
    round."""
    pairs = [(our, their) for our, their in pairs if their.seconds < SLOW and _finite(their.output)]
    needed: dict[str, bool] = {}  # by name: whether ours reacts to it
    used: dict[str, bool] = {}
    for our, their in pairs:
        for number, name in enumerate(our.names):
            for changed in variants(our.before[number]):
                needed[name] = needed.get(name, False) or _reacts(our, number, changed)
                used[name] = used.get(name, False) or _reacts(their, number, changed)
    unused = [name for name in needed if needed[name] and not used[name]]
    extra = [name for name in used if used[name] and not needed[name]]
    if _in_steps(
        pairs[0][1].output
    ):  # only what is always the same is told, as it may change elsewhere
        if (
            unused
            and not extra
            and len(unused) == len(needed)
            and _one_result(their for _, their in pairs)
        ):
            return f"The result stayed the same when we changed {_listed(unused)}."
        return ""
    if unused:
        anything = "anything given: not on " if len(unused) == len(pairs[0][0].names) else ""
        return f"The result does not depend on {anything}{_listed(unused)}; it should."
    our, their = pairs[0]
    parameters = [name for name, _ in our.module.named_parameters()] if our.module else []
    moving = [name for name in parameters if _reacts_to_parameter(our, name)]
    silent = [name for name in moving if not _reacts_to_parameter(their, name)]
    if silent and len(silent) < len(moving):
        return f"The result does not depend on {_listed(silent)}; it should."
    return f"The result depends on {_listed(extra)}; it should not." if extra else ""


def _mixes(our: Call, their: Call) -> str:
    """Pictures of a batch, or tokens, that should not know of each other and do; or that should and
    do not."""
    for probe in () if _drops(our) else _probes(our):
        given = our.before[probe.places[0]]
        if (
            not isinstance(our.output[0], Tensor)
            or our.output[0].dim() <= probe.axis
            or given.shape[probe.axis] < 2
        ):
            continue
        if any(
            one.output[0].shape[: probe.axis + 1] != given.shape[: probe.axis + 1]
            for one in (our, their)
        ):
            continue
        rest = (*[slice(None)] * probe.axis, slice(1, None))
        changed = {}
        for place in probe.places:
            changed[place] = our.before[place].clone()
            changed[place][rest] = variants(our.before[place])[0][rest]
        first = (*[slice(None)] * probe.axis, 0)
        mine = alike(our.again_with(changed)[0][first], our.again()[0][first])
        yours = alike(their.again_with(changed)[0][first], their.again()[0][first])
        if mine and not yours:
            return (
                f"{probe.start} {probe.one} changes when {probe.many} change: it should not know of"
                " them."
            )
        if yours and not mine and not _in_steps(their.output):
            return (
                f"{probe.start} {probe.one} stays the same when {probe.many} change: it should"
                " depend on them."
            )
    return ""


@dataclass
class _Probe:
    """An axis along which all but the first are changed, in the inputs of some places; and how that
    is called."""

    axis: int
    places: list[int]
    one: str
    many: str
    start: str = "The result for"


def _probes(call: Call) -> list[_Probe]:
    """What the axes of the first input are is known by its name and their number; else they have no
    name."""
    tensors = [i for i, value in enumerate(call.before) if isinstance(value, Tensor)]
    if not tensors or tensors[0] != 0 or (dim := call.before[0].dim()) < 2:
        return []
    name, together = call.names[0], [i for i in tensors if call.before[i].dim() == dim]
    if dim == 2:  # of several matrices, such as weights, none need be a batch
        row, column = (
            _Probe(0, [0], "row 0", "the other rows"),
            _Probe(1, [0], "column 0", "the other columns"),
        )
        return [row, column] if len(tensors) == 1 else []
    pictures = _Probe(0, together, "picture 0", "the other pictures")
    if name in (
        "q",
        "query",
    ):  # a token knows of all others, by their keys and values; a query of no other query
        start = "With the same keys and values, the result for"
        probes = [pictures, _Probe(dim - 2, [0], "query 0", "the other queries", start)]
    elif name in ("x", "z", "input", "tokens", "images"):
        probes = [
            pictures,
            *([_Probe(1, together, "token 0", "the other tokens")] if dim == 3 else []),
        ]
    else:
        names = [call.names[i] for i in together]
        probes = [
            _Probe(
                axis,
                together,
                f"[{before}0]",
                _listed([f"{one}[{before}1:]" for one in names]),
                "The result at",
            )
            for axis, before in ((0, ""), (1, ":, "))
        ]
    sizes = [{call.before[i].shape[probe.axis] for i in probe.places} for probe in probes]
    return [probe for probe, size in zip(probes, sizes, strict=True) if len(size) == 1]


def _count(our: Call, their: Call) -> str:
    """A whole number that is a polynomial of the sizes: what is missing, or too much, or what was
    counted instead."""
    if (
        len(our.output) != 1
        or not isinstance(our.output[0], int)
        or any(isinstance(v, Tensor) for v in our.before)
    ):
        return ""
    sizes = our.sizes
    parts = {
        a: b
        for a, b in itertools.permutations(sizes, 2)
        if sizes[a] > sizes[b] > 1 and sizes[a] % sizes[b] == 0
    }
    parts = {
        a: b for a, b in parts.items() if b not in parts and "size" in a and "size" in b
    }  # patches in a picture
    names = [f"({name} / {parts[name]})" if name in parts else name for name in sizes]
    columns, results = [], []
    for step in range(12):
        values = [
            (3, 7, 5, 11, 13, 8)[(i + step) % 6] + 17 * (step * (i + 1) % 5)
            for i in range(len(names))
        ]
        columns.append(values)
        now = dict(zip(sizes, values, strict=True))
        now |= {a: now[a] * now[b] for a, b in parts.items()}
        given = [
            _resized(name, value, now) for name, value in zip(our.names, our.before, strict=False)
        ]
        results.append((their.made_with(given)[0], our.made_with(given)[0]))
    terms = [
        term
        for n in range(5)
        for term in itertools.combinations_with_replacement(range(len(names)), n)
    ]
    powers = torch.tensor(
        [[math.prod(values[i] for i in term) for term in terms] for values in columns]
    ).double()
    for minus, said in ((1, "Your count is ours"), (0, "Your count is")):
        right = torch.tensor([float(yours - minus * ours) for yours, ours in results]).double()
        for chosen in [
            *((i,) for i in range(len(terms))),
            *itertools.combinations(range(len(terms)), 2),
        ]:
            matrix = powers[:, chosen]
            whole = torch.linalg.lstsq(matrix[:4], right[:4, None]).solution[:, 0].round()
            if torch.equal(matrix @ whole, right) and whole.all():
                found = [
                    (int(n), [names[k] for k in terms[i]])
                    for n, i in zip(whole, chosen, strict=True)
                ]
                return f"{said} {' '.join(_term(n, term) for n, term in found)}.".replace(
                    "is +", "is"
                )
    return ""


def _scaled(our: Call, their: Call) -> str:
    """A single number that is ours times, or plus, a constant, whatever goes in."""
    if len(our.output) != len(their.output):
        return ""
    number = next(
        i for i, (a, b) in enumerate(zip(our.output, their.output, strict=True)) if not alike(a, b)
    )
    if isinstance(our.output[number], Tensor) and our.output[number].numel() > 1:
        return ""
    samples = [(float(our.output[number]), float(their.output[number]))]
    for place, value in enumerate(our.before):
        for changed in variants(value):
            samples.append(
                (
                    float(our.again(place, changed)[number]),
                    float(their.again(place, changed)[number]),
                )
            )
    if len({round(ours, 6) for ours, _ in samples}) < 2:
        return ""
    ratios = [yours / ours for ours, yours in samples]
    if max(ratios) - min(ratios) < 1e-4 * abs(ratios[0]):
        return f"The result is ours times {factor(ratios[0], (our, their))}, whatever goes in."
    shifts = [yours - ours for ours, yours in samples]
    if max(shifts) - min(shifts) < 1e-5 * max(1.0, abs(shifts[0])):
        return f"The result is ours {signed(shifts[0])}, whatever goes in."
    return ""


# ------------------------------------------------------------------------------------------ helpers


def _in_steps(output: list[Any]) -> bool:
    """Whether results may stay the same when an input changes a little: single numbers, and whole
    ones."""
    return not any(
        isinstance(part, Tensor) and part.is_floating_point() and part.numel() > 1
        for part in output
    )


def _drops(call: Call) -> bool:
    """Whether dropout is at work, which may keep tokens from hearing of each other."""
    parts = call.module.modules() if call.module and call.training else ()
    return any(isinstance(part, torch.nn.Dropout) and part.p > 0 for part in parts)


def _one_result(calls: Iterable[Call]) -> bool:
    first, *more = [call.output for call in calls]
    return bool(more) and all(alike(output, first) for output in more)


def _reacts(call: Call, number: int, value: Any) -> bool:
    return not alike(call.again(), call.again(number, value))


def _reacts_to_parameter(call: Call, name: str) -> bool:
    parameter = dict(call.module.named_parameters())[name] if call.module else None
    if parameter is None:
        return False
    before, old = call.again(), parameter.detach().clone()
    noise = torch.randn(
        old.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64
    ).to(old)
    try:
        parameter.copy_(old + noise)
        return not alike(before, call.again())
    finally:
        parameter.copy_(old)


def _resized(name: str, value: Any, sizes: dict[str, int]) -> Any:
    if name in sizes:
        return sizes[name]
    return (
        [sizes[f"{name}[{i}]"] for i in range(len(value))]
        if isinstance(value, list | tuple)
        else value
    )


def _term(number: int, term: list[str]) -> str:
    product, size = " · ".join(term), abs(number)
    return (
        f"{'+' if number > 0 else '−'}"
        f" {f'{size} · ' if size > 1 and product else '' if product else size}{product}"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
