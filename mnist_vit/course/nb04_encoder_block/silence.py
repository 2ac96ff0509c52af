"""Exercise: make an encoder block that does nothing, by setting four of its tensors to zero."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mnist_vit.model import EncoderBlock, MLPBlock

from ..checking import Exercise, Mistake, Slip, random, randomise


def my_silence(part):
    # The last layer of each branch has the last word; with weight and bias at zero it says nothing.
    with torch.no_grad():
        for layer in (part.self_attention.out_proj, part.mlp.get_submodule("3")):
            layer.weight.zero_()
            layer.bias.zero_()


class _BothNames(MLPBlock):
    """An MLP whose layers are found as in ours, mlp[3], and as in a learner's, mlp["3"]."""

    def __getitem__(self, name: Any) -> Any:
        return super().__getitem__(int(name) if isinstance(name, str) else name)


_BothNames.__name__ = "MLPBlock"  # an error says what it is


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    block = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0)).eval()
    block.mlp.__class__ = _BothNames
    before = {name: tensor.clone() for name, tensor in block.state_dict().items()}
    returned = answer(block)
    silent = returned if isinstance(returned, nn.Module) else block
    is_block = isinstance(returned, nn.Module)
    if returned is not None and not is_block and not _changed(block, before):
        kind = "a function" if callable(returned) else f"of type {type(returned).__name__}"
        raise Mistake(
            f"what came back is {kind}, and no block; no number of the one given was changed.",
            "Set four of its tensors to zero in place, or return a changed copy of it.",
        )
    after = silent.state_dict()
    gone = [name for name in before if name not in after]
    if gone:
        raise Mistake(
            f"{len(gone)} of the block's tensors are gone, such as {gone[0]}."
            if len(gone) > 1
            else f"{gone[0]} is gone.",
            "All layers stay, each with its weight and its bias: numbers in them become 0, as by"
            " zero_().",
        )
    for name, tensor in after.items():
        if name in before and tensor.shape != before[name].shape:
            raise Mistake(
                f"{name} has the shape {tuple(tensor.shape)} now, and had"
                f" {tuple(before[name].shape)}.",
                "Write zeros into the tensor that is there, as zero_() does, and leave its shape.",
            )
        if not tensor.isfinite().all():
            raise Mistake(f"{name} holds nan or infinite numbers.")
    frozen = [name for name, one in silent.named_parameters() if not one.requires_grad]
    if frozen:
        others = f" and {len(frozen) - 1} more" if len(frozen) > 1 else ""
        raise Mistake(
            f"{frozen[0]}{others} would not learn any more: requires_grad is False now, and the"
            " block must be able to learn again.",
            "Leave requires_grad as it was; torch.no_grad() is enough for writing into them.",
        )
    x = random(2, 5, 6)
    output = silent(x)
    yield "output", output
    changed = _changed(silent, before)
    if torch.allclose(output, x, atol=1e-5) and not changed:
        raise Mistake(
            "the block does nothing, as it should, but none of its tensors has become zero.",
            "Leave its forward and its layers as they are, and change four of its tensors.",
        )
    if torch.allclose(output, x, atol=1e-5) and len(changed) > 4:
        raise Mistake(
            f"the block does nothing, as it should, but {len(changed)} tensors changed, and four"
            " are enough.",
            "Which layer of each branch has the last word?",
        )
    if torch.allclose(output, x, atol=1e-5) and set(changed) == set(LAST):
        small = [name for name in changed if after[name].any()]
        if small:
            raise Mistake(
                f"{small[0]} is not zero: it holds numbers up to"
                f" {after[small[0]].abs().max():.2g}.",
                "Exactly zero is asked for, so that part(z) is z to the last bit: zero_() or"
                " fill_(0).",
            )
    # Tells slips apart whose outputs are the same.
    yield (
        "the set of changed tensors",
        ", ".join(sorted(changed)),
    )


def _changed(part: nn.Module, before: dict[str, Tensor]) -> list[str]:
    """The names of the tensors that are gone from a part, or hold other numbers than before."""
    after = part.state_dict()
    found = []
    for name, tensor in before.items():
        if name not in after or not torch.equal(after[name], tensor):
            found.append(name)
    return found


LAST = (
    "self_attention.out_proj.weight",
    "self_attention.out_proj.bias",
    "mlp.3.weight",
    "mlp.3.bias",
)


