"""Notebook 03's checks: right answers in other styles pass, and mistakes that no slip knows fail;
the layer at work."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import judged, randomise
from torch import Tensor, nn

from mnist_vit import attention_weights, load_model, vit_mnist
from mnist_vit.attention import head_contributions
from mnist_vit.course.ladder.growing import RandomOrderAttention
from mnist_vit.course.ladder.rows import interval, stored
from mnist_vit.course.nb03_multi_head_attention import figures
from mnist_vit.course.nb03_multi_head_attention.left_minus_above import my_left_minus_above
from mnist_vit.course.nb03_multi_head_attention.masked_attention import MyMaskedAttention
from mnist_vit.course.nb03_multi_head_attention.multi_head_attention import MyMultiHeadAttention
from mnist_vit.course.nb03_multi_head_attention.split_heads import my_split_heads
from mnist_vit.course.nb03_multi_head_attention.swap_heads import my_swap_heads


class SumOfHeads(MyMultiHeadAttention):
    """No merge at all: each head through its own columns of the projection; keys scaled in place of
    queries."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        w_v, w_k, w_q = reversed(self.in_proj_weight.chunk(3))
        b_q, b_k, b_v = self.in_proj_bias.split(self.embed_dim)
        total, kept = self.out_proj.bias, []
        for q, k, v, columns in zip(
            F.linear(query, w_q, b_q).split(self.head_dim, -1),
            F.linear(key, w_k, b_k).split(self.head_dim, -1),
            F.linear(value, w_v, b_v).split(self.head_dim, -1),
            self.out_proj.weight.split(self.head_dim, 1),
            strict=True,
        ):
            scores = q @ (k / self.head_dim**0.5).transpose(1, 2)
            kept.append(
                F.dropout(
                    scores.exp() / scores.exp().sum(-1, keepdim=True), self.dropout, self.training
                )
            )
            total = total + F.linear(kept[-1] @ v, columns)
        weights = torch.stack(kept, dim=1)
        if not need_weights:
            return total, None
        return total, weights.mean(dim=1) if average_attn_weights else weights


class ByEinsum(MyMultiHeadAttention):
    """Einsum throughout, and options that are taken as they come."""

    def forward(self, query, key, value, **options):
        w, b = (
            self.in_proj_weight.unflatten(0, (3, self.num_heads, -1)),
            self.in_proj_bias.unflatten(0, (3, -1, 1)),
        )
        b = b.reshape(3, self.num_heads, 1, self.head_dim)
        q, k, v = (
            torch.einsum("nsc,hdc->nhsd", x, w_) + b_
            for x, w_, b_ in zip((query, key, value), w, b, strict=True)
        )
        weights = (torch.einsum("nhqd,nhkd->nhqk", q, k) * self.head_dim**-0.5).softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        output = self.out_proj(torch.einsum("nhqk,nhkd->nqhd", weights, v).flatten(2))
        if not options.get("need_weights", True):
            return output, None
        return output, weights.mean(1) if options.get("average_attn_weights", True) else weights


def torchs(embed_dim: int, num_heads: int, dropout: float = 0.0) -> nn.Module:
    """A function that makes the module."""
    return nn.MultiheadAttention(embed_dim, num_heads, dropout, batch_first=True)


