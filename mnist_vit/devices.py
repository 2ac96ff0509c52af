"""Where a model is and computes: its device, its kind of numbers, and how many processes train it."""

import os
from typing import Any

import torch
from torch import nn

__all__ = ["find_device", "place", "start_processes"]


def place(model: nn.Module) -> dict[str, Any]:
    """Device and dtype of a model's parameters, as keywords; those of a new tensor for a model without any."""
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    return {"device": first.device, "dtype": first.dtype}


def find_device(name: str | None) -> torch.device:
    """The device of that name; without one a GPU if there is one. ValueError if it is not here."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f'there is no device "{name}" here: use cpu, or leave it out') from error


def start_processes() -> tuple[int, int]:
    """This process's number, and how many ``torchrun`` has started; ValueError if variables of theirs are left over."""
    distributed = torch.distributed
    if not distributed.is_initialized() and os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1"):
        try:
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        except (ValueError, RuntimeError) as error:
            told = " ".join(f"{name}={os.environ.get(name, '')}" for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR"))
            raise ValueError(f"{told} are not those of processes that work together ({str(error).splitlines()[0]}): "
                             "start them with torchrun, or unset WORLD_SIZE and RANK") from error  # fmt: skip
    return (distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else (0, 1)
