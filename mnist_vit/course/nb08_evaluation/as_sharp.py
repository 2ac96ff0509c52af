"""Exercise: a test of augmentation: are the changed images as sharp as the others?"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...augmentation import resample, sampling_grid
from ..checking import Exercise, Mistake, Slip, describe, random


def my_as_sharp(changed, images):
    # two batches, (n, c, h, w), 0 to 1 -> whether changed has 3/4 to 5/4 of the detail of images
    def detail(batch):
        inside = batch[..., 4:-4, 4:-4]
        across, down = inside.diff(dim=-1), inside.diff(dim=-2)
        return across.square().mean() + down.square().mean()

    share = detail(changed) / detail(images)
    return bool(0.75 < share < 1.25)


def moved(images: Tensor, pixels: float) -> Tensor:
    """Images shifted by a bilinear kernel, with black outside."""
    offset = torch.tensor([2 * pixels / images.shape[3], 2 * pixels / images.shape[2]])
    grid = sampling_grid(images, torch.Generator())
    return resample(images, grid - offset.to(images), "bilinear", "zeros")


def other_way(columns: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Much detail across and little down, and the first a little less, the second three times."""
    return 5 * 0.9**0.5 * columns + 3**0.5 * rows, 5 * columns + rows


def uneven(images: Tensor) -> Tensor:
    """The pictures with 0.6 and 1.4 of their detail in turn."""
    changed = images.clone()
    changed[::2] *= 0.6**0.5
    changed[1::2] *= 1.4**0.5
    return changed


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    images = random(40, 1, 20, 22).sigmoid()
    columns, rows = random(40, 1, 1, 22, seed=1), random(40, 1, 20, 1, seed=2)
    ramp = torch.linspace(-20, 20, 22)
    framed = images.clone()
    framed[..., :4, :] = framed[..., -4:, :] = framed[..., :4] = framed[..., -4:] = 0
    board = (torch.arange(20)[:, None] + torch.arange(22)) % 2
    edges = {
        "four rows at the top": (slice(0, 4), slice(None)),
        "four rows at the bottom": (slice(-4, None), slice(None)),
        "four columns at the left": (slice(None), slice(0, 4)),
        "four columns at the right": (slice(None), slice(-4, None)),
        "the fifth row from the top": (slice(4, 5), slice(None)),
        "the fifth row from the bottom": (slice(-5, -4), slice(None)),
        "the fifth column from the left": (slice(None), slice(4, 5)),
        "the fifth column from the right": (slice(None), slice(-5, -4)),
    }
    checkered = {}
    for name, (rows_there, columns_there) in edges.items():
        there = images.clone()
        there[..., rows_there, columns_there] = board[rows_there, columns_there].float()
        checkered[f"a checked pattern in {name}, else as sharp"] = (there, images)
    blurred = moved(images, 0.5)
    faint = images.clone()
    faint[::2] *= 0.1
    flattened = faint.clone()
    flattened[::2] = 0
    faded = images[..., 4:-4, 4:-4].std() / blurred[..., 4:-4, 4:-4].std() * blurred
    flat = torch.zeros(40, 1, 20, 22)
    few = flat.clone()
    few[..., 11:] = 1  # one large step in each row
    many = flat + 13**-0.5 * (torch.arange(22) % 2)  # as much detail in many small ones
    cases = (
        checkered
        | {
            "the images themselves": (images, images),
            "a shift by whole pixels": (images.roll((1, 2), dims=(2, 3)), images),
            "a shift by half a pixel, which blurs": (moved(images, 0.5), images),
            "a black frame of four pixels, else as sharp": (framed, images),
            "a tenth of the detail along the columns": (columns + 0.1 * rows, columns + rows),
            "a tenth of the detail along the rows": (0.1 * columns + rows, columns + rows),
            "a bright side and a dark side, and a third of the noise": (
                ramp + images,
                ramp + 3 * images,
            ),
            "0.78 of the detail": (0.78**0.5 * images, images),
            "1.3 times the detail": (1.3**0.5 * images, images),
            "0.8 of the contrast, which leaves 0.64 of the detail": (0.8 * images, images),
            "0.9 of the contrast, which leaves 0.81 of the detail": (0.9 * images, images),
            "half as much contrast again": (1.5 * images, images),
            "a tenth more contrast": (1.1 * images, images),
            "blurred, and with the contrast put back": (faded, images),
            "half of the pictures with 0.6 of the detail, half with 1.4": (uneven(images), images),
            "0.9 of much detail across, and three times of little down": other_way(columns, rows),
            "a slope half as steep, with the same noise": (ramp / 2 + images, ramp + images),
            "pictures (10, 60), with 0.4 of the detail across, and 0.9 in all": _wide(),
            "half of the pictures with a hundredth of the detail, which they lose": (
                flattened,
                faint,
            ),
            "few large steps in place of many small ones, the same mean square": (few, many),
            "many small steps in place of few large ones, the same mean square": (many, few),
        }
        | _colours()
    )
    found: dict[str, bool] = {}
    for what, (changed, others) in cases.items():
        verdict = _plain(answer(changed.clone(), others.clone()))
        if verdict is None and not found:
            yield "the verdict", None
            return
        if not isinstance(verdict, bool):
            raise Mistake(
                f"True or False is needed, and for {what} this is {describe(verdict)}.".replace(
                    "?.", "?"
                ),
                "Return whether the share lies between 3/4 and 5/4.",
            )
        found[what] = verdict
    yield "the verdict", found


