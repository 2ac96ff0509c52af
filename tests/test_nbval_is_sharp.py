"""The comparison of ``notebooks/conftest.py``: one table of what must be noticed, and of what may
differ."""

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
from helpers import NOTEBOOKS, ROOT, environment, from_file, notebooks, pictures
from PIL import Image, ImageChops

conftest = from_file(NOTEBOOKS / "conftest.py")

NUMBERS, TRUE = "print('7 of 0.123')", "print('below 1e-06: True')"
ROW = "print('two blocks: 86 % (stored: 84 to 87)  +5 points')"
DRAW = """import matplotlib.pyplot as plt
import mnist_vit.course.drawing
plt.figure(figsize=(8, 3))
plt.plot([1, 2, 3], [1, 3, {}])
plt.show()"""
ENVIRONMENT = """import os
keys = ("CUDA_VISIBLE_DEVICES", "MNIST_VIT_OFFLINE", "TQDM_DISABLE", "MPLBACKEND")
print([os.environ.get(key) for key in keys])
print(os.path.isdir(os.environ["MNIST_VIT_OUT"]))"""
MINE = """import os
print(os.path.isfile(os.path.join(os.environ["MNIST_VIT_OUT"], "my_vit.py")))"""


def text(old: str, new: str) -> Callable[[list], None]:
    """Change the stored text of a cell."""

    def edit(outputs: list) -> None:
        (output,) = outputs
        where, key = (
            (output, "text") if output.output_type == "stream" else (output.data, "text/plain")
        )
        assert old in where[key]
        where[key] = where[key].replace(old, new)

    return edit


def picture(change: Callable[[str], str]) -> Callable[[list], None]:
    """Change the stored picture of a cell."""

    def edit(outputs: list) -> None:
        outputs[0].data["image/png"] = change(outputs[0].data["image/png"])

    return edit


def png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def opened(stored: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(stored))).convert("RGB")


def blank(stored: str) -> str:
    """White paper of a picture's size."""
    return png(Image.new("RGB", opened(stored).size, "white"))


def nudged(pixels: int) -> Callable[[str], str]:
    """The picture, two pixels for each that is shown, moved to the right as another release of
    matplotlib may."""
    return lambda stored: png(ImageChops.offset(opened(stored), pixels, 0))


def plain(outputs: list) -> None:
    """The picture as a display of plain density has it: half as many pixels each way, and not in a
    palette."""
    image = opened(outputs[0].data["image/png"])
    assert image.width == 2 * outputs[0].metadata["image/png"]["width"]
    outputs[0].data["image/png"] = png(image.reduce(2))


def unchanged(outputs: list) -> None:
    """Leave what is stored."""


