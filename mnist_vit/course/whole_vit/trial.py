"""Their model with the check's weights, as one way to match the parameters gives them."""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Slip
from ..checking.comparing import compare
from ..observing.calls import Call
from ..observing.looking import moved, partly, rows, transformed
from .building import listed, run
from .explaining import Setting, explain, make_neutral, our_values
from .matching import Source
from .values import LOGITS, TOLERANCE, Values, alignments, first_difference, part_of, values_of


class Trial:
    """Their model with the check's weights, and ours beside it.

    Attributes:
        theirs, ours: the models.
        sources: where each of their parameters gets its values from.
        parameters: ours, by name.
        missing, extra: parameters that only ours has, and that only theirs has; they are made to do
            nothing.
        able: whether that is possible for all of them.
        is_random, changes: whether two calls differ, and whether a call changes the pictures.
        lines: what is to be said of the parameters.
    """

    def __init__(
        self, theirs: nn.Module, fresh: nn.Module, sizes: dict[str, Any], sources: dict[str, Source]
    ) -> None:
        self.theirs = theirs
        self.sources = sources
        self.is_random = False
        self.changes = False
        our_shapes = {name: tuple(p.shape) for name, p in fresh.named_parameters()}
        their_shapes = {name: tuple(p.shape) for name, p in theirs.named_parameters()}
        used = [source.name for source in sources.values()]
        self.missing = _without(our_shapes, used)
        self.extra = _without(their_shapes, sources)
        self.able = not any(_is_vital(name, our_shapes[name]) for name in self.missing)
        self.setting = _setting(sizes, self.missing)
        self.tolerance = TOLERANCE[self.setting.dtype]
        self.ours = self.setting.model(VisionTransformer)
        self.parameters = dict(self.ours.named_parameters())
        self.lines = self._about_parameters(our_shapes, their_shapes, sizes["num_layers"])

    def _about_parameters(
        self, our_shapes: dict[str, tuple], their_shapes: dict[str, tuple], num_layers: int
    ) -> list[str]:
        lines = []
        if any(own != source.name for own, source in self.sources.items()):
            example, source = max(self.sources.items(), key=_oddness)
            lines.append(
                f"{len(self.sources)} parameters were matched by block, shape and order, such as"
                f" {example} with {source.said()}."
            )
        if self.missing:
            lines.append(f"Ours has, yours lacks: {_shapes(self.missing, our_shapes)}.")
        if self.extra:
            lines.append(f"Yours has, ours lacks: {_shapes(self.extra, their_shapes)}.")
        if self.missing and _is_one_block(our_shapes, their_shapes):
            lines.append(
                f"These are the parameters of one block, not of {num_layers}: make each one anew,"
                " in a list."
            )
        return lines

    @property
    def pictures(self) -> Tensor:
        """Fresh ones each time, as a model may change them."""
        return self.setting.pictures()

    def load(self) -> None:
        """Give their model the weights."""
        with torch.no_grad():
            for name, parameter in self.theirs.named_parameters(remove_duplicate=False):
                if name in self.sources:
                    parameter.copy_(self.sources[name].take(self.parameters, parameter))
                elif parameter.dim() != 2:
                    make_neutral(name, parameter)

    def problem(self, training: bool = False) -> str | None:
        """How the logits differ from ours, as a sentence; None if they do not."""
        self.load()
        self.theirs.train(training)
        pictures = self.pictures
        first = run(self.theirs, pictures)
        second = run(self.theirs, self.pictures)
        self.changes = not torch.equal(pictures, self.pictures)
        differ = False
        if isinstance(first, Tensor):
            differ = compare(LOGITS, second, first, self.tolerance) is not None
        self.is_random = differ and not self.changes
        if self.changes:
            return "the pictures are changed in place: work on a copy, pictures.clone()."
        if self.is_random:
            return (
                "the same pictures get other logits each time, in eval mode. Dropout must know the"
                " mode: nn.Dropout, or F.dropout(x, p, self.training)."
            )
        return compare(LOGITS, first, self.ours(self.pictures), self.tolerance)

    def values(self) -> Values:
        """What the parts of their model take and give."""
        self.load()
        names = {}
        for own, source in self.sources.items():
            if source.rows is None:
                names[own] = source.name
        return run(values_of, self.theirs.eval(), names, self.pictures)

    def depth(self) -> int:
        """How many of the first values are ours."""
        theirs = self.values()
        ours = our_values(self.setting)
        shared = [label for label in ours if label in theirs]
        first = first_difference(theirs, ours)
        return shared.index(first) if first in shared else 0

    def explained(self, foreign: str) -> list[str]:
        """What is wrong: the known slips that give all the same values, or what can be seen.

        Args:
            foreign: the first line where the parameters are not the same.
        """
        problem = self.problem() or ""
        theirs = self.values()
        ours = our_values(self.setting)
        if self.is_random or self.changes or LOGITS not in theirs:
            return [problem, *self.lines]
        label = first_difference(theirs, ours) or LOGITS
        where = f"The first value that differs is {label}{self._their_name(label)}"
        slips = explain(theirs, self.setting)
        if slips:
            return [*_named(slips), f"{where}.", *self.lines]
        head = []
        tail = self.lines
        if self.missing or self.extra:
            head = [foreign, *self.lines]
            tail = []
        return [*head, problem, *self._seen(label, where, theirs, ours), *tail]

    def _their_name(self, label: str) -> str:
        """What they call the part of a label, if it has another name than ours."""
        for own, source in self.sources.items():
            if label.endswith(f" of {part_of(source.name)}"):
                module = own.rpartition(".")[0]
                return f" (yours: {module})" if module and own not in self.parameters else ""
        return ""

    def _seen(self, label: str, where: str, theirs: Values, ours: Values) -> list[str]:
        """The first value that differs, and what can be observed of it."""
        got = theirs[label]
        aligned = alignments(got, ours[label])
        expected = aligned[0] if aligned else ours[label]
        lines = ["All values on the way are equal."]
        if label != LOGITS:
            told = compare("it", got, expected, self.tolerance) or "it is another token."
            lines = [f"{where}: {told.rpartition('numbers: ')[2]}"]
        logits = theirs[LOGITS]
        if logits.shape == ours[LOGITS].shape and logits.isfinite().all():
            lines += self._observed(label, got, expected)
        return lines

    def _observed(self, label: str, got: Tensor, expected: Tensor) -> list[str]:
        """What can be observed of a value, as one sentence or none."""
        name = label.capitalize()
        if "softmax" in label and got.shape == expected.shape and got.min() > 0:
            # These are weights. Their logarithms are the scores, plus a number for each row.
            got = _less_mean(got.log())
            expected = _less_mean(expected.log())
            name = "Each row of scores, less its mean,"
        width = self.ours.hidden_dim
        head_dim = width // self.ours.encoder.layers[0].num_heads
        # Their code is not called again: this stands for a call, and has names for two numbers.
        call = Call(VisionTransformer, [], ["head_dim", "hidden_dim"], [head_dim, width])
        for look in (rows, transformed, moved, partly):
            with suppress(Exception):  # a value of any shape and kind
                said = look(expected.double(), got.double(), (call, call))
                if said:
                    return [said.replace("The result", name)]
        return []


