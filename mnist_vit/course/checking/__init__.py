"""The engine of the checks: an exercise, what its ``compare`` is made of, and the verdict on an
answer."""

from .exercise import Exercise, Mistake, Slip
from .tools import (
    copy_weights,
    describe,
    gradients,
    make,
    parameter_gradients,
    random,
    randomise,
    start_values,
)
from .verdict import nearest_exercise, verdict

__all__ = [
    "Exercise",
    "Mistake",
    "Slip",
    "copy_weights",
    "describe",
    "gradients",
    "make",
    "nearest_exercise",
    "parameter_gradients",
    "random",
    "randomise",
    "start_values",
    "verdict",
]
