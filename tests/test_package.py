"""The habits of a package: version, types, sdist, citation, changes; and what CONTRIBUTING tells is there."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from helpers import environment, from_file

import mnist_vit
from mnist_vit.check.core import verdict

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(*words: str, cwd: Path = ROOT, **extra: str) -> str:
    done = subprocess.run(words, cwd=cwd, env=environment(**extra), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def test_an_sdist_gives_the_same_wheel_and_a_working_command(tmp_path: Path) -> None:
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

    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    run(*install, str(sdist), PYTHONPATH=tools)
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("mnist_vit/")}
    installed = {str(path.relative_to(site)) for path in (site / "mnist_vit").rglob("*") if path.is_file()}
    assert inside == {name for name in installed if "__pycache__" not in name}
    assert {"mnist_vit/py.typed", "mnist_vit/shipped/notebooks/00_start_here.ipynb"} <= inside
    command = [sys.executable, str(site / "bin" / "mnist-vit"), "--version"]
    assert run(*command, cwd=tmp_path, PYTHONPATH=str(site)) == f"mnist-vit {mnist_vit.__version__}\n"


def test_version_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    from mnist_vit.__main__ import main

    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    version = capsys.readouterr().out.strip().removeprefix("mnist-vit ")
    assert version == mnist_vit.__version__
    changes = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert changes[0] == version


def test_citation_is_complete() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert str(citation["version"]) == mnist_vit.__version__
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert all(author.keys() & {"name", "family-names"} for author in citation["authors"])
    for reference in citation["references"]:
        assert {"type", "title", "authors", "url"} <= set(reference), reference["title"]


def test_what_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`(?:python )?((?:tests|notebooks|docs|mnist_vit)/[\w./]+)", text):
        assert (ROOT / path).exists(), path
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / target).exists(), target
    markers = [marker.partition(":")[0] for marker in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    for marker in markers:
        assert f"pytest -m {marker}`" in text, marker
    for extra in re.findall(r'-e "\.\[([\w,]+)\]"', text):
        assert set(extra.split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])


@pytest.mark.slow
def test_types_are_clean() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    run(sys.executable, "-m", "mypy", "--no-error-summary")


def test_the_template_of_an_exercise_works() -> None:
    """Stub, solution and check fit together; the right answer passes, each mutant fails with its own sentence."""
    template = from_file(ROOT / "docs" / "exercise_template.py")
    (exercise,) = template.EXERCISES
    names: dict[str, object] = {"Tensor": object}
    exec(template.STUB, names)
    assert f"check.{exercise.name}({exercise.answer})" == template.CHECK
    passed, sentence = verdict(exercise, names[exercise.answer])
    assert not passed
    assert "not solved yet" in sentence
    assert verdict(exercise, getattr(template, exercise.answer))[0]
    assert len(exercise.mutants) >= 3
    for mutant in exercise.mutants:
        passed, sentence = verdict(exercise, mutant.answer)
        assert not passed
        assert f"You get exactly this when you {mutant.does}." in sentence
    assert not verdict(exercise, lambda image, p: torch.zeros(6, 4))[0]
    assert len(exercise.hints) == 3
    text = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    for part in re.findall(r"^# Part (\d)", Path(template.__file__).read_text(encoding="utf-8"), re.MULTILINE):
        assert f"\n{part}. **" in text or part == "5"
