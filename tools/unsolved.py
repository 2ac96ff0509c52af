"""A wheel without the text of the solutions: ``python -m tools unsolved WHEEL``.

In the new wheel each exercise is bytecode, so that checks run and nobody reads the solution at
sight. It installs on this version of Python only.
"""

import base64
import hashlib
import py_compile
import re
import sys
import tempfile
import zipfile
from pathlib import Path

EXERCISE = re.compile(r"mnist_vit/course/nb\d\d_\w+/\w+\.py")
SOLUTIONS = "mnist_vit/shipped/notebooks/solutions/"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


def main(words: list[str]) -> None:
    """Write the new wheel into the folder ``unsolved`` beside the one that is named."""
    if len(words) != 1 or not words[0].endswith("-py3-none-any.whl"):
        sys.exit("name the wheel: python -m tools unsolved dist/mnist_vit-….whl")
    print(without_solutions(Path(words[0])))


def without_solutions(wheel: Path) -> Path:
    """Write a wheel whose exercises are bytecode, and which has no folder of solutions.

    Args:
        wheel: as ``python -m build`` makes it.

    Returns:
        The new wheel, in the folder ``unsolved`` beside the old one.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    made: dict[str, bytes] = {}
    for name, content in files.items():
        if EXERCISE.fullmatch(name) and b"\nEXERCISE = " in content:
            made[f"{name}c"] = _compiled(name, content)
        elif name.endswith(".dist-info/WHEEL"):
            made[name] = content.replace(b"Tag: py3-none-any", f"Tag: {TAG}-none-any".encode())
        elif not name.startswith(SOLUTIONS) and not name.endswith(".dist-info/RECORD"):
            made[name] = content
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    made[record] = _record(made, record)
    target = wheel.parent / "unsolved" / wheel.name.replace("-py3-", f"-{TAG}-")
    target.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in made.items():
            archive.writestr(name, content)
    return target


def _compiled(name: str, content: bytes) -> bytes:
    """The bytecode of a file; it names the file as the package does, and asks for no source."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source.py")
        source.write_bytes(content)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compiled = py_compile.compile(
            str(source), str(Path(folder, "made.pyc")), name, True, invalidation_mode=mode
        )
        return Path(str(compiled)).read_bytes()


def _record(files: dict[str, bytes], record: str) -> bytes:
    """The list of a wheel's files, with their hashes and sizes."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{record},,", ""]).encode()
