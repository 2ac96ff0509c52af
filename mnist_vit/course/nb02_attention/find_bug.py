"""Exercise: a function that tells what is wrong with a head that it cannot look into."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Evidence, Exercise, Mistake, Slip, random, randomise
from ..ladder.models import BrokenHead


def my_find_bug(head: nn.Module, x: Tensor) -> str:
    """The name of the bug of a head; x are tokens, (n, seq_length, hidden_dim)."""
    output, weights = head(x)
    q, k = head.w_q(x), head.w_k(x)
    scores = q @ k.transpose(-2, -1)
    twice = q @ q.transpose(-2, -1)
    root = math.sqrt(q.shape[-1])
    if torch.allclose(weights, scores.softmax(dim=-1), atol=1e-5):
        return "no root"
    if torch.allclose(weights, (scores / root).softmax(dim=-2), atol=1e-5):
        return "softmax over queries"
    if torch.allclose(weights, (twice / root).softmax(dim=-1), atol=1e-5):
        return "w_q twice"
    if torch.allclose(output, weights @ k, atol=1e-5):
        return "keys gathered"
    return "no bug"


EVEN = " and nearly even weights"
TELLS = {
    "no bug": (
        "The weights of a head without a bug are softmax(q kᵀ / √d), d = q.shape[-1], and its"
        " output is weights @ v: compare with atol=1e-5"
    ),
    "no root": "The weights of such a head are softmax(q kᵀ), with nothing to divide by",
    "softmax over queries": "In such a head columns of weights sum to 1, and rows do not",
    "w_q twice": (
        "The weights of such a head are softmax(q qᵀ / √d), d = q.shape[-1]. It has a layer w_k of"
        " its own, and does not use it; and after the softmax its weights are not symmetric"
    ),
    "keys gathered": "The weights of such a head are right, and its output is weights @ k",
}


NOT_SO = {  # what a head does not have that is wrongly given this name
    "no root": "The weights of this head are not softmax(q kᵀ)",
    "softmax over queries": "The rows of this head's weights sum to 1, but for rounding",
    "w_q twice": "The weights of this head are not softmax(q qᵀ / √d)",
    "keys gathered": "The output of this head is not weights @ k",
}


def tell(evidence: Evidence) -> tuple[str, str]:
    """How a head with the right name is told."""
    if evidence.value not in BrokenHead.BUGS or evidence.expected not in TELLS:
        return "", ""
    if evidence.what.endswith(EVEN):
        return (
            "Its weights are nearly even, so that another bug's differ from them by a few"
            " hundredths.",
            f"Compare with a small tolerance, such as atol=1e-5. {TELLS[evidence.expected]}.",
        )
    if evidence.value == "no bug":
        return _how_far(evidence), f"{TELLS[evidence.expected]}."
    return f"{NOT_SO[evidence.value]}.", f"{TELLS[evidence.expected]}."


def _how_far(evidence: Evidence) -> str:
    """How far a head that is called right is from one."""
    call = evidence.theirs[(evidence.before[1] or 0) - 1]
    head, x = call.before[:2]
    with torch.no_grad():
        output, weights = head(x)
        q, k, v = head.w_q(x), head.w_k(x), head.w_v(x)
        right = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    far = (weights - right).abs().max().item()
    if far > 1e-3:
        return f"The weights of this head are up to {far:.2g} away from softmax(q kᵀ / √d)."
    far = (output - weights @ v).abs().max().item()
    return f"The output of this head is up to {far:.2g} away from weights @ v."


def three_heads() -> dict[str, nn.Module]:
    """Three heads to be looked into from outside; which bug each one has, the notebook does not
    say."""
    bugs = ("softmax over queries", "no root", "w_q twice")
    return {
        name: randomise(BrokenHead(bug, 49, 32), seed=70 + i)
        for i, (name, bug) in enumerate(zip("ABC", bugs, strict=True))
    }


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends at the first wrong name: what the later heads are called may be another mistake's."""
    kinds = ((8, 2.0, ""), (5, 2.0, ""), (8, 0.3, EVEN))
    for number, ((size, factor, even), bug) in enumerate(itertools.product(kinds, BrokenHead.BUGS)):
        head = randomise(BrokenHead(bug, 6, size), seed=number)
        with torch.no_grad():
            head.w_q.weight.mul_(factor)
            head.w_k.weight.mul_(factor)
        named = answer(head, random(2, 4, 6, seed=50 + number))
        if isinstance(named, str) and named not in BrokenHead.BUGS:
            raise Mistake(f"{named!r:.60} is none of the five names: {', '.join(BrokenHead.BUGS)}.")
        yield f'the name of a head with "{bug}"{even}', named
        if named != bug:
            return


