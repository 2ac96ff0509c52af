"""Exercise: an encoder whose layers are one block, so that its parameters are learned once."""

import contextlib
import copy  # noqa: F401 (an edit uses it)
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mnist_vit.model import Encoder

from ..checking import (
    Evidence,
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    make,
    random,
    randomise,
)
from ..checking.tools import shortened
from .encoder import MyEncoder


class MySharedBlock(MyEncoder):
    """MyEncoder with one block in the places of all its layers."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        for i in range(1, len(self.layers)):
            self.layers[i] = self.layers[0]  # the name of the place stays


NAMES = ("seq_length", "num_layers", "num_heads", "hidden_dim", "mlp_dim")
SIZES = (5, 4, 2, 8, 12)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Weights in which all layers hold the same numbers fit: the output is that of an encoder whose
    blocks are equal, the gradient the sum of theirs."""
    weights = _equal_blocks(randomise(Encoder(*SIZES, 1.0, 0.0), seed=2))
    module = make(answer, *SIZES, 1.0, 0.0)
    copy_weights(weights, module, may_share=True)
    yield "number of learned numbers", sum(p.numel() for p in module.parameters())
    tokens = random(2, 5, 8, dtype=torch.float64).requires_grad_()
    module.double().eval()
    output = module(tokens)
    yield "output in eval mode", output
    yield from gradients(output, tokens=tokens, pos_embedding=module.pos_embedding)
    first = dict(sorted(module.named_parameters()))
    block = {name: p for name, p in first.items() if ".encoder_layer_0." in name}
    found = [value for _, value in gradients(output, **block)]
    flat = [value.flatten() for value in found if value is not None]
    yield "gradient of the block", torch.cat(flat) if len(flat) == len(found) else None
    yield "output in train mode", module.train()(tokens.detach())
    one = make(answer, 5, 1, 2, 8, 12, 0.0, 0.0)
    yield "number of learned numbers with one layer", sum(p.numel() for p in one.parameters())
    _made_by_keyword(answer)
    _options_by_keyword(answer, tokens.detach())


def _options_by_keyword(answer: Any, tokens: torch.Tensor) -> None:
    """Raise Mistake where what is given by name does not reach the encoder."""
    instead = (
        "What is given by name is in options: super().__init__(*sizes, **options) hands on both."
    )
    try:
        module = make(answer, *SIZES, dropout=1.0, attention_dropout=0.0).double()
    except TypeError as error:  # other names are right, too
        if "missing" in str(error) and "dropout" in str(error):
            raise Mistake(
                "right so far, but where dropout is given by name it does not reach MyEncoder.",
                instead,
            ) from None
        return
    kept = module.eval()(tokens)
    if torch.equal(module.train()(tokens), kept):
        raise Mistake(
            "right so far, but with dropout=1.0, given by name, nothing is dropped in train mode.",
            instead,
        )


def _made_by_keyword(answer: Any) -> None:
    """Raise Mistake where the sizes are looked for among those without a name alone.

    Who gave the arguments other names, or takes fewer of them, is right, too.
    """
    sizes = dict(zip(NAMES, SIZES, strict=True))
    with contextlib.suppress(TypeError):
        try:
            make(answer, **sizes, dropout=0.0, attention_dropout=0.0)
        except (IndexError, ValueError) as error:
            raise Mistake(
                "right so far, but an encoder can also be made with names, as in"
                " MyEncoder(seq_length=5, num_layers=4, …), and there your code raised"
                f" {type(error).__name__}: {shortened(str(error))}.",
                "What is given by name is in options, and not in sizes. After"
                " super().__init__(*sizes, **options) len(self.layers) says how many layers there"
                " are.",
            ) from None


def _equal_blocks(encoder: nn.Module) -> nn.Module:
    first, *others = encoder.layers
    for block in others:
        block.load_state_dict(first.state_dict())
    return encoder


def tell(evidence: Evidence) -> tuple[str, str]:
    """How many blocks of their own the learned numbers would make."""
    if not evidence.what.startswith("number of learned") or type(evidence.value) is not int:
        return "", ""
    numbers = [p.numel() for p in Encoder(*SIZES, 0.0, 0.0).layers[0].parameters()]
    block = sum(numbers)
    rest = evidence.expected - block
    if evidence.value < evidence.expected:
        return (
            f"The positions, one block and the last norm have {evidence.expected}.",
            "A part is missing, is smaller, or is one with another part. Only the blocks are to be"
            " one: the last norm has numbers of its own.",
        )
    blocks = (evidence.value - rest) / block
    return (
        f"Beside the positions and the last norm these are the numbers of {blocks:.3g} blocks.",
        "It should be 1, whatever num_layers is: attention, MLP and norms of one block, in all"
        " places.",
    )


def more(answer: Any) -> str:
    """Where the layers are blocks of their own: whether they are copies, or those of the parent."""
    sizes = (*SIZES, 0.0, 0.0)
    torch.default_generator.manual_seed(0)
    made = answer(*sizes)
    if len(list(made.layers.parameters())) < SIZES[1] * len(list(made.layers[0].parameters())):
        return "shared"
    starts = {next(block.parameters()).data_ptr() for block in made.layers}
    if len(starts) < len(made.layers):
        return "parameters of their own in one memory"
    if _same_numbers([block.state_dict() for block in made.layers]):
        return "copies"
    torch.default_generator.manual_seed(0)
    parents = answer.__bases__[0](*sizes)
    return "untouched" if _same_numbers([made.state_dict(), parents.state_dict()]) else "new"


