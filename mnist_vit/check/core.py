"""How an exercise is checked: run the answer on our own inputs, compare, and on a difference find the mistake's name.

An exercise has a reference, a way to run an answer (the reference, a learner's, a mutant: all alike), and a bank of
mutants: wrong answers that people really give, each with the sentence that names the mistake.
"""

import difflib
import linecache
import numbers
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

PACKAGE = str(Path(__file__).resolve().parent.parent)


class Mistake(Exception):
    """Something a check can say in a sentence before any value is compared."""


@dataclass(frozen=True)
class Mutant:
    """A wrong answer and what the learner did to get it; the sentence follows "You get exactly this when you"."""

    answer: Any
    does: str


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        name: ``check.<name>``.
        answer: what the learner's answer is called in the notebook.
        stars: difficulty, 1 to 3.
        reference: a right answer.
        run: yields (what, value) pairs for an answer, in the order in which they are compared: values before
            gradients. It makes its own inputs, fresh for every call.
        mutants: the bank, at least three.
        hints: three steps, from a nudge to nearly the solution.
        tolerance: largest difference, relative to the largest expected value (at least 1).
    """

    name: str
    answer: str
    stars: int
    reference: Any
    run: Callable[[Any], Iterator[tuple[str, Any]]]
    mutants: tuple[Mutant, ...]
    hints: tuple[str, str, str]
    tolerance: float = 1e-6


def verdict(exercise: Exercise, answer: Any) -> tuple[bool, str]:
    """Whether the answer is right, and the sentence to show. Raises nothing, whatever the answer does."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)  # the same answer gets the same sentence, whatever ran before
        expected = list(exercise.run(exercise.reference))
        try:
            problem, got = _first_problem(exercise, answer, expected)
            if problem is None:
                return True, f"{exercise.name}: correct ({_compared([what for what, _ in expected])})"
            for mutant in exercise.mutants if got else ():
                if _equal_so_far(exercise, mutant, got):
                    problem = f"{problem} You get exactly this when you {mutant.does}."
                    break
            return False, f"{exercise.name}: {problem}"
        except Mistake as mistake:
            return False, f"{exercise.name}: {mistake}"
        except Exception as error:  # what came back cannot even be looked at: sparse, meta, a broken __str__
            return False, f"{exercise.name}: what came back cannot be compared ({type(error).__name__})."


def make(answer: Any, *args: Any, **kwargs: Any) -> Any:
    """An object from a class or function; an object that is already made stays as it is."""
    return answer if isinstance(answer, nn.Module) else answer(*args, **kwargs)


def copy_weights(source: nn.Module, target: Any) -> None:
    """Give the learner's module the check's weights, by name. Raises Mistake if the names or shapes differ."""
    if not isinstance(target, nn.Module):
        raise Mistake(f"an nn.Module is needed, and this is a {type(target).__name__}.")
    own, needed = target.state_dict(), source.state_dict()
    for what, keys in (("lacks", needed.keys() - own.keys()), ("has, but should not,", own.keys() - needed.keys())):
        if keys:
            some = ", ".join(sorted(keys)[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
            raise Mistake(f"the module {what} the parameters {some}. Keep the names of the stub.")
    for key, tensor in needed.items():
        if own[key].shape != tensor.shape:
            raise Mistake(f"{key} must have shape {tuple(tensor.shape)}, and has {tuple(own[key].shape)}.")
    target.load_state_dict(needed)


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every parameter values of a size that shows mistakes: none of them zero, norms near one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter)
            is_norm = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.3 * noise if is_norm else 0.3 * noise)
    return module


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal random numbers that do not touch the global random state."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradients(output: Any, **inputs: Tensor) -> Iterator[tuple[str, Tensor | None]]:
    """(what, gradient) of a weighted sum of ``output`` with respect to each input, None where none flows."""
    if not isinstance(output, Tensor):
        raise Mistake(f"a tensor is needed, and this is {_describe(output)}.")
    if not output.requires_grad:
        yield from ((f"gradient of {name}", None) for name in inputs)
        return
    weights = random(*output.shape, seed=99).to(output)
    values = torch.autograd.grad((output * weights).sum(), list(inputs.values()), allow_unused=True, retain_graph=True)
    yield from zip((f"gradient of {name}" for name in inputs), values, strict=True)


