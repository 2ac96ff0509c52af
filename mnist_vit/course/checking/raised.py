"""An exception of an answer in sentences: what it means, and what stood in the learner's line."""

import ast
import inspect
import re
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import Any

from torch import Tensor, nn

from ...errors import printable
from ..observing.tracing import quoted
from .lacking import missing_attribute, missing_key, of_list, unknown_name
from .lines import (
    calling_line,
    chains,
    failed,
    inner_line,
    is_chain,
    parsed,
    their_frame,
    their_line,
    value_of,
)
from .meanings import FIT, LINED_UP, PRODUCT, lined_up, meaning_of
from .operands import parts, sides
from .tools import shortened

MOST = 8  # names of a line whose values are told
LONGEST = 240  # characters of an exception's own text
SHORT = 30  # characters of a text that is told in its whole
SHAPES = 4  # tensors of a tuple whose shapes are told
# advice of torch, NumPy and Python that leads to other numbers, or away from a gradient
THEIR_ADVICE = re.compile(
    r"[ (]*(?:Use (?:the `\^`|\.reshape|a\.any|tensor\.detach|`tensor\.item)|Set allow_unused=True"
    r"|Hint: |Specify (?:retain_graph|the reduction)|If you want to use a computed"
    r"|To work around this|use sys\.set_int_max|\(?Could this error message|please file).*"
)
OF_SHAPES = re.compile(r"shape|size|[Dd]imension|must match|axis", re.I)
ASKS_ONE = re.compile(r"Boolean value of Tensor with more|truth value of an array")
HOOK = (
    "PyTorch calls a hook itself: before the forward with (module, args), after it with (module,"
    " args, output), and with kwargs behind args where it was registered with with_kwargs=True."
)


def told(error: BaseException, raised: str = "it raised", set_by: str = "") -> str:
    """An exception in a few sentences: the learner's line, its words, what stood there.

    ``raised`` is how the sentence begins where no line of theirs raised; ``set_by`` says which cell
    sets an unknown name, if that is known.
    """
    frame = their_frame(error)
    line = their_line(error)
    said = f" in the line {quoted(line)}" if line else ""
    calling = calling_line(error)
    if calling:
        said += f", which your line {quoted(calling)} calls"
    if writes_into_leaf(error):
        return f"a tensor that asks for a gradient is changed in place{said}."
    raised = "your code raised" if frame is not None else raised
    sentence = f"{raised} {type(error).__name__}{said}"
    text = words_of(error)
    if text:
        sentence = f"{sentence}: {printable(shortened(text, LONGEST))}"
    if not text or not sentence.endswith((".", "!", "?")):
        sentence += "."
    stood = _values(error, frame) if frame is not None else []
    if stood:
        sentence += f" There {'; '.join(stood)}."
    inner = inner_line(error)
    if inner and not inner.startswith("raise "):
        sentence += f" It happened deeper, in the model's line {quoted(inner)}."
    return f"{sentence} {set_by or _meaning(error)[0]}".rstrip()


def advice(error: BaseException) -> str:
    """What to do instead, where an exception of this kind is known; else ""."""
    return _meaning(error)[1]


def writes_into_leaf(error: BaseException) -> bool:
    """Whether a parameter, or another leaf, was written into outside of ``torch.no_grad()``."""
    said = str(error)
    return isinstance(error, RuntimeError) and "leaf" in said and "in-place" in said


def writes_into_parameter(error: BaseException) -> bool:
    """Whether what the learner's line writes into is a parameter, as far as it can be seen."""
    frame = their_frame(error)
    if frame is None:
        return False
    for node in ast.walk(parsed(their_line(error))):
        for written in _written_into(node):
            while isinstance(written, ast.Subscript):
                written = written.value
            if is_chain(written) and isinstance(value_of(frame, written), nn.Parameter):
                return True
    return False


def _written_into(node: ast.AST) -> list[ast.expr]:
    """What a part of a line may write into: p of ``p += 1``, ``p[0] = 1``, ``p.zero_()`` and
    ``torch.relu_(p)``.

    A plain name that is set, ``p = 1``, is not written into.
    """
    if isinstance(node, ast.AugAssign):
        return [node.target]
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = []
        for target in node.targets:
            targets += target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        return [target for target in targets if isinstance(target, ast.Subscript)]
    if isinstance(node, ast.Call) and _is_in_place(node):
        held = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*held, *node.args[:1]]
    return []


