"""``check.vit``: any Vision Transformer compared with ours, part by part, and told what is wrong
with it.

Both models get the same random weights and the same pictures; parameters are matched by name, or
else by block, shape and order. Where the logits differ, so do values on the way: the first of them
says where, and a known slip with which our model computes all the same values says why.
"""

import io
import itertools
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking.comparing import compare
from ..checking.exercise import Mistake
from ..checking.tools import gradients
from ..observing.calls import Call
from ..observing.looking import moved, partly, rows, transformed
from ..observing.undisturbed import undisturbed
from .matching import (
    LOGITS,
    SIZES,
    TOLERANCE,
    Source,
    Values,
    alignments,
    build,
    first_difference,
    listed,
    matched,
    part_of,
    run,
    values_of,
)
from .slips import Setting, explain, make_neutral, our_values

LARGE = 10_000_000  # parameters; models that are built and larger are compared in float32
FOREIGN = "the parameters are not ours."
ALL_ELSE = "With these at 0 (norm weights at 1, matrices at the identity) everything else is equal."


def vit(answer: Any = None, **options: Any) -> None:
    """Print what ``judge_vit`` says of a Vision Transformer."""
    print("\n".join(judge_vit(answer, **options)[1]))


def judge_vit(answer: Any, **options: Any) -> tuple[bool, list[str]]:
    """Compare a Vision Transformer with ours, and say what is wrong with it.

    Args:
        answer: a class with torchvision's arguments, or some of them, or a function that builds the
            model, or a model that is built already; that one is copied, not changed.
        options: more arguments for ``answer``, or other sizes than the check's own.

    Returns:
        Whether it is right, and the lines to print. Raises nothing, whatever the model does.
    """
    with undisturbed(), redirect_stdout(io.StringIO()):  # what their model prints is dropped
        for dtype in (torch.float64, torch.float32):
            try:
                large = (
                    isinstance(answer, nn.Module)
                    and sum(p.numel() for p in answer.parameters()) > LARGE
                )
                passed, lines = _judge(answer, SIZES | options, torch.float32 if large else dtype)
            except Mistake as mistake:
                passed, lines = False, str(mistake).splitlines()
                if re.search("dtype|[Dd]ouble", str(mistake)):  # a model may insist on float32
                    continue
            except Exception as error:  # outputs that cannot even be looked at
                passed, lines = (
                    False,
                    [
                        f"this model cannot be compared ({type(error).__name__}:"
                        f" {str(error)[:100]})."
                    ],
                )
            break
    return passed, [f"vit: {lines[0]}", *lines[1:]]


def _judge(answer: Any, sizes: dict[str, Any], dtype: torch.dtype) -> tuple[bool, list[str]]:
    torch.set_default_dtype(dtype)
    passed, lines, has_representation = _compared(answer, sizes)
    if passed and has_representation:
        passed, more, _ = _compared(answer, sizes | {"representation_size": 7})
        lines[0] = f"{lines[0]} The same with representation_size=7."
        lines = (
            lines
            if passed
            else [f"right without representation_size; with it, {more[0]}", *more[1:]]
        )
    return passed, lines