def _wide() -> tuple[Tensor, Tensor]:
    """Pictures with more neighbours in a row than in a column: (changed, images)."""
    columns, rows = random(40, 1, 1, 60, seed=1), random(40, 1, 10, 1, seed=2)
    columns = columns / columns[..., 4:-4].diff(dim=-1).square().mean().sqrt()
    rows = rows / rows[..., 4:-4, :].diff(dim=-2).square().mean().sqrt()
    return 0.4**0.5 * columns + 1.4**0.5 * rows, columns + rows


def _colours() -> dict[str, tuple[Tensor, Tensor]]:
    """Batches with three channels, each with noise of its own."""
    colour = random(40, 3, 20, 22).sigmoid()
    uneven_channels = colour * torch.tensor([0.6, 1.0, 1.4]).sqrt()[:, None, None]
    grey = colour.mean(dim=1, keepdim=True).expand_as(colour)
    return {
        "three channels, the images themselves": (colour, colour),
        "three channels, with 0.6, 1 and 1.4 of their detail": (uneven_channels, colour),
        "three channels, turned grey, which leaves a third of the detail": (grey, colour),
    }


def _plain(verdict: Any) -> Any:
    """A verdict as True or False, where torch or numpy keeps it; a number as a number."""
    if isinstance(verdict, Tensor) and verdict.numel() == 1:
        return verdict.item()
    return verdict.item() if type(verdict).__module__ == "numpy" else verdict


