"""The command line: the jobs' keywords, readable help, no traceback for a user's mistake."""

import ast
import inspect
import json
import re
import subprocess
import sys
from dataclasses import MISSING
from pathlib import Path

import pytest
from helpers import assert_says, environment
from PIL import Image

import mnist_vit
from mnist_vit import __version__, jobs
from mnist_vit.__main__ import _parser, _spoken, function, main
from mnist_vit.building import model_config
from mnist_vit.commands import COMMANDS, Evaluate, Train, dashed
from mnist_vit.data import load_embedded
from mnist_vit.datasets import DATA_SETS
from mnist_vit.optimizers import make_optimizers
from mnist_vit.options import described
from mnist_vit.reading import READERS
from mnist_vit.recipe import MODELS, Recipe


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_every_option_and_its_default(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for key, one in described(COMMANDS[name][0]).items():
        if one.option.only_python:
            assert dashed(key) not in text
            continue
        assert dashed(key) in text or f" {key} " in text
        assert all(choice in text for choice in (*one.choices, *one.option.names)), key
        assert "_" not in key or key not in text, "batch_size is Python's name of --batch-size"
        if one.kind in (int, float) and one.default is not None:
            assert f"(default {one.default})" in text
    assert not re.search(r"``|nn\.Module|\bnone\b", text, re.IGNORECASE), "these are Python's"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_and_the_function_have_the_same_options(name: str) -> None:
    options = described(COMMANDS[name][0])
    parameters = inspect.signature(function(name)).parameters
    assert list(options) == list(parameters)
    required = ["x"] * sum(one.default is MISSING for one in options.values())
    given = vars(_parser().parse_args([name, *required]))
    for key, parameter in parameters.items():
        optional = parameter.default is not inspect.Parameter.empty
        if optional and not options[key].option.only_python and name != "progress":
            assert given[key] == parameter.default, key


def test_train_help_lists_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out.partition("positional arguments:")[2].partition("options:")[0]
    assert set(MODELS) <= set(re.findall(r"\w+", text))
    assert MODELS["vit_mnist_p7"].items() <= model_config(mnist_vit.vit_mnist(7)).items()
    assert len(inspect.signature(mnist_vit.train).parameters) == len(described(Train))


def test_choices_are_what_the_library_takes() -> None:
    recipe = described(Recipe)
    for kind in recipe["optimizer"].choices:
        assert make_optimizers(mnist_vit.vit_mnist(7), kind, 1e-3, 0.1)
    splits = set().union(*(known.splits for known in DATA_SETS.values()))
    assert splits == set(described(Evaluate)["split"].choices)
    assert set(READERS) == set(DATA_SETS)


def test_an_option_is_a_keyword_in_python_and_a_wrong_one_is_named() -> None:
    for key, one in described(Train).items():
        assert f"    {key}: {one.option.text}" in (mnist_vit.train.__doc__ or "")
    with pytest.raises(TypeError, match=r"train\(\).* epocs .*epochs"):
        mnist_vit.train("vit_mnist", epocs=3)
    with pytest.raises(TypeError, match=r"train\(\).*'model'"):
        mnist_vit.train()


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in COMMANDS),
        ["trian"],
        ["train", "--optimizer", "x"],
        ["train", "vit_mnits"],
        ["evaluate", "vit_mnits"],
        ["train", "vit_mnist", "--epochs", "0"],
        ["train", "vit_mnist", "--data", "mnits"],
        ["attention", "--data", "mnits"],
        ["predict", "no_such_picture.png"],
        ["check", "no_such_file.py"],
    ],
)
def test_help_and_typing_errors_do_not_wait_for_torch(words: list[str]) -> None:
    """Torch alone takes longer to import than a reader waits for a help text."""
    code = (
        "import sys\nfrom mnist_vit.__main__ import main\ntry:\n    main(sys.argv[1:])\nexcept"
        " SystemExit:\n    pass\n"
    )
    code += "print(sorted({'torch', 'numpy', 'tqdm', 'PIL', 'IPython'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_the_library_calls_by_keyword_the_command_line_calls_by_option() -> None:
    keys = ("batch_size", "data", "run_dir", "resume", "epochs")
    said = {
        "batch_size must be 1": "--batch-size must be 1",
        'try data="cifar10", or batch_size=3': "try --data cifar10, or --batch-size 3",
        "continue with resume=True.": "continue with --resume.",
        "the data of 3 epochs": "the data of 3 epochs",
        "epochs must be more": "--epochs must be more",
        "/tmp/my-run_dir/data is a folder": "/tmp/my-run_dir/data is a folder",
    }
    assert {words: _spoken(words, keys) for words in said} == said


def test_options_get_their_types() -> None:
    words = (
        "train vit_mnist_p4 --epochs 3 --keep-patches 9 --average 0.5 --flip --position-start"
        " sincos"
    )
    options = vars(_parser().parse_args(words.split()))
    assert (options["epochs"], options["keep_patches"], options["average"], options["flip"]) == (
        3,
        9,
        0.5,
        True,
    )


