"""What the exercises' ``compare`` functions are made of: weights, inputs and gradients."""

import math
import numbers
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..observing.reacting import listed
from .exercise import Mistake

LONG = 120  # characters of a text that are quoted
NEW_TENSOR = (
    "Make a new tensor: x = x + … in place of x += …, torch.cat or torch.stack in place of x[…] ="
    " …."
)


class Figures(list):
    """Several figures of one measurement; its words name the first that is wrong."""


def make(answer: Any, *args: Any, **kwargs: Any) -> Any:
    """An object from a class or function; an object that is already made stays as it is."""
    return answer if isinstance(answer, nn.Module) else answer(*args, **kwargs)


def copy_weights(source: nn.Module, target: Any, may_share: bool = False) -> None:
    """Give the learner's module the check's weights, by name.

    Args:
        source, target: the check's module and the learner's.
        may_share: whether one parameter may have several names in the learner's.

    Raises:
        Mistake: the names or the shapes differ.
    """
    if not isinstance(target, nn.Module):
        raise Mistake(f"an nn.Module is needed, but this is a {type(target).__name__}.")
    if not hasattr(target, "_parameters"):
        raise Mistake(
            "the module is not set up: nn.Module's own __init__ has not run.",
            "A module's __init__ begins with that of its parent: super().__init__(…), with what the"
            " parent's takes. nn.Module's takes nothing.",
        )
    own = target.state_dict()
    needed = source.state_dict()
    missing = needed.keys() - own.keys()
    for key in sorted(missing):
        _refuse_plain_tensor(target, key)
        _refuse_maker(target, key)
    _refuse_names(set(needed), set(own), target)
    for key, tensor in needed.items():
        if own[key].shape != tensor.shape:
            raise Mistake(
                f"{key} must have shape {tuple(tensor.shape)}, but has {tuple(own[key].shape)}.",
                _sizes_of_layers(source, target, key),
            )
    if not may_share:
        _refuse_shared(source, target)
    buffers = dict(target.named_buffers())
    for name, _ in source.named_parameters():
        if name in buffers:
            raise Mistake(
                f"{name} is a buffer, and no parameter: it is saved, and never trained.",
                "An nn.Parameter as an attribute makes a parameter of it.",
            )
    target.load_state_dict(needed)


def _refuse_shared(source: nn.Module, target: nn.Module) -> None:
    """Raise Mistake where two names stand for one parameter, and for two in the source."""
    ours = dict(source.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}
    for name, parameter in target.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name and name in ours and ours[name] is not ours[other]:
            raise Mistake(
                f"{other} and {name} are one and the same parameter under two names.",
                "Each of the two modules needs parameters of its own: make a second one.",
            )


def _refuse_plain_tensor(target: nn.Module, key: str) -> None:
    """Raise Mistake where a parameter is missing because a plain tensor has its name."""
    owner, _, name = key.rpartition(".")
    try:
        found = getattr(target.get_submodule(owner), name, None)
    except AttributeError:
        return
    if isinstance(found, Tensor):
        raise Mistake(
            f"{key} is there, but as a plain tensor, which is neither learned nor stored.",
            "Make a parameter of it: nn.Parameter(…).",
        )


def _refuse_maker(target: nn.Module, key: str) -> None:
    """Raise Mistake where a parameter is missing because what makes its module was never called."""
    held: Any = target
    path: list[str] = []
    for part in key.split(".")[:-1]:
        path.append(part)
        held = getattr(held, part, None)
        if not isinstance(held, nn.Module):
            break
    if callable(held) and not isinstance(held, nn.Module):
        raise Mistake(
            f"{'.'.join(path)} is there, but it is a class or a function, and no module.",
            "Called with its sizes it makes one.",
        )


def _sizes_of_layers(source: nn.Module, target: nn.Module, key: str) -> str:
    """Of a weight of another shape: for how many numbers its layer is made, and ours is."""
    name, _, last = key.rpartition(".")
    own, right = target.get_submodule(name), source.get_submodule(name)
    if last == "in_proj_weight":
        return _size_of_attention(name, own.in_proj_weight.shape, right.in_proj_weight.shape)
    if last != "weight":
        return ""
    if isinstance(own, nn.Linear) and isinstance(right, nn.Linear):
        gives, takes = own.weight.shape
        gives_ours, takes_ours = right.weight.shape
        return (
            f"Layer {name} takes {takes} numbers and gives {gives}; it must take {takes_ours} and"
            f" give {gives_ours}."
        )
    if isinstance(own, nn.LayerNorm) and isinstance(right, nn.LayerNorm):
        return (
            f"The norm {name} is made for tokens of {own.weight.numel()} numbers; here they have"
            f" {right.weight.numel()}."
        )
    return ""


