"""Exercise: register tokens (Darcet et al. 2023) in a Vision Transformer that is there already."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer
from mnist_vit.model import VisionTransformer as MyVisionTransformer

from ..checking import (
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    gradients,
    make,
    random,
    randomise,
    start_values,
)
from .vision_transformer import drops_before_the_blocks


class MyRegisters(MyVisionTransformer):
    """MyVisionTransformer with register tokens between the class token and the patches."""

    def __init__(self, *sizes, registers=2, **options):
        super().__init__(*sizes, **options)
        noise = torch.randn(1, registers, self.class_token.shape[2])
        self.register_tokens = nn.Parameter(0.02 * noise)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(len(x), -1, -1)
        x = torch.cat([token, x], dim=1)
        x = self.encoder.dropout(x + self.encoder.pos_embedding)
        # the registers come after the addition, so they need no position
        registers = self.register_tokens.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        x = self.encoder.layers(x)
        x = self.encoder.ln(x)
        return self.heads(x[:, 0])


SIZES = (12, 4, 2, 2, 8, 16)
OPTIONS: dict[str, Any] = {"num_classes": 5, "in_channels": 2, "dropout": 1.0}


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """The weights of a model without registers fit; then values, and what the blocks are given."""
    weights = randomise(VisionTransformer(*SIZES, **OPTIONS), seed=6).state_dict()
    module = make(answer, *SIZES, registers=3, **OPTIONS)
    _load(module, weights)
    shape = tuple(module.register_tokens.shape)
    if shape != (1, 3, 8):
        raise Mistake(
            f"with registers=3 and hidden_dim=8, register_tokens has the shape {shape}.",
            "There must be hidden_dim numbers for each register: (1, registers, hidden_dim).",
        )
    with torch.no_grad():
        module.register_tokens.copy_(random(1, 3, 8, seed=8))
    module.eval()
    images = random(3, 2, 12, 12, seed=7).requires_grad_()
    logits = module(images)
    yield "output with three registers", logits
    parts = {"register_tokens": module.register_tokens, "class_token": module.class_token}
    parts["pos_embedding"] = module.encoder.pos_embedding
    yield from gradients(logits, images=images, **parts)
    yield "tokens that the first block is given", _given_to_blocks(module, images.detach())
    yield drops_before_the_blocks(module, images.detach())
    yield "output in train mode", module.train()(images.detach())
    given = _given_to_blocks(module, images.detach())
    yield "tokens that the first block is given, in train mode with dropout 1", given
    none = make(answer, *SIZES, registers=0, **OPTIONS)
    _load(none, weights)
    yield "output without registers", none.eval()(images.detach())
    wide = {**OPTIONS, "representation_size": 7}
    weights = randomise(VisionTransformer(*SIZES, **wide), seed=5).state_dict()
    deeper = make(answer, *SIZES, registers=0, **wide)
    _load(deeper, weights)
    yield "output with representation_size=7", deeper.eval()(images.detach())
    large = (16, 8, 1, 2, 64, 64)
    reference = MyRegisters(*large, registers=64, **OPTIONS)
    made = make(answer, *large, registers=64, **OPTIONS)
    yield start_values(made, reference, "Registers start as encoder.pos_embedding does.")


def _load(module: Any, weights: dict[str, Tensor]) -> None:
    """Load weights of a model without registers. Mistake if more than the registers is missing."""
    if not isinstance(module, nn.Module):
        raise Mistake(f"an nn.Module is needed, but this is a {type(module).__name__}.")
    try:
        missing, unknown = module.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        first = str(error).partition("\n\t")[2].partition("\n")[0]
        raise Mistake(
            f"weights of a model without registers do not fit: {first}",
            "Registers have no position, so all other tensors must keep their shapes.",
        ) from None
    own = getattr(module, "register_tokens", None)
    if not missing and not unknown and isinstance(own, Tensor):
        raise Mistake(
            "self.register_tokens is a plain tensor, which no optimizer is given.",
            "They are learned: self.register_tokens = nn.Parameter(…).",
        )
    if missing != ["register_tokens"] or unknown:
        new = [name for name in missing if name != "register_tokens"]
        told = []
        if unknown:
            told.append(f"lacks {_some(unknown)} of a model without registers")
        if len(new) == len(missing):
            told.append("has no parameter register_tokens")
        if new:
            told.append(f"has {_some(new)}, which should not be there")
        raise Mistake(
            f"your model {' and '.join(told)}.",
            "register_tokens must be new, and nothing else.",
        )


def _some(names: list[str]) -> str:
    """The first names, and how many more there are."""
    said = ", ".join(names[:5])
    return f"{said} and {len(names) - 5} more" if len(names) > 5 else said


def _given_to_blocks(module: Any, images: Tensor) -> Tensor:
    """The tokens with which the first block is called."""
    seen: list[Tensor] = []
    block = next(iter(module.encoder.layers.children()))
    hook = block.register_forward_pre_hook(lambda block, given: seen.append(given[0].detach()))
    try:
        module(images)
    finally:
        hook.remove()
    if not seen:
        raise Mistake("the first of the encoder's blocks is not called.")
    return seen[0]


def notice(answer: Any) -> Mistake | None:
    """Which tokens the first block is given, where the model itself is not right."""
    weights = randomise(MyRegisters(*SIZES, registers=3, **OPTIONS), seed=6)
    module = make(answer, *SIZES, registers=3, **OPTIONS)
    copy_weights(weights, module)
    images = random(3, 2, 12, 12, seed=7)
    own = _given_to_blocks(module.eval(), images)
    right = _given_to_blocks(weights.eval(), images)
    if own.shape != right.shape:
        return Mistake(
            f"Of 9 patches and 3 registers the first block is given {tuple(own.shape)}, and should"
            f" be given {tuple(right.shape)}.",
            "(n, 13, 8) are, for each of the n pictures, the class token, the registers, and the"
            " patches.",
        )
    places = {"the class token": slice(0, 1), "the registers": slice(1, 4)}
    places["the patches"] = slice(4, 13)
    wrong = [
        name
        for name, place in places.items()
        if not torch.allclose(own[:, place], right[:, place], atol=1e-5)
    ]
    if not wrong:
        return None
    told = f"{', '.join(wrong[:-1])} and {wrong[-1]}" if len(wrong) > 1 else wrong[0]
    said = f"Of what the first block is given these are not right: {told}."
    if len(wrong) < 3:
        rest = " and ".join(name for name in places if name not in wrong)
        said = f"Of what the first block is given, {rest} are right, and not {told}."
        if rest == "the class token":
            said = f"Of what the first block is given, the class token is right, and not {told}."
    return Mistake(
        said,
        "Token 0 is the class token with its position, 1 to 3 are the registers as they are, 4 to"
        " 12 the patches with theirs.",
    )


PLACES = "x = self.encoder.dropout(x + self.encoder.pos_embedding)"
REGISTERS = "registers = self.register_tokens.expand(len(x), -1, -1)"
JOIN = "x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)"
BLOCKS = "x = self.encoder.layers(x)"
NORM = "x = self.encoder.ln(x)"
END = "self.heads(x[:, 0])"

SLIPS = (
    Slip(
        {JOIN: "x = torch.cat([x, registers], dim=1)"},
        "put the registers behind the patches",
        (
            "In eval mode the logits are the same. But whoever draws maps takes the last tokens"
            " for the patches: the registers stand between the class token and the patches"
        ),
    ),
    Slip(
        {JOIN: "x = torch.cat([registers, x], dim=1)"},
        "put the registers first, so that a register goes to the heads",
        "The class token stays token 0",
    ),
    Slip(
        {JOIN: "x = torch.cat([registers, x], dim=1)", END: "self.heads(x[:, registers.shape[1]])"},
        "put the registers in front of the class token",
        (
            "In eval mode the logits are the same. But others take token 0 for the class token:"
            " it stays there"
        ),
    ),
    Slip(
        {
            PLACES: "x = x + self.encoder.pos_embedding",
            JOIN: ("x = self.encoder.dropout(torch.cat([x[:, :1], registers, x[:, 1:]], dim=1))"),
        },
        "apply the encoder's dropout to the registers, too",
        "They join the sequence after it, as they are",
    ),
    Slip(
        {JOIN: "x = torch.cat([x, registers, x[:, 1:]], dim=1)"},
        "put all tokens before the registers, and the patches behind them once more",
        "Before the registers stands the class token alone: x[:, :1]",
    ),
    Slip(
        {JOIN: "x = torch.cat([x[:, :1], registers, x], dim=1)"},
        "put the class token before the registers and behind them",
        "Behind the registers stand the patches alone: x[:, 1:]",
    ),
    Slip(
        {JOIN: "x = torch.cat([registers, x[:, 1:]], dim=1)"},
        "put the registers in the place of the class token",
        "The class token stays token 0, and the registers follow it",
    ),
    Slip(
        {
            JOIN: "",
            BLOCKS: (
                "for block in self.encoder.layers:\n"
                "            x = block(torch.cat([x[:, :1], registers, x[:, 1:]], dim=1))\n"
                "            x = torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)"
            ),
        },
        "give each block register_tokens anew, and throw away what the block before made of them",
        "They join once, before the first block, and go through all blocks as the other tokens do",
    ),
    Slip(
        {
            JOIN: "",
            BLOCKS: (
                "for block in self.encoder.layers:\n"
                "            x = block(torch.cat([x[:, :1], registers, x[:, 1:]], dim=1))"
            ),
        },
        "put register_tokens into the sequence once more before each block",
        "They join once, before the first block",
    ),
    Slip(
        {
            BLOCKS: (
                "for number, block in enumerate(self.encoder.layers):\n"
                "            x = block(x)\n"
                "            if number == 0:\n"
                "                x = torch.cat([x[:, :1], x[:, 1 + registers.shape[1] :]], dim=1)"
            )
        },
        "throw the registers away behind the first block",
        "They go through all blocks; only the class token is read at the end",
    ),
    Slip(
        {
            REGISTERS: (
                "registers = self.register_tokens + self.encoder.pos_embedding[:, :1]\n"
                "        registers = registers.expand(len(x), -1, -1)"
            )
        },
        "add the class token's position to the registers, too",
        "They join the sequence behind the positions, as they are",
    ),
    Slip(
        {REGISTERS: "registers = self.register_tokens"},
        "join the registers without expanding them to the n pictures",
        "self.register_tokens.expand(n, -1, -1) makes n of them",
    ),
    Slip(
        {PLACES: "x = self.encoder.dropout(x)"},
        "leave out the positions",
        "self.encoder(x) would add them; who calls its parts must do that, too",
    ),
    Slip(
        {PLACES: "x = x + self.encoder.pos_embedding"},
        "leave out the encoder's dropout",
        "It follows the positions",
    ),
    Slip(
        {BLOCKS: "for block in self.encoder.layers:\n            block(x)"},
        "call the blocks and go on with the tokens from before them",
        "Each block gives new tokens, and the next one takes them: x = block(x), or x ="
        " self.encoder.layers(x)",
    ),
    Slip({NORM: ""}, "leave out the encoder's last norm", "It follows the blocks"),
    Slip(
        {REGISTERS: "registers = self.register_tokens.detach().expand(len(x), -1, -1)"},
        "cut the registers off from the gradients",
        "They are learned",
    ),
    Slip(
        {END: "self.heads.head(x[:, 0])"},
        "call the last layer of the class head alone",
        "With representation_size the class head has two layers, and tanh between them: call"
        " self.heads",
    ),
    Slip(
        {END: "self.heads(x[:, 1])"},
        "give the heads token 1, a register",
        "The class token is token 0: x[:, 0]",
    ),
    Slip(
        {PLACES: "x = self.encoder.dropout(x) + self.encoder.pos_embedding"},
        "apply the encoder's dropout before the positions are added",
        "The positions come first, and dropout follows: self.encoder.dropout(x +"
        " self.encoder.pos_embedding)",
    ),
    Slip(
        {END: "self.heads(x.mean(dim=1))"},
        "take the mean over all tokens, before or after the heads",
        "Give the heads the class token alone: x[:, 0]",
    ),
    Slip(
        {END: "self.heads(x[:, : 1 + registers.shape[1]].mean(dim=1))"},
        "take the mean over the class token and the registers, before or after the heads",
        "Give the heads the class token alone: x[:, 0]. The registers are thrown away",
    ),
    Slip(
        {JOIN: "x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1) if False else x"},
        "make the registers and never use them",
        "The blocks are to see them",
    ),
)

EXERCISE = Exercise(
    answer=MyRegisters,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "self.encoder(x) adds the positions and calls the blocks in one go, and the registers"
            " must come in between. Which four steps does your encoder's forward have?"
        ),
        (
            "Make the sequence as before, add self.encoder.pos_embedding, and apply"
            " self.encoder.dropout. Then torch.cat of token 0, the registers (expanded to the n"
            " pictures), and the other tokens. Then self.encoder.layers, self.encoder.ln, and the"
            " heads on token 0."
        ),
    ),
    same=(
        {REGISTERS: "registers = self.register_tokens.repeat(x.shape[0], 1, 1)"},
        {NORM: "x = self.encoder.ln(x[:, :1])"},
    ),
    tolerance=1e-5,
)
