"""Exercise: when a difference between runs with several seeds is one."""

import random
import statistics  # noqa: F401, some slips take it
from collections.abc import Iterator
from typing import Any

import torch  # noqa: F401, one slip takes it

from ..checking import Exercise, Mistake, Slip, describe


def my_compare_runs(base: list[float], variant: list[float]) -> str:
    "Returns better, worse or unclear: how the variant does, compared with the base."
    difference = sum(variant) / len(variant) - sum(base) / len(base)
    # How far apart runs are that differ in nothing but the seed.
    spread = max(max(base) - min(base), max(variant) - min(variant))
    if abs(difference) <= spread:
        return "unclear"
    return "better" if difference > 0 else "worse"


PAIRS: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = (
    ((89, 90, 91), (94, 95, 96)),  # plain
    ((90, 84, 91), (95, 89, 94)),  # in no order
    ((91, 84, 90), (96, 89, 95)),
    ((89, 90, 91), (84, 85, 86)),
    ((89, 90, 91), (90, 91, 92)),  # less than the spread
    ((89, 90, 91), (88.5, 89.5, 90.5)),
    ((90, 90.5, 91), (88, 93, 98)),  # the variant varies
    ((85, 90, 95), (94, 94, 94)),  # the base varies
    ((94, 94, 94), (85, 90, 95)),
    ((90, 90, 91), (80, 81, 92)),  # the best run is better, the mean is not
    ((90, 91, 91), (91.8, 91.8, 91.9)),  # the best runs are nearer than the means
    ((89, 90, 91), (90.5, 91.5, 92.5)),  # more than a standard deviation
    ((80, 85, 89), (90, 90, 91)),  # all runs above, and yet
    ((80, 80, 84), (83.5, 88, 88)),  # not all runs above, and yet
    ((88, 90, 92), (94, 95, 99)),  # more than the larger spread, less than both
    ((90, 90, 92), (91.7, 91.7, 91.9)),  # between half of the spread and the standard deviation
    ((89, 90, 91), (89.9, 90.9, 91.9)),  # between the two kinds of standard deviation
    ((89, 91), (89.5, 90, 90.5, 91)),  # not as many runs of one as of the other
    ((90, 91), (92, 92, 94, 94, 94, 94)),  # the same, and the first ones are nearer than the means
    ((93, 94, 95, 96), (80, 82)),
    ((90, 90, 90, 91), (91.2, 91.2, 91.2, 91.2)),  # four of each
    ((90, 92), (93, 93)),  # exactly as much as the spread
    ((93, 93), (92, 90)),
)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    given = [
        answer([float(run) for run in base], [float(run) for run in variant])
        for base, variant in PAIRS
    ]
    if all(one is None for one in given):
        yield "verdict", None
        return
    for one, (base, variant) in zip(given, PAIRS, strict=True):
        if not isinstance(one, str) or one not in ("better", "worse", "unclear"):
            raise Mistake(
                f"for base {_listed(base)} and variant {_listed(variant)} what comes back is"
                f" {'None' if one is None else describe(one)}.",
                'It must be one of the words "better", "worse" and "unclear", whichever way your'
                " function takes to its end.",
            )
    shown = (f"base {_listed(base)} and variant {_listed(variant)}" for base, variant in PAIRS)
    yield "the verdict", dict(zip(shown, given, strict=True))


def _listed(runs: tuple[float, ...]) -> str:
    return ", ".join(f"{run:g}" for run in runs)


def notice(answer: Any) -> Mistake | None:
    """Which words are exchanged, whether the order matters, and where the border lies."""
    low, high = [89.0, 90.0, 91.0], [94.0, 95.0, 96.0]
    for first, second, right in ((low, high, "better"), (high, low, "worse")):
        found = answer(list(first), list(second))
        if found != right:
            return Mistake(
                f"For the base {_listed(tuple(first))} and the variant {_listed(tuple(second))} you"
                f' say "{found}".',
                "The means are 5 points apart, and both spreads are 2: the variant is"
                f' "{right}" than the base.',
            )
    for base, variant in PAIRS:
        plain = answer(list(base), list(variant))
        turned = answer(sorted(base), sorted(variant, reverse=True))
        if turned != plain:
            return Mistake(
                "Your verdict depends on the order of the runs: for the base"
                f" {_listed(base)} and the variant {_listed(variant)} it is another one when the"
                " base is sorted upwards and the variant downwards.",
                "Nothing that counts depends on the order: the spread is max(…) - min(…), and the"
                " mean is that of all runs of a list.",
            )
    return _noticed_border(answer) or _noticed_means(answer)


