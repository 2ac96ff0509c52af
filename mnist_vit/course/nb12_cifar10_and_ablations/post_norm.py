"""Exercise: an encoder block's own parts, put together as in 2017 (post-norm): add, then normalise."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mnist_vit.model import EncoderBlock

from ..checking import Exercise, gradients, parameter_gradients, random, randomise


def my_post_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    "(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)"
    attended, _ = block.self_attention(z, z, z, need_weights=False)
    x = block.ln_1(z + attended)  # the norm takes the sum, so the residual connection goes through it
    y = block.mlp(x)
    return block.ln_2(x + y)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    block = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0)).double()
    z = random(2, 5, 6, dtype=torch.float64).requires_grad_()
    output = answer(block, z)
    yield "output", output
    yield from gradients(output, z=z)
    yield from parameter_gradients(output, block)


TALK, ADD = "attended, _ = block.self_attention(z, z, z, need_weights=False)", "block.ln_1(z + attended)"
THINK, END = "block.mlp(x)", "return block.ln_2(x + y)"
TALK_NORMALISED = {TALK: "n = block.ln_1(z)\n    attended, _ = block.self_attention(n, n, n, need_weights=False)"}
THINK_NORMALISED = {THINK: "block.mlp(block.ln_2(x))"}

SLIPS = (
    ({**TALK_NORMALISED, ADD: "z + attended", **THINK_NORMALISED, END: "return x + y"},
     "leave the block as it is (pre-norm): here the norms come after the sums, and the branches take tokens without "
     "a norm"),
    ({ADD: "z + block.ln_1(attended)", END: "return x + block.ln_2(y)"},
     "normalise what a branch gives, and then add: post-norm normalises the sum"),
    ({**TALK_NORMALISED, **THINK_NORMALISED}, "normalise before the branches too: each norm is used once, on the sum"),
    ({**THINK_NORMALISED, END: "return x + y"},
     "turn only the attention's half round: the MLP still takes ln_2(x), and the end has no norm"),
    ({**TALK_NORMALISED, ADD: "z + attended"}, "turn only the MLP's half round: the attention still takes ln_1(z)"),
    ({END: "return block.ln_2(z + y)"},
     "add z again at the end: what is added to the MLP is what it took, ln_1(z + …)"),
    ({ADD: "z + attended", THINK: "block.mlp(block.ln_1(x))"},
     "add the sum as it was before ln_1 at the end: in post-norm the residual connection, too, goes through the "
     "norm"),
    ({ADD: "block.ln_2(z + attended)", END: "return block.ln_1(x + y)"},
     "swap the norms: ln_1 belongs to the attention, ln_2 to the MLP"),
    ({END: "return block.ln_1(x + y)"}, "use ln_1 twice: the second sum has its own, ln_2"),
    ({ADD: "z + attended"}, "leave out the first norm: the attention's sum goes through ln_1"),
    ({END: "return x + y"}, "leave out the second norm: the last sum goes through ln_2"),
    ({ADD: "block.ln_1(attended)", END: "return block.ln_2(y)"},
     "leave out both residual connections: what a branch took is added to what it gives"),
    ({ADD: "block.ln_1(attended)"},
     "leave out the first residual connection: add z to what the attention gives, then normalise"),
    ({END: "return block.ln_2(y)"},
     "leave out the second residual connection: add what the MLP took to what it gives, then normalise"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_post_norm,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        "Pre-norm is x + f(LN(x)), post-norm is LN(x + f(x)). A block has two branches, so write it twice.",
        "First f is block.self_attention(z, z, z) with block.ln_1 around the sum, then f is block.mlp with block.ln_2 "
        "around the sum. The attention returns a pair: take its first.",
    ),
    same=({TALK: "attended = block.dropout(block.self_attention(z, z, z)[0])"},),
)
