"""Exercise: Wilson's interval, where the true accuracy lies given so many right of so many (Wilson
1927)."""

import math
from collections.abc import Iterator
from typing import Any

from ..checking import Exercise, Mistake, Slip, fits


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


def notice(answer: Any) -> Mistake | None:
    """The middle and the reach of the interval, where nothing is cut off at 0 or 1."""
    cases = [(8, 10, 1.0), (90, 200, 2.0), (40, 50, 1.5), (300, 1000, 3.0)]
    pairs = []
    for case in cases:
        made = answer(*case)
        if isinstance(made, int | float):
            return _noticed_number(made, *case)
        low, high = made
        pairs.append((float(low), float(high)))
    middles: dict[str, list[float]] = {}
    reaches: dict[str, list[float]] = {}
    for case in cases:
        for name, value in _other_middles(*case).items():
            middles.setdefault(name, []).append(value)
        for name, value in _other_reaches(*case).items():
            reaches.setdefault(name, []).append(value)
    first = [low for low, _ in pairs]
    if fits({RIGHT: middles[RIGHT]}, first):
        return Mistake(
            "The first of your numbers is the middle of the interval.",
            "Its two ends are asked for: middle - reach and middle + reach.",
        )
    if (
        seen := _one_number(answer)
        or _of_one_z(answer)
        or _in_steps(cases, pairs)
        or _one_end(cases, pairs)
    ):
        return seen
    middle = fits(middles, [(low + high) / 2 for low, high in pairs])
    reach = fits(reaches, [(high - low) / 2 for low, high in pairs])
    if middle == RIGHT and reach == RIGHT:
        return None
    said = [_side("middle", middle), _side("reach, half of the interval's length,", reach)]
    where = "Of your interval, where no end is cut off at 0 or 1,"
    if not (middle and reach) and (seen := _unequal(cases, pairs)):
        known = said[0] if middle else said[1]
        return Mistake(f"{where} {known}. {seen.said}", seen.instead) if middle or reach else seen
    return Mistake(
        f"{where} {said[0]}, and {said[1]}.",
        _instead(middle, reach),
    )


def _noticed_number(made: float, correct: int, total: int, z: float) -> Mistake:
    """What is said where one number comes back."""
    low, high = my_wilson(correct, total, z)
    known = {"lower end": low, "upper end": high, "middle": (low + high) / 2}
    known |= {"reach, half of its length": (high - low) / 2}
    said = "One number comes back."
    for name, value in known.items():
        if abs(made - value) < 1e-5:
            said = f"What comes back is one number, the interval's {name}."
    return Mistake(said, "Both ends are asked for, the lower one first: return low, high.")


def _one_number(answer: Any) -> Mistake | None:
    """What is said where an end is one number whatever was seen."""
    for end, place, seen in (
        ("lower", 0, ((80, 100), (90, 100), (950, 1000))),
        ("upper", 1, ((20, 100), (10, 100), (50, 1000))),
    ):
        found = {round(float(answer(*case, 1.96)[place]), 6) for case in seen}
        if len(found) > 1:
            continue
        told = ", ".join(f"{correct} of {total}" for correct, total in seen)
        rights = ", ".join(f"{my_wilson(*case)[place]:.4g}" for case in seen)
        return Mistake(
            f"Your {end} end of {told} is {found.pop():g} each time.",
            f"It should be {rights}. Both ends may lie below 0.5, or above: a search for the lower"
            " one goes from 0 to the seen share, for the upper one from there to 1.",
        )
    return None


def _of_one_z(answer: Any) -> Mistake | None:
    """What is said where the interval is right for z = 1.96, and for no other z."""
    for z in (1.96, 1.0, 2.0, 3.0):
        for correct, total in ((8, 10), (90, 200), (300, 1000)):
            pair = [float(end) for end in answer(correct, total, z)]
            right = my_wilson(correct, total, z)
            is_right = all(abs(own - end) < 1e-5 for own, end in zip(pair, right, strict=True))
            if is_right != (z == 1.96):
                return None
    return Mistake(
        "Your interval is right for z = 1.96, and not for z = 1, 2 and 3.",
        "z is an argument: write z, and z * z, wherever a fixed number such as 1.96, 3.84 or 3.8416"
        " stands for it.",
    )


def _in_steps(
    cases: list[tuple[int, int, float]], pairs: list[tuple[float, float]]
) -> Mistake | None:
    """What is said where all ends are near, and multiples of one step that is too large."""
    for step in (0.01, 0.001, 0.0001):
        near = [
            abs(own - right) <= 1.01 * step and abs(own / step - round(own / step)) < 1e-4
            for case, pair in zip(cases, pairs, strict=True)
            for own, right in zip(pair, my_wilson(*case), strict=True)
        ]
        if all(near):
            return Mistake(
                f"All ends that you give are multiples of {step:g}, each next to the right one.",
                "To 0.00001 is asked for: do not round; search in finer steps, or solve for p.",
            )
    return None


