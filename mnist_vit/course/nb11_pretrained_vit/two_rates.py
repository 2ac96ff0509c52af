"""Exercise: fine-tuning in which the new head and the trained body learn at rates of their own."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...model import VisionTransformer
from ..checking import Exercise, Mistake, Slip, changed_in, random, state_of
from .transfer import (
    LATER_STEPS,
    ONE_STEP,
    changed_or_gone,
    noticed_number,
    noticed_training,
    refuse_unseen,
)


def my_two_rates(model, images, labels, steps, head_rate, body_rate):
    # a model whose head fits, (n, c, h, w), (n,) -> another model, all of it trained
    model = copy.deepcopy(model)
    model.requires_grad_(True)
    head = list(model.heads.parameters())
    body = [p for name, p in model.named_parameters() if not name.startswith("heads.")]
    groups = [{"params": head, "lr": head_rate}, {"params": body, "lr": body_rate}]
    optimizer = torch.optim.AdamW(groups)
    for _ in range(steps):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    images, labels, others = random(20, 1, 8, 8), torch.arange(20) % 10, random(6, 1, 8, 8, seed=1)
    easy = _easy_labels(images)  # an answer must not stop at a small loss
    cases = (
        (0, (0.1, 0.1), False, labels),
        (5, (0.05, 0.004), False, labels),
        (4, (0.003, 0.02), True, easy),
    )
    for steps, rates, frozen, shown in cases:
        given = _given(frozen)
        before = copy.deepcopy(given.state_dict())
        borrowed = state_of(given)
        made = answer(given, images.clone(), shown.clone(), steps, *rates)
        if made is None:
            yield "the new model", None
            return
        if not isinstance(made, nn.Module):
            raise Mistake(
                f"the answer must return the new model, but it returned {type(made).__name__}."
            )
        case = f"{steps} steps, rates {rates[0]:g} and {rates[1]:g}"
        with torch.no_grad():
            yield f"logits of the new model, {case}", made.eval()(others)
        what = f"tensors of the given model that changed or are gone, {case}"
        yield what, changed_or_gone(before, given)
        yield f"what has changed in the given model, {case}", changed_in(given, borrowed)
    refuse_unseen(two_steps, answer, my_two_rates, _given)


def _easy_labels(images: Tensor) -> Tensor:
    """The classes that the given model predicts."""
    with torch.no_grad():
        return _given(frozen=True)(images).argmax(dim=1)


def two_steps(answer: Any, model: nn.Module) -> nn.Module:
    """What an answer makes of a model in two steps."""
    images, labels = random(20, 1, 8, 8), torch.arange(20) % 10
    return answer(model, images, labels, 2, 0.05, 0.003)


def notice(answer: Any) -> Mistake | None:
    """How far the first step goes in each part: by AdamW, about its learning rate."""
    images, labels = random(20, 1, 8, 8), torch.arange(20) % 10
    before = {name: tensor.detach().clone() for name, tensor in _given().named_parameters()}
    if too_many := noticed_number(
        lambda model: answer(model, images.clone(), labels.clone(), 0, 0.05, 0.003), _given, 0
    ):
        return too_many
    still = answer(_given(), images.clone(), labels.clone(), 0, 0.05, 0.003)
    others = sorted(set(before) ^ set(dict(still.named_parameters())))
    if others:
        return Mistake(
            "The model that comes back has other parameters than the given one:"
            f" {others[0]} is {'missing' if others[0] in before else 'new'}.",
            "It must be a copy of the given one, with its head, that was trained further.",
        )
    for name, tensor in still.named_parameters():
        if not torch.equal(tensor, before[name]):
            return Mistake(
                f"After 0 steps {name} of the new model has other numbers than that of the given"
                " one.",
                "The new model must begin with all numbers of the given one, the head's too.",
            )
    made = answer(_given(), images.clone(), labels.clone(), 1, 0.05, 0.003)
    moved = {
        name: float((tensor.detach() - before[name]).abs().max())
        for name, tensor in made.named_parameters()
    }
    if any(math.isnan(far) for far in moved.values()):
        return noticed_training(two_steps, answer, my_two_rates, _given)
    if not any(moved.values()):
        return Mistake(
            "With steps=1 no parameter of the new model moves, not even those of its head.",
            "The optimizer must hold the parameters of the model that comes back. Each step must"
            " compute that model's loss, call backward() and then step().",
        )
    if all(0.0008 < far < 0.0013 for far in moved.values()):
        return Mistake(
            "With steps=1 and rates 0.05 and 0.003, all parameters, the head's too, move by about"
            " 0.001 at most.",
            "That is AdamW's own rate, so the two rates do not reach AdamW: each group must have"
            ' its rate under the name "lr", and other names are passed over without an error.',
        )
    for name, tensor in dict(made.named_parameters()).items():
        rate = 0.05 if name.startswith("heads.") else 0.003
        far = float((tensor.detach() - before[name]).abs().max())
        if not 0.8 * rate < far < 1.3 * rate:
            return Mistake(
                "With steps=1 and rates 0.05 for the head and 0.003 for the body, the numbers of"
                f" {name} move by {far:.2g} at most.{_known_rate(far)}",
                "AdamW's first step moves each number by about the rate of its group, which should"
                f" be {rate:g} here. The two groups, model.heads and everything else, must hold"
                ' each parameter once, and each must have its rate under the name "lr".',
            )
    later = dict(
        answer(_given(), images.clone(), labels.clone(), 3, 0.05, 0.003).named_parameters()
    )
    if all(torch.equal(tensor, later[name]) for name, tensor in made.named_parameters()):
        return Mistake(
            "The new model is the same after 1 step and after 3.",
            "All that belongs to a step must be inside of the loop, and the return behind it.",
        )
    made = answer(_given(frozen=True), images.clone(), labels.clone(), 1, 0.05, 0.003)
    moves = dict(made.named_parameters())
    before = {name: tensor.detach() for name, tensor in _given(frozen=True).named_parameters()}
    frozen = [name for name in before if torch.equal(moves[name], before[name])]
    if frozen:
        return Mistake(
            "If all but the head of the given model is frozen, as by a probe, then after one step"
            f" {len(frozen)} of {len(before)} parameters are what they were, such as {frozen[0]}.",
            "All of it must learn: requires_grad_(True) on the copy.",
        )
    return (
        _noticed_given(answer, images, labels)
        or noticed_training(two_steps, answer, my_two_rates, _given)
        or noticed_number(
            lambda model: answer(model, images.clone(), 0 * labels, 20, 0.05, 0.01), _given, 20
        )
        or _noticed_second_step(answer, images, labels)
    )


def _noticed_second_step(answer: Any, images: Tensor, labels: Tensor) -> Mistake | None:
    """Whether one step is right, and two are not."""
    is_right = []
    for steps in (1, 2):
        states = []
        for one in (answer, my_two_rates):
            made = one(_given(), images.clone(), labels.clone(), steps, 0.05, 0.003)
            states.append(made.eval()(images))
        is_right.append(torch.allclose(states[0], states[1], atol=1e-4))
    if is_right != [True, False]:
        return None
    return Mistake(f"With rates 0.05 and 0.003: {ONE_STEP}", LATER_STEPS)


def _known_rate(far: float) -> str:
    """Whose rate this is; "" if it is none that is known."""
    rates = {
        "That is AdamW's own rate, which a group without a rate has.": 0.001,
        "That is the rate of the head.": 0.05,
        "That is the rate of the body.": 0.003,
    }
    for said, rate in rates.items():
        if 0.9 * rate < far < 1.1 * rate:
            return f" {said}"
    return " So they do not learn." if far == 0 else ""


def _given(frozen: bool = False) -> VisionTransformer:
    """Always the same model, and a new one each time; frozen as a linear probe leaves it.

    The head of a probe is a linear layer itself, and no Sequential that has one.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        given = VisionTransformer(8, 4, 1, 2, 12, 16, num_classes=10, in_channels=1).eval()
        nn.init.normal_(given.heads.head.weight)
    if frozen:
        given.heads = given.heads.head
    given.requires_grad_(not frozen)
    given.heads.requires_grad_(True)
    return given


