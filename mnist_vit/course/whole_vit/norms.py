"""Norms of another kind: what an own LayerNorm divides by is measured on tokens."""

import copy
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..checking import Slip, random
from .building import EPS
from .explaining import make_neutral
from .matching import Source
from .slips import NORMS, RMS_NORMS

SPREADS = (1e-3, 1e-2, 1e-1)  # standard deviations of tokens for which an eps shows
LARGE = 1e6  # one for which it does not
ALIKE = 0.01  # how far measured eps may differ, relative to the largest
SMALLEST = 1e-14  # an eps below it is 0
DIGITS = 3  # of a measured eps
NEARLY = 1e-6  # rounding, relative to 1


@dataclass(frozen=True)
class Formula:
    """A norm: (x - mean) / sqrt(variance + eps), or one of its relatives.

    Attributes:
        eps: the eps.
        is_outside: whether it is added to the standard deviation, not to the variance.
        is_unbiased: whether the variance is the sum of squares divided by n - 1, not by n.
    """

    eps: float
    is_outside: bool = False
    is_unbiased: bool = False

    def slip(self, places: tuple[str, ...]) -> Slip:
        """The formula in these places of ours, which are keys of NORMS."""
        of_width = f"correction={int(self.is_unbiased)}, keepdim=True"
        below = f"x.var(-1, {of_width}).add({self.eps}).sqrt()"
        if self.is_outside:
            below = f"x.std(-1, {of_width}).add({self.eps})"
        norm = (
            "type('Norm', (nn.LayerNorm,), {'forward': lambda self, x: (x - x.mean(-1,"
            f" keepdim=True)) / {below} * self.weight + self.bias}})(hidden_dim)"
        )
        edit = {}
        for place in places:
            edit[f"self.{place} = norm_layer(hidden_dim)"] = f"self.{place} = {norm}"
        whose = "LayerNorm"
        if len(places) < len(NORMS):
            whose = " and ".join(NORMS[place] for place in places)
        return Slip(edit, *self._said(whose))

    def _said(self, whose: str) -> tuple[str, str]:
        """What was done, and what LayerNorm does instead."""
        did = []
        instead = []
        if self.is_unbiased:
            did.append("divide the sum of squares by n - 1")
            instead.append("LayerNorm divides it by n, correction=0")
        if self.is_outside:
            did.append("divide by the standard deviation plus eps")
            instead.append("LayerNorm divides by the root of variance plus eps")
        if self.eps != EPS:
            did.append(f"set eps to {self.eps:g}")
            instead.append("Torchvision's eps is 1e-6")
        return f"{' and '.join(did)} in {whose}", ". ".join(instead)


OURS = Formula(EPS)


def norm_edits(
    model: nn.Module, sources: Mapping[str, Source], rms_norms: Collection[str], width: int
) -> list[Slip]:
    """Norms of another kind in the place of ours, the same in all blocks, as edits of ours.

    Args:
        model: theirs.
        sources: where each of its tensors gets its values from.
        rms_norms: the paths of its modules that are RMSNorm.
        width: of the tokens.
    """
    kinds: dict[str, set[Formula | None]] = {}  # None for RMSNorm
    for own, source in sources.items():
        path = own.rpartition(".")[0]
        module, _, name = source.name.rpartition(".")
        place = module.rpartition(".")[2]
        if place in NORMS and name == "weight":
            is_rms = path in rms_norms
            kind = None if is_rms else formula_of(model.get_submodule(path), width)
            kinds.setdefault(place, set()).add(kind)
    places_of: dict[Formula | None, list[str]] = {}
    for place in NORMS:
        first, *others = kinds.get(place, {OURS})
        if first != OURS and not others:
            places_of.setdefault(first, []).append(place)
    found = []
    for formula, places in places_of.items():
        is_all = len(places) == len(kinds)  # a missing one has no kind
        where = tuple(NORMS if is_all else places)
        found.append(RMS_NORMS[where] if formula is None else formula.slip(where))
    return found


def formula_of(module: nn.Module, width: int) -> Formula:
    """The formula of a norm of tokens of this width; ours if it cannot be measured."""
    if type(module) is nn.LayerNorm:
        return OURS
    if any(module.children()):
        return OURS
    module = copy.deepcopy(module).double()
    for name, parameter in module.named_parameters():
        make_neutral(name, parameter)
    token = random(1, 1, width, seed=3, dtype=torch.float64)
    token = (token - token.mean()) / token.std(correction=0)
    try:
        large = _factor(module, token, LARGE)
        small = [_factor(module, token, spread) for spread in SPREADS]
    except Exception:  # it takes something else
        return OURS
    root = math.sqrt((width - 1) / width)
    is_unbiased = abs(large - root) < abs(large - 1)
    if not min(small) > 0 or abs(large - (root if is_unbiased else 1)) > NEARLY:
        return OURS
    return _with_eps(small, large, is_unbiased)


def _with_eps(small: list[float], large: float, is_unbiased: bool) -> Formula:
    """The formula with these factors for tokens of SPREADS, and this one for LARGE."""
    inside = []
    outside = []
    for spread, factor in zip(SPREADS, small, strict=True):
        ratio = large / factor
        inside.append(spread**2 * (ratio**2 - 1) / large**2)
        outside.append(spread * (ratio - 1) / large)
    for is_outside, measured in ((False, inside), (True, outside)):
        eps = max(measured)
        if eps - min(measured) <= max(ALIKE * eps, SMALLEST):
            eps = float(f"{eps:.{DIGITS}g}") if eps > SMALLEST else 0.0
            return Formula(eps, is_outside, is_unbiased)
    return OURS


def _factor(module: nn.Module, token: Tensor, spread: float) -> float:
    """What a norm multiplies a token of mean 0 and spread 1 by; 0 if it does something else."""
    with torch.no_grad():
        got = module(spread * token)
        shifted = module(spread * (token + 1))
    factor = float((got * token).mean())
    far = float(max((got - factor * token).abs().max(), (shifted - got).abs().max()))
    return factor if factor > 0 and far < NEARLY * factor else 0.0
