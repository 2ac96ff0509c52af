"""What our Vision Transformer computes, with the check's weights, and with known mistakes in it."""

import functools
import itertools
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import VisionTransformer

from ..checking import Slip, random, randomise
from ..checking.edits import edited_model
from .slips import SLIPS
from .values import LOGITS, Values, first_difference, values_of

AT_ONCE = 3  # slips that are found together
FRONTIER = 8  # combinations of slips to which another is added
SMALL = 100  # hidden_dim below which values are kept


@dataclass(frozen=True)
class Setting:
    """All that the check's weights and pictures depend on.

    Attributes:
        sizes: the arguments of ``VisionTransformer``.
        neutral: the names of parameters that have no effect.
        dtype: of weights and pictures.
    """

    sizes: tuple[tuple[str, Any], ...]
    neutral: tuple[str, ...]
    dtype: torch.dtype

    def pictures(self) -> Tensor:
        """Four pictures of small numbers, so that a norm's eps shows."""
        sizes = dict(self.sizes)
        shape = (4, sizes["in_channels"], sizes["image_size"], sizes["image_size"])
        return 0.05 * random(*shape, seed=1, dtype=self.dtype)

    def model(self, kind: Callable[..., nn.Module]) -> nn.Module:
        """A model in eval mode, with the check's weights."""
        model = kind(**dict(self.sizes)).to(self.dtype).eval()
        model.load_state_dict(_weights(self))
        return model


@functools.lru_cache(maxsize=2)
def _weights(setting: Setting) -> dict[str, Tensor]:
    """The check's weights; residual branches are small, so that a norm's eps shows."""
    model = randomise(VisionTransformer(**dict(setting.sizes)).to(setting.dtype))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if re.search(r"out_proj|mlp\.3|class_token|pos_embedding|conv_proj.bias", name):
                parameter.mul_(0.2)
            if name in setting.neutral:
                make_neutral(name, parameter)
    return model.state_dict()


def make_neutral(name: str, parameter: Tensor) -> None:
    """Fill a parameter so that it has no effect.

    A square matrix becomes the identity, a norm's weight 1, all else 0.
    """
    with torch.no_grad():
        parameter.zero_()
        if parameter.dim() == 1 and not re.search("bias|beta|token|cls|pos", name):
            parameter.fill_(1)
        elif parameter.dim() == 2 and parameter.shape[0] == parameter.shape[1]:
            parameter.fill_diagonal_(1)


def our_values(setting: Setting, *slips: Slip) -> Values:
    """What our model computes, with attention from scratch, after the edits of some slips.

    The values of small models are kept.
    """
    hidden_dim = dict(setting.sizes)["hidden_dim"]
    if hidden_dim < SMALL and len(slips) < 2:
        return _kept_values(setting, *slips)
    return _computed_values(setting, *slips)


def _computed_values(setting: Setting, *slips: Slip) -> Values:
    edits = [slip.edit for slip in slips]
    model = setting.model(edited_model(*edits))
    names = {name: name for name, _ in model.named_parameters()}
    return values_of(model, names, setting.pictures())


_kept_values = functools.lru_cache(maxsize=512)(_computed_values)


def explain(theirs: Values, setting: Setting, seconds: float = 30.0) -> tuple[Slip, ...]:
    """The known slips with which our model computes every value that theirs does; () if none do.

    Another slip is added only where those before it made more values agree, and only one that
    changes the first value that still differs.

    Args:
        theirs: what the learner's model computes.
        setting: the weights and pictures that it was given.
        seconds: the search gives up after that.
    """
    ours = {}
    for label, value in our_values(setting).items():
        if label in theirs:
            ours[label] = value
    end = time.monotonic() + seconds
    changes: dict[Slip, str | None] = {}  # the first value that a slip changes by itself
    frontier: list[tuple[tuple[Slip, ...], str]] = [((), first_difference(theirs, ours) or LOGITS)]
    for _ in range(AT_ONCE):
        further: list[tuple[int, tuple[Slip, ...], str]] = []
        for (slips, label), slip in itertools.product(frontier, SLIPS):
            if changes.get(slip, label) != label:
                continue
            if time.monotonic() > end:
                return ()
            with suppress(Exception):  # edits that do not go together, or a model that fails
                values = our_values(setting, *slips, slip)
                found = first_difference(theirs, values)
                if found is None:
                    return (*slips, slip)
                if not slips:
                    changes[slip] = first_difference(values, ours)
                order = list(values)
                if label in order and order.index(found) > order.index(label):
                    further.append((order.index(found), (*slips, slip), found))
        further.sort(key=lambda step: (step[0], _place(step[1])), reverse=True)
        frontier = [(slips, found) for _, slips, found in further[:FRONTIER]]
    return ()


def _place(slips: tuple[Slip, ...]) -> list[str]:
    return [slip.did for slip in slips]