def notice(answer: Any) -> Mistake | None:
    """What the verdict depends on: places, the limits, and how differences are weighed."""
    images = random(40, 1, 20, 22).sigmoid()
    if not _plain(answer(images.clone(), images.clone())):
        colour = random(40, 3, 20, 22).sigmoid()
        if _plain(answer(colour.clone(), colour.clone())):
            return Mistake(
                "Of a batch with one channel and itself you say False, and of one with three"
                " channels and itself True.",
                "Neighbours lie in a row, along the last axis, or in a column, along the one before"
                " it: dim=-1 and dim=-2. Axis 1 is that of the channels.",
            )
        return Mistake(
            "Of a batch and itself you say False.",
            "Both hold the same detail: the share is 1, between 3/4 and 5/4.",
        )
    if not _plain(answer(images.roll((1, 2), dims=(2, 3)), images.clone())):
        return Mistake(
            "Of pictures that were shifted by whole pixels, and are as sharp as before, you say"
            " False.",
            "Where a picture lies is no detail. Each batch should give one number, a mean of"
            " squared differences of its own neighbours; the quotient of the two must lie between"
            " 3/4 and 5/4.",
        )
    if seen := _noticed_direction(answer):
        return seen
    sees_patterns = not _plain(answer(BOARD.expand_as(images).clone(), images.clone()))
    cut = {side: _left_out(answer, side) for side in SIDES}
    if sees_patterns and set(cut.values()) == {0} and (seen := _cut_along_one_axis(answer)):
        return seen
    if sees_patterns and set(cut.values()) != {4}:
        told = ", ".join(f"{_counted(count)} at the {side}" for side, count in cut.items())
        return Mistake(
            "As far as a strong pattern in the outermost rows and columns shows it, you leave out"
            f" of both means {told}.",
            "Four must be left out at each of the four sides, of both means.",
        )
    shares = [share / 100 for share in range(20, 300, 2)]
    held = [share for share in shares if _plain(answer(share**0.5 * images, images.clone()))]
    if held and (held[0] < 0.73 or held[0] > 0.77 or held[-1] < 1.23 or held[-1] > 1.27):
        upper = f"{held[-1]:g}" if held[-1] < shares[-1] else f"{held[-1]:g} or more"
        lower = f"{held[0]:g}" if held[0] > shares[0] else f"{held[0]:g} or less"
        return Mistake(
            "Where all contrast of a batch of ours is changed alike, you say True from"
            f" {lower} to {upper} of the detail.",
            "True is asked for from 0.75 to 1.25 of the detail, in any batch. Detail is a mean"
            " of squares: twice the contrast is four times the detail.",
        )
    if held and (seen := _noticed_pictures(answer)):
        return seen
    if held and not _plain(answer(uneven(images), images.clone())):
        return Mistake(
            "Of a batch in which half of the pictures have 0.6 of the detail and half 1.4, 1.0 in"
            " all, you say False.",
            "Make one number of each batch, the mean over all its pictures.",
        )
    return _noticed_weights(answer) or _noticed_channels(answer)


def _noticed_direction(answer: Any) -> Mistake | None:
    """Whether the neighbours in a row count alone, or those in a column."""
    columns, rows = random(40, 1, 1, 22, seed=3), random(40, 1, 20, 1, seed=4)
    for name, along, strong, other in (
        ("rows", "a column", rows, columns),
        ("columns", "a row", columns, rows),
    ):
        faint = 0.001 * other  # so that neither direction is without any detail
        if _plain(answer(0.3 * strong + faint, strong + faint)):
            return Mistake(
                f"Of pictures whose {name} differ much less from each other than those of the other"
                " batch you say True.",
                f"The differences of neighbours in {along} must count, too.",
            )
    return None


def _noticed_pictures(answer: Any) -> Mistake | None:
    """Whether the first picture, or the last one, counts alone."""
    images = random(40, 1, 20, 22).sigmoid()
    for place, name in ((0, "first"), (-1, "last")):
        flat = torch.full_like(images, 0.5)
        flat[place] = images[place]
        if _plain(answer(flat, images.clone())):
            return Mistake(
                f"Of a batch of which all pictures but the {name} are even, without any detail, you"
                " say True.",
                "The mean goes over the whole batch: the first axis is that of the pictures.",
            )
    return None


def _cut_along_one_axis(answer: Any) -> Mistake | None:
    """Whether differences along an axis are cut at the two ends of this axis alone."""
    images = random(40, 1, 20, 22).sigmoid()
    for count, is_seen in ((4, False), (5, True)):
        for axis in (2, 3):
            for end in (1, -1):
                if _sees_stripes(answer, images, axis, end * count) != is_seen:
                    return None
    return Mistake(
        "Strong stripes in the first or the last four rows, where each row is even, have no effect,"
        " and such stripes in the outermost columns have none either; a checked pattern there has."
        " So each of your two means leaves out pixels at two of the four sides only.",
        "Cut all four sides first, batch[..., 4:-4, 4:-4], and take both differences of what is"
        " left.",
    )