def parameter_gradients(output: Tensor, module: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    """The same for every parameter of a module, by name: in which order they were made is free."""
    yield from gradients(output, **dict(sorted(module.named_parameters())))


def nearest(name: str, known: list[str]) -> str:
    """A sentence for an unknown name."""
    close = difflib.get_close_matches(name, known, 1, 0.4)
    return f'there is no exercise "{name}"' + (f'; did you mean "{close[0]}"?' if close else f": {', '.join(known)}")


def _first_problem(
    exercise: Exercise, answer: Any, expected: list[tuple[str, Any]]
) -> tuple[str | None, list[tuple[str, Any]]]:
    """The first difference as a sentence (None if there is none) and all values got up to it."""
    unsolved = f'not solved yet. Replace the stub\'s last line; check.hint("{exercise.name}", 1) helps.'
    if answer is None or answer is ...:
        return unsolved, []
    steps = exercise.run(answer)
    got: list[Any] = []
    for what, value in expected:
        try:
            name, mine = next(steps)
        except (Mistake, KeyboardInterrupt):
            raise
        except StopIteration:
            return f"the check ended before {what}.", []
        except BaseException as error:  # SystemExit too: a learner's exit() must not end the notebook
            # A stub raises it bare; torch raises it with a text, for instance for whole numbers.
            stub = isinstance(error, NotImplementedError) and not error.args
            return unsolved if stub else _told(error), []
        if not got and (mine is None or mine is ...):
            return f"nothing came back. Is the return line missing? If you have not begun: {unsolved}", []
        got.append((name, mine))
        problem = _compare(name, mine, value, exercise.tolerance)
        if problem is not None:
            return problem, got
    return None, got


def _equal_so_far(exercise: Exercise, mutant: Mutant, got: list[tuple[str, Any]]) -> bool:
    """Whether the mutant gives all the values that the answer gave."""
    try:
        steps = exercise.run(mutant.answer)
        return all(_compare(what, mine, next(steps)[1], exercise.tolerance) is None for what, mine in got)
    except Exception:  # a mutant that cannot run on this input explains nothing
        return False


def _compare(what: str, got: Any, expected: Any, tolerance: float) -> str | None:
    """None if equal, else a sentence: kind, shape, kind of number, device, nan, then values."""
    if not isinstance(expected, Tensor):
        return _compare_plain(what, got, expected, tolerance)
    if got is None and what.startswith("gradient"):
        return f"{what}: none flows. Was .detach(), .item(), torch.no_grad() or a new tensor used on the way?"
    if not isinstance(got, Tensor):
        return f"{what} must be a tensor of shape {tuple(expected.shape)}, and is {_describe(got)}."
    if got.shape != expected.shape:
        return f"{what} must have shape {tuple(expected.shape)}, and has {tuple(got.shape)}."
    if got.dtype != expected.dtype:
        return f"{what} must be {expected.dtype}, and is {got.dtype}."
    if got.device != expected.device:
        return f"{what} must be on the device of the input, {expected.device}, and is on {got.device}."
    got, expected = got.detach(), expected.detach()
    if not expected.is_floating_point():
        wrong = got != expected
        if not wrong.any():
            return None
    else:
        finite = got.isfinite()
        if not torch.equal(finite, expected.isfinite()):  # only a mutant is ever expected to give nan
            return f"{what}: {int((~finite).sum())} of {got.numel()} numbers are nan or infinite."
        got, expected = got.where(finite, 0), expected.where(finite, 0)
        wrong = (got - expected).abs()
        if wrong.numel() == 0 or wrong.max() <= tolerance * max(1.0, float(expected.abs().max())):
            return None
    place = tuple(int(i) for i in torch.unravel_index(wrong.to(torch.float64).argmax(), wrong.shape))
    where = f" at {list(place)}" if place else ""
    return (
        f"right shape, wrong numbers: {what} differs most{where}: "
        f"expected {expected[place].item():.4g}, found {got[place].item():.4g}."
    )


def _compare_plain(what: str, got: Any, expected: Any, tolerance: float) -> str | None:
    """Compare numbers, texts and lists of them."""
    if isinstance(got, Tensor) and got.dim() == 0:
        got = got.item()
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return f"{what} must be a list of {len(expected)}, and is {_describe(got)}."
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            place = f", number {i + 1} of {len(expected)}," if isinstance(expected, tuple) else ""
            if (problem := _compare_plain(what + place, a, b, tolerance)) is not None:
                return problem
        return None
    if isinstance(expected, bool) or not isinstance(expected, numbers.Number):
        return None if type(got) is type(expected) and got == expected else f"{what} is not {_describe(got)}."
    if isinstance(got, bool) or not isinstance(got, numbers.Number):
        return f"{what} must be a number, and is {_describe(got)}."
    if abs(got - expected) <= (0 if isinstance(expected, int) else tolerance * max(1.0, abs(expected))):  # type: ignore[operator, arg-type]
        return None
    return f"{what} is not {_describe(got)}."


def _compared(names: list[str]) -> str:
    """What was found equal, in a few words: at most three values by name, and how many gradients."""
    values = [name for name in names if not name.startswith("gradient")]
    more = [f"{len(values) - 3} more"] if len(values) > 3 else []
    count = len(names) - len(values)
    gradients = [f"{count} gradient{'s' if count > 1 else ''}"] if count else []
    return ", ".join([*values[:3], *more, *gradients])


def _describe(value: Any) -> str:
    """A value in a few words, whatever it is."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is None:
        return "None: is the return line missing?"
    if isinstance(value, numbers.Number | str):
        return repr(value.item() if hasattr(value, "item") else value)[:60]  # numpy's numbers tell their kind, too
    return f"of type {type(value).__name__}"


def _told(error: BaseException) -> str:
    """A learner's exception in one sentence, with the line of theirs that raised it."""
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith(PACKAGE) and "-packages" not in frame.filename:
            code = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
            line = f" in the line `{code}`" if code else ""
    first = (str(error).strip().splitlines() or [""])[0]
    if "leaf" in first and "in-place" in first:
        return (
            f"a parameter or an input is changed in place{line}. Make a new tensor instead: x = x + … and not x += …, "
            "or x.clone() before you write into it. Only start values are filled in place: nn.init.…_, or under with "
            "torch.no_grad()."
        )
    return f"your code raised {type(error).__name__}{line}: {first[:200]}"
