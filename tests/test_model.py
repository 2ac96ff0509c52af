"""Our classes are torchvision's: start values, outputs, gradients, in every mode; nonsense is told
in a sentence."""

import copy
import pickle
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from helpers import randomise
from torch import nn
from torchvision.models import vision_transformer as theirs
from torchvision.ops import MLP as TheirMLP

from mnist_vit import load_model, record_attention
from mnist_vit.model import MLP, MLPBlock, MultiHeadAttention, VisionTransformer, vit_mnist

# image, patch, layers, heads, hidden, mlp; then the keywords
CONFIGS = {
    "course": (
        (28, 2, 2, 2, 64, 256),
        {"num_classes": 10, "representation_size": 32, "in_channels": 1},
    ),
    "course, patches of 7": (
        (28, 7, 2, 2, 64, 256),
        {"num_classes": 10, "representation_size": 32, "in_channels": 1},
    ),
    "cifar": ((32, 4, 4, 4, 48, 192), {"num_classes": 10}),
    "one head, one patch": ((8, 8, 1, 1, 4, 8), {"num_classes": 2}),
    "odd numbers": ((15, 5, 3, 3, 21, 10), {"num_classes": 7, "representation_size": 5}),
    "dropout": ((16, 4, 2, 4, 32, 64), {"num_classes": 5, "dropout": 0.3}),
    "attention dropout": (
        (16, 4, 2, 2, 32, 64),
        {"num_classes": 5, "dropout": 0.1, "attention_dropout": 0.4},
    ),
    "LayerNorm eps": ((16, 8, 2, 2, 16, 16), {"num_classes": 5, "norm_layer": nn.LayerNorm}),
}


def pair(name: str) -> tuple[nn.Module, VisionTransformer]:
    """torchvision's model and ours, from the same seed; theirs with one channel where ours has
    one."""
    sizes, keywords = CONFIGS[name]
    channels = keywords.get("in_channels", 3)
    their_keywords = {key: value for key, value in keywords.items() if key != "in_channels"}
    convolution = nn.Conv2d

    def with_channels(in_channels: int, *args: object, **kwargs: object) -> nn.Conv2d:
        return convolution(channels, *args, **kwargs)

    with (
        mock.patch.object(theirs.nn, "Conv2d", with_channels),
        mock.patch.object(theirs, "isinstance", _is, create=True),
    ):
        torch.manual_seed(3)
        their_model = theirs.VisionTransformer(*sizes, **their_keywords)
    torch.manual_seed(3)
    return their_model, VisionTransformer(*sizes, **keywords)


def _is(thing: object, kind: object) -> bool:
    """isinstance, while nn.Conv2d is replaced by a function."""
    return isinstance(thing, kind if isinstance(kind, type) else nn.modules.conv.Conv2d)


def assert_equal(got: dict, expected: dict) -> None:
    assert list(got) == list(expected)
    for key, value in expected.items():
        assert torch.equal(got[key], value), key


@pytest.mark.parametrize("name", CONFIGS)
def test_start_values_are_torchvisions(name: str) -> None:
    their_model, our_model = pair(name)
    assert_equal(our_model.state_dict(), their_model.state_dict())
    assert [n for n, _ in our_model.named_modules()] == [n for n, _ in their_model.named_modules()]
    assert not our_model.heads.head.weight.any()
    for attribute in (
        "image_size",
        "patch_size",
        "hidden_dim",
        "mlp_dim",
        "dropout",
        "attention_dropout",
        "seq_length",
        "num_classes",
        "representation_size",
    ):
        assert getattr(our_model, attribute) == getattr(their_model, attribute)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_every_gradient_are_torchvisions(name: str, training: bool) -> None:
    their_model, our_model = pair(name)
    randomise(their_model, our_model)
    (image_size, *_), keywords = CONFIGS[name]
    images = torch.randn(3, keywords.get("in_channels", 3), image_size, image_size)
    labels = torch.tensor([0, 1, 1])
    logits = []
    for model in (their_model, our_model):
        model.train(training)
        torch.manual_seed(5)  # the same dropout
        logits.append(model(images))
        F.cross_entropy(logits[-1], labels).backward()
    assert torch.equal(*logits)
    assert logits[0].abs().max() > 0.01
    for (key, theirs_), (_, ours_) in zip(
        their_model.named_parameters(), our_model.named_parameters(), strict=True
    ):
        assert torch.equal(ours_.grad, theirs_.grad), key
    with torch.no_grad():
        torch.manual_seed(5)
        expected = their_model(images)
        torch.manual_seed(5)
        assert torch.equal(our_model(images), expected)


