"""Exercise: the first part of two models with the same weights that computes something else."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mnist_vit import VisionTransformer
from mnist_vit.course.nb06_vision_transformer.bugs import broken, outputs

from ..checking import Evidence, Exercise, Mistake, Slip, describe, random, randomise


def my_first_difference(right, suspect, images):
    """The name of the first part of ``suspect`` whose output is not that of ``right``; None if all
    are equal."""
    suspect.load_state_dict(right.state_dict())
    right.eval()
    suspect.eval()
    a, b = outputs(right, images), outputs(suspect, images)
    for name in a:
        if not torch.allclose(a[name], b[name], atol=1e-4):
            return name
    return None


first_difference = my_first_difference  # given to who solves name_the_bug before it

SIZES: dict[str, Any] = {
    "num_classes": 5,
    "in_channels": 2,
    "dropout": 0.3,
    "attention_dropout": 0.3,
}


def models(bug: str, seed: int = 0) -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    """A right model, a suspect with weights of its own, both in training mode, and pictures."""
    right = randomise(VisionTransformer(12, 4, 2, 2, 8, 16, **SIZES), seed)
    suspect = randomise(broken(bug, 12, 4, 2, 2, 8, 16, **SIZES), seed + 100)
    return right, suspect, random(3, 2, 12, 12, seed=seed + 7)


def larger_models(bug: str, seed: int = 0) -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    """The same of the sizes of the course's model with patches of 7: start values and a little
    noise."""
    options: dict[str, Any] = {"num_classes": 10, "in_channels": 1}
    torch.manual_seed(seed)  # whatever was drawn before
    right, suspect = (
        VisionTransformer(28, 7, 2, 2, 64, 256, **options),
        broken(bug, 28, 7, 2, 2, 64, 256, **options),
    )
    with torch.no_grad():
        for number, parameter in enumerate(right.parameters()):
            parameter.add_(0.1 * random(*parameter.shape, seed=seed + number))
    return right, suspect, random(3, 1, 28, 28, seed=seed + 7)


def small_positions(size: float) -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    """A suspect without positions, of a model whose positions are small numbers."""
    right, suspect, images = models("positions_forgotten", seed=7)
    with torch.no_grad():
        right.encoder.pos_embedding.mul_(size)
        suspect.encoder.pos_embedding.zero_()  # with its own weights it would differ nowhere
    return right, suspect, images


class _Turned(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).transpose(2, 3)


def other_places() -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    """A suspect whose first part has the right numbers, rows and columns exchanged."""
    right, suspect, images = models("right", seed=8)
    suspect.conv_proj = _Turned(2, 8, 4, stride=4)
    return right, suspect, images


class _Higher(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


class _Lower(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) - 1


class _OneNumber(nn.Conv2d):
    picture = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x).clone()
        x[self.picture : self.picture + 1, -1, -1, -1] += 1
        return x


def one_number(picture: int) -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    """A suspect whose first part differs in one number, of one of three pictures."""
    right, suspect, images = models("right", seed=10)
    suspect.conv_proj = _OneNumber(2, 8, 4, stride=4)
    suspect.conv_proj.picture = picture
    return right, suspect, images


def one_sided(part: type[nn.Conv2d]) -> tuple[torch.nn.Module, torch.nn.Module, torch.Tensor]:
    """A suspect whose first part gives larger numbers everywhere, or smaller ones."""
    right, suspect, images = models("right", seed=9)
    suspect.conv_proj = part(2, 8, 4, stride=4)
    return right, suspect, images


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    bugs = (
        "softmax_over_queries",
        "positions_forgotten",
        "right",
        "gelu_on_the_logits",
        "heads_split_by_reshape",
    )
    suspects = [models(bug, seed=number) for number, bug in enumerate(bugs)]
    suspects += [
        larger_models(bug) for bug in ("right", "positions_forgotten", "divided_by_d_model")
    ]
    suspects += [small_positions(0.05), other_places(), one_sided(_Higher), one_sided(_Lower)]
    suspects += [one_number(1)]
    for number, (right, suspect, images) in enumerate(suspects):
        before = {name: tensor.clone() for name, tensor in right.state_dict().items()}
        found = answer(right, suspect, images)
        if any(
            not torch.equal(before[name], tensor) for name, tensor in right.state_dict().items()
        ):
            raise Mistake(
                "the right model's weights were changed.",
                "Give its weights to the suspect, and leave them as they are in the right model.",
            )
        if found == "None" or (found is not None and not isinstance(found, str)):
            raise Mistake(
                "a part's name is needed, or None if all parts agree, and this is"
                f" {describe(found)}."
            )
        yield f"the first part that differs in suspect {number + 1}", str(found)


def tell(evidence: Evidence) -> tuple[str, str]:
    """Whether the part that was named is too early, too late, or does not differ at all."""
    name, right = evidence.value, evidence.expected
    if evidence.pair is None:
        return "", ""
    parts = list(outputs(evidence.pair[0].before[0], evidence.pair[0].before[2]))
    if name != "None" and name not in parts:
        return (
            f"There is no part {name!r:.60} in what `outputs` gives.",
            "Return None where all parts agree, as they do here."
            if right == "None"
            else "Return the whole name, as it is a key of that dict.",
        )
    if right == "None":
        rounding = _how_far(evidence.pair[0].before)[name]
        said = (
            "With the same weights and in eval mode all parts agree within rounding. In the part"
            f" that you name it is up to {rounding:.1g}."
        )
        allowed = "Allow it for numbers near 0, too: torch.allclose(…, atol=1e-4), for instance."
        if name == parts[-1]:
            return (
                f"{said} It is the last part.",
                "If your loop ended without a find, its name is still that of the last part: return"
                f" None behind it. Or is your limit too small? {allowed}",
            )
        return said, allowed
    differences = _how_far(evidence.pair[0].before)
    far = differences[right]
    if name == "None":
        return (
            f"Where both hold the weights of `right`, a part of this suspect differs: {right}, by"
            f" up to {far:.2g}.",
            "Return None only after every number of every part was compared, and allow for rounding"
            " alone.",
        )
    is_early = parts.index(name) < parts.index(right)
    is_dropout = isinstance(evidence.pair[0].before[0].get_submodule(name), nn.Dropout)
    if is_early and is_dropout and any(one.training for one in evidence.pair[1].given[:2]):
        return (
            "In eval mode that part hands on what it is given, and gives the same in both here.",
            "In training mode it is random. Both models must be in eval mode while you compare.",
        )
    if is_early:
        return (
            "That part gives the same in both, where they hold the same weights and are in eval"
            " mode.",
            "Do they, is rounding forgiven, and is it the part that differs whose name you return?",
        )
    said = f"That part differs, and {right} before it differs, too, by up to {far:.2g}."
    if differences[name] >= 0.999 * max(differences.values()):
        return (
            f"{said} Of all parts yours differs most, by up to {differences[name]:.2g}.",
            "A difference often grows on its way. The first part that differs by more than"
            " rounding, however little, is where it begins.",
        )
    return (
        said,
        "Return the first part in which any number of any picture differs by more than rounding.",
    )


def _how_far(given: list[Any]) -> dict[str, float]:
    """How far each part's output differs in two models that hold the same weights, at most."""
    right, suspect = copy.deepcopy(given[0]).eval(), copy.deepcopy(given[1]).eval()
    suspect.load_state_dict(right.state_dict())
    a, b = outputs(right, given[2]), outputs(suspect, given[2])
    return {name: (a[name] - b[name]).abs().max().item() for name in a}


