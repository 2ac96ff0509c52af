"""Puts back what an answer may change by the way.

These are random states, torch's settings, the folder, and the streams that are printed to.
"""

import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run the block with torch's usual settings, and put everything back, however it ends."""
    python = random.getstate()
    numpy = np.random.get_state()
    dtype = torch.get_default_dtype()
    device = default_device()
    threads = torch.get_num_threads()
    anomaly = torch.is_anomaly_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    folder = None
    with suppress(OSError):  # it was deleted
        folder = os.getcwd()
    limit = sys.getrecursionlimit()
    streams = sys.stdout, sys.stderr
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usual()
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_default_dtype(dtype)
        if default_device() != device:
            set_default_device(device)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.autograd.set_detect_anomaly(anomaly)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        if folder is not None:
            os.chdir(folder)
        sys.setrecursionlimit(limit)
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
