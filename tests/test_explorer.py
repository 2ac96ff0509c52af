"""The live page without a browser: what is put into it, what its JavaScript makes of pictures, and
who is run live."""

import base64
import inspect
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torchvision
from helpers import randomise
from javascript import Engine, data_of, engine
from PIL import Image
from survivor import toy_data, toy_model
from torch import nn

import mnist_vit
from mnist_vit import MultiHeadAttention, VisionTransformer, explorer, jobs, load_model
from mnist_vit.attention import attention_weights
from mnist_vit.data import load_embedded
from mnist_vit.errors import DataError
from mnist_vit.explorer import live_twin, of_regions, pack, unknown_options, write_page
from mnist_vit.files import shipped
from mnist_vit.pictures import digit_to_tensor, picture_to_tensor
from mnist_vit.relevance import relevance


@pytest.fixture(scope="module")
def js() -> Iterator[Engine]:
    with engine("pictures.js") as one:
        yield one


# --- what is put into the page ---


def test_explore_shows_the_first_of_each_class_and_the_hardest(tmp_path: Path) -> None:
    page = mnist_vit.explore("vit_mnist_p7", per_class=3, out=tmp_path / "page.html")
    shown = data_of(page)
    digits, model = load_embedded(), mnist_vit.load_model("vit_mnist_p7")
    found = mnist_vit.evaluate(model)
    wrong = (found.predictions != found.labels).nonzero()[:, 0].tolist()
    numbers = [int(one["name"].partition("_")[2]) for one in shown["examples"]]
    first_of_each = {number for number in range(5000) if number % 500 < 3}
    assert first_of_each <= set(numbers)
    assert len(wrong) <= 400
    assert set(wrong) <= set(numbers), "all misclassified, so that no cell of the matrix is empty"
    assert shown["text"].startswith(f"{len(numbers)} of ")
    assert shown["aim"] == pytest.approx(0.95 + 0.05 / 10), "its labels were smoothed by 0.05"
    for number, one in zip(numbers, shown["examples"], strict=True):
        assert one["label"] == digits.labels[number]
        assert one["prediction"] == found.predictions[number]
        assert one["probability"] == pytest.approx(
            found.probabilities[number].max().item(), abs=1e-4
        )
    assert shown["matrix"]["counts"] == found.matrix.tolist()
    pixels = re.search(r'id="pixels" type="text/plain">([^<]*)<', page.read_text())[1]
    assert base64.b64decode(pixels) == digits.images[numbers].numpy().tobytes()


def test_a_page_of_twenty_digits_is_one_small_file_without_a_network(tmp_path: Path) -> None:
    drawn = mnist_vit.visualize_attention("vit_mnist", out=tmp_path)
    assert data_of(drawn)["beside"] is None, "it stands alone"
    for page in (drawn, shipped("attention") / "smallest.html"):
        text = page.read_text(encoding="utf-8")
        assert len(text.encode()) <= 860_000
        assert len(data_of(page)["examples"]) == 20
        assert not re.search(
            r"https?:|//[a-z]+\.|@import|<link|\ssrc=|href=",
            re.sub(r">[A-Za-z0-9+/=]{1000,}<", "><", text),
        )
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy


def test_a_page_holds_the_relevance_of_its_examples(tmp_path: Path) -> None:
    """For the answer rather than the truth, or the next; a byte for each patch."""
    digits = load_embedded()
    pictures = digits.images[::1000]
    images = digits.normalise(pictures)
    model = load_model("vit_mnist_p7")
    about = {"title": "", "text": "", "classes": digits.classes, "mean": [0], "std": [1]}
    answers = model(images).topk(2, dim=1).indices
    labels = answers[:, 0].tolist()
    labels[3] = (labels[3] + 5) % 10  # as if it were misclassified
    given = (pictures, list("abcde"), labels)
    page = write_page(tmp_path / "page.html", model, images, *given, **about, digits=True)
    script = re.search(r'<script id="relevance"[^>]*>(.*?)</script>', page.read_text("utf-8"))
    levels = np.frombuffer(base64.b64decode(script[1]), dtype=np.int8).reshape(5, 16)
    largest = np.array([[one["relevance"]] for one in data_of(page)["examples"]])
    answers[3, 1] = labels[3]
    expected = relevance(model, images, answers[:, 0], answers[:, 1]).numpy()
    assert (np.abs(levels * largest / 127 - expected) <= largest / 250).all()
    model.encoder.layers[0].mlp[1] = nn.Softplus()
    page = write_page(tmp_path / "page.html", model, images, *given, **about, digits=True)
    assert 'id="relevance"' not in page.read_text("utf-8")
    assert "no rule for Softplus" in data_of(page)["relevance"]


