"""The optimisation loop: AdamW, warm-up and cosine, weight average, checkpoints and resume."""

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from .files import WeightsError, write_atomic, write_json, write_text

__all__ = ["accuracy_and_loss", "fit", "sincos_positions"]


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

    Source: AdamW (Loshchilov & Hutter 2017, https://arxiv.org/abs/1711.05101); under ``torchrun`` the model is
    wrapped in PyTorch's DistributedDataParallel and the loader gives each process its share of a batch.
    """
    if epochs < 1 or checkpoint_every < 1:
        raise ValueError(f"epochs and checkpoint_every must be at least 1, got {epochs} and {checkpoint_every}")
    device = next(model.parameters()).device
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    parallel = nn.parallel.DistributedDataParallel(model) if world_size > 1 else model
    main = rank == 0

    steps = epochs * len(train_loader)
    optimizer = make_optimizer(model, learning_rate, weight_decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule(step, steps, warmup))
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(average))
    state = {"model": model, "averaged": averaged, "optimizer": optimizer, "scheduler": scheduler}
    history: list[dict[str, float]] = []

    folder = Path(run_dir) if run_dir is not None else None
    if folder is not None:
        if resume and (folder / "checkpoint.pth").is_file():
            history = _load_checkpoint(folder / "checkpoint.pth", state, epochs)
        if main:
            write_json(folder / "config.json", config or {})
            write_text(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in history))
    writer = _summary_writer(folder) if tensorboard and main else None

    for epoch in range(len(history), epochs):
        torch.manual_seed(seed * 1_000_003 + epoch)
        train_loader.set_epoch(epoch)
        before_epoch(epoch)
        start = time.perf_counter()
        parallel.train()
        total = torch.zeros(3, device=device)  # loss times images, right predictions, images
        bar = tqdm(train_loader, desc=f"epoch {epoch + 1}/{epochs}", leave=False, disable=None if main else True)
        for images, labels in bar:
            logits = parallel(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
            averaged.update_parameters(model)
            with torch.no_grad():
                right = (logits.argmax(dim=1) == labels).sum()
                total += torch.stack([loss.detach() * len(labels), right, right.new_tensor(len(labels))])
        if world_size > 1:
            torch.distributed.all_reduce(total)
        loss, right, count = total.tolist()

        validation_accuracy, validation_loss = accuracy_and_loss(averaged.module, validation_loader)
        row = {
            "epoch": epoch + 1,
            "loss": loss / count,
            "accuracy": right / count,
            "validation_loss": validation_loss,
            "validation_accuracy": validation_accuracy,
            "learning_rate": optimizer.param_groups[0]["lr"],
            "seconds": time.perf_counter() - start,
        }
        history.append(row)
        if main:
            tqdm.write(f"epoch {epoch + 1:3d}/{epochs}  loss {row['loss']:.4f}  "
                       f"validation accuracy {validation_accuracy:.2%}  {row['seconds']:.0f} s")  # fmt: skip
        if main and folder is not None:
            with open(folder / "metrics.jsonl", "a") as file:
                file.write(json.dumps(row) + "\n")
            if (epoch + 1) % checkpoint_every == 0 or epoch + 1 == epochs:
                _save_checkpoint(folder / "checkpoint.pth", state, history)
        if writer is not None:
            for name, value in row.items():
                writer.add_scalar(name, value, epoch + 1)

    if writer is not None:
        writer.close()
    model.load_state_dict(averaged.module.state_dict())
    return history


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
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.99))


@torch.no_grad()
def accuracy_and_loss(model: nn.Module, loader: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Share of right predictions, and mean loss in nats, in eval mode; the modes are put back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    right: Tensor | float = 0
    loss: Tensor | float = 0
    count = 0
    for images, labels in loader:
        logits = model(images)
        right += (logits.argmax(dim=1) == labels).sum()
        loss += F.cross_entropy(logits, labels, reduction="sum")
        count += len(labels)
    for module, mode in modes:
        module.training = mode
    return float(right) / count, float(loss) / count


@torch.no_grad()
def sincos_positions(model: nn.Module, size: float = 0.04) -> None:
    """Start the position embedding as sines and cosines of row and column instead of noise.

    Half of the numbers of a token tell its row and half its column, from fast waves to slow ones; the class token's
    are 0. This is a start only: training goes on to change it.

    Args:
        model: a Vision Transformer whose hidden_dim is a multiple of 4.
        size: standard deviation of the embedding; torchvision's random start has 0.02.

    Source: Chen, Xie & He 2021, https://arxiv.org/abs/2104.02057; the waves are those of Vaswani et al. 2017, 3.5.
    """
    grid = model.image_size // model.patch_size
    width = model.hidden_dim // 4
    if model.hidden_dim % 4:
        raise ValueError(f"hidden_dim must be a multiple of 4 for a sine-cosine start, got {model.hidden_dim}")
    frequency = 1 / 10_000 ** (torch.arange(width) / width)
    row, column = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    angles = torch.stack([row.flatten(), column.flatten()])[..., None] * frequency  # (2, patches, width)
    waves = torch.cat([angles.sin(), angles.cos()], dim=-1)  # (2, patches, 2 * width)
    waves = torch.cat([waves[0], waves[1]], dim=-1)
    waves = (waves - waves.mean()) / waves.std() * size
    embedding = model.encoder.pos_embedding
    embedding.zero_()
    embedding[0, 1:] = waves.to(embedding)


def _save_checkpoint(path: Path, state: dict[str, Any], history: list[dict[str, float]]) -> None:
    content = {name: part.state_dict() for name, part in state.items()} | {"history": history}
    write_atomic(path, lambda file: torch.save(content, file))


def _load_checkpoint(path: Path, state: dict[str, Any], epochs: int) -> list[dict[str, float]]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in state.items():
            part.load_state_dict(content[name])
    except Exception as error:
        raise WeightsError(f"{path} cannot be resumed from ({type(error).__name__}: {error}). It belongs to another "
                           "model or was damaged: delete it, or name another run folder") from error  # fmt: skip
    if len(content["history"]) > epochs:
        raise ValueError(f"{path} has already run {len(content['history'])} epochs; epochs must be at least that")
    return content["history"]


def _summary_writer(folder: Path | None) -> Any:
    if folder is None:
        raise ValueError("tensorboard=True needs a run_dir to write to")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError('TensorBoard is not installed: pip install "mnist-vit[course]"') from error
    return SummaryWriter(str(folder))
