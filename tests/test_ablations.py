"""The ablations: the variants are what they say, the command repeats a run, notebook 12 prints the
stored runs."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import NOTEBOOKS, ROOT, from_file, read

from mnist_vit.course.nb12_cifar10_and_ablations.figures import judge
from mnist_vit.model import vit_mnist

script = from_file(ROOT / "benchmarks" / "ablations.py")
STORED = json.loads(script.RESULTS.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The script sets the number of threads; other tests keep theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_stored_runs_are_those_of_the_script() -> None:
    assert STORED["recipe"] == script.RECIPE
    runs = {(row["variant"], row["seed"]): row for row in STORED["runs"]}
    assert list(runs) == [(name, seed) for name in script.VARIANTS for seed in script.SEEDS]
    for (name, seed), row in runs.items():
        assert row["correct"] == round(row["accuracy"] * row["total"])
        model = script.build(script.VARIANTS[name], seed)
        assert row["parameters"] == sum(p.numel() for p in model.parameters() if p.requires_grad)
        assert row["command"] == f"python -m experiments ablations {name} --seed {seed}"


def test_the_table_of_the_notebook_shows_the_stored_runs() -> None:
    cells = read(NOTEBOOKS / "12_cifar10_and_ablations.ipynb").cells
    printed = "\n".join(
        output.get("text", "") for cell in cells for output in cell.get("outputs", [])
    )
    found: dict[str, list[float]] = {}
    for row in STORED["runs"]:
        found.setdefault(row["variant"], []).append(100 * row["accuracy"])
    names = list(script.VARIANTS)
    for name, runs in found.items():
        base = found["again" if names.index(name) >= names.index("again") else "base"]
        mean = sum(runs) / len(runs)
        verdict = "(the base)" if runs is base else judge(base, runs)
        numbers = [f"{run:.1f}" for run in runs]
        numbers += [
            f"{mean:.1f}",
            f"{mean - sum(base) / len(base):+.1f}",
            f"{max(runs) - min(runs):.1f}",
            verdict,
        ]
        row = re.escape(script.VARIANTS[name].what) + r"\s+" + r"\s+".join(map(re.escape, numbers))
        assert re.search(rf"^{row}$", printed, re.MULTILINE), name


def test_the_variants_are_what_they_are_called() -> None:
    base = script.build(script.VARIANTS["base"], 0)
    assert script.model_config(base) == script.model_config(vit_mnist(4))
    position = script.build(script.VARIANTS["no_position"], 0).encoder.pos_embedding
    assert not position.any()
    assert not position.requires_grad
    position = script.build(script.VARIANTS["random_position"], 0).encoder.pos_embedding
    assert position.std().item() == pytest.approx(0.02, rel=0.1)
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    block = base.encoder.layers[0]
    middle = block.ln_1(x + block.self_attention(x, x, x, need_weights=False)[0])
    post = script.build(script.VARIANTS["post_norm"], 0).encoder.layers[0]
    assert torch.equal(post(x), block.ln_2(middle + block.mlp(middle)))
    normed = block.ln_1(x)
    bare = script.build(script.VARIANTS["no_mlp"], 0).encoder.layers[0]
    assert torch.equal(
        bare(x), x + block.self_attention(normed, normed, normed, need_weights=False)[0]
    )


def test_one_command_repeats_a_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "runs.json"
    command = [
        "no_position",
        "--seed",
        "1",
        "--data",
        "embedded",
        "--digits",
        "64",
        "--epochs",
        "1",
        "--out",
        str(out),
    ]
    script.main(command)
    script.main(command)
    (row,) = json.loads(out.read_text())["runs"]
    told = f"no_position, seed 1: {row['accuracy']:.2%} ({row['correct']} of 1000)"
    printed = capsys.readouterr().out
    assert printed.count(told) == 2
    assert f"stored: {row['accuracy']:.2%}" in printed.rpartition(told)[2]
    assert shlex.split(row["command"])[2:] == command[:-2]
    with pytest.raises(SystemExit):  # runs of another recipe are kept apart
        script.main(["base", "--data", "embedded", "--digits", "32", "--out", str(out)])
    assert len(json.loads(out.read_text())["runs"]) == 1
