"""Solutions of notebook 10, made from the sources of its checks by `python -m tools solutions`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# exercise: exchange
def my_exchange(layer, x, output, rows, givers):
    # x, output: (n, seq_length, hidden_dim), what the attention layer got and gave
    # rows: (n, num_heads, seq_length), the class token's new weights
    # givers: (n,), the number of the picture whose values are gathered
    w_v, b_v = layer.in_proj_weight.chunk(3)[2], layer.in_proj_bias.chunk(3)[2]
    values = F.linear(x[givers], w_v, b_v)
    values = values.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)
    gathered = rows.unsqueeze(2) @ values  # (n, num_heads, 1, head_dim)
    gathered = layer.out_proj(gathered.transpose(1, 2).flatten(2))
    return torch.cat([gathered, output[:, 1:]], dim=1)


# exercise: hide
def my_hide(model: nn.Module, images: Tensor, hidden: Tensor) -> Tensor:
    # hidden: booleans, (n, patches), with the same number of True in each row -> logits
    class_token = torch.ones(len(hidden), 1, dtype=torch.bool)
    stays = torch.cat([class_token, ~hidden], dim=1)

    def take_out(module, args):
        z = args[0]
        return (z[stays].unflatten(0, (len(z), -1)),)

    handle = model.encoder.layers[0].register_forward_pre_hook(take_out)
    try:
        return model(images)
    finally:
        handle.remove()


# exercise: leave_out
def my_leave_out(logits_without, labels: Tensor, patches: int) -> Tensor:
    # logits_without(hidden): (n, patches) of booleans -> logits (n, classes)
    # -> (n, patches): how far the right digit's probability falls without each patch
    def right(hidden):
        probabilities = logits_without(hidden).softmax(dim=-1)
        return probabilities[torch.arange(len(labels)), labels]

    nothing = torch.zeros(len(labels), patches, dtype=torch.bool)
    whole, without = right(nothing), []
    for patch in range(patches):
        one = nothing.clone()
        one[:, patch] = True
        without.append(right(one))
    return whole.unsqueeze(1) - torch.stack(without, dim=1)
