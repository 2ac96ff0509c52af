"""Rows whose best learning rate was the largest tried: a larger one beside it.

    python -m experiments larger_rate                  # the rows, and what is stored
    python -m experiments larger_rate with_block       # measure one row, beside what is stored
    python -m experiments larger_rate with_block --store

``growing.json`` chooses among three rates. Where the largest was best, a larger one may be better
still. Here these rows choose between it and 0.03, on the split of ``growing``, and train five seeds
with the better one. ``pairs`` holds each row's difference from its twin, with Welch's
95 % interval, as ``growing.json`` has it (``before``) and with these rates (``after``), and whether
it changes its verdict: ahead, behind, or open, if 0 lies in the interval.
"""

from typing import Any

from experiments.growing import RATES, measure
from mnist_vit.course.ladder import ROWS, interval, stored
from mnist_vit.course.ladder.rows import RESULTS

FILE = RESULTS / "larger_rate.json"
LARGER = (max(RATES), 3e-2)
NAMES = [name for name in ROWS if stored(name)["learning_rate"] == max(RATES)]


def run(name: str) -> dict:
    """Choose between the largest rate of ``growing`` and a larger one; train five seeds."""
    found, _ = measure(ROWS[name], LARGER)
    return found


def complete(results: dict[str, Any]) -> dict[str, Any]:
    """Add the differences of twins, of which at least one is measured here."""
    before = {name: about["accuracy"] for name, about in stored().items()}
    measured = {name: results[name]["accuracy"] for name in NAMES if name in results}
    after = before | measured
    pairs = []
    for name, row in ROWS.items():
        if row.twin is None or not {name, row.twin} & set(measured):
            continue
        old = interval(before[name], before[row.twin])
        new = interval(after[name], after[row.twin])
        pair = {
            "pair": f"{name} - {row.twin}",
            "before": [round(number, 1) for number in old],
            "after": [round(number, 1) for number in new],
            "verdict_changes": verdict(*old) != verdict(*new),
        }
        pairs.append(pair)
    return results | {"pairs": pairs}


def verdict(gain: float, half: float) -> str:
    """What a difference and half its interval say."""
    if abs(gain) <= half:
        return "open"
    return "ahead" if gain > 0 else "behind"
