"""What pretraining is worth: notebook 11's experiment, with five draws of labelled digits.

    python -m experiments transfer                    # names, and what is stored
    python -m experiments transfer probe_50 --seed 2  # one draw, beside the stored ones
    python -m experiments transfer probe_50 --store   # five draws, stored

The digits are scikit-learn's 1,797, enlarged to 20 pixels in the middle of 28. A draw is a random
order of them: the first ones are labelled, the last 797 give the accuracy. The models are
vit_mnist_p4 and one of its start values, and are trained by the solutions of notebook 11's
exercises ``transfer`` and ``two_rates``; ``scratch_longer_50`` by notebook 13's training from
scratch, whose learning rate was chosen there with other digits.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from sklearn.linear_model import LogisticRegression

from mnist_vit import load_model, vit_mnist
from mnist_vit.course.ladder.loop import accuracy
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb11_pretrained_vit.others import other_digits
from mnist_vit.course.nb11_pretrained_vit.transfer import my_transfer
from mnist_vit.course.nb11_pretrained_vit.two_rates import my_two_rates
from mnist_vit.course.nb13_without_labels.autoencoder import train_with_labels

from . import without_labels

FILE = RESULTS / "transfer.json"
SEEDS = range(5)


def run(name: str, seed: int | None = None) -> dict:
    """Measure with five draws, or with the one given; accuracies in percent."""
    seeds = SEEDS if seed is None else [seed]
    return {"accuracy": [MEASUREMENTS[name](seed=one) for one in seeds]}


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the places of the labelled digits, and of those that give the accuracy."""
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(seed))
    return order[:count], order[-797:]


def trained(
    count: int, pretrained: bool, freeze: bool, learning_rate: float, seed: int, steps: int = 100
) -> float:
    """Return the accuracy after ``steps`` steps."""
    torch.manual_seed(seed)
    model = load_model("vit_mnist_p4") if pretrained else vit_mnist(4)
    images, labels = other_digits()
    few, rest = draw(count, seed)
    model = my_transfer(model, images[few], labels[few], freeze, steps, learning_rate)
    return accuracy(model, images[rest], labels[rest])


def trained_longer(count: int, seed: int) -> float:
    """Return the accuracy after notebook 13's training from scratch: Muon, and augmentation."""
    recipe = without_labels.ROWS
    images, labels = other_digits()
    few, rest = draw(count, seed)
    mnist = without_labels.load("train")  # its mean and standard deviation
    pixels = 255 * (images[few] * mnist.std[0] + mnist.mean[0])
    data = replace(mnist, images=pixels.round().byte(), labels=labels[few], name="few")
    model = recipe.start(seed)
    train_with_labels(
        model,
        data,
        recipe.scratch,
        learning_rate=recipe.chosen("scratch"),
        seed=seed,
        changes=recipe.changes,
    )
    return accuracy(model, images[rest], labels[rest])


def fine_tuned(
    count: int, probe_steps: int, head_rate: float, seed: int, body_rate: float = 0.00003
) -> float:
    """Return the accuracy after 100 steps with a rate for the head and one for the body.

    Before that the new head alone learns for ``probe_steps`` steps.
    """
    images, labels = other_digits()
    few, rest = draw(count, seed)
    x, y = images[few], labels[few]
    model = my_transfer(load_model("vit_mnist_p4"), x, y, True, probe_steps, 0.01)
    model = my_two_rates(model, x, y, 100, head_rate, body_rate)
    return accuracy(model, images[rest], labels[rest])


def own_head(seed: int) -> float:
    """Return the accuracy of the model as it is: no label is used."""
    images, labels = other_digits()
    _, rest = draw(0, seed)
    return accuracy(load_model("vit_mnist_p4"), images[rest], labels[rest])


def logistic(count: int, tokens: bool, seed: int) -> float:
    """Return the accuracy of logistic regression on the class token, or on the 784 pixels."""
    images, labels = other_digits()
    x = images.flatten(1)
    if tokens:
        model = load_model("vit_mnist_p4")
        model.heads = torch.nn.Identity()
        with torch.no_grad():
            x = model(images)
    few, rest = draw(count, seed)
    classifier = LogisticRegression(max_iter=5000).fit(x[few], labels[few])
    return round(100 * classifier.score(x[rest], labels[rest]), 1)


MEASUREMENTS: dict[str, Callable[..., float]] = {
    "own_head": own_head,
    "pixels_50": partial(logistic, 50, False),
    "scratch_50": partial(trained, 50, False, False, 0.001),
    "scratch_longer_50": partial(trained_longer, 50),
    "random_probe_50": partial(trained, 50, False, True, 0.03),
    "probe_50": partial(trained, 50, True, True, 0.01),
    "tuned_50": partial(trained, 50, True, False, 0.0003),
    "two_rates_50": partial(fine_tuned, 50, 0, 0.01),
    "probe_first_50": partial(fine_tuned, 50, 100, 0.00003),
    "tuned_longer_50": partial(trained, 50, True, False, 0.0003, steps=300),
    "tuned_at_0.0001_50": partial(trained, 50, True, False, 0.0001),
    "tuned_at_0.001_50": partial(trained, 50, True, False, 0.001),
    "tuned_at_0.003_50": partial(trained, 50, True, False, 0.003),
    "fast_head_50": partial(fine_tuned, 50, 0, 0.01, body_rate=0.0003),
    "slow_body_50": partial(fine_tuned, 50, 0, 0.0003, body_rate=0.00003),
    "pixels_100": partial(logistic, 100, False),
    "pixels_1000": partial(logistic, 1000, False),
    "token_50": partial(logistic, 50, True),
    "token_100": partial(logistic, 100, True),
    "token_1000": partial(logistic, 1000, True),
}
NAMES = list(MEASUREMENTS)
