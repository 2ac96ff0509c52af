"""Exercise: multi-head attention, section 3.2.2 of Vaswani et al. 2017."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


class MyMultiHeadAttention(nn.Module):
    """Multi-head attention: query, key and value are (n, seq_length, embed_dim) each.

    Returns the layer output, (n, seq_length, embed_dim), and the weights: None if
    need_weights is False; else their mean over the heads, (n, seq_length, seq_length),
    or with average_attn_weights=False each head's own,
    (n, num_heads, seq_length, seq_length).
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        # The rows of W_Q of all heads, then of W_K, then of W_V.
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = True,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        n, seq_length, _ = query.shape
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)
        q = F.linear(query, w_q, b_q)
        k = F.linear(key, w_k, b_k)
        v = F.linear(value, w_v, b_v)
        # 3 times (n, seq_length, embed_dim) -> (n, num_heads, seq_length, head_dim)
        shape = (n, seq_length, self.num_heads, self.head_dim)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.head_dim**0.5
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        x = weights @ v
        # Splitting backwards: heads and tokens change places again, then the heads
        # stand side by side in each token.
        x = x.transpose(1, 2).reshape(n, seq_length, self.embed_dim)
        output = self.out_proj(x)
        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average_attn_weights else weights


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(answer, nn.Module):
        raise Mistake(
            "this is an object made from the class, and the class itself is needed.",
            "Hand over its name alone: the check makes objects of its own sizes.",
        )
    module = make(answer, 12, 3)
    copy_weights(randomise(MyMultiHeadAttention(12, 3), seed=3), module)
    x = random(2, 5, 12, seed=4).requires_grad_()
    out, weights = _pair(module(x, x, x))
    yield "output", out
    yield "weights", weights
    each = {"average_attn_weights": False, "need_weights": True}
    same, heads = _pair(module(x, x, x, **each), "average_attn_weights=False")
    yield "weights of each head", heads
    yield "output with average_attn_weights=False", same
    out_alone, none = _pair(module(x, x, x, need_weights=False), "need_weights=False")
    yield "output with need_weights=False", out_alone
    yield "the weights that come back with need_weights=False", none
    query, key, value = (random(2, 5, 12, seed=seed) for seed in (7, 8, 9))
    yield "output of three different inputs", _pair(module(query, key, value))[0]
    yield from gradients(out, x=x)
    yield from parameter_gradients(out, module)

    # With 4 numbers in a head, as above, the root of head_dim is its half.
    module = make(answer, 12, 2)
    copy_weights(randomise(MyMultiHeadAttention(12, 2), seed=5), module)
    x = random(1, 7, 12, seed=6)
    yield "output at another size", _pair(module(x, x, x))[0]
    _attributes(module, embed_dim=12, num_heads=2)
    yield from _dropout(answer)
    _refuse_dropped_together(_dropped(answer))
    module = make(answer, 12, 3, dropout=1.0)
    copy_weights(randomise(MyMultiHeadAttention(12, 3), seed=3), module)
    for mode in ("train", "eval"):
        output = _pair(module.train(mode == "train")(x, x, x, need_weights=False))[0]
        yield f"output with need_weights=False and dropout 1 in {mode} mode", output
    yield start_values(make(answer, 64, 2), MyMultiHeadAttention(64, 2))


def _attributes(module: nn.Module, **sizes: int) -> None:
    """Raise Mistake unless the layer has these numbers, which its users read."""
    for name, size in sizes.items():
        if getattr(module, name, None) != size:
            raise Mistake(
                f"right so far, but a layer made with embed_dim=12 and num_heads=2 has no {name}"
                f" that is {size}.",
                f"Write self.{name} = {name} in __init__, as torch's layer does: later cells, and"
                " the functions that draw maps, read it.",
            )


