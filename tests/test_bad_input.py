"""Whatever is given by mistake, the answer is a sentence: what was given, what is needed, what to
do.

One table for the functions, one for the command line, where the sentence stands on stderr and the
exit code is 2. A row asks for the words that a user needs (the value given, the argument, what is
known), in any order and any wording.
"""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import assert_says, environment
from PIL import Image
from torch import nn

import mnist_vit
from mnist_vit import attention, commands, data, evaluation, fast, gallery, jobs
from mnist_vit.__main__ import main
from mnist_vit.data import ImageData, Loader
from mnist_vit.errors import DataError, WeightsError
from mnist_vit.options import described

ROOT = Path(__file__).resolve().parent.parent

IMAGES = torch.zeros(2, 1, 28, 28)
ROWS = torch.full((2, 2, 2, 17, 17), 1 / 17)


@functools.cache
def vit() -> nn.Module:
    return mnist_vit.vit_mnist(7).eval()


@functools.cache
def spoilt() -> nn.Module:
    made = mnist_vit.vit_mnist(7)
    nn.init.constant_(made.heads.head.bias, float("nan"))
    return made


def toy(n: int = 4, **changes: Any) -> ImageData:
    given = {"images": torch.zeros(n, 1, 28, 28, dtype=torch.uint8), "labels": torch.arange(n) % 10}
    given |= {"classes": tuple("0123456789"), "name": "toy", "mean": (0.5,), "std": (0.5,)}
    return ImageData(**(given | changes))


def save(
    images: torch.Tensor = IMAGES, pictures: Any = None, names: Any = ("a", "b"), labels: Any = None
) -> None:
    pictures = IMAGES.byte() if pictures is None else pictures
    gallery.save_attention_images(
        vit(), images, pictures, list(names), "never", tuple("0123456789"), labels
    )


def train(**changes: Any) -> None:
    jobs.train(vit(), toy(), **changes)


def build(**changes: Any) -> None:
    given = {
        "image_size": 28,
        "patch_size": 7,
        "num_layers": 1,
        "num_heads": 2,
        "hidden_dim": 8,
        "mlp_dim": 8,
    }
    mnist_vit.VisionTransformer(**(given | changes))


def tokens(width: int = 8, dim: int = 3) -> torch.Tensor:
    return torch.zeros(*[2] * (dim - 1), width)


def large() -> ImageData:
    return toy(images=torch.zeros(4, 1, 32, 32).byte())


def no_attention() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def weights(images: torch.Tensor, model: Any = None, **options: Any) -> None:
    mnist_vit.attention_weights(vit() if model is None else model, images, **options)


def record(*given: Any, **options: Any) -> None:
    mnist_vit.record_attention(*given, **options).__enter__()


def matrix(labels: list, predictions: list, k: int) -> None:
    evaluation.confusion_matrix(torch.tensor(labels), torch.tensor(predictions), k)


def evaluate_model(model: nn.Module, classes: tuple[str, ...]) -> None:
    evaluation.evaluate_model(model, Loader(toy(), 2), classes, "toy")


draw = jobs.visualize_attention
distance = attention.mean_attention_distance
RANDOM = torch.Generator()


