"""Much at once: a bar shows how far it is, and maps of many images are drawn in parts, so that
memory stays bounded."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from survivor import toy_fit, toy_model

import mnist_vit
from mnist_vit.data import ImageData, load_folder
from mnist_vit.explorer import MOST_LIVE


def many_files(folder: Path, count: int) -> None:
    """Two classes of pictures."""
    for name, colour in (("dark", "navy"), ("light", "gold")):
        (folder / name).mkdir(parents=True)
        for i in range(count // 2):
            Image.new("RGB", (200, 150), colour).save(folder / name / f"{i}.png")


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
        mnist_vit.jobs,
        "save_attention_images",
        lambda model, images, *_: sizes.append(len(images)),
    )
    monkeypatch.setattr(mnist_vit.jobs, "write_page", fake_page)
    mnist_vit.visualize_attention(mnist_vit.vit_mnist(7), digits(1200), per_class=120, out=tmp_path)
    assert sum(sizes) == 1200
    assert len(shown) == MOST_LIVE, "a page must stay small enough to open"
    assert max(sizes) <= 50, "the weights of all images at once would not fit in memory"
