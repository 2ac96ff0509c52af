"""How results react when something is changed: the learner's code is called again, beside ours."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .calls import Call, alike, given_again, names_told, stays, variants
from .looking import factor, signed

TOKENS = ("x", "z", "input", "tokens", "images")  # inputs with pictures, and perhaps tokens
QUERIES = ("q", "query")
LONGEST = 12  # places along an axis that are changed one by one
SECONDS = 0.5  # for all of them
CASES = 3  # results, all different, from which a factor is read
SIZES = (1.0, 0.01)  # by which inputs are multiplied, to see whether a part has no effect


def returns_input(our: Call, their: Call) -> str:
    """The first result is an input, to the last bit, and ours is not."""
    if not their.output or not our.output or alike(their.output[0], our.output[0]):
        return ""
    many = len(their.output)
    what = "What comes back" if many == 1 else f"Result 1 of {many}"
    for name, value in zip(their.names, their.before, strict=False):
        if isinstance(value, Tensor) and _is_same(value, their.output[0]):
            return f"{what} is {name}, unchanged."
    return ""


def _is_same(value: Tensor, result: Any) -> bool:
    return isinstance(result, Tensor) and torch.equal(value.detach(), result)


# ------------------------------------------------------------------------------------- dependence


def depends(pairs: list[tuple[Call, Call]]) -> str:
    """Inputs and parameters that ours depends on and theirs does not, or the other way round."""
    needed: dict[str, bool] = {}  # by name: whether ours reacts to it
    used: dict[str, bool] = {}
    for our, their in pairs:
        for number, name in enumerate(our.names):
            for changed in variants(our.before[number]):
                needed[name] = needed.get(name, False) or _reacts(our, number, changed)
                used[name] = used.get(name, False) or _reacts(their, number, changed)
    if len(pairs[0][1].output) != len(pairs[0][0].output):
        return ""  # what is missing cannot be looked at
    unused = _only_in(needed, used)
    extra = _only_in(used, needed)
    our, their = pairs[0]
    told = dict(zip(our.names, names_told(our, their), strict=True))
    unused = [told.get(name, name) for name in unused]
    extra = [told.get(name, name) for name in extra]
    if _may_stay(their.output):
        # Only what is always the same is told, as it may change elsewhere.
        depends_on_nothing = len(unused) == len(needed) > 0 and not extra
        if depends_on_nothing and _one_result([their for _, their in pairs]):
            return f"The result stays the same when we change {listed(unused)}."
        return ""
    if unused:
        anything = ", that is, everything given" if len(unused) == len(our.names) else ""
        return (
            f"The result stays the same when we change {listed(unused)}{anything}; ours does not."
        )
    silent = _silent_parameters(our, their)
    if silent:
        return f"The result stays the same when we change {listed(silent)}; ours does not."
    if extra:
        return f"The result changes when we change {listed(extra)}; ours does not."
    return ""


def _silent_parameters(our: Call, their: Call) -> list[str]:
    """Parameters that ours reacts to and theirs does not; empty if theirs reacts to none.

    Both have to have the same values: where a parameter is multiplied by zeros, it has no effect.
    """
    ours = _parameters(our)
    theirs = _parameters(their)
    for name, parameter in ours.items():
        if name not in theirs or not alike(parameter, theirs[name]):
            return []
    moving = [name for name in ours if _reacts_to_parameter(our, name)]
    silent = [name for name in moving if not _reacts_to_parameter(their, name)]
    return silent if len(silent) < len(moving) else []


def _only_in(reacting: dict[str, bool], other: dict[str, bool]) -> list[str]:
    return [name for name in reacting if reacting[name] and not other[name]]


def _parameters(call: Call) -> dict[str, nn.Parameter]:
    return dict(call.module.named_parameters()) if call.module else {}


def _reacts(call: Call, number: int, value: Any) -> bool:
    return not stays(call.again(), call.again(number, value))


def _reacts_to_parameter(call: Call, name: str) -> bool:
    if call.module is None:
        return False
    parameter = dict(call.module.named_parameters())[name]
    before = call.again()
    old = parameter.detach().clone()
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(old.shape, generator=generator, dtype=torch.float64).to(old)
    try:
        parameter.copy_(old + noise)
        return not stays(before, call.again())
    finally:
        parameter.copy_(old)


def _may_stay(output: list[Any]) -> bool:
    """Whether results may stay the same when an input changes a little: single or whole numbers."""
    for part in output:
        if isinstance(part, Tensor) and part.is_floating_point() and part.numel() > 1:
            return False
    return True


def _one_result(calls: list[Call]) -> bool:
    """Whether several calls gave the same."""
    first, *more = calls
    return bool(more) and all(alike(call.output, first.output) for call in more)


# ----------------------------------------------------------------------------------------- mixing


@dataclass
class _Probe:
    """An axis along which all but the first are changed.

    Attributes:
        axis: its number.
        places: the inputs that are changed.
        one, many: what the first and the others are called.
        start: how the sentence begins.
    """

    axis: int
    places: list[int]
    one: str
    many: str
    start: str = "The result for"


def mixes(our: Call, their: Call) -> str:
    """Pictures of a batch, or tokens, know of each other and should not, or the other way round."""
    if _drops(our):
        return ""
    for probe in _probes(our, names_told(our, their)):
        if not _is_along(probe, our, their):
            continue
        changed = _changed_rest(our, probe)
        stays_in_ours = _first_stays(our, changed, probe.axis)
        stays_in_theirs = _first_stays(their, changed, probe.axis)
        if stays_in_ours and not stays_in_theirs:
            return (
                f"{probe.start} {probe.one} changes when {probe.many} change: it should not know of"
                " them."
            )
        if stays_in_theirs and not stays_in_ours and not _may_stay(their.output):
            return (
                f"{probe.start} {probe.one} stays the same when {probe.many} change: it should"
                " depend on them."
            )
    return ""


def _drops(call: Call) -> bool:
    """Whether dropout is at work, which may keep tokens from hearing of each other."""
    if call.module is None or not call.training:
        return False
    modules = list(call.module.modules())
    if any(isinstance(part, nn.Dropout) and part.p > 0 for part in modules):
        return True
    try:  # functions of dropout know the mode, too
        call.module.eval()
        return not alike(call.made_with(list(map(given_again, call.before))), call.output)
    finally:
        call.module.train()


def _is_along(probe: _Probe, our: Call, their: Call) -> bool:
    """Whether both results have the probe's axis, as long as that of the input."""
    given = our.before[probe.places[0]]
    result = our.output[0]
    if not isinstance(result, Tensor) or result.dim() <= probe.axis:
        return False
    shape = given.shape[: probe.axis + 1]
    if shape[-1] < 2 or result.shape[: probe.axis + 1] != shape:
        return False
    return their.output[0].shape[: probe.axis + 1] == shape


