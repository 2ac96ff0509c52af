"""What a terminal or a notebook shows during a job: lines and progress bars."""

import os
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any, TextIO

__all__ = ["open_streams", "progress", "say"]


def say(text: str, file: TextIO | None = None) -> None:
    """Print and flush; a full disk or a closed pipe is ignored."""
    with suppress(OSError, ValueError):
        print(text, file=file or sys.stdout, flush=True)


def progress(iterable: Iterable, shown: bool = True, **options: Any) -> Any:
    """A bar of tqdm in a terminal or a notebook (Jupyter, Colab), and none elsewhere.

    ``TQDM_DISABLE=1`` hides all bars.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    seen = hasattr(shell, "kernel") or getattr(sys.stderr, "isatty", bool)()
    if hasattr(shell, "kernel"):
        options.setdefault("file", sys.stdout)  # what is left of stderr is a strip of colour
    hidden = os.environ.get("TQDM_DISABLE", "0") not in ("", "0")
    return bar_class()(iterable, leave=False, disable=hidden or not (seen and shown), **options)


@cache
def bar_class() -> Any:
    """tqdm's class for a terminal or a notebook; imported here, so that the help is fast."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets a notebook's bar is text
        from tqdm.auto import tqdm
    return tqdm


def open_streams() -> None:
    """Open streams that were closed (``>&-``), so that no file that is written gets their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
