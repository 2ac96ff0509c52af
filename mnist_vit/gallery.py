"""Attention maps on disk: a folder of pictures for each image.

The page beside them is ``explorer``'s.
"""

import io
import math
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .attention import attention_weights, ink_share, rollout, sides, to_maps
from .devices import place
from .errors import NOT_FINITE
from .files import PARTS, locked, part_beside, read_file, sync_names, write_atomic, write_json
from .forward import eval_mode, logits_of
from .relevance import relevance
from .tokens import patch_grid, pools_patches

__all__ = ["replacing", "save_attention_images"]

# The names of our files in an image's folder; older versions left parts behind.
PICTURES = r"(image|relevance|rollout|layer_\d+_head_\d+)\.png"
OURS = rf"\.?({PICTURES}|attention\.json)(\.\d+\.part)?"
INDEX = "index.html"
SMALLEST = "smallest.html"  # the page beside it, of the smallest model
BESIDE = b'"beside": {'  # in a page that names another one
SHORTEST = 224  # pixels of the longer side of a picture, at least


@contextmanager
def replacing(folder: str | Path) -> Iterator[Path]:
    """A folder to draw in, whose content replaces that of ``folder`` when the block ends.

    Image folders are replaced as a whole; with a new page, older ones that are not among the new
    ones are removed, and so is the smallest model's page beside an older page. Files that are not
    ours stay; ValueError if one is in the way. If the block fails, or the process dies in it,
    nothing changes; if it dies during the swap, the next call
    first completes that swap. Threads and processes may share a folder: the last result stays.
    """
    folder = Path(folder)
    part = part_beside(folder / "any")  # in the folder, beside whatever is there
    new = part / "new"
    with ExitStack() as stack:
        with locked(folder, wait=60):
            _complete_dead_swaps(folder)
            stack.enter_context(locked(part))  # creates it; locked until the block ends
        new.mkdir()
        try:
            yield new
            _flush(new)
            with locked(folder, wait=60):
                _check_places(folder, new)
                os.replace(new, part / "ready")
                _swap(part, folder)
        finally:
            has_failed = new.exists()  # it was not renamed to "ready"
            if has_failed:
                shutil.rmtree(part, ignore_errors=True)


def _complete_dead_swaps(folder: Path) -> None:
    """Complete what a process that died has left. One that is at work has locked its part."""
    for part in folder.glob(PARTS):
        if not part.is_dir():
            continue
        with suppress(OSError), locked(part) as is_dead:
            if is_dead:
                _swap(part, folder)


def _swap(part: Path, folder: Path) -> None:
    """Move the new files in, the page last, and remove what they replace.

    It can be repeated if it was interrupted.
    """
    names = [path.name for path in (part / "ready").glob("*")]
    if INDEX in names:  # none has gone in yet
        _remove_older(folder, names, part)
    if names:
        os.replace(part / "ready", part / "going in")
    for new in sorted((part / "going in").glob("*"), key=_turn):
        path = folder / new.name
        for file in _not_ours(path):
            os.replace(file, new / file.name)
        if path.is_dir():
            os.replace(path, part_beside(part / "any"))
        os.replace(new, path)
    sync_names(folder)
    shutil.rmtree(part, ignore_errors=True)


def _turn(new: Path) -> tuple[bool, bool]:
    """Folders go in first, the page last."""
    return new.is_file(), new.name == INDEX


def _remove_older(folder: Path, new_names: list[str], part: Path) -> None:
    """Move image folders that are not among the new ones aside, unless they hold a user's files.

    The smallest model's page goes with the page that it leads to.
    """
    for file in list(folder.glob("*/attention.json")):
        image_folder = file.parent
        is_whole = _is_ours(image_folder) and not _not_ours(image_folder)
        if image_folder.name not in new_names and is_whole:
            os.replace(image_folder, part_beside(part / "any"))
    smallest = folder / SMALLEST
    if SMALLEST not in new_names and _is_page(smallest) and BESIDE in read_file(smallest):
        os.replace(smallest, part_beside(part / "any"))


