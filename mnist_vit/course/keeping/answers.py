"""The answers that were accepted, in ``my_answers/`` beside ``my_vit.py``: ``mlp_block.1.py``,
``mlp_block.2.py``, …

What a section of ``my_vit.py`` held before it is replaced goes there too, so nothing a learner
wrote is lost.
"""

import ast
from contextlib import suppress
from pathlib import Path

from ...files import read_text, write_text
from .extracting import Taken, global_words
from .layout import Layout, chunks, import_block, imported, joined, made_by, statements, words
from .pieces import PIECES

FOLDER = "my_answers"
LARGE = 100_000  # bytes; a whole course is 15,000


def stored(file: Path, exercise: str) -> list[str]:
    """The texts kept for an exercise, the oldest first; ``file`` is ``my_vit.py``."""
    texts = []
    for _, path in sorted(_numbered(file, exercise)):
        with suppress(OSError, UnicodeDecodeError):  # the course did not write it
            if path.stat().st_size <= LARGE:
                texts.append(read_text(path))
    return texts


def _numbered(file: Path, exercise: str) -> list[tuple[int, Path]]:
    found = []
    for path in (file.parent / FOLDER).glob(f"{exercise}.*.py"):
        number = path.name.split(".")[1]
        if number.isascii() and number.isdecimal():
            found.append((int(number), path))
    return found


def store(file: Path, exercise: str, text: str) -> None:
    """Keep a text under a new number, unless it is there already."""
    if text.strip() and text not in stored(file, exercise):
        last, _ = max(_numbered(file, exercise), default=(0, None))
        write_text(file.parent / FOLDER / f"{exercise}.{last + 1}.py", text)


def solved(file: Path) -> set[str]:
    """The exercises with an answer that was accepted."""
    found = set()
    for one in (file.parent / FOLDER).glob("*.*.py"):
        found.add(one.name.split(".")[0])
    return found - {"my_vit"}


def alone(layout: Layout, name: str) -> str:
    """A section as a text of its own: with the imports, constants and helpers that it uses."""
    others = dict(layout.sections)
    own = others.pop(name)
    parts = list(map(str.strip, statements(layout.rest)))
    for text in others.values():
        parts += map(str.strip, statements(text))
    needed = global_words(own) - made_by(own)
    used: set[str] = set()
    count = -1
    while count < len(used):
        count = len(used)
        for part in parts:
            if made_by(part) & needed - PIECES.keys():
                used.add(part)
                needed |= global_words(part)
    return whole(layout.imports, [*filter(used.__contains__, parts), own])


def whole(imports: dict[str, tuple[str, str]], texts: list[str]) -> str:
    """Statements below the imports that they use."""
    head = import_block(used_of(imports, "\n".join(texts)))
    return "\n\n\n".join(filter(None, [head, joined(texts)])) + "\n"


def used_of(imports: dict[str, tuple[str, str]], text: str) -> dict[str, tuple[str, str]]:
    """The imports whose names stand in a text."""
    used = words(text)
    return {name: where for name, where in imports.items() if name in used}


def taken_of(text: str) -> Taken:
    """A text that was kept, as it was taken from the notebook. SyntaxError if it is no Python."""
    taken = Taken()
    for node, part in chunks(text):
        if isinstance(node, ast.Import | ast.ImportFrom):
            taken.imports |= imported(node)
        elif part.strip():
            taken.texts.append(part.strip())
    return taken
