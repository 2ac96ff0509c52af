"""Exercise: LayerNorm by hand, Ba et al. 2016, https://arxiv.org/abs/1607.06450."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..checking import Evidence, Exercise, Mistake, Slip, gradients, random


def my_layer_norm(x, weight, bias, eps):
    """(n, seq_length, hidden_dim) -> (n, seq_length, hidden_dim)."""
    # keepdim leaves (n, seq_length, 1), which broadcasts over the numbers of each token.
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    normalised = centred / (variance + eps).sqrt()
    return normalised * weight + bias


class NoLayerNorm(TorchFunctionMode):
    """Refuses the functions that do the whole exercise; ``nn.LayerNorm`` calls the first."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in (F.layer_norm, torch.layer_norm, torch.native_layer_norm):
            raise Mistake(
                "nn.LayerNorm and F.layer_norm are the exercise in one call.",
                "Write it from the formula.",
            )
        return function(*args, **(kwargs or {}))


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    """Tokens whose variance goes from a hundred times eps down to eps, in float64; then a large
    eps; then one token alone."""
    sizes = torch.tensor([1.0, 1e-1, 1e-2, 3e-3, 1e-3], dtype=torch.float64)
    for eps in (1e-6, 0.25):
        x = random(2, 5, 3, seed=4, dtype=torch.float64) * sizes[:, None] + 0.5
        weight = 1 + 0.3 * random(3, seed=5, dtype=torch.float64)
        bias = random(3, seed=6, dtype=torch.float64)
        given = [one.requires_grad_() for one in (x, weight, bias)]
        with NoLayerNorm():
            output = answer(*given, eps)
        yield f"output with eps {eps:g}", output
        yield from _gradients(output, *given, eps)
    ones = (random(7, seed=seed, dtype=torch.float64) for seed in (7, 8))
    with NoLayerNorm():
        alone = answer(random(1, 1, 7, seed=9, dtype=torch.float64), *ones, 1e-6)
    yield "output for one token of one picture", alone


def _gradients(output: Any, *given: Any) -> Iterator[tuple[str, Any]]:
    """The gradients; ours for an answer that has none because it writes into a copy of its own."""
    x, weight, bias, _ = given
    names = {"x": x, "weight": weight, "bias": bias}
    try:
        yield from gradients(output, **names)
    except Mistake:
        yield from gradients(my_layer_norm(*given), **names)


WEIGHT, BIAS = 1, 2  # their places among the arguments


def tell(evidence: Evidence) -> tuple[str, str]:
    """Which tokens are wrong, and their mean and mean square before weight and bias."""
    if not evidence.what.startswith("output") or not evidence.is_finite or evidence.pair is None:
        return "", ""
    if evidence.value.shape != evidence.expected.shape:
        return "", ""
    _, weight, bias, eps = evidence.pair[0].before
    far = (evidence.value - evidence.expected).abs().amax(dim=-1)
    wrong = (far > 1e-3).any(dim=0)  # the tokens vary less and less
    if eps < 0.1 and not wrong[0] and wrong[-1]:
        return (
            "Tokens whose numbers vary much are right, and those whose numbers vary little are"
            " wrong: for them eps counts.",
            "It must be added to the variance, once, before the root is taken.",
        )
    ours, own = (call.again(BIAS, torch.zeros_like(bias))[0] / weight for call in evidence.pair)
    added = evidence.value - own * weight
    if torch.allclose(own, ours) and not torch.allclose(added, bias.expand_as(added)):
        return _about_bias(added), (
            "Add bias last, once: after the division by the root, and after weight."
        )
    if said := _weighed(evidence):
        return said, (
            "Before the bias is added, multiply all of it by weight, once. * and / come before -:"
            " x - mean needs brackets."
        )
    worst = (own - ours).abs().amax(dim=-1).flatten().argmax()
    token, right = own.flatten(0, -2)[worst], ours.flatten(0, -2)[worst]
    mean, square, size = token.mean(), token.square().mean(), right.square().mean()
    said = "Given a bias of zero, and divided by weight, one of your tokens has"
    centre = divide = ""
    if mean.abs() > 1e-3 * max(1.0, float(square.sqrt())):
        said += f" the mean {mean:.2g}, and should have 0."
        centre = (
            "Each token must be centred by its own mean: the sum of its numbers, divided by how"
            " many they are."
        )
    if (square / size - 1).abs() > 0.02:
        said += " Its" if centre else " the mean 0, as it should, but its"
        said += f" mean square is {square:.2g}, and should be {size:.2g}."
        divide = "What is centred must be divided by the root of the token's own variance + eps."
    return (said, f"{centre} {divide}".strip()) if centre or divide else ("", "")


def _about_bias(added: Tensor) -> str:
    """What shows in what a bias adds, where all else is right."""
    said = "With a bias of zero your result is right."
    if torch.allclose(added, added[:1, :1].expand_as(added)):
        return said
    return f"{said} With a bias, what it adds is not the same in all tokens."


