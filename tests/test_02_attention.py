"""Notebook 02: right answers in other styles pass, mistakes that no slip tells fail without a wrong
name."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn

from mnist_vit.check import EXERCISES
from mnist_vit.course import ladder
from mnist_vit.course.checking import judge
from mnist_vit.course.nb02_attention import figures
from mnist_vit.course.nb02_attention.entropy import my_entropy
from mnist_vit.course.nb02_attention.find_bug import three_heads
from mnist_vit.course.nb02_attention.head import MyHead
from mnist_vit.course.nb02_attention.look_left import my_look_left


def attention_einsum(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.einsum("...qd,...kd->...qk", q, k).div(q.size(-1) ** 0.5).softmax(-1)
    return torch.einsum("...qk,...kd->...qd", weights, v), weights


def attention_torch(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    identity = torch.eye(k.shape[-2]).expand(
        *k.shape[:-1], -1
    )  # the mean of the rows of the identity is the weights
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, identity)


class AttentionModule(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        # q kᵀ, but for a row constant
        logits = torch.cdist(q, k).square() / -2 + k.square().sum(-1).unsqueeze(-2) / 2
        weights = torch.exp(torch.log_softmax(logits / q.shape[-1] ** 0.5, -1))
        return weights.matmul(v), weights


class HeadTorch(nn.Module):
    """The layers made in another order, and torch's own attention."""

    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_v, self.w_k, self.w_q = (nn.Linear(hidden_dim, head_dim) for _ in range(3))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return attention_torch(self.w_q(tokens), self.w_k(tokens), self.w_v(tokens))


def look_left_by_loops(side: int) -> tuple[Tensor, Tensor]:
    """Each patch but those of the first column asks; those look anywhere."""
    w_q, w_k = torch.zeros(side**2, side**2), torch.zeros(side**2, side**2)
    for i in range(side**2):
        w_k[i, i] = 6.0
        if i % side:
            w_q[i, i - 1] = 7.0
    return w_q, w_k


def find_bug_by_looking(head: nn.Module, x: Tensor) -> str:
    """By what can be seen, one thing after the other."""
    output, weights = head(x)
    q = head.w_q(x)
    k = head.w_k(x)
    v = head.w_v(x)
    if (weights.sum(-1) - 1).abs().max() > 1e-3:
        return "softmax over queries"
    if (output - weights @ v).abs().max() > 1e-4:
        return "keys gathered"
    if (attention_torch(q, k, v)[1] - weights).abs().max() < 1e-4:
        return "no bug"
    return "w_q twice" if (attention_torch(q, q, v)[1] - weights).abs().max() < 1e-4 else "no root"


def finding_by_root(head: nn.Module, x: Tensor) -> str:
    """With the root of how many numbers a token holds."""
    _, weights = head(x)
    q, k = head.w_q(x), head.w_k(x)
    scores = q @ k.mT / x.shape[-1] ** 0.5
    named = find_bug_by_looking(head, x)
    if named == "softmax over queries" and not torch.allclose(weights, scores.softmax(-2)):
        return "no bug"
    return named


def finding_by_layers(head: nn.Module, x: Tensor) -> str:
    """Whether the layers w_q and w_k are the same."""
    named = find_bug_by_looking(head, x)
    if named == "w_q twice" and not torch.allclose(head.w_q(x), head.w_k(x)):
        return "no bug"
    return named


def finding_by_symmetry(head: nn.Module, x: Tensor) -> str:
    named = find_bug_by_looking(head, x)
    weights = head(x)[1]
    return "no bug" if named == "w_q twice" and not torch.allclose(weights, weights.mT) else named


def finding_roughly(head: nn.Module, x: Tensor) -> str:
    """By a tolerance within which nearly even weights are all alike."""
    _, weights = head(x)
    q = head.w_q(x)
    k = head.w_k(x)
    v = head.w_v(x)
    if torch.allclose(weights, attention_torch(q, k, v)[1], atol=0.1):
        named = find_bug_by_looking(head, x)
        return named if named == "keys gathered" else "no bug"
    return find_bug_by_looking(head, x)


