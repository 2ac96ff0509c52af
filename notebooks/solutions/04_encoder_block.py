"""Solutions of notebook 04, the encoder block. Try first: a check that fails teaches more than an answer that fits."""

import torch
from torch import nn

from mnist_vit.model import MLPBlock


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
        x = self.dropout(x) + input
        # Think: the same with the MLP, which has its dropout inside.
        return x + self.mlp(self.ln_2(x))


# exercise: count_block
def count_block(hidden_dim, mlp_dim):
    norms = 2 * (hidden_dim + hidden_dim)  # weight and bias
    attention = 4 * (hidden_dim * hidden_dim + hidden_dim)  # query, key, value, output
    widen = hidden_dim * mlp_dim + mlp_dim
    narrow = mlp_dim * hidden_dim + hidden_dim
    return norms + attention + widen + narrow


# exercise: layer_norm
def layer_norm(x, weight, bias, eps):
    # keepdim leaves (n, seq_length, 1), which broadcasts over the numbers of each token.
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + eps).sqrt() * weight + bias


# exercise: silence
def silence(part):
    # The last layer of each branch has the last word; with weight and bias at zero it says nothing.
    with torch.no_grad():
        for layer in (part.self_attention.out_proj, part.mlp[3]):
            layer.weight.zero_()
            layer.bias.zero_()
