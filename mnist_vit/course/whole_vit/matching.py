"""Matches other people's parameters with ours: by name, or else by place, shape and order of use.

A place is a block, or what stands before the blocks, or behind them, as the forward pass shows it.
"""

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .blocks import Shape, blocks_in, shapes_of
from .building import Built, listed
from .passing import Pass, of_positions, tensors_of

CHANNELS_LAST = "(p p c)"  # patches are flattened with the channels last
PLAIN_PRODUCT = "x @ W"  # matrices are used as they are, and not transposed as in nn.Linear
TRANSPOSED = "transposed"
BEFORE = -1  # the places outside the blocks
BEHIND = 1_000_000
SHARED = -2  # of what stands in no block, and is used between them
POSITIONS = "encoder.pos_embedding"
QKV = "self_attention.in_proj_weight"
ROLES = {"q": "queries", "k": "keys", "v": "values", "kv": "keys and values"}
OTHER_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LocalResponseNorm)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TOKENS = re.compile("pos|cls|token")  # in the names of tokens and tables

Range = tuple[int, int]


@dataclass
class Unit:
    """A weight with its bias, or the two parameters of a norm, or one that stands alone.

    Attributes:
        names: of the parameters, in this order.
        shape: of the weight: as a matrix of nn.Linear, ones dropped, a norm's with a 1 behind.
        place: the number of its block, BEFORE or BEHIND.
        turned: whether it is used as x @ W.
        role: "mlp" of a matrix of a block's MLP, "other norm" of one such as BatchNorm, "" of all
            else. Units of other roles do not match.
        is_used: whether the forward pass uses it.
    """

    names: list[str]
    shape: Shape
    place: int = BEFORE
    turned: bool = False
    role: str = ""
    is_used: bool = True

    @property
    def is_matrix(self) -> bool:
        """Whether its weight has several rows and columns."""
        return len(self.shape) > 1 and min(self.shape) > 1

    @property
    def parent(self) -> str:
        """The name of the module that holds it."""
        return self.names[0].rpartition(".")[0]


