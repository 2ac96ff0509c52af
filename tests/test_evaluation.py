"""The matrix is scikit-learn's, the interval is Wilson's, the model stays as it was, what is known
of it is used."""

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import randomise
from javascript import data_of
from PIL import Image
from sklearn.metrics import confusion_matrix as sklearn_matrix
from sklearn.metrics import precision_score, recall_score
from survivor import toy_fit, toy_model
from torch import Tensor, nn
from torchvision.models import VisionTransformer as TheirVisionTransformer
from torchvision.models import ViT_B_16_Weights

import mnist_vit
from mnist_vit.data import ImageData, Loader, load_embedded, load_folder
from mnist_vit.errors import DataError, WeightsError
from mnist_vit.evaluation import Evaluation, confusion_matrix, evaluate_model, wilson_interval
from mnist_vit.model import VisionTransformer, vit_mnist


@pytest.mark.parametrize("k", [2, 3, 10])
def test_matrix_is_scikit_learns(k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    labels = torch.randint(0, k, (300,), generator=generator)
    predictions = torch.where(
        torch.rand(300, generator=generator) < 0.6, labels, 0
    )  # not symmetric
    expected = sklearn_matrix(labels, predictions, labels=list(range(k)))
    assert confusion_matrix(labels, predictions, k).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (989, 1000, 0.9804, 0.9939),
    ],
)
def test_wilson_interval(correct: int, total: int, low: float, high: float) -> None:
    """81 of 263 is the example of Newcombe 1998, table I."""
    assert wilson_interval(correct, total) == pytest.approx((low, high), abs=1e-4)


def test_result_is_right_and_says_what_it_is_about() -> None:
    model = vit_mnist(7).train()
    randomise(model)
    digits = load_embedded("validation")
    result = evaluate_model(model, Loader(digits, 100), digits.classes, digits.name)
    with torch.no_grad():
        expected = model.eval()(digits.normalise(digits.images)).argmax(1)
    assert torch.equal(result.predictions, expected)
    assert torch.equal(result.labels, digits.labels)
    assert result.accuracy == pytest.approx((expected == digits.labels).float().mean().item())
    named = sorted(set(expected.tolist()))
    scores = {"labels": named, "average": None, "zero_division": 0.0}
    assert result.recall[named].tolist() == pytest.approx(
        recall_score(digits.labels, expected, **scores).tolist()
    )
    precision = precision_score(digits.labels, expected, **scores).tolist()
    assert result.precision[named].tolist() == pytest.approx(precision)
    assert result.probabilities.sum(1).allclose(torch.ones(1000))
    text = str(result)
    assert "1,000 of the embedded MNIST digits" in text


def test_large_counts_stay_in_their_columns() -> None:
    """Every number of the printed matrix can be read back, whatever its size, and stands under its
    name."""
    matrix = torch.tensor([[123_456, 0, 7], [1, 98_765, 0], [0, 22, 54_321]])
    labels, predictions = torch.arange(3).repeat_interleave(3), torch.arange(3).repeat(3)
    labels, predictions = (
        column.repeat_interleave(matrix.flatten()) for column in (labels, predictions)
    )
    result = Evaluation(
        "toy", ("a", "bird", "c"), labels, predictions, torch.zeros(len(labels), 3), matrix
    )
    *_, heads, one, two, three = str(result).splitlines()
    assert heads.split() == ["a", "bird", "c", "recall"]
    assert [
        [int(number) for number in line.split()[1:4]] for line in (one, two, three)
    ] == matrix.tolist()
    assert heads.index("bird") + 4 == two.index("98765") + 5 == three.index("22") + 2


def test_batch_size_and_order_do_not_matter() -> None:
    digits = load_embedded("validation")
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    model = mnist_vit.load_model("vit_mnist_p7")
    results = [
        mnist_vit.evaluate(model, digits.select(chosen, digits.name), batch_size=batch_size)
        for chosen, batch_size in ((torch.arange(1000), 1000), (torch.arange(1000), 7), (order, 64))
    ]
    for result in results[1:]:
        assert torch.equal(result.matrix, results[0].matrix)


