"""An exception of an answer in sentences: what it means, and what stood in the learner's line."""

import ast
import builtins
import difflib
import linecache
import re
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import Any

from torch import Tensor, nn

from ...errors import printable
from ..observing.reacting import listed
from ..observing.tracing import is_of_models, is_theirs, quoted
from .meanings import meaning_of
from .tools import shortened

MOST = 8  # names of a line whose values are told
LONGEST = 240  # characters of an exception's own text
SHORT = 30  # characters of a text that is told in its whole
SHAPES = 4  # tensors of a tuple whose shapes are told
NAMES = 8  # keys, or parts of a module, that are told


def told(error: BaseException) -> str:
    """An exception in a few sentences: the learner's line, its words, what stood there."""
    frame = _their_frame(error)
    line = _line(error)
    said = f" in the line {quoted(line)}" if line else ""
    calling = _calling_line(error)
    if calling:
        said += f", which your line {quoted(calling)} calls"
    if writes_into_leaf(error):
        return f"a tensor that asks for a gradient is changed in place{said}."
    raised = "your code raised" if frame is not None else "it raised"
    sentence = f"{raised} {type(error).__name__}{said}"
    text = _text(error)
    if text:
        sentence = f"{sentence}: {printable(shortened(text, LONGEST))}"
    if not text or not sentence.endswith((".", "!", "?")):
        sentence += "."
    stood = _values(frame, _statement(error)) if frame is not None else []
    if stood:
        sentence += f" There {'; '.join(stood)}."
    inner = _inner_line(error)
    if inner and not inner.startswith("raise "):
        sentence += f" It happened deeper, in the model's line {quoted(inner)}."
    return f"{sentence} {_meaning(error)[0] or _lacking(error)}".rstrip()


def advice(error: BaseException) -> str:
    """What to do instead, where an exception of this kind is known; else ""."""
    return _meaning(error)[1]


def writes_into_leaf(error: BaseException) -> bool:
    """Whether a parameter, or another leaf, was written into outside of ``torch.no_grad()``."""
    said = str(error)
    return isinstance(error, RuntimeError) and "leaf" in said and "in-place" in said


def writes_into_parameter(error: BaseException) -> bool:
    """Whether what the learner's line writes into is a parameter, as far as it can be seen."""
    frame = _their_frame(error)
    if frame is None:
        return False
    for node in ast.walk(_parsed(_line(error))):
        if isinstance(node, ast.AugAssign):
            written: ast.expr = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            written = node.func.value
        else:
            continue
        while isinstance(written, ast.Subscript):
            written = written.value
        if _is_chain(written) and isinstance(_value_of(frame, written), nn.Parameter):
            return True
    return False


def _meaning(error: BaseException) -> tuple[str, str]:
    if isinstance(error, StopIteration):
        return "next(…) found nothing.", "Of all that it could give, nothing fits: test each."
    if isinstance(error, KeyError):
        return _missing_key(error)
    if isinstance(error, NameError) and "is not defined" in str(error):
        return _unknown_name(error)
    if "values to unpack" in str(error) and _goes_through_keys(error):
        return (
            "A loop over a dict goes through its keys alone.",
            "key and value together come from .items().",
        )
    if "values to unpack" in str(error) and re.search(r"\.(shape|size\(\))\s*$", _line(error)):
        return (
            "The tensor has another number of axes than this line takes apart.",
            "Read the axes that you need by themselves, such as .shape[-1]: others may stand in"
            " front.",
        )
    meaning, instead = meaning_of(str(error))
    if lost := _lost_axis(error):
        instead = lost
    if "cannot be multiplied" in str(error) and "@" in _line(error):
        instead += " @ is the matrix product; * multiplies number by number."
    if "Boolean value of Tensor" in str(error) and _compares_beside_bits(_line(error)):
        instead = (
            "& and | bind more tightly than == and <: put brackets around each comparison, as in"
            " (a == b) & (c == d)."
        )
    if "Boolean value of Tensor" in str(error) and _asks_whether_in(_line(error)):
        instead = (
            "in and not in compare by ==, number by number. Tensors are told apart by their names,"
            " or by `is`: any(p is q for q in …)."
        )
    return meaning, instead


