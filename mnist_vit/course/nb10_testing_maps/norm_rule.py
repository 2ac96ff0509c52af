"""Exercise: a layer norm whose standard deviation is a constant in the backward pass.

The rule for norms of AttnLRP, proposition 3.4 of Achtibat et al. 2024,
https://arxiv.org/abs/2402.05602.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn  # noqa: F401, one slip takes nn

from ..checking import Exercise, Mistake, Slip, gradients, random


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
        for name, one in zip(("x", "weight", "bias"), given, strict=True):
            if not one.requires_grad:
                raise Mistake(
                    f"{name}, which your code was given, asked for a gradient, and does not any"
                    " more.",
                    "requires_grad_(False) changes the tensor for everybody. .detach() gives its"
                    " values without their history, and leaves it as it is.",
                )
        yield f"output with eps {eps:g}", output
        yield from gradients(output, x=x, weight=weight, bias=bias)
    with _in_its_place():
        output = answer(x.detach(), weight.detach(), bias.detach(), eps)
    yield "output where it stands in for F.layer_norm", output


@contextmanager
def _in_its_place() -> Iterator[None]:
    """As in the notebook's next cell, where F.layer_norm is the answer: it must not call it."""

    def called(*_: Any, **__: Any) -> None:
        raise Mistake(
            "your code calls F.layer_norm, itself or through nn.LayerNorm, whose place it takes in"
            " the next cell: there it would call itself without end.",
            "Calculate the values from mean, variance, weight and bias.",
        )

    plain = F.layer_norm
    F.layer_norm = called  # type: ignore[assignment]
    try:
        yield
    finally:
        F.layer_norm = plain


@torch.no_grad()
def notice(answer: Any) -> Mistake | None:
    """What becomes of one token, first with weight 1 and bias 0."""
    token = torch.tensor([[[1.0, 2.0, 6.0]]], dtype=torch.float64)
    ones, zeros = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    made = answer(token.clone(), ones.clone(), zeros.clone(), 1e-6)
    right = my_norm_rule(token, ones, zeros, 1e-6)
    if made.shape != token.shape:
        return None
    divisor = _divisor(made, token - token.mean())
    if abs(divisor - 7**0.5) < 1e-3:
        return Mistake(
            f"With weight 1 and bias 0 you make {_numbers(made)} of the token (1, 2, 6): its"
            f" numbers minus their mean, divided by {divisor:.4g}, the root of 14/2.",
            "Its standard deviation is the root of 14/3, 2.16: the sum of the squares is divided by"
            " how many numbers there are, correction=0, and not by one less, as PyTorch's std() and"
            " var() do.",
        )
    if not torch.allclose(made, right, atol=1e-3):
        return Mistake(
            f"With weight 1 and bias 0 you make {_numbers(made)} of the token (1, 2, 6).",
            "Its mean is 3 and its standard deviation the root of 14/3, 2.16. Subtract the one,"
            f" divide by the other, and it is {_numbers(right)}.",
        )
    weight, bias = torch.tensor([[2.0, 3, 4], [10, 20, 30]], dtype=torch.float64)
    made = answer(token.clone(), weight.clone(), bias.clone(), 1e-6)
    right = my_norm_rule(token, weight, bias, 1e-6)
    if torch.allclose(made, right, atol=1e-3):
        return _noticed_gradient(answer)
    return Mistake(
        "With weight 1 and bias 0 the token (1, 2, 6) becomes what it should; with weight (2, 3, 4)"
        f" and bias (10, 20, 30) you make {_numbers(made)} of it.",
        f"It should be {_numbers(right)}: each number times its weight, plus its bias.",
    )


@torch.enable_grad()
def _noticed_gradient(answer: Any) -> Mistake | None:
    """Whether the gradient of x is that of the plain layer norm."""
    weight, bias = random(2, 3, seed=1, dtype=torch.float64)
    found: list[Tensor] = []
    for norm in (answer, _plain):
        x = random(1, 4, 3, seed=2, dtype=torch.float64).requires_grad_()
        total = (norm(x, weight, bias, 1e-6) * random(1, 4, 3, seed=3)).sum()
        found += torch.autograd.grad(total, x)
    if not torch.allclose(found[0], found[1]):
        return None
    return Mistake(
        "The gradient of x is that of the plain layer norm: it passes through the standard"
        " deviation, too.",
        "Divide by the standard deviation detached: .detach().",
    )


