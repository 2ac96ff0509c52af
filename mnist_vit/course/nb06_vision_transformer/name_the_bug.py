"""Exercise: a detective. Which of seven bugs has this Vision Transformer?"""

from collections.abc import Iterator
from typing import Any

import torch

from mnist_vit.course.nb06_vision_transformer.first_difference import first_difference

from ..checking import Evidence, Exercise, Mistake, Slip, describe
from .bugs import BUGS
from .first_difference import larger_models, models


def my_name_the_bug(right, suspect, images):
    """One of the eight names in BUGS, "right" among them."""
    first = first_difference(right, suspect, images)
    if first is None:
        same = torch.allclose(right(images), suspect(images), atol=1e-4)
        return "right" if same else "gelu_on_the_logits"
    if "self_attention" not in first:
        return "positions_forgotten"

    # The same tokens through both attention layers: what do their weights say?
    good = right.encoder.layers[0].self_attention
    bad = suspect.encoder.layers[0].self_attention
    x = torch.randn(1, 5, good.embed_dim)
    _, w = good(x, x, x, average_attn_weights=False)
    _, v = bad(x, x, x, average_attn_weights=False)
    if (v.sum(dim=-1) - 1).abs().max() > 1e-3:
        return "softmax_over_queries"
    if torch.allclose(w, v, atol=1e-4):
        return "heads_merged_by_reshape"
    # ln of a ratio of two weights in a row is the difference of their scores
    factor = (v[..., 0] / v[..., 1]).log() / (w[..., 0] / w[..., 1]).log()
    if (factor / factor.mean() - 1).abs().max() > 1e-2:
        return "heads_split_by_reshape"
    return "not_divided" if factor.mean() > 1 else "divided_by_d_model"


ORDER = (
    "softmax_over_queries",
    "right",
    "not_divided",
    "positions_forgotten",
    "heads_merged_by_reshape",
    "gelu_on_the_logits",
    "divided_by_d_model",
    "heads_split_by_reshape",
)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Ends at the first wrong name: what the later models are called may be another mistake's."""
    for number, bug in enumerate(
        (*ORDER, "not_divided", "heads_split_by_reshape", "divided_by_d_model")
    ):
        name = answer(*(models if number < len(ORDER) else larger_models)(bug, seed=number))
        is_name = isinstance(name, str) and name in BUGS
        if name is not None and not is_name:
            raise Mistake(
                f"for suspect {number + 1} a name in BUGS is needed, {', '.join(BUGS)}, and this is"
                f" {describe(name)}."
            )
        yield (
            f'the bug of a model with "{bug}"' if bug != "right" else "the bug of a right model",
            name,
        )
        if name != bug:
            return


TELLS = {
    "right": "A right model has the same logits, within rounding, when it holds the same weights",
    "gelu_on_the_logits": "All parts of such a model give what the right ones give, and its logits"
    " are others",
    "positions_forgotten": "In such a model the tokens are others before any attention sees them",
    "softmax_over_queries": "Rows of such a model's attention weights do not sum to 1",
    "heads_merged_by_reshape": (
        "On the same tokens such a model's attention weights are right, and the layer's output is"
        " not"
    ),
    "heads_split_by_reshape": (
        "Each head's attention weights sum to 1 along rows, and on the same tokens the differences"
        " of their logarithms within a row, ln(w[0] / w[1]), are no multiple of the right ones'"
    ),
    "not_divided": (
        "On the same tokens ln(w[0] / w[1]) of two weights in a row of a head is, within rounding,"
        " the right one times a number above 1, the same one everywhere"
    ),
    "divided_by_d_model": (
        "On the same tokens ln(w[0] / w[1]) of two weights in a row of a head is, within rounding,"
        " the right one times a number below 1, the same one everywhere"
    ),
}


def tell(evidence: Evidence) -> tuple[str, str]:
    """How a model with this bug is told."""
    right = "right" if "right model" in evidence.what else evidence.expected
    is_name = evidence.value in TELLS and right in TELLS
    return "", f"{TELLS[right]}." if is_name else ""


