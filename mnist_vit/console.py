"""What a terminal or a notebook shows during a job: lines and progress bars."""

import os
import sys
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any, TextIO

__all__ = ["open_streams", "progress", "say"]


def say(text: str, file: TextIO | None = None) -> None:
    """Print and flush, above the bars; a full disk or a closed pipe is ignored."""
    with suppress(OSError, ValueError), _bars_away():
        print(text, file=file or sys.stdout, flush=True)


def _bars_away() -> AbstractContextManager:
    """Take bars away while a line is printed; they would stand in front of it."""
    return bar_class().external_write_mode() if bar_class.cache_info().currsize else nullcontext()


def progress(iterable: Iterable, shown: bool = True, **options: Any) -> Any:
    """A bar of tqdm in a terminal or a notebook (Jupyter, Colab), and none elsewhere.

    A notebook's is written to stdout: what is left of a bar on stderr is a red strip there.
    ``TQDM_DISABLE=1`` hides all bars.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    in_notebook = hasattr(shell, "kernel")
    seen = in_notebook or getattr(sys.stderr, "isatty", bool)()
    hidden = os.environ.get("TQDM_DISABLE", "0") not in ("", "0")
    return bar_class()(
        iterable,
        leave=False,
        disable=hidden or not (seen and shown),
        file=sys.stdout if in_notebook else sys.stderr,
        **options,
    )


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
