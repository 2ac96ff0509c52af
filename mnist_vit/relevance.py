"""Which patches speak for a class: relevance and integrated gradients, on unmodified models.

Relevance is gradient × token with other rules in the backward pass (AttnLRP, Achtibat et al. 2024,
https://arxiv.org/abs/2402.05602; their numbers stand at the rules). The forward pass is the model's
own: the rules are hooks on the nodes of the autograd graph that it leaves, and vanish with it.

By each rule, gradient × input adds up to gradient × output, so that a logit is followed down to the
tokens: what tokens, biases and the constant part of each softmax have is the logit. This proves the
bookkeeping, not the map; ``hiding`` tests maps.

The norm rule does most of the work. A norm cancels the size of its input, so that its plain
gradient × input adds up to nothing, whatever comes out of it: there every class would lose all.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import Node

from .errors import NOT_FINITE, check_sizes
from .forward import eval_mode, logits_of
from .tokens import at_tokens, patch_grid

__all__ = ["class_scores", "integrated_gradients", "relevance"]

Classes = Tensor | Sequence[int] | int | None
Gradients = tuple[Any, ...]  # tensors, None where none is asked for
Hook = Callable[[Gradients, Gradients], Gradients]  # of inputs and outputs -> of inputs
Rule = Callable[[Any, list[bool]], Hook | None]  # a node, which inputs are made of tokens


def relevance(
    model: nn.Module,
    images: Tensor,
    classes: Classes = None,
    against: Classes = None,
    grid: tuple[int, int] | None = None,
    batch_size: int = 8,
) -> Tensor:
    """How much each patch speaks for a class (above zero) or against it, by AttnLRP.

    Tokens are what the first block takes: patches with their positions. Their reference is zero:
    the map asks what a token adds, not what the picture would be with a black patch.

    Args:
        images: (n, c, h, w), normalised as the model wants them; converted to its device and dtype.
        classes: one class, or one for each image; None takes the predicted ones.
        against: the same; relevance is then that of the difference of two logits.
        grid: rows and columns of patches, if the model does not tell them.
        batch_size: images in a pass forward and back; fewer need less memory.

    Returns (n, patches), in units of the logit; ``attention.to_maps`` puts them in their places.
    The model may be frozen; it is in eval mode meanwhile. ValueError: tokens are not found, or an
    operation has no rule; it is named.
    """
    check_sizes(batch_size=batch_size)
    grid = grid or patch_grid(model, images)
    chosen = _each(classes, images)
    others = _each(against, images)
    found = []
    with eval_mode(model), torch.enable_grad():
        for some in torch.arange(len(images)).split(batch_size):
            pixels = images[some].detach().to(next(model.parameters()))
            pixels = pixels.clone().requires_grad_()
            with at_tokens(model) as seen:
                scores = class_scores(model, pixels, _of(chosen, some), _of(others, some))
            tokens = seen[0]
            _check_places(model, tokens, pixels, grid)
            _register_rules(model, scores, tokens, pixels)
            (gradient,) = torch.autograd.grad(scores.sum(), tokens)
            by_token = (gradient * tokens.detach()).sum(dim=-1)
            found.append(by_token[:, -math.prod(grid) :])
    return torch.cat(found)


def integrated_gradients(
    model: nn.Module,
    images: Tensor,
    reference: Tensor,
    classes: Classes = None,
    against: Classes = None,
    grid: tuple[int, int] | None = None,
    batch_size: int = 8,
    steps: int = 32,
) -> Tensor:
    """How much each patch changes a logit on the straight way from a reference picture.

    (image - reference) × the mean gradient on that way, added up over the pixels of each patch:
    equation 1 of Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365. With many ``steps``
    the patches add up to the difference of both logits (their proposition 1).

    ``reference``: normalised as ``images`` are, and broadcast to them, such as black pictures; the
    other arguments are those of ``relevance``. Returns (n, patches), in units of the logit.
    """
    check_sizes(batch_size=batch_size, steps=steps)
    grid = grid or patch_grid(model, images)
    chosen = _each(classes, images)
    others = _each(against, images)
    found = []
    for some in torch.arange(len(images)).split(batch_size):
        image = images[some].detach().to(next(model.parameters()))
        way = image - reference.to(image).expand(images.shape)[some]
        total = torch.zeros_like(image)
        with eval_mode(model), torch.enable_grad():
            labels = _of(chosen, some)
            if labels is None:
                labels = logits_of(model, image).argmax(dim=1)
            for step in range(steps):
                pixels = (image - (step + 0.5) / steps * way).requires_grad_()
                scores = class_scores(model, pixels, labels, _of(others, some))
                total += torch.autograd.grad(scores.sum(), pixels)[0]
        by_pixel = (way * total / steps).sum(dim=1)
        area = by_pixel[0].numel() / math.prod(grid)
        found.append(F.adaptive_avg_pool2d(by_pixel, grid).flatten(1) * area)
    return torch.cat(found)


def class_scores(
    model: nn.Module, images: Tensor, classes: Classes = None, against: Classes = None
) -> Tensor:
    """The logit of a class for each image, or the difference of two, (n,); see ``relevance``."""
    logits = logits_of(model, images)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"{type(model).__name__} must return logits (n, classes), got {got}: give a model with"
            " a class head"
        )
    if not logits.isfinite().all():
        raise ValueError(NOT_FINITE)
    scores = _logit(logits, logits.argmax(dim=1) if classes is None else classes)
    return scores if against is None else scores - _logit(logits, against)


def _logit(logits: Tensor, classes: Classes) -> Tensor:
    chosen = _each(classes, logits)
    last = logits.shape[1] - 1
    if not 0 <= chosen.min() <= chosen.max() <= last:
        raise ValueError(f"a class must be 0 to {last}, got {classes}")
    return logits.gather(1, chosen[:, None].to(logits.device))[:, 0]


def _each(classes: Classes, images: Tensor) -> Any:
    """The class of each image, (n,); None stays."""
    if classes is None:
        return None
    chosen = torch.as_tensor(classes)
    if chosen.shape not in ((), (len(images),)):
        raise ValueError(
            f"classes must be one class, or one for each of {len(images)} images, got {classes}"
        )
    return chosen.expand(len(images))


def _of(classes: Tensor | None, some: Tensor) -> Tensor | None:
    """The classes of some images."""
    return None if classes is None else classes[some]


def _check_places(model: nn.Module, tokens: Tensor, pixels: Tensor, grid: tuple[int, int]) -> None:
    """ValueError unless patches are the last tokens, row by row; looks for the top right one."""
    rows, columns = grid
    top_right = tokens.shape[1] - rows * columns + columns - 1
    if tokens.shape[1] >= rows * columns:
        (gradient,) = torch.autograd.grad(
            tokens[:, top_right].square().sum(), pixels, retain_graph=True
        )
        seen = F.adaptive_avg_pool2d(gradient.abs().sum(dim=1), grid).flatten(1)
        if (seen.argmax(dim=1) == columns - 1).all():
            return
    raise ValueError(
        f"the {tokens.shape[1]} tokens of {type(model).__name__} do not end with {rows} × {columns}"
        " patches, row by row: it leaves patches out, or orders them in another way"
    )


# --- the graph between tokens and scores


def _register_rules(model: nn.Module, scores: Tensor, tokens: Tensor, pixels: Tensor) -> None:
    """Hook a rule on each step from tokens to scores; ValueError names a step without one."""
    name = type(model).__name__
    nodes = _nodes(scores, tokens)
    if any(getattr(node, "variable", None) is pixels for node in nodes):
        raise ValueError(f"{name} uses its images beside the tokens of its first block, too")
    made_of_tokens = {tokens.grad_fn}
    for node in nodes:
        if _operation(node) in CONSTANT:
            node.register_hook(_cut)
            continue
        inputs = [parent in made_of_tokens for parent, _ in node.next_functions]
        without_rule = _gate_without_rule(node, inputs)
        if node is tokens.grad_fn or not (any(inputs) or without_rule):
            continue
        rule = None if without_rule else RULES.get(_operation(node))
        hook = None if rule is None else rule(node, inputs)
        if hook is None:
            raise ValueError(
                f"relevance has no rule for {without_rule or _operation(node)}, which {name}"
                " computes of its tokens: leave_one_out and integrated_gradients may serve instead"
            )
        node.register_hook(hook)
        made_of_tokens.add(node)


def _gate_without_rule(node: Node, inputs: list[bool]) -> str:
    """ "Sigmoid" where a sigmoid is no factor beside what is made of tokens; else empty."""
    is_factor = _operation(node) == "Mul" and any(inputs)
    for parent, _ in node.next_functions:
        if parent is not None and _operation(parent) == "Sigmoid" and not is_factor:
            return "Sigmoid"
    return ""


def _nodes(scores: Tensor, tokens: Tensor) -> list[Node]:
    """What the scores were computed by, in its order, from the tokens on.

    What is taken as a constant is not followed.
    """
    found: set[Node] = set()
    todo = [scores.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in found:
            continue
        found.add(node)
        if node is not tokens.grad_fn and _operation(node) not in CONSTANT:
            todo += [parent for parent, _ in node.next_functions]
    return sorted(found, key=lambda node: node._sequence_nr())


def _operation(node: Node) -> str:
    """ "Gelu" for GeluBackward0; one name for all kernels of attention."""
    name = re.sub(r"Backward\d*$", "", node.name())
    return "Attention" if name.startswith("ScaledDotProduct") else name


# --- the rules: what takes the place of the gradients of a node's inputs


def _sum(node: Any, inputs: list[bool]) -> Hook:
    """What is linear in all of its inputs keeps its gradient: equation 8."""
    return _times([1] * len(inputs))


def _linear(node: Any, inputs: list[bool]) -> Hook | None:
    """What is linear in one input. So is softmax, up to a constant part: proposition 3.1."""
    return _sum(node, inputs) if sum(inputs) == 1 else None


def _quotient(node: Any, inputs: list[bool]) -> Hook | None:
    return None if inputs[1] else _sum(node, inputs)


def _product(node: Any, inputs: list[bool]) -> Hook:
    """Factors share alike: propositions 3.2 and 3.3."""
    return _times([1 / sum(inputs)] * len(inputs))


def _attention(node: Any, inputs: list[bool]) -> Hook:
    """Two products, weights × values and queries × keys, with a softmax between them."""
    query, key, value = inputs[:3]
    values = 1 / (value + (query or key))
    scores = values / max(1, query + key)
    return _times([scores, scores, values] + [1] * len(inputs[3:]))


def _times(shares: list[float]) -> Hook:
    def hook(gradients: Gradients, given: Gradients) -> Gradients:
        pairs = zip(gradients, shares, strict=True)
        return tuple(one if one is None else one * share for one, share in pairs)

    return hook


def _norm(node: Any, inputs: list[bool]) -> Hook | None:
    """(x - mean) / σ × weight with σ as a constant: proposition 3.4."""
    if len(node._saved_normalized_shape) > 1:
        return None
    scale = node._saved_result2  # 1 / σ
    weight = node._saved_weight

    def hook(gradients: Gradients, given: Gradients) -> Gradients:
        gradient = given[0] if weight is None else given[0] * weight
        return ((gradient - gradient.mean(dim=-1, keepdim=True)) * scale, *gradients[1:])

    return hook


def _gelu(node: Any, inputs: list[bool]) -> Hook:
    x = node._saved_self
    form = node._saved_approximate
    return _ratio(lambda: F.gelu(x, approximate=form) / x)


def _silu(node: Any, inputs: list[bool]) -> Hook:
    x = node._saved_self
    return _ratio(x.sigmoid)


def _tanh(node: Any, inputs: list[bool]) -> Hook:
    y = node._saved_result
    most = 1 - torch.finfo(y.dtype).eps
    return _ratio(lambda: y / y.clamp(-most, most).atanh())


def _ratio(ratio: Callable[[], Tensor]) -> Hook:
    """An activation f(x) is x times a constant, f(x) / x: equation 9."""

    def hook(gradients: Gradients, given: Gradients) -> Gradients:
        return (given[0] * ratio().nan_to_num(),)  # 0 / 0: no relevance comes there

    return hook


def _cut(gradients: Gradients, given: Gradients) -> Gradients:
    return tuple(one if one is None else torch.zeros_like(one) for one in gradients)


# The size of a token, in a norm written by hand; and the gate σ(ax) of x σ(ax)
CONSTANT = {"Rsqrt", "Sqrt", "Std", "Sigmoid"}
RULES: dict[str, Rule] = {
    "NativeLayerNorm": _norm,
    "Attention": _attention,
    "Gelu": _gelu,
    "Silu": _silu,
    "Tanh": _tanh,
    "Div": _quotient,
    **dict.fromkeys(["Mul", "Mm", "Bmm"], _product),
    **dict.fromkeys(["Add", "Sub", "Cat", "Stack"], _sum),
}
LINEAR = """
    Addmm Alias Clone Expand Gather Index Mean Neg Permute Relu Repeat ReshapeAlias SafeSoftmax
    Select Slice Softmax Split SplitWithSizes Squeeze Sum T ToCopy Transpose Unbind UnsafeView
    Unsqueeze View
"""
RULES |= dict.fromkeys(LINEAR.split(), _linear)
