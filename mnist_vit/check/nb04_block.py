"""Exercises of notebook 04: LayerNorm, the encoder block, its parameters, and the residual connection."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import EncoderBlock
from .core import Exercise, Mistake, Mutant, copy_weights, gradients, make, parameter_gradients, random, randomise

# encoder_block


def _run_block(answer: Any) -> Iterator[tuple[str, Any]]:
    """Eval mode; then train mode with every number of the attention's branch dropped and none of the MLP's.

    With probability 1 dropout is no game of chance: an answer that leaves it out, or puts it elsewhere, shows.
    """
    reference = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0))
    module = make(answer, 2, 6, 10, 1.0, 0.0)
    copy_weights(reference, module)
    module = module.double().eval()
    for part in module.mlp.modules() if isinstance(getattr(module, "mlp", None), nn.Module) else ():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    x = random(2, 5, 6, dtype=torch.float64).requires_grad_()
    output = _passed(module, x)
    yield "output in eval mode", output
    yield "output in train mode with dropout 1", _passed(module.train(), x.detach().clone())
    yield from gradients(output, x=x)
    yield from parameter_gradients(output, module)


def _passed(module: nn.Module, x: Tensor) -> Any:
    """What the block gives; torch's words for a pair in a tensor's place are turned into the likely reason."""
    try:
        return module(x)
    except (TypeError, AttributeError) as error:
        if any(words in str(error) for words in ("not tuple", "to tuple", "'tuple'")):
            raise Mistake(
                "a pair stands where a tensor is needed. nn.MultiheadAttention returns a pair, its output and the "
                "weights: take the first, x, _ = self.self_attention(…)."
            ) from None
        raise


def _attend(block: EncoderBlock, x: Tensor) -> Tensor:
    return block.self_attention(x, x, x, need_weights=False)[0]


def _block(forward: Callable[[EncoderBlock, Tensor], Tensor]) -> type[EncoderBlock]:
    """An encoder block with another forward."""
    return type("WrongBlock", (EncoderBlock,), {"forward": forward})


def _finish(block: EncoderBlock, x: Tensor) -> Tensor:
    """The second half, done right."""
    return x + block.mlp(block.ln_2(x))


def _post_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z + block.dropout(_attend(block, z)))
    return block.ln_2(x + block.mlp(x))


def _norm_at_the_end(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.ln_1(block.dropout(_attend(block, z)))
    return x + block.ln_2(block.mlp(x))


def _no_first_residual(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, block.dropout(_attend(block, block.ln_1(z))))


def _no_second_residual(block: EncoderBlock, z: Tensor) -> Tensor:
    return block.mlp(block.ln_2(z + block.dropout(_attend(block, block.ln_1(z)))))


def _no_residual(block: EncoderBlock, z: Tensor) -> Tensor:
    return block.mlp(block.ln_2(block.dropout(_attend(block, block.ln_1(z)))))


def _adds_normalised(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z)
    return _finish(block, x + block.dropout(_attend(block, x)))


def _adds_normalised_twice(block: EncoderBlock, z: Tensor) -> Tensor:
    x = block.ln_1(z)
    y = block.ln_2(x + block.dropout(_attend(block, x)))
    return y + block.mlp(y)


def _adds_second_normalised(block: EncoderBlock, z: Tensor) -> Tensor:
    y = block.ln_2(z + block.dropout(_attend(block, block.ln_1(z))))
    return y + block.mlp(y)


def _adds_input_twice(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.dropout(_attend(block, block.ln_1(z)))
    return z + block.mlp(block.ln_2(x))


def _one_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.dropout(_attend(block, block.ln_1(z)))
    return x + block.mlp(block.ln_1(x))


def _no_first_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, z + block.dropout(_attend(block, z)))


def _no_second_norm(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.dropout(_attend(block, block.ln_1(z)))
    return x + block.mlp(x)


def _no_norms(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.dropout(_attend(block, z))
    return x + block.mlp(x)


def _only_query_normalised(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, z + block.dropout(block.self_attention(block.ln_1(z), z, z, need_weights=False)[0]))


def _parallel(block: EncoderBlock, z: Tensor) -> Tensor:
    return z + block.dropout(_attend(block, block.ln_1(z))) + block.mlp(block.ln_2(z))


def _mlp_first(block: EncoderBlock, z: Tensor) -> Tensor:
    x = _finish(block, z)
    return x + block.dropout(_attend(block, block.ln_1(x)))


def _no_dropout(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, z + _attend(block, block.ln_1(z)))


def _dropout_on_sum(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, block.dropout(z + _attend(block, block.ln_1(z))))


def _dropout_before_attention(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, z + _attend(block, block.dropout(block.ln_1(z))))


def _dropout_on_mlp(block: EncoderBlock, z: Tensor) -> Tensor:
    x = z + block.dropout(_attend(block, block.ln_1(z)))
    return x + block.dropout(block.mlp(block.ln_2(x)))


def _dropout_always(block: EncoderBlock, z: Tensor) -> Tensor:
    return _finish(block, z + F.dropout(_attend(block, block.ln_1(z)), block.dropout.p))


BLOCK = Exercise(
    name="encoder_block",
    answer="MyEncoderBlock",
    stars=2,
    reference=EncoderBlock,
    run=_run_block,
    mutants=(
        Mutant(
            _block(_post_norm),
            "normalise after adding (post-norm, as in 2017): normalise what goes into a branch, and add without a norm",
        ),
        Mutant(
            _block(_norm_at_the_end),
            "normalise what comes out of a branch: LN belongs before the attention and before the MLP",
        ),
        Mutant(
            _block(_no_first_residual), "do not add the block's input to what the attention gives (equation 2: + z)"
        ),
        Mutant(_block(_no_second_residual), "do not add z' to what the MLP gives (equation 3: + z')"),
        Mutant(_block(_no_residual), "leave out both residual connections: each branch is added to what came in"),
        Mutant(
            _block(_adds_normalised),
            "add the normalised tokens ln_1(z) to the attention: keep z under its own name, and add that",
        ),
        Mutant(
            _block(_adds_second_normalised),
            "add the normalised tokens ln_2(z') to the MLP: keep z' under its own name, and add that",
        ),
        Mutant(
            _block(_adds_normalised_twice),
            "add normalised tokens in both places: keep z and z' under their own names, and add those",
        ),
        Mutant(
            _block(_adds_input_twice),
            "add the block's input z in both places, so that the attention only reaches the MLP: at the end add z'",
        ),
        Mutant(_block(_one_norm), "use ln_1 in both places: the MLP has its own norm, ln_2"),
        Mutant(_block(_no_first_norm), "leave out ln_1: the attention reads LN(z)"),
        Mutant(_block(_no_second_norm), "leave out ln_2: the MLP reads LN(z')"),
        Mutant(_block(_no_norms), "leave out both norms: the attention reads LN(z), the MLP reads LN(z')"),
        Mutant(
            _block(_only_query_normalised),
            "normalise the query only: query, key and value are all three LN(z)",
        ),
        Mutant(
            _block(_parallel),
            "run attention and MLP side by side on z: the MLP reads what the attention has already changed, z'",
        ),
        Mutant(_block(_mlp_first), "run the MLP before the attention: first talk, then think"),
        Mutant(_block(_no_dropout), "forget self.dropout: it comes after the attention, before z is added"),
        Mutant(
            _block(_dropout_on_sum),
            "drop numbers of the sum, and with them the input: dropout comes before z is added",
        ),
        Mutant(
            _block(_dropout_before_attention),
            "drop numbers on the way into the attention: dropout comes after it, before z is added",
        ),
        Mutant(
            _block(_dropout_on_mlp),
            "apply self.dropout to the MLP's output too: MLPBlock has its own dropout inside already",
        ),
        Mutant(
            _block(_dropout_always),
            "drop numbers in eval mode too: call self.dropout, which knows the mode, not F.dropout without training=",
        ),
    ),
    hints=(
        "Two halves, each: keep what came in, normalise it, send it through the part, add what you kept.",
        "First half: x = self.ln_1(input), then self.self_attention(x, x, x, need_weights=False), which gives a pair; "
        "take its first, apply self.dropout, add input.",
        "Second half: return x + self.mlp(self.ln_2(x)), where x is the result of the first half.",
    ),
    tolerance=1e-8,
)

# layer_norm


def _run_layer_norm(answer: Any) -> Iterator[tuple[str, Any]]:
    """Tokens whose variance goes from a hundred times eps down to eps, in float64; then a large eps."""
    sizes = torch.tensor([1.0, 1e-1, 1e-2, 3e-3, 1e-3], dtype=torch.float64)
    for eps in (1e-6, 0.25):
        x = (random(2, 5, 3, seed=4, dtype=torch.float64) * sizes[:, None] + 0.5).requires_grad_()
        weight = (1 + 0.3 * random(3, seed=5, dtype=torch.float64)).requires_grad_()
        bias = random(3, seed=6, dtype=torch.float64).requires_grad_()
        output = answer(x, weight, bias, eps)
        yield f"output with eps {eps:g}", output
        yield from gradients(output, x=x, weight=weight, bias=bias)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """LayerNorm over the last axis: Ba et al. 2016, https://arxiv.org/abs/1607.06450."""
    return _normalise(x, (-1,), eps) * weight + bias