def _sees_stripes(answer: Any, images: Tensor, axis: int, count: int) -> bool:
    """Whether strong stripes in the first rows or columns have an effect; the last, if negative.

    They run along the side, so that only differences across it see them.
    """
    stripes = 1000.0 * (1 + torch.arange(images.shape[axis]) % 2)
    board = stripes[:, None] if axis == 2 else stripes
    return not _plain(answer(_patterned(images, axis, count, board), images.clone()))


SIDES = {"top": (2, 1), "bottom": (2, -1), "left": (3, 1), "right": (3, -1)}
BOARD = 1000.0 * ((torch.arange(20)[:, None] + torch.arange(22)) % 2)


def _counted(count: int) -> str:
    """How many rows or columns ``_left_out`` found; it looks at no more than 8."""
    return f"{count} or more" if count == 8 else str(count)


def _left_out(answer: Any, side: str) -> int:
    """How many rows or columns at a side may hold a strong pattern without any effect, up to 8."""
    axis, direction = SIDES[side]
    images = random(40, 1, 20, 22).sigmoid()
    for count in range(1, 9):
        if not _plain(answer(_patterned(images, axis, direction * count), images.clone())):
            return count - 1
    return 8


def _patterned(images: Tensor, axis: int, count: int, pattern: Tensor | None = None) -> Tensor:
    """The images with a checked pattern in the first rows or columns; in the last, if negative."""
    board = (BOARD if pattern is None else pattern).expand_as(images)
    length = images.shape[axis]
    start = 0 if count > 0 else length + count
    places = torch.arange(start, start + abs(count))
    return images.index_copy(axis, places, board.index_select(axis, places))


def more(answer: Any) -> list[Any]:
    """Where a pattern is seen; each share of detail; a slope; pictures with other neighbours."""
    found = [_left_out(answer, side) for side in SIDES]
    channels = random(2, 12, 20, 22)
    with contextlib.suppress(RuntimeError):  # where each channel has a number of its own
        found.append(_plain(answer(channels, channels.clone())))
    images = random(40, 1, 20, 22).sigmoid()
    for step in range(60):
        share = 0.2 + 0.0303 * step
        found.append(_plain(answer(share**0.5 * images, images.clone())))
    columns, rows = random(40, 1, 1, 22, seed=1), random(40, 1, 20, 1, seed=2)
    for axis in (2, 3):  # all differences along an axis have one sign
        slope = torch.linspace(-1, 1, images.shape[axis]).unflatten(
            0, (-1, 1) if axis == 2 else (1, -1)
        )
        for step in range(20):
            found.append(_plain(answer(images + step * slope, images.clone())))
    for step in range(20):
        weight = 0.05 + 0.0707 * step
        found.append(_plain(answer(weight * columns + rows, columns + rows)))
        found.append(_plain(answer(columns + weight * rows, columns + rows)))
        found.append(_plain(answer(weight * random(40, 1, 20, 22, seed=3) ** 3, images.clone())))
    return found


