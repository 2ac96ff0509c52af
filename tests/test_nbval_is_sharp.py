"""The comparison of ``notebooks/conftest.py``: what must fail does, and one unit in the last decimal passes."""

import base64
import copy
import io
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from helpers import NOTEBOOKS, environment, from_file, notebooks, pictures
from matplotlib import pyplot as plt
from PIL import Image, ImageChops

from mnist_vit.plots import base

conftest = from_file(NOTEBOOKS / "conftest.py")


# ---------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("loss 0.123", "loss 0.124"),
        ("loss 0.123", "loss 0.122"),
        ("9.99 and 10.00", "10.00 and 9.99"),
        ("-0.01", "0.00"),
        ("-0.0", "0.0"),
        ("the same", "the same"),
    ],
)
def test_one_unit_of_the_last_decimal_passes(stored: str, fresh: str) -> None:
    assert conftest.agree_text(fresh, stored) == stored


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("loss 0.123", "loss 0.125"),
        ("loss 0.123", "loss 1.123"),
        ("loss 0.123", "loss -0.123"),
        ("loss 0.123", "loss 0.12"),
        ("loss 0.12", "loss 0.123"),
        ("0.12 then 0.20", "0.12 then 0.22"),
        ("3 digits, 0.12", "4 digits, 0.12"),
        ("96 tokens", "97 tokens"),
        ("below 1e-06: True", "below 1e-05: True"),
        ("below 0.1: True", "below 0.1: False"),
        ("0.12", "0.12 0.12"),
        ("0.12", ""),
        ("0.12", "nan"),
        ("(2, 0.5)", "[2, 0.5]"),
    ],
)
def test_every_other_difference_stays_one(stored: str, fresh: str) -> None:
    assert conftest.agree_text(fresh, stored) == fresh != stored


# ------------------------------------------------------------------------------------------ pictures


def test_every_stored_picture_is_told_from_a_blank_one_and_from_its_neighbour() -> None:
    told = []
    for path in notebooks():
        stored = [picture for _, picture in pictures(path)]
        told += stored
        for number, picture in enumerate(stored):
            assert conftest.same_picture(picture, picture)
            assert not conftest.same_picture(picture, blank(picture)), (
                f"{path.name}: picture {number} is as good as empty"
            )
        for number, (one, other) in enumerate(pairwise(stored)):
            assert not conftest.same_picture(one, other), (
                f"{path.name}: pictures {number} and {number + 1} look the same"
            )
    assert len(told) > 1


@pytest.mark.parametrize(("width", "height"), [(4, 3), (8, 3), (12, 6)])
@pytest.mark.parametrize("colour", [base.BLUE, base.ORANGE, base.SKY])
def test_another_line_is_another_picture(width: float, height: float, colour: str) -> None:
    def line(end: float) -> str:
        drawn, (axes,) = base.figure(width=width, height=height)
        axes.plot([1, 2, 3], [1, 3, end], color=colour)
        file = io.BytesIO()
        drawn.savefig(file, format="png")
        plt.close(drawn)
        return base64.b64encode(file.getvalue()).decode()

    assert conftest.same_picture(line(2), line(2))
    assert not conftest.same_picture(line(2), line(1.9))
    assert conftest.same_picture(line(2), nudged(line(2), 1))  # as another release of matplotlib may
    assert not conftest.same_picture(line(2), nudged(line(2), 8))


