"""Exercise: write the numbers of a layer of two heads by hand, so that each token gets its left
minus its upper one."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mnist_vit.model import MultiHeadAttention

from ..checking import Evidence, Exercise, Mistake, Slip, random, randomise


def my_left_minus_above(layer: nn.Module, grid: int) -> None:
    """Fill the layer in place: each token gets its left neighbour minus the upper one.

    A token is its content, grid**2 numbers, then its place, one-hot, grid**2 numbers.
    Places are counted row by row. The layer has 2 heads, so head_dim is grid**2, too.
    In the output the first half is the difference of the contents, the rest is zero.
    At the edges, where a token has no such neighbour, it takes itself instead.
    """
    places = grid * grid
    place = torch.arange(places)
    left = torch.where(place % grid > 0, place - 1, place)
    above = torch.where(place >= grid, place - grid, place)
    one = torch.eye(places)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        w_q, w_k, w_v = layer.in_proj_weight.chunk(
            3
        )  # views: what is written here is written there
        for head, (wanted, sign) in enumerate([(left, 1), (above, -1)]):
            rows = slice(head * places, (head + 1) * places)
            w_k[rows, places:] = one  # "I stand here"
            w_q[rows, places:] = (
                1000 * F.one_hot(wanted, places).T.float()
            )  # "I look for whoever stands there"
            w_v[rows, :places] = one  # the content, as it is
            layer.out_proj.weight[:places, rows] = sign * one


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for grid in (3, 4, 7):
        layer = randomise(MultiHeadAttention(2 * grid**2, 2), seed=3)
        returned = answer(layer, grid)
        if isinstance(returned, nn.Module) and returned is not layer:
            raise Mistake(
                "a new layer came back, and the one that was given is to be filled.",
                "Fill it in place; nothing is returned.",
            )
        places = grid * grid
        content = random(2, places, places, seed=grid)
        x = torch.cat([content, torch.eye(places).expand(2, -1, -1)], dim=-1)
        output = layer(x, x, x)[0].detach()
        of = f" in a grid of {grid} × {grid}"
        yield f"content of the output{of}", output[..., :places]
        yield f"place in the output{of}", output[..., places:]


def tell(evidence: Evidence) -> tuple[str, str]:
    """Of whose contents a token's output is made, where it is made of few."""
    if not evidence.is_finite:
        return "", ""
    if evidence.what.startswith("place"):
        return (
            f"The second half of the output holds numbers up to {evidence.value.abs().max():.2g},"
            " and must be zero.",
            "It is made by the lower half of the rows of out_proj.weight, and its bias.",
        )
    places = evidence.value.shape[1]
    if blurred := _blurred(evidence, places):
        return blurred
    if biases := _old_biases(evidence, places):
        return biases
    if spread := _spread(evidence, places):
        return spread
    content = random(2, places, places, seed=math.isqrt(places)).double()
    far = (evidence.value - evidence.expected).abs().amax(dim=(0, 2)) > 0.01
    token = int(far.nonzero()[0, 0])
    known = content.transpose(1, 2).flatten(0, 1)
    got = evidence.value[:, token].double().flatten()
    shares = torch.linalg.lstsq(known, got[:, None]).solution[:, 0]
    if (known @ shares - got).abs().max() > 0.01:
        return (
            f"The content that token {token} gets is no sum of contents in shares that are the same"
            " for every picture.",
            "Do the scores hang on places alone, do the values hold contents alone, and are all old"
            " numbers gone, those of the biases, too?",
        )
    asked = _asked(token, math.isqrt(places))
    parts = [f"{share:+.3g} times token {i}" for i, share in enumerate(shares) if abs(share) > 0.01]
    if len(parts) > MOST:
        return f"Token {token} gets a mixture of the contents of {len(parts)} tokens.", asked
    made = ", ".join(parts) or "nothing"
    return f"The content that token {token} gets is {made}.", asked


def _asked(token: int, grid: int) -> str:
    """Which tokens this one must get; at the edges itself."""
    left = f"token {token - 1}, its left one" if token % grid else f"token {token} itself"
    above = f"token {token - grid}, its upper one" if token >= grid else f"token {token} itself"
    asked = f"Asked is {left}, minus {above}"
    lacking = []
    if token % grid == 0:
        lacking.append("to its left")
    if token < grid:
        lacking.append("above it")
    return f"{asked}, since none is {' or '.join(lacking)}." if lacking else f"{asked}."


