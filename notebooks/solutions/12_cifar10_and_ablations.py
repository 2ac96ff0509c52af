"""Solutions of notebook 12, made from the sources of its checks by `python -m tools solutions`."""

import torch
from torch import nn

from mnist_vit.model import VisionTransformer


# exercise: compare_runs
def my_compare_runs(base: list[float], variant: list[float]) -> str:
    "Returns better, worse or unclear: how the variant does, compared with the base."
    difference = sum(variant) / len(variant) - sum(base) / len(base)
    # How far apart runs are that differ in nothing but the seed.
    spread = max(max(base) - min(base), max(variant) - min(variant))
    if abs(difference) <= spread:
        return "unclear"
    return "better" if difference > 0 else "worse"


# exercise: power
def my_power(rule, effect, seeds, trials):
    # rule(base, variant) -> "better", "worse" or "unclear"; the share of "better", 0 to 1
    found = 0
    for _ in range(trials):
        base = torch.randn(seeds)
        variant = effect + torch.randn(seeds)
        found += rule(base.tolist(), variant.tolist()) == "better"
    return found / trials


# exercise: remove_positions
def my_remove_positions(model: VisionTransformer) -> None:
    "Changes the model that it is given."
    position = model.encoder.pos_embedding
    # Adding zeros changes nothing; without a gradient they stay zeros.
    nn.init.zeros_(position)
    position.requires_grad_(False)


# exercise: split_by_region
def my_split_by_region(left, size, cut):
    # (n,), whole numbers -> training, held out: booleans, (n,) each
    return left + size <= cut, left >= cut
