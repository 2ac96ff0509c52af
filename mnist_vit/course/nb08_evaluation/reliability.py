"""Exercise: are answers that are called 90 % certain right in 90 % of cases?"""

import math
import statistics
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Evidence, Exercise, Mistake, Slip, describe, fits, random


def my_reliability(probabilities, labels, low, high):
    """Of the answers with low < confidence <= high: how many, their mean confidence, the share that
    is right."""
    confidence, predictions = probabilities.max(dim=1)
    chosen = (confidence > low) & (confidence <= high)
    right = (predictions == labels)[chosen]
    return int(chosen.sum()), float(confidence[chosen].mean()), float(right.float().mean())


NAMES = ("number of answers", "mean confidence", "share that is right")


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    sharp = 3 * random(400, 5, seed=84)
    probabilities = sharp.softmax(dim=1)
    labels = torch.multinomial(
        (0.6 * sharp).softmax(dim=1), 1, generator=torch.Generator().manual_seed(1)
    )[:, 0]
    probabilities[:20] = torch.eye(5)[torch.arange(20) % 5]  # sure without a rest
    probabilities[20:30] = torch.tensor([0.1, 0.5, 0.1, 0.2, 0.1])  # on a border
    for low, high in ((0.9, 1.0), (0.5, 0.7), (0.2, 0.5), (0.0, 1.0), (0.0, 0.1)):
        found = _answered(answer, probabilities.clone(), labels.clone(), low, high)
        if found is None or found is ...:
            yield "answer", found
            return
        if not isinstance(found, tuple | list) or len(found) != 3:
            raise Mistake(
                f"three numbers are needed, {', '.join(NAMES)}, and this is {describe(found)}.",
                "Return the three in this order, as a tuple: return number, mean, share.",
            )
        for name, value in zip(NAMES, found, strict=True):
            value = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
            plain = (
                isinstance(value, int | float) and not isinstance(value, bool) and math.isnan(value)
            )
            yield f"{name}, {low} to {high}", "nan" if plain else value


def _answered(answer: Any, probabilities: Tensor, labels: Tensor, low: float, high: float) -> Any:
    """What comes back; Mistake where it divides by how many answers there are, and there are
    none."""
    try:
        return answer(probabilities, labels, low, high)
    except (ZeroDivisionError, statistics.StatisticsError) as error:
        if high > 0.1:
            raise
        does = "divides by zero"
        if isinstance(error, statistics.StatisticsError):
            does = "asks for the mean of an empty list"
        raise Mistake(
            f"no answer has a confidence above {low} and up to {high}, and there your code {does}.",
            NONE,
        ) from error


def notice(answer: Any) -> Mistake | None:
    """Which of the three numbers is another one, where there are answers."""
    sharp = 3 * random(300, 5, seed=85)
    probabilities = sharp.softmax(dim=1)
    labels = torch.multinomial(
        (0.6 * sharp).softmax(dim=1), 1, generator=torch.Generator().manual_seed(2)
    )[:, 0]
    bins = ((0.9, 1.0), (0.5, 0.7), (0.3, 0.5), (0.0, 1.0))
    several = [len(one) for one in answer(probabilities, labels, 0.5, 0.7) if _is_long(one)]
    if several:
        return Mistake(
            f"Of the answers from 0.5 to 0.7 you give {several[0]} numbers in the place of one.",
            "The three are numbers: how many answers there are (len, or sum of the booleans), the"
            " mean of their confidences, and the share of right ones.",
        )
    found = [list(map(float, answer(probabilities, labels, *one))) for one in bins]
    rights = [my_reliability(probabilities, labels, *one) for one in bins]
    others = [_other_numbers(probabilities, labels, *one) for one in bins]
    for place, name in enumerate(NAMES):
        got = [one[place] for one in found]
        if fits({"right": [one[place] for one in rights]}, got):
            continue
        candidates = {other: [one[other] for one in others] for other in others[0]}
        other = fits(candidates, got)
        if other:
            return Mistake(f"For the {name} you give {other}.", ASKED[place])
        if all(
            own == round(right[place], 2)
            for own, right in zip((round(one, 6) for one in got), rights, strict=True)
        ):
            return Mistake(
                f"Your {name} is rounded to two decimals.",
                "Return it as it is: what is printed can be rounded later.",
            )
        again = [my_reliability(probabilities.softmax(dim=1), labels, *one) for one in bins]
        if fits({"again": [one[place] for one in again]}, got):
            return Mistake(
                f"Your {name} is the one that comes of taking the softmax of the probabilities.",
                f"Your function is given probabilities already. {ASKED[place]}",
            )
        if place == 0 and (seen := _noticed_choice(answer)):
            return seen
        if place == 2 and (seen := _noticed_labels(answer, probabilities, labels)):
            return seen
        before = ("", "the number of answers is", "the number and the mean confidence are")[place]
        right = f"{before} right, and " if place else ""
        return Mistake(
            f"With other probabilities, none of which lies on a limit, {right}what you give for the"
            f" {name} is wrong.",
            ASKED[place],
        )
    none = list(map(float, answer(probabilities, labels, 0.0, 0.1)))
    if none[0] == 0 and not (math.isnan(none[1]) and math.isnan(none[2])):
        return Mistake(
            f"Where no answer lies in the limits, you give {none[1]:g} for the mean confidence and"
            f" {none[2]:g} for the share that is right.",
            f"{NONE} A share of 0 would say that all were wrong." if none[2] == 0 else NONE,
        )
    return None