def split_by_list(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def contribution_by_einsum(a: Tensor, v: Tensor, linear: nn.Linear, h: int) -> Tensor:
    blocks = linear.weight.unflatten(1, (v.shape[1], -1))
    return torch.einsum("nqk,nkd,cd->nqc", a[:, h], v[:, h], blocks[:, h])


def swapped_by_new_parameters(layer: nn.Module, order: list[int]) -> nn.Module:
    """Nothing is filled in place: the layer gets other parameters, and is given back."""
    heads = layer.num_heads
    parts = (layer.in_proj_weight, layer.in_proj_bias)
    weight, bias = (
        part.detach().unflatten(0, (3, heads, -1))[:, order].flatten(0, 2) for part in parts
    )
    layer.in_proj_weight, layer.in_proj_bias = nn.Parameter(weight), nn.Parameter(bias)
    columns = layer.out_proj.weight.detach().unflatten(1, (heads, -1))[:, order].flatten(1)
    layer.out_proj.weight = nn.Parameter(columns)
    return layer


def sharp_for_small_grids(layer: nn.Module, grid: int) -> None:
    """Scores of 50 before the division by √head_dim, which is the grid."""
    my_left_minus_above(layer, grid)
    places = grid * grid
    with torch.no_grad():
        queries = layer.in_proj_weight[: 2 * places]
        queries.mul_(50 / queries.abs().max())
        keys = layer.in_proj_weight[2 * places : 4 * places]
        keys.div_(keys.abs().max())


def by_biases(layer: nn.Module, grid: int) -> None:
    """The other head first, and scores from a distance: keys and queries hold the place another
    way."""
    my_left_minus_above(layer, grid)
    my_swap_heads(layer, [1, 0])
    with torch.no_grad():
        layer.in_proj_bias[: layer.embed_dim] += (
            3  # every query likes every key a little more: softmax does not care
        )


def not_sharp(factor: float) -> Callable[[nn.Module, int], None]:
    """With queries that are too small."""

    def fill(layer: nn.Module, grid: int) -> None:
        my_left_minus_above(layer, grid)
        with torch.no_grad():
            layer.in_proj_weight[: layer.embed_dim] *= factor

    return fill


def twice(layer: nn.Module, grid: int) -> None:
    my_left_minus_above(layer, grid)
    with torch.no_grad():
        layer.out_proj.weight *= 2


def left_twice(layer: nn.Module, grid: int) -> None:
    """Both heads look left."""
    my_left_minus_above(layer, grid)
    with torch.no_grad():
        layer.in_proj_weight[grid**2 : 2 * grid**2] = layer.in_proj_weight[: grid**2]


class OneBigHead(MyMultiHeadAttention):
    """No split at all, the divisor as the stub's attribute has it."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        w, b = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w_, b_) for x, w_, b_ in zip((query, key, value), w, b, strict=True))
        weights = F.dropout(
            (q @ k.mT / self.head_dim**0.5).softmax(-1), self.dropout, self.training
        )
        each = weights if average_attn_weights else weights[:, None]
        return self.out_proj(weights @ v), each if need_weights else None


class OutputAlone(MyMultiHeadAttention):
    def forward(self, query, key, value, **options):
        return super().forward(query, key, value, **options)[0]


class OutputAloneIfAsked(MyMultiHeadAttention):
    def forward(self, query, key, value, need_weights=True, **options):
        output, weights = super().forward(query, key, value, need_weights, **options)
        return (output, weights) if need_weights else output


class MaskedAloneIfAsked(MyMaskedAttention):
    def forward(self, query, key, value, need_weights=True, **options):
        output, weights = super().forward(query, key, value, need_weights, **options)
        return (output, weights) if need_weights else output


def divided(kind: type[nn.Module], factor: float) -> type[nn.Module]:
    """A layer whose scores are divided by head_dim times a factor."""

    class Divided(kind):
        def forward(self, query, *inputs, **options):
            kept = self.in_proj_weight, self.in_proj_bias
            scale = torch.ones(3 * self.embed_dim)
            scale[: self.embed_dim] = 1 / (self.head_dim**0.5 * factor)
            for name, parameter in zip(("in_proj_weight", "in_proj_bias"), kept, strict=True):
                del self._parameters[name]
                setattr(self, name, parameter * scale.view(-1, *[1] * (parameter.dim() - 1)))
            output = super().forward(query, *inputs, **options)
            for name, parameter in zip(("in_proj_weight", "in_proj_bias"), kept, strict=True):
                delattr(self, name)
                self.register_parameter(name, parameter)
            return output

    return Divided


class NoOptions(MyMultiHeadAttention):
    def forward(self, query, key, value):
        return super().forward(query, key, value)


class MaskAdded(MyMaskedAttention):
    """The mask is added, but for rows that would be empty; their weights are taken away after."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True, mask=None):
        w, b = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = [F.linear(x, w_, b_) for x, w_, b_ in zip((query, key, value), w, b, strict=True)]
        q, k, v = (my_split_heads(part, self.num_heads) for part in parts)
        scores = q @ k.mT / self.head_dim**0.5
        sees = torch.ones(scores.shape[-2:]).bool() if mask is None else mask
        blind = ~sees.any(dim=-1, keepdim=True)
        weights = (scores + (sees | blind).float().log()).softmax(dim=-1) * ~blind
        weights = F.dropout(weights, self.dropout, self.training)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        if not need_weights:
            return output, None
        return output, weights.mean(1) if average_attn_weights else weights


class AsManyKeys(MyMaskedAttention):
    """Right as long as there are as many queries as keys."""

    def forward(self, query, key, value, **options):
        output, weights = super().forward(query, key, value, **options)
        return output, weights if weights is None else weights.view(
            *weights.shape[:-1], len(query[0])
        )


class Renormalised(MyMaskedAttention):
    """No score is -inf: weights are taken away after the softmax, and the others divided anew."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True, mask=None):
        w, b = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = [F.linear(x, w_, b_) for x, w_, b_ in zip((query, key, value), w, b, strict=True)]
        q, k, v = (my_split_heads(part, self.num_heads) for part in parts)
        weights = (q @ k.mT / self.head_dim**0.5).softmax(dim=-1)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(dim=-1, keepdim=True)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        if not need_weights:
            return output, None
        return output, weights.mean(1) if average_attn_weights else weights


class AlwaysCausal(MyMaskedAttention):
    """A mask of its own, whatever mask is given."""

    def forward(self, *inputs, mask=None, **options):
        own = None if mask is None else torch.ones_like(mask).tril()
        return super().forward(*inputs, mask=own, **options)


class MaskedAfterDropout(MyMaskedAttention):
    """What dropout left is divided by its sum."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True, mask=None):
        w, b = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = [F.linear(x, w_, b_) for x, w_, b_ in zip((query, key, value), w, b, strict=True)]
        q, k, v = (my_split_heads(part, self.num_heads) for part in parts)
        scores = q @ k.mT / self.head_dim**0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e30)
        weights = F.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        if mask is not None:
            weights = weights * mask
            total = weights.sum(dim=-1, keepdim=True)
            weights = weights / total.masked_fill(total == 0, 1)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average_attn_weights else weights


