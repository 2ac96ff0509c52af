"""The ablations: changes do what they say, the command repeats a run, notebook 11 tells what the stored runs tell."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import NOTEBOOKS, ROOT, environment, from_file, read

from mnist_vit.fast import FastVisionTransformer, speed_up
from mnist_vit.model import vit_mnist
from mnist_vit.plots.ablations import judge

script = from_file(ROOT / "benchmarks" / "ablations.py")
STORED = json.loads(script.RESULTS.read_text(encoding="utf-8"))
NOTEBOOK = NOTEBOOKS / "11_cifar10_and_ablations.ipynb"


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The script sets the number of threads; other tests keep theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def accuracies() -> dict[str, list[float]]:
    """In percent, by variant, in the order of the file."""
    found: dict[str, list[float]] = {}
    for row in STORED["runs"]:
        found.setdefault(row["variant"], []).append(100 * row["accuracy"])
    return found


def printed() -> str:
    """All text that notebook 11 has stored."""
    return "\n".join(output.get("text", "") for cell in read(NOTEBOOK).cells for output in cell.get("outputs", []))


# ---------------------------------------------------------------------------------------------- the stored runs


def test_every_variant_has_its_three_runs() -> None:
    assert [(row["variant"], row["seed"]) for row in STORED["runs"]] == [
        (name, seed) for name in script.VARIANTS for seed in script.SEEDS
    ]
    assert STORED["recipe"] == script.RECIPE
    assert STORED["base"] == script.model_config(vit_mnist(4))


@pytest.mark.parametrize("row", STORED["runs"], ids=lambda row: f"{row['variant']}-{row['seed']}")
def test_a_stored_run_fits_itself_and_the_script(row: dict) -> None:
    assert row["correct"] == round(row["accuracy"] * row["total"])
    assert row["total"] == 5000
    assert row["what"] == script.VARIANTS[row["variant"]].what
    model = script.build(script.VARIANTS[row["variant"]], row["seed"])
    assert row["parameters"] == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert row["command"] == f"python benchmarks/ablations.py {row['variant']} --seed {row['seed']}"
    assert row["seconds"] > 0


# ---------------------------------------------------------------------------------------- what the changes change


def test_the_base_is_the_course_model_with_large_positions() -> None:
    base = script.build(script.VARIANTS["base"], 0)
    assert script.model_config(base) == script.model_config(vit_mnist(4))
    assert type(base) is type(vit_mnist(4))
    assert base.encoder.pos_embedding[0, 1:].std().item() == pytest.approx(script.RECIPE["position_size"], rel=0.01)
    assert not base.heads.head.weight.any()


def test_no_position_stays_none() -> None:
    position = script.build(script.VARIANTS["no_position"], 0).encoder.pos_embedding
    assert not position.any()
    assert not position.requires_grad


def test_random_position_is_torchvisions_start() -> None:
    position = script.build(script.VARIANTS["random_position"], 0).encoder.pos_embedding
    assert position.std().item() == pytest.approx(0.02, rel=0.1)
    assert position.requires_grad


def test_post_norm_and_no_mlp_are_what_they_are_called() -> None:
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    base = script.build(script.VARIANTS["base"], 0).encoder.layers[0]
    attended = base.self_attention(x, x, x, need_weights=False)[0]
    middle = base.ln_1(x + attended)
    post = script.build(script.VARIANTS["post_norm"], 0).encoder.layers[0]
    assert torch.equal(post(x), base.ln_2(middle + base.mlp(middle)))
    bare = script.build(script.VARIANTS["no_mlp"], 0).encoder.layers[0]
    normed = base.ln_1(x)
    assert torch.equal(bare(x), x + base.self_attention(normed, normed, normed, need_weights=False)[0])


@pytest.mark.parametrize("name", script.VARIANTS)
def test_the_fast_path_runs_what_it_knows_and_nothing_else(name: str) -> None:
    model = script.build(script.VARIANTS[name], 0)
    fast = speed_up(model)
    assert isinstance(fast, FastVisionTransformer) == (name not in ("post_norm", "no_mlp"))
    torch.nn.init.normal_(model.heads.head.weight)  # it starts at zero, and so would all logits be
    images = torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(fast(images), model(images), rtol=0, atol=1e-5 * max(1, model(images).abs().max()))


# ------------------------------------------------------------------------------------------------- the command


def test_one_command_repeats_a_run(tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    command = [sys.executable, "benchmarks/ablations.py", "no_position", "--seed", "1", "--data", "embedded"]
    command += ["--digits", "64", "--epochs", "1", "--out", str(out)]
    first, again = (
        subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    (row,) = json.loads(out.read_text())["runs"]
    assert (row["variant"], row["seed"], row["total"]) == ("no_position", 1, 1000)
    told = f"no_position, seed 1: {row['accuracy']:.2%} ({row['correct']} of 1000)"
    assert told in first
    assert told in again
    assert f"stored: {row['accuracy']:.2%}" in again
    assert shlex.split(row["command"])[1:] == command[1:-2]


def test_without_a_name_what_is_missing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(script, "SEEDS", (0, 1))
    monkeypatch.setattr(script, "VARIANTS", {name: script.VARIANTS[name] for name in ("base", "patches_14")})
    out = tmp_path / "runs.json"
    tiny = ["--data", "embedded", "--digits", "64", "--epochs", "1", "--out", str(out)]
    script.main(["patches_14", "--seed", "0", *tiny])
    script.main(tiny)
    done = [(row["variant"], row["seed"]) for row in json.loads(out.read_text())["runs"]]
    assert done == [("base", 0), ("base", 1), ("patches_14", 0), ("patches_14", 1)]
    assert capsys.readouterr().out.count("CPU seconds") == 4
    script.main(tiny)
    assert "CPU seconds" not in capsys.readouterr().out


def test_runs_of_another_recipe_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "runs.json"
    out.write_text(json.dumps(STORED))
    with pytest.raises(SystemExit):
        script.main(["base", "--data", "embedded", "--digits", "64", "--out", str(out)])
    assert "name another file with --out" in capsys.readouterr().err
    assert json.loads(out.read_text()) == STORED


# ------------------------------------------------------------------------------------------------ the notebook


def test_the_table_shows_the_stored_runs() -> None:
    found = accuracies()
    base = found["base"]
    for name, runs in found.items():
        mean = sum(runs) / len(runs)
        verdict = "(the base)" if name == "base" else judge(base, runs)
        numbers = [f"{run:.1f}" for run in runs]
        numbers += [f"{mean:.1f}", f"{mean - sum(base) / len(base):+.1f}", f"{max(runs) - min(runs):.1f}", verdict]
        row = re.escape(script.VARIANTS[name].what) + r"\s+" + r"\s+".join(map(re.escape, numbers))
        assert re.search(rf"^{row}$", printed(), re.MULTILINE), name


def test_the_reading_is_what_the_runs_say() -> None:
    """Every sentence of "Read the last column first", one assert each."""
    found, runs = accuracies(), {(row["variant"], row["seed"]): row for row in STORED["runs"]}
    means = {name: sum(values) / len(values) for name, values in found.items()}
    verdicts = {name: judge(found["base"], values) for name, values in found.items() if name != "base"}
    assert {name for name in verdicts if verdicts[name] == "worse"} == {"no_position", "layers_1", "heads_1"}
    assert {name for name in verdicts if verdicts[name] == "better"} == {"heads_8", "patches_14"}
    assert list(verdicts.values()).count("unclear") == 10
    assert verdicts["random_position"] == verdicts["no_mlp"] == "unclear"
    assert means["no_position"] == min(means.values()) < sorted(means.values())[1] - 10
    assert 65 < means["no_position"] < 75, "about seven digits in ten"
    assert runs["heads_8", 0]["parameters"] == runs["base", 0]["parameters"]
    text = "\n".join(cell.source for cell in read(NOTEBOOK).cells)
    first, second, third = (f"{value:.1f} %" for value in found["layers_6"])
    assert f"end at {first}, {second} and {third}. The middle one is the best of all {len(runs)} runs" in text
    assert found["layers_6"][1] == max(value for values in found.values() for value in values)
    others = [value for name, values in found.items() if name != "no_position" for value in values]
    assert found["layers_6"][0] == min(others)
    assert means["patches_14"] - means["patches_7"] < 1, "close together after twelve epochs"
    assert STORED["recipe"]["epochs"] == 12


def test_the_curves_of_the_colour_run_are_what_the_text_says() -> None:
    history = json.loads((ROOT / "weights" / "vit_cifar10.json").read_text(encoding="utf-8"))["history"]
    ahead = [row["validation_accuracy"] > row["accuracy"] for row in history]
    first = next(i for i in range(5, len(ahead)) if not ahead[i])
    assert first > len(history) / 2, "for half of the run validation is ahead"
    assert not any(ahead[first:])
    assert round(100 * history[-1]["accuracy"]) == 89, "ends near 89 %"
    assert 0.78 < history[-1]["validation_accuracy"] < 0.8, "lies flat just below 80 %"
    losses = [row["validation_loss"] for row in history]
    assert losses[-1] > min(losses) + 0.02, "its loss rises"
    late = [row["validation_accuracy"] for row in history[first:]]
    assert max(late) - min(late) < 0.02, "its accuracy stands still"


def test_the_notebook_takes_the_mlp_away_as_the_script_does() -> None:
    def nothing(source: str) -> str:
        (found,) = (part for part in ast.parse(source).body if getattr(part, "name", "") == "Nothing")
        return ast.dump(found)

    (shown,) = (cell.source for cell in read(NOTEBOOK).cells if "class Nothing" in cell.source)
    assert nothing(shown) == nothing((ROOT / "benchmarks" / "ablations.py").read_text(encoding="utf-8"))
