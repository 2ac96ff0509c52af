"""The text of ``my_vit.py``: a head with the imports, then a section for each piece, found again by
its header."""

import ast
import re
import sys
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

from .extracting import Taken, global_words
from .pieces import PIECES, NotKept
from .sources import bound, syntax

TITLE = '''"""My Vision Transformer, as I built it in the course.

The checks write each piece here when it is right. Edit it as you like. Where a line says "ours",
the package's own stands in until the exercise is solved.
"""'''
FORMAT = 2  # 1, without a number: seven pieces, until notebooks 00 to 06 were rebuilt
FORMAT_LINE = re.compile(r"^# format (\d+) *$\n?", re.MULTILINE)
HEADER = re.compile(r"^# ---- (\w+): notebook \d\d, exercise \w+ -*$", re.MULTILINE)


@dataclass
class Layout:
    """The parts of the file, each as it stands there, without blank lines around it."""

    title: str = TITLE
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    rest: str = ""  # what else stands above the first section
    sections: dict[str, str] = field(default_factory=dict)

    def is_ours(self, name: str) -> bool:
        """Whether the package's own stands in for a piece: nothing is there, or it is imported."""
        try:
            parts = chunks(self.sections.get(name, ""))
        except SyntaxError:
            return False
        nodes = [node for node, _ in parts if node is not None]
        others = list(filterfalse(lambda node: _is_from_the_package(node, name), nodes))
        if len(others) < len(nodes):
            return not any(name in bound(node) for node in others)
        return not others

    def beside(self, name: str) -> list[str]:
        """What somebody wrote into a section where the package's own stands in."""
        if not self.is_ours(name):
            return []
        found = []
        for node, part in chunks(self.sections.get(name, "")):
            if node is not None and not _is_from_the_package(node, name):
                found.append(part.strip("\n"))
        return found

    def lacks(self, name: str) -> bool:
        """Whether nothing in the section of a piece makes it; one that is no Python may."""
        section = self.sections.get(name, "")
        try:
            chunks(section)
        except SyntaxError:
            return False
        return self.is_ours(name) or name not in made_by(section)

    def __str__(self) -> str:
        """The whole file; ours stand in for the pieces that are missing."""
        number = f"# format {FORMAT}"
        head = filter(None, [self.title, number, import_block(self.imports), self.rest])
        parts = ["\n\n".join(head)]
        for name, piece in PIECES.items():
            parts.append(f"{piece.header}\n{self.sections.get(name) or piece.ours}")
        return "\n\n\n".join(parts) + "\n"


def _is_from_the_package(node: ast.stmt, name: str) -> bool:
    if not isinstance(node, ast.ImportFrom) or node.level:
        return False
    return f"{node.module}.".startswith("mnist_vit.") and name in imported(node)


def format_of(text: str) -> int:
    """The number of a file's format; a file without one is of the first format."""
    found = FORMAT_LINE.search(HEADER.split(text)[0])
    return int(found[1]) if found else 1


def parse(text: str) -> Layout:
    """The parts of a file. SyntaxError if its head is no Python; a section may be none.

    All formats so far have the same parts; in an older one some pieces are missing.
    """
    layout = Layout()
    head, *found = HEADER.split(text)
    head = FORMAT_LINE.sub("", head, count=1)
    for name, section in zip(found[::2], found[1::2], strict=True):
        if name not in PIECES:  # a heading that was edited
            head += section
        else:
            layout.sections[name] = "\n\n\n".join(
                filter(None, [layout.sections.get(name), section.strip("\n ")])
            )
    for name, section in list(layout.sections.items()):
        # where a heading was deleted, its piece begins the section
        parts: dict[str, str] = {}
        for node, part in _chunks_or_whole(section):
            new = (bound(node) & PIECES.keys()) - layout.sections.keys()
            name = min(new, default=name)
            parts[name] = parts.get(name, "") + part
        if len(parts) > 1:
            for one, text in parts.items():
                layout.sections[one] = text.strip("\n ")
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
    elif own := sorted(bound(node) & PIECES.keys()):  # written by hand
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
    return alone and known | names == names | known  # no name means two things


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str]]:
    """{name: (module, original)} of an import; the module is empty for ``import original``."""
    found = {}
    for alias in node.names:
        if isinstance(node, ast.Import):
            found[alias.asname or alias.name.partition(".")[0]] = ("", alias.name)
        else:
            found[alias.asname or alias.name] = (node.module or "", alias.name)
    return found


