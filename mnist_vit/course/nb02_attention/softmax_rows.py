"""Exercise: softmax along the last axis, also for scores that are too large for exp."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, random
from ..watching import Watch


def my_softmax_rows(scores: Tensor) -> Tensor:
    """(…, queries, keys) -> the same shape, rows sum to 1; scores may be large."""
    largest = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - largest)  # the largest exponent of a row is 0
    total = e.sum(dim=-1, keepdim=True)
    return e / total


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends after small scores if those are wrong: with or without the maximum, that mistake then
    has the same name."""
    scores = random(2, 3, 5, seed=21)
    weights = answer(scores)
    yield "matrix of weights", weights
    if not near(weights, my_softmax_rows(scores)):
        return
    right = True
    # in the tensor above the last axis is axis 2, too
    for axes, scores in ((4, random(2, 2, 3, 4, seed=22)), (2, random(3, 5, seed=23))):
        weights = answer(scores)
        yield f"matrix of weights for scores with {axes} axes", weights
        right = right and near(weights, my_softmax_rows(scores))
    # exp(1000) is too large for a float, exp(-1000) too small. Alone first, where one number
    # subtracted from the whole tensor is enough; then together, and then in one row. float64, so
    # that exp(scores - logsumexp) is right, too. The last four rows tell which other number than
    # the maximum was subtracted.
    high, low = [1000.0, 1001.0, 1002.0], [-1000.0, -1001.0, -1002.0]
    apart = [[0.0, 1000.0, -1000.0], [800.0, 0.0, 0.0], [0.0, 0.0, 800.0], [0.0, 800.0, 800.0]]
    for name, rows in (
        ("scores near 400", [[400.0, 401.0, 402.0]]),
        ("scores near 1000", [high]),
        ("scores near -1000", [low]),
        ("a row near 1000 and a row near -1000", [high, low]),
        ("scores far apart in one row", apart),
    ):
        scores = torch.tensor([rows], dtype=torch.float64)
        weights = answer(scores)
        yield f"matrix of weights for {name}", weights
        right = right and near(weights, my_softmax_rows(scores))
    with Watch("softmax") as watch:
        answer(random(2, 3))
    if right and watch.seen:  # another mistake is told first
        raise Mistake(
            "right, but torch's softmax is what you are to write yourself.",
            "Use torch.exp and a sum.",
        )


def more(answer: Any) -> list[bool]:
    """Whether it gives numbers where exp is just too large, or too small, for a float, or just not.

    Asked only of what is right for small scores.
    """
    small = random(2, 2, 3, 4, seed=22)
    if not near(answer(small), my_softmax_rows(small)):
        return []
    high = [[[0.0, 710.0]], [[0.0, 709.0]]]
    low = [[[-360.0, -360.0]], [[-360.0, -1000.0]], [[-360.0, -360.0], [390.0, 390.0]]]
    low += [[[-500.0, -500.0]]]
    given = [answer(torch.tensor([rows], dtype=torch.float64)) for rows in high + low]
    return [bool(weights.isfinite().all()) for weights in given]


def near(value: Any, right: Tensor) -> bool:
    """Whether a value is right, but for less than anybody's mistake makes."""
    if not isinstance(value, Tensor) or value.shape != right.shape:
        return False
    return bool((value - right).abs().max() < 1e-3)


def tell(evidence: Evidence) -> tuple[str, str]:
    """Weights of another kind than the scores."""
    if evidence.has_tensors and evidence.value.dtype != evidence.expected.dtype:
        return (
            "",
            "The weights should have the dtype of the scores: leave float() and double() out.",
        )
    return "", ""


LARGEST, TOTAL, END = (
    "scores.amax(dim=-1, keepdim=True)",
    "e.sum(dim=-1, keepdim=True)",
    "return e / total",
)


def _axes(dim: str) -> dict[str, str]:
    """The edit that makes it a softmax along another axis, or several."""
    return {
        LARGEST: f"scores.amax(dim={dim}, keepdim=True)",
        TOTAL: f"e.sum(dim={dim}, keepdim=True)",
    }