def _changed_rest(call: Call, probe: _Probe) -> dict[int, Tensor]:
    """The inputs of a probe, all but the first along its axis replaced."""
    rest = (*[slice(None)] * probe.axis, slice(1, None))
    changed = {}
    for place in probe.places:
        changed[place] = call.before[place].clone()
        changed[place][rest] = variants(call.before[place])[0][rest]
    return changed


def _first_stays(call: Call, changed: dict[int, Tensor], axis: int) -> bool:
    """Whether the result for the first stays the same with other inputs."""
    first = (*[slice(None)] * axis, 0)
    return stays(call.again_with(changed)[0][first], call.again()[0][first])


def _probes(call: Call, names: list[str]) -> list[_Probe]:
    """The axes to probe; what they are is known by the first input's name and their number."""
    tensors = [place for place, value in enumerate(call.before) if isinstance(value, Tensor)]
    if not tensors or tensors[0] != 0 or call.before[0].dim() < 2:
        return []
    dim = call.before[0].dim()
    if dim == 2:
        if len(tensors) > 1:  # of several matrices, such as weights, none need be a batch
            return []
        row = _Probe(0, [0], "row 0", "the other rows")
        column = _Probe(1, [0], "column 0", "the other columns")
        return [row, column]
    together = [place for place in tensors if call.before[place].dim() == dim]
    probes = _named_probes(call, dim, together, names)
    return [probe for probe in probes if _same_length(call, probe)]


def _named_probes(call: Call, dim: int, together: list[int], names: list[str]) -> list[_Probe]:
    name = call.names[0]
    pictures = _Probe(0, together, "picture 0", "the other pictures")
    if name in QUERIES:
        # A token knows of all others, by their keys and values; a query of no other query.
        start = "With the same keys and values, the result for"
        return [pictures, _Probe(dim - 2, [0], "query 0", "the other queries", start)]
    if name in TOKENS:
        tokens = _Probe(1, together, "token 0", "the other tokens")
        has_tokens = dim == 3 and name != "images"
        return [pictures, tokens] if has_tokens else [pictures]
    probes = []
    for axis, one, others in ((0, "[0]", "[1:]"), (1, "[:, 0]", "[:, 1:]")):
        many = listed([f"{names[place]}{others}" for place in together])
        probes.append(_Probe(axis, together, one, many, "The result at"))
    return probes


