"""What a notebook's cells hand to an answer; the answer fails where such a cell has not run."""

import ast
import functools
import json
from contextlib import suppress

from ...files import shipped


def cell_that_sets(error: BaseException | None, room: str) -> str:
    """Of a name that stands for nothing: that a cell of this notebook sets it; else "".

    ``room`` is the name of the notebook, such as "07_training".
    """
    if not isinstance(error, NameError) or "is not defined" not in str(error):
        return ""
    if error.name not in names_set(room):
        return ""
    return f"A cell of notebook {room[:2]} sets {error.name}: run that cell first."


@functools.cache
def names_set(room: str) -> set[str]:
    """The names of what a notebook's cells hand to an answer; none without notebooks.

    That is what they import or define, and the pieces that they take from ``check.solved``. Other
    names, such as x, mostly stand for something else in an answer.
    """
    found: set[str] = set()
    with suppress(OSError):
        text = (shipped("notebooks") / f"{room}.ipynb").read_text(encoding="utf-8")
        for cell in json.loads(text)["cells"]:
            if cell["cell_type"] == "code":
                found |= _names_in("".join(cell["source"]))
    return found


def _names_in(source: str) -> set[str]:
    """The same of one cell; a cell with magics has none."""
    found: set[str] = set()
    with suppress(SyntaxError):
        for node in ast.parse(source).body:
            found |= _names_of(node)
    return found


def _names_of(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return set()
    if ast.unparse(node.value.func) != "check.solved":
        return set()
    return {target.id for target in node.targets if isinstance(target, ast.Name)}
