"""Time two things in turn."""

import statistics
import time
from collections.abc import Callable
from typing import Any


def compare(
    slow: Callable[[], Any],
    fast: Callable[[], Any],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """Return how many times longer ``slow`` takes than ``fast``.

    They run in turn, so that a busy machine disturbs both alike. The clock counts processor
    seconds, in which other programs do not show; for work done in other processes, give
    ``time.perf_counter``.

    Returns:
        ratio, the median of the rounds; lowest and highest of them; and the seconds of each side,
        their medians. Each is run once before, and not counted.
    """
    slow()
    fast()
    slow_seconds, fast_seconds = [], []
    for number in range(rounds):
        # The side that begins changes every round: it may find the memory in disorder.
        if number % 2 == 0:
            slow_seconds.append(seconds(slow, clock))
            fast_seconds.append(seconds(fast, clock))
        else:
            fast_seconds.append(seconds(fast, clock))
            slow_seconds.append(seconds(slow, clock))
    ratios = [a / b for a, b in zip(slow_seconds, fast_seconds, strict=True)]
    medians = [statistics.median(slow_seconds), statistics.median(fast_seconds)]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
        "seconds": [float(f"{median:.4g}") for median in medians],
        "rounds": rounds,
    }


def seconds(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return how long one call takes."""
    start = clock()
    run()
    return clock() - start
