"""What was computed from several inputs, as a short formula of their names."""

import itertools
from collections.abc import Iterator

from torch import Tensor

from .calls import Call, alike, names_told

LARGEST = 400  # numbers of an input; with larger ones it would take long
MOST = 30  # products of which two are added
FEWEST = 3  # numbers of a result that are hardly equal by chance

Term = tuple[str, Tensor]


def formula(our: Call, their: Call) -> str:
    """A product, sum or difference of two inputs, plus or minus a third one, if theirs is one."""
    terms = _terms(our, names_told(our, their))
    if len(terms) < 2 or len(our.output) != len(their.output):
        return ""
    several = len(their.output) > 1
    for number, (expected, got) in enumerate(zip(our.output, their.output, strict=False), start=1):
        if not isinstance(got, Tensor) or got.numel() < FEWEST or alike(expected, got):
            continue
        for text, value in _formulas(terms):
            if value.shape == got.shape and alike(value, got):
                subject = f"Result {number} of {len(their.output)}" if several else "Your result"
                return f"{subject} is {text}."
    return ""


def _terms(call: Call, names: list[str]) -> list[Term]:
    """The tensors that were given, and the matrices among them transposed."""
    found = []
    for name, value in zip(names, call.before, strict=False):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        if value.numel() > LARGEST or value.dim() > 2:
            return []
        found.append((name, value.detach()))
        if value.dim() == 2:
            found.append((f"{name}.T", value.detach().T))
    return found


def _formulas(terms: list[Term]) -> Iterator[Term]:
    yield from terms
    # what needs no transposing is the more likely text
    pairs = sorted(_pairs(terms), key=lambda pair: pair[0].count(".T"))
    yield from pairs
    for text, value in pairs:
        for name, third in terms:
            if value.shape == third.shape:
                yield f"{text} + {name}", value + third
                yield f"{text} - {name}", value - third
    vectors = [pair for pair in pairs if pair[1].dim() == 1 and "@" in pair[0]][:MOST]
    for (text, value), (other, more) in itertools.combinations(vectors, 2):
        if value.shape == more.shape:
            yield f"{text} + {other}", value + more


def _pairs(terms: list[Term]) -> Iterator[Term]:
    for first, one in terms:
        for second, other in terms:
            if one.dim() and other.dim() and one.shape[-1] == other.shape[max(-2, -other.dim())]:
                yield f"{first} @ {second}", one @ other
            if one.shape == other.shape:
                yield f"{first} * {second}", one * other
                yield f"{first} + {second}", one + other
                yield f"{first} - {second}", one - other