class BiasForgotten(MyMaskedAttention):
    """The output of a query that may look nowhere is zero; it should be the bias."""

    def forward(self, query, key, value, *options, mask=None, **more):
        output, weights = super().forward(query, key, value, *options, mask=mask, **more)
        if mask is not None:
            output = output * mask.any(dim=1)[:, None]
        return output, weights


class OpensTheMask(MyMaskedAttention):
    """Lets a query that may look nowhere look everywhere, in the mask that was given."""

    def forward(self, query, key, value, *options, mask=None, **more):
        kept = None if mask is None else mask.clone()
        output = super().forward(query, key, value, *options, mask=kept, **more)
        if mask is not None:
            mask[~mask.any(dim=-1)] = True
        return output


class Blurred(MyMaskedAttention):
    """The rows of the weights do not sum to 1 with a mask."""

    def forward(self, query, key, value, *options, mask=None, **more):
        output, weights = super().forward(query, key, value, *options, mask=mask, **more)
        if mask is None:
            return output, weights
        return 0.9 * output, None if weights is None else 0.9 * weights


class ValuesFromKey(MyMultiHeadAttention):
    """Values are made from key."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        return super().forward(query, key, key, need_weights, average_attn_weights)


class WrongAxes(MyMultiHeadAttention):
    """The keys' axes 1 and 2 change places, in place of the last two."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        part = key.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        return part @ part.transpose(1, 2), None


class BiasFilled(MyMultiHeadAttention):
    """A parameter is written into where gradients are recorded."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.in_proj_bias[:] = 0


def turned_round(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    """For head 2 of 4 and 0 of 2 the same as counting the heads from 1."""
    return contribution_by_einsum(weights, values, out_proj, weights.shape[1] - 1 - head)


def swapped_and_columns_too(layer: nn.Module, order: list[int]) -> None:
    my_swap_heads(layer, order)
    columns = torch.arange(layer.embed_dim).reshape(layer.num_heads, -1)[order].flatten()
    layer.in_proj_weight.data = layer.in_proj_weight.data[:, columns]


def without_bias(weights: Tensor, values: Tensor, out_proj: nn.Linear, head: int) -> Tensor:
    """The right numbers, and a layer that has lost its bias."""
    out_proj.bias = None
    return contribution_by_einsum(weights, values, out_proj, head)


def swapped_and_frozen(layer: nn.Module, order: list[int]) -> None:
    my_swap_heads(layer, order)
    layer.in_proj_weight.requires_grad_(False)


class FromQueryAlone(MyMultiHeadAttention):
    """Self-attention only; and the mean is never taken: no slip has both."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        return super().forward(query, query, query, need_weights, average_attn_weights)


RIGHT: list[tuple[str, Any]] = [
    ("split_heads", split_by_list),
    ("multi_head_attention", SumOfHeads),
    ("multi_head_attention", ByEinsum),
    ("multi_head_attention", torchs),
    ("head_contribution", contribution_by_einsum),
    ("masked_attention", MaskAdded),
    ("swap_heads", swapped_by_new_parameters),
    ("left_minus_above", by_biases),
]


