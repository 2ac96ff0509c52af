"""Benchmarks and experiments run; what is stored belongs to today's scripts and notebooks."""

import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import ROOT

from benchmarks import recipes as short_runs
from benchmarks import speed, time_to_accuracy
from mnist_vit import starting
from mnist_vit.data import ImageData
from mnist_vit.datasets import MNIST_MEAN, MNIST_STD
from tools import runner

PAGE = ROOT / "docs" / "scaling.md"
RESULTS = ROOT / "benchmarks" / "results"
SCRIPTS = [("benchmarks", name) for name in runner.scripts("benchmarks")]
SCRIPTS += [("experiments", name) for name in runner.scripts("experiments")]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The runner sets the number of threads; other tests keep theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def few() -> ImageData:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (24, 1, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.arange(24) % 10
    return ImageData(
        images, labels, tuple("0123456789"), "24 of noise", (MNIST_MEAN,), (MNIST_STD,)
    )


# ---- the scripts ----


@pytest.mark.parametrize(("room", "name"), SCRIPTS)
def test_every_script_says_how_it_is_used(
    room: str, name: str, capsys: pytest.CaptureFixture
) -> None:
    script = runner.Script(room, name)
    assert f"python -m {room} {name}" in script.module.__doc__
    with pytest.raises(SystemExit) as stop:
        runner.main(room, [name, "--help"])
    assert stop.value.code == 0
    told = capsys.readouterr().out
    for option in script.options():
        assert f"--{option.replace('_', '-')}" in told


def test_the_scripts_are_listed_and_a_wrong_name_is_told(capsys: pytest.CaptureFixture) -> None:
    runner.main("experiments", [])
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for room, name in SCRIPTS if room == "experiments")
    with pytest.raises(SystemExit, match="no script 'ladders'"):
        runner.main("experiments", ["ladders"])
    with pytest.raises(SystemExit):
        runner.main("experiments", ["growing", "blocks"])
    assert "unknown: blocks. Choose from: pixels_linear," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        runner.main("experiments", ["growing", "pixels_linear", "--seed", "1", "--store"])
    assert "all seeds are stored together" in capsys.readouterr().err


def test_speed_runs_and_writes_table_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "speed.json"
    monkeypatch.setattr(speed, "peak_memory", lambda kind, count, size: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = ["--tiny", "--rounds", "1", "--store", "--out", str(out)]
    runner.main("benchmarks", ["speed", "model", "attention", *words])
    runner.main("benchmarks", ["speed", "data", "gpu", *words])  # goes beside what is there
    results = runner.read(out)
    counts = {name: len(section["figures"]) for name, section in results.items()}
    assert counts == {"model": 9, "attention": 3, "data": 1, "gpu": 0}
    assert results["gpu"]["command"] == "python -m benchmarks speed gpu --rounds 1 --tiny"
    assert results["gpu"]["machine"]["threads"] == 1
    assert out.with_suffix(".md").read_text(encoding="utf-8") == speed.page(results)
    with pytest.raises(SystemExit, match=r"differ by 1\.00e-03, more than"):
        speed.check_equal(torch.zeros(3, 10), torch.full((3, 10), 1e-3))


def test_time_to_accuracy_stores_both_sides(
    few: ImageData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, state = tmp_path / "out.json", tmp_path / "state.pth"
    for module in (time_to_accuracy, starting):
        monkeypatch.setattr(module, "load_data", lambda *arguments, **sizes: few)
    words = ["--goal", "-1", "--state", str(state), "--store", "--out", str(out)]
    runner.main("benchmarks", ["time_to_accuracy", "ours", *words, "--epochs", "1"])
    runner.main("benchmarks", ["time_to_accuracy", "plain", *words, "--steps", "1"])
    results = runner.read(out)
    ratio = results["ours"]["cpu_seconds"] / results["plain"]["cpu_seconds"]
    assert results["ours_by_plain"] == pytest.approx(ratio, abs=1e-3)
    assert str(tmp_path) not in out.read_text()
    words[1] = "2"  # not reached yet
    runner.main("benchmarks", ["time_to_accuracy", "plain", *words, "--steps", "1"])
    steps = [row["step"] for row in runner.read(out)["plain"]["history"]]
    assert steps == [1, 2], "it goes on"


# ---- what is stored ----


def test_stored_results_are_whole() -> None:
    results = runner.read(time_to_accuracy.FILE)
    for side, epochs in time_to_accuracy.EPOCHS.items():
        assert results[side]["recipe"] == {"epochs": epochs} | time_to_accuracy.OURS
    for side, goal in time_to_accuracy.GOALS.items():
        assert results[side]["goal"] == goal
        assert results[side]["passed"]
    for script in (speed, short_runs):
        page = script.FILE.with_suffix(".md").read_text(encoding="utf-8")
        assert page == script.page(runner.read(script.FILE)), "the page is made from the numbers"
    for path in RESULTS.glob("*"):
        text = path.read_text(encoding="utf-8")
        assert "--tiny" not in text
        assert not re.search(r"/(home|root|tmp|work|usr)/|@", text), path


@pytest.mark.parametrize(("room", "name"), SCRIPTS)
def test_what_a_script_stored_has_its_names_and_its_commands(room: str, name: str) -> None:
    script = runner.Script(room, name)
    if script.file is None:
        return
    files = [script.file]
    if not isinstance(script.layout, runner.Rows | runner.ByName):
        files = [runner.at(script.file, one) for one in script.names or [None]]
    for file in files:
        commands = re.findall(r'"command": "(.*)"', file.read_text(encoding="utf-8"))
        ours = [words.split() for words in commands if words.startswith(f"python -m {room} ")]
        assert ours, file
        for words in ours:
            assert words[3] == name
            given = script.parser().parse_args(words[4:])
            assert set(getattr(given, "names", [])) <= set(script.names)
    if isinstance(script.layout, runner.ByName):
        stored = {key for key, value in runner.read(script.file).items() if isinstance(value, dict)}
        assert stored == set(script.names)


def test_files_of_results_are_declared_by_a_script() -> None:
    declared = set()
    for room, name in SCRIPTS:
        script = runner.Script(room, name)
        if script.file is not None:
            declared |= {runner.at(script.file, one).name for one in [*script.names, None]}
    stored = [*RESULTS.glob("*.json"), *(ROOT / "notebooks" / "results").glob("*.json")]
    assert {path.name for path in stored} <= declared
    for path in stored:
        json.loads(path.read_text(encoding="utf-8"))


# ---- docs/scaling.md ----


def test_the_pages_numbers_are_what_its_formulas_give() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert failed == 0
    assert tried >= 15
    text = PAGE.read_text(encoding="utf-8")
    printed = "\n".join(e.want for e in doctest.DocTestParser().get_examples(text))
    for number in re.findall(r"\*\*(\d[^*]*)\*\*", text):
        assert number in printed, f"{number} stands in the text and is computed nowhere"