def _is_in_place(call: ast.Call) -> bool:
    """Whether the name of what is called ends with _, or it is asked for inplace=True."""
    return ast.unparse(call.func).endswith("_") or any(
        keyword.arg == "inplace" for keyword in call.keywords
    )


def _meaning(error: BaseException) -> tuple[str, str]:
    """What an exception means, and what can be done; ("", "") where that is not known."""
    for known in (_of_its_kind, _of_its_line):
        meaning, instead = known(error)
        if meaning:
            return meaning, instead
    meaning, instead = meaning_of(str(error))
    meaning = _by_name(error) or meaning
    if not meaning and isinstance(error, AttributeError):
        meaning, instead = missing_attribute(error)
    if lost := _turned(error) or _lost_axis(error):
        instead = lost
    line = their_line(error)
    if "cannot be multiplied" in str(error) and "@" in line:
        instead += " @ is the matrix product; * multiplies number by number."
    if PRODUCT.search(str(error)) and "linear(" in line:
        instead += " F.linear multiplies by the transposed weight, which is (out, in)."
    if signature := _signature(error):
        meaning = f"{meaning} Its signature is {quoted(signature)}."
    return meaning, instead


def _of_its_kind(error: BaseException) -> tuple[str, str]:
    """Of kinds of exceptions whose words do not say enough."""
    words = str(error)
    if isinstance(error, StopIteration):
        return "next(…) found nothing.", "Of all that it could give, nothing fits: test each."
    if isinstance(error, KeyError) and "already exists" not in words:
        return missing_key(error)
    if isinstance(error, NameError) and "is not defined" in words:
        return unknown_name(error)
    if isinstance(error, AssertionError) and their_line(error).startswith("assert"):
        return "What stands behind assert is false here.", ""
    if isinstance(error, TypeError) and "argument" in words and _is_called_as_hook(error):
        return f"{meaning_of(words)[0]} {HOOK}".strip(), "Give it as many arguments."
    return "", ""


def _of_its_line(error: BaseException) -> tuple[str, str]:
    """Of exceptions that the learner's line explains better than their words."""
    words, line = str(error), their_line(error)
    if "NoneType" in words and (end := _open_end(error))[0]:
        return end
    if "values to unpack" in words and _goes_through_keys(error):
        return (
            "A loop over a dict goes through its keys alone.",
            "key and value together come from .items().",
        )
    if "values to unpack" in words and re.search(r"\.(shape|size\(\))\s*$", line):
        return (
            "The tensor has another number of axes than this line takes apart.",
            "Read the axes that you need by themselves, such as .shape[-1]: others may stand in"
            " front.",
        )
    if "Boolean value of Tensor" in words and _compares_beside_bits(line):
        return (
            meaning_of(words)[0],
            "& and | bind more tightly than == and <: put brackets around each comparison, as in"
            " (a == b) & (c == d).",
        )
    chain = _chained(line) if ASKS_ONE.search(words) else ""
    if chain:
        return (f"{meaning_of(words)[0]} {chain}", "For each number: (a == b) & (b != c).")
    if "Boolean value of Tensor" in words and _looks_for_one_in_a_list(line):
        return (
            meaning_of(words)[0],
            "in, not in, index, count and remove compare by ==, number by number. Tensors are told"
            " apart by their names, or by `is`: any(p is q for q in …).",
        )
    if "number of sizes provided" in words and not re.search(r"expand|repeat", line):
        return (
            "What is written has more axes than the place that it is written into.",
            "Compare the two shapes: an index that gives one number for each picture takes two"
            " lists of places, as in x[torch.arange(n), labels].",
        )
    if "list indices must be" in words or "'list' object has no attribute" in words:
        return of_list(error)
    if re.search(r"missing 1 required positional argument|missing .* arguments: 'self'", words):
        meaning, instead = _asked_of_a_class(error)
        if meaning:
            return meaning, instead
    return _given_to_a_class(error)


def _asked_of_a_class(error: BaseException) -> tuple[str, str]:
    """Of a method that is called on a class, where an object made by it is needed."""
    frame, node = their_frame(error), failed(error)
    if frame is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return "", ""
    if not is_chain(node.func.value):
        return "", ""
    holder = value_of(frame, node.func.value)
    if not isinstance(holder, type) or not inspect.isfunction(value_of(frame, node.func)):
        return "", ""
    name = ast.unparse(node.func.value)
    return (
        f"{name} is a class, and {node.func.attr} is for what the class makes.",
        f"Called with its sizes the class makes an object: made = {name}(…), and then"
        f" made.{node.func.attr}(…).",
    )


