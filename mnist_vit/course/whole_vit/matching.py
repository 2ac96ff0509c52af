"""Matches other people's parameters with ours: by name, or else by block, shape and order."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

CHANNELS_LAST = "(p p c)"  # patches are flattened with the channels last
PLAIN_PRODUCT = "x @ W"  # matrices are used as they are, and not transposed as in nn.Linear
TRANSPOSED = "transposed"

Shape = tuple[int, ...]


@dataclass
class Unit:
    """A weight with its bias, or the two parameters of a norm, or one that stands alone.

    Attributes:
        names: of the parameters, in this order.
        shape: of the weight: a convolution as a matrix, leading ones dropped, a norm's with a 1
            behind.
        block: the number of its block; None outside the blocks.
        turned: used as x @ W, as its bias shows; the shape is that of nn.Linear.
    """

    names: list[str]
    shape: Shape
    block: int | None
    turned: bool = False

    @property
    def parent(self) -> str:
        """The name of the module that holds it."""
        return self.names[0].rpartition(".")[0]


@dataclass(frozen=True)
class Source:
    """What one of their parameters is given.

    Attributes:
        name: a parameter of ours.
        rows: the first row and the one behind the last, where it is not all of them.
        layout: "", TRANSPOSED or CHANNELS_LAST.
    """

    name: str
    rows: tuple[int, int] | None = None
    layout: str = ""

    def take(self, values: Mapping[str, Any], like: Tensor) -> Tensor:
        """The numbers, in the shape of their parameter."""
        found = values[self.name]
        if self.rows is not None:
            found = found[slice(*self.rows)]
        if self.layout == CHANNELS_LAST:
            found = found.permute(0, 2, 3, 1)
        if self.layout == TRANSPOSED:
            found = found.flatten(1).mT
        return found.reshape(like.shape)

    def said(self) -> str:
        """The source in words."""
        words = self.name
        if self.rows:
            words = f"rows {self.rows[0]} to {self.rows[1] - 1} of {words}"
        if self.layout:
            words = f"{words}, {self.layout}"
        return words


def matched(
    ours: nn.Module, theirs: nn.Module, num_layers: int, late: bool, layout: str
) -> dict[str, Source]:
    """Where each of their parameters gets its values from, by its name.

    Args:
        ours, theirs: the models.
        num_layers: the number of blocks.
        late: the norms of a block stand in the other order; where they have too few of a kind, the
            first is missing.
        layout: "", CHANNELS_LAST or PLAIN_PRODUCT.
    """
    matching = _Matching(ours, theirs, num_layers, layout)
    matching.match_names()
    matching.match_queries_keys_values()
    matching.match_shapes(late, turned=False)
    matching.match_shapes(late, turned=True)
    return matching.sources


class _Matching:
    """The units of both models that are not matched yet, and the sources found so far."""

    def __init__(self, ours: nn.Module, theirs: nn.Module, num_layers: int, layout: str) -> None:
        self.theirs = theirs
        self.layout = layout
        self.sources: dict[str, Source] = {}
        self.our_shapes = shapes_of(ours)
        self.their_shapes = shapes_of(theirs)
        self.our_units = _units(ours, num_layers)
        self.their_units = _units(theirs, num_layers)
        if all(unit.block is None for unit in self.their_units):
            for unit in self.our_units:
                unit.block = None

    def match_names(self) -> None:
        """Units whose names and shapes are the same."""
        by_name = {tuple(unit.names): unit for unit in self.our_units}
        for unit in list(self.their_units):
            source = by_name.get(tuple(unit.names))
            if source is not None and self._same_shapes(unit):
                self._give(unit, source)

    def match_queries_keys_values(self) -> None:
        """Our one matrix for queries, keys and values, where theirs are several."""
        sources = [unit for unit in self.our_units if unit.names[0].endswith("in_proj_weight")]
        for source in sources:
            width = source.shape[1]
            here = [unit for unit in self.their_units if unit.block == source.block]
            if source.shape in [unit.shape for unit in here]:
                continue
            matrices = [unit for unit in here if unit.shape[1:] == (width,)]
            begin = {"q": 0, "k": width, "v": 2 * width, "kv": width}
            for unit, role in _roles(matrices):
                end = begin[role] + unit.shape[0]
                self._give(unit, source, rows=(begin[role], end))
                begin[role] = end

    def match_shapes(self, late: bool, turned: bool) -> None:
        """Units of one block and shape, in their order; ``turned``: of the transposed shape."""
        groups: dict[Any, tuple[list[Unit], list[Unit]]] = defaultdict(lambda: ([], []))
        for unit in self.their_units:
            groups[unit.block, unit.shape][0].append(unit)
        for unit in self.our_units:
            shape = unit.shape[::-1] if turned else unit.shape
            groups[unit.block, shape][1].append(unit)
        for (_, shape), (theirs, ours) in groups.items():
            if late:
                ours = _late(ours, len(theirs), is_norm=shape[1:] == (1,))
            for unit, source in zip(theirs, ours, strict=False):
                layout = TRANSPOSED if turned else self._flattened(unit, source)
                self._give(unit, source, layout=layout)

    def _same_shapes(self, unit: Unit) -> bool:
        return all(self.their_shapes[name] == self.our_shapes[name] for name in unit.names)

    def _flattened(self, unit: Unit, source: Unit) -> str:
        """The layout of the projection of the patches, if it is a matrix."""
        is_projection = source.names[0] == "conv_proj.weight"
        is_matrix = len(self.their_shapes[unit.names[0]]) == 2
        if is_projection and is_matrix and self.layout == CHANNELS_LAST:
            return CHANNELS_LAST
        return ""

    def _give(
        self, unit: Unit, source: Unit, rows: tuple[int, int] | None = None, layout: str = ""
    ) -> None:
        """Match a unit of theirs with one of ours."""
        owner = self.theirs.get_submodule(unit.parent)
        is_square = unit.shape == unit.shape[::-1] and not isinstance(owner, nn.Linear)
        if unit.turned or (is_square and self.layout == PLAIN_PRODUCT):
            layout = TRANSPOSED
        for number, (own, name) in enumerate(zip(unit.names, source.names, strict=False)):
            self.sources[own] = Source(name, rows, "" if number else layout)
        self.their_units.remove(unit)
        if source in self.our_units:
            self.our_units.remove(source)


def _late(ours: list[Unit], count: int, is_norm: bool) -> list[Unit]:
    """Norms in the other order; of a kind of which they have too few, the last ones."""
    if is_norm and len(ours) == count:
        return ours[::-1]
    return ours[-count:]


def _roles(matrices: list[Unit]) -> Iterator[tuple[Unit, str]]:
    """Which matrix is for queries, keys or values: by names, or else by their order."""
    roles = [_role(unit.names[0]) for unit in matrices]
    if any(roles):
        for unit, role in zip(matrices, roles, strict=True):
            if role:
                yield unit, role
        return
    complete = len(matrices) // 3 * 3  # q, k and v, of each head or of all
    for number, unit in enumerate(matrices[:complete]):
        yield unit, "qkv"[number % 3]


def _role(name: str) -> str:
    """q, k, v or kv, if the name of a weight says so."""
    words = re.sub(r"(\.(\d+|weight))*$", "", name.lower())
    match = re.search(r"(?:^|_|w|to)(kv|q|k|v)(?:$|_|u|e|a|l|p)", words.rpartition(".")[2])
    return match[1] if match else ""


def shapes_of(model: nn.Module) -> dict[str, Shape]:
    """The shapes of a model's parameters; one that is used in several places has several names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: tuple(parameter.shape) for name, parameter in named}