def _blurred(evidence: Evidence, places: int) -> tuple[str, str] | None:
    """Where both heads look most at the right tokens, and not nearly at them alone."""
    grid = math.isqrt(places)
    (layer,) = [call.given[0] for call in evidence.theirs if call.given[1:] == [grid]]
    x = torch.cat([random(2, places, places, seed=grid), torch.eye(places).expand(2, -1, -1)], -1)
    with torch.no_grad():
        weights = layer(x, x, x, average_attn_weights=False)[1]
    place = torch.arange(places)
    left = torch.where(place % grid > 0, place - 1, place)
    above = torch.where(place >= grid, place - grid, place)
    sharper = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in (sharper.in_proj_weight, sharper.in_proj_bias):
            parameter[: 2 * places] *= 1000  # the queries
        content = sharper(x, x, x)[0][..., :places]
    if (content - evidence.expected).abs().max() > 0.001:
        return None  # something else is wrong, too
    for wanted in (torch.stack([left, above]), torch.stack([above, left])):
        given = weights.gather(-1, wanted[None, :, :, None].expand(2, -1, -1, -1))
        if (weights.argmax(dim=-1) == wanted).all():
            return (
                "Each head looks most at the tokens that it should look at, but gives them as"
                f" little as {given.min():.4g} of its weight: the softmax is not sharp enough.",
                "Make the queries or the keys larger, until each wanted score, divided by"
                " √head_dim, is 20 or more above the others.",
            )
    return None


def _layer_and_tokens(evidence: Evidence, places: int) -> tuple[nn.Module, torch.Tensor]:
    """A copy of the learner's layer of this size, and the tokens that it was given."""
    grid = math.isqrt(places)
    (layer,) = [call.given[0] for call in evidence.theirs if call.given[1:] == [grid]]
    content = random(2, places, places, seed=grid)
    return copy.deepcopy(layer), torch.cat([content, torch.eye(places).expand(2, -1, -1)], -1)


@torch.no_grad()
def _old_biases(evidence: Evidence, places: int) -> tuple[str, str] | None:
    """Where the layer is right as soon as its biases are zero."""
    layer, x = _layer_and_tokens(evidence, places)
    layer.in_proj_bias.zero_()
    layer.out_proj.bias.zero_()
    content = layer(x, x, x)[0][..., :places]
    if (content - evidence.expected).abs().max() > 0.001:
        return None
    return "With biases of zero your layer gives the right content.", "Set all biases to zero."


@torch.no_grad()
def _spread(evidence: Evidence, places: int) -> tuple[str, str] | None:
    """Which head looks elsewhere in another picture, or gives no token most of its weight."""
    layer, x = _layer_and_tokens(evidence, places)
    given = layer(x, x, x, average_attn_weights=False)[1]
    for head, (one, other) in enumerate(given.transpose(0, 1)):
        if (one - other).abs().max() > 0.01:
            return (
                f"Head {head} of your layer looks elsewhere in another picture, though the places"
                " are the same.",
                "The scores should hang on places alone: in W_Q and W_K the columns of the content"
                " must be zero. in_proj_weight holds W_Q of all heads, then W_K, then W_V.",
            )
    for head, weights in enumerate(given.amax(dim=(0, 3))):
        token = int(weights.argmin())
        if weights[token] < 0.5:
            return (
                f"As token {token}, head {head} of your layer gives no token more than"
                f" {weights[token]:.2g} of its weight.",
                "One head should give nearly all its weight to the left neighbour, the other to the"
                " upper one: the score of that place must be far above all others. Has each head"
                " queries and keys in its own rows, and are both made of the place?",
            )
    return None


MOST = 4  # tokens whose shares are told

LEFT, ABOVE = (
    "torch.where(place % grid > 0, place - 1, place)",
    "torch.where(place >= grid, place - grid, place)",
)
CLEAR = "parameter.zero_()"
KEYS, VALUES = "w_k[rows, places:] = one", "w_v[rows, :places] = one"
QUERIES = "1000 * F.one_hot(wanted, places).T.float()"
OUT, HEADS = "layer.out_proj.weight[:places, rows] = sign * one", "[(left, 1), (above, -1)]"

