"""Weights go to disk and back; what is wrong with a file is said, nothing in it is run, the model
stays as it was."""

import copy
import errno
import hashlib
import inspect
import json
import os
import pickle
import re
import struct
from pathlib import Path

import pytest
import torch
from helpers import Bomb, randomise
from PIL import Image
from torch import nn
from torchvision import models

import mnist_vit
from mnist_vit.building import build_model, model_config
from mnist_vit.errors import WeightsError
from mnist_vit.files import shipped
from mnist_vit.model import VisionTransformer, vit_mnist
from mnist_vit.weights import (
    load_model,
    load_weights,
    read_json,
    save_weights,
)

SHIPPED = {
    "vit_mnist": "55,000",
    "vit_mnist_p4": "55,000",
    "vit_mnist_p7": "55,000",
    "vit_cifar10": "45,000",
    "vit_mnist_blurred": "55,000",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights(name: str) -> None:
    model = load_model(name)
    about = json.loads((shipped("weights") / f"{name}.json").read_text())
    assert {
        **model.about,
        "sha256": about["sha256"],
    } == about, "the .json is a copy of what the .pth carries"
    assert (
        about["sha256"]
        == hashlib.sha256((shipped("weights") / f"{name}.pth").read_bytes()).hexdigest()
    )
    assert sum(p.numel() for p in model.parameters()) == about["parameters"]
    assert not model.training
    assert about["data"]["name"].startswith(SHIPPED[name])
    for key in (
        "config",
        "recipe",
        "seed",
        "versions",
        "metrics",
        "sha256",
        "command",
        "seconds",
        "history",
    ):
        assert key in about, key
    assert {path.suffix for path in shipped("weights").glob(f"{name}.*")} == {".pth", ".json"}
    assert model_config(model) == about["config"]
    if name in ("vit_mnist", "vit_mnist_blurred"):
        assert about["parameters"] == 115_498


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_load_into_torchvisions_class(name: str) -> None:
    config = {
        k: v for k, v in read_json(name)["config"].items() if k not in ("in_channels", "pool")
    }
    theirs = models.VisionTransformer(**config)
    channels = read_json(name)["config"]["in_channels"]
    theirs.conv_proj = nn.Conv2d(channels, theirs.hidden_dim, theirs.patch_size, theirs.patch_size)
    load_weights(theirs, name)
    images = torch.randn(2, channels, theirs.image_size, theirs.image_size)
    with torch.no_grad():
        assert torch.equal(theirs.eval()(images), load_model(name)(images))


def test_there_and_back(tmp_path: Path) -> None:
    model = VisionTransformer(
        8, 4, 2, 2, 8, 12, dropout=0.1, num_classes=3, in_channels=2, pool="mean"
    )
    randomise(model)
    path = save_weights(model, tmp_path / "new" / "w.pth", note="mine")
    again = load_model(path)
    assert again.pool == "mean"
    assert model_config(again) == model_config(model)
    assert all(
        torch.equal(value, again.state_dict()[key]) for key, value in model.state_dict().items()
    )
    assert read_json(path)["note"] == "mine"
    assert load_model(path, print_shapes=True).print_shapes
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "w.json",
        "w.pth",
    ], "nothing temporary is left"
    assert (
        model_config(build_model(model_config(models.vit_b_32(num_classes=2))))["patch_size"] == 32
    )


def test_a_bare_file_without_json_loads_into_a_model(tmp_path: Path) -> None:
    """The vit_weights.pth of the original notebook: a state_dict with torchvision's keys."""
    model, other = vit_mnist(), vit_mnist()
    randomise(model)
    torch.save(model.state_dict(), tmp_path / "vit_weights.pth")
    assert load_weights(other, tmp_path / "vit_weights.pth") == {}
    assert torch.equal(other.conv_proj.weight, model.conv_proj.weight)
    with pytest.raises(WeightsError, match=r"vit_weights\.pth .*load_weights"):
        load_model(tmp_path / "vit_weights.pth")


