"""What belongs to single notebooks: a room for each, with its figures and exercises.

A room is named like its notebook, and holds one file per exercise. ``checking`` says what is right
and what is wrong with an answer; ``drawing`` holds what the figures share. Rooms and exercises are
found by looking: a new file in a room is a new exercise.
"""

import functools
import importlib
from pathlib import Path

from .checking import Exercise

HERE = Path(__file__).resolve().parent


def rooms() -> list[str]:
    """The notebooks that have a room, such as "04_encoder_block", in the order of the course."""
    return sorted(path.name.removeprefix("nb") for path in HERE.glob("nb[0-9][0-9]_*"))


def exercises(room: str) -> list[Exercise]:
    """The exercises of a notebook by name: those of the room's files that hold an ``EXERCISE``.

    In an install without solutions they are the room's files of bytecode (``tools/unsolved.py``).
    """
    found = []
    for path in sorted((HERE / f"nb{room}").glob("*.py*")):
        is_compiled = path.suffix == ".pyc"
        if is_compiled or "\nEXERCISE = " in path.read_text(encoding="utf-8"):
            module = importlib.import_module(f"{__name__}.nb{room}.{path.stem}")
            found.append(module.EXERCISE)
    return found


@functools.cache
def all_exercises() -> dict[str, Exercise]:
    """Every exercise of the course by its name, which is the stem of its file."""
    found = {}
    for room in rooms():
        for exercise in exercises(room):
            found[exercise.name] = exercise
    return found
