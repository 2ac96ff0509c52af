"""Notebooks with the solutions put in: each check prints its success line, every other cell what is
stored.

The first half here, the second half in ``test_solved_second_half.py``, which another process can
run meanwhile.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import code_cells, environment, nbval, notebooks, solve

from mnist_vit.course import exercises
from mnist_vit.course.keeping import PIECES
from mnist_vit.jobs import copy_notebooks

pytestmark = pytest.mark.full


def test_the_first_half_solved_writes_my_vit_from_notebook_to_notebook_and_uses_it(
    tmp_path: Path,
) -> None:
    course, half = copy_notebooks(tmp_path / "course", with_outputs=True), notebooks()[:7]
    for path in half:
        assert solve(course / path.name) == len(exercises(path.stem))
    ran = nbval(course, *(path.name for path in half), MNIST_VIT_OUT=str(course))
    assert len(ran) == sum(len(code_cells(path)) for path in half)
    assert [mark for case in ran for mark in case] == []

    told = subprocess.run(
        [sys.executable, "-c", "from mnist_vit import check; check.my_vit()"],
        cwd=course,
        capture_output=True,
        text=True,
        env=environment(MNIST_VIT_OUT=""),
        check=True,
    )
    assert told.stdout == f"my_vit.py: all {len(PIECES)} pieces are yours\n"
