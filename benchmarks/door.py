"""What a new user waits for: help, imports, sizes, and the way from a clone to a trained model.

    python -m benchmarks door quick    # times of help and imports, size of the wheel; a minute
    python -m benchmarks door install  # a fresh clone and the README's first command: minutes,
                                       # gigabytes of download

The size of an installation with the CPU build of PyTorch is computed: that of the full one without
its GPU libraries.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools import ROOT

FILE = ROOT / "benchmarks" / "results" / "door.json"
NAMES = ["quick", "install"]
THREADS = None
TIMES = {
    "help": ["-m", "mnist_vit", "--help"],
    "train_help": ["-m", "mnist_vit", "train", "--help"],
    "import_mnist_vit": ["-c", "import mnist_vit"],
    "import_torch": ["-c", "import torch"],
    "first_use": ["-c", "import mnist_vit; mnist_vit.train"],
}
TRAIN = "-m mnist_vit train vit_mnist_p7 --data embedded"
GPU = re.compile(r"/(nvidia|triton|cuda|torch/lib/[^/]*(cuda|nvshmem))[^/]*(/|$)")
EVERY_FILE = re.compile("")


def run(part: str, rounds: int = 7) -> dict[str, Any]:
    """Measure one part; ``rounds`` is how often each command of the quick part is timed."""
    if part == "quick":
        return {"wheel": wheel(), "seconds": times(rounds)}
    return {"train": TRAIN, **install()}


def times(rounds: int) -> dict[str, float]:
    """Return the median of the processor seconds of each command.

    They run in turn; a first round fills the caches and is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in TIMES}
    for number in range(rounds + 1):
        for name, words in TIMES.items():
            used = processor_seconds([sys.executable, *words])
            if number > 0:
                seconds[name].append(used)
    return {name: round(statistics.median(values), 2) for name, values in seconds.items()}


def processor_seconds(command: list[str]) -> float:
    """Return the processor seconds of a child process."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    after = os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    return user + system


def wheel() -> float:
    """Return the megabytes of the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(command, check=True)
        return round(next(Path(folder).glob("*.whl")).stat().st_size / 1e6, 1)


def install() -> dict[str, Any]:
    """Clone, run the README's first command without a cache of downloads, train a first model."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first_command = re.search(r"^python3 -m venv .* demo$", readme, re.MULTILINE)[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone, log = folder / "clone", folder / "pip.log"
        environment = fresh_environment(folder / "cache", log)
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", clone], check=True)
        found: dict[str, Any] = {"clone": megabytes(clone)}
        start = time.perf_counter()
        subprocess.run(["bash", "-c", first_command], check=True, cwd=clone, env=environment)
        found["seconds_to_demo"] = round(time.perf_counter() - start)
        training = [clone / ".venv/bin/python", *TRAIN.split()]
        subprocess.run(training, check=True, cwd=folder, env=environment)
        found["seconds_to_model"] = round(time.perf_counter() - start)
        found["download"] = downloaded(log)
        found["venv"] = megabytes(clone / ".venv")
        found["venv_cpu"] = found["venv"] - megabytes(clone / ".venv", GPU)
    return found


def fresh_environment(cache: Path, log: Path) -> dict[str, str]:
    """Return an environment in which pip has nothing cached and writes a log."""
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment |= {"PIP_CACHE_DIR": str(cache), "PIP_LOG": str(log), "MNIST_VIT_OUT": ""}
    return environment


def downloaded(log: Path) -> int:
    """Return the megabytes that pip's log tells of."""
    text = log.read_text(encoding="utf-8")
    sizes = re.findall(r"Downloading .*\(([\d.]+) ([kM])B\)", text)
    return round(sum(float(size) / (1000 if unit == "k" else 1) for size, unit in sizes))


def megabytes(folder: Path, chosen: re.Pattern[str] = EVERY_FILE) -> int:
    """Return what the chosen files below a folder take on the disk."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and chosen.search(path.as_posix()):
            total += path.stat().st_size
    return round(total / 1e6)
