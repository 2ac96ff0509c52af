"""The package as others get it: sdist and wheel in an empty folder, version, citation, types."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, environment, notebooks

import mnist_vit
from mnist_vit.__main__ import main

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(*words: str, cwd: Path = ROOT, **extra: str) -> str:
    done = subprocess.run(words, cwd=cwd, env=environment(**extra), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def test_an_sdist_gives_the_same_wheel_which_works_in_an_empty_folder(tmp_path: Path) -> None:
    tree = tmp_path / "tree"  # only what git would hand out
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(
        ".git", ".venv", "runs", "data", "dist", "build", "__pycache__", "*_cache", ".ipynb_checkpoints"))  # fmt: skip
    tools = str(tmp_path / "tools")
    try:
        run(sys.executable, "-m", "pip", "install", "-q", "--target", tools, *PYPROJECT["build-system"]["requires"])
    except AssertionError:
        pytest.skip("the build tool, hatchling, could not be fetched: no package index")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "dist"), cwd=tree, PYTHONPATH=tools)
    (sdist,), (wheel,) = (tmp_path / "dist").glob("*.tar.gz"), (tmp_path / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "tests/test_package.py", "weights/vit_mnist.pth"} <= names
    assert not [name for name in names if name.startswith(("runs/", "data/", ".git/", ".venv/"))]

    site, empty = tmp_path / "site", tmp_path / "empty folder"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    run(*install, str(sdist), PYTHONPATH=tools)
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("mnist_vit/")}
    installed = {str(path.relative_to(site)) for path in (site / "mnist_vit").rglob("*") if path.is_file()}
    assert inside == {name for name in installed if "__pycache__" not in name}
    assert "mnist_vit/py.typed" in inside

    empty.mkdir()
    env = {"PYTHONPATH": str(site), "MNIST_VIT_DATA": "", "MNIST_VIT_OUT": ""}
    command = [sys.executable, str(site / "bin" / "mnist-vit")]
    assert run(*command, "--version", cwd=empty, **env) == f"mnist-vit {mnist_vit.__version__}\n"
    assert "the 5,000 held-out MNIST digits" in run(*command, "evaluate", "vit_mnist_p7", cwd=empty, **env)
    run(*command, "notebooks", "mine", cwd=empty, **env)
    assert {path.name for path in notebooks()} < {path.name for path in (empty / "mine").iterdir()}
    assert [path.name for path in empty.iterdir()] == ["mine"]


def test_version_and_citation_agree(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"mnist-vit {mnist_vit.__version__}\n"
    changes = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert changes[0] == str(citation["version"]) == mnist_vit.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert all({"type", "title", "authors", "url"} <= set(reference) for reference in citation["references"])


@pytest.mark.slow
def test_types_are_clean() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    run(sys.executable, "-m", "mypy", "--no-error-summary")