def _plain(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _divisor(made: Tensor, centred: Tensor) -> float:
    """By which one number a centred token was divided; nan if there is none."""
    ratios = centred / made
    is_one = torch.allclose(ratios, ratios[..., :1].expand_as(ratios), atol=1e-3)
    return float(ratios.mean()) if is_one else float("nan")


def _numbers(token: Tensor) -> str:
    return f"({', '.join(f'{number:.4g}' for number in token.flatten().tolist())})"


CENTRED, MEAN = "x - x.mean(dim=-1, keepdim=True)", "x.mean(dim=-1, keepdim=True)"
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "(centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()"
QUOTIENT = "centred / deviation.detach()"
END = "return centred / deviation.detach() * weight + bias"

SLIPS = (
    Slip(
        {QUOTIENT: "(centred / deviation).detach() + (centred - centred.detach())"},
        "leave out the division by the standard deviation in the backward pass",
        "It is a constant there, and still divides: centred / deviation.detach()",
    ),
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
    Slip(
        {ROOT: f"({VARIANCE} + eps**2).sqrt()"},
        "add the square of eps",
        "It is the root of (variance + eps)",
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
    Slip(
        {QUOTIENT: "centred * deviation.detach()"},
        "multiply by the standard deviation",
        "Divide by it, or multiply by torch.rsqrt(variance + eps), which is 1 / standard deviation",
    ),
    Slip(
        {QUOTIENT: "centred * deviation.square().detach()"},
        "multiply by the variance with eps, without the root",
        "Divide by the root of (variance + eps), or multiply by torch.rsqrt of it",
    ),
    Slip(
        {QUOTIENT: "centred / deviation.square().square().detach()"},
        "square the variance (with eps) and divide by that",
        "Divide by the root of (variance + eps)",
    ),
    Slip(
        {QUOTIENT: "deviation.detach() / centred"},
        "divide the standard deviation by the centred numbers",
        "It is the other way round: the centred numbers, divided by the standard deviation",
    ),
    Slip(
        {QUOTIENT: "(x + x.mean(dim=-1, keepdim=True)) / deviation.detach()"},
        "add the mean",
        "Subtract it",
    ),
    Slip(
        {CENTRED: "x + x.mean(dim=-1, keepdim=True)"},
        "add the mean, and make the deviation of these numbers",
        "Subtract it",
    ),
    Slip(
        {QUOTIENT: "(x - x.sum(dim=-1, keepdim=True)) / deviation.detach()"},
        "subtract the sum in place of the mean",
        "The mean is the sum, divided by the number of values, x.shape[-1]",
    ),
    Slip(
        {QUOTIENT: "(x - x.sum(dim=-1, keepdim=True) / x.shape[1]) / deviation.detach()"},
        "divide the sum by the number of tokens, x.shape[1], to get the mean",
        "It is the sum over the last axis, divided by its length, x.shape[-1]",
    ),
    Slip(
        {QUOTIENT: "(x - x.mean(dim=-1, keepdim=True) / x.shape[-1]) / deviation.detach()"},
        "divide the mean by the number of values once more",
        "mean() has divided by it already",
    ),
    Slip(
        {END: "return centred / deviation.detach() + bias * weight"},
        "multiply the bias, and not the normalised numbers, by the weight",
        "Multiply the numbers by weight, then add bias: torch.addcmul(bias, numbers, weight)",
    ),
    Slip(
        {END: "return centred / deviation.detach() * bias + weight"},
        "exchange weight and bias",
        "Multiply by weight, then add bias",
    ),
    Slip(
        {END: "return centred / deviation.detach() * (1 + weight) + bias"},
        "multiply by 1 + weight",
        "Some models do that. Here it is the weight itself",
    ),
    Slip(
        {END: "return centred / deviation.detach() / weight + bias"},
        "divide by the weight",
        "Multiply by it",
    ),
    Slip(
        {VARIANCE: "x.square().mean(dim=-1, keepdim=True)"},
        "take the mean of the squares without the mean taken away, for the deviation",
        "The variance is that of the centred numbers",
    ),
    Slip(
        {VARIANCE: "centred.square().sum(dim=-1, keepdim=True)"},
        "add up the squares, as the length of a token does",
        "The variance is their mean",
    ),
    Slip(
        {VARIANCE: "centred.abs().mean(dim=-1, keepdim=True).square()"},
        "take the mean of the absolute values for the deviation",
        "The variance is the mean of the squares",
    ),
    Slip(
        {MEAN: "x.mean()", VARIANCE: "centred.square().mean()"},
        "take one mean and one deviation of all tokens together",
        "Each token is normalised alone: dim=-1, keepdim=True",
    ),
    Slip(
        {VARIANCE: "(x - x.mean()).square().mean()"},
        "take one deviation for all tokens together",
        "Each token has its own: dim=-1, keepdim=True",
    ),
    Slip(
        {VARIANCE: "x.var(dim=1, keepdim=True, correction=0)"},
        "take the deviation over the tokens (dim=1)",
        "Each token has its own, over its own numbers, dim=-1",
    ),
    Slip(
        {END: "return nn.LayerNorm(x.shape[-1], eps=eps)(x) * weight + bias"},
        "call nn.LayerNorm, which calls F.layer_norm, whose place your function takes in the next"
        " cell",
        "Calculate the values from mean, variance, weight and bias",
    ),
    Slip(
        {QUOTIENT: "centred.detach() / deviation"},
        "detach the centred numbers, and not the standard deviation",
        "It is the other way round: only the standard deviation is a constant",
    ),
)

EXERCISE = Exercise(
    answer=my_norm_rule,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
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
