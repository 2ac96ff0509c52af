"""Exercise: the exact GELU, by hand."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, gradients, random
from ..watching import Watch


def my_gelu(x: Tensor) -> Tensor:
    inside = x / math.sqrt(2)
    phi = 0.5 * (1 + torch.erf(inside))  # Φ(x), the share of a bell curve that lies below x
    return x * phi


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # float64, so that the tanh approximation, 5e-4 away at most, is far outside the tolerance
    x = torch.cat(
        [
            2 * random(4, 5, dtype=torch.float64),
            torch.tensor([[-6.0, -1.0, 0.0, 0.5, 6.0]]).double(),
        ]
    )
    before = x.clone()
    x.requires_grad_()
    output = answer(x)
    yield "output", output
    if not torch.equal(x, before):
        raise Mistake(
            "the x that came in is changed.",
            "Make a new tensor, and leave x as it is.",
        )
    yield from gradients(output, x=x)
    right = torch.allclose(output, my_gelu(x), atol=1e-6)
    with Watch("gelu") as watch:
        three = answer(random(2, 3, 4, dtype=torch.float64))
    yield "output for a tensor of 3 axes", three
    # any shape: also no axes, and one
    yield "output for a single number, a tensor without axes", answer(torch.tensor(-0.5).double())
    yield "output for a tensor of 1 axis", answer(torch.tensor([-40.0, 1.5, 40.0]).double())
    if right and watch.seen:  # another mistake is told first
        raise Mistake(
            "right, but torch's GELU is what you are to write yourself.",
            "torch.erf does the counting.",
        )


def tell(evidence: Evidence) -> tuple[str, str]:
    """By what x is multiplied, beside the share; or which part of the gradient is missing."""
    value = evidence.value
    if evidence.what.startswith("gradient"):
        return _half_a_gradient(evidence)
    if evidence.what.startswith("output") and value.dtype != evidence.expected.dtype:
        return "", (
            "What comes back should be as exact as x: compute with x itself. float(), float32 and"
            " torch.tensor(…) of Python's numbers make float32 of it."
        )
    if not evidence.what.startswith("output") or value.shape != (5, 5):
        return "", ""
    x = evidence.pair[0].before[0].detach() if evidence.pair is not None else None
    if x is None or not evidence.is_finite:
        return "", ""
    far = (value - evidence.expected).abs()
    places = [place for place in (0, 1, 3, 4) if far[4, place] > 1e-4]
    numbers, results = x[4, places], value[4, places]
    if not places:
        worst = far.argmax()
        numbers, results = x.flatten()[worst, None], value.flatten()[worst, None]
    if numbers[0] == 0:
        return f"For x = 0 your result is {results[0]:.3g}, and it should be 0.", ""
    shares = results / numbers
    right = 0.5 * (1 + torch.erf(numbers / math.sqrt(2)))
    if (shares - right).abs().max() < 2e-3:  # rounded, they would be the same
        return "", ""
    return (
        f"For x = {_listed(numbers)} your result is x times {_listed(shares)}.",
        f"Φ(x), the share of numbers below x, is {_listed(right)} there, rounded.",
    )


def _half_a_gradient(evidence: Evidence) -> tuple[str, str]:
    """Which of the two factors of x Φ(x) gives no gradient."""
    call = evidence.theirs[0]
    x = call.before[0].detach()
    weights = random(*x.shape, seed=99).to(x)  # as in gradients()
    phi = 0.5 * (1 + torch.erf(x / math.sqrt(2))) * weights
    if torch.allclose(evidence.value, phi, atol=1e-6):
        return (
            "Your gradient is that of x times a fixed number: none comes through Φ(x), as where it"
            " is computed with math.erf, under no_grad(), or from x.data.",
            "",
        )
    if torch.allclose(evidence.value, evidence.expected - phi, atol=1e-6):
        return (
            "The part of the gradient is missing that comes from the x before Φ(x).",
            "Multiply Φ(x) by x itself, without .data, detach() and no_grad().",
        )
    return "", ""


def _listed(numbers: Tensor) -> str:
    """Numbers in a row, with three digits, at most three behind the point."""
    told = [f"{round(number, 3) + 0.0:.3g}" for number in numbers.tolist()]
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)


PHI, END = "phi = 0.5 * (1 + torch.erf(inside))", "return x * phi"

SLIPS = (
    Slip(
        {END: "return torch.stack([one * share for one, share in zip(x, phi)])"},
        "go through the first axis of x, and x is a single number here, without axes",
        "x may have any shape. *, / and torch.erf take whole tensors: no loop is needed",
    ),
    Slip(
        {END: "return phi + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)"},
        "return the derivative of GELU",
        "GELU itself is x times Φ(x); autograd finds its derivative",
    ),
    Slip(
        {PHI: "phi = 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))"},
        "use the tanh approximation",
        "It comes near, and the exact GELU is made with torch.erf",
    ),
    Slip(
        {"x / math.sqrt(2)": "x"},
        "give erf the x itself",
        "Divide x by the square root of 2 before erf",
    ),
    Slip(
        {"0.5 * ": ""},
        "leave out the factor 1/2",
        "1 + erf lies between 0 and 2, and a share between 0 and 1",
    ),
    Slip({END: "return phi"}, "return Φ(x) alone", "Multiply it by x"),
    Slip(
        {"1 + ": ""},
        "leave out the 1 + before erf",
        "A share lies between 0 and 1, erf between -1 and 1",
    ),
    Slip(
        {PHI: "phi = torch.erf(inside)"},
        "take erf(x / √2) for the share",
        (
            "For positive x that is the share between -x and x, and Φ(x) is the share of all that"
            " are below x"
        ),
    ),
    Slip(
        {"1 + ": "1 - "},
        "take 0.5 * (1 - erf), the share of the numbers above x",
        "Φ(x) is the share of those below x",
    ),
    Slip(
        {"x / math.sqrt(2)": "x * math.sqrt(2)"},
        "multiply x by √2 inside erf",
        "The bell curve of erf is narrower than Φ's, so x is divided",
    ),
    Slip(
        {"x / math.sqrt(2)": "x / 4"},
        "divide x by 4 inside erf, as x / 2 ** 1 / 2 does",
        "** comes before /: the root is 2 ** 0.5",
    ),
    Slip(
        {END: "return -x * (1 - phi)"},
        "multiply -x by the share below -x",
        "x stands before the share with its own sign, and the share is that below x",
    ),
    Slip({END: "return x + phi"}, "add Φ(x) to x", "x is multiplied by it"),
    Slip({END: "return 0.5 * x * phi"}, "halve twice", "Only the sum 1 + erf is halved"),
    Slip(
        {"inside = x / math.sqrt(2)": "inside = (x / math.sqrt(2)).abs()"},
        "take the absolute value of x for erf",
        "The share below a negative x is less than one half: leave the sign of x as it is",
    ),
    Slip(
        {END: "return torch.relu(x * phi)"},
        "set what comes out for negative x to 0",
        "GELU lets a little of the negative numbers through: x Φ(x) for every x",
    ),
    Slip({"math.sqrt(2)": "2"}, "divide x by 2 inside erf", "It must be the square root of 2"),
    Slip(
        {PHI: "phi = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)"},
        "use the height of the bell curve at x",
        "Φ(x) is the area to the left of x",
    ),
    Slip(
        {PHI: "phi = torch.sigmoid(1.702 * x)"},
        "use the sigmoid approximation, x sigmoid(1.702 x)",
        "It comes near, and the exact GELU is made with torch.erf",
    ),
    Slip(
        {PHI: "phi = torch.sigmoid(x)"},
        "use SiLU, x sigmoid(x), which is another activation",
        "Take Φ in place of the sigmoid",
    ),
    Slip(
        {END: "return torch.relu(x)"},
        "use ReLU",
        "GELU lets a little of the negative numbers through",
    ),
    Slip(
        {PHI: "phi = 0.5 + torch.erf(inside)"}, "add 1/2 to the whole of erf", "erf is halved, too"
    ),
    Slip(
        {PHI: "phi = torch.erf(x)"},
        "take erf(x) for the share",
        (
            "x is divided by √2 first, and Φ(x) is the share of all that are below x, not of"
            " those between -x and x"
        ),
    ),
    Slip(
        {PHI: "phi = 0.5 * (1 + torch.erf(x) / math.sqrt(2))"},
        "divide erf by √2",
        "It is x that is divided, inside erf",
    ),
    Slip(
        {END: "return x * 0.5 * 1 + torch.erf(inside)"},
        "leave out the brackets round 1 + erf",
        "The sum is made first, and then halved and multiplied by x",
    ),
    Slip(
        {"torch.erf(inside)": "math.erf(inside)"},
        "use math.erf, which takes one number",
        "torch.erf takes a tensor",
    ),
)

EXERCISE = Exercise(
    answer=my_gelu,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Draw the bell curve. erf counts from -z to z, Φ everything left of x. Which part is"
            " missing, and how large is it? Then compare the spreads: z must be x on another scale."
        ),
        (
            "Between -x and x lies erf(x / √2). What is left lies half to the left and half to the"
            " right of it. So Φ(x) is the part between and one of the two halves."
        ),
    ),
    same=(
        {"0.5 * ": "", END: "return 0.5 * x * phi"},
        {PHI: "phi = 0.5 * torch.erfc(-inside)"},
        {PHI: "phi = 0.5 + 0.5 * torch.erf(inside)"},
        {PHI: "phi = torch.special.ndtr(x)"},
    ),
)
