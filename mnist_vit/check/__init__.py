"""Checks of the exercises: ``check.<exercise>(answer)`` says "correct" or names the mistake; ``check.hint`` helps."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from .core import Exercise, nearest, verdict

EXERCISES: dict[str, Exercise] = {}
for _module in sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("nb")):
    for _exercise in importlib.import_module(f"{__name__}.{_module}").EXERCISES:
        EXERCISES[_exercise.name] = _exercise

__all__ = ["EXERCISES", "hint", *EXERCISES]


def hint(name: str, step: int = 1) -> None:
    """Print a hint for an exercise: step 1 is a nudge, step 3 nearly the solution."""
    name = str(getattr(name, "__name__", name))  # check.hint(check.mlp) is meant kindly too
    if name not in EXERCISES:
        print(nearest(name, list(EXERCISES)))
    elif step not in (1, 2, 3):
        print(f"there are hints 1, 2 and 3, and no hint {step}")
    else:
        print(f"hint {int(step)} of 3: {EXERCISES[name].hints[int(step) - 1]}")


def __getattr__(name: str) -> Callable[[Any], None]:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in EXERCISES:
        raise AttributeError(nearest(name, list(EXERCISES)))

    def check(answer: Any = None) -> None:
        print(verdict(EXERCISES[name], answer)[1])

    check.__name__ = name
    check.__doc__ = f"Check the answer to the exercise {name}: prints one line."
    return check


def __dir__() -> list[str]:
    return __all__
