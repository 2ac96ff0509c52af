"""The text of ``my_vit.py``: a head with the imports, then a section for each piece, found again by
its header."""

import ast
import re
import sys
from dataclasses import dataclass, field

from .extracting import Taken, global_words
from .pieces import PIECES, NotKept
from .sources import bound, syntax

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
        """Whether the package's own stands in for a piece: nothing is there, or only imports."""
        try:
            nodes = [node for node, _ in chunks(self.sections.get(name, "")) if node]
        except SyntaxError:
            return False
        return all(_is_from_the_package(node, name) for node in nodes)

    def lacks(self, name: str) -> bool:
        """Whether nothing in the section of a piece makes it; one that is no Python may."""
        try:
            names = [bound(node) for node, _ in chunks(self.sections.get(name, "")) if node]
        except SyntaxError:
            return False
        return self.is_ours(name) or name not in set().union(*names)

    def __str__(self) -> str:
        """The whole file; ours stand in for the pieces that are missing."""
        parts = [self.title, import_block(self.imports), self.rest]
        sections = [
            f"{piece.header}\n{self.sections.get(name) or piece.ours}"
            for name, piece in PIECES.items()
        ]
        return "\n\n\n".join(["\n\n".join(part for part in parts if part), *sections]) + "\n"


def _is_from_the_package(node: ast.stmt, name: str) -> bool:
    is_import = isinstance(node, ast.ImportFrom) and not node.level
    return is_import and f"{node.module}.".startswith("mnist_vit.") and name in imported(node)


def parse(text: str) -> Layout:
    """The parts of a file. SyntaxError if its head is no Python; a section may be none."""
    layout = Layout()
    head, *found = HEADER.split(text)
    for name, section in zip(found[::2], found[1::2], strict=True):
        if name not in PIECES:  # a heading that was edited
            head += section
        else:
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
    for number, (node, part) in enumerate(chunks(head)):
        _add_to_head(layout, node, part, number == 0)
    return layout


def _add_to_head(layout: Layout, node: ast.stmt | None, part: str, is_first: bool) -> None:
    """Put a statement that stands above the first section where it belongs, as it is written."""
    if is_first and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        layout.title = part.strip()
    elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
        layout.title = f"{layout.title}\n\n{part.strip()}"
    elif isinstance(node, ast.Import | ast.ImportFrom) and _is_plain(node, part, layout.imports):
        layout.imports |= imported(node)
    elif own := sorted(bound(node) & PIECES.keys() if node else ()):  # written by hand
        text = f"{part.strip()}\n\n\n{layout.sections.get(own[0], '')}"
        layout.sections[own[0]] = text.strip()
    elif part.strip():
        layout.rest = f"{layout.rest}\n{part.strip(chr(10))}".strip("\n")


def _is_plain(
    node: ast.Import | ast.ImportFrom, part: str, known: dict[str, tuple[str, str]]
) -> bool:
    """Whether an import says no more than its names: ``import_block`` can write it anew."""
    names = imported(node)
    if getattr(node, "level", 0) or "*" in names or "#" in part:
        return False
    alone = len(syntax(part).body) == 1
    return alone and all(known.get(name, where) == where for name, where in names.items())


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
    for node in syntax(text).body:
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
    """Return the layout with an answer in its section; what others need stays.

    A statement that two sections need stands in the first of them. NotKept if a name of the answer
    is another thing elsewhere in the file.
    """
    made: dict[str, str] = {}
    for text in taken.texts:
        made |= dict.fromkeys(made_by(text) - PIECES.keys(), text)
    others = dict(layout.sections)
    old = others.pop(name, "")
    _refuse_taken(layout, name, taken, made)
    new = Layout(layout.title, layout.imports | taken.imports, layout.rest, others)
    if layout.is_ours(name):
        old = ""
    in_the_head = made_by(layout.rest)
    texts = [text for text in taken.texts if not made_by(text) & in_the_head]
    before = True
    for other in PIECES:
        before = before and other != name
        if made.keys() & made_by(others.get(other, "")):
            texts = _share(new, other, made, texts, before)
    new.sections[name] = joined([*_still_needed(old, new, made), *texts])
    unused = words(old) - words(new.rest).union(*map(words, new.sections.values()))
    new.imports = {one: where for one, where in new.imports.items() if one not in unused}
    return new


def _share(
    new: Layout, other: str, made: dict[str, str], texts: list[str], before: bool
) -> list[str]:
    """Leave what an answer also makes in another section, if that stands before it; else remove it.

    Returns the texts that the answer's own section still has to hold.
    """
    parts = []
    for node, part in chunks(new.sections[other]):
        names = sorted(bound(node) & made.keys()) if node else []
        if not names:
            parts.append(part.strip("\n"))
        elif before:
            shared = made[names[0]]
            parts.append(shared)
            texts = [text for text in texts if text != shared]
    new.sections[other] = joined(parts)
    return texts


def _still_needed(old: str, new: Layout, made: dict[str, str]) -> list[str]:
    """The statements of a section that is replaced which other sections use."""
    needed = set().union(*map(words, new.sections.values()))
    found = []
    for node, part in _chunks_or_whole(old):
        names = bound(node) if node else set()
        if names & needed and not names & (made.keys() | PIECES.keys()):
            found.append(part.strip("\n"))
    return found


def _refuse_taken(layout: Layout, name: str, taken: Taken, made: dict[str, str]) -> None:
    """NotKept if a name of an answer is something else for another section, or for the head."""
    places = {"the head of the file": layout.rest} | layout.sections
    places.pop(name, None)
    for one in [*taken.imports, *made]:
        wanted = taken.imports.get(one) or ast.dump(syntax(made[one]))
        statement = _statement(layout, one)
        there = ast.dump(statement[0]) if statement else layout.imports.get(one)
        users = [place for place, text in places.items() if _uses(text, one)]
        if users and there != wanted:
            shown = statement[1] if statement else ""
            if one in layout.imports and not statement:
                shown = import_block({one: layout.imports[one]})
            line = next((part for part in shown.splitlines() if one in part), "made elsewhere")
            raise NotKept(
                f"the name {one} is taken: {users[0]} uses it for something else"
                f" (`{line.strip()[:60]}`); rename yours, run its cells again, then the check"
            )


def _uses(text: str, name: str) -> bool:
    """Whether a text makes a name, or takes it from its module."""
    return name in words(text) and name in global_words(text) | made_by(text)


def _statement(layout: Layout, name: str) -> tuple[ast.Module, str] | None:
    """The statement of the file that makes a name, and its text; imports of the head are none."""
    for text in [layout.rest, *layout.sections.values()]:
        for node, part in _chunks_or_whole(text):
            if node and name in bound(node):
                return syntax(part), part.strip()
    return None


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


def statements(text: str) -> list[str]:
    """The statements of a text, each with the lines above it; all as one if it is no Python."""
    return [part for _, part in _chunks_or_whole(text)]


def _chunks_or_whole(text: str) -> list[tuple[ast.stmt | None, str]]:
    try:
        return chunks(text)
    except SyntaxError:
        return [(None, text)]
