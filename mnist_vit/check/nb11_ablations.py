"""Exercises of notebook 11: parameters in front of the blocks, two ablations by hand, and when a difference is one."""

import copy
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..model import EncoderBlock, VisionTransformer
from .core import Exercise, Mistake, Mutant, gradients, parameter_gradients, random, randomise

# count_input


def count_input(image_size: int, patch_size: int, channels: int, hidden_dim: int) -> int:
    """Parameters in front of the encoder blocks: convolution, class token, position embedding."""
    patches = (image_size // patch_size) ** 2
    return channels * patch_size**2 * hidden_dim + hidden_dim + hidden_dim + (patches + 1) * hidden_dim


def _run_count(answer: Any) -> Iterator[tuple[str, Any]]:
    yield "count for (28, 4, 1, 64)", answer(28, 4, 1, 64)
    yield "count for (32, 4, 3, 48)", answer(32, 4, 3, 48)
    yield "count for (224, 16, 3, 768)", answer(224, 16, 3, 768)


COUNT = Exercise(
    name="count_input",
    answer="count_input",
    stars=1,
    reference=count_input,
    run=_run_count,
    mutants=(
        Mutant(
            lambda s, p, c, d: p * p * d + 2 * d + ((s // p) ** 2 + 1) * d,
            "leave out the channels: each of the three colours of a pixel has its own weight",
        ),
        Mutant(
            lambda s, p, c, d: count_input(s, p, c, d) - d,
            "leave out hidden_dim numbers: the convolution has a bias, the class token is a parameter, and it has a "
            "position of its own",
        ),
        Mutant(
            lambda s, p, c, d: count_input(s, p, c, d) - 2 * d,
            "leave out 2 * hidden_dim numbers: count the convolution's bias, the class token, and the class token's "
            "position",
        ),
        Mutant(
            lambda s, p, c, d: count_input(s, p, c, d) - 3 * d,
            "count the patches only: the convolution's bias, the class token and its position are hidden_dim numbers "
            "each",
        ),
        Mutant(
            lambda s, p, c, d: c * p * p * d + 2 * d + (s // p + 1) * d,
            "take the patches of one row for all of them: there are as many rows as columns",
        ),
        Mutant(
            lambda s, p, c, d: c * p * d + 2 * d + ((s // p) ** 2 + 1) * d,
            "take a patch for a line of pixels: it has patch_size * patch_size of them",
        ),
        Mutant(
            lambda s, p, c, d: c * p * p * d + 3 * d,
            "count one position for all patches: each place has hidden_dim numbers of its own",
        ),
        Mutant(
            lambda s, p, c, d: (s // p) ** 2 * (c * p * p * d + d) + d + ((s // p) ** 2 + 1) * d,
            "count the convolution once for each patch: all patches share its weights",
        ),
        Mutant(
            lambda s, p, c, d: c * p * p * d + 2 * d + (c * (s // p) ** 2 + 1) * d,
            "count the patches of each colour apart: a patch holds all its channels, and is one token",
        ),
        Mutant(
            lambda s, p, c, d: c * s * s * d + 2 * d + ((s // p) ** 2 + 1) * d,
            "let the convolution see the whole picture: its window is one patch",
        ),
    ),
    hints=(
        "Three things stand in front of the blocks: conv_proj, class_token and encoder.pos_embedding. Which numbers "
        "of the shapes depend on the patch?",
        "conv_proj.weight is (hidden_dim, channels, patch_size, patch_size), its bias hidden_dim numbers. How many "
        "places are there, the class token's included?",
        "With p for patch_size and n = (image_size // p) ** 2: channels * p * p * hidden_dim + hidden_dim for the "
        "convolution, hidden_dim for the class token, (n + 1) * hidden_dim for the positions.",
    ),
)

# remove_positions


def remove_positions(model: VisionTransformer) -> None:
    """Take the position embedding out of a built model: zero, and it cannot learn."""
    nn.init.zeros_(model.encoder.pos_embedding).requires_grad_(False)


def _run_remove(answer: Any) -> Iterator[tuple[str, Any]]:
    model = randomise(VisionTransformer(8, 4, 1, 2, 8, 12, num_classes=3, in_channels=1)).eval()
    expected: Any = copy.deepcopy(model)
    remove_positions(expected)
    images = random(2, 1, 8, 8)
    returned = answer(model)
    model = returned if isinstance(returned, nn.Module) else model
    position = getattr(getattr(model, "encoder", None), "pos_embedding", None)
    if not isinstance(position, Tensor):
        raise Mistake("model.encoder.pos_embedding must stay a tensor: the encoder's forward adds it.")
    learn = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}
    kept = learn.pop("encoder.pos_embedding", 0)
    first, *others = position.detach().abs().amax(dim=-1).flatten().tolist()
    if any((first, *others)) and torch.allclose(model(images), expected(images)):
        raise Mistake(
            "the logits are right, but model.encoder.pos_embedding still holds its numbers, so the positions are gone "
            "round and not gone: leave the forward as it is, set the positions to zero, and let them not learn."
        )
    # All of it in one list, so that each mistake has a list of its own.
    yield (
        "the model afterwards",
        [
            f"the class token's position: {'zero' if first == 0 else 'not zero'}",
            f"the patches' positions: {'not zero' if any(others) else 'zero'}",
            f"numbers of the positions that can learn: {kept}",
            f"other numbers that can learn: {sum(learn.values())}",
        ],
    )
    yield "logits", model(images)


def _then(*steps: Callable[[VisionTransformer], Any]) -> Callable[[VisionTransformer], None]:
    def change(model: VisionTransformer) -> None:
        with torch.no_grad():
            for step in steps:
                step(model)

    return change


REMOVE = Exercise(
    name="remove_positions",
    answer="remove_positions",
    stars=1,
    reference=remove_positions,
    run=_run_remove,
    mutants=(
        Mutant(
            _then(lambda model: model.encoder.pos_embedding.zero_()),
            "set the positions to zero and let them learn: after the first step they are back; requires_grad_(False) "
            "keeps them where they are",
        ),
        Mutant(
            _then(lambda model: model.encoder.pos_embedding.requires_grad_(False)),
            "freeze the positions as they are: they are still added to every token; set them to zero first",
        ),
        Mutant(
            _then(
                lambda model: model.encoder.pos_embedding.requires_grad_(False),
                lambda model: model.encoder.pos_embedding[:, 1:].zero_(),
            ),
            "keep the class token's position: take all rows, the first one too",
        ),
        Mutant(
            _then(
                lambda model: model.encoder.pos_embedding.requires_grad_(False),
                lambda model: model.encoder.pos_embedding[:, 0].zero_(),
            ),
            "take the class token's position only: the patches' are what tells where things are",
        ),
        Mutant(
            _then(lambda model: model.encoder.pos_embedding.zero_(), lambda model: model.requires_grad_(False)),
            "freeze the whole model: only the positions are to stay as they are, and all else has to learn",
        ),
        Mutant(
            _then(lambda model: model.encoder.pos_embedding.zero_(), lambda model: model.encoder.requires_grad_(False)),
            "freeze the whole encoder: its blocks have to learn; call requires_grad_ on the position embedding",
        ),
        Mutant(
            _then(remove_positions, lambda model: model.class_token.zero_()),
            "set the class token to zero too: it is no position",
        ),
        Mutant(
            _then(remove_positions, lambda model: model.class_token.zero_().requires_grad_(False)),
            "remove the class token too: it is no position, and it has to learn",
        ),
        Mutant(
            _then(lambda model: remove_positions(copy.deepcopy(model))),
            "change a copy, or nothing at all: the model that was given is to be changed",
        ),
    ),
    hints=(
        "Two things are needed: what is added to the tokens must be nothing, and it must stay nothing while the model "
        "learns.",
        "The parameter is model.encoder.pos_embedding. nn.init.zeros_ sets a parameter to zero; requires_grad_(False) "
        "takes it away from training.",
        "nn.init.zeros_(model.encoder.pos_embedding), then model.encoder.pos_embedding.requires_grad_(False).",
    ),
)

# post_norm


def post_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    """The block's own parts, put together as in 2017: add, then normalise."""
    x = block.ln_1(z + _attend(block, z))
    return block.ln_2(x + block.mlp(x))


def _attend(block: EncoderBlock, x: Tensor) -> Tensor:
    return block.self_attention(x, x, x, need_weights=False)[0]


def _run_post_norm(answer: Any) -> Iterator[tuple[str, Any]]:
    block = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0)).double()
    z = random(2, 5, 6, dtype=torch.float64).requires_grad_()
    output = answer(block, z)
    yield "output", output
    yield from gradients(output, z=z)
    yield from parameter_gradients(output, block)


def _norm_between(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.ln_1(_attend(block, z))
    return x + block.ln_2(block.mlp(x))


def _norm_everywhere(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z + _attend(block, block.ln_1(z)))
    return block.ln_2(x + block.mlp(block.ln_2(x)))


def _first_half(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z + _attend(block, z))
    return x + block.mlp(block.ln_2(x))


def _second_half(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + _attend(block, block.ln_1(z))
    return block.ln_2(x + block.mlp(x))


def _first_input_again(block: EncoderBlock, z: Tensor) -> Tensor:
    return block.ln_2(z + block.mlp(block.ln_1(z + _attend(block, z))))


def _unnormalised_sum(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + _attend(block, z)
    return block.ln_2(x + block.mlp(block.ln_1(x)))


def _swapped(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_2(z + _attend(block, z))
    return block.ln_1(x + block.mlp(x))


def _one_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z + _attend(block, z))
    return block.ln_1(x + block.mlp(x))


def _last_only(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + _attend(block, z)
    return block.ln_2(x + block.mlp(x))


def _first_only(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z + _attend(block, z))
    return x + block.mlp(x)


POST_NORM = Exercise(
    name="post_norm",
    answer="post_norm",
    stars=2,
    reference=post_norm,
    run=_run_post_norm,
    mutants=(
        Mutant(
            lambda block, z: block(z),
            "leave the block as it is (pre-norm): here the norms come after the sums, and the branches read tokens "
            "without a norm",
        ),
        Mutant(_norm_between, "normalise what a branch gives, and then add: post-norm normalises the sum"),
        Mutant(_norm_everywhere, "normalise before the branches too: each norm is used once, on the sum"),
        Mutant(
            _first_half, "turn only the attention's half round: the MLP still reads ln_2(x), and the end has no norm"
        ),
        Mutant(_second_half, "turn only the MLP's half round: the attention still reads ln_1(z)"),
        Mutant(_first_input_again, "add z again at the end: what is added to the MLP is what it read, ln_1(z + …)"),
        Mutant(
            _unnormalised_sum,
            "add the sum as it was before ln_1 at the end: in post-norm the residual connection, too, goes through the "
            "norm",
        ),
        Mutant(_swapped, "swap the norms: ln_1 belongs to the attention, ln_2 to the MLP"),
        Mutant(_one_norm, "use ln_1 twice: the second sum has its own, ln_2"),
        Mutant(_last_only, "leave out the first norm: the attention's sum goes through ln_1"),
        Mutant(_first_only, "leave out the second norm: the last sum goes through ln_2"),
        Mutant(
            lambda block, z: block.ln_2(block.mlp(block.ln_1(_attend(block, z)))),
            "leave out both residual connections: what a branch read is added to what it gives",
        ),
        Mutant(
            lambda block, z: (lambda x: block.ln_2(x + block.mlp(x)))(block.ln_1(_attend(block, z))),
            "leave out the first residual connection: add z to what the attention gives, then normalise",
        ),
        Mutant(
            lambda block, z: block.ln_2(block.mlp(block.ln_1(z + _attend(block, z)))),
            "leave out the second residual connection: add what the MLP read to what it gives, then normalise",
        ),
    ),
    hints=(
        "Pre-norm is x + f(LN(x)), post-norm is LN(x + f(x)). A block has two branches, so write it twice.",
        "First f is block.self_attention with block.ln_1 around the sum, then f is block.mlp with block.ln_2 around "
        "the sum. The attention returns a pair.",
        "a, _ = block.self_attention(z, z, z); x = block.ln_1(z + a); return block.ln_2(x + block.mlp(x)).",
    ),
)

# compare_runs

PAIRS: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = (
    ((89, 90, 91), (94, 95, 96)),  # plain
    ((89, 90, 91), (84, 85, 86)),
    ((89, 90, 91), (90, 91, 92)),  # less than the spread
    ((89, 90, 91), (88.5, 89.5, 90.5)),
    ((90, 90.5, 91), (88, 93, 98)),  # the variant varies
    ((85, 90, 95), (94, 94, 94)),  # the base varies
    ((94, 94, 94), (85, 90, 95)),
    ((90, 90, 91), (80, 81, 92)),  # the best run is better, the mean is not
    ((90, 91, 91), (91.8, 91.8, 91.9)),  # the best runs are nearer than the means
    ((89, 90, 91), (90.5, 91.5, 92.5)),  # more than a standard deviation
    ((80, 85, 89), (90, 90, 91)),  # all runs above, and yet
    ((80, 80, 84), (83, 88, 88)),  # not all runs above, and yet
    ((88, 90, 92), (94, 95, 99)),  # more than the larger spread, less than both
    ((90, 90, 92), (91.7, 91.7, 91.9)),  # between half of the spread and the standard deviation
    ((89, 90, 91), (89.9, 90.9, 91.9)),  # between the two kinds of standard deviation
)


def compare_runs(base: Sequence[float], variant: Sequence[float]) -> str:
    """Whether a variant is better, worse, or too close to tell, by the larger of the two spreads."""
    return _by(lambda a, b: max(_spread(a), _spread(b)))(base, variant)


def _spread(runs: Sequence[float]) -> float:
    return max(runs) - min(runs)


def _by(
    spread: Callable[[Sequence[float], Sequence[float]], float], middle: Callable[..., float] = statistics.fmean
) -> Callable[[Sequence[float], Sequence[float]], str]:
    """A rule: the difference of the middles against a spread."""

    def compare(base: Sequence[float], variant: Sequence[float]) -> str:
        difference = middle(variant) - middle(base)
        if abs(difference) <= spread(base, variant):
            return "unclear"
        return "better" if difference > 0 else "worse"

    return compare


def _overlap(base: Sequence[float], variant: Sequence[float]) -> str:
    if min(variant) > max(base):
        return "better"
    return "worse" if max(variant) < min(base) else "unclear"


def _run_compare(answer: Any) -> Iterator[tuple[str, Any]]:
    given = [answer([float(run) for run in base], [float(run) for run in variant]) for base, variant in PAIRS]
    if any(one is None for one in given):
        yield "verdict", None
        return
    for one in given:
        if one not in ("better", "worse", "unclear"):
            raise Mistake('the answer must be one of the words "better", "worse" and "unclear".')
    shown = (f"base {', '.join(f'{run:g}' for run in base)} and variant {', '.join(f'{run:g}' for run in variant)}"
             for base, variant in PAIRS)  # fmt: skip
    yield "a right verdict", [f"{one} for {pair}" for pair, one in zip(shown, given, strict=True)]


COMPARE = Exercise(
    name="compare_runs",
    answer="compare_runs",
    stars=2,
    reference=compare_runs,
    run=_run_compare,
    mutants=(
        Mutant(_by(lambda a, b: 0), "compare the means and nothing else: with other seeds the order may be another"),
        Mutant(
            _by(lambda a, b: max(_spread(a), _spread(b)), max),
            "compare the best runs with the spread: the luckiest seed says little; compare the means",
        ),
        Mutant(
            _by(lambda a, b: 0, max),
            "compare the best runs and nothing else: the luckiest seed says little; compare the means with the spread",
        ),
        Mutant(
            lambda a, b: "unclear" if compare_runs(a, b) == "worse" else compare_runs(a, b),
            "forget the sign: a difference below minus the spread is a difference, too",
        ),
        Mutant(
            lambda a, b: compare_runs(b, a),
            "subtract the wrong way round: the variant is better if its mean is the larger one",
        ),
        Mutant(
            _by(lambda a, b: min(_spread(a), _spread(b))),
            "take the smaller of the two spreads: the runs that vary more decide how far chance goes",
        ),
        Mutant(_by(lambda a, b: _spread(a)), "look at the spread of the base only: the variant's runs vary, too"),
        Mutant(_by(lambda a, b: _spread(b)), "look at the spread of the variant only: the base's runs vary, too"),
        Mutant(
            _by(lambda a, b: max(statistics.stdev(a), statistics.stdev(b))),
            "take the standard deviation for the spread: here the spread is the largest minus the smallest",
        ),
        Mutant(
            _by(lambda a, b: max(statistics.pstdev(a), statistics.pstdev(b))),
            "take the standard deviation for the spread, as numpy's std does: here the spread is the largest minus the "
            "smallest",
        ),
        Mutant(
            _by(lambda a, b: max(_spread(a), _spread(b)) / 2),
            "take half of the spread: the largest minus the smallest is the border, not a reach to either side",
        ),
        Mutant(
            _by(lambda a, b: max(_spread(a), _spread(b)), statistics.median),
            "compare the runs in the middle (the medians): compare the means",
        ),
        Mutant(_by(lambda a, b: _spread(a) + _spread(b)), "add the two spreads: the larger one is asked for"),
        Mutant(
            _by(lambda a, b: (_spread(a) + _spread(b)) / 2),
            "take the mean of the two spreads: the larger one is asked for",
        ),
        Mutant(
            _by(lambda a, b: _spread([*a, *b])),
            "take the spread of all runs together: the difference that you test is part of it",
        ),
        Mutant(_overlap, "ask whether the runs overlap: compare the difference of the means with the larger spread"),
    ),
    hints=(
        "Two numbers decide: how far the means are apart, and how far runs that differ only in the seed are apart.",
        "spread = max(max(base) - min(base), max(variant) - min(variant)). If the difference of the means is not "
        "larger than that, say so.",
        'difference = sum(variant) / len(variant) - sum(base) / len(base); "unclear" if abs(difference) <= spread, '
        'else "better" if difference > 0, else "worse".',
    ),
)

EXERCISES: tuple[Exercise, ...] = (COUNT, REMOVE, COMPARE, POST_NORM)
