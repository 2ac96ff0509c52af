"""Exercise: registers (Darcet et al. 2023) as a variant of the encoder."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import Encoder
from mnist_vit.model import Encoder as MyEncoder

from ..checking import Exercise, Mistake, Slip, gradients, make, random, randomise, start_values


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


SIZES = (10, 2, 2, 8, 16, 1.0, 0.0)  # dropout 1: in train mode, all that it is given becomes 0


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """The weights of an encoder without registers fit; then values, and what the blocks get."""
    weights = randomise(Encoder(*SIZES), seed=6).state_dict()
    module = make(answer, *SIZES, registers=3)
    _load(module, weights)
    with torch.no_grad():
        module.register_tokens.copy_(random(1, 3, 8, seed=8))
    module.eval()
    x = random(3, 10, 8, seed=7).requires_grad_()
    out = module(x)
    yield "output with three registers", out
    parts = {"registers": module.register_tokens, "pos_embedding": module.pos_embedding}
    yield from gradients(out, x=x, **parts)
    yield "tokens that the first block is given", _given_to_blocks(module, x.detach())
    yield "output in train mode", module.train()(x.detach())
    what = "tokens that the first block is given in train mode, with a dropout of 1"
    yield what, _given_to_blocks(module, x.detach())
    none = make(answer, *SIZES, registers=0)
    _load(none, weights)
    yield "output without registers", none.eval()(x.detach())
    large = (10, 1, 2, 64, 64, 0.0, 0.0)
    reference = MyRegisterEncoder(*large, registers=64)
    yield start_values(make(answer, *large, registers=64), reference)


def _load(module: Any, weights: dict[str, Tensor]) -> None:
    """Load an encoder's weights. Mistake if more than the registers is missing."""
    if not isinstance(module, nn.Module):
        raise Mistake(f"an nn.Module is needed, but this is a {type(module).__name__}.")
    try:
        missing, unknown = module.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        first = str(error).partition("\n\t")[2].partition("\n")[0]
        raise Mistake(
            f"weights of an encoder without registers do not fit: {first}",
            "Registers have no position, so no tensor changes its shape.",
        ) from None
    if missing != ["register_tokens"] or unknown:
        names = ", ".join([*missing, *unknown][:5]) or "nothing"
        raise Mistake(
            f"beside an encoder without registers, these parameters are missing or new: {names}.",
            "register_tokens alone must be new.",
        )


def _given_to_blocks(module: Any, x: Tensor) -> Tensor:
    """The tokens with which the first block is called."""
    seen: list[Tensor] = []
    block = next(iter(module.layers.children()))
    hook = block.register_forward_pre_hook(lambda block, given: seen.append(given[0].detach()))
    try:
        module(x)
    finally:
        hook.remove()
    if not seen:
        raise Mistake("the encoder's blocks are not called.")
    return seen[0]


ADD = "x = self.dropout(x + self.pos_embedding)"
EXPAND = "registers = self.register_tokens.expand(len(x), -1, -1)"
JOIN = "x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)"
BLOCKS = "x = self.ln(self.layers(x))"
END = "return torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)"

SLIPS = (
    Slip(
        {END: "return x"},
        "leave the registers in the output",
        "Outside nobody knows of them: what comes out is as long as what went in",
    ),
    Slip(
        {END: "return x[:, registers.shape[1] :]"},
        "cut off the first tokens, so that the class token is lost and a register is in its place",
        "The class token stays token 0; the registers behind it go",
    ),
    Slip(
        {END: "return x[:, : len(x[0]) - registers.shape[1]]"},
        "cut off the last tokens, which are patches",
        "The registers stand behind the class token: cut them out there",
    ),
    Slip(
        {
            JOIN: "x = torch.cat([x, registers], dim=1)",
            END: "return x[:, : len(x[0]) - registers.shape[1]]",
        },
        "put the registers behind the patches",
        "The output is the same. But whoever draws maps inside takes the last tokens for the"
        " patches: the registers stand between the class token and the patches",
    ),
    Slip(
        {
            JOIN: "x = torch.cat([registers, x], dim=1)",
            END: "return x[:, registers.shape[1] :]",
        },
        "put the registers in front of the class token",
        "The output is the same. But others take token 0 for the class token: it stays there",
    ),
    Slip(
        {ADD: "x = self.dropout(x)"},
        "leave out the positions",
        "Your encoder's forward added them first; that stays",
    ),
    Slip(
        {ADD: "x = x + self.pos_embedding"},
        "leave out the dropout",
        "It follows the positions, as in your encoder",
    ),
    Slip(
        {
            ADD: "x = x + self.pos_embedding",
            BLOCKS: "x = self.ln(self.layers(self.dropout(x)))",
        },
        "apply the dropout to the registers, too",
        "They come in behind it",
    ),
    Slip({BLOCKS: "x = self.layers(x)"}, "leave out the last norm", "It follows the blocks"),
    Slip(
        {EXPAND: "registers = self.register_tokens.detach().expand(len(x), -1, -1)"},
        "cut the registers off from the gradients",
        "They are learned",
    ),
    Slip(
        {JOIN: "x = x", END: "return x"},
        "make the registers and never use them",
        "The blocks are to see them",
    ),
)

EXERCISE = Exercise(
    answer=MyRegisterEncoder,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        (
            "Your encoder adds positions, applies dropout, the blocks and a norm. Between which two"
            " of them do the registers come in, and where do they leave?"
        ),
        (
            "After the dropout: torch.cat of token 0, the registers (expanded to the n pictures)"
            " and the other tokens. Then self.layers and self.ln. Then torch.cat of token 0 and of"
            " all tokens behind the registers."
        ),
    ),
    same=(
        {EXPAND: "registers = self.register_tokens.repeat(x.shape[0], 1, 1)"},
        {END: "return x[:, [0, *range(1 + registers.shape[1], x.shape[1])]]"},
    ),
    tolerance=1e-5,
)
