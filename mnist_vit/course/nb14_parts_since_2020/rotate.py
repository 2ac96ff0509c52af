"""Exercise: turn pairs of numbers by an angle, as rotary positions do."""

import torch


def my_rotate(x, angles):
    # (..., seq_length, head_dim) and (seq_length, head_dim / 2) -> (..., seq_length, head_dim)
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return pairs.flatten(-2)
