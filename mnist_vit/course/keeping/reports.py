"""What a learner's folder tells of every exercise, without running anything.

Three things tell: the pieces in ``my_vit.py``, the accepted answers in ``my_answers/``, and the
stored outputs of checks in the notebooks beside them. Anybody can write such files: they are what a
learner says, and no proof.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...files import shipped
from .. import exercises, rooms
from .answers import solved
from .keeper import FILE
from .learners import Learner, read_whole
from .pieces import BY_EXERCISE, PIECES

LARGE = 30_000_000  # bytes of a notebook with its pictures
LONGEST = 300  # characters of what a check said
MORE = "## More"  # the heading at which the core of a notebook ends


@dataclass(frozen=True)
class Place:
    """Where an exercise stands: its notebook, and "core" or "more"."""

    notebook: str
    name: str
    part: str


@dataclass
class State:
    """How far a learner is with an exercise.

    Attributes:
        state: "own" (a piece that was not run), "right" or "wrong" (one that was), "solved" (a
            check accepted it), "failed" (the last check did not), "-" (none of these).
        why: what the last check said.
    """

    state: str = "-"
    why: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the learner has an answer that nothing speaks against."""
        return self.state in ("own", "right", "solved")

    @property
    def is_stuck(self) -> bool:
        """Whether the last answer is wrong."""
        return self.state in ("wrong", "failed", "no Python", "stopped")


@functools.cache
def places() -> dict[str, Place]:
    """Every exercise by its name, in the order of the course."""
    found = {}
    for room in rooms():
        parts = _parts(room)
        names = [one.name for one in exercises(room)]
        for name in sorted(names, key=[*parts, *names].index):
            found[name] = Place(room, name, parts.get(name, "core"))
    return found


def _parts(room: str) -> dict[str, str]:
    """ "core" or "more" for the exercises of a notebook, in its order."""
    part = "core"
    found = {}
    for cell in _cells(shipped("notebooks") / f"{room}.ipynb"):
        if MORE in _text(cell.get("source")).splitlines():
            part = "more"
        for name in _checked(cell):
            found[name] = part
    return found


def states_of(learner: Learner, pieces: dict[str, str], why: dict[str, str]) -> dict[str, State]:
    """The state of each exercise; ``pieces`` and ``why`` are those of the pieces, by name."""
    states = {name: State() for name in places()}
    folder = None
    if learner.path.name == FILE:
        folder = learner.path.parent
    elif learner.path.is_dir():
        folder = learner.path
    if folder is not None:
        for path in sorted(folder.glob("*.ipynb")):
            states |= _said_in(path)
        for name in solved(folder / FILE) & states.keys():
            states[name] = State("solved")
    for exercise, piece in BY_EXERCISE.items():
        if pieces[piece.name] != "-":
            states[exercise] = State(pieces[piece.name], why.get(piece.name, ""))
    return states


def _said_in(path: Path) -> dict[str, State]:
    """What the checks in a notebook said when it was saved."""
    found = {}
    for cell in _cells(path):
        outputs = cell.get("outputs")
        said = ""
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                said += _text(output.get("text"))
        for name in _checked(cell):
            sentence = said.strip().partition("\n")[0].removeprefix(f"{name}: ")
            if name in places() and sentence.startswith("correct"):
                found[name] = State("solved")
            elif name in places() and sentence and not sentence.startswith("not solved yet"):
                found[name] = State("failed", sentence[:LONGEST])
    return found


def _cells(path: Path) -> Iterator[dict[str, Any]]:
    """The cells of a notebook, whoever wrote it; none if it is none."""
    try:
        content = json.loads(read_whole(path, LARGE))
    except (OSError, ValueError, RecursionError):
        return
    cells = content.get("cells") if isinstance(content, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, dict):
            yield cell


def _checked(cell: dict[str, Any]) -> list[str]:
    """The exercises that a cell checks, by its tags."""
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    texts = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return [tag.removeprefix("check:") for tag in texts if tag.startswith("check:")]


def _text(lines: Any) -> str:
    """A text of a notebook, which may be stored as a list of lines."""
    if isinstance(lines, list):
        return "".join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""


def piece_states(learner: Learner) -> dict[str, str]:
    """The states of the pieces, by name."""
    return dict(zip(PIECES, learner.states, strict=True))
