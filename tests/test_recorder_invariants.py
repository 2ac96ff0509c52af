"""One entry for each attention layer of this model and these images, or an error.

Each model here once gave a wrong answer without a word: a layer too few or too many, windows or
parts of a batch taken for images, another model's layers, a grid guessed from a square.
"""

import asyncio
import contextvars
import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import mnist_vit
from mnist_vit.attention import (
    attention_weights,
    head_contributions,
    mean_attention_distance,
    record_attention,
    to_maps,
)
from mnist_vit.data import ImageData
from mnist_vit.tokens import patch_grid

S = 17  # tokens of the models here
D = 32  # their width
HEADS = 4
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    """F.scaled_dot_product_attention, in the usual way; ``attend`` may be another function."""

    def __init__(self, attend: Callable[..., Tensor] | None = None, name: str = "qkv") -> None:
        super().__init__()
        self.attend = attend or F.scaled_dot_product_attention
        self.name = name
        self.add_module(name, nn.Linear(D, 3 * D))
        self.proj = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        packed = getattr(self, self.name)(x)
        q, k, v = packed.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(self.attend(q, k, v).transpose(1, 2).flatten(2))


class Asked(nn.Module):
    """torch's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Block(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn, self.mlp = attention, nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + F.gelu(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    """A small one: 16 patches and a class token; a layer for each attention that is given."""

    def __init__(self, *attentions: nn.Module) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, D, 8, 8)
        self.cls_token = nn.Parameter(torch.randn(1, 1, D))
        self.pos_embed = nn.Parameter(torch.randn(1, S, D))
        self.blocks = nn.ModuleList(map(Block, attentions))
        self.head = nn.Linear(D, 10)
        self.eval()

    def tokens(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed

    def encode(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(self.tokens(x))[:, 0])


def vit(*attends: Callable[..., Tensor] | None, seed: int = 0) -> ViT:
    torch.manual_seed(seed)
    return ViT(*map(Attention, attends))


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def hooks(model: nn.Module) -> int:
    """How many hooks there are, of every kind."""
    kinds = [
        "_forward_pre_hooks",
        "_forward_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
    ]
    count = 0
    for module in model.modules():
        count += sum(len(getattr(module, kind)) for kind in kinds)
    return count


def modes() -> int:
    """How many modes of torch are on in this thread."""
    functions = torch.overrides._get_current_function_mode_stack()
    dispatched = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return len(functions) + len(dispatched)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert modes() == 0
    assert torch._C._is_torch_function_enabled()
    assert torch.is_grad_enabled()


# --- a layer that cannot be recorded stands beside layers that can -------------------------------


def einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


def exp_and_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = torch.exp(q @ k.mT / q.shape[-1] ** 0.5)
    return e / e.sum(-1, keepdim=True) @ v


def sigmoids(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.sigmoid(q @ k.mT - 3) @ v


def squared_relu(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.relu(q @ k.mT) ** 2 / S @ v


def image_by_image_head_by_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    n, h = q.shape[:2]
    parts = []
    for i, j in itertools.product(range(n), range(h)):
        parts.append(by_hand(q[i, j], k[i, j], v[i, j]))
    return torch.stack(parts).unflatten(0, (n, h))


def row_by_row(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = [by_hand(q[:, :, i : i + 1], k, v) for i in range(q.shape[2])]
    return torch.cat(rows, dim=2)


def only_elementwise(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q[..., :, None, :] * k[..., None, :, :]).sum(-1).softmax(-1)
    return (weights[..., None] * v[..., None, :, :]).sum(-2)


def elementwise_exp_and_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = (q[..., :, None, :] * k[..., None, :, :]).sum(-1).exp()
    return ((e / e.sum(-1, keepdim=True))[..., None] * v[..., None, :, :]).sum(-2)


def elementwise_sigmoids(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q[..., :, None, :] * k[..., None, :, :]).sum(-1).sigmoid()
    return (weights[..., None] * v[..., None, :, :]).sum(-2)


def by_distance(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = (-torch.cdist(q, k)).exp()
    return ((e / e.sum(-1, keepdim=True))[..., None] * v[..., None, :, :]).sum(-2)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2, keepdim=True).mT)


def mapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.vmap(torch.vmap(by_hand))(q, k, v)


@torch.jit.script
def scripted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v


@torch.jit.script
def scripted_fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def flexible(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v)


def in_numpy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.detach().numpy() for x in (q, k, v))
    e = np.exp(q @ np.swapaxes(k, -1, -2))
    return torch.from_numpy(e / e.sum(-1, keepdims=True) @ v)


def of_torchs_functions(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    x = v.transpose(1, 2).flatten(2).transpose(0, 1)
    w, b = torch.eye(D).repeat(3, 1), torch.zeros(3 * D)
    given = (D, HEADS, w, b, None, None, False, 0.0, torch.eye(D), torch.zeros(D), False)
    out = F.multi_head_attention_forward(x, x, x, *given)[0].transpose(0, 1)
    return out.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return by_hand(q, k, v)


UNSEEN: dict[str, Callable[..., Tensor]] = {
    "by hand": by_hand,
    "einsum": einsum,
    "exp and sum": exp_and_sum,
    "sigmoid": sigmoids,
    "squared relu": squared_relu,
    "image by image, head by head": image_by_image_head_by_head,
    "row by row": row_by_row,
    "elementwise": only_elementwise,
    "elementwise, exp and sum": elementwise_exp_and_sum,
    "elementwise, sigmoid": elementwise_sigmoids,
    "distances": by_distance,
    "linear attention": linear_attention,
    "vmap": mapped,
    "TorchScript": scripted,
    "TorchScript, fused": scripted_fused,
    "torch._scaled_dot_product_attention_math": lambda q, k, v: (
        torch._scaled_dot_product_attention_math(q, k, v)[0]
    ),
    "a kernel of aten": lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v
    )[0],
    "the operator's overload": lambda q, k, v: torch.ops.aten.scaled_dot_product_attention.default(
        q, k, v
    ),
    "F.multi_head_attention_forward": of_torchs_functions,
    "a torch.autograd.Function": Custom.apply,
    "numpy": in_numpy,
}


@pytest.mark.parametrize(
    ("how", "name"),
    [(how, "Wqkv") for how in UNSEEN]
    + [("by hand", "qkv"), ("by hand", "qkv_proj"), ("exp and sum", "query_key_value")],
)
def test_a_layer_of_its_own_beside_torchs_is_an_error(how: str, name: str) -> None:
    model = ViT(Asked(), Attention(UNSEEN[how], name))
    with pytest.raises(
        ValueError, match=r"^ViT .*(of its own|cannot be recorded|expected at leas)"
    ):
        attention_weights(model, IMAGES)
    with (
        torch.inference_mode(),
        pytest.raises(ValueError, match=r"^ViT "),
        record_attention(model),
    ):
        model(IMAGES)


@pytest.mark.parametrize("how", UNSEEN)
def test_a_layer_of_its_own_beside_fused_ones_is_an_error(how: str) -> None:
    model = vit(None, UNSEEN[how], None)
    with pytest.raises(
        ValueError, match=r"^ViT .*(of its own|cannot be recorded|expected at leas)"
    ):
        attention_weights(model, IMAGES)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("other", [Asked, Attention])
def test_flex_attention_is_an_error(other: type[nn.Module]) -> None:
    """On its own because it imports a compiler, which takes seconds."""
    with pytest.raises(ValueError, match="ViT makes weights by flex_attention"):
        attention_weights(ViT(other(), Attention(flexible)), IMAGES)


def test_torchs_layers_beside_fused_ones_are_all_recorded() -> None:
    torch.manual_seed(0)
    model = ViT(Asked(), Attention(name="Wqkv"), Asked())
    assert attention_weights(model, IMAGES).shape == (2, 3, HEADS, S, S)


def test_a_layer_that_is_left_out_of_the_forward_is_an_error() -> None:
    model = vit(None, None, None)
    model.blocks[1].forward = lambda x: x
    with pytest.raises(ValueError, match=r"only 2 attention layers .* expected at least 3"):
        attention_weights(model, IMAGES)


@pytest.mark.parametrize("row", ["attributes", "a dict", "two classes"])
def test_blocks_are_counted_wherever_they_stand(row: str) -> None:
    model = ViT(Attention(), Attention(in_numpy))
    blocks = list(model.blocks)
    model.encode = lambda x: blocks[1](blocks[0](x))
    if row == "two classes":
        blocks[1].__class__ = type("Other", (Block,), {})
    elif row == "a dict":
        model.blocks = nn.ModuleDict({"first": blocks[0], "second": blocks[1]})
    else:
        del model.blocks
        model.block1, model.block2 = blocks
    with pytest.raises(ValueError, match=r"only 1 attention layers .* expected at least 2"):
        attention_weights(model, IMAGES)


class Two(nn.Module):
    """A block with a second attention, which ``attend`` computes."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.first, self.second = Attention(), Attention(attend)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def test_elementwise_weights_are_seen_within_a_block_too() -> None:
    blocks = Two(elementwise_sigmoids), Two(elementwise_sigmoids)
    with pytest.raises(ValueError, match="a mul of its own, which cannot be recorded"):
        attention_weights(ViT(*blocks), IMAGES)


