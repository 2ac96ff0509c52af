"""Notebook 11's checks, the conversion against the libraries themselves, and what the text says of
stored numbers."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import judged
from torch import Tensor, nn

from mnist_vit import load_model, vit_mnist
from mnist_vit.attention import attention_weights
from mnist_vit.check import EXERCISES
from mnist_vit.course.ladder import stored
from mnist_vit.course.nb11_pretrained_vit.others import (
    OUTSIDE,
    as_in_transformers,
    other_digits,
    their_file,
)
from mnist_vit.model import VisionTransformer

SIZES = {
    "image_size": 56,
    "patch_size": 14,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 48,
    "mlp_dim": 192,
}


def converted(state: dict[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """As the notebook does it."""
    found = {ours: state[theirs] for theirs, ours in OUTSIDE.items()}
    for i in range(num_layers):
        start = f"encoder.layer.{i}."
        block = {
            name.removeprefix(start): tensor
            for name, tensor in state.items()
            if name.startswith(start)
        }
        made = EXERCISES["convert_block"].answer(block)
        found |= {
            f"encoder.layers.encoder_layer_{i}.{name}": tensor for name, tensor in made.items()
        }
    return found


def ours(state: dict[str, Tensor]) -> VisionTransformer:
    model = VisionTransformer(**SIZES)
    model.heads = nn.Identity()
    model.load_state_dict(converted(as_in_transformers(state), 2), strict=True)
    return model.eval()


def randomised(model: nn.Module) -> nn.Module:
    """Every parameter random, layer scales too, which all start alike."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2, generator=generator)
    return model.eval()


def test_their_file_comes_back_as_it_was() -> None:
    model = vit_mnist(7)
    nn.init.normal_(model.class_token)
    state, back = model.state_dict(), converted(their_file(model), 2)
    assert set(state) - set(back) == {name for name in state if name.startswith("heads.")}
    for name, tensor in back.items():
        torch.testing.assert_close(tensor, state[name], rtol=1e-5, atol=1e-7)


@torch.no_grad()
def test_timms_dinov2_is_converted() -> None:
    timm = pytest.importorskip("timm", reason="timm is not installed")
    theirs = timm.create_model(
        "vit_small_patch14_dinov2", img_size=56, depth=2, embed_dim=48, num_heads=3
    )
    model, images = ours(randomised(theirs).state_dict()), torch.randn(2, 3, 56, 56)
    torch.testing.assert_close(
        model(images), theirs.forward_features(images)[:, 0], rtol=1e-4, atol=1e-5
    )


@torch.no_grad()
def test_transformers_dinov2_is_converted_with_its_attention() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.Dinov2Config(
        image_size=56,
        patch_size=14,
        hidden_size=48,
        num_attention_heads=3,
        num_hidden_layers=2,
        attn_implementation="eager",
    )
    theirs, images = randomised(transformers.Dinov2Model(config)), torch.randn(2, 3, 56, 56)
    model, answer = ours(theirs.state_dict()), theirs(images, output_attentions=True)
    torch.testing.assert_close(model(images), answer.pooler_output, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        attention_weights(model, images), torch.stack(answer.attentions, dim=1)
    )


