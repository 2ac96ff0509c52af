"""Whole jobs in one call: load data and weights, compute, write results; with paths and defaults.

These are the calls of the notebooks and of the command line; their defaults are written here.
"""

import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .attention import attention_weights
from .building import build_own, model_config
from .console import progress, say
from .data import (
    ImageData,
    Loader,
    augment,
    check_fit,
    load_data,
    load_for,
    normalise,
    pixels_of,
    warn_of,
)
from .datasets import DATA_SETS
from .devices import find_device, place, start_processes
from .errors import check_range, check_sizes, printable, unknown
from .evaluation import Evaluation, History, evaluate_model
from .explorer import Page, evenly, write_page
from .fast import speed_up
from .files import copy_notebooks, data_dir, make_folder, out_dir
from .forward import try_once
from .gallery import replacing, save_attention_images
from .model import VisionTransformer, vit_mnist
from .pictures import digit_to_tensor, open_picture, picture_form, transformed
from .training import fit, sincos_positions
from .weights import (
    about_of,
    describe_enum,
    load_model,
    load_weights,
    read_json,
    save_weights,
    update_about,
    weights_path,
)

__all__ = [
    "MODELS",
    "copy_notebooks",
    "demo",
    "evaluate",
    "explore",
    "predict",
    "train",
    "visualize_attention",
]

MODELS: dict[str, Callable[[], VisionTransformer]] = {
    "vit_mnist": lambda: vit_mnist(2),
    "vit_mnist_p4": lambda: vit_mnist(4),
    "vit_mnist_p7": lambda: vit_mnist(7),
    "vit_cifar10": lambda: VisionTransformer(32, 4, 4, 4, 48, 192, num_classes=10),
}
PLACES = (
    "model",
    "data",
    "sizes",
    "run_dir",
    "resume",
    "save",
    "root",
    "device",
)  # of a run; all else is its recipe


