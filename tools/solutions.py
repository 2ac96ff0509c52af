"""Write ``notebooks/solutions`` anew, from the sources of the checks."""

import ast
import inspect
import symtable

from mnist_vit.course import exercises, rooms
from mnist_vit.course.checking import Exercise

from . import NOTEBOOKS

GROUP_OF = {"torch": "torch", "torchvision": "torch", "mnist_vit": "mnist_vit"}


def main(words: list[str]) -> None:
    """Write one file for each notebook that has exercises."""
    for room in rooms():
        if exercises(room):
            path = NOTEBOOKS / "solutions" / f"{room}.py"
            path.write_text(solutions(room), encoding="utf-8")


def solutions(room: str) -> str:
    """The solutions of a notebook as one Python file: imports, and a block for each exercise."""
    imports: dict[str, set[str]] = {}
    blocks = ""
    for exercise in exercises(room):
        for begin, names in _imports(exercise):
            imports.setdefault(begin, set()).update(names)
        blocks += f"\n\n# exercise: {exercise.name}\n{exercise.source}\n"
    parts = [
        f'"""Solutions of notebook {room[:2]}, made from the sources of its checks by'
        ' `python -m tools solutions`."""'
    ]
    parts += _groups(_import_lines(imports))
    return "\n\n".join(parts) + "\n" + blocks


def _imports(exercise: Exercise) -> list[tuple[str, set[str]]]:
    """What a solution needs of the imports of its file: how they begin, and the names."""
    used = _names(symtable.symtable(exercise.source, exercise.name, "exec"))
    module = inspect.getmodule(exercise.answer)
    assert module is not None
    found = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append((f"from {node.module} import", _kept(node.names, used)))
        elif isinstance(node, ast.Import):
            found.append(("import", _kept(node.names, used)))
    return found


def _kept(aliases: list[ast.alias], used: set[str]) -> set[str]:
    """The imported names that are used, as they are written."""
    kept = set()
    for alias in aliases:
        name = alias.asname or alias.name
        if name.partition(".")[0] in used:
            kept.add(ast.unparse(alias))
    return kept


def _names(table: symtable.SymbolTable) -> set[str]:
    """All names that a piece of source uses, at any depth."""
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    for child in table.get_children():
        names |= _names(child)
    return names


def _import_lines(imports: dict[str, set[str]]) -> list[str]:
    """Import statements: plain ones, then the others; each renaming has a line of its own."""
    lines = [f"import {name}" for name in sorted(imports.pop("import", ()))]
    for begin, names in sorted(imports.items()):
        renamed = [name for name in sorted(names) if " as " in name]
        together = ", ".join(sorted(names.difference(renamed)))
        lines += [f"{begin} {name}" for name in renamed]
        if together:
            lines.append(f"{begin} {together}")
    return lines


def _groups(lines: list[str]) -> list[str]:
    """The standard library's imports, torch's and the package's, each group as one text."""
    groups: dict[str, list[str]] = {"": [], "torch": [], "mnist_vit": []}
    for line in lines:
        package = line.split()[1].partition(".")[0]
        groups[GROUP_OF.get(package, "")].append(line)
    return ["\n".join(group) for group in groups.values() if group]
