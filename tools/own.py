"""How many statements of the finished ``my_vit.py`` are the learner's own.

A statement is given if the notebook shows it: in the stub of its exercise, or as code in the text,
as in a table of names and shapes. All others are the learner's, counted as our solutions write
them. A compound statement (class, def, if, for) counts once, for its head; docstrings and imports
do not count.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat

from mnist_vit.course import all_exercises
from mnist_vit.course.keeping import PIECES

from . import NOTEBOOKS

CODE = re.compile(r"```(?:python)?\n(.*?)```|`([^`\n]+)`", re.DOTALL)


@dataclass
class Share:
    """The statements of one piece.

    Attributes:
        name: what the piece is called in ``my_vit.py``.
        all: statements of our solution.
        own: those of them that the notebook does not show.
    """

    name: str
    all: int
    own: int


def shares(folder: Path = NOTEBOOKS) -> list[Share]:
    """Count every piece, with the notebooks in a folder."""
    found = []
    for name, piece in PIECES.items():
        (path,) = folder.glob(f"{piece.notebook}_*.ipynb")
        solution = statements(all_exercises()[piece.exercise].source)
        shown = shown_before(path, piece.exercise)
        own = solution - shown
        found.append(Share(name, solution.total(), own.total()))
    return found


def statements(source: str) -> Counter[str]:
    """The statements of a text, each as one line that does not depend on how it is laid out."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        if isinstance(node, ast.stmt) and not is_import and not _is_docstring(node):
            found[_head(node)] += 1
    return found


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _head(node: ast.stmt) -> str:
    """The statement without what stands below it; of a class or function the name alone."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return f"{type(node).__name__} {node.name}"
    if not hasattr(node, "body"):
        return ast.unparse(node)
    return ast.unparse(node).partition("\n")[0]


def shown_before(path: Path, exercise: str) -> Counter[str]:
    """The statements that a notebook shows up to the stub of an exercise, the stub included."""
    found: Counter[str] = Counter()
    for cell in nbformat.read(path, as_version=4).cells:
        is_stub = f"exercise:{exercise}" in cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            for block, span in CODE.findall(cell.source):
                found += parsed(block or span)
        if is_stub:
            return found + parsed(cell.source)
    raise ValueError(f"{path.name} has no stub of the exercise {exercise}")


def parsed(text: str) -> Counter[str]:
    """The statements of a text; none if it is no Python, and no name or call by itself."""
    try:
        found = statements(text)
    except SyntaxError:
        return Counter()
    return Counter({one: count for one, count in found.items() if not one.isidentifier()})


def main(words: list[str]) -> None:
    """Print the table."""
    print(f"{'piece':<24}{'statements':>10}{'own':>6}")
    counted = shares()
    for share in counted:
        print(f"{share.name:<24}{share.all:>10}{share.own:>6}")
    total = sum(share.all for share in counted)
    own = sum(share.own for share in counted)
    print(f"{'my_vit.py':<24}{total:>10}{own:>6}")