def _dropout(answer: Any) -> Iterator[tuple[str, Any]]:
    """One token, values 1 and no output projection: a head gives its one weight, 0 or 2 where
    dropout is 0.5."""
    module = make(answer, 12, 3, dropout=0.5)
    made = MyMultiHeadAttention(12, 3)
    with torch.no_grad():
        made.in_proj_weight.zero_()
        made.in_proj_bias[24:] = 1
        made.out_proj.weight.copy_(torch.eye(12))
    copy_weights(made, module)
    x = random(2000, 1, 12, seed=10)
    for mode in (True, False):
        out, weights = _pair(
            module.train(mode)(x, x, x, average_attn_weights=False), "average_attn_weights=False"
        )
        heads = out.reshape(-1, 4).mean(dim=1)
        name = "dropout=0.5 in train mode" if mode else "dropout=0.5 in eval mode"
        yield (
            f"{name}, all values 1: the shares of heads whose output is [0], [1] or [2]",
            _shares(heads),
        )
        if mode and isinstance(weights, Tensor):
            yield (
                f"{name}: the shares of [0], [1] and [2] among the weights that come back",
                _shares(weights),
            )


def _dropped(answer: Any) -> Tensor:
    """The weights of each head in train mode with dropout 0.5, where all were alike before it."""
    module = make(answer, 12, 3, dropout=0.5)
    with torch.no_grad():
        module.in_proj_weight.zero_()
    x = random(200, 4, 12, seed=11)
    found = _pair(module.train()(x, x, x, average_attn_weights=False), "average_attn_weights=False")
    return found[1].detach()


def _refuse_dropped_together(weights: Tensor) -> None:
    """Raise Mistake where chance decides of several weights at once."""
    for what, group in (
        ("all weights of a head", weights.flatten(2)),
        ("all weights of a query", weights),
        ("all weights of a key", weights.transpose(2, 3)),
        ("the weights of all heads", weights.flatten(2).transpose(1, 2)),
        ("the weights of all pictures", weights.flatten(1).T),
    ):
        if (group == group[..., :1]).all():
            raise Mistake(
                f"in train mode {what} are dropped together, or none of them is.",
                "Chance decides of each weight alone: F.dropout(weights, self.dropout,"
                " self.training).",
            )


def more(answer: Any) -> list[str]:
    """What dropout 0.5 makes of four equal weights; a second token tells scaling from sums."""
    return sorted({f"{weight:.3f}" for weight in _dropped(answer).unique().tolist()})


def tell(evidence: Evidence) -> tuple[str, str]:
    """What the heads gave that have one weight, 1, and values of 1; what an option changed."""
    if "need_weights=False and dropout 1" in evidence.what:
        return (
            "Whether need_weights is True or False, in train mode dropout 1 should leave nothing"
            " but the bias of out_proj, in eval mode everything.",
            "What the option says is what comes back: compute the output in one way for both."
            " F.scaled_dot_product_attention takes dropout_p, and knows no mode.",
        )
    if evidence.what.startswith("output with"):
        return (
            "The layer output should be the same whatever need_weights and average_attn_weights"
            " are.",
            "They only say which weights come back beside it.",
        )
    if "the shares of" not in evidence.what:
        return "", ""
    parts = []
    for share, result in zip(evidence.value.tolist(), ("0", "1", "2"), strict=True):
        if share > 0:
            parts.append(f"{100 * share:.0f} % give {result}")
    rest = 1 - float(evidence.value.sum())
    if rest > 0.05:
        parts.append(f"{100 * rest:.0f} % give something else, such as nan or 4")
    right = "half of them should give 0, and half 2"
    if "eval mode" in evidence.what:
        right = "all should give 1"
    those = "weights that come back" if "come back" in evidence.what else "heads"
    return (
        f"One token looks at itself with the weight 1: of the {those} {right}, and of yours"
        f" {', '.join(parts)}.",
        "In train mode F.dropout(weights, self.dropout, self.training) makes a weight 0, or divides"
        " it by 1 - dropout; in eval mode it does nothing. It stands once, between softmax and"
        " values, and nothing may mend the weights after it.",
    )


def _shares(weights: Tensor) -> Tensor:
    """The shares of numbers that are 0, 1 and 2, rounded: the same for any random numbers."""
    shares = [(weights - value).abs().lt(1e-5).float().mean() for value in (0.0, 1.0, 2.0)]
    return torch.stack(shares).round(decimals=1)