def _given_to_a_class(error: BaseException) -> tuple[str, str]:
    """Of one of torch's modules that is made with tensors, where it should be called with them."""
    frame, node = their_frame(error), failed(error)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):  # nn.GELU(x)(x)
        node = node.func
    if frame is None or not isinstance(node, ast.Call) or not is_chain(node.func):
        return "", ""
    made = value_of(frame, node.func)
    is_module = isinstance(made, type) and issubclass(made, nn.Module)
    if not is_module or not made.__module__.startswith("torch.nn"):
        return "", ""
    given = [value_of(frame, one) for one in node.args if is_chain(one)]
    takes_one = "weight" in inspect.signature(made).parameters and len(given) == 1
    if takes_one or not any(isinstance(one, Tensor) for one in given):
        return "", ""
    name = ast.unparse(node.func)
    return (
        f"{name}(…) makes a module, and takes its options. Here it is given a tensor.",
        f"What is made is then called with the tensors: {name}(…)(x).",
    )


def _is_called_as_hook(error: BaseException) -> bool:
    """Whether torch called a hook, and the hook takes other arguments."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or "-packages" not in frames[-1].filename:
        return False
    return "torch" in frames[-1].filename and "hook(" in (frames[-1].line or "")


def _signature(error: BaseException) -> str:
    """The signature of the function that an exception is about, if the line calls it by name."""
    found = re.match(r"([\w.<>]+)\(\) (?:missing|takes|got)", str(error))
    frame = their_frame(error)
    if frame is None or found is None or not isinstance(error, TypeError):
        return ""
    for node in ast.walk(parsed(their_line(error))):
        if not isinstance(node, ast.Call) or not is_chain(node.func):
            continue
        called = value_of(frame, node.func)
        name = getattr(called, "__qualname__", type(called).__qualname__)
        own = {name: called, f"{name}.__init__": called}
        if isinstance(called, nn.Module):
            own = {f"{name}.forward": called.forward}
        if found[1] in own:
            return _written(ast.unparse(node.func), own[found[1]])
    return ""


def _written(name: str, called: Any) -> str:
    """A call of a function with the names of all its arguments; "" if they are not known."""
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return ""
    bare = []
    for one in signature.parameters.values():
        default = one.default
        if not isinstance(default, bool | int | float | str | tuple | type(None) | type):
            default = ...
        bare.append(one.replace(annotation=inspect.Parameter.empty, default=default))
    return f"{name}{inspect.Signature(bare)}".replace("Ellipsis", "…")


def _by_name(error: BaseException) -> str:
    """Of two sides that do not fit: which of them has which size; "" if that is not known."""
    frame = their_frame(error)
    found = LINED_UP.search(str(error))
    both = sides(error, frame) if frame is not None and found is not None else []
    if len(both) < 2 or found is None:
        return ""
    (left, shape), (right, other) = both
    for place in range(1, min(len(shape), len(other)) + 1):
        if (shape[-place], other[-place]) == (int(found[1]), int(found[2])):
            return f"{FIT}: {lined_up(found[1], found[2], left, right)}"
    return ""


def _turned(error: BaseException) -> str:
    """Of two sides that do not fit: whether one is as the other with its two axes exchanged."""
    frame = their_frame(error)
    both = sides(error, frame) if frame is not None and LINED_UP.search(str(error)) else []
    if len(both) < 2:
        return ""
    (left, shape), (right, other) = both
    if len(shape) != 2 or shape != other[::-1]:
        return ""
    said = f"{left} has the two axes of {right}, exchanged: {shape} and {other}. Which order is"
    said += " meant?"
    line = their_line(error)
    if "copy_" in line and any(".weight" in one for one in (left, right)):
        said += " nn.Linear(in, out) keeps its weight as (out, in)."
    return said


def _open_end(error: BaseException) -> tuple[str, str]:
    """Of a slice whose start, stop or step is None where a number is needed."""
    frame = their_frame(error)
    if frame is None:
        return "", ""
    for node in chains(parsed(their_line(error))):
        if not isinstance(node, ast.Attribute) or node.attr not in ("start", "stop", "step"):
            continue
        whole = value_of(frame, node.value)
        if isinstance(whole, slice) and value_of(frame, node) is None:
            name = ast.unparse(node.value)
            return (
                f"{name} is {whole}. What a slice does not say is None: as stop, that is the end.",
                f"x[:, {name}] takes the slice as it is; range(*{name}.indices(length)) has its"
                " numbers.",
            )
    return "", ""


def _lost_axis(error: BaseException) -> str:
    """Of shapes that cannot be lined up: which tensor of the line is another without an axis."""
    frame = their_frame(error)
    found = LINED_UP.search(str(error))
    if frame is None or found is None or "must match the size of tensor" not in str(error):
        return ""
    shapes = dict(sides(error, frame))
    if len(shapes) < 2:  # not both are known: any two of the line may be the ones
        for node in chains(parsed(their_line(error))):
            value = value_of(frame, node)
            if isinstance(value, Tensor):
                shapes.setdefault(ast.unparse(node), tuple(value.shape))
    for whole, shape in shapes.items():
        for name, other in shapes.items():
            if not {*other, *shape} >= {int(found[1]), int(found[2])}:
                continue  # another part of the line raised
            for axis in range(1, len(shape)):
                if other == shape[:axis] + shape[axis + 1 :]:
                    return _axis_back(name, whole, axis)
    return ""


def _axis_back(name: str, whole: str, axis: int) -> str:
    said = name if name.isidentifier() else f"({name})"
    return (
        f"{name} has the shape of {whole} without axis {axis}. Should its numbers stand along the"
        f" others, {said}.unsqueeze({axis}) gives this axis back, and so does keepdim=True where it"
        " was summed or averaged away."
    )


def _compares_beside_bits(line: str) -> bool:
    """Whether & or | of a line stands in a comparison, as in a == b & c == d."""
    for node in ast.walk(parsed(line)):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.BinOp) and isinstance(side.op, ast.BitAnd | ast.BitOr):
                    return True
    return False


def _chained(line: str) -> str:
    """What Python makes of the first comparison with two signs in a line; "" if there is none."""
    for node in ast.walk(parsed(line)):
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            sides = [node.left, *node.comparators]
            steps = [
                f"({ast.unparse(ast.Compare(one, [operator], [other]))})"
                for one, operator, other in zip(sides, node.ops, sides[1:], strict=False)
            ]
            said = f"{quoted(ast.unparse(node))} means {' and '.join(steps)}"
            return f"{said}, and `and` takes a single truth."
    return ""


def _looks_for_one_in_a_list(line: str) -> bool:
    """Whether a line asks if, or where, something is in a list."""
    for node in ast.walk(parsed(line)):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in ("index", "count", "remove"):
            return True
        operators = node.ops if isinstance(node, ast.Compare) else []
        if any(isinstance(operator, ast.In | ast.NotIn) for operator in operators):
            return True
    return False


def _goes_through_keys(error: BaseException) -> bool:
    """Whether the learner's line is a loop over a dict itself."""
    frame = their_frame(error)
    loop = re.match(r"for .* in (.*):$", their_line(error))
    if frame is None or loop is None:
        return False
    node = parsed(loop[1])
    names = chains(node)
    is_whole = len(names) == 1 and ast.unparse(names[0]) == loop[1].strip()
    return is_whole and isinstance(value_of(frame, names[0]), Mapping)


