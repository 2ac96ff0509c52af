"""Exercise: the angles of rotary positions in two dimensions."""

import torch


def my_angles(n_h, n_w, head_dim, step=1.0):
    # -> (n_h * n_w, head_dim / 2), row by row
    bands = head_dim // 4
    speed = 100.0 ** -(torch.arange(bands) / bands)
    row = step * torch.arange(n_h).repeat_interleave(n_w)
    column = step * torch.arange(n_w).repeat(n_h)
    return torch.cat([row[:, None] * speed, column[:, None] * speed], dim=1)