def test_a_file_saved_on_a_gpu_loads_here(tmp_path: Path) -> None:
    """Tensors tagged cuda:0 in the file, as torch.save writes them on a GPU; made here without
    one."""
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
    state = {
        key: value.double() if kind == "float64" else value
        for key, value in model.state_dict().items()
    }
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=kind != "legacy")
    load_weights(other, tmp_path / "w.pth")
    assert all(
        torch.equal(value, other.state_dict()[key]) for key, value in model.state_dict().items()
    )


def claims_to_be_huge(content: bytes) -> bytes:
    """A .pth file whose list of contents says that one tensor unpacks to 4 GB."""
    entry = content.index(b"PK\x01\x02")  # 24 bytes further: the unpacked size, 4 bytes
    return content[: entry + 24] + struct.pack("<I", 0xFFFF_FFF0) + content[entry + 28 :]


def damaged(kind: str, folder: Path) -> Path:
    """A file of weights, and what is wrong with it."""
    path = folder / "w.pth"
    save_weights(vit_mnist(7), path)
    content = path.read_bytes()
    flipped = content[:9999] + bytes([content[9999] ^ 1]) + content[10_000:]
    about = json.loads(path.with_suffix(".json").read_text())
    if kind.startswith("json"):
        torch.save(
            vit_mnist(7).state_dict(), path
        )  # of another maker: the .json is all that is known
        about["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        wrong: dict[str, object] = {
            "json of another": about | {"config": about["config"] | {"patch_size": 5}},
            "json of a giant": about | {"config": about["config"] | {"num_layers": 10**9}},
            "json of strange heads": about | {"config": about["config"] | {"num_heads": 7}},
            "json without config": {},
            "json of others' weights": about | {"sha256": "0"},
            "json list": [1],
            "json of wrong kinds": about | {"config": 3},
            "json of wrong classes": about | {"data": {"classes": 3}},
            "json of wrong numbers": about | {"data": {"mean": [0.5], "std": [0.0]}},
        }
        text = (
            json.dumps(wrong[kind]).encode()
            if kind in wrong
            else {"json half": b'{"config":'}.get(kind, b"\xff{}")
        )
        path.with_suffix(".json").write_bytes(text)
        return path
    deep = VisionTransformer(28, 7, 3, 2, 64, 256, num_classes=10, in_channels=1)
    bare = {
        "hostile": lambda: torch.save({"class_token": Bomb(folder / "ran")}, path),
        "hostile legacy": lambda: torch.save(
            {"class_token": Bomb(folder / "ran")}, path, _use_new_zipfile_serialization=False
        ),
        "hostile plain pickle": lambda: path.write_bytes(pickle.dumps(Bomb(folder / "ran"))),
        "whole model": lambda: torch.save(vit_mnist(7), path),
        "half": lambda: path.write_bytes(content[: len(content) // 2]),
        "without its end": lambda: path.write_bytes(content[:-100]),
        "half legacy": lambda: (
            torch.save(vit_mnist(7).state_dict(), path, _use_new_zipfile_serialization=False),
            path.write_bytes(path.read_bytes()[:200_000]),
        ),
        "empty": lambda: path.write_bytes(b""),
        "text": lambda: path.write_text("<html>not found</html>"),
        "a picture": lambda: Image.new("L", (9, 9)).save(path, format="PNG"),
        "another architecture": lambda: torch.save(vit_mnist(4).state_dict(), path),
        "deeper": lambda: torch.save(deep.state_dict(), path),
        "one name less": lambda: torch.save(
            dict(list(vit_mnist(7).state_dict().items())[:-1]), path
        ),
        "one name more": lambda: torch.save(
            {**vit_mnist(7).state_dict(), "extra": torch.zeros(3)}, path
        ),
        "a list": lambda: torch.save([torch.zeros(3)], path),
        "numbers": lambda: torch.save({"class_token": 3}, path),
        "numbered": lambda: torch.save({0: torch.zeros(3)}, path),
        "a checkpoint": lambda: torch.save(
            {"model": vit_mnist(7).state_dict(), "history": []}, path
        ),
        "altered": lambda: path.write_bytes(flipped),
        **{kind: lambda kind=kind: torch.save(odd_state(kind), path) for kind in ODD},
        "zip bomb": lambda: path.write_bytes(claims_to_be_huge(content)),
        "too large": lambda: os.truncate(path, 10**9),  # a hole: no disk is used
    }
    if kind == "missing":
        return folder / "nothing.pth"
    bare[kind]()
    path.with_suffix(".json").unlink()
    return path


ODD = {
    "int8": lambda tensor: (tensor * 100).to(torch.int8),
    "complex": lambda tensor: tensor.to(torch.complex64),
    "sparse": lambda tensor: tensor.to_sparse(),
    "stride 0": lambda tensor: tensor.flatten()[:1].expand(tensor.numel()).view(tensor.shape),
    "meta": lambda tensor: tensor.to("meta"),
    "quantized": lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8),
}


def odd_state(kind: str) -> dict[str, torch.Tensor]:
    return {key: ODD[kind](value) for key, value in vit_mnist(7).state_dict().items()}


CODE = r"w\.pth.* could run code"
DAMAGE = r"w\.pth.* damaged"
NO_STATE = r"w\.pth .*state_dict"
HUGE = r"w\.pth .*427,432 bytes"
KINDS = {  # the file, and what is wrong with it, or what is needed
    "missing": r"nothing\.pth.*vit_cifar10",
    "hostile": CODE,
    "hostile legacy": CODE,
    "hostile plain pickle": DAMAGE,
    "whole model": CODE,
    "half": DAMAGE,
    "without its end": DAMAGE,
    "half legacy": DAMAGE,
    "empty": DAMAGE,
    "text": DAMAGE,
    "a picture": DAMAGE,
    "altered": DAMAGE,
    "another architecture": (
        r"w\.pth .*conv_proj\.weight.*\(64, 1, 4, 4\).*\(64, 1, 7, 7\).*load_model"
    ),
    "deeper": r"w\.pth .*heads\.pre_logits.*layer_2.*load_model",
    "one name less": r"w\.pth .*heads\.head\.bias",
    "one name more": r"w\.pth .* extra",
    "a list": NO_STATE,
    "numbers": NO_STATE,
    "numbered": NO_STATE,
    "a checkpoint": NO_STATE,
    "zip bomb": HUGE,
    "too large": HUGE,
    "int8": r"w\.pth.* class_token .*int8",
    "complex": r"w\.pth.* class_token .*complex64",
    **dict.fromkeys(("sparse", "stride 0", "meta", "quantized"), r"w\.pth.* class_token "),
    "json half": r"w\.json",
    "json list": r"w\.json",
    "json no text": r"w\.json",
    "json of wrong kinds": r"w\.json .*config.* 3.*dict",
    "json of wrong classes": r"w\.json .*classes.* 3.*list",
    "json of wrong numbers": r"w\.json .*mean.*std",
    "json of others' weights": r"w\.pth .*\.json.*sha256",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings(
    "ignore:Detected pickle protocol", "ignore:.*could not be checked", "ignore:.*deprecated"
)
def test_damage_is_named_and_the_model_stays(kind: str, tmp_path: Path) -> None:
    model = vit_mnist(7)
    randomise(model)
    before = copy.deepcopy(model.state_dict())
    path = damaged(kind, tmp_path)
    with pytest.raises(WeightsError, match=KINDS[kind]):
        load_weights(model, path)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not (tmp_path / "ran").exists(), "code of the file was run"


def test_a_file_without_checksums_is_said_to_be_unchecked(tmp_path: Path) -> None:
    torch.save(vit_mnist(7).state_dict(), tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    with pytest.warns(UserWarning, match=r"w\.pth .*checked"):
        load_weights(vit_mnist(7), tmp_path / "w.pth")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    save_weights(vit_mnist(7), tmp_path / "w.pth")
    monkeypatch.setattr("mnist_vit.weights.read_file", refuse)
    with pytest.raises(WeightsError, match=r"w\.pth .*Permission denied"):
        load_weights(vit_mnist(7), tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("json of another", r"w\.pth .*patch_size.* 5"),
        ("json of a giant", r"w\.pth .*num_layers.* 1000000000.* 34 "),
        ("json of strange heads", r"w\.pth .*hidden_dim 64.*num_heads"),
        ("json without config", r"w\.pth .*load_weights"),
    ],
)
def test_a_json_that_builds_nothing(tmp_path: Path, kind: str, said: str) -> None:
    with pytest.raises(WeightsError, match=said):
        load_model(damaged(kind, tmp_path))


# --- what is known of a model stays with it and its file ---


def test_a_model_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    model = load_model("vit_cifar10")
    assert model.about["trained_on"] == ["cifar10/train"]
    again = load_model(save_weights(model, tmp_path / "w.pth"))
    assert again.about == model.about
    assert again.about["metrics"] == read_json("vit_cifar10")["metrics"]
    with torch.no_grad():
        again.heads.head.bias += 1  # a training of one's own
    other = load_model(save_weights(again, tmp_path / "w.pth"))
    assert other.about["data"] == model.about["data"]
    assert not {"metrics", "history", "recipe"} & set(other.about), "that was true of other weights"
    torch.save(model.state_dict(), tmp_path / "bare.pth")
    load_weights(again, tmp_path / "bare.pth")
    assert again.about == {"name": "bare"}, "what was known of the weights before is gone with them"


def test_killed_between_two_renames_the_new_pair_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The .pth is renamed first; with the .json of the weights before it is still whole."""
    path = save_weights(vit_mnist(7), tmp_path / "w.pth", note="old")
    monkeypatch.setattr(
        "mnist_vit.weights.write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        save_weights(vit_mnist(4), path, note="new")
    assert json.loads((tmp_path / "w.json").read_text())["note"] == "old"
    assert (load_model(path).patch_size, read_json(path)["note"]) == (4, "new")


def test_recording_leaves_the_weights_as_they_are(tmp_path: Path) -> None:
    path = save_weights(load_model("vit_mnist_p7"), tmp_path / "w.pth")
    before = torch.load(path, weights_only=True)
    mnist_vit.evaluate(path, split="validation", record=True)
    assert read_json(path)["metrics"]["embedded"]["total"] == 1000
    assert read_json(path)["metrics"]["test"] == read_json("vit_mnist_p7")["metrics"]["test"]
    after = torch.load(path, weights_only=True, mmap=True)
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert json.loads((tmp_path / "w.json").read_text()).items() >= read_json(path).items()


@pytest.mark.parametrize("name", ["w.json", "vit.seed1", "w", "folder.pth"])
def test_names_that_cannot_be_weights(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.pth").mkdir()
    for call in (
        save_weights,
        lambda model, path: mnist_vit.train(model, "embedded", save=path, epochs=1),
    ):
        with pytest.raises(ValueError, match=rf"{re.escape(name)} is .*name.*\.pth"):
            call(vit_mnist(7), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.pth"]


def test_the_home_folder_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert save_weights(vit_mnist(7), "~/w.pth") == tmp_path / "w.pth"


def test_weights_never_move_a_model(tmp_path: Path) -> None:
    model = vit_mnist(7).to(torch.float64).train()
    mnist_vit.load_weights(model, "vit_mnist_p7")
    assert model.class_token.dtype == torch.float64
    assert model.training


def test_the_stored_config_has_every_option_of_the_constructor(tmp_path: Path) -> None:
    """An option that is not stored would be lost silently when the weights are loaded."""
    options = set(inspect.signature(VisionTransformer).parameters) - {"norm_layer", "print_shapes"}
    model = VisionTransformer(
        8, 4, 1, 2, 8, 16, 0.1, 0.2, 3, representation_size=5, in_channels=2, pool="mean"
    )
    about = json.loads(save_weights(model, tmp_path / "w.pth").with_suffix(".json").read_text())
    assert set(about["config"]) == options
    again = mnist_vit.load_model(tmp_path / "w.pth")
    assert model_config(again) == model_config(model) == about["config"]
