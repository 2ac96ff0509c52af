"""A row of the ladder: a model, its task, and the loop in which it is trained."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .tasks import digit_batches, digits, inked, relation, relation_batches

BATCH = 50


def fit(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], steps: int, learning_rate: float
) -> None:
    """The training loop of all rows: AdamW, a warm-up over a tenth of the steps, a cosine."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    for step, (x, y) in enumerate(batches):
        warm = min(1.0, (step + 1) / (0.1 * steps))
        rate = learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Percent."""
    return round(100 * (model.eval()(x).argmax(dim=1) == y).float().mean().item(), 1)


@dataclass(frozen=True)
class Row:
    """A model, and how it is trained.

    Attributes:
        title: what it is called in tables.
        build: makes the model.
        twin: the row without its piece.
        epochs: on the digits.
        steps: of the relational task; 0 for digits.
    """

    title: str
    build: Callable[[], nn.Module]
    twin: str | None = None
    epochs: int = 12
    steps: int = 0

    def train(
        self,
        learning_rate: float,
        seed: int,
        split: str = "train",
        judge: str = "validation",
    ) -> tuple[nn.Module, float, float]:
        """Build and train once: the model, its accuracy in percent, and CPU seconds."""
        torch.manual_seed(seed)
        model = self.build()
        return model, *self.train_model(model, learning_rate, seed, split, judge)

    def train_model(
        self,
        model: nn.Module,
        learning_rate: float,
        seed: int = 0,
        split: str = "train",
        judge: str = "validation",
    ) -> tuple[float, float]:
        """Train a model that is built: its accuracy in percent, and CPU seconds.

        ``seed`` is that of the order of the batches.
        """
        generator = torch.Generator().manual_seed(seed)
        steps = self.steps or self.epochs * math.ceil(len(digits(split)[0]) / BATCH)
        for name in (split, judge):
            inked(name)  # makes the data now, so that it is not part of the time
        start = time.process_time()
        if self.steps:
            fit(model, relation_batches(split, steps, generator), steps, learning_rate)
            x, y, _ = relation(judge, 4000, torch.Generator().manual_seed(0))
        else:
            fit(model, digit_batches(split, self.epochs, BATCH, generator), steps, learning_rate)
            x, y = digits(judge)
        return accuracy(model, x, y), time.process_time() - start
