"""README and docs say what the files say: numbers, commands, tree, links, dependencies."""

import ast
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from helpers import ROOT, assert_says, environment, notebooks
from javascript import data_of
from PIL import Image

import mnist_vit
from mnist_vit import jobs
from mnist_vit.__main__ import COMMANDS, _parser, main
from mnist_vit.building import build_model
from mnist_vit.commands import Train
from mnist_vit.errors import DataError
from mnist_vit.recipe import Task, suited_to
from mnist_vit.starting import _only_settings
from mnist_vit.weights import read_json
from tools import figures

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
USING = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


# ---- numbers ----


def test_the_figures_are_those_of_the_json_files() -> None:
    assert figures.block() in FIGURES, "python -m tools figures"
    assert figures.key_block() in README, "python -m tools figures"
    assert len(figures.key_block().splitlines()) == 2 + len(figures.KEY)
    outside = figures.put(README, "key figures", "") + figures.put(FIGURES, "figures", "")
    assert not re.findall(
        r"\d+\.\d+ ?%|\d[\d,.]* times|\b\d+ (?:minutes|seconds|s|MB|GB)\b", outside
    ), "no second place"
    counts = re.findall(r"(\d+) (?:\w+ )?notebooks", README)
    assert set(counts) == {str(len(notebooks()))}


@pytest.mark.parametrize("name", jobs.MODELS)
def test_the_table_has_each_model_with_its_accuracy_and_the_command_that_made_it(
    name: str,
) -> None:
    about = read_json(name)
    rows = [
        row
        for row in FIGURES.splitlines()
        if row.startswith(f"| `{name}`: {about['parameters']:,} parameters, ")
    ]
    assert len(rows) == 1
    test = about["metrics"]["test"]
    shares = [test["accuracy"], *test["interval"]]
    assert all(f"{share:.2%}" in rows[0] or f"{share:.1%}" in rows[0] for share in shares)
    assert re.search(rf"\b{test['total']:,} (of the 10,000 )?test images", rows[0])
    training = f"| {about['cpu_seconds'] / 60:.0f} CPU minutes | `{about['command']}` |"
    assert training in FIGURES
    options = vars(_parser().parse_args(about["command"].split()[3:]))
    del options["command"]
    assert settings_of(options, about) == _only_settings(about["recipe"])
    assert (options["model"], options["save"]) == (name, f"weights/{name}.pth")
    assert about["history"][-1]["epoch"] == about["recipe"]["epochs"]


