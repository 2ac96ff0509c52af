"""An exercise: its solution, what is compared, and the slips that people make.

A slip is told as an edit of the solution.
"""

import functools
import importlib
import inspect
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..observing.observers import Evidence
from .edits import edited, execute


class Mistake(Exception):
    """Something a check can say in a sentence before any value is compared.

    Attributes:
        said: what the answer does, or lacks.
        instead: what to do instead; it is told when the answer fails again.
    """

    def __init__(self, said: str, instead: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.instead = instead


@dataclass(frozen=True, eq=False)
class Slip:
    """A mistake that has a name.

    Attributes:
        edit: makes the mistake out of the solution, ``{old text: new text}``; each old text stands
            there exactly once. Where no edit can tell it, a wrong answer itself.
        did: what its author did. It follows "You get exactly this when you"; where no wrong number
            tells it, "This happens, for instance, when you".
        instead: what to do instead, or why it is wrong: one or more sentences, without the last
            full stop. It is told when the answer fails again.
        name: for figures that show this mistake.
    """

    edit: Any
    did: str
    instead: str = ""
    name: str = ""

    @property
    def sentence(self) -> str:
        """What was done and what to do instead."""
        return f"{self.did}. {self.instead}" if self.instead else self.did


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise; its name, ``check.<name>``, is the stem of the file that holds it.

    Attributes:
        answer: the solution: one class or function, called as in the notebook.
        compare: takes an answer (the solution, a learner's, a mutant: all alike) and yields (what,
            value) pairs in the order in which they are compared: values before gradients. It makes
            its own inputs, fresh for every call.
        stars: difficulty, 1 to 3.
        hints: a nudge and the way; the third hint is the solution.
        slips: the mistakes that have a name.
        same: edits that leave the solution right: other ways to write it, whose steps are
            recognised too.
        many: whether many answers are right, because what is compared is what they do; a small
            change is right, too.
        tolerance: largest difference, relative to the largest expected value (at least 1).
        tell: what can be said of the first wrong value of an answer that no slip explains: what it
            does, and what to do instead; ("", "") if nothing can be said. Both are true of every
            answer with this value.
        notice: what is special to this exercise: calls a wrong answer, which no slip explains, and
            says what it sees; None if it sees nothing. Each sentence follows a test.
        more: calls an answer on further inputs and returns what it gives. A wrong word, or a small
            number, has many causes: a slip that gives it is named only if it gives all the same
            here, too.
    """

    answer: Any
    compare: Callable[[Any], Iterator[tuple[str, Any]]]
    stars: int
    hints: tuple[str, str]
    slips: tuple[Slip, ...]
    same: tuple[dict[str, str], ...] = ()
    many: bool = False
    tolerance: float = 1e-6
    tell: Callable[[Evidence], tuple[str, str]] | None = None
    notice: Callable[[Any], Mistake | None] | None = None
    more: Callable[[Any], Any] | None = None

    @property
    def name(self) -> str:
        """What follows ``check.``"""
        return str(self.answer.__module__).rpartition(".")[2]

    @property
    def room(self) -> str:
        """The notebook that the exercise belongs to, such as "07_training"."""
        return str(self.answer.__module__).rpartition(".")[0].rpartition(".nb")[2]

    @functools.cached_property
    def source(self) -> str:
        """The text of the solution; "" in an install without the solutions."""
        try:
            return inspect.getsource(self.answer).rstrip()
        except OSError:
            return ""

    def hint(self, step: int) -> str:
        """Hint 1, 2 or 3."""
        if step < 3:
            return self.hints[step - 1]
        if not self.source:
            return "the solution is not part of this install."
        return f"one way to write it:\n\n{self.source}"

    @functools.cached_property
    def mutants(self) -> list[tuple[Any, Slip]]:
        """(wrong answer, slip) for every slip; none without the text that they edit."""
        if not self.source:
            return []
        return [(self.edited(slip.edit), slip) for slip in self.slips]

    def mutant(self, name: str) -> Any:
        """The wrong answer that the slip of this name makes."""
        (found,) = [mutant for mutant, slip in self.mutants if slip.name == name]
        return found

    @functools.cached_property
    def others(self) -> list[Any]:
        """Right answers: the solution, and the solution after each edit that leaves it right."""
        if not self.source:
            return [self.answer]
        return [self.answer, *(self.edited(edit) for edit in self.same)]

    def edited(self, edit: Any) -> Any:
        """The solution after an edit, as an object of its own; what is no edit stays as it is."""
        if not isinstance(edit, dict):
            return edit
        source = edited(self.source, edit, f"{self.name}: the solution")
        file = f"<{self.name} {hash(source):x}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)  # inspect finds the text here
        module = importlib.import_module(self.answer.__module__)
        names = execute(source, file, dict(vars(module)))
        return names[self.answer.__name__]
