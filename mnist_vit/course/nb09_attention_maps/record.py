"""Exercise: a context manager that records the attention weights of any model and leaves no
trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import MultiHeadAttention, VisionTransformer

from ..checking import (
    Evidence,
    Exercise,
    Mistake,
    Slip,
    hooks_left,
    others_hooks,
    random,
    randomise,
)


@contextmanager
def my_record(model: nn.Module) -> Iterator[list[Tensor]]:
    # with my_record(model) as kept: … one tensor for each attention layer that runs
    kept, handles = [], []

    def ask_for_weights(module, args, kwargs):
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def keep(module, args, output):
        kept.append(output[1])

    for module in model.modules():
        if hasattr(module, "in_proj_weight"):  # torch's attention layer has one, and yours
            handles.append(module.register_forward_pre_hook(ask_for_weights, with_kwargs=True))
            handles.append(module.register_forward_hook(keep))
    # Everything after the yield must happen however the block ends, so it stands in `finally`.
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


class _Stop(Exception):
    """Raised by the check inside the learner's ``with`` block."""


class _Masked(nn.Module):
    """No Vision Transformer: one attention layer, which is called with a mask."""

    def __init__(self, name: str = "mix") -> None:
        super().__init__()
        self.add_module(name, nn.MultiheadAttention(8, 2, batch_first=True))

    @property
    def layer(self) -> nn.Module:
        """The attention layer, whatever its name is."""
        return next(self.children())

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.layer(x, x, x, need_weights=False, attn_mask=mask)[0]


class _Scratch(nn.Module):
    """One attention layer that is not torch's, and is called with keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = MultiHeadAttention(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(query=x, key=x, value=x, need_weights=False)[0]


def _global_hooks() -> int:
    """How many hooks there are for all modules at once; the check itself has some."""
    found = 0
    for name in ("_global_forward_hooks", "_global_forward_pre_hooks"):
        found += len(getattr(torch.nn.modules.module, name, ()))
    return found


def _traces(model: nn.Module, before: int) -> str:
    """Hooks on any module, and forwards that were replaced.

    Args:
        model: whose modules are looked at.
        before: how many hooks for all modules there were.
    """
    hooks = sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )
    hooks += _global_hooks() - before
    return (
        f"{hooks} hooks, {sum('forward' in vars(module) for module in model.modules())} replaced"
        " forwards"
    )


class _Recording:
    """A learner's context manager, entered and left with sentences for what does not fit."""

    def __init__(self, answer: Any, model: nn.Module) -> None:
        self.manager = answer(model)
        if not (
            hasattr(type(self.manager), "__enter__") and hasattr(type(self.manager), "__exit__")
        ):
            raise Mistake(
                "`with my_record(model) as kept:` does not work: what comes back is no context "
                "manager.",
                "Put @contextmanager above a function that yields, or write a class with __enter__ "
                "and __exit__.",
            )

    def __enter__(self) -> list[Tensor]:
        kept = self.manager.__enter__()
        problem = None
        if not isinstance(kept, list):
            problem = (
                "what `as` gives a name to must be the list that the weights are put into, but is"
                f" of type {type(kept).__name__}."
            )
        elif kept:
            problem = (
                "the list is not empty when the block begins. Each recording needs a list of its"
                " own, made when it begins: no global, default argument or attribute of a class."
            )
        if problem is not None:
            self.manager.__exit__(None, None, None)
            raise Mistake(problem)
        return kept

    def __exit__(self, *error: Any) -> bool | None:
        return self.manager.__exit__(*error)


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    if not callable(answer):
        raise Mistake(
            "the function itself is needed: check.record(my_record).",
        )
    yield from compare_torchvisions_model(answer)
    yield from compare_masked_layer(answer)
    yield from compare_layer_from_scratch(answer)
    yield from compare_shared_layer(answer)
    yield from compare_exception_in_the_block(answer)
    yield from compare_interrupt_in_the_block(answer)


