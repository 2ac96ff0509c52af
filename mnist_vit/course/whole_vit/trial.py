"""Their model with the check's weights, as one way to match the parameters gives them."""

import math
import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Slip
from ..checking.comparing import compare
from .blocks import shapes_of
from .building import Built, set_eps
from .explaining import Numbers, Setting, explain, make_neutral, our_values
from .matching import POSITIONS, Match, Range, our_place
from .norms import OURS as OUR_FORMULA
from .norms import Formula, formula_of
from .passing import WithoutDropout, tensors_of
from .running import leave_out_head, left_out, logits, run
from .slips import NO_HEAD, NO_LAST_NORM, NO_TOKEN, NORMS, ONE_NORM, REUSE, RMS_NORMS
from .values import (
    FIRST_ATTENTION,
    FIRST_MLP,
    FIRST_TOKENS,
    LOGITS,
    SECOND_NORM,
    TOLERANCE,
    Values,
    alignments,
    comparable,
    first_difference,
    part_of,
    stand_in,
    values_of,
)

# the parameters that a model with a known mistake does not need, by what was done
LACKING = {
    NO_TOKEN.did: "^class_token",
    NO_HEAD.did: r"^heads\.",
    NO_LAST_NORM.did: r"^encoder\.ln\.",
    ONE_NORM.did: r"\.ln_2\.",
}
SECONDS = 30.0  # for the search of slips


@dataclass(frozen=True)
class Difference:
    """A value that differs without a name.

    Attributes:
        label: of the value.
        words: the label, with their name for it.
        got, expected: theirs and ours, in the same shape if they correspond.
        is_first: whether no value of its kind, in an earlier block, differs without a name.
    """

    label: str
    words: str
    got: Tensor
    expected: Tensor
    is_first: bool


