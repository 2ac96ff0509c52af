"""``my_vit.py`` holds the code that ran: another text is "not kept", and nothing in it is lost."""

import os
import re
from pathlib import Path

import pytest
from helpers import some
from test_my_vit import ATTENTION, BLOCK, KEPT, Cell, cell, file, kernel

from mnist_vit.files import write_text

__all__ = ["cell", "file", "kernel"]  # fixtures

ATTENTION_KEPT = "my_vit.py: my_attention is kept\n"
RATED = BLOCK.replace("dropout=0.0", "dropout=RATE").replace("(RATE", "(dropout")
SCALED = ATTENTION.replace("q.shape[-1] ** 0.5", "q.shape[-1] ** HALF")


def attention(body: str, head: str = "") -> str:
    """An attention that is right whatever ``body`` does before it."""
    return f"{head}def my_attention(q, k, v):\n{body}" + ATTENTION.partition("\n")[2]


RAISED = "raise ValueError\n"
# what runs in cells before the check ("!" marks those that raise), the name that must be told
DIFFERENT = {
    "a default, and the constant changed": (["RATE = 0.1", RATED, "RATE = 0.9"], "dropout"),
    "a default of a cell that raised": (["RATE = 0.1", RATED, f"!{RAISED}RATE = 0.9"], "dropout"),
    "a global of a cell that raised": (
        ["HALF = 0.5", SCALED, f"!{RAISED}HALF = 1 / 2.000001"],
        "HALF",
    ),
    "a class of a cell that raised": (
        [BLOCK, f"!{RAISED}{BLOCK.replace('dropout=0.0', 'dropout=0.5')}"],
        "dropout",
    ),
    "a class attribute of a cell that raised": (
        [
            BLOCK.replace("    def forward", "    keep = 1\n\n    def forward"),
            f"!{RAISED}" + BLOCK.replace("    def forward", "    keep = 2\n\n    def forward"),
        ],
        "keep",
    ),
    "a class attribute set later": ([BLOCK, "MyMLPBlock.note = 'mine'"], "note"),
    "a class attribute changed later": (
        [
            BLOCK.replace("    def forward", "    note = 1\n\n    def forward"),
            "MyMLPBlock.note = 2",
        ],
        "note",
    ),
    "an attribute deleted later": (
        [
            BLOCK.replace("    def forward", "    note = 1\n\n    def forward"),
            "del MyMLPBlock.note",
        ],
        "note",
    ),
    "defaults changed": ([BLOCK, "MyMLPBlock.__init__.__defaults__ = (0.25,)"], "dropout"),
    "defaults removed": (
        [ATTENTION.replace("v):", "v, more=1):"), "my_attention.__defaults__ = (2,)"],
        "more",
    ),
    "keyword defaults changed": (
        [
            ATTENTION.replace("v):", "v, *, more=1):"),
            "my_attention.__kwdefaults__ = {'more': 2}",
        ],
        "more",
    ),
    "an attribute of a function": ([ATTENTION, "my_attention.calls = 3"], "calls"),
    "a helper's default": (
        [
            "def root(n, power=0.5):\n    return n ** power",
            ATTENTION.replace("q.shape[-1] ** 0.5", "root(q.shape[-1])"),
            "root.__defaults__ = (0.50000001,)",
        ],
        "power",
    ),
    "a closure": (
        [
            "import functools\ndef by(n):\n    def wrap(f):\n        @functools.wraps(f)\n"
            "        def g(q, k, v):\n            return f(q, k, v) if n else f(q, k, v)\n"
            "        return g\n    return wrap",
            "N = 1",
            "@by(N)\n" + ATTENTION,
            "N = 2",
        ],
        "n",
    ),
    "code exchanged": (
        [
            ATTENTION,
            "def other(q, k, v):\n    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)\n"
            "    return weights @ v, weights",
            "my_attention.__code__ = other.__code__",
        ],
        "my_attention",
    ),
    "a constant changed in place": (
        ["SIZES = [0.5]", SCALED.replace("HALF", "SIZES[0]"), "SIZES[0] = 0.50000001"],
        "SIZES",
    ),
    "a dict filled later": (
        ["SIZES = {'half': 0.5}", SCALED.replace("HALF", "SIZES['half']"), "SIZES['more'] = 1"],
        "SIZES",
    ),
    "a dict in another order": (
        [
            "SIZES = {'half': 0.5, 'b': 1}",
            SCALED.replace("HALF", "SIZES['half']"),
            "SIZES['half'] = SIZES.pop('half')",
        ],
        "SIZES",
    ),
    "a tensor with gradients": (
        ["ONE = torch.tensor([0.5])", SCALED.replace("HALF", "ONE.item()"), "ONE.requires_grad_()"],
        "ONE",
    ),
    "a base class changed": (
        [
            "class Base(nn.ModuleDict):\n    level = 1",
            BLOCK.replace("nn.ModuleDict", "Base"),
            "Base.level = 2",
        ],
        "level",
    ),
    "a class of a class changed": (
        [
            "class Meta(type):\n    half = 0.5",
            "class P(metaclass=Meta):\n    pass",
            ATTENTION.replace("** 0.5", "** P.half"),
            "Meta.half = 0.50000001",
        ],
        "half",
    ),
    "a property": (
        [
            BLOCK.replace("    def forward", "    side = property(lambda s: 1)\n\n    def forward"),
            "MyMLPBlock.side = property(lambda s: 2)",
        ],
        "side",
    ),
    "a method of another class": (
        [BLOCK, "class Other:\n    def extra(self): return 1", "MyMLPBlock.extra = Other.extra"],
        "extra",
    ),
    "a partial": (
        [
            "import functools",
            "def root(n, p): return n ** p",
            "HALF = functools.partial(root, p=0.5)",
            ATTENTION.replace("q.shape[-1] ** 0.5", "HALF(q.shape[-1])"),
            "HALF.keywords['p'] = 0.50000001",
        ],
        "HALF",
    ),
}


