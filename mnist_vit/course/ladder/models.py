"""The small models of the ladder, put together from pieces that are given as classes; ``None``
leaves a piece out."""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from ...model import MLPBlock, MultiHeadAttention

PATCH, WIDTH = 7, 64
Piece = Callable[..., nn.Module]


def to_patches(images: Tensor) -> Tensor:
    """(n, 1, h, w) -> (n, num_patches, 49)."""
    return (
        images[:, 0]
        .unfold(1, PATCH, PATCH)
        .unfold(2, PATCH, PATCH)
        .reshape(len(images), -1, PATCH * PATCH)
    )


class Block(nn.Module):
    """Attention, then the MLP. Shape: (n, tokens, width) -> (n, tokens, width)."""

    def __init__(
        self,
        width: int,
        attention: Piece | None = MultiHeadAttention,
        mlp: Piece = MLPBlock,
        norm: bool = True,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.self_attention = attention(width, 1) if attention else None
        self.mlp = mlp(width, 4 * width, 0.0)
        self.ln_1, self.ln_2 = (nn.LayerNorm(width) if norm else nn.Identity() for _ in range(2))
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        if self.self_attention is not None:
            y = self.ln_1(x)
            y = self.self_attention(y, y, y)[0]  # a pair comes back: output, weights
            x = x + y if self.residual else y
        y = self.mlp(self.ln_2(x))
        return x + y if self.residual else y


class PatchModel(nn.Module):
    """Patches, a linear layer, blocks, and a linear layer on the mean, the class token or the first
    patch.

    ``block`` replaces the blocks, ``encoder`` the positions and the blocks; else ``pieces`` are
    those of ``Block``. Shape: (n, 1, h, w) -> (n, classes).
    """

    def __init__(
        self,
        blocks: int,
        positions: bool = True,
        pool: str = "mean",
        length: int = 16,
        classes: int = 10,
        block: Piece | None = None,
        encoder: Piece | None = None,
        **pieces,
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(PATCH * PATCH, WIDTH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH)) if pool == "token" else None
        length += pool == "token"
        self.encoder = encoder(length, blocks, 1, WIDTH, 4 * WIDTH, 0.0, 0.0) if encoder else None
        if self.encoder is None:
            self.positions = (
                nn.Parameter(torch.randn(1, length, WIDTH) * 0.02) if positions else None
            )
            make = (
                (lambda: block(1, WIDTH, 4 * WIDTH, 0.0, 0.0))
                if block
                else (lambda: Block(WIDTH, **pieces))
            )
            self.blocks = nn.Sequential(*(make() for _ in range(blocks)))
            self.ln = nn.LayerNorm(WIDTH) if blocks and pieces.get("norm", True) else nn.Identity()
        self.head = nn.Linear(WIDTH, classes)
        self.pool = pool

    def tokens(self, images: Tensor) -> Tensor:
        """What the first block is given: (n, tokens, width)."""
        x = self.embed(to_patches(images))
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return x if self.encoder is not None or self.positions is None else x + self.positions

    def forward(self, images: Tensor) -> Tensor:
        x = self.tokens(images)
        x = self.ln(self.blocks(x)) if self.encoder is None else self.encoder(x)
        return self.head(x.mean(dim=1) if self.pool == "mean" else x[:, 0])


class OneHead(nn.Module):
    """A single head, as notebook 02 builds it, in the place of attention with one head; nothing
    mixes its output."""

    def __init__(self, head: Piece, width: int) -> None:
        super().__init__()
        self.head = head(width, width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(query)  # self-attention: all three are the same tokens


class BrokenHead(nn.Module):
    """A head like notebook 02's, ``head(x) -> (output, weights)``, with one of the bugs in
    ``BUGS``."""

    BUGS = ("no bug", "no root", "softmax over queries", "w_q twice", "keys gathered")

    def __init__(self, bug: str, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_q, self.w_k, self.w_v = (nn.Linear(hidden_dim, head_dim) for _ in range(3))
        self.bug = bug

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        scores = q @ (q if self.bug == "w_q twice" else k).transpose(-2, -1)
        scores = scores if self.bug == "no root" else scores / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-2 if self.bug == "softmax over queries" else -1)
        return weights @ (k if self.bug == "keys gathered" else v), weights


class LinearInTheMiddle(MLPBlock):
    """The MLP block without its GELU: two linear layers, which are one."""

    def __init__(self, *sizes) -> None:
        super().__init__(*sizes)
        self[1] = nn.Identity()


def on_pixels(*widths: int) -> nn.Sequential:
    """Linear layers on all pixels at once, GELU between them; positions are known, patches are
    not."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.GELU()]
    return nn.Sequential(*layers[:-1])
