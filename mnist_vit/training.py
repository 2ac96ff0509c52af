"""The optimisation loop: AdamW or Muon, warm-up and cosine, EMA of the weights, checkpoints and
resume."""

import copy
import json
import math
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from .console import progress, say
from .data import Loader
from .errors import WeightsError, check_sizes
from .files import PARTS, locked, write_atomic, write_json, write_text
from .forward import eval_mode, logits_of
from .optimizers import make_optimizer, make_optimizers

__all__ = ["accuracy_and_loss", "fit", "make_optimizer", "sincos_positions"]

CHECKPOINT, PREVIOUS = "checkpoint.pth", "checkpoint_previous.pth"
FREE = ("epochs", "checkpoint_every", "tensorboard")  # may differ when a run is resumed


def fit(
    model: nn.Module,
    train_loader: Loader,
    validation_loader: Iterable[tuple[Tensor, Tensor]],
    *,
    epochs: int,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.05,
    warmup: float = 0.15,
    clip: float = 1.0,
    average: float = 0.999,
    optimizer: str = "adamw",
    label_smoothing: float = 0.0,
    seed: int = 0,
    before_epoch: Callable[[int], None] = lambda epoch: None,
    run_dir: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    tensorboard: bool = False,
    config: dict[str, Any] | None = None,
) -> list[dict[str, float]]:
    """Train ``model`` in place; afterwards it holds the averaged weights, also after an error or
    Ctrl-C.

    Args:
        model: any nn.Module from images to logits, float32 or float64, on its device.
        train_loader: a ``data.Loader``, or any batches of (images, labels) with ``len`` and
            ``set_epoch``.
        validation_loader: batches to evaluate on after each epoch.
        learning_rate: the largest one, after linear warm-up over a share ``warmup`` of the steps;
            then cosine.
        clip: largest norm of the gradient.
        average: decay of the EMA of the weights: ``average * old + (1 - average) * new`` after each
            step.
        before_epoch: called with the number of each epoch, from 0, before it starts.
        run_dir: folder for config.json, metrics.jsonl, the last two checkpoints and TensorBoard's
            files, or None.
        config: further settings, stored in config.json and compared when the run is resumed.
        epochs, weight_decay, optimizer, label_smoothing, seed, checkpoint_every, resume,
            tensorboard: see ``jobs.train``.

    Returns:
        One dict per epoch: epoch (from 1), loss and accuracy on the training batches,
        validation_loss and validation_accuracy of the averaged weights, learning_rate, seconds, and
        cpu_seconds (of this process). Losses are in nats.

    Raises:
        ValueError: the loss is not finite, an argument is invalid, or run_dir does not fit
            ``resume`` and the settings.
        BlockingIOError: another run writes to run_dir. WeightsError: checkpoints are damaged or of
            another model.

    A checkpoint that cannot be written or read causes a warning; the one before it is kept and
    used. The same seed gives bitwise equal weights on the same processor with the same versions and
    number of threads, except on a GPU. Started by ``torchrun``, each process trains on its share of
    a batch, in DistributedDataParallel. Source of AdamW: Loshchilov & Hutter 2017,
    https://arxiv.org/abs/1711.05101.
    """
    check_sizes(epochs=epochs, checkpoint_every=checkpoint_every)
    if run_dir is None and (resume or tensorboard):
        raise ValueError("resume=True and tensorboard=True need a run_dir, the folder of the run")
    kind = next(model.parameters()).dtype
    if kind not in (torch.float32, torch.float64):
        raise ValueError(
            f"the parameters are {kind}, which loses small updates: train model.float(), then"
            " convert it"
        )
    world = torch.distributed.is_available() and torch.distributed.is_initialized()
    parallel = (
        nn.parallel.DistributedDataParallel(model)
        if world and torch.distributed.get_world_size() > 1
        else model
    )
    main = not world or torch.distributed.get_rank() == 0  # only this process writes and prints
    folder = None if run_dir is None else Path(run_dir)
    settings = {
        "batches": len(train_loader),
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "warmup": warmup,
        "clip": clip,
        "average": average,
        "optimizer": optimizer,
        "label_smoothing": label_smoothing,
        "seed": seed,
        **(config or {}),
    }
    settings = json.loads(json.dumps(settings | {"epochs": epochs}))  # as they will be read
    # type: ignore[operator]
    if resume and not (folder / "config.json").exists() and not _checkpoint(folder):
        raise ValueError(
            f"there is no run to resume in {folder}: name another folder, or omit resume=True"
        )

    steps = epochs * len(train_loader)
    optimizers = make_optimizers(model, optimizer, learning_rate, weight_decay)
    averaged = copy.deepcopy(model)
    state = {"model": model, "averaged": averaged, **optimizers}
    history: list[dict[str, float]] = []

    with locked(folder) if folder is not None and main else nullcontext(), eval_mode(model):
        if folder is not None and _checkpoint(folder):
            if not resume:
                raise ValueError(
                    f"{folder} already contains a run: name another folder, or set resume=True"
                )
            history = _resume(folder, state, settings, main)
        elif resume and main:
            say(f"{folder} has no checkpoint yet: the run starts from the beginning")
        if folder is not None and main:
            for part in filter(Path.is_file, folder.glob(PARTS)):  # of a run that was killed
                part.unlink()
            write_json(folder / "config.json", settings)
            _save(folder, {}, history, None)
        writer = None
        if main and tensorboard:
            from torch.utils.tensorboard import SummaryWriter  # ImportError if it is not installed

            writer = SummaryWriter(str(folder))
        try:
            for epoch in range(len(history), epochs):
                torch.manual_seed(seed * 1_000_003 + epoch)
                train_loader.set_epoch(epoch)
                before_epoch(epoch)
                start, cpu = time.perf_counter(), time.process_time()
                first, last = (number * len(train_loader) for number in (epoch, epoch + 1))
                pace = [
                    (
                        learning_rate * schedule(step, steps, warmup),
                        average if step else 0.0,
                    )  # the first is copied
                    for step in range(first, last)
                ]
                with progress(train_loader, main, desc=f"epoch {epoch + 1}/{epochs}") as batches:
                    total = _train_epoch(
                        parallel, batches, optimizers, averaged, pace, clip, label_smoothing
                    )
                if parallel is not model:
                    torch.distributed.all_reduce(total)
                loss, right, count = total.tolist()
                validation_accuracy, validation_loss = accuracy_and_loss(
                    averaged, validation_loader
                )
                row = {
                    "epoch": epoch + 1,
                    "loss": loss / count,
                    "accuracy": right / count,
                    "validation_loss": validation_loss,
                    "validation_accuracy": validation_accuracy,
                    "learning_rate": learning_rate * schedule(last, steps, warmup),
                    "seconds": time.perf_counter() - start,
                    "cpu_seconds": time.process_time() - cpu,
                }
                if not math.isfinite(loss + validation_loss):
                    kept = (
                        f". {_checkpoint(folder)} contains the epochs before"
                        if _checkpoint(folder)
                        else ""
                    )
                    raise ValueError(
                        f"epoch {epoch + 1}: the loss is {row['loss']}, the validation loss"
                        f" {validation_loss}: training diverged. Start again with a new model, a"
                        f" smaller learning_rate than {learning_rate}, and no NaN in the"
                        f" images{kept}"
                    )
                history.append(row)
                if main and folder is not None:
                    due = (epoch + 1) % checkpoint_every == 0 or epoch + 1 == epochs
                    _save(folder, state | {"settings": settings} if due else {}, history, writer)
                if main:
                    say(
                        f"epoch {epoch + 1:3d}/{epochs}  loss {row['loss']:.4f}  "
                        f"validation accuracy {validation_accuracy:.2%}  {row['seconds']:.0f} s"
                    )
        except KeyboardInterrupt:
            if main:
                how = "There is no checkpoint: calling again starts a new run"
                if _checkpoint(folder):
                    how = (
                        f'To resume from the last checkpoint, call again with run_dir="{folder}",'
                        f" resume=True (command line: --run-dir {folder} --resume)"
                    )
                say(
                    f"stopped after {len(history)} of {epochs} epochs. The model holds the averaged"
                    f" weights. {how}"
                )
            raise
        finally:
            model.load_state_dict(averaged.state_dict())
            if writer is not None:
                with suppress(OSError):  # a full disk, which was reported before
                    writer.close()
    return history


