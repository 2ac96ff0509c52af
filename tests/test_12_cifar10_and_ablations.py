"""Notebook 12's checks, in answers of other styles; its stored runs say what the text says of
them."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import judged
from PIL import Image
from torch import nn

from mnist_vit.check import EXERCISES
from mnist_vit.course.checking import verdict
from mnist_vit.course.ladder import interval, stored
from mnist_vit.course.nb12_cifar10_and_ablations import project
from mnist_vit.course.nb12_cifar10_and_ablations.photographs import (
    SIZE,
    photographs,
    random_places,
    write_crops,
)
from mnist_vit.model import VisionTransformer


def with_new_parameter(model: VisionTransformer) -> VisionTransformer:
    zeros = torch.zeros_like(model.encoder.pos_embedding)
    model.encoder.pos_embedding = nn.Parameter(zeros, requires_grad=False)
    return model


def with_buffer(model: VisionTransformer) -> None:
    shape = model.encoder.pos_embedding.shape
    del model.encoder.pos_embedding
    model.encoder.register_buffer("pos_embedding", torch.zeros(shape))


def with_statistics(base: Sequence[float], variant: Sequence[float]) -> str:
    gap = statistics.mean(variant) - statistics.mean(base)
    limit = max(max(base) - min(base), max(variant) - min(variant))
    if abs(gap) <= limit:
        return "unclear"
    return "better" if gap > 0 else "worse"


def all_at_once(rule: Any, effect: float, seeds: int, trials: int) -> float:
    base, variant = np.random.default_rng(1).standard_normal((2, trials, seeds))
    verdicts = [
        rule(one.tolist(), other.tolist())
        for one, other in zip(base, variant + effect, strict=True)
    ]
    return verdicts.count("better") / trials


def test_what_the_text_says_of_the_rule_and_of_the_stored_runs() -> None:
    rule, power = EXERCISES["compare_runs"].answer, EXERCISES["power"].answer
    with torch.random.fork_rng():
        torch.manual_seed(1)
        found = {seeds: power(rule, 2.0, seeds, 4000) for seeds in (3, 10)}
        assert 0.4 < found[3] < 0.5, "three seeds miss more than half"
        assert found[10] < found[3] / 4, "and ten miss more"
    runs = {name: about["accuracy"] for name, about in stored(results="project").items()}
    assert all(len(seeds) == 5 for seeds in runs.values())
    assert rule(runs["vit"], runs["patches_14"]) == "better"
    assert rule(runs["vit"], runs["no_positions"]) == "unclear"
    assert max(runs["vit"]) + 4 < min(runs["cnn"] + runs["mlp"])


def test_what_the_text_says_of_weights_and_rates_on_photographs() -> None:
    """Start values gain at the higher rate alone, and the rate matters to them alone."""
    runs = {name: about["accuracy"] for name, about in stored(results="photographs").items()}
    assert all(len(seeds) == 5 for seeds in runs.values())

    def is_shown(one: str, two: str) -> bool:
        gain, half = interval(runs[one], runs[two])
        return gain > half

    assert is_shown("new_fast", "pretrained_fast")
    assert not is_shown("new_slow", "pretrained_slow")
    assert not is_shown("pretrained_slow", "new_slow")
    assert is_shown("new_fast", "new_slow")
    assert not is_shown("pretrained_fast", "pretrained_slow")


@pytest.mark.parametrize("name", project.MODELS)
def test_models_of_the_project_are_what_is_stored(name: str) -> None:
    learned = sum(p.numel() for p in project.MODELS[name]().parameters() if p.requires_grad)
    assert learned == stored(name, "project")["parameters"]


def another_forward(model: VisionTransformer) -> None:
    encoder = model.encoder
    encoder.forward = lambda tokens: encoder.ln(encoder.layers(encoder.dropout(tokens)))


POWER, COUNT = EXERCISES["power"].answer, EXERCISES["count_numbers"].answer
SPLIT = EXERCISES["split_by_region"].answer


def fixed_border(base: list[float], variant: list[float]) -> str:
    difference = statistics.mean(variant) - statistics.mean(base)
    if abs(difference) <= 2:
        return "unclear"
    return "better" if difference > 0 else "worse"


def one_block_less(*sizes: int) -> int:
    return COUNT(*sizes[:2], sizes[2] - 1, *sizes[3:])


def positions_elsewhere(model):
    zeros = torch.zeros_like(model.encoder.pos_embedding)
    model.pos_embedding = nn.Parameter(zeros, requires_grad=False)


RIGHT: list[tuple[str, Any]] = [
    ("count_numbers", lambda *sizes: torch.tensor(COUNT(*sizes))),
    ("count_numbers", lambda *sizes: np.int64(COUNT(*sizes))),
    ("split_by_region", lambda *given: torch.stack(SPLIT(*given))),
    ("remove_positions", with_new_parameter),
    ("remove_positions", with_buffer),
    ("compare_runs", with_statistics),
    ("power", all_at_once),
]


def freeze_a_module(model: VisionTransformer) -> None:
    nn.init.zeros_(model.encoder.pos_embedding)
    model.encoder.requires_grad = False


def drawn_with_normal(rule: Any, effect: float, seeds: int, trials: int) -> float:
    return torch.normal(effect, 1.0, seeds).mean().item()


def all_as_one_table(rule: Any, effect: float, seeds: int, trials: int) -> float:
    verdicts = rule(torch.randn(trials, seeds), torch.randn(trials, seeds) + effect)
    return float(verdicts == "better")


def share_of_the_clear(rule: Any, effect: float, seeds: int, trials: int) -> float:
    said = []

    def heard(base: list[float], variant: list[float]) -> str:
        said.append(rule(base, variant))
        return said[-1]

    POWER(heard, effect, seeds, trials)
    return said.count("better") / (trials - said.count("unclear"))


def effect_in_one_run(rule: Any, effect: float, seeds: int, trials: int) -> float:
    def moved(base: list[float], variant: list[float]) -> str:
        return rule(base, [variant[0] + effect, *variant[1:]])

    return POWER(moved, 0.0, seeds, trials)


def rounded(rule: Any) -> Any:
    return lambda *sets: rule(*([float(round(run)) for run in runs] for runs in sets))


def in_order(rule: Any) -> Any:
    return lambda *sets: rule(*map(sorted, sets))


def grows_with_each(rule: Any, effect: float, seeds: int, trials: int) -> float:
    return sum(POWER(rule, k * effect, seeds, 1) for k in range(1, trials + 1)) / trials


def patches_by_the_area(*sizes: int) -> int:
    right, wrong = (sizes[0] // sizes[1]) ** 2, sizes[0] // sizes[1] ** 2
    return COUNT(*sizes) + (wrong - right) * sizes[3]


def positions_of_each_channel(*sizes: int) -> int:
    """As many for 24 pixels in patches of 4 and of 6."""
    return COUNT(*sizes) + (sizes[6] - 1) * (sizes[0] // sizes[1]) ** 2 * sizes[3]


def subtracted_today(model: nn.Module) -> None:
    """Nothing is added now; what the positions learn will be."""
    today = model.encoder.pos_embedding.detach().clone()
    model.encoder.register_forward_pre_hook(lambda _, inputs: (inputs[0] - today,))


def subtracted_always(model: nn.Module) -> None:
    """What is added is taken away again, whatever the positions learn."""
    model.encoder.register_forward_pre_hook(lambda part, inputs: (inputs[0] - part.pos_embedding,))


def zero_with_a_hook(model: nn.Module) -> None:
    """A gradient is computed, and the hook sets it to zero: training moves nothing."""
    nn.init.zeros_(model.encoder.pos_embedding)
    model.encoder.pos_embedding.register_hook(torch.zeros_like)


def test_zeros_with_a_hook_are_not_told_to_learn() -> None:
    told = verdict(EXERCISES["remove_positions"], zero_with_a_hook)[1]
    assert "learn" not in told
    assert "away from zero" not in told


def as_numbers(left: torch.Tensor, size: int, cut: int) -> tuple[list[int], list[int]]:
    return [int(x + size <= cut) for x in left], [int(x >= cut) for x in left]


WRONG: list[tuple[str, Any, str]] = [
    (
        "remove_positions",
        subtracted_today,
        "not zero. Set all of it to zero, as nn.init.zeros_ does, and leave the forward as it is",
    ),
    ("remove_positions", subtracted_always, "are right, but model.encoder.pos_embedding is not"),
    ("split_by_region", as_numbers, "training must hold booleans, but holds numbers, such as 0"),
    (
        "count_numbers",
        lambda *sizes: COUNT(*sizes) if sizes[-1] > 1 else 0,
        "5 classes and 3 channels your number is right. With hidden_dim 16, mlp_dim 56, 36 patches"
        " of 6 × 6, 7 classes and 1 channel it is 0, and should be 7383",
    ),
    ("count_numbers", positions_of_each_channel, "Outside the blocks you count 864 numbers too"),
    (
        "remove_positions",
        lambda model: model.encoder.register_buffer("pos_embedding", torch.zeros(1)),
        "The module has something of this name already.",
    ),
    ("count_numbers", lambda *sizes: float(COUNT(*sizes)), "come back as floats: 119194.0"),
    ("count_numbers", lambda *sizes: torch.tensor(COUNT(*sizes)).double(), "come back as floats"),
    ("remove_positions", freeze_a_module, "Your code sets model.encoder.requires_grad: on a mod"),
    ("power", drawn_with_normal, "Its size is a tuple"),
    (
        "remove_positions",
        lambda model: nn.init.ones_(model.encoder.pos_embedding).requires_grad_(False) and None,
        "",
    ),
    ("remove_positions", lambda model: nn.init.zeros_(model.conv_proj.weight) and None, ""),
    ("remove_positions", lambda model: delattr(model.encoder, "pos_embedding"), ""),
    ("remove_positions", another_forward, "pos_embedding is not zero"),
    ("compare_runs", lambda base, variant: True, ""),
    ("compare_runs", lambda *runs: "better", "'unclear', and is 'better', for base 90, 84"),
    ("power", lambda *given: 0.45, ""),
    ("power", lambda *given: "45 %", "must be a number from 0 to 1"),
    ("power", lambda *given: 1.02 * POWER(*given), "where 4 of 7 experiments are better"),
    ("power", lambda rule, effect, *rest: POWER(rule, abs(effect), *rest), "With effect=-5"),
    ("power", all_as_one_table, "as the base's runs, rule is given a tensor of shape (7, 3)."),
    ("power", lambda rule, effect, *two: POWER(rule, effect, *two[::-1]), "the rule 3 times, with"),
    ("power", lambda rule, effect, n, _: POWER(rule, effect, n, 1), "the rule once, with 3 runs"),
    ("power", share_of_the_clear, "in all of 40 experiments your code divides by 0. The share"),
    ("power", lambda rule, *rest: POWER(rounded(rule), *rest), "and do not round"),
    ("power", lambda rule, *rest: POWER(in_order(rule), *rest), "in the order in which they come"),
    ("power", effect_in_one_run, "the four runs of the variant are 5, 0, 0, 0 on average."),
    ("power", grows_with_each, "In the first 200 of 2000 experiments the variant's runs are"),
    ("count_numbers", patches_by_the_area, "(image_size // patch_size²) · hidden_dim numbers too"),
    ("power", lambda rule, effect, *rest: POWER(rule, 2 * effect, *rest), "0 (which is right) on"),
    ("compare_runs", lambda *runs: fixed_border(*runs), "with spreads half as large, too"),
    ("count_numbers", lambda *sizes: COUNT(*sizes) + sizes[3], "hidden_dim numbers too many"),
    ("count_numbers", lambda *sizes: one_block_less(*sizes), "one block too few"),
    ("split_by_region", lambda *given: [x.nonzero()[:, 0] for x in SPLIT(*given)], "the places of"),
    ("split_by_region", lambda *given: SPLIT(given[0], 4, given[2]), "for three values of size"),
    ("split_by_region", lambda *given: SPLIT(*given[:2], 10), "for three values of cut"),
    (
        "split_by_region",
        lambda x, size, cut: SPLIT(x, size - 1, cut),
        "False, and is True, for columns 7 to 10.",
    ),
]
NAMED = [
    ("remove_positions", positions_elsewhere, "and at this place"),
    ("remove_positions", zero_with_a_hook, "leave their requires_grad at True. requires_grad_("),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_held_out_crops_share_no_column_with_training_crops() -> None:
    split = EXERCISES["split_by_region"].answer
    for photograph in photographs().values():
        left = torch.from_numpy(random_places(photograph, 150))[:, 0]
        training, held_out = split(left, SIZE, round(0.7 * photograph.width))
        assert left[training].max() + SIZE <= left[held_out].min()
        assert min(training.sum(), held_out.sum()) > 20


def test_crops_are_files_of_the_photograph(tmp_path: Path) -> None:
    photograph = photographs()["temple"]
    write_crops(photograph, random_places(photograph, 2), tmp_path / "temple")
    files = sorted((tmp_path / "temple").iterdir())
    assert [Image.open(file).size for file in files] == [(SIZE, SIZE)] * 2