def compare_torchvisions_model(answer: Any) -> Iterator[tuple[str, Any]]:
    from torchvision import models  # slow to import; few checks need it

    model = randomise(models.VisionTransformer(12, 4, 3, 2, 8, 16, num_classes=3))
    model.train()
    images = random(2, 3, 12, 12, seed=91)
    plain = model(images)
    before = _global_hooks()
    with _Recording(answer, model) as kept:
        hooks = hooks_left(model)
        logits = model(images)
        inside = len(kept)
        asks = logits.requires_grad
        training = all(module.training for module in model.modules())
    yield "logits while recording", logits
    yield "whether they are those without recording", bool(torch.allclose(logits, plain, atol=1e-4))
    if inside and not kept:
        raise Mistake(
            "the list is empty once the block has ended, though it was filled inside.",
            "The weights are looked at later, so remove the hooks at the end and leave the list "
            "alone.",
        )
    if not kept:
        _refuse_empty(hooks)
    if not inside:
        raise Mistake(
            "the list is empty until the block ends.",
            "Each layer should append its weights when it runs: a forward hook gets its output.",
        )
    yield "weights of layer 0", kept[0]
    yield "number of tensors kept for 3 layers", len(kept)
    yield "weights of layer 1", kept[1]
    yield "weights of layer 2", kept[2]
    yield "what is left behind", _traces(model, before)
    yield "whether the logits ask for a gradient in the block, as they do without it", asks
    yield "whether the model is in train mode in the block, as it was before", training
    yield (
        "whether the model is still in train mode",
        all(module.training for module in model.modules()),
    )

    first = list(kept)
    with _Recording(answer, model) as again:
        model(images)
        model(images)
    if len(kept) != len(first) or any(a is not b for a, b in zip(kept, first, strict=False)):
        raise Mistake(
            f"the list of the first block held {len(first)} tensors when the block ended, and holds"
            f" {len(kept)} after a second block.",
            "Each recording needs a list of its own, made when it begins: no global, default"
            " argument or attribute of a class.",
        )
    yield "number of tensors kept from 2 forward passes in a second block", len(again)


def _refuse_empty(hooks: str) -> None:
    """Raise Mistake for a list that is empty after a forward pass.

    Args:
        hooks: those that were on the model in the block, in words.
    """
    if not hooks:
        raise Mistake(
            "the list is empty after a forward pass, and in the block no hook is on the model.",
            "Hook every module in model.modules() that has an in_proj_weight.",
        )
    said = f"the list is empty after a forward pass, and in the block the model has {hooks}."
    if "pre-hook" not in hooks:
        raise Mistake(
            said,
            "The model calls its layers with need_weights=False, so that no weights come back: a"
            " pre-hook, with_kwargs=True, can change that. What comes back is then appended to the"
            " list that is yielded.",
        )
    raise Mistake(
        said,
        "A forward hook gets the output: let it append to the very list that is yielded. A list"
        " that is made at the yield, or by kept = kept + [...], is another one.",
    )


MASKED = "weights of a layer that is called with a mask"
OTHERS_HOOKS = "hooks of somebody else that are gone after the block"


def compare_masked_layer(answer: Any) -> Iterator[tuple[str, Any]]:
    masked = _Masked()
    randomise(masked)
    images = random(2, 5, 8, seed=90)
    plain = masked(images)
    with others_hooks(masked) as gone:
        with _Recording(answer, masked) as kept:
            output = masked(images)
        lost = gone()
    yield (
        "whether a layer that is called with a mask gives the same while recording",
        bool(torch.allclose(output, plain, atol=1e-4)),
    )
    if not kept:
        _refuse_unrecorded(answer, masked)
    yield MASKED, kept[0]
    yield OTHERS_HOOKS, lost


def _refuse_unrecorded(answer: Any, masked: _Masked) -> None:
    """Raise Mistake for a list that is empty though a layer with a name of its own ran."""
    with _Recording(answer, masked):
        is_found = _has_hooks(masked.layer) or "forward" in vars(masked.layer)
        hooks = hooks_left(masked)
    if is_found:
        _refuse_empty(hooks)
    by_name = ""
    if _is_recorded(answer, "self_attention") and not _is_recorded(answer, "mix"):
        by_name = " Under the name `self_attention` the same layer is recorded."
    raise Mistake(
        "the list is empty after a forward pass of a model whose one attention layer has the name"
        f" `mix`.{by_name}",
        "Layers may have any name: look for an in_proj_weight, hasattr(module,"
        ' "in_proj_weight"), in all of model.modules().',
    )


def _is_recorded(answer: Any, name: str) -> bool:
    """Whether an attention layer of this name, in a part of a model, is recorded."""
    model = nn.Sequential(_Masked(name))
    with _Recording(answer, model) as kept:
        model(random(2, 5, 8, seed=90))
    return bool(kept)


