"""Notebook 10's tests of attention maps, for each shipped model of digits: how the answer changes.

    python -m experiments maps vit_mnist_p7      # measure one model, print it beside what is stored
    python -m experiments maps --store           # measure all, write notebooks/results/maps.json

About 500 embedded digits that the models were not trained on, 250 for the smallest patches. Hidden
are patches with ink, as many as cover the area of 8 patches of 4 × 4 pixels; what is stored is the
mean probability of the right digit. Rows and values are exchanged in both heads of one layer, for
the class token alone; what is stored is the percentage classified as the digit itself, and as the
one whose row or values were taken. Numbers change with the weights: then store them anew.
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from ladder import store
from torch import Tensor

from mnist_vit import attention_weights, load_model
from mnist_vit.course.ladder import stored
from mnist_vit.course.nb10_testing_maps.exchange import my_exchange
from mnist_vit.course.nb10_testing_maps.hide import my_hide
from mnist_vit.course.nb10_testing_maps.leave_out import my_leave_out
from mnist_vit.data import load_embedded
from mnist_vit.model import VisionTransformer

MODELS = {
    "vit_mnist_p7": (3, 5),
    "vit_mnist_p4": (8, 5),
    "vit_mnist": (32, 10),
}  # hidden patches; one digit in so many


class Trial:
    """A model, and the digits with enough ink to hide that many patches of it."""

    def __init__(self, name: str) -> None:
        self.model: VisionTransformer = load_model(name).requires_grad_(False)
        (self.count, step), self.patch, digits = (
            MODELS[name],
            self.model.patch_size,
            load_embedded(),
        )
        many = digits.images[::step]
        inked = (F.max_pool2d(many.float(), self.patch) > 0).flatten(1)
        few = inked.sum(dim=1).ge(self.count).nonzero()[::2, 0]
        self.ink, self.grey = inked[few], F.avg_pool2d(many[few].float(), self.patch).flatten(1)
        self.x, self.y = digits.normalise(many[few]), digits.labels[::step][few]
        self.rows = attention_weights(self.model, self.x, query=0, batch_size=100)

    def right_digit(self, hidden: Tensor) -> Tensor:
        """The probability of the right digit with these patches hidden, (n,)."""
        return my_hide(self.model, self.x, hidden).softmax(dim=1)[torch.arange(len(self.y)), self.y]

    def left(self, score: Tensor, among: Tensor) -> float:
        """The mean probability that is left without the patches of the highest scores."""
        best = score.masked_fill(~among, -torch.inf).topk(self.count, dim=1).indices
        return round(
            self.right_digit(torch.zeros_like(among).scatter(1, best, True)).mean().item(), 3
        )

    def hiding(self) -> dict[str, float]:
        """What is left by each rule."""
        pixels = self.x.clone().requires_grad_()
        self.model(pixels)[torch.arange(len(self.y)), self.y].sum().backward()
        gradient = (pixels.grad * self.x).detach()  # type: ignore[operator]
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
        found = {rule: self.left(score, self.ink) for rule, score in scores.items()}
        found["leaving single patches out, blank ones too"] = self.left(
            alone, torch.ones_like(self.ink)
        )
        return {
            "nothing": round(self.right_digit(torch.zeros_like(self.ink)).mean().item(), 3)
        } | found

    def exchanging(self, layer: int) -> dict[str, list[float]]:
        """Percent of the digits that are classified as themselves, and as the other digit."""
        own, n = self.rows[:, layer], torch.arange(len(self.y))
        other = n.roll(len(n) // 2)
        places = torch.randperm(own.shape[-1] - 1, generator=torch.Generator().manual_seed(1))
        mean = own.mean(dim=0, keepdim=True).expand_as(own)
        cases = {
            "its own": (own, n),
            "even rows": (torch.full_like(own, 1 / own.shape[-1]), n),
            "shuffled rows": (own[..., torch.cat([torch.zeros(1).long(), 1 + places])], n),
            "another digit's rows": (own[other], n),
            "one mean row for all": (mean, n),
            "another digit's values": (own, other),
            "another digit's rows and values": (own[other], other),
        }
        assert (self.y[other] != self.y).all()
        return {name: self.named(layer, *case, other) for name, case in cases.items()}

    def named(self, layer: int, rows: Tensor, givers: Tensor, other: Tensor) -> list[float]:
        """Percent named as the digit itself, and as the other one."""

        def change(module: torch.nn.Module, args: tuple, output: tuple) -> tuple:
            return my_exchange(module, args[0], output[0], rows, givers), output[1]

        handle = self.model.encoder.layers[layer].self_attention.register_forward_hook(change)
        try:
            found = self.model(self.x).argmax(dim=1)
        finally:
            handle.remove()
        return [
            round(100 * (found == truth).float().mean().item(), 1)
            for truth in (self.y, self.y[other])
        ]


def measure(name: str) -> dict[str, Any]:
    """All tests of one model."""
    trial = Trial(name)
    layers = range(len(trial.model.encoder.layers))
    return {
        "tensors": trial.model.about["tensors"],
        "digits": len(trial.y),
        "hidden": trial.count,
        "probability left": trial.hiding(),
        "percent": {f"layer {layer}": trial.exchanging(layer) for layer in layers},
        "command": "python -m experiments maps --store",
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure models, and print or store what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", choices=[*MODELS, []], metavar="model", help=", ".join(MODELS)
    )
    parser.add_argument("--store", action="store_true", help="write the JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in options.models or MODELS:
        found = measure(name)
        if options.store:
            store(name, found, list(MODELS), "maps")
        else:
            print(f"{name}: now {found}\nstored {stored(name, 'maps')}", flush=True)


if __name__ == "__main__":
    main()
