"""The package is the source, a notebook quotes it."""

import inspect
from pathlib import Path

import pytest
from helpers import notebooks, read

from mnist_vit import model
from tools.quotes import HOME, SOURCES, quotes, requote, text_of


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_quotes_are_the_package_letter_for_letter(path: Path) -> None:
    for cell in read(path).cells:
        for quote in quotes(cell):
            where = f"{path.name}, {quote.name}: python -m tools quotes"
            assert text_of(cell, quote) == SOURCES[quote.name], where


def test_a_stale_quote_is_rewritten_and_the_lines_around_it_stay() -> None:
    (cell,) = [cell for cell in read(notebooks()[4]).cells if list(quotes(cell))]
    stale = cell.copy()
    stale.source = cell.source.replace("self.dropout", "self.drop") + "\nprint()"
    assert stale.source.count("self.drop") > stale.source.count("self.dropout")
    assert requote(stale)
    assert stale.source == cell.source + "\nprint()"
    assert not requote(stale)


def test_each_class_is_quoted_once_where_it_is_taught() -> None:
    found = []
    for path in notebooks():
        for cell in read(path).cells:
            found += [(quote.name, path.stem) for quote in quotes(cell)]
    assert sorted(found) == sorted(HOME.items())
    assert set(HOME) == {name for name in model.__all__ if inspect.isclass(getattr(model, name))}


def test_in_the_first_half_quotes_stand_collapsed_under_a_title_of_their_own() -> None:
    for path in notebooks()[:7]:
        for cell in read(path).cells:
            found = list(quotes(cell))
            if found:
                assert cell.metadata.get("cellView") == "form"
                assert cell.source.startswith(f"# @title Ours: {found[0].name}")
                first = min(quote.start for quote in found)
                between = cell.source.split("\n")[1:first]
                assert not any(between), "the quote follows the title"