def _compared(answer: Any, sizes: dict[str, Any]) -> tuple[bool, list[str], bool]:
    """Whether the model computes what ours does, the lines to say, and whether it takes a
    representation_size."""
    theirs, found, takes_representation = build(answer, sizes)
    with torch.device("meta" if isinstance(answer, nn.Module) else "cpu"):
        try:
            fresh = VisionTransformer(**found)
        except ValueError as error:
            raise Mistake(f"the sizes read off it make no Vision Transformer: {error}.") from None
    trials: list[_Trial] = []
    for trial in _trials(theirs, fresh, found):
        trials.append(trial)
        if trial.able and trial.problem() is None:
            break
    else:
        able = [trial for trial in trials if trial.able]
        if not able:
            raise Mistake("\n".join([FOREIGN, *trials[0].lines]))
        best = max(able, key=_Trial.depth) if len(able) > 1 else able[0]
        return False, best.explained(), False
    if trial.missing or trial.extra:
        return False, [FOREIGN, *trial.lines, ALL_ELSE], False
    ours, got = trial.ours(trial.pictures), run(theirs, trial.pictures)
    flow = {
        name: g
        for name, (_, g) in zip(trial.parameters, gradients(ours, **trial.parameters), strict=True)
    }
    own = {name: p for name, p in theirs.named_parameters() if name in trial.sources}
    for (what, gradient), (name, parameter) in zip(gradients(got, **own), own.items(), strict=True):
        expected = trial.sources[name].take(flow, parameter)
        if problem := compare(what, gradient, expected, trial.tolerance):
            return (
                False,
                [f"the logits are right, and a gradient is not. {problem}", *trial.lines],
                False,
            )
    trial.theirs = _without_dropout(
        build(answer, sizes | {"dropout": 0.0, "attention_dropout": 0.0})[0]
    )
    if (problem := trial.problem(training=True)) and not trial.is_random:
        return (
            False,
            [f"right in eval mode; in train mode with dropout 0, {problem}", *trial.lines],
            False,
        )
    far = float((ours - got).abs().max())
    equal = (
        "equal to ours bit for bit" if far == 0 else f"equal to ours (largest difference {far:.1e})"
    )
    mode = (
        "train mode not compared, as it is random with dropout 0"
        if trial.is_random
        else "train mode without dropout"
    )
    said = f"correct: logits {equal}, {len(own)} gradients, {mode}."
    return True, [said, *trial.lines], takes_representation


