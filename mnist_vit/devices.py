"""Where a model runs: device, dtype and the processes of ``torchrun``."""

import os
from typing import Any

import torch
from torch import nn

__all__ = ["find_device", "place", "start_processes"]


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