def train(
    model: nn.Module | str,
    data: str | Path | ImageData = "auto",
    *,
    weights: str | Path | None = None,
    sizes: str = "vit_mnist",
    epochs: int = 10,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.1,
    average: float = 0.999,
    optimizer: Literal["adamw", "muon"] = "adamw",
    label_smoothing: float = 0.0,
    degrees: float = 10.0,
    scale: float = 0.1,
    shift: float = 1.0,
    flip: bool = False,
    shear: float = 0.0,
    elastic: float = 0.0,
    colour: float = 0.0,
    keep_patches: int | None = None,
    full_epochs: int | None = None,
    position_start: Literal["sincos"] | None = None,
    seed: int = 0,
    run_dir: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    tensorboard: bool = False,
    save: str | Path | None = None,
    root: str | Path | None = None,
    device: str | None = None,
) -> History:
    """Train a model and write checkpoints, curves and the final weights to a folder.

    Args:
        model: a new model by name; or a .py file with a class MyVisionTransformer, such as
            my_vit.py; in Python also any nn.Module from images to logits, which is trained on the
            device it is on.
        data: a data set, or a folder of images; auto is mnist if available, else embedded.
        weights: load these weights first, by shipped name or file; default: train the model as it
            is.
        sizes: only for a .py file: build its class with the sizes of this model.
        epochs: passes over the training images.
        batch_size: images in a batch, over all processes together.
        learning_rate: the largest learning rate, reached after the warm-up.
        weight_decay: weight decay of all weight matrices.
        average: decay of the exponential moving average (EMA) of the weights, per step; at most 1 -
            20 / steps, so that the average of a short run no longer contains the start values.
        optimizer: adamw for all parameters; or muon for the matrices of the encoder, with adamw for
            the rest.
        label_smoothing: share of each label that is spread over all classes.
        degrees: augmentation: rotate by up to this angle, in degrees.
        scale: augmentation: enlarge or shrink by up to this share.
        shift: augmentation: translate by up to this many pixels.
        flip: augmentation: mirror half of the images left to right (not for digits).
        shear: augmentation: shear by up to this share.
        elastic: augmentation: elastic distortion; points move by about this many pixels.
        colour: augmentation: change brightness, contrast and saturation by up to this share.
        keep_patches: patches of each image used in training, those with ink first; the last epochs
            use all.
        full_epochs: number of last epochs that use all patches; default: a quarter of the epochs.
        position_start: initialise the position embedding with sines and cosines; default: random
            values.
        seed: random seed of start values, order, augmentation and dropout.
        run_dir: folder of the run; default: a new one in runs/.
        checkpoint_every: epochs between checkpoints.
        resume: continue from the checkpoint in the run's folder; the result equals that of an
            uninterrupted run.
        tensorboard: write curves for tensorboard to the run's folder.
        save: also write the final weights to this .pth file; shipped weights are replaced only if
            this is their path.
        root: folder of the data sets; default: MNIST_VIT_DATA, else data/.
        device: cpu, cuda or mps; default: a GPU if available; in Python for a model given by name
            only.

    Returns one dict per epoch, see ``training.fit``. The model then holds the averaged weights and
    a new ``about``.
    """
    settings = {key: value for key, value in locals().items() if key not in PLACES}
    settings["weights"] = None if weights is None else str(weights)
    check_sizes(epochs=epochs, batch_size=batch_size, checkpoint_every=checkpoint_every)
    check_range(
        0,
        1000,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        shift=shift,
        elastic=elastic,
    )
    check_range(
        0,
        0.999999,
        average=average,
        scale=scale,
        shear=shear,
        colour=colour,
        label_smoothing=label_smoothing,
    )
    check_range(0, 360, degrees=degrees)
    check_range(
        0, epochs, full_epochs=(full := epochs // 4 if full_epochs is None else full_epochs)
    )
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed!r}")
    save = None if save is None else weights_path(save)
    if resume and run_dir is None:
        raise ValueError("resume=True needs run_dir, the folder of the run to continue")
    rank, world_size = start_processes()
    main = rank == 0
    built, name = model if isinstance(model, str) else "", type(model).__name__
    if isinstance(model, str):
        name = Path(model).name
        model = _build(built, seed, None, sizes)
    elif not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a model (nn.Module), or one of {', '.join(MODELS)}, got {name}"
        )
    if position_start not in (None, "sincos"):
        raise ValueError(f'position_start must be "sincos" or left out, got {position_start!r}')

    if data == "auto":
        data = "mnist" if (data_dir(root) / "MNIST" / "raw").is_dir() else "embedded"
    form = pixels_of(model)
    train_data, validation_data = (
        load_data(data, split, root, *form) for split in ("train", "validation")
    )
    if built:  # as many classes as there are; any folder of images can be learnt
        model = _build(built, seed, len(train_data.classes), sizes).to(find_device(device))
    where = place(model)
    for part in (train_data, validation_data):
        check_fit(model, part)
    if weights is not None:
        load_weights(model, weights)
    try_once(
        model, train_data.normalise(train_data.images[:2]).to(**where), len(train_data.classes)
    )
    if position_start == "sincos":
        sincos_positions(model)
    fast = speed_up(model, keep_patches)
    folder = (
        Path(run_dir) if run_dir else out_dir("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    if save is not None and main:
        make_folder(save.parent)
    if main:
        say(
            f"training on {train_data.name}\nvalidation on {validation_data.name}\nrun folder"
            f" {folder}"
        )

    augmentation = {
        key: settings[key] for key in inspect.signature(augment).parameters if key in settings
    }
    share: dict[str, Any] = {"rank": rank, "world_size": world_size}
    train_loader = Loader(
        train_data, batch_size, **where, **share, shuffle=True, augmentation=augmentation, seed=seed
    )
    validation_loader = Loader(validation_data, 250, **where)
    trained_on = list(
        dict.fromkeys(
            [*about_of(model).get("trained_on", []), train_data.source or train_data.name]
        )
    )
    about: Any = {
        "name": name,
        "data": train_data.about(),
        "trained_on": trained_on,
        "recipe": settings,
    }

    def before_epoch(epoch: int) -> None:
        # type: ignore[assignment]
        fast.keep_patches = keep_patches if epoch < epochs - full else None
        model.about = about  # now, so that it is told also if training is stopped half way

    how: dict[str, Any] = {
        key: settings[key] for key in inspect.signature(fit).parameters if key in settings
    }
    how["average"] = min(average, max(0.0, 1 - 20 / (epochs * len(train_loader))))
    config = {
        "model": name,
        "data": train_data.name,
        "data_sha256": train_data.sha256(),
        **settings,
    }
    history = fit(
        fast,
        train_loader,
        validation_loader,
        before_epoch=before_epoch,
        run_dir=folder,
        resume=resume,
        config=config,
        **how,
    )
    command = _command(built, settings | {"data": data, "sizes": sizes, "save": save})
    model.about = (
        about
        | ({"command": command} if built and isinstance(data, str | Path) else {})
        | {
            "metrics": {
                "validation": {
                    "on": validation_data.name,
                    "accuracy": history[-1]["validation_accuracy"],
                }
            },
            "seed": seed,
            "date": time.strftime("%Y-%m-%d"),
            **{
                key: round(sum(row.get(key, 0) for row in history))
                for key in ("seconds", "cpu_seconds")
            },
            "threads": torch.get_num_threads(),
            "history": [{k: round(v, 5) for k, v in row.items()} for row in history],
        }
    )
    if main:
        save_weights(model, folder / "weights.pth")
        if save is not None:
            say(f"weights saved to {save_weights(model, save)}")
    return History(history)


def evaluate(
    model: nn.Module | str = "vit_mnist",
    data: str | Path | ImageData = "embedded",
    *,
    weights: str | Path | None = None,
    split: Literal["all", "train", "validation", "test"] | None = None,
    batch_size: int = 250,
    record: bool = False,
    root: str | Path | None = None,
    device: str | None = None,
) -> Evaluation:
    """Classify images with a model; print accuracy and confusion matrix.

    Args:
        model: name of shipped weights, a .pth file, or a my_vit.py; in Python also any nn.Module
            from images to logits.
        data: a data set, or a folder of images.
        weights: load these weights into the model first, by shipped name or file; in Python also
            the torchvision enum that the model was loaded from, such as
            ViT_B_16_Weights.IMAGENET1K_V1, for its preparation and classes.
        split: part of the data; default: all of the embedded digits, or of a folder that the model
            was not trained on; else validation.
        batch_size: images in a forward pass; does not change the result.
        record: write the accuracy to the .json beside the weights.
        root: folder of the data sets; default: MNIST_VIT_DATA, else data/.
        device: cpu, cuda or mps; default: a GPU if available; in Python for a model given by name
            only.
    """
    check_sizes(batch_size=batch_size)
    file = (
        weights
        if isinstance(weights, str | Path)
        else model
        if isinstance(model, str | Path)
        else None
    )
    if record and file is None:
        raise ValueError(
            "record needs weights by name or file, to write into the .json beside them"
        )
    model, about = _get_ready(model, weights, device)
    if own := getattr(model, "made_of", None):
        held = "vit_mnist (shipped)" if str(file).endswith(".py") else file or "it holds"
        print(f"MyVisionTransformer of {own['code']}, with the weights {held}")
    images = load_for(model, about, data, split, root)
    check_fit(model, images)
    warn_of(about, images)
    loader = Loader(images, batch_size, **place(model))
    result = evaluate_model(speed_up(model), loader, images.classes, images.name)
    print(result)
    if record:
        low, high = result.interval
        entry = {
            "on": images.name,
            "accuracy": result.accuracy,
            "correct": result.correct,
            "total": result.total,
        }
        part = "embedded" if data == "embedded" else images.source.rpartition("/")[2]
        metrics = about.get("metrics", {}) | {
            part: entry | {"interval": [round(low, 6), round(high, 6)]}
        }
        print(f"recorded in {update_about(str(file), metrics=metrics)}")
    return result


def visualize_attention(
    model: nn.Module | str = "vit_mnist",
    data: str | Path | ImageData = "embedded",
    *,
    weights: str | Path | None = None,
    transform: Callable[[Any], Tensor] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    per_class: int = 2,
    batch_size: int = 50,
    out: str | Path | None = None,
    root: str | Path | None = None,
    device: str | None = None,
) -> Page:
    """Write the attention maps of some images of each class, and a page to browse them.

    Args, besides those of ``evaluate``:
        model: name of shipped weights, a .pth file, or a my_vit.py; in Python also another Vision
            Transformer.
        data: a data set, or a folder of images, with or without a subfolder per class.
        transform: a function from a Pillow image to what the model takes, (c, h, w), for a folder
            and a model whose preprocessing is not known, such as one of timm or Hugging Face
            (docs/recording.md).
        classes: names of the model's classes, if they are not known, such as
            model.config.id2label.values().
        per_class: images of each class.
        batch_size: images in a forward pass; fewer need less memory.
        out: the folder to write to, with a folder <class>_<index> for each image; default:
            runs/attention/.
    """
    return _show(**locals())


def explore(
    model: nn.Module | str = "vit_mnist",
    data: str | Path | ImageData = "embedded",
    *,
    weights: str | Path | None = None,
    transform: Callable[[Any], Tensor] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    per_class: int = 10,
    batch_size: int = 50,
    out: str | Path | None = None,
    root: str | Path | None = None,
    device: str | None = None,
) -> Page:
    """Write one HTML file in which the model runs, also on your own pictures.

    In it every patch can be the query; heads, layers and patches can be removed, and the prediction
    changes.

    Args, besides those of ``visualize_attention``:
        per_class: images of each class: the first ones, and as many (at least 8) that the model is
            least sure of; up to 400 misclassified ones are added.
        out: the file to write; default: runs/explore.html.
    """
    return _show(**locals(), folders=False)


def _show(
    model: Any,
    data: Any,
    weights: Any,
    transform: Any,
    classes: Any,
    split: Any,
    per_class: int,
    batch_size: int,
    out: Any,
    root: Any,
    device: Any,
    folders: bool = True,
    found: Evaluation | None = None,
) -> Page:
    check_sizes(per_class=per_class, batch_size=batch_size)
    model, about = _get_ready(model, weights, device, classes)
    ready: list[Tensor] = []
    images = load_for(model, about, data, split, root, transform, ready)
    named = tuple(about.get("data", {}).get("classes", images.classes))
    labelled = named == images.classes  # else there is no truth to compare with
    check_fit(model, images, labelled)
    if transform is None:
        warn_of(about, images)

    def prepared(some: Tensor) -> Tensor:
        batch = (
            torch.stack([ready[i] for i in some])
            if ready
            else images.normalise(images.images[some])
        )
        return batch.to(**place(model))

    def known(some: Tensor) -> tuple[Tensor, list[str], list[int] | None]:
        names = [
            f"{images.classes[images.labels[i]]}_{i}".translate({47: "-", 92: "-"})
            for i in some.tolist()
        ]
        return images.images[some], names, images.labels[some].tolist() if labelled else None

    try_once(model, prepared(torch.tensor([0])), len(named))
    attention_weights(
        model, prepared(torch.tensor([0])), query=0
    )  # an error before a folder is made
    if labelled and not folders and not ready:
        found = evaluate_model(
            speed_up(model), Loader(images, batch_size, **place(model)), named, images.name
        )
    of_class = [(images.labels == c).nonzero()[:, 0] for c in range(len(images.classes))]
    chosen = torch.cat([some[:per_class] for some in of_class])
    shown = chosen
    if found is not None:
        sure, wrong = (
            found.probabilities[range(found.total), found.labels],
            found.predictions != found.labels,
        )
        hard = [some[sure[some].argsort()[: max(per_class, 8)]] for some in of_class]
        shown = torch.cat(
            [chosen, *hard, wrong.nonzero()[evenly(int(wrong.sum()), 400), 0]]
        ).unique()
    shown = shown[evenly(len(shown))]
    like_mnist = named == DATA_SETS["mnist"].classes and images.images.shape[1:] == (1, 28, 28)
    page: dict[str, Any] = {
        "title": f"Inside {about['name']}",
        "text": images.name,
        "classes": named,
    }
    page |= {
        "mean": None if ready else images.mean,
        "std": images.std,
        "digits": like_mnist,
        "found": found,
    }
    if not folders:
        return write_page(
            out_dir("runs/explore.html", out), model, prepared(shown), *known(shown), **page
        )
    folder = out_dir("runs/attention", out)
    with replacing(folder) as new:
        for some in progress(chosen.split(batch_size), desc="drawing", unit=" batches"):
            pictures, names, truth = known(some)
            save_attention_images(model, prepared(some), pictures, names, new, named, truth)
        written = write_page(new / "index.html", model, prepared(shown), *known(shown), **page)
    page_there = Page(folder / "index.html")
    page_there.instead = written.instead
    print(f"attention maps of {len(chosen)} images: {page_there}")
    return page_there


def predict(
    picture: str | Path,
    model: nn.Module | str = "vit_mnist",
    *,
    weights: str | Path | None = None,
    transform: Callable[[Any], Tensor] | None = None,
    classes: Sequence[str] | None = None,
    out: str | Path | None = None,
    device: str | None = None,
) -> Tensor:
    """Classify one picture file: print the five likeliest classes and write its attention maps.

    A drawn digit is first converted to MNIST's form: white on black, 20 pixels large, centred in 28
    by 28.

    Args, besides those of ``visualize_attention``:
        picture: an image file.
        out: the folder for the maps; default: runs/predictions/.

    Returns the probability of each class, (k,).
    """
    model, about = _get_ready(model, weights, device, classes)
    opened, data = open_picture(picture), about.get("data", {})
    named = tuple(data.get("classes", ()))
    if transform is not None and named:
        ready, pixels = (made[None] for made in transformed(opened, transform))
    else:
        form = picture_form(model, about)
        like_mnist = named == DATA_SETS["mnist"].classes and form.keywords == {
            "image_size": 28,
            "channels": 1,
        }
        pixels = (digit_to_tensor if like_mnist else form)(opened)[None]
        ready = normalise(pixels, data["mean"], data["std"])
    logits = try_once(model, ready.to(**place(model)), len(named))
    probabilities = logits[0].float().softmax(dim=0).cpu()
    folder, target = out_dir("runs/predictions", out), Path(picture).stem
    (result,) = save_attention_images(model, ready, pixels, [target], folder, named)
    print(f"{printable(str(picture))}: {result['prediction']}")
    for i in probabilities.argsort(descending=True, stable=True)[:5].tolist():
        print(f"  {named[i]}: {probabilities[i]:6.1%} {'#' * round(40 * float(probabilities[i]))}")
    print(f"attention maps: {folder / printable(target)}")
    return probabilities


def demo(out: str | Path | None = None) -> None:
    """Evaluate the shipped model on the held-out digits and write its attention maps.

    Args:
        out: the folder for the pictures; default: runs/attention/.
    """
    about = read_json("vit_mnist")
    print(f"vit_mnist: {about['parameters']:,} parameters, trained on {about['data']['name']}\n")
    found = evaluate("vit_mnist")
    print()
    _show("vit_mnist", "embedded", None, None, None, None, 2, 50, out, None, None, found=found)


def _get_ready(
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
        model.about = describe_enum(weights)
    elif weights is not None:
        load_weights(model, weights)
    about = {"name": type(model).__name__} | about_of(model)
    if classes is not None:
        about = about | {"data": about.get("data", {}) | {"classes": list(classes)}}
    return model, about


def _build(name: str, seed: int, classes: int | None, sizes: str) -> nn.Module:
    """A known model, or the class of a Python file with the sizes of a known one; for this number
    of classes."""
    own = Path(name).suffix == ".py"
    if (known := sizes if own else name) not in MODELS:
        raise ValueError(unknown("model called", known, MODELS))
    config = model_config(MODELS[known]())
    config["num_classes"] = classes or config["num_classes"]
    torch.manual_seed(seed)
    return build_own(name, config) if own else VisionTransformer(**config)


def _command(name: str, settings: dict[str, Any]) -> str:
    """The command line that calls train with these settings: those that are not the defaults."""
    words = ["python -m mnist_vit train", name]
    for key, parameter in inspect.signature(train).parameters.items():
        value = settings.get(key, parameter.default)
        if key != "model" and value != parameter.default:
            words.append(f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join(words)
