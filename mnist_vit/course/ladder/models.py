"""Parts of the ladder's models: patches, one head, heads with a bug, layers on all pixels."""

import math
from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn

from ...model import MLPBlock

PATCH = 7
WIDTH = 64
Piece = Callable[..., nn.Module]


def to_patches(images: Tensor) -> Tensor:
    """(n, 1, h, w) -> (n, num_patches, 49)."""
    patches = images[:, 0].unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
    return patches.reshape(len(images), -1, PATCH * PATCH)


class OneHead(nn.Module):
    """A single head, as notebook 02 builds it, in the place of attention with one head.

    Nothing mixes its output.
    """

    def __init__(self, head: Piece, width: int) -> None:
        super().__init__()
        self.head = head(width, width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(query)  # self-attention: all three are the same tokens


class BrokenHead(nn.Module):
    """A head like notebook 02's, ``head(x) -> (output, weights)``, with one of the ``BUGS``."""

    BUGS = ("no bug", "no root", "softmax over queries", "w_q twice", "keys gathered")

    def __init__(self, bug: str, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(hidden_dim, head_dim)
        self.w_k = nn.Linear(hidden_dim, head_dim)
        self.w_v = nn.Linear(hidden_dim, head_dim)
        self.bug = bug

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = self.w_q(x)
        k = self.w_k(x)
        compared = q if self.bug == "w_q twice" else k
        scores = q @ compared.transpose(-2, -1)
        if self.bug != "no root":
            scores = scores / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-2 if self.bug == "softmax over queries" else -1)
        gathered = k if self.bug == "keys gathered" else self.w_v(x)
        return weights @ gathered, weights


class LinearInTheMiddle(MLPBlock):
    """The MLP block without its GELU: two linear layers, which are one."""

    def __init__(self, *sizes) -> None:
        super().__init__(*sizes)
        self[1] = nn.Identity()


def on_pixels(*widths: int) -> nn.Sequential:
    """Linear layers on all pixels at once, GELU between them: it knows places, and no patches."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.GELU()]
    return nn.Sequential(*layers[:-1])
