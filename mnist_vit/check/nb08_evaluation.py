"""Exercises of notebook 08: the confusion matrix, the interval, the transposed matrix, the better of two models."""

import math
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from .core import Exercise, Mistake, Mutant

# Confusion matrix ----------------------------------------------------------------------------------------------------


def _confusion(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for truth, named in zip(labels.tolist(), predictions.tolist(), strict=True):
        matrix[truth, named] += 1
    return matrix


def _changed(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, int], Tensor]:
    """The right matrix with something done to it."""
    return lambda labels, predictions, num_classes: change(_confusion(labels, predictions, num_classes))


def _pairs_once(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    matrix[labels, predictions] += 1
    return matrix


def _only(right: bool) -> Callable[[Tensor, Tensor, int], Tensor]:
    def answer(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
        chosen = (labels == predictions) == right
        return _confusion(labels[chosen], predictions[chosen], num_classes)

    return answer


def _as_large_as_the_largest(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    return _confusion(labels, predictions, int(torch.cat([labels, predictions]).max()) + 1)


def _run_confusion(answer: Callable[[Tensor, Tensor, int], Tensor]) -> Iterator[tuple[str, Any]]:
    # class 3 has no images and is never named; one mistake happens twice; no two rows or columns are alike
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    predictions = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 0])
    yield "matrix of 10 images, 4 classes", answer(labels, predictions, 4)
    generator = torch.Generator().manual_seed(81)
    labels = torch.randint(6, (300,), generator=generator)
    slip = torch.rand(300, generator=generator) < 0.3
    predictions = torch.where(slip, (labels + torch.randint(1, 4, (300,), generator=generator)) % 6, labels)
    yield "matrix of 300 images, 6 classes", answer(labels, predictions, 6)


CONFUSION = Exercise(
    name="confusion",
    answer="my_confusion",
    stars=2,
    reference=_confusion,
    run=_run_confusion,
    mutants=(
        Mutant(
            _changed(lambda matrix: matrix.T.clone()),
            "make the prediction the row and the truth the column. It is the transposed matrix: the row is the truth",
        ),
        Mutant(
            _pairs_once,
            "write matrix[labels, predictions] += 1 for all images at once. Each pair is then counted once, however "
            "often it comes. Go through the images one by one, or use torch.bincount",
        ),
        Mutant(
            _only(True),
            "count an image only when it was read right. The mistakes are what the matrix is for: count every image",
        ),
        Mutant(
            _only(False),
            "count only the mistakes. The diagonal holds what was read right: count every image",
        ),
        Mutant(
            _changed(lambda matrix: matrix.sum(dim=1).diag()),
            "put each image on the diagonal, by its truth alone. The column is the prediction",
        ),
        Mutant(
            _changed(lambda matrix: matrix.sum(dim=0).diag()),
            "put each image on the diagonal, by its prediction alone. The row is the truth",
        ),
        Mutant(
            _changed(lambda matrix: matrix + matrix.T),
            "count each image twice, at [truth, prediction] and at [prediction, truth]. A 4 read as 9 is not a 9 read "
            "as 4: count it once",
        ),
        Mutant(
            _changed(lambda matrix: matrix.roll((1, 1), (0, 1))),
            "shift rows and columns by one, as if classes were counted from 1. The first class is 0",
        ),
        Mutant(
            _changed(lambda matrix: matrix.roll((-1, -1), (0, 1))),
            "take 1 from every class. The first class is 0 already, and -1 is the last row",
        ),
        Mutant(_changed(lambda matrix: matrix.roll(1, 0)), "shift the rows by one. The first class is row 0"),
        Mutant(_changed(lambda matrix: matrix.roll(1, 1)), "shift the columns by one. The first class is column 0"),
        Mutant(_changed(lambda matrix: matrix + 1), "start at 1. Before the first image every count is 0"),
        Mutant(
            _changed(lambda matrix: matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)),
            "divide each row by its sum. Those are shares; the matrix holds counts, whole numbers",
        ),
        Mutant(
            _changed(lambda matrix: matrix / matrix.sum(dim=1, keepdim=True)),
            "divide each row by its sum, which is 0 for a class without images. Return the counts, undivided",
        ),
        Mutant(
            _changed(lambda matrix: matrix / matrix.sum(dim=0, keepdim=True).clamp(min=1)),
            "divide each column by its sum. Those are shares; the matrix holds counts, whole numbers",
        ),
        Mutant(
            _changed(lambda matrix: matrix / matrix.sum()),
            "divide by the number of images. Those are shares; the matrix holds counts, whole numbers",
        ),
        Mutant(
            _changed(lambda matrix: matrix.float()),
            "count in floats. torch.zeros makes floats if nothing is said: dtype=torch.int64",
        ),
        Mutant(
            _as_large_as_the_largest,
            "make the matrix as large as the largest class that occurs. A class without images has a row, too: "
            "num_classes rows and columns",
        ),
        Mutant(
            _changed(lambda matrix: matrix.flatten()),
            "leave out the last step: num_classes² counts in one row. Lay them out: .view(num_classes, num_classes)",
        ),
    ),
    hints=(
        "Begin with zeros, num_classes rows and as many columns, whole numbers. What does one image with truth 2 and "
        "prediction 0 change?",
        "Go through the images with zip(labels.tolist(), predictions.tolist()), and add 1 at [truth, prediction]. "
        "matrix[labels, predictions] += 1, all at once, counts each pair only once.",
        "matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64); for truth, named in zip(labels.tolist(), "
        "predictions.tolist()): matrix[truth, named] += 1; return matrix",
    ),
)


