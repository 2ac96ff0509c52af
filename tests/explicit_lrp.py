"""AttnLRP by its formulas, step by step: for test_relevance.py.

Each step's backward pass takes the relevance of its output, R, and returns that of its inputs, as
Achtibat et al. 2024 write it. The names are those of ``lxt.explicit.functional``, their own
library, which can take the place of ``ByHand``.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        output = F.linear(x, weight, bias)
        ctx.save_for_backward(x, weight, output)
        return output

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        x, weight, output = ctx.saved_tensors
        return x * ((given / output) @ weight), None, None


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x + y

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return x / (x + y) * given, y / (x + y) * given


class Matmul(torch.autograd.Function):
    """Proposition 3.3."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        x, y = ctx.saved_tensors
        half = given / (2 * (x @ y))
        return x * (half @ y.mT), y * (x.mT @ half)


class Softmax(torch.autograd.Function):
    """R of x is x (R - s ΣR): proposition 3.1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        output = x.softmax(dim=-1)
        ctx.save_for_backward(x, output)
        return output

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        x, output = ctx.saved_tensors
        return x * (given - output * given.sum(dim=-1, keepdim=True))


class Identity(torch.autograd.Function):
    """Equation 9."""

    @staticmethod
    def forward(ctx: Any, function: Callable, x: Tensor) -> Tensor:
        return function(x)

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        return None, given


class LayerNorm(torch.autograd.Function):
    """R of the norm is that of x - mean, proposition 3.4, which is linear: equation 8."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        output = F.layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(x, bias, output)
        return output

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        x, bias, output = ctx.saved_tensors
        centred = x - x.mean(dim=-1, keepdim=True)
        of_centred = given * (output - bias) / output
        ratio = of_centred / centred
        return x * (ratio - ratio.mean(dim=-1, keepdim=True)), None, None, None


class ByHand:
    """The steps."""

    @staticmethod
    def linear_epsilon(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        return Linear.apply(x, weight, bias)

    @staticmethod
    def add2(x: Tensor, y: Tensor, inplace: bool, epsilon: float) -> Tensor:
        return Add.apply(x, y)

    @staticmethod
    def matmul(x: Tensor, y: Tensor, inplace: bool, epsilon: float) -> Tensor:
        return Matmul.apply(x, y)

    @staticmethod
    def softmax(x: Tensor, dim: int) -> Tensor:
        return Softmax.apply(x)

    @staticmethod
    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        return LayerNorm.apply(x, weight, bias, eps)


def relevance_of_tokens(
    model: nn.Module, tokens: Tensor, label: int, steps: Any = ByHand
) -> Tensor:
    """The relevance of each token of a torchvision model, by these steps.

    Shape: (n, seq_length, hidden_dim) -> (n, seq_length).
    """
    tokens = tokens.detach().requires_grad_()
    z = tokens
    for block in model.encoder.layers:
        z = steps.add2(attention(block, norm(block.ln_1, z, steps), steps), z, False, 1e-12)
        z = steps.add2(mlp(block.mlp, norm(block.ln_2, z, steps), steps), z, False, 1e-12)
    z = norm(model.encoder.ln, z, steps)[:, 0]
    head = model.heads.head
    logits = steps.linear_epsilon(z, head.weight, head.bias, 1e-12)
    scores = logits[:, label]
    return torch.autograd.grad(scores, tokens, scores)[0].sum(dim=-1)


def norm(layer: nn.LayerNorm, x: Tensor, steps: Any) -> Tensor:
    return steps.layer_norm(x, layer.weight, layer.bias, layer.eps)


def mlp(layer: nn.Module, x: Tensor, steps: Any) -> Tensor:
    x = steps.linear_epsilon(x, layer[0].weight, layer[0].bias, 1e-12)
    x = Identity.apply(F.gelu, x)
    return steps.linear_epsilon(x, layer[3].weight, layer[3].bias, 1e-12)


def attention(block: nn.Module, x: Tensor, steps: Any) -> Tensor:
    layer = block.self_attention
    n, s, width = x.shape
    heads = layer.num_heads
    parts = []
    for weight, bias in zip(
        layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True
    ):
        if not parts:  # the queries' projection takes the scale
            weight, bias = weight / math.sqrt(width // heads), bias / math.sqrt(width // heads)
        part = steps.linear_epsilon(x, weight, bias, 1e-12)
        parts.append(part.view(n, s, heads, -1).transpose(1, 2))
    q, k, v = parts
    weights = steps.softmax(steps.matmul(q, k.mT, False, 1e-12), -1)
    x = steps.matmul(weights, v, False, 1e-12).transpose(1, 2).reshape(n, s, width)
    return steps.linear_epsilon(x, layer.out_proj.weight, layer.out_proj.bias, 1e-12)
