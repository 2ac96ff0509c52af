"""What four small pictures do not show: other pictures, dropout, and the values at the start."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mnist_vit.model import VisionTransformer

from ..checking import Mistake, random
from ..checking.comparing import compare
from .building import make
from .passing import drops, name_of
from .trial import Trial
from .values import LOGITS

MANY = 1030  # no multiple of 4, and more than anybody's batch
LARGE = 60  # the spread of large pictures: numbers beyond 255
WORK = 2e9  # numbers times parameters in one forward pass; a larger model gets fewer pictures
OURS = ("dropout", "attention_dropout")
DROPOUT = re.compile("drop|^p$|attn_p$")
TOKENS = "on the tokens"
PLACES = {"ln_1": "in the attention", "ln_2": "in the MLPs"}  # behind the norms of a block
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


def ignored_dropout(answer: Any, sizes: dict[str, Any], trial: Trial) -> str | None:
    """A sentence if a class takes probabilities of dropout, and does not do what ours does.

    Where the names of all parameters are ours, the logits are compared, with probability 1: no
    chance. Elsewhere each dropout must have an effect.
    """
    alike = trial.sources.keys() == trial.parameters.keys()
    names = _named_dropouts(answer)
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


def dropout_places(answer: Any, sizes: dict[str, Any], trial: Trial) -> str:
    """A sentence on where the dropout of a class does not act, and torchvision's does; else ""."""
    halves = dict.fromkeys(_named_dropouts(answer), 0.5)
    if not halves or trial.setting.edits:
        return ""
    model, _ = make(answer, sizes | halves)
    trial.use(model)
    watch = _Dropouts()
    handles = []
    for own, source in trial.sources.items():
        place = PLACES.get(source.name.rpartition(".")[0].rpartition(".")[2])
        if place and source.name.endswith("weight"):
            norm = model.get_submodule(own.rpartition(".")[0])
            handles.append(norm.register_forward_pre_hook(watch.enters(place)))
    try:
        with watch:
            trial.answers_in_training()
    finally:
        for handle in handles:
            handle.remove()
    lacking = [place for place in (TOKENS, *PLACES.values()) if place not in watch.found]
    if not watch.found or not lacking:
        return ""
    there = [place for place in (TOKENS, *PLACES.values()) if place in watch.found]
    return (
        f"Its dropout acts {' and '.join(there)}; torchvision's also acts {' and '.join(lacking)}."
    )


class _Dropouts(TorchFunctionMode):
    """Notes between which norms dropout acts."""

    def __init__(self) -> None:
        super().__init__()
        self.place = TOKENS
        self.found: set[str] = set()

    def enters(self, place: str) -> Callable[..., None]:
        """A forward pre-hook of the norm before this place."""

        def hook(module: nn.Module, args: Any) -> None:
            self.place = place

        return hook

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if drops(name_of(function), args, kwargs):
            self.found.add(self.place)
        return function(*args, **kwargs)


def _named_dropouts(answer: Any) -> list[str]:
    """The arguments of a class or function that are probabilities of dropout, by their names."""
    if isinstance(answer, nn.Module):
        return []
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return []
    found = []
    for name, parameter in parameters.items():
        is_number = parameter.default is parameter.empty or type(parameter.default) in (int, float)
        if is_number and DROPOUT.search(name):
            found.append(name)
    return found


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
