"""Settings of the site: ``python -m sphinx -c docs . runs/site`` builds it from the notebooks'
stored outputs, offline.

Nothing is executed. The source folder is the whole clone, so that links between notebooks and texts
hold as they are.
"""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent

project = "mnist_vit"
html_title = "mnist_vit"
project_copyright = "the authors of the mnist_vit course, MIT licence"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
include_patterns = [
    "docs/*.md",
    "notebooks/*.ipynb",
    "notebooks/*.md",
    "benchmarks/results/*.md",
]
exclude_patterns = ["docs/architecture.md"]  # for maintainers, beside the code
root_doc = "docs/index"
suppress_warnings = ["mystnb.unknown_mime_type", "myst.header"]

nb_execution_mode = "off"  # the stored outputs are shown
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = True

autodoc_typehints = "signature"
maximum_signature_line_length = 80
autodoc_member_order = "bysource"

project_file = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
home = project_file["tool"]["hatch"]["metadata"]["hooks"]["custom"]["home"]

html_theme = "furo"
if home:  # a link to the source of each page
    html_theme_options = {"source_repository": home, "source_branch": "main"}
copybutton_selector = ".highlight-bash pre, .highlight-python pre"  # not the cells of notebooks
pygments_dark_style = "github-dark"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"


LINK = re.compile(
    r"(?<!!)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)"
)


def adapt(app: Sphinx, name: str, content: list[str]) -> None:
    """A page as the site shows it: the README's first half is the first page; collapsed cells and
    links are adapted."""
    folder = (ROOT / name).parent
    if name == root_doc:
        start = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Check everything")[0]
        content[0] = re.sub(r"\]\((?!https?:|#)", "](../", start) + content[0]
    if content[0].startswith("{"):  # a notebook
        notebook = json.loads(content[0])
        notebook["cells"] = [
            cell for cell in notebook["cells"] if "setup" not in cell["metadata"].get("tags", [])
        ]
        for cell in notebook["cells"]:
            if cell["metadata"].get("jupyter", {}).get("source_hidden"):
                cell["metadata"].setdefault("tags", []).append("hide-input")
                title = "".join(cell["source"]).partition("\n")[0].removeprefix("# @title ")
                cell["metadata"]["mystnb"] = {"code_prompt_show": title, "code_prompt_hide": title}
        content[0] = json.dumps(notebook)

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found.groups()
        if target == "../README.md":
            return f"[{words}](index.md{anchor or ''})"
        path = (folder / target).resolve()
        if path.suffix in (".md", ".ipynb"):
            page = path.relative_to(ROOT).with_suffix("").as_posix()
            return found[0] if page in app.env.found_docs else words
        if path.suffix == ".html":  # a live page: not a copy of it, which would be alone
            return f'<a href="{target}">{words}</a>'
        return found[0] if path.is_file() else words  # a folder has no page

    if not content[0].startswith("{"):
        content[0] = LINK.sub(link, content[0])


def arguments(_: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """A docstring's "Args, besides those of ``evaluate``:" in the words that napoleon knows."""
    for number, line in enumerate(lines):
        if beside := re.fullmatch(r"Args, besides those of ``(\w+)``:", line):
            lines[number : number + 1] = [
                f"Further arguments are those of :func:`mnist_vit.{beside[1]}`.",
                "",
                "Args:",
            ]


FRONT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mnist_vit: build a Vision Transformer</title>
<style>
:root { color-scheme: light dark; }
body { background: Canvas; color: CanvasText; }
body { margin: 0; height: 100vh; display: flex; flex-direction: column; font: 1rem/1.5 system-ui; }
p { margin: 0; padding: 0.6rem 1rem; display: flex; flex-wrap: wrap; gap: 0.4rem 1.2rem; }
.start { font-weight: bold; }
iframe { flex: 1; width: 100%; border: 0; border-top: 1px solid gray; }
</style>
<p><span>A Vision Transformer runs on this page; in the course you build it yourself, in notebooks.
</span><a class="start" href="notebooks/00_start_here.html">Start</a>
<a href="docs/index.html">About the course</a></p>
<iframe src="attention/index.html" title="The shipped model vit_mnist, live"></iframe>
</html>
"""


def write_front(app: Sphinx, error: Exception | None) -> None:
    """The first page: the live page, which lies beside the site's own pages, below one sentence."""
    if error is None and app.builder.name == "html":
        shutil.copytree(ROOT / "attention", Path(app.outdir) / "attention", dirs_exist_ok=True)
        (Path(app.outdir) / "index.html").write_text(FRONT, encoding="utf-8")


def math(display: str) -> Any:
    """What writes a formula as MathML, which browsers draw themselves, without a script from
    elsewhere."""

    def visit(translator: Any, node: nodes.Element) -> None:
        formula = re.sub(r"\\tag\{(.*?)\}", r"\\qquad (\1)", node.astext())
        translator.body.append(convert(formula, display=display))
        raise nodes.SkipNode

    return visit, None


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", math("inline"), math("block"))
    app.connect("source-read", adapt)
    app.connect("autodoc-process-docstring", arguments, priority=100)  # before napoleon
    app.connect("build-finished", write_front)