SLIPS = (
    *(
        Slip(
            {LARGEST: f"{largest}.clamp_min(0)"},
            "subtract a maximum only where it is large, and so none from scores far below 0",
            "exp(-1000) is 0, and 0 / 0 is nan. Subtract each row's maximum always: it changes no"
            " weight",
        )
        for largest in ("scores.amax(dim=-1, keepdim=True)", "scores.max()")
    ),
    Slip(
        {LARGEST: "scores.sum(dim=-1, keepdim=True)"},
        "subtract each row's sum",
        "It may be so much larger than every score that each exp is 0, and 0 / 0 is nan. Subtract"
        " each row's maximum: scores.amax(dim=-1, keepdim=True)",
    ),
    *(
        Slip(
            {LARGEST: shift},
            f"subtract each row's {name} score",
            "A score far above it is still too large for exp, and inf / inf is nan. Subtract each"
            " row's maximum: scores.amax(dim=-1, keepdim=True)",
        )
        for name, shift in (
            ("first", "scores[..., :1]"),
            ("last", "scores[..., -1:]"),
            ("middle (median)", "scores.median(dim=-1, keepdim=True).values"),
        )
    ),
    Slip(
        {"scores - largest": "scores"},
        "take exp of the scores as they are",
        "The formula is right, but exp(1000) is too large for a float: inf / inf is nan. Subtract"
        " each row's maximum first; it cancels in the division",
    ),
    Slip(
        {
            LARGEST: "scores.abs().amax(dim=-1, keepdim=True).clamp_min(1)",
            "scores - largest": "scores / largest",
        },
        "divide each row's scores by their largest, where that is above 1",
        "Other scores have other weights. To subtract one number from a row changes none of its"
        " weights: subtract its maximum",
    ),
    Slip(
        {LARGEST: "scores.argmax(dim=-1, keepdim=True)"},
        "subtract the place of the largest score in its row",
        "argmax gives the place, amax the score itself: scores.amax(dim=-1, keepdim=True)",
    ),
    Slip(
        {"e = torch.exp(scores - largest)": "e = torch.exp(scores)\n    e = e / e.amax(-1, True)"},
        "take exp first, and divide by its largest after it",
        "exp(1000) is infinite already. Subtract each row's maximum from the scores, before exp",
    ),
    Slip(
        {"scores - largest": "scores", END: "return (e / total).nan_to_num()"},
        "turn nan into 0 at the end",
        "The weights are lost by then. Subtract each row's maximum before exp, and no nan comes up",
    ),
    Slip({"torch.exp(": "torch.exp2("}, "take powers of 2", "The softmax takes powers of e: exp"),
    Slip(
        {TOTAL: "e.mean(dim=-1, keepdim=True)"},
        "divide by the mean of the row",
        "Divide by its sum, so that each row sums to 1",
    ),
    Slip(
        {TOTAL: "e.norm(dim=-1, keepdim=True)"},
        "divide by the root of the sum of squares of the row",
        "Divide by the plain sum, so that each row sums to 1",
    ),
    Slip(
        {LARGEST: "scores.max()"},
        "subtract one maximum of the whole tensor",
        "In a row far below it every exp is 0, and 0 / 0 is nan. Each row needs its own maximum:"
        " scores.amax(dim=-1, keepdim=True)",
    ),
    Slip(
        {LARGEST: "scores.mean(dim=-1, keepdim=True)"},
        "subtract each row's mean",
        "A score far above it is still too large for exp, and inf / inf is nan. Subtract each row's"
        " maximum, so that no exponent is above 0: scores.amax(dim=-1, keepdim=True)",
    ),
    Slip(
        {LARGEST: "scores.amin(dim=-1, keepdim=True)"},
        "subtract each row's minimum",
        "A score far above it is still too large for exp, and inf / inf is nan. Subtract each row's"
        " maximum, so that no exponent is above 0: scores.amax(dim=-1, keepdim=True)",
    ),
    Slip(
        {"scores - largest": "scores.clamp(-80, 80)"},
        "cut large scores off with clamp",
        "Scores beyond the limit then all get the same weight. Subtract each row's maximum instead;"
        " it changes no weight",
    ),
    Slip(
        _axes("-2"),
        "sum over the wrong axis",
        "Your columns sum to 1. A row is along the last axis: dim=-1",
    ),
    Slip(
        _axes("0"),
        "sum over axis 0, the images of the batch",
        "A row is along the last axis: dim=-1",
    ),
    Slip(
        _axes("2"),
        "sum over axis 2",
        "It is the last one of three axes only; dim=-1 is the last one, however many there are",
    ),
    Slip(
        _axes("(-2, -1)"),
        "sum over the whole matrix of an image",
        "Each row must sum to 1 by itself: dim=-1",
    ),
    Slip(
        {LARGEST: "scores.max()", TOTAL: "e.sum()"},
        "sum over everything",
        "Each row must sum to 1 by itself: sum(dim=-1, keepdim=True)",
    ),
    Slip(
        {TOTAL: "e.sum(dim=-1)"},
        "leave out keepdim=True",
        (
            "The axis is gone, and what is left does not fit the rows: keepdim=True in the sum,"
            " and in the maximum"
        ),
    ),
    Slip(
        {"scores - largest": "scores", END: "return e"},
        "leave out the division",
        "Divide by the sum of the row",
    ),
    Slip(
        {END: "return e"},
        "subtract the maximum and take exp, but leave out the division",
        "Divide by the sum of the row",
    ),
    Slip(
        {"torch.exp(scores - largest)": "scores"},
        "leave out exp",
        "Scores can be below zero, weights cannot: take exp first",
    ),
    Slip(
        {END: "return torch.log(e / total)"},
        "give the logarithm of the weights",
        "Take exp of it, or divide instead of subtracting",
    ),
    Slip(
        {LARGEST: "scores.max(dim=-1, keepdim=True)"},
        "forget .values",
        "scores.max along an axis gives a pair, the values and their places."
        " scores.amax gives the values alone",
    ),
    Slip(
        {"scores - largest": "scores - 1000"},
        "subtract one large number, such as 1000, from all scores",
        "Where they are far below it every exp is 0, and 0 / 0 is nan. Each row needs its own"
        " maximum: scores.amax(dim=-1, keepdim=True)",
    ),
    Slip(
        {"scores - largest": "scores.clamp(max=80)"},
        "cut large scores off with clamp",
        "Scores beyond the limit then all get the same weight. Subtract each row's maximum instead;"
        " it changes no weight",
    ),
    Slip(
        {"scores - largest": "largest - scores"},
        "subtract the wrong way round",
        "It is scores - maximum",
    ),
    *(
        Slip(
            {LARGEST: f"scores.amax(dim={dim}, keepdim=True)"},
            f"subtract the largest score along axis {dim}, another number for each of a row's"
            " scores",
            "The weights stay what they are only if one number is subtracted from a whole row:"
            " scores.amax(dim=-1, keepdim=True)",
        )
        for dim in (-2, 0)
    ),
    Slip({"scores - largest": "scores / largest"}, "divide by the maximum", "It is subtracted"),
    *(
        Slip(
            {LARGEST: shift},
            f"subtract {words}",
            "Where that is far above every score, each exp is 0, and 0 / 0 is nan. Subtract each"
            " row's maximum, with its sign: scores.amax(dim=-1, keepdim=True)",
        )
        for shift, words in (
            (
                "scores.abs().amax(dim=-1, keepdim=True)",
                "the largest of each row's scores without their signs",
            ),
            ("scores.abs().max()", "the largest of all scores without their signs"),
            ("scores.amax(dim=-1, keepdim=True).abs()", "each row's maximum without its sign"),
            ("scores.norm(dim=-1, keepdim=True)", "the root of each row's sum of squares"),
        )
    ),
    Slip(
        {LARGEST: "scores.abs().amax(dim=-1, keepdim=True)", "scores - ": "scores / "},
        "divide each row by the largest of its scores without their signs",
        "That changes the weights. Subtract each row's maximum, which changes none",
    ),
    Slip(
        {TOTAL: "e.sum()"},
        "divide by the sum of everything",
        "Each row must sum to 1 by itself: sum(dim=-1, keepdim=True)",
    ),
    Slip(
        {"torch.exp(scores - largest)": "scores - largest"},
        "subtract the maximum and leave out exp",
        "What is divided by the sum of the row is exp of it",
    ),
)

EXERCISE = Exercise(
    answer=my_softmax_rows,
    compare=compare,
    stars=1,
    slips=SLIPS,
    tell=tell,
    more=more,
    hints=(
        (
            "Write down the formula for one row: each number is exp of a score, divided by the sum"
            " of exp over that row. Then: what is exp(1000) in a float?"
        ),
        (
            "The sum runs along the last axis, and must keep it, so that the division fits:"
            " sum(dim=-1, keepdim=True). Softmax does not change when the same number is subtracted"
            " from a whole row, so subtract the row's maximum: scores.amax takes dim and keepdim,"
            " too."
        ),
    ),
    same=(
        {
            "e = torch.exp(scores - largest)": (
                "shifted = scores - largest\n    e = torch.exp(shifted)"
            )
        },
        {END: "return torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))"},
    ),
)
