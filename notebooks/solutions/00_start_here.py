"""Solutions of notebook 00, made from the sources of its checks by `python -m tools solutions`."""

import torch
import torch.nn.functional as F
from torch import Tensor


# exercise: gradient_step
def my_gradient_step(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    logits = F.linear(x, weight, bias)
    loss = F.cross_entropy(logits, labels)
    weight_gradient, bias_gradient = torch.autograd.grad(loss, (weight, bias))
    weight = weight - rate * weight_gradient
    bias = bias - rate * bias_gradient
    return weight, bias


# exercise: patch_size
def my_patch_size(image_size: int, budget: int) -> int:
    for size in range(1, image_size + 1):  # the smallest first
        if image_size % size == 0:
            side = image_size // size
            tokens = side * side + 1
            if tokens * tokens <= budget:
                return size
    return image_size


# exercise: patchify
def my_patchify(images, p):
    """(n, c, h, w) -> (n, h // p * (w // p), c * p * p)."""
    n, c, h, w = images.shape
    # every side in two axes: (n, c, patch row, row inside, patch column, column inside)
    x = images.reshape(n, c, h // p, p, w // p, p)
    # -> (n, patch row, patch column, c, row inside, column inside)
    x = x.permute(0, 2, 4, 1, 3, 5)
    return x.reshape(n, (h // p) * (w // p), c * p * p)
