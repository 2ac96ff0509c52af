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
    cell = next(cell for cell in read(notebooks()[4]).cells if list(quotes(cell)))
    quote = next(quotes(cell))
    lines = cell.source.split("\n")
    lines[quote.start + 1] += "  # stale"
    stale = cell.copy()
    stale.source = "\n".join([*lines, "print()"])
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
                assert found[0].name in cell.source.partition("\n")[0]
                first = min(quote.start for quote in found)
                between = cell.source.split("\n")[1:first]
                assert not any(between), "the quote follows the title"
