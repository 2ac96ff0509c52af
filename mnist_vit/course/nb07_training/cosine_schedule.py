"""Exercise: the learning rate of each step, a warm-up and half a cosine."""

import math
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip


def my_cosine_schedule(step: int, steps: int, warmup: int) -> float:
    """The share of the largest learning rate at a step."""
    if step < warmup:
        return (step + 1) / warmup
    # the angle is 0 at the end of the warm-up, π at the very end
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "share at steps 0 to 12, warm-up 4", _shares(answer, range(13), 12, 4)
    yield "share at steps 0 to 50, warm-up 7", _shares(answer, range(51), 50, 7)
    # a warm-up of 0 may be taken for one of 1: both begin with 1 and end with 0
    yield "share at steps 0 and 6 of 6, without warm-up", _shares(answer, (0, 6), 6, 0)


def _shares(answer: Any, places: Iterable[int], steps: int, warmup: int) -> Tensor | None:
    """The answer for each of these steps, as a tensor; numbers only."""
    values: list[float] = []
    for step in places:
        value = _share(answer, step, steps, warmup)
        if value is None or value is ...:
            if values:
                raise Mistake(
                    f"with {steps} steps, {warmup} of them warm-up, you return numbers before step"
                    f" {step}, and nothing at step {step}.",
                    "A path through your function ends without return. Two cases are enough: step <"
                    " warmup, and else.",
                )
            return None
        if isinstance(value, Tensor) and value.dim() == 0:
            value = value.item()
        if not isinstance(value, Real) or isinstance(value, bool):
            raise Mistake(
                f"step {step}: a number is needed, and this is of type {type(value).__name__}."
            )
        values.append(float(value))
    return torch.tensor(values, dtype=torch.float64)


def _share(answer: Any, step: int, steps: int, warmup: int) -> Any:
    """The answer for one step; Mistake where it divides by a warm-up that there is not."""
    try:
        return answer(step, steps, warmup)
    except ZeroDivisionError as error:
        if warmup:
            raise
        raise Mistake(
            f"with a warmup of 0 your code divides by zero at step {step}.",
            "Then no step belongs to the warm-up, and the fall must begin at step 0, from 1: divide"
            " by warmup only where step < warmup.",
        ) from error


def notice(answer: Any) -> Mistake | None:
    """The shares at five steps of twelve."""
    places = (0, 3, 4, 8, 12)
    right = [my_cosine_schedule(step, 12, 4) for step in places]
    found = [float(answer(step, 12, 4)) for step in places]
    wrong = [n for n in range(5) if abs(found[n] - right[n]) > 1e-6]
    if not wrong:
        begin, end = (float(answer(step, 6, 0)) for step in (0, 6))
        if abs(begin - 1) < 1e-6 and abs(end) < 1e-6:
            return None
        ends = []
        if abs(begin - 1) >= 1e-6:
            ends.append(f"{begin:.4g} at step 0")
        if abs(end) >= 1e-6:
            ends.append(f"{end:.4g} at step 6")
        return Mistake(
            f"With a warmup of 0 and 6 steps your share is {'; '.join(ends)}.",
            "The fall must then begin with 1 at step 0, and end with 0 at step 6.",
        )
    if all(abs(found[n] - found[1] * right[n]) < 1e-6 for n in range(5)):
        return Mistake(
            f"Your share is {found[1]:.4g} times the right one, at every step that we tried.",
            "It rises to 1 itself; whoever calls the schedule multiplies the largest learning rate"
            " by it.",
        )
    if fall := _noticed_fall(answer):
        return fall
    told = "; ".join(f"{found[n]:.4g} at step {places[n]}" for n in wrong)
    wanted = "; ".join(f"{right[n]:.4g} at step {places[n]}" for n in wrong)
    return Mistake(
        f"With 12 steps, 4 of them warm-up, your share is {told}.",
        f"It should be {wanted}. The line must reach 1 at step 3, and half a cosine fall from 1 at"
        " step 4 to 0 at step 12.",
    )


