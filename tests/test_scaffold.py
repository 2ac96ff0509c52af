"""What the notebooks give of the five classes of ``my_vit.py``: names, shapes and start values are
torchvision's; most statements are the learner's own."""

import math
import re
from collections.abc import Iterator

import pytest
import torch
from helpers import NOTEBOOKS, notebooks, read, tagged, tags, tree
from torch import nn
from torchvision.models.vision_transformer import Encoder, EncoderBlock, VisionTransformer

from mnist_vit.course.keeping import PIECES
from tools import own

SIZES = {"seq_length": 65, "num_layers": 2, "num_heads": 2, "hidden_dim": 64, "mlp_dim": 192}
TABLES = {  # an exercise, and torchvision's class with the same parameters
    "multi_head_attention": lambda: nn.MultiheadAttention(64, 2),
    "encoder_block": lambda: EncoderBlock(2, 64, 192, 0.0, 0.0),
    "encoder": lambda: Encoder(**SIZES, dropout=0.0, attention_dropout=0.0),
    "vision_transformer": lambda: whole(),
}


def whole() -> VisionTransformer:
    sizes = (64, 8, 2, 2, 64, 192)
    return VisionTransformer(*sizes, num_classes=10, representation_size=80)


def rows(markdown: str, head: str) -> Iterator[list[str]]:
    """The cells of each row of the table whose head begins so."""
    is_inside = False
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            is_inside = False
        elif cells[0] == head:
            is_inside = True
        elif is_inside and not cells[0].startswith("---"):
            yield cells


def table_of(exercise: str, head: str) -> list[list[str]]:
    """The table above the stub of an exercise."""
    for path in notebooks():
        cells = read(path).cells
        for number, cell in enumerate(cells):
            if f"exercise:{exercise}" in tags(cell):
                return list(rows(cells[number - 1].source, head))
    raise AssertionError(f"no notebook has the exercise {exercise}")


def names_in(cell: str) -> list[str]:
    """The names of parameters, as in `ln.weight` or `encoder.*`."""
    return re.findall(r"`([\w.*]+)`", cell)


def shape_of(text: str, sizes: dict[str, int]) -> tuple[int, ...]:
    """The numbers of a shape such as (3 · hidden_dim, hidden_dim)."""
    found = []
    for part in text.strip("() ").split(","):
        numbers = [int(sizes.get(one, one)) for one in part.replace("·", " ").split()]
        found.append(math.prod(numbers))
    return tuple(found)


@pytest.mark.parametrize("exercise", ["multi_head_attention", "encoder_block"])
def test_names_and_shapes_in_the_table_are_torchvisions(exercise: str) -> None:
    sizes = {"embed_dim": 64, "hidden_dim": 64, "mlp_dim": 192}
    given = {}
    for names, shapes, _ in table_of(exercise, "name"):
        known = re.findall(r"\(.*?\)", shapes)
        for number, name in enumerate(names_in(names)):
            given[name] = shape_of(known[min(number, len(known) - 1)], sizes)
    module = TABLES[exercise]()
    assert given == {name: tuple(p.shape) for name, p in module.named_parameters()}


@pytest.mark.parametrize("exercise", ["encoder", "vision_transformer"])
def test_names_alone_are_torchvisions(exercise: str) -> None:
    patterns = []
    for names, *_ in table_of(exercise, "names of the parameters"):
        patterns += [name.replace(".", r"\.").replace("*", ".*") for name in names_in(names)]
    names = [name for name, _ in TABLES[exercise]().named_parameters()]
    for pattern in patterns:
        assert any(re.fullmatch(pattern, name) for name in names), pattern
    for name in names:
        assert any(re.fullmatch(pattern, name) for pattern in patterns), name


@pytest.mark.parametrize("exercise", TABLES)
def test_the_stub_gives_a_signature_and_nothing_else(exercise: str) -> None:
    (path,) = (path for path in notebooks() if exercise in tagged(path, "exercise"))
    stub = tagged(path, "exercise")[exercise].source
    (kind,) = (node for node in tree(stub).body if hasattr(node, "bases"))
    _, init = kind.body
    assert init.name == "__init__"
    assert len(init.body) == 1


def start(text: str, parameter: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation that the glossary's table gives a parameter."""
    words = text.split(",")[0]
    if words in ("0", "1"):
        return float(words), 0.0
    if "standard deviation" in text:
        return 0.0, float(text.split()[-1])
    fan_out, fan_in = parameter.shape[0], parameter[0].numel()
    fans = {"fan_in": fan_in, "fan_out": fan_out}
    formula = re.search(r"variance ([^,]+)", text)[1].replace("·", "*")
    return 0.0, math.sqrt(eval(formula, fans))


def test_the_table_of_start_values_is_torchvisions() -> None:
    glossary = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    torch.manual_seed(0)
    left = dict(whole().named_parameters())
    for names, text, why in rows(glossary, "parameters"):
        assert why
        if names == "all other biases":
            assert all(name.endswith("bias") and not p.any() for name, p in left.items())
            left = {}
        for name in names_in(names):
            found = [one for one in left if one.endswith(name)]
            assert found, name
            for one in found:
                parameter = left.pop(one)
                mean, spread = start(text, parameter)
                assert parameter.mean().item() == pytest.approx(mean, abs=0.25 * spread + 1e-12)
                assert parameter.std().item() == pytest.approx(spread, rel=0.1)
                uniform = "uniform" in text and parameter.abs().max() < 1.74 * spread
                assert uniform == ("uniform" in text), one
    assert left == {}


def test_most_statements_of_the_file_are_the_learners_own() -> None:
    shares = own.shares()
    assert [share.name for share in shares] == list(PIECES)
    total = sum(share.all for share in shares)
    ours = sum(share.own for share in shares)
    assert ours >= 100
    (first, *_) = read(NOTEBOOKS / "00_start_here.ipynb").cells
    assert f"has {total} statements. {ours} of them stand neither in the text" in first.source


def test_what_a_notebook_shows_is_not_counted() -> None:
    shown = own.parsed("self.ln = norm_layer(hidden_dim)") + own.parsed("a table of names")
    solution = own.statements('def f(x):\n    "A docstring."\n    self.ln = norm_layer(hidden_dim)')
    assert (solution - shown).total() == 1
    assert own.statements("for x in y:\n    f(x)\nimport math").total() == 2
