"""Exercises of notebook 02: softmax, scaled dot-product attention, entropy, one head."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .core import Exercise, Mistake, Mutant, copy_weights, gradients, make, random, randomise

# Softmax -------------------------------------------------------------------------------------------------------------


def _softmax(scores: Tensor) -> Tensor:
    e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


def _softmax_minus(shift: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Softmax with something else subtracted first: the same weights, as long as no exponent is too large."""

    def softmax(scores: Tensor) -> Tensor:
        e = torch.exp(scores - shift(scores))
        return e / e.sum(dim=-1, keepdim=True)

    return softmax


def _run_softmax(answer: Callable[[Tensor], Tensor]) -> Iterator[tuple[str, Any]]:
    scores = random(2, 3, 5, seed=21).requires_grad_()
    weights = answer(scores)
    yield "matrix of weights", weights
    yield from gradients(weights, scores=scores)
    # exp(1000) is too large for a float, exp(-1000) too small. Alone first, where one number subtracted from the whole
    # tensor is enough; then together, and then in one row. float64, so that exp(scores - logsumexp) is right, too.
    # The last four rows tell which other number than the maximum was subtracted.
    high, low = [1000.0, 1001.0, 1002.0], [-1000.0, -1001.0, -1002.0]
    apart = [[0.0, 1000.0, -1000.0], [800.0, 0.0, 0.0], [0.0, 0.0, 800.0], [0.0, 800.0, 800.0]]
    for name, rows in (
        ("scores near 400", [[400.0, 401.0, 402.0]]),
        ("scores near 1000", [high]),
        ("scores near -1000", [low]),
        ("a row near 1000 and a row near -1000", [high, low]),
        ("scores far apart in one row", apart),
    ):
        yield f"matrix of weights for {name}", answer(torch.tensor([rows], dtype=torch.float64))


SOFTMAX_ROWS = Exercise(
    name="softmax_rows",
    answer="my_softmax",
    stars=1,
    reference=_softmax,
    run=_run_softmax,
    mutants=(
        Mutant(
            _softmax_minus(lambda scores: scores.sum(dim=-1, keepdim=True)),
            "subtract each row's sum. It may be so much larger than every score that each exp is 0, and 0 / 0 is nan. "
            "Subtract each row's maximum: scores.amax(dim=-1, keepdim=True)",
        ),
        *(
            Mutant(
                _softmax_minus(shift),
                f"subtract each row's {name} score. A score far above it is still too large for exp, and inf / inf is "
                "nan. Subtract each row's maximum: scores.amax(dim=-1, keepdim=True)",
            )
            for name, shift in (
                ("first", lambda scores: scores[..., :1]),
                ("last", lambda scores: scores[..., -1:]),
                ("middle (median)", lambda scores: scores.median(dim=-1, keepdim=True).values),
            )
        ),
        Mutant(
            lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True),
            "take exp of the scores as they are. The formula is right, but exp(1000) is too large for a float: inf / "
            "inf is nan. Subtract each row's maximum first; it cancels in the division",
        ),
        Mutant(
            _softmax_minus(lambda scores: scores.max()),
            "subtract one maximum of the whole tensor. In a row far below it every exp is 0, and 0 / 0 is nan. Each "
            "row needs its own maximum: scores.amax(dim=-1, keepdim=True)",
        ),
        Mutant(
            _softmax_minus(lambda scores: scores.mean(dim=-1, keepdim=True)),
            "subtract each row's mean. A score far above it is still too large for exp, and inf / inf is nan. Subtract "
            "each row's maximum, so that no exponent is above 0: scores.amax(dim=-1, keepdim=True)",
        ),
        Mutant(
            _softmax_minus(lambda scores: scores.amin(dim=-1, keepdim=True)),
            "subtract each row's minimum. A score far above it is still too large for exp, and inf / inf is nan. "
            "Subtract each row's maximum, so that no exponent is above 0: scores.amax(dim=-1, keepdim=True)",
        ),
        Mutant(
            lambda scores: scores.clamp(-80, 80).softmax(dim=-1),
            "cut large scores off with clamp. Scores beyond the limit then all get the same weight. Subtract each "
            "row's maximum instead; it changes no weight",
        ),
        Mutant(
            lambda scores: scores.softmax(dim=-2),
            "sum over the wrong axis: your columns sum to 1. A row is along the last axis: dim=-1",
        ),
        Mutant(
            lambda scores: scores.softmax(dim=0),
            "sum over axis 0, the images of the batch. A row is along the last axis: dim=-1",
        ),
        Mutant(
            lambda scores: scores.flatten(1).softmax(dim=1).view_as(scores),
            "sum over the whole matrix of an image. Each row must sum to 1 by itself: dim=-1",
        ),
        Mutant(
            lambda scores: (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(),
            "sum over everything. Each row must sum to 1 by itself: sum(dim=-1, keepdim=True)",
        ),
        Mutant(torch.exp, "leave out the division. Divide by the sum of the row"),
        Mutant(
            lambda scores: torch.exp(scores - scores.amax(dim=-1, keepdim=True)),
            "subtract the maximum and take exp, but leave out the division. Divide by the sum of the row",
        ),
        Mutant(
            lambda scores: scores / scores.sum(dim=-1, keepdim=True),
            "leave out exp. Scores can be below zero, weights cannot: take exp first",
        ),
        Mutant(
            lambda scores: scores.log_softmax(dim=-1),
            "give the logarithm of the weights. Take exp of it, or divide instead of subtracting",
        ),
        Mutant(
            lambda scores: _softmax(scores).detach(),
            "cut the weights off from the scores, so that no gradient flows. Leave out detach() and no_grad()",
        ),
    ),
    hints=(
        "Write down the formula for one row: each number is exp of a score, divided by the sum of exp over that row. "
        "Then: what is exp(1000) in a float?",
        "The sum runs along the last axis, and must keep it, so that the division fits: sum(dim=-1, keepdim=True). "
        "Softmax does not change when the same number is subtracted from a whole row, so subtract the row's maximum.",
        "e = torch.exp(scores - scores.amax(dim=-1, keepdim=True)); return e / e.sum(dim=-1, keepdim=True)",
    ),
)


