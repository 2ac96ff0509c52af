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
        own = getattr(answer, "__name__", usual)
        for name in [usual, own, *self.names]:
            is_hidden = name.startswith("_") and name not in (usual, own)
            if self.names.get(name) is answer and not is_hidden:
                return name
        return own

    def statement(self, name: str, value: Any = None) -> tuple[ast.stmt, str] | None:
        """The last statement that made a name, and its text; of several, the one that made this
        very value."""
        found = list(self._statements(name))
        is_made = isinstance(value, type | FunctionType)
        for node, text in found:
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if is_made and is_definition and not foreign(value, text, self.names):
                return node, text
        return next(iter(found), None)

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
    names = getattr(module, "__dict__", {})
    if isinstance(answer, FunctionType):
        names = answer.__globals__
    _, code = next(codes(answer, names), (None, None))
    file = getattr(code, "co_filename", None)
    texts: list[str] = []
    shell = _shell()
    if shell is not None and answer.__module__ == shell.user_module.__name__:
        names = shell.user_ns
        for raw in shell.history_manager.input_hist_raw:
            texts.append(_python(shell, raw))
    linecache.checkcache(file)
    if (
        file and Path(file).is_file() and not (shell is not None and _is_cell(file))
    ):  # a module, %run, a script
        texts.insert(0, "".join(linecache.getlines(file)))
    elif module is not None and inspect.getattr_static(module, "__file__", None) and not texts:
        texts = ["".join(linecache.getlines(str(module.__file__)))]
    prompts = filter(re.compile(r"<python-input-\d+>").fullmatch, linecache.cache)  # 3.13's own
    for name in sorted(prompts, key=lambda name: int(name[14:-1])):
        texts.append("".join(linecache.getlines(name)))
    return Place(names, texts, getattr(module, "__package__", None) or "")


def _shell() -> Any:
    """The running IPython, if there is one."""
    module = sys.modules.get("IPython")
    return module and module.get_ipython()


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
    where = f", in line {error.lineno}" * bool(error.lineno)
    return f"{error.msg}{where}"


def bound(node: ast.AST | None) -> set[str]:
    """The names that a statement makes where it stands; none for None."""
    if node is None:
        return set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.alias):
        return {node.asname or node.name.partition(".")[0]}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    return set().union(*map(bound, ast.iter_child_nodes(node)))


def segment(text: str, node: ast.stmt) -> str:
    """The text of a statement as it was written, with decorators, and comments above and at its
    end."""
    first = node.lineno
    for decorator in getattr(node, "decorator_list", []):
        first = min(first, decorator.lineno)
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
    if alone:
        return whole.rstrip()
    return ast.get_source_segment(text, node) or ast.unparse(node)


def codes(value: Any, names: dict[str, Any]) -> Iterator[tuple[str, CodeType]]:
    """The compiled functions of a function or class, by name, those that were made in the place
    itself."""
    parts = {"": value}
    if isinstance(value, type):
        parts = dict(vars(value))
    for name, part in parts.items():
        part = getattr(part, "fget", None) or getattr(part, "__func__", part)
        if isinstance(part, FunctionType):
            part = inspect.unwrap(part)
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
