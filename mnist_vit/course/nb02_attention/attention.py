"""Exercise: scaled dot-product attention, equation 1 of Vaswani et al. 2017."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..checking import Evidence, Exercise, Mistake, Slip, gradients, make, random
from .softmax_rows import near


def my_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """(…, queries, d), (…, keys, d), (…, keys, d_v) -> output, weights.

    The output is (…, queries, d_v), the weights are (…, queries, keys).
    """
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


LARGE = "where scores are 800, 0 and -800"


class NotInOneCall(TorchFunctionMode):
    """Refuses the function that does the whole exercise, however it was imported."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.scaled_dot_product_attention:
            raise Mistake(
                "F.scaled_dot_product_attention is the exercise in one call.",
                "Write the equation: a matrix product, a division, a softmax and another product.",
            )
        return function(*args, **(kwargs or {}))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends before the inputs with four axes if three are wrong: a mistake there has the same name
    for any axes."""
    attend = make(answer) if isinstance(answer, type) else answer
    # First every axis is 4 long: a wrong axis has the right shape, and its mistake can be named.
    # Then all differ.
    for sizes, (n, queries, keys, d, d_v) in (
        ("4 queries and 4 keys", (4, 4, 4, 4, 4)),
        ("3 queries and 5 keys", (2, 3, 5, 8, 6)),
    ):
        q, k = (
            random(n, queries, d, seed=26).requires_grad_(),
            random(n, keys, d, seed=27).requires_grad_(),
        )
        v = (10 * random(n, keys, d_v, seed=28)).requires_grad_()
        with NotInOneCall():
            output, weights = pair(attend, q, k, v)
        yield f"output for {sizes}", output
        yield f"matrix of weights for {sizes}", weights
    yield from gradients(output, q=q, k=k, v=v)
    if near(output, my_attention(q, k, v)[0]):
        q, k, v = (
            random(2, 3, 4, 5, seed=29),
            random(2, 3, 6, 5, seed=30),
            random(2, 3, 6, 7, seed=31),
        )
        with NotInOneCall():
            output, weights = pair(attend, q, k, v)
        yield "output for inputs with 4 axes", output
        yield "matrix of weights for inputs with 4 axes", weights
    if near(output, my_attention(q, k, v)[0]):  # a mistake for all scores is told first
        output, weights = pair(attend, *_far_apart())
        yield f"matrix of weights {LARGE}", weights
        yield f"output {LARGE}", output


def _far_apart() -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of which each score is 0, 800 or -800.

    They are multiples of 40, so that no score is rounded. Query 3 is 0, query 4 is far from all
    keys: their weights are all alike.
    """
    keys = 40 * torch.eye(4)
    queries = torch.cat([keys[[2, 0, 1]], torch.zeros(1, 4), torch.full((1, 4), -40.0)])
    return queries[None], keys[None], random(1, 4, 3, seed=32)


def tell(evidence: Evidence) -> tuple[str, str]:
    """Why large scores become nan."""
    if not evidence.what.endswith(LARGE) or evidence.is_finite:
        return "", ""
    return (
        "A float32 cannot hold exp(800), and exp(-800) is rounded to 0.",
        "Subtract each row's largest score from the row before exp, which changes no weight."
        " scores.softmax(dim=-1) does so itself.",
    )


def pair(answer: Any, *inputs: Tensor) -> tuple[Any, Any]:
    """What an answer returns, as (output, weights)."""
    got = answer(*inputs)
    if got is None or got is ...:
        return got, None
    if not isinstance(got, tuple | list) or len(got) != 2:
        raise Mistake(
            "two things must come back, the output and the weights: return output, weights."
        )
    return got[0], got[1]


SCORES, SCALED, ROOT = (
    "q @ k.transpose(-2, -1)",
    "scores / math.sqrt(q.shape[-1])",
    "math.sqrt(q.shape[-1])",
)
SOFTMAX, GATHER, END = "scores.softmax(dim=-1)", "output = weights @ v", "return output, weights"

WRITTEN = (
    "The gradient does not see such a division. Write q = q / math.sqrt(q.shape[-1]), or the"
    " same with the scores: a new tensor, and the q and k that came in stay as they are"
)


def _unseen(line: str, scores: str = "") -> dict[str, str]:
    """The edit that divides in place, where autograd does not look."""
    hidden = f"with torch.no_grad():\n        {line}"
    made = f"scores = {SCORES}"
    return {made: f"{scores}{hidden}\n    {'' if scores else made}", SCALED: "scores"}