# Wilson's interval ---------------------------------------------------------------------------------------------------


def _wilson(
    correct: int,
    total: int,
    z: float = 1.96,
    shift: Callable[[float, int], float] = lambda z, n: z * z / (2 * n),
    spread: Callable[[float, float, int], float] = lambda p, z, n: z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)),
    below: Callable[[float, int], float] = lambda z, n: 1 + z * z / n,
    finish: Callable[[float, float], tuple[float, float]] = lambda middle, reach: (middle - reach, middle + reach),
) -> tuple[float, float]:
    """Wilson's interval with one of its parts exchanged; as it stands, the right one."""
    share = correct / total
    return finish((share + shift(z, total)) / below(z, total), spread(share, z, total) / below(z, total))


def _wrong(**parts: Callable) -> Callable[..., tuple[float, float]]:
    return lambda correct, total, z=1.96: _wilson(correct, total, z, **parts)


def _divided(correct: int, total: int, z: float, middle: bool = True, reach: bool = True) -> tuple[float, float]:
    """Wilson's interval where one of its two parts is not divided."""
    low, high = _wilson(correct, total, z)
    below = 1 + z * z / total
    center, width = (low + high) / 2 * (1 if middle else below), (high - low) / 2 * (1 if reach else below)
    return center - width, center + width


