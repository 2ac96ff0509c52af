"""What the tests share: where the notebooks are and how a cell is read; random weights; child
processes.

Not in conftest.py: ``notebooks`` has one too, and of two the last one loaded is what ``import
conftest`` finds.
"""

import ast
import functools
import importlib.util
import inspect
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
import torch
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from torch import nn

import mnist_vit
from mnist_vit.attention import to_maps
from mnist_vit.check import EXERCISES
from mnist_vit.course import exercises
from mnist_vit.course.checking import verdict
from mnist_vit.files import copy_notebooks

ROOT = Path(mnist_vit.__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"


def notebooks() -> list[Path]:
    """All notebooks of the course, in its order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


@functools.cache
def read(path: Path) -> NotebookNode:
    """A notebook; not to be changed."""
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[NotebookNode]:
    """The cells that run."""
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def tagged(path: Path, kind: str) -> dict[str, NotebookNode]:
    """The cells with a tag such as ``exercise:<name>``, by name."""
    found = {}
    for cell in code_cells(path):
        for tag in tags(cell):
            if tag.startswith(f"{kind}:"):
                found[tag.partition(":")[2]] = cell
    return found


@functools.cache
def tree(source: str) -> ast.Module:
    """The syntax of a cell, line magics included; not to be changed.

    Line numbers are those of the cell.
    """
    return ast.parse(TransformerManager().transform_cell(source))


def pictures(path: Path) -> list[tuple[int, str]]:
    """The number of the cell and the PNG, base64, of each stored picture."""
    found = []
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                found.append((number, output.data["image/png"]))
    return found


def from_file(path: Path) -> ModuleType:
    """A module by its file: the notebooks' folder is no package, and two files are called
    conftest."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def some(cases: Iterable[str], *first: str) -> list:
    """Parameters of a test: these are in the default tier, all others in the full one."""
    found: list[Any] = []
    for case in cases:
        found.append(case if case in first else pytest.param(case, marks=pytest.mark.full))
    return found


def accept(name: str, answer: Any) -> None:
    """The check of an exercise calls the answer correct."""
    passed, told = verdict(EXERCISES[name], answer)
    assert passed, told


def judged(right: list, wrong: list, named: Any = ()) -> Callable[..., None]:
    """A test of answers, (exercise, answer): right ones, wrong ones with words of what is told, and
    slips, named."""
    cases = (
        [(*case, None, False) for case in right]
        + [(*case, False) for case in wrong]
        + [(*c, True) for c in named]
    )

    @pytest.mark.parametrize(("name", "answer", "words", "named"), cases)
    def test(name: str, answer: Any, words: str | None, named: bool) -> None:
        accept(name, answer) if words is None else reject(name, answer, words, named)

    return test


def told_without(cases: list[tuple[str, Any, str, str]]) -> Callable[..., None]:
    """A test of wrong answers: words that are told of each, and words that would be false of it.

    An answer may be an edit of the solution.
    """

    @pytest.mark.parametrize(("name", "answer", "words", "false_words"), cases)
    def test(name: str, answer: Any, words: str, false_words: str) -> None:
        passed, told = verdict(EXERCISES[name], EXERCISES[name].edited(answer))
        assert not passed
        assert words in told, told
        assert not false_words or false_words not in told, told

    return test


NAMED_BY = (
    "You get exactly this when you",
    "This happens, for instance, when you",
)  # numbers; words only


def reject(name: str, answer: Any, words: str = "", named: bool = False) -> None:
    """It calls the answer wrong, in these words; with the name of a slip, or with none."""
    passed, told = verdict(EXERCISES[name], answer)
    assert not passed
    assert words in told, told
    assert any(words in told for words in NAMED_BY) == named, told


def randomise(*models: nn.Module, seed: int = 0) -> None:
    """Give all models the same random values in every parameter, none of them zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameters in zip(*(model.parameters() for model in models), strict=True):
            values = torch.randn(parameters[0].shape, generator=generator) * 0.1
            for parameter in parameters:
                parameter.copy_(values)


def square_maps(rows: torch.Tensor) -> torch.Tensor:
    """The maps of a model of the course: a square grid of patches after the class token."""
    side = math.isqrt(rows.shape[-1] - 1)
    return to_maps(rows, (side, side))


def environment(**extra: str) -> dict[str, str]:
    """The environment for a child process: ours, one thread, and what is given."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **extra}


def assert_says(sentence: str, words: str) -> None:
    """All of these words stand in the sentence, in any order."""
    for word in words.split():
        assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sentence), (word, sentence)


class Bomb:
    """A pickle that would run code where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def solution_cell(exercise: str) -> str:
    """A cell with our solution: the imports of its file that are not relative, and its text."""
    found = EXERCISES[exercise]
    module = ast.parse(Path(inspect.getfile(found.answer)).read_text(encoding="utf-8"))
    lines = [
        ast.unparse(node)
        for node in module.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
    ]
    return "\n".join([*(line for line in lines if "Exercise" not in line), found.source])


def solve(path: Path) -> int:
    """Put the solutions into a notebook and the success lines under its checks; returns how
    many."""
    notebook, done = nbformat.read(path, as_version=4), 0
    for cell in notebook.cells:
        for kind, _, name in (tag.partition(":") for tag in tags(cell)):
            if kind == "exercise":  # the stub's imports stay
                imports = [
                    node
                    for node in tree(cell.source).body
                    if isinstance(node, ast.Import | ast.ImportFrom)
                ]
                cell.source = "\n".join(
                    [*(ast.unparse(node) for node in imports), EXERCISES[name].source]
                )
            if kind == "check":
                passed, sentence = verdict(EXERCISES[name], EXERCISES[name].answer)
                assert passed, sentence
                cell.outputs = [
                    nbformat.v4.new_output("stream", name="stdout", text=f"{sentence}\n")
                ]
                done += 1
    nbformat.write(notebook, path)
    return done


def nbval(folder: Path, *names: str, **variables: str) -> list[ElementTree.Element]:
    """Run nbval on notebooks of a folder, in their order, in a process of its own; the cells, all
    of which passed."""
    report = folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "--nbval",
        "--nbval-current-env",
        "--color=no",
    ]
    command += [
        "--nbval-cell-timeout=300",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *names,
    ]
    env = environment(**variables)
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    return list(ElementTree.parse(report).iter("testcase"))


def nbval_solved(course: Path, chosen: list[Path]) -> Path:
    """Run nbval on a learner's copy of some notebooks with the solutions put in; no cell is
    skipped unless CIFAR-10 is not at hand. Returns the learner's folder."""
    copy_notebooks(course, with_outputs=True)
    names = [path.name for path in chosen]
    for name in names:
        assert solve(course / name) == len(exercises(Path(name).stem))
    ran = nbval(course, *names, MNIST_VIT_OUT=str(course))
    assert len(ran) == sum(len(code_cells(path)) for path in chosen)
    skipped = [case.find("skipped") for case in ran]
    messages = [mark.get("message", "") for mark in skipped if mark is not None]
    assert [message for message in messages if "CIFAR-10 are not at hand" not in message] == []
    return course
