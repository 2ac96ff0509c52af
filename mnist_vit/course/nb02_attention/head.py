"""Exercise: one attention head: three linear layers, then attention."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401 (an edit uses it)
from torch import Tensor, nn

from ..checking import Exercise, Slip, copy_weights, gradients, make, random, randomise
from .attention import my_attention, pair


class MyHead(nn.Module):
    """(n, seq_length, hidden_dim) -> output, weights.

    The output is (n, seq_length, head_dim), the weights are (n, seq_length, seq_length).
    """

    def __init__(self, hidden_dim: int, head_dim: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(hidden_dim, head_dim)
        self.w_k = nn.Linear(hidden_dim, head_dim)
        self.w_v = nn.Linear(hidden_dim, head_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = self.w_q(x)
        k = self.w_k(x)
        v = self.w_v(x)
        return my_attention(q, k, v)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    hidden_dim, head_dim = 6, 5  # not 4, whose root is its half
    reference = randomise(MyHead(hidden_dim, head_dim), seed=22)
    with torch.no_grad():  # scores far enough apart that a wrong scale shows in every row
        for name in ("w_q", "w_k"):
            reference.get_parameter(f"{name}.weight").mul_(2)
    module = make(answer, hidden_dim, head_dim)
    copy_weights(reference, module)
    # as many pictures and tokens as numbers in a head first: a wrong axis has the right shape; then
    # all differ
    for n, tokens in ((5, 5), (2, 4)):
        x = random(n, tokens, hidden_dim, seed=20 + n).requires_grad_()
        output, weights = pair(module, x)
        yield f"output for {n} pictures of {tokens} tokens", output
        yield f"matrix of weights for {n} pictures of {tokens} tokens", weights
    # In the solution's order: the learner's may be created in another.
    parameters = dict(module.named_parameters())
    yield from gradients(
        output, x=x, **{name: parameters[name] for name, _ in reference.named_parameters()}
    )
    # What cannot be added to x above can be where the sizes are equal, as in the notebook's models.
    square = randomise(MyHead(hidden_dim, hidden_dim), seed=23)
    module = square  # of an object, which has the sizes that it was made with
    if not isinstance(answer, nn.Module):
        module = make(answer, hidden_dim, hidden_dim)
        copy_weights(square, module)
    output, _ = pair(module, random(2, 4, hidden_dim, seed=24))
    yield f"output for hidden_dim {hidden_dim} and head_dim {hidden_dim}", output


Q, K, V, END = (
    "q = self.w_q(x)",
    "k = self.w_k(x)",
    "v = self.w_v(x)",
    "return my_attention(q, k, v)",
)


def written_out(
    root: str = "q.shape[-1] ** 0.5", softmax: str = ".softmax(dim=-1)", gather: str = "weights @ v"
) -> str:
    """The last line for who writes the steps again instead of calling the function."""
    return (
        f"weights = (q @ k.transpose(-2, -1) / {root}){softmax}\n        return {gather}, weights"
    )


SLIPS = (
    Slip(
        {Q: f"x = F.layer_norm(x, x.shape[-1:])\n        {Q}"},
        "normalise the tokens before the linear layers",
        "The layers take the tokens as they come: self.w_q(x). Normalising is done outside",
    ),
    Slip(
        {END: written_out(root="x.shape[-1] ** 0.5")},
        "divide by √hidden_dim, the root of how many numbers a token has",
        "d is how many numbers a query has, head_dim: q.shape[-1]",
    ),
    Slip(
        {END: written_out(root="q.shape[-1]")},
        "divide by head_dim and not by its root",
        (
            "The rows come out too flat: divide by √head_dim, math.sqrt(q.shape[-1]), once, in"
            " my_attention or here"
        ),
    ),
    Slip(
        {END: written_out(root="(2 * q.shape[-1])")},
        "divide by 2 head_dim, as / head_dim ** 1 / 2 does",
        "** comes first, then one division after the other: the root is head_dim ** 0.5",
    ),
    Slip(
        {END: written_out(root="(q.shape[-1] / 2)")},
        "divide by head_dim / 2, which is what head_dim ** 1 / 2 gives",
        "** comes before /: the root is head_dim ** 0.5",
    ),
    Slip(
        {END: written_out(root="1")},
        "leave out the division by √head_dim",
        (
            "The rows come out too sharp: divide the scores by math.sqrt(q.shape[-1]), once, in"
            " my_attention or here"
        ),
    ),
    Slip(
        {K: "k = self.w_q(x)", V: "v = self.w_q(x)"},
        "use w_q three times",
        "Queries, keys and values have a linear layer each: self.w_q(x), self.w_k(x), self.w_v(x)",
    ),
    Slip(
        {K: "k = self.w_q(x)"},
        "make the keys with w_q",
        "Queries and keys have a linear layer each: k = self.w_k(x)",
    ),
    Slip(
        {Q: "q = self.w_k(x)"},
        "make the queries with w_k",
        "Queries and keys have a linear layer each: q = self.w_q(x)",
    ),
    Slip(
        {Q: "q = self.w_k(x)", K: "k = self.w_q(x)"},
        "take queries for keys and keys for queries",
        "q = self.w_q(x), k = self.w_k(x), and the scores are q kᵀ",
    ),
    Slip(
        {K: "k = self.w_v(x)", V: "v = self.w_k(x)"},
        "take keys for values and values for keys",
        "k = self.w_k(x), v = self.w_v(x); the order is my_attention(q, k, v)",
    ),
    Slip(
        {V: "v = self.w_k(x)"},
        "gather the keys",
        "What is gathered are the values: v = self.w_v(x)",
    ),
    Slip(
        {V: "v = self.w_q(x)"},
        "gather the queries",
        "What is gathered are the values: v = self.w_v(x)",
    ),
    Slip(
        {V: "v = x"},
        "gather the tokens themselves",
        "The values are made from them by a linear layer: v = self.w_v(x)",
    ),
    Slip(
        {Q: "q = x", K: "k = x"},
        "compare the tokens themselves",
        "Queries and keys are made from them by linear layers: self.w_q(x), self.w_k(x)",
    ),
    Slip(
        {
            Q: "q = x @ self.w_q.weight.T",
            K: "k = x @ self.w_k.weight.T",
            V: "v = x @ self.w_v.weight.T",
        },
        "leave out the biases",
        "Call the linear layer, as in self.w_q(x): it multiplies and adds its bias",
    ),
    Slip(
        {END: written_out(softmax=".softmax(dim=-2)")},
        "take the softmax over the queries, so that columns sum to 1",
        "Rows must: softmax(dim=-1)",
    ),
    Slip(
        {END: written_out(softmax=".softmax(dim=0)")},
        "take the softmax over the batch",
        "Each query shares out its attention over the keys: softmax(dim=-1)",
    ),
    Slip(
        {END: written_out(softmax="")},
        "leave out the softmax",
        (
            "Scores are no weights until each row sums to 1: take softmax(dim=-1) of them, once,"
            " in my_attention or here"
        ),
    ),
    Slip(
        {END: written_out(gather="weights.transpose(-2, -1) @ v")},
        "multiply the transposed weights by v",
        "Row i of the weights is what query i takes: weights @ v",
    ),
    Slip(
        {END: "return my_attention(q, k, v)[::-1]"},
        "return the weights first",
        "The output comes first: return output, weights",
    ),
    Slip(
        {END: "return my_attention(x, x, x)"},
        "hand the tokens on as they are",
        "my_attention takes queries, keys and values: my_attention(q, k, v)",
    ),
    Slip(
        {END: "output, weights = my_attention(q, k, v)\n        return output + v, weights"},
        "add each token's own value to what it gathers",
        "A head returns only what was gathered. That is added to something outside of it",
    ),
    Slip(
        {
            END: (
                "output, weights = my_attention(q, k, v)\n"
                "        return (output + x if output.shape == x.shape else output), weights"
            )
        },
        "add the tokens to what is gathered where hidden_dim and head_dim are equal",
        "A head returns only what was gathered, whatever its sizes are",
    ),
    Slip(
        {
            V: "",
            END: (
                "gathered, weights = my_attention(q, k, x)\n"
                "        return self.w_v(x + gathered), weights"
            ),
        },
        "add each token to what it gathers, before w_v",
        "A head returns only weights @ v, v = self.w_v(x); leave out the sum with x",
    ),
    Slip(
        {END: "return my_attention(self.w_q, self.w_k, self.w_v)"},
        "hand over the layers themselves",
        "Call each of them with the tokens: self.w_q(x), self.w_k(x), self.w_v(x)",
    ),
    Slip(
        {END: "return my_attention(q, k)"},
        "hand my_attention queries and keys alone",
        "It gathers the values, and needs them, too: my_attention(q, k, v)",
    ),
    *(
        Slip(
            {end: f"{end}.detach()" for end in ends},
            f"let no gradient through {whose}",
            "Leave out no_grad(), .data and detach(): all three layers are to learn",
        )
        for ends, whose in (
            ((Q,), "the queries"),
            ((K,), "the keys"),
            ((V,), "the values"),
            ((Q, K), "queries and keys"),
        )
    ),
    *(
        Slip(
            {Q: f"q = {q}", K: f"k = {k}", V: f"v = {v}"},
            f"send {whose} through {name}",
            "Nothing stands between the linear layers and my_attention",
        )
        for function, name in (("F.gelu", "GELU"), ("F.relu", "ReLU"))
        for q, k, v, whose in (
            ("self.w_q(x)", "self.w_k(x)", f"{function}(self.w_v(x))", "the values"),
            (
                f"{function}(self.w_q(x))",
                f"{function}(self.w_k(x))",
                "self.w_v(x)",
                "queries and keys",
            ),
            (
                f"{function}(self.w_q(x))",
                f"{function}(self.w_k(x))",
                f"{function}(self.w_v(x))",
                "queries, keys and values",
            ),
        )
    ),
    *(
        Slip(
            {END: f"return my_attention({order})"},
            f"hand over the {whose} transposed",
            "my_attention transposes the keys itself: my_attention(q, k, v)",
        )
        for order, whose in (
            ("q, k.transpose(-2, -1), v", "keys"),
            ("q.transpose(-2, -1), k, v", "queries"),
        )
    ),
    Slip(
        {END: "return my_attention(k, v, q)"},
        "hand them on in the order k, v, q",
        "It is my_attention(q, k, v)",
    ),
    *(
        Slip(
            {END: f"return my_attention({order})"},
            f"hand them on in the order {order}",
            "It is my_attention(q, k, v)",
        )
        for order in ("v, k, q", "v, q, k")
    ),
)

EXERCISE = Exercise(
    answer=MyHead,
    compare=compare,
    stars=1,
    slips=SLIPS,
    hints=(
        (
            "Three linear layers turn the same tokens x into queries, keys and values. What follows"
            " is the attention you know, with d = head_dim."
        ),
        (
            "q, k, v = self.w_q(x), self.w_k(x), self.w_v(x). They are (n, seq_length, head_dim),"
            " just what my_attention takes. Return its output and its weights."
        ),
    ),
    same=(
        {END: written_out()},
        {
            V: "",  # rows of weights sum to 1, so the bias comes through as it is
            END: written_out(gather="self.w_v(weights @ x)"),
        },
    ),
)
