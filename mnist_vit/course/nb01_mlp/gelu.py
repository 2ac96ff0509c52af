"""Exercise: the exact GELU, by hand."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, gradients, random


def my_gelu(x: Tensor) -> Tensor:
    inside = x / math.sqrt(2)
    phi = 0.5 * (1 + torch.erf(inside))  # Φ(x), the share of a bell curve that lies below x
    return x * phi


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # float64, so that the tanh approximation, 5e-4 away at most, is far outside the tolerance
    x = torch.cat([2 * random(4, 5, dtype=torch.float64), torch.tensor([[-6.0, -1.0, 0.0, 0.5, 6.0]]).double()])
    before = x.clone()
    x.requires_grad_()
    output = answer(x)
    yield "output", output
    if not torch.equal(x, before):
        raise Mistake("the x that came in is changed. Make a new tensor, and leave x as it is.")
    yield from gradients(output, x=x)


PHI, END = "phi = 0.5 * (1 + torch.erf(inside))", "return x * phi"

SLIPS = (
    ({END: 'return torch.nn.functional.gelu(x, approximate="tanh")'},
     "use the tanh approximation: the exact GELU, and torchvision's, needs torch.erf"),
    ({"x / math.sqrt(2)": "x"}, "give erf the x itself: divide it by the square root of 2 first"),
    ({"0.5 * ": ""}, "leave out the factor 1/2"),
    ({END: "return phi"}, "return Φ(x) alone: multiply it by x"),
    ({"1 + ": ""}, "leave out the 1 + before erf"),
    ({"math.sqrt(2)": "2"}, "divide x by 2 inside erf: it must be the square root of 2"),
    ({PHI: "phi = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)"},
     "use the height of the bell curve at x: Φ(x) is the area to the left of x"),
    ({PHI: "phi = torch.sigmoid(1.702 * x)"},
     "use the sigmoid approximation, x sigmoid(1.702 x): the exact GELU needs torch.erf"),
    ({PHI: "phi = torch.sigmoid(x)"},
     "use SiLU, x sigmoid(x), which is another activation: take Φ in place of the sigmoid"),
    ({END: "return torch.relu(x)"}, "use ReLU: GELU lets a little of the negative numbers through"),
)  # fmt: skip

EXERCISE = Exercise(
    answer=my_gelu,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        "GELU(x) = x Φ(x). You need Φ for every number of the tensor at once: torch.erf works number by number.",
        "Φ(x) = (1 + erf(x / √2)) / 2. The root of a plain number is math.sqrt(2).",
    ),
    same=(
        {"0.5 * ": "", END: "return 0.5 * x * phi"},
        {PHI: "phi = 0.5 * torch.erfc(-inside)"},
        {PHI: "phi = 0.5 + 0.5 * torch.erf(inside)"},
        {END: "return torch.nn.functional.gelu(x)"},
    ),
)
