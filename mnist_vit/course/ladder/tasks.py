"""The two tasks of the ladder: which digit is it; and, is the first patch there again?

The second one cannot be solved by a token alone: it has to look at the others. Both give pictures
that any Vision Transformer with patches of 7 pixels takes.
"""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor, nn

from ...data import load_embedded
from ...datasets import MNIST_MEAN, MNIST_STD
from .models import PATCH, to_patches


@cache
def digits(split: str) -> tuple[Tensor, Tensor]:
    """Normalised pictures (n, 1, 28, 28) and labels.

    "fit" and "choose" are 3,200 and 800 of the 4,000 in "train".
    """
    data = load_embedded("validation" if split == "validation" else "train")
    late = torch.arange(len(data)) % 400 >= 320
    keep = {"fit": ~late, "choose": late}.get(split, late | ~late)
    return (data.images[keep].float() / 255 - MNIST_MEAN) / MNIST_STD, data.labels[keep]


def digit_batches(
    split: str, epochs: int, batch: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """All digits of the split, shuffled, in batches; as often as there are epochs."""
    x, y = digits(split)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x), generator=generator).split(batch):
            yield x[chosen], y[chosen]


@cache
def inked(split: str) -> Tensor:
    """The different patches with ink in them, at least four white pixels' worth: (m, 49)."""
    x = to_patches(digits(split)[0]).flatten(0, 1)
    return torch.unique(x[(x * MNIST_STD + MNIST_MEAN).sum(dim=1) > 4], dim=0)


def relation(split: str, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures of nine patches; in some of them the first patch is there again.

    Returns:
        The pictures (n, 1, 21, 21), whether it is there again (n,), and at which place (n,).
    """
    x = inked(split)[torch.randint(len(inked(split)), (n, 9), generator=generator)]
    again = torch.randint(2, (n,), generator=generator)
    place = torch.randint(1, 9, (n,), generator=generator)
    same = again.nonzero()[:, 0]
    x[same, place[same]] = x[same, 0]
    # (n, 9, 49) -> (n, 3, 3, 7, 7) -> (n, 3, 7, 3, 7) -> (n, 1, 21, 21)
    rows = x.reshape(n, 3, 3, PATCH, PATCH).transpose(2, 3)
    return rows.reshape(n, 1, 3 * PATCH, 3 * PATCH), again, place


def relation_batches(
    split: str, steps: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Made on the fly: no example comes twice."""
    for _ in range(steps):
        yield relation(split, 128, generator)[:2]


@torch.no_grad()
def looked_at(model: nn.Module) -> dict[str, float]:
    """Where the first patch looks, in percent of 2,000 pictures that were not trained on.

    The weights are the second part of what a layer returns; of several layers the last one counts.
    Where the first patch is there again, the share of its attention on its ``copy`` and on
    ``itself``, and how often the copy gets the most of the other eight, ``copy_first``; where it is
    not, the share on itself, ``alone``.
    """
    x, again, place = relation("validation", 2000, torch.Generator().manual_seed(1))
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: tuple, output: object) -> None:
        if isinstance(output, tuple) and isinstance(output[1], Tensor):
            kept.append(output[1])

    hooks = [part.register_forward_hook(keep) for part in model.modules()]
    model(x)
    for hook in hooks:
        hook.remove()
    of_first = kept[-1][:, 0]  # the first patch's attention: (pictures, patches)
    there = again == 1
    weights = of_first[there]
    at = place[there]
    shares = {
        "copy": weights.gather(1, at[:, None]),
        "itself": weights[:, 0],
        "copy_first": (weights[:, 1:].argmax(dim=1) + 1 == at).float(),
        "alone": of_first[~there, 0],
    }
    return {name: round(100 * share.mean().item(), 1) for name, share in shares.items()}
