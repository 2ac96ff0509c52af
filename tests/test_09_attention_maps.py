"""Notebook 09's checks: right answers in other styles pass, mistakes that no slip knows fail
without a name."""

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from helpers import NOTEBOOKS, code_cells, judged, square_maps
from torch import Tensor, nn

from experiments import twice as twice_softmax
from mnist_vit import attention_weights
from mnist_vit.attention import mean_attention_distance, record_attention, rollout
from mnist_vit.course.ladder.rows import RESULTS, interval, stored
from mnist_vit.course.nb09_attention_maps.own_maps import left_without
from mnist_vit.course.own_weights import _loaded
from mnist_vit.model import VisionTransformer


def asked(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    return args, {**kwargs, "need_weights": True, "average_attn_weights": False}


def attention_layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if hasattr(module, "in_proj_weight")]


class RecordAsClass:
    """__enter__ and __exit__ in place of a generator."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = attention_layers(model)

    def __enter__(self) -> list[Tensor]:
        self.weights, self.handles = [], []
        for layer in self.layers:
            self.handles += [
                layer.register_forward_pre_hook(asked, with_kwargs=True),
                layer.register_forward_hook(
                    lambda module, args, output: self.weights.append(output[1].detach().clone())
                ),
            ]
        return self.weights

    def __exit__(self, *error: object) -> None:
        while self.handles:
            self.handles.pop().remove()


def rollout_at_the_end(weights: Tensor) -> Tensor:
    """The rows are made to sum to 1 once, at the end: the same, since each layer doubles all of
    them."""
    total = None
    for layer in range(weights.shape[1]):
        mixed = sum(weights[:, layer, head] for head in range(weights.shape[2])) / weights.shape[2]
        mixed = mixed + torch.diag_embed(torch.ones(mixed.shape[:2]))
        total = mixed if total is None else torch.einsum("nij,njk->nik", mixed, total)
    return F.normalize(total, p=1, dim=-1)


@contextmanager
def record_with_other_weights(model: nn.Module) -> Iterator[list[Tensor]]:
    """A hook that changes what the layers return."""
    with record_attention(model) as kept, ExitStack() as stack:
        for layer in attention_layers(model):
            handle = layer.register_forward_hook(
                lambda module, args, output: (2 * output[0], output[1])
            )
            stack.callback(handle.remove)
        yield kept


@contextmanager
def record_a_tuple(model: nn.Module) -> Iterator[tuple]:
    yield ()


def record_without_yield(model: nn.Module) -> Iterator[list[Tensor]]:
    yield []


@contextmanager
def record_another_list(model: nn.Module) -> Iterator[list[Tensor]]:
    """What is filled is not what is yielded."""
    with record_attention(model):
        yield []


@contextmanager
def record_nothing(model: nn.Module) -> Iterator[list[Tensor]]:
    yield []


@contextmanager
def record_and_remove_the_last(model: nn.Module) -> Iterator[list[Tensor]]:
    """Two handles are kept, whatever the number of layers."""
    kept: list[Tensor] = []
    for layer in attention_layers(model):
        before = layer.register_forward_pre_hook(asked, with_kwargs=True)
        after = layer.register_forward_hook(lambda module, args, out: kept.append(out[1]))
    try:
        yield kept
    finally:
        before.remove()
        after.remove()


@contextmanager
def record_with_forwards_that_stay(model: nn.Module) -> Iterator[list[Tensor]]:
    """Each layer has another forward from then on."""
    kept: list[Tensor] = []

    def recording(forward: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> tuple:
            output = forward(*args, **asked(forward, (), kwargs)[1])
            kept.append(output[1])
            return output

        return run

    for layer in attention_layers(model):
        layer.forward = recording(layer.forward)
    yield kept


@contextmanager
def record_the_last_pass(model: nn.Module) -> Iterator[list[Tensor]]:
    """The package's, in which a second forward pass begins anew."""
    with record_attention(model) as kept:
        handle = model.register_forward_pre_hook(lambda module, given: kept.clear())
        try:
            yield kept
        finally:
            handle.remove()


def columns_and_transposed(weights: Tensor) -> Tensor:
    identity = torch.eye(weights.shape[-1])
    total = identity
    for layer in weights.mean(dim=2).unbind(dim=1):
        mixed = layer + identity
        total = total @ (mixed / mixed.sum(dim=-2, keepdim=True))
    return total.transpose(-2, -1)


def undone_over_axis_1(twice: Tensor) -> Tensor:
    logs = twice.log()
    return logs + (1 - logs.sum(dim=1, keepdim=True)) / twice.shape[1]


def record_ours_only(model: nn.Module) -> Any:
    assert model.encoder.layers[0].self_attention
    return record_attention(model)


