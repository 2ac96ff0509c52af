"""Finds the blocks of other people's models, by the names and shapes of their parameters."""

import re
from collections import defaultdict
from collections.abc import Iterator

from torch import nn

Shape = tuple[int, ...]


def shapes_of(model: nn.Module) -> dict[str, Shape]:
    """The shapes of a model's parameters; one that is used in several places has several names."""
    named = model.named_parameters(remove_duplicate=False)
    found = {}
    for name, parameter in named:
        if parameter.numel() and parameter.is_floating_point():
            found[name] = tuple(parameter.shape)
    return found


def blocks_in(shapes: dict[str, Shape], num_layers: int) -> dict[str, int]:
    """Which block a parameter belongs to.

    Lists with ``num_layers`` parts that are alike hold blocks, or a part of each; one of them holds
    several matrices. Of twice as many norms each block has two; one more is the last norm. Of lists
    in lists the outermost counts.
    """
    places = sorted(_numbered_parts(shapes), key=lambda place: place[1].count("."))
    members: dict[str, dict[int, list[Shape]]] = defaultdict(lambda: defaultdict(list))
    for name, stem, number in places:
        members[stem][number].append(shapes[name])
    found: dict[str, int] = {}
    most = 0
    for name, stem, number in places:
        parts = members[stem]
        alike = [other for other in sorted(parts) if parts[other] == parts[number]]
        if len(alike) == num_layers:
            found.setdefault(name, alike.index(number))
            most = max(most, sum(len(shape) > 1 for shape in parts[number]))
        are_norms = all(len(shape) == 1 for shape in parts[number])
        if are_norms and num_layers > 1 and len(alike) in (2 * num_layers, 2 * num_layers + 1):
            block = alike.index(number) // 2
            if block < num_layers:
                found.setdefault(name, block)
    return found if most > 1 else {}


def _numbered_parts(shapes: dict[str, Shape]) -> Iterator[tuple[str, str, int]]:
    """Each part of a name that ends in a number: the name, what stands before it, the number."""
    for pattern in (r"()(\d+)", r"(.*\D)(\d+)"):  # blocks.0, and else block0
        for name in shapes:
            parts = name.split(".")
            for place, part in enumerate(parts[:-1]):
                match = re.fullmatch(pattern, part)
                if match:
                    yield name, ".".join([*parts[:place], match[1]]), int(match[2])
