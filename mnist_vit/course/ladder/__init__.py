"""The ladder: what each piece of a Vision Transformer buys, measured with it and without it.

The tasks are small: 4,000 digits, and one about equal patches.
``ladder.train("block_mlp", mlp=MyMLPBlock)`` trains one rung with the learner's own piece in it, in
under a minute; ``ladder.table("linear", "block_mlp")`` shows rungs below each other, live where
they were trained, stored elsewhere.
"""

from .models import PATCH, WIDTH, Block, BrokenHead, OneHead, PatchModel, on_pixels, to_patches
from .rows import agrees, contrast, looks, row, same_rows, span, stored, table
from .rungs import RUNGS, Rung
from .running import PieceError, train
from .tasks import digits, looked_at, relation

__all__ = [
    "PATCH",
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
    "digits",
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