class _Trial:
    """Their model with the check's weights, as one way to match the parameters gives them.

    Attributes:
        missing, extra: parameters that only ours has, and that only theirs has; they are made to do
            nothing.
        able: whether that is possible for all of them.
        is_random, changes: whether two calls differ, and whether a call changes the pictures.
        lines: what is to be said of the parameters.
    """

    def __init__(
        self, theirs: nn.Module, fresh: nn.Module, sizes: dict[str, Any], sources: dict[str, Source]
    ) -> None:
        self.theirs, self.sources = theirs, sources
        used = {source.name for source in sources.values()}
        ours, own = dict(fresh.named_parameters()), dict(theirs.named_parameters())
        self.missing = [name for name in ours if name not in used]
        self.extra = [name for name in own if name not in sources]
        vital = [
            n
            for n in self.missing
            if ours[n].dim() > 1 and not re.search("token|pos_emb|out_proj", n)
        ]
        self.able = not vital
        known = {"in_channels": 3} | {
            name: size for name, size in sizes.items() if size is not None
        }
        self.setting = Setting(
            tuple(sorted(known.items())), tuple(self.missing), torch.get_default_dtype()
        )
        self.tolerance = TOLERANCE[self.setting.dtype]
        self.ours = self.setting.model(VisionTransformer)
        self.parameters = dict(self.ours.named_parameters())
        self.lines = []
        if any(own_name != source.name for own_name, source in sources.items()):
            first, source = max(
                sources.items(), key=lambda pair: (pair[1].layout, "in_proj_weight" in pair[1].name)
            )
            said = f"such as {first} with {source.said()}"
            self.lines.append(
                f"{len(sources)} parameters were matched by block, shape and order, {said}."
            )
        if self.missing:
            self.lines.append(
                "Ours has, yours lacks:"
                f" {listed([f'{n} {tuple(ours[n].shape)}' for n in self.missing])}."
            )
        if self.extra:
            self.lines.append(
                "Yours has, ours lacks:"
                f" {listed([f'{n} {tuple(own[n].shape)}' for n in self.extra])}."
            )
        shapes = sorted(
            tuple(p.shape)
            for n, p in ours.items()
            if "encoder_layer_" not in n or "encoder_layer_0" in n
        )
        if self.missing and shapes == sorted(tuple(p.shape) for p in own.values()):
            count = sizes["num_layers"]
            self.lines.append(
                f"These are the parameters of one block, not of {count}: make each one anew, in a"
                " list."
            )

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
        first, second = run(self.theirs, pictures), run(self.theirs, self.pictures)
        self.changes = not torch.equal(pictures, self.pictures)
        differ = (
            isinstance(first, Tensor) and compare(LOGITS, second, first, self.tolerance) is not None
        )
        self.is_random = differ and not self.changes
        if self.changes:
            return "the pictures are changed in place: work on a copy, pictures.clone()."
        if self.is_random:
            advice = "Dropout must know the mode: nn.Dropout, or F.dropout(x, p, self.training)."
            return f"the same pictures get other logits each time, in eval mode. {advice}"
        return compare(LOGITS, first, self.ours(self.pictures), self.tolerance)

    def values(self) -> Values:
        """What the parts of their model take and give."""
        self.load()
        names = {own: source.name for own, source in self.sources.items() if source.rows is None}
        return run(values_of, self.theirs.eval(), names, self.pictures)

    def depth(self) -> int:
        """How many of the first values are ours."""
        theirs, ours = self.values(), our_values(self.setting)
        shared = [label for label in ours if label in theirs]
        return shared.index(first) if (first := first_difference(theirs, ours)) in shared else 0

    def explained(self) -> list[str]:
        """The known slip that gives all the same values, if there is one; where the first
        difference is; and more."""
        problem = self.problem() or ""
        theirs, ours = self.values(), our_values(self.setting)
        head = [FOREIGN, *self.lines] if self.missing or self.extra else []
        if self.is_random or self.changes or LOGITS not in theirs:
            return [problem, *self.lines]
        slips = explain(theirs, self.setting)
        label = first_difference(theirs, ours) or LOGITS
        own = next(
            (
                own
                for own, source in self.sources.items()
                if label.endswith(f" of {part_of(source.name)}")
            ),
            "",
        )
        yours = (
            f" (yours: {own.rpartition('.')[0]})"
            if own not in self.parameters and "." in own
            else ""
        )
        where = f"The first value that differs is {label}{yours}"
        if slips:
            said = f" {slips[0]}." if len(slips) == 1 else ", all together:"
            each = [f"- {slip}." for slip in slips[1:] and slips]
            return [
                f"the logits are wrong. You get exactly this when you{said}",
                *each,
                f"{where}.",
                *self.lines,
            ]
        got, expected = theirs[label], (alignments(theirs[label], ours[label]) or [ours[label]])[0]
        difference = (
            compare("it", got, expected, self.tolerance) or "it is another token."
        ).rpartition("numbers: ")[2]
        lines = [
            problem,
            "All values on the way are equal." if label == LOGITS else f"{where}: {difference}",
        ]
        if theirs[LOGITS].shape != ours[LOGITS].shape or not theirs[LOGITS].isfinite().all():
            return [*head, *lines, *([] if head else self.lines)]
        width, heads = self.ours.hidden_dim, self.ours.encoder.layers[0].num_heads
        call = Call(VisionTransformer, [], ["head_dim", "hidden_dim"], [width // heads, width])
        name = label.capitalize()
        # scores, plus a number for each row
        if "softmax" in label and got.shape == expected.shape and got.min() > 0:
            got, expected, name = got.log(), expected.log(), "Each row of scores, less its mean,"
            got, expected = (x - x.mean(dim=-1, keepdim=True) for x in (got, expected))
        for look in (rows, transformed, moved, partly):
            with suppress(Exception):
                if said := look(expected.double(), got.double(), (call, call)):
                    lines.append(said.replace("The result", name))
                    break
        return [*head, *lines, *([] if head else self.lines)]


def _trials(theirs: nn.Module, fresh: nn.Module, sizes: dict[str, Any]) -> Iterator[_Trial]:
    """One trial for each way to match the parameters, the likeliest first."""
    seen: list[dict[str, Source]] = []
    for late, layout in itertools.product((False, True), ("", "(p p c)", "x @ W")):
        sources = matched(fresh, theirs, sizes["num_layers"], late, layout)
        if sources not in seen:
            seen.append(sources)
            yield _Trial(theirs, fresh, sizes, sources)


def _without_dropout(model: nn.Module) -> nn.Module:
    """The model without dropout."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model
