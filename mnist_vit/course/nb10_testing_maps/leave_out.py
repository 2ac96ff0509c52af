"""Exercise: a map made by leaving out one patch at a time."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, describe, random


def my_leave_out(logits_without, labels: Tensor, patches: int) -> Tensor:
    # logits_without(hidden): (n, patches) of booleans -> logits (n, classes)
    # -> (n, patches): how far the right digit's probability falls without each patch
    def right(hidden):
        probabilities = logits_without(hidden).softmax(dim=-1)
        return probabilities[torch.arange(len(labels)), labels]

    nothing = torch.zeros(len(labels), patches, dtype=torch.bool)
    whole, without = right(nothing), []
    for patch in range(patches):
        one = nothing.clone()
        one[:, patch] = True
        without.append(right(one))
    return whole.unsqueeze(1) - torch.stack(without, dim=1)


def _model(patches: int, seed: int, n: int = 3) -> Callable[[Tensor], Tensor]:
    """Logits of n pictures: a sum over the patches that are left, and over pairs of them."""
    alone, pairs = random(n, patches, 4, seed=seed), random(n, patches, patches, 4, seed=seed + 1)

    def logits_without(hidden: Tensor) -> Tensor:
        is_right = isinstance(hidden, Tensor) and hidden.shape == (n, patches)
        if not is_right or hidden.dtype != torch.bool:
            given = f"numbers of the kind {hidden.dtype}" if is_right else describe(hidden)
            raise Mistake(
                f"logits_without was given {given}.",
                f"For {n} picture{'s' * (n > 1)} and {patches} patches it wants booleans of the"
                f" shape ({n}, {patches}), one row for each picture: torch.zeros(…,"
                " dtype=torch.bool).",
            )
        left = (~hidden).float()
        return torch.einsum("np,npc->nc", left, alone) + 0.3 * torch.einsum(
            "np,nq,npqc->nc", left, left, pairs
        )

    return logits_without


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    yield (
        "what each of 5 patches is worth, in 3 pictures",
        answer(_model(5, 121), torch.tensor([2, 0, 3]), 5),
    )
    yield "the same of 9 patches", answer(_model(9, 124), torch.tensor([1, 1, 2]), 9)
    yield (
        "the same of 4 patches in a single picture",
        answer(_model(4, 127, 1), torch.tensor([3]), 4),
    )


def notice(answer: Any) -> Mistake | None:
    """How many patches are hidden when logits are asked for, and what is made of them."""
    asked: tuple[set[tuple[int, ...]], ...] = (set(), set())

    def logits_without(hidden: Tensor) -> Tensor:
        for places, row in zip(asked, hidden, strict=True):
            places.add(tuple(row.nonzero()[:, 0].tolist()))
        gone = hidden.double() @ torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
        return torch.stack([3 - gone / 2, gone * 0 + 0.5, gone / 4], dim=1).float()

    labels = torch.tensor([0, 2])
    found = answer(logits_without, labels.clone(), 3)
    if asked == ({(0,), (1,), (2,)},) * 2:
        return Mistake(
            "You ask for logits with each single patch hidden, and never with none hidden.",
            "Ask once with nothing hidden: how far a probability falls is measured from there.",
        )
    for picture, sets in enumerate(asked):
        if sets == {(), (0,), (1,), (2,)}:
            continue
        kinds = [" and ".join(map(str, places)) or "none" for places in sorted(sets)]
        where = "" if asked[0] == asked[1] else f" in picture {picture} of two"
        return Mistake(
            f"Given three patches, 0 to 2, you ask for logits with these hidden{where}:"
            f" {'; '.join(kinds)}.",
            "Ask once with none hidden, and once for each patch with that one alone hidden, in"
            " every picture.",
        )
    right = my_leave_out(logits_without, labels, 3)
    if found.shape != right.shape:
        return Mistake(
            f"For 2 pictures and 3 patches you give the shape {tuple(found.shape)}.",
            "It should be (2, 3): a number for each picture and patch.",
        )
    if torch.allclose(found, right, atol=1e-5):
        return _noticed_single(answer)
    if torch.allclose(found.flatten().sort().values, right.flatten().sort().values, atol=1e-5):
        rows = [", ".join(f"{value:.4g}" for value in row.tolist()) for row in (found[0], right[0])]
        return Mistake(
            "For 2 pictures and 3 patches your six numbers are right, and stand in other places:"
            f" the row of picture 0 is {rows[0]}, and should be {rows[1]}.",
            _advice_on_places(found, right),
        )
    for own, wanted, label in zip(found, right, ("highest", "lowest"), strict=True):
        if not torch.allclose(own, wanted, atol=1e-5):
            told = ", ".join(f"{value:.4g}" for value in own.tolist())
            falls = ", ".join(f"{value:.4g}" for value in wanted.tolist())
            return Mistake(
                f"In a picture whose right digit has the {label} of three logits when nothing is"
                f" hidden, you give {told} for patches 0, 1 and 2.",
                f"It should be {falls}. Take the probability of the label, after a softmax over the"
                " classes, whether the model would name it or not: with nothing hidden, minus that"
                " without the patch.",
            )
    return None


def _noticed_single(answer: Any) -> Mistake | None:
    """What shape comes of a single picture."""
    found = answer(_model(4, 127, 1), torch.tensor([3]), 4)
    if found.shape == (1, 4):
        return None
    return Mistake(
        "For 2 pictures your numbers are right. For a single picture with 4 patches you give the"
        f" shape {tuple(found.shape)}.",
        "It should be (1, 4): the axis of the pictures stays where its length is 1. squeeze()"
        " without an axis takes it away.",
    )


def _advice_on_places(found: Tensor, right: Tensor) -> str:
    """What to do where the numbers are right, and stand in other places."""
    if torch.allclose(found.sort(dim=1).values, right.sort(dim=1).values, atol=1e-5):
        return (
            "Each picture has its own numbers, in another order: column p is for patch p, the one"
            " that is hidden by hidden[:, p] = True."
        )
    return (
        "Each picture has a row, and each patch a column. torch.stack(…, dim=1) puts the numbers of"
        " a patch, one for each picture, into a column; view and reshape would read them one after"
        " the other into rows."
    )


RIGHT, ONE = "return probabilities[torch.arange(len(labels)), labels]", "one = nothing.clone()"
END, HIDDEN = "return whole.unsqueeze(1) - torch.stack(without, dim=1)", "one[:, patch] = True"
SOFTMAX = "logits_without(hidden).softmax(dim=-1)"

SLIPS = (
    Slip(
        {END: "return torch.stack(without, dim=1) - whole.unsqueeze(1)"},
        "subtract the other way round",
        "A patch that matters makes the probability fall, and should get a large number",
    ),
    Slip(
        {END: "return torch.stack(without, dim=1)"},
        "give the probability that is left",
        "Ask how much smaller it is than with nothing hidden",
    ),
    Slip(
        {ONE: "one = nothing"},
        "never show a patch again",
        "More and more of the picture is hidden. Begin each time with nothing hidden",
    ),
    Slip(
        {ONE: "one = ~nothing", HIDDEN: "one[:, patch] = False"},
        "show one patch alone",
        "Leave out one, and show all others",
    ),
    Slip(
        {SOFTMAX: "logits_without(hidden)"},
        "compare logits",
        "The probability, after the softmax, is asked for",
    ),
    Slip(
        {SOFTMAX: "logits_without(hidden).log_softmax(dim=-1)"},
        "compare logarithms of probabilities",
        "The probability itself is asked for",
    ),
    Slip(
        {RIGHT: "return probabilities.amax(dim=-1)"},
        "take the largest probability, whichever digit it belongs to",
        "Without a patch that may be another one. Take the label's",
    ),
    Slip(
        {
            RIGHT: (
                "first = logits_without(nothing).argmax(dim=-1)\n"
                "        return probabilities[torch.arange(len(labels)), first]"
            )
        },
        "take the digit that the model names with nothing hidden, whatever the label is",
        "labels says which digit is right; the model may name another one",
    ),
    Slip(
        {END: "return (whole.unsqueeze(1) - torch.stack(without, dim=1)).clamp(min=0)"},
        "set the numbers below zero to zero",
        "Without some patches the model is surer, and that is worth seeing",
    ),
    Slip(
        {RIGHT: "return (probabilities.argmax(dim=-1) == labels).float()"},
        "ask whether the answer is right",
        "That seldom changes for a single patch. Take the probability of the label",
    ),
    Slip(
        {RIGHT: "return probabilities[:, labels[0]]"},
        "take the first picture's label for all",
        "Each picture has a label of its own",
    ),
    Slip(
        {END: "return (whole.unsqueeze(1) - torch.stack(without, dim=1)).abs()"},
        "take the absolute value",
        "Without some patches the model is surer, and that is worth seeing",
    ),
    Slip(
        {END: "return 1 - torch.stack(without, dim=1)"},
        "subtract from 1",
        "The whole picture does not have the probability 1 either",
    ),
    Slip(
        {END: "return whole - torch.stack(without)"},
        "give the result transposed",
        "Pictures first, then patches",
    ),
    Slip(
        {END: "return (whole - torch.stack(without)).reshape(len(labels), patches)"},
        "join the falls patch by patch, and only give them the shape (n, patches) with view or"
        " reshape",
        "So they fill the rows one after the other. Each patch's numbers belong into a column:"
        " torch.stack(…, dim=1), or .T of what has a row for each patch",
    ),
    Slip(
        {END: ("return whole.unsqueeze(1) - torch.stack(without).reshape(len(labels), patches)")},
        "join what is left patch by patch, and only give it the shape (n, patches) with view or"
        " reshape",
        "So it fills the rows one after the other. Each patch's numbers belong into a column:"
        " torch.stack(…, dim=1), or .T of what has a row for each patch",
    ),
    Slip(
        {
            END: (
                "every = torch.stack([whole, *without], dim=1)\n"
                "    return every[:, :-1] - every[:, 1:]"
            )
        },
        "subtract from what is left without the patch before it",
        "Each fall is measured from the whole picture, with nothing hidden",
    ),
    Slip(
        {
            END: (
                "falls = whole.unsqueeze(1) - torch.stack(without, dim=1)\n"
                "    return falls / falls.sum(dim=1, keepdim=True)"
            )
        },
        "divide the falls of a picture by their sum",
        "The falls themselves are asked for",
    ),
    Slip(
        {SOFTMAX: "logits_without(hidden).sigmoid()"},
        "take the sigmoid of each logit",
        "The digits exclude each other: the probabilities are a softmax over the classes",
    ),
    Slip(
        {END: "return (whole.unsqueeze(1) - torch.stack(without, dim=1)) / whole.unsqueeze(1)"},
        "divide by the probability of the whole picture",
        "The difference is asked for",
    ),
    Slip(
        {SOFTMAX: "logits_without(hidden).softmax(dim=0)"},
        "take the softmax over the pictures",
        "The classes of one picture share out 1: dim=-1",
    ),
    Slip(
        {"for patch in range(patches)": "for patch in range(1, patches)"},
        "give no number for the first patch",
        "There is no class token among the columns of hidden: patch 0 is column 0",
    ),
)

EXERCISE = Exercise(
    answer=my_leave_out,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "How sure is the model of the right digit with nothing hidden? And with only patch 0"
            " hidden, in all pictures at once? The difference is the first column."
        ),
        (
            "Begin with booleans that are all False, (len(labels), patches). For each patch set one"
            " column of a *clone* to True, and take softmax and the label's probability:"
            " p[torch.arange(n), labels] or gather. Stack the differences along dim=1."
        ),
    ),
    same=(
        {RIGHT: "return probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)"},
        {ONE: "one = torch.zeros_like(nothing)"},
    ),
    tolerance=1e-5,
)
