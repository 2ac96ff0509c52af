"""The exercises: right answers pass, each known mistake is called by its name, nothing else passes, nothing crashes.

Run as a script, it prints the table of all exercises, mutants and messages.
"""

import ast
import importlib
import pkgutil
import random
import runpy
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers import NOTEBOOKS, code_cells, notebooks, tagged, tree
from torch import Tensor, nn

from mnist_vit import check, model
from mnist_vit.check.core import Exercise, Mutant, verdict

MODULES = sorted(module.name for module in pkgutil.iter_modules(check.__path__) if module.name.startswith("nb"))
BY_NOTEBOOK = {name[2:4]: importlib.import_module(f"mnist_vit.check.{name}").EXERCISES for name in MODULES}
NOTEBOOK = {exercise.name: number for number, exercises in BY_NOTEBOOK.items() for exercise in exercises}
EXERCISES = list(check.EXERCISES.values())
MUTANTS = [(exercise, mutant) for exercise in EXERCISES for mutant in exercise.mutants]

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)


def solution(exercise: Exercise) -> Any:
    """The answer of the solutions' file, run from top to bottom."""
    (path,) = (NOTEBOOKS / "solutions").glob(f"{NOTEBOOK[exercise.name]}_*.py")
    return runpy.run_path(str(path))[exercise.answer]


def stub(exercise: Exercise) -> Any:
    """The answer as it stands in the notebook, unsolved; what it needs are the notebook's imports and the model."""
    (path,) = (path for path in notebooks() if path.stem.startswith(NOTEBOOK[exercise.name]))
    names = {name: getattr(model, name) for name in model.__all__}
    for cell in code_cells(path):
        imports = [node for node in tree(cell.source).body if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), path.name, "exec"), names)
    exec(tagged(path, "exercise")[exercise.name].source, names)
    return names[exercise.answer]


def fails(exercise: Exercise, answer: Any) -> str:
    """The sentence with which an answer fails."""
    passed, sentence = verdict(exercise, answer)
    assert not passed, f"passes: {sentence}"
    assert sentence.startswith(f"{exercise.name}: ")
    assert "\n" not in sentence
    assert len(sentence) < 600
    return sentence


# ------------------------------------------------------------------------------------- how many, and of what form


def test_enough_exercises() -> None:
    assert len(EXERCISES) >= 16
    for number in ("01", "02", "03", "04", "05", "06", "07", "08", "09", "11"):
        assert 2 <= len(BY_NOTEBOOK.get(number, ())) <= 4, f"notebook {number}"


def test_no_name_is_used_twice() -> None:
    names = Counter(exercise.name for exercises in BY_NOTEBOOK.values() for exercise in exercises)
    assert [name for name, times in names.items() if times > 1] == []
    assert list(names) == list(check.EXERCISES)


@each_exercise
def test_form_of_an_exercise(exercise: Exercise) -> None:
    assert exercise.name.isidentifier()
    assert exercise.name == exercise.name.lower()
    assert exercise.answer.isidentifier()
    assert exercise.stars in (1, 2, 3)
    assert len(exercise.mutants) >= 3
    assert len(set(exercise.hints)) == 3
    assert all(hint.strip() == hint and hint for hint in exercise.hints)
    sentences = [mutant.does for mutant in exercise.mutants]
    assert len(set(sentences)) == len(sentences)
    for does in sentences:  # each goes on after "You get exactly this when you", and gets its full stop there
        assert does == does.strip() != ""
        assert does[0].islower()
        assert not does.endswith(".")
        assert "\n" not in does


# -------------------------------------------------------------------------------------------------- right answers


@each_exercise
def test_solution_passes_with_one_line(exercise: Exercise, capsys: pytest.CaptureFixture) -> None:
    answer = solution(exercise)
    passed, sentence = verdict(exercise, answer)
    assert passed, sentence
    assert getattr(check, exercise.name)(answer) is None
    assert capsys.readouterr().out == f"{sentence}\n"
    assert "\n" not in sentence
    assert sentence.startswith(f"{exercise.name}: correct (")


@each_exercise
def test_order_in_which_parameters_are_made_is_free(exercise: Exercise) -> None:
    def answer(*args: Any, **kwargs: Any) -> Any:
        made = exercise.reference(*args, **kwargs)
        if isinstance(made, nn.Module) and not isinstance(made, nn.Sequential):
            for registered in (made._parameters, made._modules):
                for name in list(registered)[::-1]:
                    registered[name] = registered.pop(name)
        return made

    assert verdict(exercise, answer) == verdict(exercise, exercise.reference)


# ------------------------------------------------------------------------------------------------- known mistakes


@pytest.mark.parametrize(
    ("exercise", "mutant"),
    MUTANTS,
    ids=[f"{exercise.name}-{number}" for exercise in EXERCISES for number in range(len(exercise.mutants))],
)
def test_mutant_fails_with_its_own_message(exercise: Exercise, mutant: Mutant) -> None:
    sentence = fails(exercise, mutant.answer)
    assert sentence.endswith(f" You get exactly this when you {mutant.does}."), sentence


@each_exercise
def test_stub_fails_kindly(exercise: Exercise) -> None:
    unsolved = (
        f'{exercise.name}: not solved yet. Replace the stub\'s last line; check.hint("{exercise.name}", 1) helps.'
    )
    assert fails(exercise, stub(exercise)) == unsolved


# ------------------------------------------------------------------------------------------------ any other answer


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
    """Change a value, or each part of it; of a module parameters and output; and what was filled in place."""
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


