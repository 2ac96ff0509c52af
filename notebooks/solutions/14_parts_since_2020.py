"""Solutions of notebook 14, made from the sources of its checks by `python -m tools solutions`."""

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.model import Encoder as MyEncoder


# exercise: outliers
def my_outliers(tokens, num_patches):
    # (n, seq_length, hidden_dim) -> (n,) ratios, (n,) numbers of patches
    patches = tokens[:, -num_patches:]
    norms = patches.norm(dim=2)
    largest, where = norms.max(dim=1)
    middle = norms.median(dim=1).values
    return largest / middle, where


# exercise: register_encoder
class MyRegisterEncoder(MyEncoder):
    """MyEncoder with registers, which nobody outside of it sees."""

    def __init__(self, *sizes, registers=4, **options):
        super().__init__(*sizes, **options)
        noise = torch.randn(1, registers, self.pos_embedding.shape[2])
        self.register_tokens = nn.Parameter(0.02 * noise)

    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        x = self.ln(self.layers(x))
        # what they were for is done
        return torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)


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


# exercise: swiglu
def my_swiglu(x, w_gate, w_value, w_out):
    # (..., in_dim); the matrices are (width, in_dim), (width, in_dim), (in_dim, width)
    gate = F.silu(F.linear(x, w_gate))
    value = F.linear(x, w_value)
    return F.linear(gate * value, w_out)
