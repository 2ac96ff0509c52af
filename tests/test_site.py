"""The site as the README's command builds it (``pytest -m full``), and its look (``-m browser``).

Screenshots stay in ``runs/site-shots/``, or in ``site-shots/`` under ``MNIST_VIT_OUT``.
"""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from helpers import ROOT, environment, notebooks, pictures
from test_browser import BADGE

import mnist_vit

SHOTS = Path(os.environ.get("MNIST_VIT_OUT") or ROOT / "runs") / "site-shots"
LOOKED_AT = [
    "index",
    "docs/index",
    "notebooks/05_encoder",
    "notebooks/glossary",
    "docs/api",
    "docs/teaching",
    "docs/live",
]


class Page(HTMLParser):
    """The links, sources and anchors of a page, and how many elements of each kind it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.count: dict[str, int] = {}
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "action") and value:
                (self.loaded if tag == "link" else self.links).append(value)
            if name == "src" and value:
                self.loaded.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    pytest.importorskip(
        "myst_nb", reason='the site\'s generator is not installed: pip install -e ".[site]"'
    )
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    command = re.search(
        r"\.venv/bin/python (-m sphinx .*) runs/site$", contributing, re.MULTILINE
    ).group(1)
    folder = tmp_path_factory.mktemp("site")
    env = environment(
        https_proxy="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9"
    )  # as without a network
    words = [sys.executable, *command.split(), "-d", str(folder / "trees"), str(folder / "html")]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


@pytest.mark.full
def test_every_notebook_is_a_page_with_its_outputs(site: Path, pages: dict[Path, Page]) -> None:
    for path in notebooks():
        page = pages[site / "notebooks" / f"{path.stem}.html"]
        cells = nbformat.read(path, as_version=4).cells
        assert page.count["img"] >= len(pictures(path)) > 0
        assert "importlib.util.find_spec" not in page.text or path.stem == "00_start_here", (
            "the setup cell is for Colab"
        )
        formulas = sum(
            cell.source.count("$$") // 2 for cell in cells if cell.cell_type == "markdown"
        )
        assert page.text.count('display="block"') >= formulas
        hidden = [cell for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
        # the setup cell
        assert page.text.count('<details class="admonition hide') >= len(hidden) - 1
    for page in pages.values():
        assert not re.search(
            r"\\(frac|sqrt|mathrm|text)\b", re.sub(r"<annotation.*?</annotation>", "", page.text)
        )


@pytest.mark.full
def test_no_link_is_dead_and_nothing_is_loaded_from_elsewhere(
    site: Path, pages: dict[Path, Page]
) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("https", "data", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = (
                pages[target].anchors
                if target in pages and parts.fragment
                else {unquote(parts.fragment)}
            )
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                dead.append((path.relative_to(site).as_posix(), link))
    assert dead == []
    loaded = set().union(*(page.loaded for page in pages.values()))
    assert {link for link in loaded if link.startswith(("http:", "https:", "//"))} <= {BADGE}


@pytest.mark.full
def test_api_search_teachers_page_and_live_page_are_there(
    site: Path, pages: dict[Path, Page]
) -> None:
    api = pages[site / "docs" / "api.html"]
    assert {f"mnist_vit.{name}" for name in mnist_vit.__all__} <= api.anchors
    assert "Args" not in re.sub(r"<[^>]+>", " ", api.text), "arguments are a list, not a paragraph"
    assert "attention-weight" in pages[site / "notebooks" / "glossary.html"].anchors
    assert "patch" in (site / "searchindex.js").read_text(encoding="utf-8")
    front = pages[site / "docs" / "index.html"].links
    live = [path for path, page in pages.items() if 'content="mnist_vit"' in page.text]
    for name in (
        "teaching.html",
        "api.html",
        "live.html",
        "../notebooks/glossary.html",
        "../search.html",
    ):
        assert any(link.startswith(name) for link in front), name
    assert not (site / "docs" / "tasks_answers.html").exists(), "answers are for teachers"
    scripts = pages[site / "docs" / "index.html"].loaded
    assert any("copybutton.js" in link for link in scripts)
    assert "../attention/index.html" in pages[site / "docs" / "live.html"].loaded
    for name in ("index.html", "smallest.html"):  # which open each other: no copies elsewhere
        assert [path.parent for path in site.rglob(name) if path in live] == [site / "attention"]
        assert f"../attention/{name}" in front


@pytest.mark.full
def test_the_first_page_is_the_live_page_with_a_start(site: Path, pages: dict[Path, Page]) -> None:
    first = pages[site / "index.html"]
    assert {"notebooks/00_start_here.html", "docs/index.html"} <= set(first.links)
    assert "attention/index.html" in first.loaded


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("device", "width", "height"), [("laptop", 1366, 900), ("phone", 390, 844)]
)
def test_nothing_sticks_out_of_a_laptop_or_a_phone(
    site: Path,
    scheme: str,
    device: str,
    width: int,
    height: int,
    chromium: Any,
) -> None:
    """Screenshots to look at. What a test can say: no page has to be moved sideways, none is white
    in the dark."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    for name in LOOKED_AT:
        page = context.new_page()
        page.goto((site / f"{name}.html").as_uri())
        page.screenshot(path=SHOTS / f"{name.replace('/', '_')}_{device}_{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
        assert (light > 128) == (scheme == "light"), (name, colour)
        page.close()
    context.close()
