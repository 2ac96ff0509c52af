"""Optimizers: AdamW for all parameters, or Muon for the encoder's matrices.

With Muon, AdamW optimizes all other parameters.
"""

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from .errors import unknown


def make_optimizers(
    model: nn.Module, kind: str, learning_rate: float, weight_decay: float
) -> dict[str, torch.optim.Optimizer]:
    """The optimizers of a model by name: "adamw" for all parameters, or "muon" and "adamw".

    Both have the same learning rate. Raises ValueError if ``kind`` is unknown, or if the model has
    no matrix in encoder.layers for Muon.
    """
    if kind == "adamw":
        return {"adamw": make_optimizer(model, learning_rate, weight_decay)}
    if kind != "muon":
        raise ValueError(unknown("optimizer", kind, ("adamw", "muon")))
    matrices = []
    for name, parameter in model.named_parameters():
        if "encoder.layers." in name and parameter.dim() == 2:
            matrices.append(parameter)
    if not matrices:
        raise ValueError(
            'optimizer "muon" is for the matrices of encoder.layers, and this model has none: use'
            ' "adamw"'
        )
    muon = torch.optim.Muon if matrices[0].is_cuda else Muon
    return {
        "adamw": make_optimizer(model, learning_rate, weight_decay, without=matrices),
        "muon": muon(
            matrices,
            lr=learning_rate,
            weight_decay=weight_decay,
            adjust_lr_fn="match_rms_adamw",
        ),
    }


def make_optimizer(
    model: nn.Module, learning_rate: float, weight_decay: float, without: Collection[Tensor] = ()
) -> torch.optim.Optimizer:
    """AdamW with weight decay for matrices only.

    Biases, norms, class token and position embedding are not decayed. The parameters in ``without``
    belong to another optimizer.
    """
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        if any(parameter is other for other in without):
            continue
        if parameter.dim() < 2 or "class_token" in name or "pos_embedding" in name:
            free.append(parameter)
        else:
            decayed.append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    # On a GPU, one kernel launch for each group; None is torch's default.
    fused = next(model.parameters()).is_cuda or None
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.99), fused=fused)


class Muon(torch.optim.Muon):
    """torch's Muon with Newton-Schulz steps in float32 instead of bfloat16.

    That is faster for small matrices on a CPU. The averaged gradient U S V^T is replaced by
    approximately U V^T, scaled to the size of an AdamW step ("match_rms_adamw"), so that AdamW's
    learning rate and weight decay can be used. A step for ``vit_mnist`` takes 2.7 ms on one thread;
    torch's takes 1.8 times as long, or 13 times with ``ONEDNN_MAX_CPU_ISA=AVX2``, as on a processor
    without bfloat16 (``python -m benchmarks muon``).

    Sources: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; Liu et al. 2025,
    https://arxiv.org/abs/2502.16982.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_of(parameter, parameter.grad, group)

    def _step_of(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """The step of one matrix, in place."""
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
        average = gradient.lerp(state["momentum_buffer"], group["momentum"])
        if len(average) > average.shape[1]:
            direction = _orthogonal(average.T, group).T
        else:
            direction = _orthogonal(average, group)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        step = -group["lr"] * 0.2 * math.sqrt(max(parameter.shape))
        parameter.add_(direction, alpha=step)


def _orthogonal(x: Tensor, group: dict[str, Any]) -> Tensor:
    """Approximately U V^T of x = U S V^T, which must not be taller than wide."""
    a, b, c = group["ns_coefficients"]
    x = x / x.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        # Each singular value s becomes a s + b s^3 + c s^5, which is nearer to 1.
        square = x @ x.T
        polynomial = torch.addmm(square, square, square, beta=b, alpha=c)
        x = torch.addmm(x, polynomial, x, beta=a)
    return x