def test_vit_b_16_is_torchvisions_both_ways() -> None:
    torch.manual_seed(0)
    their_model = theirs.vit_b_16()
    torch.manual_seed(0)
    our_model = VisionTransformer(224, 16, 12, 12, 768, 3072)
    assert sum(p.numel() for p in our_model.parameters()) == 86_567_656
    assert_equal(our_model.state_dict(), their_model.state_dict())
    randomise(their_model)
    our_model.load_state_dict(their_model.state_dict(), strict=True)
    image = torch.randn(1, 3, 224, 224)
    their_logits, our_logits = their_model(image), our_model(image)
    assert torch.equal(our_logits, their_logits)
    their_logits.sum().backward()
    our_logits.sum().backward()
    assert all(
        torch.equal(a.grad, b.grad)
        for a, b in zip(our_model.parameters(), their_model.parameters(), strict=True)
    )
    with torch.no_grad():
        assert torch.equal(our_model.eval()(image), their_model.eval()(image))
        our_model.class_token += 1
    their_model.load_state_dict(our_model.state_dict(), strict=True)
    assert torch.equal(their_model.class_token, our_model.class_token)


def test_weights_of_before_torchvision_0_14_load() -> None:
    """torchvision's own ImageNet files name the linear layers of an MLP linear_1 and linear_2."""
    model = vit_mnist(7)
    names = [
        k.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2.")
        for k in model.state_dict()
    ]
    old, other = dict(zip(names, model.state_dict().values(), strict=True)), vit_mnist(7)
    other.load_state_dict(old, strict=True)
    assert_equal(other.state_dict(), model.state_dict())


@pytest.mark.parametrize(
    "arguments",
    [
        {"in_channels": 5, "hidden_channels": [7]},
        {"in_channels": 5, "hidden_channels": [7, 3], "dropout": 0.5},
        {
            "in_channels": 5,
            "hidden_channels": [7, 8, 3],
            "norm_layer": nn.LayerNorm,
            "activation_layer": nn.GELU,
        },
        {"in_channels": 5, "hidden_channels": [7, 3], "inplace": True, "bias": False},
    ],
)
def test_mlp_is_torchvisions(arguments: dict) -> None:
    torch.manual_seed(0)
    their_mlp = TheirMLP(**arguments)
    torch.manual_seed(0)
    our_mlp = MLP(**arguments)
    assert_equal(our_mlp.state_dict(), their_mlp.state_dict())
    assert [type(m) for m in our_mlp] == [type(m) for m in their_mlp]
    x = torch.randn(4, 5)
    torch.manual_seed(1)
    expected = their_mlp(x)
    torch.manual_seed(1)
    assert torch.equal(our_mlp(x), expected)
    torch.manual_seed(0)
    expected = theirs.MLPBlock(6, 12, 0.1).state_dict()
    torch.manual_seed(0)
    assert_equal(MLPBlock(6, 12, 0.1).state_dict(), expected)


# --- attention from scratch ---


@pytest.mark.parametrize(
    ("width", "heads", "tokens"), [(64, 2, 17), (48, 4, 5), (21, 3, 1), (8, 8, 9), (12, 1, 4)]
)
def test_attention_from_scratch_is_torchs(width: int, heads: int, tokens: int) -> None:
    torch.manual_seed(2)
    theirs_ = nn.MultiheadAttention(width, heads, batch_first=True)
    torch.manual_seed(2)
    ours_ = MultiHeadAttention(width, heads)
    assert_equal(ours_.state_dict(), theirs_.state_dict())
    randomise(theirs_, ours_)
    inputs = [torch.randn(3, tokens, width, requires_grad=True) for _ in range(2)]
    results = []
    for module, x in ((theirs_, inputs[0]), (ours_, inputs[1])):
        x.data = inputs[0].data.clone()
        out, weights = module(x, x, x, need_weights=True, average_attn_weights=False)
        out.square().sum().backward()
        results.append([out, weights, x.grad, *(p.grad for p in module.parameters())])
    assert results[1][1].shape == (3, heads, tokens, tokens)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, atol=2e-6, rtol=2e-5)
    averaged = [module(inputs[0], inputs[0], inputs[0])[1] for module in (theirs_, ours_)]
    torch.testing.assert_close(averaged[1], averaged[0])
    assert ours_(inputs[0], inputs[0], inputs[0], need_weights=False)[1] is None


def test_attention_from_scratch_takes_keys_and_values_of_other_tokens() -> None:
    theirs_, ours_ = nn.MultiheadAttention(16, 2, batch_first=True), MultiHeadAttention(16, 2)
    randomise(theirs_, ours_)
    query = torch.randn(2, 4, 16)
    key, value = torch.randn(2, 2, 6, 16)
    out, weights = ours_(query, key, value)
    assert weights.shape == (2, 4, 6)
    for a, b in zip((out, weights), theirs_(query, key, value), strict=True):
        torch.testing.assert_close(a, b)


def test_attention_from_scratch_drops_the_same_weights_in_train_mode_alone() -> None:
    theirs_, ours_ = (
        nn.MultiheadAttention(16, 2, dropout=0.5, batch_first=True),
        MultiHeadAttention(16, 2, dropout=0.5),
    )
    randomise(theirs_, ours_)
    x = torch.randn(2, 6, 16)
    results = []
    for module in (theirs_, ours_):
        torch.manual_seed(4)
        results.append(module(x, x, x, average_attn_weights=False))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a)
    assert (results[1][1] == 0).any()
    plain = MultiHeadAttention(16, 2)
    plain.load_state_dict(ours_.state_dict())
    assert torch.equal(ours_.eval()(x, x, x)[0], plain(x, x, x)[0]), (
        "nothing is dropped in eval mode"
    )


