"""Exercises of notebook 05: the encoder, shuffled patches, and position embeddings for another picture size."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import Encoder
from .core import Exercise, Mutant, copy_weights, gradients, make, parameter_gradients, random, randomise

SIZES = (5, 3, 2, 8, 12)  # seq_length, num_layers, num_heads, hidden_dim, mlp_dim


def _run_encoder(answer: Any) -> Iterator[tuple[str, Any]]:
    # dropout p = 1 drops everything: it must show in train mode, and must not in eval mode
    module = make(answer, *SIZES, 1.0, 0.0)
    copy_weights(randomise(Encoder(*SIZES, 1.0, 0.0)), module)
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


def _encoder(change: Callable[[Encoder, Tensor], Tensor]) -> type[Encoder]:
    """An encoder with another forward."""
    return type("MyEncoder", (Encoder,), {"forward": change})


def _position_skipped(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.layers(self.dropout(input)))


def _position_after_dropout(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.layers(self.dropout(input) + self.pos_embedding))


def _position_in_every_layer(self: Encoder, input: Tensor) -> Tensor:
    x = self.dropout(input + self.pos_embedding)
    for i, block in enumerate(self.layers):
        x = block(x if i == 0 else x + self.pos_embedding)
    return self.ln(x)


def _norm_missing(self: Encoder, input: Tensor) -> Tensor:
    return self.layers(self.dropout(input + self.pos_embedding))


def _norm_first(self: Encoder, input: Tensor) -> Tensor:
    return self.layers(self.ln(self.dropout(input + self.pos_embedding)))


def _layers_reversed(self: Encoder, input: Tensor) -> Tensor:
    x = self.dropout(input + self.pos_embedding)
    for block in reversed(list(self.layers)):
        x = block(x)
    return self.ln(x)


def _first_layer_for_all(self: Encoder, input: Tensor) -> Tensor:
    x = self.dropout(input + self.pos_embedding)
    for _ in self.layers:
        x = self.layers[0](x)
    return self.ln(x)


def _first_layer_only(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.layers[0](self.dropout(input + self.pos_embedding)))


def _class_token_without_position(self: Encoder, input: Tensor) -> Tensor:
    patches = input[:, 1:] + self.pos_embedding[:, 1:]
    return self.ln(self.layers(self.dropout(torch.cat([input[:, :1], patches], dim=1))))


def _dropout_missing(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.layers(input + self.pos_embedding))


def _dropout_last(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.dropout(self.layers(input + self.pos_embedding)))


def _dropout_after_norm(self: Encoder, input: Tensor) -> Tensor:
    return self.dropout(self.ln(self.layers(input + self.pos_embedding)))


def _norm_after_every_block(self: Encoder, input: Tensor) -> Tensor:
    x = self.dropout(input + self.pos_embedding)
    for block in self.layers:
        x = self.ln(block(x))
    return x


def _norm_after_every_block_and_last(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(_norm_after_every_block(self, input))


def _only_class_token(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.layers(self.dropout(input + self.pos_embedding)))[:, 0]


def _dropout_always(self: Encoder, input: Tensor) -> Tensor:
    return self.ln(self.layers(F.dropout(input + self.pos_embedding, self.dropout.p)))


def _shuffle_patches(tokens: Tensor, order: Tensor) -> Tensor:
    return torch.cat([tokens[:, :1], tokens[:, 1:][:, order]], dim=1)


def _run_shuffle(answer: Any) -> Iterator[tuple[str, Any]]:
    tokens = random(3, 7, 4).requires_grad_()
    # one round through all six, so that the order and its inverse differ at every place
    shuffled = answer(tokens, torch.tensor([2, 0, 3, 5, 1, 4]))
    yield "output", shuffled
    yield from gradients(shuffled, tokens=tokens)
    yield "output for four patches", answer(random(1, 5, 3, seed=1), torch.tensor([3, 1, 0, 2]))


def _class_token_counted(tokens: Tensor, order: Tensor) -> Tensor:
    return torch.cat([tokens[:, :1], tokens[:, order]], dim=1)


def _last_kept(tokens: Tensor, order: Tensor) -> Tensor:
    return torch.cat([tokens[:, order], tokens[:, -1:]], dim=1)


def _inverse_order(tokens: Tensor, order: Tensor) -> Tensor:
    return _shuffle_patches(tokens, order.argsort())


def _class_token_last(tokens: Tensor, order: Tensor) -> Tensor:
    return torch.cat([tokens[:, 1:][:, order], tokens[:, :1]], dim=1)


def _class_token_lost(tokens: Tensor, order: Tensor) -> Tensor:
    return tokens[:, 1:][:, order]


def _class_token_lost_and_counted(tokens: Tensor, order: Tensor) -> Tensor:
    return tokens[:, order]


def _unchanged(tokens: Tensor, order: Tensor) -> Tensor:
    return tokens.clone()


def _resize_positions(pos_embedding: Tensor, grid: int) -> Tensor:
    return _resize(pos_embedding, grid)


def _resize(
    pos_embedding: Tensor, grid: int, mode: str = "bicubic", align_corners: bool | None = True, **wrong: bool
) -> Tensor:
    """The right answer, or one with something ``wrong`` in it."""
    token, patches = pos_embedding[:, :1], pos_embedding[:, 1:]
    length, width = patches.shape[1:]
    old = math.isqrt(length)
    # (1, old * old, width) -> (1, width, old, old)
    maps = patches.permute(0, 2, 1).reshape(1, width, old, old)
    if wrong.get("reshape_in"):
        maps = patches.reshape(1, width, old, old)
    if wrong.get("transpose"):
        maps = maps.transpose(2, 3)
    maps = F.interpolate(maps, size=(grid, grid), mode=mode, align_corners=align_corners)
    # (1, width, grid, grid) -> (1, grid * grid, width)
    patches = maps.flatten(2).permute(0, 2, 1)
    if wrong.get("reshape_out"):
        patches = maps.reshape(1, grid * grid, width)
    token = torch.zeros_like(token) if wrong.get("no_token") else token
    if wrong.get("token_lost"):
        return patches
    return torch.cat([patches, token] if wrong.get("token_last") else [token, patches], dim=1)


def _wrong(mode: str = "bicubic", align_corners: bool | None = True, **wrong: bool) -> Callable[[Tensor, int], Tensor]:
    return lambda pos_embedding, grid: _resize(pos_embedding, grid, mode, align_corners, **wrong)


def _line(pos_embedding: Tensor, length: int) -> Tensor:
    """Interpolated along the sequence, as if the tokens stood in one row."""
    stretched = F.interpolate(pos_embedding.permute(0, 2, 1), size=length, mode="linear", align_corners=True)
    return stretched.permute(0, 2, 1)


def _all_in_a_line(pos_embedding: Tensor, grid: int) -> Tensor:
    return _line(pos_embedding, 1 + grid * grid)


def _patches_in_a_line(pos_embedding: Tensor, grid: int) -> Tensor:
    return torch.cat([pos_embedding[:, :1], _line(pos_embedding[:, 1:], grid * grid)], dim=1)


def _run_resize(answer: Any) -> Iterator[tuple[str, Any]]:
    pos_embedding = random(1, 10, 5, dtype=torch.float64).requires_grad_()
    larger = answer(pos_embedding, 5)
    yield "output (3 × 3 patches to 5 × 5)", larger
    yield from gradients(larger, pos_embedding=pos_embedding)
    yield "output (4 × 4 patches to 2 × 2)", answer(random(1, 17, 3, seed=1), 2)


EXERCISES: tuple[Exercise, ...] = (
    Exercise(
        name="encoder",
        answer="MyEncoder",
        stars=2,
        reference=Encoder,
        run=_run_encoder,
        mutants=(
            Mutant(
                _encoder(_position_skipped),
                "leave the position embedding out: equation 1 adds it to the tokens before anything else",
            ),
            Mutant(
                _encoder(_position_after_dropout),
                "add the position embedding after the dropout: add it first, so that positions are dropped as well",
            ),
            Mutant(
                _encoder(_position_in_every_layer),
                "add the position embedding again before every block: equation 1 adds it once, before the first",
            ),
            Mutant(_encoder(_norm_missing), "leave out the last norm: equation 4 is self.ln, after all blocks"),
            Mutant(
                _encoder(_norm_first),
                "apply self.ln before the blocks: each block normalises its own input, and self.ln comes last",
            ),
            Mutant(
                _encoder(_norm_after_every_block),
                "apply self.ln after every block: it comes once, after the last; each block has norms of its own",
            ),
            Mutant(
                _encoder(_norm_after_every_block_and_last),
                "apply self.ln after every block and then once more: it comes once, after the last block",
            ),
            Mutant(
                _encoder(_only_class_token),
                "return the class token alone: the paper keeps token 0 only here, in equation 4, "
                "the encoder returns all tokens",
            ),
            Mutant(_encoder(_layers_reversed), "run the blocks from the last to the first: encoder_layer_0 goes first"),
            Mutant(
                _encoder(_first_layer_for_all),
                "run the first block again and again: the blocks have the same form, but parameters of their own",
            ),
            Mutant(_encoder(_first_layer_only), "run the first block only: the tokens go through all of self.layers"),
            Mutant(
                _encoder(_class_token_without_position),
                "add positions to the patches only: the class token has a position too, the first",
            ),
            Mutant(
                _encoder(_dropout_missing),
                "leave out self.dropout: it stands between the addition and the first block",
            ),
            Mutant(
                _encoder(_dropout_last),
                "apply self.dropout after the blocks: it stands between the addition and the first block",
            ),
            Mutant(
                _encoder(_dropout_after_norm),
                "apply self.dropout at the very end: it stands between the addition and the first block",
            ),
            Mutant(
                _encoder(_dropout_always),
                "drop in eval mode too: self.dropout(x) knows the mode, F.dropout(x, p) does not",
            ),
        ),
        hints=(
            "Four steps in one order: add, drop, run the blocks, normalise. Each has its attribute in __init__.",
            "pos_embedding is (1, seq_length, hidden_dim): the plus sign spreads it over the n pictures. "
            "self.layers is an nn.Sequential, so it can be called like a function.",
            "x = self.dropout(input + self.pos_embedding); then x = self.layers(x); then the norm of that.",
        ),
    ),
    Exercise(
        name="shuffle_patches",
        answer="shuffle_patches",
        stars=2,
        reference=_shuffle_patches,
        run=_run_shuffle,
        mutants=(
            Mutant(
                _class_token_counted,
                "count the class token as patch 0: take tokens[:, 1:] first, then put that in order",
            ),
            Mutant(
                _last_kept,
                "set the last token apart instead of the first: the class token is tokens[:, :1]",
            ),
            Mutant(
                _inverse_order,
                "send patch i to place order[i]: place i gets patch order[i], as indexing with [order] does",
            ),
            Mutant(
                _class_token_lost_and_counted,
                "index all the tokens with order and lose the class token: order counts patches only, from 0, "
                "so put tokens[:, 1:] in order and join tokens[:, :1] in front of it",
            ),
            Mutant(
                _class_token_lost,
                "lose the class token: the patches are in the right order, now join tokens[:, :1] in front of them",
            ),
            Mutant(_class_token_last, "put the class token at the end: it stays at the front"),
            Mutant(_unchanged, "return the tokens as they came: index the patches with order"),
        ),
        hints=(
            "Take the class token and the patches apart, put the patches in order, and join the two again.",
            "A tensor of whole numbers can be an index: x[:, order] picks x[:, order[0]], x[:, order[1]] and so on.",
            "patches = tokens[:, 1:][:, order]; then torch.cat of tokens[:, :1] and the patches, along dimension 1.",
        ),
    ),
    Exercise(
        name="resize_positions",
        answer="resize_positions",
        stars=3,
        reference=_resize_positions,
        run=_run_resize,
        mutants=(
            Mutant(
                _all_in_a_line,
                "stretch the whole sequence like one line, class token and all: set the class token apart, "
                "and give the patches back their rows and columns",
            ),
            Mutant(
                _patches_in_a_line,
                "stretch the patches like one long line: give them back their rows and columns first",
            ),
            Mutant(
                _wrong(no_token=True),
                "lose the class token's position (zeros stand there): carry it over unchanged",
            ),
            Mutant(
                _wrong(token_lost=True),
                "return the patches' positions only: the class token's position, set apart before, "
                "must be joined in front of them again",
            ),
            Mutant(_wrong(token_last=True), "put the class token's position at the end: it stays at the front"),
            Mutant(
                _wrong(reshape_in=True, reshape_out=True),
                "only reshape, both before and after: hidden_dim must move in front of the grid by permute, and back",
            ),
            Mutant(
                _wrong(reshape_in=True),
                "reshape without permute before the interpolation: first (1, g * g, d) -> (1, d, g * g)",
            ),
            Mutant(
                _wrong(reshape_out=True),
                "reshape without permute after the interpolation: last (1, d, grid * grid) -> (1, grid * grid, d)",
            ),
            Mutant(_wrong(transpose=True), "swap rows and columns of the grid: the patches are counted row by row"),
            Mutant(
                _wrong(align_corners=False),
                "interpolate with align_corners=False, or without saying it: True keeps the corner patches as they are",
            ),
            Mutant(_wrong("bilinear"), 'interpolate with mode="bilinear": torchvision uses mode="bicubic"'),
            Mutant(
                _wrong("bilinear", False),
                'interpolate with mode="bilinear" and align_corners=False: use mode="bicubic" and align_corners=True',
            ),
            Mutant(
                _wrong("nearest", None),
                'interpolate with mode="nearest", the default: that copies patches; use mode="bicubic"',
            ),
        ),
        hints=(
            "F.interpolate wants pictures, (1, channels, height, width). What are the channels here, what the height?",
            "Three moves: set the class token's row apart; (1, g * g, d) -> (1, d, g * g) -> (1, d, g, g), "
            "interpolate, and the same way back; join. math.isqrt gives g.",
            "maps = pos_embedding[:, 1:].permute(0, 2, 1).reshape(1, d, g, g); F.interpolate(maps, size=(grid, grid), "
            'mode="bicubic", align_corners=True); then .flatten(2).permute(0, 2, 1), and torch.cat both parts.',
        ),
    ),
)
