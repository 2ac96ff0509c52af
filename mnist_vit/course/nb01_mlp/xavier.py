"""Exercise: the start values of a linear layer, looked at as a whole: right answers may draw other
random numbers."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Evidence, Exercise, Mistake, Slip
from .mlp_block import as_one, rounded


def my_xavier(linear: nn.Linear) -> None:
    fan_in = linear.in_features
    fan_out = linear.out_features
    bound = math.sqrt(6 / (fan_in + fan_out))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.normal_(linear.bias, std=1e-6)


MORE = ((20_000, 20), (600, 700))
SPREAD = "the spread of the weights"


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends at the first wrong figure: those after it may hang on the random numbers, or be another
    mistake's."""
    for what, value, right in _looked_at(answer):
        yield what, value
        if value != right:
            return


def _looked_at(answer: Any) -> Iterator[tuple[str, Any, Any]]:
    """(what, value, right)"""
    torch.manual_seed(0)
    # Many, so that the rounded figures below are the same for any right answer.
    linear = nn.Linear(20, 20_000)
    given = linear.weight, linear.bias
    before = linear.weight.detach().clone(), linear.bias.detach().clone()
    returned = answer(linear)
    for name, now, old in zip(("weight", "bias"), (linear.weight, linear.bias), given, strict=True):
        if now is not old:
            raise Mistake(
                f"linear.{name} is not the parameter any more that it was.",
                "Fill the one that is there, in place: an optimizer that holds the old one would"
                " not train a new one.",
            )
    yield "shape of the weight", list(linear.weight.shape), [20_000, 20]
    yield "shape of the bias", list(linear.bias.shape), [20_000]
    yield "kind of number", str(linear.weight.dtype), "torch.float32"
    if torch.equal(linear.weight, before[0]):
        raise Mistake(
            "linear.weight still holds the numbers that nn.Linear gave it, drawn evenly within"
            " ±1/√fan_in.",
            "Return nothing, and fill the layer that came in: what you return is not looked at."
            if isinstance(returned, nn.Module) and returned is not linear
            else "Fill it in place, with numbers drawn evenly from -bound to bound.",
        )
    _refuse_equal_numbers("weight", linear.weight[:1000])
    bound = math.sqrt(6 / (20 + 20_000))
    weight, bias = linear.weight.detach().double() / bound, linear.bias.detach().double() * 1e6
    # a number drawn evenly within ±a has the standard deviation a/√3
    beyond = [rounded((weight.abs() > share).double().mean(), 2) for share in (1.0001, 0.6)]
    wide = weight.std() * math.sqrt(3)
    weights = as_one(
        "of the start values",
        ("the share of weights beyond the bound", beyond[0], 0.0),
        ("the share of weights beyond 0.6 of the bound", beyond[1], 0.4),
        (
            "the spread of the weights (as a share of the right one)",
            rounded(wide, 2 if wide > 0.1 else 4),
            1.0,
        ),
        (
            "the mean of the weights (the bound is 1)",
            rounded(weight.mean() / wide.clamp(min=1), 2),
            0.0,
        ),
    )
    yield *weights, [0.0, 0.4, 1.0, 0.0]
    if torch.equal(linear.bias, before[1]):
        raise Mistake(
            "linear.bias still holds the numbers that nn.Linear gave it.",
            "Fill it, too: with normal numbers of standard deviation 1e-6.",
        )
    if linear.bias.any():
        _refuse_equal_numbers("bias", linear.bias)
    yield "the spread of the biases (in millionths)", rounded(bias.std(), 1), 1.0
    yield "the mean of the biases (in millionths)", rounded(bias.mean(), 1), 0.0
    share = rounded((bias.abs() > 1).double().mean(), 1)
    yield "the share of biases further than a millionth from 0", share, 0.3
    yield "asking for a gradient", linear.weight.requires_grad and linear.bias.requires_grad, True

    # In the layer above fan_out alone is nearly the sum, in the first of these fan_in, and in both
    # the larger one: that is another number in the second.
    for fan_in, fan_out in MORE:
        linear = nn.Linear(fan_in, fan_out)
        answer(linear)
        asked = math.sqrt(2 / (fan_in + fan_out))
        spread = rounded(linear.weight.detach().double().std() / asked, 2)
        what = f"from {fan_in:,} to {fan_out:,} (as a share of the right one)"
        yield f"{SPREAD} {what}", spread, 1.0
    again = nn.Linear(*MORE[-1])
    answer(again)
    if torch.equal(again.weight, linear.weight):
        raise Mistake(
            "two layers get the same numbers, and would begin alike.",
            "Draw new random numbers at each call, and set no seed inside.",
        )


