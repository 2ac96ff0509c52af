"""Notebooks with the solutions put in: each check prints its success line, every other cell what is stored."""

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
from helpers import NOTEBOOKS, code_cells, environment, notebooks, tags

from mnist_vit import check
from mnist_vit.course.checking import verdict
from mnist_vit.recipes import copy_notebooks


def solve(path: Path) -> int:
    """Put the solutions into a notebook and the success lines under its checks; returns how many."""
    notebook, done = nbformat.read(path, as_version=4), 0
    for cell in notebook.cells:
        for kind, _, name in (tag.partition(":") for tag in tags(cell)):
            if kind == "exercise":
                cell.source = check.EXERCISES[name].source
            if kind == "check":
                passed, sentence = verdict(check.EXERCISES[name], check.EXERCISES[name].answer)
                assert passed, sentence
                cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{sentence}\n")]
                done += 1
    nbformat.write(notebook, path)
    return done


def test_solved_notebooks_print_success_and_everything_else_as_stored(tmp_path: Path) -> None:
    course = copy_notebooks(tmp_path / "course")
    shutil.copy(NOTEBOOKS / "conftest.py", course)
    solved = {path: solve(course / path.name) for path in notebooks()}
    assert sum(solved.values()) == len(check.EXERCISES)
    for path in notebooks():
        if not solved[path]:  # it is the same as the one that is compared elsewhere
            (course / path.name).unlink()

    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--nbval", "--nbval-current-env", "--color=no"]
    command += ["--nbval-cell-timeout=300", "-p", "no:cacheprovider", f"--junitxml={report}", "."]
    run = subprocess.run(command, cwd=course, capture_output=True, text=True, env=environment(), check=False)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    ran = list(ElementTree.parse(report).iter("testcase"))
    assert len(ran) == sum(len(code_cells(path)) for path in notebooks() if solved[path])
    skipped = [mark.get("message", "") for case in ran for mark in case]
    assert [message for message in skipped if "CIFAR-10 are not at hand" not in message] == []
