"""Exercise: multi-head attention in which a mask says which token may look at which."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnist_vit.model import MultiHeadAttention as MyMultiHeadAttention

from ..checking import (
    Evidence,
    Exercise,
    Mistake,
    Slip,
    copy_weights,
    describe,
    gradients,
    make,
    parameter_gradients,
    random,
    randomise,
    start_values,
)
from ..checking.raised import told
from ..observing.reacting import listed


class MyMaskedAttention(MyMultiHeadAttention):
    """Multi-head attention with a mask.

    mask: booleans, (queries, keys), True where a query may look; None: everywhere.
    A query that may look nowhere gathers nothing: its weights are 0.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)
        q = F.linear(query, w_q, b_q)
        k = F.linear(key, w_k, b_k)
        v = F.linear(value, w_v, b_v)
        # There may be fewer queries than keys: nothing here says how many tokens there are.
        q, k, v = (x.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            # The softmax of a row of nothing but -inf is nan.
            weights = weights.masked_fill(~mask, 0)
        weights = F.dropout(weights, self.dropout, self.training)
        x = weights @ v
        output = self.out_proj(x.transpose(1, 2).flatten(2))
        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average_attn_weights else weights


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """No mask, masks of several kinds, other keys and values than queries, and fewer queries."""
    if isinstance(answer, nn.Module):
        raise Mistake("this is an object, not a class.", "Give the class itself.")
    # 6 numbers in a head: the root of 4 is its half.
    module = make(answer, 18, 3)
    copy_weights(randomise(MyMultiHeadAttention(18, 3), seed=3), module)
    x = random(2, 5, 18, seed=4)
    output, weights = _called(module, x, x, x)
    yield "output without a mask", output
    yield "weights without a mask", weights

    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    output, weights = _called(module, x, x, x, average_attn_weights=False, mask=causal)
    yield "output with a mask", output
    yield "weights of each head with a mask", weights
    _, weights = _called(module, x, x, x, mask=causal)
    yield "mean of the weights with a mask", weights

    blind = causal.clone()
    blind[2] = False
    x = x.clone().requires_grad_()
    output, weights = _called(module, x, x, x, mask=blind)
    yield "output where token 2 may look nowhere", output
    yield "weights where token 2 may look nowhere", weights
    yield from gradients(output, x=x)
    yield from parameter_gradients(output, module)

    x = x.detach()
    key, value = random(2, 5, 18, seed=11), random(2, 5, 18, seed=12)
    yield "output of three different inputs", _called(module, x, key, value)[0]
    output, _ = _called(module, x, key, value, mask=causal)
    yield "output of three different inputs with a mask", output
    others = ~torch.eye(5, dtype=torch.bool)
    _, weights = _called(module, x, x, x, average_attn_weights=False, mask=others)
    yield "weights where no token may look at itself", weights
    yield "output of the last token, asked alone", _fewer(module, x[:, -1:], x, None)
    mask = torch.tensor([[True, False, False, True, False], [False, True, True, False, True]])
    yield "output of two queries with a mask", _fewer(module, x[:, -2:], x, mask)
    yield "output of the last two tokens, asked alone", _fewer(module, x[:, -2:], x, None)
    # Token 0 may look at itself alone: its weight is 1, exactly, however large the others' scores
    # are.
    large = 30 * x
    _, weights = _called(module, large, large, large, average_attn_weights=False, mask=causal)
    yield "weights of token 0, which may look at one token, for large scores", weights[:, :, 0]
    output, none = _called(module, x, x, x, need_weights=False, mask=causal)
    yield "output with a mask and need_weights=False", output
    yield "the weights that come back with need_weights=False", none
    dropped = make(answer, 18, 3, dropout=1.0).train()
    yield "weights in train mode with dropout 1", _called(dropped, x, x, x, mask=causal)[1]
    copy_weights(randomise(MyMultiHeadAttention(18, 3), seed=3), dropped)
    for mode in ("train", "eval"):
        dropped.train(mode == "train")
        output = _called(dropped, x, x, x, need_weights=False, mask=causal)[0]
        yield f"output with need_weights=False and dropout 1 in {mode} mode", output
    yield start_values(make(answer, 64, 2), MyMultiHeadAttention(64, 2))
    _drop_half(make(answer, 18, 3, dropout=0.5).train())


def _drop_half(module: Any) -> None:
    """Raise Mistake if dropout 0.5 makes of four equal weights anything but 0 and twice as much."""
    with torch.no_grad():
        module.in_proj_weight.zero_()
        x = random(40, 5, 18, seed=8)
        mask = torch.tensor([True, True, False, True, True]).expand(5, 5)
        weights = _called(module, x, x, x, average_attn_weights=False, mask=mask.clone())[1]
        shared = _called(module.eval(), x, x, x, average_attn_weights=False, mask=mask.clone())[1]
    if not torch.allclose(shared, mask / 4, atol=1e-4):
        raise Mistake(
            "where five tokens have equal scores, and a query may look at four of them, your"
            " weights in eval mode are not 0.25 four times and 0.",
            INSTEAD + ".",
        )
    found = weights.round(decimals=3).unique().tolist()
    if found != [0.0, 0.5]:
        shown = listed([f"{value:.3g}" for value in found], 6)
        raise Mistake(
            f"with dropout 0.5 in train mode, four equal weights of 0.25 become {shown}.",
            "Dropout makes each 0 or, divided by 1 - 0.5, 0.5. It is the last step before the"
            " product with the values: do not mask or normalise after it.",
        )


def _called(module: Any, *tokens: Tensor, **options: Any) -> tuple[Any, Any]:
    """What forward returned: the output and the weights. It must leave the mask as it is."""
    mask = options.get("mask")
    given = mask.clone() if isinstance(mask, Tensor) else None
    found = module(*tokens, **options)
    if isinstance(mask, Tensor) and given is not None and not torch.equal(mask, given):
        raise Mistake(
            "forward changes the mask that it was given, in place.",
            "The next call with this mask then looks elsewhere. Make a new tensor, such as ~mask or"
            " mask | other, or write into mask.clone().",
        )
    if isinstance(found, tuple | list) and len(found) == 2:
        return found[0], found[1]
    came = f"came back is {describe(found).rstrip('?')}."
    if options.get("need_weights") is False:
        raise Mistake(
            f"forward must return a pair. With need_weights=False what {came}",
            "Without weights the pair is (output, None).",
        )
    raise Mistake(f"forward must return a pair, (output, weights). What {came}")


def notice(answer: Any) -> Mistake | None:
    """Which weights are wrong where a mask forbids some: the sums of rows, or a forbidden one."""
    x = random(1, 5, 18, seed=6)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    blind = causal.clone()
    blind[2] = False
    module = make(answer, 18, 3).eval()
    copy_weights(randomise(MyMultiHeadAttention(18, 3), seed=3), module)
    with torch.no_grad():
        weights = module(x, x, x, average_attn_weights=False, mask=causal.clone())[1]
        rows = module(x, x, x, average_attn_weights=False, mask=blind)[1][:, :, 2]
        usual = module(x, x, x, average_attn_weights=False)[1]
    if weights.shape != (1, 3, 5, 5) or not weights.isfinite().all():
        return None
    if (usual.sum(dim=-1) - 1).abs().max() > 1e-4:
        return None  # it is not the mask alone
    turned = usual.masked_fill(~causal.mT, 0)
    turned = turned / turned.sum(dim=-1, keepdim=True)
    is_turned = torch.allclose(weights, turned, atol=1e-4)
    if is_turned or torch.allclose(weights, turned.masked_fill(~causal, 0), atol=1e-4):
        where = "Your" if is_turned else "Where the mask itself is True, your"
        return Mistake(
            f"{where} weights are those of the transposed mask: its rows and columns are"
            " exchanged.",
            "A mask is (queries, keys), as the scores are: use it as it comes.",
        )
    if (forbidden := weights[..., ~causal].abs().max()) > 1e-4:
        return Mistake(
            f"Where the mask is False a weight must be 0, and yours go up to {forbidden:.3g}.",
            INSTEAD + ".",
        )
    sums = weights.sum(dim=-1)
    if (sums - 1).abs().max() > 1e-4:
        return Mistake(
            "With a causal mask the rows of your weights sum to"
            f" {sums.min():.4g} … {sums.max():.4g}, and each must sum to 1.",
            INSTEAD + ".",
        )
    if rows.isfinite().all() and rows.abs().max() > 1e-4:
        return Mistake(
            "A query that may look nowhere has weights in yours, up to"
            f" {rows.abs().max():.3g}, and its weights must all be 0.",
            "After the softmax, weights.masked_fill(~mask, 0) sets them to 0.",
        )
    return None


def tell(evidence: Evidence) -> tuple[str, str]:
    """A layer output of 0 where a query may look nowhere; what need_weights must not change."""
    if evidence.what == "output where token 2 may look nowhere" and _is_blind_alone(evidence):
        return (
            "The layer output of a query that may look nowhere is 0 in yours.",
            "Only its weights must be 0. The output projection still adds its bias, as to every"
            " token.",
        )
    if "need_weights=False" not in evidence.what or not evidence.what.startswith("output"):
        return "", ""
    said = "The output should be the same whether need_weights is True or False"
    if "dropout 1" in evidence.what:
        said += (
            ", dropped weights included: in train mode dropout 1 must leave nothing but the bias of"
            " out_proj, in eval mode everything"
        )
    return f"{said}.", (
        "What the option says is what comes back beside it: compute the output in one way for both."
        " F.scaled_dot_product_attention takes dropout_p, and knows no mode."
    )


def _is_blind_alone(evidence: Evidence) -> bool:
    """Whether of five tokens the output of token 2 alone is wrong, and 0."""
    if not evidence.is_finite or evidence.value.shape != evidence.expected.shape:
        return False
    far = (evidence.value - evidence.expected).abs().amax(dim=(0, 2)) > 1e-4
    return far.nonzero().flatten().tolist() == [2] and not evidence.value[:, 2].any()


def _fewer(module: Any, query: Tensor, x: Tensor, mask: Tensor | None) -> Any:
    """The output of fewer queries than keys; an error there has its reason in a sentence."""
    masked = ", mask=mask" if mask is not None else ""
    call = f"layer(x[:, -{query.shape[1]}:], x, x{masked})"
    try:
        return _called(module, query, x, x, mask=mask)[0]
    except (RuntimeError, IndexError, ValueError) as error:
        raise Mistake(
            f"with fewer queries than keys, as in {call}, {told(error)}",
            "The output must have as many tokens as query; k, v and the last axis of the mask as"
            " many as key.",
        ) from None


SPLIT = "x.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v)"
FILL = "scores = scores.masked_fill(~mask, -torch.inf)"
SOFTMAX, EMPTY = "scores.softmax(dim=-1)", "weights = weights.masked_fill(~mask, 0)"
GATHER, DIVIDED = "x = weights @ v", " / self.head_dim**0.5"
PROJECT = "output = self.out_proj(x.transpose(1, 2).flatten(2))"
CHUNK = "w_q, w_k, w_v = self.in_proj_weight.chunk(3)"
KEY, VALUE = "F.linear(key, w_k, b_k)", "F.linear(value, w_v, b_v)"
OPENED = (
    "opened = mask | torch.eye(*mask.shape, dtype=torch.bool)\n"
    "            scores = scores.masked_fill(~opened, -torch.inf)"
)
CAUSAL = (
    "if mask is None:\n"
    "            mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril()\n"
    f"        {CHUNK}"
)
BLIND = "output.masked_fill(~mask.any(dim=-1)[:, None], 0) if mask is not None else output"
INSTEAD = (
    "Give the forbidden scores -inf before the softmax, as in scores ="
    " scores.masked_fill(~mask, -torch.inf)"
)

SLIPS = (
    Slip(
        {FILL: "pass"},
        "set forbidden weights to 0 after the softmax, and leave the others as they are",
        f"A row that loses weights no longer sums to 1. {INSTEAD}",
    ),
    Slip(
        {FILL: "pass", EMPTY: "pass"},
        "never use the mask, or throw away what masked_fill returns",
        INSTEAD,
    ),
    Slip(
        {FILL: "scores = scores * mask", EMPTY: "pass"},
        "give forbidden scores 0, as in scores * mask",
        "A score of 0 is a score like others, and e⁰ is 1. A forbidden score is -inf",
    ),
    Slip(
        {FILL: "scores = scores * mask"},
        "give forbidden scores 0, as in scores * mask",
        "A score of 0 still counts in the sum of the softmax. A forbidden score is -inf",
    ),
    Slip(
        {FILL: "scores = scores + ~mask * -torch.inf"},
        "multiply the mask, or its opposite, by -inf",
        "False times -inf is 0 times -inf, which is nan. `masked_fill` writes -inf only where it is"
        " wanted",
    ),
    Slip(
        {FILL: "scores = scores + ~mask * -torch.inf", EMPTY: "pass"},
        "multiply the mask, or its opposite, by -inf",
        "False times -inf is 0 times -inf, which is nan. `masked_fill` writes -inf only where it is"
        " wanted",
    ),
    Slip(
        {FILL: "scores = scores.masked_fill(mask, -torch.inf)", EMPTY: "pass"},
        "exchange True and False",
        "Here True means that a query may look (in nn.MultiheadAttention it means that it may not)",
    ),
    Slip(
        {FILL: "scores = scores.masked_fill(mask, -torch.inf)"},
        "exchange True and False in the scores",
        "Here True means that a query may look: it is ~mask that gets -inf",
    ),
    Slip(
        {
            FILL: "scores = scores.masked_fill(mask, -torch.inf)",
            EMPTY: "weights = weights.masked_fill(mask, 0)",
        },
        "exchange True and False",
        "Here True means that a query may look (in nn.MultiheadAttention it means that it may not)",
    ),
    Slip(
        {
            FILL: "scores = scores.masked_fill(~mask.mT, -torch.inf)",
            EMPTY: "weights = weights.masked_fill(~mask.mT, 0)",
        },
        "take the mask as (keys, queries)",
        "Its rows are the queries, as in the scores",
    ),
    Slip(
        {
            FILL: "scores = scores.masked_fill(~mask.mT, -torch.inf)",
            EMPTY: "weights = weights.nan_to_num()",
        },
        "take the mask as (keys, queries)",
        "Its rows are the queries, as in the scores",
    ),
    Slip(
        {EMPTY: "pass"},
        "keep the nan of a query that may look nowhere",
        "For such a query 0 is divided by 0, by the softmax of a row of -inf as by the sum of"
        " weights that are all 0. Its weights must be 0, and nan · 0 is nan: masked_fill(~mask, 0)"
        " overwrites them",
    ),
    Slip(
        {EMPTY: "pass", "x = weights @ v": "x = (weights @ v).nan_to_num()"},
        "turn the nan of the output into 0, and leave it in the weights",
        "The weights come back, too. Set them to 0 right after the softmax, masked_fill(~mask, 0):"
        " then nothing behind them is nan",
    ),
    Slip(
        {
            "if mask is not None:\n            scores": "if True:\n            scores",
            "if mask is not None:\n            #": "if True:\n            #",
        },
        "use the mask without asking whether there is one",
        "Its default is None, everywhere may be looked at: if mask is not None",
    ),
    Slip(
        {FILL: "scores = scores.masked_fill(~mask, -1e9)", EMPTY: "pass"},
        "let a query that may look nowhere look everywhere alike, as a large finite number in place"
        " of -inf does",
        "Set its weights to 0 after the softmax. (-inf alone gives nan there)",
    ),
    Slip(
        {FILL: "scores = scores + ~mask * -1e9", EMPTY: "pass"},
        "add a large finite number to forbidden scores",
        "A query that may look nowhere then looks everywhere. Write -inf into the forbidden scores,"
        " with masked_fill, and give such a query weights of 0",
    ),
    Slip(
        {
            FILL: "scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)",
            EMPTY: "weights = weights.nan_to_num()",
        },
        (
            "let the row of a query that may look nowhere become nan and mend it afterwards,"
            " without overwriting its scores"
        ),
        (
            "The output is right, but on the way back the gradient becomes nan where the nan"
            " arose. scores.masked_fill(~mask, -torch.inf) before the softmax overwrites the"
            " forbidden scores, so that no gradient goes on through them"
        ),
    ),
    Slip(
        {
            FILL: "scores[:, 0] = scores[:, 0].masked_fill(~mask, -torch.inf)",
        },
        "mask the scores of head 0 alone",
        "The mask is the same for all heads: (queries, keys) fits the last two dimensions of the"
        " scores",
    ),
    *(
        Slip(
            {FILL: f"{causal}\n            scores = scores.masked_fill(~{which}, -torch.inf)"},
            "make a causal mask in place of the one that is given",
            "mask says which query may look where, and it is not always causal: use mask itself",
        )
        for causal, which in (
            ("mask = torch.ones_like(mask).tril()", "mask"),
            ("causal = torch.ones_like(mask).tril()", "causal"),
        )
    ),
    *(
        Slip(
            {DIVIDED: by},
            f"divide the scores by {what} in place of √head_dim",
            "head_dim is how many numbers a query of one head has: divide by math.sqrt(q.shape[-1])"
            " where q is cut into heads",
        )
        for by, what in (
            (" / self.head_dim", "head_dim"),
            (" / (2 * self.head_dim)", "2 head_dim, as / head_dim ** 1 / 2 does,"),
            (" / (self.head_dim / 2)", "head_dim / 2, which is head_dim ** 1 / 2,"),
            (" / self.embed_dim**0.5", "√embed_dim"),
            (" / self.num_heads**0.5", "√num_heads"),
        )
    ),
    Slip(
        {CHUNK: CAUSAL},
        "make a causal mask where none is given",
        "mask=None means that every query may look everywhere",
    ),
    *(
        Slip(
            {FILL: OPENED, **edit},
            "let each token look at itself, whatever the mask says",
            "A mask may forbid that, too: use it as it comes",
        )
        for edit in ({}, {EMPTY: "weights = weights.nan_to_num()"})
    ),
    *(
        Slip(edit, f"make {what}", "Queries come from query, keys from key, values from value")
        for edit, what in (
            ({KEY: "F.linear(query, w_k, b_k)"}, "the keys from query, and not from key"),
            ({KEY: "F.linear(value, w_k, b_k)"}, "the keys from value, and not from key"),
            ({VALUE: "F.linear(query, w_v, b_v)"}, "the values from query, and not from value"),
            ({VALUE: "F.linear(key, w_v, b_v)"}, "the values from key, and not from value"),
            (
                {KEY: "F.linear(query, w_k, b_k)", VALUE: "F.linear(query, w_v, b_v)"},
                "keys and values from query as well",
            ),
            (
                {KEY: "F.linear(value, w_k, b_k)", VALUE: "F.linear(key, w_v, b_v)"},
                "the keys from value, and the values from key",
            ),
        )
    ),
    Slip(
        {
            FILL: "pass",
            EMPTY: "weights = weights * mask\n            weights = weights /"
            " weights.sum(dim=-1, keepdim=True).clamp_min(1e-9)",
        },
        "leave the forbidden scores in the softmax, or in exp, set what it makes of them to 0 and"
        " divide the others by their sum",
        "Where a forbidden score is much larger than the others, nothing is left of these:"
        f" e⁻²⁰⁰ is 0 in a float32. {INSTEAD}",
    ),
    Slip({DIVIDED: ""}, "do not divide the scores at all", "Divide them by √head_dim, as before"),
    Slip(
        {PROJECT: f"{PROJECT}\n        output = {BLIND}"},
        "set the layer output of a query that may look nowhere to 0",
        "Only its weights are 0. The output projection still adds its bias, as to every token",
    ),
    Slip(
        {GATHER: "x = scores @ v"},
        "gather the values with the scores",
        "What they are gathered with are the weights",
    ),
    Slip(
        {EMPTY: "weights = weights.masked_fill(mask, 0)"},
        "set the weights to 0 where the mask is True",
        "There a query may look: it is where the mask is False, ~mask, that weights must be 0",
    ),
    Slip(
        {"weights = F.dropout(weights, self.dropout, self.training)": ""},
        "leave out the dropout of the weights",
        "It stands after the softmax and the mask, as in your layer without a mask:"
        " F.dropout(weights, self.dropout, self.training)",
    ),
    Slip(
        {"unflatten(2, (self.num_heads, -1))": "unflatten(2, (-1, self.num_heads))"},
        "cut each token into head_dim heads of num_heads numbers",
        "The last axis is cut into (num_heads, head_dim)",
    ),
    *(
        Slip(
            {"output, None": f"output, {weights}"},
            "return weights where need_weights is False",
            "None comes back in their place then",
        )
        for weights in ("weights", "weights.mean(dim=1)")
    ),
    Slip(
        {"if not need_weights": "if need_weights"},
        "return weights where need_weights is False, and None where it is True",
        "It is the other way round",
    ),
    *(
        Slip(
            {FILL: "scores = scores.masked_fill(~mask, torch.inf)", **edit},
            "give forbidden scores inf in place of -inf",
            "exp(inf) is inf, and inf / inf is nan; exp(-inf) is 0",
        )
        for edit in ({}, {EMPTY: "pass"})
    ),
    Slip(
        {FILL: "pass", EMPTY: "weights = weights.masked_fill(~mask, -torch.inf)"},
        "write -inf into the weights, after the softmax",
        INSTEAD,
    ),
)

EXERCISE = Exercise(
    answer=MyMaskedAttention,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    tell=tell,
    hints=(
        (
            "Which score gives the weight 0? Write it where the mask is False, before the softmax."
            " Then think of a row in which no other score is left, and of one query with 16 keys."
        ),
        (
            "`scores.masked_fill(~mask, -torch.inf)`, then the softmax. Of a row of nothing but"
            " -inf it makes nan, so `weights.masked_fill(~mask, 0)` follows. The rest is your own"
            " forward; where it reshapes keys or values, take their number of tokens from them:"
            " `k.unflatten(2, (self.num_heads, -1))` needs no number of tokens at all."
        ),
    ),
    same=(
        {
            FILL: "scores = torch.where(mask, scores, -torch.inf)",
            EMPTY: "weights = torch.where(mask, weights, 0.0)",
        },
        {EMPTY: "weights = weights.nan_to_num()"},
        {EMPTY: "weights = weights * mask if mask.any(dim=-1).all() else weights.nan_to_num()"},
        {FILL: "scores = scores.masked_fill(mask.logical_not(), float('-inf'))"},
    ),
    tolerance=1e-5,
)
