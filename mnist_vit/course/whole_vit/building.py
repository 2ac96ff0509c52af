"""Builds other people's Vision Transformers, with their arguments by their own names."""

import copy
import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from mnist_vit.model import VisionTransformer

from ..checking import Mistake, describe
from .blocks import blocks_in, shapes_of
from .passing import Pass, flat
from .reading import NO_HEAD, needed_sizes, read_sizes, rms_norms
from .running import leave_out_head, run

SIZES = {
    "image_size": 12,
    "patch_size": 4,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 24,
    "mlp_dim": 48,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "num_classes": 5,
    "representation_size": None,
    "in_channels": 3,
}
OTHERS = {  # than SIZES
    "image_size": 20,
    "patch_size": 5,
    "num_layers": 3,
    "num_heads": 2,
    "hidden_dim": 20,
    "mlp_dim": 40,
    "num_classes": 7,
}
NAMES = {  # what others call torchvision's arguments
    "image_size": ("img_size", "pic_size", "img_dim", "input_size"),
    "num_layers": (
        "depth",
        "n_layers",
        "num_blocks",
        "num_encoder_layers",
        "num_transformer_layers",
    ),
    "num_heads": ("heads", "n_heads", "num_attention_heads"),
    "hidden_dim": (
        "dim",
        "embed_dim",
        "embedding_dim",
        "emb_dim",
        "emb_size",
        "embed_size",
        "hidden_size",
        "d_model",
    ),
    "mlp_dim": ("mlp_size", "mlp_hidden_dim"),
    "num_classes": ("n_classes",),
    "in_channels": ("in_chans", "channels", "num_channels", "n_channels"),
}
MOST = 6  # names that are listed
EPS = 1e-6  # of torchvision's norms
GIVEN_BY_NAME = (  # inspect's kinds of parameters that an argument can be given to
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


def listed(names: list[str]) -> str:
    """At most six names; of more than four, alike ones of other blocks are left out."""
    if len(names) <= 4:
        return ", ".join(names)
    first_of_kind: dict[str, str] = {}
    for name in names:
        first_of_kind.setdefault(re.sub(r"\d+", "", name), name)
    shown = list(first_of_kind.values())[:MOST]
    said = ", ".join(shown)
    more = len(names) - len(shown)
    return f"{said} and {more} more" if more else said


def joined(words: list[str]) -> str:
    """The words with commas, and "and" before the last."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@dataclass
class Built:
    """A model of theirs.

    Attributes:
        model: the model, in eval mode.
        sizes: the arguments for ours: given, or read off the model.
        seen: what a forward pass of it uses.
        takes_representation: whether it takes ``representation_size``.
        eps: the eps of its norms, by their paths. In the model they are set to EPS.
        rms_norms: the paths of modules that are RMSNorm, by what they compute.
        ignored: sentences on modules that torch does not know, and on sizes that it was given and
            has not; "" if there are none.
        given: a sentence on the arguments that it was given; "" if it was built before.
    """

    model: nn.Module
    sizes: dict[str, Any]
    seen: Pass
    takes_representation: bool
    eps: dict[str, float]
    rms_norms: set[str]
    ignored: str
    given: str


def make(answer: Any, sizes: dict[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
    """Build their model, or copy it if it is built.

    Returns:
        The model, in eval mode, and the arguments that it was given, by their own names.

    Raises:
        Mistake: there is no model.
    """
    model, given = _made(answer, sizes)
    if not isinstance(model, nn.Module):
        what = describe(model).partition(":")[0]
        raise Mistake(f"an nn.Module is needed, and this came back: {what}.")
    for name, parameter in model.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise Mistake(
                f"{name} has no shape yet, as a lazy layer gets it from the first pictures. Give a"
                " function that builds the model, calls it once with pictures, and returns it."
            )
    _register(model)
    return model.to(torch.get_default_dtype()).eval(), given


class Registered(nn.ModuleList):
    """Modules that stood in a plain list."""


def _register(model: nn.Module) -> None:
    """Let torch know the modules that stand in plain lists: else nothing can be given to them."""
    known = set(model.modules())
    for module in list(known):
        for name, value in list(vars(module).items()):
            if not isinstance(value, list | tuple) or not value:
                continue
            are_modules = all(isinstance(part, nn.Module) for part in value)
            if are_modules and known.isdisjoint(value):
                setattr(module, name, Registered(value))
                _register(getattr(module, name))


def _plain_lists(model: nn.Module) -> str:
    """A sentence on the modules that stood in plain lists; "" if none did."""
    found = [path for path, module in model.named_modules() if isinstance(module, Registered)]
    if not found:
        return ""
    are = "is a plain list" if len(found) == 1 else "are plain lists"
    return (
        f"{listed(found)} {are} of modules: torch does not know them, so that model.parameters(),"
        " eval() and to() do not reach them, and they are not trained. Use nn.ModuleList."
    )


def build(answer: Any, sizes: dict[str, Any]) -> Built:
    """Build their model, and find the sizes for ours.

    Raises:
        Mistake: there is no model, or one that is too far from a Vision Transformer.
    """
    for name, size in sizes.items():
        if name in OTHERS and type(size) is not int:
            raise Mistake(
                f"{name} must be a whole number, but is {size!r}. Pictures must be square."
            )
    model, given = make(answer, SIZES | sizes)
    told = _told(given, SIZES | sizes)
    ours = inspect.signature(VisionTransformer).parameters
    known = {}
    for name, size in (told | sizes).items():  # what the user says, also where it is no argument
        if name in ours and "dropout" not in name:
            known[name] = size
    if "num_layers" in told and not blocks_in(shapes_of(model), known["num_layers"]):
        del known["num_layers"]  # it may be ignored
    said = _said(answer, given)
    try:
        found, seen = read_sizes(model, known)
    except Mistake as mistake:
        raise Mistake(f"{mistake}{said}") from None
    lacking = needed_sizes(found)
    if "mlp_dim" in lacking and seen.order:
        raise Mistake(
            "this is no Vision Transformer that can be compared: in its forward pass there are no"
            " MLPs: neither pairs of matrices, of which the second takes just the numbers that the"
            " first gives, and makes them a token again, nor, as far as it is seen, one module in"
            " each of several blocks that holds all matrices but those of the attention, and takes"
            " tokens and gives tokens."
        )
    if lacking:
        call = ", ".join(f"{name}=…" for name in lacking)
        raise Mistake(
            f"{listed(lacking)} cannot be read off this model. Say it in the call:"
            f" check.vit(model, {call})."
        )
    leave_out_head(model, seen.head, found["hidden_dim"])
    if seen.head:
        found |= {"num_classes": NO_HEAD, "representation_size": None}
    are_rms = rms_norms(model, seen, found["hidden_dim"])
    takes = "representation_size" in given
    ignored = f"{_plain_lists(model)} {_ignored(given, found, seen.outputs)}".strip()
    return Built(model, found, seen, takes, set_eps(model), are_rms, ignored, said)


def _told(given: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a model was given, by torchvision's names."""
    told: dict[str, Any] = {}
    for own, name in _meanings(given).items():
        told.setdefault(name, given[own])
    if "mlp_ratio" in given:
        told.setdefault("mlp_dim", sizes["mlp_dim"])
    return told


def _ignored(given: dict[str, Any], found: dict[str, Any], outputs: int) -> str:
    """Sentences on sizes that a model was given and has not; "" if there are none.

    Each names the argument: the check may take it for something that it is not.
    """
    said = []
    for own, name in _meanings(given).items():
        if name not in ("mlp_dim", "num_layers", "num_classes") or given[own] == found[name]:
            continue
        was_given = f"It was given {own}={given[own]}"
        if name == "mlp_dim":
            said.append(f"{was_given} for the width of its MLPs, and they are {found[name]} wide.")
        elif name == "num_layers":
            said.append(f"{was_given} for the number of its blocks, and {found[name]} run.")
        elif found[name] == outputs:
            said.append(f"{was_given} for the number of classes, and gives {outputs} logits.")
    ratio = given.get("mlp_ratio")
    width = found["hidden_dim"]
    if ratio is not None and round(ratio * width) != found["mlp_dim"]:
        said.append(
            f"It was given mlp_ratio={ratio}, and its MLPs are {found['mlp_dim']} wide, where its"
            f" tokens have {width} numbers."
        )
    return " ".join(said)


def _said(answer: Any, given: dict[str, Any]) -> str:
    """The arguments that the check gave, as a sentence behind another one; "" if it gave none."""
    if given:
        call = ", ".join(f"{name}={value}" for name, value in given.items())
        return f" It was built with {call}."
    return " It was built without arguments." if isinstance(answer, type) else ""


def set_eps(model: nn.Module) -> dict[str, float]:
    """Set the eps of all norms to EPS; returns what it was, by the paths of the norms."""
    found = {}
    for path, module in model.named_modules():
        for name in ("eps", "epsilon", "variance_epsilon"):
            value = vars(module).get(name)
            if value is None and isinstance(module, nn.RMSNorm) and name == "eps":
                value = torch.finfo(torch.float32).eps  # torch's default, of the dtype
            if type(value) is float:
                found[path] = value
                setattr(module, name, EPS)
    return found


def _made(answer: Any, sizes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What a class or function makes, and the arguments that it was given."""
    if isinstance(answer, nn.Module):
        return run(_copied, answer), {}
    if not callable(answer):
        this = f"this is {describe(answer)}"
        if answer is None or answer is ...:
            this = "nothing was given"
        raise Mistake(f"a class, a function that builds a model, or a model is needed, and {this}.")
    named = _arguments(answer, sizes, use_options=False)
    if takes_options(answer) and not isinstance(answer, type):
        others = {name: size for name, size in sizes.items() if SIZES.get(name, ...) != size}
        given = others | named
        if OTHERS.keys().isdisjoint(_meanings(named).values()):
            with suppress(Mistake):  # such a function has sizes of its own, perhaps
                return run(answer, **given), given
    given = _arguments(answer, sizes, use_options=True)
    try:
        return run(answer, **given), given
    except Mistake as mistake:
        if "keyword argument" not in str(mistake):
            raise Mistake(f"{mistake}{_said(answer, given)}") from None
    # **options take something else than torchvision's arguments.
    given = _arguments(answer, sizes, use_options=False)
    return run(answer, **given), given


def _copied(model: nn.Module) -> nn.Module:
    """A copy of a model; tensors that it computed and keeps are copied without their graph."""
    known = {}
    for module in model.modules():
        for value in flat(vars(module)):
            if isinstance(value, Tensor) and not value.is_leaf:
                known[id(value)] = value.detach().clone()
    return copy.deepcopy(model, known)


def takes_sizes(answer: Any) -> bool:
    """Whether a class or function takes all sizes, by our names or others."""
    if isinstance(answer, nn.Module):
        return False
    try:
        known = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return False
    taken = set(_meanings(known).values())
    if "mlp_ratio" in known:
        taken.add("mlp_dim")
    if takes_options(answer):
        taken.add("num_classes")
    return OTHERS.keys() <= taken


def takes_options(answer: Callable) -> bool:
    """Whether a class or function takes **options."""
    try:
        parameters = inspect.signature(answer).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _meanings(names: Iterable[str]) -> dict[str, str]:
    """Torchvision's names of those arguments that have one, by their own names.

    Beside another name for the width of the tokens, ``hidden_dim`` is the width of the MLPs.
    """
    found = {}
    for own in names:
        for name in SIZES:
            if own == name or own in NAMES.get(name, ()):
                found[own] = name
    meant = list(found.values())
    if meant.count("hidden_dim") > 1 and "hidden_dim" in found and "mlp_dim" not in meant:
        found["hidden_dim"] = "mlp_dim"
    return found


def _arguments(answer: Callable, sizes: dict[str, Any], use_options: bool) -> dict[str, Any]:
    """The sizes that a class or function takes, by its own names.

    With ``use_options``, ``**options`` take the others too.
    """
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return sizes
    meanings = _meanings(parameters)
    known = {own: sizes[name] for own, name in meanings.items()}
    known["mlp_ratio"] = sizes["mlp_dim"] / sizes["hidden_dim"]
    known["dim_head"] = sizes["hidden_dim"] // sizes["num_heads"]
    known |= {own: size for own, size in sizes.items() if own not in SIZES}
    is_open = use_options and takes_options(answer)
    given = {own: known[own] for own in parameters if own in known}
    has_own_width = "hidden_dim" not in meanings.values() and not is_open
    if has_own_width and sizes["num_heads"] == SIZES["num_heads"]:
        for own in list(given):  # its width may not be divisible by our number of heads
            has_default = parameters[own].default is not inspect.Parameter.empty
            if meanings.get(own) == "num_heads" and has_default:
                del given[own]
    ratio = parameters.get("mlp_ratio")
    if ratio is not None and type(ratio.default) is not float and known["mlp_ratio"].is_integer():
        given["mlp_ratio"] = int(known["mlp_ratio"])
    for name, parameter in parameters.items():
        is_needed = parameter.default is parameter.empty and parameter.kind in GIVEN_BY_NAME
        if is_needed and name not in given:
            raise Mistake(
                f"its argument {name} is none of torchvision's: give a function that builds the"
                " model, check.vit(lambda: …), or a model that is built."
            )
    if is_open:
        for name, value in sizes.items():
            if name != "in_channels" and name not in meanings.values():
                given.setdefault(name, value)
    return given
