"""The model that grows from notebook 00 to 06: every row with and without its piece, five seeds.

    python -m experiments growing                     # the rows, and what is stored
    python -m experiments growing with_mlp --seed 3   # train one seed, beside the stored ones
    python -m experiments growing with_mlp --store    # choose the rate, train five seeds, store

The models are those that the notebooks show, made of the package's classes
(``mnist_vit/course/ladder/growing.py``). All train in the ladder's loop on 4,000 digits, or on the
relational task. The learning rate of every model is chosen on digits (or patches) split from the
4,000, never on the 1,000 that give the accuracy.
"""

from experiments.ladder import measure, one_seed
from mnist_vit.course.ladder import ROWS, looked_at, stored
from mnist_vit.course.ladder.rows import RESULTS

FILE = RESULTS / "growing.json"
NAMES = list(ROWS)


def run(name: str, seed: int | None = None) -> dict:
    """Train the model of a row: five seeds, or the one given, with the stored learning rate."""
    rung = ROWS[name]
    if seed is not None:
        return one_seed(rung, stored(name)["learning_rate"], seed)
    found, models = measure(rung)
    if name == "same_head":
        found["looks_at"] = [looked_at(model) for model in models]
    return found
