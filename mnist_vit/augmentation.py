"""Random changes of all images in a batch at once, on its device."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import check_range


def augment(
    images: Tensor,
    generator: torch.Generator,
    degrees: float = 0.0,
    scale: float = 0.0,
    shift: float = 0.0,
    flip: bool = False,
    shear: float = 0.0,
    elastic: float = 0.0,
    colour: float = 0.0,
) -> Tensor:
    """Rotate, scale, translate, shear and distort every image of a batch by random amounts.

    Args:
        images: float, (n, c, h, w); pixels that come from outside an image are 0.
        generator: source of the random numbers, on the CPU.
        degrees, scale, shift, shear: largest rotation, scaling (0.1 for 10 %), translation in
            pixels, and shear.
        flip: mirror half of the images left to right.
        elastic: elastic distortion: standard deviation of a point's displacement along each axis,
            in pixels.
        colour: largest relative change of brightness, contrast and saturation.
    """
    if images.dim() != 4 or not images.is_floating_point():
        raise ValueError(
            f"images must be floats (n, c, h, w), got {images.dtype} {tuple(images.shape)}"
        )
    check_range(
        0,
        1000,
        degrees=degrees,
        scale=scale,
        shift=shift,
        shear=shear,
        elastic=elastic,
        colour=colour,
    )
    n, channels, height, width = images.shape
    angle, stretch, dx, dy = (torch.rand(4, n, generator=generator) * 2 - 1).unbind()
    angle, stretch = angle * math.radians(degrees), 1 + stretch * scale
    mirror = torch.where(torch.rand(n, generator=generator) < 0.5, -1.0, 1.0) if flip else 1.0
    slant = (torch.rand(n, generator=generator) * 2 - 1) * shear if shear else 0.0
    cos, sin = stretch * angle.cos(), stretch * angle.sin()
    top, bottom = (cos * mirror, slant * cos - sin), (sin * mirror, slant * sin + cos)
    rows = [*top, dx * 2 * shift / width, *bottom, dy * 2 * shift / height]
    theta = torch.stack(rows).view(2, 3, n, 1, 1).to(images.device, non_blocking=True)
    # centres of the pixels
    x = torch.linspace(-1, 1, width, device=images.device) * (width - 1) / width
    y = torch.linspace(-1, 1, height, device=images.device).view(-1, 1) * (height - 1) / height
    grid = torch.stack([a * x + b * y + c for a, b, c in theta])  # equals F.affine_grid, faster
    if elastic:
        grid = grid + _bend(n, height, width, elastic, generator).to(
            images.device, non_blocking=True
        )
    images = F.grid_sample(images, grid.permute(1, 2, 3, 0), align_corners=False)
    if colour:
        strengths = 1 + (torch.rand(3, n, 1, 1, 1, generator=generator) * 2 - 1) * colour
        brightness, contrast, saturation = strengths.to(images.device, non_blocking=True)
        mean = images.mean(dim=(1, 2, 3), keepdim=True)
        if channels > 1:
            grey = images.mean(dim=1, keepdim=True)
            images = grey + (images - grey) * saturation
        images = brightness * (mean + (images - mean) * contrast)
    return images


def _bend(
    n: int, height: int, width: int, size: float, generator: torch.Generator, points: int = 6
) -> Tensor:
    """Smooth random displacements from a grid of points, with a std of ``size`` pixels.

    Shape: (2, n, height, width).
    """
    places = torch.linspace(0, 1, points)
    weights = []
    for pixels in (height, width):
        middles = (torch.arange(pixels) + 0.5) / pixels
        weight = torch.exp(-0.5 * ((middles[:, None] - places) * (points - 1) / 0.7) ** 2)
        weights.append(weight / weight.norm(dim=1, keepdim=True))
    shifts = torch.randn(2, n, points, points, generator=generator) * size
    shifts[0] *= 2 / width
    shifts[1] *= 2 / height
    return weights[0] @ shifts @ weights[1].T
