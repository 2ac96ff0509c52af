"""Reads the sizes of a Vision Transformer off the model: its attributes, shapes, and one pass."""

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Mistake, random
from .passing import Pass, observed, tensors_of
from .running import run

NEEDED = (
    "image_size",
    "patch_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "mlp_dim",
    "num_classes",
)
NO_HEAD = 5  # classes of ours, where theirs has no class head
HEADS = re.compile(r"(n|num|nb)?_?(attention_|attn_)?heads?|nhead")
IMAGE_SIZE = re.compile(r"img_size|image_size|input_resolution")

Sizes = dict[str, Any]
Matrix = tuple[str, tuple[int, int]]  # the name, and the shape as in nn.Linear


def read_sizes(model: nn.Module, known: Sizes) -> tuple[Sizes, Pass]:
    """The sizes of a model, as far as they can be found, and what its forward pass uses.

    Args:
        model: theirs.
        known: sizes that were given.
    """
    found = _attributes(model)
    found |= _patches(model, found | known)
    found |= known
    found.setdefault("image_size", _image_size(model, found))
    if not found["image_size"] or "in_channels" not in found:
        return {name: size for name, size in found.items() if size}, Pass()
    seen = _observed(model, found, is_guess="image_size" not in known)
    matrices = list(_matrices(model, seen))
    layers = _layers(model, matrices, seen)
    of_heads = _own_heads(matrices, layers)
    if of_heads:
        layers["num_heads"] = of_heads
    if seen.heads:
        layers["num_heads"] = seen.heads[0]
    for name in ("hidden_dim", "mlp_dim"):
        found[name] = layers.get(name, found.get(name))
    for name, size in layers.items():
        found.setdefault(name, size)
    return {name: size for name, size in found.items() if size}, seen


def _observed(model: nn.Module, found: Sizes, is_guess: bool) -> Pass:
    """One pass with pictures of these sizes. Raises Mistake where the model raises."""
    side = found["image_size"]
    pictures = random(2, found["in_channels"], side, side, dtype=torch.get_default_dtype())
    try:
        return run(observed, model, pictures)
    except Mistake as mistake:
        if not is_guess or not re.search("RuntimeError|AssertionError|ValueError", str(mistake)):
            raise
        raise Mistake(
            f"with pictures of shape {tuple(pictures.shape)}, a guess from its parameters,"
            f" {mistake} It must take any number of square pictures. If it takes other ones:"
            " check.vit(model, image_size=…, in_channels=…)."
        ) from None


def needed_sizes(found: Sizes) -> list[str]:
    """The sizes that are still to be found; first those without which it cannot run."""
    first = [name for name in ("image_size", "in_channels") if name not in found]
    return first or [name for name in NEEDED if name not in found]


def _attributes(model: nn.Module) -> Sizes:
    """Sizes from attributes with usual names; of several modules the outermost counts."""
    found: Sizes = {}
    for name in ("num_layers", "patch_size", "in_channels"):
        if _side(getattr(model, name, None)):
            found[name] = _side(getattr(model, name))
    for module in model.modules():
        for name, value in vars(module).items():
            if HEADS.fullmatch(name) and type(value) is int:
                found.setdefault("num_heads", value)
            if IMAGE_SIZE.fullmatch(name) and _side(value):
                found.setdefault("image_size", _side(value))
    return found


def _side(value: Any) -> int:
    """A number, or the number of a pair of equal ones; 0 if it is neither."""
    if isinstance(value, tuple | list) and len(set(value)) == 1:
        value = value[0]
    return value if type(value) is int else 0


def _patches(model: nn.Module, known: Sizes) -> Sizes:
    """Sizes from the projection of the patches: a convolution, or else the first matrix."""
    parameters = {name: p for name, p in model.named_parameters() if "pos" not in name}
    for parameter in parameters.values():
        if parameter.dim() == 4:
            hidden_dim, in_channels, patch_size, _ = parameter.shape
            return {"hidden_dim": hidden_dim, "in_channels": in_channels, "patch_size": patch_size}
    for name, parameter in parameters.items():
        if parameter.dim() == 2 and min(parameter.shape) > 1:
            hidden_dim, numbers = parameter.shape
            owner = model.get_submodule(name.rpartition(".")[0])
            if not isinstance(owner, nn.Linear) and not _flat_patch(numbers, known):
                numbers, hidden_dim = parameter.shape  # it is used as x @ W
            return {"hidden_dim": hidden_dim, **_flat_patch(numbers, known)}
    return {}


