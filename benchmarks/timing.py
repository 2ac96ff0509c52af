"""What the benchmarks share: two things timed in turn, the machine in words, one file of results
per script."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torchvision

from mnist_vit.files import CHECKOUT, write_json, write_text

RESULTS = (CHECKOUT or Path.cwd()) / "benchmarks" / "results"


def compare(
    slow: Callable[[], Any],
    fast: Callable[[], Any],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """How many times longer ``slow`` takes than ``fast``, run in turn, so that a busy machine
    disturbs both alike.

    The clock counts processor seconds, in which other programs do not show; for work done in other
    processes, give ``time.perf_counter``.

    Returns:
        ratio, the median of the rounds; lowest and highest of them; and the seconds of each side,
        their medians. Each is run once before, and not counted.
    """
    slow(), fast()
    pairs = []
    for number in range(
        rounds
    ):  # who is first changes every round: the first one may find the memory in disorder
        order = (slow, fast) if number % 2 == 0 else (fast, slow)
        seconds = [_seconds(run, clock) for run in order]
        pairs.append(seconds if number % 2 == 0 else seconds[::-1])
    ratios = [a / b for a, b in pairs]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
        "seconds": [float(f"{statistics.median(side):.4g}") for side in zip(*pairs, strict=True)],
        "rounds": rounds,
    }


def _seconds(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that names the machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        # programs that ran beside it
        "load": (round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None),
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "torchvision": torchvision.__version__.split("+")[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def read(path: Path) -> dict[str, Any]:
    """The results so far; empty where there are none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(path: Path, results: dict[str, Any], page: str | None = None) -> None:
    """Write the results, and the page made from them beside it."""
    write_json(path, results)
    if page is not None:
        write_text(path.with_suffix(".md"), page)
    print(f"written to {path}")


def table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    lines = [list(map(str, heads))]
    lines += [["---"] * len(lines[0]), *([str(cell) for cell in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
