"""The form of the notebooks: headings, setup cell, links, tags, stored outputs, alt text; and the learner's copy."""

import ast
import copy
import itertools
import re
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from helpers import NOTEBOOKS, ROOT, code_cells, from_file, notebooks, read, tagged, tags, tree
from nbformat import NotebookNode

from mnist_vit import check, files, model
from mnist_vit.__main__ import main
from mnist_vit.check.core import verdict
from mnist_vit.recipes import copy_notebooks

stamp = from_file(NOTEBOOKS / "stamp.py")

BEATS = ["Goal", "Picture", "Math", "By hand", "Build", "Check", "Break it", "Your turn", "Next"]
HEADINGS = {
    "00": ["Goal", "Picture", "By hand", "Next"],
    **{f"{number:02}": BEATS for number in range(1, 7)},
    **dict.fromkeys(("07", "08", "09", "11"), BEATS),
    "10": ["Goal", "Picture", "Math", "By hand", "Next"],
}
COURSE = [
    "00_start_here", "01_mlp", "02_attention", "03_multi_head_attention", "04_encoder_block", "05_encoder",
    "06_vision_transformer", "07_training", "08_evaluation", "09_attention_maps", "10_pretrained_vit",
    "11_cifar10_and_ablations",
]  # fmt: skip
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")
MACHINE = re.compile(r"/root|/home/|/tmp|/work|/usr|/Users|[A-Z]:\\|-packages|ipykernel|0x[0-9a-f]{6,}")
NOT_COMPARED = {"nbval-ignore-output", "nbval-skip"}
MAGIC_COMMENTS = ("NBVAL_", "PYTEST_VALIDATE")

each_notebook = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


