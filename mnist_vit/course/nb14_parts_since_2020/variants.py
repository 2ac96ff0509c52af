"""The models of notebook 14: the plain one, with registers, and with rotary positions; and digits
on a larger canvas."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...model import Encoder, MultiHeadAttention, VisionTransformer
from ...training import sincos_positions
from ..nb05_encoder.resize_positions import my_resize_positions
from .rotate import my_rotate

PATCH = 7
GRID = 4
REGISTERS = 4
LARGE_GRID = 6
LARGE = LARGE_GRID * PATCH  # pixels


def angles_2d(n_h: int, n_w: int, head_dim: int, step: float = 1.0) -> Tensor:
    """The angle of each pair of numbers, for each patch: (n_h * n_w, head_dim / 2).

    The first half of the pairs turns with the row, the second with the column, each pair at a speed
    of its own, from 1 radian a patch down. Source: Heo et al. 2024,
    https://arxiv.org/abs/2403.13298, the axial variant, whose slowest speed comes from 100, too.
    """
    bands = head_dim // 4
    speed = 100.0 ** -(torch.arange(bands) / bands)
    row = step * torch.arange(n_h).repeat_interleave(n_w)
    column = step * torch.arange(n_w).repeat(n_h)
    return torch.cat([row[:, None] * speed, column[:, None] * speed], dim=1)


class RotaryAttention(MultiHeadAttention):
    """Attention whose queries and keys are turned by the place of their patch.

    ``angles`` are (n_h * n_w, head_dim / 2); the tokens before the patches are not turned.
    """

    def __init__(self, embed_dim: int, num_heads: int, angles: Tensor) -> None:
        super().__init__(embed_dim, num_heads)
        self.register_buffer("angles", angles, persistent=False)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        projected = F.linear(query, self.in_proj_weight, self.in_proj_bias)
        q, k, v = (self._split_heads(part) for part in projected.chunk(3, dim=-1))
        scores = self._turned(q) @ self._turned(k).transpose(-2, -1)
        weights = (scores / math.sqrt(self.head_dim)).softmax(dim=-1)
        x = self.out_proj((weights @ v).transpose(1, 2).reshape(query.shape))
        if not need_weights:
            return x, None
        return x, weights.mean(dim=1) if average_attn_weights else weights

    def _turned(self, x: Tensor) -> Tensor:
        """Turn the patches, the last tokens. Shape: (n, num_heads, seq_length, head_dim)."""
        before = x.shape[2] - len(self.angles)
        return torch.cat([x[:, :, :before], my_rotate(x[:, :, before:], self.angles)], dim=2)


class RegisterEncoder(Encoder):
    """An encoder with registers, which nobody outside of it sees: they come in and leave here."""

    def __init__(self, *sizes: Any, registers: int = REGISTERS, **options: Any) -> None:
        super().__init__(*sizes, **options)
        noise = torch.randn(1, registers, self.pos_embedding.shape[2])
        self.register_tokens = nn.Parameter(0.02 * noise)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(x + self.pos_embedding)
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        x = self.ln(self.layers(x))
        return torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)


def plain(grid: int = GRID) -> VisionTransformer:
    """The base, for pictures of so many patches a side; its positions start as waves."""
    model = VisionTransformer(grid * PATCH, PATCH, 2, 2, 64, 256, num_classes=10, in_channels=1)
    sincos_positions(model, 2.0)
    return model


def with_registers(grid: int = GRID) -> VisionTransformer:
    """The base with four registers; without them it is the base, number for number."""
    model = plain(grid)
    give_registers(model, RegisterEncoder)
    return model


def give_registers(model: VisionTransformer, kind: type[nn.Module]) -> None:
    """Put an encoder with registers in the place of the encoder; it gets the same numbers."""
    old: Encoder = model.encoder
    new: Any = kind(old.pos_embedding.shape[1], 2, 2, 64, 256, 0.0, 0.0, registers=REGISTERS)
    new.load_state_dict(old.state_dict(), strict=False)
    model.encoder = new


def rotary(grid: int = GRID, step: float = 1.0) -> VisionTransformer:
    """The base without a position embedding: attention turns queries and keys.

    ``step`` is the distance of neighbouring patches: 1 where they are as far apart as in training.
    """
    model = plain(grid)
    model.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 1, 64), requires_grad=False)
    turn(model, angles_2d(grid, grid, 32, step))
    return model


def turn(model: VisionTransformer, angles: Tensor, kind: type[nn.Module] = RotaryAttention) -> None:
    """Give all blocks attention that turns, with the weights that they have."""
    for block in model.encoder.layers:
        old = block.self_attention
        block.self_attention = kind(old.embed_dim, old.num_heads, angles)
        block.self_attention.load_state_dict(old.state_dict())


BUILD = {"plain": plain, "registers": with_registers, "rotary": rotary}


# ---- pictures of another size ----


def on_canvas(images: Tensor, where: str, blank: float) -> Tensor:
    """Digits of 28 pixels on a canvas of 42: (n, 1, 28, 28) -> (n, 1, 42, 42).

    ``where`` is "middle" or "corner", at the scale they have, or "scaled", as large as the canvas.
    ``blank`` is the colour of the rest. The digit begins where a patch begins.
    """
    if where == "scaled":
        return F.interpolate(images, size=(LARGE, LARGE), mode="bilinear", antialias=True)
    more = LARGE - images.shape[-1]
    before = {"middle": more // 2, "corner": more}[where]
    return F.pad(images, (before, more - before, before, more - before), value=blank)


def larger(model: VisionTransformer, how: str) -> VisionTransformer:
    """A trained plain model for the large canvas. ``how`` its positions are made is a choice:

    "interpolated": the grid of positions is stretched; "extended": it keeps its scale, in the
    middle, and its edge is repeated outwards.
    """
    state = dict(model.state_dict())
    old = state["encoder.pos_embedding"]
    way = {"interpolated": my_resize_positions, "extended": extended}[how]
    found = plain(LARGE_GRID)
    found.load_state_dict(state | {"encoder.pos_embedding": way(old, LARGE_GRID)})
    return found.eval()


def extended(positions: Tensor, grid: int) -> Tensor:
    """(1, 1 + 4 * 4, d) -> (1, 1 + grid * grid, d), by repeating the edge outwards."""
    patches = positions[:, 1:]
    side = math.isqrt(patches.shape[1])
    maps = patches.transpose(1, 2).reshape(1, -1, side, side)
    more = (grid - side) // 2
    maps = F.pad(maps, (more, more, more, more), mode="replicate")
    return torch.cat([positions[:, :1], maps.flatten(2).transpose(1, 2)], dim=1)


def larger_rotary(model: VisionTransformer, step: float) -> VisionTransformer:
    """A trained rotary model for the large canvas, its patches so far apart."""
    found = rotary(LARGE_GRID, step)
    found.load_state_dict(model.state_dict())
    return found.eval()