def _same_numbers(states: list[dict[str, torch.Tensor]]) -> bool:
    first, *others = states
    for other in others:
        for name, value in first.items():
            if name not in other or not torch.equal(value, other[name]):
                return False
    return True


NAMED = {"self_attention": "attention", "mlp": "MLP"}


def _shared(part: str) -> str:
    return f"self.layers[i].{part} = self.layers[0].{part}"


SHARE = "self.layers[i] = self.layers[0]"
COUNT = "range(1, len(self.layers))"

SLIPS = (
    Slip(
        {SHARE: "self.layers[i] = copy.deepcopy(self.layers[0])"},
        "give each layer a copy of the block",
        "Equal numbers are not enough: parameters of several blocks count several times. Put one"
        " and the same object into all places",
    ),
    Slip(
        {
            SHARE: (
                "pairs = zip(self.layers[i].parameters(), self.layers[0].parameters())\n"
                "            for own, first in pairs:\n"
                "                own.data = first.data"
            )
        },
        "share the memory of the numbers, as own.data = first.data does, between parameters that"
        " stay several",
        "Each still counts, and has a gradient of its own. Put one and the same block into all"
        " places: self.layers[i] = self.layers[0]",
    ),
    Slip(
        {
            SHARE: (
                "pass\n\n"
                "    def forward(self, input):\n"
                "        x = self.dropout(input + self.pos_embedding)\n"
                "        for _ in self.layers:\n"
                "            x = self.layers[0](x)\n"
                "        return self.ln(x)"
            )
        },
        "leave all places the blocks that MyEncoder gave them, and run the first again and again",
        "The others are still there, and count. forward stays as it is: put the first block into"
        " all places, self.layers[i] = self.layers[0]",
    ),
    Slip(
        {COUNT: "range(1, len(self.layers), 2)", SHARE: "self.layers[i] = self.layers[i - 1]"},
        "share a block between two neighbours each",
        "All places are to hold the same block",
    ),
    Slip(
        {SHARE: "self.layers[i] = type(self.layers[0])(*sizes[2:], **options)"},
        "give each layer a new block of its own",
        "Parameters of several blocks count several times. Put one and the same object into all"
        " places",
    ),
    Slip(
        {SHARE: "block = self.layers[0]"},
        "leave all layers the blocks that MyEncoder gave them",
        "Write into the places: self.layers[i] = self.layers[0]. A line such as block = shared only"
        " gives the object another name",
    ),
    Slip(
        {SHARE: "self.layers[i].mlp = self.layers[0].mlp"},
        "share the MLP alone",
        "The attention and the norms of all layers are to be the same, too",
    ),
    Slip(
        {SHARE: "self.layers[i].self_attention = self.layers[0].self_attention"},
        "share the attention alone",
        "The MLP and the norms of all layers are to be the same, too",
    ),
    Slip(
        {
            SHARE: (
                "self.layers[i].ln_1, self.layers[i].ln_2 = self.layers[0].ln_1,"
                " self.layers[0].ln_2"
            )
        },
        "share the norms alone",
        "The attention and the MLP of all layers are to be the same, too",
    ),
    *(
        Slip(
            {COUNT: count, SHARE: share},
            "share the first two layers alone",
            "All of them are to be the same block",
        )
        for count, share in (
            ("range(1, 2)", SHARE),
            ("range(1, len(self.layers))[:1]", SHARE),
            ("range(1)", "self.layers.encoder_layer_1 = self.layers.encoder_layer_0"),
        )
    ),
    *(
        Slip(
            {SHARE: "\n            ".join(_shared(part) for part in parts)},
            f"share {' and '.join(NAMED.get(part, part) for part in parts)}, and leave each layer"
            f" {what} of its own",
            "The layers are to be the same block, with all that is in it",
        )
        for parts, what in (
            (("self_attention", "mlp"), "norms"),
            (("self_attention", "ln_1", "ln_2"), "an MLP"),
            (("mlp", "ln_1", "ln_2"), "an attention"),
        )
    ),
    Slip(
        {COUNT: "range(1, len(self.layers) - 1)"},
        "leave the last layer a block of its own",
        "All of them are to be the same block",
    ),
    Slip(
        {SHARE: f"{SHARE}\n        self.ln = self.layers[0].ln_2"},
        "share a norm of the block with the encoder's last norm, too",
        "self.ln is no part of a layer: it keeps its own numbers",
    ),
)

EXERCISE = Exercise(
    answer=MySharedBlock,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    more=more,
    hints=(
        (
            "After super().__init__(…) your encoder has num_layers blocks. Which line puts the"
            " first of them into the place of the second? What does a name in Python hold after"
            " b = a: a copy, or the same object?"
        ),
        (
            "self.layers[i] = self.layers[0] in a loop over the other places. Nothing else changes:"
            " forward runs the layers one after the other, as before."
        ),
    ),
    same=(
        {COUNT: "range(len(self.layers))", SHARE: "self.layers[i] = self.layers[-1]"},
        {SHARE: 'setattr(self.layers, f"encoder_layer_{i}", self.layers[0])'},
    ),
)
