"""Exercise: the encoder, equations 1 to 4 of Dosovitskiy et al. 2020."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401 (an edit uses it)
from torch import Tensor, nn

from mnist_vit.model import Encoder
from mnist_vit.model import EncoderBlock as MyEncoderBlock

from ..checking import (
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    joined,
    make,
    parameter_gradients,
    random,
    randomise,
    refused_part,
    start_values,
    with_dropout_seen,
)
from ..nb04_encoder_block import encoder_block
from ..observing.reacting import listed


class MyEncoder(nn.Module):
    """(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)."""

    def __init__(
        self,
        seq_length,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout=0.0,
        attention_dropout=0.0,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    ):
        super().__init__()
        noise = torch.empty(1, seq_length, hidden_dim).normal_(std=0.02)
        self.pos_embedding = nn.Parameter(noise)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential()
        options = dropout, attention_dropout, norm_layer
        for i in range(num_layers):
            block = MyEncoderBlock(num_heads, hidden_dim, mlp_dim, *options)
            self.layers.add_module(f"encoder_layer_{i}", block)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input):
        x = input + self.pos_embedding  # equation 1
        x = self.dropout(x)
        x = self.layers(x)  # equations 2 and 3, once for each block
        return self.ln(x)  # equation 4, for every token


SEEN: list[Tensor] = []  # what our solution gives with its dropout seen
SIZES = (5, 3, 2, 8, 12)  # seq_length, num_layers, num_heads, hidden_dim, mlp_dim
FOUR_HEADS = (5, 1, 4, 8, 12)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Values and gradients in eval mode, then what each kind of dropout does in train mode, with p
    = 1: no chance."""
    module = make(answer, *SIZES, 1.0, 0.0)
    if isinstance(getattr(module, "layers", None), list | tuple | dict):
        raise Mistake(
            f"self.layers is a plain {type(module.layers).__name__}: the module does not know the"
            " layers in it.",
            "It neither counts nor trains their parameters. nn.Sequential holds layers under names,"
            " with add_module.",
        )
    tokens = random(2, 5, 8, dtype=torch.float64).requires_grad_()
    if isinstance(module, nn.Module):
        module.eval()(tokens.detach().float())  # a stub says here that it is one
        _blocks_of_their_own(module)
    copy_weights(randomise(Encoder(*SIZES, 1.0, 0.0)), module)
    module.double().eval()
    output = module(tokens)
    yield "output in eval mode", output
    yield from gradients(output, input=tokens, pos_embedding=module.pos_embedding)
    # the others, two dozen of them, in one row: the sentence of success stays short
    yield joined(
        "all other parameters",
        *(one for one in parameter_gradients(output, module) if "pos_embedding" not in one[0]),
    )

    module.train()
    module.layers.eval()  # the blocks' own dropout would hide where the encoder's stands
    yield "output in train mode", module(tokens.detach())
    module.eval()
    module.layers.train()
    yield "output with dropout 1 in the blocks alone", module(tokens.detach())
    yield (
        "output where self.dropout moves numbers by one and halves them",
        with_dropout_seen(module, tokens.detach(), SEEN),
    )

    for options in ((0.0, 1.0), (0.0, 0.0, partial(nn.LayerNorm, eps=0.5))):
        other = make(answer, *SIZES, *options)
        copy_weights(randomise(Encoder(*SIZES, 0.0, 0.0)), other)
        what = "another norm_layer" if options[2:] else "attention_dropout 1, in train mode"
        yield f"output with {what}", other.double().train()(tokens.detach())
    more = make(answer, *FOUR_HEADS, 0.0, 0.0)
    copy_weights(randomise(Encoder(*FOUR_HEADS, 0.0, 0.0)), more)
    yield "output with 4 heads and 1 layer", more.double().eval()(tokens.detach())
    sizes = (64, 1, 2, 64, 128, 0.0, 0.0)
    yield start_values(make(answer, *sizes), Encoder(*sizes))


