"""Where other people's dropout acts, and which arguments switch it on."""

import inspect
import re
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from ..checking import Mistake
from .building import joined, make
from .passing import ACTIVATIONS, DRAWN, DROPOUTS, drops, flat, has_dropout, name_of, tensors_of
from .trial import Trial

DROPOUT = re.compile("drop|^p$|(attn|attention|proj|projection|mlp|emb|path)_p$")
NO_DROPOUT = "It has no dropout."
HALF = 0.5
TOKENS = "on the tokens"
WEIGHTS = "on the attention weights"
ATTENTION = "behind the attention"
HIDDEN = "behind the MLPs' activation"
MLPS = "behind the MLPs"
PLACES = (TOKENS, WEIGHTS, ATTENTION, HIDDEN, MLPS)
PARTS = {  # the parts of ours between which dropout acts, by the names of their parameters
    "in_proj": "queries, keys and values",
    "out_proj": "output projection",
    r"mlp\.0": "first layer",
    r"mlp\.3": "second layer",
    r"^encoder\.ln|pre_logits": "last norm",
    r"heads\.head": "head",
}
BEHIND = {  # the places of dropout that follows these parts
    "output projection": ATTENTION,
    "first layer": HIDDEN,
    "activation": HIDDEN,
    "second layer": MLPS,
}
IN_BLOCKS = {"queries, keys and values", "first layer", "second layer"}


def dropout_places(answer: Any, sizes: dict[str, Any], trial: Trial) -> str:
    """What is other about where their dropout acts, in sentences; "" if nothing is.

    A model whose dropout has no argument may have been built with probability 0: all places count
    where it has dropout of any probability.
    """
    names = named_dropouts(answer)
    try:
        model, _ = make(answer, sizes | dict.fromkeys(names, HALF))
        without, _ = make(answer, sizes | dict.fromkeys(names, 0.0))
    except Mistake:  # these are no probabilities there
        return ""
    if not names:
        set_dropout(model, HALF)
    trial.use(model)
    watch = _Dropouts(_parts_by_tensor(trial), counts_zero=not names)
    pictures = trial.pictures
    trial.theirs.train()
    with watch:
        trial.answers(pictures)
    if watch.is_none:
        return "" if names else NO_DROPOUT
    said = watch.said()
    if isinstance(answer, type) or names:
        said += _fixed(without, _other_numbers(answer, names))
    return " ".join(said)


def set_dropout(model: nn.Module, probability: float) -> nn.Module:
    """Give all dropout of a model this probability; returns the model."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = probability
        for name, value in list(vars(module).items()):
            if "drop" in name and type(value) in (int, float):
                setattr(module, name, probability)
    return model


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


def _parts_by_tensor(trial: Trial) -> dict[int, str]:
    """The part of PARTS that each of their tensors belongs to, by its id."""
    tensors = tensors_of(trial.theirs)
    found = {}
    for own, source in trial.sources.items():
        for pattern, part in PARTS.items():
            if re.search(pattern, source.name):
                found[id(tensors[own])] = part
    return found


class _Dropouts(TorchFunctionMode):
    """Notes between which parts dropout acts.

    Attributes:
        parts: the part of each tensor, by its id.
        counts_zero: whether a call with probability 0 counts.
        found: the places of dropout.
        is_early: whether it acts before the activation of an MLP.
        is_late: whether it acts behind the last norm, before the head.
        is_last: whether it acts on the logits.
        draws: whether other random numbers are drawn, which may be dropout by hand.
    """

    def __init__(self, parts: dict[int, str], counts_zero: bool) -> None:
        super().__init__()
        self.parts = parts
        self.counts_zero = counts_zero
        self.part = ""
        self.found: set[str] = set()
        self.is_early = False
        self.is_late = False
        self.is_last = False
        self.draws = False
        self.dropped = False  # since the last part began

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(function)
        if name != "get":
            for value in flat([args, kwargs]):
                base = getattr(value, "_base", None)
                part = self.parts.get(id(value)) or self.parts.get(id(base))
                if part:
                    self.part = part
                    self.dropped = False
        if name in ACTIVATIONS and self.part == "first layer":
            if self.dropped:
                self.is_early = True
                self.found.discard(HIDDEN)
            self.part = "activation"
        counts = has_dropout if self.counts_zero else drops
        if counts(name, args, kwargs):
            self._note(name, args)
        self.draws = self.draws or name in DRAWN
        return function(*args, **kwargs)

    def _note(self, name: str, args: tuple) -> None:
        """Note a call that drops numbers."""
        self.dropped = True
        is_square = args[0].shape[-1:] == args[0].shape[-2:-1]
        if name not in DROPOUTS:  # a whole attention
            self.found.add(WEIGHTS)
        elif self.part == "queries, keys and values":
            self.found.add(WEIGHTS if is_square else ATTENTION)
        elif self.part == "last norm":
            self.is_late = True
        elif self.part == "head":
            self.is_last = True
        else:
            self.found.add(BEHIND.get(self.part, TOKENS))

    def said(self) -> list[str]:
        """What is other than in ours, in sentences."""
        if not set(self.parts.values()) >= IN_BLOCKS:
            if not self.found:
                return []
            return ["Where its dropout acts was not compared, as its blocks have other parts."]
        there = [place for place in PLACES if place in self.found]
        lacking = [place for place in PLACES if place not in self.found]
        if self.is_early and HIDDEN in lacking:
            lacking.remove(HIDDEN)
        said = []
        if there and lacking:
            theirs, ours = "Its dropout acts", "torchvision's also acts"
            if self.counts_zero:
                theirs, ours = "As built, it has dropout", "torchvision's is also"
            said.append(f"{theirs} {joined(there)}; {ours} {joined(lacking)}.")
        if self.is_early:
            said.append(
                "In its MLPs dropout acts before the activation; torchvision's acts behind it."
            )
        if self.is_late:
            said.append(
                "It has dropout behind the last norm, before the head; torchvision's has none."
            )
        if self.is_last:
            said.append("It has dropout on the logits; torchvision's has none.")
        return said

    @property
    def is_none(self) -> bool:
        """Whether there is no dropout at all."""
        return not (self.found or self.is_early or self.is_late or self.is_last or self.draws)


def named_dropouts(answer: Any) -> list[str]:
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
