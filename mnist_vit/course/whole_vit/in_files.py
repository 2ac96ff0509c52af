"""A Vision Transformer in a Python file: finds it, and compares it with ours."""

import re
import sys
from pathlib import Path
from typing import Any

from torch import nn

from mnist_vit.building import CLASS, names_in
from mnist_vit.errors import WeightsError
from mnist_vit.files import user_path

from ..observing.undisturbed import stoppable
from .judging import judge_vit

LIKELY = re.compile(r"vi_?t|vision_?transformer", re.IGNORECASE)


def vit_file(
    file: str | Path,
    name: str | None = None,
    *,
    image_size: int | None = None,
    in_channels: int | None = None,
    num_heads: int | None = None,
) -> bool:
    """Print what ``judge_vit`` says of a Vision Transformer in a file, which is run.

    Args:
        file: a Python file.
        name: the class in it, a function that builds the model, or the model.
        image_size, in_channels, num_heads: sizes, where they cannot be found.

    Returns:
        Whether it computes what ours does.

    Raises:
        WeightsError: the file cannot be run.
        ValueError: it has no such name, or several classes that can be meant.
    """
    answer = _answer(user_path(file), name)
    options: dict[str, Any] = {}
    sizes = {"image_size": image_size, "in_channels": in_channels, "num_heads": num_heads}
    for size, value in sizes.items():
        if value is not None:
            options[size] = value
    passed = False
    with stoppable("vit"):
        passed, lines = judge_vit(answer, **options)
        print("\n".join(lines))
    return passed


def _answer(path: Path, name: str | None) -> Any:
    """What is to be compared in a file."""
    # Its imports are found as where python runs it, or as in the folder where you are.
    folders = [str(path.resolve().parent), str(Path.cwd())]
    sys.path[:0] = folders
    try:
        names = names_in(path)
    except WeightsError as error:
        raise WeightsError(f"{error}{_whence(path, error.__cause__)}") from error.__cause__
    finally:
        for folder in folders:
            sys.path.remove(folder)
    if name is not None:
        if name not in names:
            raise ValueError(f"{path} has no name={name}")
        return names[name]
    classes = {}
    for own, value in names.items():
        is_class = isinstance(value, type) and issubclass(value, nn.Module)
        if is_class and value.__module__ == path.stem:
            classes[own] = value
    if CLASS in names:
        return names[CLASS]
    likely = [own for own in classes if LIKELY.search(own)] or list(classes)
    if not likely:
        raise ValueError(f"{path} has no class with nn.Module: name what builds the model, name=…")
    if len(likely) > 1:
        raise ValueError(f"{path} has {', '.join(likely)}: choose one, such as name={likely[-1]}")
    return classes[likely[0]]


def _whence(path: Path, cause: BaseException | None) -> str:
    """Where to run a file that imports a part of its own repository, behind a sentence."""
    if not isinstance(cause, ModuleNotFoundError) or not cause.name:
        return ""
    package = cause.name.partition(".")[0]
    for folder in path.resolve().parents:
        if (folder / package).is_dir() or (folder / f"{package}.py").is_file():
            return f". Run the command in {folder}, where {package} is"
    return f". {package} is neither installed nor beside the file"
