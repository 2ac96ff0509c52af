"""The ladder: stored numbers are whole, a live row lies in its range, a row far off and a wrong
model are told."""

import re

import nbformat
import pytest
import torch
from helpers import NOTEBOOKS, ROOT, read
from scipy.stats import ttest_ind
from torch import nn

from experiments import bugs, growing, larger_rate, measured
from mnist_vit.course import ladder
from mnist_vit.course.ladder.rows import LIVE, ROW

STORED = {
    "growing": ladder.ROWS,
    "bugs": {name: bugs.row(name) for name in bugs.BUGS},
}


@pytest.mark.parametrize("results", STORED)
def test_every_row_is_stored_with_five_seeds_as_its_command_would_run_it(results: str) -> None:
    rows, known = ladder.stored(results=results), STORED[results]
    assert list(rows) == list(known)
    for name, about in rows.items():
        row = known[name]
        assert len(about["accuracy"]) == len(growing.SEEDS) == 5
        assert all(0 < reached <= 100 for reached in about["accuracy"])
        assert about["command"] == f"python -m experiments {results} {name}"
        assert about["twin"] is None or about["twin"] in rows
        assert (about["twin"], about["epochs"]) == (row.twin, None if row.steps else row.epochs)
        assert about["steps"] == row.steps or not row.steps
        learned = [p.numel() for p in row.build().parameters() if p.requires_grad]
        assert about["parameters"] == sum(learned)
        assert about["learning_rate"] in growing.RATES
        assert about["cpu_seconds"] < 60


def test_larger_rates_are_stored_as_their_command_chooses_them() -> None:
    """The rows are those whose best rate was the largest; the pairs follow from the rows."""
    stored = ladder.stored(results="larger_rate")
    pairs = stored.pop("pairs")
    assert list(stored) == larger_rate.NAMES
    for name, about in stored.items():
        assert ladder.stored(name)["learning_rate"] == max(growing.RATES)
        assert about["command"] == f"python -m experiments larger_rate {name}"
        assert about["tried"].keys() == {"0.01", "0.03"}
        assert about["tried"][f"{about['learning_rate']:g}"] == max(about["tried"].values())
        assert len(about["accuracy"]) == 5
    assert larger_rate.complete(stored)["pairs"] == pairs


def test_one_block_is_ahead_of_the_mlp_alone_at_the_larger_rate_only() -> None:
    """Notebooks 00 and 04 say so; no other row changes its verdict against its twin."""
    pair = ("with_block", "with_mlp")
    gain, half = ladder.interval(*(ladder.stored(name)["accuracy"] for name in pair))
    assert larger_rate.verdict(gain, half) == "open"
    larger = [ladder.stored(name, "larger_rate") for name in pair]
    assert [about["learning_rate"] for about in larger] == [0.03, 0.03]
    gain, half = ladder.interval(*(about["accuracy"] for about in larger))
    assert larger_rate.verdict(gain, half) == "ahead"
    shown = read(NOTEBOOKS / "04_encoder_block.ipynb").cells
    assert any(f"{gain:+.1f} ± {half:.1f} points. So what" in cell.source for cell in shown)
    pairs = ladder.stored("pairs", "larger_rate")
    assert not any(about["verdict_changes"] for about in pairs)


def test_what_notebooks_03_and_04_show_is_stored_by_its_command_and_read_from_there() -> None:
    stored = ladder.stored(results="measured")
    assert list(stored) == list(measured.MEASUREMENTS)
    for name, about in stored.items():
        assert len(about["percent"]) == measured.MEASUREMENTS[name][1]
        assert all(reached is None or 0 < reached <= 100 for reached in about["percent"])
        assert about["command"] == f"python -m experiments measured {name}"
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
    for name in ("draw_one_head", "draw_one_head_mean_row", "draw_two_heads"):
        assert ladder.span(0, stored[name]["percent"]).removeprefix("0 %") in shown


def test_the_drawing_is_measured_with_the_code_of_the_notebook() -> None:
    live = measured.drawing(num_heads=2, seed=0)
    assert ladder.agrees(ladder.span(live, ladder.stored("draw_two_heads", "measured")["percent"]))


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
    low, high = (
        min(ladder.stored("with_block")["accuracy"]),
        max(ladder.stored("with_block")["accuracy"]),
    )
    near, far = ladder.row("with_block", low - 1), ladder.row("with_block", high + 5)
    assert ladder.agrees(near)
    assert "too high" in far
    assert "too low" in ladder.row("with_block", low - 5)
    assert ladder.same_rows(near, ladder.row("with_block", high))
    assert not ladder.same_rows(far, ladder.row("with_block", high))
    assert not ladder.same_rows(near, near.replace("stored: ", "stored: 1"))
    assert not ladder.same_rows(near + " and more", near)
    with pytest.raises(ValueError, match="no row is called 'ladder'"):
        ladder.row("ladder", 90)


def test_attention_is_what_finds_the_patch() -> None:
    rows = ladder.stored()
    for without, best, with_it in (
        ("same_mlp", "same_pixels", "same_head"),
        ("same_whole_mlp", "same_pixels_long", "same_whole"),
    ):
        assert max(rows[without]["accuracy"]) < 55, "the control: no attention, no better than 50 %"
        assert max(rows[best]["accuracy"]) < 80
        assert min(rows[with_it]["accuracy"]) > 95
    assert all(
        seen["copy_first"] > 90 and seen["copy"] > 50 for seen in rows["same_head"]["looks_at"]
    )
    told = ladder.looks(ladder.ROWS["same_head"].build().eval())
    assert len(ROW.findall(told)) == 3
    assert not ladder.agrees(told), "a model that was not trained looks anywhere"


def test_a_row_may_lie_as_far_outside_its_range_as_its_seeds_are_apart() -> None:
    assert ladder.agrees("29 % (stored: 32 to 38)")
    assert not ladder.agrees("25 % (stored: 32 to 38)")
    assert ladder.agrees("51 % (stored: 53 to 53)")
    assert not ladder.agrees("50 % (stored: 53 to 53)")