def _noticed_choice(answer: Any) -> Mistake | None:
    """Which confidence is counted between 0.5 and 0.7: whether it alone counts, and the limits."""
    alone = torch.tensor([0])
    steps = [step / 1000 for step in range(402, 1000, 4)]
    rest = {
        "the rest shared by four classes": [0.25, 0.25, 0.25, 0.25],
        "the rest on one class": [1.0, 0.0, 0.0, 0.0],
    }
    found: dict[str, list[float]] = {}
    for name, shares in rest.items():
        found[name] = []
        for step in steps:
            if step <= (1 - step) * max(shares):
                continue  # another class would be the largest
            row = torch.tensor([[step, *((1 - step) * share for share in shares)]])
            if answer(row, alone, 0.5, 0.7)[0] == 1:
                found[name].append(step)
    told = [f"from {one[0]:g} to {one[-1]:g}" if one else "none" for one in found.values()]
    wide, narrow = found.values()
    if not wide and not narrow:
        return None
    if [step for step in wide if step > 0.5] != narrow:
        return Mistake(
            "Of images with a single answer, and limits of 0.5 and 0.7, you count these"
            f" confidences: with the rest shared by four classes {told[0]}, with all the rest on"
            f" one class {told[1]}.",
            f"The rest should play no part. {ASKED[0]}",
        )
    if wide[0] <= 0.5 or wide[-1] < 0.69 or wide[-1] > 0.7 or wide[0] > 0.51:
        return Mistake(
            f"With limits of 0.5 and 0.7 you count confidences {told[0]}.",
            "Compare them as they are, low < confidence <= high, without rounding.",
        )
    return None


def _noticed_labels(answer: Any, probabilities: Tensor, labels: Tensor) -> Mistake | None:
    """Whether the share changes with the labels of answers that are not chosen."""
    confidence = probabilities.max(dim=1).values
    outside = ~((confidence > 0.5) & (confidence <= 0.7))
    other = torch.where(outside, (labels + 1) % probabilities.shape[1], labels)
    before = float(answer(probabilities, labels, 0.5, 0.7)[2])
    after = float(answer(probabilities, other, 0.5, 0.7)[2])
    if abs(before - after) < 1e-9:
        return None
    return Mistake(
        "The number and the mean confidence are right. The share that is right should know of the"
        " chosen answers alone, and in yours it changes with the labels of the others: for 0.5 to"
        f" 0.7 from {before:.4g} to {after:.4g}.",
        "Each chosen answer must be compared with the label of the same image: choose predictions"
        " and labels by the same booleans, (predictions == labels)[chosen].",
    )


def _is_long(value: Any) -> bool:
    """Whether it is a list of numbers, or a tensor of several."""
    return isinstance(value, list | tuple) or (isinstance(value, Tensor) and value.dim() > 0)


