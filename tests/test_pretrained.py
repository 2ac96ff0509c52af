"""Notebook 11 with weights: a file of random numbers in torchvision's cache goes the way of the real one.

There is no network here, so the real file is never seen; its name, place and names of tensors are.
"""

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
from helpers import NOTEBOOKS, code_cells
from IPython.core.inputtransformer2 import TransformerManager

NOTEBOOK = NOTEBOOKS / "11_pretrained_vit.ipynb"
WITH, WITHOUT = "ImageNet weights", "random weights: this shows shapes, not sense"


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


def test_with_the_file_it_runs_to_its_end_and_is_torchvisions_model(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    torch.save(as_published(), cache)
    titles: list[str] = []

    def show() -> None:
        for number in plt.get_fignums():
            titles.append("\n".join(drawn.get_text() for drawn in plt.figure(number).findobj(plt.Text)))
        plt.close("all")

    plt.close("all")  # another test may have left a picture open
    monkeypatch.setattr(plt, "show", show)
    plt.switch_backend("agg")  # no window, wherever this runs
    with plt.rc_context():
        made = run()
    printed = capsys.readouterr().out
    assert f"{cache.name} is loaded" in printed
    assert not re.search(r": False$", printed, re.MULTILINE)
    assert WITHOUT not in printed
    assert len(titles) == sum("plt.show()" in cell.source for cell in code_cells(NOTEBOOK))
    assert all(WITH in title and "random" not in title for title in titles[1:])
    theirs = torchvision.models.vit_b_16(weights="IMAGENET1K_V1").eval()  # torchvision's own way to the same file
    assert type(made["ours"]).__module__ == "mnist_vit.model"
    with torch.no_grad():
        assert torch.equal(made["logits"], theirs(made["images"]))
    assert made["logits"].std() > 0.1


@pytest.mark.parametrize("case", ["offline", "no network", "damaged"])
def test_without_the_weights_one_sentence_says_why(
    case: str, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise urllib.error.URLError("no way to the network\nsecond line")

    if case == "no network":
        monkeypatch.delenv("MNIST_VIT_OFFLINE")
        monkeypatch.setattr(torch.hub, "urlopen", fail)
    elif case == "damaged":
        cache.write_bytes(b"half a file")
    made = run(until="imagenet_state()")
    printed = capsys.readouterr()
    (sentence,) = (line for line in printed.out.splitlines() if "ImageNet weights:" in line)
    assert sentence.startswith(f"No ImageNet weights: {cache.name} ")
    words = {"offline": "MNIST_VIT_OFFLINE", "no network": "no way to the network", "damaged": f"delete {cache}"}
    assert words[case] in sentence
    assert (printed.err, made["state"], made["which"]) == ("", None, WITHOUT)


def test_stored_outputs_are_those_without_the_download_and_say_so() -> None:
    cells = code_cells(NOTEBOOK)
    decided = next(number for number, cell in enumerate(cells) if "def imagenet_state" in cell.source)
    assert "No ImageNet weights: " in cells[decided].outputs[0].text
    for cell in cells[decided:]:
        if "plt.show()" in cell.source:
            assert WITHOUT in "".join(output.get("text", "") for output in cell.outputs), cell.source
            assert "which" in cell.source.partition("plt.show()")[0], f"not in a title:\n{cell.source}"
