"""Weights files: a .pth file contains the state_dict and a description, ``model.about``.

The keys of the description, as far as known: ``name``, ``data`` (``name``, ``source``, ``classes``,
``mean``, ``std``, ``size``, ``channels``), ``trained_on``, ``recipe``, ``metrics`` and more. The
.json beside the file is a copy for readers.
"""

import copy
import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .building import build_model, build_own, model_config, tokens_of
from .errors import WeightsError, printable
from .files import find_weights, read_file, user_path, write_atomic, write_json

__all__ = [
    "find_weights",
    "load_model",
    "load_weights",
    "read_json",
    "save_weights",
]

# an entry of the .pth file, a zip archive; torch.load ignores it
ABOUT = "archive/extra/about.json"
# Entries that hold for these tensors only, and not for ones that are trained further.
OF_THE_TENSORS = (
    "recipe",
    "seed",
    "metrics",
    "seconds",
    "threads",
    "date",
    "command",
    "history",
    "seeds",
)
# The entries of a config that are lengths of a tensor's axis.
IN_TENSORS = (
    "patch_size",
    "hidden_dim",
    "mlp_dim",
    "num_classes",
    "representation_size",
    "in_channels",
)
# The types of the entries that are used, and of those in ``data``.
KINDS = {
    "name": str,
    "config": dict,
    "data": dict,
    "trained_on": list,
    "metrics": dict,
    "sha256": str,
    "tensors": str,
}
IN_DATA = {
    "name": str,
    "source": str,
    "classes": list,
    "mean": list,
    "std": list,
    "size": int,
    "interpolation": str,
}


def about_of(model: nn.Module) -> dict[str, Any]:
    """``model.about``, or an empty dict."""
    about = getattr(model, "about", None)
    return about if isinstance(about, dict) else {}


def weights_path(path: str | Path) -> Path:
    """The path of a new weights file; ValueError for a folder, or a name without .pth."""
    path = user_path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file, such as {path / 'weights.pth'}")
    if path.suffix != ".pth":  # w.1 and w.2 would share w.json
        better = f"{path.name.split('.')[0]}.pth"
        raise ValueError(f"{path} is not a .pth file: use a name such as {better}")
    beside = path.with_suffix(".json")
    if beside.exists() and not _is_ours(beside):
        raise ValueError(f"{beside} was not written by mnist_vit: name another file")
    return path


def _is_ours(file: Path) -> bool:
    """Whether a .json describes weights; one that is damaged may."""
    try:
        content = json.loads(read_file(file))
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(content, dict) and not content.keys().isdisjoint({*KINDS, "parameters"})


def save_weights(model: nn.Module, path: str | Path, **about: Any) -> Path:
    """Write the state_dict (as CPU tensors) and a description to ``path``, and a .json beside it.

    The description is ``model.about`` with the entries of ``about``. If the weights have changed
    since ``model.about`` was set, recipe, metrics and history are omitted.
    """
    path = weights_path(path)
    if any(tensor.is_meta for tensor in model.state_dict().values()):
        raise ValueError("the model is on the meta device and holds no numbers: nothing to save")
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    tensors = _checksum(state)
    known: Any = _without(about_of(model), ("config", "code"))
    if known.get("tensors", tensors) != tensors:
        known = _without(known, OF_THE_TENSORS)
    if type(model).__name__ == "VisionTransformer":  # load_model builds no other class
        with suppress(AttributeError, IndexError):
            known["config"] = model_config(model)
    known |= getattr(model, "made_of", {})
    fresh = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "tensors": tensors,
        "versions": {"torch": torch.__version__.split("+")[0]},
    }
    model.about = known | about | fresh
    return _write(path, state, about_of(model))


def _without(about: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key not in keys}


def update_about(name: str | Path, **about: Any) -> Path:
    """Add entries to the description in a weights file. Returns the path of the .json."""
    path = find_weights(name)
    state, known = _read(path, None)
    return _write(path, state, known | about).with_suffix(".json")


def _write(path: Path, state: dict[str, Tensor], about: dict[str, Any]) -> Path:
    """Write the .pth, which contains everything, then the .json.

    After a crash between them the .json is out of date.
    """
    text = json.dumps(_without(about, ("sha256",)), allow_nan=False, default=str)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(zipfile.ZipInfo(ABOUT), text)
    write_atomic(path, lambda file: file.write(buffer.getbuffer()))
    sha256 = hashlib.sha256(buffer.getbuffer()).hexdigest()
    write_json(path.with_suffix(".json"), json.loads(text) | {"sha256": sha256})
    return path