class _Negated(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -super().forward(x)


def more(answer: Any) -> list[str]:
    """Models that hold the same weights already; one of both in eval mode; another first part."""
    found = []
    for bug in ("right", "positions_forgotten", "not_divided", "heads_merged_by_reshape"):
        for right_trains, suspect_trains in ((False, False), (True, False), (False, True)):
            right, suspect, images = models(bug, seed=5)
            suspect.load_state_dict(right.state_dict())
            right.train(right_trains)
            suspect.train(suspect_trains)
            found.append(str(answer(right, suspect, images)))
    right, suspect, images = models("right", seed=6)
    suspect.conv_proj = _Negated(2, 8, 4, stride=4)
    found.append(str(answer(right, suspect, images)))
    found += [str(answer(*one_number(picture))) for picture in range(3)]
    for size in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):  # of what the first difference is made
        found.append(str(answer(*small_positions(size))))
    return found


LOAD, SEARCH = "suspect.load_state_dict(right.state_dict())", "for name in a:"
TEST, EVAL = (
    "if not torch.allclose(a[name], b[name], atol=1e-4):",
    "right.eval()\n    suspect.eval()",
)

SLIPS = (
    Slip(
        {LOAD: ""},
        "compare two models that hold different weights",
        "Load the right model's weights into the suspect first",
    ),
    Slip(
        {LOAD: ("right = copy.deepcopy(right)\n    right.load_state_dict(suspect.state_dict())")},
        "load the suspect's weights into a copy of `right`, and not those of `right` into the"
        " suspect",
        "Both must hold the weights of `right`: suspect.load_state_dict(right.state_dict())",
    ),
    Slip(
        {TEST: "if torch.allclose(a[name], b[name], atol=1e-4):"},
        "return the first part that is equal",
        "The first part that is *not* close is asked for",
    ),
    Slip(
        {TEST: "if True:"},
        "find a difference in the first part of every model",
        "Compare the numbers of both models for the same pictures, and return a name only where"
        " they differ by more than rounding",
    ),
    Slip(
        {EVAL: ""},
        "leave both models in training mode",
        "Dropout is random, so even two right models differ. Call eval() on both",
    ),
    *(
        Slip(
            {EVAL: f"{one}.eval()"},
            f"put {name} into eval mode and not the other one",
            "Dropout is random, so even two right models differ. Call eval() on both",
        )
        for one, name in (("right", "the right model"), ("suspect", "the suspect"))
    ),
    Slip(
        {SEARCH: "for name in reversed(a):"},
        "return the last part that differs",
        "Everything after the bug differs, too: the first one tells where it is",
    ),
    Slip(
        {SEARCH: "for name in sorted(a):"},
        "go through the parts in the alphabetical order of their names",
        "The dict of `outputs` has them in the order of computation: go through it as it is",
    ),
    Slip(
        {TEST: "if a[name].shape != b[name].shape:"},
        "find no difference in any model",
        "All of these bugs keep every shape, so compare values, those of both models; and say None"
        " only when all parts were compared, behind the loop",
    ),
    Slip(
        {"return None": "return [][0]"},
        "expect a difference in every model",
        "Return None where all parts agree",
    ),
    Slip(
        {TEST: "if not torch.equal(a[name], b[name]):"},
        "allow no rounding, or too little",
        "A right layer that adds in another order differs by rounding. Allow 1e-4",
    ),
    Slip(
        {TEST: "if not torch.allclose(a[name], b[name], atol=0.5):"},
        "forgive so much that the first difference passes for none",
        "Positions are small numbers. Allow 1e-4",
    ),
    *(
        Slip(
            {TEST: f"if ({difference}).max() > 1e-4:"},
            "take the largest difference without abs(), so that a part with lower numbers alone, or"
            " with higher ones alone, passes for equal",
            "A difference counts in both directions: take abs() of it first",
        )
        for difference in ("a[name] - b[name]", "b[name] - a[name]")
    ),
    *(
        Slip(
            {TEST: f"if not torch.allclose({one}, {other}, atol=1e-4):"},
            f"compare {told} of each output alone",
            "A bug may show in another place, or with another picture: compare all numbers of all"
            " pictures",
        )
        for one, other, told in (
            ("a[name][0]", "b[name][0]", "picture 0"),
            ("a[name][-1]", "b[name][-1]", "the last picture"),
            ("a[name][:, 0]", "b[name][:, 0]", "place 0 of axis 1, such as token 0,"),
            ("a[name][..., 0]", "b[name][..., 0]", "the first number of the last axis"),
        )
    ),
    *(
        Slip(
            {TEST: f"if (a[name] - b[name]).abs().mean() > {limit}:"},
            "take the mean of the differences, which is small where few numbers differ",
            "One number that differs is enough: take the largest difference, .abs().max()",
        )
        for limit in (1e-2, 1e-1)
    ),
    Slip(
        {TEST: "if (a[name].mean() - b[name].mean()).abs() > 1e-4:"},
        "compare one number of each output, such as its mean or its sum",
        "The same numbers in other places give the same. Compare the outputs number by number",
    ),
)

EXERCISE = Exercise(
    answer=my_first_difference,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    more=more,
    hints=(
        (
            "Two models can only be compared if they hold the same weights and nothing in them is"
            " random."
        ),
        (
            "suspect.load_state_dict(right.state_dict()), eval() on both, then `outputs` of both:"
            " two dicts with the same names in the same order. Walk through one of them and return"
            " the first name whose tensors differ by more than rounding."
        ),
    ),
    same=({TEST: "if (a[name] - b[name]).abs().max() > 1e-3:"},),
)
