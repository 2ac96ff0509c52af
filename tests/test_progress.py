"""``mnist-vit progress FOLDER``: a row for everybody, and a verdict that no file can forge."""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from helpers import environment, some

from mnist_vit import check
from mnist_vit.__main__ import main
from mnist_vit.course.keeping import reports
from mnist_vit.course.keeping.reports import places

RIGHT = """import torch


def my_attention(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights
"""
WRONG = RIGHT.replace("dim=-1", "dim=-2")
HEADED = (
    "import torch\n\n# ---- my_attention: notebook 02, exercise attention "
    + "-" * 30
    + "\n"
    + RIGHT.partition("\n\n\n")[2]
)

Table = Callable[..., dict[str, str]]


@pytest.fixture
def table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Table:
    """A function that writes files, asks for the table, and gives its rows by their first word."""

    def made(files: dict[str, str | bytes], run: bool = False) -> dict[str, str]:
        for name, content in files.items():
            path = tmp_path / "class" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        capsys.readouterr()
        check.progress(tmp_path / "class", run)
        lines = capsys.readouterr().out.splitlines()
        return {line.split()[0]: line for line in lines if line.strip()}

    return made


LEFT_OUT = {  # what lies there, the row that must be, what it must say
    "not UTF-8": ({"eva/my_vit.py": RIGHT.encode("utf-16")}, "eva/my_vit.py", "not UTF-8"),
    "not UTF-8, another name": ({"eva.py": b"# caf\xe9\n" + RIGHT.encode()}, "eva.py", "not UTF-8"),
    "an empty folder": ({"eva/": ""}, "eva/", "no my_vit.py"),
    "a folder in a group": ({"a/eva/": "", "a/bob/my_vit.py": RIGHT}, "a/eva/", "no my_vit.py"),
    "a folder without Python": ({"eva/notes.txt": "x"}, "eva/", "no my_vit.py"),
    "an empty file": ({"eva/my_vit.py": ""}, "eva/my_vit.py", "no piece"),
    "another file": ({"eva/other.py": "print(1)"}, "eva/other.py", "no piece"),
    "broken in the first line": (
        {"eva.py": RIGHT.replace("import torch", "improt torch")},
        "eva.py",
        "line 1",
    ),
    "broken where it begins": (
        {"eva.py": RIGHT.replace("def my_attention(", "def my_attention[")},
        "eva.py",
        "line 4",
    ),
    "broken in one line": ({"eva.py": RIGHT.replace("return", "retrun")}, "eva.py", "line 6"),
    "broken in a section": (
        {"eva.py": HEADED.replace("return", "retrun")},
        "eva.py",
        "no Python",
    ),
    "a name with dots": ({"eva.b.py": RIGHT}, "eva.b.py", "own"),
    "a name that ends otherwise": ({"eva/my_vit.PY": RIGHT}, "eva/my_vit.PY", "own"),
    "another spelling": ({"eva/My_Vit(1).py": RIGHT}, "eva/My_Vit(1).py", "own"),
    "a mark of byte order": ({"eva.py": b"\xef\xbb\xbf" + RIGHT.encode()}, "eva.py", "own"),
    "Windows' lines": ({"eva.py": HEADED.replace("\n", "\r\n")}, "eva.py", "own"),
    "old Macs' lines": ({"eva.py": RIGHT.replace("\n", "\r")}, "eva.py", "own"),
    "null bytes": ({"eva.py": RIGHT + "x = '\0'"}, "eva.py", "null byte"),
    "a megabyte of dashes": ({"eva.py": "-" * 1_000_000}, "eva.py", "large"),
    "dashes": ({"eva.py": RIGHT + "x = " + "-" * 20_000 + "1"}, "eva.py", "no Python"),
    "brackets": ({"eva.py": RIGHT + "x = " + "(" * 900 + ")" * 900}, "eva.py", "no Python"),
    "dots": ({"eva.py": RIGHT + "x = x" + ".x" * 20_000}, "eva.py", ""),
    "a folder called like a file": ({"my_vit.py/": ""}, "my_vit.py/", "no my_vit.py"),
    "an edited heading": (
        {"eva.py": HEADED.replace("my_attention:", "my_other:")},
        "eva.py",
        "own",
    ),
    "a hidden folder": ({".eva/my_vit.py": RIGHT}, ".eva/my_vit.py", "own"),
    "a word in a string": ({"eva.py": "x = 'class MyMLPBlock('"}, "eva.py", "no piece"),
    "nested additions": ({"eva.py": f"{RIGHT}x = {'1+' * 20_000}1"}, "eva.py", "no Python"),
    "spaces": ({"Eva  B/my_vit.py": RIGHT}, '"Eva', "own"),
    "in my_answers' place": ({"my_answers.py": RIGHT}, "my_answers.py", "own"),
    "a file called .py": ({".py": RIGHT}, ".py", "own"),
    "a file called conftest": ({"conftest.py": RIGHT}, "conftest.py", "own"),
    "a folder called site-packages": (
        {"site-packages/my_vit.py": RIGHT},
        "site-packages/my_vit.py",
        "own",
    ),
    "a folder called my_answers": ({"my_answers/my_vit.py": RIGHT}, "my_answers/my_vit.py", "own"),
    "a file that was packed": ({"eva.zip": b"PK"}, "not", "no .py files: eva.zip"),
    "a folder called solutions": ({"solutions/my_vit.py": RIGHT}, "solutions/my_vit.py", "own"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_everybody_has_a_row(case: str, table: Table) -> None:
    files, name, words = LEFT_OUT[case]
    rows = table({"ada/my_vit.py": RIGHT, **files})
    assert "own" in rows["ada/my_vit.py"]
    assert words in rows[name]


def test_special_files_have_a_row_and_nobody_waits(table: Table, tmp_path: Path) -> None:
    folder = tmp_path / "class"
    (folder / "pipe").mkdir(parents=True)
    os.mkfifo(folder / "pipe" / "my_vit.py")
    (folder / "gone.py").symlink_to(tmp_path / "nowhere")
    (folder / "endless.py").symlink_to("/proc/kmsg")
    (folder / "round").mkdir()
    (folder / "round" / "again").symlink_to(folder)
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "my_vit.py").write_text(RIGHT)
    (folder / "linked").symlink_to(tmp_path / "away")
    (folder / "zoe").symlink_to(tmp_path / "away")
    (folder / "mia").mkdir()
    (folder / "mia" / "disk").symlink_to("/")
    rows = table({"ada.py": RIGHT})
    assert "not a file" in rows["pipe/my_vit.py"]
    assert "No such file" in rows["gone.py"]
    assert "endless.py" in rows
    assert "own" in rows["linked/my_vit.py"]
    assert "round/" in rows
    assert "a link to a folder that is listed" in rows["zoe/"]
    assert "no my_vit.py" in rows["mia/"]
    assert len(rows) < 15, "a link to the disk is not followed"


def test_what_is_no_learners_is_no_row(table: Table) -> None:
    solutions = {
        f"ada/solutions/{path.name}": path.read_text()
        for path in (Path(check.__file__).parents[1] / "notebooks" / "solutions").glob("*.py")
    }
    rows = table(
        {
            "ada/my_vit.py": RIGHT,
            "ada/my_answers/attention.1.py": RIGHT,
            "ada/__pycache__/x.py": RIGHT,
            "ada/.ipynb_checkpoints/my_vit.py": RIGHT,
            "ada/figures/a.png": "",
            **solutions,
        }
    )
    assert not any("solutions/" in name for name in rows)
    assert not any("my_answers/" in name for name in rows)
    assert not any("figures" in name for name in rows)
    assert sum("ada" in name for name in rows) == 1


@pytest.mark.parametrize(
    "name",
    ["a\x1b[2Jb.py", "a\nb  own  own.py", "a\rb.py", "a\u202eb.py", "a\x07.py", "a\u200bb.py"],
)
def test_names_are_printed_so_that_they_forge_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(RIGHT)
    check.progress(tmp_path)
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    pieces = out.rpartition("\n\n")[2].splitlines()
    assert sum(" own" in line for line in pieces) == 2, "one row and the legend"


def test_a_name_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(os.fsencode(tmp_path) + b"/a\xff.py", "w") as file:
        file.write(RIGHT)
    check.progress(tmp_path)
    out = capsys.readouterr().out
    out.encode("utf-8")
    assert "own" in out


def test_ours_is_not_own(table: Table) -> None:
    ours = "from mnist_vit.model import MLPBlock as MyMLPBlock\n"
    rows = table({"ada.py": ours, "bob.py": ours.replace("\n", "  # mine\n"), "eva.py": RIGHT})
    assert "own" not in rows["ada.py"]
    assert "own" not in rows["bob.py"]


def test_one_file_has_a_table_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my_vit.py").write_text(RIGHT)
    check.progress(tmp_path / "my_vit.py")
    assert "own" in capsys.readouterr().out


def test_a_missing_folder_is_told_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mnist_vit", "progress", tmp_path / "none"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=100,
        check=False,
    )
    assert done.returncode == 2
    assert f"there is no folder {tmp_path / 'none'}" in done.stderr
    assert "torch" not in done.stderr


