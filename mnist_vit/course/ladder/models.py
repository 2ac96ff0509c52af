"""The small models of the ladder, put together from pieces that are given as classes.

``None`` leaves a piece out.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from ...model import MLPBlock, MultiHeadAttention

PATCH = 7
WIDTH = 64
Piece = Callable[..., nn.Module]


def to_patches(images: Tensor) -> Tensor:
    """(n, 1, h, w) -> (n, num_patches, 49)."""
    patches = images[:, 0].unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
    return patches.reshape(len(images), -1, PATCH * PATCH)


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
        self.ln_1 = layer_norm(norm)(width)
        self.ln_2 = layer_norm(norm)(width)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        if self.self_attention is not None:
            y = self.ln_1(x)
            y, _ = self.self_attention(y, y, y)
            x = self._added(x, y)
        return self._added(x, self.mlp(self.ln_2(x)))

    def _added(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if self.residual else y


class PatchModel(nn.Module):
    """Patches, a linear layer, blocks, and a linear layer on what is pooled.

    Shape: (n, 1, h, w) -> (n, classes).

    Args:
        blocks: their number.
        positions: whether position embeddings are added.
        pool: "mean" of the tokens, class "token", or "first" patch.
        length: the number of patches.
        classes: the number of classes.
        block: replaces the blocks.
        encoder: replaces the positions and the blocks.
        pieces: those of ``Block``.
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
        self.class_token = None
        self.positions = None
        self.encoder = None
        if pool == "token":
            self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
            length += 1
        if encoder is not None:
            self.encoder = encoder(length, blocks, 1, WIDTH, 4 * WIDTH, 0.0, 0.0)
        else:
            if positions:
                self.positions = nn.Parameter(torch.randn(1, length, WIDTH) * 0.02)
            self.blocks = nn.Sequential()
            for _ in range(blocks):
                self.blocks.append(
                    block(1, WIDTH, 4 * WIDTH, 0.0, 0.0) if block else Block(WIDTH, **pieces)
                )
            has_norm = blocks > 0 and pieces.get("norm", True)
            self.ln = layer_norm(has_norm)(WIDTH)
        self.head = nn.Linear(WIDTH, classes)
        self.pool = pool

    def tokens(self, images: Tensor) -> Tensor:
        """What the first block, or the encoder, is given: (n, tokens, width)."""
        x = self.embed(to_patches(images))
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        if self.positions is not None:
            x = x + self.positions
        return x

    def forward(self, images: Tensor) -> Tensor:
        x = self.tokens(images)
        x = self.ln(self.blocks(x)) if self.encoder is None else self.encoder(x)
        if self.pool == "mean":
            return self.head(x.mean(dim=1))
        return self.head(x[:, 0])


def layer_norm(wanted: bool) -> Piece:
    """The class of the norms, or of layers that do nothing in their place."""
    return nn.LayerNorm if wanted else nn.Identity


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
