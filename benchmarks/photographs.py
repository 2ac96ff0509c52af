"""What do the defaults make of 300 photographs in a folder? From scratch, and from shipped weights.

    python -m benchmarks photographs --store
    python -m benchmarks photographs weights --seed 10 --settings '{"epochs": 20}'

A draw is 75 photographs of each of four CIFAR-10 classes, written as a folder of PNG files, and 400
others of the same classes to be evaluated on. All are of the validation split, on which
``vit_cifar10`` was not trained. ``scratch`` runs ``mnist-vit train vit_cifar10 --data FOLDER``;
``weights`` adds ``--weights vit_cifar10``, whose class head for ten classes is replaced. Settings
were chosen on draws 10 and above; 0, 1 and 2 are stored. One thread; CPU seconds include the
validation after each epoch.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torchvision.transforms.functional import to_pil_image

from mnist_vit.data import ImageData, load_cifar10
from mnist_vit.jobs import evaluate, train
from tools import ROOT

FILE = ROOT / "benchmarks" / "results" / "photographs.json"
KEY = "name"
NAMES = ["scratch", "weights"]
SEEDS = (0, 1, 2)
CLASSES = 4
TRAINED = 75  # of each class
HELD_OUT = 100


def about(settings: str) -> dict[str, str]:
    """What the file says of all its runs."""
    told = "errors of photographs that neither trained nor validated; no settings: the default"
    return {"about": told}


def run(name: str, seed: int, settings: str = "{}") -> dict[str, Any]:
    """Train on one draw, the number of which is the seed.

    ``settings`` are keywords of ``train`` as JSON; none: the defaults.
    """
    photographs, others = draw(load_cifar10("validation"), seed)
    start = {"weights": "vit_cifar10"} if name == "weights" else {}
    with tempfile.TemporaryDirectory() as folder:
        pictures = Path(folder) / "photographs"
        write(photographs, pictures)
        write(others, Path(folder) / "others")
        before = time.process_time()
        history = train(
            "vit_cifar10", pictures, run_dir=Path(folder) / "run", **start, **json.loads(settings)
        )
        seconds = time.process_time() - before
        weights = Path(folder) / "run" / "weights.pth"
        result = evaluate(str(weights), Path(folder) / "others", split="all")
    return {
        "name": name,
        "seed": seed,
        "settings": json.loads(settings),
        "classes": [photographs.classes[one] for one in photographs.labels.unique()],
        "epochs": len(history),
        "training_accuracy": round(history[-1]["accuracy"], 3),
        "errors": result.total - result.correct,
        "of": result.total,
        "cpu_seconds": round(seconds, 1),
    }


def draw(photographs: ImageData, seed: int) -> tuple[ImageData, ImageData]:
    """Photographs of four classes to train on, and others of these to be evaluated on."""
    random = torch.Generator().manual_seed(seed)
    classes = torch.randperm(len(photographs.classes), generator=random)[:CLASSES]
    trained, held_out = [], []
    for one in classes.sort().values:
        places = (photographs.labels == one).nonzero().flatten()
        places = places[torch.randperm(len(places), generator=random)]
        trained.append(places[:TRAINED])
        held_out.append(places[TRAINED : TRAINED + HELD_OUT])
    chosen, others = torch.cat(trained), torch.cat(held_out)
    return photographs.select(chosen, "a draw"), photographs.select(others, "others")


def write(photographs: ImageData, folder: Path) -> None:
    """Write a folder of images, with one subfolder for each class that occurs."""
    for number, label in enumerate(photographs.labels.tolist()):
        place = folder / photographs.classes[label]
        place.mkdir(parents=True, exist_ok=True)
        to_pil_image(photographs.images[number]).save(place / f"{number:03d}.png")
