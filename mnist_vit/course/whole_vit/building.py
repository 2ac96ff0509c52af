"""Builds other people's Vision Transformers: their arguments by their own names, their sizes."""

import copy
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..checking import Mistake, describe
from ..checking.verdict import told

SIZES = {
    "image_size": 12,
    "patch_size": 4,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 18,
    "mlp_dim": 26,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "num_classes": 5,
    "representation_size": None,
}
NAMES = {  # what timm and lucidrains call torchvision's arguments
    "image_size": ("img_size",),
    "num_layers": ("depth",),
    "num_heads": ("heads",),
    "hidden_dim": ("dim", "embed_dim"),
    "in_channels": ("in_chans", "channels"),
}
# the sizes that must be given, or read off a model
NEEDED = (
    "image_size",
    "patch_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "mlp_dim",
    "num_classes",
)
GIVEN_BY_NAME = (  # inspect's kinds of parameters that an argument can be given to
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


def run(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call code of theirs. Raises Mistake, in a sentence, whatever it raises."""
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Mistake(f"{told(error)}.".replace("..", ".")) from None


def listed(names: list[str]) -> str:
    """At most four names, alike ones of other blocks left out."""
    first_of_kind: dict[str, str] = {}
    for name in names:
        first_of_kind.setdefault(re.sub(r"\d+", "", name), name)
    shown = list(first_of_kind.values())[:4]
    said = ", ".join(shown)
    more = len(names) - len(shown)
    return f"{said} and {more} more" if more else said


def build(answer: Any, sizes: dict[str, Any]) -> tuple[nn.Module, dict[str, Any], bool]:
    """Build their model, or copy it if it is built.

    Returns:
        The model, the sizes for ours (read off it where it takes no argument), and whether it
        takes ``representation_size``.

    Raises:
        Mistake: there is no model, or one that is too far from a Vision Transformer.
    """
    model, given = _made(answer, sizes)
    if not isinstance(model, nn.Module):
        what = describe(model).partition(":")[0]
        raise Mistake(f"an nn.Module is needed, and this came back: {what}.")
    found: dict[str, Any] = dict(_read_sizes(model))
    for name in sizes:
        for own in _spellings(name):
            if own in given:
                found[name] = given[own]
    for name in [name for name in found if "dropout" in name]:
        del found[name]
    lacking = [name for name in NEEDED if name not in found]
    if lacking:
        raise Mistake(
            f"{listed(lacking)} cannot be read off this model: give a class or function that takes"
            " them."
        )
    model = model.to(torch.get_default_dtype()).eval()
    return model, found, "representation_size" in given


def _made(answer: Any, sizes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What a class or function makes, and the arguments that it was given."""
    if isinstance(answer, nn.Module):
        return run(copy.deepcopy, answer), {}
    if not callable(answer):
        this = f"this is {describe(answer)}"
        if answer is None or answer is ...:
            this = "nothing was given"
        raise Mistake(f"a class, a function that builds a model, or a model is needed, and {this}.")
    given = _arguments(answer, sizes, use_options=True)
    try:
        return run(answer, **given), given
    except Mistake as mistake:
        if "keyword argument" not in str(mistake):
            raise
    # **options take something else than torchvision's arguments.
    given = _arguments(answer, sizes, use_options=False)
    return run(answer, **given), given


def takes_sizes(answer: Any) -> bool:
    """Whether a class or function takes all sizes, by our names or others."""
    if isinstance(answer, nn.Module):
        return False
    try:
        known = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return False
    others = {"num_classes"}  # may be left to **options
    if "mlp_ratio" in known:
        others.add("mlp_dim")
    for name in NEEDED:
        if name not in others and known.keys().isdisjoint(_spellings(name)):
            return False
    return True


def _spellings(name: str) -> tuple[str, ...]:
    return (name, *NAMES.get(name, ()))


def _arguments(answer: Callable, sizes: dict[str, Any], use_options: bool) -> dict[str, Any]:
    """The sizes that a class or function takes, by its own names.

    With ``use_options``, ``**options`` take the others too.
    """
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return sizes
    known = {
        **sizes,
        "in_channels": 3,
        "mlp_ratio": sizes["mlp_dim"] / sizes["hidden_dim"],
        "dim_head": sizes["hidden_dim"] // sizes["num_heads"],
    }
    given = {}
    for name, value in known.items():
        for own in _spellings(name):
            if own in parameters:
                given[own] = value
    for name, parameter in parameters.items():
        is_needed = parameter.default is parameter.empty and parameter.kind in GIVEN_BY_NAME
        if is_needed and name not in given:
            raise Mistake(
                f"its argument {name} is none of torchvision's: give a function that builds the"
                " model, check.vit(lambda: …), or a model that is built."
            )
    takes_options = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    if use_options and takes_options:
        for name, value in sizes.items():
            if given.keys().isdisjoint(_spellings(name)):
                given[name] = value
    return given


def _read_sizes(model: nn.Module) -> dict[str, int]:
    """The sizes of a model, from parameters' shapes or attributes with torchvision's names."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found: dict[str, int] = {}
    found |= _sizes_of_patches(shapes)
    found |= _sizes_of_layers(shapes, found.get("hidden_dim"))
    for module in reversed(list(model.modules())):
        names = (*SIZES, "in_channels") if module is model else ("num_heads",)
        for name in names:
            value = getattr(module, name, None)
            if type(value) is int:
                found[name] = value
    return found


def _matrices(shapes: dict[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [shape for name, shape in shapes.items() if len(shape) == 2 and "pos" not in name]


def _sizes_of_patches(shapes: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Sizes from the projection of the patches and from the position embedding."""
    found: dict[str, int] = {}
    convolutions = [shape for shape in shapes.values() if len(shape) == 4]
    matrices = _matrices(shapes)
    if convolutions:
        hidden_dim, in_channels, patch_size, _ = convolutions[0]
        found = {"hidden_dim": hidden_dim, "in_channels": in_channels, "patch_size": patch_size}
    elif matrices:
        hidden_dim, numbers = matrices[0]
        patch_size = math.isqrt(numbers // 3)
        found = {"hidden_dim": hidden_dim, "in_channels": 3, "patch_size": patch_size}
    for name, shape in shapes.items():
        if "pos" in name and len(shape) > 1:
            found["image_size"] = math.isqrt(shape[-2]) * found.get("patch_size", 1)
    return found


def _sizes_of_layers(shapes: dict[str, tuple[int, ...]], hidden_dim: int | None) -> dict[str, int]:
    """Sizes from the MLPs, pairs of matrices that widen and narrow again, and the last matrix."""
    matrices = _matrices(shapes)
    widths = list(_mlp_widths(matrices, hidden_dim))
    if not widths:
        return {}
    num_classes, width = matrices[-1]
    found = {"num_layers": len(widths), "mlp_dim": widths[0], "num_classes": num_classes}
    if width != hidden_dim:
        found["representation_size"] = width
    return found


def _mlp_widths(matrices: list[tuple[int, ...]], hidden_dim: int | None) -> Iterator[int]:
    for first, second in itertools.pairwise(matrices):
        mlp_dim, width = first
        if second == (width, mlp_dim) and width == hidden_dim and mlp_dim != width:
            yield mlp_dim
