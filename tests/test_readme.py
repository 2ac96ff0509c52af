"""The README tells the story that the files tell: numbers, commands, tree, links, dependencies."""

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
from helpers import from_file
from PIL import Image

from mnist_vit import attention_weights, recipes
from mnist_vit.__main__ import COMMANDS, _parser, main
from mnist_vit.files import DataError
from mnist_vit.weights import read_json

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DIGITS = [name for name in recipes.MODELS if name != "vit_cifar10"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", DIGITS)
def test_numbers_are_those_of_the_json(name: str) -> None:
    about = read_json(name)
    row = re.search(rf"^\| `{name}` \|(.*)\|$", README, re.MULTILINE).group(1)
    parameters, patches, embedded, test = (cell.strip() for cell in row.split("|"))
    assert parameters == f"{about['parameters']:,}"
    assert patches == str((28 // about["config"]["patch_size"]) ** 2)
    assert embedded == f"{about['metrics']['embedded']['accuracy']:.2%}"
    low, high = about["metrics"]["test"]["interval"]
    assert test == f"{about['metrics']['test']['accuracy']:.2%} ({low:.2%} to {high:.2%})"
    command, minutes = re.search(rf"^- `(.* train {name} .*)`: (.*) minutes", README, re.MULTILINE).groups()
    assert command == about["command"]
    assert minutes == str(round(about["seconds"] / 60))


def test_the_numbers_of_the_colour_model_are_those_of_its_json() -> None:
    about, text = read_json("vit_cifar10"), " ".join(README.split())
    validation, test = (about["metrics"][part] for part in ("validation", "test"))
    low, high = test["interval"]
    assert f"It has {about['parameters']:,} parameters, was trained on 45,000 CIFAR-10 images" in text
    assert f"watched on 5,000 others ({validation['accuracy']:.1%} right)" in text
    assert f"of 1,000 test images, read once, it gets {test['accuracy']:.1%} ({low:.1%} to {high:.1%})" in text
    assert f"- `{about['command']}`: {about['seconds'] / 60:.0f} minutes" in text
    assert validation["accuracy"] == pytest.approx(about["history"][-1]["validation_accuracy"], abs=1e-5)


@pytest.mark.parametrize("name", recipes.MODELS)
def test_the_stored_command_gives_the_stored_recipe(name: str) -> None:
    about = read_json(name)
    options = vars(_parser().parse_args(about["command"].split()[3:]))
    for key, value in about["recipe"].items():
        assert options[key] == value, key
    assert options["model"] == name
    assert options["save"] == f"weights/{name}.pth"
    assert about["history"][-1]["epoch"] == about["recipe"]["epochs"]


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
    assert modules <= listed


def test_links_lead_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
        assert targets or path.name == "scaling.md"
        for target in targets:
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_notebook_stands_in_the_table_with_its_minutes() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        row = re.search(rf"^\| \[.*\]\(notebooks/{path.name}\) \|.*\| (\d+) \|$", README, re.MULTILINE)
        assert row is not None, path.name
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"\*\*Time:\*\* about {row.group(1)} minutes[.,]", text), path.name


def test_ci_runs_the_readmes_test_command() -> None:
    command = README.split("<!-- test command -->")[1].split("```bash\n")[1].split("\n```")[0]
    assert command.startswith("python3 -m venv .venv && ")
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text()
    assert "\n" not in command


def test_python_examples_are_python_and_name_what_exists() -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        ast.parse(example)
    assert attention_weights.__name__ in examples[0]
    assert len(examples[0].strip().splitlines()) <= 6, "import, model, images, weights: no more is needed"
    torch.manual_seed(0)
    shown: dict[str, Any] = {}
    exec(examples[0].replace("vit_b_16", "vit_b_32"), shown)  # the same, in a quarter of the time
    assert shown["weights"].shape == (2, 12, 12, 50, 50)
    for command in re.search(r"On the command line: (.*?)\. Each", README, re.DOTALL).group(1).split("`")[1::2]:
        assert command.removeprefix("mnist-vit ") in COMMANDS


def test_small_models_beside_ours() -> None:
    """What 07 tells of an MLP and a CNN, with the same command, size, accuracy and minutes."""
    text = " ".join(README.split())
    for name in ("mlp", "cnn"):
        about = json.loads((ROOT / "notebooks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for said in (f"{about['parameters']:,}", f"{about['metrics']['validation']['accuracy']:.2%}"):
            assert said in text, said
        assert f"{name} --epochs {about['recipe']['epochs']}`" in text
        assert re.search(rf"after {round(about['seconds'] / 60)}\b", text), about["seconds"]


def test_speed_is_what_was_measured() -> None:
    text, folder = " ".join(README.split()), ROOT / "benchmarks" / "results"
    sections = json.loads((folder / "speed.json").read_text(encoding="utf-8"))
    ratio = {row["name"]: row["ratio"] for part in sections.values() for row in part["figures"]}
    step, evaluation = ratio["readable, training step, batch 256"], ratio["readable, evaluation, batch 256"]
    assert f"{step:.2f}" == f"{evaluation:.2f}"
    assert f"runs at the same speed ({step:.2f} times)" in text
    step, evaluation = ratio["fast, training step, batch 256"], ratio["fast, evaluation, batch 256"]
    assert f"a training step {step:.2f} times and an evaluation {evaluation:.2f} times as fast" in text
    assert f"come {int(ratio['images with 0 workers'])} times as fast" in text
    processes = json.loads((folder / "processes.json").read_text(encoding="utf-8"))
    assert f"Two processes train {processes['ratio']:.2f} times as fast as one" in text


def test_seeds_and_time_to_accuracy_are_what_was_measured() -> None:
    text = " ".join(README.split())
    _, *others = [f"{seed['test']:.2%}" for seed in read_json("vit_mnist")["seeds"].values()]
    assert f"With two other seeds the first command reaches {others[0]} and {others[1]} of the test images" in text
    results = json.loads((ROOT / "benchmarks" / "results" / "time_to_accuracy.json").read_text(encoding="utf-8"))
    ours, plain = results["ours"], results["plain"]
    epochs, whole = ours["recipe"]["epochs"], read_json("vit_mnist")["recipe"]["epochs"]
    assert f"with {epochs} epochs in the place of {whole} the recipe reads {ours['accuracy']:.2%} of the 5,000 after " \
           f"{ours['cpu_seconds']:.0f} seconds of one core" in text  # fmt: skip
    assert plain["passed"]
    assert f"passed {results['goal']:.2%} after {plain['cpu_seconds']:,.0f} (" in text


def test_the_picture_is_drawn_by_its_script(tmp_path: Path) -> None:
    said = from_file(ROOT / "docs" / "picture.py").draw(tmp_path / "picture.png")
    number = re.search(r"a (\d), read as (\d) with probability ([\d.]+)", said)
    alt = re.search(r"!\[(.*)\]\(docs/picture.png\)", README).group(1)
    assert f"the answer, {number[2]}, with probability {number[3]}" in alt
    assert number[1] == number[2]
    stored, fresh = (base64.b64encode((folder / "picture.png").read_bytes()).decode()
                     for folder in (ROOT / "docs", tmp_path))  # fmt: skip
    assert from_file(ROOT / "notebooks" / "conftest.py").same_picture(stored, fresh), "python docs/picture.py"


def test_the_first_screen_has_what_a_visitor_looks_for() -> None:
    first = README[: README.index("## Numbers to expect")]
    places = [first.index(part) for part in ("docs/picture.png", "```bash", "jupyter lab", "| notebook |", "glossary")]
    assert places == sorted(places)
    assert first[: places[2]].count("\n") < 35


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
    about = json.loads((tmp_path / "photos.json").read_text())
    assert about["data"]["classes"] == ["leaf", "sea", "sun"]
    assert recipes.evaluate("photos.pth", "photos").accuracy > 0.9
    assert (tmp_path / "photos-maps" / "index.html").read_text().count("<section ") == 6
    with pytest.raises(DataError, match="3 classes, the model needs 10"):
        recipes.train(recipes.MODELS["vit_cifar10"](), "photos")


def test_environment_yml_holds_no_second_dependency_list() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    assert conda == [f"python{PYPROJECT['project']['requires-python']},<3.14", "pip"]
    assert pip == {"pip": ["-c constraints.txt", "-e .[course,test]"]}
    assert {"course", "test"} <= set(PYPROJECT["project"]["optional-dependencies"])


def test_constraints_are_names_and_versions_only() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    names = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    extras = PYPROJECT["project"]["optional-dependencies"]
    for wanted in [*PYPROJECT["project"]["dependencies"], *extras["course"], *extras["test"]]:
        assert re.match(r"[a-z0-9-]+", wanted).group() in names, wanted


def test_no_module_is_longer_than_a_sitting() -> None:
    for path in (ROOT / "mnist_vit").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path.name


def test_leaves_import_no_sibling_but_files_and_modes() -> None:
    leaves = "model data folders fast training evaluation attention gallery files modes"
    for leaf in leaves.split():
        tree = ast.parse((ROOT / "mnist_vit" / f"{leaf}.py").read_text(encoding="utf-8"))
        siblings = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
        assert siblings <= {"files", "modes"} | ({"folders"} if leaf == "data" else set()), leaf