def _noticed_border(answer: Any) -> Mistake | None:
    """How far apart the means must be, for spreads of 4 and 1, of 1 and 4, and of 4 and 4."""
    for ours, theirs in ((4, 1), (1, 4), (4, 4)):
        for sign, word in ((1, "better"), (-1, "worse")):
            border = _border(answer, ours, theirs, sign, word)
            if border != 4.25:
                first = "never, up to 10" if border is None else f"first at {border:g}"
                if border is not None and border == _border(
                    answer, ours / 2, theirs / 2, sign, word
                ):
                    first += ", and with spreads half as large, too"
                return Mistake(
                    f"With spreads of {ours} (base) and {theirs} (variant), and means that differ"
                    f' by 0, 0.25, 0.5, … points, you say "{word}" {first}.',
                    "The means must differ by more than the larger spread, 4: the first such"
                    " difference is 4.25.",
                )
    return None


def _border(answer: Any, ours: float, theirs: float, sign: int, word: str) -> float | None:
    """The first difference of the means, in quarters up to 10, for which the word is said."""
    for quarter in range(41):
        far = sign * quarter / 4
        base = [50 - ours / 2, 50.0, 50 + ours / 2]
        variant = [50 + far - theirs / 2, 50 + far, 50 + far + theirs / 2]
        if answer(base, variant) == word:
            return quarter / 4
    return None


def _noticed_means(answer: Any) -> Mistake | None:
    """Whether the means are compared: three runs of the variant, two of them alike."""
    for base, variant in PAIRS:
        right, found = my_compare_runs(list(base), list(variant)), answer(list(base), list(variant))
        if found != right:
            means = sum(base) / len(base), sum(variant) / len(variant)
            spreads = max(base) - min(base), max(variant) - min(variant)
            return Mistake(
                "With three evenly spaced runs of each, all that we tried is right. For the base"
                f' {_listed(base)} and the variant {_listed(variant)} you say "{found}".',
                f"The means are {means[0]:.4g} and {means[1]:.4g}, the spreads {spreads[0]:.3g} and"
                f' {spreads[1]:.3g}: it should be "{right}".',
            )
    return None


def more(answer: Any) -> list[str]:
    """The verdicts on many more runs."""
    draw = random.Random(0)
    seen = []
    for _ in range(300):
        mean = draw.choice((3, 90))
        base = _runs(draw, mean)
        variant = _runs(draw, mean + draw.uniform(-5, 5))
        seen.append(answer(base, variant))
    return seen


def _runs(draw: random.Random, mean: float) -> list[float]:
    """Two to five accuracies around a mean, with a spread of their own."""
    spread = draw.choice((0.3, 1.0, 3.0))
    return [mean + spread * draw.gauss(0, 1) for _ in range(draw.randint(2, 5))]


DIFFERENCE = "sum(variant) / len(variant) - sum(base) / len(base)"
SPREAD = "max(max(base) - min(base), max(variant) - min(variant))"
END = 'return "better" if difference > 0'

