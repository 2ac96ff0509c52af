"""What ``mnist_vit.check`` offers: checks by name, hints, and ours where answers are missing."""

from collections.abc import Callable
from typing import Any

from . import all_exercises
from .checking import judge, nearest_exercise, verdict
from .helping import FILE, VARIABLE, most_help, sentence
from .keeping import keep
from .observing.undisturbed import stoppable

EXERCISES = all_exercises()


def check_of(name: str) -> Callable[[Any], None]:
    """The function ``check.<name>``.

    Raises:
        AttributeError: there is no such exercise; it tells the nearest name.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in EXERCISES:
        raise AttributeError(nearest_exercise(name, EXERCISES))

    def check(answer: Any = None) -> None:
        with stoppable(name):
            judgement = judge(EXERCISES[name], answer, own=True)
            print(sentence(name, judgement))
            line = keep(name, answer) if judgement.passed else ""
            if line:
                print(line)

    check.__name__ = name
    check.__doc__ = (
        f"Check the answer to the exercise {name}: prints what it does, and if it fails again what"
        " to do instead; a right answer is kept."
    )
    return check


def hint(name: str, step: int = 1) -> None:
    """Print a hint for an exercise: step 1 is a nudge, step 2 the way, step 3 one solution."""
    name = str(getattr(name, "__name__", name))  # check.hint(check.mlp) is meant kindly too
    if name not in EXERCISES:
        print(nearest_exercise(name, EXERCISES))
    elif step not in (1, 2, 3):
        print(f"there are hints 1, 2 and 3, and no hint {step}")
    elif step > most_help():
        print(f"hint {int(step)} is turned off here ({VARIABLE}, or the file {FILE})")
    else:
        print(f"hint {int(step)} of 3: {EXERCISES[name].hint(int(step))}")


def solved(answer: Any, name: str) -> Any:
    """The answer, if it is right; else our solution. Prints nothing."""
    if name not in EXERCISES:
        raise ValueError(nearest_exercise(name, EXERCISES))
    return answer if verdict(EXERCISES[name], answer)[0] else EXERCISES[name].answer
