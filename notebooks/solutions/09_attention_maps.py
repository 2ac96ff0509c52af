"""Solutions of notebook 09, made from the sources of its checks by `python -m tools solutions`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


# exercise: attention_distance
def my_attention_distance(weights: Tensor, patch_size: int) -> Tensor:
    # (n, num_layers, num_heads, seq_length, seq_length) -> (num_layers, num_heads)
    grid = math.isqrt(weights.shape[-1] - 1)
    number = torch.arange(grid)
    place = torch.cartesian_prod(number, number).float()
    pixels = torch.cdist(place, place) * patch_size  # from each patch to each other
    patches = weights[..., 1:, 1:]  # the class token has no place
    patches = patches / patches.sum(dim=-1, keepdim=True)
    looked = (patches * pixels).sum(dim=-1)
    return looked.mean(dim=(0, -1))


# exercise: name_the_maps
def my_name_the_maps():
    return {"a": 5, "b": 2, "c": 1, "d": 8, "e": 4}


# exercise: query_map
def my_query_map(weights: Tensor, row: int, column: int) -> Tensor:
    # (n, num_heads, seq_length, seq_length) -> (n, num_heads, n_h, n_w)
    grid = math.isqrt(weights.shape[-1] - 1)
    query = 1 + row * grid + column  # token 0 is the class token
    looked_at = weights[:, :, query, 1:]
    return looked_at.unflatten(-1, (grid, grid))


# exercise: record
@contextmanager
def my_record(model: nn.Module) -> Iterator[list[Tensor]]:
    # with my_record(model) as kept: … one tensor for each attention layer that runs
    kept, handles = [], []

    def ask_for_weights(module, args, kwargs):
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def keep(module, args, output):
        kept.append(output[1])

    for module in model.modules():
        if hasattr(module, "in_proj_weight"):  # torch's attention layer has one, and yours
            handles.append(module.register_forward_pre_hook(ask_for_weights, with_kwargs=True))
            handles.append(module.register_forward_hook(keep))
    # Everything after the yield must happen however the block ends, so it stands in `finally`.
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


# exercise: rollout
def my_rollout(weights: Tensor) -> Tensor:
    # (n, num_layers, num_heads, seq_length, seq_length) -> (n, seq_length, seq_length)
    identity = torch.eye(weights.shape[-1])
    total = identity.expand(len(weights), -1, -1)
    for layer in weights.mean(dim=2).unbind(dim=1):
        mixed = layer + identity  # the residual connection: each token also keeps itself
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        total = mixed @ total  # the later layer stands on the left
    return total


# exercise: undo_softmax
def my_undo_softmax(twice: Tensor) -> Tensor:
    # (..., keys): softmax of weights -> the weights, (..., keys)
    logs = twice.log()  # the weights, less one number for each row
    missing = 1 / twice.shape[-1] - logs.mean(dim=-1, keepdim=True)  # weights have the mean 1 / N
    return logs + missing
