"""Train the learner's own model live, beside the stored seeds of its row."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from . import rows
from .growing import ROWS
from .loop import Row

ALONE = Row("your model", nn.Identity)  # a model that no row is compared with
RATE = 0.003


class PieceError(ValueError):
    """A model cannot be trained; notebooks show the sentence without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def train(model: nn.Module, row: str | None = None, seed: int = 0) -> nn.Module:
    """Train a model, print ``title: 84 % (stored: 82 to 84)``, and return it in eval mode.

    The loop is ``ladder.fit``. It trains in one thread, and leaves torch's random state alone.

    Args:
        model: is trained as it is, from its own start values: (n, 1, 28, 28) -> (n, 10); for the
            relational task (n, 1, 21, 21) -> (n, 2).
        row: the stored row that the accuracy is compared with. It says the task, how long and with
            which learning rate. Without it: the digits, 12 epochs, 0.003.
        seed: of the order of the batches.

    Raises:
        PieceError: no such row, or a model that does not fit, in a sentence.
    """
    if row is not None and row not in ROWS:
        raise PieceError(f"no row is called {row!r}. Choose one of: {', '.join(ROWS)}")
    about = ALONE if row is None else ROWS[row]
    _refuse_model(model, about)
    rate = RATE if row is None else rows.stored(row)["learning_rate"]
    with _one_thread():
        reached, _ = about.train_model(model, rate, seed)
    if row is None:
        print(f"{about.title}: {reached:.0f} %")
    else:
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        rows.LIVE[row] = reached, count
        print(f"{about.title}: {rows.row(row, reached)}")
    return model


@contextmanager
def _one_thread() -> Iterator[None]:
    """The stored numbers are those of one thread; all settings are put back."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)


def _refuse_model(model: Any, about: Row) -> None:
    """Raise PieceError unless a model gives logits for two pictures of the row's task."""
    if isinstance(model, type):
        name = model.__name__
        raise PieceError(f"train takes a model, and {name} is a class: give {name}(…).")
    if not isinstance(model, nn.Module):
        raise PieceError(f"train takes a model, an nn.Module, not a {type(model).__name__}.")
    name = type(model).__name__
    side, classes = (21, 2) if about.steps else (28, 10)
    x = torch.zeros(2, 1, side, side)
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            y = model(x)
    except NotImplementedError:
        raise PieceError(f"{name} uses a piece that is not solved yet.") from None
    except Exception as error:
        raise PieceError(
            f"{name} fails for pictures of shape {list(x.shape)}: {type(error).__name__}: {error}"
        ) from None
    if not isinstance(y, Tensor) or tuple(y.shape) != (2, classes):
        got = list(y.shape) if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise PieceError(
            f"{name} makes {got} of {list(x.shape)}; it must make {[2, classes]}, a logit for each"
            " class."
        )
