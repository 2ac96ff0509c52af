"""Notebooks with the solutions put in: each check prints its success line, every other cell what is
stored, the long trainings too; and a learner's executed copy."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from helpers import code_cells, environment, nbval, notebooks, solve
from nbclient import NotebookClient

from mnist_vit.course import exercises
from mnist_vit.course.keeping import PIECES
from mnist_vit.jobs import copy_notebooks

pytestmark = pytest.mark.full


def test_the_course_solved_writes_my_vit_from_notebook_to_notebook_and_uses_it(
    tmp_path: Path,
) -> None:
    course = copy_notebooks(tmp_path / "course", with_outputs=True)
    names = [path.name for path in notebooks()]
    for name in names:
        assert solve(course / name) == len(exercises(Path(name).stem))
    ran = nbval(course, *names, MNIST_VIT_OUT=str(course))

    assert len(ran) == sum(len(code_cells(path)) for path in notebooks())
    skipped = [case.find("skipped") for case in ran if case.find("skipped") is not None]
    messages = [mark.get("message", "") for mark in skipped]
    assert [message for message in messages if "CIFAR-10 are not at hand" not in message] == []

    told = subprocess.run(
        [sys.executable, "-c", "from mnist_vit import check; check.my_vit()"],
        cwd=course,
        capture_output=True,
        text=True,
        env=environment(MNIST_VIT_OUT=""),
        check=True,
    )
    assert told.stdout == f"my_vit.py: all {len(PIECES)} pieces are yours\n"


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
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where)
        client.execute(env=env)
        nbformat.write(notebook, course / name)
    mine = (course / "my_vit.py").read_text(encoding="utf-8")
    assert "class MyMLPBlock(" in mine

    shutil.rmtree(course / "my_vit_earlier", ignore_errors=True)
    before = {path.name for path in course.iterdir()}
    nbval(course, *names, MNIST_VIT_OUT="")
    assert (course / "my_vit.py").read_text(encoding="utf-8") == mine
    after = {path.name for path in course.iterdir()}
    assert after - before <= {"report.xml", "__pycache__"}, "it writes elsewhere"
