"""Exercise: the confusion matrix, what was there against what the model said."""

from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip


def my_confusion(labels, predictions, num_classes):
    """(n,), (n,) -> counts, int64, (num_classes, num_classes); row = truth, column = prediction."""
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for truth, named in zip(labels.tolist(), predictions.tolist(), strict=True):
        matrix[truth, named] += 1
    return matrix


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # class 3 has no images and is never named; one mistake happens twice; no two rows or columns
    # are alike
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    predictions = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 0])
    yield "matrix of 10 images, 4 classes", answer(labels, predictions, 4)
    generator = torch.Generator().manual_seed(81)
    labels = torch.randint(6, (300,), generator=generator)
    slip = torch.rand(300, generator=generator) < 0.3
    predictions = torch.where(
        slip, (labels + torch.randint(1, 4, (300,), generator=generator)) % 6, labels
    )
    yield "matrix of 300 images, 6 classes", answer(labels, predictions, 6)
    # 4099 in a cell, which neither 8 bits nor float16 can count to, and no class 1
    labels = 2 * (torch.arange(6149) % 3 % 2)
    yield "matrix of 6149 images, 3 classes", answer(labels, 2 - labels, 3)
    # 400 pairs, more than 8 bits can number
    labels = torch.arange(60) % 20
    yield "matrix of 60 images, 20 classes", answer(labels, labels.flip(0), 20)


def notice(answer: Any) -> Mistake | None:
    """How many rows, columns and counts there are."""
    labels = torch.tensor([0, 0, 0, 2, 2, 4])
    predictions = torch.tensor([0, 0, 2, 2, 4, 0])
    made = torch.as_tensor(answer(labels, predictions, 6))
    if made.shape != (6, 6):
        return Mistake(
            f"For six classes, of which three occur, what you make has the shape"
            f" {tuple(made.shape)}.",
            "Each of the num_classes classes must have a row and a column, also where no image"
            " belongs to it.",
        )
    if float(made.sum()) != len(labels):
        right = my_confusion(labels, predictions, 6)
        return Mistake(
            f"{SIX} your counts make {float(made.sum()):g} in all, and not 6."
            f" {_apart(made, right)}",
            "Each image must add 1 at [truth, prediction]."
            + (" Images at the same place add up." if 0 < float(made[0, 0]) < 2 else "")
            + (KEYS if not made.any() else ""),
        )
    if torch.equal(made.double().T, my_confusion(labels, predictions, 6).double()):
        return Mistake(
            "Rows and columns are exchanged: your rows are the predictions.",
            "The row must be the truth, the column the prediction.",
        )
    if torch.equal(made.double(), my_confusion(labels, predictions, 6).double()):
        return _noticed_many(answer)
    try:
        alone = _places(answer(labels[4:5], predictions[4:5], 6))
    except IndexError:
        return Mistake(
            f"{SIX} you make the counts {_places(made)}, and of the fifth image alone your code"
            " raises IndexError.",
            "Each image must add 1 at [its own truth, its own prediction]: both stand at the same"
            " place, that of the image, in labels and in predictions.",
        )
    if alone == "1 at [2, 4]":
        return Mistake(
            f"An image alone is counted where it should be. {SIX} you make the counts"
            f" {_places(made)}.",
            "They should be 2 at [0, 0] and 1 at each of [0, 2], [2, 2], [2, 4] and [4, 0].",
        )
    if numbered := _numbered(answer):
        return numbered
    return Mistake(
        f"Of an image with truth 2 and prediction 4, and no other, you make the counts {alone}.",
        "The image should add 1 at [2, 4], and nothing elsewhere.",
    )


def _noticed_many(answer: Any) -> Mistake | None:
    """Whether more images are counted than a small kind of number holds."""
    many = torch.zeros(MANY, dtype=torch.int64)
    found = float(torch.as_tensor(answer(many, many, 2))[0, 0])
    if found == len(many):
        last = _places(answer(torch.tensor([19]), torch.tensor([18]), 20))
        if last == "1 at [19, 18]":
            return None
        return Mistake(
            "With six classes what we tried is right. With twenty, of an image with truth 19 and"
            f" prediction 18, and no other, you make the counts {last}.",
            "It should add 1 at [19, 18]. If pairs are numbered: there are 400 numbers, and 8 bits"
            " hold 256.",
        )
    return Mistake(
        f"Of {MANY} images with the truth 0 and the prediction 0 you count {found:.0f}; of six"
        " images you count each.",
        "Not every kind of number holds each whole number: count in int64 from the start.",
    )


MANY = 4099  # float16 has no such number
SIX = "Of six images with the truths 0, 0, 0, 2, 2, 4 and the predictions 0, 0, 2, 2, 4, 0"


KEYS = (
    " In a dict, two tensors are two keys, even with the same number: .tolist() or int(…) makes"
    " numbers of them."
)


