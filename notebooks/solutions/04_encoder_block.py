"""Solutions of notebook 04, made from the sources of its checks by notebooks/refresh.py."""

import torch
from torch import nn

from mnist_vit.model import MLPBlock


# exercise: count_block
def my_count_block(hidden_dim, mlp_dim):
    norms = 2 * (hidden_dim + hidden_dim)  # weight and bias
    attention = 4 * (hidden_dim * hidden_dim + hidden_dim)  # query, key, value, output
    widen = hidden_dim * mlp_dim + mlp_dim
    narrow = mlp_dim * hidden_dim + hidden_dim
    return norms + attention + widen + narrow


# exercise: encoder_block
class MyEncoderBlock(nn.Module):
    def __init__(self, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden_dim, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim,
            num_heads,
            dropout=attention_dropout,
            batch_first=True,
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(hidden_dim, eps=1e-6)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input):
        # Talk: the branch reads normalised tokens, but the tokens as they came are what it is added to.
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x)
        x = x + input
        # Think: the same with the MLP, which has its dropout inside.
        y = self.ln_2(x)
        y = self.mlp(y)
        return x + y


# exercise: layer_norm
def my_layer_norm(x, weight, bias, eps):
    """(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)."""
    # keepdim leaves (n, seq_length, 1), which broadcasts over the numbers of each token.
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    normalised = centred / (variance + eps).sqrt()
    return normalised * weight + bias


# exercise: silence
def my_silence(part):
    # The last layer of each branch has the last word; with weight and bias at zero it says nothing.
    with torch.no_grad():
        for layer in (part.self_attention.out_proj, part.mlp[3]):
            layer.weight.zero_()
            layer.bias.zero_()
