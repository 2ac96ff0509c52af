"""``python -m mnist_vit <command>``: the keywords of functions as options.

Names, types, defaults and help are read from the functions' source, so that the help does not wait
for torch.
"""

import argparse
import ast
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection
from typing import Any

from . import __version__
from .errors import DataError, WeightsError, nearest, unknown
from .files import PACKAGE, existing, say, shipped


def progress(folder: str, run: bool = False) -> None:
    """Print which pieces in each my_vit.py are the learner's own, one line per file.

    Args:
        folder: a folder with the files of all learners, or with one subfolder per learner; or one
            file.
        run: also run the checks, each file in a process of its own, but with your user's
            permissions.
    """
    existing(folder)  # told before anything else is imported

    from .check import progress

    progress(folder, run)


COMMANDS = {  # the module and name of what each calls
    "demo": "recipes.demo",
    "notebooks": "files.copy_notebooks",
    "progress": "__main__.progress",
    "evaluate": "recipes.evaluate",
    "attention": "recipes.visualize_attention",
    "explore": "recipes.explore",
    "predict": "recipes.predict",
    "train": "recipes.train",
}
IN_PYTHON_ONLY = ("transform", "classes")  # for models that no file describes
OPEN = ("model", "data")  # beside the names that are listed, a path may be given
FOLDERS = ("root", "out", "run_dir")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; user errors print as one sentence on stderr, with exit code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    options = _parse(words)
    command = options.pop("command")
    warnings.showwarning = lambda message, *_: say(
        f"note: {_spoken(str(message), options)}", sys.stderr
    )
    try:
        result = function(command)(**options)
        if command == "explore":  # in a notebook the page shows itself
            print(f"open in a browser: {result}")
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("mnist-vit: stopped; every file written so far is complete", sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 141  # what a shell calls it
    except (DataError, WeightsError, ValueError, IndexError, ImportError, OSError) as error:
        say(f"mnist-vit: {_spoken(str(error), options)}", sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:  # on a CPU torch raises the latter
        from torch import OutOfMemoryError

        if not isinstance(error, MemoryError | OutOfMemoryError) and "allocate memory" not in str(
            error
        ):
            raise
        smaller = (
            "a smaller --batch-size" if "batch_size" in options else "a model with larger patches"
        )
        say(
            f"mnist-vit: out of memory: try {smaller} ({str(error).partition(chr(10))[0]})",
            sys.stderr,
        )
        return 2
    return 0


def function(command: str) -> Callable[..., Any]:
    """What a command calls."""
    module, _, name = COMMANDS[command].rpartition(".")
    return getattr(importlib.import_module(f"mnist_vit.{module}"), name)


def _spoken(message: str, keys: Collection[str]) -> str:
    """A message of the library with its keywords written as options: ``--batch-size 3``, not
    ``batch_size=3``."""
    for key in keys:
        option = _dashed(key)
        message = message.replace(f"{key}=True", option)
        message = re.sub(rf"""\b{key}=["']?([^\s"',;:)]+)["']?""", rf"{option} \1", message)
        message = re.sub(
            rf"(?<![-/\w])(?<!the ){key}\b(?![-/])" + ("" if "_" in key else "(?= must )"),
            option,
            message,
        )
    return message


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one sentence, without the usage text before it."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parse(words: list[str]) -> dict[str, Any]:
    """The command and its options; a mistake is reported with the most similar valid word, and exit
    code 2."""
    parser = _parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        parser.error(unknown("command", words[0], COMMANDS))
    options, strange = parser.parse_known_args(words)
    if strange:
        near = nearest(strange[0].partition("=")[0], [_dashed(key) for key in vars(options)])
        parser.prog += f" {words[0]}"
        parser.error(f"unexpected argument {strange[0]}{near}")
    return vars(options)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mnist-vit",
        description=(
            "A Vision Transformer for handwritten digits: train it, evaluate "
            "it, and see where its attention heads look."
        ),
    )
    parser.add_argument("--version", action="version", version=f"mnist-vit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    described: dict[str, str] = {}  # what a function does not describe is as in the one before it
    choices = {"data": _keys("datasets", "DATA_SETS"), "sizes": _keys("recipes", "MODELS")}
    choices["model"] = sorted(path.stem for path in shipped("weights").glob("*.pth"))
    for name, place in COMMANDS.items():
        text, keywords = _outline(*place.split("."))
        command = commands.add_parser(
            name, help=text.partition("\n")[0], description=text.partition("\nArgs")[0]
        )
        for key, said in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE):
            described[key] = (
                re.sub(r"\s+", " ", said).partition("; in Python")[0].replace("%", "%%").rstrip(".")
            )
        for key, (kind, default) in keywords.items():
            if literal := re.search(r"Literal\[(.*?)\]", kind):
                choices[key] = re.findall(r"\w+", literal[1])
            if key not in IN_PYTHON_ONLY:
                listed = f" ({', '.join(choices[key])})" if key in OPEN else ""
                _add_option(
                    command,
                    key,
                    kind,
                    default,
                    described[key] + listed,
                    None if listed else choices.get(key),
                )
    return parser


def _add_option(
    command: Any, key: str, annotation: str, default: Any, text: str, choices: list[str] | None
) -> None:
    """One keyword of a function as an option; those without a default, and the model, as
    arguments."""
    text += f" (default {default})" if type(default) in (int, float, str) else ""
    kind = {"int": int, "float": float}.get(annotation.partition(" ")[0], str)
    path = "FILE" if text.startswith("the file") else "FOLDER"
    metavar = (
        None
        if choices
        else {int: "N", float: "X"}.get(kind, path if key in FOLDERS else key.upper())
    )
    if annotation == "bool":
        command.add_argument(_dashed(key), action="store_true", help=text)
    elif default is ...:
        command.add_argument(key, type=kind, help=text)
    elif key == "model":
        command.add_argument(key, nargs="?", default=default, help=text)
    else:
        command.add_argument(
            _dashed(key), type=kind, default=default, help=text, choices=choices, metavar=metavar
        )


def _dashed(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _source(module: str) -> str:
    return (PACKAGE / f"{module}.py").read_text(encoding="utf-8")


def _outline(module: str, name: str) -> tuple[str, dict[str, tuple[str, Any]]]:
    """A function's docstring, and annotation and default of each keyword; the default is ``...`` if
    there is none."""
    statements = ast.parse(_source(module)).body
    (found,) = (
        node for node in statements if isinstance(node, ast.FunctionDef) and node.name == name
    )
    keywords, defaults = (
        found.args.args + found.args.kwonlyargs,
        [*found.args.defaults, *found.args.kw_defaults],
    )
    values = [... if node is None else ast.literal_eval(node) for node in defaults]
    values = [...] * (len(keywords) - len(values)) + values
    told = zip(keywords, values, strict=True)
    return ast.get_docstring(found) or "", {
        k.arg: (ast.unparse(k.annotation or k), value) for k, value in told
    }


def _keys(module: str, name: str) -> list[str]:
    """The keys of a dict of the package."""
    return re.findall(
        r'^    "(\w+)":',
        _source(module).partition(f"\n{name}: ")[2].partition("\n}")[0],
        re.MULTILINE,
    )


if __name__ == "__main__":
    sys.exit(main())
