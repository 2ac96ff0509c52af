"""Runs the text of ``my_vit.py`` as a fresh module and checks the pieces in it; mends, in memory,
what fails."""

import io
import linecache
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import all_exercises
from ..checking import judge
from .answers import stored, used_of
from .layout import Layout, chunks, made_by, words
from .pieces import PIECES
from .sources import told

_tried: dict[str, str] = {}  # what was wrong with a piece and all it uses, or nothing


def run(text: str, file: Path) -> ModuleType:
    """A fresh module of a text; its lines are known to tracebacks and to ``inspect``."""
    module = ModuleType("my_vit")
    module.__file__ = str(file)
    linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
    before = sys.modules.get("my_vit")
    sys.modules["my_vit"] = module  # as an import does; data classes ask for it
    try:
        exec(compile(text, str(file), "exec", dont_inherit=True), vars(module))
    finally:
        del sys.modules["my_vit"]
        if before is not None:
            sys.modules["my_vit"] = before
    return module


def object_of(layout: Layout, name: str) -> Any:
    """The class or function of a piece, as its section and all it needs make it."""
    with redirect_stdout(io.StringIO()):
        return getattr(run(str(_part(layout, _needed(layout, name))), Path("<my_vit>")), name)


def problem_of(layout: Layout, name: str) -> str:
    """What is wrong with a piece: nothing if its check passes there. The same texts are tried once
    in a kernel."""
    part = _part(layout, _needed(layout, name))
    key = f"{name}\n{part}"
    if key not in _tried:
        _tried[key] = _problem(str(part), name)
    return _tried[key]


def _needed(layout: Layout, name: str) -> list[str]:
    """A piece, the pieces it uses, and those that they use."""
    needed = [name]
    for one in needed:
        inside = words(layout.sections.get(one, ""))
        for other in PIECES.keys() - needed:
            if inside & made_by(layout.sections.get(other, PIECES[other].ours)):
                needed.append(other)
    return needed


def _problem(text: str, name: str) -> str:
    try:
        with redirect_stdout(io.StringIO()):
            module = run(text, Path("<my_vit>"))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too
        at = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}" + (f", at `{at.line}`" if at.line else "")
        return said.replace("\n", " ")
    if not name:
        return ""
    if not hasattr(module, name):
        return f"nothing in its section is called {name}, so give it that name again"
    exercise = all_exercises()[PIECES[name].exercise]
    with redirect_stdout(io.StringIO()):  # what it prints was printed in the notebook
        judgement = judge(exercise, getattr(module, name), own=True)
    return "" if judgement.passed else judgement.said.partition(": ")[2]


def mended(layout: Layout, file: Path, but: str = "") -> tuple[Layout, dict[str, str]]:
    """The layout with the last right answer, else ours, where a section fails; and a sentence for
    each piece that does.

    ``but`` names a piece that is not tried.
    """
    layout = Layout(layout.title, layout.imports, layout.rest, dict(layout.sections))
    sentences = {}
    if layout.rest and (problem := _problem(str(_part(layout, [])), "")):
        layout.rest = ""
        sentences[""] = f"what stands above the first section fails ({problem}) and is left out"
    for name, problem in _failing(layout, but):
        del layout.sections[name]
        instead = "ours stands in"
        for text in reversed(stored(file, PIECES[name].exercise)):
            layout.sections[name] = text.strip()
            if not problem_of(layout, name):
                instead = "your last right answer stands in"
                break
            del layout.sections[name]
        sentences[name] = (
            f"{name} in the file {problem.rstrip('.')}; {instead}, and the file stays as it is"
        )
    layout.imports = _part(layout, PIECES).imports
    return layout, sentences


def _part(layout: Layout, names: Collection[str]) -> Layout:
    """Some of the sections, with the imports they use."""
    sections = {one: text for one, text in layout.sections.items() if one in names}
    imports = used_of(layout.imports, " ".join([layout.rest, *sections.values()]))
    return Layout(layout.title, imports, layout.rest, sections)


def _failing(layout: Layout, but: str) -> Iterator[tuple[str, str]]:
    """The pieces that fail, in their order; one is replaced by the caller before the next is
    tried."""
    for name in PIECES:
        if name != but and not layout.is_ours(name):
            try:
                chunks(layout.sections[name])
            except SyntaxError as error:
                yield name, f"is no Python ({told(error)} of its section)"
    for name in PIECES:
        if name != but and not layout.is_ours(name) and (problem := problem_of(layout, name)):
            yield name, f"no longer passes its check: {problem}"
    for name in PIECES:
        if layout.beside(name) and (problem := _problem(str(_part(layout, PIECES)), "")):
            yield name, f"has code beside it that fails: {problem}"