def _weighed(evidence: Evidence) -> str:
    """What shows, with a bias of zero, that weight is used in another way."""
    if evidence.pair is None:
        return ""
    ours, own = evidence.pair
    _, weight, bias, _ = ours.before
    for named, given in (("zeros", torch.zeros_like(weight)), ("ones", torch.ones_like(weight))):
        changed = {WEIGHT: given, BIAS: torch.zeros_like(bias)}
        theirs, right = own.again_with(changed)[0], ours.again_with(changed)[0]
        if named == "zeros" and theirs.abs().max() > 1e-6:
            return "With a weight and a bias of zeros your result is not zero."
        if named == "ones" and torch.allclose(theirs, right):
            return "With a weight of ones and a bias of zeros your result is right."
    return ""


MEAN, CENTRE, VARIANCE = (
    "x.mean(dim=-1, keepdim=True)",
    "x - mean",
    "centred.square().mean(dim=-1, keepdim=True)",
)
DIVIDE, ROOT, END = (
    "centred / (variance + eps).sqrt()",
    "(variance + eps).sqrt()",
    "normalised * weight + bias",
)


def _over(axes: str) -> dict[str, str]:
    return {edited: edited.replace("-1", axes) for edited in (MEAN, VARIANCE)}


def _counted(number: str) -> tuple[tuple[dict[str, str], str], ...]:
    """Edits that divide by another number, each with the words for where."""
    mean = {MEAN: f"x.sum(dim=-1, keepdim=True) / {number}"}
    variance = {VARIANCE: f"centred.square().sum(dim=-1, keepdim=True) / {number}"}
    return (
        (mean | variance, "mean and variance"),
        (mean, "the mean"),
        (variance, "the variance"),
    )


IN_PLACE = (
    "with torch.no_grad():\n        x -= mean\n"
    "        x /= (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()\n    centred = x"
)

