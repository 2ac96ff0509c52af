"""The ladder: stored numbers are whole, a live row lies in its range, a row far off and a wrong
piece are told."""

import re
from types import ModuleType

import nbformat
import pytest
import torch
from helpers import ROOT
from torch import nn

from experiments import bugs, measured
from experiments import ladder as script
from mnist_vit import model
from mnist_vit.course import ladder
from mnist_vit.course.ladder.rows import LIVE, ROW
from mnist_vit.course.ladder.running import tried
from mnist_vit.course.nb02_attention.head import MyHead

CASES = ("ladder", "bugs")


@pytest.fixture
def scripts() -> dict[str, ModuleType]:
    return {"ladder": script, "bugs": bugs, "measured": measured}


@pytest.mark.parametrize("results", CASES)
def test_every_rung_is_stored_with_five_seeds_as_its_command_would_run_it(
    scripts, results: str
) -> None:
    rungs, bugs = ladder.stored(results=results), scripts["bugs"]
    known = ladder.RUNGS if results == "ladder" else {name: bugs.rung(name) for name in bugs.BUGS}
    assert list(rungs) == list(known)
    for name, about in rungs.items():
        rung = known[name]
        assert len(about["accuracy"]) == len(scripts["ladder"].SEEDS) == 5
        assert all(0 < reached <= 100 for reached in about["accuracy"])
        assert about["command"] == f"python -m experiments {results} {name}"
        assert about["twin"] is None or about["twin"] in rungs
        assert (about["twin"], about["epochs"]) == (rung.twin, None if rung.steps else rung.epochs)
        assert about["parameters"] == sum(p.numel() for p in rung.build().parameters())
        assert about["learning_rate"] in scripts["ladder"].RATES
        assert about["cpu_seconds"] < 60


def test_what_notebooks_03_and_04_show_is_stored_by_its_command_and_read_from_there(
    scripts,
) -> None:
    measured = ladder.stored(results="measured")
    assert list(measured) == list(scripts["measured"].MEASUREMENTS)
    for name, about in measured.items():
        assert len(about["percent"]) == scripts["measured"].MEASUREMENTS[name][1]
        assert all(reached is None or 0 < reached <= 100 for reached in about["percent"])
        assert about["command"] == f"python -m experiments measured {name}"
        assert "command" in about["made"] or "ladder.RUNGS" in about["made"]
    names = ("03_multi_head_attention", "04_encoder_block")
    third, fourth = (
        nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells for name in names
    )
    code = "".join(cell.source for cell in third + fourth if cell.cell_type == "code")
    assert not re.search(r"stored: \d", code), "a range is typed in, not read"
    shown = ""
    for cell in third:
        for output in cell.get("outputs", ()):
            shown += output.get("text", "")
    for name in ("draw_one_head", "draw_two_heads"):
        assert ladder.span(0, measured[name]["percent"]).removeprefix("0 %") in shown
    told = "".join(cell.source for cell in fourth)
    for rung in ("six", "six_no_norm"):
        runs = [measured[f"{rung}_at_{rate}"]["percent"] for rate in (0.001, 0.003, 0.01)]
        assert "{:.0f}, {:.0f}, {:.0f}".format(*(sum(run) / 3 for run in runs)) in told


def test_the_drawing_is_measured_with_the_code_of_the_notebook(scripts) -> None:
    live = scripts["measured"].drawing(num_heads=2, seed=0)
    assert ladder.agrees(ladder.span(live, ladder.stored("draw_two_heads", "measured")["percent"]))


def test_a_rung_trained_live_lies_in_its_range(capsys: pytest.CaptureFixture[str]) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    trained = ladder.train("mlp", seed=1)
    printed = capsys.readouterr().out
    assert ROW.search(printed)
    assert ladder.agrees(printed)
    assert not trained.training
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert ROW.search(ladder.table("mlp")), "what was trained here is shown live"
    assert not ROW.search(ladder.table("linear"))
    LIVE.clear()


