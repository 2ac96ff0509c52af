"""Weights go to disk and back; what is wrong with a file is said, nothing in it is run, the model stays as it was."""

import copy
import json
import pickle
from pathlib import Path

import pytest
import torch
from helpers import randomise
from torch import nn
from torchvision import models

import mnist_vit
from mnist_vit.files import WeightsError, shipped, write_atomic
from mnist_vit.model import VisionTransformer, vit_mnist
from mnist_vit.weights import build_model, load_model, load_weights, model_config, read_json, save_weights

SHIPPED = ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights(name: str) -> None:
    about = read_json(name)
    model = load_model(name)
    assert sum(p.numel() for p in model.parameters()) == about["parameters"]
    assert not model.training
    assert about["data"]["name"].startswith("55,000")
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
    theirs.conv_proj = nn.Conv2d(1, theirs.hidden_dim, theirs.patch_size, theirs.patch_size)
    load_weights(theirs, name)
    images = torch.randn(2, 1, 28, 28)
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
    with pytest.raises(WeightsError, match=r"no vit_weights\.json beside it"):
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


class Bomb:
    """A pickle that would run code where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def damaged(kind: str, folder: Path) -> Path:
    path = folder / "w.pth"
    model = vit_mnist(7)
    save_weights(model, path)
    content = path.read_bytes()
    about = json.loads(path.with_suffix(".json").read_text())
    if kind == "missing":
        return folder / "nothing.pth"
    if kind == "folder":
        return folder
    if kind == "hostile":
        torch.save({"class_token": Bomb(folder / "ran")}, path)
    elif kind == "hostile plain pickle":
        path.write_bytes(pickle.dumps(Bomb(folder / "ran")))
    elif kind == "half":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("<html>not found</html>")
    elif kind == "another architecture":
        torch.save(vit_mnist(4).state_dict(), path)
    elif kind == "deeper":
        torch.save(VisionTransformer(28, 7, 3, 2, 64, 256, num_classes=10, in_channels=1).state_dict(), path)
    elif kind == "a list":
        torch.save([torch.zeros(3)], path)
    elif kind == "numbers":
        torch.save({"class_token": 3}, path)
    elif kind == "altered":
        changed = bytearray(content)
        changed[len(content) // 2] ^= 1
        path.write_bytes(changed)
        return path
    elif kind == "json half":
        path.with_suffix(".json").write_text('{"config":')
        return path
    elif kind == "json list":
        path.with_suffix(".json").write_text("[1]")
        return path
    elif kind == "json of another":
        about["config"]["patch_size"] = 5
        path.with_suffix(".json").write_text(json.dumps(about))
        return path
    path.with_suffix(".json").unlink()
    return path


KINDS = {
    "missing": r"there are no weights at .*nothing\.pth. Give the path of a \.pth file, or one of: vit_mnist",
    "folder": "is a folder; name the .pth file in it",
    "hostile": r"w\.pth: it holds more than plain tensors, which could run code",
    "hostile plain pickle": r"w\.pth: ",
    "half": r"w\.pth: it is cut short, damaged or no weights file. Get the file again",
    "empty": r"w\.pth: it is cut short",
    "text": r"w\.pth: ",
    "another architecture": r"another architecture: .*conv_proj\.weight: \(64, 1, 4, 4\) in the file, \(64, 1, 7, 7\)",
    "deeper": r"another architecture: .*are missing, such as heads\.pre_logits.*not in the model, such as .*layer_2",
    "a list": "holds no state_dict",
    "numbers": "holds no state_dict",
    "altered": r"sha256 differs\): damaged or replaced. Get the file again",
    "json half": r"w\.json cannot be read",
    "json list": r"w\.json does not describe weights",
}


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_named_and_the_model_stays(kind: str, tmp_path: Path) -> None:
    model = vit_mnist(7)
    randomise(model)
    before = copy.deepcopy(model.state_dict())
    path = damaged(kind, tmp_path)
    with pytest.raises(WeightsError, match=KINDS[kind]):
        load_weights(model, path)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not (tmp_path / "ran").exists(), "code of the file was run"


def test_a_json_that_builds_nothing(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"w\.json describes no model of ours \(image_size 28 must be a multiple"):
        load_model(damaged("json of another", tmp_path))


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
