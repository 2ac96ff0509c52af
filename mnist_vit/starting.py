"""What a training starts with: model, images, recipe, and the lines that tell them.

Settings that the user has not given come from the run that is resumed, from the shipped weights, or
from ``recipe.suited_to``, in this order.
"""

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .building import build_model, build_own, model_config
from .commands import Train
from .console import say
from .data import ImageData, Loader, check_fit, load_data, pixels_of
from .datasets import DATA_SETS
from .devices import find_device
from .errors import WeightsError
from .fast import FastVisionTransformer, speed_up
from .files import data_dir
from .pictures import folder_channels
from .recipe import MODELS, Recipe, Task, suited_to
from .weights import about_of, load_to_train, read_json

__all__ = ["Forecast", "Start"]

COLOUR = "vit_cifar10"  # whose sizes a class in a file gets
GREY = "vit_mnist"


class Start:
    """Model, images and recipe of a training.

    Attributes:
        data: a name, a folder or images: what "auto" stands for, else what was given.
        model, name: the model on its device; what it is called.
        train_data, validation_data: images that fit it.
        suited, recipe: the recipe that suits them; the recipe that is used.
        notes: sentences for the user.
    """

    def __init__(self, given: Train) -> None:
        self.given = given
        self.notes: list[str] = []
        self.data = find_data(given)
        self.sizes = _sizes(given, self.data)
        decided = self._decided()
        self.model: Any = given.model
        if isinstance(given.model, str):
            self.model = self._build(decided, None)
        elif not isinstance(given.model, nn.Module):
            raise TypeError(
                f"model must be a model (nn.Module), or one of {', '.join(MODELS)}, got"
                f" {type(given.model).__name__}"
            )
        form = pixels_of(self.model)
        self.train_data = load_data(self.data, "train", given.root, *form)
        self.validation_data = load_data(self.data, "validation", given.root, *form)
        if isinstance(given.model, str):  # as many classes as any folder of images has
            self.model = self._build(decided, len(self.train_data.classes))
            self.model = self.model.to(find_device(given.device))
        check_fit(self.model, self.train_data)
        check_fit(self.model, self.validation_data)
        if decided.get("weights") is not None:
            self._load(decided["weights"])
        self._compare_colours()
        self.suited = suited_to(self._task(decided))
        self.recipe = Recipe(**_settings(self.suited) | decided)

    @property
    def name(self) -> str:
        """The model's name or file, or its class."""
        if isinstance(self.given.model, str):
            return Path(self.given.model).name
        return type(self.model).__name__

    def _decided(self) -> dict[str, Any]:
        """The settings that the data has no part in: resumed, shipped and given ones."""
        settings: dict[str, Any] = {}
        if self.given.recipe == "shipped":
            settings = _only_settings(read_json(str(self.sizes))["recipe"])
            if settings.get("full_epochs"):  # the same share of another number of epochs
                epochs = self.given.settings().get("epochs", settings["epochs"])
                settings["full_epochs"] = settings["full_epochs"] * epochs // settings["epochs"]
        if self.given.resume and self.given.run_dir is not None:
            settings = _settings_of_run(Path(self.given.run_dir))
        return settings | self.given.settings()

    def _build(self, decided: dict[str, Any], classes: int | None) -> nn.Module:
        """A new model by name, or the class of a Python file; for this number of classes."""
        config = model_config(build_model(MODELS[str(self.sizes)]))
        config["num_classes"] = classes or config["num_classes"]
        torch.manual_seed(decided.get("seed", Recipe.seed))
        if not self.given.from_file:
            return build_model(config)
        model = build_own(str(self.given.model), config)
        taken = pixels_of(model, config["image_size"], config["in_channels"])
        for name, takes in zip(("image_size", "in_channels"), taken, strict=True):
            if takes != config[name]:
                raise WeightsError(
                    f"MyVisionTransformer in {self.given.model} was asked for"
                    f" {name}={config[name]}, it takes {takes}: use the argument {name}"
                )
        return model

    def _load(self, weights: str | Path) -> None:
        """Load weights; images of a folder are normalised as those that made them."""
        note = load_to_train(self.model, weights, self.train_data.classes)
        if note:
            self.notes.append(note)
        known = about_of(self.model).get("data", {})
        if self._is_folder() and len(known.get("mean", ())) == len(self.train_data.mean):
            norms: Any = {"mean": tuple(known["mean"]), "std": tuple(known["std"])}
            self.train_data = replace(self.train_data, **norms)
            self.validation_data = replace(self.validation_data, **norms)

    def _compare_colours(self) -> None:
        """Note if images in colour are trained on without their colours."""
        is_grey = self.train_data.images.shape[1] == 1
        if self._is_folder() and is_grey and folder_channels(self.data) == 3:
            self.notes.append(
                f"the images of {self.data} are in colour, {self.name} takes them as grey: for"
                f" colour, train {COLOUR}, or a model with in_channels=3"
            )

    def _is_folder(self) -> bool:
        return isinstance(self.data, str | Path) and self.data not in DATA_SETS

    def _task(self, decided: dict[str, Any]) -> Task:
        _, channels, size, _ = self.train_data.images.shape
        fast = speed_up(self.model)
        is_fast = isinstance(fast, FastVisionTransformer)
        return Task(
            pictures=len(self.train_data),
            size=size,
            channels=channels,
            clothes=self.data == "fashion_mnist",
            patches=fast.num_patches if is_fast else None,
            encoder=any(map(_is_of_encoder, self.model.named_parameters())),
            positions=_has_grid_of_positions(self.model),
            trained=decided.get("weights") is not None or _was_trained(self.model),
            optimizer=decided.get("optimizer"),
        )

    def lines(self, steps_in_epoch: int) -> list[str]:
        """What is trained on what, for the user."""
        recipe = self.recipe
        _, channels, size, _ = self.train_data.images.shape
        kind = "grey" if channels == 1 else "in colour"
        patches = ""
        if isinstance(getattr(self.model, "patch_size", None), int):
            side = self.model.patch_size
            patches = f", {(size // side) ** 2} patches of {side}×{side}"
        steps = recipe.epochs * steps_in_epoch
        batches = "batch" if steps_in_epoch == 1 else "batches"
        return [
            f"training on {self.train_data.name}",
            f"validation on {self.validation_data.name}",
            f"{self.name}: images of {size}×{size} pixels, {kind}{patches};"
            f" {len(self.train_data.classes)} classes",
            f"{steps:,} steps: {recipe.epochs} epochs of {steps_in_epoch:,} {batches}",
            f"recipe: {_told(recipe)}",
            *self.notes,
        ]

    def command(self) -> str:
        """The command line that repeats this training.

        Settings that come from shipped weights or from the run that is resumed are written out.
        """
        settings = {}
        for key, value in self.recipe.stored().items():
            if value != getattr(self.suited, key):
                settings[key] = value
        return self.given.command(data=self.data, recipe=None, **settings)

    def next_step(self, weights: Path) -> str:
        """What a user can do with the weights."""
        if not isinstance(self.given.model, str):
            return f"mnist_vit.evaluate({', '.join(['model', *self._data_to_name()])})"
        words = ["mnist-vit", "evaluate"]
        if self.given.from_file:
            words += [self.given.model, "--weights"]
        words.append(str(weights))
        if isinstance(self.data, str | Path) and self.data not in ("mnist", "embedded"):
            words += ["--data", str(self.data)]
        return shlex.join(words)

    def _data_to_name(self) -> list[str]:
        """The argument of ``evaluate`` that names the data, where its default is another one."""
        if isinstance(self.data, ImageData):
            return ["data=…"]  # the user's own name for it is not known
        if self.data in ("mnist", "embedded"):
            return []
        return [f"data={str(self.data)!r}"]


