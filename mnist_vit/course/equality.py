"""One call that compares a piece of the learner's with torchvision's.

It compares start values, outputs and gradients.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

# The learner's own attention adds in another order than torch's: 1e-7 to 1e-6 was seen.
BOUND = 1e-5

# Tensors by their names: "outputs" and "gradients".
Results = dict[str, dict[str, Tensor]]


def show(
    mine: Callable[..., nn.Module], theirs: Callable[..., nn.Module], *inputs: Tensor, **sizes: Any
) -> None:
    """Print what is equal in two classes, and how far they are apart where they are not.

    Both are built with the same sizes and from the same seed. Then parameters that start at a
    constant get random values (a head of zeros would hide every mistake before it), and ``mine``
    gets all weights of ``theirs``.

    Args:
        mine, theirs: the classes, or functions that build the modules.
        inputs: what forward is given. For an attention layer one tensor is enough: it is query, key
            and value. Grey pictures are repeated to three channels, since torchvision's model has
            three.
        sizes: what both classes are built with; dropout above 0 makes the comparison in train mode
            worth its line.
    """
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        for line in _compare(mine, theirs, list(map(_three_channels, inputs)), sizes):
            print(line)


def _compare(
    mine: Callable, theirs: Callable, inputs: list[Tensor], sizes: dict[str, Any]
) -> list[str]:
    right = _build(theirs, sizes)
    try:
        own = _build(mine, sizes)
    except Exception as error:
        return [f"yours could not be built with {_call(sizes)}: {type(error).__name__}: {error}"]
    values = right.state_dict()
    own_values = own.state_dict()
    numbers = sum(value.numel() for value in values.values())
    lines = [f"compared with {_name(right)}: {len(values)} tensors, {numbers:,} numbers"]
    unlike = _unlike(values, own_values)
    if unlike:
        return [*lines, unlike]
    lines.append(_start_values(values, own_values))
    return lines + _called(own, right, inputs)


def _start_values(values: dict[str, Tensor], own: dict[str, Tensor]) -> str:
    different = [name for name in values if not torch.equal(values[name], own[name])]
    equal = len(values) - len(different)
    said = f"start values from one seed: {equal} of {len(values)} tensors equal"
    if not different:
        return said
    return (
        f"{said} (different: {_some(different)}; harmless if the check called them right: then your"
        " code draws its random numbers in another order)"
    )


def _called(own: nn.Module, right: nn.Module, inputs: list[Tensor]) -> list[str]:
    """Compare outputs and gradients, with the same weights."""
    _fill(right)
    own.load_state_dict(right.state_dict())
    if isinstance(right, nn.MultiheadAttention) and len(inputs) == 1:
        inputs = inputs * 3
    expected = _results(right, inputs)
    try:
        found = _results(own, inputs)
    except Exception as error:
        return [f"yours could not be called: {type(error).__name__}: {error}"]
    lines = _told(found, expected)
    swapped = _with_torchs_attention(own, right)
    if swapped is not None:
        try:
            said = _bits(_equal(_results(swapped, inputs), expected))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        lines.append(f"with nn.MultiheadAttention in its place: {said}")
    elif not isinstance(right, nn.MultiheadAttention):
        lines.append("outputs and gradients: " + _bits(_equal(found, expected)))
    return lines


def _build(kind: Callable[..., nn.Module], sizes: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    if kind is nn.MultiheadAttention:
        sizes = {"batch_first": True, **sizes}
    return kind(**sizes)


def _fill(module: nn.Module) -> None:
    """Random values for what starts at a constant, or so near to one that no mistake would show."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.float().std(correction=0) < 1e-3:
                parameter.add_(torch.randn_like(parameter) / 10)


def _results(module: nn.Module, inputs: list[Tensor]) -> Results:
    """Outputs in eval and in train mode and without gradients, and the gradients."""
    outputs: dict[str, Tensor] = {}
    gradients: dict[str, Tensor] = {}
    for name, part in module.named_modules():
        if name.rpartition(".")[2] == "self_attention" and not part._forward_hooks:
            part.register_forward_hook(_contiguous)  # dropout depends on how numbers lie in memory
    for mode in ("eval", "train"):
        module.train(mode == "train").zero_grad()
        given = [x.detach().clone().requires_grad_() for x in inputs]
        torch.manual_seed(2)  # the same dropout
        result = _tensors(module(*given))
        for i, tensor in enumerate(result):
            number = f", result {i}" if i else ""
            outputs[f"{mode} mode{number}"] = tensor.detach()
        torch.manual_seed(3)
        _weighted_sum(result).backward()
        owners: dict[str, Tensor] = dict(module.named_parameters())
        for i, x in enumerate(given):
            owners[f"input {i}"] = x
        for name, owner in owners.items():
            gradient = torch.zeros_like(owner) if owner.grad is None else owner.grad.clone()
            gradients[f"{name}, in {mode} mode"] = gradient
    module.eval().zero_grad()
    with torch.no_grad():
        outputs["eval mode, no gradients"] = _tensors(module(*inputs))[0]
    return {"outputs": outputs, "gradients": gradients}