@dataclass(frozen=True)
class Source:
    """What one of their parameters is given.

    Attributes:
        name: a parameter of ours.
        rows, columns: the first and the one behind the last, where it is not all of them.
        layout: "", TRANSPOSED, CHANNELS_LAST or both.
        of_head: several ranges of rows: the queries, keys and values of one head.
    """

    name: str
    rows: Range | None = None
    columns: Range | None = None
    layout: str = ""
    of_head: tuple[Range, ...] = ()

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges of its rows; none if it is all of them."""
        return (self.rows,) if self.rows is not None else self.of_head

    def take(self, values: Mapping[str, Any], like: Tensor) -> Tensor:
        """The numbers, in the shape of their parameter; rows that ours has not are zero."""
        found = values[self.name]
        if self.name == POSITIONS:
            found = found[0]
        if self.ranges:
            found = torch.cat([found[slice(*rows)] for rows in self.ranges])
        if self.columns is not None:
            found = found[:, slice(*self.columns)]
        if CHANNELS_LAST in self.layout:
            found = found.permute(0, 2, 3, 1)
        if TRANSPOSED in self.layout:
            found = found.flatten(1).mT
        if like.numel() > found.numel():
            padded = torch.zeros(like.numel() - found.numel(), dtype=found.dtype)
            found = torch.cat([found.flatten(), padded])
        return found.reshape(like.shape)

    def said(self) -> str:
        """The source in words."""
        words = self.name
        if self.ranges:
            said = [f"{begin} to {end - 1}" for begin, end in self.ranges]
            words = f"rows {', '.join(said)} of {words}"
        if self.layout:
            words = f"{words}, {self.layout}"
        return words


@dataclass(frozen=True)
class Match:
    """One way to match their parameters with ours.

    Attributes:
        sources: where each of their parameters gets its values from, by its name.
        uncompared: sentences on what has another thing in its place in theirs: attention, MLPs, and
            what makes the tokens.
        silent: their matrices of attention that cannot be compared: they are set to zero.
        kept: their parameters that make the tokens in another way: they stay as they are.
        in_mlps: those of MLPs that are other than two matrices: they stay as they are, too.
        places: the places of their parameters, by name; empty if no blocks were found.
    """

    sources: dict[str, Source]
    uncompared: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    in_mlps: tuple[str, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)


def matched(ours: nn.Module, theirs: Built, late: bool, layout: str) -> Match:
    """Match their parameters with ours.

    Args:
        ours: our model.
        theirs: their model.
        late: of a kind of which a place of theirs has too few, the first is missing, not the last.
        layout: "", CHANNELS_LAST or PLAIN_PRODUCT.
    """
    matching = _Matching(ours, theirs, layout)
    matching.set_aside_mlps()
    matching.set_aside_attention(theirs.sizes["num_heads"])
    matching.match_names()
    matching.match_tokens()
    matching.match_queries_keys_values(theirs.sizes["num_heads"])
    matching.match_shapes(late, turned=False)
    matching.match_shapes(late, turned=True)
    matching.set_aside_the_rest()
    return Match(
        matching.sources,
        tuple(dict.fromkeys(matching.uncompared)),
        tuple(matching.silent),
        tuple(matching.kept),
        tuple(matching.in_mlps),
        matching.places,
    )


class _Matching:
    """The units of both models that are not matched yet, and the sources found so far."""

    def __init__(self, ours: nn.Module, theirs: Built, layout: str) -> None:
        self.model = theirs.model
        self.layout = layout
        self.sources: dict[str, Source] = {}
        self.uncompared: list[str] = []
        self.silent: list[str] = []
        self.kept: list[str] = []
        self.in_mlps: list[str] = []
        self.places: dict[str, int] = {}
        self.tensors = tensors_of(theirs.model)
        self.our_shapes = shapes_of(ours)
        self.our_units = list(_units(ours, Pass(), set()))
        for unit in self.our_units:
            unit.place = our_place(unit.names[0])
            unit.role = "mlp" if ".mlp." in unit.names[0] else ""
        units = _units(theirs.model, theirs.seen, theirs.rms_norms)
        self.their_units = [unit for unit in units if unit.names[0] not in theirs.seen.head]
        if _put_in_place(self.their_units, theirs):
            for unit in self.their_units:
                self.places |= dict.fromkeys(unit.names, unit.place)
        else:
            for unit in [*self.our_units, *self.their_units]:
                unit.place = BEFORE
        self._drop_other_names()
        in_mlps = {id(self.tensors[name]) for name in theirs.seen.mlps}
        used = {id(self.tensors[name]) for name in theirs.seen.uses}
        for unit in self.their_units:  # a shared parameter has several names
            unit.is_used = id(self.tensors[unit.names[0]]) in used
            if id(self.tensors[unit.names[0]]) in in_mlps:
                unit.role = "mlp"
            elif isinstance(theirs.model.get_submodule(unit.parent), OTHER_NORMS):
                unit.role = "other norm"
        self.all_units = list(self.their_units)
        self.seen = theirs.seen

    def _drop_other_names(self) -> None:
        """Keep one unit of those that are the same parameter, in one block: that used first."""
        known = set()
        for unit in list(self.their_units):
            which = (unit.place, id(self.tensors[unit.names[0]]))
            if which in known:
                self.their_units.remove(unit)
            known.add(which)

    def set_aside_mlps(self) -> None:
        """Take MLPs that are other than two matrices out of both models."""
        mlps = self.seen.other_mlps
        if not mlps:
            return
        for mlp in mlps:
            for unit in list(self.their_units):
                name = unit.names[0]
                if name.startswith(f"{mlp.path}.") and name not in mlp.norms:
                    self.in_mlps += unit.names
                    self._take_out(unit)
        self.our_units = [unit for unit in self.our_units if unit.role != "mlp"]
        self.uncompared.append(
            f"Its MLPs have other matrices than ours, {self._shapes(mlps[0].matrices)} in block 0:"
            " MLPs are not compared."
        )

    def set_aside_attention(self, num_heads: int) -> None:
        """Take attention of another width than ours out of both models: it has no counterpart."""
        if not self.places:
            return
        for source in [unit for unit in self.our_units if unit.names[0].endswith(QKV)]:
            matrices = []
            for unit in self.their_units:
                if unit.is_matrix and unit.place == source.place and unit.role == "":
                    matrices.append(unit)
            width = source.shape[1]
            if _of_heads(matrices, width // num_heads, width, self.model):
                continue
            why = _other_width(matrices, width, num_heads)
            if not why:
                continue
            self._silence(matrices, source.place)
            self.uncompared.append(f"{why}: attention is not compared.")

    def _silence(self, matrices: list[Unit], place: int) -> None:
        """Take the attention of a block out of both models; these are the matrices of theirs."""
        for unit in matrices:
            self.silent += unit.names
            self._take_out(unit)
        for unit in list(self.our_units):
            if unit.place == place and "self_attention" in unit.names[0]:
                self.our_units.remove(unit)

    def _take_out(self, unit: Unit) -> None:
        """Match a unit of theirs with nothing."""
        for name in unit.names:
            self.sources.pop(name, None)
        if unit in self.their_units:
            self.their_units.remove(unit)

    def set_aside_the_rest(self) -> None:
        """Take out of both models what makes the tokens, and attention, where ours are left."""
        if not self.places:
            return
        others: list[str] = []
        is_left = any(unit.names[0] == "conv_proj.weight" for unit in self.our_units)
        if is_left or any(map(self._is_layer, self._before())):
            self._keep_what_makes_tokens()
        for source in list(self.our_units):
            if source.names[0].endswith(QKV):
                others += self._silence_other_attention(source.place)
        if others:
            self.uncompared.append(
                "Its attention has matrices that do not correspond to ours,"
                f" {self._shapes(others)}: attention is not compared."
            )

    def _keep_what_makes_tokens(self) -> None:
        """Leave the parameters as they are that make the tokens in another way than ours."""
        units = []
        for unit in self.all_units:
            source = self.sources.get(unit.names[0])
            is_free = source is None or source.name == "conv_proj.weight"
            is_here = unit.place == BEFORE and unit.is_used and is_free
            if is_here and not TOKENS.search(own_name(unit.names[0])):
                units.append(unit)
        matrices = [unit.names[0] for unit in units if unit.is_matrix]
        if not matrices:
            return
        for unit in units:
            self.kept += unit.names
            self._take_out(unit)
        self.uncompared.append(
            f"Its tokens are made by {self._shapes(matrices)}, and ours by one matrix, conv_proj:"
            " what comes before block 0 is not compared."
        )

    def _silence_other_attention(self, place: int) -> list[str]:
        """Take attention out of both models some of whose matrices are not ours; returns those."""
        mlp = [name for name in self.seen.mlps if self.places.get(name) == place]
        end = min([self.seen.place(name) for name in mlp], default=0)
        matrices = []
        for unit in self.all_units:
            is_here = unit.place == place and self.seen.place(unit.names[0]) < end
            if is_here and unit.is_matrix and unit.role == "":
                matrices.append(unit)
        others = [unit.names[0] for unit in matrices if unit.names[0] not in self.sources]
        if others:
            self._silence(matrices, place)
        return others

    def _shapes(self, names: list[str]) -> str:
        """Parameters of theirs, with their shapes, in words."""
        return listed([f"{name} {tuple(self.tensors[name].shape)}" for name in names])

    def match_names(self) -> None:
        """Units whose names and shapes are the same, or the names end in out_proj.weight."""
        by_name = {tuple(unit.names): unit for unit in self.our_units}
        for unit in list(self.their_units):
            source = by_name.get(tuple(unit.names))
            if source is not None and self._same_shapes(unit):
                self._give(unit, source)
        for source in list(self.our_units):
            if not source.names[0].endswith("out_proj.weight"):
                continue
            for unit in list(self.their_units):  # other layers may have its shape
                is_here = unit.place == source.place and unit.shape == source.shape
                if is_here and unit.names[0].endswith(".out_proj.weight"):
                    self._give(unit, source)
                    break

    def match_tokens(self) -> None:
        """The class token and the position embedding, which need not be parameters."""
        token = self._ours("class_token")
        for pattern in ("cls|class", "token"):
            for unit in self._before():
                if token and unit.shape == token.shape and re.search(pattern, unit.names[0]):
                    self._give(unit, token)
                    token = None
        table = self._ours(POSITIONS)
        if table is None:
            return
        units = [*self._before(), *self._fixed()]
        units.sort(key=lambda unit: "pos" not in own_name(unit.names[0]))
        for unit in units:
            rows, width = (*unit.shape, 0, 0)[:2]
            lacking = table.shape[0] - rows  # a row for the class token, perhaps
            if of_positions(unit.names[0]) and width == table.shape[1] and lacking <= 1:
                self._give(unit, table, rows=(lacking, table.shape[0]) if lacking > 0 else None)
                return

    def match_queries_keys_values(self, num_heads: int) -> None:
        """Our one matrix for queries, keys and values, where theirs are several."""
        sources = [unit for unit in self.our_units if unit.names[0].endswith(QKV)]
        for source in sources:
            width = source.shape[1]
            here = [unit for unit in self.their_units if unit.place == source.place]
            here = [unit for unit in here if unit.role == ""]
            if source.shape in [unit.shape for unit in here if unit.is_used]:
                continue
            side = width // num_heads
            own = _of_heads(here, side, width, self.model)
            if own:
                for number, unit in enumerate(own):
                    begins = [begin + number * side for begin in (0, width, 2 * width)]
                    ranges = tuple((begin, begin + side) for begin in begins)
                    self._give(unit, source, of_head=ranges)
                continue
            slices = [unit for unit in here if unit.shape == (side, side)]
            if len(slices) == 3 * num_heads > 3:
                self._match_slices(slices, source, side)
                continue
            matrices = [unit for unit in here if unit.shape[1:] == (width,)]
            begin = {"q": 0, "k": width, "v": 2 * width, "kv": width}
            for unit, role in _roles(matrices):
                end = begin[role] + unit.shape[0]
                self._give(unit, source, rows=(begin[role], end))
                begin[role] = end

    def _match_slices(self, slices: list[Unit], source: Unit, side: int) -> None:
        """Matrices of heads that see only their own slice of each token."""
        width = source.shape[1]
        taken = {"q": 0, "k": 0, "v": 0}
        for unit, role in _roles(slices):
            head = taken[role]
            taken[role] = head + side
            begin = "qkv".index(role) * width + head
            self._give(unit, source, (begin, begin + side), (head, head + side))

    def match_shapes(self, late: bool, turned: bool) -> None:
        """Units of one place, shape and role, in order; ``turned``: of the transposed shape."""
        groups: dict[Any, tuple[list[Unit], list[Unit]]] = defaultdict(lambda: ([], []))
        for unit in self.their_units:
            groups[unit.place, unit.shape, unit.role][0].append(unit)
        for unit in self.our_units:
            shape = unit.shape[::-1] if turned else unit.shape
            groups[unit.place, shape, unit.role][1].append(unit)
        for theirs, ours in groups.values():
            if late:
                ours = ours[-len(theirs) :]
            for unit, source in zip(theirs, ours, strict=False):
                layout = TRANSPOSED if turned else self._flattened(unit, source)
                self._give(unit, source, layout=layout)

    def _ours(self, name: str) -> Unit | None:
        found = [unit for unit in self.our_units if unit.names == [name]]
        return found[0] if found else None

    def _is_layer(self, unit: Unit) -> bool:
        """Whether a unit is a layer that cannot be left out, or be made the identity."""
        owner = self.model.get_submodule(unit.parent)
        is_square = len(unit.shape) == 2 and unit.shape[0] == unit.shape[1]
        can_go = is_square or unit.parent in self.seen.keeps_shape
        return isinstance(owner, (nn.Linear, *CONVOLUTIONS)) and unit.is_used and not can_go

    def _before(self) -> list[Unit]:
        return [unit for unit in self.their_units if unit.place == BEFORE]

    def _fixed(self) -> Iterator[Unit]:
        """Tensors that are no parameters."""
        parameters = shapes_of(self.model)
        for name, tensor in self.tensors.items():
            if name not in parameters:
                yield Unit([name], _plain_shape(tensor))

    def _same_shapes(self, unit: Unit) -> bool:
        theirs = [tuple(self.tensors[name].shape) for name in unit.names]
        return theirs == [self.our_shapes[name] for name in unit.names]

    def _flattened(self, unit: Unit, source: Unit) -> str:
        """The layout of the projection of the patches, if it is a matrix."""
        is_projection = source.names[0] == "conv_proj.weight"
        is_matrix = self.tensors[unit.names[0]].dim() == 2
        if is_projection and is_matrix and self.layout == CHANNELS_LAST:
            return CHANNELS_LAST
        return ""

    def _give(
        self,
        unit: Unit,
        source: Unit,
        rows: Range | None = None,
        columns: Range | None = None,
        layout: str = "",
        of_head: tuple[Range, ...] = (),
    ) -> None:
        """Match a unit of theirs with one of ours."""
        owner = self.model.get_submodule(unit.parent)
        is_square = len(unit.shape) == 2 and unit.shape == unit.shape[::-1]
        is_free = is_square and not isinstance(owner, nn.Linear)
        if unit.turned or (is_free and self.layout == PLAIN_PRODUCT):
            layout = f"{layout}, {TRANSPOSED}" if layout == CHANNELS_LAST else TRANSPOSED
        for number, (own, name) in enumerate(zip(unit.names, source.names, strict=False)):
            if number:
                self.sources[own] = Source(name, rows, of_head=of_head)
            else:
                self.sources[own] = Source(name, rows, columns, layout, of_head)
        if unit in self.their_units:
            self.their_units.remove(unit)
        if source in self.our_units:
            self.our_units.remove(source)


def _of_heads(units: list[Unit], side: int, width: int, model: nn.Module) -> list[Unit]:
    """The matrices of a block of which each makes one head's queries, keys and values; [] if none.

    Three square ones of three heads may be those for queries, keys and values instead: they are
    where they are three nn.Linear in a list, and no parts of three modules in a list.
    """
    kinds: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        is_alone = isinstance(model.get_submodule(unit.parent), nn.Linear)
        is_part = not (is_alone and own_name(unit.parent).isdigit())
        if unit.shape == (3 * side, width) and unit.is_used and is_part:
            kinds[re.sub(r"\d+", "", unit.names[0])].append(unit)
    num_heads = width // side
    found = [several for several in kinds.values() if len(several) == num_heads > 1]
    return found[0] if found else []


def _other_width(matrices: list[Unit], width: int, num_heads: int) -> str:
    """How the matrices of an attention make it wider or narrower than ours; "" if they do not.

    Args:
        matrices: those of a block without its MLP, in the order of their use.
        width: the hidden_dim.
        num_heads: the number of heads.
    """
    shapes = [unit.shape for unit in matrices]
    is_one_matrix = 0 < shapes.count((3 * width, width)) < 3  # three may be those of wide heads
    if is_one_matrix:
        return ""
    inner = [shape[1] for shape in shapes if shape[0] == width != shape[1]]
    rows = sum(shape[0] for shape in shapes if shape[1] == width)
    side = width // num_heads
    if num_heads > 1 and shapes.count((side, side)) == len(ROLES) - 1:
        return (
            f"Its queries, keys and values are made by matrices of ({side}, {side}), which all"
            f" heads share, and ours by ({width}, {width})"
        )
    if inner and (width, width) not in shapes and rows >= inner[-1]:
        return (
            f"Its attention is num_heads * head_dim = {inner[-1]} wide, and ours hidden_dim ="
            f" {width}"
        )
    numbers: Counter[str] = Counter()
    readers = [unit for unit in matrices if unit.shape[1:] == (width,)]
    for unit, role in _roles(readers):
        numbers[role] += unit.shape[0]
    for role, found in numbers.items():
        if found != len(role) * width:  # kv: both
            return (
                f"The matrices for its {ROLES[role]} give {found} numbers, all heads together, and"
                f" ours {len(role) * width}"
            )
    return ""


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
    words = re.sub(r"(\.(\d+|weight|linear))*$", "", name.lower())
    match = re.search(r"(?:^|_|w|to)(kv|q|k|v)(?:$|_|u|e|a|l|p)", words.rpartition(".")[2])
    return match[1] if match else ""


def own_name(name: str) -> str:
    """The name of a parameter within its module."""
    return name.rpartition(".")[2]


# ------------------------------------------------------------------------------------------ units


def _units(model: nn.Module, seen: Pass, rms_norms: set[str]) -> Iterator[Unit]:
    """The parameters of a model in groups, in the order in which they were made."""
    last: Unit | None = None
    tensors = dict(model.named_parameters(remove_duplicate=False))
    for name in _names_in_order(model, seen):
        parameter = tensors[name]
        path = name.rpartition(".")[0]
        owner = model.get_submodule(path)
        shape = _plain_shape(parameter, is_weight=isinstance(owner, nn.Linear))
        has_parts = any(owner.children())  # vectors of such a module are no weight and bias
        if last is not None and _joins(last, name, shape, has_parts):
            continue
        if last is not None:
            yield last
        is_norm = path in rms_norms or "norm" in type(owner).__name__.lower()
        is_norm = is_norm and not has_parts
        if len(shape) == 1 and is_norm:
            shape = (*shape, 1)
        last = Unit([name], shape)
        if name in seen.multiplied and len(shape) == 2:
            last.shape = shape[::-1]
            last.turned = True
    if last is not None:
        yield last


def _names_in_order(model: nn.Module, seen: Pass) -> Iterator[str]:
    """The parameters in the order in which they were made.

    Those of a module with several matrices of its own come in the order of their use: so a bias
    follows its matrix.
    """
    for path, module in model.named_modules(remove_duplicate=False):
        own = dict(module.named_parameters(path, recurse=False, remove_duplicate=False))
        names = [name for name, parameter in own.items() if parameter.is_floating_point()]
        if sum(own[name].dim() > 1 for name in names) > 1:
            names.sort(key=seen.place)
        yield from names


def _joins(last: Unit, name: str, shape: Shape, has_parts: bool) -> bool:
    """Add a bias to the weight before it, if it is one; returns whether it is."""
    if len(last.names) > 1 or last.parent != name.rpartition(".")[0]:
        return False
    if has_parts and len(last.shape) == 1:
        return False
    if name.endswith("bias"):
        shape = (math.prod(shape),)
    if TOKENS.search(own_name(last.names[0])) or TOKENS.search(own_name(name)):
        return False
    if shape == last.shape[:1]:
        last.names.append(name)
        last.shape = (*last.shape, 1)[:2]
        return True
    if shape == last.shape[1:]:
        last.names.append(name)
        last.shape = last.shape[::-1]
        last.turned = True
        return True
    return False


def _plain_shape(tensor: Tensor, is_weight: bool = False) -> Shape:
    """The shape as a matrix: a convolution's flat, that of a table or token without ones."""
    if tensor.dim() == 4:
        return tuple(tensor.flatten(1).shape)
    shape = tuple(tensor.shape if is_weight else tensor.squeeze().shape)
    if len(shape) == 3 and shape[0] == shape[1] * shape[2]:  # numbers, heads, numbers of a head
        return (shape[0], shape[0])
    if len(shape) == 3 and shape[2] == shape[0] * shape[1]:
        return (shape[2], shape[2])
    return shape


