"""The answers that were accepted, in ``my_answers/`` beside ``my_vit.py``: ``mlp_block.1.py``,
``mlp_block.2.py``, …

What a section of ``my_vit.py`` held before it is replaced goes there too, so nothing a learner
wrote is lost.
"""

import re
from pathlib import Path

from ...files import write_text
from .layout import Layout, import_block, joined, words

FOLDER = "my_answers"


def stored(file: Path, exercise: str) -> list[str]:
    """The texts kept for an exercise, the oldest first; ``file`` is ``my_vit.py``."""
    found = [
        one
        for one in (file.parent / FOLDER).glob(f"{exercise}.*.py")
        if one.name.split(".")[1].isdecimal()
    ]
    return [
        one.read_text("utf-8") for one in sorted(found, key=lambda one: int(one.name.split(".")[1]))
    ]


def store(file: Path, exercise: str, text: str) -> None:
    """Keep a text, unless it is there already."""
    texts = stored(file, exercise)
    if text.strip() and text not in texts:
        write_text(file.parent / FOLDER / f"{exercise}.{len(texts) + 1}.py", text)


def solved(file: Path) -> set[str]:
    """The exercises with an answer that was accepted."""
    return {one.name.split(".")[0] for one in (file.parent / FOLDER).glob("*.*.py")} - {"my_vit"}


def alone(layout: Layout, name: str) -> str:
    """A section with the imports it uses, as a text of its own."""
    return whole(layout.imports, [layout.sections[name]])


def whole(imports: dict[str, tuple[str, str]], texts: list[str]) -> str:
    """Statements below the imports that they use."""
    used = words("\n".join(texts))
    head = import_block({one: where for one, where in imports.items() if one in used})
    return "\n\n\n".join(part for part in (head, joined(texts)) if part) + "\n"


def without_imports(text: str) -> str:
    """What stands below the imports that ``whole`` wrote."""
    return re.sub(r"\A(?:(?:import|from) [^\n(]*(?:\([^)]*\))?\n+)*", "", text)
