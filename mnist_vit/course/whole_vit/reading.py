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
from .other_mlps import attending_blocks, other_mlps
from .passing import OtherMlp, Pass, observed, of_positions, tensors_of
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

REFUSED = re.compile(
    "RuntimeError|AssertionError|ValueError|EinopsError"
)  # pictures of another size
MOST_PIXELS = 600  # a side that is guessed
MOST_TOKENS = 3500  # with such a side
MOST_CHANNELS = 4  # of usual pictures
PATCH_SIZES = (4, 8, 16, 2, 7, 14, 32)  # usual ones

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
    sides = [found["image_size"]] if "image_size" in found else _image_sizes(model, found)
    if not sides or "in_channels" not in found:
        return {name: size for name, size in found.items() if size}, Pass()
    is_guess = "image_size" not in known
    seen, found["image_size"] = _observed(model, found, sides, is_guess)
    found |= _patch_size_seen(seen, found)
    in_a_row = _tokens_in_a_row(seen)
    if is_guess and in_a_row and found["image_size"] % in_a_row:
        side = found["image_size"] // in_a_row * in_a_row
        seen, found["image_size"] = _observed(model, found, [side], is_guess)
        found |= _patch_size_seen(seen, found)
    matrices = list(_matrices(model, seen))
    seen.other_mlps = _other_mlps(model, matrices, seen, found)
    layers = _layers(model, matrices, seen)
    of_heads = _own_heads(matrices, layers)
    if of_heads:
        layers["num_heads"] = of_heads
    if seen.heads:
        layers["num_heads"] = seen.heads[0]
    if (
        seen.other_mlps or seen.has_no_mlps
    ) and "mlp_dim" in found:  # nothing tells of another width
        layers["mlp_dim"] = found["mlp_dim"]
    for name in ("hidden_dim", "mlp_dim"):
        found[name] = layers.get(name, found.get(name))
    if layers.get("num_classes") == seen.outputs:  # also where it was given others
        found["num_classes"] = seen.outputs
    for name, size in layers.items():
        found.setdefault(name, size)
    return {name: size for name, size in found.items() if size}, seen


def _observed(model: nn.Module, found: Sizes, sides: list[int], is_guess: bool) -> tuple[Pass, int]:
    """One pass with pictures of the first of these sides that it takes, and that side.

    Raises:
        Mistake: it takes none of them; what it raises with the first.
    """
    mistakes = []
    for side in sides:
        pictures = _pictures(found["in_channels"], side)
        try:
            seen = run(observed, model, pictures)
        except Mistake as mistake:
            if not is_guess or not REFUSED.search(str(mistake)):
                raise
            mistakes.append(mistake)
            continue
        if not is_guess or max(seen.tokens, default=0) <= MOST_TOKENS:
            return seen, side
        mistakes.append(Mistake(f"it makes {seen.tokens[0]} tokens, which are too many to try."))
    shape = (2, found["in_channels"], sides[0], sides[0])
    raise Mistake(
        f"with pictures of shape {shape}, a guess from its parameters, {mistakes[0]} It must take"
        " any number of square pictures. If it takes other ones:"
        " check.vit(model, image_size=…, in_channels=…)."
    )


def _pictures(in_channels: int, side: int) -> Tensor:
    return random(2, in_channels, side, side, dtype=torch.get_default_dtype())