class BiasesAsBuffer(MyMultiHeadAttention):
    """in_proj_bias is saved, and not trained."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        bias = self.in_proj_bias.detach()
        del self.in_proj_bias
        self.register_buffer("in_proj_bias", bias)


WRONG: list[tuple[str, Any, str]] = [
    ("multi_head_attention", BiasesAsBuffer, "in_proj_bias is a buffer, and no parameter"),
    ("split_heads", lambda x, num_heads: split_by_list(x.flip(-1), num_heads), ""),
    ("split_heads", lambda x, num_heads: split_by_list(x, num_heads).detach(), "gradient"),
    ("multi_head_attention", OutputAlone, "must return a pair, (output, weights)"),
    ("multi_head_attention", OutputAloneIfAsked, "With need_weights=False what came back is a"),
    ("masked_attention", MaskedAloneIfAsked, "With need_weights=False what came back is a"),
    ("multi_head_attention", NoOptions, "unexpected keyword argument 'average_attn_weights'"),
    ("masked_attention", AsManyKeys, "x, x), your code raised RuntimeError in the line"),
    ("masked_attention", MyMultiHeadAttention, "unexpected keyword argument 'mask'"),
    (
        "swap_heads",
        lambda layer, order: swapped_by_new_parameters(copy.deepcopy(layer), order),
        "in place",
    ),
    ("left_minus_above", lambda layer, grid: None, ""),
    ("left_minus_above", not_sharp(0.01), "Each head looks most at the tokens that it should"),
    ("left_minus_above", not_sharp(0.01), "as little as 0.77"),
    ("left_minus_above", not_sharp(0.03), "the softmax is not sharp enough"),
    ("left_minus_above", sharp_for_small_grids, "in a grid of 7 × 7"),
    ("left_minus_above", twice, "minus token 1 itself, since none is above it"),
    ("left_minus_above", left_twice, "The content that token 1 gets is nothing"),
    ("split_heads", lambda x, num_heads: x.chunk(num_heads, dim=-1), "torch.stack(parts, dim=1)"),
    ("split_heads", lambda x, num_heads: x.chunk(2, dim=-1), "The parts must be one tensor"),
    ("masked_attention", Renormalised, "as by the sum of weights that are all 0"),
    ("masked_attention", MaskedAfterDropout, "four equal weights of 0.25 become"),
    ("masked_attention", OpensTheMask, "changes the mask that it was given"),
    ("masked_attention", Blurred, "the rows of your weights sum to 0.9 … 0.9"),
    ("head_contribution", without_bias, "out_proj has no bias afterwards"),
    ("multi_head_attention", BiasFilled, "`self.in_proj_bias[:] = 0`. Write into it under with"),
    ("swap_heads", swapped_and_columns_too, "row 0 of in_proj_weight is none of the old ones"),
    ("swap_heads", swapped_and_frozen, "in_proj_weight would not learn any more"),
    (
        "split_heads",
        lambda x, h: my_split_heads(x, h).squeeze(),
        "Axes of length 1 that are missing: 1. What takes them away",
    ),
]
PARTS_OF_TOKENS = "cut along axis 1, so that each part has some of the tokens"
NAMED: list[tuple[str, Any, str]] = [
    ("head_contribution", turned_round, "count the heads from the last one on"),
    ("split_heads", lambda x, h: torch.stack(x.tensor_split(h, 1)), PARTS_OF_TOKENS),
    ("split_heads", lambda x, h: torch.stack(x.split(x.shape[1] // h, 1), 1), PARTS_OF_TOKENS),
    ("split_heads", lambda x, h: torch.stack(x.split(x.shape[2] // h, 1), 2), PARTS_OF_TOKENS),
    ("multi_head_attention", divided(MyMultiHeadAttention, 2), "divide by 2 head_dim, as"),
    ("multi_head_attention", divided(MyMultiHeadAttention, 0.5), "divide by head_dim / 2, which"),
    ("masked_attention", AlwaysCausal, "make a causal mask in place of the one that is given"),
    ("masked_attention", divided(MyMaskedAttention, 2), "divide the scores by 2 head_dim, as"),
    (
        "masked_attention",
        divided(MyMaskedAttention, 0.5),
        "divide the scores by head_dim / 2, which",
    ),
    ("swap_heads", lambda layer, order: None, "leave all numbers of the layer as they are"),
    (
        "multi_head_attention",
        OneBigHead,
        "use one head as wide as the token, and divide by √head_dim",
    ),
    ("multi_head_attention", ValuesFromKey, "make the values from key, and not from value"),
    ("multi_head_attention", WrongAxes, "as k.T or k.transpose(1, 2) does"),
    ("masked_attention", BiasForgotten, "of a query that may look nowhere to 0"),
    (
        "split_heads",
        lambda x, h: x.reshape(*x.shape[:2], h, 4).transpose(1, 2),
        "write the size of a head as a number",
    ),
    (
        "head_contribution",
        lambda a, v, out, h: a[h] @ v[h],
        "take picture number head in place of the head",
    ),
    (
        "head_contribution",
        lambda a, v, out, h: contribution_by_einsum(a, v, out, h) / a.shape[1],
        "divide what the head adds by the number of heads",
    ),
    ("multi_head_attention", FromQueryAlone, "make keys and values from query as well"),
    (
        "head_contribution",
        lambda a, v, out, h: contribution_by_einsum(a, v, out, h - 1),
        "count the heads from 1",
    ),
    (
        "head_contribution",
        lambda a, v, out, h: contribution_by_einsum(a.mT, v, out, h),
        "transpose the weights",
    ),
]
test_answers = judged(RIGHT, WRONG, NAMED)


# ------------------------------------------------------------------------------------------- the
# layer at work


def with_attention(model: nn.Module, attention: Any) -> nn.Module:
    changed = copy.deepcopy(model)
    for block in changed.encoder.layers:
        layer = attention(model.hidden_dim, block.num_heads)
        layer.load_state_dict(block.self_attention.state_dict(), strict=True)
        block.self_attention = layer
    return changed.eval()


@pytest.mark.parametrize("attention", [MyMultiHeadAttention, ByEinsum, SumOfHeads])
def test_the_learners_layer_runs_in_a_model_and_is_recorded(attention: Any) -> None:
    model = vit_mnist(7).eval()
    randomise(model)
    mine, images = with_attention(model, attention), torch.randn(3, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(mine(images), model(images), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        attention_weights(mine, images), attention_weights(model, images), rtol=0, atol=1e-5
    )
    (parts, bias), (theirs, same) = (
        head_contributions(mine, images, 1),
        head_contributions(model, images, 1),
    )
    torch.testing.assert_close(parts, theirs, rtol=0, atol=1e-5)
    assert torch.equal(bias, same)


def test_it_starts_as_torchs_does_and_its_weights_go_both_ways() -> None:
    layers = []
    for attention in (MyMultiHeadAttention, torchs):
        torch.manual_seed(3)
        layers.append(attention(8, 2))
    mine, theirs = (layer.state_dict() for layer in layers)
    assert list(mine) == list(theirs)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    layers[1].load_state_dict(mine, strict=True)


def test_a_trained_model_predicts_the_same_with_the_learners_layer() -> None:
    model = load_model("vit_mnist_p4").eval()
    images = torch.randn(16, 1, 28, 28)
    with torch.no_grad():
        found, expected = with_attention(model, MyMultiHeadAttention)(images), model(images)
    assert torch.equal(found.argmax(dim=1), expected.argmax(dim=1))
    assert (found - expected).abs().max() <= 1e-5 * max(1.0, expected.abs().max().item())


def test_three_bugs_and_the_two_tests_that_tell_them_apart() -> None:
    x, order = torch.randn(1, 7, 8), torch.tensor([3, 0, 6, 2, 5, 1, 4])
    right = MyMultiHeadAttention(8, 2)
    expected = right(x, x, x)[1]
    found = {}
    for name, attention in figures.broken_layers().items():
        layer = attention(8, 2)
        layer.load_state_dict(right.state_dict())
        output, weights = layer(x, x, x)
        shuffled = layer(x[:, order], x[:, order], x[:, order])[0]
        found[name] = (
            torch.allclose(weights, expected),
            torch.allclose(shuffled, output[:, order], atol=1e-5),
        )
    assert found == {"A": (True, False), "B": (False, True), "C": (False, False)}


def test_split_heads_and_the_layer_agree_with_each_other() -> None:
    """The layer may be built from the other answers."""

    class Built(MyMultiHeadAttention):
        def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
            parts = zip(
                (query, key, value),
                self.in_proj_weight.chunk(3),
                self.in_proj_bias.chunk(3),
                strict=True,
            )
            q, k, v = (my_split_heads(F.linear(x, w, b), self.num_heads) for x, w, b in parts)
            weights = (q @ k.mT / self.head_dim**0.5).softmax(dim=-1)
            return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights

    mine = Built(12, 3)
    theirs = MyMultiHeadAttention(12, 3)
    x = torch.randn(2, 5, 12)
    theirs.load_state_dict(mine.state_dict())
    torch.testing.assert_close(mine(x, x, x)[0], theirs(x, x, x)[0])


def test_the_masked_layer_agrees_with_torchs_where_every_query_sees_a_key() -> None:
    mine = MyMaskedAttention(12, 3)
    theirs = torchs(12, 3)
    theirs.load_state_dict(mine.state_dict())
    x = torch.randn(2, 5, 12)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected, weights = theirs(x, x, x, attn_mask=~mask)
    output, found = mine(x, x, x, mask=mask)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(found, weights)


def test_a_fixed_row_of_weights_explains_what_the_model_explains_if_its_rows_are_fixed() -> None:
    """With all keys at zero every row is even, so the mean row changes nothing."""

    class DrawTwo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.to_tokens = nn.Linear(49, 64)
            self.places = nn.Parameter(torch.randn(9, 64) / 2)
            self.look = nn.MultiheadAttention(64, 2, batch_first=True)
            self.draw = nn.Linear(64, 98)

        def forward(self, patches: Tensor) -> Tensor:
            x = self.to_tokens(patches) + self.places
            return self.draw(self.look(x, x, x)[0][:, 4]).unflatten(1, (2, 49))

    torch.manual_seed(0)
    model = DrawTwo().eval()
    live, fixed = figures.explained(model), figures.by_mean_row(model)
    assert live != pytest.approx(fixed, rel=1e-6)
    nn.init.zeros_(model.look.in_proj_weight[64:128])
    live, fixed = figures.explained(model), figures.by_mean_row(model)
    assert live == pytest.approx(fixed, rel=1e-4)


def test_the_gain_of_the_mask_needs_no_order_as_the_notebook_says() -> None:
    full = stored("with_heads")["accuracy"]
    for name in ("with_heads_causal", "with_heads_random_order", "with_heads_self_only"):
        gain, half = interval(stored(name)["accuracy"], full)
        assert gain > half, name


def test_a_random_order_lets_a_token_see_as_many_as_the_causal_mask_does() -> None:
    attention = RandomOrderAttention(8, 2)
    mask = attention.may_look(torch.zeros(3, 5, 8))[:, 0]
    assert mask.sum(dim=2).sort(dim=1).values.tolist() == [[1, 2, 3, 4, 5]] * 3
    assert mask.diagonal(dim1=1, dim2=2).all()


def test_three_seeds_of_one_head_beat_one_half_by_rows_that_are_not_fixed() -> None:
    whole = stored("draw_one_head", "measured")["percent"]
    fixed = stored("draw_one_head_mean_row", "measured")["percent"]
    assert sum(one > 50 for one in whole) == 3
    assert max(fixed) < 50


def test_the_tokens_that_enter_a_layer() -> None:
    model = vit_mnist(7).eval()
    images = torch.randn(2, 1, 28, 28)
    block = model.encoder.layers[0]
    x = figures.entering(block.self_attention, model, images)
    tokens = model._to_tokens(images) + model.encoder.pos_embedding
    torch.testing.assert_close(x, block.ln_1(tokens))
    assert not block.self_attention._forward_pre_hooks


class DropsWithoutScaling(MyMultiHeadAttention):
    """In train mode a weight becomes 0, or stays what it is."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        q, k, v = (
            my_split_heads(F.linear(x, w, b), self.num_heads)
            for x, w, b in zip(
                (query, key, value),
                self.in_proj_weight.chunk(3),
                self.in_proj_bias.chunk(3),
                strict=True,
            )
        )
        weights = self.dropped((q @ k.mT / self.head_dim**0.5).softmax(dim=-1))
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return output, self.given(weights, average_attn_weights) if need_weights else None

    def dropped(self, weights: Tensor) -> Tensor:
        kept = torch.rand_like(weights) > self.dropout
        return weights * kept if self.training else weights

    def given(self, weights: Tensor, is_mean: bool) -> Tensor:
        return weights.mean(dim=1) if is_mean else weights


