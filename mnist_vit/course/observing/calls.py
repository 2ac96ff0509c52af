"""The calls of an answer while it is checked, kept so that they can be made again, changed."""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .stopping import stopped_after
from .undisturbed import usual

TOLERANCE = 1e-5  # relative to the largest value: rounding is far below, a mistake far above
SMALL = 0.1  # values below it are compared as if they were so large: they may be rounded zeros
ROUNDING = 1e-6  # by which a number may change that is 0 but for rounding


LIMIT = 2.0  # seconds of an experiment: with other inputs a learner's loop may never end

# what an answer's module may call its sizes
SIZES = ("num_heads", "head_dim", "embed_dim", "hidden_dim")


@dataclass(eq=False)
class Call:
    """One call of an answer, or of a module it made.

    Attributes:
        function: what was called.
        given: its inputs, as they are now.
        names: what the inputs are called.
        before: the inputs as they were before the call.
        output: every tensor and number that came back.
        training: the mode of a module.
        seconds: how long it computed; waiting for a busy machine does not count.
        is_running: whether it has not ended yet.
        written: places of the inputs that were written into, even if that was put back.
        changed: places of those that are another afterwards.
        idle: given a module, the call changed nothing and returned nothing, or that module as it
            was, and did not raise.
        returned: whether something came back from a call that was given a module.
        touched: whether a module that was given is another afterwards.
        held: the numbers in each module that was given, by its place, when the call ended.
        altered: the names of those that are others afterwards, by the place of their module.
        came: what came back, as it is now.
        raised: whether a function raised.
    """

    function: Callable[..., Any]
    given: list[Any]
    names: list[str]
    before: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)
    training: bool = False
    seconds: float = 0.0
    is_running: bool = True
    written: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    idle: bool = False
    returned: bool = False
    touched: bool = False
    held: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    altered: dict[int, list[str]] = field(default_factory=dict)
    came: Any = None
    raised: bool = False

    @property
    def module(self) -> nn.Module | None:
        """The module called, if it was one."""
        return self.function if isinstance(self.function, nn.Module) else None

    @property
    def sizes(self) -> dict[str, int]:
        """Whole numbers that the call was given, and the lengths of tensors' axes, by name."""
        found: dict[str, int] = {}
        for name, value in zip(self.names, self.before, strict=False):
            found |= _sizes_of(name, value)
        for name in SIZES:
            value = getattr(self.module, name, None)
            if isinstance(value, int):
                found[name] = value
        return found

    def again(self, number: int | None = None, value: Any = None, seed: bool = True) -> list[Any]:
        """The results of the call made anew, with one input replaced."""
        return self.again_with({} if number is None else {number: value}, seed)

    def again_with(self, changed: dict[int, Any], seed: bool = True) -> list[Any]:
        """The same with several inputs replaced, by their places."""
        given = list(map(given_again, self.before))
        for place, value in changed.items():
            given[place] = value
        if seed:
            torch.default_generator.manual_seed(0)
        if self.module is not None:
            self.module.train(self.training)
        return self.made_with(given)

    @cached_property
    def repeats(self) -> bool:
        """Whether the call, made again, gives what it gave: only then can it be experimented with.

        It does not where its result is random, or where a module that it was given has changed.
        It is tried once.
        """
        try:
            return alike(self.again(), self.output)
        except RuntimeError:
            return False

    def made_with(self, given: list[Any]) -> list[Any]:
        """The results for other inputs.

        Raises:
            RuntimeError: whatever the learner's code raised.
        """
        try:
            with torch.enable_grad(), stopped_after(LIMIT):  # it may ask for gradients itself
                return results(self.function(*given))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too
            raise RuntimeError("the call cannot be made again") from error


def _sizes_of(name: str, value: Any) -> dict[str, int]:
    """The sizes that an input tells, by their names."""
    found = {}
    if isinstance(value, int) and not isinstance(value, bool):
        found[name] = value
    elif isinstance(value, Tensor):
        for axis, size in enumerate(value.shape):
            found[f"{name}.shape[{axis - value.dim()}]"] = size
    elif isinstance(value, list | tuple) and all(isinstance(part, int) for part in value):
        for place, part in enumerate(value):
            found[f"{name}[{place}]"] = part
    return found