def test_the_relevance_of_regions_is_the_sum_of_their_patches() -> None:
    model = VisionTransformer(24, 4, 1, 2, 8, 8, num_classes=1)
    randomise(model)
    images = torch.randn(2, 3, 24, 24)
    pairs = explorer._pairs(model(images), [{"label": None}, {"label": 0}])
    assert pairs.tolist() == [[0], [0]], "one class has nothing to be compared with"
    patches = relevance(model.eval(), images, 0).view(2, 3, 2, 2, 3)
    found = explorer._relevance_maps(model, images, pairs, (6, 6), (3, 2))
    torch.testing.assert_close(found, patches.sum(dim=(2, 4)))


def test_in_a_notebook_a_picture_and_a_sentence_stand_where_scripts_are_stripped(
    tmp_path: Path,
) -> None:
    page = mnist_vit.visualize_attention("vit_mnist_p7", out=tmp_path / "maps")
    shown = page._repr_html_()
    frame = re.search(r'<iframe class="mnist-vit-page".*?</iframe>', shown, re.DOTALL)[0]
    assert "allow-same-origin" not in frame, "the page cannot reach the notebook"
    kept = shown.replace(frame, "")
    assert len(kept) < 100_000
    assert "index.html" in kept
    for number, picture in enumerate(re.findall(r"data:image/png;base64,([^\"]*)\"", kept)):
        (tmp_path / f"{number}.png").write_bytes(base64.b64decode(picture))
        assert Image.open(tmp_path / f"{number}.png").width == 280
    assert number == 1, "the picture, and the maps of all heads"


# --- who is run live ---


def test_who_is_run_live() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 32, 32)
    ours = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5, pool="mean")
    theirs = torchvision.models.VisionTransformer(
        32, 8, 2, 2, 16, 32, num_classes=5, norm_layer=nn.LayerNorm
    )
    randomise(ours)
    randomise(theirs)
    for model in (ours.eval(), theirs.eval()):
        assert torch.allclose(live_twin(model, image)(image), model(image), atol=1e-5)
    for block in ours.encoder.layers:  # the learner's own attention has the same parameters
        own = MultiHeadAttention(16, 2)
        own.load_state_dict(block.self_attention.state_dict())
        block.self_attention = own
    assert live_twin(ours, image) is not None
    ours.encoder.layers[0].mlp[1] = nn.ReLU()
    assert live_twin(ours, image) is None, "another forward than the page's"
    assert live_twin(theirs.half(), image.half()) is not None
    many = VisionTransformer(256, 4, 4, 2, 32, 32)
    assert live_twin(many, torch.randn(1, 3, 256, 256)) is None, "4,097 tokens"
    large = torchvision.models.VisionTransformer(32, 8, 2, 2, 1024, 32)
    assert live_twin(large, image) is None, "8 million parameters"
    assert live_twin(nn.Linear(2, 2), image) is None


def test_the_page_knows_the_options_that_are_stored() -> None:
    with engine("model.js") as js:
        known = js.run("KNOWN_OPTIONS")
    values = {name: list(some) if some else None for name, some in explorer.KNOWN_OPTIONS.items()}
    assert known == values
    for model in (
        VisionTransformer(8, 4, 1, 1, 4, 4),
        torchvision.models.VisionTransformer(8, 4, 1, 1, 4, 4),
    ):
        assert set(explorer.page_config(model)) == set(known)
    constructor = set(inspect.signature(VisionTransformer).parameters)
    assert set(known) - constructor == {"eps"}, "which stands for the norm layer"