class DropsWholeHeads(DropsWithoutScaling):
    def dropped(self, weights):
        return F.dropout2d(weights, self.dropout, self.training)


class DividesBySums(DropsWithoutScaling):
    def dropped(self, weights):
        weights = F.dropout(weights, self.dropout, self.training)
        return weights / weights.sum(dim=-1, keepdim=True)


class DropsLess(DropsWithoutScaling):
    """A quarter of the weights in place of the half."""

    def dropped(self, weights):
        return F.dropout(weights, self.dropout / 2, self.training)


class DropsNothingWithoutWeights(DropsWithoutScaling):
    """The fast way has no dropout in it."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        if need_weights:
            return super().forward(query, key, value, True, average_attn_weights)
        mode = self.training
        found = self.eval()(query, key, value)[0]
        self.train(mode)
        return found, None

    def dropped(self, weights):
        return F.dropout(weights, self.dropout, self.training)


class DropsNothingMasked(MyMaskedAttention):
    def forward(self, *given, need_weights=True, **options):
        if need_weights:
            return super().forward(*given, **options)
        mode = self.training
        found = self.eval()(*given, **options)[0]
        self.train(mode)
        return found, None


class OtherOutput(DropsWithoutScaling):
    """Each head's own weights come with another layer output."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True):
        output, weights = super().forward(query, key, value, need_weights, average_attn_weights)
        return output if average_attn_weights else query, weights

    def dropped(self, weights):
        return F.dropout(weights, self.dropout, self.training)


