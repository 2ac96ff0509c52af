"""The optimisation loop: warm-up and cosine, gradient clipping, an average of the weights."""

import copy
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from .console import progress, say
from .data import Loader
from .forward import eval_mode, logits_of
from .optimizers import make_optimizer, make_optimizers
from .options import make
from .recipe import Optimisation
from .runs import RunFolder

__all__ = ["accuracy_and_loss", "fit", "make_optimizer", "sincos_positions"]

WARMUP = 0.15  # the share of the steps in which the learning rate rises
CLIP = 1.0  # the largest norm of the gradient


def fit(
    model: nn.Module,
    train_loader: Loader,
    validation_loader: Iterable[tuple[Tensor, Tensor]],
    *,
    recipe: Optimisation | None = None,
    before_epoch: Callable[[int], None] = lambda epoch: None,
    run_dir: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    tensorboard: bool = False,
    config: dict[str, Any] | None = None,
    **settings: Any,
) -> list[dict[str, float]]:
    """Train ``model`` in place; it then holds the averaged weights, also after an error or Ctrl-C.

    Args:
        model: any nn.Module from images to logits, float32 or float64, on its device.
        train_loader: a ``data.Loader``, or any batches of (images, labels) with ``len`` and
            ``set_epoch``.
        validation_loader: batches to evaluate on after each epoch.
        recipe: the settings of the optimisation; default: those of ``settings``, keywords such as
            ``epochs=3``, see ``recipe.Optimisation``.
        before_epoch: called with the number of each epoch, from 0, before it starts.
        run_dir: folder for config.json, metrics.jsonl, the last two checkpoints and TensorBoard's
            files, or None.
        checkpoint_every, resume, tensorboard: see ``jobs.train``.
        config: further settings, stored in config.json and compared when the run is resumed.

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
    recipe = recipe or make(Optimisation, "fit", **settings)
    fixed = {"batches": len(train_loader), "warmup": WARMUP, "clip": CLIP}
    folder = RunFolder(
        run_dir,
        fixed | recipe.optimisation() | (config or {}),
        writes=_rank() == 0,
        checkpoint_every=checkpoint_every,
        tensorboard=tensorboard,
    )
    folder.check(resume)
    learner = Learner(model, recipe, batches=len(train_loader))
    with folder.opened(), eval_mode(model):
        history = folder.begin(learner.state(), resume)
        try:
            for epoch in range(len(history), recipe.epochs):
                torch.manual_seed(recipe.seed * 1_000_003 + epoch)
                train_loader.set_epoch(epoch)
                before_epoch(epoch)
                row = learner.epoch(epoch, train_loader, validation_loader)
                if not math.isfinite(row["loss"] + row["validation_loss"]):
                    raise ValueError(_diverged(row, recipe.learning_rate, folder.checkpoint))
                history.append(row)
                folder.save(learner.state(), history)
                if folder.writes and _is_told(epoch + 1, recipe.epochs):
                    say(_line(row, recipe.epochs))
        except KeyboardInterrupt:
            if folder.writes:
                say(f"stopped after {len(history)} of {recipe.epochs} epochs. {folder.remedy()}")
            raise
        finally:
            model.load_state_dict(learner.averaged.state_dict())
            folder.close()
    return history


class Learner:
    """A model in training, with its optimizers and the moving average of its weights."""

    def __init__(self, model: nn.Module, recipe: Optimisation, batches: int) -> None:
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ValueError(f"{type(model).__name__} has no parameters that can be trained")
        kind = next(model.parameters()).dtype
        if kind not in (torch.float32, torch.float64):
            raise ValueError(
                f"the parameters are {kind}, which loses small updates: train model.float(), then"
                " convert it"
            )
        self.model = model
        self.recipe = recipe
        self.batches = batches  # in an epoch
        self.several = _processes() > 1
        self.parallel = nn.parallel.DistributedDataParallel(model) if self.several else model
        self.optimizers = make_optimizers(
            model, recipe.optimizer, recipe.learning_rate, recipe.weight_decay
        )
        self.averaged = copy.deepcopy(model)

    def state(self) -> dict[str, Any]:
        """The parts of a checkpoint."""
        return {"model": self.model, "averaged": self.averaged, **self.optimizers}

    def epoch(
        self,
        epoch: int,
        train_loader: Loader,
        validation_loader: Iterable[tuple[Tensor, Tensor]],
    ) -> dict[str, float]:
        """Train on all batches and evaluate the averaged weights; returns the row of the epoch."""
        start = time.perf_counter()
        cpu = time.process_time()
        title = f"epoch {epoch + 1}/{self.recipe.epochs}"
        with progress(train_loader, _rank() == 0, desc=title) as batches:
            total = self.train_on(batches, first_step=epoch * self.batches)
        if self.several:
            torch.distributed.all_reduce(total)
        loss, right, count = total.tolist()
        validation_accuracy, validation_loss = accuracy_and_loss(self.averaged, validation_loader)
        return {
            "epoch": epoch + 1,
            "loss": loss / count,
            "accuracy": right / count,
            "validation_loss": validation_loss,
            "validation_accuracy": validation_accuracy,
            "learning_rate": self.learning_rate((epoch + 1) * self.batches),
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
        }

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        steps = self.recipe.epochs * self.batches
        return self.recipe.learning_rate * schedule(step, steps, WARMUP)

    def train_on(self, batches: Iterable[tuple[Tensor, Tensor]], first_step: int) -> Tensor:
        """Make one step per batch.

        Returns the sums of losses, correct predictions and images, (3,), on the device, so that no
        step waits for a copy.
        """
        self.parallel.train()
        parameter = next(self.model.parameters())
        total = torch.zeros(3, device=parameter.device)
        smoothing = self.recipe.label_smoothing
        for step, (images, labels) in enumerate(batches, start=first_step):
            logits = logits_of(self.parallel, images.to(parameter.dtype))
            loss = F.cross_entropy(logits, labels, label_smoothing=smoothing)
            if not loss.requires_grad:
                raise ValueError(
                    "no gradient flows from the logits to a parameter: all are frozen, or the model"
                    " uses detach() or torch.no_grad()"
                )
            self.parallel.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parallel.parameters(), CLIP)
            self.step_with(self.learning_rate(step))
            # the first step copies the weights: the average does not contain the start values
            follow(self.averaged, self.model, self.recipe.average if step > 0 else 0.0)
            with torch.no_grad():
                right = (logits.argmax(dim=1) == labels).sum()
                count = right.new_full((), len(labels))
                total += torch.stack([loss.detach() * len(labels), right, count])
        return total

    def step_with(self, learning_rate: float) -> None:
        """Let each optimizer make its step."""
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()


def _is_told(epoch: int, epochs: int) -> bool:
    """Whether a line is printed after this epoch, counted from 1: at most about 100 are."""
    return epoch % math.ceil(epochs / 100) == 0 or epoch in (1, epochs)


def _line(row: dict[str, float], epochs: int) -> str:
    """The line that is printed after an epoch."""
    return (
        f"epoch {row['epoch']:3d}/{epochs}  loss {row['loss']:.4f}  "
        f"validation accuracy {row['validation_accuracy']:.2%}  {row['seconds']:.0f} s"
    )


def _diverged(row: dict[str, float], learning_rate: float, checkpoint: Path | None) -> str:
    kept = f". {checkpoint} contains the epochs before" if checkpoint else ""
    return (
        f"epoch {row['epoch']}: the loss is {row['loss']}, the validation loss"
        f" {row['validation_loss']}: training diverged. Start again with a new model, a smaller"
        f" learning_rate than {learning_rate}, and no NaN in the images{kept}"
    )


def _rank() -> int:
    """The number of this process, 0 if it is the only one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return 0


