"""Pictures from anywhere: a folder of them as one tensor, or one in the form that a model wants.

What cannot be used is left out and named, with the reason. Nothing in a folder is executed, and no program is started.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .errors import DataError, printable, unknown
from .modes import progress

__all__ = ["digit_to_tensor", "open_picture", "picture_to_tensor", "read_folder"]

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # of what Pillow knows; for EPS it would start Ghostscript


def read_folder(
    folder: str | Path, split: str, image_size: int, channels: int, prepare: Callable[[Any], Tensor] | None = None
) -> tuple[Tensor, Tensor, tuple[str, ...], str]:
    """Read one subfolder of pictures per class; see ``data.load_folder``, also for its DataError.

    Returns uint8 (n, channels, image_size, image_size); int64 (n,); the names of the classes; which pictures, in words.
    """
    folder = Path(folder).expanduser()
    source, held_out = _find_split(folder, split)
    notes: list[str] = []
    home = folder if source == folder else folder / "train"  # the classes are those of the training images
    loose = _files(folder) if split == "all" and not _subfolders(folder) else []  # pictures without any classes
    classes = (folder.resolve().name,) if loose else _find_classes(home, notes)
    strange = sorted({p.name for p in _subfolders(source)} - {p.name for p in _subfolders(home)})
    if strange:
        raise DataError(f"{source} has classes that {home} has no pictures of: {', '.join(strange)}")
    paths = [(path, 0) for path in loose] or [
        (path, label) for label, name in enumerate(classes) for path in _files(source / name, held_out)
    ]
    if not paths and held_out is not None:
        raise DataError(f"{source} has too few pictures for the split {split}: every tenth of a class is for "
                        "validation. Add pictures, or name the split all")  # fmt: skip
    images = torch.empty(0)
    labels = torch.empty(len(paths), dtype=torch.long)
    count = 0
    for path, label in progress(paths, desc="reading", unit=" pictures"):
        try:
            picture = open_picture(path)
            one = prepare(picture) if prepare else picture_to_tensor(picture, image_size, channels)
        except DataError as error:  # the remedy, after the last colon, is for a single picture
            notes.append(str(error).removeprefix(printable(f"{source}/")).rpartition(": ")[0])
        else:
            images = images if count else torch.empty(len(paths), *one.shape, dtype=torch.uint8)
            images[count], labels[count] = one, label
            count += 1
    if notes:
        more = f", and {len(notes) - 5} more" if len(notes) > 5 else ""
        warnings.warn(printable(f"{source}: left out: {'; '.join(notes[:5])}{more}"), stacklevel=3)
    if count == 0:
        raise DataError(f"{source} holds no image that can be read: it needs one subfolder of images per class")
    which = f"{count:,} images of {printable(str(source))} ({split})"
    return images[:count], labels[:count], tuple(map(printable, classes)), which


def open_picture(path: str | Path) -> Any:
    """A PNG, JPEG, WebP or BMP file as a Pillow image, 8 bits a channel, turned as its camera says, on white paper.

    DataError, with the reason, for everything else: other formats, animations, damage, far too many pixels.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(path, formats=FORMATS)
        with picture:
            frames = 1 if picture.format == "MPO" else getattr(picture, "n_frames", 1)  # MPO: a telephone's previews
            picture.load()
            picture = _eight_bits(ImageOps.exif_transpose(picture))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path} has more than {Image.MAX_IMAGE_PIXELS:,} pixels: make it smaller") from error
    except Exception as error:  # whatever a broken file makes Pillow raise
        reason = getattr(error, "strerror", None) or "empty, damaged or no PNG, JPEG, WebP or BMP picture"
        raise DataError(f"{path} cannot be read as a picture ({reason}): give a PNG or JPEG file") from error
    if frames > 1:
        raise DataError(f"{path} is an animation of {frames} frames: give one picture")
    return picture


def picture_to_tensor(
    picture: Any, image_size: int, channels: int, resize: int | None = None, interpolation: str = "bilinear"
) -> Tensor:
    """What ``open_picture`` gives -> uint8 (channels, image_size, image_size): the middle square, resized.

    With ``resize`` as torchvision's weights want it: the shorter side becomes so long, then the middle is cut out.
    """
    from PIL import Image, ImageOps
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as transforms

    picture = picture.convert("L" if channels == 1 else "RGB")
    if resize is None:
        picture = ImageOps.fit(picture, (image_size, image_size), Image.Resampling.BILINEAR)
    else:
        picture = transforms.resize(picture, [resize], InterpolationMode(interpolation))
        picture = transforms.center_crop(picture, [image_size, image_size])
    return transforms.pil_to_tensor(picture)


