"""Exercise: position embeddings for pictures of another size, by bicubic interpolation."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from ..checking import Exercise, Slip, random


def my_resize_positions(pos_embedding, grid):
    """(1, 1 + g * g, hidden_dim) -> (1, 1 + grid * grid, hidden_dim)."""
    class_token, patches = pos_embedding[:, :1], pos_embedding[:, 1:]
    d, g = patches.shape[2], math.isqrt(patches.shape[1])
    # (1, g * g, d) -> (1, d, g * g) -> (1, d, g, g)
    maps = patches.permute(0, 2, 1).reshape(1, d, g, g)
    maps = F.interpolate(maps, size=(grid, grid), mode="bicubic", align_corners=True)
    # (1, d, grid, grid) -> (1, d, grid * grid) -> (1, grid * grid, d)
    patches = maps.flatten(2).permute(0, 2, 1)
    return torch.cat([class_token, patches], dim=1)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # hidden_dim, g and grid differ: an axis in a wrong place shows.
    pos_embedding = random(1, 10, 4, dtype=torch.float64)
    yield "output (3 × 3 patches to 5 × 5)", answer(pos_embedding, 5)
    yield "output (4 × 4 patches to 2 × 2)", answer(random(1, 17, 3, seed=1), 2)
    # A factor grid / g, cut to a whole number of places, is one too small: 11 * (15 / 11) < 15.
    yield (
        f"output ({ODD[0]} × {ODD[0]} patches to {ODD[1]} × {ODD[1]})",
        answer(random(1, 1 + ODD[0] ** 2, 2, seed=2, dtype=torch.float64), ODD[1]),
    )


ODD = (11, 15)


def more(answer: Any) -> list[Any]:
    """Other sizes, of which some are multiples of the old one."""
    found = []
    for g, grid in ((2, 4), (2, 5), (3, 4)):
        new = answer(random(1, 1 + g * g, 3, seed=g, dtype=torch.float64), grid)
        found.append(new.flatten().round(decimals=4).tolist())
    return found


CUT = "class_token, patches = pos_embedding[:, :1], pos_embedding[:, 1:]"
IN, OUT = "patches.permute(0, 2, 1).reshape(1, d, g, g)", "maps.flatten(2).permute(0, 2, 1)"
SIZE, KIND = "size=(grid, grid), ", 'mode="bicubic", align_corners=True'
PARTS, JOIN = "[class_token, patches]", "torch.cat([class_token, patches], dim=1)"

STACKED = "torch.cat([class_token, patches], dim=0)"

SLIPS = (
    *(
        Slip(
            {"size=(grid, grid)": f"size={size}"},
            f"ask for `grid` {axis} alone, and leave the others as many as they were",
            "There must be `grid` of both: size=(grid, grid)",
        )
        for size, axis in (("(grid, g)", "rows"), ("(g, grid)", "columns"))
    ),
    Slip(
        {
            CUT: "patches = pos_embedding",
            IN: "patches.permute(0, 2, 1)",
            SIZE: "size=1 + grid * grid, ",
            KIND: 'mode="linear", align_corners=True',
            JOIN: "patches",
        },
        "stretch the whole sequence like one line, class token and all",
        "Set the class token apart, and give the patches back their rows and columns",
    ),
    Slip(
        {
            IN: "patches.permute(0, 2, 1)",
            SIZE: "size=grid * grid, ",
            KIND: 'mode="linear", align_corners=True',
        },
        "stretch the patches like one long line",
        "Give them back their rows and columns first",
    ),
    Slip(
        {PARTS: "[torch.zeros_like(class_token), patches]"},
        "lose the class token's position (zeros stand there)",
        "Carry it over unchanged",
    ),
    Slip(
        {JOIN: "patches"},
        "return the patches' positions only",
        "The class token's position, set apart before, must be joined in front of them again",
    ),
    Slip(
        {PARTS: "[patches, class_token]"},
        "put the class token's position at the end",
        "It stays at the front",
    ),
    Slip(
        {IN: "patches.reshape(1, d, g, g)", OUT: "maps.reshape(1, grid * grid, d)"},
        "only reshape, both before and after",
        "hidden_dim must move in front of the grid by permute, and back",
    ),
    *(
        Slip(
            {IN: "patches.reshape(1, g, g, d)", OUT: back},
            "give F.interpolate the grid with hidden_dim last",
            "It stretches the last two axes. Move hidden_dim in front of the grid first,"
            " permute(0, 3, 1, 2), and back at the end",
        )
        for back in (
            "maps.reshape(1, grid * grid, d)",
            "maps.reshape(1, -1, d)",
            "maps.flatten(1, 2)",
        )
    ),
    Slip(
        {IN: "patches.reshape(1, d, g, g)"},
        "reshape without permute before the interpolation",
        (
            "First permute(0, 2, 1) makes (1, hidden_dim, g * g) of (1, g * g, hidden_dim), then"
            " reshape cuts out the grid"
        ),
    ),
    Slip(
        {OUT: "maps.reshape(1, grid * grid, d)"},
        "reshape without permute after the interpolation",
        (
            "First flatten to (1, hidden_dim, grid * grid), then permute(0, 2, 1) makes (1, grid"
            " * grid, hidden_dim)"
        ),
    ),
    Slip(
        {IN: f"{IN}.transpose(2, 3)"},
        "swap rows and columns of the grid",
        "The patches are counted row by row",
    ),
    Slip(
        {KIND: 'mode="bicubic"'},
        "interpolate with align_corners=False, or without saying it",
        "True keeps the corner patches as they are",
    ),
    Slip(
        {KIND: 'mode="bilinear", align_corners=True'},
        'interpolate with mode="bilinear"',
        'torchvision uses mode="bicubic"',
    ),
    Slip(
        {KIND: 'mode="bilinear"'},
        'interpolate with mode="bilinear" and align_corners=False',
        'Use mode="bicubic" and align_corners=True',
    ),
    Slip(
        {KIND: 'mode="area"'},
        'interpolate with mode="area"',
        ('Use mode="bicubic" and align_corners=True'),
    ),
    Slip(
        {KIND: 'mode="bicubic", align_corners=True, antialias=True'},
        "interpolate with antialias=True",
        "Leave it out: torchvision does without",
    ),
    Slip(
        {PARTS: "[patches.mean(dim=1, keepdim=True), patches]"},
        "give the class token the mean of the patches' new positions",
        "It belongs to no place, and stays what it is",
    ),
    Slip(
        {KIND: 'mode="nearest"'},
        'interpolate with mode="nearest", the default',
        'That copies positions; use mode="bicubic" and align_corners=True',
    ),
    Slip(
        {SIZE: "scale_factor=grid // g, "},
        "enlarge the grid by grid / g cut to a whole number, as grid // g or int(grid / g) is",
        "Most sizes are no multiple of the old one, and some are smaller. Give the size itself,"
        " size=(grid, grid)",
    ),
    Slip(
        {SIZE: "scale_factor=grid / g, "},
        "give F.interpolate the factor grid / g in place of the size",
        "A factor is rounded, and g times it may be a little less than grid: then a row and a"
        " column are missing. Give the size itself, size=(grid, grid)",
    ),
    Slip(
        {SIZE: "size=(grid * g, grid * g), "},
        "take `grid` for a factor, and ask for grid * g rows and columns",
        "It says how many rows and columns the new grid has: size=(grid, grid)",
    ),
    *(
        Slip(
            {PARTS: f"[{made}, patches]"},
            f"{does} the class token's position",
            "It belongs to no place in the grid, and stays what it is",
        )
        for made, does in (
            ("class_token + patches.mean(dim=1, keepdim=True)", "add the mean of the patches' to"),
            ("class_token * grid / g", "multiply by grid / g"),
            ("class_token * g / grid", "multiply by g / grid"),
        )
    ),
    Slip(
        {JOIN: "torch.cat([class_token, patches], dim=2)"},
        "join class token and patches along axis 2",
        "Axis 1 counts the positions: torch.cat([class_token, patches], dim=1)",
    ),
    Slip(
        {SIZE: "size=grid * grid, "},
        "ask for grid * grid rows and as many columns",
        "size says how many rows and columns the new grid has: size=(grid, grid)",
    ),
    *(
        Slip(
            {"math.isqrt(patches.shape[1])": f"{number}"},
            "write the size of the old grid as a number",
            "It is the root of the number of patches: math.isqrt(patches.shape[1])",
        )
        for number in (7, 14)
    ),
    Slip(
        {JOIN: STACKED},
        "join class token and patches along axis 0",
        "Axis 1 counts the positions: torch.cat([class_token, patches], dim=1)",
    ),
    Slip(
        {SIZE: "scale_factor=g / grid, "},
        "give F.interpolate the factor the wrong way round, g / grid",
        "Give the size itself, size=(grid, grid)",
    ),
    *(
        Slip(
            {
                CUT: "class_token, patches = pos_embedding[:, :1], pos_embedding",
                IN: f"patches.{reshape}",
            },
            "leave the class token among the patches",
            "1 + g * g positions make no grid. Set the first apart: the patches are"
            " pos_embedding[:, 1:]",
        )
        for reshape in (
            "permute(0, 2, 1).reshape(1, d, g, g)",
            "reshape(1, g, g, -1)",
            "reshape(1, g, g, d)",
        )
    ),
    Slip(
        {CUT: "class_token, patches = pos_embedding[:, -1:], pos_embedding[:, :-1]"},
        "take the last row for the class token's position",
        "It is the first: pos_embedding[:, :1]",
    ),
    Slip(
        {
            CUT: "class_token, patches = pos_embedding[:, -1:], pos_embedding[:, :-1]",
            PARTS: "[patches, class_token]",
        },
        "take the last row for the class token's position, and put it last again",
        "It is the first, pos_embedding[:, :1], and stays the first",
    ),
    Slip(
        {PARTS: "[class_token, class_token, patches]"},
        "put two rows in front of the patches, both the class token's",
        "One row more than the patches is needed: the class token's, once",
    ),
)

EXERCISE = Exercise(
    answer=my_resize_positions,
    compare=compare,
    stars=3,
    slips=SLIPS,
    more=more,
    hints=(
        (
            "F.interpolate wants pictures, (1, channels, height, width). What are the channels"
            " here, what the height?"
        ),
        (
            "Three moves: set the class token's row apart; (1, g * g, d) -> (1, d, g * g) -> (1,"
            ' d, g, g), interpolate with mode="bicubic" and align_corners=True, and the same way'
            " back; join. math.isqrt gives g."
        ),
    ),
    same=(
        {
            IN: "patches.reshape(1, g, g, d).permute(0, 3, 1, 2)",
            OUT: "maps.permute(0, 2, 3, 1).reshape(1, grid * grid, d)",
        },
    ),
)
