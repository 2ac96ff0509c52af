"""Photographs that come with the packages of the course, for learners who have no folder."""

from pathlib import Path

import numpy as np
from matplotlib.cbook import get_sample_data
from PIL import Image
from sklearn.datasets import load_sample_image

SIZE = 32  # pixels of a crop, each way


def photographs() -> dict[str, Image.Image]:
    """Three colour photographs by name.

    From scikit-learn (both CC BY 2.0; see ``sklearn/datasets/images/README.txt``): china.jpg, by
    "danielbuechele", the temple; flower.jpg, by "vultilion", the flower. From matplotlib (in
    ``sample_data``; by the US Navy, in the public domain): grace_hopper.jpg, the portrait.
    """
    found = {
        "flower": Image.fromarray(load_sample_image("flower.jpg")),
        "temple": Image.fromarray(load_sample_image("china.jpg")),
    }
    with get_sample_data("grace_hopper.jpg") as file:
        found["portrait"] = Image.open(file).convert("RGB")
    return dict(sorted(found.items()))


def random_places(image: Image.Image, count: int, seed: int = 0) -> np.ndarray:
    """The left and upper edges of crops at random places, (count, 2)."""
    random = np.random.default_rng(seed)
    left = random.integers(0, image.width - SIZE + 1, count)
    upper = random.integers(0, image.height - SIZE + 1, count)
    return np.stack([left, upper], axis=1)


def write_crops(image: Image.Image, places: np.ndarray, folder: Path) -> None:
    """Write the crops at these places as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (left, upper) in enumerate(places.tolist()):
        crop = image.crop((left, upper, left + SIZE, upper + SIZE))
        crop.save(folder / f"{number:03d}_at_{left}_{upper}.png")
