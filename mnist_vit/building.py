"""Builds models from a config: ours, or ``MyVisionTransformer`` from a Python file."""

import inspect
import re
import runpy
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .errors import WeightsError
from .files import read_file, user_path
from .model import VisionTransformer

__all__ = ["build_model", "build_own", "model_config", "names_in", "own_class", "tokens_of"]

CLASS = "MyVisionTransformer"
IN_PACKAGE = re.compile("relative import|is not a package")  # in an ImportError
NOT_STORED = ("norm_layer", "print_shapes")  # a function; and no property of the weights


def model_config(model: nn.Module) -> dict[str, Any]:
    """The keywords that build a Vision Transformer like this one.

    They are those of our constructor. torchvision's class has fewer; the others get our defaults.
    """
    read = {
        "num_layers": len(model.encoder.layers),
        "num_heads": model.encoder.layers[0].num_heads,
        "in_channels": model.conv_proj.in_channels,
    }
    config = {}
    for name, parameter in inspect.signature(VisionTransformer).parameters.items():
        if name in NOT_STORED:
            continue
        if name in read:
            config[name] = read[name]
        elif isinstance(model, VisionTransformer) or hasattr(model, name):
            config[name] = getattr(model, name)
        else:
            config[name] = parameter.default
    return config


def build_model(config: dict[str, Any], **options: Any) -> VisionTransformer:
    """The model of a config dict, newly initialised."""
    return VisionTransformer(**config | options)


def tokens_of(config: dict[str, Any]) -> int:
    """The number of tokens of a config's model, which is too large to build perhaps.

    A model with the same options and the smallest sizes has as many, and is built instead. Options
    that our class does not have are ignored.
    """
    known = inspect.signature(VisionTransformer).parameters
    narrow = {name: value for name, value in config.items() if name in known}
    narrow |= dict.fromkeys(("num_layers", "num_heads", "hidden_dim", "mlp_dim"), 1)
    narrow |= {"num_classes": 1, "representation_size": None, "in_channels": 1}
    with torch.random.fork_rng(devices=[]):
        return build_model(narrow).seq_length


def own_class(file: str | Path) -> type[nn.Module]:
    """Run a file, as an import does, and return its class; WeightsError if that fails."""
    found = names_in(file, ": the checks of the exercises write it").get(CLASS)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise WeightsError(f"{user_path(file)} has no class {CLASS}: notebook 06 builds it")
    return found


def names_in(file: str | Path, whence: str = "") -> dict[str, Any]:
    """Run a file, as an import does, and return what it defines, by name.

    Args:
        file: the Python file.
        whence: what is said of a file that is missing or empty.

    Raises:
        WeightsError: there is no such file, or it cannot be run.
    """
    path = user_path(file)
    if path.is_dir():
        raise WeightsError(f"{path} is a folder: name the Python file in it")
    if not path.is_file():
        raise WeightsError(f"there is no file {path}{whence}")
    try:
        empty = not read_file(path).strip()
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from error
    if empty:
        raise WeightsError(f"{path} is empty{whence}")
    try:
        return runpy.run_path(str(path), run_name=path.stem)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever is in the file
        at = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == str(path):
                at = f" (line {frame.lineno})"  # of the last one
        said = f"{path} cannot be run: {type(error).__name__}: {error}{at}"
        if isinstance(error, ImportError) and IN_PACKAGE.search(str(error)):
            said = f"{said}. It is part of a package: name a file that imports its class from there"
        raise WeightsError(said) from error


def build_own(file: str | Path, config: dict[str, Any]) -> nn.Module:
    """Build the file's model with these sizes, and set missing attributes.

    WeightsError if it cannot be built.
    """
    sizes = dict(config)
    if sizes.get("pool") == "token":  # the only way that the course's class has
        del sizes["pool"]
    made: Any = own_class(file)
    try:
        model = made(**sizes)
    except Exception as error:  # whatever its __init__ raises
        raise WeightsError(
            f"{CLASS} in {file} cannot be built with {', '.join(sizes)}: {error}"
        ) from error
    for key, size in sizes.items():
        if not hasattr(model, key):
            setattr(model, key, size)
    if made.__name__ == CLASS:  # else it is the package's class
        model.made_of = {"code": Path(file).name, "config": config}
    return model
