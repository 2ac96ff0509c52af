"""The ladder: what each piece of a Vision Transformer buys, measured with it and without it.

The tasks are small: 4,000 digits, and one about equal patches. ``ladder.train(model, "with_mlp")``
trains a model of the learner's, in under a minute; ``ladder.table("patches_only", "with_mlp")``
shows rows below each other, live where they were trained, stored elsewhere, and compares each with
its twin, the model without the piece.
"""

from .growing import ROWS
from .models import PATCH, WIDTH, Block, BrokenHead, OneHead, PatchModel, on_pixels, to_patches
from .rows import agrees, contrast, difference, interval, looks, row, same_rows, span, stored, table
from .rung import Rung, fit
from .rungs import RUNGS
from .running import PieceError, train
from .tasks import digits, looked_at, relation

__all__ = [
    "PATCH",
    "ROWS",
    "RUNGS",
    "WIDTH",
    "Block",
    "BrokenHead",
    "OneHead",
    "PatchModel",
    "PieceError",
    "Rung",
    "agrees",
    "contrast",
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