@contextmanager
def record_and_clear(model: nn.Module) -> Iterator[list[Tensor]]:
    """The list is emptied where the hooks are removed."""
    with record_attention(model) as kept:
        yield kept
    kept.clear()


def side(weights: Tensor) -> int:
    """How many patches lie side by side."""
    return math.isqrt(weights.shape[-1] - 1)


def square_distance(weights: Tensor, patch_size: int) -> Tensor:
    """The package's function, for a square grid."""
    return mean_attention_distance(weights, patch_size, (side(weights), side(weights)))


@contextmanager
def record_at_the_end(model: nn.Module) -> Iterator[list[Tensor]]:
    kept: list[Tensor] = []
    with record_attention(model) as found:
        yield kept
    kept += found


@contextmanager
def record_pairs(model: nn.Module) -> Iterator[list[Any]]:
    kept: list[Any] = []
    handles = []
    for layer in attention_layers(model):
        handles.append(layer.register_forward_pre_hook(asked, with_kwargs=True))
        handles.append(layer.register_forward_hook(lambda m, given, pair: kept.append(pair)))
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def record_the_model(model: nn.Module) -> Iterator[list[Tensor]]:
    kept: list[Tensor] = []
    handle = model.register_forward_hook(lambda m, given, output: kept.append(output[1]))
    try:
        yield kept
    finally:
        handle.remove()


def rollout_of_pictures(weights: Tensor) -> Tensor:
    """It goes over the pictures in place of the layers."""
    total = torch.eye(weights.shape[-1])
    for one in weights.mean(dim=2):
        total = 0.5 * (one + torch.eye(weights.shape[-1])) @ total
    return total


@contextmanager
def record_without_asking(model: nn.Module) -> Iterator[list[Tensor]]:
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: tuple, pair: tuple) -> None:
        kept.extend(one for one in pair[1:] if one is not None)

    handles = [layer.register_forward_hook(keep) for layer in attention_layers(model)]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def record_in_eval_mode(model: nn.Module) -> Iterator[list[Tensor]]:
    training = model.training
    model.eval()
    with record_attention(model) as kept:
        yield kept
    model.train(training)


KEPT: list[Tensor] = []


@contextmanager
def hooked(model: nn.Module, kept: list[Tensor], change: Any) -> Iterator[list[Tensor]]:
    with ExitStack() as stack:
        for layer in attention_layers(model):
            stack.callback(layer.register_forward_pre_hook(asked, with_kwargs=True).remove)
            keep = layer.register_forward_hook(
                lambda module, args, output: kept.append(change(output[1]))
            )
            stack.callback(keep.remove)
        yield kept


@contextmanager
def record_in_a_cleared_list(model: nn.Module) -> Iterator[list[Tensor]]:
    KEPT.clear()
    with hooked(model, KEPT, lambda weights: weights):
        yield KEPT


@contextmanager
def record_without_gradients(model: nn.Module) -> Iterator[list[Tensor]]:
    with hooked(model, [], lambda weights: weights) as kept, torch.no_grad():
        yield kept


@contextmanager
def record_squeezed(model: nn.Module) -> Iterator[list[Tensor]]:
    with hooked(model, [], torch.squeeze) as kept:
        yield kept


def softmax_undone_and_divided(twice: Tensor) -> Tensor:
    """By a sum that is 1 but for rounding."""
    logs = twice.log()
    rows = logs - logs.mean(dim=-1, keepdim=True) + 1 / twice.shape[-1]
    return rows / rows.sum(dim=-1, keepdim=True)


def distance_to_the_mean(weights: Tensor, patch_size: int) -> Tensor:
    inner = F.normalize(weights[..., 1:, 1:], p=1, dim=-1)
    side = torch.arange(math.isqrt(inner.shape[-1]))
    places = patch_size * torch.cartesian_prod(side, side).float()
    return (inner @ places - places).norm(dim=-1).mean(dim=(0, -1))


RIGHT: list[tuple[str, Any]] = [
    ("undo_softmax", softmax_undone_and_divided),
    ("name_the_maps", {"c": 1.0, "a": torch.tensor(5), "b": 2, "e": 4, "d": 8}),
    ("record", record_attention),
    ("record", RecordAsClass),
    (
        "query_map",
        lambda weights, row, column: square_maps(weights[:, :, 1:])[
            :, :, row * side(weights) + column
        ],
    ),
    ("name_the_maps", {"c": 1, "a": 5, "b": 2, "e": 4, "d": 8}),
    ("rollout", rollout),
    ("rollout", rollout_at_the_end),
    ("attention_distance", square_distance),
]


@contextmanager
def record_and_clear_pre_hooks(model: nn.Module) -> Iterator[list[Tensor]]:
    """Somebody else's pre-hooks go, too."""
    with record_attention(model) as kept:
        yield kept
    for module in model.modules():
        module._forward_pre_hooks.clear()


