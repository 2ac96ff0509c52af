"""Exercise: what a model answers when it is not shown some of the patches."""

import math  # noqa: F401, one slip takes it
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import MultiHeadAttention, VisionTransformer

from ..checking import (
    Evidence,
    Exercise,
    Mistake,
    Slip,
    changed_in,
    hooks_left,
    others_hooks,
    random,
    randomise,
    state_of,
)


def my_hide(model: nn.Module, images: Tensor, hidden: Tensor) -> Tensor:
    # hidden: booleans, (n, patches), with the same number of True in each row -> logits
    class_token = torch.ones(len(hidden), 1, dtype=torch.bool)
    stays = torch.cat([class_token, ~hidden], dim=1)

    def take_out(module, args):
        z = args[0]
        return (z[stays].unflatten(0, (len(z), -1)),)

    handle = model.encoder.layers[0].register_forward_pre_hook(take_out)
    try:
        return model(images)
    finally:
        handle.remove()


OTHERS_HOOKS = "hooks of somebody else that are gone afterwards"

OWN_FORWARD = " `forward` that hides its class's"

HALVED = (
    "logits where model.encoder.dropout halves what it is given, as it changes it in train mode"
)

GETS_OUT = "whether an exception in the model gets out"


class _Stop(RuntimeError):
    """Raised by a model while it runs; a RuntimeError, as most that torch raises are."""


def _halve(module: nn.Module, args: tuple, output: Tensor) -> Tensor:
    return output / 2


def traces(model: nn.Module) -> str:
    """The hooks of a model and its parts, and how many have a forward of their own, in words."""
    replaced = sum("forward" in vars(module) for module in model.modules())
    said = []
    if left := hooks_left(model):
        said.append(left)
    if replaced:
        said.append(f"{replaced}{OWN_FORWARD}")
    return " and ".join(said) or "nothing"


def gets_out(model: nn.Module, run: Callable[[], Any]) -> bool:
    """Whether an exception that the model raises while it runs gets out of what runs it."""

    def stop(*_: Any) -> None:
        raise _Stop

    handle = model.heads.register_forward_pre_hook(stop)
    try:
        run()
    except _Stop:
        return True
    finally:
        handle.remove()
    return False


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    from torchvision import models  # slow to import; few checks need it

    if not callable(answer):
        raise Mistake("give the function itself: check.hide(my_hide).")
    # Torchvision's, as it is.
    model = randomise(models.VisionTransformer(16, 4, 2, 2, 8, 16, num_classes=3)).eval()
    borrowed = state_of(model)
    images = random(3, 3, 16, 16, seed=111)
    hidden = torch.zeros(3, 16, dtype=torch.bool)
    for row, places in enumerate(((0, 5, 15), (1, 2, 8), (6, 7, 14))):
        hidden[row, list(places)] = True
    before = hidden.clone()
    with torch.no_grad():
        yield (
            "logits with 3 of 16 patches hidden, other ones in each picture",
            answer(model, images, hidden),
        )
        yield "whether hidden is as it was", bool(torch.equal(hidden, before))
        yield "logits with nothing hidden", answer(model, images, torch.zeros_like(hidden))
        yield "logits afterwards, as the model gives them", model(images)
        yield "what is left behind on the model after two calls", traces(model)
        yield "what has changed in the model", changed_in(model, borrowed)
        borrowed = state_of(model.train())
        answer(model, images, before)
        yield "what has changed in a model in train mode", changed_in(model, borrowed)
        borrowed = state_of(model.eval())
        with others_hooks(model) as gone:
            answer(model, images, before)
            yield OTHERS_HOOKS, gone()

        ours = randomise(VisionTransformer(8, 4, 3, 2, 8, 16, num_classes=3, in_channels=1)).eval()
        for block in ours.encoder.layers:
            block.self_attention = randomise(MultiHeadAttention(8, 2))
        hidden = torch.tensor([[True, False, True, False], [False, True, True, False]])
        yield (
            "logits of a model with attention from scratch",
            answer(ours, random(2, 1, 8, 8, seed=112), hidden),
        )
        yield (
            "logits of a single picture with 2 of 4 patches hidden",
            answer(ours, random(1, 1, 8, 8, seed=114), hidden[:1]),
        )
        handle = model.encoder.dropout.register_forward_hook(_halve)
        try:
            yield HALVED, answer(model, images, before)
        finally:
            handle.remove()

        out = gets_out(model, lambda: answer(model, images, before))
        yield GETS_OUT, out
        yield "what is left behind after an exception", traces(model)
        yield "what has changed in the model after an exception", changed_in(model, borrowed)
        borrowed = state_of(model.train())
        gets_out(model, lambda: answer(model, images, before))
        yield (
            "what has changed in a model in train mode after an exception",
            changed_in(model, borrowed),
        )


