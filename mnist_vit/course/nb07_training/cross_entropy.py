"""Exercise: the loss, cross-entropy of logits and labels."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from ..checking import Exercise, Mistake, Slip, gradients, random
from ..watching import Watch


def my_cross_entropy(logits, labels):
    """(n, classes) and n whole numbers -> one number, in nats."""
    log_probabilities = logits.log_softmax(dim=-1)
    rows = torch.arange(len(labels))
    picked = log_probabilities[rows, labels]  # row i, column labels[i]
    return -picked.mean()


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    logits = (2 * random(5, 4, seed=71, dtype=torch.float64)).requires_grad_()
    labels = torch.tensor([2, 0, 3, 3, 1])
    loss = answer(logits, labels)
    yield "loss of 5 pictures, 4 classes", loss
    yield from gradients(loss, logits=logits)
    yield "loss of logits that are all 0", answer(torch.zeros(3, 10), torch.tensor([7, 0, 7]))
    # Softmax alone gives 0 here, and ln 0 is -inf.
    far = torch.tensor([[0.0, 300.0, -50.0], [2.0, 1.0, 0.0]])
    yield "loss where a wrong logit is 300 larger", answer(far, torch.tensor([0, 2]))
    yield "loss of a single picture", answer(random(1, 3, seed=72), torch.tensor([2]))
    # May be changed in place: torch forbids it where gradients are wanted.
    plain = logits.detach().clone()
    answer(plain, labels)
    yield "logits after the call", plain
    yield "labels after the call", labels
    with Watch("cross_entropy") as ready, Watch("nll_loss") as half:
        answer(plain, labels)
    if ready.seen or half.seen:
        raise Mistake(
            "right, but the loss is what you are to write yourself, from the logits.",
            "Begin with log_softmax.",
        )


def notice(answer: Any) -> Mistake | None:
    """The largest loss that one picture can have, where there is such a limit."""
    logits, labels = 2 * random(6, 3, seed=5), torch.tensor([2, 0, 1, 1, 0, 2])
    right = my_cross_entropy(logits, labels)
    if abs(float(answer(logits.clone(), labels.clone())) - float(right)) > 1e-4:
        return _noticed_losses(answer)
    loss = answer(logits.clone().requires_grad_(), labels.clone())
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        return Mistake(
            "The number is right, but it does not know how it was computed from the logits:"
            " backward() would not reach them.",
            "Compute with tensors to the end, without .item(), float(…), torch.tensor(…), .detach()"
            " or torch.no_grad().",
        )
    losses = []
    for far in (1e3, 1e4):
        losses.append(float(answer(torch.tensor([[0.0, far, 0.0]]), torch.tensor([0]))))
    if not math.isfinite(losses[0]) or abs(losses[0] - losses[1]) > 1e-3:
        return None
    if losses[0] < 1:
        return Mistake(
            "A picture whose label has a logit 1,000 below another one costs"
            f" {losses[0] + 0:.4g} in yours.",
            "It should cost 1,000: its probability is e^-1000, and minus the logarithm of that is"
            " 1,000. log_softmax computes it without rounding the probability to 0.",
        )
    if not _is_limit(answer, losses[0]):
        return Mistake(
            "A picture whose label has a logit 1,000 below another one costs"
            f" {losses[0]:.4g} in yours, and no more where it is 10,000 below.",
            "It should cost 1,000 and 10,000. log_softmax takes logits of any size: they need no"
            " smallest or largest value before it, and no scaling.",
        )
    smallest = math.exp(-losses[0])
    limit = f"{losses[0]:.1f}" if smallest else f"{losses[0]:.4g}"
    probability = f": that is -ln {smallest:.0e}" if smallest else ""
    return Mistake(
        f"One picture never costs more than {limit} in yours, however wrong its logits"
        f" are{probability}.",
        "There should be no such limit: log_softmax needs no smallest probability.",
    )


def _is_limit(answer: Any, limit: float) -> bool:
    """Whether a picture of either number of classes costs the same, by whatever sign it is wrong.

    What is cut off may also be the logits: then a picture with large ones of both signs costs more.
    """
    far = 1e4
    for row in ([-far, 0.0, 0.0], [-far, far, 0.0], [-far, far], [-far, 0.0, far, 0.0, far]):
        loss = float(answer(torch.tensor([row]), torch.tensor([0])))
        if not abs(loss - limit) < 1e-3:
            return False
    return True


def more(answer: Any) -> list[bool]:
    """Whether the loss is finite of pictures with large and small logits."""
    high, low = [0.0, 300.0, -50.0], [2.0, 1.0, 0.0]
    finite = []
    apart = [[60.0, 0.0, 0.0], [120.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    for rows in ([high], [low, high], [high, low], apart):
        labels = torch.full((len(rows),), 2)  # nowhere the largest
        finite.append(math.isfinite(float(answer(torch.tensor(rows), labels))))
    return finite


def _noticed_losses(answer: Any) -> Mistake | None:
    """The losses of one picture with either label, and of two pictures."""
    logits = torch.tensor([[0.0, math.log(3)]])  # probabilities 1/4 and 3/4
    both = torch.cat([logits, torch.zeros(1, 2)])
    cases = (
        ("A picture with the probabilities 1/4 and 3/4 and the label 1", logits, [1], "-ln 3/4"),
        ("A picture with the probabilities 1/4 and 3/4 and the label 0", logits, [0], "-ln 1/4"),
        (
            "A picture with 1/4 and 3/4 and the label 1, and one with 1/2 and 1/2, together,",
            both,
            [1, 0],
            "the mean of -ln 3/4 and -ln 1/2",
        ),
    )
    for what, given, labels, formula in cases:
        found = float(answer(given.clone(), torch.tensor(labels)))
        right = float(my_cross_entropy(given, torch.tensor(labels)))
        if abs(found - right) > 1e-4:
            verb = "have" if len(labels) > 1 else "has"
            return Mistake(
                f"{what} {verb} the loss {found:.4g} in yours.",
                f"It is {formula}, {right:.4g}.",
            )
    return None


SOFTMAX, PICK, MEAN = (
    "logits.log_softmax(dim=-1)",
    "log_probabilities[rows, labels]",
    "-picked.mean()",
)

SLIPS = (
    Slip(
        {SOFTMAX: "(logits - logits.max()) - (logits - logits.max()).exp().sum(-1, True).log()"},
        "subtract the largest logit of all pictures from every picture's",
        "In a row far below it every exp is rounded to 0. Subtract each row's own largest:"
        " logits.amax(dim=1, keepdim=True)",
    ),
    Slip(
        {
            SOFTMAX: (
                "(logits - logits[0].max()) - (logits - logits[0].max()).exp().sum(-1, True).log()"
            )
        },
        "subtract the largest logit of picture 0 from every picture's",
        "Where another picture's are far above it or below, exp is infinite or 0. Subtract each"
        " row's own largest: logits.amax(dim=1, keepdim=True)",
    ),
    Slip(
        {MEAN: "-(0.9 * picked + 0.1 * log_probabilities.mean(dim=-1)).mean()"},
        "smooth the labels, with a tenth for all classes alike",
        "Each label counts whole: minus the mean of ln p of the labels",
    ),
    Slip(
        {PICK: "(log_probabilities.exp() * log_probabilities).sum(dim=-1)"},
        "take the entropy of the probabilities, without the labels",
        "Of each row the logarithm at its label alone counts: [torch.arange(len(labels)), labels],"
        " or gather",
    ),
    Slip(
        {
            MEAN: (
                "torch.nn.functional.binary_cross_entropy_with_logits(\n"
                "        logits, torch.eye(logits.shape[1], dtype=logits.dtype)[labels])"
            )
        },
        "take a yes or no of each class by itself, as binary cross-entropy does",
        "The classes of a picture share out 1, by the softmax, and the label's alone counts",
    ),
    Slip(
        {SOFTMAX: "logits - logits.exp().mean(dim=-1, keepdim=True).log()"},
        "take the mean of all exp where their sum is needed",
        "Probabilities sum to 1: the logarithm of a row's sum of exp is subtracted",
    ),
    Slip({MEAN: "-picked.sum()"}, "add up over the pictures", "The loss is their mean"),
    Slip(
        {MEAN: "-picked.sum() / logits.numel()"},
        "take the mean over pictures and classes",
        "Divide by the number of pictures alone",
    ),
    Slip(
        {MEAN: "-picked.sum() / logits.shape[1]"},
        "divide by the number of classes",
        "Divide by the number of pictures",
    ),
    Slip(
        {PICK: "log_probabilities[:, labels]"},
        "take the columns of all labels from every picture, as [:, labels] does",
        "Each picture has one label: [torch.arange(len(labels)), labels], or gather",
    ),
    Slip(
        {MEAN: "picked.mean()"},
        "leave out the minus",
        (
            "The logarithm of a probability is"
            " never above 0, and the loss never"
            " below it: put a minus in front"
        ),
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1).log_softmax(dim=-1)"},
        "take the softmax twice, as happens when probabilities are given to F.cross_entropy",
        "Take it once, of the logits",
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1).log2()"},
        "take log2",
        "The natural logarithm is torch.log",
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1).log10()"},
        "take log10",
        "The natural logarithm is torch.log",
    ),
    Slip(
        {PICK: "log_probabilities.amax(dim=-1)"},
        "take the largest probability of each picture",
        "The one of its label counts, also where another is larger",
    ),
    Slip(
        {MEAN: "-picked.exp().mean().log()"},
        "take the logarithm of the mean",
        "First the logarithm of each probability, then the mean",
    ),
    Slip(
        {SOFTMAX: "logits.log_softmax(dim=0)"},
        "take the softmax over the pictures",
        "The classes of one picture share out 1: dim=-1",
    ),
    Slip(
        {SOFTMAX: "logits"},
        "take the logits themselves, without softmax and logarithm",
        "They must become logarithms of probabilities first: log_softmax(dim=-1)",
    ),
    Slip(
        {MEAN: "(1 - picked.exp()).mean()"},
        "take 1 minus the probability",
        "The loss is minus its logarithm, which punishes being sure and wrong",
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1)"},
        "forget the logarithm",
        "The loss is minus the mean of ln p, not of p",
    ),
    Slip(
        {PICK: "log_probabilities[labels]"},
        "take whole rows, those with the numbers of the labels, as [labels] does",
        "From row i the number in column labels[i] is taken: [torch.arange(len(labels)), labels]",
    ),
    Slip(
        {PICK: "log_probabilities.sum(dim=-1)"},
        "add up the logarithms of all classes",
        "The one of the label alone counts: [torch.arange(len(labels)), labels], or gather",
    ),
    Slip(
        {PICK: "log_probabilities.mean(dim=-1)"},
        "take the mean of the logarithms of all classes",
        "The one of the label alone counts: [torch.arange(len(labels)), labels], or gather",
    ),
    Slip(
        {PICK: "log_probabilities[rows, labels]", SOFTMAX: "logits - logits.amax(-1, True)"},
        "subtract the largest logit, and not the logarithm of the sum of all exp",
        "The logarithm of a probability is the logit minus logsumexp of its row: log_softmax",
    ),
    Slip(
        {PICK: "-logits.logsumexp(dim=-1)"},
        "take the mean of log-sum-exp alone",
        "From each picture's log-sum-exp the logit of its label is subtracted",
    ),
    Slip(
        {SOFTMAX: "(-logits).log_softmax(dim=-1)"},
        "take the softmax of the logits with the other sign",
        "The largest logit has the largest probability. The minus belongs before the logarithm",
    ),
    Slip(
        {PICK: "(1 - log_probabilities.exp()).log()[rows, labels]"},
        "take the logarithm of 1 minus the probability",
        "It is minus the logarithm of the label's probability",
    ),
    Slip(
        {MEAN: "-picked.median()"},
        "take the median over the pictures",
        "The loss is their mean",
    ),
    Slip(
        {SOFTMAX: "logits - logits.logsumexp(dim=(0, 1))"},
        "divide by the sum of all exp in the batch",
        "The classes of one picture share out 1: the sum is over its own row, dim=-1",
    ),
    *(
        Slip(
            {
                PICK: (
                    "torch.eye(logits.shape[1], dtype=logits.dtype)[labels]"
                    " - log_probabilities.exp()"
                ),
                MEAN: f"picked.square().{sums}",
            },
            "take squared errors of the probabilities",
            "The loss is minus the logarithm of the label's probability",
        )
        for sums in ("sum(dim=1).mean()", "mean()")
    ),
    Slip(
        {SOFTMAX: "(logits / 2).log_softmax(dim=-1)"},
        "take the softmax of half of the logits",
        "Take it of the logits as they are",
    ),
    Slip(
        {PICK: "log_probabilities[rows, labels - 1]"},
        "take the class before the label, off by one",
        "Class 0 is column 0",
    ),
    Slip(
        {PICK: "log_probabilities[rows, (labels + 1) % logits.shape[1]]"},
        "take the class after the label, off by one",
        "Class 0 is column 0",
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1).log()"},
        "compute softmax and logarithm, or exp and logarithm, one after the other",
        (
            "That is the formula, but with logits far apart exp becomes infinite, or a"
            " probability is rounded to 0, and the loss infinite: log_softmax does both in one,"
            " without that"
        ),
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1).clamp(min=1e-7).log()"},
        "keep probabilities from falling below 1e-7, by a limit or by adding it",
        (
            "Where the right class has a smaller probability than that, the loss is too small."
            " log_softmax needs no such limit"
        ),
    ),
    Slip(
        {SOFTMAX: "logits.softmax(dim=-1).clamp(min=1e-8).log()"},
        "keep probabilities from falling below 1e-8, by a limit or by adding it",
        (
            "Where the right class has a smaller probability than that, the loss is too small."
            " log_softmax needs no such limit"
        ),
    ),
    Slip(
        {PICK: "torch.eye(10)[labels] * log_probabilities"},
        "count on ten classes",
        "There may be any number of them: logits.shape[1]",
    ),
    Slip(
        {
            PICK: "torch.nn.functional.one_hot(labels) * log_probabilities",
            MEAN: "-picked.sum(dim=1).mean()",
        },
        "make as many columns as the largest label of the batch says",
        "There is one for each class: logits.shape[1], with one_hot(labels, num_classes=…)",
    ),
    Slip(
        {MEAN: "-picked"},
        "leave out the last step, the mean",
        "The loss is one number for the whole batch",
    ),
)

EXERCISE = Exercise(
    answer=my_cross_entropy,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Three steps: probabilities of each picture, the one of its label, minus the mean of"
            " the logarithms."
        ),
        (
            "logits.log_softmax(dim=-1) gives ln of all probabilities. From row i take the number"
            " in column labels[i]: indexing with two tensors, torch.arange(len(labels)) and labels,"
            " takes one number of each row."
        ),
    ),
    same=(
        {PICK: "log_probabilities.gather(1, labels[:, None])"},
        {
            PICK: "log_probabilities * torch.eye(logits.shape[1], dtype=logits.dtype)[labels]",
            MEAN: "-picked.sum() / len(rows)",
        },
        {SOFTMAX: "logits", MEAN: "(logits.logsumexp(dim=-1) - picked).mean()"},
        {SOFTMAX: "-logits.log_softmax(dim=-1)", MEAN: "picked.mean()"},
    ),
)