def _asks_whether_in(line: str) -> bool:
    """Whether a line asks if something is in something."""
    for node in ast.walk(_parsed(line)):
        operators = node.ops if isinstance(node, ast.Compare) else []
        if any(isinstance(operator, ast.In | ast.NotIn) for operator in operators):
            return True
    return False


def _compares_beside_bits(line: str) -> bool:
    """Whether & or | of a line stands in a comparison, as in a == b & c == d."""
    for node in ast.walk(_parsed(line)):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.BinOp) and isinstance(side.op, ast.BitAnd | ast.BitOr):
                    return True
    return False


def _lost_axis(error: BaseException) -> str:
    """Of shapes that cannot be lined up: which tensor of the line is another without an axis."""
    frame = _their_frame(error)
    if frame is None or "must match the size of tensor" not in str(error):
        return ""
    shapes: dict[str, list[int]] = {}
    for node in _chains(_parsed(_line(error))):
        value = _value_of(frame, node)
        if isinstance(value, Tensor):
            shapes[ast.unparse(node)] = list(value.shape)
    for whole, shape in shapes.items():
        for name, other in shapes.items():
            for axis in range(1, len(shape)):
                if other == shape[:axis] + shape[axis + 1 :]:
                    return (
                        f"{name} has the shape of {whole} without axis {axis}. Should its numbers"
                        f" stand along the others, {name}.unsqueeze({axis}) gives this axis back,"
                        " and so does keepdim=True where it was summed or averaged away."
                    )
    return ""


def _unknown_name(error: NameError) -> tuple[str, str]:
    """Of a name that stands for nothing: names that are spelt nearly like it, if there are any."""
    frame = _their_frame(error)
    known = [] if frame is None else [*frame.f_locals, *frame.f_globals, *dir(builtins)]
    near = difflib.get_close_matches(error.name or "", set(known) - {error.name}, 2, 0.8)
    said = "The name stands for nothing here."
    if near:
        said += f" Spelt nearly like it: {' and '.join(sorted(near))}."
    return said, (
        "A name is known in the function that sets it or takes it as an argument, or after the"
        " notebook's cell that sets it; a text needs quotation marks."
    )


def _goes_through_keys(error: BaseException) -> bool:
    """Whether the learner's line is a loop over a dict itself."""
    frame = _their_frame(error)
    loop = re.match(r"for .* in (.*):$", _line(error))
    if frame is None or loop is None:
        return False
    node = _parsed(loop[1])
    chains = _chains(node)
    is_whole = len(chains) == 1 and ast.unparse(chains[0]) == loop[1].strip()
    return is_whole and isinstance(_value_of(frame, chains[0]), Mapping)


def _missing_key(error: KeyError) -> tuple[str, str]:
    """Of a key that is not there: the keys that there are, where the learner's line shows them."""
    key = error.args[0] if error.args else None
    if isinstance(key, str) and key.endswith("already exists"):
        return (
            "The module has something of this name already.",
            "A buffer or a parameter of a name that is taken is registered after del module.name;"
            " a parameter that is there is filled in place, under torch.no_grad().",
        )
    frame = _their_frame(error)
    for node in ast.walk(_parsed(_line(error))):
        if frame is None or not isinstance(node, ast.Subscript) or not _is_chain(node.value):
            continue
        held = _value_of(frame, node.value)
        is_read = isinstance(node.ctx, ast.Load) and isinstance(held, Mapping | nn.ModuleDict)
        if is_read and key not in held:
            name = ast.unparse(node.value)
            if not held:
                return f"{name} is empty.", ""
            return f"The keys of {name} are {listed(list(map(str, held)), NAMES)}.", ""
    return "There is no such key.", "Print the keys that there are: list(…) of a dict gives them."


def _lacking(error: BaseException) -> str:
    """Of a missing attribute: that it is missing, and what there is, for a module."""
    if not isinstance(error, AttributeError):
        return ""
    if isinstance(error.obj, list) and error.name in ("_modules", "children", "named_children"):
        return "A list holds layers that the module does not know: nn.ModuleList or nn.Sequential."
    if not isinstance(error.obj, nn.Module):
        return ""
    if not hasattr(error.obj, "_parameters"):
        return "nn.Module is not set up here: its __init__ has not run, super().__init__(…)."
    parts = [*error.obj._parameters, *error.obj._modules]
    kind = type(error.obj).__name__
    if not parts:
        return f"A {kind} has no parameters and no parts."
    return f"The parameters and parts of this {kind} are {listed(parts, NAMES)}."


