"""The ablations: variants are what they say, a command repeats a run, notebook 12 prints them."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import NOTEBOOKS, read

from experiments import ablations as script
from mnist_vit.course.nb12_cifar10_and_ablations.figures import judge
from mnist_vit.model import vit_mnist
from tools import runner

STORED = json.loads(script.FILE.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The runner sets the number of threads; other tests keep theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_stored_runs_are_those_of_the_script() -> None:
    assert STORED["recipe"] == script.RECIPE
    runs = {(row["variant"], row["seed"]): row for row in STORED["runs"]}
    assert list(runs) == list(itertools.product(script.VARIANTS, script.SEEDS))
    for (name, seed), row in runs.items():
        assert row["correct"] == round(row["accuracy"] * row["total"])
        model = script.build(script.VARIANTS[name], seed)
        assert row["parameters"] == sum(p.numel() for p in model.parameters() if p.requires_grad)
        assert row["command"] == f"python -m experiments ablations {name} --seed {seed}"


def test_the_table_of_the_notebook_shows_the_stored_runs() -> None:
    cells = read(NOTEBOOKS / "12_cifar10_and_ablations.ipynb").cells
    outputs = itertools.chain.from_iterable(cell.get("outputs", []) for cell in cells)
    printed = "\n".join(output.get("text", "") for output in outputs)
    found: dict[str, list[float]] = {}
    for row in STORED["runs"]:
        found.setdefault(row["variant"], []).append(100 * row["accuracy"])
    names = list(script.VARIANTS)
    base = found["base"]
    for name in names[: names.index("again")]:  # the later runs changed the training
        runs = found[name]
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


@pytest.mark.full
def test_one_command_repeats_a_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "runs.json"
    command = "ablations no_position --seed 1 --data embedded --digits 64 --epochs 1"
    runner.main("experiments", [*command.split(), "--store", "--out", str(out)])
    (row,) = json.loads(out.read_text())["runs"]
    assert (row["variant"], row["seed"], row["total"]) == ("no_position", 1, 1000)
    assert row["correct"] == round(row["accuracy"] * row["total"])
    assert row["command"] == f"python -m experiments {command}"

    before = out.read_text()
    capsys.readouterr()
    runner.main("experiments", [*row["command"].split()[3:], "--out", str(out)])
    now, stored = capsys.readouterr().out.splitlines()[-2:]
    reached = f'"accuracy": {row["accuracy"]}, "correct": {row["correct"]}'
    assert (now.split()[0], stored.split()[0]) == ("now", "stored")
    assert reached in now
    assert reached in stored
    assert out.read_text() == before, "without --store nothing is written"

    other = ["ablations", "base", "--data", "embedded", "--digits", "32", "--store"]
    with pytest.raises(SystemExit, match="another recipe"):
        runner.main("experiments", [*other, "--seed", "0", "--epochs", "1", "--out", str(out)])
    assert out.read_text() == before


def test_without_names_what_is_missing_is_measured_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs.json"
    measured = []

    def run(name: str, seed: int) -> dict:
        measured.append((name, seed))
        if len(measured) == 3:
            raise KeyboardInterrupt
        return {"accuracy": 0.5}

    monkeypatch.setattr(script, "run", run)
    monkeypatch.setattr(script, "about", dict)
    monkeypatch.setattr(script, "NAMES", ["base", "muon"])
    words = ["ablations", "--store", "--out", str(out)]
    with pytest.raises(KeyboardInterrupt):
        runner.main("experiments", words)
    runner.main("experiments", words)
    order = [(name, seed) for seed, name in itertools.product(script.SEEDS, ("base", "muon"))]
    assert measured == order[:3] + order[2:]
    rows = json.loads(out.read_text())["runs"]
    assert [(row["variant"], row["seed"]) for row in rows] == sorted(order)