def compare_layer_from_scratch(answer: Any) -> Iterator[tuple[str, Any]]:
    scratch = randomise(_Scratch())
    with _Recording(answer, scratch) as kept:
        scratch(random(2, 5, 8, seed=90))
    yield (
        "weights of a layer that was written from scratch, as yours in notebook 03,",
        kept[0] if kept else "nothing: the list is empty",
    )
    yield "number of tensors kept of it", len(kept)


def compare_shared_layer(answer: Any) -> Iterator[tuple[str, Any]]:
    layer = randomise(_Scratch())
    twice = nn.Sequential(layer, layer)
    with _Recording(answer, twice) as kept:
        twice(random(2, 5, 8, seed=90))
    yield "number of tensors kept of one layer that stands in two places and runs twice", len(kept)


def compare_exception_in_the_block(answer: Any) -> Iterator[tuple[str, Any]]:
    ours = randomise(VisionTransformer(8, 4, 2, 2, 8, 16, num_classes=3, in_channels=1)).eval()
    out = False
    before = _global_hooks()
    try:
        with _Recording(answer, ours) as kept:
            ours(random(1, 1, 8, 8, seed=92))
            raise _Stop
    except _Stop:
        out = True
    yield "whether an exception in the block gets out of it", out
    yield "what is left behind after an exception", _traces(ours, before)
    yield "number of tensors kept before the exception", len(kept)
    yield "weights of a single picture", kept[0] if kept else "nothing: the list is empty"


def compare_interrupt_in_the_block(answer: Any) -> Iterator[tuple[str, Any]]:
    ours = randomise(VisionTransformer(8, 4, 2, 2, 8, 16, num_classes=3, in_channels=1)).eval()
    before = _global_hooks()
    try:
        with _Recording(answer, ours):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    yield "what is left behind after an interrupt, as by the stop button", _traces(ours, before)


def notice(answer: Any) -> Mistake | None:
    """Which hooks stay on a model with three attention layers."""
    from torchvision import models  # slow to import; few checks need it

    model = models.VisionTransformer(12, 4, 3, 2, 8, 16, num_classes=3).eval()
    layers = [module for module in model.modules() if hasattr(module, "in_proj_weight")]
    with answer(model):
        inside = hooks_left(model)
        own = [module for module in model.modules() if _has_hooks(module)]
    if left := hooks_left(model):
        hooked = [str(number) for number, layer in enumerate(layers) if hooks_left(layer)]
        where = f", on attention layer {' and '.join(hooked)}" if hooked else ""
        return Mistake(
            "In the block a model with three attention layers, 0 to 2, has"
            f" {inside or 'no hook'}; after the block, {left}{where}.",
            "Every register_… returns a handle: keep all handles in a list, and remove each.",
        )
    if own and not any(module in layers for module in own):
        names = sorted({type(module).__name__ for module in own})
        return Mistake(
            "In the block no attention layer has a hook of yours; those that have one are of the"
            f" class {' and '.join(names)}.",
            "Hook every module in model.modules() that has an in_proj_weight.",
        )
    return _noticed_mask(answer)


def _noticed_mask(answer: Any) -> Mistake | None:
    """Whether what is kept of a layer that is called with a mask knows nothing of the mask."""
    masked = randomise(_Masked()).eval()
    images = random(2, 5, 8, seed=90)
    usual = masked(images)
    with answer(masked) as kept:
        output = masked(images)
    _, plain = masked.layer(images, images, images, average_attn_weights=False)
    if len(kept) != 1 or kept[0].shape != plain.shape:
        return None
    if not torch.allclose(output, usual, atol=1e-4):
        return None  # the layer itself is called without its mask
    if not torch.allclose(kept[0], plain, atol=1e-4):
        return None
    return Mistake(
        "Of a layer that is called with a mask you keep the weights that it would have without.",
        "Take the weights that the layer itself returns, output[1]: it knows how it was called.",
    )