def notice(answer: Any) -> Mistake | None:
    """What stays on the model, and which tokens the blocks and the heads get."""
    from torchvision import models  # slow to import; few checks need it

    model = randomise(models.VisionTransformer(16, 4, 2, 2, 8, 16, num_classes=3)).eval()
    images, hidden = random(2, 3, 16, 16, seed=113), torch.zeros(2, 16, dtype=torch.bool)
    hidden[0, [0, 5, 15]] = hidden[1, [1, 2, 8]] = True
    borrowed = state_of(model)
    with torch.no_grad():
        answer(model, images.clone(), hidden.clone())
    if left := hooks_left(model):
        return hooks_stay(left)
    if (changed := changed_in(model, borrowed)) != "nothing":
        return model_changed(changed)
    with torch.no_grad():
        right = my_hide(model, images, hidden)
        found, lengths = _watched(model, lambda: answer(model, images.clone(), hidden.clone()))
    if found.shape == right.shape and torch.allclose(found, right, atol=1e-5):
        return _noticed_single(answer)  # whatever the blocks get, it is not at fault
    for number, seen in enumerate(lengths):
        if len(seen) == 1 and seen != {14}:  # several are those of several passes
            return Mistake(
                f"With 3 of 16 patches hidden, block {number} works on {min(seen)} tokens.",
                "There should be 14: the class token and the 13 patches that stay. Take the others"
                " out before the first block, and only there.",
            )
    if found.shape != (2, 3):
        return Mistake(
            f"Of 2 pictures, and a model of 3 classes, you make the shape {tuple(found.shape)}.",
            "The logits are asked for, as the model gives them: a number for each picture and"
            " class, (2, 3).",
        )
    return _noticed_tokens(answer, model, images, hidden) or _noticed_single(answer)


def _watched(model: nn.Module, run: Callable[[], Tensor]) -> tuple[Tensor, list[set[int]]]:
    """What a run gives, and on how many tokens each block works in it."""
    lengths: dict[nn.Module, set[int]] = {}
    handles = []

    def look(module: nn.Module, args: tuple, kwargs: dict) -> None:
        tokens = args[0] if args else kwargs["query"]
        lengths[module].add(tokens.shape[1])

    for block in model.encoder.layers:
        lengths[block.self_attention] = set()
        handles.append(block.self_attention.register_forward_pre_hook(look, with_kwargs=True))
    try:
        return run(), list(lengths.values())
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def _noticed_tokens(
    answer: Any, model: nn.Module, images: Tensor, hidden: Tensor
) -> Mistake | None:
    """Which tokens the first block gets, and in which order, in the first picture.

    It has to run once, on all pictures: of several passes nothing is said.
    """
    inputs: list[Tensor] = []
    handle = model.encoder.layers[0].ln_1.register_forward_pre_hook(
        lambda module, args: inputs.append(args[0])
    )
    try:
        model(images)
        answer(model, images.clone(), hidden.clone())
    finally:
        handle.remove()
    if len(inputs) != 2 or len(inputs[1]) != len(images):
        return None
    every, given = inputs[0][0], inputs[1][0]
    wanted = [0, *(1 + (~hidden[0]).nonzero()[:, 0]).tolist()]
    numbers = []
    for token in given:
        same = (every - token).abs().amax(dim=-1) < 1e-5
        numbers.append(int(same.int().argmax()) if same.any() else None)
    if numbers == wanted:
        return None
    told = ", ".join("one that is none of them" if n is None else str(n) for n in numbers[:8])
    return Mistake(
        "With patches 0, 5 and 15 hidden, block 0 gets these of the picture's 17 tokens:"
        f" {told}, …",
        f"It should be {', '.join(map(str, wanted[:8]))}, …: token 0 is the class token, which the"
        " heads take from the first place, and patch p is token p + 1, with its own position.",
    )