def _plain(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    share = correct / total
    reach = z * math.sqrt(share * (1 - share) / total)
    return share - reach, share + reach


def _plain_cut_off(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    low, high = _plain(correct, total, z)
    return max(0.0, low), min(1.0, high)


def _run_wilson(answer: Callable[..., tuple[float, float]]) -> Iterator[tuple[str, Any]]:
    for correct, total, z in ((8, 10, 1.96), (4945, 5000, 1.96), (10, 10, 1.96), (0, 4, 1.96), (90, 100, 2.576)):
        got: Any = answer(correct, total, z)
        if hasattr(got, "tolist"):  # a tensor or an array
            got = got.tolist()
        what = f"{correct} of {total}" + (f" and z = {z}" if z != 1.96 else "")
        yield f"interval for {what}", got


WILSON = Exercise(
    name="wilson",
    answer="my_wilson",
    stars=2,
    reference=_wilson,
    run=_run_wilson,
    mutants=(
        Mutant(
            _plain,
            "leave out all three terms with z². That is the plain interval: for 8 of 10 it ends above 1, for 10 of 10 "
            "it has no width. Wilson's terms mend that",
        ),
        Mutant(
            _plain_cut_off,
            "take the plain interval, without the terms with z², and cut it off at 0 and 1. Wilson's needs no cutting",
        ),
        Mutant(
            _wrong(below=lambda z, n: 1.0),
            "leave out the denominator. Divide middle and reach by 1 + z² / n",
        ),
        Mutant(
            lambda correct, total, z=1.96: _divided(correct, total, z, middle=False),
            "divide the reach alone by 1 + z² / n. The denominator is under the middle, too: parentheses around it",
        ),
        Mutant(
            lambda correct, total, z=1.96: _divided(correct, total, z, reach=False),
            "divide the middle alone by 1 + z² / n. The denominator is under the reach, too",
        ),
        Mutant(
            _wrong(shift=lambda z, n: 0.0),
            "leave out z² / 2n in the numerator. It moves the middle towards one half",
        ),
        Mutant(
            _wrong(shift=lambda z, n: z * z / n),
            "add z² / n in the numerator. It is half of that: z² / 2n",
        ),
        Mutant(
            _wrong(shift=lambda z, n: z * z / 2 * n),
            "write z * z / 2 * n, which multiplies by n. Put 2 * n into parentheses",
        ),
        Mutant(
            _wrong(spread=lambda p, z, n: z * math.sqrt(p * (1 - p) / n + z * z / (4 * n))),
            "write z² / 4n under the root. It is n squared there: z² / 4n²",
        ),
        Mutant(
            _wrong(spread=lambda p, z, n: z * math.sqrt(p * (1 - p) / n + z * z / 4 * n * n)),
            "write z * z / 4 * n * n, which multiplies by n². Put 4 * n * n into parentheses",
        ),
        Mutant(
            _wrong(spread=lambda p, z, n: z * math.sqrt(p * (1 - p) / n)),
            "leave out z² / 4n² under the root. Without it the interval has no width at 10 of 10",
        ),
        Mutant(
            _wrong(spread=lambda p, z, n: math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))),
            "leave out z in front of the root. The reach is z standard deviations",
        ),
        Mutant(
            _wrong(spread=lambda p, z, n: z * (p * (1 - p) / n + z * z / (4 * n * n))),
            "leave out the root. What stands under it is a variance",
        ),
        Mutant(
            _wrong(spread=lambda p, z, n: z * math.sqrt(p * (1 - p) + z * z / (4 * n * n))),
            "leave out the division by n under the root. More images make the interval narrower: p (1 - p) / n",
        ),
        Mutant(
            lambda correct, total, z=1.96: _wilson(total - correct, total, z),
            "use the share of mistakes. The share of right answers is correct / total",
        ),
        Mutant(
            lambda correct, total, z=1.96: tuple(100 * end for end in _wilson(correct, total, z)),
            "give percent. Return shares, from 0 to 1",
        ),
        Mutant(
            _wrong(finish=lambda middle, reach: (middle + reach, middle - reach)),
            "return the upper end first. The lower end comes first: return low, high",
        ),
        Mutant(
            _wrong(finish=lambda middle, reach: (middle, reach)),
            "return the middle and the reach. Return the two ends: middle - reach, middle + reach",
        ),
        Mutant(
            lambda correct, total, z=1.96: _wilson(correct, total),
            "use 1.96 whatever z is. Use the argument z",
        ),
    ),
    hints=(
        "Three pieces: the middle, the reach to either side, and the denominator 1 + z² / n under both. The share is "
        "correct / total.",
        "middle = (share + z² / 2n) / (1 + z² / n); reach = z √(share (1 - share) / n + z² / 4n²) / (1 + z² / n). In "
        "Python, z² / 2n is z * z / (2 * n).",
        "p, n = correct / total, total; middle = (p + z * z / (2 * n)) / (1 + z * z / n); reach = z * math.sqrt(p * "
        "(1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n); return middle - reach, middle + reach",
    ),
)


# The transposed matrix -----------------------------------------------------------------------------------------------


def _find_transposed(matrices: Tensor, images: Tensor) -> int:
    return next(i for i, matrix in enumerate(matrices) if not torch.equal(matrix.sum(dim=1), images))


def _first(fits: Callable[[Tensor, Tensor], bool]) -> Callable[[Tensor, Tensor], int]:
    """The first matrix of which something is true; the last one if it is true of none."""
    return lambda matrices, images: next((i for i, m in enumerate(matrices) if fits(m, images)), len(matrices) - 1)