# -------------------------------------------------------------------------- further heads


class _Odd(BrokenHead):
    """A head of another kind, to tell apart for which reason a name is given, or is not.

    Its ``bug`` may be two at once, or "nothing gathered".
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k = self.w_q(x), self.w_k(x)
        compared = q if "w_q twice" in self.bug else k
        scores = q @ compared.transpose(-2, -1)
        if "no root" not in self.bug:
            d = x.shape[-1] if "d of tokens" in self.bug else q.shape[-1]
            scores = scores / math.sqrt(d)
        weights = scores.softmax(dim=-2 if "softmax over queries" in self.bug else -1)
        if "nothing gathered" in self.bug:
            return 0 * q, weights
        return weights @ self.w_v(x), weights


class _Exchanged(BrokenHead):
    """Returns the weights first, and then the output."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output, weights = super().forward(x)
        return weights, output


def _made(kind: type[BrokenHead], bug: str, size: int, factor: float = 2.0) -> BrokenHead:
    """A head on tokens of 6 numbers, whose queries and keys are larger by a factor."""
    head = kind(bug, 6, size)
    randomise(head, seed=60)
    with torch.no_grad():
        head.w_q.weight.mul_(factor)
        head.w_k.weight.mul_(factor)
    return head


# Of a head that is given a wrong name: which further heads are given which names, too.
ASKED = {
    "no bug": (
        ("sharp", "no root"),
        ("even", "no root"),
        ("sharp", "softmax over queries"),
        ("even", "softmax over queries"),
        ("nothing gathered", "keys gathered"),
    ),
    "no root": (("sharp", "no root"), ("no root, w_q twice", "w_q twice")),
    "softmax over queries": (("no root, softmax over queries", "softmax over queries"),),
    "w_q twice": (
        ("no root, w_q twice", "w_q twice"),
        ("equal layers", "w_q twice"),
        ("even", "w_q twice"),
    ),
    "keys gathered": (("nothing gathered", "no bug"),),
}


def _other_heads() -> dict[str, BrokenHead]:
    """Heads with two bugs, with equal layers, with sharp weights, with even ones."""
    heads = {}
    for bug in ("no root, w_q twice", "no root, softmax over queries", "nothing gathered"):
        heads[bug] = _made(_Odd, bug, 8)
    heads["equal layers"] = _made(BrokenHead, "no bug", 8)
    heads["equal layers"].w_k.load_state_dict(heads["equal layers"].w_q.state_dict())
    for name, factor in (("sharp", 300.0), ("even", 0.0)):
        heads[name] = _made(BrokenHead, "no bug", 8, factor)
        with torch.no_grad():
            heads[name].w_q.bias.zero_()
            heads[name].w_k.bias.zero_()
    return heads


def more(answer: Any) -> list[Any]:
    """The first head that is given a wrong name, the name, and what further heads show of it."""
    for bug in BrokenHead.BUGS:
        name = answer(_made(BrokenHead, bug, 8), random(2, 4, 6, seed=61))
        if name != bug:
            break
    heads = _other_heads()
    shown = []
    for other, asked in ASKED[bug]:
        shown.append(answer(heads[other], random(2, 4, 6, seed=61)) == asked)
    return [bug, name, *shown]


def notice(answer: Any) -> Mistake | None:
    """What other heads show of a wrong name."""
    return (
        _of_exchanged_results(answer)
        or _of_a_right_head(answer)
        or _of_no_weights(answer)
        or _of_another_root(answer)
    )


