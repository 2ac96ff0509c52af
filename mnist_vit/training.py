"""The optimisation loop: AdamW, warm-up and cosine, weight average, checkpoints and resume."""

import copy
import json
import math
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn
from tqdm import tqdm

from .errors import WeightsError
from .files import write_atomic, write_json, write_text
from .modes import keep_modes

__all__ = ["accuracy_and_loss", "fit"]


class Batches(Protocol):
    """What ``fit`` needs of a loader (``data.Loader`` is one)."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None: ...


def fit(
    model: nn.Module,
    train_loader: Batches,
    validation_loader: Iterable[tuple[Tensor, Tensor]],
    *,
    epochs: int,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.05,
    warmup: float = 0.15,
    clip: float = 1.0,
    average: float = 0.999,
    seed: int = 0,
    before_epoch: Callable[[int], None] = lambda epoch: None,
    run_dir: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    tensorboard: bool = False,
    config: dict[str, Any] | None = None,
) -> list[dict[str, float]]:
    """Train ``model`` in place; at the end it holds the averaged weights.

    Args:
        model: on its device; anything from images to logits.
        train_loader: batches of (images, labels) on that device, with ``len`` and ``set_epoch`` (see ``data.Loader``).
        validation_loader: the images that the accuracy after each epoch is measured on.
        epochs: passes over the training images.
        learning_rate: the largest one; it rises over the first ``warmup`` share of the steps, then falls as a cosine.
        weight_decay: of matrices; biases, norms, the class token and the position embedding have none.
        clip: largest length of the gradient.
        average: weight average, ``average * old + (1 - average) * new`` after each step.
        seed: of everything random in an epoch, together with its number.
        before_epoch: called with the number of each epoch, from 0, before it starts.
        run_dir: folder for config.json, metrics.jsonl, checkpoint.pth and TensorBoard's files; None writes nothing.
        checkpoint_every: epochs between two checkpoints.
        resume: go on from the checkpoint in run_dir, if there is one; the result is that of a run never stopped.
        tensorboard: write curves for ``tensorboard --logdir``.
        config: stored as config.json.

    Returns:
        One dict per epoch: epoch (from 1), loss and accuracy on the training batches as they passed, validation_loss
        and validation_accuracy of the averaged weights, learning_rate, seconds. Losses are in nats.

    Raises:
        ValueError: the loss is no longer a finite number, another run writes to run_dir, or an argument is wrong.
        WeightsError: the checkpoint is damaged or of another model.
        KeyboardInterrupt: Ctrl-C or a notebook's stop button; what can be gone on with is printed first.

    However it ends, the model holds the averaged weights of the steps that were done, and all modules are in the mode
    they were in. A checkpoint that cannot be written is a warning; the one before it stays.

    The same seed gives the same weights and the same history, to the last bit, on the same machine with the same
    versions and number of threads. Other threads or another processor add the same numbers in another order, and some
    sums on a GPU change from run to run: there the results agree only roughly.

    Source: AdamW (Loshchilov & Hutter 2017, https://arxiv.org/abs/1711.05101); under ``torchrun`` the model is
    wrapped in PyTorch's DistributedDataParallel and the loader gives each process its share of a batch.
    """
    if epochs < 1 or checkpoint_every < 1:
        raise ValueError(f"epochs and checkpoint_every must be at least 1, got {epochs} and {checkpoint_every}")
    if run_dir is None and (resume or tensorboard):
        raise ValueError("resume=True and tensorboard=True need a run_dir, the folder of the run")
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    parallel = nn.parallel.DistributedDataParallel(model) if world_size > 1 else model
    main = rank == 0  # it alone writes and prints
    folder = Path(run_dir) if run_dir is not None else None

    steps = epochs * len(train_loader)
    optimizer = make_optimizer(model, learning_rate, weight_decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule(step, steps, warmup))
    averaged = copy.deepcopy(model)
    state = {"model": model, "averaged": averaged, "optimizer": optimizer, "scheduler": scheduler}
    history: list[dict[str, float]] = []

    with _locked(folder if main else None), keep_modes(model):
        if resume and (checkpoint := _checkpoint(folder)):
            history = _load_checkpoint(checkpoint, state, epochs)
        if folder is not None and main:
            write_json(folder / "config.json", config or {})
            _write_metrics(folder, history)
        writer = _summary_writer(folder) if folder is not None and main and tensorboard else None
        try:
            for epoch in range(len(history), epochs):
                torch.manual_seed(seed * 1_000_003 + epoch)
                train_loader.set_epoch(epoch)
                before_epoch(epoch)
                start = time.perf_counter()
                hidden = None if main else True  # None: shown where there is a terminal
                with tqdm(train_loader, desc=f"epoch {epoch + 1}/{epochs}", leave=False, disable=hidden) as batches:
                    total = _train_epoch(parallel, batches, optimizer, scheduler, averaged, average, clip)
                if world_size > 1:
                    torch.distributed.all_reduce(total)
                loss, right, count = total.tolist()
                validation_accuracy, validation_loss = accuracy_and_loss(averaged, validation_loader)
                row = {
                    "epoch": epoch + 1,
                    "loss": loss / count,
                    "accuracy": right / count,
                    "validation_loss": validation_loss,
                    "validation_accuracy": validation_accuracy,
                    "learning_rate": optimizer.param_groups[0]["lr"],
                    "seconds": time.perf_counter() - start,
                }
                if not math.isfinite(loss + validation_loss):
                    raise ValueError(_not_finite(row, learning_rate, folder))
                history.append(row)
                if main:
                    tqdm.write(f"epoch {epoch + 1:3d}/{epochs}  loss {row['loss']:.4f}  "
                               f"validation accuracy {validation_accuracy:.2%}  {row['seconds']:.0f} s")  # fmt: skip
                if main and folder is not None:
                    _save(folder, state, history, (epoch + 1) % checkpoint_every == 0 or epoch + 1 == epochs, writer)
        except KeyboardInterrupt:
            if main:
                print(f"stopped after {len(history)} of {epochs} epochs. {_how_to_go_on(folder)}", flush=True)
            raise
        finally:
            model.load_state_dict(averaged.state_dict())
            if writer is not None:
                with suppress(OSError):  # a full disk; it was told already
                    writer.close()
    return history


def _train_epoch(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    averaged: nn.Module,
    average: float,
    clip: float,
) -> Tensor:
    """One pass over the images, one step per batch.

    Returns:
        Loss times images, right predictions, images: (3,), still on the device, so that no step has to wait for it.
    """
    model.train()
    total = torch.zeros(3, device=next(model.parameters()).device)
    for images, labels in batches:
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        follow(averaged, model, average if scheduler.last_epoch > 1 else 0.0)  # it counts steps; the first is copied
        with torch.no_grad():
            right = (logits.argmax(dim=1) == labels).sum()
            total += torch.stack([loss.detach() * len(labels), right, right.new_full((), len(labels))])
    return total


@torch.no_grad()
def follow(averaged: nn.Module, model: nn.Module, average: float) -> None:
    """Move the averaged weights: ``average * old + (1 - average) * new``; buffers are copied.

    What torch's AveragedModel does, without its counter: that lies on the CPU, and a GPU would wait for it each step.
    """
    get_ema_multi_avg_fn(average)(list(averaged.parameters()), list(model.parameters()), 0)
    for old, new in zip(averaged.buffers(), model.buffers(), strict=True):
        old.copy_(new)


def schedule(step: int, steps: int, warmup: float) -> float:
    """Share of the largest learning rate at a step: a straight line up, then half a cosine down to 0."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW that shrinks matrices and leaves biases, norms, class token and position embedding alone."""
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        plain = parameter.dim() < 2 or "class_token" in name or "pos_embedding" in name
        (free if plain else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
    on_gpu = next(model.parameters()).is_cuda  # there, all parameters in one launch instead of many
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.99), fused=True if on_gpu else None)


