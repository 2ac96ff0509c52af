"""Maps of relevance and attention against each other, judged by hiding the best patches.

    python -m experiments contest vit_mnist_p7  # both seeds of one model, beside what is stored
    python -m experiments contest all --store   # all, to notebooks/results/contest.json

250 validation images that no model was trained on, every twentieth; the seed moves the first one,
and draws the random maps. What is stored is the mean probability of the right class and half of its
95 % interval over pictures, by map and way of hiding: as many patches as cover about a sixth of a
picture are taken out, or painted black, in the mean colour, or with another picture's pixels; or
they alone are kept. ``docs/relevance.md`` shows it; ``python -m tools contest`` draws it.
"""

import math
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from mnist_vit import attention_weights, load_model, record_attention
from mnist_vit.attention import rollout
from mnist_vit.building import build_model, model_config
from mnist_vit.course.ladder.rows import RESULTS
from mnist_vit.data import load_data, load_embedded
from mnist_vit.hiding import faithfulness, interval, leave_one_out
from mnist_vit.relevance import class_scores, integrated_gradients, relevance
from mnist_vit.tokens import at_tokens

FILE = RESULTS / "contest.json"
KEY = "model"
SEEDS = [0, 1]
HIDDEN = {"vit_mnist_p7": 3, "vit_mnist_p4": 8, "vit_mnist": 30, "vit_cifar10": 16}
NAMES = list(HIDDEN)
CURVES = ["random", "last layer", "relevance", "integrated gradients, black"]
CURVES += ["leave one out", "leave one out, black"]
POINTS = 9


def about() -> dict[str, Any]:
    """What all rows have in common."""
    return {"what": "[mean probability of the right class, half of its 95 % interval]"}


def run(name: str, seed: int) -> dict[str, Any]:
    """Judge all maps of one model in all ways."""
    trial = Trial(name, seed)
    maps = trial.maps()
    count = HIDDEN[name]
    left: dict[str, dict[str, list[float]]] = {}
    differences: dict[str, dict[str, list[float]]] = {}
    for way, options in trial.ways().items():
        found = {rule: trial.judged(one, [count], **options)[:, 0] for rule, one in maps.items()}
        left[way] = {rule: pair(values) for rule, values in found.items()}
        last = found["last layer"]
        differences[way] = {rule: pair(values - last) for rule, values in found.items()}
    return {
        "tensors": trial.model.about["tensors"],
        "pictures": len(trial.x),
        "hidden": count,
        "of": trial.patches,
        "nothing hidden": pair(trial.judged(maps["random"], [0])[:, 0]),
        "left": left,
        "minus last layer": differences,
        "curves": trial.curves(maps),
        "milliseconds a picture": trial.milliseconds,
        "sum of relevance": [round(value, 2) for value in trial.sums],
    }


def pair(values: Tensor) -> list[float]:
    mean, half = interval(values)
    return [round(mean.item(), 3), round(half.item(), 3)]


