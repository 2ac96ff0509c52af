"""Solutions of notebook 14, made from the sources of its checks by `python -m tools solutions`."""

import torch
import torch.nn.functional as F


# exercise: outliers
def my_outliers(tokens, num_patches):
    # (n, seq_length, hidden_dim) -> (n,) ratios, (n,) numbers of patches
    patches = tokens[:, -num_patches:]
    norms = patches.norm(dim=2)
    largest, where = norms.max(dim=1)
    middle = norms.median(dim=1).values
    return largest / middle, where


# exercise: rms_norm
def my_rms_norm(x, weight, eps):
    # (n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x / (mean_square + eps).sqrt() * weight


# exercise: rotate
def my_rotate(x, angles):
    # (..., seq_length, head_dim), (seq_length, head_dim / 2) -> (..., seq_length, head_dim)
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    turned = [a * cos - b * sin, a * sin + b * cos]
    # (..., seq_length, head_dim / 2, 2) -> (..., seq_length, head_dim)
    return torch.stack(turned, dim=-1).flatten(-2)


# exercise: shares
def my_shares(weights, is_blank):
    # (n, num_layers, num_heads, seq_length, seq_length), (n, num_patches) -> (n,), (n,)
    count = is_blank.shape[1]
    row = weights[:, -1, :, 0].mean(dim=1)
    on_registers = row[:, 1:-count].sum(dim=1)
    on_blank = (row[:, -count:] * is_blank).sum(dim=1)
    return on_registers, on_blank


# exercise: swiglu
def my_swiglu(x, w_gate, w_value, w_out):
    # (..., in_dim); the matrices are (width, in_dim), (width, in_dim), (in_dim, width)
    gate = F.silu(F.linear(x, w_gate))
    value = F.linear(x, w_value)
    return F.linear(gate * value, w_out)