def _unequal(
    cases: list[tuple[int, int, float]], pairs: list[tuple[float, float]]
) -> Mistake | None:
    """What the equation says of the first end that does not solve it."""
    for (correct, total, z), pair in zip(cases, pairs, strict=True):
        rights = my_wilson(correct, total, z)
        for end, p, right in zip(("lower", "upper"), pair, rights, strict=True):
            where = f"For {correct} of {total}, with z = {z:g}, your {end} end p = {p:.4g}"
            if not 0 <= p <= 1:
                return Mistake(f"{where} is no share from 0 to 1. {EQUATION}", SOLVE)
            distance, deviations = abs(p - correct / total), z * math.sqrt(p * (1 - p) / total)
            if abs(p - right) < 1e-5 or abs(distance - deviations) < 1e-6:
                continue
            digits = 3
            while f"{distance:.{digits}g}" == f"{deviations:.{digits}g}":
                digits += 1
            return Mistake(
                f"{where} is {distance:.{digits}g} from the seen share {correct / total:g}, and"
                f" z √(p (1 − p) / n) is {deviations:.{digits}g}: at an end the two must be equal.",
                SOLVE,
            )
    return None


def _one_end(
    cases: list[tuple[int, int, float]], pairs: list[tuple[float, float]]
) -> Mistake | None:
    """What is said where one of the two ends is right in all cases."""
    rights = [my_wilson(*case) for case in cases]
    for place, (name, other) in enumerate((("lower", "upper"), ("upper", "lower"))):
        if not fits({name: [one[place] for one in rights]}, [pair[place] for pair in pairs]):
            continue
        own, wanted = pairs[0][1 - place], rights[0][1 - place]
        if abs(own - wanted) < 1e-5:
            continue
        mirrored = []
        for case, pair in zip(cases, pairs, strict=True):
            mirrored.append(min(max(2 * case[0] / case[1] - pair[place], 0.0), 1.0))
        said = f"In four further cases your {name} end is right, and your {other} end is not: for 8"
        said += f" of 10, with z = 1, your {other} end is {own:.4g}."
        if fits({other: mirrored}, [pair[1 - place] for pair in pairs]):
            said += f" It lies as far from the seen share as the {name} end, on the other side."
            return Mistake(
                said,
                f"It should be {wanted:.4g}: each end solves the equation by itself, and the two"
                " lie at different distances from the seen share.",
            )
        return Mistake(said, f"It should be {wanted:.4g}: both ends solve the same equation.")
    return None


def _side(what: str, name: str) -> str:
    """What is known of the middle or of the reach."""
    if name == RIGHT:
        return f"the {what} is right"
    return f"the {what} is {name}" if name else f"the {what} is not right"


def _instead(middle: str, reach: str) -> str:
    told = "With n images and the seen share s"
    if middle != RIGHT:
        told += " the middle should be (s + z² / (2n)) / (1 + z² / n)"
    if reach != RIGHT:
        told += ", and" if middle != RIGHT else ""
        told += " the reach should be z √(s (1 − s) / n + z² / (4n²)) / (1 + z² / n)"
    return f"{told}. Or let the computer search, as the exercise says."


RIGHT = "right"
EQUATION = "An end is a p that is z √(p (1 − p) / n) from the seen share."
SOLVE = "Solve this equation for p; or search for the two p at which it holds, to 0.00001."


def _other_middles(correct: int, total: int, z: float) -> dict[str, float]:
    share, more, below = correct / total, z * z / total, 1 + z * z / total
    return {
        RIGHT: (share + more / 2) / below,
        "the seen share": share,
        "not divided by 1 + z² / n": share + more / 2,
        "made with z² / n in the place of z² / (2n)": (share + more) / below,
        "made with z = 1.96 whatever z is": _middle(share, total, 1.96),
        "made with z = 2 whatever z is": _middle(share, total, 2.0),
        "made without z² / (2n)": share / below,
        "made with the share of mistakes": (1 - share + more / 2) / below,
        "zero": 0.0,
    }


