"""Solutions of notebook 13, made from the sources of its checks by `python -m tools solutions`."""

import torch
from torch import Tensor


# exercise: hidden_loss
def my_hidden_loss(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    # predicted, patches: (n, num_patches, pixels), order: (n, num_patches) -> a number
    error = (predicted - patches).square().mean(dim=2)
    return error.gather(1, order[:, keep:]).mean()


# exercise: mask
def my_mask(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    # tokens: (n, num_patches, hidden_dim), noise: (n, num_patches)
    # -> visible: (n, keep, hidden_dim), order: (n, num_patches)
    order = noise.argsort(dim=1)
    first = order[:, :keep, None].expand(-1, -1, tokens.shape[2])
    return tokens.gather(1, first), order


# exercise: put_back
def my_put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    # visible: (n, keep, width), mask_token: (1, 1, width), order: (n, num_patches)
    # -> (n, num_patches, width)
    n, keep, width = visible.shape
    hidden = mask_token.expand(n, order.shape[1] - keep, -1)
    shuffled = torch.cat([visible, hidden], dim=1)
    place = order.argsort(dim=1)
    return shuffled.gather(1, place[:, :, None].expand(-1, -1, width))
