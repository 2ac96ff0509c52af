"""Every snippet of docs/your_model.md, with small models of random weights in place of pretrained
ones; models without classes; maps for other programs and for papers."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from helpers import ROOT
from javascript import data_of
from PIL import Image

import mnist_vit
from mnist_vit.attention import attention_weights, to_maps
from mnist_vit.export import save_figure, save_maps

timm = pytest.importorskip("timm", reason='timm comes with pip install -e ".[test]"')
transformers = pytest.importorskip(
    "transformers", reason='transformers come with pip install -e ".[test]"'
)

SNIPPETS = re.findall(
    r"```python\n(.*?)```",
    (ROOT / "docs" / "your_model.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
DINO: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "mlp_ratio": 1,
    "image_size": 224,
    "patch_size": 14,
}


def by_name(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if "registers" in name:
        config = transformers.Dinov2WithRegistersConfig(**DINO, num_register_tokens=4)
        return transformers.Dinov2WithRegistersModel(config).eval()
    return transformers.Dinov2Model(transformers.Dinov2Config(**DINO)).eval()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with photographs; whoever loads pretrained weights gets a narrow model of the class
    instead, with as many heads and patches."""
    create = timm.create_model

    def narrow(name: str, pretrained: bool, **more: Any) -> torch.nn.Module:
        assert pretrained
        torch.manual_seed(0)
        return create(name, embed_dim=48, mlp_ratio=1, **more)

    def vit_b_16(weights: Any) -> torch.nn.Module:
        return torchvision.models.VisionTransformer(224, 16, 12, 12, 48, 48)

    processor = transformers.BitImageProcessor(
        size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}
    )
    monkeypatch.setattr(timm, "create_model", narrow)
    monkeypatch.setattr(torchvision.models, "vit_b_16", vit_b_16)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", by_name)
    monkeypatch.setattr(transformers.AutoImageProcessor, "from_pretrained", lambda _: processor)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    for name in ("photo.jpg", "photos/one.jpg"):
        Image.fromarray(pixels).save(tmp_path / name)
    return tmp_path


def test_every_snippet_of_the_page_runs_and_gives_what_it_says(small: Path) -> None:
    shown: dict[str, Any] = {}
    shapes = []
    for snippet in SNIPPETS:
        exec(snippet, shown)
        shapes.append(tuple(shown["maps"].shape))
    assert len(re.findall(r"^.", SNIPPETS[0], re.MULTILINE)) == 8
    assert shapes[:3] == [(1, 12, 12, 14, 14), (1, 12, 12, 14, 14), (1, 2, 12, 16, 16)]
    assert shown["grid"] == (20, 30)
    total = shown["rows"][..., 0] + shown["on_registers"] + shown["on_patches"]
    torch.testing.assert_close(total, torch.ones(1, 12, 6))
    assert shown["half"].dtype == torch.bfloat16
    assert shapes[-1] == (1, 12, 6, 20, 30)
    torch.testing.assert_close(shown["maps"], to_maps(shown["rows"], (20, 30)), atol=0.02, rtol=0)
    for made in ("maps/index.html", "dino-maps/index.html", "maps.npz", "maps.pdf"):
        assert (small / made).is_file(), made


@pytest.mark.parametrize("name", ["dinov2", "dinov2-with-registers", "timm", "torchvision"])
def test_a_model_without_classes_has_maps_and_no_prediction(
    name: str, small: Path, tmp_path: Path
) -> None:
    if name == "timm":
        model = timm.create_model("vit_tiny_patch16_224", True, depth=2, num_heads=4, num_classes=0)
    elif name == "torchvision":
        model = torchvision.models.VisionTransformer(224, 16, 2, 4, 48, 48).eval()
        model.heads = torch.nn.Identity()
    else:
        model = by_name(name)

    def transform(picture: Image.Image) -> torch.Tensor:
        pixels = np.asarray(picture.resize((224, 224)), dtype=np.float32)
        return torch.from_numpy(pixels).permute(2, 0, 1) / 255

    given: dict[str, Any] = {"transform": transform, "classes": ()}
    page = mnist_vit.visualize_attention(model, "photos", out=tmp_path / "maps", **given)
    (file,) = page.parent.glob("*/attention.json")
    stored = json.loads(file.read_text())
    assert "prediction" not in stored
    rows = attention_weights(model, transform(Image.open("photos/one.jpg"))[None], query=0)
    expected = to_maps(rows, np.shape(stored["rollout"]))[0]
    np.testing.assert_allclose(stored["layers_heads_rows_columns"], expected.numpy(), atol=1e-5)
    shown = data_of(page)
    assert list(shown["classes"]) == []
    assert shown["examples"][0]["prediction"] is None
    assert mnist_vit.explore(model, "photos", out=tmp_path / "page.html", **given).is_file()
    with pytest.raises(ValueError, match="predict needs the names of the model's classes"):
        mnist_vit.predict("photos/one.jpg", model, **given)