WRONG: list[tuple[str, Any, str]] = [
    ("record", record_in_a_cleared_list, "held 3 tensors when the block ended, and holds 6 after"),
    ("record", record_without_gradients, "the logits of the model ask for no gradient. Whoever"),
    ("record", record_squeezed, "The axis of the pictures is missing where there is one picture"),
    (
        "attention_distance",
        lambda weights, size: square_distance(weights, size).squeeze(),
        "of one picture, one layer and one head (). It should be (1, 1)",
    ),
    (
        "query_map",
        lambda weights, row, column: square_maps(weights[:, :, 1:])[
            :, :, row * math.isqrt(weights.shape[-1] - 1) + column
        ].log(),
        "Not all of these are weights",
    ),
    ("rollout", lambda weights: rollout(weights)[:, 1:, 1:], "and so leave out a token"),
    ("record", record_and_clear_pre_hooks, "Before the block each part had a hook of somebody"),
    ("record", record_with_other_weights, ""),
    ("record", record_a_tuple, "be the list that the weights are put into, but is of type tuple"),
    (
        "record",
        record_without_yield,
        "is no context manager. Put @contextmanager above a function that yields",
    ),
    (
        "record",
        record_another_list,
        "forward hooks. A forward hook gets the output: let it append to the very list",
    ),
    ("record", record_nothing, "in the block no hook is on the model. Hook every module"),
    (
        "record",
        record_and_remove_the_last,
        "should not be '4 hooks, 0 replaced forwards'. In the block a model with three attention"
        " layers, 0 to 2, has 3 forward pre-hooks and 3 forward hooks; after the block, 2 forward"
        " pre-hooks and 2 forward hooks, on attention layer 0 and 1.",
    ),
    ("undo_softmax", undone_over_axis_1, "a tensor of two axes, your rows are right"),
    ("record", 42, "the function itself is needed"),
    (
        "record",
        record_the_last_pass,
        "the list is as long as after one: what one of them gave is not",
    ),
    ("record", record_at_the_end, "the list is empty until the block ends"),
    ("record", record_in_eval_mode, "In the block the model, or a part of it, is in eval mode."),
    (
        "name_the_maps",
        {letter: [1] for letter in "abcde"},
        "has something of the type list, and no number",
    ),
    (
        "name_the_maps",
        {"a": 4, "b": 1, "c": 0, "d": 7, "e": 3},
        "has the sentence 0, and no sentence has this number",
    ),
    ("record", record_without_asking, "with need_weights=False, so that no weights come back"),
    ("record", record_pairs, "gives a pair, its output and the weights. Keep the second"),
    ("record", record_the_model, "those that have one are of the class VisionTransformer"),
    ("rollout", rollout_of_pictures, "you make the shape (3, 5, 5). It should be (2, 5, 5)"),
    ("rollout", columns_and_transposed, "your rows are 0.6667, 0.3333 and 0.2857, 0.7143"),
    ("query_map", lambda weights, row, column: square_maps(weights[:, :, 1 + row + column]), ""),
    (
        "name_the_maps",
        {"a": 5, "b": 2, "c": 1, "d": 7, "e": 4},
        "the sentence about function d should not be 'number 7'",
    ),
    (
        "name_the_maps",
        {"a": "It shows who looks at it.", "b": 2, "c": 1, "d": 8, "e": 4},
        "a text stands at a, and the number",
    ),
    ("name_the_maps", {"a": 5}, '"b" is missing'),
    (
        "name_the_maps",
        {"a": 4, "b": 1, "c": 0, "d": 7, "e": 3},
        '"c" has the sentence 0, and no sentence has this number. They count from 1 to 8.',
    ),
    ("name_the_maps", [5, 2, 1, 8, 4], "a dictionary is needed"),
    ("record", record_and_clear, "it was filled inside. The weights are looked at later"),
    ("rollout", lambda weights: rollout(weights[:, :, :1]), ""),
    ("rollout", lambda weights: rollout(weights.transpose(-1, -2)), ""),
    (
        "attention_distance",
        lambda weights, patch_size: square_distance(weights, patch_size).flip(0),
        "",
    ),
    (
        "attention_distance",
        lambda weights, patch_size: square_distance(weights[:1], patch_size),
        "",
    ),
]
NAMED = [
    ("attention_distance", distance_to_the_mean, "the distance to the mean of the places"),
    ("rollout", lambda weights: rollout(weights[:, :2]), "multiply the first two layers"),
    (
        "undo_softmax",
        lambda twice: twice.log() - twice.log().mean(-1, keepdim=True) + 1 / twice.shape[-2],
        "for the mean of a row",
    ),
    ("record", record_ours_only, "has no attribute 'encoder'"),
    ("record", record_with_forwards_that_stay, "leave your own forward on the layers"),
]
test_answers = judged(RIGHT, WRONG, NAMED)


