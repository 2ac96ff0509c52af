"""The fast path gives the plain model's logits and gradients, and shares its parameters."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from helpers import randomise
from torch import nn
from torchvision.models import VisionTransformer as TheirVisionTransformer
from torchvision.models import resnet18

from mnist_vit import jobs
from mnist_vit.data import ImageData, Loader
from mnist_vit.fast import FastVisionTransformer, speed_up
from mnist_vit.model import VisionTransformer, vit_mnist

MODELS = {
    "course": lambda: vit_mnist(),
    "patches of 7": lambda: vit_mnist(7),
    "mean over patches": lambda: vit_mnist(7, pool="mean"),
    "one layer": lambda: VisionTransformer(8, 4, 1, 3, 12, 20, num_classes=3, in_channels=1),
    "five layers": lambda: VisionTransformer(12, 4, 5, 1, 8, 20, num_classes=3),
    "torchvision's": lambda: TheirVisionTransformer(32, 8, 3, 4, 32, 64, num_classes=7),
    "like vit_b_16": lambda: VisionTransformer(112, 16, 4, 12, 192, 768, num_classes=50),
    "mean, representation": lambda: VisionTransformer(
        16, 4, 2, 2, 24, 40, num_classes=5, representation_size=9, pool="mean"
    ),
    "large, representation": lambda: VisionTransformer(
        64, 4, 2, 4, 32, 48, num_classes=6, representation_size=12
    ),
}


def check_equal(
    model: nn.Module, fast: nn.Module, expected: torch.Tensor, got: torch.Tensor
) -> None:
    """Logits, and the gradient of every parameter, within 1e-5 x max(1, the largest)."""
    assert (got - expected).abs().max() <= 1e-5 * max(1, expected.abs().max())
    for logits in (expected, got):
        F.cross_entropy(logits, torch.arange(len(logits)) % logits.shape[1]).backward()
    for (key, a), (_, b) in zip(model.named_parameters(), fast.named_parameters(), strict=True):
        assert (b.grad - a.grad).abs().max() <= 1e-5 * max(1, a.grad.abs().max()), key


@pytest.mark.parametrize("name", MODELS)
def test_same_logits_and_gradients(name: str) -> None:
    model = MODELS[name]()
    randomise(model)
    fast = FastVisionTransformer(copy.deepcopy(model))
    images = torch.randn(3, model.conv_proj.in_channels, model.image_size, model.image_size)
    check_equal(model, fast, model(images), fast(images))
    with torch.no_grad():
        expected, got = model.eval()(images), fast.eval()(images)
    assert (got - expected).abs().max() <= 1e-5 * max(1, expected.abs().max())


@pytest.mark.parametrize("name", MODELS)
def test_a_choice_of_all_patches_changes_nothing(name: str) -> None:
    """Patches are cut and projected in another way, in another order."""
    model = MODELS[name]()
    randomise(model)
    everything = (model.image_size // model.patch_size) ** 2
    fast = FastVisionTransformer(copy.deepcopy(model), keep_patches=everything).train()
    images = torch.randn(3, model.conv_proj.in_channels, model.image_size, model.image_size)
    images[:, :, : model.patch_size] = 0.5
    check_equal(model, fast, model.train()(images), fast(images))


@pytest.mark.parametrize("pool", ["token", "mean"])
@pytest.mark.parametrize("training", [True, False])
def test_dropout_stands_where_it_stands_in_the_plain_model(
    pool: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a dropout that draws nothing but changes each channel by what it is asked for, both are
    equal again."""

    def dropout(x: torch.Tensor, p: float, training: bool, inplace: bool = False) -> torch.Tensor:
        return x * (1 + p * torch.arange(x.shape[-1]).cos()) if training else x

    def attend(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: None = None,
        dropout_p: float = 0.0,
        *_: bool,
    ) -> torch.Tensor:
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(dim=-1)
        return dropout(weights, dropout_p, True) @ v

    model = VisionTransformer(
        12, 4, 3, 2, 16, 24, 0.3, 0.2, num_classes=4, in_channels=1, pool=pool
    )
    randomise(model)
    model.train(training)
    fast = FastVisionTransformer(copy.deepcopy(model)).train(training)
    images = torch.randn(3, 1, 12, 12)
    without = model.eval()(images)
    model.train(training)
    monkeypatch.setattr(F, "dropout", dropout)
    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    logits = model(images)
    assert torch.allclose(logits, without, atol=1e-4) != training, (
        "the dropout of this test must show while training"
    )
    check_equal(model, fast, logits, fast(images))


@pytest.mark.parametrize("pool", ["token", "mean"])
def test_a_blank_patch_counts_for_those_left_out(pool: str) -> None:
    """Without positions all blank patches are one and the same: 5 of 47 must do what all of them
    do."""
    model = vit_mnist(4, pool=pool)
    randomise(model)
    nn.init.zeros_(model.encoder.pos_embedding)
    fast = FastVisionTransformer(copy.deepcopy(model), keep_patches=7)
    images = torch.full((3, 1, 28, 28), -0.4242)
    images[:, 0, 8:12, 8:16] = torch.randn(3, 4, 8)
    assert model(images).std() > 0.1
    torch.testing.assert_close(fast.train()(images), model(images), atol=1e-5, rtol=0)


def test_the_state_dict_is_the_models_own() -> None:
    model = vit_mnist(7)
    fast = FastVisionTransformer(model)
    assert list(fast.state_dict()) == list(model.state_dict())
    assert [id(p) for p in fast.parameters()] == [id(p) for p in model.parameters()]
    vit_mnist(7).load_state_dict(fast.state_dict(), strict=True)
    copied = copy.deepcopy(fast)
    with torch.no_grad():
        copied.class_token += 1
    assert not torch.equal(copied.class_token, model.class_token)