@torch.library.custom_op("mnist_vit_tests::mix", mutates_args=())
def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_hand(q, k, v)


def test_a_kernel_that_is_not_torchs_is_an_error() -> None:
    with pytest.raises(ValueError, match="mnist_vit_tests::mix, which is not torch's"):
        attention_weights(ViT(Two(mix), Two(mix)), IMAGES)


class Own(nn.Module):
    """Calls torch's layer in its own way, and uses what it asks for."""

    def __init__(self, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(D, HEADS, batch_first=True)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.attention, x)


def by_average(layer: nn.Module, x: Tensor) -> Tensor:
    out, weights = layer(x, x, x)
    return out * weights.mean(-2)[..., None] * S


def by_place(layer: nn.Module, x: Tensor) -> Tensor:
    out, weights = layer(x, x, x, None, False)
    assert weights is None
    return out


def writing(layer: nn.Module, x: Tensor) -> Tensor:
    out, weights = layer(x, x, x, average_attn_weights=False)
    return out * weights.clamp_(max=0.05).mean()


@pytest.mark.parametrize("call", [by_average, by_place, writing])
def test_the_model_gets_what_it_asks_its_layers_for(call: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    model = ViT(Own(call))
    layer, kept = model.blocks[0].attn.attention, []
    model.blocks[0].norm1.register_forward_hook(lambda _, given, out: kept.append(out))
    with torch.no_grad():
        expected = model(IMAGES)
        with record_attention(model) as record:
            got = model(IMAGES)
        weights = layer(kept[0], kept[0], kept[0], average_attn_weights=False)[1]
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(record[0], weights)


def test_a_model_that_returns_nothing_is_recorded() -> None:
    model = vit(None, None)
    whole = Around(model, lambda m, x: [m(x)].clear()).eval()
    assert torch.equal(attention_weights(whole, IMAGES), attention_weights(model, IMAGES))


def test_torch_func_is_a_sentence() -> None:
    model = vit(None, None)
    for call in (torch.vmap(lambda x: model(x[None])), torch.func.grad(lambda x: model(x).sum())):
        with pytest.raises(ValueError, match="plain images"), record_attention(model):
            call(IMAGES)


@pytest.mark.parametrize(
    "which",
    [
        {"layers": [0.5]},
        {"layers": "01"},
        {"layers": [None]},
        {"layers": 5},
        {"query": 1.0},
        {"query": "0"},
        {"query": [0]},
    ],
)
def test_odd_layers_and_queries_are_a_sentence(which: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(which))} must be"):
        attention_weights(vit(None, None), IMAGES, **which)


