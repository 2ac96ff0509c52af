"""Notebook 10 with weights: a file of random numbers in torchvision's cache goes the way of the real one.

There is no network here, so the real file is never seen; its name, place and names of tensors are.
"""

import contextlib
import gc
import re
import socket
import urllib.error
from collections import OrderedDict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
import torchvision
from helpers import NOTEBOOKS, code_cells, read
from IPython.core.inputtransformer2 import TransformerManager

NOTEBOOK = NOTEBOOKS / "10_pretrained_vit.ipynb"
WITH, WITHOUT = "ImageNet weights", "random weights: this shows shapes, not sense"
OFFLINE = (
    "No ImageNet weights: vit_b_16-c867db91.pth is not in torchvision's cache, and MNIST_VIT_OFFLINE forbids downloads."
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the weights file in a torchvision cache of our own; nothing there, and no way to the network."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    assert tmp_path in folder.parents
    folder.mkdir(parents=True)
    return folder / Path(torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1.url).name


def run(until: str = "") -> dict[str, Any]:
    """The names that the code cells make, in a process of ours; stops after the cell that contains ``until``."""
    made: dict[str, Any] = {"__name__": "__main__"}
    for cell in code_cells(NOTEBOOK):
        exec(compile(TransformerManager().transform_cell(cell.source), cell.id, "exec"), made)
        if until and until in cell.source:
            break
    return made


def sentences(capsys: pytest.CaptureFixture) -> list[str]:
    """What was printed about the weights; nothing may be on stderr."""
    printed = capsys.readouterr()
    assert printed.err == ""
    return [line for line in printed.out.splitlines() if "ImageNet weights:" in line]


def as_published() -> OrderedDict:
    """Random numbers for every parameter under the names that the file of 2022 has, with that time's versions."""
    with torch.device("meta"):
        state, old = torchvision.models.vit_b_16().state_dict(), OrderedDict()
    generator = torch.Generator().manual_seed(0)
    for name, tensor in state.items():
        name = re.sub(r"\.mlp\.0\.", ".mlp.linear_1.", re.sub(r"\.mlp\.3\.", ".mlp.linear_2.", name))
        old[name] = 0.1 * torch.randn(tensor.shape, generator=generator)
    old._metadata = OrderedDict((name, {"version": 1}) for name in state._metadata)
    assert "encoder.layers.encoder_layer_11.mlp.linear_2.bias" in old
    return old


# ------------------------------------------------------------------------------------------------ with a weights file


def test_with_the_file_it_runs_to_its_end_and_is_torchvisions_model(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    torch.save(as_published(), cache)
    plt.close("all")  # another test may have left a picture open
    titles: list[str] = []

    def show() -> None:
        for number in plt.get_fignums():
            texts = [drawn.get_text() for drawn in plt.figure(number).findobj(plt.Text)]
            titles.append("\n".join(texts))
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    with plt.rc_context(), contextlib.closing(_Backend("agg")):
        made = run()
    printed = capsys.readouterr().out
    assert "ImageNet weights: vit_b_16-c867db91.pth is loaded.\n" in printed
    assert f"From here on vit_b_16 has {WITH}\n" in printed
    assert printed.count("<All keys matched successfully>") == 4
    assert "logits equal to torchvision's: True" in printed
    assert "torchvision's class gives the same maps as yours: True" in printed
    assert "False" not in printed
    assert "random weights" not in printed
    assert len(titles) == sum("plt.show()" in cell.source for cell in code_cells(NOTEBOOK))
    assert all(WITH in title for title in titles[1:])
    assert not any("random" in title for title in titles)

    images, logits, ours = made["images"], made["logits"], made["ours"]
    assert type(ours).__module__ == "mnist_vit.model"
    del made, ours
    gc.collect()
    theirs = torchvision.models.vit_b_16(weights="IMAGENET1K_V1").eval()  # torchvision's own way to the same file
    with torch.no_grad():
        assert torch.equal(logits, theirs(images))
    assert logits.std() > 0.1


class _Backend:
    """Another matplotlib backend until ``close``."""

    def __init__(self, name: str) -> None:
        self.before = plt.get_backend()
        plt.switch_backend(name)

    def close(self) -> None:
        plt.switch_backend(self.before)


# --------------------------------------------------------------------------------------------- without a weights file


def test_offline_it_says_so_at_once(cache: Path, capsys: pytest.CaptureFixture) -> None:
    made = run(until="imagenet_state()")
    assert sentences(capsys) == [OFFLINE]
    assert made["state"] is None
    assert made["which"] == WITHOUT
    assert list(cache.parent.iterdir()) == []


def test_a_failed_download_is_one_sentence(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise urllib.error.URLError("no way to the network\nsecond line")

    monkeypatch.delenv("MNIST_VIT_OFFLINE")
    monkeypatch.setattr(torch.hub, "urlopen", fail)
    made = run(until="imagenet_state()")
    (sentence,) = sentences(capsys)
    assert sentence.startswith("No ImageNet weights: vit_b_16-c867db91.pth could not be loaded (<urlopen error no way")
    assert sentence.endswith("and run this cell again.")
    assert made["state"] is None
    assert made["which"] == WITHOUT


def test_a_damaged_file_is_one_sentence(cache: Path, capsys: pytest.CaptureFixture) -> None:
    cache.write_bytes(b"half a file")
    made = run(until="imagenet_state()")
    (sentence,) = sentences(capsys)
    assert sentence.startswith("No ImageNet weights: vit_b_16-c867db91.pth could not be loaded (")
    assert f"delete {cache} if it is damaged" in sentence
    assert made["state"] is None


def test_stored_outputs_are_those_without_the_download_and_say_so() -> None:
    cells = code_cells(NOTEBOOK)
    printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]
    decided = next(number for number, cell in enumerate(cells) if "def imagenet_state" in cell.source)
    assert printed[decided].startswith(f"{OFFLINE}\n")
    for cell, text in zip(cells[decided:], printed[decided:], strict=True):
        if "plt.show()" in cell.source:
            assert WITHOUT in text, cell.source
            assert "which" in cell.source.partition("plt.show()")[0], f"not in a title:\n{cell.source}"
    assert "stored in this notebook are those of a run *without* the download" in "".join(
        cell.source for cell in read(NOTEBOOK).cells
    )