def _same_length(call: Call, probe: _Probe) -> bool:
    return len({call.before[place].shape[probe.axis] for place in probe.places}) == 1


def slices(our: Call, their: Call) -> str:
    """A part of an input, such as its last row, that ours depends on and theirs does not."""
    if _drops(our) or _may_stay(their.output):
        return ""
    end = time.thread_time() + SECONDS
    for place, value in enumerate(our.before):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        other = variants(value)[0] if value.numel() else value
        if not _reacts(our, place, other) or not _reacts(their, place, other):
            continue
        for axis in range(value.dim()):
            for number in range(value.shape[axis]):
                if time.thread_time() > end or not 1 < value.shape[axis] <= LONGEST:
                    break
                part: tuple[Any, ...] = (*[slice(None)] * axis, number)
                changed = value.detach().clone()
                changed[part] = other[part].detach()
                ours = _reacts(our, place, changed)
                theirs = _reacts(their, place, changed)
                is_so = ours != theirs and _reacts_so_elsewhere(
                    (our, their), place, part, (ours, theirs)
                )
                if is_so:
                    return _reacts_alone(
                        f"{names_told(our, their)[place]}[{':, ' * axis}{number}]", ours
                    )
    return ""


def _reacts_so_elsewhere(
    calls: tuple[Call, Call], place: int, part: tuple[Any, ...], reacted: tuple[bool, bool]
) -> bool:
    """Whether ours and theirs react alike to the same part of another input.

    A number may have no effect in one input only, as beside a 0, or in large ones only, of which a
    softmax gives 0 and 1.
    """
    for call, was in zip(calls, reacted, strict=True):
        value = call.before[place].detach()
        for size in SIZES:
            base = size * variants(value)[0].detach()
            changed = base.clone()
            changed[part] = size * value[part]
            first, second = call.again(place, base), call.again(place, changed)
            if not all(_finite(output) for output in (first, second)):
                return False
            is_moved = not stays(first, second)
            if is_moved and not was:
                return False
            if size == 1 and is_moved != was:
                return False
    return True


def _finite(output: list[Any]) -> bool:
    return all(bool(part.isfinite().all()) for part in output if isinstance(part, Tensor))


def _reacts_alone(part: str, ours: bool) -> str:
    if ours:
        return f"The result stays the same when only {part} changes; ours does not."
    return f"The result changes when only {part} changes; ours does not."


# ---------------------------------------------------------------------------------------- scaling


def scales(our: Call, their: Call) -> str:
    """A single number that is ours times, or plus, a constant, in several cases."""
    if len(our.output) != len(their.output):
        return ""
    number = _first_different(our.output, their.output)
    if isinstance(our.output[number], Tensor) and our.output[number].numel() > 1:
        return ""
    samples = {float(our.output[number]): float(their.output[number])}
    for place, value in enumerate(our.before):
        for changed in variants(value):
            ours = float(our.again(place, changed)[number])
            samples[ours] = float(their.again(place, changed)[number])
    if len(samples) < CASES:
        return ""
    if all(alike(our, their) for our, their in samples.items()):
        return ""  # it is another kind of value, not another number
    cases = f"in all {len(samples)} cases that we tried"
    ratios = [theirs / ours for ours, theirs in samples.items()]
    if max(ratios) - min(ratios) < 1e-4 * abs(ratios[0]):
        return f"The result is ours times {factor(ratios[0], (our, their))}, {cases}."
    shifts = [theirs - ours for ours, theirs in samples.items()]
    apart = max(shifts) - min(shifts)
    if apart < min(1e-5 * max(1.0, abs(shifts[0])), 1e-2 * abs(shifts[0])):
        return f"The result is ours {signed(shifts[0])}, {cases}."
    return ""


def _first_different(ours: list[Any], theirs: list[Any]) -> int:
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        if not alike(our, their):
            return number
    raise ValueError("the results are equal")


def listed(names: list[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    said = ", ".join(names[:most])
    return f"{said} and {len(names) - most} more" if len(names) > most else said
