"""The exercises: right answers pass, each known slip is called by its name, nothing else passes,
nothing crashes."""

import ast
import builtins
import os
import random
import runpy
import symtable
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import NAMED_BY, NOTEBOOKS, accept, code_cells, notebooks, reject, tagged, tree
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from mnist_vit import check, course, model
from mnist_vit.course.checking import Exercise, verdict
from mnist_vit.course.checking.comparing import compare
from mnist_vit.course.checking.verdict import outcomes, solution
from tools.solutions import solutions

ROOM = {}
for _room in course.rooms():
    for _exercise in course.exercises(_room):
        ROOM[_exercise.name] = _room
EXERCISES = list(check.EXERCISES.values())
SLIPS = []
for _exercise in EXERCISES:
    SLIPS += [(_exercise, number) for number in range(len(_exercise.slips))]

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)

SAMPLE = ("attention", "diagnose", "gelu", "mlp_block", "patch_size", "training_step")  # every kind
sampled_exercise = pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(one, id=one.name, marks=[] if one.name in SAMPLE else pytest.mark.full)
        for one in EXERCISES
    ],
)


def asked_of_the_module(table: symtable.SymbolTable) -> set[str]:
    """The names that the functions and classes of a source expect outside themselves."""
    asked = set()
    for child in table.get_children():
        asked |= asked_of_the_module(child)
    if table.get_type() != "module":
        asked |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return asked


