"""Models of timm and Hugging Face, unmodified: their weights beside those that each library gives
in its own slow way.

All are built from their configs with random weights, small and made sharp; nothing is downloaded.
The table in docs/recording.md is what ``python tests/test_other_vits.py`` prints.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import ROOT
from javascript import data_of
from PIL import Image
from torch import nn

import mnist_vit
from mnist_vit import jobs
from mnist_vit.attention import attention_weights, record_attention, rollout, to_maps
from mnist_vit.tokens import patch_grid

timm = pytest.importorskip("timm", reason='timm comes with pip install -e ".[test]"')
transformers = pytest.importorskip(
    "transformers", reason='transformers come with pip install -e ".[test]"'
)

SMALL: dict[str, Any] = {"embed_dim": 48, "depth": 3, "num_heads": 4, "num_classes": 1000}
SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 64,
    "patch_size": 16,
    "num_labels": 1000,
}
TOKEN, REGISTERS = "class token", "class token, 4 registers"
TIMM = {  # the family: the name, the size, the tokens before the patches
    "ViT": ("vit_small_patch16_224", (64, 64), TOKEN),
    "ViT, 64×96 pixels": ("vit_small_patch16_224", (64, 96), TOKEN),
    "DeiT": ("deit_tiny_distilled_patch16_224", (64, 64), "class and distillation token"),
    "DeiT3": ("deit3_small_patch16_224", (64, 64), TOKEN),
    "BEiT": ("beit_base_patch16_224", (64, 64), TOKEN),
    "EVA02": ("eva02_tiny_patch14_224", (56, 56), TOKEN),
    "CLIP": ("vit_base_patch16_clip_224", (64, 64), TOKEN),
    "SigLIP": ("vit_base_patch16_siglip_224", (64, 64), "none"),
    "DINOv2 with registers": ("vit_small_patch14_reg4_dinov2", (56, 84), REGISTERS),
    "DINOv3": ("vit_small_patch16_dinov3", (64, 64), REGISTERS),
}
FACE = {  # the family: model, config, the tokens before the patches
    "ViT": ("ViTForImageClassification", "ViTConfig", TOKEN),
    "DeiT": ("DeiTForImageClassification", "DeiTConfig", "class and distillation token"),
    "BEiT": ("BeitForImageClassification", "BeitConfig", TOKEN),
    "CLIP": ("CLIPVisionModel", "CLIPVisionConfig", TOKEN),
    "SigLIP": ("SiglipVisionModel", "SiglipVisionConfig", "none"),
    "DINOv2": ("Dinov2ForImageClassification", "Dinov2Config", TOKEN),
    "DINOv2 with registers": ("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", REGISTERS),
    "DINOv3": ("DINOv3ViTModel", "DINOv3ViTConfig", REGISTERS),
}
CASES = [("timm", family) for family in TIMM] + [("Hugging Face", family) for family in FACE]
PREFIX = {"none": 0, TOKEN: 1, "class and distillation token": 2, REGISTERS: 5}


def sharp(model: nn.Module) -> nn.Module:
    """With numbers for all parameters, and some attention weights near 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
            keys = any(key in name for key in ("qkv", "query", "key", "q_proj", "k_proj"))
            if parameter.dim() == 2 and keys and parameter.std() < 0.1:
                parameter *= 3
    return model.eval()


