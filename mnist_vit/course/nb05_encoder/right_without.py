"""Exercise: what a trained model still gets right while one of its parameters is zero."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Evidence, Exercise, Mistake, Slip, random, randomise
from ..checking.tools import hooks_left
from ..observing.reacting import listed


def my_right_without(model, parameter, images, labels):
    """How many images the model classifies correctly while the parameter is zero."""
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.zero_()
        right = (model(images).argmax(dim=1) == labels).sum().item()
        parameter.copy_(kept)
    return right


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Four parameters, one after the other: what is not put back after one shows in the next."""
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 12, num_classes=3, in_channels=1)).eval()
    images = random(IMAGES, 1, 8, 8)
    block = model.encoder.layers[0]
    with torch.no_grad():  # two parameters of the same numbers are two
        block.ln_1.weight.copy_(block.ln_2.weight)
    labels = model(images).argmax(dim=1)
    labels[::3] = (labels[::3] + 1) % 3  # right before: 40 of 60
    own = dict(model.named_parameters())
    for one in own.values():
        one.grad = torch.ones_like(one)
    for name, mode in (
        ("encoder.pos_embedding", "eval"),
        ("class_token", "train"),
        ("encoder.layers.encoder_layer_0.mlp.0.weight", "eval"),  # 1 everywhere is not 0 here
        ("encoder.layers.encoder_layer_0.ln_2.weight", "eval"),  # others of its shape come before
    ):
        parameter = model.get_parameter(name)
        model.train(mode == "train")
        count = answer(model, parameter, images, labels)
        yield f"images right without {name}", count
        yield f"{name} afterwards", parameter.detach().clone()
        if model.training != (mode == "train"):
            other = "eval" if mode == "train" else "train"
            raise Mistake(
                f"the model came in {mode} mode, and is in {other} mode afterwards.",
                "model.training is True in train mode: keep it, and set it back with"
                " model.train(kept).",
            )
        new = [key for key, one in model.named_parameters() if one is not own[key]]
        if new:
            raise Mistake(
                f"{listed(new)} of the model is another nn.Parameter afterwards, whatever"
                " numbers it holds.",
                "Who holds the old one, such as an optimizer, would change that one: write into the"
                " parameter that is given, parameter.zero_() and parameter.copy_(…).",
            )
        if not all(one.grad is not None and (one.grad == 1).all() for one in model.parameters()):
            raise Mistake(
                "the model came with a .grad in each parameter, and has another one or none"
                " afterwards.",
                "Somebody may be about to use it: under torch.no_grad() nothing writes into .grad,"
                " and zero_grad() is not needed.",
            )
        if left := hooks_left(model):
            raise Mistake(
                f"the model has {left} afterwards, and had none before.",
                "The next experiment runs with it, too: keep the handle, and remove() it.",
            )
        frozen = [key for key, one in model.named_parameters() if not one.requires_grad]
        if frozen:
            others = f" and {len(frozen) - 1} more" if len(frozen) > 1 else ""
            raise Mistake(
                f"{frozen[0]}{others} would not learn any more: requires_grad is False now.",
                "Leave requires_grad as it was; torch.no_grad() is enough.",
            )
    now = [one.detach().flatten() for one in model.parameters()]
    yield "the other parameters afterwards", torch.cat(now)


def more(answer: Any) -> list[Any]:
    """How many of other images, without each parameter of another model."""
    options: dict[str, Any] = {"num_classes": 5, "in_channels": 1}
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 12, **options), seed=3).eval()
    images = random(200, 1, 8, 8, seed=4)
    labels = model(images).argmax(dim=1)
    labels[::3] = (labels[::3] + 1) % 5
    counts = []
    for parameter in model.parameters():
        counts.append(round(float(answer(model, parameter, images, labels)), 4))
    return counts


def notice(answer: Any) -> Mistake | None:
    """How many images the model gets while the answer runs, and what the parameter is then."""
    for name in ("encoder.pos_embedding", "encoder.layers.encoder_layer_0.mlp.0.weight"):
        if (seen := _seen(answer, name)) is not None:
            return seen
    return None


