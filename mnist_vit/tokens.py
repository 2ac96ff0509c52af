"""Which token is which: the class token comes first, then the patches, row by row; and where a
patch stands."""

import math

from torch import nn

__all__ = ["CLASS_TOKEN", "PATCHES", "patch_grid", "pools_patches"]

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