def _refuse_equal_numbers(name: str, values: Tensor) -> None:
    """Raise Mistake where most of the numbers occur more than once."""
    values = values.detach()
    distinct = len(values.unique())
    if 2 * distinct >= values.numel():
        return
    said = f"linear.{name} holds {distinct:,} different numbers at {values.numel():,} places."
    if distinct == 1 and not values.any():
        raise Mistake(
            f"linear.{name} is 0 everywhere.",
            "Look at the number within which, or with which spread, you draw: did it come out 0, as"
            " a division by // does?",
        )
    if distinct == 1:
        said = f"linear.{name} holds the same number, {values.flatten()[0]:.3g}, everywhere."
    elif values.dim() == 2 and (values == values[:1]).all():
        said = f"all rows of linear.{name} are the same."
    elif values.dim() == 2 and (values == values[:, :1]).all():
        said = f"each row of linear.{name} holds one number, the same at all its places."
    raise Mistake(
        said,
        "Draw a random number for each place, as nn.init.uniform_ and nn.init.normal_ do: what"
        " starts alike gets alike gradients.",
    )


def more(answer: Any) -> float:
    """How widely the weights of a layer of nearly equal sizes spread, as a share of the right one.

    In the layer that is looked at first, fan_out is so large that other means are the same.
    """
    linear = nn.Linear(*MORE[-1])
    answer(linear)
    return rounded(linear.weight.detach().double().std() / math.sqrt(2 / sum(MORE[-1])), 1)


def tell(evidence: Evidence) -> tuple[str, str]:
    """How widely weights or biases spread, and whether the weights are uniform."""
    if evidence.what == "the spread of the biases (in millionths)":
        return (
            f"The standard deviation of your biases is {evidence.value * 1e-6:.1g}.",
            "It must be 0.000001: std=1e-6.",
        )
    if evidence.what == "asking for a gradient":
        return _frozen(evidence.theirs[0].given[0])
    for fan_in, fan_out in MORE:
        if evidence.what.startswith(f"{SPREAD} from {fan_in:,}"):
            asked = math.sqrt(2 / (fan_in + fan_out))
            return (
                f"In a layer from {fan_in:,} to {fan_out:,} numbers the standard deviation of your"
                f" weights is {evidence.value * asked:.3g}, and it should be"
                f" √(2 / ({fan_in:,} + {fan_out:,})) = {asked:.3g}.",
                "Both sizes are those of the layer that is given.",
            )
    if not evidence.what.startswith("of the start values"):
        return "", ""
    beyond, outer, wide, mean = map(float, evidence.value)
    weight = evidence.theirs[0].given[0].weight
    if weight.min() >= 0 or weight.max() <= 0:
        which = "negative" if weight.min() >= 0 else "positive"
        return (
            f"In a layer from 20 to 20,000 numbers your weights lie between {weight.min():.2g} and"
            f" {weight.max():.2g}, and none is {which}.",
            "They should lie between -bound and bound, half of them below zero. nn.init.uniform_"
            " takes both ends.",
        )
    if wide != 1:
        asked = math.sqrt(2 / 20_020)
        own = wide * asked
        return (
            f"In a layer from 20 to 20,000 numbers the standard deviation of your weights is"
            f" {own:.3g}, and it should be √(2 / (20 + 20,000)) = {asked:.3g}.",
            "A number drawn evenly from -bound to bound has the variance bound² / 3.",
        )
    if mean != 0:
        return f"The mean of your weights is {mean:g} times the bound, and should be 0.", ""
    return (
        "The spread is right, but the weights are not drawn evenly within the bound:"
        f" {100 * beyond:g} % lie beyond it, {100 * outer:g} % beyond 0.6 of it.",
        "It should be 0 % and 40 %. nn.init.uniform_ draws evenly.",
    )


