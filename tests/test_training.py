"""Training learns, can be stopped and resumed, and does the same with two processes as with one."""

import copy
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import environment, randomise
from survivor import toy_data, toy_fit, toy_model
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import mnist_vit
from mnist_vit.data import Loader, load_embedded
from mnist_vit.model import vit_mnist
from mnist_vit.optimizers import Muon, make_optimizers
from mnist_vit.training import accuracy_and_loss, follow, schedule, sincos_positions


def test_it_learns_and_tells(tmp_path: Path) -> None:
    model = toy_model()
    history = toy_fit(model, 20, run_dir=tmp_path, config={"a": 1})
    assert history[0]["loss"] == pytest.approx(0.693, abs=0.1)
    assert history[-1]["validation_accuracy"] == 1.0
    loss = pytest.approx(history[-1]["validation_loss"], abs=1e-5)
    assert accuracy_and_loss(model, Loader(toy_data(), 64)) == (1.0, loss)
    config = json.loads((tmp_path / "config.json").read_text())
    assert {
        "a": 1,
        "learning_rate": 0.01,
        "average": 0.5,
        "epochs": 20,
    }.items() <= config.items(), "what ran"
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == history
    assert [row["epoch"] for row in rows] == list(range(1, 21))


def test_first_loss_is_the_log_of_the_number_of_classes() -> None:
    loss = accuracy_and_loss(vit_mnist(7), Loader(load_embedded("validation"), 250))[1]
    assert loss == pytest.approx(2.302585, abs=1e-6)


def test_the_model_ends_with_the_averaged_weights() -> None:
    """The average starts as the weights after the first step; then half of it and half of the new
    ones."""
    model = toy_model()
    steps: list[torch.Tensor] = []
    hook = register_optimizer_step_post_hook(
        lambda *_: steps.append(model.heads.head.weight.detach().clone())
    )
    toy_fit(model, 2)
    hook.remove()
    expected = steps[0]
    for weights in steps[1:]:
        expected = 0.5 * expected + 0.5 * weights
    torch.testing.assert_close(model.heads.head.weight.detach(), expected, rtol=0, atol=1e-6)
    assert not torch.allclose(expected, steps[-1], rtol=0, atol=1e-4)
    assert not torch.allclose(expected, steps[0], rtol=0, atol=1e-4)


def test_double_is_trained_as_it_is_and_half_is_refused() -> None:
    model = toy_model().double()
    history = toy_fit(model, 20)
    assert history[-1]["validation_accuracy"] == 1.0
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    for kind in (torch.float16, torch.bfloat16):
        assert accuracy_and_loss(model.to(kind), Loader(toy_data(), 64))[0] == 1.0
        with pytest.raises(ValueError, match=rf"the parameters are {kind}.*train model.float\(\)"):
            toy_fit(model)


@pytest.mark.full
def test_the_average_of_a_short_run_does_not_hold_its_start(tmp_path: Path) -> None:
    few = load_embedded("train").select(torch.arange(0, 4000, 20), "200 digits")
    losses = {}
    for average in (0.0, 0.999):
        options = {
            "epochs": 10,
            "batch_size": 8,
            "average": average,
            "run_dir": tmp_path / str(average),
        }
        losses[average] = mnist_vit.train("vit_mnist_p7", few, **options)[-1]["validation_loss"]
    assert losses[0.999] == pytest.approx(losses[0.0], rel=0.05)  # 2.27 instead of 1.89, if it does