def _noticed_weights(answer: Any) -> Mistake | None:
    """Whether detail in one direction, or in few large steps, counts as much as it should."""
    for axis, turned in ((2, "upside down"), (3, "left to right")):
        slope = torch.linspace(-5, 5, 20 if axis == 2 else 22)
        slope = slope[:, None] if axis == 2 else slope
        sloping = random(40, 1, 20, 22).sigmoid() + slope
        if not _plain(answer(sloping.flip(axis), sloping.clone())):
            return Mistake(
                f"Of a batch, and the same pictures turned {turned}, you say False.",
                "Their neighbours differ as much as before, with the other sign. Square each"
                " difference before you take a mean, in rows and in columns.",
            )
    faint = random(40, 1, 20, 22).sigmoid()
    faint[::2] *= 0.1
    flattened = faint.clone()
    flattened[::2] = 0
    if not _plain(answer(flattened, faint)):
        return Mistake(
            "Of a batch in which half of the pictures hold a hundredth of the others' detail, and"
            " lose it, you say False, though 0.99 is left in all.",
            "Make one number of each batch, the mean over all its pictures, and divide then.",
        )
    columns, rows = random(40, 1, 1, 22, seed=1), random(40, 1, 20, 1, seed=2)
    if not _plain(answer(*other_way(columns, rows))):
        return Mistake(
            "Of a batch with 0.9 of much detail across, and three times of little down, which is"
            " about as much in all, you say False.",
            "Add the two means of a batch first, and divide then: there is one share, not one for"
            " each axis.",
        )
    if not _plain(answer(*_wide())):
        return Mistake(
            "Of pictures of 10 rows and 60 columns, with 0.4 of the mean square across, 1.4 of the"
            " equal one down, and 0.9 in all, you say False.",
            "Take a mean of the differences in rows, and one of those in columns, and add the two:"
            " how many differences there are plays no part.",
        )
    for axis, line in ((3, "row"), (2, "column")):
        slope, zigzag = _slope_and_zigzag(axis)
        if not _plain(answer(slope, zigzag)) or not _plain(answer(zigzag, slope.clone())):
            return Mistake(
                f"Of two batches in which all neighbours in a {line} differ by 1, one a slope and"
                " one a zigzag, you say False.",
                f"Both have the same detail. Neighbours in a {line} are a pixel and the next one:"
                f" none stand two apart, and none meet at a {line}'s two ends, or where one {line}"
                " ends and another begins.",
            )
    few = torch.zeros(40, 1, 20, 22)
    few[..., 11:] = 1
    many = 13**-0.5 * (torch.arange(22) % 2).expand(40, 1, 20, 22)
    if not _plain(answer(few, many.clone())) or not _plain(answer(many.clone(), few)):
        return Mistake(
            "Of two batches with the same mean squared difference, one with few large steps and one"
            " with many small ones, you say False.",
            "Neighbours are a pixel and the one next to it. In either batch square all their"
            " differences, four pixels from each side, before you take the mean.",
        )
    return None


def _slope_and_zigzag(axis: int) -> tuple[Tensor, Tensor]:
    """Two batches in which neighbours along an axis differ by 1, and those along the other not."""
    steps = torch.arange(22.0 if axis == 3 else 20.0)
    steps = steps if axis == 3 else steps[:, None]
    shape = (40, 1, 20, 22)
    return steps.expand(shape).clone(), (steps % 2).expand(shape).clone()


def _noticed_channels(answer: Any) -> Mistake | None:
    """Whether the channels make one number, of differences within each."""
    same, uneven_channels, grey = _colours().values()
    told = ((same, "and itself"), (uneven_channels, "with 0.6, 1 and 1.4 of their detail"))
    for batches, what in told:
        if not _plain(answer(*(batch.clone() for batch in batches))):
            return Mistake(
                f"Of a batch with three channels {what}, 1 in all, you say False.",
                "Make one number of each batch, the mean over all its pictures and channels.",
            )
    if _plain(answer(*(batch.clone() for batch in grey))):
        return Mistake(
            "Of pictures with three channels that were turned grey, and have a third of the detail"
            " left, you say True.",
            "Take the differences within each channel, and then the mean over all of them.",
        )
    return None


INSIDE = "inside = batch[..., 4:-4, 4:-4]"
SUM = "across.square().mean() + down.square().mean()"
RANGE = "0.75 < share < 1.25"

