"""Seven silent bugs: Vision Transformers that are wrong, and all train.

    python -m experiments bugs                       # the bugs, and what is stored
    python -m experiments bugs not_divided --seed 3  # train one seed, beside the stored ones
    python -m experiments bugs not_divided --store   # all five seeds, stored

Each bug is an edit of ``mnist_vit/model.py``; the table of them belongs to notebook 06. The right
model has the sizes of ``vit_mnist(patch_size=7)`` and the attention from scratch in its blocks. All
are trained by the recipe of ``experiments/growing.py``, each with the better of two learning rates,
and differ in nothing else: from one seed they start with the same weights.
"""

from functools import partial

from experiments.growing import measure, one_seed
from mnist_vit.course.ladder import Row, stored
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb06_vision_transformer.bugs import BUGS, broken

FILE = RESULTS / "bugs.json"
NAMES = list(BUGS)
RATES = (3e-3, 1e-2)


def run(name: str, seed: int | None = None) -> dict:
    """Train the model with a bug: five seeds, or the one given, with the stored learning rate."""
    if seed is not None:
        return one_seed(row(name), stored(name, "bugs")["learning_rate"], seed)
    found, _ = measure(row(name), RATES)
    return found | {"edit": BUGS[name]}


def row(name: str) -> Row:
    """Return the model with that bug as a row of the ladder; its head gets the mean token."""
    model = partial(broken, name, 28, 7, 2, 2, 64, 256, num_classes=10, in_channels=1, pool="mean")
    return Row(name, model, twin=None if name == "right" else "right", epochs=20)
