"""Whole jobs in one call: data + weights + a leaf module, with the paths and the defaults.

These are the calls of the notebooks and of the command line; every default is written here and nowhere else.
"""

import inspect
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from .data import ImageData, Loader, check_fit, load_data
from .errors import check_range, check_sizes, unknown
from .evaluation import Evaluation, evaluate_model
from .fast import speed_up
from .files import copy_notebooks, data_dir, out_dir, write_json
from .gallery import save_attention_images, write_gallery
from .model import VisionTransformer, vit_mnist
from .pictures import digit_to_tensor, open_picture, picture_to_tensor
from .tokens import sincos_positions
from .training import fit
from .weights import build_model, find_weights, load_model, load_weights, model_config, read_json, save_weights

__all__ = ["MODELS", "copy_notebooks", "demo", "evaluate", "predict", "train", "visualize_attention"]

MODELS: dict[str, Callable[[], VisionTransformer]] = {
    "vit_mnist": lambda: vit_mnist(2),
    "vit_mnist_p4": lambda: vit_mnist(4),
    "vit_mnist_p7": lambda: vit_mnist(7),
    "vit_cifar10": lambda: VisionTransformer(32, 4, 4, 4, 48, 192, num_classes=10),
}


def train(
    model: nn.Module | str,
    data: str | Path | ImageData = "auto",
    *,
    weights: str | Path | None = None,
    epochs: int = 10,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.1,
    average: float = 0.999,
    degrees: float = 10.0,
    scale: float = 0.1,
    shift: float = 1.0,
    flip: bool = False,
    keep_patches: int | None = None,
    position_start: str | None = None,
    seed: int = 0,
    run_dir: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    tensorboard: bool = False,
    save: str | Path | None = None,
    root: str | Path | None = None,
    device: str | None = None,
) -> list[dict[str, float]]:
    """Train a model and keep the run in a folder.

    Args:
        model: a Vision Transformer, trained where it is; or a name: vit_mnist, vit_mnist_p4, vit_mnist_p7, vit_cifar10.
        data: mnist, embedded, cifar10 or a folder of images; auto is mnist where it is at hand, else embedded.
        weights: load these first: a shipped name or a file; otherwise training goes on from what the model holds.
        epochs: passes over the training images.
        batch_size: images in a batch, over all processes together.
        learning_rate: the largest one, after the warm-up.
        weight_decay: of the matrices.
        average: weight average, share of the old weights kept at each step.
        degrees: augmentation: turn by up to this much either way.
        scale: augmentation: stretch or shrink by up to this share.
        shift: augmentation: move by up to this many pixels.
        flip: augmentation: mirror every second image (not for digits).
        keep_patches: patches used of each image in the first three quarters of the epochs, those with ink first.
        position_start: sincos starts the position embedding as sines and cosines; left out keeps the model's.
        seed: of everything random.
        run_dir: folder of the run; left out makes a new one under runs/.
        checkpoint_every: epochs between two checkpoints.
        resume: go on from the checkpoint in run_dir; the result is that of a run never stopped.
        tensorboard: write curves for tensorboard --logdir into run_dir.
        save: also write the final weights to this file; shipped weights are replaced only if it names one.
        root: where the data lies; left out means MNIST_VIT_DATA, else data/.
        device: where a model given by name is built; left out takes a GPU if there is one.

    Returns:
        One dict per epoch, see ``training.fit``. The model holds the averaged weights and is in the mode it was in.
    """
    settings = {
        k: v for k, v in locals().items() if k not in ("model", "data", "run_dir", "resume", "save", "root", "device")
    }
    check_sizes(epochs=epochs, batch_size=batch_size, checkpoint_every=checkpoint_every)
    check_range(0, 1000, learning_rate=learning_rate, weight_decay=weight_decay, shift=shift)
    check_range(0, 0.999999, average=average, scale=scale)
    check_range(0, 360, degrees=degrees)
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed!r}")
    if save is not None and Path(save).is_dir():
        raise ValueError(f"{save} is a folder: name the .pth file to write in it")
    if resume and run_dir is None:
        raise ValueError("resume=True (--resume) needs run_dir (--run-dir), the folder of the run to go on with")
    rank, world_size = _start_processes()
    main = rank == 0
    built, name = isinstance(model, str), model if isinstance(model, str) else type(model).__name__
    if isinstance(model, str):
        model = _build(model, seed)
    elif not isinstance(model, nn.Module):
        raise TypeError(f"model must be a model (nn.Module), or one of {', '.join(MODELS)}, got {name}")
    if position_start not in (None, "sincos"):
        raise ValueError(f'position_start must be "sincos" or left out, got {position_start!r}')

    if data == "auto":
        data = "mnist" if (data_dir(root) / "MNIST" / "raw").is_dir() else "embedded"
    train_data, validation_data = (_load(model, data, split, root) for split in ("train", "validation"))
    if built:  # as many classes as there are; any folder of images can be learnt
        model = _build(name, seed, len(train_data.classes)).to(_device(device))
    for part in (train_data, validation_data):
        check_fit(model, part)
    if weights is not None:
        load_weights(model, weights)
    folder = Path(run_dir) if run_dir else out_dir("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if (folder / "checkpoint.pth").exists() and not resume:
        raise ValueError(
            f"{folder} already holds a run: resume=True (--resume) goes on with it, or name another folder"
        )
    if main:
        print(f"training on {train_data.name}\nvalidation on {validation_data.name}\nrun folder {folder}", flush=True)

    where = next(model.parameters()).device
    augmentation = {"degrees": degrees, "scale": scale, "shift": shift, "flip": flip}
    train_loader = Loader(train_data, batch_size, where, True, augmentation, seed, rank, world_size)
    validation_loader = Loader(validation_data, 250, where)
    if position_start == "sincos":
        sincos_positions(model)
    fast = speed_up(model, keep_patches)

    def before_epoch(epoch: int) -> None:
        fast.keep_patches = keep_patches if epoch < 0.75 * epochs else None  # type: ignore[assignment]

    trained_on: Any = "embedded" if data == "embedded" else train_data.name
    model.trained_on = trained_on  # now, so that it is told also if training is stopped half way
    history = fit(
        fast,
        train_loader,
        validation_loader,
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        average=average,
        seed=seed,
        before_epoch=before_epoch,
        run_dir=folder,
        checkpoint_every=checkpoint_every,
        resume=resume,
        tensorboard=tensorboard,
        config={"model": name, "data": train_data.name, **settings},
    )
    if main:
        about = {
            "name": name,
            "data": _describe(train_data),
            "recipe": settings,
            "seed": seed,
            "metrics": {"validation": {"on": validation_data.name, "accuracy": history[-1]["validation_accuracy"]}},
            "seconds": round(sum(row["seconds"] for row in history)),
            "threads": torch.get_num_threads(),
            "date": time.strftime("%Y-%m-%d"),
            "command": _command(name, settings | {"data": data, "save": save}),
            "history": [{k: round(v, 5) for k, v in row.items()} for row in history],
        }
        save_weights(model, folder / "weights.pth", **about)
        if save is not None:
            print(f"weights saved to {save_weights(model, save, **about)}")
    return history


def evaluate(
    model: nn.Module | str = "vit_mnist",
    data: str | Path | ImageData = "embedded",
    *,
    weights: str | Path | None = None,
    split: str | None = None,
    batch_size: int = 250,
    record: bool = False,
    root: str | Path | None = None,
    device: str | None = None,
) -> Evaluation:
    """Read images with a model, print accuracy and confusion matrix, and return all that was found.

    Args:
        model: a Vision Transformer, used where it is; or weights by name or file.
        data: embedded, mnist, cifar10 or a folder of images.
        weights: load these into the model first: a shipped name or a file.
        split: which part; left out means all embedded digits (the 1,000 not trained on, if the model was trained on
            the others by train), and the validation part of everything else.
        batch_size: images in a forward pass; the result does not depend on it.
        record: write the accuracy into the .json beside the weights.
        root: where the data lies; left out means MNIST_VIT_DATA, else data/.
        device: where a model given by name is put; left out takes a GPU if there is one.
    """
    check_sizes(batch_size=batch_size)
    model, name = _ready(model, weights, device)
    if record and not name:
        raise ValueError("record needs weights by name or file, to write into the .json beside them")
    if split is None:
        split = "validation"
        if data == "embedded" and getattr(model, "trained_on", None) != "embedded":
            split = "all"
    images = _load(model, data, split, root, name)
    check_fit(model, images)
    loader = Loader(images, batch_size, next(model.parameters()).device)
    result = evaluate_model(speed_up(model), loader, images.classes, images.name)
    print(result)
    if record:
        path = find_weights(name).with_suffix(".json")
        about = read_json(name)
        low, high = result.interval
        entry = {"on": images.name, "accuracy": result.accuracy, "correct": result.correct, "total": result.total}
        about.setdefault("metrics", {})["embedded" if data == "embedded" else split] = entry | {
            "interval": [round(low, 6), round(high, 6)]
        }
        print(f"recorded in {write_json(path, about)}")
    return result


def visualize_attention(
    model: nn.Module | str = "vit_mnist",
    data: str | Path | ImageData = "embedded",
    *,
    weights: str | Path | None = None,
    split: str | None = None,
    per_class: int = 2,
    out: str | Path | None = None,
    root: str | Path | None = None,
    device: str | None = None,
) -> Path:
    """Write the attention maps of some images of each class, and a page to browse them.

    Args:
        model: a Vision Transformer, used where it is; or weights by name or file.
        data: embedded, mnist, cifar10 or a folder of images.
        weights: load these into the model first: a shipped name or a file.
        split: which part; left out means as in evaluate.
        per_class: images of each class.
        out: the folder to write to; left out means attention/.
        root: where the data lies; left out means MNIST_VIT_DATA, else data/.
        device: where a model given by name is put; left out takes a GPU if there is one.

    Returns:
        The page, ``index.html``; each image has a folder <class>_<index> beside it.
    """
    check_sizes(per_class=per_class)
    model, name = _ready(model, weights, device)
    images = _load(model, data, split or ("all" if data == "embedded" else "validation"), root, name)
    check_fit(model, images)
    chosen = torch.cat([(images.labels == c).nonzero()[:per_class, 0] for c in range(len(images.classes))])
    names = [f"{images.classes[label]}_{i}" for label, i in zip(images.labels[chosen], chosen.tolist(), strict=True)]
    folder = out_dir("attention", out)
    for part in tqdm(range(0, len(names), 50), desc="drawing", unit=" x 50 images", leave=False, disable=None):
        some = slice(part, part + 50)  # in parts: the weights of all layers and heads of all images are large
        pictures, labels = images.images[chosen[some]], images.labels[chosen[some]].tolist()
        ready = images.normalise(pictures)
        save_attention_images(model, ready, pictures, names[some], folder, images.classes, labels)
    shown = names[:: len(names) // 501 + 1]  # a page with more than 500 would be slow to open
    share = f", {len(shown)} of them: all are in the folders" if len(shown) < len(names) else ""
    page = write_gallery(folder, shown, f"Where {name} looks: {images.name}{share}")
    print(f"attention maps of {len(names)} images: {page}")
    return page


def predict(
    picture: str | Path,
    model: nn.Module | str = "vit_mnist",
    *,
    weights: str | Path | None = None,
    out: str | Path | None = None,
    device: str | None = None,
) -> Tensor:
    """Read one picture file: print what it is taken for and how sure the model is, and write its attention maps.

    A drawn digit is brought into MNIST's form first: white on black, 20 pixels large, in the middle of 28.

    Args:
        picture: an image file.
        model: a Vision Transformer, used where it is; or weights by name or file.
        weights: load these into the model first: a shipped name or a file.
        out: the folder for the maps; left out means attention/.
        device: where a model given by name is put; left out takes a GPU if there is one.

    Returns:
        The probability of each class, (k,).
    """
    model, name = _ready(model, weights, device)
    about = read_json(name).get("data", {}) if name else {}
    channels = model.conv_proj.in_channels
    classes = tuple(about.get("classes") or [str(i) for i in range(model.num_classes)])
    like_mnist = channels == 1 and model.image_size == 28 and classes == tuple("0123456789")
    opened = open_picture(picture)
    pixels = digit_to_tensor(opened) if like_mnist else picture_to_tensor(opened, model.image_size, channels)
    mean, std = (about.get(key) or [default] * channels for key, default in (("mean", 0.1307), ("std", 0.3081)))
    images = ImageData(pixels[None], torch.zeros(1).long(), classes, str(picture), tuple(mean), tuple(std))
    folder = out_dir("attention", out)
    target = Path(picture).stem
    results = save_attention_images(model, images.normalise(pixels[None]), pixels[None], [target], folder, classes)
    probabilities = torch.tensor(results[0]["probabilities"])
    print(f"{picture}: {results[0]['prediction']}")
    for label, probability in zip(classes, probabilities.tolist(), strict=True):
        print(f"  {label}: {probability:6.1%} {'#' * round(40 * probability)}")
    print(f"attention maps: {folder / target}")
    return probabilities


def demo(out: str | Path | None = None) -> None:
    """The course in a minute: shipped weights, held-out digits, confusion matrix, attention maps.

    Args:
        out: the folder for the pictures; left out means attention/.
    """
    about = read_json("vit_mnist")
    print(f"vit_mnist: {about['parameters']:,} parameters, trained on {about['data']['name']}\n")
    evaluate("vit_mnist")
    print()
    visualize_attention("vit_mnist", out=out)


def _build(name: str, seed: int, classes: int | None = None) -> VisionTransformer:
    if name not in MODELS:
        raise ValueError(unknown("model called", name, MODELS))
    torch.manual_seed(seed)
    model = MODELS[name]()
    if classes in (None, model.num_classes):
        return model
    torch.manual_seed(seed)
    return build_model(model_config(model) | {"num_classes": classes})


def _load(model: nn.Module, data: Any, split: str, root: str | Path | None, weights: str = "") -> ImageData:
    """The data; pictures of a folder in the model's size and, if its weights tell, normalised as in its training."""
    size, projection = getattr(model, "image_size", 32), getattr(model, "conv_proj", None)
    images = load_data(data, split, root, size, getattr(projection, "in_channels", 3))
    about = read_json(weights).get("data", {}) if weights and data not in ("embedded", "mnist", "cifar10") else {}
    if isinstance(data, ImageData) or len(about.get("mean", ())) != images.images.shape[1]:
        return images
    return replace(images, mean=tuple(about["mean"]), std=tuple(about["std"]))


def _ready(model: nn.Module | str, weights: str | Path | None, device: str | None) -> tuple[nn.Module, str]:
    """The model to use and what to call it: given as it is, or built from weights by name or file."""
    if not isinstance(model, nn.Module | str | Path):
        raise TypeError(f"model must be a model (nn.Module), or weights by name or file, got {type(model).__name__}")
    if not isinstance(model, nn.Module):
        return load_model(weights or model).to(_device(device)), str(weights or model)
    if weights is not None:
        load_weights(model, weights)
    return model, str(weights or "")


def _device(name: str | None) -> torch.device:
    if name is None:
        local = os.environ.get("LOCAL_RANK", "0")
        name = f"cuda:{local}" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f'there is no device "{name}" here: use cpu, or leave it out') from error


def _start_processes() -> tuple[int, int]:
    """This process's number and how many there are, as ``torchrun`` set them."""
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world_size > 1 and not torch.distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return rank, world_size


def _describe(data: ImageData) -> dict[str, Any]:
    return {"name": data.name, "classes": data.classes, "mean": data.mean, "std": data.std}


def _command(name: str, settings: dict[str, Any]) -> str:
    """The command line that calls train with these settings: those that are not the defaults."""
    words = ["python -m mnist_vit train", name]
    for key, parameter in inspect.signature(train).parameters.items():
        value = settings.get(key, parameter.default)
        if key != "model" and value != parameter.default:
            words.append(f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join(words)
