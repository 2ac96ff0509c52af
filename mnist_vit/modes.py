"""Helpers for a pass over the data: a progress bar, the logits of any model, eval mode with modes
restored."""

import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # without ipywidgets a notebook's bar is text
    from tqdm.auto import tqdm

_LOCK = threading.Lock()
_EVALUATED: dict[
    nn.Module, list
] = {}  # the mode of each module before, and how many evaluate it right now


def progress(iterable: Iterable, shown: bool = True, **options: Any) -> tqdm:
    """A bar of tqdm in a terminal or a notebook (Jupyter, Colab); none elsewhere, and none with
    TQDM_DISABLE=1."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    seen = hasattr(shell, "kernel") or getattr(sys.stderr, "isatty", bool)()
    hidden = os.environ.get("TQDM_DISABLE", "0") not in ("", "0")
    return tqdm(iterable, leave=False, disable=hidden or not (seen and shown), **options)


def answer(model: nn.Module, images: Tensor) -> Tensor:
    """The model's logits; models of Hugging Face return them in an object with other results."""
    output = model(images)
    return getattr(output, "logits", output)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode in the ``with`` block; then, however it ends, each module's mode is as it was.

    Of several threads with one model, the last puts the modes back.
    """
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
                _EVALUATED[module][1] -= 1
                if _EVALUATED[module][1] == 0:
                    module.training = _EVALUATED.pop(module)[0]