def _of_no_weights(answer: Any) -> Mistake | None:
    """Whether it says "no bug" of each head whose weights are wrong."""
    for bug in ("no root", "softmax over queries", "w_q twice"):
        for seed in range(61, 65):
            if answer(_made(BrokenHead, bug, 8), random(2, 4, 6, seed=seed)) != "no bug":
                return None
    return Mistake(
        'It says "no bug" of each head whose weights are wrong: "no root", "softmax over queries"'
        ' and "w_q twice".',
        "Compare the weights, all of them one by one, with those that each bug gives, as"
        " torch.allclose(…, atol=1e-5) does. Their mean is the same in all of these heads, one over"
        " the number of keys.",
    )


def _of_a_right_head(answer: Any) -> Mistake | None:
    """Of a head without a bug: whether its name hangs on rounding, or on how sharp its rows are."""
    heads = _other_heads() | {"usual": _made(BrokenHead, "no bug", 8)}
    said = {name: answer(heads[name], random(2, 4, 6, seed=61)) for name in heads}
    name = said["usual"]
    if name == "softmax over queries" and name not in (said["sharp"], said["even"]):
        return Mistake(
            f'It says "{name}" of a head without a bug, and not where its weights are all 0 and 1,'
            " or all 1/4, so that nothing is rounded.",
            "Rows of weights sum to 1 but for rounding: compare with a tolerance, as"
            " torch.allclose(…, atol=1e-5) does, and not with ==.",
        )
    nearly_even = answer(_made(BrokenHead, "no bug", 8, 0.3), random(2, 4, 6, seed=61))
    if name == "no root" and nearly_even == name:
        return _of_exchanged_names(answer)
    if name == "no root" and said["sharp"] == name and said["even"] != name:
        return Mistake(
            f'It says "{name}" of a head without a bug, and not where the rows of its weights are'
            " even.",
            "Rows can be sharp without this bug, and even with it. Compare the weights with those"
            " that such a head has, softmax(q kᵀ), not divided: all of them, closely, atol=1e-5.",
        )
    return _of_sharp_rows(answer)


def _of_exchanged_results(answer: Any) -> Mistake | None:
    """Whether all names are right of heads that return the weights first."""
    for bug in BrokenHead.BUGS:
        if answer(_made(_Exchanged, bug, 4), random(2, 4, 6, seed=61)) != bug:
            return None
    return Mistake(
        "It names heads that return the weights first, and then the output.",
        "A head returns the output first: output, weights = head(x).",
    )


def _of_exchanged_names(answer: Any) -> Mistake | None:
    """Whether it says "no root" of each head without a bug, and "no bug" of each with this one."""
    for bug, other in (("no bug", "no root"), ("no root", "no bug")):
        for seed in range(61, 65):
            if answer(_made(BrokenHead, bug, 8), random(2, 4, 6, seed=seed)) != other:
                return None
    return Mistake(
        'It says "no root" of heads without a bug, and "no bug" of heads with this one.',
        "The two names, or the two comparisons, are exchanged: without a bug the weights are"
        " softmax(q kᵀ / √d), and without the root softmax(q kᵀ).",
    )


def _of_sharp_rows(answer: Any) -> Mistake | None:
    """Whether "no root" is said of a head without a bug, for its rows, and not of one with it."""
    x = random(2, 4, 6, seed=61)
    if answer(_made(BrokenHead, "no bug", 8, 10.0), x) != "no root":
        return None
    if answer(_made(BrokenHead, "no root", 8, 0.3), x) == "no root":
        return None
    return Mistake(
        'It says "no root" of a head without a bug whose rows are sharp, and not of a head with'
        " this bug whose rows are nearly even.",
        "Rows can be sharp without this bug, and even with it. Compare the weights with those that"
        " such a head has, softmax(q kᵀ), not divided: all of them, closely, atol=1e-5.",
    )


def _of_another_root(answer: Any) -> Mistake | None:
    """Whether a name that is wrong is right of a head that divides by the root of another d."""
    tokens, size = 6, 8

    def all_named(kind: type[BrokenHead], bug: str, made: str) -> bool:
        head = _made(kind, made, size)
        return all(answer(head, random(2, 4, 6, seed=61 + more)) == bug for more in range(4))

    wrong = [bug for bug in BrokenHead.BUGS if not all_named(BrokenHead, bug, bug)]
    for bug in wrong:
        if bug != "keys gathered" and all_named(_Odd, bug, f"{bug}, d of tokens"):
            return Mistake(
                f'It says "{bug}" of a head that divides by √{tokens}, the root of how many'
                f" numbers a token holds, and not of one that divides by √{size}; a query holds"
                f" {size}.",
                "d is how many numbers a query holds: q.shape[-1], and not x.shape[-1].",
            )
    return None