def _units(model: nn.Module, num_layers: int) -> list[Unit]:
    """The parameters of a model in groups, in the order in which they were made."""
    blocks = _blocks(shapes_of(model), num_layers)
    units: list[Unit] = []
    for name, parameter in model.named_parameters(remove_duplicate=False):
        parent = name.rpartition(".")[0]
        shape = _plain_shape(parameter)
        if units and _joins(units[-1], name, shape):
            continue
        kind = type(model.get_submodule(parent)).__name__.lower()
        if len(shape) == 1 and "norm" in kind:
            shape = (*shape, 1)
        units.append(Unit([name], shape, blocks.get(name)))
    return units


def _joins(last: Unit, name: str, shape: Shape) -> bool:
    """Add a bias to the weight before it, if it is one; returns whether it is."""
    if len(last.names) > 1 or last.parent != name.rpartition(".")[0]:
        return False
    if shape == last.shape[:1]:
        last.names.append(name)
        last.shape = (*last.shape, 1)[:2]
        return True
    is_token = re.search("pos|cls|token", last.names[0] + name)
    if shape == last.shape[1:] and not is_token:
        last.names.append(name)
        last.shape = last.shape[::-1]
        last.turned = True
        return True
    return False


def _plain_shape(parameter: Tensor) -> Shape:
    """The shape of a convolution's weight as a matrix; of others without leading ones."""
    if parameter.dim() == 4:
        return tuple(parameter.flatten(1).shape)
    return tuple(parameter.squeeze(0).squeeze(0).shape)


def _blocks(shapes: dict[str, Shape], num_layers: int) -> dict[str, int]:
    """Which block a parameter belongs to.

    Lists of ``num_layers`` parts that are alike hold blocks, or a part of each.
    """
    places = list(_numbered_parts(shapes))
    members: dict[str, dict[int, list[Shape]]] = defaultdict(lambda: defaultdict(list))
    for name, stem, number in places:
        members[stem][number].append(shapes[name])
    found: dict[str, int] = {}
    for name, stem, number in places:
        parts = members[stem]
        kinds = set(map(tuple, parts.values()))
        if len(kinds) == 1 and len(parts) == num_layers:
            found.setdefault(name, sorted(parts).index(number))
    return found


def _numbered_parts(shapes: dict[str, Shape]) -> Iterator[tuple[str, str, int]]:
    """Each part of a name that ends in a number: the name, what stands before it, the number."""
    for pattern in (r"()(\d+)", r"(.*\D)(\d+)"):  # blocks.0, and else block0
        for name in shapes:
            parts = name.split(".")
            for place, part in enumerate(parts[:-1]):
                match = re.fullmatch(pattern, part)
                if match:
                    yield name, ".".join([*parts[:place], match[1]]), int(match[2])
