"""Exercise: keep a few patches of each picture, chosen by random numbers."""

from torch import Tensor


def my_mask(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    # tokens (n, num_patches, hidden_dim), noise (n, num_patches)
    # -> visible (n, keep, hidden_dim), order (n, num_patches)
    order = noise.argsort(dim=1)
    index = order[:, :keep, None].expand(-1, -1, tokens.shape[2])
    return tokens.gather(1, index), order
