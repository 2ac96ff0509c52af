"""Exercise: turn pairs of numbers by an angle (rotary positions, Su et al. 2021)."""

import cmath
import math
from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, fits, gradients, random


def my_rotate(x, angles):
    # (..., seq_length, head_dim), (seq_length, head_dim / 2) -> (..., seq_length, head_dim)
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    turned = [a * cos - b * sin, a * sin + b * cos]
    # (..., seq_length, head_dim / 2, 2) -> (..., seq_length, head_dim)
    return torch.stack(turned, dim=-1).flatten(-2)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    x = random(2, 3, 5, 8, seed=4).requires_grad_()
    angles = 2 * random(5, 4, seed=5)
    out = answer(x, angles)
    yield "output", out
    yield from gradients(out, x=x)
    yield "output of a single sequence", answer(random(3, 4, seed=6), random(3, 2, seed=7))
    # as heads are cut out of a layer's numbers
    heads = random(2, 5, 3, 8, seed=8).transpose(1, 2)
    yield "output of queries that were transposed", answer(heads, angles)


def notice(answer: Any) -> Mistake | None:
    """What becomes of two pairs, the first turned by a quarter."""
    token = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    made = answer(token, torch.tensor([[torch.pi / 2, 0.0]])).flatten().tolist()
    found = ", ".join(f"{round(one, 3) + 0.0:g}" for one in made)
    if found == "-2, 1, 3, 4":
        return _noticed_places(answer)
    known = _turned(answer) or _right_half(made)
    return Mistake(
        f"Of the token 1, 2, 3, 4 and the angles of a quarter turn and 0 you make {found}.{known}",
        "It should be -2, 1, 3, 4: the pair (1, 2) becomes (-2, 1), the pair (3, 4) stays, and"
        " every number is at its place.",
    )


def _right_half(made: list[float]) -> str:
    """That the first or the second number of each pair is right; "" if none is."""
    expected = [-2.0, 1.0, 3.0, 4.0]
    for begin, right, wrong in ((0, "first", "second"), (1, "second", "first")):
        pairs = zip(made[begin::2], expected[begin::2], strict=False)
        if len(made) == 4 and all(abs(got - one) < 1e-3 for got, one in pairs):
            return f" The {right} number of each pair is right, and the {wrong} is not."
    return ""


def _turned(answer: Any) -> str:
    """What becomes of the length of a pair and of its direction, if it is something known."""
    angles = (0.3, 1.1, 2.0, -0.7)
    lengths, directions = [], []
    for angle in angles:
        spun = []
        for pair in ([1.0, 0.0], [0.0, 1.0]):
            made = answer(torch.tensor([pair]), torch.tensor([[angle]])).flatten().tolist()
            spun.append(complex(*made))
        one, other = spun
        if abs(other - 1j * one) > 1e-4 * max(1.0, abs(one)):
            return ""  # it is no turn, not even with another length
        lengths.append(abs(one))
        directions.append(cmath.phase(one) if abs(one) > 1e-6 else 0.0)
    length = fits(
        {
            "stays": [1.0] * 4,
            "is multiplied by the size of the angle": [abs(a) for a in angles],
            "is multiplied by e to the power of the angle": [math.exp(a) for a in angles],
            "is divided by the cosine of the angle": [1 / abs(math.cos(a)) for a in angles],
            f"is multiplied by {lengths[0]:.4g} whatever the angle": [lengths[0]] * 4,
        }
        if abs(lengths[0] - 1) > 1e-3
        else {"stays": [1.0] * 4},
        lengths,
    )
    signs = [1 if a > 0 else -1 for a in angles]
    turn = fits(
        {
            "its turn is by the angle": list(angles),
            "it is turned the other way round": [-a for a in angles],
            "it is not turned": [0.0] * 4,
            "it is turned by the number 1 in place of the angle": [1.0] * 4,
            "it is turned by 1 radian, and where the angle is negative to the opposite side": [
                cmath.phase(sign * cmath.exp(1j)) for sign in signs
            ],
            "it is turned by half of the angle": [a / 2 for a in angles],
        },
        directions,
    )
    if not length or not turn:
        return ""
    return f" Of a pair the length {length}, and {turn}."


def _noticed_places(answer: Any) -> Mistake | None:
    """What becomes of two tokens, each with an angle of its own."""
    tokens = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    quarter = torch.pi / 2
    made = answer(tokens, torch.tensor([[quarter], [0.0], [quarter]]))
    found = [", ".join(f"{round(one, 3) + 0.0:g}" for one in row) for row in made.tolist()]
    if found == ["-2, 1", "3, 4", "-6, 5"]:
        return None
    return Mistake(
        "Alone, a token is turned as it should be. Of the three tokens 1, 2 and 3, 4 and 5, 6 of a"
        f" sequence, and the angles of a quarter turn, 0 and a quarter turn, you make"
        f" {' and '.join(found)}.",
        "It should be -2, 1 and 3, 4 and -6, 5: row i of angles belongs to token i, as it is.",
    )


PAIRS, TURN = "a, b = x[..., 0::2], x[..., 1::2]", "[a * cos - b * sin, a * sin + b * cos]"
ANGLE, END = "cos, sin = angles.cos(), angles.sin()", "torch.stack(turned, dim=-1).flatten(-2)"

