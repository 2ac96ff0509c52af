"""What notebook 07's last training gives, for the notebooks that use the learner's weights.

    python -m experiments own_weights five --store    # writes notebooks/results/own_weights.json
    python -m experiments own_weights shipped --store # the same measurements of vit_mnist_p7
    python -m experiments own_weights file --store    # writes notebooks/results/my_weights.pth

``five`` trains five seeds as notebook 07 does (24 epochs of 4,000 digits, patches of 7, eight
heads) and measures each on the 1,000 digits that were not trained on: accuracy; mean confidence;
and the mean probability that the right digit keeps without three patches, chosen by the class
token's attention in one layer (mean over the heads) or at random, among the patches with ink and
among all 16. All numbers are percent.
``file`` stores the weights of seed 0: they stand in where a learner has none.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.one_loop import AUGMENTATION, AVERAGE, BATCH, DECAY, RUNS, build
from mnist_vit import attention_weights, load_model
from mnist_vit.course.ladder import stored
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.own_weights import SIZES
from mnist_vit.data import ImageData, Loader, load_embedded
from mnist_vit.training import fit

FILE = RESULTS / "own_weights.json"
STAND_IN = RESULTS / "my_weights.pth"
NAMES = ["five", "shipped", "file"]
SEEDS = range(5)
HIDDEN = 3  # of 16 patches
PATCH = 7


def run(name: str, seed: int | None = None) -> dict[str, Any]:
    """Measure five seeds of the training (or the one given), or the shipped model."""
    digits = load_embedded("validation")
    if name == "shipped":
        return measured([load_model("vit_mnist_p7").eval()], digits)
    if name == "file":
        torch.save({"sizes": SIZES, "weights": trained(0).state_dict()}, STAND_IN)
        return {"written": STAND_IN.name}
    seeds = SEEDS if seed is None else [seed]
    return measured([trained(one) for one in seeds], digits)


def trained(seed: int) -> nn.Module:
    """Notebook 07's last training."""
    model = build("minute", seed)
    augmentation = AUGMENTATION | {"elastic": 0.7}
    learn = load_embedded("train")
    fit(
        model,
        Loader(learn, BATCH, shuffle=True, augmentation=augmentation, seed=seed),
        Loader(load_embedded("validation"), 250),
        epochs=RUNS["minute"],
        learning_rate=stored("minute", "training")["learning_rate"],
        weight_decay=DECAY,
        average=AVERAGE,
        optimizer="muon",
    )
    return model.eval()


def measured(models: list[nn.Module], digits: ImageData) -> dict[str, Any]:
    """The measurements, a list with one number for each model."""
    found: dict[str, Any] = {}
    for model in models:
        for what, number in measurements(model, digits).items():
            found.setdefault(what, []).append(round(100 * number, 1))
    return found


@torch.no_grad()
def measurements(model: nn.Module, digits: ImageData) -> dict[str, float]:
    """Accuracy, mean confidence, and what hiding leaves, from 0 to 1."""
    x, y = digits.normalise(digits.images), digits.labels
    probabilities = model(x).softmax(dim=1)
    ink = (F.max_pool2d(digits.images.float(), PATCH) > 0).flatten(1)
    rows = attention_weights(model, x, query=0).mean(dim=2)[..., 1:]  # (n, layers, 16)
    noise = torch.rand(ink.shape, generator=torch.Generator().manual_seed(0))
    scores = {"at random": noise, "first layer": rows[:, 0], "last layer": rows[:, -1]}
    found = {
        "accuracy": (probabilities.argmax(dim=1) == y).float().mean().item(),
        "confidence": probabilities.amax(dim=1).mean().item(),
    }
    for name, score in scores.items():
        among_ink = score.masked_fill(~ink, -torch.inf)
        found[name] = left_without(model, x, y, among_ink.topk(HIDDEN, dim=1).indices)
        among_all = score.topk(HIDDEN, dim=1).indices
        found[f"{name}, of all patches"] = left_without(model, x, y, among_all)
    return found


def left_without(model: nn.Module, x: Tensor, y: Tensor, patches: Tensor) -> float:
    """The mean probability of the right digit without these patches, (n, k)."""
    stays = torch.ones(len(x), 17, dtype=torch.bool).scatter(1, 1 + patches, False)
    blocks = model.encoder.layers  # type: ignore[union-attr]
    handle = blocks[0].register_forward_pre_hook(  # type: ignore[index, union-attr]
        lambda _, args: args[0][stays].unflatten(0, (len(x), -1))
    )
    try:
        probabilities = model(x).softmax(dim=1)
    finally:
        handle.remove()
    return probabilities.gather(1, y[:, None]).mean().item()
