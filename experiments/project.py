"""The models of notebook 12's project, five seeds each: three epochs of 4,000 digits.

    python -m experiments project               # names, and what is stored
    python -m experiments project cnn --seed 2  # train one seed, print it beside the stored ones
    python -m experiments project cnn --store   # train five seeds, store them

For vit, cnn and mlp the learning rate is chosen out of three, on digits split from the 4,000; all
changes of the vit take its rate. The three seeds that the notebook trains are the first three of
the five.
"""

from experiments.growing import choose
from mnist_vit.course.ladder import Row, stored
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb12_cifar10_and_ablations.project import EPOCHS, MODELS, RATE, train

FILE = RESULTS / "project.json"
NAMES = list(MODELS)
SEEDS = range(5)
CHOSEN = ("vit", "cnn", "mlp")


def run(name: str, seed: int | None = None) -> dict:
    """Train a model: five seeds, or the one given, with the stored learning rate."""
    build = MODELS[name]
    if seed is not None:
        return {"accuracy": [train(build, seed, stored(name, "project")["learning_rate"])]}
    rate, tried = RATE, {}
    if name in CHOSEN:
        rate, tried = choose(Row("", build, epochs=EPOCHS))
    accuracy = [train(build, seed, rate) for seed in SEEDS]
    trained = [p for p in build().parameters() if p.requires_grad]
    return {
        "accuracy": accuracy,
        "learning_rate": rate,
        "tried": tried,
        "parameters": sum(p.numel() for p in trained),
    }