def settings_of(options: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The recipe of a command: what is given, and what suits its model and data."""
    config = about["config"]
    task = Task(
        pictures={"mnist": 55_000, "cifar10": 45_000}[options["data"]],
        size=config["image_size"],
        channels=config["in_channels"],
        patches=(config["image_size"] // config["patch_size"]) ** 2,
        encoder=True,
        positions=True,
    )
    return suited_to(task).stored() | Train(**options).settings()


def test_another_result_gives_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the table is made from the files; ``--check`` tells, and writes nothing."""
    copy = tmp_path / "figures.md"
    copy.write_text(FIGURES, encoding="utf-8")
    monkeypatch.setattr(figures, "FIGURES", copy)
    monkeypatch.setattr(figures, "README", tmp_path / "README.md")
    figures.README.write_text(README, encoding="utf-8")
    monkeypatch.setattr(figures, "ARCHITECTURE", tmp_path / "architecture.md")
    figures.ARCHITECTURE.write_text("<!-- sizes -->\n<!-- /sizes -->\n", encoding="utf-8")
    figures.main([])
    figures.main(["--check"])
    assert copy.read_text(encoding="utf-8") == FIGURES
    assert figures.README.read_text(encoding="utf-8") == README
    assert "| library | " in figures.ARCHITECTURE.read_text(encoding="utf-8")
    monkeypatch.setattr(figures, "read_json", lambda name: read_json(name) | {"parameters": 1234})
    with pytest.raises(SystemExit, match=r"README\.md is out of date"):
        figures.main(["--check"])
    assert copy.read_text(encoding="utf-8") == FIGURES
    figures.main([])
    fresh = copy.read_text(encoding="utf-8")
    assert fresh.count("1,234 parameters") == len(jobs.MODELS)
    assert "1,234 parameters" in figures.README.read_text(encoding="utf-8")


@pytest.mark.parametrize(("trained_on", "held_out"), [("mnist", True), ("embedded", False)])
def test_images_are_called_held_out_only_where_they_are(trained_on: str, held_out: bool) -> None:
    metrics = {"embedded": {"on": "the 5,000 held-out MNIST digits", "accuracy": 0.9}}
    told = figures.accuracies({"trained_on": [f"{trained_on}/train"], "metrics": metrics})
    assert_says(told, "90.00% 5,000 MNIST")
    assert ("held-out" in told) == held_out


def test_the_first_picture_is_the_page() -> None:
    path = re.search(r"!\[.+?\]\(([^)]+)\)", README)[1]
    with Image.open(ROOT / path) as picture:
        assert picture.width >= 1200
    assert (ROOT / path).stat().st_size < 300_000


# ---- tree, links, commands ----


def test_the_tree_is_the_tree() -> None:
    block = CONTRIBUTING.split("## Where things are")[1].split("```")[1]
    listed, folder = set(), ""
    for line in block.strip().splitlines():
        name = line.split()[0]
        folder = name if not line.startswith(" ") else folder
        listed.add(name if not line.startswith(" ") else folder + name)
    for name in listed:
        assert (ROOT / name).exists(), name
    ignored = {".git", ".venv", ".gitignore", "__pycache__", "runs", "data", "dist"}
    here = {
        path.name + ("/" if path.is_dir() else "")
        for path in ROOT.iterdir()
        if path.name not in ignored and not path.name.endswith("_cache") and path.name != ".ci"
    }
    assert here <= listed, "what lies at the top must stand in CONTRIBUTING.md"


def test_the_rooms_are_the_folders() -> None:
    """The tree of docs/architecture.md names every module of the package and every shared room."""
    package = ROOT / "mnist_vit"
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = set()
    for line in text.split("```\nmnist_vit/\n")[1].split("```")[0].splitlines():
        name = line.split()[0]
        listed.add(f"course/{name}" if line.startswith("    ") else name)
    here = modules_and_rooms(package)
    here |= {f"course/{name}" for name in modules_and_rooms(package / "course")}
    rooms = {name for name in here if re.fullmatch(r"course/nb\d\d_\w+/", name)}
    assert listed == here - rooms - {"course/__init__.py"} | {"course/nbNN_topic/"}


def modules_and_rooms(folder: Path) -> set[str]:
    modules = {path.name for path in folder.glob("*.py")}
    return modules | {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}


def test_the_sizes_told_are_about_those_of_today() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name, lines, _ in figures.parts():
        told = int(re.search(rf"^\| {name} \| ([\d,]+) ", text, re.MULTILINE)[1].replace(",", ""))
        assert abs(told - lines) <= 0.1 * lines, f"{name}: python -m tools figures"


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    ],
)
def test_links_and_files_named_are_there(name: str) -> None:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    rooms = "tests|notebooks|docs|mnist_vit|benchmarks|experiments|tools"
    for file in re.findall(rf"`(?:python )?((?:{rooms})/[\w./]+\w)\b", text):
        assert (ROOT / file).exists() or re.search(r"NN|NAME|topic", file), file
    for command in re.findall(r"`(?:mnist-vit|python -m mnist_vit) ([a-z]+)", text):
        assert command in COMMANDS, command
    for extra in re.findall(r'-e "\.\[([\w,]+)\]"', text):
        assert set(extra.split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])


def test_every_round_of_tests_is_told_how_to_run() -> None:
    for marker in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]:
        assert f"pytest -m {marker.partition(':')[0]}`" in CONTRIBUTING, marker


def test_every_notebook_stands_in_the_table_with_its_minutes() -> None:
    for path in notebooks():
        row = re.search(
            rf"^\| \[.*\]\(notebooks/{path.name}\) \|.*\| (\d+) \|$", README, re.MULTILINE
        )
        assert row is not None, path.name
        assert re.search(r"about (\d+) minutes", path.read_text(encoding="utf-8")).group(
            1
        ) == row.group(1), path.name


