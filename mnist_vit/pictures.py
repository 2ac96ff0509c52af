"""Images from files: a folder as one tensor, or one image prepared for a model.

Files that cannot be used are skipped and named in a warning. No external program, such as
Ghostscript, is started to read one.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .console import progress
from .errors import DataError, printable, unknown

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # for EPS, Pillow would start Ghostscript


def read_folder(
    folder: str | Path,
    split: str,
    image_size: int,
    channels: int,
    prepare: Callable[[Any], Tensor] | None = None,
) -> tuple[Tensor, Tensor, tuple[str, ...], str]:
    """Read one subfolder of images per class; see ``data.load_folder``.

    Returns uint8 (n, channels, image_size, image_size); int64 (n,); class names; a description.
    """
    folder = Path(folder).expanduser()
    source, held_out = _find_split(folder, split)
    notes: list[str] = []
    loose = []
    if split == "all" and not _subfolders(folder):
        loose = _files(folder)
    if loose:  # images without classes
        classes: tuple[str, ...] = (folder.resolve().name,)
        paths = [(path, 0) for path in loose]
    else:
        home = folder if source == folder else folder / "train"
        classes = _find_classes(home, notes)  # the training images define the classes
        _check_subfolders(source, home)
        paths = _labelled_files(source, classes, held_out)
    if not paths and held_out is not None:
        raise DataError(
            f"{source} has too few images for the split {split} (every tenth image of a class "
            "is for validation): give at least 10 of a class, or use the split all"
        )

    prepare = prepare or partial(picture_to_tensor, image_size=image_size, channels=channels)
    images = torch.empty(0)
    labels = torch.empty(len(paths), dtype=torch.long)
    count = 0
    for path, label in progress(paths, desc="reading", unit=" pictures"):
        try:
            one = prepare(open_picture(path))
        except DataError as error:
            what, _, _advice = str(error).rpartition(": ")
            notes.append(what.removeprefix(printable(f"{source}/")))
            continue
        if count == 0:
            images = torch.empty(len(paths), *one.shape, dtype=torch.uint8)
        images[count] = one
        labels[count] = label
        count += 1
    if notes:
        more = f", and {len(notes) - 5} more" if len(notes) > 5 else ""
        warnings.warn(printable(f"{source}: skipped: {'; '.join(notes[:5])}{more}"), stacklevel=3)
    if count == 0:
        raise DataError(
            f"{source} contains no readable image: it needs one subfolder of images per class"
        )
    which = f"{count:,} images of {printable(str(source))} ({split})"
    return images[:count], labels[:count], tuple(map(printable, classes)), which


def folder_channels(folder: str | Path, pictures: int = 20) -> int:
    """3 if one of some training images of a folder is in colour, else 1 for grey."""
    source, _ = _find_split(Path(folder).expanduser(), "train")
    in_turn = zip_longest(*(_files(path)[:pictures] for path in _subfolders(source)))
    paths = [path for path in chain.from_iterable(in_turn) if path is not None]
    for path in paths[:pictures]:
        with suppress(DataError):  # told when all images are read
            if _has_colour(open_picture(path)):
                return 3
    return 1


def _has_colour(picture: Any) -> bool:
    """Whether red, green and blue differ, by more than the noise of a JPEG file."""
    small = picture_to_tensor(picture, 32, 3).int()
    return bool((small.amax(dim=0) - small.amin(dim=0)).max() > 32)


def open_picture(path: str | Path) -> Any:
    """Open a PNG, JPEG, WebP or BMP file as a Pillow image.

    It has 8 bits, EXIF's orientation applied, and a white background. Raises DataError for other
    formats, animations, damaged files and far too many pixels.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(path, formats=FORMATS)
        with picture:
            frames = getattr(picture, "n_frames", 1)
            if picture.format == "MPO":  # the other frames are previews of a phone
                frames = 1
            picture.load()
            picture = _eight_bits(ImageOps.exif_transpose(picture))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{path} has more than {Image.MAX_IMAGE_PIXELS:,} pixels: resize it"
        ) from error
    except Exception as error:  # damaged files raise many kinds
        damage = "empty, damaged or not a PNG, JPEG, WebP or BMP picture"
        reason = getattr(error, "strerror", None) or damage
        raise DataError(
            f"{path} cannot be read as a picture ({reason}): give a PNG or JPEG file"
        ) from error
    if frames > 1:
        raise DataError(f"{path} is an animation of {frames} frames: give a single image")
    return picture


