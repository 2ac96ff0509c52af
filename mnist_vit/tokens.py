"""Which token is which, and where a patch stands.

The class token comes first and the patches last, row by row: patch (row, column) is token
``seq_length - n_h * n_w + row * n_w + column``. Other tokens, if any, stand between them.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .devices import place
from .forward import check_images, eval_mode

__all__ = [
    "CLASS_TOKEN",
    "at_tokens",
    "find_blocks",
    "patch_grid",
    "pools_patches",
    "refuse_compiled",
]

CLASS_TOKEN = 0


@torch.no_grad()
def patch_grid(model: nn.Module, images: Tensor) -> tuple[int, int]:
    """Rows and columns of the patches that the model cuts these images into, (n, c, h, w).

    It is the size of what the model's convolutions make of an image, in a forward pass of the
    first, if they all make the same; else what ``model.image_size`` and ``model.patch_size`` tell.
    It is never guessed from the number of tokens: ValueError if the model does not tell it.
    """
    check_images(images)
    with eval_mode(model), _Convolutions() as seen:
        model(images[:1].to(**place(model)))
    made = seen.made
    if len(set(made)) == 1:
        return made[0]
    size, patch = getattr(model, "image_size", None), getattr(model, "patch_size", None)
    if isinstance(size, int) and isinstance(patch, int) and images.shape[-2:] == (size, size):
        side = size // patch
        if seen.unfolded in (0, side**2):
            return side, side
    raise ValueError(
        f"how {type(model).__name__} cuts {tuple(images.shape[-2:])} pixels into patches is not"
        f" known: it has {len(made)} convolutions, and no image_size and patch_size of these"
        " images. Give grid=(rows, columns)"
    )


class _Convolutions(TorchDispatchMode):
    """Keeps rows and columns of what each convolution makes, and how many patches F.unfold cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[int, int]] = []
        self.unfolded = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if "conv" in function.name() and isinstance(result, Tensor) and result.dim() == 4:
            self.made.append((result.shape[2], result.shape[3]))
        elif "im2col" in function.name():
            self.unfolded = result.shape[-1]
        return result


def pools_patches(model: nn.Module, prefix: int) -> bool:
    """Whether the class head uses the mean of the patches.

    It does if no token precedes them (``prefix`` is 0), or if the model's ``pool`` or
    ``global_pool`` says so.
    """
    pool = getattr(model, "pool", getattr(model, "global_pool", ""))
    return prefix == 0 or pool in ("mean", "avg")


@contextmanager
def at_tokens(
    model: nn.Module, change: Callable[[Tensor], Tensor] | None = None
) -> Iterator[list[Tensor]]:
    """Keep the tokens of each forward pass in the ``with`` block, and put others in their place.

    Tokens are what the first block takes, (n, seq_length, hidden_dim): in all models that are known
    here, patches with their positions. ``change`` gives those that it takes instead. Yields a list,
    which grows with each pass of this thread. ValueError: there is no such block.
    """
    name = type(model).__name__
    refuse_compiled(model)
    blocks = find_blocks(model)
    if not blocks:
        raise ValueError(f"{name} has no row of blocks, so that its tokens are not known")
    seen: list[Tensor] = []
    thread = threading.get_ident()  # a module calls its hooks in every thread

    def hook(block: nn.Module, args: tuple) -> tuple | None:
        if threading.get_ident() != thread:
            return None
        tokens = args[0] if args else None
        if not isinstance(tokens, Tensor) or tokens.dim() != 3:
            raise ValueError(f"the first block of {name} takes no tokens (n, s, hidden_dim)")
        seen.append(tokens)
        return None if change is None else (change(tokens), *args[1:])

    handle = blocks[0].register_forward_pre_hook(hook)
    try:
        yield seen
        if not seen:
            raise ValueError(f"the first block of {name} was not called")
    finally:
        handle.remove()


def refuse_compiled(model: nn.Module) -> None:
    """ValueError if the model, or a part of it, was compiled."""
    for part in model.modules():
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None):
            raise ValueError(
                f"{type(model).__name__} was compiled, and torch.compile leaves out the hooks that"
                " record. Give the model it was made from (model._orig_mod)"
            )


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """The longest row of blocks, with at least three matrices each.

    A row is a list of modules, or attributes of one class. Rows within a block, such as its
    experts, do not count.
    """
    matrices: dict[nn.Module, set[int]] = {}
    _find_matrices(model, matrices)
    return _longest_row(model, {part: len(found) for part, found in matrices.items()})


def _longest_row(model: nn.Module, matrices: dict[nn.Module, int]) -> list[nn.Module]:
    """See ``find_blocks``; ``matrices`` is how many each part has."""
    children = list(model.children())
    blocks = [part for part in children if matrices[part] > 2]
    kinds = Counter(map(type, blocks))
    is_list = isinstance(model, nn.ModuleList | nn.Sequential | nn.ModuleDict)
    is_row = is_list and 0 < len(blocks) == len(children)
    if is_row and len(kinds) == 1:
        return blocks
    rows = [_longest_row(part, matrices) for part in children]
    within = max(rows, key=len, default=[])
    is_whole = _total(within, matrices) == _total(blocks, matrices)
    if len(within) > 1 or is_whole:
        return within
    if is_row:
        return blocks
    most = max(kinds, key=lambda kind: kinds[kind])
    return [part for part in blocks if type(part) is most]


def _total(parts: list[nn.Module], matrices: dict[nn.Module, int]) -> int:
    return sum(matrices[part] for part in parts)


def _find_matrices(part: nn.Module, found: dict[nn.Module, set[int]]) -> set[int]:
    """Fill in which matrices each part has, by their ids: a shared one counts once."""
    if part not in found:
        own: set[int] = set()
        for parameter in part._parameters.values():
            if parameter is None or nn.parameter.is_lazy(parameter):  # its shape is not known yet
                continue
            if parameter.dim() == 2:
                own.add(id(parameter))
        for child in part.children():
            own |= _find_matrices(child, found)
        found[part] = own
    return found[part]