SLIPS = (
    Slip(
        {TURN: "[a * cos + b * sin, b * cos - a * sin]"},
        "turn the other way round",
        "The minus stands before b · sin: (a cos − b sin, a sin + b cos)",
    ),
    Slip(
        {TURN: "[a * cos - b * sin, a * sin - b * cos]"},
        "put a minus before b · cos",
        "Only b · sin has a minus: (a cos − b sin, a sin + b cos)",
    ),
    Slip(
        {TURN: "[a * cos + b * sin, a * sin + b * cos]"},
        "forget the minus",
        "(a cos − b sin, a sin + b cos): without it lengths change",
    ),
    Slip(
        {ANGLE: "cos, sin = angles.sin(), angles.cos()"},
        "swap sine and cosine",
        "An angle of 0 must change nothing",
    ),
    Slip(
        {PAIRS: "a, b = x.chunk(2, dim=-1)"},
        "make pairs of the first half and the second half, and put them together side by side",
        "Pairs are neighbours: numbers 0 and 1, 2 and 3, …",
    ),
    Slip(
        {PAIRS: "a, b = x.chunk(2, dim=-1)", END: "torch.cat(turned, dim=-1)"},
        "make pairs of the first half and the second half, as other libraries do",
        "Here pairs are neighbours: numbers 0 and 1, 2 and 3, …",
    ),
    Slip(
        {END: "torch.cat(turned, dim=-1)"},
        "put all first numbers of the pairs in front of all second ones",
        "Each number goes back to its place: stack on a new last axis, then flatten(-2)",
    ),
    Slip(
        {TURN: "[a * cos - b * sin, b]"},
        "leave the second numbers of the pairs as they are",
        "Both numbers of a pair change: (a cos − b sin, a sin + b cos)",
    ),
    Slip(
        {TURN: "[a * cos, b * sin]"},
        "multiply by cosine and sine without mixing the two numbers",
        "Both numbers of a pair change: (a cos − b sin, a sin + b cos)",
    ),
    Slip(
        {TURN: "[a * cos - b * sin, (a * cos - b * sin) * sin + b * cos]"},
        "compute the second number from the first one's new value",
        "Both new numbers are made from the old pair (a, b)",
    ),
    Slip(
        {END: "torch.stack(turned[::-1], dim=-1).flatten(-2)"},
        "put the two numbers of each pair back in the wrong order",
        "The turned a comes first, the turned b second",
    ),
    Slip(
        {PAIRS: "a, b = x[..., 1::2], x[..., 0::2]"},
        "swap the two numbers of each pair before the turn",
        "a is the one at an even place, b the one behind it",
    ),
    Slip(
        {ANGLE: "cos, sin = angles.deg2rad().cos(), angles.deg2rad().sin()"},
        "take the angles for degrees",
        "They are radians, as cos and sin take them",
    ),
    Slip(
        {
            END: (
                "x * cos.repeat_interleave(2, -1) + torch.cat("
                "[-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * sin.repeat_interleave(2, -1)"
            )
        },
        "use the angles of neighbouring pairs, but pairs of the first half and the second half",
        "Pairs are neighbours: numbers 0 and 1, 2 and 3, …",
    ),
    Slip(
        {
            END: (
                "x * cos.repeat(1, 2) + torch.stack([-b, a], dim=-1).flatten(-2) * sin.repeat(1, 2)"
            )
        },
        "put the whole row of angles behind itself, so that neighbours get different ones",
        "Both numbers of a pair have the same angle: repeat_interleave(2, dim=-1) doubles each",
    ),
    Slip(
        {
            END: (
                "torch.cat([x[..., :1, :],"
                " torch.stack(turned, dim=-1).flatten(-2)[..., 1:, :]], dim=-2)"
            )
        },
        "leave the first token as it is",
        "All tokens are turned: row 0 of angles belongs to token 0",
    ),
    Slip(
        {ANGLE: "cos, sin = angles.flip(-1).cos(), angles.flip(-1).sin()"},
        "take the angles of a token from last to first",
        "Angle 0 belongs to numbers 0 and 1, angle 1 to numbers 2 and 3, and so on",
    ),
    Slip(
        {ANGLE: f"angles = angles.T.reshape(angles.shape)\n    {ANGLE}"},
        "transpose the angles and give them their shape back by a reshape, which mixes them up",
        "Row i of angles belongs to token i, as it is: they fit without a transpose",
    ),
    Slip(
        {ANGLE: "cos, sin = (2 * angles).cos(), (2 * angles).sin()"},
        "turn by twice the angle",
        "Turn by the angle itself",
    ),
    Slip(
        {END: "x + torch.stack(turned, dim=-1).flatten(-2)"},
        "add what is turned to x",
        "The turned pairs take the place of the old ones",
    ),
    Slip(
        {TURN: "[a * cos, b * cos]"},
        "multiply by the cosine alone",
        "Both numbers of a pair change: (a cos − b sin, a sin + b cos)",
    ),
)

EXERCISE = Exercise(
    answer=my_rotate,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Begin with one pair (a, b), a point in the plane, and one angle. Where is the point"
            " after the turn? Then slices with a step of 2 give all first and all second numbers."
        ),
        (
            "a, b = x[..., 0::2], x[..., 1::2]; the turned pair is (a cos − b sin, a sin + b cos)."
            " torch.stack(…, dim=-1) makes pairs again, and flatten(-2) puts them side by side."
        ),
    ),
    same=(
        {PAIRS: "a, b = x.unflatten(-1, (-1, 2)).unbind(-1)"},
        {TURN: "[cos * a - sin * b, sin * a + cos * b]"},
    ),
)
