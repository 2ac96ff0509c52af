"""The ladder: stored numbers are whole, a live row lies in its range, a row far off and a wrong
piece are told."""

import re
from types import ModuleType

import nbformat
import pytest
import torch
from helpers import ROOT
from scipy.stats import ttest_ind
from torch import nn

from experiments import bugs, growing, measured
from experiments import ladder as script
from mnist_vit import model
from mnist_vit.course import ladder
from mnist_vit.course.ladder.rows import LIVE, ROW
from mnist_vit.course.ladder.running import tried
from mnist_vit.course.nb02_attention.head import MyHead

CASES = ("ladder", "growing", "bugs")


@pytest.fixture
def scripts() -> dict[str, ModuleType]:
    return {"ladder": script, "growing": growing, "bugs": bugs, "measured": measured}


@pytest.mark.parametrize("results", CASES)
def test_every_rung_is_stored_with_five_seeds_as_its_command_would_run_it(
    scripts, results: str
) -> None:
    rungs, bugs = ladder.stored(results=results), scripts["bugs"]
    known = {"ladder": ladder.RUNGS, "growing": ladder.ROWS}.get(results)
    if known is None:
        known = {name: bugs.rung(name) for name in bugs.BUGS}
    # of "growing", the rows of notebooks that are not rebuilt yet may be missing
    assert list(rungs) == [name for name in known if name in rungs or results != "growing"]
    for name, about in rungs.items():
        rung = known[name]
        assert len(about["accuracy"]) == len(scripts["ladder"].SEEDS) == 5
        assert all(0 < reached <= 100 for reached in about["accuracy"])
        assert about["command"] == f"python -m experiments {results} {name}"
        assert about["twin"] is None or about["twin"] in rungs
        assert (about["twin"], about["epochs"]) == (rung.twin, None if rung.steps else rung.epochs)
        learned = [p.numel() for p in rung.build().parameters() if p.requires_grad]
        assert about["parameters"] == sum(learned)
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


class Averaged(nn.Module):
    """The classifier of notebook 00."""

    def __init__(self) -> None:
        super().__init__()
        self.to_tokens = nn.Linear(49, 64)
        self.to_logits = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.unfold(images, 7, stride=7).transpose(1, 2)
        return self.to_logits(self.to_tokens(x).mean(dim=1))


def test_the_learners_model_is_trained_itself_and_its_row_is_live(
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(0)
    model = Averaged()
    before = model.to_tokens.weight.clone()
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    trained = ladder.train(model, "patches_only")
    printed = capsys.readouterr().out
    assert trained is model
    assert not model.training
    assert not torch.equal(before, model.to_tokens.weight)
    assert ROW.search(printed)
    assert ladder.agrees(printed)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    told = ladder.table("patches_only", "with_mlp")
    assert len(ROW.findall(told)) == 1, "what was trained here is shown live"
    LIVE.clear()
    assert not ROW.search(ladder.table("patches_only", "with_mlp"))


WRONG_MODELS = [
    (Averaged, None, "Averaged is a class"),
    (lambda: 3, None, "an nn.Module, not a function"),
    (Averaged(), "patches", "no row is called 'patches'. Choose one of: pixels_linear"),
    (Averaged(), "same_head", r"makes \[2, 10\] of \[2, 1, 21, 21\]; it must make \[2, 2\]"),
    (nn.Linear(3, 3), None, "fails for pictures of shape"),
    (nn.MultiheadAttention(28, 1), None, "fails for pictures of shape"),
]


@pytest.mark.parametrize(("model", "row", "words"), WRONG_MODELS)
def test_a_model_that_does_not_fit_is_told_in_a_sentence(model, row, words: str) -> None:
    with pytest.raises(ladder.PieceError, match=words) as told:
        ladder.train(model, row)
    assert told.value._render_traceback_() == [str(told.value)]


def test_an_unsolved_piece_is_told() -> None:
    class Unsolved(Averaged):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise NotImplementedError

    with pytest.raises(ladder.PieceError, match="Unsolved uses a piece that is not solved yet"):
        ladder.train(Unsolved(), "patches_only")


def test_the_interval_is_welchs() -> None:
    ours, theirs = [84.1, 82.2, 82.5, 84.0, 84.0], [86.5, 85.4, 85.3, 86.1, 85.5]
    gain, half = ladder.interval(ours, theirs)
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert gain - half == pytest.approx(low)
    assert gain + half == pytest.approx(high)
    assert ladder.interval([10.0] * 5, [10.0] * 5) == (0.0, 0.0)


def test_each_row_is_compared_with_its_twin_where_both_are_shown() -> None:
    names = list(ladder.stored(results="growing"))
    lines = dict(zip(names, ladder.table(*names).splitlines()[1:], strict=True))
    for number, (name, line) in enumerate(lines.items(), start=1):
        assert line.startswith(f"{number:>2}  {ladder.ROWS[name].title}")
        assert len(line) <= 100
        twin = ladder.ROWS[name].twin
        if twin in names:
            assert ladder.difference(name, twin).removesuffix(" points") in line
            assert line.endswith(f"(row {names.index(twin) + 1})")
    assert "±" not in ladder.table(names[-1])


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
