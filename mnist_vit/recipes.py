"""Whole jobs in one call: data + weights + a leaf module, with the paths and the defaults.

These are the calls of the notebooks and of the command line; every default is written here and nowhere else.
"""

import inspect
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .attention import save_attention_images, write_gallery
from .data import ImageData, Loader, digit_to_tensor, load_data, picture_to_tensor
from .evaluation import Evaluation, evaluate_model
from .fast import speed_up
from .files import DataError, data_dir, out_dir, shipped, write_atomic, write_json
from .model import VisionTransformer, vit_mnist
from .training import fit, sincos_positions
from .weights import find_weights, load_model, load_weights, read_json, save_weights

__all__ = ["MODELS", "copy_notebooks", "demo", "evaluate", "predict", "train", "visualize_attention"]

MODELS: dict[str, Callable[..., VisionTransformer]] = {  # called with the number of classes, where it is not 10
    "vit_mnist": lambda classes=10: vit_mnist(2),
    "vit_mnist_p4": lambda classes=10: vit_mnist(4),
    "vit_mnist_p7": lambda classes=10: vit_mnist(7),
    "vit_cifar10": lambda classes=10: VisionTransformer(32, 4, 4, 4, 48, 192, num_classes=classes),
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
    rank, world_size = _start_processes()
    main = rank == 0
    if isinstance(model, str) and model not in MODELS:
        raise ValueError(f'there is no model called "{model}": name one of {", ".join(MODELS)}')
    if data == "auto":
        data = "mnist" if (data_dir(root) / "MNIST" / "raw").is_dir() else "embedded"
    train_data, validation_data = load_data(data, "train", root), load_data(data, "validation", root)
    if isinstance(model, str):
        torch.manual_seed(seed)
        name, model = model, MODELS[model](len(train_data.classes)).to(_device(device))
    else:
        name = type(model).__name__
    if weights is not None:
        load_weights(model, weights)
    if position_start not in (None, "sincos"):
        raise ValueError(f'position_start must be "sincos" or left out, got {position_start!r}')

    for part in (train_data, validation_data):
        _check_fit(model, part)
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

    mode = model.training
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
    model.train(mode)
    model.trained_on = "embedded" if data == "embedded" else train_data.name  # type: ignore[assignment]
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
    model, name = _ready(model, weights, device)
    if split is None:
        split = "validation"
        if data == "embedded" and getattr(model, "trained_on", None) != "embedded":
            split = "all"
    images = load_data(data, split, root)
    _check_fit(model, images)
    loader = Loader(images, batch_size, next(model.parameters()).device)
    result = evaluate_model(speed_up(model), loader, images.classes, images.name)
    print(result)
    if record:
        path = find_weights(name).with_suffix(".json")
        about = read_json(name)
        low, high = result.interval
        entry = {"on": images.name, "accuracy": result.accuracy, "correct": result.correct, "total": result.total}
        about["metrics"]["embedded" if data == "embedded" else split] = entry | {
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
    model, name = _ready(model, weights, device)
    images = load_data(data, split or ("all" if data == "embedded" else "validation"), root)
    _check_fit(model, images)
    chosen = torch.cat([(images.labels == c).nonzero()[:per_class, 0] for c in range(len(images.classes))])
    pictures, labels = images.images[chosen], images.labels[chosen].tolist()
    names = [f"{images.classes[label]}_{index}" for label, index in zip(labels, chosen.tolist(), strict=True)]
    folder = out_dir("attention", out)
    results = save_attention_images(model, images.normalise(pictures), pictures, names, folder, images.classes, labels)
    page = write_gallery(folder, results, f"Where {name} looks: {images.name}")
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
    from PIL import Image

    model, name = _ready(model, weights, device)
    about = read_json(name).get("data", {}) if name else {}
    channels = model.conv_proj.in_channels
    classes = tuple(about.get("classes") or [str(i) for i in range(model.num_classes)])
    try:
        with Image.open(picture) as opened:
            like_mnist = channels == 1 and model.image_size == 28
            pixels = digit_to_tensor(opened) if like_mnist else picture_to_tensor(opened, model.image_size, channels)
    except OSError as error:
        raise DataError(f"{picture} cannot be read as a picture ({error}). Give a PNG or JPEG file") from error
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


def copy_notebooks(folder: str | Path) -> Path:
    """Copy the notebooks of the course, so that working through them leaves the originals as they are.

    Args:
        folder: where to; nothing that is there is overwritten.

    Returns:
        The folder, with the notebooks, the glossary and the solutions in it.
    """
    source, target = shipped("notebooks"), Path(folder).expanduser()
    files = sorted([*source.glob("*.ipynb"), *source.glob("glossary.md"), *source.glob("solutions/*.py")])
    if not files:
        raise ValueError(f"the notebooks of the course are not in {source}: install mnist_vit again")
    for file in files:
        if (taken := target / file.relative_to(source)).exists():
            raise ValueError(f"{taken} is there already, and may hold your work: name another folder")
    for file in files:
        write_atomic(target / file.relative_to(source), lambda copy, file=file: copy.write(file.read_bytes()))  # type: ignore[misc]
    print(f"{len(list(source.glob('*.ipynb')))} notebooks copied: jupyter lab {target}")
    return target


def _ready(model: nn.Module | str, weights: str | Path | None, device: str | None) -> tuple[nn.Module, str]:
    """The model to use and what to call it: given as it is, or built from weights by name or file."""
    if isinstance(model, str | Path):
        return load_model(weights or model).to(_device(device)), str(weights or model)
    if weights is not None:
        load_weights(model, weights)
    return model, str(weights or "")


def _device(name: str | None) -> torch.device:
    if name is None:
        local = os.environ.get("LOCAL_RANK", "0")
        name = f"cuda:{local}" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.device(name)


def _start_processes() -> tuple[int, int]:
    """This process's number and how many there are, as ``torchrun`` set them."""
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world_size > 1 and not torch.distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return rank, world_size


def _check_fit(model: nn.Module, data: ImageData) -> None:
    """Raise DataError where a Vision Transformer does not take these images or does not know their classes."""
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
