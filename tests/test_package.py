"""The package as others get it: sdist and wheel in an empty folder, version, citation, types."""

import json
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
    done = subprocess.run(
        words, cwd=cwd, env=environment(**extra), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the clone, only what git would hand out."""
    return shutil.copytree(
        ROOT,
        tmp_path_factory.mktemp("tree") / "clone",
        ignore=shutil.ignore_patterns(
            ".git",
            ".venv",
            "runs",
            "data",
            "dist",
            "build",
            "__pycache__",
            "*_cache",
            ".ipynb_checkpoints",
        ),
    )


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the build tool."""
    folder = str(tmp_path_factory.mktemp("tools"))
    try:
        run(
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            folder,
            *PYPROJECT["build-system"]["requires"],
        )
    except AssertionError:
        pytest.skip("the build tool, hatchling, could not be fetched: no package index")
    return folder


@pytest.mark.full
def test_an_sdist_gives_the_same_wheel_which_works_in_an_empty_folder(
    tree: Path, tools: str, tmp_path: Path
) -> None:
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-d",
        str(tmp_path / "dist"),
        cwd=tree,
        PYTHONPATH=tools,
    )
    (sdist,), (wheel,) = (tmp_path / "dist").glob("*.tar.gz"), (tmp_path / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "CITATION.cff",
        "tests/test_package.py",
        "weights/vit_mnist.pth",
    } <= names
    assert not [name for name in names if name.startswith(("runs/", "data/", ".git/", ".venv/"))]

    site, empty = tmp_path / "site", tmp_path / "empty folder"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
    ]
    run(*install, str(sdist), PYTHONPATH=tools)
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("mnist_vit/")}
    installed = {
        str(path.relative_to(site)) for path in (site / "mnist_vit").rglob("*") if path.is_file()
    }
    assert inside == {name for name in installed if "__pycache__" not in name}
    assert "mnist_vit/py.typed" in inside
    shipped = {
        name for name in inside if name.startswith("mnist_vit/shipped/") and name.endswith(".py")
    }
    assert {Path(name).parent.name for name in shipped} == {"solutions"}, (
        "tools of those who write notebooks"
    )

    empty.mkdir()
    env = {"PYTHONPATH": str(site), "MNIST_VIT_DATA": "", "MNIST_VIT_OUT": ""}
    command = [sys.executable, str(site / "bin" / "mnist-vit")]
    assert run(*command, "--version", cwd=empty, **env) == f"mnist-vit {mnist_vit.__version__}\n"
    assert "the 5,000 held-out MNIST digits" in run(
        *command, "evaluate", "vit_mnist_p7", cwd=empty, **env
    )
    run(*command, "notebooks", "mine", cwd=empty, **env)
    assert {path.name for path in notebooks()} < {path.name for path in (empty / "mine").iterdir()}
    assert [path.name for path in empty.iterdir()] == ["mine"]


def test_an_editable_install_leaves_nothing_behind_when_the_clone_is_gone(
    tree: Path, tools: str, tmp_path: Path
) -> None:
    """Else a folder called mnist_vit stays where Python looks, and an import of the course fails
    half way."""
    build = "import hatchling.build as build, sys; print(build.build_editable(sys.argv[1]))"
    wheel = (
        tmp_path
        / run(sys.executable, "-c", build, str(tmp_path), cwd=tree, PYTHONPATH=tools).split()[-1]
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        names = archive.namelist()
    assert [name for name in names if ".dist-info/" not in name] == ["_mnist_vit.pth"]
    assert (tmp_path / "site" / "_mnist_vit.pth").read_text().strip() == str(tree)


@pytest.mark.parametrize("home", ["", "https://github.com/some-one/some-course"])
def test_every_link_of_the_wheels_page_leads_somewhere(home: str, tree: Path, tools: str) -> None:
    """With the address, where there is one; else there is no link to a file, and none to an address
    made up."""
    hook = (
        "import json, hatch_build, pathlib, sys; meta = {}; page = hatch_build.Page('.', {'home':"
        " sys.argv[1]}); "
    )
    code = hook + "page.update(meta); print(json.dumps(meta))"
    meta = json.loads(run(sys.executable, "-c", code, home, cwd=tree, PYTHONPATH=tools))
    links = re.findall(r"\]\(([^)\s]+)\)", meta["readme"]["text"])
    assert all(link.startswith(("https://", "#")) for link in links), links
    files = [link for link in links if home and link.startswith(f"{home}/")]
    assert len(files) > 10 if home else meta["urls"] == {}
    for link in files:
        kind, branch, file = link.removeprefix(f"{home}/").split("/", 2)
        assert (ROOT / file.partition("#")[0]).exists(), link
        assert (kind, branch) == ("raw" if file.endswith(".png") else "blob", "main")
    written = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"({link})" in written for link in links if link not in files)


def test_version_and_citation_agree(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"mnist-vit {mnist_vit.__version__}\n"
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    releases = [title for title in sections if title != "Unreleased"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert releases[0] == str(citation["version"]) == mnist_vit.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert all(
        {"type", "title", "authors", "url"} <= set(reference)
        for reference in citation["references"]
    )


@pytest.mark.full
def test_types_are_clean() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    run(sys.executable, "-m", "mypy", "--no-error-summary")
