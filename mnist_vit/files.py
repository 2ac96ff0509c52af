"""Finding and writing files."""

import errno
import json
import os
import shutil
import stat
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
    path = user_path(name)
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


def user_path(given: str | Path) -> Path:
    """A path as a user gives it, with ``~`` for the home folder; ValueError if it is none."""
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"the name of a file or folder is needed, got {type(given).__name__}")
    if not str(given).strip():
        raise ValueError("an empty name was given for a file or folder: name it")
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{given} has no home folder: give the folder's full name") from error


def read_file(path: str | Path, most: int | None = None) -> bytes:
    """The content of a file, or its first ``most`` bytes; OSError if it cannot be read.

    It never waits: a pipe or a device is no file, and what a system's file such as /proc/kmsg has
    beyond its size is not read.
    """
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    with open(path, "rb") as file:
        return file.read(status.st_size if most is None else min(status.st_size, most))


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, each line ended by a line feed; never waits, as ``read_file``.

    OSError if it cannot be read, UnicodeDecodeError if it is not UTF-8.
    """
    text = read_file(path).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def data_dir(given: str | Path | None = None) -> Path:
    """The folder of the data sets.

    It is ``given``, else MNIST_VIT_DATA, else data/ in the clone or the current folder.
    """
    default = (CHECKOUT or _current()) / "data"
    if given is None:
        given = os.environ.get("MNIST_VIT_DATA") or default
    return user_path(given)


def out_dir(kind: str, given: str | Path | None = None) -> Path:
    """The folder for results.

    It is ``given``, else ``kind`` under MNIST_VIT_OUT, else under the current folder.
    """
    if given is None:
        given = Path(os.environ.get("MNIST_VIT_OUT") or _current()) / kind
    return user_path(given)


def _current() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise FileNotFoundError("the current folder was deleted: change to another one") from error


def existing(given: str | Path, kind: str = "folder") -> Path:
    """A folder or a file that must be there; DataError if it is not."""
    path = user_path(given)
    if not path.exists():
        raise DataError(f"there is no {kind} {path}: name one that exists")
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
    """The message for users, with the advice that fits the cause."""
    files = [parent for parent in path.parents if parent.is_file()]
    advice = _ADVICE.get(error.errno or 0, "name another folder")
    if files:
        advice = f"{files[0]} is a file: name another folder"
    elif path.is_dir() and error.errno != errno.ENOSPC:
        advice = "it is a folder: name a file"
    return OSError(f"{path} could not be written ({error.strerror or error}): {advice}")


_ADVICE = {
    errno.ENOSPC: "free disk space, or name another folder",
    getattr(errno, "EDQUOT", -1): "free disk space, or name another folder",
    errno.EACCES: "change its permissions, or name another folder",
    errno.EPERM: "change its permissions, or name another folder",
    errno.EROFS: "the disk is read-only: name another folder",
    errno.EEXIST: "it is a file: name another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def write_atomic(
    path: str | Path,
    write: Callable[[BinaryIO], Any],
    before: Path | None = None,
    sync: bool = True,
) -> Path:
    """Write a file so that a crash leaves either the old or the new one.

    Missing folders are created. A new file has the mode of the old one. ``write`` gets an open
    binary file. The old file is first renamed
    to ``before``, if given. Raises OSError if the disk is full or the folder is read-only; no
    partial file remains. ``sync=False`` leaves flushing to the caller.
    """
    path = Path(path)
    if path.is_symlink():  # a link stays a link
        path = Path(os.path.realpath(path))
    part = part_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "xb") as file:
            write(file)
            file.flush()
            with suppress(OSError):  # a private file stays private
                os.chmod(part, stat.S_IMODE(os.stat(path).st_mode))
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
    source, target = shipped("notebooks"), user_path(folder)
    files: list[Path] = []
    for pattern in ("*.ipynb", "*.md", "conftest.py", "solutions/*.py", "solutions/*.md"):
        files += sorted(source.glob(pattern))
    if not files:
        raise ValueError(f"the notebooks are missing from {source}: reinstall mnist_vit")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise ValueError(f"{target} holds the package's own notebooks: name another folder")
    names = [file.relative_to(source) for file in files]
    taken = [name for name in names if (target / name).exists()]
    if taken and not update:
        raise ValueError(
            f"{target / taken[0]} exists and may contain your work: name another folder, or set"
            " update=True"
        )
    new = part_beside(target / "any")
    try:
        for file, name in zip(files, names, strict=True):
            write_text(new / name, _notebook_text(file, with_outputs))
        before = _set_aside(target, taken)
        for name in names:
            make_folder((target / name).parent)
            os.replace(new / name, target / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    count = sum(name.suffix == ".ipynb" for name in names)
    older = f"; the older copy is in {before}" if before else ""
    print(f"{count} notebooks copied{older}; next: jupyter lab {target / '00_start_here.ipynb'}")
    return target


def _notebook_text(file: Path, with_outputs: bool) -> str:
    """The text of a file of the course; a notebook without outputs, unless they are kept."""
    text = file.read_text("utf-8")
    if file.suffix != ".ipynb" or with_outputs:
        return text
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(execution_count=None, outputs=[])
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _set_aside(folder: Path, names: list[Path]) -> Path | None:
    """Move these files of a folder to a new one in it, named after the time.

    Returns the new folder; None if there are no files to move.
    """
    if not names:
        return None
    stem = time.strftime("before-%Y%m%d-%H%M%S")
    before, count = folder / stem, 1
    while before.exists():
        before, count = folder / f"{stem}-{count}", count + 1
    for name in names:
        make_folder((before / name).parent)
        os.replace(folder / name, before / name)
    return before
