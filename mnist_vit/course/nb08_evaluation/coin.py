"""Exercise: how often a fair coin falls as unevenly as this, or more so: the exact binomial
test."""

import math
from collections.abc import Iterator
from typing import Any

from ..checking import Exercise, Mistake, Slip, fits


def my_coin(b, c):
    """The chance that a fair coin, tossed b + c times, falls at least as unevenly as b to c, either
    way."""
    n = b + c
    ways = 0
    for heads in range(n + 1):
        if abs(heads - (n - heads)) >= abs(b - c):
            ways += math.comb(n, heads)
    return ways / 2**n


CASES = (
    (3, 1),
    (4, 0),
    (0, 5),
    (2, 2),
    (0, 0),
    (9, 2),
    (30, 17),
    (7, 9),
    (212, 260),
    (0, 1),
    (400, 470),
    (620, 680),  # more tosses than a float takes: 2.0**1300 is too large, and 0.5**1300 is 0
)
LARGE = CASES[-1]


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    b, c = 21, 26
    twice = [answer(b, c), answer(b, c)]
    if all(isinstance(one, int | float) for one in twice) and twice[0] != twice[1]:
        raise Mistake(
            f"asked twice for {b} to {c}, you give {twice[0]:.4g} and {twice[1]:.4g}.",
            "The exact chance is asked for, no trial: add up the ways, math.comb, and divide by"
            " 2**n.",
        )
    for b, c in CASES:
        try:
            chance = answer(b, c)
        except ZeroDivisionError as error:
            if b + c:
                raise
            raise Mistake(
                "for 0 to 0 your code divides by zero.",
                "No outcome is less uneven than that: the chance should be 1.",
            ) from error
        yield f"chance of {b} to {c}, or more uneven", chance


def notice(answer: Any) -> Mistake | None:
    """What the chance is where b and c differ, and whether it is the same with the two
    exchanged."""
    cases = [(3, 1), (4, 0), (0, 5), (9, 2), (30, 17), (7, 9), (2, 8), (21, 26)]
    got = [float(answer(b, c)) for b, c in cases]
    candidates: dict[str, list[float]] = {}
    for b, c in cases:
        for name, value in _other_chances(b, c).items():
            candidates.setdefault(name, []).append(value)
    name = fits(candidates, got)
    if name:
        return Mistake(
            f"Where b and c differ, yours is {name}.",
            "Count every outcome at least as uneven as b to c, to whichever side, with the number"
            " of ways that lead to it.",
        )
    rights = [my_coin(b, c) for b, c in cases]
    far = [abs(own - right) for own, right in zip(got, rights, strict=True)]
    if max(far) < 1e-3:
        return _near(got, rights) or _even(answer) or _too_large(answer)
    if max(far) < 0.05 and float(answer(0, 60)) == 0:
        b, c = cases[far.index(max(far))]
        return Mistake(
            f"For {b} to {c} you give {got[cases.index((b, c))]:.4g}, and the chance is"
            f" {my_coin(b, c):.4g}; for 0 to 60 you give 0, and it is small, but not 0.",
            "The exact chance is asked for, no trial with random tosses: add up the ways,"
            " math.comb, and divide by 2**n.",
        )
    for b, c in cases:
        if abs(float(answer(b, c)) - float(answer(c, b))) > 1e-9:
            return Mistake(
                f"For {b} to {c} you give {float(answer(b, c)):.4g}, and for {c} to {b}"
                f" {float(answer(c, b)):.4g}.",
                "Heads and tails may be exchanged: how uneven an outcome is does not depend on the"
                " side.",
            )
    for (b, c), ways, told in (((4, 0), 2, "4 or 0"), ((3, 1), 10, "4, 3, 1 or 0")):
        if abs(got[cases.index((b, c))] - ways / 16) > 1e-9:
            return Mistake(
                f"For {b} to {c} you give {got[cases.index((b, c))]:.4g}.",
                f"Of the 16 ways in which four coins fall, {ways} are at least as uneven, those"
                f" with {told} heads: the chance should be {ways / 16:g}.",
            )
    return _even(answer) or _too_large(answer)