SLIPS = (
    Slip(
        {INSIDE: "inside = batch"},
        "take the border in",
        "A black frame is an edge, and edges are detail. Leave out four pixels on each side",
    ),
    *(
        Slip(
            {INSIDE: f"inside = batch[..., {cut}, {cut}]"},
            f"leave the border out at the {here}",
            f"Leave out the {there} four rows and columns, too",
        )
        for cut, here, there in (
            ("4:", "top and the left only (4:24 does, of 20 × 22 pixels)", "last"),
            (":-4", "bottom and the right only", "first"),
        )
    ),
    Slip(
        {INSIDE: "inside = batch[:, 4:-4, 4:-4]"},
        "cut axes 1 and 2, the channels and the rows: of one channel nothing is left",
        "Rows and columns are the two last axes: batch[..., 4:-4, 4:-4]",
    ),
    Slip(
        {INSIDE: "inside = batch", "detail(changed)": "detail(changed[..., 4:-4, 4:-4])"},
        "leave out the border of the changed images, and not that of the others",
        "Leave out four pixels on each side of both",
    ),
    Slip(
        {
            SUM: (
                "(inside[..., 2:] - inside[..., :-2]).square().mean()"
                " + (inside[..., 2:, :] - inside[..., :-2, :]).square().mean()"
            )
        },
        "take the difference to the pixel after the next",
        "Neighbours lie next to each other: diff(), or x[..., 1:] - x[..., :-1]",
    ),
    Slip(
        {SUM: "across.var() + down.var()"},
        "take the variance of the differences",
        "On a slope they have a mean, which belongs to the detail: square them as they are",
    ),
    Slip(
        {SUM: "across.square().sum() + down.square().sum()"},
        "add up all squares, where each axis should have a mean of its own",
        "A wide picture has more neighbours in a row: two means, and their sum",
    ),
    Slip(
        {SUM: "across.square().mean()"},
        "look at neighbours in a row only",
        "Differences of neighbours in a column count, too",
    ),
    Slip(
        {SUM: "down.square().mean()"},
        "look at neighbours in a column only",
        "Differences of neighbours in a row count, too",
    ),
    Slip(
        {SUM: "(inside[..., 1:, 1:] - inside[..., :-1, :-1]).square().mean()"},
        "take differences along a diagonal",
        "Neighbours lie in one row, or in one column",
    ),
    Slip(
        {SUM: "across.abs().mean() + down.abs().mean()"},
        "take absolute differences",
        "Square them: the limits are meant for squares",
    ),
    Slip(
        {SUM: "across.abs().mean() ** 2 + down.abs().mean() ** 2"},
        "square the mean of the absolute differences",
        "Square each difference first, and take the mean then",
    ),
    *(
        Slip(
            {INSIDE: f"inside = batch[..., {cut}:-{cut}, {cut}:-{cut}]"},
            f"leave out {word} pixels on each side",
            "It is four",
        )
        for cut, word in ((3, "three"), (5, "five"))
    ),
    Slip(
        {SUM: "inside.var()"},
        "measure contrast, the spread of the pixels",
        "A blurred picture can have as much of it. Take differences of neighbours",
    ),
    *(
        Slip(
            {SUM: f"across.square().mean({over}) + down.square().mean({over})"},
            f"make a number for each {what}",
            "One number is asked for, the mean over the whole batch: mean() without dim",
        )
        for over, what in (("(0, 2, 3)", "channel"), ("(1, 2, 3)", "picture"))
    ),
    Slip(
        {RANGE: "share > 0.75"},
        "have a lower limit only",
        "Images that are sharper than those that are evaluated are a mismatch, too",
    ),
    Slip(
        {"detail(changed) / detail(images)": "detail(images) / detail(changed)"},
        "divide the other way round",
        "The share is that of the changed images, divided by that of the others",
    ),
)

EXERCISE = Exercise(
    answer=my_as_sharp,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        "tensor.diff(dim=-1) gives the differences of neighbours in a row.",
        (
            "A function of one batch: cut four pixels from each side; the mean of the squared"
            " differences along dim -1, plus that along dim -2. Then the quotient of the two"
            " batches, between 0.75 and 1.25."
        ),
    ),
    same=({SUM: "(across**2).mean() + (down**2).mean()"},),
)
