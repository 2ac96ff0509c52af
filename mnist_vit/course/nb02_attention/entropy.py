"""Exercise: the entropy of each row of weights."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, random
from .softmax_rows import near


def my_entropy(weights: Tensor) -> Tensor:
    """(n, queries, keys), rows sum to 1 -> (n, queries), natural logarithm."""
    # where a weight is 0, the logarithm is any finite number: it is multiplied by 0
    logarithms = weights.clamp_min(1e-9).log()
    terms = weights * logarithms
    return -terms.sum(dim=-1)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends before the weights that are 0 if others are wrong: with or without a clamp, that has the
    same name."""
    # 4 pictures, 4 queries, 4 keys: a wrong axis has the right shape; then all differ
    weights = (2 * random(4, 4, 4, seed=31)).softmax(dim=-1)
    entropy = answer(weights.clone())
    yield "entropy of 4 pictures of 4 rows of 4 weights", entropy
    other = (2 * random(2, 3, 5, seed=32)).softmax(dim=-1)
    yield "entropy of 2 pictures of 3 rows of 5 weights", answer(other)
    if near(entropy, my_entropy(weights)):
        with_zeros = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]])
        yield "entropy of the rows (0, 1, 0) and (0.5, 0.5, 0)", answer(given := with_zeros.clone())
        if not torch.equal(given, with_zeros):
            raise Mistake(
                "the weights that came in are changed.",
                "Make a new tensor, and leave them as they are: they are still needed.",
            )
        yield "entropy of the row (0, 0.25, 0.75)", answer(torch.tensor([[[0.0, 0.25, 0.75]]]))


def tell(evidence: Evidence) -> tuple[str, str]:
    """Whether it can be an entropy at all, and one row to compute by hand."""
    if evidence.has_tensors and evidence.value.shape != evidence.expected.shape:
        return "", "One number for each row should come back: sum(dim=-1) leaves these."
    if not evidence.is_finite:
        return "", ""
    if evidence.pair is None:
        return "", ""
    weights = evidence.pair[0].before[0]
    keys = weights.shape[-1]
    place = (evidence.value - evidence.expected).abs().flatten().argmax()
    row = ", ".join(f"{weight:.3g}" for weight in weights.flatten(0, -2)[place].tolist())
    told = f"By hand, for the row {row}: minus the sum of a ln a."
    if evidence.value.min() < -1e-3:
        return "Some of your numbers are below 0, and no entropy is.", told
    if evidence.value.max() > math.log(keys) + 1e-3:
        return (
            f"Some of your numbers are above ln {keys}, the largest entropy of {keys} keys.",
            told,
        )
    given = evidence.value.flatten()[place]
    return f"For the row {row} you give {given + 0.0:.4g}.", "By hand: minus the sum of a ln a."


CLAMPED, TERMS, END = (
    "weights.clamp_min(1e-9).log()",
    "terms = weights * logarithms",
    "return -terms.sum(dim=-1)",
)

SMALL = ("0.01", "0.001", "1e-4", "1e-5", "1e-6")
FAR_TOO_LARGE = "That changes weights that are not 0: take a much smaller number, such as 1e-9"

