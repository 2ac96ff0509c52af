"""Optimizers: AdamW for all parameters, or Muon for the matrices of the encoder and AdamW for the
rest."""

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from .errors import unknown


def make_optimizers(
    model: nn.Module, kind: str, learning_rate: float, weight_decay: float
) -> dict[str, torch.optim.Optimizer]:
    """The optimizers of a model by name: "adamw" for all parameters, or "muon" and "adamw" with the
    same learning rate.

    Raises ValueError if ``kind`` is unknown, or if the model has no matrix in encoder.layers for
    Muon.
    """
    if kind == "adamw":
        return {"adamw": make_optimizer(model, learning_rate, weight_decay)}
    if kind != "muon":
        raise ValueError(unknown("optimizer", kind, ("adamw", "muon")))
    matrices = [
        p for name, p in model.named_parameters() if "encoder.layers." in name and p.dim() == 2
    ]
    if not matrices:
        raise ValueError(
            'optimizer "muon" is for the matrices of encoder.layers, and this model has none: use'
            ' "adamw"'
        )
    muon = torch.optim.Muon if matrices[0].is_cuda else Muon
    return {
        "adamw": make_optimizer(model, learning_rate, weight_decay, matrices),
        "muon": muon(
            matrices, lr=learning_rate, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
        ),
    }


def make_optimizer(
    model: nn.Module, learning_rate: float, weight_decay: float, without: Collection[Tensor] = ()
) -> torch.optim.Optimizer:
    """AdamW with weight decay for matrices, not for biases, norms, class token and position
    embedding."""
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        plain = parameter.dim() < 2 or "class_token" in name or "pos_embedding" in name
        if not any(parameter is other for other in without):
            (free if plain else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    on_gpu = next(model.parameters()).is_cuda  # one kernel launch for each group
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=(0.9, 0.99), fused=True if on_gpu else None
    )


class Muon(torch.optim.Muon):
    """torch's Muon with Newton-Schulz steps in float32 instead of bfloat16: faster for small
    matrices on a CPU.

    The averaged gradient U S V^T is replaced by approximately U V^T, scaled to the size of an AdamW
    step ("match_rms_adamw"), so that AdamW's learning rate and weight decay can be used. A step for
    ``vit_mnist`` takes 2.7 ms on one thread; torch's takes 1.8 times as long, or 13 times with
    ``ONEDNN_MAX_CPU_ISA=AVX2``, as on a processor without bfloat16 (``python -m benchmarks muon``).

    Sources: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; Liu et al. 2025,
    https://arxiv.org/abs/2502.16982.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            momentum, (a, b, c) = group["momentum"], group["ns_coefficients"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                state["momentum_buffer"].lerp_(parameter.grad, 1 - momentum)
                x = parameter.grad.lerp(state["momentum_buffer"], momentum)
                tall = len(x) > x.shape[1]
                x = x.T if tall else x
                x = x / x.norm().clamp(min=group["eps"])
                for _ in range(
                    group["ns_steps"]
                ):  # maps each singular value s to a s + b s^3 + c s^5, near 1
                    square = x @ x.T
                    x = torch.addmm(
                        x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a
                    )
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(
                    x.T if tall else x, alpha=-group["lr"] * 0.2 * math.sqrt(max(x.shape))
                )