def _noticed_fall(answer: Any) -> Mistake | None:
    """Which fall it is, where the line is right and the fall another one from 1 on."""
    for step in range(4):
        if abs(float(answer(step, 12, 4)) - (step + 1) / 4) > 1e-6:
            return None
    found = [float(answer(step, 12, 4)) for step in range(4, 13)]
    right = [my_cosine_schedule(step, 12, 4) for step in range(4, 13)]
    low = found[-1]
    if 1e-6 < low < 0.4 and _is_near(found, [low + (1 - low) * one for one in right]):
        return Mistake(
            f"Your fall is half a cosine that ends at {low:.4g}, and not at 0.",
            "The share goes from 1 to 0: 0.5 * (1 + cos) is 1 at the angle 0, and 0 at π.",
        )
    power = math.log(found[4]) / math.log(0.5) if 0 < found[4] < 1 else 1.0
    if abs(power - 1) > 1e-6 and _is_near(found, [one**power for one in right]):
        return Mistake(
            f"Your fall is the right one to the power of {power:.4g}.",
            "Half a cosine itself is wanted, 0.5 at half of the way.",
        )
    if 0 <= found[4] <= 1:
        end = 2 * math.acos(2 * found[4] - 1)  # at half of the way it is half as large
        if _is_near(found, [0.5 * (1 + math.cos(end * n / 8)) for n in range(9)]):
            return Mistake(
                f"Your fall is that of a cosine whose angle goes from 0 to {end:.4g}.",
                f"Its angle should go from 0 to π, {math.pi:.4g}: math.pi * (step - warmup) /"
                " (steps - warmup).",
            )
    return None


def _is_near(found: list[float], right: list[float]) -> bool:
    return all(abs(one - other) < 1e-6 for one, other in zip(found, right, strict=True))


CASE, RISE, BEHIND = "step < warmup", "(step + 1) / warmup", "(step - warmup) / (steps - warmup)"
ANGLE = f"math.pi * {BEHIND}"
FALL = f"0.5 * (1 + math.cos({ANGLE}))"