class Trial:
    """Their model with the check's weights, and ours beside it.

    Attributes:
        theirs, ours: the models.
        seen: what a forward pass of theirs uses.
        sources: where each of their tensors gets its values from.
        parameters: ours, by name.
        missing, extra: parameters that only ours has, and that only theirs has; they are made to do
            nothing.
        left_out: the modules of theirs that hold extra ones and are left out.
        uncompared: sentences on what has another thing in its place in theirs, and is taken out of
            both models.
        replaced: those of them that are about norms, or the projection of the output.
        able: whether something can be compared, as hardly any parameter of ours is missing.
        is_random, changes: whether two calls differ, and whether a call changes the pictures.
        drops: a sentence on dropout that acts in eval mode, too, and is left out; "" if none does.
        setting: the check's weights and pictures; in its edits what is known to be other in theirs.
        seen_before: those edits that were seen before any value was compared.
        first: the first value that differs, in words, where slips explain it.
        gave_up: whether the search for slips took too long.
        unnamed: values that differ, and no slip explains them: each with theirs in the place of
            ours in those before.
        is_followed: whether with theirs in the place of ours in all of these the logits are equal.
        makes_positions: whether it adds positions that are no tensor of it, but made in forward.
    """

    def __init__(self, built: Built, fresh: nn.Module, match: Match) -> None:
        self.theirs = built.model
        self.seen = built.seen
        sources = match.sources
        self.sources = sources
        self.silent = match.silent
        self.uncompared = [match.attention] if match.attention else []
        self.is_random = False
        self.changes = False
        self.drops = ""
        self.first = ""
        self.gave_up = False
        self.unnamed: list[Difference] = []
        self.is_followed = False
        self.makes_positions = False
        self.eps = built.eps
        self.rms_norms = built.rms_norms
        self.ignored = built.ignored
        self.takes_representation = built.takes_representation
        self.our_shapes = shapes_of(fresh)
        self.their_shapes = shapes_of(self.theirs)
        if self.seen.head:
            layers = [name for name in self.seen.head if len(self.their_shapes[name]) > 1]
            self.uncompared.append(
                f"Its head has {len(layers)} layers, and ours one or two: it is not compared."
            )
        pictures = _setting(built.sizes, [], (), []).pictures()
        edits = self._edits(built.sizes["num_layers"], pictures)
        neutral = _without(self.our_shapes, [source.name for source in sources.values()])
        self.missing = neutral
        if REUSE in edits:
            self.missing = [name for name in neutral if _in_first(name)]
        self._forgive(edits)
        self.seen_before = tuple(edits)
        foreign = _without(self.their_shapes, sources)
        self.extra = [name for name in foreign if name in self.seen.uses]
        self.unused = self._unused()
        self.left_out = list(self._replaceable())
        self.replaced = self._replaced(match)
        self.uncompared += self.replaced
        needed = self.missing
        if self.silent:
            needed = [name for name in needed if "in_proj" not in name]
        self.able = not any(_is_vital(name, self.our_shapes[name]) for name in needed)
        self.setting = _setting(built.sizes, neutral, self._parts(), edits)
        self.tolerance = TOLERANCE[self.setting.dtype]
        self._make_ours()

    def _make_ours(self) -> None:
        self.ours = self.setting.model(self.setting.kind())
        self.parameters = dict(self.ours.named_parameters())

    def _forgive(self, edits: Iterable[Slip]) -> None:
        """Leave out of the missing parameters those whose lack has a name."""
        for slip in edits:
            pattern = LACKING.get(slip.did)
            if pattern:
                self.missing = [name for name in self.missing if not re.search(pattern, name)]

    def _edits(self, num_layers: int, pictures: Tensor) -> list[Slip]:
        """What the parameters tell, before any value is compared."""
        found = []
        names = {source.name for source in self.sources.values()}
        blocks = set(re.findall(r"encoder_layer_(\d+)", " ".join(names)))
        if num_layers > 1 and blocks == {"0"}:
            found.append(REUSE)
        foreign = [name for name in self.seen.order if name in self.their_shapes]
        foreign = _without(foreign, self.sources)
        patches = self.our_shapes[POSITIONS][1] - 1
        has_token = any(re.search("cls|class_?emb|token", name) for name in foreign)
        if "class_token" not in names and patches in self.seen.tokens and not has_token:
            found.append(NO_TOKEN)
        has_matrix = any(len(self.their_shapes[name]) > 1 for name in foreign)
        if "heads.head.weight" not in names and not has_matrix:
            found.append(NO_HEAD)
        if self._has_one_norm(pictures):
            found.append(ONE_NORM)
        return [*found, *self._rms_edits(), *self._formula_edits()]

    def _has_one_norm(self, pictures: Tensor) -> bool:
        """Whether each block uses the norm before its attention twice, and has no other."""
        uses = set()
        for own, source in self.sources.items():
            if source.name.endswith("ln_2.weight"):
                return False
            if source.name.endswith("ln_1.weight"):
                uses.add(self.seen.uses[own])
        return uses == {2} and self._gives_mlp(pictures)

    def _gives_mlp(self, pictures: Tensor) -> bool:
        """Whether the MLP takes what the second call of that norm gives, as far as it is seen."""
        values = run(values_of, self.theirs, self._names(), pictures)
        given = values.get(SECOND_NORM)
        taken = values.get(FIRST_MLP)
        return given is None or taken is None or torch.equal(given, taken)

    def _norms(self) -> Iterator[tuple[str, str]]:
        """The norms of theirs that are matched: the place of ours, and the path."""
        for own, source in self.sources.items():
            module, _, name = source.name.rpartition(".")
            place = module.rpartition(".")[2]
            if place in NORMS and name == "weight":
                yield place, own.rpartition(".")[0]

    def _formula_edits(self) -> list[Slip]:
        """Norms that divide by something else than ours do, the same in all blocks."""
        width = self.our_shapes["encoder.ln.weight"][0]
        formulas: dict[str, set[Formula]] = {}
        for place, path in self._norms():
            formula = None
            if path not in self.rms_norms:
                formula = formula_of(self.theirs.get_submodule(path), width)
            formulas.setdefault(place, set()).add(formula or OUR_FORMULA)
        places_of: dict[Formula, list[str]] = {}
        for place in NORMS:
            first, *others = formulas.get(place, {OUR_FORMULA})
            if first != OUR_FORMULA and not others:
                places_of.setdefault(first, []).append(place)
        found = []
        for formula, places in places_of.items():
            is_all = len(places) == len(formulas)  # a missing one has no formula
            found.append(formula.slip(tuple(NORMS if is_all else places)))
        return found

    def _rms_edits(self) -> list[Slip]:
        """RMSNorm in the place of ours, the same in all blocks."""
        kinds: dict[str, set[bool]] = {}
        for place, path in self._norms():
            kinds.setdefault(place, set()).add(path in self.rms_norms)
        places = tuple(place for place in NORMS if kinds.get(place) == {True})
        if set(places) == kinds.keys():  # a missing one has no kind
            places = tuple(NORMS) if places else ()
        return [RMS_NORMS[places]] if places else []

    @property
    def is_foreign(self) -> bool:
        """Whether theirs has parameters that cannot be made to do nothing."""
        if self.uncompared:
            return True
        for name in self.extra:
            is_token = re.search("token|register|dist", name)
            is_matrix = len(self.their_shapes[name]) > 1
            if (is_token or is_matrix) and name.rpartition(".")[0] not in self.left_out:
                return True
        return False

    def _unused(self) -> list[str]:
        """The parameters that forward does not use, by none of their names."""
        names = _without(self.their_shapes, self.seen.head)
        return [name for name in names if not self._is_used(name)]

    def _replaced(self, match: Match) -> list[str]:
        """Sentences on norms and matrices of theirs that may stand where ours are missing.

        Theirs are made to do nothing, or are left out: what remains tells nothing of them.
        """
        said: dict[str, str] = {}
        for name in self.missing:
            is_norm = re.search(r"ln(_\d)?\.weight$", name) is not None
            if not is_norm and not name.endswith("out_proj.weight"):
                continue
            for own in self.extra:
                path = own.rpartition(".")[0]
                shape = self.their_shapes[own]
                is_alike = len(shape) > 1
                if is_norm:
                    is_alike = math.prod(shape) == self.our_shapes[name][0]
                is_here = match.places.get(own) in (None, our_place(name))
                if own in self.silent or not is_alike or (is_norm and path not in self.left_out):
                    continue
                if is_here or self.seen.uses[own] > 1:
                    kind = type(self.theirs.get_submodule(path)).__name__
                    of_any_block = re.sub(r"\d+", "", name)
                    sentence = f"{path or own} ({kind}) may stand in place of {part_of(name)}"
                    behind = "these, and what comes behind them, are not compared."
                    said.setdefault(of_any_block, f"{sentence}: {behind}")
        return list(said.values())

    def _parts(self) -> tuple[tuple[str, Range, Range], ...]:
        """The parts of ours that theirs has, where it has only parts."""
        found = []
        for source in self.sources.values():
            for rows in source.ranges:
                found.append((source.name, rows, source.columns or (0, 1_000_000)))
        return tuple(found)

    def _replaceable(self) -> Iterable[str]:
        """Modules that hold nothing of ours, and give what they take in the same shape."""
        for path in sorted({name.rpartition(".")[0] for name in self.extra}):
            module = self.theirs.get_submodule(path)
            names = [f"{path}.{name}" for name, _ in module.named_parameters()]
            if any(name in self.silent for name in names):
                continue
            if path in self.seen.keeps_shape and not any(name in self.sources for name in names):
                yield path

    @property
    def pictures(self) -> Tensor:
        """Fresh ones each time, as a model may change them."""
        return self.setting.pictures()

    def answers(self, pictures: Tensor) -> Any:
        """The logits of their model, without the modules that are left out."""
        with left_out(self.theirs, self.left_out), self._undropped():
            return logits(self.theirs, pictures)

    def _undropped(self) -> AbstractContextManager:
        """Where dropout that acts in eval mode is left out."""
        is_left_out = self.drops and not self.theirs.training
        return WithoutDropout() if is_left_out else nullcontext()

    def use(self, model: nn.Module) -> None:
        """Go on with another model of the same kind."""
        set_eps(model)
        leave_out_head(model, self.seen.head)
        self.theirs = model
        self.load()

    def answers_in_training(self) -> Any:
        """The logits in train mode."""
        self.theirs.train()
        return self.answers(self.pictures)

    def ours_with(self, dropouts: dict[str, float]) -> Tensor:
        """The logits of ours in train mode, with these probabilities of dropout."""
        ours = self.setting.kind()(**dict(self.setting.sizes) | dropouts).to(self.setting.dtype)
        ours.load_state_dict(self.ours.state_dict())
        return ours.train()(self.pictures)

    def load(self) -> None:
        """Give their model the weights; a parameter of several names gets those of the first."""
        tensors = tensors_of(self.theirs)
        order = sorted(tensors, key=lambda name: name not in self.sources)
        filled = set()
        with torch.no_grad():
            for name in order:
                tensor = tensors[name]
                if id(tensor) in filled:
                    continue
                if name in self.sources:
                    tensor.copy_(self.sources[name].take(self.parameters, tensor))
                elif name in self.silent:
                    tensor.zero_()
                elif name in self.extra:
                    make_neutral(name, tensor)
                else:
                    continue
                filled.add(id(tensor))

    def problem(self, training: bool = False) -> str | None:
        """How the logits differ from ours, as a sentence; None if they do not."""
        self.load()
        self.theirs.train(training)
        pictures = self.pictures
        first = self.answers(pictures)
        second = self.answers(self.pictures)
        self.changes = not torch.equal(pictures, self.pictures)
        differ = False
        if isinstance(first, Tensor):
            differ = compare(LOGITS, second, first, self.tolerance) is not None
        self.is_random = differ and not self.changes
        if self.changes:
            return "the pictures are changed in place: work on a copy, pictures.clone()."
        if self.is_random:
            said = f"the same pictures get other logits each time, in eval mode.{self._drawn()}"
            return said if training else self._problem_undropped(said)
        return compare(LOGITS, first, self.ours(self.pictures), self.tolerance)

    def _problem_undropped(self, said: str) -> str | None:
        """How the logits differ without dropout in eval mode; ``said`` if they are still random."""
        if self.drops or not self.seen.dropout:
            return said
        self.drops = said
        problem = self.problem()
        if not self.is_random:
            return problem
        self.drops = ""
        return said

    def _drawn(self) -> str:
        """Why a model is random, as far as it is seen."""
        if self.seen.dropout == {"scaled_dot_product_attention"}:
            return (
                " F.scaled_dot_product_attention does not know the mode: give it dropout_p=p if"
                " self.training else 0.0."
            )
        if self.seen.dropout:
            return " Dropout must know the mode: nn.Dropout, or F.dropout(x, p, self.training)."
        if self.seen.drawn:
            return (
                f" forward draws random numbers ({min(self.seen.drawn)}): make such a tensor in"
                " __init__."
            )
        return ""

    def values(self) -> Values:
        """What the parts of their model take and give."""
        self.load()
        self.theirs.eval()
        with left_out(self.theirs, self.left_out), self._undropped():
            return run(values_of, self.theirs, self._names(), self.pictures)

    def _names(self) -> dict[str, str]:
        """Our names of their parameters that hold all of one of ours."""
        names = {}
        for own, source in self.sources.items():
            if not source.ranges or source.name == POSITIONS:
                names[own] = source.name
        return names

    def depth(self) -> int:
        """How many of the first values are ours."""
        theirs = self.values()
        ours = our_values(self.setting)
        shared = [label for label in ours if label in theirs]
        first = first_difference(theirs, ours)
        return shared.index(first) if first in shared else 0

    def is_explained(self) -> bool:
        """Whether known slips give all the same values; they become edits of ours.

        Where a value differs without a name, theirs is put in its place in ours, and what comes
        behind it is compared.
        """
        if self.is_random or self.changes or self.replaced:
            return False
        theirs = self.values()
        if self._takes_positions(theirs) and self.problem() is None:
            return True
        if LOGITS not in theirs:
            return False
        end = time.monotonic() + SECONDS
        label = self._first(theirs)
        while label is not None:
            if self._is_new(label) and self._explain(theirs, end):
                break
            difference = self._difference(theirs)
            self.unnamed.append(difference)
            if not self._puts_in(difference, theirs):
                return False
            label = self._first(theirs)
        self.is_followed = True
        return not self.unnamed

    def _explain(self, theirs: Values, end: float) -> bool:
        """Whether known slips give all the same values; those that are found become edits."""
        is_all = not (self.unnamed or self.uncompared)
        explanation = explain(theirs, self.setting, end, is_all)
        self.gave_up = self.gave_up or explanation.gave_up
        if explanation.slips:
            if not self.unnamed:
                self.first = self._words(theirs)
            self.setting = replace(self.setting, edits=(*self.setting.edits, *explanation.slips))
            self._forgive(explanation.slips)
            self._make_ours()
        return explanation.is_whole

    def _difference(self, theirs: Values) -> Difference:
        """The first value that differs."""
        ours = our_values(self.setting)
        label = self._first(theirs) or LOGITS
        got = theirs[label]
        aligned = alignments(got, ours[label])
        expected = aligned[0] if aligned else ours[label]
        return Difference(label, self._words(theirs), got, expected, self._is_new(label))

    def _is_new(self, label: str) -> bool:
        """Whether no difference without a name is of the kind of this label."""
        return _kind(label) not in [_kind(difference.label) for difference in self.unnamed]

    def _puts_in(self, difference: Difference, theirs: Values) -> bool:
        """Put a value of theirs in the place of ours; returns whether something comes behind it."""
        label = difference.label
        ours = our_values(self.setting)
        numbers = stand_in(theirs[label], ours[label])
        shared = comparable(theirs, ours)
        is_in_order = shared == [label for label in theirs if label in shared]
        if label == LOGITS or numbers is None or not is_in_order:
            return False
        put_in = (*self.setting.put_in, (label, Numbers(numbers)))
        self.setting = replace(self.setting, put_in=put_in)
        return True

    def _takes_positions(self, theirs: Values) -> bool:
        """Give ours the positions that theirs makes in forward; returns whether it makes any."""
        table = None
        if not self._uses_positions() and self._first(theirs) == FIRST_TOKENS:
            for place in (FIRST_TOKENS, FIRST_ATTENTION):  # the second without a norm before it
                if table is None and place in theirs:
                    table = self._added(theirs[place])
        if table is None:
            return False
        lacking = self.ours.seq_length - table.shape[1]  # no class token
        table = nn.functional.pad(table, (0, 0, lacking, 0))
        self.makes_positions = True
        self.missing = _without(self.missing, [POSITIONS])
        for own, source in list(self.sources.items()):
            if source.name == POSITIONS:  # it is not used
                del self.sources[own]
        self.setting = replace(self.setting, positions=Numbers(table))
        self._make_ours()
        return True

    def _added(self, tokens: Tensor) -> Tensor | None:
        """The positions in these tokens of theirs; None if it may be anything else.

        They are what is added to the tokens of each picture, where it is the same for all of them.
        """
        ours = our_values(self.setting)[FIRST_TOKENS]
        if tokens.shape != ours.shape:
            return None
        added = tokens - ours
        known = self.parameters[POSITIONS].detach()[:, -added.shape[1] :]
        table = added[:1] + known
        patches = table[:, 1:]
        least = self.tolerance * tokens.abs().max()
        is_same = (added - added[:1]).abs().max() <= least
        if not is_same or (patches - patches[:, :1]).abs().max() <= least:
            return None
        return table

    def _uses_positions(self) -> bool:
        """Whether theirs uses a position embedding, or another tensor of its own in its place."""
        for own, source in self.sources.items():
            if source.name == POSITIONS:
                return self._is_used(own)
        return False

    def _is_used(self, own: str) -> bool:
        """Whether forward uses a tensor of theirs, by any of its names."""
        tensors = tensors_of(self.theirs)
        return id(tensors[own]) in {id(tensors[name]) for name in self.seen.uses}

    def _first(self, theirs: Values) -> str | None:
        """The label of the first value that differs."""
        return first_difference(theirs, our_values(self.setting))

    def _words(self, theirs: Values) -> str:
        """The label of the first value that differs, with their name for it."""
        label = self._first(theirs) or LOGITS
        return f"{label}{self._their_name(label)}"

    def _their_name(self, label: str) -> str:
        """What they call the part of a label, if it has another name than ours."""
        for own, source in self.sources.items():
            if label.endswith(f" of {part_of(source.name)}"):
                module = own.rpartition(".")[0]
                return f" (yours: {module})" if module and own not in self.parameters else ""
        return ""


def _without(names: Iterable[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]


def _kind(label: str) -> str:
    """A label without the number of its block, or of its call."""
    return re.sub(r"block \d+|, call \d+", "", label)


def _in_first(name: str) -> bool:
    """Whether a parameter is in the first block, or in none."""
    block = re.search(r"encoder_layer_(\d+)", name)
    return block is None or int(block[1]) == 0


def _setting(
    sizes: dict[str, Any],
    neutral: list[str],
    parts: tuple[tuple[str, Range, Range], ...],
    edits: list[Slip],
) -> Setting:
    known = {"in_channels": 3}
    for name, size in sizes.items():
        if size is not None:
            known[name] = size
    dtype = torch.get_default_dtype()
    return Setting(tuple(sorted(known.items())), tuple(neutral), dtype, parts, tuple(edits))


def _is_vital(name: str, shape: tuple) -> bool:
    """Whether a parameter cannot be made to do nothing."""
    return len(shape) > 1 and not re.search("token|pos_emb|out_proj", name)
