"""A wheel, unpacked into an empty folder, brings its weights and notebooks along."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers import environment

ROOT = Path(__file__).resolve().parent.parent


def test_a_wheel_in_an_empty_folder_evaluates_the_shipped_weights(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    if built.returncode != 0 and "hatchling" in built.stderr:
        pytest.skip("the wheel's build tool, hatchling, could not be fetched: no package index")
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    empty = tmp_path / "empty folder"
    empty.mkdir()

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "mnist_vit", *words]
        path = environment(PYTHONPATH=str(tmp_path / "site"), MNIST_VIT_DATA="", MNIST_VIT_OUT="")
        done = subprocess.run(command, cwd=empty, env=path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    assert "the 5,000 held-out MNIST digits" in run("evaluate", "vit_mnist_p7")
    assert str(empty / "attention") in run("attention", "vit_mnist_p7", "--per-class", "1")
    run("notebooks", "mine")
    assert len(list((empty / "mine").glob("0*.ipynb"))) >= 7
    assert sorted(path.name for path in empty.iterdir()) == ["attention", "mine"]
