"""The text of an answer made whole: with the helpers and constants it uses, and the imports they
need."""

import ast
import builtins
import importlib.util
import symtable
import sys
from dataclasses import dataclass, field
from importlib import metadata
from types import FunctionType, ModuleType
from typing import Any

from .pieces import PIECES, NotKept
from .sources import Place, foreign, place_of, syntax

CALLS = {
    "float",
    "int",
    "bool",
    "str",
    "tuple",
    "list",
    "dict",
    "set",
    "range",
    "len",
    "max",
    "min",
    "sum",
    "round",
}
PURE = ("math", "functools", "operator")  # what constants may be computed with
MAKERS = ("tensor", "device", "Size", "finfo", "iinfo", "log", "sqrt")  # of torch's


@dataclass
class Taken:
    """An answer's text: its imports, ``{name: (module, original)}``, and its statements, helpers
    first."""

    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


def extract(answer: Any, usual: str) -> Taken:
    """The answer's text and all it needs, under its usual name. NotKept if it hangs on what a file
    cannot hold."""
    if not isinstance(answer, type | FunctionType):
        raise NotKept("only a class or a function can be, and this is an object")
    if str(answer.__module__).startswith("mnist_vit."):
        raise NotKept(
            "this is the course's own, which stands there anyway until there is one of yours"
        )
    around = answer.__qualname__.rpartition(".")[0].removesuffix(".<locals>")
    if around and answer.__name__ != "<lambda>":
        raise NotKept(
            f"{answer.__name__} is made inside {around}: write it at the left edge of a cell"
        )
    extractor = _Extractor(place_of(answer))
    name = extractor.place.name_of(answer, usual)
    if name != usual and name in PIECES:
        raise NotKept(f"{name} is the name of another piece: call this one {usual}")
    extractor.own = {name, usual}
    extractor.add(name, answer)
    if name != usual:
        extractor.taken.texts.append(f"{usual} = {name}")
    return extractor.taken


