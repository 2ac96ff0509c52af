"""Numbers that notebook 07 shows beside its live ones: one loop, one recipe, the same 4,000 digits,
five seeds.

    python -m experiments one_loop                  # names, and what is stored
    python -m experiments one_loop muon_5 --seed 2  # train one seed, print it beside the stored ones
    python -m experiments one_loop muon_5 --store   # choose the learning rate, train five seeds,
    write the JSON

The accuracy is that on the 1,000 digits that are not trained on, in percent. Each learning rate is
chosen on 800 of the 4,000, with a model trained on the other 3,200.
"""

import argparse
import time

import torch
from baselines import MODELS
from ladder import SEEDS, store
from torch import nn

from mnist_vit.course.ladder import span, stored
from mnist_vit.course.nb07_training.training_loop import my_training_loop
from mnist_vit.course.nb07_training.training_step import my_training_step
from mnist_vit.data import ImageData, Loader, load_embedded
from mnist_vit.model import VisionTransformer
from mnist_vit.training import accuracy_and_loss, fit, make_optimizer

BATCH, AVERAGE, DECAY = 64, 0.98, 0.1
AUGMENTATION = {"degrees": 10.0, "scale": 0.1, "shift": 1.0}
RATES = (0.002, 0.004, 0.008)
# epochs; the first three are the same model
RUNS = {"vit": 10, "vit_5": 5, "muon_5": 5, "mlp": 10, "cnn": 10, "minute": 24}
BY_HEART = (
    "by_heart",
    "by_heart_others",
)  # 64 digits again and again, and how others are classified then


def build(run: str, seed: int) -> nn.Module:
    """The model of a run, with its start values."""
    torch.manual_seed(seed)
    if run in MODELS:
        return MODELS[run]()
    return VisionTransformer(
        28, 7, 2, 8 if run == "minute" else 2, 64, 256, num_classes=10, in_channels=1
    )


def train(run: str, rate: float, seed: int, learn: ImageData, judge: ImageData) -> float:
    """Percent right after the last epoch."""
    model = build(run, seed)
    bent = {"elastic": 0.7} if run == "minute" else {}
    loader = Loader(learn, BATCH, shuffle=True, augmentation=AUGMENTATION | bent, seed=seed)
    if run in ("muon_5", "minute"):
        recipe = {"weight_decay": DECAY, "average": AVERAGE, "optimizer": "muon"}
        history = fit(
            model, loader, Loader(judge, 250), epochs=RUNS[run], learning_rate=rate, **recipe
        )
    else:
        history = my_training_loop(
            model, loader, Loader(judge, 250), RUNS[run], rate, AVERAGE, DECAY
        )
    return round(100 * history[-1]["validation_accuracy"], 1)


def measure(run: str) -> dict:
    """The learning rate chosen, and five seeds."""
    digits, other = load_embedded("train"), load_embedded("validation")
    late = torch.arange(len(digits)) % 400 >= 320
    split = digits.select(~late, "3,200"), digits.select(late, "800")
    tried = {rate: train(run, rate, 0, *split) for rate in RATES}
    rate = max(RATES, key=tried.__getitem__)
    start = time.process_time()
    percent = [train(run, rate, seed, digits, other) for seed in SEEDS]
    return {
        "percent": percent,
        "learning_rate": rate,
        "tried": {f"{rate:g}": reached for rate, reached in tried.items()},
        "epochs": RUNS[run],
        "parameters": sum(p.numel() for p in build(run, 0).parameters()),
        "cpu_seconds": round((time.process_time() - start) / len(percent), 1),
        "command": f"python -m experiments one_loop {run} --store",
    }


def by_heart(seed: int) -> tuple[float, float]:
    """Percent of 64 digits after 60 steps with them, and of the 1,000 others."""
    model = build("vit", seed)
    digits = load_embedded("train")
    batch = digits.select(torch.arange(len(digits)) % 63 == 0, "64 digits")
    optimizer = make_optimizer(model, 0.003, weight_decay=DECAY)
    for _ in range(60):
        my_training_step(model, optimizer, batch.normalise(batch.images), batch.labels)
    accuracies = (
        accuracy_and_loss(model, Loader(data, 250))[0]
        for data in (batch, load_embedded("validation"))
    )
    return tuple(round(100 * accuracy, 1) for accuracy in accuracies)  # type: ignore[return-value]


def main(arguments: list[str] | None = None) -> None:
    """Train one seed beside what is stored, or measure all, and store them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (*RUNS, "by_heart")
    parser.add_argument(
        "runs", nargs="*", metavar="run", help=f"of {', '.join(known)}; left out: what is stored"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--store",
        action="store_true",
        help="choose the learning rate, train five seeds, store both",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if unknown := [run for run in options.runs if run not in known]:
        parser.error(f"no run is called {', '.join(unknown)}. Choose from: {', '.join(known)}")
    for run in options.runs or known:
        if run == "by_heart" and options.runs:
            seeds = [by_heart(seed) for seed in (SEEDS if options.store else [options.seed])]
            for name, percent in zip(BY_HEART, zip(*seeds, strict=True), strict=True):
                about = {
                    "percent": list(percent),
                    "command": "python -m experiments one_loop by_heart --store",
                }
                if options.store:
                    store(name, about, [*RUNS, *BY_HEART], "training")
                else:
                    print(f"{name}: {span(percent[0], stored(name, 'training')['percent'])}")
            continue
        if options.runs and options.store:
            store(run, measure(run), [*RUNS, *BY_HEART], "training")
            continue
        about = stored(run, "training")
        if options.runs:
            rate, data = (
                about["learning_rate"],
                (load_embedded("train"), load_embedded("validation")),
            )
            print(
                f"{run}: {span(train(run, rate, options.seed, *data), about['percent'])}",
                flush=True,
            )
        else:
            print(f"{run}: {about['percent']}")


if __name__ == "__main__":
    main()
