"""Each step on the way to the disk fails once, signals come at any moment, many write to one place;
see survivor.py.

``pytest -m full tests/test_faults.py -s`` prints how many faults there were.
"""

import json
import random
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from survivor import digest, toy_fit, toy_maps, toy_model
from test_survival import run as run  # a fixture
from test_survival import survivors

from mnist_vit.files import write_atomic
from mnist_vit.weights import load_model

pytestmark = pytest.mark.full
FAULTS = pytest.mark.parametrize(
    ("how", "lasting"),
    [("kill", False), ("ENOSPC", False), ("EIO", False), ("ENOSPC", True)],
    ids=["killed", "disk full", "I/O error", "full for good"],
)
# the images of an older page, of 3 layers, and of a newer one, of 2
OLD, NEW = (
    ["a", "b", "c"],
    ["a", "b"],
)


def hidden(folder: Path) -> list[Path]:
    return list(folder.rglob(".mnist_vit-*"))


def at_each_step(what: str, stride: int, ask: Callable[[int], dict]) -> None:
    """Ask for a fault at each step until there is no such step, and print what became of them."""
    answers: list[dict] = []
    while (
        not answers
        or answers[-1]["status"]
        or answers[-1]["steps"] >= 1 + stride * (len(answers) - 1)
    ):
        answers.append(ask(1 + stride * len(answers)))
    killed, told = (
        sum(a["status"] != 0 for a in answers),
        sum(bool(a.get("error")) for a in answers),
    )
    faults = len(answers) - 1
    print(
        f"{what}: {faults} faults, {killed} of them kills, {told} told, {faults - killed - told}"
        " survived"
    )


@FAULTS
def test_training(run: Callable, tmp_path: Path, how: str, lasting: bool) -> None:
    """Told or survived, nothing half written stays, and resumed it ends like the run that nothing
    disturbed."""
    whole = run(tmp_path / "whole", epochs=2)["answer"]

    def ask(at: int) -> dict:
        folder = tmp_path / "run"
        answer = run(folder, epochs=2, fault={"at": at, "how": how, "lasting": lasting})
        if how != "kill":
            assert answer["answer"] == whole or "could not be written" in answer["error"]
            assert not hidden(folder)
        again = run(folder, epochs=2)
        assert (again["error"], again["answer"]) == (None, whole)
        assert not hidden(folder)
        shutil.rmtree(folder)
        return answer

    at_each_step(f"training, {how}", 31, ask)


@FAULTS
def test_weights(run: Callable, tmp_path: Path, how: str, lasting: bool) -> None:
    """The old pair or the new pair loads, and the .json says what is in the .pth."""
    both = [digest(toy_model(seed)) for seed in (1, 2)]

    def ask(at: int) -> dict:
        assert run(tmp_path / "w", job="save", seed=1)["error"] is None
        answer = run(
            tmp_path / "w", job="save", seed=2, fault={"at": at, "how": how, "lasting": lasting}
        )
        assert digest(load_model(tmp_path / "w" / "w.pth")) in both
        return answer

    at_each_step(f"weights, {how}", 1, ask)


def drawn(folder: Path) -> dict[str, int]:
    """The number of layers of each image folder, all of which are whole."""
    found = {}
    for name in OLD:
        if (folder / name).is_dir():
            stored = json.loads((folder / name / "attention.json").read_text())
            found[name] = layers = len(stored["layers_heads_rows_columns"])
            pictures = {f"layer_{i}_head_{head}.png" for i in range(layers) for head in (0, 1)}
            pictures |= {"image.png", "rollout.png", "attention.json"}
            assert {path.name for path in (folder / name).iterdir()} - {"my notes"} == pictures
    return found


