"""Maps for other programs and for papers: an .npz with named axes, and one figure."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .files import user_path, write_atomic

__all__ = ["save_figure", "save_maps"]

AXES = ("image", "layer", "head", "row", "column")


def save_maps(
    path: str | Path, maps: Tensor, axes: Sequence[str] = AXES, **coordinates: Sequence[Any]
) -> Path:
    """Write maps to an .npz file with the names of their axes.

    Args:
        path: an .npz file; an existing one is replaced.
        maps: as ``to_maps`` gives them, (n, num_layers, num_heads, n_h, n_w), or any other numbers;
            float16 and bfloat16 are stored as float32.
        axes: a name for each axis.
        coordinates: what stands along an axis, such as ``image=["a.jpg", "b.jpg"]`` or
            ``layer=[11]``; default: 0, 1, 2 and so on.

    The file holds ``maps``, ``axes``, and one array for each axis: ``xarray.DataArray(file["maps"],
    {name: file[name] for name in file["axes"]}, file["axes"])`` loads it by name. Returns the path.
    """
    path = _file(path, ".npz")
    if maps.dim() != len(axes) or len(set(axes)) != len(axes):
        raise ValueError(
            f"axes must name each axis of maps {tuple(maps.shape)} once, got {tuple(axes)}"
        )
    unknown = set(coordinates) - set(axes)
    if unknown:
        raise ValueError(f"there is no axis {', '.join(sorted(unknown))}: axes are {tuple(axes)}")
    content: dict[str, Any] = {"maps": _numbers(maps), "axes": np.array(axes)}
    for name, size in zip(axes, maps.shape, strict=True):
        along = np.array(coordinates.get(name, range(size)))
        if along.shape != (size,):
            raise ValueError(f"{name} must have {size} entries, got {len(along)}")
        content[name] = along
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)
    write_atomic(path, lambda file: file.write(buffer.getvalue()))
    return path


def save_figure(
    path: str | Path,
    maps: Tensor,
    picture: Tensor | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    label: str = "attention weight",
    width: float = 7.0,
) -> Path:
    """Write a figure of maps with one colour scale and its colour bar.

    The scale is viridis, from the smallest to the largest number of all maps; with numbers on both
    sides of zero, such as relevance, it is blue, white and red, and zero is white. Patches are
    squares and not smoothed. Fonts are embedded as TrueType, which publishers ask for.

    Args:
        path: the ending is the format: .pdf, .svg or .png (300 dots per inch).
        maps: (rows, columns, n_h, n_w), such as layers and heads of one image: ``maps[0]`` of those
            that ``to_maps`` gives.
        picture: the image, which gets a column of its own: uint8 or from 0 to 1, (3, h, w) or
            (1, h, w).
        rows, columns: their names; default: layers and heads, counted from 0.
        label: what the colour bar shows.
        width: of the figure, in inches; 7 is a page of two columns, 3.4 one column.

    Returns the path.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = _file(path, ".pdf", ".svg", ".png")
    if maps.dim() != 4:
        raise ValueError(f"maps must be (rows, columns, n_h, n_w), got {tuple(maps.shape)}")
    n_rows, n_columns, n_h, n_w = maps.shape
    values = _numbers(maps)
    if not np.isfinite(values).all():
        raise ValueError("maps hold NaN or infinite numbers")
    first = 0 if picture is None else 1
    side = (width - 1) / (n_columns + first)
    height = 0.4 + n_rows * (side * n_h / n_w + 0.05)
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "font.size": 8}):
        figure = Figure((width, height), layout="constrained")
        FigureCanvasAgg(figure)
        places = figure.subplots(n_rows, n_columns + first, squeeze=False)
        drawn = _draw_maps(places[:, first:], values)
        _name(places[:, first:], rows, columns)
        if picture is not None:
            _draw_picture(places[:, 0], picture)
        figure.colorbar(drawn, ax=places, label=label, shrink=min(1.0, 2 / height))
        buffer = io.BytesIO()
        dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
        kind = path.suffix.lower()
        figure.savefig(buffer, format=kind[1:], dpi=300, metadata=dates.get(kind))
    write_atomic(path, lambda file: file.write(buffer.getvalue()))
    return path


def _file(path: str | Path, *endings: str) -> Path:
    """The path of a file to write; ValueError unless it has one of these endings."""
    path = user_path(path)
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path.name} must end in {' or '.join(endings)}")
    return path


def _numbers(maps: Tensor) -> np.ndarray:
    """The numbers on the CPU; numpy has no bfloat16."""
    if maps.is_floating_point() and torch.finfo(maps.dtype).bits < 32:
        maps = maps.float()
    return maps.detach().cpu().numpy()


def _draw_maps(places: np.ndarray, values: np.ndarray) -> Any:
    """Draw every map in its place, all on one scale; returns one of them, for the colour bar."""
    low, high = float(values.min()), float(values.max())
    colours = "viridis"
    if low < 0 < high:
        high = max(high, -low)
        low, colours = -high, "RdBu_r"
    for row, row_values in zip(places, values, strict=True):
        for place, one in zip(row, row_values, strict=True):
            drawn = place.imshow(one, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
            place.set(xticks=[], yticks=[])
    return drawn


def _name(places: np.ndarray, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    """Write the names of columns above them, and those of rows to their left."""
    n_rows, n_columns = places.shape
    rows = [f"layer {i}" for i in range(n_rows)] if rows is None else rows
    columns = [f"head {i}" for i in range(n_columns)] if columns is None else columns
    if len(rows) != n_rows or len(columns) != n_columns:
        raise ValueError(
            f"maps have {n_rows} rows and {n_columns} columns, got {len(rows)} and {len(columns)}"
            " names"
        )
    size = 8 if n_columns < 10 else 6
    for place, name in zip(places[:, 0], rows, strict=True):
        place.set_ylabel(name, size=size, rotation=0, ha="right", va="center")
    for place, name in zip(places[0], columns, strict=True):
        place.set_title(name, size=size)


def _draw_picture(places: np.ndarray, picture: Tensor) -> None:
    """Draw the picture in the first row of a column; the others stay empty."""
    for place in places:
        place.set_axis_off()
    pixels = picture.detach().cpu().movedim(0, -1)
    if pixels.is_floating_point():
        pixels = pixels.float().clamp(0, 1)
    places[0].imshow(pixels.numpy(), cmap="gray")