def tell(evidence: Evidence) -> tuple[str, str]:
    """What is asked for where there is no answer."""
    if evidence.what.startswith(NAMES[0]) and evidence.value == "nan":
        return (
            "There is no answer of such a confidence, and for how many there are you give nan.",
            "That number is known: 0. Only the mean confidence and the share must be nan.",
        )
    if evidence.expected != "nan":
        return "", ""
    return "There is no answer of such a confidence.", NONE


def _other_numbers(
    probabilities: Tensor, labels: Tensor, low: float, high: float
) -> dict[str, float]:
    """Numbers that are not asked for, by name."""
    confidence, predictions = probabilities.max(dim=1)
    chosen = (confidence > low) & (confidence <= high)
    entries = (probabilities > low) & (probabilities <= high)
    truth = probabilities.gather(1, labels[:, None])[:, 0]
    of_truth = (truth > low) & (truth <= high)
    right, count = predictions == labels, len(labels)
    return {
        "the number of probabilities in these limits, of all classes": float(entries.sum()),
        "the number of images with any probability in these limits": float(entries.any(1).sum()),
        "how often the truth's probability lies in these limits": float(of_truth.sum()),
        "the number of all answers": float(count),
        "how many of the chosen answers are right": float((right & chosen).sum()),
        "the share of all images that are chosen": float(chosen.float().mean()),
        "the mean confidence of all answers": float(confidence.mean()),
        "the mean confidence of the right answers among the chosen ones": float(
            confidence[chosen & right].mean()
        ),
        "the mean confidence of the wrong answers among the chosen ones": float(
            confidence[chosen & ~right].mean()
        ),
        "the mean of all chosen probabilities": float(probabilities[entries].mean()),
        "the mean probability of all classes": float(probabilities[chosen].mean()),
        "the sum of the chosen confidences": float(confidence[chosen].sum()),
        "the sum of the chosen confidences, divided by the number of all images": float(
            confidence[chosen].sum() / count
        ),
        "the truth's mean probability": float(truth[chosen].mean()),
        "the truth's mean probability of all images": float(truth.mean()),
        "the middle between low and high": (low + high) / 2,
        "the median confidence": float(confidence[chosen].median()),
        "the share of all answers that is right": float(right.float().mean()),
        "the right ones divided by the number of all images": float((right & chosen).sum() / count),
        "the right ones divided by all right answers": float((right & chosen).sum() / right.sum()),
        "the share that is wrong": float(1 - right[chosen].float().mean()),
        "the share that is right": float(right[chosen].float().mean()),
        "the mean confidence": float(confidence[chosen].mean()),
        "the number of answers": float(chosen.sum()),
    }


ASKED = (
    "Each image has one answer, the class with the largest probability. Count those with low <"
    " confidence <= high.",
    "Take the mean of the largest probabilities of the chosen answers.",
    "Of the chosen answers, and of no others, divide how many are right by how many there are.",
)
NONE = "Where there are none, mean confidence and share must both be nan: float('nan')."

MAX, CHOSEN = (
    "confidence, predictions = probabilities.max(dim=1)",
    "chosen = (confidence > low) & (confidence <= high)",
)
RIGHT, END = "right = (predictions == labels)[chosen]", "float(confidence[chosen].mean())"
COUNT, SHARE = "int(chosen.sum())", "float(right.float().mean())"
RESULT = f"return int(chosen.sum()), {END}, float(right.float().mean())"