# Attention -----------------------------------------------------------------------------------------------------------


def _mean(q: Tensor, k: Tensor, v: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    return weights @ v, weights


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Callable[[Tensor, Tensor], float] = lambda q, k: 1 / math.sqrt(q.shape[-1]),
    scores: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.transpose(-2, -1),
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
    finish: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] = _mean,
) -> tuple[Tensor, Tensor]:
    """Attention with one of its steps exchanged; as it stands, the right one."""
    return finish(q, k, v, weigh(scores(q, k) * scale(q, k)))


def _softmax_then_scale(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.transpose(-2, -1)).softmax(dim=-1) / math.sqrt(q.shape[-1])
    return weights @ v, weights


def _returns_scores(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.softmax(dim=-1) @ v, scores


def _pair(answer: Any, *inputs: Tensor) -> tuple[Any, Any]:
    """What an answer returns, as (output, weights)."""
    got = answer(*inputs)
    if got is None or got is ...:
        return got, None
    if not isinstance(got, tuple | list) or len(got) != 2:
        raise Mistake("two things must come back, the output and the weights: return output, weights.")
    return got[0], got[1]


def _run_attention(answer: Any) -> Iterator[tuple[str, Any]]:
    attend = make(answer) if isinstance(answer, type) else answer
    # First every axis is 4 long: a wrong axis has the right shape, and its mistake can be named. Then all differ.
    for sizes, (n, queries, keys, d, d_v) in (
        ("4 queries and 4 keys", (4, 4, 4, 4, 4)),
        ("3 queries and 5 keys", (2, 3, 5, 8, 6)),
    ):
        q, k = random(n, queries, d, seed=26).requires_grad_(), random(n, keys, d, seed=27).requires_grad_()
        v = (10 * random(n, keys, d_v, seed=28)).requires_grad_()
        output, weights = _pair(attend, q, k, v)
        yield f"output for {sizes}", output
        yield f"matrix of weights for {sizes}", weights
    yield from gradients(output, q=q, k=k, v=v)


ATTENTION = Exercise(
    name="attention",
    answer="my_attention",
    stars=2,
    reference=_attend,
    run=_run_attention,
    mutants=(
        Mutant(
            partial(_attend, scale=lambda q, k: 1 / q.shape[-1]),
            "divide by d and not by √d. The rows come out too flat: divide by math.sqrt(q.shape[-1])",
        ),
        Mutant(
            partial(_attend, scale=lambda q, k: 1.0),
            "leave out the division by √d. The rows come out too sharp: divide by math.sqrt(q.shape[-1])",
        ),
        Mutant(
            partial(_attend, scale=lambda q, k: math.sqrt(q.shape[-1])),
            "multiply by √d. Divide by it: the scores are too large, not too small",
        ),
        Mutant(
            partial(_attend, scale=lambda q, k: 1 / math.sqrt(q.shape[-2])),
            "divide by the root of the number of queries. d is how many numbers one query has: q.shape[-1]",
        ),
        Mutant(
            partial(_attend, scale=lambda q, k: 1 / math.sqrt(k.shape[-2])),
            "divide by the root of the number of keys. d is how many numbers one key has: k.shape[-1]",
        ),
        Mutant(
            _softmax_then_scale,
            "divide the weights by √d, after the softmax. The rows no longer sum to 1: divide the scores, before it",
        ),
        Mutant(
            partial(_attend, weigh=lambda scores: scores.softmax(dim=-2)),
            "take the softmax over the queries, so that columns sum to 1. Each query shares out its attention over the "
            "keys, the last axis: softmax(dim=-1)",
        ),
        Mutant(
            partial(_attend, weigh=lambda scores: scores.softmax(dim=0)),
            "take the softmax over the batch, so that pictures share out the attention among each other. Each query "
            "does, over the keys, the last axis: softmax(dim=-1)",
        ),
        Mutant(
            partial(_attend, weigh=lambda scores: torch.ones_like(scores) / scores.shape[-1]),
            "take the plain mean of the values, the same for every query. The softmax of the scores says how much of "
            "each value a query takes",
        ),
        Mutant(
            partial(_attend, weigh=lambda scores: scores),
            "use the scores as weights. The softmax is missing: scores.softmax(dim=-1)",
        ),
        Mutant(
            partial(_attend, weigh=lambda scores: scores.log_softmax(dim=-1)),
            "use the logarithm of the weights. Take softmax and not log_softmax",
        ),
        Mutant(
            partial(_attend, scores=lambda q, k: k @ q.transpose(-2, -1)),
            "make the scores from k qᵀ. Rows must belong to queries, so the query comes first: q kᵀ",
        ),
        Mutant(
            partial(_attend, scores=lambda q, k: q @ q.transpose(-2, -1)),
            "make the scores from q qᵀ. A query is to be compared with the keys: q kᵀ",
        ),
        Mutant(
            partial(_attend, scores=lambda q, k: k @ k.transpose(-2, -1)),
            "make the scores from k kᵀ. A query is to be compared with the keys: q kᵀ",
        ),
        Mutant(
            partial(_attend, scores=lambda q, k: q @ k),
            "multiply q by k without transposing k. Each score is a query times a key, row by row: k.transpose(-2, -1)",
        ),
        Mutant(
            partial(_attend, scores=lambda q, k: q.transpose(-2, -1) @ k),
            "make the scores from qᵀ k. That compares the numbers inside the tokens, not the tokens: q kᵀ",
        ),
        Mutant(
            partial(_attend, scores=lambda q, k: q @ k.permute(2, 1, 0)),
            "turn round all three axes of k, the batch too, as k.T does. Swap the last two only: k.transpose(-2, -1)",
        ),
        Mutant(
            partial(_attend, finish=lambda q, k, v, weights: (weights.transpose(-2, -1) @ v, weights)),
            "multiply the transposed weights by v. Row i of the weights is what query i takes: weights @ v",
        ),
        Mutant(
            partial(_attend, finish=lambda q, k, v, weights: (weights @ k, weights)),
            "take the weighted mean of the keys. Keys say where to look, values what is found there: weights @ v",
        ),
        Mutant(
            partial(_attend, finish=lambda q, k, v, weights: (weights @ q, weights)),
            "take the weighted mean of the queries. What is gathered are the values: weights @ v",
        ),
        Mutant(
            partial(_attend, finish=lambda q, k, v, weights: (v @ weights, weights)),
            "put the values first. Each output row is a mean of the rows of v, so the weights come first: weights @ v",
        ),
        Mutant(
            partial(_attend, finish=lambda q, k, v, weights: (weights @ v + v, weights)),
            "add the values on top. Attention itself has no sum with what came in; that comes in the encoder block",
        ),
        Mutant(
            partial(_attend, finish=lambda q, k, v, weights: (weights, weights @ v)),
            "return the weights first. The output comes first: return output, weights",
        ),
        Mutant(
            _returns_scores,
            "return the scores, and not the weights, beside the output. Return what comes out of the softmax",
        ),
        Mutant(
            partial(_attend, weigh=lambda scores: scores.softmax(dim=-1).detach()),
            "cut the weights off from q and k, so that no gradient flows. Leave out detach() and no_grad()",
        ),
    ),
    hints=(
        "Four steps: compare every query with every key, divide, softmax, weighted mean of the values. Write down the "
        "shape after each, for 3 queries and 5 keys.",
        "The scores are (n, queries, keys): q @ k.transpose(-2, -1), divided by the root of the last axis of q. Each "
        "query shares out 1 over the keys, so the softmax runs along the last axis.",
        "weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1); return weights @ v, weights",
    ),
)


# Entropy -------------------------------------------------------------------------------------------------------------


def _entropy(weights: Tensor) -> Tensor:
    return torch.special.entr(weights).sum(dim=-1)


def _plain_terms(weights: Tensor) -> Tensor:
    return -weights * weights.log()


def _run_entropy(answer: Callable[[Tensor], Tensor]) -> Iterator[tuple[str, Any]]:
    # 4 pictures, 4 queries, 4 keys: a wrong axis has the right shape; then all differ
    yield "entropy of 4 rows of 4 weights", answer((2 * random(4, 4, 4, seed=31)).softmax(dim=-1))
    yield "entropy of 3 rows of 5 weights", answer((2 * random(2, 3, 5, seed=32)).softmax(dim=-1))
    with_zeros = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]])
    yield "entropy of the rows (0, 1, 0) and (0.5, 0.5, 0)", answer(with_zeros)