def _noticed_given(answer: Any, images: Tensor, labels: Tensor) -> Mistake | None:
    """What has become of the given model."""
    for frozen, kind in ((False, "one that can learn"), (True, "one whose head alone can learn")):
        given = _given(frozen)
        borrowed = state_of(given)
        answer(given, images.clone(), labels.clone(), 1, 0.05, 0.004).eval()
        changed = changed_in(given, borrowed)
        if changed != "nothing":
            return Mistake(
                f"If the given model is {kind}, this is no longer what it was: {changed}.",
                "It is needed again for the next experiment and must stay as it was: begin with a"
                " copy, copy.deepcopy(model), and do all else to the copy.",
            )
    return None


def more(answer: Any) -> list:
    """Which parameters of the new and of the given model can learn, and what two steps change."""
    images, labels = random(20, 1, 8, 8), torch.arange(20) % 10
    seen: list = []
    for frozen, steps in ((True, 0), (True, 2), (False, 2)):
        given = _given(frozen)
        borrowed = state_of(given)
        try:
            made = answer(given, images.clone(), labels.clone(), steps, 0.003, 0.02)
        except Exception as error:  # the learner's code may raise anything
            seen.append(type(error))
        else:
            seen.append(made is given)
            seen.append(next(made.parameters()) is next(given.parameters()))
            seen.append(sorted(n for n, p in made.named_parameters() if p.requires_grad))
            logits = made.eval()(images[:2]).flatten().tolist()
            seen.append([round(logit, 2) + 0.0 for logit in logits])
        seen.append(changed_in(given, borrowed))
    return seen


