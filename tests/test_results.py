"""Stored results against what shows them today: nothing is stored that no page shows, and nothing
is shown that is not stored.

A result is a file of ``notebooks/results``; its entries are the runs by name, with the command that
made each.
"""

import ast
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import NOTEBOOKS, ROOT, code_cells, notebooks, tree

RESULTS = sorted((NOTEBOOKS / "results").glob("*.json"))
BENCHMARKS = sorted((ROOT / "benchmarks" / "results").glob("*.*"))
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

each_result = pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
each_file = pytest.mark.parametrize(
    "path", RESULTS + BENCHMARKS, ids=lambda path: f"{path.parent.parent.name}/{path.name}"
)


class Reader:
    """The literals of one notebook or module, and the f-strings that put names together."""

    def __init__(self, *trees: ast.Module) -> None:
        nodes = []
        for one in trees:
            nodes += ast.walk(one)
        self.literals = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
        self.words = sorted(name for name in self.literals if re.fullmatch(r"[\w.]+", name))
        self.joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]

    def can_become(self, joined: ast.JoinedStr) -> re.Pattern[str]:
        """The texts that an f-string makes of the words of this reader."""
        any_word = "(?:" + "|".join(map(re.escape, self.words)) + ")"
        parts = []
        for part in joined.values:
            fixed = isinstance(part, ast.Constant)
            parts.append(re.escape(part.value) if fixed else any_word)
        return re.compile("".join(parts))

    def names(self, entry: str) -> bool:
        """Whether the entry is written out here, or put together."""
        if entry in self.literals:
            return True
        return any(
            self.can_become(joined).fullmatch(entry)
            for joined in self.joined
            if all(text in entry for text in fixed_texts(joined))
        )


def fixed_texts(joined: ast.JoinedStr) -> list[str]:
    """The parts of an f-string that are always there."""
    return [part.value for part in joined.values if isinstance(part, ast.Constant)]


@functools.cache
def readers() -> list[Reader]:
    """Every notebook, and every module of the package."""
    found = []
    for path in notebooks():
        found.append(Reader(*(tree(cell.source) for cell in code_cells(path))))
    for path in sorted((ROOT / "mnist_vit").rglob("*.py")):
        found.append(Reader(ast.parse(path.read_text(encoding="utf-8"))))
    return found


def is_read(name: str) -> bool:
    return any(reader.names(name) for reader in readers())


def entries(path: Path) -> dict[str, dict[str, Any]]:
    """The runs of a file that holds several by name."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: about
        for name, about in stored.items()
        if isinstance(about, dict) and "command" in about
    }


@each_result
def test_every_stored_result_is_shown(path: Path) -> None:
    texts = [one.read_text(encoding="utf-8") for one in PROSE]
    in_prose = any(path.name in text for text in texts)
    assert is_read(path.stem) or is_read(path.name) or in_prose, f"nobody reads {path.name}"
    unread = [name for name in entries(path) if not is_read(name)]
    assert unread == [], f"{path.name} holds runs that no notebook shows"


def test_every_result_that_is_read_is_stored() -> None:
    """``stored(results="bugs")`` and ``results / "cnn.json"`` name files that are there."""
    stored = {path.stem for path in RESULTS}
    asked = set()
    for path in notebooks():
        for cell in code_cells(path):
            for node in ast.walk(tree(cell.source)):
                if isinstance(node, ast.keyword) and node.arg == "results":
                    asked.add(ast.literal_eval(node.value))
    assert {"bugs", "measured"} <= asked <= stored
    read = set().union(*(reader.literals for reader in readers()))
    files = {name for name in read if re.fullmatch(r"[a-z_]+\.json", name)}
    elsewhere = {"config.json", "attention.json"}  # of a run, and of a folder of maps
    elsewhere |= {path.name for path in (ROOT / "weights").glob("*.json")}
    assert {name.removesuffix(".json") for name in files - elsewhere} <= stored


@each_file
def test_the_command_that_made_a_result_is_there(path: Path) -> None:
    """A script by its path, or one of a folder that is run with ``python -m``."""
    for folder, name in re.findall(
        r"python (?:-m )?(\w+)[/ ](\w+)", path.read_text(encoding="utf-8")
    ):
        if folder != "mnist_vit":
            assert (ROOT / folder / f"{name}.py").is_file(), f"{folder} {name}"


@each_file
def test_notebooks_are_called_by_their_names_of_today(path: Path) -> None:
    today = {one.stem for one in notebooks()}
    named = set(re.findall(r"\b\d\d_[a-z]\w+", path.read_text(encoding="utf-8")))
    assert named <= today