def digit_to_tensor(picture: Any) -> Tensor:
    """A Pillow image of a drawn digit -> uint8 (1, 28, 28), in the form MNIST's digits have.

    Dark ink on light paper is turned round, the digit is cut out, scaled to 20 pixels and placed so that its centre of
    mass is in the middle. A 28 by 28 picture on black is taken as it is.

    Source: the form is that of LeCun, Cortes & Burges, "The MNIST database of handwritten digits".
    """
    from torchvision.transforms.v2 import functional as transforms

    ink = transforms.pil_to_tensor(_eight_bits(picture).convert("L")).float() / 255
    paper = ink.median()
    if paper <= 0.5 and ink.shape == (1, 28, 28):
        return (ink * 255).round().to(torch.uint8)
    ink = (paper - ink if paper > 0.5 else ink - paper).clamp(min=0)
    if ink.max() < 0.1:
        raise DataError("there is no ink in the picture: draw a digit that stands out from its paper")
    ink = ((ink / ink.max() - 0.25) / 0.75).clamp(min=0)  # shadows and the grain of the paper go
    rows, columns = ink[0].amax(dim=1).nonzero()[:, 0], ink[0].amax(dim=0).nonzero()[:, 0]
    ink = ink[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    ink = transforms.resize(ink, [max(1, round(20 * side / max(ink.shape))) for side in ink.shape[1:]], antialias=True)

    height, width = ink.shape[1:]
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width))
    middle_y, middle_x = (ink.flatten() / ink.sum() @ places.float()).tolist()
    top = min(max(0, round(13.5 - middle_y)), 28 - height)
    left = min(max(0, round(13.5 - middle_x)), 28 - width)
    digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    digit[:, top : top + height, left : left + width] = (ink * 255 / ink.max()).round().to(torch.uint8)
    return digit


def _eight_bits(picture: Any) -> Any:
    """16 bits a pixel become 8, not cut off at 255; what can be seen through becomes white paper."""
    import numpy as np
    from PIL import Image

    if picture.mode.startswith("I"):
        pixels = np.asarray(picture).astype(np.int64)
        return Image.fromarray((pixels // 257 if pixels.max() > 255 else pixels).clip(0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA"))
    return picture


def _find_split(folder: Path, split: str) -> tuple[Path, bool | None]:
    """Where a split lies, and whether to take every tenth picture (True), all others (False) or all (None)."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    splits: dict[str, Any] = {"all": (folder, None), "train": (folder, False), "validation": (folder, True)}
    if _subfolders(train := folder / "train"):  # a folder called train that holds pictures is a class
        splits = {"train": (train, False), "validation": (train, True)}
        if (folder / "validation").is_dir():
            splits = {"train": (train, None), "validation": (folder / "validation", None)}
        if (folder / "test").is_dir():
            splits["test"] = folder / "test", None
    if split not in splits:
        raise DataError(f"{folder}: {unknown('split', split, splits)}")
    return splits[split]


def _find_classes(source: Path, notes: list[str]) -> tuple[str, ...]:
    """The names of the subfolders that hold files; what else lies there is noted."""
    folders = _subfolders(source)
    classes = [path.name for path in folders if _files(path)]
    notes += [f"{path.name}/ (no picture in it)" for path in folders if not _files(path)]
    notes += [f"{nested} folders inside {path.name}/ (only one level of folders is read)"
              for path in folders if (nested := len(_subfolders(path)))]  # fmt: skip
    if loose := len(_files(source)):
        notes.append(f"{loose} files outside the folders of the classes")
    if len(classes) < 2:
        raise DataError(f"{source} has pictures in {len(classes)} subfolders{': ' if classes else ''}"
                        f"{', '.join(classes)}. It needs one subfolder of images per class, two at least")  # fmt: skip
    return tuple(classes)


def _subfolders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] != ".") if folder.is_dir() else []


def _files(folder: Path, held_out: bool | None = None) -> list[Path]:
    """The files of a folder, hidden ones aside; every tenth (True), all others (False) or all (None)."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name[0] != ".") if folder.is_dir() else []
    return [p for i, p in enumerate(files) if held_out is None or (i % 10 == 9) == held_out]