def test_the_average_is_torchs() -> None:
    """Parameters and buffers move as those of torch's AveragedModel, to the last bit."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    theirs, ours = (
        AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
        copy.deepcopy(model),
    )
    for step in range(5):
        with torch.no_grad():
            for value in model.parameters():
                value.add_(torch.randn(value.shape))
        model(torch.randn(16, 8))
        theirs.update_parameters(model)
        follow(ours, model, 0.0 if step == 0 else 0.9)
        for (key, a), (_, b) in zip(
            ours.state_dict().items(), theirs.module.state_dict().items(), strict=True
        ):
            assert torch.equal(a, b), key
    assert not torch.equal(ours[0].weight, model[0].weight)
    assert torch.equal(ours[1].running_mean, model[1].running_mean)


def test_schedule_rises_and_falls() -> None:
    shares = [schedule(step, 100, 0.15) for step in range(101)]
    assert shares[0] == pytest.approx(1 / 15)
    assert max(shares) == 1.0 == shares[14]
    assert shares[100] == pytest.approx(0, abs=1e-12)
    assert all(a >= b for a, b in itertools.pairwise(shares[14:]))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_only_matrices_decay(kind: str) -> None:
    model = vit_mnist(7)
    optimizers = make_optimizers(model, kind, 1e-3, 0.1)
    optimised: list[int] = []
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            optimised += [id(parameter) for parameter in group["params"]]
    assert sorted(optimised) == sorted(map(id, model.parameters()))
    assert not optimizers["adamw"].defaults["fused"], "on a CPU its results would be others"
    decayed, free = optimizers["adamw"].param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() >= 2 for p in decayed["params"])
    assert any(p is model.encoder.pos_embedding for p in free["params"])
    assert any(p is model.class_token for p in free["params"])
    if kind == "muon":
        (matrices,) = optimizers["muon"].param_groups
        assert [tuple(p.shape) for p in matrices["params"]] == 2 * [
            (192, 64),
            (64, 64),
            (256, 64),
            (64, 256),
        ]
        assert matrices["weight_decay"] == 0.1
        with pytest.raises(ValueError, match='"muon" is for the matrices of'):
            make_optimizers(nn.Linear(4, 4), "muon", 1e-3, 0.1)


@pytest.mark.parametrize("shape", [(48, 16), (16, 48)])
def test_muon_is_torchs_but_for_rounding(shape: tuple[int, int]) -> None:
    """Torch's orthogonalises in bfloat16, with 3 digits."""
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.zeros(shape)) for _ in range(2))
    options = {"lr": 0.1, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    pair = Muon([ours], **options), torch.optim.Muon([theirs], **options)
    for _ in range(4):
        ours.grad = theirs.grad = torch.randn(shape)
        for optimizer in pair:
            optimizer.step()
    assert (ours - theirs).norm() < 0.02 * theirs.norm()
    pair[1].load_state_dict(pair[0].state_dict())  # a GPU goes on with torch's


def test_sincos_positions_tell_rows_and_columns() -> None:
    model = vit_mnist(4)
    sincos_positions(model)
    embedding = model.encoder.pos_embedding[0].detach()
    assert not embedding[0].any()
    assert embedding[1:].std() == pytest.approx(0.04, abs=1e-4)
    grid = embedding[1:].view(7, 7, 64)
    assert torch.equal(grid[2, 1, :32], grid[2, 5, :32])  # the first half is the row
    assert torch.equal(grid[2, 1, 32:], grid[6, 1, 32:])  # the second half is the column
    near, far = (grid[3, 3] - grid[3, 4]).norm(), (grid[3, 3] - grid[0, 6]).norm()
    assert near < far


def test_tensorboard_writes_curves(tmp_path: Path) -> None:
    toy_fit(toy_model(), 2, run_dir=tmp_path, tensorboard=True)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path)).Reload()
    assert len(events.Scalars("validation_accuracy")) == 2


# --- jobs.train ---


def test_train_with_one_argument_keeps_device_mode_and_shipped_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without MNIST: the embedded digits, and what was used is said."""
    monkeypatch.setenv("MNIST_VIT_DATA", str(tmp_path / "none"))
    shipped = mnist_vit.weights.find_weights("vit_mnist_p7")
    before = shipped.read_bytes()
    model = vit_mnist(7).eval()
    torch.manual_seed(0)
    randomise(model)
    with torch.no_grad():
        model.heads.head.weight.zero_()
    history = mnist_vit.train(model, epochs=1)
    out = capsys.readouterr().out
    assert "training on 4,000 of the embedded MNIST digits" in out
    assert "validation on 1,000 of the embedded MNIST digits" in out
    assert len(history) == 1
    assert not model.training
    assert shipped.read_bytes() == before
    (run,) = (tmp_path / "runs").iterdir()
    assert {"config.json", "metrics.jsonl", "checkpoint.pth", "weights.pth", "weights.json"} <= {
        p.name for p in run.iterdir()
    }
    result = mnist_vit.evaluate(model)
    assert result.total == 1000, "the digits it was trained on are not held out"
    assert result.accuracy == pytest.approx(history[-1]["validation_accuracy"])
    assert len(mnist_vit.train(model, epochs=2, run_dir=run, resume=True)) == 2


def test_the_stored_recipe_and_command_say_what_was_run(tmp_path: Path) -> None:
    mnist_vit.train(
        "vit_mnist_p7",
        "embedded",
        epochs=1,
        position_start="sincos",
        save=tmp_path / "w.pth",
        seed=3,
    )
    about = json.loads((tmp_path / "w.json").read_text())
    assert about["recipe"]["position_start"] == "sincos"
    assert about["seed"] == 3
    assert all(
        words in about["command"] for words in ("train vit_mnist_p7", "--epochs 1", "--seed 3")
    )
    assert "--degrees" not in about["command"]
    assert len(about["history"]) == 1
    assert mnist_vit.load_model(tmp_path / "w.pth").patch_size == 7


@pytest.mark.full
def test_two_processes_train_like_one(tmp_path: Path) -> None:
    """torchrun, gloo, DistributedDataParallel: same global batch, same curve within rounding."""
    arguments = [
        "train",
        "vit_mnist_p7",
        "--data",
        "embedded",
        "--epochs",
        "1",
        "--device",
        "cpu",
        "--position-start",
        "sincos",
        "--keep-patches",
        "12",
        "--learning-rate",
        "5e-4",
        "--optimizer",
        "muon",
        "--elastic",
        "0.5",
        "--label-smoothing",
        "0.1",
    ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    for processes in ("1", "2"):
        command = [
            *torchrun,
            processes,
            "-m",
            "mnist_vit",
            *arguments,
            "--run-dir",
            str(tmp_path / processes),
        ]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.count("training on") == 1
    one, two = (json.loads((tmp_path / p / "metrics.jsonl").read_text()) for p in ("1", "2"))
    assert two["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert two["validation_loss"] == pytest.approx(one["validation_loss"], abs=1e-5)
    a, b = (torch.load(tmp_path / p / "weights.pth", weights_only=True) for p in ("1", "2"))
    assert max((a[key] - b[key]).abs().max() for key in a) < 1e-4