def _row_is_wrong(row: int) -> Callable[[Tensor, Tensor], bool]:
    return lambda matrix, images: bool(matrix[row].sum() != images[row])


def _most(size: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], int]:
    return lambda matrices, images: max(range(len(matrices)), key=lambda i: float(size(matrices[i])))


def _trios() -> Iterator[tuple[Tensor, Tensor]]:
    """Three matrices each, one of them transposed, and how many images each class has.

    In the last four as many images come into one class as leave it, so that one row of the transposed matrix is right.
    """
    generator = torch.Generator().manual_seed(82)
    for number, place in enumerate((1, 0, 2, 2, 1, 0, 2, 1, 1, 1, 1)):
        images = torch.tensor([30, 41, 25, 36]) + torch.randint(10, (4,), generator=generator)
        labels = torch.arange(4).repeat_interleave(images)
        matrices = []
        for i in range(3):
            slip = torch.rand(len(labels), generator=generator) < 0.1 + 0.2 * torch.rand(1, generator=generator)
            step = torch.randint(1, 3, (len(labels),), generator=generator)
            matrices.append(_confusion(labels, torch.where(slip, (labels + step) % 4, labels), 4))
            if i == place:
                matrices[i] = matrices[i].T.contiguous()
        if number >= 2 and place > 0:  # as many come into each class as leave it: the columns add up here, too
            wrong = torch.tensor([[0, 3, 0, 0], [0, 0, 2, 1], [2, 0, 0, 0], [1, 0, 0, 0]])
            matrices[0] = wrong + (images - wrong.sum(dim=1)).diag()
        if number >= 7:
            wrong = torch.tensor([[0, 3, 0, 0], [3, 0, 2, 0], [0, 0, 0, 1], [0, 0, 0, 0]]).roll(
                (number, number), (0, 1)
            )
            matrices[place] = (wrong + (images - wrong.sum(dim=1)).diag()).T.contiguous()
        yield torch.stack(matrices), images


def _run_find_transposed(answer: Callable[[Tensor, Tensor], int]) -> Iterator[tuple[str, Any]]:
    places: list[int] = []
    for matrices, images in _trios():
        place = answer(matrices, images)
        if places and place is None:
            raise Mistake(
                "nothing came back for some of the trios: there none of the three was found. One row that does not add "
                "up is enough; some rows of a transposed matrix may be right."
            )
        if place is None or place is ...:
            yield "place", place
            return
        if isinstance(place, Tensor) and place.numel() == 1 and not place.is_floating_point():
            place = place.item()
        if isinstance(place, bool) or not isinstance(place, Integral) or abs(place) > 99:
            raise Mistake("the answer must be a place, 0, 1 or 2, as an int.")
        places.append(int(place))
    yield f"places found in {len(places)} trios of matrices", torch.tensor(places)


FIND_TRANSPOSED = Exercise(
    name="find_transposed",
    answer="my_find_transposed",
    stars=1,
    reference=_find_transposed,
    run=_run_find_transposed,
    mutants=(
        Mutant(
            _first(lambda matrix, images: not torch.equal(matrix.sum(dim=0), images)),
            "look for columns that do not add up. A column holds all that was called so, and that may be any number; "
            "each row must add up to the images of its class: matrix.sum(dim=1)",
        ),
        *(
            Mutant(
                _first(_row_is_wrong(row)),
                f"look at row {row} alone: it may be right by chance. Compare all rows",
            )
            for row in range(4)
        ),
        Mutant(
            _first(lambda matrix, images: bool((matrix.sum(dim=1) != images).all())),
            "look for a matrix in which no row adds up: some rows of a transposed matrix may be right. One that does "
            "not add up is enough",
        ),
        Mutant(
            _first(lambda matrix, images: torch.equal(matrix.sum(dim=1), images)),
            "name the first matrix whose rows add up. That one is right: name the one whose rows do not",
        ),
        Mutant(
            _first(lambda matrix, images: torch.equal(matrix.sum(dim=0), images)),
            "look for columns that add up to the images. They do in the transposed matrix, and sometimes in a right "
            "one, when as many come into each class as leave it. Look for rows that do not add up",
        ),
        Mutant(
            lambda matrices, images: _find_transposed(matrices, images) + 1,
            "count from 1. The first matrix is number 0",
        ),
        Mutant(
            _most(lambda matrix: -matrix.trace() / matrix.sum()),
            "name the matrix of the least accurate model. Transposing leaves the diagonal, and so the accuracy, as it "
            "was: compare row sums",
        ),
        Mutant(
            _most(lambda matrix: (matrix - matrix.T).abs().sum()),
            "name the matrix that is least symmetric. A matrix and its transposed are equally so: compare row sums",
        ),
        Mutant(
            lambda matrices, images: int((matrices.sum(dim=1) - images).abs().sum(dim=1).argmax()),
            "name the matrix whose columns are farthest from the number of images. With three axes dim=1 runs down the "
            "columns; the rows are added up by dim=2",
        ),
    ),
    hints=(
        "Transposing changes neither the sum of the matrix nor its diagonal. What of it is known without any model? "
        "How many images each class has.",
        "In a right matrix row i adds up to images[i]. Go through the three matrices with enumerate, and compare "
        "matrix.sum(dim=1) with images.",
        "for place, matrix in enumerate(matrices): if not torch.equal(matrix.sum(dim=1), images): return place",
    ),
)


