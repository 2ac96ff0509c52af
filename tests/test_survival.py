"""Training survives being killed, stopped, a full disk, nan, and a second run into the same
folder."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from helpers import environment
from survivor import toy_data, toy_fit, toy_model
from torch import nn
from tqdm.auto import tqdm

from mnist_vit import jobs
from mnist_vit.attention import attention_weights
from mnist_vit.data import ImageData, Loader
from mnist_vit.errors import WeightsError
from mnist_vit.evaluation import evaluate_model
from mnist_vit.files import locked
from mnist_vit.gallery import save_attention_images
from mnist_vit.runs import newest_checkpoint
from mnist_vit.training import accuracy_and_loss
from mnist_vit.weights import save_weights

FIRST = ["checkpoint.pth", "config.json", "metrics.jsonl"]  # after one epoch
FILES = ["checkpoint.pth", "checkpoint_previous.pth", "config.json", "metrics.jsonl"]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rows(folder: Path) -> list[dict]:
    """The stored history; a line cut in half would be an error."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def timeless(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in history]


def same(a: dict, b: dict) -> bool:
    return list(a) == list(b) and all(torch.equal(a[key], b[key]) for key in a)


# --- SIGKILL ---


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


@pytest.mark.parametrize("moment", [0.4, 0.999], ids=["in a checkpoint", "in the final save"])
def test_killed_and_resumed_is_as_if_never_killed(
    run: Callable, tmp_path: Path, moment: float
) -> None:
    """In the middle of a write; many more of them: test_faults.py."""
    whole = run(tmp_path / "whole", job="train", epochs=4)
    history = timeless(rows(tmp_path / "whole"))
    folder = tmp_path / "run"
    killed = run(folder, job="train", epochs=4, at=int(moment * whole["steps"]))
    assert killed["status"] == signal.SIGKILL
    kept = timeless(rows(folder))
    assert kept == history[: len(kept)]
    torch.load(folder / "checkpoint.pth", weights_only=True)

    assert run(folder, job="train", epochs=4)["answer"] == whole["answer"]
    assert timeless(rows(folder)) == history
    saved = torch.load(folder / "weights.pth", weights_only=True)
    assert same(saved, torch.load(tmp_path / "whole" / "weights.pth", weights_only=True))
    assert files(folder) == [*FILES, "weights.json", "weights.pth"], "nothing half written is left"


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not() -> None:
    models = [toy_model(), toy_model(), toy_model()]
    first, second, other = (
        timeless(toy_fit(model, seed=seed)) for model, seed in zip(models, (0, 0, 1), strict=True)
    )
    assert first == second != other
    assert same(models[0].state_dict(), models[1].state_dict())


# --- the stop button ---


