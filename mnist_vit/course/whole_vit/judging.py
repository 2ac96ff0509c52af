"""Compares any Vision Transformer with ours, part by part, and says what is wrong with it.

Both models get the same random weights and the same pictures; parameters are matched by name, or
else by block, shape and order. Where the logits differ, so do values on the way: the first of them
says where, and a known slip with which our model computes all the same values says why.
"""

import io
import itertools
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Mistake, gradients
from ..checking.comparing import compare
from ..checking.own_code import is_library
from ..checking.tools import shortened
from ..observing.undisturbed import stoppable, undisturbed
from .building import OTHERS, SIZES, Built, build, listed, make, takes_sizes
from .dropouts import NO_DROPOUT, dropout_places, set_dropout
from .elsewhere import (
    MANY,
    has_our_names,
    ignored_dropout,
    wrong_picture_gradient,
    wrong_pictures,
    wrong_start,
)
from .following import Following
from .matching import CHANNELS_LAST, PLAIN_PRODUCT, POSITIONS, Match, matched
from .telling import (
    ALL_ELSE,
    FOREIGN,
    about_parameters,
    explained,
    frozen,
    in_part,
    mistakes,
    notes,
    unexplained,
)
from .trial import Trial

LARGE = 10_000_000  # parameters; models that are built and larger are compared in float32


def vit(answer: Any = None, **options: Any) -> None:
    """Print what ``judge_vit`` says of a Vision Transformer."""
    with stoppable("vit"):
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
        judgement, needs_float32 = _attempt(answer, options, torch.float64)
        if needs_float32:
            judgement, _ = _attempt(answer, options, torch.float32)
    first, *more = judgement.lines
    return judgement.passed, [f"vit: {first}", *more]


@dataclass
class Judgement:
    """What is to be said of a model.

    Attributes:
        passed: whether it computes what ours does.
        lines: what is printed.
        takes_representation: whether it takes ``representation_size``.
    """

    passed: bool
    lines: list[str] = field(default_factory=list)
    takes_representation: bool = False


def _attempt(answer: Any, options: dict[str, Any], dtype: torch.dtype) -> tuple[Judgement, bool]:
    """The judgement in one dtype, and whether the model may insist on another one, float32."""
    try:
        is_large = isinstance(answer, nn.Module) and _count(answer) > LARGE
        torch.set_default_dtype(torch.float32 if is_large else dtype)
        return _judged(answer, options), False
    except Mistake as mistake:
        needs_float32 = re.search("dtype|[Dd]ouble", str(mistake)) is not None
        return Judgement(False, str(mistake).splitlines()), needs_float32
    except Exception as error:  # outputs that cannot even be looked at
        why = f"{type(error).__name__}: {shortened(str(error), 100)}"
        return Judgement(False, [f"this model cannot be compared ({why})."]), False


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _judged(answer: Any, options: dict[str, Any]) -> Judgement:
    """The judgement without a representation_size; if that is right, also with one."""
    without = _compared(answer, options)
    if not without.passed or not without.takes_representation:
        return without
    first, *more = without.lines
    with_it = _compared(answer, options | {"representation_size": 7})
    if with_it.passed:
        return Judgement(True, [f"{first} The same with representation_size=7.", *more])
    first, *more = with_it.lines
    return Judgement(False, [f"right without representation_size; with it, {first}", *more])


