"""Puts right answers into ``my_vit.py``, and gives the module of it."""

import ast
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from itertools import filterfalse
from pathlib import Path
from types import ModuleType
from typing import Any

from ...files import locked, out_dir, read_text, user_path, write_text
from .. import all_exercises
from ..checking import nearest_exercise
from ..observing.undisturbed import stoppable
from .answers import FOLDER, alone, solved, store, stored, taken_of, whole
from .extracting import Taken, extract
from .layout import FORMAT, Layout, format_of, imported, parse, put
from .pieces import BY_EXERCISE, PIECES, NotKept
from .sources import syntax
from .trying import mended, object_of, problem_of, run
from .what_ran import difference

FILE = "my_vit.py"
WHOLE = "my_vit"  # in the place of an exercise: a whole file that was no Python
_unwritten: dict[Path, str] = {}  # what could not be written lasts as long as the kernel


def path() -> Path:
    """Where the file is: under MNIST_VIT_OUT, else in the current folder."""
    return out_dir(FILE).absolute()


def read(file: Path) -> str:
    """The text of the file; empty if there is none.

    NotKept if it cannot be read, or if a newer version of the course wrote it.
    """
    if file in _unwritten:
        return _unwritten[file]
    if file.exists() and not file.is_file():
        raise NotKept(f"{file} cannot be read (it is no regular file)")
    try:
        text = read_text(file)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise NotKept(f"{file} cannot be read ({error})") from error
    number = format_of(text)
    if number > FORMAT:
        raise NotKept(
            f"{file} has format {number}, and this mnist_vit knows {FORMAT}: update mnist_vit; the"
            " file stays as it is"
        )
    return text


def keep(exercise: str, answer: Any) -> str | None:
    """Keep a right answer; returns the line to print where it is a piece, and so goes into the
    file.

    The same answer gives the same line, whatever the file holds.
    """
    piece = BY_EXERCISE.get(exercise)
    if piece is None:  # only a piece says where it is kept, or why it is not
        with suppress(Exception), locked(path().parent, wait=20):
            taken = extract(answer, getattr(answer, "__name__", ""))
            store(path(), exercise, whole(taken.imports, taken.texts))
        return None
    try:
        return _put(path(), piece.name, extract(answer, piece.name), answer)
    except NotKept as reason:
        return f"{FILE}: {piece.name} is not kept: {reason}"
    except Exception as error:  # something nobody thought of; the answer is right all the same
        return f"{FILE}: {piece.name} is not kept: {type(error).__name__}: {error}"


def _put(file: Path, name: str, taken: Taken, answer: Any = None) -> str:
    """Put an answer into the file, and return the line to print. NotKept if it cannot be."""
    waiting = _unwritten.get(file)
    try:
        with locked(file.resolve().parent, wait=20):
            _write(file, with_answer(read(file), name, taken, file, answer))
    except OSError as error:
        _unwritten[file] = with_answer(waiting or read(file), name, taken, file, answer)
        return f"{FILE}: {name} is kept until this kernel ends, but not in the file: {error}"
    return f"{FILE}: {name} is kept"


def with_answer(text: str, name: str, taken: Taken, file: Path, answer: Any = None) -> str:
    """Return the text of the file with an answer in it.

    NotKept unless it, and every piece after it, passes there, and it is what ran: ``answer``.
    """
    new = put(parsed(text), name, taken)
    trial, failing = mended(new, file, but=name)
    if problem := problem_of(trial, name):
        raise NotKept(f"by itself, away from the notebook, it does not pass its check: {problem}")
    if failing:
        for other in failing.keys() - mended(parsed(text), file)[1].keys():
            raise NotKept(
                f"{other}, which is in the file, does not pass its check together with it"
            )
    if answer is not None and (said := difference(answer, object_of(trial, name))):
        raise NotKept(_not_what_ran(name, said))
    return str(new)


