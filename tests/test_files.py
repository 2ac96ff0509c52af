"""What is written is whole or not there; only a download of data reaches the network; nothing from
a file is run."""

import errno
import hashlib
import os
import pickle
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Bomb
from PIL import Image
from survivor import toy_maps, toy_model

from mnist_vit import data, jobs
from mnist_vit.errors import DataError
from mnist_vit.files import PARTS, write_atomic, write_json, write_text
from mnist_vit.weights import save_weights

# --- every write is atomic ---


WRITERS = {
    "write_text": lambda folder: write_text(folder / "a.txt", "text"),
    "write_json": lambda folder: write_json(folder / "a.json", [1]),
    "save_weights": lambda folder: save_weights(toy_model(), folder / "w.pth"),
    "gallery": lambda folder: toy_maps(folder, ["a"]),
    "copy_notebooks": jobs.copy_notebooks,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_crash_before_the_rename_leaves_what_was_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies, so to speak, when the new file is written and not yet renamed: the old one
    is untouched."""
    WRITERS[name](tmp_path / "first")
    for path in (tmp_path / "first").rglob("*"):
        if path.is_file():
            old = tmp_path / "second" / path.relative_to(tmp_path / "first")
            old.parent.mkdir(parents=True, exist_ok=True)
            old.write_bytes(b"old")
    before = contents(tmp_path / "second")
    assert before

    def crash(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr("os.replace", crash)
    if name == "copy_notebooks":  # it does not write over anything
        shutil.rmtree(tmp_path / "second")
        before = {}
    with pytest.raises(SystemExit):
        WRITERS[name](tmp_path / "second")
    assert contents(tmp_path / "second") == before, "and nothing half written is left"


def test_a_write_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr("os.fsync", lambda file: calls.append("fsync"))
    monkeypatch.setattr(
        "os.replace", lambda part, path: calls.append(Path(part).parent == Path(path).parent)
    )
    write_text(tmp_path / "a.txt", "text")
    assert calls == ["fsync", True, "fsync"], "and then the name itself"


def test_what_fails_is_told_with_the_files_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(
        OSError,
        match=r"a\.txt .*\((File exists|Not a directory)\).* folder",
    ):
        write_text(tmp_path / "file" / "a.txt", "text")

    def full(
        file: object,
    ) -> None:  # torch.save makes a RuntimeError of it when it happens late in the file
        written = file.write

        class Disk:
            def write(self, content: bytes) -> int:
                if file.tell() + len(content) > 50_000:
                    raise OSError(errno.ENOSPC, "disk full")
                return written(content)

            def flush(self) -> None:
                pass

        torch.save({str(i): torch.zeros(5000) for i in range(4)}, Disk())

    with pytest.raises(OSError, match=r"file .*\(disk full\).*disk space"):
        write_atomic(tmp_path / "file", full)
    assert contents(tmp_path) == {"file": b"old"}

    def mistake(file: object) -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        write_atomic(tmp_path / "file", mistake)


# --- a whole job: what it opens, starts and asks for ---

SEEN: list[tuple[str, Any]] = []  # audit events of Python; a hook cannot be taken away again
WATCHED: list[bool] = []
STARTS_OR_ASKS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
STARTS_OR_ASKS += ("socket.connect", "socket.getaddrinfo", "urllib.Request", "pickle.find_class")


def watch(event: str, given: tuple) -> None:
    if WATCHED and (event in STARTS_OR_ASKS or event == "open"):
        SEEN.append((event, given))


@pytest.fixture(scope="module")
def _hook() -> None:
    sys.addaudithook(watch)


@pytest.fixture
def seen(_hook: None) -> Iterator[list[tuple[str, Any]]]:
    SEEN.clear()
    WATCHED.append(True)
    yield SEEN
    WATCHED.clear()


@pytest.mark.filterwarnings("ignore:.*was trained on")
def test_jobs_write_no_file_another_way_and_start_and_ask_for_nothing(
    tmp_path: Path, seen: list[tuple[str, Any]]
) -> None:
    """Each file is written beside its place, by the name of an unfinished one, and renamed."""
    digits = data.load_embedded().select(torch.arange(0, 5000, 250), "20 digits")
    path = tmp_path / "digit.png"
    Image.fromarray(digits.images[7, 0].numpy()).save(path)
    run = {"run_dir": tmp_path / "run", "epochs": 1}
    jobs.train("vit_mnist_p7", digits, **run)
    jobs.train("vit_mnist_p7", digits, resume=True, **run)
    weights = tmp_path / "run" / "weights.pth"
    jobs.evaluate(weights, digits, record=True)
    jobs.visualize_attention(weights, digits, per_class=1, out=tmp_path / "maps")
    jobs.explore(weights, digits, per_class=1, out=tmp_path / "page.html")
    jobs.predict(path, weights, out=tmp_path / "one")
    jobs.copy_notebooks(tmp_path / "course")
    written = []
    for event, given in seen:
        assert event == "open", (event, given)
        file, _, flags = given
        new = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if new and str(file).startswith(str(tmp_path)):
            written.append(Path(file).relative_to(tmp_path))
    written.remove(path.relative_to(tmp_path))  # this test's own
    assert len(written) > 20
    unfinished = re.compile(PARTS.replace("*", ".+"))
    assert [one for one in written if not any(map(unfinished.fullmatch, one.parts))] == []


def test_every_address_is_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import CIFAR10, MNIST

    asked = []
    monkeypatch.delenv("MNIST_VIT_OFFLINE")
    monkeypatch.setattr(MNIST, "mirrors", ["http://one.invalid/", "https://two.invalid/"])
    monkeypatch.setattr(MNIST, "download", lambda self: asked.extend(self.mirrors))
    with pytest.raises(DataError):
        data.load_mnist("test", tmp_path)
    assert asked == ["https://two.invalid/"]
    assert CIFAR10.url.startswith("https://")
    assert all(md5 for _, md5 in [*MNIST.resources, *CIFAR10.train_list, *CIFAR10.test_list])


@pytest.mark.parametrize("hostile", ["all files", "the names of the classes"])
def test_a_pickle_of_cifar10_is_not_opened_before_its_md5_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: str
) -> None:
    from torchvision.datasets import CIFAR10

    folder, bomb = tmp_path / CIFAR10.base_folder, pickle.dumps(Bomb(tmp_path / "ran"))
    folder.mkdir()
    for name in (
        *(name for name, _ in CIFAR10.train_list + CIFAR10.test_list),
        CIFAR10.meta["filename"],
    ):
        (folder / name).write_bytes(bomb)
    if hostile != "all files":
        batch = pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [0]})
        (folder / "data_batch_1").write_bytes(batch)
        monkeypatch.setattr(
            CIFAR10, "train_list", [["data_batch_1", hashlib.md5(batch).hexdigest()]]
        )
        monkeypatch.setattr(CIFAR10, "test_list", [])
    with pytest.raises(DataError, match=CIFAR10.base_folder):
        data.load_cifar10("train", tmp_path)
    assert not (tmp_path / "ran").exists()
    pickle.loads(bomb)
    assert (tmp_path / "ran").exists(), "opened, it would have gone off"
