"""Where a model runs: device, dtype and the processes of ``torchrun``."""

import os
from typing import Any

import torch
from torch import nn

__all__ = ["find_device", "place", "start_processes"]


def find_device(name: str | None) -> torch.device:
    """The device of that name; default: a GPU if available. ValueError if it is not available."""
    if name is None:
        name = (
            "cuda"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f'there is no device "{name}" here: use cpu, or omit it') from error


def place(model: nn.Module) -> dict[str, Any]:
    """Device and dtype of a model's parameters, as keywords; the defaults for a model without
    parameters."""
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    return {"device": first.device, "dtype": first.dtype}


def start_processes() -> tuple[int, int]:
    """Rank of this process and number of processes that ``torchrun`` started; ValueError if they
    cannot connect."""
    distributed = torch.distributed
    if not distributed.is_initialized() and os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1"):
        try:
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        except (ValueError, RuntimeError) as error:
            why = str(error).splitlines()[0]
            raise ValueError(
                f"processes cannot connect ({why}): use torchrun, or unset WORLD_SIZE and RANK"
            ) from error
    return (
        (distributed.get_rank(), distributed.get_world_size())
        if distributed.is_initialized()
        else (0, 1)
    )