# The better of two models --------------------------------------------------------------------------------------------

VERDICTS = ("cannot tell", "first", "second")


def _verdict(difference: float, border: float) -> str:
    return "cannot tell" if abs(difference) <= border else VERDICTS[1] if difference > 0 else VERDICTS[2]


def _counts(labels: Tensor, first: Tensor, second: Tensor) -> tuple[int, int]:
    """How many images only the first model reads right, and how many only the second."""
    return int(((first == labels) & (second != labels)).sum()), int(((first != labels) & (second == labels)).sum())


def _judge(border: Callable[[int, int, int], float]) -> Callable[[Tensor, Tensor, Tensor], str]:
    """A verdict by how far the two counts may be apart, given them and the number of images."""

    def answer(labels: Tensor, first: Tensor, second: Tensor) -> str:
        b, c = _counts(labels, first, second)
        return _verdict(b - c, border(b, c, len(labels)))

    return answer


_better_model = _judge(lambda b, c, n: 1.96 * math.sqrt(b + c))


def _better_than_itself(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = _counts(labels, first, second)
    return "cannot tell" if abs(b - c) < 1.96 * math.sqrt(b + c) else "first" if b > c else "second"


def _all_right_ones(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = int((labels == first).sum()), int((labels == second).sum())
    return _verdict(b - c, 1.96 * math.sqrt(b + c))


def _swapped(labels: Tensor, first: Tensor, second: Tensor) -> str:
    return _better_model(labels, second, first)


def _every_difference(labels: Tensor, first: Tensor, second: Tensor) -> str:
    b, c = _counts(labels, first, second)
    return _verdict(b - c, 1.96 * math.sqrt(int((first != second).sum())))


def _intervals_apart(labels: Tensor, first: Tensor, second: Tensor) -> str:
    intervals = [_wilson(int((labels == named).sum()), len(labels)) for named in (first, second)]
    return _verdict(max(intervals[0][0] - intervals[1][1], 0) - max(intervals[1][0] - intervals[0][1], 0), 0)


def _as_if_other_images(labels: Tensor, first: Tensor, second: Tensor) -> str:
    shares = [float((labels == named).double().mean()) for named in (first, second)]
    return _verdict(shares[0] - shares[1], 1.96 * math.sqrt(sum(p * (1 - p) for p in shares) / len(labels)))


def _one_side(labels: Tensor, first: Tensor, second: Tensor) -> str:
    told = _better_model(labels, first, second)
    return "first" if told == "first" else "cannot tell"


def _models() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Labels and two models' predictions; far enough from the border that every sound test says the same."""
    for seed, (total, only_first, only_second, both_wrong) in enumerate(
        (
            (5000, 41, 23, 20),  # the intervals overlap, and yet: first
            (5000, 22, 27, 21),  # the second is a little more accurate, and it cannot be told
            (5000, 8, 30, 40),
            (10_000, 12, 2, 60),  # they often give different names, both wrong
            (3000, 0, 0, 15),  # the same model twice
            (5000, 30, 20, 10),
            (2000, 200, 20, 30),
            (5000, 100, 20, 5),
            (400, 2, 0, 1),
            (10_000, 240, 5, 10),
        )
    ):
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(10, (total,), generator=generator)
        first, second = labels.clone(), labels.clone()
        places = torch.randperm(total, generator=generator)
        first[places[: only_second + both_wrong]] += 1
        second[places[only_second : only_second + both_wrong + only_first]] += 1 if only_first == 0 else 2
        yield labels, first % 10, second % 10


def _run_better_model(answer: Callable[[Tensor, Tensor, Tensor], str]) -> Iterator[tuple[str, Any]]:
    told = []
    for labels, first, second in _models():
        verdict = answer(labels, first, second)
        if verdict is None or verdict is ...:
            yield "verdict", verdict
            return
        if not isinstance(verdict, str) or verdict not in VERDICTS:
            raise Mistake('the answer must be one of the texts "first", "second" and "cannot tell".')
        told.append(VERDICTS.index(verdict))
    yield f"verdicts on {len(told)} pairs of models (0 cannot tell, 1 first, 2 second)", torch.tensor(told)


BETTER_MODEL = Exercise(
    name="better_model",
    answer="my_better_model",
    stars=2,
    reference=_better_model,
    run=_run_better_model,
    mutants=(
        Mutant(
            _judge(lambda b, c, n: 0),
            "name the one that reads more images right, by however few. A few images more can be chance: compare the "
            "difference with 1.96 √(b + c)",
        ),
        Mutant(
            _swapped,
            "name the wrong one: you count mistakes as right answers, or have exchanged b and c. b counts the images "
            "that only the first reads right",
        ),
        Mutant(
            _intervals_apart,
            "ask whether the two intervals overlap. That throws away that the images are the same: most of them are "
            "easy or hard for both models. Count the images on which exactly one is right",
        ),
        Mutant(
            _as_if_other_images,
            "compare the two accuracies as if each model had had images of its own. Most images are easy or hard for "
            "both: count those on which exactly one is right",
        ),
        Mutant(
            _every_difference,
            "count every image on which the two predictions differ. Where both are wrong, neither wins: count the "
            "images on which exactly one is right",
        ),
        Mutant(
            _better_than_itself,
            "ask whether the difference is smaller than the border: with b = c = 0 both are 0, and a model is better "
            "than itself. Not larger is enough: <=",
        ),
        Mutant(
            _all_right_ones,
            "count all images that a model reads right as its b or c. Where both are right, neither wins: count the "
            "images on which exactly one is right",
        ),
        Mutant(
            _judge(lambda b, c, n: math.sqrt(b + c)),
            "leave out 1.96. One standard deviation is passed by chance in one of three cases: 1.96 √(b + c)",
        ),
        Mutant(
            _judge(lambda b, c, n: 1.96 * math.sqrt(n)),
            "take the root of the number of all images. Only those count on which exactly one is right: √(b + c)",
        ),
        Mutant(
            lambda labels, first, second: "cannot tell",
            'answer "cannot tell" for every pair. Is the border too far out? It is 1.96 √(b + c), with the root',
        ),
        Mutant(
            _judge(lambda b, c, n: 0.001 * n),
            "ask for a tenth of a percent more, whatever the counts are. How far b and c differ by chance depends on "
            "how many they are: 1.96 √(b + c)",
        ),
        Mutant(
            _one_side,
            "never name the second. If c is larger than b by more than 1.96 √(b + c), the second is better",
        ),
    ),
    hints=(
        "Where both are right, or both are wrong, the image says nothing about which is better. What is left is like "
        "tossing a coin: b heads, c tails. When is that too uneven for a fair coin?",
        "b = images that only the first reads right, c = images that only the second does. If abs(b - c) is not more "
        'than 1.96 √(b + c), answer "cannot tell"; also for b = c = 0.',
        "b = int(((first == labels) & (second != labels)).sum()), c the other way round; if abs(b - c) <= 1.96 * "
        'math.sqrt(b + c): return "cannot tell"; return "first" if b > c else "second"',
    ),
)


EXERCISES: tuple[Exercise, ...] = (CONFUSION, WILSON, FIND_TRANSPOSED, BETTER_MODEL)
