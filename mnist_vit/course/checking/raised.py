"""An exception of an answer in sentences: what it means, and what stood in the learner's line."""

import ast
import linecache
import re
import traceback
from types import FrameType
from typing import Any

from torch import Tensor, nn

from ...errors import printable
from ..observing.tracing import is_theirs, quoted
from .tools import shortened

MOST = 5  # names of a line whose values are told
LONGEST = 240  # characters of an exception's own text

# words of an exception, what they mean, and what to do
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"return_types\.",
        "max(dim=…), min, median and sort give a pair, values and indices.",
        "Take the first of the two: .values, or amax and amin.",
    ),
    (
        r"unsupported operand .*'NoneType'|must be Tensor, not NoneType",
        "One of the two is None.",
        "A function without return gives None; .grad is None for what the loss does not depend on,"
        " and for a tensor that was itself computed (torch.autograd.grad gives its gradient).",
    ),
    (
        r"'NoneType' object",
        "Something is None here.",
        "A function without return gives None, and so does a method that works in place.",
    ),
    (
        r"'tuple' object has no|must be Tensor, not tuple|'tuple' and",
        "A tuple stands where a tensor is needed.",
        "A layer that gives a pair, such as attention, is unpacked: first, second = layer(…).",
    ),
    (
        r"too many values to unpack|not enough values to unpack|cannot unpack",
        "There is not that number of values: a pair must stay a pair, where one is expected.",
        "Return as many values, in the same order, as came in there.",
    ),
    (
        r"shape '.*' is invalid for input|don't multiply up to",
        "The sizes asked for do not have as many numbers as the tensor.",
        "Multiply them and compare. Is a size written in, or another one than the check's (take"
        " them from the arguments, or from .shape)? Or is a row too many or too few, such as the"
        " class token's?",
    ),
    (
        r"must be Tensor, not (?:int|float)|only be called with a Tensor",
        "A function of torch is given a plain number.",
        "math.sqrt, math.exp and ** take numbers; torch's functions take tensors.",
    ),
    (
        r"must be real number, not Tensor|only one element tensors can be conv",
        "A function for one number is given a whole tensor.",
        "torch has functions of the same names, torch.exp, torch.log, for tensors.",
    ),
    (
        r"must match the size of tensor|didn't match|shapes cannot be multiplied|Expected size for"
        r"|does not match|Sizes of tensors must match|inconsistent tensor size|mat1 and mat2",
        "The shapes do not fit together.",
        "Print both shapes, and see which axis is not the one that you think of.",
    ),
    (
        r"found element of type float|got float|'float' object cannot be interpreted"
        r"|float.* as an ind",
        "A size or a place is a float.",
        "/ gives a float even where nothing is left over: use //, int(…) or math.isqrt.",
    ),
    (
        r"could not infer output dtype|mean\(\): .*(Bool|Long)",
        "mean() does not take booleans or whole numbers.",
        "Turn them into floats first: .float().mean() is the share of True.",
    ),
    (
        r"only integer tensors of a single element|only one element tensors",
        "A tensor stands where a plain number is needed, as where a tuple or a list is multiplied"
        " by it.",
        "int(…) or .item() makes a number of a tensor that holds one; a tuple, such as"
        " torch.autograd.grad gives, is unpacked, or its [0] is taken.",
    ),
    (
        r"'(?:int|float)' object is not iterable",
        "A number is gone through as if it were a list.",
        "for k in range(n) counts from 0 to n - 1.",
    ),
    (
        r"Boolean value of Tensor with more than one",
        "One yes or no is asked of many numbers at once.",
        "and, or, not and if take a single truth. For a whole tensor: &, | and ~ with each"
        " comparison in brackets, or .any() and .all().",
    ),
    (
        r"expected input\[.*\] to have \d+ channels",
        "The kernel of the convolution has another number of channels than what goes in.",
        "Give each channel a kernel and say groups=channels, or let every channel be a picture of"
        " its own, reshape(-1, 1, h, w).",
    ),
    (
        r"out of bounds|index out of range",
        "There is no such place: the axis is shorter.",
        "Is the number too large, or was the tensor made too small? Print both; places count from"
        " 0.",
    ),
    (
        r"Dimension out of range",
        "What this is applied to has fewer axes than that.",
        "Print its shape. A number in the place of an axis, x[:, 0], takes this axis away; a table"
        " of booleans, x[is_right], puts all that it chooses into one row. x * is_right, or"
        " masked_fill, keeps the axes.",
    ),
    (
        r"missing \d+ required positional arg",
        "A function is called without what it needs.",
        "Compare the call with the signature of what is called. If it is a hook, PyTorch calls it:"
        " (module, args), with the output last after the forward, and kwargs only if it was"
        " registered with with_kwargs=True.",
    ),
    (
        r"takes .* positional arguments? but|unexpected keyword|multiple values for",
        "A function is given what it does not take.",
        "Compare the call with its signature, self included.",
    ),
    (
        r"size mismatch|loading state_dict",
        "The weights do not fit the module: names or sizes are others.",
        "Build it with the sizes that belong to these weights.",
    ),
    (
        r"cannot assign '.*' as parameter",
        "A plain tensor cannot take the place of a parameter.",
        "Fill the one that is there, in place: nn.init, or copy_ under torch.no_grad(). Where a new"
        " one is meant, nn.Parameter(…).",
    ),
    (
        r"more than one parameter group",
        "The same parameter is in two groups of the optimizer.",
        "Each belongs to one: take it out of the group whose rate it should not have.",
    ),
    (
        r"empty parameter list",
        "The optimizer is given nothing: there is nothing in this list.",
        "What is to learn must be there, and ask for a gradient, before the optimizer is made.",
    ),
    (
        r"does not require grad",
        "Nothing that needs a gradient leads to this number.",
        "Look for .detach(), .item(), torch.no_grad() and for buffers in the place of parameters.",
    ),
    (
        r"backward through the graph a second time",
        "The graph was used up by an earlier backward().",
        "Compute the loss anew for each backward(), and keep no tensor of the step before; several"
        " gradients of one graph need retain_graph=True, or one call for their sum.",
    ),
    (
        r"grad can be implicitly created only for scalar",
        "The gradient is asked of several numbers at once.",
        "Make one number of them first: of the sum, each picture gets the gradient of its own.",
    ),
    (
        r"shape of the mask",
        "The mask has not the shape of what it chooses from.",
        "A mask has one boolean for each entry of the first axes.",
    ),
    (
        r"Expected tensor for argument|must have the same dtype|expected scalar type|same dtype",
        "Two kinds of numbers meet, such as float32 and float64.",
        "The check uses float64, too: make new tensors with dtype=x.dtype.",
    ),
    (
        r"is not defined|referenced before assignment|cannot access local",
        "The name stands for nothing here.",
        "Is it misspelt, or set on another path only, or in a cell that has not run?",
    ),
)