def _even(answer: Any) -> Mistake | None:
    """What the chance is where b and c are equal."""
    for b in (1, 2, 0):
        chance = float(answer(b, b))
        if not abs(chance - 1) <= 1e-9:  # nan is not 1 either
            return Mistake(
                f"For {b} to {b} you give {chance:.4g}.",
                "Every outcome is at least as uneven as that: the chance should be 1.",
            )
    return None


def _near(got: list[float], rights: list[float]) -> Mistake | None:
    """What is said of chances that are all near the right ones, and not equal."""
    if max(abs(own - right) for own, right in zip(got, rights, strict=True)) < 1e-6:
        return None
    for digits in (3, 4, 5):
        if all(abs(own - round(r, digits)) < 1e-9 for own, r in zip(got, rights, strict=True)):
            return Mistake(
                f"What you give is the right chance, rounded to {digits} decimals.",
                "Return it as it is: what is printed can be rounded later.",
            )
    return Mistake(
        "For small b and c what you give is near the right chance, by less than 0.001, and not"
        " equal to it.",
        "The exact chance is asked for: add up whole numbers, math.comb, and divide last. In"
        " float32 about seven digits are left of each number.",
    )


def _too_large(answer: Any) -> Mistake | None:
    """Of an answer that is right but for many tosses, where numbers may leave a float's range."""
    for b, c in CASES[:-1]:
        if not abs(float(answer(b, c)) - my_coin(b, c)) <= 1e-6:  # nor is nan
            return None
    b, c = LARGE
    chance = float(answer(b, c))
    if abs(chance - my_coin(b, c)) <= 1e-6:
        return None
    said = (
        f"With fewer tosses what we tried is right. For {b} to {c}, {b + c:,} tosses, you give"
        f" {chance:.4g}, and the chance is {my_coin(b, c):.4g}."
    )
    if chance != 0 and math.isfinite(chance):
        return Mistake(said, "The exact chance is asked for, however many tosses there are.")
    return Mistake(
        said,
        "A float ends near 1.8e308 above, and below 5e-324 it is 0, as 0.5**1300 is. Whole numbers"
        " do not end: add up the ways in them, and divide last. Or add up logarithms.",
    )


def _other_chances(b: int, c: int) -> dict[str, float]:
    """Chances that are not asked for, by name."""
    n, more = b + c, max(b, c)
    exact = math.comb(n, b) / 2**n
    tail = sum(math.comb(n, k) for k in range(more, n + 1)) / 2**n
    far = abs(b - c) / math.sqrt(n)
    near = max(abs(b - c) - 1, 0) / math.sqrt(n)
    return {
        "the chance of exactly b heads": exact,
        "twice the chance of exactly b heads": 2 * exact,
        "the chance of one side only": tail,
        "half of the chance of one side": tail / 2,
        "the chance of what is more uneven, without b to c itself": 2 * (tail - exact),
        "one side's chance of what is more uneven, without b to c itself": tail - exact,
        "the chance of what is less uneven": 1 - 2 * tail,
        "the chance of what is at most as uneven": 1 - 2 * (tail - exact),
        "the chance of at most as many on one side": 1 - (tail - exact),
        "the chance of fewer on one side": 1 - tail,
        "the bell curve's chance": math.erfc(far / math.sqrt(2)),
        "the bell curve's chance of one side": math.erfc(far / math.sqrt(2)) / 2,
        "the bell curve's chance, corrected by one": math.erfc(near / math.sqrt(2)),
        "four times the chance of one side": 4 * tail,
        "the share of outcomes, as if 0 to n heads were equally likely": (2 * (n - more) + 2)
        / (n + 1),
    }


IF, ADD, END = (
    "abs(heads - (n - heads)) >= abs(b - c)",
    "ways += math.comb(n, heads)",
    "return ways / 2**n",
)

