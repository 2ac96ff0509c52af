"""Checks of the exercises: ``check.<exercise>(answer)`` says "correct" or names the mistake; ``check.hint`` helps.

``check.vit(AnyClass)`` compares anybody's Vision Transformer with torchvision's, part by part.

The one door from the library into ``course``, which holds the exercises themselves.
"""

from collections.abc import Callable
from typing import Any

from .course import all_exercises
from .course.checking import nearest_exercise, verdict
from .course.checking.whole import vit

EXERCISES = all_exercises()

__all__ = ["EXERCISES", "hint", "vit", *EXERCISES]


def hint(name: str, step: int = 1) -> None:
    """Print a hint for an exercise: step 1 is a nudge, step 2 the way, step 3 one solution."""
    name = str(getattr(name, "__name__", name))  # check.hint(check.mlp) is meant kindly too
    if name not in EXERCISES:
        print(nearest_exercise(name, EXERCISES))
    elif step not in (1, 2, 3):
        print(f"there are hints 1, 2 and 3, and no hint {step}")
    else:
        print(f"hint {int(step)} of 3: {EXERCISES[name].hint(int(step))}")


def __getattr__(name: str) -> Callable[[Any], None]:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in EXERCISES:
        raise AttributeError(nearest_exercise(name, EXERCISES))

    def check(answer: Any = None) -> None:
        print(verdict(EXERCISES[name], answer)[1])

    check.__name__ = name
    check.__doc__ = f"Check the answer to the exercise {name}: prints one line."
    return check


def __dir__() -> list[str]:
    return __all__