def command(before: str, text: str = README) -> str:
    """The one line of the first bash block after these words of a text."""
    (line,) = text.split(before)[1].split("```bash\n")[1].split("\n```")[0].splitlines()
    return line


START, COPY = command("# mnist_vit"), command("-m mnist_vit demo\n```")
TEST = command("<!-- test command -->")
CPU = command("<!-- cpu command -->", INSTALL)
SITE = command("<!-- site command -->", CONTRIBUTING)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_ci_runs_the_readmes_test_command_then_the_exhaustive_rounds(tmp_path: Path) -> None:
    """In a folder where python3, pip and python only note how they were called."""
    for name in (".ci/run", "README.md", "CONTRIBUTING.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("python3", ".venv/bin/pip", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n')
        (tmp_path / name).chmod(0o755)
    env = environment(PATH=f"{tmp_path}:{os.environ['PATH']}")
    subprocess.run(["bash", tmp_path / ".ci" / "run"], env=env, check=True, capture_output=True)
    called = (tmp_path / "calls").read_text().splitlines()
    needed = SITE.partition(" && ")[0]  # -m full builds the site
    expected = [*TEST.split(" && "), needed, ".venv/bin/python -m pytest -m full"]
    assert called == [line.replace('"', "") for line in expected]


def test_github_actions_run_the_readmes_commands() -> None:
    """Word for word; on Windows as the README says to write them."""
    texts = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
    }
    flows = {name: yaml.safe_load(text) for name, text in texts.items()}
    run = {}
    for flow, content in flows.items():
        for job, about in content["jobs"].items():
            run[flow, job] = [step.get("run", "") for step in about["steps"]]
    copy = COPY.partition(" && ")[0]
    assert [words for words in run["tests", "commands"] if words in (START, TEST)] == [START, TEST]
    windows = [
        words.replace("python3 ", "python ").replace(".venv/bin/", ".venv\\Scripts\\")
        for words in (START, TEST)
    ]
    assert windows == [words for words in run["tests", "windows"] if words in windows]
    assert any(words.startswith(copy) for words in run["tests", "commands"])
    assert any(
        words.startswith(copy.replace(".venv/bin/", ".venv\\Scripts\\"))
        for words in run["tests", "windows"]
    )
    assert CPU in run["tests", "cpu"]
    assert SITE in run["site", "build"]
    matrix = flows["tests"]["jobs"]["commands"]["strategy"]["matrix"]
    lowest = re.search(r"[\d.]+", PYPROJECT["project"]["requires-python"]).group()
    assert lowest in matrix["python"]
    assert {row["versions"] for row in matrix["include"]} == {"oldest", "newest"}
    assert {"ubuntu-latest", "macos-latest"} == set(matrix["os"])
    for text in texts.values():
        assert not re.search(r"secrets\.|pull_request_target", text)