NO_ROOT = "if torch.allclose(weights, scores.softmax(dim=-1), atol=1e-5)"
COLUMNS = "if torch.allclose(weights, (scores / root).softmax(dim=-2), atol=1e-5)"
TWICE = "if torch.allclose(weights, (twice / root).softmax(dim=-1), atol=1e-5)"
OVER_QUERIES = "if not torch.allclose(weights.sum(dim=-2), torch.ones(()), atol=1e-4)"
ROWS = (
    "sum the weights over the queries, dim=-2",
    "It is the rows of a right head that sum to 1: dim=-1",
)

SLIPS = (
    Slip(
        {'return "no bug"': 'return "no root"'},
        'say "no root" where none of the others fits',
        (
            'Say "no root" only where the weights agree with softmax(q kᵀ), not divided,'
            " closely, atol=1e-5; of a head without a bug they are softmax(q kᵀ / √d). What fits"
            " none of the bugs has none"
        ),
    ),
    Slip(
        {"weights @ k,": "weights @ head.w_v(x),"},
        'say "keys gathered" where the values are gathered',
        "Compare the output with weights @ k",
    ),
    Slip(
        {f"{NO_ROOT}": f"{OVER_QUERIES}:\n        return 'softmax over queries'\n    {NO_ROOT}"},
        *ROWS,
    ),
    Slip({COLUMNS: OVER_QUERIES, NO_ROOT: "if False"}, *ROWS),
    Slip(
        {NO_ROOT: "if False"},
        "let heads pass whose scores are not divided by √d",
        (
            "The weights of such a head are softmax(q kᵀ), with nothing to divide by, q ="
            " head.w_q(x), k = head.w_k(x)"
        ),
    ),
    Slip(
        {COLUMNS: "if False"},
        "let heads pass whose softmax runs over the queries",
        (
            "The weights of such a head are (q kᵀ / √d).softmax(dim=-2), d = q.shape[-1]: columns"
            " sum to 1, rows do not. Look at each row by itself: the mean of all row sums is 1 in"
            " such a head, too"
        ),
    ),
    *(
        Slip(
            {'return "softmax over queries"': f'return "{name}"'},
            f'say "{name}" of weights whose rows do not sum to 1',
            "In a head with a softmax over the queries columns of weights sum to 1 instead, but for"
            " rounding: compare with a tolerance, as torch.allclose(…, atol=1e-5) does",
        )
        for name in ("w_q twice", "no root", "keys gathered")
    ),
    Slip(
        {"if torch.allclose(weights, (twice / root)": "if torch.allclose(weights, (twice)"},
        "compare with a softmax of q qᵀ that is not divided by √d",
        (
            "A head with w_q twice has no other bug: its weights are softmax(q qᵀ / √d), d ="
            " q.shape[-1]"
        ),
    ),
    Slip(
        {TWICE: "if False"},
        "let heads pass in which the keys are made with w_q, too",
        TELLS["w_q twice"],
    ),
    *(
        Slip(
            {'return "w_q twice"': f'return "{name}"'},
            f'say "{name}" of weights in which w_k plays no part',
            "If w_q stands twice, they are the softmax of q qᵀ / √d",
        )
        for name in ("no root", "keys gathered")
    ),
    Slip(
        {'return "keys gathered"': 'return "no bug"'},
        "let heads pass whose weights are right, whatever their output is",
        "The weights of such a head are right, and its output is weights @ k",
    ),
)

EXERCISE = Exercise(
    answer=my_find_bug,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    more=more,
    hints=(
        (
            "You know what a head should give: head.w_q(x), head.w_k(x) and head.w_v(x) are yours"
            " to call. What would its weights be with each of the bugs?"
        ),
        (
            "Compute the weights as each bug would make them, and compare with torch.allclose(…,"
            " atol=1e-5): the first that agrees names the bug. Only keys gathered leaves the"
            " weights right: compare the output with weights @ k."
        ),
    ),
    same=({COLUMNS: "if not torch.allclose(weights.sum(dim=-1), torch.ones(()), atol=1e-4)"},),
)
