"""The checks on a file of somebody else, in a process of its own, whose verdict it cannot forge.

The process is told a random word, and writes its verdict behind this word into a pipe. The file
itself runs without input and output. Code that looks into frames, or that replaces functions of
torch, could still forge: see SECURITY.md.
"""

import base64
import faulthandler
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType

from .layout import Layout
from .pieces import PIECES

SECONDS = 120  # for one file
LONGEST = 300  # characters of what is said of a piece


def verdicts_of(layout: Layout) -> tuple[dict[str, str], dict[str, str], str]:
    """Run the checks on all pieces that are the learner's.

    Returns:
        "right" or "wrong" for each piece that was judged, what was said of those that are wrong,
        and why there is no more.
    """
    word = secrets.token_hex(16)
    root = Path(__file__).resolve().parents[3]
    known = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="mnist_vit_", ignore_cleanup_errors=True) as where:
        text = Path(where, "text")
        text.write_text(str(layout), "utf-8")
        child = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import judge; judge({str(text)!r})"],
            cwd=where,
            env=os.environ | {"PYTHONPATH": known, "MNIST_VIT_OUT": where},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that all it starts can be ended
        )
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(f"{word}\n".encode())  # type: ignore[union-attr]
                child.stdin.flush()  # type: ignore[union-attr]
            child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return {}, {}, f"stopped after {SECONDS} s"
        finally:
            _end(child)
        said = _received(child)
    if f" {word} " not in said:
        return {}, {}, "it ended the check"
    found = json.loads(base64.b64decode(said.partition(f" {word} ")[2]))
    verdicts = {name: "wrong" if why else "right" for name, why in found.items()}
    return verdicts, found, "it changes the checks" * (not found)


def _end(child: subprocess.Popen) -> None:
    """End a process and all it started."""
    with suppress(OSError, AttributeError):  # Windows knows no groups
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()
    with suppress(OSError):
        child.stdin.close()  # type: ignore[union-attr]


def _received(child: subprocess.Popen) -> str:
    """What lies in the pipe; nobody is waited for."""
    with child.stdout as pipe:  # type: ignore[union-attr]
        with suppress(OSError, AttributeError):
            os.set_blocking(pipe.fileno(), False)
        try:
            return os.read(pipe.fileno(), 1 << 16).decode(errors="replace")
        except BlockingIOError:
            return ""


def judge(file: str) -> None:
    """Read the word, run the text in a file, and write the verdicts behind the word."""
    word = sys.stdin.readline().strip()
    parent, channel = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    faulthandler.dump_traceback_later(SECONDS, exit=True)  # where no thread of Python's can run

    from .keeper import FILE, parsed
    from .trying import mended, problem_of

    layout = parsed(Path(file).read_text("utf-8"))
    before = _functions()
    look = _functions  # the file may replace this one and the next four
    write = os.write
    end = os._exit
    dump = json.dumps
    encode = base64.b64encode
    failing = mended(layout, Path(file).parent / "nowhere" / FILE)[1]
    found = {}
    for name in PIECES:
        if name in failing:
            found[name] = _reason(layout, name, failing[name], problem_of)
        elif not layout.is_ours(name):
            found[name] = ""
    now = look()
    if any(now.get(key) != value for key, value in before.items()):
        found = {}
    write(channel, f" {word} ".encode() + encode(dump(found).encode()))
    end(0)  # what the file has left for the end does not run


def _reason(
    layout: Layout, name: str, sentence: str, problem_of: Callable[[Layout, str], str]
) -> str:
    """What the check says of a piece; the sentence that tells what became of it, if it is no
    Python."""
    try:
        said = problem_of(layout, name)
    except SyntaxError:
        said = ""
    return (said or sentence)[:LONGEST]


def _end_with(parent: int) -> None:
    """End this process, and all it started, as soon as the one that waits for it is gone."""
    with suppress(OSError):
        os.read(parent, 1)
    if hasattr(os, "killpg"):
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(1)


def _functions() -> dict[tuple[str, str], tuple[int, int]]:
    """The course's functions and classes, by module and name, as far as they can be told apart."""
    found = {}
    for module in [name for name in sys.modules if name.startswith("mnist_vit.")]:
        for name, value in list(vars(sys.modules[module]).items()):
            if isinstance(value, FunctionType | type):
                found[module, name] = (id(value), id(getattr(value, "__code__", None)))
    return found