@pytest.mark.parametrize(("patch_size", "most"), [(7, 250), (4, 200)])
def test_a_batch_holds_at_most_10000_tokens(patch_size: int, most: int) -> None:
    """Activations of more do not stay in the memory that malloc keeps; given sizes are used."""
    model = vit_mnist(patch_size)
    sizes: list[int] = []
    model.register_forward_hook(lambda module, args, output: sizes.append(len(args[0])))
    digits = load_embedded().select(torch.arange(260), "260 digits")
    mnist_vit.evaluate(model, digits)
    assert max(sizes) == most
    sizes.clear()
    mnist_vit.evaluate(model, digits, batch_size=260)
    assert max(sizes) == 260


@pytest.mark.parametrize("training", [True, False])
def test_evaluate_leaves_weights_and_mode_alone(training: bool) -> None:
    model = vit_mnist(7).train(training)
    randomise(model)
    model.encoder.layers[0].eval()  # a part in another mode stays so
    modes = [module.training for module in model.modules()]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    result = mnist_vit.evaluate(model)
    assert result.total == 5000
    assert result.accuracy < 0.5, "the model's own weights are used, not the shipped ones"
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.full
def test_the_result_on_the_official_test_images_is_the_stored_one(real_mnist: object) -> None:
    for name in ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7"):
        stored = mnist_vit.weights.read_json(name)["metrics"]["test"]
        result = mnist_vit.evaluate(name, "mnist", split="test")
        assert abs(result.correct - stored["correct"]) <= 1, name
        assert stored["accuracy"] >= 0.985, name


@pytest.mark.full
def test_the_colour_model_s_results_are_the_stored_ones(real_cifar10: object) -> None:
    stored = mnist_vit.weights.read_json("vit_cifar10")["metrics"]
    result = mnist_vit.evaluate("vit_cifar10", "cifar10", split="validation")
    assert result.accuracy == pytest.approx(stored["validation"]["accuracy"], abs=4e-4)
    assert result.accuracy >= 0.775
    images = mnist_vit.data.load_cifar10("test")
    first = images.select(
        torch.arange(1000), "the first 1,000"
    )  # torchvision's own files hold 10,000
    assert abs(mnist_vit.evaluate("vit_cifar10", first).correct - stored["test"]["correct"]) <= 1


def test_threads_share_a_model() -> None:
    """In train mode, with dropout: one thread that ends must not put the others' modes back."""
    model = VisionTransformer(
        28, 7, 2, 2, 64, 256, 0.5, num_classes=10, representation_size=32, in_channels=1
    )
    digits, found = load_embedded("validation"), []
    mnist_vit.load_weights(model, "vit_mnist_p7")

    def work() -> None:
        found.append(mnist_vit.evaluate(model, digits, batch_size=50).correct)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [mnist_vit.evaluate("vit_mnist_p7", digits).correct] * 8
    assert model.training


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_models_of_other_numbers(dtype: torch.dtype) -> None:
    model = vit_mnist(7).to(dtype)
    assert (
        mnist_vit.evaluate(model, load_embedded("validation"), weights="vit_mnist_p7").accuracy
        > 0.98
    )


def test_what_a_notebook_shows() -> None:
    """A line and a small table instead of tensors, and the curves of a training."""
    result = mnist_vit.evaluate("vit_mnist_p7", load_embedded("validation"))
    assert len(repr(result)) < 200
    assert f"{result.accuracy:.2%}" in repr(result)
    assert result._repr_html_().count("<tr>") == 11
    history = mnist_vit.train(vit_mnist(7), wrong(), epochs=2, batch_size=2)
    assert "epoch 2" in repr(history)
    assert history._repr_png_()[1:4] == b"PNG"
    assert json.loads(json.dumps(history)) == history
    assert len(history.plot().axes) == 2


