"""The model in JavaScript is the model in PyTorch: logits, every attention weight, and what is
switched off.

It runs in V8 alone, which has nothing of a browser.
"""

import base64
import copy
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
import torchvision
from helpers import randomise
from javascript import Engine, data_of, engine
from torch import Tensor, nn

from mnist_vit import VisionTransformer, load_model
from mnist_vit.attention import attention_weights, record_attention
from mnist_vit.data import ImageData, load_data
from mnist_vit.files import shipped


@pytest.fixture(scope="module")
def js() -> Iterator[Engine]:
    with engine("model.js", "origin.js") as one:
        yield one


RANDOM = {
    "one head, one layer": {"num_layers": 1, "num_heads": 1},
    "deep": {"num_layers": 7, "num_heads": 3},
    "many heads": {"num_layers": 2, "num_heads": 6},
    "pre_logits": {"num_layers": 2, "num_heads": 2, "representation_size": 7},
    "the mean": {"num_layers": 2, "num_heads": 2, "pool": "mean"},
    "the mean and pre_logits": {
        "num_layers": 1,
        "num_heads": 2,
        "pool": "mean",
        "representation_size": 33,
    },
    "grey": {"num_layers": 3, "num_heads": 2, "in_channels": 1, "num_classes": 2},
    "five channels": {"num_layers": 2, "num_heads": 4, "in_channels": 5, "num_classes": 1001},
    "one patch": {"num_layers": 2, "num_heads": 2, "image_size": 4},
    "another eps": {"num_layers": 2, "num_heads": 2, "norm_layer": nn.LayerNorm},
}


def random_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    sizes = {
        "image_size": 20,
        "patch_size": 4,
        "hidden_dim": 36 if "five" not in name else 20,
        "mlp_dim": 30,
    }
    if name == "torchvision":
        model = torchvision.models.VisionTransformer(
            32, 8, 3, 4, 48, 96, num_classes=11, representation_size=12
        )
    else:
        model = VisionTransformer(**{"num_classes": 9, **sizes, **RANDOM[name]})
    randomise(model)
    with torch.no_grad():  # so that attention is not nearly uniform
        for block in model.encoder.layers:
            block.self_attention.in_proj_weight.mul_(4)
    return model.eval()


def random_image(model: nn.Module) -> Tensor:
    return torch.randn(1, model.conv_proj.in_channels, model.image_size, model.image_size)


def near(found: Tensor, expected: Tensor, by: float = 1e-5) -> bool:
    """Within 1e-5, times the largest number where that is above 1."""
    return found.shape == expected.shape and (found - expected).abs().max() <= by * max(
        1, expected.abs().max()
    )


def without(
    model: nn.Module, image: Tensor, tokens: list[int], layers_off: tuple = ()
) -> tuple[Tensor, Tensor]:
    """What PyTorch makes of the picture if only these tokens go through the encoder, and not
    through these layers."""
    patches = model._process_input(image)
    x = (
        torch.cat([model.class_token.expand(1, -1, -1), patches], dim=1)
        + model.encoder.pos_embedding
    )
    record: list[Tensor] = []
    x = x[:, tokens]
    for i, block in enumerate(model.encoder.layers):
        if i not in layers_off:
            with record_attention(block) as weights:
                x = block(x)
            record += weights
    x = model.encoder.ln(x)
    x = x[:, 1:].mean(dim=1) if getattr(model, "pool", "token") == "mean" else x[:, 0]
    return model.heads(x)[0], torch.stack(record, dim=1)[0] if record else torch.empty(0)


def zero_heads(model: nn.Module, heads: list[tuple[int, int]]) -> nn.Module:
    """A head adds nothing if its columns of the output projection are zero."""
    for layer, head in heads:
        attention = model.encoder.layers[layer].self_attention
        columns = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
        attention.out_proj.weight.data[:, columns] = 0
    return model


