"""Exercise: RMSNorm (Zhang & Sennrich 2019), layer norm without its mean and its bias."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ..checking import Exercise, Mistake, Slip, fits, gradients, random


def my_rms_norm(x, weight, eps):
    # (n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x / (mean_square + eps).sqrt() * weight


class NoRMSNorm(TorchFunctionMode):
    """Refuses the functions that do the whole exercise."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in (F.rms_norm, torch.rms_norm):
            raise Mistake(
                "nn.RMSNorm and F.rms_norm are the exercise in one call.",
                "Write it from the sentence.",
            )
        return function(*args, **(kwargs or {}))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Tokens with a mean, and some as small as eps, in float64; then a large eps; gradients."""
    sizes = torch.tensor([1.0, 1e-1, 1e-2, 1e-3], dtype=torch.float64)
    weight = 1 + 0.3 * random(6, seed=5, dtype=torch.float64)
    for eps in (1e-6, 0.25):
        x = (random(2, 4, 6, seed=4, dtype=torch.float64) + 0.5) * sizes[:, None]
        x.requires_grad_()
        scale = weight.clone().requires_grad_()
        with NoRMSNorm():
            output = answer(x, scale, eps)
        yield f"output with eps {eps:g}", output
        yield from gradients(output, x=x, weight=scale)


def notice(answer: Any) -> Mistake | None:
    """What becomes of a token of two numbers, alone and beside another one."""
    token = torch.tensor([[[3.0, 4.0]]], dtype=torch.float64)
    for weight, eps, right, why in (
        (
            [1.0, 1.0],
            0.0,
            "0.8485, 1.131",
            "the mean of the squares is 12.5, and each number is divided by its root",
        ),
        (
            [1.0, 1.0],
            100.0,
            "0.2828, 0.3771",
            "eps is added to the mean of the squares, 12.5, before the root is taken",
        ),
        (
            [2.0, 5.0],
            0.0,
            "1.697, 5.657",
            "after the division, each number is multiplied by its own weight",
        ),
    ):
        made = answer(token.clone(), torch.tensor(weight, dtype=torch.float64), eps)
        found = ", ".join(f"{one:.4g}" for one in made[0, 0].tolist())
        if found != right:
            divisor = _divisor(answer) if eps == 0 and weight == [1.0, 1.0] else ""
            return Mistake(
                f"Of the token 3, 4 with the weight {weight[0]:g}, {weight[1]:g} and eps {eps:g}"
                f" you make {found}.{divisor}",
                f"It should be {right}: {why}.",
            )
    ones = torch.ones(2, dtype=torch.float64)
    other = torch.tensor([[[30.0, 40.0]]], dtype=torch.float64)
    for dim, where in ((1, "in the same picture"), (0, "in another picture")):
        made = answer(torch.cat([token, other], dim=dim), ones, 0.0)
        found = ", ".join(f"{one:.4g}" for one in made[0, 0].tolist())
        if found != "0.8485, 1.131":
            return Mistake(
                "Alone, the token 3, 4 with the weight 1, 1 and eps 0 becomes 0.8485, 1.131, which"
                f" is right. With a token 30, 40 {where} it becomes {found}.",
                "Each token has its own mean of squares, over its own numbers: dim=-1.",
            )
    return None


def _divisor(answer: Any) -> str:
    """What a token is divided by, if that is a number that is known."""
    tokens = [[3.0, 4.0], [5.0, 12.0], [-2.0, 7.0]]
    divisors = []
    for token in tokens:
        x = torch.tensor([[token]], dtype=torch.float64)
        ratio = x / answer(x.clone(), torch.ones(2, dtype=torch.float64), 0.0)
        if (ratio[0, 0, 0] - ratio[0, 0, 1]).abs() > 1e-6:
            return ""
        divisors.append(float(ratio[0, 0, 0]))
    candidates: dict[str, list[float]] = {
        "the root of the sum of the squares, not of their mean": [],
        "the mean of the squares, without a root": [],
        "the sum of the squares": [],
        "the mean of the absolute values": [],
        "the sum of the absolute values": [],
        "the largest absolute value": [],
        "the standard deviation, over n": [],
        "the standard deviation, over n - 1": [],
        "the mean": [],
    }
    for token in tokens:
        x = torch.tensor(token, dtype=torch.float64)
        values = (
            x.norm(),
            x.square().mean(),
            x.square().sum(),
            x.abs().mean(),
            x.abs().sum(),
            x.abs().max(),
            x.std(correction=0),
            x.std(),
            x.mean(),
        )
        for name, value in zip(candidates, values, strict=True):
            candidates[name].append(float(value))
    name = fits(candidates, divisors)
    return f" So you divide by {divisors[0]:.4g}, {name}." if name else ""


SQUARE, END = (
    "x.square().mean(dim=-1, keepdim=True)",
    "x / (mean_square + eps).sqrt() * weight",
)

SLIPS = (
    Slip(
        {SQUARE: "(x - x.mean(dim=-1, keepdim=True)).square().mean(dim=-1, keepdim=True)"},
        "take the variance, divided by all numbers of a token, for the mean of the squares",
        "The variance is that of x minus its mean: take x.square() itself, and its mean",
    ),
    Slip(
        {END: "(x - x.mean(dim=-1, keepdim=True)) / (mean_square + eps).sqrt() * weight"},
        "subtract the mean from x in the division, but not in the mean of the squares",
        "Divide x itself",
    ),
    Slip(
        {SQUARE: "x.square().sum(dim=-1, keepdim=True)"},
        "take the sum of the squares in place of their mean",
        "Take the mean of the squares: the sum divided by how many numbers a token has",
    ),
    Slip(
        {SQUARE: "x.square().mean(dim=1, keepdim=True)"},
        "average over the tokens",
        "Each token by itself: over its own numbers, dim=-1",
    ),
    Slip(
        {SQUARE: "x.square().mean(dim=(1, 2), keepdim=True)"},
        "average over all tokens of a picture",
        "Each token by itself: over its own numbers, dim=-1",
    ),
    Slip(
        {SQUARE: "x.square().mean(dim=0, keepdim=True)"},
        "average over the pictures",
        "Each token by itself: over its own numbers, dim=-1",
    ),
    Slip(
        {
            END: "x / (mean_square + eps).sqrt() * weight",
            SQUARE: (
                "x.square().mean(dim=-1, keepdim=True)\n"
                "    x = x / (mean_square + eps).sqrt() * weight\n"
                "    mean_square = x.square().mean(dim=-1, keepdim=True)"
            ),
        },
        "do all of it twice",
        "Divide once, and multiply once",
    ),
    Slip(
        {END: "x / (mean_square + eps**2).sqrt() * weight"},
        "add the square of eps",
        "Add eps itself to the mean of the squares",
    ),
    Slip(
        {END: "x / (mean_square - eps).clamp(min=0).sqrt() * weight"},
        "subtract eps",
        "It is added, so that nothing is divided by zero",
    ),
    Slip(
        {SQUARE: "x.square().mean()"},
        "average over everything",
        ("Each token by itself: mean(dim=-1, keepdim=True)"),
    ),
    Slip(
        {END: "x / (mean_square.sqrt() + eps) * weight"},
        "add eps outside of the root",
        "It is added to the mean square, before the root",
    ),
    Slip(
        {END: "x / (mean_square + 1e-6).sqrt() * weight"},
        "add 1e-6 whatever eps is",
        "Add the argument eps",
    ),
    Slip(
        {
            SQUARE: "(x + eps).square().mean(dim=-1, keepdim=True)",
            END: "x / mean_square.sqrt() * weight",
        },
        "add eps to the numbers of x",
        "It is added to the mean of their squares",
    ),
    Slip(
        {
            SQUARE: "x.square().sum(dim=-1, keepdim=True)",
            END: "x / ((mean_square + eps) / x.shape[-1]).sqrt() * weight",
        },
        "add eps to the sum of the squares, before the division by their number",
        "It is added to the mean of the squares",
    ),
    Slip(
        {
            SQUARE: "(x * weight).square().mean(dim=-1, keepdim=True)",
        },
        "multiply by the weight before you take the mean of the squares",
        "The mean is that of the squares of x; the weight comes last",
    ),
    Slip({END: "x / mean_square.sqrt() * weight"}, "leave out eps", "Add it to the mean square"),
    Slip({END: "x / (mean_square + eps) * weight"}, "forget the root", "RMS: *root* mean square"),
    Slip({END: "x / (mean_square + eps).sqrt()"}, "leave out the weight", "Multiply by it last"),
    Slip(
        {END: "x / (mean_square + eps).sqrt() * (1 + weight)"},
        "multiply by 1 + weight in place of weight, as some libraries do",
        "Multiply by weight alone",
    ),
    Slip(
        {
            SQUARE: "(x - x.mean(dim=-1, keepdim=True)).square().mean(dim=-1, keepdim=True)",
            END: "(x - x.mean(dim=-1, keepdim=True)) / (mean_square + eps).sqrt() * weight",
        },
        "write layer norm",
        "RMSNorm subtracts no mean, and takes the mean of the squares as they are",
    ),
    Slip(
        {SQUARE: "x.var(dim=-1, keepdim=True)"},
        "take the variance, divided by one number less, for the mean of the squares",
        "The variance is that of x minus its mean: take x.square() itself, and its mean",
    ),
    Slip(
        {SQUARE: "x.mean(dim=-1, keepdim=True).square()"},
        "square the mean",
        "Read the name from its end: first square, then the mean",
    ),
    Slip(
        {
            SQUARE: "x.abs().mean(dim=-1, keepdim=True)",
            END: "x / (mean_square + eps) * weight",
        },
        "divide by the mean of the absolute values, plus eps",
        "Divide by the root of (the mean of the squares + eps)",
    ),
    Slip(
        {
            SQUARE: "x.norm(dim=-1, keepdim=True)",
            END: "x / (mean_square + eps) * weight",
        },
        "divide by the length of the token, plus eps",
        "Divide by the root of (the *mean* of the squares + eps)",
    ),
    Slip(
        {END: "x * (mean_square + eps).sqrt() * weight"},
        "multiply by the root",
        "Divide by it",
    ),
    Slip(
        {END: "x / (mean_square + eps).sqrt() / weight"},
        "divide by the weight",
        "Multiply by it last",
    ),
    Slip(
        {END: "x / (mean_square + eps).sqrt() + weight"},
        "add the weight",
        "Multiply by it: it is a scale",
    ),
    Slip(
        {END: "x / mean_square.clamp(min=eps).sqrt() * weight"},
        "use eps as a lower bound",
        "Add it to the mean square",
    ),
)

EXERCISE = Exercise(
    answer=my_rms_norm,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        "Read the name from its end: square, mean, root. Over which axis is the mean?",
        (
            "x.square().mean(dim=-1, keepdim=True) is the mean square of each token. Add eps, take"
            " the root, divide x by it, and multiply by weight."
        ),
    ),
    same=(
        {SQUARE: "(x * x).mean(-1, keepdim=True)"},
        {END: "x * (mean_square + eps).rsqrt() * weight"},
    ),
)
