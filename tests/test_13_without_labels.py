"""Notebook 13's checks, in answers of other styles; the autoencoder sees nothing of what is hidden;
the stored rows say what the text says of them."""

import json
from typing import Any

import pytest
import torch
from helpers import judged
from torch import Tensor
from torchvision import models

from experiments import few_labels, put_back, without_labels, without_labels_cifar10
from mnist_vit import vit_mnist
from mnist_vit.check import EXERCISES
from mnist_vit.course.checking.verdict import verdict
from mnist_vit.course.nb13_without_labels import tables
from mnist_vit.course.nb13_without_labels.autoencoder import (
    MaskedAutoencoder,
    features,
    hidden_error,
    pretrain,
    reconstruct,
    to_patches,
    to_pictures,
    train_with_labels,
    visible_error,
)
from mnist_vit.data import load_embedded

MASK = EXERCISES["mask"].answer
PUT_BACK = EXERCISES["put_back"].answer
HIDDEN_LOSS = EXERCISES["hidden_loss"].answer


def mask_in_a_loop(tokens: Tensor, noise: Tensor, keep: int) -> list[Tensor]:
    order = noise.sort(dim=1).indices
    visible = []
    for number in range(len(tokens)):
        visible.append(tokens[number, order[number, :keep]])
    return [torch.stack(visible), order]


