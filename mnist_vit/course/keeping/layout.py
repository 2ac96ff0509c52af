"""The text of ``my_vit.py``: a head with the imports, then a section for each piece, found again by
its header."""

import ast
import re
import sys
from dataclasses import dataclass, field

from .extracting import Taken
from .pieces import PIECES
from .sources import bound

TITLE = '''"""My Vision Transformer, as I built it in the course.

The checks write each piece here when it is right. Edit it as you like. Where a line says "ours",
the package's own stands in until the exercise is solved.
"""'''
HEADER = re.compile(r"^# ---- (\w+): notebook \d\d, exercise \w+ -*$", re.MULTILINE)


@dataclass
class Layout:
    """The parts of the file, each as it stands there, without blank lines around it."""

    title: str = TITLE
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    rest: str = ""  # what else stands above the first section
    sections: dict[str, str] = field(default_factory=dict)

    def is_ours(self, name: str) -> bool:
        """Whether the package's own stands in for a piece."""
        return name not in self.sections or self.sections[name] == PIECES[name].ours

    def __str__(self) -> str:
        """The whole file; ours stand in for the pieces that are missing."""
        parts = [self.title, import_block(self.imports), self.rest]
        sections = [
            f"{piece.header}\n{self.sections.get(name) or piece.ours}"
            for name, piece in PIECES.items()
        ]
        return "\n\n\n".join(["\n\n".join(part for part in parts if part), *sections]) + "\n"


def parse(text: str) -> Layout:
    """The parts of a file. SyntaxError if its head is no Python; a section may be none."""
    layout = Layout()
    head, *found = HEADER.split(text)
    for name, section in zip(found[::2], found[1::2], strict=True):
        if name in PIECES:
            layout.sections[name] = "\n\n\n".join(
                filter(None, [layout.sections.get(name), section.strip("\n ")])
            )
    for name, section in list(
        layout.sections.items()
    ):  # where a heading was deleted, its piece begins the section
        parts: dict[str, list[str]] = {}
        for node, part in _chunks_or_whole(section):
            name = (
                min((bound(node) & PIECES.keys()) - layout.sections.keys(), default=name)
                if node
                else name
            )
            parts.setdefault(name, []).append(part)
        if len(parts) > 1:
            layout.sections |= {one: "".join(texts).strip("\n ") for one, texts in parts.items()}
    others = []
    for number, (node, part) in enumerate(chunks(head)):
        if number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            layout.title = part.strip()
        elif isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
            layout.imports |= imported(node)
        else:
            own = [name for name in bound(node) if name in PIECES] if node else []
            if own:  # a file that was written by hand
                layout.sections.setdefault(own[0], "")
                layout.sections[own[0]] = f"{part.strip()}\n\n\n{layout.sections[own[0]]}".strip()
            else:
                others.append(part.strip("\n"))
    layout.rest = "\n".join(part for part in others if part.strip())
    return layout


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str]]:
    """{name: (module, original)} of an import; the module is empty for ``import original``."""
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    plain = isinstance(node, ast.Import)
    return {
        alias.asname or (alias.name.partition(".")[0] if plain else alias.name): (
            module,
            alias.name,
        )
        for alias in node.names
    }


def import_block(imports: dict[str, tuple[str, str]]) -> str:
    """The lines of all imports, Python's own first, this package's last."""
    lines: dict[str, list[str]] = {}
    ordered = sorted(
        (original.islower(), original, name, module) for name, (module, original) in imports.items()
    )
    for _, original, name, module in ordered:
        if module:
            called = original if original == name else f"{original} as {name}"
            lines.setdefault(f"from {module} import ", []).append(called)
        else:
            renamed = "" if original.partition(".")[0] == name else f" as {name}"
            lines[f"import {original}{renamed}"] = []
    groups: list[list[str]] = [[], [], []]
    for begin, names in sorted(
        lines.items(), key=lambda item: (item[0].startswith("from"), item[0])
    ):
        root = re.split(r"[ .]", begin)[1]
        line = begin + ", ".join(names)
        if len(line) > 88:
            line = begin + "(\n    " + ",\n    ".join(names) + ",\n)"
        groups[_import_group(root)].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group)


def chunks(text: str) -> list[tuple[ast.stmt | None, str]]:
    """The statements of a text, each with the lines above it that belong to none; together they are
    the text."""
    lines = text.splitlines(keepends=True)
    found: list[tuple[ast.stmt | None, str]] = []
    done = 0
    for node in ast.parse(text).body:
        end = node.end_lineno or done
        found.append((node, "".join(lines[done:end])))
        done = max(done, end)
    if rest := "".join(lines[done:]).strip():
        found.append((None, rest))
    return found


def _import_group(root: str) -> int:
    """Where an import stands: the standard library's first, then other packages', then ours."""
    if root in sys.stdlib_module_names:
        return 0
    return 2 if root == "mnist_vit" else 1


def put(layout: Layout, name: str, taken: Taken) -> Layout:
    """The layout with an answer in its section. What is there already is not written again, what
    others need stays.

    A helper or an import that another section has under the same name is replaced by the new one,
    everywhere.
    """
    new = Layout(layout.title, layout.imports | taken.imports, layout.rest, dict(layout.sections))
    made: dict[str, str] = {}
    for text in taken.texts:
        made |= dict.fromkeys(made_by(text), text)
    old = new.sections.pop(name, "")
    before = True
    for other in PIECES:
        before = before and other != name
        parts, changed = [], False
        for node, part in _chunks_or_whole(new.sections.get(other, "")):
            names = bound(node) if node else set()
            text = (
                next((made[one] for one in names & made.keys()), "")
                if not names & PIECES.keys()
                else ""
            )
            if text and before and names <= made_by(text):  # it stays where it is needed first
                taken = Taken(taken.imports, [one for one in taken.texts if one != text])
            elif text:
                changed = True
                continue
            changed = changed or bool(text and part.strip("\n") != text)
            parts.append(text or part.strip("\n"))
        if changed:
            new.sections[other] = joined(parts)
    needed = set().union(*(words(section) for section in new.sections.values()))
    stay = []
    for node, part in _chunks_or_whole(old) if old != PIECES[name].ours else []:
        names = bound(node) if node else set()
        if names & needed and not names & (made.keys() | PIECES.keys()):
            stay.append(part.strip("\n"))
    new.sections[name] = joined([*stay, *taken.texts])
    used = words(new.rest).union(*(words(section) for section in new.sections.values()))
    new.imports = {one: where for one, where in new.imports.items() if one in used}
    return new


def joined(texts: list[str]) -> str:
    """Statements one after the other: two blank lines around what has more than one line, none
    between constants."""
    result = ""
    for text in texts:
        gap = (
            "\n"
            if "\n" not in text and result and "\n" not in result.rpartition("\n\n\n")[2]
            else "\n\n\n"
        )
        result += (gap if result else "") + text
    return result


def words(text: str) -> set[str]:
    """All names in a text, as far as anybody can tell without parsing it."""
    return set(re.findall(r"\w+", text))


def made_by(text: str) -> set[str]:
    """The names that a text makes, as far as it is Python."""
    return set().union(*(bound(node) for node, _ in _chunks_or_whole(text) if node))


def _chunks_or_whole(text: str) -> list[tuple[ast.stmt | None, str]]:
    try:
        return chunks(text)
    except SyntaxError:
        return [(None, text)]
