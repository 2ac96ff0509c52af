"""Puts back what an answer may change by the way.

These are random states, torch's settings, the folder, and the streams that are printed to.
"""

import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch


def _set_numpys_errors(kinds: dict[str, Any]) -> None:
    np.seterr(**kinds)


def _flushes_denormals() -> bool:
    return float(torch.tensor(1e-40) * 0.5) == 0


# what an answer may set: how to look, and how to put it back
SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
    (np.geterr, _set_numpys_errors),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (_flushes_denormals, torch.set_flush_denormal),
    (sys.getrecursionlimit, sys.setrecursionlimit),
)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run the block with torch's usual settings, and put everything back, however it ends."""
    before = [look() for look, _ in SETTINGS]
    device = default_device()
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    folder = None
    with suppress(OSError):  # it was deleted
        folder = os.getcwd()
    streams = sys.stdout, sys.stderr
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usual()
            yield
    finally:
        for (_, put_back), value in zip(SETTINGS, before, strict=True):
            put_back(value)
        if default_device() != device:
            set_default_device(device)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        if folder is not None:
            os.chdir(folder)
        sys.stdout, sys.stderr = streams


@contextmanager
def stoppable(name: str) -> Iterator[None]:
    """Ctrl-C in the block ends it with a sentence: an answer may run for ever."""
    try:
        yield
    except KeyboardInterrupt:
        print(
            f"{name}: stopped before there was a verdict; nothing was kept. Does every loop of your"
            " answer end?"
        )


def usual() -> None:
    """Torch's own settings, so that what an answer sets does not change what it is given next."""
    torch.set_default_dtype(torch.float32)
    if default_device().type != "cpu":
        set_default_device(torch.device("cpu"))
    torch.set_num_threads(1)  # the models are small
    torch.use_deterministic_algorithms(False)


def default_device() -> torch.device:
    """The device of new tensors.

    ``torch.get_default_device`` of torch 2.9 fails where an answer set it to None.
    """
    return torch.empty(0).device


def set_default_device(device: torch.device) -> None:
    """Set the device of new tensors; the CPU as if nobody had set anything.

    Asked for, the CPU makes attention round differently. ``torch.get_default_device`` of torch 2.9
    fails once the default has been set to None, so nothing is left of that.
    """
    torch.set_default_device(None if device.type == "cpu" else device)
    if device.type == "cpu":
        with suppress(AttributeError):
            del torch._GLOBAL_DEVICE_CONTEXT.device_context