def test_what_the_text_says_of_the_stored_draws() -> None:
    runs = {name: about["accuracy"] for name, about in stored(results="transfer").items()}
    assert all(len(draws) == 5 for draws in runs.values())
    assert all(a < b for a, b in zip(runs["tuned_50"], runs["probe_50"], strict=True))
    for name in ("two_rates_50", "probe_first_50"):
        ahead = [a > b for a, b in zip(runs[name], runs["probe_50"], strict=True)]
        assert ahead == [False, True, True, True, True], "ahead in all draws but draw 0"
    gain = {name: (sum(runs[name]) - sum(runs["probe_50"])) / 5 for name in runs}
    assert 0.3 < gain["two_rates_50"] < 0.7
    assert 0.5 < gain["probe_first_50"] < 1.1
    means = {name: sum(draws) / 5 for name, draws in runs.items()}
    assert all(a < b for a, b in zip(runs["tuned_longer_50"], runs["tuned_50"], strict=True))
    assert means["tuned_50"] + 3 < means["slow_body_50"] < means["fast_head_50"] - 1
    for name in ("fast_head_50", "slow_body_50"):
        assert all(a > b for a, b in zip(runs[name], runs["tuned_50"], strict=True))
    for rate in ("0.0001", "0.001", "0.003"):
        one_rate = runs[f"tuned_at_{rate}_50"]
        assert 90.4 < sum(one_rate) / 5 < 91.75
        assert all(a < b for a, b in zip(one_rate, runs["probe_50"], strict=True))
    behind = means["probe_50"] - means["own_head"]
    assert 2 < behind < 3
    faster = [a - b for a, b in zip(runs["two_rates_50"], runs["fast_head_50"], strict=True)]
    signs = [sum(one > 0 for one in faster), faster.count(0), sum(one < 0 for one in faster)]
    assert signs == [3, 1, 1], "ahead in three draws, equal in one, behind in one"
    assert max(runs["scratch_50"] + runs["random_probe_50"]) + 10 < min(runs["pixels_50"])
    for low, high in (("pixels_50", "scratch_longer_50"), ("scratch_longer_50", "probe_50")):
        assert all(a < b for a, b in zip(runs[low], runs[high], strict=True))
    gains = [sum(runs[f"token_{n}"]) - sum(runs[f"pixels_{n}"]) for n in (50, 100, 1000)]
    assert gains == sorted(gains, reverse=True)
    images, labels = other_digits()
    with torch.no_grad():
        right = (load_model("vit_mnist_p4").eval()(images).argmax(dim=1) == labels).float().mean()
    low, high = min(runs["own_head"]), max(runs["own_head"])
    assert low - 2 < 100 * right < high + 2, (
        "python -m experiments transfer … --store: other weights"
    )