def by_timm(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """With fused_attn off; what goes into the dropout of the weights are the weights."""
    model, kept = copy.deepcopy(model), []
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
        if hasattr(module, "attn_drop"):
            module.attn_drop.register_forward_hook(lambda _, given, out: kept.append(given[0]))
    model(images)
    return torch.stack(kept, dim=1)


def built(
    library: str, family: str
) -> tuple[nn.Module, torch.Tensor, Callable[[], torch.Tensor], int]:
    """A model, images, its weights by its library's own way, and how many tokens stand before the
    patches."""
    torch.manual_seed(0)
    if library == "timm":
        name, size, tokens = TIMM[family]
        model = sharp(timm.create_model(name, img_size=size, **SMALL))
        images = torch.randn(2, 3, *size)
        return model, images, lambda: by_timm(model, images), PREFIX[tokens]
    name, config, tokens = FACE[family]
    kind, given = getattr(transformers, name), getattr(transformers, config)(**SIZES)
    if "registers" in tokens:
        given.num_register_tokens = 4
    eager = kind._from_config(copy.deepcopy(given), attn_implementation="eager")
    model, images = sharp(kind(given)), torch.randn(2, 3, 64, 64)
    eager.load_state_dict(model.state_dict())

    def weights():
        return torch.stack(eager.eval()(images, output_attentions=True).attentions, dim=1)

    return model, images, weights, PREFIX[tokens]


@pytest.mark.parametrize(("library", "family"), CASES)
def test_recorded_beside_an_untouched_model(library: str, family: str) -> None:
    model, images, theirs, prefix = built(library, family)
    with torch.no_grad():
        expected = theirs()
        plain = model(images)
        with record_attention(model) as record:
            seen = model(images)
    for before, during in (
        ((plain, seen),) if library == "timm" else zip(plain.values(), seen.values(), strict=True)
    ):
        assert torch.equal(before, during)
    weights = attention_weights(model, images)
    assert torch.equal(weights, torch.stack(record, dim=1))
    assert expected.max() > 0.5
    torch.testing.assert_close(weights, expected, atol=3e-6, rtol=0)
    torch.testing.assert_close(
        attention_weights(model, images, 0, layers=[1]), weights[:, [1], :, 0]
    )
    grid = patch_grid(model, images)
    assert weights.shape[-1] == prefix + grid[0] * grid[1]
    assert torch.equal(to_maps(weights, grid).flatten(-2), weights[..., prefix:])
    assert to_maps(rollout(weights), grid).shape == (2, weights.shape[-1], *grid)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("cait_xxs24_224", {"depth": 2, "embed_dim": 48, "num_heads": 4}),
        ("xcit_nano_12_p16_224", {"depth": 2}),
        ("convit_tiny", {}),
        ("swin_tiny_patch4_window7_224", {}),
        ("mvitv2_tiny", {}),
        ("pvt_v2_b0", {}),
        ("hiera_tiny_224", {}),
        ("crossvit_tiny_240", {}),
        ("resnet18", {}),
    ],
)
def test_what_cannot_be_recorded_whole_is_an_error(name: str, more: dict) -> None:
    """CaiT's last layers alone, for one, go through the function that is seen."""
    model = timm.create_model(name, **more).eval()
    images = torch.zeros(1, 3, *(240, 240) if "240" in name else (224, 224))
    with pytest.raises(ValueError, match=r"timm: set fused_attn = True .* windows \(Swin\)"):
        attention_weights(model, images)


@pytest.mark.parametrize("library", ["timm", "Hugging Face"])
def test_the_slow_way_is_told_how_to_be_the_fast_one(library: str) -> None:
    if library == "timm":
        model, images, *_ = built("timm", "ViT")
        model.blocks[1].attn.fused_attn = False
    else:
        config = transformers.ViTConfig(**SIZES)
        model = transformers.ViTModel._from_config(config, attn_implementation="eager").eval()
        images = torch.zeros(1, 3, 64, 64)
    with pytest.raises(
        ValueError, match=r'by a softmax of its own.*fused_attn = True.*attn_implementation="sdpa"'
    ):
        attention_weights(model, images)


def photographs(folder: Path) -> Path:
    folder.mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 255, (90, 120, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"photo_{number}.png")
    return folder


