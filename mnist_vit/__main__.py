"""``python -m mnist_vit <command>``: the recipes' keywords as options.

Names, types, defaults and help are read from the source of the functions, which are imported only to be called: the
help needs no torch.
"""

import argparse
import ast
import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection
from typing import Any

from . import __version__
from .errors import DataError, WeightsError, nearest, unknown
from .files import PACKAGE, say, shipped


def progress(folder: str, run: bool = False) -> None:
    """Print whose pieces are in the my_vit.py of each learner, a line for each file.

    Args:
        folder: with all files, or a folder for each.
        run: run their checks too: each file in a process of its own, but with your rights.
    """
    from .check import progress

    progress(folder, run)


COMMANDS = {  # the module and name of what each calls
    "demo": "recipes.demo", "notebooks": "files.copy_notebooks", "progress": "__main__.progress",
    "evaluate": "recipes.evaluate", "attention": "recipes.visualize_attention", "predict": "recipes.predict",
    "train": "recipes.train",
}  # fmt: skip
IN_PYTHON_ONLY = ("transform", "classes")  # for models that no file describes
OPEN = ("model", "data")  # beside the names that are listed, a path may be given
FOLDERS = ("root", "out", "run_dir")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; user errors print as one sentence on stderr, with exit code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    options = _parse(words)
    command = options.pop("command")
    warnings.showwarning = lambda message, *_: say(f"note: {_spoken(str(message), options)}", sys.stderr)
    try:
        function(command)(**options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("mnist-vit: stopped; every file written so far is whole", sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 141  # what a shell calls it
    except (DataError, WeightsError, ValueError, IndexError, ImportError, OSError) as error:
        say(f"mnist-vit: {_spoken(str(error), options)}", sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:  # on a CPU torch raises the latter
        from torch import OutOfMemoryError

        if not isinstance(error, MemoryError | OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        smaller = "a smaller --batch-size" if "batch_size" in options else "a model with larger patches"
        say(f"mnist-vit: out of memory: try {smaller} ({str(error).partition(chr(10))[0]})", sys.stderr)
        return 2
    return 0


def function(command: str) -> Callable[..., Any]:
    """What a command calls."""
    module, _, name = COMMANDS[command].rpartition(".")
    return getattr(importlib.import_module(f"mnist_vit.{module}"), name)


def _spoken(message: str, keys: Collection[str]) -> str:
    """A sentence of the library in options: ``--batch-size 3``, not ``batch_size=3``."""
    for key in keys:
        option = f"--{key.replace('_', '-')}"
        message = message.replace(f"{key}=True", option)
        message = re.sub(rf"""\b{key}=["']?([^\s"',;:)]+)["']?""", rf"{option} \1", message)
        message = re.sub(rf"(?<![-/\w]){key}\b(?![-/])" + ("" if "_" in key else "(?= must )"), option, message)
    return message


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence, without the usage of every option before it."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parse(words: list[str]) -> dict[str, Any]:
    """The command and its options; on a mistake the nearest right word is named, and Python ends with code 2."""
    parser = _parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        parser.error(unknown("command", words[0], COMMANDS))
    options, strange = parser.parse_known_args(words)
    if strange:
        near = nearest(strange[0].partition("=")[0], [f"--{key.replace('_', '-')}" for key in vars(options)])
        parser.prog += f" {words[0]}"
        parser.error(f"unexpected argument {strange[0]}{near}")
    return vars(options)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="mnist-vit", description="A Vision Transformer for handwritten digits: train it, evaluate "
                     "it, and see where its attention heads look.")  # fmt: skip
    parser.add_argument("--version", action="version", version=f"mnist-vit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    described: dict[str, str] = {}  # what a function does not describe is as in the one before it
    choices = {"data": _keys("datasets", "DATA_SETS"), "sizes": _keys("recipes", "MODELS")}
    choices["model"] = sorted(path.stem for path in shipped("weights").glob("*.pth"))
    for name, place in COMMANDS.items():
        outline = _outline(*place.split("."))
        text = inspect.getdoc(outline) or ""
        command = commands.add_parser(name, help=text.partition("\n")[0], description=text.partition("\nArgs")[0])
        described |= dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE))
        for key, parameter in inspect.signature(outline).parameters.items():
            if literal := re.search(r"Literal\[(.*?)\]", parameter.annotation):
                choices[key] = re.findall(r"\w+", literal[1])
            if key not in IN_PYTHON_ONLY:
                help_text = (
                    re.sub(r"\s+", " ", described[key].partition("; in Python")[0]).replace("%", "%%").rstrip(".")
                )
                _add_option(command, key, parameter, help_text, choices.get(key))
    return parser


def _add_option(
    command: argparse.ArgumentParser, key: str, parameter: inspect.Parameter, text: str, choices: list[str] | None
) -> None:
    """One keyword of a function as an option; the first ones, which may be given without a name, as arguments."""
    default, name = parameter.default, f"--{key.replace('_', '-')}"
    more: dict[str, Any] = {"choices": choices}
    if key in OPEN:
        text += f" ({', '.join(choices or ())})"
        more = {"metavar": key.upper()} if key != "model" else {}
    if default is not None and default is not inspect.Parameter.empty and default is not False:
        text += f" (default {default})"
    if parameter.annotation == "bool":
        command.add_argument(name, action="store_true", help=text)
        return
    kind = next((kind for kind in (int, float) if kind.__name__ in parameter.annotation), str)
    if choices is None:
        more = {"metavar": {int: "N", float: "X"}.get(kind, "FOLDER" if key in FOLDERS else key.upper())}
    if default is inspect.Parameter.empty:
        command.add_argument(key, type=kind, help=text)
    elif key == "model":
        command.add_argument(key, nargs="?", default=default, help=text)
    else:
        command.add_argument(name, type=kind, default=default, help=text, **more)


def _source(module: str) -> str:
    return (PACKAGE / f"{module}.py").read_text(encoding="utf-8")


def _outline(module: str, name: str) -> Callable[..., Any]:
    """A function of the package without its body: signature and docstring."""
    found = (
        node for node in ast.parse(_source(module)).body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    outline, made = next(found), dict[str, Any]()
    outline.body = outline.body[:1]
    exec(f"from __future__ import annotations\n{ast.unparse(outline)}", made)
    return made[name]


def _keys(module: str, name: str) -> list[str]:
    """The keys of a dict of the package."""
    return re.findall(r'^    "(\w+)":', _source(module).partition(f"\n{name}: ")[2].partition("\n}")[0], re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
