"""What is missing: an attribute, a name, a key; what there is instead, where that can be seen."""

import ast
import builtins
import difflib
import math
import os
import re
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import printable
from ..observing.reacting import listed
from ..observing.tracing import is_theirs
from .lines import is_chain, parsed, their_frame, their_line, value_of

NAMES = 8  # keys, or parts of a module, that are told
NAMED = re.compile(
    r"(module|parameter|buffer) name can't (?:contain \"\.\"(?:, got: (.*))?|be empty)", re.S
)
KIND = re.compile(r"'([\w.]+)' object has no attribute '([\w.]+)'")
# attributes of NumPy and of other languages
INSTEAD = {
    "astype": "x.to(dtype) gives another kind of number.",
    "copy": "x.clone() copies it.",
    "append": "A list has append; torch.cat joins tensors.",
    "extend": "A list has extend; torch.cat joins tensors.",
    "len": "len(x) tells its length.",
    "length": "len(x) tells its length.",
}
MODULES = {"torch": torch, "torch.nn": nn, "torch.nn.functional": F, "math": math}


def unknown_name(error: NameError) -> tuple[str, str]:
    """Of a name that stands for nothing: names that are spelt nearly like it, if there are any."""
    frame = their_frame(error)
    known = [] if frame is None else [*frame.f_locals, *frame.f_globals, *dir(builtins)]
    said = f"The name stands for nothing here.{_near(error.name or '', known)}"
    return said, (
        "A name is known in the function that sets it or takes it as an argument, or after the"
        " notebook's cell that sets it; a text needs quotation marks."
    )


def missing_key(error: KeyError) -> tuple[str, str]:
    """Of a key that is not there: the keys that there are, where the learner's line shows them."""
    key = error.args[0] if error.args else None
    if found := NAMED.match(str(key)):
        return _bad_name(found[1], found[2] or "", "empty" in str(key))
    if key == "params" and _is_of_optimizers(error):
        return (
            "Each group of parameters is a dict with the key params.",
            'As in {"params": model.parameters(), "lr": 0.1}.',
        )
    frame = their_frame(error)
    for node in ast.walk(parsed(their_line(error))):
        if frame is None or not isinstance(node, ast.Subscript) or not is_chain(node.value):
            continue
        held = value_of(frame, node.value)
        is_read = isinstance(node.ctx, ast.Load) and isinstance(held, Mapping | nn.ModuleDict)
        if is_read and key not in held:
            return _keys(ast.unparse(node.value), list(held), key), ""
    if isinstance(key, str) and " " in key and not _is_raised_by_theirs(error):
        return "", ""  # the words of a library, and no key
    return "There is no such key.", "Print the keys that there are: list(…) of a dict gives them."


def _bad_name(kind: str, name: str, is_empty: bool) -> tuple[str, str]:
    """Of a name that nn.Module takes for no part, parameter or buffer."""
    kind = "part" if kind == "module" else kind
    if is_empty:
        return f"A {kind} of a module needs a name, and this one is empty.", ""
    owner, _, last = name.rpartition(".")
    said = f"The name of a {kind} has no dot:"
    pieces = name.split(".")
    if not all(piece.isidentifier() for piece in pieces):
        if kind == "parameter":
            return f"{said} in long names it stands between a part and what is in it.", (
                "A parameter that is there is changed in place, as by copy_(…) under"
                " torch.no_grad(). A new one is registered in the part that it belongs to, under"
                " its last name."
            )
        return f"{said} in long names it stands between a part and what is in it.", (
            "Register it in the part that it belongs to, under its last name; where there is none,"
            " write another sign, such as _, in the place of the dot."
        )
    register = {"part": "add_module"}.get(kind, f"register_{kind}")
    holder = "an nn.Sequential or another module" if kind == "part" else "a module"
    return (
        f"{said} {printable(name)} is the long name of what is called {printable(last)} in"
        f" {printable(owner)}.",
        f"Make {printable(owner)}, {holder}, first, and give it what is to be in it:"
        f' self.{printable(owner)}.{register}("{printable(last)}", …).',
    )


def _is_raised_by_theirs(error: BaseException) -> bool:
    """Whether the line that raised is one of the learner's, and no library's."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and is_theirs(frames[-1][0].f_code.co_filename)


def _is_of_optimizers(error: BaseException) -> bool:
    """Whether an exception comes out of torch's optimizers."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and os.path.join("torch", "optim") in frames[-1].filename


def _keys(name: str, keys: list[Any], key: Any) -> str:
    if not keys:
        return f"{name} is empty."
    if str(key) in map(str, keys):  # "0" and 0
        return f"The keys of {name} are {listed(list(map(repr, keys)), NAMES)}, and not {key!r}."
    return f"The keys of {name} are {listed(list(map(str, keys)), NAMES)}."


