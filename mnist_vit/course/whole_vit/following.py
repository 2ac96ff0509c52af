"""Follows a model from one difference to the next, up to the logits.

Known slips are searched first. Where a value differs without a name, theirs is put in its place in
ours, and what comes behind it is compared.
"""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from .explaining import explain, our_values
from .matching import POSITIONS
from .trial import Trial
from .values import (
    FIRST_ATTENTION,
    FIRST_TOKENS,
    LOGITS,
    SUM,
    Values,
    alignments,
    comparable,
    first_difference,
    stand_in,
)

TOKENS = ("the output of conv_proj", SUM)  # values before the blocks
SECONDS = 30.0  # for the search of slips


@dataclass(frozen=True)
class Difference:
    """A value that differs without a name.

    Attributes:
        label: of the value.
        words: the label, with their name for it.
        got, expected: theirs and ours, in the same shape if they correspond.
        is_first: whether no value of its kind, in an earlier block, differs without a name.
    """

    label: str
    words: str
    got: Tensor
    expected: Tensor
    is_first: bool


class Following:
    """What was found on the way to the logits.

    Attributes:
        trial: both models; slips that are found become edits of ours.
        first: the first value that differs, in words, where slips explain it.
        gave_up: whether the search for slips took too long.
        unnamed: values that differ, and no slip explains them: each with theirs in the place of
            ours in those before.
        is_whole: whether with theirs in all of these places the logits are equal, or all that can
            be compared.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.first = ""
        self.gave_up = False
        self.unnamed: list[Difference] = []
        self.is_whole = False
        self.end = time.thread_time() + SECONDS
        if trial.is_random or trial.changes:
            return
        self.theirs = trial.values()
        if trial.kept and not self._takes_tokens():
            return
        if trial.replaced:
            self._keep_before(trial.replaced)
            self.is_whole = bool(self.theirs) and self._follow()
        elif self._takes_positions() and trial.problem() is None:
            self.is_whole = True
        elif LOGITS in self.theirs:
            self.is_whole = self._follow()

    @property
    def is_known(self) -> bool:
        """Whether known slips give all the same values."""
        return self.is_whole and not self.unnamed

    def _keep_before(self, parts: Collection[str]) -> None:
        """Forget the values of these parts of ours, and those behind them.

        All are forgotten if ours has no value of one of the parts: it may come before any other.
        """
        labels = list(self._ours())
        ends = [len(labels)]
        for part in parts:
            places = [labels.index(label) for label in labels if label.endswith(f" of {part}")]
            ends.append(min(places, default=0))
        kept = labels[: min(ends)]
        self.theirs = {label: self.theirs[label] for label in kept if label in self.theirs}

    def _follow(self) -> bool:
        """Whether it comes to equal logits, or to the end of what can be compared."""
        label = self._label()
        while label is not None and label in self.theirs:
            if not self._is_in_order(label) and self._adds_tokens():
                label = self._label()
                continue
            if self._is_new(label) and self._explain():
                return True
            difference = self._difference()
            self.unnamed.append(difference)
            if not self._puts_in(difference):
                return False
            label = self._label()
        return True

    def _explain(self) -> bool:
        """Whether known slips give all the same values; those that are found become edits."""
        behind = [difference for difference in self.unnamed if difference.label not in TOKENS]
        is_all = not (behind or self.trial.is_partly_given)
        explanation = explain(self.theirs, self.trial.setting, self.end, is_all)
        self.gave_up = self.gave_up or explanation.gave_up
        if explanation.slips:
            if not self.unnamed:
                self.first = self._words()
            self.trial.add(explanation.slips)
        return explanation.is_whole

    def _difference(self) -> Difference:
        """The first value that differs."""
        label = self._label() or LOGITS
        got = self.theirs[label]
        ours = self._ours()[label]
        aligned = alignments(got, ours)
        expected = aligned[0] if aligned else ours
        return Difference(label, self._words(), got, expected, self._is_new(label))

    def _is_new(self, label: str) -> bool:
        """Whether no difference without a name is of the kind of this label."""
        return _kind(label) not in [_kind(difference.label) for difference in self.unnamed]

    def _puts_in(self, difference: Difference) -> bool:
        """Put a value of theirs in the place of ours; returns whether something comes behind it."""
        label = difference.label
        ours = self._ours()
        numbers = stand_in(self.theirs[label], ours[label])
        if label == LOGITS or numbers is None or not self._is_in_order(label):
            return False
        self.trial.put_in(label, numbers)
        return True

    def _is_in_order(self, label: str) -> bool:
        """Whether the values that both models have come in the same order, up to this one."""
        if label == LOGITS:
            return True
        shared = comparable(self.theirs, self._ours())
        in_theirs = [other for other in self.theirs if other in shared]
        return in_theirs[: in_theirs.index(label)] == shared[: shared.index(label)]

    def _adds_tokens(self) -> bool:
        """Compare what block 0 is given, too, if that is not among the values yet."""
        if SUM in self.theirs:
            return False
        tokens = self.trial.tokens()
        if tokens is None or stand_in(tokens, self._ours()[SUM]) is None:
            return False
        first = {label: self.theirs[label] for label in self.theirs if label.endswith(" conv_proj")}
        self.theirs = first | {SUM: tokens} | self.theirs
        return True

    def _takes_tokens(self) -> bool:
        """Give our blocks the tokens that theirs makes in another way; returns whether they fit."""
        tokens = self.trial.tokens()
        numbers = None if tokens is None else stand_in(tokens, self._ours()[SUM])
        if numbers is None:
            return False
        self.trial.put_in(SUM, numbers)
        for label in list(self.theirs):
            if label == SUM or label.endswith(" conv_proj"):
                del self.theirs[label]
        return True

    def _takes_positions(self) -> bool:
        """Give ours the positions that theirs makes in forward; returns whether it makes any."""
        if self.trial.uses_positions() or self._label() != FIRST_TOKENS:
            return False
        for place in (FIRST_TOKENS, FIRST_ATTENTION):  # the second without a norm before it
            table = self._added(self.theirs[place]) if place in self.theirs else None
            if table is not None:
                self.trial.take_positions(table)
                return True
        return False

    def _added(self, tokens: Tensor) -> Tensor | None:
        """The positions in these tokens of theirs; None if it may be anything else.

        They are what is added to the tokens of each picture, where it is the same for all of them.
        """
        ours = self._ours()[FIRST_TOKENS]
        if tokens.shape != ours.shape:
            return None
        added = tokens - ours
        known = self.trial.parameters[POSITIONS].detach()[:, -added.shape[1] :]
        table = added[:1] + known
        patches = table[:, 1:]
        least = self.trial.tolerance * tokens.abs().max()
        is_same = (added - added[:1]).abs().max() <= least
        if not is_same or (patches - patches[:, :1]).abs().max() <= least:
            return None
        return table

    def _ours(self) -> Values:
        return our_values(self.trial.setting)

    def _label(self) -> str | None:
        """The label of the first value that differs."""
        return first_difference(self.theirs, self._ours())

    def _words(self) -> str:
        """The label of the first value that differs, with their name for it."""
        label = self._label() or LOGITS
        return f"{label}{self.trial.their_name(label)}"


def _kind(label: str) -> str:
    """A label without the number of its block, or of its call."""
    return re.sub(r"block \d+|, call \d+", "", label)