def test_a_model_with_an_option_that_the_page_does_not_know_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = VisionTransformer(8, 4, 1, 2, 8, 8, num_classes=2)
    randomise(model)
    assert unknown_options(explorer.page_config(model)) == []
    assert unknown_options({"pool": "max", "patch_size": 4}) == ["pool='max'"]
    monkeypatch.delitem(explorer.KNOWN_OPTIONS, "pool")
    images = torch.randn(2, 3, 8, 8)
    assert live_twin(model.eval(), images) is not None, "pool has its default value"
    assert "pool" not in explorer.page_config(model), "model.js would refuse it"
    model = VisionTransformer(8, 4, 1, 2, 8, 8, num_classes=2, pool="mean")
    assert live_twin(model.eval(), images) is None
    pictures = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    about = {"title": "t", "text": "x", "classes": ["a", "b"], "digits": False}
    about |= {"mean": (0.0,) * 3, "std": (1.0,) * 3}
    page = write_page(
        tmp_path / "p.html", model, pictures / 255, pictures, ["a", "b"], None, **about
    )
    shown = data_of(page)
    assert shown["config"] is None
    assert "pool='mean'" in shown["text"]


@pytest.mark.parametrize(("name", "value"), [("num_registers", 4), ("pool", "max")])
def test_the_models_javascript_refuses_an_option_that_it_does_not_know(
    name: str, value: object
) -> None:
    with engine("model.js") as js:
        refused = f"(() => {{ try {{ checkOptions({json.dumps({'eps': 1e-6, name: value})}) }}"
        told = js.run(f"{refused} catch (error) {{ return error.message }} }})()")
    assert f"{name}={value}" in told


def test_grids_of_one_row_of_regions() -> None:
    weights = attention_like(3, 2, 5 + 24, 1.5)
    found, regions = of_regions(weights, (4, 6), most=600)
    assert regions == (1, 2)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(found.shape[:-1]))


# --- weights that are stored ---


def attention_like(layers: int, heads: int, tokens: int, sharp: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(layers, heads, tokens, tokens, generator=generator) * sharp
    return scores.softmax(dim=-1)


@pytest.mark.parametrize("sharp", [0.0, 0.5, 2.0, 8.0, 100.0])
def test_stored_weights_come_back_to_within_2_thousandths(js: Engine, sharp: float) -> None:
    weights = attention_like(3, 2, 37, sharp)
    for most in (5_000_000, 6_000, 1):
        packed, levels = pack(weights, most)
        content = bytearray(zlib.decompress(base64.b64decode(packed)))
        js.put("bytes", torch.frombuffer(content, dtype=torch.uint8), "Uint8Array")
        js.racer.eval(f"globalThis.found = unpack(bytes, {weights.numel()}, {levels}); 0")
        assert (js.get("found") - weights.flatten()).abs().max() <= 0.002


@pytest.mark.parametrize("sharp", [0.3, 1.5, 3.0])
def test_a_picture_of_vit_b_16_takes_at_most_5_megabytes(sharp: float) -> None:
    weights = attention_like(12, 12, 197, sharp)
    assert of_regions(weights, (14, 14))[0] is weights, "every number"
    assert len(pack(weights)[0]) <= 5_000_000


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((24, 16, 1 + 14 * 14), (14, 14)),
        ((12, 12, 5 + 20 * 30), (20, 30)),
        ((1, 12, 37 * 37), (37, 37)),
    ],
)
def test_more_weights_than_5_megabytes_hold_become_those_of_regions(
    shape: tuple, grid: tuple[int, int]
) -> None:
    weights = attention_like(*shape, 1.5)
    found, regions = of_regions(weights, grid)
    prefix = shape[-1] - math.prod(grid)
    assert found.shape == (*shape[:2], *[prefix + math.prod(regions)] * 2)
    assert regions[0] < grid[0]
    assert regions[1] / regions[0] == pytest.approx(grid[1] / grid[0], rel=0.1)
    assert len(pack(found)[0]) <= 5_000_000
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(found.shape[:-1]))
    torch.testing.assert_close(found[:, :, :prefix, :prefix], weights[:, :, :prefix, :prefix])


def test_a_region_has_the_mean_of_its_patches_rows_and_the_sum_of_what_they_are_given() -> None:
    weights = attention_like(1, 2, 2 + 36, 1.0)
    found, regions = of_regions(weights, (6, 6), most=2 * 11**2)
    assert regions == (3, 3)
    upper_left, right_of_it = torch.tensor([0, 1, 6, 7]) + 2, torch.tensor([2, 3, 8, 9]) + 2
    torch.testing.assert_close(
        found[..., 2, 3], weights[..., upper_left[:, None], right_of_it].sum(-1).mean(-1)
    )
    torch.testing.assert_close(found[..., 0, 3], weights[..., 0, right_of_it].sum(-1))
    torch.testing.assert_close(found[..., 3, 1], weights[..., right_of_it, 1].mean(-1))
    uneven, regions = of_regions(weights, (6, 6), most=2 * 18**2)
    assert regions == (4, 4), "a region holds 1.5 × 1.5 patches"
    part = torch.tensor([1, 0.5, 0, 0, 0, 0])
    share = torch.outer(part, part).flatten() / 2.25
    torch.testing.assert_close(uneven[..., 2, 2], (weights[..., 2:, 2:] @ share) @ share * 2.25)