def _numbered(answer: Any) -> Mistake | None:
    """Whether an image's place is a·truth + b·prediction, counted along the rows of six."""
    places = []
    for truth, named in ((0, 1), (1, 0), (1, 2), (2, 1), (2, 4), (5, 3)):
        made = torch.as_tensor(answer(torch.tensor([truth]), torch.tensor([named]), 6)).flatten()
        if made.count_nonzero() != 1 or made.max() != 1 or len(made) != 36:
            return None
        places.append((truth, named, int(made.argmax())))
    for weight in range(2, 36):
        if weight != 6 and all((weight * t + p) % 36 == place for t, p, place in places):
            return Mistake(
                "In yours, with six classes, an image is counted at place"
                f" {weight} · truth + prediction. (Places count from 0 along the rows, and from 0"
                " again after place 35.)",
                "A row has num_classes places, so it is num_classes · truth + prediction.",
            )
    return None


def _apart(made: torch.Tensor, right: torch.Tensor) -> str:
    """At which places the counts are wrong, or the one image that is not counted."""
    places = (made.double() != right.double()).nonzero().tolist()
    truth, named = places[0]
    if float(right.sum() - made.double().sum()) == 1 and len(places) == 1:
        if right[truth, named] == 1:
            return f"The image with truth {truth} and prediction {named} is not counted."
        return f"Of the two images with truth {truth} and prediction {named} one is not counted."
    told = []
    for place in places[:4]:
        belongs = int(right[tuple(place)])
        told.append(f"{float(made[tuple(place)]):g} at {place}, where {belongs} should be")
    return f"You have {'; '.join(told)}{'; and more' if len(places) > 4 else ''}."


def _places(matrix: Any) -> str:
    """The places of a matrix that are not zero, and what stands there."""
    matrix = torch.as_tensor(matrix)
    places = matrix.nonzero().tolist()
    if not places:
        return "0 everywhere"
    told = ", ".join(f"{float(matrix[tuple(place)]):g} at {place}" for place in places[:6])
    return f"{told} and more" if len(places) > 6 else told


START = "matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)"
LOOP = (
    "for truth, named in zip(labels.tolist(), predictions.tolist(), strict=True):\n       "
    " matrix[truth, named] += 1"
)
ADD, PLACE, END = "matrix[truth, named] += 1", "[truth, named]", "return matrix"