class Trial:
    """A model, pictures and their right classes."""

    def __init__(self, name: str, seed: int) -> None:
        self.seed = seed
        self.model = load_model(name)
        self.is_of_digits = name != "vit_cifar10"
        data = load_embedded() if self.is_of_digits else load_data("cifar10", "validation")
        some = range(seed, len(data.images), len(data.images) // 250)
        pictures = data.images[list(some)]
        self.y = data.labels[list(some)]
        self.x = data.normalise(pictures)
        self.black = data.normalise(torch.zeros_like(pictures[:1]))
        self.patches = self.model.num_patches
        self.side = math.isqrt(self.patches)
        ink = F.adaptive_max_pool2d(pictures.float().amax(dim=1), self.side)
        self.ink = ink.flatten(1) > 0
        self.milliseconds: dict[str, float] = {}
        self.sums: list[float] = []

    def ways(self) -> dict[str, dict[str, Any]]:
        """The ways of hiding, as keywords of ``faithfulness``."""
        mean = self.x.mean(dim=(0, 2, 3), keepdim=True)
        return {
            "taken out": {},
            "painted black": {"reference": self.black},
            "painted in the mean colour": {"reference": mean},
            "painted with another picture": {"reference": self.x.roll(len(self.x) // 2, dims=0)},
            "only the best kept": {"keep": True},
        }

    def judged(self, score: Tensor, counts: list[int], **options: Any) -> Tensor:
        return faithfulness(self.model, self.x, score, counts, self.y, **options)

    def curves(self, maps: dict[str, Tensor]) -> dict[str, Any]:
        """Means over the number of hidden patches, by way and map."""
        counts = [round(self.patches * i / (POINTS - 1)) for i in range(POINTS - 1)]
        found: dict[str, Any] = {"counts": counts}
        for way in ("taken out", "painted black"):
            found[way] = {}
            for rule in CURVES:
                left = self.judged(maps[rule], counts, **self.ways()[way])
                found[way][rule] = [round(value, 3) for value in left.mean(dim=0).tolist()]
        return found

    # ---- maps, (n, patches) each ----

    def maps(self) -> dict[str, Tensor]:
        """All maps; the time of some."""
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.rand(self.ink.shape, generator=generator)
        weights = attention_weights(self.model, self.x, batch_size=50)
        rows = weights[:, :, :, 0, 1:].mean(dim=2)
        found = {"random": noise}
        if self.is_of_digits:
            found["random ink"] = noise.masked_fill(~self.ink, -math.inf)
        found |= {"first layer": rows[:, 0], "last layer": rows[:, -1]}
        found["rollout"] = rollout(weights)[:, 0, 1:]
        found["Chefer's gradient rollout"] = self.timed("Chefer", self.gradient_rollout)
        found["gradient × pixel, absolute"] = self.gradient_times_pixel()
        plain, norm = self.gradients_times_token()
        found["gradient × token"] = plain
        found["the norm rule alone"] = norm
        found["relevance"] = self.timed("relevance", self.relevance)
        found["relevance of another class"] = relevance(self.model, self.x, self.second())
        found["relevance, random weights"] = relevance(self.random_model(), self.x, self.y)
        found["integrated gradients, black"] = self.timed(
            "integrated gradients", lambda: self.integrated(self.black)
        )
        mean = self.x.mean(dim=(0, 2, 3), keepdim=True)
        found["integrated gradients, mean colour"] = self.integrated(mean)
        found["leave one out"] = self.timed("leave one out", lambda: self.leave_out(None))
        found["leave one out, black"] = self.leave_out(self.black)
        self.sums = [
            class_scores(self.model, self.x, self.y).mean().item(),
            plain.sum(dim=1).mean().item(),
            norm.sum(dim=1).mean().item(),
            found["relevance"].sum(dim=1).mean().item(),
        ]
        return found

    def timed(self, name: str, make: Any) -> Tensor:
        start = time.process_time()
        made = make()
        self.milliseconds[name] = round(1000 * (time.process_time() - start) / len(self.x), 2)
        return made

    def relevance(self) -> Tensor:
        return relevance(self.model, self.x, self.y)

    def integrated(self, reference: Tensor) -> Tensor:
        parts = []
        for x, y in zip(self.x.split(50), self.y.split(50), strict=True):
            parts.append(integrated_gradients(self.model, x, reference, y))
        return torch.cat(parts)

    def leave_out(self, reference: Tensor | None) -> Tensor:
        return leave_one_out(self.model, self.x, self.y, reference)

    def second(self) -> Tensor:
        """The likeliest class besides the right one."""
        with torch.no_grad():
            logits = self.model(self.x)
        return logits.scatter(1, self.y[:, None], -math.inf).argmax(dim=1)

    def random_model(self) -> nn.Module:
        """The same model with each tensor's numbers in another order."""
        torch.manual_seed(self.seed)
        model = build_model(model_config(self.model)).eval()
        state = {}
        for name, values in self.model.state_dict().items():
            state[name] = values.flatten()[torch.randperm(values.numel())].view_as(values)
        model.load_state_dict(state)
        return model

    def gradient_times_pixel(self) -> Tensor:
        pixels = self.x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.score(pixels), pixels)
        by_pixel = (gradient * self.x).abs().sum(dim=1)
        return F.adaptive_avg_pool2d(by_pixel, self.side).flatten(1)

    def score(self, pixels: Tensor) -> Tensor:
        return class_scores(self.model, pixels, self.y).sum()

    def gradients_times_token(self) -> tuple[Tensor, Tensor]:
        """Gradient × token, and the same with the standard deviation of each norm as a constant."""
        found = []
        layer_norm = F.layer_norm
        for norm in (layer_norm, with_constant_deviation):
            F.layer_norm = norm
            try:
                with at_tokens(self.model) as seen:
                    score = self.score(self.x.clone().requires_grad_())
            finally:
                F.layer_norm = layer_norm
            (gradient,) = torch.autograd.grad(score, seen[0])
            found.append((gradient * seen[0]).sum(dim=-1)[:, 1:].detach())
        return found[0], found[1]

    def gradient_rollout(self) -> Tensor:
        """R ← R + mean over heads of (gradient × weights, where positive) R, layer by layer.

        Source: Chefer, Gur & Wolf 2021, https://arxiv.org/abs/2103.15679, equations 5 and 6.
        """
        parts = []
        for x, y in zip(self.x.split(50), self.y.split(50), strict=True):
            with record_attention(self.model):  # so that the weights are in the graph
                scores = class_scores(self.model, x.requires_grad_(), y)
            layers = softmax_nodes(scores)
            weights = [node._saved_result for node in layers]
            edges = [GradientEdge(node, 0) for node in layers]
            total = torch.eye(self.patches + 1).expand(len(x), -1, -1)
            for one, gradient in zip(
                weights, torch.autograd.grad(scores.sum(), edges), strict=True
            ):
                shape = (len(x), -1, *one.shape[-2:])
                good = (one * gradient).clamp(min=0).view(shape).mean(dim=1)
                total = total + good @ total
            parts.append(total[:, 0, 1:].detach())
        return torch.cat(parts)


def with_constant_deviation(
    x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    """A layer norm; gradients do not go through the standard deviation."""
    deviation = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt().detach()
    return (x - x.mean(dim=-1, keepdim=True)) / deviation * weight + bias


def softmax_nodes(scores: Tensor) -> list[Any]:
    """The nodes of all softmax in the graph of the scores, the first layer's first."""
    found = set()
    todo = [scores.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [parent for parent, _ in node.next_functions]
    softmax = [node for node in found if "Softmax" in node.name()]
    return sorted(softmax, key=lambda node: node._sequence_nr())