def _frozen(linear: nn.Linear) -> tuple[str, str]:
    """Which parameters do not ask for a gradient any more."""
    frozen = [name for name, one in linear.named_parameters() if not one.requires_grad]
    names = " and ".join(f"linear.{name}" for name in frozen)
    them, does = ("them", "do") if len(frozen) > 1 else ("it", "does")
    return (
        f"{names} {does} not ask for a gradient any more, so training would leave {them} as"
        f" {'they are' if len(frozen) > 1 else 'it is'}.",
        "with torch.no_grad(): is enough to fill a parameter, and ends by itself. Who switches"
        " requires_grad off has to switch it on again.",
    )


SUM, ROOT = "(fan_in + fan_out)", "math.sqrt(6 / (fan_in + fan_out))"
WEIGHT, BIAS = (
    "nn.init.uniform_(linear.weight, -bound, bound)",
    "nn.init.normal_(linear.bias, std=1e-6)",
)

SLIPS = (
    Slip(
        {ROOT: "1 / math.sqrt(fan_in)"},
        "take 1/√fan_in for the bound",
        "That is the bound of nn.Linear itself. The variance asked for is 2 / (fan_in + fan_out)",
    ),
    *(
        Slip(
            {"-bound, bound": end},
            f"give nn.init.uniform_ one end alone, and so draw from {words} to 1",
            "It takes both ends: nn.init.uniform_(linear.weight, -bound, bound)",
        )
        for end, words in (("bound", "the bound"), ("-bound", "minus the bound"))
    ),
    Slip(
        {WEIGHT: "nn.init.uniform_(linear.weight)"},
        "draw from 0 to 1, as nn.init.uniform_ does without bounds",
        "Draw from -bound to bound",
    ),
    Slip(
        {ROOT: "2 / (fan_in + fan_out)"},
        "take the variance, 2 / (fan_in + fan_out), for the bound",
        "Numbers drawn evenly within ± bound have the variance bound² / 3",
    ),
    *(
        Slip(
            {ROOT: between},
            f"take {words}",
            "The variance asked for is 2 / (fan_in + fan_out), so the bound is √(6 / (fan_in +"
            " fan_out)). Other means are the same only where fan_in and fan_out are equal",
        )
        for between, words in (
            (
                "(math.sqrt(3 / fan_in) + math.sqrt(3 / fan_out)) / 2",
                "the mean of the two bounds √(3 / fan_in) and √(3 / fan_out)",
            ),
            (
                "(math.sqrt(6 / fan_in) + math.sqrt(6 / fan_out)) / 2",
                "the mean of the two bounds √(6 / fan_in) and √(6 / fan_out)",
            ),
            (
                "math.sqrt(3 * (1 / fan_in + 1 / fan_out) / 2)",
                "the mean of the two variances 1 / fan_in and 1 / fan_out",
            ),
            (
                "math.sqrt(3 / math.sqrt(fan_in * fan_out))",
                "the geometric mean of fan_in and fan_out, √(fan_in · fan_out)",
            ),
        )
    ),
    Slip({SUM: "(fan_in * fan_out)"}, "multiply fan_in and fan_out", "They are added"),
    Slip(
        {"6 / (fan_in + fan_out)": "3 / fan_in"},
        "take the variance 1 / fan_in",
        "It keeps the size of the outputs alone; the value in between is 2 / (fan_in + fan_out)",
    ),
    Slip(
        {SUM: "max(fan_in, fan_out)"},
        "divide by the larger of fan_in and fan_out",
        "The bound is √(6 / (fan_in + fan_out))",
    ),
    Slip({SUM: "fan_in"}, "divide by fan_in alone", "The bound is √(6 / (fan_in + fan_out))"),
    Slip({SUM: "fan_out"}, "divide by fan_out alone", "The bound is √(6 / (fan_in + fan_out))"),
    Slip(
        {WEIGHT: "nn.init.xavier_normal_(linear.weight)"},
        "draw from the normal distribution",
        "Xavier's here is the uniform one, within ±bound",
    ),
    Slip(
        {
            WEIGHT: "nn.init.trunc_normal_(linear.weight, std=bound / math.sqrt(3),"
            " a=-bound, b=bound)"
        },
        "draw from the normal distribution, cut off at ±bound",
        "Within ±bound all numbers are as likely: nn.init.uniform_(linear.weight, -bound, bound)",
    ),
    Slip(
        {BIAS: "nn.init.trunc_normal_(linear.bias, std=1e-6, a=-1e-6, b=1e-6)"},
        "cut the biases off at one standard deviation",
        "Normal numbers may lie further out: nn.init.normal_(linear.bias, std=1e-6)",
    ),
    Slip(
        {ROOT: "math.sqrt(6) / (fan_in + fan_out)"},
        "take the root of 6 alone",
        "The root goes over 6 / (fan_in + fan_out)",
    ),
    Slip(
        {ROOT: "6 / (fan_in + fan_out)"},
        "forget the root",
        "The bound is √(6 / (fan_in + fan_out))",
    ),
    Slip(
        {"6 / ": "2 / "},
        "take √(2 / (fan_in + fan_out)) for the bound",
        "That is the spread, and the bound is √3 times as large",
    ),
    Slip(
        {"6 / ": "3 / "},
        "take √(3 / (fan_in + fan_out)) for the bound",
        ("The bound is √(6 / (fan_in + fan_out))"),
    ),
    Slip(
        {"-bound, bound": "0, bound"},
        "draw from 0 to the bound",
        "Half of the weights must be below zero: draw from -bound to bound",
    ),
    Slip(
        {"-bound, bound": "-bound, 0"},
        "draw from minus the bound to 0, as rand * bound - bound does",
        "The range is twice as wide, up to plus the bound",
    ),
    Slip(
        {"-bound, bound": "-bound / 2, bound / 2"},
        "draw within half the bound, as (rand - 0.5) * bound does",
        "Draw from -bound to bound, with bound = √(6 / (fan_in + fan_out))",
    ),
    Slip(
        {"6 / ": "12 / "},
        "take √(12 / (fan_in + fan_out)) for the bound",
        (
            "Numbers drawn evenly within ± bound have the variance bound² / 3, and the variance"
            " asked for is 2 / (fan_in + fan_out)"
        ),
    ),
    Slip(
        {"6 / ": "24 / "},
        "take the width of the range for the bound",
        "The variance is width² / 12, and the width is 2 * bound",
    ),
    Slip(
        {BIAS: "nn.init.zeros_(linear.bias)"},
        "make the biases zero, or far smaller than 1e-6",
        "They are normal numbers with standard deviation 1e-6",
    ),
    Slip(
        {"std=1e-6": "std=1e-3"},
        "take 1e-6 for the variance of the biases",
        "It is their standard deviation",
    ),
    Slip(
        {BIAS: "nn.init.uniform_(linear.bias, -1e-6, 1e-6)"},
        "draw the biases evenly within ±1e-6",
        "They are normal, with standard deviation 1e-6",
    ),
    Slip(
        {BIAS: "nn.init.normal_(linear.bias)"},
        "give the biases the spread 1",
        "Their standard deviation must be 1e-6: std=1e-6",
    ),
)

EXERCISE = Exercise(
    answer=my_xavier,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    more=more,
    hints=(
        (
            "Numbers drawn evenly from -bound to bound have a mean of 0. Their variance is the mean"
            " of their squares. What is it, in terms of the bound? (Integrate, or draw a million"
            " and look.)"
        ),
        (
            "The variance is bound² / 3. Set it equal to 2 / (fan_in + fan_out) and solve for the"
            " bound. nn.init.uniform_ takes two ends, nn.init.normal_ takes std=."
        ),
    ),
    same=(
        {WEIGHT: "nn.init.xavier_uniform_(linear.weight)"},
        {"6 / ": "2 / ", "-bound, bound": "-math.sqrt(3) * bound, math.sqrt(3) * bound"},
    ),
)
