"""The stored rows of notebook 13 as tables: means over draws of the labels, with intervals."""

import statistics

from scipy.special import stdtrit

from ..ladder.rows import stored


def draws(name: str) -> dict[int, float]:
    """The accuracies of a row by draw, in percent.

    Raises ValueError if there is no such row.
    """
    runs = stored(results="without_labels")["runs"]
    found = {run["seed"]: run["accuracy"] for run in runs if run["name"] == name}
    if not found:
        known = sorted({run["name"] for run in runs if "accuracy" in run})
        raise ValueError(f"no row is called {name!r}. Choose one of: {', '.join(known)}")
    return found


def seconds(name: str) -> float:
    """The CPU seconds of a row, the mean over its draws."""
    runs = stored(results="without_labels")["runs"]
    return statistics.mean(run["cpu_seconds"] for run in runs if run["name"] == name)


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % t interval."""
    count = len(values)
    spread = statistics.stdev(values) / count**0.5
    return statistics.mean(values), float(stdtrit(count - 1, 0.975)) * spread


def row(name: str, counts: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """Mean and half of the interval for each number of labels."""
    return {count: interval(list(draws(f"{name}_{count}").values())) for count in counts}


def table(rows: dict[str, str], counts: tuple[int, ...]) -> str:
    """Rows below each other, ``mean ± half`` for each number of labels.

    Args:
        rows: by the name of a stored row, what it is called.
        counts: numbers of labels.
    """
    heads = "".join(f"{f'{count:,} labels':>15}" for count in counts)
    lines = [f"{'accuracy in %':34}{heads}"]
    for name, title in rows.items():
        cells = [f"{mean:.1f} ± {half:.1f}" for mean, half in row(name, counts).values()]
        lines.append(f"{title:34}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def difference(name: str, other: str) -> str:
    """A row minus another, draw by draw, ``+1.2 ± 0.8 points``."""
    ours = draws(name)
    theirs = draws(other)
    mean, half = interval([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
    return f"{mean:+.1f} ± {half:.1f} points"