SLIPS = (
    *(
        Slip(
            _unseen(f"{name} /= math.sqrt({name}.shape[-1])"),
            f"divide {name} in place under no_grad(), or through .data",
            WRITTEN,
        )
        for name in ("q", "k")
    ),
    Slip(
        _unseen("scores /= math.sqrt(q.shape[-1])", scores=f"scores = {SCORES}\n    "),
        "divide the scores in place under no_grad(), or through .data",
        WRITTEN,
    ),
    Slip(
        {ROOT: "q.shape[-1]"},
        "divide by d and not by √d",
        "The rows come out too flat: divide by math.sqrt(q.shape[-1])",
    ),
    Slip(
        {ROOT: "(2 * q.shape[-1])"},
        "divide by 2 d, as / d ** 1 / 2 does",
        "** comes first, then one division after the other: √d is d ** 0.5",
    ),
    Slip(
        {ROOT: "(q.shape[-1] / 2)"},
        "divide by d / 2, which is what d ** 1 / 2 gives",
        "** comes before /: √d is d ** 0.5",
    ),
    Slip(
        {
            SCALED: "scores / (q.norm(dim=-1)[..., None] * k.norm(dim=-1)[..., None, :])"
            " * math.sqrt(q.shape[-1])"
        },
        "make queries and keys 1 long, and multiply by √d",
        "The lengths count, too: the scores are q kᵀ / √d",
    ),
    *(
        Slip(
            {SCORES: scores, SCALED: scaled},
            f"compare by distance, minus the {what} from query to key{also}",
            "A score is the product of a query and a key, q kᵀ / √d: it grows with their lengths,"
            " too",
        )
        for scores, what in (
            ("-torch.cdist(q, k)", "distance"),
            ("-torch.cdist(q, k) ** 2", "squared distance"),
        )
        for scaled, also in ((SCALED, ""), ("scores", ", not divided by √d"))
    ),
    Slip(
        {SOFTMAX: "F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(q.dtype)"},
        "give all of a query's attention to the key with its largest score",
        "The softmax gives every key a share, and lets gradients through: scores.softmax(dim=-1)",
    ),
    Slip(
        {SCALED: "scores"},
        "leave out the division by √d",
        "The rows come out too sharp: divide by math.sqrt(q.shape[-1])",
    ),
    Slip(
        {"scores / math": "scores * math"},
        "multiply by √d",
        "Divide by it: the scores are too large, not too small",
    ),
    Slip(
        {"q.shape[-1]": "q.shape[-2]"},
        "divide by the root of the number of queries",
        "d is how many numbers one query has: q.shape[-1]",
    ),
    Slip(
        {"q.shape[-1]": "k.shape[-2]"},
        "divide by the root of the number of keys",
        "d is how many numbers one key has: k.shape[-1]",
    ),
    Slip(
        {"q.shape[-1]": "v.shape[-1]"},
        "divide by the root of how many numbers a value has",
        "d is how many numbers a query has: q.shape[-1]",
    ),
    Slip(
        {"q.shape[-1]": "len(q)"},
        "divide by the root of len(q), the length of its first axis",
        "d is how many numbers a query has: q.shape[-1]",
    ),
    Slip(
        {ROOT: "math.sqrt(32)"},
        "write the root as a number, √32",
        "It holds for queries of 32 numbers only: math.sqrt(q.shape[-1]) fits all",
    ),
    Slip(
        {ROOT: "math.sqrt(49)"},
        "write the root as a number, √49",
        "It holds for queries of 49 numbers only: math.sqrt(q.shape[-1]) fits all",
    ),
    Slip(
        {SCALED: "scores", SOFTMAX: "scores.softmax(dim=-1) / math.sqrt(q.shape[-1])"},
        "divide the weights by √d, after the softmax",
        "The rows no longer sum to 1: divide the scores, before it",
    ),
    Slip(
        {"softmax(dim=-1)": "softmax(dim=-2)"},
        "take the softmax over the queries, so that columns sum to 1",
        "Each query shares out its attention over the keys. In scores made as q kᵀ they are the"
        " last axis: softmax(dim=-1)",
    ),
    Slip(
        {"softmax(dim=-1)": "softmax(dim=0)"},
        "take the softmax over the batch, so that pictures share out the attention among each"
        " other, as softmax without dim does of three axes",
        "Each query does, over the keys, the last axis: softmax(dim=-1)",
    ),
    Slip(
        {"softmax(dim=-1)": "softmax(dim=2)"},
        "take the softmax along axis 2",
        "It is the last one of three axes only; from notebook 03 on there are four, and dim=-1 is"
        " the last one of any",
    ),
    Slip(
        {"k.transpose(-2, -1)": "k.transpose(1, 2)"},
        "swap axes 1 and 2 of k",
        "They are the last two of three axes only; from notebook 03 on there are four, and"
        " transpose(-2, -1) swaps the last two of any",
    ),
    *(
        Slip({SCORES: scores}, did, "q @ k.transpose(-2, -1) fits any number of axes in front")
        for scores, did in (
            ("q @ k.t()", "use t(), which takes a matrix only"),
            ("torch.bmm(q, k.transpose(-2, -1))", "use torch.bmm, which takes three axes only"),
            (
                "torch.stack([one @ other.T for one, other in zip(q, k)])",
                "go through the first axis and write .T, which is right for three axes only",
            ),
        )
    ),
    *(
        Slip({ROOT: root}, "hand math.sqrt the whole shape", "d is its last number: q.shape[-1]")
        for root in ("math.sqrt(q.shape)", "math.sqrt(q.size())")
    ),
    Slip(
        {ROOT: "q.shape[-1] ** 0.25"},
        "divide by the fourth root of d, as a division of q or of k alone by d ** 0.25 does",
        "The scores are divided by √d: d ** 0.5",
    ),
    *(
        Slip(
            {ROOT: f"{whole}({ROOT})"},
            f"round √d {how} to a whole number",
            "√d need not be whole: math.sqrt(q.shape[-1])",
        )
        for whole, how in (("int", "down"), ("math.ceil", "up"))
    ),
    Slip(
        {"scores / math": "scores // math"},
        "write // for the division, which rounds down",
        "A plain / divides: scores / math.sqrt(q.shape[-1])",
    ),
    *(
        Slip(
            {SCALED: f"({SCALED}){hidden}"},
            f"hide from each query the keys that come {side} it",
            "Each query looks at all keys here: leave the mask out",
        )
        for hidden, side in (
            (".masked_fill(scores.new_ones(scores.shape[-2:]).triu(1).bool(), -math.inf)", "after"),
            (
                ".masked_fill(scores.new_ones(scores.shape[-2:]).tril(-1).bool(), -math.inf)",
                "before",
            ),
        )
    ),
    Slip(
        {SOFTMAX: "scores.sigmoid()"},
        "use the sigmoid",
        "Each weight is then by itself. The softmax makes each row sum to 1: softmax(dim=-1)",
    ),
    Slip(
        {SOFTMAX: "scores.exp() / scores.exp().sum()"},
        "divide by the sum over everything",
        "Each row must sum to 1 by itself: softmax(dim=-1)",
    ),
    *(
        Slip(
            {
                SCORES: "F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)",
                SCALED: scaled,
            },
            f"make queries and keys 1 long{also}",
            "The lengths count, too: the scores are q kᵀ / √d",
        )
        for scaled, also in ((SCALED, ""), ("scores", ", in place of the division by √d"))
    ),
    Slip(
        {SOFTMAX: "scores.new_ones(scores.shape) / scores.shape[-1]"},
        "take the plain mean of the values, the same for every query",
        "The softmax of the scores says how much of each value a query takes",
    ),
    Slip(
        {SOFTMAX: "scores.exp() / scores.exp().sum(dim=-1)"},
        "sum without keepdim",
        "The axis is gone, so numbers are divided by sums of other rows: sum(dim=-1, keepdim=True)",
    ),
    Slip(
        {SOFTMAX: "scores"},
        "use the scores as weights",
        "The softmax is missing: scores.softmax(dim=-1)",
    ),
    Slip(
        {".softmax": ".log_softmax"},
        "use the logarithm of the weights",
        "The weights are the softmax itself, scores.softmax(dim=-1), without a logarithm",
    ),
    Slip(
        {SCORES: "k @ q.transpose(-2, -1)"},
        "make the scores from k qᵀ",
        "Rows must belong to queries, so the query comes first: q kᵀ",
    ),
    Slip(
        {SCORES: "q @ q.transpose(-2, -1)"},
        "make the scores from q qᵀ",
        "A query is to be compared with the keys: q kᵀ",
    ),
    Slip(
        {SCORES: "k @ k.transpose(-2, -1)"},
        "make the scores from k kᵀ",
        "A query is to be compared with the keys: q kᵀ",
    ),
    Slip(
        {SCORES: "q @ k"},
        "multiply q by k without transposing k",
        "Each score is a query times a key, row by row: k.transpose(-2, -1)",
    ),
    Slip(
        {SCORES: "q.transpose(-2, -1) @ k"},
        "make the scores from qᵀ k",
        "That compares the numbers inside the tokens, not the tokens: q kᵀ",
    ),
    Slip(
        {SCORES: "q @ k.permute(2, 1, 0)"},
        "turn round all three axes of k, the batch too, as k.T does",
        "Swap the last two only: k.transpose(-2, -1)",
    ),
    Slip(
        {GATHER: "output = weights.transpose(-2, -1) @ v"},
        "multiply the transposed weights by v",
        "Row i of the weights is what query i takes: weights @ v",
    ),
    Slip(
        {GATHER: "output = weights @ k"},
        "take the weighted mean of the keys",
        "Keys say where to look, values what is found there: weights @ v",
    ),
    Slip(
        {GATHER: "output = weights @ q"},
        "take the weighted mean of the queries",
        "What is gathered are the values: weights @ v",
    ),
    Slip(
        {GATHER: "output = v @ weights"},
        "put the values first",
        "Each output row is a mean of the rows of v, so the weights come first: weights @ v",
    ),
    Slip(
        {GATHER: "output = weights @ v + v"},
        "add the values on top",
        "Attention itself has no sum with what came in; that comes in the encoder block",
    ),
    Slip(
        {END: "return weights, output"},
        "return the weights first",
        "The output comes first: return output, weights",
    ),
    Slip(
        {END: "return output, scores"},
        "return the scores, and not the weights, beside the output",
        "Return what comes out of the softmax",
    ),
    Slip(
        {SOFTMAX: "scores.softmax(dim=-1).detach()"},
        "cut the weights off from q and k, so that no gradient reaches those",
        "Leave out detach(), .data and no_grad(), and make no new tensor of the weights",
    ),
    Slip(
        {SCALED: "scores * q.shape[-1]"},
        "multiply by d",
        "Divide by √d: the scores are too large, not too small",
    ),
    Slip(
        {SCALED: "scores / q.shape[-1] ** 2"},
        "divide by d² and not by √d",
        "The rows come out too flat: divide by math.sqrt(q.shape[-1])",
    ),
    Slip(
        {SOFTMAX: "scores.softmax(dim=-1).softmax(dim=-1)"},
        "take the softmax twice",
        "Once makes weights of the scores; a second one makes the rows flatter",
    ),
    *(
        Slip(
            {SOFTMAX: f"{shifted}\n    weights = weights / weights.sum(dim=-1, keepdim=True)"},
            f"divide {what} by the sum of their row, without exp",
            "Scores can be below zero, weights cannot: the softmax takes exp of them first",
        )
        for shifted, what in (
            ("scores", "the scores"),
            ("scores - scores.amax(dim=-1, keepdim=True)", "the scores minus the row's largest"),
        )
    ),
    Slip(
        {GATHER: "output = scores @ v"},
        "gather the values with the scores",
        "What they are gathered with are the weights: weights @ v",
    ),
    Slip(
        {END: "return output, weights.transpose(-2, -1)"},
        "return the weights transposed",
        "Row i of the weights belongs to query i, and sums to 1",
    ),
    Slip(
        {SCALED: "scores", GATHER: "output = (weights @ v) / math.sqrt(q.shape[-1])"},
        "divide the output by √d, and not the scores",
        "The scores are divided, before the softmax",
    ),
)

EXERCISE = Exercise(
    answer=my_attention,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Four steps: compare every query with every key, divide, softmax, weighted mean of the"
            " values. You did them for one query, with sums; a matrix product does all of them at"
            " once. Write down the shape after each step, for 3 queries and 5 keys."
        ),
        (
            "The scores are (…, queries, keys): q @ k.transpose(-2, -1), divided by the root of the"
            " last axis of q. Each query shares out 1 over the keys, so the softmax runs along the"
            " last axis."
        ),
    ),
    same=(
        {SCORES: "q @ k.mT"},
        {SCORES: "(q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)", SCALED: "scores"},
        {SCORES: "q @ (k / math.sqrt(k.shape[-1])).transpose(-2, -1)", SCALED: "scores"},
        {
            SOFTMAX: "(scores - scores.amax(dim=-1, keepdim=True)).exp()\n"
            "    weights = weights / weights.sum(dim=-1, keepdim=True)"
        },
        {
            SCORES: "k @ q.transpose(-2, -1)",  # keys are rows, until the end
            SOFTMAX: "scores.softmax(dim=-2)\n    weights = weights.transpose(-2, -1)",
        },
    ),
)
