"""A forward pass of any model: its logits, and eval mode with all modes restored."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = [
    "check_images",
    "eval_mode",
    "has_class_head",
    "images_at_once",
    "logits_of",
    "try_once",
]

_LOCK = threading.Lock()
# The mode of each module before, and how many threads evaluate it at present.
_EVALUATED: dict[nn.Module, list] = {}


def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    """The model's logits; models of Hugging Face return them in an object with other results."""
    output = model(images)
    return getattr(output, "logits", output)


def images_at_once(model: nn.Module) -> int:
    """Images in a forward pass without gradients: those of about 10,000 tokens, 250 at most.

    On a CPU, memory of larger activations goes back to the system after each operation, and is
    fetched again page by page: half of the time for 250 images of 197 tokens (``vit_mnist``).
    """
    tokens = getattr(model, "seq_length", None)
    if not isinstance(tokens, int) or tokens < 1:
        return 50
    return min(250, max(1, 10_000 // tokens))


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode in the ``with`` block; then, however it ends, each module's mode is as it was.

    Of several threads with one model, the last puts the modes back.
    """
    modules = list(model.modules())
    with _LOCK:
        for module in modules:
            _EVALUATED.setdefault(module, [module.training, 0])[1] += 1
        model.eval()
    try:
        yield
    finally:
        with _LOCK:
            for module in modules:
                _EVALUATED[module][1] -= 1
                if _EVALUATED[module][1] == 0:
                    module.training = _EVALUATED.pop(module)[0]


def has_class_head(model: nn.Module, images: Tensor) -> bool:
    """Whether the model gives logits; an encoder alone does not.

    Such are models of timm with ``num_classes=0``, and those of Hugging Face without a head.
    """
    if getattr(model, "num_classes", None) == 0:
        return False
    return isinstance(_tried(model, images), Tensor)


def _tried(model: nn.Module, images: Tensor) -> Tensor:
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), eval_mode(model):
            return logits_of(model, images)
    except AssertionError as error:  # torch._assert: what a model says of its input
        raise ValueError(f"the model does not take these images: {error}") from error


def try_once(model: nn.Module, images: Tensor, classes: int) -> Tensor:
    """Run a forward pass before training or writing; returns its logits.

    ValueError unless there is one for each class. A model that has 0 classes may return anything.
    """
    logits = _tried(model, images)
    if classes == 0:
        return images.new_empty(len(images), 0)
    got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if got != (len(images), classes):
        raise ValueError(
            f"the model must return logits (n, {classes}): for {tuple(images.shape)} it returns"
            f" {got}. Give a model with such a class head, or the names of this model's classes"
            " (classes=() for attention maps of a model that has none)"
        )
    return logits


def check_images(images: Tensor) -> None:
    """Raise ValueError unless these are images as a model takes them, (n, c, h, w)."""
    needed = (
        "images must be floats (n, c, h, w), n at least 1, normalised as the model wants them "
        "(data.normalise)"
    )
    if not isinstance(images, Tensor):
        raise ValueError(f"{needed}, got {type(images).__name__}; for one image: images[None]")
    if images.dim() != 4 or len(images) == 0 or not images.is_floating_point():
        got = f"{images.dtype} {tuple(images.shape)}"
        raise ValueError(f"{needed}, got {got}; for one image: images[None]")
    if images.is_meta:
        raise ValueError(f"{needed}, got images of the meta device, which hold no numbers")
    if not images.isfinite().all():
        raise ValueError(
            "images hold nan or infinite numbers: look for a division by zero where they were made"
        )