def through_rows(weight: Tensor, bias: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return torch.einsum("o,oi->oi", scale, weight), torch.einsum("o,o->o", scale, bias)


def convert_by_rules(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    made: dict[str, Tensor] = {}
    for kind in ("bias", "weight"):
        made[f"self_attention.in_proj_{kind}"] = (
            torch.vstack(
                [theirs[f"attention.{letter}_proj.{kind}"].reshape(6, -1) for letter in "qkv"]
            )
            .reshape(18, -1)
            .squeeze(1)
        )
        for i in (1, 2):
            made[f"ln_{i}.{kind}"] = theirs[f"norm{i}.{kind}"].clone()
        made[f"mlp.0.{kind}"] = theirs[f"mlp.fc1.{kind}"]
    for i, (old, new) in enumerate(
        (("attention.o_proj", "self_attention.out_proj"), ("mlp.fc2", "mlp.3"))
    ):
        scale = theirs[f"layer_scale{i + 1}.lambda1"]
        made[f"{new}.weight"] = scale.diag() @ theirs[f"{old}.weight"]
        made[f"{new}.bias"] = scale * theirs[f"{old}.bias"]
    return made


def in_place(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    theirs["attention.o_proj.bias"].mul_(theirs["layer_scale1.lambda1"])
    theirs["attention.o_proj.weight"].mul_(theirs["layer_scale1.lambda1"][:, None])
    return EXERCISES["convert_block"].answer(theirs | {"layer_scale1.lambda1": torch.ones(6)})


def nothing_learned(
    model: Any, images: Tensor, labels: Tensor, freeze: bool, steps: int, rate: float
) -> Any:
    return EXERCISES["transfer"].answer(model, images, labels, freeze, 0, rate)


def trained(made: Any, groups: list[dict], images: Tensor, labels: Tensor, steps: int) -> Any:
    optimizer = torch.optim.AdamW(groups)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(made(images), labels).backward()
        optimizer.step()
    return made


def rates_by_another_name(model, images, labels, steps, head_rate, body_rate):
    made = copy.deepcopy(model).train()
    body = [p for name, p in made.named_parameters() if not name.startswith("heads.")]
    groups = [
        {"params": made.heads.parameters(), "learning_rate": head_rate},
        {"params": body, "learning_rate": body_rate},
    ]
    return trained(made, groups, images, labels, steps)


def of_the_given(model, images, labels, steps, head_rate, body_rate):
    made = copy.deepcopy(model)
    groups = [{"params": copy.deepcopy(made).parameters(), "lr": head_rate}]
    optimizer = torch.optim.AdamW(groups)
    for _ in range(steps):
        F.cross_entropy(made(images), labels).backward()
        optimizer.step()
    return made


def transfer_of_a_shallow_copy(model: Any, *given: Any) -> Any:
    """It goes on with the parts of the given model."""
    made = copy.copy(model)
    images, labels, freeze, steps, rate = given
    made.requires_grad_(not freeze)
    made.heads = nn.Linear(made.class_token.shape[-1], 10)
    nn.init.zeros_(made.heads.weight)
    nn.init.zeros_(made.heads.bias)
    optimizer = torch.optim.AdamW(made.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(made(images), labels).backward()
        optimizer.step()
    return made.eval()


def transfer_with_a_note(model: Any, *given: Any) -> Any:
    model.was_used = True
    return EXERCISES["transfer"].answer(model, *given)


def rates_by_membership(model, images, labels, steps, head_rate, body_rate):
    head = list(model.heads.parameters())
    return [p for p in model.parameters() if p not in head]


def rates_with_names(model, images, labels, steps, head_rate, body_rate):
    body = [pair for pair in model.named_parameters() if not pair[0].startswith("heads.")]
    return torch.optim.AdamW(
        [
            {"params": list(model.heads.parameters()), "lr": head_rate},
            {"params": body, "lr": body_rate},
        ]
    )


def rates_that_clear_the_head(model, images, labels, steps, head_rate, body_rate):
    made = copy.deepcopy(model).requires_grad_(True)
    body = [p for name, p in made.named_parameters() if not name.startswith("heads.")]
    rates = ((made.heads.parameters(), head_rate), (body, body_rate))
    optimizers = [torch.optim.AdamW(group, lr=rate) for group, rate in rates]
    for _ in range(steps):
        optimizers[0].zero_grad()
        F.cross_entropy(made(images), labels).backward()
        for optimizer in optimizers:
            optimizer.step()
    return made


def moved_right_and_down_only(position: Tensor, rows: int, columns: int, down: int, right: int):
    """A shift up or to the left takes nothing along."""
    return EXERCISES["move_positions"].answer(position, rows, columns, max(down, 0), max(right, 0))


def moved_up(position: Tensor, rows: int, columns: int, down: int, right: int) -> Tensor:
    return EXERCISES["move_positions"].answer(position, rows, columns, -down, right)


def moved_by_slices(position: Tensor, rows: int, columns: int, down: int, right: int) -> Tensor:
    """A shift by more patches than there are moves nothing."""
    grid = position[:, 1:].unflatten(1, (rows, columns))
    grid = torch.cat([grid[:, -down:], grid[:, :-down]], dim=1)
    grid = torch.cat([grid[:, :, -right:], grid[:, :, :-right]], dim=2)
    return torch.cat([position[:, :1], grid.flatten(1, 2)], dim=1)


def transfer_with(
    model: Any, images: Tensor, labels: Tensor, freeze: bool, steps: int, rate: float, kind: str
) -> Any:
    """With one thing that is not asked for: a norm in the head, a rate that falls, …"""
    made = copy.deepcopy(model).requires_grad_(not freeze)
    head = nn.Linear(made.class_token.shape[-1], 10)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    made.heads = nn.Sequential(nn.LayerNorm(head.in_features), head) if kind == "norm" else head
    learned = [p for p in made.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=rate, weight_decay=0.1 if kind == "decay" else 0.01)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate / (1 + step) if kind == "falls" else rate
        half = slice(step % 2, None, 2) if kind == "halves" else slice(None)
        wanted = labels.roll(1) if kind == "later" and step else labels
        smoothing = 0.1 if kind == "smooth" else 0.0
        loss = F.cross_entropy(made(images[half]), wanted[half], label_smoothing=smoothing)
        if kind == "early":
            optimizer.step()
        optimizer.zero_grad()
        loss.backward()
        if kind == "added":
            for parameter in learned:
                parameter.grad += 0.1
        if kind != "early":
            optimizer.step()
    return made.eval()


COPY = "model = copy.deepcopy(model)"
CLEAR = "        optimizer.zero_grad()\n"


def edited(name: str, *edits: tuple[str, str]) -> tuple[str, Any]:
    """The solution of an exercise with one mistake or more."""
    return name, EXERCISES[name].edited(dict(edits))


def scaled_over_lines(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    part = "mlp.fc1"
    return {
        part: torch.mul(
            theirs[part + ".weight"],
            theirs["layer_scale2.lambda1"][:, None],
        )
    }


def transposed(theirs: dict[str, Tensor], which: str) -> dict[str, Tensor]:
    """Each of the three parts of a tensor by itself."""
    made = EXERCISES["convert_block"].answer(theirs)
    for name in made:
        if name.endswith(which):
            made[name] = torch.cat([part.T for part in made[name].chunk(3)])
    return made


def keys_set_to_zero(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    made = EXERCISES["convert_block"].answer(theirs)
    made["self_attention.in_proj_weight"].chunk(3)[1].zero_()
    return made


def rates_by_the_head_s_name(model, images, labels, steps, head_rate, body_rate):
    """A probe's head has the names heads.weight and heads.bias."""
    made = copy.deepcopy(model).requires_grad_(True)
    head, body = [], []
    for name, parameter in made.named_parameters():
        (head if name.startswith("heads.head") else body).append(parameter)
    groups = [{"params": head, "lr": head_rate}, {"params": body, "lr": body_rate}]
    return trained(made, groups, images, labels, steps)


def rates_of_the_last_layer(model, images, labels, steps, head_rate, body_rate):
    """As if every head had a part `head`; that of a probe has none."""
    return model.heads.head and EXERCISES["two_rates"].answer(
        model, images, labels, steps, head_rate, body_rate
    )


def width_of_pre_logits(model: nn.Module, *given: Any) -> nn.Module:
    assert model.heads.pre_logits.in_features
    return EXERCISES["transfer"].answer(model, *given)


RIGHT: list[tuple[str, Any]] = [("fold_scale", through_rows), ("convert_block", convert_by_rules)]


def with_mixed_numbers(position: Tensor, rows: int, columns: int) -> Tensor:
    grid = position[:, :-1].reshape(1, columns, rows, -1).transpose(2, 3)
    return torch.cat([position[:, -1:], grid.reshape(position[:, :-1].shape)], dim=1)


WRONG: list[tuple[str, Any, str]] = [
    ("token_order", with_mixed_numbers, "holds numbers of several positions. A position is a row"),
    (
        *edited("two_rates", (COPY, "pass"), ("AdamW", "Adam")),
        "of model, and should leave model as it is. Whoever called it may still need it",
    ),
    (
        *edited(
            "two_rates",
            ("return model.eval()", "return given"),
            (COPY, f"given = model\n    {COPY}"),
        ),
        "make a copy, work on the copy, and return the copy",
    ),
    (*edited("transfer", ("steps)", "steps + 1)"), ("AdamW", "Adam")), "optimizer.step() once"),
    (*edited("transfer", ("steps)", "steps + 1)"), (CLEAR, "")), "optimizer.step() once"),
    (*edited("two_rates", ("steps)", "steps + 1)"), ("AdamW", "Adam")), "optimizer.step() once"),
    (
        *edited("transfer", (CLEAR, f"        if loss < 0.5:\n            break\n{CLEAR}")),
        "With steps=12 your code calls optimizer.step() 5 times",
    ),
    (
        *edited("two_rates", (CLEAR, f"        if loss < 0.5:\n            break\n{CLEAR}")),
        "With steps=20 your code calls optimizer.step() 2 times",
    ),
    (
        *edited(
            "transfer",
            (
                "        optimizer.step()",
                "        nn.utils.clip_grad_norm_(learned, 1.0)\n        optimizer.step()",
            ),
        ),
        "In step 2 the gradient of class_token that the optimizer gets is 0.452 times that",
    ),
    (*edited("transfer", ("(images)", "(images / 0)")), "other numbers than those of images"),
    (*edited("two_rates", ("(images)", "(images / 0)")), "other numbers than those of images"),
    (*edited("transfer", ("=learning_rate", "=learning_rate, amsgrad=True")), "has amsgrad=True"),
    (*edited("two_rates", ("(groups)", "(groups, amsgrad=True)")), "has amsgrad=True"),
    (
        *edited("two_rates", (", labels)\n", ", labels, reduction='sum')\n")),
        "the gradient of class_token that the optimizer gets is 20 times",
    ),
    (
        *edited("transfer", (", labels)\n", ", labels, reduction='sum')\n"), ("AdamW", "Adam")),
        "Your optimizer is Adam. torch.optim.AdamW is asked for",
    ),
    ("transfer", lambda *given: transfer_with(*given, "norm"), "other parameters besides a linear"),
    (
        "transfer",
        lambda *given: transfer_with(*given, "falls"),
        "The learning rate does not stay: 0.02 in a step, and 0.01 in a later one",
    ),
    (
        "transfer",
        lambda *given: transfer_with(*given, "later"),
        "In step 2 the gradient of class_token that the optimizer gets is not that of the cross",
    ),
    ("transfer", lambda *given: transfer_with(*given, "decay"), "Your AdamW has weight_decay=0.1"),
    ("transfer", lambda *given: transfer_with(*given, "halves"), "the model gets 10, 10 images"),
    ("transfer", lambda *given: transfer_with(*given, "smooth"), "0.9 times that of the cross-ent"),
    ("transfer", lambda *given: transfer_with(*given, "added"), "is not that of the cross-entropy"),
    (
        "convert_block",
        lambda theirs: transposed(theirs, "in_proj_weight"),
        "each transposed: attention.q_proj.weight, attention.k_proj.weight",
    ),
    ("convert_block", scaled_over_lines, "There part is 'mlp.fc1'."),
    ("convert_block", keys_set_to_zero, "right where q_proj.weight and v_proj.weight stand"),
    (
        "fold_scale",
        lambda weight, bias, scale: (scale[:, None] * weight, torch.outer(scale, bias)),
        "your new bias has the shape (2, 2). It holds each scale times each number of the bias",
    ),
    ("transfer", lambda *given: transfer_with(*given, "early"), "the new head does not move"),
    (
        "fold_scale",
        lambda weight, bias, scale: (torch.einsum("oi,i->oi", weight, scale), bias * scale),
        "your new weight has the rows 10, 200; 40, 500. They should be",
    ),
    ("transfer", transfer_with_a_note, "attribute, was_used. It should be nothing. The given"),
    ("two_rates", rates_by_membership, "told apart by their names, or by `is`"),
    ("two_rates", rates_with_names, "pairs of a name and a parameter"),
    ("move_positions", moved_by_slices, "once round the 3 rows and 1 further"),
    ("move_positions", moved_up, "9, 10, 11, 12 become 0, 8, 5, 6, 7, 12, 9, 10, 11, 4, 1, 2, 3"),
    ("move_positions", moved_right_and_down_only, "which is 1 to the left, the class token's 0"),
    ("fold_scale", lambda weight, bias, scale: (weight + scale[:, None], bias), "should be 10, 20"),
    ("convert_block", in_place, "tensors of the file that changed"),
    (
        "convert_block",
        lambda theirs: dict(theirs),
        "the names must be those of your block: ln_1.bias",
    ),
    ("convert_block", lambda theirs: list(theirs), "must be a dict"),
    ("convert_block", lambda theirs: {}, "The dict that comes back is empty."),
    ("convert_block", lambda theirs: theirs, "What comes back is the dict that was given."),
    ("convert_block", lambda theirs: without_a_bias(theirs), "About mlp.0.bias: It should be a"),
    ("convert_block", lambda theirs: put_into_theirs(theirs), "puts mlp.0.bias into the dict that"),
    (
        "transfer",
        lambda *given: two_new_layers(*given),
        "head has 2 linear layers: heads.0, heads.2",
    ),
    ("transfer", lambda *given: twice_the_rate(*given), "the head move by 0.04 at most."),
    ("transfer", lambda model, *rest: 1, "must return the new model"),
    ("convert_block", lambda theirs: biases_kqv(theirs), "attention.k_proj.bias, attention.q_proj"),
    ("convert_block", lambda theirs: interleaved(theirs), "a row of each in turn: attention.q"),
    ("two_rates", lambda *given: body_without_a_rate(*given), "which a group without a rate has"),
    ("convert_block", lambda theirs: popped(theirs), "takes layer_scale1.lambda1 out of the dict"),
    ("transfer", lambda *given: half_frozen_before(*given), "no longer ask for gradients"),
    ("transfer", lambda *given: half_of_the_images(*given), "makes no difference for number 10"),
    ("two_rates", lambda *given: one_step(*given), "the same after 1 step and after 3"),
    ("two_rates", of_the_given, "no parameter of the new model moves"),
    ("two_rates", rates_by_another_name, 'its rate under the name "lr"'),
    ("two_rates", lambda *given: fixed_share(*given), "move by 0.005 at most"),
]


def biases_kqv(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    made = EXERCISES["convert_block"].answer(theirs)
    parts = [theirs[f"attention.{letter}_proj.bias"] for letter in "kqv"]
    return made | {"self_attention.in_proj_bias": torch.cat(parts)}


def interleaved(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """All right, but for the rows of q, k and v, which stand in turn."""
    made = convert_by_rules(theirs)
    for kind in ("weight", "bias"):
        name = f"self_attention.in_proj_{kind}"
        made[name] = torch.stack(made[name].chunk(3), dim=1).flatten(0, 1)
    return made


def body_without_a_rate(model, images, labels, steps, head_rate, body_rate):
    """The body at AdamW's own rate."""
    return EXERCISES["two_rates"].answer(model, images, labels, steps, head_rate, 0.001)


def without_a_bias(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    made = EXERCISES["convert_block"].answer(theirs)
    del made["mlp.0.bias"]
    return made


def put_into_theirs(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    made = EXERCISES["convert_block"].answer(theirs)
    theirs["mlp.0.bias"] = made.pop("mlp.0.bias")
    return made


def twice_the_rate(model: Any, *given: Any) -> nn.Module:
    *rest, rate = given
    return EXERCISES["transfer"].answer(model, *rest, 2 * rate)


def two_new_layers(
    model: nn.Module, x: Tensor, y: Tensor, freeze: bool, steps: int, rate: float
) -> nn.Module:
    """A hidden layer of its own before the new last one."""
    made = copy.deepcopy(model).requires_grad_(not freeze)
    last = nn.Linear(7, 10)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    made.heads = nn.Sequential(nn.Linear(made.class_token.shape[-1], 7), nn.Tanh(), last)
    optimizer = torch.optim.AdamW(made.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(made(x), y).backward()
        optimizer.step()
    return made


def popped(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    made = EXERCISES["convert_block"].answer(theirs)
    theirs.pop("layer_scale1.lambda1")
    return made


def half_frozen_before(model: Any, *rest: Any) -> nn.Module:
    model.encoder.requires_grad_(not rest[2])
    return EXERCISES["transfer"].answer(model, *rest)


def half_of_the_images(model: Any, images: Tensor, labels: Tensor, *rest: Any) -> nn.Module:
    return EXERCISES["transfer"].answer(model, images[:10], labels[:10], *rest)


def one_step(
    model: Any, images: Tensor, labels: Tensor, steps: int, head: float, body: float
) -> nn.Module:
    return EXERCISES["two_rates"].answer(model, images, labels, min(steps, 1), head, body)


def fixed_share(
    model: Any, images: Tensor, labels: Tensor, steps: int, head: float, body: float
) -> nn.Module:
    return EXERCISES["two_rates"].answer(model, images, labels, steps, head, head / 10)


def frozen_if_asked_before(model: nn.Module, *rest: Any) -> nn.Module:
    return EXERCISES["transfer"].answer(model.requires_grad_(not rest[2]), *rest)


def thawed_before(model: nn.Module, *rest: Any) -> nn.Module:
    return EXERCISES["two_rates"].answer(model.requires_grad_(True), *rest)


def frozen_before(model: nn.Module, *rest: Any) -> nn.Module:
    return EXERCISES["transfer"].answer(model.requires_grad_(False), *rest)


def head_too_late(
    model: nn.Module, x: Tensor, y: Tensor, freeze: bool, steps: int, rate: float
) -> nn.Module:
    """The optimizer does not know of the new head."""
    made = copy.deepcopy(model).requires_grad_(not freeze)
    optimizer = torch.optim.AdamW(made.parameters(), lr=rate)
    made.heads = nn.Linear(made.class_token.shape[-1], 10)
    for parameter in made.heads.parameters():
        nn.init.zeros_(parameter)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(made(x), y).backward()
        optimizer.step()
    return made


NAMED: list[tuple[str, Any, str]] = [
    (
        *edited("two_rates", (COPY, "pass"), ("return model", "return copy.deepcopy(model)")),
        "and return a copy of it. It is needed again for the next experiment: copy it before",
    ),
    (*edited("transfer", ("model.heads = ", "model.heads.head = ")), "and leave pre_logits before"),
    ("transfer", transfer_of_a_shallow_copy, "copy the model with copy.copy"),
    ("transfer", width_of_pre_logits, "ask the old head's hidden layer, pre_logits"),
    ("two_rates", rates_by_the_head_s_name, 'names begin with "heads.head" for the head'),
    ("two_rates", rates_of_the_last_layer, "look for a layer model.heads.head"),
    ("two_rates", rates_that_clear_the_head, "set only the gradients of the head to zero"),
    (
        "fold_scale",
        lambda weight, bias, scale: (weight @ scale.diag(), bias * scale),
        "multiply the columns of the weight",
    ),
    ("transfer", frozen_if_asked_before, "that you are given (with freeze=True)"),
    ("two_rates", thawed_before, "let the very model that you are given learn again"),
    ("transfer", frozen_before, "freeze the very model that you are given"),
    ("transfer", nothing_learned, "return a model whose new head is still zero"),
    ("transfer", head_too_late, "return a model whose new head is still zero"),
]
test_answers = judged(RIGHT, WRONG, NAMED)
