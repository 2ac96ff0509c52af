"""What is said of a model: its differences from ours, or what is seen of one without a name."""

import re
from collections import defaultdict
from contextlib import suppress

import torch
from torch import Tensor

from mnist_vit.model import VisionTransformer

from ..checking.comparing import compare
from ..observing.calls import Call
from ..observing.looking import moved, partly, rows, transformed
from .building import EPS, joined, listed
from .explaining import our_values
from .following import Difference, Following
from .matching import POSITIONS, Source
from .slips import ALL_TOKENS, NO_HEAD, NO_NORMS, NO_TOKEN, together
from .trial import Trial
from .values import LOGITS, comparable

FOREIGN = "the parameters are not ours."
ALL_ELSE = "Apart from this everything is equal."
NOT_COMPARED = "Gradients and train mode were not compared."
NO_MORE = f"In what was compared, no other difference was found. {NOT_COMPARED}"
EXACTLY = "the logits are wrong. You get exactly this when you"
NO_LOGITS = "the output is no logits. You get exactly this when you"
MANY = 12  # parameters of one model alone, those of other blocks not counted
KINDS = {  # what names tell of a model that is of another kind
    "relative_position|rel_pos": "a relative position bias",
    "downsample|merging": "stages of different widths",
    "parametrizations": "matrices that are normalised",
    "pool|probe": "a layer that pools the tokens",
    "reg_token|register|storage": "register tokens",
    "dist": "a distillation token",
    "temperature|logit_scale": "a learned temperature",
    "w12|gate|fc1_g": "a gated MLP",
}


def mistakes(trial: Trial) -> list[str]:
    """What is other than in ours, each as the end of "when you …"."""
    edits = list(trial.setting.edits)
    if trial.seen.head:  # it is told that the head is not compared, and what it takes
        edits = [slip for slip in edits if slip not in (NO_HEAD, ALL_TOKENS)]
    if _lacks_its_norms(trial):  # they are told as what only theirs has
        edits = [slip for slip in edits if slip not in NO_NORMS]
    return [*_eps(trial), *together(edits)]


def _lacks_its_norms(trial: Trial) -> bool:
    """Whether norms of a block of theirs were left out, as they are none of ours."""
    for path in trial.left_out:
        kind = type(trial.theirs.get_submodule(path)).__name__
        names = [name for name in trial.extra if name.startswith(f"{path}.")]
        in_block = any(trial.places.get(name, -1) >= 0 for name in names)
        if in_block and "norm" in kind.lower():
            return True
    return False


def _eps(trial: Trial) -> list[str]:
    """Another eps of their norms."""
    last = "the last norm's eps"
    others = "the eps of the blocks' norms"
    norms: dict[str, set[float]] = {last: set(), others: set()}
    of_rms: set[float] = set()
    for own, source in trial.sources.items():
        path = own.rpartition(".")[0]
        if "ln" in source.name and source.name.endswith("weight") and path in trial.eps:
            kind = norms[last if "encoder.ln" in source.name else others]
            kind = of_rms if path in trial.rms_norms else kind
            kind.add(trial.eps[path])
    if norms[last] in (norms[others], set()):
        norms = {"LayerNorm's eps": norms[others]}
    norms["RMSNorm's eps"] = of_rms
    found = []
    for what, several in norms.items():
        for eps in sorted(several - {EPS}):
            did = f"set {what} to {eps:g}"
            if eps == 1e-5:
                did = f"leave {what} at torch's default, 1e-5"
            found.append(f"{did}. Torchvision's is 1e-6")
    return found


def about_parameters(trial: Trial) -> list[str]:
    """How the parameters differ from ours, in sentences."""
    if not trial.able:
        return _another_kind(trial)
    lines = [trial.ignored] if trial.ignored else []
    return [*lines, *_unmatched(trial), *_parts(trial)]


