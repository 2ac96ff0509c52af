"""Exercise: one step of training, from a batch to new weights."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..checking import Evidence, Exercise, Mistake, Slip, describe, random, randomise


def my_training_step(model, optimizer, images, labels):
    """One step on one batch, in place; returns the loss of the batch, measured before the weights
    change."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


class _Mode(nn.Module):
    """Shows in what mode a model is run, without chance: half of the numbers in eval mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.training else 0.5 * x


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # with SGD a step is as long as its gradient: whether it is clipped can be seen
    for name, make, rate in (("SGD", torch.optim.SGD, 0.5), ("AdamW", torch.optim.AdamW, 1e-2)):
        model = randomise(
            nn.Sequential(nn.Flatten(), nn.Linear(12, 6), _Mode(), nn.GELU(), nn.Linear(6, 4))
        ).double()
        optimizer: Any = make(_groups(model) if name == "AdamW" else model.parameters(), lr=rate)
        for step in range(3):
            if step == 1:  # of somebody who called backward() and no step
                for parameter in model.parameters():
                    parameter.grad = random(*parameter.shape, seed=9, dtype=torch.float64)
            images = (4.0, 0.1, 4.0)[step] * random(5, 1, 3, 4, seed=step, dtype=torch.float64)
            labels = torch.arange(5).roll(step) % 4
            loss = answer(model, optimizer, images, labels)
            if loss is None or loss is ...:
                yield "loss", loss
            if isinstance(loss, torch.Tensor) and loss.numel() > 1:
                raise Mistake(
                    f"the loss of the batch must be one number, and this is {describe(loss)}."
                )
            if isinstance(loss, tuple | list):
                raise Mistake("the loss alone is to be returned, one number.")
            yield f"loss of step {step + 1} with {name}", loss
            yield (
                f"weights after step {step + 1} with {name}",
                nn.utils.parameters_to_vector(model.parameters()),
            )
            yield f"whether the model is in train mode after step {step + 1}", model.training


def _groups(model: nn.Module) -> list[dict[str, Any]]:
    """Matrices, and the rest, which is not made smaller: two groups, as the recipe has."""
    return [
        {"params": [one for one in model.parameters() if one.dim() > 1]},
        {"params": [one for one in model.parameters() if one.dim() == 1], "weight_decay": 0.0},
    ]


def tell(evidence: Evidence) -> tuple[str, str]:
    """What the loss of the batch is, where another number comes back."""
    value, right = evidence.value, evidence.expected
    if not evidence.what.startswith("loss") or not isinstance(right, float):
        return "", ""
    return (
        f"The loss of this batch, before the weights change, is {right:.4g}, and you return"
        f" {float(value):.4g}, {float(value) / right:.4g} times as much.",
        "Return F.cross_entropy(model(images), labels) itself, the mean over the batch, as a"
        " number.",
    )


def notice(answer: Any) -> Mistake | None:
    """How the loss comes back; how long the steps of two very long gradients are, at rate 1."""
    lengths = []
    for factor in (1e3, 3e3):
        model = randomise(nn.Sequential(nn.Flatten(), nn.Linear(12, 4))).double()
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        images = factor * random(5, 1, 3, 4, seed=3, dtype=torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        loss = answer(model, optimizer, images, torch.arange(5) % 4)
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            return Mistake("", "loss.item() is the number alone.")
        after = nn.utils.parameters_to_vector(model.parameters()).detach()
        lengths.append((after - before).norm().item())
    is_clipped = abs(lengths[0] - lengths[1]) < 1e-3 * lengths[0]
    if not is_clipped or abs(lengths[0] - 1) < 1e-3:
        return _noticed_short(answer)
    return Mistake(
        "At a learning rate of 1 your steps along two very long gradients of different lengths are"
        f" both {lengths[0]:.3g} long.",
        "They should be 1 long: all gradients together count as one vector, which must be shortened"
        " to the length 1.",
    )


def _step(answer: Any, images: torch.Tensor) -> torch.Tensor:
    """The step of a linear layer at a learning rate of 1."""
    model = randomise(nn.Sequential(nn.Flatten(), nn.Linear(12, 4))).double()
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    answer(model, torch.optim.SGD(model.parameters(), lr=1.0), images, torch.arange(5) % 4)
    return nn.utils.parameters_to_vector(model.parameters()).detach() - before


def _noticed_pictures(answer: Any) -> Mistake | None:
    """Which pictures of a batch change nothing in the step."""
    images = 0.01 * random(5, 1, 3, 4, seed=3, dtype=torch.float64)
    step, unseen = _step(answer, images), []
    for number in range(5):
        other = images.clone()
        other[number] *= -3
        if torch.equal(_step(answer, other), step):
            unseen.append(str(number))
    if not unseen or len(unseen) == 5:
        return None
    return Mistake(
        f"Your step is the same whatever is in picture {', '.join(unseen)} of a batch of five.",
        "The loss of the whole batch gives the gradients: F.cross_entropy(model(images), labels).",
    )


def _noticed_rate(answer: Any) -> Mistake | None:
    """Whether the learning rate is another one after the step."""
    model = randomise(nn.Sequential(nn.Flatten(), nn.Linear(12, 4))).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    answer(model, optimizer, random(5, 1, 3, 4, dtype=torch.float64), torch.arange(5) % 4)
    rate = optimizer.param_groups[0]["lr"]
    if rate == 0.5:
        return None
    return Mistake(
        f"The optimizer's learning rate was 0.5 before your step, and is {rate:.4g} after it.",
        "Leave it as it is: whoever calls the step sets it.",
    )


def _noticed_parts(answer: Any) -> Mistake | None:
    """Of which parameters long gradients are shortened, where those of the others are not."""
    lengths = []
    for factor in (1e3, 4e3):
        model = randomise(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 4)), seed=4).double()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        images = factor * random(5, 4, seed=3, dtype=torch.float64)
        answer(model, torch.optim.SGD(model.parameters(), lr=1.0), images, torch.arange(5) % 4)
        pairs = zip(model.parameters(), before, strict=True)
        lengths.append([(after - one).norm().item() for after, one in pairs])
    names = [name for name, _ in model.named_parameters()]
    # the gradients of the weights are as long as the pictures
    long = [name for name, a, b in zip(names, *lengths, strict=True) if b > 2 * a and b > 2]
    if not long or len(long) == 2:
        return None
    return Mistake(
        "In a model of two linear layers, 0 and 1, very long gradients of"
        f" {', '.join(long)} are not shortened, and others are.",
        "All gradients together count as one vector: nn.utils.clip_grad_norm_(model.parameters(),"
        " 1.0).",
    )


def _noticed_left_over(answer: Any) -> Mistake | None:
    """Of which parameters an old gradient changes the step, where those of the others do not."""

    def weights_after(left_over: str) -> torch.Tensor:
        inner = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 4))
        model = randomise(inner, seed=4).double()
        if left_over:
            parameter = model.get_parameter(left_over)
            parameter.grad = random(*parameter.shape, seed=5, dtype=torch.float64)
        images = random(5, 4, seed=3, dtype=torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        answer(model, optimizer, images, torch.arange(5) % 4)
        return nn.utils.parameters_to_vector(model.parameters()).detach()

    fresh, kept = weights_after(""), []
    for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
        if not torch.allclose(weights_after(name), fresh, atol=1e-9):
            kept.append(name)
    if not kept:
        return None
    return Mistake(
        "In a model of two linear layers, 0 and 2, what stood in .grad before the call changes your"
        f" step, that of {', '.join(kept)}.",
        "Set all gradients to zero, or None, before backward(), which adds to what is there:"
        " optimizer.zero_grad().",
    )


def _noticed_short(answer: Any) -> Mistake | None:
    """How long the step of a gradient shorter than 1 is, where it has the right direction."""
    images = 0.01 * random(5, 1, 3, 4, seed=3, dtype=torch.float64)
    steps = []
    for function in (my_training_step, answer):
        model = randomise(nn.Sequential(nn.Flatten(), nn.Linear(12, 4))).double()
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        function(model, torch.optim.SGD(model.parameters(), lr=1.0), images, torch.arange(5) % 4)
        steps.append(nn.utils.parameters_to_vector(model.parameters()).detach() - before)
    right, own = steps
    if unseen := _noticed_pictures(answer):
        return unseen
    factor = float(own @ right / (right @ right))
    is_same_way = torch.allclose(own, factor * right, atol=1e-6)
    if right.norm() >= 1 or not is_same_way or abs(factor) < 1e-3:
        return None
    if abs(factor - 1) < 1e-3:
        return _noticed_rate(answer) or _noticed_parts(answer) or _noticed_left_over(answer)
    return Mistake(
        f"At a learning rate of 1 your step along a gradient {right.norm():.3g} long is"
        f" {own.norm():.3g} long{', in the opposite direction' if factor < 0 else ''}.",
        "It should be as long as the gradient: the loss is the mean over the batch, backward() runs"
        " once, and a gradient shorter than 1 is not changed.",
    )


LOSS = "loss = F.cross_entropy(model(images), labels)\n"
ZERO, BACK = "optimizer.zero_grad()\n", "loss.backward()\n"
CLIP, STEP, END = (
    "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
    "optimizer.step()\n",
    "return loss.item()",
)

SLIPS = (
    Slip(
        {ZERO: "\n"},
        "leave out zero_grad()",
        "backward() adds to the gradients that are there, so each step also follows all those"
        " before it",
    ),
    Slip(
        {ZERO: ('for one in optimizer.param_groups[0]["params"]:\n        one.grad = None\n')},
        "set the gradients of the optimizer's first group of parameters alone to zero",
        "An optimizer may have several groups, as those with and without weight decay:"
        " optimizer.zero_grad() sets the gradients of all to zero",
    ),
    Slip(
        {ZERO: "\n", STEP: "optimizer.step()\n    optimizer.zero_grad()\n"},
        "set the gradients to zero after the step alone",
        "Gradients that were left over before it are then added to. Set them to zero before"
        " backward()",
    ),
    Slip(
        {LOSS: "model.eval()\n    loss = F.cross_entropy(model(images), labels)\n"},
        "put the model into eval mode",
        "Training needs dropout, so leave the mode as it is",
    ),
    Slip(
        {STEP: "optimizer.step()\n    model.eval()\n"},
        "put the model into eval mode after the step",
        "The next step, too, needs its dropout, so leave the mode as it is",
    ),
    Slip(
        {
            LOSS: "model.eval()\n    loss = F.cross_entropy(model(images), labels)\n",
            STEP: "optimizer.step()\n    model.train()\n",
        },
        "train in eval mode",
        "Training needs dropout, so leave the mode as it is",
    ),
    Slip(
        {STEP: "\n"},
        "change no weight",
        "Is backward() or optimizer.step() missing, or without its brackets, does step() come"
        " first, are the gradients set to zero between the two, or is a copy of the model trained?",
    ),
    Slip(
        {
            ZERO: "\n",
            STEP: "\n",
            BACK: "optimizer.step()\n    optimizer.zero_grad()\n    loss.backward()\n",
        },
        "call step() before backward()",
        "It then follows the gradient of the batch before",
    ),
    Slip(
        {CLIP: "\n"},
        "leave out the clipping, or clip so that it changes nothing",
        "Between backward() and step(): nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    ),
    Slip(
        {CLIP: "nn.utils.clip_grad_norm_(model, 1.0)\n"},
        "give clip_grad_norm_ the model itself",
        "It takes its parameters: nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    ),
    Slip(
        {
            STEP: (
                "rate = optimizer.param_groups[0]['lr']\n"
                "    for parameter in model.parameters():\n"
                "        parameter.data -= rate * parameter.grad\n"
            )
        },
        "change the weights by rate times gradient yourself, whatever the optimizer is",
        "The optimizer knows how to step, and AdamW does it in another way: optimizer.step()",
    ),
    Slip(
        {CLIP: "nn.utils.clip_grad_value_(model.parameters(), 1.0)\n"},
        "clip each number of the gradient",
        "It is the length of all gradients together that may be 1 at most: clip_grad_norm_",
    ),
    Slip(
        {
            CLIP: (
                "for parameter in model.parameters():\n        nn.utils.clip_grad_norm_(parameter,"
                " 1.0)\n"
            )
        },
        "clip each tensor for itself",
        "All gradients together are one arrow, of the length 1 at most",
    ),
    Slip(
        {
            CLIP: (
                "length = total_norm(model)\n    for parameter in model.parameters():\n"
                "        parameter.grad /= length\n"
            )
        },
        "make all gradients together 1 long, also where they are shorter",
        (
            "Clipping shortens them where they are longer than 1, and leaves them as they are"
            " otherwise"
        ),
    ),
    Slip(
        {LOSS: "loss = F.cross_entropy(model(images), labels).item()\n"},
        "make a plain number of the loss, with .item(), before backward()",
        "backward() needs the tensor, which knows how it was computed: loss.item() is for the"
        " return line",
    ),
    Slip(
        {"return loss.item()": "return F.cross_entropy(model(images), labels).item()"},
        "return the loss after the step",
        "The one from which the gradients came is wanted",
    ),
    Slip(
        {
            "F.cross_entropy(model(images), labels)": (
                "F.cross_entropy(model(images).softmax(dim=-1), labels)"
            )
        },
        "give probabilities to F.cross_entropy, which takes the softmax itself",
        "Logits go in",
    ),
    Slip(
        {"model(images), labels)": "labels, model(images))"},
        "give F.cross_entropy the labels first",
        "The logits come first: F.cross_entropy(model(images), labels)",
    ),
    Slip(
        {"model(images), labels)": "model(images).argmax(dim=1), labels)"},
        "give F.cross_entropy classes, which argmax makes of the logits",
        "It takes the logits themselves: F.cross_entropy(model(images), labels)",
    ),
    Slip(
        {"model(images), labels)": "model(images), labels, reduction='sum')"},
        "add up the loss over the batch",
        "It is the mean over the batch",
    ),
    Slip(
        {"return loss.item()": "return loss.item() * len(labels)"},
        "return the loss times the size of the batch",
        "The mean over the batch is wanted",
    ),
)


def total_norm(model: nn.Module) -> torch.Tensor:
    """The length of all gradients together; one slip takes it."""
    return torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()


EXERCISE = Exercise(
    answer=my_training_step,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    tell=tell,
    hints=(
        (
            "backward() does not replace the gradients, it adds to them. What must therefore happen"
            " before it, and what can only happen after it?"
        ),
        (
            "Loss; optimizer.zero_grad(); backward(); nn.utils.clip_grad_norm_(model.parameters(),"
            " 1.0); optimizer.step(). Return the loss of the first line, as a number: loss.item()."
        ),
    ),
    same=(
        {
            ZERO: "model.zero_grad()\n",
            LOSS: "loss = nn.CrossEntropyLoss()(model(images), labels)\n",
        },
        {END: "return loss.detach()"},
    ),
)