SLIPS = (
    Slip(
        {CLAMPED: "weights.log()", END: "return (-terms.sum(dim=-1)).nan_to_num()"},
        "turn nan into 0 after the sum, so that every row with a 0 in it gets 0",
        "One 0 · ln 0 is nan, and makes the whole sum nan. Turn the single terms into 0, before"
        " they are summed",
    ),
    Slip(
        {CLAMPED: "weights.log()"},
        "take the logarithm of a weight that is 0",
        "It is minus infinity, and 0 times infinity is nan. Such a weight adds nothing: clamp the"
        " weight inside the logarithm, as in weights.clamp_min(1e-9).log()",
    ),
    *(
        Slip(
            {CLAMPED: f"{raised}.log()", TERMS: f"terms = {raised} * logarithms"},
            f"{did} in the product, too, and not in the logarithm alone",
            "What multiplies the logarithm is the weight as it is; inside the logarithm take a very"
            " small number, such as 1e-9",
        )
        for small in SMALL
        for raised, did in (
            (f"weights.clamp_min({small})", f"raise the weights to at least {small}"),
            (f"(weights + {small})", f"add {small} to the weights"),
        )
    ),
    *(
        Slip(
            {CLAMPED: f"weights.clamp_min({small}).log()"},
            f"raise the weights to at least {small} inside the logarithm",
            FAR_TOO_LARGE,
        )
        for small in SMALL[:2]
    ),
    *(
        Slip(
            {CLAMPED: f"(weights + {small}).log()"},
            f"add {small} to the weights inside the logarithm",
            FAR_TOO_LARGE,
        )
        for small in SMALL[:4]
    ),
    *(
        Slip(
            {
                CLAMPED: f"{raised}",
                TERMS: "logarithms = logarithms / logarithms.sum(dim=-1, keepdim=True)\n"
                "    terms = logarithms * logarithms.log()",
            },
            f"{did}, and divide each row by its sum again",
            "That is the entropy of other weights. Only inside the logarithm a very small number"
            " does no harm, such as 1e-9",
        )
        for small in ("0.1", "0.05", *SMALL[:3])
        for raised, did in (
            (f"weights.clamp_min({small})", f"raise the weights to at least {small}"),
            (f"weights + {small}", f"add {small} to the weights"),
        )
    ),
    Slip(
        {CLAMPED: "weights.log1p()", "-terms": "terms"},
        "take the sum of a ln(1 + a), as log1p gives it, with a plus",
        "log1p(a) is another function, ln(1 + a): take ln a where a is not 0, and minus the sum",
    ),
    Slip(
        {CLAMPED: "weights.log1p()"},
        "take ln(1 + a), as log1p does",
        "That is another function: take ln a, and add 0 where a is 0",
    ),
    Slip(
        {"-terms": "terms"},
        "leave out the minus sign",
        "The logarithm of a weight is never above zero, and entropy is never below",
    ),
    Slip(
        {".log()": ".log2()"},
        "take the logarithm to base 2",
        "That is the entropy in bits; here it is the natural logarithm: log()",
    ),
    Slip(
        {".log()": ".log10()"},
        "take the logarithm to base 10",
        "Here it is the natural logarithm: log()",
    ),
    Slip(
        {"terms.sum": "terms.mean"}, "take the mean over the row", "Entropy is the sum: sum(dim=-1)"
    ),
    Slip(
        {END: "return -terms.sum(dim=-1) / torch.tensor(weights.shape[-1]).log()"},
        "divide by ln of the number of keys",
        "That makes 1 the largest value; here entropy is the sum as it stands",
    ),
    Slip(
        {"dim=-1": "dim=-2"},
        "sum down the columns",
        "A row of weights is along the last axis: sum(dim=-1)",
    ),
    Slip(
        {"dim=-1": "dim=0"},
        "sum over axis 0, the pictures of the batch",
        "A row of weights is along the last axis: sum(dim=-1)",
    ),
    Slip(
        {END: "return -terms"},
        "leave out the sum",
        "There is one entropy for each row: sum(dim=-1)",
    ),
    Slip(
        {"dim=-1": ""},
        "sum over everything",
        "There is one entropy for each row: what sum(dim=-1) gets must still have the rows. A"
        " selection by a mask, such as weights[weights > 0], has none",
    ),
    Slip(
        {END: "return -terms.sum(dim=-1).mean()"},
        "take the mean over all rows",
        "There is one entropy for each row: return them all",
    ),
    *(
        Slip({END: f"return {result}"}, f"take {did}", "Entropy is minus the sum of a ln a")
        for result, did in (
            ("-weights.amax(dim=-1).log()", "minus the logarithm of the largest weight"),
            ("weights.var(dim=-1)", "the variance of the row"),
            ("weights.std(dim=-1)", "the standard deviation of the row"),
            ("1 - weights.square().sum(dim=-1)", "1 minus the sum of the squares"),
            ("-weights.square().sum(dim=-1).log()", "minus the logarithm of the sum of squares"),
        )
    ),
    Slip(
        {TERMS: "terms = weights * weights * logarithms"},
        "multiply by the weight twice",
        "Each logarithm is multiplied by its weight once",
    ),
    Slip(
        {CLAMPED: "weights.log()", TERMS: "terms = weights.where(weights > 0, 1) * logarithms"},
        "put another number in the place of a weight that is 0 in the product alone, and not inside"
        " the logarithm",
        "The logarithm of 0 is infinite whatever it is multiplied by: clamp the weight inside it",
    ),
    Slip(
        {
            CLAMPED: "weights[weights > 0]",
            TERMS: "terms = (logarithms * logarithms.log()).reshape(weights.shape)",
        },
        "select the weights above 0, which leaves fewer numbers, and reshape",
        "What is left fits the rows no longer. Keep all weights, and clamp inside the logarithm",
    ),
    Slip(
        {TERMS: "terms = logarithms"},
        "sum the logarithms alone",
        "Each is multiplied by its weight before the sum",
    ),
    Slip(
        {
            CLAMPED: "weights.softmax(dim=-1).log()",
            TERMS: "terms = weights.softmax(dim=-1) * logarithms",
        },
        "take the softmax once more",
        "What comes in are weights already: their rows sum to 1",
    ),
    Slip(
        {CLAMPED: "weights.log_softmax(dim=-1)"},
        "take log_softmax of the weights, which takes a softmax of them before the logarithm",
        "What comes in are weights already: take their logarithm alone, log()",
    ),
    Slip(
        {TERMS: "terms = (weights * logarithms)[..., (weights > 0).flatten(0, 1).all(dim=0)]"},
        "leave a key out of a row because its weight is 0 in another row",
        "A weight that is 0 adds nothing to its own row alone. Keep all keys, and clamp inside the"
        " logarithm",
    ),
    Slip(
        {END: "return torch.exp(-terms.sum(dim=-1))"},
        "take exp of the entropy",
        "It says how many tokens a row looks at; return the entropy itself",
    ),
)

EXERCISE = Exercise(
    answer=my_entropy,
    compare=compare,
    stars=2,
    tolerance=1e-5,  # whoever adds 1e-6 inside the logarithm is right, too
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "The formula is for one row: minus the sum of a ln a. What is the result for the row 0,"
            " 1, 0, and what does your code make of ln 0?"
        ),
        (
            "One number for each row: multiply the weights by their logarithm, sum along the last"
            " axis, change the sign. Keep ln away from 0: a very small number in its place, as"
            " clamp_min puts there, does no harm, because it is multiplied by 0."
        ),
    ),
    same=(
        {CLAMPED: "(weights + 1e-9).log()"},
        {TERMS: "terms = -weights * logarithms", END: "return terms.sum(dim=-1)"},
        {TERMS: "terms = torch.special.entr(weights)", END: "return terms.sum(dim=-1)"},
    ),
)
