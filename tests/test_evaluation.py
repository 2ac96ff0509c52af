"""The matrix is scikit-learn's, the interval is Wilson's, and the model is left as it was."""

import pytest
import torch
from helpers import randomise
from sklearn.metrics import confusion_matrix as sklearn_matrix
from sklearn.metrics import precision_score, recall_score

import mnist_vit
from mnist_vit.data import ImageData, Loader, load_embedded
from mnist_vit.errors import DataError
from mnist_vit.evaluation import Evaluation, confusion_matrix, evaluate_model, wilson_interval
from mnist_vit.model import VisionTransformer, vit_mnist


@pytest.mark.parametrize("k", [2, 3, 10])
def test_matrix_is_scikit_learns(k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    labels = torch.randint(0, k, (300,), generator=generator)
    predictions = torch.where(torch.rand(300, generator=generator) < 0.6, labels, 0)  # not symmetric
    expected = sklearn_matrix(labels, predictions, labels=list(range(k)))
    assert confusion_matrix(labels, predictions, k).tolist() == expected.tolist()


def test_a_known_matrix() -> None:
    matrix = confusion_matrix(torch.tensor([0, 0, 1, 2]), torch.tensor([1, 0, 1, 1]), 4)
    assert matrix.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("labels", "predictions"),
    [([0, 1], [0]), ([0, 3], [0, 1]), ([0, -1], [0, 1]), ([0, 1], [0, 9]), ([0.0, 1.0], [0.0, 1.0])],
)
def test_matrix_nonsense(labels: list, predictions: list) -> None:
    with pytest.raises(ValueError, match=r"labels|predictions"):
        confusion_matrix(torch.tensor(labels), torch.tensor(predictions), 3)


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (989, 1000, 0.9804, 0.9939)],
)
def test_wilson_interval(correct: int, total: int, low: float, high: float) -> None:
    """81 of 263 is the example of Newcombe 1998, table I."""
    assert wilson_interval(correct, total) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("correct", "total"), [(1, 0), (5, 4), (-1, 4)])
def test_interval_nonsense(correct: int, total: int) -> None:
    with pytest.raises(ValueError, match="need 0 <= correct <= total"):
        wilson_interval(correct, total)


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
    assert result.recall[named].tolist() == pytest.approx(recall_score(digits.labels, expected, **scores).tolist())
    assert result.precision[named].tolist() == pytest.approx(
        precision_score(digits.labels, expected, **scores).tolist()
    )
    assert result.probabilities.sum(1).allclose(torch.ones(1000))
    text = str(result)
    assert "1,000 of the embedded MNIST digits" in text
    assert "each row is a true class" in text


def test_large_counts_stay_in_their_columns() -> None:
    """Every number of the printed matrix can be read back, whatever its size, and stands under its name."""
    matrix = torch.tensor([[123_456, 0, 7], [1, 98_765, 0], [0, 22, 54_321]])
    labels, predictions = torch.arange(3).repeat_interleave(3), torch.arange(3).repeat(3)
    labels, predictions = (column.repeat_interleave(matrix.flatten()) for column in (labels, predictions))
    result = Evaluation("toy", ("a", "bird", "c"), labels, predictions, torch.zeros(len(labels), 3), matrix)
    *_, heads, one, two, three = str(result).splitlines()
    assert heads.split() == ["a", "bird", "c", "recall"]
    assert [[int(number) for number in line.split()[1:4]] for line in (one, two, three)] == matrix.tolist()
    assert heads.index("bird") + 4 == two.index("98765") + 5 == three.index("22") + 2


def test_batch_size_and_order_do_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    digits = load_embedded("validation")
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    model = mnist_vit.load_model("vit_mnist_p7")
    results = [
        mnist_vit.evaluate(model, digits.select(chosen, digits.name), batch_size=batch_size)
        for chosen, batch_size in ((torch.arange(1000), 1000), (torch.arange(1000), 7), (order, 64))
    ]
    for result in results[1:]:
        assert torch.equal(result.matrix, results[0].matrix)


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


def test_evaluate_loads_weights_when_told() -> None:
    model = vit_mnist(7)
    assert mnist_vit.evaluate(model, weights="vit_mnist_p7").accuracy > 0.98
    assert mnist_vit.evaluate("vit_mnist_p7").accuracy > 0.98


def test_the_result_on_the_official_test_images_is_the_stored_one(real_mnist: object) -> None:
    for name in ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7"):
        stored = mnist_vit.weights.read_json(name)["metrics"]["test"]
        result = mnist_vit.evaluate(name, "mnist", split="test")
        assert abs(result.correct - stored["correct"]) <= 1, name
        assert stored["accuracy"] >= 0.985, name


def test_the_colour_model_s_results_are_the_stored_ones(real_cifar10: object) -> None:
    stored = mnist_vit.weights.read_json("vit_cifar10")["metrics"]
    result = mnist_vit.evaluate("vit_cifar10", "cifar10", split="validation")
    assert result.accuracy == pytest.approx(stored["validation"]["accuracy"], abs=4e-4)
    assert result.accuracy >= 0.775
    images = mnist_vit.data.load_cifar10("test")
    first = images.select(torch.arange(1000), "the first 1,000")  # torchvision's own files hold 10,000
    assert abs(mnist_vit.evaluate("vit_cifar10", first).correct - stored["test"]["correct"]) <= 1


def wrong(size: int = 28, channels: int = 1, classes: int = 10) -> ImageData:
    images = torch.zeros(2, channels, size, size, dtype=torch.uint8)
    names = tuple(map(str, range(classes)))
    return ImageData(images, torch.zeros(2).long(), names, "toy", (0.5,) * channels, (0.5,) * channels)


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