SLIPS = (
    Slip(
        {DIFFERENCE: "(torch.tensor(variant) - torch.tensor(base)).mean().item()"},
        "pair the runs of the two lists",
        "The lists may have different lengths, and run 0 of one has nothing to do with run 0 of the"
        " other: take the mean of each list by itself",
    ),
    Slip(
        {SPREAD: "0"},
        "compare the means and nothing else",
        (
            "With other seeds the other mean may be the larger one: the means must differ by more"
            " than the larger spread"
        ),
    ),
    Slip(
        {DIFFERENCE: "max(variant) - max(base)"},
        "compare the difference of the best runs with the spread",
        "The luckiest seed says little; take the difference of the means",
    ),
    Slip(
        {DIFFERENCE: "max(variant) - max(base)", SPREAD: "0"},
        "compare the best runs and nothing else",
        "The luckiest seed says little; compare the difference of the means with the larger spread",
    ),
    Slip(
        {"abs(difference)": "difference"},
        'never say "worse"',
        (
            "Where the variant's mean is below the base's by more than the larger spread, the"
            ' word is "worse"'
        ),
    ),
    Slip(
        {END: 'return "better" if difference < 0'},
        "subtract the wrong way round",
        (
            'Where the means differ by more than the spread, it is "better" if the variant\'s'
            ' mean is the larger one, else "worse"'
        ),
    ),
    Slip(
        {SPREAD: "min(max(base) - min(base), max(variant) - min(variant))"},
        "take the smaller of the two spreads",
        "The runs that vary more decide how far chance goes",
    ),
    Slip(
        {SPREAD: "max(base) - min(base)"},
        "look at the spread of the base only",
        "The variant's runs vary, too: take the larger of the two spreads",
    ),
    Slip(
        {SPREAD: "max(variant) - min(variant)"},
        "look at the spread of the variant only",
        "The base's runs vary, too: take the larger of the two spreads",
    ),
    Slip(
        {SPREAD: "max(statistics.stdev(base), statistics.stdev(variant))"},
        "take the standard deviation for the spread",
        "Here it is the largest minus the smallest",
    ),
    Slip(
        {SPREAD: "max(statistics.pstdev(base), statistics.pstdev(variant))"},
        "take the standard deviation of numpy's std, over n, for the spread",
        "Here it is the largest minus the smallest",
    ),
    Slip(
        {SPREAD: f"{SPREAD} / 2"},
        "take half of the spread",
        "The means must differ by more than the whole spread, the largest minus the smallest",
    ),
    Slip(
        {DIFFERENCE: "statistics.median(variant) - statistics.median(base)"},
        "compare the medians",
        "Compare the means",
    ),
    Slip(
        {SPREAD: "max(base) - min(base) + max(variant) - min(variant)"},
        "add the two spreads",
        "The larger one is asked for",
    ),
    Slip(
        {SPREAD: "(max(base) - min(base) + max(variant) - min(variant)) / 2"},
        "take the mean of the two spreads",
        "The larger one is asked for",
    ),
    Slip(
        {SPREAD: "max(base + variant) - min(base + variant)"},
        (
            "take the spread of all runs together, which is never smaller than the difference of"
            " the means"
        ),
        "Take the spread of each list by itself, and compare with the larger of the two",
    ),
    Slip(
        {"abs(difference) <= spread": "max(base) >= min(variant) and max(variant) >= min(base)"},
        "ask whether the runs overlap",
        "Compare the difference of the means with the larger spread",
    ),
    Slip(
        {
            "sum(variant) / len(variant) - sum(base) / len(base)": (
                "(sum(variant) - sum(base)) / len(base)"
            )
        },
        "divide both sums by the number of the base's runs",
        "The lists may have different lengths: divide each sum by the length of its own list",
    ),
    Slip(
        {
            "sum(variant) / len(variant) - sum(base) / len(base)": (
                "(sum(variant) - sum(base)) / len(variant)"
            )
        },
        "divide both sums by the number of the variant's runs",
        "The lists may have different lengths: divide each sum by the length of its own list",
    ),
    Slip(
        {DIFFERENCE: "sum(variant) / 3 - sum(base) / 3"},
        "divide by 3",
        "There need not be three runs. Divide each sum by how many there are, len(…)",
    ),
    Slip(
        {DIFFERENCE: "sum(v - b for b, v in zip(base, variant)) / min(len(base), len(variant))"},
        "take the runs in pairs, so that those without a partner are lost",
        "Take each mean over all runs of its own list",
    ),
    Slip(
        {"abs(difference) <= spread": "abs(difference) < spread"},
        "call a difference real that is exactly as large as the spread",
        "It must be larger",
    ),
    Slip(
        {
            "abs(difference) <= spread": "difference == spread",
            END: 'return "better" if difference > spread',
        },
        'say "worse" wherever the difference is below the spread, without the minus',
        'It is "worse" below -spread; from -spread to spread it is "unclear"',
    ),
    Slip(
        {
            "abs(difference) <= spread": "difference == -spread",
            END: 'return "better" if difference > -spread',
        },
        'say "better" wherever the difference is above -spread',
        'It is "better" above spread; from -spread to spread it is "unclear"',
    ),
    Slip(
        {
            "abs(difference) <= spread": "False",
            END: 'return "better" if difference > spread',
        },
        'say "worse" wherever you do not say "better"',
        'It is "worse" below -spread; from -spread to spread it is "unclear"',
    ),
    Slip(
        {
            "abs(difference) <= spread": "False",
            END: 'return "better" if difference >= -spread',
        },
        'say "better" wherever you do not say "worse"',
        'It is "better" above spread; from -spread to spread it is "unclear"',
    ),
    Slip(
        {DIFFERENCE: f"100 * ({DIFFERENCE}) / (sum(base) / len(base))"},
        "divide the difference of the means by the base's mean",
        "Both the difference and the spreads are in percentage points already: compare them as they"
        " are",
    ),
    Slip(
        {DIFFERENCE: "(max(variant) + min(variant)) / 2 - (max(base) + min(base)) / 2"},
        "take the middle between the best and the worst run for the mean",
        "The mean is sum(…) / len(…)",
    ),
    Slip(
        {"abs(difference) <= spread": "0 <= difference <= spread"},
        "call every variant with a lower mean worse",
        "There, too, the means must differ by more than the larger spread",
    ),
    Slip(
        {SPREAD: "max(abs(base[-1] - base[0]), abs(variant[-1] - variant[0]))"},
        "take the last run minus the first for the spread",
        "The runs are in no order: max(…) - min(…)",
    ),
)

EXERCISE = Exercise(
    answer=my_compare_runs,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Two numbers decide: how far the means are apart, and how far runs that differ only in"
            " the seed are apart."
        ),
        (
            "The mean of the runs is sum(base) / len(base). spread = max(max(base) - min(base),"
            " max(variant) - min(variant)). If the difference of the means is not larger than that,"
            " either way, say so."
        ),
    ),
    same=({"abs(difference) <= spread": "-spread <= difference <= spread"},),
)