@torch.no_grad()
def _noticed_single(answer: Any) -> Mistake | None:
    """Whether a single picture is what comes out wrong."""
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=3, in_channels=1)).eval()
    images, hidden = random(2, 1, 8, 8, seed=112), torch.zeros(2, 4, dtype=torch.bool)
    hidden[:, 1:3] = True
    for n in (2, 1):
        right = my_hide(model, images[:n], hidden[:n])
        found = answer(model, images[:n].clone(), hidden[:n].clone())
        is_right = found.shape == right.shape and torch.allclose(found, right, atol=1e-5)
        if n == 2 and not is_right:
            return None
    if is_right:
        return None
    return Mistake(
        "For two pictures yours is right, and for one it is not.",
        "The axis of the pictures stays where its length is 1: (n, how many stay, hidden_dim).",
    )


def tell(evidence: Evidence) -> tuple[str, str]:
    """What stays on a model or is another one, and how that is put right."""
    what, value = evidence.what, evidence.value
    if what == OTHERS_HOOKS:
        return (
            "Before the run each part had a hook of somebody else.",
            "Every register_… returns a handle: keep yours, and call remove() on that alone.",
        )
    if what.startswith("what has changed"):
        return "", _as_it_was(value, "exception" in what)
    if what == HALVED:
        return "", (
            "Dropout does nothing in eval mode, but in train mode it does: what the encoder calls"
            " before the first block must run."
        )
    if what == GETS_OUT:
        return (
            "An exception that model.heads raises when it is called does not come out of your"
            " function.",
            "Whoever calls it must see it: try: … finally: …, without except, and without return"
            " in `finally`.",
        )
    if not what.startswith("what is left behind"):
        return "", ""
    if OWN_FORWARD in value:
        return (
            "After the run, a part has a `forward` of its own, which hides that of its class.",
            "del part.forward takes it away. A hook needs no such thing.",
        )
    if "exception" not in what:
        return "", ""
    return (
        "A hook stays where an exception ends the run.",
        "Remove it in `finally`, which runs after an exception, too.",
    )


def model_changed(changed: str) -> Mistake:
    """What is said where a model is another one after a call."""
    return Mistake(
        f"After one call of your function this of the model is not what it was: {changed}.",
        _as_it_was(changed, False),
    )


def _as_it_was(changed: str, by_exception: bool) -> str:
    """What to do instead of leaving a model changed."""
    if changed.startswith("a new attribute"):
        return (
            "What is written to a part of a model, as in module.kept = …, stays there. Keep it in a"
            " list or a dict of your function, to which its hooks have access, too."
        )
    behind = " in `finally`, which runs after an exception, too" if by_exception else ""
    return f"A borrowed model must be left as it was. Put back what you change{behind}."


def hooks_stay(left: str) -> Mistake:
    """What is said where hooks stay on a model."""
    return Mistake(
        f"After one call of your function the model has {left}; before, it had none.",
        "Every register_… returns a handle: keep each, and remove it in `finally`.",
    )


STAYS, TAKEN = "torch.cat([class_token, ~hidden], dim=1)", "(z[stays].unflatten(0, (len(z), -1)),)"
WHERE = "model.encoder.layers[0].register_forward_pre_hook(take_out)"
END = """try:
        return model(images)
    finally:
        handle.remove()"""