def _weighted_sum(tensors: list[Tensor]) -> Tensor:
    """One number that depends on all of them, with random weights."""
    total = torch.zeros(())
    for tensor in tensors:
        total = total + (tensor * torch.randn(tensor.shape)).sum()
    return total


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [tensor for tensor in result if tensor is not None]


def _contiguous(module: nn.Module, given: Any, result: Any) -> Any:
    if isinstance(result, tuple):
        return result[0].contiguous(), *result[1:]
    return result


def _told(found: Results, expected: Results) -> list[str]:
    """A line for the outputs and one for the gradients."""
    count = 0
    for name in expected["gradients"]:
        if name.endswith("train mode") and not name.startswith("input "):
            count += 1
    outputs = "outputs in eval and train mode"
    gradients = f"gradients of {count} tensors and of the input"
    return [
        f"{outputs}: {_largest_difference(found['outputs'], expected['outputs'])}",
        f"{gradients}: {_largest_difference(found['gradients'], expected['gradients'])}",
    ]


def _largest_difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> str:
    # What is 0 but for rounding, as the gradient of a bias of keys, is not measured by its own
    # size.
    least = 3e-2 * max(value.abs().max().item() for value in expected.values())
    worst = ""
    largest = -1.0
    for name, value in expected.items():
        apart = _apart(found.get(name), value, least)
        if apart > largest or (math.isnan(apart) and not math.isnan(largest)):
            worst = name
            largest = apart
    if largest < BOUND:  # nan is not below anything
        return f"largest difference below {BOUND:.0e} of the largest number"
    return f"largest difference {largest:.1e} of the largest number ({worst})"


def _apart(found: Tensor | None, expected: Tensor, least: float) -> float:
    """The largest difference as a share of the largest number expected, or of ``least``.

    It is infinite for another shape.
    """
    if found is None or found.shape != expected.shape:
        return float("inf")
    size = max(expected.abs().max().item(), least) or 1
    return ((found - expected).abs().max() / size).item()


def _equal(found: Results, expected: Results) -> bool:
    """Whether all that is expected was found, equal to the last bit."""
    for kind, values in expected.items():
        for name, value in values.items():
            if name not in found[kind] or not torch.equal(found[kind][name], value):
                return False
    return True


def _with_torchs_attention(own: nn.Module, right: nn.Module) -> nn.Module | None:
    """A copy with torch's layer, and the same weights, for each ``self_attention``.

    None if there is none.
    """
    swapped = None
    for name, module in right.named_modules():
        if isinstance(module, nn.MultiheadAttention) and name:
            if swapped is None:
                swapped = copy.deepcopy(own)
            layer = copy.deepcopy(module)
            layer.load_state_dict(own.get_submodule(name).state_dict())
            parent, _, last = name.rpartition(".")
            setattr(swapped.get_submodule(parent), last, layer)
    return swapped


def _unlike(values: dict[str, Tensor], own: dict[str, Tensor]) -> str:
    """A sentence where names or shapes are not the same."""
    missing = [name for name in values if name not in own]
    extra = [name for name in own if name not in values]
    told = []
    if missing:
        told.append(f"lacks {_some(missing)}")
    if extra:
        told.append(f"has {_some(extra)} besides")
    if told:
        return f"yours {' and '.join(told)}: weights fit only where all names are the same"
    for name, value in values.items():
        mine = tuple(own[name].shape)
        theirs = tuple(value.shape)
        if mine != theirs:
            return f"{name} is {mine} in yours, and {theirs} in theirs"
    return ""


def _three_channels(x: Tensor) -> Tensor:
    if x.dim() == 4 and x.shape[1] == 1:
        return x.expand(-1, 3, -1, -1)
    return x


def _name(module: nn.Module) -> str:
    package = type(module).__module__.partition(".")[0]
    library = {"torch": "PyTorch's", "torchvision": "torchvision's"}.get(package, "")
    return f"{library} {type(module).__name__}".strip()


def _call(sizes: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _some(names: list[str]) -> str:
    said = ", ".join(names[:3])
    if len(names) > 3:
        said += f" and {len(names) - 3} more"
    return said


def _bits(same: bool) -> str:
    return "equal to the last bit" if same else "equal within rounding, not to the last bit"
