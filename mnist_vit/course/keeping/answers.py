"""The answers that were accepted, in ``my_answers/`` beside ``my_vit.py``: ``mlp_block.1.py``,
``mlp_block.2.py``, …

What a section of ``my_vit.py`` held before it is replaced goes there too, so nothing a learner
wrote is lost.
"""

import ast
from contextlib import suppress
from pathlib import Path

from ...files import write_text
from .extracting import Taken, global_words
from .layout import Layout, chunks, import_block, imported, joined, made_by, statements, words
from .pieces import PIECES

FOLDER = "my_answers"


def stored(file: Path, exercise: str) -> list[str]:
    """The texts kept for an exercise, the oldest first; ``file`` is ``my_vit.py``."""
    texts = []
    for _, path in sorted(_numbered(file, exercise)):
        with suppress(OSError, UnicodeDecodeError):  # the course did not write it
            if path.is_file():
                texts.append(path.read_text("utf-8-sig"))
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
        taken = [number for number, _ in _numbered(file, exercise)]
        write_text(file.parent / FOLDER / f"{exercise}.{max(taken, default=0) + 1}.py", text)


def solved(file: Path) -> set[str]:
    """The exercises with an answer that was accepted."""
    return {one.name.split(".")[0] for one in (file.parent / FOLDER).glob("*.*.py")} - {"my_vit"}


def alone(layout: Layout, name: str) -> str:
    """A section as a text of its own: with the imports, constants and helpers that it uses."""
    texts = [layout.sections[name]]
    helpers = []
    for text in [layout.rest, *(text for one, text in layout.sections.items() if one != name)]:
        helpers += [(made_by(part), part.strip()) for part in statements(text)]
    missing = global_words(texts[0]) - made_by(texts[0])
    while found := [one for one in helpers if one[0] & missing - PIECES.keys()]:
        for made, part in found:
            helpers.remove((made, part))
            texts.insert(0, part)
            missing |= global_words(part)
            missing -= made
    return whole(layout.imports, texts)


def whole(imports: dict[str, tuple[str, str]], texts: list[str]) -> str:
    """Statements below the imports that they use."""
    used = words("\n".join(texts))
    head = import_block({one: where for one, where in imports.items() if one in used})
    return "\n\n\n".join(part for part in (head, joined(texts)) if part) + "\n"


def taken_of(text: str) -> Taken:
    """A text that was kept, as it was taken from the notebook. SyntaxError if it is no Python."""
    taken = Taken()
    for node, part in chunks(text):
        if isinstance(node, ast.Import | ast.ImportFrom):
            taken.imports |= imported(node)
        elif part.strip():
            taken.texts.append(part.strip())
    return taken
