"""Weights go to disk and back; what is wrong with a file is said, nothing in it is run, the model stays as it was."""

import copy
import errno
import io
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import randomise
from PIL import Image
from torch import nn
from torchvision import models

import mnist_vit
from mnist_vit.errors import WeightsError
from mnist_vit.files import shipped, write_atomic
from mnist_vit.model import VisionTransformer, vit_mnist
from mnist_vit.recipes import MODELS
from mnist_vit.weights import build_model, load_model, load_weights, model_config, read_json, save_weights

SHIPPED = {"vit_mnist": "55,000", "vit_mnist_p4": "55,000", "vit_mnist_p7": "55,000", "vit_cifar10": "45,000"}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights(name: str) -> None:
    about = read_json(name)
    model = load_model(name)
    assert sum(p.numel() for p in model.parameters()) == about["parameters"]
    assert not model.training
    assert about["data"]["name"].startswith(SHIPPED[name])
    for key in ("config", "recipe", "seed", "versions", "metrics", "sha256", "command", "seconds", "history"):
        assert key in about, key
    assert {path.suffix for path in shipped("weights").glob(f"{name}.*")} == {".pth", ".json"}
    assert model_config(model) == about["config"]


def test_the_courses_model_has_115498_parameters() -> None:
    assert read_json("vit_mnist")["parameters"] == 115_498


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_load_into_torchvisions_class(name: str) -> None:
    config = {k: v for k, v in read_json(name)["config"].items() if k not in ("in_channels", "pool")}
    theirs = models.VisionTransformer(**config)
    channels = read_json(name)["config"]["in_channels"]
    theirs.conv_proj = nn.Conv2d(channels, theirs.hidden_dim, theirs.patch_size, theirs.patch_size)
    load_weights(theirs, name)
    images = torch.randn(2, channels, theirs.image_size, theirs.image_size)
    with torch.no_grad():
        assert torch.equal(theirs.eval()(images), load_model(name)(images))


def test_there_and_back(tmp_path: Path) -> None:
    model = VisionTransformer(8, 4, 2, 2, 8, 12, dropout=0.1, num_classes=3, in_channels=2, pool="mean")
    randomise(model)
    path = save_weights(model, tmp_path / "new" / "w.pth", note="mine")
    again = load_model(path)
    assert again.pool == "mean"
    assert model_config(again) == model_config(model)
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in model.state_dict().items())
    assert read_json(path)["note"] == "mine"
    assert load_model(path, print_shapes=True).print_shapes
    assert sorted(p.name for p in path.parent.iterdir()) == ["w.json", "w.pth"], "nothing temporary is left"
    assert model_config(build_model(model_config(models.vit_b_32(num_classes=2))))["patch_size"] == 32


def test_a_bare_file_without_json_loads_into_a_model(tmp_path: Path) -> None:
    """The vit_weights.pth of the original notebook: a state_dict with torchvision's keys."""
    model, other = vit_mnist(), vit_mnist()
    randomise(model)
    torch.save(model.state_dict(), tmp_path / "vit_weights.pth")
    assert load_weights(other, tmp_path / "vit_weights.pth") == {}
    assert torch.equal(other.conv_proj.weight, model.conv_proj.weight)
    with pytest.raises(WeightsError, match=r"no description of its model in vit_weights\.json beside it"):
        load_model(tmp_path / "vit_weights.pth")


def test_a_file_saved_on_a_gpu_loads_here(tmp_path: Path) -> None:
    """Tensors tagged cuda:0 in the file, as torch.save writes them on a GPU; made here without one."""
    model = vit_mnist(7)
    randomise(model)
    path = tmp_path / "vit_weights.pth"
    if torch.cuda.is_available():
        torch.save({key: value.cuda() for key, value in model.state_dict().items()}, path)
    else:
        location_tag = torch.serialization.location_tag
        torch.serialization.location_tag = lambda storage: "cuda:0"
        try:
            torch.save(model.state_dict(), path)
        finally:
            torch.serialization.location_tag = location_tag
    assert b"cuda:0" in path.read_bytes()
    other = vit_mnist(7)
    load_weights(other, path)
    assert other.class_token.device.type == "cpu"
    assert torch.equal(other.heads.head.weight, model.heads.head.weight)


