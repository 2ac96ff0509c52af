"""What belongs to single notebooks: a room for each, named like it, with its figures and one file
per exercise.

``checking`` says what is right and what is wrong with an answer; ``drawing`` holds what the figures
share. Rooms and exercises are found by looking: a new file in a room is a new exercise.
"""

import ast
import functools
import importlib
import inspect
import symtable
from pathlib import Path

from .checking import Exercise

HERE = Path(__file__).resolve().parent


def rooms() -> list[str]:
    """The names of the notebooks that have a room, such as "04_encoder_block", in the order of the
    course."""
    return sorted(path.name.removeprefix("nb") for path in HERE.glob("nb[0-9][0-9]_*"))


def exercises(room: str) -> list[Exercise]:
    """The exercises of a notebook, in the order of their names: the files of its room that hold an
    ``EXERCISE``."""
    texts = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((HERE / f"nb{room}").glob("*.py"))
    }
    stems = [stem for stem, text in texts.items() if "\nEXERCISE = " in text]
    return [importlib.import_module(f"{__name__}.nb{room}.{stem}").EXERCISE for stem in stems]


@functools.cache
def all_exercises() -> dict[str, Exercise]:
    """Every exercise of the course by its name, which is the stem of its file."""
    return {exercise.name: exercise for room in rooms() for exercise in exercises(room)}


def solutions(room: str) -> str:
    """The solutions of a notebook as one Python file, for ``notebooks/solutions``: imports, and a
    block an exercise."""
    imports: dict[str, set[str]] = {}
    blocks = []
    for exercise in exercises(room):
        used = _names(symtable.symtable(exercise.source, exercise.name, "exec"))
        # type: ignore[arg-type]
        module = ast.parse(inspect.getsource(inspect.getmodule(exercise.answer)))
        for node in module.body:
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                kept = {
                    ast.unparse(name)
                    for name in node.names
                    if (name.asname or name.name).partition(".")[0] in used
                }
                begin = (
                    f"from {node.module} import" if isinstance(node, ast.ImportFrom) else "import"
                )
                imports.setdefault(begin, set()).update(kept)
        blocks.append(f"\n\n# exercise: {exercise.name}\n{exercise.source}\n")
    plain = [f"import {name}" for name in sorted(imports.pop("import", ()))]
    lines = [*plain]
    for begin, names in sorted(imports.items()):
        renamed = sorted(name for name in names if " as " in name)
        together = ", ".join(sorted(names.difference(renamed)))
        lines += [f"{begin} {name}" for name in (*renamed, together) if name]
    groups: dict[str, list[str]] = {"": [], "torch": [], "mnist_vit": []}
    for line in lines:
        groups[
            next((name for name in ("mnist_vit", "torch") if line.split()[1].startswith(name)), "")
        ].append(line)
    head = "\n\n".join("\n".join(group) for group in groups.values() if group)
    title = (
        f'"""Solutions of notebook {room[:2]}, made from the sources of its checks by'
        ' `python -m tools solutions`."""'
    )
    return "\n\n".join(part for part in (title, head) if part) + "\n" + "".join(blocks)


def _names(table: symtable.SymbolTable) -> set[str]:
    """All names that a piece of source uses, at any depth."""
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    return names.union(*(_names(child) for child in table.get_children()))
