"""Whatever is given by mistake, the answer is a sentence: what was given, what is needed, what to
do.

One table for the functions, one for the command line, where the sentence stands on stderr and the
exit code is 2.
"""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import environment
from PIL import Image
from torch import nn

import mnist_vit
from mnist_vit import attention, commands, data, evaluation, fast, gallery, jobs
from mnist_vit.__main__ import main
from mnist_vit.data import ImageData, Loader
from mnist_vit.errors import DataError, WeightsError
from mnist_vit.options import described

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


def shifted(**changes: Any) -> None:
    data.augment(IMAGES, torch.Generator(), **changes)


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


Case = tuple[Callable[[], Any], type[Exception], str]
TABLE: dict[str, list[Case]] = {
    "VisionTransformer": [
        *(
            (
                lambda name=name: build(**{name: 0}),
                ValueError,
                f"{name} must be a whole number of at least 1, got 0",
            )
            for name in ("image_size", "num_heads", "representation_size")
        ),
        (
            lambda: build(patch_size=5),
            ValueError,
            "image_size 28 must be a multiple of patch_size, got patches of 5",
        ),
        (
            lambda: build(num_heads=3),
            ValueError,
            "hidden_dim 8 must be a multiple of num_heads, got 3 heads",
        ),
        (
            lambda: build(in_channels=True),
            ValueError,
            "in_channels must be a whole number of at least 1, got True",
        ),
        (lambda: build(pool="max"), ValueError, 'pool must be "token" or "mean", got \'max\''),
        (
            lambda: vit()(IMAGES[0]),
            AssertionError,
            "images must be (n, c, h, w), got torch.Size([1, 28, 28])",
        ),
        (lambda: vit()(IMAGES[..., :20]), AssertionError, "images must be 28 pixels wide, got 20"),
        (
            lambda: vit()(IMAGES.expand(2, 3, 28, 28)),
            AssertionError,
            "images must have 1 channels, got 3",
        ),
        (
            lambda: vit()(IMAGES.byte()),
            AssertionError,
            "images must be floating-point numbers, got torch.uint8",
        ),
        (
            lambda: vit().get_attention_output(IMAGES, 2, 0),
            IndexError,
            "layer must be 0 to 1, got 2",
        ),
        (
            lambda: vit().get_attention_output(IMAGES, 0, -1),
            IndexError,
            "head must be 0 to 1, got -1",
        ),
    ],
    "vit_mnist": [
        (
            lambda: mnist_vit.vit_mnist(3),
            ValueError,
            "image_size 28 must be a multiple of patch_size, got patches of 3",
        ),
    ],
    "MLP": [
        (
            lambda: mnist_vit.MLP(4, []),
            ValueError,
            "hidden_channels must name the width of at least one linear layer",
        ),
        (
            lambda: mnist_vit.MLP(4, [3, 0]),
            ValueError,
            "hidden_channels[1] must be a whole number of at least 1, got 0",
        ),
    ],
    "MLPBlock": [
        (
            lambda: mnist_vit.MLPBlock(0, 4, 0.0),
            ValueError,
            "in_channels must be a whole number of at least 1, got 0",
        ),
    ],
    "MultiHeadAttention": [
        (
            lambda: mnist_vit.MultiHeadAttention(8, 3),
            ValueError,
            "embed_dim 8 must be a multiple of num_heads, got 3",
        ),
        (
            lambda: mnist_vit.MultiHeadAttention(8, 2)(*[tokens(dim=2)] * 3),
            AssertionError,
            "query must be (n, seq_length, embed_dim)",
        ),
        (
            lambda: mnist_vit.MultiHeadAttention(8, 2)(tokens(), tokens(6), tokens()),
            AssertionError,
            "key must be 8 wide, got 6",
        ),
    ],
    "EncoderBlock": [
        (
            lambda: mnist_vit.EncoderBlock(3, 8, 8, 0.0, 0.0),
            ValueError,
            "hidden_dim 8 must be a multiple of num_heads",
        ),
        (
            lambda: mnist_vit.EncoderBlock(2, 8, 8, 0.0, 0.0)(tokens(dim=4)),
            AssertionError,
            "input must be (n, seq_length, hidden_dim)",
        ),
    ],
    "Encoder": [
        (
            lambda: mnist_vit.Encoder(0, 1, 2, 8, 8, 0.0, 0.0),
            ValueError,
            "seq_length must be a whole number of at least",
        ),
        (
            lambda: mnist_vit.Encoder(2, 1, 2, 8, 8, 0.0, 0.0)(tokens(dim=2)),
            AssertionError,
            "input must be (n, seq_length, hidden_dim)",
        ),
    ],
    "attention_weights": [
        (
            lambda: mnist_vit.attention_weights(vit(), IMAGES[0]),
            ValueError,
            "got torch.float32 (1, 28, 28); for one image: images[None]",
        ),
        (
            lambda: mnist_vit.attention_weights(vit(), IMAGES.byte()),
            ValueError,
            "(data.normalise), got torch.uint8 (2, 1, 28, 28)",
        ),
        (
            lambda: mnist_vit.attention_weights(vit(), IMAGES / 0),
            ValueError,
            "images hold nan or infinite numbers",
        ),
        (
            lambda: mnist_vit.attention_weights(vit(), IMAGES, query=17),
            IndexError,
            "query must be 0 to 16, got 17",
        ),
        (
            lambda: mnist_vit.attention_weights(vit(), IMAGES, batch_size=0),
            ValueError,
            "batch_size must be a whole number",
        ),
        (
            lambda: mnist_vit.attention_weights(nn.Flatten(), IMAGES),
            ValueError,
            "Flatten was called, and only 0 attention layers",
        ),
        (
            lambda: mnist_vit.attention_weights("vit_mnist", IMAGES),
            TypeError,
            "model must be a model (nn.Module), got str",
        ),
        (
            lambda: mnist_vit.attention_weights(fast.speed_up(vit()), IMAGES),
            ValueError,
            "give the plain model",
        ),
        (
            lambda: mnist_vit.attention_weights(vit(), torch.zeros(1, 1, 32, 32)),
            AssertionError,
            "must be 28 pixels high",
        ),
    ],
    "record_attention": [
        (
            lambda: mnist_vit.record_attention(vit(), layers=0).__enter__(),
            ValueError,
            "layers must be a list of layers",
        ),
        (
            lambda: mnist_vit.record_attention(None).__enter__(),
            TypeError,
            "load_model(name) makes one",
        ),
    ],
    "to_maps": [
        (
            lambda: attention.to_maps(torch.zeros(1, 6)),
            ValueError,
            "need 1 + a square number of tokens, got 6",
        )
    ],
    "rollout": [
        (
            lambda: attention.rollout(ROWS[:, 0]),
            ValueError,
            "as attention_weights(model, images) gives them",
        )
    ],
    "mean_attention_distance": [
        (
            lambda: attention.mean_attention_distance(ROWS[..., 0, :], 7),
            ValueError,
            "got (2, 2, 2, 17)",
        ),
        (
            lambda: attention.mean_attention_distance(ROWS, 0),
            ValueError,
            "patch_size must be a whole number",
        ),
    ],
    "ink_share": [
        (
            lambda: attention.ink_share(torch.zeros(3, 4, 4), IMAGES),
            ValueError,
            "of the same n images, got (3, 4, 4)",
        ),
    ],
    "head_contributions": [
        (
            lambda: attention.head_contributions(vit(), IMAGES, 2),
            IndexError,
            "layer must be 0 to 1, got 2",
        ),
    ],
    "save_attention_images": [
        (
            lambda: save(names=["a"]),
            ValueError,
            "the same number of images, pictures, names and labels, got",
        ),
        (lambda: save(labels=[1]), ValueError, "the same number of images, pictures"),
        (lambda: save(images=IMAGES.byte()), ValueError, "images must be floats (n, c, h, w)"),
    ],
    "ImageData": [
        (
            lambda: toy(images=IMAGES),
            ValueError,
            "images must be uint8 (n, c, h, w), got torch.float32",
        ),
        (
            lambda: toy(images=IMAGES[:, 0].byte()),
            ValueError,
            "images must be uint8 (n, c, h, w), got torch.uint8 (2, 28",
        ),
        (
            lambda: toy(labels=torch.zeros(3).long()),
            ValueError,
            "one for each of the 4 images, got torch.int64 (3,)",
        ),
        (lambda: toy(labels=torch.arange(4) - 1), ValueError, "labels must be 0 to 9, got -1"),
        (lambda: toy(classes=("a", "b")), ValueError, "labels must be 0 to 1, got 0 to 3"),
        (lambda: toy(std=(0.0,)), ValueError, "mean and std (above 0) must have 1 values"),
    ],
    "Loader": [
        (
            lambda: Loader(toy(), 0),
            ValueError,
            "batch_size must be a positive multiple of 1 (processes), got 0",
        ),
        (lambda: Loader(toy(0), 2), DataError, "toy: no images"),
    ],
    "ImageData.normalise": [
        (
            lambda: toy().normalise(torch.rand(2, 3, 28, 28)),
            ValueError,
            "(n, c, h, w) with 1 channels, got (2, 3, 28, 28)",
        ),
    ],
    "augment": [
        (
            lambda: shifted(degrees=-1.0),
            ValueError,
            "degrees must be a number from 0 to 1000, got -1.0",
        ),
        (
            lambda: data.augment(IMAGES.byte(), torch.Generator()),
            ValueError,
            "images must be floats (n, c, h, w)",
        ),
    ],
    "check_fit": [
        (
            lambda: data.check_fit(vit(), toy(classes=("a", "b", "c", "d"))),
            DataError,
            "toy: 4 classes, the model needs 10",
        ),
    ],
    "load_data": [
        (
            lambda: data.load_data("minst", "train"),
            DataError,
            'there is no data called "minst" (did you mean mnist?)',
        ),
        (lambda: data.load_data(5, "train"), TypeError, "int"),
    ],
    "load_embedded": [
        (
            lambda: data.load_embedded("trian"),
            ValueError,
            'there is no split "trian" (did you mean train?): choose from all',
        ),
    ],
    "load_mnist": [(lambda: data.load_mnist("tset"), ValueError, "(did you mean test?)")],
    "load_cifar10": [
        (lambda: data.load_cifar10(None), ValueError, 'there is no split "None": choose from train')
    ],
    "load_folder": [
        (lambda: data.load_folder("no such folder"), DataError, "no such folder is not a folder"),
        (
            lambda: data.load_folder(".", channels=2),
            ValueError,
            "channels must be 1 for grey or 3 for colour, got 2",
        ),
        (
            lambda: data.load_folder(".", image_size=0),
            ValueError,
            "image_size must be a whole number of at least 1, got 0",
        ),
    ],
    "digit_to_tensor": [
        (
            lambda: data.digit_to_tensor(Image.new("L", (50, 50), 255)),
            DataError,
            "the image contains no ink: draw",
        ),
    ],
    "confusion_matrix": [
        (
            lambda: evaluation.confusion_matrix(torch.tensor([0]), torch.tensor([0, 1]), 2),
            ValueError,
            "equally long",
        ),
        (
            lambda: evaluation.confusion_matrix(torch.tensor([2]), torch.tensor([0]), 2),
            ValueError,
            "labels must be whole",
        ),
        (
            lambda: evaluation.confusion_matrix(torch.tensor([0]), torch.tensor([0.0]), 2),
            ValueError,
            "from 0 to 1",
        ),
        (
            lambda: evaluation.confusion_matrix(torch.tensor([0]), torch.tensor([0]), 0),
            ValueError,
            "num_classes must be",
        ),
    ],
    "wilson_interval": [
        (
            lambda: evaluation.wilson_interval(3, 2),
            ValueError,
            "need 0 <= correct <= total and at least one image, got 3",
        ),
    ],
    "evaluate_model": [
        (
            lambda: evaluation.evaluate_model(vit(), Loader(toy(), 2), ("a", "b"), "toy"),
            ValueError,
            "the model has 10 classes, the data has 2",
        ),
        (
            lambda: evaluation.evaluate_model(
                spoilt(), Loader(toy(), 2), tuple("0123456789"), "toy"
            ),
            ValueError,
            "outputs are NaN or infinite: training probably diverged (lower the learning rate)",
        ),
    ],
    "FastVisionTransformer": [
        (
            lambda: fast.FastVisionTransformer(vit(), 17),
            ValueError,
            "keep_patches must be a whole number from 1 to 16",
        ),
    ],
    "speed_up": [
        (
            lambda: fast.speed_up(vit(), 0),
            ValueError,
            "keep_patches must be a whole number from 1 to 16, got 0",
        ),
        (
            lambda: fast.speed_up(nn.Linear(2, 2), 3),
            ValueError,
            "keep_patches works with the unchanged VisionTransformer",
        ),
    ],
    "train": [
        (lambda: train(epochs=0), ValueError, "epochs must be a whole number of at least 1, got 0"),
        (
            lambda: train(keep_patches=99),
            ValueError,
            "keep_patches must be a whole number from 1 to 16, got 99",
        ),
        (
            lambda: train(position_start="sine"),
            ValueError,
            'there is no position_start "sine"',
        ),
        (
            lambda: train(recipe="shipped"),
            ValueError,
            'recipe="shipped" is for a model by name (vit_cifar10, ',
        ),
        (
            lambda: jobs.train("vit_mnits"),
            ValueError,
            'there is no model called "vit_mnits" (did you mean vit_mnist?)',
        ),
        (
            lambda: jobs.train(Path("weights.pth")),
            TypeError,
            "model must be a model (nn.Module), or",
        ),
        (
            lambda: jobs.train(vit(), toy(classes=tuple("01234"))),
            DataError,
            "toy: 5 classes, the model needs 10",
        ),
    ],
    "evaluate": [
        (
            lambda: jobs.evaluate("vit_minst"),
            WeightsError,
            "there are no weights at vit_minst (did you mean vit_mnist?): give a .pth file or",
        ),
        (lambda: jobs.evaluate(7), TypeError, "or weights by name or file, got int"),
        (
            lambda: jobs.evaluate(vit(), toy(), batch_size=0),
            ValueError,
            "batch_size must be a whole number",
        ),
        (
            lambda: jobs.evaluate("vit_mnist_p7", device="gpu"),
            ValueError,
            'there is no device "gpu" here: use cpu',
        ),
        (lambda: jobs.evaluate(spoilt(), toy()), ValueError, "outputs are NaN or infinite"),
        (
            lambda: jobs.evaluate(vit(), toy(images=torch.zeros(4, 1, 32, 32).byte())),
            DataError,
            "toy: 32 pixels in a column, the model needs 28",
        ),
        (
            lambda: jobs.evaluate(vit(), toy(), record=True),
            ValueError,
            "record needs weights by name or file",
        ),
    ],
    "visualize_attention": [
        (
            lambda: jobs.visualize_attention(vit(), toy(), per_class=0),
            ValueError,
            "per_class must be a whole number",
        ),
        (
            lambda: jobs.visualize_attention(
                nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), toy()
            ),
            ValueError,
            "and only 0 attention layers",
        ),
    ],
    "explore": [
        (
            lambda: jobs.explore(vit(), toy(), per_class=0),
            ValueError,
            "per_class must be a whole number",
        ),
        (
            lambda: jobs.explore(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), toy()),
            ValueError,
            "0 attention layers",
        ),
    ],
    "predict": [
        (
            lambda: jobs.predict("none.png"),
            DataError,
            "none.png cannot be read as a picture (No such file",
        ),
        (
            lambda: jobs.predict(".", model=vit()),
            DataError,
            "cannot be read as a picture (Is a directory): give a PNG",
        ),
        (lambda: jobs.predict("none.png", model=None), TypeError, "got NoneType"),
    ],
    "load_model": [
        (
            lambda: mnist_vit.load_model("vit_mnits"),
            WeightsError,
            "give a .pth file or vit_cifar10, vit_mnist",
        ),
    ],
    "load_weights": [
        (
            lambda: mnist_vit.load_weights(vit(), "vit_mnist"),
            WeightsError,
            "holds weights of another architecture",
        ),
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
    assert said in str(told.value)
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
        "replacing",
    }  # made or tested elsewhere
    assert public - plain <= set(TABLE)
    assert len(CASES) >= 60


