"""A training recipe: what determines the weights of a run, apart from the model and its images.

Every setting exists once, as a field. Functions, stored runs and the command line read it here.
``suited_to`` chooses a recipe for a model and its images.
"""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from .errors import check_range
from .options import Checked, Option

MODELS: dict[str, dict[str, Any]] = {
    f"vit_mnist{ending}": {
        "image_size": 28,
        "patch_size": patch_size,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 64,
        "mlp_dim": 256,
        "num_classes": 10,
        "representation_size": 32,
        "in_channels": 1,
    }
    for ending, patch_size in (("", 2), ("_p4", 4), ("_p7", 7))
}
MODELS["vit_cifar10"] = {
    "image_size": 32,
    "patch_size": 4,
    "num_layers": 4,
    "num_heads": 4,
    "hidden_dim": 48,
    "mlp_dim": 192,
    "num_classes": 10,
}


@dataclass(frozen=True, kw_only=True)
class Optimisation(Checked):
    """The settings of the optimisation loop, ``training.fit``."""

    epochs: Annotated[int, Option("passes over the training images", low=1)] = 10
    learning_rate: Annotated[
        float, Option("the largest learning rate, reached after the warm-up", low=0, high=1000)
    ] = 3e-3
    weight_decay: Annotated[
        float, Option("weight decay of all weight matrices", low=0, high=1000)
    ] = 0.1
    average: Annotated[
        float,
        Option(
            "decay of the exponential moving average (EMA) of the weights, per step; at most"
            " 1 - 20 / steps, so that the average of a short run no longer contains the start"
            " values",
            low=0,
            high=0.999999,
        ),
    ] = 0.999
    optimizer: Annotated[
        Literal["adamw", "muon"],
        Option(
            "adamw for all parameters; or muon for the matrices of the encoder, with adamw for the"
            " rest"
        ),
    ] = "adamw"
    label_smoothing: Annotated[
        float, Option("share of each label that is spread over all classes", low=0, high=0.999999)
    ] = 0.0
    seed: Annotated[
        int,
        Option(
            "random seed of start values, order, augmentation and dropout", low=0, high=2**32 - 1
        ),
    ] = 0

    def optimisation(self) -> dict[str, Any]:
        """These settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(Optimisation)}


@dataclass(frozen=True, kw_only=True)
class Augmentation(Checked):
    """The random changes of the training images, see ``augmentation.augment``."""

    degrees: Annotated[
        float, Option("augmentation: rotate by up to this angle, in degrees", low=0, high=360)
    ] = 10.0
    scale: Annotated[
        float, Option("augmentation: enlarge or shrink by up to this share", low=0, high=0.999999)
    ] = 0.1
    shift: Annotated[
        float, Option("augmentation: translate by up to this many pixels", low=0, high=1000)
    ] = 1.0
    flip: Annotated[
        bool, Option("augmentation: mirror half of the images left to right (not for digits)")
    ] = False
    shear: Annotated[
        float, Option("augmentation: shear by up to this share", low=0, high=0.999999)
    ] = 0.0
    elastic: Annotated[
        float,
        Option(
            "augmentation: elastic distortion; points move by about this many pixels",
            low=0,
            high=1000,
        ),
    ] = 0.0
    colour: Annotated[
        float,
        Option(
            "augmentation: change brightness, contrast and saturation by up to this share",
            low=0,
            high=0.999999,
        ),
    ] = 0.0

    @property
    def augmentation(self) -> dict[str, Any]:
        """The keywords of ``augmentation.augment``."""
        return {field.name: getattr(self, field.name) for field in fields(Augmentation)}


@dataclass(frozen=True, kw_only=True)
class Recipe(Augmentation, Optimisation):
    """All settings of a training that determine its weights."""

    weights: Annotated[
        str | Path | None,
        Option(
            "load these weights first, by shipped name or file; default: train the model as it is"
        ),
    ] = None
    batch_size: Annotated[int, Option("images in a batch, over all processes together", low=1)] = 64
    keep_patches: Annotated[
        int | None,
        Option(
            "patches of each image used in training, those with ink first; the last epochs use all"
        ),
    ] = None
    full_epochs: Annotated[
        int | None,
        Option("number of last epochs that use all patches; default: a quarter of the epochs"),
    ] = None
    position_start: Annotated[
        Literal["random", "sincos"] | None,
        Option("initialise the position embedding with random values, or with sines and cosines"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0, self.epochs, full_epochs=self.epochs_with_all_patches)

    @property
    def epochs_with_all_patches(self) -> int:
        """``full_epochs``, or a quarter of the epochs."""
        return self.epochs // 4 if self.full_epochs is None else self.full_epochs

    def patches_in(self, epoch: int) -> int | None:
        """Patches of each image that are used in an epoch, counted from 0; None for all."""
        if epoch < self.epochs - self.epochs_with_all_patches:
            return self.keep_patches
        return None

    def average_over(self, steps: int) -> float:
        """The decay of the average in a run of so many steps: a short run forgets its start."""
        return min(self.average, max(0.0, 1 - 20 / steps))

    def stored(self) -> dict[str, Any]:
        """The settings as they are stored in JSON."""
        settings = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        if self.weights is not None:
            settings["weights"] = str(self.weights)
        return settings


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained on what, as far as ``suited_to`` needs to know.

    Attributes:
        pictures: number of training images.
        size, channels: of an image.
        clothes: whether the images are Fashion-MNIST's.
        patches: of an image; None if patches cannot be skipped in training.
        encoder: whether the model has matrices in ``encoder.layers``, for Muon.
        positions: whether its position embedding can start as sines and cosines.
        trained: whether the model was trained before.
        optimizer: the user's choice, or None.
    """

    pictures: int
    size: int
    channels: int
    clothes: bool = False
    patches: int | None = None
    encoder: bool = False
    positions: bool = False
    trained: bool = False
    optimizer: str | None = None