def import_block(imports: dict[str, tuple[str, str]]) -> str:
    """The lines of all imports, Python's own first, this package's last."""
    lines: dict[str, list[str]] = {}
    for name in sorted(imports, key=lambda name: (imports[name][1].islower(), imports[name], name)):
        module, original = imports[name]
        called = original
        usual = original if module else original.partition(".")[0]
        if name != usual:
            called = f"{original} as {name}"
        if module:
            lines.setdefault(f"from {module} import ", []).append(called)
        else:
            lines[f"import {called}"] = []
    groups: list[list[str]] = [[], [], []]
    for begin, names in sorted(
        lines.items(), key=lambda item: (item[0].startswith("from"), item[0])
    ):
        root = re.split(r"[ .]", begin)[1]
        line = begin + ", ".join(names)
        if len(line) > 88:
            line = begin + "(\n    " + ",\n    ".join(names) + ",\n)"
        groups[_import_group(root)].append(line)
    return "\n\n".join(map("\n".join, filter(None, groups)))


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
    return 1 + (root == "mnist_vit")


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
    _refuse_headings(taken)
    _refuse_taken(layout, name, taken, made)
    new = Layout(layout.title, layout.imports | taken.imports, layout.rest, others)
    if layout.is_ours(name):
        old = ""
    in_the_head = made_by(layout.rest)
    texts = list(filter(lambda text: not made_by(text) & in_the_head, taken.texts))
    before = True
    for other in PIECES:
        before = before and other != name
        if made.keys() & made_by(others.get(other, "")):
            texts = _share(new, other, made, texts, before)
    new.sections[name] = joined([*_still_needed(old, new, made), *texts, *layout.beside(name)])
    for unused in words(old) - words(new.rest).union(*map(words, new.sections.values())):
        new.imports.pop(unused, None)
    return new


def _share(
    new: Layout, other: str, made: dict[str, str], texts: list[str], before: bool
) -> list[str]:
    """Leave what an answer also makes in another section, if that stands before it; else remove it.

    Returns the texts that the answer's own section still has to hold.
    """
    parts = []
    for node, part in chunks(new.sections[other]):
        names = bound(node) & made.keys()
        if not names:
            parts.append(part.strip("\n"))
        elif before:
            shared = made[min(names)]
            parts.append(shared)
            texts = list(filter(shared.__ne__, texts))
    new.sections[other] = joined(parts)
    return texts


def _still_needed(old: str, new: Layout, made: dict[str, str]) -> list[str]:
    """The statements of a section that is replaced which other sections use."""
    needed = set().union(*map(words, new.sections.values()))
    found = []
    for node, part in _chunks_or_whole(old):
        names = bound(node)
        if names & needed and not names & (made.keys() | PIECES.keys()):
            found.append(part.strip("\n"))
    return found


def _refuse_headings(taken: Taken) -> None:
    """NotKept if a line within an answer would be read as the heading of a section."""
    for text in taken.texts:
        if found := HEADER.search(text):
            raise NotKept(
                f"its line `{found[0][:60]}` looks like a heading of the file: remove that line,"
                " run the cell again, then the check"
            )


def _refuse_taken(layout: Layout, name: str, taken: Taken, made: dict[str, str]) -> None:
    """NotKept if a name of an answer is something else for another section, or for the head."""
    places = {"the head of the file": layout.rest} | layout.sections
    places.pop(name, None)
    for one in [*taken.imports, *made]:
        wanted = taken.imports.get(one) or ast.dump(syntax(made[one]))
        there, shown = _meaning(layout, one)
        user = next(filter(lambda place: _uses(places[place], one), places), "")
        if user and there != wanted:
            lines = filter(lambda line: one in line, shown.splitlines())
            line = next(lines, "made elsewhere").strip()[:60]
            raise NotKept(
                f"the name {one} is taken: {user} uses it for something else (`{line}`); rename"
                " yours, run its cells again, then the check"
            )


def _uses(text: str, name: str) -> bool:
    """Whether a text makes a name, or takes it from its module."""
    return name in words(text) and name in global_words(text) | made_by(text)


def _meaning(layout: Layout, name: str) -> tuple[Any, str]:
    """What makes a name in the file, to be compared, and its text; (None, "") if nothing does."""
    for text in [layout.rest, *layout.sections.values()]:
        for node, part in _chunks_or_whole(text):
            if name in bound(node):
                return ast.dump(syntax(part)), part.strip()
    if name not in layout.imports:
        return None, ""
    where = layout.imports[name]
    return where, import_block({name: where})


def joined(texts: list[str]) -> str:
    """Statements one after the other: two blank lines around what has more than one line, none
    between constants."""
    result = ""
    last = "\n"  # the statement before, or what has more than one line
    for text in texts:
        gap = "\n\n\n"
        if "\n" not in text and "\n" not in last:
            gap = "\n"
        result += gap + text
        last = text
    return result.removeprefix("\n\n\n")


def words(text: str) -> set[str]:
    """All names in a text, as far as anybody can tell without parsing it."""
    return set(re.findall(r"\w+", text))


def made_by(text: str) -> set[str]:
    """The names that a text makes, as far as it is Python."""
    found: set[str] = set()
    for node, _ in _chunks_or_whole(text):
        found |= bound(node)
    return found


def statements(text: str) -> list[str]:
    """The statements of a text, each with the lines above it; all as one if it is no Python."""
    return [part for _, part in _chunks_or_whole(text)]


def _chunks_or_whole(text: str) -> list[tuple[ast.stmt | None, str]]:
    try:
        return chunks(text)
    except SyntaxError:
        return [(None, text)]
