"""What our Vision Transformer computes, with the check's weights, and with known mistakes in it."""

import functools
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Slip, random, randomise
from ..checking.edits import edited_model
from .matching import Range, own_name
from .slips import SLIPS, changes_blocks
from .values import LOGITS, Values, alignments, comparable, first_difference, values_of

AT_ONCE = 6  # slips that are found together
FRONTIER = 8  # combinations of slips to which another is added
UNSURE = re.compile("eps|throw away")  # slips that only equal logits prove
SMALL = 100  # numbers of a token, and patches, below which values are kept


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of theirs that stand in our model."""

    numbers: Tensor


@dataclass(frozen=True)
class Setting:
    """All that the check's weights and pictures depend on.

    Attributes:
        sizes: the arguments of ``VisionTransformer``.
        neutral: the names of parameters that have no effect.
        dtype: of weights and pictures.
        parts: (name, rows, columns) of parameters of which only these are not zero.
        edits: what is changed in our model beforehand.
        positions: the position embedding, where it is not one of the check's.
        put_in: values of theirs, by their labels, that take the place of ours on the way.
    """

    sizes: tuple[tuple[str, Any], ...]
    neutral: tuple[str, ...]
    dtype: torch.dtype
    parts: tuple[tuple[str, Range, Range], ...] = ()
    edits: tuple[Slip, ...] = ()
    positions: Numbers | None = None
    put_in: tuple[tuple[str, Numbers], ...] = ()

    def pictures(self) -> Tensor:
        """Four pictures of small numbers, so that a norm's eps shows."""
        sizes = dict(self.sizes)
        shape = (4, sizes["in_channels"], sizes["image_size"], sizes["image_size"])
        return 0.05 * random(*shape, seed=1, dtype=self.dtype)

    def kind(self) -> Callable[..., nn.Module]:
        """Our class, after the edits."""
        if not self.edits:
            return VisionTransformer
        return edited_model(*[slip.edit for slip in self.edits])

    def model(self, kind: Callable[..., nn.Module]) -> nn.Module:
        """A model in eval mode, with the check's weights."""
        model = kind(**dict(self.sizes)).to(self.dtype).eval()
        model.load_state_dict(_weights(self))
        return model


@functools.lru_cache(maxsize=2)
def _weights(setting: Setting) -> dict[str, Tensor]:
    """The check's weights; residual branches are small, so that a norm's eps shows."""
    model = randomise(VisionTransformer(**dict(setting.sizes)).to(setting.dtype))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if re.search(r"out_proj|mlp\.3|class_token|pos_embedding|conv_proj.bias", name):
                parameter.mul_(0.2)
            if name in setting.neutral:
                make_neutral(name, parameter)
            _keep_parts(name, parameter, setting)
        if setting.positions is not None:
            model.encoder.pos_embedding.copy_(setting.positions.numbers)
    return model.state_dict()


def _keep_parts(name: str, parameter: Tensor, setting: Setting) -> None:
    """Set to zero what is in none of the parameter's parts, if it has parts."""
    parts = [part for part in setting.parts if part[0] == name]
    if not parts:
        return
    mask = torch.zeros_like(parameter)
    table = mask[0] if mask.dim() == 3 else mask
    for _, rows, columns in parts:
        place = (slice(*rows), slice(*columns))
        table[place[: table.dim()]] = 1
    parameter.mul_(mask)


def make_neutral(name: str, parameter: Tensor) -> None:
    """Fill a parameter so that it has no effect.

    A square matrix, also that of a convolution, becomes the identity, a norm's weight 1, all else
    0.
    """
    with torch.no_grad():
        parameter.zero_()
        if parameter.dim() == 1 and not re.search("bias|beta|token|cls|pos", own_name(name)):
            parameter.fill_(1)
        elif parameter.dim() > 1 and len(parameter) ** 2 == parameter.numel():
            parameter.copy_(torch.eye(len(parameter)).reshape(parameter.shape))


def our_values(setting: Setting, *slips: Slip) -> Values:
    """What our model computes, with attention from scratch, after the edits of some slips.

    The values of small models are kept.
    """
    sizes = dict(setting.sizes)
    in_a_row = sizes["image_size"] // sizes["patch_size"]
    if max(sizes["hidden_dim"], in_a_row**2) < SMALL and len(slips) < 2:
        return _kept_values(setting, *slips)
    return _computed_values(setting, *slips)


def _computed_values(setting: Setting, *slips: Slip) -> Values:
    edits = [slip.edit for slip in (*setting.edits, *slips)]
    model = setting.model(edited_model(*edits))
    names = {name: name for name, _ in model.named_parameters()}
    put_in = {label: put.numbers for label, put in setting.put_in}
    return values_of(model, names, setting.pictures(), put_in)


_kept_values = functools.lru_cache(maxsize=512)(_computed_values)


Step = tuple[tuple[Slip, ...], str]  # slips, and the first value that still differs with them
Combined = Callable[[str], Iterable[tuple[Slip, ...]]]  # what is tried where this label differs


@dataclass(frozen=True)
class Explanation:
    """Known slips with which our model computes what another does.

    Attributes:
        slips: the slips.
        is_whole: whether all values agree with them, or only more than without.
        gave_up: whether the search took too long.
    """

    slips: tuple[Slip, ...]
    is_whole: bool
    gave_up: bool = False


