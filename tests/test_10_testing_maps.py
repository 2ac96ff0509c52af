"""Notebook 10's checks, and whether what it concludes from its maps is what was measured."""

import json
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, accept, judged
from torch import Tensor, nn

from mnist_vit import load_model
from mnist_vit.course.nb10_testing_maps.exchange import my_exchange
from mnist_vit.course.nb10_testing_maps.hide import my_hide
from mnist_vit.course.nb10_testing_maps.leave_out import my_leave_out

MAPS = json.loads((NOTEBOOKS / "results" / "maps.json").read_text(encoding="utf-8"))


def hide_by_hand(model: nn.Module, images: Tensor, hidden: Tensor) -> Tensor:
    """No hook: the model's parts, picture by picture."""
    logits = []
    for image, gone in zip(images, hidden, strict=True):
        patches = model.conv_proj(image[None]).flatten(2).transpose(1, 2)
        z = torch.cat([model.class_token, patches], dim=1) + model.encoder.pos_embedding
        z = z[:, [0, *(1 + (~gone).nonzero()[:, 0]).tolist()]]
        logits.append(model.heads(model.encoder.ln(model.encoder.layers(z))[:, 0]))
    return torch.cat(logits)


def hide_in_all_blocks(model: nn.Module, images: Tensor, hidden: Tensor) -> Tensor:
    """The tokens stay, and nobody may look at them: the same answer, by a mask of the weights."""
    handles, stays = [], torch.cat([torch.ones(len(hidden), 1).bool(), ~hidden], dim=1)
    for block in model.encoder.layers:
        layer = block.self_attention

        def attend(module: nn.Module, args: tuple, kwargs: dict, output: Any) -> tuple:
            parts = F.linear(args[0], module.in_proj_weight, module.in_proj_bias).chunk(3, dim=-1)
            q, k, v = (part.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for part in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=stays[:, None, None, :])
            return module.out_proj(mixed.transpose(1, 2).flatten(2)), None

        handles.append(layer.register_forward_hook(attend, with_kwargs=True))
    try:
        return model(images)
    finally:
        for handle in handles:
            handle.remove()


def leave_out_one_picture_at_a_time(logits_without: Any, labels: Tensor, patches: int) -> Tensor:
    whole = logits_without(torch.zeros(len(labels), patches, dtype=torch.bool)).softmax(1)
    columns = [
        logits_without(one.expand(len(labels), -1)).softmax(1) for one in torch.eye(patches).bool()
    ]
    return torch.stack(
        [
            torch.stack([whole[i, label] - c[i, label] for c in columns])
            for i, label in enumerate(labels)
        ]
    )


def exchange_in_place(
    layer: nn.Module, x: Tensor, output: Tensor, rows: Tensor, givers: Tensor
) -> Tensor:
    changed = output.clone()
    width = x.shape[-1]
    v = x[givers] @ layer.in_proj_weight[2 * width :].T + layer.in_proj_bias[2 * width :]
    heads = [rows[:, h, None] @ part for h, part in enumerate(v.chunk(layer.num_heads, dim=-1))]
    changed[:, :1] = layer.out_proj(torch.cat(heads, dim=-1))
    return changed


RIGHT: list[tuple[str, Any]] = [
    ("hide", hide_by_hand),
    ("hide", hide_in_all_blocks),
    ("leave_out", leave_out_one_picture_at_a_time),
    ("exchange", exchange_in_place),
]
WRONG: list[tuple[str, Any, str]] = [
    ("hide", lambda model, images, hidden: my_hide(model, images, hidden.flip(0)), ""),
    ("hide", lambda model, images, hidden: my_hide(model, images, hidden).log_softmax(dim=1), ""),
    ("hide", 42, "give the function itself"),
    ("leave_out", lambda f, labels, patches: my_leave_out(f, labels, patches).softmax(dim=1), ""),
    ("leave_out", lambda f, labels, patches: my_leave_out(f, labels.roll(1), patches), ""),
    (
        "exchange",
        lambda layer, x, output, rows, givers: my_exchange(layer, x, output, rows, givers.flip(0)),
        "",
    ),
    (
        "exchange",
        lambda layer, x, output, rows, givers: my_exchange(layer, x, output, rows.flip(1), givers),
        "",
    ),
]
test_answers = judged(RIGHT, WRONG)


def test_a_batch_of_one_and_a_model_in_double_precision_are_hidden_too() -> None:
    model = load_model("vit_mnist_p7").double()
    images, hidden = torch.randn(1, 1, 28, 28, dtype=torch.float64), torch.arange(16)[None] % 3 == 0
    with torch.no_grad():
        assert torch.allclose(my_hide(model, images, hidden), hide_by_hand(model, images, hidden))
    accept("hide", my_hide)


@pytest.mark.parametrize("name", MAPS)
def test_what_is_said_of_all_models_holds_in_each(name: str) -> None:
    """Other weights may say something else: then notebook 10 must, too."""
    assert MAPS[name]["tensors"] == load_model(name).about["tensors"], (
        "python -m experiments maps all --store"
    )
    left, percent = MAPS[name]["probability left"], MAPS[name]["percent"]["layer 1"]
    assert left["last layer"] < left["random ink"] - 0.05
    assert percent["shuffled rows"][0] < percent["its own"][0] / 2
    itself, other = percent["another digit's values"]
    assert other > itself


def test_what_is_said_of_the_model_of_the_notebook_holds_and_not_in_every_model() -> None:
    rows = [one["percent"]["layer 1"]["one mean row for all"][0] for one in MAPS.values()]
    assert max(rows) - min(rows) > 20, "the three models do not agree"
    left = [one["probability left"] for one in MAPS.values()]  # patches of 7, 4, 2
    assert all(one["last layer"] < one["gradient x input"] for one in left)
    ahead = [one["leaving single patches out"] < one["last layer"] for one in left]
    assert ahead == [True, False, False]
    assert abs(left[1]["first layer"] - left[1]["random ink"]) < 0.05, "no more harm"
    assert 0.02 < left[0]["random ink"] - left[0]["first layer"] < 0.1, "a little more"
    rivals = [left[2][rule] for rule in ("gradient x input", "leaving single patches out")]
    assert all(abs(left[2]["first layer"] - rival) < 0.02 for rival in rivals)
    left, percent = (
        MAPS["vit_mnist_p4"]["probability left"],
        MAPS["vit_mnist_p4"]["percent"]["layer 1"],
    )
    assert left["leaving single patches out, blank ones too"] < left["leaving single patches out"]
    (itself, _), (other, named) = percent["its own"], percent["another digit's values"]
    assert percent["one mean row for all"][0] / itself > 0.85, "enough for nearly nine of ten"
    assert percent["even rows"][0] < 20, "one digit in six"
    assert named > other


def test_every_shipped_model_of_digits_was_measured() -> None:
    assert list(MAPS) == ["vit_mnist_p7", "vit_mnist_p4", "vit_mnist"]
    for name, about in MAPS.items():
        assert about["command"] == f"python -m experiments maps {name}"
