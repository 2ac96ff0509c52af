"""What four small pictures do not show: other pictures, dropout, and the values at the start."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mnist_vit.model import VisionTransformer

from ..checking import Mistake, random
from ..checking.comparing import compare
from .building import make
from .passing import ACTIVATIONS, drops, flat, name_of, tensors_of
from .slips import changes_blocks
from .trial import Trial
from .values import LOGITS

MANY = 1030  # no multiple of 4, and more than anybody's batch
LARGE = 60  # the spread of large pictures: numbers beyond 255
WORK = 2e9  # numbers times parameters in one forward pass; a larger model gets fewer pictures
OURS = ("dropout", "attention_dropout")
DROPOUT = re.compile("drop|^p$|(attn|attention|proj|projection|mlp|emb|path)_p$")
TOKENS = "on the tokens"
WEIGHTS = "on the attention weights"
ATTENTION = "behind the attention"
MLPS = "in the MLPs"
PLACES = (TOKENS, WEIGHTS, ATTENTION, MLPS)
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
    """What is other about where their dropout acts, in sentences; "" if nothing is.

    Of a model whose dropout has no argument the places that it lacks are not told: it may be 0.
    """
    names = _named_dropouts(answer)
    try:
        model, _ = make(answer, sizes | dict.fromkeys(names, 0.5))
        without, _ = make(answer, sizes | dict.fromkeys(names, 0.0))
    except Mistake:  # these are no probabilities there
        return ""
    trial.use(model)
    watch = _Dropouts(_parts_by_tensor(trial))
    norms = {"ln_1", "ln_2"}
    is_seen = norms <= set(watch.parts.values()) and not _changes_blocks(trial)
    if is_seen:
        with watch:
            trial.answers_in_training()
    said = []
    there = [place for place in PLACES if place in watch.found]
    lacking = [place for place in PLACES if place not in watch.found]
    if names and there and lacking:
        said.append(
            f"Its dropout acts {_joined(there)}; torchvision's also acts {_joined(lacking)}."
        )
    if watch.is_early:
        said.append("In its MLPs dropout acts before the activation; torchvision's acts behind it.")
    if watch.is_late:
        said.append("It has dropout behind the last norm, before the head; torchvision's has none.")
    if isinstance(answer, type) or names:
        said += _fixed(without, _other_numbers(answer, names))
    return " ".join(said)


def _fixed(model: nn.Module, others: set[float]) -> list[str]:
    """A sentence on a dropout that no argument switches off.

    ``others`` are the defaults of arguments of other names: one may be that of this dropout.
    """
    for path, module in model.named_modules():
        if not isinstance(module, nn.modules.dropout._DropoutNd) or module.p in others:
            continue
        if module.p > 0:
            return [f"No argument switches off the dropout of {path}, p = {module.p:g}."]
    return []


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _parts_by_tensor(trial: Trial) -> dict[int, str]:
    """The parts of ours that their tensors belong to: ln_1, ln_2, mlp or behind."""
    tensors = tensors_of(trial.theirs)
    found = {}
    for own, source in trial.sources.items():
        match = re.search(r"ln_1|ln_2|mlp|^encoder\.ln|^heads", source.name)
        if match:
            name = match[0]
            found[id(tensors[own])] = name if "_" in name or name == "mlp" else "behind"
    return found


def _changes_blocks(trial: Trial) -> bool:
    """Whether the blocks compute something in another order than ours."""
    return any(map(changes_blocks, trial.setting.edits))


class _Dropouts(TorchFunctionMode):
    """Notes between which parts dropout acts.

    Attributes:
        parts: the part of each tensor, by its id.
        found: the places of dropout.
        is_early: whether it acts before the activation of an MLP.
        is_late: whether it acts behind the last norm.
    """

    def __init__(self, parts: dict[int, str]) -> None:
        super().__init__()
        self.parts = parts
        self.part = ""
        self.found: set[str] = set()
        self.is_early = False
        self.is_late = False
        self.dropped = False  # since the last part began

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(function)
        if name != "get":
            for value in flat([args, kwargs]):
                self._enter(self.parts.get(id(value), ""))
        if name in ACTIVATIONS and self.part == "mlp" and self.dropped:
            self.is_early = True
        if drops(name, args, kwargs):
            self._note(name, args)
        return function(*args, **kwargs)

    def _enter(self, part: str) -> None:
        if part:
            self.part = part
            self.dropped = False

    def _note(self, name: str, args: tuple) -> None:
        """Note a call that drops numbers."""
        self.dropped = True
        if self.part == "behind":
            self.is_late = True
        elif self.part in ("ln_2", "mlp"):
            self.found.add(MLPS)
        elif self.part == "ln_1":
            is_square = args[0].shape[-1:] == args[0].shape[-2:-1]
            self.found.add(WEIGHTS if name != "dropout" or is_square else ATTENTION)
        else:
            self.found.add(TOKENS)


def _named_dropouts(answer: Any) -> list[str]:
    """The arguments of a class or function that are probabilities of dropout, by their names."""
    found = []
    for name, default in _defaults(answer).items():
        is_number = default is inspect.Parameter.empty or type(default) in (int, float)
        if is_number and DROPOUT.search(name):
            found.append(name)
    return found


def _other_numbers(answer: Any, names: list[str]) -> set[float]:
    """The defaults of the arguments of a class or function without these."""
    found = set()
    for name, default in _defaults(answer).items():
        if type(default) is float and name not in names:
            found.add(default)
    return found


def _defaults(answer: Any) -> dict[str, Any]:
    """The defaults of the arguments of a class or function, by name."""
    if isinstance(answer, nn.Module):
        return {}
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return {}
    return {name: parameter.default for name, parameter in parameters.items()}


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