def explain(theirs: Values, setting: Setting, end: float, is_all: bool = True) -> Explanation:
    """The known slips with which our model computes every value that theirs does, or most of them.

    Another slip is added only where those before it made more values agree, and only one that
    changes the first value that still differs; or two such slips at once, if one does not help; or
    one that runs the parts of a block in another order, with any other.

    Args:
        theirs: what the learner's model computes.
        setting: the weights and pictures that it was given.
        end: when the search gives up, as ``time.thread_time()`` counts.
        is_all: whether all values of our model are computed from the same weights as theirs. Else
            different slips may give the same numbers, and none of these is named.
    """
    search = _Search(theirs, setting, end, is_all)
    label = first_difference(theirs, our_values(setting)) or LOGITS
    frontier: list[Step] = [((), label)]
    best: tuple[Slip, ...] = ()
    for _ in range(AT_ONCE):
        further: list[Step] = []
        for combined in search.ways():
            further = further or search.further(frontier, combined)
        if search.whole:
            return search.explanation(best)
        frontier = further[:FRONTIER]
        if search.is_sure(frontier):
            best = frontier[0][0]
    return Explanation(best, is_whole=False, gave_up=time.thread_time() > search.end)


class _Search:
    """Slips that are tried on our model.

    Attributes:
        whole: combinations of slips with which all values agree: the first one, or all of these.
    """

    def __init__(self, theirs: Values, setting: Setting, end: float, is_all: bool) -> None:
        self.theirs = theirs
        self.setting = setting
        self.end = end
        self.is_all = is_all
        self.whole: list[tuple[Slip, ...]] = []
        self.ours: Values = {}
        ours = our_values(setting)
        for label in (*comparable(theirs, ours), LOGITS):
            self.ours[label] = ours[label]
        self.changes: dict[Slip, str | None] = {}  # the first value that a slip changes by itself

    def ways(self) -> Iterator[Combined]:
        """How slips are combined, the next only where the one before it leads to nothing."""
        yield self.single
        if self.is_all:
            yield self.pairs
            yield self.in_another_order

    def explanation(self, best: tuple[Slip, ...]) -> Explanation:
        """The slips with which all values agree; others (``best``) if there are several such."""
        different = {frozenset(slips) for slips in self.whole}
        if len(different) > 1:
            return Explanation(best, is_whole=False)
        return Explanation(self.whole[0], is_whole=True)

    def single(self, label: str) -> Iterable[tuple[Slip, ...]]:
        """Slips that change the value of this label first, one at a time.

        Where another eps changes little, only all values together tell which it is.
        """
        usable = SLIPS
        if not self.is_all:
            usable = [slip for slip in SLIPS if "eps" not in slip.did]
        return [(slip,) for slip in usable if self.changes.get(slip, label) == label]

    def pairs(self, label: str) -> Iterable[tuple[Slip, ...]]:
        """Two such slips."""
        usable = [slip for (slip,) in self.single(label)]
        return itertools.combinations(usable, 2)

    def in_another_order(self, label: str) -> Iterator[tuple[Slip, ...]]:
        """One such slip that changes the order in a block, and one that changes a later value."""
        for (first,) in self.single(label):
            if changes_blocks(first):
                for second in SLIPS:
                    if self.changes.get(second, label) != label:
                        yield first, second

    def is_sure(self, frontier: list[Step]) -> bool:
        """Whether no other slips make as many values agree as those of the first step.

        An eps does so as well that is only near theirs, and what seems thrown away may be added
        further on.
        """
        if not frontier:
            return False
        best, first_label = frontier[0]
        if any(UNSURE.search(slip.did) for slip in best):
            return False
        for slips, label in frontier:
            if label == first_label and set(slips) != set(best):
                return False
        return True

    def further(self, frontier: list[Step], combined: Combined) -> list[Step]:
        """The steps that make more values agree, the best first."""
        better: list[tuple[int, Step]] = []
        for slips, label in frontier:
            for more in combined(label):
                is_enough = self.whole and self.is_all
                if is_enough or time.thread_time() > self.end:
                    return []
                with suppress(Exception):  # edits that do not go together, or a model that fails
                    depth, first = self._tried((*slips, *more), label)
                    if depth > 0:
                        better.append((depth, ((*slips, *more), first)))
        better.sort(key=lambda step: (step[0], _place(step[1][0])), reverse=True)
        return [step for _, step in better]

    def _tried(self, slips: tuple[Slip, ...], label: str) -> tuple[int, str]:
        """The place of the first value that still differs, 0 if none agree more, and its label."""
        values = our_values(self.setting, *slips)
        if len(slips) == 1:
            self.changes[slips[0]] = first_difference(values, self.ours)
        first = first_difference(self.theirs, values)
        if first is None:
            self.whole.append(slips)
            return 0, label
        order = list(values)
        agrees = label in order and bool(alignments(self.theirs[label], values[label]))
        if agrees and order.index(first) > order.index(label):
            return order.index(first), first
        return 0, label


def _place(slips: tuple[Slip, ...]) -> list[str]:
    return [slip.did for slip in slips]
