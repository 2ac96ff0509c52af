"""Exercise: integrated gradients, equation 1 of Sundararajan et al. 2017.

https://arxiv.org/abs/1703.01365
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_integrate(gradient_at, images: Tensor, reference: Tensor, steps: int) -> Tensor:
    # gradient_at(pictures): one for each image, (n, c, h, w) -> the gradient of each one's logit
    # -> (n, c, h, w): what each pixel has of the difference between both logits
    way = images - reference
    total = torch.zeros_like(images)
    for step in range(steps):
        total = total + gradient_at(reference + (step + 0.5) / steps * way)
    return way * total / steps


def _gradient(seed: int) -> Callable[[Tensor], Tensor]:
    """The gradient of a sum of cubes and products of neighbours, by hand."""
    weight = random(2, 1, 3, 2, seed=seed, dtype=torch.float64)

    def gradient_at(pictures: Tensor) -> Tensor:
        is_of_pictures = isinstance(pictures, Tensor) and pictures.dim() == 4
        is_one_of_many = is_of_pictures and pictures.shape == weight[:1].shape
        if is_of_pictures and (len(pictures) > len(weight) or is_one_of_many):
            many = f"{len(pictures)} picture{'s' * (len(pictures) != 1)}"
            raise Mistake(
                f"of {len(weight)} images, gradient_at was given {many}.",
                "It gives the gradient of each picture's own logit, and so takes one picture for"
                " each image: call it once for each step.",
            )
        return weight * (3 * pictures.square() + pictures.roll(1, -1) + pictures.roll(-1, -1))

    return gradient_at


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    images = random(2, 1, 3, 2, seed=161, dtype=torch.float64)
    black = torch.full((1, 1, 1, 1), -0.4, dtype=torch.float64)
    yield "the share of each pixel, in 3 steps", answer(_gradient(162), images.clone(), black, 3)
    other = random(2, 1, 3, 2, seed=163, dtype=torch.float64)
    yield (
        "the same from other pictures, in 1 step",
        answer(_gradient(164), images.clone(), other, 1),
    )
    yield "the same in 8 steps", answer(_gradient(164), images.clone(), other, 8)


def notice(answer: Any) -> Mistake | None:
    """Where the gradient is taken, and what is made of it."""
    images, reference = torch.full((1, 1, 2, 2), 6.0), torch.ones(1, 1, 2, 2)
    at: list[float] = []

    def ones(pictures: Tensor) -> Tensor:
        at.extend(((pictures.mean(dim=(1, 2, 3)) - 1) / 5).tolist())
        return torch.ones_like(pictures)

    found = torch.as_tensor(answer(ones, images.clone(), reference.clone(), 4))
    middles = [0.125, 0.375, 0.625, 0.875]
    if len(at) != 4 or max(abs(a - b) for a, b in zip(sorted(at), middles, strict=True)) > 1e-4:
        told = ", ".join(f"{one:.3g}" for one in at[:9]) + ", …" * (len(at) > 9)
        where = f"at these parts of the way: {told}" if at else "nowhere"
        return Mistake(
            f"In 4 steps you take the gradient {where}.",
            "Take it in the middles of four equal parts, 0.125, 0.375, 0.625, 0.875, where 0 is the"
            " reference and 1 the image.",
        )
    if found.shape != images.shape:
        return Mistake(
            f"Of a picture of the shape (1, 1, 2, 2) you make the shape {tuple(found.shape)}.",
            "Each pixel gets a number of its own.",
        )
    if not torch.allclose(found, torch.full_like(found, 5.0)):
        return Mistake(
            "The gradient is taken in the right places. If it is 1 everywhere, and a pixel goes"
            f" from 1 in the reference to 6, you give it {float(found.flatten()[0]):.4g}.",
            "It should be 5: the mean gradient, 1, times (image − reference).",
        )
    return _noticed_mean(answer, reference) or _noticed_pictures(answer, reference)


def _noticed_mean(answer: Any, reference: Tensor) -> Mistake | None:
    """What is made of gradients that are others in each step."""

    def growing(pictures: Tensor) -> Tensor:
        parts = (pictures - 1) / 5
        return (parts * 4).floor().exp2()  # 1, 2, 4, 8 on the four parts of the way

    found = torch.as_tensor(answer(growing, torch.full((1, 1, 2, 2), 6.0), reference.clone(), 4))
    if torch.allclose(found, torch.full_like(found, 18.75)):
        return None
    return Mistake(
        "If the gradient is 1, 2, 4 and 8 in the four steps, and a pixel goes from 1 in the"
        f" reference to 6, you give it {float(found.flatten()[0]):.4g}.",
        "It should be 18.75: the mean of the gradients, 3.75, times (image − reference).",
    )


def _noticed_pictures(answer: Any, reference: Tensor) -> Mistake | None:
    """What is made of two pictures whose gradients are not the same."""
    slopes = torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1)
    images = torch.full((2, 1, 2, 2), 6.0)
    found = torch.as_tensor(
        answer(lambda pictures: slopes.expand_as(pictures), images, reference.clone(), 4)
    )
    if found.shape != images.shape or torch.allclose(found, 5 * slopes.expand_as(found)):
        return None
    told = " and ".join(f"{float(one.flatten()[0]):.4g}" for one in found)
    return Mistake(
        "If the gradient is 1 in the whole first picture and 3 in the second, and each pixel goes"
        f" from 1 in the reference to 6, you give {told}.",
        "It should be 5 and 15: each picture has its own gradients.",
    )


AT = "gradient_at(reference + (step + 0.5) / steps * way)"
END = "return way * total / steps"

SLIPS = (
    Slip(
        {AT: AT.replace("(step + 0.5)", "step")},
        "take the gradient at the beginning of each step",
        "The middles are asked for: (step + 0.5) / steps of the way",
    ),
    Slip(
        {AT: AT.replace("(step + 0.5)", "(step + 1)")},
        "take the gradient at the end of each step",
        "The middles are asked for: (step + 0.5) / steps of the way",
    ),
    Slip(
        {AT: "gradient_at(reference + step / max(steps - 1, 1) * way)"},
        "take the gradient from the reference to the image, both ends included",
        "Take it in the middles, (step + 0.5) / steps of the way",
    ),
    Slip(
        {END: "return -way * total / steps"},
        "multiply by (reference - image), or put a minus before the result",
        "Every sign is reversed then. Multiply by (image - reference)",
    ),
    Slip(
        {END: "return total / steps"},
        "leave out how far each pixel has changed",
        "The mean gradient is multiplied by (image - reference)",
    ),
    Slip(
        {END: "return images * total / steps"},
        "multiply by the image",
        "The way begins at the reference: multiply by (image - reference)",
    ),
    Slip(
        {END: "return way.abs() * total / steps"},
        "multiply by the absolute value of how far each pixel has changed",
        "A pixel may become darker, too: keep the sign of (image - reference)",
    ),
    Slip(
        {END: "return way.square() * total / steps"},
        "multiply by (image - reference) twice",
        "Once is enough: the mean gradient, times (image - reference)",
    ),
    Slip(
        {END: "return way * total"},
        "add the gradients up and do not take their mean",
        "Divide by the number of steps",
    ),
    Slip(
        {AT: "gradient_at(images)"},
        "take the gradient at the picture itself and nowhere else",
        (
            "Take the mean of the gradients at the middles of the steps, reference + (step + 0.5)"
            " / steps * (image - reference)"
        ),
    ),
    Slip(
        {AT: "gradient_at((step + 0.5) / steps * images)"},
        "begin at zero in place of the reference",
        "The way leads from the reference: reference + … × (image - reference)",
    ),
    Slip(
        {AT: "gradient_at((step + 0.5) / steps * way)"},
        "forget to begin at the reference",
        "The points are reference + … × (image - reference)",
    ),
    Slip(
        {AT: "gradient_at(reference + (step + 0.5) / steps)"},
        "add (step + 0.5) / steps to the reference itself",
        "It is a part of the way: multiply it by (image - reference)",
    ),
    Slip(
        {AT: "gradient_at(reference + (step + 0.5))"},
        "add step + 0.5 to the reference itself",
        "The points are reference + (step + 0.5) / steps * (image - reference)",
    ),
    Slip(
        {AT: "gradient_at(reference + (step + 0.5) * way)"},
        "leave out the division by steps where the points are made",
        "The points are reference + (step + 0.5) / steps * (image - reference)",
    ),
    Slip(
        {AT: "gradient_at(images + (step + 0.5) / steps * way)"},
        "begin at the image in place of the reference",
        "The way leads from the reference to the image: reference + … × (image - reference)",
    ),
    Slip(
        {AT: "gradient_at(reference - (step + 0.5) / steps * way)"},
        "go away from the reference in the wrong direction",
        "The points are reference + … × (image - reference), with a plus",
    ),
    Slip(
        {AT: "gradient_at((reference + images) / 2)"},
        "take the gradient half-way between reference and image alone, whatever steps is",
        "Take the mean of the gradients at the middles of the steps, (step + 0.5) / steps of the"
        " way",
    ),
    Slip(
        {END: "return total / steps * reference"},
        "multiply by the reference",
        "Multiply by how far each pixel has changed, (image - reference)",
    ),
    Slip(
        {END: "return (way * total / steps).abs()"},
        "take the absolute value",
        "What speaks against a class has a number below zero, and the sum would not hold",
    ),
)

EXERCISE = Exercise(
    answer=my_integrate,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "The integral is the mean of the gradient along a straight line. Which picture lies a"
            " quarter of the way between the reference and the image?"
        ),
        (
            "Cut the way into `steps` equal parts, add up gradient_at(reference + (step + 0.5) /"
            " steps * (images - reference)), divide by steps, and multiply by (images -"
            " reference)."
        ),
    ),
    same=(
        {AT: "gradient_at(images - (step + 0.5) / steps * way)"},
        {
            AT: "gradient_at(reference + (step + 0.5) / steps * way) / steps",
            END: "return way * total",
        },
    ),
    tolerance=1e-6,  # the steps may be float32
)
