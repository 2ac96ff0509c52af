"""Exercise: four broken blocks that pass a first test, and what is wrong with each."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from mnist_vit.model import EncoderBlock

from ..checking import Evidence, Exercise, Mistake, Slip, sentence_numbers


def my_find_bugs():
    return {"a": 5, "b": 3, "c": 1, "d": 4}


class _A(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(x, x, x, need_weights=False)[0]
        x = self.dropout(x + input)
        return x + self.mlp(self.ln_2(x))


class _B(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0])
        input += x
        return input + self.mlp(self.ln_2(input))


class _C(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0]) + input
        return x + self.mlp(self.ln_1(x))


class _D(EncoderBlock):
    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        mean = x.mean(dim=0, keepdim=True).expand_as(x)
        x = self.dropout(self.self_attention(x, mean, mean, need_weights=False)[0]) + input
        return x + self.mlp(self.ln_2(x))


BLOCKS = {"a": _A, "b": _B, "c": _C, "d": _D}


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    found = answer() if callable(answer) else answer
    if not isinstance(found, dict):
        raise Mistake('a dictionary is needed: a number for each of "a", "b", "c" and "d".')
    if not set(BLOCKS) & set(found):
        for key, value in found.items():
            if str(value) in BLOCKS:
                raise Mistake(
                    "the letters are values of your dictionary.",
                    "Turn it round: the letter is the key, and the number of its sentence the"
                    f' value. Your {key!r}: "{value}" becomes "{value}": {key!r}.',
                )
    for letter in BLOCKS:
        if letter not in found:
            keys = f" Your keys are {', '.join(map(repr, found))}." if found else ""
            raise Mistake(
                f'"{letter}" is missing.{keys}',
                "A number for each of the four blocks is needed, as in the notebook's example.",
            )
    numbers = sentence_numbers({letter: found[letter] for letter in BLOCKS}, TESTS)
    for letter in BLOCKS:
        # as a text: one number is no nearer to the right one than another
        yield f"the sentence about block {letter}", f"number {numbers[letter]}"


_BUILD = (
    "write a block with that mistake yourself, give both the same moved weights, and compare their"
    " outputs in eval mode, on tokens of small variance, too (x / 1000), where eps shows"
)
TESTS = {  # of each sentence; what comes out where it is false is true of all four blocks
    1: "in eval mode, change the parameters of ln_2 alone, and see whether the output changes",
    2: _BUILD,
    3: "keep a clone of the tokens, and compare them with it after the call",
    4: "in eval mode, give it two pictures, a fresh copy at each call, change one, and see whether"
    " the other's output changes",
    5: "in train mode with dropout=1.0, see whether the tokens still come through",
    6: "in eval mode, call it twice with the same tokens, a fresh copy each time",
    7: _BUILD,
    8: _BUILD,
}


RIGHT = {  # of each block: where it is right, and the sentences that this contradicts
    "a": ("In eval mode block a is right whatever its weights are", (1, 2, 4, 6, 7, 8)),
    "b": ("What block b returns is right whatever its weights are", (1, 2, 4, 5, 6, 7, 8)),
    "d": ("Of one picture alone what block d returns is right", (1, 2, 5, 6, 7, 8)),
}


def tell(evidence: Evidence) -> tuple[str, str]:
    """How the sentence that was chosen is tested."""
    letter, number = evidence.what[-1], int(str(evidence.value).removeprefix("number "))
    where, contradicted = RIGHT.get(letter, ("", ()))
    if number in contradicted and TESTS[number] is _BUILD:
        return f"Sentence {number} is false of block {letter}.", f"{where}. Look at something else."
    return (
        f"Sentence {number} is false of block {letter}.",
        f"Test that sentence alone: {TESTS[number]}.",
    )


A, B, C, D = '"a": 5', '"b": 3', '"c": 1', '"d": 4'

SLIPS = (
    Slip(
        {A: '"a": 6'},
        "say that block a drops numbers in eval mode",
        "In eval mode it gives the same twice. Look at it in train mode, dropout=1.0: what is left"
        " of the tokens?",
    ),
    Slip(
        {A: '"a": 2'},
        "say that block a adds z at the end",
        "In eval mode it is right whatever its weights are",
    ),
    *(
        Slip(
            {C: f'"c": {number}'},
            f"say that block c {does}",
            f"{why}In eval mode change the parameters of ln_2 alone: does the output change?",
        )
        for number, does, why in (
            (2, "adds z at the end", ""),
            (
                7,
                "has another eps",
                "Another eps changes little for tokens of usual size, and with moved weights c"
                " differs much. ",
            ),
            (8, "adds normalised tokens", ""),
        )
    ),
    Slip(
        {A: '"a": 8'},
        "say that block a adds normalised tokens",
        "In eval mode it is right whatever its weights are",
    ),
    Slip(
        {A: '"a": 8', B: '"b": 8', C: '"c": 8', D: '"d": 8'},
        "leave the numbers of the example",
        "Test each block",
    ),
    Slip(
        {B: '"b": 4', D: '"d": 3'},
        "take b and d for each other",
        "Which of them changes the tokens that it is given?",
    ),
    Slip(
        {D: '"d": 3'},
        "say that block d changes the tokens that it is given",
        "Compare them before and after",
    ),
    Slip(
        {B: '"b": 4'},
        "say that block b lets pictures hear of each other",
        (
            "In eval mode give it two pictures, a fresh copy at each call, and change each in turn:"
            " the other one comes out as before"
        ),
    ),
)

EXERCISE = Exercise(
    answer=my_find_bugs,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    hints=(
        (
            "The first test used fresh blocks, one picture, eval mode, and looked at the output"
            " alone. Change one of the four at a time."
        ),
        (
            "Move all weights, the same in both blocks. Or take train mode and dropout=1.0. Or give"
            " two pictures, and change each in turn: does the output of the *other* one change? Or"
            " keep a clone of the tokens and compare it with them after the call."
        ),
    ),
)
