"""Run a script of ``experiments`` or ``benchmarks``: options, threads, JSON files.

A script is a module with one function, ``run``, that measures something and returns what it found,
a dictionary. Its keywords are the script's options. The module may declare:

- ``NAMES``: what can be measured, in the order of the file; ``run`` takes one of them first;
- ``FILE``: the JSON file of its results; with ``{name}`` in it, a file for each name;
- ``KEY``: the results are a list of rows, one for each name and seed; what a row calls its name;
- ``SEEDS``: of such rows, if no seed is given;
- ``about(**options)``: what all rows of a file have in common;
- ``page(results)``: the results as Markdown, stored beside them;
- ``complete(results)``: the results with what follows from several of them;
- ``THREADS = None``: as many threads as PyTorch takes; otherwise there is one.
"""

import argparse
import ast
import importlib
import inspect
import itertools
import json
import os
import platform
import sys
import time
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torchvision

from mnist_vit.files import write_json, write_text

from . import ROOT

ALL = "all"
Results = dict[str, Any]


def main(room: str, arguments: list[str] | None = None) -> None:
    """Run one script of a room, ``experiments`` or ``benchmarks``."""
    words = sys.argv[1:] if arguments is None else arguments
    known = scripts(room)
    if not words or words[0] in ("-h", "--help"):
        print(overview(room, known))
    elif words[0] not in known:
        sys.exit(f"{room} has no script {words[0]!r}. Choose from: {', '.join(known)}")
    else:
        Script(room, words[0]).main(words[1:])


