"""Exercise: activation patching, some tokens of one run in the place of another run's."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import MultiHeadAttention, VisionTransformer

from ..checking import (
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
from .hide import GETS_OUT, OTHERS_HOOKS, gets_out, hooks_stay, model_changed, tell, traces


def my_patch(model: nn.Module, clean: Tensor, corrupted: Tensor, site: nn.Module, tokens: slice):
    # clean, corrupted: (n, c, h, w); site: a part of the model; tokens: which tokens of its output
    # -> logits for `corrupted`, if these tokens came from the run on `clean`
    kept = []

    def keep(module, args, output):
        kept.append(output[0] if isinstance(output, tuple) else output)

    def put_in(module, args, output):
        is_pair = isinstance(output, tuple)
        new = (output[0] if is_pair else output).clone()
        new[:, tokens] = kept[0][:, tokens]
        return (new, *output[1:]) if is_pair else new

    for hook, images in ((keep, clean), (put_in, corrupted)):
        handle = site.register_forward_hook(hook)
        try:
            logits = model(images)
        finally:
            handle.remove()
    return logits


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    from torchvision import models  # slow to import; few checks need it

    if not callable(answer):
        raise Mistake("give the function itself: check.patch(my_patch).")
    # Torchvision's, as it is.
    model = randomise(models.VisionTransformer(16, 4, 2, 2, 8, 16, num_classes=3)).eval()
    borrowed = state_of(model)
    clean, corrupted = random(3, 3, 16, 16, seed=151), random(3, 3, 16, 16, seed=152)
    first, last = model.encoder.layers
    with torch.no_grad():
        yield (
            "logits with patches from the clean run, after the first MLP",
            answer(model, clean, corrupted, first.mlp, slice(1, None)),
        )
        yield (
            "logits with the class token from the clean run, after the last attention",
            answer(model, clean, corrupted, last.self_attention, slice(0, 1)),
        )
        yield (
            "logits with patches 2 and 3 from the clean run, after the first attention",
            answer(model, clean, corrupted, first.self_attention, slice(2, 4)),
        )
        yield "logits afterwards, as the model gives them", model(clean)
        yield "what is left behind on the model after three calls", traces(model)
        yield "what has changed in the model", changed_in(model, borrowed)
        borrowed = state_of(model.train())
        answer(model, clean, corrupted, first.mlp, slice(0, 1))
        yield "what has changed in a model in train mode", changed_in(model, borrowed)
        borrowed = state_of(model.eval())
        with others_hooks(model) as gone:
            answer(model, clean, corrupted, first.mlp, slice(0, 1))
            yield OTHERS_HOOKS, gone()

        ours = randomise(VisionTransformer(8, 4, 3, 2, 8, 16, num_classes=3, in_channels=1)).eval()
        for block in ours.encoder.layers:
            block.self_attention = randomise(MultiHeadAttention(8, 2))
        pictures = random(2, 2, 1, 8, 8, seed=153)
        site = ours.encoder.layers[1].self_attention
        yield (
            "logits of a model with attention from scratch",
            answer(ours, pictures[0], pictures[1], site, slice(0, 1)),
        )

        out = gets_out(model, lambda: answer(model, clean, corrupted, first.mlp, slice(0, 1)))
        yield GETS_OUT, out
        yield "what is left behind after an exception", traces(model)
        yield "what has changed in the model after an exception", changed_in(model, borrowed)
        borrowed = state_of(model.train())
        gets_out(model, lambda: answer(model, clean, corrupted, first.mlp, slice(0, 1)))
        yield (
            "what has changed in a model in train mode after an exception",
            changed_in(model, borrowed),
        )


def notice(answer: Any) -> Mistake | None:
    """What stays on the model; on what it runs; which tokens come from where."""
    from torchvision import models  # slow to import; few checks need it

    model = randomise(models.VisionTransformer(16, 4, 2, 2, 8, 16, num_classes=3)).eval()
    clean, corrupted = random(2, 3, 16, 16, seed=154), random(2, 3, 16, 16, seed=155)
    site = model.encoder.layers[0].mlp
    with torch.no_grad():
        borrowed = state_of(model)
        answer(model, clean.clone(), corrupted.clone(), site, slice(1, 3))
        if left := hooks_left(model):
            return hooks_stay(left)
        if (changed := changed_in(model, borrowed)) != "nothing":
            return model_changed(changed)
        right = my_patch(model, clean, corrupted, site, slice(1, 3))
        ran: list[str] = []
        hooks: list[int] = []
        pictures = torch.cat([clean, corrupted])

        def look(module: nn.Module, args: tuple) -> None:
            names = {"clean": clean, "corrupted": corrupted}
            fitting = [name for name, one in names.items() if torch.equal(args[0], one)]
            is_some = all(any(torch.equal(one, own) for own in pictures) for one in args[0])
            ran.append(fitting[0] if fitting else SOME if is_some else OTHERS)
            hooks.append(len(site._forward_hooks))

        looking = model.register_forward_pre_hook(look)
        found = answer(model, clean.clone(), corrupted.clone(), site, slice(1, 3))
        looking.remove()
        if found.shape == right.shape and torch.allclose(found, right, atol=1e-5):
            return _noticed_site(answer, model, clean, corrupted)  # the runs are not at fault
        if found.shape != (2, 3):
            return Mistake(
                "Of 2 clean and 2 corrupted pictures, and a model of 3 classes, you make the shape"
                f" {tuple(found.shape)}.",
                "The logits for corrupted alone are asked for, as the model gives them: (2, 3).",
            )
        is_as_ours = set(ran) == {"clean", "corrupted"} and ran[-1] == "corrupted"
        if not is_as_ours and SOME not in ran:  # picture by picture, or all at once, is right, too
            times = f"{len(ran)} time{'s' * (len(ran) != 1)}, on {', '.join(ran)}"
            return Mistake(
                f"The model runs {times}." if ran else "The model itself never runs.",
                "It should run twice: on clean, where the output of `site` is kept, and then on"
                " corrupted, where the tokens are put in.",
            )
        if (
            len(ran) == 2
            and hooks[1] > 1
            and _is_right_without_the_first_hook(
                right,
                lambda: answer(model, clean.clone(), corrupted.clone(), site, slice(1, 3)),
                site,
            )
        ):
            return Mistake(
                "In the run on corrupted `site` has another hook of yours before the one that puts"
                " the tokens in: without the first of them yours is right.",
                "A hook that keeps the output keeps that of the second run, too, if it is still"
                " there. Remove it before the second run.",
            )
        cases = {
            "the clean pictures, with nothing put in": model(clean),
            NOTHING: model(corrupted),
            "all tokens": my_patch(model, clean, corrupted, site, slice(None)),
            "the tokens before `tokens`": my_patch(model, clean, corrupted, site, slice(0, 1)),
            "the tokens that follow on `tokens`": my_patch(
                model, clean, corrupted, site, slice(3, None)
            ),
            "the tokens one place further on than `tokens`": my_patch(
                model, clean, corrupted, site, slice(2, 4)
            ),
        }
    if found.shape == right.shape and torch.allclose(found, cases[NOTHING], atol=1e-5):
        on = f"{hooks[-1]} forward hook{'s' * (hooks[-1] != 1)}"
        return Mistake(
            f"You get the logits of {NOTHING}. When that run begins, `site` has {on}.",
            "What a hook of `site` returns takes the place of the output. Return a copy of the"
            " output, a tuple where it is one, in which [:, tokens] are those of the run on clean.",
        )
    for name, logits in cases.items():
        if found.shape == logits.shape and torch.allclose(found, logits, atol=1e-5):
            return Mistake(
                f"You get the logits of {name}." if "pictures" in name else f"You exchange {name}.",
                "Into the output of `site` in the run on corrupted, put [:, tokens] of the run on"
                " clean, and let all else stay. Token 0 is the class token.",
            )
    return _noticed_site(answer, model, clean, corrupted) or _noticed_tokens(
        answer, model, clean, corrupted
    )


@torch.no_grad()
def _noticed_site(
    answer: Any, model: nn.Module, clean: Tensor, corrupted: Tensor
) -> Mistake | None:
    """Which parts have hooks of an answer, where `site` is the second MLP."""
    site = model.encoder.layers[1].mlp
    hooked: set[str] = set()

    def look(*_: Any) -> None:
        for name, part in model.named_modules():
            if part._forward_hooks and type(part) is type(site):
                hooked.add(f"the MLP of block {name.split('_')[-1].split('.')[0]}")

    right = my_patch(model, clean, corrupted, site, slice(1, 3))
    handle = model.encoder.register_forward_pre_hook(look)
    try:
        found = answer(model, clean.clone(), corrupted.clone(), site, slice(1, 3))
    finally:
        handle.remove()
    is_right = found.shape == right.shape and torch.allclose(found, right, atol=1e-5)
    if is_right or not hooked or hooked == {"the MLP of block 1"}:
        return None
    return Mistake(
        f"Where `site` is the MLP of block 1, your hooks are on {' and '.join(sorted(hooked))}.",
        "`site` is the part itself: register on site alone, site.register_forward_hook(…). Other"
        " parts may be of the same class.",
    )


@torch.no_grad()
def _noticed_tokens(
    answer: Any, model: nn.Module, clean: Tensor, corrupted: Tensor
) -> Mistake | None:
    """What stands at which token of the output of `site`, the first MLP, in the last run."""
    first, last = model.encoder.layers
    went: list[Tensor] = []  # into the second block
    made: list[Tensor] = []  # by the first MLP, before it is changed
    handles = [
        last.register_forward_pre_hook(lambda module, args: went.append(args[0])),
        first.mlp[-1].register_forward_hook(lambda module, args, output: made.append(output)),
    ]
    try:
        for images in (clean, corrupted):
            model(images)
        answer(model, clean.clone(), corrupted.clone(), first.mlp, slice(1, 3))
    finally:
        for handle in handles:
            handle.remove()
    if went[-1].shape != went[1].shape:
        return None
    of_clean, of_corrupted = made[:2]
    output = went[-1] - (went[1] - of_corrupted)  # without what the residual connection adds
    pictures = []
    for picture in range(len(output)):
        pictures.append(_runs_of(output[picture], picture, of_clean, of_corrupted))
    if all(runs[CLEAN] == [1, 2] and len(runs[CORRUPTED]) == 15 for runs in pictures):
        return None
    told = [_told_runs(runs) for runs in pictures]
    if told[0] == told[1]:
        where = told[0]
    else:
        where = ". ".join(f"In picture {number} {one}" for number, one in enumerate(told))
        where = f"this. {where}"
    instead = (
        "In each picture it should be that of the run on clean at 1 and 2, as it is, and that of"
        " the run on corrupted at all others."
    )
    if told[0] != told[1] and all(17 in map(len, runs.values()) for runs in pictures):
        instead += " The first axis is that of the pictures; tokens are the second: [:, tokens]."
    return Mistake(
        "Where `site` is the first MLP, and tokens is slice(1, 3), its output of 17 tokens has, in"
        f" the run on corrupted, {where}.",
        instead,
    )


def _runs_of(
    output: Tensor, picture: int, of_clean: Tensor, of_corrupted: Tensor
) -> dict[str, list[int]]:
    """Which tokens of a picture come from which run; one of another place or picture is told
    apart."""
    runs: dict[str, list[int]] = {CLEAN: [], CORRUPTED: [], ELSEWHERE: [], NEITHER: []}
    for token, numbers in enumerate(output):
        if _is_close(numbers, of_corrupted[picture, token]):
            run = CORRUPTED
        elif _is_close(numbers, of_clean[picture, token]):
            run = CLEAN
        elif any(_is_close(numbers, other) for other in of_clean.flatten(0, 1)):
            run = ELSEWHERE
        else:
            run = NEITHER
        runs[run].append(token)
    return runs


def _is_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, atol=1e-4)


def _told_runs(runs: dict[str, list[int]]) -> str:
    """Which tokens come from which run, in words."""
    said = [f"at {_listed(tokens)} {run}" for run, tokens in runs.items() if tokens]
    return "; ".join(said)


def _listed(tokens: list[int]) -> str:
    """Numbers in words, with … where there are many."""
    told = ", ".join(map(str, tokens[:4]))
    return f"{told} … {tokens[-1]}" if len(tokens) > 4 else told


def _is_right_without_the_first_hook(right: Tensor, run: Any, site: nn.Module) -> bool:
    """Whether a run of an answer is right if the first hook of `site` goes before the second of its
    two calls."""
    calls: list[int] = []

    def take_away(module: nn.Module, args: tuple) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            site._forward_hooks.pop(next(iter(site._forward_hooks)))

    handle = site.register_forward_pre_hook(take_away)
    try:
        found = run()
    finally:
        handle.remove()
    return found.shape == right.shape and torch.allclose(found, right, atol=1e-5)


SOME, OTHERS = "some of the pictures", "other pictures"
CLEAN, CORRUPTED = "those of clean", "those of corrupted"
ELSEWHERE, NEITHER = "other tokens of clean", "tokens of neither run"
NOTHING = "the corrupted pictures, with nothing put in"
TOKENS = "new[:, tokens] = kept[0][:, tokens]"
RUNS = "((keep, clean), (put_in, corrupted))"
KEEP = "kept.append(output[0] if isinstance(output, tuple) else output)"
GIVES = "return (new, *output[1:]) if is_pair else new"
CLONED = "new = (output[0] if is_pair else output).clone()"
CLEAN_UP = """try:
            logits = model(images)
        finally:
            handle.remove()"""

SLIPS = (
    Slip(
        {RUNS: "((keep, corrupted), (put_in, clean))"},
        "put tokens of the corrupted run into the clean one",
        "The run on `clean` is kept, and the run on `corrupted` is changed",
    ),
    Slip(
        {TOKENS: "new[:] = kept[0]"},
        "exchange all tokens",
        "Only the tokens that are given come from the clean run",
    ),
    Slip(
        {TOKENS: "kept[0] = kept[0].clone()\n        kept[0][:, tokens] = new[:, tokens]"}
        | {GIVES: "return (kept[0], *output[1:]) if is_pair else kept[0]"},
        "exchange all tokens but these",
        "The tokens that are given come from the clean run, the others from the corrupted one",
    ),
    Slip(
        {TOKENS: "new[:, tokens.start] = kept[0][:, tokens.start]"},
        "exchange only the first of the tokens",
        "tokens is a slice, and all that it chooses come from the clean run: [:, tokens]",
    ),
    Slip(
        {CLEAN_UP: f"{CLEAN_UP}\n    logits = logits - model(corrupted)"},
        "give the difference to the logits of the corrupted pictures with nothing put in",
        "The logits themselves are asked for, as the changed run gives them",
    ),
    Slip(
        {TOKENS: "new[:, tokens] = (new[:, tokens] + kept[0][:, tokens]) / 2"},
        "take the mean of both runs at these tokens",
        "The clean run's tokens take the place of the corrupted run's",
    ),
    Slip(
        {TOKENS: "new[:, tokens.start :] = kept[0][:, tokens.start :]"},
        "exchange all tokens from tokens.start on, whatever tokens.stop is",
        "tokens is a slice with an end: [:, tokens] chooses what it means",
    ),
    Slip(
        {TOKENS: "new[:, tokens] += kept[0][:, tokens]"},
        "add the clean run's tokens to the corrupted run's",
        "The clean run's tokens take the place of the corrupted run's",
    ),
    Slip(
        {TOKENS: "new[:, tokens] = kept[0][:1, tokens]"},
        "put the first picture's tokens into all pictures",
        "Picture i of `corrupted` gets those of picture i of `clean`",
    ),
    Slip(
        {TOKENS: "new[:, tokens] = kept[0][:, tokens].mean(dim=1, keepdim=True)"},
        "put the mean of these tokens in the place of each",
        "Each token comes from its own place",
    ),
    Slip(
        {TOKENS: "new[tokens] = kept[0][tokens]"},
        "choose pictures by the slice, in place of tokens",
        "The first axis is that of the pictures; tokens are the second: [:, tokens]",
    ),
    Slip(
        {TOKENS: "new[..., tokens] = kept[0][..., tokens]"},
        "choose numbers of each token by the slice, in place of tokens",
        "Tokens are the second axis, and the numbers of a token the last: [:, tokens]",
    ),
    Slip(
        {
            KEEP: "kept.append(args[0])",
            "def keep(module, args, output):": "def keep(module, args):",
            "def put_in(module, args, output):": "def put_in(module, args):\n        output = args",
            "site.register_forward_hook(hook)": "site.register_forward_pre_hook(hook)",
        },
        "change what `site` is given, the first of its inputs",
        "What it gives is changed, its output: register_forward_hook, and not a pre-hook",
    ),
    Slip(
        {
            KEEP: "kept.append(args[0])",
            "def keep(module, args, output):": "def keep(module, args):",
            "def put_in(module, args, output):": "def put_in(module, args):\n        output = args",
            GIVES: "return (new,) * len(args)",
            "site.register_forward_hook(hook)": "site.register_forward_pre_hook(hook)",
        },
        "change what `site` is given, all of its inputs alike",
        "What it gives is changed, its output: register_forward_hook, and not a pre-hook",
    ),
    Slip(
        {TOKENS: "new[:, tokens] = 0"},
        "set the tokens to zero",
        "They are those of the clean run",
    ),
    Slip(
        {KEEP: "kept.append(args[0])"},
        "keep what `site` is given in the clean run",
        "What it gives there, its output, is put into the other run",
    ),
    Slip(
        {KEEP: "kept.append(args[0] if isinstance(output, tuple) else output)"},
        "keep what `site` is given in the clean run, where its output is a pair",
        "What it gives is put into the other run: the first part of the pair, output[0]",
    ),
    *(
        Slip(
            {KEEP: "kept.append(output)", CLONED: new, GIVES: "return new"},
            "take the output of every layer for a tensor",
            "An MLP gives a tensor, but attention gives a pair, its output and the weights: keep"
            " output[0], write into its clone, and return (clone, output[1])",
        )
        for new in ("new = output", "new = output.clone()")
    ),
    Slip(
        {GIVES: "return new"},
        "return the tensor alone from your hook, where the layer gives a pair",
        "What a hook returns, if it is not None, takes the place of the output: where that is a"
        " pair, your hook must give the pair back, with the changed tensor as its first part",
    ),
    Slip(
        {GIVES: "return (new,) if is_pair else new"},
        "return a tuple of one part from your hook, where the layer gives a pair",
        "What a hook returns takes the place of the output: give the pair back, (new, output[1])",
    ),
    Slip(
        {GIVES: "return new, None"},
        "return a pair from your hook, where the layer gives a tensor alone",
        "What a hook returns takes the place of the output: a pair only where that is one",
    ),
    Slip(
        {CLEAN_UP: CLEAN_UP.replace("model(images)", "model.eval()(images)")},
        "leave the model, or a part of it, in eval mode",
        "Leave the mode alone",
    ),
    Slip(
        {"handle.remove()": "site._forward_hooks.clear()"},
        "take away all hooks of `site`, somebody else's too",
        "Every register_… returns a handle: keep yours, and call remove() on that alone",
    ),
    Slip(
        {CLEAN_UP: "logits = model(images)"},
        "leave the hooks on the model",
        "From then on they change every run. Keep each handle, and remove it",
    ),
    Slip(
        {CLEAN_UP: "logits = model(images)\n        handle.remove()"},
        "remove the hooks only where the model raises nothing",
        "An exception in the model jumps over what stands behind it. Write try: … finally: …",
    ),
)

EXERCISE = Exercise(
    answer=my_patch,
    compare=compare,
    stars=3,
    slips=SLIPS,
    tell=tell,
    notice=notice,
    hints=(
        (
            "Two runs: one whose output at `site` is kept, one in which a hook returns something"
            " else than it got. What do you do where the output is a pair, as an attention layer's"
            " is?"
        ),
        (
            "A forward hook gets (module, args, output), and what it returns takes the output's"
            " place. Clone the output (its first part, if it is a tuple), write the kept tokens"
            " into [:, tokens], and return the clone, in a tuple with the rest if it was one."
            " Remove both hooks in `finally`."
        ),
    ),
    same=(
        {CLONED: "new = torch.empty_like(kept[0]).copy_(output[0] if is_pair else output)"},
        {RUNS: "[(keep, clean), (put_in, corrupted)]"},
    ),
    tolerance=1e-5,
)
