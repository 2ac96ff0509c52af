"""Exercise: four curves of runs that have something wrong, and which of them has what."""

import re
import traceback
from collections.abc import Iterator
from typing import Any

from ..checking import Evidence, Exercise, Mistake, describe
from ..observing.tracing import is_theirs


def my_diagnose() -> dict[str, str]:
    """The illness of each curve, by its letter."""
    return {
        # the training is healthy, what is measured is wrong, always in the same way
        "A": "other normalisation",
        "B": "shuffled labels",  # learns a little by heart, and nothing that helps elsewhere
        "C": "no zero_grad",  # learns, and then runs along old gradients
        "D": "no eval",  # the same weights give three answers
    }


HIDDEN = my_diagnose()  # the notebook makes its curves by it
WOULD = {
    "no zero_grad": (
        "Without zero_grad every step follows the sum of all gradients so far: the training loss"
        " falls at first and then climbs again and wanders"
    ),
    "no eval": (
        "Without eval dropout goes on while measuring, so three measurements of the same weights"
        " differ"
    ),
    "other normalisation": (
        "With another normalisation at test time the training goes well, and the validation is far "
        "below it from the first epoch on"
    ),
    "shuffled labels": (
        "With shuffled labels there is nothing to learn but the labels by heart: no better than"
        " chance on other digits"
    ),
}
SEEN = {
    "no zero_grad": "the training loss is lower after the first epochs than at the end",
    "no eval": "the training loss falls, and the dots of one epoch lie apart",
    "other normalisation": (
        "the training goes well, the dots of one epoch lie on one another, and they are far below "
        "the line"
    ),
    "shuffled labels": "the training loss hardly falls, and the dots stay near 10 %",
}


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    named = _called(answer)
    if named is None or named is ...:
        yield "curve A", None
    if not isinstance(named, dict):
        kind = type(named).__name__
        raise Mistake(
            f'a dict from letters to names is needed, {{"A": …, "B": …}}, and this is a {kind}.'
        )
    if not set(HIDDEN) & set(named) and set(HIDDEN) & set(map(str, named.values())):
        raise Mistake(
            "the letters are values of your dictionary.",
            'Turn it round: the letter is the key, and the name the value, as in {"A": "…"}.',
        )
    small = {letter.lower() for letter in HIDDEN}
    if small <= set(named):
        raise Mistake(
            f"the keys of your dictionary are small letters, {', '.join(sorted(small))}.",
            f"The curves are called {', '.join(HIDDEN)}.",
        )
    for letter in HIDDEN:  # before any is compared
        name = named.get(letter)
        is_known = isinstance(name, str) and (not name or name in WOULD)
        if name is not None and name is not ... and not is_known:
            given = repr(name)[:40] if isinstance(name, str) else describe(name)
            raise Mistake(
                f"curve {letter} has the name {given}, which is none of the four:"
                f" {', '.join(WOULD)}."
            )
    for letter in HIDDEN:
        name = named.get(letter)
        if not isinstance(name, str) or not name:
            raise Mistake(f"curve {letter} has no name yet: each of {', '.join(HIDDEN)} gets one.")
        yield f"curve {letter}", name
        # one thing at a time: whatever the later curves are called, this one is told
        if name != HIDDEN[letter]:
            return


def _called(answer: Any) -> Any:
    """The dict; Mistake where the function cannot be called without arguments."""
    if not callable(answer):
        return answer
    try:
        return answer()
    except TypeError as error:
        asked = re.search(r"missing \d+ required positional arguments?: (.*)", str(error))
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if asked is None or any(is_theirs(frame.f_code.co_filename) for frame in frames):
            raise
        names = asked[1].replace("'", "")
        raise Mistake(
            f"your function asks for {names}, and is called with nothing between its brackets.",
            "You have seen the curves: it returns the dict, and takes no arguments.",
        ) from error


def tell(evidence: Evidence) -> tuple[str, str]:
    """What a curve of that name looks like; and at the next attempt, what this one looks like."""
    if evidence.value not in WOULD:
        return "", ""
    return f"{WOULD[evidence.value]}.", f"In {evidence.what} {SEEN[evidence.expected]}."


EXERCISE = Exercise(
    answer=my_diagnose,
    compare=compare,
    stars=2,
    slips=(),
    tell=tell,
    hints=(
        "Look at the training lines first: which two runs do not learn their own training digits?",
        (
            "Of those two, one gets better for a while and then worse, as steps along old gradients"
            " would make it; the other never gets far from 10 %, as if its labels meant nothing. Of"
            " the two that do learn, look at the dots: do the three of an epoch agree? If not,"
            " dropout is still on; if so, and they are far below the line, the pictures are not"
            " what the model was trained on."
        ),
    ),
)
