"""Other people's Vision Transformers: built, their parameters matched with ours, what they compute
on the way."""

import copy
import inspect
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..checking.exercise import Mistake
from ..checking.tools import describe
from ..checking.verdict import told

Values = dict[
    str, Tensor
]  # what a model computes on the way, by name, in the order of its calls; the logits last
LOGITS = "the output of the model"
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}  # relative to the largest number of a tensor
SIZES = {
    "image_size": 12,
    "patch_size": 4,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 18,
    "mlp_dim": 26,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "num_classes": 5,
    "representation_size": None,
}
NAMES = {  # what timm and lucidrains call torchvision's arguments
    "image_size": ("img_size",),
    "num_layers": ("depth",),
    "num_heads": ("heads",),
    "hidden_dim": ("dim", "embed_dim"),
    "in_channels": ("in_chans", "channels"),
}


def run(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call code of theirs. Raises Mistake, in a sentence, whatever it raises."""
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Mistake(f"{told(error)}.".replace("..", ".")) from None


def listed(names: list[str]) -> str:
    """At most four names, alike ones of other blocks left out."""
    some = list({re.sub(r"\d+", "", name): name for name in reversed(names)}.values())[::-1]
    more = len(names) - min(len(some), 4)
    return ", ".join(some[:4]) + (f" and {more} more" if more else "")


def build(answer: Any, sizes: dict[str, Any]) -> tuple[nn.Module, dict[str, Any], bool]:
    """Their model, the sizes for ours (read off it where it takes no argument), whether it takes
    representation_size.

    Raises Mistake where there is no model, or one that is too far from a Vision Transformer.
    """
    if isinstance(answer, nn.Module):
        model, given = run(copy.deepcopy, answer), {}
    elif callable(answer):
        given = _arguments(answer, sizes, True)
        try:
            model = run(answer, **given)
        except (
            Mistake
        ) as mistake:  # **options that take something else than torchvision's arguments
            if "keyword argument" not in str(mistake):
                raise
            given = _arguments(answer, sizes, False)
            model = run(answer, **given)
    else:
        this = (
            "nothing was given"
            if answer is None or answer is ...
            else f"this is {describe(answer)}"
        )
        raise Mistake(f"a class, a function that builds a model, or a model is needed, and {this}.")
    if not isinstance(model, nn.Module):
        raise Mistake(
            f"an nn.Module is needed, and this came back: {describe(model).partition(':')[0]}."
        )
    found = _read_sizes(model)
    found |= {
        name: given[own] for name in sizes for own in (name, *NAMES.get(name, ())) if own in given
    }
    found = {name: value for name, value in found.items() if "dropout" not in name}
    if lacking := [
        name
        for name in SIZES
        if name not in found and not re.search("dropout|representation", name)
    ]:
        raise Mistake(
            f"{listed(lacking)} cannot be read off this model: give a class or function that takes"
            " them."
        )
    return model.to(torch.get_default_dtype()).eval(), found, "representation_size" in given


def _arguments(answer: Any, sizes: dict[str, Any], loose: bool) -> dict[str, Any]:
    """The sizes that a class or function takes, by its own names; ``loose``: **options take the
    others too."""
    try:
        parameters = inspect.signature(answer).parameters
    except (TypeError, ValueError):
        return sizes
    more = {**sizes, "in_channels": 3, "mlp_ratio": sizes["mlp_dim"] / sizes["hidden_dim"]}
    more["dim_head"] = sizes["hidden_dim"] // sizes["num_heads"]
    given = {
        own: value
        for name, value in more.items()
        for own in (name, *NAMES.get(name, ()))
        if own in parameters
    }
    kinds = {parameter.kind for parameter in parameters.values()}
    needed = [
        n
        for n, p in parameters.items()
        if p.default is p.empty and p.kind in (0, 1, 3) and n not in given
    ]
    if needed:
        raise Mistake(
            f"its argument {needed[0]} is none of torchvision's: give a function that builds the"
            " model, check.vit(lambda: …), or a model that is built."
        )
    if loose and inspect.Parameter.VAR_KEYWORD in kinds:
        given |= {
            name: value
            for name, value in sizes.items()
            if not {name, *NAMES.get(name, ())} & given.keys()
        }
    return given


def _read_sizes(model: nn.Module) -> dict[str, int]:
    """The sizes of a model, from the shapes of its parameters, or from attributes with
    torchvision's names."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found: dict[str, int] = {}
    matrices = [shape for name, shape in shapes.items() if len(shape) == 2 and "pos" not in name]
    if conv := next((shape for shape in shapes.values() if len(shape) == 4), None):
        found |= {"hidden_dim": conv[0], "in_channels": conv[1], "patch_size": conv[2]}
    elif matrices:
        found |= {
            "hidden_dim": matrices[0][0],
            "in_channels": 3,
            "patch_size": math.isqrt(matrices[0][1] // 3),
        }
    for name, shape in shapes.items():
        if "pos" in name and len(shape) > 1:
            found["image_size"] = math.isqrt(shape[-2]) * found.get("patch_size", 1)
    pairs = [
        a
        for a, b in itertools.pairwise(matrices)
        if a == b[::-1] and a[0] != a[1] == found.get("hidden_dim")
    ]
    if pairs:
        found |= {"num_layers": len(pairs), "mlp_dim": pairs[0][0], "num_classes": matrices[-1][0]}
        if matrices[-1][1] != found["hidden_dim"]:
            found["representation_size"] = matrices[-1][1]
    names = {"num_heads": NAMES["num_heads"], **dict.fromkeys((*SIZES, "in_channels"), ())}
    for module in reversed(list(model.modules())):
        for name in names if module is model else ("num_heads",):
            for own in (name, *names[name]):
                value = getattr(module, own, None)
                found |= {name: value} if type(value) is int else {}
    return found


@dataclass
class Unit:
    """A weight with its bias, or the two parameters of a norm, or one that stands alone; names in
    this order."""

    names: list[str]
    shape: tuple[
        int, ...
    ]  # of the weight: a convolution as a matrix, leading ones dropped, a norm's with a 1 behind
    block: int | None
    turned: bool = False  # used as x @ W, as its bias shows; shape is that of nn.Linear


@dataclass(frozen=True)
class Source:
    """What one of their parameters is given: a parameter of ours, or rows of it, in some layout."""

    name: str
    rows: tuple[int, int] | None = None
    layout: str = ""  # or "transposed", or "(p p c)" for patches whose channels come last

    def take(self, values: Mapping[str, Any], like: Tensor) -> Tensor:
        """The numbers, in the shape of their parameter."""
        found = values[self.name] if self.rows is None else values[self.name][slice(*self.rows)]
        if self.layout == "(p p c)":
            found = found.permute(0, 2, 3, 1)
        return (found.flatten(1).mT if self.layout == "transposed" else found).reshape(like.shape)

    def said(self) -> str:
        """The same in words."""
        where = f"rows {self.rows[0]} to {self.rows[1] - 1} of " if self.rows else ""
        return f"{where}{self.name}{f', {self.layout}' if self.layout else ''}"


def _units(model: nn.Module, num_layers: int) -> list[Unit]:
    """The parameters of a model in groups, in the order in which they were made."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    blocks = _blocks(
        {name: tuple(parameter.shape) for name, parameter in parameters.items()}, num_layers
    )
    units: list[Unit] = []
    for name, parameter in parameters.items():
        parent = name.rpartition(".")[0]
        shape = tuple(
            parameter.flatten(1).shape
            if parameter.dim() == 4
            else parameter.squeeze(0).squeeze(0).shape
        )
        last = units[-1] if units else Unit(["", ""], (), None)
        if last.names[1:] or last.names[0].rpartition(".")[0] != parent:
            last = Unit([""], (), None)
        if shape == last.shape[:1]:
            last.names.append(name)
            last.shape = (*last.shape, 1)[:2]
        elif shape == last.shape[1:] and not re.search("pos|cls|token", last.names[0] + name):
            last.names.append(name)
            last.shape, last.turned = last.shape[::-1], True
        else:
            is_norm = (
                len(shape) == 1 and "norm" in type(model.get_submodule(parent)).__name__.lower()
            )
            units.append(Unit([name], (*shape, 1) if is_norm else shape, blocks.get(name)))
    return units


def _blocks(shapes: dict[str, tuple[int, ...]], num_layers: int) -> dict[str, int]:
    """Which block a parameter belongs to: lists of num_layers parts that are alike hold blocks, or
    a part of each."""
    places = [
        (name, ".".join([*parts[:i], match[1]]), int(match[2]))
        for pattern in (r"()(\d+)", r"(.*\D)(\d+)")  # blocks.0, and else block0
        for name in shapes
        for i, parts in enumerate([name.split(".")] * name.count("."))
        if (match := re.fullmatch(pattern, parts[i]))
    ]
    members: dict[str, dict[int, list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
    for name, stem, number in places:
        members[stem][number].append(shapes[name])
    found: dict[str, int] = {}
    for name, stem, number in places:
        alike = all(one == members[stem][number] for one in members[stem].values())
        if alike and len(members[stem]) == num_layers:
            found.setdefault(name, sorted(members[stem]).index(number))
    return found


def matched(
    ours: nn.Module, theirs: nn.Module, num_layers: int, late: bool, given: str
) -> dict[str, Source]:
    """Where each of their parameters gets its values from, by its name.

    Args:
        late: the norms of a block stand in the other order; where they have too few of a kind, the
            first is missing.
        given: "(p p c)": patches are flattened with the channels last; "x @ W": matrices are used
            as they are, and not transposed as in nn.Linear.
    """
    parameters, sources = dict(ours.named_parameters()), {}
    wanted, got = _units(ours, num_layers), _units(theirs, num_layers)
    if all(unit.block is None for unit in got):
        for unit in wanted:
            unit.block = None

    def give(
        unit: Unit, source: Unit, rows: tuple[int, int] | None = None, layout: str = ""
    ) -> None:
        owner = theirs.get_submodule(unit.names[0].rpartition(".")[0])
        square = (
            given == "x @ W" and unit.shape == unit.shape[::-1] and not isinstance(owner, nn.Linear)
        )
        if square or unit.turned:
            layout = "transposed"
        for i, (own, name) in enumerate(zip(unit.names, source.names, strict=False)):
            sources[own] = Source(name, rows, layout if i == 0 else "")
        got.remove(unit)
        if source in wanted:
            wanted.remove(source)

    shapes = {
        name: parameter.shape for name, parameter in theirs.named_parameters(remove_duplicate=False)
    }
    for unit, source in [(u, s) for u in got for s in wanted if u.names == s.names]:
        if all(shapes[name] == parameters[name].shape for name in unit.names):
            give(unit, source)
    for source in [unit for unit in wanted if unit.names[0].endswith("in_proj_weight")]:
        width, here = source.shape[1], [unit for unit in got if unit.block == source.block]
        if all(unit.shape != source.shape for unit in here):
            pieces = [
                (unit, _role(unit.names[0]))
                for unit in here
                if len(unit.shape) == 2 and unit.shape[1] == width
            ]
            if not any(role for _, role in pieces):  # in order: q, k and v, of each head or of all
                pieces = [
                    (unit, "qkv"[i % 3])
                    for i, (unit, _) in enumerate(pieces[: len(pieces) // 3 * 3])
                ]
            begin = {"q": 0, "k": width, "v": 2 * width, "kv": width}
            for unit, role in pieces:
                if role:
                    give(unit, source, (begin[role], begin[role] + unit.shape[0]))
                    begin[role] += unit.shape[0]
    for turned in (False, True):
        groups: dict[Any, tuple[list[Unit], list[Unit]]] = defaultdict(lambda: ([], []))
        for side, units in enumerate((got, wanted)):
            for unit in units:
                shape = unit.shape[::-1] if turned and side else unit.shape
                groups[unit.block, shape][side].append(unit)
        for (_, shape), (mine, yours) in groups.items():
            if late:
                yours = (
                    yours[::-1]
                    if shape[1:] == (1,) and len(mine) == len(yours)
                    else yours[-len(mine) :]
                )
            for unit, source in zip(mine, yours, strict=False):
                is_matrix = (
                    source.names[0] == "conv_proj.weight" and len(shapes[unit.names[0]]) == 2
                )
                patches = given if is_matrix and given == "(p p c)" else ""
                give(unit, source, None, "transposed" if turned else patches)
    return sources


def _role(name: str) -> str:
    """q, k, v or kv, if the name of a weight says so."""
    word = [part for part in name.lower().split(".") if not re.fullmatch(r"\d+|weight", part)][-1]
    match = re.search(r"(?:^|_|w|to)(kv|q|k|v)(?:$|_|u|e|a|l|p)", word)
    return match[1] if match else ""


# ----------------------------------------------------------------------------------------- what a
# model computes


def part_of(name: str) -> str:
    """The part of our model that a parameter belongs to, in words."""
    return re.sub(
        r"encoder\.layers\.encoder_layer_(\d+)\.", r"block \1's ", name.rpartition(".")[0]
    )


def values_of(model: nn.Module, names: dict[str, str], pictures: Tensor) -> Values:
    """What the parts of a model take and give, in the order of their calls; ``names``: parameters'
    names in ours."""
    values: Values = {}

    def keep(label: str, value: Any) -> None:
        value = value[0] if isinstance(value, tuple | list) and value else value
        if (
            isinstance(value, Tensor)
            and value.is_floating_point()
            and (value.dim() == 4 or "input of conv" not in label)
        ):
            times = sum(known.startswith(f"{label},") or known == label for known in values)
            value = (
                value.flatten(2).mT
                if label == "the output of conv_proj" and value.dim() == 4
                else value
            )
            values[f"{label}, call {times + 1}" if times else label] = value.detach().clone()

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            name = getattr(function, "__name__", "").strip("_")
            if name == "softmax" and result.dim() > 2 and result.shape[-1] == result.shape[-2]:
                keep("the softmax of the scores", result)
            bases = [
                part if part._base is None else part._base
                for part in args
                if isinstance(part, Tensor)
            ]
            if name in ("add", "iadd", "radd") and any(base is position for base in bases):
                keep("the sum of tokens and positions", result)
            return result

    parameters = dict(model.named_parameters(remove_duplicate=False))
    position = next(
        (parameters[own] for own, name in names.items() if name == "encoder.pos_embedding"), None
    )
    handles = []
    for path, module in model.named_modules():
        direct = [names.get(f"{path}.{name}") for name, _ in module.named_parameters(recurse=False)]
        parts = {part_of(name) for name in direct if name}
        part = parts.pop() if parts else "encoder"
        if (
            None in direct
            or parts
            or part == "encoder"
            or (isinstance(module, nn.Linear) and "self_att" in part)
        ):
            continue
        takes = partial(lambda part, module, args: keep(f"the input of {part}", args), part)
        gives = partial(
            lambda part, module, args, output: keep(f"the output of {part}", output), part
        )
        handles += [module.register_forward_pre_hook(takes), module.register_forward_hook(gives)]
    try:
        with Functions():
            logits = model(pictures)
    finally:
        for handle in handles:
            handle.remove()
    if isinstance(logits, Tensor):
        keep(LOGITS, logits)
    return values


def alignments(got: Tensor, expected: Tensor) -> list[Tensor]:
    """What to compare ``got`` with: ``expected`` in the layout of ``got``, one token of it each, or
    nothing."""
    if got.shape == expected.shape:
        return [expected]
    if got.dim() == expected.dim() == 3 and got.shape == expected.transpose(0, 1).shape:
        return [expected.transpose(0, 1)]
    if expected.dim() == 3 and got.shape in (expected[:, 0].shape, expected[:, :1].shape):
        return [token.reshape(got.shape) for token in expected.unbind(1)]
    return [expected.reshape(got.shape)] if got.numel() == expected.numel() else []


def close(got: Tensor, expected: Tensor) -> bool:
    """Whether two tensors of one shape are equal within TOLERANCE of the largest number."""
    if torch.equal(got, expected):
        return True
    return bool((got - expected).abs().max() <= TOLERANCE[expected.dtype] * expected.abs().max())


def differs(label: str, theirs: Values, values: Values) -> bool:
    """Whether a value that both models have differs; values of shapes that do not correspond are
    passed over."""
    if label == LOGITS:
        got, expected = theirs.get(label), values[label]
        return got is None or got.shape != expected.shape or not close(got, expected)
    if label not in theirs or label not in values:
        return False
    found = alignments(theirs[label], values[label])
    return bool(found) and not any(close(theirs[label], one) for one in found)


def first_difference(theirs: Values, values: Values) -> str | None:
    """The first of ``values``, in the order of their calls, that theirs does not share; None if
    there is none."""
    return next((label for label in values if differs(label, theirs, values)), None)
