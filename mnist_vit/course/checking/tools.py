"""What the exercises' ``compare`` functions are made of: weights, inputs and gradients."""

import numbers
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .exercise import Mistake

LONG = 120  # characters of a text that are quoted


def make(answer: Any, *args: Any, **kwargs: Any) -> Any:
    """An object from a class or function; an object that is already made stays as it is."""
    return answer if isinstance(answer, nn.Module) else answer(*args, **kwargs)


def copy_weights(source: nn.Module, target: Any) -> None:
    """Give the learner's module the check's weights, by name.

    Raises:
        Mistake: the names or the shapes differ.
    """
    if not isinstance(target, nn.Module):
        raise Mistake(f"an nn.Module is needed, but this is a {type(target).__name__}.")
    own = target.state_dict()
    needed = source.state_dict()
    _refuse_keys("lacks", needed.keys() - own.keys())
    _refuse_keys("has, but should not,", own.keys() - needed.keys())
    for key, tensor in needed.items():
        if own[key].shape != tensor.shape:
            raise Mistake(
                f"{key} must have shape {tuple(tensor.shape)}, but has {tuple(own[key].shape)}."
            )
    target.load_state_dict(needed)


def _refuse_keys(what: str, keys: set[str]) -> None:
    """Raise Mistake with at most four of the names, if there are any."""
    if keys:
        some = ", ".join(sorted(keys)[:4])
        if len(keys) > 4:
            some += f" and {len(keys) - 4} more"
        raise Mistake(f"the module {what} the parameters {some}. Keep the names of the stub.")


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every parameter values that show mistakes: none of them zero, norms near one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            small = 0.3 * noise.to(parameter)
            is_norm = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + small if is_norm else small)
    return module


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal random numbers that do not touch the global random state."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradients(output: Any, **inputs: Tensor) -> Iterator[tuple[str, Tensor | None]]:
    """The gradients of a weighted sum of ``output`` with respect to each input.

    Yields:
        (what, gradient); the gradient is None where none flows.
    """
    if not isinstance(output, Tensor):
        raise Mistake(f"a tensor is needed, but this is {describe(output)}.")
    values: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if output.requires_grad:
        weights = random(*output.shape, seed=99).to(output)
        values = _differentiated((output * weights).sum(), list(inputs.values()))
    for name, value in zip(inputs, values, strict=True):
        yield f"gradient of {name}", value


def _differentiated(total: Tensor, inputs: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients; Mistake where something that they need was written over."""
    try:
        return torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        raise Mistake(
            "the values are right, but no gradient can be computed from them: something that it"
            " needs was written over in place.",
            "Make a new tensor where you write into one, as in x = x + … in place of x += ….",
        ) from None


def parameter_gradients(output: Tensor, module: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    """The same for every parameter of a module, by name: in which order they were made is free."""
    yield from gradients(output, **dict(sorted(module.named_parameters())))


def joined(of: str, *found: tuple[str, Tensor | None]) -> tuple[str, Tensor | None]:
    """Several gradients as one value; where one does not flow, that one, by its name."""
    for what, gradient in found:
        if gradient is None:
            return what, None
    return f"gradient of {of}", torch.cat([part.flatten() for _, part in found if part is not None])


def start_values(module: nn.Module, reference: nn.Module) -> tuple[str, list[float]]:
    """(what, one number a parameter): 1 where it starts as in the reference.

    A parameter that starts at a constant there must start at it. Of random matrices only the spread
    is compared, and so coarsely that it is the same for any random numbers; random biases are free.
    """
    own = dict(module.named_parameters())
    what = "start values"
    figures = []
    for name, parameter in sorted(reference.named_parameters()):
        value = own[name].detach().double()
        spread = parameter.detach().double().std(correction=0).item()
        if spread and parameter.dim() == 1:
            continue
        share = value.std(correction=0).item() / spread if spread else 1.0
        is_right = 1 / 3 < share < 3 if spread else torch.equal(own[name], parameter)
        if not is_right and what == "start values":
            told = f"its spread is {share:.2g} times ours" if spread else "ours is a constant"
            what = f"start value of {name} ({told})"
        figures.append(float(is_right))
    return what, figures


def describe(value: Any) -> str:
    """A value in a few words, whatever it is."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is None:
        return "None: is the return line missing?"
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, numbers.Number):
        if hasattr(value, "item"):  # 1.5, where numpy would say np.float32(1.5)
            value = value.item()
        return repr(value)[:60]
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"of type {type(value).__name__}"


def shortened(text: str, most: int = LONG) -> str:
    """A text, or its beginning up to a word's end."""
    if len(text) <= most:
        return text
    begin = text[:most]
    return f"{begin.rpartition(' ')[0] or begin} …"