SLIPS = (
    Slip(
        {
            MAX: (
                "predictions = probabilities.argmax(dim=1)\n"
                "    confidence = probabilities[torch.arange(len(labels)), labels]"
            )
        },
        "take the probability of the true class for the confidence",
        "The model does not know it: its confidence is the largest probability",
    ),
    Slip(
        {RIGHT: "right = predictions == labels"},
        "take the share of all answers that is right",
        "Only those of this confidence count",
    ),
    Slip(
        {END: "float(confidence.mean())"},
        "take the mean confidence of all answers",
        "Only those of this confidence count",
    ),
    Slip(
        {END: "(low + high) / 2"},
        "take the middle between low and high",
        (
            "The answers of a bin need not lie evenly around its middle: take the mean of their"
            " confidences"
        ),
    ),
    Slip(
        {CHOSEN: "chosen = (confidence >= low) & (confidence < high)"},
        "take low <= confidence < high",
        "Softmax rounds to 1.0 where it is very sure, and those would be lost: low < confidence <="
        " high",
    ),
    Slip(
        {CHOSEN: "chosen = (confidence >= low) & (confidence <= high)"},
        "count the lower border, too",
        "An answer on it would be in two bins. low < confidence <= high",
    ),
    Slip(
        {CHOSEN: "chosen = (confidence > low) & (confidence < high)"},
        "leave out both borders",
        "The condition is low < confidence <= high",
    ),
    Slip(
        {CHOSEN: "chosen = confidence > low"},
        "forget high",
        "The condition is low < confidence <= high",
    ),
    Slip(
        {CHOSEN: "chosen = ((probabilities > low) & (probabilities <= high)).any(dim=1)"},
        "choose an image where *any* class has such a probability",
        "It is the largest one, the answer's, that counts",
    ),
    Slip(
        {RIGHT: "right = ((predictions == labels) & chosen).float()"},
        "divide by the number of all images",
        "Divide by the number of those chosen",
    ),
    Slip(
        {RIGHT: "right = (predictions != labels)[chosen]"},
        "give the share that is wrong",
        "The share that is right is wanted",
    ),
    Slip(
        {RESULT: f"return int(chosen.sum()), float(right.float().mean()), {END}"},
        "return the share that is right before the mean confidence",
        "The order is: how many, mean confidence, share right",
    ),
    *(
        Slip(
            {RESULT: "return " + ", ".join(order)},
            f"return {said}",
            "The order is: how many, mean confidence, share right",
        )
        for order, said in (
            ((END, SHARE, COUNT), "the number of answers behind the other two"),
            ((END, COUNT, SHARE), "the mean confidence before the number of answers"),
            ((SHARE, END, COUNT), "the three in the opposite order"),
            ((SHARE, COUNT, END), "the share first"),
        )
    ),
    Slip(
        {RESULT: f"return int(chosen.sum()), 100 * {END}, 100 * float(right.float().mean())"},
        "give percent",
        "A mean of probabilities and a share, both from 0 to 1, are wanted",
    ),
    Slip(
        {"float(right.float().mean())": "100 * float(right.float().mean())"},
        "give the share in percent",
        "A share from 0 to 1 is wanted",
    ),
    Slip(
        {"float(right.float().mean())": "int(right.sum())"},
        "return how many are right",
        "A share is wanted: divide by the number of those chosen",
    ),
    Slip(
        {END: "float(probabilities[chosen].mean())"},
        "take the mean over all classes",
        "It is 1 / classes whatever the model says. The confidence is the largest of each row",
    ),
    Slip(
        {RESULT: f"if not chosen.any():\n        return 0, 0.0, 0.0\n    {RESULT}"},
        "give 0 where there are no answers",
        (
            "A share of 0 would say that all were wrong, a mean confidence of 0 that the model was"
            " sure of nothing. Where there are no answers, both must be nan"
        ),
    ),
    Slip(
        {
            CHOSEN: "chosen = (probabilities > low) & (probabilities <= high)",
            RIGHT: "right = (predictions == labels)[chosen.any(dim=1)]",
            END: "float(probabilities[chosen].mean())",
        },
        "choose among the probabilities of all classes",
        "Each image has one answer, and its confidence is the largest of the row",
    ),
)

EXERCISE = Exercise(
    answer=my_reliability,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    hints=(
        (
            "The model's confidence is the probability of its own answer. Which images have one"
            " between low and high? Of those, and of no others, two means are wanted."
        ),
        (
            "confidence, predictions = probabilities.max(dim=1); chosen = (confidence > low) &"
            " (confidence <= high). Then chosen.sum(), confidence[chosen].mean(), and the mean of"
            " (predictions == labels)[chosen].float(). Where nothing is chosen these means are nan,"
            " and may be."
        ),
    ),
    same=(
        {MAX: "confidence, predictions = probabilities.amax(dim=1), probabilities.argmax(dim=1)"},
        {END: "confidence[chosen].mean()"},
    ),
)