def test_images_take_the_kind_of_number_of_the_weights() -> None:
    """Not that of whole numbers, which may be a model's first parameter."""
    model = vit(None, None)
    expected = attention_weights(model, IMAGES)
    model._parameters = {
        "ids": nn.Parameter(torch.arange(S), requires_grad=False),
        **model._parameters,
    }
    assert torch.equal(attention_weights(model, IMAGES.double()), expected)
    assert patch_grid(model, IMAGES.double()) == (4, 4)


@pytest.mark.parametrize("kinds", [(Attention, Asked), (Attention, Attention)])
def test_what_heads_add_is_told_only_where_it_is_known(kinds: tuple[type, ...]) -> None:
    with pytest.raises(ValueError, match=r"nn\.MultiheadAttention"):
        head_contributions(ViT(*(kind() for kind in kinds)), IMAGES, 0)


def test_what_heads_add_follows_the_order_of_the_calls() -> None:
    torch.manual_seed(0)
    model = ViT(Asked(), Asked())
    first, last = model.blocks
    model.encode = lambda x: first(last(x))
    seen: list[Tensor] = []
    last.attn.register_forward_hook(lambda _, given, out: seen.append(out))
    parts, bias = head_contributions(model, IMAGES, 0)
    torch.testing.assert_close(parts.sum(1) + bias, seen[0])


def test_weights_of_nan_are_an_error() -> None:
    for model in (vit(None, None), ViT(Asked(), Asked())):
        nn.init.constant_(model.blocks[1].norm1.weight, torch.nan)
        with pytest.raises(ValueError, match=r"attention weights of ViT are NaN"):
            attention_weights(model, IMAGES)


def test_attention_between_channels_is_an_error() -> None:
    class Channels(Attention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 4, 1)
            out = F.scaled_dot_product_attention(q, k, v)
            return self.proj(out.permute(0, 3, 1, 2).flatten(2))

    with pytest.raises(ValueError, match="between channels"):
        attention_weights(ViT(Channels(), Channels()), IMAGES)