def notice(answer: Any) -> Mistake | None:
    """Which tensors of a branch still speak, where the last layer of the other, or none, does."""
    block = randomise(EncoderBlock(2, 6, 10, 0.0, 0.0), seed=1).eval()
    block.mlp.__class__ = _BothNames
    before = {name: tensor.clone() for name, tensor in block.state_dict().items()}
    returned = answer(block)
    after = (returned if isinstance(returned, nn.Module) else block).state_dict()
    speaking = [name for name in LAST if after[name].any()]
    zero = [name for name, tensor in after.items() if not tensor.any()]
    changed = [name for name in before if not torch.equal(after[name], before[name])]
    if not changed or not speaking:
        return None
    said = f"Zero everywhere {'is' if len(zero) == 1 else 'are'} {', '.join(zero)}"
    if not zero:
        said = f"No tensor is zero everywhere. Changed {'is' if len(changed) == 1 else 'are'}"
        said += f" {', '.join(changed)}"
    return Mistake(
        f"{said}.",
        "What is said last in a branch is added to every token, whatever stands before it. Which"
        " layer of each branch has the last word? Its weight and its bias must both be zero.",
    )


LAYERS, WEIGHT, BIAS = (
    '(part.self_attention.out_proj, part.mlp.get_submodule("3"))',
    "layer.weight.zero_()",
    "layer.bias.zero_()",
)
IN_PROJ = (
    "\n        part.self_attention.in_proj_weight.zero_()\n       "
    " part.self_attention.in_proj_bias.zero_()"
)

SLIPS = (
    Slip(
        {
            LAYERS: '(part.mlp.get_submodule("0"), part.mlp.get_submodule("3"))',
            BIAS: (
                "pass\n        part.self_attention.in_proj_weight.zero_()\n"
                "        part.self_attention.out_proj.weight.zero_()"
            ),
        },
        "set the four weight matrices to zero, and no bias",
        "The biases of the last layers are still added to every token",
    ),
    Slip(
        {BIAS: ""},
        "leave the biases of the last layers as they are",
        "They are still added to every token, whatever stands before them. In each branch the last"
        " layer's weight and bias must both be zero",
    ),
    Slip(
        {WEIGHT: ""},
        "set only the biases of the last layers to zero",
        "Their weights still pass something on",
    ),
    Slip(
        {LAYERS: "(part.self_attention.out_proj,)"},
        "silence the attention only",
        "The MLP still adds to every token",
    ),
    Slip(
        {LAYERS: '(part.mlp.get_submodule("3"),)'},
        "silence the MLP only",
        "The attention still adds to every token",
    ),
    Slip(
        {LAYERS: '(part.self_attention.out_proj, part.mlp.get_submodule("0"))'},
        "silence out_proj, but of the MLP the first layer, mlp[0], and not the last",
        "The bias of its last layer, mlp[3], is still added to every token",
    ),
    Slip(
        {LAYERS: '(part.mlp.get_submodule("3"),)', BIAS: BIAS + IN_PROJ},
        "silence mlp[3], but of the attention the first layer, in_proj, and not the last",
        "The bias of its last layer, out_proj, is still added to every token",
    ),
    Slip(
        {LAYERS: '(part.mlp.get_submodule("0"),)', BIAS: BIAS + IN_PROJ},
        "silence the first layer of each branch, in_proj and mlp[0]",
        "The biases of the last layers are still added. In each branch the last layer's weight and"
        " bias must both be zero",
    ),
    Slip(
        {LAYERS: "(part.ln_1, part.ln_2)"},
        "set both norms to zero",
        "The layers after them still add their biases. Silence the last layer of each branch",
    ),
    Slip(
        {LAYERS: "(part.ln_1, part.ln_2)", BIAS: ""},
        "set the weights of both norms to zero",
        "Their biases still go through. Silence the last layer of each branch",
    ),
)

EXERCISE = Exercise(
    answer=my_silence,
    compare=compare,
    stars=2,
    slips=SLIPS,
    notice=notice,
    hints=(
        (
            "z' = MSA(LN(z)) + z. What must MSA give so that z' is z? And which layer of the"
            " attention speaks last?"
        ),
        (
            "The last layer of the attention is self_attention.out_proj, the last one of the MLP is"
            ' mlp.get_submodule("3"). Each has a weight and a bias; under `with torch.no_grad():` a'
            " tensor can be set to zero in place, with zero_()."
        ),
    ),
)
