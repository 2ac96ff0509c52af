"""The package is the source, a notebook quotes it: rewrite the quotes that are stale."""

import ast
import inspect
from collections.abc import Iterator
from typing import NamedTuple

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from mnist_vit import model

from . import notebooks

HOME = {  # which notebook teaches which class
    "MLP": "01_mlp",
    "MLPBlock": "01_mlp",
    "MultiHeadAttention": "03_multi_head_attention",
    "EncoderBlock": "04_encoder_block",
    "Encoder": "05_encoder",
    "VisionTransformer": "06_vision_transformer",
}
SOURCES = {name: inspect.getsource(getattr(model, name)).rstrip("\n") for name in HOME}


class Quote(NamedTuple):
    """A class that a cell defines: its lines, counted from 0, ``end`` not included."""

    name: str
    start: int
    end: int


def quotes(cell: nbformat.NotebookNode) -> Iterator[Quote]:
    """The classes that a cell defines under a name of ``mnist_vit.model``."""
    if cell.cell_type != "code":
        return
    for node in ast.walk(ast.parse(TransformerManager().transform_cell(cell.source))):
        if isinstance(node, ast.ClassDef) and node.name in SOURCES:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Quote(node.name, first - 1, node.end_lineno)


def text_of(cell: nbformat.NotebookNode, quote: Quote) -> str:
    """The text of a quote."""
    return "\n".join(cell.source.split("\n")[quote.start : quote.end])


def requote(cell: nbformat.NotebookNode) -> bool:
    """Put the package's text in the place of each quote; return whether the cell changed."""
    before = cell.source
    last_first = sorted(quotes(cell), key=lambda quote: -quote.start)
    for quote in last_first:
        lines = cell.source.split("\n")
        lines[quote.start : quote.end] = SOURCES[quote.name].split("\n")
        cell.source = "\n".join(lines)
    return cell.source != before


def main(words: list[str]) -> None:
    """Rewrite stale quotes; the stored outputs stay, so ``python -m tools outputs`` comes next."""
    for path in notebooks():
        notebook = nbformat.read(path, as_version=4)
        changed = [requote(cell) for cell in notebook.cells]
        if any(changed):
            nbformat.write(notebook, path)
            print(f"{path.name}: quotes rewritten")