ENTROPY = Exercise(
    name="entropy",
    answer="my_entropy",
    stars=2,
    reference=_entropy,
    run=_run_entropy,
    tolerance=1e-5,  # whoever adds 1e-6 inside the logarithm is right, too
    mutants=(
        Mutant(
            lambda weights: _plain_terms(weights).sum(dim=-1),
            "take the logarithm of a weight that is 0. It is minus infinity, and 0 times infinity is nan. Such a "
            "weight adds nothing: clamp the weight inside the logarithm, as in weights.clamp_min(1e-9).log()",
        ),
        Mutant(
            lambda weights: -_entropy(weights),
            "leave out the minus sign. The logarithm of a weight is below zero, and entropy is not",
        ),
        Mutant(
            lambda weights: _entropy(weights) / math.log(2),
            "take the logarithm to base 2. That is the entropy in bits; here it is the natural logarithm: log()",
        ),
        Mutant(
            lambda weights: _entropy(weights) / math.log(10),
            "take the logarithm to base 10. Here it is the natural logarithm: log()",
        ),
        Mutant(
            lambda weights: _entropy(weights) / weights.shape[-1],
            "take the mean over the row. Entropy is the sum: sum(dim=-1)",
        ),
        Mutant(
            lambda weights: _entropy(weights) / math.log(weights.shape[-1]),
            "divide by ln of the number of keys. That makes 1 the largest value; here entropy is the sum as it stands",
        ),
        Mutant(
            lambda weights: torch.special.entr(weights).sum(dim=-2),
            "sum down the columns. A row of weights is along the last axis: sum(dim=-1)",
        ),
        Mutant(
            lambda weights: torch.special.entr(weights).sum(dim=0),
            "sum over axis 0, the pictures of the batch. A row of weights is along the last axis: sum(dim=-1)",
        ),
        Mutant(
            torch.special.entr,
            "leave out the sum. There is one entropy for each row: sum(dim=-1)",
        ),
        Mutant(
            lambda weights: _entropy(weights).sum(),
            "sum over everything. There is one entropy for each row: sum(dim=-1)",
        ),
        Mutant(
            lambda weights: _entropy(weights).mean(),
            "take the mean over all rows. There is one entropy for each row: return them all",
        ),
        Mutant(
            lambda weights: -weights.log().sum(dim=-1),
            "sum the logarithms alone. Each is multiplied by its weight before the sum",
        ),
        Mutant(
            lambda weights: _entropy(weights.softmax(dim=-1)),
            "take the softmax once more. What comes in are weights already: their rows sum to 1",
        ),
        Mutant(
            lambda weights: _entropy(weights).exp(),
            "take exp of the entropy. It says how many tokens a row looks at; return the entropy itself",
        ),
    ),
    hints=(
        "The formula is for one row: minus the sum of a ln a. What is the result for the row 0, 1, 0, and what does "
        "your code make of ln 0?",
        "One number for each row: multiply the weights by their logarithm, sum along the last axis, change the sign. "
        "Keep ln away from 0: a very small number in its place does no harm, because it is multiplied by 0.",
        "return -(weights * weights.clamp_min(1e-9).log()).sum(dim=-1)",
    ),
)


