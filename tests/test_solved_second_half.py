"""Notebooks 07 to 12 with the solutions put in, and a learner's executed copy, each with a
my_vit.py beside it."""

import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from helpers import NOTEBOOKS, code_cells, environment, from_file, nbval, notebooks, solve
from nbclient import NotebookClient

from mnist_vit import check
from mnist_vit.course import exercises
from mnist_vit.course.keeping import PIECES
from mnist_vit.jobs import copy_notebooks

pytestmark = pytest.mark.full


def test_the_second_half_solved_prints_success_and_everything_else_as_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, half = copy_notebooks(tmp_path / "course", with_outputs=True), notebooks()[7:]
    monkeypatch.setenv("MNIST_VIT_OUT", str(course))
    for path in sorted((NOTEBOOKS / "solutions").glob("0[1-6]_*.py")):
        answers = from_file(path)
        monkeypatch.setitem(sys.modules, answers.__name__, answers)
        for name, piece in PIECES.items():
            if hasattr(answers, name) and piece.exercise in {
                exercise.name for exercise in exercises(path.stem)
            }:
                getattr(check, piece.exercise)(getattr(answers, name))
    mine = (course / "my_vit.py").read_text(encoding="utf-8")
    assert [
        name for name in PIECES if f"class {name}(" not in mine and f"def {name}(" not in mine
    ] == []
    for path in half:
        assert solve(course / path.name) == len(exercises(path.stem))

    ran = nbval(course, *(path.name for path in half), MNIST_VIT_OUT=str(course))
    assert len(ran) == sum(len(code_cells(path)) for path in half)
    skipped = [mark.get("message", "") for case in ran for mark in case]
    assert [message for message in skipped if "CIFAR-10 are not at hand" not in message] == []


def test_a_learners_executed_copy_passes_with_its_my_vit_beside_it(tmp_path: Path) -> None:
    """Notebook 01 solved, 02 not: run as JupyterLab runs them, saved, and compared in the learner's
    own folder."""
    course = copy_notebooks(tmp_path / "course")
    names = [path.name for path in notebooks() if path.stem[:2] in ("01", "02")]
    solve(course / names[0])
    env = environment(MNIST_VIT_OUT="", MNIST_VIT_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    env.pop("MPLBACKEND", None)
    for name in names:
        notebook = nbformat.read(course / name, as_version=4)
        where = {"metadata": {"path": str(course)}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute(
            env=env
        )
        nbformat.write(notebook, course / name)
    mine = (course / "my_vit.py").read_text(encoding="utf-8")
    assert "class MyMLPBlock(" in mine

    shutil.rmtree(course / "my_vit_earlier", ignore_errors=True)
    before = {path.name for path in course.iterdir()}
    nbval(course, *names, MNIST_VIT_OUT="")
    assert (course / "my_vit.py").read_text(encoding="utf-8") == mine
    assert {path.name for path in course.iterdir()} - before <= {
        "report.xml",
        "__pycache__",
    }, "it writes elsewhere"
