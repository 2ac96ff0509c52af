"""Attention weights are the model's own, per layer and head; pictures on disk show these
numbers."""

import copy
import io
import itertools
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import randomise, square_maps
from javascript import EXPLORER, data_of
from matplotlib import colormaps
from PIL import Image
from published_vits import Plain, plain
from survivor import toy_maps
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision import models

import mnist_vit
from mnist_vit import explorer, gallery, jobs
from mnist_vit.attention import (
    attention_weights,
    head_contributions,
    ink_share,
    mean_attention_distance,
    record_attention,
    rollout,
    to_maps,
)
from mnist_vit.data import load_embedded
from mnist_vit.fast import FastVisionTransformer
from mnist_vit.files import shipped
from mnist_vit.gallery import replacing, save_attention_images
from mnist_vit.model import MultiHeadAttention, VisionTransformer, vit_mnist
from mnist_vit.relevance import relevance


def scratch(model: nn.Module) -> nn.Module:
    """The model with attention from scratch in every block."""
    model = copy.deepcopy(model)
    for block in model.encoder.layers:
        attention = MultiHeadAttention(
            block.self_attention.embed_dim, block.self_attention.num_heads
        )
        attention.load_state_dict(block.self_attention.state_dict())
        block.self_attention = attention
    return model


def build(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if name == "torchvision":
        model = models.VisionTransformer(32, 8, 3, 4, 32, 64, num_classes=7)
    else:
        model = VisionTransformer(12, 4, 3, 2, 16, 32, num_classes=5, in_channels=1)
    randomise(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3
    model = scratch(model) if name == "scratch" else model
    return model, torch.randn(2, model.conv_proj.in_channels, model.image_size, model.image_size)


def by_hand(model: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """The definition: softmax of q kᵀ / √d in every layer."""
    x = model._process_input(images)
    x = (
        torch.cat([model.class_token.expand(len(x), -1, -1), x], dim=1)
        + model.encoder.pos_embedding
    )
    weights = []
    for block in model.encoder.layers:
        attention = block.self_attention
        q, k, _ = (block.ln_1(x) @ attention.in_proj_weight.T + attention.in_proj_bias).chunk(
            3, dim=-1
        )
        q, k = (t.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for t in (q, k))
        weights.append((q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1))
        x = block(x)
    return weights


@pytest.mark.parametrize("name", ["ours", "scratch", "torchvision"])
def test_weights_are_the_softmax_of_the_scores(name: str) -> None:
    model, images = build(name)
    with torch.no_grad():
        expected = torch.stack(by_hand(model.eval(), images), dim=1)
    got = attention_weights(model, images)
    s = model.seq_length
    assert got.shape == (2, 3, model.encoder.layers[0].num_heads, s, s)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(got.sum(-1), torch.ones(got.shape[:-1]))
    torch.testing.assert_close(attention_weights(model, images, query=0), got[..., 0, :])
    torch.testing.assert_close(
        attention_weights(model, images, query=2, batch_size=1), got[..., 2, :]
    )


@pytest.mark.parametrize("name", ["ours", "scratch", "torchvision"])
def test_recording_changes_nothing_and_leaves_nothing(name: str) -> None:
    model, images = build(name)
    model.eval()
    with torch.no_grad():
        before = model(images)
        with record_attention(model) as record:
            during = model(images)
        assert torch.equal(model(images), before)
    assert torch.equal(during, before)
    assert len(record) == 3
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with record_attention(model) as record:
        during = model(images)
    torch.testing.assert_close(during, model(images))
    with pytest.raises(RuntimeError, match="mine"), record_attention(model):
        raise RuntimeError("mine")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("name", "images", "shape"),
    [
        ("vit_b_16", 1, (1, 12, 12, 197, 197)),
        pytest.param("vit_b_32", 2, (2, 12, 12, 50, 50), marks=pytest.mark.full),
        pytest.param("vit_l_32", 1, (1, 24, 16, 50, 50), marks=pytest.mark.full),
        pytest.param("vit_l_16", 2, (2, 24, 16, 197, 197), marks=pytest.mark.full),
    ],
)
def test_torchvisions_own(name: str, images: int, shape: tuple[int, ...]) -> None:
    """Compared with the definition, in every layer; the layers' inputs are the model's own."""
    torch.manual_seed(0)
    model = models.get_model(name)
    batch = torch.randn(images, 3, 224, 224)
    got = attention_weights(model, batch)
    assert got.shape == shape
    with torch.no_grad():
        for layer, expected in enumerate(by_hand(model.eval(), batch)):
            torch.testing.assert_close(got[:, layer], expected, atol=1e-5, rtol=1e-3)


def test_the_largest_without_its_memory() -> None:
    """vit_h_14 has 633 million parameters; on the meta device shapes are computed and nothing
    else."""
    with torch.device("meta"):
        model = models.vit_h_14()
    weights = attention_weights(model, torch.zeros(2, 3, 224, 224), query=0)
    assert weights.shape == (2, 32, 16, 257)
    assert weights.is_meta


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_sizes_heads_and_kinds_of_numbers(dtype: torch.dtype, images: int) -> None:
    torch.manual_seed(0)
    model = models.VisionTransformer(96, 16, 2, 4, 32, 64, num_classes=7, representation_size=12)
    batch = torch.randn(images, 3, 96, 96)
    expected = attention_weights(model, batch)
    got = attention_weights(model.to(dtype), batch)
    assert got.shape == (images, 2, 4, 37, 37)
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), expected, atol=0.01, rtol=0.05)
    with pytest.raises(AssertionError, match="Wrong image height! Expected 96 but got 64"):
        attention_weights(model, torch.zeros(1, 3, 64, 64))