def _size_of_attention(name: str, shape: torch.Size, right: torch.Size) -> str:
    """Of the packed weight of attention: for tokens of how many numbers it is made."""
    if len(shape) != 2 or shape[0] != 3 * shape[1]:
        return ""
    layer = name or "The layer"
    return (
        f"{layer} is made for tokens of {shape[1]} numbers; here they have {right[1]}."
        " MyMultiHeadAttention and nn.MultiheadAttention take embed_dim first, and then num_heads."
    )


def _refuse_names(needed: set[str], own: set[str], target: nn.Module) -> None:
    """Raise Mistake with at most four of the names that are missing, and too many, if any are."""
    missing = sorted(needed - own)
    extra = sorted(own - needed)
    if not missing and not extra:
        return
    said = f"the module lacks the parameters {listed(missing)}." if missing else ""
    if extra and missing:
        said += f" It has, but should not, {listed(extra)}."
    elif extra:
        said = f"the module has, but should not, the parameters {listed(extra)}."
    if missing and not extra and all(_is_without_bias(target, key) for key in missing):
        raise Mistake(said, "bias=False makes a layer without one: leave it out.")
    raise Mistake(said, _other_numbers(needed, own) or "The names must be those in the notebook.")


def _is_without_bias(target: nn.Module, key: str) -> bool:
    """Whether a missing parameter is the bias of a linear layer that is there, and has none."""
    name, _, last = key.rpartition(".")
    try:
        layer = target.get_submodule(name)
    except AttributeError:
        return False
    return last == "bias" and isinstance(layer, nn.Linear) and layer.bias is None


def _other_numbers(needed: set[str], own: set[str]) -> str:
    """Of names that differ in a number, such as that of a layer: the right numbers and theirs."""
    for example in sorted(needed ^ own):
        for found in re.finditer(r"\d+", example):
            begin, end = example[: found.start()], example[found.end() :]
            right = _numbers(needed, begin, end)
            theirs = _numbers(own, begin, end)
            if set(theirs) < set(right) and own - needed:
                continue  # some are missing, and stand there under other names
            if right and theirs and right != theirs:
                return (
                    f"The number in names such as {example} must be {_listed(right)}; in yours it"
                    f" is {_listed(theirs)}."
                )
    return ""


def _numbers(names: set[str], begin: str, end: str) -> list[int]:
    """The numbers between these two texts, in names that consist of the three."""
    found = []
    for name in names:
        number = name.removeprefix(begin).removesuffix(end)
        if number.isdecimal() and name == f"{begin}{number}{end}":
            found.append(int(number))
    return sorted(found)


