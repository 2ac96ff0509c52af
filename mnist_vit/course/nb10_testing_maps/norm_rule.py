"""Exercise: a layer norm whose standard deviation is a constant in the backward pass.

The rule for norms of AttnLRP, proposition 3.4 of Achtibat et al. 2024,
https://arxiv.org/abs/2402.05602.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Slip, gradients, random


def my_norm_rule(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    # (n, seq_length, hidden_dim) -> the values of a layer norm over the last axis
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return centred / deviation.detach() * weight + bias


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Tokens of several sizes, in float64; then a large eps."""
    sizes = torch.tensor([3.0, 1.0, 1e-1, 1e-2], dtype=torch.float64)
    for eps in (1e-6, 0.25):
        x = random(2, 4, 3, seed=141, dtype=torch.float64) * sizes[:, None] + 0.5
        weight = 1 + 0.3 * random(3, seed=142, dtype=torch.float64)
        bias = random(3, seed=143, dtype=torch.float64)
        given = [one.requires_grad_() for one in (x, weight, bias)]
        with torch.enable_grad():
            output = answer(*given, eps)
        yield f"output with eps {eps:g}", output
        yield from gradients(output, x=x, weight=weight, bias=bias)


CENTRED, MEAN = "x - x.mean(dim=-1, keepdim=True)", "x.mean(dim=-1, keepdim=True)"
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "(centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()"
QUOTIENT = "centred / deviation.detach()"
END = "return centred / deviation.detach() * weight + bias"

SLIPS = (
    Slip(
        {QUOTIENT: "centred / deviation"},
        "let the gradient pass through the standard deviation, as the plain norm does",
        "Compute the standard deviation yourself, and divide by it detached: .detach()",
    ),
    Slip(
        {CENTRED: "x.detach() - x.detach().mean(dim=-1, keepdim=True)"},
        "detach the tokens, or all that is made of them",
        "No gradient comes back to x then. Only the standard deviation is a constant",
    ),
    Slip(
        {"return centred /": "return x /"},
        "divide x itself, without its mean taken away",
        "A layer norm subtracts the mean first",
    ),
    Slip(
        {CENTRED: "x"},
        "forget the mean",
        "A layer norm subtracts the mean, and then the deviation is that of the centred numbers",
    ),
    Slip(
        {CENTRED: "x - x.mean(dim=-1, keepdim=True).detach()"},
        "detach the mean, too",
        "The mean stays a function of x. Only the standard deviation is a constant",
    ),
    Slip(
        {END: f"{END.replace('return ', 'return (')}).detach()"},
        "detach the whole result",
        "Nothing gets a gradient then. Detach the standard deviation alone",
    ),
    Slip(
        {ROOT: "centred.square().mean(dim=-1, keepdim=True).sqrt() + eps"},
        "add eps outside the root",
        "It is the root of (variance + eps)",
    ),
    Slip(
        {VARIANCE: "x.var(dim=-1, keepdim=True)"},
        "divide the squares by one less than the number of values (PyTorch's usual variance)",
        "Divide by their number, correction=0",
    ),
    Slip(
        {VARIANCE: "centred.square().mean(dim=1, keepdim=True)", MEAN: "x.mean(1, keepdim=True)"},
        "normalise over the tokens (dim=1)",
        "Each token is normalised alone, over its own numbers, dim=-1",
    ),
    Slip({ROOT: f"{VARIANCE}.sqrt()"}, "forget eps", "Add it to the variance, inside the root"),
    Slip(
        {QUOTIENT: "centred"},
        "subtract the mean and do not divide by the standard deviation",
        ("Divide by it, detached, before you multiply by weight"),
    ),
    Slip(
        {QUOTIENT: "centred / deviation.square().detach()"},
        "divide by the variance",
        "Divide by its root",
    ),
    Slip(
        {END: "return (centred / deviation.detach() + bias) * weight"},
        "add the bias before you multiply by the weight",
        "Multiply by weight, then add bias",
    ),
    Slip(
        {END: "return centred / deviation.detach()"},
        "stop before weight and bias",
        "Multiply by weight, then add bias",
    ),
)

EXERCISE = Exercise(
    answer=my_norm_rule,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        (
            "Write the layer norm of notebook 04 first: mean, standard deviation, weight, bias."
            " Which of these steps makes the result the same when x is twice as large? And which"
            " method of a tensor gives its values without its history?"
        ),
        (
            "The deviation is the root of (variance + eps). Divide by deviation.detach(): forwards"
            " the same numbers, backwards a constant. The mean stays as it is."
        ),
    ),
    same=(
        {VARIANCE: "x.detach().var(dim=-1, keepdim=True, correction=0)"},
        {QUOTIENT: "centred * deviation.reciprocal().detach()"},
    ),
    tolerance=1e-8,
)