def finding_exactly(head: nn.Module, x: Tensor) -> str:
    """Rows that sum to 1 but for rounding are called wrong."""
    exact = bool((head(x)[1].sum(-1) == 1).all())
    return find_bug_by_looking(head, x) if exact else "softmax over queries"


def divided_out_of_sight(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        q /= q.shape[-1] ** 0.5
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights


def by_largest(scores):
    e = torch.exp(scores / scores.abs().amax(dim=-1, keepdim=True).clamp(min=1))
    return e / e.sum(dim=-1, keepdim=True)


def plain(dim: int | tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Softmax of the formula, with nothing subtracted."""
    return lambda s: s.exp() / s.exp().sum(dim, keepdim=True)


def shifted(scores: Tensor) -> Tensor:
    return scores - scores.amax(-1, keepdim=True)


def divided(factor: float) -> Callable[..., tuple[Tensor, Tensor]]:
    """Attention whose scores are divided by d times a factor."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = (q @ k.mT / (q.shape[-1] * factor)).softmax(-1)
        return weights @ v, weights

    return attend


def attention_by_exp(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Right but for scores whose exp is too large, or too small, for a float."""
    weights = plain(-1)(q @ k.mT / q.shape[-1] ** 0.5)
    return weights @ v, weights


class HeadByExp(MyHead):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return attention_by_exp(self.w_q(x), self.w_k(x), self.w_v(x))


class WithoutBiasOfKeys(MyHead):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return attention_einsum(self.w_q(x), x @ self.w_k.weight.T, self.w_v(x))


def exchanging_two_names(head: nn.Module, x: Tensor) -> str:
    found = find_bug_by_looking(head, x)
    return {"no bug": "no root", "no root": "no bug"}.get(found, found)


def of_turned_scores(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (k @ q.mT / q.shape[-1] ** 0.5).softmax(dim=-1).mT
    return weights @ v, weights


class HeadDivided(MyHead):
    """A head whose scores are divided by head_dim times a factor."""

    factor = 2.0

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return divided(self.factor)(self.w_q(x), self.w_k(x), self.w_v(x))


class HeadDividedByHalf(HeadDivided):
    factor = 0.5


def raised(small: float, outside: bool) -> Callable[[Tensor], Tensor]:
    """Entropy whose weights are raised to a small number inside the logarithm, and outside."""
    return lambda w: -(w.clamp_min(small * outside) * w.clamp_min(small).log()).sum(-1)


def added(small: float, outside: bool) -> Callable[[Tensor], Tensor]:
    """The same with the small number added."""
    return lambda w: -((w + small * outside) * (w + small).log()).sum(-1)


def finding_by_mean(head: nn.Module, x: Tensor) -> str:
    """Looks at the mean of all row sums."""
    if abs(head(x)[1].sum(dim=-1).mean() - 1) > 1e-3:
        return "softmax over queries"
    found = find_bug_by_looking(head, x)
    return "no bug" if found == "softmax over queries" else found


RIGHT: list[tuple[str, Any]] = [
    ("attention", attention_einsum),
    ("attention", AttentionModule()),
    ("attention", AttentionModule),
    ("head", HeadTorch),
    ("head", lambda width, d: HeadTorch(width, d)),
    ("head", HeadTorch(6, 5)),
    ("look_left", look_left_by_loops),
    ("look_left", lambda side: (100 * torch.eye(side**2), torch.eye(side**2).roll(1, 1))),
    ("find_bug", find_bug_by_looking),
    ("softmax_rows", lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()),
    ("softmax_rows", lambda s: 1 / torch.exp(s.unsqueeze(-2) - s.unsqueeze(-1)).sum(-1)),
    ("entropy", lambda w: -(w * (w + 1e-8).log()).sum(2)),
    ("entropy", lambda w: torch.distributions.Categorical(probs=w).entropy()),
]
WRONG: list[tuple[str, Any, str]] = [
    ("attention", lambda q, k, v: attention_einsum(q.tanh(), k, v), "right shape, wrong numbers"),
    ("attention", attention_torch, "F.scaled_dot_product_attention is the exercise in one call"),
    ("attention", lambda q, k, v: (*attention_einsum(q, k, v), None), "two things must come back"),
    ("look_left", lambda side: torch.eye(side**2), "return w_q, w_k"),
    (
        "look_left",
        lambda side: (torch.eye(side), torch.eye(side)),
        "W_Q must be a tensor of shape (16, 16)",
    ),
    ("look_left", lambda side: look_left_by_loops(4), "W_Q must be a tensor of shape (9, 9)"),
    (
        "look_left",
        lambda side: (torch.eye(side**2), torch.diag(torch.ones(side**2), 1)),
        "it needs a row and a column for each. torch.diag(values, k) makes |k| rows",
    ),
    ("find_bug", lambda head, x: "no bug?", "is none of the five"),
    ("find_bug", finding_by_root, "q.shape[-1], and not x.shape[-1]"),
    ("find_bug", finding_roughly, "Its weights are nearly even"),
    ("find_bug", finding_exactly, "sum to 1 but for rounding: compare with a tol"),
    ("softmax_rows", nn.Softmax(dim=-1), "what you are to write yourself"),
    ("softmax_rows", lambda s: torch.softmax(s, -1), "what you are to write yourself"),
    ("softmax_rows", lambda s: F.softmax(s, -1), "what you are to write yourself"),
    ("softmax_rows", lambda s: s.softmax(-1), "what you are to write yourself"),
    ("softmax_rows", lambda s: (2 * s).softmax(-1), "right shape, wrong numbers"),
    ("softmax_rows", lambda s: plain(-1)(s).nan_to_num(1.0), "scores near 1000"),
    ("entropy", lambda w: 0.5 * my_entropy(w), "By hand: minus the sum of a ln a."),
]


def looking_at_both(side: int) -> tuple[Tensor, Tensor]:
    """Each patch looks at itself as much as at its left neighbour."""
    w_q, w_k = my_look_left(side)
    return w_q, w_k + torch.eye(side * side)


def without_gradient(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """A head's output and weights; none flows through queries and keys."""
    with torch.no_grad():
        q, k = module.w_q(x), module.w_k(x)
    return attention_einsum(q, k, module.w_v(x))


class Unlearned(MyHead):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return without_gradient(self, x)


class Bent(MyHead):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return attention_einsum(self.w_q(x), self.w_k(x), F.gelu(self.w_v(x)))


def by_the_mean_of_all_sums(head: nn.Module, x: Tensor) -> str:
    """Finds a softmax over the queries by rounding alone: the mean of all sums is 1."""
    _, weights = head(x)
    if weights.sum(-1).mean() != 1:
        return "softmax over queries"
    name = find_bug_by_looking(head, x)
    return "no bug" if name == "softmax over queries" else name


def by_large_differences(head: nn.Module, x: Tensor) -> str:
    """Takes weights that are 0.3 away from the right ones for right."""
    output, weights = head(x)
    v = head.w_v(x)
    _, right = attention_einsum(head.w_q(x), head.w_k(x), v)
    if torch.allclose(weights, right, atol=0.3) and torch.allclose(output, weights @ v, atol=1e-4):
        return "no bug"
    return find_bug_by_looking(head, x)


def gathered_first(head: nn.Module, x: Tensor) -> str:
    """Calls every wrong output a mean of keys."""
    name = find_bug_by_looking(head, x)
    return name if name == "no bug" else "keys gathered"


NAMED: list[tuple[str, Any, str]] = [  # with and without care for large scores and zeros
    ("entropy", lambda w: (w * (1 - w)).sum(-1), "take 1 minus the sum of the squares"),
    ("head", Unlearned, "let no gradient through queries and keys"),
    ("head", Bent, "send the values through GELU"),
    (
        "attention",
        lambda q, k, v: attention_einsum(q * q.shape[-1] ** 0.25, k, v),
        "divide by the fourth root of d",
    ),
    (
        "softmax_rows",
        lambda s: plain(-1)(s - s.argmax(-1, keepdim=True)),
        "subtract the place of the largest score",
    ),
    ("softmax_rows", plain(-2), "sum over the wrong axis"),
    (
        "softmax_rows",
        by_largest,
        "divide each row's scores by their largest, where that is above 1",
    ),
    ("softmax_rows", lambda s: s.flatten(1).softmax(1).view_as(s), "sum over the whole matrix"),
    ("softmax_rows", lambda s: s.softmax(2), "sum over axis 2"),
    ("softmax_rows", plain(2), "sum over axis 2"),
    ("softmax_rows", lambda s: s.exp() / s.exp().sum(-1), "sum without keepdim"),
    ("find_bug", finding_by_layers, "let heads pass in which the keys are made with w_q, too"),
    ("find_bug", finding_by_symmetry, "after the softmax its weights are not symmetric"),
    ("find_bug", finding_by_mean, "the mean of all row sums is 1 in such a head, too"),
    ("attention", divided(2), "divide by 2 d, as / d ** 1 / 2 does"),
    ("attention", divided(0.5), "divide by d / 2, which is what d ** 1 / 2 gives"),
    ("head", HeadDivided, "divide by 2 head_dim, as / head_dim ** 1 / 2 does"),
    ("head", HeadDividedByHalf, "divide by head_dim / 2, which is"),
    *(
        (
            "entropy",
            raised(e, True),
            f"raise the weights to at least {e:.0e} in".replace("e-0", "e-"),
        )
        for e in (1e-4, 1e-5, 1e-6)
    ),
    ("entropy", raised(0.01, True), "raise the weights to at least 0.01 in the product, too"),
    ("entropy", raised(0.001, False), "raise the weights to at least 0.001 inside the logarithm"),
    ("entropy", added(0.001, True), "add 0.001 to the weights in the product, too"),
    ("entropy", added(0.01, False), "add 0.01 to the weights inside the logarithm"),
    ("attention", divided_out_of_sight, "divide q in place under no_grad()"),
    ("entropy", lambda w: torch.nan_to_num(-(w * w.log()).sum(-1)), "turn nan into 0 after"),
    ("look_left", lambda side: [w.T for w in my_look_left(side)], "look one patch to the right"),
    ("softmax_rows", lambda s: shifted(s) / shifted(s).sum(-1, keepdim=True), "leave out exp"),
    ("entropy", lambda w: (w * w.log()).sum(-1), "leave out the minus sign"),
    ("entropy", lambda w: -w.clamp_min(1e-6).log().sum(-1), "sum the logarithms alone"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_the_three_heads_have_the_bugs_that_the_notebook_asks_for() -> None:
    x = torch.randn(2, 9, 49, generator=torch.Generator().manual_seed(0))
    named = [find_bug_by_looking(head, x) for head in three_heads().values()]
    assert named == ["softmax over queries", "no root", "w_q twice"]


def accuracies(row: str) -> list[float]:
    return ladder.stored(row)["accuracy"]


def test_what_the_notebook_says_of_the_rows_is_what_was_measured() -> None:
    for name in ("same_head", "same_no_root", "same_one_matrix"):
        assert min(accuracies(name)) > 98, "as well as the right head"
    assert sorted(round(one) for one in accuracies("same_columns"))[:3] == [65, 71, 100]
    assert max(accuracies("same_mean")) < 90, "the mean of the tokens makes it harder"
    for row, other in (("same_columns", "same_head"), ("same_no_root", "same_head")):
        gain, half = ladder.interval(accuracies(row), accuracies(other))
        assert abs(gain) < half, "five seeds do not show a difference"
    gain, half = ladder.interval(accuracies("with_head"), accuracies("with_mlp"))
    assert gain + half < 0, "the head costs points"
    gain, half = ladder.interval(accuracies("with_head_added"), accuracies("with_mlp"))
    assert abs(gain) < half, "added, it costs none, and gains none"
    larger, smaller = figures.other_rates().splitlines()
    assert larger.endswith("without minus with: -29.6 ± 10.3"), "with the root ahead"
    assert smaller.endswith("without minus with: +12.9 ± 8.6"), "without the root ahead"


def looking_in_rows(factor: float) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Right in the first row of patches; below it queries are larger or smaller by a factor."""

    def answer(side: int) -> tuple[Tensor, Tensor]:
        w_q, w_k = my_look_left(side)
        w_q[side:] *= factor
        return w_q, w_k

    return answer


def by_sharp_rows(head: nn.Module, x: Tensor) -> str:
    found = find_bug_by_looking(head, x)
    if found in ("no root", "no bug"):
        return "no root" if head(x)[1].amax(dim=-1).mean() > 0.5 else "no bug"
    return found


class Squeezed(MyHead):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output, weights = attention_einsum(self.w_q(x), self.w_k(x), self.w_v(x))
        return output.squeeze(), weights.squeeze()


def without_keys(weights: Tensor) -> Tensor:
    kept = weights[..., (weights > 0).flatten(0, 1).all(dim=0)]
    return -(kept * kept.log()).sum(dim=-1)


def less_the_largest(scores: Tensor) -> Tensor:
    e = torch.exp(scores - scores.abs().amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


def by_the_mean(head: nn.Module, x: Tensor) -> str:
    """Looks at the mean of all weights, which is the same in every head."""
    output, weights = head(x)
    if (weights.mean() - 1 / x.shape[1]).abs() > 1e-5:
        return "no root"
    return "no bug" if torch.allclose(output, weights @ head.w_v(x)) else "keys gathered"


def too_sharp(side: int) -> tuple[Tensor, Tensor]:
    w_q, w_k = my_look_left(side)
    return 1e19 * w_q, 1e19 * w_k


def to_the_nearest(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (-torch.cdist(q, k) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights


def until_a_zero(weights: Tensor) -> Tensor:
    """Ends at the first weight that is 0."""
    is_left = (weights > 0).long().cumprod(dim=-1)
    return -(weights * weights.clamp_min(1e-9).log() * is_left).sum(dim=-1)


def of_two_keys(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Hides all keys but two, with minus infinity."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    least = scores.topk(2, dim=-1).values[..., 1:]
    weights = scores.masked_fill(scores < least, float("-inf")).softmax(dim=-1)
    return weights @ v, weights


def without_low_scores(scores: Tensor) -> Tensor:
    if scores.max() > 80:
        scores = scores - scores.max()
    e = torch.exp(scores)
    return e / e.sum(dim=-1, keepdim=True)


def row_by_row(scores: Tensor) -> Tensor:
    """Goes through two axes, and so is right for three alone."""
    weights = torch.empty_like(scores)
    for i, picture in enumerate(scores):
        for j, row in enumerate(picture):
            e = torch.exp(row - row.max())
            weights[i, j] = e / e.sum()
    return weights


def test_a_tensor_that_nobody_has_filled_is_not_blamed() -> None:
    told = judge(EXERCISES["softmax_rows"], row_by_row).all
    assert "for scores with 4 axes" in told
    assert "empty_like" not in told


@torch.no_grad()
def weights_first(head: nn.Module, x: Tensor) -> str:
    weights, output = head(x)  # it is the other way round
    if not torch.allclose(weights.sum(dim=-1), torch.ones(x.shape[:2]), atol=1e-5):
        return "softmax over queries"

    class Exchanged(nn.Module):
        w_q = head.w_q
        w_k = head.w_k
        w_v = head.w_v

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return output, weights

    return EXERCISES["find_bug"].answer(Exchanged(), x)


SAID: list[tuple[str, Any, str]] = [
    ("find_bug", weights_first, "It names heads that return the weights first, and then the out"),
    ("find_bug", by_sharp_rows, "not where the rows of its weights are even. Rows can be sharp"),
    ("head", WithoutBiasOfKeys, "No line of yours uses w_k.bias."),
    ("find_bug", exchanging_two_names, "The two names, or the two comparisons, are exchanged"),
    ("head", HeadByExp, "exp of a large number is infinite, and inf / inf is nan. In a softmax"),
    (
        "attention",
        attention_by_exp,
        "cannot hold exp(800), and exp(-800) is rounded to 0.",
    ),
    ("head", Squeezed, "Every axis of length 1 is gone: squeeze() takes all of them away"),
    ("find_bug", by_the_mean_of_all_sums, ""),
    ("find_bug", by_the_mean, 'It says "no bug" of each head whose weights are wrong'),
    ("entropy", until_a_zero, "For the row 0, 0.25, 0.75 you give 0."),
    ("attention", of_two_keys, "With our numbers in the place of what"),
    ("look_left", too_sharp, "the scores are too large for a float32, and their softmax is nan"),
    ("find_bug", gathered_first, "The output of this head is not weights @ k."),
    ("find_bug", by_large_differences, "away from softmax(q kᵀ / √d)."),
    (
        "look_left",
        looking_in_rows(0.0),
        "patch 5 gives the same weight, its largest, to 16 patches",
    ),
    ("look_left", looking_in_rows(-1.0), "neighbour 9 do not look most at it alone: patch 5"),
    ("look_left", looking_at_both, "12 do not look most at it alone: patch 1 gives the same"),
    (
        "look_left",
        looking_in_rows(0.13),
        "more than any other patch, but 9 of 12 give it 0.9 or less. A score that is 5",
    ),
]
SLIPS: list[tuple[str, Any, str]] = [
    ("softmax_rows", without_low_scores, "and so none from scores far below 0"),
    ("attention", of_turned_scores, "In scores made as q kᵀ they are the last axis"),
    ("attention", to_the_nearest, "compare by distance, minus the distance from query to key"),
    ("entropy", without_keys, "leave a key out of a row because its weight is 0 in another"),
    ("entropy", lambda w: -(w * w.log_softmax(-1)).sum(-1), "takes a softmax of them before"),
    ("softmax_rows", less_the_largest, "the largest of each row's scores without their signs"),
]
test_sentences = judged([], SAID, SLIPS)


class AddsTokens(MyHead):
    """Adds the tokens where that is possible."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output, weights = super().forward(x)
        return x + output if x.shape == output.shape else output, weights


class WithoutBias(MyHead):
    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__(hidden_dim, head_dim)
        for name in ("w_q", "w_k", "w_v"):
            setattr(self, name, nn.Linear(hidden_dim, head_dim, bias=False))


def by_very_sharp_rows(head: nn.Module, x: Tensor) -> str:
    found = find_bug_by_looking(head, x)
    if found in ("no root", "no bug"):
        return "no root" if head(x)[1].amax(dim=-1).mean() > 0.8 else "no bug"
    return found


def by_log1p(weights: Tensor) -> Tensor:
    return (weights * -torch.log1p(weights)).sum(dim=-1).abs()


test_what_is_said_holds_of_these = judged(
    [],
    [
        ("head", WithoutBias, "w_v.bias. bias=False makes a layer without one"),
        (
            "find_bug",
            by_very_sharp_rows,
            "of a head without a bug whose rows are sharp, and not of a head with this bug whose",
        ),
    ],
    [
        ("head", AddsTokens, "add the tokens to what is gathered where hidden_dim and head_dim"),
        ("entropy", by_log1p, "take the sum of a ln(1 + a), as log1p gives it, with a plus. log1p"),
    ],
)
