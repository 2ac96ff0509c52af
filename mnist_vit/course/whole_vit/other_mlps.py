"""Finds the MLPs of blocks that are other than two matrices: gated ones, of one layer, or of three.

Such an MLP is a module beside the attention of its block, which takes tokens and gives tokens.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Mistake
from .blocks import blocks_in, shapes_of
from .passing import OtherMlp, Pass, flat
from .running import run


def other_mlps(
    model: nn.Module, seen: Pass, pairs: list[set[str]], width: int, pictures: Tensor
) -> list[OtherMlp]:
    """The modules beside the attention of each block.

    There are none if a block has no such module, or if its MLP is a pair of matrices.

    Args:
        model: theirs.
        seen: what its forward pass used.
        pairs: the names of two matrices that widen the tokens and narrow them again.
        width: how many numbers a token has.
        pictures: what the model is given.
    """
    blocks = attending_blocks(model, seen)
    candidates = []
    for place in sorted(set(blocks.values())):
        here = [pair for pair in pairs if {blocks.get(name) for name in pair} == {place}]
        for mlp in _beside_attention(model, seen, blocks, place):
            if all(pair < set(mlp.matrices) for pair in here):
                candidates.append(mlp)
    if not candidates:
        return []
    given = _outputs(model, candidates, width, pictures)
    with torch.no_grad(), _of_zeros(model, candidates):
        of_zeros = _outputs(model, candidates, width, pictures)
    found: dict[int, OtherMlp] = {}
    for mlp in candidates:
        if mlp.path not in of_zeros or not _is_constant(of_zeros[mlp.path]):
            continue
        inner = found.get(mlp.place)
        if inner is None or not torch.equal(given[inner.path], given[mlp.path]):
            found[mlp.place] = mlp
    return list(found.values()) if found.keys() == set(blocks.values()) else []


def _outputs(
    model: nn.Module, mlps: list[OtherMlp], width: int, pictures: Tensor
) -> dict[str, Tensor]:
    """What these modules give, by their paths, where they take and give tokens."""
    given: dict[str, Tensor] = {}

    def note(path: str, module: nn.Module, args: tuple, output: Any) -> None:
        takes = args[0] if args else None
        are_tokens = isinstance(takes, Tensor) and takes.dim() == 3 and takes.shape[-1] == width
        first = next(flat([output]), None)
        if are_tokens and isinstance(first, Tensor):
            given[path] = first.detach().clone()

    handles = []
    for mlp in mlps:
        hook = partial(note, mlp.path)
        handles.append(model.get_submodule(mlp.path).register_forward_hook(hook))
    try:
        with suppress(Mistake):  # it may not be able to do with zeros
            run(model, pictures)
    finally:
        for handle in handles:
            handle.remove()
    return given


def _is_constant(tokens: Tensor) -> bool:
    """Whether all tokens are the same.

    They are where a module of zero matrices took them, unless it adds its input, as a residual
    connection does: then it is no MLP alone.
    """
    return torch.allclose(tokens, tokens[:1, :1], equal_nan=True)


@contextmanager
def _of_zeros(model: nn.Module, mlps: list[OtherMlp]) -> Iterator[None]:
    """Let the matrices of these modules be zero."""
    names: set[str] = set()
    for mlp in mlps:
        names.update(mlp.matrices)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    kept = {name: parameters[name].detach().clone() for name in names}
    for name in names:
        parameters[name].zero_()
    try:
        yield
    finally:
        for name, numbers in kept.items():
            parameters[name].copy_(numbers)


def attending_blocks(model: nn.Module, seen: Pass) -> dict[str, int]:
    """Which block a parameter belongs to, where each has attention of its own; {} if none has.

    The blocks are told apart by the first part of the names in which their attentions differ.
    """
    paths = [name.split(".") for name in seen.attentions]
    for parts in zip(*paths, strict=False):
        num_layers = len(set(parts))
        if num_layers > 1:
            blocks = blocks_in(shapes_of(model), num_layers)
            places = [blocks.get(name) for name in seen.attentions]
            return blocks if set(places) == set(range(num_layers)) else {}
    return {}


def _beside_attention(
    model: nn.Module, seen: Pass, blocks: dict[str, int], place: int
) -> list[OtherMlp]:
    """The modules that hold all matrices of a block beside its attention, the innermost first.

    Where there are none, layers that stand in the block itself belong to its attention.
    """
    shapes = shapes_of(model)
    used = [name for name in seen.order if blocks.get(name) == place]
    matrices = [name for name in used if len(shapes[name]) > 1]
    attention = next(name for name in seen.attentions if blocks[name] == place)
    branch = _branch(attention, matrices)
    beside = [name for name in matrices if not name.startswith(branch)]
    is_a_module = branch != f"{attention}."  # and no matrix that stands in the block
    found: list[OtherMlp] = []
    if is_a_module and not isinstance(model.get_submodule(branch[:-1]), nn.Linear):
        found = _with_all(beside, branch, seen, used, place)
    if not found:
        depth = branch.count(".")
        deeper = [name for name in beside if name.count(".") > depth]
        found = _with_all(deeper, branch, seen, used, place)
    return found


def _with_all(
    matrices: list[str], branch: str, seen: Pass, used: list[str], place: int
) -> list[OtherMlp]:
    """The modules that hold all of these matrices and nothing of a branch, the innermost first.

    None of them uses another norm behind the first matrix.
    """
    if not matrices:
        return []
    begin = used.index(matrices[0])
    found: list[OtherMlp] = []
    behind: list[str] = []
    for path in _holding(matrices):
        inside = [name for name in used[begin:] if name.startswith(f"{path}.")]
        if branch.startswith(f"{path}.") or behind not in ([], inside):
            break
        behind = inside
        if path in seen.gives_alike:
            norms = [name for name in used[:begin] if name.startswith(f"{path}.")]
            found.append(OtherMlp(path, place, matrices, norms))
    return found


def _branch(name: str, matrices: list[str]) -> str:
    """The outermost path to a matrix below which not all of these matrices stand, with a dot."""
    parts = name.split(".")
    for depth in range(1, len(parts)):
        path = ".".join([*parts[:depth], ""])
        if not all(other.startswith(path) for other in matrices):
            return path
    return f"{name}."


def _holding(names: list[str]) -> Iterator[str]:
    """The paths of the modules that hold all of these parameters, the innermost first."""
    common = []
    for parts in zip(*[name.split(".")[:-1] for name in names], strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    for depth in range(len(common), 0, -1):
        yield ".".join(common[:depth])
