"""The maintainers' commands: a refreshed notebook keeps its cells' ids; every command is listed."""

import subprocess
import sys

import nbformat
import pytest
from helpers import ROOT, environment

from mnist_vit.training import _line
from tools import notebooks, outputs
from tools.__main__ import COMMANDS


def ids(cells: list[nbformat.NotebookNode]) -> list[str]:
    return [cell.id for cell in cells]


def test_cells_keep_their_ids_and_new_ones_get_new_ones() -> None:
    cells = nbformat.read(notebooks()[1], as_version=4).cells
    before = ids(cells)
    outputs.give_ids(cells, "01_mlp")
    assert ids(cells) == before, "stored notebooks are stable"

    without_id = nbformat.v4.new_markdown_cell("new")
    del without_id["id"]
    copied = cells[5].copy()
    of_an_editor = nbformat.v4.new_code_cell("2 + 2", id="4f1d2c3b")
    cells[10:10] = [without_id, copied, of_an_editor]
    outputs.give_ids(cells, "01_mlp")
    after = ids(cells)
    assert after[:10] + after[13:] == before, "no cell is renumbered"
    assert after[12] == "4f1d2c3b"
    assert not {after[10], after[11]} & set(before)
    assert len(set(after)) == len(after)
    assert all(one.startswith("01-mlp-") for one in after[10:12])


def test_a_refreshed_notebook_keeps_its_ids(tmp_path) -> None:
    cells = [
        nbformat.v4.new_markdown_cell("# A title", id="first"),
        nbformat.v4.new_code_cell("print(1)", id="x-007", metadata={"collapsed": False}),
        nbformat.v4.new_code_cell("print(2)", id="x-001"),
    ]
    path = tmp_path / "x.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    outputs.refresh(path)
    fresh = nbformat.read(path, as_version=4).cells
    assert ids(fresh) == ["first", "x-007", "x-001"]
    assert [cell.outputs[0].text for cell in fresh[1:]] == ["1\n", "2\n"]
    assert fresh[1].metadata == {}


def test_lines_of_epochs_are_neither_stored_nor_compared() -> None:
    row = {"epoch": 3, "loss": 0.25, "validation_accuracy": 0.9, "seconds": 12.3}
    line = _line(row, 12) + "\n"
    kept = "epoch 3 was the best\n"
    made = [nbformat.v4.new_output("stream", text=text) for text in (line, line + kept)]
    cell = nbformat.v4.new_code_cell("train()", outputs=made)
    nbval = outputs.conftest()
    assert [one["text"] for one in nbval.without_whose(made)] == [kept]
    outputs.drop_epochs(nbformat.v4.new_notebook(cells=[cell]), nbval.EPOCH)
    assert [one.text for one in cell.outputs] == [kept]


def test_the_recipe_for_nbgrader_marks_every_exercise(tmp_path) -> None:
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    script = page.partition("<!-- nbgrader -->\n```python\n")[2].partition("```")[0]
    path = next(path for path in notebooks() if path.stem == "02_attention")
    command = [sys.executable, "-c", script, str(path), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    cells = nbformat.read(tmp_path / path.name, as_version=4).cells
    marked = [cell for cell in cells if "nbgrader" in cell.metadata]
    exercises = [cell for cell in marked if cell.metadata["nbgrader"]["solution"]]
    checks = [cell for cell in marked if cell.metadata["nbgrader"]["grade"]]
    assert len(exercises) == len(checks) == path.read_text(encoding="utf-8").count('"exercise:') > 3
    assert all("### BEGIN SOLUTION" in cell.source for cell in exercises)
    for cell in checks:
        compile(cell.source, "hidden", "exec")
        name = cell.metadata["nbgrader"]["grade_id"].removeprefix("check_")
        assert f'all_exercises()["{name}"]' in cell.source


@pytest.mark.parametrize("words", [[], ["--help"], ["nothing"]])
def test_the_commands_are_listed(words: list[str]) -> None:
    command = [sys.executable, "-m", "tools", *words]
    run = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert run.returncode == (words == ["nothing"])
    for name in COMMANDS:
        assert f"\n{name} " in run.stdout
        assert (ROOT / "tools" / f"{name}.py").is_file()