def _seen(answer: Any, name: str) -> Mistake | None:
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 12, num_classes=3, in_channels=1)).eval()
    images = random(IMAGES, 1, 8, 8)
    labels = model(images).argmax(dim=1)
    states: list[Tensor] = []
    counts: list[int] = []

    def look(module: nn.Module, given: tuple[Any, ...]) -> None:
        states.append(module.get_parameter(name).detach().clone())
        counts.append(len(given[0]))

    with model.register_forward_pre_hook(look):
        answer(model, model.get_parameter(name), images, labels)
    silent = [number for number, state in zip(counts, states, strict=True) if not state.any()]
    if not counts:
        return None
    if not silent:
        largest = max(float(state.abs().max()) for state in states)
        return Mistake(
            f"While your code runs the model, {name}, given to it, is not zero everywhere: it holds"
            f" numbers up to {largest:.2g}.",
            "parameter.zero_(), under torch.no_grad(), sets all of it to zero before the model"
            " runs.",
        )
    if sum(silent) < IMAGES:
        return Mistake(
            f"While the parameter is zero, your code gives the model {sum(silent)} of"
            f" {IMAGES} images.",
            "Count over all images that are given. In batches the last one is often smaller.",
        )
    return None


def tell(evidence: Evidence) -> tuple[str, str]:
    """What else this number is."""
    count = evidence.value
    if isinstance(count, Tensor | np.generic) and count.ndim == 0:
        count = count.item()
    is_number = type(count) in (int, float)
    if not evidence.what.startswith("images right") or not is_number:
        return "", ""
    said = ""
    if count < 0:
        said = "A number of images is not below 0."
    elif count != int(count):
        said = "A number of images is a whole number."
    elif count > IMAGES:
        said = f"There are {IMAGES} images."
    elif count == IMAGES:
        said = f"That is the number of all images; {evidence.expected} are right."
    return said, (
        "Count how often argmax(dim=1) of the logits is the label, while the parameter is zero and"
        " all others are as they were."
    )


IMAGES = 60

ZERO, BACK = "parameter.zero_()", "parameter.copy_(kept)"
COUNT = "(model(images).argmax(dim=1) == labels).sum().item()"

