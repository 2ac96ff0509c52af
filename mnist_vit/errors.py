"""The errors a user can mend, and checks of arguments: what was given, what is needed, what to do."""

import difflib
from collections.abc import Collection


class DataError(RuntimeError):
    """The data is missing, damaged or does not fit; the message says what to do."""


class WeightsError(RuntimeError):
    """A weights file is missing, damaged or does not fit; the message says what to do."""


def check_sizes(**sizes: int) -> None:
    """Raise ValueError unless every size is a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")


def check_range(low: float, high: float, **values: float) -> None:
    """Raise ValueError unless every value is a number from ``low`` to ``high``."""
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}")


def check_heads(width_name: str, width: int, num_heads: int) -> None:
    """Raise ValueError unless the heads share the width equally."""
    check_sizes(**{width_name: width, "num_heads": num_heads})
    if width % num_heads != 0:
        raise ValueError(f"{width_name} {width} must be a multiple of num_heads, got {num_heads} heads")


def nearest(given: object, known: Collection[str]) -> str:
    """The words "(did you mean …?)" with the nearest known name, after a space; nothing if none is near."""
    near = difflib.get_close_matches(str(given), known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def unknown(kind: str, given: object, known: Collection[str]) -> str:
    """The sentence for a name that is not known: the nearest right one, and all of them."""
    return f'there is no {kind} "{given}"{nearest(given, known)}: name one of {", ".join(known)}'
