"""What four small pictures do not show: other pictures, dropout, and the values at the start."""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Mistake, random
from ..checking.comparing import compare
from .building import make
from .dropouts import named_dropouts
from .trial import Trial
from .values import LOGITS

MANY = 1030  # no multiple of 4, and more than anybody's batch
LARGE = 60  # the spread of large pictures: numbers beyond 255
WORK = 2e9  # numbers times parameters in one forward pass; a larger model gets fewer pictures
OURS = ("dropout", "attention_dropout")
FAR = 1000  # a spread that is so many times ours, or so many times smaller, cannot be learned from


def wrong_pictures(trial: Trial) -> tuple[str | None, int]:
    """How the logits of other pictures differ, as a sentence, and the most pictures at once."""
    trial.load()
    trial.theirs.eval()
    size = sum(parameter.numel() for parameter in trial.parameters.values())
    many = max(5, min(MANY, int(WORK / (size * trial.ours.seq_length))))
    for what, pictures, grad in _pictures(trial, many):
        with torch.set_grad_enabled(grad):
            expected = trial.ours(pictures)
            try:
                got = trial.answers(pictures.clone())
            except Exception as mistake:
                return f"{what}: {mistake}", many
        problem = compare(LOGITS, got, expected, trial.tolerance)
        if problem is not None:
            return f"{what}: {problem}", many
    return None, many


def _pictures(trial: Trial, many: int) -> Iterator[tuple[str, Tensor, bool]]:
    """Other pictures, each with its words, and whether gradients are wanted."""
    small = trial.pictures
    yield "1 picture alone", small[:1], True
    yield "as many other pictures", -small, True
    yield "under torch.no_grad()", small, False
    yield "pictures of large numbers", LARGE / 0.05 * small, True
    shape = (many, *small.shape[1:])
    yield f"{many} pictures at once", random(*shape, seed=5, dtype=small.dtype), False


def wrong_picture_gradient(trial: Trial) -> str | None:
    """How the gradient of the pictures differs, as a sentence."""
    trial.load()
    trial.theirs.eval()
    found: list[Tensor | None] = []
    for model in (trial.ours, trial.answers):
        pictures = trial.pictures.requires_grad_()
        logits = model(pictures)
        weights = random(*logits.shape, seed=99, dtype=logits.dtype)
        flows = logits.requires_grad
        total = (logits * weights).sum()
        found += torch.autograd.grad(total, [pictures], allow_unused=True) if flows else [None]
    return compare("gradient of the pictures", found[1], found[0], trial.tolerance)


def has_our_names(trial: Trial) -> bool:
    """Whether all parameters have the names of ours."""
    return trial.sources.keys() == trial.parameters.keys()


def ignored_dropout(answer: Any, sizes: dict[str, Any], trial: Trial) -> str | None:
    """A sentence if a class takes probabilities of dropout, and does not do what ours does.

    Where the names of all parameters are ours, the logits are compared, with probability 1: no
    chance. Elsewhere each dropout must have an effect.
    """
    alike = has_our_names(trial)
    names = named_dropouts(answer)
    for name in names:
        options = dict.fromkeys(names, 0.0) | {name: 1.0}
        try:
            model, _ = make(answer, sizes | options)
        except Mistake:  # 1 is no probability there
            continue
        trial.use(model)
        got = trial.answers_in_training()
        if alike and name in OURS:
            expected = trial.ours_with(dict.fromkeys(OURS, 0.0) | {name: 1.0})
            problem = compare(LOGITS, got, expected, trial.tolerance)
            if problem:
                return f"with {name}=1, in train mode, {problem}"
        if compare(LOGITS, got, trial.ours(trial.pictures), trial.tolerance) is None:
            return f"it takes {name}, and {name}=1 changes nothing in train mode."
    return None


def wrong_start(answer: Any, sizes: dict[str, Any], trial: Trial) -> str | None:
    """A sentence if a matrix starts so that nothing can be learned from it.

    Start values are free but for that; those of a model that is built are not looked at.
    """
    if isinstance(answer, nn.Module):
        return None
    model, _ = make(answer, sizes)
    fresh = dict(model.named_parameters())
    ours = dict(VisionTransformer(**dict(trial.setting.sizes)).named_parameters())
    for name, source in trial.sources.items():
        if name not in fresh or fresh[name].dim() < 2 or re.search("token|pos", source.name):
            continue
        usual = source.take(ours, fresh[name]).std(correction=0).item()
        spread = fresh[name].detach().std(correction=0).item()
        if usual and not 1 / FAR < spread / usual < FAR:
            return (
                f"it computes what ours does, but {name} starts with a spread of {spread:.2g}"
                f" (ours: {usual:.2g}): nothing is learned from such start values."
            )
    return None
