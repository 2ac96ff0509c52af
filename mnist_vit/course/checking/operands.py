"""The shapes of the parts of an expression that raised: ``k.transpose(1, 2)`` of ``q @ …``.

The parts are computed a second time, on tensors without numbers (the device "meta"), as far as
they are made of names, operators and functions that change nothing. Nothing of the learner's is
called.
"""

import ast
import operator
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .lines import failed, is_chain, parsed, their_line, value_of

# methods of tensors, and functions of torch, that give a new tensor or a view
NAMES = (
    "T abs all amax amin any argmax argmin broadcast_to cat ceil chunk clamp clone contiguous cos"
    " cumsum detach diff double exp expand expand_as flatten flip float floor gelu int log"
    " log_softmax long mean matmul movedim narrow norm permute pow prod relu repeat"
    " repeat_interleave reshape roll rsqrt select sigmoid sin size softmax split sqrt square"
    " squeeze stack std sum t tanh to transpose tril triu type_as unbind unflatten unsqueeze var"
    " view view_as"
)
PURE = frozenset(NAMES.split())
READ = ("shape", "ndim", "T", "mT", "values", "indices")
SAME_SHAPE = (nn.LayerNorm, nn.GELU, nn.ReLU, nn.Dropout, nn.Identity, nn.Softmax, nn.Sigmoid)
OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.MatMult: operator.matmul,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}


class UnknownError(Exception):
    """What a part stands for cannot be computed again."""


def sides(error: BaseException, frame: FrameType) -> list[tuple[str, tuple[int, ...]]]:
    """The two sides of the operator that raised, with their shapes; none if one is not known.

    Of x.copy_(y) they are x and y.
    """
    node = failed(error)
    if isinstance(node, ast.BinOp):
        both = [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        both = [node.func.value, *node.args[:1]] if node.func.attr == "copy_" else []
    else:
        both = []
    found = [(part, _shape(frame, part)) for part in both]
    return [(ast.unparse(part), shape) for part, shape in found if shape is not None]


def parts(error: BaseException, frame: FrameType) -> dict[str, tuple[int, ...]]:
    """The parts of the expression that raised, without plain names, with their shapes."""
    node = failed(error)
    found: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        found = [node.left, node.right]
    elif isinstance(node, ast.Subscript) and _is_written(error, node):
        found = [node]
    elif isinstance(node, ast.Call):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            found = [node.func.value]
        for one in given:
            found += one.elts if isinstance(one, ast.List | ast.Tuple) else [one]
    told = {}
    for part in found:
        shape = None if is_chain(part) else _shape(frame, part)
        if shape is not None:
            told[ast.unparse(part)] = shape
    return told


def _is_written(error: BaseException, node: ast.Subscript) -> bool:
    """Whether the line writes to these places."""
    text = ast.unparse(node)
    for one in ast.walk(parsed(their_line(error))):
        is_written = isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)
        if is_written and ast.unparse(one) == text:
            return True
    return False


def _shape(frame: FrameType, node: ast.expr) -> tuple[int, ...] | None:
    """The shape of the tensor that an expression gives; None if it gives none, or is not known."""
    try:
        with torch.no_grad():
            value = _again(frame, node)
    except Exception:  # the part itself may be what raised
        return None
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _again(frame: FrameType, node: ast.expr) -> Any:
    """What an expression gives, tensors without their numbers."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _without_numbers(value_of(frame, node))
    if isinstance(node, ast.Attribute) and node.attr in READ:
        return getattr(_again(frame, node.value), node.attr)
    if isinstance(node, ast.Attribute) and is_chain(node):
        return _without_numbers(value_of(frame, node))
    if isinstance(node, ast.Tuple):
        return tuple(_again(frame, one) for one in node.elts)
    if isinstance(node, ast.List):
        return [_again(frame, one) for one in node.elts]
    if isinstance(node, ast.Slice):
        ends = (node.lower, node.upper, node.step)
        return slice(*(None if end is None else _again(frame, end) for end in ends))
    if isinstance(node, ast.Subscript):
        return _again(frame, node.value)[_again(frame, node.slice)]
    return _calculated(frame, node)


def _calculated(frame: FrameType, node: ast.expr) -> Any:
    """The same of operators and calls."""
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_again(frame, node.operand))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, _ = _again(frame, node.left), _again(frame, node.right)
        if isinstance(base, Tensor):
            return base
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _again(frame, node.left), _again(frame, node.right)
        if isinstance(left, list | str) or isinstance(right, list | str):
            raise UnknownError  # a list times a number may be long
        return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        return _called(frame, node)
    raise UnknownError


def _called(frame: FrameType, node: ast.Call) -> Any:
    """What a method of a tensor, a function of torch or a plain layer gives."""
    args: list[Any] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            args += _again(frame, one.value)
        else:
            args.append(_again(frame, one))
    options = {str(one.arg): _again(frame, one.value) for one in node.keywords}
    function = node.func
    called = value_of(frame, function) if is_chain(function) else ...
    if isinstance(called, nn.Module):
        return _through(called, *args, **options)
    if not isinstance(function, ast.Attribute) or function.attr not in PURE:
        raise UnknownError
    base = value_of(frame, function.value) if is_chain(function.value) else ...
    if base is not torch and base is not F:
        base = _again(frame, function.value)
        if not isinstance(base, Tensor):
            raise UnknownError
    return getattr(base, function.attr)(*args, **options)


def _through(layer: nn.Module, x: Tensor) -> Tensor:
    """What one of torch's plain layers makes of a tensor without numbers."""
    if type(layer) is nn.Linear and x.shape[-1] == layer.in_features:
        return x.new_empty(*x.shape[:-1], layer.out_features)
    if type(layer) is nn.Sequential:
        for one in layer:
            x = _through(one, x)
        return x
    if type(layer) in SAME_SHAPE:
        return x
    raise UnknownError


def _without_numbers(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device="meta")
    if value is None or isinstance(value, bool | int | float | torch.dtype):
        return value
    if type(value) in (tuple, list, torch.Size):
        return [_without_numbers(one) for one in value]
    raise UnknownError
