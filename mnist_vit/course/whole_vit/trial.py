"""Their model with the check's weights, as one way to match the parameters gives them."""

import math
import re
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Slip
from ..checking.comparing import compare
from .blocks import shapes_of
from .building import Built, set_eps
from .explaining import Numbers, Setting, make_neutral, our_values
from .matching import POSITIONS, Match, Range, our_place
from .norms import norm_edits
from .passing import OtherMlp, WithoutDropout, tensors_of
from .running import leave_out_head, left_out, logits, run
from .slips import (
    ALL_TOKENS,
    NO_HEAD,
    NO_LAST_NORM,
    NO_MLP,
    NO_TOKEN,
    ONE_NORM,
    REUSE,
    SIDE_BY_SIDE_AFTER_ONE_NORM,
)
from .values import (
    FIRST_MLP,
    LOGITS,
    SECOND_NORM,
    SOFTMAX,
    TOLERANCE,
    Part,
    Values,
    first_difference,
    part_of,
    stand_in,
    tokens_of,
    values_of,
)

# the parameters that a model with a known mistake does not need, by what was done
LACKING = {
    NO_TOKEN.did: "^class_token",
    NO_HEAD.did: r"^heads\.",
    NO_LAST_NORM.did: r"^encoder\.ln\.",
    NO_MLP.did: r"\.(ln_2|mlp\.\d)\.",
    ONE_NORM.did: r"\.ln_2\.",
    SIDE_BY_SIDE_AFTER_ONE_NORM.did: r"\.ln_2\.",
}


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
        attentions: their modules of attention that cannot be compared, by their paths, with the
            parts of ours that they stand for: what they give is put into ours.
        mlps: the same of their MLPs.
        silent: matrices of such attention where there is no such module: they are set to zero.
        kept: their parameters that make the tokens in another way: they stay as they are.
        in_mlps: those of MLPs that cannot be compared: they stay as they are, too.
        places: the places of their parameters, by name: the number of a block, or another.
        uncompared: sentences on what has another thing in its place in theirs, and is taken out of
            both models.
        replaced: those of them that are about norms, or the projection of the output, by the parts
            of ours that they stand in place of.
        able: whether something can be compared, as hardly any parameter of ours is missing.
        is_random, changes: whether two calls differ, and whether a call changes the pictures.
        drops: a sentence on dropout that acts in eval mode, too, and is left out; "" if none does.
        setting: the check's weights and pictures; in its edits what is known to be other in theirs.
        seen_before: those edits that were seen before any value was compared.
        makes_positions: whether it adds positions that are no tensor of it, but made in forward.
    """

    def __init__(self, built: Built, fresh: nn.Module, match: Match) -> None:
        self.theirs = built.model
        self.seen = built.seen
        sources = match.sources
        self.sources = sources
        self.attentions = _attentions(built, match)
        inside = [f"{path}." for path in self.attentions]
        self.silent = [name for name in match.silent if not name.startswith(tuple(inside))]
        self.kept = match.kept
        self.in_mlps = match.in_mlps
        self.mlps = {mlp.path: _mlp(mlp) for mlp in built.seen.other_mlps}
        self.places = match.places
        self.uncompared = list(match.uncompared)
        self.is_random = False
        self.changes = False
        self.drops = ""
        self.makes_positions = False
        self.eps = built.eps
        self.rms_norms = built.rms_norms
        self.ignored = built.ignored
        self.takes_representation = built.takes_representation
        self.our_shapes = shapes_of(fresh)
        self.their_shapes = shapes_of(self.theirs)
        if self.seen.head:
            self.uncompared.append(f"Its head {self._about_head()}: it is not compared.")
        pictures = _setting(built.sizes, [], (), []).pictures()
        edits = self._edits(built.sizes["num_layers"], pictures)
        neutral = _without(self.our_shapes, [source.name for source in sources.values()])
        self.missing = neutral
        if REUSE in edits:
            self.missing = [name for name in neutral if _in_first(name)]
        self.forgive(edits)
        self.seen_before = tuple(edits)
        self._forgive_set_aside(match)
        foreign = _without(self.their_shapes, [*sources, *self.kept, *self.in_mlps])
        foreign = [name for name in foreign if not name.startswith(tuple(inside))]
        self.extra = [name for name in foreign if name in self.seen.uses]
        self.unused = self._unused()
        self.left_out = list(self._replaceable())
        self.replaced = self._replaced(match)
        self.uncompared += self.replaced.values()
        self.able = not any(_is_vital(name, self.our_shapes[name]) for name in self.missing)
        self.setting = _setting(built.sizes, neutral, self._parts(), edits)
        self.tolerance = TOLERANCE[self.setting.dtype]
        self.make_ours()
        if self.able and (self.attentions or self.mlps):
            self._take_parts()

    def _forgive_set_aside(self, match: Match) -> None:
        """Leave out of the missing parameters those of which it is told what theirs has instead."""
        if self.kept:
            self.missing = [name for name in self.missing if not name.startswith("conv_proj.")]
        if self.mlps:
            self.missing = [name for name in self.missing if ".mlp." not in name]
        if match.silent:
            self.missing = [name for name in self.missing if "self_attention" not in name]

    def make_ours(self) -> None:
        """Build ours anew, after its setting was changed."""
        self.ours = self.setting.model(self.setting.kind())
        self.parameters = dict(self.ours.named_parameters())

    def add(self, slips: tuple[Slip, ...]) -> None:
        """Make known mistakes in ours, too."""
        self.setting = replace(self.setting, edits=(*self.setting.edits, *slips))
        self.forgive(slips)
        self.make_ours()

    def take_positions(self, table: Tensor) -> None:
        """Give ours the positions that theirs makes in forward."""
        lacking = self.ours.seq_length - table.shape[1]  # no class token
        table = nn.functional.pad(table, (0, 0, lacking, 0))
        self.makes_positions = True
        self.missing = _without(self.missing, [POSITIONS])
        for own, source in list(self.sources.items()):
            if source.name == POSITIONS:  # it is not used
                del self.sources[own]
        self.setting = replace(self.setting, positions=Numbers(table))
        self.make_ours()

    def put_in(self, label: str, numbers: Tensor) -> None:
        """Let these numbers take the place of a value of ours."""
        put_in = (*self.setting.put_in, (label, Numbers(numbers)))
        self.setting = replace(self.setting, put_in=put_in)

    def _take_parts(self) -> None:
        """Let what their attention and MLPs give take the place of what ours give."""
        ours = our_values(self.setting)
        parts = {part.last for part in self._other_parts().values()}
        for label, value in self.values().items():
            given = label.partition("the output of ")[2].partition(",")[0]
            if given not in parts or label not in ours:
                continue
            numbers = stand_in(value, ours[label])
            if numbers is not None:
                self.put_in(label, numbers)

    def forgive(self, edits: Iterable[Slip]) -> None:
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
        foreign = _without(foreign, [*self.sources, *self.kept, *self.in_mlps])
        patches = self.our_shapes[POSITIONS][1] - 1
        has_token = any(re.search("cls|class_?emb|token", name) for name in foreign)
        if "class_token" not in names and patches in self.seen.tokens and not has_token:
            found.append(NO_TOKEN)
        has_matrix = any(len(self.their_shapes[name]) > 1 for name in foreign)
        if self.seen.head or ("heads.head.weight" not in names and not has_matrix):
            found.append(NO_HEAD)
        if self._takes_all_tokens():
            found.append(ALL_TOKENS)
        if self.seen.has_no_mlps:
            found.append(NO_MLP)
        if self._has_one_norm(pictures, times=num_layers if REUSE in found else 1):
            found.append(ONE_NORM)
        width = self.our_shapes["encoder.ln.weight"][0]
        return [*found, *norm_edits(self.theirs, self.sources, self.rms_norms, width)]

    def _takes_all_tokens(self) -> bool:
        """Whether the head takes all tokens at once."""
        width = self.our_shapes["encoder.ln.weight"][0]
        return bool(self.seen.head) and self.their_shapes[self.seen.head[0]][1] != width

    def _about_head(self) -> str:
        """How a head differs that is left out."""
        if self._takes_all_tokens():
            return "takes all tokens at once, and ours one"
        layers = [name for name in self.seen.head if len(self.their_shapes[name]) > 1]
        return f"has {len(layers)} layers, and ours one or two"

    def _has_one_norm(self, pictures: Tensor, times: int) -> bool:
        """Whether each block uses the norm before its attention twice, and has no other.

        A block runs so many times.
        """
        uses = set()
        for own, source in self.sources.items():
            if source.name.endswith("ln_2.weight"):
                return False
            if source.name.endswith("ln_1.weight"):
                uses.add(self.seen.uses[own] // times)
        return uses == {2} and self._gives_mlp(pictures)

    def _gives_mlp(self, pictures: Tensor) -> bool:
        """Whether the MLP takes what the second call of that norm gives, as far as it is seen."""
        values = run(values_of, self.theirs, self._names(), pictures, parts=self.mlps)
        given = values.get(SECOND_NORM)
        taken = values.get(FIRST_MLP)
        return given is None or taken is None or torch.equal(given, taken)

    @property
    def is_partly_given(self) -> bool:
        """Whether not all values behind the tokens are computed from the same weights as ours."""
        return bool(self.silent or self.seen.head or self.replaced)

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

    def _replaced(self, match: Match) -> dict[str, str]:
        """Sentences on norms and matrices of theirs that may stand where ours are missing.

        Theirs are made to do nothing, or are left out: what remains tells nothing of them.
        """
        said: dict[str, str] = {}
        kinds = set()
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
                    if of_any_block not in kinds:
                        said[part_of(name)] = (
                            f"{path or own} ({kind}) may stand in place of {part_of(name)}: these,"
                            " and what comes behind them, are not compared."
                        )
                    kinds.add(of_any_block)
        return said

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
        leave_out_head(model, self.seen.head, self.ours.hidden_dim)
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
            found = run(
                values_of, self.theirs, self._names(), self.pictures, parts=self._other_parts()
            )
        if self.attentions:
            found = {label: value for label, value in found.items() if SOFTMAX not in label}
        return found

    def tokens(self) -> Tensor | None:
        """What block 0 of their model is given; None if that is not seen."""
        self.load()
        self.theirs.eval()
        names = [name for name, place in self.places.items() if place == 0]
        with left_out(self.theirs, self.left_out), self._undropped():
            return run(tokens_of, self.theirs, names, self.pictures)

    def _other_parts(self) -> dict[str, Part]:
        """The parts of ours that modules of theirs stand for, and are not compared."""
        return self.attentions | self.mlps

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
        if first is None:
            return len(shared)
        return shared.index(first) if first in shared else 0

    def uses_positions(self) -> bool:
        """Whether theirs uses a position embedding, or another tensor of its own in its place."""
        for own, source in self.sources.items():
            if source.name == POSITIONS:
                return self._is_used(own)
        return False

    def _is_used(self, own: str) -> bool:
        """Whether forward uses a tensor of theirs, by any of its names."""
        tensors = tensors_of(self.theirs)
        return id(tensors[own]) in {id(tensors[name]) for name in self.seen.uses}

    def their_name(self, label: str) -> str:
        """What they call the part of a label, if it has another name than ours."""
        for own, source in self.sources.items():
            if label.endswith(f" of {part_of(source.name)}"):
                module = own.rpartition(".")[0]
                return f" (yours: {module})" if module and own not in self.parameters else ""
        return ""


def _mlp(mlp: OtherMlp) -> Part:
    """The part of ours that an MLP stands for; one with a norm of its own takes what that takes."""
    block = f"block {mlp.place}'s"
    return Part(first="" if mlp.norms else f"{block} mlp.0", last=f"{block} mlp.3")


def _attentions(built: Built, match: Match) -> dict[str, Part]:
    """Modules that hold all of the attention of a block, and nothing else that is matched.

    Of several the innermost counts: those around it may add what they are given.
    """
    model = built.model
    of_block: dict[int, set[str]] = {}
    for name in match.silent:
        of_block.setdefault(match.places[name], set()).add(name)
    innermost = {}
    for place, silent in of_block.items():
        for path, module in model.named_modules():
            own = {f"{path}.{name}" for name, _ in module.named_parameters()}
            if silent <= own and own.isdisjoint(match.sources) and path in built.seen.gives_alike:
                innermost[place] = path  # parents come before their parts
    found = {}
    for place, path in innermost.items():
        part = f"block {place}'s self_attention"
        found[path] = Part(part, part)
    return found


def _without(names: Iterable[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]


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
