"""Two processes against one: ``torchrun --nproc-per-node 2`` with the same global batch, one thread
each.

    python -m benchmarks processes  # about 3 minutes on a quiet machine with 2 cores

The two commands are run in turn, and the run folder of each says how long its epochs took. An epoch
trains on 4,000 embedded digits and reads 1,000 for validation, which every process does for itself.
The first epoch is left out: in it memory is taken and the processes meet. Results go to
benchmarks/results/processes.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import measure

COMMAND = "-m mnist_vit train {model} --data embedded --epochs {epochs}"


def run(processes: int, command: str) -> list[dict[str, float]]:
    """The history of one training run."""
    launcher = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(processes),
    ] * (processes > 1)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, *launcher, *command.split(), "--run-dir", folder],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        )
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def main(arguments: list[str] | None = None) -> None:
    """Run both in turn and store what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="vit_mnist", help="default vit_mnist")
    parser.add_argument("--epochs", type=int, default=3, help="at least 2 (default 3)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each command is run (default 3)"
    )
    parser.add_argument(
        "--out", type=Path, default=measure.RESULTS / "processes.json", help="file of results"
    )
    options = parser.parse_args(arguments)
    if options.epochs < 2:
        parser.error("the first epoch is not counted: --epochs must be at least 2")
    command = COMMAND.format(model=options.model, epochs=options.epochs)

    runs: dict[int, list[list[dict[str, float]]]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for processes, histories in runs.items():
            histories.append(run(processes, command))
    seconds = {
        n: [statistics.median(row["seconds"] for row in h[1:]) for h in runs[n]] for n in runs
    }
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    results: dict[str, Any] = {
        "command": "python -m benchmarks processes",
        "compared": [f"python {command}", f"torchrun --standalone --nproc-per-node 2 {command}"],
        "machine": measure.machine() | {"threads": 1},
        "images_per_second": {n: round(4000 / statistics.median(seconds[n])) for n in runs},
        "ratio": round(statistics.median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
        "rounds": options.rounds,
        "validation_loss": {n: round(runs[n][0][-1]["validation_loss"], 5) for n in runs},
    }
    print(
        f"one process {results['images_per_second'][1]}, two {results['images_per_second'][2]}"
        f" images per second: {results['ratio']:.2f} times ({results['lowest']:.2f} to"
        f" {results['highest']:.2f})"
    )
    measure.write(options.out, results)


if __name__ == "__main__":
    main()
