"""Exercise: start values of the class head that make all classes equally likely, and the loss they begin with."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..checking import Exercise, Mistake, gradients, random


def my_class_head_start(in_features, num_classes):
    head = nn.Linear(in_features, num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    loss = math.log(num_classes)  # -ln(1 / num_classes)
    return head, loss


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for in_features, num_classes in ((32, 10), (6, 3)):
        pair = answer(in_features, num_classes)
        if pair is None or pair is ...:
            yield "logits", pair
            return
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Mistake("two things are needed: return head, loss.")
        head, loss = pair
        if not isinstance(head, nn.Linear):
            raise Mistake(f"the first of the two must be an nn.Linear, and is a {type(head).__name__}.")
        if (head.in_features, head.out_features) != (in_features, num_classes):
            raise Mistake(
                f"the head must be nn.Linear(in_features, num_classes), here from {in_features} to {num_classes}, and "
                f"goes from {head.in_features} to {head.out_features}."
            )
        _refuse_random_start(head)
        x = random(4, in_features, seed=7)
        logits = head(x)
        yield f"output of a new head with {num_classes} classes", logits
        yield f"first loss with {num_classes} classes", loss
        if num_classes == 10:  # at zero the head itself still learns: its gradient is not zero
            measured = nn.functional.cross_entropy(logits, torch.arange(4))
            yield from gradients(measured, weight=head.weight, bias=head.bias)


def _refuse_random_start(head: nn.Linear) -> None:
    """Say which of weight and bias kept random start values: no slip could, as nobody knows their values."""
    if head.bias is None:
        raise Mistake("the head has no bias. Leave bias=False out: it has one, which starts at zero too.")
    kept = [name for name, values in head.named_parameters() if bool((values != values.flatten()[0]).any())]
    if len(kept) == 2:
        raise Mistake("neither weight nor bias of the head is zero. nn.init.zeros_(head.weight) sets one of them.")
    if kept:
        other = "bias" if kept == ["weight"] else "weight"
        raise Mistake(
            f"the {other} of the head is set, but its {kept[0]} still has random start values. Set it to zero too."
        )


WEIGHT, BIAS, LOSS = "nn.init.zeros_(head.weight)", "nn.init.zeros_(head.bias)", "math.log(num_classes)"

SLIPS = (
    ({BIAS: "nn.init.constant_(head.bias, 1 / num_classes)"},
     "put the probability 1 / num_classes into the bias. The probabilities come out right, but the logits should be "
     "0: the softmax makes equal probabilities of them by itself"),
    ({WEIGHT: "nn.init.ones_(head.weight)"}, "set the weight to one. Set it to zero"),
    ({LOSS: "1 / num_classes"},
     "return the probability 1 / num_classes as the loss. The loss is minus the logarithm of it"),
    ({LOSS: "math.log2(num_classes)"},
     "take the logarithm to base 2. Cross entropy uses the natural logarithm, math.log"),
    ({LOSS: "math.log10(num_classes)"},
     "take the logarithm to base 10. Cross entropy uses the natural logarithm, math.log"),
    ({LOSS: "math.log(1 / num_classes)"},
     "have the sign the wrong way round: the loss is -ln(1 / num_classes), which is + ln(num_classes)"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_class_head_start,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "Which weight and which bias give the same logit to every class, whatever comes in? Then each class has "
        "probability 1 / num_classes, and the loss is minus the logarithm of the right one's.",
        "nn.init.zeros_(head.weight) and the same for head.bias. And -ln(1 / num_classes) can be written shorter.",
    ),
    same=({LOSS: "-math.log(1 / num_classes)"},),
)
