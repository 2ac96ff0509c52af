"""Where files are found, and how they are written."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None


def shipped(kind: str) -> Path:
    """The folder of what comes with the course: "weights", "notebooks" or "attention"."""
    return CHECKOUT / kind if CHECKOUT else PACKAGE / "shipped" / kind


def data_dir(given: str | Path | None = None) -> Path:
    """Where the data lies: the folder given, else MNIST_VIT_DATA, else data/ in the checkout or the current folder."""
    return Path(given or os.environ.get("MNIST_VIT_DATA") or (CHECKOUT or Path.cwd()) / "data").expanduser()


def out_dir(kind: str, given: str | Path | None = None) -> Path:
    """Where results go: the folder given, else ``kind`` under MNIST_VIT_OUT, the checkout or the current folder."""
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("MNIST_VIT_OUT") or CHECKOUT or Path.cwd()).expanduser() / kind


def write_atomic(path: str | Path, write: Callable[[BinaryIO], Any]) -> Path:
    """Write a file so that a crash leaves either the old file or the new one, never half of one.

    Args:
        path: the file; missing folders are made.
        write: is given an open binary file and writes the content.

    Raises:
        OSError: the disk is full, the folder is read-only, ...; nothing half written is left behind.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except (OSError, RuntimeError) as error:
        reason = error.__context__ if isinstance(error, RuntimeError) else error  # torch.save hides a full disk so
        if not isinstance(reason, OSError):
            raise
        raise OSError(f"{path} could not be written ({reason.strerror or reason}); what was there before is whole. "
                      "Make room there, or name another place that can be written to") from error  # fmt: skip
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return path


def write_text(path: str | Path, text: str) -> Path:
    """Write text, atomically, as UTF-8 with plain line ends."""
    return write_atomic(path, lambda file: file.write(text.encode()))


def write_json(path: str | Path, content: Any) -> Path:
    """Write JSON, atomically, indented so that a person can read it."""
    return write_text(path, json.dumps(content, indent=1) + "\n")


def copy_notebooks(folder: str | Path) -> Path:
    """Copy the notebooks of the course, so that working through them leaves the originals as they are.

    Args:
        folder: where to; nothing that is there is overwritten.

    Returns:
        The folder, with the notebooks, the glossary and the solutions in it.
    """
    source, target = shipped("notebooks"), Path(folder).expanduser()
    files = sorted([*source.glob("*.ipynb"), *source.glob("glossary.md"), *source.glob("solutions/*.py")])
    if not files:
        raise ValueError(f"the notebooks of the course are not in {source}: install mnist_vit again")
    for file in files:
        if (taken := target / file.relative_to(source)).exists():
            raise ValueError(f"{taken} is there already, and may hold your work: name another folder")
    for file in files:
        content = file.read_bytes()
        write_atomic(target / file.relative_to(source), lambda copy, content=content: copy.write(content))  # type: ignore[misc]
    print(f"{len(list(source.glob('*.ipynb')))} notebooks copied: jupyter lab {target}")
    return target
