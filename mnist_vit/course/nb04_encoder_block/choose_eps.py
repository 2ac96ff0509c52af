"""Exercise: the largest eps with which layer norm leaves no token too small."""

from collections.abc import Iterator
from typing import Any

from ..checking import Exercise, Slip, random


def my_choose_eps(tokens, keep):
    # Layer norm divides by sqrt(variance + eps) where sqrt(variance) would be right, so a token
    # keeps the share sqrt(variance / (variance + eps)) of its size. The quietest token decides.
    variance = tokens.var(dim=-1, correction=0)
    return (variance.min() * (1 / keep**2 - 1)).item()


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Tokens of very different variance, large ones, so that eps is about 1 and rounding is far
    below it."""
    for keep in (0.99, 0.5):
        tokens = random(2, 5, 4, seed=3) * (40 * random(2, 5, 1, seed=4).abs() + 20) + 7
        yield f"eps for keep={keep}", answer(tokens, keep)


VARIANCE, LEAST, SHARE = "tokens.var(dim=-1, correction=0)", "variance.min()", "(1 / keep**2 - 1)"

SLIPS = (
    Slip(
        {VARIANCE: "tokens.var(dim=-1)"},
        "take the unbiased variance, PyTorch's usual one",
        "Layer norm divides the squares by their number, correction=0",
    ),
    Slip(
        {LEAST: "variance.mean()"},
        "let the average token decide",
        "No token may stay too small, so the quietest decides",
    ),
    Slip(
        {LEAST: "variance.max()"},
        "let the loudest token decide",
        "eps is felt most where the variance is least",
    ),
    Slip(
        {VARIANCE: "tokens.var(correction=0)"},
        "take one variance for all tokens together",
        "Layer norm looks at each token alone, dim=-1",
    ),
    Slip(
        {VARIANCE: "tokens.var(dim=1, correction=0)"},
        "take the variance over the tokens, dim=1",
        "Layer norm looks at the numbers of one token, dim=-1",
    ),
    Slip(
        {VARIANCE: "tokens.std(dim=-1, correction=0)"},
        "take the standard deviation for the variance",
        "eps is added to the variance, inside the root",
    ),
    Slip(
        {VARIANCE: "tokens.square().mean(dim=-1)"},
        "forget that the mean is subtracted first",
        "The variance is what is left of the squares without it",
    ),
    Slip(
        {SHARE: "(1 / keep - 1)"},
        "forget the root",
        "The size shrinks with the root of variance / (variance + eps), so keep is squared",
    ),
    Slip(
        {VARIANCE: "tokens.std(dim=-1, correction=0)", SHARE: "(1 / keep - 1)"},
        "reckon as if eps stood outside the root",
        "It is added to the variance, and then the root is taken",
    ),
    Slip(
        {SHARE: "(1 - keep**2)"},
        "multiply by 1 - keep² where 1 / keep² - 1 is right",
        "Solve keep² = variance / (variance + eps) for eps once more",
    ),
    Slip(
        {SHARE: "(1 - keep)"},
        "multiply the variance by 1 - keep",
        "The share kept is the root of variance / (variance + eps); solve it for eps",
    ),
    Slip(
        {SHARE: "(1 / (1 - keep) ** 2 - 1)"},
        "take 1 - keep, what is lost, for what a token must keep",
        "keep is the share itself, such as 0.99",
    ),
    Slip(
        {SHARE: "keep**2 / (1 - keep**2)"},
        "have the fraction upside down",
        "The more a token must keep, the smaller eps has to be",
    ),
)

EXERCISE = Exercise(
    answer=my_choose_eps,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        (
            "By which factor is a token smaller if you divide by √(σ² + ε) and not by σ? Which"
            " token feels ε most?"
        ),
        (
            "The factor is √(σ² / (σ² + ε)). Set it equal to keep, square both sides, solve for ε."
            " The token with the smallest variance (correction=0) gives the smallest ε, and that"
            " one is safe for all."
        ),
    ),
    same=(
        {
            "(variance.min() * (1 / keep**2 - 1)).item()": (
                "variance.min() / keep**2 - variance.min()"
            )
        },
    ),
    tolerance=1e-4,
)