@pytest.mark.parametrize(
    ("where", "seen"),
    [("terminal", True), ("notebook", True), ("log", False), ("terminal without bars", False)],
)
def test_bars_are_shown_in_a_terminal_and_a_notebook_alone(
    where: str, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/0.png", "b/0.png"):
        (tmp_path / name).parent.mkdir()
        Image.new("L", (9, 9)).save(tmp_path / name)
    monkeypatch.setenv("TQDM_DISABLE", "1" if "without" in where else "0")
    if where == "notebook":
        kernel = SimpleNamespace(kernel="ipykernel, or Colab's")
        monkeypatch.setattr("IPython.get_ipython", lambda: kernel)
    for job in (
        lambda: mnist_vit.evaluate(vit_mnist(7), wrong()),
        lambda: mnist_vit.visualize_attention(vit_mnist(7), wrong(), out=tmp_path / "maps"),
        lambda: load_folder(tmp_path),
        lambda: toy_fit(toy_model(), 1),
    ):
        stream = io.StringIO()
        stream.isatty = lambda: where.startswith("terminal")
        monkeypatch.setattr("sys.stdout" if where == "notebook" else "sys.stderr", stream)
        job()
        assert ("%|" in stream.getvalue()) is seen


# --- what is known of a model is used ---


@pytest.mark.full
def test_what_a_model_was_trained_on_is_left_out(tmp_path: Path) -> None:
    mnist_vit.train("vit_mnist_p7", "embedded", epochs=1, save=tmp_path / "w.pth")
    path, model = tmp_path / "w.pth", mnist_vit.load_model(tmp_path / "w.pth")
    assert mnist_vit.evaluate(path).total == mnist_vit.evaluate(model).total == 1000
    with pytest.warns(
        UserWarning, match="was trained on embedded/train, which may contain the 5,000 held-out"
    ):
        assert mnist_vit.evaluate(model, split="all").total == 5000
    page = mnist_vit.visualize_attention(path, per_class=1)
    shown = data_of(page)
    assert shown["title"] == "Inside vit_mnist_p7"
    assert "1,000 of the embedded MNIST digits" in shown["text"]
    mnist_vit.load_weights(model, "vit_mnist_p7")
    assert mnist_vit.evaluate(model).total == 5000, "these weights have never seen them"
    mnist_vit.train(model, "embedded", epochs=1)
    assert model.about["trained_on"] == ["mnist/train", "embedded/train"]


def picture(folder: Path, size: tuple[int, int] = (60, 50)) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(folder / "photo.png")
    return folder / "photo.png"


@pytest.fixture
def theirs() -> nn.Module:
    """torchvision's class, small, for colour photographs of 224 pixels and 1,000 classes."""
    torch.manual_seed(0)
    model = TheirVisionTransformer(224, 56, 1, 2, 8, 8)
    nn.init.normal_(model.heads.head.weight)
    return model.eval()


def test_torchvisions_models_are_prepared_as_their_weights_say(
    theirs: nn.Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, known = picture(tmp_path / "mine", (300, 400)), ViT_B_16_Weights.IMAGENET1K_V1
    calls = (
        lambda **how: mnist_vit.predict(path, theirs, **how),
        lambda **how: mnist_vit.visualize_attention(theirs, path.parent, **how),
    )
    for call in calls:
        with pytest.raises(
            ValueError, match=r"are unknown: give .*ViT_B_16_Weights.* or transform and classes"
        ):
            call()
    with torch.no_grad():
        expected = theirs(known.transforms()(Image.open(path))[None]).softmax(dim=1)[0]
    capsys.readouterr()
    torch.testing.assert_close(
        mnist_vit.predict(path, theirs, weights=known), expected, atol=1e-4, rtol=0
    )
    assert len(capsys.readouterr().out.splitlines()) == 7, "the five likeliest of 1,000"
    again = mnist_vit.predict(path, theirs, weights=known)
    assert torch.equal(mnist_vit.predict(path, theirs), again), "it stays known"
    page = mnist_vit.visualize_attention(theirs, path.parent)
    assert (data_of(page)["title"], len(data_of(page)["examples"])) == ("Inside vit_b_16", 1)
    drawn = json.loads((page.parent / "mine_0" / "attention.json").read_text())
    assert (drawn["label"], drawn["prediction"]) == (
        None,
        known.meta["categories"][expected.argmax()],
    )
    del theirs.about
    for call in calls:
        call(transform=known.transforms(), classes=known.meta["categories"])
    again = json.loads((page.parent / "mine_0" / "attention.json").read_text())
    assert again["probabilities"] == pytest.approx(drawn["probabilities"], abs=2e-4)


def test_other_classes_are_told() -> None:
    clothes = wrong().select(torch.tensor([0, 1]), "clothes")
    clothes = ImageData(**{**vars(clothes), "classes": ("T-shirt/top", *"bcdefghij")})
    for call in (mnist_vit.evaluate, mnist_vit.visualize_attention):
        with pytest.warns(
            UserWarning, match="p7 has the classes 0, 1, 2, 3, …, but clothes have T-shirt/top"
        ):
            call("vit_mnist_p7", clothes)


class OwnModel(nn.Module):
    """What a learner may write: no attribute of ours, other names."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.layer = nn.Linear(784, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.flatten(1))


def test_any_class_can_be_trained(tmp_path: Path) -> None:
    model = OwnModel()
    mnist_vit.train(model, wrong(), epochs=1, batch_size=2, save=tmp_path / "mine.pth")
    assert mnist_vit.evaluate(model, wrong()).total == 2
    stored = json.loads((tmp_path / "mine.json").read_text())
    assert stored["name"] == "OwnModel"
    assert not {"config", "command"} & set(stored), "what cannot be known is left out"
    again = OwnModel()
    mnist_vit.load_weights(again, tmp_path / "mine.pth")
    assert torch.equal(again.layer.weight, model.layer.weight)
    with pytest.raises(WeightsError, match=r"mine\.pth .*load_weights"):
        mnist_vit.load_model(tmp_path / "mine.pth")


@pytest.mark.parametrize(
    ("model", "how", "said"),
    [
        (OwnModel(9), {}, r"logits \(n, 10\): for \(2, 1, 28, 28\) it returns \(2, 9\)"),
        (
            OwnModel(),
            {"keep_patches": 3},
            "keep_patches works with the unchanged VisionTransformer",
        ),
    ],
)
def test_what_a_training_needs_is_checked_before_the_first_epoch(
    model: nn.Module, how: dict, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        mnist_vit.train(model, wrong(), epochs=1, run_dir=tmp_path / "run", **how)
    assert not (tmp_path / "run").exists()


def wrong(size: int = 28, channels: int = 1, classes: int = 10) -> ImageData:
    images = torch.zeros(2, channels, size, size, dtype=torch.uint8)
    names = tuple(map(str, range(classes)))
    return ImageData(
        images, torch.zeros(2).long(), names, "toy", (0.5,) * channels, (0.5,) * channels
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (wrong(size=32), "toy: 32 pixels in a column, the model needs 28"),
        (wrong(channels=3), "toy: 3 channels, the model needs 1"),
        (wrong(classes=3), "toy: 3 classes, the model needs 10"),
    ],
)
def test_images_that_do_not_fit(data: ImageData, said: str) -> None:
    for call in (mnist_vit.evaluate, mnist_vit.train, mnist_vit.visualize_attention):
        with pytest.raises(DataError, match=said):
            call(vit_mnist(7), data)


def test_other_models_can_be_evaluated() -> None:
    """A colour model with other classes, on the device it is on."""
    model = VisionTransformer(8, 4, 1, 1, 4, 8, num_classes=3)
    assert mnist_vit.evaluate(model, wrong(8, 3, 3)).total == 2
