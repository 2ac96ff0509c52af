"""Numbers that notebook 07 shows beside its live ones: one loop, one recipe, five seeds.

    python -m experiments one_loop                  # names, and what is stored
    python -m experiments one_loop muon_5 --seed 2  # one seed, beside the stored ones
    python -m experiments one_loop muon_5 --store   # choose the rate, train five seeds, store them

All train on the same 4,000 digits. The accuracy is that on the 1,000 digits that are not trained
on, in percent. Each learning rate is chosen on 800 of the 4,000, with a model trained on the other
3,200.
"""

import time

import torch
from torch import nn

from experiments.baselines import MODELS
from mnist_vit.course.ladder import stored
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb07_training.training_loop import my_training_loop
from mnist_vit.course.nb07_training.training_step import my_training_step
from mnist_vit.data import ImageData, Loader, load_embedded
from mnist_vit.model import VisionTransformer
from mnist_vit.training import accuracy_and_loss, fit, make_optimizer

FILE = RESULTS / "training.json"
SEEDS = range(5)
BATCH = 64
AVERAGE = 0.98
DECAY = 0.1
AUGMENTATION = {"degrees": 10.0, "scale": 0.1, "shift": 1.0}
RATES = (0.002, 0.004, 0.008)
# Epochs; the first three are the same model.
RUNS = {"vit": 10, "vit_5": 5, "muon_5": 5, "mlp": 10, "cnn": 10, "minute": 24}
# 64 digits again and again, and how others are classified then.
BY_HEART = ("by_heart", "by_heart_others")
NAMES = [*RUNS, *BY_HEART]


def run(name: str, seed: int | None = None) -> dict:
    """Train with five seeds and a rate that is chosen, or with the seed given."""
    if name in BY_HEART:
        which = BY_HEART.index(name)
        seeds = SEEDS if seed is None else [seed]
        return {"percent": [by_heart(one)[which] for one in seeds]}
    if seed is None:
        return measure(name)
    rate = stored(name, "training")["learning_rate"]
    digits, others = load_embedded("train"), load_embedded("validation")
    return {"percent": [train(name, rate, seed, digits, others)]}


def measure(name: str) -> dict:
    """Choose the learning rate, and train five seeds."""
    digits, others = load_embedded("train"), load_embedded("validation")
    late = torch.arange(len(digits)) % 400 >= 320
    most, rest = digits.select(~late, "3,200"), digits.select(late, "800")
    tried = {rate: train(name, rate, 0, most, rest) for rate in RATES}
    rate = max(RATES, key=tried.__getitem__)
    start = time.process_time()
    percent = [train(name, rate, seed, digits, others) for seed in SEEDS]
    seconds = time.process_time() - start
    return {
        "percent": percent,
        "learning_rate": rate,
        "tried": {f"{rate:g}": reached for rate, reached in tried.items()},
        "epochs": RUNS[name],
        "parameters": sum(p.numel() for p in build(name, 0).parameters()),
        "cpu_seconds": round(seconds / len(percent), 1),
    }


def build(name: str, seed: int) -> nn.Module:
    """Return the model of a run, with its start values."""
    torch.manual_seed(seed)
    if name in MODELS:
        return MODELS[name]()
    heads = 8 if name == "minute" else 2
    return VisionTransformer(28, 7, 2, heads, 64, 256, num_classes=10, in_channels=1)


def train(name: str, rate: float, seed: int, learn: ImageData, judge: ImageData) -> float:
    """Return the accuracy after the last epoch."""
    model = build(name, seed)
    augmentation = AUGMENTATION | ({"elastic": 0.7} if name == "minute" else {})
    loader = Loader(learn, BATCH, shuffle=True, augmentation=augmentation, seed=seed)
    validation = Loader(judge, 250)
    epochs = RUNS[name]
    if name in ("muon_5", "minute"):
        history = fit(
            model,
            loader,
            validation,
            epochs=epochs,
            learning_rate=rate,
            weight_decay=DECAY,
            average=AVERAGE,
            optimizer="muon",
        )
    else:
        history = my_training_loop(model, loader, validation, epochs, rate, AVERAGE, DECAY)
    return round(100 * history[-1]["validation_accuracy"], 1)


def by_heart(seed: int) -> tuple[float, float]:
    """Return the accuracy on 64 digits after 60 steps with them, and on the 1,000 others."""
    model = build("vit", seed)
    digits = load_embedded("train")
    batch = digits.select(torch.arange(len(digits)) % 63 == 0, "64 digits")
    optimizer = make_optimizer(model, 0.003, weight_decay=DECAY)
    for _ in range(60):
        my_training_step(model, optimizer, batch.normalise(batch.images), batch.labels)
    known, _ = accuracy_and_loss(model, Loader(batch, 250))
    unknown, _ = accuracy_and_loss(model, Loader(load_embedded("validation"), 250))
    return round(100 * known, 1), round(100 * unknown, 1)