def run(cell: Cell, texts: list[str]) -> None:
    for text in texts:
        cell(text.removeprefix("!"), fails=text.startswith("!"))


def checked(cell: Cell, texts: list[str]) -> str:
    name = "my_attention" if any("def my_attention" in text for text in texts) else "MyMLPBlock"
    return cell(f"check.{'attention' if name == 'my_attention' else 'mlp_block'}({name})")


USUAL = ("a default, and the constant changed", "a class of a cell that raised", "a closure")
USUAL += ("a class attribute set later", "defaults changed", "a constant changed in place")


@pytest.mark.parametrize("case", some(DIFFERENT, *USUAL))
def test_a_text_that_is_not_what_ran_is_not_kept(case: str, cell: Cell, file: Path) -> None:
    texts, name = DIFFERENT[case]
    run(cell, texts)
    said = checked(cell, texts)
    assert ": correct" in said
    assert "is not kept: " in said, file.read_text()
    assert re.search(rf"\b{name}\b", said.partition("not kept: ")[2]), said
    assert "Error" not in said
    assert not file.exists()


SAME = {
    "a helper, and another one in a cell that raised": [
        "def root(n):\n    return n ** 0.5",
        ATTENTION.replace("q.shape[-1] ** 0.5", "root(q.shape[-1])"),
        f"!{RAISED}def root(n):\n    return n ** 0.50000001",
    ],
    "the same operators, and others in a cell that raised": [
        "def root(n):\n    return n ** 0.5 + 0",
        ATTENTION.replace("q.shape[-1] ** 0.5", "root(q.shape[-1])"),
        f"!{RAISED}def root(n):\n    return n ** 0.5 - 0",
    ],
    "a constant made again": ["RATE = 0.9", "RATE = 0.1", RATED],
    "a constant of the same value": ["RATE = 0.1", RATED, "RATE = 0.1"],
    "tensors, sizes, nan": [
        "import math\nONE = torch.tensor([0.5])\nNONE = float('nan')\nKIND = torch.float32",
        SCALED.replace("HALF", "ONE.to(KIND).item()").replace(
            "    weights =", "    assert NONE != NONE\n    weights ="
        ),
    ],
    "cached and wrapped": [
        "import functools\n@functools.lru_cache\ndef root(n):\n    return n ** 0.5",
        ATTENTION.replace("q.shape[-1] ** 0.5", "root(q.shape[-1])"),
    ],
    "a partial": [
        "import functools\ndef root(n, p): return n ** p",
        "HALF = functools.partial(root, p=0.5)",
        ATTENTION.replace("q.shape[-1] ** 0.5", "HALF(q.shape[-1])"),
    ],
    "a data class": [
        "from dataclasses import dataclass\n@dataclass\nclass Settings:\n    half: float = 0.5",
        SCALED.replace("HALF", "Settings().half"),
    ],
    "class methods, properties, slots": [
        BLOCK.replace(
            "    def forward",
            "    @property\n    def side(self):\n        return 1\n\n    @classmethod\n"
            "    def make(cls):\n        return cls(1, 2)\n\n    @staticmethod\n"
            "    def no():\n        return None\n\n    def forward",
        )
    ],
    "a cached property": [
        "import functools\n"
        + BLOCK.replace(
            "    def forward",
            "    @functools.cached_property\n    def one(self):\n        return 1\n\n"
            "    def forward",
        )
    ],
    "a call of itself": [
        "def root(n, depth=0):\n    return n ** 0.5 if depth else root(n, 1)",
        ATTENTION.replace("q.shape[-1] ** 0.5", "root(q.shape[-1])"),
    ],
    "an attribute called like a global": ["shape = 7\nsoftmax = 8", ATTENTION],
    "annotations": [
        "from torch import Tensor as T\n"
        + ATTENTION.replace("(q, k, v):", "(q: T, k: 'T', v: T) -> tuple[T, T]:")
    ],
    "a named tuple": [
        "from typing import NamedTuple\nclass N(NamedTuple):\n    value: float = 0.5",
        "class C:\n    half = N()",
        ATTENTION.replace("** 0.5", "** C.half.value"),
    ],
    "super and __class__": [BLOCK.replace("super().__init__(", "super(__class__, self).__init__(")],
    "a module called by another name": [
        "import torch.nn.functional as FF",
        BLOCK.replace("F.gelu", "FF.gelu"),
    ],
}