def test_a_layer_within_a_layer_is_one() -> None:
    class Wrapper(nn.Module):
        """Asked, and made of a layer that is asked."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(D, HEADS, batch_first=True)
            self.num_heads = HEADS

        @property
        def in_proj_weight(self) -> Tensor:
            return self.inner.in_proj_weight

        def forward(self, x: Tensor, *_: Tensor, **asked: Any) -> Any:
            out, weights = self.inner(x, x, x, **asked)
            return (out, weights) if asked else out

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Wrapper()

        def forward(self, x: Tensor) -> Tensor:
            out = self.attention(x)
            return out[0] if isinstance(out, tuple) else out

    model = ViT(First(), First())
    assert attention_weights(model, IMAGES).shape == (2, 2, HEADS, S, S)


def test_layers_that_share_their_parameters_are_as_many_as_are_passed() -> None:
    """As in ALBERT: one block is passed three times."""
    model = vit(None)
    block = model.blocks[0]
    model.encode = lambda x: block(block(block(x)))
    assert attention_weights(model, IMAGES).shape == (2, 3, HEADS, S, S)


@pytest.mark.parametrize("pool", ["fused", "by hand", "nn.MultiheadAttention"])
def test_pooling_by_one_query_is_no_layer(pool: str) -> None:
    class Pooled(ViT):
        def __init__(self) -> None:
            super().__init__(Attention(), Attention())
            self.probe, self.kv = nn.Parameter(torch.randn(1, 1, D)), nn.Linear(D, 2 * D)
            self.pool = nn.MultiheadAttention(D, HEADS, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            x = self.encode(self.tokens(x))
            probe = self.probe.expand(len(x), -1, -1)
            if pool == "nn.MultiheadAttention":
                return self.head(self.pool(probe, x, x)[0][:, 0])
            k, v = self.kv(x).chunk(2, dim=-1)
            attend = F.scaled_dot_product_attention if pool == "fused" else by_hand
            return self.head(attend(probe, k, v)[:, 0])

    torch.manual_seed(0)
    model = Pooled().eval()
    if pool != "nn.MultiheadAttention":
        del model.pool
    assert attention_weights(model, IMAGES).shape == (2, 2, HEADS, S, S)


# --- the first axis is the images' ---------------------------------------------------------------


class Around(nn.Module):
    """Another way to call a model."""

    def __init__(self, model: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.model, x)


BATCHES: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "one by one": lambda m, x: torch.cat([m(part) for part in x.split(1)]),
    "in halves": lambda m, x: torch.cat([m(part) for part in x.chunk(2)]),
    "and mirrored": lambda m, x: m(x) + m(x.flip(-1)),
    "and mirrored, in one batch": lambda m, x: m(torch.cat([x, x.flip(-1)])).chunk(2)[0],
    "crops in the batch": lambda m, x: m(x.repeat_interleave(4, 0)).unflatten(0, (-1, 4)).mean(1),
    "the first image only": lambda m, x: m(x[:1]).expand(len(x), -1),
    "in reverse": lambda m, x: m(x.flip(0)).flip(0),
    "rolled": lambda m, x: m(x.roll(1, 0)).roll(-1, 0),
    "sorted": lambda m, x: m(x[x.mean((1, 2, 3)).argsort(descending=True)]),
    "put together in reverse": lambda m, x: m(torch.stack(list(x)[::-1])),
    "all but the last exchanged": lambda m, x: m(torch.cat([x[:-1].flip(0), x[-1:]])),
}


@pytest.mark.parametrize("layers", ["fused", "torch's"])
@pytest.mark.parametrize("how", BATCHES)
def test_parts_of_a_batch_are_not_taken_for_images(how: str, layers: str) -> None:
    torch.manual_seed(0)
    model = ViT(Asked(), Asked()) if layers == "torch's" else vit(None, None)
    images = torch.cat([IMAGES, IMAGES + 1])
    told = r"(the first axis must be the images'|side by side|in a batch than by itself)"
    with pytest.raises(ValueError, match=told):
        attention_weights(Around(model, BATCHES[how]).eval(), images)


def test_a_model_that_keeps_its_images_in_order_is_called_once() -> None:
    calls = []
    model = vit(None, None).eval()
    model.register_forward_hook(lambda *_: calls.append(1))
    attention_weights(model, torch.cat([IMAGES, IMAGES + 1, IMAGES + 2]))
    assert len(calls) == 1


@pytest.mark.parametrize("layers", [[1], None])
def test_images_that_look_alike_are_no_error(layers: list[int] | None) -> None:
    images = torch.cat([IMAGES[:1]] * 3)
    assert len(attention_weights(vit(None, None), images, layers=layers)) == 3


def test_an_ensemble_has_attention_side_by_side() -> None:
    model = Around(vit(None, None), lambda m, x: m(x))
    model.other = vit(None, None, seed=1)
    model.call = lambda m, x: m(x) + model.other(x)
    with pytest.raises(ValueError, match="side by side"):
        attention_weights(model.eval(), IMAGES)


def windows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Tokens 1 to 16 in four windows, which stand in the axis of the images."""
    parts = [x[:, :, 1:].unflatten(2, (4, 4)).transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*parts).unflatten(0, (-1, 4)).transpose(1, 2).flatten(2, 3)
    return torch.cat([v[:, :, :1], out], dim=2)


def heads_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    parts = [x.transpose(0, 1) for x in (q, k, v)]
    return F.scaled_dot_product_attention(*parts).transpose(0, 1)


@pytest.mark.parametrize("images", [2, HEADS])
@pytest.mark.parametrize("attend", [windows, heads_first])
def test_windows_and_heads_are_not_taken_for_images(
    attend: Callable[..., Tensor], images: int
) -> None:
    model = vit(attend, attend)
    with pytest.raises(ValueError, match="the first axis must be the images'"):
        attention_weights(model, torch.randn(images, 3, 32, 32))


