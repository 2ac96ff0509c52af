"""Exercise: the better of two models that classified the same images (McNemar's test)."""

import math  # noqa: F401, slips take it
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mnist_vit.course.nb08_evaluation.coin import my_coin as coin
from mnist_vit.evaluation import wilson_interval  # noqa: F401, one slip takes it

from ..checking import Exercise, Mistake, Slip, describe

VERDICTS = ("cannot tell", "first", "second")


def my_better_model(labels, first, second):
    """Truth and the predictions of two models, (n,) each -> "first", "second" or "cannot tell"."""
    b = int(((first == labels) & (second != labels)).sum())  # only the first is right
    c = int(((first != labels) & (second == labels)).sum())  # only the second is right
    if coin(b, c) >= 0.05:
        return "cannot tell"
    return "first" if b > c else "second"


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    told, given, cases = [], [], []
    for labels, first, second in _models():
        given.append(answer(labels.clone(), first.clone(), second.clone()))
        b = int(((first == labels) & (second != labels)).sum())
        c = int(((first != labels) & (second == labels)).sum())
        cases.append(
            f"of {len(labels)} images only the first model classifies {b} correctly, only the"
            f" second {c}"
        )
        told.append(f"{given[-1]} ({cases[-1]})")
    if given[0] is None and all(one is given[0] for one in given):
        yield "verdict", None
        return
    for one, case in zip(given, cases, strict=True):
        if not isinstance(one, str) or one not in VERDICTS:
            back = describe(one).removesuffix(": is the return line missing?")
            raise Mistake(
                f"for a pair of models ({case}) {back} comes back.",
                'The answer must be one of the texts "first", "second" and "cannot tell", whichever'
                " way your function takes to its end.",
            )
    yield "the verdict", told


