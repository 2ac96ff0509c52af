"""The learner's own weights: the end of notebook 07 saves them, later notebooks use them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import WeightsError
from ..files import out_dir, shipped
from ..model import VisionTransformer

FILE = "my_weights.pth"
TRAINED_ON = ["embedded/train"]  # 4,000 of the 5,000
SIZES = {
    "image_size": 28,
    "patch_size": 7,
    "num_layers": 2,
    "num_heads": 8,
    "hidden_dim": 64,
    "mlp_dim": 256,
    "num_classes": 10,
    "in_channels": 1,
}


def my_weights(kind: Callable[..., nn.Module] = VisionTransformer) -> nn.Module:
    """Return the model that notebook 07 has trained and saved, in eval mode; prints whose it is.

    Where there is no ``my_weights.pth`` (under MNIST_VIT_OUT, else in the current folder), weights
    of a stored training of the same length are loaded.

    Args:
        kind: the class to build, such as ``check.my_vit().MyVisionTransformer``.

    Raises:
        WeightsError: the file cannot be loaded into that class.
    """
    file = out_dir(FILE)
    if file.exists():
        print(f"{FILE}: yours, saved at the end of notebook 07")
    else:
        folder = file.absolute().parent.name
        print(f"{FILE}: none in {folder}/ yet; those of a stored training of that length stand in")
        file = shipped("notebooks") / "results" / FILE
    return _loaded(kind, file)


def _loaded(kind: Callable[..., nn.Module], file: Path) -> nn.Module:
    try:
        content: Any = torch.load(file, map_location="cpu", weights_only=True)
        model = kind(**content["sizes"])
        model.load_state_dict(content["weights"])
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise WeightsError(
            f"{file} cannot be loaded ({type(error).__name__}: {reason}). Run the end of notebook"
            " 07 again, or remove the file"
        ) from error
    about: Any = {"name": FILE, "trained_on": TRAINED_ON}
    model.about = about  # so that ``evaluate`` leaves these digits out
    return model.eval()
