"""One thought a line: what ruff has no rule for. Complexity and the length of lines are ruff's, in
``pyproject.toml``."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import ROOT, from_file

FOLDERS = ("mnist_vit", "tests", "benchmarks", "experiments", "tools", "notebooks")
COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FORMATTER_OFF = re.compile(r"fmt: *(off|skip)")
ROOMS = "mnist_vit/course/nb"  # the notebooks' rooms are rebuilt by later issues


def files() -> list[Path]:
    """All Python files of the project; the solutions in ``notebooks`` are made from the package."""
    found = []
    for folder in FOLDERS:
        found += sorted((ROOT / folder).rglob("*.py"))
    return [path for path in found if path.parent.name != "solutions"]


def comprehensions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSION):
            if len(node.generators) > 1:
                yield node.lineno, "a comprehension with two for"
            if any(len(generator.ifs) > 1 for generator in node.generators):
                yield node.lineno, "a comprehension with two conditions"


def ternaries(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            parts = list(ast.walk(node))
            if any(isinstance(part, ast.IfExp) for part in parts[1:]):
                yield node.lineno, "a ternary in a ternary"


def assignments_in_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for argument in [*node.args, *node.keywords]:
                if any(isinstance(part, ast.NamedExpr) for part in ast.walk(argument)):
                    yield node.lineno, "an assignment inside a call"


def tuples(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """``a, b, c = 1, "x", {}``; what a call returns may be unpacked, and values may be swapped."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and len(target.elts) > 2:
                left = {ast.unparse(one) for one in target.elts}
                right = {ast.unparse(one) for one in node.value.elts}
                if left != right:
                    yield node.lineno, "three assignments in one"


def switches(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and FORMATTER_OFF.search(token.string):
            yield token.start[0], "the formatter is switched off"


def faults(source: str) -> list[tuple[int, str]]:
    """(line, what is wrong with it)."""
    tree = ast.parse(source)
    rules = (comprehensions, ternaries, assignments_in_calls, tuples)
    found = [*switches(source)]
    for rule in rules:
        found += rule(tree)
    return sorted(set(found))


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_thought_a_line(folder: str) -> None:
    told = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        exempt = name.startswith(ROOMS)
        if name.startswith(f"{folder}/") and not exempt:
            told += [f"{name}:{line}: {what}" for line, what in faults(path.read_text("utf-8"))]
    assert told == []


@pytest.mark.parametrize(
    "line",
    [
        "[x for x in y if x if y]",
        "{x: z for y in z for x in y}",
        "a if b else c if d else e",
        "a if b else f(c if d else e)",
        "f(key=(x := 1))",
        "any((x := y) for y in z)",
        "a, b, c = 1, 'x', {}",
        "x = 1  # fmt: skip",
    ],
)
def test_each_rule_finds_its_fault(line: str) -> None:
    assert len(faults(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "[x for x in y if x and y]",
        "[[x for x in y] for y in z]",
        "a if b else c",
        "if x := f(1):\n    pass",
        "a, b, c = shape",
        "a, b, c = c, a, b",
        "a, b = 1, 2",
        "x = 'fmt: skip'",
    ],
)
def test_what_is_clear_is_left_alone(line: str) -> None:
    assert faults(line) == []


def marked_in_vain(text: str) -> list[str]:
    """The functions of a test file that have a mark and are no tests: pytest does not see it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("test"):
            marks = [ast.unparse(one) for one in node.decorator_list]
            if any(mark.startswith("pytest.mark.") for mark in marks):
                found.append(node.name)
    return found


def test_every_mark_stands_on_a_test() -> None:
    for path in (ROOT / "tests").glob("*.py"):
        assert marked_in_vain(path.read_text(encoding="utf-8")) == [], path.name
    assert marked_in_vain("@pytest.mark.full\ndef helper(): pass") == ["helper"]


def test_long_files_come_first_then_notebooks() -> None:
    conftest = from_file(ROOT / "tests" / "conftest.py")
    assert all((ROOT / "tests" / name).is_file() for name in conftest.LONG)
    names = ["a/test_a.py", "b/01_mlp.ipynb", *reversed(conftest.LONG)]
    items = [SimpleNamespace(path=Path(name)) for name in names]
    conftest.pytest_collection_modifyitems(items)
    order = [item.path.name for item in items]
    assert order == [*conftest.LONG, "01_mlp.ipynb", "test_a.py"]