def _not_what_ran(name: str, said: str) -> str:
    """Why a piece is not kept that ran with other code than the file holds, and what to do."""
    for other, piece in PIECES.items():
        if other != name and re.match(rf"{other}\b", said):
            return (
                f"it ran with another {other} than the file holds. Run"
                f" check.{piece.exercise}({other}) first, then this check"
            )
    return (
        f"its text is not what ran: {said}. Run the cells of {name}, and of all it uses, again,"
        " then the check"
    )


def parsed(text: str) -> Layout:
    """The parts of the file; of a head that is no Python only the imports (``_write`` keeps the
    whole text)."""
    try:
        return parse(text)
    except SyntaxError:
        head = re.split(r"^# ---- ", text, maxsplit=1, flags=re.MULTILINE)[0]
        layout = parse(text[len(head) :])
        for line in head.splitlines():
            try:
                nodes = syntax(line).body
            except SyntaxError:
                continue
            for node in nodes:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    layout.imports |= imported(node)
        return layout


def _write(file: Path, text: str) -> None:
    """Write the file; what each of the learner's sections holds, and held, goes to the answers."""
    old = read(file)
    new, before = parse(text), parsed(old)
    for layout in (before, new):
        for name, piece in PIECES.items():
            if not layout.is_ours(name):
                store(file, piece.exercise, alone(layout, name))
    if old and not _is_python(old):
        store(file, WHOLE, old)
    target = file.resolve()  # a link stays a link
    if target.is_file() and not target.stat().st_mode & 0o222:
        raise OSError(f"{target} is read-only: allow writing (chmod u+w), then run the check again")
    _unwritten.pop(file, None)
    if not file.is_file() or read(file) != text:
        write_text(target, text)


def _is_python(text: str) -> bool:
    try:
        syntax(text)
    except SyntaxError:
        return False
    return True


def my_vit() -> ModuleType:
    """The learner's pieces, by their names, as a module; ours stand in where one is missing or
    fails.

    Prints whose pieces are in use, in one line. From then on ``from my_vit import MyMLPBlock``
    works, with a file or without one; call this again to get what was kept since.
    """
    file, sentences = path(), []
    try:
        text = read(file)
    except NotKept as reason:
        text, sentences = "", [str(reason)]
    layout, failed = mended(parsed(text), file)
    said = [f"{FILE}: {whose(layout, file)}", *sentences, *failed.values()]
    print("; ".join([*said, *in_answers(parsed(text), file, failed)]))
    whole = str(layout)
    module = sys.modules.get("my_vit")
    if module is None or getattr(module, "__text__", None) != whole:
        module = run(whole, file)
        module.__text__ = whole  # type: ignore[attr-defined]
        sys.modules["my_vit"] = module
    return module


def whose(layout: Layout, file: Path) -> str:
    """Which pieces are the learner's, in a few words; and the name of the folder, where it holds no
    file yet."""
    ours = list(filter(layout.is_ours, PIECES))
    yours = list(filterfalse(layout.is_ours, PIECES))
    if not yours and not file.is_file():
        return f"none in {file.parent.name}/ yet; all {len(PIECES)} pieces are ours"
    if not yours:
        return f"all {len(PIECES)} pieces are ours so far"
    if not ours:
        return f"all {len(PIECES)} pieces are yours"
    return f"yours: {', '.join(yours)}; ours: {', '.join(ours)}"


def in_answers(layout: Layout, file: Path, told: Collection[str] = ()) -> list[str]:
    """What to do if the answers hold pieces that the file lacks, besides those that were told."""
    found = []
    for name, piece in PIECES.items():
        is_missing = layout.lacks(name) and name not in told
        if is_missing and stored(file, piece.exercise):
            found.append(name)
    if not found:
        return []
    return [f"{FOLDER}/ holds your {', '.join(found)}: check.restore() brings back what is right"]


