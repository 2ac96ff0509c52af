"""What ``train`` does where its user has not chosen: settings, sizes, class head, threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import assert_says, environment
from PIL import Image
from torch import nn

import mnist_vit
from mnist_vit import jobs
from mnist_vit.commands import Train
from mnist_vit.data import load_embedded
from mnist_vit.devices import choose_threads, restoring_threads
from mnist_vit.errors import WeightsError
from mnist_vit.model import vit_mnist
from mnist_vit.recipe import Task, suited_to
from mnist_vit.starting import Forecast, Start, _was_trained, find_data
from mnist_vit.weights import read_json

OURS = {"encoder": True, "positions": True}
DIGITS = Task(pictures=4000, size=28, channels=1, patches=16, **OURS)
PHOTOS = Task(pictures=45_000, size=32, channels=3, patches=64, **OURS)


def few() -> mnist_vit.data.ImageData:
    """125 digits."""
    return load_embedded("train").select(torch.arange(0, 4000, 32), "125 digits")


def colour_folder(folder: Path, classes: tuple[str, ...] = ("red", "green")) -> Path:
    for channel, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(20):
            colour = [10 * i % 40] * 3
            colour[channel] = 200
            Image.new("RGB", (40, 30), tuple(colour)).save(folder / name / f"{i}.png")
    return folder


def test_the_recipe_suits_the_images() -> None:
    digits = suited_to(DIGITS)
    assert (digits.optimizer, digits.learning_rate, digits.epochs) == ("muon", 0.006, 40)
    assert (digits.elastic, digits.flip, digits.keep_patches) == (0.7, False, None)
    assert digits.position_start == "sincos"
    photos = suited_to(PHOTOS)
    assert (photos.flip, photos.shift, photos.elastic, photos.colour) == (True, 4.0, 0.0, 0.4)
    assert photos.keep_patches == 32
    assert photos.epochs < 20
    other = suited_to(Task(pictures=4000, size=28, channels=1))
    assert (other.optimizer, other.position_start, other.keep_patches) == ("adamw", None, None)
    clothes = suited_to(Task(pictures=55_000, size=28, channels=1, clothes=True))
    assert (clothes.flip, clothes.elastic) == (True, 0.0)


@pytest.mark.parametrize("pictures", [270, 1000, 4000, 10_000])
def test_a_run_has_about_2500_steps_or_more(pictures: int) -> None:
    recipe = suited_to(Task(pictures=pictures, size=28, channels=1))
    assert recipe.epochs * (pictures // recipe.batch_size) >= 2300


@pytest.mark.parametrize("pictures", [270, 1000])
def test_few_photographs_are_not_learned_by_heart(pictures: int) -> None:
    """What longer runs did is in benchmarks/results/photographs.json's script."""
    few = suited_to(Task(pictures=pictures, size=32, channels=3))
    assert few.epochs == 60
    assert suited_to(Task(pictures=4000, size=32, channels=3)).epochs < 60


def test_given_settings_win_also_those_that_turn_something_off() -> None:
    given = Train(
        "vit_mnist_p7",
        few(),
        epochs=3,
        flip=True,
        elastic=0.0,
        position_start="random",
        device="cpu",
    )
    recipe = Start(given).recipe
    assert (recipe.epochs, recipe.flip, recipe.elastic) == (3, True, 0.0)
    assert recipe.position_start == "random"
    assert recipe.optimizer == "muon"
    slow = Start(Train("vit_mnist_p7", few(), optimizer="adamw", device="cpu")).recipe
    assert slow.learning_rate == 3e-3


def test_what_was_trained_keeps_its_positions() -> None:
    assert not _was_trained(vit_mnist(7))
    loaded = vit_mnist(7)
    loaded.load_state_dict(mnist_vit.load_model("vit_mnist_p7").state_dict())
    assert _was_trained(loaded)
    recipe = Start(Train(loaded, few())).recipe
    assert recipe.position_start is None
    assert recipe.learning_rate == pytest.approx(0.001)


def test_a_resumed_run_needs_no_settings(tmp_path: Path) -> None:
    how = {"run_dir": tmp_path / "run", "epochs": 1, "elastic": 0.0, "seed": 5}
    mnist_vit.train("vit_mnist_p7", few(), **how)
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (stored["elastic"], stored["optimizer"], stored["seed"]) == (0.0, "muon", 5)
    history = mnist_vit.train(
        "vit_mnist_p7", few(), run_dir=tmp_path / "run", resume=True, epochs=2
    )
    assert len(history) == 2


def test_the_shipped_recipe_and_its_data() -> None:
    given = Train("vit_cifar10", recipe="shipped")
    assert find_data(given) == "cifar10"
    start = Start(Train("vit_mnist_p7", few(), recipe="shipped", epochs=7, device="cpu"))
    shipped = read_json("vit_mnist_p7")["recipe"]
    assert start.recipe.epochs == 7
    assert start.recipe.learning_rate == shipped["learning_rate"]
    repeated = start.command()  # which does not change with the shipped weights
    assert "--recipe" not in repeated
    assert "--epochs 7" in repeated
    with pytest.raises(ValueError, match="for a model by name"):
        Train(vit_mnist(7), recipe="shipped")