COMMANDS: list[tuple[str, str]] = [
    ("evaluate vit_minst", "there are no weights at vit_minst (did you mean vit_mnist?)"),
    ("evaluate vit_mnist_p7 --data minst", "did you mean mnist?"),
    ("evaluate vit_mnist_p7 --split tset", "argument --split: invalid choice: 'tset' (choose from"),
    ("evaluate vit_mnist_p7 --device gpu", 'there is no device "gpu" here: use cpu'),
    ("evaluate vit_mnist_p7 --weights nowhere.pth", "there are no weights at nowhere.pth"),
    ("evaluate vit_mnist_p7 --data mnist --root /nowhere", "Ways to get it"),
    ("attention vit_mnist_p7 --per-class 1 --out FILE/maps", "FILE"),
    (
        "predict",
        (
            "mnist-vit predict: the following arguments are required: picture; see mnist-vit"
            " predict --help"
        ),
    ),
    (
        "predict none.png",
        "none.png cannot be read as a picture (No such file or directory): give a PNG or JPEG file",
    ),
    ("predict FILE", "cannot be read as a picture (empty, damaged or not "),
    ("notebooks FILE", "FILE"),
    (
        "train",
        "mnist-vit train: the following arguments are required: model; see mnist-vit train --help",
    ),
    ("train vit_mnits", 'there is no model called "vit_mnits" (did you mean vit_mnist?)'),
    (
        "train vit_mnist_p7 --data PICTURES --weights vit_mnist",
        "holds weights of another architecture",
    ),
    (
        "train vit_mnist_p7 --data PICTURES --keep-patches 99",
        "--keep-patches must be a whole number from 1 to 16, got 99",
    ),
    ("train vit_mnist_p7 --epochs 0", "--epochs must be a whole number of at least 1, got 0"),
    ("train vit_mnist_p7 --epochs many", "argument --epochs: invalid int value: 'many'"),
    (
        "train vit_mnist_p7 --learning-rate nan",
        "--learning-rate must be a number from 0 to 1000, got nan",
    ),
    (
        "train vit_mnist_p7 --epochs 10 --full-epochs 11",
        "--full-epochs must be a number from 0 to 10, got 11",
    ),
    (
        "train own.py --recipe shiped",
        "argument --recipe: invalid choice: 'shiped' (choose from",
    ),
    (
        "train vit_mnist_p7 --data PICTURES --optimizer moun",
        "argument --optimizer: invalid choice: 'moun' (choose from",
    ),
    (
        "train vit_mnist_p7 --position-start zeros",
        "argument --position-start: invalid choice: 'zeros' (choose from",
    ),
    ("train vit_mnist_p7 --data PICTURES --run-dir FILE/run", "FILE"),
    ("train vit_mnist_p7 --save FOLDER", "FOLDER is a folder"),
    ("train own.py --sizes vit_p7", "argument --sizes: invalid choice: 'vit_p7' (choose from"),
    ("train own.py", "there is no file own.py"),
    ("trian vit_mnist", 'there is no command "trian" (did you mean train?): choose from demo, '),
    (
        "evaluate --bach-size=3",
        (
            "unexpected argument --bach-size=3 (did you mean --batch-size?); see mnist-vit evaluate"
            " --help"
        ),
    ),
    ("evaluate vit_cifar10", "the model needs 3. Give data that fits, such as --data cifar10"),
    (
        "train vit_cifar10 --data embedded",
        "1 channel, the model needs 3. Give data that fits, such as --data cifar10",
    ),
    ("train vit_mnist_p7 --resume", "--resume needs --run-dir, the folder of the run to continue"),
    ("", "the following arguments are required: command"),
]