def _unmatched(trial: Trial) -> list[str]:
    """Parameters of ours and of theirs that have no counterpart.

    Where modules have the same shapes, they may be the same parts, which were not recognised.
    """
    lines = []
    missing = _shapes(trial.missing, trial.our_shapes)
    extra = _extra(trial)
    ours = _by_module(trial.missing, trial.our_shapes)
    theirs = _by_module(trial.extra, trial.their_shapes)
    if any(shapes in theirs.values() for shapes in ours.values()):
        return [f"Not matched with each other: of ours {missing}; of yours {extra}."]
    if missing:
        lines.append(f"Ours has, yours lacks: {missing}.")
    if extra:
        lines.append(f"Yours has, ours lacks: {extra}.")
    return lines


def _by_module(names: list[str], shapes: dict[str, tuple]) -> dict[str, list[tuple]]:
    """The shapes of these parameters, by the module that they belong to."""
    found = defaultdict(list)
    for name in names:
        found[name.rpartition(".")[0]].append(shapes[name])
    return found


def _extra(trial: Trial) -> str:
    """Modules that were left out, and parameters that only theirs has."""
    names = []
    for path in trial.left_out:
        module = trial.theirs.get_submodule(path)
        kind = type(module).__name__
        numbers = next(module.parameters()).numel()
        is_usual = numbers == trial.ours.hidden_dim or kind == "Linear"
        names.append(f"{path} ({kind})" if is_usual else f"{path} ({kind} of {numbers} numbers)")
    for name in trial.extra:
        if name.rpartition(".")[0] not in trial.left_out and name not in trial.silent:
            names.append(f"{name} {trial.their_shapes[name]}")
    return listed(names)


def _another_kind(trial: Trial) -> list[str]:
    """Models that are not compared any further."""
    lines = [*_unmatched(trial), "They are not compared any further."]
    names = " ".join(trial.their_shapes)
    kinds = [words for pattern, words in KINDS.items() if re.search(pattern, names)]
    different = {re.sub(r"\d+", "", name) for name in [*trial.missing, *trial.extra]}
    if len(different) < MANY or not kinds:
        return lines
    return [
        f"This is another kind of model with {', '.join(kinds)}: {len(trial.missing)} parameters of"
        f" ours have no counterpart, such as {trial.missing[0]}, and {len(trial.extra)} of yours,"
        f" such as {trial.extra[0]}."
    ]


def _parts(trial: Trial) -> list[str]:
    """Of which parameters theirs has only a part, or which are fixed."""
    lines = []
    for own, source in trial.sources.items():
        if source.name != POSITIONS:
            continue
        if own not in trial.their_shapes:
            lines.append(f"Your position embedding, {own}, is no parameter: it is not learned.")
        elif own in frozen(trial):
            lines.append(f"Your position embedding, {own}, has requires_grad=False: not learned.")
        if source.rows and NO_TOKEN not in trial.setting.edits:
            lines.append("Your position embedding has no row for the class token.")
    if trial.makes_positions:
        lines.append(
            "Yours adds the same numbers to the tokens of every picture, which are no parameter:"
            " positions that are not learned."
        )
    for _, source in trial.sources.items():
        if source.columns:
            side = source.columns[1] - source.columns[0]
            lines.append(
                f"Each of your heads sees only its own slice of a token: its matrices are ({side},"
                f" {side}), and ours ({side}, {trial.ours.hidden_dim})."
            )
            break
    return [*lines, *_rows_missing(trial), *trial.uncompared]


def frozen(trial: Trial) -> list[str]:
    """Their parameters that ask for no gradient."""
    named = trial.theirs.named_parameters()
    return [name for name, parameter in named if not parameter.requires_grad]


def _rows_missing(trial: Trial) -> list[str]:
    """Biases that only some of queries, keys and values have."""
    width = trial.ours.hidden_dim
    for name in trial.our_shapes:
        if not name.endswith("in_proj_bias"):
            continue
        there = [source.rows for source in trial.sources.values() if source.name == name]
        if not there or None in there:
            continue
        lacking = []
        for number, part in enumerate(("queries", "keys", "values")):
            if not any(rows[0] <= number * width < rows[1] for rows in there if rows):
                lacking.append(part)
        if lacking:
            return [f"Yours has no bias for the {' and '.join(lacking)}."]
    return []


