"""Which token is which, and where a patch stands.

The class token comes first and the patches last, row by row: patch (row, column) is token
``seq_length - n_h * n_w + row * n_w + column``. Other tokens, if any, stand between them.
"""

import math

import torch
from torch import Tensor, nn

__all__ = ["CLASS_TOKEN", "patch_grid", "pools_patches", "sincos_positions"]

CLASS_TOKEN = 0


def patch_grid(tokens: int, height: int = 0, width: int = 0) -> tuple[int, int]:
    """Rows and columns of the patch grid, given the number of tokens.

    Without the picture's size, the grid is the square one after the class token. Given the
    picture's size in pixels, it works for any model: patches are the smallest squares that cut the
    picture into at most ``tokens`` patches. The other tokens, if any, come first: class token,
    distillation token, registers.
    """
    for size in range(1, height + 1):
        n_h, n_w = height // size, width // size
        divides = height % size == width % size == 0
        if divides and n_h * n_w <= tokens:
            return n_h, n_w
    side = math.isqrt(max(tokens - 1, 0))
    if height == 0 and side > 0 and side**2 == tokens - 1:
        return side, side
    raise ValueError(
        f"need 1 + a square number of tokens, got {tokens}: for others give grid=(rows, columns)"
    )


def pools_patches(model: nn.Module, prefix: int) -> bool:
    """Whether the class head uses the mean of the patches.

    It does if no token precedes them (``prefix`` is 0), or if the model's ``pool`` or
    ``global_pool`` says so.
    """
    pool = getattr(model, "pool", getattr(model, "global_pool", ""))
    return prefix == 0 or pool in ("mean", "avg")


@torch.no_grad()
def sincos_positions(model: nn.Module, size: float = 0.04) -> None:
    """Start the position embedding as sines and cosines of row and column instead of noise.

    Half of the numbers of a token tell its row and half its column, from fast waves to slow ones;
    those of the tokens before the patches are 0. This is a start only: training goes on to change
    it. ``size`` is the standard deviation of the embedding; torchvision's random start has 0.02.

    Source: Chen, Xie & He 2021, https://arxiv.org/abs/2104.02057; the waves are those of Vaswani et
    al. 2017, section 3.5.
    """
    if model.hidden_dim % 4:
        raise ValueError(
            f"hidden_dim must be a multiple of 4 for a sine-cosine start, got {model.hidden_dim}"
        )
    waves = _waves(model.image_size // model.patch_size, model.hidden_dim // 4)
    waves = (waves - waves.mean()) / waves.std() * size
    embedding = model.encoder.pos_embedding
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
