"""The learner's line at which an exception was raised, and what the names in it stand for."""

import ast
import linecache
import re
import traceback
from types import FrameType
from typing import Any

from torch import Tensor

from ..observing.tracing import is_of_models, is_theirs, source_of


def their_frame(error: BaseException) -> FrameType | None:
    """The learner's innermost frame."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if is_theirs(frame.f_code.co_filename):
            found = frame
    return found


def their_line(error: BaseException) -> str:
    """The learner's line nearest to the error; "" if there is none."""
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            line = _text_of(frame)
    return line


def _text_of(frame: traceback.FrameSummary) -> str:
    """The text of the line at which a frame stands."""
    return (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()


def inner_line(error: BaseException) -> str:
    """The line of a model that the learner's line called, and in which it raised; else ""."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_theirs(frame.filename):
            found = ""
        elif is_of_models(frame.filename):
            found = _text_of(frame)
    return found


def calling_line(error: BaseException) -> str:
    """The learner's line from which another function of theirs was called that raised; else ""."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if is_theirs(one.filename)]
    if len(frames) < 2 or frames[-1].name == frames[-2].name:
        return ""
    calling = _text_of(frames[-2])
    return "" if calling == _text_of(frames[-1]) else calling  # as in a list comprehension


def failed(error: BaseException) -> ast.expr | None:
    """The learner's innermost expression that raised, over whatever lines; None if unknown."""
    found = None
    step = error.__traceback__
    while step is not None:
        if is_theirs(step.tb_frame.f_code.co_filename):
            found = step
        step = step.tb_next
    if found is None:
        return None
    text, _ = source_of(found.tb_frame.f_code, found.tb_lasti, found.tb_lineno)
    tree = parsed(text)
    node = tree.body[0] if isinstance(tree, ast.Module) and len(tree.body) == 1 else None
    return node.value if isinstance(node, ast.Expr) else None


def parsed(line: str) -> ast.AST:
    """A line as a tree; an empty one if it cannot be parsed by itself."""
    try:
        return ast.parse(_whole(line))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _whole(line: str) -> str:
    """A line that can be parsed: a header without its colon and its word."""
    header = re.match(r"(?:if|elif|while|for .* in|with|return)\b(.*?):?$", line)
    return header[1].strip() if header else line


def chains(tree: ast.AST) -> list[ast.expr]:
    """Names, attributes of names, and their attributes, that a line reads, each in its whole."""
    found: list[ast.expr] = []
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            nodes += [node.func.value, *node.args, *node.keywords]  # not the method
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            if is_chain(node):
                found.append(node)
            else:
                nodes += ast.iter_child_nodes(node)
        else:
            nodes += ast.iter_child_nodes(node)
    return found


def is_chain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def value_of(frame: FrameType, node: ast.expr) -> Any:
    """The value of a name or of attributes of one, a tensor for its shape; Ellipsis if there is
    none."""
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        base = _value_of(frame, node.value)
        if isinstance(base, Tensor):
            return base
    return _value_of(frame, node)


def _value_of(frame: FrameType, node: ast.expr) -> Any:
    if isinstance(node, ast.Attribute):
        base = _value_of(frame, node.value)
        try:
            return getattr(base, node.attr, ...) if base is not ... else ...
        except Exception:  # a property may raise anything
            return ...
    name = node.id if isinstance(node, ast.Name) else ""
    return frame.f_locals.get(name, frame.f_globals.get(name, ...))
