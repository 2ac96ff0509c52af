"""What is found of a model, as a notebook shows it: confusion matrix, accuracy with its interval, training curves."""

import html
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .errors import NOT_FINITE, check_sizes
from .modes import answer, eval_mode, progress

__all__ = ["Evaluation", "History", "confusion_matrix", "evaluate_model", "wilson_interval"]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What a model said about a set of images.

    Attributes:
        data, classes: which images, in words; and the names of the k classes.
        labels, predictions: the truth, and the class with the largest logit, int64, (n,).
        probabilities: softmax of the logits, float32, (n, k).
        matrix: int64, (k, k); row = truth, column = prediction.
    """

    data: str
    classes: tuple[str, ...]
    labels: Tensor
    predictions: Tensor
    probabilities: Tensor
    matrix: Tensor

    @property
    def total(self) -> int:
        """How many images."""
        return len(self.labels)

    @property
    def correct(self) -> int:
        """How many of them were read right."""
        return int(self.matrix.diagonal().sum())

    @property
    def accuracy(self) -> float:
        """Share of right predictions, 0 to 1."""
        return self.correct / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the accuracy."""
        return wilson_interval(self.correct, self.total)

    @property
    def recall(self) -> Tensor:
        """Of the images that are of a class, the share called so, (k,); nan for a class without images."""
        return self.matrix.diagonal() / self.matrix.sum(dim=1)

    @property
    def precision(self) -> Tensor:
        """Of the images called by a class's name, the share that are of it, (k,); nan for a class never named."""
        return self.matrix.diagonal() / self.matrix.sum(dim=0)

    def __repr__(self) -> str:
        return f"Evaluation({self._summary()}; {self.data})"

    def __str__(self) -> str:
        lines = [self.data, self._summary(), "confusion matrix: each row is a true class, each column a prediction"]
        width = max(4, *(len(name) + 1 for name in self.classes), len(str(int(self.matrix.max()))) + 1)
        lines.append(" " * width + "".join(f"{name:>{width}}" for name in self.classes) + "  recall")
        for name, row, recall in zip(self.classes, self.matrix.tolist(), self.recall.tolist(), strict=True):
            lines.append(f"{name:>{width}}" + "".join(f"{count:>{width}}" for count in row) + f"  {recall:6.1%}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [["truth \\ prediction", *self.classes]]
        rows += [[name, *map(str, row)] for name, row in zip(self.classes, self.matrix.tolist(), strict=True)]
        table = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<p>{html.escape(self._summary())}<br>{html.escape(self.data)}</p><table>{table}</table>"

    def _summary(self) -> str:
        low, high = self.interval
        share = f"{self.accuracy:.2%} ({self.correct:,} of {self.total:,})"
        return f"accuracy {share}, 95 % interval {low:.2%} to {high:.2%}"


class History(list[dict[str, float]]):
    """The epochs of a training, one dict each, see ``training.fit``; a notebook shows their curves."""

    def __repr__(self) -> str:
        last = self[-1]
        said = f"loss {last['loss']:.4f}, validation accuracy {last['validation_accuracy']:.2%}"
        return f"History of {len(self)} epochs: {said}"

    def plot(self) -> Any:
        """Loss (in nats) and accuracy of each epoch in two panels; returns the matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 2.6), layout="constrained")
        for axes, kind in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
            for key, label in ((kind, "training batches"), (f"validation_{kind}", "validation")):
                axes.plot([row["epoch"] for row in self], [row[key] for row in self], marker=".", label=label)
            axes.set(xlabel="epoch", ylabel=kind)
            axes.legend()
        return figure

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.plot().savefig(picture, format="png")
        return picture.getvalue()


def confusion_matrix(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    """Count how often each class (row) was given each name (column): int64, (k, k), in scikit-learn's order.

    ``labels`` and ``predictions`` are int64, (n,), from 0 to num_classes - 1.
    """
    check_sizes(num_classes=num_classes)
    if labels.shape != predictions.shape or labels.dim() != 1:
        raise ValueError(f"labels and predictions must be two rows of equal length, got {tuple(labels.shape)} "
                         f"and {tuple(predictions.shape)}")  # fmt: skip
    for name, values in (("labels", labels), ("predictions", predictions)):
        if values.is_floating_point() or (len(values) and not 0 <= values.min() <= values.max() < num_classes):
            raise ValueError(f"{name} must be whole numbers from 0 to {num_classes - 1}")
    pairs = labels.long() * num_classes + predictions.long()
    return torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)


def wilson_interval(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Where the true share lies, given ``correct`` of ``total``: 95 % of such intervals hold it for z = 1.96.

    Source: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953.
    """
    if total < 1 or not 0 <= correct <= total:
        raise ValueError(f"need 0 <= correct <= total and at least one image, got {correct} of {total}")
    share, extra = correct / total, z * z / total
    middle = (share + extra / 2) / (1 + extra)
    reach = z / (1 + extra) * math.sqrt(share * (1 - share) / total + extra / (4 * total))
    return max(0.0, middle - reach), min(1.0, middle + reach)


@torch.no_grad()
def evaluate_model(
    model: nn.Module, loader: Iterable[tuple[Tensor, Tensor]], classes: tuple[str, ...], data: str
) -> Evaluation:
    """Run the model, images -> logits (n, k), over all batches on its device, in eval mode; its modes are put back.

    ``classes`` are the names of the k classes, ``data`` says which images these are.
    """
    with eval_mode(model):
        results = [(labels, answer(model, images).float()) for images, labels in progress(loader, desc="reading")]
    labels = torch.cat([batch for batch, _ in results]).cpu()
    logits = torch.cat([batch for _, batch in results]).cpu()
    if not logits.isfinite().all():
        raise ValueError(NOT_FINITE)
    if logits.shape[1] != len(classes):
        raise ValueError(f"the model has {logits.shape[1]} classes, the data has {len(classes)}")
    predictions = logits.argmax(dim=1)
    matrix = confusion_matrix(labels, predictions, len(classes))
    return Evaluation(data, classes, labels, predictions, logits.softmax(dim=1), matrix)
