"""Notebooks 00 to 10 with the solutions put in: each check prints its success line, and every other
cell what is stored, the long trainings too."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import environment, nbval_solved, notebooks

from mnist_vit.course.keeping import PIECES

pytestmark = pytest.mark.full


def test_the_course_solved_writes_my_vit_from_notebook_to_notebook_and_uses_it(
    tmp_path: Path,
) -> None:
    course = nbval_solved(tmp_path / "course", [p for p in notebooks() if p.name < "11"])
    told = subprocess.run(
        [sys.executable, "-c", "from mnist_vit import check; check.my_vit()"],
        cwd=course,
        capture_output=True,
        text=True,
        env=environment(MNIST_VIT_OUT=""),
        check=True,
    )
    assert told.stdout == f"my_vit.py: all {len(PIECES)} pieces are yours\n"
