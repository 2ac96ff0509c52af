"""Notebooks 11 to 14 with the solutions put in, beside a finished my_vit.py.

A file of its own: the notebooks before them take one of two processes for long enough.
"""

from pathlib import Path

import pytest
from helpers import environment, nbval_solved, notebooks, solution_cell
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from mnist_vit import check
from mnist_vit.course.keeping import PIECES

pytestmark = pytest.mark.full


def write_my_vit(folder: Path) -> None:
    """The file as a learner has it after notebook 06: each solution in a cell, and its check."""
    cells = ["from mnist_vit import check"]
    for piece in PIECES.values():
        name = check.EXERCISES[piece.exercise].answer.__name__
        cells += [solution_cell(piece.exercise), f"check.{piece.exercise}({name})"]
    notebook = new_notebook(cells=[new_code_cell(text) for text in cells])
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where)
    client.execute(env=environment(MNIST_VIT_OUT=str(folder)))


def test_the_later_notebooks_solved_use_a_finished_my_vit(tmp_path: Path) -> None:
    course = tmp_path / "course"
    course.mkdir()
    write_my_vit(course)
    mine = (course / "my_vit.py").read_text(encoding="utf-8")
    assert mine.count("\nclass My") + mine.count("\ndef my_") == len(PIECES)
    nbval_solved(course, [path for path in notebooks() if path.name >= "11"])
    assert (course / "my_vit.py").read_text(encoding="utf-8") == mine
