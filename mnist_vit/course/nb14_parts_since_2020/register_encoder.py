"""Exercise: registers (Darcet et al. 2023) as a variant of the encoder."""

import torch
from torch import nn

from mnist_vit.model import Encoder as MyEncoder


class MyRegisterEncoder(MyEncoder):
    """MyEncoder with registers, which nobody outside of it sees."""

    def __init__(self, *sizes, registers=4, **options):
        super().__init__(*sizes, **options)
        width = self.pos_embedding.shape[2]
        self.register_tokens = nn.Parameter(0.02 * torch.randn(1, registers, width))

    def forward(self, x):
        x = self.dropout(x + self.pos_embedding)
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        x = self.ln(self.layers(x))
        return torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)