def _normalise(x: Tensor, axes: tuple[int, ...], eps: float, taken_off: int = 0) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred / (x.var(axes, correction=taken_off, keepdim=True) + eps).sqrt()


def _constant_statistics(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    return (x - mean.detach()) / (variance.detach() + eps).sqrt() * weight + bias


LAYER_NORM = Exercise(
    name="layer_norm",
    answer="layer_norm",
    stars=2,
    reference=layer_norm,
    run=_run_layer_norm,
    mutants=(
        Mutant(
            lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps) * w + b,
            "add eps outside the root: it is the root of (variance + eps)",
        ),
        Mutant(
            lambda x, w, b, eps: _normalise(x, (-1,), eps, taken_off=1) * w + b,
            "divide the squares by one less than the number of values (the unbiased variance, PyTorch's usual one): "
            "divide by their number, correction=0",
        ),
        Mutant(
            lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b),
            "use eps 1e-5, PyTorch's usual one, instead of the eps that is given",
        ),
        Mutant(
            lambda x, w, b, eps: layer_norm(x, w, b, 1e-6),
            "write 1e-6 into the formula: use the argument eps",
        ),
        Mutant(lambda x, w, b, eps: layer_norm(x, w, b, 0.0), "forget eps: add it to the variance, inside the root"),
        Mutant(
            lambda x, w, b, eps: _normalise(x, (1,), eps) * w + b,
            "normalise over the tokens (dim=1): each token is normalised alone, over its own numbers, dim=-1",
        ),
        Mutant(
            lambda x, w, b, eps: _normalise(x, (0,), eps) * w + b,
            "normalise over the batch (dim=0): each token is normalised alone, over its own numbers, dim=-1",
        ),
        Mutant(
            lambda x, w, b, eps: _normalise(x, (1, 2), eps) * w + b,
            "take one mean and one variance for all tokens of a picture: each token has its own, dim=-1 only",
        ),
        Mutant(
            lambda x, w, b, eps: _normalise(x, (0, 1, 2), eps) * w + b,
            "take one mean and one variance for the whole tensor: each token has its own, dim=-1, keepdim=True",
        ),
        Mutant(
            lambda x, w, b, eps: _normalise(x, (-1,), eps),
            "stop before weight and bias: multiply by weight, then add bias",
        ),
        Mutant(lambda x, w, b, eps: _normalise(x, (-1,), eps) + b, "forget weight: multiply by it before adding bias"),
        Mutant(lambda x, w, b, eps: _normalise(x, (-1,), eps) * w, "forget bias: add it at the end"),
        Mutant(
            lambda x, w, b, eps: (_normalise(x, (-1,), eps) + b) * w,
            "add bias before multiplying by weight: weight first, then bias",
        ),
        Mutant(
            lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps) * w + b,
            "divide by the variance: divide by its root",
        ),
        Mutant(
            lambda x, w, b, eps: x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * w + b,
            "leave the mean in (that is RMSNorm): subtract it first",
        ),
        Mutant(
            lambda x, w, b, eps: x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * w + b,
            "divide x itself: subtract the mean first",
        ),
        Mutant(
            lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) * w + b,
            "only subtract the mean: divide by the root of (variance + eps) too",
        ),
        Mutant(
            _constant_statistics,
            "cut mean and variance off from the gradient (detach, item or no_grad): they depend on x as well",
        ),
    ),
    hints=(
        "Each token is normalised over its own numbers, the last axis: mean, variance, divide, weight and bias.",
        "x.mean(-1, keepdim=True) keeps the axis, so that subtracting works. The variance is the mean of the squares "
        "of what is left, and eps goes inside the root.",
        "centred = x - x.mean(-1, keepdim=True); variance = centred.square().mean(-1, keepdim=True); "
        "return centred / (variance + eps).sqrt() * weight + bias",
    ),
    tolerance=1e-8,
)

