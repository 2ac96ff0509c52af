"""Notebook 10's tests of attention maps, for each shipped model of digits.

    python -m experiments maps vit_mnist_p7  # measure one model, print it beside what is stored
    python -m experiments maps all --store   # measure all, write notebooks/results/maps.json

About 500 embedded digits that the models were not trained on, 250 for the smallest patches. Hidden
are patches with ink, as many as cover the area of 8 patches of 4 × 4 pixels; what is stored is the
mean probability of the right digit. Rows and values are exchanged in both heads of one layer, for
the class token alone; what is stored is the percentage classified as the digit itself, and as the
one whose row or values were taken. Numbers change with the weights: then store them anew.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mnist_vit import attention_weights, load_model
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.course.nb10_testing_maps.exchange import my_exchange
from mnist_vit.course.nb10_testing_maps.hide import my_hide
from mnist_vit.course.nb10_testing_maps.leave_out import my_leave_out
from mnist_vit.data import load_embedded
from mnist_vit.model import VisionTransformer

FILE = RESULTS / "maps.json"
# How many patches are hidden; one digit in so many is used.
MODELS = {"vit_mnist_p7": (3, 5), "vit_mnist_p4": (8, 5), "vit_mnist": (32, 10)}
NAMES = list(MODELS)


def run(name: str) -> dict[str, Any]:
    """Make all tests with one model."""
    trial = Trial(name)
    layers = range(len(trial.model.encoder.layers))
    return {
        "tensors": trial.model.about["tensors"],
        "digits": len(trial.y),
        "hidden": trial.count,
        "probability left": trial.hiding(),
        "percent": {f"layer {layer}": trial.exchanging(layer) for layer in layers},
    }


class Trial:
    """A model, and the digits with enough ink to hide that many patches of it."""

    def __init__(self, name: str) -> None:
        self.model: VisionTransformer = load_model(name).requires_grad_(False)
        self.patch = self.model.patch_size
        self.count, step = MODELS[name]
        digits = load_embedded()
        many = digits.images[::step]
        inked = (F.max_pool2d(many.float(), self.patch) > 0).flatten(1)
        enough = inked.sum(dim=1).ge(self.count).nonzero()[::2, 0]
        self.ink = inked[enough]
        self.grey = F.avg_pool2d(many[enough].float(), self.patch).flatten(1)
        self.x = digits.normalise(many[enough])
        self.y = digits.labels[::step][enough]
        self.rows = attention_weights(self.model, self.x, query=0, batch_size=100)

    def right_digit(self, hidden: Tensor) -> Tensor:
        """Return the probability of the right digit with these patches hidden, (n,)."""
        probabilities = my_hide(self.model, self.x, hidden).softmax(dim=1)
        return probabilities[torch.arange(len(self.y)), self.y]

    def left(self, score: Tensor, among: Tensor) -> float:
        """Return the mean probability that is left without the patches of the highest scores."""
        best = score.masked_fill(~among, -torch.inf).topk(self.count, dim=1).indices
        hidden = torch.zeros_like(among).scatter(1, best, True)
        return round(self.right_digit(hidden).mean().item(), 3)

    def hiding(self) -> dict[str, float]:
        """Return what is left by each rule."""
        gradient = self.gradient_times_input()
        noise = torch.rand(self.ink.shape, generator=torch.Generator().manual_seed(0))
        alone = my_leave_out(
            lambda hidden: my_hide(self.model, self.x, hidden), self.y, self.ink.shape[1]
        )
        scores = {
            "random ink": noise,
            "most ink": self.grey + noise,  # the noise decides between equals
            "first layer": self.rows[:, 0].mean(dim=1)[:, 1:],
            "last layer": self.rows[:, -1].mean(dim=1)[:, 1:],
            "gradient x input, with its sign": F.avg_pool2d(gradient, self.patch).flatten(1),
            "gradient x input": F.avg_pool2d(gradient.abs(), self.patch).flatten(1),
            "leaving single patches out": alone,
        }
        every_patch = torch.ones_like(self.ink)
        nothing = self.right_digit(torch.zeros_like(self.ink)).mean().item()
        found = {"nothing": round(nothing, 3)}
        for rule, score in scores.items():
            found[rule] = self.left(score, self.ink)
        found["leaving single patches out, blank ones too"] = self.left(alone, every_patch)
        return found

    def gradient_times_input(self) -> Tensor:
        """Return the gradient of the right digit's logit times the pixels, (n, 1, 28, 28)."""
        pixels = self.x.clone().requires_grad_()
        self.model(pixels)[torch.arange(len(self.y)), self.y].sum().backward()
        return (pixels.grad * self.x).detach()  # type: ignore[operator]

    def exchanging(self, layer: int) -> dict[str, list[float]]:
        """Return the percentages classified as the digit itself and as the other, by case."""
        own = self.rows[:, layer]
        tokens = own.shape[-1]
        itself = torch.arange(len(self.y))
        other = itself.roll(len(itself) // 2)
        assert (self.y[other] != self.y).all()
        places = torch.randperm(tokens - 1, generator=torch.Generator().manual_seed(1))
        class_token_first = torch.cat([torch.zeros(1).long(), 1 + places])
        mean = own.mean(dim=0, keepdim=True).expand_as(own)
        cases = {
            "its own": (own, itself),
            "even rows": (torch.full_like(own, 1 / tokens), itself),
            "shuffled rows": (own[..., class_token_first], itself),
            "another digit's rows": (own[other], itself),
            "one mean row for all": (mean, itself),
            "another digit's values": (own, other),
            "another digit's rows and values": (own[other], other),
        }
        return {
            name: self.named(layer, rows, givers, other) for name, (rows, givers) in cases.items()
        }

    def named(self, layer: int, rows: Tensor, givers: Tensor, other: Tensor) -> list[float]:
        """Return the percentages classified as the digit itself, and as the other one."""

        def change(module: torch.nn.Module, args: tuple, output: tuple) -> tuple:
            return my_exchange(module, args[0], output[0], rows, givers), output[1]

        handle = self.model.encoder.layers[layer].self_attention.register_forward_hook(change)
        try:
            found = self.model(self.x).argmax(dim=1)
        finally:
            handle.remove()
        return [percent_equal(found, self.y), percent_equal(found, self.y[other])]


def percent_equal(found: Tensor, truth: Tensor) -> float:
    return round(100 * (found == truth).float().mean().item(), 1)
