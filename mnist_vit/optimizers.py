"""What changes the weights: AdamW for all of them, or Muon for the matrices of the encoder and AdamW for the rest."""

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from .errors import unknown

__all__ = ["Muon", "make_optimizer", "make_optimizers"]


def make_optimizers(
    model: nn.Module, kind: str, learning_rate: float, weight_decay: float
) -> dict[str, torch.optim.Optimizer]:
    """The optimizers of a model by name, each for its own parameters; one learning rate serves both.

    ``kind`` is "adamw", for all parameters; or "muon", for the matrices of the encoder's blocks, with AdamW for the
    rest. ValueError: there is no such optimizer, or the model has no matrix for Muon.
    """
    if kind == "adamw":
        return {"adamw": make_optimizer(model, learning_rate, weight_decay)}
    if kind != "muon":
        raise ValueError(unknown("optimizer", kind, ("adamw", "muon")))
    matrices = [p for name, p in model.named_parameters() if "encoder.layers." in name and p.dim() == 2]
    if not matrices:
        raise ValueError('optimizer "muon" is for the matrices of encoder.layers, and this model has none: use "adamw"')
    muon = torch.optim.Muon if matrices[0].is_cuda else Muon
    return {
        "adamw": make_optimizer(model, learning_rate, weight_decay, matrices),
        "muon": muon(matrices, lr=learning_rate, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
    }


def make_optimizer(
    model: nn.Module, learning_rate: float, weight_decay: float, without: Collection[Tensor] = ()
) -> torch.optim.Optimizer:
    """AdamW that shrinks matrices and leaves biases, norms, class token and position embedding alone."""
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        plain = parameter.dim() < 2 or "class_token" in name or "pos_embedding" in name
        if not any(parameter is other for other in without):
            (free if plain else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
    on_gpu = next(model.parameters()).is_cuda  # there, all parameters in one launch instead of many
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.99), fused=True if on_gpu else None)


class Muon(torch.optim.Muon):
    """torch's Muon with Newton-Schulz steps in float32, not bfloat16: faster for small matrices on a CPU.

    A step along the average gradient U S V^T is replaced by one along about U V^T: all directions count alike. It is
    made as large as one of AdamW ("match_rms_adamw"), so that AdamW's learning rate and weight decay fit.

    Milliseconds a step for the matrices of ``vit_mnist`` on one thread: 2.3 instead of 3.8 where the processor has
    bfloat16, 2.3 instead of 30 where it has not.

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
                for _ in range(group["ns_steps"]):  # a singular value s becomes a s + b s^3 + c s^5: comes near 1
                    square = x @ x.T
                    x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(x.T if tall else x, alpha=-group["lr"] * 0.2 * math.sqrt(max(x.shape)))
