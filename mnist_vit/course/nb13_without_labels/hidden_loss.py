"""Exercise: the squared error on the hidden patches only."""

from torch import Tensor


def my_hidden_loss(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    # predicted, patches (n, num_patches, pixels), order (n, num_patches) -> a number
    error = (predicted - patches).square().mean(dim=2)
    return error.gather(1, order[:, keep:]).mean()