def _pair(found: Any, option: str = "") -> tuple[Any, Any]:
    """What forward returned, called with an option: the output and the weights."""
    if isinstance(found, tuple | list) and len(found) == 2:
        return found[0], found[1]
    came = f"With {option} what came back is" if option else "What came back is"
    raise Mistake(
        "forward must return a pair, (output, weights), since the encoder block takes it apart"
        f" with `x, _ = self.self_attention(...)`. {came} {describe(found)}".rstrip(".?")
        + ".",
        "Without weights the pair is (output, None)." if option == "need_weights=False" else "",
    )


QUERY, KEY, VALUE = (
    "F.linear(query, w_q, b_q)",
    "F.linear(key, w_k, b_k)",
    "F.linear(value, w_v, b_v)",
)
ROWS, BIASES = "self.in_proj_weight.chunk(3)", "self.in_proj_bias.chunk(3)"
SHAPE, SPLIT = (
    "(n, seq_length, self.num_heads, self.head_dim)",
    "part.reshape(shape).transpose(1, 2)",
)
SCORES, SCALE, SOFTMAX = (
    "scores = q @ k.transpose(-2, -1)",
    "scores / self.head_dim**0.5",
    "scores.softmax(dim=-1)",
)
DROPOUT, GATHER = "F.dropout(weights, self.dropout, self.training)", "x = weights @ v"
MERGE, PROJECT = (
    "x.transpose(1, 2).reshape(n, seq_length, self.embed_dim)",
    "output = self.out_proj(x)",
)
NONE, MEAN = "return output, None", "weights.mean(dim=1) if average_attn_weights else weights"
DEALT = {
    SHAPE: "(n, seq_length, self.head_dim, self.num_heads)",
    SPLIT: "part.reshape(shape).permute(0, 3, 1, 2)",
}
WRONG_ORDERS = ("k, q, v", "v, q, k", "k, v, q", "v, k, q")


def _order(order: str) -> dict[str, str]:
    """The edit that takes the three parts in another order."""
    weights, biases = (
        ", ".join(f"{letter}_{part}" for part in order.split(", ")) for letter in "wb"
    )
    return {
        f"w_q, w_k, w_v = {ROWS}": f"{weights} = {ROWS}",
        f"b_q, b_k, b_v = {BIASES}": f"{biases} = {BIASES}",
    }