def _text(error: BaseException) -> str:
    """The words of an exception on one line: the first line, or two where it only announces."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    # torch's advice for a subtraction of truth values gives another number
    return lines[0].partition(" Use the `^`")[0] if lines else ""


def _their_frame(error: BaseException) -> FrameType | None:
    """The learner's innermost frame."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if is_theirs(frame.f_code.co_filename):
            found = frame
    return found


def _line(error: BaseException) -> str:
    """The learner's line nearest to the error; "" if there is none."""
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            line = _text_of(frame)
    return line


def _statement(error: BaseException) -> str:
    """The learner's line nearest to the error, with those that it goes on in, up to its end."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            first = frame.lineno or 0
            last = frame.end_lineno or first
            lines = [linecache.getline(frame.filename, one) for one in range(first, last + 1)]
            found = "".join(lines).strip() if last > first else _text_of(frame)
    return found


def _text_of(frame: traceback.FrameSummary) -> str:
    """The text of the line at which a frame stands."""
    return (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()


def _inner_line(error: BaseException) -> str:
    """The line of a model that the learner's line called, and in which it raised; else ""."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            found = ""
        elif is_of_models(frame.filename):
            found = _text_of(frame)
    return found


def _calling_line(error: BaseException) -> str:
    """The learner's line from which another function of theirs was called that raised; else ""."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if is_theirs(one.filename)]
    if len(frames) < 2 or frames[-1].name == frames[-2].name:
        return ""
    calling = _text_of(frames[-2])
    return "" if calling == _text_of(frames[-1]) else calling  # as in a list comprehension


def _values(frame: FrameType, line: str) -> list[str]:
    """What the names in a line stand for: tensors by their shapes, plain numbers, None, tuples."""
    found: dict[str, str] = {}
    for node in _chains(_parsed(line)):
        said = _said(_value_of(frame, node))
        if said:
            found.setdefault(ast.unparse(node).removesuffix(".shape"), said)
    return [f"{name} {said}" for name, said in found.items()][:MOST]


def _parsed(line: str) -> ast.AST:
    """A line as a tree; an empty one if it cannot be parsed by itself."""
    try:
        return ast.parse(_whole(line))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _whole(line: str) -> str:
    """A line that can be parsed: a header without its colon and its word."""
    header = re.match(r"(?:if|elif|while|for .* in|with|return)\b(.*?):?$", line)
    return header[1].strip() if header else line


def _chains(tree: ast.AST) -> list[ast.expr]:
    """Names, attributes of names, and their attributes, that a line reads, each in its whole."""
    found: list[ast.expr] = []
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            nodes += [node.func.value, *node.args, *node.keywords]  # not the method
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            if _is_chain(node):
                found.append(node)
            else:
                nodes += ast.iter_child_nodes(node)
        else:
            nodes += ast.iter_child_nodes(node)
    return found


def _is_chain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _value_of(frame: FrameType, node: ast.expr) -> Any:
    """The value of a name or of attributes of one; Ellipsis if it has none."""
    if isinstance(node, ast.Attribute):
        base = _value_of(frame, node.value)
        if node.attr == "shape" and isinstance(base, Tensor):
            return base
        try:
            return getattr(base, node.attr, ...) if base is not ... else ...
        except Exception:  # a property may raise anything
            return ...
    name = node.id if isinstance(node, ast.Name) else ""
    return frame.f_locals.get(name, frame.f_globals.get(name, ...))


def _said(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"has the shape {tuple(value.shape)}"
    if value is None:
        return "is None"
    if isinstance(value, bool | int | float):
        return f"is {value!r}"
    if isinstance(value, str) and 0 < len(value) <= SHORT:
        return f"is {value!r}"
    if isinstance(value, tuple | list):
        said = f"is a {type(value).__name__} of {len(value)}"
        if 1 < len(value) <= SHAPES and all(isinstance(one, Tensor) for one in value):
            said += f" tensors, {', '.join(str(tuple(one.shape)) for one in value)}"
        return said
    return ""