def _train_epoch(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    optimizers: dict[str, torch.optim.Optimizer],
    averaged: nn.Module,
    pace: list[tuple[float, float]],
    clip: float,
    label_smoothing: float,
) -> Tensor:
    """One step per batch, each with its learning rate and decay of the average (``pace``).

    Returns the sums of losses, correct predictions and images, (3,), on the device, so that no step
    waits for a copy.
    """
    model.train()
    parameter = next(model.parameters())
    total = torch.zeros(3, device=parameter.device)
    for (images, labels), (rate, average) in zip(batches, pace, strict=True):
        logits = logits_of(model, images.to(parameter.dtype))
        loss = F.cross_entropy(logits, labels, label_smoothing=label_smoothing)
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        for optimizer in optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        follow(averaged, model, average)
        with torch.no_grad():
            right = (logits.argmax(dim=1) == labels).sum()
            total += torch.stack(
                [loss.detach() * len(labels), right, right.new_full((), len(labels))]
            )
    return total


@torch.no_grad()
def follow(averaged: nn.Module, model: nn.Module, average: float) -> None:
    """Update the averaged weights as torch's AveragedModel does, without its counter, which the CPU
    would wait for."""
    get_ema_multi_avg_fn(average)(list(averaged.parameters()), list(model.parameters()), 0)
    for old, new in zip(averaged.buffers(), model.buffers(), strict=True):
        old.copy_(new)


