"""Random changes of all images in a batch at once, on its device.

Each image is resampled once, by a kernel that keeps it nearly as sharp as the images that are
evaluated, and what lies outside is its mirror image. Bilinear resampling blurs, a black border adds
edges that no evaluated photograph has, and models come to expect both (benchmarks/sharpness.py).
"""

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
        images: float, 0 to 1, (n, c, h, w); pixels outside an image are its mirror image.
        generator: source of the random numbers, on the CPU.
        degrees: largest rotation.
        scale: largest scaling, 0.1 for 10 %.
        shift: largest translation, in pixels.
        flip: mirror half of the images left to right.
        shear: largest shear.
        elastic: elastic distortion: standard deviation of a point's displacement along each axis,
            in pixels.
        colour: largest relative change of brightness, contrast and saturation.
    """
    if images.dim() != 4 or not images.is_floating_point():
        given = f"{images.dtype} {tuple(images.shape)}"
        raise ValueError(f"images must be floats (n, c, h, w), got {given}")
    largest = {"degrees": degrees, "scale": scale, "shift": shift, "shear": shear}
    check_range(0, 1000, **largest, elastic=elastic, colour=colour)
    grid = sampling_grid(images, generator, degrees, scale, shift, flip, shear, elastic)
    images = resample(images, grid)
    if colour:
        images = change_colour(images, generator, colour)
    return images


def sampling_grid(
    images: Tensor,
    generator: torch.Generator,
    degrees: float = 0.0,
    scale: float = 0.0,
    shift: float = 0.0,
    flip: bool = False,
    shear: float = 0.0,
    elastic: float = 0.0,
) -> Tensor:
    """Where each pixel of the changed images comes from, (n, h, w, 2): x and y from -1 to 1.

    The arguments are those of ``augment``.
    """
    n, _, height, width = images.shape
    device = images.device
    turn, stretch, dx, dy = (torch.rand(4, n, generator=generator) * 2 - 1).unbind()
    angle = turn * math.radians(degrees)
    factor = 1 + stretch * scale
    mirror: Tensor | float = 1.0
    if flip:
        mirror = torch.where(torch.rand(n, generator=generator) < 0.5, -1.0, 1.0)
    slant: Tensor | float = 0.0
    if shear:
        slant = (torch.rand(n, generator=generator) * 2 - 1) * shear
    cos = factor * angle.cos()
    sin = factor * angle.sin()
    top = [cos * mirror, slant * cos - sin, dx * 2 * shift / width]
    bottom = [sin * mirror, slant * sin + cos, dy * 2 * shift / height]
    theta = torch.stack(top + bottom).view(2, 3, n, 1, 1).to(device, non_blocking=True)
    x = _centres(width, device)
    y = _centres(height, device).view(-1, 1)
    grid = torch.stack([a * x + b * y + c for a, b, c in theta])  # equals F.affine_grid, faster
    if elastic:
        grid = grid + _bend(n, height, width, elastic, generator).to(device, non_blocking=True)
    return grid.permute(1, 2, 3, 0)


def resample(
    images: Tensor, grid: Tensor, interpolation: str = "bicubic", border: str = "reflection"
) -> Tensor:
    """The images, 0 to 1, at the points of a grid; the arguments are ``F.grid_sample``'s."""
    images = F.grid_sample(images, grid, interpolation, border, align_corners=False)
    if interpolation == "bicubic":
        images = images.clamp(0, 1)  # it overshoots beside an edge
    return images


def change_colour(images: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """Change brightness, contrast and saturation by at most ``strength``, 0.1 for 10 %."""
    n, channels = images.shape[:2]
    strengths = 1 + (torch.rand(3, n, 1, 1, 1, generator=generator) * 2 - 1) * strength
    brightness, contrast, saturation = strengths.to(images.device, non_blocking=True)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    if channels > 1:
        grey = images.mean(dim=1, keepdim=True)
        images = grey + (images - grey) * saturation
    return brightness * (mean + (images - mean) * contrast)


def _centres(pixels: int, device: torch.device) -> Tensor:
    """The centres of a row's pixels, from -1 to 1."""
    return torch.linspace(-1, 1, pixels, device=device) * (pixels - 1) / pixels


def _bend(
    n: int, height: int, width: int, size: float, generator: torch.Generator, points: int = 6
) -> Tensor:
    """Smooth random displacements from a grid of points, with a std of ``size`` pixels.

    Returns (2, n, height, width).
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
