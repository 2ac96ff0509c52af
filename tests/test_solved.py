"""The notebooks with the solutions put in: each check prints its success line, every other cell what is stored."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
from helpers import NOTEBOOKS, code_cells, environment, notebooks, tags

from mnist_vit import check
from mnist_vit.check.core import verdict
from mnist_vit.recipes import copy_notebooks


def solutions(path: Path) -> dict[str, str]:
    """The solved cells of a notebook by exercise: the blocks after the lines ``# exercise: <name>``."""
    file = NOTEBOOKS / "solutions" / f"{path.stem}.py"
    blocks = re.split(r"^# exercise: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: block.strip() for name, block in zip(blocks[::2], blocks[1::2], strict=True)}


def solve(path: Path) -> int:
    """Put the solutions into a notebook and the success lines under its checks; returns how many."""
    notebook, solved, done = nbformat.read(path, as_version=4), None, 0
    for cell in notebook.cells:
        for kind, _, name in (tag.partition(":") for tag in tags(cell)):
            if kind == "exercise":
                solved = solved or solutions(path)
                cell.source = solved[name]
            if kind == "check":
                passed, sentence = verdict(check.EXERCISES[name], check.EXERCISES[name].reference)
                assert passed, sentence
                cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{sentence}\n")]
                done += 1
    nbformat.write(notebook, path)
    return done


def test_solved_notebooks_print_success_and_everything_else_as_stored(tmp_path: Path) -> None:
    course = copy_notebooks(tmp_path / "course")
    shutil.copy(NOTEBOOKS / "conftest.py", course)
    assert sum(solve(course / path.name) for path in notebooks()) == len(check.EXERCISES)

    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--nbval", "--nbval-current-env", "--color=no"]
    command += ["--nbval-cell-timeout=300", "-p", "no:cacheprovider", f"--junitxml={report}", "."]
    run = subprocess.run(command, cwd=course, capture_output=True, text=True, env=environment(), check=False)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    ran = list(ElementTree.parse(report).iter("testcase"))
    assert len(ran) == sum(len(code_cells(path)) for path in notebooks())
    skipped = [mark.get("message", "") for case in ran for mark in case]
    assert [message for message in skipped if "CIFAR-10 are not at hand" not in message] == []
