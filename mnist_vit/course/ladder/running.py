"""Train one rung live: the learner's own model, or one with the learner's own pieces in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from . import rows
from .growing import ROWS
from .models import WIDTH, OneHead
from .rung import Rung
from .rungs import RUNGS

TOKENS = (2, 16, WIDTH)
PIXELS = (2, 1, 28, 28)
TRIED: dict[str, tuple[tuple[Any, ...], dict[str, int]]] = {  # how each kind of piece is made
    "mlp": ((WIDTH, 4 * WIDTH, 0.0), {}),
    "attention": ((WIDTH, 1), {}),
    "block": ((1, WIDTH, 4 * WIDTH, 0.0, 0.0), {}),
    "encoder": ((16, 2, 1, WIDTH, 4 * WIDTH, 0.0, 0.0), {}),
    "model": ((28, 7, 2, 2, 64, 256), {"num_classes": 10, "in_channels": 1}),
}
INSIDE = {"block": ("attention", "mlp"), "encoder": ("attention", "mlp", "block")}


ALONE = Rung("your model", nn.Identity)  # a model that no row is compared with
RATE = 0.003


class PieceError(ValueError):
    """A model or a piece cannot be trained; notebooks show the sentence without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def train(
    model: nn.Module, /, row: str | None = None, *, seed: int = 0, **pieces: Any
) -> nn.Module:
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
    if isinstance(model, str):
        return _train_rung(model, seed, pieces)
    if row is not None and row not in ROWS:
        raise PieceError(f"no row is called {row!r}. Choose one of: {', '.join(ROWS)}")
    rung = ALONE if row is None else ROWS[row]
    _refuse_model(model, rung)
    rate = RATE if row is None else rows.stored(row)["learning_rate"]
    with _one_thread():
        reached, _ = rung.train_model(model, rate, seed)
    if row is None:
        print(f"{rung.title}: {reached:.0f} %")
    else:
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        rows.LIVE[row] = reached, count
        print(f"{rung.title}: {rows.row(row, reached)}")
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


def _refuse_model(model: Any, rung: Rung) -> None:
    """Raise PieceError unless a model gives logits for two pictures of the rung's task."""
    if isinstance(model, type):
        name = model.__name__
        raise PieceError(f"train takes a model, and {name} is a class: give {name}(…).")
    if not isinstance(model, nn.Module):
        raise PieceError(f"train takes a model, an nn.Module, not a {type(model).__name__}.")
    name = type(model).__name__
    side, classes = (21, 2) if rung.steps else (28, 10)
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


def _train_rung(rung: str, seed: int, pieces: dict[str, Any]) -> nn.Module:
    """Train a rung by its name with pieces in it: for notebooks that are not rebuilt yet.

    Args:
        rung: a name in ``RUNGS``.
        seed: of start values and of the order of the digits.
        pieces: classes by what they stand for: ``mlp=``, ``attention=`` (or a single head of
            notebook 02), ``block=``, ``encoder=``, ``model=``; where none is given, or None, the
            package's class stands.

    Raises:
        ValueError: no such rung.
        PieceError: a piece that does not fit, in a sentence.
    """
    about = rows.stored(rung)
    pieces = {kind: piece for kind, piece in pieces.items() if piece is not None}
    _refuse_kinds(rung, list(pieces))
    with _one_thread():
        for kind in pieces:
            pieces[kind] = tried(kind, pieces[kind])
        model, reached, _ = RUNGS[rung].train(about["learning_rate"], seed, **pieces)
    rows.LIVE[rung] = reached, sum(parameter.numel() for parameter in model.parameters())
    print(f"{RUNGS[rung].title}: {rows.row(rung, reached)}")
    return model


def _refuse_kinds(rung: str, kinds: list[str]) -> None:
    """Raise PieceError where a rung does not take a kind of piece, or two of them collide."""
    takes = RUNGS[rung].takes
    for kind in kinds:
        if kind not in takes:
            taken = " or ".join(f"{one}=" for one in takes) or "no pieces"
            raise PieceError(f"the rung {rung!r} takes {taken}, not {kind}=.")
    for whole, parts in INSIDE.items():
        for part in parts:
            if whole in kinds and part in kinds:
                raise PieceError(f"{whole}= brings its own {part}: give one of the two.")


def tried(kind: str, piece: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """The piece, tried on two small inputs; a single head is wrapped.

    Raises:
        PieceError: it cannot be made, cannot be called, or gives something else than this kind of
            piece does.
    """
    sizes, names = TRIED[kind]
    name = getattr(piece, "__name__", type(piece).__name__)
    arguments = list(map(str, sizes))
    arguments += [f"{key}={value}" for key, value in names.items()]
    call = f"{name}({', '.join(arguments)})"
    x = torch.randn(PIXELS if kind == "model" else TOKENS)
    try:
        made = piece(*sizes, **names)
        if kind == "attention" and hasattr(made, "w_q"):
            made = OneHead(piece, WIDTH)
            piece = partial(_one_head, piece)
        y = made(x, x, x) if kind == "attention" else made(x)
    except NotImplementedError:
        raise PieceError(f"{kind}: {name} is not solved yet. Finish its exercise first.") from None
    except Exception as error:
        raise PieceError(
            f"{kind}: {call} fails: {type(error).__name__}: {error}. Does its check pass?"
        ) from None
    if kind == "attention":
        if not isinstance(y, tuple | list) or len(y) != 2:
            raise PieceError(f"attention: {name} must return a pair, the output and the weights.")
        y = y[0]
    shape = (2, 10) if kind == "model" else TOKENS
    if not isinstance(y, Tensor) or tuple(y.shape) != shape:
        got = list(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise PieceError(
            f"{kind}: {name} makes {got} of {list(x.shape)}; it must make {list(shape)}."
        )
    return piece


def _one_head(head: Callable[..., nn.Module], width: int, heads: int) -> nn.Module:
    return OneHead(head, width)