def test_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("MNIST_VIT_OUT", str(tmp_path))
    (first,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    others = re.findall(r"```python\n(.*?)```", USING, re.DOTALL)
    torch.manual_seed(0)
    shown: dict[str, Any] = {}
    exec(first.replace("vit_b_16", "vit_b_32"), shown)  # the same, in a quarter of the time
    assert shown["weights"].shape == (2, 12, 12, 50, 50)
    assert "confusion matrix" in capsys.readouterr().out
    assert (tmp_path / "runs" / "attention" / "index.html").is_file()
    for example in others:
        for call in (node for node in ast.walk(ast.parse(example)) if isinstance(node, ast.Call)):
            assert ast.unparse(call.func).removeprefix("mnist_vit.") in mnist_vit.__all__
    for picture in re.findall(r"attention/[\w/]+\.png", USING):
        assert (ROOT / picture).is_file()


def test_commands_and_a_picture_come_first_then_the_reason_and_code() -> None:
    first, second, *_ = README.split("\n## ")
    assert {"```bash", "!["} <= set(re.findall(r"^(```\w+|!\[)", first, re.MULTILINE))
    assert "```python" in second


def test_your_own_folder_of_images_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of docs/using.md, on three classes of coloured pictures of different sizes."""
    generator = torch.Generator().manual_seed(0)
    for channel, name in enumerate(("leaf", "sea", "sun")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(60):
            pixels = torch.randint(
                0, 120, (40 + i % 3, 50, 3), generator=generator, dtype=torch.uint8
            )
            pixels[8:30, 10:40, channel] = 255
            Image.fromarray(pixels.numpy()).save(tmp_path / "photos" / name / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    block = USING.split("<!-- own folder -->")[1].split("```bash\n")[1].split("\n```")[0]
    commands = [line.removeprefix("mnist-vit ").split() for line in block.splitlines()]
    assert [command[0] for command in commands] == ["train", "evaluate", "attention"]
    commands[0] += ["--epochs", "20"]  # of about 600
    for command in commands:
        assert main(command) == 0
    assert jobs.evaluate("photos.pth", "photos").accuracy > 0.9
    assert len(data_of(tmp_path / "photos-maps" / "index.html")["examples"]) == 6
    with pytest.raises(DataError, match="3 classes"):
        jobs.train(build_model(jobs.MODELS["vit_cifar10"]), "photos")


# ---- dependencies and the house ----


def test_what_to_expect_of_photographs_is_what_was_measured() -> None:
    text = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")
    stored = json.loads((ROOT / "benchmarks" / "results" / "photographs.json").read_text())
    for name, said in (("scratch", "from start values"), ("weights", "with `--weights")):
        shares = [1 - run["errors"] / run["of"] for run in stored["runs"] if run["name"] == name]
        assert f"{min(shares):.0%}\nto {max(shares):.0%} {said}" in text or (
            f"{min(shares):.0%} to {max(shares):.0%} {said}" in text
        )
        assert all(run["cpu_seconds"] <= 20 for run in stored["runs"])


def test_environment_yml_names_the_packages_of_pyproject() -> None:
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert conda == [f"python{PYPROJECT['project']['requires-python']},<3.14", "pip"]
    constraints, *named, course = pip["pip"]
    assert (constraints, course) == ("-c constraints.txt", "-e .")
    assert named == [
        *PYPROJECT["project"]["dependencies"],
        *PYPROJECT["project"]["optional-dependencies"]["course"],
    ]
    assert {"torch", "torchvision", "torchinfo", "matplotlib", "jupyterlab", "nbval", "pillow"} <= {
        re.match(r"[a-z-]+", one).group() for one in named
    }


def test_versions_that_were_tested_together_are_those_of_every_package() -> None:
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    names = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    extras = PYPROJECT["project"]["optional-dependencies"]
    for wanted in [*PYPROJECT["project"]["dependencies"], *extras["course"], *extras["test"]]:
        assert re.match(r"[a-z0-9-]+", wanted).group() in names, wanted


def test_the_library_is_a_star() -> None:
    """Leaves import the ground floor alone; who knows several is named here; nobody but the door
    knows the course."""
    ground = {"errors", "files", "console", "devices", "forward", "options", "tokens"}
    know_more = {
        "commands": {"data", "datasets", "recipe"},  # data: its types alone
        "data": {"augmentation", "datasets", "pictures", "reading"},
        "attention": {"recording"},
        "building": {"model"},
        "gallery": {"attention", "relevance"},
        "reading": {"datasets"},
        "training": {"data", "optimizers", "recipe", "runs"},
        "starting": {
            "building",
            "commands",
            "data",
            "datasets",
            "fast",
            "pictures",
            "recipe",
            "weights",
        },
        "weights": {"building"},
    }
    for path in (ROOT / "mnist_vit").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        siblings = {
            node.module or node.names[0].name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
        }
        course = {name for name in siblings if name.startswith("course")}
        assert not course or path.stem == "check", (
            f"{path.name} belongs to the library and imports {course}"
        )
        if path.stem not in ("__init__", "__main__", "jobs", "check"):
            assert siblings <= ground | know_more.get(path.stem, set()), path.name
