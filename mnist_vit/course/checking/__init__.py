"""The engine of the checks: exercises, what a ``compare`` is made of, and verdicts on answers."""

from ..observing.observers import Evidence
from .exercise import Exercise, Mistake, Slip
from .kept import refused_part
from .tools import (
    Figures,
    changed_in,
    copy_weights,
    describe,
    fits,
    gradients,
    hooks_left,
    joined,
    make,
    others_hooks,
    parameter_gradients,
    random,
    randomise,
    sentence_numbers,
    start_values,
    state_of,
    with_dropout_seen,
)
from .verdict import Judgement, judge, nearest_exercise, verdict

__all__ = [
    "Evidence",
    "Exercise",
    "Figures",
    "Judgement",
    "Mistake",
    "Slip",
    "changed_in",
    "copy_weights",
    "describe",
    "fits",
    "gradients",
    "hooks_left",
    "joined",
    "judge",
    "make",
    "nearest_exercise",
    "others_hooks",
    "parameter_gradients",
    "random",
    "randomise",
    "refused_part",
    "sentence_numbers",
    "start_values",
    "state_of",
    "verdict",
    "with_dropout_seen",
]
