"""The options of each job, and of the command that calls it, without torch.

A job in ``jobs`` takes these fields as keywords; ``mnist-vit`` offers them as options.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from .datasets import DATA_SETS, check_data
from .errors import check_range, unknown
from .files import existing, find_weights, shipped_weights
from .options import Checked, Option, described, undecided
from .recipe import MODELS, Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .data import ImageData

Split = Literal["all", "train", "validation", "test"]
Data = Annotated[
    "str | Path | ImageData", Option("a data set, or a folder of images", names=DATA_SETS)
]
Weights = Annotated[
    Any,
    Option(
        "load these weights into the model first, by shipped name or file",
        in_python="also the torchvision enum that the model was loaded from, such as"
        " ViT_B_16_Weights.IMAGENET1K_V1, for its preparation and classes",
    ),
]
Transform = Annotated[
    "Callable[[Any], Tensor] | None",
    Option(
        "a function from a Pillow image to what the model takes, (c, h, w), for a folder and a"
        " model whose preprocessing is not known, such as one of timm or Hugging Face"
        " (docs/recording.md)",
        only_python=True,
    ),
]
Classes = Annotated[
    Sequence[str] | None,
    Option(
        "names of the model's classes, if they are not known, such as"
        " model.config.id2label.values(); empty if it has none: then there are maps and no"
        " predictions",
        only_python=True,
    ),
]
Grid = Annotated[
    "tuple[int, int] | None",
    Option(
        "rows and columns of patches, if the model does not tell them; patches are the last tokens",
        only_python=True,
    ),
]
WhichSplit = Annotated[
    Split | None,
    Option(
        "part of the data; default: all of the embedded digits, or of a folder that the model was"
        " not trained on; else validation"
    ),
]
Root = Annotated[
    str | Path | None,
    Option("folder of the data sets; default: MNIST_VIT_DATA, else data/", metavar="FOLDER"),
]
Device = Annotated[
    str | None,
    Option(
        "cpu, cuda or mps; default: a GPU if available", in_python="for a model given by name only"
    ),
]


@dataclass(frozen=True, eq=False)
@undecided
class Train(Recipe):
    """Train a model and write checkpoints, curves and the final weights to a folder.

    Settings of the recipe that are not given suit the model and its images; the first lines of a
    run print them. A resumed run uses the settings that it was started with.
    """

    model: Annotated[
        "nn.Module | str",
        Option(
            "a new model by name; or a .py file, which is run, with a class MyVisionTransformer,"
            " such as my_vit.py",
            in_python="also any nn.Module from images to logits, which is trained on the device"
            " it is on",
            names=MODELS,
        ),
    ]
    data: Annotated[
        "str | Path | ImageData",
        Option(
            "a data set, or a folder of images; auto is mnist if available, else embedded; cifar10"
            " for a model that takes colour images of 32 pixels",
            names=DATA_SETS,
        ),
    ] = "auto"
    _: KW_ONLY
    recipe: Annotated[
        Literal["shipped"] | None,
        Option(
            "shipped: the settings, and without data the data set, of the shipped weights of this"
            " model; single settings given beside it are used instead"
        ),
    ] = None
    sizes: Annotated[
        str | None,
        Option(
            "only for a .py file: build its class with the sizes of this model; default:"
            " vit_cifar10 for colour images, else vit_mnist",
            choices=tuple(MODELS),
        ),
    ] = None
    run_dir: Annotated[
        str | Path | None,
        Option("folder of the run; default: a new one in runs/", metavar="FOLDER"),
    ] = None
    checkpoint_every: Annotated[int, Option("epochs between checkpoints", low=1)] = 1
    resume: Annotated[
        bool,
        Option(
            "continue from the checkpoint in the run's folder; the result equals that of an"
            " uninterrupted run of as many epochs"
        ),
    ] = False
    tensorboard: Annotated[bool, Option("write curves for tensorboard to the run's folder")] = False
    save: Annotated[
        str | Path | None,
        Option(
            "also write the final weights to this .pth file; shipped weights are replaced only if"
            " this is their path"
        ),
    ] = None
    root: Root = None
    device: Device = None

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.resume and self.run_dir is None:
            raise ValueError("resume=True needs run_dir, the folder of the run to continue")
        if isinstance(self.model, str) and not self.from_file and self.model not in MODELS:
            raise ValueError(unknown("model called", self.model, MODELS))
        if self.epochs is not None and self.full_epochs is not None:
            check_range(0, self.epochs, full_epochs=self.full_epochs)
        if self.recipe is not None:
            self._check_shipped()
        if isinstance(self.data, str | Path) and self.data != "auto":
            check_data(self.data)

    @property
    def from_file(self) -> bool:
        """Whether the model is a class in a Python file."""
        return isinstance(self.model, str) and Path(self.model).suffix == ".py"

    def _check_shipped(self) -> None:
        """Raise ValueError if the model has no shipped weights whose recipe could be used."""
        shipped = ", ".join(shipped_weights())
        if not isinstance(self.model, str):
            kind = type(self.model).__name__
            raise ValueError(
                f'recipe="shipped" is for a model by name ({shipped}), got a {kind}: give single'
                " settings"
            )
        if not self.from_file and self.model not in shipped_weights():
            raise ValueError(
                f"{self.model} has no shipped weights, and so no shipped recipe: choose from"
                f" {shipped}"
            )

    def settings(self) -> dict[str, Any]:
        """The settings of the recipe that were given."""
        values = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        return {key: value for key, value in values.items() if value is not None}

    def command(self, **changes: Any) -> str:
        """The command line of this training, apart from where it runs: what is not the default."""
        here: dict[str, Any] = {"run_dir": None, "resume": False, "root": None, "device": None}
        given = replace(self, **here, **changes)
        words = ["python -m mnist_vit train", str(given.model)]
        for key, one in described(Train).items():
            value = getattr(given, key)
            if key == "model" or value == one.default:
                continue
            if value is False:
                words.append(dashed(f"no_{key}"))
            else:
                words.append(dashed(key) if value is True else f"{dashed(key)} {value}")
        return " ".join(words)


class Trained(Checked):
    """Options of a job with a trained model; a wrong name is told before torch is imported."""

    model: Any
    weights: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.model, str):
            own = Path(self.model).suffix == ".py"
            name = self.weights or ("vit_mnist" if own else self.model)
            if isinstance(name, str):
                find_weights(name)
        data = getattr(self, "data", None)
        if isinstance(data, str | Path):
            check_data(data)


@dataclass(frozen=True, eq=False)
class Evaluate(Trained):
    """Classify images with a model; print accuracy and confusion matrix."""

    model: Annotated[
        "nn.Module | str",
        Option(
            "name of shipped weights, a .pth file, or a my_vit.py, which is run",
            in_python="also any nn.Module from images to logits",
            names=shipped_weights(),
        ),
    ] = "vit_mnist"
    data: Data = "embedded"
    _: KW_ONLY
    weights: Weights = None
    split: WhichSplit = None
    batch_size: Annotated[
        int | None,
        Option(
            "images in a forward pass; does not change the result; default: those of about 10,000"
            " tokens, 250 at most",
            low=1,
        ),
    ] = None
    record: Annotated[bool, Option("write the accuracy to the .json beside the weights")] = False
    root: Root = None
    device: Device = None


@dataclass(frozen=True, eq=False)
class Shown(Trained):
    """Options of a job that shows the attention weights of some images."""

    model: Annotated[
        "nn.Module | str",
        Option(
            "name of shipped weights, a .pth file, or a my_vit.py, which is run",
            in_python="also another Vision Transformer",
            names=shipped_weights(),
        ),
    ] = "vit_mnist"
    data: Annotated[
        "str | Path | ImageData | None",
        Option(
            "a data set, or a folder of images, with or without a subfolder per class; default:"
            " what the model was trained on (for MNIST, the embedded digits), else the embedded"
            " digits",
            names=DATA_SETS,
        ),
    ] = None
    _: KW_ONLY
    weights: Weights = None
    transform: Transform = None
    classes: Classes = None
    grid: Grid = None
    split: WhichSplit = None
    batch_size: Annotated[
        int, Option("images in a forward pass; fewer need less memory", low=1)
    ] = 50
    root: Root = None
    device: Device = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Attention(Shown):
    """Write attention maps and relevance of some images of each class, and a page of them."""

    per_class: Annotated[int, Option("images of each class", low=1)] = 2
    out: Annotated[
        str | Path | None,
        Option(
            "the folder to write to, with a folder <class>_<index> for each image; default:"
            " runs/attention/",
            metavar="FOLDER",
        ),
    ] = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Explore(Shown):
    """Write one HTML file in which the model runs, also on your own pictures.

    In it every patch can be the query; heads, layers and patches can be removed, and the prediction
    changes. The examples come with their relevance: which patches speak for the prediction.
    """

    per_class: Annotated[
        int,
        Option(
            "images of each class: the first ones, and as many (at least 8) that the model is least"
            " sure of; up to 400 misclassified ones are added",
            low=1,
        ),
    ] = 10
    out: Annotated[
        str | Path | None,
        Option("the file to write; default: runs/explore.html", metavar="FILE"),
    ] = None


@dataclass(frozen=True, eq=False)
class Predict(Trained):
    """Classify one picture file: print the five likeliest classes and write its attention maps.

    A drawn digit is first converted to MNIST's form: white on black, 20 pixels large, centred in 28
    by 28.
    """

    picture: Annotated[str | Path, Option("an image file")]
    model: Annotated[
        "nn.Module | str",
        Option(
            "name of shipped weights, a .pth file, or a my_vit.py, which is run",
            in_python="also another Vision Transformer",
            names=shipped_weights(),
        ),
    ] = "vit_mnist"
    _: KW_ONLY
    weights: Weights = None
    transform: Transform = None
    classes: Classes = None
    grid: Grid = None
    out: Annotated[
        str | Path | None,
        Option("the folder for the maps; default: runs/predictions/", metavar="FOLDER"),
    ] = None
    device: Device = None

    def __post_init__(self) -> None:
        super().__post_init__()
        existing(self.picture, "file")
        if self.classes is not None and len(self.classes) == 0:
            raise ValueError(
                "predict needs the names of the model's classes, got none: visualize_attention"
                " takes a model without classes"
            )


@dataclass(frozen=True, eq=False)
class Demo(Checked):
    """Evaluate the shipped model on the held-out digits and write its attention maps."""

    out: Annotated[
        str | Path | None,
        Option("the folder for the pictures; default: runs/attention/", metavar="FOLDER"),
    ] = None


@dataclass(frozen=True, eq=False)
class Notebooks(Checked):
    """Copy the notebooks of the course to a folder of yours."""

    folder: Annotated[
        str | Path, Option("the folder to copy to; existing files are not overwritten")
    ]
    with_outputs: Annotated[
        bool, Option('keep the stored outputs, which answer each "Before you run it"')
    ] = False
    update: Annotated[
        bool,
        Option(
            "move an older copy to a folder named after the date, which is printed, then copy;"
            " my_vit.py is kept"
        ),
    ] = False


@dataclass(frozen=True, eq=False)
class Progress(Checked):
    """Print which exercises each learner has solved, and where the last answer fails.

    It reads each my_vit.py, the answers and the notebooks beside it.
    """

    folder: Annotated[
        str | Path,
        Option(
            "a folder with the files of all learners, or with one subfolder per learner; or one"
            " file"
        ),
    ]
    run: Annotated[
        bool,
        Option(
            "also run the checks, each file in a process of its own, but with your user's"
            " permissions"
        ),
    ] = False
    csv: Annotated[
        str | Path | None,
        Option("also write a row for each learner and exercise to this .csv file", metavar="FILE"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        existing(self.folder)


@dataclass(frozen=True, eq=False)
class Check(Checked):
    """Compare a Vision Transformer in a Python file with torchvision's, and name what differs.

    The file is run. Exit code 1 if there is a difference.
    """

    file: Annotated[str | Path, Option("a .py file")]
    name: Annotated[
        str | None,
        Option(
            "the class in it, a function that builds the model, or the model; default:"
            " MyVisionTransformer, or the only one that can be meant"
        ),
    ] = None
    _: KW_ONLY
    image_size: Annotated[
        int | None, Option("side of the pictures in pixels, if it cannot be found", low=1)
    ] = None
    in_channels: Annotated[
        int | None, Option("channels of the pictures, if they are not three", low=1)
    ] = None
    num_heads: Annotated[
        int | None, Option("attention heads in a layer, if their number cannot be found", low=1)
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        existing(self.file, "file")


# the options of each command, and the module and name of the function that it calls
COMMANDS: dict[str, tuple[type[Checked], str]] = {
    "demo": (Demo, "jobs.demo"),
    "notebooks": (Notebooks, "files.copy_notebooks"),
    "check": (Check, "check.vit_file"),
    "progress": (Progress, "check.progress"),
    "evaluate": (Evaluate, "jobs.evaluate"),
    "attention": (Attention, "jobs.visualize_attention"),
    "explore": (Explore, "jobs.explore"),
    "predict": (Predict, "jobs.predict"),
    "train": (Train, "jobs.train"),
}


def dashed(key: str) -> str:
    """A keyword as an option of the command line."""
    return f"--{key.replace('_', '-')}"