class StopButton(Loader):
    """Sends this process the signal of Ctrl-C before one batch of one epoch, both counted from
    0."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__(toy_data(), 16, shuffle=True, augmentation={"degrees": 5})
        self.at = (epoch, batch)

    def __iter__(self) -> Iterator:
        for number, batch in enumerate(super().__iter__()):
            if (self.epoch, number) == self.at:
                before = signal.signal(
                    signal.SIGINT, signal.default_int_handler
                )  # a job in the background has none
                try:
                    signal.raise_signal(signal.SIGINT)
                finally:
                    signal.signal(signal.SIGINT, before)
            yield batch


def test_stopped_leaves_a_checkpoint_a_usable_model_and_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[tqdm] = []

    class Bar(tqdm):
        def __init__(self, *args: object, **keywords: object) -> None:
            super().__init__(*args, **keywords)
            self.closed = False
            bars.append(self)

        def close(self) -> None:
            self.closed = True
            super().close()

    monkeypatch.setattr("mnist_vit.console.bar_class", lambda: Bar)
    model = toy_model().eval()
    model.encoder.dropout.train()
    modes = [module.training for module in model.modules()]
    with pytest.raises(KeyboardInterrupt):
        toy_fit(model, 4, StopButton(2, 0), run_dir=tmp_path)
    out = capsys.readouterr().out
    assert "stopped after 2 of 4 epochs. The model holds the averaged weights." in out
    assert (
        f'call again with run_dir="{tmp_path}", resume=True (command line: --run-dir {tmp_path}'
        " --resume)" in out
    )
    assert [module.training for module in model.modules()] == modes
    assert [bar.closed for bar in bars] == [True] * 3
    assert files(tmp_path) == FILES
    kept = torch.load(tmp_path / "checkpoint.pth", weights_only=True)
    assert len(kept["history"]) == 2 == len(rows(tmp_path))
    assert len(torch.load(tmp_path / "checkpoint_previous.pth", weights_only=True)["history"]) == 1
    assert same(model.state_dict(), kept["averaged"]), "no step was done after the checkpoint"


@pytest.mark.parametrize("batch", [0, 3])
def test_stopped_and_run_again_resumes_and_never_writes_over_it(tmp_path: Path, batch: int) -> None:
    whole = toy_model()
    toy_fit(whole, 4)
    with pytest.raises(KeyboardInterrupt):
        toy_fit(toy_model(), 4, StopButton(1, batch), run_dir=tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FIRST}
    with pytest.raises(
        ValueError, match=r"already contains a run: name another folder, or set resume=True"
    ):
        toy_fit(toy_model(), 4, run_dir=tmp_path)
    assert before == {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    again = toy_model(seed=9)
    assert len(toy_fit(again, 4, run_dir=tmp_path, resume=True)) == 4
    assert same(again.state_dict(), whole.state_dict())


def test_stopped_before_the_first_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(KeyboardInterrupt):
            toy_fit(toy_model(), 4, StopButton(0, 2), run_dir=folder)
        assert "stopped after 0 of 4 epochs" in (out := capsys.readouterr().out)
        assert "There is no checkpoint: calling again starts a new run" in out


def test_digits_seen_before_the_stop_are_not_called_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, before_epoch: Callable[[int], None], **__: object) -> None:
        before_epoch(0)
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "fit", stop)
    model = toy_model()
    with pytest.raises(KeyboardInterrupt):
        jobs.train(model, toy_data(), run_dir=tmp_path)
    assert model.about["trained_on"] == ["toy"]
    with pytest.raises(ValueError, match="resume=True needs run_dir"):
        jobs.train(model, toy_data(), resume=True)
    with pytest.raises(ValueError, match="resume=True and tensorboard=True need a run_dir"):
        toy_fit(model, resume=True)


# --- what is there before is looked at before anything is written ---


def test_a_run_goes_on_as_it_began_or_not_at_all(tmp_path: Path) -> None:
    data = {"data": "toy", "seed": 0}
    toy_fit(toy_model(), 2, run_dir=tmp_path, config=data)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    few = Loader(toy_data(32), 16, shuffle=True)
    for said, changed in {
        "learning_rate was 0.01, is 0.02": {"learning_rate": 0.02},
        "weight_decay was 0.1, is 0.5": {"weight_decay": 0.5},
        "seed was 0, is 3": {"config": {**data, "seed": 3}},
        "data was toy, is digits": {"config": {**data, "data": "digits"}},
        "data was toy, is None": {"config": {"seed": 0}},
        "shear was not stored, is 0.0": {
            "config": {**data, "shear": 0.0}
        },  # the run is of a version without it
        "batches was 4, is 2": {"loader": few},
    }.items():
        with pytest.raises(ValueError, match=rf"contains a run with other settings \({said}\)"):
            toy_fit(
                toy_model(),
                **{"epochs": 3, "config": data, "run_dir": tmp_path, "resume": True, **changed},
            )
        assert before == {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    assert (
        len(toy_fit(toy_model(), 3, run_dir=tmp_path, resume=True, config=data, checkpoint_every=2))
        == 3
    )


def test_resume_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path / "mistyped", tmp_path):
        with pytest.raises(ValueError, match="there is no run to resume in"):
            toy_fit(toy_model(), 2, run_dir=folder, resume=True)
    assert files(tmp_path) == []
    with pytest.raises(KeyboardInterrupt):
        toy_fit(toy_model(), 2, StopButton(0, 2), run_dir=tmp_path)
    toy_fit(toy_model(), 1, run_dir=tmp_path, resume=True)
    assert "has no checkpoint yet: the run starts from the beginning" in capsys.readouterr().out
    (tmp_path / "folder" / "checkpoint.pth").mkdir(parents=True)
    for resume, said in (
        (True, r"checkpoint\.pth cannot be resumed from .*[Dd]irect"),
        (False, "already contains a run"),
    ):
        with pytest.raises((WeightsError, ValueError), match=said):
            toy_fit(toy_model(), 2, run_dir=tmp_path / "folder", resume=resume)


@pytest.mark.parametrize("kind", ["half", "altered", "gone"])
def test_a_damaged_checkpoint_costs_one_epoch(tmp_path: Path, kind: str) -> None:
    """It is said, the run ends as if nothing had been, and the good checkpoint is never put in
    danger."""
    whole = toy_model()
    model = toy_model(seed=9)
    path = tmp_path / "checkpoint.pth"
    toy_fit(whole, 4)
    with pytest.raises(KeyboardInterrupt):
        toy_fit(toy_model(), 4, StopButton(3, 0), run_dir=tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content if kind == "altered" else content[:999])
    if kind == "gone":
        path.unlink()
    good = (tmp_path / "checkpoint_previous.pth").read_bytes()

    def before_epoch(epoch: int) -> None:
        assert epoch >= 2
        assert epoch == 3 or (tmp_path / "checkpoint_previous.pth").read_bytes() == good

    with pytest.warns(
        UserWarning,
        match=r"checkpoint\.pth cannot be resumed from .*the one before it, after epoch 2",
    ):
        toy_fit(model, 4, run_dir=tmp_path, resume=True, before_epoch=before_epoch)
    assert same(model.state_dict(), whole.state_dict())
    kept = [len(torch.load(tmp_path / name, weights_only=True)["history"]) for name in FILES[:2]]
    assert kept == [4, 3]


# --- the log ---


def test_a_log_that_cannot_be_written_does_not_end_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Log:
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "full")

        flush = write

    monkeypatch.setattr("sys.stdout", Log())
    with pytest.raises(KeyboardInterrupt):
        toy_fit(toy_model(), 3, StopButton(2, 1), run_dir=tmp_path)
    assert len(rows(tmp_path)) == 2


# --- the disk ---


def test_a_full_disk_is_a_warning(tmp_path: Path) -> None:
    """In epoch 2 of 3; the checkpoint of epoch 1 stays whole, and that of epoch 3 takes its
    place."""

    disk = pytest.MonkeyPatch()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def before_epoch(epoch: int) -> None:
        if epoch == 1:
            disk.setattr("mnist_vit.files.os.fsync", fail)
        if epoch == 2:
            disk.undo()
            kept = torch.load(newest_checkpoint(tmp_path), weights_only=True)
            assert len(kept["history"]) == 1 == len(rows(tmp_path))
            assert files(tmp_path) == FIRST, "nothing half written is left"

    model, whole = toy_model(), toy_model()
    match = r"after epoch 2: .*checkpoint\.pth could not be written \(No space left on device\)"
    with pytest.warns(UserWarning, match=match) as caught:
        history = toy_fit(model, 3, run_dir=tmp_path, before_epoch=before_epoch)
    assert "free disk space, or name another folder" in str(caught[0].message)
    assert len(caught) == 1
    assert rows(tmp_path) == history
    assert len(torch.load(tmp_path / "checkpoint.pth", weights_only=True)["history"]) == 3
    toy_fit(whole, 3)
    assert same(model.state_dict(), whole.state_dict())


# --- nan ---


@pytest.mark.parametrize("where", ["in the first step", "in the last step"])
def test_nan_ends_the_run_with_its_epoch_and_keeps_the_good_checkpoint(
    tmp_path: Path, where: str
) -> None:
    """In the last step no loss of the epoch shows it: the weights are spoilt after it was
    measured."""
    model = toy_model()
    steps = 0
    spoilt = 9 if where == "in the first step" else 12

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        steps += 1
        return gradient * float("nan") if steps == spoilt else gradient

    model.heads.head.weight.register_hook(spoil)
    with pytest.raises(
        ValueError, match=r"epoch 3: the loss is .*nan.*a smaller learning_rate than 0\.01"
    ) as said:
        toy_fit(model, 9, run_dir=tmp_path)
    assert steps == 12, "no step of the next epoch"
    assert f"{tmp_path / 'checkpoint.pth'} contains the epochs before" in str(said.value)
    kept = torch.load(tmp_path / "checkpoint.pth", weights_only=True)
    assert len(kept["history"]) == 2 == len(rows(tmp_path))
    assert all(
        value.isfinite().all() for value in [*kept["model"].values(), *kept["averaged"].values()]
    )


# --- one run to a folder ---


def test_a_second_run_into_the_same_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def before_epoch(epoch: int) -> None:
        seen = FIRST if epoch else FIRST[1:]
        assert files(tmp_path) == seen, "the lock is not a file that is seen"
        with pytest.raises(
            BlockingIOError, match=r"another run is writing to .*: wait for it, or name another"
        ):
            toy_fit(toy_model(), 1, run_dir=tmp_path, resume=True)
        refused.append(epoch)

    toy_fit(toy_model(), 2, run_dir=tmp_path, before_epoch=before_epoch)
    assert refused == [0, 1]
    assert len(toy_fit(toy_model(), 3, run_dir=tmp_path, resume=True)) == 3, (
        "afterwards the folder is free"
    )

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no locks on this drive")

    if os.name != "nt":
        monkeypatch.setattr("fcntl.flock", no_locks)
    assert len(toy_fit(toy_model(), 1, run_dir=tmp_path / "drive")) == 1


@pytest.mark.full
def test_a_refusal_of_one_process_ends_them_all(tmp_path: Path) -> None:
    """torchrun ends the other processes when one gives up; only process 0 writes and locks."""
    launcher = "-m torch.distributed.run --standalone --nproc-per-node 2 -m mnist_vit"
    torchrun = [sys.executable, *launcher.split()]
    command = [
        *torchrun,
        "train",
        "vit_mnist_p7",
        "--data",
        "embedded",
        "--device",
        "cpu",
        "--run-dir",
        str(tmp_path),
    ]
    with locked(tmp_path):
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode != 0
    assert f"another run is writing to {tmp_path}" in done.stderr
    assert files(tmp_path) == []


# --- checkpoints of others, and modes ---


@pytest.mark.parametrize("kind", ["altered", "empty", "weights", "another model"])
def test_a_checkpoint_that_does_not_fit_is_named_and_the_model_stays(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "checkpoint.pth"
    toy_fit(toy_model(), 1, run_dir=tmp_path)
    model = toy_model(seed=5)
    content = bytearray(path.read_bytes())
    if kind == "altered":
        weights = torch.load(path, weights_only=True)["model"]["conv_proj.weight"].numpy().tobytes()
        content[content.index(weights) + 5] ^= 64
        path.write_bytes(content)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "weights":
        save_weights(model, path)
    else:
        model.heads.head = nn.Linear(16, 3)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(
        WeightsError, match=r"checkpoint\.pth cannot be resumed from .*name another"
    ):
        toy_fit(model, 2, run_dir=tmp_path, resume=True)
    assert same(model.state_dict(), before)


def test_modes_are_put_back_also_after_an_exception(tmp_path: Path) -> None:
    data: ImageData = toy_data()
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
    for name, use in uses.items():
        use()
        assert [module.training for module in model.modules()] == modes, name

    def fail(*_: object) -> None:
        raise MemoryError

    model.heads.register_forward_hook(fail)
    for name, use in uses.items():
        with pytest.raises(MemoryError):
            use()
        assert [module.training for module in model.modules()] == modes, name
