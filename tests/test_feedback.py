"""What checks say of wrong answers is true: each sentence has an answer of which it would be false,
and is not said of it. What to do instead comes with the second failure."""

import contextlib
import copy
import json
import linecache
import math
import os
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import ROOT, accept, environment, reject
from torch import Tensor, nn

from mnist_vit import check
from mnist_vit.course import helping
from mnist_vit.course.checking import judge, raised
from mnist_vit.course.checking.comparing import compare
from mnist_vit.course.checking.elsewhere import kept
from mnist_vit.course.checking.meanings import meaning_of
from mnist_vit.course.nb05_encoder.encoder import MyEncoder
from mnist_vit.course.observing import blaming, calls, looking, reacting, tracing
from mnist_vit.course.observing.blaming import blame
from mnist_vit.course.observing.calls import Call, alike, calls_of
from mnist_vit.course.observing.instead_of import instead_of
from mnist_vit.course.observing.observers import (
    INPUTS_ALONE,
    Evidence,
    Finding,
    not_filled,
    observe,
)
from mnist_vit.course.observing.tracing import Trace
from mnist_vit.model import EncoderBlock
from tools.unsolved import without_solutions

NAN = math.nan
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TOKENS = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1))


def said(name: str, answer: Any) -> str:
    """All that is said of an answer that is wrong."""
    judgement = judge(check.EXERCISES[name], answer)
    assert not judgement.passed, judgement.said
    return judgement.all


def called(answer: Callable, *given: Any) -> list[Call]:
    """The recorded calls of one call."""
    with calls_of(answer) as (function, calls):
        function(*given)
    return calls


def observed(ours: Callable, theirs: Callable, *given: Any) -> Finding | None:
    """What is observed where theirs stands in the place of ours."""
    our, their = called(ours, *given), called(theirs, *given)
    expected, value = our[0].output, their[0].output
    first = expected[0] if expected else None, value[0] if value else None
    return observe(Evidence(our, their, "output", first[1], first[0]))


def words(finding: Finding | None) -> str:
    return f"{finding.said} {finding.instead}" if finding else ""


# --- a line is blamed only if our numbers repair it ----------------------------------------------


def cubed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    sharper = scores**3
    weights = sharper.softmax(dim=-1)
    return weights @ v, weights