@pytest.mark.parametrize("name", ["ours", "fused"])
def test_threads_do_not_see_each_others_records(name: str) -> None:
    """Eight threads with one model in train mode, records and results alternating."""
    if name == "ours":
        model = VisionTransformer(
            12, 4, 3, 2, 16, 32, dropout=0.5, attention_dropout=0.5, num_classes=5, in_channels=1
        )
        randomise(model)
    else:
        model = fused_vit().train()
    images = torch.randn(8, 1, 12, 12) if name == "ours" else torch.randn(8, 3, 32, 32)
    alone = [attention_weights(model, image[None]) for image in images]
    parts = [head_contributions(model, image[None], 1)[0] for image in images if name == "ours"]

    def work(i: int) -> bool:
        right = [
            torch.equal(attention_weights(model, images[i : i + 1]), alone[i]) for _ in range(20)
        ]
        right += [
            torch.equal(head_contributions(model, images[i : i + 1], 1)[0], parts[i])
            for _ in parts[:5]
        ]
        return all(right)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))
    assert all(module.training for module in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_in_train_mode_rows_after_dropout_are_warned_of() -> None:
    model = VisionTransformer(
        12, 4, 2, 2, 16, 32, attention_dropout=0.5, num_classes=5, in_channels=1
    )
    with (
        pytest.warns(UserWarning, match="after attention dropout: rows do not sum to 1"),
        record_attention(model),
    ):
        model(torch.randn(1, 1, 12, 12))
    with warnings.catch_warnings(), record_attention(model.eval()):
        warnings.simplefilter("error")
        model(torch.randn(1, 1, 12, 12))


class Stingy(nn.Module):
    """Attention of a learner's own, whose forward returns no weights."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention, self.num_heads = [attention], attention.num_heads
        self.in_proj_weight = attention.in_proj_weight

    def forward(
        self, x: torch.Tensor, *_: object, need_weights: bool, average_attn_weights: bool = True
    ) -> tuple[torch.Tensor, None]:
        return self.attention[0](x, x, x, need_weights=False)[0], None


class Deaf(Stingy):
    """And one that cannot even be asked."""

    def forward(self, x: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor, None]:
        return super().forward(x, need_weights=False)


def fewer_layers(how: str) -> nn.Module:
    model = vit_mnist(7).eval()
    block = model.encoder.layers[0]
    if how == "compiled":
        return torch.compile(model, backend="eager")
    elif how == "compiled in place":
        model.compile(backend="eager")
    elif how == "a part compiled":
        model.encoder = torch.compile(model.encoder, backend="eager")
    elif how in ("no weights", "cannot be asked"):
        block.self_attention = (Stingy if how == "no weights" else Deaf)(block.self_attention)
    elif how == "not called":
        block.forward = lambda x: x
    return FastVisionTransformer(model) if how == "fast" else model


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("compiled", "was compiled"),
        ("compiled in place", "was compiled"),
        ("a part compiled", "was compiled"),
        ("no weights", "Stingy .*need_weights=True"),
        ("cannot be asked", "Deaf .*need_weights=True"),
        ("not called", "only 1 .* at least 2"),
        ("fast", "only 1 .* at least 2.* FastVisionTransformer.* plain model"),
    ],
)
def test_fewer_layers_than_the_model_has_is_an_error(how: str, said: str) -> None:
    model, image = fewer_layers(how), torch.zeros(1, 1, 28, 28)
    with pytest.raises(ValueError, match=said):
        attention_weights(model, image)
    with torch.no_grad(), pytest.raises(ValueError, match=said), record_attention(model):
        model(image)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (models.swin_t, r"SwinTransformer .*softmax.* windows"),
        (models.maxvit_t, "MaxVit .*softmax"),
        (models.resnet18, "ResNet .*only 0 .* at least 1.* Convolutions"),
        (models.convnext_tiny, "ConvNeXt .*only 0 "),
        (lambda: Plain(224, 16, 2, 2, 8, 16), "Plain .*softmax"),
        (lambda: plain(attend=several)(224, 16, 1, 2, 8, 16), r"\(1, 197, 197\).*n, num_heads"),
        (lambda: plain(attend=shrinking)(224, 16, 2, 2, 8, 16), r"\(1, 2, 197, 98\)"),
    ],
)
def test_attention_that_cannot_be_recorded_is_an_error(
    make: Callable[[], nn.Module], said: str
) -> None:
    with torch.device("meta"):
        model = make()
    with pytest.raises(ValueError, match=said):
        attention_weights(model, torch.zeros(1, 3, 224, 224))
    with pytest.raises(ValueError, match=said), record_attention(model):
        model(torch.zeros(1, 3, 224, 224, device="meta"))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


# --- models that call F.scaled_dot_product_attention; those of other libraries: test_other_vits.py
# ---


def fused(model: nn.Module, block: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
    return block.proj(model.merge(F.scaled_dot_product_attention(*model.split(block, x))))


def several(model: nn.Module, block: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
    """A call for each head: which layer a call belongs to cannot be known."""
    heads = zip(*(part.unbind(1) for part in model.split(block, x)), strict=True)
    return block.proj(
        torch.cat([F.scaled_dot_product_attention(q, k, v) for q, k, v in heads], dim=-1)
    )


def shrinking(model: nn.Module, block: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
    """All tokens ask every second one."""
    q, k, v = model.split(block, x)
    return block.proj(model.merge(F.scaled_dot_product_attention(q, k[:, :, 1::2], v[:, :, 1::2])))


SOFTMAXES = {
    "F.softmax": lambda x: F.softmax(x, dim=-1),
    "torch.softmax": lambda x: torch.softmax(x, dim=-1),
    "a method": lambda x: x.softmax(-1),
    "a module": nn.Softmax(dim=-1),
    "torch.special": lambda x: torch.special.softmax(x, dim=-1),
    "its logarithm": lambda x: F.log_softmax(x, dim=-1).exp(),
    "heads in the batch": lambda x: x.flatten(0, 1).softmax(dim=-1).view_as(x),
}


@pytest.mark.parametrize("how", SOFTMAXES)
def test_a_layer_with_a_softmax_of_its_own_beside_fused_ones_is_an_error(how: str) -> None:
    def attend(model: nn.Module, block: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
        return (fused if block is model.blocks[0] else Plain.attend)(model, block, x)

    model = fused_vit(attend=attend, weigh=lambda self, q, k: SOFTMAXES[how](q @ k.mT * self.scale))
    with pytest.raises(ValueError, match="softmax of its own"):
        attention_weights(model, torch.zeros(1, 3, 32, 32))


def fused_vit(**pieces: Callable) -> nn.Module:
    torch.manual_seed(0)
    model = plain(**{"attend": fused} | pieces)(32, 8, 3, 4, 32, 64, num_classes=7).eval()
    with torch.no_grad():
        for block in model.blocks:
            block.qkv.weight *= 5  # so that some weights are large
    return model


def test_fused_attention_is_recorded_beside_it() -> None:
    model, images = fused_vit(), torch.randn(2, 3, 32, 32)
    by_hand: list[torch.Tensor] = []

    def keep(self: nn.Module, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        by_hand.append(Plain.weigh(self, q, k))
        return by_hand[-1]

    with torch.no_grad():
        before = model(images)
        fused_vit(attend=Plain.attend, weigh=keep)(images)
        with record_attention(model) as record:
            during = model(images)
    assert torch.equal(during, before)
    assert max(weights.max() for weights in by_hand) > 0.5
    torch.testing.assert_close(torch.stack(record), torch.stack(by_hand), atol=1e-5, rtol=0)
    whole = attention_weights(model, images)
    assert torch.equal(whole, torch.stack(record, dim=1))
    torch.testing.assert_close(
        attention_weights(model, images, query=-1, batch_size=1), whole[..., -1, :]
    )
    torch.testing.assert_close(
        attention_weights(model, images, 3, layers=[2, 0]), whole[:, [2, 0], :, 3]
    )
    for wrong, error in (([3], IndexError), ([-1], ValueError), (1, ValueError), ([], ValueError)):
        with pytest.raises(error, match="layers must be"):
            attention_weights(model, images, layers=wrong)


def test_layers_and_query_of_torchs_own_layers() -> None:
    model, images = build("torchvision")
    whole = attention_weights(model, images)
    assert torch.equal(attention_weights(model, images, 1, layers=[2, 1]), whole[:, [2, 1], :, 1])
    with pytest.raises(IndexError, match="layers must be 0 to 2, got 3"):
        attention_weights(model, images, layers=range(4))
    with torch.no_grad(), record_attention(model.eval(), layers=[1], query=0) as record:
        model(images)
        model(images[:1])  # layers are counted from 0 in each pass
    torch.testing.assert_close(record, [whole[:, 1, :, 0], whole[:1, 1, :, 0]])


class Largest(TorchDispatchMode):
    """Counts the tensors that are made and hold a row of weights for each token, image and head."""

    whole = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        whole = isinstance(made, torch.Tensor) and made.shape == (2, 4, 17, 17)
        self.whole += whole and made.untyped_storage().nbytes() == made.numel() * 4
        return made


@pytest.mark.parametrize("name", ["fused", "torchvision"])
def test_what_is_not_asked_for_is_not_kept(name: str) -> None:
    model, images = (fused_vit(), torch.randn(2, 3, 32, 32)) if name == "fused" else build(name)
    with torch.no_grad(), record_attention(model.eval(), query=0) as rows, Largest() as row:
        model(images)
    assert all(row.untyped_storage().nbytes() == row.numel() * 4 for row in rows), (
        "a view keeps all the rows"
    )
    with torch.no_grad(), Largest() as alone:
        model(images)
    with torch.no_grad(), record_attention(model), Largest() as everything:
        model(images)
    assert everything.whole >= 3, "or this test sees nothing"
    if name == "fused":
        assert row.whole == alone.whole < everything.whole, "one row is computed, not all of them"


class Calls(nn.Module):
    """A forward pass that is one call of F.scaled_dot_product_attention."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.scale, self.options = nn.Parameter(torch.ones(1)), options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, value=v, **self.options)


SOME = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(1)) < 0.6
OPTIONS: dict[str, dict] = {
    "none": {},
    "is_causal": {"is_causal": True},
    "boolean mask": {"attn_mask": SOME | torch.eye(9, dtype=torch.bool)},
    "boolean mask, no key for token 3": {"attn_mask": SOME & (torch.arange(9) != 3)[:, None]},
    "the same keys for all tokens": {"attn_mask": torch.arange(9)[None, None, None] < 6},
    "additive mask": {
        "attn_mask": torch.randn(4, 9, 9, generator=torch.Generator().manual_seed(2))
    },
    "additive mask with -inf": {
        "attn_mask": torch.zeros(9, 9).masked_fill(torch.ones(9, 9).triu(1) > 0, -torch.inf)
    },
    "scale": {"scale": 0.7},
    "no scale": {"scale": 0.0},
    "enable_gqa": {"enable_gqa": True},
    "enable_gqa, is_causal, scale": {"enable_gqa": True, "is_causal": True, "scale": 2.0},
    "dropout": {"dropout_p": 0.5},
}