@pytest.mark.browser
def test_the_page_of_a_model_without_classes(page: Any, small: Path) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    path = mnist_vit.visualize_attention(
        by_name("dinov2-with-registers"),
        "photos",
        transform=lambda picture: torch.rand(3, 224, 224),
        classes=(),
        out=small / "maps",
    )
    page.goto(path.resolve().as_uri())
    page.wait_for_function("() => now !== null")
    assert not page.locator("#answer").is_visible()
    assert page.locator("#rolled").is_visible()
    page.get_by_role("button", name="extra token 1", exact=True).click()
    page.wait_for_function("() => query === 1")
    page.screenshot(path=small / "page.png", full_page=True)
    assert not wrong, wrong


def test_maps_are_stored_with_the_names_of_their_axes(tmp_path: Path) -> None:
    maps = torch.rand(2, 1, 3, 4, 5)
    path = save_maps(tmp_path / "m.npz", maps, image=["a", "b"], layer=[11])
    with np.load(path) as file:
        np.testing.assert_array_equal(file["maps"], maps)
        assert file["axes"].tolist() == ["image", "layer", "head", "row", "column"]
        along = [file[name].tolist() for name in file["axes"]]
    assert along == [["a", "b"], [11], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    half = save_maps(tmp_path / "half.npz", maps[0, 0, 0].bfloat16(), ("row", "column"))
    assert np.load(half)["maps"].dtype == np.float32


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"axes": ("row", "column")}, r"axes must name each axis of maps \(1, 1, 1, 2, 2\)"),
        ({"layer": [1, 2]}, "layer must have 1 entries, got 2"),
        ({"patch": [1]}, "there is no axis patch"),
    ],
)
def test_axes_that_do_not_fit_are_told(given: dict, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        save_maps(tmp_path / "m.npz", torch.rand(1, 1, 1, 2, 2), **given)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_a_figure_is_the_same_file_each_time(ending: str, tmp_path: Path) -> None:
    maps, picture = torch.rand(2, 3, 4, 6), torch.rand(3, 32, 48)
    files = [save_figure(tmp_path / f"{i}.{ending}", maps, picture) for i in range(2)]
    first, second = (path.read_bytes() for path in files)
    if ending != "svg":  # its ids are drawn by chance
        assert first == second
    if ending == "pdf":
        assert b"/Type3" not in first, "publishers refuse such fonts"
    if ending == "png":
        assert Image.open(files[0]).width == 2100


def test_one_scale_for_all_maps_and_zero_is_white(tmp_path: Path) -> None:
    maps = torch.zeros(1, 2, 1, 1)
    maps[0, 0] = -1
    path = save_figure(tmp_path / "f.png", maps, label="relevance", rows=[""], columns=["", ""])
    colours = {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 24)}
    assert (68, 1, 84) in colours, "below zero alone is viridis"
    maps[0, 1] = 0.5
    path = save_figure(tmp_path / "f.png", maps)
    colours = {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 24)}
    assert (5, 48, 97) in colours, "-1 is the deepest blue"
    wide = maps.expand(1, 2, 3, 3).clone()
    wide[0, 1, 1, 1] = 0
    path = save_figure(tmp_path / "f.png", wide)
    colours = {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 24)}
    assert (247, 246, 246) in colours, "zero, in the middle of RdBu"


@pytest.mark.parametrize(
    ("name", "maps", "words"),
    [
        ("f.jpg", torch.rand(1, 1, 2, 2), "f.jpg must end in .pdf or .svg or .png"),
        ("f.pdf", torch.rand(1, 2, 2), r"maps must be \(rows, columns, n_h, n_w\)"),
        ("f.pdf", torch.full((1, 1, 2, 2), torch.nan), "NaN"),
    ],
)
def test_no_figure_without_maps(name: str, maps: torch.Tensor, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(words) if "jpg" in words else words):
        save_figure(tmp_path / name, maps)
    assert not (tmp_path / name).exists()
