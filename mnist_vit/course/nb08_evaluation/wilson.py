"""Exercise: Wilson's interval, where the true accuracy lies given so many right of so many (Wilson
1927)."""

import math
from collections.abc import Iterator
from typing import Any

from ..checking import Exercise, Slip


def my_wilson(correct, total, z=1.96):
    """Both ends of the interval, as shares from 0 to 1, the lower one first."""
    share = correct / total
    below = 1 + z * z / total
    shift = z * z / (2 * total)
    variance = share * (1 - share) / total + z * z / (4 * total * total)
    middle = (share + shift) / below
    reach = z * math.sqrt(variance) / below
    return middle - reach, middle + reach


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for correct, total, z in (
        (8, 10, 1.96),
        (4945, 5000, 1.96),
        (10, 10, 1.96),
        (0, 4, 1.96),
        (90, 100, 2.576),
    ):
        got: Any = answer(correct, total, z)
        if hasattr(got, "tolist"):  # a tensor or an array
            got = got.tolist()
        what = f"{correct} of {total}" + (f" and z = {z}" if z != 1.96 else "")
        yield f"interval for {what}", got


SHARE, BELOW, SHIFT = (
    "share = correct / total",
    "below = 1 + z * z / total",
    "shift = z * z / (2 * total)",
)
MORE, END = " + z * z / (4 * total * total)", "return middle - reach, middle + reach"
MIDDLE, REACH = "middle = (share + shift) / below", "reach = z * math.sqrt(variance) / below"
PLAIN = {BELOW: "below = 1", SHIFT: "shift = 0", MORE: ""}

SLIPS = (
    Slip(
        PLAIN,
        "leave out all three terms with z²",
        "That is the plain interval: for 8 of 10 it ends above 1, for 10 of 10 it has no width."
        " Wilson's terms mend that",
    ),
    Slip(
        {**PLAIN, END: "return max(0.0, middle - reach), min(1.0, middle + reach)"},
        "take the plain interval, without the terms with z², and cut it off at 0 and 1",
        "Wilson's needs no cutting",
    ),
    Slip(
        {BELOW: "below = 1"}, "leave out the denominator", "Divide middle and reach by 1 + z² / n"
    ),
    Slip(
        {MIDDLE: "middle = share + shift"},
        "divide the reach alone by 1 + z² / n",
        "The denominator is under the middle, too: parentheses around it",
    ),
    Slip(
        {REACH: "reach = z * math.sqrt(variance)"},
        "divide the middle alone by 1 + z² / n",
        "The denominator is under the reach, too",
    ),
    Slip(
        {SHIFT: "shift = 0"},
        "leave out z² / 2n in the numerator",
        "It moves the middle towards one half",
    ),
    Slip(
        {SHIFT: "shift = z * z / total"},
        "add z² / n in the numerator",
        "It is half of that: z² / 2n",
    ),
    Slip(
        {SHIFT: "shift = z * z / 2 * total"},
        "write z * z / 2 * n, which multiplies by n",
        "Put 2 * n into parentheses",
    ),
    Slip(
        {MORE: " + z * z / (4 * total)"},
        "write z² / 4n under the root",
        "It is n squared there: z² / 4n²",
    ),
    Slip(
        {MORE: " + z * z / 4 * total * total"},
        "write z * z / 4 * n * n, which multiplies by n²",
        "Put 4 * n * n into parentheses",
    ),
    Slip(
        {MORE: ""},
        "leave out z² / 4n² under the root",
        "Without it the interval has no width at 10 of 10",
    ),
    Slip(
        {REACH: "reach = math.sqrt(variance) / below"},
        "leave out z in front of the root",
        "The reach is z standard deviations",
    ),
    Slip(
        {REACH: "reach = z * variance / below"},
        "leave out the root",
        "What stands under it is a variance",
    ),
    Slip(
        {"share * (1 - share) / total": "share * (1 - share)"},
        "leave out the division by n under the root",
        "More images make the interval narrower: p (1 - p) / n",
    ),
    Slip(
        {SHARE: "share = (total - correct) / total"},
        "use the share of mistakes",
        "The share of right answers is correct / total",
    ),
    Slip(
        {END: "return 100 * (middle - reach), 100 * (middle + reach)"},
        "give percent",
        "Return shares, from 0 to 1",
    ),
    Slip(
        {END: "return middle + reach, middle - reach"},
        "return the upper end first",
        "The lower end comes first: return low, high",
    ),
    Slip(
        {END: "return middle, reach"},
        "return the middle and the reach",
        "Return the two ends: middle - reach, middle + reach",
    ),
    Slip({SHARE: f"z = 1.96\n    {SHARE}"}, "use 1.96 whatever z is", "Use the argument z"),
    Slip(
        {
            BELOW: "below = 1 + z / total",
            SHIFT: "shift = z / (2 * total)",
            MORE: " + z / (4 * total * total)",
        },
        "write z where z² belongs",
        "The equation was squared: z² / n, z² / 2n, z² / 4n²",
    ),
    Slip(
        {
            MIDDLE: "middle = share",
        },
        "put the interval around the share itself",
        "Its middle is (share + z² / 2n) / (1 + z² / n), nearer to one half",
    ),
    Slip(
        {END: "return math.ceil(100 * (middle - reach)) / 100, int(100 * (middle + reach)) / 100"},
        "search in steps of 0.01",
        "To 0.00001 is asked for: search in finer steps, or solve for p",
    ),
)

EXERCISE = Exercise(
    answer=my_wilson,
    compare=compare,
    stars=3,
    tolerance=1e-5,  # a search in steps of a millionth is right, too
    slips=SLIPS,
    hints=(
        (
            "The ends are the two shares p for which the distance is exactly z standard deviations."
            " Square both sides: that is a quadratic equation in p. Or let the computer search: try"
            " very many shares, and keep those that fit."
        ),
        (
            "With n images the equation is (1 + z²/n) p² − (2 share + z²/n) p + share² = 0. Its"
            " solutions are middle ± reach: middle = (share + z² / 2n) / (1 + z² / n); reach = z"
            " √(share (1 - share) / n + z² / 4n²) / (1 + z² / n). Or search: p = torch.linspace(0,"
            " 1, 1_000_001, dtype=torch.float64), and of those that fit the smallest and the"
            " largest."
        ),
    ),
    same=(
        {  # in counts: everything times n
            BELOW: "below = total + z * z",
            SHIFT: "shift = z * z / 2",
            "variance = share * (1 - share) / total + z * z / (4 * total * total)": (
                "variance = correct * (total - correct) / total + z * z / 4"
            ),
            MIDDLE: "middle = (correct + shift) / below",
        },
        {  # the terms of one sum after the other
            MIDDLE: "middle = share / below + shift / below",
            REACH: "reach = math.sqrt(z * z * variance) / below",
        },
    ),
)
