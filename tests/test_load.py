"""Much at once: memory stays bounded, a bar shows how far it is, and Ctrl-C ends it in a sentence,
with whole files.

The long rounds (``pytest -m slow``) measure the peak memory of each job in a process of its own.
"""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import environment
from PIL import Image
from survivor import toy_fit, toy_model

import mnist_vit
from mnist_vit.data import ImageData, load_folder
from mnist_vit.explorer import MOST_LIVE

START = """
import json, resource, sys, torch, mnist_vit
from mnist_vit.data import ImageData, load_folder
def synthetic(n):
    images = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8)
    labels, classes = torch.arange(n) % 10, tuple("0123456789")
    return ImageData(images, labels, classes, f"{n:,} synthetic images", (0.13,), (0.31,))
def peak():  # MB
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
model, small = mnist_vit.load_model("vit_mnist"), mnist_vit.load_model("vit_mnist_p7")
folder = sys.argv[1]
mnist_vit.visualize_attention(model, synthetic(60), per_class=6, out=folder + "/first")  # imports
mnist_vit.evaluate(small, synthetic(500))
before = peak()
"""
END = """
print(json.dumps({"more": peak() - before, "found": found}))
"""
JOBS = {  # code, how many images, how many MB more than at the start it may take
    "attention of 10,000 digits": (
        (
            "found = mnist_vit.visualize_attention(model, synthetic(10_000), per_class=1000,"
            " out=folder).stat().st_size"
        ),
        10_000,
        300,
    ),
    "evaluation of 100,000 images": (
        "found = mnist_vit.evaluate(small, synthetic(100_000)).total",
        100_000,
        400,
    ),
    "a folder of 20,000 files": ('found = len(load_folder(folder + "/pictures"))', 20_000, 200),
}


def many_files(folder: Path, count: int) -> None:
    """Two classes of pictures; all the files of a class are one on the disk."""
    for name, colour in (("dark", "navy"), ("light", "gold")):
        (folder / name).mkdir(parents=True)
        Image.new("RGB", (200, 150), colour).save(folder / name / "0.png")
        for i in range(1, count // 2):
            os.link(folder / name / "0.png", folder / name / f"{i}.png")


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_peak_memory(job: str, tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="peak memory is measured where the system has getrusage")
    code, count, allowed = JOBS[job]
    if "folder" in job:
        many_files(tmp_path / "pictures", count)
    command = [sys.executable, "-c", START + code + END, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=7200)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["more"] < allowed, f"{told['more']} MB more than at the start"
    if "attention" in job:
        assert told["found"] < 10_000_000, "the page must stay small enough to open"
        assert len(list(tmp_path.glob("*_*/attention.json"))) == count
    else:
        assert told["found"] == count


def digits(n: int) -> ImageData:
    images = torch.zeros(n, 1, 28, 28, dtype=torch.uint8)
    return ImageData(images, torch.arange(n) % 10, tuple("0123456789"), "toy", (0.5,), (0.5,))


@pytest.mark.parametrize(
    ("where", "disabled", "seen"),
    [
        ("terminal", "0", True),
        ("notebook", "0", True),
        ("log", "0", False),
        ("terminal", "1", False),
    ],
)
def test_a_bar_in_a_terminal_and_a_notebook_and_none_elsewhere(
    where: str, disabled: str, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_files(tmp_path / "pictures", 20)
    model = mnist_vit.vit_mnist(7)
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    if where == "notebook":
        monkeypatch.setattr(
            "IPython.get_ipython", lambda: SimpleNamespace(kernel="ipykernel, or Colab's")
        )
    for job in (
        lambda: mnist_vit.evaluate(model, digits(20), batch_size=5),
        lambda: mnist_vit.visualize_attention(model, digits(20), out=tmp_path / "maps"),
        lambda: load_folder(tmp_path / "pictures"),
        lambda: toy_fit(toy_model(), 1),
    ):
        stream = io.StringIO()
        stream.isatty = lambda: where == "terminal"
        monkeypatch.setattr(sys, "stderr", stream)
        job()
        assert ("%|" in stream.getvalue()) is seen


def test_many_maps_are_drawn_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    shown: list[str] = []

    def fake_page(
        path: Path, model: object, images: object, pictures: object, names: list[str], *_, **__
    ) -> object:
        shown.extend(names)
        return SimpleNamespace(instead="")

    monkeypatch.setattr(
        mnist_vit.recipes,
        "save_attention_images",
        lambda model, images, *_: sizes.append(len(images)),
    )
    monkeypatch.setattr(mnist_vit.recipes, "write_page", fake_page)
    mnist_vit.visualize_attention(mnist_vit.vit_mnist(7), digits(1200), per_class=120, out=tmp_path)
    assert sum(sizes) == 1200
    assert len(shown) == MOST_LIVE, "a page must stay small enough to open"
    assert max(sizes) <= 50, "the weights of all images at once would not fit in memory"
