"""Where other people's dropout acts, and which arguments switch it on."""

import inspect
import re
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from ..checking import Mistake
from .building import joined, listed, make, takes_options
from .passing import ACTIVATIONS, DRAWN, DROPOUTS, dropout_of, flat, name_of, tensors_of
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
    r"^encoder\.ln": "last norm",
    "pre_logits": "pre_logits",
    r"heads\.head": "head",
}
BEHIND = {  # the places of dropout that follows these parts
    "output projection": ATTENTION,
    "first layer": HIDDEN,
    "activation": HIDDEN,
    "second layer": MLPS,
}
LAYERS_OF_HEAD = "head's layers"  # of a head that is left out
BEHIND_BLOCKS = ("last norm", "pre_logits", "head", LAYERS_OF_HEAD)  # there torchvision's has none
IN_BLOCKS = {"queries, keys and values", "first layer", "second layer"}


def dropout_places(answer: Any, sizes: dict[str, Any], trial: Trial) -> str:
    """What is other about where their dropout acts, in sentences; "" if nothing is.

    A model whose dropout has no argument may have been built with probability 0: such places are
    told apart from those without dropout.
    """
    names = named_dropouts(answer)
    given = names
    if not names and takes_options(answer):  # they may be handed on
        given = ["dropout", "attention_dropout"]
    try:
        model, _ = make(answer, sizes | dict.fromkeys(given, HALF))
        without, _ = make(answer, sizes | dict.fromkeys(given, 0.0))
        watch = _watched(trial, model)
    except Mistake:  # these are no probabilities there, or it fails with them
        return ""
    said = watch.said(is_built=not names)
    if isinstance(answer, type) or names:
        said += _fixed(without, _other_numbers(answer, names))
    drawn = watch.drawn - trial.seen.drawn
    if drawn:
        said.append(f"In train mode it draws other random numbers, too ({min(drawn)}).")
    if watch.is_none and not names and not said:
        return NO_DROPOUT
    return " ".join(said)


def _watched(trial: Trial, model: nn.Module) -> "_Dropouts":
    """Watch one pass of a model in train mode."""
    trial.use(model)
    watch = _Dropouts(_parts_by_tensor(trial))
    pictures = trial.pictures
    trial.theirs.train()
    with watch:
        trial.answers(pictures)
    return watch


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
    """Sentences on dropout that no argument switches off.

    ``others`` are the defaults of arguments of other names: one may be that of this dropout.
    """
    found: dict[float, list[str]] = {}
    for path, module in model.named_modules():
        probability = 0.0
        if isinstance(module, nn.modules.dropout._DropoutNd):
            probability = module.p
        elif isinstance(module, nn.MultiheadAttention):
            probability = module.dropout
        if probability > 0 and probability not in others:
            found.setdefault(probability, []).append(path)
    said = []
    for probability, paths in found.items():
        said.append(
            f"No argument switches off the dropout of {listed(paths)}, p = {probability:g}."
        )
    return said


def _parts_by_tensor(trial: Trial) -> dict[int, str]:
    """The part of PARTS that each of their tensors belongs to, by its id."""
    tensors = tensors_of(trial.theirs)
    found = {}
    for own, source in trial.sources.items():
        for pattern, part in PARTS.items():
            if re.search(pattern, source.name):
                found[id(tensors[own])] = part
    for own in trial.seen.head:
        found[id(tensors[own])] = LAYERS_OF_HEAD
    return found


class _Dropouts(TorchFunctionMode):
    """Notes between which parts dropout acts.

    Attributes:
        parts: the part of each tensor, by its id.
        found: the places of dropout.
        idle: the places of dropout with probability 0.
        twice: the places where it acts twice in a row.
        is_early: whether it acts before the activation of an MLP.
        drawn: functions that draw other random numbers, which may be dropout by hand.
    """

    def __init__(self, parts: dict[int, str]) -> None:
        super().__init__()
        self.parts = parts
        self.part = ""
        self.found: set[str] = set()
        self.idle: set[str] = set()
        self.twice: set[str] = set()
        self.is_early = False
        self.drawn: set[str] = set()
        self.here: list[str] = []  # places of dropout since the last part began

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
                    self._begin(part)
        if name in ACTIVATIONS and self.part == "first layer":
            if self.here:
                self.is_early = True
                self.found.discard(HIDDEN)
            self._begin("activation")
        probability = dropout_of(name, args, kwargs)
        if probability:
            self._note(name, args)
        elif probability is not None:
            self.idle.add(self._place(name, args))
        if name in DRAWN:
            self.drawn.add(name)
        return function(*args, **kwargs)

    def _begin(self, part: str) -> None:
        self.part = part
        self.here = []

    def _place(self, name: str, args: tuple) -> str:
        """The place of dropout that is called now: of PLACES, or where ours has none."""
        if name not in DROPOUTS:  # a whole attention
            return WEIGHTS
        if self.part == "queries, keys and values":
            is_square = args[0].shape[-1:] == args[0].shape[-2:-1]
            return WEIGHTS if is_square else ATTENTION
        if self.part in BEHIND_BLOCKS:
            return f"behind the {self.part}"
        return BEHIND.get(self.part, TOKENS)

    def _note(self, name: str, args: tuple) -> None:
        """Note a call that drops numbers."""
        place = self._place(name, args)
        if place in self.here and place in BEHIND.values():
            self.twice.add(place)
        self.here.append(place)
        self.found.add(place)

    def said(self, is_built: bool) -> list[str]:
        """What is other than in ours, in sentences; "as built" if it has no arguments for it."""
        there = [place for place in PLACES if place in self.found]
        idle = [place for place in PLACES if place in self.idle - self.found and is_built]
        if IN_BLOCKS - set(self.parts.values()):
            if not there:
                return []
            return ["Where its dropout acts was not compared, as its blocks have other parts."]
        lacking = [place for place in PLACES if place not in (*there, *idle)]
        if self.is_early and HIDDEN in lacking:
            lacking.remove(HIDDEN)
        said = []
        if there or idle:
            said += _compared(there, idle, lacking, is_built)
        for place in sorted(self.twice):
            said.append(f"Dropout acts twice in a row {place}.")
        if self.is_early:
            said.append(
                "In its MLPs dropout acts before the activation; torchvision's acts behind it."
            )
        for place in sorted(self.found - set(PLACES)):
            said.append(f"It has dropout {place}; torchvision's has none there.")
        for place in sorted(self.idle - self.found - set(PLACES)):
            if is_built:
                said.append(
                    f"It has dropout {place}, with probability 0; torchvision's has none there."
                )
        return said

    @property
    def is_none(self) -> bool:
        """Whether there is no dropout at all."""
        return not (self.found or self.idle or self.drawn or self.is_early)


def _compared(there: list[str], idle: list[str], lacking: list[str], is_built: bool) -> list[str]:
    """The places of dropout beside ours, in a sentence; none if no place is lacking."""
    if not lacking:
        return []
    if not is_built:
        return [f"Its dropout acts {joined(there)}; torchvision's also acts {joined(lacking)}."]
    has = []
    if there:
        has.append(joined(there))
    if idle:
        has.append(f"with probability 0 {joined(idle)}")
    said = ", and ".join(has)
    return [f"As built, it has dropout {said}; torchvision's is also {joined(lacking)}."]


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
