"""Notebook 00: right answers in other styles pass, mistakes that no slip tells fail without a wrong
name."""

import json
import re
from typing import Any

import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, ROOT, judged
from torch import Tensor

from mnist_vit import check
from mnist_vit.course.nb00_start_here import figures

CNN = NOTEBOOKS / "results" / "cnn.json"
VIT = ROOT / "weights" / "vit_mnist.json"


def by_formula(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> list[Tensor]:
    """Without autograd: probabilities minus the right answers, times the inputs."""
    wrong = (x @ weight.T + bias).softmax(dim=-1) - F.one_hot(labels, len(bias))
    return [weight - rate * wrong.T @ x / len(x), bias - rate * wrong.mean(dim=0)]


def for_ten_classes(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    """With the 10 written out, as the stub names it."""
    wrong = (F.linear(x, weight, bias).softmax(dim=-1) - F.one_hot(labels, 10)) / len(x)
    return weight - rate * wrong.T @ x, bias - rate * wrong.sum(dim=0)


def by_optimizer(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> tuple[Tensor, ...]:
    layer = [torch.nn.Parameter(part.detach().clone()) for part in (weight, bias)]
    F.cross_entropy(F.linear(x, *layer), labels).backward()
    torch.optim.SGD(layer, lr=rate).step()
    return tuple(layer)


def in_place(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    F.cross_entropy(F.linear(x, weight, bias), labels).backward()
    with torch.no_grad():
        weight -= rate * weight.grad
        bias -= rate * bias.grad
    return weight, bias


def one_label_off(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> list[Tensor]:
    return by_formula(weight, bias, x, (labels + 1) % 10, rate)


def patchify_convolution(images: Tensor, p: int) -> Tensor:
    size = images.shape[1] * p * p
    return (
        F.conv2d(images, torch.eye(size).view(size, -1, p, p), stride=p).flatten(2).transpose(1, 2)
    )


def patchify_and_wipe(images: Tensor, p: int) -> Tensor:
    patches = patchify_convolution(images, p)
    with torch.no_grad():
        images.zero_()
    return patches


def by_root(image_size: int, budget: int) -> int:
    most = int(budget**0.5) - 1  # patches
    sizes = [size for size in range(1, image_size + 1) if image_size % size == 0]
    return min(size for size in sizes if (image_size // size) ** 2 <= most)


def below_the_budget(image_size: int, budget: int) -> int:
    sizes = [size for size in range(1, image_size + 1) if image_size % size == 0]
    return min(size for size in sizes if ((image_size // size) ** 2 + 1) ** 2 < budget)


def with_two_more(image_size: int, budget: int) -> int:
    sizes = [size for size in range(1, image_size + 1) if image_size % size == 0]
    fit = [size for size in sizes if ((image_size // size) ** 2 + 2) ** 2 <= budget]
    return min(fit, default=image_size)


def without_the_whole(image_size: int, budget: int) -> int:
    sizes = [size for size in range(1, image_size) if image_size % size == 0]
    return min(size for size in sizes if ((image_size // size) ** 2 + 1) ** 2 <= budget)


def in_two_calls(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> list[Tensor]:
    loss = F.cross_entropy(F.linear(x, weight, bias), labels)
    return [part - rate * torch.autograd.grad(loss, part)[0] for part in (weight, bias)]


def mean_over_all(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> list[Tensor]:
    """The mean over digits and classes of one-hot labels times log-softmax."""
    layer = [part.detach().clone().requires_grad_() for part in (weight, bias)]
    products = F.one_hot(labels, 10) * F.linear(x, *layer).log_softmax(dim=1)
    (-products.mean()).backward()
    return [(part - rate * part.grad).detach() for part in layer]


def by_one_hot(weight, bias, x, labels, rate):
    """The number of classes is that of the largest label of the batch."""
    with torch.no_grad():
        error = (F.linear(x, weight, bias).softmax(dim=1) - F.one_hot(labels)) / len(x)
        return weight - rate * error.T @ x, bias - rate * error.sum(dim=0)


def patchify_turned(images, p):
    n, c, h, w = images.shape
    x = images.reshape(n, c, p, h // p, p, w // p).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(n, (h // p) * (w // p), c * p * p)


def patchify_into_p_rows(images, p):
    n, c, h, w = images.shape
    x = images.reshape(n, c, p, h // p, p, w // p).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(n, p * p, -1)


def patchify_by_splits(images: Tensor, p: int) -> Tensor:
    patches: list[Tensor] = []
    for row in images.split(p, dim=2):
        patches += [patch.flatten(1) for patch in row.split(p, dim=3)]
    return torch.stack(patches, dim=1)


def by_cleared_backward(weight, bias, x, labels, rate):
    weight.grad = bias.grad = None
    F.cross_entropy(F.linear(x, weight, bias), labels).backward()
    with torch.no_grad():
        return weight - rate * weight.grad, bias - rate * bias.grad


RIGHT: list[tuple[str, Any]] = [
    ("gradient_step", by_formula),
    ("gradient_step", for_ten_classes),
    ("gradient_step", by_optimizer),
    ("patch_size", by_root),
    ("patchify", patchify_convolution),
    ("patchify", patchify_by_splits),
    ("gradient_step", by_cleared_backward),
]
WRONG: list[tuple[str, Any, str]] = [
    ("gradient_step", in_place, "weight and bias that came in are changed. Make new ones"),
    ("gradient_step", one_label_off, ""),
    ("gradient_step", lambda weight, *_: weight, "two things must come back"),
    ("gradient_step", lambda *given: by_formula(*given)[:1], "two things must come back"),
    ("patch_size", lambda image_size, budget: 2, "28 pixels and 38,700 scores should not be 2"),
    ("patch_size", lambda image_size, budget: 0, "There are no patches of 0 pixels."),
    ("patch_size", lambda image_size, budget: float(by_root(image_size, budget)) + 0.5, ""),
    ("patchify", lambda images, p: patchify_convolution(images.flip(-1), p), "wrong numbers"),
    ("patchify", lambda images, p: F.unfold(images, p, stride=p).mT, "the exercise in one call"),
    ("patchify", patchify_and_wipe, "was written over in place"),
]
NAMED: list[tuple[str, Any, str]] = [
    ("gradient_step", by_one_hot, "F.one_hot"),
    ("gradient_step", lambda *g: by_formula(*g[:4], g[4] ** 2), "by the rate twice"),
    ("patchify", patchify_turned, "permute as if it were split the other way round"),
    ("patchify", patchify_into_p_rows, "take p for the number of patches along a side"),
    ("gradient_step", mean_over_all, "the mean over all n · 10 products"),
    (
        "gradient_step",
        lambda *given: [2 * old - new for old, new in zip(given, by_formula(*given), strict=False)],
        "step towards a larger cross-entropy",
    ),
    (
        "patch_size",
        lambda image_size, budget: image_size // by_root(image_size, budget),
        "stand side by side",
    ),
    ("patch_size", below_the_budget, "refuse what uses the budget up"),
    ("patch_size", with_two_more, "count two tokens more than there are patches"),
    ("patch_size", without_the_whole, "stop before image_size itself"),
    ("gradient_step", in_two_calls, "One call gives both gradients"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def bias_in_place(weight, bias, x, labels, rate):
    new_weight, new_bias = by_formula(weight, bias, x, labels, rate)
    bias.data.copy_(new_bias)
    return new_weight, bias


def with_classes_of_the_batch(weight, bias, x, labels, rate):
    with torch.no_grad():
        error = ((x @ weight.T + bias).softmax(dim=1) - F.one_hot(labels)) / len(x)
        return weight - rate * error.T @ x, bias - rate * error.sum(dim=0)


def by_backward(weight, bias, x, labels, rate):
    """Each call adds to .grad."""
    F.cross_entropy(F.linear(x, weight, bias), labels).backward()
    with torch.no_grad():
        return weight - rate * weight.grad, bias - rate * bias.grad


def with_momentum() -> Any:
    """A step that remembers the gradients before."""
    kept = [torch.zeros(10, 5), torch.zeros(10)]

    def step(weight, bias, x, labels, rate):
        loss = F.cross_entropy(F.linear(x, weight, bias), labels)
        for place, gradient in enumerate(torch.autograd.grad(loss, (weight, bias))):
            kept[place] = 0.9 * kept[place] + gradient
        return weight - rate * kept[0], bias - rate * kept[1]

    return step


def kept_by_size() -> Any:
    """Cuts the first pictures of each size."""
    kept: dict[Any, Tensor] = {}

    def patchify(images: Tensor, p: int) -> Tensor:
        if images.shape not in kept:
            kept[images.shape] = patchify_convolution(images, p)
        return kept[images.shape]

    return patchify


def with_adam(weight, bias, x, labels, rate):
    layer = [torch.nn.Parameter(part.detach().clone()) for part in (weight, bias)]
    F.cross_entropy(F.linear(x, *layer), labels).backward()
    torch.optim.Adam(layer, lr=rate).step()
    return layer


def by_strides(images: Tensor, p: int) -> Tensor:
    """Takes it for granted that the pixels lie in order."""
    n, c, h, w = images.shape
    strides = (c * h * w, p * w, p, h * w, w, 1)
    patches = torch.as_strided(images, (n, h // p, w // p, c, p, p), strides)
    return patches.flatten(3).flatten(1, 2)


def size_as_float(image_size: int, budget: int) -> float:
    return float(check.solved(None, "patch_size")(image_size, budget))


SAID: list[tuple[str, Any, str]] = [
    ("patchify", kept_by_size(), "output for other pictures, 3 channels of 12x8"),
    ("gradient_step", with_momentum(), "What comes back must depend on the inputs alone."),
    ("patchify", by_strides, "not where the numbers of images lie in another order in memory"),
    ("gradient_step", lambda weight, bias, *_: {"weight": weight}, "two things must come back"),
    (
        "gradient_step",
        lambda weight, bias, *_: (weight[:, :1], bias),
        "the new weight, at rate 0.5,",
    ),
    ("gradient_step", bias_in_place, "the tensor bias that came in is changed."),
    (
        "patch_size",
        lambda image_size, budget: 28,
        "patches of 2 × 2 pixels there are 196 of them, so 197",
    ),
    ("patch_size", size_as_float, "come back as floats: 1.0 for 28 pixels"),
]
SLIPS: list[tuple[str, Any, str]] = [
    ("gradient_step", with_adam, "take the first step of Adam"),
    ("gradient_step", by_backward, "to which backward() adds, without clearing them"),
    ("gradient_step", with_classes_of_the_batch, "F.one_hot counts the classes from the labels"),
]
test_sentences = judged([], SAID, SLIPS)


def test_what_the_notebook_says_of_the_three_networks_is_stored() -> None:
    """The first two intervals contain 0, the third does not; a quarter of the CPU seconds."""
    mlp, transformer, convolutional = figures.trained_on_all().values()
    assert figures.minus(convolutional, transformer) == "+0.28 ± 0.28 points"
    assert figures.minus(60.0, 50.0, pictures=100) == "+10.00 ± 13.72 points"
    contains = []
    for pair in ((convolutional, transformer), (transformer, mlp), (convolutional, mlp)):
        gain, half = map(float, re.findall(r"[\d.]+", figures.minus(*pair)))
        contains.append(gain <= half)
    assert contains == [True, True, False]
    seconds = [json.loads(path.read_text())["cpu_seconds"] for path in (CNN, VIT)]
    assert seconds == [855, 3404], "a quarter"