COPY, THAW = "model = copy.deepcopy(model)", "model.requires_grad_(True)"
GROUPS = 'groups = [{"params": head, "lr": head_rate}, {"params": body, "lr": body_rate}]'
HEAD = "head = list(model.heads.parameters())"

SLIPS = (
    Slip(
        {COPY: "model.requires_grad_(False)\n    model = copy.deepcopy(model)"},
        "freeze the very model that you are given, before you copy it",
        "It must stay as it was, and what can learn is part of it: copy first, and freeze nothing",
    ),
    Slip(
        {COPY: "model.requires_grad_(True)\n    model = copy.deepcopy(model)"},
        "let the very model that you are given learn again, before you copy it",
        "It must stay as it was, and what is frozen is part of it: copy first, and thaw the copy",
    ),
    Slip(
        {COPY: "model = copy.copy(model)"},
        "copy the model with copy.copy, which copies no parts and no parameters",
        "Its parts are those of the given model, so what is done to them is done to both:"
        " copy.deepcopy(model) copies them, too",
    ),
    Slip(
        {COPY: "model = model"},
        "train the very model that you are given",
        "It is needed again for the next experiment. Work on a copy, copy.deepcopy(model)",
    ),
    Slip(
        {COPY: "model = model", "return model.eval()": "return copy.deepcopy(model).eval()"},
        "train the very model that you are given, and return a copy of it",
        "It is needed again for the next experiment: copy it before you train, and train the copy",
    ),
    Slip(
        {THAW: "pass"},
        "leave frozen what was frozen",
        "The model may come from a linear probe; requires_grad_(True) lets all of it learn again",
    ),
    Slip(
        {GROUPS: 'groups = [{"params": head + body, "lr": head_rate}]'},
        "train all of the model at the head's rate",
        "AdamW takes a list of groups, each with its own lr; body_rate is that of the body",
    ),
    Slip(
        {GROUPS: 'groups = [{"params": head + body, "lr": body_rate}]'},
        "train all of the model at the body's rate",
        "AdamW takes a list of groups, each with its own lr; head_rate is that of the head",
    ),
    Slip(
        {GROUPS: 'groups = [{"params": head, "lr": body_rate}, {"params": body, "lr": head_rate}]'},
        "swap the two rates",
        "The head, model.heads, gets head_rate, everything else body_rate",
    ),
    Slip(
        {
            "optimizer = torch.optim.AdamW(groups)": (
                "one_each = [torch.optim.AdamW([group]) for group in groups]"
            ),
            "for _ in range(steps):": (
                "for optimizer in steps * one_each[:1] + steps * one_each[1:]:"
            ),
        },
        "train the head for all steps first, and the body for as many afterwards",
        "Both learn in each step: one optimizer with two groups",
    ),
    Slip(
        {GROUPS: 'groups = [{"params": head, "lr": head_rate}]'},
        "train the head alone",
        "That is the linear probe. The body is a second group, with body_rate",
    ),
    Slip(
        {
            'body = [p for name, p in model.named_parameters() if not name.startswith("heads.")]': (
                "body = list(model.encoder.parameters())"
            )
        },
        "take the encoder for the whole body, so that conv_proj and the class token never learn",
        "The body is everything but model.heads",
    ),
    Slip(
        {HEAD: f"nn.init.zeros_(next(model.heads.parameters()))\n    {HEAD}"},
        "begin with a head of zeros, a new one or the old one set to zero",
        "The head that the model comes with is kept, and goes on learning",
    ),
    Slip(
        {"optimizer.zero_grad()": "pass"},
        "do not set the gradients to zero in every step",
        "Each step then adds the gradients of all steps before it: optimizer.zero_grad() belongs"
        " into the loop, before backward()",
    ),
    Slip(
        {
            "optimizer = torch.optim.AdamW(groups)\n    for _ in range(steps):": (
                "for _ in range(steps):\n        optimizer = torch.optim.AdamW(groups)"
            )
        },
        "make a new optimizer in every step",
        "AdamW keeps running means of the gradients from step to step, and a new one has none: make"
        " it once, before the loop",
    ),
    Slip(
        {"optimizer.zero_grad()": "model.heads.zero_grad()"},
        "set only the gradients of the head to zero in every step",
        "Those of the body then add up from step to step: both groups need it,"
        " optimizer.zero_grad(), or model.zero_grad()",
    ),
    Slip(
        {"optimizer.zero_grad()": "model.encoder.zero_grad()"},
        "set only the gradients of the encoder to zero in every step",
        "All others then add up from step to step: optimizer.zero_grad(), or model.zero_grad()",
    ),
    Slip(
        {"optimizer.zero_grad()": ("torch.optim.SGD(body).zero_grad()")},
        "set only the gradients of the body to zero in every step",
        "Those of the head then add up from step to step: optimizer.zero_grad(), or"
        " model.zero_grad()",
    ),
    Slip(
        {HEAD: "head = list(model.heads.head.parameters())"},
        "look for a layer model.heads.head",
        "The head is all of model.heads, and that of a probe is a linear layer itself:"
        " model.heads.parameters()",
    ),
    Slip(
        {
            HEAD: (
                "head = [p for name, p in model.named_parameters() if"
                ' name.startswith("heads.head")]'
            ),
            'not name.startswith("heads.")': 'not name.startswith("heads.head")',
        },
        'take only parameters whose names begin with "heads.head" for the head, so that a probe\'s,'
        " heads.weight and heads.bias, learn at body_rate",
        "The head is all of model.heads: model.heads.parameters()",
    ),
    Slip({"torch.optim.AdamW": "torch.optim.SGD"}, "take SGD", "AdamW is asked for"),
    Slip(
        {"torch.optim.AdamW": "torch.optim.Adam"},
        "take Adam, or AdamW without its weight decay",
        "torch.optim.AdamW is asked for, with no setting but the rates: it also lets the weights"
        " decay a little",
    ),
    Slip(
        {"range(steps)": "range(steps + 1)"},
        "take one step too many",
        "The loop is range(steps)",
    ),
)

EXERCISE = Exercise(
    answer=my_two_rates,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Only the optimizer is new. Which parameters belong to the head, and which to the rest?"
            " And may all of them learn, if the model comes from a probe?"
        ),
        (
            "model.heads.parameters() are those of the head; named_parameters() gives all, with"
            ' names. torch.optim.AdamW([{"params": …, "lr": …}, {"params": …, "lr": …}]) has two'
            " groups. Before that, requires_grad_(True) on the copy."
        ),
    ),
    same=(
        {"return model.eval()": "return model"},
        {
            GROUPS: (
                'groups = [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]'
            )
        },
    ),
    tolerance=1e-4,
)