@FAULTS
def test_attention_folders(run: Callable, tmp_path: Path, how: str, lasting: bool) -> None:
    """Every image folder is whole; at the latest the next drawing makes all of one model; what is
    not ours stays."""
    old, folder, new = tmp_path / "old", tmp_path / "maps", dict.fromkeys(NEW, 2)
    toy_maps(old, OLD, layers=3)
    (old / ".mine.part").write_text("mine")
    (old / "a" / "my notes").write_text("mine too")

    def ask(at: int) -> dict:
        shutil.copytree(old, folder)
        answer = run(
            folder, job="draw", names=NEW, fault={"at": at, "how": how, "lasting": lasting}
        )
        if "2 layers" in (folder / "index.html").read_text():
            assert drawn(folder) == new, "the page comes last"
        drawn(folder)
        assert run(folder, job="draw", names=["z"], page=False)["error"] is None
        assert drawn(folder) in (dict.fromkeys(OLD, 3), new), "a swap that was cut short is ended"
        assert ("2 layers" in (folder / "index.html").read_text()) == (drawn(folder) == new)
        assert run(folder, job="draw", names=NEW)["error"] is None
        assert drawn(folder) == new
        assert not hidden(folder)
        assert (folder / ".mine.part").read_text() == "mine"
        assert (folder / "a" / "my notes").read_text() == "mine too"
        shutil.rmtree(folder)
        return answer

    at_each_step(f"attention folders, {how}", 1 if how == "kill" else 3, ask)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_at_random_moments(run: Callable, tmp_path: Path, number: int) -> None:
    moments, stopped = random.Random(number), 0
    whole = run(tmp_path / "whole", epochs=3)
    toy_maps(tmp_path / "maps", OLD, layers=3)
    for i in range(20):
        folder = tmp_path / f"run{i}"
        after = moments.uniform(0.02, whole["seconds"])
        stopped += run(folder, epochs=3, after=after, signal=number)["status"] != 0
        assert run(folder, epochs=3)["answer"] == whole["answer"]
        assert not hidden(folder)
        after = moments.uniform(0.02, 0.3)
        stopped += (
            run(tmp_path / "maps", job="draw", names=NEW, after=after, signal=number)["status"] != 0
        )
        drawn(tmp_path / "maps")
    assert run(tmp_path / "maps", job="draw", names=NEW)["error"] is None
    assert drawn(tmp_path / "maps") == {"a": 2, "b": 2}
    assert not hidden(tmp_path)
    print(f"{signal.Signals(number).name}: {stopped} of 40 were stopped before their end")


def test_eight_threads_in_one_place(tmp_path: Path) -> None:
    """One file: always whole. One attention folder: all of one model in the end. One run folder:
    one trains."""
    contents = [bytes([i]) * 100_000 for i in range(8)]

    def write(i: int) -> None:
        for _ in range(50):
            write_atomic(tmp_path / "file", lambda file: file.write(contents[i]))
            assert (tmp_path / "file").read_bytes() in contents

    def draw(i: int) -> None:
        toy_maps(tmp_path / "maps", NEW, layers=i % 3 + 1)

    def train(i: int) -> bool:
        try:
            return len(toy_fit(toy_model(), 2, run_dir=tmp_path / "run")) == 2
        except (BlockingIOError, ValueError) as error:
            return "another run is writing" not in str(
                error
            ) and "already contains a run" not in str(error)

    torch.set_num_threads(1)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
        list(threads.map(draw, range(24)))
        assert sum(threads.map(train, range(8))) == 1
    assert len(set(drawn(tmp_path / "maps").values())) == 1
    assert not hidden(tmp_path)


def test_two_processes_in_one_folder(tmp_path: Path) -> None:
    """Runs are refused or done, galleries of one model each, in whatever order they come."""
    with survivors() as one, survivors() as two, ThreadPoolExecutor(2) as threads:
        maps = tmp_path / "maps"
        for i in range(10):
            folder = tmp_path / str(i)
            answers = list(
                threads.map(lambda ask, folder=folder: ask(folder, epochs=2), (one, two))
            )
            assert any(answer["error"] is None for answer in answers)
            assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
            load_model(folder / "weights.pth")
            answers = list(
                threads.map(
                    lambda ask, n: ask(maps, job="draw", names=NEW, layers=n), (one, two), (1, 2)
                )
            )
            assert [answer["error"] for answer in answers] == [None, None]
            assert len(set(drawn(maps).values())) == 1
    assert not hidden(tmp_path)