def test_demo_evaluates_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "maps")]) == 0
    out = capsys.readouterr().out
    assert "115,498 parameters" in out
    assert "the 5,000 held-out MNIST digits" in out
    assert len(list((tmp_path / "maps").glob("*/layer_1_head_1.png"))) == 20
    assert (tmp_path / "maps" / "index.html").is_file()
    assert (tmp_path / "maps" / "smallest.html").is_file()


@pytest.mark.parametrize("index", [1700, 4700])
def test_predict_reads_a_picture_file(
    index: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A held-out digit as a person would send it: large, dark on light, off the middle."""
    digit = Image.fromarray(load_embedded().images[index, 0].numpy()).resize((280, 280))
    paper = Image.new("L", (500, 420), 235)
    paper.paste(digit.point(lambda value: 235 - value * 200 // 255), (150, 40))
    paper.save(tmp_path / "my digit.png")
    assert main(["predict", str(tmp_path / "my digit.png"), "--out", str(tmp_path / "maps")]) == 0
    out = capsys.readouterr().out
    assert f"my digit.png: {index // 500}\n" in out
    assert (tmp_path / "maps" / "my digit" / "layer_0_head_0.png").is_file()
    stored = json.loads((tmp_path / "maps" / "my digit" / "attention.json").read_text())
    assert sum(stored["probabilities"]) == pytest.approx(1, abs=1e-3)
    probabilities = jobs.predict(
        tmp_path / "my digit.png", mnist_vit.load_model("vit_mnist"), out=tmp_path
    )
    assert probabilities.tolist() == pytest.approx(stored["probabilities"], abs=6e-5), (
        "a model and its name predict the same"
    )


@pytest.mark.parametrize(
    ("words", "variables", "lines"),
    [
        ("evaluate vit_mnist_p7", {}, 0),
        pytest.param(
            "train vit_mnist_p7 --data embedded --epochs 1",
            {"RANK": "1", "WORLD_SIZE": "0"},
            1,
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_reader_that_has_seen_enough(
    words: str, variables: dict, lines: int, tmp_path: Path
) -> None:
    """The pipe is closed after some lines: no traceback; a training, with a stale RANK too, goes on
    to its end."""
    command = [sys.executable, "-m", "mnist_vit", *words.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        command, env=environment(PYTHONUNBUFFERED="1", **variables), cwd=tmp_path, **pipes
    )
    for _ in range(lines):
        assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=300) == (0 if words.startswith("train") else 141)
    assert len(list(tmp_path.glob("runs/*/weights.pth"))) == words.startswith("train")


def test_variables_of_processes_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: object
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert main(["train", "vit_mnist_p7", "--data", "embedded", "--epochs", "1"]) == 2
    assert_says(capsys.readouterr().err, "torchrun WORLD_SIZE RANK")


@pytest.mark.parametrize(
    ("words", "part", "remedy"),
    [
        ("evaluate", "evaluate_model", "--batch-size"),
        ("predict x.png", "open_picture", "larger patches"),
    ],
)
def test_out_of_memory_names_an_option_that_there_is(
    words: str,
    part: str,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What torch says on a CPU is a plain RuntimeError."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.png").touch()

    def full(*_: object) -> None:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate"
            " memory"
        )

    monkeypatch.setattr(jobs, part, full)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert "out of memory" in said
    assert remedy in said


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "mnist_vit", "--version"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"mnist-vit {__version__}"


@pytest.mark.full
def test_names_are_there_to_be_found_and_only_they() -> None:
    """What Tab shows after ``mnist_vit.``; each is imported on first use, and a module is found by
    its name too. The checks import torchvision and scikit-learn where they need them: few do."""
    code = "import sys, mnist_vit\nassert 'torch' not in sys.modules\nprint(*dir(mnist_vit))\n"
    code += (
        "print(mnist_vit.train.__doc__.splitlines()[0], mnist_vit.data.load_embedded.__name__,"
        " mnist_vit.check.hint)\n"
    )
    code += "assert not {'torchvision', 'sklearn'} & set(sys.modules)\n"
    code += "print([hasattr(mnist_vit, name) for name in ('nothing', '_nothing', '__wrapped__')])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    names, _, none = done.stdout.splitlines()
    assert set(names.split()) == {*mnist_vit.__all__, "check", "__version__"}
    assert none == "[False, False, False]"


def test_type_hints_and_names_agree() -> None:
    """Editors and mypy see the imports for them; Python takes the names from the same modules."""
    tree = ast.parse(Path(mnist_vit.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if ast.unparse(node).startswith("if TYPE_CHECKING:"))
    told: dict[str, str] = {}
    for node in block.body:
        told |= dict.fromkeys([alias.name for alias in node.names], node.module)
    assert sorted(told) == sorted(mnist_vit.__all__)
    for name, module in told.items():
        assert getattr(mnist_vit, name) is getattr(getattr(mnist_vit, module), name)


def test_star_import_gives_the_public_names() -> None:
    namespace: dict = {}
    exec("from mnist_vit import *", namespace)
    assert set(mnist_vit.__all__) <= set(namespace)
    assert {"VisionTransformer", "train", "evaluate", "visualize_attention", "load_model"} <= set(
        namespace
    )
    for module in ("model", "data", "training", "evaluation", "attention", "weights", "jobs"):
        exec(f"from mnist_vit.{module} import *", namespace)