def scripts(room: str) -> dict[str, str]:
    """The scripts of a room, each with the first line of its docstring."""
    found = {}
    for path in sorted((ROOT / room).glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if "run" in functions:
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def overview(room: str, known: dict[str, str]) -> str:
    """What ``python -m ROOM`` prints."""
    width = max(map(len, known)) + 2
    lines = [f"{name:<{width}}{sentence}" for name, sentence in known.items()]
    return "\n".join([f"usage: python -m {room} NAME [--help]", "", *lines])


class Script:
    """A script of a room, with its parser and the layout of its file."""

    def __init__(self, room: str, name: str) -> None:
        module = importlib.import_module(f"{room}.{name}")
        self.room, self.name = room, name
        self.module = module
        self.run = module.run
        self.names: list[str] = list(getattr(module, "NAMES", []))
        self.file: Path | None = getattr(module, "FILE", None)
        self.key: str | None = getattr(module, "KEY", None)
        self.threads: int | None = getattr(module, "THREADS", 1)
        self.layout = self._layout()

    def _layout(self) -> "Whole | ByName | Rows":
        if self.key is not None:
            return Rows(self.key, self.names)
        if self.names and not self._file_for_each_name():
            return ByName(self.names)
        return Whole()

    def _file_for_each_name(self) -> bool:
        return self.file is not None and "{name}" in self.file.name

    # ---- options ----

    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters of ``run`` that are options of the command."""
        parameters = dict(inspect.signature(self.run).parameters)
        if self.names:
            del parameters[next(iter(parameters))]
        return parameters

    def parser(self) -> argparse.ArgumentParser:
        """The options of ``run``, and ``--store`` and ``--out`` if results are stored."""
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.room} {self.name}",
            description=self.module.__doc__,
            epilog=inspect.getdoc(self.run),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if self.names:
            known = ", ".join(self.names)
            parser.add_argument(
                "names", nargs="*", metavar="name", help=f"of {known}; or {ALL}; none: see --store"
            )
        for parameter in self.options().values():
            add_option(parser, parameter)
        if self.file is not None:
            parser.add_argument(
                "--store",
                action="store_true",
                help="write what is measured to the file; without names: what is missing there",
            )
            parser.add_argument("--out", type=Path, default=self.file, help="another file")
        return parser

    def main(self, words: list[str]) -> None:
        """Measure what is asked for; print it beside what is stored, or store it."""
        parser = self.parser()
        given = vars(parser.parse_args(words))
        names = given.pop("names", [])
        store = given.pop("store", False)
        out = given.pop("out", None)
        self._check(parser, names, store, given)
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        if self.names and not names and not store:
            self._show(out)
            return
        for name, seed in self._todo(names, store, given.get("seed"), out):
            options = given if self.key is None else given | {"seed": seed}
            found = self.run(**options) if name is None else self.run(name, **options)
            print(self._beside(found, name, seed, out), flush=True)
            if store:
                self._store(found, name, options, out)

    def _check(
        self, parser: argparse.ArgumentParser, names: list[str], store: bool, given: dict[str, Any]
    ) -> None:
        unknown = [name for name in names if name not in [*self.names, ALL]]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}. Choose from: {', '.join(self.names)}")
        if isinstance(self.layout, ByName) and store and given.get("seed") is not None:
            parser.error("all seeds are stored together: leave out --seed, or --store")

    def _todo(
        self, names: list[str], store: bool, seed: int | None, out: Path | None
    ) -> list[tuple[str | None, int | None]]:
        """Names and seeds to measure; without names, those that the file does not have."""
        if not self.names:
            return [(None, None)]
        chosen = self.names if not names or ALL in names else names
        seeds = [seed]
        if self.key is not None and seed is None:
            seeds = list(self.module.SEEDS)
        pairs = [(name, one) for one, name in itertools.product(seeds, chosen)]
        if names:
            return pairs
        return [pair for pair in pairs if not self.layout.find(read(at(out, pair[0])), *pair)]

    # ---- results ----

    def _show(self, out: Path | None) -> None:
        """The names, and what is stored under them."""
        if self.file is None:
            print(f"Choose from: {', '.join(self.names)}")
            return
        for name in self.names:
            stored = self.layout.find(read(at(out, name)), name)
            print(f"{name}: {json.dumps(stored) if stored else 'not stored yet'}")

    def _beside(self, found: Results, name: str | None, seed: int | None, out: Path | None) -> str:
        """What was found, and what is stored under the same keys."""
        told = " ".join(str(word) for word in (self.name, name) if word is not None)
        if seed is not None:
            told += f", seed {seed}"
        text = f"{told}\nnow     {json.dumps(found)}"
        stored = self.layout.find(read(at(out, name)), name, seed) if out else None
        if stored:
            same = {key: stored[key] for key in found if key in stored}
            text += f"\nstored  {json.dumps(same)}"
        return text

    def _store(self, found: Results, name: str | None, options: dict[str, Any], out: Path) -> None:
        path = at(out, name)
        results = read(path)
        facts = {"machine": machine()} if self.room == "benchmarks" else {}
        head = {"command": self.command(name, options)}
        if self.key is None:
            head |= facts
        else:
            results = self._heading(results, path, options) | facts | {"runs": rows_of(results)}
        results = self.layout.put(results, name, options.get("seed"), head | found)
        if hasattr(self.module, "complete"):
            results = self.module.complete(results)
        write_json(path, results)
        if hasattr(self.module, "page"):
            write_text(path.with_suffix(".md"), self.module.page(results))
        print(f"written to {path}", flush=True)

    def _heading(self, results: Results, path: Path, options: dict[str, Any]) -> Results:
        """What all rows of a file have in common; a file of other rows is refused."""
        heading = self.module.about(**{key: options[key] for key in options if key != "seed"})
        if results and any(results[key] != value for key, value in heading.items()):
            sys.exit(
                f"{path} has rows of other data or another recipe: name another one with --out"
            )
        return heading

    def command(self, name: str | None, options: dict[str, Any]) -> str:
        """The command that repeats a measurement."""
        words = ["python", "-m", self.room, self.name]
        if name is not None:
            words.append(name)
        for key, parameter in self.options().items():
            value = options[key]
            if value != parameter.default and not isinstance(value, Path):
                words.append(f"--{key.replace('_', '-')}")
                words += [] if value is True else [str(value)]
        return " ".join(words)


def add_option(parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
    """An option of the command from a keyword of ``run``."""
    flag = f"--{parameter.name.replace('_', '-')}"
    default = None if parameter.default is inspect.Parameter.empty else parameter.default
    kind = parameter.annotation
    told = None if default is None else f"default {default}"
    if kind is bool:
        parser.add_argument(flag, action="store_true")
    elif kind == list[int]:
        parser.add_argument(flag, type=int, nargs="+", required=True)
    else:
        parser.add_argument(flag, type=without_none(kind), default=default, help=told)


def without_none(kind: Any) -> Any:
    """``int`` for ``int | None``."""
    if isinstance(kind, types.UnionType):
        return next(one for one in typing.get_args(kind) if one is not types.NoneType)
    return kind


# ---- layouts of a file of results ----


class Whole:
    """The file is one result."""

    def find(self, results: Results, name: Any = None, seed: Any = None) -> Results:
        return results

    def put(self, results: Results, name: Any, seed: Any, found: Results) -> Results:
        return found


class ByName:
    """A result for each name, in their order; other keys follow."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find(self, results: Results, name: str, seed: Any = None) -> Results | None:
        return results.get(name)

    def put(self, results: Results, name: str, seed: Any, found: Results) -> Results:
        results = results | {name: found}
        ordered = {one: results[one] for one in self.names if one in results}
        return ordered | results


class Rows:
    """A list of rows, ``runs``, one for each name and seed."""

    def __init__(self, key: str, names: list[str]) -> None:
        self.key, self.names = key, names

    def find(self, results: Results, name: str, seed: int | None = None) -> Any:
        rows = [row for row in rows_of(results) if row[self.key] == name]
        if seed is None:
            return rows
        return next((row for row in rows if row["seed"] == seed), None)

    def put(self, results: Results, name: str, seed: int, found: Results) -> Results:
        rows = {(row[self.key], row["seed"]): row for row in results["runs"]}
        rows[name, seed] = {self.key: name, "seed": seed} | found
        order = sorted(rows, key=lambda pair: (self.names.index(pair[0]), pair[1]))
        return results | {"runs": [rows[pair] for pair in order]}


def rows_of(results: Results) -> list[Results]:
    return results.get("runs", [])


# ---- what the scripts share ----


def at(path: Path | None, name: str | None) -> Path | None:
    """The file of a result, where each name has its own."""
    if path is None or name is None:
        return path
    return path.with_name(path.name.replace("{name}", name))


def read(path: Path | None) -> Results:
    """The results so far; empty where there are none."""
    if path is None or not path.is_file():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    heads = list(heads)
    text = markdown_row(heads) + markdown_row(["---"] * len(heads))
    for row in rows:
        text += markdown_row(row)
    return text


def markdown_row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that names the machine."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "load": load,  # programs that ran beside it
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "torchvision": torchvision.__version__.split("+")[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