# ------------------------------------------------------------------------------------- with --run

WORD = '{"my_attention": "right", "MyMLPBlock": "right"}'
FORGED = {
    "printed at exit": f"import atexit\natexit.register(lambda: print({WORD!r}))\n",
    "written, and ended": (
        f"import os\nos.write(1, b'\\n' + {WORD!r}.encode() + b'\\n')\nos._exit(0)\n"
    ),
    "written everywhere": (
        "import os\nfor fd in range(1, 60):\n    try:\n        os.write(fd, b'\\n' + "
        f"{WORD!r}.encode() + b'\\n')\n    except OSError:\n        pass\nos._exit(0)\n"
    ),
    "a thread at the end": (
        "import threading, time, os\ndef late():\n    time.sleep(60)\n    os.write(1, "
        f"{WORD!r}.encode())\nthreading.Thread(target=late).start()\n"
    ),
    "an exit": "raise SystemExit(0)\n",
    "print replaced": (
        f"import builtins\nold = print\nbuiltins.print = lambda *a, **k: old({WORD!r})\n"
    ),
    "json replaced": f"import json\njson.dumps = lambda *a, **k: {WORD!r}\n",
    "stdout replaced": (
        "import sys\nclass Out:\n    def write(self, text): sys.__stdout__.write("
        f"{WORD!r})\n    def flush(self): pass\nsys.stdout = Out()\n"
    ),
    "the verdict replaced": (
        "import mnist_vit.course.keeping.trying as t\nt.judge = lambda *a: None\n"
        "t.problem_of = lambda *a: ''\nt._problem = lambda *a: ''\n"
    ),
}