def test_attention_from_scratch_takes_the_place_of_torchs_in_a_trained_model() -> None:
    from mnist_vit.data import load_embedded

    model = load_model("vit_mnist_p7")
    digits = load_embedded()
    images = digits.normalise(digits.images)
    with torch.no_grad():
        expected = model(images)
        for block in model.encoder.layers:
            scratch = MultiHeadAttention(64, 2)
            scratch.load_state_dict(block.self_attention.state_dict(), strict=True)
            block.self_attention = scratch
        got = model.eval()(images)
    assert (got - expected).abs().max() <= 1e-5 * max(1, expected.abs().max())
    assert torch.equal(got.argmax(1), expected.argmax(1))


# --- ways to use the model ---


@pytest.mark.parametrize("batch", [0, 1, 5])
@pytest.mark.parametrize("pool", ["token", "mean"])
@pytest.mark.parametrize("grad", [True, False])
def test_any_batch(batch: int, pool: str, grad: bool) -> None:
    with torch.set_grad_enabled(grad):
        assert vit_mnist(7, pool=pool).eval()(torch.randn(batch, 1, 28, 28)).shape == (batch, 10)


def test_pool_mean_reads_patches_only_and_keeps_the_state_dict() -> None:
    token, mean = vit_mnist(7), vit_mnist(7, pool="mean")
    randomise(token, mean)
    assert list(token.state_dict()) == list(mean.state_dict())
    x = torch.randn(2, 1, 28, 28)
    encoded: list[torch.Tensor] = []
    mean.encoder.register_forward_hook(lambda module, args, output: encoded.append(output))
    got = mean(x)
    assert torch.equal(got, mean.heads(encoded[0][:, 1:].mean(dim=1)))
    assert not torch.allclose(got, token(x))


def test_fx_compile_kinds_of_numbers_copy_and_pickle() -> None:
    model = vit_mnist(7).eval()
    randomise(model)
    x = torch.randn(2, 1, 28, 28)
    expected = model(x)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), expected)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x), expected)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        got = copy.deepcopy(model).to(dtype)(x.to(dtype))
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), expected, atol=0.05, rtol=0.05)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)


def test_meta_device_and_cuda_if_present() -> None:
    for device in ["meta", *(["cuda"] if torch.cuda.is_available() else [])]:
        model = vit_mnist().to(device)
        assert model(torch.empty(2, 1, 28, 28, device=device)).device.type == device


# --- shapes and heads ---

TEN_LINES = """\
Input: torch.Size([1, 3, 512, 512])
After Projection: torch.Size([1, 768, 32, 32])
After Reshape: torch.Size([1, 768, 1024])
After Permute: torch.Size([1, 1024, 768])
Batch Size: 1
Batch Class Token: torch.Size([1, 1, 768])
Encoder Input: torch.Size([1, 1025, 768])
Encoder Output: torch.Size([1, 1025, 768])
Only Batch Class Token: torch.Size([1, 768])
Output: torch.Size([1, 1000])
"""


def test_print_shapes_prints_the_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    model = VisionTransformer(
        512, 16, 6, 6, 768, 3072, num_classes=1000, representation_size=2000, print_shapes=True
    )
    with torch.no_grad():
        model(torch.zeros(1, 3, 512, 512))
    assert capsys.readouterr().out == TEN_LINES
    vit_mnist(7)(torch.zeros(1, 1, 28, 28))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_get_attention_output_is_that_heads(layer: int, head: int) -> None:
    """From the recorded weights: A_h V_h, and only through the output projection of all heads the
    layer's output."""
    model = vit_mnist(7).eval()
    randomise(model)
    x = torch.randn(3, 1, 28, 28)
    attention = model.encoder.layers[layer].self_attention
    seen: list[torch.Tensor] = []
    attention.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    with record_attention(model) as weights:
        model(x)
    values = seen[0] @ attention.in_proj_weight[128:].T + attention.in_proj_bias[128:]
    expected = weights[layer][:, head] @ values[..., head * 32 : (head + 1) * 32]
    got = model.get_attention_output(x, layer, head)
    assert got.shape == (3, 17, 32)
    torch.testing.assert_close(got, expected)


def test_two_blank_patches_are_told_apart() -> None:
    """A picture with nothing on it: were the position embedding skipped, all patches would come out
    the same."""
    model = vit_mnist(7).eval()
    randomise(model)
    blank = torch.zeros(1, 1, 28, 28)
    out = model.get_attention_output(blank, 0, 0)[0, 1:]
    assert (out[1:] - out[:1]).abs().amax(dim=1).min() > 3e-5
    with torch.no_grad():
        model.encoder.pos_embedding.zero_()
    out = model.get_attention_output(blank, 0, 0)[0, 1:]
    assert (out[1:] - out[:1]).abs().max() < 1e-6
