"""The ladder: what each piece of a Vision Transformer buys, measured with it and without it.

The tasks are small: 4,000 digits, and one about equal patches. ``ladder.train(model, "with_mlp")``
trains a model of the learner's, in under a minute; ``ladder.table("patches_only", "with_mlp")``
shows rows below each other, live where they were trained, stored elsewhere, and compares each with
its twin, the model without the piece.
"""

from .growing import ROWS
from .loop import Row, fit
from .models import PATCH, WIDTH, BrokenHead, OneHead, on_pixels, to_patches
from .rows import agrees, difference, interval, looks, row, same_rows, span, stored, table
from .running import PieceError, train
from .tasks import digits, looked_at, relation

__all__ = [
    "PATCH",
    "ROWS",
    "WIDTH",
    "BrokenHead",
    "OneHead",
    "PieceError",
    "Row",
    "agrees",
    "difference",
    "digits",
    "fit",
    "interval",
    "looked_at",
    "looks",
    "on_pixels",
    "relation",
    "row",
    "same_rows",
    "span",
    "stored",
    "table",
    "to_patches",
    "train",
]
