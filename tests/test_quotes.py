"""The package is the source, a notebook quotes it: ``python -m tools quotes`` rewrites quotes
that are stale."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from helpers import notebooks, read, tree

from mnist_vit import model

HOME = {  # which notebook teaches which class
    "MLP": "01_mlp",
    "MLPBlock": "01_mlp",
    "MultiHeadAttention": "03_multi_head_attention",
    "EncoderBlock": "04_encoder_block",
    "Encoder": "05_encoder",
    "VisionTransformer": "06_vision_transformer",
}
SOURCES = {name: inspect.getsource(getattr(model, name)).rstrip("\n") for name in HOME}


def quotes(cell: nbformat.NotebookNode) -> Iterator[tuple[str, int, int]]:
    """The classes that a cell defines under a name of ``mnist_vit.model``: name, first line, line
    after the last."""
    if cell.cell_type == "code":
        for node in ast.walk(tree(cell.source)):
            if isinstance(node, ast.ClassDef) and node.name in SOURCES:
                yield (
                    node.name,
                    min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1,
                    node.end_lineno,
                )


def requote(cell: nbformat.NotebookNode) -> None:
    """Put the package's text in the place of each class that a cell quotes."""
    for name, start, end in sorted(quotes(cell), key=lambda quote: -quote[1]):
        lines = cell.source.split("\n")
        cell.source = "\n".join([*lines[:start], *SOURCES[name].split("\n"), *lines[end:]])


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_quotes_are_the_package_letter_for_letter(path: Path) -> None:
    for cell in read(path).cells:
        for name, start, end in quotes(cell):
            quoted = "\n".join(cell.source.split("\n")[start:end])
            assert quoted == SOURCES[name], (
                f"{path.name}, {name}: python -m tools quotes rewrites stale quotes"
            )


def test_each_class_is_quoted_once_where_it_is_taught() -> None:
    found = [
        (name, path.stem)
        for path in notebooks()
        for cell in read(path).cells
        for name, *_ in quotes(cell)
    ]
    assert sorted(found) == sorted(HOME.items())
    assert set(HOME) == {name for name in model.__all__ if inspect.isclass(getattr(model, name))}


def test_in_the_first_half_quotes_stand_collapsed_under_a_title_of_their_own() -> None:
    for path in notebooks()[:7]:
        for cell in read(path).cells:
            if names := [name for name, *_ in quotes(cell)]:
                assert cell.metadata.get("cellView") == "form"
                assert cell.source.startswith("# @title Ours: " + names[0]), names
                first = min(start for _, start, _ in quotes(cell))
                assert not any(cell.source.split("\n")[1:first]), "the quote follows the title"


def main() -> None:
    """Rewrite stale quotes in place; the stored outputs stay, so nbval or ``notebooks/refresh.py``
    comes next."""
    for path in notebooks():
        notebook = nbformat.read(path, as_version=4)
        before = [cell.source for cell in notebook.cells]
        for cell in notebook.cells:
            requote(cell)
        if before != [cell.source for cell in notebook.cells]:
            nbformat.write(notebook, path)
            print(f"{path.name}: quotes rewritten")


if __name__ == "__main__":
    main()