def _compared(answer: Any, options: dict[str, Any]) -> Judgement:
    """Whether the model computes what ours does: in eval mode, its gradients, in train mode."""
    built = build(answer, options)
    inherited = _ours_below(built.model)
    if inherited:
        said = (
            f"this is a subclass of ours, {inherited}, or holds it: ours is compared with itself."
            " Write the class without it."
        )
        return Judgement(False, [said])
    trial, following = _best_trial(built, isinstance(answer, nn.Module))
    if not trial.able:
        return Judgement(False, [FOREIGN, *about_parameters(trial), *notes(trial)])
    lines = []
    if following and not following.is_known:
        lines = unexplained(following)
    elif trial.uncompared:
        lines = in_part(trial)
    if lines:
        return Judgement(False, [*lines, *_besides(trial, answer, options)])
    ours = trial.ours(trial.pictures)
    logits = trial.answers(trial.pictures)
    right, problem, many = _problem_elsewhere(trial, answer, options)
    more = notes(trial)
    places = dropout_places(answer, SIZES | options, trial)
    is_elsewhere = places not in ("", NO_DROPOUT)  # to have none is a choice
    if is_elsewhere and problem is None and has_our_names(trial):
        problem = f"right without dropout. {places}"
    elif places:
        more.insert(0, places)
    is_other = bool(mistakes(trial) or about_parameters(trial))
    if trial.drops:
        rest = f"Without it: {problem}" if problem else ALL_ELSE
        problem = trial.drops if is_other and not problem else f"{trial.drops} {rest}"
        right = ""
    if is_other:
        besides = [f"Besides: {problem}"] if problem else []
        first = following.first if following else ""
        return Judgement(False, [*explained(trial, first, besides), *more])
    if problem:
        return Judgement(False, [f"{right} {problem}".strip(), *more])
    said = _praise(ours, logits, len(trial.sources), trial.is_random)
    if many < MANY:
        said = f"{said} At most {many} pictures at once were tried, as the model is large."
    return Judgement(True, [said, *more], built.takes_representation)


def _besides(trial: Trial, answer: Any, options: dict[str, Any]) -> list[str]:
    """What is said where not everything could be compared: dropout, and notes."""
    lines = notes(trial)
    if trial.drops:
        lines.insert(0, f"Besides: {trial.drops}")
    if not (trial.is_random or trial.changes):
        lines.append(dropout_places(answer, SIZES | options, trial))
    return list(filter(None, lines))


def _best_trial(built: Built, is_built: bool) -> tuple[Trial, Following | None]:
    """The likeliest way to match the parameters, and what is found where the logits differ."""
    fresh = _our_model(built, is_built)
    able: list[Trial] = []
    unable: list[Trial] = []
    for trial in _trials(built, fresh):
        if not trial.able:
            unable.append(trial)
        elif trial.problem() is None:
            return trial, None
        else:
            able.append(trial)
    if not able:
        return unable[0], None
    best = able[0] if len(able) == 1 else max(able, key=Trial.depth)
    return best, Following(best)


def _problem_elsewhere(
    trial: Trial, answer: Any, options: dict[str, Any]
) -> tuple[str, str | None, int]:
    """What is wrong beyond the logits of four pictures.

    Returns:
        What is right, if nothing else is wrong; the problem, or None; the most pictures at once.
    """
    ours = trial.ours(trial.pictures)
    logits = trial.answers(trial.pictures)
    problem = _wrong_gradient(trial, ours, logits) or _frozen(trial)
    problem = problem or wrong_picture_gradient(trial)
    if problem:
        return "the logits are right, and a gradient is not.", problem, MANY
    problem, many = wrong_pictures(trial)
    if problem:
        return "the logits of 4 small pictures are right;", problem, many
    try:
        right, problem = _problem_in_training(trial, answer, options)
    except Mistake as mistake:
        right, problem = "right in eval mode;", f"in train mode, {mistake}"
    return right, problem, many


def _problem_in_training(
    trial: Trial, answer: Any, options: dict[str, Any]
) -> tuple[str, str | None]:
    """What is right, and what is wrong in train mode, at the start, or with other sizes."""
    no_dropout = {"dropout": 0.0, "attention_dropout": 0.0}
    sizes = SIZES | options
    model, _ = make(answer, sizes | no_dropout)
    trial.use(set_dropout(model, 0.0))
    problem = trial.problem(training=True)
    if problem and not trial.is_random:
        return "right in eval mode;", f"in train mode with dropout 0, {problem}"
    problem = ignored_dropout(answer, sizes, trial) or wrong_start(answer, sizes, trial)
    return "", problem or _wrong_otherwise(answer, options)


def _ours_below(model: nn.Module) -> str:
    """The name of the class of ours that a model inherits from, or holds as a whole; else empty."""
    if is_library(type(model)):
        return ""
    for base in type(model).__mro__:
        if is_library(base) and base.__module__.startswith("mnist_vit."):
            return base.__name__
    holds = any(isinstance(part, VisionTransformer) for part in model.modules())
    return VisionTransformer.__name__ if holds else ""


