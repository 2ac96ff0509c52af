"""The tables of a class: exercises by notebook and by learner, as text and as .csv."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ...errors import printable
from ...files import user_path, write_text
from .reports import Place, State, places

States = list[dict[str, State]]  # of each learner, by exercise


def by_notebook(names: list[str], states: States) -> str:
    """A row for each learner: how many exercises of each notebook, of the core and of the rest."""
    groups: dict[str, list[str]] = {}
    for place in places().values():
        groups.setdefault(place.notebook[:2], []).append(place.name)
    for part in ("core", "more"):
        inside = [place.name for place in places().values() if place.part == part]
        if inside:
            groups[part] = inside
    rows = [("file", *groups)]
    for name, own in zip(names, states, strict=True):
        counts = []
        for group in groups.values():
            done = sum(own[exercise].is_done for exercise in group)
            counts.append(f"{done}/{len(group)}")
        rows.append((name, *counts))
    return f"Exercises with an accepted answer\n{columns(rows)}"


def by_exercise(states: States) -> str:
    """A row for each exercise that somebody has begun: how many solved it, and how many failed."""
    if len(states) < 2:
        return ""
    rows: list[tuple[str, ...]] = [
        ("notebook", "exercise", "part", "solved", "failed", "not begun")
    ]
    for place in places().values():
        here = [own[place.name] for own in states]
        done = sum(state.is_done for state in here)
        failed = sum(state.is_stuck for state in here)
        if done + failed:
            counts = (done, failed, len(here) - done - failed)
            rows.append((place.notebook, place.name, place.part, *map(str, counts)))
    if len(rows) == 1:
        return ""
    title = f"The class of {len(states)}; exercises that nobody has begun are left out"
    return f"{title}\n{columns(rows)}"


def stuck(names: list[str], states: States) -> str:
    """A row for each answer that fails, with what the check said."""
    rows = [("notebook", "exercise", "file", "what the check said")]
    for place in places().values():
        for name, own in zip(names, states, strict=True):
            state = own[place.name]
            if state.is_stuck:
                said = state.why or state.state
                rows.append((place.notebook, place.name, name, printable(said)))
    return f"Where the last answer fails\n{columns(rows)}" if len(rows) > 1 else ""


def check_table(path: str | Path) -> None:
    """Raise ValueError unless the path ends in .csv."""
    if user_path(path).suffix.lower() != ".csv":
        raise ValueError(f"csv must be a .csv file, got {path}")


def write_table(path: str | Path, names: list[str], states: States) -> Path:
    """Write a row for each learner and exercise; returns the path."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "notebook", "exercise", "part", "state", "what the check said"])
    for name, own in zip(names, states, strict=True):
        for place in places().values():
            writer.writerow(_row(name, place, own[place.name]))
    return write_text(user_path(path), text.getvalue())


def _row(name: str, place: Place, state: State) -> list[str]:
    cells = [name, place.notebook, place.name, place.part, state.state, state.why]
    return [_plain(printable(cell)) for cell in cells]


def _plain(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@") and cell != "-" else cell


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """A table, each column as wide as its widest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