def in_a_copy_of_the_order(layer: nn.Module, order: list[int]) -> None:
    my_swap_heads(layer, order)
    order.sort()


def without_bias_of_keys(layer: nn.Module, order: list[int]) -> None:
    bias = layer.in_proj_bias.detach().chunk(3)[1].clone()
    my_swap_heads(layer, order)
    layer.in_proj_bias.data.chunk(3)[1].copy_(bias)


def of_two_pictures(weights, values, out_proj, head):
    each = [weights[i, head] @ values[i, head] for i in range(2)]
    columns = out_proj.weight.chunk(values.shape[1], dim=1)[head]
    return torch.stack(each) @ columns.T


def of_neighbours(weights, values, out_proj, head):
    """The head's output meets the mean of its columns and those behind them."""
    columns = out_proj.weight.chunk(values.shape[1], dim=1)
    mean = (columns[head] + columns[head - 1]) / 2
    return weights[:, head] @ values[:, head] @ mean.T


def looking_at_contents(layer: nn.Module, grid: int) -> None:
    my_left_minus_above(layer, grid)
    with torch.no_grad():
        layer.in_proj_weight[: grid**2, : grid**2] = 3000 * torch.eye(grid**2)


def without_a_query(layer: nn.Module, grid: int) -> None:
    my_left_minus_above(layer, grid)
    with torch.no_grad():
        layer.in_proj_weight[grid**2 : 2 * grid**2] = 0


