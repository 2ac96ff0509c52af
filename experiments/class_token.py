"""Notebook 14's rotary model on a larger canvas, the class token at four places; five seeds.

    python -m experiments class_token                    # the name, and what is stored
    python -m experiments class_token rotary --seed 3    # one seed again, beside the stored one
    python -m experiments class_token --store            # every seed that is not stored yet

The training is that of the notebook: 12 epochs of the ladder's 4,000 digits at a learning rate of
0.003. The canvas is 42 pixels wide in the place of 28, with the digit in the middle (from patch
(1, 1) on) or in a corner (from (2, 2) on). The class token is turned as the patch at (0, 0), which
is not at all, (1, 1), (2, 2) or (3, 3). Judged on the 1,000 other embedded digits.

That the class token must stand where the digit begins was found with seed 0; the other seeds came
after it.
"""

from typing import Any

import torch

from mnist_vit.course import ladder
from mnist_vit.course.ladder.loop import accuracy
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb14_parts_since_2020 import variants
from mnist_vit.model import VisionTransformer

FILE = RESULTS / "class_token.json"
KEY = "variant"
NAMES = ["rotary"]
SEEDS = range(5)
RATE = 3e-3
PLACES = range(4)


def run(name: str, seed: int) -> dict[str, Any]:
    """Train from one seed; accuracies in percent, those of a canvas for each class token."""
    row = ladder.Row(name, variants.BUILD[name], epochs=12)
    model, reached, seconds = row.train(RATE, seed)
    x, y = ladder.digits("validation")
    blank = float(x.min())
    found: dict[str, Any] = {"28 pixels": reached}
    for where in ("middle", "corner"):
        canvas = variants.on_canvas(x, where, blank)
        found[where] = [accuracy(moved(model, place), canvas, y) for place in PLACES]
    return found | {"cpu_seconds": round(seconds, 1)}


def about() -> dict[str, Any]:
    """Return what all runs of the file have in common."""
    return {"class token at": [[place, place] for place in PLACES]}


def moved(model: VisionTransformer, place: int) -> VisionTransformer:
    """The trained model for the large canvas, its class token at this row and column."""
    found = variants.larger_rotary(model, 1.0)
    side = variants.LARGE_GRID
    patches = variants.angles_2d(side, side, 32)
    token = patches.view(side, side, -1)[place, place]
    variants.turn(found, torch.cat([token[None], patches]))
    return found
