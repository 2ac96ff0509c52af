"""Which token is which: the class token comes first, then the patches, row by row; and where a
patch stands."""

import math

import torch
from torch import nn

__all__ = ["CLASS_TOKEN", "PATCHES", "patch_grid", "pools_patches", "sincos_positions"]

CLASS_TOKEN = 0
PATCHES = slice(1, None)  # patch (row, column) is token 1 + row * n_w + column


def patch_grid(tokens: int, height: int = 0, width: int = 0) -> tuple[int, int]:
    """Rows and columns of the patch grid, given the number of tokens: a square grid after the class
    token.

    Given the picture's size in pixels, it works for any model: patches are the smallest squares
    that cut the picture into at most ``tokens`` patches. The other tokens, if any, come first:
    class token, distillation token, registers.
    """
    side = math.isqrt(max(tokens - 1, 0))
    sizes = [size for size in range(1, height + 1) if height % size == width % size == 0]
    grids = [(height // size, width // size) for size in sizes] or [(side, side)] * (
        side**2 == tokens - 1
    )
    fitting = [(n_h, n_w) for n_h, n_w in grids if n_h * n_w <= tokens]
    if not fitting:
        raise ValueError(
            f"need 1 + a square number of tokens, got {tokens}: for others give grid=(rows,"
            " columns)"
        )
    return fitting[0]


def pools_patches(model: nn.Module, prefix: int) -> bool:
    """Whether the class head uses the mean of the patches: nothing precedes them, or
    ``(global_)pool`` says so."""
    return prefix == 0 or getattr(model, "pool", getattr(model, "global_pool", "")) in (
        "mean",
        "avg",
    )


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
    embedding[0, PATCHES] = waves.to(embedding)