@pytest.mark.parametrize("case", some(FORGED, "written everywhere"))
def test_no_file_can_forge_its_verdict(case: str, table: Table) -> None:
    rows = table({"eva.py": FORGED[case] + WRONG}, run=True)
    assert " right" not in rows["eva.py"], rows["eva.py"]


@pytest.mark.full
def test_the_verdicts_are_those_of_the_checks(table: Table) -> None:
    noisy = "print('{}' * 100)\n" + RIGHT
    rows = table({"ada.py": noisy, "bob.py": WRONG}, run=True)
    assert " right" in rows["ada.py"]
    assert " wrong" in rows["bob.py"]


@pytest.mark.full
def test_an_endless_file_ends_with_progress(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "eva.py").write_text(
        f"import time\nwhile True:\n    open({str(mark)!r}, 'w').close()\n    time.sleep(0.1)\n"
        + RIGHT
    )
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        mark.unlink(missing_ok=True)
        run = subprocess.Popen(
            [sys.executable, "-m", "mnist_vit", "progress", tmp_path / "class", "--run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        for _ in range(600):
            if mark.exists():
                break
            time.sleep(0.2)
        run.send_signal(end)
        run.communicate(timeout=300)
        time.sleep(2)
        mark.unlink(missing_ok=True)
        time.sleep(1)
        assert not mark.exists(), end


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("/nowhere/at/all", "there is no folder /nowhere/at/all"),
        ("~nosuchuser", "~nosuchuser has no home folder"),
        ("~nosuchuser/x", "~nosuchuser/x has no home folder"),
    ],
)
def test_the_command_line_asks_for_a_folder(
    folder: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["progress", folder]) == 2
    assert words in capsys.readouterr().err


# ------------------------------------------------------------------------- all exercises, a class


def notebook(**said: str) -> str:
    """A notebook with the output of some checks."""
    cells = []
    for name, text in said.items():
        output = nbformat.v4.new_output("stream", text=f"{name}: {text}\n")
        cell = nbformat.v4.new_code_cell(f"check.{name}(a)", outputs=[output])
        cell.metadata["tags"] = [f"check:{name}"]
        cells.append(cell)
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