INDENTED = """def shift(x, n):
    y = x
    if n > 10 ** 9:
        y = y + 1
        y = y * 1
    return y
"""
TRIED = """def shift(x, n):
    try:
        a = x + 0
        b = a * 1
    except ValueError:
        b = x
    return b
"""
OTHER_TRIED = """def shift(x, n):
    try:
        a = x + 0
    except ValueError:
        b = x
    else:
        b = a * 1
    return b
"""


@pytest.mark.parametrize(
    ("ran", "raised"),
    [(INDENTED, INDENTED.replace("        y = y * 1", "    y = y * 1")), (TRIED, OTHER_TRIED)],
)
def test_where_a_line_stands_belongs_to_what_ran(
    ran: str, raised: str, cell: Cell, file: Path
) -> None:
    texts = [ran, ATTENTION.replace("weights @ v,", "shift(weights @ v, len(v)),")]
    run(cell, [*texts, f"!{RAISED}{raised}"])
    assert checked(cell, texts).endswith(" is kept\n")
    assert ran.strip() in file.read_text()


def test_a_line_that_looks_like_a_heading_is_told(cell: Cell, file: Path) -> None:
    heading = "# ---- MyEncoder: notebook 05, exercise encoder ------"
    cell(ATTENTION.replace("    return", f"{heading}\n    return"))
    said = cell("check.attention(my_attention)")
    assert "not kept: its line `# ---- MyEncoder" in said
    assert not file.exists()


