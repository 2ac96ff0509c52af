"""Two processes against one: ``torchrun --nproc-per-node 2`` with the same global batch.

    python -m benchmarks processes  # about 3 minutes on a quiet machine with 2 cores

The two commands are run in turn, with one thread in each process, and the run folder of each says
how long its epochs took. An epoch trains on 4,000 embedded digits and reads 1,000 for validation,
which every process does for itself. The first epoch is left out: in it memory is taken and the
processes meet.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools import ROOT

FILE = ROOT / "benchmarks" / "results" / "processes.json"
COMMAND = "-m mnist_vit train {model} --data embedded --epochs {epochs}"
TWO = "-m torch.distributed.run --standalone --nproc-per-node 2"


def run(model: str = "vit_mnist", epochs: int = 3, rounds: int = 3) -> dict[str, Any]:
    """Run each command ``rounds`` times, with at least 2 ``epochs``."""
    if epochs < 2:
        sys.exit("the first epoch is not counted: --epochs must be at least 2")
    command = COMMAND.format(model=model, epochs=epochs)
    one, two = [], []
    for _ in range(rounds):
        one.append(history_of(command))
        two.append(history_of(f"{TWO} {command}"))
    seconds_of_one = [epoch_seconds(history) for history in one]
    seconds_of_two = [epoch_seconds(history) for history in two]
    ratios = [a / b for a, b in zip(seconds_of_one, seconds_of_two, strict=True)]
    return {
        "compared": [f"python {command}", f"torchrun --standalone --nproc-per-node 2 {command}"],
        "images_per_second": {
            1: round(4000 / statistics.median(seconds_of_one)),
            2: round(4000 / statistics.median(seconds_of_two)),
        },
        "ratio": round(statistics.median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
        "rounds": rounds,
        "validation_loss": {
            1: round(one[0][-1]["validation_loss"], 5),
            2: round(two[0][-1]["validation_loss"], 5),
        },
    }


def history_of(command: str) -> list[dict[str, float]]:
    """Return the history of one training run."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, *command.split(), "--run-dir", folder]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def epoch_seconds(history: list[dict[str, float]]) -> float:
    """Return the median of the epochs but the first."""
    return statistics.median(row["seconds"] for row in history[1:])
