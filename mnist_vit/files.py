"""Finding and writing files."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from .errors import DataError, WeightsError, nearest

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None


def shipped(kind: str) -> Path:
    """The folder of shipped "weights", "notebooks" or "attention" maps."""
    return CHECKOUT / kind if CHECKOUT else PACKAGE / "shipped" / kind


def shipped_weights() -> list[str]:
    """The names of the shipped weights."""
    return sorted(path.stem for path in shipped("weights").glob("*.pth"))


def find_weights(name: str | Path) -> Path:
    """The file of shipped weights such as "vit_mnist", or the path given."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    ours = shipped("weights") / f"{name}.pth"
    if ours.is_file():
        return ours
    known = shipped_weights()
    raise WeightsError(
        f"there are no weights at {path}{nearest(name, known)}: give a .pth file or"
        f" {', '.join(known)}"
    )


def data_dir(given: str | Path | None = None) -> Path:
    """The folder of the data sets.

    It is ``given``, else MNIST_VIT_DATA, else data/ in the clone or the current folder.
    """
    default = (CHECKOUT or Path.cwd()) / "data"
    return Path(given or os.environ.get("MNIST_VIT_DATA") or default).expanduser()


def out_dir(kind: str, given: str | Path | None = None) -> Path:
    """The folder for results.

    It is ``given``, else ``kind`` under MNIST_VIT_OUT, else under the current folder.
    """
    parent = Path(os.environ.get("MNIST_VIT_OUT") or Path.cwd())
    return Path(given or parent / kind).expanduser()


def existing(folder: str | Path) -> Path:
    """A folder, or a file, that must be there; DataError if it is not."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise DataError(f"there is no folder {path}: name one that exists")
    return path


PARTS = ".mnist_vit-*.part"
TAKEN = -1  # in place of a lock's handle: another process or thread has it


def part_beside(path: Path) -> Path:
    """A unique name beside ``path`` for a file that is not yet complete."""
    return path.with_name(PARTS.replace("*", os.urandom(12).hex()))


@contextmanager
def locked(folder: Path, wait: float = 0.0) -> Iterator[bool]:
    """Create and lock a folder until the ``with`` block or the process ends.

    Yields False if the file system has no locks. Raises BlockingIOError if another process or
    thread keeps the lock for ``wait`` seconds.
    """
    make_folder(folder)
    last = time.monotonic() + wait
    handle = _lock(folder)
    while handle == TAKEN:
        if time.monotonic() >= last:
            raise BlockingIOError(
                f"another run is writing to {folder}: wait for it, or name another folder"
            )
        time.sleep(0.02)
        handle = _lock(folder)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _lock(folder: Path) -> int | None:
    """The handle of a lock, TAKEN, or None if the file system has no locks."""
    handle = None
    try:
        if os.name == "nt":
            deleted_when_closed = getattr(os, "O_TEMPORARY", 0)
            new = os.O_CREAT | os.O_EXCL | os.O_RDWR
            return os.open(folder / ".lock", new | deleted_when_closed)
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle
    except OSError as error:
        if handle is not None:
            os.close(handle)
        if isinstance(error, BlockingIOError | FileExistsError):
            return TAKEN
        return None


def make_folder(folder: Path) -> None:
    """Create a folder and its parents; OSError with a message for users if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from error


def _not_written(path: Path, error: OSError) -> OSError:
    return OSError(
        f"{path} could not be written ({error.strerror or error}): free disk space, or name another"
        " folder"
    )


def write_atomic(
    path: str | Path,
    write: Callable[[BinaryIO], Any],
    before: Path | None = None,
    sync: bool = True,
) -> Path:
    """Write a file so that a crash leaves either the old or the new one.

    Missing folders are created. ``write`` gets an open binary file. The old file is first renamed
    to ``before``, if given. Raises OSError if the disk is full or the folder is read-only; no
    partial file remains. ``sync=False`` leaves flushing to the caller.
    """
    path = Path(path)
    part = part_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "xb") as file:
            write(file)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if before is not None and path.is_file():
            os.replace(path, before)
        os.replace(part, path)
    except (OSError, RuntimeError) as error:
        # torch.save hides a full disk
        reason = error.__context__ if isinstance(error, RuntimeError) else error
        if not isinstance(reason, OSError):
            raise
        raise _not_written(path, reason) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    if sync:
        sync_names(path.parent)
    return path


def sync_names(folder: Path) -> None:
    """Flush the entries of a folder to disk, if the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | Path, text: str, sync: bool = True) -> Path:
    """Write text atomically, as UTF-8 with line feeds."""
    return write_atomic(path, lambda file: file.write(text.encode()), sync=sync)


def write_json(path: str | Path, content: Any, sync: bool = True) -> Path:
    """Write indented JSON atomically; ValueError for NaN, which JSON cannot represent."""
    return write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n", sync)


def copy_notebooks(folder: str | Path, with_outputs: bool = False, update: bool = False) -> Path:
    """Copy the notebooks of the course to a folder of yours.

    Args:
        folder: the folder to copy to; existing files are not overwritten.
        with_outputs: keep the stored outputs, which answer each "Before you run it".
        update: move an older copy to a folder named after the date, then copy; my_vit.py is kept.
    """
    source = shipped("notebooks")
    target = Path(folder).expanduser()
    names: list[Path] = []
    for pattern in ("*.ipynb", "glossary.md", "conftest.py", "solutions/*.py"):
        names += [file.relative_to(source) for file in source.glob(pattern)]
    if not names:
        raise ValueError(f"the notebooks are missing from {source}: reinstall mnist_vit")
    names.sort()

    before = target / time.strftime("before-%Y%m%d-%H%M%S")
    for name in names:
        taken = target / name
        if not taken.exists():
            continue
        if not update:
            raise ValueError(
                f"{taken} exists and may contain your work: name another folder, or set update=True"
            )
        make_folder((before / name).parent)
        os.replace(taken, before / name)

    for name in names:
        text = (source / name).read_text("utf-8")
        if name.suffix == ".ipynb" and not with_outputs:
            text = _without_outputs(text)
        write_text(target / name, text)
    print(f"{len(list(source.glob('*.ipynb')))} notebooks copied: jupyter lab {target}")
    return target


def _without_outputs(text: str) -> str:
    """A notebook's file without the outputs of its cells."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(execution_count=None, outputs=[])
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
