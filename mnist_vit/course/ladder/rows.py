"""Rows and tables: one accuracy is measured live, the range of five seeds is stored.

A row is ``84 % (stored: 82 to 84)``. The stored numbers are written by ``experiments/ladder.py``,
``experiments/bugs.py`` and ``experiments/measured.py``; small trainings differ between machines, so
a row agrees within two points of the range.
"""

import json
import re
from typing import Any

from torch import nn

from ...files import shipped
from .rungs import RUNGS
from .tasks import looked_at

RESULTS = shipped("notebooks") / "results"
MARGIN = 2  # points beyond the stored range that another machine may need
CONTRAST = 4  # points between two means below which nothing is claimed
ROW = re.compile(r" *\b(\d+) % \(stored: (\d+) to (\d+)\)")
LIVE: dict[str, tuple[float, int]] = {}  # trained in this kernel: percent, and numbers in the model


def stored(rung: str | None = None, results: str = "ladder") -> dict[str, Any]:
    """What was measured: of one rung, or of all by name.

    Args:
        rung: one rung; without it, all of them.
        results: "ladder", "bugs" or "measured".

    Raises:
        ValueError: no such rung.
    """
    rungs = json.loads((RESULTS / f"{results}.json").read_text(encoding="utf-8"))
    if rung is None:
        return rungs
    if rung not in rungs:
        raise ValueError(f"no rung is called {rung!r}. Choose one of: {', '.join(rungs)}")
    return rungs[rung]


def row(rung: str, accuracy: float, results: str = "ladder") -> str:
    """``84 % (stored: 82 to 84)``; a sentence is added where ``accuracy`` is far from that range.

    Accuracies are in percent.
    """
    seeds = stored(rung, results)["accuracy"]
    text = span(accuracy, seeds)
    if agrees(text):
        return text
    side = "low" if accuracy < min(seeds) else "high"
    return f"{text}: too {side}. Compare your pieces with ours"


def span(live: float, seeds: list[float]) -> str:
    """``84 % (stored: 82 to 84)``: a number measured now, and those of five seeds, in percent."""
    return f"{live:.0f} % (stored: {min(seeds):.0f} to {max(seeds):.0f})"


def agrees(text: str) -> bool:
    """Whether every row in a text lies within its stored range, or two points beyond it."""
    for row in ROW.findall(text):
        now, low, high = map(int, row)
        if not low - MARGIN <= now <= high + MARGIN:
            return False
    return True


def same_rows(new: str, old: str) -> bool:
    """Whether two outputs say the same but for live accuracies, each within its range (nbval)."""
    frame = r" # % (stored: \2 to \3)"
    return ROW.sub(frame, new) == ROW.sub(frame, old) and agrees(new)


def contrast(rung: str, results: str = "ladder", twin: str | None = None) -> str:
    """A rung's mean minus its twin's, or another rung's, such as ``+10 points``."""
    twin = twin or stored(rung, results)["twin"]
    if twin is None:
        return ""
    gain = _mean(stored(rung, results)) - _mean(stored(twin, results))
    if abs(gain) < CONTRAST:
        return f"less than {CONTRAST} points"
    return f"{gain:+.0f} points"


def table(*rungs: str, results: str = "ladder") -> str:
    """These rungs below each other: live accuracies of rungs trained in this kernel, else stored.

    The last column compares a rung with its twin where that is in the table too.
    """
    lines = [f"{'model':<42}{'numbers':>8}  {'accuracy':<27}against its twin"]
    for rung in rungs:
        about = stored(rung, results)
        title = rung.replace("_", " ")
        low = min(about["accuracy"])
        high = max(about["accuracy"])
        shown = f"    stored: {low:.0f} to {high:.0f} %"
        count = about["parameters"]
        if results == "ladder":
            title = RUNGS[rung].title
            if rung in LIVE:
                live, count = LIVE[rung]
                shown = f"{live:>3.0f} % (stored: {low:.0f} to {high:.0f})"
        against = ""
        if about["twin"] in rungs:
            against = contrast(rung, results)
        lines.append(f"{title:<42}{count:>8,}  {shown:<27}{against}".rstrip())
    return "\n".join(lines)


def looks(model: nn.Module) -> str:
    """Three rows on where the first patch looks in a model trained for "relation"."""
    live = looked_at(model)
    seeds = stored("relation")["looks_at"]
    rows = {
        "of the other eight, the copy gets the largest weight": "copy_first",
        "attention on the copy": "copy",
        "attention on itself, where there is no copy": "alone",
    }
    lines = []
    for words, name in rows.items():
        lines.append(f"{words}: {span(live[name], [seen[name] for seen in seeds])}")
    return "\n".join(lines)


def _mean(about: dict[str, Any]) -> float:
    return sum(about["accuracy"]) / len(about["accuracy"])