def test_rows_far_off_are_refused_and_said() -> None:
    low, high = min(ladder.stored("block")["accuracy"]), max(ladder.stored("block")["accuracy"])
    near, far = ladder.row("block", low - 1), ladder.row("block", high + 5)
    assert ladder.agrees(near)
    assert "too high" in far
    assert "too low" in ladder.row("block", low - 5)
    assert ladder.same_rows(near, ladder.row("block", high))
    assert not ladder.same_rows(far, ladder.row("block", high))
    assert not ladder.same_rows(near, near.replace("stored: ", "stored: 1"))
    assert not ladder.same_rows(near + " and more", near)
    with pytest.raises(ValueError, match="no rung is called 'ladder'"):
        ladder.row("ladder", 90)


def test_the_table_claims_only_large_contrasts() -> None:
    lines = dict(zip(ladder.RUNGS, ladder.table(*ladder.RUNGS).splitlines()[1:], strict=True))
    assert "points" in lines["relation"]
    assert "less than 4 points" in lines["block"]
    assert max(map(len, lines.values())) <= 100


def test_attention_is_what_finds_the_patch() -> None:
    rungs = ladder.stored()
    assert max(rungs["relation_mlp"]["accuracy"]) < 55
    assert min(rungs["relation"]["accuracy"]) > 95
    assert all(
        seen["copy_first"] > 90 and seen["copy"] > 50 for seen in rungs["relation"]["looks_at"]
    )
    told = ladder.looks(ladder.RUNGS["relation"].build(attention=tried("attention", MyHead)).eval())
    assert len(ROW.findall(told)) == 3
    assert not ladder.agrees(told), "a model that was not trained looks anywhere"


class Bare(model.MultiHeadAttention):
    """Returns the output alone."""

    def forward(self, *inputs):
        return super().forward(*inputs)[0]


class Stub(nn.Module):
    """Not solved."""

    def __init__(self, *sizes) -> None:
        raise NotImplementedError


WRONG = [
    ("block_mlp", {"block": model.EncoderBlock}, r"takes mlp=, not block="),
    ("linear", {"mlp": model.MLPBlock}, r"takes no pieces"),
    ("block", {"block": model.EncoderBlock, "mlp": model.MLPBlock}, "brings its own mlp"),
    ("block_mlp", {"mlp": Stub}, "Stub is not solved yet"),
    (
        "block_mlp",
        {"mlp": lambda width, *rest: nn.Linear(width, 3)},
        r"makes \[2, 16, 3\] of \[2, 16, 64\]",
    ),
    ("block_mlp", {"mlp": nn.Linear(64, 64)}, "fails: "),
    ("block", {"attention": Bare}, "must return a pair"),
    ("vit", {"model": model.EncoderBlock}, "fails: TypeError"),
]


@pytest.mark.parametrize(("rung", "pieces", "words"), WRONG)
def test_a_piece_that_does_not_fit_is_told_in_a_sentence(
    rung: str, pieces: dict, words: str
) -> None:
    with pytest.raises(ladder.PieceError, match=words) as told:
        ladder.train(rung, **pieces)
    assert told.value._render_traceback_() == [str(told.value)]


def test_pieces_stand_in_the_models() -> None:
    for rung, pieces in (
        ("block_mlp", {"mlp": model.MLPBlock}),
        ("relation", {"attention": MyHead}),
        ("block", {"attention": model.MultiHeadAttention}),
        ("two", {"block": model.EncoderBlock}),
        ("token", {"encoder": model.Encoder}),
        ("vit", {"model": model.VisionTransformer}),
    ):
        for kind, piece in pieces.items():
            built = ladder.RUNGS[rung].build(**{kind: tried(kind, piece)})
            side = 21 if rung == "relation" else 28
            assert len(built(torch.zeros(2, 1, side, side))) == 2
            assert any(isinstance(part, piece) for part in built.modules())
