"""One call that compares a piece of the learner's with torchvision's: start values, outputs,
gradients."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

BOUND = (
    1e-5  # the learner's own attention adds in another order than torch's: 1e-7 to 1e-6 was seen
)


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
        for line in _compare(mine, theirs, [_three_channels(x) for x in inputs], sizes):
            print(line)


def _compare(
    mine: Callable, theirs: Callable, inputs: list[Tensor], sizes: dict[str, Any]
) -> list[str]:
    right = _build(theirs, sizes)
    try:
        own = _build(mine, sizes)
    except Exception as error:
        return [f"yours could not be built with {_call(sizes)}: {type(error).__name__}: {error}"]
    values, own_values = right.state_dict(), own.state_dict()
    numbers = sum(value.numel() for value in values.values())
    lines = [f"compared with {_name(right)}: {len(values)} tensors, {numbers:,} numbers"]
    if unlike := _unlike(values, own_values):
        return [*lines, unlike]
    different = [name for name, value in values.items() if not torch.equal(value, own_values[name])]
    lines.append(
        f"start values from one seed: {len(values) - len(different)} of {len(values)} tensors equal"
    )
    lines[-1] += f" (different: {_some(different)})" if different else ""

    _fill(right)
    own.load_state_dict(right.state_dict())
    if isinstance(right, nn.MultiheadAttention) and len(inputs) == 1:
        inputs = inputs * 3
    expected = _results(right, inputs)
    try:
        found = _results(own, inputs)
    except Exception as error:
        return [*lines, f"yours could not be called: {type(error).__name__}: {error}"]
    lines += _told(found, expected)
    if (swapped := _with_torchs_attention(own, right)) is not None:
        try:
            same = _equal(_results(swapped, inputs), expected)
        except Exception as error:
            return [
                *lines,
                f"with nn.MultiheadAttention in its place: {type(error).__name__}: {error}",
            ]
        lines.append("with nn.MultiheadAttention in its place: " + _bits(same))
    elif not isinstance(right, nn.MultiheadAttention):
        lines.append("outputs and gradients: " + _bits(_equal(found, expected)))
    return lines


def _build(kind: Callable[..., nn.Module], sizes: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    if kind is nn.MultiheadAttention:
        sizes = {"batch_first": True, **sizes}
    return kind(**sizes)


def _fill(module: nn.Module) -> None:
    """Random values for what starts at a constant, or so near to one that a mistake with it would
    not show."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.float().std(correction=0) < 1e-3:
                parameter.add_(torch.randn_like(parameter) / 10)


def _results(module: nn.Module, inputs: list[Tensor]) -> dict[str, dict[str, Tensor]]:
    """Outputs in eval and in train mode and without gradients, and the gradients, by what they are
    and their names."""
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
            outputs[f"{mode} mode" + (f", result {i}" if i else "")] = tensor.detach()
        torch.manual_seed(3)
        # type: ignore[union-attr]
        sum((tensor * torch.randn(tensor.shape)).sum() for tensor in result).backward()
        for name, owner in [
            *module.named_parameters(),
            *((f"input {i}", x) for i, x in enumerate(given)),
        ]:
            gradients[f"{name}, in {mode} mode"] = (
                torch.zeros_like(owner) if owner.grad is None else owner.grad.clone()
            )
    module.eval().zero_grad()
    with torch.no_grad():
        outputs["eval mode, no gradients"] = _tensors(module(*inputs))[0]
    return {"outputs": outputs, "gradients": gradients}


def _tensors(result: Any) -> list[Tensor]:
    return (
        [result]
        if isinstance(result, Tensor)
        else [tensor for tensor in result if tensor is not None]
    )


def _contiguous(module: nn.Module, given: Any, result: Any) -> Any:
    return (result[0].contiguous(), *result[1:]) if isinstance(result, tuple) else result


def _told(found: dict[str, dict[str, Tensor]], expected: dict[str, dict[str, Tensor]]) -> list[str]:
    """A line for the outputs and one for the gradients."""
    count = sum(
        1
        for name in expected["gradients"]
        if name.endswith("train mode") and not name.startswith("input ")
    )
    begin = {
        "outputs": "outputs in eval and train mode",
        "gradients": f"gradients of {count} tensors and of the input",
    }
    lines = []
    for kind, words in begin.items():
        # what is 0 but for rounding, as the gradient of a bias of keys, is not measured by its own
        # size
        least = 3e-2 * max(value.abs().max().item() for value in expected[kind].values())
        apart = {
            name: _apart(found[kind].get(name), value, least)
            for name, value in expected[kind].items()
        }
        worst = max(apart, key=lambda name: (apart[name] != apart[name], apart[name]))
        if all(value < BOUND for value in apart.values()):  # nan is not below anything
            lines.append(f"{words}: largest difference below {BOUND:.0e} of the largest number")
        else:
            lines.append(
                f"{words}: largest difference {apart[worst]:.1e} of the largest number ({worst})"
            )
    return lines


def _apart(found: Tensor | None, expected: Tensor, least: float) -> float:
    """The largest difference as a share of the largest number expected, or of ``least``; infinite
    for another shape."""
    if found is None or found.shape != expected.shape:
        return float("inf")
    return ((found - expected).abs().max() / (max(expected.abs().max().item(), least) or 1)).item()


def _equal(found: dict[str, dict[str, Tensor]], expected: dict[str, dict[str, Tensor]]) -> bool:
    return all(
        name in found[kind] and torch.equal(found[kind][name], value)
        for kind, values in expected.items()
        for name, value in values.items()
    )


def _with_torchs_attention(own: nn.Module, right: nn.Module) -> nn.Module | None:
    """A copy with torch's layer, and the same weights, for each ``self_attention``; None if there
    is none."""
    names = [
        name
        for name, module in right.named_modules()
        if isinstance(module, nn.MultiheadAttention) and name
    ]
    swapped = copy.deepcopy(own)
    for name in names:
        layer = copy.deepcopy(right.get_submodule(name))
        layer.load_state_dict(own.get_submodule(name).state_dict())
        parent, _, last = name.rpartition(".")
        setattr(swapped.get_submodule(parent), last, layer)
    return swapped if names else None


def _unlike(values: dict[str, Tensor], own: dict[str, Tensor]) -> str:
    """A sentence where names or shapes are not the same."""
    missing, extra = (
        [name for name in values if name not in own],
        [name for name in own if name not in values],
    )
    if missing or extra:
        told = [f"lacks {_some(missing)}"] * bool(missing) + [f"has {_some(extra)} besides"] * bool(
            extra
        )
        return f"yours {' and '.join(told)}: weights fit only where all names are the same"
    shapes = [name for name in values if values[name].shape != own[name].shape]
    if shapes:
        name = shapes[0]
        return (
            f"{name} is {tuple(own[name].shape)} in yours, and {tuple(values[name].shape)} in"
            " theirs"
        )
    return ""


def _three_channels(x: Tensor) -> Tensor:
    return x.expand(-1, 3, -1, -1) if x.dim() == 4 and x.shape[1] == 1 else x


def _name(module: nn.Module) -> str:
    library = {"torch": "PyTorch's", "torchvision": "torchvision's"}.get(
        type(module).__module__.partition(".")[0], ""
    )
    return f"{library} {type(module).__name__}".strip()


def _call(sizes: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _bits(same: bool) -> str:
    return "equal to the last bit" if same else "equal within rounding, not to the last bit"
