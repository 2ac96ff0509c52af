"""Solutions of notebook 10, made from the sources of its checks by `python -m tools solutions`."""

import torch
from torch import Tensor, nn


# exercise: gradient_map
def my_gradient_map(logits: Tensor, tokens: Tensor, classes: Tensor) -> Tensor:
    # logits (n, classes) were computed from tokens (n, 1 + patches, hidden_dim); classes (n,)
    # -> (n, patches): token × gradient of the logit of the picture's class, summed
    chosen = logits.gather(1, classes[:, None])
    (gradient,) = torch.autograd.grad(chosen.sum(), tokens)
    contributions = (tokens * gradient).sum(dim=-1)
    return contributions[:, 1:]


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


# exercise: integrate
def my_integrate(gradient_at, images: Tensor, reference: Tensor, steps: int) -> Tensor:
    # gradient_at(pictures): one for each image, (n, c, h, w) -> the gradient of each one's logit
    # -> (n, c, h, w): what each pixel has of the difference between both logits
    way = images - reference
    total = torch.zeros_like(images)
    for step in range(steps):
        total = total + gradient_at(reference + (step + 0.5) / steps * way)
    return way * total / steps


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


# exercise: norm_rule
def my_norm_rule(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    # (n, seq_length, hidden_dim) -> the values of a layer norm over the last axis
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return centred / deviation.detach() * weight + bias


# exercise: patch
def my_patch(model: nn.Module, clean: Tensor, corrupted: Tensor, site: nn.Module, tokens: slice):
    # clean, corrupted: (n, c, h, w); site: a part of the model; tokens: which tokens of its output
    # -> logits for `corrupted`, if these tokens came from the run on `clean`
    kept = []

    def keep(module, args, output):
        kept.append(output[0] if isinstance(output, tuple) else output)

    def put_in(module, args, output):
        is_pair = isinstance(output, tuple)
        new = (output[0] if is_pair else output).clone()
        new[:, tokens] = kept[0][:, tokens]
        return (new, *output[1:]) if is_pair else new

    for hook, images in ((keep, clean), (put_in, corrupted)):
        handle = site.register_forward_hook(hook)
        try:
            logits = model(images)
        finally:
            handle.remove()
    return logits