def more(answer: Any) -> list[str]:
    """What a model with each of the bugs is called, in both sizes."""
    found = []
    for make in (models, larger_models):
        found += [str(name) for name in _names(answer, make).values()]
    return found


def _names(answer: Any, make: Any) -> dict[str, Any]:
    """What an answer calls a model with each of the bugs."""
    found = {}
    for number, bug in enumerate(ORDER):
        found[bug] = answer(*make(bug, seed=number))
    return found


def notice(answer: Any) -> Mistake | None:
    """Of which models it says the first wrong name."""
    averaged = _asks_for_averages(answer) or _asks_with_other_tokens(answer)
    for make, size in ((models, 8), (larger_models, 64)):
        names = _names(answer, make)
        wrong = [bug for bug in ORDER if names[bug] != bug]
        if not wrong:
            continue
        if averaged and "self_attention" in (first_difference(*make(wrong[0])) or ""):
            return averaged
        if size == 8 and all(bug == name for bug, name in _names(answer, larger_models).items()):
            return Mistake(
                "Your function names all eight models with 64 numbers a token, 32 for each of two"
                f" heads. Of models with 8 numbers, 4 for each head, it names {8 - len(wrong)} of"
                f" eight; one with {_quoted(wrong[0])} it calls {_quoted(names[wrong[0]])}.",
                "Do sizes such as 64, 32 or the number of tokens stand in it? Take them from the"
                " model: right.class_token.shape[-1], and num_heads of its attention layers. Or"
                " does a limit fit the numbers of the larger models alone?",
            )
        said = names[wrong[0]]
        alike = [bug for bug in ORDER if names[bug] == said]
        if len(alike) < 2 or said not in BUGS:
            return None
        models_said = "models" if size == 8 else f"models with {size} numbers a token"
        told = [_quoted(bug) for bug in alike]
        whose = f"those with {', '.join(told)}" if len(alike) < len(ORDER) else "all of them"
        apart = " ".join(f'"{bug}": {TELLS[bug]}.' for bug in alike)
        return Mistake(
            f'Your function says "{said}" of {len(alike)} of eight {models_said}: {whose}.',
            f"Tell them apart. {apart}" if len(alike) < 4 else TELL_FIRST,
        )
    return None


def _asks_for_averages(answer: Any) -> Mistake | None:
    """Whether it calls attention layers for weights, and never for those of each head."""
    asked = []

    def keep(layer: Any, given: tuple, named: dict[str, Any]) -> None:
        if len(given) < 5 and named.get("need_weights", True):
            asked.append(named.get("average_attn_weights", True))

    right, suspect, images = models("not_divided")
    for model in (right, suspect):
        for block in model.encoder.layers:
            block.self_attention.register_forward_pre_hook(keep, with_kwargs=True)
    answer(right, suspect, images)
    if not asked or not all(asked):
        return None
    return Mistake(
        "Your function asks the attention layers for weights that are averaged over the heads.",
        "average_attn_weights=False gives each head's own.",
    )


def _asks_with_other_tokens(answer: Any) -> Mistake | None:
    """Whether the layers that it asks for weights are given other tokens in the two models."""
    right, suspect, images = models("not_divided")
    given: dict[str, dict[str, Any]] = {"right": {}, "suspect": {}}

    def keep(whose: str, name: str) -> Any:
        def seen(layer: Any, tokens: tuple, named: dict[str, Any]) -> None:
            if len(tokens) == 3 and named.get("need_weights", True):
                given[whose].setdefault(name, tokens[0].detach())

        return seen

    for whose, model in (("right", right), ("suspect", suspect)):
        for number, block in enumerate(model.encoder.layers):
            block.self_attention.register_forward_pre_hook(
                keep(whose, str(number)), with_kwargs=True
            )
    answer(right, suspect, images)
    both = given["right"].keys() & given["suspect"].keys()
    for name in both:
        own, other = given["right"][name], given["suspect"][name]
        if own.shape == other.shape and torch.allclose(own, other, atol=1e-4):
            return None
    if not both:
        return None
    return Mistake(
        "The tokens that your function gives an attention layer of `right` are not those that it"
        " gives the layer of `suspect`.",
        "Other tokens have other weights. Make the tokens once, x = torch.randn(…), and give both"
        " layers this x.",
    )