def text(path: Path) -> str:
    """All the Markdown of a notebook."""
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def prose(markdown: str) -> str:
    """Markdown without its code and formulas, in which brackets and parentheses mean other things."""
    return re.sub(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$", "", markdown, flags=re.DOTALL)


def links(markdown: str) -> list[tuple[str, str]]:
    """(! or nothing, address) of each link, those inside the text of a link too."""
    found = []
    for picture, inside, address in LINK.findall(prose(markdown)):
        found += [(picture, address), *links(inside)]
    return found


def headings(markdown: str) -> list[tuple[int, str]]:
    """(level, text) of each heading."""
    marks = re.findall(r"^(#+) +(.+?) *$", re.sub(r"```.*?```", "", markdown, flags=re.DOTALL), re.MULTILINE)
    return [(len(mark), words) for mark, words in marks]


def anchors(path: Path) -> set[str]:
    """What links to headings are called: on GitHub, Markdown files have them in lower case, notebooks as written."""
    if path.suffix == ".ipynb":
        return {words.replace(" ", "-") for _, words in headings(text(path))}
    markdown = path.read_text(encoding="utf-8")
    return {re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for _, words in headings(markdown)}


def printed(cell: NotebookNode) -> str:
    """All stored text of a cell."""
    return "\n".join(
        str(part)
        for output in cell.outputs
        for part in [
            output.get("text", ""),
            *(value for kind, value in output.get("data", {}).items() if "text" in kind),
        ]
    )


# ------------------------------------------------------------------------------------------------ the whole


def test_the_notebooks_are_there_in_order() -> None:
    stems = [path.stem for path in notebooks()]
    assert stems[:7] == COURSE[:7]
    assert stems == [stem for stem in COURSE if stem in stems]
    assert sorted(NOTEBOOKS.glob("*.ipynb")) == notebooks()


@each_notebook
def test_headings(path: Path) -> None:
    found = headings(text(path))
    beats = [words for level, words in found if level == 2]
    if path.stem[:2] in HEADINGS:
        assert beats == HEADINGS[path.stem[:2]]
    else:  # later notebooks leave out beats, and add or swap none
        assert beats == [beat for beat in BEATS if beat in beats]
        assert {"Goal", "Picture", "By hand", "Next"} <= set(beats)
    assert [words for level, words in found if level == 1] == [found[0][1]]
    assert re.match(rf"{path.stem[:2]} · \S", found[0][1])
    assert all(after <= before + 1 for (before, _), (after, _) in itertools.pairwise(found))


@each_notebook
def test_opening(path: Path) -> None:
    cells = read(path).cells
    first, goal = cells[0].source, next(cell.source for cell in cells if "## Goal" in cell.source)
    assert first.startswith("# ")
    assert re.search(r"^\[!\[[^\]]+\]\([^)]+\)\]\([^)]+\)$", first, re.MULTILINE), "the badge on a line of its own"
    assert re.search(r"\*\*Time:\*\* about \d\d minutes", goal)
    assert "**You need:**" in goal
    places = [number for number, cell in enumerate(cells) if cell.cell_type == "code"]
    assert tags(cells[places[0]]) == ["setup"]
    assert "## Picture" not in "".join(cell.source for cell in cells[: places[0]])


@each_notebook
def test_next_leads_on(path: Path) -> None:
    last = text(path).rpartition("## Next")[2]
    following = "".join(COURSE[COURSE.index(path.stem) + 1 :][:1]) + ".ipynb"
    assert following in [address for _, address in links(last)] or not (NOTEBOOKS / following).exists()


# ------------------------------------------------------------------------------------- address, badge, setup cell


@each_notebook
def test_badge_and_setup_cell_are_as_stamped(path: Path) -> None:
    stored, stamped = nbformat.read(path, as_version=4), nbformat.read(path, as_version=4)
    stamp.stamp(stamped, path.stem, stamp.repository())
    assert stamped == stored, "python notebooks/stamp.py"
    setup = [cell.source for cell in code_cells(path) if "setup" in tags(cell)]
    assert setup == [stamp.SETUP.format(repository=stamp.repository())]
    owner_and_name = stamp.repository().removeprefix("https://github.com/")
    badge = f"https://colab.research.google.com/github/{owner_and_name}/blob/main/notebooks/{path.name}"
    assert [address for _, address in links(text(path)) if "colab.research" in address and path.suffix in address] == [
        badge
    ]
    assert "no.home.yet" not in "".join(cell.source for cell in read(path).cells).replace(badge, "").replace(
        setup[0], ""
    )


def test_another_address_reaches_badge_and_setup_cell_and_nothing_else() -> None:
    path = notebooks()[0]
    notebook = copy.deepcopy(read(path))
    stamp.stamp(notebook, path.stem, "https://github.com/some-one/some-course")
    changed = [
        new.source for old, new in zip(read(path).cells, notebook.cells, strict=True) if old.source != new.source
    ]
    assert len(changed) == 2
    badge, setup = changed
    assert f"/github/some-one/some-course/blob/main/notebooks/{path.name})" in badge
    assert 'SOURCE = "git+https://github.com/some-one/some-course"\n' in setup
    stamp.stamp(notebook, path.stem, stamp.repository())
    assert notebook == read(path)


def test_the_address_is_a_home_or_cannot_be_registered() -> None:
    owner, name = stamp.repository().removeprefix("https://github.com/").split("/")
    assert owner == "no.home.yet" or re.fullmatch(r"[A-Za-z0-9-]+", owner)
    assert re.fullmatch(r"[\w.-]+", name)


def test_setup_cell_does_nothing_where_the_package_is_and_else_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    def run(address: str, instead: str = "ran.append(SOURCE)") -> None:
        source = stamp.SETUP.format(repository=address).replace('%pip install -q "mnist-vit @ {SOURCE}"', instead)
        exec(compile(source, "setup", "exec"), {"ran": ran})

    run("https://github.com/some-one/some-course")
    assert ran == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: ran or None)
    run("https://github.com/some-one/some-course")
    assert ran == ["git+https://github.com/some-one/some-course"]
    ran.clear()
    with pytest.raises(SystemExit, match="not installed: run the first command"):
        run("https://github.com/no.home.yet/mnist-vit")
    with pytest.raises(SystemExit, match="could not be installed: is there a network"):
        run("https://github.com/some-one/some-course", instead="pass  # as pip does without a network: it only prints")


def test_the_readmes_badges_are_stamped_too() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert stamp.stamp_readme(readme, stamp.repository()) == readme, "python notebooks/stamp.py"
    elsewhere = stamp.stamp_readme(readme, "https://github.com/some-one/some-course")
    for path in notebooks():
        assert f"(https://colab.research.google.com/github/some-one/some-course/blob/main/notebooks/{path.name})" in (
            elsewhere
        )


# ---------------------------------------------------------------------------------------------------------- links


def dead(address: str, path: Path) -> bool:
    """Whether a link of a Markdown text in ``path`` leads nowhere on this disk."""
    if re.match(r"https?://", address):
        return False
    name, _, anchor = address.partition("#")
    target = path.parent / name if name else path
    if target.suffix == ".ipynb" and target.parent == path.parent and target.stem in COURSE and not target.exists():
        return bool(anchor)
    if not target.exists() or NOTEBOOKS not in target.resolve().parents:  # what is outside is not in a learner's copy
        return True
    return bool(anchor) and anchor not in anchors(target)


