"""Exercise: what one head adds to the output of multi-head attention."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import Exercise, Mistake, Slip, random, randomise
from ..observing.reacting import listed


def my_head_contribution(
    weights: Tensor,
    values: Tensor,
    out_proj: nn.Linear,
    head: int,
) -> Tensor:
    """What one head adds to the layer output: (n, seq_length, hidden_dim).

    weights: of all heads, (n, num_heads, seq_length, seq_length)
    values: of all heads, (n, num_heads, seq_length, head_dim)
    """
    head_dim = values.shape[-1]
    start = head * head_dim
    # nn.Linear computes x Wᵀ, so the numbers that come in meet the columns of its weight.
    columns = out_proj.weight[:, start : start + head_dim]
    head_output = weights[:, head] @ values[:, head]
    return head_output @ columns.T


def compare(answer: Any) -> Iterator[tuple[str, Any]]:
    # Head 2 of 4: neither the first, nor the last, nor the one beside the first.
    for head, num_heads, n, seq_length, what in (
        (2, 4, 2, 5, "contribution"),
        (0, 2, 3, 4, "contribution at another size"),
    ):
        weights = random(n, num_heads, seq_length, seq_length, seed=5).softmax(dim=-1)
        values = random(n, num_heads, seq_length, 3, seed=6)
        out_proj = randomise(nn.Linear(3 * num_heads, 3 * num_heads), seed=7)
        before = {name: tensor.clone() for name, tensor in out_proj.state_dict().items()}
        out = answer(weights, values, out_proj, head)
        yield what, out.detach() if isinstance(out, Tensor) else out
        _refuse_changed(out_proj, before)


def _refuse_changed(out_proj: nn.Module, before: dict[str, Tensor]) -> None:
    """Raise Mistake where the layer that was given is another afterwards."""
    after = out_proj.state_dict()
    for name, tensor in before.items():
        if name not in after or not torch.equal(after[name], tensor):
            has = "has no" if name not in after else "has another"
            raise Mistake(
                f"the numbers are right, but out_proj {has} {name} afterwards: your code changes"
                " the layer that it was given.",
                "Its owner still needs it. F.linear(x, out_proj.weight) multiplies and adds no"
                " bias, and leaves the layer as it is.",
            )


def more(answer: Any) -> list[float]:
    """What each head of four adds."""
    weights = random(1, 4, 3, 3, seed=8).softmax(dim=-1)
    values = random(1, 4, 3, 2, seed=9)
    found = []
    for head in range(4):
        out = answer(weights.clone(), values.clone(), randomise(nn.Linear(8, 8), seed=10), head)
        found += out.flatten().tolist()
    return [round(number, 3) for number in found]


def notice(answer: Any) -> Mistake | None:
    """Which columns of out_proj an answer uses, and with whose output."""
    weights = random(1, 4, 3, 3, seed=8).softmax(dim=-1)
    values = random(1, 4, 3, 2, seed=9)
    used = []
    for column in range(8):
        out_proj = nn.Linear(8, 8)
        with torch.no_grad():
            out_proj.weight.zero_()
            out_proj.bias.zero_()
            out_proj.weight[:, column] = 1
        if answer(weights.clone(), values.clone(), out_proj, 2).abs().max() > 1e-6:
            used.append(column)
    if used == [4, 5]:
        return None
    if not used:
        said = "no column of out_proj.weight at all"
    else:
        said = f"{'column' if len(used) == 1 else 'columns'} {listed(list(map(str, used)), 8)}"
        said += " of out_proj.weight"
    return Mistake(
        f"Asked for head 2 of 4 heads of 2 numbers, your code uses {said}.",
        "It should be columns 4 and 5: of the outputs that stand side by side those of head h fill"
        " the places from h * head_dim to (h + 1) * head_dim - 1, and each place meets its column.",
    )


START, COLUMNS = "start = head * head_dim", "out_proj.weight[:, start : start + head_dim]"
HEAD, END = "head_output = weights[:, head] @ values[:, head]", "return head_output @ columns.T"
LAYER = "out_proj((weights @ values).transpose(1, 2).flatten(2))"

SLIPS = (
    Slip(
        {START: "start = head * weights.shape[1]"},
        "take the columns from head * num_heads on",
        "Each head has head_dim columns, so those of head h begin at h * head_dim",
    ),
    Slip(
        {
            HEAD: "head_output = torch.zeros_like(values)\n"
            "    head_output[:, head] = weights[:, head] @ values[:, head]",
            END: "return head_output.reshape(len(values), -1, out_proj.in_features)"
            " @ out_proj.weight.T",
        },
        "put the heads side by side with a reshape alone",
        "Heads and tokens change places first, as in transpose(1, 2)",
    ),
    Slip(
        {END: f"return {LAYER}[..., start : start + head_dim]"},
        "cut a slice out of the layer output",
        "After the output projection every number is a mixture of all heads. Project this head's"
        " output alone",
    ),
    Slip(
        {
            END: (
                f"output = {LAYER}\n    mask = torch.zeros(output.shape[-1])\n"
                "    mask[start : start + head_dim] = 1\n    return output * mask"
            )
        },
        "keep a slice of the layer output and set the rest to zero",
        "After the output projection every number is a mixture of all heads. Project this head's"
        " output alone",
    ),
    Slip(
        {COLUMNS: "out_proj.weight[start : start + head_dim]", END: "return head_output @ columns"},
        "take rows of out_proj.weight in place of columns, or multiply by it without .T",
        "A linear layer computes x Wᵀ, so its columns belong to the numbers that come in",
    ),
    Slip(
        {END: "return head_output @ columns.T + out_proj.bias"},
        "add the bias too",
        "It is added once for the whole layer and belongs to no head",
    ),
    Slip(
        {END: "return head_output @ columns.T + out_proj.bias / weights.shape[1]"},
        "give each head a share of the bias",
        "It belongs to no head",
    ),
    Slip(
        {END: f"return {LAYER} / weights.shape[1]"},
        "divide the layer output by the number of heads",
        "Heads do not add equal shares",
    ),
    Slip(
        {START: f"head = (head - 1) % weights.shape[1]\n    {START}"},
        "count the heads from 1",
        "Head 0 is the first",
    ),
    Slip(
        {START: f"head = weights.shape[1] - 1 - head\n    {START}"},
        "count the heads from the last one on",
        "Head 0 is the first",
    ),
    Slip(
        {END: "return head_output.repeat(1, 1, weights.shape[1]) @ out_proj.weight.T"},
        "send the head's output through the columns of all heads",
        "Each head has columns of its own: this one from head * head_dim on, head_dim of them",
    ),
    Slip(
        {
            END: "side = torch.zeros(*head_output.shape[:2], out_proj.in_features)\n"
            "    side[..., start : start + head_dim] = head_output\n    return side"
        },
        "set the head's output beside zeros, and do not project it",
        "The layer output is what out_proj.weight makes of it: multiply by that, without the bias",
    ),
    Slip(
        {START: f"head = 0\n    {START}"},
        "always take head 0",
        "Take the head whose number is given, `head`",
    ),
    Slip(
        {START: "start = 0"},
        "use the first head_dim columns of the projection for every head",
        "Head h owns the head_dim columns from h * head_dim on",
    ),
    *(
        Slip(
            {START: f"start = (head {by} 1) * head_dim"},
            f"take the columns of the head {where}, head {by} 1",
            "Heads count from 0, and so do columns: those of head h begin at h * head_dim",
        )
        for by, where in (("-", "before"), ("+", "behind"))
    ),
    Slip(
        {END: "return head_output @ columns.T / weights.shape[1]"},
        "divide what the head adds by the number of heads",
        "The heads' parts are added up, with no mean: each counts whole",
    ),
    Slip(
        {HEAD: "head_output = weights[:, head].softmax(dim=-1) @ values[:, head]"},
        "apply the softmax once more, to the weights",
        "They are weights already: their rows sum to 1",
    ),
    Slip(
        {END: f"return {LAYER}"},
        "give the whole layer output",
        "Only one head's part is asked for: the layer output is the sum of all and the bias",
    ),
    Slip(
        {END: f"return {LAYER} - out_proj.bias"},
        "give what all heads add together",
        "Only one head's part is asked for",
    ),
    *(
        Slip(
            {END: f"return {LAYER}{bias} - head_output @ columns.T"},
            "give what is left without this head",
            "What this head adds is asked for, the other part of that difference",
        )
        for bias in ("", " - out_proj.bias")
    ),
    Slip(
        {COLUMNS: "out_proj.weight[:, start:]"},
        "take all columns from the head's first one on",
        "A head has head_dim of them: out_proj.weight[:, start : start + head_dim]",
    ),
    Slip(
        {HEAD: "head_output = weights[head] @ values[head]"},
        "take picture number head in place of the head",
        "Axis 0 counts the pictures, axis 1 the heads: weights[:, head]",
    ),
    *(
        Slip(
            {HEAD: f"head_output = {product}"},
            "take the row of a token in place of a head",
            "Of weights and values axis 1 counts the heads, and axis 2 the tokens: values[:, head]",
        )
        for product in (
            "weights[:, head] @ values[:, :, head]",
            "weights[:, :, head] @ values[:, :, head]",
            "weights[:, :, head] @ values[:, head]",
        )
    ),
    Slip(
        {HEAD: "head_output = values[:, head]"},
        "leave out the weights",
        "The head output is weights[:, head] @ values[:, head], what the head gathers",
    ),
    Slip(
        {HEAD: "head_output = weights[:, head].mT @ values[:, head]"},
        "transpose the weights",
        "A row belongs to one query, so it is weights[:, head] @ values[:, head]",
    ),
    Slip(
        {HEAD: "head_output = weights.mean(dim=1) @ values[:, head]"},
        "average the weights over the heads",
        "This head gathers with its own, weights[:, head]",
    ),
    Slip(
        {COLUMNS: "out_proj.weight[:, head :: weights.shape[1]]"},
        "take every num_heads-th column of the projection",
        "The heads stand side by side, so head h owns the head_dim columns from h * head_dim on",
    ),
    Slip(
        {END: "return head_output"},
        "stop at the head output",
        "It must still go through this head's columns of the output projection",
    ),
    *(
        Slip(
            edit,
            "take rows of out_proj.weight, or its columns without .T",
            "nn.Linear computes x Wᵀ, so what comes in meets the columns, and they are transposed",
        )
        for edit in (
            {END: "return head_output @ columns"},
            {COLUMNS: "out_proj.weight[start : start + head_dim]"},
        )
    ),
    Slip(
        {START: "start = head * 32", COLUMNS: "out_proj.weight[:, start : start + 32]"},
        "write 32 for head_dim",
        "Heads have other sizes, too. Take values.shape[-1]",
    ),
    Slip(
        {END: "return out_proj(head_output)"},
        "send the output of one head through the whole out_proj",
        "It takes the outputs of all heads side by side, and a head has head_dim of its columns",
    ),
)

EXERCISE = Exercise(
    answer=my_head_contribution,
    compare=compare,
    stars=2,
    slips=SLIPS,
    more=more,
    notice=notice,
    hints=(
        (
            "Set the numbers of all other heads to zero before the projection: which entries of the"
            " matrix still matter?"
        ),
        (
            "The head output is weights[:, head] @ values[:, head], (n, seq_length, head_dim). Its"
            " block is out_proj.weight[:, head * head_dim : (head + 1) * head_dim], (hidden_dim,"
            " head_dim). Leave out the bias."
        ),
    ),
    same=(
        {
            HEAD: "projected = values[:, head] @ columns.T",
            END: "return weights[:, head] @ projected",
        },
        {HEAD: "heads = weights @ values\n    head_output = heads[:, head]"},
        {
            HEAD: "alone = torch.zeros_like(values)\n    alone[:, head] = values[:, head]",
            END: (
                "return nn.functional.linear((weights @ alone).transpose(1, 2).flatten(2),"
                " out_proj.weight)"
            ),
        },
    ),
)