def picture_to_tensor(
    picture: Any,
    image_size: int,
    channels: int,
    resize: int | None = None,
    interpolation: str = "bilinear",
) -> Tensor:
    """Convert a Pillow image to uint8 (channels, image_size, image_size).

    The shorter side is resized to ``resize``, as for torchvision's weights, or else to
    ``image_size``; then the centre is cropped.
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
    """Convert a Pillow image of a drawn digit to uint8 (1, 28, 28), in MNIST's form.

    Dark ink on light paper is inverted; the digit is cropped, scaled to 20 pixels and centred by
    its centre of mass. A 28 by 28 image on black is used as it is. Source: LeCun, Cortes, Burges,
    "The MNIST database of handwritten digits".
    """
    from torchvision.transforms.v2 import functional as transforms

    ink = transforms.pil_to_tensor(_eight_bits(picture).convert("L")).float() / 255
    paper = ink.median()
    is_light = paper > 0.5
    if not is_light and ink.shape == (1, 28, 28):
        return (ink * 255).round().to(torch.uint8)
    contrast = paper - ink if is_light else ink - paper
    ink = contrast.clamp(min=0)
    if ink.max() < 0.1:
        raise DataError(
            "the image contains no ink: draw a digit with more contrast to its background"
        )
    ink = ((ink / ink.max() - 0.25) / 0.75).clamp(min=0)  # remove shadows and the texture of paper
    rows = ink[0].amax(dim=1).nonzero()[:, 0]
    columns = ink[0].amax(dim=0).nonzero()[:, 0]
    ink = ink[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    longer = max(ink.shape)
    height, width = (max(1, round(20 * side / longer)) for side in ink.shape[1:])
    ink = transforms.resize(ink, [height, width], antialias=True)

    # Place the digit so that its centre of mass is in the middle
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width))
    share = ink.flatten() / ink.sum()
    middle_y, middle_x = (share @ places.float()).tolist()
    top = min(max(0, round(13.5 - middle_y)), 28 - height)
    left = min(max(0, round(13.5 - middle_x)), 28 - width)
    pixels = (ink * 255 / ink.max()).round().to(torch.uint8)
    digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    digit[:, top : top + height, left : left + width] = pixels
    return digit


def picture_form(model: nn.Module, about: dict[str, Any]) -> partial[Tensor]:
    """The function that prepares a Pillow image for the model; ValueError if it is not known."""
    data = about.get("data", {})
    if not data.get("mean") or not data.get("classes"):
        raise ValueError(
            f"preprocessing and classes of {about['name']} are unknown: give its weights file; or"
            " in Python torchvision's enum, such as ViT_B_16_Weights.IMAGENET1K_V1; or transform"
            " and classes"
        )
    more = {key: data[key] for key in ("resize", "interpolation") if key in data}
    size = data.get("size", getattr(model, "image_size", 32))
    return partial(picture_to_tensor, image_size=size, channels=len(data["mean"]), **more)


def transformed(picture: Any, transform: Any) -> tuple[Tensor, Tensor]:
    """What ``transform`` makes of a Pillow image, (c, h, w), and the same as uint8, to be shown."""
    made = transform(picture.convert("RGB"))
    if not isinstance(made, Tensor) or made.dim() != 3:
        got = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
        raise ValueError(
            f"transform must make a tensor (c, h, w) of a Pillow image, got {got}. For Hugging"
            ' Face: lambda picture: processor(picture, return_tensors="pt")["pixel_values"][0]'
        )
    low, high = made.min(), made.max()
    shown = (made - low) / (high - low).clamp(min=1e-12) * 255
    return made, shown.round().to(torch.uint8).cpu()


def _eight_bits(picture: Any) -> Any:
    """Scale 16 bits per pixel to 8, and put transparent images on white."""
    import numpy as np
    from PIL import Image

    if picture.mode.startswith("I"):
        pixels = np.asarray(picture).astype(np.int64)
        if pixels.max() > 255:
            pixels = pixels // 257
        return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture.convert("RGBA"))
    return picture


def _find_split(folder: Path, split: str) -> tuple[Path, bool | None]:
    """The folder of a split, and which of its images belong to it, as ``_files`` takes it."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    train = folder / "train"
    validation = folder / "validation"
    test = folder / "test"
    splits: dict[str, tuple[Path, bool | None]] = {}
    if not _subfolders(train):  # a folder train that contains images is a class
        splits["all"] = (folder, None)
        splits["train"] = (folder, False)
        splits["validation"] = (folder, True)
    elif validation.is_dir():
        splits["train"] = (train, None)
        splits["validation"] = (validation, None)
    else:
        splits["train"] = (train, False)
        splits["validation"] = (train, True)
    if _subfolders(train) and test.is_dir():
        splits["test"] = (test, None)
    if split not in splits:
        raise DataError(f"{folder}: {unknown('split', split, splits)}")
    return splits[split]


def _find_classes(source: Path, notes: list[str]) -> tuple[str, ...]:
    """The names of the subfolders that contain files; other content is added to ``notes``."""
    classes = []
    nested_notes = []
    for path in _subfolders(source):
        if _files(path):
            classes.append(path.name)
        else:
            notes.append(f"{path.name}/ (no image in it)")
        nested = len(_subfolders(path))
        if nested:
            nested_notes.append(
                f"folders inside {path.name}/: {nested} (only one level of folders is read)"
            )
    notes += nested_notes
    loose = len(_files(source))
    if loose:
        notes.append(f"files outside the folders of the classes: {loose}")
    if len(classes) < 2:
        raise DataError(
            f"{source}: subfolders with images: {len(classes)}. It needs one per class, at"
            " least two"
        )
    return tuple(classes)


def _check_subfolders(source: Path, home: Path) -> None:
    """Raise DataError if a split has classes that the training images do not have."""
    known = {path.name for path in _subfolders(home)}
    strange = [path.name for path in _subfolders(source) if path.name not in known]
    if strange:
        raise DataError(f"{source} has classes without images in {home}: {', '.join(strange)}")


def _labelled_files(
    source: Path, classes: tuple[str, ...], held_out: bool | None
) -> list[tuple[Path, int]]:
    """The files of all classes, each with the index of its class."""
    found = []
    for label, name in enumerate(classes):
        for path in _files(source / name, held_out):
            found.append((path, label))
    return found


def _visible(folder: Path) -> list[Path]:
    """What is in a folder, sorted, without hidden entries; nothing if there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.is_dir()]


def _files(folder: Path, held_out: bool | None = None) -> list[Path]:
    """The visible files of a folder: every tenth (True), all others (False) or all (None)."""
    files = [path for path in _visible(folder) if path.is_file()]
    if held_out is None:
        return files
    return [file for i, file in enumerate(files) if (i % 10 == 9) == held_out]