SLIPS = (
    Slip(
        {IF: "heads == b"},
        "take the chance of exactly this outcome",
        "The more uneven ones count, too, to whichever side",
    ),
    Slip(
        {IF: "heads == b or heads == c"},
        "take this outcome, either way, alone",
        "All outcomes that are more uneven count, too",
    ),
    Slip(
        {IF: "heads >= max(b, c)"},
        "count one side only",
        "A coin that falls as unevenly the other way would surprise you as much",
    ),
    Slip(
        {IF: "heads >= b"},
        "count the outcomes with at least b heads, whichever side is the larger one",
        "Compare how uneven an outcome is, abs(heads - tails), with abs(b - c)",
    ),
    Slip(
        {IF: "abs(heads - (n - heads)) > abs(b - c)"},
        "leave out the outcomes that are exactly as uneven",
        "Outcomes count that are as uneven *or* more so",
    ),
    Slip(
        {IF: "abs(heads - n // 2) >= abs(b - n // 2)"},
        "take n // 2 for the middle",
        "Of an odd number of tosses the middle is no whole number: compare abs(heads - tails)",
    ),
    Slip(
        {IF: "abs(heads - n // 2) >= abs(c - n // 2)"},
        "take n // 2 for the middle, and begin with c",
        "Of an odd number of tosses the middle is no whole number: compare abs(heads - tails)",
    ),
    Slip(
        {IF: "abs(heads - n // 2) > abs(b - n // 2)"},
        "take n // 2 for the middle, and leave out what is exactly as far from it",
        "Of an odd number of tosses the middle is no whole number: compare abs(heads - tails)",
    ),
    Slip(
        {IF: "abs(heads - (n - heads)) <= abs(b - c)"},
        "add up the outcomes that are as uneven or *less* so",
        "Those that are as uneven as this one or more so are wanted",
    ),
    Slip(
        {IF: "heads >= max(b, c)", END: "return 2 * ways / 2**n"},
        "double one side, also for b = c, where the middle outcome belongs to both",
        "That gives a chance above 1. For b = c it is 1",
    ),
    Slip(
        {
            IF: "heads >= max(b, c)",
            END: "return min(1.0, 2 * ways / 2**n) if b != c else 2 * math.comb(n, b) / 2**n",
        },
        "count the middle outcome twice and nothing else where b = c",
        "There every outcome is at least as uneven",
    ),
    Slip(
        {ADD: "ways += 1", END: "return ways / (n + 1)"},
        "treat all outcomes as equally likely",
        "Of 4 tosses one way leads to 4 heads, and six ways lead to 2: math.comb",
    ),
    Slip(
        {END: "return ways / 2 * n"},
        "multiply by n / 2, as ways / 2 * n does",
        ("Each toss doubles the number of ways: ways / 2**n"),
    ),
    Slip(
        {END: "return 1 - ways / 2**n"},
        "return the chance of everything less uneven",
        "The chance of the rest is wanted",
    ),
    Slip(
        {END: "return ways"},
        "return the number of ways",
        "Divide it by how many there are in all, 2**n",
    ),
    Slip({END: "return 100 * ways / 2**n"}, "give percent", "A share from 0 to 1 is wanted"),
    Slip(
        {"return ways / 2**n": "return math.erfc(abs(b - c) / math.sqrt(2 * max(n, 1)))"},
        "take the bell curve",
        "That is an approximation, and with few tosses a poor one: count the outcomes",
    ),
    Slip(
        {IF: "heads >= b", END: "return min(1.0, 2 * ways / 2**n)"},
        "double the chance of at least b heads, also where b is the smaller one",
        "Begin with the larger of the two, max(b, c)",
    ),
    Slip(
        {IF: "heads <= b", END: "return min(1.0, 2 * ways / 2**n)"},
        "double the chance of at most b heads, also where b is the larger one",
        "Count up to the smaller of the two, heads <= min(b, c)",
    ),
    Slip(
        {"range(n + 1)": "range(n)"},
        "leave out n heads, as range(n) does, or 0 heads, as range(1, n + 1) does",
        "There are n + 1 outcomes, 0 to n heads: range(n + 1)",
    ),
)

EXERCISE = Exercise(
    answer=my_coin,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "With n tosses there are 2**n ways to fall, all equally likely. How many of them have a"
            " given number of heads? And which numbers of heads are at least as uneven as b to c?"
        ),
        (
            "math.comb(n, heads) ways have that many heads. Go through heads = 0 … n, add up the"
            " ways where abs(heads - (n - heads)) is at least abs(b - c), and divide by 2**n."
        ),
    ),
    same=(
        {IF: "min(heads, n - heads) <= min(b, c)"},
        {END: "return ways / (1 << n)"},
    ),
)
