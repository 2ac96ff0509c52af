"""Exercises of notebook 07: the loss, the learning rate of each step, the weight average, and four sick curves."""

import math
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .core import Exercise, Mistake, Mutant, gradients, random

# Cross-entropy -------------------------------------------------------------------------------------------------------


def _picked(logits: Tensor, labels: Tensor) -> Tensor:
    """ln of the probability of each picture's label."""
    return logits.log_softmax(dim=-1).gather(1, labels[:, None]).squeeze(1)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return -_picked(logits, labels).mean()


def _all_classes(logits: Tensor, labels: Tensor) -> Tensor:
    return -(logits.log_softmax(dim=-1) * torch.nn.functional.one_hot(labels, logits.shape[1])).mean()


def _run_cross_entropy(answer: Callable[[Tensor, Tensor], Tensor]) -> Iterator[tuple[str, Any]]:
    logits = (2 * random(5, 4, seed=71, dtype=torch.float64)).requires_grad_()
    labels = torch.tensor([2, 0, 3, 3, 1])
    loss = answer(logits, labels)
    yield "loss of 5 pictures, 4 classes", loss
    yield from gradients(loss, logits=logits)
    yield "loss of logits that are all 0", answer(torch.zeros(3, 10), torch.tensor([7, 0, 7]))


CROSS_ENTROPY = Exercise(
    name="cross_entropy",
    answer="my_cross_entropy",
    stars=1,
    reference=_cross_entropy,
    run=_run_cross_entropy,
    mutants=(
        Mutant(lambda z, y: -_picked(z, y).sum(), "add up over the pictures. The loss is their mean"),
        Mutant(_all_classes, "take the mean over pictures and classes. Divide by the number of pictures alone"),
        Mutant(
            lambda z, y: -_picked(z, y).sum() / z.shape[1],
            "divide by the number of classes. Divide by the number of pictures",
        ),
        Mutant(
            lambda z, y: -z.log_softmax(dim=-1)[:, y].mean(),
            "write [:, labels], which takes the columns of all labels from every picture. Each picture has one label: "
            "[torch.arange(len(labels)), labels], or gather",
        ),
        Mutant(lambda z, y: _picked(z, y).mean(), "leave out the minus: logarithms of probabilities are negative"),
        Mutant(
            lambda z, y: _cross_entropy(z.softmax(dim=-1), y),
            "take the softmax twice, as happens when probabilities are given to F.cross_entropy. Logits go in",
        ),
        Mutant(lambda z, y: _cross_entropy(z, y) / math.log(2), "take log2. ln is torch.log"),
        Mutant(lambda z, y: _cross_entropy(z, y) / math.log(10), "take log10. ln is torch.log"),
        Mutant(
            lambda z, y: -z.log_softmax(dim=-1).amax(dim=-1).mean(),
            "take the largest probability of each picture. The one of its label counts, also where another is larger",
        ),
        Mutant(
            lambda z, y: -_picked(z, y).exp().mean().log(),
            "take the logarithm of the mean. First the logarithm of each probability, then the mean",
        ),
        Mutant(
            lambda z, y: -z.log_softmax(dim=0).gather(1, y[:, None]).mean(),
            "take the softmax over the pictures. The classes of one picture share out 1: dim=-1",
        ),
        Mutant(
            lambda z, y: -z.gather(1, y[:, None]).mean(),
            "leave out the softmax. Logits must become probabilities before the logarithm",
        ),
        Mutant(
            lambda z, y: (1 - _picked(z, y).exp()).mean(),
            "take 1 minus the probability. The loss is minus its logarithm, which punishes being sure and wrong",
        ),
        Mutant(lambda z, y: -_picked(z, y), "leave out the last step, the mean: one number for the whole batch"),
    ),
    hints=(
        "Three steps: probabilities of each picture, the one of its label, minus the mean of the logarithms.",
        "logits.log_softmax(dim=-1) gives ln of all probabilities. Row i is to be read at column labels[i].",
        "x = logits.log_softmax(dim=-1); return -x[torch.arange(len(labels)), labels].mean()",
    ),
)

