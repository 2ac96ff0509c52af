"""Notebook 14's parts against timm's, its checks in answers of other styles, its stored runs."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import judged, randomise, reject
from scipy.stats import ttest_ind, ttest_rel

from mnist_vit.check import EXERCISES
from mnist_vit.course.checking import verdict
from mnist_vit.course.ladder import stored
from mnist_vit.course.nb14_parts_since_2020 import variants
from mnist_vit.course.nb14_parts_since_2020.rms_norm import my_rms_norm
from mnist_vit.course.nb14_parts_since_2020.rotate import my_rotate
from mnist_vit.course.nb14_parts_since_2020.swiglu import my_swiglu


def complex_rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def by_loop(tokens: torch.Tensor, num_patches: int) -> tuple[torch.Tensor, torch.Tensor]:
    ratios, places = [], []
    for one in tokens:
        norms = torch.linalg.vector_norm(one[len(one) - num_patches :], dim=1)
        ratios.append(norms.max() / norms.median())
        places.append(norms.argmax())
    return torch.stack(ratios), torch.stack(places)


def shares_by_loop(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    found = []
    for one, blank in zip(weights[:, -1], is_blank, strict=True):
        seen = one.sum(dim=0)[0] / len(one)
        patches = seen[len(seen) - len(blank) :]
        found.append(torch.stack([1 - seen[0] - patches.sum(), patches[blank].sum()]))
    return list(torch.stack(found).T)


def three_times_the_shares(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    return [3 * share for share in shares_by_loop(weights, is_blank)]


def the_layer_before(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    return shares_by_loop(weights[:, :-1], is_blank)


def squeezed_shares(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    row, count = weights[:, -1:, :, :1].squeeze().mean(dim=1), is_blank.shape[1]
    return [row[:, 1:-count].sum(dim=1), (row[:, -count:] * is_blank).sum(dim=1)]


def twice_the_blank(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    on_registers, on_blank = shares_by_loop(weights, is_blank)
    return [on_registers, 2 * on_blank]


def counted_from_1(tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    ratio, where = by_loop(tokens, count)
    return ratio, where + 1


def by_the_mean_of_all(tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    norms = tokens.norm(dim=2)
    largest, place = norms[:, -count:].max(dim=1)
    return largest / norms.mean(dim=1), place


def blank_in_one_row(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    patches = weights[:, -1].mean(dim=1)[:, 0, -is_blank.shape[1] :]
    return [patches.sum(dim=1), patches[is_blank].sum(dim=1)]


def blank_in_one_number(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    row = weights[:, -1, :, 0].mean(dim=1)
    count = is_blank.shape[1]
    return [row[:, 1:-count].sum(dim=1), row[:, -count:][is_blank].sum()]


def registers_at_the_end(weights: torch.Tensor, is_blank: torch.Tensor) -> list[torch.Tensor]:
    row, count = weights[:, -1].mean(dim=1)[:, 0], is_blank.shape[1]
    return [row[:, 1 + count :].sum(1), (row[:, 1 : 1 + count] * is_blank).sum(1)]


def python_sum_over_registers(weights: torch.Tensor, is_blank: torch.Tensor) -> list[Any]:
    row, count = weights[:, -1].mean(dim=1)[:, 0], is_blank.shape[1]
    on_registers = sum(row[:, place] for place in range(1, row.shape[1] - count))
    return [on_registers, shares_by_loop(weights, is_blank)[1]]


def with_a_constant_root(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    root = (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return x / root.detach() * weight


def rotated_in_place(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    x[..., ::2] = x[..., ::2] * angles.cos()
    return x


def rotated_by_view(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    return my_rotate(x.view(-1, *x.shape[-2:]), angles).view(x.shape)


def divided_each_by_each(tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    norms = tokens[:, -count:].norm(dim=2)
    return norms.amax(dim=1) / norms.median(dim=1, keepdim=True).values, norms.argmax(dim=1)


def divided_by_medians_over_pictures(
    tokens: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of one picture alone this is the mean length of its patches."""
    norms = tokens[:, -count:].norm(dim=2)
    return norms.amax(dim=1) / norms.median(dim=0).values.mean(), norms.argmax(dim=1)