def put_back_by_writing(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    tokens = mask_token.repeat(len(order), order.shape[1], 1)
    for number, own in enumerate(order):
        tokens[number, own[: visible.shape[1]]] = visible[number]
    return tokens


def loss_by_booleans(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    hidden = order.argsort(dim=1) >= keep
    return torch.nn.functional.mse_loss(predicted[hidden], patches[hidden])


def only_visible(tokens: Tensor, noise: Tensor, keep: int) -> Tensor:
    return MASK(tokens, noise, keep)[0]


def order_of_visible(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    visible, order = MASK(tokens, noise, keep)
    return visible, order[:, :keep]


def with_a_new_mask_token(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    return PUT_BACK(visible, torch.ones_like(mask_token), order)


def loss_of_one_pixel(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    hidden = order[:, keep:, None]
    return (predicted.gather(1, hidden) - patches.gather(1, hidden)).square().mean()


def mask_by_booleans(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    order = noise.argsort(dim=1)
    return tokens[order.argsort(dim=1) < keep], order


def loss_of_each_picture(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    error = (predicted - patches).square().mean(dim=2)
    return error.gather(1, order[:, keep:]).mean(dim=1)


@torch.no_grad()
def mask_without_gradient(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    return mask_in_a_loop(tokens, noise, keep)


def loss_with_nan(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    """nanmean was meant."""
    error = (predicted - patches).square()
    error[order.argsort(dim=1) < keep] = float("nan")
    return error.mean()


RIGHT: list[tuple[str, Any]] = [
    ("mask", mask_in_a_loop),
    ("put_back", put_back_by_writing),
    ("hidden_loss", loss_by_booleans),
]
WRONG: list[tuple[str, Any, str]] = [
    ("mask", only_visible, "visible and order are needed"),
    ("mask", lambda tokens, noise, keep: (tokens, noise), ""),
    ("mask", mask_by_booleans, "The order is right. But of two pictures"),
    ("put_back", lambda visible, mask_token, order: visible, "must have shape"),
    ("hidden_loss", loss_with_nan, "Where every pixel is off by 3 you give nan."),
    ("hidden_loss", loss_of_each_picture, "must have shape (), but has (3,)"),
    ("hidden_loss", lambda predicted, patches, order, keep: predicted.mean(), ""),
]
NAMED: list[tuple[str, Any, str]] = [
    ("mask", mask_without_gradient, "cut the visible tokens off from the tokens that came in"),
    ("mask", order_of_visible, "return the order of the visible patches only"),
    ("put_back", with_a_new_mask_token, "fill with ones"),
    ("hidden_loss", loss_of_one_pixel, "one pixel of each patch is left"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def to_one_scale(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    """The true pixels of each patch are brought to mean 0 and spread 1, as He et al. also do."""
    spread = patches.std(dim=2, keepdim=True) + 1e-6
    return HIDDEN_LOSS(
        predicted, (patches - patches.mean(dim=2, keepdim=True)) / spread, order, keep
    )


def of_49_patches(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    n, keep, width = visible.shape
    tokens = mask_token.repeat(n, 49, 1)
    return tokens.scatter(1, order[:, :keep, None].expand(-1, -1, width), visible)


def of_pictures(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    return (predicted - patches).square()[order[:, keep:]].mean()


test_what_was_only_located = judged(
    [],
    [("hidden_loss", to_one_scale, "Where all true pixels are larger by 1 your loss is the same")],
    [
        ("put_back", of_49_patches, "make 49 tokens, however many patches there are"),
        ("hidden_loss", of_pictures, "index axis 0, which counts the pictures"),
    ],
)


def ids_restore(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    visible, order = MASK(tokens, noise, keep)
    return visible, order.argsort(dim=1)


def test_the_order_that_leads_back_is_told_as_that() -> None:
    assert "in the place of order. Return" in verdict(EXERCISES["mask"], ids_restore)[1]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "mask",
            lambda *given: MASK(given[0][:1].expand_as(given[0]), *given[1:]),
            "51, 53 and the right",
        ),
        ("mask", mask_by_booleans, "52, 53, 11, 13 in one list, (4, 1): the axis of the pictures"),
        ("put_back", lambda v, m, o: PUT_BACK(v[:1].expand_as(v), m, o), "becomes 60, 5, 5, 50"),
        (
            "put_back",
            lambda v, m, o: PUT_BACK(v[:1].expand_as(v), m, o),
            "10, 20, the mask token 5",
        ),
        ("hidden_loss", lambda *given: HIDDEN_LOSS(*given) / 3, "off by 3 you give 3"),
        (
            "hidden_loss",
            lambda p, t, order, keep: HIDDEN_LOSS(p, t.roll(1, dims=1), order, keep),
            "these patches of `patches` make a difference: 0, 2 of picture 0",
        ),
    ],
)
def test_what_is_noticed(name: str, answer: Any, words: str) -> None:
    assert words in verdict(EXERCISES[name], answer)[1]


def filled(visible: Tensor, order: Tensor, empty: float) -> Tensor:
    full = torch.full((len(order), order.shape[1], visible.shape[2]), empty)
    return full.scatter(1, order[:, : visible.shape[1], None].expand_as(visible), visible)


def where_zero(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    full = filled(visible, order, 0.0)
    return torch.where(full == 0, mask_token, full)


def where_all_zero(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    full = filled(visible, order, 0.0)
    return torch.where((full == 0).all(dim=2, keepdim=True), mask_token, full)


def where_sum_is_zero(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    full = filled(visible, order, 0.0)
    return torch.where(full.sum(dim=2, keepdim=True) == 0, mask_token, full)


def where_minus_one(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    full = filled(visible, order, -1.0)
    return torch.where(full == -1, mask_token, full)


def one_after_the_other(visible: Tensor, mask_token: Tensor, order: Tensor) -> Tensor:
    """A list's insert moves those behind it."""
    rows = []
    for tokens, places in zip(visible, order, strict=True):
        row = [mask_token[0, 0]] * (order.shape[1] - len(tokens))
        for token, place in zip(tokens, places.tolist(), strict=False):
            row.insert(place, token)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def mask_by_view(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    n, count, width = tokens.shape
    order = noise.argsort(dim=1)
    return tokens.view(-1, width)[order[:, :keep] + count * torch.arange(n)[:, None]], order


def mask_by_chance(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    return MASK(tokens, torch.rand_like(noise), keep)


def mask_by_the_tokens(tokens: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    return MASK(tokens, (tokens.detach() * noise[:, :, None]).sum(dim=2), keep)


def weighted_loss(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    hidden = (predicted - patches).square().mean(dim=2).gather(1, order[:, keep:])
    weights = torch.linspace(1, 2, hidden.shape[1])
    return (hidden * weights).sum() / weights.sum() / len(order)


def loss_divided_by_keep(predicted: Tensor, patches: Tensor, order: Tensor, keep: int) -> Tensor:
    count = order.shape[1] - keep
    return HIDDEN_LOSS(predicted, patches, order, keep) * count / keep + 0.0


test_what_no_input_told_apart = judged(
    [],
    [
        ("put_back", where_all_zero, "with the numbers 0, 0, 0, 0 becomes 5, 5, 5, 5 where"),
        ("put_back", where_sum_is_zero, "with the numbers 0, 0, 0, 0 becomes 5, 5, 5, 5 where"),
        ("put_back", where_minus_one, "with the numbers 1, -1, 2, -2 becomes 1, 5, 2, -2 where"),
        ("put_back", one_after_the_other, "order 2, 0, 3, 1 you make 20, 5, 5, 10. It should be"),
        ("mask", mask_by_view, "view joins axes only where their numbers lie in this order"),
        ("mask", mask_by_chance, "your code draws random numbers"),
        ("mask", mask_by_the_tokens, "With the same noise and other tokens you return another"),
        ("hidden_loss", weighted_loss, "Hidden patches do not count alike in yours"),
    ],
    [
        ("put_back", where_zero, "put the mask token's numbers wherever a number is 0"),
        ("put_back", lambda *given: PUT_BACK(*given).squeeze(0), "where there is one picture"),
        (
            "mask",
            lambda *given: (MASK(*given)[0].squeeze(0), MASK(*given)[1]),
            "where there is one picture",
        ),
        ("mask", lambda *given: MASK(*given)[::-1], "return order first"),
        ("hidden_loss", loss_divided_by_keep, "divide by the number of the visible patches"),
    ],
)


@pytest.fixture
def autoencoder() -> MaskedAutoencoder:
    torch.manual_seed(0)
    return MaskedAutoencoder(vit_mnist(4), 12, MASK, PUT_BACK)


def test_patches_make_the_picture_again() -> None:
    images = torch.randn(2, 3, 12, 12)
    patches = to_patches(images, 4)
    assert patches.shape == (2, 9, 48)
    assert torch.equal(patches[1, 5].view(3, 4, 4), images[1, :, 4:8, 8:12])
    assert torch.equal(to_pictures(patches, 12, 4), images)


def test_what_is_hidden_cannot_be_known(autoencoder: MaskedAutoencoder) -> None:
    """Other pixels in the hidden patches change nothing; in a visible one they do."""
    images, noise = torch.randn(2, 1, 28, 28), torch.rand(2, 49)
    predicted, order = autoencoder(images, noise)
    hidden = noise.argsort(dim=1).argsort(dim=1) >= 12
    patches = to_patches(images, 4)
    patches[hidden] += 1.0
    again, _ = autoencoder(to_pictures(patches, 28, 4), noise)
    assert torch.equal(predicted, again)
    patches[0, order[0, 0]] += 1.0
    changed, _ = autoencoder(to_pictures(patches, 28, 4), noise)
    assert not torch.allclose(predicted[0], changed[0], atol=1e-4)
    assert torch.equal(predicted[1], changed[1])


def test_a_reconstruction_keeps_what_was_visible(autoencoder: MaskedAutoencoder) -> None:
    images = torch.randn(3, 1, 28, 28)
    patches = to_patches(images, 4)
    found, order = reconstruct(autoencoder, images, seed=4)
    same = (found == patches).all(dim=2)
    for number in range(3):
        assert same[number].nonzero()[:, 0].tolist() == sorted(order[number, :12].tolist())
    assert hidden_error(autoencoder, images, seed=4) == pytest.approx(
        HIDDEN_LOSS(found, patches, order, 12).item(), rel=1e-4
    )


def test_the_error_on_visible_patches_is_that_of_what_is_predicted_there(
    autoencoder: MaskedAutoencoder,
) -> None:
    images = torch.randn(3, 1, 28, 28)
    noise = torch.rand(3, 49, generator=torch.Generator().manual_seed(4))
    predicted, order = autoencoder(images, noise)
    patches = to_patches(images, 4)
    errors = []
    for number in range(3):
        seen = order[number, :12]
        errors.append((predicted[number, seen] - patches[number, seen]).square().mean().item())
    found = visible_error(autoencoder, images, seed=4)
    assert found == pytest.approx(sum(errors) / 3, rel=1e-4)


def test_pretraining_learns_and_uses_no_label() -> None:
    """A few steps make the error smaller; other labels give the same weights; heads stay."""
    digits = load_embedded("train")
    wrong = digits.select(torch.arange(len(digits)), "wrong labels")
    wrong.labels.zero_()
    x = digits.normalise(digits.images[:200])
    weights = []
    for data in (digits, wrong):
        torch.manual_seed(0)
        model = MaskedAutoencoder(vit_mnist(4), 12, MASK, PUT_BACK)
        head = model.vit.heads.head.weight.clone()
        before = hidden_error(model, x)
        losses: list[float] = []
        pretrain(model, data, HIDDEN_LOSS, 12, after=lambda step, loss, at=losses: at.append(loss))
        assert len(losses) == 12
        assert hidden_error(model, x) < 0.9 * before
        assert torch.equal(model.vit.heads.head.weight, head)
        weights.append(model.vit.encoder.pos_embedding.detach())
    assert torch.equal(*weights)


def test_an_unmodified_vit_of_torchvision_can_be_pretrained_and_trained() -> None:
    vit = models.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=10)
    model = MaskedAutoencoder(vit, 4, MASK, PUT_BACK, width=8)
    predicted, order = model(torch.randn(2, 3, 32, 32), torch.rand(2, 16))
    assert predicted.shape == (2, 16, 192)
    assert order.shape == (2, 16)
    assert features(vit.eval(), torch.randn(3, 3, 32, 32)).shape == (3, 16)


def test_training_with_labels_lowers_the_loss() -> None:
    torch.manual_seed(0)
    model = vit_mnist(7)
    few = load_embedded("train").select(torch.arange(0, 4000, 100), "40 digits")
    x = few.normalise(few.images)
    train_with_labels(model, few, 20, changes={})
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(x), few.labels)
    assert loss < 2.2  # at the start ln 10, 2.30
    assert not model.training


def test_intervals_are_those_of_t() -> None:
    mean, half = tables.interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3.0
    assert half == pytest.approx(2.776 * (2.5 / 5) ** 0.5, abs=1e-3)
    with pytest.raises(ValueError, match=r"Choose one of: .*tuned_50"):
        tables.draws("tuned_51")


def test_a_draw_has_as_many_labels_of_each_digit_and_choices_see_no_digit_twice() -> None:
    fit, choose = without_labels.load("fit"), without_labels.load("choose")
    assert (len(fit), len(choose)) == (3200, 800)
    pictures = torch.cat([fit.images, choose.images]).flatten(1)
    assert len(torch.unique(pictures, dim=0)) == len(
        torch.unique(without_labels.load("train").images.flatten(1), dim=0)
    )
    few, others = few_labels.draw(fit, 50, 0), few_labels.draw(fit, 50, 1)
    assert few.labels.bincount().tolist() == [5] * 10
    assert not torch.equal(few.images, others.images)


def test_what_the_text_says_of_the_stored_rows() -> None:
    """Under equal conditions scratch is ahead with 400 labels, and nothing is shown with 50."""
    for count, unfair in ((50, 19), (100, 27), (400, 36)):
        for name in ("tuned", "scratch", "short_tuned", "short_scratch", "probe", "components"):
            assert sorted(tables.draws(f"{name}_{count}")) == [0, 1, 2, 3, 4]
        gain, _ = difference(f"short_tuned_{count}", f"short_scratch_{count}")
        assert abs(gain - unfair) <= 0.5
        gain, half = difference(f"probe_{count}", f"components_{count}")
        assert abs(gain) < half
    for count, shown in ((50, False), (100, True), (400, True)):
        gain, half = difference(f"short_scratch_at_0.01_{count}", f"short_scratch_{count}")
        assert (gain > half) == shown, "the rate from scratch was chosen for more steps"
    for count in (50, 100):
        gain, half = difference(f"tuned_{count}", f"scratch_{count}")
        assert abs(gain) < half
    gain, half = difference("tuned_400", "scratch_400")
    assert gain + half < 0
    for short in ("short_tuned", "short_scratch"):
        few = tables.row(short, (50, 100, 400))
        more = tables.row(short.removeprefix("short_"), (50, 100, 400))
        assert all(few[count][0] < more[count][0] for count in few), "more steps, more accurate"


def test_a_decoder_learns_which_patches_were_shown_though_nothing_is_put_back() -> None:
    """After 1,000 steps, not after 300; and no cost of the bug is shown."""
    rows = {name: tables.runs_of(name, "put_back") for name in put_back.NAMES}
    about = put_back.about()
    stored = json.loads(put_back.FILE.read_text(encoding="utf-8"))
    assert about == {key: stored[key] for key in about}
    for runs in rows.values():
        assert [run["seed"] for run in runs] == list(put_back.SEEDS)
    for run in rows["not_put_back"]:
        short, long = zip(run["hidden"], run["visible"], strict=True)
        assert abs(short[0] - short[1]) < 0.05
        assert 0.36 <= round(long[1], 2) <= 0.38
        assert long[1] < long[0] - 0.08
    assert all(round(run["visible"][1], 2) == 0.07 for run in rows["all_not_put_back"])
    assert tables.cost("not_put_back", "whole") == "+0.014 ± 0.023"


CIFAR10 = "without_labels_cifar10"
LABELS = (100, 1000, 10000)


def test_what_the_text_says_of_the_photographs() -> None:
    """Under equal conditions pretraining is ahead with 100 labels, and behind with 10,000."""
    for count, unfair, shown in ((100, 1, False), (1000, 5, True), (10000, 5, True)):
        for name in ("tuned", "scratch", "short_tuned", "short_scratch", "probe", "components"):
            assert sorted(tables.draws(f"{name}_{count}", CIFAR10)) == [0, 1, 2]
        gain, half = difference(f"short_tuned_{count}", f"short_scratch_{count}", CIFAR10)
        assert int(gain) == unfair
        assert (gain > half) == shown
        gain, _ = difference(f"probe_{count}", f"neighbour_{count}", CIFAR10)
        assert 9 <= gain <= 15
    assert difference("tuned_100", "scratch_100", CIFAR10) == (3.2, 2.0)
    assert tables.difference("tuned_100", "scratch_100", CIFAR10, 3) == "+3.2 ± 3.5 points"
    tuned = tables.draws("tuned_100", CIFAR10)
    scratch = tables.draws("scratch_100", CIFAR10)
    assert [round(tuned[draw] - scratch[draw], 1) for draw in range(3)] == [3.8, 3.4, 2.3]
    for found in (tuned, scratch):
        assert 4 <= max(found.values()) - min(found.values()) <= 5
    assert difference("tuned_1000", "scratch_1000", CIFAR10) == (-0.2, 3.2)
    assert difference("tuned_10000", "scratch_10000", CIFAR10) == (-14.0, 2.3)
    assert difference("probe_100", "tuned_100", CIFAR10) == (0.2, 4.0)
    against_random = [difference(f"probe_{n}", f"random_probe_{n}", CIFAR10) for n in LABELS]
    assert against_random == [(7.2, 5.6), (9.2, 1.3), (10.0, 2.4)]
    against = [difference(f"probe_{n}", f"components_{n}", CIFAR10) for n in LABELS]
    assert against == [(3.3, 5.3), (6.8, 2.2), (7.0, 0.7)]


def test_the_two_ways_took_about_as_long() -> None:
    spent = tables.seconds("pretraining", CIFAR10) + tables.seconds("tuned_100", CIFAR10)
    assert round(spent, -1) == 240
    assert round(tables.seconds("scratch_100", CIFAR10), -1) == 190


def test_the_numbers_of_components_that_were_chosen() -> None:
    for rows, components, neighbour in (
        (without_labels.ROWS, "40", None),
        (without_labels_cifar10.ROWS, "80", "40"),
    ):
        runs = json.loads(rows.file.read_text(encoding="utf-8"))["runs"]
        row = next(run for run in runs if run["name"] == "choose_components")
        assert str(row["components"]) == components
        tried, nearest = row["tried"], row["tried by nearest neighbour"]
        assert max(tried, key=tried.__getitem__) == components
        if neighbour:
            assert max(nearest, key=nearest.__getitem__) == neighbour
        else:
            assert all(75 < nearest[number] < 77 for number in ("20", "40", "80", "160"))


def test_three_rates_were_tried_for_each_and_the_one_in_the_middle_was_chosen() -> None:
    rows = without_labels_cifar10.ROWS
    for what in ("pretraining", "tuning", "scratch"):
        assert rows.chosen(what) == sorted(rows.rates)[1]
    stored = json.loads(rows.file.read_text(encoding="utf-8"))
    assert rows.about() == {key: stored[key] for key in rows.about()}


def difference(name: str, other: str, results: str = tables.DIGITS) -> tuple[float, float]:
    """What a difference says: the gain and half of its interval, in points."""
    gain, _, half, _ = tables.difference(name, other, results).split()
    return float(gain), float(half)