@pytest.mark.parametrize("images", [2, S])
def test_torchs_layer_with_its_axes_exchanged_is_an_error(images: int) -> None:
    """batch_first=False where images come first: images look at each other."""
    model = ViT(Asked(), Asked())
    for block in model.blocks:
        block.attn.attention.batch_first = False
    with pytest.raises(ValueError, match="the first axis must be the images'"):
        attention_weights(model, torch.randn(images, 3, 32, 32))


@pytest.mark.full
def test_swin_of_other_libraries() -> None:
    timm = pytest.importorskip("timm")
    transformers = pytest.importorskip("transformers")
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4
    )
    swin = timm.models.swin_transformer.SwinTransformer(
        img_size=32, patch_size=2, embed_dim=16, depths=(2,), num_heads=(2,), window_size=4
    )
    for module in swin.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = True
    for model in (transformers.SwinModel(config), swin):
        with pytest.raises(ValueError, match="windows"):
            attention_weights(model, IMAGES)


# --- a layer is one call, and looks at itself ----------------------------------------------------


def head_by_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = zip(*(x.split(1, dim=1) for x in (q, k, v)), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*head) for head in heads], dim=1)


def into_a_buffer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out = torch.empty_like(v)
    for i in range(HEADS):
        out[:, i : i + 1].copy_(
            F.scaled_dot_product_attention(q[:, i : i + 1], k[:, i : i + 1], v[:, i : i + 1])
        )
    return out


def differential(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    (q1, q2), (k1, k2) = q.chunk(2, dim=-1), k.chunk(2, dim=-1)
    first = F.scaled_dot_product_attention(q1, k1, v)
    return first - 0.5 * F.scaled_dot_product_attention(q2, k2, v)


def query_by_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = [F.scaled_dot_product_attention(row, k, v) for row in q.split(1, dim=2)]
    return torch.cat(rows, dim=2)


def query_halves(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = [F.scaled_dot_product_attention(row, k, v) for row in q.split(9, dim=2)]
    return torch.cat(rows, dim=2)


@pytest.mark.parametrize(
    "attend", [head_by_head, into_a_buffer, differential, query_by_query, query_halves]
)
def test_several_calls_are_not_taken_for_several_layers(attend: Callable[..., Tensor]) -> None:
    for model in (vit(attend), vit(None, attend, None)):
        with pytest.raises(ValueError, match=r"(side by side|all layers must have the same shape)"):
            attention_weights(model, IMAGES)


def test_a_module_for_each_head_is_not_taken_for_a_layer() -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(D, 3 * D // HEADS)

        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(*self.qkv(x)[:, None].chunk(3, dim=-1))[:, 0]

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList(Head() for _ in range(HEADS))

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([head(x) for head in self.heads], dim=-1)

    with pytest.raises(ValueError, match="side by side"):
        attention_weights(ViT(Heads(), Heads()), IMAGES)


class Cross(nn.Module):
    """Queries of some tokens, keys of as many others."""

    def __init__(self, others: Callable[[Tensor], Tensor], asked: bool) -> None:
        super().__init__()
        self.others, self.asked = others, asked
        self.memory = nn.Parameter(torch.randn(1, S, D))
        self.q, self.kv = nn.Linear(D, D), nn.Linear(D, 2 * D)
        if asked:
            self.attention = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        others = self.others(self, x)
        if self.asked:
            return self.attention(x, others, others)[0]
        parts = (self.q(x), *self.kv(others).chunk(2, dim=-1))
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]
        return F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)


OTHERS: dict[str, Callable[..., Tensor]] = {
    "learned ones": lambda layer, x: layer.memory.expand(len(x), -1, -1),
    "the same, turned round": lambda layer, x: x.flip(1),
    "the next image's": lambda layer, x: x.roll(1, 0),
    "shifted": lambda layer, x: torch.cat([x[:, :1], x[:, :-1]], dim=1),
    "another stream's": lambda layer, x: layer.kept,
}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("how", OTHERS)
def test_cross_attention_is_not_taken_for_self_attention(how: str, asked: bool) -> None:
    torch.manual_seed(0)
    layer = Cross(OTHERS[how], asked)
    model = ViT(Attention(), layer)
    model.patch_embed.register_forward_hook(
        lambda _, given, out: setattr(layer, "kept", model.pos_embed + out.mean((2, 3))[:, None])
    )
    with pytest.raises(ValueError, match=r"(cross attention|side by side)"):
        attention_weights(model, IMAGES)


def test_cross_attention_packed_in_one_tensor() -> None:
    class Packed(Cross):
        def forward(self, x: Tensor) -> Tensor:
            parts = torch.stack([self.q(x), *self.kv(x.flip(1)).chunk(2, dim=-1)])
            heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]
            return F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)

    model = ViT(Packed(OTHERS["shifted"], False), Packed(OTHERS["shifted"], False))
    with pytest.raises(ValueError, match="has cross attention"):
        attention_weights(model, IMAGES)