def test_in_the_last_layer_it_matters_less_who_asks_as_the_notebook_says() -> None:
    """Of new weights the stored output must say so too, or the text and what describes the pictures
    must change."""
    text = ""
    for cell in code_cells(NOTEBOOKS / "09_attention_maps.ipynb"):
        for output in cell.outputs:
            if "share on other tokens" in output.get("text", ""):
                text += output.text
    first, last = [re.findall(r"0\.\d\d", line) for line in text.splitlines()]
    assert max(map(float, last)) < min(map(float, first))


def test_seeds_disagree_on_the_better_layer_as_the_notebook_says() -> None:
    text = (NOTEBOOKS / "results" / "own_weights.json").read_text(encoding="utf-8")
    left = json.loads(text)["five"]
    first, last, random = (left[name] for name in ("first layer", "last layer", "at random"))
    assert all(max(a, b) < c for a, b, c in zip(first, last, random, strict=True))
    ahead = [round(a - b) for a, b in zip(first, last, strict=True)]
    assert sorted(ahead) == [-1, -1, 1, 2, 16]


def test_a_second_softmax_in_training_hides_from_accuracy_but_not_from_the_weights() -> None:
    once, twice = (stored(name, "twice") for name in twice_softmax.NAMES)
    for name, about in zip(twice_softmax.NAMES, (once, twice), strict=True):
        assert about["command"] == f"python -m experiments twice {name}"
        assert len(about["accuracy"]) == len(about["from_even"]) == 5
        parameters = twice_softmax.row(name).build().parameters()
        assert about["parameters"] == sum(p.numel() for p in parameters)
    gain, half = interval(twice["accuracy"], once["accuracy"])
    assert abs(gain) < half
    assert max(twice["from_even"]) < 9
    assert min(once["from_even"]) > 75


def test_the_second_softmax_stands_in_the_layer_itself() -> None:
    """Its weights are the softmax of those of the model with one, in the first layer."""
    models = []
    for name in twice_softmax.NAMES:
        torch.manual_seed(0)
        models.append(twice_softmax.row(name).build().eval())
    x = torch.randn(2, 1, 28, 28)
    once, twice = (attention_weights(model, x)[:, 0] for model in models)
    assert torch.allclose(twice, once.softmax(dim=-1), atol=1e-6)


def test_own_weights_are_measured_as_the_stored_ones() -> None:
    """The weights that stand in are those of the first stored seed."""
    rows = left_without(_loaded(VisionTransformer, RESULTS / "my_weights.pth"))
    for row in rows.splitlines()[1:]:
        yours, first, *_ = map(int, re.findall(r"(\d+) %", row))
        assert abs(yours - first) <= 1, row


def recording(found: Callable[[str, nn.Module], bool], how: Callable | None = None) -> Callable:
    """An answer that hooks the modules of which ``found`` is true."""

    @contextmanager
    def record(model: nn.Module) -> Iterator[list[Tensor]]:
        kept: list[Tensor] = []

        def keep(module: nn.Module, args: tuple, kwargs: dict, output: tuple) -> None:
            kept.append(output[1] if how is None else how(module, *args, **kwargs))

        with ExitStack() as stack:
            for name, module in model.named_modules():
                if found(name, module):
                    before = module.register_forward_pre_hook(asked, with_kwargs=True)
                    stack.callback(before.remove)
                    after = module.register_forward_hook(keep, with_kwargs=True)
                    stack.callback(after.remove)
            yield kept

    return record


def by_equation_1(layer: nn.Module, query: Tensor, *_: Any, **__: Any) -> Tensor:
    """The weights from query and key, which knows of no mask."""
    packed = F.linear(query, layer.in_proj_weight, layer.in_proj_bias)
    q, k, _ = packed.unflatten(-1, (3, layer.num_heads, -1)).permute(2, 0, 3, 1, 4)
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)


UNDER_A_NAME = "has the name `mix`. Under the name `self_attention` the same layer is recorded."
test_what_is_recorded_by_name_or_without_its_mask = judged(
    [],
    [
        ("record", recording(lambda name, _: name.endswith("self_attention")), UNDER_A_NAME),
        (
            "record",
            recording(lambda name, _: "." in name and name.endswith("attention")),
            UNDER_A_NAME,
        ),
        (  # it looks at how deep a layer is, and at no name
            "record",
            recording(lambda name, module: "." in name and hasattr(module, "in_proj_weight")),
            "whose one attention layer has the name `mix`. Layers may have any name",
        ),
        (
            "record",
            recording(lambda _, module: hasattr(module, "in_proj_weight"), by_equation_1),
            "with a mask you keep the weights that it would have without. Take the weights that",
        ),
    ],
)