def by_definition(q: torch.Tensor, k: torch.Tensor, options: dict) -> torch.Tensor:
    """Token by token, as the documentation of F.scaled_dot_product_attention has it."""
    n, heads, s, d = q.shape
    mask = options.get("attn_mask", torch.ones(s, s, dtype=torch.bool)).broadcast_to(n, heads, s, s)
    weights = torch.zeros(n, heads, s, s, dtype=torch.float64)
    for i, h, a in itertools.product(range(n), range(heads), range(s)):
        scores = torch.tensor(
            [
                q[i, h, a].double()
                @ k[i, h * k.shape[1] // heads, b].double()
                * options.get("scale", d**-0.5)
                for b in range(s)
            ]
        )
        if mask.dtype == torch.bool:
            allowed = mask[i, h, a] & (
                (torch.arange(s) <= a) | (not options.get("is_causal", False))
            )
            scores[~allowed] = -torch.inf
        else:
            scores += mask[i, h, a]
        if scores.max() > -torch.inf:
            weights[i, h, a] = (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()
    return weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", OPTIONS)
def test_whatever_the_call_is_given(name: str, dtype: torch.dtype) -> None:
    options = {
        key: x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype != torch.bool else x
        for key, x in OPTIONS[name].items()
    }
    model, few = Calls(**options), 2 if "enable_gqa" in options else 4
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 9, 8).to(dtype) * 2 for heads in (4, few, few))
    expected = by_definition(q, k, options)
    torch.manual_seed(5)
    plain_output = model(q, k, v)
    torch.manual_seed(5)
    with record_attention(model) as record:
        assert torch.equal(model(q, k, v), plain_output), "dropout draws the same numbers"
    bound = 1e-2 if dtype == torch.bfloat16 else 1e-6
    torch.testing.assert_close(record[0].double(), expected, atol=bound, rtol=0)
    assert record[0].dtype == dtype
    for token in (0, 3, 8):
        with record_attention(model, query=token) as row:
            model(q, k, v)
        torch.testing.assert_close(row[0].double(), expected[:, :, token], atol=bound, rtol=0)