def with_a_bias(layer: nn.Module, grid: int) -> None:
    my_left_minus_above(layer, grid)
    nn.init.ones_(layer.out_proj.bias)


test_what_the_check_sees_of_dropout_pictures_and_places = judged(
    [],
    [
        ("multi_head_attention", DropsWholeHeads, "all weights of a head are dropped together"),
        ("multi_head_attention", DropsLess, "of the heads half of them should give 0, and half 2"),
        ("multi_head_attention", OtherOutput, "should be the same whatever need_weights"),
        ("multi_head_attention", DropsNothingWithoutWeights, "should leave nothing but the bias"),
        ("masked_attention", DropsNothingMasked, "whether need_weights is True or False, dropped"),
        ("swap_heads", in_a_copy_of_the_order, "your code changes order"),
        ("head_contribution", of_two_pictures, "must have shape (3, 4, 6), but has (2, 4, 6)"),
        ("head_contribution", of_neighbours, "your code uses columns 2, 3, 4, 5 of out_proj"),
        ("left_minus_above", looking_at_contents, "Head 0 of your layer looks elsewhere"),
        ("left_minus_above", without_a_query, "head 1 of your layer gives no token more than"),
        ("left_minus_above", with_a_bias, "With biases of zero your layer gives the right"),
    ],
    [
        ("multi_head_attention", DropsWithoutScaling, "set weights to 0 and leave the others"),
        ("multi_head_attention", DividesBySums, "divide the weights by their sum after the"),
        ("swap_heads", without_bias_of_keys, "leave the bias of W_K in its old order"),
    ],
)