# the call, its error, and the words that its sentence needs
Case = tuple[Callable[[], Any], type[Exception], str]
TABLE: dict[str, list[Case]] = {
    "VisionTransformer": [
        (lambda: build(image_size=0), ValueError, "image_size 0"),
        (lambda: build(representation_size=0), ValueError, "representation_size 0"),
        (lambda: build(in_channels=True), ValueError, "in_channels True"),
        (lambda: build(patch_size=5), ValueError, "image_size 28 patch_size 5"),
        (lambda: build(num_heads=3), ValueError, "hidden_dim 8 num_heads 3"),
        (lambda: build(pool="max"), ValueError, "pool token mean max"),
        (lambda: vit()(IMAGES[0]), AssertionError, "n c h w 1 28"),
        (lambda: vit()(IMAGES[..., :20]), AssertionError, "28 20"),
        (lambda: vit()(IMAGES.expand(2, 3, 28, 28)), AssertionError, "channels 1 3"),
        (lambda: vit()(IMAGES.byte()), AssertionError, "uint8"),
        (lambda: vit().get_attention_output(IMAGES, 2, 0), IndexError, "layer 0 1 2"),
        (lambda: vit().get_attention_output(IMAGES, 0, -1), IndexError, "head 0 1 -1"),
    ],
    "vit_mnist": [(lambda: mnist_vit.vit_mnist(3), ValueError, "image_size 28 patch_size 3")],
    "MLP": [
        (lambda: mnist_vit.MLP(4, []), ValueError, "hidden_channels"),
        (lambda: mnist_vit.MLP(4, [3, 0]), ValueError, "hidden_channels[1] 0"),
    ],
    "MLPBlock": [(lambda: mnist_vit.MLPBlock(0, 4, 0.0), ValueError, "in_channels 0")],
    "MultiHeadAttention": [
        (lambda: mnist_vit.MultiHeadAttention(8, 3), ValueError, "embed_dim 8 num_heads 3"),
        (
            lambda: mnist_vit.MultiHeadAttention(8, 2)(*[tokens(dim=2)] * 3),
            AssertionError,
            "query n seq_length embed_dim",
        ),
        (
            lambda: mnist_vit.MultiHeadAttention(8, 2)(tokens(), tokens(6), tokens()),
            AssertionError,
            "key 8 6",
        ),
    ],
    "EncoderBlock": [
        (lambda: mnist_vit.EncoderBlock(3, 8, 8, 0.0, 0.0), ValueError, "hidden_dim 8 num_heads"),
        (
            lambda: mnist_vit.EncoderBlock(2, 8, 8, 0.0, 0.0)(tokens(dim=4)),
            AssertionError,
            "input n seq_length hidden_dim",
        ),
    ],
    "Encoder": [
        (lambda: mnist_vit.Encoder(0, 1, 2, 8, 8, 0.0, 0.0), ValueError, "seq_length 0"),
        (
            lambda: mnist_vit.Encoder(2, 1, 2, 8, 8, 0.0, 0.0)(tokens(dim=2)),
            AssertionError,
            "input n seq_length hidden_dim",
        ),
    ],
    "attention_weights": [
        (lambda: weights(IMAGES[0]), ValueError, "float32 1 28 images[None]"),
        (lambda: weights(IMAGES.byte()), ValueError, "uint8 data.normalise"),
        (lambda: weights(IMAGES / 0), ValueError, "images nan"),
        (lambda: weights(IMAGES, query=17), IndexError, "query 0 16 17"),
        (lambda: weights(IMAGES, batch_size=0), ValueError, "batch_size 0"),
        (lambda: weights(torch.zeros(1, 1, 32, 32)), AssertionError, "28 32"),
        (lambda: weights(IMAGES, model=nn.Flatten()), ValueError, "Flatten 0"),
        (lambda: weights(IMAGES, model="vit_mnist"), TypeError, "model nn.Module str"),
        (lambda: weights(IMAGES, model=fast.speed_up(vit())), ValueError, "plain"),
    ],
    "record_attention": [
        (lambda: record(vit(), layers=0), ValueError, "layers list"),
        (lambda: record(None), TypeError, "load_model"),
    ],
    "to_maps": [(lambda: attention.to_maps(torch.zeros(1, 6), (3, 3)), ValueError, "3 9 6")],
    "rollout": [(lambda: attention.rollout(ROWS[:, 0]), ValueError, "attention_weights")],
    "mean_attention_distance": [
        (lambda: distance(ROWS[..., 0, :], 7, (4, 4)), ValueError, "2 17"),
        (lambda: distance(ROWS, 0, (4, 4)), ValueError, "patch_size 0"),
    ],
    "ink_share": [
        (lambda: attention.ink_share(torch.zeros(3, 4, 4), IMAGES), ValueError, "n 3 4"),
    ],
    "head_contributions": [
        (lambda: attention.head_contributions(vit(), IMAGES, 2), IndexError, "layer 0 1 2"),
    ],
    "save_attention_images": [
        (lambda: save(names=["a"]), ValueError, "images pictures names 2 1"),
        (lambda: save(labels=[1]), ValueError, "images labels 2 1"),
        (lambda: save(images=IMAGES.byte()), ValueError, "images n c h w"),
    ],
    "ImageData": [
        (lambda: toy(images=IMAGES), ValueError, "images uint8 float32"),
        (lambda: toy(images=IMAGES[:, 0].byte()), ValueError, "images n c h w 2 28"),
        (lambda: toy(labels=torch.zeros(3).long()), ValueError, "4 3"),
        (lambda: toy(labels=torch.arange(4) - 1), ValueError, "labels 0 9 -1"),
        (lambda: toy(classes=("a", "b")), ValueError, "labels 0 1 3"),
        (lambda: toy(std=(0.0,)), ValueError, "mean std 1"),
    ],
    "Loader": [
        (lambda: Loader(toy(), 0), ValueError, "batch_size 0"),
        (lambda: Loader(toy(0), 2), DataError, "toy images"),
    ],
    "ImageData.normalise": [
        (lambda: toy().normalise(torch.rand(2, 3, 28, 28)), ValueError, "channels 1 2 3 28"),
    ],
    "augment": [
        (lambda: data.augment(IMAGES, RANDOM, degrees=-1.0), ValueError, "degrees -1.0"),
        (lambda: data.augment(IMAGES.byte(), RANDOM), ValueError, "images n c h w"),
    ],
    "check_fit": [
        (lambda: data.check_fit(vit(), toy(classes=tuple("abcd"))), DataError, "toy 4 10"),
    ],
    "load_data": [
        (lambda: data.load_data("minst", "train"), DataError, "minst mnist"),
        (lambda: data.load_data(5, "train"), ValueError, "int"),
    ],
    "load_embedded": [(lambda: data.load_embedded("trian"), ValueError, "trian train all")],
    "load_mnist": [(lambda: data.load_mnist("tset"), ValueError, "tset test")],
    "load_cifar10": [(lambda: data.load_cifar10(None), ValueError, "None train")],
    "load_folder": [
        (lambda: data.load_folder("no such folder"), DataError, "no such folder"),
        (lambda: data.load_folder(".", channels=2), ValueError, "channels 1 3 2"),
        (lambda: data.load_folder(".", image_size=0), ValueError, "image_size 0"),
    ],
    "digit_to_tensor": [
        (lambda: data.digit_to_tensor(Image.new("L", (50, 50), 255)), DataError, "image ink"),
    ],
    "confusion_matrix": [
        (lambda: matrix([0], [0, 1], 2), ValueError, "1 2"),
        (lambda: matrix([2], [0], 2), ValueError, "labels 0 1"),
        (lambda: matrix([0], [0.0], 2), ValueError, "predictions 0 1"),
        (lambda: matrix([0], [0], 0), ValueError, "num_classes 0"),
    ],
    "wilson_interval": [
        (lambda: evaluation.wilson_interval(3, 2), ValueError, "correct total 3 2"),
    ],
    "evaluate_model": [
        (lambda: evaluate_model(vit(), ("a", "b")), ValueError, "10 2 classes"),
        (lambda: evaluate_model(spoilt(), tuple("0123456789")), ValueError, "NaN outputs"),
    ],
    "FastVisionTransformer": [
        (lambda: fast.FastVisionTransformer(vit(), 17), ValueError, "keep_patches 1 16 17"),
    ],
    "speed_up": [
        (lambda: fast.speed_up(vit(), 0), ValueError, "keep_patches 1 16 0"),
        (lambda: fast.speed_up(nn.Linear(2, 2), 3), ValueError, "keep_patches VisionTransformer"),
    ],
    "train": [
        (lambda: train(epochs=0), ValueError, "epochs 1 0"),
        (lambda: train(keep_patches=99), ValueError, "keep_patches 1 16 99"),
        (lambda: train(position_start="sine"), ValueError, "position_start sine sincos"),
        (lambda: train(recipe="shipped"), ValueError, "recipe shipped vit_cifar10"),
        (lambda: jobs.train("vit_mnits"), ValueError, "vit_mnits vit_mnist"),
        (lambda: jobs.train(Path("weights.pth")), TypeError, "model nn.Module"),
        (lambda: jobs.train(vit(), toy(classes=tuple("01234"))), DataError, "toy 5 10"),
    ],
    "evaluate": [
        (lambda: jobs.evaluate("vit_minst"), WeightsError, "vit_minst vit_mnist .pth"),
        (lambda: jobs.evaluate(7), TypeError, "weights int"),
        (lambda: jobs.evaluate(vit(), toy(), batch_size=0), ValueError, "batch_size 0"),
        (lambda: jobs.evaluate("vit_mnist_p7", device="gpu"), ValueError, "device gpu cpu"),
        (lambda: jobs.evaluate(spoilt(), toy()), ValueError, "NaN outputs"),
        (lambda: jobs.evaluate(vit(), large()), DataError, "toy 32 28"),
        (lambda: jobs.evaluate(vit(), toy(), record=True), ValueError, "record weights"),
    ],
    "visualize_attention": [
        (lambda: draw(vit(), toy(), per_class=0), ValueError, "per_class 0"),
        (lambda: draw(no_attention(), toy()), ValueError, "Sequential 0 attention"),
    ],
    "explore": [
        (lambda: jobs.explore(vit(), toy(), per_class=0), ValueError, "per_class 0"),
        (lambda: jobs.explore(no_attention(), toy()), ValueError, "Sequential 0 attention"),
    ],
    "predict": [
        (lambda: jobs.predict("none.png"), DataError, "none.png"),
        (lambda: jobs.predict(".", model=vit()), DataError, "PNG"),
        (lambda: jobs.predict(ROOT / "docs/picture.png", model=None), TypeError, "NoneType"),
    ],
    "load_model": [
        (lambda: mnist_vit.load_model("vit_mnits"), WeightsError, "vit_mnits vit_mnist .pth"),
    ],
    "load_weights": [
        (lambda: mnist_vit.load_weights(vit(), "vit_mnist"), WeightsError, "vit_mnist.pth"),
    ],
    "save_weights": [],  # its faults are those of the disk: test_weights.py
}
CASES = []
for name, cases in TABLE.items():
    CASES += [(f"{name}-{number}", *case) for number, case in enumerate(cases)]