@torch.no_grad()
def accuracy_and_loss(model: nn.Module, loader: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Share of right predictions, and mean loss in nats, in eval mode; the modes are put back."""
    right: Tensor | float = 0
    loss: Tensor | float = 0
    count = 0
    with keep_modes(model):
        model.eval()
        for images, labels in loader:
            logits = model(images)
            right += (logits.argmax(dim=1) == labels).sum()
            loss += F.cross_entropy(logits, labels, reduction="sum")
            count += len(labels)
    return float(right) / count, float(loss) / count


@contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """Keep a second run out of the folder, and clear away what a killed one left half written."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = _lock(folder)
    try:
        for part in folder.glob(".*.*.part"):
            part.unlink()
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(folder: Path) -> int | None:
    """A lock that the system itself takes away when the process ends, a killed one too; None where there are none."""
    handle = None
    try:
        if os.name == "nt":  # the file is gone when its handle is
            return os.open(folder / ".lock", os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_TEMPORARY", 0))
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle
    except OSError as error:
        if handle is not None:
            os.close(handle)
        if isinstance(error, BlockingIOError | FileExistsError):
            raise ValueError(f"another run is writing to {folder} right now: wait for it, or name another folder as "
                             "run_dir (--run-dir)") from error  # fmt: skip
        return None  # some network drives know no locks; that is no reason not to train


def _save(folder: Path, state: dict[str, Any], history: list[dict[str, float]], checkpoint: bool, writer: Any) -> None:
    """Write how far the run has come; a disk that is full or read-only costs a warning, not the training."""
    content = {name: part.state_dict() for name, part in state.items()} | {"history": history}
    try:
        if checkpoint:
            write_atomic(folder / "checkpoint.pth", lambda file: torch.save(content, file))
        _write_metrics(folder, history)
        if writer is not None:
            for name, value in history[-1].items():
                writer.add_scalar(name, value, len(history))
    except OSError as error:
        warnings.warn(f"after epoch {len(history)}: {error}. Training goes on, and tries again", stacklevel=3)


def _write_metrics(folder: Path, history: list[dict[str, float]]) -> None:
    write_text(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in history))


def _not_finite(row: dict[str, float], learning_rate: float, folder: Path | None) -> str:
    """What to tell when a loss is nan or infinite."""
    kept = f". {checkpoint} still holds the epochs before" if (checkpoint := _checkpoint(folder)) else ""
    return (
        f"epoch {row['epoch']}: the loss is {row['loss']}, the validation loss {row['validation_loss']}, and such "
        f"weights are of no use. Likely causes: learning_rate {learning_rate} is too large (try a tenth), or pixels "
        f"that are nan or infinite. Begin again, with a new model{kept}"
    )


def _how_to_go_on(folder: Path | None) -> str:
    """What to tell somebody who has pressed stop."""
    text = "The model holds the averaged weights so far. "
    if not _checkpoint(folder):
        return text + "There is no checkpoint: calling again starts a new run, from the weights that it is given"
    again = f'To go on from the last checkpoint, call again with run_dir="{folder}", resume=True'
    return f"{text}{again} (command line: --run-dir {folder} --resume)"


def _checkpoint(folder: Path | None) -> Path | None:
    """The checkpoint in a folder, if there is one."""
    path = folder / "checkpoint.pth" if folder is not None else None
    return path if path is not None and path.is_file() else None


def _load_checkpoint(path: Path, state: dict[str, Any], epochs: int) -> list[dict[str, float]]:
    before = copy.deepcopy(state["model"].state_dict())
    try:
        with zipfile.ZipFile(path) as archive:  # torch.save writes checksums, torch.load does not look at them
            if archive.testzip() is not None:
                raise zipfile.BadZipFile("a checksum is wrong")
        content = torch.load(path, map_location="cpu", weights_only=True)
        history = list(content["history"])
        for name, part in state.items():
            part.load_state_dict(content[name])
    except Exception as error:
        state["model"].load_state_dict(before)
        reason = str(error).partition("\n")[0]
        raise WeightsError(f"{path} cannot be resumed from ({type(error).__name__}: {reason}). It belongs to another "
                           "model or was damaged: delete it, or name another run folder") from error  # fmt: skip
    if len(history) > epochs:
        raise ValueError(f"{path} has already run {len(history)} epochs; epochs must be at least that")
    return history


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError('TensorBoard is not installed: pip install "mnist-vit[course]"') from error
    return SummaryWriter(str(folder))