def words(line: str, folder: Path) -> list[str]:
    (folder / "FILE").write_text("text")
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
    assert said in told.err.replace(str(tmp_path / "FILE"), "FILE").replace(str(tmp_path), "FOLDER")
    assert "mnist-vit" in told.err
    assert "Traceback" not in told.err + told.out


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
    positional = {"train": ["vit_mnist_p7"], "predict": ["x.png"]}.get(name, [])
    for value in (option.low - 1, option.high and option.high + 1):
        if value is not None:
            assert main([name, *positional, f"{commands.dashed(key)}={value}"]) == 2
            assert f"{commands.dashed(key)} must be " in capsys.readouterr().err


def test_every_option_has_a_mistake() -> None:
    only_switches = {"record", "resume", "flip", "tensorboard", "with_outputs", "update", "run"}
    tried = " ".join(line for line, _ in COMMANDS)
    for name, (options, _) in commands.COMMANDS.items():
        for key, one in described(options).items():
            if one.option.only_python or key in only_switches | {"model", "picture", "folder"}:
                continue
            assert (name, key) in RANGES or commands.dashed(key) in tried, (name, key)


def test_mistake_in_a_shell(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mnist_vit", "predict", "none.png"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("mnist-vit: ")
    assert done.stderr.count("\n") == 1
    assert not done.stdout