def test_learned_tokens_that_look_at_themselves_are_an_error() -> None:
    model = ViT(Asked(), Asked())
    tokens, first = model.tokens, model.blocks[0]
    learned = model.pos_embed.detach()
    model.tokens = lambda x: tokens(x) + first(learned.expand(len(x), -1, -1))
    model.encode = lambda x: model.blocks[1](x)
    with pytest.raises(ValueError, match="tokens that do not come of the images"):
        attention_weights(model, IMAGES)


@pytest.mark.parametrize("how", ["the same, turned round", "the next image's", "shifted"])
def test_cross_attention_without_projections(how: str) -> None:
    class Scaled(Cross):
        def forward(self, x: Tensor) -> Tensor:
            parts = (2 * x, *[self.others(self, x)] * 2)
            heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]
            return F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)

    model = ViT(Scaled(OTHERS[how], False), Scaled(OTHERS[how], False))
    with pytest.raises(ValueError, match="has cross attention"):
        attention_weights(model, IMAGES)


@pytest.mark.parametrize("layers", ["fused", "torch's"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_counts_each_layer_once(reentrant: bool, layers: str) -> None:
    torch.manual_seed(0)
    model = ViT(Asked(), Asked()) if layers == "torch's" else vit(None, None)
    expected = attention_weights(model, IMAGES)
    blocks = list(model.blocks)

    def encode(x: Tensor) -> Tensor:
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=reentrant)
        return x

    model.encode = encode
    with record_attention(model) as record:
        model(IMAGES).sum().backward()
    torch.testing.assert_close(torch.stack(record, dim=1), expected)
    assert model.blocks[0].mlp.weight.grad is not None


# --- this model, this context --------------------------------------------------------------------


@pytest.mark.parametrize("layers", ["fused", "torch's"])
def test_another_model_in_the_block_is_not_recorded(layers: str) -> None:
    torch.manual_seed(0)
    a, b = (
        ViT(Asked(), Asked()) if layers == "torch's" else vit(None, None, seed=seed)
        for seed in (0, 1)
    )
    with torch.no_grad():
        with record_attention(a) as record:
            b(IMAGES)
            a(IMAGES)
            b.encode(b.tokens(IMAGES))
            torch.randn(4, 5, 5).softmax(-1)  # nor what is done beside
        assert torch.equal(torch.stack(record, dim=1), attention_weights(a, IMAGES))
        with record_attention(a) as first, record_attention(b) as second:
            b(IMAGES)
            a(IMAGES[:1])
    assert [len(one) for one in first] == [1, 1]
    assert [len(one) for one in second] == [2, 2]


def test_a_part_of_the_model_that_is_called_alone_is_not_the_model() -> None:
    model = ViT(Asked(), Asked())
    with torch.no_grad(), record_attention(model) as record:
        model.encode(model.tokens(IMAGES))
        model(IMAGES)
    assert len(record) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.encode(model.tokens(IMAGES)),
        lambda model: model.forward(IMAGES),
        lambda model: None,
    ],
)
def test_a_model_that_is_not_called_is_an_error(call: Callable[[nn.Module], Any]) -> None:
    model = vit(None, None)
    with pytest.raises(ValueError, match="ViT was not called in the with block"):  # noqa: SIM117
        with record_attention(model):
            call(model)
    assert hooks(model) == 0


@pytest.mark.parametrize("layers", ["fused", "torch's"])
def test_tasks_do_not_mix(layers: str) -> None:
    torch.manual_seed(0)
    model = ViT(Asked(), Asked()) if layers == "torch's" else vit(None, None)
    images = torch.randn(8, 3, 32, 32)

    async def work(i: int) -> list[Tensor]:
        with record_attention(model) as record:
            for _ in range(3):
                await asyncio.sleep(0)
                model(images[i : i + 1])
        return record

    async def together() -> list[list[Tensor]]:
        return await asyncio.gather(*map(work, range(8)))

    expected = attention_weights(model, images)
    with torch.no_grad():  # within a task it would be everybody's
        records = asyncio.run(together())
    for i, record in enumerate(records):
        assert len(record) == 6
        torch.testing.assert_close(torch.stack(record[2:4]), expected[i][:, None])
    assert hooks(model) == 0


