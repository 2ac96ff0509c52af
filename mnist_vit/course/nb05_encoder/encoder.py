"""Exercise: the encoder, equations 1 to 4 of Dosovitskiy et al. 2020."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401 (an edit uses it)
from torch import nn

from mnist_vit.model import EncoderBlock

from ..checking import Exercise, copy_weights, gradients, make, parameter_gradients, random, randomise


class MyEncoder(nn.Module):
    """(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)."""

    def __init__(
        self,
        seq_length,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout,
        attention_dropout,
    ):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        sizes = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout)
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{i}", EncoderBlock(*sizes)) for i in range(num_layers))
        )
        self.ln = nn.LayerNorm(hidden_dim, eps=1e-6)

    def forward(self, input):
        x = input + self.pos_embedding  # equation 1
        x = self.dropout(x)
        x = self.layers(x)  # equations 2 and 3, once for each block
        return self.ln(x)  # equation 4, for every token


SIZES = (5, 3, 2, 8, 12)  # seq_length, num_layers, num_heads, hidden_dim, mlp_dim


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # dropout p = 1 drops everything: it must show in train mode, and must not in eval mode
    module = make(answer, *SIZES, 1.0, 0.0)
    copy_weights(randomise(MyEncoder(*SIZES, 1.0, 0.0)), module)
    module.double().eval()
    tokens = random(2, 5, 8, dtype=torch.float64).requires_grad_()
    output = module(tokens)
    yield "output in eval mode", output
    yield from gradients(output, input=tokens, pos_embedding=module.pos_embedding)
    # the others, two dozen of them, in one row: the sentence of success stays short
    others = [value for what, value in parameter_gradients(output, module) if not what.endswith("pos_embedding")]
    flat = [value.flatten() for value in others if value is not None]
    yield "gradient of all other parameters", torch.cat(flat) if len(flat) == len(others) else None

    module.train()
    for part in module.layers.modules():  # the blocks' own dropout would hide where the encoder's stands
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    yield "output in train mode", module(tokens.detach())


ADD, DROP = "x = input + self.pos_embedding", "x = self.dropout(x)"
BLOCKS, NORM = "x = self.layers(x)", "return self.ln(x)"


def _each(line: str, blocks: str = "self.layers") -> str:
    """A loop over the blocks, in place of BLOCKS."""
    return f"for block in {blocks}:\n            {line}"


SLIPS = (
    ({ADD: "x = input"}, "leave the position embedding out: equation 1 adds it to the tokens before anything else"),
    ({ADD: "x = input", DROP: "x = self.dropout(x) + self.pos_embedding"},
     "add the position embedding after the dropout: add it first, so that positions are dropped as well"),
    ({BLOCKS: "x = self.layers[0](x)\n        " + _each("x = block(x + self.pos_embedding)", "self.layers[1:]")},
     "add the position embedding again before every block: equation 1 adds it once, before the first"),
    ({NORM: "return x"}, "leave out the last norm: equation 4 is self.ln, after all blocks"),
    ({BLOCKS: "x = self.layers(self.ln(x))", NORM: "return x"},
     "apply self.ln before the blocks: each block normalises its own input, and self.ln comes last"),
    ({BLOCKS: _each("x = self.ln(block(x))"), NORM: "return x"},
     "apply self.ln after every block: it comes once, after the last; each block has norms of its own"),
    ({BLOCKS: _each("x = self.ln(block(x))")},
     "apply self.ln after every block and then once more: it comes once, after the last block"),
    ({NORM: "return self.ln(x)[:, 0]"},
     "return the class token alone: the paper keeps token 0 only here, in equation 4, the encoder returns all "
     "tokens"),
    ({BLOCKS: _each("x = block(x)", "reversed(list(self.layers))")},
     "run the blocks from the last to the first: encoder_layer_0 goes first"),
    ({BLOCKS: _each("x = self.layers[0](x)")},
     "run the first block again and again: the blocks have the same form, but parameters of their own"),
    ({BLOCKS: "x = self.layers[0](x)"}, "run the first block only: the tokens go through all of self.layers"),
    ({ADD: "x = torch.cat([input[:, :1], input[:, 1:] + self.pos_embedding[:, 1:]], dim=1)"},
     "add positions to the patches only: the class token has a position too, the first"),
    ({DROP: ""}, "leave out self.dropout: it stands between the addition and the first block"),
    ({DROP: "", NORM: "return self.ln(self.dropout(x))"},
     "apply self.dropout after the blocks: it stands between the addition and the first block"),
    ({DROP: "", NORM: "return self.dropout(self.ln(x))"},
     "apply self.dropout at the very end: it stands between the addition and the first block"),
    ({DROP: "x = F.dropout(x, self.dropout.p)"},
     "drop in eval mode too: self.dropout(x) knows the mode, F.dropout(x, p) does not"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=MyEncoder,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        "Four steps in one order: add, drop, run the blocks, normalise. Each has its attribute in __init__.",
        "pos_embedding is (1, seq_length, hidden_dim): the plus sign spreads it over the n pictures. "
        "self.layers is an nn.Sequential, so it can be called like a function.",
    ),
    same=({BLOCKS: _each("x = block(x)")},),
)
