"""Rows and tables: one accuracy is measured live, the range of five seeds is stored.

A row is ``84 % (stored: 82 to 84)``. The stored numbers are written by the scripts in
``experiments``. Small trainings differ between machines, and between two ways to write the same
sum, so a row agrees if it lies outside the range by no more than the range is wide (by no more than
two points, where it is narrower). Two rows are compared by their stored seeds: the difference of
the means, with Welch's 95 % interval.
"""

import json
import math
import re
import statistics
from typing import Any

from torch import nn

from ...files import shipped
from .growing import ROWS
from .tasks import looked_at

RESULTS = shipped("notebooks") / "results"
MARGIN = 2  # points outside the stored range that any row may lie
ROW = re.compile(r" *\b(\d+) % \(stored: (\d+) to (\d+)\)")
LIVE: dict[str, tuple[float, int]] = {}  # trained in this kernel: percent, and numbers in the model


def stored(row: str | None = None, results: str = "growing") -> dict[str, Any]:
    """What was measured: of one row, or of all by name.

    Args:
        row: one row; without it, all of them.
        results: the file, such as "bugs".

    Raises:
        ValueError: no such row.
    """
    rows = json.loads((RESULTS / f"{results}.json").read_text(encoding="utf-8"))
    if row is None:
        return rows
    if row not in rows:
        raise ValueError(f"no row is called {row!r}. Choose one of: {', '.join(rows)}")
    return rows[row]


def row(name: str, accuracy: float, results: str = "growing") -> str:
    """``84 % (stored: 82 to 84)``; a sentence is added where ``accuracy`` is far from that range.

    Accuracies are in percent.
    """
    seeds = stored(name, results)["accuracy"]
    text = span(accuracy, seeds)
    if agrees(text):
        return text
    side = "low" if accuracy < min(seeds) else "high"
    return f"{text}: too {side}. Compare your pieces with ours"


def span(live: float, seeds: list[float]) -> str:
    """``84 % (stored: 82 to 84)``: a number measured now, and those of five seeds, in percent."""
    return f"{live:.0f} % (stored: {min(seeds):.0f} to {max(seeds):.0f})"


def agrees(text: str) -> bool:
    """Whether every row in a text lies in its stored range, or near enough to it.

    Where five seeds are six points apart, a sixth may well lie six points outside; where all five
    are equal, two points are still allowed.
    """
    for row in ROW.findall(text):
        now, low, high = map(int, row)
        margin = max(MARGIN, high - low)
        if not low - margin <= now <= high + margin:
            return False
    return True


def same_rows(new: str, old: str) -> bool:
    """Whether two outputs say the same but for live accuracies, each within its range (nbval)."""
    frame = r" # % (stored: \2 to \3)"
    return ROW.sub(frame, new) == ROW.sub(frame, old) and agrees(new)


def interval(values: list[float], others: list[float]) -> tuple[float, float]:
    """The difference of two means, and half the width of its 95 % interval (Welch 1947)."""
    from scipy.special import stdtrit  # comes with scikit-learn; a second to import

    gain = statistics.mean(values) - statistics.mean(others)
    parts = [statistics.variance(one) / len(one) for one in (values, others)]
    total = sum(parts)
    if total == 0:
        return gain, 0.0
    freedoms = [part**2 / (len(one) - 1) for part, one in zip(parts, (values, others), strict=True)]
    freedom = total**2 / sum(freedoms)
    return gain, float(stdtrit(freedom, 0.975)) * math.sqrt(total)


def difference(name: str, other: str, results: str = "growing") -> str:
    """A row's mean minus another's, in points, with the 95 % interval: ``-2.4 ± 1.0 points``."""
    return f"{_difference(name, other, results)} points"


def _difference(name: str, other: str, results: str) -> str:
    seeds = [stored(one, results)["accuracy"] for one in (name, other)]
    gain, half = interval(*seeds)
    return f"{gain:+.1f} ± {half:.1f}"


def table(*names: str, results: str = "growing") -> str:
    """These rows below each other: live accuracies of rows trained in this kernel, else stored.

    The last column compares a row with its twin, where that is in the table too, by the stored
    seeds: the difference of the means with its 95 % interval.
    """
    lines = [f"    {'model':<36}{'numbers':>8}  {'accuracy':<27}against its twin, 95 %"]
    for number, name in enumerate(names, start=1):
        twin = stored(name, results)["twin"]
        against = ""
        if twin in names:
            against = f"{_difference(name, twin, results)} (row {names.index(twin) + 1})"
        title = ROWS[name].title if name in ROWS else name.replace("_", " ")
        line = f"{number:>2}  {title:<36}{_numbers(name, results)}{against}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _numbers(name: str, results: str) -> str:
    """How many numbers a model learns, and its accuracy: two columns of a table."""
    about = stored(name, results)
    low = min(about["accuracy"])
    high = max(about["accuracy"])
    count = about["parameters"]
    shown = f"    stored: {low:.0f} to {high:.0f} %"
    if results == "growing" and name in LIVE:
        live, count = LIVE[name]
        shown = f"{live:>3.0f} % (stored: {low:.0f} to {high:.0f})"
    return f"{count:>8,}  {shown:<27}"


def looks(model: nn.Module, row: str = "same_head") -> str:
    """Three rows on where the first patch looks in a model trained for the relational task."""
    live = looked_at(model)
    seeds = stored(row)["looks_at"]
    rows = {
        "of the other eight, the copy gets the largest weight": "copy_first",
        "attention on the copy": "copy",
        "attention on itself, where there is no copy": "alone",
    }
    lines = []
    for words, name in rows.items():
        lines.append(f"{words}: {span(live[name], [seen[name] for seen in seeds])}")
    return "\n".join(lines)