def test_threads_in_the_same_context_do_not_mix_either() -> None:
    model = vit(None, None)
    with torch.no_grad(), record_attention(model) as record, ThreadPoolExecutor(4) as pool:
        here = [contextvars.copy_context() for _ in range(16)]
        list(pool.map(lambda context: context.run(model, IMAGES), here))
        list(pool.map(model, [IMAGES] * 4))  # of no context
    assert len(record) == 32


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_of_an_interrupted_start(
    error: type[BaseException], number: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, count = ViT(Asked(), Asked()), 0
    for kind in ("register_forward_pre_hook", "register_forward_hook"):
        as_it_is = getattr(nn.Module, kind)

        def register(self: nn.Module, *given: Any, original: Any = as_it_is, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number and not after:
                raise error
            handle = original(self, *given, **options)
            if count == number:
                raise error
            return handle

        monkeypatch.setattr(nn.Module, kind, register)
    with pytest.raises(error), record_attention(model):
        pass
    monkeypatch.undo()
    assert hooks(model) == 0
    assert attention_weights(model, IMAGES).shape == (2, 2, HEADS, S, S)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("layers", ["fused", "torch's", "both"])
def test_nothing_is_left_of_an_interrupted_forward_pass(
    error: type[BaseException], layers: str
) -> None:
    kinds = {"fused": (Attention, Attention), "torch's": (Asked, Asked), "both": (Asked, Attention)}
    torch.manual_seed(0)
    model = ViT(*(kind() for kind in kinds[layers]))
    expected = attention_weights(model, IMAGES)
    places = [model.patch_embed, model.blocks[0].norm1, model.blocks[1].norm2, model.head]
    places += [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    for place in places:

        def fail(*_: Any) -> None:
            raise error

        handle = place.register_forward_hook(fail)
        with pytest.raises(error), torch.no_grad(), record_attention(model) as record:
            model(IMAGES)
        handle.remove()
        assert record == []
        assert hooks(model) == 0
        assert modes() == 0
        torch.testing.assert_close(attention_weights(model, IMAGES), expected)


def test_what_failed_half_way_is_not_in_the_record() -> None:
    model = vit(None, None, None)
    with torch.no_grad(), record_attention(model) as record:
        with pytest.raises(RuntimeError):
            model(IMAGES[:, :, :9])
        model(IMAGES)
    assert len(record) == 3


def test_after_ctrl_c_within_the_block_it_must_be_opened_again() -> None:
    model = ViT(Asked(), Attention())

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with torch.no_grad(), record_attention(model) as record:
        model(IMAGES)
        handle = model.blocks[0].attn.attention.register_forward_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(IMAGES)
        handle.remove()
        with pytest.raises(ValueError, match="an earlier call was interrupted"):
            model(IMAGES)
    assert len(record) == 2


def test_a_model_that_calls_itself_is_an_error() -> None:
    class Twice(ViT):
        def forward(self, x: Tensor, again: bool = True) -> Tensor:
            return self(x, False) + self(x.flip(-1), False) if again else super().forward(x)

    with pytest.raises(ValueError, match="Twice calls itself"):
        attention_weights(Twice(Attention(), Attention()), IMAGES)


def test_a_model_that_records_another_within_its_forward_pass() -> None:
    inner, outer = vit(None, None), vit(None, None, None, seed=1)
    seen: list[Tensor] = []

    def look(_: nn.Module, given: tuple, out: Tensor) -> None:
        seen.append(attention_weights(inner, given[0]))

    outer.patch_embed.register_forward_hook(look)
    with pytest.raises(ValueError, match=r"(side by side|all layers)"):
        attention_weights(outer, IMAGES)
    torch.testing.assert_close(seen[0], attention_weights(inner, IMAGES))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_is_recorded(backend: str) -> None:
    model = vit(None, None)
    expected = attention_weights(model, IMAGES)
    for block in model.blocks:
        block.attn.attend = torch.compile(block.attn.attend, backend=backend)
    with torch.no_grad():
        model(IMAGES)
    torch.testing.assert_close(attention_weights(model, IMAGES), expected)


@pytest.mark.parametrize("trace", [False, True])
def test_torchscript_is_refused_or_followed(trace: bool) -> None:
    model = vit(None, None)
    model.blocks[1] = torch.jit.trace(model.blocks[1], torch.zeros(2, S, D))
    whole = torch.jit.trace(model, IMAGES) if trace else model
    with pytest.raises(ValueError, match=r"ViT|TopLevelTracedModule"):
        attention_weights(whole, IMAGES)


# --- the grid of patches -------------------------------------------------------------------------


class Embedded(ViT):
    """Patches by any module, and tokens before them."""

    def __init__(self, patches: nn.Module, before: int = 1, **sizes: int) -> None:
        super().__init__(Attention(), Attention())
        self.patch_embed = patches
        self.before = nn.Parameter(torch.randn(1, before, D))
        for name, size in sizes.items():
            setattr(self, name, size)

    def tokens(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        x = x.flatten(2).transpose(1, 2) if x.dim() == 4 else x
        return torch.cat([self.before.expand(len(x), -1, -1), x], dim=1)


class Cut(nn.Module):
    """Patches by reshape and a linear layer, which tell no grid."""

    def __init__(self, stride: int = 8) -> None:
        super().__init__()
        self.stride = stride
        self.linear = nn.Linear(3 * 64, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.unfold(x, 8, stride=self.stride).transpose(1, 2))


class Functional(nn.Module):
    """A convolution by its function."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, 3, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, stride=8)


STEM = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, D, 4, 4))
GRIDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int], tuple[int, int]]] = {
    "a class token": (lambda: Embedded(nn.Conv2d(3, D, 8, 8)), (32, 32), (4, 4)),
    "no class token": (lambda: Embedded(nn.Conv2d(3, D, 8, 8), 0), (32, 32), (4, 4)),
    "36 patches and 29 prompts": (lambda: Embedded(nn.Conv2d(3, D, 8, 8), 29), (48, 48), (6, 6)),
    "overlapping": (lambda: Embedded(nn.Conv2d(3, D, 16, 14)), (224, 224), (15, 15)),
    "padded": (lambda: Embedded(nn.Conv2d(3, D, 6, 4, 3)), (28, 28), (8, 8)),
    "padded, no class token": (lambda: Embedded(nn.Conv2d(3, D, 4, 4, 1), 0), (26, 26), (7, 7)),
    "a remainder": (lambda: Embedded(nn.Conv2d(3, D, 8, 8)), (30, 38), (3, 4)),
    "no square": (lambda: Embedded(nn.Conv2d(3, D, 8, 8)), (32, 48), (4, 6)),
    "patches no square": (lambda: Embedded(nn.Conv2d(3, D, (8, 4), (8, 4))), (32, 32), (4, 8)),
    "a function": (lambda: Embedded(Functional()), (32, 32), (4, 4)),
    "convolutions between blocks": (
        lambda: Embedded(nn.Sequential(nn.Conv2d(3, D, 8, 8), nn.Conv2d(D, D, 3, padding=1))),
        (32, 32),
        (4, 4),
    ),
    "resized within": (
        lambda: Embedded(nn.Sequential(nn.Upsample((64, 64)), nn.Conv2d(3, D, 8, 8))),
        (32, 32),
        (8, 8),
    ),
    "a stem of convolutions": (
        lambda: Embedded(STEM, image_size=32, patch_size=8),
        (32, 32),
        (4, 4),
    ),
}


@pytest.mark.parametrize("name", GRIDS)
def test_the_grid_is_the_models_own(name: str) -> None:
    make, size, grid = GRIDS[name]
    model, images = make().eval(), torch.randn(2, 3, *size)
    assert patch_grid(model, images) == grid
    rows = attention_weights(model, images, query=0)
    assert to_maps(rows, grid).shape[-2:] == grid
    assert modes() == hooks(model) == 0


@pytest.mark.parametrize(
    "model",
    [
        lambda: Embedded(Cut()),
        lambda: Embedded(STEM),
        lambda: Embedded(nn.Sequential(nn.Conv2d(3, D, 4, 4), nn.Conv2d(D, D, 2, 2))),
    ],
)
def test_a_grid_that_is_not_known_is_asked_for(
    model: Callable[[], nn.Module], tmp_path: Path
) -> None:
    made = model().eval()
    with pytest.raises(ValueError, match=r"is not known.*Give grid=\(rows, columns\)"):
        patch_grid(made, IMAGES)
    data = ImageData(
        torch.randint(0, 255, (10, 3, 32, 32), dtype=torch.uint8),
        torch.arange(10),
        tuple("0123456789"),
        "noise",
        (0.5,) * 3,
        (0.5,) * 3,
    )
    given: dict[str, Any] = {"per_class": 1}
    with pytest.raises(ValueError, match=r"Give grid=\(rows, columns\)"):
        mnist_vit.explore(made, data, out=tmp_path / "page.html", **given)
    with pytest.raises(ValueError, match="5 × 5 patches needs 25 tokens, got 17"):
        mnist_vit.explore(made, data, out=tmp_path / "page.html", grid=(5, 5), **given)
    assert mnist_vit.explore(made, data, out=tmp_path / "page.html", grid=(4, 4), **given).is_file()
    mnist_vit.visualize_attention(made, data, out=tmp_path / "maps", grid=(2, 8), **given)
    numbers = json.loads((tmp_path / "maps" / "0_0" / "attention.json").read_text())
    assert np.array(numbers["rollout"]).shape == (2, 8)


def test_sizes_that_do_not_fit_the_patches_are_not_believed() -> None:
    model = Embedded(Cut(stride=4), image_size=32, patch_size=8).eval()
    with pytest.raises(ValueError, match=r"Give grid=\(rows, columns\)"):
        patch_grid(model, IMAGES)
    with pytest.raises(ValueError, match=r"images must be floats \(n, c, h, w\)"):
        patch_grid(model, IMAGES[0])


@pytest.mark.parametrize("grid", [[4, 4], np.array([4, 4]), torch.Size([4, 4])])
def test_a_grid_may_be_any_pair_of_whole_numbers(grid: Any) -> None:
    assert to_maps(torch.ones(2, 17), grid).shape == (2, 4, 4)


@pytest.mark.parametrize(
    "grid", [(0, 4), (4, 5), (-2, -8), (2.0, 8), (17, 1.5), (4, 4, 1), (16,), 4, "44"]
)
def test_a_grid_that_does_not_fit_is_an_error(grid: tuple[int, int]) -> None:
    for call in (
        lambda: to_maps(torch.ones(1, 17), grid),
        lambda: mean_attention_distance(torch.ones(1, 1, 1, 17, 17) / 17, 8, grid),
    ):
        with pytest.raises(ValueError, match=r"(whole numbers?|patches needs)"):
            call()
