"""What a wrong value shows by itself, beside the right one.

Each function looks for one thing, and returns a sentence, or "" if it sees nothing.
"""

import itertools
import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from .calls import SMALL, TOLERANCE, Call, alike, names_told

NEAR = 0.2  # share of the largest number, below which a number is near 0
FEW = 3  # numbers, of which fewer may be equal by chance
LEAST = 4  # numbers from which a factor is read
LONGEST = 12  # parts along an axis that are compared one by one
SMALLEST = 1e-4  # factor that is told; and one over the largest

# the first calls of the solution and of the answer whose results differ
Pair = tuple[Call, Call] | None

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "the root of ours": torch.sqrt,
    "the square of ours": torch.square,
    "exp of ours": torch.exp,
    "the logarithm of ours": torch.log,
    "one minus ours": lambda x: 1 - x,
    "one divided by ours": torch.reciprocal,
    "ours without its sign": torch.abs,
    "the softmax of ours": lambda x: x.softmax(dim=-1),
    "GELU of ours": nn.functional.gelu,
    "ReLU of ours": torch.relu,
    "tanh of ours": torch.tanh,
    "the sigmoid of ours": torch.sigmoid,
    "ours with each row divided by its sum": lambda x: x / x.sum(dim=-1, keepdim=True),
    "ours less the mean of each row": lambda x: x - x.mean(dim=-1, keepdim=True),
}


# only from ours to theirs: their few numbers, rounded, are ours by chance
ROUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "ours, rounded": torch.round,
    "ours, rounded to 2 decimals": lambda x: x.round(decimals=2),
    "ours, rounded to 3 decimals": lambda x: x.round(decimals=3),
}


COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "plus": torch.add,
    "minus": torch.sub,
    "times": torch.mul,
    "divided by": torch.div,
}