@pytest.mark.parametrize(
    ("call", "kind", "said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_mistake_is_answered_by_a_sentence(
    call: Callable, kind: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as told:
        call()
    assert_says(str(told.value), said)
    assert len(str(told.value)) < 500
    assert "\n" not in str(told.value)
    assert not list(tmp_path.iterdir()), "something was written before the mistake was found"


def test_every_public_function_has_mistakes_in_the_table() -> None:
    modules = (data, evaluation, attention, fast, gallery, jobs)
    public = set(mnist_vit.__all__)
    for module in modules:
        public |= set(getattr(module, "__all__", ()))
    plain = {
        "Evaluation",
        "History",
        "MODELS",
        "copy_notebooks",
        "demo",
        "load_for",
        "replacing",
    }  # made or tested elsewhere
    assert public - plain <= set(TABLE)


# the command, and the words that its sentence needs
COMMANDS: list[tuple[str, str]] = [
    ("evaluate vit_minst", "vit_minst vit_mnist"),
    ("evaluate vit_mnist_p7 --data minst", "minst mnist"),
    ("evaluate vit_mnist_p7 --split tset", "--split tset test"),
    ("evaluate vit_mnist_p7 --device gpu", "gpu cpu"),
    ("evaluate vit_mnist_p7 --weights nowhere.pth", "nowhere.pth"),
    ("evaluate vit_mnist_p7 --data mnist --root /nowhere", "/nowhere MNIST_VIT_DATA"),
    ("evaluate --bach-size=3", "--bach-size --batch-size --help"),
    ("evaluate vit_cifar10", "3 --data cifar10"),
    ("attention vit_mnist_p7 --per-class 1 --out FILE/maps", "FILE"),
    ("check none.py", "none.py file"),
    ("check FILE --name Vit", "FILE --name Vit"),
    ("predict", "predict picture --help"),
    ("progress FOLDER --csv class.txt", "--csv .csv class.txt"),
    ("predict none.png", "none.png"),
    ("predict FILE", "FILE"),
    ("notebooks FILE", "FILE"),
    ("train", "train model --help"),
    ("train vit_mnits", "vit_mnits vit_mnist"),
    ("train vit_mnist_p7 --data PICTURES --weights vit_mnist", "vit_mnist"),
    ("train vit_mnist_p7 --data PICTURES --keep-patches 99", "--keep-patches 1 16 99"),
    ("train vit_mnist_p7 --epochs 0", "--epochs 1 0"),
    ("train vit_mnist_p7 --epochs many", "--epochs many"),
    ("train vit_mnist_p7 --learning-rate nan", "--learning-rate 0 1000 nan"),
    ("train vit_mnist_p7 --epochs 10 --full-epochs 11", "--full-epochs 0 10 11"),
    ("train own.py --recipe shiped", "--recipe shiped shipped"),
    ("train vit_mnist_p7 --data PICTURES --optimizer moun", "--optimizer moun muon"),
    ("train vit_mnist_p7 --position-start zeros", "--position-start zeros sincos"),
    ("train vit_mnist_p7 --data PICTURES --run-dir FILE/run", "FILE"),
    ("train vit_mnist_p7 --save FOLDER", "FOLDER"),
    ("train own.py --sizes vit_p7", "--sizes vit_p7 vit_mnist_p7"),
    ("train own.py", "own.py"),
    ("train vit_cifar10 --data embedded", "1 3 --data cifar10"),
    ("train vit_mnist_p7 --resume", "--resume --run-dir"),
    ("trian vit_mnist", "trian train demo"),
    ("", "command"),
]


def words(line: str, folder: Path) -> list[str]:
    (folder / "FILE").write_text("'text'")
    if "PICTURES" in line:
        for name in "ab":
            (folder / "PICTURES" / name).mkdir(parents=True)
            for i in range(10):
                Image.new("L", (28, 28), i).save(folder / "PICTURES" / name / f"{i}.png")
    line = line.replace("FILE", str(folder / "FILE")).replace("PICTURES", str(folder / "PICTURES"))
    return line.replace("FOLDER", str(folder)).split()


@pytest.mark.parametrize(("line", "said"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_mistake_on_the_command_line(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(words(line, tmp_path))
    except SystemExit as stopped:  # argparse
        code = stopped.code
    told = capsys.readouterr()
    assert code == 2
    err = told.err.replace(str(tmp_path / "FILE"), "FILE").replace(str(tmp_path), "FOLDER")
    assert_says(err, said)
    assert "mnist-vit" in told.err
    assert "Traceback" not in told.err + told.out


POSITIONAL = {"train": ["vit_mnist_p7"], "predict": ["x.png"], "check": ["own.py"]}
POSITIONAL_NAMES = {"model", "picture", "folder", "file"}
RANGES: list[tuple[str, str]] = []
for name, (options, _) in commands.COMMANDS.items():
    for key, one in described(options).items():
        if one.option.low is not None:
            RANGES.append((name, key))


@pytest.mark.parametrize(("name", "key"), RANGES)
def test_a_number_out_of_its_range_names_the_option(
    name: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = described(commands.COMMANDS[name][0])[key].option
    positional = POSITIONAL.get(name, [])
    for value in (option.low - 1, option.high and option.high + 1):
        if value is not None:
            assert main([name, *positional, f"{commands.dashed(key)}={value}"]) == 2
            assert_says(capsys.readouterr().err, f"{commands.dashed(key)} {value}")


def test_every_option_has_a_mistake() -> None:
    only_switches = {"record", "resume", "flip", "tensorboard", "with_outputs", "update", "run"}
    tried = " ".join(line for line, _ in COMMANDS)
    for name, (options, _) in commands.COMMANDS.items():
        for key, one in described(options).items():
            if one.option.only_python or key in only_switches | POSITIONAL_NAMES:
                continue
            assert (name, key) in RANGES or commands.dashed(key) in tried, (name, key)


def test_mistake_in_a_shell(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mnist_vit", "predict", "none.png"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("mnist-vit: ")
    assert done.stderr.count("\n") == 1
    assert not done.stdout