def _quoted(bug: Any) -> str:
    """A bug's name in quotation marks; "no bug" for that of the right model."""
    return "no bug" if bug == "right" else f'"{bug}"'


TELL_FIRST = (
    "First ask where the models begin to differ; then, where it is in the attention, compare the"
    " weights on the same tokens: their sums along rows, whether they are the right ones, and"
    " whether the differences of their logarithms within a row, ln(w[0] / w[1]), are one multiple"
    " of the right ones', above or below 1."
)
SAME = "same = torch.allclose(right(images), suspect(images), atol=1e-4)"
FIRST = "first_difference(right, suspect, images)"
PLACE, ROWS = 'if "self_attention" not in first:', "if (v.sum(dim=-1) - 1).abs().max() > 1e-3:"
EQUAL, ONE = (
    "if torch.allclose(w, v, atol=1e-4):",
    "if (factor / factor.mean() - 1).abs().max() > 1e-2:",
)

SLIPS = (
    Slip(
        {SAME: "same = True"},
        "call a model right when all its parts agree",
        "One bug lies after the last part: compare the logits, too",
    ),
    Slip(
        {PLACE: "if False:"},
        "look for every bug inside the attention",
        "Where the first part that differs stands before it, the tokens were already wrong when"
        " they came in",
    ),
    Slip(
        {EQUAL: "if False:"},
        "do not ask whether the weights are right",
        "Where they are, and the layer's output is wrong, the heads were merged wrongly",
    ),
    Slip(
        {ONE: "if False:"},
        "take every other change of the weights for a wrong scale",
        "A wrong scale multiplies all scores by one factor; heads split wrongly have no such"
        " factor",
    ),
    Slip(
        {"if factor.mean() > 1": "if factor.mean() < 1"},
        'swap "not_divided" and "divided_by_d_model"',
        (
            "Without the division scores are too large, and the weights of a row lie further"
            " apart than the right ones; divided by d_model they lie closer together"
        ),
    ),
    Slip(
        {'return "heads_merged_by_reshape"': 'return "heads_split_by_reshape"'},
        "call a wrong merge a wrong split",
        "After a wrong merge the layer's output is wrong, and on the same tokens its weights are"
        " right. Give both layers the same tokens, or compare those of the first block alone:"
        " behind it the tokens are others, and so are the weights",
    ),
    Slip(
        {f"first = {FIRST}": 'return "right"'},
        "call every suspect right",
        "Ask first_difference where it begins to differ",
    ),
    Slip(
        {ROWS: "if False:"},
        "do not ask whether rows of weights, one query over all keys, sum to 1 along dim=-1",
        "After a softmax over the queries they do not",
    ),
    Slip(
        {ROWS: ROWS.replace("dim=-1", "dim=-2")},
        "ask whether the weights sum to 1 over the queries, along dim=-2",
        "A row holds the weights of one query over all keys: it sums to 1 along dim=-1",
    ),
    Slip(
        {SAME: "same = False"},
        "do not compare the logits where all parts agree, or compare them to the last bit",
        "Where all parts agree, compare the logits: a right model has the same within rounding, as"
        " torch.allclose asks",
    ),
)

EXERCISE = Exercise(
    answer=my_name_the_bug,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    more=more,
    hints=(
        (
            "First find out where. Two of the bugs are not inside the attention layer. For the"
            " others, send the same tokens through both layers and look at the weights: do rows sum"
            " to 1? Are they the right ones?"
        ),
        (
            "ln(w[0] / w[1]) of two weights in a row is the difference of their scores, whatever"
            " the softmax divided by. Divide the suspect's by the right one's: a wrong scale gives"
            " the same factor everywhere, above or below 1. If the weights agree, the merge is"
            " wrong; if there is no single factor, the split is."
        ),
    ),
)