def some_images(name: str, count: int, data: str = "embedded") -> ImageData:
    images = load_data(data, "validation" if data == "cifar10" else "all")
    return images.select(torch.arange(0, len(images), len(images) // count)[:count], name)


SHIPPED = ["vit_mnist", "vit_mnist_p4", "vit_mnist_p7"]


@pytest.mark.parametrize("name", SHIPPED)
@torch.no_grad()
def test_shipped_weights_classify_digits_as_in_pytorch(js: Engine, name: str) -> None:
    same_logits(js, name, some_images(name, 20))


@pytest.mark.full
@torch.no_grad()
def test_shipped_weights_classify_pictures_as_in_pytorch(js: Engine, real_cifar10: object) -> None:
    same_logits(js, "vit_cifar10", some_images("vit_cifar10", 20, "cifar10"))


@pytest.mark.full
@pytest.mark.parametrize("name", SHIPPED)
@torch.no_grad()
def test_shipped_weights_classify_500_digits_as_in_pytorch(js: Engine, name: str) -> None:
    same_logits(js, name, some_images(name, 500))


@torch.no_grad()
def test_the_smallest_models_page_classifies_digits_as_in_pytorch() -> None:
    """With the script, the weights and the pixels that are in the shipped file."""
    path = shipped("attention") / "smallest.html"
    text, page = path.read_text(encoding="utf-8"), data_of(path)
    stored = dict(re.findall(r'<script id="(\w+)"[^>]*>([^<]*)</script>', text))
    pixels = torch.frombuffer(bytearray(base64.b64decode(stored["pixels"])), dtype=torch.uint8)
    weights = torch.frombuffer(bytearray(base64.b64decode(stored["weights"])), dtype=torch.float32)
    pictures = pixels.view(-1, 1, 28, 28)
    assert len(pictures) == len(page["examples"]) == 20
    model = load_model("vit_mnist_p7")
    images = (pictures / 255 - page["mean"][0]) / page["std"][0]
    logits, rows = model(images), attention_weights(model, images)
    with engine() as js:
        js.racer.eval(re.search(r'<script id="model">(.*?)</script>', text, re.DOTALL)[1])
        js.racer.eval("globalThis.weights = {}; 0")
        for name, start, end in page["weights"]:
            js.put("tensor", weights[start:end])
            js.racer.eval(f"weights[{json.dumps(name)}] = tensor; 0")
        js.racer.eval(
            f"globalThis.model = new VisionTransformer({json.dumps(page['config'])}, weights); 0"
        )
        for image, expected, heads in zip(images, logits, rows, strict=True):
            found, recorded = js.forward(image)
            assert near(found, expected)
            assert (recorded - heads).abs().max() < 2e-6


def same_logits(js: Engine, name: str, data: ImageData) -> None:
    """Logits within 1e-5, all predictions the same, every attention weight within 2e-6."""
    model = load_model(name)
    js.put_model(model)
    images = data.normalise(data.images)
    assert len(images) >= 20
    for part in images.split(50):
        logits, weights = model(part), attention_weights(model, part)
        for image, expected, rows in zip(part, logits, weights, strict=True):
            found, recorded = js.forward(image)
            assert near(found, expected)
            assert found.argmax() == expected.argmax()
            assert (recorded - rows).abs().max() < 2e-6


@pytest.mark.parametrize("name", [*RANDOM, "torchvision"])
@torch.no_grad()
def test_any_sizes_and_everything_that_can_be_switched_off(js: Engine, name: str) -> None:
    model = random_model(name)
    js.put_model(model)
    image = random_image(model)
    found, recorded = js.forward(image[0])
    assert near(found, model(image)[0])
    assert near(recorded, attention_weights(model, image)[0], 2e-6)
    short, _ = js.forward(image[0], "{record: false}")
    assert near(short, found), "what is not computed is not needed"

    every = list(range(model.seq_length))
    kept = [0, *every[1::3]]
    found, recorded = js.forward(
        image[0], f"{{removed: new Set({[t for t in every if t not in kept]})}}"
    )
    expected, rows = without(model, image, kept)
    assert js.run("result.tokens") == kept
    assert near(found, expected)
    assert near(recorded, rows, 2e-6)

    layers = len(model.encoder.layers)
    found, recorded = js.forward(image[0], f"{{off: new Set(['{layers - 1}'])}}")
    expected, rows = without(model, image, every, (layers - 1,))
    assert near(found, expected), "a layer that is off passes on what it is given"
    assert len(recorded) == layers - 1
    assert js.run("result.attention.map(Boolean)") == [True] * (layers - 1) + [False]
    after = torch.tensor(js.run("result.after.map(logits => [...logits])"))
    assert near(after[-1], expected)

    heads = list(product(range(layers), range(model.encoder.layers[0].num_heads)))[::2]
    names = ", ".join(f"'{layer}.{head}'" for layer, head in heads)
    found, recorded = js.forward(image[0], f"{{off: new Set([{names}])}}")
    expected = zero_heads(model, heads)(image)[0]
    assert near(found, expected)
    assert near(recorded, attention_weights(model, image)[0], 2e-6), (
        "a head that is off still shows where it looks"
    )


@torch.no_grad()
def test_the_answer_after_each_layer_is_that_of_a_model_cut_there(js: Engine) -> None:
    model = random_model("deep")
    js.put_model(model)
    image = random_image(model)
    js.forward(image[0])
    for layer, after in enumerate(js.run("result.after.map(logits => [...logits])")):
        expected, _ = without(
            model, image, list(range(model.seq_length)), tuple(range(layer + 1, 7))
        )
        assert near(torch.tensor(after), expected)


@pytest.mark.parametrize("name", ["deep", "the mean and pre_logits", "torchvision"])
@torch.no_grad()
def test_what_a_weight_a_logit_and_a_token_are_made_of(js: Engine, name: str) -> None:
    model = random_model(name)
    js.put_model(model)
    image = random_image(model)
    weights = attention_weights(model, image)[0]
    logits = model(image)[0]
    js.forward(image[0])
    layer = len(model.encoder.layers) - 1
    head = 1
    query, key = 3, 5

    weight = origin(js, f"originOfWeight(model, result, {layer}, {head}, {query}, {key})")
    assert weight["weight"] == pytest.approx(float(weights[layer, head, query, key]), abs=2e-6)
    block = model.encoder.layers[layer]
    x = embedded(model, image)
    for one in model.encoder.layers[:layer]:
        x = one(x)
    packed = block.ln_1(x) @ block.self_attention.in_proj_weight.T
    packed = (packed + block.self_attention.in_proj_bias)[0]
    d = block.self_attention.head_dim
    q, k, v = (part.split(d, dim=1)[head] for part in packed.chunk(3, dim=1))
    scores = q[query] @ k.T / d**0.5
    assert near(torch.tensor(weight["query"]), q[query])
    assert near(torch.tensor(weight["key"]), k[key])
    assert near(torch.tensor(weight["products"]), q[query] * k[key])
    assert near(torch.tensor(weight["scores"]), scores)
    assert weight["score"] == pytest.approx(weight["sum"] / weight["root"], abs=1e-5)
    assert weight["denominator"] == pytest.approx(
        float((scores - scores.max()).exp().sum()), rel=1e-4
    )
    assert near(torch.tensor(weight["carried"]), weights[layer, head, query, key] * v[key])

    logit = origin(js, "originOfLogit(model, result, 2)")
    assert logit["logit"] == pytest.approx(float(logits[2]), abs=1e-5)
    assert sum(logit["products"]) + logit["bias"] == pytest.approx(logit["logit"], abs=1e-5)
    assert near(torch.tensor(logit["row"]), model.heads.head.weight[2])

    js.racer.eval(f"globalThis.off = new Set(['{layer}.0']); 0")  # a head off in the layer itself
    found = origin(js, f"originOfLayer(model, result, {layer}, {query}, off)")
    silent = copy.deepcopy(block)
    silent.self_attention.out_proj.weight[:, :d] = 0
    seen: dict[str, Tensor] = {}
    silent.ln_2.register_forward_pre_hook(lambda _, given: seen.update(between=given[0]))
    silent.mlp[1].register_forward_hook(lambda *call: seen.update(hidden=call[2]))
    silent.mlp.register_forward_hook(lambda *call: seen.update(mlp=call[2]))
    seen["output"] = silent(x)
    seen |= {"given": x, "attention": seen["between"] - x}
    assert set(seen) == set(found)
    for part, values in seen.items():
        assert near(torch.tensor(found[part]), values[0, query]), part

    for token in (0, 4):
        found = origin(js, f"originOfToken(model, image, {token})")
        assert near(torch.tensor(found["token"]), embedded(model, image)[0, token])
    p = model.patch_size
    patch = image[0, :, :p, 3 * p : 4 * p]  # the fourth of the first row
    assert near(torch.tensor(found["pixels"]), patch.flatten())


def origin(js: Engine, code: str) -> dict[str, Any]:
    """What an expression of ``origin.js`` gives, its arrays as lists."""
    text = js.racer.eval(f"JSON.stringify({code}, (_, x) => ArrayBuffer.isView(x) ? [...x] : x)")
    return json.loads(text)


def embedded(model: nn.Module, image: Tensor) -> Tensor:
    """What the first layer is given."""
    tokens = [model.class_token.expand(1, -1, -1), model._process_input(image)]
    return torch.cat(tokens, dim=1) + model.encoder.pos_embedding