def _processes() -> int:
    """The number of processes that train together."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return 1


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
    those of the tokens before the patches are 0. This is a start only: training goes on to change
    it. ``size`` is the standard deviation of the embedding; torchvision's random start has 0.02.

    Source: Chen, Xie & He 2021, https://arxiv.org/abs/2104.02057; the waves are those of Vaswani et
    al. 2017, section 3.5.
    """
    embedding = model.encoder.pos_embedding
    _, tokens, hidden_dim = embedding.shape
    if hidden_dim % 4:
        raise ValueError(
            f"hidden_dim must be a multiple of 4 for a sine-cosine start, got {hidden_dim}"
        )
    # The grid is square, and at most one token stands before the patches.
    waves = _waves(math.isqrt(tokens), hidden_dim // 4)
    waves = (waves - waves.mean()) / waves.std() * size
    embedding.zero_()
    embedding[0, -len(waves) :] = waves.to(embedding)


def _waves(grid: int, width: int) -> Tensor:
    """Sines and cosines of each patch's row and column, (grid * grid, 4 * width)."""
    frequency = 1 / 10_000 ** (torch.arange(width) / width)
    row, column = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    place = torch.stack([row.flatten(), column.flatten()])
    # (2, patches, 1) * (width) -> (2, patches, width)
    angles = place[..., None] * frequency
    # (2, patches, 2 * width) -> (patches, 4 * width)
    waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return waves.transpose(0, 1).flatten(1)


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
