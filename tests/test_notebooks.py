"""The form of the notebooks: order, links, setup cell, exercises, outputs for every machine; the
learner's copy."""

import ast
import os
import re
import symtable
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import torch
from helpers import NOTEBOOKS, ROOT, code_cells, notebooks, read, tagged, tags, tree
from IPython.core.error import UsageError
from nbformat import NotebookNode

from mnist_vit import check, course, files
from mnist_vit.__main__ import main
from mnist_vit.course.checking import verdict
from mnist_vit.jobs import copy_notebooks
from tools import count, stamp

COURSE = [path.stem for path in notebooks()]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")
MACHINE = re.compile(
    r"/root|/home/|/tmp|/work|/usr|/Users|[A-Z]:\\|-packages|ipykernel|0x[0-9a-f]{6,}"
)
TAGS = re.compile(
    r"setup|(exercise|check):\w+|raises-exception|nbval-ignore-output|needs-cifar10|long"
)
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
ELSEWHERE = "https://github.com/some-one/some-course"
COLLAPSED = {"jupyter": {"source_hidden": True}, "cellView": "form"}
DESCRIBED = re.compile(
    r"<details>\s*<summary>The picture in words</summary>\s*(\S.{40,}?)\s*</details>", re.DOTALL
)

each_notebook = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


