"""A whole number that depends on sizes: what was counted instead, as a sum of products of sizes."""

import itertools
from typing import Any

import torch
from torch import Tensor

from .calls import Call

SAMPLES = 12
FITTED = 4  # samples from which the whole numbers in the sum are computed; the others confirm
DEGREE = 4  # sizes in a product, at most
PRIMES = (3, 7, 5, 11, 13, 8)  # sizes that are given, with something added in each sample


def count(our: Call, their: Call) -> str:
    """A whole number that is a polynomial of the sizes: what is missing, too much, or counted."""
    if len(our.output) != 1 or not isinstance(our.output[0], int):
        return ""
    if any(isinstance(value, Tensor) for value in our.before):
        return ""
    parts = _parts(our.sizes)
    names = []
    for name in our.sizes:
        names.append(f"({name} / {parts[name]})" if name in parts else name)
    columns = [_sample(step, len(names)) for step in range(SAMPLES)]
    ours = []
    theirs = []
    for values in columns:
        given = _given(our, values, parts)
        theirs.append(float(their.made_with(given)[0]))
        ours.append(float(our.made_with(given)[0]))
    products = _products(len(names))
    powers = _powers(columns, products)
    counted = torch.tensor(theirs, dtype=torch.float64)
    difference = counted - torch.tensor(ours, dtype=torch.float64)
    if (difference == 0).any():  # the two differ in some cases only, and no sum says in which
        return ""
    for right, said in ((difference, "Your count is ours"), (counted, "Your count is")):
        found = _whole_sum(powers, right)
        for number, place in found:
            factors = [names[size] for size in products[place]]
            said += f" {_term(number, factors)}"
        if found:
            return f"{said}.".replace("is +", "is")
    return ""


def _parts(sizes: dict[str, int]) -> dict[str, str]:
    """Sizes that are a multiple of another one, such as that of a picture of its patches'."""
    divisible = {}
    for large, small in itertools.permutations(sizes, 2):
        if sizes[large] > sizes[small] > 1 and sizes[large] % sizes[small] == 0:
            divisible[large] = small
    parts = {}
    for large, small in divisible.items():
        if small not in divisible and "size" in large and "size" in small:
            parts[large] = small
    return parts


def _sample(step: int, length: int) -> list[int]:
    """Sizes to try, other ones in each step."""
    sizes = []
    for place in range(length):
        prime = PRIMES[(place + step) % len(PRIMES)]
        sizes.append(prime + 17 * (step * (place + 1) % 5))
    return sizes


def _given(call: Call, values: list[int], parts: dict[str, str]) -> list[Any]:
    """The inputs of a call with other sizes."""
    drawn = dict(zip(call.sizes, values, strict=True))
    sizes = dict(drawn)
    for large, small in parts.items():
        sizes[large] = drawn[large] * drawn[small]
    given = []
    for name, value in zip(call.names, call.before, strict=False):
        given.append(_resized(name, value, sizes))
    return given


def _resized(name: str, value: Any, sizes: dict[str, int]) -> Any:
    if name in sizes:
        return sizes[name]
    if isinstance(value, list | tuple):
        return [sizes[f"{name}[{place}]"] for place in range(len(value))]
    return value


def _products(length: int) -> list[tuple[int, ...]]:
    """All products of at most DEGREE sizes, by their places."""
    found: list[tuple[int, ...]] = []
    for factors in range(DEGREE + 1):
        found += itertools.combinations_with_replacement(range(length), factors)
    return found


def _powers(columns: list[list[int]], products: list[tuple[int, ...]]) -> Tensor:
    """The value of each product in each sample: (samples, products)."""
    sizes = torch.tensor(columns)
    powers = [sizes[:, list(product)].prod(dim=1) for product in products]
    return torch.stack(powers, dim=1).double()


def _whole_sum(powers: Tensor, right: Tensor) -> list[tuple[int, int]]:
    """Whole numbers and the places of one or two products whose sum fits all samples; or []."""
    places = range(powers.shape[1])
    for chosen in (*itertools.combinations(places, 1), *itertools.combinations(places, 2)):
        matrix = powers[:, chosen]
        solution = torch.linalg.lstsq(matrix[:FITTED], right[:FITTED, None]).solution
        whole = solution[:, 0].round()
        if torch.equal(matrix @ whole, right) and whole.all():
            return [(int(n), place) for n, place in zip(whole, chosen, strict=True)]
    return []


def _term(number: int, names: list[str]) -> str:
    """A whole number times a product of sizes, with its sign."""
    sign = "+" if number > 0 else "−"
    factors = list(names)
    if abs(number) != 1 or not names:
        factors.insert(0, str(abs(number)))
    return f"{sign} {' · '.join(factors)}"
