"""The files of many learners below a folder: nobody is left out, whatever lies there."""

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import printable
from ...files import read_text, shipped
from .answers import FOLDER
from .keeper import FILE, parsed
from .layout import FORMAT, Layout, chunks, format_of
from .pieces import PIECES
from .sources import syntax, told

SKIPPED = {FOLDER, "__pycache__", "site-packages", ".git"}  # unless a my_vit.py lies there
COPIES = ".ipynb_checkpoints"
LARGE = 300_000  # bytes; a whole course is 15,000
DEEP = 30  # folders in folders
NOTHING = f"no {FILE} here"


@dataclass
class Learner:
    """A row of the table: a file, or a folder that holds none.

    Attributes:
        name: the path below the folder that was given; of a folder, with a slash behind.
        layout: the parts of the file; none if it cannot be read.
        states: for each piece "own", "no Python", or "-", where the package's own stands in.
        note: what is to be known of the file, in a few words.
    """

    name: str
    path: Path
    layout: Layout = field(default_factory=Layout)
    states: list[str] = field(default_factory=lambda: ["-"] * len(PIECES))
    note: str = ""


def learners(folder: Path) -> tuple[list[Learner], list[str]]:
    """The rows for a folder, or for one file, and sentences about what is not listed."""
    if not folder.is_dir():
        return [_seen(folder, folder.name)], []
    search = _Search(folder)
    rows = search.below(folder, "", False)
    notes = []
    if search.skipped:
        notes.append(f"{search.skipped} copies of our solutions are not listed")
    if search.others:
        names = ", ".join(map(printable, search.others))
        notes.append(f"not looked into, as they are no .py files: {names}")
    return rows or [Learner("./", folder, note=NOTHING)], notes


class _Search:
    def __init__(self, folder: Path) -> None:
        self.seen = {os.path.realpath(folder)}
        self.skipped = 0
        self.others: list[str] = []  # files of the folder itself that are no Python
        self.solutions = {path.name for path in shipped("notebooks").glob("solutions/*.py")}

    def below(
        self, folder: Path, name: str, has_file: bool, is_link: bool = False
    ) -> list[Learner]:
        """The rows of a folder; ``has_file``: it is part of one that holds a ``my_vit.py``.

        Of one that is a link only its ``my_vit.py`` is listed: it may lead anywhere.
        """
        try:
            if name.count("/") > DEEP:
                raise OSError(0, "too many folders in folders")
            paths = sorted(folder.iterdir())
        except OSError as error:
            return [Learner(name, folder, note=f"not read: {error.strerror}")]
        has_file = has_file or any(path.name == FILE and not path.is_dir() for path in paths)
        files = [path for path in paths if not path.is_dir()]
        if is_link:
            return self._files([path for path in files if path.name == FILE], name, has_file)
        rows = self._files(files, name, has_file)
        empty = []
        for path in paths:
            is_skipped = path.name in SKIPPED and not (path / FILE).exists()
            if not path.is_dir() or is_skipped or path.name == COPIES:
                continue
            place = os.path.realpath(path)
            found: list[Learner] = []
            if place not in self.seen:
                found = self.below(path, f"{name}{path.name}/", has_file, path.is_symlink())
            note = NOTHING
            if place in self.seen and path.is_symlink():
                note = "a link to a folder that is listed"
            self.seen.add(place)
            rows += found
            if not found and not has_file and not path.name.startswith("."):
                empty.append(Learner(f"{name}{path.name}/", path, note=note))
        if not rows and name:  # all of it is told as one
            return []
        return sorted([*rows, *empty], key=lambda row: row.name)

    def _files(self, paths: list[Path], name: str, has_file: bool) -> list[Learner]:
        rows = []
        for path in paths:
            if not path.name.lower().endswith(".py"):
                if not name and not has_file:
                    self.others.append(path.name)
                continue
            row = _seen(path, name + path.name)
            if path.name == "conftest.py" and "own" not in row.states:
                continue
            if path.parent.name == "solutions" and self._is_ours(row):
                self.skipped += 1
            elif not has_file or path.name == FILE or "own" in row.states or row.note != "no piece":
                rows.append(row)
        return rows

    def _is_ours(self, row: Learner) -> bool:
        ours = shipped("notebooks") / "solutions" / row.path.name
        begin = f'"""Solutions of notebook {row.path.name[:2]}, '
        return ours.name in self.solutions and row.layout.title.startswith(begin)


def _seen(path: Path, name: str) -> Learner:
    """What can be said of a file without running it."""
    try:
        text = read_whole(path)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        return Learner(name, path, note=f"not read: {said}")
    layout = parsed(text)
    row = Learner(name, path, layout)
    if PIECES.keys().isdisjoint([*layout.sections, *layout.imports]):
        row.note = "no piece"
    number = format_of(text)
    if number > FORMAT:
        row.note = f"format {number}: written by a newer mnist_vit"
    broken = ""
    try:
        syntax(text)
    except SyntaxError as error:
        broken = text
        row.note = f"no Python: {told(error)}"
    for number, piece in enumerate(PIECES):
        row.states[number] = _state(layout, broken, piece)
    return row


def read_whole(path: Path, largest: int = LARGE) -> str:
    """The text of a file; ValueError if it is none that somebody wrote, or larger."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise ValueError("not a file")
    if state.st_size > largest:
        raise ValueError(f"too large ({state.st_size / 1e6:.1f} MB)")
    try:
        return read_text(path)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def _state(layout: Layout, broken: str, name: str) -> str:
    """The state of a piece; ``broken`` is the text of a file that is no Python."""
    try:
        chunks(layout.sections.get(name, ""))
    except SyntaxError:
        return "no Python"
    if not layout.is_ours(name):
        return "own"
    is_lost = name not in layout.sections and re.search(rf"\b(class|def)\s+{name}\b", broken)
    if is_lost:
        return "no Python"
    return "-"
