"""Exercise: a second model that follows the first one, the average of its weights."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Exercise, Mistake, Slip, randomise


def my_weight_average(averaged, model, average):
    """Change the weights of averaged, in place: they keep the share average, the rest comes from
    model."""
    with torch.no_grad():
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.lerp_(new, 1 - average)


class _Parts(nn.Module):
    """Parameters as a Vision Transformer has them: of parts, of parts in parts, and of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.places = nn.Parameter(torch.zeros(1, 2, 4))
        self.layers = nn.Sequential(nn.LayerNorm(4), nn.Sequential(nn.Linear(4, 4), nn.GELU()))
        self.last = nn.Linear(4, 2)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    for average in (0.8, 0.99):
        model = _Parts().double()
        averaged = copy.deepcopy(randomise(model, seed=7))
        if average == 0.99:  # as where a part is not trained
            averaged.places.requires_grad_(False)
            model.places.requires_grad_(False)
        for step in range(3):
            updates = "1 update" if step == 0 else f"{step + 1} updates"
            answer(averaged, randomise(model, seed=step), average)
            yield (
                f"averaged weights after {updates}, average {average}",
                _weights(averaged),
            )
            yield f"the model's own weights after update {step + 1}", _weights(model)
    answer(averaged, randomise(model, seed=9), 0.0)
    yield "averaged weights with average 0", _weights(averaged)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    yield "averaged weights, once the model has moved on", _weights(averaged)


