"""Put the contest of maps into docs/relevance.md: its tables, and docs/relevance.png, its curves.

The figures are those of notebooks/results/contest.json (``python -m experiments contest``), and
the costs those of benchmarks/results/relevance.json (``python -m benchmarks relevance``).
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from benchmarks.relevance import FILE as COSTS
from benchmarks.relevance import WAYS
from experiments.contest import CURVES, FILE, HIDDEN
from mnist_vit.files import write_text

from . import ROOT
from .runner import read, table

PAGE = ROOT / "docs" / "relevance.md"
PICTURE = ROOT / "docs" / "relevance.png"
COLOURS = ["0.6", "tab:blue", "tab:red", "tab:orange", "black", "tab:green"]


def tables(results: dict[str, Any]) -> str:
    """A table for each way of hiding: maps by models, one number for each seed."""
    runs = results["runs"]
    text = ""
    for way, found in runs[0]["left"].items():
        heads = [f"**{way}**"]
        for model in measured(runs):
            first = of_model(runs, model)[0]
            heads.append(f"`{model}`, {first['hidden']} of {first['of']}")
        rows = [[rule, *cells(runs, way, rule)] for rule in found]
        text += table(heads, rows) + "\n"
    return text


def measured(runs: list[dict[str, Any]]) -> list[str]:
    """The models that were measured, in their order."""
    return [model for model in HIDDEN if of_model(runs, model)]


def of_model(runs: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    return [run for run in runs if run["model"] == model]


def cells(runs: list[dict[str, Any]], way: str, rule: str) -> list[str]:
    """A rule's cell for each model: the mean of each seed."""
    found = []
    for model in measured(runs):
        numbers = []
        for run in of_model(runs, model):
            if rule in run["left"][way]:
                numbers.append(f"{run['left'][way][rule][0]:.2f}")
        found.append(" ".join(numbers) or "–")
    return found


def costs(results: dict[str, Any]) -> str:
    """CPU seconds and megabytes of each way, by model."""
    rows = []
    for model, found in results.items():
        cost = [f"{found[way]['CPU seconds']} s, {found[way]['MB more']} MB" for way in WAYS]
        rows.append([f"{model}, {found['pixels']} pixels", *cost])
    return table(["model", *WAYS], rows)


def draw(results: dict[str, Any], target: Path = PICTURE) -> None:
    """The curves: a row for each way of hiding, a column for each model."""
    models = measured(results["runs"])
    figure = plt.figure(figsize=(12, 5.4), layout="constrained")
    axes = figure.subplots(2, len(models), sharey=True)
    for column, model in enumerate(models):
        run = of_model(results["runs"], model)[0]
        shares = [100 * count / run["of"] for count in run["curves"]["counts"]]
        for row, way in enumerate(("taken out", "painted black")):
            axis = axes[row, column]
            for rule, colour in zip(CURVES, COLOURS, strict=True):
                axis.plot(shares, run["curves"][way][rule], color=colour, marker=".", label=rule)
            axis.set_title(f"{model}: {way}", fontsize=10)
            axis.set_ylim(0, 1)
        axes[1, column].set_xlabel("patches hidden, %")
    axes[0, 0].set_ylabel("probability left")
    axes[1, 0].set_ylabel("probability left")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=9)
    figure.savefig(target, dpi=80)


def filled(page: str) -> str:
    """The page with today's tables between its marks."""
    parts = {"contest": tables(read(FILE)), "cost": costs(read(COSTS))}
    for name, part in parts.items():
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        page = f"{before}<!-- {name} -->\n{part}{end}{after}"
    return page


def main(words: list[str]) -> None:
    """Write both."""
    draw(read(FILE))
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8")))
