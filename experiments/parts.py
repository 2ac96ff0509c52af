"""Parts since 2020: registers and rotary positions, ten seeds each, against the plain model.

    python -m experiments parts                    # names, and what is stored
    python -m experiments parts --store            # every run that is not stored yet
    python -m experiments parts rotary --seed 3    # one again, beside the stored result

Needs MNIST (MNIST_VIT_DATA, or data/). All train on the same 10,000 digits in the order that the
seed gives, the same number of steps; nothing was tuned for any of them. All are judged on the 5,000
validation digits as they are; and every other one on a canvas of 42 pixels in the place of 28,
where the digit stands in the middle or in a corner at its own scale, or fills the canvas. There the
plain model gets its positions in two ways: interpolated, or kept and repeated outwards.

The hypotheses were written here before the first run:

1. registers: the largest norm of a patch after layer 0, over the median, is smaller with them.
2. registers: blank patches get less of the class token's attention in the last layer.
3. registers: the accuracy is another.
4. rotary: the accuracy on 28 pixels is another.
5. rotary: on the canvas, digit in the middle, it is better than the plain model's better way.
6. rotary: the same with the digit in a corner.
7. rotary: the same with the digit as large as the canvas, with the step of patches made smaller.

That is seven comparisons, each by Welch's t-test.

A first recipe, with the default average of the weights, was stopped after three runs: that average
lags far behind in so short a run. Then ``average`` became 0.98 and six epochs five; the hypotheses
stayed.
"""

import functools
import time
from typing import Any

import torch
from torch import Tensor

from mnist_vit import attention_weights
from mnist_vit.course.nb14_parts_since_2020 import variants
from mnist_vit.course.nb14_parts_since_2020.outliers import my_outliers
from mnist_vit.data import ImageData, Loader, load_data
from mnist_vit.files import shipped
from mnist_vit.model import VisionTransformer
from mnist_vit.training import fit

FILE = shipped("notebooks") / "results" / "parts.json"
KEY = "variant"
SEEDS = range(10)
NAMES = list(variants.BUILD)
RECIPE = {
    "epochs": 5,
    "batch_size": 50,
    "optimizer": "muon",
    "learning_rate": 6e-3,
    "weight_decay": 0.1,
    "average": 0.98,
}
STEPS = {"same": 1.0, "smaller": (variants.GRID - 1) / (variants.LARGE_GRID - 1)}


def run(name: str, seed: int, epochs: int = RECIPE["epochs"]) -> dict[str, Any]:
    """Train and judge one model from one seed. Accuracies are percent."""
    start = time.process_time()
    model = train(name, seed, epochs)
    trained = time.process_time() - start
    validation = load_data("mnist", "validation")
    x = validation.normalise(validation.images)
    blank = float(x.min())
    found = {"accuracy": accuracy(model, x, validation.labels)}
    some = torch.arange(0, len(x), 2)
    for where in ("middle", "corner", "scaled"):
        canvas = variants.on_canvas(x[some], where, blank)
        for way, large in enlarged(name, model).items():
            found[f"{where}, {way}"] = accuracy(large, canvas, validation.labels[some])
    return (
        found
        | looks(model, x[::10], blank)
        | {
            "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "cpu_seconds": round(trained, 1),
        }
    )


def about(epochs: int) -> dict[str, Any]:
    """Return what all runs of the file have in common."""
    training, validation = images()
    return {
        "recipe": RECIPE | {"epochs": epochs},
        "data": {"train": training.name, "validation": validation.name},
    }


@functools.cache
def images() -> tuple[ImageData, ImageData]:
    """Return the digits to train on, always the same ones, and those to judge on."""
    everything = load_data("mnist", "train")
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(0))
    part = everything.select(order[:10_000], f"10,000 of {everything.name}")
    return part, load_data("mnist", "validation")


def train(name: str, seed: int, epochs: int) -> VisionTransformer:
    """Return the trained model; the order of the digits is the same for all names."""
    training, validation = images()
    torch.manual_seed(seed)
    model = variants.BUILD[name]()
    few = validation.select(torch.arange(0, len(validation), 25), "every 25th")
    loader = Loader(training, RECIPE["batch_size"], shuffle=True, seed=seed)
    settings = {
        key: RECIPE[key] for key in ("optimizer", "learning_rate", "weight_decay", "average")
    }
    fit(model, loader, Loader(few, 200), epochs=epochs, seed=seed, **settings)
    return model.eval()


@torch.no_grad()
def accuracy(model: VisionTransformer, x: Tensor, y: Tensor) -> float:
    """Percent of the pictures whose class is found."""
    logits = torch.cat([model(some) for some in x.split(250)])
    return round(100 * (logits.argmax(dim=1) == y).float().mean().item(), 2)


def enlarged(name: str, model: VisionTransformer) -> dict[str, VisionTransformer]:
    """Return the model for the large canvas, in each way that there is."""
    if name == "rotary":
        return {f"{way} step": variants.larger_rotary(model, step) for way, step in STEPS.items()}
    if name == "plain":
        return {way: variants.larger(model, way) for way in ("interpolated", "extended")}
    return {}


@torch.no_grad()
def looks(model: VisionTransformer, x: Tensor, blank: float) -> dict[str, float]:
    """Return what may show that blank patches are misused, as means over pictures."""
    count, size = model.num_patches, model.patch_size
    pixels = x.unfold(2, size, size).unfold(3, size, size)
    is_blank = (pixels.reshape(len(x), count, -1) == blank).all(dim=-1)
    found = {}
    hidden: list[Tensor] = []
    block = model.encoder.layers[0]
    handle = block.register_forward_hook(lambda block, given, tokens: hidden.append(tokens))
    model(x)
    handle.remove()
    ratio, where = my_outliers(hidden[0], count)
    found["largest norm"] = ratio.mean()
    found["largest is blank"] = is_blank.gather(1, where[:, None]).float().mean()
    # (n, heads, seq_length) -> (n, seq_length)
    row = attention_weights(model, x, query=0)[:, -1].mean(dim=1)
    patches = row[:, -count:]
    viewed, where = patches.max(dim=1)
    found["most viewed"] = (viewed / patches.mean(dim=1)).mean()
    found["most viewed is blank"] = is_blank.gather(1, where[:, None]).float().mean()
    found["attention on blank"] = (patches * is_blank).sum(dim=1).mean()
    found["attention on registers"] = row[:, 1:-count].sum(dim=1).mean()
    found["blank"] = is_blank.float().mean()
    return {key: round(value.item(), 3) for key, value in found.items()}