def notes(trial: Trial) -> list[str]:
    """What is worth knowing, and is no difference."""
    lines = []
    if any(own != source.name for own, source in trial.sources.items()):
        example, source = max(trial.sources.items(), key=_oddness)
        matched = sum(own in trial.their_shapes for own in trial.sources)
        lines.append(
            f"{matched} parameters were matched by block, shape and order, such as"
            f" {example} with {source.said()}."
        )
    size = dict(trial.setting.sizes).get("representation_size")
    if size and not trial.takes_representation:
        lines.append(
            f"Its head has two layers. It was compared with ours of representation_size={size}."
        )
    if trial.seen.taken:
        lines.append(f"What was compared is {trial.seen.taken}.")
    if trial.unused:
        lines.append(f"In eval mode forward does not use {listed(trial.unused)}.")
    return lines


def explained(trial: Trial, first: str, besides: list[str]) -> list[str]:
    """The differences, where they are all known.

    Args:
        trial: the trial, with which the logits are equal.
        first: the first value that differs, in words, where slips explain it.
        besides: what else is wrong.
    """
    several = mistakes(trial)
    about = about_parameters(trial)
    if first:
        about.append(f"{_first(first, _before(trial))}.")
    if not several:
        return [FOREIGN, *about, *(besides or [ALL_ELSE])]
    exactly = NO_LOGITS if NO_HEAD in trial.setting.edits else EXACTLY
    if len(several) == 1:
        return [f"{exactly} {several[0]}.", *about, *besides]
    items = [f"- {one}." for one in several]
    return [f"{exactly}, all together:", *items, *about, *besides]


def _before(trial: Trial) -> list[str]:
    """What was put right before the values were compared, and makes earlier ones differ."""
    before = ["eps"] if _eps(trial) else []
    if trial.makes_positions:
        before.append("the positions")
    if trial.setting.neutral or trial.extra or trial.seen_before:
        before.append("what the parameters show")
    return before


def _first(value: str, before: list[str]) -> str:
    """A sentence, without its full stop, on the first value that differs apart from these."""
    if not before:
        return f"The first value that differs is {value}"
    return f"Apart from {joined(before)}, the first value that differs is {value}"


def in_part(trial: Trial) -> list[str]:
    """What is said where a part was taken out of both models, and the rest does not differ."""
    return [FOREIGN, *about_parameters(trial), *_put_right(trial), NO_MORE]


def _put_right(trial: Trial) -> list[str]:
    known = mistakes(trial)
    if not known:
        return []
    return ["This was put right before the comparison:", *[f"- you {one}." for one in known]]


def unexplained(following: Following) -> list[str]:
    """What can be said where there is a difference without a name."""
    trial = following.trial
    problem = trial.problem() or ""
    about = [*about_parameters(trial), *_put_right(trial)]
    if trial.is_random or trial.changes:
        return [problem, *about]
    others = _other_tokens(trial)
    if others:
        return [FOREIGN if trial.is_foreign else problem, *about, others]
    if trial.replaced and not following.unnamed:
        return [FOREIGN, *about, "Other differences were not looked for."]
    if not following.unnamed:  # its output is of another kind
        return [problem, *about]
    lines = _unnamed(following, is_told_below=bool(about))
    if trial.is_foreign:
        return [FOREIGN, *lines, *about]
    return [problem, *lines, *_probabilities(trial), *about]


def _unnamed(following: Following, is_told_below: bool) -> list[str]:
    """The values that differ without a name, in sentences."""
    trial = following.trial
    first, *others = following.unnamed
    lines = []
    if first.label == LOGITS:
        lines = ["The values on the way are equal, as far as they were seen."]
        if not comparable(trial.values(), our_values(trial.setting)):
            lines = ["None of the values on the way could be compared."]
    else:
        where = _first(first.words, ["what is told below"] if is_told_below else [])
        lines = [f"{where}{_numbers(trial, first)}"]
    lines += _observed(trial, first, first.label.capitalize())
    kinds = [other for other in others if other.is_first]
    if kinds:
        lines.append("With your numbers in the place of ours there, and so on, these differ, too:")
    for other in kinds:
        lines.append(" ".join([f"- {other.words}.", *_observed(trial, other, "It")]))
    if len(kinds) < len(others):
        lines.append("The same is found in other blocks.")
    if following.gave_up:
        lines.append("Not all known mistakes were tried: that takes more than 30 seconds here.")
    return [*lines, _rest(following)]