def _listed(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last


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


def with_dropout_seen(module: nn.Module, x: Tensor, known: list[Tensor]) -> Any:
    """The output in eval mode where self.dropout moves numbers by one and halves them: no chance,
    and seen as often as it is called.

    Args:
        known: the right output, from the first run, which is our solution's; it is given for an
            answer that never calls a layer of this name, such as one with F.dropout.
    """
    called: list[int] = []

    def moved(layer: nn.Module, given: Any, output: Tensor) -> Tensor:
        called.append(1)
        return output.roll(1, -1) / 2

    layer = getattr(module, "dropout", None)
    if isinstance(layer, nn.Dropout):
        with layer.register_forward_hook(moved):
            output = module.eval()(x)
        if called and not known:
            known.append(output.detach().clone())
        if called:
            return output
    return known[0].clone()


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal random numbers that do not touch the global random state."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradients(output: Any, **inputs: Tensor) -> Iterator[tuple[str, Tensor | None]]:
    """The gradients of a weighted sum of ``output`` with respect to each input.

    Yields:
        (what, gradient); the gradient is None where none flows.
    """
    if not isinstance(output, Tensor):
        raise Mistake(f"what comes back must be a tensor, but is {describe(output)}.")
    values: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if output.requires_grad:
        _refuse_constants(inputs)
        weights = random(*output.shape, seed=99).to(output)
        values = _differentiated((output * weights).sum(), list(inputs.values()))
    for name, value in zip(inputs, values, strict=True):
        yield f"gradient of {name}", value


def _refuse_constants(inputs: dict[str, Tensor]) -> None:
    """Raise Mistake where an input, such as a parameter that should be one, has no gradient."""
    for name, value in inputs.items():
        if not value.requires_grad:
            raise Mistake(
                f"{name} does not ask for a gradient, so it is not learned.",
                "A parameter learns unless requires_grad=False is said: leave that out."
                if isinstance(value, nn.Parameter)
                else "A buffer or a plain tensor stays as it is: nn.Parameter(…) makes one that"
                " learns.",
            )


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
            NEW_TENSOR,
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


MANY = 4000  # numbers, with which a spread is known to about 1 %
UNIFORM = 2.4  # the kurtosis of uniform numbers is 1.8, of normal ones 3


GLOSSARY = "What it must start with stands in the glossary, under start values."


def start_values(
    module: nn.Module, reference: nn.Module, told_where: str = GLOSSARY
) -> tuple[str, list[str]]:
    """("start values", the names of the parameters that were compared with the reference's).

    A parameter that starts at a constant there must start at it. Of random numbers the distribution
    is compared, so that it is the same whatever was drawn: the spread, within 5 % where there are
    many, and whether they are uniform or normal. Random biases are free. ``told_where`` says where
    the learner finds them.

    Raises:
        Mistake: a parameter starts with something else.
    """
    own = dict(module.named_parameters())
    compared = []
    for name, parameter in sorted(reference.named_parameters()):
        value = own[name].detach().double()
        right = parameter.detach().double()
        if right.std(correction=0) == 0:
            constant = right.flatten()[0].item()
            told = "" if torch.equal(value, right) else f"it must be {constant:g} everywhere"
        elif parameter.dim() == 1:
            continue
        else:
            told = _another_distribution(value, right)
        if told:
            raise Mistake(f"start value of {name}: {told}.", told_where)
        compared.append(name)
    return "start values", compared


def _another_distribution(value: Tensor, right: Tensor) -> str:
    """How the distribution of start values differs from ours; empty if it does not."""
    if value.std(correction=0) == 0:
        return f"it is {value.flatten()[0].item():g} everywhere; ours is random"
    if alike := _are_alike(value):
        return f"{alike}; of ours each number is drawn by itself"
    mean = value.mean().item()
    if abs(mean) > 6 * value.std(correction=0).item() / math.sqrt(value.numel()):
        return f"its mean is {mean:.2g}, and ours are drawn around 0"
    share = (value.std(correction=0) / right.std(correction=0)).item()
    is_many = right.numel() >= MANY
    near = 0.05 if is_many else 2.0
    if not 1 / (1 + near) < share < 1 + near:
        is_packed = right.dim() == 2 and right.shape[0] == 3 * right.shape[1]
        if is_packed and abs(share / math.sqrt(2) - 1) < 0.05:
            return (
                "its spread is √2 times ours, as if Xavier's rule drew each of its three square"
                " matrices by itself; ours draws all of it at once"
            )
        if abs(share / right.std(correction=0).item() - 1) < 0.05:
            return (
                f"its spread is {share:.2g} times ours, as if the variance were taken for the"
                " standard deviation, which is its root"
            )
        return f"its spread is {share:.2g} times ours"
    if is_many and (_kurtosis(value) < UNIFORM) != (_kurtosis(right) < UNIFORM):
        return "ours are uniform" if _kurtosis(right) < UNIFORM else "ours are normal"
    return ""


def _are_alike(value: Tensor) -> str:
    """Which numbers of a random tensor are copies of others, in words; "" if none are."""
    rows = value.reshape(1, -1) if value.dim() < 2 else value
    if rows.shape[0] == 1 and rows.dim() > 2:
        rows = rows[0]
    rows = rows.flatten(1)
    if len(rows) > 1 and (rows == rows[0]).all():
        return "all its rows are the same"
    if rows.shape[1] > 1 and (rows == rows[:, :1]).all():
        return "all numbers of a row are the same"
    return ""


def _kurtosis(values: Tensor) -> float:
    """1.8 for uniform numbers, 3 for normal ones."""
    centred = values - values.mean()
    return (centred**4).mean().item() / centred.var(correction=0).item() ** 2


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


def fits(candidates: dict[str, list[float]], got: list[float]) -> str:
    """The name of the candidate that is equal to what came back in every case, if one alone is."""
    found = []
    for name, values in candidates.items():
        pairs = zip(values, got, strict=True)
        if all(abs(value - own) <= 1e-5 * max(1.0, abs(value)) for value, own in pairs):
            found.append(name)
    return found[0] if len(found) == 1 else ""


def sentence_numbers(found: dict[str, Any], sentences: Collection[int]) -> dict[str, int]:
    """Return the numbers of the sentences that an answer gives, by letter.

    All letters are looked at before any is compared: whoever counts from 0 has them all wrong.

    Raises:
        Mistake: a letter has something else, or the number of no sentence.
    """
    counted = f"They count from {min(sentences)} to {max(sentences)}."
    texts = [letter for letter, number in found.items() if isinstance(number, str)]
    if texts:
        raise Mistake(
            f"a text stands at {', '.join(texts)}, and the number of a sentence is asked for.",
            f'A number from {min(sentences)} to {max(sentences)} for each letter, as in "a": 3.',
        )
    whole = {}
    for letter, number in found.items():
        if number is None or number is ...:
            raise Mistake(f'"{letter}" has no number yet.')
        if isinstance(number, bool) or not hasattr(number, "__int__"):
            kind = type(number).__name__
            raise Mistake(f'"{letter}" has something of the type {kind}, and no number.', counted)
        whole[letter] = int(number)
        if whole[letter] != number or whole[letter] not in sentences:
            raise Mistake(
                f'"{letter}" has the sentence {describe(number)}, and no sentence has this number.',
                counted,
            )
    return whole


def hooks_left(model: nn.Module) -> str:
    """How many hooks of which kind are on a model and its parts, in words; "" if there are none."""
    before = sum(len(part._forward_pre_hooks) for part in model.modules())
    after = sum(len(part._forward_hooks) for part in model.modules())
    said = []
    for count, kind in ((before, "forward pre-hook"), (after, "forward hook")):
        if count:
            said.append(f"{count} {kind}{'s' if count > 1 else ''}")
    return " and ".join(said)


@contextmanager
def others_hooks(model: nn.Module) -> Iterator[Callable[[], str]]:
    """Somebody else's hooks, which do nothing, on a model and on each of its parts.

    Yields:
        a function that says in words which of them are gone; "none" if all are there.
    """

    def nothing(*_: Any) -> None:
        """Leaves all as it is."""

    own: list[tuple[dict, Any]] = []
    for part in model.modules():
        for hooks, handle in (
            (part._forward_pre_hooks, part.register_forward_pre_hook(nothing)),
            (part._forward_hooks, part.register_forward_hook(nothing)),
        ):
            own.append((hooks, handle))

    def gone() -> str:
        said = []
        for kind, pairs in (("forward pre-hook", own[::2]), ("forward hook", own[1::2])):
            count = sum(handle.id not in hooks for hooks, handle in pairs)
            if count:
                said.append(f"{count} {kind}{'s' if count > 1 else ''}")
        return " and ".join(said) or "none"

    try:
        yield gone
    finally:
        for _, handle in own:
            handle.remove()


def state_of(model: nn.Module) -> dict[str, Any]:
    """What somebody who borrows a model has to leave alone, by name; for ``changed_in``.

    Each entry has a key for each part or parameter: what is new or gone is told by itself.
    """
    parameters = dict(model.named_parameters())
    usual = vars(nn.Module())
    attributes = {}
    for part in model.modules():
        for key, value in vars(part).items():
            if key not in usual and key != "forward":
                attributes[part, key] = value
    return {
        PARTS: dict(model.named_modules()),
        "the mode, train or eval": {part: part.training for part in model.modules()},
        "which parameters ask for gradients": {k: p.requires_grad for k, p in parameters.items()},
        "the numbers of a parameter": {k: p.detach().clone() for k, p in parameters.items()},
        "which parameters have a .grad": {k: p.grad is not None for k, p in parameters.items()},
        PARAMETERS: dict.fromkeys(parameters, True),
        ATTRIBUTES: attributes,
    }


PARTS = "which parts it has"
PARAMETERS = "which parameters it has"
ATTRIBUTES = "its attributes"


def changed_in(model: nn.Module, before: dict[str, Any]) -> str:
    """What is another one than it was, in words; "nothing" if all is the same."""
    changed = []
    for name, now in state_of(model).items():
        then = before[name]
        if name == ATTRIBUTES:
            changed += _other_attributes(now, then, set(before[PARTS].values()))
        elif name in (PARTS, PARAMETERS):
            changed += [name] if now != then else []
        elif not all(_is_same(now[key], then[key]) for key in now.keys() & then.keys()):
            changed.append(name)
    return ", ".join(changed) or "nothing"


def _is_same(now: Any, then: Any) -> bool:
    return torch.equal(now, then) if isinstance(now, Tensor) else bool(now == then)


def _other_attributes(now: dict, before: dict, parts: set[nn.Module]) -> list[str]:
    """Each attribute of these parts, no parameter and no module, that is new, gone or another."""
    found = set()
    for part, key in now.keys() | before.keys():
        if (part, key) not in before:
            if part in parts:  # a new part is told by itself
                found.add(f"a new attribute, {key}")
        elif (part, key) in now and now[part, key] is not before[part, key]:
            found.add(f"the attribute {key}")
    return sorted(found)