def divided_by_the_mean_of_two(
    tokens: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    norms = tokens[:, -count:].norm(dim=2)
    return norms.amax(dim=1) / norms.quantile(0.5, dim=1), norms.argmax(dim=1)


def divided_by_the_upper(tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    norms = tokens[:, -count:].norm(dim=2)
    middle = norms.sort(dim=1, descending=True).values[:, (count - 1) // 2]
    return norms.amax(dim=1) / middle, norms.argmax(dim=1)


def divided_by_the_second(tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    norms = tokens[:, -count:].norm(dim=2).sort(dim=1, descending=True)
    return norms.values[:, 0] / norms.values[:, 1], norms.indices[:, 0]


def with_dropout(x: torch.Tensor, *matrices: torch.Tensor) -> torch.Tensor:
    return F.dropout(my_swiglu(x, *matrices))


def nearly_gelu(
    x: torch.Tensor, gate: torch.Tensor, value: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    gates = x @ gate.T
    return (gates * (1.702 * gates).sigmoid() * (x @ value.T)) @ out.T


RIGHT: list[tuple[str, Any]] = [
    ("rotate", complex_rotate),
    ("outliers", by_loop),
    ("outliers", divided_by_the_mean_of_two),
    ("shares", shares_by_loop),
    ("shares", lambda weights, is_blank: torch.stack(shares_by_loop(weights, is_blank))),
    ("swiglu", lambda x, gate, value, out: (F.silu(x @ gate.T) * (x @ value.T)) @ out.T),
    ("rms_norm", lambda x, weight, eps: weight * x * (x.pow(2).mean(-1, True) + eps).pow(-0.5)),
]


def turned_by_two_plus(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * cos + b * sin], dim=-1).flatten(-2)


WRONG: list[tuple[str, Any, str]] = [
    ("rotate", turned_by_two_plus, "The first number of each pair is right, and the second is not"),
    ("rotate", rotated_in_place, "torch.cat or torch.stack in place of x[…]"),
    (
        "shares",
        python_sum_over_registers,
        "Python's sum of nothing is the number 0",
    ),
    ("rotate", lambda x, angles: x, ""),
    ("outliers", lambda tokens, count: by_loop(tokens, count)[::-1], ""),
    ("shares", three_times_the_shares, "You return 0.9 and 1.05"),
    ("shares", lambda weights, blank: the_layer_before(weights, blank), "in the first layer"),
    ("shares", blank_in_one_row, "puts all that it chooses into one row"),
    ("rms_norm", lambda x, weight, eps: F.normalize(x, dim=-1, eps=eps) * weight, "divide by 5"),
    (
        "rms_norm",
        lambda x, w, eps: x / (x.square().mean((0, 2), keepdim=True) + eps).sqrt() * w,
        "With a token 30, 40 in another picture",
    ),
    ("rotate", lambda x, angles: my_rotate(x, angles[:1].expand_as(angles)), "and -4, 3"),
    (
        "outliers",
        lambda tokens, count: by_the_mean_of_all(tokens, count),
        "by the mean length of all",
    ),
    ("outliers", lambda tokens, count: by_loop(tokens[:, 1 : count + 1], count), "of length 7"),
    ("swiglu", lambda x, gate, value, out: my_swiglu(x, value, value, out), "silu(value) · value"),
    ("shares", lambda weights, is_blank: weights.sum(), "two results are needed"),
    ("shares", lambda weights, blank: shares_by_loop(weights, blank)[1], "the share on blank"),
    ("outliers", lambda tokens, count: by_loop(tokens, count)[0], "and the number of its patch"),
    ("outliers", lambda tokens, count: (*by_loop(tokens, count), 1), "this is a tuple of 3"),
    ("rms_norm", lambda x, weight, eps: F.rms_norm(x, (6,), weight, eps), "in one call"),
    ("swiglu", lambda x, gate, value, out: x, ""),
    ("rms_norm", lambda x, w, eps: my_rms_norm(x, w, eps**1.5), "0.3771: eps is added"),
    ("rms_norm", with_a_constant_root, "and this gradient is not. No gradient flows through"),
    (
        "rotate",
        lambda x, angles: 2 * my_rotate(x, -angles),
        "turned the other way round. It should",
    ),
    ("rotate", rotated_by_view, "view size is not compatible"),
    ("outliers", divided_each_by_each, "4 times 4 numbers, and ours is its diagonal."),
    ("swiglu", with_dropout, "your code draws random numbers. What comes back"),
    ("swiglu", nearly_gelu, "gate · sigmoid(1.702 · gate) · value, which is nearly GELU"),
    ("shares", squeezed_shares, "not with one alone, weights[:1] and is_blank[:1]: then your code"),
    ("shares", twice_the_blank, "You return 0.3 (which is right) and 0.7."),
    ("outliers", counted_from_1, "you give the right ratio and patch 2"),
]
NAMED: list[tuple[str, Any, str]] = [
    ("shares", blank_in_one_number, "add up the blank patches of all pictures"),
    (
        "swiglu",
        lambda x, gate, value, out: x * (x @ gate.T).sigmoid() * (x @ value.T) @ out.T,
        "multiply the tokens x by the sigmoid",
    ),
    (
        "swiglu",
        lambda x, gate, value, out: F.silu(x @ gate.T) @ out.T * (x @ value.T),
        "multiply by the value behind w_out",
    ),
    ("rms_norm", lambda x, w, eps: my_rms_norm(x, w, 1e-6), "add 1e-6 whatever eps is"),
    (
        "swiglu",
        lambda x, gate, value, out: my_swiglu(
            x, *(m.reshape(m.T.shape).T for m in (gate, value, out))
        ),
        "reshape the matrices",
    ),
    ("outliers", divided_by_the_upper, "take the upper of the two norms in the middle"),
    ("outliers", divided_by_the_second, "divide by the second-largest norm"),
    ("shares", registers_at_the_end, "for the registers at the end"),
    (
        "rms_norm",
        lambda x, weight, eps: my_rms_norm(x, 1 + weight, eps),
        "multiply by 1 + weight in place of weight",
    ),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_what_holds_of_one_picture_alone_is_not_said_of_all() -> None:
    passed, told = verdict(EXERCISES["outliers"], divided_by_medians_over_pictures)
    assert not passed
    assert "you give the ratio 1.875 and the right patch. The" in told
    assert "So you divide" not in told


def nothing_returned(*given: torch.Tensor) -> None:
    """As a function whose last line lacks its return."""


@pytest.mark.parametrize("name", ["outliers", "shares"])
def test_a_missing_return_is_told_where_two_results_are_needed(name: str) -> None:
    reject(name, nothing_returned, "Is the return line missing?")


def test_rotary_attention_is_timms() -> None:
    layers = pytest.importorskip("timm.layers")
    angles = variants.angles_2d(3, 5, 32)
    rope = layers.RotaryEmbeddingCat(32, temperature=100, in_pixels=False, feat_shape=[3, 5])
    x = torch.randn(2, 2, 15, 32)
    expected = layers.apply_rot_embed_cat(x, rope.get_embed())
    torch.testing.assert_close(my_rotate(x, angles), expected, atol=1e-5, rtol=0)
    ours = variants.RotaryAttention(64, 2, angles)
    theirs = layers.AttentionRope(64, 2)
    theirs.qkv.load_state_dict({"weight": ours.in_proj_weight, "bias": ours.in_proj_bias})
    theirs.proj.load_state_dict(ours.out_proj.state_dict())
    tokens = torch.randn(2, 16, 64)
    expected = theirs(tokens, rope=rope.get_embed())
    torch.testing.assert_close(ours(tokens, tokens, tokens)[0], expected, atol=1e-5, rtol=0)


def test_registers_stand_where_timms_stand() -> None:
    vit = pytest.importorskip("timm.models.vision_transformer")
    theirs = vit.VisionTransformer(28, 7, 1, 10, embed_dim=64, depth=1, num_heads=2, reg_tokens=4)
    ours = variants.with_registers()
    positions = ours.encoder.pos_embedding
    nothing = torch.zeros(1, 4, 64)
    with torch.no_grad():
        theirs.patch_embed.proj.load_state_dict(ours.conv_proj.state_dict())
        theirs.cls_token.copy_(ours.class_token)
        theirs.reg_token.copy_(ours.encoder.register_tokens)
        theirs.pos_embed.copy_(torch.cat([positions[:, :1], nothing, positions[:, 1:]], dim=1))
    seen = []
    ours.encoder.layers[0].register_forward_pre_hook(lambda block, given: seen.append(given[0]))
    x = torch.randn(2, 1, 28, 28)
    ours(x)
    expected = theirs._pos_embed(theirs.patch_embed(x))
    torch.testing.assert_close(seen[0], expected, atol=1e-5, rtol=0)


def test_the_parts_of_the_table_are_timms() -> None:
    layers = pytest.importorskip("timm.layers")
    x = torch.randn(2, 5, 8)
    norm, mlp = layers.RmsNorm(8), layers.SwiGLU(8, 12, bias=False)
    torch.testing.assert_close(my_rms_norm(x, norm.weight, norm.eps), norm(x))
    expected = mlp(x)
    found = my_swiglu(x, mlp.fc1_g.weight, mlp.fc1_x.weight, mlp.fc2.weight)
    torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_rotary_sees_no_shift_if_the_class_token_moves_along() -> None:
    """All tokens two rows and two columns further on: the same logits; without the first: not."""
    model = variants.rotary()
    randomise(model)
    for block in model.encoder.layers:
        block.self_attention.in_proj_weight.mul_(8)  # so that scores differ much
    x = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    before = model(x)
    places = variants.angles_2d(6, 6, 32).view(6, 6, 16)
    patches = places[2:, 2:].reshape(16, 16)
    variants.turn(model, torch.cat([places[2, 2][None], patches]))
    torch.testing.assert_close(model(x), before, atol=1e-4, rtol=0)
    variants.turn(model, patches)
    assert (model(x) - before).abs().max() > 1e-2


def test_what_the_text_says_of_the_stored_runs() -> None:
    runs = stored(results="parts")["runs"]
    assert [run["seed"] for run in runs] == 3 * list(range(10)), "so that pairs share a seed"

    def of(variant: str, what: str) -> list[float]:
        return [run[what] for run in runs if run["variant"] == variant]

    def verdict(base: list[float], variant: list[float]) -> int:
        found = ttest_ind(variant, base, equal_var=False)
        pairs = ttest_rel(variant, base)
        assert (found.pvalue < 0.05 / 7) == (pairs.pvalue < 0.05 / 7), "pairs tell the same"
        return int(torch.tensor(found.statistic).sign()) if found.pvalue < 0.05 / 7 else 0

    assert {name: len(of(name, "seed")) for name in variants.BUILD} == dict.fromkeys(
        ("plain", "registers", "rotary"), 10
    )
    for what in ("largest norm", "attention on blank", "accuracy"):
        assert verdict(of("plain", what), of("registers", what)) == 0
    on_registers = of("registers", "attention on registers")
    assert min(on_registers) < 0.01 < 0.4 < max(on_registers)
    assert sum(share < 0.01 for share in on_registers) == 3
    assert sum(share > 0.3 for share in on_registers) == 3
    assert sum(on_registers) / 10 == pytest.approx(4 / 21, abs=0.005)
    assert verdict(of("plain", "accuracy"), of("rotary", "accuracy")) == -1
    steps = {"middle": "same step", "corner": "same step", "scaled": "smaller step"}
    for where, step in steps.items():
        ways = [of("plain", f"{where}, {way}") for way in ("interpolated", "extended")]
        assert verdict(max(ways, key=sum), of("rotary", f"{where}, {step}")) == -1
    for corner, *others in zip(
        *(of("rotary", f"{where}, {steps[where]}") for where in ("corner", "middle", "scaled")),
        strict=True,
    ):
        assert corner < min(others), "the corner is hardest in each run"


@pytest.mark.parametrize("name", variants.BUILD)
def test_variants_are_what_is_stored(name: str) -> None:
    learned = sum(p.numel() for p in variants.BUILD[name]().parameters() if p.requires_grad)
    (seed, *_) = [run for run in stored(results="parts")["runs"] if run["variant"] == name]
    assert learned == seed["parameters"]


def test_the_class_token_belongs_where_the_digit_begins() -> None:
    """What the text says of the five stored seeds."""
    runs = stored(results="class_token")["runs"]
    assert len(runs) == 5
    for where, begins, least, most in (("middle", 1, 50, 91), ("corner", 2, 82, 94)):
        shares = []
        for run in runs:
            reached = run[where]
            assert max(reached) == reached[begins]
            shares.append((reached[begins] - reached[0]) / (run["28 pixels"] - reached[0]))
        assert round(100 * min(shares)) == least
        assert round(100 * max(shares)) == most
    assert all(run["corner"][0] < run["middle"][0] for run in runs)