class Forecast:
    """Batches of a loader for ``fit``; says after some steps how long all will take.

    A step with fewer patches is taken to need as much less time, and the evaluation of an image a
    third of the time of its training.
    """

    wait = 1.0  # seconds of training until it is told

    def __init__(self, loader: Loader, recipe: Recipe, patches: int | None, others: int) -> None:
        """``patches`` of an image, or None; ``others`` is the number of validation images."""
        self.loader = loader
        share = 1.0
        if recipe.keep_patches is not None and patches:
            share = recipe.keep_patches / patches
        self.costs = []
        for epoch in range(recipe.epochs):
            all_patches = recipe.patches_in(epoch) is None
            self.costs.append(1.0 if all_patches else share)
        self.validation = others / len(loader.data) / 3
        self.is_told = False
        self.done = 0  # steps since start
        self.start = 0.0

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next pass is."""
        self.loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self.loader:
            yield batch
            if not self.is_told:
                self._count()

    def _count(self) -> None:
        """To be called after each step; the first one is not timed."""
        seconds = time.perf_counter() - self.start
        if not self.start:
            self.start = time.perf_counter()
            return
        self.done += 1
        if seconds < self.wait:
            return
        self.is_told = True
        epoch = self.loader.epoch
        left = sum(self.costs[epoch:]) / self.costs[epoch]
        left += self.validation * (len(self.costs) - epoch) / self.costs[epoch]
        expected = seconds / self.done * len(self) * left
        say(f"expected time: {_spoken_time(expected)}")


def find_data(given: Train) -> Any:
    """The data set that "auto" stands for; or what was given."""
    if not isinstance(given.data, str) or given.data != "auto":
        return given.data
    if given.recipe == "shipped":
        name = _wanted_sizes(given) or GREY if given.from_file else given.model
        return read_json(str(name))["data"]["source"].partition("/")[0]
    if _takes_small_colour_images(given):
        return "cifar10"
    return "mnist" if (data_dir(given.root) / "MNIST" / "raw").is_dir() else "embedded"


def _takes_small_colour_images(given: Train) -> bool:
    if given.from_file:
        return _wanted_sizes(given) == COLOUR
    if isinstance(given.model, str):
        return given.model == COLOUR
    return pixels_of(given.model, None, None) == (32, 3)


def _sizes(given: Train, data: Any) -> str | None:
    """The name in MODELS whose sizes the model gets; None for a model that exists."""
    if not isinstance(given.model, str):
        return None
    if not given.from_file:
        return given.model
    return _wanted_sizes(given) or (COLOUR if _channels_of(data) == 3 else GREY)


def _wanted_sizes(given: Train) -> str | None:
    """The sizes that were chosen for a class in a file, also by naming shipped weights."""
    if given.sizes is None and given.weights in MODELS:
        return str(given.weights)
    return given.sizes


def _channels_of(data: Any) -> int:
    """1 for grey images, 3 for colour."""
    if isinstance(data, ImageData):
        return data.images.shape[1]
    if data in DATA_SETS:
        return len(DATA_SETS[data].mean)
    return folder_channels(data)


def _settings_of_run(folder: Path) -> dict[str, Any]:
    """The recipe that a run was started with; empty if its config.json cannot be read."""
    try:
        return _only_settings(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):  # told when the run is opened
        return {}


def _only_settings(stored: dict[str, Any]) -> dict[str, Any]:
    return {field.name: stored[field.name] for field in fields(Recipe) if field.name in stored}


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {field.name: getattr(recipe, field.name) for field in fields(Recipe)}


def _is_of_encoder(named: tuple[str, Tensor]) -> bool:
    """Whether a parameter is one for Muon."""
    name, parameter = named
    return "encoder.layers." in name and parameter.dim() == 2


def _has_grid_of_positions(model: Any) -> bool:
    """Whether ``sincos_positions`` knows this model's position embedding."""
    embedding = getattr(getattr(model, "encoder", None), "pos_embedding", None)
    sizes: list[Any] = []
    for name in ("image_size", "patch_size", "hidden_dim"):
        sizes.append(getattr(model, name, None))
    if embedding is None or not all(isinstance(size, int) for size in sizes):
        return False
    image_size, patch_size, hidden_dim = sizes
    patches = (image_size // patch_size) ** 2
    return hidden_dim % 4 == 0 and embedding.shape[1:] in (
        (patches, hidden_dim),
        (patches + 1, hidden_dim),
    )


def _was_trained(model: Any) -> bool:
    """Whether a model holds weights that a new start of its positions would spoil.

    A new model has a class head of zeros, as torchvision's, and small random positions.
    """
    if about_of(model):
        return True
    head = getattr(getattr(model, "heads", None), "head", None)
    embedding = getattr(getattr(model, "encoder", None), "pos_embedding", None)
    if not isinstance(head, nn.Linear) or embedding is None:
        return False
    is_new = not head.weight.any() and 0.018 < embedding.std() < 0.022
    return not is_new


def _told(recipe: Recipe) -> str:
    """The settings that do something, in words."""
    quiet = ("epochs", "average", "seed", "weights", "full_epochs")
    parts = []
    for key, value in recipe.stored().items():
        if key in quiet or value in (None, 0, False):
            continue
        word = key.replace("_", " ")
        parts.append(word if value is True else f"{word} {value}")
    return ", ".join(parts)


def _spoken_time(seconds: float) -> str:
    """Seconds, minutes or hours, rounded."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} hours"
