"""Whether a part of an answer, kept before, passes the check of its own."""

from torch import nn

from .exercise import Exercise, Mistake
from .verdict import judge

NOT_THEIRS = ("torch", "torchvision", "mnist_vit")


def refused_part(part: nn.Module, exercise: Exercise) -> Mistake | None:
    """What is told where the class of a part does not pass its own check; None if it does.

    Of a class that no learner wrote, such as one of torch's, nothing is told.

    Args:
        part: a module that stands in the answer.
        exercise: the one for which its class was written.
    """
    kind = type(part)
    if kind.__module__.partition(".")[0] in NOT_THEIRS:
        return None
    if judge(exercise, kind).passed:
        return None
    return Mistake(
        f"The class {kind.__name__} that stands in it does not pass its own check, and may be at"
        " fault.",
        f"Mend it first: check.{exercise.name}({kind.__name__}) says what is wrong with it.",
    )