def _flush(folder: Path) -> None:
    """Flush all files below to disk; in one call where possible, since thousands take minutes."""
    if hasattr(os, "sync"):
        os.sync()
        return
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "r+b") as file:
                os.fsync(file.fileno())


def _check_places(folder: Path, new: Path) -> None:
    """Raise ValueError if something new would replace what this package did not write."""
    for one in sorted(new.iterdir()):
        path = folder / one.name
        ours = _is_ours(path) if one.is_dir() else _is_page(path)
        if os.path.lexists(path) and not ours:
            raise ValueError(f"{path} was not written by mnist_vit: name another folder")


def _is_page(path: Path) -> bool:
    return path.is_file() and b'content="mnist_vit"' in read_file(path)


def _is_ours(folder: Path) -> bool:
    """Whether our files in a folder, if there are any, are those of this package."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    numbers = folder / "attention.json"
    if numbers.is_file():
        return b'"layers_heads_rows_columns"' in read_file(numbers)
    return len(_not_ours(folder)) == len(list(folder.iterdir()))


def folder_name(text: str) -> str:
    """A name for the folder of an image: visible, and without a path."""
    return re.sub(r"[/\\]", "-", text).strip(". ") or "picture"


def _not_ours(folder: Path) -> list[Path]:
    """The files in an image's folder that a user has put there."""
    return [path for path in folder.glob("*") if not re.fullmatch(OURS, path.name)]


def save_attention_images(
    model: nn.Module,
    images: Tensor,
    pictures: Tensor,
    names: list[str],
    folder: str | Path,
    classes: tuple[str, ...],
    labels: list[int] | None = None,
    grid: tuple[int, int] | None = None,
) -> list[dict[str, Any]]:
    """Write one folder per image: the image, a map for each layer and attention head, the rollout.

    ``image.png``, ``layer_<i>_head_<j>.png`` (counted from 0, one colour scale within a layer),
    ``rollout.png``, ``relevance.png`` (of the prediction: red speaks for it, blue against it) and
    ``attention.json`` with the numbers drawn. Patches are drawn as squares, not smoothed. The
    attention maps are the class token's rows; with ``pool="mean"``, the mean over the patches'
    rows. ``replacing`` says what becomes of older files. Relevance is left out of a model
    without classes, and where an operation has no rule, with a warning.

    ``images`` are normalised as the model wants them, ``pictures`` uint8 as a person should see
    them, both (n, c, h, w); ``names`` are plain folder names, one for each; ``classes`` the names
    of the model's classes, empty if it has none; ``labels`` the truth, if it is known; ``grid``
    rows and columns of patches, if the model does not tell them.

    Returns the content of each ``attention.json``. ValueError: the numbers of images, pictures,
    names and labels differ, or outputs are NaN.
    """
    _check_counts(images, pictures, names, labels)
    if names != [folder_name(name) for name in names]:
        raise ValueError(f"names must be plain, visible folder names, got {names}")
    probabilities = _probabilities(model, images) if classes else None
    grid = patch_grid(model, images) if grid is None else sides(grid)
    drawn = _Maps(model, images, pictures, grid, has_classes=bool(classes))

    from torchvision.transforms.v2.functional import to_pil_image

    results = []
    with replacing(folder) as new:
        for i, name in enumerate(names):
            target = new / name
            _write_png(target / "image.png", to_pil_image(pictures[i].cpu()))
            content = {"name": name, "label": None if labels is None else classes[labels[i]]}
            if probabilities is not None:
                content |= _answer(probabilities[i], classes)
            content |= drawn.write(i, target)
            write_json(target / "attention.json", content, sync=False)
            results.append(content)
    return results


def _probabilities(model: nn.Module, images: Tensor) -> Tensor:
    """The probability of each class, (n, k), on the CPU; ValueError if outputs are NaN."""
    with torch.no_grad(), eval_mode(model):
        logits = logits_of(model, images.to(**place(model))).float()
    if not logits.isfinite().all():
        raise ValueError(NOT_FINITE)
    return logits.softmax(dim=1).cpu()


