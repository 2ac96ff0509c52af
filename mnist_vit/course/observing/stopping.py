"""Stops a learner's code that does not end by itself, where an experiment has called it."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parent.parent.parent)
LIBRARY = os.path.dirname(os.__file__)


class TooLongError(RuntimeError):
    """Raised in the learner's code."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise TooLongError in a loop of the learner's code after this time of computing.

    A debugger that is at work is left alone.
    """
    if sys.gettrace() is not None:
        yield
        return
    end = time.thread_time() + seconds

    def look(frame: FrameType, event: str, _: Any) -> Callable | None:
        if time.thread_time() > end:
            raise TooLongError("stopped: an experiment with this code took too long")
        return look

    def begin(frame: FrameType, event: str, argument: Any) -> Callable | None:
        file = frame.f_code.co_filename
        is_installed = file.startswith((PACKAGE, LIBRARY, "<frozen ")) or "-packages" in file
        return None if is_installed else look

    sys.settrace(begin)
    try:
        yield
    finally:
        sys.settrace(None)
