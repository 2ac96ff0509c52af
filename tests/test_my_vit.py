"""The learner's own file: what is kept of an answer, what stands in, what is told; in a real
IPython."""

import ast
import copy
import importlib
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from helpers import assert_says, environment, randomise, solution_cell

from mnist_vit import check, load_model, model
from mnist_vit.__main__ import main
from mnist_vit.building import own_class
from mnist_vit.course.keeping import PIECES
from mnist_vit.course.keeping.layout import parse

HEAD = (
    "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\nfrom mnist_vit"
    " import check\n"
)
BLOCK = """class MyMLPBlock(nn.ModuleDict):
    def __init__(self, in_dim, mlp_dim, dropout=0.0):
        super().__init__({"0": nn.Linear(in_dim, mlp_dim), "3": nn.Linear(mlp_dim, in_dim)})
        for linear in self.values():
            nn.init.xavier_uniform_(linear.weight)
            nn.init.normal_(linear.bias, std=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.dropout(F.gelu(self["0"](x)))   # as I like it
        return self.dropout(self["3"](x))
"""
ATTENTION = """def my_attention(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights
"""
WRONG = BLOCK.replace("F.gelu(", "F.relu(")
KEPT = "my_vit.py: MyMLPBlock is kept\n"


SOLVED = {piece.exercise: solution_cell(piece.exercise) for piece in PIECES.values()}
Cell = Callable[..., str]


