"""What a new user waits for: help, imports, sizes, and the way from a clone to the demo and a first
trained model.

    python -m benchmarks door           # times of help and imports, size of the wheel; a minute
    python -m benchmarks door install   # a fresh clone and the README's first command: minutes,
    gigabytes of download

Results go to benchmarks/results/door.json; ``python -m tools figures`` puts them into the
README. The size of an installation with the CPU build of PyTorch is computed: that of the full one
without its GPU libraries.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measure

ROOT = measure.RESULTS.parent.parent
TIMES = {
    "help": ["-m", "mnist_vit", "--help"],
    "train_help": ["-m", "mnist_vit", "train", "--help"],
    "import_mnist_vit": ["-c", "import mnist_vit"],
    "import_torch": ["-c", "import torch"],
    "import_jobs": ["-c", "import mnist_vit.jobs"],
}
FIRST = "-m mnist_vit train vit_mnist_p7 --data embedded"
GPU = re.compile(r"/(nvidia|triton|cuda|torch/lib/[^/]*(cuda|nvshmem))[^/]*(/|$)")


def times(rounds: int) -> dict[str, float]:
    """The median of the processor seconds of each command, in turn, after one round that fills the
    caches."""
    seconds: dict[str, list[float]] = {name: [] for name in TIMES}
    for number in range(rounds + 1):
        for name, words in TIMES.items():
            before = os.times()
            subprocess.run(
                [sys.executable, *words], check=True, stdout=subprocess.DEVNULL, cwd=ROOT
            )
            after = os.times()
            if number:
                used = (
                    after.children_user
                    + after.children_system
                    - before.children_user
                    - before.children_system
                )
                seconds[name].append(used)
    return {name: round(statistics.median(values), 2) for name, values in seconds.items()}


def megabytes(folder: Path, chosen: re.Pattern[str] = re.compile("")) -> int:
    """What the chosen files below a folder take on the disk."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return round(sum(path.stat().st_size for path in files if chosen.search(path.as_posix())) / 1e6)


def wheel() -> float:
    """Megabytes of the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(command, check=True)
        return round(next(Path(folder).glob("*.whl")).stat().st_size / 1e6, 1)


def install() -> dict[str, Any]:
    """Clone, run the README's first command without a cache of downloads, train a first model."""
    command = re.search(
        r"^python3 -m venv .* demo$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    with tempfile.TemporaryDirectory() as folder:
        clone, log = Path(folder) / "clone", Path(folder) / "pip.log"
        env = {
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        }
        env |= {
            "PIP_CACHE_DIR": str(Path(folder) / "cache"),
            "PIP_LOG": str(log),
            "MNIST_VIT_OUT": "",
        }
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", clone], check=True)
        found: dict[str, Any] = {"clone": megabytes(clone)}
        start = time.perf_counter()
        # type: ignore[index]
        subprocess.run(["bash", "-c", command[0]], check=True, cwd=clone, env=env)
        found["seconds_to_demo"] = round(time.perf_counter() - start)
        subprocess.run(
            [clone / ".venv/bin/python", *FIRST.split()], check=True, cwd=folder, env=env
        )
        found["seconds_to_model"] = round(time.perf_counter() - start)
        sizes = re.findall(r"Downloading .*\(([\d.]+) ([kM])B\)", log.read_text(encoding="utf-8"))
        found["download"] = round(
            sum(float(size) / (1000 if unit == "k" else 1) for size, unit in sizes)
        )
        found["venv"] = megabytes(clone / ".venv")
        found["venv_cpu"] = found["venv"] - megabytes(clone / ".venv", GPU)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, and store what was measured beside what was stored before."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=["install"], help="also measure an installation")
    parser.add_argument(
        "--rounds", type=int, default=7, help="how often each command is timed (default 7)"
    )
    parser.add_argument(
        "--out", type=Path, default=measure.RESULTS / "door.json", help="file of results"
    )
    options = parser.parse_args(arguments)
    results = measure.read(options.out)
    results["quick"] = {
        "command": "python -m benchmarks door",
        "machine": measure.machine(),
        "wheel": wheel(),
    }
    results["quick"]["seconds"] = times(options.rounds)
    if options.part:
        about = {
            "command": "python -m benchmarks door install",
            "machine": measure.machine(),
            "train": FIRST,
        }
        results["install"] = about | install()
    measure.write(options.out, results)


if __name__ == "__main__":
    main()