def told(error: BaseException) -> str:
    """An exception in a few sentences: the learner's line, its words, what stood there."""
    frame = _their_frame(error)
    line = _line(error)
    said = f" in the line {quoted(line)}" if line else ""
    if writes_into_leaf(error):
        return f"a tensor that asks for a gradient is changed in place{said}."
    raised = "your code raised" if frame is not None else "it raised"
    sentence = f"{raised} {type(error).__name__}{said}"
    text = _text(error)
    if text:
        sentence = f"{sentence}: {printable(shortened(text, LONGEST))}"
    if not text or not sentence.endswith((".", "!", "?")):
        sentence += "."
    stood = _values(frame, line) if frame is not None else []
    if stood:
        sentence += f" There {'; '.join(stood)}."
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
    try:
        tree = ast.parse(_whole(_line(error)))
    except (SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
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
        return (
            "Nothing has this name there.",
            "Print the names that there are: list(x), or dict(module.named_children()).",
        )
    if "values to unpack" in str(error) and re.search(r"\.(shape|size\(\))\s*$", _line(error)):
        return (
            "The tensor has another number of axes than this line takes apart.",
            "Read the axes that you need by themselves, such as .shape[-1]: others may stand in"
            " front.",
        )
    for words, meaning, instead in MEANINGS:
        if re.search(words, str(error)):
            return meaning, instead
    return "", ""


def _lacking(error: BaseException) -> str:
    """Of a missing attribute: that it is missing, and what there is, for a module."""
    if not isinstance(error, AttributeError):
        return ""
    if isinstance(error.obj, list) and error.name in ("_modules", "children", "named_children"):
        return "A list holds layers that the module does not know: nn.ModuleList or nn.Sequential."
    if not isinstance(error.obj, nn.Module):
        return ""
    parts = [*error.obj._parameters, *error.obj._modules]
    return f"Its parameters and parts: {', '.join(parts[:8])}." if parts else ""


def _text(error: BaseException) -> str:
    """The words of an exception on one line: the first line, or two where it only announces."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else ""


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
            line = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
    return line


def _values(frame: FrameType, line: str) -> list[str]:
    """What the names in a line stand for: tensors by their shapes, plain numbers, None, tuples."""
    try:
        tree = ast.parse(_whole(line))
    except (SyntaxError, ValueError):
        return []
    found: dict[str, str] = {}
    for node in _chains(tree):
        said = _said(_value_of(frame, node))
        if said:
            found.setdefault(ast.unparse(node).removesuffix(".shape"), said)
    return [f"{name} {said}" for name, said in found.items()][:MOST]


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
    if isinstance(value, tuple | list):
        return f"is a {type(value).__name__} of {len(value)}"
    return ""
