"""Figures of notebook 12: curves of a run, a confusion matrix with long names, dots of all
ablations."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from ..drawing import BLACK, BLUE, GREEN, RED, SKY, figure
from ..nb08_evaluation import figures as evaluation


def curves(history: Sequence[dict[str, float]]) -> Figure:
    """Loss, accuracy and learning rate after each epoch of a stored run."""
    drawn, (loss, accuracy, rate) = figure(1, 3, width=12, height=3.2)
    epochs = [row["epoch"] for row in history]
    for axes, name, factor in ((loss, "loss", 1), (accuracy, "accuracy", 100)):
        for prefix, style, colour, label in (
            ("", "-", BLUE, "training, as it passed"),
            ("validation_", "--", RED, "validation"),
        ):
            axes.plot(
                epochs,
                [factor * row[prefix + name] for row in history],
                style,
                color=colour,
                label=label,
            )
        axes.legend(frameon=False)
    loss.set_title("loss")
    accuracy.set_title("accuracy in %")
    rate.plot(epochs, [row["learning_rate"] for row in history], color=GREEN)
    rate.set_title("learning rate")
    for axes in (loss, accuracy, rate):
        axes.set_xlabel("epoch")
    return drawn


def confusion(matrix: Tensor, classes: Sequence[str], title: str) -> Figure:
    """A confusion matrix whose classes have long names."""
    drawn = evaluation.confusion(matrix, classes, title)
    drawn.axes[0].set_xticks(
        range(len(classes)), classes, rotation=40, ha="right", rotation_mode="anchor"
    )
    return drawn


def judge(base: Sequence[float], runs: Sequence[float]) -> str:
    """better or worse if the means differ by more than the larger spread (largest minus smallest
    run), else unclear."""
    difference = sum(runs) / len(runs) - sum(base) / len(base)
    spread = max(max(values) - min(values) for values in (base, runs))
    return "unclear" if abs(difference) <= spread else "better" if difference > 0 else "worse"


def dots(accuracy: dict[str, Sequence[float]], words: dict[str, str]) -> Figure:
    """A row for each variant: its runs as small dots, their mean as a mark; the base as a line, its
    spread as a band.

    Args:
        accuracy: accuracies of the runs by variant, in percent; the first one is the base.
        words: what each variant is, to write beside its row.
    """
    base = next(iter(accuracy.values()))
    drawn, (axes,) = figure(width=10, height=1.2 + 0.31 * len(accuracy))
    axes.axvspan(min(base), max(base), color=SKY, alpha=0.3, lw=0)
    axes.axvline(sum(base) / len(base), color=BLACK, lw=1)
    looks = {"better": (GREEN, "^"), "worse": (RED, "v"), "unclear": (BLUE, "D")}
    for place, runs in enumerate(accuracy.values()):
        colour, mark = looks[judge(base, runs)]
        axes.plot(sum(runs) / len(runs), place, mark, color=colour, ms=9, alpha=0.75)
        axes.plot(runs, [place] * len(runs), "o", color=BLACK, ms=3.5, mew=0)
    for verdict, (colour, mark) in looks.items():
        label = "the base, or too close to tell" if verdict == "unclear" else verdict
        axes.plot([], [], mark, color=colour, ms=8, label=label)
    axes.plot([], [], "o", color=BLACK, ms=3.5, label="one run")
    axes.set_yticks(range(len(accuracy)), [words[name] for name in accuracy])
    axes.set_ylim(len(accuracy) - 0.4, -0.6)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("accuracy on the 5,000 validation digits, in %")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=4, fontsize=9)
    return drawn
