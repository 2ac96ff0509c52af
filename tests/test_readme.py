"""The README says what the files say: numbers, commands, tree, links, dependencies."""

import ast
import base64
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from helpers import ROOT, from_file, notebooks
from PIL import Image

from mnist_vit import recipes
from mnist_vit.__main__ import COMMANDS, _parser, main
from mnist_vit.errors import DataError
from mnist_vit.weights import read_json

README = (ROOT / "README.md").read_text(encoding="utf-8")
DIGITS = [name for name in recipes.MODELS if name != "vit_cifar10"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def stored(path: str) -> dict[str, Any]:
    """A file of results."""
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", DIGITS)
def test_the_table_of_weights_is_that_of_the_json(name: str) -> None:
    about = read_json(name)
    row = re.search(rf"^\| `{name}` \|(.*)\|$", README, re.MULTILINE).group(1)
    low, high = about["metrics"]["test"]["interval"]
    assert [cell.strip() for cell in row.split("|")] == [
        f"{about['parameters']:,}",
        str((28 // about["config"]["patch_size"]) ** 2),
        f"{about['metrics']['embedded']['accuracy']:.2%}",
        f"{about['metrics']['test']['accuracy']:.2%} ({low:.2%} to {high:.2%})",
    ]


@pytest.mark.parametrize("name", recipes.MODELS)
def test_the_command_gives_the_stored_recipe_in_the_stored_time(name: str) -> None:
    about = read_json(name)
    assert f"- `{about['command']}`: {about['seconds'] / 60:.0f} minutes" in README
    options = vars(_parser().parse_args(about["command"].split()[3:]))
    assert {key: options[key] for key in about["recipe"]} == about["recipe"]
    assert (options["model"], options["save"]) == (name, f"weights/{name}.pth")
    assert about["history"][-1]["epoch"] == about["recipe"]["epochs"]


def test_every_percentage_and_ratio_was_measured_and_is_stored() -> None:
    """Both ways: what is stored for the README stands there, and no other percentage or ratio does."""
    percentages: set[str] = set()
    for name in DIGITS:
        metrics = read_json(name)["metrics"]
        shares = (metrics["embedded"]["accuracy"], metrics["test"]["accuracy"], *metrics["test"]["interval"])
        percentages |= {f"{share:.2%}" for share in shares}
    colour = read_json("vit_cifar10")["metrics"]
    shares = (colour["validation"]["accuracy"], colour["test"]["accuracy"], *colour["test"]["interval"])
    percentages |= {f"{share:.1%}" for share in shares}
    percentages |= {f"{seed['test']:.2%}" for seed in read_json("vit_mnist")["seeds"].values()}
    race = stored("benchmarks/results/time_to_accuracy.json")
    assert race["plain"]["passed"]
    percentages |= {f"{race['ours']['accuracy']:.2%}", f"{race['goal']:.2%}"}
    rivals = [stored(f"notebooks/results/{name}.json") for name in ("mlp", "cnn")]
    percentages |= {f"{rival['metrics']['validation']['accuracy']:.2%}" for rival in rivals}
    assert set(re.findall(r"\d+\.\d+%", README)) == percentages

    ratio = {
        row["name"]: row["ratio"]
        for section in stored("benchmarks/results/speed.json").values()
        for row in section["figures"]
    }
    names = ("readable, training step", "readable, evaluation", "fast, training step", "fast, evaluation")
    ratios = {f"{ratio[f'{name}, batch 256']:.2f}" for name in names}
    ratios |= {f"{stored('benchmarks/results/processes.json')['ratio']:.2f}", f"{int(ratio['images with 0 workers'])}"}
    assert set(re.findall(r"(\d+(?:\.\d+)?) times", README)) == ratios

    numbers = [*(rival["parameters"] for rival in rivals), read_json("vit_cifar10")["parameters"]]
    numbers += [round(race[side]["cpu_seconds"]) for side in ("ours", "plain")]
    missing = [number for number in numbers if f"{number:,}" not in README]
    assert not missing
    for rival, name in zip(rivals, ("mlp", "cnn"), strict=True):
        assert f"{name} --epochs {rival['recipe']['epochs']}`" in README
        assert re.search(rf"\b{round(rival['seconds'] / 60)}\b", README)


def test_the_picture_is_drawn_by_its_script(tmp_path: Path) -> None:
    said = from_file(ROOT / "docs" / "picture.py").draw(tmp_path / "picture.png")
    digit, answer, probability = re.search(r"a (\d), read as (\d) with probability ([\d.]+)", said).groups()
    alt = re.search(r"!\[(.*)\]\(docs/picture.png\)", README).group(1)
    assert digit == answer
    assert answer in re.findall(r"\d", alt)
    assert probability in alt
    paths = (ROOT / "docs" / "picture.png", tmp_path / "picture.png")
    old, new = (base64.b64encode(path.read_bytes()).decode() for path in paths)
    assert from_file(ROOT / "notebooks" / "conftest.py").same_picture(old, new), "python docs/picture.py"


# -------------------------------------------------------------------------------------------- tree, links, commands


def test_the_tree_is_the_tree() -> None:
    block = README.split("## Where things are")[1].split("```")[1]
    listed, folder = set(), ""
    for line in block.strip().splitlines():
        name = line.split()[0]
        folder = name if not line.startswith(" ") else folder
        listed.add(name if not line.startswith(" ") else folder + name)
    for name in listed:
        assert (ROOT / name).exists(), name
    ignored = {".git", ".venv", ".gitignore", "__pycache__", "runs", "data", "dist"}
    here = {path.name + ("/" if path.is_dir() else "") for path in ROOT.iterdir()
            if path.name not in ignored and not path.name.endswith("_cache") and path.name != ".ci"}  # fmt: skip
    assert here <= listed, "what lies at the top must stand in the README"
    modules = {f"mnist_vit/{path.name}" for path in (ROOT / "mnist_vit").glob("*.py")} - {"mnist_vit/__init__.py"}
    modules |= {f"mnist_vit/{path.parent.name}/" for path in (ROOT / "mnist_vit").glob("*/__init__.py")}
    assert modules <= listed


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/teaching.md", "docs/scaling.md"])
def test_links_and_files_named_are_there(name: str) -> None:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    for file in re.findall(r"`(?:python )?((?:tests|notebooks|docs|mnist_vit|benchmarks)/[\w./]+\w)\b", text):
        assert (ROOT / file).exists() or re.search(r"NN|NAME|topic", file), file
    for command in re.findall(r"`(?:mnist-vit|python -m mnist_vit) ([a-z]+)", text):
        assert command in COMMANDS, command
    for extra in re.findall(r'-e "\.\[([\w,]+)\]"', text):
        assert set(extra.split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])


def test_every_round_of_tests_is_told_how_to_run() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for marker in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]:
        assert f"pytest -m {marker.partition(':')[0]}`" in text, marker


def test_every_notebook_stands_in_the_table_with_its_minutes() -> None:
    for path in notebooks():
        row = re.search(rf"^\| \[.*\]\(notebooks/{path.name}\) \|.*\| (\d+) \|$", README, re.MULTILINE)
        assert row is not None, path.name
        assert re.search(r"about (\d+) minutes", path.read_text(encoding="utf-8")).group(1) == row.group(1), path.name


def test_ci_runs_the_readmes_test_command() -> None:
    command = README.split("<!-- test command -->")[1].split("```bash\n")[1].split("\n```")[0]
    assert command.startswith("python3 -m venv .venv && ")
    assert "\n" not in command
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text()


def test_python_examples_run() -> None:
    first, *others = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    torch.manual_seed(0)
    shown: dict[str, Any] = {}
    exec(first.replace("vit_b_16", "vit_b_32"), shown)  # the same, in a quarter of the time
    assert shown["weights"].shape == (2, 12, 12, 50, 50)
    for example in others:
        ast.parse(example)


def test_your_own_folder_of_images_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's commands, on three classes of coloured pictures of different sizes."""
    generator = torch.Generator().manual_seed(0)
    for channel, name in enumerate(("leaf", "sea", "sun")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(60):
            pixels = torch.randint(0, 120, (40 + i % 3, 50, 3), generator=generator, dtype=torch.uint8)
            pixels[8:30, 10:40, channel] = 255
            Image.fromarray(pixels.numpy()).save(tmp_path / "photos" / name / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    block = README.split("<!-- own folder -->")[1].split("```bash\n")[1].split("\n```")[0]
    commands = [line.removeprefix("mnist-vit ").split() for line in block.splitlines()]
    assert [command[0] for command in commands] == ["train", "evaluate", "attention"]
    for command in commands:
        assert main(command) == 0
    assert recipes.evaluate("photos.pth", "photos").accuracy > 0.9
    assert (tmp_path / "photos-maps" / "index.html").read_text().count("<section ") == 6
    with pytest.raises(DataError, match="3 classes"):
        recipes.train(recipes.MODELS["vit_cifar10"](), "photos")


# --------------------------------------------------------------------------------------- dependencies and the house


def test_dependencies_are_listed_once() -> None:
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert conda == [f"python{PYPROJECT['project']['requires-python']},<3.14", "pip"]
    assert pip == {"pip": ["-c constraints.txt", "-e .[course,test]"]}
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    names = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    extras = PYPROJECT["project"]["optional-dependencies"]
    for wanted in [*PYPROJECT["project"]["dependencies"], *extras["course"], *extras["test"]]:
        assert re.match(r"[a-z0-9-]+", wanted).group() in names, wanted


def test_no_module_is_longer_than_a_sitting() -> None:
    for path in (ROOT / "mnist_vit").rglob("*.py"):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        where = "move its private helpers, or one of its two topics, to a file of their own"
        assert lines <= 400, f"{path.relative_to(ROOT)} has {lines} lines, and 400 is the most: {where}"


def test_the_library_is_a_star() -> None:
    """Leaves import the ground floor alone; who knows several is named here; nobody but the door knows the course."""
    ground = {"errors", "files", "modes", "tokens"}
    know_more = {"data": {"augmentation", "datasets", "pictures"}, "facts": {"data", "datasets", "pictures", "weights"},
                 "gallery": {"attention"}, "training": {"data", "optimizers"}, "weights": {"model", "own"}}  # fmt: skip
    for path in (ROOT / "mnist_vit").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        siblings = {
            node.module or node.names[0].name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
        }
        course = {name for name in siblings if name.startswith("course")}
        assert not course or path.stem == "check", f"{path.name} belongs to the library and imports {course}"
        if path.stem not in ("__init__", "__main__", "recipes", "check"):
            assert siblings <= ground | know_more.get(path.stem, set()), path.name