class _Recorder:
    """Records the outermost calls of an answer and of the modules that it makes."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.depth = 0
        self.states: list[Any] = []  # flags and hooks of given modules, before the call
        self.held: dict[int, dict[str, Tensor]] = {}  # their numbers, before the call
        self.versions: list[int] = []  # how often each input had been written into

    def begin(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Before a call, also within another one."""
        self.depth += 1
        if self.depth > 1:
            return
        names = [*_names(function, len(args)), *kwargs]
        call = Call(function, [*args, *kwargs.values()], names)
        call.before = list(map(given_again, call.given))
        call.training = getattr(function, "training", False)
        self.states = _states(call)
        self.held = _held(call) if self.states else {}
        self.versions = list(map(_version, call.given))
        call.seconds = -time.thread_time()
        self.calls.append(call)

    def end(self, output: Any, raised: bool = False) -> None:
        """After a call, whether it returned or raised."""
        self.depth -= 1
        if self.depth != 0 or not self.calls:
            return
        usual()
        call = self.calls[-1]
        call.is_running = False
        call.seconds += time.thread_time()
        call.output = results(output)
        call.came = output
        call.raised = raised
        for place, (was, now) in enumerate(zip(call.before, call.given, strict=True)):
            if isinstance(was, Tensor | list) and not equal(was, now):
                call.changed.add(place)
            if place in call.changed or _version(now) != self.versions[place]:
                call.written.add(place)
        if self.states:
            call.held = _held(call)
            call.altered = _altered(self.held, call.held)
            is_same_state = equal(self.states, _states(call)) and _are_same(self.held, call.held)
            call.touched = not is_same_state
            is_untouched = not call.written and not call.touched
            is_nothing = output is None or any(output is value for value in call.given)
            call.idle = is_nothing and is_untouched and not raised
            call.returned = output is not None


@contextmanager
def calls_of(answer: Any) -> Iterator[tuple[Any, list[Call]]]:
    """Record the outermost calls that are made in the block.

    Yields:
        The answer, or a wrapped one that behaves alike, and the list of the calls.
    """
    recorder = _Recorder()

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        recorder.begin(answer, args, kwargs)
        try:
            output = answer(*args, **kwargs)
        except BaseException:
            recorder.end(None, raised=True)
            raise
        recorder.end(output)
        return output

    def before_module(module: nn.Module, args: Any) -> None:
        recorder.begin(module, args, {})

    def after_module(module: nn.Module, args: Any, output: Any) -> None:
        recorder.end(output)

    before = register_module_forward_pre_hook(before_module)
    after = register_module_forward_hook(after_module, always_call=True)
    is_plain = callable(answer) and not isinstance(answer, type | nn.Module)
    try:
        yield (wrapped if is_plain else answer), recorder.calls
    finally:
        before.remove()
        after.remove()


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _states(call: Call) -> list[Any]:
    """What, beside numbers, can be changed in the modules that a function was given."""
    states: list[Any] = []
    if call.module is not None:
        return states
    for value in call.given:
        if not isinstance(value, nn.Module):
            continue
        for module in value.modules():
            hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
            states += [id(module), module.training, hooks, sorted(vars(module))]
        for parameter in value.parameters():
            states += [id(parameter), parameter.requires_grad]
    return states


def _held(call: Call) -> dict[int, dict[str, Tensor]]:
    """The numbers in each module that a function was given, by its place, as they are now.

    A call that is made again may write into these modules.
    """
    held = {}
    for place, value in enumerate(call.given):
        if isinstance(value, nn.Module):
            held[place] = {name: copied(one) for name, one in value.state_dict().items()}
    return held


def _altered(
    before: dict[int, dict[str, Tensor]], after: dict[int, dict[str, Tensor]]
) -> dict[int, list[str]]:
    """The names of numbers that are others, by the place of their module.

    Where names are new or gone, parts stand in other places, and names tell nothing of numbers.
    """
    altered = {}
    for place, was in before.items():
        now = after[place]
        if was.keys() != now.keys():
            continue
        names = [name for name in was if not alike(was[name], now[name])]
        if names:
            altered[place] = names
    return altered


def _are_same(before: dict[int, dict[str, Tensor]], after: dict[int, dict[str, Tensor]]) -> bool:
    """Whether all modules hold the same numbers, to the last bit."""
    for place, was in before.items():
        if not equal(list(was.values()), list(after[place].values())):
            return False
    return True


