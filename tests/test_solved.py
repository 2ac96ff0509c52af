"""Notebooks with the solutions put in: each check prints its success line, every other cell what is
stored, the long trainings too."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import code_cells, environment, nbval, notebooks, solve

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
