"""What is solved, and what is in the file: for the learner, and for the teacher of many."""

import json
import re
from collections import Counter
from pathlib import Path

from ...errors import printable
from ...files import existing, shipped
from .. import all_exercises, exercises, rooms
from ..checking import Exercise
from .answers import solved
from .judging import verdicts_of
from .keeper import FILE, in_answers, parsed, path, read, whose
from .layout import Layout
from .learners import learners
from .pieces import BY_EXERCISE, PIECES, NotKept

YES_NO = ("-", "yes")


def progress(folder: str | Path | None = None, run: bool = False) -> None:
    """Print which exercises are solved and whose pieces are in ``my_vit.py``; or a table of a
    folder of such files.

    Args:
        folder: of many learners' files, or of folders with one each; a folder without one has a
            row, too.
        run: also run the checks on each file. That executes what others wrote, each file in a
            process of its own with a time limit, but with your rights: only for files of people you
            trust. Otherwise nothing of them is run.
    """
    if folder is None:
        print(_own())
    else:
        print(_table(existing(folder), run))


def _own() -> str:
    file = path()
    try:
        layout, note = parsed(read(file)), ""
    except NotKept as reason:
        layout, note = Layout(), f"{reason}\n"
    done = solved(file)
    for name, piece in PIECES.items():
        if not layout.is_ours(name):
            done.add(piece.exercise)
    rows: list[tuple[str, ...]] = [("notebook", "exercise", "solved", f"in {FILE}")]
    for room in rooms():
        for exercise in _in_order(room):
            kept = BY_EXERCISE.get(exercise.name)
            held = ""
            if kept is not None and layout.is_ours(kept.name):
                held = f"{kept.name}, ours"
            elif kept is not None:
                held = f"{kept.name}, yours"
            rows.append((room, exercise.name, YES_NO[exercise.name in done], held))
    count = len(done & all_exercises().keys())
    return (
        f"{note}{columns(rows)}\n{count} of {len(rows) - 1} exercises solved\n{FILE}:"
        f" {'; '.join([whose(layout, file), *in_answers(layout, file)])}"
    )


def _in_order(room: str) -> list[Exercise]:
    """The exercises of a notebook, in the order in which they stand there."""
    try:
        text = (shipped("notebooks") / f"{room}.ipynb").read_text("utf-8")
    except OSError:
        text = ""
    return sorted(exercises(room), key=lambda exercise: text.find(f'"exercise:{exercise.name}"'))


def _table(folder: Path, run: bool) -> str:
    found, notes = learners(folder)
    rows = [("file", *BY_EXERCISE, "pieces", "note")]
    for one in found:
        states, note = dict(zip(PIECES, one.states, strict=True)), one.note
        if run and "own" in one.states:
            verdicts, why = verdicts_of(one.layout)
            note = "; ".join(filter(None, [note, why]))
            for name, state in states.items():
                if state == "own":
                    states[name] = verdicts.get(name, "stopped")
        count = Counter(states.values())
        own = count["own"] + count["right"]
        rows.append((_quoted(one.name), *states.values(), str(own), printable(note)))
    said = "own: written by the learner, and not run here (run=True or --run does)"
    if run:
        said = "right, wrong: what the check says; run in a process of its own, not in a sandbox"
    said += "; -: the package's own stands in, or none"
    return "\n".join([columns(rows), said, *notes])


def _quoted(name: str) -> str:
    """A name that cannot be taken for other columns, or for other rows."""
    name = printable(name)
    if re.search(r'[\s"]', name):
        return json.dumps(name, ensure_ascii=False)
    return name


def columns(rows: list[tuple[str, ...]]) -> str:
    """A table, each column as wide as its widest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