def _other_reaches(correct: int, total: int, z: float) -> dict[str, float]:
    share, below = correct / total, 1 + z * z / total
    plain, more = share * (1 - share) / total, z * z / (4 * total * total)
    return {
        RIGHT: z * math.sqrt(plain + more) / below,
        "that of the plain interval": z * math.sqrt(plain),
        "not divided by 1 + z² / n": z * math.sqrt(plain + more),
        "made without z² / (4n²) under the root": z * math.sqrt(plain) / below,
        "made with z² / (4n) under the root": z * math.sqrt(plain + total * more) / below,
        "made without z in front of the root": math.sqrt(plain + more) / below,
        "made without the root": z * (plain + more) / below,
        "made with n in the place of n² under the root, and not divided": z
        * math.sqrt(plain + total * more),
        "half as long as it should be": z * math.sqrt(plain + more) / below / 2,
        "twice as long as it should be": 2 * z * math.sqrt(plain + more) / below,
        "made from the middle m in the place of s, z √(m (1 − m) / (n + z²))": _agresti_coull(
            correct, total, z
        ),
        "longer by 1 / (2n), as with a correction for continuity": 1 / (2 * total)
        + z * math.sqrt(plain + more) / below,
        "made with z = 1.96 whatever z is": 1.96
        * math.sqrt(plain + 1.96**2 / (4 * total * total))
        / (1 + 1.96**2 / total),
    }


def _middle(share: float, total: int, z: float) -> float:
    return (share + z * z / (2 * total)) / (1 + z * z / total)


def _agresti_coull(correct: int, total: int, z: float) -> float:
    """The reach of another interval with Wilson's middle (Agresti and Coull 1998)."""
    number = total + z * z
    middle = (correct + z * z / 2) / number
    return z * math.sqrt(middle * (1 - middle) / number)


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
        "take the plain interval, p̂ ± z √(p̂ (1 − p̂) / n)",
        (
            "For 8 of 10 it ends above 1, for 10 of 10 it has no width. Under the root stands p,"
            " not p̂: solve for p"
        ),
    ),
    Slip(
        {**PLAIN, END: "return max(0.0, middle - reach), min(1.0, middle + reach)"},
        (
            "take the plain interval, with p̂ in the place of p under the root, and keep it"
            " within 0 and 1"
        ),
        "Under the root stands p: solve for p, or put the p that you try there",
    ),
    Slip(
        {BELOW: "below = 1"}, "leave out the denominator", "Divide middle and reach by 1 + z² / n"
    ),
    Slip(
        {MIDDLE: "middle = share + shift"},
        "divide the reach alone by 1 + z² / n",
        "The denominator is under the middle, too: (p̂ + z² / (2n)) / (1 + z² / n)",
    ),
    Slip(
        {REACH: "reach = z * math.sqrt(variance)"},
        "divide the middle alone by 1 + z² / n",
        "The denominator is under the reach, too",
    ),
    Slip(
        {SHIFT: "shift = 0"},
        "leave out z² / (2n) in the numerator",
        "The middle is (p̂ + z² / (2n)) / (1 + z² / n)",
    ),
    Slip(
        {SHIFT: "shift = z * z / total"},
        "add z² / n in the numerator",
        "It is half of that: z² / (2n)",
    ),
    Slip(
        {SHIFT: "shift = z * z / 2 * total"},
        "write z * z / 2 * n, which multiplies by n",
        "Put 2 * n into parentheses",
    ),
    Slip(
        {MORE: " + z * z / (4 * total)"},
        "write z² / (4n) under the root",
        "It is n squared there: z² / (4n²)",
    ),
    Slip(
        {MORE: " + z * z / 4 * total * total"},
        "write z * z / 4 * n * n, which multiplies by n²",
        "Put 4 * n * n into parentheses",
    ),
    Slip(
        {MORE: ""},
        "leave out z² / (4n²) under the root",
        "Without it the interval has no width at 10 of 10",
    ),
    Slip(
        {REACH: "reach = math.sqrt(variance) / below"},
        "leave out z in front of the root",
        "The reach is z times the root, divided by 1 + z² / n",
    ),
    Slip(
        {REACH: "reach = z * variance / below"},
        "leave out the root",
        "The reach is z times the square root, divided by 1 + z² / n",
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
        "The equation was squared: z² / n, z² / (2n), z² / (4n²)",
    ),
    Slip(
        {
            MIDDLE: "middle = share",
        },
        "put the interval around the share itself",
        "Its middle is (share + z² / (2n)) / (1 + z² / n)",
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
    notice=notice,
    hints=(
        (
            "The ends are the two shares p for which the distance is exactly z standard deviations."
            " Square both sides: that is a quadratic equation in p. Or let the computer search: try"
            " very many shares, and keep those that fit."
        ),
        (
            "With n images the equation is (1 + z²/n) p² − (2 share + z²/n) p + share² = 0. Its"
            " solutions are middle ± reach: middle = (share + z² / (2n)) / (1 + z² / n); reach = z"
            " √(share (1 - share) / n + z² / (4n²)) / (1 + z² / n). Or search: p ="
            " torch.linspace(0, 1, 1_000_001, dtype=torch.float64), and of those that fit the"
            " smallest and the largest."
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