def equal(was: Any, now: Any) -> bool:
    """Whether a value is what it was; nan is equal to nan."""
    if isinstance(was, list):
        return isinstance(now, list) and len(was) == len(now) and all(map(equal, was, now))
    if not isinstance(was, Tensor):
        return type(was) is type(now) and bool(was == now or was != was)
    if not isinstance(now, Tensor) or was.shape != now.shape:
        return False
    now = now.detach()
    both_nan = was.isnan() & now.isnan()
    return bool(((was == now) | both_nan).all())


def results(output: Any) -> list[Any]:
    """Every tensor and number in what came back, as it is now."""
    if isinstance(output, Tensor | int | float | str):
        return [copied(output)]
    found: list[Any] = []
    if isinstance(output, tuple | list):
        for part in output:
            found += results(part)
    return found


def copied(value: Any) -> Any:
    """The value as it is now, so that what is written over later is known as it was."""
    if isinstance(value, Tensor) and value.layout == torch.strided:
        return value.detach().clone()
    return list(value) if isinstance(value, list) else value


def given_again(value: Any) -> Any:
    """A copy of an input, which asks for a gradient where the input does."""
    copy = copied(value)
    if isinstance(value, Tensor) and value.requires_grad and isinstance(copy, Tensor):
        copy.requires_grad_()
    return copy


def names_told(our: Call, their: Call) -> list[str]:
    """What the inputs are called in sentences: as the learner's code calls them."""
    return their.names if len(their.names) == len(our.names) else our.names


def alike(a: Any, b: Any) -> bool:
    """Whether two results, or lists of them, are equal within rounding; nan is equal to nan."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, int | float) and isinstance(b, int | float):
        try:
            return _near(torch.tensor(float(a)), torch.tensor(float(b)))
        except OverflowError:  # a whole number that no float holds
            return a == b
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return type(a) is type(b) and bool(a == b)
    if a.shape != b.shape:
        return False
    return _near(a.detach(), b.detach())


def _near(a: Tensor, b: Tensor) -> bool:
    """The same for two tensors of one shape: nan and infinity in the same places, the rest near."""
    if a.is_complex() or b.is_complex():
        return torch.allclose(a, b, equal_nan=True)
    a = a.double()
    b = b.double()
    finite = a.isfinite() & b.isfinite()
    equal = (a == b) | (a.isnan() & b.isnan())
    if not (finite | equal).all():
        return False
    a = a[finite]
    b = b[finite]
    if a.numel() == 0:
        return True
    scale = max(SMALL, float(a.abs().max()), float(b.abs().max()))
    return bool((a - b).abs().max() <= TOLERANCE * scale)


def stays(before: Any, after: Any) -> bool:
    """Whether each number stayed what it was, within rounding, however large others are."""
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(stays, before, after))
    if not alike(before, after):
        return False
    if not isinstance(before, Tensor) or not before.is_floating_point():
        return True
    was = before.detach().double()
    now = after.detach().double()
    apart = (was - now).abs()
    apart = apart[apart.isfinite()]
    allowed = (TOLERANCE * was.abs() + ROUNDING)[(was - now).isfinite()]
    return bool((apart <= allowed).all())


def variants(value: Any) -> list[Any]:
    """Other values of the same kind; none for what has no obvious neighbour."""
    if isinstance(value, Tensor):
        return _other_tensors(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    if isinstance(value, int):
        return [value + 1, 2 * value, 3 * value + 1]
    return [0.5 * value + 0.01, 0.7 * value]


def _other_tensors(value: Tensor) -> list[Tensor]:
    if value.is_floating_point() and value.numel():
        generator = torch.Generator().manual_seed(7)
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
        if value.dim() > 1 and value.min() >= 0 and (value.sum(dim=-1) - 1).abs().max() < 1e-4:
            return [noise.softmax(dim=-1)]
        return [value + noise * value.abs().mean().clamp_min(0.1)]
    if value.dim() == 1 and len(value) > 1 and not value.dtype.is_complex:
        return [value.roll(1), (value + 1) % (value.max() + 1), value // 2]
    return []


def _names(function: Any, count: int) -> list[str]:
    """The names of a function's first parameters; "argument 3" where it tells none."""
    names: list[str] = []
    with suppress(TypeError, ValueError):
        signature = inspect.signature(getattr(function, "forward", function))
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [name for name, one in signature.parameters.items() if one.kind in kinds]
    while len(names) < count:
        names.append(f"argument {len(names) + 1}")
    return names[:count]
