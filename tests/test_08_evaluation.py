"""Notebook 08's checks: right answers in other styles pass, unknown mistakes fail, some are told
why."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, judged, told_without
from scipy.stats import binomtest
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from mnist_vit.check import EXERCISES
from mnist_vit.course.nb08_evaluation.as_sharp import my_as_sharp
from mnist_vit.course.nb08_evaluation.better_model import my_better_model
from mnist_vit.course.nb08_evaluation.coin import my_coin
from mnist_vit.course.nb08_evaluation.controls import my_controls
from mnist_vit.course.nb08_evaluation.enlarge import my_enlarge
from mnist_vit.course.nb08_evaluation.reliability import my_reliability
from mnist_vit.course.nb08_evaluation.wilson import my_wilson
from mnist_vit.evaluation import confusion_matrix, wilson_interval


def wilson_roots(correct: int, total: int, z: float = 1.96) -> list[float]:
    """The two shares that lie exactly z standard deviations from what was seen: a quadratic
    equation."""
    p, e = correct / total, z * z / total
    return sorted(np.roots([1 + e, -2 * p - e, p * p]).real)


def wilson_by_search(correct: int, total: int, z: float = 1.96) -> tuple[Tensor, Tensor]:
    p = torch.linspace(0, 1, 1_000_001, dtype=torch.float64)
    fits = p[(p - correct / total).abs() <= z * (p * (1 - p) / total).sqrt()]
    return fits[0], fits[-1]


def reliability_by_loop(
    probabilities: Tensor, labels: Tensor, low: float, high: float
) -> list[float]:
    found = []
    for row, label in zip(probabilities.numpy(), labels.tolist(), strict=True):
        if low < row.max() <= np.float32(high):
            found.append((row.max(), row.argmax() == label))
    return [len(found), *(np.mean(found, axis=0) if found else (math.nan, math.nan))]


def enlarged_by_torchvision(images: Tensor, size: int) -> Tensor:
    """Another bicubic curve (Pillow's): not what was asked for."""
    large = resize(images[:, None] / 16, [size, size], InterpolationMode.BICUBIC, antialias=True)
    return F.pad((255 * large.clamp(0, 1)).round(), 4 * [(28 - size) // 2]).to(torch.uint8)


def enlarged_one_by_one(images: Tensor, size: int) -> Tensor:
    made = torch.zeros(len(images), 1, 28, 28, dtype=torch.uint8)
    a = 14 - size // 2
    for picture, small in zip(made, images, strict=True):
        large = F.interpolate(small[None, None] * 255 / 16, (size, size), mode="bicubic")[0]
        picture[:, a : a + size, a : a + size] = large.clamp(0, 255).round()
    return made


def better(decide: Callable[[int, int], bool]) -> Callable[[Tensor, Tensor, Tensor], str]:
    """An answer from the rule that says when the two counts are too far apart for chance."""

    def answer(labels: Tensor, first: Tensor, second: Tensor) -> str:
        a, b = first == labels, second == labels
        one, other = int((a & ~b).sum()), int((b & ~a).sum())
        if not decide(one, other):
            return "cannot tell"
        return "first" if one > other else "second"

    return answer


def exact_chance(b: int, c: int) -> float:
    return min(1.0, 2 * sum(math.comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c))


def as_uneven(b: int, c: int) -> list[int]:
    """The numbers of heads that are at least as uneven."""
    return [heads for heads in range(b + c + 1) if abs(2 * heads - b - c) >= abs(b - c)]


def coin_of_fractions(b: int, c: int) -> Fraction:
    return sum(Fraction(math.comb(b + c, k), 2 ** (b + c)) for k in as_uneven(b, c))


def coin_by_logarithms(b: int, c: int) -> float:
    n = b + c
    chance = 0.0
    for k in as_uneven(b, c):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        chance += math.exp(ways - n * math.log(2))
    return chance


def coin_of_large_floats(b: int, c: int) -> float:
    n = b + c
    chance = 0.0
    for k in as_uneven(b, c):
        chance += math.comb(n, k) * 0.5**n
    return chance


def coin_of_large_whole_numbers(b: int, c: int) -> float | int:
    return exact_chance(b, c) if b + c < 1000 else 2 ** (b + c)


def coin_of_small_floats(b: int, c: int) -> float:
    n = b + c
    chances = [0.5**n]
    for k in range(n):
        chances.append(chances[-1] * (n - k) / (k + 1))
    return sum(chances[k] for k in as_uneven(b, c))


def exact_coin(b: int, c: int) -> bool:
    return exact_chance(b, c) < 0.05


def controls_by_slices(images: Tensor) -> dict[str, Tensor]:
    rows = [0, *range(images.shape[2]), images.shape[2] - 1]
    columns = [0, *range(images.shape[3]), images.shape[3] - 1]
    wide = images[:, :, rows][..., columns]
    one = 0.105 * wide[:, :, :-2] + 0.79 * wide[:, :, 1:-1] + 0.105 * wide[:, :, 2:]
    blur = 0.105 * one[..., :-2] + 0.79 * one[..., 1:-1] + 0.105 * one[..., 2:]
    inside = F.pad(torch.ones_like(images[..., 1:-1, 1:-1]), (1, 1, 1, 1))
    return {"border": images * inside, "blur": blur, "shift": wide[:, :, :-2, :-2]}


def sharp_by_loops(changed: Tensor, images: Tensor) -> Tensor:
    found = []
    for batch in (changed, images):
        x = batch[:, :, 4:-4, 4:-4]
        rows = F.mse_loss(x[..., 1:], x[..., :-1])
        found.append(rows + F.mse_loss(x[:, :, 1:], x[:, :, :-1]))
    return (found[0] / found[1] - 1).abs() < 0.25


def sharp(border: int, detail: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], bool]:
    """An answer that leaves out a border and makes one number of the differences."""

    def answer(changed: Tensor, images: Tensor) -> bool:
        found = []
        for batch in (changed, images):
            x = batch[..., border:-border, border:-border]
            found.append(detail(x.diff(dim=-1)) + detail(x.diff(dim=-2)))
        return bool(0.75 < found[0] / found[1] < 1.25)

    return answer


def sharp_in_rows(border: int) -> Callable[[Tensor, Tensor], bool]:
    """An answer that compares neighbours in a row only."""

    def answer(changed: Tensor, images: Tensor) -> bool:
        found = []
        for batch in (changed, images):
            x = F.pad(batch, (-border,) * 4)
            found.append((x[..., 1:] - x[..., :-1]).square().mean())
        return bool(0.75 < found[0] / found[1] < 1.25)

    return answer


def picture_by_picture(changed, images):
    pairs = zip(changed, images, strict=True)
    sharp_enough = sharp(4, lambda x: x.square().mean())
    return all(sharp_enough(one[None], other[None]) for one, other in pairs)


def with_signs_across_rows(changed: Tensor, images: Tensor) -> bool:
    """The differences of neighbours in a column are not squared."""
    across, down = [], []
    for batch in (changed, images):
        x = batch[..., 4:-4, 4:-4]
        across.append(x.diff(dim=-1).square().mean())
        down.append(x.diff(dim=-2).mean())
    return bool(0.75 < (across[0] + down[0]) / (across[1] + down[1]) < 1.25)


def reliability_with_a_list(p: Tensor, y: Tensor, low: float, high: float) -> tuple:
    sure = p.amax(dim=1)
    inside = sure[(sure > low) & (sure <= high)].tolist()
    return inside, *reliability_by_loop(p, y, low, high)[1:]


def pixel_by_pixel(changed: Tensor, images: Tensor) -> bool:
    inside = (changed - images)[..., 4:-4, 4:-4], images[..., 4:-4, 4:-4]
    lost, all_of_it = (
        x.diff(dim=-1).square().mean() + x.diff(dim=-2).square().mean() for x in inside
    )
    return bool(lost < all_of_it / 4)


def differing(labels: Tensor, first: Tensor, second: Tensor) -> str:
    """Counts images on which both are wrong with different names."""
    differ = first != second
    b, c = int((differ & (second != labels)).sum()), int((differ & (first != labels)).sum())
    if exact_chance(b, c) >= 0.05:
        return "cannot tell"
    return "first" if b > c else "second"


def only_sometimes(labels: Tensor, first: Tensor, second: Tensor) -> str | None:
    verdict = better(exact_coin)(labels, first, second)
    return None if verdict == "cannot tell" else verdict


def middle_and_reach(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, high = my_wilson(correct, total, z)
    return (low + high) / 2, 1.1 * (high - low) / 2


def around_the_share(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, high = my_wilson(correct, total, z)
    share, reach = correct / total, (high - low) / 2
    return max(0.0, share - reach), min(1.0, share + reach)


def mirrored(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, _ = my_wilson(correct, total, z)
    return low, min(1.0, 2 * correct / total - low)


def plain_around_the_middle(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    number = total + z * z
    middle = (correct + z * z / 2) / number
    reach = z * math.sqrt(middle * (1 - middle) / number)
    return middle - reach, middle + reach


def wilson_in_steps(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, high = my_wilson(correct, total, z)
    return math.ceil(low * 300) / 300, math.floor(high * 300) / 300


def by_the_odds(correct: int, total: int, z: float = 1.96) -> list[float]:
    """An interval that is even in the logarithm of the odds."""
    p = min(max(correct / total, 1e-9), 1 - 1e-9)
    odds, width = math.log(p / (1 - p)), z / math.sqrt(total * p * (1 - p))
    return [1 / (1 + math.exp(-odds + sign * width)) for sign in (1, -1)]


def far_too_long(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    return correct / total - z, correct / total + z


def strange_reach(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    middle, share = sum(my_wilson(correct, total, z)) / 2, correct / total
    reach = z * math.sqrt(share * (1 - share) / (total + 5))
    return middle - reach, middle + reach


def reliability_by_division(
    probabilities: Tensor, labels: Tensor, low: float, high: float
) -> tuple[int, float, float]:
    number, mean, share = my_reliability(probabilities, labels, low, high)
    return number, mean if number else 0.0 / number, share


def reliability_with_none(*given: Any) -> tuple:
    number, mean, share = my_reliability(*given)
    return number, mean if number else None, share if number else None


def over_channels(changed: Tensor, images: Tensor) -> bool:
    """The axes are counted from 1."""
    found = []
    for batch in (changed, images):
        x = batch[..., 4:-4, 4:-4]
        found.append(x.diff(dim=1).square().mean() + x.diff(dim=2).square().mean())
    return bool(0.75 < found[0] / found[1] < 1.25)


def enlarged_and_cut_below(images: Tensor, size: int) -> Tensor:
    large = F.interpolate(images[:, None] / 16, size=(size, size), mode="bicubic")
    border = (28 - size) // 2
    return F.pad((255 * large).relu().round().to(torch.uint8), [border] * 4)


def sorted_by_themselves(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return confusion_matrix(labels.sort().values, predictions.sort().values, k)


def spread_of_the_confidence(probabilities: Tensor, labels: Tensor, low: float, high: float) -> Any:
    confidence = probabilities.amax(dim=1)
    chosen = (confidence > low) & (confidence <= high)
    count, _, share = my_reliability(probabilities, labels, low, high)
    return count, confidence[chosen].std(), share


def black_at_the_sides(images: Tensor) -> dict[str, Tensor]:
    wide = F.pad(F.pad(images, (0, 0, 1, 1), mode="replicate"), (1, 1))
    rows = 0.79 * wide[..., 1:-1, :] + 0.105 * (wide[..., :-2, :] + wide[..., 2:, :])
    blur = 0.79 * rows[..., 1:-1] + 0.105 * (rows[..., :-2] + rows[..., 2:])
    return controls_by_slices(images) | {"blur": blur}


def without_the_first(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    """Nothing is ever predicted to be of class 0."""
    made = confusion_matrix(labels, predictions, k).clone()
    made[:, 0] = 0
    return made


def without_the_last_image(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return confusion_matrix(labels[:-1], predictions[:-1], k)


def sharp_by_channel(changed: Tensor, images: Tensor) -> bool:
    """One number for each channel: right for grey pictures."""
    found = []
    for batch in (changed, images):
        x = batch[..., 4:-4, 4:-4]
        across, down = x.diff(dim=-1).square(), x.diff(dim=-2).square()
        found.append(across.mean((0, 2, 3)) + down.mean((0, 2, 3)))
    return bool(0.75 < found[0] / found[1] < 1.25)


def sharp_in_grey(changed: Tensor, images: Tensor) -> bool:
    return sharp_by_loops(changed.mean(1, keepdim=True), images.mean(1, keepdim=True))


def counted_in_8_bits(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return confusion_matrix(labels, predictions, k).to(torch.uint8).long()


def black_in_the_corner(images: Tensor) -> dict[str, Tensor]:
    made = controls_by_slices(images)
    made["shift"] = made["shift"].clone()
    made["shift"][..., 0, 0] = 0
    return made


def better_by_accuracy(labels: Tensor, first: Tensor, second: Tensor) -> str:
    one, two = ((x == labels).float().mean().item() for x in (first, second))
    return "cannot tell" if my_coin(one, two) >= 0.05 else "first"


def wilson_in_thousandths(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, high = my_wilson(correct, total, z)
    return math.ceil(low * 1000) / 1000, math.floor(high * 1000) / 1000


def sharp_by_axis(changed: Tensor, images: Tensor) -> bool:
    """One share for each axis, and both must fit."""
    new, old = changed[..., 4:-4, 4:-4], images[..., 4:-4, 4:-4]
    shares = [new.diff(dim=d).square().mean() / old.diff(dim=d).square().mean() for d in (-1, -2)]
    return all(0.75 < share < 1.25 for share in shares)


def sharp_by_mean_of_shares(changed: Tensor, images: Tensor) -> bool:
    def detail(x: Tensor) -> Tensor:
        x = x[..., 4:-4, 4:-4]
        return x.diff(dim=-1).square().mean((1, 2, 3)) + x.diff(dim=-2).square().mean((1, 2, 3))

    return bool(0.75 < (detail(changed) / detail(images)).mean() < 1.25)


def coin_by_trial(b: int, c: int) -> float:
    heads = torch.randint(2, (20_000, b + c)).sum(dim=1)
    return float((2 * heads - b - c).abs().ge(abs(b - c)).float().mean())


def confidence_of_the_right(p: Tensor, y: Tensor, low: float, high: float) -> tuple:
    confidence, named = p.max(dim=1)
    right = (confidence > low) & (confidence <= high) & (named == y)
    number, _, share = my_reliability(p, y, low, high)
    return number, confidence[right].mean(), share


def sharp_by_sums(changed: Tensor, images: Tensor) -> bool:
    found = []
    for batch in (changed, images):
        x = batch[..., 4:-4, 4:-4]
        found.append(x.diff(dim=-1).square().sum() + x.diff(dim=-2).square().sum())
    return bool(0.75 < found[0] / found[1] < 1.25)


def sharp_by_variance(changed: Tensor, images: Tensor) -> bool:
    found = []
    for batch in (changed, images):
        x = batch[..., 4:-4, 4:-4]
        found.append(x.diff(dim=-1).var() + x.diff(dim=-2).var())
    return bool(0.75 < found[0] / found[1] < 1.25)


def predicted_by_its_truth(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return confusion_matrix(labels, predictions[labels], k)


def counted_in_float16(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return (F.one_hot(labels, k).half().T @ F.one_hot(predictions, k).half()).long()


def numbered_by_ten(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return torch.bincount((10 * labels + predictions) % k**2, minlength=k**2).view(k, k)


def numbered_in_8_bits(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    pairs = labels.byte() * k + predictions.byte()
    return torch.bincount(pairs, minlength=k**2).view(k, k)


def keyed_by_tensors(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    counts: dict[Any, int] = {}
    for pair in zip(labels, predictions, strict=True):
        counts[pair] = counts.get(pair, 0) + 1
    return torch.tensor([[counts.get((i, j), 0) for j in range(k)] for i in range(k)])


def kept_from_call_to_call(
    labels: Tensor,
    predictions: Tensor,
    k: int,
    tables: dict[int, Tensor] = {},  # noqa: B006, that is the mistake
) -> Tensor:
    table = tables.setdefault(k, torch.zeros(k, k, dtype=torch.int64))
    table += confusion_matrix(labels, predictions, k)
    return table


def blurred_in_place(images: Tensor) -> dict[str, Tensor]:
    blur = images.clone()
    for axis in (2, 3):
        lines = blur.unbind(axis)
        last = len(lines) - 1
        for place, line in enumerate(lines):
            beside = lines[max(place - 1, 0)] + lines[min(place + 1, last)]
            line.copy_(0.79 * line + 0.105 * beside)
    return my_controls(images) | {"blur": blur}


def shifted_inside(images: Tensor) -> dict[str, Tensor]:
    shift = images.clone()
    shift[..., 1:, 1:] = images[..., :-1, :-1]
    return my_controls(images) | {"shift": shift}


def compared_with_the_first(p: Tensor, labels: Tensor, low: float, high: float) -> list[Any]:
    chosen = p[(p.amax(dim=1) > low) & (p.amax(dim=1) <= high)]
    right = chosen.argmax(dim=1) == labels[: len(chosen)]
    return [*my_reliability(p, labels, low, high)[:2], right.float().mean()]


def by_two_decimals(p: Tensor, labels: Tensor, low: float, high: float) -> tuple:
    return my_reliability(p, labels, low + 0.005, high + 0.005)


def by_the_margin(p: Tensor, labels: Tensor, low: float, high: float) -> tuple:
    top = p.topk(2, dim=1).values
    chosen = (top[:, 0] - top[:, 1] > low) & (top[:, 0] - top[:, 1] <= high)
    return my_reliability(p[chosen], labels[chosen], 0, 1)


def never_above_one_half(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, high = my_wilson(correct, total, z)
    return min(low, 0.5), max(high, 0.5)


def in_one_class(labels: Tensor, first: Tensor, second: Tensor) -> str:
    chosen = labels == labels[0]
    return my_better_model(labels[chosen], first[chosen], second[chosen])


def sharp_over_the_line_s_end(changed: Tensor, images: Tensor) -> bool:
    def detail(x: Tensor) -> Tensor:
        x = x[..., 4:-4, 4:-4]
        rows, columns = x.flatten(2), x.transpose(2, 3).flatten(2)
        return rows.diff().square().mean() + columns.diff().square().mean()

    return bool(0.75 < detail(changed) / detail(images) < 1.25)


def counted_in_bfloat16(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return confusion_matrix(labels, predictions, k).bfloat16().long()


def smeared(images: Tensor) -> dict[str, Tensor]:
    shift = images.clone()
    for row in range(1, shift.shape[2]):
        shift[:, :, row, 1:] = shift[:, :, row - 1, :-1]
    return controls_by_slices(images) | {"shift": shift}


def reliability_rounded(*given: Any) -> tuple:
    number, mean, share = my_reliability(*given)
    return number, round(mean, 2), round(share, 2)


def reliability_with_tensors(
    probabilities: Tensor, labels: Tensor, low: float, high: float
) -> tuple[int, Tensor, Tensor]:
    confidence, predictions = probabilities.max(dim=1)
    chosen = (confidence > low) & (confidence <= high)
    right = (predictions == labels).float()
    return int(chosen.sum()), confidence[chosen].mean(), right[chosen].mean()


def enlarged_by_bicubic_rounded(images: Tensor, size: int) -> Tensor:
    """Rounds in the middle between two grey levels, where the order in memory may decide."""
    scaled = images.float()[:, None] * 255 / 16
    large = F.interpolate(scaled, size=(size, size), mode="bicubic", align_corners=False)
    before = (28 - size) // 2
    after = 28 - size - before
    return F.pad(large.round().clamp(0, 255).to(torch.uint8), (before, after, before, after))


def better_with_tensors(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b = ((first == labels) & (second != labels)).sum()
    c = ((first != labels) & (second == labels)).sum()
    return "cannot tell" if my_coin(b, c) >= 0.05 else "first"


RIGHT: list[tuple[str, Any]] = [
    ("controls", controls_by_slices),
    ("enlarge", enlarged_by_bicubic_rounded),
    ("reliability", reliability_with_tensors),
    ("as_sharp", sharp_by_loops),
    ("confusion", confusion_matrix),
    (
        "confusion",
        lambda labels, predictions, k: F.one_hot(labels, k).T @ F.one_hot(predictions, k),
    ),
    ("wilson", wilson_interval),
    ("wilson", wilson_roots),
    ("wilson", lambda *args: np.array(my_wilson(*args))),
    ("wilson", wilson_by_search),
    ("coin", lambda b, c: binomtest(b, b + c).pvalue if b + c else 1.0),
    ("coin", coin_of_fractions),
    ("coin", coin_by_logarithms),
    ("reliability", reliability_by_loop),
    ("enlarge", enlarged_one_by_one),
    ("better_model", better(exact_coin)),
    ("better_model", better(lambda b, c: b + c > 0 and binomtest(b, b + c).pvalue < 0.05)),
]
WRONG: list[tuple[str, Any, str]] = [
    (
        "confusion",
        lambda labels, predictions, k: confusion_matrix(labels[1:], predictions[1:], k),
        "Of the two images with truth 0 and prediction 0 one is not counted.",
    ),
    ("wilson", lambda correct, total, z=1.96: wilson_interval(correct + 1, total + 2, z), ""),
    (
        "wilson",
        lambda *args: (my_wilson(*args)[0], np.float64(0.49)),
        "number 2 of 2, should not be 0.49.",
    ),
    ("coin", lambda b, c: "rare", "must be a number, but is 'rare'"),
    ("coin", lambda b, c: 0.9 * exact_chance(b, c), ""),
    ("coin", coin_of_large_floats, "int too large to convert to float. There n is 1300;"),
    ("coin", coin_of_large_whole_numbers, "of 620 to 680, or more uneven should not be 2"),
    (
        "coin",
        coin_of_small_floats,
        "tried is right. For 620 to 680, 1,300 tosses, you give 0, and",
    ),
    ("reliability", lambda *given: reliability_by_loop(*given)[1:], "three numbers are needed"),
    ("reliability", lambda p, y, low, high: reliability_by_loop(p.sqrt(), y, low, high), ""),
    ("enlarge", lambda images, size: my_enlarge(images, size) / 255, "MNIST's pixels are uint8"),
    ("better_model", better(lambda b, c: b > 25), ""),
    ("as_sharp", sharp(4, lambda x: x.abs().mean() ** 3), "you say True from 0.8"),
    ("as_sharp", picture_by_picture, "Make one number of each batch"),
    ("as_sharp", with_signs_across_rows, "turned upside down, you say False"),
    ("wilson", lambda *args: my_wilson(*args)[1], "one number, the interval's upper end. Both"),
    ("reliability", reliability_with_a_list, "you give 69 numbers in the place of one. The"),
    ("enlarge", lambda images, size: F.pad(my_enlarge(images, size), (0, 1)), "5 on its right. It"),
    ("enlarge", lambda images, size: my_enlarge(images, size).expand(-1, 3, -1, -1), "3 channels"),
    ("as_sharp", pixel_by_pixel, "shifted by whole pixels, and are as sharp as before"),
    ("better_model", differing, "take for two different wrong digits"),
    ("better_model", only_sometimes, "None comes back"),
    ("wilson", middle_and_reach, "is the middle of the interval"),
    (
        "wilson",
        around_the_share,
        "the middle is the seen share, and the reach",
    ),
    ("wilson", plain_around_the_middle, "is made from the middle m in the place of s"),
    ("wilson", wilson_in_steps, "at an end the two must be equal. Solve this equation for p; or"),
    ("wilson", by_the_odds, "For 8 of 10, with z = 1, your lower end p = 0.6447 is 0.155 from the"),
    ("wilson", far_too_long, "1, your lower end p = -0.2 is no share from 0 to 1. An end is a p"),
    ("wilson", strange_reach, "the middle is right. For 8 of 10, with z = 1, your lower end"),
    ("wilson", mirrored, "for 8 of 10, with z = 1, your upper end is 0.9509. It lies as far"),
    ("reliability", lambda p, *more: reliability_by_loop(p.softmax(1), *more), "the softmax of"),
    (
        "reliability",
        reliability_by_division,
        "a confidence above 0.0 and up to 0.1, and there your",
    ),
    ("reliability", reliability_with_none, "share must both be nan: float('nan')"),
    ("coin", lambda b, c: exact_chance(b, c) * (b + c) / (b + c), "for 0 to 0 your code divides"),
    ("as_sharp", sharp_in_rows(0), "neighbours in a column must count, too"),
    ("as_sharp", over_channels, "of one with three channels and itself True"),
    (
        "as_sharp",
        sharp(1, lambda x: x.square().mean()),
        "you leave out of both means 1 at the top, 1 at",
    ),
    ("confusion", without_the_first, "0 at [0, 0], where 2 should be; 0 at [4, 0], where"),
    ("confusion", without_the_last_image, "with truth 4 and prediction 0 is not counted. Each"),
    ("better_model", better(lambda b, c: exact_chance(b, c) < 0.3), "The limit is 5 %: below"),
    ("better_model", lambda *given: 1.5, "The answer must be one of the texts"),
    ("enlarge", enlarged_and_cut_below, "bicubic numbers above 255 are dark in yours. Beyond"),
    (
        "confusion",
        sorted_by_themselves,
        "you make the counts 3 at [0, 0], 2 at [2, 2], 1 at [4, 4]",
    ),
    ("reliability", spread_of_the_confidence, "the number of answers is right, and what you give"),
    ("confusion", predicted_by_its_truth, "of the fifth image alone your code raises IndexError"),
    ("confusion", counted_in_bfloat16, "Of 4099 images with the truth 0 and the prediction 0 you"),
    ("controls", smeared, "your shift makes 0 everywhere. It should be one pixel again"),
    ("reliability", reliability_rounded, "Your mean confidence is rounded to two decimals"),
    ("as_sharp", sharp_by_axis, "there is one share, not one for each axis"),
    ("as_sharp", sharp_by_mean_of_shares, "lose it, you say False, though 0.99 is left in all"),
    (
        "as_sharp",
        lambda changed, images: changed.std() / images.std(),
        "Return whether the share lies",
    ),
    ("coin", coin_by_trial, "asked twice for 21 to 26, you give"),
    ("coin", lambda b, c: round(my_coin(b, c), 4), "the right chance, rounded to 4 decimals"),
    ("coin", lambda b, c: float(np.float16(my_coin(b, c))), "is near the right chance, by less"),
    ("confusion", counted_in_float16, "Of 4099 images with the truth 0 and the prediction 0 you"),
    ("confusion", numbered_by_ten, "an image is counted at place 10 · truth + prediction."),
    ("confusion", numbered_in_8_bits, "With twenty, of an image with truth 19 and prediction 18"),
    ("confusion", keyed_by_tensors, "In a dict, two tensors are two keys"),
    ("confusion", kept_from_call_to_call, "something else. What comes back must depend on the"),
    ("controls", blurred_in_place, "Pixels further off get something, too. Are pixels read"),
    ("controls", shifted_inside, "row 0 and column 0 of the picture are as before: only what"),
    ("enlarge", lambda *given: my_enlarge(*given).short(), "these are torch.int16. clamp, round"),
    ("reliability", compared_with_the_first, "in yours it changes with the labels of the others"),
    ("reliability", by_two_decimals, "you count confidences from 0.506 to 0.702. Compare them"),
    ("reliability", by_the_margin, "with all the rest on one class from 0.754 to 0.846. The"),
    ("wilson", never_above_one_half, "80 of 100, 90 of 100, 950 of 1000 is 0.5 each time."),
    ("better_model", in_one_class, "if they are of ten classes. An image counts whatever"),
    ("as_sharp", lambda a, b: my_as_sharp(a[:1], b[:1]), "all pictures but the first are even"),
    ("as_sharp", sharp_over_the_line_s_end, "one a slope and one a zigzag, you say False. Both"),
    ("reliability", confidence_of_the_right, "of the right answers among the chosen ones"),
    (
        "reliability",
        lambda *given: [
            one if my_reliability(*given)[0] else math.nan for one in my_reliability(*given)
        ],
        "That number is known: 0.",
    ),
    ("controls", lambda images: tuple(controls_by_slices(images).values()), 'Return {"blur": …'),
    ("as_sharp", sharp_in_grey, "turned grey, and have a third of the detail left, you say True"),
    ("controls", black_in_the_corner, "what comes in is 0 at row 0, column 0. Let"),
    (
        "wilson",
        wilson_in_thousandths,
        "are multiples of 0.001, each next to the right one. To 0.00001 is asked for: do not",
    ),
    ("controls", black_at_the_sides, "your blur makes 0.4475 at row 0, column 0"),
]


NAMED: list[tuple[str, Any, str]] = [
    ("as_sharp", sharp(3, lambda x: x.square().mean()), "leave out three pixels on each side"),
    ("as_sharp", sharp(5, lambda x: x.square().mean()), "leave out five pixels on each side"),
    ("as_sharp", sharp(4, lambda x: x.abs().mean() ** 2), "square the mean of the absolute"),
    ("enlarge", enlarged_by_torchvision, "interpolate with antialias=True, as torchvision's"),
    ("as_sharp", sharp_in_rows(4), "look at neighbours in a row only"),
    ("as_sharp", sharp_by_variance, "take the variance of the differences"),
    ("as_sharp", sharp_by_sums, "add up all squares"),
    ("better_model", better_with_tensors, "give the coin tensors"),
    ("as_sharp", sharp_by_channel, "make a number for each channel"),
    ("confusion", counted_in_8_bits, "count in 8 bits"),
    ("better_model", better_by_accuracy, "give the coin floats, such as the two accuracies"),
    (
        "better_model",
        better(lambda b, c: b + c > 0 and (b - c) ** 2 / (b + c) >= 3.841),
        "use the bell curve",
    ),
    (
        "confusion",
        lambda y, p, k: confusion_matrix(y, p, k)[:-1, :-1],
        "one row and one column too few",
    ),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def only_one(first: str, second: str, split: str) -> tuple[int, int]:
    """Of the old weights: images on which only the first model was right, and only the second."""
    text = (NOTEBOOKS / "results" / "old_weights.json").read_text(encoding="utf-8")
    old = json.loads(text)["weights"]
    a, b = (
        {one.split("/")[0] for one in old[name][split]["mistakes"].split()}
        for name in (first, second)
    )
    return len(b - a), len(a - b)


def test_the_discovery_of_the_old_weights_did_not_replicate() -> None:
    """What notebook 08 tells: below 5 %, the smallest of three, on the watched digits; no
    difference on the others."""
    names = ("vit_mnist", "vit_mnist_p4", "vit_mnist_p7")
    chances = []
    for pair in itertools.combinations(names, 2):
        chances.append(exact_chance(*only_one(*pair, "validation")))
    assert only_one(*names[1:], "validation") == (41, 23)
    assert min(chances) == chances[-1] < 0.05
    b, c = only_one(*names[1:], "test")
    assert b == c


BORDERS = ("black", "edge")


def test_what_the_text_says_of_the_fault_is_stored() -> None:
    text = (NOTEBOOKS / "results" / "blurred.json").read_text(encoding="utf-8")
    digits, colour = (
        {change: found["errors"] for change, found in one["changes"].items()}
        for one in json.loads(text).values()
    )
    clean, moved = "as they are", "shift 0.3, bilinear, black border"
    blur = "blurred in place as by a shift of 0.3, edge border"
    frame, shift = "black frame of 1 pixel, else sharp", "shift 1, sharp, edge border"
    assert digits[clean] - digits[moved] >= 10
    assert abs(digits[blur] - digits[moved]) <= 2
    assert digits[frame] == digits[clean]
    assert min(digits[shift] - digits[clean], colour[shift] - colour[clean]) > 0
    assert colour[clean] - colour[frame] == 72
    assert colour[clean] - colour[moved] > colour[clean] - colour[blur] > 100
    assert colour[clean] - colour["shift 0.3, bicubic, edge border"] < 30
    with_and_without = [colour[f"shift 0.3, bilinear, {border} border"] for border in BORDERS]
    assert with_and_without == [815, 828]
    with_and_without = [colour[f"shift 0.3, bicubic, {border} border"] for border in BORDERS]
    assert with_and_without == [912, 912]
    assert 0.45 < exact_chance(138, 125) < 0.465


def test_own_weights_are_honest_as_the_text_says() -> None:
    text = (NOTEBOOKS / "results" / "own_weights.json").read_text(encoding="utf-8")
    seeds = json.loads(text)["five"]
    pairs = zip(seeds["accuracy"], seeds["confidence"], strict=True)
    assert all(abs(right - sure) < 1 for right, sure in pairs)


def sharp_by_axes(changed, images):
    def detail(x):
        across, down = x[..., 4:-4].diff(dim=-1), x[..., 4:-4, :].diff(dim=-2)
        return across.square().mean() + down.square().mean()

    return bool(0.75 < detail(changed) / detail(images) < 1.25)


def wilson_of_one_z(correct, total, z=1.96):
    p, below = correct / total, 1 + 3.8416 / total
    half = z / below * math.sqrt(p * (1 - p) / total + 3.8416 / (4 * total**2))
    middle = (p + 3.8416 / (2 * total)) / below
    return middle - half, middle + half


def better_by_half(labels, first, second):
    b = int(((first == labels) & (second != labels)).sum())
    c = int(((first != labels) & (second == labels)).sum())
    if my_coin(b, c) / 2 >= 0.0125:
        return "cannot tell"
    return "first" if b > c else "second"


def better_in_a_chain(labels, first, second):
    return "first" if int((first == labels != second).sum()) else "second"


def corners_alone(images):
    made = my_controls(images)
    made["border"] = images.clone()
    made["border"][..., [0, -1], [0, -1]] = 0
    return made


test_more_is_told = judged(
    [],
    [
        ("as_sharp", sharp_by_axes, "at two of the four sides only"),
        ("wilson", wilson_of_one_z, "right for z = 1.96, and not for z = 1, 2 and 3"),
        ("better_model", better_by_half, "as with a limit of 2.5 %"),
        ("better_model", better_in_a_chain, "means (first == labels) and (labels != second)"),
        ("controls", corners_alone, "sets 2 to 0, none but in the corners"),
    ],
)


def blurred_by_a_cross(images):
    wide = F.pad(images, (1, 1, 1, 1), mode="replicate")
    beside = wide[..., 1:-1, :-2] + wide[..., 1:-1, 2:]
    above = wide[..., :-2, 1:-1] + wide[..., 2:, 1:-1]
    return my_controls(images) | {"blur": 0.58 * images + 0.105 * (beside + above)}


def tossed(b, c):
    heads = np.random.default_rng(0).binomial(b + c, 0.5, size=10_000)
    return float((abs(2 * heads - b - c) >= abs(b - c)).mean())


test_what_is_said_is_what_was_measured = judged(
    [],
    [
        (
            "controls",
            blurred_by_a_cross,
            "The four corners get nothing. Blur along one axis, 0.105, 0.79, 0.105, then blur the",
        ),
        ("coin", tossed, "and it is small, but not 0. The exact chance is asked for, no trial"),
    ],
)


def in_itself(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    if len(labels) == 0:
        return torch.zeros(num_classes, num_classes, dtype=torch.int64)
    matrix = in_itself(labels[1:], predictions[1:], num_classes)
    matrix[labels[0], predictions[0]] += 1
    return matrix


def coin_but(even: float = 1.0, none: float = 1.0, many: bool = False) -> Any:
    """The right chance, but where b and c are equal, or both 0, or where n is large."""

    def answer(b: int, c: int) -> float:
        if b + c == 0:
            return none
        if b == c:
            return even
        if many and b + c > 1000:
            return math.erfc(abs(b - c) / math.sqrt(2 * (b + c)))
        return EXERCISES["coin"].answer(b, c)

    return answer


def coin_in_floats(b: int, c: int) -> float:
    n = b + c
    ways = 0
    for heads in range(n + 1):
        if abs(2 * heads - n) >= abs(b - c):
            ways += math.comb(n, heads)
    return ways / 2.0**n


def one_picture_as_a_list(images: Tensor, size: int) -> Any:
    large = my_enlarge(images, size)
    return large if len(images) > 1 else list(large)


SHIFT_INTO = {"border = torch.zeros_like(images)": "shift = shift.clone()\n    border = shift"}
LARGE_FLOATS = "A float ends near"
test_nothing_false_is_told = told_without(
    [
        ("coin", coin_but(none=math.nan), "For 0 to 0 you give nan", LARGE_FLOATS),
        ("coin", coin_but(none=0.0), "For 0 to 0 you give 0", LARGE_FLOATS),
        ("coin", coin_but(even=math.nan), "For 1 to 1 you give nan", LARGE_FLOATS),
        ("coin", coin_but(many=True), "For 620 to 680, 1,300 tosses", LARGE_FLOATS),
        ("coin", coin_in_floats, "a whole number of more than 30 digits", ""),
        (
            "as_sharp",
            {"inside.diff(dim=-1)": "inside[..., 2:] - inside[..., :-2]"},
            "none stand two apart",
            "flatten",
        ),
        (
            "as_sharp",
            {"inside.diff(dim=-1)": "inside - inside.roll(1, -1)"},
            "none meet at a row's two ends",
            "flatten",
        ),
        ("confusion", in_itself, "or more often than Python allows", ""),
        ("enlarge", {".round()": ".ceil()"}, "or round up, as ceil() does", ""),
        ("enlarge", {".round()": ""}, "you do not round: .to(torch.uint8) cuts off what", ""),
        (
            "enlarge",
            one_picture_as_a_list,
            "what came back is a list of 1, and the check cannot work with it (AttributeError",
            "it raised",
        ),
        ("controls", SHIFT_INTO, 'Your "shift" and your "border" are one tensor', "28 places"),
        (
            "controls",
            {"shift = wide": "blur = blur.roll(1, 3)\n    shift = wide"},
            "around row 3, column 5: your blur moves the picture",
            "already",
        ),
    ]
)
