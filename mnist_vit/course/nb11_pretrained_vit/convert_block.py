"""Exercise: a block of another library's file, under your names and without layer scale."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ...model import EncoderBlock
from ..checking import Exercise, Mistake, Slip, random
from .others import block_file


def my_convert_block(theirs):
    # a block's tensors under transformers' names -> under yours
    names = {"norm1": "ln_1", "norm2": "ln_2", "mlp.fc1": "mlp.0", "mlp.fc2": "mlp.3"}
    names["attention.o_proj"] = "self_attention.out_proj"
    scales = {"attention.o_proj": theirs["layer_scale1.lambda1"]}
    scales["mlp.fc2"] = theirs["layer_scale2.lambda1"]
    ours = {}
    for kind in ("weight", "bias"):
        for name, new in names.items():
            ours[f"{new}.{kind}"] = theirs[f"{name}.{kind}"]
        parts = [theirs[f"attention.{letter}_proj.{kind}"] for letter in "qkv"]
        ours[f"self_attention.in_proj_{kind}"] = torch.cat(parts)
    for name, scale in scales.items():
        new = names[name]
        ours[f"{new}.weight"] = scale[:, None] * ours[f"{new}.weight"]
        ours[f"{new}.bias"] = scale * ours[f"{new}.bias"]
    return ours


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        block = EncoderBlock(2, 6, 8, 0.0, 0.0).state_dict()
    for tensor in block.values():
        nn.init.normal_(tensor, generator=generator)
    theirs = block_file(block, *(0.5 + torch.rand(2, 6, generator=generator)))
    before = {name: tensor.clone() for name, tensor in theirs.items()}
    made = answer(theirs)
    if made is None:
        yield "the block's tensors", None
        return
    if not isinstance(made, dict) or not all(isinstance(name, str) for name in made):
        raise Mistake(
            f"the answer must be a dict from name to tensor, but is {type(made).__name__}."
        )
    missing, more = sorted(set(block) - set(made)), sorted(set(made) - set(block))
    if missing or more:
        raise _other_names(missing, more, made, theirs, before)
    for name in block:
        yield name, made[name]
    changed = [
        name for name in before if name not in theirs or not torch.equal(before[name], theirs[name])
    ]
    yield "tensors of the file that changed", ", ".join(changed) or "none"


def _other_names(
    missing: list[str],
    more: list[str],
    made: dict[str, Any],
    theirs: dict[str, Tensor],
    before: dict[str, Tensor],
) -> Mistake:
    """Which names are missing or too many, and what one that is missing is made of."""
    told = []
    for names, what in ((missing, "missing"), (more, "too many")):
        if names:
            told.append(f"{', '.join(names)} {what}")
    said = f"the names must be those of your block: {'; '.join(told)}."
    put = [name for name in missing if name in theirs and name not in before]
    if made is theirs:
        said += " What comes back is the dict that was given."
    elif not made:
        said += " The dict that comes back is empty."
    elif put:
        said += f" Your code puts {put[0]} into the dict that it was given."
    instead = "list(block.state_dict()) of a block of yours are the twelve names."
    if made is theirs or put:
        instead += " Put what you make into a new dict, and return that one."
    elif missing and made and not more:
        instead += f" About {missing[0]}: {_advice(missing[0])}"
    return Mistake(said, instead)


def notice(answer: Any) -> Mistake | None:
    """Which tensors are right, and what those are that are not; then what was changed."""
    with torch.random.fork_rng():
        block = EncoderBlock(2, 6, 8, 0.0, 0.0).state_dict()
    for number, tensor in enumerate(block.values()):
        tensor.copy_(random(*tensor.shape, seed=number))
    scales = 0.5 + torch.rand(2, 6, generator=torch.Generator().manual_seed(1))
    theirs = block_file(block, *scales)
    right = my_convert_block(theirs)
    given = {name: tensor.clone() for name, tensor in theirs.items()}
    made = answer(given)
    wrong = [name for name, tensor in right.items() if not _same(made[name], tensor)]
    if not wrong:
        return _noticed_changes(theirs, given)
    said = (
        f"{len(right) - len(wrong)} of {len(right)} tensors are right. Wrong: {', '.join(wrong)}."
    )
    for name in wrong:
        known = _known(made[name], theirs) or _known_thirds(made[name], right[name], name)
        if known:
            return Mistake(f"{said} Your {name} is {known}.", _advice(name))
    return Mistake(said, _advice(wrong[0]))


def _noticed_changes(theirs: dict[str, Tensor], given: dict[str, Tensor]) -> Mistake | None:
    """What is no longer in the given dictionary, or not as it was."""
    gone = [name for name in theirs if name not in given]
    if gone:
        return Mistake(
            f"What comes back is right, but your code takes {gone[0]} out of the dict that it was"
            " given.",
            "Whoever called it may still need it. Read from it, and put what you make into a dict"
            " of your own.",
        )
    changed = [name for name, tensor in theirs.items() if not torch.equal(tensor, given[name])]
    if changed:
        return Mistake(
            f"What comes back is right, but your code changes {changed[0]}, which it was given.",
            "Whoever called it may still need it: make a new tensor, as scale * bias does.",
        )
    return None


def _same(one: Any, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-5)


def _known(made: Tensor, theirs: dict[str, Tensor]) -> str:
    """What a tensor is, of the file: one as it is, one with a scale, or three put together."""
    for name, tensor in theirs.items():
        if _same(made, tensor):
            return f"the file's {name}, as it is"
        if tensor.dim() == 2 and _same(made, tensor.T):
            return f"the file's {name}, transposed"
        scaled = _scaled(made, tensor, theirs)
        if scaled:
            return f"the file's {name}, {scaled}"
    parts = []
    for part in made.chunk(3):
        parts += [name for name, tensor in theirs.items() if _same(part, tensor)][:1]
    turned = []
    for part in made.chunk(3):
        turned += [name for name, one in theirs.items() if one.dim() == 2 and _same(part, one.T)][
            :1
        ]
    if len(made) % 3 == 0 and made.dim() == 2 and len(turned) == 3:
        return f"made of these of the file, each transposed: {', '.join(turned)}"
    if len(made) % 3 == 0 and len(parts) == 3:
        return f"made of these of the file, one below the other: {', '.join(parts)}"
    turns = []
    for start in range(3):
        turns += [name for name, tensor in theirs.items() if _same(made[start::3], tensor)][:1]
    if len(turns) == 3:
        return f"made of these of the file, a row of each in turn: {', '.join(turns)}"
    return ""


def _known_thirds(made: Tensor, right: Tensor, name: str) -> str:
    """Of q, k and v in one tensor: which of them are right; "" if none is, or it is another."""
    if "in_proj" not in name or made.shape != right.shape:
        return ""
    kind = name.rpartition("_")[2]
    fits: dict[bool, list[str]] = {True: [], False: []}
    for letter, part, wanted in zip("qkv", made.chunk(3), right.chunk(3), strict=True):
        fits[_same(part, wanted)].append(f"{letter}_proj.{kind}")
    if not fits[True]:
        return ""
    return f"right where {' and '.join(fits[True])} stand, and wrong at {' and '.join(fits[False])}"


def _scaled(made: Tensor, tensor: Tensor, theirs: dict[str, Tensor]) -> str:
    """By which scale of the file a tensor was multiplied, and how; "" if by none."""
    is_table = tensor.dim() == 2
    rows = "each row" if is_table else "each number"
    for scale, factor in theirs.items():
        if not scale.startswith("layer_scale"):
            continue
        number = scale.removesuffix(".lambda1")
        if len(tensor) == len(factor):
            by = factor[:, None] if is_table else factor
            if _same(made, tensor * by):
                return f"{rows} multiplied by its number of {number}"
            if _same(made, tensor * by * by):
                return f"{rows} multiplied twice by its number of {number}"
        if is_table and tensor.shape[1] == len(factor) and _same(made, tensor * factor):
            return f"each column multiplied by its number of {number}"
    return ""


def _advice(name: str) -> str:
    """What a tensor is to be made of."""
    if "in_proj" in name:
        kind = name.rpartition("_")[2]
        return (
            "q, k and v must become one tensor, one below the other, in this order:"
            f" torch.cat of attention.q_proj.{kind}, k_proj.{kind} and v_proj.{kind}, as they are."
        )
    if "out_proj" in name:
        return SCALED.format(scale="layer_scale1", layer="attention.o_proj")
    if "mlp.3" in name:
        return SCALED.format(scale="layer_scale2", layer="mlp.fc2")
    return (
        "It should be a tensor of the file as it is, under another name: norm1 is ln_1, norm2 ln_2,"
        " mlp.fc1 mlp.0."
    )


SCALED = (
    "{scale} must go into the last linear layer before it, {layer}: multiply row i of the weight"
    " by number i of the scale, and number i of the bias, too. All else in them stays."
)


def more(answer: Any) -> list[list[float]]:
    """What is made of a block whose MLP is as wide as its tokens: there few mistakes raise."""
    with torch.random.fork_rng():
        block = EncoderBlock(2, 6, 6, 0.0, 0.0).state_dict()
    for number, tensor in enumerate(block.values()):
        tensor.copy_(random(*tensor.shape, seed=number))
    scales = 0.5 + torch.rand(2, 6, generator=torch.Generator().manual_seed(1))
    made = answer(block_file(block, *scales))
    seen = []
    for name in block:
        seen.append([round(one, 3) + 0.0 for one in made[name].flatten().tolist()])
    return seen


SCALES = 'scales = {"attention.o_proj": theirs["layer_scale1.lambda1"]}'
WEIGHT, BIAS = 'scale[:, None] * ours[f"{new}.weight"]', 'scale * ours[f"{new}.bias"]'

SLIPS = (
    Slip({'"qkv"': '"kqv"'}, "stack k before q", "in_proj holds q, k, v, in this order"),
    Slip({'"qkv"': '"qvk"'}, "stack v before k", "in_proj holds q, k, v, in this order"),
    Slip({'"qkv"': '"qqq"'}, "take q three times", "in_proj holds q, k, v, in this order"),
    Slip(
        {"for name, scale in scales.items()": "for name, scale in ()"},
        "forget layer scale",
        "What attention and MLP give is multiplied by it before it is added",
    ),
    Slip(
        {'scales["mlp.fc2"] = theirs["layer_scale2.lambda1"]': ""},
        "forget the second layer scale, that of the MLP",
        "What the MLP gives is multiplied by it before it is added",
    ),
    Slip(
        {SCALES: "scales = {}"},
        "forget the first layer scale, that of the attention",
        "What the attention gives is multiplied by it before it is added",
    ),
    Slip(
        {
            'scales = {"attention.o_proj"': 'scales = {"mlp.fc2"',
            'scales["mlp.fc2"]': 'scales["attention.o_proj"]',
        },
        "exchange the two layer scales",
        "The first follows the attention, the second the MLP",
    ),
    Slip(
        {BIAS: 'ours[f"{new}.bias"]'},
        "scale the weights and not the biases",
        "The scale multiplies what a layer gives, its bias too",
    ),
    Slip(
        {WEIGHT: 'ours[f"{new}.weight"] / scale[:, None]', BIAS: 'ours[f"{new}.bias"] / scale'},
        "divide by the layer scale",
        "The new layer must give what the old one and the scale give together",
    ),
    Slip(
        {'"norm1": "ln_1", "norm2": "ln_2"': '"norm1": "ln_2", "norm2": "ln_1"'},
        "exchange the two norms",
        "The first stands before the attention",
    ),
    Slip(
        {
            SCALES: "scales = {}",
            "    return ours": (
                '    scale = theirs["layer_scale1.lambda1"]\n'
                '    for kind in ("weight", "bias"):\n'
                '        packed = ours[f"self_attention.in_proj_{kind}"]\n'
                "        packed = packed.view(3, len(scale), -1)  # q, k, v\n"
                "        packed[2] *= scale[:, None]\n"
                "    return ours"
            ),
        },
        "fold the first layer scale into the values",
        "It follows the last linear layer of the attention, o_proj",
    ),
    Slip(
        {
            'scales["mlp.fc2"] = theirs["layer_scale2.lambda1"]': "",
            "    return ours": (
                '    scale = theirs["layer_scale2.lambda1"]\n'
                '    ours["mlp.0.weight"] = ours["mlp.0.weight"] * scale\n'
                "    return ours"
            ),
        },
        "fold the second layer scale into the first linear layer of the MLP",
        "It multiplies what the MLP gives, so it goes into the last one, fc2",
    ),
    Slip(
        {WEIGHT: 'scale * ours[f"{new}.weight"]'},
        "multiply the columns of the weights by the scale",
        "Row i of a weight makes number i of the result, so it is multiplied by scale i:"
        " scale[:, None] * weight, or fold_scale",
    ),
    Slip(
        {'scales["mlp.fc2"]': 'scales["mlp.fc1"]'},
        "fold the second layer scale into the rows of the first linear layer of the MLP",
        "It multiplies what the MLP gives, so it goes into the last one, fc2",
    ),
    Slip(
        {
            WEIGHT: 'scale[:, None] * (ours[f"{new}.weight"].T if "mlp" in name else'
            ' ours[f"{new}.weight"])'
        },
        "transpose the weight of fc2",
        "Both libraries keep a weight as (out, in): take it as it is",
    ),
    Slip(
        {BIAS: '(scale if "mlp" in name else 1) * ours[f"{new}.bias"]'},
        "leave the bias of o_proj unscaled",
        "The scale multiplies what the layer gives, its bias too",
    ),
    Slip(
        {BIAS: '(1 if "mlp" in name else scale) * ours[f"{new}.bias"]'},
        "leave the bias of fc2 unscaled",
        "The scale multiplies what the layer gives, its bias too",
    ),
)

EXERCISE = Exercise(
    answer=my_convert_block,
    compare=compare,
    stars=3,
    slips=SLIPS,
    notice=notice,
    more=more,
    hints=(
        (
            "Three kinds of tensors: those that only get another name; those that become one"
            " tensor; and those that take a scale in. Print list(block.state_dict()) of a block of"
            " yours: twelve names."
        ),
        (
            "torch.cat of q_proj, k_proj, v_proj gives self_attention.in_proj_weight, and the same"
            " for the bias. layer_scale1 goes into attention.o_proj, layer_scale2 into mlp.fc2,"
            " each with fold_scale."
        ),
    ),
    same=({'scale[:, None] * ours[f"{new}.weight"]': '(ours[f"{new}.weight"].T * scale).T'},),
)