def _checksum(state: dict[str, Tensor]) -> str:
    """Checksum of all names and values."""
    total = hashlib.sha256()
    for name, tensor in state.items():
        total.update(name.encode())
        if tensor.numel():
            total.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()[:16]


def read_json(name: str | Path) -> dict[str, Any]:
    """The description in a weights file, else in the .json beside it, else an empty dict."""
    path = find_weights(name)
    try:
        return _read_about(path, read_file(path))
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from error


def load_weights(model: nn.Module, name: str | Path) -> dict[str, Any]:
    """Load a file, by path or shipped name, into any model, strictly; parameters keep their device.

    Nothing in the file is executed. Returns the description of the weights, which becomes
    ``model.about``. Raises WeightsError, and leaves the model unchanged, if the file is missing,
    damaged or of another architecture.
    """
    path = find_weights(name)
    needed = sum(tensor.nbytes for tensor in model.state_dict().values())
    state, about = _read(path, needed)
    _fill(model, path, state, about)
    return about


def load_to_train(model: nn.Module, name: str | Path, classes: Sequence[str]) -> str:
    """Load weights, as ``load_weights`` does, into a model that is then trained on ``classes``.

    If the weights are for other classes, the class head is not loaded: the model keeps its own.
    Returns a sentence that says so, or an empty one.
    """
    path = find_weights(name)
    own = model.state_dict()
    state, about = _read(path, sum(tensor.nbytes for tensor in own.values()))
    theirs = about.get("data", {}).get("classes")
    head = [key for key in own if key.startswith("heads.head.") and key in state]
    other_size = any(own[key].shape != state[key].shape for key in head)
    other_names = theirs is not None and list(theirs) != list(classes)
    note = ""
    if head and (other_size or other_names):
        for key in head:
            state[key] = own[key]
        before = f"{len(theirs)} classes" if theirs else "other classes"
        note = (
            f"the class head of {path.stem} ({before}) is replaced by a new one for"
            f" {len(classes)} classes; all weights are fine-tuned"
        )
    fitting = f", such as {about['name']}" if "name" in about else ""
    _fill(model, path, state, about, f"Train a model that they fit{fitting}")
    return note


def load_model(
    name: str | Path = "vit_mnist", *, weights: str | Path | None = None, **options: Any
) -> Any:
    """Build the model that a weights file describes and load its weights; on the CPU, in eval mode.

    ``name`` is a shipped name or a .pth file; or a my_vit.py, which is run, with your permissions,
    and whose ``MyVisionTransformer`` gets ``weights`` (default: those of vit_mnist). ``options``
    are further keywords of the class. Raises WeightsError as ``load_weights`` does.
    """
    own = user_path(name).suffix == ".py"
    path = find_weights(weights or ("vit_mnist" if own else name))
    state, about = _read(path, None)
    if "code" in about and not own:
        raise WeightsError(
            f"{path} has weights of the model in {about['code']}: give that file, and"
            f" weights={path}"
        )
    if "config" not in about:
        raise WeightsError(
            f"{path} and its .json do not describe a model: build it, then load_weights(model,"
            " path)"
        )
    try:
        _check_sizes(about["config"], state)
        if own:
            model = build_own(name, about["config"] | options)
        else:
            model = build_model(about["config"], **options)
    except (TypeError, ValueError, KeyError) as error:
        raise WeightsError(
            f"{path} describes no model that mnist_vit can build ({error})"
        ) from error
    if own:
        about = about | {"name": Path(name).name}
    _fill(model, path, state, about)
    return model.eval()


def _fill(
    model: nn.Module,
    path: Path,
    state: dict[str, Tensor],
    about: dict[str, Any],
    remedy: str = "Use load_model",
) -> None:
    """Load all tensors into the model, or raise WeightsError and leave it unchanged."""
    trial = copy.deepcopy(model)
    try:
        trial.load_state_dict(state, strict=True)
    except RuntimeError as error:
        differences = _differences(trial, state)
        raise WeightsError(
            f"{path} holds weights of another architecture: {differences}. {remedy}"
        ) from error
    for name, own in trial.state_dict().items():
        given = state.get(name, own)
        if own.is_floating_point() and not given.is_floating_point():
            raise WeightsError(f"{path}: {name} is {given.dtype}. Save the floating-point weights")
    model.load_state_dict(state, strict=True)
    known: Any = {"name": path.stem, **about}
    model.about = known


