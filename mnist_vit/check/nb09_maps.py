"""Exercises of notebook 09: a recorder that leaves no trace, the class token's map, rollout, attention distance."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torchvision import models

from ..model import VisionTransformer
from .core import Exercise, Mistake, Mutant, random, randomise

# --- record ----------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """Raised by the check inside the learner's ``with`` block."""


def _layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]


def _ask(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    return args, kwargs | {"need_weights": True, "average_attn_weights": False}


def _ask_mean(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    return args, kwargs | {"need_weights": True}


def _ask_alone(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    return args, {"need_weights": True, "average_attn_weights": False}


def _keep_weights(output: tuple[Tensor, Tensor]) -> Tensor:
    return output[1]


@contextmanager
def _record(
    model: nn.Module,
    chosen: slice = slice(None),
    ask: Callable[..., Any] | None = _ask,
    keep: Callable[[Any], Any] = _keep_weights,
    evaluate: bool = False,
    remove: str = "both",
    after_exception: str = "remove",
) -> Iterator[list[Tensor]]:
    """The reference, with one of its steps exchanged where a mutant asks for it."""
    kept: list[Tensor] = []
    before, after = [], []
    if evaluate:
        model.eval()
    for layer in _layers(model)[chosen]:
        if ask is not None:
            before.append(layer.register_forward_pre_hook(ask, with_kwargs=True))
        after.append(layer.register_forward_hook(lambda module, args, output: kept.append(keep(output))))
    failed = False
    try:
        yield kept
    except BaseException:
        failed = True
        if after_exception != "swallow":
            raise
    finally:
        if not (failed and after_exception == "forget"):
            for handle in {"both": before + after, "after": after}.get(remove, []):
                handle.remove()
            for layer in _layers(model) if remove == "all" else []:
                layer._forward_hooks.clear()
                layer._forward_pre_hooks.clear()


@contextmanager
def _record_by_replacing(model: nn.Module) -> Iterator[list[Tensor]]:
    """Another way, with a mistake at its end: the old forward comes back as an attribute of the layer."""
    kept: list[Tensor] = []
    old = [(layer, layer.forward) for layer in _layers(model)]

    def replaced(forward: Callable[..., Any]) -> Callable[..., Any]:
        def recording(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs | {"need_weights": True, "average_attn_weights": False})
            kept.append(output[1])
            return output

        return recording

    for layer, forward in old:
        layer.forward = replaced(forward)
    try:
        yield kept
    finally:
        for layer, forward in old:
            layer.forward = forward


class _Masked(nn.Module):
    """No Vision Transformer: one attention layer, which is called with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.mix(x, x, x, need_weights=False, attn_mask=mask)[0]


def _traces(model: nn.Module) -> str:
    """Hooks on any module, and forwards that were replaced."""
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    hooks += len(getattr(torch.nn.modules.module, "_global_forward_hooks", ()))
    return f"{hooks} hooks, {sum('forward' in vars(module) for module in model.modules())} replaced forwards"


class _Recording:
    """A learner's context manager, entered and left with sentences for what does not fit."""

    def __init__(self, answer: Any, model: nn.Module) -> None:
        self.manager = answer(model)
        if not (hasattr(type(self.manager), "__enter__") and hasattr(type(self.manager), "__exit__")):
            raise Mistake(
                "`with record(model) as kept:` does not work: what record(model) gives is no context manager. Put "
                "@contextmanager above a function that yields, or write a class with __enter__ and __exit__."
            )

    def __enter__(self) -> list[Tensor]:
        kept = self.manager.__enter__()
        problem = None
        if not isinstance(kept, list):
            problem = f"what is yielded must be the list that the weights are put into, not a {type(kept).__name__}."
        elif kept:
            problem = (
                "the list is not empty when the block begins. Begin each recording with a list of its own, made inside "
                "the function: no global and no default argument."
            )
        if problem is not None:
            self.manager.__exit__(None, None, None)
            raise Mistake(problem)
        return kept

    def __exit__(self, *error: Any) -> bool | None:
        return self.manager.__exit__(*error)


def _run_record(answer: Any) -> Iterator[tuple[str, Any]]:
    if not callable(answer):
        raise Mistake("give the function itself: check.record(record).")
    model = randomise(models.VisionTransformer(12, 4, 3, 2, 8, 16, num_classes=3))  # torchvision's, as it is
    model.train()
    images = random(2, 3, 12, 12, seed=91)
    plain = model(images)
    with _Recording(answer, model) as kept:
        logits = model(images)
    yield "logits while recording", logits
    yield "whether they are those without recording", bool(torch.allclose(logits, plain, atol=1e-4))
    if not kept:
        raise Mistake(
            "the list is empty after a forward pass: no hook ran, or the weights went into another list. Hook every "
            "nn.MultiheadAttention in model.modules(), and put weights into the list that is yielded with append: "
            "kept = kept + [...] makes a new one."
        )
    yield "weights of layer 0", kept[0]
    yield "number of tensors kept for 3 layers", len(kept)
    yield "weights of layer 1", kept[1]
    yield "weights of layer 2", kept[2]
    yield "what is left behind", _traces(model)
    yield "whether the model is still in train mode", all(module.training for module in model.modules())

    with _Recording(answer, model) as again:
        model(images)
        model(images)
    yield "number of tensors kept from 2 forward passes in a second block", len(again)

    masked = randomise(_Masked())
    images = random(2, 5, 8, seed=90)
    plain, calls = masked(images), []
    masked.mix.register_forward_hook(lambda *call: calls.append(call))  # somebody else's
    with _Recording(answer, masked) as kept:
        output = masked(images)
    yield (
        "whether a layer that is called with a mask gives the same while recording",
        bool(torch.allclose(output, plain, atol=1e-4)),
    )
    yield "weights of a layer that is called with a mask", kept[0] if kept else None
    calls.clear()
    masked(images)
    yield "whether somebody else's hook on the layer still runs after the block", len(calls) == 1

    ours = randomise(VisionTransformer(8, 4, 2, 2, 8, 16, num_classes=3, in_channels=1)).eval()
    out = False
    try:
        with _Recording(answer, ours) as kept:
            ours(random(1, 1, 8, 8, seed=92))
            raise _Stop
    except _Stop:
        out = True
    yield "whether an exception in the block gets out of it", out
    yield "what is left behind after an exception", _traces(ours)
    yield "number of tensors kept before the exception", len(kept)


RECORD = Exercise(
    name="record",
    answer="record",
    stars=3,
    reference=_record,
    run=_run_record,
    mutants=(
        Mutant(
            partial(_record, ask=None),
            "keep the second output without asking for it: the model calls its layers with need_weights=False, so "
            "None comes back. A pre-hook with with_kwargs=True can change that",
        ),
        Mutant(
            partial(_record, ask=_ask_mean),
            "ask for need_weights=True and no more: torch then gives the mean over the heads. Ask for "
            "average_attn_weights=False too",
        ),
        Mutant(
            partial(_record, keep=lambda output: output[0]),
            "keep the first of the two outputs: that is the layer output. The weights are the second",
        ),
        Mutant(
            partial(_record, keep=lambda output: output[1][:, :, 0]),
            "keep the class token's row only: keep all rows, so that any patch can be asked later",
        ),
        Mutant(
            partial(_record, keep=lambda output: output[1].mean(dim=0)),
            "average over the pictures: each has weights of its own",
        ),
        Mutant(
            partial(_record, chosen=slice(-1, None)),
            "hook the last layer only: every nn.MultiheadAttention in model.modules() needs its hooks",
        ),
        Mutant(partial(_record, chosen=slice(1)), "hook the first layer only: go through all of model.modules()"),
        Mutant(
            partial(_record, remove="nothing"),
            "never remove the hooks: keep what register_forward_hook returns, and call its remove()",
        ),
        Mutant(
            partial(_record, remove="after"),
            "remove the forward hooks and leave the pre-hooks: from then on every layer makes weights for nobody. "
            "Remove both kinds",
        ),
        Mutant(
            partial(_record, remove="all"),
            "take away all hooks of the layers, somebody else's too: keep what register_forward_hook returns, and call "
            "its remove()",
        ),
        Mutant(
            partial(_record, ask=_ask_alone),
            "give the layer two keywords in place of those that it was called with, so that its mask is lost: keep "
            "them, kwargs | {…}",
        ),
        Mutant(
            _record_by_replacing,
            "put the old forward back as an attribute of the layer, where it hides the class's for ever: take yours "
            "away with del layer.forward, or use hooks",
        ),
        Mutant(
            partial(_record, after_exception="forget"),
            "remove the hooks after the yield without `finally`: an exception in the block jumps over that line. Write "
            "try: yield … finally: …",
        ),
        Mutant(
            partial(_record, after_exception="swallow"),
            "swallow the exception of the block: the hooks must go, and the exception must get out. Use `finally`, "
            "without `except` or `return`",
        ),
        Mutant(
            partial(_record, evaluate=True),
            "switch the model to eval mode and leave it there: whoever records may be training. Leave the mode alone",
        ),
    ),
    hints=(
        "It is the class of the notebook in another order: register, `yield` the list, remove. What runs before the "
        "yield happens when the block is entered.",
        "Each layer needs two hooks: a pre-hook that adds need_weights=True and average_attn_weights=False to the "
        "keywords, and a forward hook that appends output[1]. Keep all handles. Put the yield between `try:` and "
        "`finally:`, and remove the handles in `finally`.",
        "kept, handles = [], []; for each nn.MultiheadAttention in model.modules(): "
        "handles.append(layer.register_forward_pre_hook(ask, with_kwargs=True)); "
        "handles.append(layer.register_forward_hook(keep)); then try: yield kept; "
        "finally: for handle in handles: handle.remove()",
    ),
    tolerance=1e-5,
)

# --- class_token_map -------------------------------------------------------------------------------------------


def _class_token_map(weights: Tensor) -> Tensor:
    grid = math.isqrt(weights.shape[-1] - 1)
    return weights[..., 0, 1:].unflatten(-1, (grid, grid))


def _folded(rows: Callable[[Tensor], Tensor], finish: Callable[[Tensor], Tensor] = lambda maps: maps) -> Any:
    """An answer that takes other numbers than the class token's row, or does something else with its map."""

    def class_token_map(weights: Tensor) -> Tensor:
        taken = rows(weights)
        grid = math.isqrt(taken.shape[-1])
        return finish(taken.unflatten(-1, (grid, grid)))

    return class_token_map


def _row(weights: Tensor) -> Tensor:
    return weights[..., 0, 1:]


def _run_class_token_map(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "maps of 3 heads, 4 × 4 patches", answer((3 * random(2, 3, 17, 17, seed=93)).softmax(dim=-1))
    yield "map of one head, 3 × 3 patches", answer((3 * random(1, 1, 10, 10, seed=94)).softmax(dim=-1))


CLASS_TOKEN_MAP = Exercise(
    name="class_token_map",
    answer="class_token_map",
    stars=1,
    reference=_class_token_map,
    run=_run_class_token_map,
    mutants=(
        Mutant(
            _folded(lambda weights: weights[..., 1:, 0]),
            "take the column of the class token in place of its row: that is who looks at the class token. A row "
            "belongs to the one that asks",
        ),
        Mutant(
            _folded(lambda weights: weights[..., 0, :-1]),
            "keep the class token's own weight and leave out the last patch: every patch lands one place too far. "
            "Leave out number 0",
        ),
        Mutant(
            _folded(_row, lambda maps: maps.transpose(-2, -1)),
            "fold the patches by columns: they were numbered row by row, so no transpose is needed",
        ),
        Mutant(
            _folded(lambda weights: weights[..., -1, 1:]),
            "take the last token's row: the class token is the first",
        ),
        Mutant(
            _folded(lambda weights: weights[..., 1, 1:]),
            "take the row of token 1, the first patch: the class token is token 0",
        ),
        Mutant(
            _folded(lambda weights: weights[..., 1:, 1:].mean(dim=-2)),
            "average over the rows of all patches: one row is asked for, that of the class token",
        ),
        Mutant(
            _folded(_row, lambda maps: maps / maps.sum(dim=(-2, -1), keepdim=True)),
            "make the map sum to 1 again: leave the weights as the model had them; what is missing from 1 is what the "
            "class token keeps for itself",
        ),
        Mutant(
            _folded(lambda weights: weights.mean(dim=1)[:, 0, 1:]),
            "average over the heads: each head looks elsewhere, so keep them apart",
        ),
        Mutant(_row, "stop before the row is folded: put the patches back into their square"),
    ),
    hints=(
        "weights[n, head, query, key]: the query is the one who looks. Which row is the class token's, and which of "
        "its numbers is no patch?",
        "Take row 0, drop number 0 of it, and fold what is left into a square: its side is the root of seq_length - 1.",
        "grid = math.isqrt(weights.shape[-1] - 1); return weights[:, :, 0, 1:].unflatten(-1, (grid, grid))",
    ),
)

# --- rollout ---------------------------------------------------------------------------------------------------


def _mean_heads(weights: Tensor) -> Tensor:
    return weights.mean(dim=2)


def _rollout(
    weights: Tensor,
    heads: Callable[[Tensor], Tensor] = _mean_heads,
    identity: float = 1.0,
    axis: int | None = -1,
    combine: Callable[[Tensor, Tensor], Tensor] = lambda layer, total: layer @ total,
) -> Tensor:
    """Rollout with one of its steps exchanged; as it stands, the right one."""
    one = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    total = one.expand(len(weights), -1, -1)
    for layer in heads(weights).unbind(dim=1):
        mixed = layer + identity * one
        total = combine(mixed if axis is None else mixed / mixed.sum(dim=axis, keepdim=True), total)
    return total


def _mean_of_layers(weights: Tensor) -> Tensor:
    one = torch.eye(weights.shape[-1], dtype=weights.dtype)
    return (weights.mean(dim=2) + one).mean(dim=1) / 2


def _run_rollout(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "rollout of 3 layers", answer((2 * random(2, 3, 2, 5, 5, seed=95)).softmax(dim=-1))
    yield "rollout of 2 layers", answer((2 * random(1, 2, 4, 5, 5, seed=96)).softmax(dim=-1))


ROLLOUT = Exercise(
    name="rollout",
    answer="my_rollout",
    stars=2,
    reference=_rollout,
    run=_run_rollout,
    mutants=(
        Mutant(
            partial(_rollout, identity=0.0),
            "leave out the identity: the residual connection hands every token on as it is. Add torch.eye to each "
            "layer before the rows are made to sum to 1",
        ),
        Mutant(
            partial(_rollout, axis=None),
            "add the identity and do not make the rows sum to 1 again: they sum to 2 then, and to 4 after two layers. "
            "Divide each row by its sum",
        ),
        Mutant(
            partial(_rollout, axis=-2),
            "make the columns sum to 1 in place of the rows: a row is what one token is made of, so sum over dim=-1",
        ),
        Mutant(
            partial(_rollout, combine=lambda layer, total: total @ layer),
            "multiply the layers in the wrong order: the first layer works first, so it stands on the right, and each "
            "later one is multiplied from the left",
        ),
        Mutant(
            _mean_of_layers,
            "take the mean over the layers: what layer 1 looks at was already mixed by layer 0, so multiply them",
        ),
        Mutant(
            partial(_rollout, combine=lambda layer, total: layer),
            "give the last layer alone: multiply it with what the layers before it gave",
        ),
        Mutant(
            partial(_rollout, combine=lambda layer, total: layer * total if total[0, 0, 1] else layer),
            "multiply number by number, with *: a chain of mixtures is a matrix product, @",
        ),
        Mutant(
            partial(_rollout, heads=lambda weights: weights.sum(dim=2)),
            "sum over the heads in place of their mean: the identity then weighs less than the residual connection "
            "does. Use mean",
        ),
        Mutant(
            lambda weights: torch.stack([_rollout(head[:, :, None]) for head in weights.unbind(dim=2)]).mean(dim=0),
            "roll out each head by itself and take the mean at the end: a token mixes the heads in every layer, so "
            "take the mean before the layers are multiplied",
        ),
        Mutant(
            partial(_rollout, heads=lambda weights: weights.amax(dim=2)),
            "take the largest head at each place: rollout as in the paper takes the mean over the heads",
        ),
        Mutant(
            lambda weights: _rollout(weights).transpose(-2, -1),
            "give the result transposed: rows are output tokens, columns are input tokens",
        ),
    ),
    hints=(
        "One layer first: average its heads. What does the residual connection add to that matrix, so that a token "
        "also keeps itself? And what must each row then sum to?",
        "For each layer: mean over heads, plus the identity, each row divided by its sum. Begin with the identity as "
        "total and multiply each layer to it from the left, first layer first.",
        "total = torch.eye(s).expand(n, s, s); for layer in weights.mean(dim=2).unbind(dim=1): mixed = layer + "
        "torch.eye(s); total = mixed / mixed.sum(dim=-1, keepdim=True) @ total; return total",
    ),
)

# --- attention_distance ----------------------------------------------------------------------------------------


def _patches_alone(weights: Tensor) -> Tensor:
    patches = weights[..., 1:, 1:]
    return patches / patches.sum(dim=-1, keepdim=True)


def _straight(here: Tensor, there: Tensor) -> Tensor:
    return ((here - there) ** 2).sum(dim=-1).sqrt()


def _attention_distance(
    weights: Tensor,
    patch_size: int,
    patches: Callable[[Tensor], Tensor] = _patches_alone,
    measure: Callable[[Tensor, Tensor], Tensor] = _straight,
    unit: Callable[[int], int] = lambda patch_size: patch_size,
    reduce: Callable[[Tensor], Tensor] = lambda looked: looked.sum(dim=-1).mean(dim=(0, -1)),
) -> Tensor:
    """Mean attention distance with one of its steps exchanged; as it stands, the right one."""
    grid = math.isqrt(weights.shape[-1] - 1)
    place = torch.cartesian_prod(torch.arange(grid), torch.arange(grid)).to(weights)
    return reduce(patches(weights) * measure(place[:, None], place[None]) * unit(patch_size))


def _class_token_at_distance_0(weights: Tensor, patch_size: int) -> Tensor:
    grid = math.isqrt(weights.shape[-1] - 1)
    place = torch.cartesian_prod(torch.arange(grid), torch.arange(grid)).to(weights)
    table = nn.functional.pad(torch.cdist(place, place) * patch_size, (1, 0, 1, 0))
    return (weights * table).sum(dim=-1).mean(dim=(0, -1))


def _numbers_apart(here: Tensor, there: Tensor) -> Tensor:
    grid = math.isqrt(len(here))
    number = torch.tensor([grid, 1]).to(here)
    return ((here - there) * number).sum(dim=-1).abs()


def _run_attention_distance(answer: Any) -> Iterator[tuple[str, Any]]:
    weights = (2 * random(3, 2, 4, 10, 10, seed=97)).softmax(dim=-1)
    yield "distance with 3 × 3 patches of 7 pixels", answer(weights, 7)
    weights = (2 * random(2, 3, 2, 17, 17, seed=98)).softmax(dim=-1)
    yield "distance with 4 × 4 patches of 2 pixels", answer(weights, 2)


ATTENTION_DISTANCE = Exercise(
    name="attention_distance",
    answer="attention_distance",
    stars=2,
    reference=_attention_distance,
    run=_run_attention_distance,
    mutants=(
        Mutant(
            partial(_attention_distance, patches=lambda weights: weights[..., 1:, 1:]),
            "leave the rows as they are after the class token is gone: they sum to less than 1 then, and the distance "
            "comes out too short. Divide each row by its sum",
        ),
        Mutant(
            _class_token_at_distance_0,
            "keep the class token, at distance 0 from everything: it has no place in the picture. Leave out its row "
            "and its column, and make the rest of each row sum to 1",
        ),
        Mutant(
            partial(_attention_distance, patches=lambda weights: weights[..., :-1, :-1]),
            "leave out the last token in place of the class token, which is the first",
        ),
        Mutant(
            partial(_attention_distance, patches=lambda weights: _patches_alone(weights.transpose(-2, -1))),
            "mix up who looks and what is looked at: a row is the query, so sum over the last dimension",
        ),
        Mutant(
            partial(_attention_distance, unit=lambda patch_size: 1),
            "count in patches: one patch to the next is patch_size pixels",
        ),
        Mutant(
            partial(_attention_distance, measure=lambda here, there: _straight(here, there) ** 2),
            "forget the square root of the distance",
        ),
        Mutant(
            partial(_attention_distance, measure=lambda here, there: (here - there).abs().sum(dim=-1)),
            "add the steps down and the steps across: the straight line is the root of the sum of squares",
        ),
        Mutant(
            partial(_attention_distance, measure=_numbers_apart),
            "take how far apart the patches' numbers are: patch 3 may lie right below patch 0. Use row and column",
        ),
        Mutant(
            partial(_attention_distance, reduce=lambda looked: looked.mean(dim=(0, -2, -1))),
            "average over the keys: the weights are the average already, so sum over the last dimension",
        ),
        Mutant(
            partial(_attention_distance, reduce=lambda looked: looked.sum(dim=(-2, -1)).mean(dim=0)),
            "add up the distances of all query patches: take their mean",
        ),
    ),
    hints=(
        "First a table of distances: how many pixels lie between patch i and patch j? Each patch has a row and a "
        "column.",
        "Drop row 0 and column 0, divide each row by its sum, multiply with the table, sum over the last dimension: "
        "one distance for each query patch. Then the mean over pictures and query patches.",
        "place = torch.cartesian_prod(torch.arange(g), torch.arange(g)).float(); table = torch.cdist(place, place) * "
        "patch_size; p = weights[..., 1:, 1:]; p = p / p.sum(dim=-1, keepdim=True); "
        "return (p * table).sum(dim=-1).mean(dim=(0, -1))",
    ),
    tolerance=1e-5,
)

EXERCISES: tuple[Exercise, ...] = (RECORD, CLASS_TOKEN_MAP, ROLLOUT, ATTENTION_DISTANCE)
