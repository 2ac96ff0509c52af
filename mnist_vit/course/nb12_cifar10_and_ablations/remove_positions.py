"""Exercise: take the position embedding out of a model."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Exercise, Mistake, Slip, random, randomise


def my_remove_positions(model: VisionTransformer) -> None:
    "Changes the model that it is given."
    position = model.encoder.pos_embedding
    # Adding zeros changes nothing; without a gradient they stay zeros.
    nn.init.zeros_(position)
    position.requires_grad_(False)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 12, num_classes=3, in_channels=1)).eval()
    expected: Any = copy.deepcopy(model)
    my_remove_positions(expected)
    images = random(2, 1, 8, 8)
    returned = answer(model)
    if isinstance(returned, nn.Module) and returned is not model:
        raise Mistake(
            "another model comes back, and the one that was given is to be changed.",
            "Change it in place; nothing needs to be returned.",
        )
    position = getattr(getattr(model, "encoder", None), "pos_embedding", None)
    if not isinstance(position, Tensor):
        raise Mistake(
            "model.encoder.pos_embedding must stay a tensor: the encoder's forward adds it."
        )
    learn = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}
    kept = learn.pop("encoder.pos_embedding", 0)
    first, *others = position.detach().abs().amax(dim=-1).flatten().tolist()
    is_right = torch.allclose(model(images), expected(images), atol=1e-5)
    if is_right and any((first, *others)):
        raise Mistake(
            "the logits of this model are right, but model.encoder.pos_embedding is not zero.",
            "Set all of it to zero, as nn.init.zeros_ does, and leave the forward as it is.",
        )
    # All of it in one list, so that each mistake has a list of its own.
    yield (
        "the model afterwards",
        [
            f"the class token's position: {'zero' if first == 0 else 'not zero'}",
            f"the patches' positions: {'not zero' if any(others) else 'zero'}",
            f"numbers of the positions with requires_grad: {kept}",
            f"other numbers with requires_grad: {sum(learn.values())}",
        ],
    )
    yield "logits", model(images)


def notice(answer: Any) -> Mistake | None:
    """What no longer learns, and how large the positions are."""
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 12, num_classes=3, in_channels=1))
    answer(model)
    position = model.encoder.pos_embedding
    largest = float(position.detach().abs().max())
    if largest > 0:
        return Mistake(
            f"The largest absolute value in model.encoder.pos_embedding is {largest:.3g}.",
            "Set all of it to zero, as nn.init.zeros_ does, and let it learn no more: what is"
            " subtracted elsewhere leaves its numbers as they are.",
        )
    set_on = [name for name, part in model.named_modules() if "requires_grad" in vars(part)]
    if position.requires_grad and set_on:
        where = f"model.{set_on[0]}" if set_on[0] else "model"
        return Mistake(
            "The positions are zero, and requires_grad is True. Your code sets"
            f" {where}.requires_grad: on a module that is an attribute of which nothing takes"
            " notice.",
            "requires_grad_(False), with the _, of the parameter model.encoder.pos_embedding keeps"
            " it at zero.",
        )
    if position.requires_grad:
        return Mistake(
            "The positions are zero, and requires_grad is True.",
            "requires_grad_(False) of the parameter itself keeps them at zero.",
        )
    frozen = []
    for name, parameter in model.named_parameters():
        if name != "encoder.pos_embedding" and not parameter.requires_grad:
            frozen.append(name)
    if frozen:
        more = f" and {len(frozen) - 2} more" if len(frozen) > 2 else ""
        return Mistake(
            f"These do not learn any more: {', '.join(frozen[:2])}{more}.",
            "Everything but the position embedding must learn as before: call"
            " requires_grad_(False) on that alone.",
        )
    return None


FIND, ZERO, FREEZE = (
    "position = model.encoder",
    "nn.init.zeros_(position)",
    "position.requires_grad_(False)",
)

SLIPS = (
    Slip(
        {FREEZE: ""},
        "set the positions to zero and leave their requires_grad at True",
        "requires_grad_(False) lets no gradient be computed for them, called on the parameter"
        " itself and not on its .data, which is another tensor",
    ),
    Slip(
        {ZERO: ""},
        "freeze the positions as they are",
        "They are still added to every token; set them to zero first",
    ),
    Slip(
        {ZERO: "position.data[:, 1:] = 0"},
        "keep the class token's position",
        "Set all of pos_embedding to zero, the class token's position too",
    ),
    Slip(
        {ZERO: "position.data[:, 0] = 0"},
        "set the class token's position to zero and leave those of the patches",
        "Set all of pos_embedding to zero: the patches' positions tell where things are",
    ),
    Slip(
        {FREEZE: "model.requires_grad_(False)"},
        "freeze the whole model",
        "Only the positions are to stay as they are, and all else has to learn",
    ),
    Slip(
        {FREEZE: "model.encoder.requires_grad_(False)"},
        "freeze the whole encoder",
        (
            "Its blocks and its last norm have to learn; call requires_grad_(False) on the"
            " position embedding alone"
        ),
    ),
    Slip(
        {ZERO: "nn.init.zeros_(position)\n    nn.init.zeros_(model.class_token)"},
        "set the class token to zero too",
        "It is no position",
    ),
    Slip(
        {
            ZERO: (
                "nn.init.zeros_(position)\n   "
                " nn.init.zeros_(model.class_token).requires_grad_(False)"
            )
        },
        "set the class token to zero and freeze it, too",
        "It is no position, and it has to learn",
    ),
    Slip(
        {FIND: "position = copy.deepcopy(model).encoder"},
        "leave model.encoder.pos_embedding as it was",
        "The model that was given is to be changed, not a copy of it, and at this place",
    ),
    Slip(
        {FIND: "model.encoder.pos_embedding = torch.zeros(1)\n    position = model.encoder"},
        "put a plain tensor in the place of a parameter",
        (
            "Make it an nn.Parameter of zeros with requires_grad=False, or set the one that is"
            " there to zero and freeze it"
        ),
    ),
    Slip(
        {FIND: "position = model.class_token; model.encoder"},
        "take the class token for the positions",
        "They are model.encoder.pos_embedding",
    ),
)

EXERCISE = Exercise(
    answer=my_remove_positions,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Two things are needed: what is added to the tokens must be nothing, and it must stay"
            " nothing while the model learns."
        ),
        (
            "The parameter is model.encoder.pos_embedding. nn.init.zeros_ sets a parameter to zero;"
            " requires_grad_(False) takes it away from training."
        ),
    ),
    same=({ZERO: "position.data = torch.zeros_like(position)"},),
)