def text(path: Path) -> str:
    """All the Markdown of a notebook."""
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def links(markdown: str) -> list[tuple[str, str]]:
    """(! or nothing, address) of each link, those inside the text of a link too; code and formulas
    have none."""
    found = []
    prose = re.sub(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$", "", markdown, flags=re.DOTALL)
    for picture, inside, address in LINK.findall(prose):
        found += [(picture, address), *links(inside)]
    return found


def headings(markdown: str) -> list[tuple[int, str]]:
    """(level, text) of each heading."""
    marks = re.findall(
        r"^(#+) +(.+?) *$", re.sub(r"```.*?```", "", markdown, flags=re.DOTALL), re.MULTILINE
    )
    return [(len(mark), words) for mark, words in marks]


def anchors(path: Path) -> set[str]:
    """What links to headings are called: on GitHub, Markdown files have them in lower case,
    notebooks as written."""
    if path.suffix == ".ipynb":
        return {words.replace(" ", "-") for _, words in headings(text(path))}
    markdown = path.read_text(encoding="utf-8")
    return {
        re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for _, words in headings(markdown)
    }


def printed(cell: NotebookNode) -> str:
    """All stored text of a cell."""
    parts = [output.get("text", "") for output in cell.outputs]
    for output in cell.outputs:
        parts += [value for kind, value in output.get("data", {}).items() if "text" in kind]
    return "\n".join(map(str, parts))


# ------------------------------------------------------------------------------------------------
# order and links


def test_the_notebooks_are_there_in_order() -> None:
    assert sorted(NOTEBOOKS.glob("*.ipynb")) == notebooks()
    assert [stem[:3] for stem in COURSE] == [f"{number:02}_" for number in range(len(COURSE))]
    row = re.compile(r"^\| \[[^]]*\]\((?:notebooks/)?(\w+)\.ipynb\)", re.MULTILINE)
    assert row.findall((ROOT / "README.md").read_text(encoding="utf-8")) == COURSE
    assert row.findall(text(notebooks()[0])) == COURSE[1:]


@each_notebook
def test_it_begins_with_title_and_setup_and_leads_on(path: Path) -> None:
    found = headings(text(path))
    assert [words for level, words in found if level == 1] == [found[0][1]]
    assert re.match(rf"{path.stem[:2]} · \S", found[0][1])
    assert tags(code_cells(path)[0]) == ["setup"]
    after = re.search(r"(?ms)^## Next$(.*?)(?=^## |\Z)", text(path))
    assert after, "a section that leads on"
    following = {
        f"{stem}.ipynb" for stem in COURSE[COURSE.index(path.stem) + 1 :][:1]
    }  # none after the last one
    assert following <= {address for _, address in links(after[1])}


def dead(address: str, path: Path) -> bool:
    """Whether a link of a Markdown text in ``path`` leads nowhere on this disk, or out of a
    learner's copy."""
    if re.match(r"https?://", address):
        return False
    name, _, anchor = address.partition("#")
    target = path.parent / name if name else path
    if not target.exists() or NOTEBOOKS not in target.resolve().parents:
        return True
    return bool(anchor) and anchor not in anchors(target)


@each_notebook
def test_local_links_lead_somewhere(path: Path) -> None:
    found = links(text(path))
    assert [address for _, address in found if dead(address, path)] == []
    assert [address for _, address in found if address.startswith("http:")] == []
    badges = [BADGE] if stamp.home() else []
    assert [address for picture, address in found if picture] == badges, (
        "no picture is pasted in, or fetched"
    )
    for gone in ("glossary.md#nothing", "gone.md", "../README.md", "#nowhere"):
        assert dead(gone, path)


def test_terms_of_the_glossary_can_be_linked() -> None:
    terms = [
        words
        for level, words in headings((NOTEBOOKS / "glossary.md").read_text(encoding="utf-8"))
        if level == 3
    ]
    assert terms == sorted(set(terms))
    assert all(
        term == term.lower() for term in terms
    )  # JupyterLab's anchors keep capitals, GitHub's do not


# ------------------------------------------------------------------------------------- address,
# badge, setup cell


@each_notebook
def test_badge_and_setup_cell_are_as_stamped(path: Path) -> None:
    stored, stamped = nbformat.read(path, as_version=4), nbformat.read(path, as_version=4)
    stamp.stamp(stamped, path.stem, stamp.home())
    assert stamped == stored, "python -m tools stamp"
    stamp.stamp(stamped, path.stem, ELSEWHERE)
    (badge,) = (address for _, address in links(stamped.cells[0].source) if "/github/" in address)
    assert (
        badge
        == f"https://colab.research.google.com/github/some-one/some-course/blob/main/notebooks/{path.name}"
    )
    assert stamped.cells[0].source.startswith(f"# {path.stem[:2]} · ")
    stamp.stamp(stamped, path.stem, "")
    assert "colab" not in stamped.cells[0].source, "without a home a badge would lead nowhere"
    assert "some-one" not in "".join(cell.source for cell in stamped.cells)


def test_the_readmes_badges_are_stamped_too() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert stamp.stamp_readme(readme, stamp.home()) == readme, "python -m tools stamp"
    elsewhere = stamp.stamp_readme(readme, ELSEWHERE)
    for path in notebooks():
        assert f"/github/some-one/some-course/blob/main/notebooks/{path.name})" in elsewhere
    counts = {path.stem: count.count(path) for path in notebooks()}
    assert count.with_minutes(elsewhere, counts) == elsewhere, (
        "the table's minutes can still be renewed"
    )
    assert stamp.stamp_readme(elsewhere, "") == stamp.stamp_readme(readme, "")
    assert "Open in Colab" not in stamp.stamp_readme(elsewhere, "")


@pytest.mark.parametrize("name", stamp.TEXTS)
def test_one_address_reaches_every_text(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert stamp.stamp_text(name, text, stamp.home()) == text, "python -m tools stamp"
    elsewhere = stamp.stamp_text(name, text, ELSEWHERE)
    assert "some-one/some-course" in elsewhere
    assert "git clone ADDRESS" not in elsewhere
    assert stamp.stamp_text(name, elsewhere, ELSEWHERE) == elsewhere, "stamped once"
    assert "some-one" not in stamp.stamp_text(name, elsewhere, "")


@pytest.mark.parametrize(
    "spec", [None, SimpleNamespace(origin=None)], ids=["nothing", "a folder of that name"]
)
@pytest.mark.parametrize("home", ["", ELSEWHERE], ids=["no home", "a home"])
@pytest.mark.parametrize(
    "wheels", [[], ["mnist_vit-1.1.0-py3-none-any.whl", "mnist_vit-1.0.0-py3-none-any.whl"]]
)
def test_setup_cell_installs_the_wheel_beside_it_else_from_home_else_says_what_to_do(
    wheels: list[str], home: str, spec: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(wheels):  # the one uploaded last counts
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number, number))
    asked: list[str] = []
    source = stamp.SETUP.format(home=home).replace(
        '%pip install -q "{source}"', "asked.append(str(source))"
    )
    found = SimpleNamespace(origin="mnist_vit/__init__.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found if asked else spec)
    if wheels or home:
        exec(compile(source, "setup", "exec"), {"asked": asked})
        assert asked == [wheels[-1] if wheels else f"mnist-vit @ git+{ELSEWHERE}"]
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name: spec
        )  # as if pip had no network
    with pytest.raises(UsageError, match=r"wheel.*https://") as told:
        exec(compile(source, "setup", "exec"), {"asked": asked})
    assert (home or "README") in str(told.value)


def test_setup_cell_does_nothing_where_the_package_is() -> None:
    source = stamp.SETUP.format(home=ELSEWHERE)
    exec(compile(source.replace("%pip", "raise SystemExit  # %pip"), "setup", "exec"), {})


# ------------------------------------------------------------------------------------------
# exercises and outputs


@each_notebook
def test_every_exercise_is_a_stub_a_check_and_a_way_to_hints(path: Path) -> None:
    stubs, checks = tagged(path, "exercise"), tagged(path, "check")
    assert (
        sorted(stubs)
        == sorted(checks)
        == sorted(exercise.name for exercise in course.exercises(path.stem))
    )
    order = []
    for cell in code_cells(path):
        order += tags(cell)
    expected = []
    for name in stubs:
        expected += [f"exercise:{name}", f"check:{name}"]
    assert [tag for tag in order if ":" in tag] == expected
    for name in stubs:
        exercise = check.EXERCISES[name]
        assert checks[name].source == f"check.{name}({exercise.answer.__name__})"
        assert printed(checks[name]).strip() == verdict(exercise, None)[1]
        assert stubs[name].source.rstrip().endswith("raise NotImplementedError")
        (defined,) = (
            node
            for node in tree(stubs[name].source).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        )
        assert defined.name == exercise.answer.__name__
        before = "\n".join(cell.source for cell in read(path).cells).partition(stubs[name].source)[
            0
        ]
        assert len(re.findall("★+", before)[-1]) == exercise.stars, (
            f"{name}: stars in the text before the stub"
        )
    hinted = re.findall(r'check\.hint\("(\w+)", 1\)', text(path))
    assert set(hinted) <= set(stubs)
    assert hinted or not stubs


@each_notebook
def test_every_cell_has_run_in_order_and_is_compared(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in read(path).cells:
        assert all(TAGS.fullmatch(tag) for tag in tags(cell)), tags(cell)
    for cell in cells:
        assert not re.search("NBVAL_|PYTEST_VALIDATE", cell.source), (
            "tags, not comments, mark cells"
        )
        assert "nbval-ignore-output" not in tags(cell) or cell.source.startswith("# not compared: ")


def names_used(statement: ast.stmt) -> set[str]:
    """The names of a cell that a statement of it reads; the locals of a function are not among
    them."""
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    inner = table.get_children()
    while inner:
        table = inner.pop()
        used |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        inner += table.get_children()
    loops = ast.For | ast.With | ast.Try
    return used - names_defined(statement) if isinstance(statement, loops) else used


def names_defined(statement: ast.stmt) -> set[str]:
    """The names of a cell that a statement of it gives a value."""
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    given = [one for one in table.get_symbols() if one.is_assigned() or one.is_imported()]
    return {symbol.get_name() for symbol in given}


def needed_of_long(cells: list[NotebookNode]) -> set[str]:
    """The names that cells tagged long define and other cells use."""
    of_long: set[str] = set()
    needed: set[str] = set()
    for cell in cells:
        for statement in tree(cell.source).body:
            given = names_defined(statement)
            if "long" in tags(cell):
                of_long |= given
            else:
                needed |= names_used(statement) & of_long
                of_long -= given
    return needed


@each_notebook
def test_no_cell_and_no_exercise_needs_a_cell_that_is_left_out(path: Path) -> None:
    cells = code_cells(path)
    assert needed_of_long(cells) == set()
    for cell in cells:
        if "long" in tags(cell):
            assert set(tags(cell)) <= {"long", "nbval-ignore-output"}


@pytest.mark.parametrize(
    ("sources", "needed"),
    [
        (["model = 1", "print(model)"], {"model"}),
        (["model = 1", "def f():\n    return model"], {"model"}),
        (["def f():\n    pass", "model = f()"], {"f"}),
        (["model = 1", "model = 2\nprint(model)"], set()),
        (["model = 1", "model = model + 1"], {"model"}),
        (["for model in ():\n    pass", "def f(model):\n    return model"], set()),
    ],
)
def test_names_of_a_long_cell(sources: list[str], needed: set[str]) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["long"]
    assert needed_of_long(cells) == needed


@each_notebook
def test_outputs_fit_every_machine(path: Path) -> None:
    versions = [
        re.escape(v)
        for v in (torch.__version__.partition("+")[0], ".".join(map(str, sys.version_info[:3])))
    ]
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type in (
                "stream",
                "display_data",
                "execute_result",
            ), output.output_type
            assert output.get("name", "stdout") == "stdout"
            assert set(output.get("data", {})) <= {
                "text/plain",
                "text/html",
                "text/markdown",
                "image/png",
            }
        stored = printed(cell)
        for pattern in (MACHINE.pattern, *versions, r"\d\.\d{4,}", r"\d\.\d+e[-+]\d", r"https?://"):
            computed = [found for found in re.findall(pattern, stored) if found not in cell.source]
            assert computed == [], f"in the output of\n{cell.source}\n{stored}"
    assert not MACHINE.search("".join(cell.source for cell in read(path).cells))
    assert read(path).metadata.language_info == {
        "name": "python"
    }  # no version; python -m tools outputs takes all else away
    for cell in read(path).cells:
        rest = {key: value for key, value in cell.metadata.items() if key != "tags"}
        assert rest in ({}, COLLAPSED), cell.source
        assert "attachments" not in cell
        for output in cell.get("outputs", []):
            sizes = output.get("metadata", {})
            assert set(sizes) == ({"image/png"} & set(output.get("data", {}))), (
                "python -m tools outputs"
            )
            assert all(set(size) == {"width", "height"} for size in sizes.values())


# ------------------------------------------------------------------------------------------ what is
# read, and how long


@each_notebook
def test_setup_and_ours_are_collapsed_under_a_title_and_nothing_else_is(path: Path) -> None:
    for cell in code_cells(path):
        collapsed = cell.metadata.get("cellView") == "form"
        titled = cell.source.startswith("# @title ")
        assert collapsed == titled, cell.source
        assert collapsed == (count.kind(cell) in ("setup", "ours")), cell.source


@each_notebook
def test_every_picture_is_described_beside_it(path: Path) -> None:
    cells = read(path).cells
    for number, cell in enumerate(cells):
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            beside = [
                one.source
                for one in (cells[number - 1], cells[number + 1])
                if one.cell_type == "markdown"
            ]
            assert DESCRIBED.match(beside[-1].lstrip()), (
                f"no <details><summary>The picture in words</summary> follows\n{cell.source}"
            )


def test_minutes_are_counted_not_guessed() -> None:
    """``python -m tools count --write`` puts them in."""
    counts = {path.stem: count.count(path) for path in notebooks()}
    for path in notebooks():
        assert len(count.TIME.findall(text(path))) == 1, f"{path.stem}: **Time:** about … minutes"
        for cell in read(path).cells:
            if cell.cell_type == "markdown":
                assert cell.source == count.with_minutes(cell.source, counts, path.stem), (
                    "python -m tools count --write"
                )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == count.with_minutes(readme, counts)


def test_counting() -> None:
    prose = (
        "Two *words*, [a link](glossary.md#link) and $x_1 + x_2$.\n$$y = 2$$\n| a table |"
        " `code` |\n"
    )
    assert count.words_of(prose) == 8
    folded = (
        "<details><summary>The picture in words</summary>\n\nA line.\n\n</details>\n\nIt rises."
    )
    assert count.words_of(folded) == 2
    assert count.words_of(folded.replace("The picture in words", "Why?")) == 5
    core = count.Part(words=2800, code=200, ours=40, yours=40, predictions=15, stars=[1, 2, 3])
    more = count.Part(words=1000, code=0, ours=0, yours=9, predictions=0, stars=[2])
    nothing = count.Part(words=0, code=0, ours=0, yours=0, predictions=0, stars=[])
    one = count.Count("04_x", core, nothing)
    assert one.time == "about 55 minutes, and about 30 more for the exercises"  # 14 + 25 + 15
    both = count.Count("04_x", core, more)
    assert both.time == f"{one.time}; below *More*, about 15 more"
    two = count.Count("05_y", count.Part(600, 0, 0, 0, 0, []), nothing)
    counts = {"04_x": one, "05_y": two}
    old = (
        "**Time:** about 7 minutes. **You need:** 03.\n\n### Exercise: so ★★ (8 minutes)\n\n###"
        " Exercise: and so ★"
    )
    new = "**Time:** about 5 minutes. **You need:** 03.\n\n### Exercise: so ★★ (10 minutes)\n\n"
    assert count.with_minutes(old, counts, "05_y") == f"{new}### Exercise: and so ★ (5 minutes)"
    table = "| [04 · X](04_x.ipynb) | so | 1 | 2 |\n| [05 · Y](05_y.ipynb) | so | 1 | |"
    assert count.with_minutes(table, counts) == table.replace("1 | 2 |", "55 | 30 |").replace(
        "1 | |", "5 | |"
    )
    row = "| [04 X](notebooks/04_x.ipynb) | so | [badge](there) | 1 |"
    assert count.with_minutes(row, counts) == row.replace(" 1 |", " 55 |")


def test_the_core_ends_at_the_heading_more(tmp_path: Path) -> None:
    cells = [
        nbformat.v4.new_markdown_cell("# 01 · X\n\n### Exercise: a ★"),
        nbformat.v4.new_code_cell("a = 1"),
        nbformat.v4.new_markdown_cell("## Next\n\nNo more."),
        nbformat.v4.new_markdown_cell("---\n\n## More\n\n### Exercise: b ★★★★"),
        nbformat.v4.new_code_cell("b = 1\nc = 2"),
    ]
    path = tmp_path / "01_mlp.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    counted = count.count(path)
    assert (counted.core.code, counted.core.stars) == (1, [1])
    assert (counted.more.code, counted.more.stars) == (2, [4])
    assert counted.more.exercise_minutes == 60


# -----------------------------------------------------------------------------------------------
# the learner's copy


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_learners_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "my course"
    assert main(["notebooks", str(copied)]) == 0
    assert str(copied) in capsys.readouterr().out
    expected = {path.name for path in notebooks()} | {"conftest.py"}
    expected |= {"glossary.md", "tasks.md", "solutions/tasks_answers.md"}
    expected |= {f"solutions/{path.name}" for path in (NOTEBOOKS / "solutions").glob("*.py")}
    assert main(["notebooks", str(tmp_path / "with"), "--with-outputs"]) == 0
    assert names(copied) == names(tmp_path / "with") == expected
    for name in expected:
        original, mine = (NOTEBOOKS / name).read_bytes(), (copied / name).read_bytes()
        assert (tmp_path / "with" / name).read_bytes() == original
        if name.endswith(".ipynb"):  # nothing answers a question before it is asked
            notebook = nbformat.reads(original.decode(), as_version=4)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
            original = (nbformat.writes(notebook) + "\n").encode()
        assert mine == original
    capsys.readouterr()

    work = tmp_path / "begun" / notebooks()[-1].name  # nothing is overwritten
    work.parent.mkdir()
    work.write_text("my work")
    assert main(["notebooks", str(work.parent)]) == 2
    assert (names(work.parent), work.read_text()) == ({work.name}, "my work")
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert str(work) in told.err

    monkeypatch.setattr(files, "CHECKOUT", None)
    monkeypatch.setattr(files, "PACKAGE", tmp_path)
    with pytest.raises(ValueError, match="reinstall mnist_vit"):
        copy_notebooks(tmp_path / "copy")