SLIPS = (
    Slip(
        {HEADS: "[(left, -1), (above, 1)]"},
        "give the upper one minus the left one",
        "The left one counts positive",
    ),
    Slip(
        {HEADS: "[(left, 1), (above, 1)]"},
        "add the two",
        "The upper one must count negative, in the values of its head or in the columns of out_proj"
        " that belong to its head, and not in both: two minuses make a plus. (An attention weight"
        " cannot be negative)",
    ),
    Slip(
        {HEADS: "[(left, 0.5), (above, -0.5)]"},
        "give half of the difference",
        "The left one counts whole, and so does the upper one",
    ),
    Slip(
        {
            LEFT: "torch.where(place % grid < grid - 1, place + 1, place)",
            ABOVE: "torch.where(place < places - grid, place + grid, place)",
        },
        "look right and down",
        "The place to the left is one less, the place above is `grid` less",
    ),
    Slip(
        {LEFT: "torch.where(place % grid < grid - 1, place + 1, place)"},
        "look right in place of left",
        "The place to the left is one less",
    ),
    Slip(
        {ABOVE: "torch.where(place < places - grid, place + grid, place)"},
        "look down in place of up",
        "The place above is `grid` less",
    ),
    Slip(
        {OUT: "layer.out_proj.weight[places:, rows] = sign * one"},
        "write the difference into the second half of the output",
        "The first rows of out_proj.weight make the content, and the last ones the place",
    ),
    Slip(
        {QUERIES: "1000 * F.one_hot(wanted, places).float()"},
        "fill W_Q the wrong way round, or exchange W_Q and W_K",
        (
            "A linear layer computes x Wᵀ: the column of W_Q that belongs to a place holds what a"
            " token in that place looks for, and the column of W_K where it stands"
        ),
    ),
    Slip(
        {LEFT: "(place - 1) % places", ABOVE: "(place - grid) % places"},
        "take place - 1 and place - grid at the edges, too, and count from the end below 0",
        "A token at the edge takes itself",
    ),
    Slip(
        {LEFT: "(place - 1).clamp(min=0)"},
        "let the first token of a row look at the last one of the row above",
        "At the left edge a token takes itself",
    ),
    Slip(
        {QUERIES: "F.one_hot(wanted, places).T.float()"},
        "leave the scores small",
        "With a difference of 1 / √head_dim between scores, softmax spreads the weights over all"
        " tokens. Make the queries large",
    ),
    Slip(
        {
            QUERIES: "sign * 1000 * F.one_hot(wanted, places).T.float()",
            OUT: OUT.replace("sign * ", ""),
        },
        "put the minus into the queries of a head",
        "A score far below the others makes a head look everywhere else. The minus belongs to what"
        " the head gives: into its values or its columns of out_proj",
    ),
    Slip(
        {OUT: f"{OUT}\n        layer.out_proj.weight[places:, places:] = one"},
        "write numbers into the lower half of out_proj.weight, too",
        "It makes the place in the output, which must be zero",
    ),
    Slip(
        {VALUES: "w_v[rows, places:] = one"},
        "hand over the place of a token in place of its content",
        "The values are to hold the content: W_V picks it out of the token",
    ),
    Slip(
        {CLEAR: "pass"},
        "leave the old numbers wherever you write none",
        "The layer is given to you full of random ones, so set all parameters to zero first",
    ),
    Slip(
        {CLEAR: "parameter.zero_() if parameter.dim() > 1 else None"},
        "leave the old biases",
        "The layer is given to you full of random numbers, in its biases, too",
    ),
    Slip(
        {CLEAR: "parameter.zero_() if parameter is not layer.in_proj_bias else None"},
        "leave the old in_proj_bias",
        "The layer is given to you full of random numbers, so set all of them to zero first",
    ),
    Slip(
        {CLEAR: "parameter.zero_() if parameter is not layer.out_proj.bias else None"},
        "leave the old bias of out_proj",
        "The layer is given to you full of random numbers, in its biases, too",
    ),
    Slip(
        {CLEAR: "parameter.zero_() if parameter is not layer.out_proj.weight else None"},
        "leave random numbers in out_proj.weight",
        "Its lower half makes the place, which must be zero in the output",
    ),
    Slip(
        {QUERIES: "1000 * F.one_hot(wanted, places).T.float() * (wanted != place)"},
        "let tokens at the edge look for nobody, so that they look at all alike",
        "Where there is no such neighbour, a token takes itself",
    ),
    Slip(
        {"places = grid * grid": "places = 9"},
        "write the number of places of one grid as a number",
        "Grids of other sizes come, too: take grid * grid",
    ),
    Slip(
        {OUT: "layer.out_proj.weight[rows, :places] = sign * one"},
        "write out_proj.weight the wrong way round",
        "Its rows make the output, and its columns take what the heads give",
    ),
)

EXERCISE = Exercise(
    answer=my_left_minus_above,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    many=True,
    hints=(
        (
            "Begin with one head that copies the left one. Its score must be large for one key and"
            " small for all others, whatever the contents are. So which half of a token makes"
            " queries and keys, and which half values?"
        ),
        (
            "Keys: the one-hot place itself. Query of a token in place i: a large number times the"
            " one-hot of place i - 1; so column i of W_Q (its place half) is that one-hot. Values:"
            " the content. The second head does the same with i - grid. Signs belong into"
            " out_proj.weight, whose first rows make the content of the output."
        ),
    ),
    same=(
        {
            QUERIES: "10 * F.one_hot(wanted, places).T.float()",
            KEYS: "w_k[rows, places:] = 100 * one",
        },
        {HEADS: "[(above, -1), (left, 1)]"},
        {
            HEADS: "[(left, 1), (above, 1)]",
            VALUES: "w_v[rows, :places] = sign * (1 - 2 * head) * one",
            OUT: "layer.out_proj.weight[:places, rows] = one",
        },
    ),
    tolerance=1e-4,
)