def schedule(step: int, steps: int, warmup: float) -> float:
    """Share of the largest learning rate at a step: a straight line up, then half a cosine down to
    0."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


@torch.no_grad()
def sincos_positions(model: nn.Module, size: float = 0.04) -> None:
    """Start the position embedding as sines and cosines of row and column instead of noise.

    Half of the numbers of a token tell its row and half its column, from fast waves to slow ones;
    the class token's are 0. This is a start only: training goes on to change it. ``size`` is the
    standard deviation of the embedding; torchvision's random start has 0.02.

    Source: Chen, Xie & He 2021, https://arxiv.org/abs/2104.02057; the waves are those of Vaswani et
    al. 2017, 3.5.
    """
    grid = model.image_size // model.patch_size
    width = model.hidden_dim // 4
    if model.hidden_dim % 4:
        raise ValueError(
            f"hidden_dim must be a multiple of 4 for a sine-cosine start, got {model.hidden_dim}"
        )
    frequency = 1 / 10_000 ** (torch.arange(width) / width)
    row, column = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    # (2, patches, width)
    angles = torch.stack([row.flatten(), column.flatten()])[..., None] * frequency
    waves = (
        torch.cat([angles.sin(), angles.cos()], dim=-1).transpose(0, 1).flatten(1)
    )  # (patches, 4 * width)
    waves = (waves - waves.mean()) / waves.std() * size
    embedding = model.encoder.pos_embedding
    embedding.zero_()
    embedding[0, -len(waves) :] = waves.to(embedding)


@torch.no_grad()
def accuracy_and_loss(
    model: nn.Module, loader: Iterable[tuple[Tensor, Tensor]]
) -> tuple[float, float]:
    """Accuracy and mean loss in nats, in eval mode; the modes are restored."""
    right: Tensor | float = 0
    loss: Tensor | float = 0
    count = 0
    with eval_mode(model):
        for images, labels in loader:
            logits = logits_of(model, images.to(next(model.parameters()).dtype)).float()
            right += (logits.argmax(dim=1) == labels).sum()
            loss += F.cross_entropy(logits, labels, reduction="sum")
            count += len(labels)
    return float(right) / count, float(loss) / count


def _save(
    folder: Path, state: dict[str, Any], history: list[dict[str, float]], writer: Any
) -> None:
    """Write checkpoint, metrics and curves; if the disk is full or read-only, warn and continue
    training."""
    content = {
        name: part.state_dict() if hasattr(part, "state_dict") else part
        for name, part in state.items()
    }
    content["history"] = history
    try:
        if state:
            write_atomic(
                folder / CHECKPOINT,
                lambda file: torch.save(content, file),
                before=folder / PREVIOUS,
            )
        write_text(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in history))
        if writer is not None:
            for name, value in history[-1].items():
                writer.add_scalar(name, value, len(history))
    except OSError as error:
        warnings.warn(
            f"after epoch {len(history)}: {error}. Training continues, and tries again",
            stacklevel=3,
        )


def _checkpoint(folder: Path | None) -> Path | None:
    """The newest checkpoint in a folder, or None."""
    paths = [folder / name for name in (CHECKPOINT, PREVIOUS)] if folder else []
    return next(filter(Path.exists, paths), None)


def _resume(
    folder: Path, state: dict[str, Any], settings: dict[str, Any], main: bool
) -> list[dict[str, float]]:
    """Load the newest intact checkpoint and return its history; on an error, nothing is changed."""
    problems = []
    for path in (folder / CHECKPOINT, folder / PREVIOUS):
        try:
            with zipfile.ZipFile(path) as archive:  # torch.load does not verify the checksums
                if archive.testzip() is not None:
                    raise zipfile.BadZipFile("a checksum is wrong")
            content = torch.load(path, map_location="cpu", weights_only=True)
            history = list(content["history"])
            break
        except Exception as error:  # torch.load raises many kinds
            if path.exists() or path.name == CHECKPOINT:
                problems.append(_not_resumed(path, error))
    else:
        raise WeightsError(
            f"{'; '.join(problems)}. Damaged, or no checkpoint: delete it, or name another run"
            " folder"
        )
    stored = content.get("settings", settings)
    changed = [
        f"{key} was {stored.get(key, 'not stored')}, is {settings.get(key)}"
        for key in sorted(stored | settings)
        if key not in FREE and stored.get(key) != settings.get(key)
    ]
    if changed:
        raise ValueError(
            f"{folder} contains a run with other settings ({'; '.join(changed)}): name another"
            " folder"
        )
    if len(history) > settings["epochs"]:
        raise ValueError(
            f"{path} has already run {len(history)} epochs; epochs must be at least that"
        )
    before = copy.deepcopy(state["model"].state_dict())
    try:
        for name, part in state.items():
            part.load_state_dict(content[name])
    except Exception as error:
        state["model"].load_state_dict(before)
        raise WeightsError(
            f"{_not_resumed(path, error)}. It belongs to another model: name another folder"
        ) from error
    if problems:
        warnings.warn(
            f"{problems[0]}: resuming from the one before it, after epoch {len(history)}",
            stacklevel=3,
        )
        if main:  # so that it does not become the previous one
            (folder / CHECKPOINT).unlink(missing_ok=True)
    return history


def _not_resumed(path: Path, error: Exception) -> str:
    return (
        f"{path} cannot be resumed from ({type(error).__name__}:"
        f" {str(error).partition(chr(10))[0]})"
    )