SLIPS = (
    Slip(
        {RISE: "1.0"},
        "give every step of the warm-up the share 1",
        "The share rises there along a straight line: (step + 1) / warmup",
    ),
    Slip(
        {CASE: "step < 0", BEHIND: "step / steps"},
        "let the cosine fall from step 0, without a warm-up",
        "First the straight line up, then the cosine",
    ),
    Slip(
        {
            CASE: "step < 0",
            FALL: (
                "min(1, (step + 1) / max(1, warmup)) * 0.5 * (1 + math.cos(math.pi * step / steps))"
            ),
        },
        "multiply the line of the warm-up by a cosine that falls from step 0 on",
        "First the line alone, then the cosine alone: its angle is 0 at step == warmup",
    ),
    Slip(
        {RISE: "step / warmup"},
        "start at 0, so that the first step changes nothing",
        "Step 0 has the share 1 / warmup, so count step + 1",
    ),
    Slip(
        {CASE: "step <= warmup"},
        "let the line go on to step == warmup, where it is above 1",
        "There the fall begins, so step < warmup",
    ),
    Slip(
        {RISE: "0.5 * (1 - math.cos(math.pi * (step + 1) / warmup))"},
        "let the share rise along a cosine, too",
        "The warm-up is a straight line; the cosine is for the fall",
    ),
    Slip(
        {FALL: f"0.5 * (1 - math.cos({ANGLE}))"},
        "let the share rise from 0 behind the warm-up",
        "It falls from 1 at step == warmup to 0 at step == steps",
    ),
    Slip(
        {RISE: "step / (warmup - 1)"},
        "let the line begin with 0 and reach 1 at step warmup - 1",
        "The first step then changes nothing. Its share is 1 / warmup: (step + 1) / warmup",
    ),
    Slip(
        {RISE: "((step + 1) / warmup) ** 2"},
        "square the share of the warm-up",
        "It rises along a straight line: (step + 1) / warmup",
    ),
    Slip(
        {RISE: "(warmup - step) / warmup"},
        "let the line fall from 1 in the warm-up",
        "It rises: (step + 1) / warmup, from 1 / warmup to 1",
    ),
    Slip(
        {RISE: "(step + 1) / (warmup + 1)"},
        "divide by warmup + 1",
        "The last step of the warm-up has the share 1",
    ),
    Slip(
        {RISE: "(step + 1) / steps"},
        "divide the line of the warm-up by steps",
        "It reaches 1 in the last step of the warm-up: (step + 1) / warmup",
    ),
    Slip(
        {CASE: "step < warmup - 1"},
        "leave the last step of the warm-up to the cosine",
        "The line goes on while step < warmup; its last share is 1",
    ),
    Slip(
        {FALL: f"0.5 * (1 + math.sin({ANGLE}))"},
        "take the sine",
        "The cosine falls from 1 to -1 as its angle goes from 0 to π",
    ),
    Slip(
        {BEHIND: "step / steps"},
        "count the cosine from step 0",
        "The share jumps down after the warm-up. It falls from the end of the warm-up on: step -"
        " warmup, out of steps - warmup",
    ),
    Slip(
        {BEHIND: "(step - warmup) / steps"},
        "divide by steps, so that the share never reaches 0",
        "The fall has only steps - warmup steps",
    ),
    Slip(
        {BEHIND: "(step - warmup + 1) / (steps - warmup)"},
        "begin the fall one step too early, off by one",
        "At step == warmup the share is still 1",
    ),
    Slip(
        {BEHIND: "(step - warmup) / (steps - warmup - 1)"},
        "divide by steps - warmup - 1",
        "0 comes a step too early. It comes at step == steps",
    ),
    Slip(
        {BEHIND: "min(1.0, (step - warmup) / max(1, steps - warmup - 1))"},
        "let the fall reach 0 at steps - 1 and stay there",
        "It reaches 0 at step == steps: step - warmup out of steps - warmup",
    ),
    Slip(
        {BEHIND: "((step - warmup) // (steps - warmup))"},
        "divide with //, so that the share is 1 up to the last step",
        "// gives whole numbers, 0 until step == steps: divide with /",
    ),
    Slip({ANGLE: f"180 * {BEHIND}"}, "give the cosine degrees", "It wants radians"),
    Slip({FALL: f"1 - {BEHIND}"}, "fall in a straight line", "Half a cosine is wanted"),
    Slip(
        {FALL: f"math.cos(math.pi / 2 * {BEHIND})"},
        "use a quarter of the wave, or the root of half of it brought to 1 … 0, which is the same",
        "Half of the wave is wanted, from 1 to -1, brought to 1 … 0 by adding 1 and halving, and by"
        " nothing more",
    ),
    Slip(
        {ANGLE: f"math.pi / 2 * {BEHIND}"},
        "let the angle go from 0 to π / 2 alone, so that the share ends at a half",
        "From 0 to π: there the cosine is -1, and the share 0",
    ),
    Slip({FALL: f"1 + math.cos({ANGLE})"}, "forget to halve", "The fall begins at 2"),
    Slip(
        {FALL: f"math.cos({ANGLE})"},
        "fall from 1 to -1",
        "A learning rate below 0 goes uphill. Add 1 and halve",
    ),
    Slip(
        {ANGLE: f"2 * {ANGLE}"},
        "use a whole wave",
        "The share comes back up to 1. Half a wave ends at 0",
    ),
    Slip(
        {FALL: f"max(0.1, {FALL})"},
        "stop at a tenth, so that the share never reaches 0",
        "Let the cosine go on to its end",
    ),
)

EXERCISE = Exercise(
    answer=my_cosine_schedule,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Two cases: step < warmup is a straight line, the rest half a cosine. What are the"
            " shares at step 0, at step warmup - 1, at step warmup, at step steps?"
        ),
        (
            "The line is (step + 1) / warmup. In the fall, how much of it is behind you: step -"
            " warmup out of steps - warmup. math.cos goes from 1 to -1 as its angle goes from 0 to"
            " math.pi; adding 1 and halving brings that to 1 … 0."
        ),
    ),
    same=(
        {FALL: f"math.cos(math.pi / 2 * {BEHIND}) ** 2"},
        {FALL: "0.5 * (1 - math.cos(math.pi * (steps - step) / (steps - warmup)))"},
    ),
)
