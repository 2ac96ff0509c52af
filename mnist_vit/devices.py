"""Where a model runs: device, dtype and the processes of ``torchrun``."""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

__all__ = ["choose_threads", "find_device", "place", "restoring_threads", "start_processes"]

SMALL = 1_000_000  # parameters
O = TypeVar("O")  # noqa: E741, the options of a job
R = TypeVar("R")


def choose_threads(model: nn.Module) -> None:
    """Use one thread for a small model on the CPU.

    A second one hardly makes it faster; beside other programs, threads that wait for each other
    make it many times slower (``python -m benchmarks neighbours``).
    """
    parameters = list(model.parameters())
    on_cpu = all(parameter.device.type == "cpu" for parameter in parameters)
    if on_cpu and sum(parameter.numel() for parameter in parameters) <= SMALL:
        torch.set_num_threads(1)


def restoring_threads(job: Callable[[O], R]) -> Callable[[O], R]:
    """Decorator: the number of threads is afterwards what it was before."""

    @functools.wraps(job)
    def run(given: O) -> R:
        threads = torch.get_num_threads()
        try:
            return job(given)
        finally:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)

    return run


def find_device(name: str | None) -> torch.device:
    """The device of that name; default: a GPU if available. ValueError if it is not available."""
    if name is None:
        name = _best_device()
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f'there is no device "{name}" here: use cpu, or omit it') from error


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"


def place(model: nn.Module) -> dict[str, Any]:
    """Device and dtype of a model's parameters, as keywords.

    For a model without parameters, they are torch's defaults.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return {"device": parameter.device, "dtype": parameter.dtype}
    default = torch.empty(0)
    return {"device": default.device, "dtype": default.dtype}


def start_processes() -> tuple[int, int]:
    """Rank of this process and number of processes that ``torchrun`` started.

    ValueError if they cannot connect.
    """
    distributed = torch.distributed
    several = os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")
    if several and not distributed.is_initialized():
        _connect()
    if not distributed.is_initialized():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def _connect() -> None:
    try:
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            torch.distributed.init_process_group("nccl")
        else:
            torch.distributed.init_process_group("gloo")
    except (ValueError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(
            f"processes cannot connect ({why}): use torchrun, or unset WORLD_SIZE and RANK"
        ) from error
