"""Whether a text makes what ran: the same code, defaults, closures, attributes and constants."""

import builtins
import dis
import functools
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .pieces import PIECES

# The same call is compiled in two ways, depending on whether its module is imported in that text.
UNEVEN = {"CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
SKIPPED = {"_abc_impl", "__module__", "__qualname__"}
MISSING = object()
OURS = "my_vit"  # the module that a text is run as


def difference(ran: Any, made: Any) -> str | None:
    """Say what differs between the learner's object and the one that a text makes; None if nothing.

    Constants, helpers, base classes and closures are followed to their ends.
    """
    return _Comparison().of(getattr(made, "__name__", "it"), ran, made)


def steps(code: CodeType, left_out: tuple[str, ...] = ()) -> Iterator[tuple]:
    """Yield what a code object does, function by function, the same wherever it is compiled.

    A name in ``left_out`` is a module whose attributes are read as plain names.
    """
    known = []
    offsets = []  # of what is known: jumps are told by how many steps stand before their target
    inner = []
    left = False
    for one in dis.get_instructions(code):
        name = one.opname.replace("LOAD_METHOD", "LOAD_ATTR")
        if name in UNEVEN:
            continue
        if name == "LOAD_GLOBAL" and one.argval in left_out:
            left = True
            continue
        if left and name == "LOAD_ATTR":
            name = "LOAD_GLOBAL"
        left = False
        value = one.argval
        if isinstance(value, CodeType):
            inner.append(value)
            value = value.co_name
        elif isinstance(value, frozenset):
            value = sorted(map(repr, value))
        offsets.append(one.offset)
        is_jump = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
        known.append((name, value if is_jump else repr(value)))
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = []
    for name, value in known:
        found.append((name, bisect_left(offsets, value) if isinstance(value, int) else value))
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    for entry in entries:  # what the try blocks cover
        places = (bisect_left(offsets, at) for at in (entry.start, entry.end, entry.target))
        found.append(("TRY", tuple(places)))
    yield code.co_name, code.co_argcount, code.co_kwonlyargcount, arguments, tuple(found)
    for part in inner:
        yield from steps(part, left_out)


def global_names(code: CodeType) -> set[str]:
    """The names that a code object, and all that is compiled in it, takes from its module."""
    names = set()
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(one.argval)
        elif isinstance(one.argval, CodeType):
            names |= global_names(one.argval)
    return names


class _Comparison:
    """Compares two objects and all they hang on; each pair once."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.kept: list[Any] = []  # so that no address is used twice

    def of(self, name: str, ran: Any, made: Any) -> str | None:
        """What differs, told by ``name``; None if nothing does."""
        if ran is made or (id(ran), id(made)) in self.seen:
            return None
        self.seen.add((id(ran), id(made)))
        self.kept.append((ran, made))
        kinds: tuple[tuple[Any, Callable[[str, Any, Any], str | None]], ...] = (
            (FunctionType, self._functions),
            (type, self._classes),
            (Tensor, _tensors),
            (np.ndarray, _arrays),
            (ModuleType, _modules),
            ((list, tuple), self._lists),
            ((dict, MappingProxyType), self._mappings),
        )
        for kind, look in kinds:
            if isinstance(ran, kind) and isinstance(made, kind):
                return look(name, ran, made)
        if isinstance(ran, weakref.WeakKeyDictionary):  # what a function has found out so far
            return None
        if (parts := _parts(ran)) is not None and type(ran) is type(made):
            return self._lists(name, parts, _parts(made) or ())
        if problem := self.of(f"the type of {name}", type(ran), type(made)):
            return problem
        if isinstance(ran, set | frozenset):
            return _told_if_not(ran == made, name, ran, made)
        if hasattr(ran, "__dict__"):
            return self._dicts(name, vars(ran), vars(made))
        return _told_if_not(repr(ran) == repr(made), name, ran, made)

    def _functions(self, name: str, ran: FunctionType, made: FunctionType) -> str | None:
        if _is_piece(ran, made):
            return None
        modules = tuple(one for one in global_names(ran.__code__) if _is_file(ran, one))
        if list(steps(ran.__code__, modules)) != list(steps(made.__code__)):
            return f"{name} has other code"
        names = ran.__code__.co_varnames[: ran.__code__.co_argcount]
        return (
            self.of(f"the docstring of {name}", ran.__doc__, made.__doc__)
            or self._dicts(
                f"the default of {{}} in {name}", _defaults(names, ran), _defaults(names, made)
            )
            or self._dicts(f"{{}}, which {name} holds,", _held(ran), _held(made))
            or self._dicts(f"{name}.{{}}", vars(ran), vars(made))
            or self._names(ran, made)
        )

    def _names(self, ran: FunctionType, made: FunctionType) -> str | None:
        """What the names that a function takes from its module mean there."""
        if ran.__globals__ is made.__globals__:
            return None
        for name in sorted(global_names(made.__code__)):
            old, new = _meaning(ran, name), _meaning(made, name)
            if hasattr(builtins, name) and _is_ipythons(old):  # it gives some of them anew
                continue
            if name in PIECES and old is MISSING:  # it was read as my_vit.MyMLPBlock
                continue
            if old is MISSING and new is not MISSING:
                return f"{name} is in the text, and was not there when it ran"
            if problem := self.of(name, old, new):
                return problem
        return None

    def _classes(self, name: str, ran: type, made: type) -> str | None:
        if made.__module__ != OURS:
            return _told(name, ran, made)
        if _is_piece(ran, made):
            return None
        return (
            self.of(f"the type of {name}", type(ran), type(made))
            or self._lists(f"the bases of {name}", ran.__bases__, made.__bases__)
            or self._dicts(f"{name}.{{}}", _members(ran), _members(made))
        )

    def _lists(self, name: str, ran: Any, made: Any) -> str | None:
        if type(ran).__name__ != type(made).__name__ or len(ran) != len(made):
            return _told(name, ran, made)
        if problem := self.of(f"the type of {name}", type(ran), type(made)):
            return problem
        for old, new in zip(ran, made, strict=True):
            if problem := self.of(name, old, new):
                return problem
        return None

    def _mappings(self, name: str, ran: Any, made: Any) -> str | None:
        """Compare two dicts and the order of their keys."""
        problem = self._dicts(name, ran, made)
        if problem is None and list(ran) != list(made):
            return _told(name, ran, made)
        return problem

    def _dicts(self, name: str, ran: Any, made: Any) -> str | None:
        """Compare two dicts; ``{}`` in the name stands for the key."""
        for key in [*ran, *(key for key in made if key not in ran)]:
            where = name.format(key) if "{}" in name else name
            if key not in made:
                return f"{where} is not in the text"
            if key not in ran:
                return f"{where} is in the text, and was not there when it ran"
            if problem := self.of(where, ran[key], made[key]):
                return problem
        return None


def _is_file(user: FunctionType, name: str) -> bool:
    """Whether a name of a function's module is the module ``my_vit``."""
    value = user.__globals__.get(name)
    return isinstance(value, ModuleType) and value.__name__ == OURS


def _is_ipythons(value: Any) -> bool:
    module = getattr(value, "__globals__", {}).get("__name__", type(value).__module__)
    return module.startswith("IPython.")


def _meaning(user: FunctionType, name: str) -> Any:
    """What a name means in the module of a function; MISSING if it means nothing there."""
    return user.__globals__.get(name, getattr(builtins, name, MISSING))


def _is_piece(ran: Any, made: Any) -> bool:
    """Whether a piece stands on both sides: the file has its own, the kernel may hold another."""
    names = (getattr(ran, "__module__", None) or "").partition(".")[0]
    return made.__name__ in PIECES and names in (OURS, "mnist_vit")


def _defaults(names: tuple[str, ...], function: FunctionType) -> dict[str, Any]:
    given = function.__defaults__ or ()
    return dict(zip(names[len(names) - len(given) :], given, strict=True)) | (
        function.__kwdefaults__ or {}
    )


def _held(function: FunctionType) -> dict[str, Any]:
    """The values that a function was made around."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":
            with suppress(ValueError):  # it is still empty
                found[name] = cell.cell_contents
    return found


def _members(kind: type) -> dict[str, Any]:
    """What a class holds, without what Python itself puts there."""
    found = {}
    for name, value in vars(kind).items():
        is_code = hasattr(value, "__code__") or isinstance(value, staticmethod | classmethod)
        is_pythons = name.startswith("__") and name != "__doc__" and not is_code
        is_slot = type(value).__name__ in ("member_descriptor", "getset_descriptor")
        if name not in SKIPPED and not is_pythons and not is_slot:
            found[name] = value
    return found


def _parts(value: Any) -> tuple[Any, ...] | None:
    """What a wrapper of functions consists of; None for other values."""
    if isinstance(value, staticmethod | classmethod | MethodType):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):
        return (value.func,)
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    wrapped = getattr(value, "__wrapped__", None)
    return None if wrapped is None else (wrapped,)


def _tensors(name: str, ran: Tensor, made: Tensor) -> str | None:
    same = ran.shape == made.shape and ran.dtype == made.dtype and ran.device == made.device
    same = same and ran.requires_grad == made.requires_grad
    same = same and torch.equal(ran.detach().nan_to_num(), made.detach().nan_to_num())
    return _told_if_not(same, name, ran, made)


def _arrays(name: str, ran: np.ndarray, made: np.ndarray) -> str | None:
    same = ran.dtype == made.dtype and ran.shape == made.shape
    return _told_if_not(same and ran.tobytes() == made.tobytes(), name, ran, made)


def _modules(name: str, ran: ModuleType, made: ModuleType) -> str | None:
    return _told_if_not(ran.__name__ == made.__name__, name, ran, made)


def _told_if_not(same: bool, name: str, ran: Any, made: Any) -> str | None:
    if same:
        return None
    return _told(name, ran, made)


def _told(name: str, ran: Any, made: Any) -> str:
    """A sentence with both values, if they can be told apart by what is shown of them."""
    old, new = (" ".join(repr(value).split())[:40] for value in (ran, made))
    if old == new:
        return f"{name} is another object"
    return f"{name} was {old} when it ran, and is {new} in the text"