def test_a_large_model_is_shown_by_stored_weights(tmp_path: Path) -> None:
    model = torchvision.models.VisionTransformer(64, 8, 3, 4, 512, 1024, num_classes=7)
    pictures = torch.randint(0, 256, (30, 3, 64, 64), dtype=torch.uint8)
    about = {
        "title": "t",
        "text": "x",
        "classes": list("abcdefg"),
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
        "digits": False,
    }
    images = (pictures / 255 - 0.5) / 0.5
    page = write_page(
        tmp_path / "p.html", model.eval(), images, pictures, [*map(str, range(30))], None, **about
    )
    shown = data_of(page)
    assert shown["config"] is None
    assert len(shown["examples"]) == 20, "as many as a browser opens"
    assert "0.002" in shown["text"]
    assert shown["text"].startswith("20 of x")
    assert [one["name"] for one in shown["examples"]] == [f"{i * 3 // 2}" for i in range(20)], (
        "from all"
    )
    packed = re.search(r'id="attention-19" type="text/plain">([^<]*)<', page.read_text())[1]
    codes = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)[: 3 * 4 * 65 * 65]
    roots = (
        attention_weights(model, images[28:29]).sqrt().flatten() * shown["examples"][19]["levels"]
    )
    assert np.abs(codes - roots.numpy()).max() <= 0.51


def test_a_transform_of_the_users_own(tmp_path: Path) -> None:
    """What a transform makes cannot be drawn in a page: the weights of just these pictures are
    stored."""
    (tmp_path / "mine").mkdir()
    Image.effect_noise((50, 40), 80).convert("RGB").save(tmp_path / "mine" / "a.png")
    model = torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=3).eval()

    def transform(picture: Image.Image) -> torch.Tensor:
        return picture_to_tensor(picture, 32, 3).float() / 100 - 1

    page = mnist_vit.explore(
        model, tmp_path / "mine", transform=transform, classes="abc", out=tmp_path / "p.html"
    )
    shown = data_of(page)
    assert (shown["config"], shown["matrix"], shown["examples"][0]["label"]) == (None, None, None)
    logits = model(transform(Image.open(tmp_path / "mine" / "a.png"))[None])[0]
    assert torch.allclose(torch.tensor(shown["examples"][0]["logits"]), logits, atol=1e-5)


def test_nothing_is_written_for_a_model_that_answers_nan(tmp_path: Path) -> None:
    model, toy = toy_model(), toy_data()
    model.encoder.ln.weight.data[0] = torch.nan
    for call in (mnist_vit.explore, mnist_vit.visualize_attention):
        with pytest.raises(ValueError, match="NaN or infinite"):
            call(model, toy, out=tmp_path / "there.html")
    assert not (tmp_path / "there.html").is_file()


def headless_page(folder: Path) -> explorer.Page:
    """A page of an encoder alone, which returns tokens as the models of Hugging Face do."""

    class Encoder(VisionTransformer):
        def forward(self, x: torch.Tensor) -> SimpleNamespace:
            x = self._to_tokens(x)
            return SimpleNamespace(last_hidden_state=self.encoder(x))

    (folder / "photos").mkdir()
    for i in range(2):
        picture = Image.effect_noise((50, 40), 80 + i).convert("RGB")
        picture.save(folder / "photos" / f"{i}.png")
    model = Encoder(32, 8, 2, 3, 24, 32, num_classes=1).eval()

    def transform(picture: Image.Image) -> torch.Tensor:
        return picture_to_tensor(picture, 32, 3).float() / 255

    return mnist_vit.explore(
        model, folder / "photos", transform=transform, out=folder / "headless.html"
    )