def test_a_shorter_run_of_a_shipped_recipe_has_fewer_last_epochs_with_all_patches() -> None:
    stored = read_json("vit_mnist")["recipe"]
    shorter = Start(Train("vit_mnist", few(), recipe="shipped", epochs=2, device="cpu")).recipe
    assert (shorter.epochs, shorter.full_epochs) == (2, 0)
    same = Start(Train("vit_mnist", few(), recipe="shipped", device="cpu")).recipe
    assert same.full_epochs == stored["full_epochs"] > 0
    given = Train("vit_mnist", few(), recipe="shipped", epochs=2, full_epochs=1, device="cpu")
    assert Start(given).recipe.full_epochs == 1


def test_a_file_gets_the_sizes_of_its_images(tmp_path: Path) -> None:
    (tmp_path / "my_vit.py").write_text(
        "from mnist_vit.model import VisionTransformer as MyVisionTransformer\n"
    )
    own = str(tmp_path / "my_vit.py")
    folder = colour_folder(tmp_path / "pictures")
    start = Start(Train(own, folder, device="cpu"))
    assert start.train_data.images.shape[1:] == (3, 32, 32)
    assert "colour" in " ".join(start.lines(1))
    grey = Start(Train(own, folder, sizes="vit_mnist_p7", device="cpu"))
    assert grey.train_data.images.shape[1:] == (1, 28, 28)
    assert_says(grey.notes[0], "colour my_vit.py grey")
    assert Start(Train(own, few(), device="cpu")).sizes == "vit_mnist"
    assert Start(Train(own, few(), weights="vit_mnist_p7", device="cpu")).sizes == "vit_mnist_p7"


def test_a_class_that_cannot_take_colour_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "my_vit.py").write_text(
        "from mnist_vit.model import VisionTransformer\n"
        "class MyVisionTransformer(VisionTransformer):\n"
        "    def __init__(self, in_channels=1, **sizes):\n"
        "        super().__init__(in_channels=1, **sizes)\n"
    )
    given = Train(str(tmp_path / "my_vit.py"), colour_folder(tmp_path / "pictures"), device="cpu")
    with pytest.raises(WeightsError, match=r"in_channels=3.* 1"):
        Start(given)


def test_weights_for_other_classes_get_a_new_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = colour_folder(tmp_path / "pictures")
    start = Start(Train("vit_cifar10", folder, weights="vit_cifar10", device="cpu"))
    shipped = mnist_vit.load_model("vit_cifar10")
    assert torch.equal(start.model.conv_proj.weight, shipped.conv_proj.weight)
    assert start.model.heads.head.out_features == 2
    assert start.train_data.mean == tuple(shipped.about["data"]["mean"])
    assert_says(start.notes[0], "head vit_cifar10 10 2")
    same = Start(Train("vit_mnist_p7", few(), weights="vit_mnist_p7", device="cpu"))
    assert not same.notes
    assert same.model.heads.head.weight.any()


def test_weights_of_other_sizes_name_the_model_that_they_fit() -> None:
    with pytest.raises(WeightsError, match=r"architecture.* vit_mnist$"):
        Start(Train("vit_mnist_p7", few(), weights="vit_mnist", device="cpu"))


def test_the_first_and_last_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Forecast, "wait", 0.0)
    mnist_vit.train("vit_mnist_p7", few(), epochs=2, batch_size=25, run_dir=tmp_path / "run")
    out = capsys.readouterr().out
    before, _, after = out.partition("epoch   1/2")
    assert_says(before, "vit_mnist_p7 28×28 16 7×7 10 classes")
    assert_says(before, "10 steps 2 epochs 5 batches muon time")
    weights = tmp_path / "run" / "weights.pth"
    assert_says(after, f"validation accuracy saved {weights}")
    assert out.endswith(f" mnist-vit evaluate {weights}\n"), "what can be done next"


# ---- threads ----


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_small_model_uses_one_thread_and_puts_the_number_back(two_threads: None) -> None:
    seen = []

    @restoring_threads
    def job(model: nn.Module) -> None:
        choose_threads(model)
        seen.append(torch.get_num_threads())

    job(vit_mnist(7))
    assert torch.get_num_threads() == 2
    job(nn.Linear(1100, 1100))
    assert seen == [1, 2]


def test_every_job_puts_the_threads_back(two_threads: None, tmp_path: Path) -> None:
    mnist_vit.train(vit_mnist(7), few(), epochs=1)
    assert torch.get_num_threads() == 2
    mnist_vit.evaluate("vit_mnist_p7", few())
    assert torch.get_num_threads() == 2
    with pytest.raises(ValueError, match="model"):
        jobs.train("vit_mnits")


@pytest.mark.parametrize(
    ("code", "policy"),
    [("import mnist_vit", "passive"), ("import torch, mnist_vit", None)],
)
def test_threads_wait_without_work_if_torch_is_not_loaded_yet(
    code: str, policy: str | None
) -> None:
    code = f"{code}\nimport os\nprint(os.environ.get('OMP_WAIT_POLICY'))"
    free = {key: value for key, value in environment().items() if key != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=free, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(policy)
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