def _numbers(trial: Trial, difference: Difference) -> str:
    """The end of a sentence on a value that differs: where, and by how much."""
    if trial.is_foreign:  # numbers would tell of what was put in the place of ours
        return "."
    told = compare("it", difference.got, difference.expected, trial.tolerance)
    told = told or "it is another token."
    return f": {told.rpartition('numbers: ')[2]}"


def _rest(following: Following) -> str:
    """What was found behind the values that differ, and what was not compared."""
    if following.is_whole and following.trial.uncompared:
        return NO_MORE
    if following.is_whole:
        places = "all these places" if len(following.unnamed) > 1 else "the place of ours there"
        equal = f"With your numbers in {places} the logits are equal"
        return f"{equal}: no other difference was found. {NOT_COMPARED}"
    if following.unnamed[-1].label == LOGITS:
        return NOT_COMPARED
    return f"What comes behind it was not compared. {NOT_COMPARED}"


def _other_tokens(trial: Trial) -> str:
    """A sentence if their blocks have more or fewer tokens than ours."""
    expected = trial.ours.seq_length
    if NO_TOKEN in trial.setting.edits:
        expected -= 1
    tokens = trial.tokens()
    are_given = tokens is not None and expected in tokens.shape[:2]  # scores may be of channels
    if not trial.seen.tokens or trial.seen.tokens[0] == expected or are_given:
        return ""
    return (
        f"Its blocks have {trial.seen.tokens[0]} tokens, and ours {expected}: they are not compared"
        " any further."
    )


def _probabilities(trial: Trial) -> list[str]:
    """A sentence if the outputs are probabilities."""
    logits = trial.values()[LOGITS]
    if logits.dim() != 2 or not logits.isfinite().all():
        return []
    ones = torch.ones_like(logits[:, 0])
    if logits.min() >= 0 and torch.allclose(logits.sum(dim=1), ones):
        return ["Your outputs are probabilities, which sum to 1 in each row; logits do not."]
    return []


def _observed(trial: Trial, difference: Difference, name: str) -> list[str]:
    """What can be observed of a value, which is called ``name``, as one sentence or none."""
    got = difference.got
    expected = difference.expected
    if trial.is_foreign or not got.isfinite().all():
        return []
    if "softmax" in difference.label and got.shape == expected.shape and got.min() > 0:
        # These are weights. Their logarithms are the scores, plus a number for each row.
        got = _less_mean(got.log())
        expected = _less_mean(expected.log())
        name = "Each row of scores, less its mean,"
    width = trial.ours.hidden_dim
    head_dim = width // trial.ours.encoder.layers[0].num_heads
    # Their code is not called again: this stands for a call, and has names for two numbers.
    call = Call(VisionTransformer, [], ["head_dim", "hidden_dim"], [head_dim, width])
    looks = [rows, transformed, moved]
    if _is_rounding(expected, got, trial.tolerance):
        looks.append(partly)
    for look in looks:
        with suppress(Exception):  # a value of any shape and kind
            said = look(expected.double(), got.double(), (call, call))
            if said:
                return [said.replace("The result", name)]
    return []


def _is_rounding(expected: Tensor, got: Tensor, tolerance: float) -> bool:
    """Whether numbers that count as equal differ by rounding alone, and not by a little more."""
    if expected.shape != got.shape:
        return False
    difference = (expected - got).abs()
    largest = expected.abs().max()
    equal = difference <= tolerance * largest
    rounding = 1e4 * torch.finfo(expected.dtype).eps * largest
    return bool((difference[equal] <= rounding).all())


def _shapes(names: list[str], shapes: dict[str, tuple]) -> str:
    return listed([f"{name} {shapes[name]}" for name in names])


def _oddness(match: tuple[str, Source]) -> tuple[str, bool]:
    """Which match is the best example: one in another layout, or a part of in_proj_weight."""
    _, source = match
    return source.layout, "in_proj_weight" in source.name


def _less_mean(scores: Tensor) -> Tensor:
    return scores - scores.mean(dim=-1, keepdim=True)
