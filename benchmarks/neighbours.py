"""CPU seconds of an epoch of vit_mnist_p7 while other programs keep the machine busy.

    python -m benchmarks neighbours --store

Each measurement is a process of its own that trains on the 4,000 embedded digits as a new user
would: no variable of OpenMP is set, and ``train`` chooses the threads. The neighbours multiply
matrices with torch, with torch's own number of threads. The goal is at most twice the CPU time of a
machine where nothing else runs; ``load`` tells how far that was true.
"""

import json
import os
import subprocess
import sys
from typing import Any

from tools import ROOT

FILE = ROOT / "benchmarks" / "results" / "neighbours.json"
NEIGHBOURS = (0, 1, 3)
BUSY = """
import torch
matrix = torch.randn(500, 500)
print("ready", flush=True)
while True:
    matrix @ matrix
"""
TRAINING = """
import json, sys, tempfile
import mnist_vit
with tempfile.TemporaryDirectory() as folder:
    history = mnist_vit.train("vit_mnist_p7", "embedded", epochs=int(sys.argv[1]), run_dir=folder)
rows = history[1:] or history  # the first epoch also warms up
print(json.dumps([[row["cpu_seconds"], row["seconds"]] for row in rows]))
"""


def run(epochs: int = 4) -> dict[str, Any]:
    """Train beside each number of neighbours."""
    rows = [beside(number, epochs) for number in NEIGHBOURS]
    quiet = rows[0]["cpu_seconds"]
    for row in rows:
        row["by_quiet"] = round(row["cpu_seconds"] / quiet, 2)
    return {"epochs": epochs, "runs": rows}


def beside(neighbours: int, epochs: int) -> dict[str, Any]:
    """Median seconds of an epoch beside so many busy processes."""
    busy: list[subprocess.Popen[str]] = []
    try:
        for _ in range(neighbours):
            busy.append(started(BUSY))
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        load = os.getloadavg()[0]
        training = started(TRAINING, str(epochs))
        out, _ = training.communicate()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    rows = json.loads(out.splitlines()[-1])
    cpu_seconds, seconds = (sorted(column)[len(rows) // 2] for column in zip(*rows, strict=True))
    return {
        "neighbours": neighbours,
        "cpu_seconds": round(cpu_seconds, 2),
        "seconds": round(seconds, 2),
        "load": round(load, 1),
    }


def started(code: str, *words: str) -> subprocess.Popen[str]:
    """A Python process without the variables that choose threads."""
    free = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    environment = free | {"PYTHONPATH": str(ROOT), "TQDM_DISABLE": "1"}
    command = [sys.executable, "-c", code, *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