OTHER: list[str] = []  # the picture of the first cell that draws
CASES: list[
    tuple[str, str, Callable[[list], None], bool]
] = [  # what, cell, what happens to its output, passes
    ("as stored", NUMBERS, unchanged, True),
    ("one unit of the last decimal", NUMBERS, text("0.123", "0.124"), True),
    (
        "one unit, and another digit before it",
        "print('9.99 and -0.01')",
        text("9.99 and -0.01", "10.00 and 0.00"),
        True,
    ),
    ("two units of the last decimal", NUMBERS, text("0.123", "0.125"), False),
    ("another number of decimals", NUMBERS, text("0.123", "0.12"), False),
    ("another sign", NUMBERS, text("0.123", "-0.123"), False),
    ("no number", NUMBERS, text("0.123", "nan"), False),
    ("another integer", NUMBERS, text("7", "8"), False),
    ("another bound", TRUE, text("1e-06", "1e-05"), False),
    ("another word", TRUE, text("True", "False"), False),
    ("a result one unit off", "0.25", text("0.25", "0.26"), True),
    ("another result", "[1, 2.5]", text("1", "3"), False),
    ("output removed", NUMBERS, list.clear, False),
    (
        "output of a silent cell",
        "x = 1",
        lambda outs: outs.append(nbformat.v4.new_output("stream", text="1")),
        False,
    ),
    ("a warning", "import warnings\nwarnings.warn('look')\nprint(1)", unchanged, True),
    ("a progress bar", "import sys\nprint('50 %', file=sys.stderr)", unchanged, True),
    ("the picture as stored", DRAW.format(2), unchanged, True),
    ("the picture, a pixel beside its place", DRAW.format(2), picture(nudged(2)), True),
    ("the picture elsewhere", DRAW.format(2), picture(nudged(16)), False),
    ("another line", DRAW.format(1.9), picture(lambda _: OTHER[0]), False),
    ("a blank picture", DRAW.format(2), picture(blank), False),
    ("no picture", DRAW.format(2), lambda outs: outs[0].data.pop("image/png"), False),
    ("a picture where none is stored", DRAW.format(2), list.clear, False),
    ("the picture of half the density", DRAW.format(2), plain, True),
    ("the kernel's environment", ENVIRONMENT, unchanged, True),
    ("the learner's file", MINE, text("False", "True"), True),
    (
        "whose pieces are in use",
        "print('my_vit.py: all ours')\nprint(1)",
        text("all ours", "yours: some"),
        True,
    ),
    ("only whose pieces are in use", "print('my_vit.py: all ours')", list.clear, True),
    (
        "whose pieces, and something else",
        "print('my_vit.py: all ours')\nprint(1)",
        text("1", "2"),
        False,
    ),
    ("my_vit.py named in a line", "print('this is my_vit.py: 1')", text("1", "2"), False),
    ("a row of the ladder, another accuracy", ROW, text("86 %", "84 %"), True),
    (
        "a row, one more digit",
        "print(f'{99:>3} % (stored: 98 to 100)')",
        text(" 99 %", "100 %"),
        True,
    ),
    ("a row, another range", ROW, text("84 to 87", "83 to 87"), False),
    ("a row, another gain", ROW, text("+5", "+6"), False),
    ("a row, and another number", f"{ROW}\nprint(3)", text("3", "4"), False),
    (
        "a row, and one unit of a last decimal",
        f"{ROW}\nprint(0.25)",
        text("0.25", "0.26"),
        True,
    ),
    ("a row two points outside", ROW.replace("86 %", "89 %"), text("89 %", "84 %"), True),
    ("a row far off", ROW.replace("86 %", "60 %"), text("60 %", "86 %"), False),
    ("a row far off, stored so", ROW.replace("86 %", "60 %"), unchanged, False),
    (
        "two rows, one far off",
        f"{ROW}\n{ROW.replace('86 %', '60 %')}",
        text("60 %", "86 %"),
        False,
    ),
    ("percent without a range", "print('86 % correct')", text("86", "85"), False),
]
LEFT_BY_EDITORS = {
    "collapsed": False,
    "scrolled": True,
    "id": "x",
    "tags": [],
    "execution": {"iopub.status.busy": ""},
}


@pytest.mark.full
def test_nbval_finds_each_difference_in_a_real_notebook(tmp_path: Path) -> None:
    shutil.copy(NOTEBOOKS / "conftest.py", tmp_path)
    path = tmp_path / "cases.ipynb"
    cells = [
        nbformat.v4.new_code_cell(source, metadata=LEFT_BY_EDITORS) for _, source, _, _ in CASES
    ]
    cells[0].metadata.update(
        jupyter={"source_hidden": True, "outputs_hidden": True}, cellView="form", tags=["setup"]
    )
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    command = [sys.executable, "-m", "tools", "outputs", path]
    env = environment(MPLBACKEND="Agg")
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=env, timeout=300)

    notebook = nbformat.read(path, as_version=4)
    (tmp_path / "my_vit.py").write_text("")
    collapsed = {"tags": ["setup"], "jupyter": {"source_hidden": True}, "cellView": "form"}
    assert [cell.metadata for cell in notebook.cells] == [collapsed] + [{}] * (len(CASES) - 1)
    assert all(
        Image.open(io.BytesIO(base64.b64decode(stored))).mode == "P" for _, stored in pictures(path)
    )
    OTHER[:] = [stored for _, stored in pictures(path)]
    for cell, (_, _, edit, _) in zip(notebook.cells, CASES, strict=True):
        edit(cell.outputs)
    nbformat.write(notebook, path)
    removed = copy.deepcopy(notebook)
    del removed.cells[5]
    nbformat.write(removed, tmp_path / "removed.ipynb")
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
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--nbval",
        "--nbval-current-env",
        f"--junitxml={report}",
        ".",
    ]
    env = environment(MPLBACKEND="Agg")
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=300)
    assert report.is_file(), run.stdout + run.stderr
    passed: dict[str, list[bool]] = {"cases": [], "removed": [], "stripped": []}
    for case in ElementTree.parse(report).iter("testcase"):
        stem = next(
            stem for stem in passed if stem in case.get("classname", "") + case.get("name", "")
        )
        passed[stem].append(case.find("failure") is None and case.find("error") is None)
    return passed


@pytest.mark.full
def test_every_stored_picture_is_told_from_a_blank_one_and_from_its_neighbour() -> None:
    for path in notebooks():
        stored = [stored for _, stored in pictures(path)]
        for number, one in enumerate(stored):
            assert not conftest.same_picture(one, blank(one)), (
                f"{path.name}: picture {number} is as good as empty"
            )
        for number, (one, other) in enumerate(pairwise(stored)):
            assert not conftest.same_picture(one, other), (
                f"{path.name}: pictures {number} and {number + 1} look alike"
            )