def told(folder: Path, capsys: pytest.CaptureFixture[str], **more: object) -> str:
    capsys.readouterr()
    check.progress(folder, **more)
    return capsys.readouterr().out


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_class_and_all_exercises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(
        tmp_path / "class",
        {
            "ada/my_vit.py": RIGHT,
            "ada/my_answers/softmax_rows.1.py": "def my_softmax_rows(s): ...",
            "ada/02_attention.ipynb": notebook(entropy="correct (tested: a, b)"),
            "bob/02_attention.ipynb": notebook(
                softmax_rows="right shape, wrong numbers. You sum over the wrong axis.",
                entropy="not solved yet. Replace the stub's last line",
                no_such_exercise="correct",
            ),
        },
    )
    table = tmp_path / "class.csv"
    out = told(folder, capsys, csv=table)
    head, ada, bob = out.splitlines()[1:4]
    column = head.split().index("02")
    count = sum(place.notebook.startswith("02") for place in places().values())
    assert ada.split()[column] == f"3/{count}"
    assert bob.split()[column] == f"0/{count}"
    lines = [line.split() for line in out.splitlines()]
    assert ["02_attention", "softmax_rows", "more", "1", "1", "0"] in lines
    assert ["02_attention", "entropy", "more", "1", "0", "1"] in lines
    (failing,) = [line for line in out.splitlines() if "You sum over the wrong axis." in line]
    assert failing.split()[:3] == ["02_attention", "softmax_rows", "bob/"]
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(places()) == 2 * len(check.EXERCISES)
    found = {(row["file"], row["exercise"]): row["state"] for row in rows}
    assert found["ada/my_vit.py", "softmax_rows"] == "solved"
    assert found["ada/my_vit.py", "attention"] == "own"
    assert found["bob/", "softmax_rows"] == "failed"
    assert found["bob/", "entropy"] == "-"


def test_the_core_of_a_notebook_ends_at_its_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = nbformat.reads(notebook(softmax_rows="-", entropy="-"), as_version=4)
    made.cells.insert(1, nbformat.v4.new_markdown_cell("## More\n\nfor those who like it"))
    (tmp_path / "02_attention.ipynb").write_text(nbformat.writes(made))
    monkeypatch.setattr(reports, "shipped", lambda _: tmp_path)
    assert reports._parts("02_attention") == {"softmax_rows": "core", "entropy": "more"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"cells": 3}',
        '{"cells": [3, {"metadata": 3}, {"metadata": {"tags": [3]}}]}',
        '{"cells": [{"metadata": {"tags": ["check:entropy"]}, "outputs": [3, {"text": 3}]}]}',
        '{"cells": [{"metadata": {"tags": ["check:entropy"]}, "outputs": 3}]}',
    ],
)
def test_a_notebook_that_is_none_tells_nothing(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(write(tmp_path, {"eva/my_vit.py": RIGHT, "eva/x.ipynb": text}), capsys)
    assert "eva/my_vit.py" in out
    assert "fails" not in out


def test_what_others_wrote_forges_no_row_and_no_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "=HYPERLINK(1)\x1b[2J\u202e"
    files = {"=1+1/my_vit.py": RIGHT, "=1+1/x.ipynb": notebook(entropy=said)}
    table = tmp_path / "class.csv"
    out = told(write(tmp_path / "class", files), capsys, csv=table)
    assert all(line.isprintable() for line in out.splitlines())
    for row in csv.reader(table.read_text(encoding="utf-8").splitlines()):
        assert not any(cell.startswith("=") for cell in row)


def test_a_table_is_a_csv_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my_vit.py").write_text(RIGHT)
    assert main(["progress", str(tmp_path), "--csv", str(tmp_path / "my_vit.py")]) == 2
    assert "--csv must be a .csv file" in capsys.readouterr().err
    assert (tmp_path / "my_vit.py").read_text() == RIGHT


@pytest.mark.full
def test_a_wrong_piece_is_told_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(write(tmp_path, {"eva/my_vit.py": WRONG}), capsys, run=True)
    (line,) = [line for line in out.splitlines() if line.startswith("02_attention")]
    assert "eva/my_vit.py" in line
    assert "you take the softmax over the queries" in line
