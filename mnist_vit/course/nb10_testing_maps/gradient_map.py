"""Exercise: a map of a class, by the plain gradient: token × gradient.

Known as gradient × input, Shrikumar et al. 2016, https://arxiv.org/abs/1605.01713.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..checking import Exercise, Mistake, Slip, random


def my_gradient_map(logits: Tensor, tokens: Tensor, classes: Tensor) -> Tensor:
    # logits (n, classes) were computed from tokens (n, 1 + patches, hidden_dim); classes (n,)
    # -> (n, patches): token × gradient of the logit of the picture's class, summed
    chosen = logits.gather(1, classes[:, None])
    (gradient,) = torch.autograd.grad(chosen.sum(), tokens)
    contributions = (tokens * gradient).sum(dim=-1)
    return contributions[:, 1:]


def _run(pictures: int, patches: int, seed: int) -> tuple[Tensor, Tensor]:
    """Logits of four classes, and the tokens that they depend on, each picture on its own."""
    first = random(pictures, 1 + patches, 3, seed=seed).requires_grad_()
    tokens = first * 1.5  # as in a model: tokens that were computed from something
    matrix = random(1 + patches, 3, 4, seed=seed + 1)
    return torch.einsum("nsd,sdc->nc", tokens.tanh(), matrix) ** 2, tokens


@torch.enable_grad()
def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    logits, tokens = _run(3, 4, seed=151)
    yield (
        "a map of 4 patches for each of 3 pictures",
        _without_graph(answer(logits, tokens, torch.tensor([2, 0, 3]))),
    )
    logits, tokens = _run(3, 4, seed=157)
    yield (
        "maps of the same size for other classes",
        _without_graph(answer(logits, tokens, torch.tensor([0, 3, 1]))),
    )
    logits, tokens = _run(2, 9, seed=154)
    yield "maps of 9 patches", _without_graph(answer(logits, tokens, torch.tensor([1, 1])))


def _without_graph(value: Any) -> Any:
    """Whether a map still has its graph is free."""
    return value.detach() if isinstance(value, Tensor) else value


@torch.enable_grad()
def notice(answer: Any) -> Mistake | None:
    """What is given for logits that are linear in the tokens, where each contribution is known."""
    tokens = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]]]).requires_grad_() * 1
    logits = torch.stack([tokens.sum(dim=(1, 2)), 10 * tokens[:, 1].sum(dim=1)], dim=1)
    found = answer(logits, tokens, torch.tensor([1]))
    wanted = torch.tensor([[70.0, 0.0]])
    if not isinstance(found, Tensor):
        return None
    if found.shape != wanted.shape:
        return _noticed_shape(answer)
    if torch.allclose(found, wanted):
        return _noticed_shape(answer)
    told = " and ".join(f"{value:.4g}" for value in found[0].tolist())
    return Mistake(
        "For a logit that is ten times the sum of the numbers 3 and 4 of the first patch's token"
        f" you give {told} for the first and the second patch.",
        "It should be 30 + 40 = 70 and 0. The gradient of this logit is 10 at each of the two"
        " numbers and 0 elsewhere: multiply it by the tokens, and add up over the last axis.",
    )


def _noticed_shape(answer: Any) -> Mistake | None:
    """What the axes are, where no two sizes are alike: 8 pictures, 16 patches, 3 numbers."""
    logits, tokens = _run(8, 16, seed=157)
    found = tuple(answer(logits, tokens, torch.arange(8) % 4).shape)
    if found == (8, 16):
        return None
    known = {8: "pictures", 17: "tokens of a picture", 16: "patches", 3: "numbers of a token"}
    known |= {7: "pictures, less one", 15: "patches, less one"}
    said = []
    for size in found:
        if size in known:
            said.append(f"{size} is the number of {known[size]}")
    told = f": {', '.join(said)}." if said else "."
    return Mistake(
        "Of 8 pictures, each with a class token and 16 patches, and tokens of 3 numbers, you make"
        f" the shape {found}{told}",
        "It is (8, 16), a row for each picture. Add up over the numbers of each token, dim=-1; then"
        " leave out token 0 of each picture: [:, 1:].",
    )


CHOSEN, SUM = "chosen = logits.gather(1, classes[:, None])", "chosen.sum()"
PRODUCT, END = "(tokens * gradient).sum(dim=-1)", "return contributions[:, 1:]"

SLIPS = (
    Slip(
        {END: "return contributions"},
        "keep the class token",
        "A map is of patches: leave out token 0",
    ),
    Slip(
        {END: "return contributions[:, :-1]"},
        "leave out the last patch and keep the class token",
        "The class token comes first: leave out token 0",
    ),
    Slip(
        {END: "return contributions[1:]"},
        "leave out the first picture, and keep the class token",
        "The first axis is that of the pictures. Leave out the class token on the second: [:, 1:]",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient).sum(dim=1)"},
        "add up over the tokens (dim=1)",
        "Add up over the numbers of each token, dim=-1: each token gets one number",
    ),
    Slip(
        {PRODUCT: "gradient.sum(dim=-1)"},
        "add up the gradient alone",
        "The gradient says what a change of each number would do; its product with the number says"
        " what the number contributes",
    ),
    Slip(
        {PRODUCT: "gradient.norm(dim=-1)"},
        "take the length of the gradient",
        "It has no sign. Multiply number by number with the tokens, and add up",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient).abs().sum(dim=-1)"},
        "take absolute values before the sum",
        "Contributions have a sign, and in the sum they may cancel",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient).sum(dim=-1).abs()"},
        "take the absolute value of each patch's sum",
        "Keep the sign: it says for or against the class",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient).sum(dim=-1).relu()"},
        "set the negative sums of patches to zero",
        "Keep the sign: it says for or against the class",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient).mean(dim=-1)"},
        "take the mean over the numbers of a token",
        "Contributions are added up",
    ),
    Slip(
        {END: f"{END} / contributions[:, 1:].abs().sum(dim=1, keepdim=True)"},
        "divide the map of each picture by the sum of its absolute values",
        "The contributions are asked for, as they are",
    ),
    Slip(
        {END: f"{END} / contributions[:, 1:].abs().amax(dim=1, keepdim=True)"},
        "divide the map of each picture by its largest absolute value",
        "The contributions are asked for, as they are",
    ),
    Slip(
        {PRODUCT: "(tokens[:, :1] * gradient).sum(dim=-1)"},
        "multiply the gradient of each token by the class token",
        "Each token is multiplied by its own gradient",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient[:, :1]).sum(dim=-1)"},
        "multiply each token by the gradient of the class token",
        "Each token is multiplied by its own gradient",
    ),
    Slip(
        {PRODUCT: "(tokens * gradient.roll(1, dims=1)).sum(dim=-1)"},
        "multiply each patch by the gradient of the token before it",
        "Each token is multiplied by its own gradient: leave out token 0 of both, or of the sums",
    ),
    Slip(
        {PRODUCT: "(tokens.roll(1, dims=1) * gradient).sum(dim=-1)"},
        "multiply the gradient of each patch by the token before it",
        "Each token is multiplied by its own gradient: leave out token 0 of both, or of the sums",
    ),
    Slip(
        {PRODUCT: "tokens.sum(dim=-1) * gradient.sum(dim=-1)"},
        "add up token and gradient first, and multiply the sums",
        "Multiply number by number, then add up",
    ),
    Slip(
        {CHOSEN: "chosen = logits"},
        "take the gradient of all logits together",
        "The logit of one class of each picture is asked for",
    ),
    Slip(
        {CHOSEN: "chosen = logits[:, classes]"},
        "take every picture's class in every picture (logits[:, classes])",
        "One logit of each picture: logits[torch.arange(n), classes], or gather",
    ),
    Slip(
        {CHOSEN: "chosen = logits[:, classes[0]]"},
        "take the first picture's class for all",
        "Each picture has a class of its own",
    ),
    Slip(
        {CHOSEN: "chosen = logits.amax(dim=1)"},
        "take the largest logit of each picture",
        "classes says which logit is asked for; the model may name another one",
    ),
    Slip(
        {CHOSEN: "chosen = logits.softmax(dim=1).gather(1, classes[:, None])"},
        "take the gradient of the probability",
        "The logit is asked for, before the softmax",
    ),
    Slip(
        {CHOSEN: "chosen = logits.log_softmax(dim=1).gather(1, classes[:, None])"},
        "take the gradient of the logarithm of the probability (of a cross-entropy, turned round)",
        "The logit itself is asked for",
    ),
    Slip(
        {CHOSEN: "chosen = -logits.log_softmax(dim=1).gather(1, classes[:, None])"},
        "take the gradient of the cross-entropy",
        "The logit itself is asked for",
    ),
    Slip(
        {SUM: "chosen.mean()"},
        "take the mean over the pictures",
        "Each picture's gradient is then divided by their number. With the sum each is its own",
    ),
    Slip(
        {SUM: "chosen[0].sum()"},
        "take the gradient of the first picture's logit only",
        "The sum over all pictures gives each its own gradient",
    ),
)

EXERCISE = Exercise(
    answer=my_gradient_map,
    compare=compare,
    stars=1,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "Choose one logit of each picture, that of its class. torch.autograd.grad(score,"
            " tokens) wants a single number as score; no picture's logit depends on another"
            " picture's tokens, so what may the score be?"
        ),
        (
            "(gradient,) = torch.autograd.grad(chosen.sum(), tokens) has the tokens' shape."
            " Multiply it by the tokens, add up over the last axis, and leave out token 0."
        ),
    ),
    same=(
        {CHOSEN: "chosen = logits[torch.arange(len(classes)), classes]"},
        {PRODUCT: "torch.einsum('nsd,nsd->ns', tokens, gradient)"},
    ),
    tolerance=1e-5,
)