def stub(exercise: Exercise) -> Any:
    """The answer as it stands in the notebook, unsolved; what it needs are the notebook's imports
    and the model."""
    path = NOTEBOOKS / f"{ROOM[exercise.name]}.ipynb"
    check.my_vit()  # cells import pieces from it
    names = {name: getattr(model, name) for name in model.__all__}
    for cell in code_cells(path):
        imports = [
            node for node in tree(cell.source).body if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        exec(compile(ast.Module(imports, []), path.name, "exec"), names)
    exec(tagged(path, "exercise")[exercise.name].source, names)
    return names[exercise.answer.__name__]


def fails(exercise: Exercise, answer: Any) -> str:
    """The sentence with which an answer fails."""
    passed, sentence = verdict(exercise, answer)
    assert not passed, f"passes: {sentence}"
    assert sentence.startswith(f"{exercise.name}: ")
    assert "\n" not in sentence
    assert len(sentence) < 800
    return sentence


# ----------------------------------------------------------------------------------------------
# rooms and sources


def test_every_notebook_has_a_room_of_its_own_name() -> None:
    assert course.rooms() == [path.stem for path in notebooks()]
    assert len(ROOM) == len(EXERCISES), "two exercises have one name"


@pytest.mark.parametrize("room", [room for room in course.rooms() if course.exercises(room)])
def test_solutions_are_made_from_the_sources_of_the_checks(room: str) -> None:
    path = NOTEBOOKS / "solutions" / f"{room}.py"
    assert path.read_text(encoding="utf-8") == solutions(room), "python -m tools solutions"
    made = runpy.run_path(
        str(path)
    )  # it runs from top to bottom, with nothing but what a learner has
    for exercise in course.exercises(room):
        passed, sentence = verdict(exercise, made[exercise.answer.__name__])
        assert passed, sentence
        assert sentence.startswith(f"{exercise.name}: correct (tested: ")


def only_words_differ(exercise: Exercise, number: int) -> bool:
    """Whether no wrong value of a slip holds numbers; many slips lead to the same wrong word."""
    outcome, _ = outcomes(exercise)[number]
    right = solution(exercise).values
    wrong = []
    for (what, value), (_, expected) in zip(outcome.values, right, strict=False):
        if compare(what, value, expected, exercise.tolerance) is not None:
            wrong.append(value)
    kinds = {type(part) for part in tree_flatten(wrong)[0]}
    return kinds <= {str, bool, type(None)}


@pytest.mark.parametrize(
    ("exercise", "number"), SLIPS, ids=lambda value: getattr(value, "name", value)
)
def test_slip_is_an_edit_and_fails_with_its_own_sentence(exercise: Exercise, number: int) -> None:
    mutant, slip = exercise.mutants[number]  # raises unless each old text stands there once
    for part in (slip.did, slip.instead):
        assert part == part.strip().rstrip(".") != ""
    certainty = NAMED_BY[1] if only_words_differ(exercise, number) else NAMED_BY[0]
    stop = "" if slip.sentence.endswith("?") else "."
    assert fails(exercise, mutant).endswith(f" {certainty} {slip.sentence}{stop}")


@each_exercise
def test_other_ways_to_write_the_solution_are_right(exercise: Exercise) -> None:
    for other in exercise.others:
        passed, sentence = verdict(exercise, other)
        assert passed, sentence


@each_exercise
def test_stub_fails_kindly(exercise: Exercise) -> None:
    assert exercise.answer.__name__.lower().replace("_", "") == f"my{exercise.name}".replace(
        "_", ""
    ), "one rule"
    assert "not solved yet" in fails(exercise, stub(exercise))


@each_exercise
def test_what_the_solution_needs_is_imported_in_its_notebook(exercise: Exercise) -> None:
    own = symtable.symtable(exercise.source, exercise.name, "exec")
    at_hand = {*vars(builtins), *(symbol.get_name() for symbol in own.get_symbols())}
    for cell in code_cells(NOTEBOOKS / f"{ROOM[exercise.name]}.ipynb"):
        imports = [
            node for node in tree(cell.source).body if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        for node in imports:
            at_hand |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if f"exercise:{exercise.name}" in cell.metadata.get("tags", []):
            break
        at_hand |= {node.id for node in ast.walk(tree(cell.source)) if isinstance(node, ast.Name)}
    assert asked_of_the_module(own) <= at_hand


@sampled_exercise
def test_order_in_which_parameters_are_made_is_free(exercise: Exercise) -> None:
    def answer(*args: Any, **kwargs: Any) -> Any:
        made = exercise.answer(*args, **kwargs)
        if isinstance(made, nn.Module) and not isinstance(made, nn.Sequential):
            for registered in (made._parameters, made._modules):
                for name in list(registered)[::-1]:
                    registered[name] = registered.pop(name)
        return made

    assert verdict(exercise, answer) == verdict(exercise, exercise.answer)


# ------------------------------------------------------------------------------------------------
# any other answer


def is_module_class(answer: Any) -> bool:
    """Whether the answer is a class of modules."""
    return isinstance(answer, type) and issubclass(answer, nn.Module)


def spoiled(answer: Any, change: Callable[[Any, tuple], Any]) -> Any:
    """The answer, with all that it gives changed: by what it gave and what it was given."""
    if is_module_class(answer):

        def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return spoil(answer.forward(self, *args, **kwargs), args, change)

        return type("Spoiled", (answer,), {"forward": forward})
    if callable(answer):
        return lambda *args, **kwargs: spoil(answer(*args, **kwargs), args, change)
    return spoil(answer, (), change)


def spoil(value: Any, given: tuple, change: Callable[[Any, tuple], Any]) -> Any:
    """Change a value, or each part of it; of a module parameters and output; and what was filled in
    place."""
    if isinstance(value, tuple | list):
        return type(value)(spoil(part, given, change) for part in value)
    if isinstance(value, dict):
        return {key: spoil(part, given, change) for key, part in value.items()}
    if isinstance(value, nn.Module):
        for parameter in value.parameters():
            parameter.data = spoil(parameter.data, given, change)
        forward = value.forward
        value.forward = lambda *args, **kwargs: spoil(forward(*args, **kwargs), args, change)
        return value
    if value is None:
        for part in given:
            if isinstance(part, nn.Module):
                spoil(part, given, change)
            elif isinstance(part, Tensor):
                part.data = spoil(part.data, given, change)
        return None
    return change(value, given)


def zeros(value: Any, given: tuple) -> Any:
    return torch.zeros_like(value) if isinstance(value, Tensor) else type(value)()


def the_input(value: Any, given: tuple) -> Any:
    """What was given, of the right shape if there is such a thing."""
    tensors = [part for part in given if isinstance(part, Tensor)]
    alike = [part for part in tensors if isinstance(value, Tensor) and part.shape == value.shape]
    return (alike or tensors or [*given, "input"])[0]


def wrong_dtype(value: Any, given: tuple) -> Any:
    if isinstance(value, Tensor):
        return value.float() if value.dtype == torch.float64 else value.double()
    return list(value) if isinstance(value, str) else str(value)


def a_little_more(value: Any, given: tuple) -> Any:
    """Wrong by little, everywhere: far more than rounding, far less than a glance shows."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Tensor) and not value.is_floating_point():
        return value + 1
    if isinstance(value, str):
        return value + "."
    return value + 1 if isinstance(value, int) else value * 1.01 + 0.001


@each_exercise
def test_right_shape_is_not_enough(exercise: Exercise) -> None:
    """Not even a small change passes, where there is one right answer."""
    accept(exercise.name, spoiled(exercise.answer, lambda value, given: value))
    fails(exercise, spoiled(exercise.answer, zeros if exercise.many else a_little_more))


@sampled_exercise
def test_no_change_of_all_values_passes(exercise: Exercise) -> None:
    for change in (zeros, the_input, wrong_dtype):
        fails(exercise, spoiled(exercise.answer, change))


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises, whatever it is given."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        raise error

    return answer


class Unprintable(Exception):
    """Cannot even be told."""

    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__


class NoException(BaseException):
    """Not caught by ``except Exception``."""


ODD: list[Any] = [
    None,
    "42",
    float("nan"),
    10**400,
    np.ones((2, 3)),
    dict,
    nn.Linear(2, 3),
    (None, None),
]
ODD += [
    torch.zeros(0),
    torch.eye(3).to_sparse(),
    torch.zeros(2, 3, device="meta"),
    torch.zeros(2, 3).to(torch.cfloat),
]
ODD += [(lambda kept: kept.append(kept) or kept)([])]  # a list that holds itself
ERRORS = [
    ValueError("two\nlines"),
    KeyError("x"),
    SystemExit(1),
    RecursionError(),
    StopIteration(),
    GeneratorExit(),
]
ERRORS += [
    Unprintable(),
    NoException("x"),
    NotImplementedError("torch says so"),
    AssertionError(),
    MemoryError(),
]


@each_exercise
def test_no_answer_gets_a_traceback_out(
    exercise: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    fails(exercise, 42)
    fails(exercise, raising(SystemExit(1)))
    fails(exercise, raising(Unprintable()))
    fails(exercise, spoiled(exercise.answer, lambda value, given: ODD[-1]))
    assert fails(exercise, ...) == fails(exercise, None)
    assert "not solved yet" in fails(exercise, raising(NotImplementedError()))
    assert capsys.readouterr().out == ""


@sampled_exercise
def test_no_odd_answer_gets_a_traceback_out(
    exercise: Exercise, capsys: pytest.CaptureFixture[str]
) -> None:
    for odd in ODD:
        fails(exercise, odd)
        fails(exercise, lambda *args, odd=odd, **kwargs: odd)
    for error in ERRORS:
        fails(exercise, raising(error))
    for odd in ODD[-3:]:  # in the right places
        fails(exercise, spoiled(exercise.answer, lambda value, given, odd=odd: odd))
    fails(exercise, spoiled(exercise.answer, lambda value, given: raising(SystemExit(1))()))
    assert capsys.readouterr().out == ""


def test_stopping_by_hand_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        verdict(EXERCISES[0], raising(KeyboardInterrupt()))


@sampled_exercise
def test_random_state_and_grad_mode_are_left_alone_and_do_not_matter(exercise: Exercise) -> None:
    def chance(value: Any, given: tuple) -> Any:
        return (
            torch.rand_like(value)
            if isinstance(value, Tensor) and value.is_floating_point()
            else value
        )

    answers = (exercise.answer, spoiled(exercise.answer, chance), raising(ValueError("x")))
    told = []
    for seed in (0, 1):
        for module in (torch, np.random, random):
            getattr(module, "manual_seed", getattr(module, "seed", None))(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        with torch.set_grad_enabled(seed == 0):
            told.append([verdict(exercise, answer) for answer in answers])
            assert torch.is_grad_enabled() == (seed == 0)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]
    assert told[0] == told[1]
    assert told[0][0][0]


def test_settings_that_an_answer_changes_are_put_back(tmp_path: Path) -> None:
    """Also where the answer is right, so that the next check is not spoilt."""

    def settings() -> tuple:
        return (
            torch.zeros(()).dtype,
            torch.zeros(()).device.type,
            torch.are_deterministic_algorithms_enabled(),
            torch.is_anomaly_enabled(),
            torch.get_num_threads(),
            os.getcwd(),
            sys.stdout,
            sys.getrecursionlimit(),
            torch.overrides.has_torch_function((torch.zeros(()),)),
        )

    def answer(x: Tensor) -> Tensor:
        y = check.EXERCISES["gelu"].answer(x)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.use_deterministic_algorithms(True)
        torch.autograd.set_detect_anomaly(True)
        torch.set_num_threads(3)
        os.chdir(tmp_path)
        sys.stdout = None
        sys.setrecursionlimit(5000)
        return y

    before = settings()
    accept("gelu", answer)
    assert settings() == before
    # as other libraries ask; fails after None in 2.9
    assert torch.get_default_device().type == "cpu"


# ------------------------------------------------------------------- what is said where no slip has
# a name for it


def unknown_step(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    sharper = scores**3
    weights = sharper.softmax(dim=-1)
    return weights @ v, weights


class Averaging(model.MLPBlock):
    """Each token gets something of the others."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + x.sin().mean(dim=1, keepdim=True))


def smeared(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return check.EXERCISES["attention"].answer(q + q.sin().mean(dim=-2, keepdim=True), k, v)


OBSERVED: list[tuple[str, Any, str]] = [
    (
        "attention",
        unknown_step,
        "in the place of what `scores**3` gives, your result is right",
    ),
    (
        "split_heads",
        lambda x, n: x.flip(0).unflatten(-1, (n, -1)).transpose(1, 2),
        "axis 0 runs backwards",
    ),
    (
        "patch_size",
        lambda size, n: check.EXERCISES["patch_size"].answer(size, n) - 7 * size,
        "− 7 · image_size",
    ),
    ("patch_size", lambda size, n: 6, "stays the same when we change size, n."),
    ("silence", lambda part: part.state_dict().clear(), "nothing was changed in what was given"),
    ("softmax_rows", lambda s: s.tanh().exp() / s.tanh().exp().sum(-1, True), "wrong numbers"),
    (
        "softmax_rows",
        lambda scores: 0.5 * scores.softmax(dim=-1),
        "Rows should sum to 1, and yours sum to 0.5",
    ),
    ("gelu", lambda x: 3 * nn.functional.gelu(x), "ours times 3"),
    ("gelu", lambda x: nn.functional.gelu(x) + 0.25, "ours plus 0.25"),
    ("gelu", lambda x: nn.functional.gelu(x).round(), "rounded"),
    ("gelu", lambda x: nn.functional.gelu(x) * torch.rand(()), "another result each time"),
    (
        "gelu",
        lambda x: nn.functional.gelu(x.mean(dim=0, keepdim=True) + x),
        "row 0 changes when the other rows change",
    ),
    (
        "mlp_block",
        Averaging,
        "token 0 changes when the other tokens change: it should not know of them",
    ),
    (
        "attention",
        smeared,
        "keys and values, the result for query 0 changes when the other queries change",
    ),
]


@pytest.mark.parametrize(("name", "answer", "words"), OBSERVED)
def test_a_mistake_without_a_name_is_described(name: str, answer: Any, words: str) -> None:
    reject(name, answer, words)


def test_what_is_observed_fits_what_is_given() -> None:
    """A matrix of weights has no pictures; a token of self-attention knows of the others, whatever
    else is wrong."""

    class Merged(check.EXERCISES["multi_head_attention"].answer):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output, weights = super().forward(*args, **kwargs)
            return output + output.roll(1, 1).sin(), weights

    def heads_first(x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).permute(2, 1, 0, 3)

    for name, answer in (
        ("split_heads", heads_first),
        ("merge", lambda W_1, b_1, W_2, b_2: (W_1 @ W_2 @ W_1, b_1)),
        ("multi_head_attention", Merged),
    ):
        sentence = fails(check.EXERCISES[name], answer)
        assert "picture" not in sentence
        assert "token" not in sentence
    exercise = check.EXERCISES["name_the_bug"]
    told = fails(exercise, lambda *given: exercise.answer(*given).replace("right", "") or None)
    assert "copy" not in told


def test_a_line_of_a_piece_that_is_kept_is_not_quoted(tmp_path: Path) -> None:
    """The line that calls it is; what stands in ``my_vit.py`` has passed its check."""
    names = {}
    piece = "def cubed(scores):\n    return scores**3\n"
    answer = (
        "def my_attention(q, k, v):\n    weights = cubed(q @ k.mT).softmax(dim=-1)\n    return"
        " weights @ v, weights\n"
    )
    for file, text in (("my_vit.py", piece), ("answer.py", answer)):
        (tmp_path / file).write_text(text)
        exec(compile(text, str(tmp_path / file), "exec"), names)
    assert "of what `cubed(q @ k.mT)` gives" in fails(
        check.EXERCISES["attention"], names["my_attention"]
    )


# ----------------------------------------------------------------------------------------------
# names and hints


def test_hints_are_printed_and_odd_ones_are_told_in_a_sentence(
    capsys: pytest.CaptureFixture,
) -> None:
    for exercise in EXERCISES:
        for step in (1, 2, 3):
            check.hint(exercise.name, step)
            assert capsys.readouterr().out == f"hint {step} of 3: {exercise.hint(step)}\n"
    name = EXERCISES[0].name
    for step in (0, 4, "1", None, 1.5, [1]):
        check.hint(name, step)
        assert capsys.readouterr().out == f"there are hints 1, 2 and 3, and no hint {step}\n"
    check.hint(name[:-1])
    assert f'did you mean "{name}"?' in capsys.readouterr().out
    check.hint(["zzzzzzzz"])
    assert capsys.readouterr().out.count("\n") == 1
    check.hint(getattr(check, name), 1.0)
    assert capsys.readouterr().out == f"hint 1 of 3: {EXERCISES[0].hint(1)}\n"
    with pytest.raises(AttributeError, match=f'did you mean "{name}"'):
        getattr(check, f"{name}s")
    assert set(check.EXERCISES) | {"hint"} <= set(dir(check))