def _has_hooks(module: nn.Module) -> bool:
    """Whether a module itself has a hook."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def more(answer: Any) -> list[int]:
    """How many weights are added to a list after its block, and what is there after a second."""
    model = VisionTransformer(8, 4, 2, 2, 8, 16, num_classes=3, in_channels=1).eval()
    images = random(1, 1, 8, 8, seed=92)
    found = []
    for _ in range(2):
        with answer(model) as kept:
            model(images)
        before = len(kept)
        model(images)
        found += [before, len(kept)]
    return found


def tell(evidence: Evidence) -> tuple[str, str]:
    """What stays on a model; how many tensors there should be."""
    what, value = evidence.what, evidence.value
    if what.startswith("whether the model is in train mode in"):
        return (
            "In the block the model, or a part of it, is in eval mode.",
            "Whoever records may be training: leave the mode alone.",
        )
    if what.startswith("whether the logits ask for a gradient"):
        return (
            "In the block the logits of the model ask for no gradient.",
            "Whoever records may need gradients: no torch.no_grad() around the yield. detach()"
            " is enough for the weights that you keep.",
        )
    if what == "weights of a single picture" and isinstance(value, Tensor) and value.dim() < 4:
        return (
            "The axis of the pictures is missing where there is one picture.",
            "Keep output[1] as it is, (n, num_heads, seq_length, seq_length). squeeze() takes away"
            " every axis of length 1.",
        )
    if what.startswith("weights of layer") and isinstance(value, tuple):
        return (
            "An attention layer gives a pair, its output and the weights.",
            "Keep the second of the two: output[1].",
        )
    if what.startswith("number of tensors kept"):
        many = "one tensor for each attention layer, each time that it runs"
        said = ""
        if "2 forward passes" in what and 2 * value == evidence.expected:
            said = "After two passes in one block the list is as long as after one: what one of"
            said += " them gave is not in it."
        return said, f"Keep {many}: {evidence.expected} here."
    if what == OTHERS_HOOKS:
        return (
            "Before the block each part had a hook of somebody else.",
            "Every register_… returns a handle: keep all of yours, and call remove() on each.",
        )
    if not what.startswith("what is left behind"):
        return "", ""
    if not value.endswith(" 0 replaced forwards"):
        return (
            "After the block, layers have a `forward` of their own, which hides that of their"
            " class.",
            "del layer.forward takes it away. Hooks need no such thing.",
        )
    if "interrupt" in what:
        return (
            "Hooks stay where an interrupt ends the block: KeyboardInterrupt is no Exception.",
            "Remove them in `finally`, or in a class's __exit__: both run after anything.",
        )
    if "exception" not in what:
        return "", ""
    return (
        "Hooks stay where an exception ends the block.",
        "Remove them in `finally`, or in a class's __exit__: both run after an exception, too.",
    )


PRE_HOOK = "handles.append(module.register_forward_pre_hook(ask_for_weights, with_kwargs=True))"
HOOK = "handles.append(module.register_forward_hook(keep))"
LAYERS, ALL_HEADS, WEIGHTS = (
    "for module in model.modules():",
    ', "average_attn_weights": False',
    "output[1]",
)
ATTENTION_LAYERS = '[m for m in model.modules() if hasattr(m, "in_proj_weight")]'
FOUND = 'if hasattr(module, "in_proj_weight"):'
KEEP = """def keep(module, args, output):
        kept.append(output[1])"""
REMOVE = """for handle in handles:
            handle.remove()"""
LATER = f"""try:
        yield kept
    finally:
        {REMOVE}"""
# No hooks: another forward for as long as the block lasts. How it is put back is left to choose.
REPLACE = {
    KEEP: (
        """def replaced(forward):
        def recording(*args, **kwargs):
            kwargs |= {"need_weights": True, "average_attn_weights": False}
            output = forward(*args, **kwargs)
            kept.append(output[1])
            return output

        return recording"""
    ),
    PRE_HOOK: "handles.append((module, module.forward))",
    HOOK: "module.forward = replaced(module.forward)",
}

SLIPS = (
    Slip(
        {PRE_HOOK: ""},
        "keep the second output without asking for it, or ask in a pre-hook that returns nothing",
        "The model calls its layers with need_weights=False, so None comes back. A pre-hook with"
        " with_kwargs=True can change that, if it returns args and the new kwargs",
    ),
    Slip(
        {ALL_HEADS: ""},
        (
            "keep the mean over the heads: you average them yourself, or ask for"
            " need_weights=True and no more"
        ),
        "Ask for average_attn_weights=False too, and keep all heads apart",
    ),
    Slip(
        {WEIGHTS: "output[0]"},
        "keep the first of the two outputs",
        "That is the layer output. The weights are the second",
    ),
    Slip(
        {WEIGHTS: "output[1][:, :, 0]"},
        "keep the class token's row only",
        "Keep all rows, so that any patch can be asked later",
    ),
    Slip(
        {WEIGHTS: "output[1].mean(dim=0)"},
        "average over the pictures",
        "Each has weights of its own",
    ),
    Slip(
        {LAYERS: f"for module in {ATTENTION_LAYERS}[-1:]:"},
        "hook the last layer only, or keep only what came last",
        "Every attention layer in model.modules() needs its hooks, and each appends to the list",
    ),
    Slip(
        {LAYERS: f"for module in {ATTENTION_LAYERS}[:1]:"},
        "hook the first layer only",
        "Go through all of model.modules()",
    ),
    Slip(
        {FOUND: "if isinstance(module, nn.MultiheadAttention):"},
        "hook torch's nn.MultiheadAttention alone",
        "A layer written from scratch is none. What both have is an in_proj_weight",
    ),
    Slip(
        {WEIGHTS: "output[1].mean(dim=1, keepdim=True)"},
        "average over the heads",
        "Each head looks elsewhere, so keep them apart",
    ),
    Slip(
        {REMOVE: "pass"},
        "never remove the hooks",
        "Every register_… returns a handle: keep all of yours, and call remove() on each",
    ),
    Slip(
        {PRE_HOOK: "module.register_forward_pre_hook(ask_for_weights, with_kwargs=True)"},
        "remove the forward hooks and leave the pre-hooks",
        "From then on every attention layer makes weights for nobody. Remove both kinds",
    ),
    Slip(
        {
            REMOVE: (
                "for module in model.modules():\n            module._forward_hooks.clear()\n"
                "            module._forward_pre_hooks.clear()"
            )
        },
        "take away all hooks of the layers, somebody else's too",
        "Every register_… returns a handle: keep all of yours, and call remove() on each",
    ),
    Slip(
        {"kwargs | {": "{"},
        "give the layer two keywords in place of those that it was called with, so that its mask is"
        " lost",
        "Keep them, kwargs | {…}",
    ),
    Slip(
        {**REPLACE, "handle.remove()": "handle[0].forward = handle[1]"},
        "put the old forward back as an attribute of the layer, where it hides the class's for"
        " ever",
        "Take yours away with del layer.forward, or use hooks",
    ),
    Slip(
        {**REPLACE, REMOVE: "pass"},
        "leave your own forward on the layers",
        "It goes on recording. Take it away with del layer.forward, or use hooks",
    ),
    Slip(
        {LATER: "yield kept\n    for handle in handles:\n        handle.remove()"},
        "remove the hooks only where the block ends without an exception",
        "After one, what cleans up must run, too: try: yield … finally: …, or a class's __exit__",
    ),
    Slip(
        {"finally:": "except Exception:\n        pass\n    finally:"},
        "swallow the exception of the block",
        (
            "The hooks must go, and the exception must get out: use finally, without except or"
            " return, or an __exit__ that returns nothing"
        ),
    ),
    Slip(
        {"kept, handles = [], []": "kept, handles = [], []\n    model.eval()"},
        "leave the model, or a part of it, in eval mode",
        "Whoever records may be training. Leave the mode alone",
    ),
    Slip(
        {LAYERS: "for module in [block.self_attention for block in model.encoder.layers]:"},
        "look for the layers in model.encoder.layers",
        "Other models keep theirs elsewhere. Go through model.modules()",
    ),
    Slip(
        {"kept.append(output[1])": "kept.insert(0, output[1])"},
        "put each new tensor in front of the others",
        "The layer that runs first comes first: append",
    ),
    Slip(
        {KEEP: f"{KEEP}\n        return output[1]"},
        "return something from the forward hook",
        "It takes the place of what the layer gave. Append, and return nothing",
    ),
)

EXERCISE = Exercise(
    answer=my_record,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    more=more,
    hints=(
        (
            "Three steps: register the hooks, `yield` the list, remove the hooks. What stands"
            " before the yield happens when the block is entered, what stands after it when the"
            " block ends."
        ),
        (
            "Find the layers with hasattr(module, 'in_proj_weight'). Each needs two hooks: a"
            " pre-hook (with_kwargs=True) that adds need_weights=True and"
            " average_attn_weights=False to the keywords, and a forward hook that appends"
            " output[1]. Keep all handles. Put the yield between `try:` and `finally:`; remove the"
            " handles in `finally`."
        ),
    ),
    same=(
        {**REPLACE, "handle.remove()": "del handle[0].forward"},
        {
            f"{PRE_HOOK}\n            {HOOK}": f"{HOOK}\n            {PRE_HOOK}",
            WEIGHTS: "output[1].detach()",
        },
    ),
    tolerance=1e-5,
)