def _without(names: Iterable[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]


def _shapes(names: list[str], shapes: dict[str, tuple]) -> str:
    return listed([f"{name} {shapes[name]}" for name in names])


def _setting(sizes: dict[str, Any], neutral: list[str]) -> Setting:
    known = {"in_channels": 3}
    for name, size in sizes.items():
        if size is not None:
            known[name] = size
    return Setting(tuple(sorted(known.items())), tuple(neutral), torch.get_default_dtype())


def _is_vital(name: str, shape: tuple) -> bool:
    """Whether a parameter cannot be made to do nothing."""
    return len(shape) > 1 and not re.search("token|pos_emb|out_proj", name)


def _oddness(match: tuple[str, Source]) -> tuple[str, bool]:
    """Which match is the best example: one in another layout, or a part of in_proj_weight."""
    _, source = match
    return source.layout, "in_proj_weight" in source.name


def _is_one_block(our_shapes: dict[str, tuple], their_shapes: dict[str, tuple]) -> bool:
    """Whether theirs are the parameters of ours with a single block."""
    single = []
    for name, shape in our_shapes.items():
        if "encoder_layer_" not in name or "encoder_layer_0" in name:
            single.append(shape)
    return sorted(single) == sorted(their_shapes.values())


def _named(slips: tuple[Slip, ...]) -> list[str]:
    """Known slips, one in a sentence, several in a list."""
    begin = "the logits are wrong. You get exactly this when you"
    if len(slips) == 1:
        return [f"{begin} {slips[0].sentence}."]
    return [f"{begin}, all together:", *[f"- {slip.sentence}." for slip in slips]]


def _less_mean(scores: Tensor) -> Tensor:
    return scores - scores.mean(dim=-1, keepdim=True)