# ----------------------------------------------------------------------------------------- places


def our_place(name: str) -> int:
    block = re.search(r"encoder_layer_(\d+)", name)
    if block:
        return int(block[1])
    return BEHIND if re.match(r"encoder\.ln|heads", name) else BEFORE


def _put_in_place(units: list[Unit], theirs: Built) -> bool:
    """Find the place of each unit, and bring them into the order of their use.

    Returns whether blocks were found. One that is used again and again is block 0.
    """
    seen = theirs.seen
    num_layers = theirs.sizes["num_layers"]
    tensors = tensors_of(theirs.model)
    used = {id(tensors[name]): seen.place(name) for name in seen.order}
    first = {name: used.get(id(tensors[name]), len(used)) for name in shapes_of(theirs.model)}
    blocks = _own(theirs, blocks_in(shapes_of(theirs.model), num_layers), first)
    blocks = _once(theirs, blocks) or _used_again(theirs) or _only_block(theirs)
    begin = min([first[name] for name in blocks], default=0)
    last = max(blocks.values(), default=0)
    begin_of_last = min([first[name] for name in blocks if blocks[name] == last], default=0)
    for unit in units:
        name = unit.names[0]
        is_used = first[name] < len(used)
        is_before = first[name] < begin if is_used else bool(TOKENS.search(own_name(name)))
        place = BEFORE if is_before else BEHIND
        if begin < first[name] < begin_of_last:
            place = SHARED
        unit.place = blocks.get(name, place)
    places: dict[str, float] = {}
    before = (BEFORE, 0.0)
    for unit in units:
        name = unit.names[0]
        places[name] = first[name]
        if name in blocks and first[name] == len(used) and unit.place == before[0]:
            places[name] = before[1] + 0.1  # as if it were used where it was made
        before = (unit.place, places[name])
    units.sort(key=lambda unit: places[unit.names[0]])
    return bool(blocks)