@pytest.mark.parametrize("where", ["dropout", "attention_dropout"])
def test_dropout_is_respected(where: str) -> None:
    """Off in eval mode; in train mode the mean over many passes is near the plain model's, and each
    pass differs."""
    model = VisionTransformer(8, 4, 1, 2, 16, 16, num_classes=4, in_channels=1, **{where: 0.3})
    randomise(model)
    fast = FastVisionTransformer(model)
    image = torch.randn(1, 1, 8, 8)
    torch.testing.assert_close(fast.eval()(image), model.eval()(image))
    fast.train()
    assert not torch.equal(fast(image), fast(image))
    many = image.expand(4000, -1, -1, -1)
    with torch.no_grad():
        mine, plain = fast.train()(many), model.train()(many)
    torch.testing.assert_close(mine.mean(0), plain.mean(0), atol=0.03, rtol=0)
    torch.testing.assert_close(mine.std(0), plain.std(0), atol=0.03, rtol=0.1)


def test_patches_left_out_while_training_are_blank_ones_first() -> None:
    model = vit_mnist(7)
    randomise(model)
    fast = FastVisionTransformer(model, keep_patches=5)
    images = torch.full((2, 1, 28, 28), -0.4242)
    images[0, 0, 0:7, 7:14] = torch.rand(7, 7)  # patch 1
    images[1, 0, 21:28, 21:28] = torch.rand(7, 7)  # patch 15
    # (n, c, h, w) -> (n, patches, pixels)
    pixels = F.unfold(images, 7, stride=7).mT
    orders = set()
    for _ in range(20):
        chosen = fast._choose_patches(pixels)[0]
        assert chosen.shape == (2, 5)
        assert 1 in chosen[0]
        assert 15 in chosen[1]
        assert all(len(set(row)) == 5 for row in chosen.tolist())
        orders.add(tuple(chosen[0].tolist()))
    assert len(orders) > 1


def test_evaluation_uses_all_patches() -> None:
    model = vit_mnist(7).eval()
    randomise(model)
    fast = FastVisionTransformer(model, keep_patches=3)
    images = torch.randn(2, 1, 28, 28)
    torch.testing.assert_close(fast.eval()(images), model(images))
    assert not torch.allclose(fast.train()(images), model(images), atol=1e-3)


class Backwards(VisionTransformer):
    """A learner's own model, with another forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.flip(-1))


def changed(how: str) -> nn.Module:
    model = (
        Backwards(28, 7, 2, 2, 64, 256, num_classes=10, in_channels=1)
        if how == "subclass"
        else vit_mnist(7)
    )
    randomise(model)
    block = model.encoder.layers[0]
    if how == "block":
        model.encoder.layers[0] = nn.Sequential(block)
    elif how == "forward":
        block.forward = lambda x: x
    elif how == "hook":
        block.self_attention.register_forward_hook(
            lambda module, args, output: (output[0] * 0, None)
        )
    elif how == "pre-hook":
        block.self_attention.register_forward_pre_hook(
            lambda module, args: tuple(x.flip(-1) for x in args)
        )
    elif how == "dropped mlp":
        block.mlp = nn.Identity()
    elif how == "overlapping patches":
        model.conv_proj = nn.Conv2d(1, 64, kernel_size=9, stride=7, padding=1)
    elif how in ("batch_first", "bias", "add_bias_kv", "add_zero_attn"):
        options = {"batch_first": True, how: how.startswith("add")}
        block.self_attention = nn.MultiheadAttention(64, 2, **options)
    return model


@pytest.mark.parametrize(
    "how",
    [
        "subclass",
        "forward",
        "hook",
        "pre-hook",
        "block",
        "dropped mlp",
        "overlapping patches",
        "batch_first",
        "bias",
        "add_bias_kv",
        "add_zero_attn",
    ],
)
def test_a_changed_model_computes_what_it_computes(how: str) -> None:
    """The recipes must not put the textbook model in the place of the one a learner built."""
    model = changed(how).eval()
    images = torch.randn(2, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(speed_up(model).eval()(images), model(images))
        if how in ("subclass", "forward", "hook", "pre-hook"):
            assert not torch.allclose(
                FastVisionTransformer(model).eval()(images), model(images), atol=1e-4
            )


def test_known_models_are_sped_up_and_others_are_not() -> None:
    assert isinstance(speed_up(vit_mnist(7)), FastVisionTransformer)
    assert isinstance(speed_up(MODELS["torchvision's"]()), FastVisionTransformer)
    cnn = resnet18()
    assert speed_up(cnn) is cnn
    for how in ("subclass", "overlapping patches"):
        with pytest.raises(ValueError, match="keep_patches works with the unchanged"):
            speed_up(changed(how), keep_patches=4)


@pytest.mark.parametrize(("full_epochs", "last"), [(None, 2), (0, 0), (1, 1)])
def test_the_last_epochs_of_a_training_use_all_patches(
    full_epochs: int | None, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of them if nothing is said, so that the model ends on pictures of the kind it will
    read."""
    seen = []

    def fit(
        fast: nn.Module, *loaders: Loader, before_epoch: Callable[[int], None], **keywords: object
    ) -> list:
        for epoch in range(8):
            before_epoch(epoch)
            seen.append(fast.keep_patches)
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "fit", fit)
    images, labels = torch.zeros(10, 1, 28, 28, dtype=torch.uint8), torch.arange(10)
    toy = ImageData(images, labels, tuple("0123456789"), "toy", (0.5,), (0.5,))
    with pytest.raises(KeyboardInterrupt):
        jobs.train(vit_mnist(7), toy, epochs=8, keep_patches=5, full_epochs=full_epochs)
    assert seen == [5] * (8 - last) + [None] * last