def words_of(error: BaseException) -> str:
    """The words of an exception on one line: the first line, or two where it only announces."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return THEIR_ADVICE.sub("", lines[0]).rstrip(" ;(") if lines else ""


def _values(error: BaseException, frame: FrameType) -> list[str]:
    """What the names and parts of a line stand for: shapes of tensors, plain numbers, None."""
    tree = parsed(their_line(error))
    if not getattr(tree, "body", None):  # a part of a statement over several lines
        tree = failed(error) or tree
    found: dict[str, str] = {}
    for node in chains(tree):
        said = _said(value_of(frame, node))
        if said:
            found.setdefault(ast.unparse(node).removesuffix(".shape"), said)
    called = failed(error)
    if isinstance(called, ast.Call) and is_chain(called.func):
        layer = value_of(frame, called.func)
        if isinstance(layer, nn.Linear):
            name = ast.unparse(called.func)
            found[name] = f"takes {layer.in_features} numbers and gives {layer.out_features}"
    if OF_SHAPES.search(str(error)):
        for name, shape in parts(error, frame).items():
            found[quoted(name)] = f"has the shape {shape}"
    return [f"{name} {said}" for name, said in found.items()][:MOST]


def _said(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"has the shape {tuple(value.shape)}"
    if value is None:
        return "is None"
    if isinstance(value, int) and abs(value) >= 10**SHORT:
        return f"is a whole number of more than {SHORT} digits"
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
