"""Hiding patches of any model, and how a map is judged by it."""

from typing import Any

import pytest
import test_10_testing_maps as notebook
import test_other_vits as others
import torch
from helpers import randomise
from torch import Tensor, nn
from torchvision import models

from mnist_vit import VisionTransformer
from mnist_vit.hiding import faithfulness, hide, interval, leave_one_out
from mnist_vit.tokens import patch_grid


def model_of_16_patches(kind: Any = VisionTransformer) -> nn.Module:
    model = kind(8, 2, 2, 2, 8, 16, num_classes=3)
    randomise(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4
    return model.eval()


PICTURES = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def some_hidden(count: int = 3) -> Tensor:
    """As many in each picture, others in each."""
    order = torch.rand(3, 16, generator=torch.Generator().manual_seed(1)).argsort(dim=1)
    return order < count


@pytest.mark.parametrize("kind", [VisionTransformer, models.VisionTransformer])
def test_taken_out_as_notebook_10_does_it_by_hand(kind: Any) -> None:
    model = model_of_16_patches(kind)
    with torch.no_grad():
        expected = notebook.hide_by_hand(model, PICTURES, some_hidden())
        torch.testing.assert_close(hide(model, PICTURES, some_hidden()), expected)
        nothing = torch.zeros(3, 16, dtype=torch.bool)
        assert torch.equal(hide(model, PICTURES, nothing), model(PICTURES))
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_painted_with_a_reference() -> None:
    model = model_of_16_patches()
    hidden = torch.zeros(3, 16, dtype=torch.bool)
    hidden[0, 0] = True
    hidden[2, 6:8] = True  # the second row's right half
    painted = PICTURES.clone()
    painted[0, :, :2, :2] = 0.5
    painted[2, :, 2:4, 4:] = 0.5
    with torch.no_grad():
        expected = model(painted)
    reference = torch.full((3, 1, 1), 0.5)
    torch.testing.assert_close(hide(model, PICTURES, hidden, reference), expected)
    other = PICTURES.roll(1, dims=0)
    everything = torch.ones(3, 16, dtype=torch.bool)
    with torch.no_grad():
        assert torch.equal(hide(model, PICTURES, everything, other), model(other))


@pytest.mark.parametrize(
    "case",
    [
        ("timm", "ViT, 64×96 pixels"),
        ("timm", "DINOv2 with registers"),
        ("timm", "SigLIP"),
        ("Hugging Face", "ViT"),
        ("Hugging Face", "DINOv2"),
    ],
)
def test_other_models_do_without_a_token(case: tuple[str, str]) -> None:
    """The order of tokens does not matter to them: without a token is with none of its weight."""
    model, images, *_ = others.built(*case)
    rows, columns = patch_grid(model, images)
    found = leave_one_out(model, images, 7)
    assert found.shape == (2, rows * columns)
    assert found.abs().min() > 0
    hidden = torch.zeros(2, rows * columns, dtype=torch.bool)
    hidden[:, 1] = True
    whole = hide(model, images, torch.zeros_like(hidden)).softmax(dim=1)[:, 7]
    without = hide(model, images, hidden).softmax(dim=1)[:, 7]
    torch.testing.assert_close(found[:, 1], whole - without)


def test_rotary_positions_cannot_do_without_a_token_but_are_painted() -> None:
    model, images, *_ = others.built("timm", "EVA02")
    with pytest.raises(ValueError, match=r"Eva cannot do without.*reference"):
        leave_one_out(model, images)
    assert leave_one_out(model, images, reference=torch.zeros(1)).shape == (2, 16)


def test_other_numbers_of_hidden_patches_can_be_painted_only() -> None:
    hidden = torch.eye(3, 16, dtype=torch.bool)
    hidden[0, 5] = True
    with pytest.raises(ValueError, match=r"the same number.*got \[2, 1, 1\]"):
        hide(model_of_16_patches(), PICTURES, hidden)


class Counting(nn.Module):
    """Its logits are the sums of two pixels of the upper left, and 0."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(1, 1, 1, bias=False)
        nn.init.ones_(self.conv_proj.weight)

    def forward(self, images: Tensor) -> Tensor:
        pixels = self.conv_proj(images).flatten(1)
        return torch.stack([pixels[:, :2].sum(dim=1), torch.zeros(len(images))], dim=1)


def test_a_map_that_knows_is_more_faithful_than_one_that_does_not() -> None:
    model = Counting()
    images = torch.ones(1, 1, 2, 2)
    black = torch.zeros(1)
    knows, wrong = torch.tensor([[2.0, 1, 0, 0]]), torch.tensor([[0.0, 0, 1, 2]])
    two, one, none = torch.tensor([2.0, 1.0, 0.0]).sigmoid().tolist()
    hidden = faithfulness(model, images, knows, [0, 1, 2, 4], 0, black)
    torch.testing.assert_close(hidden, torch.tensor([[two, one, none, none]]))
    hidden = faithfulness(model, images, wrong, [0, 1, 2, 4], reference=black)
    torch.testing.assert_close(hidden, torch.tensor([[two, two, two, none]]))
    kept = faithfulness(model, images, knows, [0, 1, 2, 4], 0, black, keep=True)
    torch.testing.assert_close(kept, torch.tensor([[none, one, two, two]]))
    only_others = knows.masked_fill(knows > 1, -torch.inf)
    hidden = faithfulness(model, images, only_others, [1], 0, black)
    torch.testing.assert_close(hidden, torch.tensor([[one]]))
    found = leave_one_out(model, images, 0, black)
    torch.testing.assert_close(found, torch.tensor([[two - one, two - one, 0, 0]]))


def test_what_does_not_fit_is_told() -> None:
    model = model_of_16_patches()
    with pytest.raises(ValueError, match=r"maps must be.*\(3, 16\), got \(3, 4, 4\)"):
        faithfulness(model, PICTURES, torch.zeros(3, 4, 4), [1])
    with pytest.raises(ValueError, match="count must be a number from 0 to 16, got 17"):
        faithfulness(model, PICTURES, torch.zeros(3, 16), [17])


def test_the_interval_covers_the_mean_in_95_of_100_samples() -> None:
    values = torch.randn(50, 2000, generator=torch.Generator().manual_seed(0))
    mean, half = interval(values)
    assert mean.shape == half.shape == (2000,)
    assert 0.92 < (mean.abs() < half).float().mean() < 0.97
