"""Exercise: the class token gathers with other weights, or from another picture's values."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.model import MultiHeadAttention

from ..checking import Exercise, Slip, random, randomise


def my_exchange(layer, x, output, rows, givers):
    # x, output: (n, seq_length, hidden_dim), what the attention layer got and gave
    # rows: (n, num_heads, seq_length), the class token's new weights
    # givers: (n,), the number of the picture whose values are gathered
    w_v, b_v = layer.in_proj_weight.chunk(3)[2], layer.in_proj_bias.chunk(3)[2]
    values = F.linear(x[givers], w_v, b_v)
    values = values.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)
    gathered = rows.unsqueeze(2) @ values  # (n, num_heads, 1, head_dim)
    gathered = layer.out_proj(gathered.transpose(1, 2).flatten(2))
    return torch.cat([gathered, output[:, 1:]], dim=1)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    layer = randomise(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
    x, own = random(3, 5, 8, seed=131), torch.arange(3)
    rows = (2 * random(3, 2, 5, seed=132)).softmax(dim=-1)
    with torch.no_grad():
        output, weights = layer(x, x, x, average_attn_weights=False)
        kept = output.clone()
        yield "output with other rows", answer(layer, x, output.clone(), rows, own)
        yield (
            "output with its own rows and another picture's values",
            answer(layer, x, output.clone(), weights[:, :, 0], torch.tensor([2, 0, 1])),
        )
        same = answer(layer, x, output, weights[:, :, 0], own)
        yield "output with its own rows and its own values", same
        yield "whether that is what the layer gave", bool(torch.allclose(same, kept, atol=1e-4))
        scratch = randomise(MultiHeadAttention(12, 3), seed=1).eval()
        x = random(2, 4, 12, seed=133)
        rows = (2 * random(2, 3, 4, seed=134)).softmax(dim=-1)
        output = scratch(x, x, x)[0]
        yield (
            "output of a layer from scratch",
            answer(scratch, x, output, rows, torch.tensor([1, 1])),
        )


PARTS = "layer.in_proj_weight.chunk(3)[2], layer.in_proj_bias.chunk(3)[2]"
VALUES, HEADS = (
    "F.linear(x[givers], w_v, b_v)",
    "values.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)",
)
GATHERED, OUT = "rows.unsqueeze(2) @ values", "layer.out_proj(gathered.transpose(1, 2).flatten(2))"
END = "torch.cat([gathered, output[:, 1:]], dim=1)"

SLIPS = (
    Slip(
        {VALUES: "F.linear(x, w_v, b_v)"},
        "gather from the picture's own values, whoever the giver is",
        "The tokens of the givers are x[givers]",
    ),
    Slip(
        {GATHERED: "rows[givers].unsqueeze(2) @ values"},
        "take the giver's row, too",
        "The rows are given as they are to be used, row i for picture i",
    ),
    Slip(
        {PARTS: "layer.in_proj_weight.chunk(3)[1], layer.in_proj_bias.chunk(3)[1]"},
        "gather keys",
        "The values are made by the last third of in_proj_weight and in_proj_bias",
    ),
    Slip(
        {PARTS: "layer.in_proj_weight.chunk(3)[0], layer.in_proj_bias.chunk(3)[0]"},
        "gather queries",
        "The values are made by the last third of in_proj_weight and in_proj_bias",
    ),
    Slip(
        {VALUES: "F.linear(x[givers], w_v)"},
        "leave out the bias of the values",
        "Values are the tokens times W_V plus the last third of in_proj_bias",
    ),
    Slip(
        {VALUES: "x[givers]", PARTS: "layer.in_proj_weight, layer.in_proj_bias"},
        "gather the tokens themselves",
        "What is gathered are values, the tokens times W_V plus a bias",
    ),
    Slip(
        {HEADS: "values.unflatten(-1, (-1, layer.num_heads)).movedim(-1, 1)"},
        "share the numbers out one by one among the heads",
        "The first head_dim numbers belong to head 0",
    ),
    Slip(
        {OUT: "gathered.transpose(1, 2).flatten(2)"},
        "stop before the output projection",
        "What the heads have gathered passes through out_proj",
    ),
    Slip(
        {OUT: "gathered.transpose(1, 2).flatten(2) @ layer.out_proj.weight.T"},
        "leave out the bias of the output projection",
        "Call layer.out_proj, which multiplies and adds it",
    ),
    Slip(
        {GATHERED: "rows.mean(dim=1, keepdim=True).unsqueeze(2) @ values"},
        "average the rows of the heads",
        "Each head gathers with a row of its own",
    ),
    Slip(
        {END: "torch.cat([gathered + output[:, :1], output[:, 1:]], dim=1)"},
        "add to what the layer gave",
        "The new result takes its place (the residual connection comes later, in the block)",
    ),
    Slip(
        {END: "gathered.expand_as(output)"},
        "give all tokens what the class token gathers",
        "The outputs of the patches stay as they were",
    ),
    Slip(
        {END: "torch.cat([output[:, :-1], gathered], dim=1)"},
        "replace the last token",
        "The class token is the first",
    ),
    Slip(
        {END: "gathered"},
        "give the class token's output alone",
        "The others are needed as well, as they were",
    ),
    Slip(
        {HEADS: "values.reshape(len(x), layer.num_heads, x.shape[1], -1)"},
        "split the values into heads with one reshape",
        "A head then gets whole tokens. Cut the last axis, then swap: transpose(1, 2)",
    ),
    Slip(
        {END: "torch.cat([gathered + x[:, :1], output[:, 1:]], dim=1)"},
        "add the token itself",
        "The residual connection comes later, in the block",
    ),
    Slip(
        {OUT: "layer.out_proj(gathered.squeeze(2).transpose(1, 2).flatten(1))[:, None]"},
        "lay the heads' numbers out in turns",
        "All numbers of head 0 come first, then those of head 1",
    ),
    Slip(
        {END: "torch.cat([gathered, output[givers][:, 1:]], dim=1)"},
        "give the other tokens the giver's outputs",
        "All but the class token keep what they have, output[:, 1:]",
    ),
)

EXERCISE = Exercise(
    answer=my_exchange,
    compare=compare,
    stars=3,
    slips=SLIPS,
    hints=(
        (
            "What does a layer do after the softmax? Values of each head, weighted and summed, the"
            " heads side by side, one more linear layer. Only the class token does it anew; the"
            " weights are given, and so is whose values they are."
        ),
        (
            "The last third of in_proj_weight and in_proj_bias makes the values, from x[givers]."
            " Split them into heads, (n, num_heads, seq_length, head_dim); rows.unsqueeze(2) @"
            " values; merge the heads; layer.out_proj. Put the result in front of output[:, 1:]."
        ),
    ),
    same=(
        {
            GATHERED: 'torch.einsum("nhs,nhsd->nhd", rows, values)',
            OUT: "layer.out_proj(gathered.flatten(1))[:, None]",
        },
        {END: "torch.where(torch.arange(output.shape[1])[:, None] == 0, gathered, output)"},
    ),
    tolerance=1e-5,
)