def _check_sizes(config: dict[str, Any], state: dict[str, Tensor]) -> None:
    """Raise ValueError for sizes that no tensor has: a wrong size could request all memory."""
    lengths: set[int] = set()
    for tensor in state.values():
        lengths.update(tensor.shape)
    sizes = {name: config[name] for name in IN_TENSORS}
    if sizes["representation_size"] is None:
        del sizes["representation_size"]
    for name, size in sizes.items():
        if size not in lengths:
            raise ValueError(f"{name} is {size!r}, but no tensor has an axis of this length")
    tokens = 1 + (config["image_size"] // config["patch_size"]) ** 2  # at least
    if tokens <= max(lengths):
        tokens = tokens_of(config)
    if tokens not in lengths:
        raise ValueError(
            f"the number of tokens is {tokens!r}, but no tensor has an axis of this length"
        )
    if not config["num_layers"] <= len(state):
        raise ValueError(
            f"num_layers is {config['num_layers']}, and there are {len(state)} tensors"
        )


def _read(path: Path, needed: int | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors in a file and their description.

    WeightsError unless it is intact, contains only tensors, and fits. ``needed`` is the size of the
    model's weights in bytes; None if there is no model yet.
    """
    remedy = "Replace the file"
    # _differences describes models of similar size
    room = -2 if needed is None else 4 * needed + 100_000_000
    try:
        content = read_file(path, None if needed is None else room + 1)
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be read ({error.strerror or error}). {remedy} or change its permissions"
        ) from error
    if needed is None:
        most = 2 * len(content)
        fits = f"{len(content):,} bytes on disk"
    else:
        most = room
        fits = f"a model of {needed:,} bytes"
    size = _unpacked_size(content)
    if size > most:
        raise WeightsError(
            f"{path} unpacks to {size:,} bytes or more, too many for {fits}: not loaded. {remedy}"
        )
    about = _read_about(path, content)
    if needed is None:
        _warn_of_sizes(path, content, about)
    sha256 = about.pop("sha256", None)  # only a .json contains it
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise WeightsError(
            f"{path} is not the file that its .json describes (sha256 differs): damaged or replaced"
        )
    try:
        _check_zip(content)
        if sha256 is None and not zipfile.is_zipfile(io.BytesIO(content)):
            warnings.warn(
                f"{path} could not be checked for damage: its old format has no checksums",
                stacklevel=4,
            )
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many kinds
        reason = "it is incomplete, damaged or not a weights file"
        if "GLOBAL" in str(error):  # the name of a function or class, which only tensors may have
            reason = "besides tensors, it contains objects that could run code; nothing was loaded"
        raise WeightsError(
            f"{path}: {reason}. {remedy} by one from torch.save(model.state_dict(), path)"
        ) from error
    _check_state(path, state)
    return state, about


def _check_state(path: Path, state: Any) -> None:
    """Raise WeightsError unless these are names and dense tensors."""
    if not _is_state_dict(state):
        raise WeightsError(
            f"{path} holds no state_dict (names and tensors). Use torch.save(model.state_dict(),"
            " path)"
        )
    if not _is_metadata(getattr(state, "_metadata", {})):
        raise WeightsError(f"{path} holds a state_dict whose _metadata is damaged. Replace it")
    for name, tensor in state.items():
        if not _is_dense(tensor):
            raise WeightsError(
                f"{path}: {name} is sparse, quantized, a meta tensor or expanded: save dense"
                " tensors"
            )


def _check_zip(content: bytes) -> None:
    """Raise BadZipFile if a checksum is wrong: torch.save writes them, torch.load ignores them."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if archive.testzip() is not None:
            raise zipfile.BadZipFile("a checksum is wrong")


def _is_state_dict(state: Any) -> bool:
    if not isinstance(state, dict):
        return False
    return all(isinstance(name, str) and isinstance(one, Tensor) for name, one in state.items())


def _is_dense(tensor: Tensor) -> bool:
    """Whether each number of a tensor is stored, as a number."""
    if tensor.is_meta or tensor.is_quantized or tensor.layout != torch.strided:
        return False
    axes = zip(tensor.stride(), tensor.shape, strict=True)
    return not any(step == 0 and size > 1 for step, size in axes)


def _is_metadata(metadata: Any) -> bool:
    """Whether these are versions of modules by name, which load_state_dict looks at."""
    if not isinstance(metadata, dict):
        return False
    for name, entry in metadata.items():
        if not isinstance(name, str) or not isinstance(entry, dict):
            return False
        if type(entry.get("version", 1)) not in (int, type(None)):
            return False
    return True


def _warn_of_sizes(path: Path, content: bytes, about: dict[str, Any]) -> None:
    """Warn of what tensors cannot tell, if the .json beside the file is its only source, or says
    something else."""
    beside = path.with_suffix(".json")
    if "config" not in about:
        return
    if not _describes_itself(content):
        warnings.warn(
            f"{path} does not describe its model: its sizes are those in {beside}, where num_heads"
            " and pool are not checked",
            stacklevel=4,
        )
        return
    try:
        told = json.loads(read_file(beside))["config"]
        different = [key for key, value in about["config"].items() if told.get(key) != value]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a copy for readers
        return
    if different:
        key = different[0]
        warnings.warn(
            f"{beside} says {key}={told.get(key)}, and {path.name} says {about['config'][key]}: the"
            " file counts",
            stacklevel=4,
        )


def _describes_itself(content: bytes) -> bool:
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
        return ABOUT in archive.namelist()
    return False


def _read_about(path: Path, content: bytes) -> dict[str, Any]:
    """The description in a file, else in its .json; WeightsError if it is invalid."""
    where = path.with_suffix(".json")
    try:
        if _describes_itself(content):
            where = path
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return _check_about(json.loads(archive.read(ABOUT)))
        if where.is_file():
            return _check_about(json.loads(read_file(where)))
        return {}
    except (OSError, ValueError, RuntimeError, RecursionError) as error:
        reason = printable(str(error)) or type(error).__name__
        raise WeightsError(
            f"{where} cannot be read ({reason}). Replace the .pth file and its .json"
        ) from error


def _check_about(about: Any) -> dict[str, Any]:
    """Validate a description, and make names printable; ValueError if it is invalid."""
    if not isinstance(about, dict):
        raise ValueError("it does not describe weights")
    data = about.setdefault("data", {})
    for kinds, values in ((KINDS, about), (IN_DATA, data)):
        for key, kind in kinds.items():
            if type(values.get(key, kind())) is not kind:
                raise ValueError(
                    f"{key} is {json.dumps(values[key])[:40]}, and must be {kind.__name__}"
                )
    if not _is_normalisation(data.get("mean", []), data.get("std", [])):
        raise ValueError("mean and std must have a number for each channel, std above 0")
    if "classes" in data:
        data["classes"] = [printable(str(name)) for name in data["classes"]]
    default = [data["name"]] if "name" in data else []
    about["trained_on"] = [str(used) for used in about.get("trained_on", default)]
    return about


def _is_normalisation(mean: list[Any], std: list[Any]) -> bool:
    """Whether these are as many numbers, those of ``std`` above 0."""
    for value in mean + std:
        if type(value) not in (int, float) or abs(value) >= 1e6:
            return False
    return len(mean) == len(std) and min(std, default=1) > 0


def _unpacked_size(content: bytes) -> int:
    """The bytes that a file needs in memory: a small zip archive can claim to be huge."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return max(len(content), sum(entry.file_size for entry in archive.infolist()))
    except (zipfile.BadZipFile, ValueError):  # an old format, or damage, which is reported later
        return len(content)


def _differences(model: nn.Module, state: dict[str, torch.Tensor]) -> str:
    """The number of tensors that are missing, unexpected or of another shape; an example each."""
    own = model.state_dict()
    missing = []
    shapes = []
    for name, tensor in own.items():
        if name not in state:
            missing.append(name)
        elif tensor.shape != state[name].shape:
            shapes.append(name)
    unexpected = [name for name in state if name not in own]
    parts = []
    for names, what in (
        (missing, "tensors are missing"),
        (unexpected, "are not in the model"),
        (shapes, "have another shape"),
    ):
        if names:
            parts.append(f"{len(names)} {what}, such as {names[0]}")
    if shapes:
        theirs = tuple(state[shapes[0]].shape)
        ours = tuple(own[shapes[0]].shape)
        parts[-1] += f": {theirs} in the file, {ours} in the model"
    return "; ".join(parts) or "its tensors are not dense"


def describe_enum(weights: Any) -> Any:
    """The description of weights by one of torchvision's enums."""
    how = weights.transforms()
    data = {
        "name": weights.name,
        "classes": list(weights.meta["categories"]),
        "channels": len(how.mean),
        "mean": list(how.mean),
        "std": list(how.std),
        "size": how.crop_size[0],
        "resize": how.resize_size[0],
        "interpolation": how.interpolation.value,
    }
    return {
        "name": type(weights).__name__.removesuffix("_Weights").lower(),
        "data": data,
        "trained_on": [weights.name],
    }
