"""The stored rows of notebook 13 as tables: means over draws of the labels, with intervals.

``results`` is the name of a file: ``without_labels`` has the rows of the digits,
``without_labels_cifar10`` those of CIFAR-10.
"""

import statistics
from typing import Any

from scipy.special import stdtrit

from ..ladder.rows import stored

DIGITS = "without_labels"
JUDGED = {DIGITS: 1000, "without_labels_cifar10": 5000}  # pictures that give the accuracy


def runs_of(name: str, results: str) -> list[dict[str, Any]]:
    """The stored runs of a row.

    Raises ValueError if there is no such row.
    """
    runs = stored(results=results)["runs"]
    found = [run for run in runs if run["name"] == name]
    if not found:
        known = sorted({run["name"] for run in runs})
        raise ValueError(f"no row is called {name!r}. Choose one of: {', '.join(known)}")
    return found


def draws(name: str, results: str = DIGITS, only: int | None = None) -> dict[int, float]:
    """The accuracies of a row by draw, in percent; of all draws, or of ``only`` one."""
    found = {run["seed"]: run["accuracy"] for run in runs_of(name, results)}
    return found if only is None else {only: found[only]}


def seconds(name: str, results: str = DIGITS) -> float:
    """The CPU seconds of a row, the mean over its draws."""
    return statistics.mean(run["cpu_seconds"] for run in runs_of(name, results))


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % t interval over at least two draws."""
    count = len(values)
    spread = statistics.stdev(values) / count**0.5
    return statistics.mean(values), float(stdtrit(count - 1, 0.975)) * spread


def of_pictures(accuracy: float, judged: int) -> float:
    """Half the width of the 95 % interval of a single accuracy, over the pictures that gave it."""
    share = accuracy / 100
    return 196 * (share * (1 - share) / judged) ** 0.5


def summary(name: str, results: str = DIGITS, only: int | None = None) -> tuple[float, float]:
    """Mean and half of the interval: over the draws; over the pictures where there is one draw."""
    values = list(draws(name, results, only).values())
    if len(values) > 1:
        return interval(values)
    return values[0], of_pictures(values[0], JUDGED[results])


def row(
    name: str, counts: tuple[int, ...], results: str = DIGITS, only: int | None = None
) -> dict[int, tuple[float, float]]:
    """Mean and half of the interval for each number of labels."""
    return {count: summary(f"{name}_{count}", results, only) for count in counts}


def table(
    rows: dict[str, str],
    counts: tuple[int, ...],
    results: str = DIGITS,
    only: int | None = None,
) -> str:
    """Rows below each other, ``mean ± half`` for each number of labels.

    Args:
        rows: by the name of a stored row, what it is called.
        counts: numbers of labels.
        results: the name of the file.
        only: a single draw; otherwise all that are stored.
    """
    heads = "".join(f"{f'{count:,} labels':>15}" for count in counts)
    lines = [f"{'accuracy in %':34}{heads}"]
    for name, title in rows.items():
        found = row(name, counts, results, only).values()
        cells = [f"{mean:.1f} ± {half:.1f}" for mean, half in found]
        lines.append(f"{title:34}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def difference(name: str, other: str, results: str = DIGITS, only: int | None = None) -> str:
    """A row minus another, draw by draw, ``+1.2 ± 0.8 points``.

    With one draw the interval is that over the pictures, as if each row had been judged on its own:
    it is wider than need be, since both are judged on the same ones.
    """
    ours = draws(name, results, only)
    theirs = draws(other, results, only)
    common = [seed for seed in ours if seed in theirs]
    gains = [ours[seed] - theirs[seed] for seed in common]
    if len(gains) > 1:
        mean, half = interval(gains)
    else:
        (seed,) = common
        mean = gains[0]
        halves = [of_pictures(one[seed], JUDGED[results]) for one in (ours, theirs)]
        half = sum(part**2 for part in halves) ** 0.5
    return f"{mean:+.1f} ± {half:.1f} points"