def nudged(picture: str, pixels: int) -> str:
    """A picture, moved to the right."""
    return png(ImageChops.offset(Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB"), pixels, 0))


def blank(picture: str) -> str:
    """White paper of a picture's size."""
    return png(Image.new("RGB", Image.open(io.BytesIO(base64.b64decode(picture))).size, "white"))


def png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


# --------------------------------------------------------------------------------------- end to end

ENVIRONMENT = """import os
print([os.environ.get(key) for key in ("CUDA_VISIBLE_DEVICES", "MNIST_VIT_OFFLINE", "TQDM_DISABLE", "MPLBACKEND")])
print(os.path.isdir(os.environ["MNIST_VIT_OUT"]))"""
DRAW = """import matplotlib.pyplot as plt
plt.figure(figsize=(3, 2))
plt.{}([1, 2, 3], [1, 3, 2])
plt.show()"""


def edit_text(old: str, new: str) -> Callable[[list], None]:
    """Change the stored text of a cell."""

    def edit(outputs: list) -> None:
        (output,) = outputs
        where = output if output.output_type == "stream" else output.data
        key = "text" if output.output_type == "stream" else "text/plain"
        assert old in where[key]
        where[key] = where[key].replace(old, new)

    return edit


def edit_picture(change: Callable[[str], str | None]) -> Callable[[list], None]:
    """Change the stored picture of a cell, or take it away."""

    def edit(outputs: list) -> None:
        picture = change(outputs[0].data.pop("image/png"))
        if picture is not None:
            outputs[0].data["image/png"] = picture

    return edit


def unchanged(outputs: list) -> None:
    """Leave what is stored."""


CASES: list[tuple[str, str, Callable[[list], None], bool]] = [  # what, cell, what happens to its output, passes
    ("as stored", "print('7 of 0.123')", unchanged, True),
    ("one unit of the last decimal", "print('7 of 0.123')", edit_text("0.123", "0.124"), True),
    ("two units of the last decimal", "print('7 of 0.123')", edit_text("0.123", "0.125"), False),
    ("another integer", "print('7 of 0.123')", edit_text("7", "8"), False),
    ("another word", "print('equal: True')", edit_text("True", "False"), False),
    ("a result one unit off", "0.25", edit_text("0.25", "0.26"), True),
    ("another result", "[1, 2.5]", edit_text("1", "3"), False),
    ("output removed", "print('7 of 0.123')", list.clear, False),
    (
        "output of a silent cell",
        "x = 1",
        lambda outputs: outputs.append(nbformat.v4.new_output("stream", text="1")),
        False,
    ),
    ("a warning", "import warnings\nwarnings.warn('look')\nprint(1)", unchanged, True),
    ("a progress bar", "import sys\nprint('50 %', file=sys.stderr)", unchanged, True),
    ("the picture as stored", DRAW.format("plot"), unchanged, True),
    ("another picture", DRAW.format("bar"), edit_picture(lambda _: OTHER[0]), False),
    ("a blank picture", DRAW.format("plot"), edit_picture(lambda picture: blank(picture)), False),
    ("no picture", DRAW.format("plot"), edit_picture(lambda _: None), False),
    ("a picture where none is stored", DRAW.format("plot"), list.clear, False),
    ("the kernel's environment", ENVIRONMENT, unchanged, True),
]
OTHER: list[str] = []


def test_nbval_finds_each_difference_in_a_real_notebook(tmp_path: Path) -> None:
    shutil.copy(NOTEBOOKS / "conftest.py", tmp_path)
    path = tmp_path / "cases.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for _, source, _, _ in CASES]), path
    )
    command = [sys.executable, NOTEBOOKS / "refresh.py", path]
    subprocess.run(command, check=True, capture_output=True, env=environment(MPLBACKEND="Agg"), timeout=300)

    notebook = nbformat.read(path, as_version=4)
    OTHER[:] = [picture for number, picture in pictures(path) if CASES[number][0] == "the picture as stored"]
    for cell, (_, _, edit, _) in zip(notebook.cells, CASES, strict=True):
        edit(cell.outputs)
    nbformat.write(notebook, path)
    whole = copy.deepcopy(notebook)
    del notebook.cells[5]
    nbformat.write(notebook, tmp_path / "removed.ipynb")
    notebook = whole
    for cell in notebook.cells:
        cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, tmp_path / "stripped.ipynb")

    names, passed = [what for what, *_ in CASES], nbval(tmp_path)
    assert dict(zip(names, passed["cases"], strict=True)) == {what: ok for what, _, _, ok in CASES}
    assert passed["removed"] == [False] * (len(CASES) - 1)
    assert passed["stripped"] == [False] * len(CASES)


def nbval(folder: Path) -> dict[str, list[bool]]:
    """Run nbval on a folder, in a process of its own: which cells of each notebook passed."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", f"--junitxml={report}", "."]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment(MPLBACKEND="Agg"), timeout=300
    )
    assert report.is_file(), run.stdout + run.stderr
    passed: dict[str, list[bool]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        stem = next(
            stem
            for stem in ("cases", "removed", "stripped")
            if stem in case.get("classname", "") + case.get("name", "")
        )
        passed.setdefault(stem, []).append(case.find("failure") is None and case.find("error") is None)
    return passed