def test_a_private_file_stays_private(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    file.chmod(0o600)
    cell(ATTENTION)
    cell("check.attention(my_attention)")
    assert file.stat().st_mode & 0o777 == 0o600


def test_code_below_ours_is_neither_own_nor_lost(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    mine = "def show():\n    print(MyVisionTransformer)"
    file.write_text(f"{file.read_text()}\n\n{mine}\n")
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock; ours: ")
    assert "2 of" not in cell("check.progress()")
    cell(ATTENTION)
    cell("check.attention(my_attention)")
    assert mine in file.read_text()
    file.write_text(file.read_text().replace("    print(My", "    pass\n\n\nraise ValueError(My"))
    said = cell("my_vit = check.my_vit()")
    assert "MyVisionTransformer in the file has code beside it that fails: ValueError" in said


def test_ctrl_c_ends_restore_with_a_sentence(
    cell: Cell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(
        file.parent / "my_answers" / "attention.1.py", f"raise KeyboardInterrupt\n{ATTENTION}"
    )
    assert cell("check.restore()").startswith("restore: stopped before there was a verdict")


@pytest.mark.parametrize("name", ["*", "/etc", "..", "", None, 3, "../my_answers/attention"])
def test_only_exercises_have_earlier_answers(name: object, cell: Cell, file: Path) -> None:
    cell(ATTENTION)
    cell("check.attention(my_attention)")
    assert "there is no exercise" in cell(f"check.earlier({name!r})")


def test_a_large_file_among_the_answers_is_passed_over(cell: Cell, file: Path) -> None:
    write_text(file.parent / "my_answers" / "attention.1.py", ATTENTION)
    write_text(file.parent / "my_answers" / "attention.2.py", ATTENTION + "x = 1\n" * 50_000)
    assert "brought back my_attention" in cell("check.restore()")


@pytest.mark.parametrize(
    "case", some(SAME, "a constant made again", "a data class", "cached and wrapped")
)
def test_what_ran_is_kept(case: str, cell: Cell, file: Path) -> None:
    run(cell, SAME[case])
    assert checked(cell, SAME[case]).endswith(" is kept\n")
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: ")
    assert "0.50000001" not in file.read_text()
    assert "- 0" not in file.read_text()


# ------------------------------------------------------------------------- names that are taken

NAMED = BLOCK.replace("F.gelu(", "scaled(1.0) * F.gelu(")
TAKEN = {  # what the first piece needs, what the second one calls by the same name
    "a constant": ("P = 1.0\ndef scaled(x):\n    return P", "P = 0.5\ndef root(n):\n    return P"),
    "a helper": ("def scaled(x):\n    return 1", "def scaled(x):\n    return x ** 0.5"),
    "an import": ("from math import ceil as scaled", "from math import sqrt as scaled"),
    "a helper and an import": ("def scaled(x):\n    return 1", "from math import sqrt as scaled"),
    "an import and a helper": (
        "from math import ceil as scaled",
        "def scaled(x):\n    return x ** 0.5",
    ),
    "a module": ("import math as m\nscaled = m.ceil", "import numpy as m\nroot = m.sqrt"),
}


@pytest.mark.parametrize("case", some(TAKEN, "a constant", "a helper and an import"))
def test_a_name_of_another_piece_is_told(case: str, cell: Cell, file: Path) -> None:
    first, second = TAKEN[case]
    name = "root" if "root" in second else "scaled"
    argument = "" if case == "a constant" else "float(q.shape[-1])"
    call = "q.shape[-1] ** root(1)" if case == "a constant" else f"{name}({argument})"
    cell(first)
    cell(NAMED)
    assert cell("check.mlp_block(MyMLPBlock)").endswith(KEPT)
    before = file.read_text()
    cell(second)
    cell(ATTENTION.replace("q.shape[-1] ** 0.5", call))
    said = cell("check.attention(my_attention)")
    taken = {"a constant": "P", "a module": "m"}.get(case, "scaled")
    assert f"my_attention is not kept: the name {taken} is taken" in said, said
    assert "MyMLPBlock" in said
    assert "rename" in said
    assert "look there first" not in said
    assert file.read_text() == before
    cell(re.sub(rf"\b{taken}\b", "another", second))
    cell(ATTENTION.replace("q.shape[-1] ** 0.5", re.sub(rf"\b{taken}\b", "another", call)))
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock, my_attention")


def test_a_name_of_the_head_is_told(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    file.write_text(file.read_text().replace("# ---- MyMLP", "HALF = 3\n\n\n# ---- MyMLP", 1))
    cell("HALF = 0.5\n" + SCALED)
    said = cell("check.attention(my_attention)")
    assert "not kept: the name HALF is taken" in said
    assert "HALF = 3" in file.read_text()


def test_one_helper_of_two_pieces_is_shared(cell: Cell, file: Path) -> None:
    """The same code is no conflict, whatever its comments."""
    cell("def scaled(x):\n    return 1")
    cell(NAMED)
    cell("check.mlp_block(MyMLPBlock)")
    cell("def scaled(x):\n    return 1  # one")
    cell(ATTENTION.replace("q.shape[-1] ** 0.5", "q.shape[-1] ** 0.5 * scaled(1)"))
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert file.read_text().count("def scaled") == 1


# ------------------------------------------------------------------------------- nothing is lost


def answers(file: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in (file.parent / "my_answers").glob("*.py")}


def test_a_deleted_answer_does_not_cost_another(cell: Cell, file: Path) -> None:
    for number in (1, 2, 3):
        cell(ATTENTION.replace("return", f"# {number}\n    return"))
        cell("check.attention(my_attention)")
    kept = answers(file)
    assert len(kept) == 3
    (file.parent / "my_answers" / "attention.1.py").unlink()
    del kept["attention.1.py"]
    cell(ATTENTION.replace("return", "# 4\n    return"))
    cell("check.attention(my_attention)")
    assert kept.items() <= answers(file).items()
    assert any("# 4" in text for text in answers(file).values())
    assert "# 4" in cell("check.earlier('attention', -1)")


def test_answers_that_cannot_be_read_are_passed_over(cell: Cell, file: Path) -> None:
    folder = file.parent / "my_answers"
    folder.mkdir()
    (folder / "attention.7.py").write_bytes(b"\xff\xfe")
    (folder / "attention.8.py").mkdir()
    (folder / "attention.²3.py").write_text("x")
    cell(ATTENTION)
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert (folder / "attention.7.py").read_bytes() == b"\xff\xfe"
    assert "1 answer was kept" in cell("check.earlier('attention')")


HEADS = {
    "a star import": "from math import *",
    "a star import of torch": "from torch.nn.functional import *",
    "an unused import": "import os",
    "an unused name": "from collections import OrderedDict",
    "comments": "# how I like it\n# -- two lines",
    "a comment behind an import": "import os  # for later",
    "a comment above an import": "# for later\nimport os",
    "a future import": "from __future__ import annotations",
    "a conditional import": "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
    "an import in lines": "from collections import (\n    OrderedDict,  # mine\n    deque,\n)",
    "two in a line": "import os; import sys",
    "a submodule": "import os.path\nimport xml.dom",
    "one name twice": "import os as a\nimport sys as a",
}


@pytest.mark.parametrize(
    "case", some(HEADS, "a star import", "a comment behind an import", "a future import")
)
def test_the_head_is_kept_as_it_was_written(case: str, cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    lines = file.read_text().replace('"""\n\n', f'"""\n\n{HEADS[case]}\n', 1)
    assert HEADS[case] in lines
    file.write_text(lines)
    for answer in (ATTENTION, f"{ATTENTION}    # again"):
        cell(answer)
        assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
        text = file.read_text()
        parts = HEADS[case].split("\n") if case == "one name twice" else [HEADS[case]]
        assert all(part in text for part in parts), text
    exec(compile(file.read_text(), file, "exec", dont_inherit=True), {"__name__": "my_vit"})


def test_marks_before_the_title_stay(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    file.write_text("#!/usr/bin/env python\n# mine\n" + file.read_text())
    cell(ATTENTION)
    cell("check.attention(my_attention)")
    assert file.read_text().startswith("#!/usr/bin/env python\n# mine\n")
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())  # as Windows' editor writes it
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock, my_attention")
    cell(f"{ATTENTION}    # again")
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert "#!/usr/bin/env python\n# mine\n" in file.read_text("utf-8-sig")


def test_a_link_stays_a_link(cell: Cell, file: Path) -> None:
    target = file.parent / "real" / "mine.py"
    target.parent.mkdir()
    target.write_text("")
    file.symlink_to(target)
    cell(ATTENTION)
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert file.is_symlink()
    assert "def my_attention" in target.read_text()


def test_a_link_to_nowhere_makes_its_file(cell: Cell, file: Path) -> None:
    file.symlink_to(file.parent / "not_yet.py")
    cell(ATTENTION)
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert file.is_symlink()
    assert "def my_attention" in (file.parent / "not_yet.py").read_text()


def test_a_read_only_file_is_not_written(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    before = file.read_bytes()
    file.chmod(0o444)
    cell(ATTENTION)
    said = cell("check.attention(my_attention)")
    assert "kept until this kernel ends, but not in the file: " in said
    assert "read-only" in said
    assert file.read_bytes() == before
    assert "def my_attention" in answers(file)["attention.1.py"]
    file.chmod(0o644)
    cell("check.mlp_block(MyMLPBlock)")
    assert "def my_attention" in file.read_text(), "what waited is written with the next"


def test_no_answer_is_waited_for(cell: Cell, file: Path) -> None:
    (file.parent / "my_answers").mkdir()
    os.mkfifo(file.parent / "my_answers" / "attention.1.py")
    (file.parent / "my_answers" / "attention.2.py").symlink_to("/proc/kmsg")
    cell(ATTENTION)
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)


def test_a_file_of_the_system_is_not_waited_for(cell: Cell, file: Path) -> None:
    file.symlink_to("/proc/kmsg")
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: ")
    file.unlink()


@pytest.mark.parametrize("kind", ["a folder", "a pipe"])
def test_what_is_no_file_is_told(kind: str, cell: Cell, file: Path) -> None:
    file.mkdir() if kind == "a folder" else os.mkfifo(file)
    assert "cannot be read" in cell("my_vit = check.my_vit()")
    cell(ATTENTION)
    assert "not kept: " in cell("check.attention(my_attention)")
    assert file.exists()


def test_hand_written_text_without_python_is_told(cell: Cell, file: Path) -> None:
    """Each kind of text that Python cannot parse, by whatever exception it says so."""
    for text in ("x = '\0'", "-" * 20_000 + "1", "(" * 5_000, "\ud800".encode("utf-8", "replace")):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert cell("my_vit = check.my_vit()").startswith("my_vit.py: ")
        cell(ATTENTION)
        assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
        file.unlink()


# --------------------------------------------------------------------------------- brought back


def solve_three(cell: Cell) -> None:
    cell("def scaled(x):\n    return 1")
    cell(NAMED)
    cell("check.mlp_block(MyMLPBlock)")
    cell(ATTENTION.replace("q.shape[-1] ** 0.5", "q.shape[-1] ** 0.5 * scaled(1)"))
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    cell("def my_gelu(x):\n    return 0.5 * x * (1 + torch.erf(x / 2**0.5))\ncheck.gelu(my_gelu)")


def test_a_deleted_file_is_brought_back_by_one_call(cell: Cell, file: Path) -> None:
    solve_three(cell)
    text = file.read_text()
    file.unlink()
    said = cell("my_vit = check.my_vit()")
    assert "all 8 pieces are ours" in said
    assert "check.restore()" in said
    assert "check.restore()" in cell("check.progress()")
    said = cell("check.restore()")
    assert "MyMLPBlock, my_attention" in said
    assert cell("my_vit = check.my_vit()") == (
        "my_vit.py: yours: MyMLPBlock, my_attention; ours: my_patchify, my_split_heads,"
        " MyMultiHeadAttention, MyEncoderBlock, MyEncoder, MyVisionTransformer\n"
    )
    namespace: dict[str, object] = {}
    exec(file.read_text(), namespace)
    assert text.count("def scaled") == 1 <= file.read_text().count("def scaled")
    assert "nothing to bring back" in cell("check.restore()")


def test_answers_of_another_folder_are_brought_back(
    cell: Cell, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve_three(cell)
    monkeypatch.setenv("MNIST_VIT_OUT", str(tmp_path / "new"))
    assert "check.restore()" not in cell("my_vit = check.my_vit()")
    assert "nothing to bring back" in cell("check.restore()")
    assert "no my_answers" in cell("check.restore('nowhere')")
    assert "MyMLPBlock, my_attention" in cell(f"check.restore({str(tmp_path)!r})")
    assert cell("my_vit = check.my_vit()").startswith("my_vit.py: yours: MyMLPBlock, my_attention")
    assert (tmp_path / "new" / "my_answers" / "gelu.1.py").is_file()


def test_what_is_there_is_not_replaced(cell: Cell, file: Path) -> None:
    solve_three(cell)
    edited = file.read_text().replace("# as I like it", "# edited by hand")
    file.write_text(edited)
    cell("check.restore()")
    assert file.read_text() == edited
    file.write_text(re.sub(r"(?s)class MyMLPBlock.*?\n\n\n(?=# ----)", "", edited))
    cell("check.restore()")
    assert "# as I like it" in file.read_text()
    assert "# edited by hand" not in file.read_text()


def test_a_wrong_answer_is_not_brought_back(cell: Cell, file: Path) -> None:
    folder = file.parent / "my_answers"
    folder.mkdir()
    (folder / "attention.1.py").write_text(ATTENTION)
    (folder / "attention.2.py").write_text(ATTENTION.replace("-1)", "-2)", 1))
    (folder / "attention.3.py").write_text("raise SystemExit")
    (folder / "split_heads.1.py").write_text("def my_split_heads(x, n): return x")
    (folder / "mlp_block.1.py").write_text("(")
    said = cell("check.restore()")
    assert "my_attention" in said
    assert "my_split_heads" in said.partition("not")[2]
    assert ATTENTION.strip() in file.read_text()


def test_a_constant_of_the_head_is_brought_back(cell: Cell, file: Path) -> None:
    cell("HALF = 0.5\n" + SCALED)
    cell("check.attention(my_attention)")
    text = file.read_text()
    head = text.replace("HALF = 0.5\n", "").replace("# ---- MyMLP", "HALF = 0.5\n\n# ---- MyMLP", 1)
    file.write_text(head)
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    file.unlink()
    assert "MyMLPBlock, my_attention" in cell("check.restore()")


def test_constants_that_others_use_come_back_in_their_order(cell: Cell, file: Path) -> None:
    cell("ONE = 1\nHALF = ONE / 2\nSIDE = HALF * ONE")
    cell(ATTENTION.replace("** 0.5", "** SIDE * ONE"))
    cell("check.attention(my_attention)")
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    file.unlink()
    assert "MyMLPBlock, my_attention" in cell("check.restore()")
    assert "ONE = 1\nHALF = ONE / 2\nSIDE = HALF * ONE\n" in file.read_text()


@pytest.mark.parametrize("folder", ["~nosuchuser/x", "", "\0", "nowhere", "/dev/null", 3])
def test_a_folder_that_cannot_be_is_a_sentence(folder: str | int, cell: Cell, file: Path) -> None:
    assert "nothing is brought back: " in cell(f"check.restore({folder!r})")
    assert not file.exists()


def test_a_verdict_is_given_wherever_the_file_cannot_be(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNIST_VIT_OUT", "~nosuchuser/x")
    cell(ATTENTION)
    said = cell("check.attention(my_attention)")
    assert ": correct" in said
    assert "my_attention is not kept: " in said
    assert "has no home folder" in said


def test_a_section_under_an_edited_heading_is_not_lost(cell: Cell, file: Path) -> None:
    cell(BLOCK)
    cell("check.mlp_block(MyMLPBlock)")
    heading = "# ---- mine: notebook 07, exercise none ----------\nMINE = 7\n"
    file.write_text(f"{file.read_text()}\n\n{heading}")
    cell(ATTENTION)
    assert cell("check.attention(my_attention)").endswith(ATTENTION_KEPT)
    assert "MINE = 7" in file.read_text()
