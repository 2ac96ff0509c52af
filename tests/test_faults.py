"""A kill, or a disk that becomes full, at one step after the other of all that writes."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from survivor import digest, toy_maps, toy_model
from test_survival import run as run  # a fixture

from mnist_vit.weights import load_model

pytestmark = pytest.mark.full
FAULTS = pytest.mark.parametrize("how", ["kill", "ENOSPC"], ids=["killed", "disk full"])
OLD = ["a", "b", "c"]  # the images of an older page, of 3 layers
NEW = ["a", "b"]  # and of a newer one, of 2


def hidden(folder: Path) -> list[Path]:
    """What a write that was cut short left behind."""
    return list(folder.rglob(".mnist_vit-*"))


def moments(steps: int, stride: int) -> Iterator[int]:
    """The first step, every ``stride``-th one, and the last."""
    yield from range(1, steps, stride)
    yield steps


@FAULTS
def test_training(run: Callable, tmp_path: Path, how: str) -> None:
    """Nothing half written stays, and resumed it ends like the run that nothing disturbed."""
    whole = run(tmp_path / "whole", job="train", epochs=2)
    folder = tmp_path / "run"
    for at in moments(whole["steps"], stride=31):
        stopped = run(folder, job="train", epochs=2, at=at, how=how)
        if how == "kill":
            assert stopped["status"] == 9
        else:
            # At the last steps nothing is left to write: the run ends as if nothing had happened.
            is_whole = stopped["error"] is None and stopped["answer"] == whole["answer"]
            assert is_whole or "could not be written" in stopped["error"]
            assert not hidden(folder)
        again = run(folder, job="train", epochs=2)
        assert (again["error"], again["answer"]) == (None, whole["answer"])
        assert not hidden(folder)
        shutil.rmtree(folder)


@FAULTS
def test_weights(run: Callable, tmp_path: Path, how: str) -> None:
    """The old pair or the new pair loads, and the .json says what is in the .pth."""
    folder = tmp_path / "weights"
    steps = run(folder, job="save", seed=1)["steps"]
    old_or_new = [digest(toy_model(seed)) for seed in (1, 2)]
    for at in moments(steps, stride=1):
        assert run(folder, job="save", seed=1)["error"] is None
        run(folder, job="save", seed=2, at=at, how=how)
        assert digest(load_model(folder / "w.pth")) in old_or_new


def drawn(folder: Path) -> dict[str, int]:
    """The number of layers of each image folder, all of which are whole."""
    found = {}
    for name in OLD:
        if (folder / name).is_dir():
            stored = json.loads((folder / name / "attention.json").read_text())
            layers = len(stored["layers_heads_rows_columns"])
            expected = {"image.png", "rollout.png", "attention.json"}
            for layer in range(layers):
                expected |= {f"layer_{layer}_head_{head}.png" for head in (0, 1)}
            assert {path.name for path in (folder / name).iterdir()} - {"my notes"} == expected
            found[name] = layers
    return found


@FAULTS
def test_attention_folders(run: Callable, tmp_path: Path, how: str) -> None:
    """Every image folder is whole; at the latest the next drawing makes all of one model; what is
    not ours stays."""
    old = tmp_path / "old"
    folder = tmp_path / "maps"
    of_old = dict.fromkeys(OLD, 3)
    of_new = dict.fromkeys(NEW, 2)
    toy_maps(old, OLD, layers=3)
    (old / ".mine.part").write_text("mine")
    (old / "a" / "my notes").write_text("mine too")
    shutil.copytree(old, folder)
    steps = run(folder, job="draw", names=NEW)["steps"]
    shutil.rmtree(folder)
    for at in moments(steps, stride=7):
        shutil.copytree(old, folder)
        run(folder, job="draw", names=NEW, at=at, how=how)
        if "2 layers" in (folder / "index.html").read_text():
            assert drawn(folder) == of_new, "the page comes last"
        drawn(folder)
        assert run(folder, job="draw", names=["z"], page=False)["error"] is None
        assert drawn(folder) in (of_old, of_new), "a swap that was cut short is ended"
        assert ("2 layers" in (folder / "index.html").read_text()) == (drawn(folder) == of_new)
        assert run(folder, job="draw", names=NEW)["error"] is None
        assert drawn(folder) == of_new
        assert not hidden(folder)
        assert (folder / ".mine.part").read_text() == "mine"
        assert (folder / "a" / "my notes").read_text() == "mine too"
        shutil.rmtree(folder)