# One head ------------------------------------------------------------------------------------------------------------


class _Head(nn.Module):
    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(hidden_dim, head_dim)
        self.w_k = nn.Linear(hidden_dim, head_dim)
        self.w_v = nn.Linear(hidden_dim, head_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return _attend(self.w_q(x), self.w_k(x), self.w_v(x))


def _run_head(answer: Any) -> Iterator[tuple[str, Any]]:
    hidden_dim, head_dim = 6, 4
    reference = randomise(_Head(hidden_dim, head_dim), seed=22)
    with torch.no_grad():  # scores far enough apart that a wrong scale shows in every row
        for layer in (reference.w_q, reference.w_k):
            layer.weight.mul_(2)
    module = make(answer, hidden_dim, head_dim)
    copy_weights(reference, module)
    # as many pictures and tokens as numbers in a head first: a wrong axis has the right shape; then all differ
    for n, tokens in ((4, 4), (2, 5)):
        x = random(n, tokens, hidden_dim, seed=20 + n).requires_grad_()
        output, weights = _pair(module, x)
        yield f"output for {n} pictures of {tokens} tokens", output
        yield f"matrix of weights for {n} pictures of {tokens} tokens", weights
    parameters = dict(module.named_parameters())  # in the reference's order: the learner's may be created in another
    yield from gradients(output, x=x, **{name: parameters[name] for name, _ in reference.named_parameters()})


def _head(forward: Callable[[Any, Tensor], tuple[Tensor, Tensor]], does: str) -> Mutant:
    return Mutant(type("Mutant", (_Head,), {"forward": forward}), does)


HEAD_FORWARD = Exercise(
    name="head_forward",
    answer="MyHead",
    stars=2,
    reference=_Head,
    run=_run_head,
    mutants=(
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x), scale=lambda q, k: 1 / math.sqrt(x.shape[-1])),
            "divide by √hidden_dim, the root of how many numbers a token has. d is how many numbers a query has, "
            "head_dim: q.shape[-1]",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x), scale=lambda q, k: 1 / q.shape[-1]),
            "divide by head_dim and not by its root",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x), scale=lambda q, k: 1.0),
            "leave out the division by √head_dim",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_q(x), m.w_v(x)),
            "make the keys with w_q. Queries and keys have a linear layer each: k = self.w_k(x)",
        ),
        _head(
            lambda m, x: _attend(m.w_k(x), m.w_k(x), m.w_v(x)),
            "make the queries with w_k. Queries and keys have a linear layer each: q = self.w_q(x)",
        ),
        _head(
            lambda m, x: _attend(m.w_k(x), m.w_q(x), m.w_v(x)),
            "take queries for keys and keys for queries. q = self.w_q(x), k = self.w_k(x), and the scores are q kᵀ",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_k(x)),
            "gather the keys. What is gathered are the values: v = self.w_v(x)",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_q(x)),
            "gather the queries. What is gathered are the values: v = self.w_v(x)",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), x),
            "gather the tokens themselves. The values are made from them by a linear layer: v = self.w_v(x)",
        ),
        _head(
            lambda m, x: _attend(x, x, m.w_v(x)),
            "compare the tokens themselves. Queries and keys are made from them by linear layers: self.w_q(x), "
            "self.w_k(x)",
        ),
        _head(
            lambda m, x: _attend(*(x @ w.weight.T for w in (m.w_q, m.w_k, m.w_v))),
            "leave out the biases. Call the linear layer, as in self.w_q(x): it multiplies and adds its bias",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x), weigh=lambda scores: scores.softmax(dim=-2)),
            "take the softmax over the queries, so that columns sum to 1. Rows must: softmax(dim=-1)",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x), weigh=lambda scores: scores.softmax(dim=0)),
            "take the softmax over the batch. Each query shares out its attention over the keys: softmax(dim=-1)",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x), weigh=lambda scores: scores),
            "leave out the softmax",
        ),
        _head(
            lambda m, x: _attend(
                m.w_q(x), m.w_k(x), m.w_v(x), finish=lambda q, k, v, weights: (weights.transpose(-2, -1) @ v, weights)
            ),
            "multiply the transposed weights by v. Row i of the weights is what query i takes: weights @ v",
        ),
        _head(
            lambda m, x: _attend(m.w_q(x), m.w_k(x), m.w_v(x))[::-1],
            "return the weights first. The output comes first: return output, weights",
        ),
    ),
    hints=(
        "Three linear layers turn the same tokens x into queries, keys and values. What follows is the attention you "
        "know, with d = head_dim.",
        "q, k, v = self.w_q(x), self.w_k(x), self.w_v(x). They are (n, seq_length, head_dim), just what attention "
        "takes. Return its output and its weights.",
        "return attention(self.w_q(x), self.w_k(x), self.w_v(x))",
    ),
)

EXERCISES: tuple[Exercise, ...] = (ATTENTION, HEAD_FORWARD, SOFTMAX_ROWS, ENTROPY)