@pytest.mark.parametrize(
    ("library", "family", "query", "grid"),
    [
        ("timm", "DINOv2 with registers", "class token", (4, 6)),
        ("timm", "SigLIP", "mean over the patches", (4, 4)),
        ("Hugging Face", "ViT", "class token", (4, 4)),
        ("Hugging Face", "DINOv2", "class token", (4, 4)),
    ],
)
def test_ones_own_photographs_and_1000_classes(
    library: str,
    family: str,
    query: str,
    grid: tuple[int, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    from torchvision.transforms import v2

    model, images, *_ = built(library, family)
    to_size = [v2.ToImage(), v2.Resize(images.shape[-2:]), v2.ToDtype(torch.float32, scale=True)]
    transform, classes = (
        v2.Compose([*to_size, v2.Normalize([0.5], [0.2])]),
        [f"class {i}" for i in range(1000)],
    )
    folder = photographs(tmp_path / "photos")
    given: dict[str, Any] = {"transform": transform, "classes": classes}
    probabilities = mnist_vit.predict(folder / "photo_1.png", model, out=tmp_path / "one", **given)
    with torch.no_grad():
        ready = transform(Image.open(folder / "photo_1.png"))[None]
        logits = model(ready) if library == "timm" else model(ready).logits
    torch.testing.assert_close(probabilities, logits.softmax(dim=1)[0])
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.endswith(f": {classes[int(probabilities.argmax())]}")
    assert f"{classes[int(probabilities.argmax())]}: " in second
    page = jobs.visualize_attention(model, folder, out=tmp_path / "all", **given)
    assert page.is_file()
    (drawn,) = (json.loads(path.read_text()) for path in page.parent.glob("*_1/attention.json"))
    weights, n = attention_weights(model, ready)[0], grid[0] * grid[1]
    rows = weights[..., -n:, :].mean(dim=-2) if query != "class token" else weights[..., 0, :]
    assert drawn["query"] == query
    np.testing.assert_allclose(
        drawn["layers_heads_rows_columns"], to_maps(rows, grid).numpy(), atol=1e-5
    )
    shown = data_of(jobs.explore(model, folder, out=tmp_path / "page.html", **given))
    assert (tuple(shown["grid"]), len(shown["prefix"])) == (grid, weights.shape[-1] - n)
    assert shown["reads"] == ("token" if query == "class token" else "mean")
    np.testing.assert_allclose(shown["examples"][1]["logits"], logits[0], atol=1e-5)


@pytest.mark.parametrize(
    ("transform", "got"),
    [
        (lambda picture: {"pixel_values": np.zeros((1, 3, 64, 64))}, "got dict"),
        (lambda picture: np.zeros((3, 64, 64)), "got ndarray"),
        (lambda picture: torch.zeros(1, 3, 64, 64), r"got \(1, 3, 64, 64\)"),
    ],
)
def test_a_transform_that_makes_no_tensor_of_a_picture(
    transform: Callable, got: str, tmp_path: Path
) -> None:
    model, folder = built("Hugging Face", "ViT")[0], photographs(tmp_path / "photos")
    given: dict[str, Any] = {
        "transform": transform,
        "classes": range(1000),
        "out": tmp_path / "out.html",
    }
    for call in (
        lambda: jobs.explore(model, folder, **given),
        lambda: jobs.predict(folder / "photo_0.png", model, **given),
    ):
        with pytest.raises(ValueError, match=rf"{got}.*return_tensors"):
            call()
    assert not (tmp_path / "out.html").exists()


def test_a_model_without_a_class_head_is_told_so(tmp_path: Path) -> None:
    model = transformers.Dinov2Model(transformers.Dinov2Config(**SIZES))
    with pytest.raises(
        ValueError, match=r"logits \(n, 2\).*BaseModelOutputWithPooling.*class head"
    ):
        jobs.explore(
            model,
            photographs(tmp_path / "photos"),
            transform=lambda _: torch.zeros(3, 64, 64),
            classes="ab",
        )


def table() -> str:
    lines = [
        "| family | recorded how | tokens before the patches | compared with | largest difference |"
    ]
    lines += ["| --- " * 5 + "|"]
    for library, family in CASES:
        model, images, theirs, _ = built(library, family)
        with torch.no_grad():
            difference = (attention_weights(model, images) - theirs()).abs().max()
        tokens = (TIMM if library == "timm" else FACE)[family][2]
        way = "`fused_attn = False`" if library == "timm" else "`eager`"
        lines.append(f"| {library} {family} | fused call | {tokens} | {way} | {difference:.0e} |")
    return "\n".join(lines)


def test_the_table_in_the_docs_has_these_families() -> None:
    page = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if " | fused call | " in line]
    assert [row[0].removeprefix("| ") for row in rows] == [" ".join(case) for case in CASES]
    assert all(float(row[4].removesuffix(" |")) < 1e-6 for row in rows)


if __name__ == "__main__":
    print(table())
