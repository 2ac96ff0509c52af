"""Solutions of notebook 11, made from the sources of its checks by `python -m tools solutions`."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


# exercise: convert_block
def my_convert_block(theirs):
    # a block's tensors under transformers' names -> under yours
    names = {"norm1": "ln_1", "norm2": "ln_2", "mlp.fc1": "mlp.0", "mlp.fc2": "mlp.3"}
    names["attention.o_proj"] = "self_attention.out_proj"
    scales = {"attention.o_proj": theirs["layer_scale1.lambda1"]}
    scales["mlp.fc2"] = theirs["layer_scale2.lambda1"]
    ours = {}
    for kind in ("weight", "bias"):
        for name, new in names.items():
            ours[f"{new}.{kind}"] = theirs[f"{name}.{kind}"]
        parts = [theirs[f"attention.{letter}_proj.{kind}"] for letter in "qkv"]
        ours[f"self_attention.in_proj_{kind}"] = torch.cat(parts)
    for name, scale in scales.items():
        new = names[name]
        ours[f"{new}.weight"] = scale[:, None] * ours[f"{new}.weight"]
        ours[f"{new}.bias"] = scale * ours[f"{new}.bias"]
    return ours


# exercise: fold_scale
def my_fold_scale(weight, bias, scale):
    # weight and bias of a linear layer, scale (out,) -> weight and bias of one that needs no scale
    return scale[:, None] * weight, scale * bias


# exercise: transfer
def my_transfer(model, images, labels, freeze, steps, learning_rate):
    # a trained model, (n, c, h, w), (n,) -> another model, trained on these images
    model = copy.deepcopy(model)
    model.requires_grad_(not freeze)
    head = nn.Linear(model.class_token.shape[-1], 10)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    model.heads = head

    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=learning_rate)
    for _ in range(steps):
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


# exercise: two_rates
def my_two_rates(model, images, labels, steps, head_rate, body_rate):
    # a model whose head fits, (n, c, h, w), (n,) -> another model, all of it trained
    model = copy.deepcopy(model)
    model.requires_grad_(True)
    head = list(model.heads.parameters())
    body = [p for name, p in model.named_parameters() if not name.startswith("heads.")]
    groups = [{"params": head, "lr": head_rate}, {"params": body, "lr": body_rate}]
    optimizer = torch.optim.AdamW(groups)
    for _ in range(steps):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