class Turned(MyMaskedAttention):
    """Takes a square mask as (keys, queries), after the softmax, too, if it is told so."""

    everywhere = True

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True, mask=None):
        scores, v = self.scores_and_values(query, key, value)
        if mask is not None:
            turned = mask.mT if mask.shape[0] == mask.shape[1] else mask
            scores = scores.masked_fill(~turned, -torch.inf)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~(turned if self.everywhere else mask), 0)
        return self.gathered(weights, v, need_weights, average_attn_weights)

    def scores_and_values(self, *given):
        packed = zip(given, self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3), strict=True)
        q, k, v = (
            F.linear(x, weight, bias).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for x, weight, bias in packed
        )
        return q @ k.mT / self.head_dim**0.5, v

    def gathered(self, weights, v, need_weights, average):
        weights = F.dropout(weights, self.dropout, self.training)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        if not need_weights:
            return output, None
        return output, weights.mean(dim=1) if average else weights


class TurnedBefore(Turned):
    everywhere = False


class Masking(Turned):
    """A right layer; the subclasses are wrong in one thing."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True, mask=None):
        scores, v = self.scores_and_values(query, key, value)
        if mask is None:
            mask = self.usual(scores)
        weights = self.masked(scores, mask)
        return self.gathered(weights, v, need_weights, average_attn_weights)

    def usual(self, scores):
        return torch.ones(scores.shape[-2:], dtype=torch.bool)

    def masked(self, scores, mask):
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        return weights.masked_fill(~mask, 0)


class FromKey(Masking):
    def scores_and_values(self, query, key, value):
        return super().scores_and_values(query, key, key)


class FromQuery(Masking):
    def scores_and_values(self, query, key, value):
        return super().scores_and_values(query, query, query)


class Exchanged(Masking):
    def scores_and_values(self, query, key, value):
        return super().scores_and_values(query, value, key)


class OpenToItself(Masking):
    def masked(self, scores, mask):
        opened = mask | torch.eye(*mask.shape, dtype=torch.bool)
        weights = scores.masked_fill(~opened, -torch.inf).softmax(dim=-1)
        return weights.masked_fill(~mask, 0)


class BlindToItself(Masking):
    """Another mistake, with the same numbers where only one token may look nowhere."""

    def masked(self, scores, mask):
        return super().masked(scores, mask) + torch.diag((~mask.any(dim=-1)).float())


class UsuallySquare(Masking):
    def usual(self, scores):
        return torch.ones(scores.shape[-2], scores.shape[-2], dtype=torch.bool)


class UsuallyCausal(Masking):
    def usual(self, scores):
        return super().usual(scores).tril()


class CutMask(Masking):
    def masked(self, scores, mask):
        return super().masked(scores, mask[:, : len(mask)])


class DividedAnew(Masking):
    def masked(self, scores, mask):
        weights = scores.softmax(dim=-1) * mask
        return weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-9)


class BlindAlike(Masking):
    def masked(self, scores, mask):
        weights = super().masked(scores, mask)
        return weights.where(mask.any(dim=-1, keepdim=True), 1 / mask.shape[-1])


class BlindOutput(Turned):
    """The output of a query that may look nowhere is 0, and its weights stay nan."""

    def forward(self, query, key, value, need_weights=True, average_attn_weights=True, mask=None):
        scores, v = self.scores_and_values(query, key, value)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        output, weights = self.gathered(weights, v, need_weights, average_attn_weights)
        return output.nan_to_num(0), weights


EXCHANGED = (
    "weights are those of the transposed mask: its rows and columns are exchanged. A mask is"
)
AS_MANY_AS_KEY = "k, v and the last axis of the mask as many as key."
test_what_a_mask_does_is_told = judged(
    [("masked_attention", Masking)],
    [
        ("masked_attention", CutMask, AS_MANY_AS_KEY),
        ("masked_attention", UsuallySquare, AS_MANY_AS_KEY),
        ("masked_attention", BlindToItself, ""),
        ("masked_attention", Turned, f"Your {EXCHANGED}"),
        ("masked_attention", TurnedBefore, f"Where the mask itself is True, your {EXCHANGED}"),
        (
            "masked_attention",
            BlindOutput,
            "output of a query that may look nowhere is 0 in yours. Only its weights must be 0.",
        ),
    ],
    [
        ("masked_attention", FromKey, "make the values from key, and not from value"),
        ("masked_attention", FromQuery, "make keys and values from query as well"),
        ("masked_attention", Exchanged, "make the keys from value, and the values from key"),
        ("masked_attention", OpenToItself, "let each token look at itself, whatever the mask says"),
        ("masked_attention", UsuallyCausal, "make a causal mask where none is given"),
        ("masked_attention", DividedAnew, "leave the forbidden scores in the softmax, or in exp"),
        ("masked_attention", BlindAlike, "look everywhere alike, as a large finite number in"),
    ],
)
