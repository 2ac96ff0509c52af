"""Train mode and eval mode, put back."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def keep_modes(model: nn.Module) -> Iterator[None]:
    """Put every module's mode, train or eval, back at the end of the ``with`` block, however it ends."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
