"""User errors and checks of arguments.

A message says what was given, what is needed and what to do.
"""

import difflib
import re
from collections.abc import Collection

NOT_FINITE = (
    "outputs are NaN or infinite: training probably diverged (lower the learning rate), or images"
    " contain NaN"
)


def printable(text: str) -> str:
    """The text, safe to print in a terminal.

    Control characters and invalid code points are escaped.
    """
    unsafe = r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
    return re.sub(unsafe, lambda found: found[0].encode("unicode_escape").decode(), text)


class _FileError(RuntimeError):
    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # it may contain the name of any file


class DataError(_FileError):
    """The data is missing, damaged or does not fit; the message says what to do."""


class WeightsError(_FileError):
    """A weights file is missing, damaged or does not fit; the message says what to do."""


def check_sizes(**sizes: int) -> None:
    """Raise ValueError unless every size is a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")


def check_range(low: float, high: float, **values: float) -> None:
    """Raise ValueError unless every value is a number from ``low`` to ``high``."""
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}")


def check_heads(width_name: str, width: int, num_heads: int) -> None:
    """Raise ValueError unless the width is a multiple of the number of heads."""
    check_sizes(**{width_name: width, "num_heads": num_heads})
    if width % num_heads != 0:
        raise ValueError(
            f"{width_name} {width} must be a multiple of num_heads, got {num_heads} heads"
        )


def nearest(given: object, known: Collection[str]) -> str:
    """ " (did you mean …?)" with the most similar known name; empty if none is similar."""
    near = difflib.get_close_matches(str(given), known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def unknown(kind: str, given: object, known: Collection[str]) -> str:
    """The message for an unknown name, with the most similar name and all names."""
    return f'there is no {kind} "{given}"{nearest(given, known)}: choose from {", ".join(known)}'
