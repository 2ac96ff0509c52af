"""A wrong answer is an edit of a right one: the one machine that makes and runs edited source.

An edit is a dictionary, ``{old text: new text}``. Exercises edit their solutions; ``check.vit`` and
the bugs of notebook 06 edit ``mnist_vit.model``.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from torch import nn

import mnist_vit.model

Edit = Mapping[str, str]

# nn.MultiheadAttention has no source to edit: the package's own attention stands in for it.
FROM_SCRATCH = {
    "nn.MultiheadAttention(\n"
    "            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True\n"
    "        )": "MultiHeadAttention(hidden_dim, num_heads, attention_dropout)",
}


def edited(source: str, edit: Edit, where: str) -> str:
    """The source after an edit.

    Args:
        source: the text.
        edit: ``{old text: new text}``, made one after the other.
        where: what an error calls the source.

    Raises:
        ValueError: an old text does not stand in the source exactly once.
    """
    for old, new in edit.items():
        count = source.count(old)
        if count != 1:
            raise ValueError(f"{where} must hold {old!r} once, and holds it {count} times")
        source = source.replace(old, new)
    return source


def execute(source: str, file: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run source text with these names in reach; returns all names that are there afterwards."""
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names


def edited_model(*edits: Edit) -> Callable[..., nn.Module]:
    """``VisionTransformer`` of an edited ``mnist_vit.model``, with attention from scratch.

    Raises:
        ValueError: an old text does not stand in the module's source exactly once.
    """
    source = _model_source()
    for edit in (FROM_SCRATCH, *edits):
        source = edited(source, edit, "mnist_vit/model.py")
    module = ModuleType("mnist_vit.edited")
    module.__package__ = "mnist_vit"
    execute(source, "mnist_vit/model.py, edited", vars(module))
    return module.VisionTransformer


@functools.cache
def _model_source() -> str:
    return inspect.getsource(mnist_vit.model)