def too_small(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.einsum("...qd,...kd->...qk", q, k)
    scores *= 0.3
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def bent_twice(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = torch.sin(scores)
    weights = torch.sin(scores).softmax(dim=-1)
    return weights @ v, weights


def without_root(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The root is missing before a line that is right; and something else is wrong behind it."""
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    return (weights @ v).tanh(), weights


@pytest.mark.parametrize(
    ("answer", "expression"), [(cubed, "scores**3"), (too_small, "scores *= 0.3")]
)
def test_an_expression_is_blamed_if_our_numbers_repair_it(
    answer: Callable, expression: str
) -> None:
    told = said("attention", answer)
    assert f"in the place of what `{expression}` gives, your result is right" in told


def test_an_answer_that_is_slow_to_follow_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines stood in a long file; the check itself was said to be unable to compare."""

    def slow(*given: Any) -> Any:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        return asked_for(*given)

    asked_for = tracing.asked_for
    monkeypatch.setattr(tracing, "asked_for", slow)
    monkeypatch.setattr(calls, "LIMIT", 0.1)
    told = said("attention", too_small)
    assert "cannot be compared" not in told
    assert "right shape, wrong numbers: output" in told


def test_an_expression_that_stands_in_two_lines_is_told_with_its_line() -> None:
    assert "`torch.sin(scores)`, in the line `scores = torch.sin(scores)`, " in said(
        "attention", bent_twice
    )


def test_a_right_line_behind_a_missing_step_is_not_blamed() -> None:
    told = said("attention", without_root)
    assert "your result is right" not in told
    assert "`scores.softmax(dim=-1)` is given only values that ours has, too, and gives one" in told
    assert "another value should go in, or the mistake is there or behind it." in told


def centred(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Our weights' rows have one mean, which changes no softmax in the place of the keys' mean."""
    k = k - k.mean(-1, keepdim=True)
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights


def test_a_value_of_which_only_the_sum_counts_repairs_nothing() -> None:
    assert "Your result is right if" not in said("attention", centred)


def decayed(
    weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    loss = F.cross_entropy(F.linear(x, weight, bias), labels) + 0.01 * weight.square().sum()
    grads = torch.autograd.grad(loss, (weight, bias))
    return weight - rate * grads[0], bias - rate * grads[1]


def test_the_second_of_two_results_says_nothing_of_the_first() -> None:
    told = said("gradient_step", decayed)
    assert "0.01 times weight" in told
    assert "everywhere" not in told


class Scaled(check.EXERCISES["encoder_block"].answer):  # type: ignore[misc]
    """The sum in the middle is scaled, which the norm behind it takes away again."""

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.self_attention(x, x, x)[0]
        x = (input + self.dropout(x)) / 2
        y = self.mlp(self.ln_2(x))
        return x + y


def test_what_is_no_number_of_ours_is_not_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blaming, "SECONDS", 10.0)  # a slow machine may not end the search
    told = said("encoder_block", Scaled)
    assert "is given only values that ours has" not in told
    assert (
        "Your result is right if a value of ours goes into `x + y` in place of what"
        " `(input + self.dropout(x)) / 2` gives" in told
    )


class TanhAtTheEnd(check.EXERCISES["multi_head_attention"].answer):  # type: ignore[misc]
    """Cuts the packed product, which our solution never makes; that line is right."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        packed = []
        for tokens in (query, key, value):
            packed.append(F.linear(tokens, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1))
        q, k, v = (
            packed[i][i].unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for i in range(3)
        )
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        weights = F.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2)).tanh()
        if options.get("average_attn_weights", True):
            weights = weights.mean(dim=1)
        return output, weights if options.get("need_weights", True) else None


def test_a_right_line_that_is_in_none_of_our_solutions_is_not_quoted() -> None:
    assert "F.linear" not in said("multi_head_attention", TanhAtTheEnd)


def test_what_is_ours_in_another_order_is_not_said_to_be_ours() -> None:
    class Other(check.EXERCISES["multi_head_attention"].answer):  # type: ignore[misc]
        def forward(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
            w, b = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
            q = self.split(query, w[0], b[0])
            k = self.split(value, w[1], b[1])
            v = self.split(key, w[2], b[2])
            scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
            weights = F.dropout(scores.softmax(dim=-1), self.dropout, self.training)
            output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
            if options.get("average_attn_weights", True):
                weights = weights.mean(dim=1)
            return output, weights if options.get("need_weights", True) else None

        def split(self, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            made = F.linear(tokens, weight, bias)
            return made.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    assert "q @ k" not in said("multi_head_attention", Other)


def test_solutions_are_not_traced_where_nothing_can_be_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(exercise: Any) -> Any:
        raise AssertionError("traced")

    monkeypatch.setattr(sys.modules[judge.__module__], "_known_steps", fail)

    def coarse(rule: Callable, effect: float, seeds: int, trials: int) -> float:
        drawn = check.EXERCISES["power"].answer(rule, effect, seeds, trials)
        return drawn / 2

    said("power", coarse)


class LateNorm(nn.Module):
    """An encoder whose last line is right; the positions are scaled before it."""

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__()
        made = check.EXERCISES["encoder"].answer(*sizes, **options)
        self.pos_embedding = made.pos_embedding
        self.dropout = made.dropout
        self.layers = made.layers
        self.ln = made.ln

    def forward(self, input: Tensor) -> Tensor:
        x = self.dropout(input + self.pos_embedding.sin())
        return self.ln(self.layers(x))


def test_the_last_line_is_not_blamed_for_what_it_is_given() -> None:
    told = said("encoder", LateNorm)
    assert "self.ln(" not in told
    assert "`self.pos_embedding.sin()`" in told


def test_no_line_is_quoted_of_an_answer_of_one_line() -> None:
    told = said("gelu", lambda x: x * 0.5 * (1 + torch.erf(x / 2.1)))
    assert "`" not in told


def test_of_an_answer_of_one_line_it_is_said_where_nan_comes_up() -> None:
    told = said("gelu", lambda x: x * (1 + torch.acos(2 + x.abs())))
    assert "`torch.acos(2 + x.abs())` gives the first numbers that are nan or infinite." in told


def test_an_expression_over_several_lines_is_quoted_whole() -> None:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        sharper = scores.clamp(
            min=-0.5,
            max=0.5,
        )
        weights = sharper.softmax(dim=-1)
        return weights @ v, weights

    assert "`scores.clamp( min=-0.5, max=0.5, )` gives" in said("attention", answer)


def test_a_gradient_that_is_cut_off_is_shown_where() -> None:
    def answer(x: Tensor) -> Tensor:
        phi = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        return x * phi.detach()

    assert "No gradient flows through `phi.detach()`" in said("gelu", answer)


def test_a_gradient_that_is_not_cut_off_is_not_said_to_be() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return 2 * gradients[0]

    told = said("gelu", lambda x: Doubled.apply(F.gelu(x)))
    assert "this gradient is not" in told
    assert "No gradient flows" not in told


# --- observations are true -----------------------------------------------------------------------


def test_nan_is_equal_to_nan_and_to_nothing_else() -> None:
    infinite = torch.tensor([math.inf, 1.0])
    assert alike(NAN, NAN)
    assert not alike(NAN, 0.0)
    assert not alike(torch.tensor([NAN, 1.0]), torch.tensor([0.0, 1.0]))
    assert not alike(infinite, torch.tensor([math.inf, 5.0]))
    assert not alike(infinite, -infinite)


def test_what_gives_nan_is_not_drawn_at_random() -> None:
    assert "random" not in words(observed(lambda x: x.exp(), lambda x: (x - 9).log(), X))
    assert "random" not in words(observed(lambda x: 1.0, lambda x: NAN, X))
    random = observed(lambda x: x.exp(), lambda x: x + torch.rand(()), X)
    assert "draws random numbers" in words(random)


def test_what_changes_the_module_it_is_given_is_not_random() -> None:
    def grows(part: nn.Linear) -> Tensor:
        with torch.no_grad():
            part.weight.add_(1)
        return part.weight

    given = nn.Linear(3, 3)
    assert "another result" not in words(observed(lambda part: part.weight + 0, grows, given))


def test_numbers_are_called_random_only_if_a_generator_is_seen_to_draw_them() -> None:
    import random

    theirs = observed(lambda x: x.exp(), lambda x: x + random.random(), X)
    assert "each time: your code draws random numbers." in words(theirs)
    new = observed(lambda x: x.exp(), lambda x: x + np.random.default_rng().random(), X)
    assert new is not None
    assert "gives another result each time, even after torch.manual_seed(0)." in new.said
    assert new.instead == INPUTS_ALONE


class Counted:
    """What stands outside of a function, as a class of the notebook does."""

    calls = 0


def test_what_stands_outside_is_told_only_where_it_changes() -> None:
    table: list[int] = []

    def in_a_list(x: Tensor) -> Tensor:
        table.append(1)
        return x + len(table)

    def in_a_class(x: Tensor) -> Tensor:
        Counted.calls += 1
        return x + Counted.calls

    def in_a_default(x: Tensor, before: list = []) -> Tensor:  # noqa: B006
        before.append(1)
        return x + len(before)

    for theirs in (in_a_list, in_a_class, in_a_default):
        assert "that is still there in the next call" in words(observed(torch.exp, theirs, X))


def half_filled(x: Tensor) -> Tensor:
    made = torch.empty_like(x)
    made[:1] = x[:1].exp()
    return made


def filled_in_two_steps(x: Tensor) -> Tensor:
    made = torch.empty(x.shape)
    made[:1] = x[:1].exp()
    made[1:] = x[1:]
    return made


def test_numbers_that_nobody_has_set_are_told_as_that() -> None:
    def with_the_last_token_left_out(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        made = torch.empty_like(x)
        size = (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
        made[:, :-1] = (x / size * weight)[:, :-1]
        return made

    told = said("rms_norm", with_the_last_token_left_out)
    assert "`torch.empty_like(x)` makes a tensor and sets none of its numbers" in told
    assert "random" not in told
    assert "outside" not in told
    found = not_filled(called(half_filled, X))
    assert found is not None
    assert "on what lay in memory: `torch.empty_like(x)` makes" in found.said
    assert not_filled(called(filled_in_two_steps, X)) is None


def test_what_is_kept_by_shape_is_wrong_for_other_numbers() -> None:
    table: dict[Any, Tensor] = {}

    def put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
        place = table.setdefault(order.shape, order.argsort(dim=1))
        hidden = mask_token.expand(len(order), order.shape[1] - visible.shape[1], -1)
        every = torch.cat([visible, hidden], dim=1)
        return every.gather(1, place[:, :, None].expand(-1, -1, every.shape[2]))

    def hidden_loss(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
        hidden = table.setdefault((order.shape, keep), order[:, keep:])[:, :, None]
        error = (predicted - patches).square().mean(dim=-1, keepdim=True)
        return error.gather(1, hidden).mean()

    for name, answer in (("put_back", put_back), ("hidden_loss", hidden_loss)):
        assert "not with other numbers of the same shapes, in a later call" in said(name, answer)


class KeepingItsFirstWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept: Tensor | None = None

    def forward(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        self.kept = weight if self.kept is None else self.kept
        return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * self.kept


def test_no_line_is_said_to_cut_a_gradient_where_an_earlier_input_was_kept() -> None:
    told = said("rms_norm", KeepingItsFirstWeight())
    assert "in a later call, the values are wrong" in told
    assert "detach" not in told


def test_a_small_shift_is_not_called_the_same_in_all_cases() -> None:
    told = words(observed(lambda a: a**0.5, lambda a: a**0.5 + 1e-6 * a, 3))
    assert "plus" not in told


def test_one_word_for_all_inputs_says_nothing_of_other_inputs() -> None:
    def calls(function: Any) -> list[Call]:
        with calls_of(function) as (wrapped, made):
            for a, b in ((5, 1), (7, 2), (9, 3), (1, 8)):
                wrapped(a, b)
        return made

    ours = calls(lambda a, b: "more" if a > b else "less")
    pairs = list(zip(ours, calls(lambda a, b: "equal"), strict=True))
    assert instead_of(pairs) == ""


def test_what_is_kept_from_call_to_call_is_seen_by_a_second_call() -> None:
    table: list[float] = []

    def sums(x: Tensor) -> Tensor:
        table.append(float(x.sum()))
        return torch.tensor(sum(table))

    made = []
    for function in (lambda x: x.sum(), sums, lambda x: x.sum() * 1.0):
        with calls_of(function) as (wrapped, calls):
            wrapped(torch.ones(3))
        made.append(calls)
    found = kept(made[0], made[1])
    assert found is not None
    assert "given the same inputs once more" in found.said
    assert kept(made[0], made[2]) is None


def test_ours_on_the_diagonal_is_told_as_each_with_each() -> None:
    ours, other = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([3.0, 4.0, 7.0])
    told = looking.axes(ours / other, ours / other[:, None], None)
    assert "3 times 3 numbers, and ours is its diagonal" in told
    assert "diagonal" not in looking.axes(ours / other, torch.randn(3, 3), None)


def test_an_axis_of_length_1_is_too_many_only_where_there_is_one() -> None:
    expected = torch.randn(6, 4)
    assert "length 1" in looking.axes(expected, expected[None], None)
    told = looking.axes(expected, expected.reshape(2, 3, 4), None)
    assert "length 1" not in told
    assert "only their shape is not" in told


def test_a_parameter_that_meets_zeros_is_not_said_to_be_missing() -> None:
    def block(zero: str) -> nn.Sequential:
        made = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6))
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                parameter.zero_() if zero and name.startswith(zero) else parameter.fill_(0.1)
        return made

    theirs = block("0")
    ours = block("")
    told = words(observed(ours, theirs, TOKENS))
    assert "2.weight" not in told

    class Without(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(2 * torch.eye(6))
            self.bias = nn.Parameter(torch.ones(6))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight

    class With(Without):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).sin() + self.bias

    assert "when we change bias" in words(observed(With(), Without(), TOKENS))


def test_nothing_was_changed_is_not_said_where_a_flag_or_a_hook_was() -> None:
    def fills(part: nn.Linear) -> None:
        with torch.no_grad():
            part.weight.zero_()

    def freezes(part: nn.Linear) -> None:
        part.requires_grad_(False)

    def hooks(part: nn.Linear) -> None:
        part.register_forward_hook(lambda *_: None)

    def to_eval(part: nn.Linear) -> None:
        part.eval()

    for change in (freezes, hooks, to_eval):
        assert "nothing was changed" not in words(observed(fills, change, nn.Linear(2, 2)))
    told = words(observed(fills, lambda part: part.state_dict().clear(), nn.Linear(2, 2)))
    assert "nothing was changed" in told


def test_an_input_with_nan_is_not_called_changed() -> None:
    given = torch.tensor([1.0, NAN])
    assert "in place" not in words(observed(lambda x: x + 1, lambda x: x * 2, given))
    assert "in place" in words(observed(lambda x: x + 1, lambda x: x.mul_(2), given.clone()))


def test_zero_everywhere_means_zero() -> None:
    expected = 1e-4 * X
    small = 1e-7 * X.exp()
    assert "zero everywhere" not in looking.transformed(expected, small, None)
    assert "zero everywhere" in looking.transformed(expected, 0 * X, None)


def test_two_functions_that_fit_name_none() -> None:
    large = torch.tensor([[-9.0, 8.0, 20.0], [30.0, -40.0, 7.0]])
    assert looking._function(large, torch.relu(large), None) == ""
    assert "ReLU of ours" in looking._function(X, torch.relu(X), None)


def test_a_factor_that_two_sizes_explain_is_given_as_a_number() -> None:
    given = torch.zeros(4, 4)
    call = Call(torch.exp, [given], ["x"], [given])
    assert looking.factor(2.0, (call, call)) == "2"
    given = torch.zeros(3, 5)
    call = Call(torch.exp, [given], ["x"], [given])
    assert looking.factor(5**0.5, (call, call)) == "2.236 (= √x.shape[-1])"


def test_a_factor_is_told_of_the_cases_that_were_tried() -> None:
    ours, theirs = called(lambda n: n * n, 3), called(lambda n: 2 * n * n, 3)
    assert "in all 4 cases that we tried" in reacting.scales(ours[0], theirs[0])
    theirs = called(lambda n: 2 * n * n if n < 6 else 0, 3)
    assert reacting.scales(ours[0], theirs[0]) == ""


def test_rows_of_pixels_are_not_called_tokens() -> None:
    def ours(images: Tensor) -> Tensor:
        return images.exp()

    def theirs(images: Tensor) -> Tensor:
        return images.exp() + images.mean(dim=1, keepdim=True)

    assert "token" not in words(observed(ours, theirs, TOKENS))


def test_what_comes_back_is_an_input_to_the_last_bit() -> None:
    def ours(x: Tensor) -> Tensor:
        return x.exp()

    assert "unchanged" in words(observed(ours, lambda x: x, X))
    assert "unchanged" not in words(observed(ours, lambda x: x + 1e-7, X))


def test_a_result_that_does_not_move_is_told_with_what_was_changed() -> None:
    def ours(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    told = words(observed(ours, lambda x, y: x.sin(), X, X + 1))
    assert "stays the same when we change y; ours does not" in told
    saturated = words(observed(ours, lambda x, y: x.sin() + (y > -99), X, X + 1))
    assert "does not depend" not in saturated


def test_the_numbers_that_are_infinite_are_counted_in_the_answer() -> None:
    told = compare("output", torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0]), 1e-6)
    assert told == "output: 1 of 2 numbers is nan."


def test_a_count_that_is_ours_in_other_cases_is_not_told() -> None:
    def two_heads(image_size: int, budget: int) -> int:
        return check.EXERCISES["patch_size"].answer(image_size, budget // 2)

    told = said("patch_size", two_heads)
    assert "Your count" not in told
    assert "It is wrong in 6 of 14 cases, and too large in each of these." in told


def test_nothing_is_blamed_where_numbers_are_drawn() -> None:
    class Twice(check.EXERCISES["mlp_block"].answer):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            hidden = F.gelu(self["0"](x))
            x = self["3"](hidden)
            return self.dropout(self.dropout(x))

    assert "`" not in said("mlp_block", Twice)


def test_the_right_axis_is_not_advised_to_who_takes_it() -> None:
    def nearly(scores: Tensor) -> Tensor:
        e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        total = e.sum(dim=-1, keepdim=True) + 1e-3
        return e / total

    told = said("softmax_rows", nearly)
    assert "yours sum to 0.999" in told
    assert "dim=-1." not in told
    columns = looking.rows(X.softmax(dim=-1), X.softmax(dim=0), None)
    assert columns == "Rows should sum to 1, and here the numbers along axis 0 do."


def test_a_call_whose_weights_were_others_says_nothing() -> None:
    """The first call of the check of an encoder is made with start values, which are free."""

    class Scaled(check.EXERCISES["encoder"].answer):  # type: ignore[misc]
        def __init__(self, *sizes: Any, **options: Any) -> None:
            torch.randn(7)  # other start values than ours
            super().__init__(*sizes, **options)

        def forward(self, input: Tensor) -> Tensor:
            x = 3 * input + self.pos_embedding
            x = self.layers(self.dropout(x))
            return self.ln(x)

    assert "`3 * input`" in said("encoder", Scaled)


def test_what_is_advised_is_not_refused() -> None:
    def in_place(weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float) -> Any:
        F.cross_entropy(F.linear(x, weight, bias), labels).backward()
        weight -= rate * weight.grad
        bias -= rate * bias.grad
        return weight, bias

    assert "no_grad" not in said("gradient_step", in_place)

    def silence(part: nn.Module) -> None:
        part.mlp[3].weight.zero_()

    assert "no_grad" in said("silence", silence)


# --- names of exercises --------------------------------------------------------------------------


class MyMLP(nn.Module):
    """A stub."""

    def __init__(self, *sizes: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class MyBlock(check.EXERCISES["encoder_block"].answer):  # type: ignore[misc]
    """An encoder block that is right but for what it calls."""

    def forward(self, input: Tensor) -> Tensor:
        return MyMLP()(input)


def test_another_stub_that_is_called_is_named() -> None:
    def my_attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
        raise NotImplementedError

    class MyHead(check.EXERCISES["head"].answer):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Any:
            return my_attention(self.w_q(x), self.w_k(x), self.w_v(x))

    judgement = judge(check.EXERCISES["head"], MyHead)
    assert judgement.said == "head: my_attention, which your code calls, is not solved yet."
    assert judgement.begun
    judgement = judge(check.EXERCISES["encoder_block"], MyBlock)
    assert judgement.said == "encoder_block: MyMLP, which your code calls, is not solved yet."
    assert "not solved yet. Replace the stub" in said("attention", my_attention)


def test_a_text_is_quoted_up_to_a_word() -> None:
    told = compare("the verdict", "first second " * 12, "third", 0.0)
    assert told is not None
    assert told.endswith("first second …'.")
    power = check.EXERCISES["power"].answer
    told = said("power", lambda rule, effect, *rest: power(rule, effect / 2, *rest))
    assert "with effect 2 and 3 seeds. " in told
    told = said("convert_block", lambda theirs: theirs.clear() or dict.fromkeys("ab"))
    assert told.endswith(".")


# --- what passes, and what does not --------------------------------------------------------------


def test_a_right_answer_may_write_into_its_own_copy() -> None:
    def fold(weight: Tensor, bias: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        new = weight.clone()
        for row in range(len(scale)):
            new[row] = new[row] * scale[row]
        return new, bias * scale

    def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        x = x - x.mean(dim=-1, keepdim=True)
        x /= ((x**2).mean(dim=-1, keepdim=True) + eps).sqrt()
        x *= weight
        return x + bias

    def softmax(scores: Tensor) -> Tensor:
        own = scores - scores.amax(dim=-1, keepdim=True)
        own.exp_()
        own /= own.sum(dim=-1, keepdim=True)
        return own

    accept("fold_scale", fold)
    accept("layer_norm", norm)
    accept("softmax_rows", softmax)


def test_a_gradient_that_cannot_be_computed_is_told_as_that() -> None:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)
        output = weights @ v
        weights += 0  # which the gradient of the product needs as it was
        return output, weights

    told = said("attention", answer)
    assert "your code raised" not in told


def test_layers_are_silenced_by_number_or_by_name() -> None:
    for name in (3, "3"):

        def silence(part: nn.Module, name: Any = name) -> None:
            with torch.no_grad():
                for layer in (part.self_attention.out_proj, part.mlp[name]):
                    layer.weight.zero_()
                    layer.bias.zero_()

        accept("silence", silence)


def undropped(self: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    """Multi-head attention that returns the weights as they were before dropout."""
    output, _ = attention_forward(self, query, key, value, **options)
    _, weights = attention_forward(self.eval(), query, key, value, **options)
    self.train()
    return output, weights


attention_forward = check.EXERCISES["multi_head_attention"].answer.forward


def test_weights_before_dropout_are_refused() -> None:
    kind = type(
        "Undropped",
        (check.EXERCISES["multi_head_attention"].answer,),
        {"forward": undropped},
    )
    reject("multi_head_attention", kind, "as they were before dropout", named=True)


def a_step(model: nn.Module, optimizer: Any, images: Tensor, labels: Tensor) -> Tensor:
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def test_a_step_leaves_the_mode_and_returns_a_number() -> None:
    def in_eval(model: nn.Module, *given: Any) -> float:
        loss = a_step(model.eval(), *given).item()
        model.train()
        return loss

    accept("training_step", lambda *given: a_step(*given).item())
    accept("training_step", lambda *given: a_step(*given).detach())
    reject("training_step", a_step, "still holds its graph")
    reject("training_step", in_eval, "train in eval mode", named=True)


def test_what_is_wrong_with_a_number_does_not_say_why_it_is_a_tensor() -> None:
    """Two mistakes: the numbers are a slip's, and what comes back is a tensor."""

    def answer(model: nn.Module, optimizer: Any, images: Tensor, labels: Tensor) -> Tensor:
        return a_step(nn.Sequential(model, nn.Softmax(dim=1)), optimizer, images, labels)

    reject("training_step", lambda *given: answer(*given).item(), "give probabilities", named=True)
    reject("training_step", answer, "still holds its graph. loss.item() is the number alone.")


@pytest.mark.parametrize(
    ("what", "verb"),
    [
        ("weights", "differ"),
        ("weights of layer 1", "differ"),
        ("averaged weights, once the model has moved on", "differ"),
        ("logits afterwards, as the model gives them", "differ"),
        (
            "dropout=0.5 in train mode, all values 1: the shares of heads whose output is [0]",
            "differ",
        ),
        ("output for patches of 4x4 from 3 channels of 12x8", "differs"),
        ("matrix of weights", "differs"),
        ("in_proj_bias", "differs"),
        ("the bias of 4 → 4 → 4 as one layer", "differs"),
        ("linear(patches) + positions for 3 patches of 3 numbers", "differs"),
        ("old bias minus new bias, at rate 0.5", "differs"),
    ],
)
def test_what_differs_is_one_thing_or_several(what: str, verb: str) -> None:
    assert f"wrong numbers: {what} {verb} most at" in compare(what, X + 1, X, 1e-6)


def test_what_was_given_is_not_written_over() -> None:
    def answer(weights: Tensor) -> Tensor:
        made = check.EXERCISES["rollout"].answer(weights)
        weights.zero_()
        return made

    reject("rollout", answer, "changes weights, which it was given, in place")


def test_a_list_that_was_given_is_not_sorted() -> None:
    def sorts(base: list[float], variant: list[float]) -> str:
        base.sort()
        return check.EXERCISES["compare_runs"].answer(base, variant)

    assert "changes base, which it was given, in place" in said("compare_runs", sorts)


def test_a_difference_as_large_as_the_spread_does_not_hang_on_rounding() -> None:
    def in_single_precision(base: list[float], variant: list[float]) -> str:
        a, b = torch.tensor(base), torch.tensor(variant)
        spread = torch.maximum(a.max() - a.min(), b.max() - b.min())
        if (b.mean() - a.mean()).abs() <= spread:
            return "unclear"
        return "better" if b.mean() > a.mean() else "worse"

    accept("compare_runs", in_single_precision)


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_a_mask_is_of_booleans_with_a_row_for_each_picture(kind: torch.dtype) -> None:
    right = check.EXERCISES["leave_out"].answer

    def numbers(logits_without: Callable, labels: Tensor, patches: int) -> Tensor:
        return right(lambda hidden: logits_without(hidden.to(kind)), labels, patches)

    def one_row(logits_without: Callable, labels: Tensor, patches: int) -> Tensor:
        return right(lambda hidden: logits_without(hidden[:1]), labels, patches)

    assert "it wants booleans" in said("leave_out", numbers)
    assert "one row for each picture" in said("leave_out", one_row)


def test_as_many_experiments_as_trials_with_runs_of_their_own() -> None:
    right = check.EXERCISES["power"].answer

    def always_1000(rule: Callable, effect: float, seeds: int, trials: int) -> float:
        return right(rule, effect, seeds, 1000)

    def one_base(rule: Callable, effect: float, seeds: int, trials: int) -> float:
        base = torch.randn(seeds).tolist()
        return right(lambda _, variant: rule(base, variant), effect, seeds, trials)

    assert "There are as many as trials says" in said("power", always_1000)
    assert "in all of 7 experiments the base has the same runs" in said("power", one_base)


def test_of_sentences_with_a_number_none_is_too_small() -> None:
    assert "too small" not in said("name_the_maps", lambda: dict.fromkeys("abcde", 1))


def test_another_kind_of_number_is_not_called_ours_times_1() -> None:
    right = check.EXERCISES["confusion"].answer
    assert "times 1" not in said("confusion", lambda *given: right(*given).to(torch.int16))


def test_softmax_is_not_advised_where_there_is_none() -> None:
    def turned(weights: Tensor) -> Tensor:
        return check.EXERCISES["rollout"].answer(weights.transpose(-2, -1))

    assert "softmax" not in said("rollout", turned)


def test_white_is_255_and_not_256() -> None:
    def sixteen(images: Tensor, size: int) -> Tensor:
        large = F.interpolate(images[:, None], size=(size, size), mode="bicubic")
        edge = (28 - size) // 2
        return F.pad((16 * large).clamp(0, 255).round().to(torch.uint8), [edge] * 4)

    reject("enlarge", sixteen, "multiply by 16", named=True)


# --- symptom first -------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No check has failed yet, and nothing is turned off."""
    monkeypatch.setattr(helping, "_failed", set())
    monkeypatch.delenv(helping.VARIABLE, raising=False)
    monkeypatch.setenv("MNIST_VIT_OUT", str(tmp_path))


def printed(capsys: pytest.CaptureFixture[str], name: str, answer: Any) -> str:
    getattr(check, name)(answer)
    return capsys.readouterr().out


def relu(x: Tensor) -> Tensor:
    return torch.relu(x)


def right(x: Tensor) -> Tensor:
    half = x / math.sqrt(2)
    return 0.5 * x * (1 + torch.erf(half))


INSTEAD = "GELU lets a little"


def test_the_second_failure_says_what_to_do_instead(
    fresh: None, capsys: pytest.CaptureFixture[str]
) -> None:
    first = printed(capsys, "gelu", relu)
    assert "You get exactly this when you use ReLU." in first
    assert INSTEAD not in first
    assert INSTEAD not in printed(capsys, "merge", lambda *_: 3)  # another exercise
    assert INSTEAD in printed(capsys, "gelu", relu)
    assert "correct" in printed(capsys, "gelu", right)
    assert INSTEAD not in printed(capsys, "gelu", relu)


def test_a_stub_is_no_failure(fresh: None, capsys: pytest.CaptureFixture[str]) -> None:
    def stub(x: Tensor) -> Tensor:
        raise NotImplementedError

    assert "not solved yet" in printed(capsys, "gelu", stub)
    assert INSTEAD not in printed(capsys, "gelu", relu)


@pytest.mark.parametrize("where", ["variable", "file"])
@pytest.mark.parametrize(("given", "most"), [("2", 2), ("0", 0), ("3", 3), (" 1\n", 1), ("x", 2)])
def test_a_class_turns_off_the_solution_and_what_to_do(
    where: str,
    given: str,
    most: int,
    fresh: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if where == "variable":
        monkeypatch.setenv(helping.VARIABLE, given)
    else:
        (tmp_path / helping.FILE).write_text(given)
    printed(capsys, "gelu", relu)
    assert (INSTEAD in printed(capsys, "gelu", relu)) == (most == 3)
    for step in (1, 2, 3):
        check.hint("gelu", step)
        out = capsys.readouterr().out
        assert out.startswith(f"hint {step} of 3: ") == (step <= most)
        assert ("turned off" in out) == (step > most)


def test_a_wheel_without_solutions_checks_and_does_not_show_them(tmp_path: Path) -> None:
    wheel = tmp_path / "mnist_vit-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted((ROOT / "mnist_vit").rglob("*.py")):
            archive.write(path, path.relative_to(ROOT).as_posix())
        archive.writestr("mnist_vit/shipped/notebooks/solutions/01_mlp.py", "x = 1\n")
        archive.writestr("mnist_vit-1.0.dist-info/WHEEL", "Tag: py3-none-any\n")
        archive.writestr("mnist_vit-1.0.dist-info/RECORD", "")
    with zipfile.ZipFile(without_solutions(wheel)) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert not [name for name in names if "solutions" in name]
    assert not [name for name in names if name.endswith("/gelu.py")]
    code = (
        "import torch\nfrom mnist_vit import check\n"
        "def own(x):\n    return x * 0.5 * (1 + torch.erf(x / 2**0.5))\n"
        "check.gelu(own)\ncheck.gelu(torch.relu)\ncheck.hint('gelu', 3)\n"
        "print(len(check.EXERCISES))"
    )
    site = str(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(PYTHONPATH=site, MNIST_VIT_OUT=str(tmp_path), PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        check=False,
    )
    correct, wrong, hint, count = done.stdout.splitlines()
    assert correct.startswith("gelu: correct")
    assert wrong.startswith("gelu: right shape, wrong numbers")
    assert "not part of this install" in hint
    assert int(count) == len(check.EXERCISES)


# --- what fresh answers met --------------------------------------------------------------------


def test_numbers_that_differ_are_never_shown_alike() -> None:
    told = compare("x", torch.tensor([13.560001]).double(), torch.tensor([13.56]).double(), 1e-9)
    assert told is not None
    right, found = told.rpartition("expected ")[2].rstrip(".").split(", found ")
    assert right != found


def test_numbers_a_little_off_have_not_moved() -> None:
    x = TOKENS.double().expand(2, 5, 6)
    assert not looking.moved(x, x + 1e-7, None)
    assert looking.nearly(x, x + 1e-7, None)
    assert "axes 0 and 1" in looking.moved(X, X.T, None)


def test_steps_in_float32_are_right() -> None:
    def integrate(gradient_at: Callable, images: Tensor, start: Tensor, steps: int) -> Tensor:
        places = torch.linspace(0.5 / steps, 1 - 0.5 / steps, steps).tolist()
        slopes = [gradient_at(start + place * (images - start)) for place in places]
        return torch.stack(slopes).mean(dim=0) * (images - start)

    accept("integrate", integrate)


def test_the_line_that_cuts_is_not_the_one_that_should() -> None:
    def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        sigma = (x.var(dim=-1, unbiased=False, keepdim=True) + eps).sqrt().detach()
        return (x.detach() - mean) / sigma * weight + bias

    told = said("norm_rule", norm)
    assert "`x.detach()`" in told
    assert "sqrt()" not in told


def test_a_constant_mean_is_refused() -> None:
    def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True).detach()
        variance = (x - mean).detach().square().mean(dim=-1, keepdim=True)
        return (x - mean) / (variance + eps).sqrt() * weight + bias

    assert "gradient" in said("layer_norm", norm)


def test_an_exception_says_what_stood_in_the_line() -> None:
    def patchify(images: Tensor, patch_size: int) -> Tensor:
        n, c = images.shape[:2]
        return images.reshape(n, c, 4, 7, 4, 7)

    told = said("patchify", patchify)
    assert "images has the shape (2, 3, 12, 8)" in told
    assert "The sizes asked for make 4704 numbers, and there are 576." in told
    assert "class token" not in told


def test_a_missing_key_is_told_with_the_keys_that_there_are() -> None:
    def convert(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"ln_1.weight": theirs["norm_1.weight"]}

    told = said("convert_block", convert)
    assert "The keys of theirs are " in told
    assert "norm1.weight" in told


def test_a_line_of_an_earlier_answer_is_told_with_the_line_that_calls_it() -> None:
    def my_own(q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)

    def answer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return my_own(q, nn.Linear(1, 1)), v

    told = said("attention", answer)
    assert "`return q @ k.transpose(-2, -1)`" in told
    assert "which your line `return my_own(q, nn.Linear(1, 1)), v` calls" in told


def test_an_error_inside_a_model_is_told_with_the_model_s_line() -> None:
    def patch(model: nn.Module, clean: Tensor, corrupted: Tensor, site: nn.Module, tokens: Any):
        kept: list[Tensor] = []

        def first_alone(module: nn.Module, args: Any, output: Any) -> Tensor | None:
            changed = output[0].clone() if isinstance(output, tuple) else output.clone()
            if not kept:
                kept.append(changed)
                return None
            changed[:, tokens] = kept[0][:, tokens]
            return changed

        handle = site.register_forward_hook(first_alone)
        try:
            model(clean)
            return model(corrupted)
        finally:
            handle.remove()

    def in_torch(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return x @ weight[None]

    assert "in the model's line `x, _ = self.self_attention(" in said("patch", patch)
    assert "the model's line" not in said("rms_norm", in_torch)


def test_a_lost_axis_is_told_where_shapes_cannot_be_lined_up() -> None:
    def without_keepdim(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        root = (x.square().mean(dim=-1) + eps).sqrt()
        return x / root * weight

    def other_length(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        root = x.new_ones(x.shape[-1] + 1)
        return x / root * weight

    def turned(weight: Tensor, bias: Tensor, scale: Tensor) -> Any:
        layer = nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(weight * scale.view(-1, 1))
        return layer.weight.detach(), scale * bias

    assert "root has the shape of x without axis 2" in said("rms_norm", without_keepdim)
    told = said("fold_scale", turned)
    assert "layer.weight has the two axes of weight * scale.view(-1, 1), exchanged" in told
    assert "nn.Linear(in, out) keeps its weight as (out, in)" in told
    assert "unsqueeze" not in told
    assert "without axis" not in said("rms_norm", other_length)


def test_a_lost_axis_is_not_told_of_another_part_of_the_line() -> None:
    """The bias has the shape of the weight without an axis, and neither size of the two sides."""

    def of_rows(joined: nn.Linear, seq_length: int) -> tuple[nn.Linear, Tensor]:
        made = nn.Linear(joined.in_features - seq_length, joined.out_features)
        made.weight.data.copy_(joined.weight[: made.in_features] + 0 * made.bias.sum())
        return made, joined.weight.T

    words = said("add_instead", of_rows)
    assert "must match" in words
    assert "without axis" not in words


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (7x5 and 10x5)", "left, here 5, as rows on"),
        ("Dimension out of range (expected to be in range of [-1, 0], but got 1)", "no axis 1."),
        ("shape '[2, -1, 7]' is invalid for input of size 15", "14, which does not divide 15."),
        ("exp(): argument 'input' must be Tensor, not list", "A list stands where a tensor is"),
        ("unflatten: sizes [4, 3] don't multiply up to the size of dim 2 (10)", "the axis that is"),
        ("cannot assign parameters before Module.__init__() call", "nn.Module is not set up"),
        ("unsupported operand type(s) for //: 'tuple' and 'int'", "a single value is needed"),
        ("unsupported operand: 'Tensor' and 'builtin_function_or_method'", "A function itself"),
        (
            "Index tensor must have the same number of dimensions as input tensor",
            "gather or scatter has",
        ),
        ("Subtraction, the `-` operator, with two bool tensors is not", "Truth values cannot"),
        ('failed to unpack … "type must be tuple of ints,but got float"', "is a float"),
        ("cannot unpack non-iterable NoneType object", "Something is None here"),
        ("mat1 and mat2 must have the same dtype, but got Long and Float", "Two kinds of numbers"),
        ("size mismatch, got input (5), mat (5x18), vec (2)", "left, here 18, as the vector has"),
        ("var() received an invalid combination of arguments - got", "takes no such arguments"),
        ("permute(sparse_coo): … the length of the desired ordering", "every axis of the tensor"),
        (
            "expected Tensor as element 0 in argument 0, but got float",
            "A list of tensors is needed",
        ),
        ("index -1 is out of bounds for dimension 1 with size 8", "There is no such place"),
        ("Target 9 is out of bounds.", "as large as the number of classes"),
        ("roll() got multiple values for argument 'dims'", "One argument is given twice"),
        ("'list' object is not callable", "that is no function here"),
        ("'list' object is not an iterator", "one after the other"),
        ("unhashable type: 'list'", "cannot be a key"),
        ("'_IncompatibleKeys' object has no attribute 'eval'", "gives back a report"),
        ("'generator' object is not subscriptable", "has no places to ask for"),
        (
            "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'",
            "does not take numbers of this kind",
        ),
        ("'AdamW' object is not iterable", "nothing that can be gone through"),
        ("output with shape [1, 1] doesn't match the broadcast shape [2, 1]", "and cannot grow"),
        ("shifts and dimensions must align. shifts: 2, dims:0", "several shifts, and another"),
        ("forward pre-hook must return None or a tuple of (new_args, new_kwargs), bu", "both in"),
    ],
)
def test_what_an_exception_means_holds_the_sizes_of_its_text(text: str, meaning: str) -> None:
    assert meaning in meaning_of(text)[0]


def test_a_name_without_a_value_yet_is_told_as_that() -> None:
    def gelu(x: Tensor) -> Tensor:
        y = y * x  # noqa: F821
        return y

    told = said("gelu", gelu)
    assert "was not set when this line ran" in told
    assert "misspelt" not in told


def test_a_name_that_stands_for_nothing_is_told_with_its_neighbours() -> None:
    def misspelt(x: Tensor) -> Tensor:
        softened = x.sigmoid()  # noqa: F841
        return x * softend  # noqa: F821

    def elsewhere(x: Tensor) -> Tensor:
        return x * num_layers  # noqa: F821

    assert "Spelt nearly like it: softened." in said("gelu", misspelt)
    told = said("gelu", elsewhere)
    assert "a text needs quotation marks" in told
    assert "Spelt nearly" not in told


def test_a_name_that_a_cell_of_the_notebook_sets_is_told_with_the_notebook() -> None:
    def before_the_cell(*given: Any) -> Any:
        my_softmax_rows = given  # noqa: F841
        return softmax_rows  # noqa: F821

    def own_name(*given: Any) -> Any:
        return scores  # noqa: F821, a cell sets this one, too, for itself

    told = said("entropy", before_the_cell)
    assert "A cell of notebook 02 sets softmax_rows: run that cell first." in told
    assert "Spelt nearly" not in told
    assert "A cell" not in said("entropy", own_name)


def test_what_is_true_of_the_line_is_told_beside_an_exception() -> None:
    def keys(labels: Tensor, first: Tensor, second: Tensor) -> str:
        pairs = {"first": first, "second": second}
        for name, answers, right in pairs:
            print(name, answers, right)
        return "first"

    def brackets(labels: Tensor, first: Tensor, second: Tensor) -> str:
        return "first" if (first == labels & second != labels).sum() > 3 else "second"

    class Silent(EncoderBlock):
        def __init__(self, *sizes: Any) -> None:
            super().__init__(*sizes)
            self.dropout.weight.zero_()

    assert "goes through its keys alone" in said("better_model", keys)
    assert "put brackets around each comparison" in said("better_model", brackets)
    assert "A Dropout has no parameters" in said("encoder_block", Silent)


def test_a_comprehension_is_not_said_to_be_called_by_its_own_line() -> None:
    def merge(w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> list[Tensor]:
        return [one.nothing for one in (w_1, b_1)]

    told = said("merge", merge)
    assert "return [one.nothing" in told
    assert "which your line" not in told


def test_a_weight_of_another_shape_is_told_by_what_its_layer_takes_and_gives() -> None:
    class Block(nn.Sequential):
        def __init__(self, in_dim: int, mlp_dim: int, dropout: float = 0.0) -> None:
            super().__init__()
            self.add_module("0", nn.Linear(mlp_dim, in_dim))
            self.add_module("3", nn.Linear(in_dim, mlp_dim))

    sizes = "Layer 0 takes 7 numbers and gives 3; it must take 3 and give 7."
    assert sizes in judge(check.EXERCISES["mlp_block"], Block).instead


def test_a_wrong_verdict_is_told_with_its_case_and_with_the_right_one() -> None:
    def split(left: Tensor, size: int, cut: int) -> tuple[Tensor, Tensor]:
        return left + size <= cut, left + size > cut

    told = said("split_by_region", split)
    assert (
        '"held out" with the line at 10 should be False, and is True, for columns 9 to 12.' in told
    )


def test_options_that_do_not_reach_the_parent_are_told() -> None:
    class Shared(MyEncoder):
        def __init__(self, *sizes: Any, **options: Any) -> None:
            super().__init__(*sizes)
            for place in range(1, len(self.layers)):
                self.layers[place] = self.layers[0]

    assert "nothing is dropped in train mode" in said("shared_block", Shared)


def test_an_input_is_without_effect_only_if_it_is_so_beside_other_numbers() -> None:
    """A weight beside a 0 has no effect in this answer, and has one everywhere else."""

    def entropy(weights: Tensor) -> Tensor:
        return -(weights * weights.log()).sum(dim=-1).nan_to_num()

    told = said("entropy", entropy)
    assert "stays the same" not in told


def test_a_change_in_place_that_no_gradient_sees_is_told_as_that() -> None:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            k *= 2
        weights = (q @ k.transpose(-2, -1) / (2 * q.shape[-1] ** 0.5)).softmax(dim=-1)
        return weights @ v, weights

    told = said("attention", answer)
    assert "No gradient sees it: under torch.no_grad()" in told


def test_pictures_wrong_at_the_edge_are_said_to_be() -> None:
    x = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = x.clone()
    other[..., 0, :] = 0
    told = looking.edges(x, other, None)
    assert "top row" in told
    assert "bottom row" not in told
    assert not looking.edges(x, x + 1, None)
    # the class token is no top row
    assert not looking.edges(x[:, 0], other[:, 0], None)


def test_two_numbers_are_no_function_of_ours() -> None:
    ours = torch.tensor([0.49, 0.94]).double()
    assert not looking.transformed(ours, ours.round(), None)


def test_one_norm_under_two_names_is_told_as_that() -> None:
    class Block(EncoderBlock):
        def __init__(self, *sizes: Any) -> None:
            super().__init__(*sizes)
            self.ln_2 = self.ln_1

    told = said("encoder_block", Block)
    assert "ln_1.weight and ln_2.weight" in told
    assert "`self." not in told


# --- what answers nobody had seen brought to light ------------------------------------------------


def test_who_changes_nothing_is_told_that_and_nothing_else() -> None:

    def only_names(layer: nn.Module, order: list[int]) -> tuple[Tensor, Tensor]:
        weight = layer.in_proj_weight[torch.arange(len(layer.in_proj_weight))]
        return weight, layer.out_proj.weight

    def nothing(layer: nn.Module, order: list[int]) -> None:
        pass

    for answer in (only_names, nothing):
        told = said("swap_heads", answer)
        assert "and also" not in told
    assert "when you leave all numbers of the layer as they are" in said("swap_heads", only_names)


def test_an_experiment_with_a_loop_that_never_ends_is_stopped() -> None:
    """The answer ends for every budget that the notebook allows, and for no smaller one."""

    def next_one(image_size: int, budget: int) -> int:
        size = 1
        while image_size % size != 0 or ((image_size // size) ** 2 + 1) ** 2 > budget:
            size += 1
        return size + 1

    assert "is not divisible by" in said("patch_size", next_one)
    our, their = called(lambda n: 3 * n, 5), called(lambda n: [None for _ in iter(int, n)], 0)
    assert not isinstance(their, int)
    with pytest.raises(RuntimeError):
        their[0].made_with([1])
    assert our[0].made_with([2]) == [6]


def minus(a: Tensor, b: Tensor) -> Tensor:
    return a.exp() - b.sin()


def test_exchanged_inputs_are_told_and_others_are_not() -> None:
    a, b = X, X.flip(0) + 1
    assert "what ours gives where a and b are exchanged" in words(
        observed(minus, lambda a, b: minus(b, a), a, b)
    )
    assert "what ours gives" not in words(observed(minus, lambda a, b: minus(b, a) + 1e-2, a, b))


def test_a_number_that_is_one_off_is_told_if_it_is_so_in_all_calls() -> None:
    def wave(x: Tensor, n: int) -> Tensor:
        return torch.sin(n * x)

    def evidence(theirs: Callable) -> Evidence:
        ours, others = [], []
        for n in (2, 3):
            ours += called(wave, X, n)
            others += called(theirs, X, n)
        return Evidence(ours, others, "wave", others[0].output[0], ours[0].output[0])

    told = words(observe(evidence(lambda x, n: wave(x, n + 1))))
    assert "what ours gives where n is larger by 1" in told
    told = words(observe(evidence(lambda x, n: wave(x, 3 if n == 2 else 7))))
    assert "larger by 1" not in told


def weighed(scores: Tensor) -> tuple[Tensor, Tensor]:
    weights = scores.softmax(dim=-1)
    return weights @ scores.T, weights


def test_weights_of_other_scores_are_told_by_the_factor() -> None:
    def of(factor: Any) -> Callable:
        def answer(scores: Tensor) -> tuple[Tensor, Tensor]:
            weights = (scores * factor).softmax(dim=-1)
            return weights @ scores.T, weights

        return answer

    assert "scores that are ours times 0.3." in words(observed(weighed, of(0.3), X))
    rows = torch.linspace(0.1, 0.9, 4, dtype=X.dtype)[:, None]
    told = words(observed(weighed, of(rows), X))
    assert (
        "row of your weights is the softmax of our scores times a number, from 0.1 to 0.9." in told
    )
    for factor in (-2, torch.linspace(-1, 2, 4, dtype=X.dtype)[:, None]):
        told = words(observed(weighed, of(factor), X))
        assert "scores" not in told


def test_a_number_that_stands_elsewhere_is_told_with_its_origin() -> None:
    def turned(x: Tensor) -> Tensor:
        return x[[2, 0, 1, 3]][:, [1, 0, 2, 4, 3, 5]]

    told = words(observed(lambda x: x + 0, turned, X))
    assert "At [0, 0] yours has the number x[2, 1], and the number x[0, 0] belongs there." in told
    assert "yours has the number" not in words(
        observed(lambda x: x + 0, lambda x: turned(x) * 2, X)
    )


def test_an_order_along_an_axis_is_told_and_so_is_what_comes_twice() -> None:
    def rows(*order: int) -> Callable:
        return lambda x: x.exp()[list(order)]

    assert "along axis 0 yours holds what ours holds at 2, 0, 1, 3" in words(
        observed(torch.exp, rows(2, 0, 1, 3), X)
    )
    told = words(observed(torch.exp, rows(0, 0, 2, 3), X))
    assert "Along axis 0 yours holds what ours holds at 0, 0, 2, 3" in told


def test_a_short_formula_of_the_inputs_is_told() -> None:
    def merged(of: Callable) -> Callable:
        def answer(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
            return W_2 @ W_1, of(W_1, b_1, W_2, b_2)

        return answer

    told = said("merge", merged(lambda W_1, b_1, W_2, b_2: W_1 @ b_1 - b_2))
    assert "Result 2 of 2 is W_1 @ b_1 - b_2." in told
    told = said("merge", merged(lambda W_1, b_1, W_2, b_2: W_2 @ b_1 + b_2.exp()))
    assert "Result 2" not in told


def test_a_share_of_an_input_is_told_if_it_is_the_same_everywhere() -> None:
    def decayed(share: Any) -> Callable:
        return lambda x: x.exp() + share * x

    assert "The result is ours plus 0.2 times x." in words(
        observed(lambda x: x.exp(), decayed(0.2), X)
    )
    shares = torch.linspace(0.5, 1, 4, dtype=X.dtype)[:, None]
    assert "times x." not in words(observed(lambda x: x.exp(), decayed(shares), X))


def test_the_sign_of_an_input_is_blamed_only_if_all_its_large_numbers_are_wrong() -> None:
    """It said that layer norm without eps is wrong where x is positive; eps was what was wrong."""

    def no_eps(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        spread = x.std(-1, keepdim=True, correction=0).clamp(min=eps)
        return (x - mean) / spread * weight + bias

    told = said("layer_norm", no_eps)
    assert "positive" not in told
    assert "those whose numbers vary little are wrong" in told
    x = X.flatten()
    assert "wrong where x is negative" in words(
        observed(lambda x: x.abs() + x.exp(), lambda x: x.relu() + x.exp(), x)
    )


def test_what_is_different_in_a_module_that_was_given_is_told() -> None:
    exercise = replace(check.EXERCISES["swap_heads"], notice=None)

    def wrong_bias(layer: nn.Module, order: list[int]) -> None:
        exercise.answer(layer, order)
        with torch.no_grad():
            layer.in_proj_bias.mul_(2)

    def on_a_copy(layer: nn.Module) -> nn.Module:
        layer = copy.deepcopy(layer)
        with torch.no_grad():
            layer.self_attention.out_proj.weight.zero_()
            layer.mlp[3].weight.zero_()
            layer.mlp[3].bias.zero_()
        return layer

    assert "hold other numbers" not in said("silence", on_a_copy)
    told = judge(exercise, wrong_bias).all
    assert "these of layer hold other numbers than in ours: in_proj_bias. Equal are" in told


def test_axes_that_a_line_takes_apart_are_no_values_that_come_back() -> None:
    """It said that a pair must stay a pair."""

    def of_three_axes(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        n, queries, d = q.shape
        weights = (q @ k.mT / math.sqrt(d)).softmax(dim=-1).reshape(n, queries, -1)
        return weights @ v, weights

    told = said("attention", of_three_axes)
    assert "another number of axes than this line takes apart" in told
    assert "pair" not in told


def test_a_patch_size_is_told_by_what_it_costs() -> None:
    def tell(size: int) -> str:
        return said("patch_size", lambda image_size, budget: size)

    assert "28 is not divisible by 8." in tell(8)
    assert "197 tokens and 38,809 scores, more than 38,700." in tell(2)
    assert "A smaller size that divides 28 fits the budget, too." in tell(28)


def test_contents_that_a_token_gets_are_told_in_shares() -> None:
    right = check.EXERCISES["left_minus_above"].answer

    def softer(layer: nn.Module, grid: int) -> None:
        right(layer, grid)
        with torch.no_grad():
            layer.out_proj.weight.mul_(0.7)

    told = said("left_minus_above", softer)
    assert "token 1 gets is +0.7 times token 0, -0.7 times token 1" in told
    assert "token 0, its left one, minus token 1 itself, since none is above it" in told

    def not_zero(layer: nn.Module, grid: int) -> None:
        right(layer, grid)
        with torch.no_grad():
            layer.out_proj.bias.fill_(0.1)

    assert "With biases of zero your layer gives the right" in said("left_minus_above", not_zero)

    def not_all(layer: nn.Module, grid: int) -> None:
        right(layer, grid)
        with torch.no_grad():
            layer.out_proj.weight[0] = 0

    assert "no sum of contents" in said("left_minus_above", not_all)


def test_an_axis_of_length_1_is_not_said_to_sum_to_1() -> None:
    """It said that the numbers along axis 0 sum to 1: there was one picture, and all were 1."""

    def ones_for_nan(scores: Tensor) -> Tensor:
        e = torch.exp(scores)
        return (e / e.sum(dim=-1, keepdim=True)).nan_to_num(1.0)

    told = said("softmax_rows", ones_for_nan)
    assert "along axis" not in told
    assert "yours sum to 3" in told


def test_a_search_that_finds_nothing_is_told_as_that() -> None:
    """It said that a generator raised StopIteration: the one that compares."""

    def first_of(*_: Any) -> int:
        return next(size for size in (3, 5) if size == 4)

    told = said("patch_size", first_of)
    assert "your code raised StopIteration in the line `return next(" in told
    assert "next(…) found nothing" in told


def test_what_is_ours_after_a_mean_is_told_with_its_axis() -> None:
    x = TOKENS.double()
    told = looking.axes(x, x.mean(dim=1), None)
    assert told == "An axis is missing: yours is the mean of ours along axis 1."
    assert looking.axes(x, x.sum(), None) == "Yours is the sum of all numbers of ours."
    assert not looking.axes(x, x.var(dim=1), None)


def test_rows_of_a_designed_matrix_are_no_weights() -> None:
    """It said that rows of W_K should sum to 1: those of our W_K do."""

    def to_the_right(side: int) -> tuple[Tensor, Tensor]:
        w_k = torch.zeros(16, 16)
        for j in range(1, 16):
            w_k[j, j - 1] = 1
        return 100 * torch.eye(16), w_k

    assert "sum to" not in said("look_left", to_the_right)

    def arctangent(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = (q @ k.mT / q.shape[-1] ** 0.5).atan() + 2
        return weights @ v, weights

    assert "Rows of the weights should sum to 1, and yours sum to" in said("attention", arctangent)


def test_learned_numbers_are_told_in_blocks() -> None:
    class Half(check.EXERCISES["shared_block"].answer):  # type: ignore[misc]
        """The last layer has an attention of its own."""

        def __init__(self, *sizes: Any, **options: Any) -> None:
            super().__init__(*sizes, **options)
            self.layers[-1] = copy.deepcopy(self.layers[-1])
            self.layers[-1].mlp = self.layers[0].mlp

    assert "these are the numbers of 1." in said("shared_block", Half)


# --- what an exercise itself notices --------------------------------------------------------------


def test_a_slip_with_the_same_words_is_not_named_where_something_else_is_noticed() -> None:
    """Verdicts are few: with these pairs of models it is right as often as another mistake."""

    def answer(labels: Tensor, first: Tensor, second: Tensor) -> str:
        differ = first != second
        b = int((differ & (second != labels)).sum())
        c = int((differ & (first != labels)).sum())
        chance = check.EXERCISES["coin"].answer(b, c)
        better = "first" if b > c else "second"
        return "cannot tell" if chance >= 0.05 else better

    told = said("better_model", answer)
    assert "as if each model had had images of its own" not in told
    assert "that the two models take for two different wrong digits" in told


def test_what_an_exercise_notices_does_not_end_the_check_if_it_raises() -> None:
    def answer(b: int, c: int) -> float:
        if (b, c) == (2, 8):  # only what is noticed asks for this
            raise RuntimeError
        return 0.5

    assert "should not be" in said("coin", answer)


def test_of_a_design_the_exercise_tells_alone() -> None:
    """Ours is one of many right layers; what changes its result is no measure of another one."""

    def smaller_values(layer: nn.Module, grid: int) -> None:
        check.EXERCISES["left_minus_above"].answer(layer, grid)
        with torch.no_grad():
            layer.in_proj_weight[4 * grid**2 :].mul_(0.7)

    told = said("left_minus_above", smaller_values)
    assert "ours" not in told
    assert "+0.7 times token" in told


def test_a_bias_that_was_not_added_is_not_taken_away() -> None:
    """By itself each token of this answer has the mean 0; only its size is wrong."""

    def without_root(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred * weight / (1000 + eps)

    told = said("layer_norm", without_root)
    assert "has the mean 0.85" not in told
    assert "the result stays the same when we change bias" in told.lower()


def test_an_answer_that_asks_the_coin_is_not_told_to_ask_it() -> None:
    def turned(labels: Tensor, first: Tensor, second: Tensor) -> str:
        b = int(((first == labels) & (second != labels)).sum())
        c = int(((first != labels) & (second == labels)).sum())
        if check.EXERCISES["coin"].answer(b, c) > 0.95:
            return "cannot tell"
        return "first" if b > c else "second"

    told = said("better_model", turned)
    assert "ask the coin" not in told
    assert "0.95" in told


def test_registers_of_a_wrong_shape_are_told_by_their_shape() -> None:
    class Two(check.EXERCISES["registers"].answer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.register_tokens.shape[1]:
                self.register_tokens = nn.Parameter(self.register_tokens[:, :2].detach().clone())

    told = said("registers", Two)
    assert "register_tokens has the shape (1, 2, 8)" in told
    assert "RuntimeError" not in told


# --- advice that led away from the mistake, in the words of readers ---------------------


def look_left_too_small(side: int) -> tuple[Tensor, Tensor]:
    w_q, w_k = torch.zeros(side, side), torch.eye(side)
    for i in range(side * side):
        if i % side:
            w_q[i, i - 1] = 100
    return w_q, w_k


def query_map_with_class_token(weights: Tensor, row: int, column: int) -> Tensor:
    n, num_heads, seq_length, _ = weights.shape
    side = math.isqrt(seq_length - 1)
    return weights[:, :, row * side + column + 1].view(n, num_heads, side, side)


@contextlib.contextmanager
def record_without_kwargs(model: nn.Module) -> Iterator[list[Tensor]]:
    def ask(module: nn.Module, args: tuple, kwargs: dict) -> tuple:
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    handles = []
    for module in model.modules():
        if hasattr(module, "in_proj_weight"):
            handles.append(module.register_forward_pre_hook(ask))
    try:
        yield []
    finally:
        for handle in handles:
            handle.remove()


def head_in_both_groups(
    model: nn.Module, images: Tensor, labels: Tensor, steps: int, head_rate: float, body_rate: float
) -> nn.Module:
    model = copy.deepcopy(model)
    groups = [
        {"params": model.parameters(), "lr": body_rate},
        {"params": model.heads.parameters(), "lr": head_rate},
    ]
    torch.optim.AdamW(groups)
    return model


class PlainPositions(check.EXERCISES["rectangular"].answer):  # type: ignore[misc]
    """The positions are there, and are no parameter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        positions = self.encoder.pos_embedding.detach().clone()
        del self.encoder.pos_embedding
        self.encoder.pos_embedding = positions


def count_by_four_times_the_width(*sizes: int) -> int:
    *before, hidden_dim, _, num_classes, in_channels = sizes
    right = check.EXERCISES["count_numbers"].answer
    return right(*before, hidden_dim, 4 * hidden_dim, num_classes, in_channels)


@pytest.mark.parametrize(
    ("name", "answer", "true", "not_true"),
    [
        ("look_left", look_left_too_small, "There is no such place", "Read the length"),
        ("query_map", query_map_with_class_token, "Is the class token counted", "notebook: take"),
        ("record", record_without_kwargs, "with_kwargs=True", "name its arguments"),
        ("two_rates", head_in_both_groups, "should not have", "in the first group"),
        ("rectangular", PlainPositions, "as a plain tensor", "Keep the names"),
        ("name_the_maps", {5: "a", 2: "b", 1: "c", 3: "d", 4: "e"}, "Turn it round", "is missing"),
        ("count_numbers", count_by_four_times_the_width, "when mlp_dim changes", "in the shape"),
    ],
)
def test_advice_does_not_lead_away(name: str, answer: Any, true: str, not_true: str) -> None:
    told = said(name, answer)
    assert true in told
    assert not_true not in told


# --- side sentences are true ---------------------------------------------------------------------


def test_a_value_of_ours_that_comes_back_too_early_is_told() -> None:
    def too_early(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = scores.softmax(dim=-1)
        output = weights @ v
        return weights if v.shape == weights.shape else output, weights

    our, their = (
        called(check.EXERCISES["attention"].answer, *3 * [TOKENS[:, :, :5]]),
        called(too_early, *3 * [TOKENS[:, :, :5]]),
    )
    steps = Trace(keep=True)
    with steps:
        our[0].again()
    told = blame(our[0], their[0], their[0].output[0], lambda: steps.steps)
    assert "Result 1 of 2 is a value that ours has on its way" in told


def test_the_first_step_that_gives_nan_is_named() -> None:
    def answer(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, correction=0)
        root = (variance - 0.5).sqrt()
        return (x - mean) / root * weight + bias

    told = said("layer_norm", answer)
    assert "`(variance - 0.5).sqrt()` gives the first numbers that are nan or infinite." in told


def test_an_input_that_repairs_an_expression_is_named() -> None:
    def answer(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
        columns = F.linear(W_1.T, W_1)
        return columns.T, F.linear(b_1, W_2, b_2)

    told = said("merge", answer)
    assert "Your result is right if W_2 goes into `F.linear(W_1.T, W_1)` in place of one" in told


def test_a_right_gradient_is_not_blamed_and_a_right_piece_neither() -> None:
    """The solution asks for gradients itself: it was traced where it could not."""

    def decaying(
        weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
    ) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(F.linear(x, weight, bias), labels)
        gw, gb = torch.autograd.grad(loss, (weight, bias))
        decayed = gw + 0.03 * weight
        return weight - rate * decayed, bias - rate * gb

    def stepping(
        weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
    ) -> tuple[Tensor, Tensor]:
        w, b = nn.Parameter(weight.detach().clone()), nn.Parameter(bias.detach().clone())
        F.cross_entropy(F.linear(x, w, b), labels).backward()
        w.grad *= 3
        torch.optim.SGD([w, b], lr=rate).step()
        return w.detach(), b.detach()

    def without_the_last(images: Tensor, p: int) -> Tensor:
        pieces = []
        for i in range(p, images.shape[2], p):
            for j in range(0, images.shape[3], p):
                pieces.append(images[:, :, i : i + p, j : j + p].flatten(1))
        return torch.stack(pieces, dim=1)

    told = said("gradient_step", decaying)
    assert "autograd.grad" not in told
    assert "What `0.03 * weight` gives is a value of ours times 0.03" in told
    assert "is given only values that ours has" not in said("gradient_step", stepping)
    assert "is given only values that ours has" not in said("patchify", without_the_last)


def test_what_a_function_draws_is_not_said_to_be_a_layer_of_a_module() -> None:
    assert "__init__" not in words(observed(lambda x: x.exp(), lambda x: x + torch.rand(()), X))

    class Anew(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.Linear(6, 6)(x)

    assert "__init__" in words(observed(nn.Linear(6, 6), Anew(), TOKENS))


def test_what_leads_to_another_part_of_the_result_is_not_quoted() -> None:
    def answer(
        weight: Tensor, bias: Tensor, x: Tensor, labels: Tensor, rate: float
    ) -> tuple[Tensor, Tensor]:
        error = torch.softmax(x @ weight.T + bias, dim=1)
        error[torch.arange(len(x)), labels] -= 1
        error = error / len(x)
        return weight - rate * (error.T @ x), bias - rate

    told = said("gradient_step", answer)
    assert "old bias minus new bias" in told
    assert "softmax" not in told


def test_a_list_of_tensors_that_is_right_is_told_how_to_join() -> None:
    expected = X.exp()
    evidence = Evidence([], [], "output", list(expected), expected)
    assert "torch.stack(…, dim=0) joins them" in words(observe(evidence))
    evidence = Evidence([], [], "output", list(expected.split(2, dim=1)), expected)
    assert "torch.cat(…, dim=1) joins them" in words(observe(evidence))
    evidence = Evidence([], [], "output", list(2 * expected), expected)
    assert "joins them" not in words(observe(evidence))


def test_an_answer_that_raised_is_not_compared_with_what_ours_leaves() -> None:
    def answer(layer: nn.Module, order: list[int]) -> None:
        layer.in_proj_weight.missing()

    assert "hold other numbers" not in said("swap_heads", answer)


def test_an_input_that_should_stay_as_it_is_is_told() -> None:
    def ours(part: nn.Linear) -> Tensor:
        return 2 * part.weight

    def theirs(part: nn.Linear) -> Tensor:
        with torch.no_grad():
            part.weight.mul_(2)
        return part.weight + 1

    part = nn.Linear(2, 3)
    our, their = called(ours, copy.deepcopy(part)), called(theirs, copy.deepcopy(part))
    found = observe(Evidence(our, their, "numbers", "this", "that"))
    assert "Your code changes weight of part, and should leave part as it is." in words(found)


def test_random_numbers_are_not_called_other_ones() -> None:
    def narrow(linear: nn.Linear) -> None:
        with torch.no_grad():
            linear.weight.uniform_(-1e-3, 1e-3)
            linear.bias.normal_(std=1e-6)

    assert "hold other numbers" not in said("xavier", narrow)


def test_a_result_that_moves_a_little_beside_large_ones_does_not_stay() -> None:
    told = said("gelu", lambda x: x / (0.5 * (1 + torch.erf(x / math.sqrt(2))) + 1e-10))
    assert "stays the same" not in told
    assert "stays the same" not in words(
        observed(
            lambda q, k: (q @ k.mT).softmax(-1),
            lambda q, k: (900 * q @ k.mT).softmax(-1),
            TOKENS,
            TOKENS.roll(1),
        )
    )


def test_rounding_is_no_multiple() -> None:
    assert looking._times(X, 1e-9 * X.sign(), None) == ""
    assert looking._times(X, 1e-9 * X, None) == ""
    assert "times 0.01" in looking._times(X, 0.01 * X, None)


def test_the_first_of_two_results_is_told_as_the_first() -> None:
    told = words(observed(lambda x: (x.exp(), x + 1), lambda x: (x, x + 1), X))
    assert "Result 1 of 2 is x, unchanged." in told


def test_weights_are_not_looked_for_among_other_results() -> None:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, list[Tensor]]:
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)
        return weights @ v, [q, k, v]

    assert "Rows of the weights" not in said("attention", answer)


def test_a_layer_too_few_is_told_by_the_numbers_in_the_names() -> None:
    def fewer(seq_length: int, num_layers: int, *sizes: Any, **options: Any) -> nn.Module:
        return check.EXERCISES["encoder"].answer(seq_length, num_layers - 1, *sizes, **options)

    told = said("encoder", fewer)
    assert "The number in names such as layers.encoder_layer_" in told
    assert "in yours it is 0" in told


def test_a_module_that_is_not_set_up_is_told() -> None:
    class Forgot(check.EXERCISES["registers"].answer):  # type: ignore[misc]
        def __init__(self, *sizes: Any, **options: Any) -> None:
            super()

    assert "nn.Module is not set up here" in said("registers", Forgot)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("One of the differentiated Tensors does not require grad", "with respect to a tensor"),
        ("element 0 of tensors does not require grad", "Nothing that needs a gradient"),
        ("tensors used as indices must be long, int, byte or bool tensors", "is no index"),
        ("zip() argument 2 is longer than argument 1", "and here their lengths differ"),
        ("Expected (batch_size, seq_length, hidden_dim) got torch.Size([4, 8])", "three axes"),
        ("too many indices for tensor of dimension 1", "More axes are indexed"),
        ("stack expects a non-empty TensorList", "What this is given is empty"),
        ("math domain error", "no value for this number"),
        ("'Tensor' object is not callable", "and that is no function here"),
        ("a Tensor with 4 elements cannot be converted to Scalar", "is given a whole tensor"),
        ("Tensors must have same number of dimensions: got 2 and 3", "are joined"),
    ],
)
def test_further_exceptions_have_a_meaning(text: str, meaning: str) -> None:
    assert meaning in meaning_of(text)[0]


@pytest.mark.parametrize(
    ("text", "meaning", "instead"),
    [
        ("int too large to convert to float", "floats end near 1.8e308", "of two whole numbers"),
        ("(34, 'Numerical result out of range')", "too large for a float", "logarithms"),
        ("division by zero", "is 0", "becomes 0. Say what is right"),
        ("'<' not supported between instances of 'NoneType' and 'int'", "is None", "append()"),
        ('can only concatenate str (not "int") to str', "A text meets", "str(…)"),
        (
            "unsupported operand type(s) for ^: 'float' and 'int'",
            "there is a float",
            "A power is **",
        ),
        ("\"bitwise_xor_cpu\" not implemented for 'Float'", "there is a float", "A power is **"),
        ("unsupported operand type(s) for @: 'Tensor' and 'int'", "is no matrix", "* multiplies"),
        (
            "view size is not compatible with input tensor's size",
            "in this order",
            "the wrong places",
        ),
        ("'type' object does not support the context manager protocol", "behind with", "brackets"),
        ("masked_fill_ only supports boolean masks, but got float", "True where", "comparison"),
        ("expected target dtype to be Long or Byte, but got Float", "number of a class", ".long()"),
        ("Expected floating point type for target", "holds probabilities", "(n,)"),
        ("0D or 1D target tensor expected, multi-target not supported", "do not fit", "(n, k)"),
        ("one of the variables has been modified by an inplace operation", "written over", "x = x"),
        ("result type Float can't be cast to the desired output type Long", "in place", ".float()"),
        ("list indices must be integers or slices, not str", "takes one place", "a[0][1]"),
        ("transpose() takes 2 positional arguments but 3 were given", "two axes", "permute"),
        ("split_sizes to sum exactly to 12 (…), but got split_sizes=[5, 5]", "have 10", "chunk"),
        (
            "einsum(): subscript d has size 3 for operand 1 which does not broadcast with"
            " previously seen size 4",
            "an axis of 3 in tensor 1",
            "one length",
        ),
        (
            "The expanded size of the tensor (8) must match the existing size (4) at non-singleton"
            " dimension 1.  Target sizes: [2, 8].  Tensor sizes: [2, 4]",
            "(2, 4) cannot be",
            "Print",
        ),
        (
            "Expected size for first two dimensions of batch2 tensor to be: [6, 4] but got: [6, 5]",
            "left, here 4, as rows on the right, here 5",
            "Print",
        ),
        (
            "Expected size for first two dimensions of batch2 tensor to be: [6, 4] but got: [5, 4]",
            "6 matrices on the left and 5",
            "Print",
        ),
        (
            "torch.take_along_dim(): input and indices should have the same number of dimensions",
            "The index of gather",
            "unsqueeze",
        ),
        ("cannot reshape array of size 6 into shape (4,2)", "make 8 numbers, and there", "Print"),
    ],
)
def test_of_frequent_exceptions_it_is_told_what_they_mean_and_what_can_be_done(
    text: str, meaning: str, instead: str
) -> None:
    told, advice = meaning_of(text)
    assert meaning in told
    assert instead in advice


def raised_by(answer: Any, *given: Any) -> tuple[str, str]:
    """What is told of the exception that a function raises, without its line; what is advised."""
    try:
        answer(*given)
    except Exception as error:
        # the frame of this file that only calls is no learner's
        frames = error.__traceback__
        error = error.with_traceback(frames.tb_next if frames else None)
        return raised.told(error).partition("`: ")[2], raised.advice(error)
    raise AssertionError("nothing was raised")


def test_another_equation_is_no_matrix_product() -> None:
    told, _ = raised_by(lambda a, b: torch.linalg.solve(a, b), torch.ones(3, 3), torch.ones(4))
    assert "columns" not in told


def test_the_parts_of_an_expression_are_told_with_their_shapes() -> None:
    q, k = torch.randn(2, 5, 4), torch.randn(2, 6, 3)
    told, _ = raised_by(lambda q, k: q.softmax(dim=-1) @ k.transpose(1, 2), q, k)
    assert "`k.transpose(1, 2)` has the shape (2, 3, 6)" in told

    def over_lines(q: Tensor, k: Tensor) -> Tensor:
        return torch.stack(
            [q, k.mT],
        )

    assert "k.mT has the shape (2, 3, 6)" in raised_by(over_lines, q, k)[0]

    def writes(x: Tensor, y: Tensor) -> None:
        x[:, 0] = y

    assert "`x[:, 0]` has the shape (2, 4)" in raised_by(writes, q, k[:, 0])[0]


def test_a_part_is_not_computed_a_second_time_if_it_is_the_learners_own() -> None:
    called = []

    def own(x: Tensor) -> Tensor:
        called.append(x)
        return x

    told, _ = raised_by(lambda x, y: own(x) @ y.transpose(0, 1), torch.ones(2, 3), torch.ones(2, 4))
    assert len(called) == 1
    assert "`y.transpose(0, 1)` has the shape (4, 2)" in told


def test_the_sides_that_do_not_line_up_are_named() -> None:
    x = torch.randn(2, 5, 8)
    told, advice = raised_by(lambda x: x / x.square().mean(dim=-1), x)
    assert "x has 8 places where x.square().mean(dim=-1) has 5." in told
    assert "(x.square().mean(dim=-1)).unsqueeze(2) gives this axis back" in advice


def test_a_linear_layer_is_told_with_what_it_takes() -> None:
    layer = nn.Linear(16, 8)
    assert (
        "layer takes 16 numbers and gives 8" in raised_by(lambda x: layer(x), torch.ones(2, 5))[0]
    )


@pytest.mark.parametrize(
    ("answer", "given", "left_out"),
    [
        (lambda x: x.transpose(1, 2).view(2, -1), torch.ones(2, 3, 4), "reshape(...) instead"),
        (lambda x: x.numpy(), nn.Parameter(torch.ones(2)), "detach().numpy()"),
        (lambda x: bool(x.detach().numpy() > 0), torch.ones(2), "a.any()"),
        (lambda x: x[0], torch.tensor(1.0), "item()"),
        (
            lambda x: torch.autograd.grad((2 * x).sum(), x.clone()),
            nn.Parameter(torch.ones(2)),
            "allow_unused",
        ),
    ],
)
def test_advice_of_torch_that_leads_to_other_numbers_is_left_out(
    answer: Any, given: Any, left_out: str
) -> None:
    told, advice = raised_by(answer, given)
    assert left_out not in told + advice


@pytest.mark.parametrize(
    ("write", "is_parameters"),
    [
        ("p[:] = 0", True),
        ("p[0], q = 1.0, 2.0", True),
        ("layer.weight[0] += 1", True),
        ("torch.relu_(p)", True),
        ("nn.functional.relu(p, inplace=True)", True),
        ("x[:] = p", False),
        ("x += p.mean()", False),
        ("x += torch.add(p, 1)", False),
    ],
)
def test_who_writes_into_a_parameter_is_told_from_who_writes_into_an_input(
    write: str, is_parameters: bool
) -> None:
    file = f"<{write}>"
    lines = ["def answer(x, p, layer):\n", f"    {write}\n"]
    linecache.cache[file] = (0, None, lines, file)
    names: dict[str, Any] = {"torch": torch, "nn": nn, "__name__": "__main__"}
    exec(compile("".join(lines), file, "exec"), names)
    parameter = nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="leaf") as caught:
        names["answer"](torch.ones(2).requires_grad_(), parameter, nn.Linear(2, 2))
    assert raised.writes_into_parameter(caught.value) == is_parameters


def test_modules_that_only_hold_others_are_told_by_their_kind() -> None:
    x = torch.ones(2)
    held, advice = raised_by(lambda x: nn.ModuleDict({"0": nn.Linear(2, 2)})(x), x)
    assert "nn.ModuleDict holds modules under names" in held
    assert "ModuleList" not in held + advice
    held, advice = raised_by(lambda x: nn.ModuleList([nn.Linear(2, 2)])(x), x)
    assert "one after the other" in advice
    told, advice = raised_by(lambda x: type("Mine", (nn.ModuleDict,), {})()(x), x)
    assert "has no forward" in told
    assert "ModuleList" not in told + advice


def test_a_tensor_is_copied_by_clone_and_a_gradient_is_not_left_behind() -> None:
    assert "clone()" in raised_by(lambda x: x.copy(), torch.ones(2))[1]
    assert "would cut it off" in raised_by(lambda x: x.numpy(), nn.Parameter(torch.ones(2)))[1]


def test_what_is_told_of_an_index_depends_on_its_kind() -> None:
    pair = (torch.ones(2, 2), None)
    told, advice = raised_by(lambda pair: pair[:, 0], pair)
    assert "a comma makes one" in told
    assert "pair[0] is the output" in advice
    assert "dict" not in advice
    assert "dict" in raised_by(lambda pair: pair["weights"], pair)[1]


def test_a_list_is_told_by_what_is_in_it() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    told, advice = raised_by(lambda optimizer: optimizer.param_groups["lr"], optimizer)
    assert "optimizer.param_groups is a list of dicts" in told
    assert "for one in optimizer.param_groups" in advice
    assert "tensor" not in told + advice
    told, _ = raised_by(lambda optimizer: optimizer.param_groups.items(), optimizer)
    assert "optimizer.param_groups is a list of dicts" in told
    told, advice = raised_by(lambda optimizer: optimizer.lr, optimizer)
    assert "in each of its groups" in told
    assert 'group["lr"]' in advice


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda: [1, 2].mean(), "mean is for tensors"),
        (lambda: (1, 2).append(3), "has no append: lists have"),
        (lambda: {"x": 1}.x, "x is a key of this dict"),
        (lambda: OrderedDict(head=nn.Linear(2, 3)).head, "head is a key of this dict"),
        (lambda: nn.Linear.load_state_dict({}), "nn.Linear is a class, and load_state_dict is for"),
        (lambda: partial(nn.LayerNorm) < 1, "A class or a function stands where a number is"),
        (lambda: json.loads(b"\x80\x02"), "What is read here is no text"),
        (lambda: (1.0).backward(), "backward is for tensors"),
        (lambda: torch.ones(2).astype(float), "A tensor has no attribute astype"),
        (lambda: nn.ReLu(), "Spelt nearly like it: ReLU."),
        (lambda: math.sigmoid(1), "torch.nn.functional has it"),
        (lambda: {"0": 1}.copy()[0], "no such key"),
        (lambda: nn.Linear(2), "nn.Linear(in_features, out_features, bias=True"),
        (
            lambda: nn.Linear(2, 3).register_buffer("weight", torch.ones(2)),
            "has something of this name already",
        ),
    ],
)
def test_what_is_missing_is_told_beside_what_is_there(answer: Any, told: str) -> None:
    assert told in raised_by(answer)[0]


def test_a_hook_with_other_arguments_is_told_how_it_is_called() -> None:
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, args: None)
    assert "(module, args, output)" in raised_by(lambda x: layer(x), torch.ones(2))[0]
    assert "hook" not in "".join(raised_by(lambda x: layer(x, x), torch.ones(2)))


def test_a_module_that_is_made_of_tensors_is_told() -> None:
    x = torch.ones(2, 3)
    assert "nn.Softmax(…) makes a module" in raised_by(lambda x: nn.Softmax(x, dim=1), x)[0]
    weighted = raised_by(lambda w, x: nn.CrossEntropyLoss(w)(x, w), torch.ones(3), x)
    assert "makes a module" not in weighted[0]


def test_a_shape_has_no_attribute_of_its_tensor() -> None:
    assert "x.shape.ndim" not in raised_by(lambda x: x.shape.ndim, torch.ones(2))[0].split("`")[-1]


def test_the_part_of_a_pair_that_is_needed_may_be_the_second() -> None:
    layer, x = nn.MultiheadAttention(4, 2, batch_first=True), torch.ones(1, 3, 4)
    assert "pair[1] the weights" in raised_by(lambda: torch.allclose(layer(x, x, x), x))[1]


def test_what_cuts_a_gradient_is_the_one_that_is_asked_for() -> None:
    def put_back(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
        n, keep, width = visible.shape
        full = mask_token.detach().repeat(n, order.shape[1], 1)
        return full.scatter(1, order[:, :keep, None].expand(-1, -1, width), visible.detach())

    told = said("put_back", put_back)
    assert "gradient of visible: none" in told
    assert "No gradient flows through `visible.detach()`" in told