SLIPS = (
    Slip(
        {STAYS: "torch.cat([class_token, hidden], dim=1)"},
        "keep the patches that should be hidden and take out the others",
        "Hidden is True for what goes",
    ),
    Slip(
        {STAYS: "torch.cat([~hidden, class_token], dim=1)"},
        "forget that the class token comes first",
        "Patch 0 is token 1, and the class token must never go",
    ),
    Slip(
        {TAKEN: "(z[:, stays[0]],)"},
        "hide in every picture what is to be hidden in the first one",
        "Each row of hidden belongs to a picture",
    ),
    Slip(
        {
            TAKEN: (
                "(torch.stack([torch.cat([one[:1], one[:-1][there[1:]]])"
                " for one, there in zip(z, stays)]),)"
            )
        },
        "keep the class token, and token p in the place of patch p",
        "Patch p is token p + 1: token 0 is the class token",
    ),
    Slip(
        {TAKEN: "(z * stays.unsqueeze(-1),)"},
        "set tokens to zero",
        "They are still there and are looked at. Take them out",
    ),
    Slip(
        {WHERE: "model.encoder.layers[-1].register_forward_pre_hook(take_out)"},
        "hide the patches from the last block alone",
        "The blocks before it have seen them, and handed on what they saw. Take them out before the"
        " first block",
    ),
    Slip(
        {
            "stays = torch.cat": (
                "side = images.shape[-1] // model.patch_size\n    shown ="
                " (~hidden).float().unflatten(1, (1, side, side))\n    images = images *"
                " nn.functional.interpolate(shown, scale_factor=model.patch_size)\n    stays ="
                " torch.cat"
            ),
            TAKEN: "None",
        },
        "paint the patches in the picture",
        'A painted patch is still a token, and says "here is something blank". Take its token out',
    ),
    Slip(
        {END: "return model(images)"},
        "leave the hook on the model",
        "From then on it hides these patches from everybody. Keep the handle, and remove it",
    ),
    Slip(
        {"handle.remove()": "model.encoder.layers[0]._forward_pre_hooks.clear()"},
        "take away all hooks of a part of the model, somebody else's too",
        "Every register_… returns a handle: keep yours, and call remove() on that alone",
    ),
    Slip(
        {"return model(images)": "return model.train()(images)"},
        "leave the model, or a part of it, in train mode",
        "Whoever hides patches leaves the mode alone",
    ),
    Slip(
        {"return model(images)": "return model.eval()(images)"},
        "leave the model, or a part of it, in eval mode",
        "Whoever hides patches leaves the mode alone",
    ),
    Slip(
        {END: "logits = model(images)\n    handle.remove()\n    return logits"},
        "remove the hook only where the model raises nothing",
        "An exception in the model jumps over what stands behind it. Write try: … finally: …",
    ),
    Slip(
        {"return model(images)": "return model(images).softmax(dim=-1)"},
        "give probabilities",
        "Logits are asked for, as the model gives them",
    ),
    Slip(
        {WHERE: "model.encoder.register_forward_pre_hook(take_out)"},
        "take the patches out before the encoder adds the positions",
        (
            "The encoder adds a position to every token, so all must still be there. Take the"
            " hidden ones out after that, before the first block"
        ),
    ),
    Slip(
        {
            WHERE: (
                "[block.register_forward_pre_hook(take_out) for block in model.encoder.layers]"
            ),
            "handle.remove()": "_ = [one.remove() for one in handle]",
        },
        "take the patches out before every block",
        "The second block gets what the first one gives, without them: hook the first one alone",
    ),
    Slip(
        {WHERE: "model.encoder.ln.register_forward_pre_hook(take_out)"},
        "hide nothing that reaches the answer: these are the logits of the whole pictures",
        "Take the tokens out before the first block: what its pre-hook returns, a tuple, takes the"
        " place of what it is given",
    ),
    Slip(
        {
            STAYS: (
                "torch.cat([class_token, ~hidden.unflatten(1, (math.isqrt(hidden.shape[1]), -1))"
                ".transpose(1, 2).flatten(1)], dim=1)"
            )
        },
        "exchange rows and columns of the patches",
        "They are numbered row by row, as the columns of hidden are",
    ),
    Slip(
        {
            TAKEN: (
                "((z - model.encoder.pos_embedding)[stays].unflatten(0, (len(z), -1))"
                " + model.encoder.pos_embedding[:, : int(stays[0].sum())],)"
            )
        },
        "give the patches that stay the first positions",
        (
            "A patch that stays keeps the position of its own place. Let the encoder add all"
            " positions, and take the hidden patches out after that"
        ),
    ),
    Slip(
        {
            "return model(images)": (
                "skip = model.encoder.ln.register_forward_hook(lambda m, args, output: args[0])\n"
                "        try:\n            return model(images)\n"
                "        finally:\n            skip.remove()"
            )
        },
        "leave out encoder.ln, the last norm",
        "It stands between the last block and the heads",
    ),
)

EXERCISE = Exercise(
    answer=my_hide,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    hints=(
        (
            "Where in the model is a patch a token of its own, that already knows its place and has"
            " not been looked at? A pre-hook there may change what goes in. And which token must"
            " always stay?"
        ),
        (
            "Put a True for the class token before ~hidden. In a pre-hook of"
            " model.encoder.layers[0], args[0] is z, (n, 1 + patches, hidden_dim): index it with"
            " those booleans, give it back its shape (n, what is left, hidden_dim), and return it"
            " in a tuple. Remove the hook in `finally`."
        ),
    ),
    same=(
        {TAKEN: "(torch.stack([one[left] for one, left in zip(z, stays)]),)"},
        {
            "model.encoder.layers[0].register": "model.encoder.dropout.register",
            "register_forward_pre_hook": "register_forward_hook",
            "def take_out(module, args):": "def take_out(module, args, output):",
            "z = args[0]": "z = output",
            TAKEN: "z[stays].unflatten(0, (len(z), -1))",
        },
    ),
    tolerance=1e-5,
)