def test_a_model_of_torchs_layers_keeps_its_fast_path() -> None:
    """In eval mode without gradients; otherwise the logits would differ by rounding."""
    model, images = build("torchvision")
    with torch.no_grad(), record_attention(model.eval()), torch.profiler.profile() as seen:
        model(images)
    names = [event.key for event in seen.key_averages()]
    assert "aten::_native_multi_head_attention" in names


def test_torchs_layers_beside_fused_ones() -> None:
    """As in Hugging Face's SigLIP, whose pooling is nn.MultiheadAttention: one token asks, which is
    no layer."""

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.pool = fused_vit(), nn.MultiheadAttention(32, 4, batch_first=True)
            self.probe = nn.Parameter(torch.randn(1, 1, 32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.body.encode(self.body.tokens(self.body.patches(x)))
            return self.pool(self.probe.expand(len(x), -1, -1), x, x)[0][:, 0]

    model, images = Pooled().eval(), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = model(images)
        with record_attention(model):
            assert torch.equal(model(images), expected)
    torch.testing.assert_close(
        attention_weights(model, images), attention_weights(model.body, images)
    )


def test_one_recording_inside_another() -> None:
    model, images = fused_vit(), torch.randn(1, 3, 32, 32)
    with torch.no_grad(), record_attention(model) as outer:
        with record_attention(model, query=0) as inner:
            model(images)
        model(images)
    assert len(outer) == 6
    torch.testing.assert_close(inner, [weights[:, :, 0] for weights in outer[:3]])


@pytest.mark.parametrize("part", ["attention", "all"])
def test_a_compiled_part_is_recorded_or_refused(part: str) -> None:
    model, images = fused_vit(), torch.randn(1, 3, 32, 32)
    expected = attention_weights(model, images)
    name = "attend" if part == "attention" else "encode"
    setattr(model, name, torch.compile(getattr(model, name), backend="aot_eager"))
    for _ in range(2):
        with torch.no_grad():
            model(images)  # compiled without a recorder, then with one
        torch.testing.assert_close(attention_weights(model, images), expected)
    with pytest.raises(ValueError, match=r"was compiled.* Give the model it was made from"):
        attention_weights(torch.compile(fused_vit(), backend="eager"), images)


def test_two_blank_patches_are_not_identical_maps() -> None:
    """If they were, the position embedding would have been skipped."""
    model = mnist_vit.load_model("vit_mnist_p7")
    digits = load_embedded()
    image = digits.normalise(digits.images[:1])
    weights = attention_weights(model, image)[0]
    blank = nn.functional.max_pool2d(digits.images[:1].float(), 7)[0, 0] == 0
    first, second = square_maps(torch.arange(17))[blank][:2].tolist()
    assert (weights[0, :, first] - weights[0, :, second]).abs().max() > 1e-3


class Turned(nn.Module):
    """torch's layer as it is by default, tokens first, in a place where images come first."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **_: bool
    ) -> tuple[torch.Tensor, None]:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        return self.attention(query=q, key=k, value=v)[0].transpose(0, 1), None


@pytest.mark.parametrize(
    "name", ["ours", "scratch", "torchvision", "batch_first=False", "bias=False"]
)
def test_heads_add_up_to_the_layers_output(name: str) -> None:
    model, images = build(name)
    block = model.encoder.layers[1]
    if name == "bias=False":
        block.self_attention = nn.MultiheadAttention(16, 2, bias=False, batch_first=True)
    elif name == "batch_first=False":
        block.self_attention = Turned()
    model.eval()
    outputs: list[torch.Tensor] = []
    handle = block.self_attention.register_forward_hook(lambda m, a, out: outputs.append(out[0]))
    with torch.no_grad():
        model(images)
    handle.remove()
    parts, bias = head_contributions(model, images, 1)
    assert parts.shape[1] == model.encoder.layers[0].num_heads
    torch.testing.assert_close(parts.sum(1) + bias, outputs[0], atol=1e-4, rtol=1e-4)


def test_to_maps_puts_patches_back() -> None:
    row = torch.arange(10.0)
    assert to_maps(row, (3, 3)).tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert to_maps(row, grid=(2, 4)).tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert to_maps(row, grid=(2, 5)).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert to_maps(row.expand(2, 3, 10), (9, 1)).shape == (2, 3, 9, 1)


def test_rollout() -> None:
    identity = torch.eye(3).expand(2, 4, 2, 3, 3)
    torch.testing.assert_close(rollout(identity), torch.eye(3).expand(2, 3, 3))
    first, second = torch.rand(2, 1, 2, 3, 3).softmax(-1).unbind(0)
    got = rollout(torch.stack([first, second], dim=1))
    a, b = ((layer.mean(1) + torch.eye(3)) / 2 for layer in (first, second))
    torch.testing.assert_close(got, b @ a)  # the last layer reads what the first has written
    torch.testing.assert_close(got.sum(-1), torch.ones(1, 3))


def test_mean_attention_distance() -> None:
    weights = torch.zeros(1, 1, 3, 5, 5)
    weights[..., 0, 0] = 1
    weights[0, 0, 0, 1:, 1:] = torch.eye(4)  # every patch looks at itself
    weights[0, 0, 2, 1:, 1:] = 0.25  # everywhere alike, half of the row on the class token
    weights[0, 0, 2, 1:, 0] = 1
    weights[0, 0, 1, 1:, 1:] = torch.eye(4)[[1, 0, 3, 2]]  # at the neighbour in the row
    got = mean_attention_distance(weights, patch_size=7, grid=(2, 2))
    assert got.shape == (1, 3)
    assert got[0].tolist() == pytest.approx([0, 7, (0 + 7 + 7 + 7 * 2**0.5) / 4], abs=1e-5)
    column = mean_attention_distance(
        weights[..., 1:, 1:], 7, grid=(4, 1)
    )  # no class token, patches in one column
    assert column[0].tolist() == pytest.approx([0, 7, 7 * (6 + 4 + 4 + 6) / 16], abs=1e-5)


def test_ink_share() -> None:
    pictures = torch.zeros(1, 1, 4, 4)
    pictures[0, 0, 0, 0] = 9
    maps = torch.tensor([[[0.5, 0.1], [0.1, 0.1]], [[0.0, 1.0], [1.0, 0.0]]])[None]
    share, chance = ink_share(maps, pictures)
    assert share[0].tolist() == pytest.approx([0.625, 0.0])
    assert chance.tolist() == [0.25]
    share, chance = ink_share(torch.ones(1, 1, 2, 4), pictures)
    assert (share.tolist(), chance.tolist()) == ([[0.125]], [0.125])


def test_the_shipped_models_look_at_the_ink() -> None:
    """Believable maps: over 100 digits some head looks at ink well more than chance would."""
    digits = load_embedded()
    chosen = torch.arange(0, 5000, 50)
    pictures = digits.images[chosen]
    for name in ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7"):
        weights = attention_weights(mnist_vit.load_model(name), digits.normalise(pictures), query=0)
        share, chance = ink_share(square_maps(weights), pictures)
        assert share.mean(0).max() > 1.2 * chance.mean(), name


# --- on disk ---


def test_pictures_on_disk(tmp_path: Path) -> None:
    model, _ = build("ours")
    pictures = torch.randint(0, 255, (2, 1, 12, 12), dtype=torch.uint8)
    images = pictures.float() / 255
    names = ["0_7", "<b>_1"]
    save_attention_images(model, images, pictures, names, tmp_path, tuple("01234"), [0, 1])
    weights = attention_weights(model, images, query=0)
    for i, name in enumerate(names):
        files = {path.name for path in (tmp_path / name).iterdir()}
        maps = {f"layer_{i}_head_{j}.png" for i, j in itertools.product(range(3), range(2))}
        own = {"image.png", "relevance.png", "rollout.png", "attention.json"}
        assert files == own | maps
        stored = json.loads((tmp_path / name / "attention.json").read_text())
        np.testing.assert_allclose(
            stored["layers_heads_rows_columns"], square_maps(weights[i]).numpy(), atol=1e-6
        )
        for layer in range(3):
            maps = square_maps(weights[i, layer])
            low, high = stored["colour_scale_per_layer"][layer]
            assert (low, high) == pytest.approx((maps.min().item(), maps.max().item()), abs=1e-6)
            for head in range(2):
                drawn = np.asarray(Image.open(tmp_path / name / f"layer_{layer}_head_{head}.png"))
                step = drawn.shape[0] // 3
                expected = colormaps["viridis"](
                    ((maps[head] - low) / (high - low)).numpy(), bytes=True
                )[..., :3]
                assert (
                    np.abs(drawn[step // 2 :: step, step // 2 :: step].astype(int) - expected).max()
                    <= 1
                )
                assert (drawn[:step, :step] == drawn[0, 0]).all(), "a patch is one flat square"


def test_relevance_on_disk_is_that_of_the_prediction(tmp_path: Path) -> None:
    """Red speaks for it, blue against it, white is zero; a model without a rule has none."""
    model, _ = build("ours")
    pictures = torch.randint(0, 255, (2, 1, 12, 12), dtype=torch.uint8)
    images = pictures.float() / 255
    given = (images, pictures, ["a", "b"])
    save_attention_images(model, *given, tmp_path / "with", tuple("01234"))
    values = to_maps(relevance(model, images), (3, 3))[1]
    stored = json.loads((tmp_path / "with" / "b" / "attention.json").read_text())
    np.testing.assert_allclose(stored["relevance_of_the_prediction"], values.numpy(), atol=2e-6)
    drawn = np.asarray(Image.open(tmp_path / "with" / "b" / "relevance.png")).astype(int)
    step = drawn.shape[0] // 3
    place = step // 2
    colour = torch.from_numpy(drawn[place::step, place::step])
    strong = values.abs() > 0.2 * values.abs().max()
    red_minus_blue = colour[..., 0] - colour[..., 2]
    assert torch.equal(red_minus_blue[strong] > 0, values[strong] > 0)
    model.encoder.layers[0].mlp[1] = torch.nn.Softplus()
    with pytest.warns(UserWarning, match="relevance is left out: .*no rule for Softplus"):
        save_attention_images(model, *given, tmp_path / "without", tuple("01234"))
    assert not (tmp_path / "without" / "b" / "relevance.png").exists()
    assert (tmp_path / "without" / "b" / "rollout.png").is_file()


def test_colours_can_be_read_in_grey_and_by_the_colour_blind() -> None:
    """More attention is lighter in the pictures and on the page; in green alone, too, which is left
    to one who does not see red."""
    drawn = np.array(gallery._heat(torch.linspace(0, 1, 64)[None], 0, 1))
    for colours in (torch.from_numpy(drawn[0]), explorer.VIRIDIS[::4]):
        values = colours.double() / 255
        linear = torch.where(values > 0.04045, ((values + 0.055) / 1.055) ** 2.4, values / 12.92)
        lightness = linear @ torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)
        assert (lightness.diff() > 0).all()
        assert (linear[:, 1].diff() >= 0).all()


def test_shipped_gallery_is_two_of_each_digit() -> None:
    folder = shipped("attention")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    first = [f"{digit}_{500 * digit}" for digit in range(10)]
    second = [f"{digit}_{500 * digit + 1}" for digit in range(10)]
    assert names == sorted(first + second)
    digits = load_embedded()
    model = mnist_vit.load_model("vit_mnist")
    for name in names[::5]:
        stored = json.loads((folder / name / "attention.json").read_text())
        index = int(name.partition("_")[2])
        weights = attention_weights(
            model, digits.normalise(digits.images[index : index + 1]), query=0
        )[0]
        np.testing.assert_allclose(
            stored["layers_heads_rows_columns"], square_maps(weights).numpy(), atol=1e-4
        )
        shown = np.asarray(Image.open(io.BytesIO((folder / name / "image.png").read_bytes())))
        assert (shown[4::8, 4::8] == digits.images[index, 0].numpy()).all()
    shown = data_of(folder / "index.html")
    assert {one["name"] for one in shown["examples"]} >= set(names)
    assert sum(map(sum, shown["matrix"]["counts"])) == 5000
    smallest = data_of(folder / "smallest.html")
    assert sorted(one["name"] for one in smallest["examples"]) == names, "the same names in both"
    patches = model.seq_length - 1, smallest["grid"][0] * smallest["grid"][1]
    for one, there in ((shown, smallest), (smallest, shown)):
        beside = one["beside"]
        assert beside["own"] == one["title"].removeprefix("Inside ")
        assert beside["name"] == there["title"].removeprefix("Inside ")
        assert beside["patches"] == beside["tokens"] - 1 == patches[one is shown]
    assert shown["beside"]["file"] == "smallest.html"
    assert shown["beside"]["first"]
    assert smallest["beside"]["file"] == "index.html"
    assert not smallest["beside"]["first"]
    for name in ("index.html", "smallest.html"):
        page = (folder / name).read_text(encoding="utf-8")
        for part in (path for path in EXPLORER.iterdir() if path.suffix in (".js", ".css")):
            assert part.read_text(encoding="utf-8") in page, (
                "mnist-vit demo --out maps, then cp maps/*.html attention/"
            )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_pictures_of_other_kinds_of_numbers_and_of_nan(dtype: torch.dtype, tmp_path: Path) -> None:
    model, images = build("ours")
    pictures = torch.zeros(2, 1, 12, 12, dtype=torch.uint8)
    save_attention_images(model.to(dtype), images, pictures, ["a", "b"], tmp_path, tuple("01234"))
    assert (tmp_path / "b" / "layer_2_head_1.png").is_file()
    model.encoder.layers[1].ln_1.weight.data[3] = torch.nan
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="outputs are NaN or infinite: training probably diverged"):
        save_attention_images(model, images, pictures, ["c", "d"], tmp_path, tuple("01234"))
    assert sorted(tmp_path.rglob("*")) == before


def test_maps_of_a_model_that_reads_the_mean_are_the_mean_over_the_patches(tmp_path: Path) -> None:
    model = VisionTransformer(12, 4, 3, 2, 16, 32, num_classes=5, in_channels=1, pool="mean")
    randomise(model)
    images, pictures = torch.randn(1, 1, 12, 12), torch.zeros(1, 1, 12, 12, dtype=torch.uint8)
    (drawn,) = save_attention_images(model, images, pictures, ["a"], tmp_path, tuple("01234"))
    weights = attention_weights(model, images)
    expected = square_maps(weights[0, ..., 1:, :].mean(dim=-2))
    np.testing.assert_allclose(drawn["layers_heads_rows_columns"], expected.numpy(), atol=1e-6)
    np.testing.assert_allclose(
        drawn["rollout"], square_maps(rollout(weights)[0, 1:].mean(dim=0)).numpy(), atol=1e-6
    )


def test_many_maps_are_drawn_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of all images at once would not fit in memory, nor all images on a page."""
    sizes: list[int] = []
    shown: list[str] = []

    def page(path: Path, model: object, images: object, pictures: object, names: list, *_, **__):
        shown.extend(names)
        return SimpleNamespace(instead="")

    monkeypatch.setattr(
        jobs, "save_attention_images", lambda _, images, *__: sizes.append(len(images))
    )
    monkeypatch.setattr(jobs, "write_page", page)
    mnist_vit.visualize_attention(vit_mnist(7), load_embedded(), per_class=60, out=tmp_path)
    assert sum(sizes) == 600
    assert max(sizes) <= 50
    assert len(shown) == explorer.MOST_LIVE


def test_the_page_goes_in_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is there has all that it names."""
    places: list[Path] = []
    replace = os.replace

    def replaced(source: Path, target: Path) -> None:
        places.append(Path(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    toy_maps(tmp_path, ["a", "b"], two=True)
    inside = [place.name for place in places if place.parent == tmp_path]
    assert sorted(inside[:2]) == ["a", "b"]
    assert inside[2:] == ["smallest.html", "index.html"]


def test_a_folder_holds_one_models_pictures(tmp_path: Path) -> None:
    """Those of an earlier, deeper model go, with the images it alone had; files of the user
    stay."""
    toy_maps(tmp_path, ["a", "b", "gone"], layers=3, two=True)
    assert (tmp_path / "smallest.html").is_file()
    toy_maps(tmp_path, ["kept"], page=False)
    for mine in (tmp_path / ".x.part", tmp_path / "a" / ".x.part", tmp_path / "kept" / "notes"):
        mine.write_text("mine")
    (tmp_path / "a" / ".image.png.123.part").write_text("an older version was killed")
    toy_maps(tmp_path, ["a", "b"], layers=2)
    maps = {f"layer_{i}_head_{j}.png" for i, j in itertools.product(range(2), range(2))}
    own = {"image.png", "relevance.png", "rollout.png", "attention.json"} | maps
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "kept", ".x.part", "index.html"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == own | {".x.part"}
    assert {path.name for path in (tmp_path / "b").iterdir()} == own
    (tmp_path / "index.html").replace(tmp_path / "smallest.html")  # a page that leads nowhere
    toy_maps(tmp_path, ["a", "b"], layers=2)
    assert (tmp_path / "smallest.html").is_file(), "a page of the user's"
    with suppress(RuntimeError), replacing(tmp_path) as new:
        (new / "a").mkdir()
        raise RuntimeError
    assert {path.name for path in (tmp_path / "a").iterdir()} == own | {".x.part"}
