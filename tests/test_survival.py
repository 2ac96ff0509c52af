"""Training, weights and maps survive a kill, Ctrl-C, a full disk, damaged checkpoints and nan."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import Bomb, environment
from survivor import digest, toy_data, toy_fit, toy_maps, toy_model
from torch import nn

from mnist_vit import jobs
from mnist_vit.attention import attention_weights
from mnist_vit.data import Loader
from mnist_vit.errors import WeightsError
from mnist_vit.evaluation import evaluate_model
from mnist_vit.files import locked
from mnist_vit.gallery import save_attention_images
from mnist_vit.training import accuracy_and_loss
from mnist_vit.weights import load_model, save_weights

FILES = ["checkpoint.pth", "checkpoint_previous.pth", "config.json", "metrics.jsonl"]
FIRST = [name for name in FILES if "previous" not in name]  # after one epoch
OLD = ["a", "b", "c"]  # the images of an older page, of 3 layers
NEW = ["a", "b"]  # and of a newer one, of 2
FAULTS = pytest.mark.parametrize("how", ["kill", "ENOSPC"], ids=["killed", "disk full"])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files(folder)}


def rows(folder: Path) -> list[dict]:
    """The stored history; a line cut in half would be an error."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def timeless(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in history]


def epochs_in(path: Path) -> int:
    return len(torch.load(path, weights_only=True)["history"])


def digest_of(state: dict[str, torch.Tensor]) -> str:
    model = toy_model()
    model.load_state_dict(state)
    return digest(model)


@pytest.fixture(scope="module")
def whole() -> dict[int, str]:
    """The digest of a model after a number of epochs that nothing disturbed."""
    found = {}
    for epochs in (3, 4):
        model = toy_model()
        toy_fit(model, epochs)
        found[epochs] = digest(model)
    return found


