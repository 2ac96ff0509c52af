"""The data is what it is called, and damage or absence is told in a sentence."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw

from mnist_vit.data import (
    MNIST_SIZES,
    ImageData,
    Loader,
    augment,
    digit_to_tensor,
    load_cifar10,
    load_data,
    load_embedded,
    load_folder,
    load_mnist,
)
from mnist_vit.errors import DataError


def toy(n: int = 10, size: int = 4) -> ImageData:
    images = torch.arange(n * size * size).remainder(256).to(torch.uint8).view(n, 1, size, size)
    return ImageData(images, torch.arange(n) % 2, ("even", "odd"), "toy", (0.5,), (0.25,))


def test_embedded_digits() -> None:
    digits = load_embedded()
    assert digits.images.shape == (5000, 1, 28, 28)
    assert digits.images.dtype == torch.uint8
    assert digits.images.max() == 255
    assert torch.equal(digits.labels, torch.arange(10).repeat_interleave(500))
    assert "held-out" in digits.name
    train, validation = load_embedded("train"), load_embedded("validation")
    assert (len(train), len(validation)) == (4000, 1000)
    assert torch.bincount(train.labels).tolist() == [400] * 10
    together = torch.cat([train.images.view(10, 400, -1), validation.images.view(10, 100, -1)], dim=1)
    assert torch.equal(together.view(5000, 1, 28, 28), digits.images)


def test_the_embedded_digits_are_the_validation_split(real_mnist: Path) -> None:
    """Up to the faintest grey, 1 of 255, which the copy at hand may have lost; and no test image is among them."""
    digits, validation = load_embedded(), load_mnist("validation")
    assert torch.equal(digits.labels, validation.labels)
    key = lambda images: sorted(image.numpy().tobytes() for image in torch.where(images == 1, 0, images))  # noqa: E731
    for digit in range(10):
        chosen = digits.labels == digit
        assert key(digits.images[chosen]) == key(validation.images[chosen]), digit
    test = set(key(load_mnist("test").images))
    assert not test & set(key(digits.images))


def test_mnist_splits(real_mnist: Path) -> None:
    parts = {split: load_mnist(split) for split in ("train", "validation", "test")}
    assert {split: len(part) for split, part in parts.items()} == {"train": 55_000, "validation": 5_000, "test": 10_000}
    assert parts["validation"].labels.bincount().tolist() == [500] * 10
    whole = torch.cat([parts["train"].images, parts["validation"].images]).float().mean().item() / 255
    assert abs(whole - 0.1307) < 0.0002
    assert parts["train"].mean == (0.1307,)


def test_cifar10_from_the_zip(real_cifar10: Path) -> None:
    validation, test = load_cifar10("validation"), load_cifar10("test")
    assert validation.images.shape == (5000, 3, 32, 32)
    assert validation.labels.bincount().tolist() == [500] * 10
    assert test.images.shape[1:] == (3, 32, 32)
    assert test.classes[3] == "cat"


def test_small_zip_is_read_in_order(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "cifar10.zip", "w") as archive:
        for name, grey in (("test/frog/00001.png", 7), ("test/cat/00000.png", 3)):
            Image.new("RGB", (32, 32), (grey, 0, 0)).save(tmp_path / "x.png")
            archive.write(tmp_path / "x.png", f"cifar10/{name}")
    test = load_cifar10("test", tmp_path)
    assert test.labels.tolist() == [3, 6]
    assert test.images[:, 0, 0, 0].tolist() == [3, 7]
    (tmp_path / "cifar10.zip").write_bytes(b"PK half a file")
    with pytest.raises(DataError, match=r"cifar10\.zip is damaged"):
        load_cifar10("test", tmp_path)


def test_without_data_and_network_the_ways_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for load in (load_mnist, load_cifar10):
        with pytest.raises(DataError, match=r"MNIST_VIT_OFFLINE forbids downloads.*Ways to get it: set MNIST_VIT_DATA"):
            load("train", tmp_path)
    monkeypatch.delenv("MNIST_VIT_OFFLINE")
    monkeypatch.setattr("torchvision.datasets.MNIST.mirrors", ["https://localhost:9/"])
    with pytest.raises(DataError, match=r'the download failed.*data="embedded" needs none of it'):
        load_mnist("test", tmp_path)


@pytest.mark.parametrize("name", MNIST_SIZES)
@pytest.mark.parametrize("damage", ["half", "header", "labels"])
def test_damaged_mnist_is_named_and_not_used(real_mnist: Path, tmp_path: Path, name: str, damage: str) -> None:
    raw = tmp_path / "MNIST" / "raw"
    shutil.copytree(real_mnist / "MNIST" / "raw", raw)
    content = bytearray((raw / name).read_bytes())
    if damage == "labels" and "labels" not in name:
        return  # pixels have no checksum that would survive the faintest grey
    if damage == "half":
        content = content[: len(content) // 2]
    elif damage == "header":
        content[3] ^= 1
    else:
        content[100] = (content[100] + 1) % 10
    (raw / name).chmod(0o644)
    (raw / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        load_mnist("test" if name.startswith("t10k") else "train", tmp_path)


def test_loader_normalises_and_covers_everything_once() -> None:
    data = toy()
    batches = list(Loader(data, 4))
    assert [len(labels) for _, labels in batches] == [4, 4, 2]
    images = torch.cat([images for images, _ in batches])
    torch.testing.assert_close(images, (data.images.float() / 255 - 0.5) / 0.25)
    loader = Loader(data, 5, shuffle=True, seed=1)
    labels = torch.cat([images[:, 0, 0, 0] for images, _ in loader])
    assert len(labels.unique()) == 10
    assert [len(labels) for _, labels in Loader(data, 4, shuffle=True)] == [4, 4], (
        "the last, incomplete one is left out"
    )


def test_order_follows_from_seed_and_epoch() -> None:
    def first(seed: int, epoch: int) -> list[float]:
        loader = Loader(toy(), 5, shuffle=True, seed=seed, augmentation={"degrees": 20, "shift": 1})
        loader.set_epoch(epoch)
        return next(iter(loader))[0].flatten().tolist()

    assert first(0, 0) == first(0, 0)
    assert first(0, 0) != first(0, 1)
    assert first(0, 0) != first(1, 0)


@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_share_a_batch(world_size: int) -> None:
    keywords = {"shuffle": True, "augmentation": {"degrees": 20, "scale": 0.2}}
    whole = list(Loader(toy(), 8, **keywords))
    parts = [list(Loader(toy(), 8, rank=r, world_size=world_size, **keywords)) for r in range(world_size)]
    for i, (images, labels) in enumerate(whole):
        together = torch.stack([part[i][0] for part in parts], dim=1).flatten(0, 1)
        torch.testing.assert_close(together, images)
        assert torch.equal(torch.stack([part[i][1] for part in parts], dim=1).flatten(), labels)


def test_augment_turns_shifts_and_mirrors() -> None:
    images = torch.zeros(64, 1, 9, 9)
    images[:, :, 4, 4] = 1
    images[:, :, 4, 7] = 0.5
    generator = torch.Generator().manual_seed(0)
    torch.testing.assert_close(augment(images, generator), images, atol=1e-5, rtol=0)
    turned = augment(images, generator, degrees=30)
    torch.testing.assert_close(turned[:, :, 4, 4], images[:, :, 4, 4], atol=1e-4, rtol=0)  # the middle stays
    assert not torch.allclose(turned[0], turned[1])
    flipped = augment(images, generator, flip=True)
    left = (flipped[:, 0, 4, 1] > 0.4).float().mean()
    assert 0.3 < left < 0.7
    shifted = augment(images, generator, shift=2)
    assert (shifted.flatten(1).argmax(1) != 40).any()


@pytest.mark.parametrize(("height", "width"), [(28, 28), (5, 9)])
def test_augment_is_what_pytorch_makes_of_the_same_changes(height: int, width: int) -> None:
    """The random numbers once more, and then torch's own affine_grid, in which a whole picture is 2 wide."""
    images = torch.rand(50, 2, height, width)
    degrees, scale, shift = 30.0, 0.2, 1.5
    changed = augment(images, torch.Generator().manual_seed(3), degrees, scale, shift)
    angle, stretch, dx, dy = torch.rand(4, 50, generator=torch.Generator().manual_seed(3)) * 2 - 1
    angle, stretch = torch.deg2rad(angle * degrees), 1 + stretch * scale
    top = torch.stack([stretch * angle.cos(), -stretch * angle.sin(), dx * shift * 2 / width], dim=1)
    bottom = torch.stack([stretch * angle.sin(), stretch * angle.cos(), dy * shift * 2 / height], dim=1)
    grid = F.affine_grid(torch.stack([top, bottom], dim=1), list(images.shape), align_corners=False)
    torch.testing.assert_close(changed, F.grid_sample(images, grid, align_corners=False), atol=1e-4, rtol=0)


