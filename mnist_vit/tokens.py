"""Which token is which, and where a patch stands.

The class token comes first and the patches last, row by row: patch (row, column) is token
``seq_length - n_h * n_w + row * n_w + column``. Other tokens, if any, stand between them.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .devices import place
from .forward import check_images, eval_mode

__all__ = ["CLASS_TOKEN", "patch_grid", "pools_patches"]

CLASS_TOKEN = 0


@torch.no_grad()
def patch_grid(model: nn.Module, images: Tensor) -> tuple[int, int]:
    """Rows and columns of the patches that the model cuts these images into, (n, c, h, w).

    It is the size of what the model's convolutions make of an image, in a forward pass of the
    first, if they all make the same; else what ``model.image_size`` and ``model.patch_size`` tell.
    It is never guessed from the number of tokens: ValueError if the model does not tell it.
    """
    check_images(images)
    with eval_mode(model), _Convolutions() as seen:
        model(images[:1].to(**place(model)))
    made = seen.made
    if len(set(made)) == 1:
        return made[0]
    size, patch = getattr(model, "image_size", None), getattr(model, "patch_size", None)
    if isinstance(size, int) and isinstance(patch, int) and images.shape[-2:] == (size, size):
        side = size // patch
        if seen.unfolded in (0, side**2):
            return side, side
    raise ValueError(
        f"how {type(model).__name__} cuts {tuple(images.shape[-2:])} pixels into patches is not"
        f" known: it has {len(made)} convolutions, and no image_size and patch_size of these"
        " images. Give grid=(rows, columns)"
    )


class _Convolutions(TorchDispatchMode):
    """Keeps rows and columns of what each convolution makes, and how many patches F.unfold cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[int, int]] = []
        self.unfolded = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if "conv" in function.name() and isinstance(result, Tensor) and result.dim() == 4:
            self.made.append((result.shape[2], result.shape[3]))
        elif "im2col" in function.name():
            self.unfolded = result.shape[-1]
        return result


def pools_patches(model: nn.Module, prefix: int) -> bool:
    """Whether the class head uses the mean of the patches.

    It does if no token precedes them (``prefix`` is 0), or if the model's ``pool`` or
    ``global_pool`` says so.
    """
    pool = getattr(model, "pool", getattr(model, "global_pool", ""))
    return prefix == 0 or pool in ("mean", "avg")