# --- a kill, or a disk that becomes full, at any step of all that writes ---


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[..., dict]]:
    """Ask a process that forks for each job (``survivor.work``); the answer has its status."""
    if not hasattr(os, "fork"):
        pytest.skip("runs are killed where processes can be forked, not on Windows")
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("survivor.py"))],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(folder: Path, **wish: object) -> dict:
        process.stdin.write(json.dumps({"folder": str(folder), **wish}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    with process:
        yield ask
        process.stdin.close()


def hidden(folder: Path) -> list[Path]:
    """What a write that was cut short left behind."""
    return list(folder.rglob(".mnist_vit-*"))


def moments(steps: int, stride: int) -> Iterator[int]:
    """The first step, every ``stride``-th one, and the last."""
    yield from range(1, steps, stride)
    yield steps


@pytest.mark.parametrize(
    ("how", "stride"),
    [
        pytest.param("kill", 0, id="killed"),
        pytest.param("kill", 31, id="killed anywhere", marks=pytest.mark.full),
        pytest.param("ENOSPC", 31, id="disk full anywhere", marks=pytest.mark.full),
    ],
)
def test_stopped_and_resumed_is_as_if_never_stopped(
    run: Callable, tmp_path: Path, how: str, stride: int
) -> None:
    """Weights and metrics are the same, bit for bit, and nothing half written is left."""
    undisturbed = run(tmp_path / "whole", job="train", epochs=3)
    steps, answer = undisturbed["steps"], undisturbed["answer"]
    history = timeless(rows(tmp_path / "whole"))
    folder = tmp_path / "run"
    # a checkpoint, and the final save, or the whole run
    for at in moments(steps, stride) if stride else (int(0.5 * steps), steps - 1):
        stopped = run(folder, job="train", epochs=3, at=at, how=how)
        if how == "kill":
            assert stopped["status"] == -signal.SIGKILL
        else:
            # At the last steps nothing is left to write: the run ends as if nothing had happened.
            is_whole = (stopped["error"], stopped["answer"]) == (None, answer)
            assert is_whole or str(folder) in stopped["error"]
            assert not hidden(folder)
        if (folder / "metrics.jsonl").exists():
            kept = timeless(rows(folder))
            assert kept == history[: len(kept)]
        again = run(folder, job="train", epochs=3)
        assert (again["error"], again["answer"]) == (None, answer)
        assert timeless(rows(folder)) == history
        assert digest_of(torch.load(folder / "weights.pth", weights_only=True)) == answer
        assert files(folder) == [*FILES, "weights.json", "weights.pth"]
        shutil.rmtree(folder)


@pytest.mark.full
@FAULTS
def test_weights_are_the_old_pair_or_the_new_one(run: Callable, tmp_path: Path, how: str) -> None:
    folder = tmp_path / "weights"
    steps = run(folder, job="save", seed=1)["steps"]
    old_or_new = [digest(toy_model(seed)) for seed in (1, 2)]
    for at in moments(steps, stride=1):
        assert run(folder, job="save", seed=1)["error"] is None
        run(folder, job="save", seed=2, at=at, how=how)
        assert digest(load_model(folder / "w.pth")) in old_or_new


def drawn(folder: Path) -> dict[str, int]:
    """The number of layers of each image folder, all of which are whole."""
    found = {}
    for name in OLD:
        if (folder / name).is_dir():
            stored = json.loads((folder / name / "attention.json").read_text())
            layers = len(stored["layers_heads_rows_columns"])
            expected = {"image.png", "relevance.png", "rollout.png", "attention.json"}
            for layer in range(layers):
                expected |= {f"layer_{layer}_head_{head}.png" for head in (0, 1)}
            assert {path.name for path in (folder / name).iterdir()} - {"my notes"} == expected
            found[name] = layers
    return found


@pytest.mark.full
@FAULTS
def test_image_folders_are_whole_and_of_one_model(run: Callable, tmp_path: Path, how: str) -> None:
    """At the latest after the next drawing; what is not ours stays."""
    old = tmp_path / "old"
    folder = tmp_path / "maps"
    of_old = dict.fromkeys(OLD, 3)
    of_new = dict.fromkeys(NEW, 2)
    toy_maps(old, OLD, layers=3, two=True)
    (old / ".mine.part").write_text("mine")
    (old / "a" / "my notes").write_text("mine too")
    shutil.copytree(old, folder)
    steps = run(folder, job="draw", names=NEW, two=True)["steps"]
    shutil.rmtree(folder)
    for at in moments(steps, stride=7):
        shutil.copytree(old, folder)
        run(folder, job="draw", names=NEW, two=True, at=at, how=how)
        if "2 layers" in (folder / "index.html").read_text():
            assert drawn(folder) == of_new, "the page comes last"
            assert "2 layers" in (folder / "smallest.html").read_text(), "after the one beside it"
        drawn(folder)
        assert run(folder, job="draw", names=["z"], page=False)["error"] is None
        assert drawn(folder) in (of_old, of_new), "a swap that was cut short is ended"
        assert ("2 layers" in (folder / "index.html").read_text()) == (drawn(folder) == of_new)
        assert run(folder, job="draw", names=NEW, two=True)["error"] is None
        assert drawn(folder) == of_new
        assert not hidden(folder)
        assert (folder / ".mine.part").read_text() == "mine"
        assert (folder / "a" / "my notes").read_text() == "mine too"
        shutil.rmtree(folder)


def test_a_full_disk_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[int, str]
) -> None:
    """In epoch 2 of 3; the checkpoint of epoch 1 stays, and that of epoch 3 takes its place.

    The log, too, cannot be written.
    """

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def before_epoch(epoch: int) -> None:
        if epoch == 1:
            monkeypatch.setattr("mnist_vit.files.os.fsync", fail)
            monkeypatch.setattr("sys.stdout", SimpleNamespace(write=fail, flush=fail))
        if epoch == 2:
            monkeypatch.undo()
            assert files(tmp_path) == FIRST, "nothing half written is left"
            assert epochs_in(tmp_path / "checkpoint.pth") == 1 == len(rows(tmp_path))

    model = toy_model()
    with pytest.warns(UserWarning, match=r"epoch 2.*checkpoint\.pth.*No space left") as caught:
        history = toy_fit(model, 3, run_dir=tmp_path, before_epoch=before_epoch)
    assert len(caught) == 1
    assert rows(tmp_path) == history
    assert epochs_in(tmp_path / "checkpoint.pth") == 3
    assert digest(model) == whole[3]


# --- the stop button ---


class StopButton(Loader):
    """Ctrl-C before a batch of an epoch, both counted from 0."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__(toy_data(), 16, shuffle=True, augmentation={"degrees": 5})
        self.at = (epoch, batch)

    def __iter__(self) -> Iterator:
        for number, batch in enumerate(super().__iter__()):
            if (self.epoch, number) == self.at:
                raise KeyboardInterrupt
            yield batch


def stopped(folder: Path | None, epoch: int, batch: int, *model: nn.Module, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        toy_fit(*model or [toy_model()], 4, StopButton(epoch, batch), run_dir=folder, **options)


@pytest.mark.parametrize(
    ("epoch", "batch", "options", "checkpoints"),
    [
        (2, 0, {}, [2, 1]),
        (2, 3, {}, [2, 1]),
        (3, 3, {"optimizer": "muon", "checkpoint_every": 2}, [2]),
    ],
    ids=["between epochs", "in an epoch", "muon, every second epoch"],
)
def test_stopped_is_told_and_resumes_and_never_writes_over_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    epoch: int,
    batch: int,
    options: dict[str, Any],
    checkpoints: list[int],
) -> None:
    model = toy_model().eval()
    model.encoder.dropout.train()
    modes = [module.training for module in model.modules()]
    stopped(tmp_path, epoch, batch, model, **options)
    out = capsys.readouterr().out
    assert f"{epoch} of 4 epochs" in out
    for how in (f'run_dir="{tmp_path}", resume=True', f"--run-dir {tmp_path} --resume"):
        assert how in out, "in Python, and on the command line"
    assert [module.training for module in model.modules()] == modes
    names = FILES[: len(checkpoints)]
    assert files(tmp_path) == [*names, *FILES[2:]]
    assert [epochs_in(tmp_path / name) for name in names] == checkpoints
    averaged = torch.load(tmp_path / "checkpoint.pth", weights_only=True)["averaged"]
    assert (digest(model) == digest_of(averaged)) == (batch == 0), "three steps were done, or none"

    before = contents(tmp_path)
    with pytest.raises(ValueError, match="resume=True"):
        toy_fit(toy_model(), 4, run_dir=tmp_path)
    assert contents(tmp_path) == before
    again, undisturbed = toy_model(seed=9), toy_model()
    resumed = toy_fit(again, 4, run_dir=tmp_path, resume=True, **options)
    assert timeless(resumed) == timeless(toy_fit(undisturbed, 4, **options))
    assert rows(tmp_path) == resumed
    assert digest(again) == digest(undisturbed)


def test_without_a_checkpoint_there_is_nothing_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="run_dir"):
        toy_fit(toy_model(), resume=True)
    for folder in (tmp_path / "mistyped", tmp_path):
        with pytest.raises(ValueError, match=f"no run .*{folder.name}"):
            toy_fit(toy_model(), 2, run_dir=folder, resume=True)
    assert files(tmp_path) == []
    for folder in (None, tmp_path):
        stopped(folder, 0, 2)
        out = capsys.readouterr().out
        assert "0 of 4 epochs" in out
        assert "resume=True" not in out
    toy_fit(toy_model(), 1, run_dir=tmp_path, resume=True)
    assert f"{tmp_path} has no checkpoint" in capsys.readouterr().out


def test_digits_seen_before_the_stop_are_not_called_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object, before_epoch: Callable[[int], None], **__: object) -> None:
        before_epoch(0)
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "fit", stop)
    model = toy_model()
    with pytest.raises(KeyboardInterrupt):
        jobs.train(model, toy_data())
    assert model.about["trained_on"] == ["toy"]


# --- a run goes on as it began, or not at all ---


def test_other_settings_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    data = {"data": "toy", "seed": 0}
    toy_fit(toy_model(), 2, run_dir=tmp_path, config=data)
    before = contents(tmp_path)
    again = {"epochs": 3, "config": data, "run_dir": tmp_path, "resume": True}
    for said, changed in {
        "learning_rate.* 0.01.* 0.02": {"learning_rate": 0.02},
        "seed.* 0.* 3": {"config": {**data, "seed": 3}},
        "data.* toy.* None": {"config": {"seed": 0}},
        # the run is of a version without it
        "shear.* 0.0": {"config": {**data, "shear": 0.0}},
        "batches.* 4.* 2": {"loader": Loader(toy_data(32), 16, shuffle=True)},
    }.items():
        with pytest.raises(ValueError, match=said):
            toy_fit(toy_model(), **(again | changed))
        assert contents(tmp_path) == before
    with pytest.warns(UserWarning, match="epochs.* 2.* 3"):  # another schedule
        assert len(toy_fit(toy_model(), checkpoint_every=2, **again)) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        toy_fit(toy_model(), **again)


@pytest.mark.parametrize("kind", ["half", "altered", "gone"])
def test_a_damaged_checkpoint_costs_one_epoch(
    tmp_path: Path, whole: dict[int, str], kind: str
) -> None:
    """It is said, and the good checkpoint is never put in danger."""
    model = toy_model(seed=9)
    path = tmp_path / "checkpoint.pth"
    stopped(tmp_path, 3, 0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content if kind == "altered" else content[:999])
    if kind == "gone":
        path.unlink()
    good = (tmp_path / "checkpoint_previous.pth").read_bytes()

    def before_epoch(epoch: int) -> None:
        assert epoch >= 2
        assert (tmp_path / "checkpoint_previous.pth").read_bytes() == good

    with pytest.warns(UserWarning, match=r"checkpoint\.pth .*epoch 2"):
        toy_fit(model, 4, run_dir=tmp_path, resume=True, before_epoch=before_epoch)
    assert digest(model) == whole[4]
    assert [epochs_in(tmp_path / name) for name in FILES[:2]] == [4, 3]


MEANINGS: dict[str, Callable[[dict], Any]] = {  # a whole file, and not what was written
    "a shorter history": lambda content: content["history"].pop(),
    "no optimizer": lambda content: content["adamw"]["state"].clear(),
    "no settings": lambda content: content.pop("settings"),
}


@pytest.mark.parametrize(
    "kind", ["a folder", "weights", "another model", "code", "a number", *MEANINGS]
)
def test_a_checkpoint_that_does_not_fit_is_named_and_the_model_stays(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "checkpoint.pth"
    toy_fit(toy_model(), 1, run_dir=tmp_path)
    content = torch.load(path, weights_only=True)
    model = toy_model(seed=5)
    if kind == "a folder":
        path.unlink()
        path.mkdir()
    elif kind == "weights":
        save_weights(model, path)
    elif kind == "another model":
        model.heads.head = nn.Linear(16, 3)
    elif kind in ("code", "a number"):
        torch.save(Bomb(tmp_path / "ran") if kind == "code" else 3, path)
    else:
        MEANINGS[kind](content)
        torch.save(content, path)
    before = digest(model)
    with pytest.raises(WeightsError, match=r"checkpoint\.pth "):
        toy_fit(model, 1, run_dir=tmp_path, resume=True)
    assert digest(model) == before
    assert not (tmp_path / "ran").exists(), "code of the file was run"


def test_a_second_run_into_the_same_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def before_epoch(epoch: int) -> None:
        seen = FIRST if epoch else FIRST[1:]
        assert files(tmp_path) == seen, "the lock is not a file that is seen"
        with pytest.raises(BlockingIOError, match=str(tmp_path)):
            toy_fit(toy_model(), 1, run_dir=tmp_path, resume=True)
        refused.append(epoch)

    toy_fit(toy_model(), 2, run_dir=tmp_path, before_epoch=before_epoch)
    assert refused == [0, 1]
    toy_fit(toy_model(), 2, run_dir=tmp_path, resume=True)  # afterwards the folder is free

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no locks on this drive")

    if os.name != "nt":
        monkeypatch.setattr("fcntl.flock", no_locks)
    assert len(toy_fit(toy_model(), 1, run_dir=tmp_path / "drive")) == 1


@pytest.mark.full
def test_a_refusal_of_one_process_ends_them_all(tmp_path: Path) -> None:
    """torchrun ends the other processes when one gives up; only process 0 writes and locks."""
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node 2 -m mnist_vit"
    train = f"train vit_mnist_p7 --data embedded --device cpu --run-dir {tmp_path}"
    command = [sys.executable, *torchrun.split(), *train.split()]
    with locked(tmp_path):
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode != 0
    assert str(tmp_path) in done.stderr
    assert files(tmp_path) == []


# --- the same bits, nan, modes ---


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(
    whole: dict[int, str],
) -> None:
    models = [toy_model(), toy_model()]
    for seed, model in enumerate(models):
        toy_fit(model, 3, seed=seed)
    assert digest(models[0]) == whole[3] != digest(models[1])


@pytest.mark.parametrize("spoilt", [9, 12], ids=["in the first step", "in the last step"])
def test_nan_ends_the_run_with_its_epoch_and_keeps_the_good_checkpoint(
    tmp_path: Path, spoilt: int
) -> None:
    """In the last step no loss of the epoch shows it: the weights are spoilt after it was
    measured."""
    model = toy_model()
    steps = 0

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        steps += 1
        return gradient * float("nan") if steps == spoilt else gradient

    model.heads.head.weight.register_hook(spoil)
    with pytest.raises(ValueError, match=r"epoch 3.*nan.*learning_rate.*0\.01") as raised:
        toy_fit(model, 9, run_dir=tmp_path)
    assert steps == 12, "no step of the next epoch"
    assert str(tmp_path / "checkpoint.pth") in str(raised.value)
    kept = torch.load(tmp_path / "checkpoint.pth", weights_only=True)
    assert len(kept["history"]) == 2 == len(rows(tmp_path))
    for part in ("model", "averaged"):
        assert all(value.isfinite().all() for value in kept[part].values())


def test_modes_are_put_back_also_after_an_exception(tmp_path: Path) -> None:
    data = toy_data()
    images = data.normalise(data.images)
    model = toy_model()
    model.encoder.eval()
    modes = [module.training for module in model.modules()]
    uses = {
        "fit": lambda: toy_fit(model, 1),
        "accuracy_and_loss": lambda: accuracy_and_loss(model, Loader(data, 50)),
        "evaluate_model": lambda: evaluate_model(model, Loader(data, 50), data.classes, data.name),
        "attention_weights": lambda: attention_weights(model, images),
        "save_attention_images": lambda: save_attention_images(
            model, images[:1], data.images[:1], ["x"], tmp_path, data.classes
        ),
    }

    def fail(*_: object) -> None:
        raise MemoryError

    for fails in (False, True):
        if fails:
            model.heads.register_forward_hook(fail)
        for name, use in uses.items():
            with pytest.raises(MemoryError) if fails else nullcontext():
                use()
            assert [module.training for module in model.modules()] == modes, name
