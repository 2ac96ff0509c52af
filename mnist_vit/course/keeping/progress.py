"""What is solved, and what is in the file: for the learner, and for the teacher of many."""

import json
import re
from pathlib import Path

from ...errors import printable
from ...files import existing, shipped
from .. import all_exercises, exercises, rooms
from ..checking import Exercise
from .answers import solved
from .judging import verdicts_of
from .keeper import FILE, in_answers, parsed, path, read, whose
from .layout import Layout
from .learners import Learner, learners
from .pieces import BY_EXERCISE, PIECES, NotKept
from .reports import piece_states, states_of
from .tables import by_exercise, by_notebook, check_table, columns, stuck, write_table

YES_NO = ("-", "yes")


def progress(
    folder: str | Path | None = None, run: bool = False, csv: str | Path | None = None
) -> None:
    """Print which exercises are solved and whose pieces are in ``my_vit.py``; or the tables of a
    class.

    The tables tell how many exercises of each notebook each learner has solved, where the last
    check failed and what it said, how many have solved each exercise, and which pieces are the
    learners' own.

    Args:
        folder: of many learners' files, or of folders with one each; a folder without one has a
            row, too.
        run: also run the checks on each file. That executes what others wrote, each file in a
            process of its own with a time limit, but with your rights: only for files of people you
            trust. Otherwise nothing of them is run.
        csv: also write a row for each learner and exercise to this .csv file.
    """
    if folder is None:
        print(_own())
    else:
        print(_tables(existing(folder), run, csv))


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


def _tables(folder: Path, run: bool, csv: str | Path | None) -> str:
    if csv is not None:
        check_table(csv)
    found, notes = learners(folder)
    rows = [("file", *BY_EXERCISE, "pieces", "note")]
    states = []
    for one in found:
        pieces, why, note = _judged(one, run)
        states.append(states_of(one, pieces, why))
        own = sum(state in ("own", "right") for state in pieces.values())
        rows.append((_quoted(one.name), *pieces.values(), str(own), printable(note)))
    said = "own: written by the learner, and not run here (run=True or --run does)"
    if run:
        said = "right, wrong: what the check says; run in a process of its own, not in a sandbox"
    said += "; -: the package's own stands in, or none"
    names = [_quoted(one.name) for one in found]
    parts = [by_notebook(names, states), by_exercise(states), stuck(names, states)]
    parts.append("\n".join([columns(rows), said, *notes]))
    if csv is not None:
        parts.append(f"written to {write_table(csv, [one.name for one in found], states)}")
    return "\n\n".join(filter(None, parts))


def _judged(learner: Learner, run: bool) -> tuple[dict[str, str], dict[str, str], str]:
    """The states of the pieces, what is said of wrong ones, and the note of a row."""
    states = piece_states(learner)
    if not run or "own" not in learner.states:
        return states, {}, learner.note
    verdicts, reasons, why = verdicts_of(learner.layout)
    for name, state in states.items():
        if state == "own":
            states[name] = verdicts.get(name, "stopped")
    return states, reasons, "; ".join(filter(None, [learner.note, why]))


def _quoted(name: str) -> str:
    """A name that cannot be taken for other columns, or for other rows."""
    name = printable(name)
    if re.search(r'[\s"]', name):
        return json.dumps(name, ensure_ascii=False)
    return name