SLIPS = (
    Slip(
        {PLACE: "[named, truth]"},
        "make the prediction the row and the truth the column",
        "It is the transposed matrix: the row is the truth",
    ),
    Slip(
        {LOOP: "matrix[labels, predictions] += 1"},
        "count each pair once, however often it comes, as matrix[labels, predictions] += 1 does",
        "Each image adds 1: go through them one by one with += 1, or use torch.bincount",
    ),
    Slip(
        {ADD: "if truth == named:\n            matrix[truth, named] += 1"},
        "count an image only when it was classified correctly",
        "The mistakes are what the matrix is for: count every image",
    ),
    Slip(
        {ADD: "if truth != named:\n            matrix[truth, named] += 1"},
        "count only the mistakes",
        "The diagonal holds what was classified correctly: count every image",
    ),
    Slip(
        {PLACE: "[truth, truth]"},
        "put each image on the diagonal, by its truth alone",
        "The column is the prediction",
    ),
    Slip(
        {PLACE: "[named, named]"},
        "put each image on the diagonal, by its prediction alone",
        "The row is the truth",
    ),
    Slip(
        {ADD: "matrix[truth, named] += 1\n        matrix[named, truth] += 1"},
        "count each image twice, at [truth, prediction] and at [prediction, truth]",
        "A 4 taken for a 9 is not a 9 taken for a 4: count it once",
    ),
    Slip(
        {PLACE: "[(truth + 1) % num_classes, (named + 1) % num_classes]"},
        "shift rows and columns by one, as if classes were counted from 1",
        "The first class is 0",
    ),
    Slip(
        {PLACE: "[truth - 1, named - 1]"},
        "take 1 from every class",
        "The first class is 0 already, and -1 is the last row",
    ),
    Slip(
        {PLACE: "[(truth + 1) % num_classes, named]"},
        "shift the rows by one",
        "The first class is row 0",
    ),
    Slip(
        {PLACE: "[truth, (named + 1) % num_classes]"},
        "shift the columns by one",
        "The first class is column 0",
    ),
    Slip({"torch.zeros": "torch.ones"}, "start at 1", "Before the first image every count is 0"),
    Slip(
        {END: "return matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)"},
        "divide each row by its sum",
        "Those are shares; the matrix holds counts, whole numbers",
    ),
    Slip(
        {END: "return matrix / matrix.sum(dim=1, keepdim=True)"},
        "divide each row by its sum, which is 0 for a class without images",
        "Return the counts, undivided",
    ),
    Slip(
        {END: "return matrix / matrix.sum(dim=0, keepdim=True).clamp(min=1)"},
        "divide each column by its sum",
        "Those are shares; the matrix holds counts, whole numbers",
    ),
    Slip(
        {END: "return matrix / matrix.sum()"},
        "divide by the number of images",
        "Those are shares; the matrix holds counts, whole numbers",
    ),
    Slip(
        {", dtype=torch.int64": ""},
        "count in floats",
        (
            "Counts are whole numbers: dtype=torch.int64 in torch.zeros, or .to(torch.int64) at"
            " the end"
        ),
    ),
    Slip(
        {START: f"num_classes = int(torch.cat([labels, predictions]).max()) + 1\n    {START}"},
        "make rows and columns only up to the largest class that occurs",
        "A class without images has a row, too: num_classes rows and columns",
    ),
    Slip(
        {START: f"num_classes = 10\n    {START}"},
        "make ten rows and ten columns whatever num_classes is",
        "The number of classes is the argument num_classes",
    ),
    Slip(
        {
            START: (
                "there = torch.cat([labels, predictions]).unique().tolist()\n"
                "    matrix = torch.zeros(len(there), len(there), dtype=torch.int64)"
            ),
            PLACE: "[there.index(truth), there.index(named)]",
        },
        "make rows and columns only for the classes that occur",
        "A class without images has a row, too: num_classes rows and columns",
    ),
    Slip(
        {
            START: "pairs = labels * num_classes + predictions",
            LOOP: "matrix = torch.bincount(pairs)",
            END: "return matrix.reshape(num_classes, num_classes)",
        },
        "call torch.bincount without minlength",
        "It stops at the last pair that occurs: minlength=num_classes**2",
    ),
    Slip(
        {
            START: "pairs = labels * (num_classes - 1) + predictions",
            LOOP: "matrix = torch.bincount(pairs, minlength=num_classes**2)",
            END: "return matrix.reshape(num_classes, num_classes)",
        },
        "number the pairs by labels * (num_classes - 1) + predictions",
        "Two pairs then have the same number: each row has num_classes places",
    ),
    Slip(
        {"dtype=torch.int64": "dtype=torch.int32"},
        "count in int32",
        "int64 is asked for, which is what whole numbers are in torch if nothing is said",
    ),
    Slip(
        {"dtype=torch.int64": "dtype=torch.uint8", END: "return matrix.long()"},
        "count in 8 bits, as uint8 does, in which 256 becomes 0",
        "Count in int64 from the start: dtype=torch.int64 in torch.zeros",
    ),
    Slip(
        {
            START: "matrix = [[0] * num_classes] * num_classes",
            ADD: "matrix[truth][named] += 1",
            END: "return torch.tensor(matrix)",
        },
        "make all rows one and the same list, as [[0] * n] * n does",
        "Each row needs a list of its own, [[0] * n for _ in range(n)]; or begin with torch.zeros",
    ),
    Slip(
        {
            LOOP: (
                "for i in range(num_classes):\n        matrix[i] = torch.tensor([int(((labels =="
                " i) | (predictions == j)).sum()) for j in range(num_classes)])"
            )
        },
        "count at [i, j] the images with truth i *or* prediction j",
        "Both must hold: &",
    ),
    Slip(
        {
            START: "pairs = labels * 10 + predictions",
            LOOP: "matrix = torch.bincount(pairs, minlength=num_classes**2)",
            END: "return matrix.reshape(num_classes, num_classes)",
        },
        "number the pairs by labels * 10 + predictions, whatever num_classes is",
        "A row has num_classes places: labels * num_classes + predictions",
    ),
    Slip(
        {END: "matrix[-1] = 0\n    matrix[:, -1] = 0\n    return matrix"},
        "leave out the last class",
        "The classes are 0 to num_classes - 1, and the last one counts, too",
    ),
    Slip(
        {END: "return matrix[:-1, :-1]"},
        "have one row and one column too few",
        "There are num_classes of each",
    ),
    Slip(
        {END: "return matrix.flatten()"},
        "return all counts in one row",
        "Return num_classes rows and columns: .view(num_classes, num_classes)",
    ),
)

EXERCISE = Exercise(
    answer=my_confusion,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Begin with zeros, num_classes rows and as many columns, whole numbers. What does one"
            " image with truth 2 and prediction 0 change?"
        ),
        (
            "Go through the images with zip(labels.tolist(), predictions.tolist()), and add 1 at"
            " [truth, prediction]. matrix[labels, predictions] += 1, all at once, counts each pair"
            " only once."
        ),
    ),
    same=(
        {
            LOOP: (
                "matrix.index_put_((labels, predictions), torch.ones_like(labels), accumulate=True)"
            )
        },
        {
            START: "pairs = labels * num_classes + predictions",
            LOOP: "matrix = torch.bincount(pairs, minlength=num_classes**2)",
            END: "return matrix.view(num_classes, num_classes)",
        },
    ),
)
