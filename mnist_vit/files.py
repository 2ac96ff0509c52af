"""Where files are found, and how they are written."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None


def shipped(kind: str) -> Path:
    """The folder of what comes with the course: "weights", "notebooks" or "attention"."""
    return CHECKOUT / kind if CHECKOUT else PACKAGE / "shipped" / kind


def data_dir(given: str | Path | None = None) -> Path:
    """Where the data lies: the folder given, else MNIST_VIT_DATA, else data/ in the checkout or the current folder."""
    return Path(given or os.environ.get("MNIST_VIT_DATA") or (CHECKOUT or Path.cwd()) / "data").expanduser()


def out_dir(kind: str, given: str | Path | None = None) -> Path:
    """Where results go: the folder given, else ``kind`` under MNIST_VIT_OUT, else under the current folder."""
    return Path(given or Path(os.environ.get("MNIST_VIT_OUT") or Path.cwd()) / kind).expanduser()


def say(text: str, file: TextIO | None = None) -> None:
    """Print at once; a full log or a reader that has gone costs the words, never the work."""
    with suppress(OSError, ValueError):
        print(text, file=file or sys.stdout, flush=True)


PARTS = ".mnist_vit-*.part"


def part_beside(path: Path) -> Path:
    """A name, beside ``path``, for what is not yet whole; no thread, process or machine makes the same one twice."""
    return path.with_name(PARTS.replace("*", os.urandom(12).hex()))


@contextmanager
def locked(folder: Path, wait: float = 0.0) -> Iterator[bool]:
    """Keep all others out of a folder, which is made if it is missing; a lock ends with its process, a killed one too.

    Yields whether there is a lock: some network drives know none. Raises BlockingIOError if another process or thread
    has it, still after ``wait`` seconds.
    """
    make_folder(folder)
    last = time.monotonic() + wait
    while (handle := _lock(folder)) == TAKEN:
        if time.monotonic() >= last:
            raise BlockingIOError(f"another run is writing to {folder} right now: wait for it, or name another folder")
        time.sleep(0.02)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


TAKEN = -1


def _lock(folder: Path) -> int | None:
    """The handle of a lock; TAKEN, or None where there are no locks."""
    handle = None
    try:
        if os.name == "nt":  # the file is gone when its handle is
            return os.open(folder / ".lock", os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_TEMPORARY", 0))
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle
    except OSError as error:
        if handle is not None:
            os.close(handle)
        return TAKEN if isinstance(error, BlockingIOError | FileExistsError) else None


def make_folder(folder: Path) -> None:
    """Make a folder, and those it lies in; OSError, in a sentence, where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from error


def _not_written(path: Path, error: OSError) -> OSError:
    return OSError(f"{path} could not be written ({error.strerror or error}); what was there before is whole. Make "
                   "room there, or name another place that can be written to")  # fmt: skip


def write_atomic(path: str | Path, write: Callable[[BinaryIO], Any], before: Path | None = None) -> Path:
    """Write a file so that a crash leaves either the old file or the new one, never half of one.

    Missing folders are made; ``write`` is given an open binary file. The old file gets the name ``before``, if there is
    one; a crash just then leaves it under this name only. OSError: the disk is full, the folder is read-only, ...;
    nothing half written is left behind.
    """
    path = Path(path)
    part = part_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if before is not None and path.is_file():
            os.replace(path, before)
        os.replace(part, path)
    except (OSError, RuntimeError) as error:
        reason = error.__context__ if isinstance(error, RuntimeError) else error  # torch.save hides a full disk so
        if not isinstance(reason, OSError):
            raise
        raise _not_written(path, reason) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    sync_names(path.parent)
    return path


def sync_names(folder: Path) -> None:
    """Let the names in a folder, too, survive a power cut, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | Path, text: str) -> Path:
    """Write text, atomically, as UTF-8 with plain line ends."""
    return write_atomic(path, lambda file: file.write(text.encode()))


def write_json(path: str | Path, content: Any) -> Path:
    """Write JSON, atomically, indented so that a person can read it; ValueError for nan, which JSON does not know."""
    return write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def copy_notebooks(folder: str | Path, with_outputs: bool = False, update: bool = False) -> Path:
    """Copy the notebooks of the course, so that working through them leaves the originals as they are.

    Args:
        folder: where to; nothing that is there is overwritten.
        with_outputs: with the stored results, which answer each "Before you run it".
        update: replace an older copy, which goes to a folder with the date beside it; my_vit.py is left alone.
    """
    source, target = shipped("notebooks"), Path(folder).expanduser()
    patterns = ("*.ipynb", "glossary.md", "conftest.py", "solutions/*.py")
    files = sorted(file for pattern in patterns for file in source.glob(pattern))
    if not files:
        raise ValueError(f"the notebooks of the course are not in {source}: install mnist_vit again")
    before = target / time.strftime("before-%Y%m%d-%H%M%S")
    for taken in filter(Path.exists, [target / file.relative_to(source) for file in files]):
        if not update:
            raise ValueError(f"{taken} is there already, and may hold your work: name another folder, or say update")
        make_folder((before / taken.relative_to(target)).parent)
        os.replace(taken, before / taken.relative_to(target))
    for file in files:
        text = file.read_text("utf-8")
        if file.suffix == ".ipynb" and not with_outputs:
            notebook = json.loads(text)
            for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
                cell.update(execution_count=None, outputs=[])
            text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        write_text(target / file.relative_to(source), text)
    print(f"{len(list(source.glob('*.ipynb')))} notebooks copied: jupyter lab {target}")
    return target