def more(answer: Any) -> bool:
    """Whether the last norm is made by norm_layer, whatever forward does with it."""
    module = make(answer, *SIZES, 0.0, 0.0, partial(nn.LayerNorm, eps=0.5))
    return bool(getattr(module.ln, "eps", 0.5) == 0.5)


def notice(answer: Any) -> Mistake | None:
    """Whether the blocks' class, kept before, passes its own check; what the first block gets."""
    module = make(answer, *SIZES, 0.0, 0.0)
    first, *_ = module.layers.children()
    return refused_part(first, encoder_block.EXERCISE) or _probabilities(answer) or _dropped(answer)


def _probabilities(answer: Any) -> Mistake | None:
    """Which block has a dropout of another probability than its class gives it."""
    module = make(answer, *SIZES, 0.3, 0.1)
    for number, block in enumerate(module.layers.children()):
        made = type(block)(2, 8, 12, 0.3, 0.1)
        own, right = (
            sorted({one.p for one in part.modules() if isinstance(one, nn.Dropout)})
            for part in (block, made)
        )
        if own and own != right:
            return Mistake(
                "In an encoder made with dropout=0.3 and attention_dropout=0.1 the dropout"
                f" layers in block {number} drop with the probability"
                f" {listed(list(map(str, own)), 4)}.",
                f"It should be {listed(list(map(str, right)), 4)}, in every block: hand dropout"
                " and attention_dropout on as they are.",
            )
    return None


def _blocks_of_their_own(module: nn.Module) -> None:
    """Raise where two blocks are one object."""
    blocks = list(getattr(module, "layers", nn.Module())._modules.values())
    starts = [tuple(p for p in block.parameters() if p.dim() > 1) for block in blocks]
    if len(set(map(id, blocks))) < len(blocks):
        raise Mistake(
            "places of self.layers hold the same block.",
            "Make a new one for each place, so that each has parameters of its own.",
        )
    if any(_equal(one, other) for one, other in itertools.combinations(starts, 2)):
        raise Mistake(
            "two places of self.layers start with the same numbers, as copies of one block do.",
            "Make a new block for each place: each draws start values of its own.",
        )


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether these parameters hold the same numbers; none are no numbers."""
    return bool(one) and all(map(torch.equal, one, other))


@torch.no_grad()
def _dropped(answer: Any) -> Mistake | None:
    """How many numbers the encoder's dropout takes from the first block."""
    module = make(answer, *SIZES, 1.0, 0.0)
    copy_weights(randomise(Encoder(*SIZES, 1.0, 0.0)), module)
    given: list[Tensor] = []
    block = next(iter(module.layers.children()))
    block.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    module.train()
    module.layers.eval()
    module(random(20, 5, 8))
    if not given:
        return None
    dropped = float((given[0] == 0).float().mean())
    if not 0 < dropped < 1:
        return None
    return Mistake(
        f"With dropout 1, in train mode, {100 * dropped:.0f} % of the numbers that the first block"
        " is given are 0, and all should be.",
        "self.dropout, made with the probability `dropout`, takes the whole sum of tokens and"
        " positions.",
    )


OPTIONS, GIVEN = "options = dropout, attention_dropout, norm_layer", "mlp_dim, *options"
ADD, DROP = "x = input + self.pos_embedding", "x = self.dropout(x)"
BLOCKS, NORM = "x = self.layers(x)", "return self.ln(x)"
LAST = "self.ln = norm_layer(hidden_dim)"
OWN_LAST = "self.ln = nn.LayerNorm(hidden_dim, eps=1e-6)"


def _each(line: str, blocks: str = "self.layers") -> str:
    """A loop over the blocks, in place of BLOCKS."""
    return f"for block in {blocks}:\n            {line}"