def _weights(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def notice(answer: Any) -> Mistake | None:
    """What becomes of a 10 that follows a 20."""
    averaged, model = nn.Linear(1, 1).double(), nn.Linear(1, 1).double()
    for part, value in ((averaged, 10.0), (model, 20.0)):
        for parameter in part.parameters():
            nn.init.constant_(parameter, value)
    answer(averaged, model, 0.9)
    olds, news = _weights(averaged).tolist(), _weights(model).tolist()
    kinds = ("weight", "bias")
    for new, kind in zip(news, kinds, strict=True):
        if new != 20:
            return Mistake(
                f"A {kind} of the model that is trained was 20, and is {new:.4g} afterwards.",
                "Only averaged may change: work with new tensors, or write into averaged alone.",
            )
    if sorted(olds) == [10, 11]:  # some follow and others do not: which?
        named = _noticed_names(answer)
        if named is not None:
            return named
    for old, kind in zip(olds, kinds, strict=True):
        if abs(old - 11) > 1e-6:
            return Mistake(
                f"With average 0.9, a {kind} of 10 that follows one of 20 becomes {old:.4g}.",
                "It should become 0.9 · 10 + 0.1 · 20 = 11.",
            )
    return _noticed_names(answer) or _noticed_other_shares(answer)


def _noticed_other_shares(answer: Any) -> Mistake | None:
    """What becomes of a 10 that follows a 20 with other averages, where 0.9 is right."""
    for average in (0.99, 0.999, 0.5, 0.0):
        averaged, model = nn.Linear(1, 1).double(), nn.Linear(1, 1).double()
        for part, value in ((averaged, 10.0), (model, 20.0)):
            nn.init.constant_(part.weight, value)
        answer(averaged, model, average)
        found, right = averaged.weight.item(), 10 * average + 20 * (1 - average)
        if abs(found - right) > 1e-6:
            return Mistake(
                "With average 0.9 yours is right. With average"
                f" {average:g}, a weight of 10 that follows one of 20 becomes {found:.6g}.",
                f"It should become {average:g} · 10 + {1 - average:.4g} · 20 = {right:.6g}.",
            )
    return None


def _averaged(answer: Any, has_gradients: bool) -> Tensor:
    """What averaged holds afterwards, where all parameters of both have a gradient, or none has."""
    averaged, model = randomise(_Parts(), seed=1), randomise(_Parts(), seed=2)
    if has_gradients:
        for parameter in (*averaged.parameters(), *model.parameters()):
            parameter.grad = torch.full_like(parameter, 0.25)
    answer(averaged, model, 0.9)
    return _weights(averaged)


def _frozen(answer: Any) -> Tensor:
    """What averaged holds afterwards, where no parameter of either is trained."""
    averaged, model = randomise(_Parts(), seed=1), randomise(_Parts(), seed=2)
    answer(averaged.requires_grad_(False), model.requires_grad_(False), 0.9)
    return _weights(averaged)


def more(answer: Any) -> list[float]:
    """What averaged holds afterwards, with gradients and without."""
    values = torch.cat([_averaged(answer, True), _averaged(answer, False), _frozen(answer)])
    return [round(value, 4) for value in values.tolist()]


def _noticed_names(answer: Any) -> Mistake | None:
    """Which parameters do not follow, where those of a single layer do."""
    averaged, model = randomise(_Parts(), seed=1), randomise(_Parts(), seed=2)
    before = copy.deepcopy(averaged)
    answer(averaged, model, 0.9)
    still = dict(before.named_parameters())
    stay = [name for name, one in averaged.named_parameters() if torch.equal(one, still[name])]
    if not stay:
        return _noticed_neighbours(answer)
    if stay == [name for name, _ in averaged.named_parameters()][1:]:
        return Mistake(
            "Of averaged.parameters() only the first follows; all others stay as they were.",
            "averaged.parameters() gives those of all parts. Go through them to the last: a return"
            " inside the loop ends it in its first round.",
        )
    if stay == [name for name, _ in averaged.named_parameters()][:-1]:
        return Mistake(
            "Of averaged.parameters() only the last follows; all others stay as they were.",
            "What changes a parameter must be done for each: inside the loop, and not once behind"
            " it.",
        )
    return Mistake(
        f"Of a model with parts in parts, and with a parameter of its own, these stay as they"
        f" were: {', '.join(stay)}.",
        "averaged.parameters() gives all of them, however deep they are.",
    )


def _noticed_neighbours(answer: Any) -> Mistake | None:
    """Whether one number of averaged changes what becomes of others."""
    after = []
    for more in (0.0, 1.0):
        averaged, model = randomise(_Parts(), seed=1), randomise(_Parts(), seed=2)
        with torch.no_grad():
            averaged.first.weight[0, 0] += more
        answer(averaged, model, 0.9)
        after.append(averaged.first.weight.detach().clone())
    others = int(((after[1] - after[0]).abs() > 1e-5).sum()) - 1
    if others < 1:
        return None
    return Mistake(
        f"Where one number of a weight in averaged is 1 larger beforehand, {others} other numbers"
        f" of this weight come out differently.",
        "Each number depends on the two at its own place alone, one in averaged and one in model.",
    )


LINE, PAIRS = (
    "old.lerp_(new, 1 - average)",
    "zip(averaged.parameters(), model.parameters(), strict=True)",
)

SLIPS = (
    Slip(
        {LINE: "old.lerp_(new, average)"},
        "swap the two shares",
        "The old weights keep the share average, the new ones get 1 - average",
    ),
    Slip(
        {LINE: "old = average * old + (1 - average) * new"},
        "change nothing in averaged",
        "Write into each parameter of averaged, in a loop over both models' parameters:"
        " old.copy_(…), for instance. A change of a copy, `old = …`, which only names another"
        " tensor, and a loop over a zip that was used up before leave it as it was",
    ),
    Slip(
        {LINE: "if new.grad is not None:\n                old.lerp_(new, 1 - average)"},
        "leave parameters as they are while their .grad is None",
        "Whether there is a gradient at the moment says nothing: zero_grad() sets all to None. Each"
        " parameter follows, whatever its .grad is",
    ),
    *(
        Slip(
            {LINE: f"if {one}.requires_grad:\n                old.lerp_(new, 1 - average)"},
            "leave parameters as they are that ask for no gradient, requires_grad=False",
            "Both models have the same parameters, and each of them follows, trained or not",
        )
        for one in ("new", "old")
    ),
    Slip(
        {LINE: "new.lerp_(old, average)"},
        "change the model that is trained",
        "It is averaged that changes; the model stays as it is",
    ),
    Slip(
        {LINE: "old.mul_(average).add_(new.mul_(1 - average))"},
        "multiply in place the weights of the model that is trained",
        "Only averaged changes: new * (1 - average) makes a tensor of its own",
    ),
    Slip(
        {LINE: "old.add_(new, alpha=1 - average).mul_(average)"},
        "add the new weights before you multiply, so that their share is multiplied, too",
        "Multiply the old ones first, then add 1 - average of the new ones",
    ),
    Slip(
        {LINE: "old.mul_(average).lerp_(new, 1 - average)"},
        "multiply the old weights by average twice, by whatever two steps",
        "Once is enough: lerp_(new, 1 - average) alone does it, and so does mul_(average) before"
        " 1 - average of the new ones is added",
    ),
    Slip({LINE: "old.copy_(new)"}, "copy the new weights", "The older ones keep the share average"),
    Slip(
        {LINE: "old.lerp_(new, 0.5)"},
        "take the middle of both, whatever average is",
        "The old weights count average, the new ones 1 - average",
    ),
    Slip(
        {LINE: "old.add_(new, alpha=1 - average)"},
        "add to the old weights without making them smaller",
        "They keep only the share average",
    ),
    Slip(
        {LINE: "old.mul_(average).add_(new)"},
        "add all of the new weights",
        "Of the new ones only the share 1 - average is added",
    ),
    Slip(
        {LINE: "old.lerp_(new, (1 - average) * (old.dim() > 1))"},
        "leave out the biases and the norms",
        "Every parameter follows, also those with a single axis",
    ),
    Slip(
        {LINE: "old.mul_(average)"},
        "shrink the old weights and leave out the new ones",
        "The new ones are added, 1 - average of them",
    ),
    Slip(
        {
            LINE: (
                "old.data = average * old.data + (1 - average) * new.data\n            new.data ="
                " old.data"
            )
        },
        "change both models",
        "Only averaged changes; the model that is trained stays as it is",
    ),
    Slip(
        {
            PAIRS: (
                "[(getattr(a, key), getattr(b, key)) for a, b in zip(averaged.children(),"
                ' model.children(), strict=True) for key in ("weight", "bias") if hasattr(a, key)]'
            )
        },
        "go through the weight and the bias of the model's own parts alone",
        "Parts have parts themselves, and a parameter may stand alone: averaged.parameters() gives"
        " all of them",
    ),
    Slip(
        {PAIRS: f"list({PAIRS})[:-1]"},
        "leave out the last parameter",
        "Go through all of averaged.parameters()",
    ),
    Slip(
        {LINE: "old.data = new.data if average == 0 else old.data.lerp(new.data, 1 - average)"},
        "let both models share one tensor",
        "When the model moves on, so does its average. Copy the values",
    ),
)

EXERCISE = Exercise(
    answer=my_weight_average,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Both models have the same parameters in the same order: zip(averaged.parameters(),"
            " model.parameters()). What becomes of each pair? And how do you change a parameter,"
            " not only a name?"
        ),
        (
            "Under torch.no_grad(), write into the first of each pair: old.copy_(average * old + (1"
            " - average) * new)."
        ),
    ),
    same=(
        {LINE: "old.copy_(average * old + (1 - average) * new)"},
        {LINE: "old.mul_(average).add_(new, alpha=1 - average)"},
        {LINE: "old.data = average * old.data + (1 - average) * new.data"},
        {LINE: "old += (1 - average) * (new - old)"},
    ),
)
