"""A learner's executed copy of notebooks, with its my_vit.py beside it.

A file of its own: the solved course takes one of two processes for long enough.
"""

import shutil
from pathlib import Path

import nbformat
import pytest
from helpers import environment, nbval, notebooks, solve
from nbclient import NotebookClient

from mnist_vit.jobs import copy_notebooks

pytestmark = pytest.mark.full


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
