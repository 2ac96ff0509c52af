"""Exercise: patches whose tokens are far longer than those of the others."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, describe, fits, random


def my_outliers(tokens, num_patches):
    # (n, seq_length, hidden_dim) -> (n,) ratios, (n,) numbers of patches
    patches = tokens[:, -num_patches:]
    norms = patches.norm(dim=2)
    largest, where = norms.max(dim=1)
    middle = norms.median(dim=1).values
    return largest / middle, where


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Tokens whose first one, no patch, is the longest; then two tokens before the patches.

    Of an even number of patches the mean of the two norms in the middle is a median, too.
    """
    for before, count, seed in ((1, 9, 1), (2, 7, 2), (1, 8, 3)):
        tokens = random(4, before + count, 6, seed=seed) + 0.3
        tokens[:, 0] *= 20
        tokens[:, before + 2] *= 5
        tokens[1, -1] *= 30
        made = answer(tokens, count)
        told = f" ({before} before {count} patches)"
        if made is None:
            yield "ratio" + told, None
            return
        is_stacked = isinstance(made, Tensor) and made.shape == (2, len(tokens))
        if not is_stacked and (not isinstance(made, tuple | list) or len(made) != 2):
            raise Mistake(
                "two results are needed, the ratio of each picture and the number of its patch,"
                f" and this is {describe(made)}."
            )
        ratio, where = made
        if _is_by_the_mean_of_two(tokens[:, -count:], ratio):
            ratio = my_outliers(tokens, count)[0]
        yield "ratio" + told, ratio
        yield "number of the patch" + told, where


def _is_by_the_mean_of_two(patches: Tensor, ratio: Any) -> bool:
    """Whether ratios are those with the mean of the two norms in the middle."""
    norms = patches.norm(dim=2)
    by_mean = norms.amax(dim=1) / norms.quantile(0.5, dim=1)
    is_like_it = isinstance(ratio, Tensor) and ratio.shape == by_mean.shape
    return is_like_it and ratio.dtype == by_mean.dtype and torch.allclose(ratio, by_mean)


def notice(answer: Any) -> Mistake | None:
    """What is found of three patches, of lengths 2, 10 and 4, behind a class token; behind two."""
    tokens = torch.tensor([[100.0, 0], [0, 2], [6, 8], [4, 0]])[None]
    ratio, where = answer(tokens, 3)
    told = float(ratio), float(where)
    if abs(told[0] - 2.5) > 1e-4 or told[1] != 1:
        known = _divided(answer) if told[1] == 1 else ""
        return Mistake(
            "Of a class token of length 100 and patches (0, 2), (6, 8), (4, 0) you give"
            f" {_both(*told)}.{known}",
            "The patches' lengths are 2, 10 and 4. The largest is 10, the median 4, so the ratio"
            " should be 2.5, and the patch number 1.",
        )
    more = torch.cat([tokens[:, :1], torch.tensor([[[0.0, 7.0]]]), tokens[:, 1:]], dim=1)
    ratio, where = answer(more, 3)
    told = float(ratio), float(where)
    if abs(told[0] - 2.5) > 1e-4 or told[1] != 1:
        return Mistake(
            "Of a class token and patches (0, 2), (6, 8), (4, 0) you give the ratio 2.5 and patch"
            " 1, which is right. With another token, of length 7, between the class token and the"
            f" patches you give {_both(*told)}.",
            "The patches are the last num_patches tokens: it should be 2.5 and patch 1 again.",
        )
    return None


def _both(ratio: float, where: float) -> str:
    """What is given, in words; of the two, one that is right is called so."""
    first = "the right ratio" if abs(ratio - 2.5) <= 1e-4 else f"the ratio {ratio:.4g}"
    return f"{first} and {'the right patch' if where == 1 else f'patch {where:g}'}"


def _divided(answer: Any) -> str:
    """What the largest length is divided by, if it is something that is known.

    It has to be so in three pictures together, too: it may depend on the other pictures.
    """
    candidates: dict[str, list[float]] = {
        "the mean length of the patches": [],
        "the mean length of all tokens": [],
        "the shortest of the patches": [],
        "the second longest of the patches": [],
        "the sum of the patches' lengths": [],
        "the mean length of the other patches": [],
        "the median of the other patches": [],
        "the length of the class token": [],
    }
    divisors = []
    pictures = []
    for lengths in ([100.0, 2, 10, 4, 5, 3], [50.0, 7, 1, 6, 20, 5], [80.0, 2, 3, 9, 30, 4]):
        every = torch.tensor(lengths)
        patches = every[1:].sort().values
        tokens = torch.stack([every, torch.zeros_like(every)], dim=1)[None]
        divisors.append(float(patches[-1] / answer(tokens, 5)[0]))
        pictures.append(tokens)
        values = (
            patches.mean(),
            every.mean(),
            patches[0],
            patches[-2],
            patches.sum(),
            patches[:-1].mean(),
            patches[:-1].median(),
            every[0],
        )
        for name, value in zip(candidates, values, strict=True):
            candidates[name].append(float(value))
    every_ratio, _ = answer(torch.cat(pictures), 5)
    largest = torch.tensor([10.0, 20, 30])
    together = (largest / torch.as_tensor(every_ratio).flatten()).tolist()
    name = fits(candidates, divisors) if fits(candidates, together) else ""
    return f" So you divide the largest by {name}." if name else ""