def _answer(probabilities: Tensor, classes: tuple[str, ...]) -> dict[str, Any]:
    """What ``attention.json`` says of a prediction."""
    best = int(probabilities.argmax())
    return {
        "prediction": classes[best],
        "probability": round(float(probabilities[best]), 4),
        "probabilities": _rounded(probabilities, 4),
    }


def _check_counts(
    images: Tensor, pictures: Tensor, names: list[str], labels: list[int] | None
) -> None:
    counts = [len(images), len(pictures), len(names)]
    if labels is not None:
        counts.append(len(labels))
    if len(set(counts)) != 1:
        raise ValueError(
            "need the same number of images, pictures, names and labels,"
            f" got {', '.join(map(str, counts))}"
        )


class _Maps:
    """The maps of some images: (n, num_layers, num_heads, n_h, n_w), rollout and relevance."""

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        pictures: Tensor,
        grid: tuple[int, int],
        has_classes: bool,
    ) -> None:
        weights = attention_weights(model, images).float().cpu()
        s = weights.shape[-1]
        prefix = s - math.prod(grid)
        if pools_patches(model, prefix):
            self.query, tokens = "mean over the patches", slice(prefix, s)
        else:
            self.query, tokens = "class token", slice(1)
        self.maps = to_maps(weights[..., tokens, :].mean(dim=-2), grid)
        self.rollout = to_maps(rollout(weights)[:, tokens].mean(dim=1), grid)
        self.shares, self.chance = ink_share(self.maps, pictures.cpu())
        self.relevance: Tensor | None = None
        if not has_classes:
            return
        try:
            self.relevance = to_maps(relevance(model, images, grid=grid).float().cpu(), grid)
        except ValueError as error:
            warnings.warn(f"relevance is left out: {error}", stacklevel=4)

    def write(self, i: int, folder: Path) -> dict[str, Any]:
        """Draw the maps of image i; returns the numbers drawn."""
        scales = []
        for layer, layer_maps in enumerate(self.maps[i]):
            low, high = float(layer_maps.min()), float(layer_maps.max())
            scales.append([round(low, 6), round(high, 6)])
            for head, values in enumerate(layer_maps):
                _write_png(folder / f"layer_{layer}_head_{head}.png", _heat(values, low, high))
        rolled = self.rollout[i]
        low, high = float(rolled.min()), float(rolled.max())
        _write_png(folder / "rollout.png", _heat(rolled, low, high))
        content = {
            "query": self.query,
            "colour_scale_per_layer": scales,
            "share_of_patches_with_ink": round(float(self.chance[i]), 4),
            "share_of_attention_on_ink": _rounded(self.shares[i], 4),
            "layers_heads_rows_columns": _rounded(self.maps[i], 6),
            "rollout": _rounded(rolled, 6),
        }
        if self.relevance is not None:
            values = self.relevance[i]
            most = float(values.abs().max())
            _write_png(folder / "relevance.png", _heat(values, -most, most, "RdBu_r"))
            content["relevance_of_the_prediction"] = _rounded(values, 6)
        return content


def _rounded(numbers: Tensor, decimals: int) -> list:
    return numbers.double().round(decimals=decimals).tolist()


def _heat(values: Tensor, low: float, high: float, colours: str = "viridis") -> Any:
    """(rows, columns) -> a Pillow image in these colours of matplotlib."""
    from matplotlib import colormaps
    from PIL import Image

    scaled = ((values - low) / max(high - low, 1e-12)).clamp(0, 1)
    return Image.fromarray(colormaps[colours](scaled.numpy(), bytes=True)[..., :3].copy())


def _write_png(path: Path, image: Any) -> None:
    """Enlarged without smoothing: at least 224 pixels, by a whole factor, each patch a square."""
    factor = max(1, math.ceil(SHORTEST / max(image.size)))
    buffer = io.BytesIO()
    image = image.resize((image.width * factor, image.height * factor), resample=0)  # 0 is nearest
    image.save(buffer, format="PNG")
    write_atomic(path, lambda file: file.write(buffer.getvalue()), sync=False)
