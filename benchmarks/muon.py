"""Milliseconds of a step of Muon for vit_mnist: torch's, in bfloat16, against ours, in float32.

    python -m benchmarks muon
    ONEDNN_MAX_CPU_ISA=AVX2 python -m benchmarks muon  # as on a processor without bfloat16

One thread. Nothing is stored; the figures stand in the docstring of ``mnist_vit.optimizers.Muon``.
"""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.timing import compare
from mnist_vit.model import vit_mnist
from mnist_vit.optimizers import Muon

STEPS = 50


def run(rounds: int = 7) -> dict[str, Any]:
    """Time both in turn."""
    measured = compare(steps(torch.optim.Muon), steps(Muon), rounds)
    theirs, ours = (1000 * seconds / STEPS for seconds in measured["seconds"])
    return {
        "torch's, milliseconds": round(theirs, 1),
        "ours, milliseconds": round(ours, 1),
        "ratio": measured["ratio"],
        "lowest": measured["lowest"],
        "highest": measured["highest"],
    }


def steps(kind: type[torch.optim.Muon]) -> Callable[[], None]:
    """Return a function that takes STEPS steps with the matrices of vit_mnist's encoder."""
    torch.manual_seed(0)
    matrices = []
    for name, parameter in vit_mnist().named_parameters():
        if "encoder.layers." in name and parameter.dim() == 2:
            matrices.append(parameter)
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    optimizer = kind(matrices, lr=6e-3, adjust_lr_fn="match_rms_adamw")

    def take() -> None:
        for _ in range(STEPS):
            optimizer.step()

    return take