SLIPS = (
    Slip(
        {
            "weights = F.dropout(weights, self.dropout, self.training)\n        x = weights @ v": (
                "dropped = F.dropout(weights, self.dropout, self.training)\n        x = dropped @ v"
            )
        },
        "return the weights as they were before dropout",
        "The weights after it are the ones to return",
    ),
    Slip(
        {SCALE: "scores / self.embed_dim**0.5"},
        "divide by √embed_dim instead of √head_dim",
        "A score is a sum of head_dim products, since each head has only head_dim numbers of a"
        " token",
        name="divided_by_d_model",
    ),
    Slip(
        {
            "x = weights @ v": (
                "gathering = weights\n"
                "        if average_attn_weights:\n"
                "            gathering = weights.mean(dim=1, keepdim=True)\n"
                "        x = gathering @ v"
            )
        },
        "gather the values with the mean of the heads' weights",
        "Each head gathers with its own; average_attn_weights changes only what is returned",
    ),
    Slip(
        {SCALE: "scores"},
        "do not divide the scores at all",
        "Divide them by √head_dim before the softmax",
    ),
    Slip(
        {SCALE: "scores / self.head_dim"},
        "divide by head_dim instead of its square root",
        "The scores are q kᵀ / √head_dim",
    ),
    *(
        Slip(
            {SCALE: f"scores / ({by})"},
            did,
            "** comes before /: √head_dim is head_dim ** 0.5",
        )
        for by, did in (
            (
                "2 * self.head_dim",
                "divide by 2 head_dim, as / head_dim ** 1 / 2 does",
            ),
            (
                "self.head_dim / 2",
                "divide by head_dim / 2, which is what head_dim ** 1 / 2 gives",
            ),
        )
    ),
    Slip(
        {SPLIT: "part.reshape(n, self.num_heads, seq_length, self.head_dim)"},
        "split into heads with one view or reshape and no transpose",
        "Cut the last dimension first, then swap dimensions 1 and 2",
        name="split_by_reshape",
    ),
    Slip(
        {MERGE: "x.reshape(n, seq_length, self.embed_dim)"},
        "merge the heads with one view or reshape and no transpose",
        "Swap heads and tokens back first, then merge with reshape",
        name="merged_by_reshape",
    ),
    Slip(
        {MERGE: "x.transpose(1, 2).view(n, seq_length, self.embed_dim)"},
        "merge with `view` after `transpose`",
        "The numbers no longer lie in the order in which they are read, and `view` moves none."
        " `reshape` does",
    ),
    Slip(
        {SOFTMAX: "scores.softmax(dim=-2)"},
        "take the softmax over the queries (dim=-2)",
        "Each row, one query, must sum to 1 over its keys, so dim=-1",
    ),
    Slip(
        {SOFTMAX: "scores.softmax(dim=1)"},
        "take the softmax over the heads (dim=1)",
        "The heads know nothing of each other, so dim=-1, over the keys",
    ),
    Slip(
        {SOFTMAX: "scores.softmax(dim=-1).softmax(dim=-1)"},
        "take the softmax twice",
        "Once makes weights of the scores. A second one makes them nearly even: no weight of a row"
        " is more than e times another",
    ),
    Slip(
        {SCORES: "scores = k @ q.transpose(-2, -1)"},
        "multiply the keys by the queries, k qᵀ",
        "A row belongs to a query, and so do the scores in it: q kᵀ",
    ),
    Slip(
        {QUERY: "F.linear(key, w_q, b_q)", KEY: "F.linear(query, w_k, b_k)"},
        "make the queries of key, and the keys of query",
        "w_q is for query, and w_k for key",
    ),
    Slip(
        {SOFTMAX: "scores"},
        "use the scores as weights, without a softmax over the keys",
        "Weights are positive, and each row of them sums to 1: softmax(dim=-1)",
    ),
    Slip(
        {KEY: "F.linear(key, w_q, b_q)", VALUE: "F.linear(value, w_q, b_q)"},
        "make queries, keys and values all with W_Q and its bias, the first thirds",
        "Keys need the second third of in_proj_weight and of in_proj_bias, values the last",
    ),
    Slip(
        {KEY: "F.linear(key, w_q, b_q)"},
        "make the keys with W_Q too",
        "They need the second third of in_proj_weight",
    ),
    Slip(
        _order("q, v, k"),
        "swap keys and values",
        "After the rows of W_Q come those of W_K, and W_V is last",
    ),
    *(
        Slip(
            _order(order),
            f"take the three parts of in_proj_weight as {order}",
            "The rows of W_Q come first, then W_K, then W_V",
        )
        for order in WRONG_ORDERS
    ),
    Slip(
        {GATHER: "x = weights @ k"},
        "gather the keys in place of the values",
        "The head output is weights @ v",
    ),
    Slip(
        {
            ROWS: (
                "self.in_proj_weight.unflatten(0, (self.num_heads, 3, -1)).transpose(0,"
                " 1).flatten(1, 2)"
            ),
            BIASES: (
                "self.in_proj_bias.unflatten(0, (self.num_heads, 3, -1)).transpose(0,"
                " 1).flatten(1, 2)"
            ),
        },
        "cut in_proj_weight, or what it makes, by head first and by q, k, v second",
        "in_proj_weight holds W_Q of all heads, then W_K of all heads, then W_V of all heads",
    ),
    Slip(
        DEALT,
        "deal the numbers out one by one when you split, every num_heads-th to the same head",
        "A head owns head_dim numbers that stand side by side, so cut into (num_heads, head_dim)",
    ),
    Slip(
        DEALT | {MERGE: "x.permute(0, 2, 3, 1).reshape(n, seq_length, self.embed_dim)"},
        "deal the numbers out one by one, every num_heads-th to the same head, when you split and"
        " when you merge",
        "A head owns head_dim numbers that stand side by side",
    ),
    Slip(
        {MERGE: "x.permute(0, 2, 3, 1).reshape(n, seq_length, self.embed_dim)"},
        "merge the heads number by number, one of each head in turn",
        "In each token the heads stand side by side, all numbers of head 0 first",
    ),
    Slip(
        {QUERY: "F.linear(query, w_q)", KEY: "F.linear(key, w_k)", VALUE: "F.linear(value, w_v)"},
        "leave out in_proj_bias",
        "Queries, keys and values have a third of it each",
    ),
    Slip(
        {PROJECT: "output = x"},
        "leave out out_proj at the end",
        (
            "Without it this layer only sets the heads side by side and mixes nothing: end with"
            " self.out_proj(x)"
        ),
    ),
    Slip(
        {PROJECT: "output = F.linear(x, self.out_proj.weight)"},
        "leave out the bias of out_proj",
        "Call `self.out_proj(x)`, which multiplies and adds it",
    ),
    Slip(
        {PROJECT: "output = x @ self.out_proj.weight + self.out_proj.bias"},
        "multiply by out_proj.weight without transposing it",
        "Call `self.out_proj(x)`",
    ),
    Slip(
        {SPLIT: "part[:, None]", SCALE: "scores / self.embed_dim**0.5"},
        "use one head as wide as the token",
        "Split into num_heads heads first",
    ),
    Slip(
        {SPLIT: "part[:, None]"},
        "use one head as wide as the token, and divide by √head_dim",
        "Split into num_heads heads first",
    ),
    Slip(
        {KEY: "F.linear(query, w_k, b_k)", VALUE: "F.linear(query, w_v, b_v)"},
        "make keys and values from query as well",
        "In self-attention the three are one tensor, but keys are made from key, and values from"
        " value",
    ),
    *(
        Slip(
            {old: f"F.linear({given}, w_{letter}, b_{letter})"},
            f"make the {made} from {given}, and not from {name}",
            "In self-attention the three are one tensor, and elsewhere they are not: queries come"
            " from query, keys from key, values from value",
        )
        for old, letter, made, name, others in (
            (QUERY, "q", "queries", "query", ("key", "value")),
            (KEY, "k", "keys", "key", ("query", "value")),
            (VALUE, "v", "values", "value", ("query", "key")),
        )
        for given in others
    ),
    Slip(
        {KEY: "F.linear(value, w_k, b_k)", VALUE: "F.linear(key, w_v, b_v)"},
        "make the keys from value, and the values from key",
        "Keys come from key, values from value",
    ),
    Slip(
        {"need_weights: bool = True": "need_weights: bool = False"},
        "give no weights back unless need_weights=True is said",
        "True is its default, as in torch's layer",
    ),
    Slip(
        {MEAN: "None"},
        "never give the weights back",
        "They are the second of the pair, and None only if need_weights is False",
    ),
    Slip(
        {NONE: f"return output, {MEAN}"},
        "give the weights back although need_weights is False",
        "None is expected then",
    ),
    Slip(
        {NONE: "return output, weights", MEAN: "weights"},
        "give each head's weights back whatever is asked for",
        "average_attn_weights=True asks for their mean over the heads, need_weights=False for None",
    ),
    Slip(
        {MEAN: "weights"},
        "give each head's own weights where average_attn_weights is True or not given",
        "Its default is True, and then the mean of the weights over the heads is asked for",
    ),
    Slip(
        {MEAN: "weights.mean(dim=1)"},
        "ignore average_attn_weights",
        "If it is False, give each head's own weights. Attention maps need them",
    ),
    Slip(
        {DROPOUT: "weights"},
        (
            "leave the weights without dropout: it is missing, its result is thrown away, its"
            " probability is 0, or it stands before the softmax"
        ),
        (
            "After the softmax, weights = F.dropout(weights, self.dropout, self.training), with the"
            " dropout that __init__ is given, sets some weights to zero in train mode"
        ),
    ),
    Slip(
        {
            SCALE: "F.dropout(scores / self.head_dim**0.5, self.dropout, self.training)",
            DROPOUT: "weights",
        },
        (
            "leave the weights without dropout: it is missing, its result is thrown away, its"
            " probability is 0, or it stands before the softmax"
        ),
        (
            "After the softmax, weights = F.dropout(weights, self.dropout, self.training), with the"
            " dropout that __init__ is given, sets some weights to zero in train mode"
        ),
    ),
    Slip(
        {DROPOUT: "F.dropout(weights, self.dropout)"},
        "drop weights in eval mode too",
        (
            "Write F.dropout(weights, self.dropout, self.training). An nn.Dropout that is made in"
            " forward is always in train mode"
        ),
    ),
    Slip(
        {DROPOUT: "weights", MERGE: f"F.dropout({MERGE}, self.dropout, self.training)"},
        (
            "apply dropout to the values, the heads' outputs or the layer output in place of the"
            " weights"
        ),
        (
            "Here dropout sets attention weights to zero, before they meet the values, and"
            " nothing else"
        ),
    ),
    Slip(
        {MERGE: "x.flatten(2)"},
        "merge the heads without `transpose`",
        "Swap heads and tokens back first, so that the last two dimensions are those of one token",
    ),
    Slip(
        {PROJECT: "output = F.dropout(self.out_proj(x), self.dropout, self.training)"},
        "apply dropout a second time, to the values, the heads' outputs or the layer output",
        "Here dropout sets attention weights to zero, and nothing else",
    ),
    Slip(
        {QUERY: "query @ w_q + b_q", KEY: "key @ w_k + b_k", VALUE: "value @ w_v + b_v"},
        "multiply by the parts of in_proj_weight without transposing them",
        "F.linear(query, w_q, b_q) transposes w_q itself; with @ write query @ w_q.T",
    ),
    Slip(
        {MEAN: "weights.sum(dim=1) if average_attn_weights else weights"},
        "give the sum of the heads' weights",
        "It is their mean that is asked for",
    ),
    Slip(
        {SCALE: "scores * self.head_dim**0.5"},
        "multiply the scores by √head_dim",
        "They are divided by it: scores / head_dim**0.5",
    ),
    *(
        Slip(
            {SCORES: f"scores = q @ k.{turned}"},
            "exchange other axes of the keys than the last two, as k.T or k.transpose(1, 2) does",
            "k is (n, num_heads, seq_length, head_dim), and tokens and numbers change places:"
            " k.transpose(-2, -1)",
        )
        for turned in ("T", "transpose(1, 2)", "transpose(0, 1)", "transpose(1, -1)")
    ),
    *(
        Slip(
            {old: name},
            f"take {name} as it is for the {made}, without {matrix} and its bias",
            f"The {made} are F.linear({name}, w_{letter}, b_{letter})",
        )
        for old, name, made, matrix, letter in (
            (QUERY, "query", "queries", "W_Q", "q"),
            (KEY, "key", "keys", "W_K", "k"),
            (VALUE, "value", "values", "W_V", "v"),
        )
    ),
    *(
        Slip(
            {old: f"F.linear({name}, w_{letter})"},
            f"leave out the bias of the {made}",
            f"F.linear({name}, w_{letter}, b_{letter}) adds it",
        )
        for old, name, made, letter in (
            (QUERY, "query", "queries", "q"),
            (VALUE, "value", "values", "v"),
        )
    ),
    Slip(
        {SCALE: "scores", SOFTMAX: "scores.softmax(dim=-1) / self.head_dim**0.5"},
        "divide by √head_dim after the softmax",
        "The scores are divided, before it; after it each row must sum to 1",
    ),
    Slip(
        {DROPOUT: "F.dropout(weights, 1 - self.dropout, self.training)"},
        "take self.dropout for the share that is kept",
        "It is the share that becomes 0: F.dropout(weights, self.dropout, self.training)",
    ),
    Slip(
        {MEAN: "scores.mean(dim=1) if average_attn_weights else scores"},
        "give back the scores in place of the weights",
        "The weights are what the softmax makes of them",
    ),
    Slip(
        {SCALE: "scores / self.head_dim**0.25"},
        "divide queries or keys by the fourth root of head_dim, or the scores",
        "Both together are divided by √head_dim, head_dim**0.5",
    ),
    Slip(
        {DROPOUT: f"F.normalize({DROPOUT}, p=1, dim=-1)"},
        "make the rows sum to 1 again after the dropout",
        "Dropout scales what is left itself, so that the mean stays: nothing follows it",
    ),
    Slip(
        {DROPOUT: f"{DROPOUT}\n        weights = weights / weights.sum(dim=-1, keepdim=True)"},
        "divide the weights by their sum after the dropout",
        "Where all weights of a query are dropped that is 0 / 0, which is nan. Dropout scales what"
        " is left itself, so that the mean stays: nothing follows it",
    ),
    Slip(
        {
            DROPOUT: (
                "weights * (torch.rand_like(weights) >= self.dropout) if self.training else weights"
            )
        },
        "set weights to 0 and leave the others as they are",
        "Dropout also divides what is left by 1 - dropout, so that the mean stays:"
        " F.dropout(weights, self.dropout, self.training) does both",
    ),
    Slip(
        {DROPOUT: f"F.dropout({DROPOUT}, self.dropout, self.training)"},
        "drop three quarters of the weights where dropout is 0.5, as dropout twice does",
        "F.dropout(weights, self.dropout, self.training) stands once",
    ),
    Slip(
        {VALUE: "F.linear(value, w_v)", MERGE: f"{MERGE} + b_v"},
        "add the bias of the values behind the weights",
        "Rows that dropout has changed do not sum to 1, and the bias is weighted with them:"
        " F.linear(value, w_v, b_v)",
    ),
    Slip(
        {SCALE: "scores / int(self.head_dim**0.5)"},
        "divide by √head_dim cut to a whole number, as math.isqrt does",
        "The root of most numbers is no whole one: head_dim**0.5",
    ),
    *(
        Slip(
            {MEAN: f"{made} if average_attn_weights else weights"},
            f"give the weights of {what} in place of the mean",
            "It is the mean over the heads that is asked for, weights.mean(dim=1)",
        )
        for made, what in (
            ("weights[:, 0]", "head 0"),
            ("weights[:, -1]", "the last head"),
            ("weights.amax(dim=1)", "the head that has most in each place"),
        )
    ),
    Slip(
        {SCALE: "scores / self.num_heads**0.5"},
        "divide by √num_heads instead of √head_dim",
        "A score is a sum of head_dim products, since each head has head_dim numbers of a token",
    ),
    *(
        Slip(
            {MEAN: f"weights.mean(dim={dim}) if average_attn_weights else weights"},
            f"take the mean of the weights over the {what}, axis {dim}",
            "It is the mean over the heads that is asked for, axis 1",
        )
        for dim, what in ((0, "pictures"), (2, "queries"), (3, "keys"))
    ),
    Slip(
        {
            MEAN: (
                "weights.flatten(0, 1).mean(dim=1) if average_attn_weights else"
                " weights.flatten(0, 1)"
            )
        },
        "leave pictures and heads of the weights in one axis, also where the mean is taken",
        "Give them two axes again, (n, num_heads, seq_length, seq_length), and take the mean over"
        " axis 1",
    ),
    Slip(
        {GATHER: "x = scores @ v"},
        "gather the values with the scores",
        "What they are gathered with are the weights",
    ),
    Slip(
        {"if not need_weights": "if need_weights"},
        "return weights where need_weights is False, and None where it is True",
        "It is the other way round",
    ),
)

