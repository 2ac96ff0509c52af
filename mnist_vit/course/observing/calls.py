"""The calls of an answer while it is checked: kept, so that they can be made again with something
changed."""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .undisturbed import usual

TOLERANCE = 1e-5  # relative to the largest value: rounding is far below, a mistake far above


@dataclass
class Call:
    """One call of an answer, or of a module it made: what went in, before and after, and what came
    out."""

    function: Callable[..., Any]
    given: list[Any]
    names: list[str]
    before: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)  # every tensor and number that came back
    training: bool = False
    seconds: float = 0.0
    written: set[int] = field(
        default_factory=set
    )  # places of the inputs that were written into, even if put back
    changed: set[int] = field(default_factory=set)  # of those that are another afterwards
    idle: bool = False  # given a module, it changed nothing and returned nothing

    @property
    def module(self) -> nn.Module | None:
        """The module called, if it was one."""
        return self.function if isinstance(self.function, nn.Module) else None

    @property
    def sizes(self) -> dict[str, int]:
        """Every whole number that the call was given, and the lengths of the axes of every tensor,
        by name."""
        found: dict[str, int] = {}
        for name, value in zip(self.names, self.before, strict=False):
            if isinstance(value, int) and not isinstance(value, bool):
                found[name] = value
            elif isinstance(value, Tensor):
                found |= {
                    f"{name}.shape[{i - value.dim()}]": size for i, size in enumerate(value.shape)
                }
            elif isinstance(value, list | tuple) and all(isinstance(part, int) for part in value):
                found |= {f"{name}[{i}]": part for i, part in enumerate(value)}
        for name in ("num_heads", "head_dim", "embed_dim", "hidden_dim"):
            if isinstance(value := getattr(self.module, name, None), int):
                found[name] = value
        return found

    def again(self, number: int | None = None, value: Any = None, seed: bool = True) -> list[Any]:
        """The results of the call made anew, with one input replaced."""
        return self.again_with({} if number is None else {number: value}, seed)

    def again_with(self, changed: dict[int, Any], seed: bool = True) -> list[Any]:
        """The same with several inputs replaced, by their places."""
        given = [changed[i] if i in changed else copied(part) for i, part in enumerate(self.before)]
        if seed:
            torch.default_generator.manual_seed(0)
        if self.module is not None:
            self.module.train(self.training)
        return self.made_with(given)

    def made_with(self, given: list[Any]) -> list[Any]:
        """The results for other inputs; whatever the learner's code raises becomes a
        RuntimeError."""
        try:
            return results(self.function(*given))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too
            raise RuntimeError("the call cannot be made again") from error


@contextmanager
def calls_of(answer: Any) -> Iterator[tuple[Any, list[Call]]]:
    """The answer, or a wrapped one that behaves alike, and the list of the outermost calls made in
    the block."""
    calls: list[Call] = []
    depth = [0]
    found: list[
        Any
    ] = []  # what the tensors of given modules were, and how often each input had been written into

    def begin(function: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        depth[0] += 1
        if depth[0] == 1:
            call = Call(
                function, [*args, *kwargs.values()], [*_names(function, len(args)), *kwargs]
            )
            call.before = [copied(value) for value in call.given]
            call.training = getattr(function, "training", False)
            found[:] = [_states(call), list(map(_version, call.given))]
            call.seconds = -time.perf_counter()
            calls.append(call)

    def end(output: Any) -> None:
        depth[0] -= 1
        if depth[0] == 0 and calls:
            usual()
            call = calls[-1]
            call.seconds += time.perf_counter()
            call.output = results(output)
            states, versions = found
            pairs = enumerate(zip(call.before, call.given, strict=True))
            call.changed = {
                i
                for i, (was, now) in pairs
                if isinstance(was, Tensor | list) and not _equal(was, now)
            }
            call.written = {
                i for i, value in enumerate(call.given) if _version(value) != versions[i]
            } | call.changed
            call.idle = (
                output is None
                and bool(states)
                and not call.written
                and _equal(states, _states(call))
            )

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        begin(answer, args, kwargs)
        output = None
        try:
            output = answer(*args, **kwargs)
            return output
        finally:
            end(output)

    before = register_module_forward_pre_hook(lambda module, args: begin(module, args, {}))
    after = register_module_forward_hook(lambda module, args, output: end(output), always_call=True)
    is_plain = callable(answer) and not isinstance(answer, type | nn.Module)
    try:
        yield (wrapped if is_plain else answer), calls
    finally:
        before.remove()
        after.remove()


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _states(call: Call) -> list[Any]:
    """The tensors of the modules that a function was given."""
    given = call.given if call.module is None else []
    return [
        copied(t)
        for value in given
        if isinstance(value, nn.Module)
        for t in value.state_dict().values()
    ]


def _equal(was: Any, now: Any) -> bool:
    if isinstance(was, list):
        return isinstance(now, list) and len(was) == len(now) and all(map(_equal, was, now))
    if not isinstance(was, Tensor):
        return type(was) is type(now) and bool(was == now)
    return isinstance(now, Tensor) and was.shape == now.shape and torch.equal(was, now.detach())


def results(output: Any) -> list[Any]:
    """Every tensor and number in what came back, as it is now."""
    if isinstance(output, tuple | list):
        return [part for one in output for part in results(one)]
    return [copied(output)] if isinstance(output, Tensor | int | float | str) else []


def copied(value: Any) -> Any:
    """The value as it is now, so that what is written over later is known as it was."""
    if isinstance(value, Tensor) and value.layout == torch.strided:
        return value.detach().clone()
    return list(value) if isinstance(value, list) else value


def alike(a: Any, b: Any) -> bool:
    """Whether two results, or lists of them, are equal within rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        number = isinstance(a, int | float) and isinstance(b, int | float)
        return (
            abs(a - b) <= TOLERANCE * max(1.0, abs(b))
            if number
            else type(a) is type(b) and bool(a == b)
        )
    if a.shape != b.shape:
        return False
    a, b = a.detach().double().nan_to_num(), b.detach().double().nan_to_num()
    return a.numel() == 0 or bool((a - b).abs().max() <= TOLERANCE * max(1.0, float(a.abs().max())))


def variants(value: Any) -> list[Any]:
    """Other values of the same kind; none for what has no obvious neighbour."""
    generator = torch.Generator().manual_seed(7)
    if isinstance(value, Tensor) and value.is_floating_point() and value.numel():
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
        if value.dim() > 1 and value.min() >= 0 and (value.sum(dim=-1) - 1).abs().max() < 1e-4:
            return [noise.softmax(dim=-1)]
        return [value + noise * value.abs().mean().clamp_min(0.1)]
    if (
        isinstance(value, Tensor)
        and value.dim() == 1
        and len(value) > 1
        and not value.dtype.is_complex
    ):
        return [value.roll(1), (value + 1) % (value.max() + 1), value // 2]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    return (
        [value + 1, 2 * value, 3 * value + 1]
        if isinstance(value, int)
        else [0.5 * value + 0.01, 0.7 * value]
    )


def _names(function: Any, count: int) -> list[str]:
    try:
        names = list(inspect.signature(getattr(function, "forward", function)).parameters)
    except (TypeError, ValueError):
        names = []
    return [*names, *(f"argument {i + 1}" for i in range(len(names), count))][:count]
