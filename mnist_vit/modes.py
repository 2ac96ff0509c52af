"""Train mode and eval mode, put back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

_LOCK = threading.Lock()
_EVALUATED: dict[nn.Module, list] = {}  # the mode of each module before, and how many evaluate it right now


@contextmanager
def keep_modes(model: nn.Module) -> Iterator[None]:
    """Put every module's mode, train or eval, back at the end of the ``with`` block, however it ends."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode inside the ``with`` block; of several threads with one model, the last puts the modes back."""
    modules = list(model.modules())
    with _LOCK:
        for module in modules:
            _EVALUATED.setdefault(module, [module.training, 0])[1] += 1
        model.eval()
    try:
        yield
    finally:
        with _LOCK:
            for module in modules:
                mode_and_count = _EVALUATED[module]
                mode_and_count[1] -= 1
                if mode_and_count[1] == 0:
                    module.training = _EVALUATED.pop(module)[0]