def missing_attribute(error: AttributeError) -> tuple[str, str]:
    """Of a missing attribute: what is true of the thing that lacks it, and what it has."""
    kind, name = _kind_and_name(error)
    thing = error.obj
    if isinstance(thing, list) and name in ("_modules", "children", "named_children"):
        return (
            "A list holds layers that the module does not know: nn.ModuleList or nn.Sequential.",
            "",
        )
    if isinstance(thing, nn.Module):
        dotted = "." in name and not name.startswith(".")
        return _of_module(thing, name), "get_submodule takes a name with dots." if dotted else ""
    if isinstance(thing, ModuleType):
        return _of_names(thing.__name__, name)
    if kind in ("list", "tuple"):
        return _of_row(kind, name)
    if isinstance(thing, dict) and (kind == "dict" or name in thing):
        return _of_dict(thing, name)
    if kind in ("int", "float", "bool") and hasattr(Tensor, name):
        return (
            f"This is a plain number, and {name} is for tensors.",
            "float(…), .item(), len(…) and sizes give plain numbers. torch.tensor(…) makes a tensor"
            " of one.",
        )
    if kind == "str" and (hasattr(Tensor, name) or hasattr(nn.Module, name)):
        needed = "tensors" if hasattr(Tensor, name) else "modules"
        return (
            f"This is a text, and {name} is for {needed}.",
            "A loop over a dict, and state_dict() gives one, goes through its keys, which are"
            " texts: .values() gives what they stand for, .items() both.",
        )
    if kind == "numpy.ndarray" and hasattr(Tensor, name):
        return (
            f"This is an array of NumPy, and {name} is for tensors.",
            "torch.from_numpy(…) makes a tensor of it.",
        )
    if kind == "generator":
        return (
            f"This gives its values one after the other, and has no {name} itself.",
            "list(…) makes a list of it.",
        )
    if isinstance(thing, torch.optim.Optimizer) and name in thing.param_groups[0]:
        return (
            f"An optimizer has {name} in each of its groups: param_groups is a list of dicts.",
            f'Go through them: for group in optimizer.param_groups, group["{name}"].',
        )
    return _of_names("" if isinstance(thing, type(None)) else kind, name, thing)


def _kind_and_name(error: AttributeError) -> tuple[str, str]:
    """Of what kind the thing is, and which attribute it lacks; "" where the text does not say."""
    found = KIND.search(str(error))
    return (found[1], found[2]) if found else ("", error.name or "")


def _of_module(module: nn.Module, name: str) -> str:
    if not hasattr(module, "_parameters"):
        return "nn.Module is not set up here: its __init__ has not run, super().__init__(…)."
    own = [*module._parameters, *module._modules]
    kind = type(module).__name__
    near = _near(name, dir(type(module)))
    if not own:
        return f"A {kind} has no parameters and no parts.{near}"
    return f"The parameters and parts of this {kind} are {listed(own, NAMES)}.{near}"


def _of_row(kind: str, name: str) -> tuple[str, str]:
    """Of a list or a tuple."""
    if kind == "tuple" and hasattr(list, name):
        return (
            f"A tuple stays as it is, and has no {name}: lists have.",
            "list(…) makes a list of it.",
        )
    if hasattr(Tensor, name) and not hasattr(dict, name):
        return (
            f"This is a {kind}, and {name} is for tensors.",
            "A place in it, [0], or each in a loop; torch.stack(…) makes one tensor of tensors of"
            " one shape, torch.tensor(…) of numbers.",
        )
    if hasattr(dict, name):
        return f"This is a {kind}, and {name} is for dicts.", "[0] takes the first in it."
    known = dir(list) if kind == "list" else dir(tuple)
    near = "" if name in INSTEAD else _near(name, known)
    return (
        f"A {kind} has no attribute {name}.{near}",
        INSTEAD.get(
            name, "What is in it may have it: [0] takes the first, a loop goes through all."
        ),
    )


def _of_dict(thing: Any, name: str) -> tuple[str, str]:
    if isinstance(thing, dict) and name in thing:
        read = f'Brackets read it: ["{name}"].'
        if thing and all(isinstance(one, nn.Module) for one in thing.values()):
            read += " nn.Sequential makes a module of an OrderedDict of modules, with these names."
        return f"{name} is a key of this dict.", read
    if hasattr(list, name):
        return f"This is a dict, and {name} is for lists.", "A dict is filled by d[key] = value."
    return f"A dict has no {name}.{_near(name, dir(dict))}", ""


def _of_names(kind: str, name: str, thing: Any = None) -> tuple[str, str]:
    """Of a module of Python, a tensor or anything else: names like it, or where it is known."""
    if kind in MODULES:
        near = _near(name, dir(MODULES[kind]))
        for other, module in MODULES.items():
            if hasattr(module, name):
                near = f" {other} has it."
        return f"There is no such name in {kind}.{near}", ""
    if isinstance(thing, Tensor):
        near = "" if name in INSTEAD else _near(name, dir(Tensor))
        return f"A tensor has no attribute {name}.{near}", INSTEAD.get(name, "")
    near = _near(name, dir(thing)) if thing is not None else ""
    return near.strip(), ""


def _near(name: str, known: list[str]) -> str:
    """Names that are spelt nearly like one, in a sentence; "" if there are none."""
    public = {one for one in known if not one.startswith("_")}
    near = [one for one in public if one.lower() == name.lower() and one != name]
    near = near or difflib.get_close_matches(name, public - {name}, 2, 0.8)
    return f" Spelt nearly like it: {' and '.join(sorted(near))}." if near else ""


def of_list(error: BaseException) -> tuple[str, str]:
    """Of a list of dicts that is taken for one of them: how its members are reached."""
    frame = their_frame(error)
    for node in ast.walk(parsed(their_line(error))):
        if frame is None or not isinstance(node, ast.Attribute | ast.Subscript):
            continue
        held = value_of(frame, node.value) if is_chain(node.value) else ...
        if not isinstance(held, list) or not held:
            continue
        if all(isinstance(one, Mapping) for one in held):
            name = ast.unparse(node.value)
            return (
                f"{name} is a list of dicts, also where there is one alone.",
                f"[0] takes the first; for one in {name} goes through all.",
            )
    return "", ""