def test_folder_of_images(tmp_path: Path) -> None:
    for name, value in (("Äpfel und Birnen", 200), ("zebra", 50)):
        (tmp_path / name).mkdir()
        for i in range(20):
            Image.new("RGB", (40, 30), (value, i, 0)).save(tmp_path / name / f"picture {i:02d}.png")
    (tmp_path / "zebra" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "zebra" / "empty.jpg").write_bytes(b"")
    with pytest.warns(
        UserWarning,
        match=r"left out: zebra/broken\.png cannot be read as a picture \(empty, damaged or no picture\); zebra/empty",
    ):
        data = load_folder(tmp_path, image_size=16)
    assert data.images.shape == (40, 3, 16, 16)
    assert data.classes == ("zebra", "Äpfel und Birnen")
    assert data.images[data.labels == 1, 0].unique().tolist() == [200]
    with pytest.warns(UserWarning, match="left out"):
        parts = [load_folder(tmp_path, split) for split in ("train", "validation")]
    assert [len(part) for part in parts] == [36, 4]
    with pytest.raises(DataError, match="has no folder test"):
        load_folder(tmp_path, "test")


def test_folder_with_its_own_splits(tmp_path: Path) -> None:
    """A class that is missing in one split does not move the labels of the others."""
    for name, n in (("train/a", 3), ("train/b", 3), ("validation/b", 2)):
        (tmp_path / name).mkdir(parents=True)
        for i in range(n):
            Image.new("L", (8, 8), i).save(tmp_path / name / f"{i}.png")
    train, validation = (load_folder(tmp_path, split, 8, 1) for split in ("train", "validation"))
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert validation.labels.tolist() == [1, 1]
    assert train.classes == validation.classes == ("a", "b")
    (tmp_path / "validation" / "c").mkdir()
    with pytest.raises(DataError, match=r"validation has classes that .*train has no pictures of: c"):
        load_folder(tmp_path, "validation")
    for split, said in (("all", "has splits of its own"), ("test", "has no folder test/: name the split train")):
        with pytest.raises(DataError, match=said):
            load_folder(tmp_path, split)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda p: load_data("minst", "train"), DataError, r'there is no data called "minst" \(did you mean mnist'),
        (lambda p: load_mnist("valid"), ValueError, r'split "valid" .*name one of train, validation, test'),
        (lambda p: load_folder(p / "no"), DataError, "is not a folder"),
        (lambda p: load_folder(p), DataError, "It needs one subfolder of images per class"),
        (lambda p: Loader(toy(), 0), ValueError, "batch_size must be a positive multiple"),
        (lambda p: Loader(toy(), 5, world_size=2), ValueError, "multiple of the 2 processes, got 5"),
        (lambda p: Loader(toy(0), 5), DataError, "toy: there are no images in it"),
    ],
)
def test_nonsense(tmp_path: Path, call: object, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        call(tmp_path)


def draw_seven(background: int, ink: int, size: int = 300) -> Image.Image:
    picture = Image.new("L", (size, size), background)
    pen = ImageDraw.Draw(picture)
    pen.line([(60, 60), (200, 60), (110, 260)], fill=ink, width=26, joint="curve")
    return picture


def test_a_drawn_digit_gets_mnists_form() -> None:
    on_paper, on_black = digit_to_tensor(draw_seven(240, 20)), digit_to_tensor(draw_seven(0, 255))
    assert on_paper.shape == (1, 28, 28)
    assert on_paper.dtype == torch.uint8
    assert (on_paper.float() - on_black.float()).abs().mean() < 3
    rows, columns = on_paper[0].amax(1).nonzero()[:, 0], on_paper[0].amax(0).nonzero()[:, 0]
    assert max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1 <= 20
    weight = on_paper[0] / on_paper.float().sum()
    assert abs(float((weight.sum(1) * torch.arange(28)).sum()) - 13.5) < 1
    see_through = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    ImageDraw.Draw(see_through).line([(60, 60), (200, 60), (110, 260)], fill=(0, 0, 0, 255), width=26)
    assert digit_to_tensor(see_through)[0, 0, 0] == 0
    digit = load_embedded().images[1234]
    assert torch.equal(digit_to_tensor(Image.fromarray(np.asarray(digit[0]))), digit)
    with pytest.raises(DataError, match="there is no ink in the picture"):
        digit_to_tensor(Image.new("L", (50, 50), 255))