@pytest.fixture
def kernel(capsys: pytest.CaptureFixture) -> Iterator[Callable[[], Cell]]:
    """A function that starts a fresh IPython; it gives another that runs a cell and returns what
    was printed."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    before = sys.modules["__main__"], sys.displayhook, sys.excepthook

    def start() -> Cell:
        InteractiveShell.clear_instance()
        sys.modules.pop("my_vit", None)
        shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))

        def cell(text: str, fails: bool = False) -> str:
            capsys.readouterr()
            result = shell.run_cell(text, store_history=True)
            assert result.success != fails, result
            return capsys.readouterr().out

        cell(HEAD)
        return cell

    yield start
    InteractiveShell.clear_instance()
    sys.modules.pop("my_vit", None)
    sys.modules["__main__"], sys.displayhook, sys.excepthook = before


@pytest.fixture
def cell(kernel: Callable[[], Cell]) -> Cell:
    return kernel()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my_vit.py"


def solve(cell: Cell, *exercises: str) -> None:
    for exercise in exercises:
        name = check.EXERCISES[exercise].answer.__name__
        cell(SOLVED[exercise])
        assert cell(f"check.{exercise}({name})").endswith(f"my_vit.py: {name} is kept\n")


# -------------------------------------------------------------------------------------------- whose
# pieces are in use


def test_none_solved(cell: Cell, file: Path) -> None:
    none = f"my_vit.py: none in {file.parent.name}/ yet; all 8 pieces are ours\n"
    assert cell("my_vit = check.my_vit()") == none
    assert cell("check.progress()").endswith(
        f"0 of {len(check.EXERCISES)} exercises solved\n{none}"
    )
    assert "not solved yet" in cell(
        "def my_attention(q, k, v):\n    raise NotImplementedError\ncheck.attention(my_attention)\n"
    )
    cell(
        "from my_vit import MyMLPBlock, MyVisionTransformer, my_attention, my_split_heads\n"
        "from mnist_vit.model import MLPBlock\nassert MyMLPBlock is MLPBlock is my_vit.MyMLPBlock"
    )
    assert not list(file.parent.iterdir()), "nothing is written while nothing is solved"


def test_all_solved(cell: Cell, file: Path) -> None:
    for exercise in SOLVED:  # in the order of the notebooks; here, of the file
        solve(cell, exercise)
    assert cell("my_vit = check.my_vit()") == "my_vit.py: all 8 pieces are yours\n"
    text = file.read_text()
    assert list(parse(text).sections) == list(PIECES)
    assert "  # ours" not in text
    lines = [line for line in text.splitlines() if line.strip()]
    sections = "\n".join(parse(text).sections.values())
    theirs = [line for line in sections.splitlines() if line.strip()]
    assert len(theirs) / len(lines) >= 0.8, "of the file is the learner's"
    for one in SOLVED.values():
        assert ast.get_source_segment(one, ast.parse(one).body[-1]) in text, (
            "as the learner wrote it"
        )
    roots = {
        line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))
    }
    assert roots <= {"torch", "torchvision", "mnist_vit", *sys.stdlib_module_names}

    ours, own = load_model("vit_mnist"), load_model(file)
    images = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    expected, logits = ours(images).detach(), own(images).detach()
    assert type(own).__name__ == "MyVisionTransformer"
    assert torch.equal(expected.argmax(1), logits.argmax(1))
    assert (expected - logits).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max()))

    # anywhere: the file alone in another folder, in a process that knows of no notebook
    other = file.parent / "elsewhere"
    other.mkdir()
    (other / "my_vit.py").write_text(text)
    code = (
        "import my_vit, pickle, copy; b = my_vit.MyMLPBlock(4, 8, 0.1); copy.deepcopy(b); "
        "pickle.loads(pickle.dumps(b)); print(my_vit.MyVisionTransformer.__module__)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=other,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert run.stdout == "my_vit\n", run.stderr

    module = sys.modules["my_vit"]
    block = module.MyMLPBlock(4, 8, 0.0)
    for other_block in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert torch.equal(other_block["0"].weight, block["0"].weight)
    assert inspect.getsource(module.MyMLPBlock) in text
    cell("again = check.my_vit()\nassert again is my_vit")


def test_a_file_of_the_first_format_loads_and_gets_its_number(cell: Cell, file: Path) -> None:
    """It was written before notebooks 00 to 06 were rebuilt: seven pieces, all of them right."""
    before = Path(__file__).with_name("my_vit_format_1.txt").read_text(encoding="utf-8")
    file.write_text(before, encoding="utf-8")
    theirs = [name for name in PIECES if name != "my_patchify"]
    said = f"my_vit.py: yours: {', '.join(theirs)}; ours: my_patchify\n"
    assert cell("my_vit = check.my_vit()") == said
    assert file.read_text(encoding="utf-8") == before, "nothing is written where nothing is kept"
    ours, own = load_model("vit_mnist"), load_model(file)
    images = torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert torch.equal(ours(images).argmax(1), own(images).argmax(1))
    solve(cell, "patchify")
    text = file.read_text(encoding="utf-8")
    assert "\n# format 2\n" in text
    assert parse(before).sections.items() <= parse(text).sections.items()
    assert cell("my_vit = check.my_vit()") == "my_vit.py: all 8 pieces are yours\n"


def test_a_file_of_a_newer_format_is_left_alone(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    newer = file.read_text().replace("# format 2", "# format 3")
    file.write_text(newer)
    told = f"{file} has format 3, and this mnist_vit knows 2: update mnist_vit"
    for asked in ("my_vit = check.my_vit()", "check.progress()", "check.restore()"):
        assert told in cell(asked)
    assert f"MyMLPBlock is not kept: {told}" in cell("check.mlp_block(MyMLPBlock)")
    cell("assert my_vit.MyMLPBlock.__name__ == 'MLPBlock'")
    said = cell(f"check.progress({str(file)!r})")
    assert "format 3: written by a newer mnist_vit" in said
    assert file.read_text() == newer


def test_every_second_solved(cell: Cell, file: Path) -> None:
    solve(cell, *list(SOLVED)[::2])
    mine = [PIECES[name].name for name in list(PIECES)[::2]]
    ours = [name for name in PIECES if name not in mine]
    said = f"my_vit.py: yours: {', '.join(mine)}; ours: {', '.join(ours)}\n"
    assert cell("my_vit = check.my_vit()") == said
    module = sys.modules["my_vit"]
    for name, piece in PIECES.items():
        theirs = getattr(importlib.import_module(piece.module), piece.original)
        assert (getattr(module, name) is theirs) == (name in ours)
        assert (piece.ours in file.read_text()) == (name in ours)


def test_notebook_04_alone(cell: Cell, file: Path) -> None:
    """Nothing was solved before; the answer names pieces that it has from the module, in two
    ways."""
    cell("my_vit = check.my_vit()\nfrom my_vit import MyMLPBlock")
    block = inspect.getsource(model.EncoderBlock).replace("EncoderBlock", "MyEncoderBlock")
    block = block.replace("MLPBlock(hidden", "MyMLPBlock(hidden").replace(
        "check_heads", "# check_heads"
    )
    block = block.replace("nn.MultiheadAttention", "my_vit.MyMultiHeadAttention").replace(
        ", batch_first=True", ""
    )
    cell(f"from collections.abc import Callable\nfrom functools import partial\n{block}")
    assert cell("check.encoder_block(MyEncoderBlock)").endswith(
        "my_vit.py: MyEncoderBlock is kept\n"
    )
    text = file.read_text()
    assert "MyMultiHeadAttention(\n" in text
    assert "my_vit." not in text
    assert text.count("# ours") == len(PIECES) - 1
    cell("my_vit = check.my_vit()\nb = my_vit.MyEncoderBlock(2, 8, 16, 0.0, 0.0)")
    assert "MyMultiHeadAttention" not in cell("print(type(b.self_attention).__name__)")


def test_solved_gives_the_answer_or_ours(capsys: pytest.CaptureFixture) -> None:
    ours = check.EXERCISES["gelu"].answer

    def answer(x: torch.Tensor) -> torch.Tensor:
        return ours(x)

    assert check.solved(answer, "gelu") is answer
    assert check.solved(lambda x: x, "gelu") is ours
    assert check.solved(None, "gelu") is ours
    with pytest.raises(ValueError, match='did you mean "gelu"'):
        check.solved(answer, "gelo")
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------------------ what is
# written, and what is not


def test_a_wrong_answer_never_replaces_a_right_one(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    said = cell("check.mlp_block(MyMLPBlock)")
    assert said.endswith(f")\n{KEPT}")
    before = file.read_bytes(), file.stat().st_mtime_ns
    cell(WRONG)
    assert "my_vit.py" not in cell("check.mlp_block(MyMLPBlock)")
    cell(BLOCK)
    assert cell("check.mlp_block(MyMLPBlock)") == said, "the same answer, the same lines"
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    cell(BLOCK.replace("as I like it", "better still"))
    assert cell("check.mlp_block(MyMLPBlock)") == said, "another one, too: nbval compares them"
    assert "better still" in file.read_text()
    assert "as I like it" not in file.read_text()
    assert {path.name for path in (file.parent / "my_answers").iterdir()} == {
        "mlp_block.1.py",
        "mlp_block.2.py",
    }


# what stands in other cells, the text of the answer, and what the file must hold, or the words that
# the reason needs
USES = {
    "timed": ([], f"%%time\n{BLOCK}", ["# as I like it"]),
    "captured and timed": ([], f"%%capture\n%%time\n%pwd\n{BLOCK}", ["# as I like it"]),
    "helpers": (
        [
            "import math as m",
            "SCALE = 1 / m.sqrt(2)",
            "def tail(x):\n    return (1 + torch.erf(SCALE * x)) / 2",
            "def my_gelu(x):\n    return x * tail(x)",
            "my_gelu(torch.zeros(1))",
        ],
        BLOCK.replace("F.gelu", "my_gelu"),
        ["import math as m\n", "SCALE = 1 / m.sqrt(2)\n\n\ndef tail(x)", "def my_gelu(x):"],
    ),
    "the last of several": (
        ["P = 0.3", "P = 1"],
        BLOCK.replace("F.gelu(", "P * F.gelu("),
        ["\nP = 1\n"],
    ),
    "another name": (
        [],
        BLOCK.replace("MyMLPBlock", "Mine") + "\nMyMLPBlock = Mine",
        ["class Mine(", "MyMLPBlock = Mine"],
    ),
    "decorated": (
        [
            "import functools",
            (
                "def twice(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n"
                "    return g"
            ),
        ],
        BLOCK.replace("    def forward", "    @twice\n    def forward"),
        ["import functools", "def twice(f):", "    @twice"],
    ),
    "a base class": (
        ["from torch.nn import *"],
        BLOCK.replace("nn.ModuleDict", "ModuleDict"),
        ["from torch.nn.modules.container import ModuleDict"],
    ),
    "comments above": (
        [],
        f"# @title Mine\n# how I\n# did it\n{BLOCK}",
        ["\n# how I\n# did it\nclass MyMLPBlock"],
    ),
    "ours, by check.solved": (
        ["act = check.solved(None, 'gelu')"],
        BLOCK.replace("F.gelu", "act"),
        ["gelu import my_gelu as act"],
    ),
    "what IPython brings": (
        [],
        BLOCK.replace(
            "x = self", "display() if len(x) == 7 else open\n        print('x')\n        x = self"
        ),
        ["from IPython", "import display"],
    ),
    "a magic": (
        [],
        BLOCK.replace("x = self", "%pwd\n        x = self"),
        "MyMLPBlock magic",
    ),
    "notebook data": (
        ["x = torch.ones(3)", "scale = x[0]"],
        BLOCK.replace("F.gelu(", "scale * F.gelu("),
        "scale x torch.ones",
    ),
    "a loop": (
        ["for one in [1, 1]:\n    pass"],
        BLOCK.replace("F.gelu(", "one * F.gelu("),
        "MyMLPBlock one loop",
    ),
    "inside": (
        [],
        "def make():\n    "
        + BLOCK.replace("\n", "\n    ")
        + "\n    return MyMLPBlock\nMyMLPBlock = make()",
        "MyMLPBlock make cell",
    ),
    "changed later": (
        [],
        WRONG + "\ndef forward(self, x):\n    x = self.dropout(F.gelu(self['0'](x)))\n"
        "    return self.dropout(self['3'](x))\nMyMLPBlock.forward = forward",
        "MyMLPBlock forward",
    ),
    "set later": (
        ["class Settings:\n    pass", "Settings.one = 1"],
        BLOCK.replace("F.gelu(", "Settings.one * F.gelu("),
        "check",
    ),
    "another file": (
        [
            (
                "import sys, types\nown = sys.modules['own'] = types.ModuleType('own')\nown.gelu ="
                " F.gelu"
            ),
            "from own import gelu",
        ],
        BLOCK.replace("F.gelu", "gelu"),
        "MyMLPBlock gelu own",
    ),
}


@pytest.mark.parametrize("case", USES)
def test_what_an_answer_needs_is_kept_with_it_or_it_is_told(
    case: str, cell: Cell, file: Path
) -> None:
    cells, answer, expected = USES[case]
    for text in cells:
        cell(text)
    cell(answer)
    said = cell("check.mlp_block(MyMLPBlock)")
    assert "mlp_block: correct" in said
    if isinstance(expected, list):
        assert said.endswith(KEPT), said
        assert all(part in file.read_text() for part in expected), file.read_text()
        assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock; ours: ")
    else:
        assert_says(said.partition("not kept: ")[2], expected)
        assert not file.exists()


def test_pieces_share_their_helpers(cell: Cell, file: Path) -> None:
    """One text of a helper in the file; another one by its name is refused."""
    helper = "def scaled(x, by):\n    return x * by"
    attention = ATTENTION.replace(
        "q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5", "scaled(q, q.shape[-1] ** -0.5) @ k.mT"
    )
    cell(helper)
    cell(BLOCK.replace("F.gelu(", "scaled(1, 1) * F.gelu("))
    cell(attention)
    assert cell("check.attention(my_attention)").endswith("my_vit.py: my_attention is kept\n")
    assert cell("check.mlp_block(MyMLPBlock)").endswith(KEPT)
    assert file.read_text().count(helper) == 1
    cell(helper.replace("x * by", "by * x"))
    assert_says(cell("check.attention(my_attention)"), "not kept scaled MyMLPBlock")
    assert "x * by" in file.read_text()
    cell(helper)
    cell(BLOCK)
    assert cell("check.mlp_block(MyMLPBlock)").endswith(KEPT)
    assert "def scaled" in file.read_text(), "the other one still needs it"
    assert cell("my_vit = check.my_vit()").startswith(
        "my_vit.py: yours: MyMLPBlock, my_attention; "
    )


def test_a_file_of_ones_own_and_a_script(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture
) -> None:
    """Answers that come from no notebook: of a module; of this test; of Python's prompt, which
    keeps no text."""
    (tmp_path / "own_answers.py").write_text(
        f"import torch.nn.functional as F\nfrom torch import nn\n\n\n{BLOCK}"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        from own_answers import MyMLPBlock
    finally:
        sys.path.remove(str(tmp_path))
    check.mlp_block(MyMLPBlock)
    assert capsys.readouterr().out.endswith(KEPT)
    assert "# as I like it" in file.read_text()

    class Inside(MyMLPBlock):
        pass

    check.mlp_block(Inside)
    assert "Inside is made inside test_a_file_of_ones_own_and_a_script" in capsys.readouterr().out
    names: dict[str, Any] = {"__name__": "nowhere", "torch": torch}
    exec(ATTENTION, names)
    check.attention(names["my_attention"])
    assert (
        "its text cannot be seen here: write my_attention in a notebook" in capsys.readouterr().out
    )
    check.split_heads(lambda x, heads: x.unflatten(-1, (heads, -1)).transpose(1, 2))
    assert "a lambda has no name to be kept by" in capsys.readouterr().out
    sys.modules.pop("my_vit", None)


# ----------------------------------------------------------------------------------- edited by hand


def test_a_section_broken_by_hand_is_told_and_not_lost(cell: Cell, file: Path) -> None:
    cell(BLOCK + ATTENTION)
    cell("check.mlp_block(MyMLPBlock); check.attention(my_attention)")
    text = file.read_text()
    for old, new, words in (
        ("F.gelu(", "F.relu(", "check"),
        ("x = self.drop", "x = = self.drop", "Python 10"),
        ("class MyMLPBlock", "oops\nclass MyMLPBlock", "NameError oops"),
        ("class MyMLPBlock", "class Block", "nothing MyMLPBlock"),
        ("class MyMLPBlock", "exit()\nclass MyMLPBlock", "check"),
    ):
        broken = text.replace(old, new)
        file.write_text(broken)
        said = cell("my_vit = check.my_vit()")
        assert said.startswith("my_vit.py: yours: MyMLPBlock, my_attention; ours: ")
        assert_says(said.partition("; MyMLPBlock in the file ")[2], f"{words} last right answer")
        assert said.count("\n") == 1
        cell("assert my_vit.MyMLPBlock(2, 3)(torch.zeros(1, 2)).shape == (1, 2)")
        assert file.read_text() == broken
        assert cell("check.attention(my_attention)").endswith("my_vit.py: my_attention is kept\n")
        assert new in file.read_text(), "another piece's answer leaves it alone"
        assert cell("check.mlp_block(MyMLPBlock)").endswith(KEPT)
        assert file.read_text() == text
        kept = [path.read_text() for path in (file.parent / "my_answers").glob("*.py")]
        assert any(new in one for one in kept), "the edit lies with the answers"
    for path in (file.parent / "my_answers").glob("*.py"):
        path.unlink()
    file.write_text(text.replace("F.gelu(", "F.relu("))
    said = cell("my_vit = check.my_vit()")
    assert said.startswith("my_vit.py: yours: my_attention; ours: my_patchify, MyMLPBlock, ")
    assert "; ours stands in" in said


def test_a_piece_whose_heading_was_deleted_is_found(cell: Cell, file: Path) -> None:
    solve(cell, "mlp_block", "attention", "split_heads")
    text = file.read_text()
    for names in (["MyMLPBlock"], ["my_attention"], ["my_attention", "my_split_heads"]):
        file.write_text(re.sub(f"# ---- ({'|'.join(names)}):.*\n", "", text))
        said = cell("my_vit = check.my_vit()")
        assert said.startswith("my_vit.py: yours: MyMLPBlock, my_attention, my_split_heads; ours: ")
        solve(cell, "attention")
        assert file.read_text() == text, "the headings are back"


def test_a_right_edit_is_used(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    file.write_text(
        file.read_text()
        .replace("# as I like it", "# edited")
        .replace('"""\n', '"""\nimport math\nTWO = 2\n', 2)
    )
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock; ours: ")
    cell(
        "import inspect\nassert '# edited' in inspect.getsource(my_vit.MyMLPBlock)\nassert"
        " my_vit.TWO == 2"
    )
    solve(cell, "attention")
    assert "# edited" in file.read_text()
    assert "TWO = 2" in file.read_text()


def test_a_head_that_is_no_python_and_a_file_of_other_make(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    good = file.read_text()
    file.write_text(f"my vit!\n{good}")
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock; ours: ")
    assert file.read_text().startswith("my vit!")
    solve(cell, "attention")
    ast.parse(file.read_text())
    assert (file.parent / "my_answers" / "my_vit.1.py").read_text().startswith("my vit!")

    good = file.read_text()
    file.write_text(good.replace("\nimport", "\nimport nothing_such\n1 / 0\nimport", 1))
    said = cell("my_vit = check.my_vit()")
    assert said.startswith("my_vit.py: yours: MyMLPBlock, my_attention; ours: ")
    assert_says(said, "above ZeroDivisionError 1 / 0")
    cell("from my_vit import my_attention\nassert my_attention.__module__ == 'my_vit'")
    file.write_text(good)
    assert cell("check.attention(my_attention)").endswith("my_vit.py: my_attention is kept\n")
    assert file.read_text() == good, "an answer that comes from the file"

    file.write_text(
        HEAD.replace("from mnist_vit import check\n", "") + f"\n\nLUCKY = 7\n\n\n{BLOCK}"
    )  # no headers
    cell("my_vit = check.my_vit()\nassert my_vit.LUCKY == 7")
    solve(cell, "attention")
    assert "LUCKY = 7" in file.read_text()
    assert cell("my_vit = check.my_vit()").startswith(
        "my_vit.py: yours: MyMLPBlock, my_attention; ours: "
    )
    file.write_bytes(b"\xff\xfe")
    assert "cannot be read" in cell("my_vit = check.my_vit()")
    assert "my_attention is not kept: " in cell("check.attention(my_attention)")
    assert file.read_bytes() == b"\xff\xfe"


# -------------------------------------------------------------------------------------------------
# disks and processes


def test_a_folder_that_cannot_be_written(
    cell: Cell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "taken").write_text("")
    monkeypatch.setenv("MNIST_VIT_OUT", str(file.parent / "taken" / "below"))
    cell(BLOCK + ATTENTION)
    said = cell("check.mlp_block(MyMLPBlock)")
    assert "mlp_block: correct" in said
    assert "my_vit.py: MyMLPBlock is kept until this kernel ends, but not in the file: " in said
    assert said.count("\n") == 2
    cell("check.attention(my_attention)")
    assert cell("my_vit = check.my_vit()").startswith(
        "my_vit.py: yours: MyMLPBlock, my_attention; ours: "
    )
    cell("assert '# as I like it' in __import__('inspect').getsource(my_vit.MyMLPBlock)")


def test_an_interrupted_write_leaves_the_old_file(
    cell: Cell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell(BLOCK + ATTENTION)
    cell("check.mlp_block(MyMLPBlock)")
    before = file.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "No space left on device" in cell("check.attention(my_attention)")
    assert file.read_bytes() == before
    assert not list(file.parent.glob(".*.part"))
    assert cell("check.mlp_block(MyMLPBlock)").endswith(KEPT)
    assert "def my_attention" in file.read_text(), "what waited is written with the next"


@pytest.mark.full
def test_two_processes_at_once_lose_nothing(tmp_path: Path, file: Path) -> None:
    head = "import sys, time\nsys.stdin.readline()\n"
    scripts = {"mlp_block": (BLOCK, "MyMLPBlock"), "attention": (ATTENTION, "my_attention")}
    runs = []
    for name, (text, answer) in scripts.items():
        path = tmp_path / f"{name}_script.py"
        path.write_text(f"{HEAD}{text}\n\n{head}check.{name}({answer})\nprint('ready')\n")
        runs.append(
            subprocess.Popen(
                [sys.executable, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(MNIST_VIT_OUT=str(tmp_path)),
            )
        )
    outputs = [run.communicate("go\n", timeout=120)[0] for run in runs]
    assert all("is kept\n" in output for output in outputs), outputs
    layout = parse(file.read_text())
    assert not layout.is_ours("MyMLPBlock")
    assert not layout.is_ours("my_attention")


# ------------------------------------------------------------------------------------------ earlier
# answers, and progress


def test_earlier_answers(cell: Cell, file: Path) -> None:
    assert "mlp_block: no answer was kept in " in cell("check.earlier('mlp_block')")
    for text in (BLOCK, BLOCK.replace("# as I like it", "# the second")):
        cell(text)
        cell("check.mlp_block(MyMLPBlock)")
    assert cell("check.earlier(check.mlp_block)").startswith("mlp_block: 2 answers were kept; ")
    assert cell("check.earlier('mlp_block', 1)").endswith(BLOCK)
    assert "# the second" in cell("check.earlier('mlp_block', -1)")
    assert "no answer 3" in cell("check.earlier('mlp_block', 3)")
    assert cell("check.earlier('mlp_block', 1, restore=True)") == KEPT
    assert "# as I like it" in file.read_text()
    cell("def my_gelu(x):\n    return 0.5 * x * (1 + torch.erf(x / 2**0.5))")
    assert "my_vit.py" not in cell("check.gelu(my_gelu)"), "this is no piece"
    assert "def my_gelu(x):" in cell("check.earlier('gelu', 1)"), "and can be had back all the same"


def test_progress(cell: Cell, file: Path) -> None:
    solve(cell, "mlp_block")
    cell("def my_gelu(x):\n    return 0.5 * x * (1 + torch.erf(x / 2**0.5))\ncheck.gelu(my_gelu)")
    rows = [line.split() for line in cell("check.progress()").splitlines()]
    assert ["01_mlp", "mlp_block", "yes", "MyMLPBlock,", "yours"] in rows
    assert ["01_mlp", "gelu", "yes"] in rows
    assert ["04_encoder_block", "encoder_block", "-", "MyEncoderBlock,", "ours"] in rows
    assert [row[1] for row in rows if row[0] == "01_mlp"][:3] == [
        "gelu",
        "mlp_block",
        "merge",
    ], "as in the notebook"
    assert " ".join(rows[-2]) == f"2 of {len(check.EXERCISES)} exercises solved"
    assert " ".join(rows[-1]).startswith("my_vit.py: yours: MyMLPBlock; ")
    assert str(file.parent) not in str(rows)


def pieces_of(table: str) -> list[list[str]]:
    """The rows of the first four learners in the table of pieces, the last one."""
    lines = table[table.index("patchify") :].splitlines()
    return [line.split() for line in lines[1:5]]


@pytest.fixture
def students(cell: Cell, file: Path) -> Path:
    """A folder with the files of five learners; one of them writes a file when it is run."""
    solve(cell, "mlp_block", "attention")
    text = file.read_text()
    folder = file.parent / "class"
    opens = f"open({str(file.parent / 'ran')!r}, 'w').close()"
    for name, answer in {
        "ada/my_vit.py": text,
        "bob/my_vit.py": text.replace("super().__init__()", "super().__init__(") + "\n",
        "carl.py": text.replace("x = F.gelu(x)", "x = F.relu(x)"),
        "dora/my_vit.py": text.replace("from torch", f"{opens}\nfrom torch", 1),
        "eve/other.py": "print(1)",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(answer)
    return folder


def test_a_table_for_teachers_runs_nothing_unless_asked(
    students: Path, capsys: pytest.CaptureFixture
) -> None:
    capsys.readouterr()
    check.progress(students)
    rows = pieces_of(capsys.readouterr().out)
    assert [row[0] for row in rows] == [
        "ada/my_vit.py",
        "bob/my_vit.py",
        "carl.py",
        "dora/my_vit.py",
    ]
    assert rows[0][1:] == ["-", "own", "own", "-", "-", "-", "-", "-", "2"]
    assert not (students.parent / "ran").exists(), "nothing was run"
    assert main(["progress", str(students.parent / "my_answers")]) == 0
    assert "attention.1.py" in capsys.readouterr().out


@pytest.mark.full
def test_a_table_for_teachers_runs_the_files_if_asked(
    students: Path, capsys: pytest.CaptureFixture
) -> None:
    for name in ("ada", "bob"):
        (students / name / "my_vit.py").unlink()
    capsys.readouterr()
    check.progress(students, run=True)
    found = {row[0]: row[2:4] for row in pieces_of(capsys.readouterr().out)}
    assert found == {
        "ada/": ["-", "-"],
        "bob/": ["-", "-"],
        "carl.py": ["wrong", "right"],
        "dora/my_vit.py": ["right", "right"],
    }
    assert (students.parent / "ran").exists()


# -------------------------------------------------------------------------------- the library takes
# the learner's file


def own_file(folder: Path, attention: bool = True) -> Path:
    """A file as a learner ends with it, made from the package's model; with its own attention, or
    with torch's."""
    text = Path(model.__file__).read_text(encoding="utf-8").replace("from .", "from mnist_vit.")
    text = re.sub(
        r"\b(MLPBlock|MultiHeadAttention|EncoderBlock|Encoder|VisionTransformer)\b", r"My\1", text
    )
    if attention:
        text = text.replace("nn.MultiheadAttention(", "MyMultiHeadAttention(").replace(
            ", batch_first=True", ""
        )
    (folder / "my_vit.py").write_text(text, encoding="utf-8")
    return folder / "my_vit.py"


