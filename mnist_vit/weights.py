"""Weights on disk: a .pth file with the state_dict, and beside it a .json with all that is known about it."""

import copy
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .errors import WeightsError, nearest
from .files import shipped, write_atomic, write_json
from .model import VisionTransformer

__all__ = ["build_model", "find_weights", "load_model", "load_weights", "model_config", "read_json", "save_weights"]


def model_config(model: nn.Module) -> dict[str, Any]:
    """The keywords that build this Vision Transformer again, read off the model itself."""
    names = ("image_size", "patch_size", "hidden_dim", "mlp_dim", "dropout", "attention_dropout", "num_classes")
    config = {name: getattr(model, name) for name in names}
    return config | {
        "num_layers": len(model.encoder.layers),
        "num_heads": model.encoder.layers[0].num_heads,
        "representation_size": model.representation_size,
        "in_channels": model.conv_proj.in_channels,
        "pool": getattr(model, "pool", "token"),
    }


def save_weights(model: nn.Module, path: str | Path, **about: Any) -> Path:
    """Write the state_dict to ``path``, and config, sha256 and ``about`` to the .json beside it.

    The weights are stored as CPU tensors, so that a file made on a GPU loads anywhere.
    """
    path = Path(path)
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    write_atomic(path, lambda file: torch.save(state, file))
    versions = {"torch": torch.__version__.split("+")[0]}
    parameters = sum(p.numel() for p in model.parameters())
    config = {"config": model_config(model)} if hasattr(model, "encoder") and hasattr(model, "conv_proj") else {}
    content = {**config, "parameters": parameters, **about, "versions": versions}
    write_json(path.with_suffix(".json"), content | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    return path


def find_weights(name: str | Path) -> Path:
    """The file of a shipped name such as "vit_mnist", or the path given."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise WeightsError(f"{path} is a folder; name the .pth file in it")
    if path.is_file():
        return path
    ours = shipped("weights") / f"{name}.pth"
    if ours.is_file():
        return ours
    known = sorted(p.stem for p in shipped("weights").glob("*.pth"))
    raise WeightsError(f"there are no weights at {path}{nearest(name, known)}. Give the path of a .pth file, or one "
                       f"of: {', '.join(known)}")  # fmt: skip


def read_json(name: str | Path) -> dict[str, Any]:
    """What the .json beside a weights file says; an empty dict where there is none."""
    path = find_weights(name).with_suffix(".json")
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read ({error}). Get it again together with its .pth file") from error
    if not isinstance(content, dict):
        raise WeightsError(f"{path} does not describe weights. Get it again together with its .pth file")
    return content


def load_weights(model: nn.Module, name: str | Path) -> dict[str, Any]:
    """Load a file into the model, strictly; on any failure the model stays as it was.

    Nothing in the file is executed: only tensors and plain containers are accepted.

    Args:
        model: any module; its parameters keep their device.
        name: a shipped name or the path of a .pth file.

    Returns:
        What the .json beside the file says, or an empty dict.

    Raises:
        WeightsError: missing, damaged, far too large, not plain tensors, or of another architecture.
    """
    path = find_weights(name)
    about = read_json(path)
    state = _read_state(path, about.get("sha256"), model)
    trial = copy.deepcopy(model)
    try:
        trial.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise WeightsError(f"{path} holds weights of another architecture: {_differences(trial, state)}. Build the "
                           "model they were made for, or use load_model") from error  # fmt: skip
    model.load_state_dict(state, strict=True)
    return about


def build_model(config: dict[str, Any], **options: Any) -> VisionTransformer:
    """The model of a config dict, with the start weights of its class."""
    return VisionTransformer(**{**config, **options})


def load_model(name: str | Path = "vit_mnist", **options: Any) -> VisionTransformer:
    """Build the model that the .json describes, load its weights, and put it in eval mode, on the CPU.

    Args:
        name: a shipped name or the path of a .pth file with its .json beside it.
        options: further keywords of ``VisionTransformer``, such as ``print_shapes=True``.

    Raises:
        WeightsError: see ``load_weights``; or there is no .json to build from.
    """
    path = find_weights(name)
    about = read_json(path)
    if "config" not in about:
        raise WeightsError(f"{path} has no description of its model in {path.with_suffix('.json').name} beside it. "
                           "Build the model yourself and use load_weights(model, path)")  # fmt: skip
    try:
        model = build_model(about["config"], **options)
    except (TypeError, ValueError) as error:
        raise WeightsError(f"{path.with_suffix('.json')} describes no model of ours ({error})") from error
    load_weights(model, path)
    return model.eval()


def _read_state(path: Path, sha256: str | None, model: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors in a file, if it is what its .json describes, has a size that fits the model, and is plain."""
    remedy = "Get the file again"
    needed = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    room = 4 * needed + 100_000_000  # bytes; weights of somewhat larger models are told apart by name, further below
    try:
        with open(path, "rb") as file:
            content = file.read(room + 1)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror or error}). {remedy}, or mend that") from error
    if (size := _unpacked_size(content)) > room:
        raise WeightsError(f"{path} holds {size:,} bytes or more once unpacked, and the model has {needed:,}: these "
                           f"are not its weights, and nothing of them was used. {remedy}")  # fmt: skip
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        reason = "is not the file its .json describes (sha256 differs): damaged or replaced"
        raise WeightsError(f"{path} {reason}. {remedy}")
    try:
        if zipfile.is_zipfile(io.BytesIO(content)):  # torch.save writes checksums, torch.load does not look at them
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                if archive.testzip() is not None:
                    raise zipfile.BadZipFile("a checksum is wrong")
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many kinds
        if "GLOBAL" in str(error):  # the name of a function or class, which only tensors may have
            reason = "it holds more than plain tensors, which could run code, so nothing of it was used"
        else:
            reason = "it is cut short, damaged or no weights file"
        raise WeightsError(f"{path}: {reason}. {remedy}, as made by torch.save(model.state_dict(), path)") from error
    plain = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not plain or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise WeightsError(f"{path} holds no state_dict (names and tensors). Save torch.save(model.state_dict(), path)")
    return state


def _unpacked_size(content: bytes) -> int:
    """Bytes that a file asks for in memory: .pth files are zip archives, and a small one can claim to be huge."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return max(len(content), sum(entry.file_size for entry in archive.infolist()))
    except (zipfile.BadZipFile, ValueError):  # an old format, or damage, which is told later
        return len(content)


def _differences(model: nn.Module, state: dict[str, torch.Tensor]) -> str:
    """The first of what is missing, unexpected or of another shape, and how many of each there are."""
    own = model.state_dict()
    missing, unexpected = [k for k in own if k not in state], [k for k in state if k not in own]
    shapes = [k for k in own if k in state and own[k].shape != state[k].shape]
    parts = []
    if missing:
        parts.append(f"{len(missing)} tensors are missing, such as {missing[0]}")
    if unexpected:
        parts.append(f"{len(unexpected)} are not in the model, such as {unexpected[0]}")
    if shapes:
        k = shapes[0]
        parts.append(f"{len(shapes)} have another shape, such as {k}: {tuple(state[k].shape)} in the file, "
                     f"{tuple(own[k].shape)} in the model")  # fmt: skip
    return "; ".join(parts)