SLIPS = (
    Slip(
        {ZERO: ""},
        "count with the parameter as it is",
        "The parameter must be zero in the model that counts, and while it counts: write the old"
        " numbers back afterwards, and count with the given model. A copy of it has parameters of"
        " its own, and parameter = torch.zeros(…) only gives the name to another tensor",
    ),
    Slip(
        {BACK: ""},
        "leave the parameter at zero",
        "What you write back must be a copy, made by clone(): the tensor itself, its .data or its"
        " .detach() becomes zero with it. Write it into the parameter, parameter.copy_(kept)",
    ),
    Slip(
        {
            "kept = parameter.detach().clone()": (
                "others = model.parameters()\n"
                "    found = next(one for one in others if one.shape == parameter.shape)\n"
                "    kept = found.detach().clone()"
            ),
            ZERO: "found.zero_()",
            BACK: "found.copy_(kept)",
        },
        "zero the first parameter of the model that has this shape",
        "Several have the same shape. Zero the very tensor that is given, parameter.zero_(); in a"
        " copy find it by its name: that of the one of model.named_parameters() that `is` it",
    ),
    Slip(
        {
            ZERO: (
                "others = [one for one in model.parameters() if one.shape == kept.shape]\n"
                "        others = [one for one in others if torch.equal(one, kept)]\n"
                "        for one in others:\n            one.zero_()"
            ),
            BACK: "for one in others:\n            one.copy_(kept)",
        },
        "zero every parameter that holds the same numbers, as one that is looked for by its values"
        " does",
        "Two parameters may hold equal numbers, such as the ones of new norms. Zero the very tensor"
        " that is given, parameter.zero_(); in a copy find it by its name: that of the one of"
        " model.named_parameters() that `is` it",
    ),
    Slip(
        {
            ZERO: (
                "others = [one for one in model.parameters() if one.shape == kept.shape]\n"
                "        numbers = [one.clone() for one in others]\n"
                "        for one in others:\n            one.zero_()"
            ),
            BACK: (
                "for one, old in zip(others, numbers, strict=True):\n            one.copy_(old)"
            ),
        },
        "zero every parameter of this shape",
        "Several have the same shape. Zero the very tensor that is given, parameter.zero_()",
    ),
    Slip(
        {ZERO: "parameter.fill_(1)"},
        "fill the parameter with ones",
        "It is to be zero everywhere, parameter.zero_()",
    ),
    Slip(
        {ZERO: "for one in model.parameters():\n            one.zero_()"},
        "set all parameters to zero",
        "Only the one that is given is to be",
    ),
    Slip(
        {COUNT: "(model(images).argmax(dim=1) == labels).float().mean().item()"},
        "return the share",
        "The number of images is asked for, .sum() of the comparison",
    ),
    Slip(
        {COUNT: "100 * (model(images).argmax(dim=1) == labels).float().mean().item()"},
        "return percent",
        "The number of images is asked for, .sum() of the comparison",
    ),
    Slip(
        {COUNT: "(model(images).argmax(dim=1) != labels).sum().item()"},
        "count the images that are wrong",
        "Return how many predictions equal their labels",
    ),
    Slip(
        {ZERO: "parameter[:, 1:] = 0"},
        "write zeros into parameter[:, 1:] alone",
        "All of it is to be zero",
    ),
    Slip(
        {ZERO: "", BACK: "parameter.zero_()"},
        "count with a model whose parameter is as it was, such as a copy, and leave the one given"
        " at zero",
        (
            "Count with the model in which the parameter is zero, and write the old numbers back"
            " afterwards"
        ),
    ),
    Slip(
        {"return right": "return (model(images).argmax(dim=1) == labels).sum().item() - right"},
        "return how many images are lost",
        "Return how many are still right",
    ),
    Slip(
        {
            ZERO: "model.encoder.pos_embedding.zero_()",
            BACK: "model.encoder.pos_embedding.copy_(kept)",
        },
        "zero the position embedding, whichever parameter is given",
        "Zero `parameter`",
    ),
    Slip(
        {
            "kept = parameter": "seen = model(images).argmax(dim=1)\n    kept = parameter",
            COUNT: "(model(images).argmax(dim=1) == seen).sum().item()",
        },
        "count the predictions that stay the same without the parameter",
        "A prediction is right if it is the label's: compare with labels",
    ),
    Slip(
        {
            "kept = parameter": "seen = model(images).argmax(dim=1)\n    kept = parameter",
            COUNT: "(model(images).argmax(dim=1) != seen).sum().item()",
        },
        "count the predictions that change without the parameter",
        "A prediction is right if it is the label's: compare with labels",
    ),
    Slip(
        {COUNT: "(model(images).argmax(dim=0) == labels).sum().item()"},
        "take argmax over the pictures",
        "The classes are along the last axis, argmax(dim=1)",
    ),
    Slip(
        {COUNT: COUNT.replace("argmax", "argmin")},
        "take the class with the smallest logit, argmin",
        "The prediction is the class with the largest logit: argmax(dim=1)",
    ),
)

EXERCISE = Exercise(
    answer=my_right_without,
    compare=compare,
    stars=2,
    slips=SLIPS,
    more=more,
    notice=notice,
    tell=tell,
    hints=(
        (
            "Four steps: keep a copy of the numbers, write zeros into the tensor that the model"
            " has, count, write the copy back. Which of them must not be seen by autograd?"
        ),
        (
            "parameter.detach().clone() makes a copy. Under with torch.no_grad(): parameter.zero_()"
            " and parameter.copy_(…) write into the model's own tensor."
        ),
    ),
    same=({ZERO: "nn.init.zeros_(parameter)"}, {ZERO: "parameter.mul_(0)"}),
)
