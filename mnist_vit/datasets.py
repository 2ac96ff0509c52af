"""``DATA_SETS``: classes, normalisation and splits of each; ``reading`` reads the files."""

from dataclasses import dataclass
from pathlib import Path

from .errors import DataError, unknown
from .files import user_path

__all__ = ["DATA_SETS", "MNIST_MEAN", "MNIST_STD", "DataSet", "check_data"]

MNIST_MEAN = 0.1307  # of all pixels of the training images, on the scale 0 to 1
MNIST_STD = 0.3081


@dataclass(frozen=True)
class DataSet:
    """Class names, mean and standard deviation per channel (on the scale 0 to 1), and splits."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    splits: tuple[str, ...] = ("train", "validation", "test")


DIGITS = tuple("0123456789")
CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

DATA_SETS: dict[str, DataSet] = {
    "mnist": DataSet(DIGITS, (MNIST_MEAN,), (MNIST_STD,)),
    "embedded": DataSet(DIGITS, (MNIST_MEAN,), (MNIST_STD,), splits=("all", "train", "validation")),
    "cifar10": DataSet(CIFAR10_CLASSES, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "fashion_mnist": DataSet(CLOTHES, (0.2860,), (0.3530,)),
}


def check_data(data: str | Path) -> None:
    """Raise DataError unless this is the name of a data set, or a folder that is there."""
    if data not in DATA_SETS and not user_path(data).is_dir():
        raise DataError(
            f"{unknown('data called', data, DATA_SETS)}, or the path of a folder of images"
        )
