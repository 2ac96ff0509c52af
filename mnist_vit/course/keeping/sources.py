"""Where the text of an answer is found: the inputs of a notebook, a file, or Python's own prompt.

``inspect.getsource`` does not do: it knows no class that a notebook defines, and nothing below
``%%time``. So the inputs are searched backwards for the statement that made a name.
"""

import ast
import functools
import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from .pieces import NotKept
from .what_ran import steps

OTHER_LANGUAGES = {
    "bash",
    "cmd",
    "file",
    "html",
    "javascript",
    "js",
    "latex",
    "markdown",
    "perl",
    "ruby",
    "script",
    "sh",
    "svg",
    "system",
    "sx",
    "writefile",
}


@dataclass
class Place:
    """Where an answer was made: what the names mean there, and all the text that was run, the
    oldest first."""

    names: dict[str, Any]
    texts: list[str]
    package: str = ""

    def name_of(self, answer: Any, usual: str) -> str:
        """By which name the answer is known there, the usual one if that is true."""
        own = [usual, getattr(answer, "__name__", usual)]
        for name in [*own, *(name for name in self.names if not name.startswith("_"))]:
            if self.names.get(name) is answer:
                return name
        return own[1]

    def statement(self, name: str, value: Any = None) -> tuple[ast.stmt, str] | None:
        """The last statement that made a name, and its text; of several, the one that made this
        very value."""
        found = list(self._statements(name))
        for node, text in found if isinstance(value, type | FunctionType) else ():
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if is_definition and not foreign(value, text, self.names):
                return node, text
        return found[0] if found else None

    def _statements(self, name: str) -> Iterator[tuple[ast.stmt, str]]:
        for text in reversed(self.texts):
            if name not in text:
                continue
            try:
                body = syntax(text).body
            except SyntaxError:  # it was never run
                continue
            for node in reversed(body):
                if name in bound(node):
                    yield node, segment(text, node)


def place_of(answer: Any) -> Place:
    """Where a class or function was made; NotKept if its text cannot be seen."""
    if not isinstance(answer, type | FunctionType):
        raise NotKept("only a class or a function can be; this is an object made from one")
    module = sys.modules.get(answer.__module__)
    if isinstance(answer, FunctionType):
        names = answer.__globals__
    else:
        names = vars(module) if module else {}
    _, code = next(iter(codes(answer, names)), (None, None))
    file = code.co_filename if code else None
    texts: list[str] = []
    shell = _shell()
    if shell is not None and answer.__module__ == shell.user_module.__name__:
        names = shell.user_ns
        texts = [_python(shell, raw) for raw in shell.history_manager.input_hist_raw]
    linecache.checkcache(file)
    if (
        file and Path(file).is_file() and not (shell is not None and _is_cell(file))
    ):  # a module, %run, a script
        texts.insert(0, "".join(linecache.getlines(file)))
    elif module is not None and inspect.getattr_static(module, "__file__", None) and not texts:
        texts = ["".join(linecache.getlines(str(module.__file__)))]
    prompt = [
        name for name in linecache.cache if re.fullmatch(r"<python-input-\d+>", name)
    ]  # Python 3.13's own
    texts += [
        "".join(linecache.getlines(name))
        for name in sorted(prompt, key=lambda name: int(name[14:-1]))
    ]
    return Place(names, texts, getattr(module, "__package__", None) or "")


def _shell() -> Any:
    """The running IPython, if there is one."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


def _is_cell(file: str) -> bool:
    return "ipykernel_" in file  # cells are traced as files that need not exist


def _python(shell: Any, raw: str) -> str:
    """The Python in an input: without cell magics, each line magic a call; nothing if it is another
    language."""
    while (raw := raw.lstrip("\n")).startswith("%%"):
        magic, _, raw = raw.partition("\n")
        if re.split(r"\W", magic[2:])[0] in OTHER_LANGUAGES:
            return ""
    return shell.transform_cell(raw)


@functools.lru_cache(500)
def syntax(text: str) -> ast.Module:
    """The syntax of a text. SyntaxError, whatever it is that Python cannot do with it."""
    try:
        return ast.parse(text)
    except (RecursionError, MemoryError):
        raise SyntaxError("nested too deeply") from None
    except ValueError as error:  # null bytes
        raise SyntaxError(str(error)) from None


def told(error: SyntaxError) -> str:
    """What is no Python, and in which line, if that is known."""
    return f"{error.msg}, in line {error.lineno}" if error.lineno else error.msg


def bound(node: ast.stmt) -> set[str]:
    """The names that a statement makes where it stands."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    stored = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    for child in ast.iter_child_nodes(node):
        stored |= bound(child) if isinstance(child, ast.stmt) else set()
    return stored


def segment(text: str, node: ast.stmt) -> str:
    """The text of a statement as it was written, with decorators, and comments above and at its
    end."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    lines = text.split("\n")
    while first > 1 and re.match(r"#(?! ?(@|%%|---- |not compared))", lines[first - 2]):
        first -= 1
    last = node.end_lineno or first
    while last < len(lines) and re.match(r"[ \t]+#", lines[last]):
        last += 1
    whole = "\n".join(lines[first - 1 : last])
    try:
        alone = node.col_offset == 0 and len(syntax(whole).body) == 1
    except SyntaxError:
        alone = False
    return whole.rstrip() if alone else ast.get_source_segment(text, node) or ast.unparse(node)


def codes(value: Any, names: dict[str, Any]) -> Iterator[tuple[str, CodeType]]:
    """The compiled functions of a function or class, by name, those that were made in the place
    itself."""
    for name, part in vars(value).items() if isinstance(value, type) else [("", value)]:
        part = getattr(part, "fget", None) or getattr(part, "__func__", part)
        part = inspect.unwrap(part) if isinstance(part, FunctionType) else part
        if isinstance(part, FunctionType) and part.__globals__ is names:
            yield name or part.__name__, part.__code__


def foreign(value: Any, text: str, names: dict[str, Any]) -> list[str]:
    """The functions of a class or function that this text did not make.

    Decorators may have made others of functions, and may have added some to a class.
    """
    defined: set[str] = set()
    decorated: set[str] = set()
    adds = False
    for node in ast.walk(syntax(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list:
            decorated.add(node.name)
        adds = adds or (isinstance(node, ast.ClassDef) and bool(node.decorator_list))
    known = set(steps(compile(text, "<text>", "exec", dont_inherit=True)))
    found = []
    for name, code in codes(value, names):
        is_decorators = name in decorated or (adds and name not in defined)
        if not is_decorators and next(steps(code)) not in known:
            found.append(name)
    return found
