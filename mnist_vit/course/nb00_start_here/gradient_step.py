"""Exercise: one step of gradient descent on a linear layer, without an optimizer."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_gradient_step(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    logits = F.linear(x, weight, bias)
    loss = F.cross_entropy(logits, labels)
    weight_gradient, bias_gradient = torch.autograd.grad(loss, (weight, bias))
    weight = weight - rate * weight_gradient
    bias = bias - rate * bias_gradient
    return weight, bias


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # In the second batch there is no 9: the classes are 10 all the same. The third is one digit.
    # The last step starts where the one before it did: what that left in .grad must not count.
    for rate, digits, is_again in (
        (0.5, [2, 0, 9, 1, 2, 7, 2], False),
        (0.1, [2, 0, 8, 1, 2, 7, 2], False),
        (0.2, [3], False),
        (0.3, [4, 1, 9], True),
    ):
        if not is_again:
            weight = random(10, 5, seed=1).requires_grad_()
            bias = random(10, seed=2).requires_grad_()
        before = weight.detach().clone(), bias.detach().clone()
        x = random(len(digits), 5, seed=3)
        new = answer(weight, bias, x, torch.tensor(digits), rate)
        if new is None or new is ...:
            yield f"weight after a step of rate {rate}", new
            return
        if not isinstance(new, tuple | list) or len(new) != 2:
            raise Mistake(
                "two things must come back, the new weight and the new bias: return weight, bias."
            )
        # The way, since what is wrong with a gradient shows there.
        for name, old, now in zip(("weight", "bias"), before, new, strict=True):
            yield _way(name, f"{rate}{', from one digit' if len(digits) == 1 else ''}", old, now)
        given = {"weight": (weight, before[0]), "bias": (bias, before[1])}
        changed = [name for name, (now, old) in given.items() if not torch.equal(now, old)]
        if changed:
            raise Mistake(
                f"the tensor {changed[0]} that came in is changed."
                if len(changed) == 1
                else "the tensors weight and bias that came in are changed.",
                "Make new ones, as weight - … does: weight -= … writes into the old one,"
                " also by weight.detach() or weight.data, which share its numbers.",
            )


def _way(name: str, rate: str, old: Tensor, new: Any) -> tuple[str, Any]:
    """How far a step went; what is no tensor of this shape is left to the comparison."""
    if isinstance(new, Tensor) and new.shape == old.shape and new.dtype == old.dtype:
        return f"old {name} minus new {name}, at rate {rate}", old - new
    return f"the new {name}, at rate {rate},", new


LOGITS, LOSS = "F.linear(x, weight, bias)", "F.cross_entropy(logits, labels)"
GRADIENTS = "weight_gradient, bias_gradient = torch.autograd.grad(loss, (weight, bias))"
WEIGHT, BIAS = "weight - rate * weight_gradient", "bias - rate * bias_gradient"
END = "return weight, bias"
BACKWARD = "loss.backward()\n    weight_gradient, bias_gradient"


def _by_hand(error: str) -> dict[str, str]:
    """The edit that computes the gradients without autograd, from one that reaches the logits."""
    lines = f"error = ({error}) / len(x)"
    return {GRADIENTS: f"{lines}\n    weight_gradient, bias_gradient = error.T @ x, error.sum(0)"}


SLIPS = (
    Slip(
        {WEIGHT: "weight + rate * weight_gradient", BIAS: "bias + rate * bias_gradient"},
        "step towards a larger cross-entropy",
        (
            "Subtract rate times the gradient. The loss, the cross-entropy, is minus the mean of"
            " the right classes' log-softmax"
        ),
    ),
    Slip(
        {WEIGHT: "weight - 2 * rate * weight_gradient", BIAS: "bias - 2 * rate * bias_gradient"},
        "step by twice the gradient, as two calls of backward() add it up",
        "Subtract rate times the gradient once. If backward() is called twice, zero the gradients"
        " in between: each call adds to .grad",
    ),
    Slip(
        {GRADIENTS: f"{BACKWARD} = weight.grad, bias.grad"},
        "take weight.grad and bias.grad, to which backward() adds, without clearing them: a second"
        " call with the same weight and bias steps by the sum of both gradients",
        "torch.autograd.grad(loss, (weight, bias)) gives the gradients of this loss alone. Or set"
        " weight.grad and bias.grad to None before backward()",
    ),
    Slip(
        {BIAS: "bias"},
        "leave the bias where it was",
        "It has a gradient too. By hand it is the mean of the errors, probabilities minus one-hot"
        " labels, over the digits, dim=0: over the classes they sum to 0",
    ),
    Slip({WEIGHT: "weight"}, "leave the weight where it was", "It has a gradient too"),
    Slip(
        {WEIGHT: "weight - weight_gradient", BIAS: "bias - bias_gradient"},
        "forget the rate",
        "Multiply the gradient by the rate before you subtract it",
    ),
    Slip(
        {
            WEIGHT: "weight - rate * rate * weight_gradient",
            BIAS: "bias - rate * rate * bias_gradient",
        },
        "multiply the gradient by the rate twice",
        "A step is the rate, once, times the gradient",
    ),
    Slip(
        {WEIGHT: "-rate * weight_gradient", BIAS: "-rate * bias_gradient"},
        "return the step alone",
        "Add the steps to the old weight and to the old bias",
    ),
    Slip(
        {WEIGHT: "rate * weight_gradient", BIAS: "rate * bias_gradient"},
        "return rate times the gradient",
        "That is subtracted from the old weight and the old bias",
    ),
    Slip(
        {WEIGHT: "weight_gradient", BIAS: "bias_gradient"},
        "return the gradients",
        "A step moves the old weight and the old bias against them",
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits.softmax(dim=-1), labels)"},
        "take the softmax twice",
        "F.cross_entropy wants logits and does it by itself",
    ),
    Slip(
        {LOSS: 'F.cross_entropy(logits, labels, reduction="sum")'},
        "add the losses of the digits up",
        "The loss of a batch is their mean",
    ),
    *(
        Slip(
            {LOSS: f"F.cross_entropy(logits, labels, label_smoothing={share})"},
            f"smooth the labels, label_smoothing={share}",
            "The loss here is F.cross_entropy(logits, labels), without it",
        )
        for share in (0.1, 0.05, 0.2)
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits, labels) / len(x)"},
        "divide by the number of digits once too often",
        "The mean over the digits divides by it once; leave out the other division",
    ),
    *(
        Slip(
            {
                WEIGHT: "weight - rate * weight_gradient * len(x) / x.shape[1]",
                **bias,
            },
            f"divide by x.shape[1], how many pixels a digit has, {where}",
            "The loss of a batch is the mean over its digits: divide by len(x), x.shape[0]",
        )
        for bias, where in (
            ({}, "for the weight"),
            ({BIAS: "bias - rate * bias_gradient * len(x) / x.shape[1]"}, "for both"),
        )
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits, logits.argmax(dim=1))"},
        "take the classes that the layer predicts for the labels",
        "The loss compares its logits with the labels that came in",
    ),
    *(
        Slip(
            {
                WEIGHT: f"weight{shrunk} - rate * weight_gradient / (weight_gradient.abs() + 1e-8)",
                BIAS: f"bias{shrunk} - rate * bias_gradient / (bias_gradient.abs() + 1e-8)",
            },
            f"take the first step of {name}, in which every number moves by about the rate",
            "Plain gradient descent moves each by rate times its gradient, as torch.optim.SGD does",
        )
        for name, shrunk in (("Adam", ""), ("AdamW", " * (1 - 0.01 * rate)"))
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits, labels) * len(x) / 50"},
        "divide by 50, the size of the notebook's batches",
        "Divide by the number of digits that came in, len(x)",
    ),
    Slip(
        {LOSS: 'F.cross_entropy(logits, labels, reduction="none")'},
        "keep one loss for each digit",
        'The loss of a batch is their mean, one number: leave reduction="none" out',
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits, labels) / 10"},
        "divide the loss by the number of classes, 10, too, as the mean over all n · 10 products"
        " of one-hot labels and log-softmax does",
        "Sum over the classes, and take the mean over the digits alone",
    ),
    Slip(
        {LOGITS: "F.linear(x, weight)"},
        "leave the bias out of the logits",
        "Then no gradient reaches it",
    ),
    Slip(
        {
            GRADIENTS: "(weight_gradient,) = torch.autograd.grad(loss, weight)\n"
            "    (bias_gradient,) = torch.autograd.grad(loss, bias)"
        },
        "ask twice for a gradient of one loss",
        "One call gives both gradients: torch.autograd.grad(loss, (weight, bias))",
    ),
    *(
        Slip(
            {GRADIENTS: f"{GRADIENTS}\n    {norm}"},
            f"divide {what} by its length",
            "A step goes rate times the gradient, however long that is",
        )
        for norm, what in (
            (
                "weight_gradient = weight_gradient / weight_gradient.norm()\n"
                "    bias_gradient = bias_gradient / bias_gradient.norm()",
                "each gradient",
            ),
            ("weight_gradient = weight_gradient / weight_gradient.norm()", "the weight's gradient"),
            (
                "norm = (weight_gradient.norm() ** 2 + bias_gradient.norm() ** 2) ** 0.5\n"
                "    weight_gradient, bias_gradient = weight_gradient / norm, bias_gradient / norm",
                "the gradient of both together",
            ),
        )
    ),
    *(
        Slip(
            {GRADIENTS: f"{GRADIENTS}\n    {cut}"},
            f"clip the gradients {what}",
            "A step goes rate times the gradient, however large that is",
        )
        for cut, what in (
            (
                "size = (weight_gradient.norm() ** 2 + bias_gradient.norm() ** 2) ** 0.5\n"
                "    share = 1 / max(1.0, float(size) + 1e-6)\n"
                "    weight_gradient = weight_gradient * share\n"
                "    bias_gradient = bias_gradient * share",
                "to a length of 1 together, as clip_grad_norm_ does",
            ),
            (
                "weight_gradient, bias_gradient = weight_gradient.clamp(-0.1, 0.1),"
                " bias_gradient.clamp(-0.1, 0.1)",
                "to ±0.1, number by number",
            ),
        )
    ),
    *(
        Slip(
            {WEIGHT: f"{WEIGHT} - rate * {decay} * weight", BIAS: f"{BIAS}{also}"},
            f"shrink {what} by rate times {decay} of itself, as weight_decay={decay} does",
            "One step of plain gradient descent subtracts rate times the gradient and nothing else",
        )
        for decay in (0.01, 0.1, 1e-4)
        for also, what in (
            (f" - rate * {decay} * bias", "each of the two, weight and bias,"),
            ("", "the weight"),
        )
    ),
    Slip(
        {
            END: f"loss = F.cross_entropy({LOGITS}, labels)\n"
            f"    {GRADIENTS}\n"
            f"    return {WEIGHT}, {BIAS}"
        },
        "make two steps",
        "One is asked for; a loop over steps stands outside",
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits, F.one_hot(labels, 10))"},
        "hand F.cross_entropy one-hot labels, which are whole numbers",
        "It takes the labels as they are: F.cross_entropy(logits, labels). One-hot labels must be"
        " floats",
    ),
    *(
        Slip({LOSS: f"{loss}"}, f"take {did}", "The loss here is F.cross_entropy(logits, labels)")
        for loss, did in (
            (
                "F.binary_cross_entropy_with_logits(logits, F.one_hot(labels, 10).float())",
                "the binary cross-entropy of each of the ten logits, the sigmoid in place of the"
                " softmax",
            ),
            (
                "F.binary_cross_entropy(logits.softmax(dim=1), F.one_hot(labels, 10).float())",
                "the binary cross-entropy of each of the ten probabilities",
            ),
            (
                "F.mse_loss(logits.softmax(dim=1), F.one_hot(labels, 10).float())",
                "F.mse_loss of the probabilities and the one-hot labels",
            ),
            ("F.multi_margin_loss(logits, labels)", "F.multi_margin_loss"),
        )
    ),
    Slip(
        {LOSS: "F.mse_loss(logits, F.one_hot(labels, 10).float())"},
        "take F.mse_loss of the logits and the one-hot labels",
        "The loss here is the cross-entropy",
    ),
    Slip(
        {
            WEIGHT: "weight - rate * weight_gradient.sign()",
            BIAS: "bias - rate * bias_gradient.sign()",
        },
        "step by the sign of the gradient",
        "Its size counts too",
    ),
    Slip(
        {LOGITS: "F.linear(x, weight)", "(weight, bias))": "(weight, weight))", BIAS: "bias"},
        "leave the bias out altogether",
        "It is added to the logits, and has a gradient of its own",
    ),
    Slip(
        {LOSS: "F.nll_loss(logits, labels)"},
        "leave the softmax out of the loss",
        (
            "The cross-entropy takes logarithms of probabilities, logits.log_softmax(dim=-1);"
            " F.cross_entropy does so by itself"
        ),
    ),
    Slip(
        {WEIGHT: "weight - 0.1 * weight_gradient", BIAS: "bias - 0.1 * bias_gradient"},
        "write the rate 0.1 into the step",
        "Use the rate that is given",
    ),
    Slip(
        {LOGITS: "F.linear(x[:1], weight, bias)", LOSS: "F.cross_entropy(logits, labels[:1])"},
        "use the first digit of the batch alone",
        "The loss is the mean over all of them",
    ),
    Slip(
        {BIAS: "bias + rate * bias_gradient"},
        "move the bias along its gradient",
        "It moves against its gradient, as the weight does",
    ),
    Slip(
        {WEIGHT: "weight + rate * weight_gradient"},
        "move the weight along its gradient",
        ("It moves against its gradient, as the bias does"),
    ),
    Slip({BIAS: "bias - bias_gradient"}, "forget the rate for the bias", "It is for both"),
    Slip({END: "return bias, weight"}, "return the bias first", "The weight comes first"),
    Slip(
        {
            BIAS: (
                "bias - rate * torch.autograd.grad(F.cross_entropy(F.linear(x, weight, bias),"
                " labels), bias)[0]"
            )
        },
        "step with the weight, and then take the bias's gradient at the new weight",
        "Both gradients belong to one loss",
    ),
    Slip(
        {LOGITS: "F.linear(x, weight, bias).detach()"},
        "cut the loss off from weight and bias, so that nothing can be derived",
        (
            "Compute the loss from weight and bias themselves, without no_grad(), detach(), .data"
            " and item()"
        ),
    ),
    Slip(
        {LOGITS: "x @ weight + bias"},
        "multiply by the weight without transposing it",
        "A linear layer is x Wᵀ + b, F.linear(x, weight, bias)",
    ),
    Slip(
        _by_hand("logits.softmax(dim=0) - F.one_hot(labels, 10)"),
        "take the softmax along axis 0, over the digits of the batch",
        "The ten probabilities of each digit sum to 1: dim=1",
    ),
    Slip(
        {LOSS: "F.nll_loss(logits.log_softmax(dim=0), labels)"},
        "take the softmax along axis 0, over the digits of the batch",
        "The ten probabilities of each digit sum to 1: dim=1",
    ),
    Slip(
        {
            GRADIENTS: "error = (logits.softmax(dim=1) - F.one_hot(labels, 10)) / 10\n"
            "    weight_gradient, bias_gradient = error.T @ x, error.sum(0)"
        },
        "divide by the number of classes, 10, in place of the number of digits",
        "The loss of a batch is the mean over its digits: divide by len(x)",
    ),
    Slip(
        _by_hand("logits.softmax(dim=1) - F.one_hot(labels)"),
        "call F.one_hot without the number of classes",
        "F.one_hot counts the classes from the labels, so a batch without a 9 gets 9 columns:"
        " F.one_hot(labels, 10), or len(bias)",
    ),
    Slip(
        {LOSS: "F.cross_entropy(logits, F.one_hot(labels).float())"},
        "let F.one_hot take the largest label of the batch for the last class",
        "In a batch without a 9 it has a column too few: F.one_hot(labels, 10), or the labels as"
        " they are",
    ),
    Slip(
        _by_hand("logits.log_softmax(dim=1) - F.one_hot(labels, 10)"),
        "subtract the one-hot labels from the logarithm of the probabilities",
        "The gradient that reaches the logits has the probabilities themselves: softmax",
    ),
    Slip(
        _by_hand("logits.softmax(dim=1)"),
        "leave the right classes out: the gradient that reaches the logits is then the"
        " probabilities alone",
        "By hand, subtract the one-hot labels from the probabilities; in the loss, subtract each"
        " digit's logit of the right class",
    ),
    Slip(
        _by_hand("logits - F.one_hot(labels, 10)"),
        "subtract the one-hot labels from the logits",
        "They are subtracted from the probabilities, logits.softmax(dim=1)",
    ),
    *(
        Slip(
            {WEIGHT: f"weight - rate * weight_gradient{weight}", BIAS: f"{BIAS}{bias}"},
            f"{what} by the number of digits for the {part}",
            "The loss of a batch is the mean over its digits: weight and bias have the gradients"
            " of that mean, divided once",
        )
        for weight, bias, what, part in (
            (" * len(x)", "", "do not divide", "weight"),
            ("", " * len(x)", "do not divide", "bias"),
            (" / len(x)", "", "divide twice", "weight"),
            ("", " / len(x)", "divide twice", "bias"),
        )
    ),
    *(
        Slip(
            edit,
            f"subtract the old {what} from the step",
            "The step is subtracted from what was there before",
        )
        for edit, what in (
            ({WEIGHT: "rate * weight_gradient - weight"}, "weight"),
            ({BIAS: "rate * bias_gradient - bias"}, "bias"),
            (
                {
                    WEIGHT: "rate * weight_gradient - weight",
                    BIAS: "rate * bias_gradient - bias",
                },
                "weight and the old bias",
            ),
        )
    ),
    *(
        Slip(
            {line: f"{name} - rate * {name}"},
            f"subtract rate times the {name} itself",
            "It is the gradient that is multiplied by the rate and subtracted",
        )
        for line, name in ((WEIGHT, "weight"), (BIAS, "bias"))
    ),
    Slip({BIAS: "bias - rate"}, "subtract the rate alone from the bias", "Its gradient is missing"),
    *(
        Slip(
            {line: f"{name}_gradient"},
            f"return the gradient of the {name} in place of the new {name}",
            f"The new one is {name} minus rate times it",
        )
        for line, name in ((WEIGHT, "weight"), (BIAS, "bias"))
    ),
)

EXERCISE = Exercise(
    answer=my_gradient_step,
    compare=compare,
    stars=2,
    slips=SLIPS,
    hints=(
        (
            "Three steps: the logits, F.linear(x, weight, bias); the loss of the batch; its"
            " gradients. Then move."
        ),
        (
            "torch.autograd.grad(loss, (weight, bias)) returns both gradients. (Or loss.backward(),"
            " and they are weight.grad and bias.grad.) Against the gradient means: minus rate"
            " times it."
        ),
    ),
    same=(
        {LOGITS: "x @ weight.T + bias"},
        {LOSS: "-logits.log_softmax(dim=-1)[torch.arange(len(x)), labels].mean()"},
        {GRADIENTS: f"weight.grad = bias.grad = None\n    {BACKWARD} = weight.grad, bias.grad"},
    ),
    tolerance=1e-5,
)
