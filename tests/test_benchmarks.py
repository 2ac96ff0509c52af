"""The benchmarks run; their stored results and the page on scaling say what is so."""

import doctest
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers import ROOT

from mnist_vit import jobs
from mnist_vit.data import ImageData

PAGE = ROOT / "docs" / "scaling.md"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The scripts as modules, found as they find each other; the number of threads is put back."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import measure
    import processes
    import seeds
    import speed
    import time_to_accuracy

    threads = torch.get_num_threads()
    modules = (measure, processes, seeds, speed, time_to_accuracy)
    yield {module.__name__: module for module in modules}
    torch.set_num_threads(threads)


@pytest.fixture
def few() -> ImageData:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (24, 1, 28, 28), dtype=torch.uint8, generator=generator)
    return ImageData(
        images,
        torch.arange(24) % 10,
        tuple("0123456789"),
        "24 images of noise",
        (0.1307,),
        (0.3081,),
    )


# ---- the scripts ----


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py")))
def test_every_script_says_how_it_is_used(
    name: str, scripts: Any, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = getattr(importlib.import_module(name), "main", None)
    if main is None:
        assert name == "measure", "what the others share"
        return
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert "--" in capsys.readouterr().out


def test_speed_runs_and_writes_table_and_numbers(
    scripts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed, out = scripts["speed"], tmp_path / "speed.json"
    monkeypatch.setattr(speed, "peak_memory", lambda kind, count, size: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    speed.main(["model", "attention", "--tiny", "--rounds", "1", "--out", str(out)])
    speed.main(
        ["data", "gpu", "--tiny", "--rounds", "1", "--out", str(out)]
    )  # goes beside what is there
    results = scripts["measure"].read(out)
    assert [(name, len(section["figures"])) for name, section in results.items()] == [
        ("model", 9),
        ("attention", 3),
        ("data", 1),
        ("gpu", 0),
    ]
    assert out.with_suffix(".md").read_text(encoding="utf-8") == speed.page(results)
    with pytest.raises(
        SystemExit, match=r"differ by 1\.00e-03, more than"
    ):  # different answers are not timed
        speed.check_equal(torch.zeros(3, 10), torch.full((3, 10), 1e-3))


def test_time_to_accuracy_stores_both_sides(
    scripts: dict[str, ModuleType], few: ImageData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, out = scripts["time_to_accuracy"], tmp_path / "out.json"
    for module in (script, jobs):
        monkeypatch.setattr(module, "load_data", lambda *arguments, **sizes: few)
    options = ["--goal", "-1", "--out", str(out), "--state", str(tmp_path / "state.pth")]
    script.main(["ours", *options, "--epochs", "1"])
    script.main(["plain", *options, "--steps", "1"])
    results = scripts["measure"].read(out)
    ratio = results["ours"]["cpu_seconds"] / results["plain"]["cpu_seconds"]
    assert results["ours_by_plain"] == pytest.approx(ratio, abs=1e-3)


# ---- what is stored ----


def test_stored_results_are_whole(scripts: dict[str, ModuleType]) -> None:
    folder = ROOT / "benchmarks" / "results"
    speed = scripts["measure"].read(folder / "speed.json")
    assert (folder / "speed.md").read_text(encoding="utf-8") == scripts["speed"].page(speed)
    commands = [
        section["command"]
        for section in (*speed.values(), scripts["measure"].read(folder / "processes.json"))
    ]
    assert not [command for command in commands if "--tiny" in command]
    results = scripts["measure"].read(folder / "time_to_accuracy.json")
    race = scripts["time_to_accuracy"]
    for side, epochs in race.EPOCHS.items():
        assert results[side]["recipe"] == {"epochs": epochs} | race.OURS
    assert [results[side]["goal"] for side in race.GOALS] == list(race.GOALS.values())
    assert all(results[side]["passed"] for side in race.GOALS)
    for path in folder.glob("*"):
        assert not re.search(r"/(home|root|tmp|work|usr)/|@", path.read_text(encoding="utf-8")), (
            path
        )


# ---- docs/scaling.md ----


def test_the_pages_numbers_are_what_its_formulas_give() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert failed == 0
    assert tried >= 15
    text = PAGE.read_text(encoding="utf-8")
    printed = "\n".join(e.want for e in doctest.DocTestParser().get_examples(text))
    for number in re.findall(r"\*\*(\d[^*]*)\*\*", text):
        assert number in printed, f"{number} stands in the text and is computed nowhere"