def _wrong_otherwise(answer: Any, options: dict[str, Any]) -> str | None:
    """A sentence if the model is wrong in float32, and with other sizes if it takes sizes.

    What a model is built with may be written into it, and everybody trains in float32.
    """
    if options or torch.get_default_dtype() != torch.float64:
        return None
    problem: str | None
    others = OTHERS if takes_sizes(answer) else {}
    torch.set_default_dtype(torch.float32)
    try:
        trial, following = _best_trial(build(answer, others), isinstance(answer, nn.Module))
        problem = "the parameters do not fit."
        if following and following.gave_up:  # nothing is known
            problem = None
        elif trial.able:
            problem = trial.problem()
    except Mistake as mistake:
        problem = str(mistake)
    finally:
        torch.set_default_dtype(torch.float64)
    if problem is None:
        return None
    told = f", built with {_listed(others)}" if others else ""
    return f"right in float64; in float32{told}: {problem}"


def _listed(sizes: dict[str, Any]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _our_model(built: Built, is_built: bool) -> nn.Module:
    """A model of ours with the sizes of theirs; of one that may be large only the shapes."""
    with torch.device("meta" if is_built else "cpu"):
        try:
            return VisionTransformer(**built.sizes)
        except ValueError as error:
            said = f"the sizes read off it make no Vision Transformer: {error}."
            if "patch_size" in str(error):
                said = f"{said}{_first_convolution(built.model)}"
            raise Mistake(f"{said}{built.given}") from None


def _first_convolution(model: nn.Module) -> str:
    """What the size of the patches was read off, if it is a convolution, behind a sentence."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 4:
            return (
                f" Its first convolution, {name}, is taken for the projection of the patches. One"
                " with other convolutions before the patches cannot be compared."
            )
    return ""


def _trials(built: Built, fresh: nn.Module) -> Iterator[Trial]:
    """One trial for each way to match the parameters, the likeliest first."""
    seen: list[Match] = []
    for late, layout in itertools.product((False, True), ("", CHANNELS_LAST, PLAIN_PRODUCT)):
        match = matched(fresh, built, late, layout)
        if match not in seen:
            seen.append(match)
            yield Trial(built, fresh, match)


def _wrong_gradient(trial: Trial, ours: Tensor, logits: Tensor) -> str | None:
    """The first gradient that differs from ours, as a sentence."""
    right = gradients(ours, **trial.parameters)
    our_gradients = {}
    for name, (_, gradient) in zip(trial.parameters, right, strict=True):
        our_gradients[name] = gradient
    named = trial.theirs.named_parameters()
    parameters = {name: parameter for name, parameter in named if name in trial.sources}
    for name in frozen(trial):
        parameters.pop(name, None)
    found = gradients(logits, **parameters)
    for (name, parameter), (what, gradient) in zip(parameters.items(), found, strict=True):
        if our_gradients[trial.sources[name].name] is None:
            continue  # ours does not use it either
        expected = trial.sources[name].take(our_gradients, parameter)
        problem = compare(what, gradient, expected, trial.tolerance)
        if problem:
            return problem
    return None


def _frozen(trial: Trial) -> str | None:
    """A sentence on parameters that are not learned; a position embedding is told elsewhere."""
    found = []
    for name in frozen(trial):
        source = trial.sources.get(name)
        if source is not None and source.name != POSITIONS:
            found.append(name)
    if not found:
        return None
    return f"{listed(found)}: requires_grad is False, so nothing is learned here."


def _praise(ours: Tensor, logits: Tensor, gradients: int, is_random: bool) -> str:
    """What was found equal, in a sentence."""
    difference = float((ours - logits).abs().max())
    equal = "equal to ours bit for bit"
    if difference > 0:
        equal = f"equal to ours (largest difference {difference:.1e})"
    mode = "train mode without dropout"
    if is_random:
        mode = "train mode not compared, as it is random with dropout 0"
    return f"correct: logits {equal}, {gradients} gradients, {mode}."