def _patch_size_seen(seen: Pass, found: Sizes) -> Sizes:
    """The size of the patches that makes as many tokens as were seen, where another was found.

    The kernel of a first convolution may be smaller than the patches, or larger where they overlap.
    """
    side = found["image_size"]
    in_a_row = _tokens_in_a_row(seen)
    if not in_a_row or side % in_a_row:
        return {}
    return {"patch_size": side // in_a_row}


def _tokens_in_a_row(seen: Pass) -> int:
    """How many tokens a row of patches makes; 0 if that is not seen."""
    if not seen.tokens:
        return 0
    for patches in (seen.tokens[0] - 1, seen.tokens[0]):  # with a class token, and without
        if patches > 1 and math.isqrt(patches) ** 2 == patches:
            return math.isqrt(patches)
    return 0


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
    parameters = {name: p for name, p in model.named_parameters() if not of_positions(name)}
    for name, parameter in parameters.items():
        if parameter.dim() == 4 and not _mixes_tokens(model, name, parameter):
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


def _mixes_tokens(model: nn.Module, name: str, weight: Tensor) -> bool:
    """Whether a convolution takes tokens, as in an MLP of convolutions, and no pictures."""
    owner = model.get_submodule(name.rpartition(".")[0])
    _, in_channels, kernel_size, _ = weight.shape
    is_of_each_token = kernel_size == 1 and in_channels > MOST_CHANNELS
    return is_of_each_token or getattr(owner, "groups", 1) > 1


def _flat_patch(numbers: int, known: Sizes) -> Sizes:
    """Channels and side of a patch that is a row of so many numbers."""
    for in_channels in (known.get("in_channels", 3), 1):
        side = math.isqrt(numbers // in_channels)
        side = known.get("patch_size", side)
        if side**2 * in_channels == numbers:
            return {"in_channels": in_channels, "patch_size": side}
    return {}


def _image_sizes(model: nn.Module, found: Sizes) -> list[int]:
    """Likely sides of the pictures, from the number of positions; none if there are none.

    A module of positions may hold the class token as well: the table is what has most rows. The
    first convolution may be one of several, with a smaller kernel than the patches.
    """
    rows = [0]
    rows_of_tokens = [0]
    for name, tensor in tensors_of(model).items():
        if of_positions(name) and tensor.dim() > 1:
            rows.append(tensor.shape[-2])
            if tensor.shape[-1] == found.get("hidden_dim"):
                rows_of_tokens.append(tensor.shape[-2])
    in_a_row = math.isqrt(max(rows_of_tokens) or max(rows))
    sides = [in_a_row * patch_size for patch_size in (found.get("patch_size", 0), *PATCH_SIZES)]
    return [side for side in dict.fromkeys(sides) if 0 < side <= MOST_PIXELS]


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
        if len(shape) == 2 and min(shape) > 1 and not of_positions(name):
            yield name, shape[::-1] if name in seen.multiplied else shape


def _layers(model: nn.Module, matrices: list[Matrix], seen: Pass) -> Sizes:
    """Sizes from the MLPs of the blocks, and from the matrices that follow them."""
    if seen.other_mlps:
        return _layers_with_other_mlps(model, matrices, seen)
    mlps = _mlps(matrices, seen)
    if not mlps:
        return _layers_without_mlps(model, matrices, seen)
    for number in mlps:
        seen.mlps += [name for name, _ in matrices[number : number + 2]]
    name, (mlp_dim, hidden_dim) = matrices[mlps[0]]
    found = {"num_layers": len(mlps), "hidden_dim": hidden_dim, "mlp_dim": mlp_dim}
    if len(mlps) == 1:
        found["num_layers"] = seen.uses[name]  # a block that is used again and again
    return found | _sizes_of_head(model, _behind(matrices, mlps[-1] + 2), hidden_dim, seen)


def _layers_with_other_mlps(model: nn.Module, matrices: list[Matrix], seen: Pass) -> Sizes:
    """Sizes where the MLPs of the blocks are other than two matrices."""
    for mlp in seen.other_mlps:
        seen.mlps += mlp.matrices
    width = _width(matrices, seen)
    found = {"num_layers": len(seen.other_mlps), "hidden_dim": width, "mlp_dim": 2 * width}
    end = max(seen.place(name) for name in seen.mlps)
    behind = [matrix for matrix in matrices if seen.place(matrix[0]) > end]
    return found | _sizes_of_head(model, behind, width, seen)


def _layers_without_mlps(model: nn.Module, matrices: list[Matrix], seen: Pass) -> Sizes:
    """Sizes where the blocks have the four square matrices of an attention, and nothing else."""
    width = _width(matrices, seen)
    blocks = attending_blocks(model, seen)
    in_blocks = [matrix for matrix in matrices if matrix[0] in blocks]
    rows: Counter[int] = Counter()
    for name, shape in in_blocks:
        if shape[1] != width or name in seen.activated:
            return {}
        rows[blocks[name]] += shape[0]
    if set(rows.values()) != {4 * width}:
        return {}
    seen.has_no_mlps = True
    found = {"num_layers": len(rows), "hidden_dim": width, "mlp_dim": 2 * width}
    last, _ = in_blocks[-1]
    behind = [matrix for matrix in matrices if seen.place(matrix[0]) > seen.place(last)]
    return found | _sizes_of_head(model, behind, width, seen)


def _other_mlps(
    model: nn.Module, matrices: list[Matrix], seen: Pass, found: Sizes
) -> list[OtherMlp]:
    """The MLPs of the blocks, where they are other than two matrices."""
    width = _width(matrices, seen)
    if not width:
        return []
    pairs = []
    for number in _mlps(matrices, seen):
        pairs.append({name for name, _ in matrices[number : number + 2]})
    pictures = _pictures(found["in_channels"], found["image_size"])
    return other_mlps(model, seen, pairs, width, pictures)


def _width(matrices: list[Matrix], seen: Pass) -> int:
    """How many numbers a token has, by what the first attention takes; 0 if that is not seen."""
    shapes = dict(matrices)
    if not seen.attentions or seen.attentions[0] not in shapes:
        return 0
    _, width = shapes[seen.attentions[0]]
    return width


def _sizes_of_head(model: nn.Module, behind: list[Matrix], hidden_dim: int, seen: Pass) -> Sizes:
    """Sizes from the matrices behind the blocks."""
    found = {"num_classes": NO_HEAD}
    head = _head(behind, hidden_dim, seen)
    if not head:
        return found
    first, _ = head[0]
    _, last = head[-1]
    found["num_classes"] = last[0]
    is_layer = isinstance(model.get_submodule(first.rpartition(".")[0]), nn.Linear)
    takes_all_tokens = seen.tokens and head[0][1][1] == hidden_dim * seen.tokens[0]
    if takes_all_tokens and is_layer:
        seen.leave_out_head(first)
    if not _is_chain(head, hidden_dim):
        return found
    if len(head) == 2:
        found["representation_size"] = last[1]
    elif len(head) > 2 and is_layer:
        seen.leave_out_head(first)
    return found


def _behind(matrices: list[Matrix], begin: int) -> list[Matrix]:
    """The matrices from there on that are none of a block: an earlier block has none alike."""

    def kind(matrix: Matrix) -> tuple[str, Any]:
        return re.sub(r"\d+", "", matrix[0]), matrix[1]

    known = {kind(matrix) for matrix in matrices[:begin]}
    return [matrix for matrix in matrices[begin:] if kind(matrix) not in known]


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

    def likely(places: list[int]) -> tuple[int, bool, bool]:
        name, (mlp_dim, width) = matrices[places[0]]
        return len(places), name in seen.activated, mlp_dim != width

    return max(filter(None, alike.values()), key=likely, default=[])