@pytest.mark.parametrize("kind", ["legacy", "float64"])
def test_files_of_other_makers_load(kind: str, tmp_path: Path) -> None:
    """torch before 1.6 wrote no zip archive; others keep more digits."""
    model, other = vit_mnist(7), vit_mnist(7)
    randomise(model)
    state = {key: value.double() if kind == "float64" else value for key, value in model.state_dict().items()}
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=kind != "legacy")
    load_weights(other, tmp_path / "w.pth")
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in model.state_dict().items())


class Bomb:
    """A pickle that would run code where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_the_bomb_is_one(tmp_path: Path) -> None:
    """Without ``weights_only`` it goes off, so its silence below says something."""
    torch.save({"class_token": Bomb(tmp_path / "ran")}, tmp_path / "w.pth")
    torch.load(tmp_path / "w.pth", weights_only=False)
    assert (tmp_path / "ran").exists()


def claims_to_be_huge(content: bytes) -> bytes:
    """A .pth file whose list of contents says that one tensor unpacks to 4 GB."""
    entry = content.index(b"PK\x01\x02")  # 24 bytes further: the unpacked size, 4 bytes
    return content[: entry + 24] + struct.pack("<I", 0xFFFF_FFF0) + content[entry + 28 :]


def damaged(kind: str, folder: Path) -> Path:
    """A file of weights, and what is wrong with it."""
    path = folder / "w.pth"
    save_weights(vit_mnist(7), path)
    content = path.read_bytes()
    about = json.loads(path.with_suffix(".json").read_text())
    flipped = content[:9999] + bytes([content[9999] ^ 1]) + content[10_000:]
    json_is_there = {
        "altered": lambda: path.write_bytes(flipped),
        "CIFAR-10's": lambda: save_weights(MODELS["vit_cifar10"](), path),
        "json half": lambda: path.with_suffix(".json").write_text('{"config":'),
        "json list": lambda: path.with_suffix(".json").write_text("[1]"),
        "json no text": lambda: path.with_suffix(".json").write_bytes(b"\xff\xfe{}"),
        "json of another": lambda: path.with_suffix(".json").write_text(
            json.dumps(about | {"config": about["config"] | {"patch_size": 5}})
        ),
        "json without config": lambda: path.with_suffix(".json").write_text("{}"),
    }
    bare = {
        "hostile": lambda: torch.save({"class_token": Bomb(folder / "ran")}, path),
        "hostile legacy": lambda: torch.save(
            {"class_token": Bomb(folder / "ran")}, path, _use_new_zipfile_serialization=False
        ),
        "hostile plain pickle": lambda: path.write_bytes(pickle.dumps(Bomb(folder / "ran"))),
        "hostile plain pickle, protocol 2": lambda: path.write_bytes(pickle.dumps(Bomb(folder / "ran"), protocol=2)),
        "whole model": lambda: torch.save(vit_mnist(7), path),
        "half": lambda: path.write_bytes(content[: len(content) // 2]),
        "without its end": lambda: path.write_bytes(content[:-100]),
        "half legacy": lambda: (
            torch.save(vit_mnist(7).state_dict(), path, _use_new_zipfile_serialization=False),
            path.write_bytes(path.read_bytes()[:200_000]),
        ),
        "empty": lambda: path.write_bytes(b""),
        "text": lambda: path.write_text("<html>not found</html>"),
        "more text": lambda: path.write_text("hello"),
        "a picture": lambda: Image.new("L", (9, 9)).save(path, format="PNG"),
        "numpy's": lambda: path.write_bytes(numpy_file()),
        "another architecture": lambda: torch.save(vit_mnist(4).state_dict(), path),
        "deeper": lambda: torch.save(vit_mnist_of_3_layers().state_dict(), path),
        "one name less": lambda: torch.save(dict(list(vit_mnist(7).state_dict().items())[:-1]), path),
        "one name more": lambda: torch.save({**vit_mnist(7).state_dict(), "extra": torch.zeros(3)}, path),
        "a list": lambda: torch.save([torch.zeros(3)], path),
        "numbers": lambda: torch.save({"class_token": 3}, path),
        "numbered": lambda: torch.save({0: torch.zeros(3)}, path),
        "a checkpoint": lambda: torch.save({"model": vit_mnist(7).state_dict(), "history": []}, path),
        "altered, without sha256": lambda: path.write_bytes(flipped),
        "zip bomb": lambda: path.write_bytes(claims_to_be_huge(content)),
        "too large": lambda: os.truncate(path, 10**9),  # a hole: no disk is used
    }
    if kind == "missing":
        return folder / "nothing.pth"
    if kind == "folder":
        return folder
    if kind in json_is_there:
        json_is_there[kind]()
        return path
    bare[kind]()
    path.with_suffix(".json").unlink()
    return path


def vit_mnist_of_3_layers() -> VisionTransformer:
    return VisionTransformer(28, 7, 3, 2, 64, 256, num_classes=10, in_channels=1)


def numpy_file() -> bytes:
    file = io.BytesIO()
    np.savez(file, class_token=np.zeros(3))
    return file.getvalue()


CODE = r"w\.pth: it holds more than plain tensors, which could run code, so nothing of it was used\. Get the file again"
DAMAGE = r"w\.pth: it is cut short, damaged or no weights file\. Get the file again"
NO_STATE = r"w\.pth holds no state_dict \(names and tensors\)\. Save torch\.save"
HUGE = r"w\.pth holds [\d,]+ bytes or more once unpacked, and the model has 427,432: .* Get the file again"
KINDS = {
    "missing": r"there are no weights at .*nothing\.pth. Give the path of a \.pth file, or one of: vit_cifar10",
    "folder": "is a folder; name the .pth file in it",
    "hostile": CODE,
    "hostile legacy": CODE,
    "hostile plain pickle": DAMAGE,
    "hostile plain pickle, protocol 2": CODE,
    "whole model": CODE,
    "half": DAMAGE,
    "without its end": DAMAGE,
    "half legacy": DAMAGE,
    "empty": DAMAGE,
    "text": DAMAGE,
    "more text": DAMAGE,
    "a picture": DAMAGE,
    "numpy's": DAMAGE,
    "another architecture": r"w\.pth holds weights of another architecture: .*conv_proj\.weight: \(64, 1, 4, 4\) in "
    r"the file, \(64, 1, 7, 7\) in the model\. Build the model they were made for",
    "deeper": r"w\.pth holds weights of another architecture: .*are missing, such as heads\.pre_logits.*not in the "
    "model, such as .*layer_2.*Build the model",
    "one name less": r"w\.pth holds weights of another architecture: .*are missing, such as heads\.head\.bias",
    "one name more": r"w\.pth holds weights of another architecture: .*not in the model, such as extra",
    "CIFAR-10's": r"w\.pth holds weights of another architecture: .*Build the model they were made for",
    "a list": NO_STATE,
    "numbers": NO_STATE,
    "numbered": NO_STATE,
    "a checkpoint": NO_STATE,
    "altered, without sha256": DAMAGE,
    "zip bomb": HUGE,
    "too large": HUGE,
    "altered": r"w\.pth is not the file its \.json describes \(sha256 differs\): damaged or replaced",
    "json half": r"w\.json cannot be read .*Get it again together with its \.pth file",
    "json list": r"w\.json does not describe weights\. Get it again together with its \.pth file",
    "json no text": r"w\.json cannot be read .*Get it again together with its \.pth file",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_damage_is_named_and_the_model_stays(kind: str, tmp_path: Path) -> None:
    model = vit_mnist(7)
    randomise(model)
    before = copy.deepcopy(model.state_dict())
    path = damaged(kind, tmp_path)
    with pytest.raises(WeightsError, match=KINDS[kind]):
        load_weights(model, path)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not (tmp_path / "ran").exists(), "code of the file was run"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    save_weights(vit_mnist(7), tmp_path / "w.pth")
    monkeypatch.setattr("mnist_vit.weights.open", refuse, raising=False)
    with pytest.raises(WeightsError, match=r"w\.pth cannot be read \(Permission denied\)\. Get the file again"):
        load_weights(vit_mnist(7), tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("json of another", r"w\.json describes no model of ours \(image_size 28 must be a multiple"),
        ("json without config", r"w\.pth has no description of its model in w\.json beside it"),
    ],
)
def test_a_json_that_builds_nothing(tmp_path: Path, kind: str, said: str) -> None:
    with pytest.raises(WeightsError, match=said):
        load_model(damaged(kind, tmp_path))


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    write_atomic(path, lambda file: file.write(b"old"))

    def crash(file: object) -> None:
        file.write(b"half of the n")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, crash)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]


def test_weights_never_move_a_model(tmp_path: Path) -> None:
    model = vit_mnist(7).to(torch.float64).train()
    mnist_vit.load_weights(model, "vit_mnist_p7")
    assert model.class_token.dtype == torch.float64
    assert model.training