def suited_to(task: Task) -> Recipe:
    """The recipe that ``train`` uses where its user has not chosen.

    The length is a number of images: a small data set needs as many steps as one of 10,000 images.
    """
    optimizer = task.optimizer or ("muon" if task.encoder else "adamw")
    learning_rate = {"muon": 6e-3, "adamw": 3e-3}[optimizer]
    seen = 160_000  # 2,500 batches of 64
    least = 16  # epochs
    if task.trained:  # a longer run forgets more than it learns from few images
        learning_rate /= 6
        seen = 16_000
        least = 10
    most = 60 if task.channels > 1 else 600  # a longer run learns few photographs by heart
    epochs = min(most, max(least, math.ceil(seen / task.pictures)))
    keep_patches = None
    if task.patches is not None and task.patches >= 64:
        keep_patches = task.patches // 2
    changes = _colour_changes(task.size) if task.channels > 1 else _grey_changes(task)
    return Recipe(
        epochs=epochs,
        optimizer="muon" if optimizer == "muon" else "adamw",
        learning_rate=learning_rate,
        weight_decay=0.05 if task.channels > 1 else 0.1,
        label_smoothing=0.05,
        keep_patches=keep_patches,
        position_start="sincos" if task.positions and not task.trained else None,
        **changes,
    )


def _colour_changes(size: int) -> dict[str, Any]:
    """Augmentation for colour photographs."""
    changes: dict[str, Any] = {"degrees": 15.0, "scale": 0.15, "shear": 0.2, "colour": 0.4}
    return changes | {"shift": size / 8, "flip": True}


def _grey_changes(task: Task) -> dict[str, Any]:
    """Augmentation for grey images, in particular for digits of 28 by 28 pixels."""
    changes: dict[str, Any] = {"degrees": 10.0, "scale": 0.1, "shift": task.size / 28}
    if task.clothes:
        return changes | {"flip": True}
    if task.size == 28:
        return changes | {"elastic": 0.7}
    return changes