SLIPS = (
    Slip(
        {f"centred = {CENTRE}": IN_PLACE, DIVIDE: "centred"},
        "normalise x in place under no_grad() or through .data, which the gradient does not see",
        (
            "Make new tensors, x - mean and so on, with neither: then x stays as it came, and the"
            " gradient goes through mean and variance"
        ),
    ),
    Slip(
        {ROOT: "(x.std(dim=-1, keepdim=True) + eps)"},
        "divide by x.std() + eps, the norm of the Annotated Transformer",
        "PyTorch's std() divides the squares by one less than their number, and eps belongs inside"
        " the root",
    ),
    Slip(
        {MEAN: "x.mean(dim=-1)"},
        "forget keepdim=True",
        "Without it mean or variance has the shape (n, seq_length), and PyTorch lines its last axis"
        " up with the numbers of a token",
    ),
    Slip(
        {ROOT: "(variance.sqrt() + eps)"},
        "add eps outside the root",
        "It is the root of (variance + eps)",
    ),
    Slip(
        {VARIANCE: "x.var(dim=-1, keepdim=True)"},
        "divide the squares by one less than the number of values (the unbiased variance, PyTorch's"
        " usual one)",
        "Divide by their number, correction=0",
    ),
    Slip(
        {VARIANCE: "centred.square().sum(dim=-1, keepdim=True)"},
        "take the sum of the squares",
        "The variance is their mean",
    ),
    Slip(
        {ROOT: "(variance + 1e-5).sqrt()"},
        "use PyTorch's usual eps, 1e-5",
        "Another one may be given: use the argument eps",
    ),
    Slip({ROOT: "(variance + 1e-6).sqrt()"}, "write 1e-6 into the formula", "Use the argument eps"),
    Slip({ROOT: "variance.sqrt()"}, "forget eps", "Add it to the variance, inside the root"),
    Slip(
        _over("1"),
        "normalise over the tokens (dim=1)",
        "Each token is normalised alone, over its own numbers, dim=-1",
    ),
    Slip(
        _over("0"),
        "normalise over the batch (dim=0)",
        "Each token is normalised alone, over its own numbers, dim=-1",
    ),
    Slip(
        _over("(1, 2)"),
        "take one mean and one variance for all tokens of a picture",
        "Each token has its own, dim=-1 only",
    ),
    Slip(
        _over("(0, 1, 2)"),
        "take one mean and one variance for the whole tensor",
        "Each token has its own, dim=-1, keepdim=True",
    ),
    Slip(
        {
            MEAN: f"{MEAN}.detach()",
            VARIANCE: "centred.detach().square().mean(dim=-1, keepdim=True)",
        },
        "detach mean and variance",
        "The values are right, and the gradients are not: both depend on x, so leave them in the"
        " graph",
    ),
    Slip(
        {END: "normalised * bias + weight"},
        "multiply by bias and add weight",
        "Multiply by weight, then add bias",
    ),
    Slip(
        {END: "normalised * weight.detach() + bias.detach()"},
        "take weight and bias out of the graph, as .data and detach() do",
        "Both are learned: multiply by weight and add bias as they come",
    ),
    Slip(
        {END: "normalised @ weight + bias"},
        "multiply by weight with @, as if it were a matrix",
        "It holds a number for each number of a token: normalised * weight",
    ),
    Slip(
        {END: "normalised * (1 + weight) + bias"},
        "multiply by 1 + weight",
        "weight starts at 1 and is the factor itself: normalised * weight",
    ),
    Slip({END: "normalised"}, "stop before weight and bias", "Multiply by weight, then add bias"),
    Slip({END: "normalised + bias"}, "forget weight", "Multiply by it before adding bias"),
    Slip({END: "normalised * weight"}, "forget bias", "Add it at the end"),
    Slip(
        {END: "(normalised + bias) * weight"},
        "add bias before multiplying by weight",
        "Weight first, then bias",
    ),
    Slip(
        {ROOT: "(variance + eps)"},
        "divide by variance + eps, without the root",
        ("Divide by the root of (variance + eps)"),
    ),
    Slip({CENTRE: "x"}, "leave the mean in (that is RMSNorm)", "Subtract it first"),
    Slip({DIVIDE: "x / (variance + eps).sqrt()"}, "divide x itself", "Subtract the mean first"),
    Slip(
        {DIVIDE: "centred"},
        "subtract the mean and do not divide",
        "Divide by the root of (variance + eps) too",
    ),
    *(
        Slip(
            edit,
            f"divide by {what} in {where}, in place of the number of values of a token",
            "That is x.shape[-1], and .mean(dim=-1) divides by it",
        )
        for number, what in (
            ("64", "64"),
            ("x.shape[1]", "the number of tokens"),
            ("x.shape[0]", "the number of pictures"),
        )
        for edit, where in _counted(number)
    ),
    Slip(
        {ROOT: "(variance + 2 * eps).sqrt()"},
        "add eps twice",
        "Once is enough: √(variance + eps)",
    ),
    Slip(
        {END: "x - mean / (variance + eps).sqrt() * weight + bias"},
        "leave out the brackets round x - mean",
        "* and / come before -, so only the mean is divided and multiplied: write (x - mean)",
    ),
    Slip(
        {DIVIDE: "x / (variance + eps).sqrt() - mean"},
        "divide before the mean is subtracted",
        "What is divided is x - mean, in brackets",
    ),
    Slip(
        {DIVIDE: "centred / variance.clamp(min=eps).sqrt()"},
        "put eps in the place of a smaller variance",
        "It is added to the variance, whatever that is",
    ),
    Slip(
        {ROOT: "(variance + eps**2).sqrt()"},
        "add the square of eps",
        "It is added to the variance as it is",
    ),
    Slip(
        {VARIANCE: f"{VARIANCE}.detach()"},
        "detach the variance",
        "It depends on x, too: leave it in the graph",
    ),
    Slip(
        {MEAN: f"{MEAN}.detach()"},
        "detach the mean",
        "It depends on x, too: leave it in the graph",
    ),
    Slip({CENTRE: "mean - x"}, "subtract the tokens from their mean", "It is x - mean"),
    Slip({END: "normalised * weight - bias"}, "subtract bias", "It is added"),
    Slip(
        {END: "normalised + weight + bias"},
        "add weight in place of multiplying by it",
        "Multiply by weight, then add bias",
    ),
    Slip(
        {VARIANCE: "x.std(dim=-1, keepdim=True)"},
        "take PyTorch's std for the variance",
        "It is the root already, and of squares divided by one less than their number: the variance"
        " is x.var(dim=-1, correction=0, keepdim=True)",
    ),
    Slip(
        {VARIANCE: "x.std(dim=-1, correction=0, keepdim=True)"},
        "take the standard deviation for the variance, and so its root once more",
        "The variance is the mean of the squares",
    ),
    Slip(
        {VARIANCE: "centred.abs().mean(dim=-1, keepdim=True)"},
        "take the mean of the distances for the variance",
        "It is the mean of their squares",
    ),
    Slip(
        {VARIANCE: "x.square().mean(dim=-1, keepdim=True)"},
        "take the mean of the squares of x itself for the variance",
        "The mean is subtracted before squaring",
    ),
    Slip(
        {DIVIDE: "centred * (variance + eps).sqrt()"},
        "multiply by the root of (variance + eps)",
        "Divide by it",
    ),
)

EXERCISE = Exercise(
    answer=my_layer_norm,
    compare=compare,
    stars=2,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "Each token is normalised over its own numbers, the last axis: mean, variance, divide,"
            " weight and bias."
        ),
        (
            "x.mean(-1, keepdim=True) keeps the axis, so that subtracting works. The variance is"
            " the mean of the squares of what is left, and eps goes inside the root. At the end"
            " multiply by weight, then add bias."
        ),
    ),
    same=(
        {VARIANCE: "x.square().mean(dim=-1, keepdim=True) - mean.square()"},
        {DIVIDE: "centred * (variance + eps).rsqrt()"},
        {DIVIDE: "centred * weight / (variance + eps).sqrt()", END: "normalised + bias"},
    ),
    tolerance=1e-8,
)