def _pair(
    b: int, c: int, right: int = 0, same: int = 0, other: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Truth and two predictions: only the first right, only the second, both right, both wrong with
    the same name, both wrong with two names."""
    labels = torch.arange(b + c + right + same + other) % 10
    first, second = torch.zeros_like(labels), torch.zeros_like(labels)
    second[:b] = 1
    first[b : b + c] = 1
    wrong = slice(b + c + right, None)
    first[wrong] = second[wrong] = 1
    second[b + c + right + same :] = 2
    return labels, (labels + first) % 10, (labels + second) % 10


def notice(answer: Any) -> Mistake | None:
    """What the verdict depends on beside b and c, and from which chance on it is given."""
    for b, c in ((9, 2), (40, 20), (16, 5), (12, 4)):
        plain = answer(*_pair(b, c))
        more = {
            "that both models classify correctly": _pair(b, c, right=400),
            "that both models take for the same wrong digit": _pair(b, c, same=400),
            "that the two models take for two different wrong digits": _pair(b, c, other=400),
        }
        for name, models in more.items():
            if answer(*models) != plain:
                return Mistake(
                    f"Your verdict changes when there are more images {name}.",
                    "Such images say nothing about which model is better: b and c must count only"
                    " those on which exactly one is right.",
                )
    seen = _noticed_classes(answer) or _noticed_limit(answer)
    if seen is not None:
        return seen
    for n in (8, 20, 60):
        for b in range(n, -1, -1):
            found, chance = answer(*_pair(b, n - b)), coin(b, n - b)
            right = "cannot tell" if chance >= 0.05 else "first" if 2 * b > n else "second"
            if found != right:
                return Mistake(
                    f"Where only the first is right on {b} images and only the second on {n - b},"
                    f' you answer "{found}". A fair coin falls so, or more unevenly, in'
                    f" {100 * chance:.2f} % of cases.",
                    "Below 5 %, name the better model, the one that is right alone on more images;"
                    ' else answer "cannot tell".',
                )
    return None


def _noticed_classes(answer: Any) -> Mistake | None:
    """Whether the verdict depends on which classes the images are of."""
    for b, c in ((40, 20), (9, 2), (2, 9), (20, 40)):
        labels, first, second = _pair(b, c)
        ten = answer(labels, first, second)
        one = answer(labels * 0, (first - labels) % 10, (second - labels) % 10)
        if one != ten:
            return Mistake(
                f"Where only the first is right on {b} images and only the second on {c}, you"
                f' answer "{one}" if all are of class 0, and "{ten}" if they are of ten classes.',
                "An image counts whatever its class: it matters which of the two models is right.",
            )
    return None


def _noticed_limit(answer: Any) -> Mistake | None:
    """Whether the verdict is ruled by the coin's chance, and another limit than 0.05."""
    named, untold = [], []
    for n in (8, 12, 20, 30, 60, 100, 150, 200):
        for b in range(n // 2 + 1, n + 1):
            for found, winner in (
                (answer(*_pair(b, n - b)), "first"),
                (answer(*_pair(n - b, b)), "second"),
            ):
                if found == winner:
                    named.append(coin(b, n - b))
                elif found == "cannot tell":
                    untold.append(coin(b, n - b))
                else:
                    return None
    if not named or not untold or max(named) >= min(untold) or max(named) > 0.5:
        return None
    if max(named) < 0.05 <= min(untold):
        return None
    limit = ""
    for known in (0.025, 0.1, 0.01, 0.001):
        if max(named) < known <= min(untold):
            limit = f", as with a limit of {100 * known:g} %"
    half = " The coin's chance counts both sides already: it is not halved again."
    return Mistake(
        f"You name a model where the coin's chance is {100 * max(named):.2f} % or less, and none"
        f" where it is {100 * min(untold):.2f} % or more{limit}.",
        f"The limit is 5 %: below 0.05 name the better one.{half if '2.5' in limit else ''}",
    )


def more(answer: Any) -> list[Any]:
    """The verdict on many counts, and on some with more images that say nothing."""
    found = []
    for n in (1, 5, 6, 8, 12, 20):
        for b in range(n + 1):
            found.append(answer(*_pair(b, n - b)))
    for n in range(21, 200, 7):  # the chances lie close together, and are seldom the same
        for b in range(max(0, n // 2 - 20), min(n, n // 2 + 20)):
            is_border = abs((2 * b - n) ** 2 / n - 1.96**2) < 0.005  # 3.84 is written for it, too
            if not is_border:
                found.append(answer(*_pair(b, n - b)))
    found += [answer(*_pair(600, 0)), answer(*_pair(0, 600))]
    for b, c in ((9, 2), (2, 9), (40, 20), (20, 40), (16, 5), (12, 4), (15, 15), (22, 30)):
        for beside in ({"right": 400}, {"same": 400}, {"other": 400}, {"right": 60, "other": 30}):
            found.append(answer(*_pair(b, c, **beside)))
    return found


def _models() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Labels and two models' predictions; where a coin and the bell curve disagree, the coin is
    right."""
    for seed, (total, only_first, only_second, both_wrong) in enumerate(
        (
            (400, 41, 23, 20),  # the intervals overlap, and yet: first
            (400, 22, 27, 21),  # the second is a little more accurate, and it cannot be told
            (400, 8, 30, 0),
            (400, 12, 2, 60),  # they often give different names, both wrong
            (200, 0, 0, 15),  # the same model twice
            (400, 30, 20, 10),
            (400, 15, 16, 10),
            (300, 60, 10, 30),
            (400, 50, 10, 5),
            (400, 2, 0, 1),
            (400, 50, 2, 10),
            (300, 60, 40, 50),  # two standard deviations apart, and the chance is 5.7 %
            (110, 39, 61, 0),
            (100, 4, 0, 3),  # 1.96 √n would tell them apart, a coin does so in one of eight cases
            (100, 0, 5, 3),
            (100, 9, 2, 3),
            (100, 0, 6, 2),  # but this is rare
        )
    ):
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(10, (total,), generator=generator)
        first, second = labels.clone(), labels.clone()
        places = torch.randperm(total, generator=generator)
        first[places[: only_second + both_wrong]] += 1
        second[places[only_second : only_second + both_wrong + only_first]] += (
            1 if only_first == 0 else 2
        )
        yield labels, first % 10, second % 10


B, C = (
    "int(((first == labels) & (second != labels)).sum())",
    "int(((first != labels) & (second == labels)).sum())",
)
IF, END = "if coin(b, c) >= 0.05:", 'return "first" if b > c else "second"'


def border(far: str) -> dict[str, str]:
    """The edit that asks whether b and c lie further apart than this."""
    return {IF: f"if abs(b - c) <= {far}:"}


SLIPS = (
    Slip(
        border("0"),
        "name the one that classifies more images correctly, by however few",
        "A few images more can be chance: ask the coin",
    ),
    Slip(
        {END: 'return "first" if b < c else "second"'},
        "name the wrong one",
        (
            "b counts the images that only the first classifies correctly. Where b is larger than"
            " c, and the coin says so, the first is better"
        ),
    ),
    Slip(
        {
            B: "wilson_interval(int((first == labels).sum()), len(labels))",
            C: "wilson_interval(int((second == labels).sum()), len(labels))",
            IF: "if b[0] <= c[1] and c[0] <= b[1]:",
        },
        "ask whether the two intervals overlap",
        "That throws away that the images are the same: most of them are easy or hard for both"
        " models. Count the images on which exactly one is right",
    ),
    Slip(
        {
            B: "float((first == labels).double().mean())",
            C: "float((second == labels).double().mean())",
            **border("1.96 * math.sqrt((b * (1 - b) + c * (1 - c)) / len(labels))"),
        },
        "compare the two accuracies as if each model had had images of its own",
        "Most images are easy or hard for both: count those on which exactly one is right",
    ),
    Slip(
        border("1.96 * math.sqrt(int((first != second).sum()))"),
        "count every image on which the two predictions differ",
        "Where both are wrong, neither wins: count the images on which exactly one is right",
    ),
    Slip(
        border("1.96 * math.sqrt(b + c)"),
        "use the bell curve, 1.96 √(b + c)",
        "With few images it sees differences that a coin shows often: with four, in one of eight"
        " cases",
    ),
    Slip(
        {B: "int((first == labels).sum())", C: "int((second == labels).sum())"},
        "count all images that a model classifies correctly as its b or c",
        "Where both are right, neither wins: count the images on which exactly one is right",
    ),
    Slip(
        {IF: "if coin(b, c) >= 0.32:"},
        "call a difference real that a fair coin shows in one of three cases",
        "Less than 5 % is asked for",
    ),
    Slip(
        {IF: "if coin(b, c) >= 0.1:"},
        "put the border at 10 %, or count one side of the coin alone",
        "Either model may be the better one: 5 % of both sides",
    ),
    Slip({IF: "if coin(b, c) >= 0.01:"}, "put the border at 1 %", "5 % is asked for"),
    Slip(
        {IF: "if coin(b, c) < 0.05:"},
        "turn the question round",
        "Where the chance is *below* 5 %, the difference is taken for real",
    ),
    Slip(
        border("1.96 * math.sqrt(len(labels))"),
        "take the root of the number of all images",
        "Only those count on which exactly one is right",
    ),
    Slip(
        border("b + c"),
        'answer "cannot tell" for every pair',
        (
            "Where coin(b, c) is below"
            " 0.05, name the model with"
            " more of these images. Look"
            " at b, c and coin(b, c) for"
            " one pair of models"
        ),
    ),
    Slip(
        border("0.01 * len(labels)"),
        "ask for a whole percent more, whatever the counts are",
        "How far b and c differ by chance depends on how many they are: ask the coin",
    ),
    Slip(
        {END: 'return "first" if b > c else "cannot tell"'},
        "never name the second",
        "If c is larger than b, and the coin says so, the second is better",
    ),
    Slip(
        {IF: "if coin(abs(b - c), 0) >= 0.05:"},
        "give the coin the difference of the two counts, as if all those images were won by one",
        "Give it both counts, b and c",
    ),
    Slip(
        {IF: "if coin(b, c) > 0.95:"},
        "compare the chance with 0.95",
        "A small chance speaks for a difference: below 5 % the better one is named",
    ),
    Slip(
        {IF: "if coin(b, c) >= 5:"},
        "compare the chance with 5, and not with 0.05",
        "A chance lies between 0 and 1",
    ),
    Slip(
        {
            B: "((first == labels) & (second != labels)).sum()",
            C: "((first != labels) & (second == labels)).sum()",
        },
        "give the coin tensors",
        "Make Python numbers of the counts, int(….sum()): those have no largest one",
    ),
    Slip(
        {
            B: "(first == labels).double().mean().item()",
            C: "(second == labels).double().mean().item()",
        },
        "give the coin floats, such as the two accuracies",
        "b and c are counts, whole numbers, int(….sum()): the images on which only the first, and"
        " only the second, is right",
    ),
    Slip(
        {
            IF: "if coin(int((first == second).sum()), int((first != second).sum())) >= 0.05:",
        },
        "ask the coin how often the two models agree",
        "b and c are the images on which only the first, and only the second, is right",
    ),
)

EXERCISE = Exercise(
    answer=my_better_model,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Where both are right, or both are wrong, the image says nothing about which is better."
            " What is left is like tossing a coin: b heads, c tails. When is that too uneven for a"
            " fair coin?"
        ),
        (
            "b = images that only the first classifies correctly, (first == labels) & (second !="
            " labels); c = images that only the second does. If coin(b, c) is 0.05 or more, answer"
            ' "cannot tell".'
        ),
    ),
    same=(
        {B: "((first == labels) > (second == labels)).sum().item()"},
        {IF: "if coin(c, b) > 0.05:"},
    ),
)