def _flat_patch(numbers: int, known: Sizes) -> Sizes:
    """Channels and side of a patch that is a row of so many numbers."""
    for in_channels in (known.get("in_channels", 3), 1):
        side = math.isqrt(numbers // in_channels)
        side = known.get("patch_size", side)
        if side**2 * in_channels == numbers:
            return {"in_channels": in_channels, "patch_size": side}
    return {}


def _image_size(model: nn.Module, found: Sizes) -> int:
    """The side of the pictures, from the number of positions; 0 if there are none.

    A module of positions may hold the class token as well: the table is what has most rows.
    """
    most = 0
    for name, tensor in tensors_of(model).items():
        is_table = tensor.dim() > 1 and tensor.shape[-1] == found.get("hidden_dim")
        if "pos" in name and is_table:
            most = max(most, tensor.shape[-2])
    return math.isqrt(most) * found.get("patch_size", 0)


def rms_norms(model: nn.Module, seen: Pass, width: int) -> set[str]:
    """The paths of modules that compute RMSNorm, x / rms(x) * weight, whatever they are called."""
    found = set()
    for path in seen.keeps_shape:
        module = model.get_submodule(path)
        sizes = {parameter.numel() for parameter in module.parameters()} or {width}
        if len(sizes) == 1 and not any(module.children()) and _is_rms_norm(module, *sizes):
            found.add(path)
    return found


def _is_rms_norm(module: nn.Module, width: int) -> bool:
    """Whether a module divides tokens by their root mean square, and multiplies by one vector."""
    spread = torch.tensor([100.0, 200.0, 400.0, 800.0])[:, None]  # large: an eps does not show
    tokens = spread * (1 + random(1, 4, width, seed=3, dtype=torch.float32))
    tokens = tokens.to(torch.get_default_dtype())
    expected = tokens / tokens.square().mean(dim=-1, keepdim=True).sqrt()
    try:
        with torch.no_grad():
            got = module(tokens.clone()).to(expected.dtype)
            weight = (got * expected).sum(dim=1) / expected.square().sum(dim=1)
            far = (got - weight[:, None] * expected).abs().max()
            return bool(weight.abs().max() > 0 and far <= 1e-3 * got.abs().max())
    except Exception:  # a module that takes something else
        return False


def _matrices(model: nn.Module, seen: Pass) -> Iterator[Matrix]:
    """Matrices in the order of their use, each with its shape as in nn.Linear."""
    tensors: dict[str, Tensor] = tensors_of(model)
    for name in seen.order:
        shape = tuple(tensors[name].shape)
        if len(shape) == 2 and min(shape) > 1 and "pos" not in name:
            yield name, shape[::-1] if name in seen.multiplied else shape


def _layers(model: nn.Module, matrices: list[Matrix], seen: Pass) -> Sizes:
    """Sizes from the MLPs of the blocks, and from the matrices that follow them."""
    mlps = _mlps(matrices, seen)
    if not mlps:
        return {}
    for number in mlps:
        seen.mlps += [name for name, _ in matrices[number : number + 2]]
    name, (mlp_dim, hidden_dim) = matrices[mlps[0]]
    found = {"num_layers": len(mlps), "hidden_dim": hidden_dim, "mlp_dim": mlp_dim}
    found["num_classes"] = NO_HEAD
    if len(mlps) == 1:
        found["num_layers"] = seen.uses[name]  # a block that is used again and again
    head = _head(matrices[mlps[-1] + 2 :], hidden_dim, seen)
    if not head:
        return found
    first, _ = head[0]
    _, last = head[-1]
    found["num_classes"] = last[0]
    if not _is_chain(head, hidden_dim):
        return found
    is_layer = isinstance(model.get_submodule(first.rpartition(".")[0]), nn.Linear)
    if len(head) == 2:
        found["representation_size"] = last[1]
    elif len(head) > 2 and is_layer:
        seen.leave_out_head(first)
    return found


def _head(matrices: list[Matrix], hidden_dim: int, seen: Pass) -> list[Matrix]:
    """The matrices of the head, of those behind the blocks.

    More than two that follow each other may begin with layers that keep the shape of the tokens.
    """
    if len(matrices) < 3 or not _is_chain(matrices, hidden_dim):
        return matrices
    last = matrices[-1]
    found = []
    for matrix in matrices[:-1]:
        name, _ = matrix
        if not any(name.startswith(f"{path}.") for path in seen.keeps_shape):
            found.append(matrix)
    return [*found, last]


def _is_chain(matrices: list[Matrix], width: int) -> bool:
    """Whether each matrix takes as many numbers as the one before it gives."""
    for _, (rows, columns) in matrices:
        if columns != width:
            return False
        width = rows
    return True


def _own_heads(matrices: list[Matrix], layers: Sizes) -> int:
    """The number of heads, where each has matrices of its own for queries, keys and values."""
    width = layers.get("hidden_dim", 0)
    rows = Counter(rows for _, (rows, columns) in matrices if columns == width)
    for side, times in rows.items():
        num_heads = width // side
        is_part = num_heads > 1 and side * num_heads == width
        if is_part and times == 3 * layers["num_layers"] * num_heads:
            return num_heads
    return 0


def _mlps(matrices: list[Matrix], seen: Pass) -> list[int]:
    """The places of the first matrices of MLPs: pairs that widen and narrow again.

    A pair of square ones must have an activation in between. The matrices for values and output of
    an attention of another width have a softmax in between, and are no MLP. Those of the blocks
    have names that are alike; one in a layer behind the blocks has another.
    """
    alike: dict[Any, list[int]] = defaultdict(list)
    for number, (first, second) in enumerate(itertools.pairwise(matrices)):
        name, (mlp_dim, width) = first
        is_pair = second[1] == (width, mlp_dim) and name not in seen.attended
        places = alike[re.sub(r"\d+", "", name), mlp_dim]
        is_second = number - 1 in places  # of the pair before
        if is_pair and not is_second and (mlp_dim != width or name in seen.activated):
            places.append(number)

    def likely(places: list[int]) -> tuple[int, bool]:
        return len(places), matrices[places[0]][0] in seen.activated

    return max(filter(None, alike.values()), key=likely, default=[])
