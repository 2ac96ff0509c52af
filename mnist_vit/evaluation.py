"""Results: accuracy with its interval, confusion matrix, training curves.

Notebooks show them as tables and figures.
"""

import html
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .console import progress
from .errors import NOT_FINITE, check_sizes
from .forward import eval_mode, logits_of

__all__ = ["Evaluation", "History", "confusion_matrix", "evaluate_model", "wilson_interval"]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Predictions of a model on a set of images.

    Attributes:
        data, classes: a description of the images; the names of the k classes.
        labels, predictions: true and predicted classes, int64, (n,).
        probabilities: softmax of the logits, float32, (n, k).
        matrix: confusion matrix, int64, (k, k); rows are true classes, columns are predictions.
    """

    data: str
    classes: tuple[str, ...]
    labels: Tensor
    predictions: Tensor
    probabilities: Tensor
    matrix: Tensor

    @property
    def total(self) -> int:
        """Number of images."""
        return len(self.labels)

    @property
    def correct(self) -> int:
        """Number of correct predictions."""
        return int(self.matrix.diagonal().sum())

    @property
    def accuracy(self) -> float:
        """Share of correct predictions, 0 to 1."""
        return self.correct / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the accuracy."""
        return wilson_interval(self.correct, self.total)

    @property
    def recall(self) -> Tensor:
        """Share of a class's images that are predicted as that class, (k,).

        NaN for a class without images.
        """
        return self.matrix.diagonal() / self.matrix.sum(dim=1)

    @property
    def precision(self) -> Tensor:
        """Share of a class's predictions that are correct, (k,).

        NaN for a class that is never predicted.
        """
        return self.matrix.diagonal() / self.matrix.sum(dim=0)

    def __repr__(self) -> str:
        return f"Evaluation({self._summary()}; {self.data})"

    def __str__(self) -> str:
        rows = self.matrix.tolist()
        longest_name = max(map(len, self.classes))
        longest_count = len(str(int(self.matrix.max())))
        width = max(longest_name, longest_count, 3) + 1

        def line(cells: Iterable[object]) -> str:
            return "".join(f"{cell!s:>{width}}" for cell in cells)

        lines = [
            self.data,
            self._summary(),
            "confusion matrix: each row is a true class, each column a prediction",
            line(["", *self.classes]) + "  recall",
        ]
        for name, row, recall in zip(self.classes, rows, self.recall.tolist(), strict=True):
            lines.append(line([name, *row]) + f"  {recall:6.1%}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = _html_row(["truth \\ prediction", *self.classes])
        for name, row in zip(self.classes, self.matrix.tolist(), strict=True):
            table += _html_row([name, *row])
        summary = f"{html.escape(self._summary())}<br>{html.escape(self.data)}"
        return f"<p>{summary}</p><table>{table}</table>"

    def _summary(self) -> str:
        low, high = self.interval
        share = f"{self.accuracy:.2%} ({self.correct:,} of {self.total:,})"
        return f"accuracy {share}, 95 % interval {low:.2%} to {high:.2%}"


def _html_row(cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"


class History(list[dict[str, float]]):
    """One dict per epoch of a training, see ``training.fit``; notebooks show the curves."""

    def __repr__(self) -> str:
        last = self[-1]
        said = f"loss {last['loss']:.4f}, validation accuracy {last['validation_accuracy']:.2%}"
        return f"History up to epoch {len(self)}: {said}"

    def plot(self) -> Any:
        """Plot loss (in nats) and accuracy of each epoch; returns the matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 2.6), layout="constrained")
        epochs = [row["epoch"] for row in self]
        for axes, kind in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
            in_training = [row[kind] for row in self]
            in_validation = [row[f"validation_{kind}"] for row in self]
            axes.plot(epochs, in_training, marker=".", label="training batches")
            axes.plot(epochs, in_validation, marker=".", label="validation")
            axes.set(xlabel="epoch", ylabel=kind)
            axes.legend()
        return figure

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.plot().savefig(picture, format="png")
        return picture.getvalue()


def confusion_matrix(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    """Confusion matrix, int64, (k, k): rows are ``labels``, columns are ``predictions``.

    Both are int64, (n,).
    """
    check_sizes(num_classes=num_classes)
    if labels.shape != predictions.shape or labels.dim() != 1:
        raise ValueError(
            f"need two equally long vectors, got {tuple(labels.shape)} and"
            f" {tuple(predictions.shape)}"
        )
    _check_classes("labels", labels, num_classes)
    _check_classes("predictions", predictions, num_classes)
    pairs = labels.long() * num_classes + predictions.long()
    return torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)


def _check_classes(name: str, values: Tensor, num_classes: int) -> None:
    """Raise ValueError unless all values are whole numbers below ``num_classes``."""
    in_range = len(values) == 0 or 0 <= values.min() <= values.max() < num_classes
    if values.is_floating_point() or not in_range:
        raise ValueError(f"{name} must be whole numbers from 0 to {num_classes - 1}")


def wilson_interval(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson confidence interval of a share, given ``correct`` of ``total``; z = 1.96 for 95 %.

    Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953.
    """
    if total < 1 or not 0 <= correct <= total:
        raise ValueError(
            f"need 0 <= correct <= total and at least one image, got {correct} of {total}"
        )
    share = correct / total
    extra = z * z / total
    middle = (share + extra / 2) / (1 + extra)
    reach = z / (1 + extra) * math.sqrt(share * (1 - share) / total + extra / (4 * total))
    return max(0.0, middle - reach), min(1.0, middle + reach)


@torch.no_grad()
def evaluate_model(
    model: nn.Module, loader: Iterable[tuple[Tensor, Tensor]], classes: tuple[str, ...], data: str
) -> Evaluation:
    """Run the model in eval mode over all batches.

    ``classes`` are class names, ``data`` describes the images.
    """
    all_labels = []
    all_logits = []
    with eval_mode(model):
        for images, batch_labels in progress(loader, desc="evaluating"):
            all_labels.append(batch_labels)
            all_logits.append(logits_of(model, images).float())
    labels = torch.cat(all_labels).cpu()
    logits = torch.cat(all_logits).cpu()
    if not logits.isfinite().all():
        raise ValueError(NOT_FINITE)
    if logits.shape[1] != len(classes):
        raise ValueError(f"the model has {logits.shape[1]} classes, the data has {len(classes)}")
    predictions = logits.argmax(dim=1)
    matrix = confusion_matrix(labels, predictions, len(classes))
    return Evaluation(data, classes, labels, predictions, logits.softmax(dim=1), matrix)
