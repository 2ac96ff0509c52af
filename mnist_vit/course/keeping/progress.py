"""What is solved, and what is in the file: for the learner, and in one table for the teacher of
many."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ...files import shipped
from .. import all_exercises, exercises, rooms
from ..checking import Exercise
from .answers import solved
from .keeper import FILE, parsed, path, read, whose
from .layout import Layout, chunks
from .pieces import BY_EXERCISE, PIECES, NotKept

SECONDS = 120  # for one file of a folder


def progress(folder: str | Path | None = None, run: bool = False) -> None:
    """Print which exercises are solved and whose pieces are in ``my_vit.py``; or a table of a
    folder of such files.

    Args:
        folder: of many learners' files, or of folders with one each: every Python file below it
            that holds a piece.
        run: also run the checks on each file. That executes what others wrote, each file in a
            process of its own with a time limit, but with your rights: only for files of people you
            trust. Otherwise nothing of them is run.
    """
    print(_table(Path(folder).expanduser(), run) if folder is not None else _own())


def _own() -> str:
    file = path()
    try:
        layout, note = parsed(read(file)), ""
    except NotKept as reason:
        layout, note = Layout(), f"{reason}\n"
    done = solved(file) | {
        piece.exercise for name, piece in PIECES.items() if not layout.is_ours(name)
    }
    rows: list[tuple[str, ...]] = [("notebook", "exercise", "solved", f"in {FILE}")]
    for room in rooms():
        for exercise in _in_order(room):
            piece = BY_EXERCISE.get(exercise.name)
            held = ""
            if piece is not None:
                whose_piece = "ours" if layout.is_ours(piece.name) else "yours"
                held = f"{piece.name}, {whose_piece}"
            rows.append((room, exercise.name, "yes" if exercise.name in done else "-", held))
    count = len(done & all_exercises().keys())
    return (
        f"{note}{columns(rows)}\n{count} of {len(rows) - 1} exercises solved\n{FILE}:"
        f" {whose(layout, file)}"
    )


def _in_order(room: str) -> list[Exercise]:
    """The exercises of a notebook, in the order in which they stand there."""
    try:
        text = (shipped("notebooks") / f"{room}.ipynb").read_text("utf-8")
    except OSError:
        text = ""
    return sorted(exercises(room), key=lambda exercise: text.find(f'"exercise:{exercise.name}"'))


def _table(folder: Path, run: bool) -> str:
    files = _files(folder)
    if not files:
        return f"no Python file below {folder} holds a piece such as {next(iter(PIECES))}"
    rows = [("file", *(piece.exercise for piece in PIECES.values()), "pieces")]
    for file in files:
        states = _judged(file) if run else _seen(file)
        own = sum(state in ("own", "right") for state in states)
        rows.append((file.relative_to(folder).as_posix(), *states, str(own)))
    said = (
        "right, wrong: what the check says; run in a process of its own, not in a sandbox"
        if run
        else "own: written by the learner, and not run here (run=True or --run does)"
    )
    return f"{columns(rows)}\n{said}; -: the package's own stands in, or none"


def _files(folder: Path) -> list[Path]:
    """Files that hold a piece; kept answers are none."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        holds_piece = any(f"class {name}(" in text or f"def {name}(" in text for name in PIECES)
        if holds_piece and file.suffixes == [".py"]:
            found.append(file)
    return found


def _seen(file: Path) -> list[str]:
    """For each piece: written by the learner, ours, or no Python. Nothing is executed."""
    layout = parsed(file.read_text("utf-8"))
    states = []
    for name in PIECES:
        try:
            chunks(layout.sections.get(name, ""))
            states.append("-" if layout.is_ours(name) else "own")
        except SyntaxError:
            states.append("no Python")
    return states


def _judged(file: Path) -> list[str]:
    """The same with the verdicts of the checks, from another process, which is stopped after some
    time."""
    seen = _seen(file)
    code = f"from {__name__} import judge; judge({str(file.resolve())!r})"
    here = Path(__file__).resolve().parents[3]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
    }
    with tempfile.TemporaryDirectory(prefix="mnist_vit_") as where:
        env |= {"MNIST_VIT_OUT": where}
        try:
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=where,
                env=env,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS,
                check=False,
            )
            verdicts = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.TimeoutExpired, ValueError, IndexError):
            verdicts = {}
    return [
        state if state != "own" else verdicts.get(name, "stopped")
        for name, state in zip(PIECES, seen, strict=True)
    ]


def judge(file: str) -> None:
    """Print, as JSON, which of the learner's pieces in a file are right. It runs the file."""
    from .trying import mended

    layout = parsed(Path(file).read_text("utf-8"))
    failing = mended(layout, Path(file).parent / "nowhere" / FILE)[1]
    print()
    print(
        json.dumps(
            {
                name: "wrong" if name in failing else "right"
                for name in PIECES
                if not layout.is_ours(name)
            }
        )
    )


def columns(rows: list[tuple[str, ...]]) -> str:
    """A table, each column as wide as its widest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