def ones(value: Any, given: tuple) -> Any:
    return torch.ones_like(value) if isinstance(value, Tensor) else type(value)(1)


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
    return value + "." if isinstance(value, str) else value + 1 if isinstance(value, int) else value * 1.01 + 0.001


@each_exercise
@pytest.mark.parametrize("change", [zeros, ones, the_input, wrong_dtype, a_little_more], ids=lambda f: f.__name__)
def test_right_shape_is_not_enough(exercise: Exercise, change: Callable[[Any, tuple], Any]) -> None:
    assert verdict(exercise, spoiled(exercise.reference, lambda value, given: value))[0], "the wrapping itself fails"
    fails(exercise, spoiled(exercise.reference, change))


@each_exercise
def test_a_wrong_kind_of_number_is_named(exercise: Exercise) -> None:
    if is_module_class(exercise.reference):
        assert "torch.float" in fails(exercise, spoiled(exercise.reference, wrong_dtype))


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


ODD: dict[str, Any] = {
    "nothing": None,
    "a string": "42",
    "nan": float("nan"),
    "a nan tensor": torch.tensor(float("nan")),
    "no numbers": torch.zeros(0),
    "a sparse tensor": torch.eye(3).to_sparse(),
    "a tensor elsewhere": torch.zeros(2, 3, device="meta"),
    "complex numbers": torch.zeros(2, 3, dtype=torch.complex64),
    "a huge number": 10**400,
    "an array": np.ones((2, 3)),
    "a list that holds itself": (lambda kept: kept.append(kept) or kept)([]),
    "a class": dict,
    "a module": nn.Linear(2, 3),
    "a tuple": (None, None),
}
ERRORS = [ValueError("two\nlines"), KeyError("x"), SystemExit(1), RecursionError(), StopIteration(), GeneratorExit()]
ERRORS += [Unprintable(), NoException("x"), NotImplementedError("torch says so"), AssertionError(), MemoryError()]


@each_exercise
def test_no_answer_gets_a_traceback_out(exercise: Exercise, capsys: pytest.CaptureFixture) -> None:
    for odd in ODD.values():
        fails(exercise, odd)
        fails(exercise, lambda *args, odd=odd, **kwargs: odd)
        fails(exercise, spoiled(exercise.reference, lambda value, given, odd=odd: odd))
    for error in ERRORS:
        fails(exercise, raising(error))
        fails(exercise, spoiled(exercise.reference, lambda value, given, error=error: raising(error)()))
    assert fails(exercise, ...) == fails(exercise, None)
    assert "not solved yet" in fails(exercise, None)
    assert "not solved yet" in fails(exercise, raising(NotImplementedError()))
    assert capsys.readouterr().out == ""


def test_stopping_by_hand_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        verdict(EXERCISES[0], raising(KeyboardInterrupt()))


@each_exercise
def test_random_state_is_left_alone_and_does_not_matter(exercise: Exercise) -> None:
    def chance(value: Any, given: tuple) -> Any:
        return torch.rand_like(value) if isinstance(value, Tensor) and value.is_floating_point() else value

    answers = (exercise.reference, spoiled(exercise.reference, chance), raising(ValueError("x")))
    sentences = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        sentences.append([verdict(exercise, answer) for answer in answers])
        assert torch.equal(torch.get_rng_state(), before[0])
        assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]
    assert sentences[0] == sentences[1]


@each_exercise
def test_check_leaves_grad_mode_alone(exercise: Exercise) -> None:
    with torch.no_grad():
        passed, sentence = verdict(exercise, exercise.reference)
        assert passed, sentence
        assert not torch.is_grad_enabled()


# ---------------------------------------------------------------------------------------------- names and hints


def test_hints_are_printed(capsys: pytest.CaptureFixture) -> None:
    for exercise in EXERCISES:
        for step in (1, 2, 3):
            assert check.hint(exercise.name, step) is None
            assert capsys.readouterr().out == f"hint {step} of 3: {exercise.hints[step - 1]}\n"


def test_odd_hints_are_told_in_a_sentence(capsys: pytest.CaptureFixture) -> None:
    name = EXERCISES[0].name
    for step in (0, 4, -1, "1", None, 1.5, [1]):
        check.hint(name, step)
        assert capsys.readouterr().out == f"there are hints 1, 2 and 3, and no hint {step}\n"
    check.hint(name[:-1])
    assert capsys.readouterr().out == f'there is no exercise "{name[:-1]}"; did you mean "{name}"?\n'
    check.hint(["zzzzzzzz"])
    assert capsys.readouterr().out.count("\n") == 1
    check.hint(getattr(check, name), 1.0)
    assert capsys.readouterr().out == f"hint 1 of 3: {EXERCISES[0].hints[0]}\n"


def test_unknown_exercise_is_told_with_the_nearest_name() -> None:
    name = EXERCISES[0].name
    with pytest.raises(AttributeError, match=f'^there is no exercise "{name}s"; did you mean "{name}"\\?$'):
        getattr(check, f"{name}s")
    assert set(check.EXERCISES) | {"hint"} <= set(dir(check))


def main() -> None:
    """The table exercise, mutants, messages, in Markdown, as the checks give them."""
    print(f"{len(EXERCISES)} exercises, {len(MUTANTS)} mutants\n")
    print("| exercise | you get exactly this when you … |\n| --- | --- |")
    for exercise, mutant in MUTANTS:
        told = fails(exercise, mutant.answer).partition("You get exactly this when you ")[2]
        print(f"| {exercise.name} {'★' * exercise.stars} | {told.replace('|', chr(92) + '|')} |")


if __name__ == "__main__":
    main()