SLIPS = (
    Slip(
        {ADD: "x = input"},
        "leave the position embedding out",
        "Equation 1 adds it to the tokens before anything else",
    ),
    Slip(
        {ADD: "x = input", DROP: "x = self.dropout(x) + self.pos_embedding"},
        "add the position embedding after the dropout",
        "Add it first, so that positions are dropped as well",
    ),
    Slip(
        {
            BLOCKS: (
                "x = self.layers[0](x)\n        "
                + _each("x = block(x + self.pos_embedding)", "self.layers[1:]")
            )
        },
        "add the position embedding before every block, once each",
        "Equation 1 adds it once, before the first block",
    ),
    Slip(
        {ADD: "x = input", BLOCKS: _each("x = block(x + self.pos_embedding)")},
        "add the position embedding before every block, behind self.dropout",
        "Equation 1 adds it once, before self.dropout and the first block",
    ),
    Slip(
        {BLOCKS: _each("x = block(x + self.pos_embedding)")},
        "add the position embedding before every block, and so twice before the first",
        "Equation 1 adds it once",
    ),
    Slip(
        {ADD: "x = input", BLOCKS: _each("x = block(x) + self.pos_embedding")},
        "add the position embedding after every block",
        "Equation 1 adds it once, before self.dropout and the first block",
    ),
    Slip(
        {ADD: "x = input", NORM: "return self.ln(x + self.pos_embedding)"},
        "add the position embedding after the blocks",
        "Then no block knows a place. Equation 1 comes first",
    ),
    Slip({NORM: "return x"}, "leave out the last norm", "Equation 4 is self.ln, after all blocks"),
    Slip(
        {NORM: "return self.ln(self.ln(x))"},
        "apply self.ln twice",
        "Equation 4 applies it once, after all blocks",
    ),
    Slip(
        {BLOCKS: "x = self.layers(self.ln(x))", NORM: "return x"},
        "apply self.ln before the blocks",
        "Each block normalises its own input, and self.ln comes last",
    ),
    Slip(
        {BLOCKS: "x = self.layers(self.ln(x))"},
        "apply self.ln before the blocks and once more after them",
        "Each block normalises its own input, and self.ln comes once, last",
    ),
    Slip(
        {BLOCKS: _each("x = self.ln(block(x))"), NORM: "return x"},
        "apply self.ln after every block",
        "It comes once, after the last; each block has norms of its own",
    ),
    Slip(
        {BLOCKS: _each("x = self.ln(block(x))")},
        "apply self.ln after every block and then once more",
        "It comes once, after the last block",
    ),
    Slip(
        {NORM: "return self.ln(x)[:, 0]"},
        "return token 0 alone",
        (
            "Equation 4 takes token 0 alone, but in the code the encoder normalises and returns"
            " all tokens"
        ),
    ),
    Slip(
        {NORM: "return self.ln(x)[:, 1:]"},
        "leave token 0 out of the result",
        "The encoder returns all tokens",
    ),
    Slip(
        {BLOCKS: _each("x = x + block(x)")},
        "add what goes into a block to what it gives",
        "The residual connections are inside the block",
    ),
    Slip(
        {BLOCKS: _each("y = block(x)"), NORM: "return self.ln(y)"},
        "give every block the same tokens, so that only the last block counts",
        "Each block takes what the one before gave, x = block(x)",
    ),
    *(
        Slip(
            {BLOCKS: f"x = {all_blocks}"},
            f"give every block the same tokens, and take the {what} of what they give",
            "Each block takes what the one before gave, x = block(x)",
        )
        for all_blocks, what in (
            ("sum(block(x) for block in self.layers)", "sum"),
            ("sum(block(x) for block in self.layers) / len(self.layers)", "mean"),
        )
    ),
    Slip(
        {BLOCKS: "x = x + self.layers(x)"},
        "add what goes into the first block to what the last one gives",
        "The residual connections are inside the blocks: x = self.layers(x)",
    ),
    Slip(
        {NORM: "return torch.cat([self.ln(x[:, :1]), x[:, 1:]], dim=1)"},
        "apply self.ln to token 0 alone",
        "In the code the encoder normalises all tokens: self.ln(x)",
    ),
    Slip(
        {ADD: "x = input + 2 * self.pos_embedding"},
        "add the position embedding twice",
        "Equation 1 adds it once",
    ),
    Slip(
        {BLOCKS: _each("block(x)")},
        "never run the blocks, or throw away what they give",
        ("x = self.layers(x), or x = block(x) in a loop, sends the tokens through them"),
    ),
    Slip(
        {BLOCKS: _each("x = block(x)", "reversed(list(self.layers))")},
        "run the blocks from the last to the first",
        "encoder_layer_0 goes first",
    ),
    Slip(
        {BLOCKS: _each("x = self.layers[0](x)")},
        "run the first block again and again",
        "The blocks have the same form, but parameters of their own",
    ),
    Slip(
        {BLOCKS: "x = self.layers[0](x)"},
        "run the first block only",
        "The tokens go through all of self.layers, and a return belongs behind the loop",
    ),
    Slip(
        {ADD: "x = torch.cat([input[:, :1], input[:, 1:] + self.pos_embedding[:, 1:]], dim=1)"},
        "add no position to token 0",
        "Every token has a position, token 0 the first",
    ),
    Slip(
        {OPTIONS: "options = 0.0, attention_dropout, norm_layer"},
        "build the blocks without dropout",
        "Hand it on to each of them. If you do, check.encoder_block tells more of your block",
    ),
    Slip(
        {ADD: "x = input + self.dropout(self.pos_embedding)", DROP: ""},
        "apply self.dropout to the position embedding alone",
        "self.dropout comes after the addition, and drops numbers of the sum",
    ),
    Slip(
        {DROP: ""}, "leave out self.dropout", "It stands between the addition and the first block"
    ),
    Slip(
        {DROP: "", NORM: "return self.ln(self.dropout(x))"},
        "apply self.dropout after the blocks",
        "It stands once, between the addition and the first block, and nowhere else",
    ),
    Slip(
        {DROP: "", NORM: "return self.dropout(self.ln(x))"},
        "apply self.dropout at the very end",
        "It stands once, between the addition and the first block, and nowhere else",
    ),
    Slip(
        {DROP: "", BLOCKS: _each("x = block(self.dropout(x))")},
        "apply self.dropout before every block",
        "It stands once, between the addition and the first block",
    ),
    Slip(
        {DROP: "x = F.dropout(x, self.dropout.p)"},
        "drop in eval mode too, or multiply by 1 - dropout there",
        "self.dropout(x) knows the mode, F.dropout(x, p) does not",
    ),
    Slip(
        {OPTIONS: "options = attention_dropout, dropout, norm_layer"},
        "exchange the blocks' dropout and attention_dropout",
        (
            "Give a block dropout=dropout and attention_dropout=attention_dropout; by place,"
            " dropout comes first"
        ),
    ),
    Slip(
        {OPTIONS: "", GIVEN: "mlp_dim, 0.0, 0.0"},
        "keep dropout, attention_dropout and norm_layer from the blocks",
        "Hand them on",
    ),
    Slip(
        {OPTIONS: "options = 0.0, 0.0, norm_layer"},
        "keep dropout and attention_dropout from the blocks",
        "Hand both on to each of them",
    ),
    Slip(
        {OPTIONS: "options = dropout, 0.0"},
        "keep attention_dropout and norm_layer from the blocks",
        "Hand both on",
    ),
    Slip(
        {OPTIONS: "options = dropout, 0.0, norm_layer"},
        "keep attention_dropout from the blocks",
        "Hand it on, after dropout",
    ),
    Slip(
        {OPTIONS: "options = dropout, attention_dropout"},
        "keep norm_layer from the blocks",
        "Hand it on, last",
    ),
    Slip(
        {LAST: OWN_LAST},
        "make self.ln yourself, so that another norm_layer changes the blocks alone",
        "norm_layer makes every norm, the last one too: norm_layer(hidden_dim)",
    ),
    Slip(
        {LAST: OWN_LAST, OPTIONS: "options = dropout, attention_dropout"},
        "make self.ln yourself and keep norm_layer from the blocks",
        "norm_layer makes every norm: hand it on to the blocks, and self.ln is"
        " norm_layer(hidden_dim)",
    ),
    *(
        Slip(
            {LAST: "self.ln = nn.LayerNorm(hidden_dim)", **edit},
            f"make self.ln by nn.LayerNorm itself, whose eps is 1e-5{more}",
            "norm_layer makes every norm, the last one too: norm_layer(hidden_dim)",
        )
        for edit, more in (
            ({}, ""),
            (
                {OPTIONS: "options = dropout, attention_dropout"},
                ", and keep norm_layer from the blocks",
            ),
        )
    ),
    Slip(
        {DROP: "x = self.dropout(self.dropout(x))"},
        "apply self.dropout twice",
        "It stands once, between the addition and the first block",
    ),
    *(
        Slip(
            {ADD: f"x = {added}"},
            f"apply self.dropout to {what} before the addition, too",
            "It stands once, between the addition and the first block",
        )
        for added, what in (
            ("self.dropout(input) + self.pos_embedding", "the tokens"),
            ("input + self.dropout(self.pos_embedding)", "the position embedding"),
        )
    ),
    Slip(
        {ADD: "x = input + self.pos_embedding.flip(1)"},
        "add the positions in the opposite order",
        "The first position belongs to token 0: input + self.pos_embedding",
    ),
    Slip(
        {ADD: "x = input + self.pos_embedding.roll(1, 1)"},
        "add to each token the position of the one before",
        "The first position belongs to token 0: input + self.pos_embedding",
    ),
    *(
        Slip(
            {ADD: f"x = input {by} input.shape[-1] ** 0.5 + self.pos_embedding"},
            f"{does} the tokens by √hidden_dim before the positions are added",
            "The Vision Transformer adds them to the tokens as they are: equation 1",
        )
        for by, does in (("*", "multiply"), ("/", "divide"))
    ),
    Slip(
        {BLOCKS: "x = self.layers[:-1](x)"},
        "leave out the last block",
        "The tokens go through all of self.layers",
    ),
    Slip(
        {BLOCKS: "x = self.layers[1:](x)"},
        "leave out the first block",
        "The tokens go through all of self.layers",
    ),
    Slip(
        {BLOCKS: "x = self.layers(x)\n        x = self.layers[-1](x)"},
        "run the last block twice",
        "Each block runs once: a loop over the blocks and a last call are one too many",
    ),
    Slip(
        {BLOCKS: "x = self.layers(self.layers(x))"},
        "run all blocks twice",
        "Each block runs once",
    ),
    *(
        Slip(
            {ADD: f"x = input {sign} self.pos_embedding"},
            f"{does} the position embedding",
            "Equation 1 adds it",
        )
        for sign, does in (("-", "subtract"), ("*", "multiply the tokens by"))
    ),
    Slip(
        {NORM: "return self.ln(x) + input"},
        "add the tokens that came in to the result",
        "The residual connections are inside the blocks: the encoder ends with self.ln",
    ),
    Slip(
        {NORM: "return x + self.ln(x)"},
        "add what the last block gives to what self.ln makes of it",
        "The encoder ends with self.ln",
    ),
    Slip(
        {NORM: "return self.ln(x).mean(dim=1)"},
        "take the mean over the tokens at the end",
        "The encoder normalises and returns all tokens",
    ),
    *(
        Slip(
            {"MyEncoderBlock(num_heads, ": f"MyEncoderBlock({number}, "},
            f"make the blocks with {number} heads, whatever num_heads is",
            "Hand num_heads on to each of them",
        )
        for number in (1, 2)
    ),
    Slip(
        {ADD: "x = input + self.pos_embedding[:, :1]"},
        "give all tokens the position of token 0",
        "Each has its own: input + self.pos_embedding",
    ),
)

EXERCISE = Exercise(
    answer=MyEncoder,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "In __init__ a loop makes one block a round and adds it to self.layers under its name."
            " forward has four steps in one order: add, drop, run the blocks, normalise."
        ),
        (
            'self.layers.add_module(f"encoder_layer_{i}", MyEncoderBlock(…)) with all five sizes'
            " and norm_layer. In forward pos_embedding, (1, seq_length, hidden_dim), is spread over"
            " the n pictures by the plus sign, and self.layers, an nn.Sequential, can be called"
            " like a function."
        ),
    ),
    same=({BLOCKS: _each("x = block(x)")},),
)