# count_block


def count_block(hidden_dim: int, mlp_dim: int) -> int:
    """Parameters of an encoder block: two norms, attention, MLP."""
    h, m = hidden_dim, mlp_dim
    return 2 * 2 * h + (3 * h * h + 3 * h) + (h * h + h) + (h * m + m) + (m * h + h)


def _run_count(answer: Any) -> Iterator[tuple[str, Any]]:
    for hidden_dim, mlp_dim in ((64, 256), (6, 10), (768, 3072)):
        yield f"the count for hidden_dim {hidden_dim} and mlp_dim {mlp_dim}", answer(hidden_dim, mlp_dim)


COUNT = Exercise(
    name="count_block",
    answer="count_block",
    stars=1,
    reference=count_block,
    run=_run_count,
    mutants=(
        Mutant(
            lambda h, m: 4 * h * h + 2 * h * m,
            "count the matrices only: every linear layer has a bias, every norm a weight and a bias",
        ),
        Mutant(
            lambda h, m: 4 * h * h + 2 * h * m + 4 * h,
            "count the matrices and the norms: every linear layer has a bias too",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - 4 * h,
            "leave out 4 * hidden_dim numbers: the two norms have a weight and a bias each (or, just as many, the "
            "biases of the attention)",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - 2 * h,
            "leave out 2 * hidden_dim numbers: there are two norms, and each has a weight and a bias",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - h * h - h,
            "forget the output projection: hidden_dim * hidden_dim weights and hidden_dim biases",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - 2 * h * h - 2 * h,
            "count one matrix for query, key and value together: each of the three has its own",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - m - h,
            "forget the biases of the MLP: mlp_dim after the first layer, hidden_dim after the second",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - h * m - h,
            "count one linear layer of the MLP: there are two, one that widens and one that narrows",
        ),
        Mutant(
            lambda h, m: count_block(h, m) - h + m,
            "count mlp_dim biases in both layers of the MLP: a bias has as many numbers as come out of its layer",
        ),
    ),
    hints=(
        "Go through __init__ line by line: ln_1, self_attention, ln_2, mlp. Dropout has no parameters.",
        "A linear layer from a to b numbers has a * b + b parameters; a norm has 2 * hidden_dim. The attention is four "
        "linear layers from hidden_dim to hidden_dim: query, key, value and output.",
        "With h and m: 2 * 2h + 4 * (h * h + h) + (h * m + m) + (m * h + h).",
    ),
)

