"""Which token is which, and where a patch stands.

The class token comes first and the patches last, row by row: patch (row, column) is token
``seq_length - n_h * n_w + row * n_w + column``. Other tokens, if any, stand between them.
"""

import math

from torch import nn

__all__ = ["CLASS_TOKEN", "patch_grid", "pools_patches"]

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
