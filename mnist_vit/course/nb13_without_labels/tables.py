"""The stored rows of notebook 13 as tables: means over draws of the labels, with intervals.

``results`` is the name of a file: ``without_labels`` has the rows of the digits,
``without_labels_cifar10`` those of CIFAR-10. ``put_back`` has the errors of broken autoencoders.
"""

import statistics
from typing import Any

from scipy.special import stdtrit

from ..ladder.rows import stored

DIGITS = "without_labels"
BROKEN = "put_back"


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


def draws(name: str, results: str = DIGITS) -> dict[int, float]:
    """The accuracies of a row by draw, in percent."""
    return {run["seed"]: run["accuracy"] for run in runs_of(name, results)}


def seconds(name: str, results: str = DIGITS) -> float:
    """The CPU seconds of a row, the mean over its draws."""
    return statistics.mean(run["cpu_seconds"] for run in runs_of(name, results))


def interval(values: list[float], questions: int = 1) -> tuple[float, float]:
    """The mean, and half the width of its 95 % t interval over at least two draws.

    Each of several ``questions`` gets its share of the 5 %.
    """
    count = len(values)
    spread = statistics.stdev(values) / count**0.5
    return statistics.mean(values), float(stdtrit(count - 1, 1 - 0.025 / questions)) * spread


def row(
    name: str, counts: tuple[int, ...], results: str = DIGITS
) -> dict[int, tuple[float, float]]:
    """Mean and half of the interval over the draws, for each number of labels."""
    return {count: interval([*draws(f"{name}_{count}", results).values()]) for count in counts}


def table(rows: dict[str, str], counts: tuple[int, ...], results: str = DIGITS) -> str:
    """Rows below each other, ``mean ± half`` for each number of labels.

    Args:
        rows: by the name of a stored row, what it is called.
        counts: numbers of labels.
        results: the name of the file.
    """
    heads = "".join(f"{f'{count:,} labels':>15}" for count in counts)
    lines = [f"{'accuracy in %':34}{heads}"]
    for name, title in rows.items():
        found = row(name, counts, results).values()
        cells = [f"{mean:.1f} ± {half:.1f}" for mean, half in found]
        lines.append(f"{title:34}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def difference(name: str, other: str, results: str = DIGITS, questions: int = 1) -> str:
    """A row minus another, draw by draw, ``+1.2 ± 0.8 points``."""
    ours = draws(name, results)
    theirs = draws(other, results)
    gains = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    mean, half = interval(gains, questions)
    return f"{mean:+.1f} ± {half:.1f} points"


def errors(*names: str) -> str:
    """The stored errors on hidden and visible patches: the least to the largest of the seeds."""
    lines = []
    for name in names:
        runs = runs_of(name, BROKEN)
        for number, steps in enumerate(stored(results=BROKEN)["steps"]):
            line = f"{name:17} {steps:5,} steps:"
            for where in ("hidden", "visible"):
                found = [run[where][number] for run in runs]
                line += f"  {where} {min(found):.2f} to {max(found):.2f}"
            lines.append(line)
    return "\n".join(lines)


def cost(name: str, other: str) -> str:
    """How much larger the error on hidden patches is after most steps, ``+0.014 ± 0.023``."""
    ours, theirs = (runs_of(one, BROKEN) for one in (name, other))
    pairs = zip(ours, theirs, strict=True)
    mean, half = interval([run["hidden"][-1] - whole["hidden"][-1] for run, whole in pairs])
    return f"{mean:+.3f} ± {half:.3f}"