# silence


def _run_silence(answer: Any) -> Iterator[tuple[str, Any]]:
    block = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0)).eval()
    before = {name: tensor.clone() for name, tensor in block.state_dict().items()}
    returned = answer(block)
    silent = returned if isinstance(returned, nn.Module) else block
    after = silent.state_dict()
    for name, tensor in after.items():
        if not tensor.isfinite().all():
            raise Mistake(f"{name} holds nan or infinite numbers.")
    yield "output", silent(random(2, 5, 6))
    changed = [name for name, tensor in before.items() if name not in after or not torch.equal(after[name], tensor)]
    if len(changed) > 4:
        raise Mistake(
            f"the block does nothing, as it should, but {len(changed)} tensors changed; four are enough: weight and "
            "bias of the *last* layer of each branch."
        )
    yield "the number of tensors changed", len(changed)


def _zero(*names: str) -> Callable[[EncoderBlock], EncoderBlock]:
    """Set the tensors to zero whose name begins with one of these."""

    def silence(block: EncoderBlock) -> EncoderBlock:
        with torch.no_grad():
            for name, parameter in block.named_parameters():
                if name.startswith(names):
                    parameter.zero_()
        return block

    return silence


SILENCE = Exercise(
    name="silence",
    answer="silence",
    stars=2,
    reference=_zero("self_attention.out_proj", "mlp.3"),
    run=_run_silence,
    mutants=(
        Mutant(
            _zero("self_attention.out_proj.weight", "mlp.3.weight"),
            "leave the biases of the last layers as they are: they are still added to every token, whatever stands "
            "before them. In each branch the last layer's weight and bias must both be zero",
        ),
        Mutant(
            _zero("self_attention.out_proj.bias", "mlp.3.bias"),
            "set only the biases of the last layers to zero: their weights still pass something on",
        ),
        Mutant(_zero("self_attention.out_proj"), "silence the attention only: the MLP still adds to every token"),
        Mutant(_zero("mlp.3"), "silence the MLP only: the attention still adds to every token"),
        Mutant(
            _zero("ln_1", "ln_2"),
            "set both norms to zero: what comes after them still adds its biases; silence the last layer of a branch",
        ),
        Mutant(
            _zero("ln_1.weight", "ln_2.weight"),
            "set the weights of both norms to zero: the biases behind them still go through; silence the last layer "
            "of a branch",
        ),
    ),
    hints=(
        "z' = MSA(LN(z)) + z. What must MSA give so that z' is z? And which layer of the attention speaks last?",
        "The last layer of the attention is self_attention.out_proj, the last one of the MLP is mlp[3]. Each has a "
        "weight and a bias.",
        "with torch.no_grad(): for layer in (part.self_attention.out_proj, part.mlp[3]): "
        "layer.weight.zero_(); layer.bias.zero_()",
    ),
)

EXERCISES: tuple[Exercise, ...] = (BLOCK, LAYER_NORM, COUNT, SILENCE)