def restore(folder: str | Path | None = None) -> None:
    """Bring back what ``my_vit.py`` lacks from the answers that were accepted.

    A piece that the file holds stays as it is.

    Args:
        folder: where ``my_answers`` lies, if that is not beside ``my_vit.py``; all answers are
            copied from there first.
    """
    with stoppable("restore"):
        _restore(folder)


def _restore(folder: str | Path | None) -> None:
    file = path()
    try:
        if folder is not None:
            _copy_answers(user_path(folder).absolute(), file)
        lines, back, not_back = _brought_back(file)
    except (NotKept, OSError, ValueError) as problem:
        print(f"{FILE}: nothing is brought back: {problem}")
        return
    if back:
        lines.append(f"{FILE}: brought back {', '.join(back)}")
    for name, why in not_back.items():
        lines.append(f"{FILE}: {name} is not brought back: {why}")
    print("\n".join(lines or [f"{FILE}: there is nothing to bring back from {FOLDER}"]))


def _copy_answers(folder: Path, file: Path) -> None:
    """Copy the answers in a folder to those beside the file. ValueError if it holds none."""
    if folder.name == FOLDER:
        folder = folder.parent
    source = folder / FILE
    if not (folder / FOLDER).is_dir():
        raise ValueError(f"there is no {FOLDER} in {folder}: name the folder that holds it")
    if folder == file.parent:
        return
    with locked(file.parent, wait=20):
        for exercise in sorted(solved(source)):
            for text in stored(source, exercise):
                store(file, exercise, text)


def _brought_back(file: Path) -> tuple[list[str], list[str], dict[str, str]]:
    """Put the last right answer to each missing piece into the file.

    Returns:
        Lines about the file itself, the pieces that are there again, and why others are not.
    """
    lines: list[str] = []
    back: list[str] = []
    not_back: dict[str, str] = {}
    for name, piece in PIECES.items():
        if not parsed(read(file)).lacks(name):
            continue
        for text in reversed(stored(file, piece.exercise)):
            try:
                said = _put(file, name, taken_of(text))
            except (NotKept, SyntaxError) as reason:
                not_back.setdefault(name, str(reason))
                continue
            if not said.endswith("is kept"):
                lines.append(said)
            back.append(name)
            not_back.pop(name, None)
            break
    return lines, back, not_back


def earlier(exercise: str, number: int | None = None, restore: bool = False) -> None:
    """Print how many answers to an exercise were kept, or one of them; or put that one back into
    ``my_vit.py``.

    Args:
        exercise: what follows ``check.``; "my_vit" for whole files that were no Python
        number: which answer, from 1, the oldest; -1 is the last.
        restore: put it back, if it is a piece and right.
    """
    exercise = str(getattr(exercise, "__name__", exercise))
    file, piece = path(), BY_EXERCISE.get(exercise)
    if exercise not in {*all_exercises(), WHOLE}:
        print(nearest_exercise(exercise, all_exercises()))
        return
    texts = stored(file, exercise)
    if not texts:
        print(f"{exercise}: no answer was kept in {file.parent / FOLDER}")
    elif number is None:
        many = "1 answer was kept"
        if len(texts) > 1:
            many = f"{len(texts)} answers were kept"
        said = f'{exercise}: {many}; check.earlier("{exercise}", {len(texts)}) prints the last one'
        if piece:
            said += f'; check.earlier("{exercise}", {len(texts)}, restore=True) puts it back'
        print(said)
    elif type(number) is not int or number not in (*range(1, len(texts) + 1), -1):
        print(f"{exercise}: there are answers 1 to {len(texts)}, and no answer {number}")
    elif not restore or piece is None:
        print(texts[number - (number > 0)].rstrip())
    else:
        try:
            print(_put(file, piece.name, taken_of(texts[number - (number > 0)])))
        except (NotKept, SyntaxError) as reason:
            print(f"{FILE}: {piece.name} is not kept: {reason}")
