"""What a job needs to know of a model: name, classes, preprocessing, training images, device,
processes."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .data import ImageData, Prepare, load_data, load_folder, pixels_of
from .datasets import DATA_SETS
from .modes import answer, eval_mode
from .pictures import picture_to_tensor
from .weights import about_of, load_model, load_weights


def get_ready(
    model: Any, weights: Any, device: str | None, classes: Sequence[str] | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    """The model, given or built from weights by name or file, and its description."""
    if not isinstance(model, nn.Module | str | Path):
        raise TypeError(
            f"model must be an nn.Module, or weights by name or file, got {type(model).__name__}"
        )
    described = hasattr(weights, "transforms") and hasattr(
        weights, "meta"
    )  # a torchvision enum: nothing is loaded
    if not isinstance(model, nn.Module):
        model = load_model(model, weights=None if described else weights).to(find_device(device))
    elif described:
        model.about = _describe(weights)
    elif weights is not None:
        load_weights(model, weights)
    about = {"name": type(model).__name__} | about_of(model)
    if classes is not None:
        about = about | {"data": about.get("data", {}) | {"classes": list(classes)}}
    return model, about


def _describe(weights: Any) -> Any:  # by a torchvision weights enum
    how = weights.transforms()
    data = {
        "name": weights.name,
        "classes": list(weights.meta["categories"]),
        "channels": len(how.mean),
    }
    data |= {
        "mean": list(how.mean),
        "std": list(how.std),
        "size": how.crop_size[0],
        "resize": how.resize_size[0],
    }
    data["interpolation"] = how.interpolation.value
    return {
        "name": type(weights).__name__.removesuffix("_Weights").lower(),
        "data": data,
        "trained_on": [weights.name],
    }


def load_for(
    model: nn.Module,
    about: Any,
    data: Any,
    split: Any,
    root: Any,
    transform: Prepare = None,
    made: Any = None,
) -> ImageData:
    """The images; those of a folder are prepared for the model, or by ``transform``, whose results
    go to ``made``."""
    split = split or unseen_split(about if transform is None else {"trained_on": []} | about, data)
    if (
        not isinstance(data, str | Path)
        or data in DATA_SETS
        or not Path(data).expanduser().is_dir()
    ):
        if transform is not None:
            raise ValueError(f"transform needs a folder of images as data, got {str(data)[:99]}")
        return load_data(data, split, root)
    if transform is None:
        form = picture_form(model, about)
        size, channels = form.keywords["image_size"], form.keywords["channels"]
        images = load_folder(data, split, size, channels, form)
        return replace(images, mean=tuple(about["data"]["mean"]), std=tuple(about["data"]["std"]))

    def show(picture: Any) -> Tensor:
        one, pixels = transformed(picture, transform)
        made.append(one)
        if one.shape != made[0].shape:
            raise ValueError(
                f"transform must give pictures of one size, got {made[0].shape}, {one.shape}"
            )
        return pixels

    return load_folder(data, split, *pixels_of(model, 224), show)


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
    return made, ((made - low) / (high - low).clamp(min=1e-12) * 255).round().to(torch.uint8).cpu()


def unseen_split(about: dict[str, Any], data: Any) -> str:
    """The default split: "all" if there is one and the model was not trained on any of it, as far
    as known; else "validation"."""
    trained_on = about.get("trained_on")
    if not isinstance(data, str | Path):
        return "all"
    if data in DATA_SETS:
        seen = any(used.startswith(f"{data}/") for used in trained_on or [])
        return "validation" if seen or "all" not in DATA_SETS[str(data)].splits else "all"
    folder = Path(data).expanduser().resolve()
    seen = trained_on is None or any(used.startswith(f"{folder}/") for used in trained_on)
    return "validation" if seen or (folder / "train").is_dir() else "all"


def warn_of(about: dict[str, Any], images: ImageData) -> None:
    """Warn if the classes are not the model's, or if the model was trained on these images."""
    name, known = about["name"], about.get("data", {}).get("classes", images.classes)
    if tuple(known) != images.classes and len(known) == len(images.classes):
        theirs, ours = (
            ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
            for names in (known, images.classes)
        )
        warnings.warn(
            f"{name} has the classes {theirs}, but {images.name} have {ours}", stacklevel=3
        )
    group, _, split = images.source.rpartition("/")
    for used in about.get("trained_on", []):
        same = used.rpartition("/")[0] == group != ""
        if used in (images.name, images.source) or (
            same and "all" in (split, used.rpartition("/")[2])
        ):
            return warnings.warn(
                f"{name} was trained on {used}, which may contain {images.name}", stacklevel=3
            )


def try_once(model: nn.Module, images: Tensor, classes: int) -> Tensor:
    """Run a forward pass before training or writing: its logits. ValueError unless there is one for
    each class."""
    with torch.random.fork_rng(devices=[]), torch.no_grad(), eval_mode(model):
        logits = answer(model, images)
    got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if got != (len(images), classes):
        raise ValueError(
            f"the model must return logits (n, {classes}): for {tuple(images.shape)} it returns"
            f" {got}. Give a model with such a class head, or the names of this model's classes"
        )
    return logits


def place(model: nn.Module) -> dict[str, Any]:
    """Device and dtype of a model's parameters, as keywords; the defaults for a model without
    parameters."""
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    return {"device": first.device, "dtype": first.dtype}


def find_device(name: str | None) -> torch.device:
    """The device of that name; default: a GPU if available. ValueError if it is not available."""
    if name is None:
        name = (
            "cuda"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f'there is no device "{name}" here: use cpu, or omit it') from error


def start_processes() -> tuple[int, int]:
    """Rank of this process and number of processes that ``torchrun`` started; ValueError if they
    cannot connect."""
    distributed = torch.distributed
    if not distributed.is_initialized() and os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1"):
        try:
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        except (ValueError, RuntimeError) as error:
            why = str(error).splitlines()[0]
            raise ValueError(
                f"processes cannot connect ({why}): use torchrun, or unset WORLD_SIZE and RANK"
            ) from error
    return (
        (distributed.get_rank(), distributed.get_world_size())
        if distributed.is_initialized()
        else (0, 1)
    )