@each_notebook
def test_local_links_lead_somewhere(path: Path) -> None:
    found = links(text(path))
    assert [address for _, address in found if dead(address, path)] == []
    assert [address for _, address in found if address.startswith("http:")] == []
    assert len(found) > 3


@each_notebook
def test_each_term_is_linked_once(path: Path) -> None:
    terms = [address for _, address in links(text(path)) if address.startswith("glossary.md")]
    assert terms == list(dict.fromkeys(terms))
    assert len(terms) > 3


def test_dead_links_are_found() -> None:
    path = notebooks()[0]
    assert not dead("glossary.md#token", path)
    assert not dead("11_cifar10_and_ablations.ipynb", path)
    for address in ("glossary.md#nothing", "gone.md", "12_more.ipynb", "../README.md", "#nowhere", "solutions/x.py"):
        assert dead(address, path), address
    assert links("[![a](b)](c) and [d](e#f), `[0](1)`, $[g](h)$") == [("", "c"), ("!", "b"), ("", "e#f")]


def test_glossary() -> None:
    glossary = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    terms = [words for level, words in headings(glossary) if level == 3]
    assert terms == sorted(terms)
    assert len(terms) == len(set(terms)) > 50
    assert all(term == term.lower() for term in terms)  # JupyterLab's anchors keep capitals, GitHub's do not
    for entry in glossary.split("\n### ")[1:]:
        term, sentence = entry.strip().split("\n\n")
        assert "\n" not in sentence, term
        assert sentence.endswith("."), term
        assert sentence[:1].isupper() or sentence.startswith("y ="), term
        assert not re.search(r"[.!?] +[A-Z]", sentence), f"{term}: more than one sentence"


# ------------------------------------------------------------------------------------------------------ exercises


@each_notebook
def test_tags(path: Path) -> None:
    known = re.compile(r"setup|(exercise|check):\w+|raises-exception|nbval-ignore-output|needs-cifar10")
    assert [tag for cell in read(path).cells for tag in tags(cell) if not known.fullmatch(tag)] == []


@each_notebook
def test_every_exercise_is_a_stub_a_check_and_a_way_to_hints(path: Path) -> None:
    stubs, checks = tagged(path, "exercise"), tagged(path, "check")
    module = next((m for n, m in sys.modules.items() if n.startswith(f"mnist_vit.check.nb{path.stem[:2]}")), None)
    assert sorted(stubs) == sorted(checks) == sorted(exercise.name for exercise in getattr(module, "EXERCISES", ()))
    order = [tag for cell in code_cells(path) for tag in tags(cell) if ":" in tag]
    assert order == [f"{kind}:{name}" for name in stubs for kind in ("exercise", "check")]
    for name in stubs:
        exercise = check.EXERCISES[name]
        assert checks[name].source == f"check.{name}({exercise.answer})"
        assert printed(checks[name]).strip() == verdict(exercise, None)[1]
        assert stubs[name].source.rstrip().endswith("raise NotImplementedError")
        (defined,) = (
            node for node in tree(stubs[name].source).body if isinstance(node, ast.ClassDef | ast.FunctionDef)
        )
        assert defined.name == exercise.answer
        before = "\n".join(cell.source for cell in read(path).cells).partition(stubs[name].source)[0]
        assert len(re.findall("★+", before)[-1]) == exercise.stars, f"{name}: stars in the text before the stub"
    hinted = re.findall(r'check\.hint\("(\w+)", 1\)', text(path))
    assert set(hinted) <= set(stubs)
    assert hinted or not stubs


# -------------------------------------------------------------------------------------------------------- outputs


@each_notebook
def test_every_cell_has_run_in_order(path: Path) -> None:
    assert [cell.execution_count for cell in code_cells(path)] == list(range(1, len(code_cells(path)) + 1))
    assert all(cell.source == cell.source.strip() != "" for cell in read(path).cells)


@each_notebook
def test_every_cell_is_compared(path: Path) -> None:
    skipped = [cell for cell in code_cells(path) if NOT_COMPARED & set(tags(cell))]
    for cell in skipped:
        assert cell.source.startswith("# not compared: ")
        assert "nbval-skip" not in tags(cell)
    assert len(skipped) == 0
    assert not any(word in cell.source for cell in code_cells(path) for word in MAGIC_COMMENTS)


