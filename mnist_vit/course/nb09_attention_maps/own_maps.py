"""The maps of the learner's own weights, measured as those of the stored trainings were."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from ...attention import attention_weights
from ...data import load_embedded
from ...hiding import faithfulness
from ..ladder.rows import stored


@torch.no_grad()
def left_without(model: nn.Module) -> str:
    """Rows on what three hidden patches with ink leave of the right digit, beside stored seeds.

    The patches are random ones, or those that the class token looks at most in one layer (mean over
    the heads), as in ``experiments/own_weights.py``.
    """
    unseen = load_embedded("validation")
    x = unseen.normalise(unseen.images)
    ink = (F.max_pool2d(unseen.images.float(), 7) > 0).flatten(1)  # (n, 16)
    rows = attention_weights(model, x, query=0)[..., 1:].mean(dim=2)  # (n, layers, 16)
    scores = {
        "at random": torch.rand(ink.shape, generator=torch.Generator().manual_seed(0)),
        "first layer": rows[:, 0],
        "last layer": rows[:, -1],
    }
    five = stored("five", "own_weights")
    lines = ["left of the right digit:  yours   five stored seeds"]
    for name, score in scores.items():
        among_ink = score.masked_fill(~ink, -math.inf)
        left = faithfulness(model, x, among_ink, [3], unseen.labels).mean()
        seeds = "  ".join(f"{percent:.0f} %" for percent in five[name])
        lines.append(f"{name:24} {100 * left:4.0f} %   {seeds}")
    return "\n".join(lines)