PATCHES, NORMS = "tokens[:, -num_patches:]", "patches.norm(dim=2)"
MIDDLE, END = "norms.median(dim=1).values", "return largest / middle, where"

SLIPS = (
    Slip(
        {PATCHES: "tokens"},
        "take all tokens, the class token too",
        "The patches are the last num_patches tokens",
    ),
    Slip(
        {PATCHES: "tokens[:, :num_patches]"},
        "take the first num_patches tokens",
        "The class token comes first; the patches are the last num_patches tokens",
    ),
    Slip(
        {PATCHES: "tokens[:, 1:]"},
        "take all tokens but the first",
        "There may be more than one token before the patches: take the last num_patches",
    ),
    Slip(
        {END: "return largest / middle, where + tokens.shape[1] - num_patches"},
        "count from the class token",
        "Patch 0 is the first patch",
    ),
    Slip(
        {END: "return largest / middle, norms.argmax()"},
        "look for one place over all pictures, argmax without dim",
        "Each picture has its own: argmax(dim=1)",
    ),
    Slip(
        {MIDDLE: "norms.mean(dim=1)"},
        "divide by the mean",
        "An outlier moves the mean; divide by the median",
    ),
    Slip(
        {MIDDLE: "norms.sort(dim=1).values[:, num_patches // 2]"},
        "take the upper of the two norms in the middle where their number is even",
        "The lower one is asked for, as torch.median takes it; the mean of the two is right, too",
    ),
    Slip(
        {MIDDLE: "norms.topk(2, dim=1).values[:, 1]"},
        "divide by the second-largest norm",
        "A second outlier is large, too; divide by the median, median(dim=1).values",
    ),
    Slip(
        {MIDDLE: "norms.median()"},
        "take one median over all pictures",
        "Each picture has its own: median(dim=1).values",
    ),
    Slip(
        {NORMS: "patches.square().sum(dim=2)"},
        "leave out the root: take each token's sum of squares",
        "The norm of a token is the root of its sum of squares",
    ),
    Slip(
        {NORMS: "patches"},
        "take each number of the patches for itself, without the norm",
        "A token has one norm: patches.norm(dim=2), (n, num_patches)",
    ),
    Slip(
        {NORMS: "patches.abs().sum(dim=2)"},
        "add up the absolute values",
        "The norm of a token is the root of its sum of squares",
    ),
    Slip(
        {NORMS: "patches.abs().amax(dim=2)"},
        "take each token's largest absolute value",
        "The norm of a token is the root of its sum of squares",
    ),
    Slip(
        {END: "return largest, where"},
        "return the largest norm itself",
        "It is to be divided by the median",
    ),
    Slip(
        {END: "return largest - middle, where"},
        "subtract the median",
        "Divide by it, so that the scale of the tokens plays no part",
    ),
    Slip(
        {MIDDLE: "tokens.norm(dim=2).median(dim=1).values"},
        "take the median of all tokens, the class token too",
        "It is that of the patches' norms",
    ),
    Slip(
        {"largest, where = norms.max(dim=1)": "largest, where = norms.min(dim=1)"},
        "look for the shortest patch",
        "An outlier is much longer than the others: max(dim=1)",
    ),
    Slip(
        {NORMS: "patches.sum(dim=2).abs()"},
        "add up the numbers of a token, and take the absolute value of the sum",
        "The norm of a token is the root of its sum of squares",
    ),
    Slip(
        {PATCHES: "tokens[:, -num_patches:-1]"},
        "leave out the last patch, as -num_patches:-1 does",
        "The last num_patches tokens are tokens[:, -num_patches:]",
    ),
    Slip(
        {
            MIDDLE: "norms.median(dim=1).values",
            "largest, where = norms.max(dim=1)": (
                "norms = norms.sort(dim=1).values\n    largest, where = norms.max(dim=1)"
            ),
        },
        "number the patches after sorting",
        "The number of a patch is its place in the picture: argmax(dim=1) before you sort",
    ),
    Slip(
        {PATCHES: "tokens[:, num_patches:]"},
        "take the tokens from number num_patches on",
        "The patches are the last num_patches tokens: tokens[:, -num_patches:]",
    ),
    Slip(
        {END: "return middle / largest, where"},
        "divide the median by the largest",
        "The largest is divided by the median",
    ),
    Slip(
        {END: "return largest / middle, norms.median(dim=1).indices"},
        "give the number of the patch that has the median",
        "The patch with the largest norm is asked for: argmax(dim=1)",
    ),
    Slip(
        {NORMS: "patches.std(dim=2)"},
        "take the standard deviation of each token's numbers",
        "The norm of a token is the root of its sum of squares, with no mean subtracted",
    ),
    Slip(
        {NORMS: "patches.norm(dim=1)"},
        "take norms over the tokens",
        "Each token has one: over its own numbers, dim=2",
    ),
    Slip(
        {END: "return largest.max() / middle, where"},
        "take the largest norm of all pictures",
        "Each picture has its own: max(dim=1)",
    ),
)

EXERCISE = Exercise(
    answer=my_outliers,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Which tokens are patches? One norm for each of them; then one largest and one median"
            " for each picture."
        ),
        (
            "tokens[:, -num_patches:] are the patches, .norm(dim=2) their norms, (n, num_patches)."
            " max(dim=1) returns the largest and its place, median(dim=1).values the median."
        ),
    ),
    same=(
        {NORMS: "patches.square().sum(dim=-1).sqrt()"},
        {MIDDLE: "norms.quantile(0.5, dim=1)"},
    ),
)