@each_notebook
def test_outputs_fit_every_machine(path: Path) -> None:
    versions = [re.escape(v) for v in (torch.__version__.partition("+")[0], ".".join(map(str, sys.version_info[:3])))]
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type in ("stream", "display_data", "execute_result"), output.output_type
            assert output.get("name", "stdout") == "stdout"
            assert set(output.get("data", {})) <= {"text/plain", "text/html", "text/markdown", "image/png"}
        stored = printed(cell)
        for pattern in (MACHINE.pattern, *versions, r"\d\.\d{4,}", r"\d\.\d+e[-+]\d", r"https?://"):
            computed = [found for found in re.findall(pattern, stored) if found not in cell.source]
            assert computed == [], f"in the output of\n{cell.source}\n{stored}"


@each_notebook
def test_no_machine_is_named_in_the_text(path: Path) -> None:
    for cell in read(path).cells:
        assert not MACHINE.search(cell.source), cell.source


@each_notebook
def test_cells_are_short(path: Path) -> None:
    classes = {name for name in model.__all__ if isinstance(getattr(model, name), type)}
    for cell in code_cells(path):
        defined = {node.name for node in tree(cell.source).body if isinstance(node, ast.ClassDef)}
        lines = len(cell.source.splitlines())
        assert lines <= 30 or defined & classes, f"{lines} lines:\n{cell.source}"
    assert 20 <= len(read(path).cells) <= 75


@each_notebook
def test_nothing_but_the_notebook_is_in_the_file(path: Path) -> None:
    notebook = read(path)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}
        assert "attachments" not in cell
        assert "widget" not in cell.source
        if cell.cell_type == "code":
            assert "savefig" not in cell.source
            assert all(not output.get("metadata") for output in cell.outputs)


@each_notebook
def test_every_picture_is_described_beside_it(path: Path) -> None:
    cells = read(path).cells
    drawn = 0
    for number, cell in enumerate(cells):
        if "image/png" in str([list(output.get("data", {})) for output in cell.get("outputs", [])]):
            drawn += 1
            beside = "\n".join(cells[i].source for i in (number - 1, number + 1) if cells[i].cell_type == "markdown")
            described = re.search(r"^\*The picture: .{40,}\*$", beside, re.MULTILINE | re.DOTALL)
            assert described, f"no line *The picture: …* beside\n{cell.source}"
            assert "plt.show()" in cell.source
    assert drawn >= 1


@each_notebook
def test_no_picture_is_pasted_in(path: Path) -> None:
    markdown = text(path)
    assert "data:image" not in markdown
    assert "<img" not in markdown
    assert [address for picture, address in links(markdown) if picture] == [
        "https://colab.research.google.com/assets/colab-badge.svg"
    ]


# ----------------------------------------------------------------------------------------------- the learner's copy


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_learners_copy(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["notebooks", str(tmp_path / "my course")]) == 0
    copied = tmp_path / "my course"
    expected = {f"{path.name}" for path in notebooks()} | {"glossary.md"}
    expected |= {f"solutions/{path.name}" for path in (NOTEBOOKS / "solutions").glob("*.py")}
    assert names(copied) == expected
    assert all((copied / name).read_bytes() == (NOTEBOOKS / name).read_bytes() for name in expected)
    assert str(copied) in capsys.readouterr().out


def test_learners_copy_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    work = tmp_path / notebooks()[-1].name
    work.write_text("my work")
    assert main(["notebooks", str(tmp_path)]) == 2
    assert names(tmp_path) == {work.name}
    assert work.read_text() == "my work"
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"mnist-vit: {work} is there already")
    assert told.err.count("\n") == 1


def test_learners_copy_from_an_installed_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site" / "mnist_vit"
    (installed / "shipped").mkdir(parents=True)
    monkeypatch.setattr(files, "CHECKOUT", None)
    monkeypatch.setattr(files, "PACKAGE", installed)
    with pytest.raises(ValueError, match="install mnist_vit again"):
        copy_notebooks(tmp_path / "copy")
    (installed / "shipped" / "notebooks").symlink_to(NOTEBOOKS, target_is_directory=True)
    assert {path.name for path in notebooks()} < names(copy_notebooks(tmp_path / "copy"))


def test_wheel_carries_the_notebooks() -> None:
    carried = stamp.tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert carried["force-include"]["notebooks"] == "mnist_vit/shipped/notebooks"
