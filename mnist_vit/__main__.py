"""``python -m mnist_vit <command>``: the recipes' keywords as options; their defaults are read from the recipes."""

import argparse
import inspect
import os
import re
import sys
import typing
import warnings
from collections.abc import Callable
from typing import Any

from torch import OutOfMemoryError

from . import __version__, recipes
from .datasets import DATA_SETS
from .errors import DataError, WeightsError
from .files import say


def progress(folder: str, run: bool = False) -> None:
    """Print whose pieces are in the my_vit.py of each learner, a line for each file.

    Args:
        folder: with all files, or a folder for each.
        run: run their checks too: each file in a process of its own, but with your rights.
    """
    from .check import progress

    progress(folder, run)


COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": recipes.demo, "notebooks": recipes.copy_notebooks, "progress": progress, "evaluate": recipes.evaluate,
    "attention": recipes.visualize_attention, "predict": recipes.predict, "train": recipes.train,
}  # fmt: skip
IN_PYTHON_ONLY = ("transform", "classes")  # for models that no file describes


def main(arguments: list[str] | None = None) -> int:
    """Run one command; user errors print as one sentence on stderr, with exit code 2."""
    options = vars(_parser().parse_args(arguments))
    function = COMMANDS[options.pop("command")]
    warnings.showwarning = lambda message, *_: say(f"note: {message}", sys.stderr)
    try:
        function(**options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("mnist-vit: stopped; every file written so far is whole", sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 141  # what a shell calls it
    except (DataError, WeightsError, ValueError, IndexError, ImportError, OSError) as error:
        say(f"mnist-vit: {error}", sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:  # on a CPU torch raises the latter
        if not isinstance(error, MemoryError | OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        smaller = "a smaller --batch-size" if "batch_size" in options else "a model with larger patches"
        say(f"mnist-vit: out of memory: try {smaller} ({str(error).partition(chr(10))[0]})", sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mnist-vit", description="A Vision Transformer for handwritten digits: train "
                                     "it, measure it, and see what its attention heads look at.")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"mnist-vit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    described: dict[str, str] = {}  # what a recipe does not describe is as in the one before it
    for name, function in COMMANDS.items():
        text = inspect.getdoc(function) or ""
        first = text.partition("\n")[0]
        command = commands.add_parser(name, help=first, description=text.partition("\nArgs")[0])
        described |= dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE))
        for key, parameter in inspect.signature(function, eval_str=True).parameters.items():
            help_text = re.sub(r"\s+", " ", described[key]).replace("%", "%%")
            if key == "data":
                help_text += f"; data sets: {', '.join(DATA_SETS)}"
            if key not in IN_PYTHON_ONLY:
                _add_option(command, key, parameter, help_text)
    return parser


def _add_option(command: argparse.ArgumentParser, key: str, parameter: inspect.Parameter, help_text: str) -> None:
    """One keyword of a recipe as an option; the first ones, which may be given without a name, as arguments."""
    default = parameter.default
    if default is not None and default is not inspect.Parameter.empty and default is not False:
        help_text += f" (default {default})"
    if parameter.annotation is bool:
        command.add_argument(f"--{key.replace('_', '-')}", action="store_true", help=help_text)
        return
    kinds = typing.get_args(parameter.annotation) or [parameter.annotation]
    kind = next((kind for kind in kinds if kind in (int, float)), str)
    if parameter.default is inspect.Parameter.empty:
        command.add_argument(key, type=kind, help=help_text)
    elif key == "model":
        command.add_argument(key, type=kind, nargs="?", default=default, help=help_text)
    else:
        metavar = {int: "N", float: "X"}.get(kind, key.upper() if key != "root" else "FOLDER")
        command.add_argument(f"--{key.replace('_', '-')}", type=kind, default=default, help=help_text, metavar=metavar)


if __name__ == "__main__":
    sys.exit(main())
