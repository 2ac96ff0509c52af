"""The command line: the recipes' keywords, readable help, no traceback for a user's mistake."""

import ast
import inspect
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from helpers import environment
from PIL import Image

import mnist_vit
from mnist_vit import __version__, jobs
from mnist_vit.__main__ import COMMANDS, IN_PYTHON_ONLY, _parser, _spoken, function, main
from mnist_vit.data import load_embedded
from mnist_vit.datasets import DATA_SETS
from mnist_vit.optimizers import make_optimizers


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_every_keyword_and_its_default(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for key, parameter in inspect.signature(function(name)).parameters.items():
        assert key in IN_PYTHON_ONLY or key.replace("_", "-") in text or key in text
        if isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            assert f"(default {parameter.default})" in " ".join(text.split())


def test_defaults_are_the_recipes() -> None:
    options = vars(_parser().parse_args(["train", "vit_mnist"]))
    for key, parameter in inspect.signature(jobs.train).parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            assert options[key] == parameter.default, key


@pytest.mark.parametrize("name", COMMANDS)
def test_help_speaks_the_command_line_and_lists_what_may_be_chosen(
    name: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    keys = inspect.signature(function(name)).parameters
    assert not [key for key in keys if "_" in key and key in text], (
        "batch_size is Python's name of --batch-size"
    )
    assert not re.search(
        r"``|nn\.Module|\bnone\b|left out|used where it is", text, re.IGNORECASE
    ), text
    for key, known in {"data": DATA_SETS, "sizes": jobs.MODELS, "model": jobs.MODELS}.items():
        assert key not in keys or all(choice in text for choice in known), key
    for key in {"optimizer", "position_start", "split"} & keys.keys():
        assert all(choice in text for choice in CLOSED[key]), key


CLOSED = {
    "optimizer": ("adamw", "muon"),
    "position_start": ("sincos",),
    "split": ("all", "train", "validation", "test"),
}


def test_choices_are_what_the_library_takes() -> None:
    options = {
        key: tuple(typing.get_args(typing.get_args(hint)[0]) or typing.get_args(hint))
        for key, hint in typing.get_type_hints(jobs.train).items()
        if key in CLOSED
    }
    assert options == {key: CLOSED[key] for key in options}
    assert {split for known in DATA_SETS.values() for split in known.splits} == set(CLOSED["split"])
    for kind in CLOSED["optimizer"]:
        assert make_optimizers(jobs.MODELS["vit_mnist_p7"](), kind, 1e-3, 0.1)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in COMMANDS),
        ["trian"],
        ["train", "--optimizer", "x"],
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
    assert "each row is a true class" in out
    assert len(list((tmp_path / "maps").glob("*/layer_1_head_1.png"))) == 20
    assert (tmp_path / "maps" / "index.html").is_file()


@pytest.mark.parametrize("index", [600, 1700, 2600, 4700])
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
        ("demo", {}, 1),
        ("train vit_mnist_p7 --data embedded --epochs 2", {"RANK": "1", "WORLD_SIZE": "0"}, 1),
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
    assert "use torchrun, or unset WORLD_SIZE and RANK" in capsys.readouterr().err


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
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What torch says on a CPU is a plain RuntimeError."""

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


def test_names_are_there_to_be_found_and_only_they() -> None:
    """What Tab shows after ``mnist_vit.``; each is imported on first use, and a module is found by
    its name too."""
    code = "import sys, mnist_vit\nassert 'torch' not in sys.modules\nprint(*dir(mnist_vit))\n"
    code += (
        "print(mnist_vit.train.__doc__.splitlines()[0], mnist_vit.data.load_embedded.__name__,"
        " mnist_vit.check.hint)\n"
    )
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
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {alias.name: node.module for node in block.body for alias in node.names}
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