@pytest.mark.parametrize("attention", [False, True])
def test_it_holds_our_weights_and_torchvisions(attention: bool, tmp_path: Path) -> None:
    ours, own = (
        load_model("vit_mnist_p7"),
        load_model(own_file(tmp_path, attention), weights="vit_mnist_p7"),
    )
    theirs = torchvision.models.VisionTransformer(
        32, 8, 2, 4, 16, 32, num_classes=5, representation_size=12
    )
    randomise(theirs)
    mine = own_class(tmp_path / "my_vit.py")(
        32, 8, 2, 4, 16, 32, num_classes=5, representation_size=12
    )
    mine.load_state_dict(theirs.state_dict(), strict=True)
    generator = torch.Generator().manual_seed(0)
    for a, b, images in (
        (ours, own, torch.randn(20, 1, 28, 28, generator=generator)),
        (theirs.eval(), mine.eval(), torch.randn(20, 3, 32, 32, generator=generator)),
    ):
        expected, logits = a(images).detach(), b(images).detach()
        assert torch.equal(expected.argmax(1), logits.argmax(1))
        assert (expected - logits).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max()))
        assert attention or torch.equal(expected, logits), "torch's own attention: to the last bit"
    assert type(own).__name__ == "MyVisionTransformer"


def test_it_is_trained_evaluated_and_looked_into(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = str(own_file(tmp_path))
    run = tmp_path / "run"
    words = [
        "--sizes",
        "vit_mnist_p7",
        "--epochs",
        "1",
        "--batch-size",
        "400",
        "--run-dir",
        str(run),
    ]
    assert main(["train", file, "--data", "embedded", *words, "--device", "cpu"]) == 0
    about = json.loads((run / "weights.json").read_text())
    assert about["name"] == about["code"] == "my_vit.py"
    assert about["config"]["patch_size"] == 7
    command = about["command"]
    assert command.startswith(f"python -m mnist_vit train {file} --data embedded ")
    assert "--sizes vit_mnist_p7" in command
    capsys.readouterr()
    weights = str(run / "weights.pth")
    assert main(["evaluate", file, "--weights", weights, "--device", "cpu"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert (
        main(
            ["attention", file, "--weights", "vit_mnist_p7", "--per-class", "1", "--device", "cpu"]
        )
        == 0
    )
    assert len(list((tmp_path / "runs" / "attention").glob("*/layer_0_head_0.png"))) == 10
    assert main(["evaluate", weights]) == 2
    assert (
        f"the model in my_vit.py: give that file, and --weights {weights}"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "print(1", "SyntaxError line 1"),
        (lambda text: "import torch\nimport nothing_such", "ModuleNotFoundError nothing_such"),
        (lambda text: "exit(3)", "SystemExit 3 line 1"),
        (lambda text: "", "empty"),
        (lambda text: "x = 1", "MyVisionTransformer 06"),
        (lambda text: text.replace("representation_size", "rep"), "image_size patch_size"),
        (lambda text: text.replace("self.class_token", "self.token"), "token"),
        (lambda text: text.replace("x = x[:, CLASS_TOKEN]", "x = x"), "logits"),
    ],
)
def test_a_file_that_does_not_fit_is_told_in_a_sentence(
    change: Callable[[str], str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = own_file(tmp_path)
    file.write_text(change(file.read_text()))
    status = main(
        ["attention", str(file), "--weights", "vit_mnist_p7", "--per-class", "1", "--device", "cpu"]
    )
    said = capsys.readouterr().err
    assert status == 2, said
    assert_says(said, words)
    assert said.count("\n") == 1
    assert main(["train", str(file.parent / "not_there.py")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_new_notebooks_come_without_losing_work(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "mine"
    assert main(["notebooks", str(folder)]) == 0
    (folder / "01_mlp.ipynb").write_text("my work")
    (folder / "my_vit.py").write_text("my file")
    assert main(["notebooks", str(folder)]) == 2
    assert "may contain your work: name another folder, or set --update" in capsys.readouterr().err
    assert main(["notebooks", str(folder), "--update"]) == 0
    assert (folder / "01_mlp.ipynb").read_text() != "my work"
    assert (folder / "my_vit.py").read_text() == "my file"
    (before,) = folder.glob("before-*")
    assert (before / "01_mlp.ipynb").read_text() == "my work"
    assert (before / "solutions" / "01_mlp.py").exists()
