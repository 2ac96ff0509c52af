"""Exercise: a token for each patch again, in reading order."""

import torch
from torch import Tensor


def my_put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    # visible (n, keep, width), mask_token (1, 1, width), order (n, num_patches)
    # -> (n, num_patches, width)
    n, keep, width = visible.shape
    hidden = mask_token.expand(n, order.shape[1] - keep, -1)
    x = torch.cat([visible, hidden], dim=1)
    back = order.argsort(dim=1)
    return x.gather(1, back[:, :, None].expand(-1, -1, width))