class _Extractor:
    """Follows the names from the answer to what they were made by."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.taken = Taken()
        self.own: set[str] = set()
        self.seen: set[str] = set()

    def need(self, name: str, user: str) -> None:
        """Add what a name means, unless it is there, a piece of the file, or Python's own."""
        if name in self.seen or name in self.own or name in PIECES or name.startswith("__"):
            return
        self.seen.add(name)
        if name == "get_ipython":
            raise NotKept(f"{user} uses a magic or a shell command, which only notebooks know")
        if self.place.statement(name) is None and hasattr(builtins, name) and name != "display":
            return  # IPython gives some of Python's own anew
        if name in self.place.names or name == "display" or self.place.statement(name):
            self.add(name, self.place.names.get(name, getattr(builtins, name, None)), user)

    def add(self, name: str, value: Any, user: str = "") -> None:
        """Add the statement that made a name, after all that it needs itself."""
        self.seen.add(name)
        found = self.place.statement(name, value)
        if found is None:
            self._imported(name, value, user)
            return
        node, text = found
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(name, node, value, user)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if later := foreign(value, text, self.place.names):
                raise NotKept(
                    f"{name} was changed after it was made ({later[0]}): write all of it in one"
                    " cell, run that, then the check"
                )
            self._text(name, text)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            if hasattr(value, "__name__") and not isinstance(node.value, ast.Lambda):
                self._alias(name, value, node, text, user)
                return
            self._constant(name, node.value, text, user)
        else:
            raise NotKept(
                f"{self._hangs(name, user)}, which a loop or another block of the notebook made"
            )

    def _text(self, name: str, text: str) -> None:
        text = self._without_my_vit(text)
        for other in free_names(text):
            self.need(other, name)
        if text not in self.taken.texts:
            self.taken.texts.append(text)

    def _hangs(self, name: str, user: str) -> str:
        return f"{user} uses {name}" if user else f"this is {name}"

    def _constant(self, name: str, node: ast.expr, text: str, user: str) -> None:
        """An assignment: literals, constants, and what is computed from them."""
        for part in ast.walk(node):
            if not isinstance(part, ast.Call) or isinstance(node, ast.Lambda):
                continue
            if not self._is_pure(part.func):
                raise NotKept(
                    f"{self._hangs(name, user)}, which the notebook computed ({text.strip()[:60]}):"
                    " hand it over as an argument, or make it inside"
                )
        self._text(name, text)

    def _is_pure(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            value = self.place.names.get(node.id, getattr(builtins, node.id, None))
            return node.id in CALLS or getattr(value, "__module__", None) in PURE
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        owner = getattr(self.place.names.get(node.value.id), "__name__", "")
        return owner in PURE or (owner == "torch" and node.attr in MAKERS)

    def _alias(self, name: str, value: Any, node: Any, text: str, user: str) -> None:
        """Another name of a class, function or module, or what a call gave back as one."""
        real = getattr(value, "__name__", "")
        if not any(isinstance(part, ast.Call) for part in ast.walk(node.value)):
            self._text(name, text)
        elif real != name and real.isidentifier() and self.place.names.get(real) is value:
            self.need(real, user)
            self.taken.texts.append(f"{name} = {real}")
        else:
            self._imported(name, value, user)

    def _import(self, name: str, node: ast.Import | ast.ImportFrom, value: Any, user: str) -> None:
        alias = next(
            one for one in node.names if (one.asname or one.name.partition(".")[0]) == name
        )
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = importlib.util.resolve_name("." * node.level + module, self.place.package)
            if module == "my_vit":
                self.need(alias.name, user)
                self.taken.texts.append(f"{name} = {alias.name}")
                return
            self._add_import(name, module, alias.name, user)
        else:
            self._add_import(name, "", alias.name, user)

    def _imported(self, name: str, value: Any, user: str) -> None:
        """A value that no statement made: it came by ``import *``, or with the kernel."""
        module, real = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
        if isinstance(value, ModuleType):
            self._add_import(name, "", value.__name__, user)
        elif (
            module not in ("__main__", "my_vit")
            and getattr(sys.modules.get(module), real, None) is value
        ):
            self._add_import(name, module, real, user)
        elif name == "<lambda>":
            raise NotKept(
                "a lambda has no name to be kept by: write a function with def, in a cell"
            )
        elif not user:
            raise NotKept(
                f"its text cannot be seen here: write {name} in a notebook or in a .py file"
            )
        else:
            raise NotKept(
                f"{self._hangs(name, user)}, whose text cannot be seen here: write both in cells"
                " and run them again"
            )

    def _add_import(self, name: str, module: str, original: str, user: str) -> None:
        root = (module or original).partition(".")[0]
        if not known_everywhere(root):
            raise NotKept(
                f"{self._hangs(name, user)} of {root}, which is not installed everywhere: write"
                " what you need of it in a cell"
            )
        self.taken.imports[name] = (module, original)

    def _without_my_vit(self, text: str) -> str:
        """``my_vit.MyMLPBlock`` is, in the file itself, ``MyMLPBlock``."""
        ours = set(filter(self._is_my_vit, free_names(text)))
        if not ours:
            return text
        lines = text.encode().split(b"\n")
        found = []
        for node in ast.walk(syntax(text)):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id in ours:
                found.append(node)
        for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
            if node.attr in PIECES and node.lineno == node.end_lineno:
                line = lines[node.lineno - 1]
                lines[node.lineno - 1] = (
                    line[: node.col_offset] + node.attr.encode() + line[node.end_col_offset :]
                )
        changed = b"\n".join(lines).decode()
        if ours & set(free_names(changed)):
            raise NotKept(
                "it uses my_vit as a whole: write my_vit.MyMLPBlock, or from my_vit import"
                " MyMLPBlock"
            )
        return changed

    def _is_my_vit(self, name: str) -> bool:
        return getattr(self.place.names.get(name), "__name__", "") == "my_vit"


def free_names(text: str) -> list[str]:
    """The names that a text uses and does not make itself, in the order in which they come."""
    table = symtable.symtable(text, "<text>", "exec")
    used = _used(table, True)
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            used.discard(symbol.get_name())
    return sorted(used, key=text.find)


def global_words(text: str) -> set[str]:
    """The names that a text takes from its module, made there or not; none if it is no Python."""
    try:
        return _used(symtable.symtable(text, "<text>", "exec"), True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def _used(table: symtable.SymbolTable, top: bool) -> set[str]:
    names = set()
    for symbol in table.get_symbols():
        if (top and symbol.is_referenced()) or (not top and symbol.is_global()):
            names.add(symbol.get_name())
    for child in table.get_children():
        names |= _used(child, False)
    return names


def known_everywhere(root: str) -> bool:
    """Whether a module is Python's own, this package's, or one that was installed."""
    usual = {"torch", "torchvision", "numpy", "mnist_vit"}
    return (
        root in usual
        or root in sys.stdlib_module_names
        or root in metadata.packages_distributions()
    )