# Learning rate -------------------------------------------------------------------------------------------------------


def _schedule(step: int, steps: int, warmup: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def _fall(falling: Callable[[float], float]) -> Callable[[int, int, int], float]:
    """The right rise, and another fall; ``falling`` is given the share of the fall that is behind."""

    def answer(step: int, steps: int, warmup: int) -> float:
        return _schedule(step, steps, warmup) if step < warmup else falling((step - warmup) / (steps - warmup))

    return answer


def _rise(rising: Callable[[int, int], float]) -> Callable[[int, int, int], float]:
    """The right fall, and another rise."""

    def answer(step: int, steps: int, warmup: int) -> float:
        return rising(step, warmup) if step < warmup else _schedule(step, steps, warmup)

    return answer


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


def _shares(answer: Callable[[int, int, int], float], steps: int, warmup: int) -> Tensor | None:
    """The answer for each step, as a tensor; numbers only."""
    values: list[float] = []
    for step in range(steps + 1):
        value = answer(step, steps, warmup)
        if value is None or value is ...:
            return None
        if isinstance(value, Tensor) and value.dim() == 0:
            value = value.item()
        if not isinstance(value, Real) or isinstance(value, bool):
            raise Mistake(f"step {step}: a number is needed, and this is of type {type(value).__name__}.")
        values.append(value)
    return torch.tensor([float(value) for value in values], dtype=torch.float64)


def _run_schedule(answer: Callable[[int, int, int], float]) -> Iterator[tuple[str, Any]]:
    yield "share at steps 0 to 12, warm-up 4", _shares(answer, 12, 4)
    yield "share at steps 0 to 50, warm-up 7", _shares(answer, 50, 7)


SCHEDULE = Exercise(
    name="cosine_schedule",
    answer="my_schedule",
    stars=2,
    reference=_schedule,
    run=_run_schedule,
    mutants=(
        Mutant(
            _rise(lambda step, warmup: 1.0),
            "leave out the warm-up: in the first steps the share rises to 1, it does not begin there",
        ),
        Mutant(
            lambda step, steps, warmup: _cosine(step / steps),
            "let the cosine fall from step 0, without a warm-up: first the straight line up, then the cosine",
        ),
        Mutant(
            _rise(lambda step, warmup: step / warmup),
            "start at 0, so that the first step changes nothing: step 0 has the share 1 / warmup, so count step + 1",
        ),
        Mutant(
            lambda step, steps, warmup: (step + 1) / warmup if step <= warmup else _schedule(step, steps, warmup),
            "let the line go on to step == warmup, where it is above 1: there the fall begins, so step < warmup",
        ),
        Mutant(
            _rise(lambda step, warmup: step / (warmup - 1)),
            "start at 0 and divide by warmup - 1: the first step then changes nothing. Its share is 1 / warmup",
        ),
        Mutant(
            _rise(lambda step, warmup: (step + 1) / (warmup + 1)),
            "divide by warmup + 1: the last step of the warm-up has the share 1",
        ),
        Mutant(
            lambda step, steps, warmup: (step + 1) / warmup if step < warmup else _cosine(step / steps),
            "count the cosine from step 0: the share jumps down after the warm-up. It falls from the end of the "
            "warm-up on: step - warmup, out of steps - warmup",
        ),
        Mutant(
            lambda step, steps, warmup: (step + 1) / warmup if step < warmup else _cosine((step - warmup) / steps),
            "divide by steps, so that the share never reaches 0: the fall has only steps - warmup steps",
        ),
        Mutant(
            lambda step, steps, warmup: (
                (step + 1) / warmup if step < warmup else _cosine((step - warmup + 1) / (steps - warmup))
            ),
            "begin the fall one step too early, off by one: at step == warmup the cosine is still at its top",
        ),
        Mutant(
            lambda step, steps, warmup: (
                (step + 1) / warmup if step < warmup else _cosine((step - warmup) / (steps - warmup - 1))
            ),
            "divide by steps - warmup - 1: 0 comes a step too early. It comes at step == steps",
        ),
        Mutant(_fall(lambda share: 0.5 * (1 + math.cos(180 * share))), "give the cosine degrees: it wants radians"),
        Mutant(_fall(lambda share: 1 - share), "fall in a straight line: half a cosine is wanted"),
        Mutant(
            _fall(lambda share: math.cos(math.pi / 2 * share)),
            "use a quarter of the wave: half of it, from 1 to -1, brought to 1 … 0 by adding 1 and halving",
        ),
        Mutant(_fall(lambda share: 1 + math.cos(math.pi * share)), "forget to halve: the fall begins at 2"),
        Mutant(
            _fall(lambda share: math.cos(math.pi * share)),
            "fall from 1 to -1: a learning rate below 0 goes uphill. Add 1 and halve",
        ),
        Mutant(
            _fall(lambda share: 0.5 * (1 + math.cos(2 * math.pi * share))),
            "use a whole wave: the share comes back up to 1. Half a wave ends at 0",
        ),
        Mutant(
            _fall(lambda share: max(0.1, _cosine(share))),
            "stop at a tenth, so that the share never reaches 0: let the cosine go on to its end",
        ),
    ),
    hints=(
        "Two cases: step < warmup is a straight line, the rest half a cosine. What are the shares at step 0, at step "
        "warmup - 1, at step warmup, at step steps?",
        "The line is (step + 1) / warmup. In the fall, how much of it is behind you: step - warmup out of "
        "steps - warmup. math.cos goes from 1 to -1 as its angle goes from 0 to math.pi.",
        "if step < warmup: return (step + 1) / warmup; then return 0.5 * (1 + math.cos(math.pi * behind)) with "
        "behind = (step - warmup) / (steps - warmup).",
    ),
)

# Weight average ------------------------------------------------------------------------------------------------------


def _average(weights: Tensor, average: float) -> Tensor:
    kept = weights[0]
    for new in weights[1:]:
        kept = average * kept + (1 - average) * new
    return kept


def _from_zero(weights: Tensor, average: float) -> Tensor:
    return _average(torch.cat([torch.zeros_like(weights[:1]), weights]), average)


def _run_average(answer: Callable[[Tensor, float], Tensor]) -> Iterator[tuple[str, Any]]:
    yield "average after 6 steps", answer(random(6, 4, seed=72, dtype=torch.float64), 0.8)
    yield "average after 30 steps", answer(random(30, 2, 3, seed=73), 0.97)
    yield "average after 1 step", answer(random(1, 3, seed=74), 0.9)


AVERAGE = Exercise(
    name="weight_average",
    answer="my_average",
    stars=2,
    reference=_average,
    run=_run_average,
    mutants=(
        Mutant(
            lambda w, a: _average(w, 1 - a),
            "swap the two shares: the old average keeps the large one, the new weights get 1 - average",
        ),
        Mutant(_from_zero, "start from zeros: the average starts as the weights after the first step"),
        Mutant(
            lambda w, a: _from_zero(w, a) / (1 - a ** len(w)),
            "start from zeros and divide by 1 - average ** steps, as Adam does: here the first weights are the start",
        ),
        Mutant(lambda w, a: w.mean(dim=0), "take the plain mean: here older weights count less and less"),
        Mutant(lambda w, a: w[-1].clone(), "return the last weights: mix them into what is kept of the older ones"),
        Mutant(lambda w, a: _average(w[:-1], a), "leave out the last step: it is mixed in, too"),
        Mutant(lambda w, a: _average(w[1:], a), "leave out the first weights: they are the start of the average"),
        Mutant(
            lambda w, a: _average(w.flip(0), a),
            "go from the last step to the first: the newest weights come last",
        ),
        Mutant(
            lambda w, a: a * w[-2] + (1 - a) * w[-1],
            "mix the last weights with those before them: mix them with the average so far",
        ),
        Mutant(
            lambda w, a: torch.stack([_average(w[: step + 1], a) for step in range(len(w))]),
            "return the average after every step: only the last one is wanted",
        ),
    ),
    hints=(
        "Keep one tensor. After the first step it is those weights; what becomes of it with each new row?",
        "for new in weights[1:]: the kept tensor becomes average · kept + (1 − average) · new.",
        "kept = weights[0]; for new in weights[1:]: kept = average * kept + (1 - average) * new; return kept",
    ),
)

# Four sick curves ----------------------------------------------------------------------------------------------------

ILLNESSES = ("no zero_grad", "no eval", "other normalisation", "shuffled labels")
HIDDEN = {"A": "other normalisation", "B": "shuffled labels", "C": "no zero_grad", "D": "no eval"}
WOULD = {
    "no zero_grad": "Without zero_grad every step follows the sum of all gradients so far: the training loss falls at "
    "first and then climbs again and wanders",
    "no eval": "Without eval dropout goes on while measuring, so three measurements of the same weights differ",
    "other normalisation": "With another normalisation at test time the training goes well, and the validation is far "
    "below it from the first epoch on",
    "shuffled labels": "With shuffled labels there is nothing to learn but the labels by heart: no better than chance "
    "on other digits",
}
SEEN = {
    "no zero_grad": "the training loss is lower after the first epochs than at the end",
    "no eval": "the training loss falls, and the dots of one epoch lie apart",
    "other normalisation": "the training goes well, the dots of one epoch lie on one another, and they are far below "
    "the line",
    "shuffled labels": "the training loss hardly falls, and the dots stay near 10 %",
}


def _told_wrong(letter: str, name: str) -> Mutant:
    told = f'call curve {letter} "{name}". {WOULD[name]}. In curve {letter} {SEEN[HIDDEN[letter]]}'
    return Mutant(lambda: {**HIDDEN, letter: name}, told)


def _run_diagnose(answer: Any) -> Iterator[tuple[str, Any]]:
    named = answer() if callable(answer) else answer
    if named is None or named is ...:
        yield "curve A", None
    if not isinstance(named, dict):
        raise Mistake(f'a dict from letters to names is needed, {{"A": …, "B": …}}, and this is a {_kind(named)}.')
    for letter in HIDDEN:
        name = named.get(letter)
        if not isinstance(name, str):
            raise Mistake(f"curve {letter} has no name yet: each of {', '.join(HIDDEN)} gets one.")
        if name not in ILLNESSES:
            raise Mistake(f"curve {letter} has a name that is none of the four: {', '.join(ILLNESSES)}.")
        yield f"curve {letter}", name


def _kind(value: Any) -> str:
    return type(value).__name__


DIAGNOSE = Exercise(
    name="diagnose",
    answer="my_diagnosis",
    stars=2,
    reference=lambda: dict(HIDDEN),
    run=_run_diagnose,
    mutants=tuple(_told_wrong(letter, name) for letter in HIDDEN for name in ILLNESSES if name != HIDDEN[letter]),
    hints=(
        "Look at the training lines first: which two runs do not learn their own training digits?",
        "Of those two, one gets better for a while and then worse, the other never gets far from 10 %. Of the two that "
        "do learn, look at the dots: do the three of an epoch agree?",
        "Dots apart: dropout is still on. Dots together and far below the line: the pictures are not what the model "
        "was trained on. A loss that climbs again: steps along old gradients. A loss that stays near ln 10: labels "
        "that mean nothing.",
    ),
)

EXERCISES: tuple[Exercise, ...] = (CROSS_ENTROPY, SCHEDULE, AVERAGE, DIAGNOSE)
