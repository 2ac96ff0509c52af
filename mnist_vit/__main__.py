"""``python -m mnist_vit <command>``: the options in ``commands``, on the command line.

The help does not wait for torch. argparse is kept: cyclopts, typer and tyro take 0.2 s or more for
a help text, and print a mistake as a box of several lines.
"""

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import MISSING
from typing import Any

from . import __version__
from .commands import COMMANDS, dashed
from .console import open_streams, say
from .errors import DataError, WeightsError, nearest, unknown
from .options import Described, described


def main(arguments: list[str] | None = None) -> int:
    """Run one command; user errors print as one sentence on stderr, with exit code 2.

    A check that finds a difference has exit code 1.
    """
    words = sys.argv[1:] if arguments is None else arguments
    open_streams()
    options = _parse(words)
    command = options.pop("command")
    warnings.showwarning = lambda message, *_: say(
        f"note: {_spoken(str(message), options)}", sys.stderr
    )
    try:
        COMMANDS[command][0](**options)  # mistakes are told before torch is imported
        result = function(command)(**options)
        if command in ("demo", "attention", "explore"):  # in a notebook the page shows itself
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
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        say(f"mnist-vit: {_smaller(error, options)}", sys.stderr)
        return 2
    return 1 if result is False else 0


def function(command: str) -> Callable[..., Any]:
    """The function that a command calls."""
    module, _, name = COMMANDS[command][1].rpartition(".")
    return getattr(importlib.import_module(f"mnist_vit.{module}"), name)


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; on a CPU torch raises a plain RuntimeError."""
    from torch import OutOfMemoryError

    return isinstance(error, MemoryError | OutOfMemoryError) or "allocate memory" in str(error)


def _smaller(error: Exception, options: Collection[str]) -> str:
    """The message for a lack of memory."""
    remedy = "a model with larger patches"
    if "batch_size" in options:
        remedy = "a smaller --batch-size"
    reason = str(error).partition("\n")[0]
    return f"out of memory: try {remedy} ({reason})"


def _spoken(message: str, keys: Collection[str]) -> str:
    """A message of the library with its keywords written as options.

    ``batch_size=3`` becomes ``--batch-size 3``.
    """
    for key in keys:
        option = dashed(key)
        message = message.replace(f"{key}=True", option)
        message = re.sub(rf"""\b{key}=["']?([^\s"',;:)]+)["']?""", rf"{option} \1", message)
        word = rf"(?<![-/\w])(?<!the ){key}\b(?![-/])"
        if "_" not in key:  # an English word too
            word += "(?= must )"
        message = re.sub(word, option, message)
    return message


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one sentence, without the usage text before it."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parse(words: list[str]) -> dict[str, Any]:
    """The command and its options.

    A mistake is reported with the most similar valid word, and exit code 2.
    """
    parser = _parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        parser.error(unknown("command", words[0], COMMANDS))
    if words and words[0].startswith("-"):
        _check_first(parser, words[0])
    options, strange = parser.parse_known_args(words)
    if strange:
        near = nearest(strange[0].partition("=")[0], [dashed(key) for key in vars(options)])
        parser.prog += f" {words[0]}"
        parser.error(f"unexpected argument {strange[0]}{near}")
    return vars(options)


def _check_first(parser: argparse.ArgumentParser, word: str) -> None:
    """Report an option before the command that is neither the help nor the version."""
    known = ("-h", "--help", "--version")
    if not any(option.startswith(word) for option in known):
        near = nearest(word, known) or f": choose from {', '.join(known)}, or name a command"
        parser.error(f"unexpected argument {word}{near}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mnist-vit",
        description="A Vision Transformer for handwritten digits: train it, evaluate it, and see"
        " where its attention heads look.",
    )
    parser.add_argument("--version", action="version", version=f"mnist-vit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (options, _) in COMMANDS.items():
        text = options.__doc__ or ""
        command = commands.add_parser(name, help=text.partition("\n")[0], description=text)
        for one in described(options).values():
            if not one.option.only_python:
                _add_option(command, one)
    return parser


def _add_option(command: argparse.ArgumentParser, one: Described) -> None:
    """One field as an option; those without a default, and the model, as arguments."""
    text = _help(one)
    if one.kind is bool and one.default is None:  # --flip or --no-flip
        command.add_argument(dashed(one.name), action=argparse.BooleanOptionalAction, help=text)
    elif one.kind is bool:
        command.add_argument(dashed(one.name), action="store_true", help=text)
    elif one.default is MISSING:
        command.add_argument(one.name, type=one.kind, help=text)
    elif one.name == "model":
        command.add_argument(one.name, nargs="?", default=one.default, help=text)
    else:
        command.add_argument(
            dashed(one.name),
            type=one.kind,
            default=one.default,
            help=text,
            choices=one.choices or None,
            metavar=_metavar(one),
        )


def _help(one: Described) -> str:
    text = one.option.text.replace("%", "%%")
    if one.option.names:
        text += f" ({', '.join(one.option.names)})"
    if type(one.default) in (int, float, str):
        text += f" (default {one.default})"
    return text


def _metavar(one: Described) -> str | None:
    """The placeholder of a value in the help."""
    if one.choices:
        return None
    if one.kind is int:
        return "N"
    if one.kind is float:
        return "X"
    return one.option.metavar or one.name.upper()


if __name__ == "__main__":
    sys.exit(main())
