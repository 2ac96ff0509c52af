"""What is written is whole or not there; only a download of data reaches the network; nothing from
a file is run."""

import ast
import errno
import hashlib
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import ROOT
from survivor import toy_maps, toy_model

from mnist_vit import data, jobs
from mnist_vit.errors import DataError
from mnist_vit.files import write_atomic, write_json, write_text
from mnist_vit.weights import save_weights

PACKAGE = {
    path.relative_to(ROOT): ast.parse(path.read_text("utf-8"))
    for path in (ROOT / "mnist_vit").glob("*.py")
}


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
        match=r"a\.txt could not be written \((File exists|Not a directory)\).*name another folder",
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

    with pytest.raises(OSError, match=r"file could not be written \(disk full\): free disk space"):
        write_atomic(tmp_path / "file", full)
    assert contents(tmp_path) == {"file": b"old"}

    def mistake(file: object) -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        write_atomic(tmp_path / "file", mistake)


def calls(*names: str) -> Iterator[tuple[str, str]]:
    """Where the package calls a function or method of these names: file, and the call's text."""
    for path, tree in PACKAGE.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
                yield path.name, ast.unparse(node)


def test_nothing_is_written_another_way() -> None:
    """What writes: two torch.save and a PNG, by way of write_atomic, and a figure in memory.

    The call in training.py is that of ``RunFolder.save`` in runs.py.
    """
    ways = ["save", "savefig", "savez", "savetxt", "tofile", "dump", "to_csv"]
    ways += ["write_bytes", "copy", "copyfile", "move"]
    found = {
        call for call in calls(*ways) if "write_atomic" not in call[1] and ".copy()" not in call[1]
    }
    assert sorted(file for file, _ in found) == [
        "evaluation.py",
        "gallery.py",
        "runs.py",
        "training.py",
        "weights.py",
    ], found
    opened = {call for call in calls("open") if any(f"'{mode}" in call[1] for mode in "wax")}
    assert opened == {("files.py", "open(part, 'xb')")}


# --- nothing runs, nothing calls home ---


def test_torch_load_reads_plain_tensors_only() -> None:
    loads = [call for file, call in calls("load") if "torch" in call]
    assert len(loads) == 2
    assert all("weights_only=True" in call for call in loads)


def test_no_code_is_made_from_data() -> None:
    assert not list(calls("exec", "__import__", "system", "popen", "urlopen", "urlretrieve"))
    assert not [
        call for _, call in calls("eval", "compile") if call.startswith(("eval(", "compile("))
    ]
    assert [file for file, _ in calls("run_path")] == ["building.py"], (
        "a my_vit.py that the user names, and nothing else"
    )


def test_only_known_packages_are_imported() -> None:
    """No pickle, no network, no other process; what torchvision downloads is checked by md5, over
    https."""
    known = {"torch", "torchvision", "numpy", "matplotlib", "PIL", "tqdm"}
    harmless = {
        "argparse",
        "ast",
        "base64",
        "collections",
        "contextlib",
        "contextvars",
        "copy",
        "dataclasses",
        "difflib",
        "errno",
        "fcntl",
        "functools",
        "hashlib",
        "html",
        "importlib",
        "inspect",
        "io",
        "itertools",
        "json",
        "linecache",
        "math",
        "numbers",
        "os",
        "pathlib",
        "re",
        "shlex",
        "shutil",
        "stat",
        "statistics",
        "struct",
        "sys",
        "threading",
        "time",
        "types",
        "traceback",
        "typing",
        "warnings",
        "zipfile",
    }
    for path, tree in PACKAGE.items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            allowed = known | harmless | ({"runpy"} if path.name == "building.py" else set())
            assert {name.partition(".")[0] for name in names} <= allowed, path


def test_every_address_is_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import CIFAR10, MNIST

    asked = []
    monkeypatch.delenv("MNIST_VIT_OFFLINE")
    monkeypatch.setattr(MNIST, "mirrors", ["http://one.invalid/", "https://two.invalid/"])
    monkeypatch.setattr(MNIST, "download", lambda self: asked.extend(self.mirrors))
    with pytest.raises(DataError):
        data.load_mnist("test", tmp_path)
    assert asked == ["https://two.invalid/"]
    assert not [path for path in PACKAGE if "http://" in (ROOT / path).read_text("utf-8")]
    assert CIFAR10.url.startswith("https://")
    assert all(md5 for _, md5 in [*MNIST.resources, *CIFAR10.train_list, *CIFAR10.test_list])


class Bomb:
    """A pickle that would run code where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


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
    with pytest.raises(
        DataError, match=f"{CIFAR10.base_folder} is incomplete or damaged. Delete it, load again"
    ):
        data.load_cifar10("train", tmp_path)
    assert not (tmp_path / "ran").exists()
    pickle.loads(bomb)
    assert (tmp_path / "ran").exists(), "opened, it would have gone off"