EXERCISE = Exercise(
    answer=MyMultiHeadAttention,
    compare=compare,
    stars=3,
    slips=SLIPS,
    more=more,
    tell=tell,
    hints=(
        (
            "Four steps: a linear map each makes q, k and v; split each into heads; notebook 02's"
            " attention in every head at once; bring the heads back side by side and project."
        ),
        (
            "`self.in_proj_weight.chunk(3)` gives W_Q, W_K and W_V, and F.linear(query, w_q, b_q)"
            " multiplies and adds. After my_split_heads each is (n, num_heads, seq_length,"
            " head_dim), and `@` works on the last two dimensions for every head. Divide the scores"
            " by head_dim**0.5. Bringing the heads back is splitting backwards."
        ),
    ),
    same=(
        {SCORES: "scores = (q / self.head_dim**0.5) @ k.transpose(-2, -1)", SCALE: "scores"},
        {SCORES: "scores = q @ (k / self.head_dim**0.5).transpose(-2, -1)", SCALE: "scores"},
        {SCORES: 'scores = torch.einsum("nhqd,nhkd->nhqk", q, k)'},
        {
            QUERY: "F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)[0]",
            KEY: "F.linear(key, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)[1]",
            VALUE: "F.linear(value, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)[2]",
        },
        {QUERY: "query @ w_q.T + b_q", KEY: "key @ w_k.T + b_k", VALUE: "value @ w_v.T + b_v"},
        {PROJECT: "output = F.linear(x, self.out_proj.weight) + self.out_proj.bias"},
    ),
    tolerance=1e-5,
)