def rows(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Weights: rows sum to 1 in ours, and not in theirs."""
    if expected.shape != got.shape or expected.dim() < 2:
        return ""
    if not _ones(expected.sum(dim=-1)) or expected.min() < 0:
        return ""
    sums = got.sum(dim=-1)
    if _ones(sums) or not got.isfinite().all():
        return ""
    for axis in range(got.dim() - 1):
        if got.shape[axis] > 1 and _ones(got.sum(dim=axis)):
            return f"Rows should sum to 1, and here the numbers along axis {axis} do."
    least = f"{float(sums.min()):.5g}"
    most = f"{float(sums.max()):.5g}"
    between = least if least == most else f"{least} … {most}"
    return f"Rows should sum to 1, and yours sum to {between}."


def row_sums(our: Call, their: Call) -> str:
    """The same for any result of a call."""
    if len(our.output) != len(their.output):
        return ""
    for expected, got in zip(our.output, their.output, strict=False):
        if not isinstance(expected, Tensor) or not isinstance(got, Tensor):
            continue
        if expected.dim() < 2 or expected.numel() == 0 or expected.min() <= 0:
            continue  # no weights of a softmax: rows of an identity sum to 1, too
        said = rows(expected.double(), got.double(), None)
        if said:
            return said.replace("Rows", "Rows of the weights")
    return ""


def transformed(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Ours times or plus something that has a name, or a function of ours."""
    if expected.shape != got.shape or alike(expected, got):
        return ""  # other numbers, not another kind of numbers
    for look in (_constant, _times, _plus_number, _with_known, _plus_vector, _function):
        said = look(expected, got, pair)
        if said:
            return said
    return ""


def simply(expected: Tensor, got: Tensor) -> str:
    """A value of ours that was changed in a simple way, in words; "" if it was not."""
    if alike(expected, got):
        return ""
    for look in (_times, _plus_number):
        said = look(expected, got, None)
        if said:
            return "a value of ours " + said.removeprefix("The result is ours ").rstrip(".")
    for first, second in itertools.combinations(range(expected.dim()), 2):
        turned = expected.transpose(first, second)
        if turned.shape == got.shape and alike(turned, got):
            return f"a value of ours with axes {first} and {second} exchanged"
    return ""


def _constant(expected: Tensor, got: Tensor, pair: Pair) -> str:
    if got.numel() < FEW:
        return ""
    for value, said in ((0.0, "zero everywhere"), (1.0, "one everywhere")):
        if torch.equal(got, torch.full_like(got, value)):
            return f"The result is {said}."
    return ""


def nearly(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Ours but for less than a thousandth."""
    if expected.shape != got.shape or not got.numel():
        return ""
    off = float((got - expected).abs().max())
    if 0 < off < 1e-3 * float(expected.abs().max()) and expected.is_floating_point():
        return f"It is nearly ours, off by at most {off:.2g}."
    return ""


def _times(expected: Tensor, got: Tensor, pair: Pair) -> str:
    large = expected.abs() > 1e-3 * expected.abs().max()
    ratio = (got / expected)[large]
    if ratio.numel() < 2 or not SMALLEST < float(ratio.mean().abs()) < 1 / SMALLEST:
        return ""  # of a smaller one rounding is left
    size = got.abs().max().clamp_min(1e-12)
    if alike(expected * ratio.mean() / size, got / size):
        return f"The result is ours times {factor(float(ratio.mean()), pair)}, everywhere."
    return ""


def _plus_number(expected: Tensor, got: Tensor, pair: Pair) -> str:
    difference = got - expected
    spread = (difference - difference.mean()).abs()
    if difference.numel() > 1 and spread.max() < 1e-5 * _scale(expected):
        return f"The result is ours {signed(float(difference.mean()))}, everywhere."
    return ""


def _with_known(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Ours plus, minus, times or divided by an input or a parameter."""
    for name, tensor in _known(pair):
        known = tensor.double()
        sides = [(name, known)]
        if known.dim() == 1:
            sides.append((f"{name}, one for each row", known[:, None]))
        for said, other in sides:
            for word, function in COMBINED.items():
                with suppress(RuntimeError):
                    combined = function(expected, other)
                    if combined.shape == got.shape and alike(combined, got):
                        return f"The result is ours {word} {said}."
            share = _share(expected, got, other)
            if share:
                return f"The result is ours {share} times {said}."
    return ""


def _share(expected: Tensor, got: Tensor, known: Tensor) -> str:
    """ "plus 0.01" where theirs is ours plus 0.01 times something known; else ""."""
    if expected.shape != got.shape or expected.numel() < LEAST or not known.any():
        return ""
    try:
        other = known.expand_as(got)
    except RuntimeError:
        return ""
    difference = got - expected
    if not difference.isfinite().all():
        return ""
    by = (difference * other).sum() / other.square().sum()
    if by == 0 or (difference - by * other).abs().max() > 1e-4 * difference.abs().max():
        return ""
    return signed(float(by))


def _plus_vector(expected: Tensor, got: Tensor, pair: Pair) -> str:
    difference = got - expected
    vectors = difference.flatten(0, -2) if difference.dim() > 1 else difference[None]
    spread = (vectors - vectors[0]).abs()
    ours = expected.flatten(0, -2) if expected.dim() > 1 else expected[None]
    if (ours - ours[0]).abs().max() < 1e-5 * _scale(expected):
        return ""  # ours is alike at every place itself, as where everything is dropped
    if len(vectors) > 1 and spread.max() < 1e-5 * _scale(expected):
        return "The result is ours plus the same vector at every place."
    return ""


def _function(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """A function of ours, or the other way round, if one alone fits.

    On some numbers two are the same: for large ones GELU is ReLU.
    """
    if got.numel() < 3:  # with so few, several functions fit by chance
        return ""
    found = []
    functions = FUNCTIONS
    if (expected != expected.round()).sum() > 2:  # else whole numbers alone say that it is rounded
        functions = FUNCTIONS | ROUNDED
    for said, function in functions.items():
        if alike(function(expected), got):
            found.append(f"The result is {said}.")
        elif said not in ROUNDED and alike(function(got), expected):
            found.append(f"Ours is {said.replace('ours', 'yours')}.")
    return found[0] if len(found) == 1 else ""


def moved(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """The right numbers in other places, in an order that has a name."""
    if not scattered(expected, got, pair) or alike(expected.flatten(), got.flatten()):
        return ""
    return _exchanged(expected, got) or _shifted(expected, got) or _dealt(expected, got)


def _exchanged(expected: Tensor, got: Tensor) -> str:
    for first, second in itertools.combinations(range(expected.dim()), 2):
        turned = expected.transpose(first, second)
        if turned.shape == got.shape and alike(turned, got):
            return f"The numbers are right, but axes {first} and {second} are exchanged."
        if alike(turned.reshape(got.shape), got):
            return (
                f"The numbers are right, but stand as if axes {first} and {second} were exchanged"
                " before a reshape."
            )
    return ""


def _shifted(expected: Tensor, got: Tensor) -> str:
    if expected.shape != got.shape:
        return ""
    for axis in range(expected.dim()):
        if alike(expected.flip(axis), got):
            return f"The numbers are right, but axis {axis} runs backwards."
        for by in range(1, expected.shape[axis]):
            if alike(expected.roll(by, axis), got):
                return f"The numbers are right, but moved by {by} along axis {axis}."
    return ""


def _dealt(expected: Tensor, got: Tensor) -> str:
    """Each part along an axis is one of ours, and they stand in another order."""
    if expected.shape != got.shape:
        return ""
    for axis in range(expected.dim()):
        order = _order(expected, got, axis)
        if order:
            listed = ", ".join(map(str, order))
            return (
                f"The numbers are right, but in another order: along axis {axis} yours holds what"
                f" ours holds at {listed}."
            )
    return ""


def repeated(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Each part along an axis is one of ours, and some come twice."""
    if expected.shape != got.shape or expected.numel() < 4 or alike(expected, got):
        return ""
    for axis in range(expected.dim()):
        order = _order(expected, got, axis)
        if order and len(set(order)) < len(order):
            listed = ", ".join(map(str, order))
            return (
                f"Along axis {axis} yours holds what ours holds at {listed}, and should hold each"
                " once, in order."
            )
    return ""


def _order(expected: Tensor, got: Tensor, axis: int) -> list[int]:
    """Which part of ours each part of theirs along an axis is; [] if one of them is none."""
    if not 1 < expected.shape[axis] <= LONGEST or expected.select(axis, 0).numel() < 2:
        return []
    ours = [expected.select(axis, place) for place in range(expected.shape[axis])]
    if any(alike(one, other) for one, other in itertools.combinations(ours, 2)):
        return []
    order = []
    for place in range(got.shape[axis]):
        found = [number for number, own in enumerate(ours) if alike(own, got.select(axis, place))]
        if not found:
            return []
        order.append(found[0])
    return order


def sharpness(our: Call, their: Call) -> str:
    """Weights whose rows sum to 1, as of scores that are ours times a number."""
    if len(our.output) != len(their.output):
        return ""
    for expected, got in zip(our.output, their.output, strict=False):
        if not _are_weights(expected) or not _are_weights(got):
            continue
        if expected.shape != got.shape or alike(expected, got):
            continue
        said = _scaled_scores(_differences(expected), _differences(got), (our, their))
        if said:
            return said
    return ""


def _scaled_scores(ours: Tensor, theirs: Tensor, pair: Pair) -> str:
    """By which number differences of scores are multiplied, everywhere or in each row."""
    large = ours.abs() > NEAR * ours.abs().max()
    if large.sum() < LEAST:
        return ""
    by = (theirs / ours)[large]
    if by.min() <= 0:
        return ""
    if alike(by, by.mean().expand_as(by)):
        number = factor(float(by.mean()), pair)
        return f"Your weights are those of scores that are ours times {number}."
    in_rows = (theirs * ours).sum(dim=-1, keepdim=True) / ours.square().sum(dim=-1, keepdim=True)
    if ours.shape[-1] > 1 and alike(in_rows * ours, theirs):
        between = f"from {float(in_rows.min()):.3g} to {float(in_rows.max()):.3g}"
        return f"Each row of your weights is the softmax of our scores times a number, {between}."
    return ""


def _are_weights(value: object) -> bool:
    """Whether it is a tensor of positive numbers whose rows sum to 1."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.dim() < 2:
        return False
    is_positive = value.numel() > 0 and value.shape[-1] > 1 and bool((value > 1e-12).all())
    return is_positive and _ones(value.double().sum(dim=-1))


def _differences(weights: Tensor) -> Tensor:
    """The differences of neighbouring scores, which the logarithms of weights tell."""
    return weights.double().log().diff(dim=-1)


def axes(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """The right numbers in another shape, or with an axis too many."""
    if got.shape == expected.shape:
        return ""
    if got.numel() == expected.numel() and alike(got.reshape(expected.shape), expected):
        more = got.dim() - expected.dim()
        if more > 0 and got.squeeze().shape == expected.squeeze().shape:
            return f"The numbers are right. Axes of length 1 that are too many: {more}."
        if more < 0 and got.squeeze().shape == expected.squeeze().shape:
            return f"The numbers are right. Axes of length 1 that are missing: {-more}."
        return "The numbers are right, and in the right order: only their shape is not."
    if got.dim() < expected.dim():
        return _reduced(expected, got)
    if got.dim() != expected.dim() + 1:
        return ""
    if said := _on_diagonal(expected, got):
        return said
    for axis in range(got.dim()):
        reduced = {
            "mean": got.mean(dim=axis),
            "sum": got.sum(dim=axis),
            "first": got.select(axis, 0),
        }
        for name, less in reduced.items():
            if alike(less, expected):
                return f"There is an axis too many: ours is the {name} of yours along axis {axis}."
    return ""


def _on_diagonal(expected: Tensor, got: Tensor) -> str:
    """Each number with each, of two tensors along the same axis: ours is the diagonal."""
    for axis in range(expected.dim()):
        length = expected.shape[axis]
        if length < 2 or got.shape[axis] != length or got.shape[axis + 1] != length:
            continue
        if alike(got.diagonal(dim1=axis, dim2=axis + 1).movedim(-1, axis), expected):
            return (
                f"Yours holds {length} times {length} numbers, and ours is its diagonal. That comes"
                f" about, for instance, where ({length},) meets ({length}, 1), each number with"
                " each: keepdim=True, or [:, None], leaves such an axis of length 1."
            )
    return ""


def _reduced(expected: Tensor, got: Tensor) -> str:
    """Ours after a mean, a sum or a choice along one axis, or over everything."""
    if got.dim() == 0:
        for name, whole in (("mean", expected.mean()), ("sum", expected.sum())):
            if alike(whole, got):
                return f"Yours is the {name} of all numbers of ours."
        return ""
    if got.dim() != expected.dim() - 1:
        return ""
    for axis in range(expected.dim()):
        less = {
            "the mean of ours": expected.mean(dim=axis),
            "the sum of ours": expected.sum(dim=axis),
            "the largest of ours": expected.amax(dim=axis),
            "the first of ours": expected.select(axis, 0),
            "the last of ours": expected.select(axis, -1),
        }
        for name, value in less.items():
            if value.shape == got.shape and alike(value, got):
                return f"An axis is missing: yours is {name} along axis {axis}."
    return ""


def origin(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Numbers of an input in other places: which one stands at the first place that is wrong."""
    if expected.shape != got.shape or expected.numel() < LEAST:
        return ""
    place = _first_wrong(expected, got)
    for name, value in _inputs(pair):
        if value.unique().numel() < value.numel():
            continue
        own, right = _found(value, got[place]), _found(value, expected[place])
        if own and right and torch.isin(got, value).all() and torch.isin(expected, value).all():
            return (
                f"At {list(place)} yours has the number {name}{own}, and the number {name}{right}"
                " belongs there."
            )
    return ""


def _first_wrong(expected: Tensor, got: Tensor) -> tuple[int, ...]:
    wrong = (expected != got).flatten().to(torch.uint8).argmax()
    return tuple(map(int, torch.unravel_index(wrong, expected.shape)))


def _inputs(pair: Pair) -> list[tuple[str, Tensor]]:
    """The inputs of the solution's call that hold numbers, by name."""
    if pair is None:
        return []
    found = []
    for name, value in zip(names_told(*pair), pair[0].before, strict=False):
        if isinstance(value, Tensor) and value.is_floating_point():
            found.append((name, value.detach().double()))
    return found


def _found(value: Tensor, number: Tensor) -> str:
    """The place of a number in a tensor, as an index; "" if it is not there."""
    places = (value == number).nonzero()
    return str(places[0].tolist()) if len(places) else ""


def scattered(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """The right numbers in other places."""
    if expected.numel() != got.numel() or got.numel() < 4:
        return ""
    if alike(expected, got):  # nothing has moved: the numbers are a little off
        return ""
    if alike(expected.flatten().sort().values, got.flatten().sort().values):
        return "The numbers are right, but stand in other places."
    return ""


def partly(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Right in one part only."""
    if expected.shape != got.shape or expected.numel() < 3:
        return ""
    wrong = _wrong(expected, got)
    for axis in range(expected.dim()):
        bad = wrong.movedim(axis, 0).flatten(1).any(dim=1) if wrong.dim() > 1 else wrong
        right = (~bad).nonzero()[:, 0].tolist()
        ill = bad.nonzero()[:, 0].tolist()
        if ill and right:
            if len(right) <= len(ill):
                return f"Along axis {axis} it is right at {_places(right)} only."
            return f"Along axis {axis} it is wrong at {_places(ill)} only."
    return few(expected, got, pair)


def edges(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Pictures that are right inside, and wrong in the outermost rows and columns."""
    # of three axes the last two may be tokens and their numbers
    if expected.shape != got.shape or expected.dim() < 4 or min(expected.shape[-2:]) < 4:
        return ""
    wrong = _wrong(expected, got)
    if not wrong.any() or wrong[..., 1:-1, 1:-1].any():
        return ""
    sides = {
        "top row": wrong[..., 0, 1:-1],
        "bottom row": wrong[..., -1, 1:-1],
        "left column": wrong[..., 1:-1, 0],
        "right column": wrong[..., 1:-1, -1],
    }
    said = [name for name, side in sides.items() if side.any()]
    if not said:
        return ""
    return (
        f"The inside is right. Wrong at the edge: {', '.join(said)}. Which numbers stand for what"
        " is beyond it?"
    )


def where(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """What the wrong numbers have in common, where others are right."""
    if expected.shape != got.shape or expected.numel() < 3:
        return ""
    wrong = _wrong(expected, got)
    count = int(wrong.sum())
    if count < 3 or count == wrong.numel():
        return ""
    return _by_sign(wrong, pair) or _in_common(expected[wrong], got[wrong], wrong)


def _by_sign(wrong: Tensor, pair: Pair) -> str:
    """Wrong exactly where an input of the same shape is negative, or where it is positive."""
    for name, value in _known(pair):
        if value.shape != wrong.shape:
            continue
        for word, places in (("negative", value < 0), ("positive", value > 0)):
            if wrong[~places].any() or not wrong.any() or places.all():
                continue
            large = value.abs() > NEAR * value.abs().max()
            if wrong[places & large].all() and (places & large).any():  # near 0 both may be equal
                return f"It is wrong where {name} is {word}, and right elsewhere."
    return ""


def _in_common(expected: Tensor, got: Tensor, wrong: Tensor) -> str:
    if alike(got, got[:1].expand_as(got)) and not alike(expected, expected[:1].expand_as(got)):
        return f"Wherever it is wrong, it is {float(got[0]):.4g}{_along(wrong)}."
    shift = got - expected
    if alike(shift, shift[:1].expand_as(shift)):
        return f"Wherever it is wrong, it is ours {signed(float(shift[0]))}{_along(wrong)}."
    if expected.abs().min() > 1e-3 * _scale(expected):
        ratio = got / expected
        if alike(ratio, ratio[:1].expand_as(ratio)):
            return f"Wherever it is wrong, it is ours times {float(ratio[0]):.4g}{_along(wrong)}."
    return ""


def _along(wrong: Tensor) -> str:
    """Where the wrong places are along the first axis that tells some from others."""
    for axis in range(wrong.dim()):
        bad = wrong.movedim(axis, 0).flatten(1).any(dim=1) if wrong.dim() > 1 else wrong
        if not bad.all():
            return f" (along axis {axis} at {_places(bad.nonzero()[:, 0].tolist())})"
    return ""


def _wrong(expected: Tensor, got: Tensor) -> Tensor:
    return (expected - got).abs() > TOLERANCE * expected.abs().max().clamp_min(SMALL)


def few(expected: Tensor, got: Tensor, pair: Pair) -> str:
    """Right in most numbers."""
    if expected.shape != got.shape or expected.numel() < 3:
        return ""
    wrong = _wrong(expected, got)
    count = int(wrong.sum())
    if not 0 < count < 0.5 * wrong.numel():
        return ""
    are = "is" if count == 1 else "are"
    return f"{count} of {wrong.numel()} numbers {are} wrong, the others are right."


def factor(value: float, pair: Pair) -> str:
    """A factor, and the size that explains it, if one alone does."""
    known = {"−1": -1.0, "2": 2.0, "1/2": 0.5, "√2": 2**0.5, "1/√2": 0.5**0.5, "ln 2": math.log(2)}
    for name, size in pair[0].sizes.items() if pair else ():
        if size > 1:
            known[f"√{name}"] = size**0.5
            known[f"1/√{name}"] = size**-0.5
            known[name] = float(size)
            known[f"1/{name}"] = 1 / size
            known[f"n/(n − 1), n = {name}"] = size / (size - 1)
            known[f"(n − 1)/n, n = {name}"] = (size - 1) / size
    fitting = [name for name, other in known.items() if abs(other - value) < 1e-4 * abs(value)]
    # "2 (= 2)" says nothing, and of two names one is wrong
    is_named = len(fitting) == 1 and fitting[0] not in ("−1", "2")
    return f"{value:.4g} (= {fitting[0]})" if is_named else f"{value:.4g}"


def signed(value: float) -> str:
    """A number to add, in words."""
    return f"plus {value:.4g}" if value > 0 else f"minus {-value:.4g}"


def _scale(expected: Tensor) -> Tensor:
    return expected.abs().max().clamp_min(1e-9)


def _known(pair: Pair) -> list[tuple[str, Tensor]]:
    """Inputs and parameters of the solution's call, by name."""
    if pair is None:
        return []
    call = pair[0]
    known = []
    for name, value in zip(names_told(*pair), call.before, strict=False):
        if isinstance(value, Tensor):
            known.append((name, value))
    if call.module is not None:
        for name, parameter in call.module.named_parameters():
            known.append((f"self.{name}", parameter.detach()))
    return known


def _ones(sums: Tensor) -> bool:
    return bool((sums - 1).abs().max() < 1e-4)


def _places(places: list[int]) -> str:
    if len(places) > 4 and places == list(range(places[0], places[-1] + 1)):
        return f"{places[0]} to {places[-1]}"
    more = " …" if len(places) > 6 else ""
    return ", ".join(map(str, places[:6])) + more