def _own(theirs: Built, blocks: dict[str, int], first: dict[str, int]) -> dict[str, int]:
    """The same blocks without vectors that all of them use, such as those of a norm ``n1``.

    Such a one is used in a block before its own, or as often as no block uses a norm.

    Args:
        theirs: the model.
        blocks: the block of each parameter, by its name.
        first: the places of their first use.
    """
    shapes = shapes_of(theirs.model)
    matrices: dict[int, list[int]] = defaultdict(list)
    for name, place in blocks.items():
        if len(shapes[name]) > 1:
            matrices[place].append(first[name])
    for earlier, later in itertools.pairwise(sorted(matrices)):
        if max(matrices[earlier]) >= min(matrices[later]):
            return blocks  # they do not run one after the other
    shared = set()
    for name, place in blocks.items():
        is_early = place - 1 in matrices and first[name] < max(matrices[place - 1])
        is_often = theirs.seen.uses[name] >= 2 * len(matrices) > 2
        if len(shapes[name]) == 1 and (is_early or is_often):
            shared.add(re.sub(r"\d+", "", name))
    return {name: place for name, place in blocks.items() if re.sub(r"\d+", "", name) not in shared}


def _once(theirs: Built, blocks: dict[str, int]) -> dict[str, int]:
    """The same blocks; one that stands in several places is block 0."""
    tensors = tensors_of(theirs.model)
    of_block: dict[int, set[int]] = defaultdict(set)
    for name, place in blocks.items():
        of_block[place].add(id(tensors[name]))
    if len(of_block) < 2 or of_block[0] != of_block[1]:
        return blocks
    return {name: 0 for name in shapes_of(theirs.model) if id(tensors[name]) in of_block[0]}


def _only_block(theirs: Built) -> dict[str, int]:
    """The parameters of a block that is the only one, and has no number."""
    seen = theirs.seen
    names = [name for name in (*seen.mlps, *seen.attended) if name]
    if theirs.sizes["num_layers"] != 1 or not seen.attended:
        return {}
    common: list[str] = []
    for parts in zip(*[name.split(".")[:-1] for name in names], strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    path = ".".join([*common, ""])
    return {name: 0 for name in shapes_of(theirs.model) if common and name.startswith(path)}


def _used_again(theirs: Built) -> dict[str, int]:
    """The parameters of a block that is used again and again, which is block 0."""
    seen = theirs.seen
    num_layers = theirs.sizes["num_layers"]
    found = {}
    for name in shapes_of(theirs.model):
        is_often = seen.uses[name] in (num_layers, 2 * num_layers)  # one norm in both places
        if is_often and not TOKENS.search(own_name(name)):
            found[name] = 0
    is_one = num_layers > 1 and not found.keys().isdisjoint(seen.mlps)
    return found if is_one else {}