def test_what_training_aimed_at_is_told_only_where_it_is_known() -> None:
    assert explorer._aim(0.1, 4) == pytest.approx(0.925)
    assert explorer._aim(0.0, 10) is None, "labels as they are"
    assert explorer._aim(None, 10) is None, "nothing is known"
    assert explorer._aim(0.1, 0) is None, "no classes"


def test_a_model_without_a_class_head(tmp_path: Path) -> None:
    shown = data_of(headless_page(tmp_path))
    assert shown["classes"] == []
    assert [one["prediction"] for one in shown["examples"]] == [None, None]
    assert "no class head" in shown["text"]


def test_terms_are_the_glossarys() -> None:
    page = explorer.terms()
    assert {"head", "patch", "query", "logit", "class token"} <= set(page)
    assert page["head"].endswith("with queries, keys and values of its own.")


def test_images_are_by_default_what_the_model_was_trained_on() -> None:
    assert jobs.shown_data({"data": {"source": "cifar10/train"}}) == "cifar10"
    assert jobs.shown_data({"data": {"source": "mnist/train"}}) == "embedded"
    assert jobs.shown_data({}) == "embedded"


# --- pictures ---


@pytest.mark.parametrize("size", [(90, 90), (200, 120), (61, 84), (15, 19), (28, 28)])
@pytest.mark.parametrize("dark", [True, False])
def test_a_drawn_digit_is_brought_into_mnists_form_as_in_python(
    js: Engine, size: tuple, dark: bool
) -> None:
    drawn = Image.fromarray(load_embedded().images[3210, 0].numpy()).resize(
        size, Image.Resampling.BICUBIC
    )
    grey = torch.from_numpy(np.asarray(drawn).copy())
    grey = 255 - grey if dark else grey
    js.put("grey", grey, "Uint8Array")
    js.racer.eval(f"globalThis.found = digit(grey, {size[1]}, {size[0]}); 0")
    expected = digit_to_tensor(Image.fromarray(grey.numpy()))
    assert (js.get("found").int() - expected.flatten()).abs().max() <= 1


def test_no_ink_is_no_digit(js: Engine) -> None:
    js.put("grey", torch.full((40, 40), 200), "Uint8Array")
    assert js.run("digit(grey, 40, 40)") is None
    with pytest.raises(DataError, match="no ink"):
        digit_to_tensor(Image.new("L", (40, 40), 200))


@pytest.mark.parametrize(
    ("width", "height", "size"), [(60, 41, 32), (30, 90, 32), (32, 32, 32), (9, 7, 12)]
)
def test_the_middle_of_a_picture_as_in_python(
    js: Engine, width: int, height: int, size: int
) -> None:
    picture = Image.effect_noise((width, height), 90)
    js.put("grey", torch.from_numpy(np.asarray(picture).copy()), "Uint8Array")
    js.racer.eval(f"globalThis.found = middle([grey], {height}, {width}, {size}); 0")
    assert (js.get("found").int() - picture_to_tensor(picture, size, 1).flatten()).abs().max() <= 1


def test_a_patch_in_another_place(js: Engine) -> None:
    picture = torch.randint(0, 256, (3, 8, 12), dtype=torch.uint8)
    order = list(range(6))
    order[1], order[5] = 5, 1
    js.put("pixels", picture, "Uint8Array")
    found = js.run(f"[...pixels.map((_, i) => pixels[sources([3, 8, 12], [2, 3], {order})[i]])]")
    expected = picture.clone()
    expected[:, :4, 4:8], expected[:, 4:, 8:] = picture[:, 4:, 8:], picture[:, :4, 4:8]
    assert torch.equal(torch.tensor(found).view(3, 8, 12), expected.long())


def test_a_stroke_stays_in_the_picture(js: Engine) -> None:
    js.put("pixels", torch.zeros(28, 28), "Uint8Array")
    js.racer.eval(
        "stroke(pixels, [1, 28, 28], [3, 14], [24, 14], [255]); stroke(pixels, [1, 28, 28], [-9,"
        " 2], [50, 2], [255])"
    )
    ink = js.get("pixels").view(28, 28)
    assert (ink[13:15, 4:24] > 200).all()
    assert (ink[17:] == 0).all()
    js.racer.eval("stroke(pixels, [1, 28, 28], [-9, 14], [50, 14], [0])")
    assert (js.get("pixels").view(28, 28)[12:16] < 100).all(), "erased"
